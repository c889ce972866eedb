//! What nobody needs any more: files, and supervisors that were stopped (SIGSTOP); and how it goes.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use cf_core::{AttemptId, BatchId};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};

use super::{Examination, Finding};
use crate::process::lock_held;
use crate::store::{Reader, Result, Store, StoreError};
use crate::stray::{self, Stray};
use crate::supervise::RecordFile;
use crate::workspace::{PLANTED, Workspace, inside};

/// What is younger may belong to something that is just starting.
const OLD: Duration = Duration::from_mins(1);

/// What is said of a leftover that somebody took up in between.
const IN_USE: &str = "it is in use again";

/// One file or folder that can go, or a supervisor that can end, with its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Where it is.
    pub path: PathBuf,
    /// What it was, as a noun.
    pub what: Cow<'static, str>,
    pub(super) kind: Kind,
}

/// How a leftover is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The file of a supervisor.
    Supervisor,
    /// A supervisor that lives.
    Stray(Stray),
    /// The lock of a batch.
    Lock(BatchId),
    /// A link that was being made.
    Link,
    /// The folder of an import, locked for as long as the import is going on.
    Copy,
    /// A worktree, by its name.
    Worktree(String),
    /// The home that an attempt had of its own.
    Home(AttemptId),
    /// The file for the prompt of an attempt that never came.
    Prompt,
    /// What stood in the place of an attempt's folder.
    Planted,
    /// What stands in the place of the wake file, and holds nothing.
    Wake,
}

/// Adds what stands in the place of the wake file, unless it is a folder with something in it, which may be missed.
pub(super) fn add_wake(path: &Path, found: &mut Examination) -> bool {
    let is_full = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir())
        && fs::read_dir(path).map_or(true, |mut entries| entries.next().is_some());
    if !is_full {
        found.leftovers.push(Leftover {
            path: path.to_owned(),
            what: Cow::Borrowed("what stood in the place of the wake file"),
            kind: Kind::Wake,
        });
    }
    !is_full
}

