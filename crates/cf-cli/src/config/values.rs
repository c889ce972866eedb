//! How the value of a setting is written, in a flag, an environment variable or a file, and how it is shown.
//!
//! One type is one rule: a flag, `CF_*` and TOML accept the same words and numbers, because all of them end here.

use std::time::Duration;

use cf_conductor::settings::WaitForBlockers;
use cf_conductor::supervise::Leftovers;
use cf_core::{Isolation, OnFailure, Strategy, format_duration, parse_duration};
use toml::de::DeValue;

use crate::document::article;

/// A value that can be written as text or as TOML.
pub(crate) trait Value: Sized {
    /// What may be written, for messages: `expected a duration such as "30s"`.
    const EXPECTED: &'static str;

    /// Reads it from a flag or an environment variable.
    ///
    /// # Errors
    ///
    /// What is wrong with the text.
    fn from_text(text: &str) -> Result<Self, String>;

    /// Reads it from a file.
    ///
    /// # Errors
    ///
    /// What is wrong with the value.
    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        match value.as_str() {
            Some(text) => Self::from_text(text),
            None => Err(wrong_type::<Self>(value)),
        }
    }

    /// The value as a file or a flag would have it.
    fn shown(&self) -> String;
}

fn wrong_type<T: Value>(value: &DeValue<'_>) -> String {
    format!(
        "expected {}, found {}",
        T::EXPECTED,
        article(value.type_str())
    )
}

