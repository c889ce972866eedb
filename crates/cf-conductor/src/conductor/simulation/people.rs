//! Everybody else: people at the command line, agents that speak, crashes, and whatever else happens by chance.

use std::collections::{BTreeMap, BTreeSet};

use cf_core::{Actor, AttemptEnd, AttemptId, BatchId, BlockerStatus, TaskId, TaskStatus};
use cf_reconcile::FailureCause;

use super::world::World;
use crate::ambient::simulated;
use crate::conductor::take_up::Again;
use crate::store::batch::Stop;
use crate::store::task::{Expect, TaskEdit};
use crate::store::{Result, StoreError, Tx};

impl World {
    /// An opportunity for the outside world.
    pub(super) fn meddle(&mut self) {
        // The store refuses conductors, not everybody else.
        let rate = simulated::refuse(0);
        while self.rng.chance(self.busy) {
            self.do_something();
        }
        simulated::refuse(rate);
    }

    fn do_something(&mut self) {
        let tasks = self.tasks.clone();
        let task = self.rng.pick(&tasks).expect("there are tasks");
        match self.rng.below(100) {
            0..=24 => {
                let to = self.rng.pick(TaskStatus::ALL).expect("there are statuses");
                if to == TaskStatus::Merged && self.rng.chance(70) {
                    return;
                }
                self.set_status(task, to);
            }
            25..=36 => self.close_blocker(),
            37..=41 => self.ask(&Actor::Cli, Some(task)),
            42..=54 => self.agent_speaks(),
            55..=56 if self.rng.chance(30) => {
                let name = self.name(task);
                self.say(|| format!("{name}: deleted"));
                self.try_write(&Actor::Cli, |tx| tx.delete_task(task, true));
            }
            57..=60 => self.add_edge(),
            61..=63 => {
                let name = self.name(task);
                let on = self
                    .store
                    .read(|reader| reader.depends_on(task))
                    .expect("edges are read");
                if let Some(on) = self.rng.pick(&on) {
                    self.say(|| format!("{name}: a dependency is removed"));
                    self.try_write(&Actor::Cli, |tx| tx.remove_dependency(task, on).map(drop));
                }
            }
            64..=65 => {
                let edit = TaskEdit {
                    priority: Some(self.rng.below(3) as i64),
                    ..TaskEdit::default()
                };
                self.try_write(&Actor::Cli, |tx| tx.edit_task(task, &edit).map(drop));
            }
            66..=71 => {
                let hold = self.rng.chance(30);
                self.stop_task(task, hold);
            }
            72..=73 => self.stop_some_batch(),
            74..=77 => self.start_batch(),
            78..=81 => self.crash_some(),
            82..=87 => self.resume_some(),
            88..=89 => self.clean_up_some(),
            90..=91 => self.pass_by_hand_over_some(),
            92 => self.join_some(),
            93 => {
                let live: Vec<usize> = self.live().collect();
                if let Some(which) = self.rng.pick(&live)
                    && self.rng.chance(40)
                {
                    self.signal(which);
                }
            }
            94..=95 => {
                // A supervisor dies, and its agent with it.
                let running: Vec<AttemptId> = self.agents.keys().copied().collect();
                if let Some(attempt) = self.rng.pick(&running) {
                    self.end_agent_as(attempt, (AttemptEnd::Lost, false, FailureCause::Lost));
                }
            }
            _ => {
                let ms = self.rng.between(1, 3000) as i64;
                self.pass_time(ms);
            }
        }
    }

