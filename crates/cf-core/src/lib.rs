//! The nouns of `cf` and how they may change.
//!
//! Everything here is a value: identifiers, tasks, blockers, batches, attempts, links, events, and the graph of
//! dependencies. Nothing here reads a clock, touches a file or a socket, logs, or draws a random number; whoever needs
//! the time or a new identifier passes it in. That is what lets the decision tables (`cf-reconcile`) and other programs
//! use these types without taking a runtime along.

mod actor;
mod attempt;
mod batch;
mod blocker;
mod duration;
mod event;
mod graph;
mod id;
mod link;
mod status;
mod task;

pub use actor::{Actor, ActorError};
pub use attempt::{AttemptEnd, Ending};
pub use batch::{BatchStatus, Isolation, OnFailure, Outcome, Phase, Strategy};
pub use blocker::{Asker, BlockerStatus};
pub use duration::{DurationError, format_duration, parse_duration};
pub use event::{EventType, UnknownEventType};
pub use graph::{Graph, GraphError, cycle_in_words};
pub use id::{
    AttemptId, BatchId, BlockerId, IdError, KeyError, SupervisorId, TaskId, TaskKey, TaskRef,
};
pub use jiff::Timestamp;
pub use link::{Link, LinkError, LinkKind, Repo};
pub use status::{TaskStatus, Transition, TransitionError};
pub use task::TaskLabel;
pub use uuid::Uuid;

/// Makes an enum whose every variant has one stable word, with `Display`, `FromStr`, serde and the list of all.
macro_rules! words {
    (
        $(#[$meta:meta])*
        pub enum $name:ident ($what:literal) { $( $(#[$vmeta:meta])* $variant:ident = $word:literal ),+ $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name { $( $(#[$vmeta])* #[serde(rename = $word)] $variant ),+ }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The stable word, as stored and shown.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl core::str::FromStr for $name {
            type Err = $crate::UnknownWord;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::UnknownWord { what: $what, text: text.to_owned(), allowed: &[$($word),+] }),
                }
            }
        }
    };
}
pub(crate) use words;

/// A word that is none of the values of an enumeration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {} {what}; allowed: {}", article(what), allowed.join(", "))]
pub struct UnknownWord {
    /// The enumeration, in words.
    pub what: &'static str,
    /// The text that was given.
    pub text: String,
    /// Every word that would have been accepted.
    pub allowed: &'static [&'static str],
}

/// The article that a noun wants.
const fn article(noun: &str) -> &'static str {
    match noun.as_bytes() {
        [b'a' | b'e' | b'i' | b'o' | b'u', ..] => "an",
        _ => "a",
    }
}
