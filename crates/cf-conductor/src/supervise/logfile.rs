//! The log of an attempt: its beginning in a plain file, its end in a ring of fixed size beside it.
//!
//! Output goes to `<path>` until that holds the head; everything after goes into `<path>.tail`, where the newest bytes
//! replace the oldest. Positions (*offsets*) count the bytes of the output from its beginning, cut ones included, so
//! that a follower can go on where it was. Bytes are kept as they came.
//!
//! The ring has 64 KiB more room than it shows, which is the most that is ever written between two updates of its
//! header; what a reader sees is therefore never half overwritten.

mod writer;

pub(super) use writer::LogWriter;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cf_core::AttemptId;

use crate::workspace::Workspace;
use crate::workspace::inside::Folder;

/// The most that is written at once, in bytes.
const CHUNK: u64 = 64 * 1024;

/// The size of the ring's header: magic, length of the head, capacity of the ring, bytes that ever went into it.
const HEADER: u64 = 32;

const MAGIC: [u8; 8] = *b"cf-log1\n";

/// The file beside a log that holds its end.
pub fn tail_path(log: &Path) -> PathBuf {
    let mut path = OsString::from(log);
    path.push(".tail");
    path.into()
}

/// The header of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    head_len: u64,
    capacity: u64,
    total: u64,
}

impl Header {
    fn to_bytes(self) -> [u8; HEADER as usize] {
        let mut bytes = [0; HEADER as usize];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.head_len.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.capacity.to_le_bytes());
        bytes[24..].copy_from_slice(&self.total.to_le_bytes());
        bytes
    }

    fn read(file: &File) -> io::Result<Self> {
        let mut bytes = [0; HEADER as usize];
        file.read_exact_at(&mut bytes, 0)?;
        let number = |at: usize| {
            u64::from_le_bytes(
                bytes[at..at + 8]
                    .try_into()
                    .expect("eight bytes are eight bytes"),
            )
        };
        let header = Self {
            head_len: number(8),
            capacity: number(16),
            total: number(24),
        };
        if bytes[..8] != MAGIC || header.capacity < CHUNK {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "not the tail of a log",
            ));
        }
        Ok(header)
    }

    /// How much of the end can be shown.
    const fn shown(self) -> u64 {
        let most = self.capacity - CHUNK;
        if self.total < most { self.total } else { most }
    }
}

/// What there is of a log at one moment, in offsets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// The head is `0..head_end`.
    pub head_end: u64,
    /// The tail is `tail_start..end`; what lies between is cut.
    pub tail_start: u64,
    /// Where the output ends for now.
    pub end: u64,
}

impl Extent {
    /// How many bytes are no longer there.
    pub const fn cut_bytes(self) -> u64 {
        self.tail_start - self.head_end
    }

    /// The earliest offset from which everything up to the end is there.
    const fn unbroken(self) -> u64 {
        if self.cut_bytes() == 0 {
            0
        } else {
            self.tail_start
        }
    }
}

/// A piece of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// How many bytes between the offset asked for and the first byte here are cut.
    pub skipped: u64,
    /// The bytes; none when there is nothing further for now.
    pub bytes: Vec<u8>,
    /// The offset to ask for next.
    pub next: u64,
}

/// All that is kept of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogView {
    /// The beginning.
    pub head: Vec<u8>,
    /// How many bytes are cut after it.
    pub cut_bytes: u64,
    /// The end.
    pub tail: Vec<u8>,
}

/// The logs of a workspace's attempts. The way to their folder is gone once for all of them.
#[derive(Debug)]
pub struct Logs {
    workspace: Workspace,
    folder: Option<Arc<Folder>>,
}

impl Logs {
    /// Opens their folder. Where it cannot be opened, reading a log tells why.
    pub fn of(workspace: &Workspace) -> Self {
        Self {
            workspace: workspace.clone(),
            folder: Folder::at(&workspace.logs()).ok().map(Arc::new),
        }
    }

    /// A reader of an attempt's output.
    pub fn of_attempt(&self, attempt: AttemptId) -> LogReader {
        LogReader {
            folder: self.folder.clone(),
            ..LogReader::new(self.workspace.log_of(attempt))
        }
    }
}

/// Reads a log, also while it is written.
#[derive(Debug)]
pub struct LogReader {
    path: PathBuf,
    /// What `path` lies in, once it is open.
    folder: Option<Arc<Folder>>,
    head: Option<File>,
    tail: Option<File>,
}

