//! The settings of a batch: stored with it, so that a resume runs it as it was begun.

use std::time::Duration;

use cf_core::{Isolation, OnFailure, Strategy};
pub use cf_reconcile::ClosedUnmerged;
use serde::{Deserialize, Serialize};

pub use crate::prompt::CommentsFrom;
use crate::supervise::Leftovers;

/// Whole milliseconds in JSON.
mod ms {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        duration: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

/// Whole milliseconds or null in JSON.
mod ms_opt {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize as _, Serializer};

    #[expect(clippy::ref_option, reason = "serde passes fields by reference")]
    pub(super) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        duration
            .map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
            .serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Option::<u64>::deserialize(deserializer).map(|ms| ms.map(Duration::from_millis))
    }
}

/// Whether, and how long, a batch stays open for held tasks when nothing else is left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitForBlockers {
    /// It ends.
    Off,
    /// It stays open until nothing is held.
    Always,
    /// It stays open for so many milliseconds after the last agent ended.
    For(#[serde(with = "ms")] Duration),
}

/// How a batch follows GitHub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GithubSettings {
    /// What a linked pull request that was closed without being merged does.
    pub closed_unmerged: ClosedUnmerged,
    /// How long an agent, who may have changed a link itself, may take to end by itself.
    #[serde(with = "ms", rename = "settle_ms")]
    pub settle: Duration,
    /// How long the start of a task waits for GitHub at most.
    #[serde(with = "ms", rename = "wait_ms")]
    pub wait: Duration,
    /// Whose comments are given to agents.
    pub comments_from: CommentsFrom,
}

impl Default for GithubSettings {
    fn default() -> Self {
        Self {
            closed_unmerged: ClosedUnmerged::Fail,
            settle: Duration::from_mins(1),
            wait: Duration::from_secs(10),
            comments_from: CommentsFrom::Members,
        }
    }
}

/// How git is used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GitSettings {
    /// In whose name work is committed, as `NAME <ADDRESS>`; none means the user's own.
    pub author: Option<String>,
    /// The limit of one call of git.
    #[serde(with = "ms", rename = "timeout_ms")]
    pub timeout: Duration,
}

impl Default for GitSettings {
    fn default() -> Self {
        Self {
            author: None,
            timeout: Duration::from_mins(10),
        }
    }
}

impl GitSettings {
    /// The name and the address of [`GitSettings::author`].
    pub fn author_parts(&self) -> Option<(String, String)> {
        let (name, address) = self.author.as_ref()?.split_once('<')?;
        let address = address.trim_end().strip_suffix('>')?;
        Some((name.trim().to_owned(), address.trim().to_owned()))
    }
}

/// The settings of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// How many agents are kept busy.
    pub strategy: Strategy,
    /// How many at most; 1 for [`Strategy::Serial`].
    pub max_parallel: usize,
    /// What a bad task does to the rest.
    pub on_failure: OnFailure,
    /// How many times a failed attempt is tried again.
    pub retry: u32,
    /// The delay before the first retry.
    #[serde(with = "ms", rename = "retry_delay_ms")]
    pub retry_delay: Duration,
    /// The limit of one attempt; none means the engine's own.
    #[serde(with = "ms_opt", rename = "timeout_ms")]
    pub timeout: Option<Duration>,
    /// How long an agent may be silent and idle.
    #[serde(with = "ms_opt", rename = "stall_timeout_ms")]
    pub stall_timeout: Option<Duration>,
    /// From SIGTERM to SIGKILL.
    #[serde(with = "ms", rename = "kill_grace_ms")]
    pub kill_grace: Duration,
    /// How long an agent that asked a question may take to end.
    #[serde(with = "ms", rename = "ask_grace_ms")]
    pub ask_grace: Duration,
    /// The longest time between two passes; zero switches passes off.
    #[serde(with = "ms", rename = "reconcile_interval_ms")]
    pub reconcile_interval: Duration,
    /// Whether the batch waits for answers at its end.
    pub wait_for_blockers: WaitForBlockers,
    /// The engine for tasks that name none and have no script.
    pub engine: Option<String>,
    /// Where agents work.
    pub isolation: Isolation,
    /// What becomes of processes that an agent leaves behind.
    pub leftovers: Leftovers,
    /// Names of programs that are left alone in any case, such as build daemons.
    pub keep: Vec<String>,
    /// How much of an attempt's output is kept, in bytes: the first part and the last part.
    pub log_head_bytes: u64,
    /// The last part.
    pub log_tail_bytes: u64,
    /// How GitHub is followed.
    #[serde(default)]
    pub github: GithubSettings,
    /// How git is used, where agents work in worktrees.
    #[serde(default)]
    pub git: GitSettings,
    /// Whether an attempt in a worktree goes on from what the last one of its task left.
    #[serde(default)]
    pub from_rescue: bool,
}

impl Settings {
    /// Whether a task that is bad by itself keeps the batch from starting anything new.
    pub const fn stops_on_failure(&self) -> bool {
        matches!(self.on_failure, OnFailure::Stop)
    }
}

impl Default for Settings {
    /// The defaults of the documentation: serial, no retry, ten seconds of grace, a pass at least every thirty seconds.
    fn default() -> Self {
        Self {
            strategy: Strategy::Serial,
            max_parallel: 4,
            on_failure: OnFailure::Continue,
            retry: 0,
            retry_delay: Duration::from_secs(5),
            timeout: None,
            stall_timeout: None,
            kill_grace: Duration::from_secs(10),
            ask_grace: Duration::from_mins(2),
            reconcile_interval: Duration::from_secs(30),
            wait_for_blockers: WaitForBlockers::Off,
            engine: None,
            isolation: Isolation::None,
            leftovers: Leftovers::Stop,
            keep: Vec::new(),
            log_head_bytes: 8 << 20,
            log_tail_bytes: 24 << 20,
            github: GithubSettings::default(),
            git: GitSettings::default(),
            from_rescue: false,
        }
    }
}

impl Settings {
    /// How many agents run at the same time.
    pub fn slots(&self) -> usize {
        match self.strategy {
            Strategy::Serial => 1,
            Strategy::Parallel => self.max_parallel.max(1),
        }
    }
}