/// Looks for what nobody needs: supervisors that live without a conductor, files of those that are dead, both where no
/// open attempt names them, locks of batches that have ended and nobody holds, links that were being made, copies for
/// an import, homes that agents had whose tasks are done, files that were made for attempts that never came, and what
/// stood in the place of others and could not be removed then.
pub(super) fn look(
    workspace: &Workspace,
    reader: &Reader<'_>,
    found: &mut Examination,
) -> Result<()> {
    let needed = stray::needed(reader)?;
    let unfinished: HashSet<BatchId> = reader
        .unfinished_batches()?
        .into_iter()
        .map(|batch| batch.id)
        .collect();
    let mut add = |path: PathBuf, what: &'static str, kind| {
        let what = Cow::Borrowed(what);
        found.leftovers.push(Leftover { path, what, kind });
    };
    for (path, _) in old_entries(workspace.supervisors()) {
        let id = stray::supervisor_of(&path);
        if id.is_some_and(|id| !needed.contains(&id)) && !lock_held(&path) {
            add(path, "file of a dead supervisor", Kind::Supervisor);
        }
    }
    for (path, name) in old_entries(workspace.folder().join("locks")) {
        let id = name
            .strip_suffix(".lock")
            .and_then(|id| id.parse::<BatchId>().ok());
        if let Some(id) = id
            && !unfinished.contains(&id)
            && workspace.conductor_of(id).is_none()
        {
            add(path, "lock of a batch that has ended", Kind::Lock(id));
        }
    }
    for (path, name) in old_entries(workspace.bin()) {
        if name
            .strip_prefix("cf.")
            .is_some_and(|pid| pid.parse::<u32>().is_ok())
        {
            add(path, "link that was being made", Kind::Link);
        }
    }
    for (path, name) in old_entries(workspace.folder()) {
        if name.starts_with("codeframe-") && !lock_held(&path) {
            let what = "copy for an import that was interrupted";
            add(path, what, Kind::Copy);
        }
    }
    for (path, attempt) in homes(workspace) {
        if is_over(reader, attempt)? {
            let what = "home that an agent had, whose task is done";
            add(path, what, Kind::Home(attempt));
        }
    }
    for (path, name) in old_entries(workspace.attempts()) {
        let id = name.strip_prefix(PLANTED);
        if id.is_some_and(|id| id.parse::<AttemptId>().is_ok()) {
            let what = "what stood in the place of an attempt's folder";
            add(path, what, Kind::Planted);
        }
    }
    // A conductor that lives may have made one for its next attempt.
    if workspace.live_batches().is_ok_and(|live| live.is_empty()) {
        for (path, name) in old_entries(workspace.attempts()) {
            let id = name.strip_suffix(".md");
            if let Some(Ok(id)) = id.map(str::parse::<AttemptId>)
                && !reader.has_attempt(id)?
                && is_empty_file(&path)
            {
                let what = "file for the prompt of an attempt that never came";
                add(path, what, Kind::Prompt);
            }
        }
    }
    for stray in stray::find(workspace, &needed)? {
        // One that goes on may be about to end.
        if stray.is_stopped() || is_old(&stray.path) {
            let (pid, stopped) = (stray.identity.pid, stray.is_stopped());
            let stopped = if stopped { "stopped " } else { "" };
            found.leftovers.push(Leftover {
                path: stray.path.clone(),
                what: format!(
                    "{stopped}supervisor without a conductor (process {pid}), with its file"
                )
                .into(),
                kind: Kind::Stray(stray),
            });
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

/// The homes that attempts had of their own.
fn homes(workspace: &Workspace) -> Vec<(PathBuf, AttemptId)> {
    old_entries(workspace.attempts())
        .into_iter()
        .filter_map(|(folder, name)| {
            let attempt = name.parse().ok()?;
            let home = folder.join("home");
            inside::Folder::at(&home).is_ok().then_some((home, attempt))
        })
        .collect()
}

/// Whether no attempt will go on with a session that this one began: its task is done or deleted, and nothing runs for
/// it.
fn is_over(reader: &Reader<'_>, attempt: AttemptId) -> Result<bool> {
    let task = match reader.attempt(attempt) {
        Ok(attempt) => attempt.task,
        // It is of another store; nobody here knows what it is worth.
        Err(StoreError::Unknown { .. }) => return Ok(false),
        Err(error) => return Err(error),
    };
    let is_done = reader
        .standing(task)?
        .is_none_or(|now| now.deleted || now.status.is_done());
    Ok(is_done && reader.open_attempts_of(task)?.is_empty())
}

/// What lies in a folder for longer than a moment, with its name. Behind a link in the folder's place lies nothing of
/// the workspace.
fn old_entries(folder: PathBuf) -> Vec<(PathBuf, String)> {
    if inside::Folder::at(&folder).is_err() {
        return Vec::new();
    }
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| is_old(&entry.path()))
        .filter_map(|entry| Some((entry.path(), entry.file_name().into_string().ok()?)))
        .collect()
}

/// Whether what stands there has not been changed for longer than a moment.
fn is_old(path: &Path) -> bool {
    let changed = path.symlink_metadata().and_then(|meta| meta.modified());
    changed.is_ok_and(|at| {
        SystemTime::now()
            .duration_since(at)
            .is_ok_and(|age| age >= OLD)
    })
}

/// Removes what was found, and returns for each what went wrong, if anything did. A supervisor or conductor that came
/// back to life in between keeps its file, a worktree that holds something by now stays.
pub fn clean(
    workspace: &Workspace,
    leftovers: &[Leftover],
) -> Vec<(Leftover, std::result::Result<(), String>)> {
    leftovers
        .iter()
        .map(|leftover| (leftover.clone(), remove(workspace, leftover)))
        .collect()
}

/// Removes one. What has a lock is removed by whoever holds that, so that nobody else takes it up in between.
fn remove(workspace: &Workspace, leftover: &Leftover) -> std::result::Result<(), String> {
    let path = &leftover.path;
    let gone = match &leftover.kind {
        Kind::Worktree(name) => return super::trees::remove(workspace, name, path),
        Kind::Stray(stray) => return end_stray(workspace, stray),
        Kind::Supervisor => RecordFile::remove_unless_held(path),
        Kind::Lock(batch) => {
            let lock = workspace.lock_batch(*batch);
            // Its file goes with it.
            return match lock.map_err(|error| crate::chain(&error))? {
                Ok(_lock) => Ok(()),
                Err(_) => Err(IN_USE.to_owned()),
            };
        }
        Kind::Home(attempt) => return remove_home(workspace, path, *attempt),
        Kind::Link => remove_link(path),
        Kind::Copy => remove_copy(path),
        Kind::Prompt => remove_prompt(path),
        Kind::Planted => inside::remove_all(path).map(|()| true),
        Kind::Wake => remove_wake(path),
    };
    match gone {
        Ok(true) => Ok(()),
        Ok(false) => Err(IN_USE.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Lets a supervisor go on that nobody needs, unless somebody does by now, and removes its file once it has ended.
fn end_stray(workspace: &Workspace, stray: &Stray) -> std::result::Result<(), String> {
    let strays = Store::open_to_read(workspace)
        .and_then(|store| store.read(stray::needed))
        .and_then(|needed| stray::find(workspace, &needed))
        .map_err(|error| crate::chain(&error))?;
    // It may have ended by itself since.
    if !strays.contains(stray) && lock_held(&stray.path) {
        return Err(IN_USE.to_owned());
    }
    if !stray.let_go_on().map_err(|error| error.to_string())? {
        return Err("it goes on, and has not ended yet".to_owned());
    }
    match RecordFile::remove_unless_held(&stray.path) {
        Ok(true) => Ok(()),
        Ok(false) => Err(IN_USE.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Removes what stands in the place of the wake file, unless somebody has put the file there, or something in it.
fn remove_wake(path: &Path) -> io::Result<bool> {
    if crate::wake::stranger(path).is_none() {
        return Ok(!path.exists());
    }
    let folder = inside::Folder::around(path)?;
    let name = path.file_name().unwrap_or_default();
    match folder.remove_file(name) {
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => folder.remove_folder(name)?,
        removed => removed?,
    }
    Ok(true)
}

/// Removes the home of an attempt, unless its task has been taken up again. Agents could put a link in the place of the
/// folder around it.
fn remove_home(
    workspace: &Workspace,
    path: &Path,
    attempt: AttemptId,
) -> std::result::Result<(), String> {
    let over = Store::open_to_read(workspace)
        .and_then(|store| store.read(|reader| is_over(reader, attempt)))
        .map_err(|error| crate::chain(&error))?;
    if !over {
        return Err(IN_USE.to_owned());
    }
    inside::remove_all(path).map_err(|error| error.to_string())
}

/// Removes the folder of an import unless the import is going on. Returns whether it is gone.
fn remove_copy(path: &Path) -> io::Result<bool> {
    let folder = inside::open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
    if flock(&folder, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(false);
    }
    fs::remove_dir_all(path).map(|()| true)
}

/// Whether a regular file that holds nothing stands there.
fn is_empty_file(path: &Path) -> bool {
    let around = inside::Folder::at(path.parent().unwrap_or(path));
    around.is_ok_and(|folder| folder.is_empty_file(path.file_name().unwrap_or_default()))
}

/// Removes the file of an attempt that never came, unless something was put there. Returns whether it is gone.
fn remove_prompt(path: &Path) -> io::Result<bool> {
    if !is_empty_file(path) {
        return Ok(false);
    }
    remove_link(path)
}

/// Removes a link, in the folder that was looked into and not in one that a link leads to.
fn remove_link(path: &Path) -> io::Result<bool> {
    let around = inside::Folder::at(path.parent().unwrap_or(path))?;
    around
        .remove_file(path.file_name().unwrap_or_default())
        .map(|()| true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    #[test]
    fn a_lock_that_is_cleaned_away_is_never_held_twice() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::create(dir.path()).unwrap().0;
        let batch: BatchId = "00000000-0000-4000-8000-000000000002".parse().unwrap();
        let path = workspace.folder().join(format!("locks/{batch}.lock"));
        let leftover = Leftover {
            path: path.clone(),
            what: "lock".into(),
            kind: Kind::Lock(batch),
        };
        let (holders, over) = (AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let conductors: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..200 {
                            if let Ok(_lock) = workspace.lock_batch(batch).unwrap() {
                                assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                                std::thread::yield_now();
                                holders.fetch_sub(1, Ordering::SeqCst);
                            }
                        }
                    })
                })
                .collect();
            scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    clean(&workspace, std::slice::from_ref(&leftover));
                }
            });
            let ended: Vec<_> = conductors.into_iter().map(|one| one.join()).collect();
            over.store(true, Ordering::SeqCst);
            assert!(ended.iter().all(std::result::Result::is_ok));
        });
        assert!(!path.exists());
    }
}
