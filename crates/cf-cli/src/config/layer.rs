//! Every setting once: its name, its type, where it may be written, its default and its meaning.
//!
//! A [`Layer`] is what one place says (the flags, a plan, the environment, a file, the defaults). Layers are put on top
//! of each other, and every value keeps where it came from.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cf_conductor::settings::WaitForBlockers;
use cf_conductor::supervise::Leftovers;
use cf_core::{Isolation, OnFailure, Strategy};
use toml::de::DeValue;

use super::values::{
    Address, Author, Bytes, ClosedUnmerged, CommentsFrom, EngineName, Limit, Percent, Retries,
    ShellCommand, Slots, TokenFrom, Value,
};

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A flag of the command line.
    Flag(&'static str),
    /// The `[batch]` table of a plan file.
    Plan(Place),
    /// An environment variable.
    Environment(String),
    /// The workspace's `config.toml`.
    Workspace(Place),
    /// The user's `config.toml`.
    User(Place),
    /// Nowhere: what holds when nobody says anything.
    Default,
    /// It follows from another setting.
    Implied(&'static str),
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) file: Arc<str>,
    pub(crate) line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => f.write_str(flag),
            Self::Plan(place) | Self::Workspace(place) | Self::User(place) => place.fmt(f),
            Self::Environment(name) => write!(f, "environment, {name}"),
            Self::Default => f.write_str("default"),
            Self::Implied(by) => write!(f, "follows from {by}"),
        }
    }
}

/// A value and where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting<T> {
    pub(crate) value: T,
    pub(crate) origin: Origin,
}

/// Where a setting may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// In flags, a plan's `[batch]`, the environment and files: a setting of one run.
    Run,
    /// In the environment and in files.
    Files,
    /// Only in the user's own file, because it decides where a token goes.
    User,
    /// In the environment and in the user's own file, because it decides where news of the work goes.
    Own,
}

/// What is known about a setting besides its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    /// Its name in files, with a point after the table's name.
    pub(crate) name: &'static str,
    pub(crate) scope: Scope,
    /// The default as text; `None` when there is none.
    pub(crate) default: Option<&'static str>,
    /// What may be written.
    pub(crate) expected: &'static str,
    /// What it does, in a phrase.
    pub(crate) meaning: &'static str,
}

impl Key {
    /// The environment variable that sets it, unless it may only stand in the user's file.
    pub(crate) fn variable(&self) -> Option<String> {
        (self.scope != Scope::User)
            .then(|| format!("CF_{}", self.name.replace('.', "_").to_ascii_uppercase()))
    }
}

