//! The one SQLite file of a workspace: every noun of `cf` as rows, and an append-only log of what happened to them.
//!
//! Rules that hold throughout: a write is one short `IMMEDIATE` transaction; a status write is a compare-and-swap on
//! the task's version and appends its event in the same transaction; rows changed = 0 is an answer that the caller
//! handles; nothing slow (a process, a file, the network) happens inside a transaction. Whoever commits pokes the wake
//! file afterwards, so that a live conductor looks at once.

pub mod attempt;
pub mod batch;
pub mod blocker;
pub mod details;
pub(crate) mod edges;
pub mod event;
pub mod follow;
pub mod history;
pub mod ids;
pub mod link;
pub mod look;
mod migrate;
#[cfg(test)]
mod plans;
pub mod prune;
pub mod read_cli;
pub mod rows;
mod sql;
pub mod stop;
pub mod task;
#[cfg(test)]
mod tests;
pub mod total;
mod typed;
pub mod wait;
pub mod worktree;

use std::path::{Path, PathBuf};
use std::time::Duration;

use cf_core::{Actor, Timestamp};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use rustix::fs::{Mode, OFlags};

use crate::wake::WakeFile;
use crate::workspace::{Workspace, inside};
use event::Event;

/// How long a writer waits for other writers before it gives up. Thirty processes that write at once, with a flush of
/// a slow disk each, are through in a few seconds; a minute is patience, not a plan.
const PATIENCE: Duration = Duration::from_mins(1);

/// How long the conductor waits for other writers before it looks after its agents again and retries.
const CONDUCTOR_PATIENCE: Duration = Duration::from_millis(500);

/// How much of the database a process that only reads may keep in memory, in KiB.
const READERS_CACHE_KIB: i64 = 16 * 1024;

/// The same where every page is read once, in KiB: with 16 MiB a list of 100,000 tasks touched 4,000 pages of memory
/// for the first time, which took a fifth of its time.
const SCANS_CACHE_KIB: i64 = 512;

