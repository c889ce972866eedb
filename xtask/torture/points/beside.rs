//! Walks to the points of commands that conduct no batch: a migration, an import, a merge.

use std::fs;

use rusqlite::Connection;

use super::Walk;
use crate::agents::{Task, plan};
use crate::ground::PATIENCE;

/// The schema that a database is migrated from.
const OLD_SCHEMA: &str = include_str!("../../../crates/cf-conductor/migrations/V1__initial.sql");

impl Walk<'_> {
    /// Starts a command that has to die.
    fn dies(&mut self, args: &[&str]) -> Result<(), String> {
        let mut first = self.start(args)?;
        match first.wait(PATIENCE) {
            Some(ended) if ended.code.is_none() => Ok(()),
            _ => Err(format!("it did not die:\n{}", first.text())),
        }
    }

    fn two(&self) -> Vec<Task> {
        let task = |key| Task::new(&self.ground.books, key, "ended 0");
        vec![task("one"), task("two").after("one")]
    }

    /// An import that dies, and the same again: all tasks or none are there, and none is there twice.
    pub(super) fn import(&mut self) -> Result<(), String> {
        let file = self.ground.base.join("plan.toml");
        fs::write(&file, plan(&self.two())).map_err(|error| error.to_string())?;
        let file = file.to_string_lossy().into_owned();
        self.dies(&["tasks", "import", &file])?;
        let count = "SELECT count(*) || '' FROM task";
        let there = self.ground.texts(count).join("");
        let expected = if self.fault.starts_with("stored.") {
            "0"
        } else {
            "2"
        };
        if there != expected {
            return Err(format!("{there} tasks after its death, not {expected}"));
        }
        self.ground.must(&["tasks", "import", &file])?;
        let there = self.ground.texts(count).join("");
        if there != "2" {
            return Err(format!("{there} tasks after the second import"));
        }
        self.ground
            .must(&["work", "batch", "run", "one", "two"])
            .map(drop)
    }

    /// A merge that dies, and the same again: the work is in the checkout, once, and the tasks are MERGED.
    pub(super) fn merge(&mut self) -> Result<(), String> {
        self.ground.git(&["reset", "--hard", "--quiet"])?;
        self.ground.give_up_checkout();
        let tasks = self.two();
        self.ground.import(&tasks)?;
        self.ground
            .must(&["work", "batch", "run", "one", "two", "--isolation=worktree"])?;
        self.dies(&["work", "merge"])?;
        self.ground.must(&["work", "merge"])?;
        let open = self
            .ground
            .texts("SELECT key || ' ' || status FROM task WHERE status <> 'MERGED'");
        let merges = self
            .ground
            .git(&["rev-list", "--merges", "--first-parent", "HEAD"])?;
        let files = self.ground.git(&["ls-files", "made.*"])?;
        let (merges, files) = (merges.lines().count(), files.lines().count());
        if !open.is_empty() || merges != 2 || files != 2 {
            return Err(format!("{open:?}; {merges} merges of {files} files"));
        }
        Ok(())
    }

    /// Commands that meet an old database: the first one dies, the second finds everything in order.
    pub(super) fn migrate(&mut self) -> Result<(), String> {
        let told = |error: rusqlite::Error| error.to_string();
        let path = self.ground.root.join(".cf/state.db");
        let history: (i64, String, String, String) = self
            .ground
            .store()
            .and_then(|store| {
                store.query_row(
                    "SELECT version, name, applied_on, checksum FROM refinery_schema_history WHERE version = 1",
                    [],
                    |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
                )
            })
            .map_err(told)?;
        let table: String = self
            .ground
            .texts("SELECT sql FROM sqlite_schema WHERE name = 'refinery_schema_history'")
            .join("");
        for end in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(path.with_extension(format!("db{end}")));
        }
        let old = Connection::open(&path).map_err(told)?;
        old.execute_batch(OLD_SCHEMA)
            .and_then(|()| old.execute_batch(&table))
            .and_then(|()| {
                old.execute(
                    "INSERT INTO refinery_schema_history VALUES (?1, ?2, ?3, ?4)",
                    history,
                )
            })
            .map_err(told)?;
        drop(old);
        self.dies(&["tasks", "add", "one"])?;
        self.ground.must(&["tasks", "add", "two"])?;
        if !path.with_extension("db.v1").exists() {
            return Err("there is no copy of the old database".to_owned());
        }
        Ok(())
    }
}
