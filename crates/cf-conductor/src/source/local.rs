//! The store as a source: what other processes wrote, against what the batch believes.

use cf_core::{Actor, AttemptId, BatchId, Phase, TaskId, TaskStatus};
use cf_reconcile::{
    AskGrace, Blockers, Evidence, LocalObservation, OpenBlockers, ReconciliationResult, SinceHold,
    SourceName, Stored, Writer, Written, decide,
};

use super::{Asked, Observation, Reconciler};
use crate::store::blocker::BlockerSummary;
use crate::store::ids::ById;
use crate::store::task::TaskStanding;
use crate::store::{Reader, Result, Store, StoreError};

/// Above so many tasks, all rows are read in one go rather than one by one: a scan of ten thousand rows costs what
/// about two hundred look-ups do.
const ONE_BY_ONE: usize = 200;

/// Asks the store.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalReconciler;

impl Reconciler for LocalReconciler {
    fn name(&self) -> SourceName {
        SourceName::Local
    }

    fn is_polled(&self) -> bool {
        false
    }

    fn check_tasks(
        &mut self,
        store: &Store,
        asked: &[Asked],
    ) -> Vec<(TaskId, Observation<ReconciliationResult>)> {
        let read = store.read(|reader| {
            if asked.len() <= ONE_BY_ONE {
                asked.iter().map(|asked| look_up(reader, asked)).collect()
            } else {
                look_at_all(reader, asked)
            }
        });
        read.unwrap_or_else(|error| unknown(asked.iter().map(|asked| asked.task), &error))
    }

    fn check_blockers(
        &mut self,
        store: &Store,
        tasks: &[TaskId],
    ) -> Vec<(TaskId, Observation<BlockerSummary>)> {
        if tasks.is_empty() {
            return Vec::new();
        }
        let read = store.read(|reader| {
            if tasks.len() <= ONE_BY_ONE {
                return tasks
                    .iter()
                    .map(|task| Ok((*task, Observation::Known(reader.blocker_summary(*task)?))))
                    .collect();
            }
            let all = reader.blocker_summaries()?;
            let summary = |task| all.get(task).copied().unwrap_or_default();
            Ok(tasks
                .iter()
                .map(|task| (*task, Observation::Known(summary(task))))
                .collect())
        });
        read.unwrap_or_else(|error| unknown(tasks.iter().copied(), &error))
    }
}

/// What is said of each task when the store cannot be read.
fn unknown<T>(
    tasks: impl Iterator<Item = TaskId>,
    error: &StoreError,
) -> Vec<(TaskId, Observation<T>)> {
    let why = crate::chain(error);
    tasks
        .map(|task| (task, Observation::Unknown(why.clone())))
        .collect()
}

/// What the table says of a task, by rows of its own.
fn look_up(
    reader: &Reader<'_>,
    asked: &Asked,
) -> Result<(TaskId, Observation<ReconciliationResult>)> {
    let summary = if is_held(asked) {
        reader.blocker_summary(asked.task)?
    } else {
        BlockerSummary::default()
    };
    let finding = find(asked, reader.standing(asked.task)?.as_ref(), summary);
    Ok((asked.task, Observation::Known(finding)))
}

/// The same for many tasks, by all rows there are, each turned into its finding as it is read, and where it stays:
/// the findings of all tasks are megabytes.
fn look_at_all(
    reader: &Reader<'_>,
    asked: &[Asked],
) -> Result<Vec<(TaskId, Observation<ReconciliationResult>)>> {
    let summaries = if asked.iter().any(is_held) {
        reader.blocker_summaries()?
    } else {
        ById::default()
    };
    let find = |asked: &Asked, row: Option<&TaskStanding>| {
        let summary = is_held(asked).then(|| summaries.get(&asked.task)).flatten();
        Observation::Known(find(asked, row, summary.copied().unwrap_or_default()))
    };
    let places: ById<usize> = asked
        .iter()
        .enumerate()
        .map(|(at, asked)| (asked.task, at))
        .collect();
    debug_assert_eq!(places.len(), asked.len(), "each task is asked about once");
    // Gone until its row is read; what has no row gets its finding at last.
    let mut said: Vec<_> = asked
        .iter()
        .map(|asked| (asked.task, Observation::Gone))
        .collect();
    reader.standings(
        |id| places.contains_key(&id),
        |row| {
            let at = places[&row.id];
            said[at].1 = find(&asked[at], Some(&row));
        },
    )?;
    // That a task has no row is a finding too.
    for (asked, (_, observation)) in asked.iter().zip(&mut said) {
        if *observation == Observation::Gone {
            *observation = find(asked, None);
        }
    }
    Ok(said)
}

