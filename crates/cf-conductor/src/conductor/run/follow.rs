//! Looks at GitHub while a batch runs: when they begin, and what their answers do when they arrive.
//!
//! A look is a future that the loop polls while it waits, one for each host; nothing waits for it but tasks that are
//! about to start, and those not for ever. When it arrives, answers and comments are stored in one transaction, and the
//! tasks whose answers changed are asked about in the next turn. Dropping a look loses nothing.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use cf_core::{Actor, BlockerStatus, EventType, Phase, TaskId, Timestamp};
use cf_github::{Answer, Comments, FoundAsk, LinkAsk, Notice, NoticeKind, Proof, Saved};
use cf_reconcile::GONE_PASSES;

use super::{Conductor, ConductorError};
use crate::github::{GithubSource, comments_of, keep};
use crate::source::github::{closing, observe};
use crate::store::event::Event;
use crate::store::follow::{LinkRow, NewComment};
use crate::store::{Durability, Result as StoreResult, Tx};

/// The shortest time between two requests to a host, also of two processes.
const FLOOR: Duration = Duration::from_millis(100);

/// How long to wait while another process of the workspace looks at the same host; its answers are shared then.
const SHARED: Duration = Duration::from_millis(150);

/// How often one link is followed to where it has moved, before that is taken for a circle.
const MOVES: u8 = 5;

/// What is followed, and how.
pub(super) struct Follower {
    source: GithubSource,
    /// The members' links, as they were read last.
    rows: HashMap<TaskId, Vec<LinkRow>>,
    /// On the loop's clock, when each host was asked about everything last.
    asked: HashMap<String, Duration>,
    looks: Vec<Look>,
    /// What each link's answer looked like, to tell what changed.
    marks: HashMap<i64, u64>,
    /// When each link's item changed last, by the tracker's clock.
    updated: HashMap<i64, Timestamp>,
    gone_said: HashSet<i64>,
    moves: HashMap<i64, u8>,
    /// What was learned and could not be stored yet.
    unsaved: Saved,
    notices: Vec<Notice>,
    /// Locks of hosts that were asked a moment ago, and when they are given back.
    cooling: Vec<(Instant, File)>,
    /// On the loop's clock, when to try again because another process looks.
    retry_at: Option<Duration>,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower")
            .field("links", &self.rows.len())
            .field("looks", &self.looks.len())
            .finish_non_exhaustive()
    }
}

/// A look that is under way.
struct Look {
    host: String,
    answers: Pin<Box<dyn Future<Output = Vec<Answer>>>>,
    rows: Vec<LinkRow>,
    /// The tasks that wait for it.
    starts: Vec<TaskId>,
    asked_at: Timestamp,
    lock: File,
}

/// A look whose answers are there.
#[derive(Debug)]
pub(super) struct Arrival {
    host: String,
    answers: Vec<(LinkRow, Answer)>,
    starts: Vec<TaskId>,
    asked_at: Timestamp,
}

impl Follower {
    fn new(source: GithubSource) -> Self {
        Self {
            source,
            rows: HashMap::new(),
            asked: HashMap::new(),
            looks: Vec::new(),
            marks: HashMap::new(),
            updated: HashMap::new(),
            gone_said: HashSet::new(),
            moves: HashMap::new(),
            unsaved: Saved::default(),
            notices: Vec::new(),
            cooling: Vec::new(),
            retry_at: None,
        }
    }

    fn hosts(&self) -> BTreeSet<String> {
        self.rows
            .values()
            .flatten()
            .map(|row| row.link.host.clone())
            .collect()
    }

    fn is_due(&self, host: &str, clock: Duration) -> bool {
        self.asked
            .get(host)
            .is_none_or(|at| clock.saturating_sub(*at) >= self.source.interval(host))
    }

    /// How long until something is to be done without being woken.
    fn longest_wait(&self, clock: Duration) -> Option<Duration> {
        let due = self
            .asked
            .iter()
            .map(|(host, at)| (*at + self.source.interval(host)).saturating_sub(clock));
        let settled = self.source.settling().into_iter().map(|(_, until)| {
            Duration::try_from(until.duration_since(Timestamp::now())).unwrap_or_default()
        });
        let retry = self.retry_at.map(|at| at.saturating_sub(clock));
        let cooled = (!self.cooling.is_empty()).then_some(FLOOR);
        due.chain(settled).chain(retry).chain(cooled).min()
    }

