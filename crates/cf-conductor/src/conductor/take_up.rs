//! The start of a batch: one transaction after which every task is either in the batch's hands or has its outcome.

use std::collections::{HashMap, HashSet};

use cf_core::{Actor, BatchId, Outcome, Phase, TaskId, TaskLabel, TaskStatus};
use cf_reconcile::{LiveClaim, Reason, Stored};

use crate::schedule::{Gate, Member, Outsider, Schedule};
use crate::settings::Settings;
use crate::store::attempt::Attempt;
use crate::store::batch::BatchTask;
use crate::store::task::{StatusWrite, TaskStanding};
use crate::store::{Reader, Result, StoreError, Tx};

/// How DONE tasks are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// They are skipped as already done.
    No,
    /// They are run again.
    Yes,
}

/// Takes up tasks that a batch is to work on: makes READY what is to run, gives their outcome to those that are done,
/// and leaves alone what others work on. The rows are changed in place and stored by the caller. Returns how each task
/// is called.
pub(super) fn take_up(
    tx: &mut Tx<'_>,
    batch: BatchId,
    rows: &mut [BatchTask],
    again: Again,
) -> Result<Vec<TaskLabel>> {
    let by = Actor::Batch(batch);
    let now = tx.now();
    let last_seq = tx.reader().last_seq()?;
    let open = OpenAttempts::of_all(&tx.reader())?;
    let mut labels = Vec::with_capacity(rows.len());
    for row in rows {
        row.outcome = None;
        row.reason = None;
        row.failures = 0;
        row.not_before = None;
        row.ended_at = None;
        row.phase = Phase::Waiting;
        row.take_up_seq = last_seq;
        let found = tx.reader().standing_and_label(row.task)?;
        let (task, label) = found.ok_or_else(|| StoreError::Unknown {
            what: "task",
            given: row.task.to_string(),
            similar: Vec::new(),
        })?;
        labels.push(label);
        let done = |row: &mut BatchTask, reason: &Reason| {
            row.phase = Phase::Finished;
            row.outcome = Some(Outcome::Skipped);
            row.reason = Some(reason.to_string());
            row.ended_at = Some(now);
        };
        if task.deleted {
            done(row, &Reason::TaskDeleted);
            continue;
        }
        if task.status == TaskStatus::Blocked && tx.reader().open_blockers(row.task)? > 0 {
            row.phase = Phase::Held;
            row.reason = Some(Reason::AnswerAwaited.to_string());
            row.since_seq = task.status_seq;
            continue;
        }
        let mine = task.claim == Some(batch);
        if !open.of(row.task).is_empty() || (task.status == TaskStatus::InProgress && !mine) {
            // Somebody's: it is waited for at its gate, or held when a person works on it.
            continue;
        }
        let ready = match task.status {
            TaskStatus::Ready => false,
            TaskStatus::Backlog
            | TaskStatus::Failed
            | TaskStatus::InProgress
            | TaskStatus::Blocked => true,
            TaskStatus::Done => {
                if again == Again::No {
                    done(row, &Reason::AlreadyDone);
                    continue;
                }
                true
            }
            TaskStatus::Merged => {
                done(row, &Reason::AlreadyDone);
                continue;
            }
        };
        if ready {
            let task = tx.reader().task(row.task)?;
            let written = tx.write_status(&task, TaskStatus::Ready, &by, None)?;
            debug_assert!(
                matches!(written, StatusWrite::Changed { .. }),
                "the row was read in this transaction"
            );
        }
    }
    Ok(labels)
}

/// The attempts that may be alive, by their tasks. They are few, and a batch asks about each of its tasks.
struct OpenAttempts(HashMap<TaskId, Vec<Attempt>>);

impl OpenAttempts {
    fn of_all(reader: &Reader<'_>) -> Result<Self> {
        let mut by_task: HashMap<TaskId, Vec<Attempt>> = HashMap::new();
        for attempt in reader.open_attempts()? {
            by_task.entry(attempt.task).or_default().push(attempt);
        }
        Ok(Self(by_task))
    }

    fn of_one(reader: &Reader<'_>, task: TaskId) -> Result<Self> {
        let open = reader.open_attempts_of(task)?;
        Ok(Self(HashMap::from([(task, open)])))
    }

    fn of(&self, task: TaskId) -> &[Attempt] {
        self.0.get(&task).map_or(&[], Vec::as_slice)
    }
}

