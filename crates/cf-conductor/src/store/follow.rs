//! What following a tracker keeps: watermarks and overrulings with the links, comments, and the shared cache of
//! answers.
//!
//! Comments are stored in one transaction with the watermark that says so; until it commits they are read again. That
//! they are news is told later, in the transaction of the event that tells it. Nothing here knows what an answer means.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use cf_core::{Actor, BlockerId, EventType, Link, LinkKind, TaskId, TaskStatus, Timestamp};
use rusqlite::{OptionalExtension as _, Row};
use serde::{Deserialize, Serialize};

use super::event::Event;
use super::sql::{json_opt, parsed, parsed_opt, time, time_opt, to_json};
use super::{Doing as _, Reader, Result, Tx};
use crate::settings::CommentsFrom;

/// Closings of a link that a person overruled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// The event of the overruling.
    pub seq: u64,
    /// The closings as they were then: state, reason, and time of closing or merging.
    pub closures: Vec<String>,
}

/// A link with everything that is remembered about following it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkRow {
    /// Its number.
    pub pk: i64,
    /// The task.
    pub task: TaskId,
    /// What it points at.
    pub link: Link,
    /// When it was made.
    pub created_at: Timestamp,
    /// What does not act any more.
    pub spent: Option<Spent>,
    /// The closing that ended the task, by the tracker's clock, and the newest event when it did.
    pub acted: Option<(Timestamp, u64)>,
    /// When a batch was forced last, and the newest event then.
    pub forced: Option<(Timestamp, u64)>,
    /// Comments are stored as of this change of the item; nothing when they were never read.
    pub comments_seen: Option<Timestamp>,
    /// When the newest stored comment was written.
    pub comments_since: Option<Timestamp>,
    /// The question about its closing.
    pub question: Option<BlockerId>,
}

const LINK: &str = "link.pk, link.task, link.kind, link.host, link.repo, link.number, link.created_at_ms, link.spent, \
                    link.acted_at_ms, link.acted_seq, link.forced_at_ms, link.forced_seq, link.comments_seen_ms, \
                    link.comments_since_ms, link.question";

impl LinkRow {
    /// Reads the columns of [`LINK`], by their places.
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let pair = |at: usize| -> rusqlite::Result<Option<(Timestamp, u64)>> {
            Ok(time_opt(row, at)?.zip(row.get::<_, Option<u64>>(at + 1)?))
        };
        Ok(Self {
            pk: row.get(0)?,
            task: parsed(row, 1)?,
            link: Link {
                kind: parsed::<LinkKind>(row, 2)?,
                host: row.get(3)?,
                repo: parsed(row, 4)?,
                number: row.get(5)?,
            },
            created_at: time(row, 6)?,
            spent: json_opt(row, 7)?,
            acted: pair(8)?,
            forced: pair(10)?,
            comments_seen: time_opt(row, 12)?,
            comments_since: time_opt(row, 13)?,
            question: parsed_opt(row, 14)?,
        })
    }
}

/// A task that is linked to something, as far as following asks about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedTask {
    /// Where it stands.
    pub status: TaskStatus,
    /// Its links, oldest first.
    pub links: Vec<LinkRow>,
}

/// A comment as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredComment {
    /// The author's login, or `ghost`.
    pub author: String,
    /// Whether the author is an owner, member or collaborator.
    pub trusted: bool,
    /// What it says: foreign text.
    pub body: String,
    /// When it was written.
    pub at: Timestamp,
    /// Whether it was written after the link was made.
    pub news: bool,
    /// What it was written about.
    pub link: Link,
    /// The newest event when it was stored.
    pub stored_seq: u64,
}

impl StoredComment {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            author: row.get("author")?,
            trusted: row.get("trusted")?,
            body: row.get("body")?,
            at: time(row, "at_ms")?,
            news: row.get("news")?,
            stored_seq: row.get("stored_seq")?,
            link: Link {
                kind: parsed::<LinkKind>(row, "kind")?,
                host: row.get("host")?,
                repo: parsed(row, "repo")?,
                number: row.get("number")?,
            },
        })
    }
}

