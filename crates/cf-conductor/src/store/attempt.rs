//! Attempts: one start of an agent for a task, from the stored identity of its supervisor to its end.

use cf_core::{
    Actor, AttemptEnd, AttemptId, BatchId, Ending, EventType, SupervisorId, TaskId, TaskStatus,
    Timestamp,
};
use rusqlite::{OptionalExtension as _, Row};
use serde_json::{Value, json};

use super::event::Event;
use super::ids::IdSet;
use super::sql::{json_opt, parsed, parsed_opt, time, time_opt, to_json};
use super::task::{StatusWrite, Task};
use super::{Doing as _, Reader, Result, StoreError, Tx};
use crate::engine::{SuccessRule, Tokens};
use crate::process::Identity;
use crate::supervise::Stage;

/// How much of what an agent said last stands in the event of its end.
const SAID_CHARS: usize = 300;

/// An attempt as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// Its id.
    pub id: AttemptId,
    /// Its task.
    pub task: TaskId,
    /// The batch that started it.
    pub batch: BatchId,
    /// 1, 2, … per task.
    pub generation: u32,
    /// The engine that it was started with.
    pub engine: String,
    /// How its output is read; none for one from before this was stored.
    pub format: Option<SuccessRule>,
    /// Whether the agent or the verification is at it, or was last.
    pub stage: Stage,
    /// The supervisor that has it, or had it.
    pub supervisor: Identity,
    /// Whether it may still be alive: no exit record, no clean receipt, not lost.
    pub open: bool,
    /// How much is known of its end.
    pub end: Option<AttemptEnd>,
    /// How the agent's process ended.
    pub ending: Option<Ending>,
    /// Whether it counts as a success.
    pub success: Option<bool>,
    /// Why it ended as it did.
    pub reason: Option<String>,
    /// The status that the agent reported for its own task.
    pub report: Option<TaskStatus>,
    /// The last thing that the agent said.
    pub last_said: Option<String>,
    /// The session of the agent program, for those that can be resumed.
    pub session: Option<String>,
    /// The session of an earlier attempt that it was started to go on with.
    pub resumes: Option<String>,
    /// Tokens used, read and written, where the agent reports them.
    pub tokens: Option<u64>,
    /// How many of them the model read from a cache.
    pub cached_tokens: Option<u64>,
    /// How many of them the model wrote.
    pub output_tokens: Option<u64>,
    /// Cost in millionths of a dollar, where the agent reports it.
    pub cost_micro_usd: Option<u64>,
    /// How many processes it left behind, which were stopped.
    pub left_behind: u32,
    /// How many bytes of its output could not be written, for example because the disk was full.
    pub output_lost: u64,
    /// The exit record or the kill receipt, where it was read.
    pub record: Option<Value>,
    /// When it was stored, just before its agent could start.
    pub started_at: Timestamp,
    /// When it ended, by the record of its supervisor; where there is none, when its end was stored.
    pub ended_at: Option<Timestamp>,
}

/// Selects the columns of an attempt; what is given stands in the place of its record.
macro_rules! attempt {
    ($record:literal) => {
        concat!(
            "SELECT id, task, batch, generation, engine, format, stage, supervisor, supervisor_pid, start_ticks, \
             boot_id, pid_ns, open, ending, agent_ending, success, reason, report, last_said, session, tokens, \
             cached_tokens, output_tokens, cost_micro_usd, left_behind, ",
            $record,
            ", started_at_ms, ended_at_ms, resumes, output_lost FROM attempt"
        )
    };
}

const ATTEMPT: &str = attempt!("record");

/// To read the records of ten thousand attempts would cost a quarter of a report about them, which has no use for one.
const WITHOUT_RECORD: &str = attempt!("NULL");

