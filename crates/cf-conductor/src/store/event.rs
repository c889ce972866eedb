//! The append-only log of what happened.

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use cf_core::{Actor, AttemptId, BatchId, EventType, TaskId, Timestamp};
use rusqlite::{OptionalExtension as _, Row};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::details::Details;
use super::rows::{EVENT, EventRow};
use super::{Doing as _, Reader, Result, Tx};

/// What an entry of the log tells: a word that this program knows, or one that a newer one has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// One of the words of [`EventType`].
    Known(EventType),
    /// Another word. Readers show it as it stands, and nothing acts on it.
    Unknown(String),
}

impl EventKind {
    /// The word, as stored and shown.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(kind) => kind.as_str(),
            Self::Unknown(word) => word,
        }
    }

    /// The type, when this program knows it.
    pub const fn known(&self) -> Option<EventType> {
        match self {
            Self::Known(kind) => Some(*kind),
            Self::Unknown(_) => None,
        }
    }
}

impl From<EventType> for EventKind {
    fn from(kind: EventType) -> Self {
        Self::Known(kind)
    }
}

impl FromStr for EventKind {
    type Err = Infallible;

    fn from_str(word: &str) -> std::result::Result<Self, Infallible> {
        Ok(word
            .parse()
            .map_or_else(|_| Self::Unknown(word.to_owned()), Self::Known))
    }
}

impl PartialEq<EventType> for EventKind {
    fn eq(&self, other: &EventType) -> bool {
        self.known() == Some(*other)
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for EventKind {
    fn serialize<S: serde::Serializer>(
        &self,
        serializer: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for EventKind {
    fn deserialize<D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> std::result::Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        Ok(word
            .parse()
            .map_or_else(|_| Self::Unknown(word.clone()), Self::Known))
    }
}

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its number: rising, without meaning otherwise. 0 until it is stored.
    pub seq: u64,
    /// When it was stored.
    pub at: Timestamp,
    /// What happened.
    #[serde(rename = "type")]
    pub kind: EventKind,
    /// The task that it happened to.
    pub task: Option<TaskId>,
    /// The batch that it belongs to.
    pub batch: Option<BatchId>,
    /// The attempt that it belongs to.
    pub attempt: Option<AttemptId>,
    /// Who caused it.
    pub actor: Actor,
    /// The details; which ones depends on the type.
    pub data: Details,
}

impl Event {
    /// An event of this type, about nothing yet.
    pub fn new(kind: EventType) -> Self {
        Self {
            seq: 0,
            at: Timestamp::UNIX_EPOCH,
            kind: kind.into(),
            task: None,
            batch: None,
            attempt: None,
            actor: Actor::System,
            data: Details::default(),
        }
    }

    /// About this task.
    pub fn task(mut self, task: TaskId) -> Self {
        self.task = Some(task);
        self
    }

    /// Within this batch.
    pub fn batch(mut self, batch: BatchId) -> Self {
        self.batch = Some(batch);
        self
    }

    /// Of this attempt.
    pub fn attempt(mut self, attempt: AttemptId) -> Self {
        self.attempt = Some(attempt);
        self
    }

    /// With a detail.
    pub fn with(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Value>) -> Self {
        self.data.insert(name, value);
        self
    }

    /// A detail as text, or nothing.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.data.get(name).and_then(Value::as_str)
    }

    /// Reads a row of [`EVENT`].
    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        EventRow::from_row(row)?.parse()
    }
}

/// Which events to read. All limits hold together.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// Only those after this number.
    pub after: u64,
    /// Only those of this batch.
    pub batch: Option<BatchId>,
    /// Only those about this task.
    pub task: Option<TaskId>,
    /// At most so many, the first ones; nothing means all.
    pub limit: Option<usize>,
}

impl EventFilter {
    /// The condition on batch and task. Each has a plan of its own, so that an index finds the events.
    const fn scope(&self) -> &'static str {
        match (self.batch, self.task) {
            (None, None) => "(?2 IS NULL AND ?3 IS NULL)",
            (Some(_), None) => "batch = ?2 AND ?3 IS NULL",
            (None, Some(_)) => "task = ?3 AND ?2 IS NULL",
            (Some(_), Some(_)) => "batch = ?2 AND task = ?3",
        }
    }

    /// What follows `FROM event`, oldest first.
    pub(super) fn clause(&self) -> String {
        let scope = self.scope();
        format!(" WHERE seq > ?1 AND {scope} ORDER BY seq LIMIT ?4")
    }

    /// What stands for `?1` to `?4`: the number, the batch, the task, and the limit.
    pub(super) fn values(&self) -> (u64, Option<String>, Option<String>, i64) {
        (
            self.after,
            self.batch.map(|id| id.to_string()),
            self.task.map(|id| id.to_string()),
            self.limit
                .map_or(-1, |n| i64::try_from(n).unwrap_or(i64::MAX)),
        )
    }
}

