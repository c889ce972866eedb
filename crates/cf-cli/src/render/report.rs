//! What became of a batch, for somebody who was not there: as one page for a browser, as words, as JSON.
//!
//! A [`Report`] is a value that is made of what the store holds; everything else here turns it into text and does
//! nothing else.

mod actions;
mod graph;
mod json;
mod layers;
mod markup;
mod page;
mod questions;
mod scale;
mod settings;
mod slots;
mod summary;
mod tasks;
mod timeline;
mod words;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use cf_conductor::closing::Closing;
use cf_conductor::store::attempt::Attempt;
use cf_conductor::store::batch::Batch;
use cf_conductor::store::blocker::Blocker;
use cf_conductor::store::event::Event;
use cf_conductor::store::history::BatchHistory;
use cf_conductor::store::ids::ById;
use cf_conductor::store::worktree::Worktree;
use cf_core::{AttemptEnd, AttemptId, Outcome, Phase, TaskId, TaskLabel, Timestamp};

use super::batch::{Counts, Listed};
use super::time;
pub(crate) use json::ReportJson;
pub(crate) use page::page;
pub(crate) use words::write_words;

/// A batch and everything that happened in it, with what follows from that.
#[derive(Debug)]
pub(crate) struct Report {
    batch: Batch,
    closing: Option<Closing>,
    /// The name of the workspace's folder.
    place: String,
    /// When it was read. What has not ended lasts until then.
    made_at: Timestamp,
    counts: Counts,
    tasks: Vec<TaskEntry>,
    attempts: Vec<AttemptEntry>,
    worktrees: HashMap<AttemptId, Worktree>,
    /// How many attempts there ever were at once.
    slots: usize,
    questions: Vec<Blocker>,
    actions: Vec<Event>,
    events: Vec<Event>,
    /// The place of each task among `tasks`.
    index: ById<usize>,
}

/// A task of the batch.
#[derive(Debug)]
struct TaskEntry {
    id: TaskId,
    label: TaskLabel,
    title: String,
    phase: Phase,
    outcome: Option<Outcome>,
    reason: String,
    /// Its attempts in this batch, by their place in [`Report::attempts`].
    attempts: Vec<usize>,
    /// What it depends on inside the batch, by place.
    depends_on: Vec<usize>,
    /// How many tasks outside the batch it depends on.
    depends_outside: usize,
}

/// An attempt.
#[derive(Debug)]
struct AttemptEntry {
    stored: Attempt,
    /// Its task, by place.
    task: usize,
    /// From 0.
    slot: usize,
    became: Became,
}

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Became {
    Running,
    Succeeded,
    Failed,
    /// It asked, and its task waits for the answer.
    Asked,
    /// It was stopped, or never started.
    Stopped,
}

/// Where a task stands, as the page groups it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Completed,
    Failed,
    Blocked,
    Skipped,
    Cancelled,
    Running,
    Waiting,
}

impl Report {
    /// Puts a batch's history together. `now` is the end of everything that has none yet.
    pub(crate) fn new(history: BatchHistory, place: String, now: Timestamp) -> Self {
        let index: ById<usize> = history
            .tasks
            .iter()
            .enumerate()
            .map(|(at, view)| (view.row.task, at))
            .collect();
        let mut counts = Counts::default();
        let mut tasks: Vec<TaskEntry> = Vec::with_capacity(history.tasks.len());
        for view in history.tasks {
            counts.add(view.row.phase, view.row.outcome, 1);
            tasks.push(TaskEntry {
                id: view.row.task,
                label: TaskLabel::new(view.row.task, view.key.as_ref()),
                title: view.title,
                phase: view.row.phase,
                outcome: view.row.outcome,
                reason: view.row.reason.unwrap_or_default(),
                attempts: Vec::new(),
                depends_on: Vec::new(),
                depends_outside: 0,
            });
        }
        for (task, on) in &history.edges {
            let Some(task) = index.get(task) else {
                continue;
            };
            match index.get(on) {
                Some(on) => tasks[*task].depends_on.push(*on),
                None => tasks[*task].depends_outside += 1,
            }
        }
        let asked: BTreeSet<AttemptId> = history
            .questions
            .iter()
            .filter_map(|question| question.asked_attempt)
            .collect();
        let intervals: Vec<_> = history
            .attempts
            .iter()
            .map(|attempt| (attempt.started_at, attempt.ended_at))
            .collect();
        let slots = slots::pack(&intervals);
        let mut attempts = Vec::with_capacity(history.attempts.len());
        for (stored, slot) in history.attempts.into_iter().zip(&slots) {
            let Some(task) = index.get(&stored.task).copied() else {
                continue;
            };
            tasks[task].attempts.push(attempts.len());
            let became = Became::of(&stored, asked.contains(&stored.id));
            attempts.push(AttemptEntry {
                stored,
                task,
                slot: *slot,
                became,
            });
        }
        Self {
            batch: history.batch,
            closing: history.closing,
            place,
            made_at: now,
            counts,
            tasks,
            attempts,
            worktrees: history
                .worktrees
                .into_iter()
                .map(|worktree| (worktree.attempt, worktree))
                .collect(),
            slots: slots.iter().max().map_or(0, |slot| slot + 1),
            questions: history.questions,
            actions: history.actions,
            events: history.events,
            index,
        }
    }

    /// How long the batch took, or has taken until now.
    fn took(&self) -> Duration {
        time::between(
            self.batch.started_at,
            self.batch.ended_at.unwrap_or(self.made_at),
        )
    }

    /// The time that all attempts took together.
    fn worked(&self) -> Duration {
        self.attempts.iter().map(|attempt| self.long(attempt)).sum()
    }

