//! The loop around [`Core`], step by step as the real one, with simulated supervisors in place of processes.

use std::collections::{HashMap, HashSet};

use cf_core::{
    Actor, AttemptEnd, AttemptId, BatchId, BatchStatus, EventType, Phase, SupervisorId, TaskId,
};
use cf_reconcile::{FailureCause, Merged, ReconcileAction};

use super::world::{Agent, World, identity, judged};
use crate::ambient::fresh_id;
use crate::conductor::settle::Judged;
use crate::conductor::take_up::Again;
use crate::conductor::turn::{AtGate, Core, News};
use crate::conductor::{rows, take_up};
use crate::schedule::Mode;
use crate::settings::Settings;
use crate::source::ReconcilerRegistry;
use crate::store::batch::{BatchTask, Stop};
use crate::store::event::{Event, EventFilter};
use crate::store::{Durability, Reader, Result, StoreError, now};

/// A batch, and its conductor while it has one.
pub(super) struct Conductor {
    pub batch: BatchId,
    pub settings: Settings,
    pub core: Option<Core>,
    /// What supervisors said and the loop has not heard yet.
    pub notes: Vec<Judged>,
    /// What the loop has heard and not stored yet.
    pub pending: Vec<Judged>,
    /// What was read and no turn has taken yet.
    pub news: News,
    /// Whether a transaction failed since what is believed was read.
    pub must_reload: bool,
    /// Whether a signal came that is to be stored as a stop.
    pub stop_to_store: bool,
    pub ended: Option<BatchStatus>,
    /// Whether what it believes was stored in the last step.
    pub stored: bool,
}

impl Conductor {
    /// Whether its conductor died before the batch ended.
    pub(super) fn is_orphan(&self) -> bool {
        self.core.is_none() && self.ended.is_none()
    }
}

/// Whether an event tells of what has to survive a power cut.
fn is_claim_or_result(event: &Event) -> bool {
    let ends = event
        .data
        .get("phase")
        .is_some_and(|phase| phase == "finished");
    ends || matches!(
        event.kind.known(),
        Some(EventType::BatchTaskStarted | EventType::AttemptEnded)
    )
}

fn disk_full() -> StoreError {
    let code = rusqlite::ffi::Error {
        code: rusqlite::ErrorCode::DiskFull,
        extended_code: 13,
    };
    StoreError::Sql {
        what: "commit",
        source: rusqlite::Error::SqliteFailure(code, None),
    }
}

impl World {
    // ---- the beginning of a batch, and of a conductor ------------------------------------------------------------

    pub(super) fn begin(&mut self, tasks: &[TaskId], settings: Settings, again: Again) -> usize {
        let batch = BatchId(fresh_id());
        let names: Vec<String> = tasks.iter().map(|task| self.name(*task)).collect();
        self.say(|| {
            format!(
                "batch {} begins with {names:?} {again:?} {settings:?}",
                batch.short()
            )
        });
        let mut core = Core::new(batch, settings.clone(), HashMap::new());
        self.store
            .write_as(&Actor::Batch(batch), Durability::Normal, |tx| {
                tx.insert_batch(batch, &settings, tasks)?;
                let mut taken = tx.reader().batch_tasks(batch)?;
                take_up::take_up(tx, batch, &mut taken, again)?;
                core.take_in(tx, &taken)
            })
            .expect("a batch begins");
        self.conductors.push(Conductor {
            batch,
            settings,
            core: Some(core),
            notes: Vec::new(),
            pending: Vec::new(),
            news: News::default(),
            must_reload: false,
            stop_to_store: false,
            ended: None,
            stored: true,
        });
        self.conductors.len() - 1
    }

    pub(super) fn crash(&mut self, which: usize) {
        let conductor = &mut self.conductors[which];
        let batch = conductor.batch;
        conductor.core = None;
        conductor.notes.clear();
        conductor.pending.clear();
        self.at_gate.retain(|_, owner| *owner != batch);
        self.say(|| format!("the conductor of {} dies", batch.short()));
    }

