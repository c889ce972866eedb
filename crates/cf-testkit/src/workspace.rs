//! A temporary workspace with a home of its own, and questions about what became of its tasks.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::command::write_file;
use crate::{Cf, NewTask, Output, Running, process};

/// Longest wait for something that must become true.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// A temporary folder in which `cf` works, outside any git repository unless [`Workspace::git`] was called.
///
/// Dropping it kills every process that belongs to it and removes the folder.
pub struct Workspace {
    binary: PathBuf,
    temp: TempDir,
    root: PathBuf,
    outputs: AtomicUsize,
    ids: Mutex<HashMap<String, String>>,
    variables: Vec<(String, String)>,
}

impl Workspace {
    /// An empty folder, a fresh home, and the program to be called there. No `.cf` yet.
    pub fn new(binary: impl AsRef<Path>) -> Self {
        Self::named(binary, "ws")
    }

    /// The same, with a folder of this name.
    pub fn named(binary: impl AsRef<Path>, name: impl AsRef<OsStr>) -> Self {
        let temp = tempfile::Builder::new()
            .prefix("cf-it-")
            .tempdir()
            .expect("the temporary folder is writable");
        let base = temp.path().canonicalize().expect("it was just made");
        let root = base.join(name.as_ref());
        for folder in ["home", "out", "bin", "tmp"] {
            fs::create_dir(base.join(folder)).expect("the temporary folder is writable");
        }
        fs::create_dir(&root).expect("the temporary folder is writable");
        Self {
            binary: binary.as_ref().to_owned(),
            root,
            temp,
            outputs: AtomicUsize::new(0),
            ids: Mutex::default(),
            variables: Vec::new(),
        }
    }

