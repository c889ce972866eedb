//! Blockers: questions that hold a task until a person answers.

use cf_core::{
    Actor, Asker, AttemptId, BlockerId, BlockerStatus, EventType, TaskId, TaskStatus, Timestamp,
};
use rusqlite::{OptionalExtension as _, Row};

use super::event::Event;
use super::ids::ById;
use super::sql::{parsed, parsed_opt, time, time_opt};
use super::typed::refuse_nul;
use super::{Doing as _, Reader, Result, StoreError, Tx};

/// A blocker as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// Its id.
    pub id: BlockerId,
    /// The task that it holds; one without holds nothing.
    pub task: Option<TaskId>,
    /// What was asked.
    pub question: String,
    /// What was answered.
    pub answer: Option<String>,
    /// Where it stands.
    pub status: BlockerStatus,
    /// Who asked.
    pub asked_by: Asker,
    /// The attempt that asked.
    pub asked_attempt: Option<AttemptId>,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// When it was answered or resolved.
    pub answered_at: Option<Timestamp>,
    /// The event that asked it.
    pub asked_seq: u64,
    /// The event that answered or resolved it.
    pub closed_seq: Option<u64>,
}

impl Blocker {
    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: parsed(row, "id")?,
            task: parsed_opt(row, "task")?,
            question: row.get("question")?,
            answer: row.get("answer")?,
            status: parsed(row, "status")?,
            asked_by: parsed(row, "asked_by")?,
            asked_attempt: parsed_opt(row, "asked_attempt")?,
            asked_at: time(row, "asked_at_ms")?,
            answered_at: time_opt(row, "answered_at_ms")?,
            asked_seq: row.get("asked_seq")?,
            closed_seq: row.get("closed_seq")?,
        })
    }
}

/// What the blockers of a task amount to, for the decision table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockerSummary {
    /// How many are open.
    pub open: u64,
    /// The newest event that answered or resolved one; 0 when there is none.
    pub last_closed_seq: u64,
    /// The newest event that answered one; 0 when there is none.
    pub last_answered_seq: u64,
}

/// A question that was asked elsewhere, as another program has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForeignBlocker {
    /// Its id, which it keeps.
    pub(crate) id: BlockerId,
    /// The task that it is about.
    pub(crate) task: Option<TaskId>,
    /// What was asked.
    pub(crate) question: String,
    /// What was answered.
    pub(crate) answer: Option<String>,
    /// Where it stands.
    pub(crate) status: BlockerStatus,
    /// Who asked.
    pub(crate) asked_by: Asker,
    /// When it was asked, if that is known.
    pub(crate) asked_at: Option<Timestamp>,
    /// When it was answered or resolved, if that is known.
    pub(crate) answered_at: Option<Timestamp>,
}

const SUMMED: &str = "SELECT task, status, closed_seq FROM blocker";

impl BlockerSummary {
    /// Counts a row of [`SUMMED`] in.
    fn add(&mut self, row: &Row<'_>) -> rusqlite::Result<()> {
        let closed = row.get::<_, Option<u64>>(2)?.unwrap_or(0);
        self.last_closed_seq = self.last_closed_seq.max(closed);
        match parsed(row, 1)? {
            BlockerStatus::Open => self.open += 1,
            BlockerStatus::Answered => self.last_answered_seq = self.last_answered_seq.max(closed),
            BlockerStatus::Resolved => {}
        }
        Ok(())
    }
}

