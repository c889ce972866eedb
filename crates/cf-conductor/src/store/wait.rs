//! Waiting for whoever has locked the database, and telling that, once it takes long, of whoever sits before it.
//!
//! Nobody is told unless [`tell_a_long_wait`] was called, and nothing but the telling depends on that.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};
use std::{fmt, fs};

use rusqlite::Connection;

use crate::process::{own_pid, stat};

/// How long a wait may be before it is told.
const SILENT: Duration = Duration::from_secs(1);

/// The pauses between two tries, in milliseconds, as SQLite's own busy timeout makes them; the last one is repeated.
const PAUSES: [u64; 12] = [1, 2, 5, 10, 15, 20, 25, 25, 25, 50, 50, 100];

/// The byte of `state.db-shm` that a writer locks (`WAL_WRITE_LOCK` at `UNIX_SHM_BASE`).
const WRITE_LOCK: u64 = 120;

/// A wait for the lock of the database that has become long.
#[derive(Clone, Debug)]
pub struct Wait {
    /// Who holds the lock, if the system says so.
    pub holder: Option<Holder>,
    /// How long the wait is at most, from its beginning.
    pub patience: Duration,
}

/// A process that has the database locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its number.
    pub pid: i32,
    /// Its command name, in printable ASCII.
    pub name: String,
    /// Whether somebody stopped it (SIGSTOP), so that it gives nothing back.
    pub is_stopped: bool,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({})", self.pid, self.name)
    }
}

type Listener = Box<dyn FnOnce(&Wait) + Send>;

/// Who is told of a long wait, until there was one.
static LISTENER: Mutex<Option<Listener>> = Mutex::new(None);

/// Who had the database locked when this process last waited for that in vain.
static HELD_UP_BY: Mutex<Option<Holder>> = Mutex::new(None);

/// Who had the database locked when this process last waited for that in vain, if the system said so.
pub fn held_up_by() -> Option<Holder> {
    HELD_UP_BY.lock().ok()?.clone()
}

/// Has `told` called in the middle of the first wait of this process that takes longer than a second.
pub fn tell_a_long_wait(told: impl FnOnce(&Wait) + Send + 'static) {
    if let Ok(mut listener) = LISTENER.lock() {
        *listener = Some(Box::new(told));
    }
}

/// Has a connection wait for others for this long before it gives up. Replaces what was said before.
pub(super) fn be_patient(
    conn: &mut Connection,
    database: &Path,
    patience: Duration,
) -> rusqlite::Result<()> {
    let database = database.to_owned();
    let mut begun = Instant::now();
    conn.busy_handler(Some(move |tries: i32| {
        if tries == 0 {
            begun = Instant::now();
        }
        let waited = begun.elapsed();
        let left = patience.saturating_sub(waited);
        if left.is_zero() {
            if let Ok(mut held_up_by) = HELD_UP_BY.lock() {
                *held_up_by = holder(&database);
            }
            return false;
        }
        if waited >= SILENT {
            tell(&database, patience);
        }
        let pause = usize::try_from(tries).ok().and_then(|at| PAUSES.get(at));
        let pause = Duration::from_millis(*pause.unwrap_or(&PAUSES[PAUSES.len() - 1]));
        thread::sleep(pause.min(left));
        true
    }))
}

fn tell(database: &Path, patience: Duration) {
    let listener = LISTENER.lock().ok().and_then(|mut told| told.take());
    if let Some(told) = listener {
        told(&Wait {
            holder: holder(database),
            patience,
        });
    }
}

