//! Why a task is not running, or what happened to it: everything that bears on it, read in one look.

use std::convert::Infallible;

use cf_core::{
    BatchId, BlockerStatus, Outcome, Phase, TaskId, TaskLabel, TaskRef, TaskStatus, Timestamp,
};
use cf_reconcile::{Merged, Reason, ReconcileAction, Standing, Stored, standing};

use crate::closing::Closing;
use crate::conductor::{ConductorError, Setup, look_over};
use crate::process::{is_stopped, lock_held};
use crate::schedule::{resume_takes_up, was_skipped_for_a_dependency};
use crate::store::attempt::Attempt;
use crate::store::batch::{Batch, BatchTask};
use crate::store::blocker::Blocker;
use crate::store::event::{Event, EventFilter};
use crate::store::follow::StoredComment;
use crate::store::task::TaskView;
use crate::store::{Reader, Result, Store, StoreError};
use crate::supervise::record_path;
use crate::workspace::Workspace;

/// How many findings of the past are told.
const FINDINGS: usize = 10;

/// A task that another depends on.
#[derive(Clone, Debug)]
pub struct DependencyView {
    /// The task.
    pub task: TaskId,
    /// How it is called.
    pub label: TaskLabel,
    /// Where it stands.
    pub status: TaskStatus,
    /// Whether it is met: done, or skipped in the task's live batch because its work is done, and nothing of it is
    /// alive.
    pub met: bool,
    /// What keeps it from being met although it may be done: an attempt of which it is not verified that it is over.
    pub open: Option<OpenAttempt>,
}

/// An attempt that has no verified end.
#[derive(Clone, Debug)]
pub struct OpenAttempt {
    /// Which attempt of its task.
    pub generation: u32,
    /// The batch that holds it.
    pub batch: BatchId,
    /// The process that conducts that batch; none when its conductor is gone.
    pub conductor: Option<u32>,
    /// What lives of it.
    pub remains: Remains,
}

/// What lives of an attempt that has no verified end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remains {
    /// Its supervisor, which is this process.
    Supervisor(i32),
    /// Its supervisor, this process, which somebody stopped (SIGSTOP).
    StoppedSupervisor(i32),
    /// Perhaps something; its supervisor is gone.
    Unknown,
    /// What could not be stopped.
    Survivors,
}

/// The batch that works on a task.
#[derive(Clone, Debug)]
pub struct ClaimView {
    /// The batch.
    pub batch: BatchId,
    /// The process that conducts it; none when its conductor is gone.
    pub conductor: Option<u32>,
}

/// A task's place in a batch.
#[derive(Clone, Debug)]
pub struct PlaceView {
    /// The batch.
    pub batch: Batch,
    /// Where the task stands in it.
    pub row: BatchTask,
    /// The process that conducts it; none when it has ended or its conductor is gone.
    pub conductor: Option<u32>,
    /// Why its conductor starts nothing new in it; none when it does, or is gone.
    pub closing: Option<Closing>,
}

impl PlaceView {
    /// Whether a batch that is being conducted leaves the task as it is, although it is READY.
    fn leaves(&self) -> bool {
        let ended = self.row.phase == Phase::Finished;
        self.closing.is_some() || (ended && !was_skipped_for_a_dependency(&self.row))
    }
}

/// Everything that bears on a task.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The task.
    pub view: TaskView,
    /// What it depends on.
    pub dependencies: Vec<DependencyView>,
    /// Its questions, oldest first.
    pub blockers: Vec<Blocker>,
    /// Who works on it.
    pub claim: Option<ClaimView>,
    /// Its attempts, oldest first.
    pub attempts: Vec<Attempt>,
    /// Its places in batches, newest first.
    pub places: Vec<PlaceView>,
    /// What was written about it in its issues and pull requests, oldest first.
    pub comments: Vec<StoredComment>,
    /// What sources found about it in the past, oldest first: the newest ten.
    pub history: Vec<Event>,
    /// How many findings of the past came before those.
    pub earlier: usize,
    /// What they find now, in the batches that have not ended.
    pub findings: Vec<Merged>,
    /// When its next retry is due.
    pub next_retry: Option<Timestamp>,
    /// What would let it run, one sentence each; empty when nothing keeps it.
    pub unblock: Vec<String>,
}

