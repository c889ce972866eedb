//! A git that runs: what it prints is read, its end is noticed, and it is ended when that is asked for.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// From SIGTERM, upon which git removes its lock files, to SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// How much of what git prints is taken, in bytes: the names of the files of a repository of two million.
const OUT: usize = 256 << 20;

/// What is said when it prints more.
pub(super) const TOO_MUCH: &str = "it prints more than 256 MiB";

/// How much of what git says beside that is kept, in bytes. The rest is read and dropped.
const ERR: usize = 64 << 10;

/// How much is read between two looks at limits, in bytes: what a pipe holds, unless somebody has made it larger.
const ROUND: usize = 64 << 10;

/// In how many rounds everything is read that a git left which has ended: what it started may go on printing.
const LAST_ROUNDS: usize = 16;

/// A git that runs. What it started may outlive it and hold its output open, so its own end counts.
pub(super) struct Watched {
    pub(super) child: Child,
    pidfd: OwnedFd,
    pub(super) out: Reading,
    pub(super) err: Reading,
}

pub(super) struct Reading {
    pipe: Option<File>,
    pub(super) read: Vec<u8>,
    most: usize,
    is_over: bool,
}

impl Watched {
    pub(super) fn new(mut child: Child) -> io::Result<Self> {
        let pid = Pid::from_child(&child);
        let out = Reading::new(child.stdout.take().map(OwnedFd::from), OUT)?;
        let err = Reading::new(child.stderr.take().map(OwnedFd::from), ERR)?;
        Ok(Self {
            pidfd: pidfd_open(pid, PidfdFlags::empty())?,
            child,
            out,
            err,
        })
    }

    /// Waits for a while, reading what comes. Returns whether git has ended.
    pub(super) fn wait(&mut self, longest: Duration) -> io::Result<bool> {
        let timeout = Timespec::try_from(longest).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut fds = vec![PollFd::new(&self.pidfd, PollFlags::IN)];
        for pipe in [&self.out.pipe, &self.err.pipe].into_iter().flatten() {
            fds.push(PollFd::new(pipe, PollFlags::IN));
        }
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let ended = !fds[0].revents().is_empty();
        drop(fds);
        let rounds = if ended { LAST_ROUNDS } else { 1 };
        for reading in [&mut self.out, &mut self.err] {
            for _ in 0..rounds {
                if !reading.take()? {
                    break;
                }
            }
        }
        Ok(ended)
    }

    /// Ends it and what it started.
    pub(super) fn end(&mut self) {
        let group = Pid::from_child(&self.child);
        let _ = kill_process_group(group, Signal::TERM);
        let begun = Instant::now();
        while begun.elapsed() < GRACE {
            if self
                .wait(GRACE.saturating_sub(begun.elapsed()))
                .unwrap_or(true)
            {
                break;
            }
        }
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.child.wait();
    }
}

impl Reading {
    fn new(pipe: Option<OwnedFd>, most: usize) -> io::Result<Self> {
        if let Some(pipe) = &pipe {
            fcntl_setfl(pipe.as_fd(), fcntl_getfl(pipe.as_fd())? | OFlags::NONBLOCK)?;
        }
        Ok(Self {
            pipe: pipe.map(File::from),
            read: Vec::new(),
            most,
            is_over: false,
        })
    }

    /// Whether more came than is taken.
    pub(super) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Takes what is there, as far as one round goes. Returns whether there may be more.
    fn take(&mut self) -> io::Result<bool> {
        let Some(pipe) = &mut self.pipe else {
            return Ok(false);
        };
        let before = self.read.len();
        let more = match pipe.take(ROUND as u64).read_to_end(&mut self.read) {
            Ok(_) if self.read.len() - before < ROUND => {
                self.pipe = None;
                false
            }
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) => return Err(error),
        };
        if self.read.len() > self.most {
            self.read.truncate(self.most);
            self.is_over = true;
        }
        Ok(more)
    }
}
