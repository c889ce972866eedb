//! The end of a worktree's folder: only when nothing is lost with it.

use super::git::{GitError, place};
use super::repository::{Repository, changed, patiently};

impl Repository {
    /// Removes a worktree when its attempt is over and nothing in it would be lost: everything in it is committed or
    /// ignored, and what it stands on is on a branch or kept. Returns whether it is gone.
    ///
    /// # Errors
    ///
    /// git refuses.
    pub fn remove_if_clean(&self, name: &str) -> Result<bool, GitError> {
        if !self.is_clean(name)? {
            return Ok(false);
        }
        self.remove(name)?;
        Ok(true)
    }

    /// Whether nothing would be lost with a worktree. One that git has forgotten is not clean: nobody can tell.
    pub(super) fn is_clean(&self, name: &str) -> Result<bool, GitError> {
        let tree = self.tree(name);
        let Some(git_dir) = self.git_dir(name) else {
            return Ok(!tree.exists());
        };
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
        let head = call("find the commit of a worktree")
            .args(["rev-parse", "--verify", "--quiet", "--end-of-options"])
            .arg("HEAD^{commit}")
            .word()?;
        let Some(head) = head else {
            return Ok(false);
        };
        let holder = self
            .common("find out who has a commit")
            .args(["for-each-ref", "--count=1"])
            .arg(format!("--contains={head}"))
            .text()?;
        Ok(!holder.is_empty())
    }

    /// Removes a worktree whatever is in it.
    ///
    /// # Errors
    ///
    /// git refuses.
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
        patiently(|| {
            self.common("remove a worktree")
                .holding(lock.hold()?)
                .args(["worktree", "remove", "--force", "--end-of-options"])
                .arg(&tree)
                .bytes()
        })?;
        Ok(())
    }
}
