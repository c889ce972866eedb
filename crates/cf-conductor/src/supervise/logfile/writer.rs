//! The writing side of a log. Nothing that goes wrong with it concerns the agent: output that cannot be kept is
//! counted.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::{CHUNK, HEADER, Header, tail_path};
use crate::supervise::job::LogLimits;
use crate::supervise::record::LogTally;
use crate::workspace::inside;

/// Writes the output of one process.
pub(in crate::supervise) struct LogWriter<'a> {
    limits: &'a LogLimits,
    files: Option<Files>,
    /// Bytes that this writer was given and wrote.
    bytes: u64,
    dropped: u64,
}

struct Files {
    head: File,
    head_len: u64,
    ring: Option<(File, Header)>,
}

impl<'a> LogWriter<'a> {
    /// A writer that makes its file when there is something to write.
    pub(in crate::supervise) const fn new(limits: &'a LogLimits) -> Self {
        Self {
            limits,
            files: None,
            bytes: 0,
            dropped: 0,
        }
    }

    /// Appends output, at most 64 KiB at once.
    pub(in crate::supervise) fn write(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len() as u64 <= CHUNK);
        if self.files.is_none() {
            self.files = Files::open(self.limits).ok();
        }
        let written = match &mut self.files {
            Some(files) => files.write(self.limits, bytes),
            None => 0,
        };
        self.bytes += written;
        self.dropped += bytes.len() as u64 - written;
    }

    /// What has become of the output so far.
    pub(in crate::supervise) fn tally(&self) -> LogTally {
        let cut = self.files.as_ref().and_then(|files| files.ring.as_ref());
        LogTally {
            bytes: self.bytes,
            cut: cut.map_or(0, |(_, header)| header.total - header.shown()),
            dropped: self.dropped,
        }
    }
}

impl Files {
    fn open(limits: &LogLimits) -> io::Result<Self> {
        let path: &Path = limits.path.as_ref();
        let head = open_own(path, OFlags::CREATE | OFlags::APPEND)?;
        let head_len = head.metadata()?.len();
        let ring = match open_own(&tail_path(path), OFlags::empty()) {
            Ok(file) => {
                let header = Header::read(&file)?;
                Some((file, header))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(Self {
            head,
            head_len,
            ring,
        })
    }

    /// Returns how many bytes were written.
    fn write(&mut self, limits: &LogLimits, bytes: &[u8]) -> u64 {
        let room = match self.ring {
            Some(_) => 0,
            None => limits.head_bytes.saturating_sub(self.head_len),
        };
        let (first, rest) =
            bytes.split_at(bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX)));
        let mut written = 0;
        while let Some(left) = first.get(written..).filter(|left| !left.is_empty()) {
            match rustix::io::write(&self.head, left) {
                Ok(0) => break,
                Ok(n) => written += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
        self.head_len += written as u64;
        let kept = written as u64;
        // What follows a gap in the head would stand in the wrong place; it is dropped with the gap.
        if written == first.len() && !rest.is_empty() && self.append(limits, rest).is_ok() {
            return kept + rest.len() as u64;
        }
        kept
    }

    /// Puts bytes into the ring: first the bytes, then the header that tells of them.
    fn append(&mut self, limits: &LogLimits, bytes: &[u8]) -> io::Result<()> {
        if self.ring.is_none() {
            let path: &Path = limits.path.as_ref();
            let file = open_own(&tail_path(path), OFlags::CREATE | OFlags::EXCL)?;
            let header = Header {
                head_len: self.head_len,
                capacity: limits.tail_bytes + CHUNK,
                total: 0,
            };
            file.write_all_at(&header.to_bytes(), 0)?;
            self.ring = Some((file, header));
        }
        let (file, header) = self.ring.as_mut().expect("it has just been made");
        let at = header.total % header.capacity;
        let first = usize::try_from(header.capacity - at)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        file.write_all_at(&bytes[..first], HEADER + at)?;
        file.write_all_at(&bytes[first..], HEADER)?;
        let next = Header {
            total: header.total + bytes.len() as u64,
            ..*header
        };
        file.write_all_at(&next.to_bytes(), 0)?;
        *header = next;
        Ok(())
    }
}

/// Opens a file for its owner only, never through a symbolic link, and only a regular one.
fn open_own(path: &Path, how: OFlags) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | how;
    let file = File::from(inside::open(path, flags, Mode::RUSR | Mode::WUSR)?);
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("the log is not a regular file"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Chunk, Extent, LogReader, LogView};
    use super::*;

    fn limits(dir: &Path, head_bytes: u64, tail_bytes: u64) -> LogLimits {
        LogLimits {
            path: dir.join("log").into(),
            head_bytes,
            tail_bytes,
        }
    }

    fn reader(limits: &LogLimits) -> LogReader {
        LogReader::new(limits.path.path())
    }

    #[test]
    fn a_log_that_nothing_was_written_to_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        let limits = limits(dir.path(), 10, 10);
        assert_eq!(LogWriter::new(&limits).tally(), LogTally::default());
        assert!(!limits.path.path().exists());
        let mut reader = reader(&limits);
        assert_eq!(reader.extent().unwrap(), Extent::default());
        assert_eq!(reader.view().unwrap(), LogView::default());
        assert_eq!(reader.last_lines(3, 100).unwrap(), Vec::<Vec<u8>>::new());
        assert_eq!(reader.last_line().unwrap(), None);
    }

