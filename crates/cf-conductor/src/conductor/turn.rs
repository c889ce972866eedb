//! One turn of the loop: everything that is decided and stored together.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use cf_core::{Actor, AttemptId, BatchId, Phase, TaskId, TaskStatus, Timestamp};
use cf_reconcile::{
    AfterStop, AskGrace, Believed, LiveClaim, Reason, ReconciliationResult, StopCause, Stored,
};

use super::gate::Awaiting;
use super::launch::Launch;
use super::session::Session;
use super::settle::Judged;
use super::trees::{Keep, Tidy, Tree};
use super::{rows, session, take_up};
use crate::engine::SuccessRule;
use crate::process::Identity;
use crate::schedule::{Gate, Member, Mode, Schedule};
use crate::settings::{Settings, WaitForBlockers};
use crate::source::Asked;
use crate::store::attempt::{AttemptResult, NewAttempt};
use crate::store::batch::{Claim, Stop};
use crate::store::event::{Event, EventFilter};
use crate::store::follow::StoredComment;
use crate::store::{Result, Store, Tx};
use crate::supervise::Stage;

/// Why an agent is being stopped.
#[derive(Clone, Debug)]
pub(super) enum Why {
    /// A source found something.
    Finding {
        /// What follows the verified end.
        after: AfterStop,
        /// The finding.
        finding: Box<ReconciliationResult>,
    },
    /// The batch was stopped.
    Batch,
    /// A person stopped this task alone.
    ByHand,
}

/// An agent that is being stopped.
#[derive(Clone, Debug)]
pub(super) struct StopIntent {
    /// Why.
    pub why: Why,
    /// The task's version when the intent was stored.
    pub version: u64,
}

/// A supervisor that waits at its gate, acquired and not given a job.
#[derive(Clone, Debug)]
pub(super) struct AtGate {
    /// Who it is.
    pub identity: Identity,
    /// How many jobs it had since it was acquired.
    pub jobs: u32,
}

/// After how many jobs in a row a supervisor is given back, so that its file does not grow without bound.
pub(super) const JOBS_IN_A_ROW: u32 = 500;

/// An attempt that this conductor looks after.
#[derive(Clone, Debug)]
pub(super) struct Running {
    /// The attempt.
    pub attempt: AttemptId,
    /// Its number among the attempts of its task.
    pub generation: u32,
    /// Its task.
    pub task: TaskId,
    /// Which process of it runs.
    pub stage: Stage,
    /// The supervisor that has it.
    pub identity: Identity,
    /// The task's version after the claim: a result is applied only to this one.
    pub version: u64,
    /// How its engine tells success.
    pub rule: SuccessRule,
    /// The session of earlier attempts that it goes on with.
    pub session: Option<Session>,
    /// The task's verification.
    pub verify: Option<String>,
    /// Why it is being stopped, if it is.
    pub stop: Option<StopIntent>,
    /// On the loop's clock, when the agent was first seen to have asked a question.
    pub asked_at: Option<Duration>,
    /// What is known of its agent, while its verification runs.
    pub agent_result: Option<AttemptResult>,
    /// How many jobs its supervisor had; none when it was left by a dead conductor and takes no further one.
    pub jobs: Option<u32>,
    /// Its own worktree, if it has one.
    pub tree: Option<Tree>,
}

/// What the loop read since the last turn.
#[derive(Clone, Debug, Default)]
pub(super) struct News {
    /// Tasks that somebody else changed.
    pub changed: BTreeSet<TaskId>,
    /// Those of them that are linked now, or may be.
    pub linked: BTreeSet<TaskId>,
    /// Tasks whose agent a person stopped by hand, each with the attempt that was meant.
    pub stopped_by_hand: Vec<(TaskId, Option<AttemptId>)>,
    /// Tasks whose dependencies changed.
    pub edges: BTreeSet<TaskId>,
    /// Tasks that were added to the batch, each with the event that says so.
    pub joined: Vec<Event>,
    /// A stop of the whole batch.
    pub stop: Option<Stop>,
}

