//! Tasks, their dependencies, and the one function that moves a status.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use cf_core::{
    Actor, AttemptId, BatchId, EventType, Graph, GraphError, TaskId, TaskKey, TaskLabel,
    TaskStatus, Timestamp, Transition, cycle_in_words,
};
use rusqlite::{OptionalExtension as _, Row};

use super::event::Event;
use super::ids::ById;
use super::sql::{duration_opt, json, millis, parsed, parsed_opt, time, to_json};
use super::{Doing as _, Reader, Result, StoreError, Tx};

/// A task as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// Its key, where it has one.
    pub key: Option<TaskKey>,
    /// What it is called.
    pub title: String,
    /// What is to be done.
    pub description: String,
    /// A script that the `shell` engine runs.
    pub run: Option<String>,
    /// A command that decides whether the result is good.
    pub verify: Option<String>,
    /// The engine that runs it, when it is not the batch's.
    pub engine: Option<String>,
    /// The model that its engine is told to use.
    pub model: Option<String>,
    /// The limit of one attempt, when it is not the batch's.
    pub timeout: Option<Duration>,
    /// Variables that are added to its agent's environment.
    pub env: BTreeMap<String, String>,
    /// How urgent it is; 0 is most urgent.
    pub priority: i64,
    /// Where it stands.
    pub status: TaskStatus,
    /// Moves with every status write.
    pub version: u64,
    /// Who wrote the status.
    pub status_by: Actor,
    /// The attempt whose question was answered by that write, if that is what it was.
    pub status_via: Option<AttemptId>,
    /// The event of that write.
    pub status_seq: u64,
    /// The batch that works on it.
    pub claim: Option<BatchId>,
    /// Its newest attempt.
    pub attempt: Option<AttemptId>,
    /// How many attempts there were.
    pub generation: u32,
    /// When it was added.
    pub created_at: Timestamp,
    /// When anything of it last changed.
    pub updated_at: Timestamp,
    /// Whether it was deleted. Deleted tasks are kept for history and found by no name.
    pub deleted: bool,
    /// Where somebody wrote it who is not trusted, such as `github.com owner/repo#12`; its text is data then.
    pub origin: Option<String>,
}

/// The version of a task whose status nobody has written since it was added.
const FIRST_VERSION: u64 = 1;

const TASK: &str = "SELECT id, key, title, description, run, verify, engine, model, timeout_ms, env, \
                    priority, status, version, status_by, status_via, status_seq, claim, attempt, generation, \
                    created_at_ms, updated_at_ms, deleted_at_ms, origin FROM task";

impl Task {
    /// How it is called in messages.
    pub fn label(&self) -> TaskLabel {
        TaskLabel::new(self.id, self.key.as_ref())
    }

    /// Whether it still has the status with which it was added. `status_by` is who added it then.
    pub const fn has_first_status(&self) -> bool {
        self.version == FIRST_VERSION
    }

    /// Reads a row of [`TASK`], by the places of its columns.
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: parsed(row, 0)?,
            key: parsed_opt(row, 1)?,
            title: row.get(2)?,
            description: row.get(3)?,
            run: row.get(4)?,
            verify: row.get(5)?,
            engine: row.get(6)?,
            model: row.get(7)?,
            timeout: duration_opt(row, 8)?,
            env: json(row, 9)?,
            priority: row.get(10)?,
            status: parsed(row, 11)?,
            version: row.get(12)?,
            status_by: parsed(row, 13)?,
            status_via: parsed_opt(row, 14)?,
            status_seq: row.get(15)?,
            claim: parsed_opt(row, 16)?,
            attempt: parsed_opt(row, 17)?,
            generation: row.get(18)?,
            created_at: time(row, 19)?,
            updated_at: time(row, 20)?,
            deleted: row.get::<_, Option<i64>>(21)?.is_some(),
            origin: row.get(22)?,
        })
    }
}

/// What a decision about a task rests on: its status, and who wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskStanding {
    /// The task.
    pub id: TaskId,
    /// Where it stands.
    pub status: TaskStatus,
    /// Moves with every status write.
    pub version: u64,
    /// Who wrote the status.
    pub status_by: Actor,
    /// The attempt whose question was answered by that write.
    pub status_via: Option<AttemptId>,
    /// The event of that write.
    pub status_seq: u64,
    /// The batch that works on it.
    pub claim: Option<BatchId>,
    /// Its newest attempt.
    pub attempt: Option<AttemptId>,
    /// How urgent it is.
    pub priority: i64,
    /// Whether it was deleted.
    pub deleted: bool,
}

