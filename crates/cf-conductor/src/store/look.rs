//! Finds what a person means by a key, an id or a prefix of one.

use std::str::FromStr;

use cf_core::{AttemptId, BatchId, BlockerId, TaskId, TaskRef};

use super::sql::parsed;
use super::{Doing as _, Reader, Result, StoreError};

/// How many candidates an answer names.
const CANDIDATES: usize = 10;

impl Reader<'_> {
    /// The task that answers to an exact key, else to a full id, else to a unique prefix of four or more.
    ///
    /// # Errors
    ///
    /// None or several do; the error names candidates.
    pub fn find_task(&self, given: &TaskRef) -> Result<TaskId> {
        let by_key = self
            .conn
            .prepare_cached("SELECT id FROM task WHERE key = ?1 AND deleted_at_ms IS NULL")
            .and_then(|mut s| {
                s.query_map([given.as_str()], |row| parsed(row, "id"))?
                    .next()
                    .transpose()
            })
            .doing("look up a task")?;
        if let Some(id) = by_key {
            return Ok(id);
        }
        self.only_one(
            "task",
            "SELECT id, coalesce(key, '') FROM task WHERE id >= ?1 AND id < ?2 AND deleted_at_ms IS NULL ORDER BY id",
            given,
        )
    }

    /// The batch that answers to a full id or a unique prefix of four or more.
    ///
    /// # Errors
    ///
    /// None or several do.
    pub fn find_batch(&self, given: &TaskRef) -> Result<BatchId> {
        self.only_one(
            "batch",
            "SELECT id, status FROM batch WHERE id >= ?1 AND id < ?2 ORDER BY id",
            given,
        )
    }

    /// The blocker that answers to a full id or a unique prefix of four or more.
    ///
    /// # Errors
    ///
    /// None or several do.
    pub fn find_blocker(&self, given: &TaskRef) -> Result<BlockerId> {
        self.only_one(
            "blocker",
            "SELECT id, '' FROM blocker WHERE id >= ?1 AND id < ?2 ORDER BY id",
            given,
        )
    }

    /// The attempt that answers to a full id or a unique prefix of four or more.
    ///
    /// # Errors
    ///
    /// None or several do.
    pub fn find_attempt(&self, given: &TaskRef) -> Result<AttemptId> {
        self.only_one(
            "attempt",
            "SELECT id, '' FROM attempt WHERE id >= ?1 AND id < ?2 ORDER BY id",
            given,
        )
    }

    /// The one row whose id begins with a prefix: a range over the index, never a pattern. `sql` gives ids and what is
    /// said beside them.
    fn only_one<T>(&self, what: &'static str, sql: &str, given: &TaskRef) -> Result<T>
    where
        T: FromStr,
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        let mut first = None;
        let mut candidates = Vec::new();
        let mut count = 0;
        if let Some(prefix) = given.as_prefix() {
            let mut statement = self.conn.prepare_cached(sql).doing("look up an id")?;
            // `g` sorts after every hexadecimal digit and after the hyphen.
            let mut rows = statement
                .query((&prefix, format!("{prefix}g")))
                .doing("look up an id")?;
            while let Some(row) = rows.next().doing("look up an id")? {
                count += 1;
                if count == 1 {
                    first = Some(parsed(row, "id").doing("look up an id")?);
                }
                if count <= CANDIDATES {
                    let id: String = row.get(0).doing("look up an id")?;
                    let name: String = row.get(1).doing("look up an id")?;
                    candidates.push(match name.as_str() {
                        "" => id,
                        name => format!("{id} ({name})"),
                    });
                }
            }
        }
        match (first, count) {
            (Some(id), 1) => Ok(id),
            (Some(_), _) => Err(StoreError::Ambiguous {
                what,
                given: shown(given),
                count,
                candidates,
            }),
            (None, _) => Err(StoreError::Unknown {
                what,
                given: shown(given),
                similar: match what {
                    "task" => self.similar_keys(given)?,
                    _ => Vec::new(),
                },
            }),
        }
    }

    /// A few keys that begin like the given text or contain it.
    fn similar_keys(&self, given: &TaskRef) -> Result<Vec<String>> {
        let text = given.as_str().to_lowercase();
        let mut statement = self
            .conn
            .prepare_cached("SELECT key FROM task WHERE key IS NOT NULL AND deleted_at_ms IS NULL AND (instr(key, ?1) > 0 OR instr(?1, key) > 0) ORDER BY key LIMIT 5")
            .doing("look up similar keys")?;
        let rows = statement
            .query_map([&text], |row| row.get(0))
            .doing("look up similar keys")?;
        rows.collect::<rusqlite::Result<_>>()
            .doing("look up similar keys")
    }
}

fn shown(given: &TaskRef) -> String {
    given.as_str().chars().take(80).collect()
}
