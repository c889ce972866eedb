//! What a supervisor writes down: records of one fixed size in a file of its own.
//!
//! A record is a line of JSON, filled up with spaces to [`RECORD_BYTES`], and written with one `write` to a file that
//! is open for appending. Because the size divides a page, a record never crosses one, and a supervisor that is killed
//! in the middle of constant writing tears none. The same bytes go to the conductor as a note.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use cf_core::{AttemptEnd, AttemptId, Ending, SupervisorId};
use rustix::fs::{
    FallocateFlags, FlockOperation, Mode, OFlags, Stat, fallocate, flock, fstat, ftruncate, stat,
};
use serde::{Deserialize, Serialize};

use super::job::Stage;
use crate::process::{Identity, Process};
use crate::workspace::inside;

/// The size of every record, in bytes, its newline included.
pub const RECORD_BYTES: usize = 512;

/// A record as it stands in the file and goes to the conductor.
pub type RecordBytes = [u8; RECORD_BYTES];

/// How much room is reserved on the disk ahead of the records, in bytes, so that a full disk does not lose a verdict.
const RESERVE: u64 = 64 * 1024;

/// How it came to the end of a process of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// It ended by itself, or a limit ended it.
    Exited,
    /// It was asked to be stopped while it ran: this is the kill receipt.
    Killed,
}

/// Which limit ended a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Its active time was over.
    Timeout,
    /// It gave no sign of life.
    Stall,
}

/// What became of the output, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogTally {
    /// What was written, the cut part included.
    #[serde(rename = "log_bytes")]
    pub bytes: u64,
    /// What is no longer there, between head and tail.
    #[serde(rename = "log_cut", default, skip_serializing_if = "is_zero")]
    pub cut: u64,
    /// What could not be written at all, for example because the disk was full.
    #[serde(rename = "log_dropped", default, skip_serializing_if = "is_zero")]
    pub dropped: u64,
}

/// The end of one process of an attempt: exit record and kill receipt in one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The attempt.
    pub attempt: AttemptId,
    /// The process of it.
    pub stage: Stage,
    /// By itself (or by a limit), or stopped.
    pub how: How,
    /// How the process itself ended; absent when it could not be ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
    /// The limit that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// How long that limit is, in milliseconds; absent in records from before it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ms: Option<u64>,
    /// When everything was over, in milliseconds since 1970.
    pub at_ms: i64,
    /// How long the process itself ran, gaps in the supervisor's own ticks not counted, in milliseconds.
    pub active_ms: u64,
    /// When SIGTERM was sent, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub term_at_ms: Option<i64>,
    /// When SIGKILL was first sent, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kill_at_ms: Option<i64>,
    /// How many processes were left behind when it ended by itself, kept ones included.
    #[serde(default, skip_serializing_if = "is_zero_u32")]
    pub left_behind: u32,
    /// Whether it is verified that nothing is left, but for what was deliberately left alone.
    pub clean: bool,
    /// Whether this is only the first part: the process has ended, what it left behind is still being stopped.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unfinished: bool,
    /// Whether the supervisor takes no further job.
    #[serde(default, skip_serializing_if = "is_false")]
    pub retires: bool,
    /// What became of the output.
    #[serde(flatten)]
    pub log: LogTally,
    /// What still runs: survivors when not clean, else what was deliberately left alone. As many as fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub survivors: Vec<Process>,
    /// How many more survivors there are than are listed.
    #[serde(default, skip_serializing_if = "is_zero_u32")]
    pub unlisted: u32,
}

impl Ended {
    /// What the record means for its attempt.
    pub const fn attempt_end(&self) -> AttemptEnd {
        match (self.how, self.clean) {
            (How::Exited, _) => AttemptEnd::Exited,
            (How::Killed, true) => AttemptEnd::Killed,
            (How::Killed, false) => AttemptEnd::Unclean,
        }
    }
}

/// One record of a supervisor's file, and one note to the conductor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Record {
    /// The lock is held and the gate is open. Only ever a note.
    Hello(Identity),
    /// The process is going to be started now. Without this record it never was.
    Started {
        /// The attempt.
        attempt: AttemptId,
        /// The process of it.
        stage: Stage,
        /// When, in milliseconds since 1970.
        at_ms: i64,
    },
    /// The process has ended.
    Ended(Ended),
    /// The process could not be started.
    SpawnFailed {
        /// The attempt.
        attempt: AttemptId,
        /// The process of it.
        stage: Stage,
        /// When, in milliseconds since 1970.
        at_ms: i64,
        /// What was tried and what the system said; cut to fit.
        error: String,
        /// Whether the system was short of something at that moment, which is not the task's doing.
        #[serde(default, skip_serializing_if = "is_false")]
        passing: bool,
    },
}