    /// A write that may be refused, as people's are.
    pub(super) fn try_write(&mut self, by: &Actor, work: impl FnOnce(&mut Tx<'_>) -> Result<()>) {
        match self.store.write(by, work) {
            Ok(())
            | Err(
                StoreError::Refused { .. }
                | StoreError::Unknown { .. }
                | StoreError::Transition { .. }
                | StoreError::DependsOnItself(_)
                | StoreError::Cycle(_)
                | StoreError::NotForAgents { .. }
                | StoreError::StaleAttempt { .. },
            ) => {}
            Err(other) => panic!("{}", crate::chain(&other)),
        }
    }

    pub(super) fn set_status(&mut self, task: TaskId, to: TaskStatus) {
        let name = self.name(task);
        self.say(|| format!("{name}: set {to} by hand"));
        self.try_write(&Actor::Cli, |tx| {
            tx.set_status(task, to, Expect::Anything).map(drop)
        });
    }

    pub(super) fn ask(&mut self, by: &Actor, task: Option<TaskId>) {
        let name = task.map(|task| self.name(task)).unwrap_or_default();
        self.say(|| format!("{name}: {by} asks"));
        self.try_write(by, |tx| tx.ask(task, "which one?").map(drop));
    }

    fn close_blocker(&mut self) {
        let open = self
            .store
            .read(|reader| reader.blockers(None, Some(BlockerStatus::Open)))
            .expect("blockers are read");
        let open: Vec<_> = open
            .iter()
            .map(|blocker| (blocker.id, blocker.task))
            .collect();
        let Some((blocker, task)) = self.rng.pick(&open) else {
            return;
        };
        let name = task.map(|task| self.name(task)).unwrap_or_default();
        let answer = self.rng.chance(60);
        self.say(|| {
            format!(
                "{name}: a question is {}",
                if answer { "answered" } else { "resolved" }
            )
        });
        self.try_write(&Actor::Cli, |tx| {
            if answer {
                tx.answer(blocker, "the left one")
            } else {
                tx.resolve(blocker)
            }
            .map(drop)
        });
    }

    fn agent_speaks(&mut self) {
        let running: Vec<(AttemptId, TaskId)> = self
            .agents
            .values()
            .map(|agent| (agent.attempt, agent.task))
            .collect();
        let Some((attempt, task)) = self.rng.pick(&running) else {
            return;
        };
        let by = Actor::Attempt(attempt);
        if self.rng.chance(60) {
            self.ask(&by, None);
        } else {
            let to = if self.rng.chance(50) {
                TaskStatus::Done
            } else {
                TaskStatus::Failed
            };
            let name = self.name(task);
            self.say(|| format!("{name}: its agent reports {to}"));
            self.try_write(&by, |tx| {
                tx.set_status(task, to, Expect::Anything).map(drop)
            });
        }
    }

    pub(super) fn add_edge(&mut self) {
        let tasks = self.tasks.clone();
        let (Some(task), Some(on)) = (self.rng.pick(&tasks), self.rng.pick(&tasks)) else {
            return;
        };
        let names = (self.name(task), self.name(on));
        self.say(|| format!("{} depends on {}", names.0, names.1));
        self.try_write(&Actor::Cli, |tx| tx.add_dependency(task, on).map(drop));
    }

    /// `work stop`, as the command does it.
    pub(super) fn stop_task(&mut self, task: TaskId, hold: bool) {
        let name = self.name(task);
        self.say(|| {
            format!(
                "{name}: stopped by hand{}",
                if hold { ", held" } else { "" }
            )
        });
        self.try_write(&Actor::Cli, |tx| tx.request_task_stop(task, hold).map(drop));
    }

    fn stop_some_batch(&mut self) {
        let batches: Vec<BatchId> = self
            .conductors
            .iter()
            .map(|conductor| conductor.batch)
            .collect();
        let Some(batch) = self.rng.pick(&batches) else {
            return;
        };
        let stop = if self.rng.chance(50) {
            Stop::Force
        } else {
            Stop::Drain
        };
        self.say(|| format!("batch {} is to stop ({stop:?})", batch.short()));
        self.try_write(&Actor::Cli, |tx| tx.request_stop(batch, stop).map(drop));
    }

    pub(super) fn start_batch(&mut self) {
        if self.live().count() >= 3 || self.conductors.len() >= 8 {
            return;
        }
        let mut chosen: Vec<TaskId> = self.tasks.clone();
        chosen.retain(|task| {
            self.store
                .read(|reader| reader.task(*task))
                .is_ok_and(|task| !task.deleted)
                && self.rng.chance(80)
        });
        let settings = self.settings();
        let again = if self.rng.chance(15) {
            Again::Yes
        } else {
            Again::No
        };
        self.begin(&chosen, settings, again);
    }

    fn crash_some(&mut self) {
        let live: Vec<usize> = self.live().collect();
        if let Some(which) = self.rng.pick(&live) {
            self.crash(which);
        }
    }

    fn resume_some(&mut self) {
        let gone: Vec<usize> = (0..self.conductors.len())
            .filter(|which| self.conductors[*which].core.is_none() && self.out != Some(*which))
            .collect();
        if let Some(which) = self.rng.pick(&gone)
            && (self.conductors[which].is_orphan() || self.rng.chance(20))
        {
            self.resume(which);
        }
    }

    fn pass_by_hand_over_some(&mut self) {
        let orphans: Vec<usize> = (0..self.conductors.len())
            .filter(|which| self.conductors[*which].is_orphan() && self.out != Some(*which))
            .collect();
        if let Some(which) = self.rng.pick(&orphans) {
            self.pass_by_hand(which);
        }
    }

    /// `tasks add --batch`.
    fn join_some(&mut self) {
        let batches: Vec<BatchId> = self.conductors.iter().map(|c| c.batch).collect();
        let Some(batch) = self.rng.pick(&batches).filter(|_| self.tasks.len() < 12) else {
            return;
        };
        let spec = self.task_spec(self.tasks.len());
        let name = format!("t{}", self.tasks.len());
        self.say(|| format!("{name}: joins batch {}", batch.short()));
        let mut joined = None;
        self.try_write(&Actor::Cli, |tx| {
            let task = tx.add_task(&spec)?;
            tx.join_batch(batch, task)?;
            joined = Some(task);
            Ok(())
        });
        self.tasks.extend(joined);
        if spec.verify.is_some() {
            self.checker.to_verify.extend(joined);
        }
    }

    fn clean_up_some(&mut self) {
        let live: Vec<usize> = self.live().collect();
        if let Some(which) = self.rng.pick(&live) {
            self.clean_up(which);
        }
    }

    /// Every task, with the attempts that the store calls open.
    pub(super) fn open_attempts(&self) -> BTreeMap<TaskId, BTreeSet<AttemptId>> {
        let mut open: BTreeMap<TaskId, BTreeSet<AttemptId>> = BTreeMap::new();
        for attempt in self
            .store
            .read(|reader| reader.open_attempts())
            .expect("attempts are read")
        {
            open.entry(attempt.task).or_default().insert(attempt.id);
        }
        open
    }
}
