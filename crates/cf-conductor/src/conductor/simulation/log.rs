//! The event log, read along with the simulation: every change has its event, and every event may follow the one
//! before it.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use cf_core::{
    Actor, AttemptEnd, AttemptId, BatchId, EventType, Outcome, Phase, TaskId, TaskStatus,
};

use crate::store::event::Event;

/// A task as the event log tells it.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub status: TaskStatus,
    pub version: u64,
    pub by: Actor,
    seq: u64,
    pub deleted: bool,
    /// A success of this batch that nobody has disputed: its next write is DONE.
    succeeded: Option<BatchId>,
}

/// A task in a batch, as the event log tells it.
#[derive(Clone, Debug, Default)]
pub(super) struct Life {
    pub outcome: Option<Outcome>,
    running: bool,
    /// The batch was resumed since: it may live again. With `true` also after a success.
    again: Option<bool>,
    starts: u32,
    pub held: bool,
    /// Its agent was told to end: a success that comes after that is late.
    stopping: bool,
}

/// Reads the event log along with the simulation.
#[derive(Default)]
pub(super) struct Checker {
    pub seen: u64,
    pub tasks: HashMap<TaskId, Told>,
    pub lives: BTreeMap<(BatchId, TaskId), Life>,
    /// Attempts that asked, reported FAILED, or were told to stop by hand.
    no_success: BTreeSet<AttemptId>,
    ended: BTreeSet<AttemptId>,
    /// Tasks with a verification, without which there is no success.
    pub to_verify: BTreeSet<TaskId>,
    /// Attempts whose verification was begun.
    verifying: BTreeSet<AttemptId>,
    /// Attempts that another batch began: what is left of them to do is done beside the slots.
    pub taken_over: BTreeSet<AttemptId>,
    /// Batches whose take-up is being read: the events of one transaction.
    taking_up: Option<BatchId>,
    /// Resumes whose event was not read yet, with their `--force`.
    resumes: HashMap<BatchId, VecDeque<bool>>,
    /// Since when what is written is news to a batch.
    taken_up_at: HashMap<BatchId, u64>,
}

impl Checker {
    /// The batch is resumed; its event is still to be read.
    pub(super) fn resumed(&mut self, batch: BatchId, force: bool) {
        self.resumes.entry(batch).or_default().push_back(force);
    }

    fn life(&mut self, event: &Event) -> &mut Life {
        let key = (
            event.batch.expect("it is of a batch"),
            event.task.expect("it is of a task"),
        );
        self.lives.entry(key).or_default()
    }

    pub(super) fn read(&mut self, event: &Event) {
        use EventType as E;
        if !matches!(event.actor, Actor::Batch(batch) if Some(batch) == self.taking_up) {
            self.taking_up = None;
        }
        match event.kind.known().expect("this program wrote it") {
            E::BatchStarted | E::BatchResumed => {
                self.taking_up = event.batch;
                if event.kind == E::BatchResumed
                    && let Some(force) = event
                        .batch
                        .and_then(|batch| self.resumes.get_mut(&batch)?.pop_front())
                {
                    let lives = self
                        .lives
                        .iter_mut()
                        .filter(|((of, _), _)| Some(*of) == event.batch);
                    lives.for_each(|(_, life)| life.again = Some(force));
                }
                self.taken_up_at
                    .insert(event.batch.expect("a batch"), event.seq);
            }
            E::TaskCreated => {
                let told = Told {
                    status: TaskStatus::Ready,
                    version: 1,
                    by: event.actor.clone(),
                    seq: event.seq,
                    deleted: false,
                    succeeded: None,
                };
                self.tasks.insert(event.task.expect("a task"), told);
            }
            E::TaskDeleted => {
                let told = self
                    .tasks
                    .get_mut(&event.task.expect("a task"))
                    .expect("it was created");
                told.deleted = true;
                told.version += 1;
                told.by = event.actor.clone();
                told.succeeded = None;
            }
            E::TaskStatusChanged => self.status_changed(event),
            E::AttemptVerifying => self.verifying.extend(event.attempt),
            E::BlockerAsked => self.no_success.extend(event.attempt),
            E::TaskStopRequested => self.no_success.extend(event.attempt),
            E::AttemptReported if event.data["status"] == "FAILED" => {
                self.no_success.extend(event.attempt);
            }
            E::AttemptEnded => self.attempt_ended(event),
            E::AttemptAdopted if event.data.contains("from") => {
                let from = event.data["from"]
                    .as_str()
                    .and_then(|id| id.parse().ok())
                    .expect("a batch");
                self.lives
                    .entry((from, event.task.expect("a task")))
                    .or_default()
                    .running = false;
                self.taken_over.extend(event.attempt);
            }
            _ if event.kind.as_str().starts_with("BATCH_TASK_") => self.lived(event),
            _ => {}
        }
    }

