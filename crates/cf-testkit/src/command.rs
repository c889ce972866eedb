//! The `cf` program, started with an environment of its own and a deadline.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use serde_json::Value;

use crate::terminal::{self, OnResize, Terminal};
use crate::{Workspace, process};

/// Longest time for one `cf`. What takes longer hangs.
const DEADLINE: Duration = Duration::from_mins(1);

/// One call of `cf`, not made yet.
pub struct Cf<'w> {
    workspace: &'w Workspace,
    command: Command,
    shown: String,
    stdin: Option<Vec<u8>>,
    stdout: Option<Stdio>,
    deadline: Duration,
}

impl<'w> Cf<'w> {
    pub(crate) fn new(
        workspace: &'w Workspace,
        binary: &Path,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Self {
        let mut command = Command::new(binary);
        let mut shown = "cf".to_owned();
        for arg in args {
            shown.push(' ');
            shown.extend(arg.as_ref().to_string_lossy().chars().take(200));
            command.arg(arg);
        }
        Self {
            workspace,
            command,
            shown,
            stdin: None,
            stdout: None,
            deadline: DEADLINE,
        }
    }

    pub(crate) fn environment(
        mut self,
        entries: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        self.command.env_clear().envs(entries);
        self
    }

    /// Starts it in another folder than the workspace's root.
    pub fn dir(mut self, dir: impl AsRef<Path>) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Sets a variable of its environment.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Takes a variable out of its environment.
    pub fn env_remove(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Has its standard output go somewhere else; what it prints there is not seen.
    pub fn stdout(mut self, to: impl Into<Stdio>) -> Self {
        self.stdout = Some(to.into());
        self
    }

    /// Starts it under limits as the shell's `ulimit` takes them, such as `-n 64`.
    pub fn under_limits(mut self, limits: &str) -> Self {
        let plain = self.command;
        let mut shell = Command::new("/bin/sh");
        shell
            .args(["-c", &format!("ulimit {limits}; exec \"$0\" \"$@\"")])
            .arg(plain.get_program())
            .args(plain.get_args())
            .env_clear();
        for (name, value) in plain.get_envs() {
            if let Some(value) = value {
                shell.env(name, value);
            }
        }
        if let Some(dir) = plain.get_current_dir() {
            shell.current_dir(dir);
        }
        self.command = shell;
        self
    }

    /// Gives it this on standard input, which is empty otherwise.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// Allows it another time than a minute.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Starts it and leaves it running.
    pub fn spawn(mut self) -> Running<'w> {
        let (out, err) = self.workspace.output_files();
        let create = |path: &Path| File::create(path).expect("the temporary folder is writable");
        let stdin = match self.stdin {
            None => Stdio::null(),
            Some(bytes) => {
                // A file, not a pipe: no writer thread, and the reader meets an end of file by itself.
                let path = out.with_extension("in");
                fs::write(&path, bytes).expect("the temporary folder is writable");
                File::open(&path)
                    .expect("the file was written just now")
                    .into()
            }
        };
        let child = self
            .command
            .stdin(stdin)
            .stdout(self.stdout.unwrap_or_else(|| create(&out).into()))
            .stderr(create(&err))
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", self.shown));
        Running {
            workspace: self.workspace,
            child,
            out,
            err,
            shown: self.shown,
            deadline: Instant::now() + self.deadline,
            ended: None,
        }
    }

    /// Runs it to its end on a terminal of this size.
    pub fn run_on_terminal(self, columns: u16, rows: u16) -> Shown {
        self.watch_on_terminal(columns, rows, |_| {})
    }

    /// The same; `looks` is shown what has been written so far, each time that there is more, and may do something
    /// about it.
    pub fn watch_on_terminal(
        mut self,
        columns: u16,
        rows: u16,
        mut looks: impl FnMut(&str),
    ) -> Shown {
        let (mut screen, program) = terminal::pair(columns, rows).expect("there are terminals");
        let stream = || program.try_clone().expect("there are descriptors left");
        let mut child = self
            .command
            .stdin(stream())
            .stdout(stream())
            .stderr(stream())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {}: {error}", self.shown));
        // The screen ends when nobody else holds the terminal.
        drop((self.command, program));
        let deadline = Instant::now() + self.deadline;
        let mut written = Vec::new();
        let mut part = [0; 4096];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).expect("the deadline is near");
            let mut fds = [PollFd::new(&screen, PollFlags::IN)];
            if !matches!(poll(&mut fds, Some(&left)), Ok(ready) if ready > 0) {
                let below = process::descendants(child.id());
                process::kill9(child.id());
                below.into_iter().for_each(process::kill9);
                panic!(
                    "{} has not ended in time; it showed:\n{}",
                    self.shown,
                    String::from_utf8_lossy(&written)
                );
            }
            match screen.read(&mut part) {
                Ok(0) | Err(_) => break,
                Ok(read) => written.extend_from_slice(&part[..read]),
            }
            looks(&String::from_utf8_lossy(&written));
        }
        let status = child.wait().expect("it is our own child");
        let written = String::from_utf8(written).expect("a terminal is told whole characters");
        let mut terminal = Terminal::new(columns.into(), rows.into(), OnResize::Wrap);
        terminal.take(&written);
        Shown {
            status,
            written,
            terminal,
        }
    }

    /// Starts it and waits for its end.
    pub fn run(self) -> Output {
        self.spawn().wait()
    }
}

