//! The end of a worktree's folder: only when nothing is lost with it.

use std::path::Path;

use super::git::{GitError, place};
use super::inner::has_inner;
use super::repository::{Repository, changed, patiently};

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
            let is_empty = || std::fs::read_dir(&tree).is_ok_and(|mut all| all.next().is_none());
            return Ok(!tree.exists() || is_empty());
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
            return match std::fs::remove_dir(&tree) {
                Ok(()) => Ok(()),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
                Err(source) => Err(GitError::System {
                    what: "remove a folder that git does not know as a worktree",
                    source,
                }),
            };
        }
        let lock = self.lock()?;
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