    /// Gives every `cf` that is called in it these variables.
    pub fn with(
        mut self,
        variables: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>,
    ) -> Self {
        let variables = variables
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()));
        self.variables.extend(variables);
        self
    }

    /// Makes it a `cf` workspace.
    #[track_caller]
    pub fn init(self) -> Self {
        self.cf(["init"]).ok();
        self
    }

    /// Makes its folder a git repository with one commit.
    #[track_caller]
    pub fn git(self) -> Self {
        self.write("README", "a repository\n");
        self.git_do(["init", "-q", "-b", "main"]);
        self.git_do(["add", "README"]);
        self.git_do(["commit", "-q", "-m", "start"]);
        self
    }

    /// Runs git in its folder and returns what it printed.
    #[track_caller]
    pub fn git_do<const N: usize>(&self, args: [&str; N]) -> String {
        let output = Command::new("git")
            .args([
                "-c",
                "user.name=t",
                "-c",
                "user.email=t@example.com",
                "-c",
                "commit.gpgsign=false",
            ])
            .args(args)
            .current_dir(&self.root)
            .env("HOME", self.home())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .expect("git is installed");
        assert!(
            output.status.success(),
            "git {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The workspace's folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The home of its user.
    pub fn home(&self) -> PathBuf {
        self.base().join("home")
    }

    /// A folder on the `PATH`, empty at first, for programs that a test makes up.
    pub fn bin(&self) -> PathBuf {
        self.base().join("bin")
    }

    fn base(&self) -> &Path {
        self.root.parent().expect("the root lies in the base")
    }

    /// The program under test.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    fn environment(&self) -> Vec<(String, String)> {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let home = self.home();
        let folder = self.binary.parent().map(Path::to_owned).unwrap_or_default();
        let path = format!(
            "{}:{}:/usr/local/bin:/usr/bin:/bin",
            text(folder),
            text(self.bin())
        );
        [
            ("HOME", text(home.clone())),
            ("XDG_CONFIG_HOME", text(home.join(".config"))),
            ("XDG_DATA_HOME", text(home.join(".local/share"))),
            ("XDG_STATE_HOME", text(home.join(".local/state"))),
            ("XDG_CACHE_HOME", text(home.join(".cache"))),
            ("TMPDIR", text(self.base().join("tmp"))),
            ("PATH", path),
            ("LANG", "C.UTF-8".to_owned()),
            ("TZ", "UTC".to_owned()),
            ("GIT_CONFIG_NOSYSTEM", "1".to_owned()),
            ("GIT_AUTHOR_NAME", "t".to_owned()),
            ("GIT_AUTHOR_EMAIL", "t@example.com".to_owned()),
            ("GIT_COMMITTER_NAME", "t".to_owned()),
            ("GIT_COMMITTER_EMAIL", "t@example.com".to_owned()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .chain(self.variables.iter().cloned())
        .collect()
    }

    pub(crate) fn output_files(&self) -> (PathBuf, PathBuf) {
        let n = self.outputs.fetch_add(1, Ordering::Relaxed);
        let out = self.base().join("out");
        (out.join(format!("{n}.out")), out.join(format!("{n}.err")))
    }

    /// A call of `cf` in the workspace's folder, to be changed and then run.
    pub fn command(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Cf<'_> {
        Cf::new(self, &self.binary, args)
            .environment(self.environment())
            .dir(&self.root)
    }

    /// A call of the shell in the workspace's folder, with `cf`'s environment and the program itself in `$CF`.
    pub fn shell(&self, script: &str) -> Cf<'_> {
        self.program_call("/bin/sh", ["-c", script])
    }

    /// Lines for a shell that stops at the first failure, in the workspace's folder, with `cf` on its `PATH`; to be
    /// changed and then run.
    pub fn lines_of_shell(&self, lines: &str) -> Cf<'_> {
        self.program_call("/bin/sh", ["-eu", "-c", lines])
    }

    /// A call of another program in the workspace's folder, with `cf`'s environment and the program itself in `$CF`.
    pub fn program_call(
        &self,
        program: impl AsRef<Path>,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Cf<'_> {
        Cf::new(self, program.as_ref(), args)
            .environment(self.environment())
            .env("CF", &self.binary)
            .dir(&self.root)
    }

    /// Runs `cf` to its end.
    pub fn cf(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
        self.command(args).run()
    }

    /// Starts `cf` and leaves it running.
    pub fn spawn(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Running<'_> {
        self.command(args).spawn()
    }

    /// Runs `cf work batch run` with these arguments to its end.
    pub fn run(&self, args: impl IntoIterator<Item = impl AsRef<str>>) -> Output {
        self.cf(batch_args("run", args))
    }

    /// Starts `cf work batch run` with these arguments and leaves it running.
    pub fn start(&self, args: impl IntoIterator<Item = impl AsRef<str>>) -> Running<'_> {
        self.spawn(batch_args("run", args))
    }

    /// Runs `cf work batch resume` with these arguments to its end.
    pub fn resume(&self, args: impl IntoIterator<Item = impl AsRef<str>>) -> Output {
        self.cf(batch_args("resume", args))
    }

    /// A task with this key, to be added.
    pub fn task(&self, key: &str) -> NewTask<'_> {
        NewTask::new(self, key)
    }

    /// Adds a task whose agent is this script.
    #[track_caller]
    pub fn add(&self, key: &str, script: &str) -> String {
        self.task(key).run(script).add()
    }

    pub(crate) fn remember(&self, key: &str, id: &str) {
        self.ids
            .lock()
            .expect("nobody panics while holding it")
            .insert(key.to_owned(), id.to_owned());
    }

    /// The full id of a task.
    #[track_caller]
    pub fn id(&self, key: &str) -> String {
        if let Some(id) = self
            .ids
            .lock()
            .expect("nobody panics while holding it")
            .get(key)
        {
            return id.clone();
        }
        let id = self.show(key)["id"]
            .as_str()
            .expect("a task has an id as text")
            .to_owned();
        self.remember(key, &id);
        id
    }

    /// A task as `cf tasks show --json` prints it.
    #[track_caller]
    pub fn show(&self, task: &str) -> Value {
        self.cf(["tasks", "show", task, "--json"]).json()
    }

    /// The status of a task.
    #[track_caller]
    pub fn status(&self, task: &str) -> String {
        self.show(task)["status"]
            .as_str()
            .expect("a task has a status as text")
            .to_owned()
    }

    /// Sets the status of a task, as a person in another shell does.
    #[track_caller]
    pub fn set(&self, task: &str, status: &str) {
        self.cf(["tasks", "set", "status", task, status]).ok();
    }

    /// Asks a question about a task, as a person does, and returns the blocker's id.
    #[track_caller]
    pub fn ask(&self, task: &str, question: &str) -> String {
        let blocker = self
            .cf(["blocker", "ask", question, "--task", task, "--json"])
            .json();
        blocker["id"]
            .as_str()
            .expect("a blocker has an id as text")
            .to_owned()
    }

    /// The blockers of a task, oldest first.
    #[track_caller]
    pub fn blockers(&self, task: &str) -> Vec<Value> {
        let mut blockers = self.show(task)["blockers"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        blockers.sort_by_key(|blocker| blocker["asked_at"].as_str().map(str::to_owned));
        blockers
    }

    /// The attempts of a task, first one first.
    #[track_caller]
    pub fn attempts(&self, task: &str) -> Vec<Value> {
        let mut attempts = self.show(task)["attempts"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        attempts.sort_by_key(|attempt| attempt["generation"].as_u64());
        attempts
    }

    /// The supervisor of the newest attempt of a task.
    #[track_caller]
    pub fn supervisor(&self, task: &str) -> u32 {
        let attempts = self.attempts(task);
        attempts
            .last()
            .and_then(|attempt| attempt["supervisor_pid"].as_u64())
            .and_then(|pid| u32::try_from(pid).ok())
            .unwrap_or_else(|| panic!("{task} has an attempt with a supervisor: {attempts:?}"))
    }

    /// The newest batch as `cf work batch status --json` prints it.
    #[track_caller]
    pub fn batch(&self) -> Value {
        self.cf(["work", "batch", "status", "--json"]).json()
    }

    /// The full id of the newest batch.
    #[track_caller]
    pub fn batch_id(&self) -> String {
        self.batch()["id"]
            .as_str()
            .expect("a batch has an id as text")
            .to_owned()
    }

    /// The newest batch as people see it.
    #[track_caller]
    pub fn batch_text(&self) -> String {
        self.cf(["work", "batch", "status"]).ok().stdout()
    }

    /// The status of the newest batch.
    #[track_caller]
    pub fn batch_status(&self) -> String {
        self.batch()["status"]
            .as_str()
            .expect("a batch has a status as text")
            .to_owned()
    }

    /// Where a task stands in the newest batch.
    #[track_caller]
    pub fn row(&self, key: &str) -> Value {
        let batch = self.batch();
        batch["tasks"]
            .as_array()
            .expect("a batch has a list of tasks")
            .iter()
            .find(|row| row["key"] == key || row["task"] == key || row["label"] == key)
            .unwrap_or_else(|| panic!("{key} is not in the newest batch: {batch:#}"))
            .clone()
    }

    /// Asserts how a task ended in the newest batch, and that the reason holds `reason`.
    #[track_caller]
    pub fn ended(&self, key: &str, outcome: &str, reason: &str) {
        let row = self.row(key);
        let found = row["reason"].as_str().unwrap_or_default();
        assert!(
            row["outcome"] == outcome && found.contains(reason),
            "{key} should have ended {outcome} ({reason:?}): {row:#}\n{}",
            self.describe()
        );
    }

    /// Every event, oldest first.
    #[track_caller]
    pub fn events(&self) -> Vec<Value> {
        self.cf(["events", "--json"])
            .json()
            .as_array()
            .cloned()
            .expect("events are an array")
    }

    /// The events of one type about a task, oldest first.
    #[track_caller]
    pub fn events_of(&self, kind: &str, key: &str) -> Vec<Value> {
        let id = self.id(key);
        self.events()
            .into_iter()
            .filter(|event| event["type"] == kind && event["task"] == id.as_str())
            .collect()
    }

    /// The events of one type, oldest first.
    #[track_caller]
    pub fn events_named(&self, kind: &str) -> Vec<Value> {
        self.events()
            .into_iter()
            .filter(|event| event["type"] == kind)
            .collect()
    }

    /// Waits until `condition` holds, looking again and again; panics with what is known when it never does.
    #[track_caller]
    pub fn wait_until(&self, what: &str, mut condition: impl FnMut() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !condition() {
            assert!(
                Instant::now() < deadline,
                "waited in vain until {what}\n{}",
                self.describe()
            );
            thread::sleep(LOOK);
        }
    }

    /// Waits for an event of this type about a task.
    #[track_caller]
    pub fn wait_for_event(&self, kind: &str, key: &str) {
        self.wait_for_events(kind, key, 1);
    }

    /// Waits for `count` events of this type about a task.
    #[track_caller]
    pub fn wait_for_events(&self, kind: &str, key: &str, count: usize) {
        self.wait_until(&format!("{key} has {count} {kind}"), || {
            self.events_of(kind, key).len() >= count
        });
    }

    /// Waits until a task has this status.
    #[track_caller]
    pub fn wait_for_status(&self, key: &str, status: &str) {
        self.wait_until(&format!("{key} is {status}"), || self.status(key) == status);
    }

    /// Waits until a task stands in this phase of the newest batch.
    #[track_caller]
    pub fn wait_for_phase(&self, key: &str, phase: &str) {
        self.wait_until(&format!("{key} is {phase}"), || {
            self.row(key)["phase"] == phase
        });
    }

    /// Waits until a file in the workspace holds at least one whole line, and returns what it holds.
    #[track_caller]
    pub fn wait_for_line(&self, name: &str) -> String {
        self.wait_for_lines(name, 1)
    }

    /// Waits until a file in the workspace holds at least `count` whole lines, and returns what it holds.
    #[track_caller]
    pub fn wait_for_lines(&self, name: &str, count: usize) -> String {
        let mut text = String::new();
        self.wait_until(&format!("{name} has {count} lines"), || {
            text = self.read(name);
            text.matches('\n').count() >= count
        });
        text
    }

    /// Waits until a file in the workspace holds a process id on its first line, and returns it.
    #[track_caller]
    pub fn wait_for_pid(&self, name: &str) -> u32 {
        let text = self.wait_for_line(name);
        text.lines()
            .next()
            .and_then(|line| line.trim().parse().ok())
            .unwrap_or_else(|| panic!("{name} should hold a process id: {text:?}"))
    }

    /// Writes a file below the workspace's folder.
    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        write_file(&self.root.join(name), contents.as_ref());
    }

    /// Writes a program into the folder on the `PATH`.
    pub fn program(&self, name: &str, script: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.bin().join(name);
        write_file(&path, script.as_bytes());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("the file is ours");
    }

    /// Writes a plan file and returns its name, for `--file` and `tasks import`.
    pub fn plan(&self, toml: &str) -> &'static str {
        self.write("plan.toml", toml);
        "plan.toml"
    }

    /// Writes the workspace's settings.
    pub fn config(&self, toml: &str) {
        self.write(".cf/config.toml", toml);
    }

    /// Creates an empty file, for which agents wait.
    pub fn touch(&self, name: &str) {
        self.write(name, "");
    }

    /// What a file in the workspace holds; empty when there is none.
    pub fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.root.join(name)).unwrap_or_default()).into_owned()
    }

    /// Whether a file is in the workspace.
    pub fn exists(&self, name: &str) -> bool {
        self.root.join(name).exists()
    }

    /// How many lines a file in the workspace holds; 0 when there is none.
    pub fn lines(&self, name: &str) -> usize {
        self.read(name).lines().count()
    }

    /// The living processes of its agents: those that carry the workspace's name, `cf` itself left out.
    pub fn agents(&self) -> Vec<u32> {
        let own = self.binary.canonicalize().ok();
        process::with_environment(&format!("CF_WORKSPACE={}", self.root.display()))
            .into_iter()
            .filter(|&pid| process::program(pid) != own)
            .collect()
    }

    /// Asserts that no agent, and nothing that one started, lives.
    #[track_caller]
    pub fn no_agent_left(&self) {
        let left = self.agents();
        assert!(
            left.is_empty(),
            "agents are left: {left:?}\n{}",
            self.describe()
        );
    }

    /// Waits until nothing at all lives that belongs to the workspace, `cf` included.
    #[track_caller]
    pub fn wait_for_quiet(&self) {
        self.wait_until("no process of the workspace lives", || {
            process::of_folder(self.base()).is_empty()
        });
    }

    /// Asks the database itself and returns the first column of the first row as text.
    #[track_caller]
    pub fn sql(&self, query: &str) -> String {
        let connection = rusqlite::Connection::open(self.root.join(".cf/state.db"))
            .expect("the workspace has a database");
        connection
            .query_row(query, [], |row| {
                row.get::<_, rusqlite::types::Value>(0)
                    .map(|value| match value {
                        rusqlite::types::Value::Integer(number) => number.to_string(),
                        rusqlite::types::Value::Text(text) => text,
                        other => format!("{other:?}"),
                    })
            })
            .unwrap_or_else(|error| panic!("{query}: {error}"))
    }

    /// Changes the database behind `cf`'s back.
    #[track_caller]
    pub fn sql_do(&self, statements: &str) {
        let connection = rusqlite::Connection::open(self.root.join(".cf/state.db"))
            .expect("the workspace has a database");
        connection
            .execute_batch(statements)
            .unwrap_or_else(|error| panic!("{statements}: {error}"));
    }

    /// Takes the database's write lock, as a process does that writes for a long time.
    #[track_caller]
    pub fn lock_database(&self) -> DatabaseLock {
        let connection = rusqlite::Connection::open(self.root.join(".cf/state.db"))
            .expect("the workspace has a database");
        connection
            .busy_timeout(Duration::from_secs(10))
            .and_then(|()| connection.execute_batch("BEGIN IMMEDIATE"))
            .expect("nobody holds the lock for ten seconds");
        DatabaseLock(connection)
    }

    /// Opens a database of another program in the workspace's folder, made when it is missing.
    #[track_caller]
    pub fn other_database(&self, name: &str, statements: &str) -> OtherDatabase {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().expect("it lies in the root")).expect("the root is ours");
        let database = OtherDatabase(rusqlite::Connection::open(path).expect("the folder is ours"));
        database.run(statements);
        database
    }

    /// The newest events and the living processes, for a failing test's message.
    pub fn describe(&self) -> String {
        let output = Command::new(&self.binary)
            .args(["events", "--json"])
            .env_clear()
            .envs(self.environment())
            .current_dir(&self.root)
            .output();
        let events: Vec<Value> = output
            .ok()
            .and_then(|output| serde_json::from_slice(&output.stdout).ok())
            .unwrap_or_default();
        let shown: Vec<String> = events
            .iter()
            .rev()
            .take(40)
            .rev()
            .map(ToString::to_string)
            .collect();
        let living: Vec<String> = process::of_folder(self.base())
            .into_iter()
            .map(|pid| {
                let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                format!(
                    "{pid} {}",
                    String::from_utf8_lossy(&line).replace('\0', " ")
                )
            })
            .collect();
        format!(
            "newest events:\n{}\nprocesses:\n{}",
            shown.join("\n"),
            living.join("\n")
        )
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // Killing one process can make another start something, so look until two looks find nothing.
        let base = self.temp.path().canonicalize().unwrap_or_default();
        let mut quiet = 0;
        for _ in 0..200 {
            let left = process::of_folder(&base);
            quiet = if left.is_empty() { quiet + 1 } else { 0 };
            if quiet == 2 {
                return;
            }
            left.into_iter().for_each(process::kill9);
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn batch_args(verb: &str, args: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<String> {
    let mut all = vec!["work".to_owned(), "batch".to_owned(), verb.to_owned()];
    all.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
    all
}

/// An open database of another program.
#[derive(Debug)]
pub struct OtherDatabase(rusqlite::Connection);

impl OtherDatabase {
    /// Runs statements in it.
    #[track_caller]
    pub fn run(&self, statements: &str) {
        let done = self.0.execute_batch(statements);
        done.unwrap_or_else(|error| panic!("{statements}: {error}"));
    }
}

/// The database's write lock, held until it is dropped.
#[derive(Debug)]
pub struct DatabaseLock(rusqlite::Connection);

impl Drop for DatabaseLock {
    fn drop(&mut self) {
        // A connection that closes rolls back too; this only says so.
        let _ = self.0.execute_batch("ROLLBACK");
    }
}