/// Reads everything that bears on a task, and asks the sources once. Changes nothing. `configured` is the engine of
/// tasks that name none.
///
/// # Errors
///
/// The store cannot be read, or there is no such task.
pub fn explain(
    store: &Store,
    setup: &mut Setup,
    task: TaskId,
    configured: Option<&str>,
) -> std::result::Result<Explanation, ConductorError> {
    let (mut explanation, cause) = read(store, &setup.workspace, task)?;
    // What the next pass would do with a link follows from what is cached about it.
    if let Some(source) = &setup.github {
        store.read(|reader| {
            if reader.links(task)?.is_empty() {
                return Ok(());
            }
            source.load(reader)
        })?;
    }
    explanation.findings = look_over(store, setup, Some(&[task]))?
        .into_iter()
        .flat_map(|look| look.findings)
        .filter(|found| found.winner.action != ReconcileAction::None)
        .collect();
    explanation.unblock = unblock(&explanation, cause, configured);
    Ok(explanation)
}

/// What the store holds about a task, and what is to be done first for one that it does not depend on itself.
fn read(
    store: &Store,
    workspace: &Workspace,
    task: TaskId,
) -> Result<(Explanation, Option<String>)> {
    store.read(|reader| {
        let view = reader.task_view(task)?;
        let mut dependencies = Vec::new();
        for on in &view.depends_on {
            let other = reader.task(*on)?;
            dependencies.push(DependencyView {
                task: *on,
                label: other.label(),
                status: other.status,
                met: (other.status.is_done() || is_done_elsewhere(reader, task, *on)?)
                    && !reader.has_open_attempt(*on)?,
                open: open_attempt(reader, workspace, *on)?,
            });
        }
        let mut places = Vec::new();
        for batch in reader.batches_of(task)? {
            let Some(row) = reader.batch_task(batch.id, task)? else {
                continue;
            };
            let conductor = if batch.status.is_final() {
                None
            } else {
                workspace.conductor_of(batch.id)
            };
            let closing = match conductor {
                Some(_) => Closing::of(reader, &batch)?,
                None => None,
            };
            places.push(PlaceView {
                batch,
                row,
                conductor,
                closing,
            });
        }
        let mut history = Vec::new();
        reader.events(
            &EventFilter {
                task: Some(task),
                ..EventFilter::default()
            },
            |event| {
                if event.data.contains("action") || event.data.contains("intent") {
                    history.push(event);
                }
                Ok(())
            },
        )?;
        let earlier = history.len().saturating_sub(FINDINGS);
        history.drain(..earlier);
        let explanation = Explanation {
            blockers: reader.blockers(Some(task), None)?,
            claim: view.task.claim.map(|batch| ClaimView {
                batch,
                conductor: workspace.conductor_of(batch),
            }),
            attempts: reader.attempts(task)?,
            next_retry: places
                .iter()
                .filter(|place| place.closing.is_none())
                .find_map(|place| place.row.not_before),
            findings: Vec::new(),
            comments: reader.comments(task)?,
            unblock: Vec::new(),
            view,
            dependencies,
            places,
            history,
            earlier,
        };
        let cause = unfinished_cause(reader, &explanation)?;
        Ok((explanation, cause))
    })
}

/// The newest attempt of a task that has no verified end.
fn open_attempt(
    reader: &Reader<'_>,
    workspace: &Workspace,
    task: TaskId,
) -> Result<Option<OpenAttempt>> {
    let newest = reader.open_attempts_of(task)?.pop();
    Ok(newest.map(|attempt| {
        let who = &attempt.supervisor;
        let file = record_path(&workspace.supervisors(), who.supervisor);
        OpenAttempt {
            generation: attempt.generation,
            batch: attempt.batch,
            conductor: workspace.conductor_of(attempt.batch),
            remains: if attempt.end.is_some() {
                Remains::Survivors
            } else if !lock_held(&file) {
                Remains::Unknown
            } else if is_stopped(who) {
                Remains::StoppedSupervisor(who.pid)
            } else {
                Remains::Supervisor(who.pid)
            },
        }
    }))
}

/// What would let a dependency be met that has an attempt without a verified end.
fn close(label: &TaskLabel, status: TaskStatus, open: &OpenAttempt) -> String {
    let batch = open.batch.short();
    let attempt = format!("attempt {} of {label} ({status})", open.generation);
    if open.remains == Remains::Survivors {
        return format!("{attempt} left what could not be stopped: cf explain {label} says more");
    }
    let open_still = format!("{attempt} is still open, the end of its agent is not verified");
    if open.conductor.is_some() {
        return format!("{open_still}: batch {batch}, which holds it, is at it");
    }
    let held = format!("{open_still}, and the conductor of batch {batch}, which holds it, is gone");
    match open.remains {
        Remains::StoppedSupervisor(pid) => format!(
            "{held}; its supervisor (process {pid}) is stopped: cf reconcile {label} lets it go on"
        ),
        Remains::Supervisor(pid) => format!(
            "{held}; its supervisor (process {pid}) looks after it: cf resume {batch} goes on with it, \
             cf stop {batch} ends it"
        ),
        Remains::Unknown | Remains::Survivors => {
            format!("{held}, as its supervisor is: cf reconcile {label} settles it")
        }
    }
}

