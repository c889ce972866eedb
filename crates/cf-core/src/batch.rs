//! One run over a list of tasks, and where each of them stands inside it.

use crate::words;

words! {
    /// Where a batch stands.
    pub enum BatchStatus ("batch status") {
        /// Stored, not begun.
        Pending = "PENDING",
        /// A conductor works on it, or died while it did.
        Running = "RUNNING",
        /// Every task is done or was dropped.
        Completed = "COMPLETED",
        /// Some tasks are done, others are not.
        Partial = "PARTIAL",
        /// Tasks are bad and none is done.
        Failed = "FAILED",
        /// Somebody stopped it.
        Cancelled = "CANCELLED",
    }
}

impl BatchStatus {
    /// Whether the batch has ended.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Pending | Self::Running => false,
            Self::Completed | Self::Partial | Self::Failed | Self::Cancelled => true,
        }
    }
}

words! {
    /// How many agents a batch keeps busy.
    pub enum Strategy ("strategy") {
        /// One at a time.
        Serial = "serial",
        /// Up to `max_parallel` at a time.
        Parallel = "parallel",
    }
}

words! {
    /// What a failed task does to the rest of its batch.
    pub enum OnFailure ("failure policy") {
        /// The rest goes on.
        Continue = "continue",
        /// Running agents end, nothing new starts.
        Stop = "stop",
    }
}

words! {
    /// Where agents work.
    pub enum Isolation ("isolation") {
        /// All in the workspace's own tree.
        None = "none",
        /// Each attempt in a git worktree of its own.
        Worktree = "worktree",
    }
}

words! {
    /// Where a task stands inside a batch.
    pub enum Phase ("phase") {
        /// A dependency is not met.
        Waiting = "waiting",
        /// May start as soon as a slot is free, or as its retry is due.
        Queued = "queued",
        /// Its agent, or its verification, runs.
        Running = "running",
        /// Its agent was told to end and the end is not verified yet.
        Stopping = "stopping",
        /// Blocked, while the batch goes on.
        Held = "held",
        /// Has an outcome.
        Finished = "finished",
    }
}

words! {
    /// How a task ended inside a batch.
    pub enum Outcome ("outcome") {
        /// Its agent succeeded.
        Completed = "COMPLETED",
        /// Its last attempt failed, or a source says that it failed.
        Failed = "FAILED",
        /// It waits for a person.
        Blocked = "BLOCKED",
        /// It was not run, with a reason.
        Skipped = "SKIPPED",
        /// The batch, or the task, was stopped first.
        Cancelled = "CANCELLED",
    }
}