fn is_held(asked: &Asked) -> bool {
    asked.believed.phase() == Phase::Held
}

/// Turns one row into a finding, by the table.
fn find(
    asked: &Asked,
    row: Option<&TaskStanding>,
    blockers: BlockerSummary,
) -> ReconciliationResult {
    let seen = observe(asked, row, blockers);
    let decision = decide(&seen);
    let evidence = row.map_or(Evidence::None, |row| Evidence::Local {
        status: seen.stored.status(),
        version: i64::try_from(row.version).ok(),
        actor: Some(row.status_by.clone()),
        open_blockers: u32::try_from(blockers.open).unwrap_or(u32::MAX),
    });
    ReconciliationResult::new(
        asked.task,
        seen.stored.status(),
        asked.believed.phase(),
        decision,
        SourceName::Local,
        evidence,
    )
}

/// What the table is asked about a row.
pub(crate) fn observe(
    asked: &Asked,
    row: Option<&TaskStanding>,
    blockers: BlockerSummary,
) -> LocalObservation {
    let (stored, writer, status_seq) = match row {
        None => (Stored::Deleted, Writer::Other, u64::MAX),
        Some(row) if row.deleted => (Stored::Deleted, Writer::Other, row.status_seq),
        Some(row) => (
            Stored::Status(row.status),
            writer(row, asked.batch, asked.take_up_seq, asked.attempt),
            row.status_seq,
        ),
    };
    LocalObservation {
        believed: asked.believed,
        stored,
        writer,
        written: if status_seq > asked.since_seq {
            Written::AfterOutcome
        } else {
            Written::BeforeOutcome
        },
        blockers: Blockers {
            open: if blockers.open > 0 {
                OpenBlockers::Some
            } else {
                OpenBlockers::None
            },
            since_hold: since_hold(blockers, held_since(asked, stored, status_seq)),
        },
        ask_grace: asked.ask_grace,
    }
}

/// Who wrote a status, as the table tells writers apart.
fn writer(
    row: &TaskStanding,
    batch: BatchId,
    take_up_seq: u64,
    attempt: Option<AttemptId>,
) -> Writer {
    // A claim that was taken over from a batch that is gone still has that batch as its writer.
    if row.claim == Some(batch) {
        return Writer::Own;
    }
    if row.status_seq <= take_up_seq {
        return Writer::Own;
    }
    if row.status_via.is_some() && row.status_via == attempt {
        return Writer::Agent;
    }
    match &row.status_by {
        Actor::Batch(by) if *by == batch => Writer::Own,
        Actor::Attempt(by) if Some(*by) == attempt => Writer::Agent,
        Actor::Batch(_) | Actor::Attempt(_) => Writer::Claim,
        Actor::Cli | Actor::Github(_) | Actor::System => Writer::Other,
    }
}

/// Since when an answer would be about what holds a task: whoever made it BLOCKED after an answer knew of that one.
fn held_since(asked: &Asked, stored: Stored, status_seq: u64) -> u64 {
    match stored {
        Stored::Status(TaskStatus::Blocked) => asked.since_seq.max(status_seq),
        Stored::Status(_) | Stored::Deleted => asked.since_seq,
    }
}

const fn since_hold(blockers: BlockerSummary, since_seq: u64) -> SinceHold {
    if blockers.last_answered_seq > since_seq {
        SinceHold::Answered
    } else if blockers.last_closed_seq > since_seq {
        SinceHold::Resolved
    } else {
        SinceHold::Nothing
    }
}

/// What is asked about a task as if it were queued: after a lost race, and when the end of a stopped agent is verified.
pub(crate) fn as_if_queued(
    task: TaskId,
    batch: BatchId,
    take_up_seq: u64,
    attempt: Option<AttemptId>,
    row: Option<&TaskStanding>,
) -> ReconciliationResult {
    let asked = Asked {
        task,
        batch,
        believed: cf_reconcile::Believed::Queued,
        take_up_seq,
        since_seq: 0,
        attempt,
        ask_grace: AskGrace::Running,
    };
    find(&asked, row, BlockerSummary::default())
}
