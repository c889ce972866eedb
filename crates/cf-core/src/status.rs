//! The task status and the edges along which it may move.

use crate::{Actor, words};

words! {
    /// Where a task stands, for everybody. Stored and shown in upper case.
    pub enum TaskStatus ("task status") {
        /// Known, but not to be started.
        Backlog = "BACKLOG",
        /// May be started.
        Ready = "READY",
        /// Somebody works on it: a batch that claimed it, or a person.
        InProgress = "IN_PROGRESS",
        /// Waits for the answer to a blocker, or was held by hand.
        Blocked = "BLOCKED",
        /// Was tried and did not succeed.
        Failed = "FAILED",
        /// Its work is done.
        Done = "DONE",
        /// Its work is done and merged. Final.
        Merged = "MERGED",
    }
}

/// The outcome of asking for a status: a real change, or the status that the task has already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// The status changes.
    Change,
    /// The task has this status already; nothing is to be written.
    Same,
}

/// A status that the actor may not set from where the task stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{actor} may not move a task from {from} to {to}; allowed: {}",
    list(allowed)
)]
pub struct TransitionError {
    /// Who asked.
    pub actor: Actor,
    /// Where the task stands.
    pub from: TaskStatus,
    /// What was asked for.
    pub to: TaskStatus,
    /// Every status that this actor could have asked for.
    pub allowed: Vec<TaskStatus>,
}

fn list(allowed: &[TaskStatus]) -> String {
    if allowed.is_empty() {
        return "nothing, it is final".to_owned();
    }
    allowed
        .iter()
        .map(|s| s.as_str())
        .collect::<Vec<_>>()
        .join(", ")
}

impl TaskStatus {
    /// Whether the work is done, so that dependents may start.
    pub const fn is_done(self) -> bool {
        matches!(self, Self::Done | Self::Merged)
    }

    /// The statuses that a batch or an attempt may set from here.
    pub const fn edges(self) -> &'static [Self] {
        match self {
            Self::Backlog => &[Self::Ready],
            Self::Ready => &[Self::InProgress, Self::Backlog],
            Self::InProgress => &[Self::Done, Self::Failed, Self::Blocked, Self::Ready],
            Self::Blocked => &[Self::Ready, Self::InProgress],
            Self::Failed => &[Self::Ready, Self::InProgress],
            Self::Done => &[Self::Ready, Self::Merged],
            Self::Merged => &[],
        }
    }

    /// Decides whether `actor` may set `to` on a task that stands at `self`.
    ///
    /// Batches and attempts act on the world and keep to the edges; people, trackers and the system describe it, and
    /// may set anything except out of [`TaskStatus::Merged`].
    ///
    /// # Errors
    ///
    /// The refused transition, with every status that would have been allowed.
    pub fn after(self, to: Self, actor: &Actor) -> Result<Transition, TransitionError> {
        if self == to {
            return Ok(Transition::Same);
        }
        let bound = matches!(actor, Actor::Batch(_) | Actor::Attempt(_));
        let allowed: Vec<Self> = match (bound, self) {
            (true, _) => self.edges().to_vec(),
            (false, Self::Merged) => Vec::new(),
            (false, _) => Self::ALL.iter().copied().filter(|s| *s != self).collect(),
        };
        if allowed.contains(&to) {
            return Ok(Transition::Change);
        }
        Err(TransitionError {
            actor: actor.clone(),
            from: self,
            to,
            allowed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TaskStatus::{Backlog, Blocked, Done, Failed, InProgress, Merged, Ready};
    use test_case::test_case;

    fn batch() -> Actor {
        Actor::Batch(crate::BatchId(uuid::Uuid::nil()))
    }

    #[test_case(Backlog => vec![Ready])]
    #[test_case(Ready => vec![Backlog, InProgress])]
    #[test_case(InProgress => vec![Ready, Blocked, Failed, Done])]
    #[test_case(Blocked => vec![Ready, InProgress])]
    #[test_case(Failed => vec![Ready, InProgress])]
    #[test_case(Done => vec![Ready, Merged])]
    #[test_case(Merged => Vec::<TaskStatus>::new())]
    fn a_batch_moves_along_the_edges_only(from: TaskStatus) -> Vec<TaskStatus> {
        TaskStatus::ALL
            .iter()
            .copied()
            .filter(|to| from.after(*to, &batch()) == Ok(Transition::Change))
            .collect()
    }

    #[test]
    fn people_set_anything_except_out_of_merged() {
        for from in TaskStatus::ALL {
            for to in TaskStatus::ALL {
                let answer = from.after(*to, &Actor::Cli);
                if from == to {
                    assert_eq!(answer, Ok(Transition::Same));
                } else {
                    assert_eq!(answer.is_ok(), *from != Merged, "{from} to {to}");
                }
            }
        }
    }

    #[test]
    fn a_refusal_says_what_is_allowed() {
        let error = Backlog.after(Done, &batch()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "batch:00000000-0000-0000-0000-000000000000 may not move a task from BACKLOG to DONE; allowed: READY"
        );
    }
}
