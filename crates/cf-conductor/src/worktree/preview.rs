//! What a merge would do to the user's checkout, found out without touching anything in it.
//!
//! git undoes a merge that conflicts, but what it removes and writes on the way, a file of the user's that git ignores
//! for example, does not come back with that.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
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
        let mut parts = names(&told);
        let result = match (status.code(), parts.next()) {
            (Some(1), Some(tree)) => {
                let files: BTreeSet<&[u8]> = parts.collect();
                if !files.is_empty() {
                    let files = files.into_iter().map(git::name).collect();
                    return Err(MergeRefused::Conflict(files));
                }
                String::from_utf8_lossy(tree).into_owned()
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

    /// The files of the checkout that are in no commit and stand where a tree differs from one: those that git does not
    /// follow, ignored ones too, and those that it was told not to look at.
    fn in_the_way(&self, before: &str, tree: &str) -> Result<Vec<String>, GitError> {
        let top = self
            .here("find the top of the checkout")
            .args(["rev-parse", "--show-toplevel"])
            .bytes()?;
        let top = git::path(top.strip_suffix(b"\n").unwrap_or(&top));
        let differs = |filter| {
            self.here("find out what a merge would bring")
                .args(["diff-tree", "-r", "-z", "--name-only", "--no-renames"])
                .args([filter, "--end-of-options", before, tree])
                .bytes()
        };
        let mut there = BTreeSet::new();
        for name in names(&differs("--diff-filter=A")?) {
            there.extend(standing(&top, Path::new(OsStr::from_bytes(name))));
        }
        let there: Vec<PathBuf> = there.into_iter().collect();
        let changed = differs("--diff-filter=a")?;
        let changed: Vec<&OsStr> = names(&changed).map(OsStr::from_bytes).collect();
        let mut found = self.hidden_changes(before, &top, &changed)?;
        for some in there.chunks(AT_ONCE) {
            let others = self
                .git
                .call("look for files that git does not follow", &top)
                .args(["--literal-pathspecs", "ls-files", "--others", "-z", "--"])
                .args(some)
                .bytes()?;
            found.extend(names(&others).map(git::name));
        }
        Ok(found.into_iter().collect())
    }

    /// Those of these files that git was told not to look at (`git update-index --assume-unchanged`, and so on) and
    /// that are not as a commit has them. git resets the first kind when it gives up a merge.
    fn hidden_changes(
        &self,
        before: &str,
        top: &Path,
        files: &[&OsStr],
    ) -> Result<BTreeSet<String>, GitError> {
        let call = || {
            self.git
                .call("look for files that git does not look at", top)
        };
        let mut hidden: Vec<OsString> = Vec::new();
        for some in files.chunks(AT_ONCE) {
            let told = call()
                .args(["--literal-pathspecs", "ls-files", "-v", "-z", "--"])
                .args(some)
                .bytes()?;
            // A tag, a space, and the name.
            let marked = names(&told).filter(|line| matches!(line[0], b'a'..=b'z' | b'S'));
            hidden.extend(
                marked.filter_map(|line| Some(OsStr::from_bytes(line.get(2..)?).to_owned())),
            );
        }
        // Those outside a sparse checkout are not there.
        hidden.retain(|name| top.join(name).symlink_metadata().is_ok());
        let mut found = BTreeSet::new();
        for some in hidden.chunks(AT_ONCE) {
            let stored = call()
                .args(["--literal-pathspecs", "ls-tree", "-z", "--full-tree"])
                .args(["--end-of-options", before])
                .args(some)
                .bytes()?;
            // Mode, kind and id, a tab, and the name.
            let stored: HashMap<&[u8], &[u8]> = names(&stored)
                .filter_map(|line| {
                    let tab = line.iter().position(|byte| *byte == b'\t')?;
                    let id = line[..tab].rsplit(|byte| *byte == b' ').next()?;
                    Some((&line[tab + 1..], id))
                })
                .collect();
            for name in some {
                let now = call().args(["hash-object", "--"]).arg(name).word()?;
                let was = stored.get(name.as_bytes()).copied();
                if now.as_deref().map(str::as_bytes) != was {
                    found.insert(git::name(name.as_bytes()));
                }
            }
        }
        Ok(found)
    }
}

/// The names that git prints with `-z`.
fn names(told: &[u8]) -> impl Iterator<Item = &[u8]> {
    told.split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
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
