//! What a chore says when it does not succeed: what was found, and what to do about it.

use core::fmt;

/// A finding that makes a chore fail, with a hint where there is one.
#[derive(Debug)]
pub(crate) struct Problem {
    what: String,
    hint: Option<String>,
}

impl Problem {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            hint: None,
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Turns a list of findings into an answer: `fine` when there is none.
    pub(crate) fn unless_empty(
        findings: &[String],
        fine: impl Into<String>,
        hint: &str,
    ) -> Result<String, Self> {
        if findings.is_empty() {
            return Ok(fine.into());
        }
        Err(Self::new(findings.join("\n")).hint(hint))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl From<std::io::Error> for Problem {
    fn from(error: std::io::Error) -> Self {
        Self::new(error.to_string())
    }
}