/// A `cf` that runs. Killed when dropped.
pub struct Running<'w> {
    workspace: &'w Workspace,
    child: Child,
    out: PathBuf,
    err: PathBuf,
    shown: String,
    deadline: Instant,
    ended: Option<ExitStatus>,
}

impl Running<'_> {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal, as a terminal or another shell would.
    pub fn signal(&self, signal: Signal) {
        process::signal(self.pid(), signal);
    }

    /// Kills it without a chance to clean up, and waits for its end.
    pub fn kill9(mut self) -> Output {
        process::kill9(self.pid());
        self.finish()
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().expect("it is our own child");
        }
        self.ended.is_none()
    }

    /// What it has printed so far, standard output first.
    pub fn text(&self) -> String {
        let read =
            |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
        format!("{}{}", read(&self.out), read(&self.err))
    }

    /// Waits until it has printed `text`.
    pub fn wait_for_text(&mut self, text: &str) {
        let workspace = self.workspace;
        workspace.wait_until(&format!("{} prints {text:?}", self.shown), || {
            self.text().contains(text) || !self.is_running()
        });
        assert!(
            self.text().contains(text),
            "{} ended without printing {text:?}:\n{}",
            self.shown,
            self.text()
        );
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Output {
        self.finish()
    }

    fn finish(&mut self) -> Output {
        while self.ended.is_none() {
            if !self.wait_until_deadline() && self.is_running() {
                let below = process::descendants(self.pid());
                process::kill9(self.pid());
                below.iter().copied().for_each(process::kill9);
                panic!(
                    "{} has not ended in time; below it: {below:?}; it printed:\n{}\n{}",
                    self.shown,
                    self.text(),
                    self.workspace.describe()
                );
            }
            self.is_running();
        }
        Output {
            shown: self.shown.clone(),
            status: self.ended.expect("it has just ended"),
            stdout: fs::read(&self.out).unwrap_or_default(),
            stderr: fs::read(&self.err).unwrap_or_default(),
        }
    }

    /// Waits for the end through a pidfd; false when the deadline came first.
    fn wait_until_deadline(&self) -> bool {
        let Some(pid) = i32::try_from(self.pid()).ok().and_then(Pid::from_raw) else {
            return false;
        };
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else {
            return true;
        };
        let left = self.deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).expect("the deadline is near");
        let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
        matches!(poll(&mut fds, Some(&left)), Ok(ready) if ready > 0)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if self.is_running() {
            let below = process::descendants(self.pid());
            process::kill9(self.pid());
            below.into_iter().for_each(process::kill9);
            let _ = self.child.wait();
        }
    }
}

/// What a `cf` showed on a terminal and how it ended.
#[derive(Clone, Debug)]
pub struct Shown {
    status: ExitStatus,
    /// Everything that it wrote.
    pub written: String,
    /// What stands there at the end.
    pub terminal: Terminal,
}

impl Shown {
    /// Its exit code; `None` when a signal ended it.
    pub fn exit_code(&self) -> Option<i32> {
        self.status.code()
    }
}