impl Reader<'_> {
    /// One blocker.
    ///
    /// # Errors
    ///
    /// SQLite refuses, or there is no such blocker.
    pub fn blocker(&self, id: BlockerId) -> Result<Blocker> {
        self.conn
            .prepare_cached("SELECT * FROM blocker WHERE id = ?1")
            .and_then(|mut s| s.query_row([id.to_string()], Blocker::from_row).optional())
            .doing("read a blocker")?
            .ok_or_else(|| StoreError::Unknown {
                what: "blocker",
                given: id.to_string(),
                similar: Vec::new(),
            })
    }

    /// The blockers of a task (all of them without one), oldest first.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn blockers(
        &self,
        task: Option<TaskId>,
        status: Option<BlockerStatus>,
    ) -> Result<Vec<Blocker>> {
        // Each has a plan of its own, so that the blockers of one task are found by its index.
        let of = task.map_or("?1 IS NULL", |_| "task = ?1");
        let with = status.map_or("?2 IS NULL", |_| "status = ?2");
        let sql = format!("SELECT * FROM blocker WHERE {of} AND {with} ORDER BY pk");
        let mut statement = self.conn.prepare_cached(&sql).doing("read blockers")?;
        let rows = statement
            .query_map(
                (
                    task.map(|id| id.to_string()),
                    status.map(BlockerStatus::as_str),
                ),
                Blocker::from_row,
            )
            .doing("read blockers")?;
        rows.collect::<rusqlite::Result<_>>().doing("read blockers")
    }

    /// How many blockers of the task are open.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn open_blockers(&self, task: TaskId) -> Result<u64> {
        Ok(self.blocker_summary(task)?.open)
    }

    /// What the blockers of a task amount to.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn blocker_summary(&self, task: TaskId) -> Result<BlockerSummary> {
        let mut summary = BlockerSummary::default();
        self.conn
            .prepare_cached(&format!("{SUMMED} WHERE task = ?1"))
            .and_then(|mut s| {
                let mut rows = s.query([task.to_string()])?;
                while let Some(row) = rows.next()? {
                    summary.add(row)?;
                }
                Ok(summary)
            })
            .doing("read blockers")
    }

    /// What the blockers of every task that has any amount to.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn blocker_summaries(&self) -> Result<ById<BlockerSummary>> {
        let mut all: ById<BlockerSummary> = ById::default();
        self.conn
            .prepare_cached(&format!("{SUMMED} WHERE task IS NOT NULL"))
            .and_then(|mut s| {
                let mut rows = s.query([])?;
                while let Some(row) = rows.next()? {
                    all.entry(parsed(row, 0)?).or_default().add(row)?;
                }
                Ok(all)
            })
            .doing("read blockers")
    }

    /// The blockers that an attempt asked, oldest first.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn blockers_of_attempt(&self, attempt: AttemptId) -> Result<Vec<Blocker>> {
        let mut statement = self
            .conn
            .prepare_cached("SELECT * FROM blocker WHERE asked_attempt = ?1 ORDER BY pk")
            .doing("read blockers")?;
        let rows = statement
            .query_map([attempt.to_string()], Blocker::from_row)
            .doing("read blockers")?;
        rows.collect::<rusqlite::Result<_>>().doing("read blockers")
    }

    /// How many blockers are open in the whole workspace.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn count_open_blockers(&self) -> Result<u64> {
        self.conn
            .query_row(
                "SELECT count(*) FROM blocker WHERE status = 'OPEN'",
                [],
                |row| row.get(0),
            )
            .doing("count blockers")
    }
}