impl Tx<'_> {
    /// Appends an event by this transaction's actor, at its time, and returns its number.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn append(&mut self, event: Event) -> Result<u64> {
        let actor = self.actor.clone();
        self.append_by(&actor, event)
    }

    /// The same by another actor.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn append_by(&mut self, actor: &Actor, mut event: Event) -> Result<u64> {
        event.at = self.now;
        event.actor = actor.clone();
        let mut statement = self
            .conn
            .prepare_cached(
                "INSERT INTO event (at_ms, type, task, batch, attempt, actor, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )
            .doing("append an event")?;
        statement
            .execute((
                event.at.as_millisecond(),
                event.kind.as_str(),
                event.task.map(|id| id.to_string()),
                event.batch.map(|id| id.to_string()),
                event.attempt.map(|id| id.to_string()),
                event.actor.to_string(),
                serde_json::to_string(&event.data).expect("details are JSON"),
            ))
            .doing("append an event")?;
        event.seq = self.conn.last_insert_rowid() as u64;
        let seq = event.seq;
        crate::fault::stored(&event);
        self.appended.push(event);
        Ok(seq)
    }
}

impl Reader<'_> {
    /// The number of the newest event, 0 when there is none.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn last_seq(&self) -> Result<u64> {
        self.conn
            .prepare_cached("SELECT coalesce(max(seq), 0) FROM event")
            .and_then(|mut s| s.query_row([], |row| row.get(0)))
            .doing("read the event log")
    }

    /// The number after which the filter lets through only its newest `count` events. Its limit does not matter.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn seq_before_last(&self, filter: &EventFilter, count: usize) -> Result<u64> {
        let scope = filter.scope();
        let sql = format!(
            "SELECT seq FROM event WHERE seq > ?1 AND {scope} ORDER BY seq DESC LIMIT 1 OFFSET ?4"
        );
        let (after, batch, task, _) = filter.values();
        let skipped = i64::try_from(count).unwrap_or(i64::MAX);
        self.conn
            .prepare_cached(&sql)
            .and_then(|mut s| {
                s.query_row((after, batch, task, skipped), |row| row.get(0))
                    .optional()
            })
            .doing("read the event log")
            .map(|seq| seq.unwrap_or(filter.after))
    }

    /// The events that the filter lets through, oldest first, each handed to `each` as it is read.
    ///
    /// # Errors
    ///
    /// SQLite refuses, or `each` does.
    pub fn events(
        &self,
        filter: &EventFilter,
        mut each: impl FnMut(Event) -> Result<()>,
    ) -> Result<()> {
        self.event_rows(filter, |row| each(row.event()?))
    }

    /// The tasks that were deleted after an event, each with the number of its deletion and what depended on it.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub(crate) fn deletions_after(&self, seq: u64) -> Result<Vec<(u64, TaskId, Vec<TaskId>)>> {
        let mut statement = self
            .conn
            .prepare_cached(&format!(
                "{EVENT} INDEXED BY event_deletion WHERE seq > ?1 AND type = 'TASK_DELETED' ORDER BY seq"
            ))
            .doing("read the event log")?;
        let rows = statement
            .query_map([seq], Event::from_row)
            .doing("read the event log")?;
        let mut deletions = Vec::new();
        for event in rows {
            let event = event.doing("read an event")?;
            let dependents = event
                .data
                .get("dependents")
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            let dependents = dependents
                .filter_map(|id| id.as_str()?.parse().ok())
                .collect();
            deletions.extend(event.task.map(|task| (event.seq, task, dependents)));
        }
        Ok(deletions)
    }

    /// The same as a list.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn event_list(&self, filter: &EventFilter) -> Result<Vec<Event>> {
        let mut list = Vec::new();
        self.events(filter, |event| {
            list.push(event);
            Ok(())
        })?;
        Ok(list)
    }
}
