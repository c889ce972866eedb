//! What was said from outside while a batch ran, and was taken: the log must tell of every word, when it was said.
//!
//! A command that ended with 0 has promised something. Whoever called it wrote down what, and from when to when the
//! call took; the log must have one event for each such word, in that time. What became of the word afterwards is for
//! [`Replay`] to judge, which knows who may write over whose word.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::replay::{Event, Replay};

/// How far apart the clocks may be by which an event and a call are timed: one machine's, of different grain.
const GRAIN_MS: i64 = 20;

/// What a command makes true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// The task of this key has this status.
    Status(String, String),
    /// The task of this key is gone.
    Deleted(String),
    /// Something was asked about the task of this key.
    Asked(String),
    /// This question is answered.
    Answered(String),
    /// This question needs no answer.
    Resolved(String),
}

/// A word that was taken.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) word: Word,
    /// From when to when the call took, in milliseconds of the system's clock.
    pub(crate) during: (i64, i64),
    /// Whether the answer was that it is so already.
    pub(crate) was_so: bool,
}

/// Now, in milliseconds of the system's clock.
pub(crate) fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_millis()).unwrap_or(i64::MAX))
}

impl Word {
    fn kind(&self) -> &'static str {
        match self {
            Self::Status(..) => "TASK_STATUS_CHANGED",
            Self::Deleted(_) => "TASK_DELETED",
            Self::Asked(_) => "BLOCKER_ASKED",
            Self::Answered(_) => "BLOCKER_ANSWERED",
            Self::Resolved(_) => "BLOCKER_RESOLVED",
        }
    }

    fn is_told_by(&self, event: &Event, replay: &Replay) -> bool {
        if event.kind != self.kind() || event.actor != "cli" {
            return false;
        }
        let is_of = |key: &String| {
            let task = event.task.as_ref().and_then(|id| replay.tasks.get(id));
            task.is_some_and(|task| task.key.as_ref() == Some(key))
        };
        match self {
            Self::Status(key, to) => is_of(key) && event.text("to") == to,
            Self::Deleted(key) | Self::Asked(key) => is_of(key),
            Self::Answered(id) | Self::Resolved(id) => event.text("blocker") == id,
        }
    }
}

/// The words that the log does not tell of. Each event stands for one word only.
pub(crate) fn unheard(said: &[Said], replay: &Replay) -> Vec<String> {
    let mut used: BTreeSet<i64> = BTreeSet::new();
    let mut unheard = Vec::new();
    let mut said: Vec<&Said> = said.iter().collect();
    // Whose time ends first has the fewest events to choose from.
    said.sort_by_key(|said| said.during.1);
    for said in said {
        let (from, to) = (said.during.0 - GRAIN_MS, said.during.1 + GRAIN_MS);
        let word = &said.word;
        if let (true, Word::Status(key, status)) = (said.was_so, word) {
            // It changed nothing, so that no event is its own.
            if !replay.had(key, status, (from, to)) {
                unheard.push(format!(
                    "{key} was said to be {status} already, and was not"
                ));
            }
            continue;
        }
        let told = replay.events.iter().find(|event| {
            (from..=to).contains(&event.at_ms)
                && !used.contains(&event.seq)
                && word.is_told_by(event, replay)
        });
        if let Some(event) = told {
            used.insert(event.seq);
        } else {
            unheard.push(format!(
                "{word:?} was taken between {from} and {to}, and the log does not know of it"
            ));
        }
    }
    unheard
}
