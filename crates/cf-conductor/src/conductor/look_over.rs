//! One look of all sources at the tasks of batches that have not ended, without conducting them.

use cf_core::{BatchId, Phase, TaskId};
use cf_reconcile::{AskGrace, Believed, Merged};

use super::{ConductorError, Setup};
use crate::source::Asked;
use crate::store::Store;
use crate::store::batch::BatchTask;

/// What the sources say about the tasks of one batch.
#[derive(Clone, Debug)]
pub struct LookOver {
    /// The batch.
    pub batch: BatchId,
    /// The process that conducts it; none when its conductor is gone.
    pub conductor: Option<u32>,
    /// One merged finding for each task that a source knows something about.
    pub findings: Vec<Merged>,
    /// What could not be read: the source, and why.
    pub unknown: Vec<(String, String)>,
}

/// Closes the attempts, of every batch, that could not be ended and whose survivors are gone by now, and resolves the
/// questions about them. What an agent of a live conductor left is its conductor's to look after as well; whoever is
/// first does it.
///
/// # Errors
///
/// The store refuses.
pub fn settle_receipts(store: &mut Store) -> Result<(), ConductorError> {
    Ok(super::recover::clean_up_all(
        store,
        &cf_core::Actor::System,
    )?)
}

/// Asks the sources about the tasks of every batch that has not ended (only these tasks, when some are given). Changes
/// nothing.
///
/// # Errors
///
/// The store cannot be read.
pub fn look_over(
    store: &Store,
    setup: &mut Setup,
    only: Option<&[TaskId]>,
) -> Result<Vec<LookOver>, ConductorError> {
    let batches = store.read(|reader| {
        let mut list = Vec::new();
        for batch in reader.unfinished_batches()? {
            let mut asked = Vec::new();
            // A few tasks are looked up each, whatever the size of the batch.
            let rows = match only {
                None => reader.batch_tasks(batch.id)?,
                Some(only) => {
                    let rows = only.iter().map(|task| reader.batch_task(batch.id, *task));
                    let mut rows: Vec<BatchTask> = rows
                        .filter_map(Result::transpose)
                        .collect::<Result<_, _>>()?;
                    rows.sort_by_key(|row| row.position);
                    rows.dedup_by_key(|row| row.position);
                    rows
                }
            };
            for row in rows {
                let Some(believed) = Believed::from_row(row.phase, row.outcome) else {
                    continue;
                };
                let attempt = match row.phase {
                    Phase::Running | Phase::Stopping => {
                        reader.standing(row.task)?.and_then(|task| task.attempt)
                    }
                    _ => None,
                };
                asked.push(Asked {
                    task: row.task,
                    batch: batch.id,
                    believed,
                    take_up_seq: row.take_up_seq,
                    since_seq: row.since_seq,
                    attempt,
                    ask_grace: AskGrace::Running,
                });
            }
            if only.is_none() || !asked.is_empty() {
                list.push((batch.id, asked));
            }
        }
        Ok(list)
    })?;
    let mut looks = Vec::new();
    for (batch, asked) in batches {
        let pass = setup.registry.check(store, &asked);
        looks.push(LookOver {
            batch,
            conductor: setup.workspace.conductor_of(batch),
            findings: pass.merged,
            unknown: pass
                .unknown
                .into_iter()
                .map(|unread| (unread.source.as_str().to_owned(), unread.why))
                .collect(),
        });
    }
    Ok(looks)
}