impl News {
    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.changed.is_empty()
            && self.stopped_by_hand.is_empty()
            && self.edges.is_empty()
            && self.joined.is_empty()
            && self.stop.is_none()
    }

    /// Adds what was read before it.
    pub(super) fn after(&mut self, before: Self) {
        self.changed.extend(before.changed);
        self.linked.extend(before.linked);
        self.stopped_by_hand.splice(0..0, before.stopped_by_hand);
        self.edges.extend(before.edges);
        self.joined.splice(0..0, before.joined);
        self.stop = self.stop.max(before.stop);
    }
}

/// How long after the last change from outside a batch with held tasks stays open: whoever changes several things one
/// after the other is not met by a batch that ended in the middle.
const SETTLING: Duration = Duration::from_secs(1);

/// Everything that a batch's owner knows. The store and the executor stand beside it.
#[derive(Debug)]
pub(super) struct Core {
    pub batch: BatchId,
    pub settings: Settings,
    pub schedule: Schedule,
    pub running: HashMap<TaskId, Running>,
    pub by_attempt: HashMap<AttemptId, TaskId>,
    /// Supervisors that wait at their gates.
    pub at_gate: Vec<AtGate>,
    /// Ids for the next attempts, of which something has been made already.
    pub fresh: Vec<AttemptId>,
    /// The newest event that was looked at.
    pub seen_seq: u64,
    /// Whether what is believed was read from the store since the last turn.
    pub recalled: bool,
    /// Whether a transaction failed since what is believed was read: it is read again before anything is decided.
    pub must_reload: bool,
    /// Whether nothing but this batch's own events was appended when its transaction began.
    pub nobody_else: bool,
    /// Tasks to look at again in the next turn, whatever the store says.
    pub relook: BTreeSet<TaskId>,
    /// Why what does not get its turn is cancelled.
    pub cut: Reason,
    /// Whether a signal stopped the batch.
    pub signalled: bool,
    /// Whether a stop was stored.
    pub stop: Option<Stop>,
    /// Attempts to be told to stop when the transaction has committed, each with its grace.
    pub stops: Vec<(AttemptId, Stage, Duration)>,
    /// Supervisors to be given back when the transaction has committed.
    pub released: Vec<cf_core::SupervisorId>,
    /// Agents to be started when the transaction has committed.
    pub launches: Vec<Launch>,
    /// Ended attempts whose work is to be kept, when the transaction has committed, before they are settled.
    pub keeps: Vec<Keep>,
    /// Worktrees to be removed when the transaction has committed.
    pub tidies: Vec<Tidy>,
    /// Successful agents whose verification waits for a supervisor.
    pub unverified: Vec<Judged>,
    /// How each engine tells success.
    pub rules: HashMap<String, SuccessRule>,
    /// The engines that can go on with an earlier session.
    pub resumable: HashSet<String>,
    /// Unclean attempts whose survivors are watched.
    pub unclean: BTreeSet<AttemptId>,
    /// The time at which that clock began.
    pub began: Timestamp,
    /// The loop's clock, which does not run while this process is suspended.
    pub clock: Duration,
    /// Members with links to a tracker that is followed.
    pub linked: HashSet<TaskId>,
    /// On that clock, when the links of a task were last looked at for its start.
    pub looked: HashMap<TaskId, Duration>,
    /// Queued tasks that wait for a look, by their turn.
    pub awaiting: Vec<Awaiting>,
    /// Comments to be given to agents that run, when the transaction has committed.
    pub contexts: Vec<(AttemptId, Vec<StoredComment>)>,
    /// On that clock, until when nothing is started.
    pub hold_off: Option<Duration>,
    /// On that clock, when a source was last acted upon.
    pub disturbed_at: Option<Duration>,
    /// On that clock, since when nothing is left but what is held.
    pub idle_since: Option<Duration>,
    /// The tasks that a pass by hand is about; none means all. Attempts of other tasks are known and not looked after.
    pub only: Option<BTreeSet<TaskId>>,
    /// How the next random fraction is drawn; for the jitter of retries.
    pub jitter: u64,
}

