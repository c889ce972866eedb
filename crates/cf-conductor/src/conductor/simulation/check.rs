//! What must hold after every step, whatever happened.

use std::collections::{BTreeMap, BTreeSet};

use cf_core::{AttemptEnd, AttemptId, BatchId, Outcome, Phase, TaskId, TaskStatus};
use cf_reconcile::{Counts, Reason, final_status, standing};

use super::loop_::has_agent;
use super::world::World;
use crate::conductor::take_up;
use crate::schedule::{Gate, Mode};
use crate::store::event::EventFilter;
use crate::supervise::Stage;

impl World {
    pub(super) fn check(&mut self) {
        let mut events = Vec::new();
        let after = self.checker.seen;
        self.store
            .read(|reader| {
                reader.events(
                    &EventFilter {
                        after,
                        ..EventFilter::default()
                    },
                    |event| {
                        events.push(event);
                        Ok(())
                    },
                )
            })
            .expect("events are read");
        // What is stored changes with an event or not at all, and a change without one is found with the next.
        let grown = !events.is_empty();
        for event in events {
            self.checker.seen = event.seq;
            let name = event.task.map(|task| self.name(task)).unwrap_or_default();
            self.say(|| {
                format!(
                    "     #{} {} {name} {} {}",
                    event.seq,
                    event.kind,
                    event.actor,
                    serde_json::json!(event.data)
                )
            });
            self.checker.read(&event);
        }
        if grown {
            self.check_tasks();
            self.check_totals();
        }
        self.check_agents();
        for which in 0..self.conductors.len() {
            if self.conductors[which].core.is_some() {
                self.check_beliefs(which);
            } else if grown && self.conductors[which].ended.is_some() {
                self.check_end(which);
            }
        }
    }

    /// Replaying the log gives what is stored.
    fn check_tasks(&self) {
        let mut standings = Vec::new();
        self.store
            .read(|reader| reader.standings(|_| true, |standing| standings.push(standing)))
            .expect("the tasks are read");
        assert_eq!(standings.len(), self.checker.tasks.len());
        for stored in standings {
            let told = &self.checker.tasks[&stored.id];
            let name = self.name(stored.id);
            assert_eq!(
                (
                    stored.status,
                    stored.version,
                    &stored.status_by,
                    stored.deleted
                ),
                (told.status, told.version, &told.by, told.deleted),
                "{name}: the log tells what is stored"
            );
            if stored.claim.is_some() {
                assert_eq!(
                    stored.status,
                    TaskStatus::InProgress,
                    "{name}: what is claimed is IN_PROGRESS"
                );
            }
        }
    }

    /// Every batch that has ended, and no other, has its totals, and they are what its rows come to.
    fn check_totals(&self) {
        self.store
            .read(|reader| {
                for batch in reader.batches()? {
                    let stored = reader.stored_totals(batch.id)?;
                    assert_eq!(stored.is_some(), batch.status.is_final());
                    if let Some(stored) = stored {
                        assert_eq!(stored, reader.counted_totals(batch.id)?);
                    }
                }
                Ok(())
            })
            .expect("the batches are read");
    }

    fn check_agents(&self) {
        let open = self.open_attempts();
        let mut by_task: BTreeMap<TaskId, AttemptId> = BTreeMap::new();
        let mut by_batch: BTreeMap<BatchId, usize> = BTreeMap::new();
        for agent in self.agents.values() {
            assert!(
                open.get(&agent.task)
                    .is_some_and(|open| open.contains(&agent.attempt)),
                "{}: an agent runs whose attempt is closed",
                self.name(agent.task)
            );
            assert!(
                by_task.insert(agent.task, agent.attempt).is_none(),
                "two agents of one task"
            );
            let row = self
                .store
                .read(|reader| reader.batch_task(agent.batch, agent.task))
                .expect("it is read");
            // One that only others wait for is no agent of this batch's own.
            *by_batch.entry(agent.batch).or_default() += usize::from(
                row.is_some_and(|row| row.phase != Phase::Finished)
                    && !self.checker.taken_over.contains(&agent.attempt),
            );
        }
        for (task, attempts) in open {
            assert!(
                attempts.len() == 1,
                "{}: two attempts are open",
                self.name(task)
            );
        }
        for conductor in &self.conductors {
            let busy = by_batch.get(&conductor.batch).copied().unwrap_or(0);
            assert!(busy <= conductor.settings.slots(), "more agents than slots");
        }
    }