    /// What is asked about one link.
    fn ask(&self, row: &LinkRow, starts: bool, phase: Phase) -> LinkAsk {
        // Comments that were there before are read with the look before the first start; before that, only when
        // something has happened since the link was made.
        let moved = self
            .updated
            .get(&row.pk)
            .is_some_and(|at| at.as_second() >= row.created_at.as_second());
        let talks = starts || row.comments_seen.is_some() || phase == Phase::Running || moved;
        LinkAsk {
            link: row.link.clone(),
            fresh_within: self.source.interval(&row.link.host),
            proof: if starts { Proof::Exact } else { Proof::Listed },
            comments: comments_of(row).filter(|_| talks),
            found: if starts {
                FoundAsk::Now
            } else {
                FoundAsk::WhenMoved
            },
        }
    }
}

/// The next look that arrives; never, while none is under way.
pub(super) async fn next_arrival(follower: &mut Option<Follower>) -> Arrival {
    let Some(follower) = follower else {
        return std::future::pending().await;
    };
    let (at, answers) = std::future::poll_fn(|context| {
        for (at, look) in follower.looks.iter_mut().enumerate() {
            if let Poll::Ready(answers) = look.answers.as_mut().poll(context) {
                return Poll::Ready((at, answers));
            }
        }
        Poll::Pending
    })
    .await;
    let look = follower.looks.swap_remove(at);
    follower.cooling.push((Instant::now() + FLOOR, look.lock));
    Arrival {
        host: look.host,
        answers: look.rows.into_iter().zip(answers).collect(),
        starts: look.starts,
        asked_at: look.asked_at,
    }
}

