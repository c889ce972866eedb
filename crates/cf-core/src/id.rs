//! Identifiers: UUIDs with a type each, the optional task key, and the way a person writes either.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! ids {
    ($( $(#[$meta:meta])* $name:ident, )+) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// The first eight hexadecimal digits, enough for people to tell ids apart.
            pub fn short(self) -> String {
                let mut text = self.0.simple().to_string();
                text.truncate(8);
                text
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0.hyphenated(), f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0.hyphenated())
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                Uuid::try_parse(text).map(Self).map_err(|_| IdError { text: text.to_owned() })
            }
        }
    )+};
}

ids! {
    /// Identifies a task.
    TaskId,
    /// Identifies a batch.
    BatchId,
    /// Identifies an attempt.
    AttemptId,
    /// Identifies a blocker.
    BlockerId,
    /// Identifies a supervisor, the small process below which agents run.
    SupervisorId,
}

/// A text that is not a UUID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a full id (a UUID)")]
pub struct IdError {
    /// The text that was given.
    pub text: String,
}

/// A task's optional unique key: `[a-z0-9][a-z0-9._-]{0,63}`.
///
/// Keys become part of branch and file names, so `..`, a final `.` and a final `.lock` are refused (git's rules for
/// reference names), and so are words that commands give another meaning: `self` and the task statuses.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TaskKey(Box<str>);

impl TaskKey {
    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a text is not a task key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a task key: {why}")]
pub struct KeyError {
    /// The text that was given.
    pub text: String,
    /// The rule that it breaks.
    pub why: &'static str,
}

impl FromStr for TaskKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let refuse = |why| {
            Err(KeyError {
                text: text.chars().take(80).collect(),
                why,
            })
        };
        let Some(first) = text.bytes().next() else {
            return refuse("it is empty");
        };
        if text.len() > 64 {
            return refuse("it is longer than 64 characters");
        }
        if !(first.is_ascii_lowercase() || first.is_ascii_digit()) {
            return refuse("it must begin with a lower-case letter or a digit");
        }
        if !text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b))
        {
            return refuse("only lower-case letters, digits, `.`, `_` and `-` are allowed");
        }
        if text.contains("..") {
            return refuse("it contains `..`");
        }
        match text.rsplit_once('.') {
            Some((_, "")) => return refuse("it ends in `.`"),
            Some((_, "lock")) => return refuse("it ends in `.lock`"),
            _ => {}
        }
        if text == "self"
            || crate::TaskStatus::ALL
                .iter()
                .any(|s| s.as_str().eq_ignore_ascii_case(text))
        {
            return refuse("it is a reserved word (`self` or a task status)");
        }
        Ok(Self(text.into()))
    }
}

impl TryFrom<String> for TaskKey {
    type Error = KeyError;

    fn try_from(text: String) -> Result<Self, KeyError> {
        text.parse()
    }
}

impl From<TaskKey> for String {
    fn from(key: TaskKey) -> Self {
        key.0.into()
    }
}

impl fmt::Display for TaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for TaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskKey({})", self.0)
    }
}

/// How a person names a task (or another thing with an id): a key, a full id, or a prefix of one.
///
/// The store looks it up in that order. A prefix has at least four hexadecimal digits; hyphens are allowed where a
/// UUID has them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TaskRef(String);

impl TaskRef {
    /// Takes any text; whether something answers to it is the store's business.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text as given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text as a prefix of a hyphenated lower-case UUID, if it can be one.
    ///
    /// Returns `None` when it is shorter than four digits or holds anything but hexadecimal digits and hyphens, so
    /// that `%` and `_` never reach a pattern match.
    pub fn as_prefix(&self) -> Option<String> {
        let digits: String = self
            .0
            .chars()
            .filter(|c| *c != '-')
            .collect::<String>()
            .to_ascii_lowercase();
        if !(4..=32).contains(&digits.len()) || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let mut prefix = String::with_capacity(36);
        for (at, digit) in digits.chars().enumerate() {
            if matches!(at, 8 | 12 | 16 | 20) {
                prefix.push('-');
            }
            prefix.push(digit);
        }
        // A hyphen in the wrong place is a typing error, not an id.
        let typed = self.0.trim_end_matches('-').to_ascii_lowercase();
        (typed == digits || typed == prefix).then_some(prefix)
    }
}

impl FromStr for TaskRef {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self::new(text))
    }
}

impl fmt::Display for TaskRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("a"; "one letter")]
    #[test_case("0-a_b.c"; "every kind of character")]
    #[test_case("done-later"; "a status may be part of it")]
    fn a_key(text: &str) {
        assert_eq!(text.parse::<TaskKey>().unwrap().as_str(), text);
    }

    #[test_case(""; "empty")]
    #[test_case("A"; "upper case")]
    #[test_case("-a"; "leading hyphen")]
    #[test_case(".a"; "leading dot")]
    #[test_case("a b"; "space")]
    #[test_case("a/b"; "slash")]
    #[test_case("a..b"; "two dots")]
    #[test_case("a."; "final dot")]
    #[test_case("a.lock"; "final lock")]
    #[test_case("self"; "the agent's own task")]
    #[test_case("done"; "a status")]
    #[test_case("in_progress"; "a longer status")]
    #[test_case("ä"; "not ascii")]
    fn not_a_key(text: &str) {
        assert!(text.parse::<TaskKey>().is_err());
    }

    #[test]
    fn a_key_has_at_most_64_characters() {
        assert!("a".repeat(64).parse::<TaskKey>().is_ok());
        assert!("a".repeat(65).parse::<TaskKey>().is_err());
    }

    #[test_case("12ab" => Some("12ab".to_owned()); "four digits")]
    #[test_case("12AB34cd5" => Some("12ab34cd-5".to_owned()); "hyphen is put in")]
    #[test_case("12ab34cd-5" => Some("12ab34cd-5".to_owned()); "hyphen in its place")]
    #[test_case("12ab34cd-" => Some("12ab34cd".to_owned()); "final hyphen")]
    #[test_case("12a" => None; "too short")]
    #[test_case("12-ab34" => None; "hyphen elsewhere")]
    #[test_case("12a%" => None; "a wildcard")]
    #[test_case("12a_" => None; "another wildcard")]
    fn prefix(text: &str) -> Option<String> {
        TaskRef::new(text).as_prefix()
    }
}