/// What can go wrong with the store, or with what was asked of it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database file cannot be opened.
    #[error("cannot open the workspace database at {path}")]
    Open {
        /// Where it is.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// The database may be read, and not written.
    #[error("the workspace database at {path} cannot be written")]
    ReadOnly {
        /// Where it is.
        path: PathBuf,
    },
    /// A symbolic link has the place of a file of the database.
    #[error("{path} is a symbolic link, and the workspace database is not opened through one")]
    Linked {
        /// The file.
        path: PathBuf,
    },
    /// There is no database file.
    #[error("there is no workspace database at {path}")]
    Missing {
        /// Where it should be.
        path: PathBuf,
    },
    /// The file belongs to another program.
    #[error("{path} is not a cf database")]
    Foreign {
        /// Where it is.
        path: PathBuf,
    },
    /// The file was written by a newer `cf`.
    #[error(
        "the workspace database at {path} was made by a newer cf (version {found}; this one knows up to {known})"
    )]
    Newer {
        /// Where it is.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// An older database, and a batch that is running on it.
    #[error(
        "the workspace database at {path} needs a migration, and batch {batch} is running on it"
    )]
    MigrationUnderLiveBatch {
        /// Where it is.
        path: PathBuf,
        /// The batch whose lock is held.
        batch: String,
    },
    /// A migration failed; the database is as it was.
    #[error("cannot migrate the workspace database at {path}")]
    Migrate {
        /// Where it is.
        path: PathBuf,
        /// What failed.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// SQLite refused a statement.
    #[error("cannot {what} in the workspace database")]
    Sql {
        /// What was tried.
        what: &'static str,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// Nothing answers to the name that was given.
    #[error("there is no {what} {given:?}")]
    Unknown {
        /// `task`, `batch`, `blocker`, `attempt`.
        what: &'static str,
        /// The text that was given, cut to 80 characters.
        given: String,
        /// Some that look like it.
        similar: Vec<String>,
    },
    /// More than one thing answers to the name.
    #[error("{given:?} may mean {count} {what}s: {}{}", candidates.join(", "), if candidates.len() < *count { ", …" } else { "" })]
    Ambiguous {
        /// `task`, `batch`, `blocker`, `attempt`.
        what: &'static str,
        /// The text that was given.
        given: String,
        /// How many it may mean.
        count: usize,
        /// The first of them, at most ten.
        candidates: Vec<String>,
    },
    /// The status machine refuses.
    #[error("cannot set the status of task {task}")]
    Transition {
        /// The task's label.
        task: String,
        /// Which statuses are allowed.
        source: cf_core::TransitionError,
    },
    /// The thing asked for contradicts what is stored; the text says how.
    #[error("{what}")]
    Refused {
        /// What was refused and why.
        what: String,
        /// What to do instead.
        hint: Option<String>,
    },
    /// The caller is an agent, and agents may not do this.
    #[error("an agent may not {deed}")]
    NotForAgents {
        /// What was tried.
        deed: String,
    },
    /// The caller is an attempt that is over, or not its task's current one. What it said is kept as stale.
    #[error(
        "attempt {attempt} is not the current one of its task; what it reported is kept as stale"
    )]
    StaleAttempt {
        /// The attempt.
        attempt: cf_core::AttemptId,
    },
    /// A dependency that cannot be met.
    #[error("task {0} depends on itself")]
    DependsOnItself(cf_core::TaskLabel),
    /// Dependencies that cannot be met, in words.
    #[error("{0}")]
    Cycle(String),
    /// A file beside the database.
    #[error("cannot {what} {path}")]
    File {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// What to do about a [`StoreError::Linked`].
pub const LINK_HINT: &str = "put the file itself in its place if it is yours, else remove the link; \
                             an agent may have made it, and nothing is read or written through it";

impl StoreError {
    /// Whether somebody else is writing at this moment, or keeps the database to itself so that it cannot be opened.
    pub fn is_busy(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};
        let (Self::Sql {
            source: rusqlite::Error::SqliteFailure(error, _),
            ..
        }
        | Self::Open {
            source: rusqlite::Error::SqliteFailure(error, _),
            ..
        }) = self
        else {
            return false;
        };
        matches!(error.code, DatabaseBusy | DatabaseLocked)
    }

    /// Whether trying again later can help: the database is locked, the disk is full, a read failed for a moment.
    pub fn is_transient(&self) -> bool {
        let Self::Sql {
            source: rusqlite::Error::SqliteFailure(error, _),
            ..
        } = self
        else {
            return false;
        };
        matches!(
            error.code,
            rusqlite::ErrorCode::DatabaseBusy
                | rusqlite::ErrorCode::DatabaseLocked
                | rusqlite::ErrorCode::DiskFull
                | rusqlite::ErrorCode::SystemIoFailure
                | rusqlite::ErrorCode::CannotOpen
        )
    }

    /// Whether a file would have become larger than this process may write (`ulimit -f`). It is transient for others
    /// alone: no later try of this process can do better.
    ///
    /// SQLite does not tell `EFBIG` from other failures of a write, so it counts where a file of the workspace has come
    /// near the limit.
    pub fn is_file_limit(&self, database: &Path) -> bool {
        let Self::Sql {
            source: rusqlite::Error::SqliteFailure(error, _),
            ..
        } = self
        else {
            return false;
        };
        let of_a_write = [
            rusqlite::ffi::SQLITE_IOERR_WRITE,
            rusqlite::ffi::SQLITE_IOERR_TRUNCATE,
            rusqlite::ffi::SQLITE_IOERR_SHMSIZE,
        ];
        of_a_write.contains(&error.extended_code)
            && crate::process::most_bytes_of_a_file()
                .is_some_and(|most| database_files(database).any(|size| size + NEAR >= most))
    }
}

/// How near to the limit on files' sizes a write of a transaction may have crossed it: the pages that a turn of a
/// large batch writes are far fewer.
const NEAR: u64 = 1 << 20;

/// The sizes of the database's own files.
fn database_files(database: &Path) -> impl Iterator<Item = u64> {
    ["", "-wal", "-shm"]
        .into_iter()
        .filter_map(|end| Some(std::fs::metadata(beside(database, end)).ok()?.len()))
}

/// The database's path with something at its end.
fn beside(database: &Path, end: &str) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(end);
    path.into()
}

