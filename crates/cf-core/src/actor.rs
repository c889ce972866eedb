//! Who caused a change.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{AttemptId, BatchId};

/// Who caused a change. Every event and every status names one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Actor {
    /// A person, or a script, at the command line.
    Cli,
    /// The conductor of a batch.
    Batch(BatchId),
    /// An agent, or something that it started.
    Attempt(AttemptId),
    /// A tracker, by its host.
    Github(String),
    /// `cf` itself, outside any batch.
    System,
}

/// A text that names no actor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an actor (cli, batch:<id>, attempt:<id>, github:<host>, system)")]
pub struct ActorError(String);

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cli => f.write_str("cli"),
            Self::Batch(id) => write!(f, "batch:{id}"),
            Self::Attempt(id) => write!(f, "attempt:{id}"),
            Self::Github(host) => write!(f, "github:{host}"),
            Self::System => f.write_str("system"),
        }
    }
}

impl FromStr for Actor {
    type Err = ActorError;

    fn from_str(text: &str) -> Result<Self, ActorError> {
        let error = || ActorError(text.to_owned());
        match text.split_once(':') {
            None if text == "cli" => Ok(Self::Cli),
            None if text == "system" => Ok(Self::System),
            Some(("batch", id)) => id.parse().map(Self::Batch).map_err(|_| error()),
            Some(("attempt", id)) => id.parse().map(Self::Attempt).map_err(|_| error()),
            Some(("github", host)) if !host.is_empty() => Ok(Self::Github(host.to_owned())),
            _ => Err(error()),
        }
    }
}

impl TryFrom<String> for Actor {
    type Error = ActorError;

    fn try_from(text: String) -> Result<Self, ActorError> {
        text.parse()
    }
}

impl From<Actor> for String {
    fn from(actor: Actor) -> Self {
        actor.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_actor_reads_back_as_written() {
        for text in [
            "cli",
            "system",
            "github:github.com",
            "batch:01234567-89ab-cdef-0123-456789abcdef",
            "attempt:01234567-89ab-cdef-0123-456789abcdef",
        ] {
            assert_eq!(text.parse::<Actor>().unwrap().to_string(), text);
        }
        for text in ["", "me", "batch:", "batch:x", "github:"] {
            assert!(text.parse::<Actor>().is_err(), "{text}");
        }
    }
}
