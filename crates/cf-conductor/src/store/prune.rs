//! Removes from the event log what is old and what nothing rests on any more, when a person asks for it.
//!
//! | what stays, however old it is                                       | because                             |
//! |---------------------------------------------------------------------|-------------------------------------|
//! | every event of a batch that has not ended                           | its conductor may need it           |
//! | changed dependencies and links of the tasks of such a batch         | its conductor may not have read it  |
//! | what people said and set; what was created, edited, deleted         | nothing else tells it               |
//! | what was kept as stale; the course of batches as a whole            | nothing else tells it               |
//! | the actions of sources                                              | status and reports show them        |
//! | the outcome of each task in each batch                              | its row names it                    |
//! | the newest status write of each task before the horizon             | the rest of the log goes on from it |
//! | the newest attempt of each task that began                          | the next may go on with its session |
//!
//! Whatever reads the log after a number, or compares numbers, sees nothing of it: numbers are never given again,
//! since the newest event always stays, and only events below a stored horizon can be removed at all. It happens in
//! short transactions with a pause after each, so that other writers, a conductor above all, hardly wait; one that is
//! cut short has removed what it has removed, and the next goes on.

use std::time::{Duration, Instant};

use cf_core::{Actor, EventType, Timestamp};

use super::event::Event;
use super::sql::millis;
use super::{Doing as _, Durability, Reader, Result, Store, StoreError, Tx};
use crate::workspace::Workspace;

const DOING: &str = "prune the event log";

/// How long a transaction may hold other writers up. The conductor gives up on them after half a second.
const HOLD: Duration = Duration::from_millis(20);

/// How many events the first transaction looks at, and the most that any does.
const FIRST_CHUNK: u64 = 200;
const MOST_CHUNK: u64 = 20_000;

/// Why an event `e` stays, or null. What a newer program has written is nothing that this one can judge.
const KEPT: &str = "CASE \
    WHEN e.type NOT IN ('TASK_STATUS_CHANGED', 'TASK_DEPENDENCY_CHANGED', 'TASK_LINKED', 'TASK_UNLINKED', \
        'BATCH_TASK_QUEUED', 'BATCH_TASK_STARTED', 'BATCH_TASK_STOPPING', 'BATCH_TASK_RETRYING', \
        'BATCH_TASK_COMPLETED', 'BATCH_TASK_FAILED', 'BATCH_TASK_BLOCKED', 'BATCH_TASK_SKIPPED', \
        'BATCH_TASK_CANCELLED', 'BATCH_TASK_KILLED', 'BATCH_TASK_REQUEUED', 'BATCH_TASK_CONTEXT', \
        'BATCH_TASK_WAITING', 'BATCH_TASK_DEPENDENCY_REOPENED', 'ATTEMPT_STARTED', 'ATTEMPT_ENDED', \
        'ATTEMPT_VERIFYING', 'ATTEMPT_ADOPTED', 'ATTEMPT_REPORTED', 'ATTEMPT_COMMITTED', 'ATTEMPT_RESCUED', \
        'ATTEMPT_CLEANED', 'SOURCE_UNAVAILABLE', 'SOURCE_AVAILABLE', 'SOURCE_NOTICE') \
        OR (e.type = 'TASK_STATUS_CHANGED' AND e.actor = 'cli') THEN 'said' \
    WHEN e.batch IS NOT NULL AND EXISTS (SELECT 1 FROM batch AS b WHERE b.id = e.batch \
        AND b.status IN ('PENDING', 'RUNNING')) THEN 'unfinished' \
    WHEN e.type IN ('TASK_DEPENDENCY_CHANGED', 'TASK_LINKED', 'TASK_UNLINKED') AND EXISTS (SELECT 1 \
        FROM batch_task AS p JOIN batch AS b ON b.id = p.batch WHERE p.task = e.task \
        AND b.status IN ('PENDING', 'RUNNING')) THEN 'unfinished' \
    WHEN e.batch IS NOT NULL AND coalesce(json_extract(e.data, '$.action'), json_extract(e.data, '$.intent')) \
        IS NOT NULL THEN 'action' \
    WHEN e.batch IS NOT NULL AND EXISTS (SELECT 1 FROM batch_task AS p WHERE p.batch = e.batch \
        AND p.task = e.task AND p.since_seq = e.seq) THEN 'outcome' \
    WHEN e.type = 'TASK_STATUS_CHANGED' AND NOT EXISTS (SELECT 1 FROM event AS later WHERE later.task = e.task \
        AND later.seq > e.seq AND later.seq < ?3 AND later.type = 'TASK_STATUS_CHANGED') THEN 'status' \
    WHEN e.attempt IS NOT NULL AND EXISTS (SELECT 1 FROM attempt AS a WHERE a.id = e.attempt AND (a.open = 1 \
        OR NOT EXISTS (SELECT 1 FROM attempt AS n WHERE n.task = a.task AND n.generation > a.generation \
        AND n.ending IS NOT 'never_started'))) THEN 'attempt' \
    END";

