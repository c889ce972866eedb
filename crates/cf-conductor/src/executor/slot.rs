//! A supervisor as its conductor sees it: its gate, its notes, and what it is busy with.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cf_core::{AttemptId, SupervisorId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::unix::pipe::Receiver;
use tokio::time::timeout;

use super::ExecutorError;
use crate::process::{Identity, has_ended, is_same, is_stopped, is_stopped_child, signal, wake};
use crate::supervise::{Inherited, RECORD_BYTES, Record, Stage, supervisor_args};

/// How long a supervisor may take to read a job that is too long for its gate. One that runs takes milliseconds.
const READ: Duration = Duration::from_secs(2);

/// A supervisor that this executor knows.
pub(super) struct Slot {
    pub(super) who: Who,
    pub(super) state: State,
    /// What its jobs inherit, as far as it was told.
    pub(super) inherited: Inherited,
    /// How many jobs it has been given.
    pub(super) jobs: u32,
    /// Whether it takes no further job, or is dead already.
    pub(super) retired: bool,
    /// Whether everything that it reported has been stored.
    pub(super) released: bool,
    /// Whether it leaves more alone deliberately than its record lists.
    pub(super) leaves_unlisted: bool,
    /// When it is killed unless what it runs has ended by then; only while it is to stop something.
    pub(super) overdue_at: Option<Instant>,
    /// Whether it was found stopped (SIGSTOP) at the last look.
    pub(super) found_stopped: bool,
}

/// How a supervisor is connected with this process.
pub(super) enum Who {
    /// It is a child of this process.
    Own {
        child: Child,
        /// Closed when it is to end.
        gate: Option<ChildStdin>,
        identity: Option<Identity>,
    },
    /// Another conductor started it.
    Adopted(Identity),
    /// It has ended and has been waited for.
    Dead,
}

/// What a supervisor is busy with.
pub(super) enum State {
    /// It has not said hello yet.
    Starting,
    /// It waits at its gate, for anybody.
    Idle,
    /// It waits at its gate, for whoever acquired it.
    Acquired,
    /// It runs this.
    Busy { attempt: AttemptId, stage: Stage },
    /// What it ran is over and has been told.
    Reported,
}

impl Slot {
    /// Starts a supervisor: a clean environment, nothing but its gate and its notes to hold on to. Returns it with
    /// where its notes come, the first of which is its hello.
    pub(super) fn start(exe: &Path, file: &Path) -> io::Result<(Self, Receiver)> {
        let [name, arguments @ ..] = supervisor_args(file);
        // No `pre_exec`, user or group here: with any of those `std` forks instead of using `posix_spawn`, and a fork
        // costs more the more memory the conductor has.
        let mut child = Command::new(exe)
            .arg0(name)
            .args(arguments)
            .env_clear()
            .envs(crate::fault::handed_down())
            // The C library's allocator merges what is freed anew for every job unless it may keep that many pieces of
            // one size. Others do not know this variable.
            .env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=512")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let gate = child.stdin.take();
        let notes = child
            .stdout
            .take()
            .expect("its standard output was asked to be a pipe");
        if let Some(gate) = &gate {
            // Nothing that becomes of a supervisor may hold up the conductor. The reading end has flags of its own.
            fcntl_setfl(gate, fcntl_getfl(gate)? | OFlags::NONBLOCK)?;
        }
        let receiver = Receiver::from_owned_fd(OwnedFd::from(notes))?;
        let slot = Self {
            who: Who::Own {
                child,
                gate,
                identity: None,
            },
            state: State::Starting,
            inherited: Inherited::default(),
            jobs: 0,
            retired: false,
            released: true,
            leaves_unlisted: false,
            overdue_at: None,
            found_stopped: false,
        };
        Ok((slot, receiver))
    }

    /// Its process number, while it is a child of this process.
    pub(super) fn own_pid(&self) -> Option<i32> {
        match &self.who {
            Who::Own { child, .. } => i32::try_from(child.id()).ok(),
            Who::Adopted(_) | Who::Dead => None,
        }
    }

