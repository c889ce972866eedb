//! The supervisor: the small process below which agents run, one attempt at a time.
//!
//! It is `cf` itself, started again through `/proc/self/exe` with the arguments of [`supervisor_args`]; `main` asks
//! [`is_supervisor_call`] before anything else and hands over to [`supervise`]. It leads a session of its own, is the
//! subreaper of everything below it, and holds a lock on a file of its own for as long as it lives. At its *gate* (its
//! standard input) it waits for whole jobs; what it has to say goes to the file first and then, as the same record, to
//! its standard output.
//!
//! It never opens the store, never starts an async runtime, never reads a configuration: all it knows is in the job.
//! It never takes a second job before everything below it has ended; when it cannot prove that, it retires.

mod attempt;
mod clock;
mod gate;
mod job;
pub mod logfile;
mod program;
mod record;
mod stall;
mod tree;

pub use job::{Frame, Inherited, Job, Leftovers, LogLimits, OsText, Stage};
pub(crate) use record::hello_in;
pub use record::{
    Ended, How, Limit, LogTally, RECORD_BYTES, Record, RecordBytes, RecordFile, read_records,
    record_path,
};

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cf_core::SupervisorId;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{getpid, set_child_subreaper, setsid};

use crate::fault::point;
use crate::process::{Identity, close_on_exec_all};
use gate::Gate;

/// The name under which supervisors show up in `ps`.
pub const SUPERVISOR_ARG0: &str = "cf-supervise";

/// The first argument of a supervisor.
pub const SUPERVISOR_ARG: &str = "__supervise";

/// The arguments with which the program is to be started as a supervisor whose own file is `file`; the first is the
/// name (argument 0).
pub fn supervisor_args(file: &Path) -> [OsString; 3] {
    [
        SUPERVISOR_ARG0.into(),
        SUPERVISOR_ARG.into(),
        file.as_os_str().to_owned(),
    ]
}

/// Whether a program that was started with these arguments, its own name included, is meant to be a supervisor.
pub fn is_supervisor_call<I>(args: I) -> bool
where
    I: IntoIterator,
    I::Item: AsRef<OsStr>,
{
    let mut args = args.into_iter();
    let mut next_is = |text: &str| args.next().is_some_and(|arg| arg.as_ref() == text);
    next_is(SUPERVISOR_ARG0)
        && next_is(SUPERVISOR_ARG)
        && args.next().is_some()
        && args.next().is_none()
}

/// Lives the life of a supervisor, and returns the exit code of the process.
///
/// It is to be called before any thread is started and before the signal dispositions are changed; arguments and
/// descriptors are those of the process.
pub fn supervise() -> ExitCode {
    let Some(file) = std::env::args_os().nth(2) else {
        return ExitCode::from(2);
    };
    match Supervisor::begin(Path::new(&file)).and_then(Supervisor::live) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error is normally closed off; whoever starts a supervisor by hand sees why it does not work.
            eprintln!("cf-supervise: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The signals that a supervisor listens to. Each leaves a flag and wakes `poll`.
struct Signals {
    wake: OwnedFd,
    child: Arc<AtomicBool>,
    term: Arc<AtomicBool>,
    kill: Arc<AtomicBool>,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGPIPE, SIGTERM};
        use signal_hook::{flag, low_level::pipe};

        let (wake, sender) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let signals = Self {
            wake,
            child: Arc::default(),
            term: Arc::default(),
            kill: Arc::default(),
        };
        // The flag of a signal is registered before its wake-up, so that it stands when `poll` returns.
        for (signal, flag) in [
            (SIGCHLD, &signals.child),
            (SIGTERM, &signals.term),
            (SIGHUP, &signals.term),
            (SIGINT, &signals.kill),
        ] {
            flag::register(signal, Arc::clone(flag))?;
            pipe::register(signal, sender.try_clone()?)?;
        }
        // A conductor that is gone must not end its supervisor, whatever the caller made of this signal.
        flag::register(SIGPIPE, Arc::default())?;
        Ok(signals)
    }

    /// Whether one has come that nobody has taken yet.
    fn came(&self) -> bool {
        let came = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        came(&self.child) || came(&self.term) || came(&self.kill)
    }

    /// Takes the wake-ups out of the pipe; the flags stay.
    fn drain(&self) {
        let mut bytes = [0u8; 64];
        while matches!(rustix::io::read(&self.wake, &mut bytes), Ok(n) if n == bytes.len()) {}
    }

    fn take(flag: &AtomicBool) -> bool {
        flag.swap(false, Ordering::Relaxed)
    }
}

