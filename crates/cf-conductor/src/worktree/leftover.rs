//! What is left of worktrees, and which of it can go.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use cf_core::{AttemptId, TaskId};

use super::git::GitError;
use super::repository::Repository;
use crate::store::worktree::Worktree;
use crate::store::{Store, StoreError};

/// Where a worktree stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// An agent works in it, or may.
    Live,
    /// It holds something that is not committed, or that no branch and no rescue ref has.
    Dirty,
    /// Nothing would be lost with it.
    Clean,
    /// Its folder is gone, and git still knows it.
    Prunable,
}

/// A worktree of an attempt that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Its folder's name.
    pub name: String,
    /// Its folder.
    pub path: PathBuf,
    /// The attempt that it was made for, and its task; none when the store does not know it.
    pub attempt: Option<(AttemptId, TaskId)>,
    /// Where it stands.
    pub standing: Standing,
}

/// Why leftovers cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum LeftoverError {
    /// The store refuses.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// git refuses.
    #[error(transparent)]
    Git(#[from] GitError),
}

/// Lists the worktrees of attempts that are there, by name. It changes nothing.
///
/// # Errors
///
/// The store or git refuses.
pub fn leftovers(repository: &Repository, store: &Store) -> Result<Vec<Leftover>, LeftoverError> {
    let rows = store.read(|reader| reader.worktrees_left())?;
    let known: HashMap<&str, &Worktree> = rows.iter().map(|row| (row.name.as_str(), row)).collect();
    let mut names: BTreeSet<String> = BTreeSet::new();
    for listed in repository.listed()? {
        if listed.path.parent() == Some(&repository.folder)
            && let Some(name) = listed.path.file_name().and_then(|name| name.to_str())
        {
            names.insert(name.to_owned());
        }
    }
    for name in repository.entries() {
        let is_folder = repository
            .folder
            .join(&name)
            .symlink_metadata()
            .is_ok_and(|meta| meta.is_dir());
        if is_folder && let Ok(name) = name.into_string() {
            names.insert(name);
        }
    }
    let mut list = Vec::new();
    for name in names {
        let row = known.get(name.as_str());
        let path = repository.tree(&name);
        let standing = if row.is_some_and(|row| row.is_live) {
            Standing::Live
        } else if !path.exists() {
            Standing::Prunable
        } else if repository.is_clean(&name, row.and_then(|row| row.base.as_deref()))? {
            Standing::Clean
        } else {
            Standing::Dirty
        };
        list.push(Leftover {
            attempt: row.map(|row| (row.attempt, row.task)),
            name,
            path,
            standing,
        });
    }
    Ok(list)
}

/// Removes a leftover worktree if nothing is lost with it: it is looked at again first. Returns whether it is gone.
///
/// # Errors
///
/// The store or git refuses.
pub fn remove_leftover(
    repository: &Repository,
    store: &Store,
    name: &str,
) -> Result<bool, LeftoverError> {
    let found = leftovers(repository, store)?
        .into_iter()
        .find(|left| left.name == name);
    match found.map(|left| left.standing) {
        Some(Standing::Clean | Standing::Prunable) => {
            let rows = store.read(|reader| reader.worktrees_left())?;
            let base = rows.into_iter().find(|row| row.name == name);
            let base = base.and_then(|row| row.base);
            Ok(repository.remove_if_clean(name, base.as_deref())?)
        }
        Some(Standing::Live | Standing::Dirty) => Ok(false),
        None => Ok(true),
    }
}
