//! The end of an attempt's worktree: its work becomes a commit of the task's branch, or is kept under a rescue ref.
//!
//! What is committed and kept is what the agent left: the commit that HEAD of its worktree stands on, whatever branch
//! it is called by, and above it everything in the folder that git does not ignore. It is taken with an index of cf's
//! own, so that a half-written one of a killed agent does no harm.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::git::{Call, GitError, place};
use super::repository::Repository;
use super::{full, rescue_ref};

/// A worktree whose attempt is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// The attempt.
    pub attempt: cf_core::AttemptId,
    /// Its task.
    pub task: cf_core::TaskId,
    /// The folder's name.
    pub name: String,
    /// The task's branch, by its short name.
    pub branch: String,
    /// The commit that its agent started from.
    pub base: String,
    /// The message of the commit that is made of its work.
    pub message: String,
}

/// What became of the work of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It is on the task's branch, of which this is the newest commit. Nothing else is in the worktree.
    Committed {
        /// The commit, by its full id.
        head: String,
    },
    /// It is under this ref.
    Rescued {
        /// The full name of the ref.
        reference: String,
    },
    /// There was none.
    Nothing,
}

/// Where the parts of a worktree are that is looked at.
struct Place {
    tree: PathBuf,
    git_dir: PathBuf,
    index: PathBuf,
    /// Whether git still knows it as a worktree; else its branch stands for its HEAD.
    is_known: bool,
}

impl Repository {
    /// Commits what a successful attempt left, on its task's branch.
    ///
    /// # Errors
    ///
    /// Its worktree is gone, or git refuses. Nothing is lost then: what is there stays there.
    pub fn commit_work(&self, left: &Leaving) -> Result<Kept, GitError> {
        let place = self.place(left);
        if !place.tree.is_dir() {
            return Err(GitError::Refused {
                what: format!(
                    "its worktree {} is gone: the agent has removed it",
                    place.tree.display()
                ),
                hint: None,
            });
        }
        let tip = self.tip(&left.branch)?;
        let head = self.head(&place, left, tip.as_deref())?;
        let (tree, _) = self.snapshot(&place, &head, Careful::Yes)?;
        self.refuse_inner(&left.base, &tree)?;
        let commit = if self.has_tree(&head, &tree)? {
            head
        } else {
            self.new_commit(&tree, &[head], &left.message)?
        };
        if let Some(tip) = &tip
            && !self.contains(&commit, tip)?
        {
            // The agent went elsewhere; what it had left on the branch before is not on the way there.
            self.keep(left, tip)?;
        }
        self.move_branch(&left.branch, &commit, tip.as_deref())?;
        if place.is_known {
            self.in_tree(&place, "put a worktree on its branch")
                .args(["symbolic-ref", "HEAD"])
                .arg(full(&left.branch))
                .bytes()?;
            // The index that the commit was made of is the worktree's from now on: nothing in it is changed.
            fs::rename(&place.index, place.git_dir.join("index")).map_err(|source| {
                GitError::System {
                    what: "put the index of a worktree in its place",
                    source,
                }
            })?;
        }
        Ok(Kept::Committed { head: commit })
    }

    /// Keeps what an attempt left under its rescue ref, if there is anything that it did not start with. The worktree
    /// stays as it is.
    ///
    /// # Errors
    ///
    /// git refuses; what is in the worktree stays there.
    pub fn rescue(&self, left: &Leaving) -> Result<Kept, GitError> {
        let place = self.place(left);
        let tip = self.tip(&left.branch)?;
        let head = self.head(&place, left, tip.as_deref())?;
        let reference = rescue_ref(left.task, left.attempt);
        let before = self.commit(&reference)?;
        let tree = if place.tree.is_dir() {
            let (tree, index) = self.snapshot(&place, &head, Careful::No)?;
            let _ = fs::remove_file(index);
            Some(tree)
        } else {
            None
        };
        let mut parents = vec![head.clone()];
        // What is on the branch, or was kept before, and is not what HEAD came from.
        for other in [self.own_tip(&place, left, tip)?, before.clone()]
            .into_iter()
            .flatten()
        {
            let known = parents.iter().try_fold(false, |known, parent| {
                Ok::<_, GitError>(known || self.contains(parent, &other)?)
            })?;
            if !known {
                parents.push(other);
            }
        }
        if let Some(before) = &before
            && self.contains(before, &head)?
            && match &tree {
                Some(tree) => self.has_tree(before, tree)?,
                None => true,
            }
        {
            return Ok(Kept::Rescued { reference });
        }
        let tree = match tree {
            Some(tree) => tree,
            None => self.tree_of(&head)?,
        };
        let commit = if parents.len() == 1 && self.has_tree(&head, &tree)? {
            head
        } else {
            let message = format!(
                "What attempt {} of a task left\n\nKept by cf: it is on no branch.\n\nCf-Task: {}\nCf-Attempt: {}\n",
                left.attempt.short(),
                left.task,
                left.attempt
            );
            self.new_commit(&tree, &parents, &message)?
        };
        if self.contains(&left.base, &commit)? {
            return Ok(Kept::Nothing);
        }
        self.set_ref(&reference, &commit)?;
        Ok(Kept::Rescued { reference })
    }