const STANDING: &str = "SELECT id, status, version, status_by, status_via, status_seq, claim, attempt, priority, deleted_at_ms FROM task";

const STANDING_AND_KEY: &str = "SELECT id, status, version, status_by, status_via, status_seq, claim, attempt, priority, deleted_at_ms, key \
                                FROM task WHERE id = ?1";

impl TaskStanding {
    /// Reads a row of [`STANDING`], by the places of its columns.
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: parsed(row, 0)?,
            status: parsed(row, 1)?,
            version: row.get(2)?,
            status_by: parsed(row, 3)?,
            status_via: parsed_opt(row, 4)?,
            status_seq: row.get(5)?,
            claim: parsed_opt(row, 6)?,
            attempt: parsed_opt(row, 7)?,
            priority: row.get(8)?,
            deleted: row.get::<_, Option<i64>>(9)?.is_some(),
        })
    }
}

/// What a new task is made of, or what an import says about a task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskSpec {
    /// Its key.
    pub key: Option<TaskKey>,
    /// What it is called; not empty.
    pub title: String,
    /// What is to be done.
    pub description: String,
    /// A script for the `shell` engine.
    pub run: Option<String>,
    /// A command that decides whether the result is good.
    pub verify: Option<String>,
    /// Its engine.
    pub engine: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// The limit of one attempt.
    pub timeout: Option<Duration>,
    /// Variables for its agent.
    pub env: BTreeMap<String, String>,
    /// 0 is most urgent.
    pub priority: i64,
}

/// One change of a task's own fields; `None` leaves a field alone, `Some(None)` clears it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskEdit {
    /// A new key, or none.
    pub key: Option<Option<TaskKey>>,
    /// A new title.
    pub title: Option<String>,
    /// A new description.
    pub description: Option<String>,
    /// A new script, or none.
    pub run: Option<Option<String>>,
    /// A new verification, or none.
    pub verify: Option<Option<String>>,
    /// A new engine, or none.
    pub engine: Option<Option<String>>,
    /// A new model, or none.
    pub model: Option<Option<String>>,
    /// A new limit, or none.
    pub timeout: Option<Option<Duration>>,
    /// A new set of variables.
    pub env: Option<BTreeMap<String, String>>,
    /// A new priority.
    pub priority: Option<i64>,
}

/// What became of a status write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusWrite {
    /// It is stored, under this version and event.
    Changed {
        /// The task's new version.
        version: u64,
        /// The event of the change.
        seq: u64,
    },
    /// The task had this status already; nothing is written.
    Same,
    /// Somebody else wrote in between; nothing is written, and the writer must look again.
    Lost,
    /// The caller is the task's running agent: its report is stored with the attempt, the status stays until its exit.
    Reported,
}

/// The guard of a status write: what must still be true of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Whatever it is now. For people, who describe the world.
    Anything,
    /// This version.
    Version(u64),
}

/// Which tasks to read. Deleted ones are never among them.
#[derive(Clone, Debug, Default)]
pub struct TaskFilter {
    /// Only those with one of these statuses; all when none is given.
    pub statuses: Vec<TaskStatus>,
    /// At most so many, those that were added first; nothing means all.
    pub limit: Option<usize>,
}

impl TaskFilter {
    /// Those with this status.
    pub fn with_status(status: TaskStatus) -> Self {
        Self {
            statuses: vec![status],
            limit: None,
        }
    }

    /// What follows `FROM task`, in the order in which they were added.
    pub(super) fn clause(&self) -> String {
        let mut clause = " WHERE deleted_at_ms IS NULL".to_owned();
        if !self.statuses.is_empty() {
            // The words are constants of this program, so they need no parameters.
            let words: Vec<String> = self.statuses.iter().map(|s| format!("'{s}'")).collect();
            clause.push_str(" AND status IN (");
            clause.push_str(&words.join(","));
            clause.push(')');
        }
        clause.push_str(" ORDER BY pk");
        if let Some(limit) = self.limit {
            clause.push_str(" LIMIT ");
            clause.push_str(&limit.to_string());
        }
        clause
    }

    /// Whether every task is meant.
    pub const fn is_everything(&self) -> bool {
        self.statuses.is_empty() && self.limit.is_none()
    }
}