/// A result of the store.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Names what was tried when SQLite refuses.
pub(crate) trait Doing<T> {
    /// Wraps the error with what was tried.
    fn doing(self, what: &'static str) -> Result<T>;
}

impl<T> Doing<T> for rusqlite::Result<T> {
    fn doing(self, what: &'static str) -> Result<T> {
        self.map_err(|source| StoreError::Sql { what, source })
    }
}

/// Whether a commit must survive a power cut, or only the death of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Flushed before the commit returns. For everything that a claim or a result rests on.
    Full,
    /// In the hands of the kernel when the commit returns: survives `kill -9`, may be lost with the power.
    Normal,
}

/// How a database is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The version of its schema.
    pub version: i64,
    /// What SQLite finds damaged, the first five lines; empty when it is sound.
    pub damage: Vec<String>,
}

/// An open workspace database.
pub struct Store {
    conn: Connection,
    path: PathBuf,
    wake: Option<WakeFile>,
    durability: Durability,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the workspace's database for reading and writing, migrating it when it is older.
    ///
    /// # Errors
    ///
    /// Missing, foreign, newer, or unreadable; the file is untouched then.
    pub fn open(workspace: &Workspace) -> Result<Self> {
        let path = workspace.database();
        let conn = open_file(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        refuse_read_only(&conn, &path)?;
        let conn = migrate::up_to_date(conn, workspace)?;
        let wake = WakeFile::if_possible(&workspace.wake_file());
        let mut store = Self {
            conn,
            path,
            wake,
            durability: Durability::Full,
        };
        store.prepare(PATIENCE)?;
        Ok(store)
    }

    /// Opens the database for reading only. Works in a workspace that cannot be written.
    ///
    /// # Errors
    ///
    /// Missing, foreign, newer, or unreadable. An older database is read as it is only by a program that migrated it,
    /// so it is migrated first when it can be written.
    pub fn open_to_read(workspace: &Workspace) -> Result<Self> {
        let path = workspace.database();
        match open_file(&path, OpenFlags::SQLITE_OPEN_READ_WRITE) {
            // What SQLite opened without the right to write it.
            Ok(conn) if conn.is_readonly("main").unwrap_or(false) => Self::open_unwritable(path),
            Ok(conn) => {
                let conn = match migrate::up_to_date(conn, workspace) {
                    Ok(conn) => conn,
                    // Without room for its index a log that holds nothing cannot be opened, and needs not.
                    // One that somebody keeps locked must not be read without locks.
                    Err(error @ StoreError::Open { .. }) if !error.is_busy() => {
                        return Self::open_unwritable(path).map_err(|_| error);
                    }
                    Err(error) => return Err(error),
                };
                let mut store = Self {
                    conn,
                    path,
                    wake: None,
                    durability: Durability::Full,
                };
                wait::be_patient(&mut store.conn, &store.path, PATIENCE)
                    .doing("set the busy timeout")?;
                // The rows of a large batch's tasks lie all over the database: with the usual two mebibytes most of
                // its pages would be read several times. Only what is read is taken.
                store
                    .conn
                    .pragma_update(None, "cache_size", -READERS_CACHE_KIB)
                    .doing("set the size of the cache")?;
                store.conn.set_prepared_statement_cache_capacity(64);
                Ok(store)
            }
            Err(error @ (StoreError::Missing { .. } | StoreError::Linked { .. })) => Err(error),
            Err(_) => Self::open_unwritable(path),
        }
    }

    /// A database on a file system, or in a folder, that refuses writing: read without locks when no writer can have
    /// left anything in a write-ahead log.
    fn open_unwritable(path: PathBuf) -> Result<Self> {
        let plain = open_file(&path, OpenFlags::SQLITE_OPEN_READ_ONLY);
        let usable = plain.and_then(|conn| match migrate::version(&conn, &path) {
            Ok(_) => Ok(conn),
            Err(error) => Err(error),
        });
        let mut conn = match usable {
            Ok(conn) => conn,
            Err(error) => {
                let wal = beside(&path, "-wal");
                if std::fs::symlink_metadata(&wal).is_ok_and(|meta| meta.len() > 0) {
                    return Err(error);
                }
                let uri = format!("file:{}?immutable=1", uri_escape(&straight(&path)));
                Connection::open_with_flags(
                    &uri,
                    OpenFlags::SQLITE_OPEN_READ_ONLY
                        | OpenFlags::SQLITE_OPEN_URI
                        | OpenFlags::SQLITE_OPEN_NO_MUTEX
                        | OpenFlags::SQLITE_OPEN_NOFOLLOW,
                )
                .map_err(|source| StoreError::Open {
                    path: path.clone(),
                    source,
                })?
            }
        };
        let found = migrate::version(&conn, &path)?;
        migrate::refuse_other(&found, &path)?;
        wait::be_patient(&mut conn, &path, PATIENCE).doing("set the busy timeout")?;
        Ok(Self {
            conn,
            path,
            wake: None,
            durability: Durability::Full,
        })
    }

    /// Creates the database of a new workspace, and returns whether this call made it. Of several processes that do it
    /// at once one is told so, and all find it made.
    ///
    /// # Errors
    ///
    /// The file cannot be created or is something else.
    pub fn create(workspace: &Workspace) -> Result<(Self, bool)> {
        let path = workspace.database();
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let fresh = !path.exists();
        // SQLite gives its other files the mode of this one, and would give this one whatever the umask leaves.
        make_private(&path)?;
        let conn = migrate::up_to_date(open_file(&path, flags)?, workspace)?;
        let wake = WakeFile::if_possible(&workspace.wake_file());
        let mut store = Self {
            conn,
            path,
            wake,
            durability: Durability::Full,
        };
        store.prepare(PATIENCE)?;
        let mut made = false;
        if fresh {
            made = store.write(&Actor::Cli, |tx| {
                let known: i64 = tx
                    .conn
                    .query_row("SELECT count(*) FROM event", [], |row| row.get(0))
                    .doing("count")?;
                if known == 0 {
                    tx.append(Event::new(cf_core::EventType::WorkspaceCreated))?;
                }
                Ok(known == 0)
            })?;
        }
        Ok((store, made))
    }

    /// A database in memory, with the newest schema. For tests.
    ///
    /// # Errors
    ///
    /// SQLite refuses, which it does only without memory.
    pub fn in_memory() -> Result<Self> {
        let path = PathBuf::from(":memory:");
        let mut conn = Connection::open_in_memory().map_err(|source| StoreError::Open {
            path: path.clone(),
            source,
        })?;
        migrate::run(&mut conn, &path)?;
        let mut store = Self {
            conn,
            path,
            wake: None,
            durability: Durability::Normal,
        };
        store.prepare(PATIENCE)?;
        Ok(store)
    }

    fn prepare(&mut self, patience: Duration) -> Result<()> {
        wait::be_patient(&mut self.conn, &self.path, patience).doing("set the busy timeout")?;
        self.conn
            .pragma_update(None, "foreign_keys", true)
            .doing("switch foreign keys on")?;
        self.conn
            .pragma_update(None, "synchronous", "FULL")
            .doing("set the durability")?;
        // Plans that depend on the values bound to them would be made again at every second use.
        self.conn
            .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
            .doing("keep the plans of statements")?;
        self.conn.set_prepared_statement_cache_capacity(128);
        Ok(())
    }

    /// Looks through the whole database for damage, without looking into indexes (`PRAGMA quick_check`).
    ///
    /// # Errors
    ///
    /// SQLite refuses even to look.
    pub fn health(&self) -> Result<Health> {
        let what = "check the database";
        let version = self
            .conn
            .query_row("PRAGMA user_version", [], |row| row.get(0))
            .doing(what)?;
        let mut statement = self.conn.prepare("PRAGMA quick_check(5)").doing(what)?;
        let told = statement.query_map([], |row| row.get(0)).doing(what)?;
        let mut damage: Vec<String> = told.collect::<rusqlite::Result<_>>().doing(what)?;
        damage.retain(|line| line != "ok");
        Ok(Health { version, damage })
    }

    /// Where the database file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes this store the conductor's: it gives up on other writers quickly, because it has agents to look after.
    pub(crate) fn be_the_conductors(&mut self) -> Result<()> {
        wait::be_patient(&mut self.conn, &self.path, CONDUCTOR_PATIENCE)
            .doing("set the busy timeout")
    }

    /// Whether another connection has committed since the last call. Costs about two microseconds and reads nothing.
    ///
    /// Own commits do not count: `data_version` is asked on the connection that makes them.
    ///
    /// # Errors
    ///
    /// The database cannot be read.
    pub fn data_version(&self) -> Result<i64> {
        let mut statement = self
            .conn
            .prepare_cached("PRAGMA data_version")
            .doing("ask for changes")?;
        statement
            .query_row([], |row| row.get(0))
            .doing("ask for changes")
    }

    /// Whether anything is stored around a task: dependencies, blockers, comments. One statement sees one state of the
    /// database, so this needs no transaction.
    pub(crate) fn has_background(&self, task: cf_core::TaskId) -> Result<bool> {
        self.conn
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM dependency WHERE task = ?1) OR EXISTS (SELECT 1 FROM blocker WHERE task = ?1) \
                 OR EXISTS (SELECT 1 FROM comment WHERE task = ?1)",
            )
            .and_then(|mut s| s.query_row([task.to_string()], |row| row.get(0)))
            .doing("look what is known around a task")
    }

    /// Runs `work` as one `IMMEDIATE` transaction by `actor`, commits it so that it survives a power cut, and pokes the
    /// wake file. Returns what `work` returned.
    ///
    /// # Errors
    ///
    /// What `work` or SQLite says; nothing is changed then.
    pub fn write<T>(
        &mut self,
        actor: &Actor,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T>,
    ) -> Result<T> {
        self.write_as(actor, Durability::Full, work)
            .map(|(value, _)| value)
    }

    /// The same with a chosen durability; also returns the events that were appended.
    ///
    /// # Errors
    ///
    /// What `work` or SQLite says; nothing is changed then.
    pub fn write_as<T>(
        &mut self,
        actor: &Actor,
        durability: Durability,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T>,
    ) -> Result<(T, Vec<Event>)> {
        if self.durability != durability {
            let statement = match durability {
                Durability::Full => "PRAGMA synchronous = FULL",
                Durability::Normal => "PRAGMA synchronous = NORMAL",
            };
            // SQLite acts upon these words when it prepares them, and prepares them anew each time they are run.
            self.conn
                .prepare_cached(statement)
                .and_then(|mut set| set.execute([]))
                .doing("set the durability")?;
            self.durability = durability;
        }
        let open = Open::begin(&self.conn, "BEGIN IMMEDIATE").doing("begin a transaction")?;
        let mut tx = Tx {
            conn: open.conn,
            now: now(),
            actor: actor.clone(),
            appended: Vec::new(),
        };
        let value = work(&mut tx)?;
        #[cfg(test)]
        may_be_used()?;
        let appended = std::mem::take(&mut tx.appended);
        open.end("COMMIT").doing("commit")?;
        crate::fault::committed(&appended);
        if let Some(wake) = &self.wake {
            wake.poke();
            crate::fault::point("wake.poked");
        }
        Ok((value, appended))
    }

    /// Keeps little of the database in memory from now on: for readings that go through a table in its own order and
    /// meet no page twice. Elsewhere it makes them slower.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn expect_a_scan(&self) -> Result<()> {
        self.conn
            .pragma_update(None, "cache_size", -SCANS_CACHE_KIB)
            .doing("set the size of the cache")
    }

    /// Reads with one consistent view of the whole database.
    ///
    /// # Errors
    ///
    /// What `work` or SQLite says.
    pub fn read<T>(&self, work: impl FnOnce(&Reader<'_>) -> Result<T>) -> Result<T> {
        let open = Open::begin(&self.conn, "BEGIN").doing("begin reading")?;
        #[cfg(test)]
        may_be_used()?;
        let value = work(&Reader { conn: open.conn })?;
        open.end("ROLLBACK").doing("end reading")?;
        Ok(value)
    }
}