    /// `resume`, or, for a batch that somebody asked to stop, perhaps the end of it.
    pub(super) fn resume(&mut self, which: usize) {
        let batch = self.conductors[which].batch;
        let force = self.rng.chance(10);
        let stored = self
            .store
            .read(|reader| reader.batch(batch))
            .expect("a batch is read");
        let stop = if self.conductors[which].is_orphan() && self.rng.chance(30) {
            Some(if self.rng.chance(50) {
                Stop::Force
            } else {
                Stop::Drain
            })
        } else {
            None
        };
        let asked = if self.conductors[which].is_orphan() && self.rng.chance(50) {
            stored.stop
        } else {
            None
        };
        self.pick_up(which, force, stop.or(asked));
    }

    pub(super) fn pick_up(&mut self, which: usize, force: bool, stop: Option<Stop>) {
        let batch = self.conductors[which].batch;
        let settings = self.conductors[which].settings.clone();
        self.say(|| {
            format!(
                "batch {} is picked up, force {force}, stop {stop:?}",
                batch.short()
            )
        });
        if stop.is_none() {
            self.checker.resumed(batch, force);
        }
        let mut core = Core::new(batch, settings.clone(), HashMap::new());
        crate::conductor::recover::clean_up_all(&mut self.store, &Actor::Batch(batch))
            .expect("it is cleaned up");
        let mut open = Vec::new();
        let core_ = &mut core;
        let open_ = &mut open;
        self.store
            .write_as(&Actor::Batch(batch), Durability::Normal, |tx| {
                *open_ = core_.recall(&tx.reader(), &|_| None)?;
                if stop.is_none() {
                    tx.reopen_batch(batch, &settings)?;
                }
                let mut taken: Vec<BatchTask> = Vec::new();
                for row in tx.reader().batch_tasks(batch)? {
                    if stop.is_none()
                        && !core_.running.contains_key(&row.task)
                        && is_taken_up(&tx.reader(), &row, force)?
                    {
                        taken.push(row);
                    }
                }
                let again = if force { Again::Yes } else { Again::No };
                take_up::take_up(tx, batch, &mut taken, again)?;
                core_.take_in(tx, &taken)?;
                for attempt in open_.iter() {
                    tx.append(
                        Event::new(EventType::AttemptAdopted)
                            .task(attempt.task)
                            .batch(batch)
                            .attempt(attempt.id),
                    )?;
                }
                if let Some(stop) = stop {
                    core_.stop_batch(tx, stop)?;
                }
                rows::store(core_, tx)
            })
            .expect("a batch is picked up");
        let conductor = &mut self.conductors[which];
        conductor.core = Some(core);
        (
            conductor.news,
            conductor.must_reload,
            conductor.stop_to_store,
        ) = (News::default(), false, false);
        conductor.ended = None;
        conductor.stored = false;
        for attempt in open {
            if !self.agents.contains_key(&attempt.id) {
                let fate = self.fate(attempt.id, attempt.stage);
                self.conductors[which].pending.push(fate);
            }
        }
    }

    // ---- one round of the loop -----------------------------------------------------------------------------------

    pub(super) fn one_loop(&mut self, which: usize) {
        let place = &mut self.conductors[which];
        let mut core = place.core.take().expect("a conductor that lives");
        // While it is out of its place, others must know that it lives, and can tell it that it died.
        let stand_in = Conductor {
            batch: place.batch,
            settings: place.settings.clone(),
            core: Some(Core::new(
                place.batch,
                place.settings.clone(),
                HashMap::new(),
            )),
            notes: std::mem::take(&mut place.notes),
            pending: Vec::new(),
            news: News::default(),
            must_reload: false,
            stop_to_store: false,
            ended: None,
            stored: false,
        };
        let mut conductor = std::mem::replace(place, stand_in);
        self.out = Some(which);
        let ended = self.turn_of(which, &mut core, &mut conductor);
        self.out = None;
        let place = &mut self.conductors[which];
        conductor.notes = std::mem::take(&mut place.notes);
        conductor.stop_to_store |= place.stop_to_store;
        if place.core.is_none() {
            // It died in the middle.
            conductor.pending.clear();
            conductor.notes.clear();
        } else if ended.is_none() {
            conductor.core = Some(core);
        } else {
            let batch = conductor.batch;
            self.at_gate.retain(|_, owner| *owner != batch);
            conductor.notes.clear();
        }
        conductor.ended = ended.or(place.ended);
        self.conductors[which] = conductor;
    }

    fn gone(&self, which: usize) -> bool {
        self.conductors[which].core.is_none()
    }