/// The integer in a TOML value.
pub(crate) fn integer(value: &DeValue<'_>) -> Option<i64> {
    let number = value.as_integer()?;
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

macro_rules! word_values {
    ($( $type:ty: $expected:literal ),+ $(,)?) => {$(
        impl Value for $type {
            const EXPECTED: &'static str = $expected;

            fn from_text(text: &str) -> Result<Self, String> {
                text.to_ascii_lowercase().parse().map_err(|error: cf_core::UnknownWord| error.to_string())
            }

            fn shown(&self) -> String {
                self.as_str().to_owned()
            }
        }
    )+};
}

word_values! {
    Strategy: "`serial` or `parallel`",
    OnFailure: "`continue` or `stop`",
    Isolation: "`none` or `worktree`",
}

impl Value for Leftovers {
    const EXPECTED: &'static str = "`stop` or `report`";

    fn from_text(text: &str) -> Result<Self, String> {
        match text {
            "stop" => Ok(Self::Stop),
            "report" => Ok(Self::Report),
            _ => Err(format!(
                "{text:?} is not allowed: expected {}",
                Self::EXPECTED
            )),
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Stop => "stop",
            Self::Report => "report",
        }
        .to_owned()
    }
}

/// An enumeration of this file: its words, in both directions.
macro_rules! choice {
    (
        $(#[$meta:meta])*
        $name:ident ($expected:literal) { $( $(#[$vmeta:meta])* $variant:ident = $word:literal ),+ $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $name { $( $(#[$vmeta])* $variant ),+ }

        impl Value for $name {
            const EXPECTED: &'static str = $expected;

            fn from_text(text: &str) -> Result<Self, String> {
                match text {
                    $( $word => Ok(Self::$variant), )+
                    _ => Err(format!("{text:?} is not allowed: expected {}", Self::EXPECTED)),
                }
            }

            fn shown(&self) -> String {
                match self { $( Self::$variant => $word ),+ }.to_owned()
            }
        }
    };
}

choice! {
    /// What a pull request that was closed without being merged does to its task.
    ClosedUnmerged ("`fail`, `block` or `ignore`") {
        /// The task fails.
        Fail = "fail",
        /// A person is asked.
        Block = "block",
        /// Nothing.
        Ignore = "ignore",
    }
}

choice! {
    /// Whose comments are given to agents.
    CommentsFrom ("`trusted` or `anyone`") {
        /// Owners, members and collaborators.
        Trusted = "trusted",
        /// Everybody.
        Anyone = "anyone",
    }
}

choice! {
    /// Where the GitHub token comes from when the environment has none.
    TokenFrom ("`env` or `gh`") {
        /// Nowhere.
        Env = "env",
        /// `gh auth token`.
        Gh = "gh",
    }
}

/// The name of an engine: built in, or from `[engines.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EngineName(pub(crate) String);

impl Value for EngineName {
    const EXPECTED: &'static str = "the name of an engine, such as `claude-code`";

    fn from_text(text: &str) -> Result<Self, String> {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        if text.is_empty() || text.len() > 64 || !text.chars().all(fits) {
            return Err(format!(
                "{:?} is not the name of an engine: lower-case letters, digits, `-` and `_`, at most 64",
                text.chars().take(80).collect::<String>()
            ));
        }
        Ok(Self(text.to_owned()))
    }

    fn shown(&self) -> String {
        self.0.clone()
    }
}

/// A command for the shell; not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShellCommand(pub(crate) String);

impl Value for ShellCommand {
    const EXPECTED: &'static str = "a command for /bin/sh";

    fn from_text(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() || text.contains('\0') {
            return Err("it is empty or holds a NUL character; leave it out instead".to_owned());
        }
        Ok(Self(text.to_owned()))
    }

    fn shown(&self) -> String {
        self.0.clone()
    }
}

/// In whose name commits are made: `NAME <ADDRESS>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Author(pub(crate) String);

impl Value for Author {
    const EXPECTED: &'static str = "a name and an address, such as \"Ada <ada@example.com>\"";

    fn from_text(text: &str) -> Result<Self, String> {
        let odd = |part: &str| part.trim().is_empty() || part.contains(['<', '>', '\n', '\0']);
        let parts = text
            .split_once('<')
            .and_then(|(name, rest)| Some((name, rest.trim_end().strip_suffix('>')?)));
        match parts {
            Some((name, address)) if !odd(name) && !odd(address) => Ok(Self(text.to_owned())),
            _ => Err(format!(
                "{:?} is not allowed: expected {}",
                text.chars().take(80).collect::<String>(),
                Self::EXPECTED
            )),
        }
    }

    fn shown(&self) -> String {
        self.0.clone()
    }
}

/// How many agents run at once, 1 to 10,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slots(pub(crate) u32);

/// How often a failed task is tried again, 0 to 1,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retries(pub(crate) u32);

/// A part of a whole in percent, 0 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Percent(pub(crate) u8);

macro_rules! number_values {
    ($( $name:ident($type:ty): $range:expr, $expected:literal ),+ $(,)?) => {$(
        impl $name {
            fn checked(number: i64) -> Result<Self, String> {
                <$type>::try_from(number)
                    .ok()
                    .filter(|n| $range.contains(n))
                    .map(Self)
                    .ok_or_else(|| format!("{number} is not allowed: expected {}", Self::EXPECTED))
            }
        }

        impl Value for $name {
            const EXPECTED: &'static str = $expected;

            fn from_text(text: &str) -> Result<Self, String> {
                match text.trim().parse::<i64>() {
                    Ok(number) => Self::checked(number),
                    Err(_) => Err(format!(
                        "{:?} is not allowed: expected {}",
                        text.chars().take(80).collect::<String>(),
                        Self::EXPECTED
                    )),
                }
            }

            fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
                match integer(value) {
                    Some(number) => Self::checked(number),
                    None => Err(wrong_type::<Self>(value)),
                }
            }

            fn shown(&self) -> String {
                self.0.to_string()
            }
        }
    )+};
}

number_values! {
    Slots(u32): 1..=10_000, "a whole number from 1 to 10000",
    Retries(u32): 0..=1_000, "a whole number from 0 to 1000",
    Percent(u8): 0..=100, "a whole number from 0 to 100",
}

impl Value for Duration {
    const EXPECTED: &'static str = "a duration such as \"30s\", \"1h30m\" or plain seconds";

    fn from_text(text: &str) -> Result<Self, String> {
        parse_duration(text).map_err(|error| error.to_string())
    }

    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        match value {
            DeValue::String(text) => Self::from_text(text),
            DeValue::Integer(_) => match integer(value) {
                Some(seconds) => Self::from_text(&seconds.to_string()),
                None => Err("the number is too large".to_owned()),
            },
            DeValue::Float(float) => Self::from_text(float.as_str()),
            _ => Err(wrong_type::<Self>(value)),
        }
    }

    fn shown(&self) -> String {
        format_duration(*self)
    }
}

/// A time limit: longer than nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit(pub(crate) Duration);

impl Limit {
    fn checked(duration: Duration) -> Result<Self, String> {
        if duration.is_zero() {
            return Err(
                "a limit of 0 would end everything at once; leave it out for no limit".to_owned(),
            );
        }
        Ok(Self(duration))
    }
}

impl Value for Limit {
    const EXPECTED: &'static str = Duration::EXPECTED;

    fn from_text(text: &str) -> Result<Self, String> {
        Duration::from_text(text).and_then(Self::checked)
    }

    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        Duration::from_toml(value).and_then(Self::checked)
    }

    fn shown(&self) -> String {
        self.0.shown()
    }
}

impl Value for WaitForBlockers {
    const EXPECTED: &'static str = "true, false or a duration such as \"2h\"";

    fn from_text(text: &str) -> Result<Self, String> {
        match text.trim() {
            "true" => Ok(Self::Always),
            "false" => Ok(Self::Off),
            other => Duration::from_text(other).map(Self::For),
        }
    }

    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        match value {
            DeValue::Boolean(true) => Ok(Self::Always),
            DeValue::Boolean(false) => Ok(Self::Off),
            DeValue::String(_) | DeValue::Integer(_) | DeValue::Float(_) => {
                Duration::from_toml(value).map(Self::For)
            }
            _ => Err(wrong_type::<Self>(value)),
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Off => "false".to_owned(),
            Self::Always => "true".to_owned(),
            Self::For(duration) => format_duration(*duration),
        }
    }
}

impl Value for bool {
    const EXPECTED: &'static str = "true or false";

    fn from_text(text: &str) -> Result<Self, String> {
        match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Ok(true),
            "false" | "0" | "no" | "off" => Ok(false),
            _ => Err(format!(
                "{text:?} is not allowed: expected {}",
                Self::EXPECTED
            )),
        }
    }

    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        value.as_bool().ok_or_else(|| wrong_type::<Self>(value))
    }

    fn shown(&self) -> String {
        self.to_string()
    }
}

