//! What a report tells of a batch, read together: its tasks and what they depend on, its attempts, the questions that
//! were asked, and what was done to it.

use cf_core::{BatchId, TaskId};

use super::attempt::Attempt;
use super::batch::{Batch, BatchTaskView};
use super::blocker::Blocker;
use super::event::Event;
use super::sql::parsed;
use super::worktree::Worktree;
use super::{Doing as _, Reader, Result};
use crate::closing::Closing;

/// The events of a batch that are about no task of it: a handful, found by an index of their own.
const WHOLE_BATCH: &str = "SELECT seq, at_ms, type, task, batch, attempt, actor, data FROM event INDEXED BY event_whole_batch WHERE batch = ?1 AND task IS NULL ORDER BY seq";

/// A batch and everything that happened in it.
#[derive(Clone, Debug)]
pub struct BatchHistory {
    /// The batch.
    pub batch: Batch,
    /// Why it starts nothing new although it has not ended.
    pub closing: Option<Closing>,
    /// Its tasks, by position.
    pub tasks: Vec<BatchTaskView>,
    /// What they depend on now, as `(task, depends on)`; the second may be outside the batch.
    pub edges: Vec<(TaskId, TaskId)>,
    /// The attempts that it started or took over, oldest first, without their records.
    pub attempts: Vec<Attempt>,
    /// Their worktrees, where they had one; oldest first.
    pub worktrees: Vec<Worktree>,
    /// The questions about its tasks, also those that were asked before it began; oldest first.
    pub questions: Vec<Blocker>,
    /// The events by which a source acted, oldest first.
    pub actions: Vec<Event>,
    /// The events about the batch as a whole, such as a stop that was asked for; oldest first.
    pub events: Vec<Event>,
}

impl Reader<'_> {
    /// Reads a batch and everything that happened in it, as of one moment when called within one `read`.
    ///
    /// # Errors
    ///
    /// SQLite refuses, or there is no such batch.
    pub fn batch_history(&self, id: BatchId) -> Result<BatchHistory> {
        let batch = self.batch(id)?;
        Ok(BatchHistory {
            closing: Closing::of(self, &batch)?,
            batch,
            tasks: self.batch_task_views(id)?,
            edges: self.edges_of_batch(id)?,
            attempts: self.attempts_of_batch(id)?,
            worktrees: self.worktrees_of_batch(id)?,
            questions: self.questions_of_batch(id)?,
            actions: self.reconciliation_events(id)?,
            events: self.events_of_whole_batch(id)?,
        })
    }

    fn edges_of_batch(&self, id: BatchId) -> Result<Vec<(TaskId, TaskId)>> {
        const DOING: &str = "read a batch's dependencies";
        let mut statement = self
            .conn
            .prepare_cached(
                "SELECT d.task AS task, d.depends_on AS depends_on FROM batch_task b \
                 JOIN dependency d ON d.task = b.task JOIN task t ON t.id = d.depends_on \
                 WHERE b.batch = ?1 ORDER BY b.position, t.pk",
            )
            .doing(DOING)?;
        let rows = statement
            .query_map([id.to_string()], |row| {
                Ok((parsed(row, 0)?, parsed(row, 1)?))
            })
            .doing(DOING)?;
        rows.collect::<rusqlite::Result<_>>().doing(DOING)
    }

    fn questions_of_batch(&self, id: BatchId) -> Result<Vec<Blocker>> {
        const DOING: &str = "read a batch's questions";
        let mut statement = self
            .conn
            .prepare_cached(
                "SELECT q.* FROM batch_task b JOIN blocker q ON q.task = b.task WHERE b.batch = ?1 ORDER BY q.pk",
            )
            .doing(DOING)?;
        let rows = statement
            .query_map([id.to_string()], Blocker::from_row)
            .doing(DOING)?;
        rows.collect::<rusqlite::Result<_>>().doing(DOING)
    }

    fn events_of_whole_batch(&self, id: BatchId) -> Result<Vec<Event>> {
        const DOING: &str = "read the event log";
        let mut statement = self.conn.prepare_cached(WHOLE_BATCH).doing(DOING)?;
        let rows = statement
            .query_map([id.to_string()], Event::from_row)
            .doing(DOING)?;
        rows.collect::<rusqlite::Result<_>>().doing(DOING)
    }
}

#[cfg(test)]
mod tests {
    use cf_core::{Actor, EventType};

    use super::*;
    use crate::settings::Settings;
    use crate::store::Store;
    use crate::store::task::TaskSpec;

    #[test]
    fn a_history_has_what_belongs_to_its_batch_and_nothing_else() {
        let mut store = Store::in_memory().unwrap();
        let id = BatchId(uuid::Uuid::from_u128(7));
        let spec = |title: &str| TaskSpec {
            title: title.to_owned(),
            ..TaskSpec::default()
        };
        let (inside, outside) = store
            .write(&Actor::Cli, |tx| {
                let outside = tx.add_task(&spec("outside"))?;
                let first = tx.add_task(&spec("first"))?;
                let second = tx.add_task(&spec("second"))?;
                tx.add_dependency(second, first)?;
                tx.add_dependency(first, outside)?;
                tx.ask(Some(outside), "of another?")?;
                tx.insert_batch_of(id, &Settings::default(), &[second, first])?;
                tx.ask(Some(first), "of ours?")?;
                tx.append(
                    Event::new(EventType::BatchTaskSkipped)
                        .batch(id)
                        .task(first)
                        .with("action", "SKIP"),
                )?;
                tx.append(Event::new(EventType::BatchResumed).batch(id))?;
                Ok(([second, first], outside))
            })
            .unwrap();
        let history = store.read(|reader| reader.batch_history(id)).unwrap();
        let [second, first] = inside;
        assert_eq!(history.batch.id, id);
        let tasks: Vec<_> = history.tasks.iter().map(|view| view.row.task).collect();
        assert_eq!(tasks, [second, first]);
        assert_eq!(history.edges, [(second, first), (first, outside)]);
        let asked: Vec<_> = history.questions.iter().map(|q| &q.question).collect();
        assert_eq!(asked, ["of ours?"]);
        assert_eq!(history.actions.len(), 1);
        let kinds: Vec<_> = history.events.iter().map(|e| e.kind.as_str()).collect();
        assert_eq!(kinds, ["BATCH_STARTED", "BATCH_RESUMED"]);
        assert!(history.attempts.is_empty());
    }
}
