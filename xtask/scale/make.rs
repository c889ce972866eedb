//! A workspace of a given size, written straight into the tables that `cf init` has made.
//!
//! Tasks are run again and again, a batch after the other, until the log is as long as it is to be. The newest batch
//! has not ended, and its conductor is gone. Everything follows from the seed.

use std::path::Path;
use std::process::Command;

use rusqlite::Connection;

use crate::Answer;
use crate::life::Life;

/// How large it is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) tasks: usize,
    pub(crate) events: u64,
    pub(crate) batch: usize,
    pub(crate) seed: u64,
}

impl Size {
    /// Reads it from the command line.
    pub(crate) fn read(words: &[&str]) -> Answer<Self> {
        let [tasks, events, batch, seed] = words else {
            return Err("a size is TASKS EVENTS BATCH SEED".into());
        };
        let size = Self {
            tasks: tasks.parse()?,
            events: events.parse()?,
            batch: batch.parse()?,
            seed: seed.parse()?,
        };
        if size.tasks < 100 || size.batch == 0 || size.batch > size.tasks {
            return Err("there are at least 100 tasks, and a batch has some or all of them".into());
        }
        Ok(size)
    }

    /// The same in small.
    pub(crate) fn tenth(self) -> Self {
        Self {
            tasks: (self.tasks / 10).max(100),
            events: self.events / 10,
            batch: (self.batch / 10).max(1),
            seed: self.seed,
        }
    }
}

/// Makes the workspace, in a folder that is new.
pub(crate) fn workspace(cf: &Path, folder: &Path, size: &Size) -> Answer<()> {
    std::fs::create_dir_all(folder)?;
    let made = Command::new(cf).arg("init").arg(folder).output()?;
    if !made.status.success() {
        return Err(String::from_utf8_lossy(&made.stderr).into_owned().into());
    }
    let mut store = Connection::open(folder.join(".cf/state.db"))?;
    // Rows are written in the order in which they come about, not in that of who names whom.
    store.pragma_update(None, "foreign_keys", false)?;
    // Nothing is lost when this is cut short but the time that it took, and a journal of gigabytes is saved.
    store.pragma_update(None, "journal_mode", "OFF")?;
    store.pragma_update(None, "synchronous", "OFF")?;
    store.pragma_update(None, "cache_size", -1_000_000)?;
    let tx = store.transaction()?;
    let indexes = take_indexes(&tx)?;
    Life::new(&tx, size).lead()?;
    // Sorting at the end costs a fraction of keeping them in order all the time.
    for index in indexes {
        tx.execute_batch(&index)?;
    }
    tx.commit()?;
    store.pragma_update(None, "journal_mode", "WAL")?;
    Ok(())
}

/// Drops the indexes that are statements of their own, and returns those statements.
fn take_indexes(store: &Connection) -> Answer<Vec<String>> {
    let mut statement = store
        .prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL")?;
    let found: Vec<(String, String)> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let mut statements = Vec::new();
    for (name, sql) in found {
        store.execute_batch(&format!("DROP INDEX {name}"))?;
        statements.push(sql);
    }
    Ok(statements)
}