/// Whether a batch that has not ended has both tasks, and skipped the second because its work is done.
fn is_done_elsewhere(reader: &Reader<'_>, task: TaskId, on: TaskId) -> Result<bool> {
    for batch in reader.batches_working_on(task)? {
        if let Some(row) = reader.batch_task(batch, on)?
            && row.outcome == Some(Outcome::Skipped)
        {
            let reason = Reason::from(row.reason.as_deref().unwrap_or_default());
            return Ok(standing(Outcome::Skipped, &reason) == Standing::Done);
        }
    }
    Ok(false)
}

/// The address of the pull request whose closing made the task fail, if that is what happened to it last.
fn closed_pull_request(seen: &Explanation) -> Option<&str> {
    let last = seen.history.last()?;
    (last.text("action") == Some("FAIL"))
        .then(|| last.data.get("evidence")?.get("url")?.as_str())
        .flatten()
}

/// What is to be done first when its newest batch skipped the task for one that it does not depend on itself: that one
/// is unfinished still, and those between the two were never tried.
fn unfinished_cause(reader: &Reader<'_>, seen: &Explanation) -> Result<Option<String>> {
    let reason = seen.places.first().and_then(|place| {
        let skipped = place.row.outcome == Some(Outcome::Skipped);
        Some(Reason::from(
            place.row.reason.as_deref().filter(|_| skipped)?,
        ))
    });
    let waits = seen.dependencies.iter().any(|dependency| !dependency.met);
    let Some(Reason::Dependency { key, .. }) = reason.filter(|_| waits) else {
        return Ok(None);
    };
    let cause = match reader.find_task(&TaskRef::new(key)) {
        Ok(id) => reader.task(id)?,
        // It was deleted, or has another key now.
        Err(StoreError::Unknown { .. } | StoreError::Ambiguous { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let is_named = seen
        .dependencies
        .iter()
        .any(|dependency| dependency.task == cause.id);
    let (label, status) = (cause.label(), cause.status);
    Ok((!is_named && !status.is_done()).then(|| {
        format!("finish {label} ({status}), for which it was skipped: cf explain {label}")
    }))
}

/// What is said of a task whose work is done. While a dependency is not met, a forced start would not run it again.
fn needs_nothing(seen: &Explanation, configured: Option<&str>) -> Option<String> {
    match seen.view.task.status {
        TaskStatus::Done if seen.dependencies.iter().all(|dependency| dependency.met) => {
            let start = start(seen, configured);
            Some(format!("it is done; {start} --force runs it again"))
        }
        TaskStatus::Done => Some("it is done".to_owned()),
        TaskStatus::Merged => Some("it is merged; nothing runs it again".to_owned()),
        TaskStatus::Backlog
        | TaskStatus::Ready
        | TaskStatus::InProgress
        | TaskStatus::Blocked
        | TaskStatus::Failed => None,
    }
}

/// What lets each dependency be met that is not.
fn unmet(seen: &Explanation) -> impl Iterator<Item = String> {
    let unmet = seen.dependencies.iter().filter(|on| !on.met);
    unmet.map(|dependency| {
        let (label, status) = (&dependency.label, dependency.status);
        let needs_words = |open: &&OpenAttempt| status.is_done() || open.conductor.is_none();
        match dependency.open.as_ref().filter(needs_words) {
            Some(open) => close(label, status, open),
            None => format!("finish {label} ({status}): cf explain {label}"),
        }
    })
}

/// What would let the task run; `cause` comes first.
fn unblock(seen: &Explanation, cause: Option<String>, configured: Option<&str>) -> Vec<String> {
    let label = seen.view.task.label();
    if seen.view.task.deleted {
        return vec!["it was deleted; add it again".to_owned()];
    }
    let running = seen.attempts.iter().any(|attempt| attempt.open);
    if !running && let Some(words) = needs_nothing(seen, configured) {
        return vec![words];
    }
    let mut steps = Vec::new();
    for blocker in seen
        .blockers
        .iter()
        .filter(|blocker| blocker.status == BlockerStatus::Open)
    {
        steps.push(format!(
            "answer its question: cf blocker answer {} TEXT",
            blocker.id.short()
        ));
    }
    let place = seen.places.first();
    let orphaned = seen
        .claim
        .as_ref()
        .filter(|claim| claim.conductor.is_none())
        .map(|claim| claim.batch)
        .or_else(|| {
            let open = place.filter(|place| !place.batch.status.is_final())?;
            open.conductor.is_none().then_some(open.batch.id)
        });
    // What runs was let run before: a dependency counts again when it has to start anew.
    if !running || orphaned.is_some() {
        steps.splice(0..0, cause);
        steps.extend(unmet(seen));
    }
    if let Some(batch) = orphaned {
        steps.push(format!(
            "its conductor is gone: cf resume {}",
            batch.short()
        ));
    } else if running {
        steps.push("it is running".to_owned());
    }
    match (&seen.claim, seen.view.task.status) {
        (None, TaskStatus::InProgress) if !running => {
            steps.push(format!(
                "it is in progress by hand: cf tasks set status {label} READY lets a batch run it"
            ));
        }
        (_, TaskStatus::Blocked) if steps.is_empty() => {
            steps.push(format!(
                "it was blocked by hand: cf tasks set status {label} READY"
            ));
        }
        (_, TaskStatus::Backlog) => {
            steps.push(format!(
                "it is in the backlog: cf tasks set status {label} READY, or run it by name"
            ));
        }
        (_, TaskStatus::Failed) if closed_pull_request(seen).is_some() => {
            let url = closed_pull_request(seen).unwrap_or_default();
            steps.push(format!(
                "its pull request was closed without merge: cf tasks unlink {label} {url} && cf work start {label}"
            ));
        }
        (_, TaskStatus::Failed) if orphaned.is_none() => {
            steps.push(format!("it failed: {}", again(seen, configured)));
        }
        _ => {}
    }
    if !running && orphaned.is_none() {
        steps.extend(left(seen, configured));
    }
    if let Some(due) = seen.next_retry {
        steps.push(format!("its next attempt is due at {due}"));
    }
    let in_a_batch = seen
        .places
        .iter()
        .any(|place| !place.batch.status.is_final());
    if seen.view.task.status == TaskStatus::Ready && !in_a_batch && steps.is_empty() {
        steps.push(format!("no batch has it: {}", again(seen, configured)));
    }
    steps
}

/// Why those who conduct the batches that have the task do not start it, and what runs it afterwards.
fn left(seen: &Explanation, configured: Option<&str>) -> Option<String> {
    let status = seen.view.task.status;
    if status.is_done() || status == TaskStatus::Failed || !seen.findings.is_empty() {
        return None;
    }
    let open = |place: &&PlaceView| !place.batch.status.is_final();
    let place = seen.places.iter().find(open)?;
    if !seen.places.iter().filter(open).all(PlaceView::leaves) {
        return None;
    }
    let batch = place.batch.id.short();
    let why = match &place.closing {
        Some(Closing::Stop(_)) => format!("batch {batch} is stopping and starts nothing new"),
        Some(Closing::Failure(bad)) => {
            format!("batch {batch} stops on failures and starts nothing new, for {bad} failed")
        }
        None => {
            let reason = place.row.reason.as_deref().unwrap_or_default();
            format!("batch {batch} does not start it again ({reason})")
        }
    };
    Some(format!("{why}: {}", again(seen, configured)))
}

/// The command that runs a task again: the batch that left it, which knows its settings, goes on; else a new one
/// starts.
fn again(seen: &Explanation, configured: Option<&str>) -> String {
    let stored = Stored::Status(seen.view.task.status);
    let taken_up = |place: &&PlaceView| {
        let asked = || Ok::<_, Infallible>(Some(stored));
        resume_takes_up(&place.row, asked).is_ok_and(|taken_up| taken_up)
    };
    match seen.places.first().filter(taken_up) {
        Some(place) => {
            let batch = place.batch.id.short();
            if place.batch.status.is_final() {
                format!("cf resume {batch} tries it again, with what else is left of that batch")
            } else {
                format!("cf resume {batch} tries it again when that batch has ended")
            }
        }
        None => format!("{} runs it", start(seen, configured)),
    }
}

/// The command that starts a task by itself. One that names no engine gets the one that ran it last, unless that is the
/// configuration's, or nothing ran it and the configuration has one.
fn start(seen: &Explanation, configured: Option<&str>) -> String {
    let task = &seen.view.task;
    let label = task.label();
    if task.run.is_some() || task.engine.is_some() {
        return format!("cf work start {label}");
    }
    let last = seen.attempts.last().map(|attempt| attempt.engine.as_str());
    match (last, configured) {
        (None, Some(_)) => format!("cf work start {label}"),
        (Some(last), Some(configured)) if last == configured => format!("cf work start {label}"),
        (last, _) => format!(
            "cf work start {label} --engine {}",
            last.unwrap_or("ENGINE")
        ),
    }
}