impl Record {
    /// Attempt and stage that it is about.
    pub const fn subject(&self) -> Option<(AttemptId, Stage)> {
        match self {
            Self::Hello(_) => None,
            Self::Started { attempt, stage, .. } | Self::SpawnFailed { attempt, stage, .. } => {
                Some((*attempt, *stage))
            }
            Self::Ended(ended) => Some((ended.attempt, ended.stage)),
        }
    }

    /// The record as it stands in the file. Lists and texts that are too long are cut.
    pub fn to_bytes(&self) -> RecordBytes {
        if let Some(bytes) = self.as_it_is() {
            return bytes;
        }
        let mut record = self.clone();
        loop {
            match &mut record {
                Self::Ended(ended) if !ended.survivors.is_empty() => {
                    ended.survivors.pop();
                    ended.unlisted += 1;
                }
                Self::SpawnFailed { error, .. } if !error.is_empty() => {
                    let keep = error.floor_char_boundary(error.len() * 3 / 4);
                    error.truncate(keep);
                }
                _ => unreachable!("ids, numbers and flags fit into {RECORD_BYTES} bytes"),
            }
            if let Some(bytes) = record.as_it_is() {
                return bytes;
            }
        }
    }

    /// Its bytes, if it fits as it is.
    fn as_it_is(&self) -> Option<RecordBytes> {
        let mut bytes = [b' '; RECORD_BYTES];
        bytes[RECORD_BYTES - 1] = b'\n';
        // Whatever is representable in JSON at all is written whole unless there is no room.
        serde_json::to_writer(&mut bytes[..RECORD_BYTES - 1], self).ok()?;
        Some(bytes)
    }

    /// Reads one record.
    ///
    /// # Errors
    ///
    /// It is none, or one of a newer `cf`.
    pub fn from_bytes(bytes: &[u8]) -> io::Result<Self> {
        Ok(serde_json::from_slice(bytes)?)
    }
}

/// The file of a supervisor: `<dir>/<id>.sup`.
pub fn record_path(dir: &Path, supervisor: SupervisorId) -> PathBuf {
    dir.join(format!("{supervisor}.sup"))
}

/// Reads every whole record of a supervisor's file; a file that is not there has none.
///
/// What cannot be read (a torn end, a record of another version) is left out.
///
/// # Errors
///
/// The file is there and cannot be read.
pub fn read_records(path: &Path) -> io::Result<Vec<Record>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let mut file = match inside::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes
        .chunks_exact(RECORD_BYTES)
        .filter_map(|chunk| Record::from_bytes(chunk).ok())
        .collect())
}

/// Who the supervisor is whose file this is, as it said itself in its first record.
pub(crate) fn hello_in(path: &Path) -> Option<Identity> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let mut file = File::from(inside::open(path, flags, Mode::empty()).ok()?);
    let mut bytes = [0; RECORD_BYTES];
    file.read_exact(&mut bytes).ok()?;
    match Record::from_bytes(&bytes) {
        Ok(Record::Hello(identity)) => Some(identity),
        _ => None,
    }
}

/// The own file of a living supervisor, locked for as long as it is open.
#[derive(Debug)]
pub struct RecordFile {
    file: File,
    length: u64,
    reserved: u64,
}

impl RecordFile {
    /// Makes the file (or takes an existing one), for its owner only, and locks it.
    ///
    /// # Errors
    ///
    /// It cannot be made, is a symbolic link, or somebody else holds the lock.
    pub fn create(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK;
        // Whoever asks whether the lock is held takes it for a moment, so one refusal is not the answer; and who
        // removes files that nobody holds may have had this one between its making and its lock.
        let mut tries = 0;
        let file = loop {
            let file = inside::open(path, flags, Mode::RUSR | Mode::WUSR)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if stat(path).is_ok_and(|now| is_same_file(&now, &file)) => break file,
                Ok(()) | Err(rustix::io::Errno::WOULDBLOCK) if tries < 100 => tries += 1,
                Ok(()) => return Err(io::Error::other("it is removed again and again")),
                Err(error) => return Err(error.into()),
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        let length = u64::try_from(fstat(&file)?.st_size).unwrap_or(0);
        // A torn end of an earlier life would put every later record out of step.
        let whole = length - length % RECORD_BYTES as u64;
        if whole != length {
            ftruncate(&file, whole)?;
        }
        let mut records = Self {
            file: file.into(),
            length: whole,
            reserved: whole,
        };
        records.reserve();
        Ok(records)
    }

    /// Removes a supervisor's file unless its supervisor lives. Returns whether it is gone.
    ///
    /// # Errors
    ///
    /// The file is there, and cannot be opened or removed.
    pub fn remove_unless_held(path: &Path) -> io::Result<bool> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let file = match inside::open(path, flags, Mode::empty()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(error),
        };
        // Held until the file is gone, so that a supervisor that is just starting notices.
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(false);
        }
        // Another may have removed it since it was opened, and a supervisor made its own.
        match stat(path) {
            Ok(now) if is_same_file(&now, &file) => std::fs::remove_file(path).map(|()| true),
            Ok(_) => Ok(false),
            Err(rustix::io::Errno::NOENT) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Reserves room for the next records where the file system can; elsewhere it goes without.
    fn reserve(&mut self) {
        if self.length + 4 * RECORD_BYTES as u64 > self.reserved {
            let _ = fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.length, RESERVE);
            self.reserved = self.length + RESERVE;
        }
    }