/// A supervisor at work.
struct Supervisor {
    signals: Signals,
    gate: Gate,
    file: RecordFile,
    /// What the next jobs inherit.
    inherited: Inherited,
    /// What a process without any input reads.
    null: File,
    /// Whether it has to end after the current attempt, because something below it may still live.
    retiring: bool,
    /// Where output is read into; there is only one, so that memory stays bounded.
    buffer: Box<[u8]>,
}

impl Supervisor {
    /// Takes the place: session, subreaper, lock, signals; then says hello.
    fn begin(path: &Path) -> io::Result<Self> {
        let id: SupervisorId = path
            .file_stem()
            .and_then(OsStr::to_str)
            .and_then(|name| name.parse().ok())
            .ok_or_else(|| io::Error::other("the file of a supervisor is named after its id"))?;
        // Whoever started this may have had more open than the gate and the notes; no agent is to see it.
        close_on_exec_all();
        setsid()?;
        set_child_subreaper(Some(getpid()))?;
        let signals = Signals::listen()?;
        let mut file = RecordFile::create(path)?;
        let hello = Record::Hello(Identity::of_self(id)?).to_bytes();
        // Whoever finds the file locked when its conductor is gone learns from it who that is. Without it nobody dares
        // to touch this process, which harms nothing else.
        let _ = file.append(&hello);
        let gate = Gate::new()?;
        let supervisor = Self {
            signals,
            gate,
            file,
            inherited: Inherited::default(),
            null: File::open("/dev/null")?,
            retiring: false,
            buffer: vec![0; 64 * 1024].into_boxed_slice(),
        };
        point("gate.hello");
        say(&hello);
        Ok(supervisor)
    }

    /// Serves the gate until it closes, until a signal asks it to end, or until it has to retire.
    fn live(mut self) -> io::Result<()> {
        while !self.retiring {
            match self.gate.pop() {
                Some(Frame::Inherited(variables)) => {
                    self.inherited = variables.into();
                    continue;
                }
                Some(Frame::Job(mut job)) => {
                    job.inherited = self.inherited.clone();
                    point("gate.job");
                    self.attempt(&job);
                    continue;
                }
                // It was meant for an attempt that ended by itself in the meantime.
                Some(Frame::Stop { .. }) => continue,
                None if self.gate.closed() => return Ok(()),
                None => {}
            }
            let ready = gate::wait(&self.gate, Some(self.signals.wake.as_fd()), None, None)?;
            if ready.signals {
                self.signals.drain();
            }
            if Signals::take(&self.signals.term) || Signals::take(&self.signals.kill) {
                return Ok(());
            }
            self.gate.fill();
        }
        Ok(())
    }

    /// Appends a record to the own file. Returns whether it is there.
    fn write(&mut self, record: &RecordBytes) -> bool {
        self.file.append(record).is_ok()
    }
}

/// Tells the conductor, if there still is one.
fn say(bytes: &RecordBytes) {
    // One write of at most PIPE_BUF bytes is never cut. Nobody listening is no reason to stop.
    let _ = rustix::io::retry_on_intr(|| rustix::io::write(io::stdout().as_fd(), bytes));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_call_makes_a_supervisor() {
        let file = Path::new("/x/0.sup");
        assert!(is_supervisor_call(supervisor_args(file)));
        assert!(!is_supervisor_call(["cf", "__supervise", "/x"]));
        assert!(!is_supervisor_call(["cf-supervise", "__supervise"]));
        assert!(!is_supervisor_call([
            "cf-supervise",
            "__supervise",
            "/x",
            "y"
        ]));
        assert!(!is_supervisor_call(Vec::<String>::new()));
    }
}