/// A task together with what lists show beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskView {
    /// The task.
    pub task: Task,
    /// What it depends on.
    pub depends_on: Vec<TaskId>,
    /// How many of its blockers are open.
    pub open_blockers: u64,
}

impl Reader<'_> {
    /// The task with this id, deleted or not.
    ///
    /// # Errors
    ///
    /// SQLite refuses, or there is no such row.
    pub fn task(&self, id: TaskId) -> Result<Task> {
        self.task_opt(id)?.ok_or_else(|| StoreError::Unknown {
            what: "task",
            given: id.to_string(),
            similar: Vec::new(),
        })
    }

    /// The same, or nothing.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn task_opt(&self, id: TaskId) -> Result<Option<Task>> {
        self.conn
            .prepare_cached(&format!("{TASK} WHERE id = ?1"))
            .and_then(|mut s| s.query_row([id.to_string()], Task::from_row).optional())
            .doing("read a task")
    }

    /// What decisions about a task rest on, or nothing when there is no such row.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn standing(&self, id: TaskId) -> Result<Option<TaskStanding>> {
        self.conn
            .prepare_cached(&format!("{STANDING} WHERE id = ?1"))
            .and_then(|mut s| {
                s.query_row([id.to_string()], TaskStanding::from_row)
                    .optional()
            })
            .doing("read a task")
    }

    /// The same together with how the task is called.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub(crate) fn standing_and_label(
        &self,
        id: TaskId,
    ) -> Result<Option<(TaskStanding, TaskLabel)>> {
        let label = |row: &Row<'_>| -> rusqlite::Result<TaskLabel> {
            let key = row.get_ref(10)?.as_str_or_null()?;
            let key: Option<TaskKey> = key.and_then(|key| key.parse().ok());
            Ok(TaskLabel::new(id, key.as_ref()))
        };
        self.conn
            .prepare_cached(STANDING_AND_KEY)
            .and_then(|mut s| {
                s.query_row([id.to_string()], |row| {
                    Ok((TaskStanding::from_row(row)?, label(row)?))
                })
                .optional()
            })
            .doing("read a task")
    }

    /// The same for every task that is wanted, deleted ones too. Of the others only the id is looked at.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn standings(
        &self,
        wanted: impl Fn(TaskId) -> bool,
        mut each: impl FnMut(TaskStanding),
    ) -> Result<()> {
        let mut statement = self.conn.prepare_cached(STANDING).doing("read the tasks")?;
        let mut rows = statement.query([]).doing("read the tasks")?;
        while let Some(row) = rows.next().doing("read the tasks")? {
            if wanted(parsed(row, 0).doing("read a task")?) {
                each(TaskStanding::from_row(row).doing("read a task")?);
            }
        }
        Ok(())
    }

    /// The live task with exactly this key.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn task_with_key(&self, key: &TaskKey) -> Result<Option<Task>> {
        self.conn
            .prepare_cached(&format!("{TASK} WHERE key = ?1 AND deleted_at_ms IS NULL"))
            .and_then(|mut s| s.query_row([key.as_str()], Task::from_row).optional())
            .doing("read a task")
    }

    /// The tasks that the filter lets through, in the order in which they were added, each handed to `each` as it is
    /// read.
    ///
    /// # Errors
    ///
    /// SQLite refuses, or `each` does.
    pub fn tasks(
        &self,
        filter: &TaskFilter,
        mut each: impl FnMut(TaskView) -> Result<()>,
    ) -> Result<()> {
        // Of a part of the tasks each is asked for its own; of all of them all edges are read at once.
        let edges = if filter.is_everything() {
            Some(self.all_edges()?)
        } else {
            None
        };
        let open = self.open_blockers_by_task()?;
        let sql = format!("{TASK}{}", filter.clause());
        let mut statement = self.conn.prepare_cached(&sql).doing("read the tasks")?;
        let mut rows = statement.query([]).doing("read the tasks")?;
        while let Some(row) = rows.next().doing("read the tasks")? {
            let task = Task::from_row(row).doing("read a task")?;
            let depends_on = match &edges {
                Some(edges) => edges.of(task.id).to_vec(),
                None => self.depends_on(task.id)?,
            };
            let open_blockers = open.get(&task.id).copied().unwrap_or(0);
            each(TaskView {
                task,
                depends_on,
                open_blockers,
            })?;
        }
        Ok(())
    }

    /// The same without what lists show beside it.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn tasks_alone(&self, filter: &TaskFilter, mut each: impl FnMut(Task)) -> Result<()> {
        let sql = format!("{TASK}{}", filter.clause());
        let mut statement = self.conn.prepare(&sql).doing("read the tasks")?;
        let mut rows = statement.query([]).doing("read the tasks")?;
        while let Some(row) = rows.next().doing("read the tasks")? {
            each(Task::from_row(row).doing("read a task")?);
        }
        Ok(())
    }

    /// One task with what lists show beside it.
    ///
    /// # Errors
    ///
    /// SQLite refuses, or there is no such task.
    pub fn task_view(&self, id: TaskId) -> Result<TaskView> {
        let task = self.task(id)?;
        Ok(TaskView {
            task,
            depends_on: self.depends_on(id)?,
            open_blockers: self.open_blockers(id)?,
        })
    }

    /// How many tasks have each status, in the order of [`TaskStatus::ALL`].
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn status_counts(&self) -> Result<Vec<(TaskStatus, u64)>> {
        // A range of the index for each status: SQLite compares nothing in it, which a grouping does for every row.
        let mut count = self
            .conn
            .prepare_cached("SELECT count(*) FROM task WHERE status = ?1 AND deleted_at_ms IS NULL")
            .doing("count the tasks")?;
        TaskStatus::ALL
            .iter()
            .map(|status| {
                Ok((
                    *status,
                    count.query_one([status.as_str()], |row| row.get(0))?,
                ))
            })
            .collect::<rusqlite::Result<_>>()
            .doing("count the tasks")
    }

    /// What a task depends on, in the order of the ids.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn depends_on(&self, id: TaskId) -> Result<Vec<TaskId>> {
        self.ids(
            "SELECT depends_on AS id FROM dependency WHERE task = ?1 ORDER BY depends_on",
            id,
        )
    }

    /// Which tasks depend on one.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn dependents(&self, id: TaskId) -> Result<Vec<TaskId>> {
        self.ids(
            "SELECT task AS id FROM dependency WHERE depends_on = ?1 ORDER BY task",
            id,
        )
    }

    fn ids(&self, sql: &str, id: TaskId) -> Result<Vec<TaskId>> {
        let mut statement = self.conn.prepare_cached(sql).doing("read dependencies")?;
        let rows = statement
            .query_map([id.to_string()], |row| parsed(row, "id"))
            .doing("read dependencies")?;
        rows.collect::<rusqlite::Result<_>>()
            .doing("read dependencies")
    }

    pub(super) fn open_blockers_by_task(&self) -> Result<ById<u64>> {
        let mut statement = self
            .conn
            .prepare_cached("SELECT task, count(*) FROM blocker WHERE status = 'OPEN' AND task IS NOT NULL GROUP BY task")
            .doing("count blockers")?;
        let rows = statement
            .query_map([], |row| Ok((parsed(row, 0)?, row.get(1)?)))
            .doing("count blockers")?;
        rows.collect::<rusqlite::Result<_>>()
            .doing("count blockers")
    }

    /// The label of a task, deleted or not.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn label(&self, id: TaskId) -> Result<TaskLabel> {
        let key: Option<Option<String>> = self
            .conn
            .prepare_cached("SELECT key FROM task WHERE id = ?1")
            .and_then(|mut s| s.query_row([id.to_string()], |row| row.get(0)).optional())
            .doing("read a task's key")?;
        let key: Option<TaskKey> = key.flatten().and_then(|key| key.parse().ok());
        Ok(TaskLabel::new(id, key.as_ref()))
    }

    /// What to say of tasks that depend on each other in a circle; the first stands again at the end.
    pub(crate) fn cycle(&self, cycle: &[TaskId]) -> Result<StoreError> {
        let name = |id: &TaskId| self.label(*id).map(|label| label.to_string());
        match cycle {
            [one, other] if one == other => Ok(StoreError::DependsOnItself(self.label(*one)?)),
            _ => Ok(StoreError::Cycle(format!(
                "dependencies form a cycle: {}",
                cycle_in_words(cycle, name)?
            ))),
        }
    }
}