    /// Keeps a commit under the rescue ref of an attempt, beside what is there. Nothing that the ref has is lost.
    pub(super) fn keep(&self, left: &Leaving, commit: &str) -> Result<String, GitError> {
        let reference = rescue_ref(left.task, left.attempt);
        let whole = match self.commit(&reference)? {
            Some(before) if self.contains(&before, commit)? => return Ok(reference),
            Some(before) if !self.contains(commit, &before)? => {
                let tree = self.tree_of(&before)?;
                let message = format!(
                    "What a task left\n\nKept by cf.\n\nCf-Task: {}\n",
                    left.task
                );
                self.new_commit(&tree, &[before, commit.to_owned()], &message)?
            }
            _ => commit.to_owned(),
        };
        self.set_ref(&reference, &whole)?;
        Ok(reference)
    }

    /// Puts a worktree that is given up on the commit that it is at, so that its branch is free. What is in it stays.
    pub(super) fn detach(&self, name: &str) -> Result<(), GitError> {
        let Some(git_dir) = self.git_dir(name) else {
            return Ok(());
        };
        let call = |what| {
            self.git
                .call(what, &self.common)
                .arg("--git-dir")
                .arg(&git_dir)
        };
        let head = call("find the commit of a worktree")
            .args(["rev-parse", "--verify", "--quiet", "--end-of-options"])
            .arg("HEAD^{commit}")
            .word()?;
        let Some(head) = head else {
            return Ok(());
        };
        call("free the branch of an older worktree")
            .args(["update-ref", "--no-deref", "HEAD"])
            .arg(head)
            .bytes()?;
        Ok(())
    }

    /// Moves a branch of a task from where it is believed to be; from nowhere, when it is to be new.
    pub(super) fn move_branch(
        &self,
        branch: &str,
        to: &str,
        from: Option<&str>,
    ) -> Result<(), GitError> {
        if from == Some(to) {
            return Ok(());
        }
        let lock = self.lock()?;
        self.clear_stale_lock(&full(branch))?;
        self.common("move the branch of a task")
            .holding(lock.hold()?)
            .args(["update-ref", "-m", "cf: the work of a task"])
            .args([&full(branch), to, from.unwrap_or_default()])
            .bytes()?;
        Ok(())
    }

    fn set_ref(&self, reference: &str, commit: &str) -> Result<(), GitError> {
        let lock = self.lock()?;
        self.clear_stale_lock(reference)?;
        self.common("keep the work of an attempt")
            .holding(lock.hold()?)
            .args(["update-ref", reference, commit])
            .bytes()?;
        Ok(())
    }

