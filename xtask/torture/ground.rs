//! Where a round takes place: a workspace, the books beside it, and strangers that nobody may touch.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cf_testkit::process;
use rusqlite::{Connection, OpenFlags};

use crate::agents;
use crate::trees::{self, Checkout};

/// How long a command may take that does not wait for agents.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// The size of a disk that is filled up, in bytes.
const DISK_BYTES: u64 = 24 << 20;

/// What kind of ground it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kind {
    /// The workspace lies on a small disk of its own, which can be filled up. Needs root.
    pub(crate) small_disk: bool,
    /// Everything runs as a user of its own, whose processes can be limited. Needs root.
    pub(crate) user: Option<u32>,
    /// The workspace is a repository, and agents work in worktrees of it.
    pub(crate) repository: bool,
}

/// A workspace and everything around it.
pub(crate) struct Ground {
    pub(crate) base: PathBuf,
    pub(crate) root: PathBuf,
    pub(crate) books: PathBuf,
    cf: PathBuf,
    kind: Kind,
    extra: Vec<(String, String)>,
    strangers: Vec<Child>,
    mounted: bool,
    outputs: u64,
    /// The user's checkout before anything happened, where there is one.
    checkout: Option<Checkout>,
}

/// A command that was started and leaves its output in a file.
pub(crate) struct Started {
    pub(crate) child: Child,
    pub(crate) shown: String,
    output: PathBuf,
}

impl Started {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.output).unwrap_or_default()).into_owned()
    }

    pub(crate) fn running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end; `None` when it does not come in time.
    pub(crate) fn wait(&mut self, patience: Duration) -> Option<Ended> {
        let deadline = Instant::now() + patience;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(Ended {
                    code: status.code(),
                    signal: status.signal(),
                    text: self.text(),
                });
            }
            if Instant::now() >= deadline {
                return None;
            }
            sleep(Duration::from_millis(5));
        }
    }
}

/// How a command ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) text: String,
}

impl Ground {
    /// Makes it: the folders, the workspace, the strangers.
    pub(crate) fn new(
        base: &Path,
        cf: &Path,
        kind: Kind,
        extra: Vec<(String, String)>,
    ) -> Result<Self, String> {
        let told = |error: io::Error| format!("{}: {error}", base.display());
        if base.exists() {
            fs::remove_dir_all(base).map_err(told)?;
        }
        for folder in ["ws", "books", "home", "out"] {
            fs::create_dir_all(base.join(folder)).map_err(told)?;
        }
        let mut ground = Self {
            base: base.to_owned(),
            root: base.join("ws"),
            books: base.join("books"),
            cf: cf.to_owned(),
            kind,
            extra,
            strangers: Vec::new(),
            mounted: false,
            outputs: 0,
            checkout: None,
        };
        if kind.small_disk {
            let mut mount = Command::new("mount");
            mount.args([
                "-t",
                "tmpfs",
                "-o",
                &format!("size={DISK_BYTES}"),
                "torture",
            ]);
            mount.arg(&ground.root);
            ground.mounted = mount.status().is_ok_and(|status| status.success());
        }
        agents::write_books(&ground.books).map_err(told)?;
        if let Some(user) = kind.user {
            for folder in ["ws", "books", "home", "out"] {
                chown(base.join(folder), Some(user), Some(user)).map_err(told)?;
            }
            fs::set_permissions(&ground.root, fs::Permissions::from_mode(0o755)).map_err(told)?;
        }
        if kind.repository {
            ground.checkout = Some(trees::make(&ground)?);
        }
        ground.must(&["init"])?;
        ground.strangers = ground.start_strangers().map_err(told)?;
        Ok(ground)
    }

    /// Processes that look a little like an agent's and are none.
    fn start_strangers(&self) -> io::Result<Vec<Child>> {
        let stranger = |command: &mut Command| {
            command
                .args(["-c", "while :; do sleep 60; done"])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .current_dir(&self.root)
                .process_group(0);
            if let Some(user) = self.kind.user {
                command.uid(user).gid(user);
            }
            command.spawn()
        };
        Ok(vec![
            stranger(&mut Command::new("/bin/sh"))?,
            stranger(
                Command::new("/bin/sh")
                    .env("CF_ATTEMPT_ID", "00000000-0000-4000-8000-000000000000"),
            )?,
            stranger(Command::new("/bin/sh").env("CF_WORKSPACE", &self.root))?,
        ])
    }