impl Tx<'_> {
    /// Asks a question. With a task that is BACKLOG, READY, IN_PROGRESS or FAILED, the task becomes BLOCKED.
    ///
    /// An agent may ask about its own task only, and only while its attempt is the current, live one.
    ///
    /// # Errors
    ///
    /// The question is empty or has a NUL in it, the task is deleted, the agent is not allowed, or SQLite refuses.
    pub fn ask(&mut self, task: Option<TaskId>, question: &str) -> Result<BlockerId> {
        refuse_nul("question", question)?;
        let (asker, attempt, task) = match self.actor {
            Actor::Attempt(attempt) => {
                let own = self.current_task_of(attempt)?;
                if task.is_some_and(|task| task != own) {
                    return Err(StoreError::NotForAgents {
                        deed: "ask about another task than its own".to_owned(),
                    });
                }
                (Asker::Agent, Some(attempt), Some(own))
            }
            Actor::Cli | Actor::Github(_) => (Asker::Human, None, task),
            Actor::Batch(_) | Actor::System => (Asker::System, None, task),
        };
        self.ask_as(task, question, asker, attempt)
    }

    pub(crate) fn ask_as(
        &mut self,
        task: Option<TaskId>,
        question: &str,
        asker: Asker,
        attempt: Option<AttemptId>,
    ) -> Result<BlockerId> {
        if question.trim().is_empty() {
            return Err(StoreError::Refused {
                what: "a blocker needs a question".to_owned(),
                hint: None,
            });
        }
        let row = task.map(|id| self.live_task(id)).transpose()?;
        let id = BlockerId(crate::ambient::fresh_id());
        let mut event = Event::new(EventType::BlockerAsked)
            .with("blocker", id.to_string())
            .with("question", question)
            .with("asked_by", asker.as_str());
        event.task = task;
        event.attempt = attempt;
        let seq = self.append(event)?;
        self.conn
            .prepare_cached(
                "INSERT INTO blocker (id, task, question, status, asked_by, asked_attempt, asked_at_ms, asked_seq) \
                 VALUES (?1, ?2, ?3, 'OPEN', ?4, ?5, ?6, ?7)",
            )
            .and_then(|mut s| {
                s.execute((
                    id.to_string(),
                    task.map(|id| id.to_string()),
                    question,
                    asker.as_str(),
                    attempt.map(|id| id.to_string()),
                    self.now.as_millisecond(),
                    seq,
                ))
            })
            .doing("store a blocker")?;
        if let Some(row) = row
            && matches!(
                row.status,
                TaskStatus::Backlog
                    | TaskStatus::Ready
                    | TaskStatus::InProgress
                    | TaskStatus::Failed
            )
        {
            // The edge may not be one of the actor's own: asking is what blocks the task, whoever asks.
            self.block(&row)?;
        }
        Ok(id)
    }

    /// Stores a question as it stood elsewhere, unless it is here already. No task's status moves. Returns whether it
    /// is new.
    pub(crate) fn insert_blocker(&mut self, blocker: &ForeignBlocker) -> Result<bool> {
        let known: bool = self
            .conn
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM blocker WHERE id = ?1)")
            .and_then(|mut s| s.query_row([blocker.id.to_string()], |row| row.get(0)))
            .doing("read a blocker")?;
        if known {
            return Ok(false);
        }
        let mut event = Event::new(EventType::BlockerAsked)
            .with("blocker", blocker.id.to_string())
            .with("question", blocker.question.as_str())
            .with("asked_by", blocker.asked_by.as_str());
        event.task = blocker.task;
        let asked_seq = self.append(event)?;
        let closing = match blocker.status {
            BlockerStatus::Open => None,
            BlockerStatus::Answered => Some(EventType::BlockerAnswered),
            BlockerStatus::Resolved => Some(EventType::BlockerResolved),
        };
        let mut closed_seq = None;
        if let Some(kind) = closing {
            let mut event = Event::new(kind).with("blocker", blocker.id.to_string());
            if let Some(answer) = &blocker.answer {
                event = event.with("answer", answer.as_str());
            }
            event.task = blocker.task;
            closed_seq = Some(self.append(event)?);
        }
        let answered_at = closing.map(|_| blocker.answered_at.unwrap_or(self.now));
        self.conn
            .execute(
                "INSERT INTO blocker (id, task, question, answer, status, asked_by, asked_at_ms, answered_at_ms, \
                 asked_seq, closed_seq) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                (
                    blocker.id.to_string(),
                    blocker.task.map(|id| id.to_string()),
                    &blocker.question,
                    &blocker.answer,
                    blocker.status.as_str(),
                    blocker.asked_by.as_str(),
                    blocker.asked_at.unwrap_or(self.now).as_millisecond(),
                    answered_at.map(Timestamp::as_millisecond),
                    asked_seq,
                    closed_seq,
                ),
            )
            .doing("store a blocker")?;
        Ok(true)
    }

    fn block(&mut self, task: &super::task::Task) -> Result<()> {
        let by = self.actor.clone();
        let bound = matches!(by, Actor::Batch(_) | Actor::Attempt(_));
        if bound && !task.status.edges().contains(&TaskStatus::Blocked) {
            // Asking blocks the task from wherever it stands; where the asker's own edges do not lead there, it is the
            // question that moves it.
            self.write_status(task, TaskStatus::Blocked, &Actor::System, None)?;
            return Ok(());
        }
        self.write_status(task, TaskStatus::Blocked, &by, None)?;
        Ok(())
    }

    /// Answers an open blocker. The last answer of a BLOCKED task makes it READY.
    ///
    /// # Errors
    ///
    /// The caller is an agent, the blocker is not open, the answer is empty or has a NUL in it, or SQLite refuses.
    pub fn answer(&mut self, id: BlockerId, answer: &str) -> Result<Blocker> {
        if answer.trim().is_empty() {
            return Err(StoreError::Refused {
                what: "an answer needs a text".to_owned(),
                hint: Some("`cf blocker resolve` ends a question that needs no answer".to_owned()),
            });
        }
        refuse_nul("answer", answer)?;
        self.close(id, Some(answer))
    }

    /// Resolves an open blocker that needs no answer. The last one of a BLOCKED task makes it READY.
    ///
    /// # Errors
    ///
    /// The caller is an agent, the blocker is not open, or SQLite refuses.
    pub fn resolve(&mut self, id: BlockerId) -> Result<Blocker> {
        self.close(id, None)
    }

    fn close(&mut self, id: BlockerId, answer: Option<&str>) -> Result<Blocker> {
        self.refuse_agent("answer a blocker")?;
        let blocker = self.reader().blocker(id)?;
        if blocker.status != BlockerStatus::Open {
            return Err(StoreError::Refused {
                what: format!("blocker {} is {} already", id.short(), blocker.status),
                hint: Some("ask a new one with `cf blocker ask`".to_owned()),
            });
        }
        let (kind, status) = match answer {
            Some(_) => (EventType::BlockerAnswered, BlockerStatus::Answered),
            None => (EventType::BlockerResolved, BlockerStatus::Resolved),
        };
        let mut event = Event::new(kind).with("blocker", id.to_string());
        if let Some(answer) = answer {
            event = event.with("answer", answer);
        }
        event.task = blocker.task;
        let seq = self.append(event)?;
        self.conn
            .execute(
                "UPDATE blocker SET status = ?2, answer = ?3, answered_at_ms = ?4, closed_seq = ?5 WHERE id = ?1",
                (id.to_string(), status.as_str(), answer, self.now.as_millisecond(), seq),
            )
            .doing("store an answer")?;
        if let Some(task) = blocker.task {
            let task = self.reader().task(task)?;
            let open = self.reader().open_blockers(task.id)?;
            if !task.deleted && task.status == TaskStatus::Blocked && open == 0 {
                let by = self.actor.clone();
                self.write_status(&task, TaskStatus::Ready, &by, blocker.asked_attempt)?;
            }
        }
        self.reader().blocker(id)
    }
}