    /// Removes the lock file of a ref that a git left which was killed. While the lock of the repository is held no git
    /// of cf holds it, and nobody else changes the refs of cf for longer than an instant. One from the future is from
    /// before the clock was set.
    fn clear_stale_lock(&self, reference: &str) -> Result<(), GitError> {
        let file = self.common.join(format!("{reference}.lock"));
        let age = || {
            fs::symlink_metadata(&file)
                .and_then(|meta| meta.modified())
                .ok()
                .map(|at| at.elapsed().unwrap_or(STALE))
        };
        let begun = Instant::now();
        while let Some(age) = age() {
            if age >= STALE {
                let _ = fs::remove_file(&file);
                break;
            }
            self.git.go_on("wait for the lock of a ref", begun)?;
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn place(&self, left: &Leaving) -> Place {
        let known = self.git_dir(&left.name);
        Place {
            tree: self.tree(&left.name),
            is_known: known.is_some(),
            git_dir: known.unwrap_or_else(|| self.common.clone()),
            index: self.folder.join(format!(".{}.index", left.name)),
        }
    }

    fn in_tree(&self, place_: &Place, what: &'static str) -> Call<'_> {
        let folder: &Path = if place_.tree.is_dir() {
            &place_.tree
        } else {
            &self.common
        };
        self.git
            .call(what, folder)
            .args(place(&place_.git_dir, &place_.tree))
    }

    /// The commit that a worktree stands on; its branch's where git has forgotten the worktree, and what it started
    /// from where there is nothing else.
    fn head(&self, place: &Place, left: &Leaving, tip: Option<&str>) -> Result<String, GitError> {
        let own = if place.is_known {
            self.in_tree(place, "find the commit of a worktree")
                .args(["rev-parse", "--verify", "--quiet", "--end-of-options"])
                .arg("HEAD^{commit}")
                .word()?
        } else {
            tip.map(str::to_owned)
        };
        Ok(own.unwrap_or_else(|| left.base.clone()))
    }

    /// The branch's commit, as far as it is this worktree's to keep: a later attempt may have taken the branch since.
    fn own_tip(
        &self,
        place: &Place,
        left: &Leaving,
        tip: Option<String>,
    ) -> Result<Option<String>, GitError> {
        match tip {
            Some(tip) if place.is_known && self.contains(&tip, &left.base)? => {
                let holders = self.listed()?;
                let branch = full(&left.branch);
                let elsewhere = holders.iter().any(|listed| {
                    listed.branch.as_deref() == Some(&branch) && listed.path != place.tree
                });
                Ok((!elsewhere).then_some(tip))
            }
            _ => Ok(None),
        }
    }

    /// Writes everything that is in a worktree and not ignored as a tree. Returns it, and the index that it was made
    /// of.
    fn snapshot(
        &self,
        place: &Place,
        head: &str,
        careful: Careful,
    ) -> Result<(String, PathBuf), GitError> {
        let index = place.index.clone();
        let system = |source| GitError::System {
            what: "copy the index of a worktree",
            source,
        };
        let own = place.git_dir.join("index");
        // The copy knows which files have not changed, which saves reading them all. It has to be as old as the
        // original: git reads a file that was changed no earlier than the index was written, and believes the others
        // unchanged when their size and the second of their last change are.
        if place.is_known && own.is_file() {
            copy_with_age(&own, &index).map_err(system)?;
        } else {
            self.fresh_index(place, head)?;
        }
        let mut added = self.add_all(place)?;
        if added.is_some() {
            // Its own index cannot be used, or something cannot be read: the second try tells which.
            self.fresh_index(place, head)?;
            added = self.add_all(place)?;
        }
        if let Some(error) = added
            && careful == Careful::Yes
        {
            return Err(error);
        }
        let tree = self
            .in_tree(place, "write down what a worktree holds")
            .env("GIT_INDEX_FILE", &index)
            .arg("write-tree")
            .text()?;
        Ok((tree, index))
    }

    fn fresh_index(&self, place: &Place, head: &str) -> Result<(), GitError> {
        let _ = fs::remove_file(&place.index);
        self.in_tree(place, "read a commit into an index")
            .env("GIT_INDEX_FILE", &place.index)
            .args(["read-tree", head])
            .bytes()?;
        Ok(())
    }

    /// Adds what is there to the index. Returns what could not be added.
    fn add_all(&self, place: &Place) -> Result<Option<GitError>, GitError> {
        let lock = PathBuf::from(format!("{}.lock", place.index.display()));
        let _ = fs::remove_file(lock);
        let added = self
            .in_tree(place, "take in what a worktree holds")
            .env("GIT_INDEX_FILE", &place.index)
            .args(["add", "--all", "--ignore-errors"])
            .bytes();
        match added {
            Ok(_) => Ok(None),
            Err(error @ GitError::Failed { .. }) => Ok(Some(error)),
            Err(error) => Err(error),
        }
    }

    fn has_tree(&self, commit: &str, tree: &str) -> Result<bool, GitError> {
        Ok(self.tree_of(commit)? == tree)
    }

    fn tree_of(&self, commit: &str) -> Result<String, GitError> {
        self.common("find the tree of a commit")
            .args(["rev-parse", "--verify", "--end-of-options"])
            .arg(format!("{commit}^{{tree}}"))
            .text()
    }

    fn new_commit(
        &self,
        tree: &str,
        parents: &[String],
        message: &str,
    ) -> Result<String, GitError> {
        let mut call = self
            .common("commit the work of an attempt")
            .args(["commit-tree", tree]);
        for parent in parents {
            call = call.args(["-p", parent]);
        }
        call.arg("-m").arg(message).text()
    }
}

/// Copies a file, and when it was last written.
fn copy_with_age(from: &Path, to: &Path) -> io::Result<()> {
    // Taken before the content, so that the copy is at most too old, which only costs time.
    let written = fs::metadata(from)?.modified()?;
    fs::copy(from, to)?;
    File::options().write(true).open(to)?.set_modified(written)
}

/// Whether a file that cannot be read spoils the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Careful {
    Yes,
    No,
}

/// After how long a lock file of a ref is nobody's any more. git holds one for milliseconds.
const STALE: Duration = Duration::from_secs(2);
