//! Batches, and one row for each of their tasks.

use cf_core::{
    AttemptId, BatchId, BatchStatus, EventType, Outcome, Phase, TaskId, TaskKey, TaskStatus,
    Timestamp,
};
use rusqlite::{OptionalExtension as _, Row};

use super::attempt::NewAttempt;
use super::event::Event;
use super::sql::{json, parsed, parsed_opt, time, time_opt, to_json};
use super::task::{StatusWrite, Task};
use super::{Doing as _, Reader, Result, StoreError, Tx};
use crate::settings::Settings;

/// How a stored stop treats running agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// They end by themselves; nothing new starts.
    Drain,
    /// They are stopped with the grace.
    Force,
}

/// A batch as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Its id.
    pub id: BatchId,
    /// Where it stands.
    pub status: BatchStatus,
    /// What it runs with.
    pub settings: Settings,
    /// Whether somebody asked it to stop.
    pub stop: Option<Stop>,
    /// What its `run` ended with.
    pub exit_code: Option<u8>,
    /// When it was stored.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

impl Batch {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let stop: Option<String> = row.get("stop")?;
        Ok(Self {
            id: parsed(row, "id")?,
            status: parsed(row, "status")?,
            settings: json(row, "settings")?,
            stop: stop.map(|word| {
                if word == "force" {
                    Stop::Force
                } else {
                    Stop::Drain
                }
            }),
            exit_code: row.get("exit_code")?,
            started_at: time(row, "started_at_ms")?,
            ended_at: time_opt(row, "ended_at_ms")?,
        })
    }
}

/// Where a task stands inside a batch, as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchTask {
    /// The task.
    pub task: TaskId,
    /// Its place in the list, from 0.
    pub position: u32,
    /// Where it stands.
    pub phase: Phase,
    /// How it ended; only when finished.
    pub outcome: Option<Outcome>,
    /// Why: of the outcome, or of the hold.
    pub reason: Option<String>,
    /// How many attempts it had in this batch.
    pub attempts: u32,
    /// How many of them failed by themselves since the batch took it up.
    pub failures: u32,
    /// When a retry is due.
    pub not_before: Option<Timestamp>,
    /// The event that began the hold or gave the outcome.
    pub since_seq: u64,
    /// Status writes up to this event are not news to the batch.
    pub take_up_seq: u64,
    /// When its first agent could start.
    pub started_at: Option<Timestamp>,
    /// When it got its outcome.
    pub ended_at: Option<Timestamp>,
}

/// The columns of a task's place in a batch, for [`BatchTask`].
const PLACE: &str = "b.task, b.position, b.phase, b.outcome, b.reason, b.attempts, b.failures, b.not_before_ms, \
                     b.since_seq, b.take_up_seq, b.started_at_ms, b.ended_at_ms";

impl BatchTask {
    /// A task that is new in a batch, at this place.
    pub(crate) const fn new(task: TaskId, position: u32) -> Self {
        Self {
            task,
            position,
            phase: Phase::Waiting,
            outcome: None,
            reason: None,
            attempts: 0,
            failures: 0,
            not_before: None,
            since_seq: 0,
            take_up_seq: 0,
            started_at: None,
            ended_at: None,
        }
    }

    /// Reads the columns of [`PLACE`], by their places.
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            task: parsed(row, 0)?,
            position: row.get(1)?,
            phase: parsed(row, 2)?,
            outcome: parsed_opt(row, 3)?,
            reason: row.get(4)?,
            attempts: row.get(5)?,
            failures: row.get(6)?,
            not_before: time_opt(row, 7)?,
            since_seq: row.get(8)?,
            take_up_seq: row.get(9)?,
            started_at: time_opt(row, 10)?,
            ended_at: time_opt(row, 11)?,
        })
    }
}