impl Conductor<'_> {
    /// Begins to follow GitHub, when it is on and passes are.
    pub(super) fn begin_following(&mut self) -> Result<(), ConductorError> {
        let Some(source) = self.setup.github.clone() else {
            return Ok(());
        };
        source.configure(&self.core.settings);
        if self.core.passes_off() {
            return Ok(());
        }
        let core = &self.core;
        let rows = self.store.read(|reader| {
            if !reader.has_links()? {
                return Ok(HashMap::new());
            }
            let mut rows = reader.all_link_rows()?;
            rows.retain(|task, _| core.schedule.row(*task).is_some());
            if !rows.is_empty() {
                source.load(reader)?;
            }
            Ok(rows)
        })?;
        self.core.linked = rows.keys().copied().collect();
        let mut follower = Follower::new(source);
        follower.rows = rows;
        self.follower = Some(follower);
        Ok(())
    }

    /// Takes in links that were made or removed while the batch runs.
    pub(super) fn relink(&mut self) -> Result<(), ConductorError> {
        let Some(follower) = &mut self.follower else {
            return Ok(());
        };
        for task in &self.news.changed {
            if self.core.schedule.row(*task).is_none() {
                continue;
            }
            let rows = self.store.read(|reader| reader.link_rows(*task))?;
            let known = follower.rows.get(task).map_or(&[][..], Vec::as_slice);
            for row in &rows {
                if known.iter().all(|known| known.link != row.link) {
                    follower.asked.remove(&row.link.host);
                }
            }
            if rows.is_empty() {
                follower.rows.remove(task);
                self.core.linked.remove(task);
            } else {
                follower.rows.insert(*task, rows);
                self.core.linked.insert(*task);
            }
        }
        Ok(())
    }

    /// Begins the looks that are due: at everything by the interval, and at what tasks that are about to start are
    /// linked to.
    pub(super) fn follow(&mut self) -> Result<(), ConductorError> {
        let Some(follower) = &mut self.follower else {
            return Ok(());
        };
        follower.source.taking_in(None);
        let now = Instant::now();
        follower.cooling.retain(|(until, _)| *until > now);
        if self.only_pass {
            return Ok(());
        }
        self.core.give_up_waiting();
        let settled = follower.source.settling();
        self.core.relook.extend(
            settled
                .iter()
                .filter(|(_, until)| *until <= Timestamp::now())
                .map(|(task, _)| *task),
        );
        let clock = self.core.clock;
        let wanted = self.core.looks_wanted();
        for task in &wanted {
            if !follower.rows.contains_key(task) {
                self.core.look_ends(*task);
            }
        }
        if follower.retry_at.is_some_and(|at| at > clock) {
            return Ok(());
        }
        let hosts: Vec<String> = follower
            .hosts()
            .into_iter()
            .filter(|host| !follower.looks.iter().any(|look| look.host == *host))
            .filter(|host| {
                let waits = |task: &TaskId| {
                    follower
                        .rows
                        .get(task)
                        .is_some_and(|rows| rows.iter().any(|row| row.link.host == *host))
                };
                follower.is_due(host, clock) || wanted.iter().any(waits)
            })
            .collect();
        if hosts.is_empty() {
            return Ok(());
        }
        let core = &self.core;
        let (source, links) = (&follower.source, &mut follower.rows);
        self.store.read(|reader| {
            *links = reader.all_link_rows()?;
            links.retain(|task, _| core.schedule.row(*task).is_some());
            source.load(reader)
        })?;
        follower.retry_at = None;
        for host in hosts {
            let starts: Vec<TaskId> = wanted
                .iter()
                .copied()
                .filter(|task| {
                    let rows = follower.rows.get(task);
                    rows.is_some_and(|rows| rows.iter().any(|row| row.link.host == host))
                })
                .collect();
            let Some(lock) = self.setup.workspace.lock_host(&host)? else {
                follower.retry_at = Some(clock + SHARED);
                continue;
            };
            for task in &starts {
                self.core.look_is_under_way(*task, true);
            }
            let due = follower.is_due(&host, clock);
            let mut rows = Vec::new();
            let mut asks = Vec::new();
            for (task, links) in &follower.rows {
                let is_start = starts.contains(task);
                let Some(phase) = self.core.schedule.row(*task).map(|row| row.phase) else {
                    continue;
                };
                for row in links.iter().filter(|row| row.link.host == host) {
                    if due || is_start {
                        asks.push(follower.ask(row, is_start, phase));
                        rows.push(row.clone());
                    }
                }
            }
            if due {
                follower.asked.insert(host.clone(), clock);
            }
            let source = follower.source.clone();
            follower.looks.push(Look {
                host,
                answers: Box::pin(async move { source.client().look(&asks).await }),
                rows,
                starts,
                asked_at: Timestamp::now(),
                lock,
            });
        }
        Ok(())
    }

    /// Stores what arrived, and has the tasks looked at that it concerns. Called again with the same arrival when the
    /// store refuses for a moment.
    pub(super) fn arrive(&mut self, arrival: &Arrival) -> Result<(), ConductorError> {
        let Some(follower) = &mut self.follower else {
            return Ok(());
        };
        let learned = follower.source.client().take_changed();
        follower.unsaved.snapshots.extend(learned.snapshots);
        follower.unsaved.marks.extend(learned.marks);
        follower.unsaved.hosts.extend(learned.hosts);
        follower.notices.extend(follower.source.take_notices());
        let mut arriving = Arriving {
            follower,
            core_batch: self.core.batch,
            held: self
                .core
                .linked
                .iter()
                .copied()
                .filter(|task| {
                    let row = self.core.schedule.row(*task);
                    row.is_some_and(|row| row.phase == Phase::Held)
                })
                .collect(),
            concerned: BTreeSet::new(),
            moved: Vec::new(),
            gone: Vec::new(),
        };
        let by = Actor::Batch(arriving.core_batch);
        let ((), events) = self
            .store
            .write_as(&by, Durability::Normal, |tx| arriving.store(tx, arrival))?;
        let Arriving {
            concerned,
            moved,
            gone,
            ..
        } = arriving;
        let follower = self.follower.as_mut().expect("it was there just now");
        follower.unsaved = Saved::default();
        follower.notices.clear();
        follower.gone_said.extend(gone);
        for (row, answer) in &arrival.answers {
            follower.marks.insert(row.pk, observe::fingerprint(answer));
            if let Answer::Known(known) = answer {
                follower.updated.insert(row.pk, known.item.updated_at);
            }
        }
        for (pk, host) in &moved {
            *follower.moves.entry(*pk).or_default() += 1;
            follower.asked.remove(host);
        }
        follower.source.taking_in(Some(arrival.asked_at));
        let running = |task: &TaskId| {
            self.core
                .schedule
                .row(*task)
                .is_some_and(|row| row.phase == Phase::Running)
        };
        // The agent's time to end by itself may be over since.
        let closed: BTreeSet<TaskId> = arrival
            .answers
            .iter()
            .filter(|(row, answer)| running(&row.task) && observe::is_closed(answer))
            .map(|(row, _)| row.task)
            .collect();
        self.core.relook.extend(concerned);
        self.core.relook.extend(closed);
        let waits_on: BTreeSet<TaskId> = arrival
            .answers
            .iter()
            .filter(|(row, _)| moved.iter().any(|(pk, _)| *pk == row.pk))
            .map(|(row, _)| row.task)
            .collect();
        for task in &arrival.starts {
            if waits_on.contains(task) {
                self.core.look_is_under_way(*task, false);
            } else if !self.is_looked_at(*task, &arrival.host) {
                self.core.look_ends(*task);
            }
        }
        self.wrote_aside(&events);
        Ok(())
    }

    /// Whether another host is still being asked for this task.
    fn is_looked_at(&self, task: TaskId, but: &str) -> bool {
        self.follower.as_ref().is_some_and(|follower| {
            follower
                .looks
                .iter()
                .any(|look| look.host != but && look.starts.contains(&task))
        })
    }

    /// Gives agents that run what was told about their tasks.
    pub(super) fn give_contexts(&mut self) {
        for (attempt, comments) in std::mem::take(&mut self.core.contexts) {
            let from = self.core.settings.github.comments_from;
            let appended =
                super::super::context::append(&self.setup.workspace, attempt, &comments, from);
            if let Err(error) = appended {
                // They are in the next prompt all the same.
                tracing::warn!(%attempt, %error, "cannot append to a context file");
            }
        }
    }

    /// How long until following has something to do without being woken.
    pub(super) fn longest_follow_wait(&self) -> Option<Duration> {
        let follower = self.follower.as_ref().filter(|_| !self.only_pass)?;
        follower
            .longest_wait(self.core.clock)
            .into_iter()
            .chain(self.core.longest_gate_wait())
            .min()
    }
}