impl Attempt {
    /// Reads a row of [`ATTEMPT`], by the places of its columns.
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: parsed(row, 0)?,
            task: parsed(row, 1)?,
            batch: parsed(row, 2)?,
            generation: row.get(3)?,
            engine: row.get(4)?,
            // A word that this version does not know is as good as none.
            format: row
                .get_ref(5)?
                .as_str_or_null()?
                .and_then(SuccessRule::from_word),
            stage: if row.get_ref(6)?.as_str()? == "verify" {
                Stage::Verify
            } else {
                Stage::Agent
            },
            supervisor: Identity {
                supervisor: parsed::<SupervisorId>(row, 7)?,
                pid: row.get(8)?,
                start_ticks: row.get(9)?,
                boot_id: row.get(10)?,
                pid_ns: row.get(11)?,
            },
            open: row.get(12)?,
            end: parsed_opt(row, 13)?,
            ending: json_opt(row, 14)?,
            success: row.get(15)?,
            reason: row.get(16)?,
            report: parsed_opt(row, 17)?,
            last_said: row.get(18)?,
            session: row.get(19)?,
            resumes: row.get(28)?,
            tokens: row.get(20)?,
            cached_tokens: row.get(21)?,
            output_tokens: row.get(22)?,
            cost_micro_usd: row.get(23)?,
            left_behind: row.get(24)?,
            output_lost: row.get(29)?,
            record: json_opt(row, 25)?,
            started_at: time(row, 26)?,
            ended_at: time_opt(row, 27)?,
        })
    }

    pub(crate) fn set_used(&mut self, used: Option<Tokens>) {
        self.tokens = used.map(Tokens::total);
        self.cached_tokens = used.map(|used| used.cached);
        self.output_tokens = used.map(|used| used.output);
    }

    /// The tokens that its agent used, where it reports them.
    pub fn used(&self) -> Option<Tokens> {
        let output = self.output_tokens.unwrap_or_default();
        Some(Tokens {
            input: self.tokens?.saturating_sub(output),
            cached: self.cached_tokens.unwrap_or_default(),
            output,
        })
    }
}

/// What a new attempt is made of.
#[derive(Clone, Debug)]
pub struct NewAttempt {
    /// Its id, chosen before its files are made.
    pub id: AttemptId,
    /// Its task.
    pub task: TaskId,
    /// The batch that starts it.
    pub batch: BatchId,
    /// The engine that it is started with.
    pub engine: String,
    /// How its output is read.
    pub format: SuccessRule,
    /// The session of an earlier attempt that it goes on with.
    pub resumes: Option<String>,
    /// The supervisor that waits at its gate.
    pub supervisor: Identity,
}

/// How an attempt ended, as its conductor judged it.
#[derive(Clone, Debug)]
pub struct AttemptResult {
    /// How much is known of the end.
    pub end: AttemptEnd,
    /// How the agent's process ended.
    pub ending: Option<Ending>,
    /// Whether it counts as a success.
    pub success: bool,
    /// Why it ended as it did.
    pub reason: String,
    /// The last thing that the agent said.
    pub last_said: Option<String>,
    /// The session of the agent program.
    pub session: Option<String>,
    /// Tokens used.
    pub tokens: Option<Tokens>,
    /// Cost in millionths of a dollar.
    pub cost_micro_usd: Option<u64>,
    /// How many processes it left behind.
    pub left_behind: u32,
    /// How many bytes of its output could not be written.
    pub output_lost: u64,
    /// The exit record or the kill receipt.
    pub record: Value,
}

impl AttemptResult {
    /// When it ended, as its supervisor's record says, but not after `now`; `now` without a record that says so.
    pub(crate) fn ended_at(&self, now: Timestamp) -> Timestamp {
        let at = self.record.get("at_ms").and_then(Value::as_i64);
        at.and_then(|at| Timestamp::from_millisecond(at).ok())
            .map_or(now, |at| at.min(now))
    }
}

