//! The local source: what the store says about a task, against what the batch believes.
//!
//! One table of 22 rows; the first that fits decides. It knows nothing of how the answers were read: whoever asks puts
//! each of them into one of a few values, and all combinations of those ([`LocalObservation::all`]) have a row.

#[cfg(test)]
mod tests;

use cf_core::{Outcome, Phase, TaskStatus};

use crate::{Decision, Reason, ReconcileAction};

use Believed::{Finished, Held, Queued, Running, Stopping, Waiting};
use Stored::{Deleted, Status};
use TaskStatus::{Backlog, Blocked, Done, Failed, InProgress, Merged, Ready};
use Writer::{Agent, Claim, Other, Own};

/// What the batch believes about a task: its phase, and how it ended when it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Believed {
    /// A dependency is not met.
    Waiting,
    /// May start.
    Queued,
    /// Its agent, or its verification, runs.
    Running,
    /// Its agent was told to end, and the end is not verified yet.
    Stopping,
    /// Blocked, while the batch goes on.
    Held,
    /// Has ended, in this way.
    Finished(Outcome),
}

impl Believed {
    /// Every value, in the order of a task's life.
    pub const ALL: &'static [Self] = &[
        Waiting,
        Queued,
        Running,
        Stopping,
        Held,
        Finished(Outcome::Completed),
        Finished(Outcome::Failed),
        Finished(Outcome::Blocked),
        Finished(Outcome::Skipped),
        Finished(Outcome::Cancelled),
    ];

    /// The phase.
    pub const fn phase(self) -> Phase {
        match self {
            Waiting => Phase::Waiting,
            Queued => Phase::Queued,
            Running => Phase::Running,
            Stopping => Phase::Stopping,
            Held => Phase::Held,
            Finished(_) => Phase::Finished,
        }
    }

    /// What a phase and an outcome, as rows hold them, say together. `None` when they contradict each other.
    pub const fn from_row(phase: Phase, outcome: Option<Outcome>) -> Option<Self> {
        match (phase, outcome) {
            (Phase::Waiting, None) => Some(Waiting),
            (Phase::Queued, None) => Some(Queued),
            (Phase::Running, None) => Some(Running),
            (Phase::Stopping, None) => Some(Stopping),
            (Phase::Held, None) => Some(Held),
            (Phase::Finished, Some(outcome)) => Some(Finished(outcome)),
            (
                Phase::Waiting | Phase::Queued | Phase::Running | Phase::Stopping | Phase::Held,
                Some(_),
            )
            | (Phase::Finished, None) => None,
        }
    }
}

/// What the store holds for a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stored {
    /// No such task any more.
    Deleted,
    /// This status.
    Status(TaskStatus),
}

impl Stored {
    /// Every value.
    pub const ALL: &'static [Self] = &[
        Status(Backlog),
        Status(Ready),
        Status(InProgress),
        Status(Blocked),
        Status(Failed),
        Status(Done),
        Status(Merged),
        Deleted,
    ];

    /// The status, where there is a task.
    pub const fn status(self) -> Option<TaskStatus> {
        match self {
            Deleted => None,
            Status(status) => Some(status),
        }
    }
}

/// Who wrote the stored status, seen from the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Writer {
    /// This batch, or anybody before the batch took the task up: no news.
    Own,
    /// The task's current attempt, or the answer to a question that it asked.
    Agent,
    /// Another batch's or attempt's claim.
    Claim,
    /// Anybody else: a person, a tracker, another program.
    Other,
}

impl Writer {
    /// Every value.
    pub const ALL: &'static [Self] = &[Own, Agent, Claim, Other];
}

/// When the stored status was written, seen from the outcome of a finished task.
///
/// For a task that is not finished it says nothing, and no row asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Written {
    /// With the outcome, or before it.
    BeforeOutcome,
    /// After the outcome.
    AfterOutcome,
}

impl Written {
    /// Every value.
    pub const ALL: &'static [Self] = &[Self::BeforeOutcome, Self::AfterOutcome];
}

/// Whether a question about the task is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpenBlockers {
    /// At least one.
    Some,
    /// None, or there never was one.
    None,
}