    /// Appends a record with one write.
    ///
    /// # Errors
    ///
    /// It could not be written whole; then nothing of it stays.
    pub fn append(&mut self, bytes: &RecordBytes) -> io::Result<()> {
        let written = rustix::io::retry_on_intr(|| rustix::io::write(&self.file, bytes))?;
        if written != bytes.len() {
            ftruncate(&self.file, self.length)?;
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.length += written as u64;
        self.reserve();
        Ok(())
    }
}

/// Whether what stands under a name now is the file that is open.
fn is_same_file(now: &Stat, file: impl std::os::fd::AsFd) -> bool {
    fstat(file).is_ok_and(|own| (own.st_dev, own.st_ino) == (now.st_dev, now.st_ino))
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_zero_u32(number: &u32) -> bool {
    *number == 0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_removed_only_when_its_supervisor_is_dead() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.sup");
        assert!(RecordFile::remove_unless_held(&path).unwrap());
        let held = RecordFile::create(&path).unwrap();
        assert!(!RecordFile::remove_unless_held(&path).unwrap());
        assert!(path.exists());
        drop(held);
        assert!(RecordFile::remove_unless_held(&path).unwrap());
        assert!(!path.exists());
    }

    fn ended(survivors: usize) -> Ended {
        Ended {
            attempt: AttemptId(uuid::Uuid::max()),
            stage: Stage::Verify,
            how: How::Killed,
            ending: Some(Ending::Signal(15)),
            limit: Some(Limit::Timeout),
            // 366 days, the longest limit that can be given.
            limit_ms: Some(366 * 24 * 3_600_000),
            at_ms: i64::MAX,
            active_ms: u64::MAX,
            term_at_ms: Some(i64::MAX),
            kill_at_ms: Some(i64::MAX),
            left_behind: u32::MAX,
            clean: false,
            unfinished: true,
            retires: true,
            log: LogTally {
                bytes: u64::MAX >> 20,
                cut: u64::MAX >> 20,
                dropped: u64::MAX >> 20,
            },
            survivors: vec![
                Process::from((i32::MAX, u64::MAX, "fifteen letters".into()));
                survivors
            ],
            unlisted: 0,
        }
    }

    #[test]
    fn the_longest_record_fits_and_says_what_it_leaves_out() {
        let Record::Ended(read) =
            Record::from_bytes(&Record::Ended(ended(1000)).to_bytes()).unwrap()
        else {
            panic!("another kind");
        };
        assert_eq!(read.survivors.len() as u32 + read.unlisted, 1000);
        let plain = Record::Ended(ended(0));
        assert_eq!(Record::from_bytes(&plain.to_bytes()).unwrap(), plain);
    }

    #[test]
    fn a_long_error_is_cut() {
        let record = Record::SpawnFailed {
            attempt: AttemptId(uuid::Uuid::max()),
            stage: Stage::Agent,
            at_ms: 0,
            error: "\u{1}ä".repeat(1000),
            passing: true,
        };
        let Record::SpawnFailed { error, .. } = Record::from_bytes(&record.to_bytes()).unwrap()
        else {
            panic!("another kind");
        };
        assert!(!error.is_empty());
    }

    #[test]
    fn a_torn_end_is_left_out_and_the_next_life_begins_in_step() {
        let dir = tempfile::tempdir().unwrap();
        let path = record_path(dir.path(), SupervisorId(uuid::Uuid::nil()));
        assert_eq!(read_records(&path).unwrap(), []);
        let record = Record::Ended(ended(1));
        let mut file = RecordFile::create(&path).unwrap();
        file.append(&record.to_bytes()).unwrap();
        assert!(crate::process::lock_held(&path));
        drop(file);
        assert!(!crate::process::lock_held(&path));
        let mut bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len(), RECORD_BYTES);
        bytes.extend_from_slice(&bytes.clone()[..100]);
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(read_records(&path).unwrap().len(), 1);
        let mut file = RecordFile::create(&path).unwrap();
        file.append(&record.to_bytes()).unwrap();
        assert_eq!(read_records(&path).unwrap(), [record.clone(), record]);
    }

    #[test]
    fn a_symbolic_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link.sup");
        std::os::unix::fs::symlink(dir.path().join("victim"), &link).unwrap();
        assert!(RecordFile::create(&link).is_err());
        assert!(read_records(&link).is_err());
        assert!(!dir.path().join("victim").exists());
    }
}