    /// Those that somebody killed.
    pub(crate) fn dead_strangers(&mut self) -> usize {
        self.strangers
            .iter_mut()
            .filter_map(|child| child.try_wait().ok().flatten())
            .count()
    }

    /// Whether agents work in worktrees here.
    pub(crate) const fn has_trees(&self) -> bool {
        self.checkout.is_some()
    }

    /// From now on the checkout is changed by whoever owns it.
    pub(crate) fn give_up_checkout(&mut self) {
        self.checkout = None;
    }

    /// What is wrong with the repository, where there is one.
    pub(crate) fn faults_of_trees(&self, store: &Connection) -> rusqlite::Result<Vec<String>> {
        match &self.checkout {
            Some(before) => trees::faults(self, store, before),
            None => Ok(Vec::new()),
        }
    }

    /// Gives a file to the user as whom everything runs.
    pub(crate) fn own(&self, path: &Path) -> io::Result<()> {
        match self.kind.user {
            Some(user) => chown(path, Some(user), Some(user)),
            None => Ok(()),
        }
    }

    /// What git prints in the workspace, as its owner.
    pub(crate) fn git(&self, args: &[&str]) -> Result<String, String> {
        let mut command = Command::new("git");
        command
            .arg("--no-optional-locks")
            .args(args)
            .env_clear()
            .env("HOME", self.base.join("home"))
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .current_dir(&self.root)
            .stdin(Stdio::null());
        if let Some(user) = self.kind.user {
            command.uid(user).gid(user);
        }
        let output = command.output().map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(format!(
            "git {}: {}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr)
        ))
    }

    /// Whether an agent made its file.
    pub(crate) fn has_worked(&self, attempt: &str) -> bool {
        let worked = format!("worked {attempt}");
        self.book("book").lines().any(|line| line == worked)
    }

    /// A call of `cf` in the workspace, under these limits of the shell (`ulimit`), if any.
    pub(crate) fn cf(&self, args: &[&str], limits: Option<&str>) -> Command {
        let mut command = match limits {
            None => Command::new(&self.cf),
            Some(limits) => {
                let mut shell = Command::new("/bin/sh");
                shell.args(["-c", &format!("ulimit {limits}; exec \"$0\" \"$@\"")]);
                shell.arg(&self.cf);
                shell
            }
        };
        let home = self.base.join("home");
        command
            .args(args)
            .env_clear()
            .env("HOME", &home)
            .env("TMPDIR", &home)
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LANG", "C.UTF-8")
            .envs(self.extra.iter().cloned())
            .current_dir(&self.root)
            .stdin(Stdio::null());
        if let Some(user) = self.kind.user {
            command.uid(user).gid(user);
        }
        command
    }

    /// Starts a command that was made by [`Ground::cf`].
    pub(crate) fn start(&mut self, command: &mut Command) -> Result<Started, String> {
        self.outputs += 1;
        let output = self.base.join(format!("out/{}", self.outputs));
        let shown: Vec<String> = command
            .get_args()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect();
        let shown = shown.join(" ");
        let file = File::create(&output).map_err(|error| error.to_string())?;
        let twin = file.try_clone().map_err(|error| error.to_string())?;
        let child = command
            .stdout(file)
            .stderr(twin)
            .process_group(0)
            .spawn()
            .map_err(|error| format!("cannot start cf {shown}: {error}"))?;
        Ok(Started {
            child,
            shown,
            output,
        })
    }

    /// Runs a command to its end.
    pub(crate) fn run(&mut self, args: &[&str], patience: Duration) -> Result<Ended, String> {
        let mut command = self.cf(args, None);
        let mut started = self.start(&mut command)?;
        started.wait(patience).ok_or_else(|| {
            let below = process::descendants(started.child.id());
            process::kill9(started.child.id());
            let _ = started.child.wait();
            format!(
                "cf {} has not ended after {patience:?}; below it: {below:?}; it printed:\n{}",
                args.join(" "),
                started.text()
            )
        })
    }

    /// Runs a command that must succeed.
    pub(crate) fn must(&mut self, args: &[&str]) -> Result<String, String> {
        let ended = self.run(args, PATIENCE)?;
        if ended.code == Some(0) {
            return Ok(ended.text);
        }
        Err(format!(
            "cf {} ended with {:?}:\n{}",
            args.join(" "),
            ended.code,
            ended.text
        ))
    }