    fn turn_of(
        &mut self,
        which: usize,
        core: &mut Core,
        conductor: &mut Conductor,
    ) -> Option<BatchStatus> {
        core.clock = self.clock;
        for note in std::mem::take(&mut self.conductors[which].notes) {
            Self::take_note(core, conductor, note);
        }
        self.ready_supervisors(core);
        let turned = self.one_turn(which, core, conductor);
        if self.gone(which) {
            return None;
        }
        conductor.stored = turned.is_ok();
        if turned.is_err() {
            self.say(|| "the transaction fails".to_owned());
            conductor.must_reload = true;
            self.meddle();
            return None;
        }
        if self.crash_after_commit || self.by_chance && self.rng.below(1000) < self.faults {
            // Between a commit and its effects is where a crash hurts most.
            self.crash(which);
            return None;
        }
        self.effects(core, conductor);
        let over = conductor.pending.is_empty() && core.relook.is_empty() && core.is_over();
        if !over {
            return None;
        }
        self.meddle();
        if self.gone(which) {
            return None;
        }
        let by = core.actor();
        let ended = self.store.write_as(&by, Durability::Normal, |tx| {
            if tx.reader().last_seq()? != core.seen_seq {
                return Ok(None);
            }
            core.end(tx).map(Some)
        });
        let (end, _) = ended.unwrap_or_else(|error| panic!("{}", crate::chain(&error)));
        let (status, exit) = end?;
        self.say(|| format!("batch {} ends {status} {}", core.batch.short(), exit.code()));
        Some(status)
    }

    /// Whether somebody else has written since the last look.
    pub(super) fn has_news(&self, core: &Core) -> bool {
        let own = core.actor();
        let after = core.seen_seq;
        let mut news = false;
        self.store
            .read(|reader| {
                reader.events(
                    &EventFilter {
                        after,
                        ..EventFilter::default()
                    },
                    |event| {
                        news |= event.actor != own;
                        Ok(())
                    },
                )
            })
            .expect("events are read");
        news
    }

    fn take_note(core: &Core, conductor: &mut Conductor, note: Judged) {
        let known = core.by_attempt.contains_key(&note.attempt);
        if known {
            conductor.pending.push(note);
        }
    }

    fn ready_supervisors(&mut self, core: &mut Core) {
        let wanted = core.wanted_at_gate();
        while core.at_gate.len() > wanted {
            let Some(extra) = core.at_gate.pop() else {
                break;
            };
            self.release(extra.identity.supervisor);
        }
        while core.at_gate.len() < wanted {
            let supervisor = SupervisorId(fresh_id());
            self.at_gate.insert(supervisor, core.batch);
            core.at_gate.push(AtGate {
                identity: identity(supervisor),
                jobs: 0,
            });
        }
    }

    fn release(&mut self, supervisor: SupervisorId) {
        self.at_gate.remove(&supervisor);
    }

    fn one_turn(&mut self, which: usize, core: &mut Core, conductor: &mut Conductor) -> Result<()> {
        if conductor.must_reload {
            self.reload(core, conductor);
            conductor.must_reload = false;
        }
        let read = core.look(&self.store)?;
        let before = std::mem::replace(&mut conductor.news, read);
        conductor.news.after(before);
        if self.conductors[which].stop_to_store || conductor.stop_to_store {
            conductor.stop_to_store = true;
            conductor.news.stop = Some(Stop::Force);
        }
        self.meddle();
        self.settle_claims_of_the_dead(core, conductor)?;
        self.meddle();
        let merged = self.pass(core, &conductor.news);
        self.meddle();
        let idle = conductor.pending.is_empty()
            && core.schedule.is_settled()
            && core.unverified.is_empty()
            && merged.is_empty()
            && conductor.news.is_empty()
            && !core.can_start();
        if idle || self.gone(which) {
            return Ok(());
        }
        let nothing_ends =
            conductor.pending.is_empty() && (core.unverified.is_empty() || core.holds_off());
        let durability = core.durability(nothing_ends, &conductor.news, &merged);
        let kept = (core.at_gate.clone(), core.unverified.clone());
        let fails = self.rng.chance(self.faults);
        let (by, batch) = (core.actor(), core.batch);
        let (pending, news, stop_to_store) =
            (&conductor.pending, &conductor.news, conductor.stop_to_store);
        let done = self.store.write_as(&by, Durability::Normal, |tx| {
            if stop_to_store {
                tx.request_stop(batch, Stop::Force)?;
            }
            core.turn(tx, news, pending, merged)?;
            if fails { Err(disk_full()) } else { Ok(()) }
        });
        match done {
            Ok(((), events)) => {
                if durability == Durability::Normal {
                    let rests = events.iter().find(|event| is_claim_or_result(event));
                    assert!(rests.is_none(), "a power cut would undo {rests:?}");
                }
                conductor.pending.clear();
                conductor.news = News::default();
                conductor.stop_to_store = false;
                if core.nobody_else
                    && let Some(last) = events.last()
                {
                    core.seen_seq = last.seq;
                }
                Ok(())
            }
            Err(error) => {
                assert!(error.is_transient(), "{}", crate::chain(&error));
                (core.at_gate, core.unverified) = kept;
                core.launches.clear();
                core.stops.clear();
                core.released.clear();
                Err(error)
            }
        }
    }

