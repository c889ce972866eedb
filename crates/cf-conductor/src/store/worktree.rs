//! Worktrees of attempts: what was made for each, what it started from, and where its work is.

use std::collections::HashMap;

use cf_core::{AttemptId, BatchId, EventType, TaskId};
use rusqlite::{OptionalExtension as _, Row};

use super::event::Event;
use super::sql::parsed;
use super::{Doing as _, Reader, Result, Tx};

/// The worktree of an attempt as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worktree {
    /// The attempt.
    pub attempt: AttemptId,
    /// Its task.
    pub task: TaskId,
    /// The batch whose attempt it is.
    pub batch: BatchId,
    /// The number of the attempt.
    pub generation: u32,
    /// Its folder's name, below `.cf/worktrees`.
    pub name: String,
    /// The task's branch, by its short name.
    pub branch: String,
    /// The commit that its agent started from; none while it never came to that.
    pub base: Option<String>,
    /// The newest commit of its finished work, on the branch.
    pub head: Option<String>,
    /// The ref under which is kept what it left otherwise.
    pub rescue: Option<String>,
    /// Whether its folder was removed.
    pub is_removed: bool,
    /// Whether its attempt may be alive.
    pub is_live: bool,
    /// Whether an agent was started in it, as far as is known.
    pub has_run: bool,
}

impl Worktree {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let ending: Option<String> = row.get("ending")?;
        let base: Option<String> = row.get("base")?;
        Ok(Self {
            attempt: parsed(row, "attempt")?,
            task: parsed(row, "task")?,
            batch: parsed(row, "batch")?,
            generation: row.get("generation")?,
            name: row.get("name")?,
            branch: row.get("branch")?,
            has_run: base.is_some() && ending.as_deref() != Some("never_started"),
            base,
            head: row.get("head")?,
            rescue: row.get("rescue")?,
            is_removed: row.get::<_, Option<i64>>("removed_at_ms")?.is_some(),
            is_live: row.get("open")?,
        })
    }
}

const SELECT: &str = "SELECT w.*, a.batch, a.generation, a.open, a.ending FROM worktree w JOIN attempt a ON a.id = w.attempt";

impl Reader<'_> {
    /// The worktree of an attempt, if it has one of its own.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn worktree(&self, attempt: AttemptId) -> Result<Option<Worktree>> {
        self.conn
            .prepare_cached(&format!("{SELECT} WHERE w.attempt = ?1"))
            .and_then(|mut s| {
                s.query_row([attempt.to_string()], Worktree::from_row)
                    .optional()
            })
            .doing("read a worktree")
    }

    /// The worktrees of a task's attempts, oldest first.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn worktrees_of(&self, task: TaskId) -> Result<Vec<Worktree>> {
        self.worktree_list("WHERE w.task = ?1", &[&task.to_string()])
    }

    /// The worktrees of a batch's attempts, oldest first.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn worktrees_of_batch(&self, batch: BatchId) -> Result<Vec<Worktree>> {
        self.worktree_list("WHERE a.batch = ?1", &[&batch.to_string()])
    }

    /// The worktrees that a task's attempts had, and those that had a branch, oldest first.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn worktrees_before(&self, task: TaskId, branch: &str) -> Result<Vec<Worktree>> {
        self.worktree_list(
            "WHERE w.task = ?1 OR w.branch = ?2",
            &[&task.to_string(), &branch],
        )
    }

    /// Every worktree whose folder was not removed, oldest first.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn worktrees_left(&self) -> Result<Vec<Worktree>> {
        self.worktree_list("WHERE w.removed_at_ms IS NULL", &[])
    }

    /// The finished work of a task: the newest attempt whose work is on its branch.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn finished_work(&self, task: TaskId) -> Result<Option<Worktree>> {
        let mut list = self.worktrees_of(task)?;
        list.retain(|row| row.head.is_some());
        Ok(list.pop())
    }

    /// The finished work of every task that has some, as [`Reader::finished_work`] has it.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn all_finished_work(&self) -> Result<HashMap<TaskId, Worktree>> {
        let list = self.worktree_list("WHERE w.head IS NOT NULL", &[])?;
        // Oldest first, so the newest of each task stays.
        Ok(list.into_iter().map(|row| (row.task, row)).collect())
    }

    /// The newest ref under which is kept what an attempt of a task left, unless its work was finished since.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn newest_rescue(&self, task: TaskId) -> Result<Option<String>> {
        Ok(self.last_that_left(task)?.and_then(|row| row.rescue))
    }

    /// What the last attempt of a task that left anything left: a ref, or the commit of its finished work.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn left_last(&self, task: TaskId) -> Result<Option<String>> {
        let row = self.last_that_left(task)?;
        Ok(row.and_then(|row| row.rescue.or(row.head)))
    }

    fn last_that_left(&self, task: TaskId) -> Result<Option<Worktree>> {
        let list = self.worktrees_of(task)?;
        let left = |row: &Worktree| row.rescue.is_some() || row.head.is_some();
        Ok(list.into_iter().rev().find(left))
    }

    /// Whether a branch of this name is one that cf made.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn is_our_branch(&self, branch: &str) -> Result<bool> {
        self.conn
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM worktree WHERE branch = ?1 AND base IS NOT NULL)",
            )
            .and_then(|mut s| s.query_row([branch], |row| row.get(0)))
            .doing("look up a branch")
    }

    /// The commit that a batch's worktrees start from; none while it had none.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn batch_base(&self, batch: BatchId) -> Result<Option<String>> {
        self.conn
            .prepare_cached("SELECT base FROM batch WHERE id = ?1")
            .and_then(|mut s| {
                s.query_row([batch.to_string()], |row| row.get(0))
                    .optional()
            })
            .map(Option::flatten)
            .doing("read the base of a batch")
    }

    fn worktree_list(
        &self,
        filter: &str,
        parameters: &[&dyn rusqlite::ToSql],
    ) -> Result<Vec<Worktree>> {
        let mut statement = self
            .conn
            .prepare_cached(&format!("{SELECT} {filter} ORDER BY a.pk"))
            .doing("read worktrees")?;
        let rows = statement
            .query_map(parameters, Worktree::from_row)
            .doing("read worktrees")?;
        rows.collect::<rusqlite::Result<_>>()
            .doing("read worktrees")
    }
}