    /// What a conductor believes is what is stored, and nothing is lost between the two.
    fn check_beliefs(&self, which: usize) {
        let conductor = &self.conductors[which];
        let core = conductor.core.as_ref().expect("it lives");
        core.schedule.recount();
        let gates: BTreeSet<_> = core
            .at_gate
            .iter()
            .map(|gate| gate.identity.supervisor)
            .collect();
        assert_eq!(
            gates.len(),
            core.at_gate.len(),
            "a supervisor is at one gate"
        );
        for supervisor in gates {
            assert_eq!(
                self.at_gate.get(&supervisor),
                Some(&core.batch),
                "who is believed to wait at a gate does"
            );
        }
        assert_eq!(core.running.len(), core.by_attempt.len());
        for running in core.running.values() {
            assert_eq!(core.by_attempt.get(&running.attempt), Some(&running.task));
        }
        if !conductor.stored {
            return;
        }
        let rows = self
            .store
            .read(|reader| reader.batch_tasks(core.batch))
            .expect("rows are read");
        // A pass by hand over some tasks leaves the others as they are.
        for row in rows.iter().filter(|row| core.is_in_hand(row.task)) {
            let name = self.name(row.task);
            let Some(believed) = core.schedule.row(row.task) else {
                assert!(self.has_news(core), "{name}: a member is known");
                continue;
            };
            let mut stored = row.clone();
            let is_read_anew = core.recalled && believed.phase == Phase::Running;
            if stored.phase == Phase::Stopping && is_read_anew {
                // It was read from the store just now, and is to be stopped again if that is found again.
                stored.phase = believed.phase;
            }
            assert_eq!(
                believed, &stored,
                "{name}: what is stored is what is believed"
            );
            // A claim of the dead on what has ended here is settled for others.
            let runs = core.running.contains_key(&row.task) && row.phase != Phase::Finished;
            assert_eq!(
                runs,
                has_agent(row.phase),
                "{name}: {} has its agent",
                row.phase
            );
            if let Some(running) = core.running.get(&row.task) {
                assert_eq!(
                    running.stop.is_some(),
                    believed.phase == Phase::Stopping,
                    "{name}: a stop has its reason"
                );
                let told = self
                    .agents
                    .get(&running.attempt)
                    .is_none_or(|agent| agent.killed_at.is_some());
                assert!(
                    running.stop.is_none() || told,
                    "{name}: an agent that is to stop was told"
                );
                let attempt = self
                    .store
                    .read(|reader| reader.attempt(running.attempt))
                    .expect("it is read");
                assert!(
                    attempt.open && attempt.batch == core.batch && attempt.task == row.task,
                    "{name}: its attempt is open"
                );
                // A verification that never began is stored as begun until it is begun again.
                let again = running.agent_result.is_some()
                    && core
                        .unverified
                        .iter()
                        .any(|judged| judged.attempt == running.attempt);
                let stage = if again { Stage::Verify } else { running.stage };
                assert_eq!(
                    (attempt.stage, attempt.supervisor),
                    (stage, running.identity.clone()),
                    "{name}"
                );
                let heard = self.agents.contains_key(&running.attempt)
                    || conductor
                        .pending
                        .iter()
                        .chain(&conductor.notes)
                        .chain(&core.unverified)
                        .chain(conductor.sweeps.iter().map(|(_, judged)| judged))
                        .any(|j| j.attempt == running.attempt);
                assert!(heard, "{name}: nobody will ever hear of its agent");
            }
        }
        if core.schedule.mode() == Mode::Open {
            let forgotten = core.schedule.forgotten();
            assert!(forgotten.is_empty(), "{forgotten:?} wait for nothing");
        }
        let open = core.schedule.mode() == Mode::Open;
        // What could not be read, or is to be looked at again, is not known yet.
        let knows = core.relook.is_empty() && conductor.unread.is_empty() && !self.has_news(core);
        if !open || core.passes_off() || !knows {
            return;
        }
        let fresh = self
            .store
            .read(|reader| take_up::schedule(reader, core.batch, &core.settings))
            .expect("the schedule is read");
        if let Some(difference) = core.schedule.differs_from(&fresh) {
            panic!("believed and not so: {difference}");
        }
        for row in rows {
            let standing = self
                .store
                .read(|reader| reader.standing(row.task))
                .expect("it is read")
                .expect("it is there");
            let name = self.name(row.task);
            match row.phase {
                Phase::Held => assert!(
                    !standing.deleted
                        && matches!(
                            standing.status,
                            TaskStatus::Blocked | TaskStatus::InProgress
                        ),
                    "{name} is held and {}",
                    standing.status
                ),
                // What another claim kept from being taken up is looked at when it is about to start.
                Phase::Queued if standing.status_seq <= row.take_up_seq => {}
                // So is what the batch itself stored, of an attempt that it took over while the task had its end here.
                Phase::Queued
                    if standing.status == TaskStatus::Failed
                        && standing.status_by == core.actor() => {}
                Phase::Queued if core.schedule.gate(row.task) == Gate::Open => assert!(
                    !standing.deleted
                        && matches!(standing.status, TaskStatus::Ready | TaskStatus::InProgress),
                    "{name} is queued and {}",
                    standing.status
                ),
                _ => {}
            }
        }
    }

