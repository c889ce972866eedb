//! What happens after the commit: agents are started and stopped, and their ends are heard.
//!
//! Nothing here decides: whatever is done follows from what has been stored.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::super::begin::TICK;
use super::super::launch::{self, Launch};
use super::super::turn::AtGate;
use super::super::{ConductorError, Notice, recover};
use super::waiting::{any_signal, ready};
use super::{Conductor, files_for};
use crate::executor::{Adopted, Executor, ExecutorError, Fate, Note};
use crate::{fault, process};

/// After how many failed tries, a second apart, a batch without any supervisor gives up.
const FAILED_STARTS: u32 = 10;

impl Conductor<'_> {
    pub(super) fn effects(&mut self) -> Result<(), ConductorError> {
        for supervisor in std::mem::take(&mut self.core.released) {
            self.executor.release(supervisor);
        }
        for launch in std::mem::take(&mut self.core.launches) {
            if launch.tree.is_some() && launch.stage == crate::supervise::Stage::Agent {
                self.prepare_tree(launch);
            } else {
                self.launch(&launch);
            }
        }
        for keep in std::mem::take(&mut self.core.keeps) {
            self.keep(keep);
        }
        for tidy in std::mem::take(&mut self.core.tidies) {
            self.tidy(tidy);
        }
        self.give_contexts();
        for (attempt, _, grace) in std::mem::take(&mut self.core.stops) {
            let running = self
                .core
                .by_attempt
                .get(&attempt)
                .and_then(|task| self.core.running.get(task));
            self.trees.cancel(attempt);
            if let Some(supervisor) = running.map(|running| running.identity.supervisor) {
                let grace = if self.signals_seen > 1 {
                    Duration::ZERO
                } else {
                    grace
                };
                self.executor.stop(supervisor, grace)?;
                fault::point("stop.sent");
            }
        }
        Ok(())
    }

    /// Writes an attempt's files and opens the gate. When that fails here, its agent never started; when the job itself
    /// is impossible, trying again would not help.
    pub(super) fn launch(&mut self, launch: &Launch) {
        let supervisor = launch.identity.supervisor;
        let directory = self.trees.directory(self.setup, launch);
        let made = launch::job(
            self.setup,
            &self.store,
            &self.core,
            launch,
            &directory,
            self.ahead.remove(&launch.attempt),
            &mut self.inherited,
        );
        let failed = |error: &dyn std::error::Error| Fate::SpawnFailed {
            error: crate::chain(error),
            passing: false,
        };
        let fate = match made {
            Ok(job) => {
                self.launch_trouble = false;
                fault::point("launch.prepared");
                let sent = self.executor.submit(supervisor, &job);
                fault::point("launch.sent");
                match sent {
                    Ok(()) => return,
                    // Nothing of it went through the gate.
                    Err(error @ ExecutorError::Job(_)) => failed(&error),
                    Err(_) => {
                        match self
                            .executor
                            .adopt(&launch.identity, launch.attempt, launch.stage)
                        {
                            // The supervisor has it after all, or may have it: its note will tell.
                            Ok(Adopted::Running | Adopted::Sweeping) => return,
                            Ok(Adopted::Settled(Fate::Ended(ended))) => Fate::Ended(ended),
                            _ => Fate::NeverStarted,
                        }
                    }
                }
            }
            Err(error) if error.is_passing() => {
                if !std::mem::replace(&mut self.launch_trouble, true) {
                    self.observer.notice(&Notice::Unavailable {
                        what: "start of an agent".to_owned(),
                        why: crate::chain(&error),
                    });
                }
                Fate::NeverStarted
            }
            Err(error) => failed(&error),
        };
        self.take_note(&Note {
            supervisor,
            attempt: launch.attempt,
            stage: launch.stage,
            fate,
        });
    }

    pub(super) fn take_note(&mut self, note: &Note) {
        fault::point("end.heard");
        self.sweeping.remove(&note.attempt);
        let running = self
            .core
            .by_attempt
            .get(&note.attempt)
            .and_then(|task| self.core.running.get(task));
        match running {
            Some(running) => {
                let judged = recover::judge(self.setup, running, note);
                if fault::is_broken("outcome.apart") {
                    let by = self.core.actor();
                    let apart = self
                        .store
                        .write(&by, |tx| tx.end_attempt(note.attempt, &judged.result));
                    tracing::debug!(is_stored = apart.is_ok(), "broken on purpose");
                }
                self.pending.push(judged);
            }
            None => self.executor.release(note.supervisor),
        }
    }

    /// Has as many supervisors at their gates as the next turn can use. A signal is heard meanwhile. One that is long
    /// in coming, or stopped, holds up nothing else: after two seconds at most the turn is taken with those that came.
    pub(super) async fn ready_supervisors(&mut self) -> Result<(), ConductorError> {
        if self.core.holds_off() || self.core.clock < self.short_until {
            return Ok(());
        }
        let wanted = self.core.wanted_at_gate();
        while self.core.at_gate.len() > wanted {
            let Some(extra) = self.core.at_gate.pop() else {
                break;
            };
            self.executor.release(extra.identity.supervisor);
        }
        let missing = wanted.saturating_sub(self.core.at_gate.len());
        let short = self.executor.warm(missing).err();
        let attainable = match &short {
            None => wanted,
            Some(_) => wanted.min(self.core.at_gate.len() + self.executor.at_hand()),
        };
        let begun = Instant::now();
        while self.core.at_gate.len() < attainable && begun.elapsed() < TICK {
            let acquired = tokio::select! {
                acquired = self.executor.acquire_soon() => Some(acquired),
                () = any_signal(&mut self.signals) => None,
            };
            match acquired {
                Some(Ok(None)) => break,
                Some(Ok(Some(identity))) => {
                    fault::point("supervisor.ready");
                    self.core.at_gate.push(AtGate { identity, jobs: 0 });
                }
                None => {
                    self.take_signals(1)?;
                    return Ok(());
                }
                // The signal of a terminal reaches a supervisor that has no session of its own yet.
                Some(Err(_)) if ready(any_signal(&mut self.signals)).is_some() => {
                    self.take_signals(1)?;
                    return Ok(());
                }
                Some(Err(error)) => return self.no_supervisor(error),
            }
        }
        if let Some(error) = short {
            return self.no_supervisor(error);
        }
        if self.core.at_gate.len() >= wanted {
            self.failed_starts = 0;
        }
        Ok(())
    }

    /// A supervisor could not be started. The batch goes on with those that there are and tries again; when there is
    /// none for a while, it cannot go on.
    pub(super) fn no_supervisor(&mut self, error: ExecutorError) -> Result<(), ConductorError> {
        self.failed_starts += 1;
        if self.failed_starts >= FAILED_STARTS
            && self.core.running.is_empty()
            && self.core.at_gate.is_empty()
        {
            return Err(error.into());
        }
        if self.failed_starts == 1 {
            let mut why = crate::chain(&error);
            if error.is_for_want_of_files() {
                let slots = self.core.settings.slots();
                let _ = write!(
                    why,
                    "; {slots} agents at once need up to {} open files, and the limit is {}: raise it (`ulimit -Hn`), \
                     or ask for fewer (--max-parallel)",
                    files_for(slots),
                    process::most_files().unwrap_or_default()
                );
            }
            self.observer.notice(&Notice::Unavailable {
                what: "start of an agent".to_owned(),
                why,
            });
        }
        self.short_until = self.core.clock + TICK;
        Ok(())
    }
}