/// What is to be removed.
#[derive(Clone, Copy, Debug)]
pub struct Pruning {
    /// Only what is older than this.
    pub older_than: Duration,
    /// The newest so many events stay, however old they are. The newest of all always does.
    pub keep_last: u64,
}

/// What was removed, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Events with this number and those after it were not looked at.
    pub before: u64,
    /// How many were removed.
    pub removed: u64,
    /// How many stay that are not old enough.
    pub newer: u64,
    /// How many old ones stay, by what they are kept for, in the order of [`Kept::ALL`].
    pub kept: [u64; Kept::ALL.len()],
}

impl Pruned {
    /// How many old ones stay.
    pub fn needed(&self) -> u64 {
        self.kept.iter().sum()
    }
}

/// Why an old event stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// People said or did it, or nothing else tells it.
    Said,
    /// Its batch has not ended, or it is about the dependencies or links of a task of such a batch.
    Unfinished,
    /// A source acted.
    Action,
    /// It gave a task its outcome in a batch.
    Outcome,
    /// The status that the rest of the log goes on from.
    Status,
    /// It belongs to the newest attempt of a task.
    Attempt,
}

impl Kept {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Said,
        Self::Unfinished,
        Self::Action,
        Self::Outcome,
        Self::Status,
        Self::Attempt,
    ];

    /// The word, as in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Said => "said",
            Self::Unfinished => "unfinished",
            Self::Action => "action",
            Self::Outcome => "outcome",
            Self::Status => "status",
            Self::Attempt => "attempt",
        }
    }

    /// What it is, in words.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Said => {
                "said or done by people, created, edited, deleted, or about a batch as a whole"
            }
            Self::Unfinished => {
                "of batches that have not ended, and the links and dependencies of their tasks"
            }
            Self::Action => "actions of sources, which status and reports show",
            Self::Outcome => "outcomes of tasks in their batches",
            Self::Status => "the newest status of each task",
            Self::Attempt => "of each task's newest attempt",
        }
    }
}

/// How much room the database takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes of the whole database.
    pub total_bytes: u64,
    /// Bytes of pages in it that hold nothing; they are used again before the file grows.
    pub free_bytes: u64,
}

impl Room {
    /// Bytes of pages that hold something.
    pub const fn used_bytes(self) -> u64 {
        self.total_bytes.saturating_sub(self.free_bytes)
    }
}

