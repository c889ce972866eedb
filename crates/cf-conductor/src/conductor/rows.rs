//! What a change of a task's row is called in the log.

use cf_core::{AttemptId, BatchId, EventType, Outcome, Phase, TaskLabel};
use cf_reconcile::{Reason, ReconcileAction, ReconciliationResult};

use super::turn::Core;
use crate::schedule::{Changed, Note};
use crate::store::batch::BatchTask;
use crate::store::event::Event;
use crate::store::{Result, Tx};

/// Stores every row that changed, each with its event.
pub(super) fn store(core: &mut Core, tx: &mut Tx<'_>) -> Result<()> {
    loop {
        core.schedule.settle(tx.now());
        let changed = core.schedule.take_changed();
        let notes = core.schedule.take_notes();
        if changed.is_empty() && notes.is_empty() {
            return Ok(());
        }
        for change in changed {
            store_one(core, tx, change)?;
        }
        for Note::DependencyReopened { task, on } in notes {
            tx.append(
                Event::new(EventType::BatchTaskDependencyReopened)
                    .task(task)
                    .batch(core.batch)
                    .with("on", on.to_string()),
            )?;
        }
    }
}

fn store_one(core: &mut Core, tx: &mut Tx<'_>, mut change: Changed) -> Result<()> {
    let task = change.row.task;
    if change.before.0 == Phase::Finished && change.row.phase != Phase::Finished {
        // While it was finished nobody asked what others made of it.
        core.relook.insert(task);
    }
    if core.linked.contains(&task) && matches!(change.row.phase, Phase::Held | Phase::Finished) {
        // What was found while its agent was being stopped was not applied.
        core.relook.insert(task);
    }
    if ends_anew(&change) {
        tx.append(
            of_change(core, &change, EventType::BatchTaskWaiting)
                .with("phase", Phase::Waiting.as_str()),
        )?;
    }
    if let Some(event) = event(core, &change) {
        let seq = tx.append(event)?;
        if change.row.phase == Phase::Finished {
            change.row.since_seq = seq;
            core.schedule.stored_under(task, seq);
        }
    }
    tx.store_batch_task(core.batch, &change.row)
}

/// Tells of a row as a take-up made it, which is stored next.
pub(super) fn tell_taken(
    batch: BatchId,
    tx: &mut Tx<'_>,
    row: &mut BatchTask,
    label: &TaskLabel,
) -> Result<()> {
    let kind = match row.phase {
        Phase::Finished => EventType::BatchTaskSkipped,
        Phase::Held => EventType::BatchTaskBlocked,
        Phase::Waiting | Phase::Queued | Phase::Running | Phase::Stopping => {
            EventType::BatchTaskQueued
        }
    };
    let mut event = Event::new(kind)
        .task(row.task)
        .batch(batch)
        .with("label", label.as_str())
        .with("phase", row.phase.as_str());
    if let Some(reason) = &row.reason {
        event = event.with("reason", reason.as_str());
    }
    let seq = tx.append(event)?;
    if row.phase == Phase::Finished {
        row.since_seq = seq;
    }
    Ok(())
}

/// Whether what had its outcome went back into the batch and came to another one in the same turn, as when what it was
/// skipped for is no longer its dependency and the agent that is in hand for it was stopped by hand.
fn ends_anew(change: &Changed) -> bool {
    change.before.0 == Phase::Finished
        && change.row.phase == Phase::Finished
        && change.before.1 != change.row.outcome
        && change.row.outcome != Some(Outcome::Skipped)
}

/// An event about the task of a change.
fn of_change(core: &Core, change: &Changed, kind: EventType) -> Event {
    Event::new(kind)
        .task(change.row.task)
        .batch(core.batch)
        .with("label", change.label.as_str())
        .with("phase_before", change.before.0.as_str())
}

