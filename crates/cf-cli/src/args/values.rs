//! How single arguments are read. The rules are those of the settings; see [`crate::config`].

use cf_core::TaskStatus;

use crate::config::Value;
use crate::plan;

/// Reads an argument by the rule of its setting.
pub(super) fn value<T: Value>(text: &str) -> Result<T, String> {
    T::from_text(text)
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
