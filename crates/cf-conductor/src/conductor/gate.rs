//! A task with links waits for a look at them before its agent starts; others go ahead.
//!
//! The schedule's gate keeps it out of the queue; here stands for whom a look is asked, and when it is given up. No
//! clock and no network: whoever conducts asks, and says when the answer is there.

use std::time::Duration;

use cf_core::{Phase, TaskId};

use super::turn::Core;
use crate::schedule::{Gate, Mode};

/// For how many tasks one look is asked at most. As many as one request for details asks about.
const TOGETHER: usize = 40;

/// A task that waits for a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Awaiting {
    /// The task.
    pub task: TaskId,
    /// On the loop's clock, until when it waits; nothing before its turn.
    pub until: Option<Duration>,
    /// Whether a look is under way for it.
    pub asked: bool,
}

impl Core {
    /// Whether the task's links have to be looked at before it starts.
    pub(super) fn needs_look(&self, task: TaskId) -> bool {
        self.linked.contains(&task)
            && self
                .looked
                .get(&task)
                .is_none_or(|at| self.clock.saturating_sub(*at) >= self.settings.reconcile_interval)
    }

    /// Keeps a queued task from starting until its links were looked at.
    pub(super) fn await_look(&mut self, task: TaskId) {
        self.schedule.set_gate(task, Gate::AwaitingLook);
        let turn = self.schedule.turn_of(task);
        let place = self
            .awaiting
            .binary_search_by_key(&turn, |waits| self.schedule.turn_of(waits.task));
        if let Err(at) = place {
            let waits = Awaiting {
                task,
                until: None,
                asked: false,
            };
            self.awaiting.insert(at, waits);
        }
    }

    /// The tasks for which a look is to be asked now: those whose turn is next, unless enough others that may start
    /// come before them. From now on they wait, but not for ever.
    pub(super) fn looks_wanted(&mut self) -> Vec<TaskId> {
        let Some(first) = self.awaiting.first() else {
            return Vec::new();
        };
        let turn = self.schedule.turn_of(first.task);
        let slots = self.schedule.slots();
        let before = self
            .schedule
            .upcoming(slots)
            .take_while(|task| self.schedule.turn_of(*task) < turn)
            .count();
        if self.schedule.mode() == Mode::Closing || before >= slots {
            return Vec::new();
        }
        let until = self.clock + self.settings.github.wait;
        self.awaiting
            .iter_mut()
            .take(TOGETHER)
            .filter(|waits| !waits.asked)
            .map(|waits| {
                waits.until.get_or_insert(until);
                waits.task
            })
            .collect()
    }

    /// A look is under way for this task, or is to be asked once more.
    pub(super) fn look_is_under_way(&mut self, task: TaskId, asked: bool) {
        for waits in &mut self.awaiting {
            if waits.task == task {
                waits.asked = asked;
            }
        }
    }

    /// The links of this task were looked at, or could not be: it is decided anew, and may start.
    pub(super) fn look_ends(&mut self, task: TaskId) {
        self.awaiting.retain(|waits| waits.task != task);
        if self
            .schedule
            .row(task)
            .is_some_and(|row| row.phase == Phase::Queued)
        {
            self.looked.insert(task, self.clock);
            self.relook.insert(task);
        }
    }

    /// Lets those start whose wait is over.
    pub(super) fn give_up_waiting(&mut self) {
        let clock = self.clock;
        let over: Vec<TaskId> = self
            .awaiting
            .iter()
            .filter(|waits| waits.until.is_some_and(|until| until <= clock))
            .map(|waits| waits.task)
            .collect();
        for task in over {
            self.look_ends(task);
        }
    }

    /// How long until a wait is over.
    pub(super) fn longest_gate_wait(&self) -> Option<Duration> {
        self.awaiting
            .iter()
            .filter_map(|waits| waits.until)
            .min()
            .map(|until| until.saturating_sub(self.clock))
    }
}