impl LogReader {
    /// A reader of the log at `path`. A log that is not there (yet) is empty.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            folder: None,
            head: None,
            tail: None,
        }
    }

    /// What there is now.
    ///
    /// # Errors
    ///
    /// The log is there and cannot be read.
    pub fn extent(&mut self) -> io::Result<Extent> {
        if self.folder.is_none() {
            self.folder = if_there(Folder::around(&self.path))?.map(Arc::new);
        }
        let Some(folder) = &self.folder else {
            return Ok(Extent::default());
        };
        if self.head.is_none() {
            self.head = if_there(folder.open_to_read(&self.path))?;
        }
        let Some(head) = &self.head else {
            return Ok(Extent::default());
        };
        if self.tail.is_none() {
            self.tail = if_there(folder.open_to_read(&tail_path(&self.path)))?;
        }
        let header = match self.tail.as_ref().map(Header::read) {
            // Its writer has made it just now, or was killed while it did.
            Some(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => None,
            other => other.transpose()?,
        };
        if let Some(header) = header {
            let end = header.head_len + header.total;
            return Ok(Extent {
                head_end: header.head_len,
                tail_start: end - header.shown(),
                end,
            });
        }
        let end = head.metadata()?.len();
        Ok(Extent {
            head_end: end,
            tail_start: end,
            end,
        })
    }

    /// Up to `most` bytes from `offset` on; if that is cut, from where the tail begins.
    ///
    /// # Errors
    ///
    /// The log is there and cannot be read.
    pub fn read_from(&mut self, offset: u64, most: usize) -> io::Result<Chunk> {
        let mut extent = self.extent()?;
        loop {
            if let Some(head) = self.head.as_ref().filter(|_| offset < extent.head_end) {
                let bytes = read_at(head, offset, (extent.head_end - offset).min(most as u64))?;
                let next = offset + bytes.len() as u64;
                return Ok(Chunk {
                    skipped: 0,
                    bytes,
                    next,
                });
            }
            let from = offset.max(extent.tail_start);
            let bytes = match &self.tail {
                Some(tail) if from < extent.end => {
                    let header = Header::read(tail)?;
                    ring_at(
                        tail,
                        header,
                        from - extent.head_end,
                        (extent.end - from).min(most as u64),
                    )?
                }
                _ => Vec::new(),
            };
            // What was read is good only if the writer has not come round in the meantime.
            let now = self.extent()?;
            if bytes.is_empty() || now.tail_start <= from {
                let next = from + bytes.len() as u64;
                return Ok(Chunk {
                    skipped: from - offset,
                    bytes,
                    next,
                });
            }
            extent = now;
        }
    }

    /// Everything that is kept: as much memory as the limits of the log say.
    ///
    /// # Errors
    ///
    /// The log is there and cannot be read.
    pub fn view(&mut self) -> io::Result<LogView> {
        let mut view = LogView::default();
        let mut offset = 0;
        loop {
            let chunk = self.read_from(offset, CHUNK as usize)?;
            if chunk.bytes.is_empty() {
                return Ok(view);
            }
            // The writer came round while the tail was read: what was read before is no longer beside it.
            if chunk.skipped > 0 {
                view.cut_bytes += chunk.skipped + view.tail.len() as u64;
                view.tail.clear();
            }
            let in_head = offset + chunk.skipped < self.extent()?.head_end;
            if in_head {
                &mut view.head
            } else {
                &mut view.tail
            }
            .extend(chunk.bytes);
            offset = chunk.next;
        }
    }

    /// The last `count` lines, oldest first, without their line ends, out of the last `most` bytes. Of a line that is
    /// longer, its end.
    ///
    /// # Errors
    ///
    /// The log is there and cannot be read.
    pub fn last_lines(&mut self, count: usize, most: usize) -> io::Result<Vec<Vec<u8>>> {
        let extent = self.extent()?;
        let mut want = 4096.min(most as u64);
        loop {
            let start = extent.end.saturating_sub(want).max(extent.unbroken());
            let mut bytes = Vec::new();
            let mut offset = start;
            while offset < extent.end {
                let chunk = self.read_from(
                    offset,
                    usize::try_from(extent.end - offset).unwrap_or(usize::MAX),
                )?;
                if chunk.bytes.is_empty() {
                    break;
                }
                if chunk.skipped > 0 {
                    bytes.clear();
                }
                bytes.extend(chunk.bytes);
                offset = chunk.next;
            }
            if bytes.last() == Some(&b'\n') {
                bytes.pop();
            }
            let whole = start == 0;
            let lines: Vec<&[u8]> = bytes.split(|b| *b == b'\n').collect();
            let enough = lines.len() > count || (whole && lines.len() == count);
            let at_most = whole || start == extent.unbroken() || want >= most as u64;
            if enough || at_most {
                let empty = bytes.is_empty();
                let skip = lines.len().saturating_sub(count);
                let lines = lines.into_iter().skip(skip).map(<[u8]>::to_vec);
                return Ok(if empty { Vec::new() } else { lines.collect() });
            }
            want = (want * 8).min(most as u64);
        }
    }

    /// The last line that is not blank, at most its last 4 KiB; cheap enough for a display that asks again and again.
    ///
    /// # Errors
    ///
    /// The log is there and cannot be read.
    pub fn last_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let lines = self.last_lines(64, 4096)?;
        Ok(lines
            .into_iter()
            .rev()
            .find(|line| !line.trim_ascii().is_empty()))
    }
}

fn if_there<T>(opened: io::Result<T>) -> io::Result<Option<T>> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads up to `length` bytes.
fn read_at(file: &File, offset: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}

/// Reads up to `length` bytes of a ring, `position` bytes after the first that ever went into it.
fn ring_at(file: &File, header: Header, position: u64, length: u64) -> io::Result<Vec<u8>> {
    let at = position % header.capacity;
    let first = length.min(header.capacity - at);
    let mut bytes = read_at(file, HEADER + at, first)?;
    if bytes.len() as u64 == first && first < length {
        bytes.extend(read_at(file, HEADER, length - first)?);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logs_of_a_workspace_are_read_through_its_own_folder_and_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::create(dir.path()).unwrap().0;
        let attempt = AttemptId(uuid::Uuid::max());
        let said = |logs: &Logs| logs.of_attempt(attempt).last_line();
        let logs = Logs::of(&workspace);
        assert_eq!(said(&logs).unwrap(), None);
        std::fs::write(workspace.log_of(attempt), "first\nlast\n").unwrap();
        assert_eq!(said(&logs).unwrap().as_deref(), Some(b"last".as_slice()));
        let elsewhere = dir.path().join("elsewhere");
        std::fs::rename(workspace.logs(), &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, workspace.logs()).unwrap();
        let refused = said(&Logs::of(&workspace)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::NotADirectory);
        std::fs::remove_file(workspace.logs()).unwrap();
        assert_eq!(said(&Logs::of(&workspace)).unwrap(), None);
    }
}