/// A comment to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewComment<'a> {
    /// The tracker's id of it.
    pub remote_id: &'a str,
    /// The author's login.
    pub author: &'a str,
    /// Whether the author is trusted.
    pub trusted: bool,
    /// What it says.
    pub body: &'a str,
    /// When it was written.
    pub at: Timestamp,
    /// Whether it is to be told.
    pub news: bool,
}

/// An overruling: the event, and when.
pub type Overruled = (u64, Timestamp);

const COMMENT: &str = "SELECT comment.author, comment.trusted, comment.body, comment.at_ms, comment.news, comment.stored_seq, \
     link.kind, link.host, \
                       link.repo, link.number FROM comment JOIN link ON link.pk = comment.link WHERE comment.task = ?1";

/// The condition on comments by whom may be given to agents.
const fn of(from: CommentsFrom) -> &'static str {
    match from {
        CommentsFrom::Members => " AND trusted = 1",
        CommentsFrom::Anyone => "",
    }
}

impl Reader<'_> {
    /// Whether any task is linked to anything.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn has_links(&self) -> Result<bool> {
        self.conn
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM link)")
            .and_then(|mut s| s.query_row([], |row| row.get(0)))
            .doing("look for links")
    }

    /// The linked ones among these tasks, or of all tasks, but for those that nothing follows any more: what is deleted
    /// or merged.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn linked_tasks(&self, only: Option<&[TaskId]>) -> Result<HashMap<TaskId, LinkedTask>> {
        let mut found = HashMap::new();
        let Some(only) = only else {
            found.reserve(usize::try_from(self.count_links()?).unwrap_or(0));
            self.add_linked_tasks("", [], &mut found)?;
            return Ok(found);
        };
        for task in only {
            self.add_linked_tasks("AND link.task = ?1", [task.to_string()], &mut found)?;
        }
        Ok(found)
    }

    fn add_linked_tasks(
        &self,
        which: &str,
        given: impl rusqlite::Params,
        found: &mut HashMap<TaskId, LinkedTask>,
    ) -> Result<()> {
        let sql = format!(
            "SELECT {LINK}, task.status FROM link JOIN task ON task.id = link.task \
             WHERE task.status <> 'MERGED' AND task.deleted_at_ms IS NULL {which} ORDER BY link.pk"
        );
        let mut statement = self.conn.prepare_cached(&sql).doing("read links")?;
        let mut rows = statement.query(given).doing("read links")?;
        while let Some(row) = rows.next().doing("read links")? {
            let link = LinkRow::from_row(row).doing("read a link")?;
            match found.entry(link.task) {
                Entry::Occupied(mut task) => task.get_mut().links.push(link),
                Entry::Vacant(task) => {
                    task.insert(LinkedTask {
                        status: parsed(row, 15).doing("read a linked task")?,
                        links: vec![link],
                    });
                }
            }
        }
        Ok(())
    }

    /// The links of a task with what is remembered about them, oldest first.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn link_rows(&self, task: TaskId) -> Result<Vec<LinkRow>> {
        let mut statement = self
            .conn
            .prepare_cached(&format!(
                "SELECT {LINK} FROM link WHERE task = ?1 ORDER BY pk"
            ))
            .doing("read links")?;
        let rows = statement
            .query_map([task.to_string()], LinkRow::from_row)
            .doing("read links")?;
        rows.collect::<rusqlite::Result<_>>().doing("read links")
    }

    /// One link, if it is still there.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn link_row(&self, pk: i64) -> Result<Option<LinkRow>> {
        self.conn
            .prepare_cached(&format!("SELECT {LINK} FROM link WHERE pk = ?1"))
            .and_then(|mut s| s.query_row([pk], LinkRow::from_row).optional())
            .doing("read a link")
    }

    /// The links of every task that has any.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn all_link_rows(&self) -> Result<HashMap<TaskId, Vec<LinkRow>>> {
        let mut statement = self
            .conn
            .prepare_cached(&format!("SELECT {LINK} FROM link ORDER BY pk"))
            .doing("read links")?;
        let mut rows = statement.query([]).doing("read links")?;
        let mut by_task: HashMap<TaskId, Vec<LinkRow>> = HashMap::new();
        while let Some(row) = rows.next().doing("read links")? {
            let row = LinkRow::from_row(row).doing("read a link")?;
            by_task.entry(row.task).or_default().push(row);
        }
        Ok(by_task)
    }

    /// The comments of a task, oldest first.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn comments(&self, task: TaskId) -> Result<Vec<StoredComment>> {
        self.comment_list(
            &format!("{COMMENT} ORDER BY comment.at_ms, comment.pk"),
            task,
        )
    }

    /// The comments of a task that are news, may be given to agents, and were not told, oldest first.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn untold_comments(&self, task: TaskId, from: CommentsFrom) -> Result<Vec<StoredComment>> {
        self.comment_list(
            &format!(
                "{COMMENT} AND comment.news = 1 AND comment.told_seq IS NULL{} ORDER BY comment.at_ms, comment.pk",
                of(from)
            ),
            task,
        )
    }

    fn comment_list(&self, sql: &str, task: TaskId) -> Result<Vec<StoredComment>> {
        let mut statement = self.conn.prepare_cached(sql).doing("read comments")?;
        let rows = statement
            .query_map([task.to_string()], StoredComment::from_row)
            .doing("read comments")?;
        rows.collect::<rusqlite::Result<_>>().doing("read comments")
    }

    /// Whether this comment is stored with this link.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn has_comment(&self, row: &LinkRow, remote_id: &str) -> Result<bool> {
        self.conn
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM comment WHERE task = ?1 AND link = ?2 AND remote_id = ?3)",
            )
            .and_then(|mut s| {
                s.query_row((row.task.to_string(), row.pk, remote_id), |row| row.get(0))
            })
            .doing("look for a comment")
    }

    /// The tasks about which there is news that may be given to agents and was not told, each with how much.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn tasks_with_untold_comments(&self, from: CommentsFrom) -> Result<Vec<(TaskId, u32)>> {
        let mut statement = self
            .conn
            .prepare_cached(&format!(
                "SELECT task, count(*) FROM comment WHERE news = 1 AND told_seq IS NULL{} GROUP BY task",
                of(from)
            ))
            .doing("look for new comments")?;
        let rows = statement
            .query_map([], |row| Ok((parsed(row, "task")?, row.get(1)?)))
            .doing("look for new comments")?;
        rows.collect::<rusqlite::Result<_>>()
            .doing("look for new comments")
    }

    /// When a person set a task READY last, other than by an answer. Being added READY is no such thing.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn set_ready_by_hand(&self, task: TaskId) -> Result<Option<Overruled>> {
        self.conn
            .prepare_cached(
                "SELECT seq, at_ms FROM event WHERE task = ?1 AND type = 'TASK_STATUS_CHANGED' AND actor = 'cli' \
                 AND json_extract(data, '$.to') = 'READY' AND NOT EXISTS (SELECT 1 FROM event AS before \
                 WHERE before.seq = event.seq - 1 AND before.task = event.task \
                 AND before.type IN ('BLOCKER_ANSWERED', 'BLOCKER_RESOLVED')) ORDER BY seq DESC LIMIT 1",
            )
            .and_then(|mut s| {
                s.query_row([task.to_string()], |row| Ok((row.get(0)?, time(row, "at_ms")?)))
                    .optional()
            })
            .doing("read who set a task ready")
    }

    /// The event with which the reopening of a link's item put its task back into the queue last. An event that does
    /// not say what was reopened counts for every link of its task.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn requeued_by_tracker(&self, row: &LinkRow) -> Result<Option<u64>> {
        // What a link was made for may not be what it points at.
        let at = [LinkKind::Issue, LinkKind::Pr].map(|kind| {
            let link = Link {
                kind,
                ..row.link.clone()
            };
            link.url()
        });
        self.conn
            .prepare_cached(
                "SELECT seq FROM event WHERE task = ?1 AND type = 'BATCH_TASK_REQUEUED' \
                 AND json_extract(data, '$.source') = 'github' \
                 AND coalesce(json_extract(data, '$.evidence.url') COLLATE NOCASE IN (?2, ?3), 1) \
                 ORDER BY seq DESC LIMIT 1",
            )
            .and_then(|mut s| {
                s.query_row((row.task.to_string(), &at[0], &at[1]), |row| row.get(0))
                    .optional()
            })
            .doing("read who put a task back into the queue")
    }

    /// The cached answers that were stored at or after this time, in milliseconds since 1970, as JSON texts.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn github_cache(&self, after_ms: i64) -> Result<Vec<(String, String)>> {
        let mut statement = self
            .conn
            .prepare_cached("SELECT key, snapshot FROM github_cache WHERE fetched_at_ms >= ?1")
            .doing("read cached answers")?;
        let rows = statement
            .query_map([after_ms], |row| Ok((row.get(0)?, row.get(1)?)))
            .doing("read cached answers")?;
        rows.collect::<rusqlite::Result<_>>()
            .doing("read cached answers")
    }

    /// What is cached under the keys that begin so and end with a number in hexadecimal digits, as JSON texts.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub(crate) fn cached_under(&self, prefix: &str) -> Result<Vec<String>> {
        // `g` sorts after every such digit.
        let mut statement = self
            .conn
            .prepare_cached("SELECT snapshot FROM github_cache WHERE key >= ?1 AND key < ?1 || 'g'")
            .doing("read cached answers")?;
        let rows = statement
            .query_map([prefix], |row| row.get(0))
            .doing("read cached answers")?;
        rows.collect::<rusqlite::Result<_>>()
            .doing("read cached answers")
    }

    /// How many answers are cached.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn count_cached_answers(&self) -> Result<u64> {
        self.conn
            .query_row(
                "SELECT count(*) FROM github_cache WHERE key LIKE 'item %'",
                [],
                |row| row.get(0),
            )
            .doing("count cached answers")
    }
}