    fn pass(&mut self, core: &mut Core, news: &News) -> Vec<Merged> {
        let mut ask: Vec<TaskId> = std::mem::take(&mut core.relook).into_iter().collect();
        if core.passes_off() {
            let waited: HashSet<TaskId> = core.schedule.waited_for().collect();
            ask.extend(
                news.changed
                    .iter()
                    .copied()
                    .filter(|task| waited.contains(task)),
            );
        } else {
            ask.extend(news.changed.iter().copied());
            ask.extend(core.ask_grace_over());
        }
        ask.sort_unstable();
        ask.dedup();
        let asked = core.asked(ask);
        let pass = ReconcilerRegistry::default().check(&self.store, &asked);
        assert!(pass.unknown.is_empty());
        let mut merged = pass.merged;
        if core.passes_off() {
            merged.retain(|found| found.winner.action == ReconcileAction::None);
        }
        merged
    }

    fn is_conducted(&self, batch: BatchId) -> bool {
        self.conductors
            .iter()
            .any(|conductor| conductor.batch == batch && conductor.core.is_some())
    }

    fn settle_claims_of_the_dead(
        &mut self,
        core: &mut Core,
        conductor: &mut Conductor,
    ) -> Result<()> {
        if !core.schedule.waits_for_claims() {
            return Ok(());
        }
        let waited: Vec<TaskId> = core.schedule.waited_for().collect();
        for task in waited {
            let open = self.store.read(|reader| reader.open_attempts_of(task))?;
            let batch = core.batch;
            for attempt in open
                .iter()
                .filter(|attempt| attempt.batch != batch && attempt.end.is_none())
            {
                if self.is_conducted(attempt.batch) || self.agents.contains_key(&attempt.id) {
                    continue;
                }
                let by = core.actor();
                self.store.write_as(&by, Durability::Normal, |tx| {
                    core.take_over(tx, attempt)?;
                    rows::store(core, tx)
                })?;
                let name = self.name(task);
                self.say(|| format!("{name}: {} takes over", core.batch.short()));
                let fate = self.fate(attempt.id, attempt.stage);
                Self::take_note(core, conductor, fate);
            }
            let claim = self
                .store
                .read(|reader| reader.standing(task))?
                .and_then(|standing| standing.claim);
            let dead = claim.filter(|batch| {
                *batch != core.batch && open.is_empty() && !self.is_conducted(*batch)
            });
            self.meddle();
            if let Some(dead) = dead {
                let by = core.actor();
                self.store
                    .write_as(&by, Durability::Normal, |tx| tx.release_claim(task, dead))?;
            }
        }
        Ok(())
    }

    // ---- effects, after the commit -------------------------------------------------------------------------------

