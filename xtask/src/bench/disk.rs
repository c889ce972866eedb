//! What the disk below the measuring does: dispatch waits for it, and it is not the same everywhere nor always.

use std::fmt;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::problem::Problem;

/// How often each is tried.
const TRIES: usize = 31;

/// What is flushed: about what the commit of a task writes.
const BYTES: usize = 64 * 1024;

/// Above this it is the file system's memory of removed files that is measured, and not `cf`: in a fresh folder of the
/// same disk it was 20 µs, where compilers had been removing files 800.
const SLOW: Duration = Duration::from_micros(100);

/// Medians of what it takes to make a file, and to flush what was appended to one.
pub(crate) struct Disk {
    make: Duration,
    flush: Duration,
}

impl Disk {
    /// Tries it in a folder. The files that it makes stay there: who removes files makes the next ones slower.
    pub(crate) fn below(folder: &Path) -> Result<Self, Problem> {
        let folder = folder.join("disk");
        fs::create_dir_all(&folder)?;
        let make = median(|nth| File::create_new(folder.join(nth.to_string())).map(drop))?;
        let mut log = File::create_new(folder.join("log"))?;
        let bytes = vec![0x5a; BYTES];
        let flush = median(|_| {
            log.write_all(&bytes)?;
            log.sync_all()
        })?;
        Ok(Self { make, flush })
    }

    pub(crate) fn is_slow(&self) -> bool {
        self.make > SLOW
    }
}

impl fmt::Display for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let (make, flush) = (micros(self.make), micros(self.flush));
        write!(f, "a new file {make:.0} µs, a flush {flush:.0} µs")
    }
}

/// The kinds of file systems without a disk: tmpfs and ramfs (`linux/magic.h`).
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// Whether what is in a folder lies in memory alone.
pub(crate) fn is_in_memory(folder: &Path) -> Result<bool, Problem> {
    let kind = rustix::fs::statfs(folder)
        .map_err(std::io::Error::from)?
        .f_type;
    Ok(u64::try_from(kind).is_ok_and(|kind| IN_MEMORY.contains(&kind)))
}

fn median(mut what: impl FnMut(usize) -> std::io::Result<()>) -> Result<Duration, Problem> {
    let mut times = Vec::with_capacity(TRIES);
    for nth in 0..TRIES {
        let start = Instant::now();
        what(nth)?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    Ok(times[TRIES / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_takes_is_told_with_its_units() {
        let disk = Disk {
            make: Duration::from_nanos(20_400),
            flush: Duration::from_micros(315),
        };
        assert_eq!(disk.to_string(), "a new file 20 µs, a flush 315 µs");
        assert!(!disk.is_slow());
        let make = Duration::from_micros(101);
        assert!(Disk { make, ..disk }.is_slow());
    }

    #[test]
    fn memory_is_no_disk() {
        // Linux has shared memory there; what it tells of processes lies on no disk either, but is of another kind.
        assert!(is_in_memory(Path::new("/dev/shm")).unwrap());
        assert!(is_in_memory(Path::new("/dev/shm/none")).is_err());
        assert!(!is_in_memory(Path::new("/proc")).unwrap());
    }

    #[test]
    fn it_is_tried_where_it_is_asked_about() {
        let folder = std::env::temp_dir().join(format!("cf-disk-{}", std::process::id()));
        Disk::below(&folder).unwrap();
        let files = fs::read_dir(folder.join("disk")).unwrap().count();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(files, TRIES + 1);
    }
}
