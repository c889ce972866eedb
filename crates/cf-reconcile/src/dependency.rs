//! What the tasks that a waiting task depends on mean for it.

use std::fmt;
use std::str::FromStr;

use cf_core::{Outcome, TaskStatus, UnknownWord};

use crate::{Reason, Standing, Stored, standing};

/// What happened to a dependency that will not be met, in the words of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DependencyCause {
    /// It failed.
    Failed,
    /// Somebody put it into the backlog.
    Withdrawn,
    /// Somebody deleted it.
    Deleted,
    /// Its issue was closed as not planned or as a duplicate.
    NotNeeded,
    /// It is not done, and nobody is going to do it.
    NotDone,
    /// It waits for a person.
    Blocked,
}

impl DependencyCause {
    /// Every value.
    pub const ALL: &'static [Self] = &[
        Self::Failed,
        Self::Withdrawn,
        Self::Deleted,
        Self::NotNeeded,
        Self::NotDone,
        Self::Blocked,
    ];

    /// The stable words, as they stand in a reason.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Withdrawn => "withdrawn",
            Self::Deleted => "deleted",
            Self::NotNeeded => "not needed",
            Self::NotDone => "not done",
            Self::Blocked => "blocked",
        }
    }

    /// Where a task that is skipped for it stands at the end of the batch.
    pub const fn standing(self) -> Standing {
        match self {
            Self::Failed | Self::Withdrawn | Self::Deleted | Self::NotNeeded => Standing::Bad,
            Self::NotDone | Self::Blocked => Standing::Held,
        }
    }
}

impl fmt::Display for DependencyCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for DependencyCause {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        Self::ALL
            .iter()
            .copied()
            .find(|cause| cause.as_str() == text)
            .ok_or_else(|| UnknownWord {
                what: "dependency cause",
                text: text.to_owned(),
                allowed: &[
                    "failed",
                    "withdrawn",
                    "deleted",
                    "not needed",
                    "not done",
                    "blocked",
                ],
            })
    }
}

/// Whether an agent works on a task, or may: a live claim, or an attempt without exit record, clean receipt or `lost`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LiveClaim {
    /// There is one; its end is waited for.
    Some,
    /// There is none.
    None,
}

/// What is seen of a task that another depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependency<'a> {
    /// It is in the batch and has no outcome yet; held tasks too, as long as the batch is open.
    Unfinished,
    /// It is in the batch and has an outcome.
    Finished {
        /// How it ended.
        outcome: Outcome,
        /// Why.
        reason: &'a Reason,
        /// What the store holds now.
        stored: Stored,
        /// Whether an agent of anybody works on it.
        claim: LiveClaim,
    },
    /// It is not in the batch.
    Outside {
        /// What the store holds now.
        stored: Stored,
        /// Whether an agent of anybody works on it.
        claim: LiveClaim,
    },
}

/// What a dependency means for the task that waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DependencyState {
    /// It is met.
    Met,
    /// Somebody will finish it.
    Pending,
    /// Nobody will finish it.
    Dead {
        /// The key, or the short id, of the task at which the chain began.
        key: String,
        /// What happened to that task.
        cause: DependencyCause,
    },
}

impl Dependency<'_> {
    /// Decides what the dependency means. `label` is its key, or its short id.
    ///
    /// A task that is DONE or MERGED in the store is met however it ended in the batch. One that was completed here and
    /// is no longer DONE is not: nobody is going to do it again.
    pub fn state(&self, label: &str) -> DependencyState {
        match *self {
            Self::Unfinished
            | Self::Finished {
                claim: LiveClaim::Some,
                ..
            }
            | Self::Outside {
                claim: LiveClaim::Some,
                ..
            } => DependencyState::Pending,
            Self::Finished {
                stored: Stored::Status(TaskStatus::Done | TaskStatus::Merged),
                ..
            }
            | Self::Outside {
                stored: Stored::Status(TaskStatus::Done | TaskStatus::Merged),
                ..
            } => DependencyState::Met,
            Self::Outside {
                stored: Stored::Deleted,
                ..
            } => dead(label, DependencyCause::Deleted),
            Self::Outside {
                stored:
                    Stored::Status(
                        TaskStatus::Backlog
                        | TaskStatus::Ready
                        | TaskStatus::InProgress
                        | TaskStatus::Blocked
                        | TaskStatus::Failed,
                    ),
                ..
            } => dead(label, DependencyCause::NotDone),
            Self::Finished {
                outcome,
                reason,
                stored,
                ..
            } => finished(label, outcome, reason, stored),
        }
    }
}

/// The state of a dependency that has an outcome, is not DONE in the store, and has no live attempt.
fn finished(label: &str, outcome: Outcome, reason: &Reason, stored: Stored) -> DependencyState {
    match (outcome, stored) {
        (Outcome::Completed, Stored::Deleted) => dead(label, DependencyCause::Deleted),
        (Outcome::Completed, Stored::Status(_)) | (Outcome::Cancelled, _) => {
            dead(label, DependencyCause::NotDone)
        }
        (Outcome::Failed, _) => dead(label, DependencyCause::Failed),
        (Outcome::Blocked, _) => dead(label, DependencyCause::Blocked),
        (Outcome::Skipped, _) => skipped(label, reason),
    }
}

fn skipped(label: &str, reason: &Reason) -> DependencyState {
    if let Reason::Dependency { key, cause } = reason {
        return dead(key, *cause);
    }
    match standing(Outcome::Skipped, reason) {
        Standing::Done => DependencyState::Met,
        Standing::Dropped => dead(label, dropped_as(reason)),
        Standing::Bad => dead(label, DependencyCause::Failed),
        Standing::Held => dead(label, DependencyCause::Blocked),
        Standing::Cut => dead(label, DependencyCause::NotDone),
    }
}

const fn dropped_as(reason: &Reason) -> DependencyCause {
    match reason {
        Reason::WithdrawnToBacklog => DependencyCause::Withdrawn,
        Reason::TaskDeleted => DependencyCause::Deleted,
        _ => DependencyCause::NotNeeded,
    }
}

fn dead(key: &str, cause: DependencyCause) -> DependencyState {
    DependencyState::Dead {
        key: key.to_owned(),
        cause,
    }
}

/// What becomes of a waiting task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WaitingDecision {
    /// It waits.
    Wait,
    /// All its dependencies are met: it may start.
    Queue,
    /// A dependency will not be met: it is SKIPPED, for this reason.
    Skip(Reason),
}

/// Decides what becomes of a waiting task, from its dependencies in their own order.
///
/// One that nobody will finish decides at once, without waiting for the others. Of several, the first that is bad names
/// the reason, since an answer would not help; else the first.
pub fn decide_waiting<'a>(
    dependencies: impl IntoIterator<Item = &'a DependencyState>,
) -> WaitingDecision {
    let mut pending = false;
    let mut worst: Option<(&String, DependencyCause)> = None;
    for dependency in dependencies {
        match dependency {
            DependencyState::Met => {}
            DependencyState::Pending => pending = true,
            DependencyState::Dead { key, cause } => {
                let held_so_far =
                    worst.is_none_or(|(_, before)| before.standing() == Standing::Held);
                if worst.is_none() || (held_so_far && cause.standing() == Standing::Bad) {
                    worst = Some((key, *cause));
                }
            }
        }
    }
    match (worst, pending) {
        (Some((key, cause)), _) => WaitingDecision::Skip(Reason::Dependency {
            key: key.clone(),
            cause,
        }),
        (None, true) => WaitingDecision::Wait,
        (None, false) => WaitingDecision::Queue,
    }
}

#[cfg(test)]
mod tests;
