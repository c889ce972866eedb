//! Whose the orphans at this process are: what is left alone, and what a dead supervisor must have left.
//!
//! Orphans come to this process (a subreaper) from three sides: from supervisors that were killed, from supervisors
//! that ended and deliberately left something alone, and from whatever else this program or its caller started. As long
//! as a supervisor lives, nothing from below it comes here; so what is here while all of them live is none of theirs,
//! ever. For what comes later only a doubt that is ruled out makes it a root of a sweep.

use std::collections::{HashMap, HashSet};

use cf_core::{AttemptId, SupervisorId};

use super::LocalExecutor;
use crate::executor::slot::{Slot, State, Who};
use crate::process::{Identity, Process, Stat, adopted, mark_of, stat};
use crate::supervise::{Record, read_records};

/// Orphans that are left alone.
#[derive(Debug, Default)]
pub(super) struct Tolerated {
    /// Number and start of each, and its session, to which what it starts belongs as well.
    sessions: HashMap<(i32, u64), i32>,
    /// Whether a supervisor that left more than it could list has ended since the last look: what is new may be of it.
    unclear: bool,
}

impl Tolerated {
    fn has(&self, orphan: &Stat) -> bool {
        self.sessions
            .contains_key(&(orphan.pid, orphan.start_ticks))
    }

    fn add(&mut self, orphan: &Stat) {
        self.sessions
            .insert((orphan.pid, orphan.start_ticks), orphan.session);
    }

    /// Takes in what a record lists. What is gone already needs no toleration.
    pub(super) fn add_listed(&mut self, listed: &[Process]) {
        for process in listed {
            if let Ok(now) = stat(process.pid)
                && now.start_ticks == process.start_ticks
            {
                self.add(&now);
            }
        }
    }

    /// A supervisor has ended that left more alone than its record lists.
    pub(super) const fn unlisted_came(&mut self) {
        self.unclear = true;
    }

    /// Forgets what has ended.
    fn prune(&mut self) {
        self.sessions.retain(|(pid, start_ticks), _| {
            stat(*pid).is_ok_and(|now| now.start_ticks == *start_ticks && now.runs())
        });
    }
}

impl LocalExecutor {
    /// Takes in which orphans are here. What is new is none of the living supervisors', and so is left alone.
    pub(super) fn look_at_orphans(&mut self, orphans: &[Stat]) {
        if !self.options.subreaper {
            return;
        }
        let new = orphans.iter().any(|orphan| !self.tolerated.has(orphan));
        // To be asked after the look: who lives now lived then.
        if new && self.somebody_died_unnoticed() {
            return;
        }
        if new {
            self.tolerated.prune();
        }
        for orphan in orphans {
            self.tolerated.add(orphan);
        }
        self.tolerated.unclear = false;
    }

    fn somebody_died_unnoticed(&self) -> bool {
        self.slots.iter().any(|(id, slot)| {
            matches!(slot.state, State::Busy { .. })
                && !self.sweeping.contains(id)
                && has_died(slot)
        })
    }

    /// The orphans at this process that can only come from an own supervisor that was killed.
    pub(super) fn roots(&mut self, id: SupervisorId, attempt: AttemptId) -> Vec<Process> {
        let Some(Slot {
            who:
                Who::Own {
                    identity: Some(Identity { start_ticks, .. }),
                    ..
                },
            ..
        }) = self.slots.get(&id)
        else {
            // What is below somebody else's child does not come here.
            return Vec::new();
        };
        let start_ticks = *start_ticks;
        if !self.options.subreaper {
            return Vec::new();
        }
        let orphans = adopted(&self.own_children());
        // Others that died in the same moment may have left something alone deliberately; their files tell.
        let mut sessions: HashSet<i32> = HashSet::new();
        let dead: Vec<SupervisorId> = self
            .slots
            .iter()
            .filter(|(other, slot)| **other != id && has_died(slot))
            .map(|(other, slot)| {
                sessions.extend(slot.own_pid());
                *other
            })
            .collect();
        for other in dead {
            for record in read_records(&self.file(other)).unwrap_or_default() {
                if let Record::Ended(ended) = record
                    && !ended.unfinished
                {
                    self.tolerated.add_listed(&ended.survivors);
                    self.tolerated.unclear |= ended.unlisted > 0;
                }
            }
        }
        if self.tolerated.unclear {
            tracing::warn!(
                supervisor = %id,
                "orphans that bear no mark are left alone: they may belong to a supervisor that ended meanwhile"
            );
            return Vec::new();
        }
        sessions.extend(self.tolerated.sessions.values());
        let attempt = attempt.to_string();
        orphans
            .iter()
            .filter(|orphan| !self.tolerated.has(orphan))
            .filter(|orphan| orphan.start_ticks >= start_ticks)
            .filter(|orphan| !sessions.contains(&orphan.session))
            .filter(|orphan| mark_of(orphan.pid).is_none_or(|mark| mark == attempt))
            .map(Stat::process)
            .collect()
    }
}

/// Whether an own supervisor has ended, noticed or not. It stays a zombie until it is waited for.
fn has_died(slot: &Slot) -> bool {
    slot.own_pid()
        .is_some_and(|pid| !stat(pid).is_ok_and(|now| now.runs()))
}
