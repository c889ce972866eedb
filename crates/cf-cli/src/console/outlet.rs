//! Standard output for a long list, which is made while the store is being read.
//!
//! While a reading lasts, the write-ahead log of the store cannot be used again. So it must not last as long as
//! somebody looks at the list: what the other end takes at once is written, and the rest is held until the reading is
//! over. Most lists go to a file or to a reader that keeps up; to hold all of one took a third of the time of printing
//! it (100,000 tasks as JSON: 18,000 pages of memory touched for the first time).

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::ops::ControlFlow;
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;

use rustix::fs::{FileType, OFlags, fstat, major};

/// How much is offered at a time.
const CHUNK: usize = 64 * 1024;

/// The number of the driver of `/dev/null` and its like (Linux, `Documentation/admin-guide/devices.txt`).
const MEMORY_DEVICES: u32 = 1;

/// What is printed of a list, and how much of it is written.
pub(crate) struct Outlet {
    /// Takes what can be written at once, and says when that is nothing; none where everything is held.
    eager: Option<File>,
    held: Vec<u8>,
    /// How much at the beginning of `held` is written.
    written: usize,
    /// At which length `held` is offered.
    next: usize,
    refused: Option<io::Error>,
}

impl Outlet {
    /// Nothing may wait in another buffer of standard output.
    pub(crate) fn new() -> Self {
        Self::with(eager())
    }

    fn with(eager: Option<File>) -> Self {
        Self {
            eager,
            held: Vec::new(),
            written: 0,
            next: CHUNK,
            refused: None,
        }
    }

    /// Where the next part of the list is to be put.
    pub(crate) fn end(&mut self) -> &mut Vec<u8> {
        &mut self.held
    }

    /// Passes on what has come together, once it is enough. Breaks when nobody takes it any more, which
    /// [`finish`](Self::finish) tells.
    pub(crate) fn offer(&mut self) -> ControlFlow<()> {
        if self.held.len() < self.next {
            return ControlFlow::Continue(());
        }
        let Some(eager) = &mut self.eager else {
            self.next = usize::MAX;
            return ControlFlow::Continue(());
        };
        while self.written < self.held.len() {
            match eager.write(&self.held[self.written..]) {
                Ok(count) if count > 0 => self.written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(_) => break,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => {
                    self.refused = Some(error);
                    return ControlFlow::Break(());
                }
            }
        }
        // What is left moves to the front once it is the smaller part, so that no more is moved than was written.
        if self.written * 2 >= self.held.len() {
            self.held.drain(..self.written);
            self.written = 0;
        }
        self.next = self.held.len() + CHUNK;
        ControlFlow::Continue(())
    }

    /// Writes what is left, however long that takes.
    ///
    /// # Errors
    ///
    /// What is written is not taken, or was not.
    pub(crate) fn finish(self, out: &mut impl Write) -> io::Result<()> {
        if let Some(error) = self.refused {
            return Err(error);
        }
        out.write_all(&self.held[self.written..])
    }
}

/// Standard output as something that does not wait for a reader: a file, a device without one, or a pipe opened once
/// more, because its state is shared with others who may want to wait.
fn eager() -> Option<File> {
    let out = io::stdout();
    let stat = fstat(&out).ok()?;
    let is_memory = || major(stat.st_rdev) == MEMORY_DEVICES;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::CharacterDevice if is_memory() => {}
        FileType::Fifo => {
            let flags = i32::try_from(OFlags::NONBLOCK.bits()).ok()?;
            return OpenOptions::new()
                .write(true)
                .custom_flags(flags)
                .open("/proc/self/fd/1")
                .ok();
        }
        _ => return None,
    }
    out.as_fd().try_clone_to_owned().ok().map(File::from)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};

    use rustix::pipe::{PipeFlags, pipe_with};

    use super::*;

    fn push(outlet: &mut Outlet, lines: usize) -> ControlFlow<()> {
        for line in 0..lines {
            writeln!(outlet.end(), "{line:0>99}").unwrap();
            outlet.offer()?;
        }
        ControlFlow::Continue(())
    }

    fn expected(lines: usize) -> Vec<u8> {
        (0..lines)
            .flat_map(|line| format!("{line:0>99}\n").into_bytes())
            .collect()
    }

    #[test]
    fn what_is_taken_at_once_is_not_held() {
        let path = std::env::temp_dir().join(format!("cf-outlet-{}", std::process::id()));
        let mut file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut outlet = Outlet::with(Some(file.try_clone().unwrap()));
        assert!(push(&mut outlet, 5_000).is_continue());
        assert!(outlet.held.len() < CHUNK + 100, "{}", outlet.held.len());
        outlet.finish(&mut file).unwrap();
        file.rewind().unwrap();
        let mut read = Vec::new();
        file.read_to_end(&mut read).unwrap();
        assert!(read == expected(5_000));
    }

    #[test]
    fn what_is_not_taken_is_held_and_comes_in_order() {
        let (from, to) = pipe_with(PipeFlags::NONBLOCK).unwrap();
        let mut from = File::from(from);
        let mut outlet = Outlet::with(Some(File::from(to)));
        let mut read = Vec::new();
        for round in 0..3 {
            assert!(push(&mut outlet, 3_000).is_continue());
            assert!(outlet.held.len() > 100_000, "nobody reads");
            let mut some = vec![0; 30_000];
            let count = from.read(&mut some).unwrap();
            read.extend_from_slice(&some[..count]);
            assert!(count > 0, "round {round}");
        }
        // The rest of what is in the pipe comes before what is held.
        let _ = from.read_to_end(&mut read);
        outlet.finish(&mut read).unwrap();
        assert!(read == [expected(3_000), expected(3_000), expected(3_000)].concat());
    }

    #[test]
    fn what_a_slow_reader_has_taken_is_not_held() {
        let (from, to) = pipe_with(PipeFlags::NONBLOCK).unwrap();
        let mut from = File::from(from);
        let mut outlet = Outlet::with(Some(File::from(to)));
        let mut read = Vec::new();
        // A reader that takes all but a little of what is offered.
        for _ in 0..200 {
            assert!(push(&mut outlet, 1_000).is_continue());
            let mut some = vec![0; 99_000];
            let count = from.read(&mut some).unwrap();
            read.extend_from_slice(&some[..count]);
            let left = outlet.held.len() - outlet.written;
            assert!(outlet.held.len() <= 2 * left + CHUNK + 100_000, "{left}");
        }
        let _ = from.read_to_end(&mut read);
        outlet.finish(&mut read).unwrap();
        assert!(read == expected(1_000).repeat(200));
    }

    #[test]
    fn a_reader_that_is_gone_ends_it() {
        let (from, to) = pipe_with(PipeFlags::NONBLOCK).unwrap();
        drop(from);
        let mut outlet = Outlet::with(Some(File::from(to)));
        assert!(push(&mut outlet, 5_000).is_break());
        let ended = outlet.finish(&mut io::sink()).unwrap_err();
        assert_eq!(ended.kind(), ErrorKind::BrokenPipe);
    }
}
