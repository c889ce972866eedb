//! The only place that turns errors into words, hints and exit codes.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;

use cf_conductor::conductor::ConductorError;
use cf_conductor::store::wait::{Holder, held_up_by};
use cf_conductor::store::{LINK_HINT, StoreError};
use cf_conductor::workspace::WorkspaceError;
use cf_conductor::worktree::GitError;
use serde::Serialize;

use crate::config::ConfigError;
use crate::console::{self, Console, Look};
use crate::document::{DocumentError, nearest};
use crate::render::json::escape;
use crate::render::text;

/// `cf` itself failed, or refused because of what it found.
pub(crate) const FAILED: u8 = 1;
/// What the caller wrote is wrong: the command line, a plan file or the configuration.
pub(crate) const USAGE: u8 = 2;

/// Why a command did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    #[error(transparent)]
    Conductor(#[from] ConductorError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Document(#[from] DocumentError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// git refuses a merge that was asked for.
    #[error("cannot merge {branch} into {into}")]
    Merge {
        branch: String,
        into: String,
        source: GitError,
    },
    /// There is no workspace where one is needed.
    #[error("there is no workspace in {} or above it", .0.display())]
    NoWorkspace(PathBuf),
    /// The words of the command line contradict each other or lack something.
    #[error("{message}")]
    Usage {
        message: String,
        hint: Option<String>,
    },
    /// What was asked for cannot be done with what is there.
    #[error("{message}")]
    Refused {
        message: String,
        hint: Option<String>,
    },
    #[error("cannot {what} {}", path.display())]
    File {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("cannot write to standard output")]
    Output(#[source] io::Error),
    /// Whoever read the output has gone; nobody needs to be told.
    #[error("the reader of the output has gone")]
    Closed,
}

impl From<io::Error> for CliError {
    /// An error of writing the output; every other input and output names what it was about.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Output(error),
        }
    }
}

/// What `--json` prints on standard error.
#[derive(Serialize)]
struct Envelope<'e> {
    error: Report<'e>,
}

/// An error as `--json` prints it.
#[derive(Serialize)]
struct Report<'e> {
    message: &'e str,
    causes: &'e [String],
    hint: Option<&'e str>,
    exit_code: u8,
}

impl CliError {
    /// A usage error.
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage {
            message: message.into(),
            hint: Some(hint.into()),
        }
    }

    /// A refusal.
    pub(crate) fn refused(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Refused {
            message: message.into(),
            hint: Some(hint.into()),
        }
    }

    /// A plan that the store refuses because of what is written in it; every other error stays what it is.
    pub(crate) fn of_plan(error: StoreError) -> Self {
        match error {
            StoreError::Refused { what, hint } => Self::Usage {
                message: what,
                hint,
            },
            StoreError::DependsOnItself(_) | StoreError::Cycle(_) => Self::Usage {
                message: error.to_string(),
                hint: store_hint(&error),
            },
            other => Self::Store(other),
        }
    }

    /// What the process ends with.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Closed => 0,
            Self::Usage { .. } | Self::Document(_) | Self::Config(_) => USAGE,
            Self::Store(_)
            | Self::Workspace(_)
            | Self::Conductor(_)
            | Self::Git(_)
            | Self::Merge { .. }
            | Self::NoWorkspace(_)
            | Self::Refused { .. }
            | Self::File { .. }
            | Self::Output(_) => FAILED,
        }
    }

    /// What to do next.
    fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => store_hint(error),
            Self::Workspace(error) => workspace_hint(error),
            Self::Conductor(error) => conductor_hint(error),
            Self::Git(error) => git_hint(error),
            Self::Merge { source, .. } => git_hint(source),
            Self::NoWorkspace(_) => {
                Some("make one with `cf init`, or name its folder with -C".to_owned())
            }
            Self::Usage { hint, .. } | Self::Refused { hint, .. } => hint.clone(),
            Self::Config(
                ConfigError::File(_) | ConfigError::Engine(_) | ConfigError::Webhook { .. },
            ) => Some("correct it; `cf config show` lists every setting".to_owned()),
            Self::Config(ConfigError::Environment { .. }) => {
                Some("unset the variable, or correct it".to_owned())
            }
            Self::Config(ConfigError::Contradiction(_)) => Some(
                "give a --reconcile-interval above 0, or leave out --wait-for-blockers".to_owned(),
            ),
            Self::Document(DocumentError::TooLarge { .. }) => {
                Some("split it into several plans".to_owned())
            }
            Self::Document(_) | Self::File { .. } | Self::Output(_) | Self::Closed => None,
        }
    }

    /// The error with its causes in one line, and what to do next.
    pub(crate) fn told(&self) -> (String, Option<String>) {
        let mut lines: Vec<String> = self.to_string().lines().map(str::to_owned).collect();
        lines.extend(causes(self));
        (lines.join("; "), self.hint())
    }

    /// Says what went wrong on standard error, and returns the exit code.
    pub(crate) fn report(&self, console: &Console) -> u8 {
        let exit_code = self.exit_code();
        if matches!(self, Self::Closed) {
            return exit_code;
        }
        let full = self.to_string();
        let mut lines = full.lines();
        let message = lines.next().unwrap_or_default();
        let also: Vec<String> = lines.map(str::to_owned).collect();
        let causes = causes(self);
        print(
            console,
            message,
            &also,
            &causes,
            self.hint().as_deref(),
            exit_code,
        );
        exit_code
    }
}

