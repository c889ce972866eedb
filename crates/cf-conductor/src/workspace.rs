//! A workspace: the `.cf` folder of a repository, where it is found, and what makes it trustworthy.
//!
//! Everything in it is private to the user. A `.cf` of somebody else, or one that others may write, is refused, because
//! the commands in it would be run.

pub(crate) mod inside;

use std::fs::{DirBuilder, File, Metadata};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use cf_core::BatchId;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};

use crate::store::{Store, StoreError};

/// The folder's name.
const FOLDER: &str = ".cf";

/// What the name of a folder beside those of attempts begins with that stood in the place of one of them, and could not
/// be removed.
pub(crate) const PLANTED: &str = "not-";

/// The folder of worktrees in it.
const WORKTREES: &str = "worktrees";

/// What is wrong with a workspace folder.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// A file or folder of it cannot be made or read.
    #[error("cannot {what} {path}")]
    File {
        /// What was tried.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It cannot be trusted.
    #[error("{path} is refused: {why}")]
    Refused {
        /// The folder.
        path: PathBuf,
        /// Why.
        why: &'static str,
    },
    /// Its database.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A workspace that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// Finds the workspace of a folder: in it or above it, not past the root of its repository, and for a git worktree
    /// in the main one too.
    ///
    /// # Errors
    ///
    /// The folder cannot be resolved, or the workspace found is refused.
    pub fn discover(start: &Path) -> Result<Option<Self>, WorkspaceError> {
        let start = start
            .canonicalize()
            .map_err(|source| WorkspaceError::File {
                what: "resolve",
                path: start.to_owned(),
                source,
            })?;
        for folder in start.ancestors() {
            if let Some(found) = Self::at(folder)? {
                return Ok(Some(found));
            }
            if let Some(root) = holder_of(folder)
                && let Some(found) = Self::at(root)?
            {
                return Ok(Some(found));
            }
            let git = folder.join(".git");
            match std::fs::symlink_metadata(&git) {
                Ok(meta) if meta.is_file() => {
                    return main_worktree(&git).map_or(Ok(None), |main| Self::at(&main));
                }
                Ok(_) => return Ok(None),
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// The workspace whose root is exactly this folder, if there is one.
    ///
    /// # Errors
    ///
    /// It is refused.
    pub fn at(root: &Path) -> Result<Option<Self>, WorkspaceError> {
        let folder = root.join(FOLDER);
        let Ok(meta) = std::fs::symlink_metadata(&folder) else {
            return Ok(None);
        };
        refuse_no_folder(&folder, &meta)?;
        // A link that leads nowhere must not have the workspace above it taken for this one.
        if std::fs::symlink_metadata(folder.join("state.db")).is_err() {
            return Ok(None);
        }
        refuse_of_others(&folder, &meta)?;
        Ok(Some(Self {
            root: root.to_owned(),
        }))
    }

    /// What a workspace in this folder would be, without making it. For questions about a batch that is not run.
    pub fn unmade(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// Makes a workspace in this folder, or finds it made. Returns whether this call made it.
    ///
    /// # Errors
    ///
    /// The folder cannot be written, or what is there is refused.
    pub fn create(root: &Path) -> Result<(Self, bool), WorkspaceError> {
        let file = |what, path: &Path| {
            let path = path.to_owned();
            move |source| WorkspaceError::File { what, path, source }
        };
        let root = root.canonicalize().map_err(file("resolve", root))?;
        if let Some(found) = Self::at(&root)? {
            // What is there must be a database of ours, or it is said now.
            Store::open_to_read(&found)?;
            return Ok((found, false));
        }
        let workspace = Self { root };
        let folder = workspace.folder();
        if let Ok(meta) = std::fs::symlink_metadata(&folder) {
            // Whoever can write to it could put the database there that is about to be made.
            refuse_no_folder(&folder, &meta)?;
            refuse_of_others(&folder, &meta)?;
        }
        for path in [
            folder.clone(),
            workspace.logs(),
            workspace.attempts(),
            workspace.supervisors(),
            workspace.locks(),
        ] {
            DirBuilder::new()
                .mode(0o700)
                .recursive(true)
                .create(&path)
                .map_err(file("create", &path))?;
            // Between the look and the creation somebody else may have been there.
            let meta = std::fs::symlink_metadata(&path).map_err(file("look at", &path))?;
            refuse_no_folder(&path, &meta)?;
            refuse_of_others(&path, &meta)?;
        }
        let ignore = folder.join(".gitignore");
        write_new(&ignore, b"*\n").map_err(file("write", &ignore))?;
        let config = workspace.config_file();
        write_new(
            &config,
            b"# Settings of this workspace; `cf config show` lists them all.\n",
        )
        .map_err(file("write", &config))?;
        let (_, made) = Store::create(&workspace)?;
        Ok((workspace, made))
    }

    /// Refuses a workspace whose commands may come from somebody else: settings or tasks that others can write, or a
    /// `.cf` that git carries from checkout to checkout. Asked before anything of it is run.
    ///
    /// # Errors
    ///
    /// It is refused; the error says why.
    pub fn refuse_untrusted(&self) -> Result<(), WorkspaceError> {
        for path in [self.config_file(), self.database()] {
            let Ok(meta) = std::fs::symlink_metadata(&path) else {
                continue;
            };
            if meta.is_symlink() {
                return Err(refused(&path, "it is a symbolic link"));
            }
            refuse_of_others(&path, &meta)?;
        }
        for path in [
            self.logs(),
            self.attempts(),
            self.supervisors(),
            self.locks(),
        ] {
            if let Ok(meta) = std::fs::symlink_metadata(&path) {
                refuse_no_folder(&path, &meta)?;
            }
        }
        if self.is_tracked_by_git() {
            return Err(WorkspaceError::Refused {
                path: self.folder(),
                why: "git tracks it, and the commands in it would come with every checkout; `git rm -r --cached .cf` ends that",
            });
        }
        Ok(())
    }

    /// Whether git has anything below `.cf` in its index. Without git, or without a repository, it has not.
    fn is_tracked_by_git(&self) -> bool {
        if !self
            .root
            .ancestors()
            .any(|folder| folder.join(".git").exists())
        {
            return false;
        }
        let mut git = std::process::Command::new("git");
        crate::engine::withhold(&mut git);
        git.args(["-c", "core.fsmonitor=false", "ls-files", "-z", "--", FOLDER])
            .current_dir(&self.root)
            .env_remove("GIT_DIR")
            .env_remove("GIT_INDEX_FILE")
            .env_remove("GIT_WORK_TREE")
            .env("GIT_NO_LAZY_FETCH", "1")
            .stdin(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .output()
            .is_ok_and(|output| output.status.success() && !output.stdout.is_empty())
    }

    /// The folder that the workspace belongs to; agents start here.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The `.cf` folder.
    pub fn folder(&self) -> PathBuf {
        self.root.join(FOLDER)
    }

    /// The database.
    pub fn database(&self) -> PathBuf {
        self.folder().join("state.db")
    }

    /// The settings.
    pub fn config_file(&self) -> PathBuf {
        self.folder().join("config.toml")
    }

    /// Where the output of agents is kept, a file an attempt.
    pub fn logs(&self) -> PathBuf {
        self.folder().join("logs")
    }

    /// Where prompts and contexts are kept, a file an attempt, and a folder for those that have more.
    pub fn attempts(&self) -> PathBuf {
        self.folder().join("attempts")
    }

    /// Where supervisors keep their own files.
    pub fn supervisors(&self) -> PathBuf {
        self.folder().join("supervisors")
    }

    /// Where the git worktrees of attempts are.
    pub fn worktrees(&self) -> PathBuf {
        self.folder().join(WORKTREES)
    }

    /// The file whose lock orders what is done to the worktrees and branches of the repository.
    pub(crate) fn git_lock(&self) -> PathBuf {
        self.locks().join("git")
    }

    /// The folder with the link to `cf` that agents have on their `PATH`.
    ///
    /// A `PATH` cannot name a folder with a colon in it. For a workspace in such a place it is a private one of the
    /// user's among the temporary files, with the same name in every process.
    pub fn bin(&self) -> PathBuf {
        let bin = self.folder().join("bin");
        if !bin.as_os_str().as_encoded_bytes().contains(&b':') {
            return bin;
        }
        let mut hasher = DefaultHasher::new();
        self.root.hash(&mut hasher);
        let user = rustix::process::geteuid().as_raw();
        std::env::temp_dir().join(format!("cf-{user}-{:016x}", hasher.finish()))
    }

    /// Points the link in [`Workspace::bin`] at a program.
    ///
    /// # Errors
    ///
    /// The link cannot be made.
    pub fn link_program(&self, program: &Path) -> Result<(), WorkspaceError> {
        let bin = self.bin();
        let link = bin.join("cf");
        let error = |source| WorkspaceError::File {
            what: "link",
            path: link.clone(),
            source,
        };
        inside::make_folder(&bin).map_err(error)?;
        // Somebody else's folder of this name would have somebody else's program in it.
        let meta = std::fs::symlink_metadata(&bin).map_err(error)?;
        refuse_no_folder(&bin, &meta)?;
        refuse_of_others(&bin, &meta)?;
        if std::fs::read_link(&link).is_ok_and(|target| target == program) {
            return Ok(());
        }
        inside::link(program, &link).map_err(error)
    }

    fn locks(&self) -> PathBuf {
        self.folder().join("locks")
    }

    /// The file that writers poke after a commit.
    pub fn wake_file(&self) -> PathBuf {
        self.folder().join("wake")
    }

    /// The output of an attempt.
    pub fn log_of(&self, attempt: cf_core::AttemptId) -> PathBuf {
        self.logs().join(format!("{attempt}.log"))
    }

    /// The output of an attempt's verification.
    pub fn verify_log_of(&self, attempt: cf_core::AttemptId) -> PathBuf {
        self.logs().join(format!("{attempt}.verify.log"))
    }

    /// What the agent of an attempt is told.
    pub fn prompt_of(&self, attempt: cf_core::AttemptId) -> PathBuf {
        self.attempts().join(format!("{attempt}.md"))
    }

    /// What the agent of an attempt is told while it runs; it is there when something was.
    pub fn context_of(&self, attempt: cf_core::AttemptId) -> PathBuf {
        self.attempts().join(format!("{attempt}.context.md"))
    }

    /// The folder of an attempt, for what not every attempt has: a script, a home.
    pub fn folder_of(&self, attempt: cf_core::AttemptId) -> PathBuf {
        self.attempts().join(attempt.to_string())
    }

    fn lock_of(&self, batch: BatchId) -> PathBuf {
        self.locks().join(format!("{batch}.lock"))
    }

    /// Takes the lock that says who conducts a batch. It dies with its holder, and its file goes when it is given back.
    ///
    /// # Errors
    ///
    /// Somebody holds it (then with what they wrote into it), or the file cannot be opened.
    pub fn lock_batch(&self, batch: BatchId) -> Result<Result<BatchLock, u32>, WorkspaceError> {
        let path = self.lock_of(batch);
        let error = |source| WorkspaceError::File {
            what: "lock",
            path: path.clone(),
            source,
        };
        // Whoever asks who conducts the batch holds the lock for an instant, so one refusal is not the answer.
        let mut tries = 0;
        loop {
            let mut file = open_lock(&path).map_err(error)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // The file that was opened may have gone with its holder before it was locked, and a lock on a file
                // that nobody else finds says nothing.
                Ok(()) if !is_at(&file, &path) => {}
                Ok(()) => {
                    file.set_len(0).map_err(error)?;
                    write!(file, "{}", std::process::id()).map_err(error)?;
                    return Ok(Ok(BatchLock { file, path }));
                }
                Err(rustix::io::Errno::AGAIN) if tries < 20 => {
                    tries += 1;
                    std::thread::sleep(std::time::Duration::from_millis(2));
                }
                Err(rustix::io::Errno::AGAIN) => return Ok(Err(holder_in(&path))),
                Err(errno) => return Err(error(errno.into())),
            }
        }
    }

    /// The process that conducts a batch: `Some(pid)` while its lock is held (0 when the pid cannot be read).
    pub fn conductor_of(&self, batch: BatchId) -> Option<u32> {
        let path = self.lock_of(batch);
        loop {
            let file: File = inside::open(&path, OFlags::RDONLY, Mode::empty())
                .ok()?
                .into();
            match flock(&file, FlockOperation::NonBlockingLockShared) {
                Err(rustix::io::Errno::AGAIN) => return Some(holder_in(&path)),
                // Its holder has taken it away, and another may have come since.
                Ok(()) if !is_at(&file, &path) => {}
                _ => return None,
            }
        }
    }

    /// The batches that have a live conductor, whatever the schema of the database: for its migration. Everybody else
    /// asks the store which batches have not ended.
    ///
    /// # Errors
    ///
    /// The folder of locks cannot be read.
    pub(crate) fn live_batches(&self) -> Result<Vec<BatchId>, StoreError> {
        let path = self.locks();
        let entries = match std::fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => {
                return Err(StoreError::File {
                    what: "read",
                    path,
                    source,
                });
            }
        };
        let mut live = Vec::new();
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(id) = name.to_str().and_then(|name| name.strip_suffix(".lock")) else {
                continue;
            };
            if let Ok(id) = id.parse()
                && self.conductor_of(id).is_some()
            {
                live.push(id);
            }
        }
        Ok(live)
    }

    /// Takes the lock under which one process of the workspace asks a host; nothing while another has it.
    ///
    /// # Errors
    ///
    /// The file cannot be opened.
    pub(crate) fn lock_host(&self, host: &str) -> Result<Option<File>, WorkspaceError> {
        let name: String = host
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || "-.".contains(c) {
                    c
                } else {
                    '_'
                }
            })
            .collect();
        let path = self.locks().join(format!("host-{name}.lock"));
        let error = |source| WorkspaceError::File {
            what: "lock",
            path: path.clone(),
            source,
        };
        let file = open_lock(&path).map_err(error)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::AGAIN) => Ok(None),
            Err(errno) => Err(error(errno.into())),
        }
    }

    /// Takes the lock under which the database is made and migrated, waiting for it.
    pub(crate) fn lock_for_migration(&self) -> Result<File, StoreError> {
        let path = self.folder().join("migrate.lock");
        let error = |source| StoreError::File {
            what: "lock",
            path: path.clone(),
            source,
        };
        let file = open_lock(&path).map_err(error)?;
        flock(&file, FlockOperation::LockExclusive).map_err(|errno| error(errno.into()))?;
        Ok(file)
    }
}