/// Builds the schedule of a batch from what is stored: its rows, the tasks' standings, the edges, and the tasks outside
/// that its own depend on.
pub(super) fn schedule(
    reader: &Reader<'_>,
    batch: BatchId,
    settings: &Settings,
) -> Result<Schedule> {
    let rows = reader.batch_tasks(batch)?;
    let inside: HashMap<TaskId, u64> = rows.iter().map(|row| (row.task, row.take_up_seq)).collect();
    let mut edges: Vec<(TaskId, TaskId)> = reader
        .edges()?
        .into_iter()
        .filter(|(task, _)| inside.contains_key(task))
        .collect();
    // Of a task that was deleted the store keeps no edges; a batch keeps those that it saw.
    if let Some(first) = inside.values().min() {
        for (seq, deleted, dependents) in reader.deletions_after(*first)? {
            let saw = |task: &TaskId| inside.get(task).is_some_and(|taken_up| *taken_up < seq);
            edges.extend(
                dependents
                    .into_iter()
                    .filter(saw)
                    .map(|task| (task, deleted)),
            );
        }
    }
    let open = OpenAttempts::of_all(reader)?;
    let mut members = Vec::with_capacity(rows.len());
    for mut row in rows {
        if row.phase == Phase::Stopping {
            // Whether its agent was told to end is not known, so it is found again that it has to.
            row.phase = Phase::Running;
        }
        members.extend(member_of(reader, batch, row, &open)?);
    }
    let mut outsiders = Vec::new();
    let mut seen = HashSet::new();
    for (_, on) in &edges {
        if !inside.contains_key(on)
            && seen.insert(*on)
            && let Some(outsider) = outsider(reader, *on)?
        {
            outsiders.push(outsider);
        }
    }
    Ok(Schedule::new(settings.slots(), members, outsiders, edges))
}

/// A task that was added to the batch while it runs, as the schedule wants to know it; its dependencies are told apart.
pub(super) fn member(reader: &Reader<'_>, batch: BatchId, task: TaskId) -> Result<Option<Member>> {
    match reader.batch_task(batch, task)? {
        Some(row) => member_of(reader, batch, row, &OpenAttempts::of_one(reader, task)?),
        None => Ok(None),
    }
}

fn member_of(
    reader: &Reader<'_>,
    batch: BatchId,
    row: BatchTask,
    open: &OpenAttempts,
) -> Result<Option<Member>> {
    let Some((standing, label)) = reader.standing_and_label(row.task)? else {
        return Ok(None);
    };
    let open = open.of(row.task);
    Ok(Some(Member {
        claim: if row.phase == Phase::Running {
            LiveClaim::None
        } else {
            claim_with(&standing, !open.is_empty())
        },
        label,
        priority: standing.priority,
        stored: stored(&standing),
        gate: gate_with(batch, &standing, open),
        row,
    }))
}

/// A task outside the batch, as the schedule wants to know it.
pub(super) fn outsider(reader: &Reader<'_>, task: TaskId) -> Result<Option<Outsider>> {
    let Some(standing) = reader.standing(task)? else {
        return Ok(None);
    };
    Ok(Some(Outsider {
        task,
        label: reader.label(task)?,
        stored: stored(&standing),
        claim: claim(reader, &standing)?,
    }))
}

/// What the store holds of a task, as the tables name it.
pub(super) const fn stored(standing: &TaskStanding) -> Stored {
    if standing.deleted {
        Stored::Deleted
    } else {
        Stored::Status(standing.status)
    }
}

/// Whether an agent of anybody works on a task, or may.
pub(super) fn claim(reader: &Reader<'_>, standing: &TaskStanding) -> Result<LiveClaim> {
    Ok(claim_with(standing, reader.has_open_attempt(standing.id)?))
}

fn claim_with(standing: &TaskStanding, has_open_attempt: bool) -> LiveClaim {
    let claimed = standing.status == TaskStatus::InProgress && standing.claim.is_some();
    if claimed || has_open_attempt {
        LiveClaim::Some
    } else {
        LiveClaim::None
    }
}

/// What keeps a task from starting in this batch, once its dependencies are met.
pub(super) fn gate(reader: &Reader<'_>, batch: BatchId, standing: &TaskStanding) -> Result<Gate> {
    let open = reader.open_attempts_of(standing.id)?;
    Ok(gate_with(batch, standing, &open))
}

fn gate_with(batch: BatchId, standing: &TaskStanding, open: &[Attempt]) -> Gate {
    let foreign = |attempt: &Attempt| attempt.batch != batch || attempt.end.is_some();
    if open.iter().any(foreign) {
        return Gate::ClaimedElsewhere;
    }
    match (standing.status, standing.claim) {
        (TaskStatus::InProgress, Some(by)) if by == batch => Gate::Open,
        (TaskStatus::InProgress, Some(_)) => Gate::ClaimedElsewhere,
        (TaskStatus::InProgress, None) => Gate::InProgressByHand,
        _ => Gate::Open,
    }
}