impl Core {
    /// What is known of a batch before anything of it was read.
    pub(super) fn new(
        batch: BatchId,
        settings: Settings,
        rules: HashMap<String, SuccessRule>,
    ) -> Self {
        Self {
            schedule: Schedule::new(settings.slots(), Vec::new(), Vec::new(), []),
            batch,
            settings,
            running: HashMap::new(),
            by_attempt: HashMap::new(),
            at_gate: Vec::new(),
            fresh: Vec::new(),
            seen_seq: 0,
            nobody_else: false,
            recalled: false,
            must_reload: false,
            relook: BTreeSet::new(),
            cut: Reason::Stopped,
            signalled: false,
            stop: None,
            stops: Vec::new(),
            released: Vec::new(),
            launches: Vec::new(),
            keeps: Vec::new(),
            tidies: Vec::new(),
            unverified: Vec::new(),
            rules,
            resumable: HashSet::new(),
            unclean: BTreeSet::new(),
            began: crate::store::now(),
            clock: Duration::ZERO,
            linked: HashSet::new(),
            looked: HashMap::new(),
            awaiting: Vec::new(),
            contexts: Vec::new(),
            hold_off: None,
            disturbed_at: None,
            idle_since: None,
            only: None,
            // Any number but zero will do; the batch's own id spreads the retries of different batches.
            jitter: batch.0.as_u64_pair().1 | 1,
        }
    }

    /// Takes in what a take-up made of the batch's tasks, which is stored: builds the schedule.
    pub(super) fn take_in(&mut self, tx: &mut Tx<'_>) -> Result<()> {
        self.schedule = take_up::schedule(&tx.reader(), self.batch, &self.settings)?;
        self.schedule.settle_all(tx.now());
        let left: Vec<TaskId> = self
            .schedule
            .members()
            .filter(|task| {
                self.schedule
                    .row(*task)
                    .is_some_and(|row| row.phase == Phase::Running)
            })
            .filter(|task| !self.running.contains_key(task))
            .collect();
        for task in left {
            // Another batch has settled its attempt while nobody conducted this one.
            self.decide_as_if_queued(tx, task, None)?;
        }
        self.run_what_is_in_hand(tx)?;
        rows::store(self, tx)?;
        self.seen_seq = tx.reader().last_seq()?;
        // What runs already was not taken up: whatever was written about it since its claim is news.
        self.relook.extend(self.running.keys());
        Ok(())
    }

    /// Whether an attempt of this batch is what its task runs by here. It is not where that has its outcome already, or
    /// is none of the batch's own: then it is an attempt that was taken over from a batch that is gone.
    pub(super) fn runs(&self, task: TaskId) -> bool {
        let row = self.schedule.row(task);
        let runs = row.is_some_and(|row| matches!(row.phase, Phase::Running | Phase::Stopping));
        runs && self.running.contains_key(&task)
    }

    /// Has a task run that has no outcome here while an attempt of it is in this batch's hands: it is taken over just
    /// now, or was, and its task came back into the queue since. Nothing else may start of it.
    pub(super) fn run_what_is_in_hand(&mut self, tx: &mut Tx<'_>) -> Result<()> {
        if self.waits_in_hand().is_empty() {
            return Ok(());
        }
        // What brought them here is told before they start, and that before they are stopped.
        rows::store(self, tx)?;
        for task in self.waits_in_hand() {
            self.schedule.started(task, tx.now());
        }
        rows::store(self, tx)
    }

    fn waits_in_hand(&self) -> Vec<TaskId> {
        let row = |task: &TaskId| self.schedule.row(*task);
        let waits =
            |task: &TaskId| row(task).is_some_and(|row| row.outcome.is_none()) && !self.runs(*task);
        let mut waiting: Vec<TaskId> = self.running.keys().copied().filter(waits).collect();
        waiting.sort();
        waiting
    }