/// What a `cf` printed and how it ended.
#[derive(Clone, Debug)]
pub struct Output {
    shown: String,
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Output {
    /// Its exit code; `None` when a signal ended it.
    pub fn exit_code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Whether a signal ended it that left a core dump.
    pub fn dumped_core(&self) -> bool {
        self.status.core_dumped()
    }

    /// Asserts that it ended with 0.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.code(0)
    }

    /// Asserts its exit code.
    #[track_caller]
    pub fn code(self, code: i32) -> Self {
        assert!(
            self.status.code() == Some(code),
            "{} should end with {code}{}",
            self.shown,
            self.explain()
        );
        self
    }

    /// Asserts that it was refused: an exit code that is not 0, an explanation on standard error, no panic, no signal.
    #[track_caller]
    pub fn refused(self) -> Self {
        let code = self.status.code();
        assert!(
            code.is_some_and(|code| code != 0 && code != 101),
            "{} should be refused{}",
            self.shown,
            self.explain()
        );
        let explained = !self.stderr().trim().is_empty();
        assert!(
            explained,
            "{} should say why it refuses{}",
            self.shown,
            self.explain()
        );
        assert!(
            !self.stderr().contains("panicked"),
            "{} panicked{}",
            self.shown,
            self.explain()
        );
        self
    }

    /// Asserts that it printed `text`, on either stream.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(
            self.text().contains(text),
            "{} should say {text:?}{}",
            self.shown,
            self.explain()
        );
        self
    }

    /// Asserts that it printed `text` on neither stream.
    #[track_caller]
    pub fn never_says(self, text: &str) -> Self {
        assert!(
            !self.text().contains(text),
            "{} should not say {text:?}{}",
            self.shown,
            self.explain()
        );
        self
    }

    /// Standard output; invalid UTF-8 is replaced.
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard output, as it came.
    pub fn stdout_bytes(&self) -> &[u8] {
        &self.stdout
    }

    /// Standard error; invalid UTF-8 is replaced.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Both streams, standard output first.
    pub fn text(&self) -> String {
        format!("{}{}", self.stdout(), self.stderr())
    }

    /// Standard output as one JSON value, after an exit code of 0.
    #[track_caller]
    pub fn json(&self) -> Value {
        assert!(
            self.status.success(),
            "{} should succeed{}",
            self.shown,
            self.explain()
        );
        serde_json::from_slice(&self.stdout).unwrap_or_else(|error| {
            panic!(
                "{} should print JSON: {error}{}",
                self.shown,
                self.explain()
            )
        })
    }

    /// Standard output as one JSON value a line, whatever the exit code.
    #[track_caller]
    pub fn json_lines(&self) -> Vec<Value> {
        self.stdout()
            .lines()
            .map(|line| {
                serde_json::from_str(line).unwrap_or_else(|error| {
                    panic!(
                        "{} should print one JSON value a line: {error} in {line:?}{}",
                        self.shown,
                        self.explain()
                    )
                })
            })
            .collect()
    }

    /// Standard error as one JSON value, whatever the exit code.
    #[track_caller]
    pub fn json_error(&self) -> Value {
        serde_json::from_slice(&self.stderr).unwrap_or_else(|error| {
            panic!(
                "{} should print its error as JSON: {error}{}",
                self.shown,
                self.explain()
            )
        })
    }

    fn explain(&self) -> String {
        let cut = |text: String| -> String {
            match text.char_indices().nth(6_000) {
                Some((at, _)) => format!("{}…", &text[..at]),
                None => text,
            }
        };
        let signal = self
            .status
            .signal()
            .map_or_else(String::new, |signal| format!(" (signal {signal})"));
        format!(
            "\n  it ended with {:?}{signal}\n--- stdout\n{}\n--- stderr\n{}\n---",
            self.status.code(),
            cut(self.stdout()),
            cut(self.stderr())
        )
    }
}

/// Writes a file below a folder, making the folders in between.
pub(crate) fn write_file(path: &Path, contents: &[u8]) {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).expect("the temporary folder is writable");
    }
    let mut file = File::create(path).expect("the temporary folder is writable");
    file.write_all(contents)
        .expect("the temporary folder is writable");
}
