//! Supervisors that live though nobody needs them: their conductor is gone, and no open attempt names them.
//!
//! One that waits at its gate ends by itself when its conductor dies, unless somebody stopped it (SIGSTOP); then it is
//! let go on, which is all that is ever done to it. Who it is must be known for certain: from its own first record, by
//! a lock that is held, and by a process that has the same start, leads its session and was called with this very file.
//! A supervisor of a conductor that lives is never one of these, whether or not an attempt names it.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cf_core::SupervisorId;

use crate::process::{self, Identity, is_same, is_stopped, lock_held, stat};
use crate::store::{Reader, Result, StoreError};
use crate::supervise::hello_in;
use crate::workspace::{Workspace, inside};

/// How long one may take to end once it goes on. It takes milliseconds, unless an agent still runs below it.
const END: Duration = Duration::from_secs(1);

/// A supervisor that nobody needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stray {
    /// Its file.
    pub(crate) path: PathBuf,
    /// Who it is.
    pub(crate) identity: Identity,
}

impl Stray {
    /// Whether somebody stopped it.
    pub(crate) fn is_stopped(&self) -> bool {
        is_stopped(&self.identity)
    }

    /// Lets it go on. Returns whether it has ended, for which it is given a moment.
    pub(crate) fn let_go_on(&self) -> io::Result<bool> {
        process::let_go_on(&self.identity, END)
    }
}

/// The supervisors that open attempts name.
pub(crate) fn needed(reader: &Reader<'_>) -> Result<HashSet<SupervisorId>> {
    let open = reader.open_attempts()?;
    Ok(open
        .iter()
        .map(|attempt| attempt.supervisor.supervisor)
        .collect())
}

/// Looks for strays among the files of supervisors, apart from those that are needed.
pub(crate) fn find(
    workspace: &Workspace,
    needed: &HashSet<SupervisorId>,
) -> std::result::Result<Vec<Stray>, StoreError> {
    let folder = workspace.supervisors();
    // Behind a link in the folder's place lies nothing of the workspace.
    if inside::Folder::at(&folder).is_err() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if let Some(id) = supervisor_of(&path)
            && !needed.contains(&id)
            && lock_held(&path)
            && let Some(identity) = hello_in(&path)
            && let Some(parent) = parent_of(&identity, id, &path)
        {
            found.push((Stray { path, identity }, parent));
        }
    }
    if found.is_empty() {
        return Ok(Vec::new());
    }
    // A conductor has its lock before its first supervisor, and keeps it longer than the last one. So whoever is the
    // parent of one and conducts nothing by now conducts nothing any more.
    let conductors: Vec<Option<u32>> = workspace
        .live_batches()?
        .into_iter()
        .map(|batch| workspace.conductor_of(batch))
        .collect();
    let conducts = |parent: i32| {
        let is_it = |pid: u32| pid == 0 || pid == parent.unsigned_abs();
        conductors.iter().copied().flatten().any(is_it)
    };
    found.retain(|(_, parent)| !conducts(*parent));
    Ok(found.into_iter().map(|(stray, _)| stray).collect())
}

/// Whose file it is; nobody's when it is something else.
pub(crate) fn supervisor_of(path: &Path) -> Option<SupervisorId> {
    if path.extension()? != "sup" {
        return None;
    }
    path.file_stem()?.to_str()?.parse().ok()
}

/// The parent of the supervisor with this identity, if it is certain that it is the one of this file.
fn parent_of(identity: &Identity, id: SupervisorId, path: &Path) -> Option<i32> {
    if identity.supervisor != id || !is_same(identity) {
        return None;
    }
    let now = stat(identity.pid).ok()?;
    let called = fs::read(format!("/proc/{}/cmdline", identity.pid)).ok()?;
    // The folder may have been called by another name, the file may not.
    let file = path.file_name()?.as_encoded_bytes();
    let is_called_so = called
        .strip_suffix(b"\0")
        .and_then(|called| called.strip_suffix(file))
        .is_some_and(|before| before.ends_with(b"/"));
    // A parent outside this pid namespace is told as 0, and nobody can say whether it conducts.
    (is_called_so && now.session == identity.pid && now.ppid > 0).then_some(now.ppid)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::supervise::{Record, RecordFile, record_path};
    use rustix::process::Signal;

    /// A stopped process that leads its session and is called with a file, and who it is.
    fn stopped(file: &Path, id: SupervisorId) -> (Child, Identity) {
        let child = Command::new("setsid")
            .args(["sh", "-c", "read line"])
            .arg(file)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id().cast_signed();
        let is_there = || {
            let called = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
            called.starts_with(b"sh\0") && stat(pid).unwrap().session == pid
        };
        while !is_there() {
            std::thread::yield_now();
        }
        let identity = Identity {
            pid,
            start_ticks: stat(pid).unwrap().start_ticks,
            ..Identity::of_self(id).unwrap()
        };
        process::signal(&identity, Signal::STOP).unwrap();
        while !is_stopped(&identity) {
            std::thread::yield_now();
        }
        (child, identity)
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_stranger_whom_a_file_names_is_never_taken_for_a_supervisor() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::create(dir.path()).unwrap().0;
        let id = SupervisorId(uuid::Uuid::max());
        let path = record_path(&workspace.supervisors(), id);
        let none = HashSet::new();
        for (file, is_stray) in [(&*path, true), (Path::new("/elsewhere/file"), false)] {
            let (child, identity) = stopped(file, id);
            let mut held = RecordFile::create(&path).unwrap();
            held.append(&Record::Hello(identity.clone()).to_bytes())
                .unwrap();
            let path = path.clone();
            let stray = Stray { path, identity };
            let found = find(&workspace, &none).unwrap();
            assert_eq!(found.contains(&stray), is_stray, "called with {file:?}");
            assert!(find(&workspace, &HashSet::from([id])).unwrap().is_empty());
            fs::remove_file(&stray.path).unwrap();
            end(child);
        }
    }

    #[test]
    fn a_supervisor_whose_parent_conducts_is_no_stray() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::create(dir.path()).unwrap().0;
        let id = SupervisorId(uuid::Uuid::max());
        let path = record_path(&workspace.supervisors(), id);
        let (child, identity) = stopped(&path, id);
        let mut held = RecordFile::create(&path).unwrap();
        held.append(&Record::Hello(identity).to_bytes()).unwrap();
        let batch = cf_core::BatchId(uuid::Uuid::max());
        let lock = workspace.lock_batch(batch).unwrap().unwrap();
        let none = HashSet::new();
        assert!(find(&workspace, &none).unwrap().is_empty());
        drop(lock);
        assert_eq!(find(&workspace, &none).unwrap().len(), 1);
        end(child);
    }
}