    /// Whether a task may start now, and has a supervisor at its gate.
    pub(super) fn can_start(&mut self) -> bool {
        let now = self.time();
        !self.holds_off() && !self.at_gate.is_empty() && self.schedule.next(now).is_some()
    }

    /// Whether nothing is started for a moment, because the last start did not come about.
    pub(super) fn holds_off(&self) -> bool {
        self.hold_off.is_some_and(|until| self.clock < until)
    }

    /// The time by the loop's clock: retries are due by it, so that neither a clock that is set nor a suspend moves
    /// them.
    pub(super) fn time(&self) -> Timestamp {
        self.began.checked_add(self.clock).unwrap_or(self.began)
    }

    /// The batch as an actor.
    pub(super) const fn actor(&self) -> Actor {
        Actor::Batch(self.batch)
    }

    /// Whether passes are switched off.
    pub(super) const fn passes_off(&self) -> bool {
        self.settings.reconcile_interval.is_zero()
    }

    /// How many supervisors the next turn can use.
    pub(super) fn wanted_at_gate(&self) -> usize {
        let unverified = self.unverified.len();
        if self.schedule.mode() == Mode::Closing {
            return unverified;
        }
        let free = self.schedule.slots().saturating_sub(self.schedule.busy());
        unverified
            + free.min(
                self.schedule.upcoming(free).count()
                    + self.awaiting.len()
                    + usize::from(self.schedule.next_due().is_some()),
            )
    }

    /// Reads what others changed since the last look.
    pub(super) fn look(&mut self, store: &Store) -> Result<News> {
        let own = self.actor();
        let mut news = News::default();
        let mut last = self.seen_seq;
        store.read(|reader| {
            reader.events(
                &EventFilter {
                    after: self.seen_seq,
                    ..EventFilter::default()
                },
                |event| {
                    last = event.seq;
                    if event.actor != own {
                        self.take_news(&event, &mut news);
                    }
                    Ok(())
                },
            )
        })?;
        self.seen_seq = last;
        Ok(news)
    }

    fn take_news(&self, event: &Event, news: &mut News) {
        use cf_core::EventType as E;
        // What a newer program has written about, this one cannot act on.
        let Some(kind) = event.kind.known() else {
            return;
        };
        if kind == E::BatchStopRequested && event.batch == Some(self.batch) {
            let force = event.data.get("force").and_then(serde_json::Value::as_bool) == Some(true);
            news.stop = news
                .stop
                .max(Some(if force { Stop::Force } else { Stop::Drain }));
        }
        if kind == E::BatchTaskQueued && event.batch == Some(self.batch) && event.task.is_some() {
            news.joined.push(event.clone());
        }
        let Some(task) = event.task.filter(|task| self.schedule.knows(*task)) else {
            return;
        };
        match kind {
            E::TaskStopRequested if event.batch.is_none_or(|batch| batch == self.batch) => {
                news.stopped_by_hand.push((task, event.attempt));
            }
            E::TaskDependencyChanged => {
                news.edges.insert(task);
            }
            E::TaskLinked => {
                news.linked.insert(task);
                news.changed.insert(task);
            }
            _ => {
                news.changed.insert(task);
            }
        }
    }