impl Value for Vec<String> {
    const EXPECTED: &'static str = "a list of strings";

    fn from_text(text: &str) -> Result<Self, String> {
        let words = text.split(',').map(str::trim).filter(|w| !w.is_empty());
        Ok(words.map(str::to_owned).collect())
    }

    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        let list = value.as_array().ok_or_else(|| wrong_type::<Self>(value))?;
        list.iter()
            .map(|item| item.get_ref().as_str().map(str::to_owned))
            .collect::<Option<_>>()
            .ok_or_else(|| format!("expected {}", Self::EXPECTED))
    }

    fn shown(&self) -> String {
        format!(
            "[{}]",
            self.iter()
                .map(|s| format!("{s:?}"))
                .collect::<Vec<_>>()
                .join(", ")
        )
    }
}

/// An amount of bytes, at least 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) u64);

const UNITS: [(&str, u64); 4] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

impl Bytes {
    fn checked(bytes: u64) -> Result<Self, String> {
        if bytes < 4096 {
            return Err(format!("{bytes} bytes are too few: at least 4 KiB"));
        }
        Ok(Self(bytes))
    }
}

impl Value for Bytes {
    const EXPECTED: &'static str = "a number of bytes such as 1048576 or \"64MiB\"";

    fn from_text(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let refuse = || format!("{text:?} is not allowed: expected {}", Self::EXPECTED);
        let (number, unit) = UNITS
            .iter()
            .find_map(|(name, size)| text.strip_suffix(name).map(|number| (number, *size)))
            .unwrap_or((text, 1));
        let number: u64 = number.trim().parse().map_err(|_| refuse())?;
        Self::checked(
            number
                .checked_mul(unit)
                .filter(|n| *n <= 1 << 40)
                .ok_or_else(refuse)?,
        )
    }

    fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        match value {
            DeValue::String(text) => Self::from_text(text),
            DeValue::Integer(_) => Self::from_text(&integer(value).unwrap_or(-1).to_string()),
            _ => Err(wrong_type::<Self>(value)),
        }
    }

    fn shown(&self) -> String {
        let (name, size) = UNITS
            .iter()
            .find(|(_, size)| self.0.is_multiple_of(*size))
            .expect("every number is a multiple of one byte");
        format!("{}{name}", self.0 / size)
    }
}

/// An address, such as that of a GitHub API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address(pub(crate) String);

impl Value for Address {
    const EXPECTED: &'static str = "an https address";

    fn from_text(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix("https://").or_else(|| {
            let rest = text.strip_prefix("http://")?;
            let host = rest.split(['/', ':']).next()?;
            matches!(host, "localhost" | "127.0.0.1" | "[").then_some(rest)
        });
        match rest {
            Some(rest) if !rest.is_empty() && !rest.contains([' ', '@', '\n']) => {
                Ok(Self(text.trim_end_matches('/').to_owned()))
            }
            _ => Err(format!(
                "{text:?} is not allowed: expected an https address (plain http only to this machine), without credentials"
            )),
        }
    }

    fn shown(&self) -> String {
        self.0.clone()
    }
}

#[cfg(test)]
mod tests;
