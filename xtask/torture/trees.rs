//! A repository whose owner works in it while agents work in worktrees of it: what must still be there afterwards.
//!
//! Each agent makes a file that has the name of its attempt, and holds it, since git lists equal files once; and it
//! writes into its book that it has. That file has to be somewhere as long as the repository is: in what some ref
//! holds, or in a worktree that still lies there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::ground::Ground;

/// What belongs to nobody's checkout: git's own, cf's own, and what fills the disk.
const NOT_THE_USERS: [&str; 3] = [".git", ".cf", "ballast"];

/// What git holds that is the user's alone.
const GITS_OWN: [&str; 5] = ["index", "HEAD", "refs/stash", "logs/refs/stash", "config"];

/// The user's checkout, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Checkout(BTreeMap<PathBuf, (u32, Vec<u8>)>);

impl Checkout {
    fn of(root: &Path) -> Self {
        let mut files = BTreeMap::new();
        let mut take = |path: &Path| {
            let mode = fs::symlink_metadata(path).map(|meta| meta.permissions().mode());
            if let (Ok(mode), Ok(bytes)) = (mode, fs::read(path)) {
                files.insert(path.to_owned(), (mode, bytes));
            }
        };
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                let is_theirs = NOT_THE_USERS.iter().any(|name| path == root.join(name));
                if path.is_dir() && !is_theirs {
                    folders.push(path);
                } else if !is_theirs {
                    take(&path);
                }
            }
        }
        for name in GITS_OWN {
            take(&root.join(".git").join(name));
        }
        Self(files)
    }

    /// What is not as it was.
    fn differences(&self, now: &Self) -> Vec<String> {
        let all: BTreeSet<&PathBuf> = self.0.keys().chain(now.0.keys()).collect();
        all.into_iter()
            .filter(|path| self.0.get(*path) != now.0.get(*path))
            .map(|path| format!("the user's {} was changed", path.display()))
            .collect()
    }
}

/// Makes the workspace a repository, in which its owner has changed, staged and stashed something.
pub(crate) fn make(ground: &Ground) -> Result<Checkout, String> {
    let write = |name: &str, text: &str| {
        let path = ground.root.join(name);
        fs::write(&path, text)
            .and_then(|()| ground.own(&path))
            .map_err(|error| error.to_string())
    };
    ground.git(&["init", "--quiet", "--initial-branch=main"])?;
    ground.git(&["config", "user.name", "Somebody"])?;
    ground.git(&["config", "user.email", "somebody@example.com"])?;
    write("README", "one\n")?;
    write("staged", "one\n")?;
    ground.git(&["add", "README", "staged"])?;
    ground.git(&["commit", "--quiet", "-m", "the first"])?;
    write("README", "stashed\n")?;
    ground.git(&["stash", "--quiet"])?;
    write("README", "changed\n")?;
    write("staged", "two\n")?;
    ground.git(&["add", "staged"])?;
    write("new", "not git's yet\n")?;
    Ok(Checkout::of(&ground.root))
}

/// Everything about the repository that is wrong.
pub(crate) fn faults(
    ground: &Ground,
    store: &Connection,
    before: &Checkout,
) -> rusqlite::Result<Vec<String>> {
    let mut faults = before.differences(&Checkout::of(&ground.root));
    let mut git = |args: &[&str]| match ground.git(args) {
        Ok(text) => text,
        Err(error) => {
            faults.push(error);
            String::new()
        }
    };
    git(&[
        "fsck",
        "--connectivity-only",
        "--no-dangling",
        "--no-progress",
    ]);
    let objects = git(&["rev-list", "--all", "--objects"]);
    let refs = git(&["for-each-ref", "--format=%(refname)"]);
    let refs: BTreeSet<&str> = refs.lines().collect();
    let (held, names): (BTreeSet<&str>, BTreeSet<&str>) = objects
        .lines()
        .map(|line| line.split_once(' ').unwrap_or((line, "")))
        .unzip();
    for line in ground.book("book").lines() {
        let Some(attempt) = line.strip_prefix("worked ") else {
            continue;
        };
        let file = format!("made.{attempt}");
        let lies_there = fs::read_dir(ground.root.join(".cf/worktrees"))
            .into_iter()
            .flatten()
            .flatten()
            .any(|tree| tree.path().join(&file).exists());
        if !names.contains(file.as_str()) && !lies_there {
            faults.push(format!("the work of attempt {attempt} is lost"));
        }
    }
    let mut statement = store.prepare(
        "SELECT w.attempt, w.branch, w.head, w.rescue, a.success, \
         a.pk = (SELECT max(b.pk) FROM attempt b JOIN worktree x ON x.attempt = b.id WHERE b.task = w.task) \
         FROM worktree w JOIN attempt a ON a.id = w.attempt",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (attempt, branch): (String, String) = (row.get(0)?, row.get(1)?);
        let (head, rescue): (Option<String>, Option<String>) = (row.get(2)?, row.get(3)?);
        let (success, is_last): (Option<bool>, bool) = (row.get(4)?, row.get(5)?);
        let branch = format!("refs/heads/{branch}");
        if let Some(rescue) = &rescue
            && !refs.contains(rescue.as_str())
        {
            faults.push(format!("{rescue} of attempt {attempt} is gone"));
        }
        if let Some(head) = &head {
            if !held.contains(head.as_str()) {
                faults.push(format!("{head} of attempt {attempt} is on no branch"));
            }
            if !refs.contains(branch.as_str()) {
                faults.push(format!("{branch} of attempt {attempt} is gone"));
            }
        }
        // Whoever worked last, and well, has the branch, or what was stale of it is kept beside.
        if success == Some(true) && is_last && ground.has_worked(&attempt) {
            let file = format!("{branch}:made.{attempt}");
            let on_it = ground.git(&["cat-file", "-e", &file]).is_ok();
            if !on_it && (head.is_some() || rescue.is_none()) {
                faults.push(format!("the work of attempt {attempt} is not on {branch}"));
            }
        }
    }
    Ok(faults)
}
