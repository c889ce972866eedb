//! The beginning of an attempt's worktree: its folder, its base, its branch.
//!
//! It has two halves, between which the commit that the agent will start from is stored: [`Repository::prepare`] makes
//! the folder and brings the base together, and touches no branch; [`Repository::take_branch`] gives the branch to it.
//! A crash in between leaves a folder without work, and a branch that was named in the store before it was there.

use std::path::Path;

use cf_core::AttemptId;

use super::git::{GitError, name, place};
use super::keep::Leaving;
use super::repository::{Repository, patiently};
use super::{Kept, full, rescue_ref};

/// What a worktree is to be made of.
#[derive(Clone, Debug)]
pub struct Order {
    /// The attempt that will work in it.
    pub attempt: AttemptId,
    /// Its task.
    pub task: cf_core::TaskId,
    /// The folder's name.
    pub name: String,
    /// The task's branch, by its short name.
    pub branch: String,
    /// Whether a branch of that name is cf's, if it is there.
    pub is_ours: bool,
    /// The commit that the batch starts from.
    pub base: String,
    /// The work of the tasks that this one depends on, in the order in which it is brought together.
    pub parts: Vec<Part>,
    /// A rescue ref, or a commit, to go on from.
    pub from: Option<String>,
    /// Earlier attempts that may have left something in a worktree or on the branch, oldest first.
    pub older: Vec<Older>,
}

/// The work of a task that another depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// How the task is called.
    pub label: String,
    /// Its branch, by its short name.
    pub branch: String,
    /// The newest commit of its work when it was done.
    pub head: String,
}

/// An earlier attempt in a worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Older {
    /// What is known of it.
    pub left: Leaving,
    /// Whether an agent may be working in it.
    pub is_live: bool,
    /// Whether an agent was ever started in it.
    pub has_run: bool,
    /// Whether its folder was removed.
    pub is_removed: bool,
}

/// A worktree that waits for its branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The commit that its agent will start from.
    pub base: String,
    /// Where the branch was; none when it is new.
    pub tip: Option<String>,
    /// What was kept of earlier attempts: each with the ref.
    pub saved: Vec<(AttemptId, String)>,
}

/// Why there is no worktree.
#[derive(Debug, thiserror::Error)]
pub enum Unready {
    /// The parts of the base contradict each other.
    #[error("{what} conflicts in {}", files.join(", "))]
    Conflict {
        /// What was brought together.
        what: String,
        /// The files that conflict.
        files: Vec<String>,
    },
    /// git refuses, or what is there is in the way.
    #[error(transparent)]
    Git(#[from] GitError),
}

impl Repository {
    /// Makes a worktree on its base. No branch is touched; what earlier attempts left is kept first.
    ///
    /// # Errors
    ///
    /// The branch is not cf's or is in use, the parts conflict, or git refuses. No worktree is left then.
    pub fn prepare(&self, order: &Order) -> Result<Ready, Unready> {
        let tip = self.tip(&order.branch)?;
        self.refuse_taken(order, tip.as_deref())?;
        let saved = self.save_older(order, tip.as_deref())?;
        let start = match &order.from {
            Some(reference) => self.commit(reference)?.ok_or_else(|| GitError::Refused {
                what: format!("{reference} is not there any more"),
                hint: None,
            })?,
            None => order.base.clone(),
        };
        match self.make(order, &start) {
            Ok(base) => Ok(Ready { base, tip, saved }),
            Err(error) => {
                // What is left of it is of no use to anybody, and the next attempt has a folder of its own.
                let _ = self.remove(&order.name);
                Err(error)
            }
        }
    }

    /// Gives a worktree that was prepared its branch, and takes that from the worktree of an earlier attempt.
    ///
    /// # Errors
    ///
    /// The branch has moved meanwhile, or git refuses.
    pub fn take_branch(&self, order: &Order, ready: &Ready) -> Result<(), GitError> {
        for older in &order.older {
            if older.is_removed || older.is_live {
                continue;
            }
            match self.detach(&older.left.name) {
                Err(_) if !self.is_there(&older.left.name) => {}
                detached => detached?,
            }
        }
        self.move_branch(&order.branch, &ready.base, ready.tip.as_deref())?;
        let git_dir = self
            .git_dir(&order.name)
            .ok_or_else(|| gone(&self.tree(&order.name)))?;
        self.git
            .call("put a worktree on its branch", &self.tree(&order.name))
            .args(place(&git_dir, &self.tree(&order.name)))
            .args(["symbolic-ref", "HEAD"])
            .arg(full(&order.branch))
            .bytes()?;
        Ok(())
    }

    /// Refuses a branch that somebody else made or uses.
    fn refuse_taken(&self, order: &Order, tip: Option<&str>) -> Result<(), GitError> {
        if tip.is_some() && !order.is_ours {
            return Err(taken(&order.branch));
        }
        let branch = full(&order.branch);
        for listed in self.listed()? {
            if listed.branch.as_deref() != Some(&branch) {
                continue;
            }
            let older = order
                .older
                .iter()
                .find(|older| self.tree(&older.left.name) == listed.path);
            match older {
                Some(older) if !older.is_live => {}
                Some(_) => {
                    return Err(GitError::Refused {
                        what: format!(
                            "branch {} is used by an attempt that may be alive",
                            order.branch
                        ),
                        hint: None,
                    });
                }
                None => {
                    return Err(GitError::Refused {
                        what: format!(
                            "branch {} is checked out in {}",
                            order.branch,
                            listed.path.display()
                        ),
                        hint: Some("check out something else there".to_owned()),
                    });
                }
            }
        }
        Ok(())
    }

