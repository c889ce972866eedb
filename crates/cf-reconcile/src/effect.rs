//! What an action does to a task, by the phase in which it meets it.

use cf_core::{Outcome, Phase};

use crate::ReconcileAction;

/// What is to be done. The status that the source asks for is written with the intent, before any stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Nothing.
    Nothing,
    /// Take it out of the queue; outcome SKIPPED.
    DropFromQueue,
    /// Stop the agent; when its end is verified, go on with this.
    StopThen(AfterStop),
    /// Hold it; nothing is stopped, for nothing runs. Outcome BLOCKED if it stays so.
    Hold,
    /// Outcome SKIPPED.
    FinishSkipped,
    /// Outcome FAILED, status FAILED; out of the queue if it was there.
    FinishFailed,
    /// Status READY, and back into the queue of this batch with the answers in hand.
    BackToQueue,
    /// Store the comments with the task, for its next attempt.
    StoreContext,
    /// The same, and append them to the context file of the attempt that runs.
    StoreContextLive,
}

/// What follows when the end of a stopped agent is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AfterStop {
    /// Outcome SKIPPED, unless somebody wrote the status since.
    Skip,
    /// Outcome FAILED, unless somebody wrote the status since.
    Fail,
    /// The task is decided again, as if it were queued.
    DecideAgain,
}

/// Whether somebody else wrote the task's status between the intent of a stop and its verified end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WrittenSince {
    /// Nobody.
    Nobody,
    /// Somebody.
    Somebody,
}

/// How a stopped task goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AfterEnd {
    /// It has this outcome, with the reason of the stop.
    Finish(Outcome),
    /// It is decided again by the local table, as if it were queued.
    DecideAgain,
}

impl AfterStop {
    /// Decides how the task goes on, now that the end is verified.
    pub const fn then(self, written: WrittenSince) -> AfterEnd {
        match (self, written) {
            (Self::Skip, WrittenSince::Nobody) => AfterEnd::Finish(Outcome::Skipped),
            (Self::Fail, WrittenSince::Nobody) => AfterEnd::Finish(Outcome::Failed),
            (Self::Skip | Self::Fail, WrittenSince::Somebody) | (Self::DecideAgain, _) => {
                AfterEnd::DecideAgain
            }
        }
    }
}

impl Effect {
    /// Whether it stops an agent.
    pub const fn stops_agent(self) -> bool {
        matches!(self, Self::StopThen(_))
    }

    /// The outcome that it gives the task at once, if any.
    pub const fn outcome(self) -> Option<Outcome> {
        match self {
            Self::DropFromQueue | Self::FinishSkipped => Some(Outcome::Skipped),
            Self::FinishFailed => Some(Outcome::Failed),
            Self::Nothing
            | Self::StopThen(_)
            | Self::Hold
            | Self::BackToQueue
            | Self::StoreContext
            | Self::StoreContextLive => None,
        }
    }
}

/// Decides what an action does to a task in this phase. While a task is stopping, no finding is applied.
///
/// [`Effect::Nothing`] writes nothing either: no status, no event.
pub const fn plan(action: ReconcileAction, phase: Phase) -> Effect {
    use Phase::{Finished, Held, Queued, Running, Stopping, Waiting};
    use ReconcileAction::{Fail, Kill, LogContext, None, Requeue, Skip};
    match (action, phase) {
        (_, Stopping) | (None, _) => Effect::Nothing,

        (Skip, Waiting | Queued) => Effect::DropFromQueue,
        (Skip, Running) => Effect::StopThen(AfterStop::Skip),
        (Skip, Held) => Effect::FinishSkipped,
        (Skip, Finished) => Effect::Nothing,

        (Fail, Waiting | Queued | Held) => Effect::FinishFailed,
        (Fail, Running) => Effect::StopThen(AfterStop::Fail),
        (Fail, Finished) => Effect::Nothing,

        (Kill, Waiting | Queued) => Effect::Hold,
        (Kill, Running) => Effect::StopThen(AfterStop::DecideAgain),
        (Kill, Held | Finished) => Effect::Nothing,

        (Requeue, Held | Finished) => Effect::BackToQueue,
        (Requeue, Waiting | Queued | Running) => Effect::Nothing,

        (LogContext, Waiting | Queued | Held | Finished) => Effect::StoreContext,
        (LogContext, Running) => Effect::StoreContextLive,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells() -> impl Iterator<Item = (ReconcileAction, Phase)> {
        ReconcileAction::ALL
            .iter()
            .flat_map(|&action| Phase::ALL.iter().map(move |&phase| (action, phase)))
    }

    #[test]
    fn only_skip_fail_and_kill_stop_an_agent() {
        use ReconcileAction::{Fail, Kill, Skip};
        for (action, phase) in cells() {
            let stops = plan(action, phase).stops_agent();
            let may = matches!(action, Skip | Fail | Kill) && phase == Phase::Running;
            assert_eq!(stops, may, "{action} while {phase}");
        }
    }

    #[test]
    fn while_stopping_nothing_acts() {
        for action in ReconcileAction::ALL {
            assert_eq!(plan(*action, Phase::Stopping), Effect::Nothing);
        }
    }

    #[test]
    fn new_comments_never_start_a_run() {
        for phase in Phase::ALL {
            let effect = plan(ReconcileAction::LogContext, *phase);
            assert!(!matches!(
                effect,
                Effect::BackToQueue | Effect::StopThen(_) | Effect::Hold
            ));
        }
    }

    #[test]
    fn a_finished_task_changes_only_by_going_back() {
        for action in ReconcileAction::ALL {
            let effect = plan(*action, Phase::Finished);
            assert!(
                matches!(
                    effect,
                    Effect::Nothing | Effect::BackToQueue | Effect::StoreContext
                ),
                "{action}"
            );
        }
    }

    #[test]
    fn what_somebody_wrote_during_a_stop_is_decided_again() {
        for after in [AfterStop::Skip, AfterStop::Fail, AfterStop::DecideAgain] {
            assert_eq!(after.then(WrittenSince::Somebody), AfterEnd::DecideAgain);
        }
        assert_eq!(
            AfterStop::Skip.then(WrittenSince::Nobody),
            AfterEnd::Finish(Outcome::Skipped)
        );
        assert_eq!(
            AfterStop::Fail.then(WrittenSince::Nobody),
            AfterEnd::Finish(Outcome::Failed)
        );
    }
}