    fn long(&self, attempt: &AttemptEntry) -> Duration {
        time::between(attempt.stored.started_at, self.end_of(attempt))
    }

    fn end_of(&self, attempt: &AttemptEntry) -> Timestamp {
        attempt.stored.ended_at.unwrap_or(self.made_at)
    }

    /// The time that a task's attempts took together.
    fn worked_on(&self, task: &TaskEntry) -> Duration {
        let attempts = task.attempts.iter().map(|at| &self.attempts[*at]);
        attempts.map(|attempt| self.long(attempt)).sum()
    }

    /// How many attempts were made because the one before had failed.
    fn retries(&self) -> usize {
        let pairs = self.tasks.iter().flat_map(|task| task.attempts.windows(2));
        pairs
            .filter(|pair| self.attempts[pair[0]].became == Became::Failed)
            .count()
    }

    /// How many agents were at work on average, while any was.
    fn at_once(&self) -> f64 {
        let intervals = self.attempts.iter();
        let busy = slots::covered(intervals.map(|a| (a.stored.started_at, self.end_of(a))));
        if busy.is_zero() {
            0.0
        } else {
            self.worked().as_secs_f64() / busy.as_secs_f64()
        }
    }

    /// The batch as other commands list it.
    pub(crate) fn listed(&self, conductor: Option<u32>) -> Listed {
        Listed {
            batch: self.batch.clone(),
            counts: self.counts,
            conductor,
            closing: self.closing.clone(),
            used: self.used(0..self.attempts.len()),
        }
    }

    /// What agents reported to have used in these attempts: tokens, and cost in millionths of a dollar.
    fn used(&self, attempts: impl IntoIterator<Item = usize>) -> (Option<u64>, Option<u64>) {
        attempts
            .into_iter()
            .map(|at| &self.attempts[at].stored)
            .fold((None, None), |(tokens, cost), attempt| {
                (
                    sum(tokens, attempt.tokens),
                    sum(cost, attempt.cost_micro_usd),
                )
            })
    }

    fn task_of(&self, id: Option<TaskId>) -> Option<(usize, &TaskEntry)> {
        let at = *self.index.get(&id?)?;
        Some((at, &self.tasks[at]))
    }
}

/// The sum of what is known; none where nothing is.
fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.saturating_add(other)),
        (one, other) => one.or(other),
    }
}

impl TaskEntry {
    const fn standing(&self) -> Standing {
        match (self.phase, self.outcome) {
            (_, Some(Outcome::Completed)) => Standing::Completed,
            (_, Some(Outcome::Failed)) => Standing::Failed,
            (_, Some(Outcome::Blocked)) | (Phase::Held, None) => Standing::Blocked,
            (_, Some(Outcome::Skipped)) => Standing::Skipped,
            (_, Some(Outcome::Cancelled)) | (Phase::Finished, None) => Standing::Cancelled,
            (Phase::Running | Phase::Stopping, None) => Standing::Running,
            (Phase::Waiting | Phase::Queued, None) => Standing::Waiting,
        }
    }

    /// The word for where it stands, as every other command shows it.
    const fn word(&self) -> &'static str {
        match self.outcome {
            Some(outcome) => outcome.as_str(),
            None => self.phase.as_str(),
        }
    }
}

impl Became {
    fn of(attempt: &Attempt, asked: bool) -> Self {
        match (attempt.end, attempt.success) {
            (None, _) if attempt.open => Self::Running,
            _ if asked => Self::Asked,
            (_, Some(true)) => Self::Succeeded,
            (Some(AttemptEnd::Exited | AttemptEnd::Lost), _) => Self::Failed,
            (
                Some(AttemptEnd::Killed | AttemptEnd::Unclean | AttemptEnd::NeverStarted) | None,
                _,
            ) => Self::Stopped,
        }
    }

    const ALL: [Self; 5] = [
        Self::Succeeded,
        Self::Failed,
        Self::Asked,
        Self::Stopped,
        Self::Running,
    ];

    const fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Asked => "asked",
            Self::Stopped => "stopped",
        }
    }

    /// The class under which the style sheet knows it: that of the standing that looks alike.
    const fn class(self) -> &'static str {
        match self {
            Self::Running => Standing::Running.class(),
            Self::Succeeded => Standing::Completed.class(),
            Self::Failed => Standing::Failed.class(),
            Self::Asked => Standing::Blocked.class(),
            Self::Stopped => Standing::Cancelled.class(),
        }
    }

    const fn sign(self) -> &'static str {
        match self {
            Self::Running => Standing::Running.sign(),
            Self::Succeeded => Standing::Completed.sign(),
            Self::Failed => Standing::Failed.sign(),
            Self::Asked => Standing::Blocked.sign(),
            Self::Stopped => Standing::Cancelled.sign(),
        }
    }
}

impl Standing {
    const ALL: [Self; 7] = [
        Self::Completed,
        Self::Failed,
        Self::Blocked,
        Self::Skipped,
        Self::Cancelled,
        Self::Running,
        Self::Waiting,
    ];

    /// The class under which the style sheet and the script know it, and the word beside its count.
    const fn class(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Blocked => "blocked",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
            Self::Running => "running",
            Self::Waiting => "waiting",
        }
    }

    /// A sign that tells it without colour.
    const fn sign(self) -> &'static str {
        match self {
            Self::Completed => "✓",
            Self::Failed => "✗",
            Self::Blocked => "?",
            Self::Skipped => "»",
            Self::Cancelled => "–",
            Self::Running => "▸",
            Self::Waiting => "…",
        }
    }
}

#[cfg(test)]
mod tests;
