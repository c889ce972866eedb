//! What stands in CodeFRAME's database, read from a copy of it and not yet judged.
//!
//! SQLite cannot look into a database with a write-ahead log without making files beside it, so the files are copied
//! into the workspace's own folder first. Columns that an older CodeFRAME did not have read as null.

use std::collections::HashSet;
use std::fs::{self, DirBuilder};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};

use crate::store::{Result, StoreError};
use crate::workspace::inside;

/// How often a copy is tried while somebody writes into what is copied.
const TRIES: u32 = 5;

/// The largest `github_integration.json` that is read, in bytes; CodeFRAME writes a few hundred.
const LARGEST_JSON_BYTES: u64 = 64 * 1024;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) database: PathBuf,
    pub(super) version: i64,
    /// In the order in which CodeFRAME lists them.
    pub(super) tasks: Vec<TaskRow>,
    /// Oldest first.
    pub(super) blockers: Vec<BlockerRow>,
    /// Batches that are said to be going on.
    pub(super) running: Vec<BatchRow>,
    /// The repository that the workspace was connected to, as `owner/name`.
    pub(super) repo: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct TaskRow {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) description: String,
    pub(super) status: String,
    pub(super) priority: i64,
    pub(super) depends_on: Option<String>,
    pub(super) parent: Option<String>,
    pub(super) is_leaf: bool,
    pub(super) issue_number: Option<i64>,
    pub(super) external_url: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct BlockerRow {
    pub(super) id: String,
    pub(super) task: Option<String>,
    pub(super) question: String,
    pub(super) answer: Option<String>,
    pub(super) status: String,
    pub(super) created_at: String,
    pub(super) answered_at: Option<String>,
    pub(super) created_by: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct BatchRow {
    pub(super) id: String,
    pub(super) status: String,
    pub(super) task_ids: Option<String>,
}

/// Reads the workspace at `path`; `ours` is a private folder for the copy.
pub(super) fn read(path: &Path, ours: &Path) -> Result<Found> {
    let database = locate(path)?;
    let copy = Copied::of(&database, ours)?;
    let refused = |source: rusqlite::Error| unreadable(&database, &source);
    let conn = copy.open().map_err(refused)?;
    let mut found = rows(&conn)
        .map_err(refused)?
        .ok_or_else(|| StoreError::Refused {
            what: format!(
                "{} is not the database of a CodeFRAME workspace",
                database.display()
            ),
            hint: Some(
                "its tables `workspace` and `tasks` are not there, or `workspace` is empty"
                    .to_owned(),
            ),
        })?;
    found.repo = database
        .parent()
        .and_then(|folder| repository(&folder.join("github_integration.json")));
    found.database = database;
    Ok(found)
}

fn unreadable(database: &Path, source: &rusqlite::Error) -> StoreError {
    StoreError::Refused {
        what: format!(
            "cannot read the CodeFRAME database {}: {source}",
            database.display()
        ),
        hint: Some("nothing was imported, and the file was not touched".to_owned()),
    }
}

/// The database file that a path means.
fn locate(path: &Path) -> Result<PathBuf> {
    let is_folder = path.is_dir();
    let database = match path.file_name() {
        _ if !is_folder && path.exists() => path.to_owned(),
        Some(name) if name == ".codeframe" => path.join("state.db"),
        _ => path.join(".codeframe/state.db"),
    };
    if database.is_file() {
        return database.canonicalize().map_err(|source| StoreError::File {
            what: "resolve",
            path: database,
            source,
        });
    }
    Err(StoreError::Refused {
        what: format!(
            "there is no CodeFRAME workspace: {} is not there",
            database.display()
        ),
        hint: Some(
            "name the folder that holds its .codeframe: `cf import codeframe PATH`".to_owned(),
        ),
    })
}

/// A copy of a database and of what its journal adds to it; gone when dropped.
struct Copied {
    folder: PathBuf,
    /// The folder, locked: whoever cleans up leaves it alone.
    _lock: OwnedFd,
}

impl Drop for Copied {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Copied {
    fn of(database: &Path, ours: &Path) -> Result<Self> {
        let folder = ours.join(format!("codeframe-{}", crate::ambient::fresh_id().simple()));
        let failed = |what, path: &Path| {
            let path = path.to_owned();
            move |source| StoreError::File { what, path, source }
        };
        DirBuilder::new()
            .mode(0o700)
            .create(&folder)
            .map_err(failed("make", &folder))?;
        let lock = inside::open(&folder, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
            .map_err(failed("open", &folder))?;
        // Where folders cannot be locked, it is young enough for most imports to be left alone.
        let _ = flock(&lock, FlockOperation::NonBlockingLockExclusive);
        let copied = Self {
            folder,
            _lock: lock,
        };
        let parts = ["", "-wal", "-journal"].map(|suffix| {
            let mut part = database.as_os_str().to_owned();
            part.push(suffix);
            PathBuf::from(part)
        });
        for _ in 0..TRIES {
            let before = stamps(&parts);
            for (part, name) in parts
                .iter()
                .zip(["state.db", "state.db-wal", "state.db-journal"])
            {
                let to = copied.folder.join(name);
                match fs::copy(part, &to) {
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        let _ = fs::remove_file(&to);
                    }
                    Err(source) => return Err(failed("copy", part)(source)),
                }
            }
            if stamps(&parts) == before {
                return Ok(copied);
            }
        }
        Err(StoreError::Refused {
            what: format!("{} is being written all the time", database.display()),
            hint: Some("stop CodeFRAME first".to_owned()),
        })
    }

    fn open(&self) -> rusqlite::Result<Connection> {
        // The copy is ours, so what its journal holds may be put into it.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(self.folder.join("state.db"), flags)?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        Ok(conn)
    }
}

/// Size and time of the last change of each file, or nothing where there is none.
fn stamps(files: &[PathBuf]) -> Vec<Option<(u64, i64, i64)>> {
    let stamp = |path: &PathBuf| {
        let meta = fs::metadata(path).ok()?;
        Some((meta.len(), meta.mtime(), meta.mtime_nsec()))
    };
    files.iter().map(stamp).collect()
}

/// Reads everything that is wanted, unless it is the database of something else.
fn rows(conn: &Connection) -> rusqlite::Result<Option<Found>> {
    let version = conn.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let columns = columns(conn, "tasks")?;
    if !columns.contains("title") || !self::columns(conn, "workspace")?.contains("id") {
        return Ok(None);
    }
    let mut statement = conn.prepare("SELECT id FROM workspace ORDER BY rowid LIMIT 1")?;
    let Some(workspace) = statement
        .query([])?
        .next()?
        .map(|row| text(row, 0))
        .transpose()?
    else {
        return Ok(None);
    };
    let tasks = list(
        conn,
        "tasks",
        &[
            "id",
            "title",
            "description",
            "status",
            "priority",
            "depends_on",
            "parent_id",
            "is_leaf",
            "github_issue_number",
            "external_url",
            "created_at",
        ],
        "ORDER BY priority, created_at, id",
        &workspace,
        |row| {
            Ok(TaskRow {
                id: text(row, 0)?,
                title: text(row, 1)?,
                description: text(row, 2)?,
                status: text(row, 3)?,
                priority: number(row, 4)?.unwrap_or(0),
                depends_on: text_opt(row, 5)?,
                parent: text_opt(row, 6)?,
                is_leaf: number(row, 7)? != Some(0),
                issue_number: number(row, 8)?,
                external_url: text_opt(row, 9)?,
            })
        },
    )?;
    let blockers = list(
        conn,
        "blockers",
        &[
            "id",
            "task_id",
            "question",
            "answer",
            "status",
            "created_at",
            "answered_at",
            "created_by",
        ],
        "ORDER BY created_at, id",
        &workspace,
        |row| {
            Ok(BlockerRow {
                id: text(row, 0)?,
                task: text_opt(row, 1)?,
                question: text(row, 2)?,
                answer: text_opt(row, 3)?,
                status: text(row, 4)?,
                created_at: text(row, 5)?,
                answered_at: text_opt(row, 6)?,
                created_by: text_opt(row, 7)?,
            })
        },
    )?;
    let running = list(
        conn,
        "batch_runs",
        &["id", "status", "task_ids", "started_at"],
        "AND status IN ('PENDING', 'RUNNING') ORDER BY started_at, id",
        &workspace,
        |row| {
            Ok(BatchRow {
                id: text(row, 0)?,
                status: text(row, 1)?,
                task_ids: text_opt(row, 2)?,
            })
        },
    )?;
    Ok(Some(Found {
        version,
        tasks,
        blockers,
        running,
        ..Found::default()
    }))
}

/// The columns of a table; none when it is not there. A view or a virtual table in its place is not it: reading one may
/// take for ever.
fn columns(conn: &Connection, table: &str) -> rusqlite::Result<HashSet<String>> {
    let mut statement = conn.prepare(
        "SELECT name FROM pragma_table_info(?1) WHERE EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' \
         AND name = ?1 COLLATE NOCASE AND sql NOT LIKE 'CREATE VIRTUAL%')",
    )?;
    let names = statement.query_map([table], |row| row.get(0))?;
    names.collect()
}

/// The rows of a workspace in one table; none when the table is not there.
fn list<T>(
    conn: &Connection,
    table: &str,
    wanted: &[&str],
    tail: &str,
    workspace: &str,
    each: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let known = columns(conn, table)?;
    if !known.contains("id") {
        return Ok(Vec::new());
    }
    let selected: Vec<String> = wanted
        .iter()
        .map(|name| {
            if known.contains(*name) {
                (*name).to_owned()
            } else {
                format!("NULL AS {name}")
            }
        })
        .collect();
    // Every row is the workspace's own in a file that does not say whose it is.
    let whose = if known.contains("workspace_id") {
        "workspace_id = ?1"
    } else {
        "?1 = ?1"
    };
    let sql = format!(
        "SELECT {} FROM {table} WHERE {whose} {tail}",
        selected.join(", ")
    );
    let mut statement = conn.prepare(&sql)?;
    statement.query_map([workspace], each)?.collect()
}

/// A text as it can be used here: what is not UTF-8 and NUL are replaced, anything but a text is nothing.
fn text_opt(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<String>> {
    Ok(match row.get_ref(at)? {
        ValueRef::Text(bytes) => Some(String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}")),
        _ => None,
    })
}

fn text(row: &Row<'_>, at: usize) -> rusqlite::Result<String> {
    Ok(text_opt(row, at)?.unwrap_or_default())
}

fn number(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<i64>> {
    Ok(match row.get_ref(at)? {
        ValueRef::Integer(number) => Some(number),
        _ => None,
    })
}

/// The repository that CodeFRAME was connected to; its file is optional and may say nothing.
fn repository(file: &Path) -> Option<String> {
    let mut text = String::new();
    let file = fs::File::open(file).ok()?;
    file.take(LARGEST_JSON_BYTES)
        .read_to_string(&mut text)
        .ok()?;
    let json: serde_json::Value = serde_json::from_str(&text).ok()?;
    let repo = json.get("repo")?.as_str()?;
    if repo.contains('/') {
        return Some(repo.to_owned());
    }
    Some(format!("{}/{repo}", json.get("owner_login")?.as_str()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_is_locked_for_as_long_as_it_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("state.db");
        fs::write(&database, "").unwrap();
        let copied = Copied::of(&database, dir.path()).unwrap();
        let folder = copied.folder.clone();
        assert!(crate::process::lock_held(&folder));
        drop(copied);
        assert!(!folder.exists());
    }
}