    fn status_changed(&mut self, event: &Event) {
        let task = event.task.expect("a task");
        let told = self.tasks.get_mut(&task).expect("it was created");
        let word = |name: &str| {
            event.data[name]
                .as_str()
                .and_then(|word| word.parse::<TaskStatus>().ok())
                .expect("a status")
        };
        let (from, to) = (word("from"), word("to"));
        assert!(!told.deleted, "{task} is written after it was deleted");
        assert_eq!(
            from, told.status,
            "{task}: a change begins where the last one ended"
        );
        assert_eq!(
            event.data["version"],
            told.version + 1,
            "{task}: versions have no gap"
        );
        if let Actor::Batch(batch) = event.actor {
            assert!(
                from.edges().contains(&to),
                "{task}: {from} to {to} is no edge"
            );
            let foreign = told.by != event.actor;
            // What another claim kept from being taken up with the rest is taken up when that has ended.
            let taking_up = self.taking_up == Some(batch) || told.seq <= self.taken_up_at[&batch];
            let allowed = match (from, to) {
                (TaskStatus::Ready, TaskStatus::InProgress) => true,
                // A question blocks, whoever asks it.
                (TaskStatus::InProgress, TaskStatus::Blocked)
                | (TaskStatus::Blocked, TaskStatus::Ready) => true,
                // A claim of ours ends with what became of it.
                (TaskStatus::InProgress, _) => !foreign || matches!(told.by, Actor::Batch(_)),
                // Its own word about an attempt that it took over keeps no task from its turn.
                (TaskStatus::Failed, TaskStatus::Ready) => taking_up || !foreign,
                (TaskStatus::Backlog | TaskStatus::Done, TaskStatus::Ready) => taking_up,
                _ => false,
            };
            assert!(
                allowed,
                "{task}: {} wrote {from}, and {batch} makes it {to}",
                told.by
            );
            if let Some(of) = told.succeeded.take()
                && of == batch
            {
                assert_eq!(
                    to,
                    TaskStatus::Done,
                    "{task}: an undisputed success is stored"
                );
            }
        }
        told.status = to;
        told.version += 1;
        told.seq = event.seq;
        told.by = event.actor.clone();
        told.succeeded = None;
    }

    fn attempt_ended(&mut self, event: &Event) {
        let attempt = event.attempt.expect("an attempt");
        assert!(self.ended.insert(attempt), "an attempt ends once");
        let life = self.life(event);
        let stopped = std::mem::take(&mut life.stopping);
        life.running = false;
        let told = self
            .tasks
            .get_mut(&event.task.expect("a task"))
            .expect("it was created");
        let verified = event
            .task
            .is_some_and(|task| !self.to_verify.contains(&task))
            || self.verifying.contains(&attempt);
        let good = event.data["end"] == AttemptEnd::Exited.as_str()
            && event.data["success"] == true
            && verified;
        let ours =
            matches!((&told.by, event.batch), (Actor::Batch(by), Some(batch)) if *by == batch);
        if good
            && ours
            && !stopped
            && told.status == TaskStatus::InProgress
            && !told.deleted
            && !self.no_success.contains(&attempt)
        {
            told.succeeded = event.batch;
        }
    }

    fn lived(&mut self, event: &Event) {
        use EventType as E;
        let life = self.life(event);
        let may_live = |life: &Life| match (life.outcome, life.again) {
            (None, _) | (_, Some(true)) => true,
            (Some(outcome), Some(false)) => outcome != Outcome::Completed,
            (Some(_), None) => false,
        };
        // What was reopened and goes no further than its dependencies has only its new end told.
        let reopened = matches!(life.outcome, Some(Outcome::Skipped | Outcome::Failed));
        let who = format!("{} of {:?}", event.kind.as_str(), event.task);
        match event.kind.known().expect("this program wrote it") {
            E::BatchTaskQueued => {
                assert!(may_live(life), "{who}: it has ended {:?}", life.outcome);
                *life = Life {
                    starts: life.starts,
                    ..Life::default()
                };
            }
            E::BatchTaskRequeued => {
                assert!(
                    life.outcome != Some(Outcome::Completed),
                    "{who}: it has succeeded"
                );
                *life = Life {
                    starts: life.starts,
                    ..Life::default()
                };
            }
            E::BatchTaskWaiting => {
                let skipped = life.outcome == Some(Outcome::Skipped);
                assert!(
                    may_live(life) || skipped,
                    "{who}: it has ended {:?}",
                    life.outcome
                );
                *life = Life {
                    starts: life.starts,
                    ..Life::default()
                };
            }
            E::BatchTaskStarted => {
                assert!(
                    life.outcome.is_none(),
                    "{who}: it has ended {:?}",
                    life.outcome
                );
                assert!(!life.running, "{who}: it runs already");
                life.running = true;
                life.held = false;
                life.starts += 1;
            }
            E::BatchTaskStopping => life.stopping = true,
            E::BatchTaskRetrying => life.running = false,
            E::BatchTaskBlocked if event.data["phase"] == Phase::Held.as_str() => {
                assert!(
                    may_live(life) || life.outcome == Some(Outcome::Skipped),
                    "{who}: it has ended {:?}",
                    life.outcome
                );
                *life = Life {
                    starts: life.starts,
                    held: true,
                    ..Life::default()
                };
            }
            E::BatchTaskCompleted
            | E::BatchTaskFailed
            | E::BatchTaskSkipped
            | E::BatchTaskCancelled
            | E::BatchTaskBlocked => {
                assert!(
                    may_live(life) || event.kind == E::BatchTaskSkipped && reopened,
                    "{who}: it has ended {:?} before",
                    life.outcome
                );
                let outcome = match event.kind.known().expect("this program wrote it") {
                    E::BatchTaskCompleted => Outcome::Completed,
                    E::BatchTaskFailed => Outcome::Failed,
                    E::BatchTaskSkipped => Outcome::Skipped,
                    E::BatchTaskCancelled => Outcome::Cancelled,
                    _ => Outcome::Blocked,
                };
                *life = Life {
                    outcome: Some(outcome),
                    starts: life.starts,
                    ..Life::default()
                };
            }
            _ => {}
        }
    }
}
