//! What a command prints: read as it comes, so that it never waits for us, and kept as far as a log has use for it.

use std::fs::File;
use std::io::{self, PipeWriter, Read as _, pipe};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// How much of what one command prints is kept, in bytes. With more a few of them would fill the log, and a command
/// that prints without end the disk.
const MOST: usize = 64 << 10;

/// How much is read at once, in bytes: what a pipe holds.
const ROUND: usize = 64 << 10;

/// In how many rounds what is left is read when the command has ended: what it started may go on printing.
const LAST_ROUNDS: usize = 16;

/// The reading end of a command's standard output and standard error.
pub(super) struct Printed {
    /// Nothing, when nobody prints any more.
    pipe: Option<File>,
    kept: Vec<u8>,
    /// How many bytes came that were not kept.
    dropped: u64,
}

impl Printed {
    /// A reading end, and the end for the command.
    pub(super) fn new() -> io::Result<(Self, PipeWriter)> {
        let (ours, theirs) = pipe()?;
        let ours = OwnedFd::from(ours);
        fcntl_setfl(&ours, fcntl_getfl(&ours)? | OFlags::NONBLOCK)?;
        let printed = Self {
            pipe: Some(ours.into()),
            kept: Vec::new(),
            dropped: 0,
        };
        Ok((printed, theirs))
    }

    /// Waits for so long, or until something was printed, which is read.
    pub(super) fn wait(&mut self, longest: Duration) {
        let Some(pipe) = &self.pipe else {
            std::thread::sleep(longest);
            return;
        };
        let timeout = Timespec::try_from(longest).ok();
        let _ = poll(&mut [PollFd::new(pipe, PollFlags::IN)], timeout.as_ref());
        self.take();
    }

    /// What was printed: its beginning, and how much more there was.
    pub(super) fn all(mut self) -> Vec<u8> {
        for _ in 0..LAST_ROUNDS {
            if !self.take() {
                break;
            }
        }
        if self.kept.last().is_some_and(|last| *last != b'\n') {
            self.kept.push(b'\n');
        }
        if self.dropped > 0 {
            let more = format!("[cf: {} more bytes were left out]\n", self.dropped);
            self.kept.extend(more.as_bytes());
        }
        self.kept
    }

    /// Reads what is there, as far as one round goes. Returns whether there may be more.
    fn take(&mut self) -> bool {
        let Some(pipe) = &mut self.pipe else {
            return false;
        };
        let mut buffer = vec![0; ROUND];
        match pipe.read(&mut buffer) {
            Ok(0) => {
                self.pipe = None;
                false
            }
            Ok(read) => {
                let fits = read.min(MOST - self.kept.len());
                self.kept.extend(&buffer[..fits]);
                self.dropped += (read - fits) as u64;
                true
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => true,
            Err(_) => {
                self.pipe = None;
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn what_is_printed_is_kept_up_to_a_limit() {
        let (mut printed, mut theirs) = Printed::new().unwrap();
        theirs.write_all(b"hello").unwrap();
        printed.wait(Duration::from_secs(10));
        let writer = std::thread::spawn(move || theirs.write_all(&vec![b'x'; MOST]));
        while printed.pipe.is_some() {
            printed.wait(Duration::from_secs(10));
        }
        writer.join().unwrap().unwrap();
        let all = String::from_utf8(printed.all()).unwrap();
        assert!(all.starts_with("helloxxx"), "{}", &all[..20]);
        assert!(
            all.ends_with("x\n[cf: 5 more bytes were left out]\n"),
            "{}",
            &all[all.len() - 60..]
        );
    }

    #[test]
    fn nobody_waits_for_what_somebody_else_holds_open() {
        let (printed, mut theirs) = Printed::new().unwrap();
        theirs.write_all(b"whole\n").unwrap();
        assert_eq!(printed.all(), b"whole\n");
    }
}
