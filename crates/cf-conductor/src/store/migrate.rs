//! Brings a database to the newest schema, or refuses it untouched.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::{ToSqlOutput, ValueRef};

use super::{Doing as _, Result, StoreError};
use crate::workspace::Workspace;

mod embedded {
    refinery::embed_migrations!("migrations");
}

/// The newest schema. Each migration sets `user_version` to its own number.
const KNOWN: i64 = 8;

/// `cf.f` in ASCII: says that a SQLite file is ours.
const APPLICATION_ID: i64 = 1_667_637_094;

/// What a file says about itself.
pub(super) struct Version {
    schema: i64,
    application: i64,
    empty: bool,
}

/// Reads what the file says about itself.
pub(super) fn version(conn: &Connection, path: &Path) -> Result<Version> {
    let open = |source| StoreError::Open {
        path: path.to_owned(),
        source,
    };
    // One look: what somebody who makes the database at this moment commits is seen as a whole or not at all.
    let look = conn.unchecked_transaction().map_err(open)?;
    let read = |sql: &str| look.query_row(sql, [], |row| row.get::<_, i64>(0));
    let schema = match read("PRAGMA user_version") {
        Ok(schema) => schema,
        Err(rusqlite::Error::SqliteFailure(error, _))
            if error.code == rusqlite::ErrorCode::NotADatabase =>
        {
            return Err(StoreError::Foreign {
                path: path.to_owned(),
            });
        }
        Err(source) => return Err(open(source)),
    };
    let application = read("PRAGMA application_id").map_err(open)?;
    // A database that is being made, or whose maker was killed, has at most the list of migrations in it.
    let others =
        "SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE '%refinery_schema_history%'";
    let empty = schema == 0 && read(others).map_err(open)? == 0;
    let recorded = if empty {
        schema
    } else {
        read("SELECT coalesce(max(version), 0) FROM refinery_schema_history").unwrap_or(0)
    };
    Ok(Version {
        schema: schema.max(recorded),
        application,
        empty,
    })
}

/// Refuses a file that is not ours, newer, or older (for those who cannot migrate it).
pub(super) fn refuse_other(found: &Version, path: &Path) -> Result<()> {
    check(found, path)?;
    if found.schema == KNOWN {
        return Ok(());
    }
    Err(StoreError::Migrate {
        path: path.to_owned(),
        source: format!("it has version {} and cannot be written", found.schema).into(),
    })
}

fn check(found: &Version, path: &Path) -> Result<()> {
    if found.empty {
        return Ok(());
    }
    if found.application != APPLICATION_ID {
        return Err(StoreError::Foreign {
            path: path.to_owned(),
        });
    }
    if found.schema > KNOWN {
        return Err(StoreError::Newer {
            path: path.to_owned(),
            found: found.schema,
            known: KNOWN,
        });
    }
    Ok(())
}

/// Returns the connection with the newest schema.
///
/// An older database is copied first (`state.db.v<N>`), and only while no batch runs on it. One process does it; the
/// others wait for the workspace's lock and find it done.
pub(super) fn up_to_date(mut conn: Connection, workspace: &Workspace) -> Result<Connection> {
    let path = workspace.database();
    let found = version(&conn, &path)?;
    check(&found, &path)?;
    if found.schema == KNOWN {
        return Ok(conn);
    }
    let _lock = workspace.lock_for_migration()?;
    let found = version(&conn, &path)?;
    check(&found, &path)?;
    if found.schema == KNOWN {
        return Ok(conn);
    }
    if !found.empty {
        if let Some(batch) = workspace.live_batches()?.first() {
            return Err(StoreError::MigrationUnderLiveBatch {
                path,
                batch: batch.to_string(),
            });
        }
        copy(&conn, &path.with_extension(format!("db.v{}", found.schema)))?;
        crate::fault::point("migrate.copied");
    }
    conn.pragma_update(None, "journal_mode", "WAL")
        .doing("switch to a write-ahead log")?;
    run(&mut conn, &path)?;
    crate::fault::point("migrate.migrated");
    Ok(conn)
}

/// Copies the database. What is under the copy's name is whole, whenever its making was cut short; one that was made
/// before is replaced.
fn copy(conn: &Connection, to: &Path) -> Result<()> {
    let file = |what: &'static str| {
        move |source| StoreError::File {
            what,
            path: to.to_owned(),
            source,
        }
    };
    let mut half = to.as_os_str().to_owned();
    half.push(".new");
    match std::fs::remove_file(&half) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(file("replace")(error));
        }
        _ => {}
    }
    super::make_private(Path::new(&half))?;
    // A path need not be text.
    let name = ValueRef::Text(half.as_encoded_bytes());
    conn.execute("VACUUM INTO ?1", [ToSqlOutput::Borrowed(name)])
        .doing("copy the database before a migration")?;
    std::fs::rename(&half, to).map_err(file("name"))
}

