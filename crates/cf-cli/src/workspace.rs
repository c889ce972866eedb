//! Finds and opens the workspace that a command is about.

use std::path::{Path, PathBuf};

use cf_conductor::caller;
use cf_conductor::store::Store;
use cf_conductor::workspace::Workspace;
use cf_core::Actor;

use crate::error::CliError;

/// The directory that the command works in.
///
/// # Errors
///
/// It does not exist any more.
pub(crate) fn current_dir() -> Result<PathBuf, CliError> {
    std::env::current_dir().map_err(|source| CliError::File {
        what: "find",
        path: PathBuf::from("the current directory"),
        source,
    })
}

/// The workspace of the current directory, if there is one.
///
/// An agent that has left its tree is led back by `CF_WORKSPACE`, which its supervisor set.
///
/// # Errors
///
/// The directory cannot be read, or the workspace is refused.
pub(crate) fn find() -> Result<Option<Workspace>, CliError> {
    refuse_unreadable(&current_dir()?)?;
    if let Some(found) = Workspace::discover(&current_dir()?)? {
        return Ok(Some(found));
    }
    match (
        std::env::var_os("CF_ATTEMPT_ID"),
        std::env::var_os("CF_WORKSPACE"),
    ) {
        (Some(_), Some(root)) => Ok(Workspace::at(&PathBuf::from(root))?),
        _ => Ok(None),
    }
}

/// Refuses a `.cf` that this account may not look into: it is there, which is not the same as no workspace.
///
/// # Errors
///
/// The first one at `start` or above it, as far as a workspace is looked for, is closed to this account.
pub(crate) fn refuse_unreadable(start: &Path) -> Result<(), CliError> {
    use std::os::unix::fs::MetadataExt as _;
    for place in start.ancestors() {
        let folder = place.join(".cf");
        let Ok(meta) = std::fs::symlink_metadata(&folder) else {
            if place.join(".git").exists() {
                return Ok(());
            }
            continue;
        };
        let Err(error) = std::fs::symlink_metadata(folder.join("state.db")) else {
            return Ok(());
        };
        if error.kind() == std::io::ErrorKind::PermissionDenied {
            return Err(CliError::refused(
                format!(
                    "permission denied: {} belongs to user {} and has mode {:o}",
                    folder.display(),
                    meta.uid(),
                    meta.mode() & 0o7777
                ),
                "work as that user, or make a workspace of your own elsewhere",
            ));
        }
    }
    Ok(())
}

/// The workspace of the current directory.
///
/// # Errors
///
/// As [`find`], or there is none.
pub(crate) fn need() -> Result<Workspace, CliError> {
    match find()? {
        Some(workspace) => Ok(workspace),
        None => Err(CliError::NoWorkspace(current_dir()?)),
    }
}

/// Opens the store of the current workspace for reading.
///
/// # Errors
///
/// There is no workspace, or its database cannot be read.
pub(crate) fn open_to_read() -> Result<(Workspace, Store), CliError> {
    let workspace = need()?;
    let store = Store::open_to_read(&workspace)?;
    Ok((workspace, store))
}

/// Opens the store of the current workspace for writing, with the actor that the writes are by.
///
/// # Errors
///
/// There is no workspace, or its database cannot be written.
pub(crate) fn open_to_write() -> Result<(Workspace, Store, Actor), CliError> {
    let workspace = need()?;
    let store = Store::open(&workspace)?;
    let actor = caller::actor(&store)?;
    Ok((workspace, store, actor))
}
