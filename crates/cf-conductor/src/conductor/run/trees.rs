//! The work of git beside the loop: worktrees are made before an agent starts, and its work is kept when it has ended.
//!
//! Everything that calls git runs on a thread of its own and comes back as a [`Done`], which the next turn takes in
//! like any other news. Until then the attempt counts as running, so that its slot stays taken and nobody else starts
//! on its task. After a crash the same is asked for again, and git finds what it has done.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cf_core::{AttemptEnd, AttemptId};
use cf_reconcile::FailureCause;
use serde_json::Value;
use tokio::task::JoinSet;

use super::super::launch::Launch;
use super::super::recover;
use super::super::settle::Judged;
use super::super::trees::{self, Keep, Kept, Tidy};
use super::super::{ConductorError, Notice, Setup};
use super::Conductor;
use crate::executor::{Fate, Note};
use crate::fault;
use crate::settings::Settings;
use crate::store::{Durability, StoreError};
use crate::workspace::Workspace;
use crate::worktree::{self, Cancel, Git, GitError, Order, Ready, Repository, Unready};

/// How long worktrees that are being removed are waited for at the end of a batch.
const LAST: Duration = Duration::from_secs(10);

/// What git has done.
#[derive(Debug)]
pub(super) enum Done {
    /// A worktree stands on its base, or cannot be made.
    Prepared(AttemptId, Result<Ready, Unready>),
    /// It has its branch; or not, and whether the branch is not cf's then.
    Taken(AttemptId, Result<(), (GitError, Whose)>),
    /// The work of an ended attempt is kept; its end can be settled.
    Kept(Box<Judged>),
    /// Worktrees were looked at, and those of these attempts are gone.
    Tidied(Vec<AttemptId>),
}

/// Whose a branch is that could not be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    Ours,
    Somebodys,
}

/// An attempt whose worktree is being made.
#[derive(Debug)]
struct Starting {
    launch: Launch,
    order: Order,
    cancel: Cancel,
}

/// The repository, looked for when it is first needed.
#[derive(Debug)]
struct Find {
    workspace: Workspace,
    git: Git,
    found: Arc<OnceLock<Repository>>,
}

impl Find {
    fn repository(&self) -> Result<Repository, GitError> {
        if let Some(known) = self.found.get() {
            return Ok(known.clone());
        }
        let found = Repository::of(&self.workspace, self.git.clone())?;
        Ok(self.found.get_or_init(|| found).clone())
    }
}

/// What git does at the moment.
#[derive(Debug, Default)]
pub(super) struct Trees {
    repository: Arc<OnceLock<Repository>>,
    works: JoinSet<Done>,
    starting: HashMap<AttemptId, Starting>,
    /// What came back and could not be stored yet.
    pub(super) arrived: Vec<Done>,
    stop: Cancel,
}

impl Trees {
    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.works.is_empty() && self.arrived.is_empty()
    }

    /// Where a process of an attempt starts: in its worktree, or in the workspace.
    pub(super) fn directory(&self, setup: &Setup, launch: &Launch) -> PathBuf {
        match (&launch.tree, self.repository.get()) {
            (Some(tree), Some(repository)) => repository.directory(&tree.name),
            (Some(tree), None) => setup.workspace.worktrees().join(&tree.name),
            (None, _) => setup.workspace.root().to_owned(),
        }
    }

    /// How the repository is found, which asks git and so is done on another thread than the loop's.
    fn find(&self, setup: &Setup, settings: &Settings) -> Find {
        Find {
            workspace: setup.workspace.clone(),
            git: trees::git(settings).cut_short_by(&self.stop),
            found: Arc::clone(&self.repository),
        }
    }

    /// The repository, before there is a loop.
    pub(super) fn repository(
        &self,
        setup: &Setup,
        settings: &Settings,
    ) -> Result<Repository, GitError> {
        self.find(setup, settings).repository()
    }

    /// Ends what is being made for an attempt that is not to start any more.
    pub(super) fn cancel(&self, attempt: AttemptId) {
        if let Some(starting) = self.starting.get(&attempt) {
            starting.cancel.cancel();
        }
    }

    /// Ends everything that is under way.
    pub(super) fn cancel_all(&self) {
        self.stop.cancel();
        for starting in self.starting.values() {
            starting.cancel.cancel();
        }
    }
}