impl Reader<'_> {
    /// One attempt.
    ///
    /// # Errors
    ///
    /// SQLite refuses, or there is no such attempt.
    pub fn attempt(&self, id: AttemptId) -> Result<Attempt> {
        self.conn
            .prepare_cached(&format!("{ATTEMPT} WHERE id = ?1"))
            .and_then(|mut s| s.query_row([id.to_string()], Attempt::from_row).optional())
            .doing("read an attempt")?
            .ok_or_else(|| StoreError::Unknown {
                what: "attempt",
                given: id.to_string(),
                similar: Vec::new(),
            })
    }

    /// Whether there is such an attempt.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn has_attempt(&self, id: AttemptId) -> Result<bool> {
        self.conn
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM attempt WHERE id = ?1)")
            .and_then(|mut s| s.query_row([id.to_string()], |row| row.get(0)))
            .doing("read an attempt")
    }

    /// The status that an attempt reported for its own task, if it did.
    ///
    /// # Errors
    ///
    /// SQLite refuses, or there is no such attempt.
    pub(crate) fn report_of(&self, id: AttemptId) -> Result<Option<TaskStatus>> {
        self.conn
            .prepare_cached("SELECT report FROM attempt WHERE id = ?1")
            .and_then(|mut s| s.query_row([id.to_string()], |row| parsed_opt(row, 0)))
            .doing("read an attempt")
    }

    /// All attempts of a task, oldest first.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn attempts(&self, task: TaskId) -> Result<Vec<Attempt>> {
        self.attempt_list("WHERE task = ?1 ORDER BY generation", &task.to_string())
    }

    /// The first event of an attempt of a task; 0 when there is none. What has a greater number came after its start.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn began_seq(&self, task: TaskId, attempt: AttemptId) -> Result<u64> {
        self.conn
            .prepare_cached(
                "SELECT coalesce(min(seq), 0) FROM event WHERE task = ?1 AND attempt = ?2",
            )
            .and_then(|mut s| {
                s.query_row((task.to_string(), attempt.to_string()), |row| row.get(0))
            })
            .doing("find the start of an attempt")
    }

    /// Whether what a task says was changed after an event.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn was_edited_after(&self, task: TaskId, seq: u64) -> Result<bool> {
        self.conn
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM event WHERE task = ?1 AND seq > ?2 AND type = ?3)",
            )
            .and_then(|mut s| {
                let kind = EventType::TaskEdited.as_str();
                s.query_row((task.to_string(), seq, kind), |row| row.get(0))
            })
            .doing("look for changes of a task")
    }

    /// The attempts of a task that may still be alive.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn open_attempts_of(&self, task: TaskId) -> Result<Vec<Attempt>> {
        self.attempt_list(
            "WHERE task = ?1 AND open = 1 ORDER BY generation",
            &task.to_string(),
        )
    }

    /// Every attempt of the workspace that may still be alive.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn open_attempts(&self) -> Result<Vec<Attempt>> {
        // Left to itself SQLite reads all attempts there ever were, in the order that is asked for.
        self.attempt_list(
            "INDEXED BY attempt_open WHERE open = 1 AND id <> ?1 ORDER BY pk",
            "",
        )
    }

    /// The attempts that a batch started, oldest first, without their records.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn attempts_of_batch(&self, batch: BatchId) -> Result<Vec<Attempt>> {
        let sql = format!("{WITHOUT_RECORD} WHERE batch = ?1 ORDER BY pk");
        self.attempts_by(&sql, &batch.to_string())
    }

    /// The attempts of a batch that may still be alive, in the order in which they started.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn open_attempts_of_batch(&self, batch: BatchId) -> Result<Vec<Attempt>> {
        // The few that are open are found by their own index, not among all of the batch.
        self.attempt_list(
            "INDEXED BY attempt_open WHERE open = 1 AND batch = ?1 ORDER BY pk",
            &batch.to_string(),
        )
    }

    /// What the agents of a batch report to have used: tokens, and cost in millionths of a dollar, each at most 2^53.
    /// None where nobody reports it.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn used_in_batch(&self, batch: BatchId) -> Result<(Option<u64>, Option<u64>)> {
        self.conn
            .prepare_cached(
                // A sum of integers is an error when it overflows; that of reals is exact up to the limit.
                "SELECT CAST(min(sum(tokens + 0.0), ?2) AS INTEGER), \
                        CAST(min(sum(cost_micro_usd + 0.0), ?2) AS INTEGER) \
                 FROM attempt WHERE batch = ?1 AND (tokens IS NOT NULL OR cost_micro_usd IS NOT NULL)",
            )
            .and_then(|mut s| {
                let most = 1_u64 << 53;
                s.query_row((batch.to_string(), most), |row| Ok((row.get(0)?, row.get(1)?)))
            })
            .doing("add up what agents used")
    }

    fn attempt_list(&self, which: &str, parameter: &str) -> Result<Vec<Attempt>> {
        self.attempts_by(&format!("{ATTEMPT} {which}"), parameter)
    }

    fn attempts_by(&self, sql: &str, parameter: &str) -> Result<Vec<Attempt>> {
        let mut statement = self.conn.prepare_cached(sql).doing("read attempts")?;
        let rows = statement
            .query_map([parameter], Attempt::from_row)
            .doing("read attempts")?;
        rows.collect::<rusqlite::Result<_>>().doing("read attempts")
    }

    /// The tasks that have an attempt which may still be alive.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn tasks_with_open_attempts(&self) -> Result<IdSet> {
        let mut statement = self
            .conn
            .prepare_cached("SELECT task FROM attempt INDEXED BY attempt_open WHERE open = 1")
            .doing("read attempts")?;
        let rows = statement
            .query_map([], |row| parsed(row, 0))
            .doing("read attempts")?;
        rows.collect::<rusqlite::Result<_>>().doing("read attempts")
    }

    /// Whether the task has an attempt that may still be alive.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn has_open_attempt(&self, task: TaskId) -> Result<bool> {
        self.conn
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM attempt WHERE task = ?1 AND open = 1)")
            .and_then(|mut s| s.query_row([task.to_string()], |row| row.get(0)))
            .doing("read attempts")
    }
}