/// A batch's task together with what lists show beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchTaskView {
    /// Where it stands in the batch.
    pub row: BatchTask,
    /// Its key.
    pub key: Option<TaskKey>,
    /// What it is called.
    pub title: String,
    /// Where it stands for everybody.
    pub status: TaskStatus,
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The task is this batch's, and the attempt its current one.
    Got {
        /// The attempt's number.
        generation: u32,
        /// The task's new version.
        version: u64,
    },
    /// The task is not as it was believed to be, or has an attempt that may be alive. Look again.
    Lost,
}

/// The events of a batch that name an action. The first condition about that is the one of the index `event_action`,
/// word for word: the others are not read.
const RECONCILIATION_EVENTS: &str = "SELECT seq, at_ms, type, task, batch, attempt, actor, data FROM event \
                                     WHERE batch = ?1 AND seq > ?2 AND \
                                     instr(data, '\"action\":') > 0 AND \
                                     json_extract(data, '$.action') IS NOT NULL ORDER BY seq";

impl Reader<'_> {
    /// One batch.
    ///
    /// # Errors
    ///
    /// SQLite refuses, or there is no such batch.
    pub fn batch(&self, id: BatchId) -> Result<Batch> {
        self.conn
            .prepare_cached("SELECT * FROM batch WHERE id = ?1")
            .and_then(|mut s| s.query_row([id.to_string()], Batch::from_row).optional())
            .doing("read a batch")?
            .ok_or_else(|| StoreError::Unknown {
                what: "batch",
                given: id.to_string(),
                similar: Vec::new(),
            })
    }

    /// Every batch, newest first.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn batches(&self) -> Result<Vec<Batch>> {
        self.batch_list("SELECT * FROM batch ORDER BY pk DESC")
    }

    /// The batches that have not ended, newest first.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn unfinished_batches(&self) -> Result<Vec<Batch>> {
        self.batch_list(
            "SELECT * FROM batch WHERE status IN ('PENDING','RUNNING') ORDER BY pk DESC",
        )
    }

    /// The newest batch, if there is any.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn newest_batch(&self) -> Result<Option<Batch>> {
        Ok(self
            .batch_list("SELECT * FROM batch ORDER BY pk DESC LIMIT 1")?
            .pop())
    }

    /// The batches that have a task, newest first.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn batches_of(&self, task: TaskId) -> Result<Vec<Batch>> {
        let mut statement = self
            .conn
            .prepare_cached(
                "SELECT b.* FROM batch_task t JOIN batch b ON b.id = t.batch WHERE t.task = ?1 ORDER BY b.pk DESC",
            )
            .doing("read a task's batches")?;
        let rows = statement
            .query_map([task.to_string()], Batch::from_row)
            .doing("read a task's batches")?;
        rows.collect::<rusqlite::Result<_>>()
            .doing("read a task's batches")
    }

    fn batch_list(&self, sql: &str) -> Result<Vec<Batch>> {
        let mut statement = self.conn.prepare_cached(sql).doing("read batches")?;
        let rows = statement
            .query_map([], Batch::from_row)
            .doing("read batches")?;
        rows.collect::<rusqlite::Result<_>>().doing("read batches")
    }

    /// Where each task of a batch stands, by position.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn batch_tasks(&self, batch: BatchId) -> Result<Vec<BatchTask>> {
        let mut statement = self
            .conn
            .prepare_cached(&format!(
                "SELECT {PLACE} FROM batch_task b WHERE b.batch = ?1"
            ))
            .doing("read a batch's tasks")?;
        let rows = statement
            .query_map([batch.to_string()], BatchTask::from_row)
            .doing("read a batch's tasks")?;
        let rows: rusqlite::Result<Vec<BatchTask>> = rows.collect();
        // SQLite would write each row into a sorter and read it again.
        let mut rows = rows.doing("read a batch's tasks")?;
        rows.sort_unstable_by_key(|row| row.position);
        Ok(rows)
    }

    /// Where one task of a batch stands, if it is in it.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn batch_task(&self, batch: BatchId, task: TaskId) -> Result<Option<BatchTask>> {
        self.conn
            .prepare_cached(&format!(
                "SELECT {PLACE} FROM batch_task b WHERE b.batch = ?1 AND b.task = ?2"
            ))
            .and_then(|mut s| {
                s.query_row((batch.to_string(), task.to_string()), BatchTask::from_row)
                    .optional()
            })
            .doing("read a batch's task")
    }

    /// The same with what lists show beside it, by position.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn batch_task_views(&self, batch: BatchId) -> Result<Vec<BatchTaskView>> {
        self.views(batch, "")
    }

    /// The tasks of a batch whose agents are at work or being stopped, and those that are held, by position.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn batch_tasks_at_work(&self, batch: BatchId) -> Result<Vec<BatchTaskView>> {
        self.views(batch, " AND b.phase IN ('running','stopping','held')")
    }

    fn views(&self, batch: BatchId, which: &str) -> Result<Vec<BatchTaskView>> {
        const DOING: &str = "read a batch's tasks";
        // The index of the ids tells where each task lies. They are read in that order, so that every page is met once;
        // in that of their ids, which is none, most of the time would go for finding pages again.
        let mut statement = self
            .conn
            .prepare_cached(&format!(
                "SELECT {PLACE}, t.pk FROM batch_task b JOIN task t ON t.id = b.task WHERE b.batch = ?1{which}"
            ))
            .doing(DOING)?;
        let rows = statement
            .query_map([batch.to_string()], |row| {
                Ok((row.get::<_, i64>(12)?, BatchTask::from_row(row)?))
            })
            .doing(DOING)?;
        let mut rows: Vec<(i64, BatchTask)> = rows.collect::<rusqlite::Result<_>>().doing(DOING)?;
        rows.sort_by_cached_key(|(pk, _)| *pk);
        let mut statement = self
            .conn
            .prepare_cached("SELECT key, title, status FROM task WHERE pk = ?1")
            .doing(DOING)?;
        let views = rows.into_iter().map(|(pk, row)| {
            statement.query_row([pk], |task| {
                Ok(BatchTaskView {
                    row,
                    key: parsed_opt(task, 0)?,
                    title: task.get(1)?,
                    status: parsed(task, 2)?,
                })
            })
        });
        let mut views: Vec<BatchTaskView> = views.collect::<rusqlite::Result<_>>().doing(DOING)?;
        // Most tasks lie in the order of their positions. SQLite would write each row into a sorter and read it again.
        views.sort_unstable_by_key(|view| view.row.position);
        Ok(views)
    }

    /// How many tasks of a batch have each phase and outcome.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn batch_counts(&self, batch: BatchId) -> Result<Vec<(Phase, Option<Outcome>, u64)>> {
        let mut statement = self
            .conn
            .prepare_cached("SELECT phase, outcome, count(*) AS n FROM batch_task WHERE batch = ?1 GROUP BY phase, outcome ORDER BY phase, outcome")
            .doing("count a batch's tasks")?;
        let rows = statement
            .query_map([batch.to_string()], |row| {
                Ok((
                    parsed(row, "phase")?,
                    parsed_opt(row, "outcome")?,
                    row.get("n")?,
                ))
            })
            .doing("count a batch's tasks")?;
        rows.collect::<rusqlite::Result<_>>()
            .doing("count a batch's tasks")
    }

    /// The events of a batch by which a source acted: those that name an action.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn reconciliation_events(&self, batch: BatchId) -> Result<Vec<Event>> {
        self.reconciliation_events_after(batch, 0)
    }

    /// The same, but only those after an event.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn reconciliation_events_after(&self, batch: BatchId, seq: u64) -> Result<Vec<Event>> {
        let mut statement = self
            .conn
            .prepare_cached(RECONCILIATION_EVENTS)
            .doing("read the event log")?;
        let rows = statement
            .query_map((batch.to_string(), seq), Event::from_row)
            .doing("read the event log")?;
        rows.collect::<rusqlite::Result<_>>().doing("read an event")
    }

    /// The batches, among those not ended, that have the task and have not finished it.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn batches_working_on(&self, task: TaskId) -> Result<Vec<BatchId>> {
        let mut statement = self
            .conn
            .prepare_cached(
                "SELECT b.id AS id FROM batch_task t JOIN batch b ON b.id = t.batch \
                 WHERE t.task = ?1 AND b.status IN ('PENDING','RUNNING') AND t.phase <> 'finished' ORDER BY b.pk",
            )
            .doing("read a task's batches")?;
        let rows = statement
            .query_map([task.to_string()], |row| parsed(row, "id"))
            .doing("read a task's batches")?;
        rows.collect::<rusqlite::Result<_>>()
            .doing("read a task's batches")
    }
}