/// The next thing that git has done; never, while it does nothing.
pub(super) async fn next_done(trees: &mut Trees) -> Done {
    match trees.works.join_next().await {
        Some(Ok(done)) => done,
        Some(Err(error)) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

impl Conductor<'_> {
    /// Has the worktree of an attempt made; its agent starts when it is there.
    pub(super) fn prepare_tree(&mut self, launch: Launch) {
        match self.order_for(&launch) {
            Ok(order) => {
                let cancel = Cancel::default();
                let attempt = launch.attempt;
                let find = self.trees.find(self.setup, &self.core.settings);
                let (what, short) = (order.clone(), cancel.clone());
                self.trees.works.spawn_blocking(move || {
                    let prepared = find
                        .repository()
                        .map_err(Unready::Git)
                        .and_then(|found| found.cut_short_by(&short).prepare(&what));
                    fault::point("tree.made");
                    Done::Prepared(attempt, prepared)
                });
                let starting = Starting {
                    launch,
                    order,
                    cancel,
                };
                self.trees.starting.insert(attempt, starting);
            }
            Err(fate) => self.did_not_start(&launch, *fate),
        }
    }

    fn order_for(&self, launch: &Launch) -> Result<Order, Box<Fate>> {
        let Some(tree) = &launch.tree else {
            return Err(Box::new(Fate::NeverStarted));
        };
        let (core, store) = (&self.core, &self.store);
        let order = store.read(|reader| {
            let base = reader.batch_base(core.batch)?;
            base.map(|base| {
                trees::order(
                    reader,
                    &core.settings,
                    tree,
                    launch.task.id,
                    launch.attempt,
                    &base,
                )
            })
            .transpose()
        });
        match order {
            Ok(Some(order)) => Ok(order),
            Ok(None) => Err(Box::new(Fate::SpawnFailed {
                error: "the batch has no commit that worktrees start from".to_owned(),
                passing: false,
            })),
            Err(_) => Err(Box::new(Fate::NeverStarted)),
        }
    }

    fn did_not_start(&mut self, launch: &Launch, fate: Fate) {
        self.take_note(&Note {
            supervisor: launch.identity.supervisor,
            attempt: launch.attempt,
            stage: launch.stage,
            fate,
        });
    }

    /// Has the work of an ended attempt kept.
    pub(super) fn keep(&mut self, keep: Keep) {
        let Keep {
            mut judged,
            is_finished,
        } = keep;
        let left = self.store.read(|reader| {
            let row = reader.worktree(judged.attempt)?;
            let row = row.filter(|row| row.base.is_some());
            row.map(|row| trees::leaving(reader, &row)).transpose()
        });
        let left = match left {
            Ok(Some(left)) => left,
            Ok(None) => {
                // It never had a worktree.
                judged.kept = Some(Kept::Done(worktree::Kept::Nothing));
                self.pending.push(judged);
                return;
            }
            // It is asked for again with the next turn.
            Err(_) => {
                self.pending.push(judged);
                return;
            }
        };
        let find = self.trees.find(self.setup, &self.core.settings);
        self.trees.works.spawn_blocking(move || {
            judged.kept = Some(match find.repository() {
                Ok(repository) => kept(&repository, &left, is_finished),
                Err(error) => Kept::Failed {
                    why: crate::chain(&error),
                    reference: None,
                },
            });
            Done::Kept(Box::new(judged))
        });
    }

    /// Has what is left of earlier worktrees removed, as far as nothing is lost with it: their conductors may have come
    /// to their ends before they did so. Those of the batch's own tasks are looked after when these start again.
    pub(super) fn tidy_leftovers(&mut self) -> Result<(), ConductorError> {
        if self.core.settings.isolation != cf_core::Isolation::Worktree || self.only_pass {
            return Ok(());
        }
        // From here on it is known where in a worktree a verification starts. Why it is not found is said when it is
        // used.
        let _ = self.trees.repository(self.setup, &self.core.settings);
        let mut left = self.store.read(|reader| reader.worktrees_left())?;
        left.retain(|row| !row.is_live && !self.core.schedule.knows(row.task));
        self.tidy_all(left.into_iter().map(|row| Tidy {
            attempt: row.attempt,
            name: row.name,
            base: row.base,
        }));
        Ok(())
    }

    /// Has a worktree removed, if nothing is lost with it.
    pub(super) fn tidy(&mut self, tidy: Tidy) {
        self.tidy_all([tidy]);
    }

    /// Has worktrees removed one after the other, as far as nothing is lost with them.
    fn tidy_all(&mut self, tidies: impl IntoIterator<Item = Tidy>) {
        let tidies: Vec<Tidy> = tidies.into_iter().collect();
        if tidies.is_empty() {
            return;
        }
        let find = self.trees.find(self.setup, &self.core.settings);
        self.trees.works.spawn_blocking(move || {
            let Ok(repository) = find.repository() else {
                return Done::Tidied(Vec::new());
            };
            Done::Tidied(
                tidies
                    .into_iter()
                    .filter(|tidy| is_removed(&repository, tidy))
                    .map(|tidy| tidy.attempt)
                    .collect(),
            )
        });
    }

    /// Takes in what git has done, storing what is to be stored.
    pub(super) fn take_done(&mut self) -> Result<(), ConductorError> {
        while let Some(done) = self.trees.arrived.pop() {
            if let Err(error) = self.take_one(&done) {
                self.trees.arrived.push(done);
                return Err(error.into());
            }
        }
        Ok(())
    }

    fn take_one(&mut self, done: &Done) -> Result<(), StoreError> {
        match done {
            Done::Prepared(attempt, Ok(ready)) => self.prepared(*attempt, ready),
            Done::Prepared(attempt, Err(unready)) => {
                let Some(starting) = self.trees.starting.remove(attempt) else {
                    return Ok(());
                };
                match unready {
                    Unready::Conflict { what, files } => {
                        self.ask_first(&starting.launch, trees::question(what, files));
                    }
                    Unready::Git(error) => self.did_not_start(&starting.launch, refused(error)),
                }
                Ok(())
            }
            Done::Taken(attempt, Ok(())) => {
                if let Some(starting) = self.trees.starting.remove(attempt) {
                    let left = starting.order.older.iter();
                    let left = left.filter(|older| !older.is_removed && !older.is_live);
                    self.tidy_all(left.map(|older| Tidy {
                        attempt: older.left.attempt,
                        name: older.left.name.clone(),
                        base: Some(older.left.base.clone()).filter(|base| !base.is_empty()),
                    }));
                    if self.is_to_start(*attempt) {
                        self.launch(&starting.launch);
                    } else {
                        self.did_not_start(&starting.launch, Fate::NeverStarted);
                    }
                }
                Ok(())
            }
            Done::Taken(attempt, Err((error, whose))) => {
                if *whose == Whose::Somebodys {
                    self.store_aside(|tx| tx.worktree_without_branch(*attempt))?;
                }
                if let Some(starting) = self.trees.starting.remove(attempt) {
                    self.did_not_start(&starting.launch, refused(error));
                }
                Ok(())
            }
            Done::Kept(judged) => {
                if let Some(Kept::Failed {
                    why,
                    reference: None,
                }) = &judged.kept
                {
                    self.tell_not_kept(judged.attempt, why);
                }
                self.pending.push((**judged).clone());
                Ok(())
            }
            Done::Tidied(gone) if gone.is_empty() => Ok(()),
            Done::Tidied(gone) => self.store_aside(|tx| {
                gone.iter()
                    .try_for_each(|attempt| tx.worktree_removed(*attempt))
            }),
        }
    }

    fn tell_not_kept(&mut self, attempt: AttemptId, why: &str) {
        let task = self.core.by_attempt.get(&attempt);
        let running = task.and_then(|task| self.core.running.get(task));
        let tree = running.and_then(|running| running.tree.as_ref());
        // Where the agent has removed it nothing is there, which is the reason that the task is given.
        if let Some(tree) = tree
            && self.setup.workspace.worktrees().join(&tree.name).exists()
        {
            self.observer.notice(&Notice::NotKept {
                worktree: self.setup.workspace.worktrees().join(&tree.name),
                why: why.to_owned(),
            });
        }
    }

    /// Stores what an agent will start from, and then gives its worktree the branch.
    fn prepared(&mut self, attempt: AttemptId, ready: &Ready) -> Result<(), StoreError> {
        if !self.trees.starting.contains_key(&attempt) {
            return Ok(());
        }
        if !self.is_to_start(attempt) {
            if let Some(starting) = self.trees.starting.remove(&attempt) {
                self.did_not_start(&starting.launch, Fate::NeverStarted);
            }
            return Ok(());
        }
        self.store_aside(|tx| {
            tx.worktree_begins(attempt, &ready.base)?;
            for (older, reference) in &ready.saved {
                tx.work_rescued(*older, reference)?;
            }
            Ok(())
        })?;
        fault::point("tree.stored");
        let Some(repository) = self.trees.repository.get().cloned() else {
            return Ok(());
        };
        if let Some(starting) = self.trees.starting.get(&attempt) {
            let (order, ready) = (starting.order.clone(), ready.clone());
            self.trees.works.spawn_blocking(move || {
                let taken = repository.take_branch(&order, &ready).map_err(|error| {
                    let is_there = repository.tip(&order.branch).ok().flatten();
                    let whose = match (&ready.tip, is_there) {
                        (None, Some(tip)) if tip != ready.base => Whose::Somebodys,
                        _ => Whose::Ours,
                    };
                    (error, whose)
                });
                fault::point("tree.branched");
                Done::Taken(attempt, taken)
            });
        }
        Ok(())
    }

    /// Whether nobody has asked for the end of an attempt that is about to start.
    fn is_to_start(&self, attempt: AttemptId) -> bool {
        let task = self.core.by_attempt.get(&attempt);
        let running = task.and_then(|task| self.core.running.get(task));
        running.is_some_and(|running| running.stop.is_none())
    }

    /// An attempt cannot start before a person has decided something.
    fn ask_first(&mut self, launch: &Launch, question: String) {
        let note = Note {
            supervisor: launch.identity.supervisor,
            attempt: launch.attempt,
            stage: launch.stage,
            fate: Fate::NeverStarted,
        };
        let mut judged = recover::judged(
            &note,
            recover::failed(
                AttemptEnd::NeverStarted,
                None,
                "the work that it builds on conflicts".to_owned(),
                Value::Null,
            ),
            FailureCause::NeverStarted,
            true,
        );
        judged.question = Some(question);
        self.pending.push(judged);
    }

    /// Stores something that belongs to no turn.
    fn store_aside(
        &mut self,
        write: impl FnOnce(&mut crate::store::Tx<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let by = self.core.actor();
        let ((), events) = self.store.write_as(&by, Durability::Full, write)?;
        self.wrote_aside(&events);
        Ok(())
    }

    /// Lets what is being removed come to its end, for a while.
    pub(super) async fn finish_trees(&mut self) {
        let begun = tokio::time::Instant::now();
        while !self.trees.works.is_empty() {
            match tokio::time::timeout_at(begun + LAST, self.trees.works.join_next()).await {
                Ok(Some(Ok(done))) => self.trees.arrived.push(done),
                Ok(_) => {}
                Err(_) => {
                    self.trees.cancel_all();
                    break;
                }
            }
        }
        // What is not stored is found gone by whoever looks next.
        let _ = self.take_done();
    }
}

/// Why git kept an agent from starting. What was cut short on request never started.
fn refused(error: &GitError) -> Fate {
    match error {
        GitError::Cancelled { .. } => Fate::NeverStarted,
        other => Fate::SpawnFailed {
            error: crate::chain(other),
            passing: false,
        },
    }
}

/// Removes a worktree, if nothing is lost with it. Returns whether it is gone.
fn is_removed(repository: &Repository, tidy: &Tidy) -> bool {
    let gone = match &tidy.base {
        None => repository.remove(&tidy.name).map(|()| true),
        Some(base) => repository.remove_if_clean(&tidy.name, Some(base)),
    };
    if let Err(error) = &gone {
        tracing::warn!(worktree = %tidy.name, error = %crate::chain(error), "cannot remove a worktree");
    }
    let is_gone = gone.unwrap_or(false);
    if is_gone {
        fault::point("tree.removed");
    }
    is_gone
}

fn kept(repository: &Repository, left: &worktree::Leaving, is_finished: bool) -> Kept {
    if !is_finished {
        return match repository.rescue(left) {
            Ok(kept) => {
                fault::point("tree.rescued");
                Kept::Done(kept)
            }
            Err(error) => Kept::Failed {
                why: crate::chain(&error),
                reference: None,
            },
        };
    }
    match repository.commit_work(left) {
        Ok(kept) => {
            fault::point("tree.committed");
            Kept::Done(kept)
        }
        Err(error) => Kept::Failed {
            why: format!("its work could not be committed: {}", crate::chain(&error)),
            reference: match repository.rescue(left) {
                Ok(worktree::Kept::Rescued { reference }) => Some(reference),
                _ => None,
            },
        },
    }
}