impl Tx<'_> {
    /// The task of the attempt that calls, when it is that task's current, live one.
    ///
    /// # Errors
    ///
    /// It is over or was replaced, or SQLite refuses.
    pub(crate) fn current_task_of(&self, attempt: AttemptId) -> Result<TaskId> {
        let stale = StoreError::StaleAttempt { attempt };
        let row = match self.reader().attempt(attempt) {
            Ok(row) => row,
            Err(StoreError::Unknown { .. }) => return Err(stale),
            Err(other) => return Err(other),
        };
        let task = self.reader().task(row.task)?;
        if row.open && task.attempt == Some(attempt) && !task.deleted {
            Ok(row.task)
        } else {
            Err(stale)
        }
    }

    /// Stores what an agent reports of its own task. See [`Tx::set_status`].
    pub(crate) fn report(
        &mut self,
        task: &Task,
        attempt: AttemptId,
        to: TaskStatus,
    ) -> Result<StatusWrite> {
        match self.current_task_of(attempt) {
            Ok(own) if own == task.id => {}
            Ok(_) => {
                return Err(StoreError::NotForAgents {
                    deed: "set the status of another task".to_owned(),
                });
            }
            Err(stale) => return Err(stale),
        }
        if !matches!(to, TaskStatus::Done | TaskStatus::Failed) {
            return Err(StoreError::NotForAgents {
                deed: format!("set its task to {to}; it may report DONE or FAILED"),
            });
        }
        self.conn
            .execute(
                "UPDATE attempt SET report = ?2 WHERE id = ?1",
                (attempt.to_string(), to.as_str()),
            )
            .doing("store a report")?;
        self.append(
            Event::new(EventType::AttemptReported)
                .task(task.id)
                .attempt(attempt)
                .with("status", to.as_str()),
        )?;
        Ok(StatusWrite::Reported)
    }

    /// Keeps what came too late, or from an attempt that is not the current one. Nothing acts on it.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn keep_stale(
        &mut self,
        task: Option<TaskId>,
        attempt: AttemptId,
        said: Value,
    ) -> Result<()> {
        let mut event = Event::new(EventType::AttemptStaleResult)
            .attempt(attempt)
            .with("result", said);
        event.task = task;
        if let Ok(row) = self.reader().attempt(attempt) {
            event.task = event.task.or(Some(row.task));
            event.batch = Some(row.batch);
        }
        self.append(event)?;
        Ok(())
    }

    /// Makes a new attempt its task's current one, where the claim on the task is older.
    pub(super) fn number_attempt(&mut self, new: &NewAttempt, generation: u32) -> Result<()> {
        self.conn
            .prepare_cached("UPDATE task SET attempt = ?2, generation = ?3 WHERE id = ?1")
            .and_then(|mut s| s.execute((new.task.to_string(), new.id.to_string(), generation)))
            .doing("number an attempt")
            .map(drop)
    }

    /// Stores a new attempt, with the identity of the supervisor that waits at its gate.
    pub(super) fn insert_attempt(&mut self, new: &NewAttempt, generation: u32) -> Result<()> {
        self.conn
            .prepare_cached(
                "INSERT INTO attempt (id, task, batch, generation, engine, stage, supervisor, supervisor_pid, \
                 start_ticks, boot_id, pid_ns, open, started_at_ms, format, resumes) \
                 VALUES (?1, ?2, ?3, ?4, ?5, 'agent', ?6, ?7, ?8, ?9, ?10, 1, ?11, ?12, ?13)",
            )
            .and_then(|mut s| {
                s.execute((
                    new.id.to_string(),
                    new.task.to_string(),
                    new.batch.to_string(),
                    generation,
                    &new.engine,
                    new.supervisor.supervisor.to_string(),
                    new.supervisor.pid,
                    new.supervisor.start_ticks,
                    &new.supervisor.boot_id,
                    new.supervisor.pid_ns,
                    self.now.as_millisecond(),
                    new.format.as_str(),
                    &new.resumes,
                ))
            })
            .doing("store an attempt")
            .map(drop)
    }

    /// Moves an attempt on to its verification, under the supervisor that will run it.
    ///
    /// What is known of its agent is stored now, so that a crash during the verification does not lose it.
    pub(crate) fn begin_verification(
        &mut self,
        attempt: &Attempt,
        supervisor: &Identity,
        agent: &AttemptResult,
    ) -> Result<()> {
        self.conn
            .execute(
                "UPDATE attempt SET stage = 'verify', supervisor = ?2, supervisor_pid = ?3, start_ticks = ?4, \
                 boot_id = ?5, pid_ns = ?6, agent_ending = ?7, last_said = ?8, session = ?9, tokens = ?10, \
                 cost_micro_usd = ?11, left_behind = ?12, cached_tokens = ?13, output_tokens = ?14, output_lost = ?15 WHERE id = ?1",
                rusqlite::params![
                    attempt.id.to_string(),
                    supervisor.supervisor.to_string(),
                    supervisor.pid,
                    supervisor.start_ticks,
                    supervisor.boot_id,
                    supervisor.pid_ns,
                    agent.ending.as_ref().map(to_json),
                    agent.last_said,
                    agent.session,
                    agent.tokens.map(Tokens::total),
                    agent.cost_micro_usd,
                    agent.left_behind,
                    agent.tokens.map(|used| used.cached),
                    agent.tokens.map(|used| used.output),
                    agent.output_lost,
                ],
            )
            .doing("move an attempt on to its verification")?;
        self.refresh_totals(attempt.batch)?;
        self.append(
            Event::new(EventType::AttemptVerifying)
                .task(attempt.task)
                .batch(attempt.batch)
                .attempt(attempt.id),
        )?;
        Ok(())
    }

    /// Stores the end of an attempt. Returns whether it was open until now.
    ///
    /// An unclean end leaves it open: something of it is alive. It ended when its supervisor says, which may be long
    /// before anybody was there to store it.
    pub(crate) fn end_attempt(&mut self, id: AttemptId, result: &AttemptResult) -> Result<bool> {
        let open = result.end == AttemptEnd::Unclean;
        let changed = self
            .conn
            .prepare_cached(
                "UPDATE attempt SET open = ?2, ending = ?3, agent_ending = ?4, success = ?5, reason = ?6, \
                 last_said = ?7, session = ?8, tokens = ?9, cost_micro_usd = ?10, left_behind = ?11, record = ?12, \
                 ended_at_ms = max(started_at_ms, ?13), cached_tokens = ?14, output_tokens = ?15, output_lost = ?16 \
                 WHERE id = ?1 AND open = 1 AND ending IS NULL",
            )
            .and_then(|mut s| {
                s.execute(rusqlite::params![
                    id.to_string(),
                    open,
                    result.end.as_str(),
                    result.ending.as_ref().map(to_json),
                    result.success,
                    result.reason,
                    result.last_said,
                    result.session,
                    result.tokens.map(Tokens::total),
                    result.cost_micro_usd,
                    result.left_behind,
                    result.record.to_string(),
                    result.ended_at(self.now).as_millisecond(),
                    result.tokens.map(|used| used.cached),
                    result.tokens.map(|used| used.output),
                    result.output_lost,
                ])
            })
            .doing("store the end of an attempt")?;
        if changed > 0 {
            let (task, batch) = self.whose(id)?;
            if result.tokens.is_some() || result.cost_micro_usd.is_some() {
                self.refresh_totals(batch)?;
            }
            let mut event = Event::new(EventType::AttemptEnded)
                .task(task)
                .batch(batch)
                .attempt(id)
                .with("end", result.end.as_str())
                .with("success", result.success)
                .with("reason", result.reason.as_str())
                .with("ended_at", result.ended_at(self.now).to_string());
            let sent = |name| result.record.get(name).is_some_and(|at| !at.is_null());
            let signals: Vec<&str> = [("term_at_ms", "SIGTERM"), ("kill_at_ms", "SIGKILL")]
                .into_iter()
                .filter_map(|(at, signal)| sent(at).then_some(signal))
                .collect();
            if !signals.is_empty() {
                event = event.with("signals", signals);
            }
            if result.left_behind > 0 {
                event = event.with("left_behind", result.left_behind);
            }
            if result.output_lost > 0 {
                event = event.with("output_lost", result.output_lost);
            }
            self.append(with_words(event, result))?;
        }
        Ok(changed > 0)
    }

    fn whose(&self, id: AttemptId) -> Result<(TaskId, BatchId)> {
        self.conn
            .prepare_cached("SELECT task, batch FROM attempt WHERE id = ?1")
            .and_then(|mut s| {
                s.query_row([id.to_string()], |row| {
                    Ok((parsed(row, 0)?, parsed(row, 1)?))
                })
            })
            .doing("read an attempt")
    }

    /// Closes an attempt whose survivors are gone.
    pub(crate) fn close_unclean(&mut self, attempt: &Attempt) -> Result<()> {
        let changed = self
            .conn
            .execute(
                "UPDATE attempt SET open = 0, ending = 'killed' WHERE id = ?1 AND open = 1",
                [attempt.id.to_string()],
            )
            .doing("close an attempt")?;
        if changed > 0 {
            self.append(
                Event::new(EventType::AttemptCleaned)
                    .task(attempt.task)
                    .batch(attempt.batch)
                    .attempt(attempt.id),
            )?;
        }
        Ok(())
    }

    /// An attempt as an actor.
    pub(crate) const fn actor_of(attempt: AttemptId) -> Actor {
        Actor::Attempt(attempt)
    }

    /// Makes an attempt, and the claim on its task, another batch's.
    pub(crate) fn move_attempt(&mut self, attempt: &Attempt, batch: BatchId) -> Result<()> {
        self.conn
            .execute(
                "UPDATE attempt SET batch = ?2 WHERE id = ?1",
                (attempt.id.to_string(), batch.to_string()),
            )
            .doing("take over an attempt")?;
        // The batch from which it comes may have ended, and no longer counts what it used.
        self.refresh_totals(attempt.batch)?;
        self.conn
            .execute(
                "UPDATE task SET claim = ?3 WHERE id = ?1 AND attempt = ?2 AND claim = ?4",
                (
                    attempt.task.to_string(),
                    attempt.id.to_string(),
                    batch.to_string(),
                    attempt.batch.to_string(),
                ),
            )
            .doing("take over a claim")?;
        self.append(
            Event::new(EventType::AttemptAdopted)
                .task(attempt.task)
                .batch(batch)
                .attempt(attempt.id)
                .with("from", attempt.batch.to_string())
                .with("format", attempt.format.map(SuccessRule::as_str))
                .with("started_at", attempt.started_at.to_string()),
        )?;
        Ok(())
    }
}