    /// A batch that has ended left nothing behind.
    fn check_end(&self, which: usize) {
        let conductor = &self.conductors[which];
        let batch = conductor.batch;
        let stored = self
            .store
            .read(|reader| reader.batch(batch))
            .expect("it is read");
        assert_eq!(Some(stored.status), conductor.ended);
        let mut counts = Counts::default();
        for row in self
            .store
            .read(|reader| reader.batch_tasks(batch))
            .expect("rows are read")
        {
            let name = self.name(row.task);
            let outcome = row
                .outcome
                .unwrap_or_else(|| panic!("{name} has no outcome"));
            let life = self
                .checker
                .lives
                .get(&(batch, row.task))
                .unwrap_or_else(|| panic!("{name} has no event"));
            let told = life.outcome.or(life.held.then_some(Outcome::Blocked));
            assert_eq!(
                told,
                Some(outcome),
                "{name}: its last event tells its outcome"
            );
            let reason = row.reason.clone().unwrap_or_default();
            assert!(!reason.is_empty(), "{name}: an outcome has a reason");
            counts.add(standing(outcome, &Reason::from(reason)));
            let task = self
                .store
                .read(|reader| reader.standing(row.task))
                .expect("it is read");
            assert_ne!(
                task.expect("it is there").claim,
                Some(batch),
                "{name} is still claimed by a batch that has ended"
            );
        }
        for attempt in self
            .store
            .read(|reader| reader.attempts_of_batch(batch))
            .expect("it is read")
        {
            assert!(
                !attempt.open || attempt.end == Some(AttemptEnd::Unclean),
                "{}: an attempt is open and its batch has ended",
                self.name(attempt.task)
            );
        }
        for cause in cf_reconcile::StopCause::ALL {
            let (status, exit) = final_status(&counts, *cause);
            if status == stored.status && Some(exit.code()) == stored.exit_code {
                return;
            }
        }
        panic!(
            "{counts:?} do not make {} {:?}",
            stored.status, stored.exit_code
        );
    }
}
