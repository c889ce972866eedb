//! Git worktrees: a folder and a branch for each attempt, so that agents do not step on each other.
//!
//! Rules that hold throughout:
//!
//! - git is the program `git`, never a library. What it is told beside options is a full name of a ref, the id of a
//!   commit, or stands behind `--end-of-options`, so that nothing from outside can be an option.
//! - The user's checkout, index and stash are read at most. Only [`Repository::merge`], which a person asks for,
//!   changes them. Whatever concerns a worktree names its folder and its git folder outright: where an agent has
//!   destroyed its worktree, git would otherwise find the user's checkout, in which all of them lie.
//! - Nothing is thrown away. Before a branch is moved or a worktree is given up, what it holds and no branch has is
//!   kept under `refs/cf/rescue/<task>/<attempt>`.
//! - Hooks are not run, nothing asks at a terminal, and every call has a time limit.
//! - Every step may be done twice: after a crash in the middle the same calls lead to the same end.
//!
//! Nothing here reads or writes the store: what is known of earlier worktrees is an argument, and what was found is the
//! answer. Everything here blocks, and is to be called where that is no harm.

mod git;
mod inner;
mod keep;
mod leftover;
mod merge;
mod prepare;
mod preview;
mod remove;
mod repository;

pub use git::{Cancel, Git, GitError};
pub use keep::{Kept, Leaving};
pub use leftover::{Leftover, LeftoverError, Standing, leftovers, remove_leftover};
pub use merge::{MergeRefused, Merged, some};
pub(crate) use prepare::taken;
pub use prepare::{Older, Order, Part, Ready, Unready};
pub use repository::{Base, Repository};

/// Where branches of tasks are: `cf/<key>`.
pub const BRANCHES: &str = "cf/";

/// The full name of a branch.
pub(crate) fn full(branch: &str) -> String {
    format!("refs/heads/{branch}")
}

/// The ref under which is kept what an attempt left and no branch has.
pub fn rescue_ref(task: cf_core::TaskId, attempt: cf_core::AttemptId) -> String {
    format!("refs/cf/rescue/{task}/{attempt}")
}

/// The branch of a task: its key, or the first 8 characters of its id.
pub fn branch_of(label: &cf_core::TaskLabel) -> String {
    format!("{BRANCHES}{label}")
}

/// A title as the first line of the message of a commit: on one line, and without control characters, which git is not
/// given. Older stores hold titles with any of them.
pub fn subject(title: &str) -> String {
    let words: Vec<&str> = title
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests;
