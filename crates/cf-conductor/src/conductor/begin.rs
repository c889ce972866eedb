//! How a batch comes into a conductor's hands: begun, picked up from another that is gone, or read again after a
//! transaction that failed.
//!
//! What is done here is done to the store and to what is believed, never to a process, so that the simulation does it
//! with the same functions.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use cf_core::{AttemptId, Isolation, TaskId};
use cf_reconcile::Merged;

use super::rows;
use super::run::Goal;
use super::settle::Judged;
use super::take_up::{self, Again};
use super::turn::{AtGate, Core, News};
use crate::engine::SuccessRule;
use crate::fault;
use crate::schedule::{Mode, resume_takes_up};
use crate::store::attempt::Attempt;
use crate::store::batch::{Batch, BatchTask};
use crate::store::event::Event;
use crate::store::{Durability, Reader, Result, Store, Tx, now};

/// The longest time between two looks when nothing wakes the loop: a writer that died between its commit and its poke
/// is noticed then.
pub(super) const TICK: Duration = Duration::from_secs(1);

impl Core {
    /// Runs a transaction in which what is believed changes with the store. When it fails, what is believed must be
    /// read again.
    pub(super) fn write<T>(
        &mut self,
        store: &mut Store,
        durability: Durability,
        work: impl FnOnce(&mut Self, &mut Tx<'_>) -> Result<T>,
    ) -> Result<(T, Vec<Event>)> {
        let done = store.write_as(&self.actor(), durability, |tx| work(self, tx));
        self.must_reload |= done.is_err();
        done
    }

    /// Stores a new batch and takes its tasks up.
    pub(super) fn begin(
        &mut self,
        tx: &mut Tx<'_>,
        tasks: &[TaskId],
        again: Again,
        base: Option<&str>,
    ) -> Result<()> {
        tx.insert_batch(self.batch, &self.settings, tasks.len())?;
        if let Some(base) = base {
            tx.set_batch_base(self.batch, base)?;
        }
        let places = tasks.iter().zip(0..);
        let mut taken: Vec<BatchTask> =
            places.map(|(task, at)| BatchTask::new(*task, at)).collect();
        let labels = take_up::take_up(tx, self.batch, &mut taken, again)?;
        force_links(tx, &taken, again)?;
        for (row, label) in taken.iter_mut().zip(&labels) {
            rows::tell_taken(self.batch, tx, row, label)?;
            tx.insert_batch_task(self.batch, row)?;
        }
        // What is believed from now on is read back, and need not be there twice.
        drop((taken, labels));
        self.take_in(tx)
    }

    /// Takes up a batch that exists: finds what its attempts have come to, and what is left to do. Returns the attempts
    /// whose supervisors may live.
    pub(super) fn pick_up(
        &mut self,
        tx: &mut Tx<'_>,
        stored: &Batch,
        goal: &Goal,
        base: Option<&str>,
    ) -> Result<Vec<Attempt>> {
        let batch = self.batch;
        if let Goal::Pass(Some(only)) = goal {
            self.only = Some(only.iter().copied().collect());
        }
        let mut open = self.recall(&tx.reader(), &|_| None)?;
        open.retain(|attempt| self.is_in_hand(attempt.task));
        let again = matches!(goal, Goal::Resume(_, true));
        if matches!(goal, Goal::Resume(..)) {
            tx.reopen_batch(batch, &self.settings)?;
            if let Some(base) = base {
                tx.set_batch_base(batch, base)?;
            }
        }
        let mut taken: Vec<BatchTask> = Vec::new();
        for row in tx.reader().batch_tasks(batch)? {
            // What has its outcome is taken up although an attempt of it is in hand: then it runs by that one.
            let runs = row.outcome.is_none() && self.running.contains_key(&row.task);
            if !runs && is_taken_up(&tx.reader(), &row, goal, again)? {
                taken.push(row);
            }
        }
        let again = if again { Again::Yes } else { Again::No };
        let labels = take_up::take_up(tx, batch, &mut taken, again)?;
        force_links(tx, &taken, again)?;
        for (row, label) in taken.iter_mut().zip(&labels) {
            rows::tell_taken(batch, tx, row, label)?;
            tx.store_batch_task(batch, row)?;
        }
        self.take_in(tx)?;
        // A pass settles what has ended; what lives goes on without it.
        for attempt in open.iter().filter(|_| !matches!(goal, Goal::Pass(_))) {
            tx.append(
                Event::new(cf_core::EventType::AttemptAdopted)
                    .task(attempt.task)
                    .batch(batch)
                    .attempt(attempt.id)
                    .with("format", attempt.format.map(SuccessRule::as_str))
                    .with("started_at", attempt.started_at.to_string()),
            )?;
        }
        match goal {
            Goal::Stop(stop) => self.stop_batch(tx, *stop)?,
            Goal::Pass(_) => self.schedule.close(),
            Goal::Resume(..) => {}
        }
        rows::store(self, tx)?;
        if matches!(goal, Goal::Pass(_)) {
            let all: Vec<TaskId> = self.schedule.members().collect();
            self.relook = all
                .into_iter()
                .filter(|task| self.is_in_hand(*task))
                .collect();
            if self.passes_off() {
                // Switched off is what the batch does by itself, not what a person asks for.
                self.settings.reconcile_interval = TICK;
            }
        }
        if stored.stop.is_some() && !matches!(goal, Goal::Resume(..)) {
            self.stop = self.stop.max(stored.stop);
        }
        Ok(open)
    }

    /// Whether a batch that is picked up for this goal needs a base for its worktrees.
    pub(super) fn needs_base(&self, goal: &Goal) -> bool {
        matches!(goal, Goal::Resume(..)) && self.settings.isolation == Isolation::Worktree
    }

    /// The tasks to look at: those that others changed, and those that are to be looked at again anyway. Without passes
    /// only the end of a claim elsewhere is waited for.
    pub(super) fn due_a_look(&mut self, news: &News) -> BTreeSet<TaskId> {
        let mut ask: BTreeSet<TaskId> = std::mem::take(&mut self.relook);
        if self.passes_off() {
            let waited: BTreeSet<TaskId> = self.schedule.waited_for().collect();
            ask.extend(news.changed.intersection(&waited));
        } else {
            ask.extend(&news.changed);
            ask.extend(self.ask_grace_over());
        }
        ask
    }

    /// How the next turn is to be committed; none when there is nothing to do in it.
    pub(super) fn due(
        &mut self,
        pending: &[Judged],
        news: &News,
        merged: &[Merged],
    ) -> Option<Durability> {
        let nothing_starts = !self.can_start();
        let nothing_ends = pending.is_empty() && (self.unverified.is_empty() || self.holds_off());
        let settled = self.schedule.is_settled();
        if nothing_ends && nothing_starts && settled && merged.is_empty() && news.is_empty() {
            return None;
        }
        Some(self.durability(nothing_ends, news, merged))
    }

    /// Nothing of a turn happened, and no effect of it may.
    pub(super) fn forget_turn(&mut self, (at_gate, unverified): (Vec<AtGate>, Vec<Judged>)) {
        self.at_gate = at_gate;
        self.unverified = unverified;
        if !fault::is_broken("claim.uncommitted") {
            self.launches.clear();
        }
        self.keeps.clear();
        self.tidies.clear();
        self.stops.clear();
        self.released.clear();
        self.contexts.clear();
    }

    /// After a transaction that failed as a whole: what was believed may be wrong, so it is read again, as after a
    /// crash. `pending` are the attempts whose ends are known and not stored.
    pub(super) fn reload(&mut self, store: &Store, pending: &[Judged]) -> Result<()> {
        let own: HashMap<AttemptId, Option<u32>> = self
            .running
            .values()
            .map(|running| (running.attempt, running.jobs))
            .collect();
        let is_pending = |attempt| pending.iter().any(|judged| judged.attempt == attempt);
        let closing = self.schedule.mode() == Mode::Closing;
        let schedule = store.read(|reader| {
            let stop = reader.batch(self.batch)?.stop;
            let schedule = take_up::schedule(reader, self.batch, &self.settings)?;
            self.recall(reader, &|attempt| match own.get(&attempt) {
                Some(jobs) => *jobs,
                // Its end is known and not stored, so it was settled in the lost transaction, under our own supervisor.
                None if is_pending(attempt) => Some(1),
                None => None,
            })?;
            self.stop = self.stop.max(stop);
            Ok(schedule)
        })?;
        self.schedule = schedule;
        if closing {
            self.schedule.close();
        }
        self.schedule.settle_all(now());
        self.relook = self.schedule.members().collect();
        self.must_reload = false;
        Ok(())
    }

    /// Whether nothing is being stopped any more of what a pass by hand is about.
    pub(super) fn nothing_is_stopping(&self) -> bool {
        if self.only.is_some() {
            let stops = |running: &super::turn::Running| running.stop.is_some();
            return !self
                .running
                .values()
                .any(|running| stops(running) && self.is_in_hand(running.task));
        }
        self.schedule.count(cf_core::Phase::Stopping) == 0
    }
}

/// A batch that is forced runs its tasks in spite of what their links say by now.
fn force_links(tx: &mut Tx<'_>, taken: &[BatchTask], again: Again) -> Result<()> {
    if again == Again::Yes {
        for row in taken {
            tx.force_links(row.task)?;
        }
    }
    Ok(())
}

/// Whether a task of a batch that is resumed is taken up again.
pub(super) fn is_taken_up(
    reader: &Reader<'_>,
    row: &BatchTask,
    goal: &Goal,
    again: bool,
) -> Result<bool> {
    if !matches!(goal, Goal::Resume(..)) {
        return Ok(false);
    }
    if again {
        return Ok(true);
    }
    resume_takes_up(row, || {
        let standing = reader.standing(row.task)?;
        Ok(standing.as_ref().map(take_up::stored))
    })
}
