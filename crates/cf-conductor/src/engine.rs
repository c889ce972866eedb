//! Engines: how an agent program is started, and how its end is read.
//!
//! An [`Engine`] is data: the words of a command line, variables, and the rule by which its end counts as a success.
//! Five are built in ([`Engine::preset`]), others come from the config ([`EngineConfig`]). [`Engine::invocation`] turns
//! one into the exact arguments and environment of an attempt; [`SuccessRule::judge`] turns the end of a process and
//! the tail of its log into a [`Verdict`].
//!
//! Nothing here starts a process, writes a file or reads a clock. The one look at the world is
//! [`find_program`] and [`program_started_in`], which look for programs.

mod config;
mod environment;
mod invocation;
mod preset;
mod program;
mod said;
mod verdict;

#[cfg(test)]
mod tests;

pub use crate::supervise::Leftovers;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use config::{
    EngineConfig, EngineConfigError, Engines, GrantConfig, GrantsConfig, TimeLimit, Words,
};
pub use environment::{
    CfVariables, has_secret, inherited_environment, own_environment, withheld, withhold,
};
pub use invocation::{
    Invocation, InvocationError, ScriptFile, Start, StdinFrom, script_invocation,
};
pub use program::{NoProgram, agents_on_path, find_program, program_started_in};
pub use said::{last_lines, one_line, printable};
pub use verdict::{TAIL_BYTES, Tokens, Verdict};

/// The name of an engine: lower-case letters, digits, `.`, `_` and `-`, at most 64.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EngineName(String);

/// A text that cannot be the name of an engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not an engine name: it has 1 to 64 lower-case letters, digits, `.`, `_` and `-`, and begins with a letter or digit"
)]
pub struct EngineNameError(String);

impl EngineName {
    /// The engine of tasks that have a script of their own.
    pub fn shell() -> Self {
        Self("shell".to_owned())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for EngineName {
    type Err = EngineNameError;

    fn from_str(text: &str) -> Result<Self, EngineNameError> {
        let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let good = text.len() <= 64
            && text.starts_with(word)
            && text.chars().all(|c| word(c) || "._-".contains(c));
        if good {
            Ok(Self(text.to_owned()))
        } else {
            Err(EngineNameError(text.chars().take(80).collect()))
        }
    }
}

impl TryFrom<String> for EngineName {
    type Error = EngineNameError;

    fn try_from(text: String) -> Result<Self, EngineNameError> {
        text.parse()
    }
}

impl From<EngineName> for String {
    fn from(name: EngineName) -> Self {
        name.0
    }
}

/// How the prompt reaches the agent. Never through a shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PromptBy {
    /// On standard input, which is closed after it.
    Stdin,
    /// As the path of a file: in place of `{prompt_file}`, else as the last argument.
    File,
    /// As the text itself: in place of `{prompt}`, else as the last argument. At most 100 KiB.
    Argument,
}

/// What an agent may do without being asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Permissions {
    /// Anything that the user may do.
    All,
    /// Change files of the working tree; commands as far as the program can confine them.
    Edit,
    /// Look only.
    Read,
}

impl fmt::Display for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::All => "all",
            Self::Edit => "edit",
            Self::Read => "read",
        })
    }
}

/// What makes an ended process a success. It also says which event format the log has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SuccessRule {
    /// Exit code 0.
    ExitZero,
    /// Exit code 0, and a `result` event of Claude Code without error and without refused tools.
    Claude,
    /// Exit code 0, and a completed turn of Codex.
    Codex,
    /// Exit code 0, and a last step of opencode that stopped by itself, without error and without refused tools.
    Opencode,
    /// Exit code 0, and a successful `result` event of Gemini CLI that used tokens.
    Gemini,
}

impl SuccessRule {
    const ALL: [Self; 5] = [
        Self::ExitZero,
        Self::Claude,
        Self::Codex,
        Self::Opencode,
        Self::Gemini,
    ];