/// Prints an error that the parser of the command line found, as JSON or in its own words.
pub(crate) fn report_usage(error: &clap::Error, json: bool) -> u8 {
    if !json {
        let _ = error.print();
        return USAGE;
    }
    let text = error.to_string();
    let mut parts = text.split("\n\n");
    let message = parts.next().unwrap_or_default();
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let hint: Vec<String> = parts
        .map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|part| !part.is_empty())
        .collect();
    print_json(&message, &[], Some(&hint.join("; ")), USAGE);
    USAGE
}

fn print(
    console: &Console,
    message: &str,
    also: &[String],
    causes: &[String],
    hint: Option<&str>,
    exit_code: u8,
) {
    if console.json {
        let all: Vec<String> = also.iter().chain(causes).cloned().collect();
        print_json(message, &all, hint, exit_code);
        return;
    }
    let mut told = String::new();
    let _ = writeln!(
        told,
        "{} {}",
        console.paint_err(Look::Bad, "error:"),
        text::clean(message)
    );
    for line in also {
        let _ = writeln!(told, "  and: {}", text::clean(line));
    }
    for cause in causes {
        let _ = writeln!(told, "  caused by: {}", text::clean(cause));
    }
    if let Some(hint) = hint {
        let _ = writeln!(
            told,
            "{} {}",
            console.paint_err(Look::Busy, "hint:"),
            text::clean(hint)
        );
    }
    let _ = console::err().write_all(told.as_bytes());
}

fn print_json(message: &str, causes: &[String], hint: Option<&str>, exit_code: u8) {
    let report = Envelope {
        error: Report {
            message,
            causes,
            hint,
            exit_code,
        },
    };
    let _ = writeln!(io::stderr().lock(), "{}", escape::text(&report));
}

/// What is below an error, each said once: a wrapper often repeats what it wraps.
fn causes(error: &dyn Error) -> Vec<String> {
    let mut list: Vec<String> = Vec::new();
    let mut said = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if !said.contains(&text) && !text.contains(&said) {
            list.push(text.clone());
            said = text;
        }
        next = cause.source();
    }
    list
}

fn workspace_hint(error: &WorkspaceError) -> Option<String> {
    Some(match error {
        WorkspaceError::Store(error) => return store_hint(error),
        WorkspaceError::Refused { path, .. } => format!(
            "if {} is yours and you trust it, make it a folder that you own and only you can write to",
            path.display()
        ),
        WorkspaceError::File { path, .. } => {
            format!("check that you may read and write {}", path.display())
        }
    })
}

fn conductor_hint(error: &ConductorError) -> Option<String> {
    Some(match error {
        ConductorError::Store(error) => return store_hint(error),
        ConductorError::Workspace(error) => return workspace_hint(error),
        ConductorError::Refused { hint, .. } => return hint.clone(),
        ConductorError::Git(error) => return git_hint(error),
        ConductorError::Abandoned { source, .. } => {
            return conductor_hint(source).or_else(|| Some("go on with `cf resume`".to_owned()));
        }
        ConductorError::Conducted { batch, .. } => format!(
            "watch it with `cf follow {0}`, or stop it with `cf stop {0}`",
            batch.short()
        ),
        ConductorError::Vanished { .. } => {
            "something removed the .cf folder while the batch ran; `git clean` needs `-e .cf`"
                .to_owned()
        }
        ConductorError::Executor(_)
        | ConductorError::Platform(_)
        | ConductorError::System { .. } => return None,
    })
}

fn git_hint(error: &GitError) -> Option<String> {
    match error {
        GitError::Refused { hint, .. } => hint.clone(),
        GitError::Missing { .. } => Some("install git, or use `--isolation none`".to_owned()),
        GitError::TimedOut { .. } => {
            Some("see what it waits for, or set a longer `git.timeout`".to_owned())
        }
        GitError::System { .. } | GitError::Failed { .. } | GitError::Cancelled { .. } => None,
    }
}

/// Those of the names that are near the one that was given, or continue it.
fn near(given: &str, similar: &[String]) -> Vec<String> {
    similar
        .iter()
        .filter(|name| nearest(given, &[name.as_str()]).is_some())
        .cloned()
        .collect()
}