/// What happened to the task's questions after it was held, and after it was made BLOCKED if it is. For a task that is
/// not held, [`SinceHold::Nothing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SinceHold {
    /// Nothing; older answers do not count.
    Nothing,
    /// One was resolved (no answer was needed), and none answered.
    Resolved,
    /// One was answered.
    Answered,
}

/// The questions about a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Blockers {
    /// Whether one is open.
    pub open: OpenBlockers,
    /// What happened to them after the task was held.
    pub since_hold: SinceHold,
}

impl Blockers {
    /// No question is open and none was settled since the hold.
    pub const NONE: Self = Self {
        open: OpenBlockers::None,
        since_hold: SinceHold::Nothing,
    };

    /// Every combination.
    pub const ALL: &'static [Self] = &[
        Self::NONE,
        Self::new(OpenBlockers::None, SinceHold::Resolved),
        Self::new(OpenBlockers::None, SinceHold::Answered),
        Self::new(OpenBlockers::Some, SinceHold::Nothing),
        Self::new(OpenBlockers::Some, SinceHold::Resolved),
        Self::new(OpenBlockers::Some, SinceHold::Answered),
    ];

    /// The combination of both.
    pub const fn new(open: OpenBlockers, since_hold: SinceHold) -> Self {
        Self { open, since_hold }
    }
}

/// Whether an agent that asked a question still has time to end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AskGrace {
    /// It has, or it asked nothing.
    Running,
    /// `ask_grace` is over.
    Over,
}

impl AskGrace {
    /// Every value.
    pub const ALL: &'static [Self] = &[Self::Running, Self::Over];
}

/// What the store says about one task, beside what the batch believes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LocalObservation {
    /// What the batch believes.
    pub believed: Believed,
    /// What the store holds.
    pub stored: Stored,
    /// Who wrote that.
    pub writer: Writer,
    /// When, for a finished task.
    pub written: Written,
    /// The questions about the task.
    pub blockers: Blockers,
    /// For a running task whose agent asked a question.
    pub ask_grace: AskGrace,
}

impl LocalObservation {
    /// An observation without questions, written before any outcome and with grace left.
    pub const fn new(believed: Believed, stored: Stored, writer: Writer) -> Self {
        Self {
            believed,
            stored,
            writer,
            written: Written::BeforeOutcome,
            blockers: Blockers::NONE,
            ask_grace: AskGrace::Running,
        }
    }

    /// The complete input space of [`decide`], also the combinations that cannot happen.
    pub fn all() -> impl Iterator<Item = Self> {
        Believed::ALL.iter().flat_map(|&believed| {
            Stored::ALL.iter().flat_map(move |&stored| {
                Writer::ALL.iter().flat_map(move |&writer| {
                    Written::ALL.iter().flat_map(move |&written| {
                        Blockers::ALL.iter().flat_map(move |&blockers| {
                            AskGrace::ALL.iter().map(move |&ask_grace| Self {
                                believed,
                                stored,
                                writer,
                                written,
                                blockers,
                                ask_grace,
                            })
                        })
                    })
                })
            })
        })
    }
}

