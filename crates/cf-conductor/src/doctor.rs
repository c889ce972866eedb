//! What is wrong with a workspace and with what it needs, and what to do about it.
//!
//! Each check is a function that appends findings and fails for nothing: what cannot be looked at is a finding too.
//! Nothing is changed by looking. [`clean`] removes what the check of leftovers found, which is only what nobody can
//! miss: files of supervisors that are dead and that no attempt needs, supervisors that nobody needs and that were
//! stopped (they are let go on, and end), locks of batches that have ended, copies that an interrupted command left,
//! homes of agents whose tasks are done, what stands in the place of the wake file and holds nothing, and worktrees
//! that hold nothing of their own.

mod leftovers;
mod programs;
mod trees;

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::github::GithubSource;
use crate::process::lock_held;
use crate::store::{LINK_HINT, Reader, Result, Store, StoreError};
use crate::supervise::record_path;
use crate::workspace::Workspace;
use cf_core::BatchStatus;
pub use leftovers::{Leftover, clean};
pub use programs::VERSION_LIMIT;

/// How long GitHub may take to say what the token may do.
pub const SCOPES_LIMIT: Duration = Duration::from_secs(2);

/// With less free space than this, in bytes, the next batch may fail in the middle.
const LITTLE_SPACE: u64 = 100 * 1024 * 1024;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing; nothing is wrong.
    Note,
    /// Something does not work, or will not.
    Problem,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at: `workspace`, `config`, `wake`, `database`, `agents`, `git`, `github`, `attempts`,
    /// `disk`, `worktrees`, `leftovers`.
    pub check: &'static str,
    /// How bad it is.
    pub level: Level,
    /// What was found.
    pub what: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Finding {
    /// As it should be.
    pub fn ok(check: &'static str, what: impl Into<String>) -> Self {
        Self {
            check,
            level: Level::Ok,
            what: what.into(),
            hint: None,
        }
    }

    /// Worth knowing.
    pub fn note(check: &'static str, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            check,
            level: Level::Note,
            what: what.into(),
            hint: Some(hint.into()),
        }
    }

    /// Something is wrong.
    pub fn problem(check: &'static str, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            check,
            level: Level::Problem,
            what: what.into(),
            hint: Some(hint.into()),
        }
    }
}

/// Everything that was found, and what could be cleaned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examination {
    /// In the order in which it is shown.
    pub findings: Vec<Finding>,
    /// What [`clean`] would remove.
    pub leftovers: Vec<Leftover>,
}

/// Looks at the workspace, when there is one, and at the machine around it. Asks GitHub one question, for at most
/// [`SCOPES_LIMIT`], and each agent program for its version, for at most [`VERSION_LIMIT`].
pub fn examine(workspace: Option<&Workspace>, github: &GithubSource, path: &OsStr) -> Examination {
    let mut found = Examination::default();
    let mut links = 0;
    if let Some(workspace) = workspace {
        let here = format!("{}", workspace.root().display());
        found.findings.push(Finding::ok("workspace", here));
        wake_file(workspace, &mut found);
        match Store::open_to_read(workspace) {
            Ok(store) => {
                database(&store, &mut found);
                trees::look(workspace, &store, &mut found);
                let looked = store.read(|reader| {
                    links = reader.count_links()?;
                    attempts(workspace, reader, &mut found)?;
                    leftovers::look(workspace, reader, &mut found)
                });
                if let Err(error) = looked {
                    found.findings.push(unreadable(&error));
                }
            }
            Err(error) => found.findings.push(unreadable(&error)),
        }
        disk(workspace, &mut found);
    } else {
        let what = "there is none here";
        found
            .findings
            .push(Finding::note("workspace", what, "make one with `cf init`"));
    }
    programs::agents(path, &mut found);
    programs::git(path, workspace, &mut found);
    github_token(github, links, &mut found);
    found
}

/// Something else in the place of the file with which writers wake a conductor.
fn wake_file(workspace: &Workspace, found: &mut Examination) {
    let path = workspace.wake_file();
    let Some(what) = crate::wake::stranger(&path) else {
        return;
    };
    let what = format!(
        "{} is {what}: a running batch notices later what others do",
        path.display()
    );
    let hint = if leftovers::add_wake(&path, found) {
        "remove it, or have `cf doctor --fix` do that; cf makes the file anew"
    } else {
        "move it away; cf makes the file anew"
    };
    found.findings.push(Finding::problem("wake", what, hint));
}

fn unreadable(error: &StoreError) -> Finding {
    let hint = match error {
        StoreError::Linked { .. } => LINK_HINT,
        _ => "nothing was changed; a copy of .cf from before the trouble can take its place",
    };
    Finding::problem("database", crate::chain(error), hint)
}

fn database(store: &Store, found: &mut Examination) {
    match store.health() {
        Ok(health) if health.damage.is_empty() => {
            found.findings.push(Finding::ok(
                "database",
                format!(
                    "sound, version {}, {}",
                    health.version,
                    in_words(size_of(store.path()))
                ),
            ));
        }
        Ok(health) => {
            let damage = health.damage.join("; ");
            found.findings.push(Finding::problem(
                "database",
                format!("damaged: {damage}"),
                "stop every batch and put a copy of .cf from before in its place; `cf tasks export` saves what can be read",
            ));
        }
        Err(error) => found.findings.push(unreadable(&error)),
    }
}