/// Says that this process conducts a batch, for as long as it lives. Its file goes with it; that of a process that was
/// killed stays until somebody takes the batch up.
#[derive(Debug)]
pub struct BatchLock {
    file: File,
    path: PathBuf,
}

impl Drop for BatchLock {
    fn drop(&mut self) {
        // Still locked, so whoever opened the file meanwhile finds, once they have the lock, that it is not there.
        if is_at(&self.file, &self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Whether a path still leads to this file.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(file), Ok(found)) => (file.dev(), file.ino()) == (found.dev(), found.ino()),
        _ => false,
    }
}

/// The process that wrote itself into a lock's file, 0 when that cannot be read.
fn holder_in(path: &Path) -> u32 {
    std::fs::read_to_string(path)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}

fn refused(path: &Path, why: &'static str) -> WorkspaceError {
    WorkspaceError::Refused {
        path: path.to_owned(),
        why,
    }
}

fn refuse_no_folder(path: &Path, meta: &Metadata) -> Result<(), WorkspaceError> {
    if meta.is_symlink() {
        return Err(refused(path, "it is a symbolic link"));
    }
    if !meta.is_dir() {
        return Err(refused(path, "it is not a folder"));
    }
    Ok(())
}

fn refuse_of_others(path: &Path, meta: &Metadata) -> Result<(), WorkspaceError> {
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(refused(
            path,
            "it belongs to another user, and the commands in it would be run",
        ));
    }
    if meta.mode() & 0o022 != 0 {
        return Err(refused(
            path,
            "others may write to it, and the commands in it would be run",
        ));
    }
    Ok(())
}