/// A transaction that is open, and rolled back unless it is ended. Its words are prepared once like every statement,
/// which rusqlite's own does not do.
struct Open<'c> {
    conn: &'c Connection,
}

impl<'c> Open<'c> {
    fn begin(conn: &'c Connection, how: &str) -> rusqlite::Result<Self> {
        conn.prepare_cached(how)?.execute([])?;
        Ok(Self { conn })
    }

    fn end(self, how: &str) -> rusqlite::Result<()> {
        self.conn.prepare_cached(how)?.execute([]).map(drop)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if !self.conn.is_autocommit() {
            // What cannot be rolled back is when the connection is closed.
            let _ = self.conn.execute_batch("ROLLBACK");
        }
    }
}

/// A consistent view of the database. The reading functions of each noun are methods of it.
#[derive(Debug)]
pub struct Reader<'a> {
    pub(crate) conn: &'a Connection,
}

/// A transaction that writes. The writing functions of each noun are methods of it.
#[derive(Debug)]
pub struct Tx<'a> {
    pub(crate) conn: &'a Connection,
    pub(crate) now: Timestamp,
    pub(crate) actor: Actor,
    appended: Vec<Event>,
}

impl Tx<'_> {
    /// The same transaction for reading.
    pub fn reader(&self) -> Reader<'_> {
        Reader { conn: self.conn }
    }

    /// The time that everything in this transaction happens at.
    pub const fn now(&self) -> Timestamp {
        self.now
    }
}