    /// Takes in the tasks that were added to the batch: their rows are stored, so this only makes them known. Returns
    /// the events of those that were not. What is believed must be read again when one of them was known otherwise.
    pub(super) fn take_joined(
        &mut self,
        reader: &crate::store::Reader<'_>,
        news: &mut News,
    ) -> Result<Vec<Event>> {
        // All are read before any is taken in: what cannot be read now stays news.
        let mut members = Vec::new();
        for task in news.joined.iter().filter_map(|event| event.task) {
            members.push(take_up::member(reader, self.batch, task)?);
        }
        let mut new = Vec::new();
        for (event, member) in std::mem::take(&mut news.joined).into_iter().zip(members) {
            let is_new = |member: &Member| self.schedule.row(member.row.task).is_none();
            let Some(member) = member.filter(is_new) else {
                continue;
            };
            news.edges.insert(member.row.task);
            news.changed.insert(member.row.task);
            news.linked.insert(member.row.task);
            if self.schedule.knows(member.row.task) {
                // So far it was a dependency from outside.
                self.must_reload = true;
            } else {
                self.schedule.add_member(member);
            }
            new.push(event);
        }
        Ok(new)
    }

    /// What the sources are to be asked about these tasks.
    pub(super) fn asked(&self, tasks: impl IntoIterator<Item = TaskId>) -> Vec<Asked> {
        tasks
            .into_iter()
            .filter_map(|task| self.asked_about(task))
            .collect()
    }

    fn asked_about(&self, task: TaskId) -> Option<Asked> {
        let row = self.schedule.row(task)?;
        let running = self.running.get(&task);
        Some(Asked {
            task,
            batch: self.batch,
            believed: Believed::from_row(row.phase, row.outcome)?,
            take_up_seq: row.take_up_seq,
            since_seq: row.since_seq,
            attempt: running.map(|running| running.attempt),
            ask_grace: match running.and_then(|running| running.asked_at) {
                Some(at) if self.clock.saturating_sub(at) >= self.settings.ask_grace => {
                    AskGrace::Over
                }
                _ => AskGrace::Running,
            },
        })
    }

    /// The tasks whose agents asked something, and whose time to end may be over by now.
    pub(super) fn ask_grace_over(&self) -> Vec<TaskId> {
        self.running
            .values()
            .filter(|running| running.stop.is_none())
            .filter(|running| {
                running
                    .asked_at
                    .is_some_and(|at| self.clock.saturating_sub(at) >= self.settings.ask_grace)
            })
            .map(|running| running.task)
            .collect()
    }

    /// Decides and stores everything that is due. `judged` are attempts that ended, `merged` what the sources found.
    pub(super) fn turn(
        &mut self,
        tx: &mut Tx<'_>,
        news: &News,
        judged: &[Judged],
        merged: Vec<cf_reconcile::Merged>,
    ) -> Result<()> {
        // Nobody else has written since the last look: then what this transaction appends needs no look either.
        self.nobody_else = tx.reader().last_seq()? == self.seen_seq;
        let mut news = news.clone();
        if std::mem::take(&mut self.recalled) {
            self.stop_again(tx, &mut news)?;
        }
        self.take_edges(tx, &news.edges)?;
        let unverified = if self.holds_off() {
            Vec::new()
        } else {
            std::mem::take(&mut self.unverified)
        };
        for ended in unverified.iter().chain(judged) {
            self.settle(tx, ended)?;
        }
        for (task, meant) in &news.stopped_by_hand {
            self.stop_by_hand(tx, *task, *meant)?;
        }
        for task in &news.changed {
            self.saw_elsewhere(tx, *task)?;
        }
        for found in merged {
            let task = found.winner.task_id;
            if news.stopped_by_hand.iter().any(|(of, _)| *of == task) {
                // What was found was found before the stop was heard.
                self.relook.insert(task);
                continue;
            }
            self.apply(tx, found)?;
        }
        self.run_what_is_in_hand(tx)?;
        if let Some(stop) = news.stop {
            self.stop_batch(tx, stop)?;
        }
        self.schedule.settle(tx.now());
        self.stop_on_failure();
        self.run_what_is_in_hand(tx)?;
        self.dispatch(tx)?;
        rows::store(self, tx)
    }