/// The event of a change, if it has one: where a task moved on its own way, nothing is told.
fn event(core: &Core, change: &Changed) -> Option<Event> {
    let (before, after) = (change.before, (change.row.phase, change.row.outcome));
    let requeued = change
        .finding
        .as_ref()
        .is_some_and(|finding| finding.action == ReconcileAction::Requeue);
    let kind = match (before, after) {
        (_, (Phase::Waiting | Phase::Queued, _)) if requeued => EventType::BatchTaskRequeued,
        ((Phase::Running, _), (Phase::Queued, _)) if change.row.not_before.is_some() => {
            EventType::BatchTaskRetrying
        }
        // It was reopened in the turn in which what it depends on was, and skipped in between.
        ((Phase::Finished, Some(Outcome::Failed)), (Phase::Waiting | Phase::Queued, _)) => {
            EventType::BatchTaskRequeued
        }
        // It was taken up before, and finds its own way from here.
        ((Phase::Finished, _), (Phase::Waiting | Phase::Queued, _)) => EventType::BatchTaskWaiting,
        (_, (Phase::Waiting | Phase::Queued, _)) => return None,
        (_, (Phase::Running, _)) => EventType::BatchTaskStarted,
        (_, (Phase::Stopping, _)) => EventType::BatchTaskStopping,
        (_, (Phase::Held, _)) => EventType::BatchTaskBlocked,
        (_, (Phase::Finished, Some(Outcome::Completed))) => EventType::BatchTaskCompleted,
        (_, (Phase::Finished, Some(Outcome::Failed))) => EventType::BatchTaskFailed,
        (_, (Phase::Finished, Some(Outcome::Blocked))) => EventType::BatchTaskBlocked,
        (_, (Phase::Finished, Some(Outcome::Skipped))) => EventType::BatchTaskSkipped,
        (_, (Phase::Finished, Some(Outcome::Cancelled))) => EventType::BatchTaskCancelled,
        (_, (Phase::Finished, None)) => return None,
    };
    // Where the source found it: a running task has been through "stopping" since.
    let phase_before = change
        .finding
        .as_ref()
        .map_or(before.0, |finding| finding.believed);
    let mut event = of_change(core, change, kind)
        .with("phase_before", phase_before.as_str())
        .with("phase", after.0.as_str());
    let reason = match &change.why {
        Some(why) => Some(why.to_string()),
        None if kind == EventType::BatchTaskRequeued => Some(Reason::Reopened.to_string()),
        None => change.row.reason.clone(),
    };
    if let Some(reason) = reason {
        event = event.with("reason", reason);
    }
    if kind == EventType::BatchTaskStarted
        && let Some(running) = core.running.get(&change.row.task)
    {
        event = event
            .attempt(running.attempt)
            .with("generation", running.generation)
            .with("format", running.rule.as_str());
        if let Some(session) = &running.session {
            event = event.with("resumes", session.id.as_str());
        }
    }
    if kind == EventType::BatchTaskRetrying
        && let Some(due) = change.row.not_before
    {
        event = event
            .with("due", due.to_string())
            .with("failures", change.row.failures);
    }
    if change.row.phase == Phase::Finished && change.row.attempts > 0 {
        event = event.with("attempts", change.row.attempts);
    }
    match &change.finding {
        // A stop is an intent; what it was for is told when its end is verified.
        Some(finding) if kind == EventType::BatchTaskStopping => Some(
            event
                .with("intent", finding.action.as_str())
                .with("source", finding.source.as_str()),
        ),
        Some(finding) => Some(with_finding(event, finding)),
        None => Some(event),
    }
}

/// The event of comments that are told.
pub(super) fn context(batch: BatchId, finding: &ReconciliationResult, count: usize) -> Event {
    let event = Event::new(EventType::BatchTaskContext)
        .task(finding.task_id)
        .batch(batch)
        .with("phase_before", finding.believed.as_str())
        .with("phase", finding.believed.as_str())
        .with("comments", count);
    with_finding(event, finding)
}

/// The event of an agent that was stopped for what a source found, told when its end is verified.
pub(super) fn killed(batch: BatchId, finding: &ReconciliationResult, attempt: AttemptId) -> Event {
    let event = Event::new(EventType::BatchTaskKilled)
        .task(finding.task_id)
        .batch(batch)
        .attempt(attempt)
        .with("phase_before", Phase::Stopping.as_str())
        .with("reason", finding.reason.to_string());
    with_finding(event, finding)
}

fn with_finding(event: Event, finding: &ReconciliationResult) -> Event {
    event
        .with("action", finding.action.as_str())
        .with("reason", finding.reason.to_string())
        .with("source", finding.source.as_str())
        .with(
            "evidence",
            serde_json::to_value(&finding.evidence).expect("evidence is JSON"),
        )
}