/// Who has the database locked against writers, if the system says so.
///
/// The list of all locks is read because asking for a lock of the file itself would need a descriptor of it, and
/// closing that gives up every lock that this process has there.
fn holder(database: &Path) -> Option<Holder> {
    let mut log_index = database.as_os_str().to_owned();
    log_index.push("-shm");
    let list = fs::read_to_string("/proc/locks").ok()?;
    let files = [
        (PathBuf::from(log_index), Some(WRITE_LOCK)),
        (database.to_owned(), None),
    ];
    let pid = files.iter().find_map(|(path, byte)| {
        let meta = fs::metadata(path).ok()?;
        let dev = meta.dev();
        let file = format!(
            "{:02x}:{:02x}:{}",
            rustix::fs::major(dev),
            rustix::fs::minor(dev),
            meta.ino()
        );
        writers(&list, &file, *byte).find(|pid| *pid != own_pid())
    })?;
    let stat = stat(pid).ok()?;
    Some(Holder {
        pid,
        is_stopped: stat.state == b'T',
        name: stat.name,
    })
}

/// The processes that hold a write lock of a file, of this byte or of any, in the words of `/proc/locks`
/// (proc_locks(5)). One that is not in this pid namespace has no number there.
fn writers<'l>(list: &'l str, file: &'l str, byte: Option<u64>) -> impl Iterator<Item = i32> + 'l {
    list.lines().filter_map(move |line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        // Whoever waits for a lock has an arrow before its kind, and one field more.
        let [_, "POSIX", _, "WRITE", pid, of, from, to] = fields.as_slice() else {
            return None;
        };
        let is_in = |byte: u64| {
            from.parse().is_ok_and(|from: u64| from <= byte)
                && (*to == "EOF" || to.parse().is_ok_and(|to: u64| byte <= to))
        };
        let is_meant = *of == file && byte.is_none_or(is_in);
        pid.parse().ok().filter(|pid| is_meant && *pid > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    const LIST: &str = "\
1: FLOCK  ADVISORY  WRITE 11 fe:00:77 0 EOF
2: POSIX  ADVISORY  READ  12 fe:00:77 123 123
3: POSIX  ADVISORY  WRITE 13 fe:00:77 124 127
4: POSIX  ADVISORY  WRITE 0 fe:00:77 120 120
5: POSIX  ADVISORY  WRITE 14 fe:00:77 120 120
5: -> POSIX  ADVISORY  WRITE 15 fe:00:77 120 120
6: OFDLCK ADVISORY  WRITE -1 fe:00:77 120 120
7: POSIX  ADVISORY  WRITE 16 fe:00:78 0 EOF
8: POSIX  ADVISORY  WRITE 17 fe:01:77 120 120
";

    #[test_case("fe:00:77", Some(120) => vec![14]; "the byte of writers")]
    #[test_case("fe:00:77", Some(125) => vec![13]; "a byte within a range")]
    #[test_case("fe:00:77", None => vec![13, 14]; "any byte")]
    #[test_case("fe:00:78", Some(120) => vec![16]; "a whole file")]
    #[test_case("fe:00:7", None => Vec::<i32>::new(); "another file")]
    fn those_are_found_that_hold_a_lock(file: &str, byte: Option<u64>) -> Vec<i32> {
        writers(LIST, file, byte).collect()
    }

    #[test]
    fn a_wait_ends_with_its_patience_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        let holder = Connection::open(&path).unwrap();
        holder
            .execute_batch("PRAGMA journal_mode = WAL; BEGIN IMMEDIATE")
            .unwrap();
        let patience = Duration::from_millis(300);
        let mut conn = Connection::open(&path).unwrap();
        be_patient(&mut conn, &path, patience).unwrap();
        for _ in 0..2 {
            let begun = Instant::now();
            let refused = conn.execute_batch("BEGIN IMMEDIATE").unwrap_err();
            assert_eq!(
                refused.sqlite_error_code(),
                Some(rusqlite::ErrorCode::DatabaseBusy)
            );
            // A wait counts from its own beginning.
            assert!(begun.elapsed() >= patience, "{:?}", begun.elapsed());
        }
        holder.execute_batch("COMMIT").unwrap();
        conn.execute_batch("BEGIN IMMEDIATE; COMMIT").unwrap();
    }
}
