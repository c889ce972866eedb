//! Why: the sentence beside every action and every outcome. The texts are a contract; scripts match on them.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::DependencyCause;

macro_rules! reasons {
    ($( $(#[$meta:meta])* $variant:ident = $text:literal, )+) => {
        /// Why an action was decided, or why a task ended as it did.
        ///
        /// Its text ([`fmt::Display`]) is stable, and reads back ([`FromStr`], [`From<String>`]) as the same value: the
        /// store keeps nothing but the text. A text that is none of the contract's reads as [`Reason::Other`].
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(from = "String", into = "String")]
        pub enum Reason {
            $( $(#[$meta])* $variant, )+
            /// So many comments are new: `3 new comments`.
            NewComments(u32),
            /// A dependency will not be met: `dependency <key> failed`.
            Dependency {
                /// The key, or the short id, of the task at which the chain began. Never holds white space.
                key: String,
                /// What happened to that task.
                cause: DependencyCause,
            },
            /// The batch stops on failures, and this task failed: `stopped after <key> failed`.
            StoppedAfter {
                /// The key, or the short id, of the failed task. Never holds white space.
                key: String,
            },
            /// Free text, such as an attempt's failure with the last lines of its log.
            Other(String),
        }

        impl Reason {
            /// Every reason that has no part of its own.
            pub const PLAIN: &'static [Self] = &[$( Self::$variant ),+];

            /// The text of a reason that has no part of its own.
            pub const fn plain_text(&self) -> Option<&'static str> {
                match self {
                    $( Self::$variant => Some($text), )+
                    Self::NewComments(_) | Self::Dependency { .. } | Self::StoppedAfter { .. } | Self::Other(_) => None,
                }
            }
        }
    };
}

reasons! {
    /// Nothing happened that the batch does not know.
    NothingNew = "nothing new",
    /// Somebody set the task DONE or MERGED.
    ExternallyCompleted = "externally completed",
    /// Somebody set the task FAILED.
    ExternallyFailed = "externally failed",
    /// Somebody set the task FAILED while it was held.
    ExternallyFailedWhileBlocked = "externally failed (while blocked)",
    /// Somebody set the task BACKLOG.
    WithdrawnToBacklog = "withdrawn to backlog",
    /// Somebody deleted the task.
    TaskDeleted = "task deleted",
    /// Another batch or attempt works on the task.
    ClaimedElsewhere = "claimed elsewhere",
    /// Somebody set the task IN_PROGRESS without an attempt.
    InProgressByHand = "in progress by hand",
    /// Somebody set the task BLOCKED, or asked a question about it.
    ExternallyBlocked = "externally blocked",
    /// Somebody set the running task READY.
    PutBackInTheQueue = "put back in the queue",
    /// The questions about the task are answered, or need no answer.
    BlockersResolved = "blockers resolved",
    /// Somebody set the held task READY without an answer.
    UnblockedByHand = "unblocked by hand",
    /// Somebody set the finished task READY.
    Reopened = "reopened",
    /// The task's agent asked a question.
    TheAgentAsked = "the agent asked",
    /// The task's own agent wrote its status; how the task ends shows when the agent has.
    ExitAwaited = "its exit is awaited",
    /// The agent is being stopped; the task is looked at again, as if queued, when the end is verified.
    EndAwaited = "looked at again, as if queued, when the end is verified",
    /// A question about the task is open.
    AnswerAwaited = "waiting for an answer",
    /// The linked issue was closed as completed, or without a reason.
    IssueClosed = "issue closed",
    /// The linked issue was closed as not planned.
    IssueClosedAsNotPlanned = "issue closed as not planned",
    /// The linked issue was closed as a duplicate.
    IssueClosedAsDuplicate = "issue closed as duplicate",
    /// The linked issue, whose closing ended the task, is open again.
    IssueReopened = "issue reopened",
    /// A linked pull request was merged.
    PullRequestMerged = "pull request merged",
    /// The linked pull request was closed and not merged.
    PullRequestClosed = "pull request closed without merge",
    /// The linked pull request, whose closing ended the task, is open again.
    PullRequestReopened = "pull request reopened",
    /// The link's target is not there, or not for this account.
    LinkGone = "linked issue is gone",
    /// The link could not be read, or not recently enough to act on it.
    LinkUnknown = "link could not be read",
    /// The link changed after the attempt began; the agent, who may have done it, has time to end by itself.
    LinkSettling = "the agent may have changed the link",
    /// The link is closed, and a person decided to go on all the same.
    ClosureOverruled = "closed, but overruled",
    /// The task was DONE or MERGED when the batch took it up.
    AlreadyDone = "already done",
    /// Somebody stopped this task alone.
    StoppedByHand = "stopped by hand",
    /// The batch was stopped.
    Stopped = "stopped",
    /// The task's agent succeeded.
    Succeeded = "succeeded",
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NewComments(1) => f.pad("1 new comment"),
            Self::NewComments(count) => f.pad(&format!("{count} new comments")),
            Self::Dependency { key, cause } => f.pad(&format!("dependency {key} {cause}")),
            Self::StoppedAfter { key } => f.pad(&format!("stopped after {key} failed")),
            Self::Other(text) => f.pad(text),
            plain => f.pad(
                plain
                    .plain_text()
                    .expect("a reason without a part has a plain text"),
            ),
        }
    }
}