impl Tx<'_> {
    /// Stores a batch that runs from now on, with so many tasks, whose rows the caller adds.
    pub(crate) fn insert_batch(
        &mut self,
        id: BatchId,
        settings: &Settings,
        tasks: usize,
    ) -> Result<()> {
        self.append(
            Event::new(EventType::BatchStarted)
                .batch(id)
                .with("tasks", tasks)
                .with(
                    "settings",
                    serde_json::to_value(settings).expect("settings are JSON"),
                ),
        )?;
        self.conn
            .execute(
                "INSERT INTO batch (id, status, settings, started_at_ms) VALUES (?1, 'RUNNING', ?2, ?3)",
                (id.to_string(), to_json(settings), self.now.as_millisecond()),
            )
            .doing("store a batch")?;
        Ok(())
    }

    /// The same with the rows of these tasks, as a batch has them that has not looked at them.
    #[cfg(test)]
    pub(crate) fn insert_batch_of(
        &mut self,
        id: BatchId,
        settings: &Settings,
        tasks: &[TaskId],
    ) -> Result<()> {
        self.insert_batch(id, settings, tasks.len())?;
        for (task, position) in tasks.iter().zip(0..) {
            self.insert_batch_task(id, &BatchTask::new(*task, position))?;
        }
        Ok(())
    }

    /// Adds a task to a batch, as it stands there.
    pub(crate) fn insert_batch_task(&mut self, batch: BatchId, row: &BatchTask) -> Result<()> {
        self.conn
            .prepare_cached(
                "INSERT INTO batch_task (batch, task, phase, outcome, reason, attempts, failures, not_before_ms, since_seq, \
                 started_at_ms, ended_at_ms, take_up_seq, position) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
            )
            .and_then(|mut s| {
                s.execute(rusqlite::params![
                    batch.to_string(),
                    row.task.to_string(),
                    row.phase.as_str(),
                    row.outcome.map(Outcome::as_str),
                    row.reason,
                    row.attempts,
                    row.failures,
                    row.not_before.map(Timestamp::as_millisecond),
                    row.since_seq,
                    row.started_at.map(Timestamp::as_millisecond),
                    row.ended_at.map(Timestamp::as_millisecond),
                    row.take_up_seq,
                    row.position,
                ])
            })
            .doing("store a batch's tasks")
            .map(drop)
    }

    /// Adds a task that was just made to a batch that has not ended, behind all others. Its conductor takes it in when
    /// it reads the event, which says `joined`; without a conductor `resume` does.
    ///
    /// # Errors
    ///
    /// The caller is an agent, the batch has ended or is stopping, nothing says how the task is run, or SQLite refuses.
    pub fn join_batch(&mut self, id: BatchId, task: TaskId) -> Result<()> {
        self.refuse_agent("add a task to a batch")?;
        let batch = self.reader().batch(id)?;
        let row = self.live_task(task)?;
        let refuse = |why: String, hint: String| {
            Err(StoreError::Refused {
                what: format!("batch {} takes no task: {why}", id.short()),
                hint: Some(hint),
            })
        };
        if batch.status.is_final() {
            return refuse(
                format!("it has ended ({})", batch.status),
                "leave out --batch, and run the task in a batch of its own".to_owned(),
            );
        }
        if batch.stop.is_some() {
            let hint = "add the task without --batch; `cf resume` does not take it up";
            return refuse("it is stopping".to_owned(), hint.to_owned());
        }
        if row.run.is_none() && row.engine.is_none() && batch.settings.engine.is_none() {
            return refuse(
                "it has no engine, and the task neither script nor engine".to_owned(),
                "give --run or --engine".to_owned(),
            );
        }
        let seq = self.append(
            Event::new(EventType::BatchTaskQueued)
                .task(task)
                .batch(id)
                .with("label", row.label().as_str())
                .with("phase", Phase::Waiting.as_str())
                .with("joined", true),
        )?;
        self.conn
            .execute(
                "INSERT INTO batch_task (batch, position, task, phase, take_up_seq) \
                 SELECT ?1, coalesce(max(position) + 1, 0), ?2, 'waiting', ?3 FROM batch_task WHERE batch = ?1",
                (id.to_string(), task.to_string(), seq),
            )
            .doing("add a task to a batch")
            .map(drop)
    }

    /// Stores that a batch goes on, perhaps with other settings. What it came to when it ended is forgotten.
    pub(crate) fn reopen_batch(&mut self, id: BatchId, settings: &Settings) -> Result<()> {
        self.append(Event::new(EventType::BatchResumed).batch(id).with(
            "settings",
            serde_json::to_value(settings).expect("settings are JSON"),
        ))?;
        self.conn
            .execute(
                "UPDATE batch SET status = 'RUNNING', settings = ?2, stop = NULL, exit_code = NULL, ended_at_ms = NULL \
                 WHERE id = ?1",
                (id.to_string(), to_json(settings)),
            )
            .doing("reopen a batch")?;
        self.forget_totals(id).map(drop)
    }

    /// Stores where a task stands in a batch.
    pub(crate) fn store_batch_task(&mut self, batch: BatchId, row: &BatchTask) -> Result<()> {
        self.conn
            .prepare_cached(
                "UPDATE batch_task SET phase = ?3, outcome = ?4, reason = ?5, attempts = ?6, failures = ?7, \
                 not_before_ms = ?8, since_seq = ?9, started_at_ms = ?10, ended_at_ms = ?11, take_up_seq = ?12 WHERE batch = ?1 AND task = ?2",
            )
            .and_then(|mut s| {
                s.execute(rusqlite::params![
                    batch.to_string(),
                    row.task.to_string(),
                    row.phase.as_str(),
                    row.outcome.map(Outcome::as_str),
                    row.reason,
                    row.attempts,
                    row.failures,
                    row.not_before.map(Timestamp::as_millisecond),
                    row.since_seq,
                    row.started_at.map(Timestamp::as_millisecond),
                    row.ended_at.map(Timestamp::as_millisecond),
                    row.take_up_seq,
                ])
            })
            .doing("store a batch's task")
            .map(drop)
    }

    /// Claims a task, as it was read in this transaction, for an attempt: READY (or, between two attempts, IN_PROGRESS
    /// and claimed by this batch), without an attempt that may be alive.
    pub(crate) fn claim(&mut self, new: &NewAttempt, task: &Task) -> Result<Claim> {
        let is_unfenced = crate::fault::is_broken("claim.unfenced");
        let may_live = self.reader().has_open_attempt(new.task)?;
        if task.deleted || (may_live && !is_unfenced) {
            return Ok(Claim::Lost);
        }
        let generation = task.generation + 1;
        let version = match task.status {
            TaskStatus::Ready => {
                let by = self.actor.clone();
                let current = Some((new.id, generation));
                match self.write_status_of(task, TaskStatus::InProgress, &by, None, current)? {
                    StatusWrite::Changed { version, .. } => version,
                    StatusWrite::Same | StatusWrite::Lost | StatusWrite::Reported => {
                        return Ok(Claim::Lost);
                    }
                }
            }
            TaskStatus::InProgress if task.claim == Some(new.batch) || is_unfenced => {
                self.number_attempt(new, generation)?;
                task.version
            }
            _ => return Ok(Claim::Lost),
        };
        self.insert_attempt(new, generation)?;
        Ok(Claim::Got {
            generation,
            version,
        })
    }

    /// Writes the status that the end of a task's attempt asks for, if the task is still as the batch left it.
    /// Returns the write, or [`StatusWrite::Lost`] when somebody wrote in between.
    pub(crate) fn settle_status(
        &mut self,
        task: TaskId,
        attempt: AttemptId,
        version: u64,
        to: TaskStatus,
    ) -> Result<StatusWrite> {
        let row: Task = self.reader().task(task)?;
        let is_as_read = row.version == version && row.attempt == Some(attempt);
        if row.deleted || !(is_as_read || crate::fault::is_broken("outcome.overwrites")) {
            return Ok(StatusWrite::Lost);
        }
        let by = self.actor.clone();
        self.write_status(&row, to, &by, None)
    }

    /// Asks a batch to stop. A stop that forces replaces one that does not; the other way round nothing changes.
    ///
    /// # Errors
    ///
    /// The caller is an agent, the batch has ended, or SQLite refuses.
    pub fn request_stop(&mut self, id: BatchId, stop: Stop) -> Result<bool> {
        self.refuse_agent("stop a batch")?;
        let batch = self.reader().batch(id)?;
        if batch.status.is_final() {
            return Err(StoreError::Refused {
                what: format!("batch {} has ended already ({})", id.short(), batch.status),
                hint: None,
            });
        }
        if batch.stop >= Some(stop) {
            return Ok(false);
        }
        let word = match stop {
            Stop::Drain => "drain",
            Stop::Force => "force",
        };
        self.conn
            .execute(
                "UPDATE batch SET stop = ?2 WHERE id = ?1",
                (id.to_string(), word),
            )
            .doing("store a stop")?;
        self.append(
            Event::new(EventType::BatchStopRequested)
                .batch(id)
                .with("force", stop == Stop::Force),
        )?;
        Ok(true)
    }

    /// Ends a claim that nobody holds any more: its batch is gone, and it had no attempt that may be alive.
    pub(crate) fn release_claim(&mut self, task: TaskId, batch: BatchId) -> Result<()> {
        let row = self.reader().task(task)?;
        if !row.deleted
            && row.status == TaskStatus::InProgress
            && row.claim == Some(batch)
            && !self.reader().has_open_attempt(task)?
        {
            let by = cf_core::Actor::System;
            self.write_status(&row, TaskStatus::Ready, &by, None)?;
        }
        Ok(())
    }

    /// Stores the end of a batch, and what it has come to.
    pub(crate) fn end_batch(
        &mut self,
        id: BatchId,
        status: BatchStatus,
        exit_code: u8,
    ) -> Result<()> {
        self.conn
            .execute(
                "UPDATE batch SET status = ?2, exit_code = ?3, ended_at_ms = ?4 WHERE id = ?1 AND status IN ('PENDING','RUNNING')",
                (id.to_string(), status.as_str(), exit_code, self.now.as_millisecond()),
            )
            .doing("store the end of a batch")?;
        self.store_totals(id)?;
        let kind = match status {
            BatchStatus::Partial => EventType::BatchPartial,
            BatchStatus::Failed => EventType::BatchFailed,
            BatchStatus::Cancelled => EventType::BatchCancelled,
            BatchStatus::Completed | BatchStatus::Pending | BatchStatus::Running => {
                EventType::BatchCompleted
            }
        };
        self.append(Event::new(kind).batch(id).with("exit_code", exit_code))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
