//! The end of a batch: everything gets its outcome, and the batch its status.

use cf_core::{BatchStatus, Outcome, Phase, TaskStatus};
use cf_reconcile::{ExitCode, LiveClaim, Stored, final_status};

use super::rows;
use super::turn::Core;
use crate::store::task::StatusWrite;
use crate::store::{Result, Tx};

impl Core {
    /// Gives an outcome to everything that has none, puts back what was claimed and never got its turn, and stores the
    /// batch's end.
    pub(super) fn end(&mut self, tx: &mut Tx<'_>) -> Result<(BatchStatus, ExitCode)> {
        let cut = self.cut.clone();
        self.schedule.wind_up(&cut, tx.now());
        let by = self.actor();
        let cancelled: Vec<_> = self
            .schedule
            .members()
            .filter(|task| {
                self.schedule
                    .row(*task)
                    .is_some_and(|row| row.outcome == Some(Outcome::Cancelled))
            })
            .collect();
        for task in cancelled {
            let row = tx.reader().task(task)?;
            if !row.deleted
                && row.status == TaskStatus::InProgress
                && row.claim == Some(self.batch)
                && !tx.reader().has_open_attempt(task)?
                && let StatusWrite::Changed { .. } =
                    tx.write_status(&row, TaskStatus::Ready, &by, None)?
            {
                self.schedule
                    .saw(task, Stored::Status(TaskStatus::Ready), LiveClaim::None);
            }
        }
        rows::store(self, tx)?;
        debug_assert_eq!(
            self.schedule.count(Phase::Finished),
            self.schedule.members().count(),
            "everything has an outcome: {:?}",
            self.schedule
                .members()
                .filter_map(|task| self.schedule.row(task))
                .filter(|row| row.phase != Phase::Finished)
                .collect::<Vec<_>>()
        );
        let (status, exit) = final_status(&self.schedule.standings(), self.stop_cause());
        tx.end_batch(self.batch, status, exit.code())?;
        Ok((status, exit))
    }
}