    fn effects(&mut self, core: &mut Core, conductor: &mut Conductor) {
        for supervisor in std::mem::take(&mut core.released) {
            let busy = self
                .agents
                .values()
                .find(|agent| agent.supervisor == supervisor);
            assert!(
                busy.is_none(),
                "a supervisor with an agent is given back: {busy:?}"
            );
            self.release(supervisor);
        }
        for launch in std::mem::take(&mut core.launches) {
            let task = launch.task.id;
            let supervisor = launch.identity.supervisor;
            let name = self.name(task);
            self.say(|| {
                format!(
                    "{name}: {} {:?} starts",
                    launch.attempt.short(),
                    launch.stage
                )
            });
            assert_eq!(
                self.at_gate.remove(&supervisor),
                Some(core.batch),
                "a job goes to a supervisor at its gate"
            );
            assert!(
                self.launched.insert((launch.attempt, launch.stage)),
                "a process is started once"
            );
            if self.by_chance && self.rng.chance(3) {
                let fate = judged(
                    launch.attempt,
                    launch.stage,
                    AttemptEnd::Exited,
                    false,
                    FailureCause::Exit,
                    false,
                );
                self.records
                    .insert((launch.attempt, launch.stage), fate.clone());
                Self::take_note(core, conductor, fate);
                continue;
            }
            let twin = self.agents.values().find(|agent| agent.task == task);
            assert!(twin.is_none(), "{name} has two agents at once");
            let ends_at = if self.by_chance {
                self.now_ms + self.rng.between(0, 4000) as i64
            } else {
                i64::MAX
            };
            self.agents.insert(
                launch.attempt,
                Agent {
                    attempt: launch.attempt,
                    task,
                    batch: core.batch,
                    stage: launch.stage,
                    supervisor,
                    ends_at,
                    killed_at: None,
                },
            );
        }
        let mut stops = std::mem::take(&mut core.stops);
        stops.sort_by_key(|(attempt, ..)| *attempt);
        for (attempt, ..) in stops {
            let at = if self.by_chance {
                self.now_ms + self.rng.between(0, 1500) as i64
            } else {
                i64::MAX
            };
            if let Some(agent) = self.agents.get_mut(&attempt) {
                agent.killed_at.get_or_insert(at);
            }
        }
    }

    pub(super) fn clean_up(&mut self, which: usize) {
        if let Some(mut core) = self.conductors[which].core.take() {
            core.clean_up(&mut self.store).expect("it is cleaned up");
            self.conductors[which].core = Some(core);
        }
    }

    /// SIGINT, for the first time.
    pub(super) fn signal(&mut self, which: usize) {
        let conductor = &mut self.conductors[which];
        if let Some(core) = &mut conductor.core {
            core.signalled = true;
            conductor.stop_to_store = true;
        }
        let batch = conductor.batch;
        self.say(|| format!("a signal for {}", batch.short()));
    }

    /// After a transaction that failed as a whole.
    fn reload(&mut self, core: &mut Core, conductor: &Conductor) {
        let own: HashMap<AttemptId, Option<u32>> = core
            .running
            .values()
            .map(|running| (running.attempt, running.jobs))
            .collect();
        let pending: Vec<AttemptId> = conductor
            .pending
            .iter()
            .map(|judged| judged.attempt)
            .collect();
        self.store
            .read(|reader| {
                let schedule = take_up::schedule(reader, core.batch, &core.settings)?;
                core.recall(reader, &|attempt| match own.get(&attempt) {
                    Some(jobs) => *jobs,
                    None if pending.contains(&attempt) => Some(1),
                    None => None,
                })?;
                let mode = core.schedule.mode();
                core.schedule = schedule;
                if mode == Mode::Closing {
                    core.schedule.close();
                }
                core.schedule.settle_all(now());
                Ok(())
            })
            .expect("the store is read");
        core.relook = core.schedule.members().collect();
    }
}

fn is_taken_up(reader: &Reader<'_>, row: &BatchTask, force: bool) -> Result<bool> {
    use cf_core::Outcome;
    let reason = cf_reconcile::Reason::from(row.reason.as_deref().unwrap_or_default());
    Ok(match row.outcome {
        _ if force => true,
        None | Some(Outcome::Failed | Outcome::Blocked | Outcome::Cancelled) => true,
        Some(Outcome::Completed) => false,
        Some(Outcome::Skipped) => {
            matches!(reason, cf_reconcile::Reason::Dependency { .. })
                || reader
                    .standing(row.task)?
                    .is_some_and(|s| !s.deleted && s.status == cf_core::TaskStatus::Ready)
        }
    })
}

/// Whether a phase has an agent.
pub(super) const fn has_agent(phase: Phase) -> bool {
    matches!(phase, Phase::Running | Phase::Stopping)
}