/// Adds to the event of an end what the agent said of itself, as far as it did.
fn with_words(mut event: Event, result: &AttemptResult) -> Event {
    if let Some(said) = &result.last_said {
        event = event.with("last_said", crate::engine::one_line(said, SAID_CHARS));
    }
    if let Some(session) = &result.session {
        event = event.with("session", session.as_str());
    }
    if let Some(used) = result.tokens {
        event = event.with("tokens", json!(used));
    }
    if let Some(cost) = result.cost_micro_usd {
        event = event.with("cost_micro_usd", cost);
    }
    event
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case(json!({ "at_ms": 5_000 }) => 5_000; "as the record says")]
    #[test_case(json!({ "at_ms": 9_001 }) => 9_000; "not in the future")]
    #[test_case(json!({ "at_ms": i64::MAX }) => 9_000; "no time at all")]
    #[test_case(Value::Null => 9_000; "without a record now")]
    fn an_attempt_ends(record: Value) -> i64 {
        let result = AttemptResult {
            end: AttemptEnd::Exited,
            ending: None,
            success: false,
            reason: String::new(),
            last_said: None,
            session: None,
            tokens: None,
            cost_micro_usd: None,
            left_behind: 0,
            output_lost: 0,
            record,
        };
        let now = Timestamp::from_millisecond(9_000).unwrap();
        result.ended_at(now).as_millisecond()
    }
}