impl Tx<'_> {
    /// Stores an answer, or another thing that is worth keeping, under its key.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn cache_answer(&mut self, key: &str, json: &str) -> Result<()> {
        self.conn
            .prepare_cached(
                "INSERT INTO github_cache (key, snapshot, fetched_at_ms) VALUES (?1, ?2, ?3) \
                 ON CONFLICT (key) DO UPDATE SET snapshot = excluded.snapshot, fetched_at_ms = excluded.fetched_at_ms",
            )
            .and_then(|mut s| s.execute((key, json, self.now.as_millisecond())))
            .doing("cache an answer")?;
        Ok(())
    }

    /// Forgets what is cached under a key.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub(crate) fn forget_answer(&mut self, key: &str) -> Result<()> {
        self.conn
            .prepare_cached("DELETE FROM github_cache WHERE key = ?1")
            .and_then(|mut s| s.execute([key]))
            .doing("forget a cached answer")?;
        Ok(())
    }

    /// Stores comments with the watermark that says so; without one they are read again. Those that are stored already
    /// stay as they are. Returns how many are new.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn store_comments(
        &mut self,
        row: &LinkRow,
        comments: &[NewComment<'_>],
        seen: Option<Timestamp>,
        since: Option<Timestamp>,
    ) -> Result<usize> {
        let seq = self.reader().last_seq()?;
        let mut stored = 0;
        for comment in comments {
            stored += self
                .conn
                .prepare_cached(
                    "INSERT OR IGNORE INTO comment (task, link, remote_id, author, trusted, body, at_ms, stored_seq, news) \
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                )
                .and_then(|mut s| {
                    s.execute((
                        row.task.to_string(),
                        row.pk,
                        comment.remote_id,
                        comment.author,
                        comment.trusted,
                        comment.body,
                        comment.at.as_millisecond(),
                        seq,
                        comment.news,
                    ))
                })
                .doing("store a comment")?;
        }
        let Some(seen) = seen else {
            return Ok(stored);
        };
        self.conn
            .prepare_cached(
                "UPDATE link SET comments_seen_ms = max(?2, coalesce(comments_seen_ms, ?2)), \
                 comments_since_ms = coalesce(max(?3, coalesce(comments_since_ms, ?3)), comments_since_ms) WHERE pk = ?1",
            )
            .and_then(|mut s| {
                s.execute((
                    row.pk,
                    seen.as_millisecond(),
                    since.map(Timestamp::as_millisecond),
                ))
            })
            .doing("store how far comments were read")?;
        Ok(stored)
    }

    /// Notes the event that told of a task's new comments, as far as they may be given to agents.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn told_comments(&mut self, task: TaskId, from: CommentsFrom, seq: u64) -> Result<()> {
        self.conn
            .prepare_cached(&format!(
                "UPDATE comment SET told_seq = ?2 WHERE task = ?1 AND news = 1 AND told_seq IS NULL{}",
                of(from)
            ))
            .and_then(|mut s| s.execute((task.to_string(), seq)))
            .doing("note that comments were told")?;
        Ok(())
    }

    /// Pins the closings of a link that do not act any more.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn spend(&mut self, link: i64, spent: &Spent) -> Result<()> {
        self.conn
            .prepare_cached("UPDATE link SET spent = ?2 WHERE pk = ?1")
            .and_then(|mut s| s.execute((link, to_json(spent))))
            .doing("note an overruled closing")?;
        Ok(())
    }

    /// Notes that a closing at this time, by the tracker's clock, ended a task or holds it.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn acted(&mut self, task: TaskId, at: Timestamp) -> Result<()> {
        let seq = self.reader().last_seq()?;
        self.conn
            .prepare_cached("UPDATE link SET acted_at_ms = ?2, acted_seq = ?3 WHERE task = ?1")
            .and_then(|mut s| s.execute((task.to_string(), at.as_millisecond(), seq)))
            .doing("note a closing that acted")?;
        Ok(())
    }

    /// Notes that a task is run in spite of whatever its links say now.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn force_links(&mut self, task: TaskId) -> Result<()> {
        let seq = self.reader().last_seq()?;
        self.conn
            .prepare_cached("UPDATE link SET forced_at_ms = ?2, forced_seq = ?3 WHERE task = ?1")
            .and_then(|mut s| s.execute((task.to_string(), self.now.as_millisecond(), seq)))
            .doing("note a forced run")?;
        Ok(())
    }

    /// Resolves a question without touching the task's status, for a batch that holds the task and decides by itself
    /// what follows.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub(crate) fn resolve_for(&mut self, by: &Actor, id: BlockerId, task: TaskId) -> Result<()> {
        let event = Event::new(EventType::BlockerResolved)
            .task(task)
            .with("blocker", id.to_string());
        let seq = self.append_by(by, event)?;
        self.conn
            .execute(
                "UPDATE blocker SET status = 'RESOLVED', answered_at_ms = ?2, closed_seq = ?3 WHERE id = ?1 AND status = 'OPEN'",
                (id.to_string(), self.now.as_millisecond(), seq),
            )
            .doing("resolve a question")?;
        Ok(())
    }

    /// Ties the question about a link's closing to it, or takes it away.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn set_link_question(&mut self, link: i64, question: Option<BlockerId>) -> Result<()> {
        self.conn
            .prepare_cached("UPDATE link SET question = ?2 WHERE pk = ?1")
            .and_then(|mut s| s.execute((link, question.map(|id| id.to_string()))))
            .doing("note a question about a link")?;
        Ok(())
    }

    /// Lets a link point at where its target has moved. A task that is linked to that place already keeps one link.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn move_link(&mut self, row: &LinkRow, to: &Link) -> Result<()> {
        let changed = self
            .conn
            .execute(
                "UPDATE OR IGNORE link SET kind = ?2, host = ?3, repo = ?4, number = ?5 WHERE pk = ?1",
                (
                    row.pk,
                    to.kind.as_str(),
                    &to.host,
                    to.repo.to_string(),
                    to.number,
                ),
            )
            .doing("move a link")?;
        if changed == 0 {
            self.conn
                .execute("DELETE FROM link WHERE pk = ?1", [row.pk])
                .doing("remove a link that became another")?;
        }
        self.append(
            Event::new(EventType::TaskLinked)
                .task(row.task)
                .with("url", to.url())
                .with("moved_from", row.link.url()),
        )?;
        Ok(())
    }
}

impl Tx<'_> {
    /// Notes that a task was written at `place` by somebody who is not trusted, or that this is so no longer.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn set_origin(&mut self, task: TaskId, place: Option<&str>) -> Result<()> {
        self.conn
            .prepare_cached("UPDATE task SET origin = ?2 WHERE id = ?1")
            .and_then(|mut s| s.execute((task.to_string(), place)))
            .doing("note where a task was written")?;
        Ok(())
    }
}
