//! Git worktrees of attempts that are still there: what they hold, and which can go.

use std::path::Path;
use std::time::Duration;

use cf_core::TaskLabel;

use super::leftovers::Kind;
use super::{Examination, Finding, Leftover};
use crate::store::Store;
use crate::workspace::Workspace;
use crate::worktree::{
    self, Cancel, Git, LeftoverError, Repository, Standing, leftovers, remove_leftover,
};

/// How long one call of git may take here.
const GIT_LIMIT: Duration = Duration::from_secs(30);

/// Looks at every worktree that a batch of this workspace made. One that is clean is a leftover, one with work in it is
/// told by name, and one with an agent in it is nobody's business.
pub(super) fn look(workspace: &Workspace, store: &Store, found: &mut Examination) {
    // Whoever never asked for worktrees needs no repository either.
    if !workspace.worktrees().is_dir() {
        return;
    }
    match repository(workspace).and_then(|repository| leftovers(&repository, store)) {
        Ok(left) => {
            let mut dirty = Vec::new();
            for tree in left {
                match tree.standing {
                    Standing::Live => {}
                    Standing::Dirty => dirty.push(match task_of(store, &tree) {
                        Some(label) => format!("{} of task {label}", tree.name),
                        None => tree.name,
                    }),
                    Standing::Clean | Standing::Prunable => found.leftovers.push(Leftover {
                        path: tree.path,
                        what: "worktree that holds nothing of its own".into(),
                        kind: Kind::Worktree(tree.name),
                    }),
                }
            }
            found.findings.push(if dirty.is_empty() {
                Finding::ok("worktrees", "none is left with something in it")
            } else {
                Finding::note(
                    "worktrees",
                    format!("something is left in {}", dirty.join(", ")),
                    format!(
                        "`cf tasks show TASK` says what is kept of it; nothing removes it but `git worktree remove --force \
                         {}/NAME`",
                        workspace.worktrees().display()
                    ),
                )
            });
        }
        Err(error) => found.findings.push(Finding::problem(
            "worktrees",
            crate::chain(&error),
            "nothing was changed; look with `git worktree list`",
        )),
    }
}

/// The label of the task whose attempt a worktree was made for; none when the store does not know it.
fn task_of(store: &Store, tree: &worktree::Leftover) -> Option<TaskLabel> {
    let (_, task) = tree.attempt?;
    store.read(|reader| reader.label(task)).ok()
}

/// Removes a worktree, unless something would be lost with it by now.
pub(super) fn remove(workspace: &Workspace, name: &str, path: &Path) -> Result<(), String> {
    let gone = repository(workspace).and_then(|repository| {
        let store = Store::open_to_read(workspace)?;
        remove_leftover(&repository, &store, name)
    });
    match gone {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("there is work in {} by now", path.display())),
        Err(error) => Err(crate::chain(&error)),
    }
}

fn repository(workspace: &Workspace) -> Result<Repository, LeftoverError> {
    let git = Git::new(GIT_LIMIT, None, Cancel::default());
    Ok(Repository::of(workspace, git)?)
}
