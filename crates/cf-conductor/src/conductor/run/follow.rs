//! Looks at GitHub while a batch runs: when they begin, and what their answers do when they arrive.
//!
//! A look is for one host; nothing waits for it but tasks that are about to start, and those not for ever. When it
//! arrives, answers and comments are stored in one transaction, and the tasks whose answers changed are asked about in
//! the next turn.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use cf_core::{Phase, TaskId, Timestamp};
use cf_github::{Answer, Saved};

use super::arrival::Arriving;
use super::looks::{Arrival, Follower, Look};
use super::{Conductor, ConductorError};
use crate::fault;
use crate::github::keep;
use crate::source::github::observe;
use crate::store::Durability;

/// How long to wait when the store refuses.
const REFUSED: Duration = Duration::from_secs(1);

/// A look that is younger at the batch's end says nothing, however short tasks wait for it.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// How long to wait while another process of the workspace looks at the same host; its answers are shared then.
const SHARED: Duration = Duration::from_millis(150);

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
        follower.take_rows(rows);
        self.follower = Some(follower);
        Ok(())
    }

    /// Takes in links that were made or removed while the batch runs.
    pub(super) fn relink(&mut self) -> Result<(), ConductorError> {
        let Some(follower) = &mut self.follower else {
            return Ok(());
        };
        for task in &self.news.changed {
            let may_have_links = self.core.linked.contains(task) || self.news.linked.contains(task);
            if !may_have_links || self.core.schedule.row(*task).is_none() {
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
            follower.note_hosts();
        }
        Ok(())
    }

    /// Begins the looks that are due: at everything by the interval, and at what tasks that are about to start are
    /// linked to.
    ///
    /// What refuses here is tried again: a source never fails a batch.
    pub(super) fn follow(&mut self) {
        let Some(follower) = &mut self.follower else {
            return;
        };
        follower.source.taking_in(None);
        let now = Instant::now();
        follower.cooling.retain(|(until, _)| *until > now);
        if self.only_pass {
            return;
        }
        self.core.give_up_waiting();
        self.core.relook.extend(follower.source.take_settled());
        let clock = self.core.clock;
        let wanted = self.core.looks_wanted();
        for task in &wanted {
            if !follower.rows.contains_key(task) {
                self.core.look_ends(*task);
            }
        }
        if follower.retry_at.is_some_and(|at| at > clock) {
            return;
        }
        let hosts: Vec<String> = follower
            .hosts
            .iter()
            .filter(|host| !follower.is_under_way(host))
            .filter(|host| {
                let waits = |task: &TaskId| follower.leads_to(*task, host);
                follower.is_due(host, clock) || wanted.iter().any(waits)
            })
            .cloned()
            .collect();
        follower.retry_at = None;
        if hosts.is_empty() {
            return;
        }
        let source = follower.source.clone();
        if let Err(error) = self.store.read(|reader| source.load(reader)) {
            tracing::warn!(error = crate::chain(&error), "cannot read cached answers");
            follower.retry_at = Some(clock + REFUSED);
            return;
        }
        for host in hosts {
            let starts: Vec<TaskId> = wanted
                .iter()
                .copied()
                .filter(|task| follower.leads_to(*task, &host))
                .collect();
            let lock = match self.setup.workspace.lock_host(&host) {
                Ok(Some(lock)) => Some(lock),
                Ok(None) => {
                    follower.retry_at = Some(clock + SHARED);
                    continue;
                }
                Err(error) => {
                    // Without it two processes may ask at the same time, which is no harm to speak of.
                    tracing::warn!(error = crate::chain(&error), "cannot lock a host");
                    None
                }
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
    }

    /// Stores what arrived, and has the tasks looked at that it concerns. Called again with the same arrival when the
    /// store refuses for a moment.
    pub(super) fn arrive(&mut self, arrival: &Arrival) -> Result<(), ConductorError> {
        let Some(follower) = &mut self.follower else {
            return Ok(());
        };
        let learned = follower.source.client().take_changed();
        follower.unsaved.extend(learned);
        follower.notices.extend(follower.source.take_notices());
        let mut arriving = Arriving {
            follower,
            batch: self.core.batch,
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
            touched: BTreeSet::new(),
        };
        let by = self.core.actor();
        fault::point("look.arrived");
        let ((), events) = self
            .store
            .write_as(&by, Durability::Normal, |tx| arriving.store(tx, arrival))?;
        fault::point("look.stored");
        let Arriving {
            concerned,
            moved,
            gone,
            touched,
            ..
        } = arriving;
        let follower = self.follower.as_mut().expect("it was there just now");
        follower.unsaved = Saved::default();
        follower.notices.clear();
        follower.gone_said.extend(gone);
        for task in touched {
            let rows = self.store.read(|reader| reader.link_rows(task))?;
            follower.rows.insert(task, rows);
        }
        for (row, answer) in &arrival.answers {
            follower.marks.insert(row.pk, observe::fingerprint(answer));
            if let Answer::Known(known) = answer {
                follower.updated.insert(row.pk, known.item.updated_at);
            }
        }
        for (pk, host) in &moved {
            *follower.moves.entry(*pk).or_default() += 1;
            follower.asked.remove(host);
            follower.note_hosts();
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

    /// Stores, at the batch's end, what looks have learned that are still under way, and that those which a task would
    /// not have waited for any longer brought no answer.
    pub(super) fn give_up_looks(&mut self) {
        let Some(follower) = &mut self.follower else {
            return;
        };
        let client = follower.source.client();
        let wait = self.core.settings.github.wait.max(SHORTEST_WAIT);
        for look in &follower.looks {
            let waited = Timestamp::now().duration_since(look.asked_at);
            let waited = Duration::try_from(waited).unwrap_or_default();
            if waited >= wait {
                for row in &look.rows {
                    client.give_up(&row.link, waited);
                }
            }
        }
        follower.unsaved.extend(client.take_changed());
        if follower.unsaved.is_empty() {
            return;
        }
        let (by, unsaved) = (self.core.actor(), &follower.unsaved);
        let kept = self
            .store
            .write_as(&by, Durability::Normal, |tx| keep(tx, unsaved));
        if let Err(error) = kept {
            // It is asked again.
            tracing::warn!(error = crate::chain(&error), "cannot cache answers");
        }
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
            fault::point("context.told");
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