macro_rules! settings {
    ($( $field:ident: $type:ty = $name:literal, $scope:ident, $default:expr, $meaning:literal; )+) => {
        /// What one place says, or all places together.
        #[derive(Clone, Debug, Default)]
        pub(crate) struct Layer {
            $( #[doc = $meaning] pub(crate) $field: Option<Setting<$type>>, )+
            /// `[engines.NAME]`, as written.
            pub(crate) engines: BTreeMap<String, Setting<toml::Table>>,
        }

        /// Every setting, in the order in which it is shown.
        pub(crate) const KEYS: &[Key] = &[ $( Key {
            name: $name,
            scope: Scope::$scope,
            default: $default,
            expected: <$type as Value>::EXPECTED,
            meaning: $meaning,
        } ),+ ];

        impl Layer {
            /// Sets a value from text.
            ///
            /// # Errors
            ///
            /// What is wrong with the text.
            pub(super) fn set_text(&mut self, name: &str, text: &str, origin: Origin) -> Result<(), String> {
                match name {
                    $( $name => self.$field = Some(Setting { value: Value::from_text(text)?, origin }), )+
                    _ => return Err(format!("there is no setting {name}")),
                }
                Ok(())
            }

            /// Sets a value from TOML.
            ///
            /// # Errors
            ///
            /// What is wrong with the value.
            pub(super) fn set_toml(&mut self, name: &str, value: &DeValue<'_>, origin: Origin) -> Result<(), String> {
                match name {
                    $( $name => self.$field = Some(Setting { value: Value::from_toml(value)?, origin }), )+
                    _ => return Err(format!("there is no setting {name}")),
                }
                Ok(())
            }

            /// This layer on top of `lower`: what it does not say, `lower` says. An engine's table is taken whole.
            pub(crate) fn over(self, lower: Self) -> Self {
                let mut engines = lower.engines;
                engines.extend(self.engines);
                Self { $( $field: self.$field.or(lower.$field), )+ engines }
            }

            /// Every setting with its value as text and where that was written, in the order of [`KEYS`].
            pub(crate) fn rows(&self) -> Vec<(Key, Option<(String, &Origin)>)> {
                let values = [ $( self.$field.as_ref().map(|s| (s.value.shown(), &s.origin)) ),+ ];
                KEYS.iter().copied().zip(values).collect()
            }
        }
    };
}

settings! {
    engine: EngineName = "engine", Run, None, "what runs tasks without a `run` script";
    strategy: Strategy = "strategy", Run, Some("serial"), "one task at a time, or several";
    max_parallel: Slots = "max_parallel", Run, Some("4"), "how many agents run at once when parallel";
    on_failure: OnFailure = "on_failure", Run, Some("continue"), "what a bad task does to the rest";
    retry: Retries = "retry", Run, Some("0"), "how often a failed task is tried again";
    retry_delay: Duration = "retry_delay", Run, Some("5s"), "wait before the first retry; doubles, at most 5m";
    timeout: Limit = "timeout", Run, None, "limit of one attempt; without it none for `shell`, 2h for agents";
    stall_timeout: Limit = "stall_timeout", Run, None, "stops an agent without output or CPU use for so long";
    kill_grace: Duration = "kill_grace", Run, Some("10s"), "time between SIGTERM and SIGKILL";
    ask_grace: Duration = "ask_grace", Files, Some("2m"), "time for an agent to end after it asked a question";
    isolation: Isolation = "isolation", Run, Some("none"), "where agents work";
    git_author: Author = "git.author", Files, None, "whose name is on commits of agents' work; without it the user's";
    git_timeout: Limit = "git.timeout", Files, Some("10m"), "longest time for one call of git";
    reconcile_interval: Duration = "reconcile_interval", Run, Some("30s"), "longest time between two passes; 0 for none";
    wait_for_blockers: WaitForBlockers = "wait_for_blockers", Run, Some("false"), "keeps the batch open for held tasks";
    leftovers: Leftovers = "leftovers", Files, Some("stop"), "what happens to processes that an agent leaves behind";
    keep: Vec<String> = "keep", Files, Some(""), "programs that are never stopped as left behind";
    log_cap: Bytes = "log_cap", Files, Some("32MiB"), "largest log of an attempt; head and tail are kept";
    reconcile_github: bool = "reconcile_github", Files, None, "asks GitHub about links; without it, when there are any";
    hooks_on_batch_end: ShellCommand = "hooks.on_batch_end", Files, None, "a command that is told when a batch ends";
    hooks_on_blocked: ShellCommand = "hooks.on_blocked", Files, None, "a command that is told when a task becomes blocked";
    hooks_on_task_end: ShellCommand = "hooks.on_task_end", Files, None, "a command that is told when a task has its outcome";
    hooks_timeout: Limit = "hooks.timeout", Files, Some("30s"), "limit of each of these commands, and of waiting for them at the end";
    webhook_url: Address = "webhook.url", Own, None, "an address that is told the same; CF_WEBHOOK_SECRET signs";
    github_closed_unmerged: ClosedUnmerged = "github.closed_unmerged", Files, Some("fail"), "what a pull request closed without merge does";
    github_settle: Duration = "github.settle", Files, Some("1m"), "time for an agent to end after its link changed";
    github_wait: Duration = "github.wait", Files, Some("10s"), "longest wait for GitHub before a start";
    github_reserve: Percent = "github.reserve", Files, Some("20"), "part of the rate limit that is left to agents, in percent";
    github_comments_from: CommentsFrom = "github.comments_from", Files, Some("trusted"), "whose comments are given to agents";
    github_token: TokenFrom = "github.token", Files, Some("env"), "where the token comes from besides GH_TOKEN and GITHUB_TOKEN";
    github_api_url: Address = "github.api_url", User, None, "another address of the GitHub API";
    github_hosts: Vec<String> = "github.hosts", User, Some(""), "Enterprise hosts that a token may be sent to";
}

impl Layer {
    /// What holds when nobody says anything.
    pub(crate) fn defaults() -> Self {
        let mut layer = Self::default();
        for key in KEYS {
            if let Some(text) = key.default {
                layer
                    .set_text(key.name, text, Origin::Default)
                    .expect("a default is a value of its setting");
            }
        }
        layer
    }
}

/// The value of a setting that has a default.
///
/// # Panics
///
/// On a layer that the defaults are not below.
pub(crate) fn known<T: Clone>(setting: Option<&Setting<T>>) -> T {
    setting
        .expect("the defaults are the lowest layer")
        .value
        .clone()
}