impl From<&str> for Reason {
    fn from(text: &str) -> Self {
        Self::PLAIN
            .iter()
            .find(|plain| plain.plain_text() == Some(text))
            .cloned()
            .or_else(|| new_comments(text))
            .or_else(|| dependency(text))
            .or_else(|| stopped_after(text))
            .unwrap_or_else(|| Self::Other(text.to_owned()))
    }
}

fn new_comments(text: &str) -> Option<Reason> {
    let (count, rest) = text.split_once(' ')?;
    let count: u32 = count.parse().ok()?;
    let reason = Reason::NewComments(count);
    // Written back it must be the same text, so that `01 new comments` stays free text.
    (rest.starts_with("new comment") && reason.to_string() == text).then_some(reason)
}

fn dependency(text: &str) -> Option<Reason> {
    let (key, cause) = text.strip_prefix("dependency ")?.split_once(' ')?;
    let cause = cause.parse().ok()?;
    is_label(key).then(|| Reason::Dependency {
        key: key.to_owned(),
        cause,
    })
}

fn stopped_after(text: &str) -> Option<Reason> {
    let key = text
        .strip_prefix("stopped after ")?
        .strip_suffix(" failed")?;
    is_label(key).then(|| Reason::StoppedAfter {
        key: key.to_owned(),
    })
}

fn is_label(key: &str) -> bool {
    !key.is_empty() && !key.contains(char::is_whitespace)
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        match Self::from(text.as_str()) {
            Self::Other(_) => Self::Other(text),
            known => known,
        }
    }
}

impl From<Reason> for String {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Other(text) => text,
            other => other.to_string(),
        }
    }
}

impl FromStr for Reason {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self::from(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use test_case::test_case;

    #[test]
    fn every_plain_reason_reads_back_and_no_two_share_a_text() {
        for reason in Reason::PLAIN {
            assert_eq!(Reason::from(reason.to_string()), *reason);
            let same = |other: &&Reason| other.plain_text() == reason.plain_text();
            assert_eq!(Reason::PLAIN.iter().filter(same).count(), 1, "{reason}");
        }
    }

    #[test_case("dependency a failed" => Reason::Dependency { key: "a".into(), cause: DependencyCause::Failed }; "a dependency")]
    #[test_case("dependency not not done" => Reason::Dependency { key: "not".into(), cause: DependencyCause::NotDone }; "a key that looks like a word")]
    #[test_case("dependency  failed" => Reason::Other("dependency  failed".into()); "no key")]
    #[test_case("dependency a b failed" => Reason::Other("dependency a b failed".into()); "two keys")]
    #[test_case("stopped after a failed" => Reason::StoppedAfter { key: "a".into() }; "stop on failure")]
    #[test_case("3 new comments" => Reason::NewComments(3); "comments")]
    #[test_case("1 new comment" => Reason::NewComments(1); "one comment")]
    #[test_case("03 new comments" => Reason::Other("03 new comments".into()); "not our way to count")]
    #[test_case("exit code 1" => Reason::Other("exit code 1".into()); "free text")]
    fn reads(text: &str) -> Reason {
        text.into()
    }

    fn any_reason() -> impl Strategy<Value = Reason> {
        let cause = proptest::sample::select(DependencyCause::ALL);
        prop_oneof![
            proptest::sample::select(Reason::PLAIN),
            any::<u32>().prop_map(Reason::NewComments),
            ("[a-z0-9][a-z0-9._-]{0,63}", cause)
                .prop_map(|(key, cause)| Reason::Dependency { key, cause }),
            "[a-z0-9][a-z0-9._-]{0,63}".prop_map(|key| Reason::StoppedAfter { key }),
            "\\PC*".prop_map(Reason::from),
        ]
    }

    proptest! {
        #[test]
        fn a_reason_reads_back_from_its_text(reason in any_reason()) {
            prop_assert_eq!(&Reason::from(reason.to_string()), &reason);
            let json = serde_json::to_string(&reason).unwrap();
            prop_assert_eq!(serde_json::from_str::<Reason>(&json).unwrap(), reason);
        }

        #[test]
        fn a_text_stays_as_it_is(text in "(?s).*") {
            prop_assert_eq!(String::from(Reason::from(text.clone())), text);
        }
    }
}