    /// Keeps what earlier attempts left in their worktrees and on the branch.
    fn save_older(
        &self,
        order: &Order,
        tip: Option<&str>,
    ) -> Result<Vec<(AttemptId, String)>, GitError> {
        let mut saved = Vec::new();
        for older in &order.older {
            if !older.has_run || older.is_removed || older.is_live {
                continue;
            }
            match self.rescue(&older.left) {
                Ok(Kept::Rescued { reference }) => saved.push((older.left.attempt, reference)),
                Ok(_) => {}
                // Somebody has removed it meanwhile, so there was nothing to keep.
                Err(_) if !self.is_there(&older.left.name) => {}
                Err(error) => return Err(error),
            }
        }
        let Some(tip) = tip else {
            return Ok(saved);
        };
        // Work that was finished is on the branch alone, and so is what a person has put there, perhaps before the
        // attempt for whose sake the branch counts as cf's ever got it. What an attempt was to start from is no work.
        let is_a_base = order.older.iter().any(|older| older.left.base == tip);
        if is_a_base || self.contains(&order.base, tip)? || self.is_kept(order, tip)? {
            return Ok(saved);
        }
        let last = order.older.last().ok_or_else(|| taken(&order.branch))?;
        let reference = self.keep(&last.left, tip)?;
        saved.push((last.left.attempt, reference));
        Ok(saved)
    }

    fn is_there(&self, name: &str) -> bool {
        self.tree(name).exists() || self.git_dir(name).is_some()
    }

    fn is_kept(&self, order: &Order, commit: &str) -> Result<bool, GitError> {
        for older in &order.older {
            if let Some(kept) = self.commit(&rescue_ref(older.left.task, older.left.attempt))?
                && self.contains(&kept, commit)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes the folder, fills it, and brings the base together in it. Returns the commit.
    fn make(&self, order: &Order, start: &str) -> Result<String, Unready> {
        self.make_folder()?;
        let tree = self.tree(&order.name);
        {
            // Only this is done under the lock: filling a folder takes as long as the repository is large.
            let lock = self.lock()?;
            patiently(|| {
                self.common("add a worktree")
                    .holding(lock.hold()?)
                    .args(["worktree", "add", "--no-checkout", "--detach"])
                    .arg("--end-of-options")
                    .arg(&tree)
                    .arg(start)
                    .bytes()
            })?;
        }
        let git_dir = self.git_dir(&order.name).ok_or_else(|| gone(&tree))?;
        let call = |what| self.git.call(what, &tree).args(place(&git_dir, &tree));
        call("fill a worktree")
            .args(["reset", "--hard", "--quiet"])
            .bytes()?;
        let head = || {
            call("find the commit of a worktree")
                .args(["rev-parse", "--verify", "--end-of-options"])
                .arg("HEAD^{commit}")
                .text()
        };
        let mut parts = order.parts.clone();
        if let Some(from) = &order.from {
            parts.insert(
                0,
                Part {
                    label: format!("the base of the batch (to {from})"),
                    branch: String::new(),
                    head: order.base.clone(),
                },
            );
        }
        let mut brought: Vec<String> = Vec::new();
        for part in &parts {
            let wanted = self.newest(part)?;
            if self.contains(&head()?, &wanted)? {
                brought.push(part.label.clone());
                continue;
            }
            let merged = call("bring the work of dependencies together")
                .args(["-c", "commit.gpgSign=false"])
                .args(["merge", "--quiet", "--no-edit", "--no-stat"])
                .args(["--no-verify-signatures", "-m"])
                .arg(format!("Merge the work of {}", part.label))
                .args(["--end-of-options", &wanted])
                .bytes();
            if let Err(error) = merged {
                let files = call("find what conflicts")
                    .args(["diff", "--name-only", "--diff-filter=U", "-z"])
                    .bytes()?;
                let files: Vec<String> = files
                    .split(|byte| *byte == 0)
                    .filter(|name| !name.is_empty())
                    .map(name)
                    .collect();
                if files.is_empty() {
                    return Err(error.into());
                }
                return Err(Unready::Conflict {
                    what: bringing(&part.label, &brought),
                    files,
                });
            }
            brought.push(part.label.clone());
        }
        Ok(head()?)
    }

    /// The newest commit of a part: where its branch stands now, since a person may have gone on with it; what it was
    /// when it was done, where the branch is gone or somewhere else.
    ///
    /// # Errors
    ///
    /// git cannot be asked, or has not got the commit.
    pub fn newest(&self, part: &Part) -> Result<String, GitError> {
        let tip = if part.branch.is_empty() {
            None
        } else {
            self.tip(&part.branch)?
        };
        match tip {
            Some(tip) if self.contains(&tip, &part.head)? => Ok(tip),
            _ => Ok(part.head.clone()),
        }
    }
}

/// The refusal of a branch that cf did not make.
pub(crate) fn taken(branch: &str) -> GitError {
    GitError::Refused {
        what: format!("branch {branch} is there already, and cf did not make it"),
        hint: Some(format!(
            "rename it (`git branch -m {branch} NEW`), or give the task another key"
        )),
    }
}

fn gone(tree: &Path) -> GitError {
    GitError::Refused {
        what: format!("the worktree {} is gone", tree.display()),
        hint: None,
    }
}

fn bringing(label: &str, brought: &[String]) -> String {
    if brought.is_empty() {
        format!("bringing the work of {label} onto the base of the batch")
    } else {
        format!(
            "bringing the work of {label} together with that of {}",
            brought.join(", ")
        )
    }
}