/// Decides what the store's word about one task means for the batch. The first row that fits decides.
///
/// `external_status` of a decision that acts is the stored status, which needs no writing, except for a REQUEUE, which
/// asks for READY.
pub const fn decide(seen: &LocalObservation) -> Decision {
    match (seen.believed, seen.stored, seen.writer) {
        (Finished(Outcome::Skipped | Outcome::Failed), Status(Ready), Other)
            if matches!(seen.written, Written::AfterOutcome) =>
        {
            requeue(1, Reason::Reopened)
        }
        (Finished(_), _, _) => Decision::none(2, Reason::NothingNew),
        (Stopping, _, _) => Decision::none(3, Reason::EndAwaited),
        (Running, Deleted, _) => kill(4, Reason::TaskDeleted, seen.stored),
        (Waiting | Queued | Held, Deleted, _) => skip(5, Reason::TaskDeleted, seen.stored),

        (Held, Status(Done | Merged), _) => skip(6, Reason::ExternallyCompleted, seen.stored),
        (Held, Status(Failed), _) => skip(6, Reason::ExternallyFailedWhileBlocked, seen.stored),
        (Held, Status(Backlog), _) => skip(7, Reason::WithdrawnToBacklog, seen.stored),
        (Held, Status(InProgress), _) => Decision::none(8, Reason::ClaimedElsewhere),
        (Held, Status(Ready), _) => match seen.blockers.since_hold {
            SinceHold::Answered => requeue(9, Reason::BlockersResolved),
            SinceHold::Nothing | SinceHold::Resolved => requeue(9, Reason::UnblockedByHand),
        },
        (Held, Status(Blocked), _) => match (seen.blockers.open, seen.blockers.since_hold) {
            (OpenBlockers::None, SinceHold::Answered | SinceHold::Resolved) => {
                requeue(10, Reason::BlockersResolved)
            }
            (OpenBlockers::None, SinceHold::Nothing) | (OpenBlockers::Some, _) => {
                Decision::none(11, Reason::AnswerAwaited)
            }
        },

        (Waiting | Queued | Running, Status(_), Own) => Decision::none(12, Reason::NothingNew),

        (Running, Status(Blocked | Ready), Agent) => match seen.ask_grace {
            AskGrace::Running => Decision::none(13, Reason::TheAgentAsked),
            AskGrace::Over => kill(13, Reason::TheAgentAsked, seen.stored),
        },
        (Running, Status(Backlog | InProgress | Failed | Done | Merged), Agent) => {
            Decision::none(14, Reason::ExitAwaited)
        }
        (Running, Status(InProgress), Claim) => kill(15, Reason::ClaimedElsewhere, seen.stored),
        (Running, Status(InProgress), Other) => Decision::none(16, Reason::NothingNew),
        (Running, Status(Done | Merged), Other | Claim) => {
            skip(17, Reason::ExternallyCompleted, seen.stored)
        }
        (Running, Status(Failed), Other | Claim) => skip(17, Reason::ExternallyFailed, seen.stored),
        (Running, Status(Blocked), Other | Claim) => {
            kill(18, Reason::ExternallyBlocked, seen.stored)
        }
        (Running, Status(Ready), Other | Claim) => kill(18, Reason::PutBackInTheQueue, seen.stored),
        (Running, Status(Backlog), Other | Claim) => {
            kill(18, Reason::WithdrawnToBacklog, seen.stored)
        }

        (Waiting | Queued, Status(Ready), Agent | Claim | Other) => {
            Decision::none(19, Reason::NothingNew)
        }
        // An attempt cannot set IN_PROGRESS, so the agent's own stands only for a claim that is still there.
        (Waiting | Queued, Status(InProgress), Agent | Claim) => {
            Decision::none(20, Reason::ClaimedElsewhere)
        }
        (Waiting | Queued, Status(InProgress), Other) => {
            Decision::none(20, Reason::InProgressByHand)
        }
        (Waiting | Queued, Status(Blocked), Agent | Claim | Other) => {
            kill(21, Reason::ExternallyBlocked, seen.stored)
        }
        (Waiting | Queued, Status(Done | Merged), Agent | Claim | Other) => {
            skip(22, Reason::ExternallyCompleted, seen.stored)
        }
        (Waiting | Queued, Status(Failed), Agent | Claim | Other) => {
            skip(22, Reason::ExternallyFailed, seen.stored)
        }
        (Waiting | Queued, Status(Backlog), Agent | Claim | Other) => {
            skip(22, Reason::WithdrawnToBacklog, seen.stored)
        }
    }
}

const fn requeue(row: u8, reason: Reason) -> Decision {
    Decision::act(row, ReconcileAction::Requeue, reason, Some(Ready))
}

const fn kill(row: u8, reason: Reason, stored: Stored) -> Decision {
    Decision::act(row, ReconcileAction::Kill, reason, stored.status())
}

const fn skip(row: u8, reason: Reason, stored: Stored) -> Decision {
    Decision::act(row, ReconcileAction::Skip, reason, stored.status())
}
