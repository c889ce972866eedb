//! A supervisor as its conductor sees it: its gate, its notes, and what it is busy with.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use cf_core::{AttemptId, SupervisorId};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::unix::pipe::Receiver;

use super::ExecutorError;
use crate::process::{Identity, has_ended, is_same};
use crate::supervise::{Frame, RECORD_BYTES, Record, Stage, supervisor_args};

/// A supervisor that this executor knows.
pub(super) struct Slot {
    pub(super) who: Who,
    pub(super) state: State,
    /// How many jobs it has been given.
    pub(super) jobs: u32,
    /// Whether it takes no further job, or is dead already.
    pub(super) retired: bool,
    /// Whether everything that it reported has been stored.
    pub(super) released: bool,
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
    Starting(Receiver),
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
    /// Starts a supervisor: a clean environment, nothing but its gate and its notes to hold on to.
    pub(super) fn start(exe: &Path, file: &Path) -> io::Result<Self> {
        let [name, arguments @ ..] = supervisor_args(file);
        // No `pre_exec`, user or group here: with any of those `std` forks instead of using `posix_spawn`, and a fork
        // costs more the more memory the conductor has.
        let mut child = Command::new(exe)
            .arg0(name)
            .args(arguments)
            .env_clear()
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
        let receiver = Receiver::from_owned_fd(OwnedFd::from(notes))?;
        Ok(Self {
            who: Who::Own {
                child,
                gate,
                identity: None,
            },
            state: State::Starting(receiver),
            jobs: 0,
            retired: false,
            released: true,
        })
    }

    /// Its process number, while it is a child of this process.
    pub(super) fn own_pid(&self) -> Option<i32> {
        match &self.who {
            Who::Own { child, .. } => i32::try_from(child.id()).ok(),
            Who::Adopted(_) | Who::Dead => None,
        }
    }

    /// Sends a frame through its gate.
    pub(super) fn send(&mut self, id: SupervisorId, frame: &Frame) -> Result<(), ExecutorError> {
        let bytes = frame.to_bytes().map_err(ExecutorError::Job)?;
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
        match gate.write_all(&bytes) {
            Ok(()) => Ok(()),
            // It died with at most a part of the frame, and a part starts nothing.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.close_gate();
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
