//! What a merge would do to the user's checkout, found out without touching anything in it.
//!
//! git undoes a merge that conflicts, but what it removes and writes on the way, a file of the user's that git ignores
//! for example, does not come back with that.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::git::{self, GitError};
use super::merge::MergeRefused;
use super::repository::Repository;

/// How many names git is given at once.
const AT_ONCE: usize = 500;

impl Repository {
    /// Refuses a merge of a commit into another, the one that the checkout stands on, when it would conflict or write
    /// over files that no commit has.
    pub(super) fn foresee(&self, before: &str, commit: &str) -> Result<(), MergeRefused> {
        let (status, told, _) = self
            .here("find out what a merge would do")
            .args(["merge-tree", "--write-tree", "--name-only", "--no-messages"])
            .args(["-z", "--end-of-options", before, commit])
            .run()?;
        let mut parts = told
            .split(|byte| *byte == 0)
            .filter(|part| !part.is_empty());
        let result = match (status.code(), parts.next()) {
            (Some(1), Some(_)) => {
                let files: BTreeSet<&[u8]> = parts.collect();
                return Err(MergeRefused::Conflict(
                    files.into_iter().map(git::name).collect(),
                ));
            }
            (Some(0), Some(tree)) => String::from_utf8_lossy(tree).into_owned(),
            // A git before 2.38 cannot tell; what the other side has is then more than would come.
            _ => commit.to_owned(),
        };
        let in_the_way = self.in_the_way(before, &result)?;
        if in_the_way.is_empty() {
            return Ok(());
        }
        Err(MergeRefused::InTheWay(in_the_way))
    }

    /// The files of the checkout that git does not follow, ignored ones too, and that stand where a tree has something
    /// that a commit has not.
    fn in_the_way(&self, before: &str, tree: &str) -> Result<Vec<String>, GitError> {
        let top = self
            .here("find the top of the checkout")
            .args(["rev-parse", "--show-toplevel"])
            .bytes()?;
        let top = git::path(top.strip_suffix(b"\n").unwrap_or(&top));
        let added = self
            .here("find out what a merge would bring")
            .args(["diff-tree", "-r", "-z", "--name-only", "--no-renames"])
            .args(["--diff-filter=A", "--end-of-options", before, tree])
            .bytes()?;
        let mut there = BTreeSet::new();
        for name in added
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty())
        {
            there.extend(standing(&top, Path::new(OsStr::from_bytes(name))));
        }
        let there: Vec<PathBuf> = there.into_iter().collect();
        let mut found = BTreeSet::new();
        for names in there.chunks(AT_ONCE) {
            let others = self
                .git
                .call("look for files that git does not follow", &top)
                .args(["--literal-pathspecs", "ls-files", "--others", "-z", "--"])
                .args(names)
                .bytes()?;
            let others = others
                .split(|byte| *byte == 0)
                .filter(|name| !name.is_empty());
            found.extend(others.map(git::name));
        }
        Ok(found.into_iter().collect())
    }
}

/// What stands in a checkout where this file would come to be: something of its name, or a file in the place of one of
/// its folders.
fn standing(top: &Path, file: &Path) -> Option<PathBuf> {
    let mut so_far = PathBuf::new();
    for part in file.components() {
        so_far.push(part);
        let meta = std::fs::symlink_metadata(top.join(&so_far)).ok()?;
        if so_far == file || !meta.is_dir() {
            return Some(so_far);
        }
    }
    None
}