impl Tx<'_> {
    /// Adds a task, READY; BACKLOG when an agent adds it.
    ///
    /// # Errors
    ///
    /// The key is taken, the title is empty, a text has a NUL in it, or SQLite refuses.
    pub fn add_task(&mut self, spec: &TaskSpec) -> Result<TaskId> {
        let status = match self.actor {
            Actor::Attempt(_) => TaskStatus::Backlog,
            _ => TaskStatus::Ready,
        };
        self.add_task_as(spec, status)
    }

    /// Adds a task with a status of the caller's choice.
    ///
    /// # Errors
    ///
    /// As [`Tx::add_task`].
    pub fn add_task_as(&mut self, spec: &TaskSpec, status: TaskStatus) -> Result<TaskId> {
        let id = TaskId(crate::ambient::fresh_id());
        self.insert_task(id, spec, status)?;
        Ok(id)
    }

    /// Adds a task under an id that it has already.
    ///
    /// # Errors
    ///
    /// As [`Tx::add_task`], or the id is taken.
    pub(crate) fn insert_task(
        &mut self,
        id: TaskId,
        spec: &TaskSpec,
        status: TaskStatus,
    ) -> Result<()> {
        spec.refuse_nul()?;
        refuse_impossible(
            spec.title.as_str(),
            spec.run.as_deref(),
            spec.engine.as_deref(),
        )?;
        if let Some(key) = &spec.key {
            self.refuse_taken(key, None)?;
        }
        let mut event = Event::new(EventType::TaskCreated)
            .task(id)
            .with("title", spec.title.as_str())
            .with("status", status.as_str());
        if let Some(key) = &spec.key {
            event = event.with("key", key.as_str());
        }
        let seq = self.append(event)?;
        let now = self.now.as_millisecond();
        self.conn
            .prepare_cached(
                "INSERT INTO task (id, key, title, description, run, verify, engine, model, timeout_ms, env, priority, \
                 status, version, status_by, status_seq, generation, created_at_ms, updated_at_ms) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?16, ?13, ?14, 0, ?15, ?15)",
            )
            .and_then(|mut s| {
                s.execute(rusqlite::params![
                    id.to_string(),
                    spec.key.as_ref().map(TaskKey::as_str),
                    spec.title,
                    spec.description,
                    spec.run,
                    spec.verify,
                    spec.engine,
                    spec.model,
                    spec.timeout.map(millis),
                    to_json(&spec.env),
                    spec.priority,
                    status.as_str(),
                    self.actor.to_string(),
                    seq,
                    now,
                    FIRST_VERSION,
                ])
            })
            .doing("add a task")?;
        Ok(())
    }

    /// Changes a task's own fields. The status is no field.
    ///
    /// # Errors
    ///
    /// The task is deleted, the key is taken, the result is impossible, or SQLite refuses.
    pub fn edit_task(&mut self, id: TaskId, edit: &TaskEdit) -> Result<Task> {
        self.refuse_agent("change a task")?;
        edit.refuse_nul()?;
        let mut task = self.live_task(id)?;
        let before = task.clone();
        if let Some(key) = &edit.key {
            if let Some(key) = key {
                self.refuse_taken(key, Some(id))?;
            }
            task.key.clone_from(key);
        }
        macro_rules! take {
            ($($field:ident),+) => { $(if let Some(value) = &edit.$field { task.$field.clone_from(value); })+ };
        }
        take!(
            title,
            description,
            run,
            verify,
            engine,
            model,
            timeout,
            env,
            priority
        );
        refuse_impossible(&task.title, task.run.as_deref(), task.engine.as_deref())?;
        if task == before {
            return Ok(task);
        }
        self.append(Event::new(EventType::TaskEdited).task(id))?;
        self.conn
            .prepare_cached(
                "UPDATE task SET key = ?2, title = ?3, description = ?4, run = ?5, verify = ?6, engine = ?7, model = ?8, \
                 timeout_ms = ?9, env = ?10, priority = ?11, updated_at_ms = ?12 WHERE id = ?1",
            )
            .and_then(|mut s| {
                s.execute(rusqlite::params![
                    id.to_string(),
                    task.key.as_ref().map(TaskKey::as_str),
                    task.title,
                    task.description,
                    task.run,
                    task.verify,
                    task.engine,
                    task.model,
                    task.timeout.map(millis),
                    to_json(&task.env),
                    task.priority,
                    self.now.as_millisecond(),
                ])
            })
            .doing("change a task")?;
        Ok(task)
    }

    /// Sets a task's status as this transaction's actor.
    ///
    /// An agent may report DONE or FAILED for its own task only; the report is stored with its attempt. What an attempt
    /// says that is not its task's current, live one is kept as stale, and the answer says so after the commit: the
    /// caller commits and then fails with [`StoreError::StaleAttempt`].
    ///
    /// # Errors
    ///
    /// The transition is refused, the task is deleted, or SQLite refuses.
    pub fn set_status(
        &mut self,
        id: TaskId,
        to: TaskStatus,
        expect: Expect,
    ) -> Result<StatusWrite> {
        let task = self.live_task(id)?;
        if let Expect::Version(version) = expect
            && task.version != version
        {
            return Ok(StatusWrite::Lost);
        }
        if let Actor::Attempt(attempt) = self.actor {
            return self.report(&task, attempt, to);
        }
        let by = self.actor.clone();
        self.write_status(&task, to, &by, None)
    }

    /// The one function that moves a status: checks the edge, appends the event, writes the row.
    ///
    /// A claim ends with it unless the new status is IN_PROGRESS by a batch; whether an agent still runs is the
    /// attempt's row to say.
    pub(crate) fn write_status(
        &mut self,
        task: &Task,
        to: TaskStatus,
        by: &Actor,
        via: Option<AttemptId>,
    ) -> Result<StatusWrite> {
        self.write_status_of(task, to, by, via, None)
    }

    /// The same; `current` is the attempt that becomes the task's newest one with it, and its number.
    pub(super) fn write_status_of(
        &mut self,
        task: &Task,
        to: TaskStatus,
        by: &Actor,
        via: Option<AttemptId>,
        current: Option<(AttemptId, u32)>,
    ) -> Result<StatusWrite> {
        let transition = task
            .status
            .after(to, by)
            .map_err(|source| StoreError::Transition {
                task: task.label().to_string(),
                source,
            })?;
        if transition == Transition::Same {
            return Ok(StatusWrite::Same);
        }
        let version = task.version + 1;
        let claim = match by {
            Actor::Batch(batch) if to == TaskStatus::InProgress => Some(*batch),
            _ => None,
        };
        let event = Event::new(EventType::TaskStatusChanged)
            .task(task.id)
            .with("from", task.status.as_str())
            .with("to", to.as_str())
            .with("version", version);
        let event = match by {
            Actor::Batch(batch) => event.batch(*batch),
            Actor::Attempt(attempt) => event.attempt(*attempt),
            _ => event,
        };
        let seq = self.append_by(by, event)?;
        let changed = self
            .conn
            .prepare_cached(
                "UPDATE task SET status = ?3, version = ?4, status_by = ?5, status_via = ?6, status_seq = ?7, claim = ?8, \
                 updated_at_ms = ?9, attempt = coalesce(?10, attempt), generation = coalesce(?11, generation) \
                 WHERE id = ?1 AND version = ?2 AND deleted_at_ms IS NULL",
            )
            .and_then(|mut s| {
                s.execute((
                    task.id.to_string(),
                    task.version,
                    to.as_str(),
                    version,
                    by.to_string(),
                    via.map(|id| id.to_string()),
                    seq,
                    claim.map(|id| id.to_string()),
                    self.now.as_millisecond(),
                    current.map(|(id, _)| id.to_string()),
                    current.map(|(_, generation)| generation),
                ))
            })
            .doing("write a status")?;
        assert_eq!(changed, 1, "the row was read in the same transaction");
        Ok(StatusWrite::Changed { version, seq })
    }

    /// Deletes a task: its row stays for history, its name is free, its edges and open blockers go.
    ///
    /// # Errors
    ///
    /// Without `force`: others depend on it, or it has an agent. Or SQLite refuses.
    pub fn delete_task(&mut self, id: TaskId, force: bool) -> Result<()> {
        self.refuse_agent("delete a task")?;
        let task = self.live_task(id)?;
        let label = task.label();
        let dependents = self.reader().dependents(id)?;
        if !force {
            let hint = Some("use --force to delete it all the same".to_owned());
            if !dependents.is_empty() {
                let names = self.labels(&dependents)?.join(", ");
                return Err(StoreError::Refused {
                    what: format!(
                        "task {label} is not deleted: {names} depend{} on it",
                        if dependents.len() == 1 { "s" } else { "" }
                    ),
                    hint,
                });
            }
            if self.reader().has_open_attempt(id)? {
                return Err(StoreError::Refused {
                    what: format!("task {label} is not deleted: its agent runs"),
                    hint,
                });
            }
        }
        let seq = self.append(
            Event::new(EventType::TaskDeleted)
                .task(id)
                .with("title", task.title.as_str())
                .with("status", task.status.as_str())
                .with(
                    "dependents",
                    dependents
                        .iter()
                        .map(ToString::to_string)
                        .collect::<Vec<_>>(),
                ),
        )?;
        let id_text = id.to_string();
        self.conn
            .execute(
                "DELETE FROM dependency WHERE task = ?1 OR depends_on = ?1",
                [&id_text],
            )
            .doing("delete dependencies")?;
        self.conn
            .execute(
                "UPDATE blocker SET status = 'RESOLVED', answered_at_ms = ?2, closed_seq = ?3 WHERE task = ?1 AND status = 'OPEN'",
                (&id_text, self.now.as_millisecond(), seq),
            )
            .doing("resolve the blockers of a deleted task")?;
        self.conn
            .execute(
                "UPDATE task SET deleted_at_ms = ?2, updated_at_ms = ?2, version = version + 1, status_by = ?3, \
                 status_via = NULL, status_seq = ?4, claim = NULL WHERE id = ?1",
                (&id_text, self.now.as_millisecond(), self.actor.to_string(), seq),
            )
            .doing("delete a task")?;
        Ok(())
    }

    /// Makes a task depend on another.
    ///
    /// # Errors
    ///
    /// A cycle would come of it (named), either is deleted, or SQLite refuses.
    pub fn add_dependency(&mut self, task: TaskId, on: TaskId) -> Result<bool> {
        self.refuse_agent("change dependencies")?;
        self.live_task(task)?;
        self.live_task(on)?;
        if self.reader().depends_on(task)?.contains(&on) {
            return Ok(false);
        }
        let path = if task == on {
            Some(vec![task])
        } else {
            self.path_between(on, task)?
        };
        if let Some(mut cycle) = path {
            cycle.insert(0, task);
            return Err(self.reader().cycle(&cycle)?);
        }
        self.conn
            .prepare_cached("INSERT INTO dependency (task, depends_on) VALUES (?1, ?2)")
            .and_then(|mut s| s.execute((task.to_string(), on.to_string())))
            .doing("add a dependency")?;
        self.append(
            Event::new(EventType::TaskDependencyChanged)
                .task(task)
                .with("on", on.to_string())
                .with("added", true),
        )?;
        Ok(true)
    }

    /// Ends a dependency. Returns whether there was one.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn remove_dependency(&mut self, task: TaskId, on: TaskId) -> Result<bool> {
        self.refuse_agent("change dependencies")?;
        let changed = self
            .conn
            .execute(
                "DELETE FROM dependency WHERE task = ?1 AND depends_on = ?2",
                (task.to_string(), on.to_string()),
            )
            .doing("remove a dependency")?;
        if changed > 0 {
            self.append(
                Event::new(EventType::TaskDependencyChanged)
                    .task(task)
                    .with("on", on.to_string())
                    .with("added", false),
            )?;
        }
        Ok(changed > 0)
    }

    /// The chain of dependencies that leads from one task to another, both included, if there is one.
    ///
    /// It is looked for from both ends in turn, and ends with the end that is exhausted first: at the end of a chain of
    /// a hundred thousand tasks a new one costs no more than at its beginning, since nothing depends on it.
    fn path_between(&self, from: TaskId, to: TaskId) -> Result<Option<Vec<TaskId>>> {
        let reader = self.reader();
        // For each task that was found the one from which it was, on its own side.
        let mut onward = BTreeMap::from([(from, from)]);
        let mut back = BTreeMap::from([(to, to)]);
        let (mut to_visit, mut to_visit_back) = (vec![from], vec![to]);
        while let (Some(at), Some(at_back)) = (to_visit.pop(), to_visit_back.pop()) {
            for next in reader.depends_on(at)? {
                if let Entry::Vacant(place) = onward.entry(next) {
                    place.insert(at);
                    to_visit.push(next);
                    if back.contains_key(&next) {
                        return Ok(Some(joined(&onward, &back, next)));
                    }
                }
            }
            for next in reader.dependents(at_back)? {
                if let Entry::Vacant(place) = back.entry(next) {
                    place.insert(at_back);
                    to_visit_back.push(next);
                    if onward.contains_key(&next) {
                        return Ok(Some(joined(&onward, &back, next)));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Sets the whole list of a task's dependencies. For imports, which check the graph afterwards in one go.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn set_dependencies_unchecked(&mut self, task: TaskId, on: &[TaskId]) -> Result<()> {
        self.refuse_agent("change dependencies")?;
        let before = self.reader().depends_on(task)?;
        for gone in before.iter().filter(|id| !on.contains(id)) {
            self.remove_dependency(task, *gone)?;
        }
        for new in on.iter().filter(|id| !before.contains(id)) {
            self.insert_dependency(task, *new)?;
        }
        Ok(())
    }

    /// Stores a dependency that closes no cycle, as the caller knows.
    pub(crate) fn insert_dependency(&mut self, task: TaskId, on: TaskId) -> Result<()> {
        self.conn
            .prepare_cached(
                "INSERT INTO dependency (task, depends_on) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
            )
            .and_then(|mut s| s.execute((task.to_string(), on.to_string())))
            .doing("add a dependency")?;
        self.append(
            Event::new(EventType::TaskDependencyChanged)
                .task(task)
                .with("on", on.to_string())
                .with("added", true),
        )?;
        Ok(())
    }

    /// Refuses the transaction when the whole graph has a cycle, and names it.
    ///
    /// # Errors
    ///
    /// [`StoreError::DependsOnItself`] or [`StoreError::Cycle`], or SQLite refuses.
    pub fn refuse_cycles(&self) -> Result<()> {
        let edges = self.reader().edges()?;
        let nodes: Vec<(TaskId, i64)> =
            edges.iter().flat_map(|(a, b)| [(*a, 0), (*b, 0)]).collect();
        match Graph::new(nodes, edges).order() {
            Ok(_) => Ok(()),
            Err(GraphError::Cycle(cycle)) => Err(self.reader().cycle(&cycle)?),
        }
    }

    pub(crate) fn live_task(&self, id: TaskId) -> Result<Task> {
        let task = self.reader().task(id)?;
        if task.deleted {
            return Err(StoreError::Unknown {
                what: "task",
                given: id.to_string(),
                similar: Vec::new(),
            });
        }
        Ok(task)
    }

    pub(crate) fn refuse_agent(&self, deed: &str) -> Result<()> {
        match self.actor {
            Actor::Attempt(_) => Err(StoreError::NotForAgents {
                deed: deed.to_owned(),
            }),
            _ => Ok(()),
        }
    }

    fn refuse_taken(&self, key: &TaskKey, but: Option<TaskId>) -> Result<()> {
        match self.reader().task_with_key(key)? {
            Some(other) if Some(other.id) != but => Err(StoreError::Refused {
                what: format!("there is already a task with the key {key} ({})", other.id),
                hint: Some(format!(
                    "choose another key, or change that task with `cf tasks edit {key}`"
                )),
            }),
            _ => Ok(()),
        }
    }

    pub(crate) fn labels(&self, ids: &[TaskId]) -> Result<Vec<String>> {
        ids.iter()
            .map(|id| self.reader().label(*id).map(|label| label.to_string()))
            .collect()
    }
}

/// The path through a task that was found from both ends: each map leads towards its own end, which leads to itself.
fn joined(
    onward: &BTreeMap<TaskId, TaskId>,
    back: &BTreeMap<TaskId, TaskId>,
    middle: TaskId,
) -> Vec<TaskId> {
    let towards = |ends: &BTreeMap<TaskId, TaskId>| {
        let next = |at: &TaskId| ends.get(at).copied().filter(|next| next != at);
        std::iter::successors(Some(middle), next).collect::<Vec<_>>()
    };
    let mut path = towards(onward);
    path.reverse();
    path.extend(towards(back).into_iter().skip(1));
    path
}

fn refuse_impossible(title: &str, run: Option<&str>, engine: Option<&str>) -> Result<()> {
    if title.trim().is_empty() {
        return Err(StoreError::Refused {
            what: "a task needs a title".to_owned(),
            hint: None,
        });
    }
    if let (Some(_), Some(engine)) = (run, engine)
        && engine != "shell"
    {
        return Err(StoreError::Refused {
            what: format!("a task with a `run` script is run by the shell engine, not by {engine}"),
            hint: Some("give either `run` or `engine`".to_owned()),
        });
    }
    Ok(())
}
