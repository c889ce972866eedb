//! Calls of the program `git`: an environment without secrets, no hook, no question, a time limit, and a way to be cut
//! short.

mod watched;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use watched::{TOO_MUCH, Watched};

use crate::engine::withhold;

/// Which repository git works on, and what it does there, is said by the arguments alone: what a hook or a shell has in
/// its environment about another one does not count. The list is `git rev-parse --local-env-vars` less the
/// configuration that a caller passes on purpose, and the editors, pagers and helpers that could ask something.
const REMOVED: [&str; 26] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_ATTR_SOURCE",
    "GIT_CEILING_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_DEFAULT_REF_FORMAT",
    "GIT_DIR",
    "GIT_EXTERNAL_DIFF",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INDEX_VERSION",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_LITERAL_PATHSPECS",
    "GIT_MERGE_VERBOSITY",
    "GIT_NAMESPACE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_REFLOG_ACTION",
    "GIT_REPLACE_REF_BASE",
    "GIT_SEQUENCE_EDITOR",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
    "SSH_ASKPASS",
];

/// What every call says about how to work: no hooks, no background work, nothing that the user's settings for their own
/// commands would add.
const SETTINGS: [&str; 11] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "merge.ff=true",
    "merge.autoStash=false",
    "advice.addEmbeddedRepo=false",
    "core.quotePath=false",
    "core.safecrlf=false",
    "worktree.useRelativePaths=false",
];

/// How often a call looks whether it is to be cut short.
const LOOK: Duration = Duration::from_millis(50);

/// How much of what git says about a failure is kept, in bytes.
const SAID: usize = 2_000;

/// Why git could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// There is no such program.
    #[error("cannot {what}: the program `git` is not on the PATH")]
    Missing {
        /// What was tried.
        what: &'static str,
    },
    /// It cannot be started or listened to.
    #[error("cannot {what}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// It refused.
    #[error("cannot {what}: git says {said:?}")]
    Failed {
        /// What was tried.
        what: &'static str,
        /// What it said, at most 2,000 bytes.
        said: String,
    },
    /// It took longer than its limit, and was stopped.
    #[error("cannot {what}: git did not end within {}", cf_core::format_duration(*limit))]
    TimedOut {
        /// What was tried.
        what: &'static str,
        /// The limit.
        limit: Duration,
    },
    /// It was cut short on request.
    #[error("cannot {what}: it was stopped")]
    Cancelled {
        /// What was tried.
        what: &'static str,
    },
    /// What is there is not what was expected.
    #[error("{what}")]
    Refused {
        /// What, and why.
        what: String,
        /// What to do about it.
        hint: Option<String>,
    },
}

/// Cuts short whatever calls were given it.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// From now on every call ends as soon as it can.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether that was asked for.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How git is called.
#[derive(Clone, Debug)]
pub struct Git {
    limit: Duration,
    cancel: Cancel,
    author: Option<(String, String)>,
}

impl Git {
    /// Calls that may take so long each. `author` is a name and an address for the commits that are made; without it
    /// git uses the user's.
    pub const fn new(limit: Duration, author: Option<(String, String)>, cancel: Cancel) -> Self {
        Self {
            limit,
            cancel,
            author,
        }
    }

    /// The same, to be cut short by another.
    #[must_use]
    pub fn cut_short_by(&self, cancel: &Cancel) -> Self {
        Self {
            cancel: cancel.clone(),
            ..self.clone()
        }
    }

    /// Refuses to go on when that was asked for, or when what began then takes too long.
    pub(super) fn go_on(&self, what: &'static str, begun: Instant) -> Result<(), GitError> {
        if self.cancel.is_cancelled() {
            return Err(GitError::Cancelled { what });
        }
        if begun.elapsed() >= self.limit {
            return Err(GitError::TimedOut {
                what,
                limit: self.limit,
            });
        }
        Ok(())
    }

    /// A call that tries to do this, in this folder.
    pub(super) fn call(&self, what: &'static str, folder: &Path) -> Call<'_> {
        let mut command = Command::new("git");
        command.args(["--no-pager", "--no-optional-locks"]);
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        withhold(&mut command);
        for name in REMOVED {
            command.env_remove(name);
        }
        command
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_ASKPASS", "true")
            .env("GIT_EDITOR", "true")
            .env("GIT_MERGE_AUTOEDIT", "no")
            // What it says is matched, and only in this language its words stay the same.
            .env("LC_ALL", "C")
            .current_dir(folder)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some((name, address)) = &self.author {
            command
                .env("GIT_AUTHOR_NAME", name)
                .env("GIT_AUTHOR_EMAIL", address)
                .env("GIT_COMMITTER_NAME", name)
                .env("GIT_COMMITTER_EMAIL", address);
        }
        Call {
            git: self,
            what,
            command,
        }
    }
}

/// One call.
pub(super) struct Call<'g> {
    git: &'g Git,
    what: &'static str,
    command: Command,
}