/// The transaction of an arrival, and what it finds.
struct Arriving<'f> {
    follower: &'f Follower,
    core_batch: cf_core::BatchId,
    /// Members that are held.
    held: HashSet<TaskId>,
    /// Tasks to be looked at.
    concerned: BTreeSet<TaskId>,
    /// Links that moved, and the host that they moved to.
    moved: Vec<(i64, String)>,
    gone: Vec<i64>,
}

impl Arriving<'_> {
    fn store(&mut self, tx: &mut Tx<'_>, arrival: &Arrival) -> StoreResult<()> {
        self.concerned.clear();
        self.moved.clear();
        self.gone.clear();
        keep(tx, &self.follower.unsaved)?;
        for (row, answer) in &arrival.answers {
            let changed = self.follower.marks.get(&row.pk) != Some(&observe::fingerprint(answer));
            if changed {
                self.concerned.insert(row.task);
            }
            let starts = arrival.starts.contains(&row.task);
            if changed || starts || !matches!(answer, Answer::Known(_)) || has_comments(answer) {
                self.one(tx, row, answer, changed || starts)?;
            }
        }
        for (task, _) in tx.reader().tasks_with_untold_comments()? {
            self.concerned.insert(task);
        }
        for notice in &self.follower.notices {
            tx.append(told(notice).batch(self.core_batch))?;
        }
        Ok(())
    }

    fn one(
        &mut self,
        tx: &mut Tx<'_>,
        row: &LinkRow,
        answer: &Answer,
        pins: bool,
    ) -> StoreResult<()> {
        // It may have been removed, or moved by another process, since it was asked about.
        let Some(row) = tx
            .reader()
            .link_row(row.pk)?
            .filter(|now| now.link == row.link)
        else {
            return Ok(());
        };
        match answer {
            Answer::Known(known) => {
                if let Comments::Read(read) = &known.comments {
                    self.comments(tx, &row, read)?;
                }
            }
            Answer::Moved { to, .. } => {
                let times = self.follower.moves.get(&row.pk).copied().unwrap_or(0);
                if times < MOVES && *to != row.link {
                    tx.move_link(&row, to)?;
                    self.moved.push((row.pk, to.host.clone()));
                }
                return Ok(());
            }
            Answer::Gone(gone) => {
                if gone.looks >= GONE_PASSES && !self.follower.gone_said.contains(&row.pk) {
                    self.gone.push(row.pk);
                    tx.append(
                        Event::new(EventType::SourceNotice)
                            .task(row.task)
                            .batch(self.core_batch)
                            .with("source", "github")
                            .with("reason", "linked issue is gone")
                            .with("url", row.link.url())
                            .with(
                                "text",
                                format!("{} {}; the task goes on without it", row.link, gone.how),
                            ),
                    )?;
                }
                return Ok(());
            }
            Answer::Unknown { .. } => return Ok(()),
        }
        if observe::is_open(answer)
            && let Some(question) = row.question
        {
            self.settle_question(tx, &row, question)?;
        }
        if pins && observe::is_closed(answer) {
            let by_hand = tx.reader().set_ready_by_hand(row.task)?;
            let overruled = closing::overruled(&tx.reader(), &row, by_hand)?;
            let closings = observe::closings_of(&row, answer);
            if let Some(spent) = closing::to_pin(&row, &closings, overruled) {
                tx.spend(row.pk, &spent)?;
            }
        }
        Ok(())
    }

    /// The pull request is open again, so that nobody need say what is to be done about its closing.
    fn settle_question(
        &mut self,
        tx: &mut Tx<'_>,
        row: &LinkRow,
        question: cf_core::BlockerId,
    ) -> StoreResult<()> {
        if tx.reader().blocker(question)?.status == BlockerStatus::Open {
            let by = Actor::Github(row.link.host.clone());
            if self.held.contains(&row.task) {
                tx.resolve_for(&by, question, row.task)?;
            } else {
                let own = std::mem::replace(&mut tx.actor, by);
                let resolved = tx.resolve(question);
                tx.actor = own;
                resolved?;
            }
            self.concerned.insert(row.task);
        }
        tx.set_link_question(row.pk, None)
    }

    /// Stores comments with the watermark: what is newer than the link is news; of what is older, the last ones by
    /// people who are trusted are context.
    fn comments(
        &mut self,
        tx: &mut Tx<'_>,
        row: &LinkRow,
        read: &cf_github::Read,
    ) -> StoreResult<()> {
        let kept: Vec<NewComment<'_>> = read
            .list
            .iter()
            .filter(|comment| observe::is_kept(comment))
            .filter_map(|comment| {
                let news = observe::is_news(row, comment);
                let trusted = comment.association.is_trusted();
                (news || trusted).then(|| NewComment {
                    remote_id: &comment.id,
                    author: comment.author.as_deref().unwrap_or("ghost"),
                    trusted,
                    body: &comment.body,
                    at: comment.created_at,
                    news,
                })
            })
            .collect();
        let since = read.list.iter().map(|comment| comment.created_at).max();
        let is_same = row.comments_seen == Some(read.up_to) && row.comments_since >= since;
        if !(is_same && kept.is_empty()) {
            tx.store_comments(row, &kept, read.up_to, since)?;
        }
        Ok(())
    }
}

const fn has_comments(answer: &Answer) -> bool {
    matches!(
        answer,
        Answer::Known(cf_github::Known {
            comments: Comments::Read(_),
            ..
        })
    )
}

/// The event of something that a person should hear.
fn told(notice: &Notice) -> Event {
    let kind = match notice.what {
        NoticeKind::Opened { .. } | NoticeKind::Off { .. } => EventType::SourceUnavailable,
        NoticeKind::Closed => EventType::SourceAvailable,
    };
    Event::new(kind)
        .with("source", "github")
        .with("host", notice.host.as_str())
        .with("text", notice.to_string())
}
