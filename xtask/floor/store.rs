//! Bare reads and writes of SQLite.

use std::collections::HashMap;
use std::hint::black_box;
use std::io::{BufWriter, Write as _, stdout};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::Answer;

/// Makes an empty store for events, in WAL mode.
pub(crate) fn create(db: &str, sync: &str) -> Result<Connection, Box<dyn std::error::Error>> {
    let connection = Connection::open(db)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(
        None,
        "synchronous",
        match sync {
            "full" => "FULL",
            "normal" => "NORMAL",
            other => return Err(format!("{other:?} is neither `full` nor `normal`").into()),
        },
    )?;
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS task (pk INTEGER PRIMARY KEY, status TEXT NOT NULL) STRICT;
         CREATE TABLE IF NOT EXISTS event (
             seq INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, type TEXT NOT NULL, task INTEGER NOT NULL
         ) STRICT;",
    )?;
    Ok(connection)
}

/// One transaction: the task's row is written, and an event for each thing that happened to it is appended.
pub(crate) fn record(
    connection: &mut Connection,
    task: usize,
    what: &[&str],
) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let task = i64::try_from(task).unwrap_or(i64::MAX);
    for what in what {
        transaction
            .prepare_cached("INSERT OR REPLACE INTO task (pk, status) VALUES (?1, ?2)")?
            .execute((task, what))?;
        transaction
            .prepare_cached("INSERT INTO event (at_ms, type, task) VALUES (0, ?1, ?2)")?
            .execute((what, task))?;
    }
    transaction.commit()
}

/// Opens a workspace's store and counts its tasks by status.
pub(crate) fn count(db: &str) -> Answer {
    let connection = open(db)?;
    let mut statement = connection
        .prepare("SELECT status, count(*) FROM task WHERE deleted_at_ms IS NULL GROUP BY status")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        println!("{} {}", row.get::<_, String>(0)?, row.get::<_, i64>(1)?);
    }
    Ok(())
}

/// Opens a workspace's store and prints every task.
pub(crate) fn list(db: &str) -> Answer {
    let connection = open(db)?;
    let mut statement = connection.prepare(
        "SELECT id, key, status, priority, title FROM task WHERE deleted_at_ms IS NULL ORDER BY pk",
    )?;
    let mut out = BufWriter::new(stdout().lock());
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        writeln!(
            out,
            "{}  {}  {}  {}  {}",
            row.get_ref(0)?.as_str()?,
            row.get_ref(1)?.as_str_or_null()?.unwrap_or_default(),
            row.get_ref(2)?.as_str()?,
            row.get::<_, i64>(3)?,
            row.get_ref(4)?.as_str()?,
        )?;
    }
    out.flush()?;
    Ok(())
}

/// Appends events, one transaction each, and prints how many a second.
pub(crate) fn append(db: &str, sync: &str, events: &str) -> Answer {
    let mut connection = create(db, sync)?;
    let events: usize = events.parse()?;
    let start = Instant::now();
    for _ in 0..events {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction
            .prepare_cached("INSERT INTO event (at_ms, type, task) VALUES (0, 'X', 0)")?
            .execute([])?;
        transaction.commit()?;
    }
    println!("{:.1}", events as f64 / start.elapsed().as_secs_f64());
    Ok(())
}

/// What a look at a workspace's store costs at least, as JSON: nothing changed, one row changed, everything read.
pub(crate) fn passes(db: &str) -> Answer {
    let connection = open(db)?;
    let last = last_event(&connection)?;
    let unchanged_us = per_call_us(10_000, || unchanged(&connection))?;
    let one_changed_us = per_call_us(2_000, || one_changed(&connection, last))?;
    let all_changed_us = per_call_us(20, || all_changed(&connection))?;
    println!(
        "{{\"unchanged_us\":{unchanged_us:.3},\"one_changed_us\":{one_changed_us:.3},\"all_changed_ms\":{:.4}}}",
        all_changed_us / 1000.0
    );
    Ok(())
}

/// Looks so many times and prints nothing: for somebody who counts.
pub(crate) fn pass(db: &str, what: &str, times: &str) -> Answer {
    let connection = open(db)?;
    let last = last_event(&connection)?;
    let times: u32 = times.parse()?;
    match what {
        "all" => per_call_us(times, || all_changed(&connection))?,
        "unchanged" => per_call_us(times, || unchanged(&connection))?,
        "one" => per_call_us(times, || one_changed(&connection, last))?,
        other => return Err(format!("{other:?} is no kind of pass").into()),
    };
    Ok(())
}

fn last_event(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT max(seq) FROM event", [], |row| row.get(0))
}

fn unchanged(connection: &Connection) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("PRAGMA data_version")?
        .query_row([], |row| row.get(0))
}

fn one_changed(connection: &Connection, last: i64) -> rusqlite::Result<usize> {
    let mut ask = connection.prepare_cached(
        "SELECT e.task, t.status, t.version FROM event e JOIN task t ON t.id = e.task WHERE e.seq >= ?1",
    )?;
    let mut rows = ask.query([last])?;
    let mut found = 0;
    while let Some(row) = rows.next()? {
        black_box(row.get_ref(0)?);
        found += 1;
    }
    Ok(found)
}

fn all_changed(connection: &Connection) -> rusqlite::Result<usize> {
    let mut tasks: HashMap<String, (String, i64, bool)> = HashMap::new();
    let mut ask = connection
        .prepare_cached("SELECT id, status, version FROM task WHERE deleted_at_ms IS NULL")?;
    let mut rows = ask.query([])?;
    while let Some(row) = rows.next()? {
        tasks.insert(row.get(0)?, (row.get(1)?, row.get(2)?, false));
    }
    let mut ask = connection
        .prepare_cached("SELECT task FROM blocker WHERE task IS NOT NULL AND status = 'OPEN'")?;
    let mut rows = ask.query([])?;
    while let Some(row) = rows.next()? {
        if let Some(task) = tasks.get_mut(row.get_ref(0)?.as_str()?) {
            task.2 = true;
        }
    }
    Ok(tasks.len())
}

fn per_call_us<T>(
    calls: u32,
    call: impl Fn() -> rusqlite::Result<T>,
) -> Result<f64, Box<dyn std::error::Error>> {
    let start = Instant::now();
    for _ in 0..calls {
        black_box(call()?);
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(calls))
}

/// Opens a store that is there already, for reading alone.
pub(crate) fn open(db: &str) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(
        db,
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(Duration::from_secs(10))?;
    Ok(connection)
}
