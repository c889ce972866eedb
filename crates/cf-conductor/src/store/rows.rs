//! Rows as they stand in the database, each handed over as it is read: for what prints or looks at many of them.
//!
//! Nothing is made of a row but what the caller makes of it. Texts are borrowed from SQLite until the next step, and
//! what stands around a task (its dependencies, links and open blockers) is read for all tasks in one pass each.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::str::FromStr;

use cf_core::{BatchId, Link, TaskId, Timestamp};
use rusqlite::types::Type;
use rusqlite::{Row, Statement};

use super::edges::Edges;
use super::event::{Event, EventFilter};
use super::ids::ById;
use super::sql::{json, parsed, time, to_json};
use super::task::TaskFilter;
use super::{Doing as _, Reader, Result};

/// An entry of the log as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRow<'row> {
    /// Its number.
    pub seq: u64,
    /// When it was stored.
    pub at: Timestamp,
    /// The word of its type.
    pub kind: &'row str,
    /// The task that it happened to.
    pub task: Option<&'row str>,
    /// The batch that it belongs to.
    pub batch: Option<&'row str>,
    /// The attempt that it belongs to.
    pub attempt: Option<&'row str>,
    /// Who caused it.
    pub actor: &'row str,
    /// The details: an object of JSON.
    pub data: &'row str,
}

/// The columns of an event, for [`EventRow`].
pub(super) const EVENT: &str =
    "SELECT seq, at_ms, type, task, batch, attempt, actor, data FROM event";

impl<'row> EventRow<'row> {
    /// Reads a row of [`EVENT`], by the places of its columns.
    pub(super) fn from_row(row: &'row Row<'_>) -> rusqlite::Result<Self> {
        Self::with(row, row.get(0)?, text(row, 2)?, text(row, 7)?)
    }

    /// Reads the other columns.
    fn with(
        row: &'row Row<'_>,
        seq: u64,
        kind: &'row str,
        data: &'row str,
    ) -> rusqlite::Result<Self> {
        Ok(Self {
            seq,
            at: time(row, 1)?,
            kind,
            task: text_opt(row, 3)?,
            batch: text_opt(row, 4)?,
            attempt: text_opt(row, 5)?,
            actor: text(row, 6)?,
            data,
        })
    }

    /// The id of its task.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn task_id(&self) -> Result<Option<TaskId>> {
        self.task
            .map(|id| word(3, id))
            .transpose()
            .doing("read an event")
    }

    /// The id of its batch.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn batch_id(&self) -> Result<Option<BatchId>> {
        self.batch
            .map(|id| word(4, id))
            .transpose()
            .doing("read an event")
    }

    /// The event that it stores.
    ///
    /// # Errors
    ///
    /// It stores none.
    pub fn event(&self) -> Result<Event> {
        self.parse().doing("read an event")
    }

    pub(super) fn parse(&self) -> rusqlite::Result<Event> {
        Ok(Event {
            seq: self.seq,
            at: self.at,
            kind: word(2, self.kind)?,
            task: self.task.map(|id| word(3, id)).transpose()?,
            batch: self.batch.map(|id| word(4, id)).transpose()?,
            attempt: self.attempt.map(|id| word(5, id)).transpose()?,
            actor: word(6, self.actor)?,
            data: serde_json::from_str(self.data).map_err(|error| broken(7, error))?,
        })
    }
}

/// A task as it is stored, with what stands around it.
#[derive(Clone, Debug)]
pub struct TaskRow<'row> {
    /// Its id.
    pub id: &'row str,
    /// Its key.
    pub key: Option<&'row str>,
    /// What it is called.
    pub title: &'row str,
    /// What is to be done.
    pub description: &'row str,
    /// Its script.
    pub run: Option<&'row str>,
    /// The command that decides whether its result is good.
    pub verify: Option<&'row str>,
    /// Its engine.
    pub engine: Option<&'row str>,
    /// Its model.
    pub model: Option<&'row str>,
    /// The limit of one attempt, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// The variables of its agent: an object of JSON, without spaces between its parts.
    pub env: Cow<'row, str>,
    /// 0 is most urgent.
    pub priority: i64,
    /// The word of its status.
    pub status: &'row str,
    /// Moves with every status write.
    pub version: u64,
    /// The ids of what it depends on, in order.
    pub depends_on: &'row [TaskId],
    /// What it is tied to, in the order in which that was done.
    pub links: &'row [Link],
    /// How many of its blockers are open.
    pub open_blockers: u64,
    /// When it was added.
    pub created_at: Timestamp,
    /// When anything of it last changed.
    pub updated_at: Timestamp,
}

const TASK: &str = "SELECT id, key, title, description, run, verify, engine, model, timeout_ms, env, priority, status, \
                    version, created_at_ms, updated_at_ms FROM task";