pub(crate) fn open_lock(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE;
    Ok(inside::open(path, flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// Writes a file unless it is there already.
fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    match inside::open(path, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => File::from(file).write_all(bytes),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// The root of the workspace whose worktree this folder is: `<root>/.cf/worktrees/<name>`. The workspace need not be at
/// the root of the repository, where it would be found otherwise.
fn holder_of(folder: &Path) -> Option<&Path> {
    let worktrees = folder.parent()?;
    let cf = worktrees.parent()?;
    (worktrees.file_name()? == WORKTREES && cf.file_name()? == FOLDER)
        .then(|| cf.parent())
        .flatten()
}

/// The root of the main worktree, from the `.git` file of another one: `gitdir: <main>/.git/worktrees/<name>`.
fn main_worktree(git: &Path) -> Option<PathBuf> {
    let text = std::fs::read_to_string(git).ok()?;
    let gitdir = text
        .strip_prefix("gitdir:")?
        .trim_end_matches(['\r', '\n'])
        .trim_start();
    let gitdir = git.parent()?.join(gitdir);
    let common = std::fs::read_to_string(gitdir.join("commondir")).ok()?;
    let common = gitdir
        .join(common.trim_end_matches(['\r', '\n']))
        .canonicalize()
        .ok()?;
    (common.file_name()? == ".git").then(|| common.parent().map(Path::to_owned))?
}

#[cfg(test)]
mod tests;
