//! How single arguments are read. The rules are those of the settings; see [`crate::config`].

use std::ffi::OsStr;
use std::fmt::Display;
use std::str::FromStr;

use cf_core::TaskStatus;
use clap::builder::{PossibleValue, TypedValueParser};

use crate::config::Value;
use crate::plan;

/// Reads an argument by the rule of its setting.
pub(super) fn value<T: Value>(text: &str) -> Result<T, String> {
    T::from_text(text)
}

/// Words that are read by a rule of their own, and that the completions of shells offer.
#[derive(Clone, Debug)]
pub(super) struct Offered<T> {
    read: fn(&str) -> Result<T, String>,
    words: Vec<&'static str>,
}

impl<T> Offered<T> {
    /// Offers these words.
    pub(super) fn new(
        read: fn(&str) -> Result<T, String>,
        words: impl IntoIterator<Item = &'static str>,
    ) -> Self {
        Self {
            read,
            words: words.into_iter().collect(),
        }
    }
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Offered<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        self.read.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.words.iter().map(PossibleValue::new)))
    }
}

/// Reads a task status, and offers them all.
pub(super) fn any_status() -> Offered<TaskStatus> {
    Offered::new(status, TaskStatus::ALL.iter().map(|word| word.as_str()))
}

/// Reads a task status in any case; a hyphen is as good as an underscore.
pub(super) fn status(text: &str) -> Result<TaskStatus, String> {
    text.to_ascii_uppercase()
        .replace('-', "_")
        .parse()
        .map_err(|_| {
            let allowed: Vec<&str> = TaskStatus::ALL.iter().map(|s| s.as_str()).collect();
            format!("not a task status; allowed: {}", allowed.join(", "))
        })
}

/// Reads a whole number of a range, whose ends belong to it.
pub(super) fn whole_number<T>(text: &str, least: T, most: T) -> Result<T, String>
where
    T: FromStr + PartialOrd + Display + Copy,
{
    match text.parse() {
        Ok(number) if number >= least && number <= most => Ok(number),
        _ => Err(format!("expected a whole number from {least} to {most}")),
    }
}

/// How many of anything may be asked for.
const MOST: usize = 1_000_000_000;

/// Reads how many are to be shown.
pub(super) fn count(text: &str) -> Result<usize, String> {
    whole_number(text, 1, MOST)
}

/// Reads how many are to be shown, which may be none.
pub(super) fn count_or_none(text: &str) -> Result<usize, String> {
    whole_number(text, 0, MOST)
}

/// Reads the number of an event.
pub(super) fn sequence(text: &str) -> Result<u64, String> {
    // The database counts in signed numbers.
    whole_number(text, 0, i64::MAX.unsigned_abs())
        .map_err(|why| format!("{why}, the number of an event"))
}

/// Reads `NAME=VALUE`.
pub(super) fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| "write it as NAME=VALUE".to_owned())?;
    plan::check_variable(name)?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Reads a task key.
pub(super) fn key(text: &str) -> Result<cf_core::TaskKey, String> {
    text.parse()
        .map_err(|error: cf_core::KeyError| error.why.to_owned())
}