    /// How the process came to its end, in words: its exit status or the signal. To be asked when it is ending.
    pub(super) async fn how_it_ended(&mut self) -> String {
        let Who::Own { child, .. } = &mut self.who else {
            return "it is not a child of this process".to_owned();
        };
        if let Ok(pidfd) = pidfd_open(Pid::from_child(child), PidfdFlags::empty()) {
            let _ = timeout(READ, ended(pidfd)).await;
        }
        match child.try_wait() {
            Ok(Some(status)) => status.to_string(),
            Ok(None) => "it closed its output and lives on".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    /// Whether there is a gate to send something through.
    pub(super) const fn has_gate(&self) -> bool {
        matches!(self.who, Who::Own { gate: Some(_), .. })
    }

    /// Who it is, once that is known.
    pub(super) fn identity(&self) -> Option<&Identity> {
        match &self.who {
            Who::Own { identity, .. } => identity.as_ref(),
            Who::Adopted(identity) => Some(identity),
            Who::Dead => None,
        }
    }

    /// Lets it go on if it is a child that has been stopped (SIGSTOP) for a while; else this is one question to the
    /// kernel.
    pub(super) fn wake_if_stopped(&self) {
        if let Some(pid) = self.own_pid()
            && is_stopped_child(pid)
        {
            wake(pid);
        }
    }

    /// Lets it go on if it was found stopped before and still is. Nobody but it can end what it runs, keep its limits
    /// and say how it ended.
    pub(super) fn wake_if_still_stopped(&mut self) {
        let stopped = match &self.who {
            Who::Own { child, .. } => is_stopped_child(child.id().cast_signed()),
            Who::Adopted(identity) => is_stopped(identity),
            Who::Dead => false,
        };
        if stopped && self.found_stopped {
            tracing::warn!("a supervisor was stopped, and is let go on");
            self.wake();
        }
        self.found_stopped = stopped;
    }

    /// Lets it go on if somebody stopped it (SIGSTOP).
    pub(super) fn wake(&self) {
        match &self.who {
            // A child that has not been waited for has its number to itself. For one that runs the signal does nothing
            // but take back a stop that is on the way.
            Who::Own { child, .. } => {
                let _ = kill_process(Pid::from_child(child), Signal::CONT);
            }
            Who::Adopted(identity) if is_same(identity) => wake(identity.pid),
            Who::Adopted(_) | Who::Dead => {}
        }
    }

    /// Sends it a signal, and nobody else.
    pub(super) fn signal(&self, what: Signal) -> io::Result<bool> {
        self.identity().map_or(Ok(false), |who| signal(who, what))
    }

    /// Sends a frame through its gate.
    pub(super) fn send(
        &mut self,
        id: SupervisorId,
        frame: io::Result<Vec<u8>>,
    ) -> Result<(), ExecutorError> {
        let bytes = frame.map_err(ExecutorError::Job)?;
        let Who::Own {
            gate: Some(gate), ..
        } = &mut self.who
        else {
            return Err(ExecutorError::Gone(id));
        };
        // A supervisor reads at once; with room for all of it there is nothing to wait for even if it does not.
        if bytes.len() > 64 * 1024 {
            let _ = rustix::pipe::fcntl_setpipe_size(&*gate, bytes.len());
        }
        match write_all(gate, &bytes) {
            Ok(()) => Ok(()),
            // It died with at most a part of the frame, and a part starts nothing.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.close_gate();
                Err(ExecutorError::Gone(id))
            }
            // Nor does this part; and it must not lie in the gate until the supervisor wakes up.
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                self.close_gate();
                let _ = self.signal(Signal::KILL);
                Err(ExecutorError::Gone(id))
            }
            Err(source) => {
                self.close_gate();
                Err(ExecutorError::Uncertain {
                    supervisor: id,
                    source,
                })
            }
        }
    }

    /// Closes the gate, so that the supervisor ends when it runs nothing.
    pub(super) fn close_gate(&mut self) {
        self.retired = true;
        if let Who::Own { gate, .. } = &mut self.who {
            *gate = None;
        }
    }
}

/// Writes all of `bytes` into a gate, and gives up with `TimedOut` when nobody reads there for [`READ`].
fn write_all(gate: &ChildStdin, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(gate, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let patience = Timespec {
                    tv_sec: READ.as_secs().cast_signed(),
                    tv_nsec: 0,
                };
                let mut fds = [PollFd::new(gate, PollFlags::OUT)];
                if poll(&mut fds, Some(&patience)) == Ok(0) {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Reads one record from a supervisor; `None` when it is dead.
///
/// Cancelling loses nothing: a record is written and read at once.
pub(super) async fn read_record(receiver: &mut Receiver) -> Option<Record> {
    let mut bytes = [0; RECORD_BYTES];
    match receiver.read(&mut bytes).await {
        Ok(RECORD_BYTES) => Record::from_bytes(&bytes).ok(),
        _ => None,
    }
}

/// Waits until a process has ended. A child of this process then still is to be waited for.
pub(super) async fn ended(pidfd: OwnedFd) {
    let pidfd = Arc::new(pidfd);
    #[expect(
        deprecated,
        reason = "its successor is unsafe; an OwnedFd keeps its descriptor, which is all that is asked for"
    )]
    let watched = AsyncFd::with_interest(Arc::clone(&pidfd), Interest::READABLE);
    if let Ok(watched) = watched
        && watched.readable().await.is_ok()
    {
        return;
    }
    // It must not be taken for dead only because it cannot be watched.
    while !has_ended(&*pidfd, Duration::ZERO) {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Waits until nobody holds a supervisor's lock, where there is no other way to watch it.
pub(super) async fn unlocked(file: std::path::PathBuf) {
    while crate::process::lock_held(&file) {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// A descriptor of the supervisor itself, and of nobody who has its number now.
pub(super) fn pidfd_of(identity: &Identity) -> Option<OwnedFd> {
    let pidfd = pidfd_open(Pid::from_raw(identity.pid)?, PidfdFlags::empty()).ok()?;
    is_same(identity).then_some(pidfd)
}
