//! Bringing the work of a task into the user's checkout: the only thing here that changes it, and only when asked to.

use super::git::{self, Call, GitError};
use super::repository::{Repository, changed};
use crate::fault;

/// What git keeps while something goes on in a checkout that takes more than one command, what that is, and the command
/// by which it goes on.
const UNDER_WAY: [(&str, &str, &str); 6] = [
    ("MERGE_HEAD", "a merge", "merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick", "cherry-pick"),
    ("REVERT_HEAD", "a revert", "revert"),
    ("rebase-merge", "a rebase", "rebase"),
    ("rebase-apply", "a rebase", "rebase"),
    ("sequencer", "a cherry-pick or a revert", "cherry-pick"),
];

/// What became of one merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// It was there already.
    Already,
    /// It was brought in, and this is the commit that the branch stands on now.
    Brought(String),
}

/// Why a merge did not come about. The checkout is as it was before it.
#[derive(Debug, thiserror::Error)]
pub enum MergeRefused {
    /// Both sides changed the same things.
    #[error("it conflicts in {}", .0.join(", "))]
    Conflict(Vec<String>),
    /// It would write over files of the user's that no commit has.
    #[error("it would write over {}, which is in no commit", some(.0))]
    InTheWay(Vec<String>),
    /// git refuses.
    #[error(transparent)]
    Git(#[from] GitError),
}

impl Repository {
    /// The branch that is checked out in the user's checkout, when something can be merged into it.
    ///
    /// # Errors
    ///
    /// Something is under way there, HEAD is detached, something is changed and not committed, or git refuses.
    pub fn ready_to_merge(&self) -> Result<String, GitError> {
        self.refuse_under_way()?;
        let branch = self.branch()?.ok_or_else(|| GitError::Refused {
            what: "no branch is checked out that work could be merged into: HEAD is detached"
                .to_owned(),
            hint: Some("check out a branch first".to_owned()),
        })?;
        let status = self
            .here("look at the checkout")
            .args(["status", "--porcelain=v1", "-z", "--untracked-files=no"])
            .bytes()?;
        let dirty = changed(&status);
        if !dirty.is_empty() {
            return Err(GitError::Refused {
                what: format!(
                    "the checkout has changes that are not committed: {}",
                    some(&dirty)
                ),
                hint: Some("commit or stash them first".to_owned()),
            });
        }
        Ok(branch)
    }

    /// Refuses to do anything in a checkout in which the user is in the middle of something: that is theirs to end, and
    /// git takes its remains for those of a merge of cf's.
    fn refuse_under_way(&self) -> Result<(), GitError> {
        let git_dir = self
            .here("find out what is under way in the checkout")
            .args(["rev-parse", "--absolute-git-dir"])
            .bytes()?;
        let git_dir = git::path(git_dir.trim_ascii_end());
        for (mark, what, command) in UNDER_WAY {
            if std::fs::symlink_metadata(git_dir.join(mark)).is_ok() {
                return Err(GitError::Refused {
                    what: format!("{what} is under way in the checkout"),
                    hint: Some(format!(
                        "end it or undo it first: `git {command} --continue`, or `git {command} --abort`"
                    )),
                });
            }
        }
        Ok(())
    }

    /// Merges a commit into the branch that is checked out. Hooks are not run.
    ///
    /// # Errors
    ///
    /// It conflicts, or git refuses; the checkout is as it was then.
    pub fn merge(&self, commit: &str, message: &str) -> Result<Merged, MergeRefused> {
        let before = self.head_here()?;
        if self.contains(&before, commit)? {
            return Ok(Merged::Already);
        }
        let lock = self.lock()?;
        self.refuse_under_way()?;
        self.foresee(&before, commit)?;
        let merged = self
            .here("merge the work of a task")
            .holding(lock.hold()?)
            .args([
                "merge",
                "--quiet",
                "--no-ff",
                "--no-edit",
                "--no-stat",
                "-m",
            ])
            .arg(message)
            .args(["--end-of-options", commit])
            .bytes();
        let Err(error) = merged else {
            fault::point("merge.merged");
            return Ok(Merged::Brought(self.head_here()?));
        };
        let files = self
            .here("find what conflicts")
            .args(["diff", "--name-only", "--diff-filter=U", "-z"])
            .bytes()?;
        let begun = self
            .here("find out whether a merge has begun")
            .args(["rev-parse", "--verify", "--quiet", "MERGE_HEAD"])
            .word()?;
        if begun.is_some() {
            self.here("undo a merge")
                .args(["merge", "--abort"])
                .bytes()?;
        }
        let files: Vec<String> = files
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty())
            .map(git::name)
            .collect();
        if files.is_empty() {
            return Err(error.into());
        }
        Err(MergeRefused::Conflict(files))
    }

    fn head_here(&self) -> Result<String, GitError> {
        self.here("find the current commit")
            .args(["rev-parse", "--verify", "--end-of-options", "HEAD^{commit}"])
            .text()
    }

    pub(super) fn here(&self, what: &'static str) -> Call<'_> {
        self.git.call(what, &self.root)
    }
}

/// The first of some names, and how many more there are.
pub fn some(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let mut text = names[..names.len().min(SHOWN)].join(", ");
    if names.len() > SHOWN {
        text = format!("{text} and {} more", names.len() - SHOWN);
    }
    text
}