/// The current time in whole milliseconds, which is what the store keeps.
pub fn now() -> Timestamp {
    crate::ambient::now()
}

/// Refuses where the simulation wants it, as a disk does that is full.
#[cfg(test)]
fn may_be_used() -> Result<()> {
    if !crate::ambient::simulated::is_refused() {
        return Ok(());
    }
    let code = rusqlite::ffi::Error {
        code: rusqlite::ErrorCode::DiskFull,
        extended_code: 13,
    };
    Err(rusqlite::Error::SqliteFailure(code, None)).doing("be simulated")
}

fn open_file(path: &Path, flags: OpenFlags) -> Result<Connection> {
    // SQLite refuses these too, which is what holds; what it says of them tells nobody what to do.
    for end in ["", "-wal", "-shm", "-journal"] {
        let path = beside(path, end);
        if std::fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_symlink()) {
            return Err(StoreError::Linked { path });
        }
    }
    if !flags.contains(OpenFlags::SQLITE_OPEN_CREATE) && !path.exists() {
        return Err(StoreError::Missing {
            path: path.to_owned(),
        });
    }
    // A link in its place, or in that of `.cf`, would have it written somewhere else.
    let how = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let real = straight(path);
    let open = |source| StoreError::Open {
        path: path.to_owned(),
        source,
    };
    let mut conn = Connection::open_with_flags(&real, flags | how).map_err(open)?;
    wait::be_patient(&mut conn, path, PATIENCE).map_err(open)?;
    Ok(conn)
}