    #[test]
    fn head_and_tail_are_kept_and_the_cut_is_exact() {
        let dir = tempfile::tempdir().unwrap();
        let limits = limits(dir.path(), 1_000, 500);
        let all: Vec<u8> = (0..1_000_000u32).map(|n| (n % 251) as u8).collect();
        let mut writer = LogWriter::new(&limits);
        let mut reader = reader(&limits);
        for chunk in all.chunks(777) {
            writer.write(chunk);
        }
        let tally = writer.tally();
        assert_eq!(
            tally,
            LogTally {
                bytes: 1_000_000,
                cut: 998_500,
                dropped: 0
            }
        );
        let view = reader.view().unwrap();
        assert_eq!(view.head, all[..1_000]);
        assert_eq!(view.cut_bytes, 998_500);
        assert_eq!(view.tail, all[999_500..]);
        let on_disk = std::fs::metadata(tail_path(&limits.path.path()))
            .unwrap()
            .len();
        assert!(on_disk <= HEADER + 500 + CHUNK, "{on_disk}");
    }

    #[test]
    fn a_second_process_of_the_attempt_appends() {
        let dir = tempfile::tempdir().unwrap();
        let limits = limits(dir.path(), 4, 100);
        for part in [b"one\n", b"two\n", b"six\n"] {
            LogWriter::new(&limits).write(part);
        }
        let view = reader(&limits).view().unwrap();
        assert_eq!(
            (view.head.as_slice(), view.cut_bytes, view.tail.as_slice()),
            (b"one\n".as_slice(), 0, b"two\nsix\n".as_slice())
        );
    }

    #[test]
    fn a_follower_reads_on_and_is_told_what_it_missed() {
        let dir = tempfile::tempdir().unwrap();
        let limits = limits(dir.path(), 4, 6);
        let mut writer = LogWriter::new(&limits);
        let mut reader = reader(&limits);
        writer.write(b"head");
        let chunk = reader.read_from(0, 100).unwrap();
        assert_eq!(
            chunk,
            Chunk {
                skipped: 0,
                bytes: b"head".to_vec(),
                next: 4
            }
        );
        assert_eq!(
            reader.read_from(4, 100).unwrap(),
            Chunk {
                skipped: 0,
                bytes: vec![],
                next: 4
            }
        );
        writer.write(b"0123456789");
        let chunk = reader.read_from(4, 100).unwrap();
        assert_eq!(
            chunk,
            Chunk {
                skipped: 4,
                bytes: b"456789".to_vec(),
                next: 14
            }
        );
        assert_eq!(reader.read_from(14, 100).unwrap().bytes, b"");
        assert_eq!(
            reader.read_from(10, 2).unwrap(),
            Chunk {
                skipped: 0,
                bytes: b"67".to_vec(),
                next: 12
            }
        );
    }

    #[test]
    fn last_lines_reach_from_the_tail_into_the_head_unless_something_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let limits = limits(dir.path(), 6, 8);
        let mut writer = LogWriter::new(&limits);
        let mut reader = reader(&limits);
        writer.write(b"a\nb\nc\nd\n\xff\n");
        assert_eq!(
            reader.last_lines(3, 100).unwrap(),
            [b"c".to_vec(), b"d".to_vec(), vec![0xff]]
        );
        assert_eq!(reader.last_lines(9, 100).unwrap().len(), 5);
        writer.write(b"x\ny\nz\n\n");
        assert_eq!(
            reader.last_lines(9, 100).unwrap(),
            [
                b"".to_vec(),
                b"x".to_vec(),
                b"y".to_vec(),
                b"z".to_vec(),
                b"".to_vec()
            ]
        );
        assert_eq!(reader.last_line().unwrap(), Some(b"z".to_vec()));
    }

    #[test]
    fn the_end_of_an_endless_line_is_its_last_line() {
        let dir = tempfile::tempdir().unwrap();
        let limits = limits(dir.path(), 100_000, 100_000);
        let mut writer = LogWriter::new(&limits);
        for _ in 0..20 {
            writer.write(&vec![b'x'; 50_000]);
        }
        assert_eq!(reader(&limits).last_line().unwrap().unwrap().len(), 4096);
        assert_eq!(
            reader(&limits).last_lines(2, 10_000).unwrap()[0].len(),
            10_000
        );
    }

    #[test]
    fn what_cannot_be_written_is_counted_and_harms_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let limits = LogLimits {
            path: dir.path().join("no/such/dir").into(),
            head_bytes: 10,
            tail_bytes: 10,
        };
        let mut writer = LogWriter::new(&limits);
        writer.write(b"12345");
        assert_eq!(
            writer.tally(),
            LogTally {
                bytes: 0,
                cut: 0,
                dropped: 5
            }
        );
        // A device that is always full.
        let limits = LogLimits {
            path: "/dev/full".into(),
            ..limits
        };
        let mut writer = LogWriter::new(&limits);
        writer.write(b"12345");
        assert_eq!(writer.tally().dropped, 5);
    }
}
