//! What a batch comes to: how many of its tasks stand where, and what its agents used.
//!
//! A batch that has ended is counted once, in the transaction that ends it, and loses its totals when it goes on. What
//! its agents used may still change afterwards, when the next batch takes over what it has left: then it is counted
//! again, in that transaction. Of a batch that goes on the rows are counted whenever somebody asks.

use cf_core::{BatchId, Outcome, Phase};
use rusqlite::OptionalExtension as _;

use super::{Doing as _, Reader, Result, Tx};

/// How many tasks of a batch stand where, and what its agents report to have used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    /// How many tasks have each phase and outcome; none of these numbers is 0.
    pub counts: Vec<(Phase, Option<Outcome>, u64)>,
    /// Tokens, and cost in millionths of a dollar, each at most 2^53. None where nobody reports it.
    pub used: (Option<u64>, Option<u64>),
}

/// The outcomes in the order of the columns, which is that of their words: rows are counted in it too.
const OUTCOMES: [Outcome; 5] = [
    Outcome::Blocked,
    Outcome::Cancelled,
    Outcome::Completed,
    Outcome::Failed,
    Outcome::Skipped,
];

const STORED: &str = "SELECT blocked, cancelled, completed, failed, skipped, tokens, cost_micro_usd FROM batch_total \
                      WHERE batch = ?1";

/// Stores the totals of a batch that has ended. One with a task that has no outcome has none, and is counted each time.
const STORE: &str = "INSERT OR REPLACE INTO batch_total \
     (batch, completed, failed, blocked, skipped, cancelled, tokens, cost_micro_usd) \
     SELECT ?1, count(*) FILTER (WHERE outcome = 'COMPLETED'), count(*) FILTER (WHERE outcome = 'FAILED'), \
            count(*) FILTER (WHERE outcome = 'BLOCKED'), count(*) FILTER (WHERE outcome = 'SKIPPED'), \
            count(*) FILTER (WHERE outcome = 'CANCELLED'), ?2, ?3 \
     FROM batch_task WHERE batch = ?1 \
     HAVING count(*) = count(outcome) \
        AND EXISTS (SELECT 1 FROM batch WHERE id = ?1 AND status NOT IN ('PENDING','RUNNING'))";

impl Reader<'_> {
    /// What a batch comes to: as stored, else counted.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn totals(&self, batch: BatchId) -> Result<Totals> {
        match self.stored_totals(batch)? {
            Some(stored) => Ok(stored),
            None => self.counted_totals(batch),
        }
    }

    /// What the agents of a batch report to have used: as stored, else added up.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn used(&self, batch: BatchId) -> Result<(Option<u64>, Option<u64>)> {
        match self.stored_totals(batch)? {
            Some(stored) => Ok(stored.used),
            None => self.used_in_batch(batch),
        }
    }

    /// The totals that were stored when the batch ended, if it has.
    pub(crate) fn stored_totals(&self, batch: BatchId) -> Result<Option<Totals>> {
        self.conn
            .prepare_cached(STORED)
            .and_then(|mut s| {
                s.query_row([batch.to_string()], |row| {
                    let mut counts = Vec::new();
                    for (at, outcome) in OUTCOMES.into_iter().enumerate() {
                        let n: u64 = row.get(at)?;
                        if n > 0 {
                            counts.push((Phase::Finished, Some(outcome), n));
                        }
                    }
                    Ok(Totals {
                        counts,
                        used: (row.get(5)?, row.get(6)?),
                    })
                })
                .optional()
            })
            .doing("read the totals of a batch")
    }

    /// The same from the rows of its tasks and attempts.
    pub(crate) fn counted_totals(&self, batch: BatchId) -> Result<Totals> {
        Ok(Totals {
            counts: self.batch_counts(batch)?,
            used: self.used_in_batch(batch)?,
        })
    }
}

impl Tx<'_> {
    /// Counts a batch that has ended and stores its totals.
    pub(super) fn store_totals(&mut self, batch: BatchId) -> Result<()> {
        let (tokens, cost) = self.reader().used_in_batch(batch)?;
        self.conn
            .prepare_cached(STORE)
            .and_then(|mut s| s.execute((batch.to_string(), tokens, cost)))
            .doing("store the totals of a batch")
            .map(drop)
    }

    /// Forgets the totals of a batch. Returns whether it had any.
    pub(super) fn forget_totals(&mut self, batch: BatchId) -> Result<bool> {
        self.conn
            .prepare_cached("DELETE FROM batch_total WHERE batch = ?1")
            .and_then(|mut s| s.execute([batch.to_string()]))
            .doing("forget the totals of a batch")
            .map(|removed| removed > 0)
    }

    /// Counts a batch again that has totals, after something else of it has changed than how it goes on.
    pub(super) fn refresh_totals(&mut self, batch: BatchId) -> Result<()> {
        if self.forget_totals(batch)? {
            self.store_totals(batch)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