impl Tx<'_> {
    /// Stores the commit that a batch's worktrees start from, unless it has one.
    pub(crate) fn set_batch_base(&mut self, batch: BatchId, commit: &str) -> Result<()> {
        self.conn
            .execute(
                "UPDATE batch SET base = ?2 WHERE id = ?1 AND base IS NULL",
                (batch.to_string(), commit),
            )
            .doing("store the base of a batch")?;
        Ok(())
    }

    /// Stores, with its claim, that an attempt is to work in a worktree of its own.
    pub(crate) fn insert_worktree(
        &mut self,
        attempt: AttemptId,
        task: TaskId,
        name: &str,
        branch: &str,
    ) -> Result<()> {
        self.conn
            .prepare_cached(
                "INSERT INTO worktree (attempt, task, name, branch) VALUES (?1, ?2, ?3, ?4)",
            )
            .and_then(|mut s| s.execute((attempt.to_string(), task.to_string(), name, branch)))
            .doing("store a worktree")?;
        Ok(())
    }

    /// Stores the commit that the agent of a worktree starts from, before its branch is there.
    pub(crate) fn worktree_begins(&mut self, attempt: AttemptId, base: &str) -> Result<()> {
        self.conn
            .prepare_cached("UPDATE worktree SET base = ?2 WHERE attempt = ?1")
            .and_then(|mut s| s.execute((attempt.to_string(), base)))
            .doing("store the base of a worktree")?;
        Ok(())
    }

    /// Stores that a worktree did not get its branch after all, and that the branch is not cf's for its sake.
    pub(crate) fn worktree_without_branch(&mut self, attempt: AttemptId) -> Result<()> {
        self.conn
            .prepare_cached("UPDATE worktree SET base = NULL WHERE attempt = ?1")
            .and_then(|mut s| s.execute([attempt.to_string()]))
            .doing("store that a worktree has no branch")?;
        Ok(())
    }

    /// Stores that the work of an attempt is on its task's branch.
    pub(crate) fn work_committed(&mut self, attempt: AttemptId, head: &str) -> Result<()> {
        let changed = self
            .conn
            .prepare_cached("UPDATE worktree SET head = ?2 WHERE attempt = ?1 AND head IS NOT ?2")
            .and_then(|mut s| s.execute((attempt.to_string(), head)))
            .doing("store the work of an attempt")?;
        if changed > 0
            && let Some(row) = self.reader().worktree(attempt)?
        {
            self.append(
                Event::new(EventType::AttemptCommitted)
                    .task(row.task)
                    .batch(row.batch)
                    .attempt(attempt)
                    .with("branch", row.branch)
                    .with("commit", head),
            )?;
        }
        Ok(())
    }

    /// Stores under which ref is kept what an attempt left. It is told again when it was kept anew.
    pub(crate) fn work_rescued(&mut self, attempt: AttemptId, reference: &str) -> Result<()> {
        let changed = self
            .conn
            .prepare_cached(
                "UPDATE worktree SET rescue = ?2 WHERE attempt = ?1 AND rescue IS NOT ?2",
            )
            .and_then(|mut s| s.execute((attempt.to_string(), reference)))
            .doing("store the work of an attempt")?;
        if changed > 0
            && let Some(row) = self.reader().worktree(attempt)?
        {
            self.append(
                Event::new(EventType::AttemptRescued)
                    .task(row.task)
                    .batch(row.batch)
                    .attempt(attempt)
                    .with("ref", reference),
            )?;
        }
        Ok(())
    }

    /// Stores that the folder of a worktree is gone.
    pub(crate) fn worktree_removed(&mut self, attempt: AttemptId) -> Result<()> {
        self.conn
            .prepare_cached("UPDATE worktree SET removed_at_ms = ?2 WHERE attempt = ?1 AND removed_at_ms IS NULL")
            .and_then(|mut s| s.execute((attempt.to_string(), self.now.as_millisecond())))
            .doing("store that a worktree is gone")?;
        Ok(())
    }
}
