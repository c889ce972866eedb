//! What a finding asks the batch to do, by rising severity.

use std::fmt;
use std::str::FromStr;

use cf_core::UnknownWord;
use serde::{Deserialize, Serialize};

/// What a finding asks the batch to do. A greater action is a more severe one, and wins a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ReconcileAction {
    /// Nothing.
    None,
    /// Store what was said about the task, and hand it to the next attempt. Never starts or stops anything.
    LogContext,
    /// Put a held or finished task back into the queue of this batch.
    Requeue,
    /// Stop the agent, or hold the task; nobody knows yet how the task ends.
    Kill,
    /// Do not run the task, or stop it: its work is done, or not wanted.
    Skip,
    /// The task has failed.
    Fail,
}

impl ReconcileAction {
    /// Every action, least severe first.
    pub const ALL: &'static [Self] = &[
        Self::None,
        Self::LogContext,
        Self::Requeue,
        Self::Kill,
        Self::Skip,
        Self::Fail,
    ];

    /// The stable word, as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::LogContext => "LOG_CONTEXT",
            Self::Requeue => "REQUEUE",
            Self::Kill => "KILL",
            Self::Skip => "SKIP",
            Self::Fail => "FAIL",
        }
    }

    /// The words with which a log line begins: `Skipping <task>: <reason>`. `None` when nothing is done.
    pub const fn log_words(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::LogContext => Some("New context for"),
            Self::Requeue => Some("Re-queueing"),
            Self::Kill => Some("Killing"),
            Self::Skip => Some("Skipping"),
            Self::Fail => Some("Failing"),
        }
    }

    /// What happened to a task, for totals: `3 tasks skipped (externally completed)`. `None` when nothing did.
    pub const fn past_words(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::LogContext => Some("given context"),
            Self::Requeue => Some("requeued"),
            Self::Kill => Some("killed"),
            Self::Skip => Some("skipped"),
            Self::Fail => Some("failed"),
        }
    }
}

impl fmt::Display for ReconcileAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for ReconcileAction {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        Self::ALL
            .iter()
            .copied()
            .find(|action| action.as_str() == text)
            .ok_or_else(|| UnknownWord {
                what: "reconcile action",
                text: text.to_owned(),
                allowed: &["NONE", "LOG_CONTEXT", "REQUEUE", "KILL", "SKIP", "FAIL"],
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_reads_back_as_written() {
        for action in ReconcileAction::ALL {
            assert_eq!(action.to_string().parse(), Ok(*action));
            let json = serde_json::to_string(action).unwrap();
            assert_eq!(json, format!("\"{action}\""));
            assert_eq!(
                serde_json::from_str::<ReconcileAction>(&json).unwrap(),
                *action
            );
        }
        let error = "skip".parse::<ReconcileAction>().unwrap_err();
        for action in ReconcileAction::ALL {
            assert!(error.allowed.contains(&action.as_str()));
        }
    }

    #[test]
    fn severity_rises_in_the_order_of_the_list() {
        assert!(ReconcileAction::ALL.is_sorted());
        assert!(ReconcileAction::Fail > ReconcileAction::Skip);
        assert!(ReconcileAction::Skip > ReconcileAction::Kill);
    }

    #[test]
    fn only_none_has_nothing_to_say() {
        for action in ReconcileAction::ALL {
            let quiet = *action == ReconcileAction::None;
            assert_eq!(action.log_words().is_none(), quiet);
            assert_eq!(action.past_words().is_none(), quiet);
        }
    }
}
