//! Sources: what can be asked about tasks, and the registry that asks them in order.
//!
//! A source answers for many tasks in one call, at once, from what it knows: it never waits for a network and never
//! fails a batch. What it could not read is *unknown*, and not knowing never acts.

pub(crate) mod github;
mod local;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use cf_core::{AttemptId, BatchId, TaskId};
use cf_reconcile::{AskGrace, Believed, ReconciliationResult, SourceName, merge, settles};
pub use cf_reconcile::{Merged, ReconcileAction};

use crate::store::Store;
use crate::store::blocker::BlockerSummary;
pub use github::GitHubReconciler;
pub use local::LocalReconciler;
pub(crate) use local::as_if_queued;

/// A task that a source is asked about, with what the batch believes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The task.
    pub task: TaskId,
    /// The batch that asks.
    pub batch: BatchId,
    /// Where the task stands in it.
    pub believed: Believed,
    /// Status writes up to this event are not news.
    pub take_up_seq: u64,
    /// The event that began the hold or gave the outcome.
    pub since_seq: u64,
    /// The attempt that runs, or ran last.
    pub attempt: Option<AttemptId>,
    /// Whether an agent that asked a question still has time to end.
    pub ask_grace: AskGrace,
}

/// What a source says: always one of three.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation<T> {
    /// It was read.
    Known(T),
    /// It could not be read, and why. Nothing acts on it.
    Unknown(String),
    /// It is not there any more.
    Gone,
}

/// Something that can be asked about tasks.
pub trait Reconciler {
    /// Its name, which every finding carries.
    fn name(&self) -> SourceName;

    /// What it says about these tasks, each of which is asked about once. Tasks that it has nothing to say about may be
    /// left out; an id that no longer exists is a finding, not an error.
    fn check_tasks(
        &mut self,
        store: &Store,
        asked: &[Asked],
    ) -> Vec<(TaskId, Observation<ReconciliationResult>)>;

    /// Whether whoever conducts must ask it by the interval and before a spawn. Not so for a source that has its
    /// answers asked about when they arrive.
    fn is_polled(&self) -> bool {
        true
    }

    /// What it knows about questions that hold these tasks. Sources that know none leave all out.
    fn check_blockers(
        &mut self,
        store: &Store,
        tasks: &[TaskId],
    ) -> Vec<(TaskId, Observation<BlockerSummary>)> {
        let _ = (store, tasks);
        Vec::new()
    }
}

/// What a pass found.
#[derive(Clone, Debug, Default)]
pub struct Pass {
    /// The merged finding of each task that any source knew something about.
    pub merged: Vec<Merged>,
    /// What could not be read. One entry a source.
    pub unknown: Vec<Unread>,
}

/// What a source could not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The source.
    pub source: SourceName,
    /// Why, for one of the tasks.
    pub why: String,
    /// The tasks that nothing is known about.
    pub tasks: Vec<TaskId>,
}

/// The sources of a batch, in order: local first, then the others.
pub struct ReconcilerRegistry {
    sources: Vec<Box<dyn Reconciler>>,
}

impl std::fmt::Debug for ReconcilerRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.sources.iter().map(|source| source.name()))
            .finish()
    }
}

impl Default for ReconcilerRegistry {
    /// The local source alone.
    fn default() -> Self {
        Self {
            sources: vec![Box::new(LocalReconciler)],
        }
    }
}

impl ReconcilerRegistry {
    /// A registry with exactly these sources, asked in this order.
    pub fn new(sources: Vec<Box<dyn Reconciler>>) -> Self {
        Self { sources }
    }

    /// Adds a source behind the others.
    pub fn push(&mut self, source: Box<dyn Reconciler>) {
        self.sources.push(source);
    }

    /// Whether any source changes without anybody committing or telling, so that it is asked by the interval and before
    /// a spawn.
    pub fn has_others(&self) -> bool {
        self.sources.iter().any(|source| source.is_polled())
    }