impl Store {
    /// Looks how much would be removed. Changes nothing.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn prune_preview(&self, pruning: Pruning) -> Result<Pruned> {
        let cutoff = cutoff(pruning.older_than);
        let before = self.read(|reader| reader.horizon(cutoff, pruning.keep_last))?;
        let mut pruned = self.read(|reader| reader.newer(before))?;
        let mut after = 0;
        while after + 1 < before {
            let to = (after + MOST_CHUNK).min(before - 1);
            // A look of its own for each part: one long look would keep the write-ahead log from being reused.
            let judged = self.read(|reader| reader.judged(after, to, before, cutoff))?;
            pruned.count(&judged);
            after = to;
        }
        Ok(pruned)
    }

    /// Removes it, and appends one event that says so.
    ///
    /// What is gone is gone when this is cut short, and nothing else; whoever calls it again goes on.
    ///
    /// # Errors
    ///
    /// The caller is an agent, or SQLite refuses.
    pub fn prune(&mut self, actor: &Actor, pruning: Pruning) -> Result<Pruned> {
        refuse_agent(actor)?;
        let cutoff = cutoff(pruning.older_than);
        let before = self.read(|reader| reader.horizon(cutoff, pruning.keep_last))?;
        let mut pruned = self.read(|reader| reader.newer(before))?;
        let mut after = 0;
        let mut chunk = FIRST_CHUNK;
        let mut is_told = false;
        while after + 1 < before {
            let to = (after + chunk).min(before - 1);
            let start = Instant::now();
            let judged = self.write_as(actor, Durability::Normal, |tx| {
                let judged = tx.reader().judged(after, to, before, cutoff)?;
                if judged.removable.is_empty() {
                    return Ok(judged);
                }
                if !is_told {
                    tx.move_horizon(before, pruning)?;
                }
                tx.remove(&judged.removable)?;
                Ok(judged)
            });
            let (judged, _) = judged?;
            is_told |= !judged.removable.is_empty();
            pruned.count(&judged);
            let held = start.elapsed();
            // Others get the store for as long as this had it.
            std::thread::sleep(held);
            chunk = if held > HOLD { chunk / 2 } else { chunk * 2 };
            chunk = chunk.clamp(1, MOST_CHUNK);
            after = to;
        }
        Ok(pruned)
    }

    /// How much room the database takes.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn room(&self) -> Result<Room> {
        let ask = |what: &str| {
            self.conn
                .query_row(&format!("PRAGMA {what}"), [], |row| row.get::<_, u64>(0))
                .doing("look how large the database is")
        };
        let page = ask("page_size")?;
        Ok(Room {
            total_bytes: ask("page_count")? * page,
            free_bytes: ask("freelist_count")? * page,
        })
    }

    /// Refuses to write the database anew while a batch runs, which could not write meanwhile.
    ///
    /// # Errors
    ///
    /// A batch runs, or its lock cannot be looked at.
    pub fn refuse_to_shrink(&self, workspace: &Workspace) -> Result<()> {
        match workspace.live_batches()?.first() {
            None => Ok(()),
            Some(batch) => Err(StoreError::Refused {
                what: format!(
                    "the database cannot be written anew: batch {} is running",
                    batch.short()
                ),
                hint: Some("leave out --shrink, or wait for the end of the batch".to_owned()),
            }),
        }
    }

    /// Gives the free room back to the file system, by writing the whole database anew. Nobody else can write
    /// meanwhile, and the disk needs room for it twice more. A batch that begins at this moment waits.
    ///
    /// # Errors
    ///
    /// The caller is an agent, a batch runs, or SQLite refuses: the disk is full, or somebody writes.
    pub fn shrink(&mut self, workspace: &Workspace, actor: &Actor) -> Result<()> {
        refuse_agent(actor)?;
        self.refuse_to_shrink(workspace)?;
        self.conn
            .execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE);")
            .doing("write the database anew")
    }
}

/// The part of the log from one number to another, judged.
#[derive(Debug, Default)]
struct Judged {
    removable: Vec<u64>,
    kept: [u64; Kept::ALL.len()],
    /// Events that are not old by their own time, although the horizon is behind them: the clock was put back.
    newer: u64,
}

impl Pruned {
    fn count(&mut self, judged: &Judged) {
        self.removed += judged.removable.len() as u64;
        self.newer += judged.newer;
        for (all, these) in self.kept.iter_mut().zip(judged.kept) {
            *all += these;
        }
    }
}