impl<'row> TaskRow<'row> {
    /// Reads a row of [`TASK`].
    fn from_row(row: &'row Row<'_>, around: Around<'row>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: text(row, 0)?,
            key: text_opt(row, 1)?,
            title: text(row, 2)?,
            description: text(row, 3)?,
            run: text_opt(row, 4)?,
            verify: text_opt(row, 5)?,
            engine: text_opt(row, 6)?,
            model: text_opt(row, 7)?,
            timeout_ms: row
                .get::<_, Option<i64>>(8)?
                .and_then(|ms| u64::try_from(ms).ok()),
            env: match text(row, 9)? {
                none @ "{}" => Cow::Borrowed(none),
                _ => Cow::Owned(to_json(&json::<BTreeMap<String, String>>(row, 9)?)),
            },
            priority: row.get(10)?,
            status: text(row, 11)?,
            version: row.get(12)?,
            depends_on: around.depends_on,
            links: around.links,
            open_blockers: around.open_blockers,
            created_at: time(row, 13)?,
            updated_at: time(row, 14)?,
        })
    }
}

/// What stands around one task.
#[derive(Clone, Copy, Debug, Default)]
struct Around<'a> {
    depends_on: &'a [TaskId],
    links: &'a [Link],
    open_blockers: u64,
}

/// What stands around every task there is.
#[derive(Debug, Default)]
struct Surroundings {
    edges: Edges,
    links: ById<Vec<Link>>,
    open_blockers: ById<u64>,
}

impl Surroundings {
    fn of(&self, task: TaskId) -> Around<'_> {
        Around {
            depends_on: self.edges.of(task),
            links: self.links.get(&task).map_or(&[], Vec::as_slice),
            open_blockers: self.open_blockers.get(&task).copied().unwrap_or(0),
        }
    }
}

/// Of so many tasks each is asked for its own; of more, what stands around all of them is read at once.
const ONE_BY_ONE: usize = 200;

impl Reader<'_> {
    /// The events that the filter lets through, oldest first, each handed to `each` as it is read.
    ///
    /// # Errors
    ///
    /// SQLite refuses, or `each` does.
    pub fn event_rows<E: From<super::StoreError>>(
        &self,
        filter: &EventFilter,
        each: impl FnMut(&EventRow<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.wanted_event_rows(filter, |_, _| true, each).map(drop)
    }

    /// The same, but of an event whose type and details are not wanted nothing else is read. Returns how many events
    /// there were, wanted or not, and the number of the last one.
    ///
    /// # Errors
    ///
    /// SQLite refuses, or `each` does.
    pub fn wanted_event_rows<E: From<super::StoreError>>(
        &self,
        filter: &EventFilter,
        is_wanted: fn(&str, &str) -> bool,
        mut each: impl FnMut(&EventRow<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(usize, Option<u64>), E> {
        const DOING: &str = "read the event log";
        let sql = format!("{EVENT}{}", filter.clause());
        let mut statement = self.conn.prepare_cached(&sql).doing(DOING)?;
        let mut rows = statement.query(filter.values()).doing(DOING)?;
        let (mut count, mut last) = (0, None);
        while let Some(row) = rows.next().doing(DOING)? {
            let seq = row.get(0).doing(DOING)?;
            let kind = text(row, 2).doing("read an event")?;
            let data = text(row, 7).doing("read an event")?;
            count += 1;
            last = Some(seq);
            if is_wanted(kind, data) {
                each(&EventRow::with(row, seq, kind, data).doing("read an event")?)?;
            }
        }
        Ok((count, last))
    }

    /// The tasks that the filter lets through, in the order in which they were added, each handed to `each` as it is
    /// read, until it breaks.
    ///
    /// # Errors
    ///
    /// SQLite refuses, or a row holds what cf does not write.
    pub fn task_rows(
        &self,
        filter: &TaskFilter,
        mut each: impl FnMut(&TaskRow<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        const DOING: &str = "read the tasks";
        let sql = format!("{TASK}{}", filter.clause());
        let mut statement: Statement<'_> = self.conn.prepare(&sql).doing(DOING)?;
        let mut rows = statement.query([]).doing(DOING)?;
        let mut all = if filter.is_everything() {
            Some(self.surroundings()?)
        } else {
            None
        };
        let mut count = 0;
        while let Some(row) = rows.next().doing(DOING)? {
            let id: TaskId = parsed(row, 0).doing("read a task")?;
            count += 1;
            if count > ONE_BY_ONE && all.is_none() {
                all = Some(self.surroundings()?);
            }
            let (depends_on, links);
            let around = if let Some(all) = &all {
                all.of(id)
            } else {
                depends_on = self.depends_on(id)?;
                links = self.links(id)?;
                Around {
                    depends_on: &depends_on,
                    links: &links,
                    open_blockers: self.open_blockers(id)?,
                }
            };
            if each(&TaskRow::from_row(row, around).doing("read a task")?).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn surroundings(&self) -> Result<Surroundings> {
        Ok(Surroundings {
            edges: self.all_edges()?,
            links: self.links_by_task()?,
            open_blockers: self.open_blockers_by_task()?,
        })
    }
}

fn text<'row>(row: &'row Row<'_>, at: usize) -> rusqlite::Result<&'row str> {
    Ok(row.get_ref(at)?.as_str()?)
}

fn text_opt<'row>(row: &'row Row<'_>, at: usize) -> rusqlite::Result<Option<&'row str>> {
    Ok(row.get_ref(at)?.as_str_or_null()?)
}

pub(super) fn word<T>(at: usize, text: &str) -> rusqlite::Result<T>
where
    T: FromStr,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    text.parse().map_err(|error| broken(at, error))
}

fn broken(at: usize, error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(at, Type::Text, Box::new(error))
}
