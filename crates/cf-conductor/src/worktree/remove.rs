//! The end of a worktree's folder: only when nothing is lost with it.

use std::path::Path;

use super::git::{self, GitError, place};
use super::inner::has_inner;
use super::repository::{Lock, Repository, changed, patiently};

/// What git gives as the reason for its own lock on a worktree that it is adding.
const ADDING: &str = "initializing";

impl Repository {
    /// Removes a worktree when its attempt is over and nothing in it would be lost: everything in it is committed or
    /// ignored, and what it stands on is on a branch or kept, or is its base, where that is given: cf has made that
    /// itself. Returns whether it is gone.
    ///
    /// # Errors
    ///
    /// git refuses.
    pub fn remove_if_clean(&self, name: &str, base: Option<&str>) -> Result<bool, GitError> {
        self.forget_half_added(&self.lock()?);
        if !self.is_clean(name, base)? {
            return Ok(false);
        }
        self.remove(name)?;
        Ok(true)
    }

    /// Whether nothing would be lost with a worktree. One that git has forgotten is not clean: nobody can tell. Nor is
    /// one that somebody has locked, or that has another repository in it, whose objects nobody else may have.
    pub(super) fn is_clean(&self, name: &str, base: Option<&str>) -> Result<bool, GitError> {
        let tree = self.tree(name);
        let Some(git_dir) = self.git_dir(name) else {
            return Ok(!tree.exists() || holds_nothing(&tree));
        };
        if lock_of(&git_dir) == Locked::BySomebody {
            return Ok(false);
        }
        if !tree.exists() {
            return Ok(true);
        }
        let call = |what| self.git.call(what, &tree).args(place(&git_dir, &tree));
        let status = call("look at a worktree")
            .args(["status", "--porcelain=v1", "-z", "--untracked-files=normal"])
            .arg("--ignore-submodules=none")
            .bytes()?;
        if !changed(&status).is_empty() {
            return Ok(false);
        }
        let files = call("look for repositories in a worktree")
            .args(["ls-files", "--stage", "-z"])
            .bytes()?;
        if has_inner(&tree, &files) {
            return Ok(false);
        }
        let head = call("find the commit of a worktree")
            .args(["rev-parse", "--verify", "--quiet", "--end-of-options"])
            .arg("HEAD^{commit}")
            .word()?;
        let Some(head) = head else {
            return Ok(false);
        };
        if base == Some(&head) {
            return Ok(true);
        }
        let holder = self
            .common("find out who has a commit")
            .args(["for-each-ref", "--count=1"])
            .arg(format!("--contains={head}"))
            .text()?;
        Ok(!holder.is_empty())
    }

    /// Removes a worktree whatever is in it, and whoever was killed while it was being added.
    ///
    /// # Errors
    ///
    /// Somebody has locked it, or git refuses.
    pub fn remove(&self, name: &str) -> Result<(), GitError> {
        let tree = self.tree(name);
        if self.git_dir(name).is_none() {
            return remove_folder(&tree);
        }
        let lock = self.lock()?;
        self.forget_half_added(&lock);
        if self.git_dir(name).is_none() {
            return remove_folder(&tree);
        }
        // Under the lock of the repository no git of cf is adding it any more.
        let force: &[&str] = match self.git_dir(name).map(|git_dir| lock_of(&git_dir)) {
            Some(Locked::ByKilled) => &["--force", "--force"],
            _ => &["--force"],
        };
        patiently(|| {
            self.common("remove a worktree")
                .holding(lock.hold()?)
                .args(["worktree", "remove"])
                .args(force)
                .arg("--end-of-options")
                .arg(&tree)
                .bytes()
        })?;
        Ok(())
    }

    /// Removes what git keeps of worktrees of cf that a git was adding when it was killed, before it had written where
    /// the repository is or where the worktree stands: over an empty file of the first every git fails, the user's own
    /// too, whatever it is asked, and without the second `git fsck` finds fault with the repository for ever. Under the
    /// lock of the repository no git of cf is adding any. What cannot be removed is git's to complain about.
    pub(super) fn forget_half_added(&self, _lock: &Lock) {
        let all = std::fs::read_dir(self.common.join("worktrees"));
        for dir in all
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
        {
            let is_ours = std::fs::read(dir.join("gitdir"))
                .is_ok_and(|text| git::path(text.trim_ascii_end()).starts_with(&self.folder));
            if is_ours && is_half(&dir) && lock_of(&dir) == Locked::ByKilled {
                tracing::info!(dir = %dir.display(), "a worktree was half added by a git that was killed");
                let _ = std::fs::remove_dir_all(&dir);
            }
        }
    }
}

/// Whether git has not written yet where the repository of a worktree is, or where the worktree stands. It writes them
/// in this order, and checks nothing out before it has written both (git 2.47, `builtin/worktree.c`).
fn is_half(git_dir: &Path) -> bool {
    ["commondir", "HEAD"]
        .iter()
        .any(|file| match std::fs::metadata(git_dir.join(file)) {
            Ok(metadata) => metadata.len() == 0,
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        })
}

/// Whether a folder is empty, but for the file that names the repository in a worktree that was half added.
fn holds_nothing(tree: &Path) -> bool {
    let is_that = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.file_name() == ".git" && entry.path().is_file())
    };
    std::fs::read_dir(tree).is_ok_and(|mut all| all.all(is_that))
}

/// Removes the folder of a worktree that git does not know, or of which it knew a half: nothing but the file that names
/// the repository was in it.
fn remove_folder(tree: &Path) -> Result<(), GitError> {
    let system = |source| GitError::System {
        what: "remove a folder that git does not know as a worktree",
        source,
    };
    if holds_nothing(tree) {
        let _ = std::fs::remove_file(tree.join(".git"));
    }
    match std::fs::remove_dir(tree) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(system(error)),
        _ => Ok(()),
    }
}

/// Who has locked a worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Locked {
    Not,
    /// A git that was adding it, and was killed unless that is still under way.
    ByKilled,
    BySomebody,
}

fn lock_of(git_dir: &Path) -> Locked {
    match std::fs::read(git_dir.join("locked")) {
        Ok(reason) if reason.trim_ascii() == ADDING.as_bytes() => Locked::ByKilled,
        Ok(_) => Locked::BySomebody,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Locked::Not,
        Err(_) => Locked::BySomebody,
    }
}
