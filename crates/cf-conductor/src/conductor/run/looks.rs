//! What is followed while a batch runs, and the looks that are under way: futures that the loop polls while it waits.
//! Dropping one loses nothing but its answers.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use cf_core::{Phase, TaskId, Timestamp};
use cf_github::{Answer, FoundAsk, LinkAsk, Notice, Proof, Saved};

use crate::github::{GithubSource, comments_of};
use crate::store::follow::LinkRow;

/// The shortest time between two requests to a host, also of two processes.
const FLOOR: Duration = Duration::from_millis(100);

/// What is followed, and how.
pub(super) struct Follower {
    pub(super) source: GithubSource,
    /// The members' links, as they were read last.
    pub(super) rows: HashMap<TaskId, Vec<LinkRow>>,
    /// The hosts that they are on.
    pub(super) hosts: BTreeSet<String>,
    /// On the loop's clock, when each host was asked about everything last.
    pub(super) asked: HashMap<String, Duration>,
    pub(super) looks: Vec<Look>,
    /// What each link's answer looked like, to tell what changed.
    pub(super) marks: HashMap<i64, u64>,
    /// When each link's item changed last, by the tracker's clock.
    pub(super) updated: HashMap<i64, Timestamp>,
    /// Links of which it was said that their target is gone.
    pub(super) gone_said: HashSet<i64>,
    /// How often each link has moved.
    pub(super) moves: HashMap<i64, u8>,
    /// What was learned and could not be stored yet.
    pub(super) unsaved: Saved,
    /// What a person should hear and was not stored yet.
    pub(super) notices: Vec<Notice>,
    /// Locks of hosts that were asked a moment ago, and when they are given back.
    pub(super) cooling: Vec<(Instant, File)>,
    /// On the loop's clock, when to try again because another process looks.
    pub(super) retry_at: Option<Duration>,
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
pub(super) struct Look {
    pub(super) host: String,
    pub(super) answers: Pin<Box<dyn Future<Output = Vec<Answer>>>>,
    pub(super) rows: Vec<LinkRow>,
    /// The tasks that wait for it.
    pub(super) starts: Vec<TaskId>,
    pub(super) asked_at: Timestamp,
    /// Held while the host is asked.
    pub(super) lock: Option<File>,
}

/// A look whose answers are there.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) host: String,
    /// What was asked about, and the answer.
    pub(super) answers: Vec<(LinkRow, Answer)>,
    /// The tasks that waited for it.
    pub(super) starts: Vec<TaskId>,
    pub(super) asked_at: Timestamp,
}

impl Follower {
    pub(super) fn new(source: GithubSource) -> Self {
        Self {
            source,
            rows: HashMap::new(),
            hosts: BTreeSet::new(),
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

    /// Takes in the members' links.
    pub(super) fn take_rows(&mut self, rows: HashMap<TaskId, Vec<LinkRow>>) {
        self.rows = rows;
        self.note_hosts();
    }

    pub(super) fn note_hosts(&mut self) {
        self.hosts.clear();
        for row in self.rows.values().flatten() {
            if !self.hosts.contains(&row.link.host) {
                self.hosts.insert(row.link.host.clone());
            }
        }
    }

    pub(super) fn is_under_way(&self, host: &str) -> bool {
        self.looks.iter().any(|look| look.host == host)
    }

    /// Whether a task is linked to something on a host.
    pub(super) fn leads_to(&self, task: TaskId, host: &str) -> bool {
        self.rows
            .get(&task)
            .is_some_and(|rows| rows.iter().any(|row| row.link.host == host))
    }

    pub(super) fn is_due(&self, host: &str, clock: Duration) -> bool {
        self.asked
            .get(host)
            .is_none_or(|at| clock.saturating_sub(*at) >= self.source.interval(host))
    }

    /// How long until something is to be done without being woken.
    pub(super) fn longest_wait(&self, clock: Duration) -> Option<Duration> {
        let next = match self.retry_at {
            Some(at) => Some(at.saturating_sub(clock)),
            None => self
                .hosts
                .iter()
                .filter(|host| !self.is_under_way(host))
                .filter_map(|host| {
                    let at = self.asked.get(host)?;
                    Some((*at + self.source.interval(host)).saturating_sub(clock))
                })
                .min(),
        };
        let cooled = (!self.cooling.is_empty()).then_some(FLOOR);
        [next, self.source.settles_in(), cooled]
            .into_iter()
            .flatten()
            .min()
    }

    /// What is asked about one link.
    pub(super) fn ask(&self, row: &LinkRow, starts: bool, phase: Phase) -> LinkAsk {
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
            comments: talks.then(|| comments_of(row)),
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
    if let Some(lock) = look.lock {
        follower.cooling.push((Instant::now() + FLOOR, lock));
    }
    Arrival {
        host: look.host,
        answers: look.rows.into_iter().zip(answers).collect(),
        starts: look.starts,
        asked_at: look.asked_at,
    }
}