impl Reader<'_> {
    /// The first event that is not older than the cutoff, or belongs to the newest ones that are to stay.
    ///
    /// Numbers and times rise together unless the clock was put back, so this is a search by halves; what it misses
    /// then stays.
    fn horizon(&self, cutoff: Timestamp, keep_last: u64) -> Result<u64> {
        let newest = self.last_seq()?;
        let kept = self.seq_before_last(
            &super::event::EventFilter::default(),
            usize::try_from(keep_last.max(1)).unwrap_or(usize::MAX),
        )?;
        let (mut low, mut high) = (0, (kept + 1).min(newest));
        let mut statement = self
            .conn
            .prepare_cached("SELECT at_ms < ?2 FROM event WHERE seq >= ?1 ORDER BY seq LIMIT 1")
            .doing(DOING)?;
        while low < high {
            let middle = low + (high - low) / 2;
            let is_old: bool = statement
                .query_row((middle, cutoff.as_millisecond()), |row| row.get(0))
                .doing(DOING)?;
            if is_old {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// How many events are not below the horizon, without reading them.
    fn newer(&self, before: u64) -> Result<Pruned> {
        let newer = self
            .conn
            .query_row(
                "SELECT count(*) FROM event WHERE seq >= ?1",
                [before],
                |row| row.get(0),
            )
            .doing(DOING)?;
        Ok(Pruned {
            before,
            newer,
            ..Pruned::default()
        })
    }

    /// Judges the events after one number and up to another.
    fn judged(&self, after: u64, to: u64, before: u64, cutoff: Timestamp) -> Result<Judged> {
        let sql = format!(
            "SELECT e.seq, CASE WHEN e.at_ms >= ?4 THEN 'newer' ELSE {KEPT} END FROM event AS e \
             WHERE e.seq > ?1 AND e.seq <= ?2 ORDER BY e.seq"
        );
        let mut statement = self.conn.prepare_cached(&sql).doing(DOING)?;
        let mut rows = statement
            .query((after, to, before, cutoff.as_millisecond()))
            .doing(DOING)?;
        let mut judged = Judged::default();
        while let Some(row) = rows.next().doing(DOING)? {
            let why = row.get_ref(1).and_then(|why| Ok(why.as_str_or_null()?));
            match why.doing(DOING)? {
                None => judged.removable.push(row.get(0).doing(DOING)?),
                Some("newer") => judged.newer += 1,
                Some(word) => {
                    for (count, kept) in judged.kept.iter_mut().zip(Kept::ALL) {
                        *count += u64::from(kept.as_str() == word);
                    }
                }
            }
        }
        Ok(judged)
    }
}

impl Tx<'_> {
    /// Lets events below a number be removed, and says so in the log.
    fn move_horizon(&mut self, before: u64, pruning: Pruning) -> Result<()> {
        self.append(
            Event::new(EventType::EventsPruned)
                .with("before", before)
                .with("older_than_ms", millis(pruning.older_than))
                .with("keep_last", pruning.keep_last),
        )?;
        self.conn
            .execute("UPDATE event_horizon SET seq = max(seq, ?1)", [before])
            .doing(DOING)
            .map(drop)
    }

    fn remove(&self, seqs: &[u64]) -> Result<()> {
        let mut statement = self
            .conn
            .prepare_cached("DELETE FROM event WHERE seq = ?1")
            .doing(DOING)?;
        for seq in seqs {
            statement.execute([seq]).doing(DOING)?;
        }
        Ok(())
    }
}

/// The time so long ago.
fn cutoff(older_than: Duration) -> Timestamp {
    let ms = super::now()
        .as_millisecond()
        .saturating_sub(millis(older_than));
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MIN)
}

fn refuse_agent(actor: &Actor) -> Result<()> {
    match actor {
        Actor::Attempt(_) => Err(StoreError::NotForAgents {
            deed: "prune the event log".to_owned(),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