/// The database with its journal, in bytes.
fn size_of(path: &Path) -> u64 {
    let wal = path.with_extension("db-wal");
    [path, &wal]
        .iter()
        .filter_map(|path| Some(std::fs::metadata(path).ok()?.len()))
        .sum()
}

/// Batches without a conductor, and attempts whose supervisor is gone.
fn attempts(workspace: &Workspace, reader: &Reader<'_>, found: &mut Examination) -> Result<()> {
    let before = found.findings.len();
    for batch in reader.unfinished_batches()? {
        let id = batch.id.short();
        if batch.status == BatchStatus::Running && workspace.conductor_of(batch.id).is_none() {
            found.findings.push(Finding::problem(
                "attempts",
                format!("batch {id} has not ended, and nobody conducts it"),
                format!("go on with `cf resume {id}`, or end it with `cf stop {id} --force`"),
            ));
        }
    }
    for attempt in reader.open_attempts()? {
        let file = record_path(&workspace.supervisors(), attempt.supervisor.supervisor);
        let batch = attempt.batch.short();
        if lock_held(&file) || workspace.conductor_of(attempt.batch).is_some() {
            continue;
        }
        let label = reader.label(attempt.task)?;
        found.findings.push(Finding::problem(
            "attempts",
            format!(
                "attempt {} of {label} has no end, and its supervisor is gone",
                attempt.generation
            ),
            format!(
                "`cf resume {batch}` settles it and goes on; `cf stop {batch}` only settles it"
            ),
        ));
    }
    if found.findings.len() == before {
        found
            .findings
            .push(Finding::ok("attempts", "none is stale"));
    }
    Ok(())
}

fn disk(workspace: &Workspace, found: &mut Examination) {
    let folder = workspace.folder();
    match rustix::fs::statvfs(&folder) {
        Ok(space) => {
            let free = space.f_bavail.saturating_mul(space.f_frsize);
            let what = format!("{} free", in_words(free));
            found.findings.push(if free < LITTLE_SPACE {
                Finding::problem(
                    "disk",
                    what,
                    "make room: logs of agents and the database need it",
                )
            } else {
                Finding::ok("disk", what)
            });
        }
        Err(error) => {
            let what = format!(
                "cannot tell how much space there is for {}: {error}",
                folder.display()
            );
            found
                .findings
                .push(Finding::problem("disk", what, "look at the file system"));
        }
    }
}

fn github_token(github: &GithubSource, links: u64, found: &mut Examination) {
    let host = github.default_host().to_owned();
    let source = match github.check(&host) {
        Ok(source) => source,
        Err(why) if links == 0 => {
            let hint = "nothing needs it: no task is linked to GitHub";
            found
                .findings
                .push(Finding::note("github", format!("off: {why}"), hint));
            return;
        }
        Err(why) => {
            let hint = if links == 1 {
                "1 link is not looked after until there is a token".to_owned()
            } else {
                format!("{links} links are not looked after until there is a token")
            };
            found
                .findings
                .push(Finding::problem("github", format!("off: {why}"), hint));
            return;
        }
    };
    let token = format!("{host}: token from {source}");
    found
        .findings
        .push(match github.scopes(&host, SCOPES_LIMIT) {
            Ok(cf_github::Scopes::Unlisted) => Finding::ok(
                "github",
                format!("{token}, taken; what it may do GitHub does not say for its kind"),
            ),
            Ok(cf_github::Scopes::Listed(scopes)) if scopes.iter().any(|scope| scope == "repo") => {
                Finding::ok("github", format!("{token}, scopes: {}", scopes.join(", ")))
            }
            Ok(cf_github::Scopes::Listed(scopes)) => {
                let scopes = if scopes.is_empty() {
                    "none".to_owned()
                } else {
                    scopes.join(", ")
                };
                let hint =
                    "it reads public repositories only; for others it needs the scope `repo`";
                Finding::note("github", format!("{token}, scopes: {scopes}"), hint)
            }
            Ok(cf_github::Scopes::Refused) => Finding::problem(
                "github",
                format!("{token}: GitHub does not take the token (401)"),
                "make a new token, or sign in again",
            ),
            Err(why) => Finding::note(
                "github",
                format!("{token}: {why}"),
                "a batch goes on without GitHub until it answers",
            ),
        });
}

/// A size in the largest unit in which it is at least one.
fn in_words(bytes: u64) -> String {
    let mut size = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if size < 1024.0 {
            return if unit == "B" {
                format!("{bytes} B")
            } else {
                format!("{size:.1} {unit}")
            };
        }
        size /= 1024.0;
    }
    format!("{size:.1} TiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_in_fitting_units() {
        let told = [0, 1023, 1024, 1_572_864, 5 << 40].map(in_words);
        assert_eq!(told, ["0 B", "1023 B", "1.0 KiB", "1.5 MiB", "5.0 TiB"]);
    }
}