impl Call<'_> {
    pub(super) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    pub(super) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    pub(super) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Holds this open until git, and whatever it started, has ended: a lock on it outlives a conductor that is killed.
    pub(super) fn holding(mut self, lock: File) -> Self {
        self.command.stdin(lock);
        self
    }

    /// What it prints, without the last line break.
    pub(super) fn text(self) -> Result<String, GitError> {
        let what = self.what;
        let bytes = self.bytes()?;
        let mut text = String::from_utf8(bytes).map_err(|_| GitError::Failed {
            what,
            said: "something that is not UTF-8".to_owned(),
        })?;
        if text.ends_with('\n') {
            text.pop();
        }
        Ok(text)
    }

    /// What it prints; a failure is an error.
    pub(super) fn bytes(self) -> Result<Vec<u8>, GitError> {
        let what = self.what;
        let (status, out, said) = self.run()?;
        if status.success() {
            return Ok(out);
        }
        Err(failed(what, status, &said))
    }

    /// Whether it succeeds, as far as 1 means no; any other failure is an error.
    pub(super) fn holds(self) -> Result<bool, GitError> {
        let what = self.what;
        let (status, _, said) = self.run()?;
        match status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(failed(what, status, &said)),
        }
    }

    /// The one word that it prints, when it succeeds.
    pub(super) fn word(self) -> Result<Option<String>, GitError> {
        let (status, out, _) = self.run()?;
        let word = String::from_utf8_lossy(&out).trim().to_owned();
        Ok((status.success() && !word.is_empty()).then_some(word))
    }

    /// Runs it to its end and returns what it printed and said.
    pub(super) fn run(mut self) -> Result<(ExitStatus, Vec<u8>, Vec<u8>), GitError> {
        let what = self.what;
        let system = |source| GitError::System { what, source };
        if self.git.cancel.is_cancelled() {
            return Err(GitError::Cancelled { what });
        }
        let child = self
            .command
            .spawn()
            .map_err(|source| not_started(&self.command, what, source))?;
        // It has its own copy of the lock.
        self.command.stdin(Stdio::null());
        let mut watched = Watched::new(child).map_err(system)?;
        let begun = Instant::now();
        loop {
            let looked = watched
                .wait(LOOK)
                .and_then(|ended| {
                    if watched.out.is_over() {
                        return Err(io::Error::other(TOO_MUCH));
                    }
                    Ok(ended)
                })
                .map_err(system);
            match looked {
                Ok(true) => {
                    let status = watched.child.wait().map_err(system)?;
                    return Ok((status, watched.out.read, watched.err.read));
                }
                Ok(false) => {
                    if let Err(error) = self.git.go_on(what, begun) {
                        watched.end();
                        return Err(error);
                    }
                }
                Err(error) => {
                    watched.end();
                    return Err(error);
                }
            }
        }
    }
}

/// Why git was not started: a folder that is gone is told in the same words as a program that is missing.
fn not_started(command: &Command, what: &'static str, source: io::Error) -> GitError {
    if source.kind() != io::ErrorKind::NotFound {
        return GitError::System { what, source };
    }
    match command.get_current_dir() {
        Some(folder) if !folder.is_dir() => GitError::Refused {
            what: format!("cannot {what}: {} is gone", folder.display()),
            hint: None,
        },
        _ => GitError::Missing { what },
    }
}

fn failed(what: &'static str, status: ExitStatus, said: &[u8]) -> GitError {
    let text = String::from_utf8_lossy(said);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("hint:"))
        .collect();
    let mut said = lines.join("; ");
    if said.is_empty() {
        said = status.to_string();
    }
    let mut end = said.len().min(SAID);
    while !said.is_char_boundary(end) {
        end -= 1;
    }
    said.truncate(end);
    GitError::Failed { what, said }
}

/// Arguments that name a work tree and its git folder outright, so that git looks for neither.
pub(super) fn place(git_dir: &Path, work_tree: &Path) -> [OsString; 4] {
    [
        "--git-dir".into(),
        git_dir.into(),
        "--work-tree".into(),
        work_tree.into(),
    ]
}

/// A path as git prints it.
pub(super) fn path(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// The name of a file as it is told: as it is, or in quotation marks where something in it could not be seen.
pub(super) fn name(bytes: &[u8]) -> String {
    let name = String::from_utf8_lossy(bytes);
    if name.contains(char::is_control) {
        format!("{name:?}")
    } else {
        name.into_owned()
    }
}
