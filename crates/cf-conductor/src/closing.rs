//! Why a batch that has not ended starts nothing new: told to people from what is stored, by the rule of the schedule.

use cf_core::TaskLabel;

use crate::schedule::is_bad_by_itself;
use crate::store::batch::{Batch, Stop};
use crate::store::{Reader, Result};

/// Why a batch that has not ended starts nothing new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closing {
    /// Somebody asked it to stop.
    Stop(Stop),
    /// This task failed, and the batch stops on failures.
    Failure(TaskLabel),
}

impl Closing {
    /// Returns why a batch starts nothing new; none when it has ended, or starts what is ready. Costs a look at its
    /// tasks only where it stops on failures.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn of(reader: &Reader<'_>, batch: &Batch) -> Result<Option<Self>> {
        if batch.status.is_final() {
            return Ok(None);
        }
        if let Some(stop) = batch.stop {
            return Ok(Some(Self::Stop(stop)));
        }
        if !batch.settings.stops_on_failure() {
            return Ok(None);
        }
        let rows = reader.batch_tasks(batch.id)?;
        let bad = rows.iter().filter(|row| is_bad_by_itself(row));
        match bad.min_by_key(|row| row.since_seq) {
            Some(first) => Ok(Some(Self::Failure(reader.label(first.task)?))),
            None => Ok(None),
        }
    }
}