    /// Imports the tasks of a round.
    pub(crate) fn import(&mut self, tasks: &[agents::Task]) -> Result<(), String> {
        let plan = self.base.join("plan.toml");
        fs::write(&plan, agents::plan(tasks)).map_err(|error| error.to_string())?;
        let plan = plan.to_string_lossy().into_owned();
        self.must(&["tasks", "import", &plan]).map(drop)
    }

    /// Runs one more batch, as whoever comes next does: it must work, and tidies up.
    pub(crate) fn one_more_batch(&mut self) -> Result<(), String> {
        let run = format!(". {}/agent.sh; ended 0", self.books.display());
        self.must(&["tasks", "add", "one more", "--key", "final", "--run", &run])?;
        self.must(&["work", "batch", "run", "final"]).map(drop)
    }

    /// The store, to be read.
    pub(crate) fn store(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let store = Connection::open_with_flags(self.root.join(".cf/state.db"), flags)?;
        store.busy_timeout(Duration::from_secs(10))?;
        store.pragma_update(None, "query_only", true)?;
        Ok(store)
    }

    /// One column of text from the store; nothing while it cannot be read.
    pub(crate) fn texts(&self, sql: &str) -> Vec<String> {
        let read = || -> rusqlite::Result<Vec<String>> {
            let store = self.store()?;
            let mut statement = store.prepare(sql)?;
            let rows = statement.query_map([], |row| row.get(0))?;
            rows.collect()
        };
        read().unwrap_or_default()
    }

    /// Fills the disk up. Tells whether there is one to fill.
    pub(crate) fn fill_disk(&self) -> bool {
        if !self.mounted {
            return false;
        }
        if let Ok(mut file) = File::create(self.root.join("ballast")) {
            for size in [1 << 16, 1 << 12, 1 << 8] {
                while file.write_all(&vec![b'x'; size]).is_ok() {}
            }
        }
        true
    }

    /// Frees the disk again.
    pub(crate) fn free_disk(&self) {
        let _ = fs::remove_file(self.root.join("ballast"));
    }

    /// The processes of agents of this workspace: their attempt, and their number.
    pub(crate) fn agents(&self) -> Vec<(String, u32)> {
        let here = format!("CF_WORKSPACE={}", self.root.display());
        process::all()
            .into_iter()
            .filter(|pid| process::alive(*pid))
            .filter_map(|pid| {
                let environment = process::environment(pid);
                let attempt = environment
                    .iter()
                    .find_map(|entry| entry.strip_prefix("CF_ATTEMPT_ID="))?;
                (environment.contains(&here)).then(|| (attempt.to_owned(), pid))
            })
            .collect()
    }

    /// The supervisors of this workspace.
    pub(crate) fn supervisors(&self) -> Vec<u32> {
        let folder = self.root.join(".cf/supervisors");
        let folder = folder.to_string_lossy().into_owned();
        process::all()
            .into_iter()
            .filter(|pid| {
                let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let line = String::from_utf8_lossy(&line).into_owned();
                line.starts_with("cf-supervise\0") && line.contains(&folder)
            })
            .filter(|pid| process::alive(*pid))
            .collect()
    }

    /// What stands in a book, or nothing.
    pub(crate) fn book(&self, name: &str) -> String {
        fs::read_to_string(self.books.join(name)).unwrap_or_default()
    }

    /// Keeps what is worth looking at after a failure, and lets go of the rest.
    pub(crate) fn keep(&mut self) {
        if self.mounted {
            let kept = self.base.join("kept");
            let _ = Command::new("cp")
                .arg("-a")
                .arg(&self.root)
                .arg(&kept)
                .status();
        }
        self.leave();
    }

    /// Removes everything.
    pub(crate) fn remove(mut self) {
        self.leave();
        let _ = fs::remove_dir_all(&self.base);
    }

    /// Ends whatever belongs to the workspace.
    fn leave(&mut self) {
        for stranger in &mut self.strangers {
            let _ = stranger.kill();
            let _ = stranger.wait();
        }
        for _ in 0..3 {
            for pid in process::of_folder(&self.base) {
                process::kill9(pid);
            }
            sleep(Duration::from_millis(20));
        }
        if std::mem::take(&mut self.mounted) {
            let _ = Command::new("umount").args(["-l"]).arg(&self.root).status();
        }
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        self.leave();
    }
}
