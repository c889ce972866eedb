//! The repository of a workspace: where it is, what its checkout stands on, and what git knows of its worktrees.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Dir, FlockOperation, Mode, OFlags, flock};

use super::git::{self, Call, Git, GitError};
use super::{BRANCHES, full};
use crate::workspace::{Workspace, inside, open_lock};

/// The time between two looks whether a lock is free.
const PAUSE: Duration = Duration::from_millis(5);

/// How often something is tried again that somebody else's git may be in the way of for milliseconds.
const TRIES: u32 = 4;

/// The modes of an executable file, a link and a submodule in a commit.
const EXECUTABLE: &str = "100755";
const SYMLINK: &str = "120000";
const SUBMODULE: &str = "160000";

/// The repository of a workspace, and how git is called there.
#[derive(Clone, Debug)]
pub struct Repository {
    /// The workspace's root; the user's checkout, or a folder of it.
    pub(super) root: PathBuf,
    /// What all worktrees share: objects and refs.
    pub(super) common: PathBuf,
    /// Where in the checkout the workspace's root is; empty for its top.
    prefix: PathBuf,
    /// Where worktrees of attempts are.
    pub(super) folder: PathBuf,
    lock: PathBuf,
    pub(super) git: Git,
}

/// What a checkout stands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// The commit, by its full id.
    pub commit: String,
    /// The branch that is checked out; none when HEAD is detached.
    pub branch: Option<String>,
    /// How many files are changed and not committed, or new and not ignored; worktrees do not have them.
    pub changed: usize,
    /// Whether the commit has submodules, which worktrees have as empty folders.
    pub has_submodules: bool,
}

/// A worktree, as git lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) path: PathBuf,
    /// The branch that is checked out in it, by its full name.
    pub(super) branch: Option<String>,
}

impl Repository {
    /// Finds the repository of a workspace.
    ///
    /// # Errors
    ///
    /// There is none, it has no work tree, or git is not there.
    pub fn of(workspace: &Workspace, git: Git) -> Result<Self, GitError> {
        let root = workspace.root();
        let none = |why: String| GitError::Refused {
            what: format!("{} is not in a git repository{why}", root.display()),
            hint: Some(
                "make one with `git init` and a first commit, or use `--isolation none`".to_owned(),
            ),
        };
        let asked = [
            "rev-parse",
            "--is-inside-work-tree",
            "--show-toplevel",
            "--git-common-dir",
            "--show-prefix",
        ];
        let said = git
            .call("find the repository", root)
            .args(asked)
            .text()
            .map_err(|error| match error {
                GitError::Failed { said, .. } if said.contains("not a git repository") => {
                    none(String::new())
                }
                GitError::Failed { said, .. } => none(format!(" that can be used: {said}")),
                other => other,
            })?;
        let mut lines = said.split('\n');
        let (inside, _top, common, prefix, rest) = (
            lines.next().unwrap_or_default(),
            lines.next().unwrap_or_default(),
            lines.next().unwrap_or_default(),
            lines.next().unwrap_or_default(),
            lines.next(),
        );
        if inside != "true" || rest.is_some() || common.is_empty() {
            return Err(none(" with a work tree".to_owned()));
        }
        let common = root
            .join(common)
            .canonicalize()
            .map_err(|source| GitError::System {
                what: "find the repository",
                source,
            })?;
        Ok(Self {
            root: root.to_owned(),
            common,
            prefix: PathBuf::from(prefix.trim_end_matches('/')),
            folder: workspace.worktrees(),
            lock: workspace.git_lock(),
            git,
        })
    }

    /// The same, where a person stands in another checkout of it, as `git worktree add` makes them: that is the one
    /// that is looked at and merged into. A worktree of an attempt is none of theirs.
    ///
    /// # Errors
    ///
    /// git is not there.
    pub fn seen_from(self, folder: &Path) -> Result<Self, GitError> {
        let said = self
            .git
            .call("find the checkout", folder)
            .args(["rev-parse", "--show-toplevel", "--git-common-dir"])
            .bytes();
        let said = match said {
            Ok(said) => said,
            // It is in no checkout, so the workspace's is meant.
            Err(GitError::Failed { .. }) => return Ok(self),
            Err(error) => return Err(error),
        };
        let mut lines = said.split(|byte| *byte == b'\n');
        let (top, common) = (
            lines.next().unwrap_or_default(),
            lines.next().unwrap_or_default(),
        );
        let is_same = folder
            .join(git::path(common))
            .canonicalize()
            .is_ok_and(|common| common == self.common);
        if !is_same || git::path(top).starts_with(&self.folder) {
            return Ok(self);
        }
        Ok(Self {
            root: folder.to_owned(),
            ..self
        })
    }

    /// The same, with calls that are cut short by another.
    #[must_use]
    pub fn cut_short_by(&self, cancel: &super::Cancel) -> Self {
        Self {
            git: self.git.cut_short_by(cancel),
            ..self.clone()
        }
    }