    /// Tells agents again to end, whose stop was stored by a conductor, or a belief, that is gone: it may not have come
    /// to the signal. What a source found is found again.
    fn stop_again(&mut self, tx: &mut Tx<'_>, news: &mut News) -> Result<()> {
        let live: Vec<(TaskId, AttemptId)> = self
            .running
            .values()
            .map(|running| (running.task, running.attempt))
            .filter(|(task, _)| self.is_in_hand(*task))
            .collect();
        for (task, attempt) in live {
            if let Some(row) = self
                .schedule
                .row(task)
                .filter(|row| row.phase == Phase::Running)
            {
                // It may be stored as one that is being stopped, which it is not until that is found again.
                tx.store_batch_task(self.batch, row)?;
            }
            if tx.reader().stop_was_requested(task, attempt)? {
                news.stopped_by_hand.push((task, Some(attempt)));
            }
        }
        if self.only.is_none() {
            news.stop = news.stop.max(self.stop);
        }
        Ok(())
    }

    /// Whether a pass by hand, if this is one, is about this task.
    pub(super) fn is_in_hand(&self, task: TaskId) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(&task))
    }

    /// Takes the dependencies of tasks as they are now. Of a deleted task the store keeps no edges, the batch does.
    fn take_edges(&mut self, tx: &mut Tx<'_>, tasks: &BTreeSet<TaskId>) -> Result<()> {
        let reader = tx.reader();
        let rows = tasks.iter().filter_map(|task| self.schedule.row(*task));
        let taken_up: std::collections::BTreeMap<TaskId, u64> =
            rows.map(|row| (row.task, row.take_up_seq)).collect();
        let Some(first) = taken_up.values().min() else {
            return Ok(());
        };
        let deletions = reader.deletions_after(*first)?;
        for (task, since) in taken_up {
            let mut on = reader.depends_on(task)?;
            let saw = deletions
                .iter()
                .filter(|(seq, _, dependents)| *seq > since && dependents.contains(&task));
            on.extend(saw.map(|(_, deleted, _)| *deleted));
            for on in &on {
                if !self.schedule.knows(*on)
                    && let Some(outsider) = take_up::outsider(&reader, *on)?
                {
                    self.schedule.add_outsider(outsider);
                }
            }
            self.schedule.set_dependencies(task, &on, tx.now());
        }
        Ok(())
    }

    /// Looks whether a claim elsewhere is still what keeps a task from starting. It is waited for also where no source
    /// is asked.
    pub(super) fn claim_ended(
        &mut self,
        reader: &crate::store::Reader<'_>,
        task: TaskId,
    ) -> Result<()> {
        let Some(standing) = reader.standing(task)? else {
            return Ok(());
        };
        if !self.runs(task) {
            let claim = take_up::claim(reader, &standing)?;
            self.schedule.saw(task, take_up::stored(&standing), claim);
        }
        // Also where no source is asked, what is more urgent now comes first.
        self.schedule.set_priority(task, standing.priority);
        if self.schedule.gate(task) == Gate::ClaimedElsewhere {
            self.schedule
                .set_gate(task, take_up::gate(reader, self.batch, &standing)?);
        }
        Ok(())
    }

    fn saw_elsewhere(&mut self, tx: &mut Tx<'_>, task: TaskId) -> Result<()> {
        let reader = tx.reader();
        if self.schedule.row(task).is_some() {
            self.claim_ended(&reader, task)?;
            return Ok(());
        }
        if let Some(standing) = reader.standing(task)? {
            let claim = take_up::claim(&reader, &standing)?;
            self.schedule.saw(task, take_up::stored(&standing), claim);
        }
        Ok(())
    }

    /// Starts nothing new from now on; with a force, tells what runs to end.
    pub(super) fn stop_batch(&mut self, tx: &mut Tx<'_>, stop: Stop) -> Result<()> {
        self.stop = self.stop.max(Some(stop));
        self.cut = Reason::Stopped;
        self.schedule.close();
        if stop == Stop::Force {
            let live: Vec<TaskId> = self
                .running
                .values()
                .filter(|running| running.stop.is_none())
                .map(|running| running.task)
                .collect();
            for task in live {
                self.begin_stop(tx, task, Why::Batch, &Reason::Stopped, None)?;
            }
        }
        Ok(())
    }

    fn stop_on_failure(&mut self) {
        if !self.settings.stops_on_failure() || self.schedule.mode() == Mode::Closing {
            return;
        }
        if let Some(key) = self.schedule.first_bad() {
            self.cut = Reason::StoppedAfter { key };
            self.schedule.close();
        }
    }

    /// Stores that an agent is to be stopped; the signal follows the commit.
    pub(super) fn begin_stop(
        &mut self,
        tx: &mut Tx<'_>,
        task: TaskId,
        why: Why,
        reason: &Reason,
        finding: Option<ReconciliationResult>,
    ) -> Result<()> {
        let version = tx
            .reader()
            .standing(task)?
            .map_or(0, |standing| standing.version);
        let runs = self.runs(task);
        let Some(running) = self.running.get_mut(&task) else {
            return Ok(());
        };
        self.stops
            .push((running.attempt, running.stage, self.settings.kill_grace));
        // An attempt that was taken over for a task that has its outcome here is stopped, and the outcome stands.
        if runs {
            running.stop = Some(StopIntent { why, version });
            self.schedule.stopping(task, reason, finding);
        }
        Ok(())
    }

    /// A person stopped this attempt of a task, and does not want the task again in this batch. An attempt that was
    /// followed by another is not meant any more.
    fn stop_by_hand(
        &mut self,
        tx: &mut Tx<'_>,
        task: TaskId,
        meant: Option<AttemptId>,
    ) -> Result<()> {
        let Some(phase) = self.schedule.row(task).map(|row| row.phase) else {
            return Ok(());
        };
        let Some(standing) = tx.reader().standing(task)? else {
            return Ok(());
        };
        if meant.is_some() && meant != standing.attempt {
            return Ok(());
        }
        match phase {
            Phase::Running => self.begin_stop(tx, task, Why::ByHand, &Reason::StoppedByHand, None),
            Phase::Waiting | Phase::Queued | Phase::Held => self.stopped_by_hand(tx, task),
            Phase::Stopping => {
                // Whatever it is stopped for, a person does not want it again in this batch.
                if let Some(running) = self.running.get_mut(&task) {
                    running.stop = Some(StopIntent {
                        why: Why::ByHand,
                        version: standing.version,
                    });
                }
                Ok(())
            }
            Phase::Finished if self.running.contains_key(&task) => {
                // Its outcome stands, and what the stop has made of the task reopens nothing.
                self.schedule.stored_under(task, standing.status_seq);
                match self.schedule.row(task) {
                    Some(row) => tx.store_batch_task(self.batch, row),
                    None => Ok(()),
                }
            }
            Phase::Finished => Ok(()),
        }
    }

    /// Claims tasks for the free slots that have a supervisor at its gate.
    fn dispatch(&mut self, tx: &mut Tx<'_>) -> Result<()> {
        if self.holds_off() {
            return Ok(());
        }
        while let Some(task) = self.schedule.next(self.time()) {
            if self.needs_look(task) {
                self.await_look(task);
                continue;
            }
            let Some(AtGate { identity, jobs }) = self.at_gate.pop() else {
                return Ok(());
            };
            if self.schedule.has_a_story(task) {
                // What brought it here is told before it starts.
                rows::store(self, tx)?;
            }
            let row = tx.reader().task(task)?;
            let engine = self.engine_name(&row);
            let rule = self.rules.get(&engine).copied();
            let rule = rule.unwrap_or(SuccessRule::ExitZero);
            let session = if row.generation > 0 && self.resumable.contains(&engine) {
                session::of_next(&tx.reader(), task, &engine)?
            } else {
                None
            };
            let id = self.fresh.pop();
            let new = NewAttempt {
                id: id.unwrap_or_else(|| AttemptId(crate::ambient::fresh_id())),
                task,
                batch: self.batch,
                engine,
                format: rule,
                resumes: session.as_ref().map(|session| session.id.clone()),
                supervisor: identity.clone(),
            };
            match tx.claim(&new, &row)? {
                Claim::Got {
                    generation,
                    version,
                } => {
                    self.schedule.saw(
                        task,
                        Stored::Status(TaskStatus::InProgress),
                        LiveClaim::None,
                    );
                    self.schedule.started(task, tx.now());
                    self.looked.remove(&task);
                    let tree = Tree::of(&self.settings, &row, new.id);
                    if let Some(tree) = &tree {
                        tx.insert_worktree(new.id, task, &tree.name, &tree.branch)?;
                    }
                    self.by_attempt.insert(new.id, task);
                    self.running.insert(
                        task,
                        Running {
                            attempt: new.id,
                            generation,
                            task,
                            stage: Stage::Agent,
                            identity: identity.clone(),
                            version,
                            rule,
                            session: session.clone(),
                            verify: row.verify.clone(),
                            stop: None,
                            asked_at: None,
                            agent_result: None,
                            jobs: Some(jobs + 1),
                            tree: tree.clone(),
                        },
                    );
                    self.launches.push(Launch::agent(
                        row, new.id, generation, identity, tree, session,
                    ));
                }
                Claim::Lost => {
                    self.at_gate.push(AtGate { identity, jobs });
                    self.fresh.extend(id);
                    self.lost_claim(tx, task)?;
                }
            }
        }
        Ok(())
    }

    /// A task that was about to start is not as it was believed to be: it is decided by the table alone.
    fn lost_claim(&mut self, tx: &mut Tx<'_>, task: TaskId) -> Result<()> {
        let reader = tx.reader();
        let gate = match reader.standing(task)? {
            Some(standing) => take_up::gate(&reader, self.batch, &standing)?,
            None => Gate::Open,
        };
        if gate == Gate::Open {
            self.decide_as_if_queued(tx, task, None)
        } else {
            self.schedule.set_gate(task, gate);
            Ok(())
        }
    }

    /// When, at the latest, the loop has to do something without being woken: a retry is due, and there is a slot for
    /// it.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let open =
            self.schedule.mode() == Mode::Open && self.schedule.busy() < self.schedule.slots();
        self.schedule.next_due().filter(|_| open)
    }

    /// Whether the batch is over: nothing runs, nothing can start, and nobody is waited for.
    pub(super) fn is_over(&mut self) -> bool {
        // An attempt that was taken over from a dead batch may be of a task that has its outcome here already.
        if !self.schedule.is_idle() || !self.running.is_empty() {
            self.idle_since = None;
            return false;
        }
        if self.schedule.mode() == Mode::Closing
            || (self.schedule.count(Phase::Held) == 0
                && !self.schedule.has_work_in_progress_by_hand())
        {
            return true;
        }
        if self
            .disturbed_at
            .is_some_and(|at| self.clock.saturating_sub(at) < SETTLING)
        {
            return false;
        }
        let since = *self.idle_since.get_or_insert(self.clock);
        match self.settings.wait_for_blockers {
            WaitForBlockers::Off => true,
            WaitForBlockers::Always => false,
            WaitForBlockers::For(limit) => self.clock.saturating_sub(since) >= limit,
        }
    }

    /// What stopped the batch.
    pub(super) const fn stop_cause(&self) -> StopCause {
        match (self.signalled, self.stop) {
            (true, _) => StopCause::Signal,
            (false, Some(_)) => StopCause::Stored,
            (false, None) => StopCause::None,
        }
    }

    fn engine_name(&self, task: &crate::store::task::Task) -> String {
        match (&task.run, &task.engine, &self.settings.engine) {
            (Some(_), _, _) => "shell".to_owned(),
            (None, Some(name), _) | (None, None, Some(name)) => name.clone(),
            (None, None, None) => String::new(),
        }
    }
}
