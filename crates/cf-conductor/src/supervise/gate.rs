//! The gate: a supervisor's standard input, and the one place where it waits.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::job::Frame;

/// Whole frames that have come through the gate.
pub(super) struct Gate {
    bytes: Vec<u8>,
    frames: VecDeque<Frame>,
    closed: bool,
}

impl Gate {
    pub(super) fn new() -> io::Result<Self> {
        let stdin = io::stdin();
        let flags = fcntl_getfl(stdin.as_fd())?;
        fcntl_setfl(stdin.as_fd(), flags | OFlags::NONBLOCK)?;
        Ok(Self {
            bytes: Vec::new(),
            frames: VecDeque::new(),
            closed: false,
        })
    }

    /// Whether nothing more can come: whoever held the other end is gone, and with it any half of a frame.
    pub(super) const fn closed(&self) -> bool {
        self.closed
    }

    /// The next frame.
    pub(super) fn pop(&mut self) -> Option<Frame> {
        self.frames.pop_front()
    }

    /// The next frame if it is a request to stop; a job stays for later.
    pub(super) fn pop_stop(&mut self) -> Option<Frame> {
        match self.frames.front() {
            Some(Frame::Stop { .. }) => self.frames.pop_front(),
            _ => None,
        }
    }

    /// Reads what is there now, without waiting.
    ///
    /// What cannot be read or is not a frame closes the gate: nothing after it could be believed.
    pub(super) fn fill(&mut self) {
        let mut chunk = [0u8; 4096];
        while !self.closed {
            match rustix::io::read(io::stdin().as_fd(), &mut chunk) {
                Ok(0) => self.closed = true,
                Ok(n) => {
                    self.bytes.extend_from_slice(&chunk[..n]);
                    if n < chunk.len() {
                        break;
                    }
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(_) => self.closed = true,
            }
        }
        loop {
            match Frame::take(&mut self.bytes) {
                Ok(Some(frame)) => self.frames.push_back(frame),
                Ok(None) => break,
                Err(_) => {
                    self.bytes.clear();
                    self.closed = true;
                }
            }
        }
        if self.bytes.is_empty() {
            // A long job must not stay in memory for the rest of a supervisor's life.
            self.bytes = Vec::new();
        }
    }
}

/// What `wait` found readable.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ready {
    pub(super) gate: bool,
    pub(super) signals: bool,
    pub(super) output: bool,
}

/// Waits until something can be read, a signal comes, or the time is over (never, when there is none).
pub(super) fn wait(
    gate: &Gate,
    signals: Option<BorrowedFd<'_>>,
    output: Option<BorrowedFd<'_>>,
    timeout: Option<Duration>,
) -> io::Result<Ready> {
    let stdin = io::stdin();
    let sources = [(!gate.closed()).then(|| stdin.as_fd()), signals, output];
    let mut fds: Vec<PollFd<'_>> = sources
        .iter()
        .flatten()
        .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
        .collect();
    let timeout = timeout.map(|time| Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    });
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) => {}
        // Its flag stands, and its wake-up is read now.
        Err(Errno::INTR) => {
            return Ok(Ready {
                signals: true,
                ..Ready::default()
            });
        }
        Err(error) => return Err(error.into()),
    }
    let mut answers = fds.iter().map(|fd| !fd.revents().is_empty());
    let [gate, signals, output] =
        sources.map(|source| source.is_some() && answers.next().unwrap_or(false));
    Ok(Ready {
        gate,
        signals,
        output,
    })
}