/// Runs the migrations that are missing.
pub(super) fn run(conn: &mut Connection, path: &Path) -> Result<()> {
    embedded::migrations::runner()
        .set_grouped(true)
        .run(conn)
        .map(drop)
        .map_err(|error| StoreError::Migrate {
            path: path.to_owned(),
            source: error.into(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cf_core::{Outcome, Phase, TaskStatus};

    #[test]
    fn a_copy_that_was_cut_short_or_made_before_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("state.db.v1");
        let conn = Connection::open(folder.path().join("state.db")).unwrap();
        conn.execute_batch("CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (7)")
            .unwrap();
        std::fs::write(&to, "an older copy").unwrap();
        std::fs::write(folder.path().join("state.db.v1.new"), "half").unwrap();
        copy(&conn, &to).unwrap();
        let copied = Connection::open(&to).unwrap();
        let n: i64 = copied
            .query_row("SELECT n FROM t", [], |row| row.get(0))
            .unwrap();
        assert_eq!(n, 7);
        assert!(!folder.path().join("state.db.v1.new").exists());
    }

    #[test]
    fn a_database_that_is_locked_while_it_is_opened_is_busy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        let holder = Connection::open(&path).unwrap();
        holder
            .execute_batch(
                "PRAGMA journal_mode = WAL; CREATE TABLE t (n INTEGER); PRAGMA locking_mode = EXCLUSIVE; \
                 BEGIN EXCLUSIVE; INSERT INTO t VALUES (7); COMMIT",
            )
            .unwrap();
        let mut conn = Connection::open(&path).unwrap();
        let patience = std::time::Duration::from_millis(50);
        super::super::wait::be_patient(&mut conn, &path, patience).unwrap();
        let error = version(&conn, &path).err().unwrap();
        assert!(matches!(error, StoreError::Open { .. }), "{error:?}");
        assert!(error.is_busy(), "{error:?}");
        drop(holder);
        let error = version(&conn, &path).err();
        assert!(error.is_none(), "{error:?}");
    }

    fn newest() -> Connection {
        let mut conn = Connection::open_in_memory().unwrap();
        run(&mut conn, Path::new(":memory:")).unwrap();
        conn.pragma_update(None, "foreign_keys", false).unwrap();
        conn
    }

    #[test]
    fn the_database_takes_the_words_of_the_program_and_no_others() {
        let conn = newest();
        let takes = |sql: &str, word: &str| {
            let id = uuid::Uuid::new_v4().to_string();
            conn.execute(sql, [id.as_str(), word]).is_ok()
        };
        let task = "INSERT INTO task (id, title, description, env, priority, status, version, status_by, status_seq, \
                    generation, created_at_ms, updated_at_ms) VALUES (?1, '', '', '{}', 0, ?2, 1, '', 0, 0, 0, 0)";
        let phase = "INSERT INTO batch_task (batch, position, task, phase, outcome) \
                     VALUES ('b', 0, ?1, ?2, CASE ?2 WHEN 'finished' THEN 'FAILED' END)";
        let outcome = "INSERT INTO batch_task (batch, position, task, phase, outcome) \
                       VALUES ('b', 0, ?1, 'finished', ?2)";
        let ending = "INSERT INTO attempt (id, task, batch, generation, engine, stage, supervisor, supervisor_pid, \
                      start_ticks, boot_id, pid_ns, open, ending, started_at_ms) \
                      VALUES (?1, ?1, 'b', 1, '', 'agent', '', 0, 0, '', 0, 0, ?2, 0)";
        let ends = ["exited", "killed", "unclean", "lost", "never_started"];
        let words: [(&str, Vec<&str>); 4] = [
            (
                task,
                TaskStatus::ALL.iter().map(|word| word.as_str()).collect(),
            ),
            (phase, Phase::ALL.iter().map(|word| word.as_str()).collect()),
            (
                outcome,
                Outcome::ALL.iter().map(|word| word.as_str()).collect(),
            ),
            (ending, ends.to_vec()),
        ];
        for (sql, known) in words {
            for word in known {
                assert!(takes(sql, word), "{word}");
                assert!(!takes(sql, &format!("{word}x")), "{word}x");
            }
            assert!(!takes(sql, ""));
        }
    }

    /// SQLite builds a table for a list of words at each write that checks one against it.
    #[test]
    fn a_write_of_a_task_s_course_builds_no_table() {
        let conn = newest();
        for sql in [
            "UPDATE task SET status = 'DONE' WHERE id = 'a'",
            "UPDATE batch_task SET phase = 'finished', outcome = 'FAILED' WHERE batch = 'b' AND task = 'a'",
            "UPDATE attempt SET ending = 'lost' WHERE id = 'a'",
        ] {
            let mut statement = conn.prepare(&format!("EXPLAIN {sql}")).unwrap();
            let codes = statement
                .query_map([], |row| row.get("opcode"))
                .unwrap()
                .collect::<rusqlite::Result<Vec<String>>>()
                .unwrap();
            assert!(codes.iter().any(|code| code == "Halt"), "{codes:?}");
            assert!(!codes.iter().any(|code| code == "OpenEphemeral"), "{sql}");
        }
    }
}
