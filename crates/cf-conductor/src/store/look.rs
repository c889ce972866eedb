//! Finds what a person means by a key, an id or a prefix of one.

use cf_core::{AttemptId, BatchId, BlockerId, TaskId, TaskRef};

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
                s.query_map([given.as_str()], |row| row.get::<_, String>(0))?
                    .next()
                    .transpose()
            })
            .doing("look up a task")?;
        if let Some(id) = by_key {
            return Ok(parse_id(&id));
        }
        let found = self.with_prefix("SELECT id, coalesce(key, '') FROM task WHERE id >= ?1 AND id < ?2 AND deleted_at_ms IS NULL ORDER BY id LIMIT 11", given)?;
        match found.as_slice() {
            [(id, _)] => Ok(parse_id(id)),
            [] => Err(StoreError::Unknown {
                what: "task",
                given: shown(given),
                similar: self.similar_keys(given)?,
            }),
            several => Err(ambiguous("task", given, several)),
        }
    }

    /// The batch that answers to a full id or a unique prefix of four or more.
    ///
    /// # Errors
    ///
    /// None or several do.
    pub fn find_batch(&self, given: &TaskRef) -> Result<BatchId> {
        self.find_plain(
            "batch",
            "SELECT id, status FROM batch WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT 11",
            given,
        )
        .map(|id| id.parse().expect("the store holds only ids that it wrote"))
    }

    /// The blocker that answers to a full id or a unique prefix of four or more.
    ///
    /// # Errors
    ///
    /// None or several do.
    pub fn find_blocker(&self, given: &TaskRef) -> Result<BlockerId> {
        self.find_plain(
            "blocker",
            "SELECT id, '' FROM blocker WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT 11",
            given,
        )
        .map(|id| id.parse().expect("the store holds only ids that it wrote"))
    }

    /// The attempt that answers to a full id or a unique prefix of four or more.
    ///
    /// # Errors
    ///
    /// None or several do.
    pub fn find_attempt(&self, given: &TaskRef) -> Result<AttemptId> {
        self.find_plain(
            "attempt",
            "SELECT id, '' FROM attempt WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT 11",
            given,
        )
        .map(|id| id.parse().expect("the store holds only ids that it wrote"))
    }

    fn find_plain(&self, what: &'static str, sql: &str, given: &TaskRef) -> Result<String> {
        let found = self.with_prefix(sql, given)?;
        match found.as_slice() {
            [(id, _)] => Ok(id.clone()),
            [] => Err(StoreError::Unknown {
                what,
                given: shown(given),
                similar: Vec::new(),
            }),
            several => Err(ambiguous(what, given, several)),
        }
    }

    /// Rows whose id lies between the prefix and the next one: a range over the index, never a pattern.
    fn with_prefix(&self, sql: &str, given: &TaskRef) -> Result<Vec<(String, String)>> {
        let Some(prefix) = given.as_prefix() else {
            return Ok(Vec::new());
        };
        let mut statement = self.conn.prepare_cached(sql).doing("look up an id")?;
        // `g` sorts after every hexadecimal digit and after the hyphen.
        let rows = statement
            .query_map((&prefix, format!("{prefix}g")), |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .doing("look up an id")?;
        rows.collect::<rusqlite::Result<_>>().doing("look up an id")
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

fn parse_id(text: &str) -> TaskId {
    text.parse()
        .expect("the store holds only ids that it wrote")
}

fn shown(given: &TaskRef) -> String {
    given.as_str().chars().take(80).collect()
}

fn ambiguous(what: &'static str, given: &TaskRef, several: &[(String, String)]) -> StoreError {
    let mut candidates: Vec<String> = several
        .iter()
        .take(CANDIDATES)
        .map(|(id, name)| {
            if name.is_empty() {
                id.clone()
            } else {
                format!("{id} ({name})")
            }
        })
        .collect();
    if several.len() > CANDIDATES {
        candidates.push("…".to_owned());
    }
    StoreError::Ambiguous {
        what,
        given: shown(given),
        candidates,
    }
}
