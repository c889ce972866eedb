//! How a task is called when people read about it.

use std::fmt;

use crate::{TaskId, TaskKey};

/// A task's name in messages: its key, or the short form of its id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskLabel(String);

impl TaskLabel {
    /// The key where there is one, else the first eight digits of the id.
    pub fn new(id: TaskId, key: Option<&TaskKey>) -> Self {
        Self(key.map_or_else(|| id.short(), |key| key.as_str().to_owned()))
    }

    /// The label as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TaskLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