    /// What the sources know about questions that hold these tasks, each source's word by itself, in order.
    pub fn check_blockers(
        &mut self,
        store: &Store,
        tasks: &[TaskId],
    ) -> Vec<(SourceName, TaskId, Observation<BlockerSummary>)> {
        let mut said = Vec::new();
        for source in &mut self.sources {
            let name = source.name();
            let found = source.check_blockers(store, tasks);
            said.extend(
                found
                    .into_iter()
                    .map(|(task, summary)| (name.clone(), task, summary)),
            );
        }
        said
    }

    /// Asks the sources in order and merges what they say. A task that a source settles (SKIP, FAIL) is not asked about
    /// further.
    pub fn check(&mut self, store: &Store, asked: &[Asked]) -> Pass {
        let mut pass = Pass::default();
        if asked.is_empty() {
            return pass;
        }
        let mut open = Cow::Borrowed(asked);
        let mut found: Vec<(usize, ReconciliationResult)> = Vec::new();
        let mut places = Places::new(asked);
        let last = self.sources.len().saturating_sub(1);
        for (nth, source) in self.sources.iter_mut().enumerate() {
            if open.is_empty() {
                break;
            }
            let before = found.len();
            let mut unread: Option<Unread> = None;
            let said = source.check_tasks(store, &open).into_iter();
            let known = said.filter_map(|(task, observation)| match observation {
                Observation::Known(finding) => places.of(task).map(|at| (at, finding)),
                Observation::Unknown(why) => {
                    let unread = unread.get_or_insert_with(|| Unread {
                        source: source.name(),
                        why,
                        tasks: Vec::new(),
                    });
                    unread.tasks.push(task);
                    None
                }
                Observation::Gone => None,
            });
            if found.is_empty() {
                // Collected where the answers are, of which there are megabytes; the bench (`pass-changed`) would tell.
                found = known.collect();
            } else {
                found.extend(known);
            }
            pass.unknown.extend(unread);
            if nth < last {
                let settled: HashSet<TaskId> = found[before..]
                    .iter()
                    .filter(|(_, finding)| settles(finding.action))
                    .map(|(_, finding)| finding.task_id)
                    .collect();
                if !settled.is_empty() {
                    open.to_mut().retain(|asked| !settled.contains(&asked.task));
                }
            }
        }
        // What several sources said of a task stays in their order. Even what is sorted is sorted in a second buffer.
        if !found.is_sorted_by_key(|(at, _)| *at) {
            found.sort_by_key(|(at, _)| *at);
        }
        pass.merged.reserve(found.len());
        let mut found = found.into_iter();
        while let Some((at, first)) = found.next() {
            let left = found.as_slice().iter();
            let others = left.take_while(|(other, _)| *other == at).count();
            let others = found.by_ref().take(others).map(|(_, finding)| finding);
            pass.merged
                .extend(merge(std::iter::once(first).chain(others)));
        }
        pass
    }
}

/// Where tasks stand in a list of questions. Answers mostly come in the order of the questions; then each costs a
/// comparison.
struct Places<'a> {
    asked: &'a [Asked],
    next: usize,
    all: Option<HashMap<TaskId, usize>>,
}

impl<'a> Places<'a> {
    const fn new(asked: &'a [Asked]) -> Self {
        Self {
            asked,
            next: 0,
            all: None,
        }
    }

    fn of(&mut self, task: TaskId) -> Option<usize> {
        let next = self.asked.get(self.next);
        let at = if next.is_some_and(|asked| asked.task == task) {
            self.next
        } else {
            let asked = self.asked;
            let all = self.all.get_or_insert_with(|| {
                let places = asked.iter().enumerate();
                places.map(|(at, asked)| (asked.task, at)).collect()
            });
            *all.get(&task)?
        };
        self.next = at + 1;
        Some(at)
    }
}