    /// Its word in a configuration and in the store.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ExitZero => "exit-zero",
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
            Self::Gemini => "gemini",
        }
    }

    /// The rule of this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.as_str() == word)
    }
}

/// Which home folder the agent sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Home {
    /// The user's own, with its logins and settings.
    User,
    /// A fresh folder for each attempt.
    Attempt,
}

/// The words that give a program one of the [`Permissions`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Arguments. `{state}` stands for the workspace's `.cf` folder.
    pub args: Vec<String>,
    /// Variables.
    pub env: BTreeMap<String, String>,
    /// Whether the agent can then still call `cf`, to ask and to report.
    pub reaches_cf: bool,
}

/// How a program is given each of the [`Permissions`]; none where it cannot be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// For [`Permissions::All`].
    pub all: Option<Grant>,
    /// For [`Permissions::Edit`].
    pub edit: Option<Grant>,
    /// For [`Permissions::Read`].
    pub read: Option<Grant>,
}

impl Grants {
    /// The words for `permissions`, if the program has any.
    pub const fn get(&self, permissions: Permissions) -> Option<&Grant> {
        match permissions {
            Permissions::All => self.all.as_ref(),
            Permissions::Edit => self.edit.as_ref(),
            Permissions::Read => self.read.as_ref(),
        }
    }

    /// Whether the program can be given no permission at all by words.
    pub const fn is_empty(&self) -> bool {
        self.all.is_none() && self.edit.is_none() && self.read.is_none()
    }
}

/// How an agent program is started, and how its end is read.
///
/// The arguments stand in this order: `command`, the grant's, the model's, `extra_args`, the resumption's, `tail`, and
/// then the prompt or its file where it is not given on standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    /// Its name.
    pub name: EngineName,
    /// The program and its first arguments; empty for `shell`, which runs the task's script.
    pub command: Vec<String>,
    /// Arguments from the config.
    pub extra_args: Vec<String>,
    /// The arguments that must stand last.
    pub tail: Vec<String>,
    /// How the prompt reaches it.
    pub prompt: PromptBy,
    /// Variables that it gets.
    pub env: BTreeMap<String, String>,
    /// Variables of the caller that it must not see.
    pub env_remove: Vec<String>,
    /// Names of variables that it gets although they hold tokens or begin with `CF_`.
    pub pass_env: Vec<String>,
    /// What makes its end a success.
    pub success: SuccessRule,
    /// What it may do.
    pub permissions: Permissions,
    /// How it is told so.
    pub grants: Grants,
    /// How it is told the model; `{model}` stands for its name. Empty: it cannot be told.
    pub model_args: Vec<String>,
    /// How it continues an earlier session; `{session}` stands for its id. Empty: it cannot.
    pub resume_args: Vec<String>,
    /// Which home folder it sees.
    pub home: Home,
    /// The time limit of an attempt where nobody sets one; none for no limit.
    pub default_timeout: Option<Duration>,
    /// The arguments with which the program prints its version.
    pub version_args: Vec<String>,
    /// What happens to processes that it leaves behind.
    pub leftovers: Leftovers,
    /// Names of processes that are left alone all the same, such as build daemons.
    pub keep: Vec<String>,
}

impl Engine {
    /// Whether this is the engine that runs a task's own script.
    pub const fn runs_scripts(&self) -> bool {
        self.command.is_empty()
    }

    /// The program to look for, such as `claude`; for `shell` it is `/bin/sh`.
    pub fn program(&self) -> &str {
        self.command.first().map_or("/bin/sh", String::as_str)
    }

    /// Whether the agent can call `cf` with the permissions that it has.
    pub fn reaches_cf(&self) -> bool {
        self.grants
            .get(self.permissions)
            .is_none_or(|grant| grant.reaches_cf)
    }

    /// The engine with other permissions.
    pub fn with_permissions(mut self, permissions: Permissions) -> Self {
        self.permissions = permissions;
        self
    }
}
