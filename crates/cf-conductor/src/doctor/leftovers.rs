//! Files that nobody needs any more, and their removal.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use cf_core::{BatchId, SupervisorId};

use super::{Examination, Finding};
use crate::process::lock_held;
use crate::store::{Reader, Result};
use crate::workspace::Workspace;

/// What is younger may belong to something that is just starting.
const OLD: Duration = Duration::from_mins(1);

/// One file or folder that can go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Where it is.
    pub path: PathBuf,
    /// What it was, as a noun.
    pub what: &'static str,
    /// The name of the worktree that it is, if it is one.
    pub worktree: Option<String>,
}

/// Looks for what nobody needs: files of supervisors that are dead and that no open attempt names, locks of batches
/// that have ended and nobody holds, links that were being made, and copies for an import.
pub(super) fn look(
    workspace: &Workspace,
    reader: &Reader<'_>,
    found: &mut Examination,
) -> Result<()> {
    let needed: HashSet<SupervisorId> = reader
        .open_attempts()?
        .into_iter()
        .map(|attempt| attempt.supervisor.supervisor)
        .collect();
    let unfinished: HashSet<BatchId> = reader
        .unfinished_batches()?
        .into_iter()
        .map(|batch| batch.id)
        .collect();
    let mut add = |path: PathBuf, what| {
        found.leftovers.push(Leftover {
            path,
            what,
            worktree: None,
        });
    };
    for (path, name) in old_entries(workspace.supervisors()) {
        let id = name
            .strip_suffix(".sup")
            .and_then(|id| id.parse::<SupervisorId>().ok());
        if id.is_some_and(|id| !needed.contains(&id)) && !lock_held(&path) {
            add(path, "file of a dead supervisor");
        }
    }
    for (path, name) in old_entries(workspace.folder().join("locks")) {
        let id = name
            .strip_suffix(".lock")
            .and_then(|id| id.parse::<BatchId>().ok());
        if id.is_some_and(|id| !unfinished.contains(&id) && workspace.conductor_of(id).is_none()) {
            add(path, "lock of a batch that has ended");
        }
    }
    for (path, name) in old_entries(workspace.bin()) {
        if name
            .strip_prefix("cf.")
            .is_some_and(|pid| pid.parse::<u32>().is_ok())
        {
            add(path, "link that was being made");
        }
    }
    for (path, name) in old_entries(workspace.folder()) {
        if name.starts_with("codeframe-") {
            add(path, "copy for an import that was interrupted");
        }
    }
    found.leftovers.sort_by(|a, b| a.path.cmp(&b.path));
    let count = found.leftovers.len();
    found.findings.push(if count == 0 {
        Finding::ok("leftovers", "none")
    } else {
        let what = format!(
            "{count} {} that nobody needs",
            if count == 1 { "thing" } else { "things" }
        );
        Finding::note("leftovers", what, "`cf doctor --fix` removes them")
    });
    Ok(())
}

/// What lies in a folder for longer than a moment, with its name.
fn old_entries(folder: PathBuf) -> Vec<(PathBuf, String)> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let now = SystemTime::now();
    entries
        .flatten()
        .filter(|entry| {
            let changed = entry
                .path()
                .symlink_metadata()
                .and_then(|meta| meta.modified());
            changed.is_ok_and(|at| now.duration_since(at).is_ok_and(|age| age >= OLD))
        })
        .filter_map(|entry| Some((entry.path(), entry.file_name().into_string().ok()?)))
        .collect()
}

/// Removes what was found, and returns for each what went wrong, if anything did. A supervisor or conductor that came
/// back to life in between keeps its file, a worktree that holds something by now stays.
pub fn clean(
    workspace: &Workspace,
    leftovers: &[Leftover],
) -> Vec<(Leftover, std::result::Result<(), String>)> {
    let remove = |leftover: &Leftover| {
        let path = &leftover.path;
        if let Some(name) = &leftover.worktree {
            return super::trees::remove(workspace, name, path);
        }
        if lock_held(path) {
            return Err("it is in use again".to_owned());
        }
        let meta = path.symlink_metadata().map_err(|error| error.to_string())?;
        let removed = if meta.is_dir() {
            fs::remove_dir_all(path)
        } else {
            fs::remove_file(path)
        };
        removed.map_err(|error| error.to_string())
    };
    leftovers
        .iter()
        .map(|leftover| (leftover.clone(), remove(leftover)))
        .collect()
}
