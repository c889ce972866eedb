//! Repositories inside a worktree: git has no more of them than the id of a commit, whose objects are in that folder
//! alone. So they are neither finished work nor something to remove.

use std::path::Path;

use super::git::{self, GitError};
use super::repository::Repository;

/// The mode of an entry that is a commit of another repository.
const GITLINK: &[u8] = b"160000";

impl Repository {
    /// Refuses work of which a part is in a repository of its own: a commit of it would have but a name of that. What
    /// is declared as a submodule is meant so.
    pub(super) fn refuse_inner(&self, base: &str, tree: &str) -> Result<(), GitError> {
        let changes = self
            .common("look for repositories in what a worktree holds")
            .args(["diff-tree", "-r", "-z", "--raw", "--no-renames"])
            .args(["--end-of-options", base, tree])
            .bytes()?;
        let mut parts = changes.split(|byte| *byte == 0);
        let mut inner: Vec<String> = Vec::new();
        // `:<old mode> <new mode> …`, and the path by itself.
        while let (Some(change), Some(path)) = (parts.next(), parts.next()) {
            let mut modes = change.split(|byte| *byte == b' ');
            let (old, new) = (modes.next(), modes.next());
            let was = old.is_some_and(|mode| mode.ends_with(GITLINK));
            if new == Some(GITLINK) && !was {
                inner.push(String::from_utf8_lossy(path).into_owned());
            }
        }
        if inner.is_empty() {
            return Ok(());
        }
        // A tree without the file has none.
        let (_, declared, _) = self
            .common("read what is declared as submodules")
            .args(["config", "-z", "--blob"])
            .arg(format!("{tree}:.gitmodules"))
            .args(["--get-regexp", r"^submodule\..*\.path$"])
            .run()?;
        let declared = String::from_utf8_lossy(&declared);
        // `<name>`, a line break, `<value>`.
        let declared: Vec<&str> = declared
            .split('\0')
            .filter_map(|entry| Some(entry.split_once('\n')?.1))
            .collect();
        match inner.iter().find(|path| !declared.contains(&path.as_str())) {
            Some(path) => Err(GitError::Refused {
                what: format!(
                    "{} is a git repository of its own, which a commit cannot take in",
                    git::name(path.as_bytes())
                ),
                hint: None,
            }),
            None => Ok(()),
        }
    }
}

/// Whether one of these entries, as `git ls-files --stage -z` prints them, is a repository that is there.
pub(super) fn has_inner(tree: &Path, entries: &[u8]) -> bool {
    entries
        .split(|byte| *byte == 0)
        .filter(|entry| entry.starts_with(GITLINK))
        .filter_map(|entry| entry.splitn(2, |byte| *byte == b'\t').nth(1))
        .any(|path| tree.join(git::path(path)).join(".git").exists())
}
