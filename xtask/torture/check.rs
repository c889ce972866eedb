//! What must be true when a round is over, judged from outside: by the agents' own books, by `/proc`, by the event log,
//! and by what the store holds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::ground::Ground;
use crate::replay::Replay;
use crate::said::{Said, unheard};

/// How long supervisors may take to end when nothing is left for them to do.
const LAST_WAY: Duration = Duration::from_secs(8);

/// An attempt as it is stored.
struct Attempt {
    id: String,
    task: String,
    open: bool,
    end: Option<String>,
    success: bool,
    stage: String,
}

/// Everything that is wrong. Nothing may run any more when it is asked.
pub(crate) fn faults(ground: &mut Ground, said: &[Said]) -> Vec<String> {
    let mut faults: Vec<String> = ground.book("faults").lines().map(str::to_owned).collect();
    let store = match ground.store() {
        Ok(store) => store,
        Err(error) => {
            faults.push(format!("the store cannot be opened: {error}"));
            return faults;
        }
    };
    if let Err(error) = of_the_store(ground, &store, said, &mut faults) {
        faults.push(format!("the store cannot be read: {error}"));
    }
    let strangers = ground.dead_strangers();
    if strangers > 0 {
        faults.push(format!("{strangers} strangers were killed"));
    }
    faults
}

fn of_the_store(
    ground: &Ground,
    store: &Connection,
    said: &[Said],
    faults: &mut Vec<String>,
) -> rusqlite::Result<()> {
    let sound: String = store.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    if sound != "ok" {
        faults.push(format!("integrity_check: {sound}"));
    }
    let dangling: i64 =
        store.query_row("SELECT count(*) FROM pragma_foreign_key_check", [], |row| {
            row.get(0)
        })?;
    if dangling != 0 {
        faults.push(format!("{dangling} rows refer to what is not there"));
    }
    let replay = Replay::of(store)?;
    faults.extend(replay.faults.iter().cloned());
    faults.extend(replay.differences(store)?);
    faults.extend(unheard(said, &replay));
    let attempts = attempts(store)?;
    of_the_processes(ground, &attempts, faults);
    of_the_books(ground, &attempts, &replay, faults);
    of_the_batches(store, faults)?;
    faults.extend(ground.faults_of_trees(store)?);
    Ok(())
}

fn attempts(store: &Connection) -> rusqlite::Result<BTreeMap<String, Attempt>> {
    let mut statement = store.prepare(
        "SELECT a.id, coalesce(t.key, t.id), a.open, a.ending, coalesce(a.success, 0), a.stage FROM attempt a \
         JOIN task t ON t.id = a.task",
    )?;
    let rows = statement.query_map([], |row| {
        Ok(Attempt {
            id: row.get(0)?,
            task: row.get(1)?,
            open: row.get(2)?,
            end: row.get(3)?,
            success: row.get(4)?,
            stage: row.get(5)?,
        })
    })?;
    rows.map(|row| row.map(|attempt| (attempt.id.clone(), attempt)))
        .collect()
}

/// Nothing that `cf` started is alive any more, but for what an unclean end names.
fn of_the_processes(
    ground: &Ground,
    attempts: &BTreeMap<String, Attempt>,
    faults: &mut Vec<String>,
) {
    let deadline = Instant::now() + LAST_WAY;
    let left = loop {
        let agents: Vec<_> = ground
            .agents()
            .into_iter()
            .filter(|(attempt, _)| !attempts.get(attempt).is_some_and(|attempt| attempt.open))
            .collect();
        let supervisors = ground.supervisors();
        if (agents.is_empty() && supervisors.is_empty()) || Instant::now() >= deadline {
            break (agents, supervisors);
        }
        sleep(Duration::from_millis(50));
    };
    for (attempt, pid) in left.0 {
        faults.push(format!("process {pid} of attempt {attempt} is alive"));
    }
    for pid in left.1 {
        faults.push(format!("supervisor {pid} is alive and has nothing to do"));
    }
    let unclean: BTreeSet<&str> = attempts
        .values()
        .filter(|attempt| attempt.open)
        .map(|attempt| attempt.id.as_str())
        .collect();
    let files = fs::read_dir(ground.root.join(".cf/supervisors"))
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .count();
    if files > unclean.len() {
        faults.push(format!(
            "{files} files of supervisors that are gone lie about"
        ));
    }
}

/// What the agents wrote down fits what the store says of their attempts.
fn of_the_books(
    ground: &Ground,
    attempts: &BTreeMap<String, Attempt>,
    replay: &Replay,
    faults: &mut Vec<String>,
) {
    let mut began: BTreeSet<String> = BTreeSet::new();
    let mut succeeded: BTreeSet<String> = BTreeSet::new();
    for line in ground.book("book").lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["began", attempt, task, _] => {
                began.insert((*attempt).to_owned());
                match attempts.get(*attempt) {
                    None => faults.push(format!("the store does not know attempt {attempt} of {task}")),
                    Some(stored) if stored.end.as_deref() == Some("never_started") => faults.push(
                        format!("attempt {attempt} of {task} ran, and the store says that it never started"),
                    ),
                    Some(_) => {}
                }
            }
            ["ended", attempt, _, "0"] => {
                succeeded.insert((*attempt).to_owned());
            }
            // A disk that was full, or an agent that was killed in the middle of a line.
            _ => {}
        }
    }
    for attempt in attempts.values() {
        if attempt.open && attempt.end.as_deref() != Some("unclean") {
            faults.push(format!(
                "attempt {} of {} is still open",
                attempt.id, attempt.task
            ));
        }
        if attempt.success && !succeeded.contains(&attempt.id) {
            faults.push(format!(
                "attempt {} of {} did not succeed by its own book ({}, began: {})",
                attempt.id,
                attempt.task,
                attempt.stage,
                began.contains(&attempt.id)
            ));
        }
        if attempt.success && !replay.settled.contains(&attempt.id) && replay.ended(&attempt.id) {
            faults.push(format!(
                "the result of attempt {} of {} was neither applied nor kept as stale",
                attempt.id, attempt.task
            ));
        }
    }
}

/// Every batch has ended, and holds nothing any more.
fn of_the_batches(store: &Connection, faults: &mut Vec<String>) -> rusqlite::Result<()> {
    let mut list = |sql: &str, what: &str| -> rusqlite::Result<()> {
        let mut statement = store.prepare(sql)?;
        let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
        for row in rows {
            faults.push(format!("{}: {what}", row?));
        }
        Ok(())
    };
    list(
        "SELECT id || ' ' || status FROM batch WHERE status IN ('PENDING', 'RUNNING')",
        "the batch has not ended",
    )?;
    list(
        "SELECT task || ' ' || phase FROM batch_task WHERE outcome IS NULL",
        "a task of a batch has no outcome",
    )?;
    list(
        "SELECT coalesce(key, id) || ' ' || status FROM task WHERE claim IS NOT NULL",
        "the task is claimed and nobody works on it",
    )?;
    list(
        "SELECT coalesce(t.key, t.id) FROM task t WHERE t.status = 'IN_PROGRESS' AND t.status_by LIKE 'batch:%' \
         AND t.deleted_at_ms IS NULL",
        "a batch made it IN_PROGRESS and is gone",
    )
}