/// Makes an empty file that only its owner can read, unless there is one.
pub(super) fn make_private(path: &Path) -> Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE;
    inside::open(path, flags, Mode::RUSR | Mode::WUSR)
        .map(drop)
        .map_err(|source| StoreError::File {
            what: "create",
            path: path.to_owned(),
            source,
        })
}

/// The path with the links above `.cf` followed: with `NOFOLLOW` SQLite refuses those too.
fn straight(path: &Path) -> PathBuf {
    let straight = || {
        let folder = path.parent()?;
        let root = folder.parent()?.canonicalize().ok()?;
        Some(root.join(folder.file_name()?).join(path.file_name()?))
    };
    straight().unwrap_or_else(|| path.to_owned())
}

/// SQLite opens a file that it may not write without a word, and fails at the first write.
fn refuse_read_only(conn: &Connection, path: &Path) -> Result<()> {
    if conn.is_readonly("main").unwrap_or(false) {
        return Err(StoreError::ReadOnly {
            path: path.to_owned(),
        });
    }
    Ok(())
}

fn uri_escape(path: &Path) -> String {
    use std::fmt::Write as _;
    use std::os::unix::ffi::OsStrExt as _;
    let mut escaped = String::new();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                escaped.push(char::from(*byte));
            }
            _ => write!(escaped, "%{byte:02X}").expect("writing to a string cannot fail"),
        }
    }
    escaped
}