/// What to do about whoever had the database locked for too long.
fn busy_hint(holder: Option<&Holder>) -> String {
    match holder {
        None => "try again; another process was writing for too long".to_owned(),
        Some(holder) if holder.is_stopped => format!(
            "{holder} has it locked, and is stopped; let it go on with `kill -CONT {}`, or end it, and try again",
            holder.pid
        ),
        Some(holder) => {
            format!("{holder} had it locked for too long; try again when that has ended")
        }
    }
}

fn store_hint(error: &StoreError) -> Option<String> {
    Some(match error {
        StoreError::Open { path, source } => {
            let folder = path.parent().unwrap_or(path);
            if error.is_busy() {
                busy_hint(held_up_by().as_ref())
            } else if source.to_string().contains("not a database") {
                format!("{} is something else; move it away and run `cf init`", path.display())
            } else {
                format!("make {} readable and writable", folder.display())
            }
        }
        StoreError::ReadOnly { path } => format!(
            "make it and {} writable; reading works as it is",
            path.parent().unwrap_or(path).display()
        ),
        StoreError::Linked { .. } => LINK_HINT.to_owned(),
        StoreError::Missing { .. } => "make a workspace with `cf init`".to_owned(),
        StoreError::Foreign { path } => format!(
            "the file was not touched; move {} away and run `cf init`",
            path.display()
        ),
        StoreError::Newer { .. } => "update cf; the file was not touched".to_owned(),
        StoreError::MigrationUnderLiveBatch { .. } => {
            "wait until that batch has ended, or stop it with the cf that runs it".to_owned()
        }
        StoreError::Migrate { .. } => {
            "the database was not changed; a copy from before the migration lies beside it".to_owned()
        }
        StoreError::Sql { source, .. } => {
            let said = source.to_string();
            if said.contains("readonly") {
                "make the workspace's .cf folder, and the state.db in it, writable".to_owned()
            } else if said.contains("full") {
                "free some space; nothing was changed".to_owned()
            } else if error.is_busy() {
                busy_hint(held_up_by().as_ref())
            } else if error.is_transient() {
                "see that the disk can be read and written, and that `ulimit -f` allows files as large; then try again, \
                 or go on with a batch by `cf work batch resume`"
                    .to_owned()
            } else {
                return None;
            }
        }
        StoreError::Unknown { what, similar, given } => match (near(given, similar).as_slice(), *what) {
            ([], "task") => "`cf tasks list` shows them; an id needs its first 4 or more characters".to_owned(),
            ([], "batch") => "`cf work batch list` shows them; an id needs its first 4 or more characters".to_owned(),
            ([], "blocker") => "`cf blocker list` shows them; an id needs its first 4 or more characters".to_owned(),
            ([], _) => return None,
            (similar, _) => format!("did you mean {}?", similar.join(" or ")),
        },
        StoreError::Ambiguous { .. } => "write more characters of the id, or the key".to_owned(),
        StoreError::Refused { hint, .. } => return hint.clone(),
        StoreError::NotForAgents { .. } => {
            "an agent may read, ask about its own task (`cf blocker ask`), report it DONE or FAILED \
             (`cf tasks set status self done`), and add tasks to the backlog"
                .to_owned()
        }
        StoreError::StaleAttempt { .. } => "nothing; another attempt works on the task now".to_owned(),
        StoreError::DependsOnItself(_) => "name another task for it to depend on".to_owned(),
        StoreError::Cycle(_) => "remove one of these dependencies: `cf tasks depend TASK ON --remove`".to_owned(),
        StoreError::Transition { .. } | StoreError::File { .. } => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case(None => "try again; another process was writing for too long"; "somebody")]
    #[test_case(Some(false) => "process 7 (cf) had it locked for too long; try again when that has ended"; "a writer")]
    #[test_case(Some(true) => "process 7 (cf) has it locked, and is stopped; let it go on with `kill -CONT 7`, or end it, and \
                               try again"; "a stopped one")]
    fn whoever_had_the_database_locked_is_named(is_stopped: Option<bool>) -> String {
        let holder = is_stopped.map(|is_stopped| Holder {
            pid: 7,
            name: "cf".to_owned(),
            is_stopped,
        });
        busy_hint(holder.as_ref())
    }
    #[test_case(rusqlite::ffi::SQLITE_BUSY => "try again; another process was writing for too long"; "locked")]
    #[test_case(rusqlite::ffi::SQLITE_CANTOPEN => "make /w/.cf readable and writable"; "not to be opened")]
    fn what_keeps_the_database_from_being_opened_says_what_to_do(code: i32) -> String {
        let error = StoreError::Open {
            path: "/w/.cf/state.db".into(),
            source: rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None),
        };
        store_hint(&error).unwrap()
    }
}