    /// What the user's checkout stands on.
    ///
    /// # Errors
    ///
    /// The repository has no commit, or git refuses.
    pub fn base(&self) -> Result<Base, GitError> {
        let commit = self
            .commit_of(&self.root, "HEAD")?
            .ok_or_else(|| GitError::Refused {
                what: "the repository has no commit that a worktree could start from".to_owned(),
                hint: Some("commit something first, or use `--isolation none`".to_owned()),
            })?;
        let branch = self.branch()?;
        let status = self
            .git
            .call("look at the checkout", &self.root)
            .args(["status", "--porcelain=v1", "-z", "--untracked-files=normal"])
            .bytes()?;
        let has_submodules = self
            .git
            .call("look for submodules", &self.root)
            .args(["cat-file", "-t"])
            .arg(format!("{commit}:.gitmodules"))
            .word()?
            .is_some();
        Ok(Base {
            commit,
            branch,
            changed: changed(&status).len(),
            has_submodules,
        })
    }

    /// Whether a program, by its path from the workspace's root, can be started in a worktree of a commit, as far as
    /// the commit says: what lies behind a link or in a submodule is not looked at.
    ///
    /// # Errors
    ///
    /// git cannot be asked.
    pub fn may_start(&self, commit: &str, program: &str) -> Result<bool, GitError> {
        if self.mode(commit, Path::new(program))?.as_deref() == Some(EXECUTABLE) {
            return Ok(true);
        }
        let parts = Path::new(program).ancestors();
        for part in parts.filter(|part| part.file_name().is_some()) {
            if matches!(
                self.mode(commit, part)?.as_deref(),
                Some(SYMLINK | SUBMODULE)
            ) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The mode of what a commit has at a path from the workspace's root.
    fn mode(&self, commit: &str, path: &Path) -> Result<Option<String>, GitError> {
        let said = self
            .git
            .call("look for a program in a commit", &self.root)
            .args(["ls-tree", commit, "--"])
            .arg(Path::new(".").join(path))
            .word()?;
        Ok(said.and_then(|entry| entry.split(' ').next().map(str::to_owned)))
    }

    /// The branch that is checked out in the user's checkout; none when HEAD is detached.
    pub(super) fn branch(&self) -> Result<Option<String>, GitError> {
        let name = self
            .git
            .call("find the current branch", &self.root)
            .args(["symbolic-ref", "--quiet", "HEAD"])
            .word()?;
        Ok(name.map(|name| {
            name.strip_prefix("refs/heads/")
                .map_or(name.clone(), str::to_owned)
        }))
    }

    /// Refuses when nobody is there in whose name commits are made.
    ///
    /// # Errors
    ///
    /// Neither git nor the settings name anybody.
    pub fn check_identity(&self) -> Result<(), GitError> {
        for who in ["GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"] {
            let known = self
                .git
                .call("find out in whose name commits are made", &self.root)
                .args(["var", who])
                .word()?;
            if known.is_none() {
                return Err(GitError::Refused {
                    what: "git does not know in whose name the work of agents is to be committed"
                        .to_owned(),
                    hint: Some(
                        "set `user.name` and `user.email` with `git config`, or `git.author = \"NAME <ADDRESS>\"` in \
                         the config of cf"
                            .to_owned(),
                    ),
                });
            }
        }
        Ok(())
    }

    /// The branches of tasks that are there, by their short names, and a branch `cf` that leaves no room for them.
    ///
    /// # Errors
    ///
    /// git refuses.
    pub fn branches(&self) -> Result<Vec<String>, GitError> {
        let said = self
            .common("list the branches of tasks")
            .args(["for-each-ref", "--format=%(refname)", "--end-of-options"])
            .args([full("cf"), full(BRANCHES)])
            .text()?;
        Ok(said
            .lines()
            .filter_map(|name| name.strip_prefix("refs/heads/"))
            .map(str::to_owned)
            .collect())
    }

    /// The commit that a branch stands on, if it is there.
    ///
    /// # Errors
    ///
    /// git cannot be asked.
    pub fn tip(&self, branch: &str) -> Result<Option<String>, GitError> {
        self.commit(&full(branch))
    }

    /// The commit that a full name or an id means, if there is one.
    pub(super) fn commit(&self, name: &str) -> Result<Option<String>, GitError> {
        self.common("find a commit")
            .args(["rev-parse", "--verify", "--quiet", "--end-of-options"])
            .arg(format!("{name}^{{commit}}"))
            .word()
    }

    fn commit_of(&self, folder: &Path, name: &str) -> Result<Option<String>, GitError> {
        self.git
            .call("find a commit", folder)
            .args(["rev-parse", "--verify", "--quiet", "--end-of-options"])
            .arg(format!("{name}^{{commit}}"))
            .word()
    }

    /// Whether a commit has another in its history, or is it.
    ///
    /// # Errors
    ///
    /// git refuses, or one of them is not there.
    pub fn contains(&self, whole: &str, part: &str) -> Result<bool, GitError> {
        self.common("compare commits")
            .args(["merge-base", "--is-ancestor", "--end-of-options"])
            .args([part, whole])
            .holds()
    }

    /// A call about what all worktrees share.
    pub(super) fn common(&self, what: &'static str) -> Call<'_> {
        self.git
            .call(what, &self.common)
            .arg("--git-dir")
            .arg(&self.common)
    }

    /// The folder of a worktree of an attempt.
    pub fn tree(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Where in a worktree an agent starts: where the workspace's root is in the checkout, as far as that is there.
    pub fn directory(&self, name: &str) -> PathBuf {
        let tree = self.tree(name);
        if self.prefix.as_os_str().is_empty() {
            return tree;
        }
        let inner = tree.join(&self.prefix);
        if inner.is_dir() { inner } else { tree }
    }

    /// The folder in which git keeps what it knows of a worktree, if it knows it.
    pub(super) fn git_dir(&self, name: &str) -> Option<PathBuf> {
        let wanted = self.tree(name).join(".git");
        let is_it = |dir: &Path| {
            std::fs::read(dir.join("gitdir"))
                .is_ok_and(|text| git::path(text.trim_ascii_end()) == wanted)
        };
        let all = self.common.join("worktrees");
        let usual = all.join(name);
        if is_it(&usual) {
            return Some(usual);
        }
        let others = std::fs::read_dir(all).ok()?;
        others
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|dir| is_it(dir))
    }

    /// Every worktree that git knows, the user's own among them. Not while one is being added: git fails over one that
    /// is half there.
    pub(super) fn listed(&self) -> Result<Vec<Listed>, GitError> {
        let lock = self.lock()?;
        self.forget_half_added(&lock);
        let said = patiently(|| {
            self.common("list the worktrees")
                .holding(lock.hold()?)
                .args(["worktree", "list", "--porcelain"])
                .bytes()
        })?;
        let mut list: Vec<Listed> = Vec::new();
        for line in said.split(|byte| *byte == b'\n') {
            if let Some(path) = line.strip_prefix(b"worktree ") {
                list.push(Listed {
                    path: git::path(path),
                    branch: None,
                });
            } else if let (Some(branch), Some(last)) =
                (line.strip_prefix(b"branch "), list.last_mut())
            {
                last.branch = Some(String::from_utf8_lossy(branch).into_owned());
            }
        }
        Ok(list)
    }

    /// Makes the folder of worktrees. A link in its place would lead git to anywhere.
    pub(super) fn make_folder(&self) -> Result<(), GitError> {
        inside::make_folder(&self.folder).map_err(|source| GitError::System {
            what: "make the folder of worktrees",
            source,
        })
    }

    /// The names of what lies in the folder of worktrees; none where it is not there, or is a link.
    pub(super) fn entries(&self) -> Vec<OsString> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let Ok(folder) = inside::open(&self.folder, flags, Mode::empty()) else {
            return Vec::new();
        };
        let Ok(entries) = Dir::new(folder) else {
            return Vec::new();
        };
        entries
            .flatten()
            .map(|entry| OsStr::from_bytes(entry.file_name().to_bytes()).to_owned())
            .filter(|name| name != "." && name != "..")
            .collect()
    }

    /// Takes the lock under which worktrees are added and removed and branches of tasks are moved, so that two of these
    /// never meet in git's own locks. It is given to the git that works under it, and so outlives a conductor that is
    /// killed for as long as that git does.
    pub(super) fn lock(&self) -> Result<Lock, GitError> {
        let what = "wait for another git of cf";
        let system = |source: io::Error| GitError::System { what, source };
        let file = open_lock(&self.lock).map_err(system)?;
        let begun = Instant::now();
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Lock(file)),
                Err(rustix::io::Errno::AGAIN) => self.git.go_on(what, begun)?,
                Err(errno) => return Err(system(errno.into())),
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// The lock of [`Repository::lock`].
pub(super) struct Lock(File);

impl Lock {
    /// One more hold on it, for a call.
    pub(super) fn hold(&self) -> Result<File, GitError> {
        self.0.try_clone().map_err(|source| GitError::System {
            what: "hold the lock of the repository",
            source,
        })
    }
}

/// Does something about worktrees that git refuses while somebody else (a person, an agent) adds or removes one of
/// their own: it is tried again for a moment.
pub(super) fn patiently<T>(work: impl Fn() -> Result<T, GitError>) -> Result<T, GitError> {
    for _ in 0..TRIES {
        match work() {
            Err(GitError::Failed { .. }) => std::thread::sleep(PAUSE),
            done => return done,
        }
    }
    work()
}

/// The files in the output of `git status --porcelain=v1 -z`.
pub(super) fn changed(status: &[u8]) -> Vec<String> {
    let mut files = Vec::new();
    let mut parts = status.split(|byte| *byte == 0);
    while let Some(part) = parts.next() {
        let Some((mark, name)) = part.split_at_checked(3) else {
            continue;
        };
        // The old name of one that was renamed follows by itself.
        if mark.first().is_some_and(|mark| b"RC".contains(mark)) {
            parts.next();
        }
        files.push(git::name(name));
    }
    files
}
