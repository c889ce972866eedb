//! The loop around [`Core`], step by step as the real one, with simulated supervisors in place of processes.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use cf_core::{AttemptEnd, BatchId, BatchStatus, EventType, Phase, SupervisorId, TaskId};
use cf_reconcile::{FailureCause, Merged, ReconcileAction};

use super::world::{Agent, World, identity, judged};
use crate::ambient::{fresh_id, simulated};
use crate::conductor::begin::TICK;
use crate::conductor::launch::Launch;
use crate::conductor::recover;
use crate::conductor::run::Goal;
use crate::conductor::settle::Judged;
use crate::conductor::take_up::Again;
use crate::conductor::turn::{AtGate, Core, News};
use crate::settings::Settings;
use crate::source::ReconcilerRegistry;
use crate::store::batch::Stop;
use crate::store::event::{Event, EventFilter};
use crate::store::{Durability, Result, StoreError};

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
    /// Whether a signal came that is to be stored as a stop.
    pub stop_to_store: bool,
    pub ended: Option<BatchStatus>,
    /// Whether what it believes was stored in the last step.
    pub stored: bool,
    clocks: Clocks,
    /// Tasks that could not be read, asked about again with the next tick.
    pub unread: BTreeSet<TaskId>,
    /// Whether the agents were told of the stop that could not be stored.
    stop_sent: bool,
    /// Whether it only makes a pass by hand.
    only_pass: bool,
    /// Ends of attempts that it found and hears of only then: what they left is being stopped, or their work kept.
    pub sweeps: Vec<(i64, Judged)>,
}

/// What the loop remembers of its own clock.
#[derive(Clone, Copy, Debug, Default)]
struct Clocks {
    /// When it began, on the world's clock.
    began: Duration,
    last_tick: Duration,
    /// Whether a tick has gone by since claims of others were looked at.
    ticked: bool,
    unread_at: Duration,
    /// Until when no supervisor is started, because one could not be.
    short_until: Duration,
}

impl Conductor {
    fn new(core: Core, world_clock: Duration) -> Self {
        Self {
            batch: core.batch,
            settings: core.settings.clone(),
            core: Some(core),
            notes: Vec::new(),
            pending: Vec::new(),
            news: News::default(),
            stop_to_store: false,
            ended: None,
            stored: false,
            clocks: Clocks {
                began: world_clock,
                ticked: true,
                ..Clocks::default()
            },
            unread: BTreeSet::new(),
            stop_sent: false,
            only_pass: false,
            sweeps: Vec::new(),
        }
    }

    /// Whether its conductor lives, and hears of the end of a task's agent.
    pub(super) fn looks_after(&self, task: TaskId) -> bool {
        self.core.as_ref().is_some_and(|core| core.is_in_hand(task))
    }

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
        let mut core = Core::new(batch, settings, HashMap::new());
        core.write(&mut self.store, Durability::Full, |core, tx| {
            core.begin(tx, tasks, again, None)
        })
        .expect("a batch begins");
        let mut conductor = Conductor::new(core, self.clock);
        conductor.stored = true;
        self.conductors.push(conductor);
        self.conductors.len() - 1
    }

    pub(super) fn crash(&mut self, which: usize) {
        let conductor = &mut self.conductors[which];
        let batch = conductor.batch;
        conductor.core = None;
        conductor.notes.clear();
        conductor.pending.clear();
        conductor.sweeps.clear();
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

    /// `cf reconcile` with the conductor gone, perhaps for some tasks only.
    pub(super) fn pass_by_hand(&mut self, which: usize) {
        let some = self.rng.chance(50);
        let tasks = self.tasks.clone();
        let only: Vec<TaskId> = tasks.into_iter().filter(|_| self.rng.chance(50)).collect();
        self.take_hold(which, &Goal::Pass(some.then_some(only)));
    }

    pub(super) fn pick_up(&mut self, which: usize, force: bool, stop: Option<Stop>) {
        let settings = self.conductors[which].settings.clone();
        let goal = match stop {
            Some(stop) => Goal::Stop(stop),
            None => Goal::Resume(Box::new(settings), force),
        };
        self.take_hold(which, &goal);
    }

    pub(super) fn take_hold(&mut self, which: usize, goal: &Goal) {
        let batch = self.conductors[which].batch;
        let settings = self.conductors[which].settings.clone();
        self.say(|| {
            let what = match goal {
                Goal::Resume(_, force) => format!("resume, force {force}"),
                other => format!("{other:?}"),
            };
            format!("batch {} is picked up: {what}", batch.short())
        });
        let rate = simulated::refuse(self.refusals);
        let mut core = Core::new(batch, settings, HashMap::new());
        let by = core.actor();
        let picked_up = recover::clean_up_all(&mut self.store, &by)
            .and_then(|()| self.store.read(|reader| reader.batch(batch)))
            .and_then(|stored| {
                core.write(&mut self.store, Durability::Full, |core, tx| {
                    core.pick_up(tx, &stored, goal, None)
                })
            });
        simulated::refuse(rate);
        let open = match picked_up {
            Ok((open, _)) => open,
            Err(error) => {
                assert!(error.is_transient(), "{}", crate::chain(&error));
                self.say(|| "the store refuses".to_owned());
                return;
            }
        };
        if let Goal::Resume(_, force) = goal {
            self.checker.resumed(batch, *force);
        }
        let settings = self.conductors[which].settings.clone();
        self.conductors[which] = Conductor {
            settings,
            only_pass: matches!(goal, Goal::Pass(_)),
            ..Conductor::new(core, self.clock)
        };
        for attempt in open {
            if !self.agents.contains_key(&attempt.id) {
                let fate = self.fate(attempt.id, attempt.stage);
                match self.is_heard_at() {
                    None => self.conductors[which].pending.push(fate),
                    Some(at) => self.conductors[which].sweeps.push((at, fate)),
                }
            }
        }
    }

    // ---- one round of the loop -----------------------------------------------------------------------------------

    pub(super) fn one_loop(&mut self, which: usize) {
        let place = &mut self.conductors[which];
        let mut core = place.core.take().expect("a conductor that lives");
        // While it is out of its place, others must know that it lives, and can tell it that it died.
        let mut stand_in = Conductor::new(
            Core::new(place.batch, place.settings.clone(), HashMap::new()),
            self.clock,
        );
        stand_in.notes = std::mem::take(&mut place.notes);
        if let Some(stand_in) = &mut stand_in.core {
            stand_in.only.clone_from(&core.only);
        }
        let mut conductor = std::mem::replace(place, stand_in);
        self.out = Some(which);
        simulated::refuse(self.refusals);
        let ended = self.turn_of(which, &mut core, &mut conductor);
        simulated::refuse(0);
        self.out = None;
        let place = &mut self.conductors[which];
        conductor.notes = std::mem::take(&mut place.notes);
        conductor.stop_to_store |= place.stop_to_store;
        if place.core.is_none() {
            // It died in the middle.
            conductor.pending.clear();
            conductor.notes.clear();
            conductor.sweeps.clear();
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
        core.clock = self.clock.checked_sub(conductor.clocks.began)?;
        for note in std::mem::take(&mut self.conductors[which].notes) {
            Self::take_note(core, conductor, note);
        }
        for (at, note) in std::mem::take(&mut conductor.sweeps) {
            if at <= self.now_ms {
                Self::take_note(core, conductor, note);
            } else {
                conductor.sweeps.push((at, note));
            }
        }
        self.ready_supervisors(core, conductor);
        self.tick(core, conductor);
        let turned = self.one_turn(which, core, conductor);
        if self.gone(which) {
            return None;
        }
        conductor.stored = turned.is_ok();
        if let Err(error) = turned {
            assert!(error.is_transient(), "{}", crate::chain(&error));
            self.say(|| "the store refuses".to_owned());
            if conductor.stop_to_store && !std::mem::replace(&mut conductor.stop_sent, true) {
                for attempt in core.by_attempt.keys() {
                    if let Some(agent) = self.agents.get_mut(attempt) {
                        agent.killed_at.get_or_insert(self.now_ms);
                    }
                }
            }
            self.meddle();
            return None;
        }
        if self.crash_after_commit || self.by_chance && self.rng.below(1000) < self.faults {
            // Between a commit and its effects is where a crash hurts most.
            self.crash(which);
            return None;
        }
        self.effects(core, conductor);
        let settled = conductor.pending.is_empty() && core.relook.is_empty();
        let swept = conductor.sweeps.is_empty();
        if conductor.only_pass && settled && swept && core.nothing_is_stopping() {
            // What runs goes on under its supervisors, as after a crash.
            self.crash(which);
            return None;
        }
        if !settled || !core.is_over() {
            return None;
        }
        self.meddle();
        if self.gone(which) {
            return None;
        }
        let ended = core.write(&mut self.store, Durability::Full, |core, tx| {
            if tx.reader().last_seq()? != core.seen_seq {
                return Ok(None);
            }
            core.end(tx).map(Some)
        });
        let (end, _) = ended
            .inspect_err(|error| {
                assert!(error.is_transient(), "{}", crate::chain(error));
                conductor.stored = false;
            })
            .ok()?;
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

    /// Looks after what ends without telling, once a tick.
    fn tick(&mut self, core: &mut Core, conductor: &mut Conductor) {
        let clocks = &mut conductor.clocks;
        if core.clock.saturating_sub(clocks.last_tick) < TICK {
            return;
        }
        clocks.last_tick = core.clock;
        clocks.ticked = true;
        if core.unclean.is_empty() && !core.schedule.waits_for_claims() {
            return;
        }
        if let Err(error) = core.clean_up(&mut self.store) {
            assert!(error.is_transient(), "{}", crate::chain(&error));
        }
    }

    fn ready_supervisors(&mut self, core: &mut Core, conductor: &mut Conductor) {
        if core.holds_off() || core.clock < conductor.clocks.short_until {
            return;
        }
        let wanted = core.wanted_at_gate();
        while core.at_gate.len() > wanted {
            let Some(extra) = core.at_gate.pop() else {
                break;
            };
            self.release(extra.identity.supervisor);
        }
        if core.at_gate.len() < wanted && self.by_chance && self.rng.chance(self.faults) {
            self.say(|| "no supervisor can be started".to_owned());
            conductor.clocks.short_until = core.clock + TICK;
            return;
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
        if core.must_reload {
            core.reload(&self.store, &conductor.pending)?;
        }
        let read = core.look(&self.store)?;
        let before = std::mem::replace(&mut conductor.news, read);
        conductor.news.after(before);
        if !conductor.news.joined.is_empty() {
            let news = &mut conductor.news;
            self.store.read(|reader| core.take_joined(reader, news))?;
            if core.must_reload {
                core.reload(&self.store, &conductor.pending)?;
            }
        }
        if self.conductors[which].stop_to_store || conductor.stop_to_store {
            conductor.stop_to_store = true;
            conductor.news.stop = Some(Stop::Force);
        }
        self.meddle();
        self.settle_claims_of_the_dead(which, core, conductor)?;
        self.meddle();
        if self.gone(which) {
            return Ok(());
        }
        let merged = self.pass(core, conductor);
        self.meddle();
        if self.gone(which) {
            return Ok(());
        }
        let Some(durability) = core.due(&conductor.pending, &conductor.news, &merged) else {
            return Ok(());
        };
        let kept = (core.at_gate.clone(), core.unverified.clone());
        let fails = self.rng.chance(self.faults);
        let batch = core.batch;
        let (pending, news, stop_to_store) =
            (&conductor.pending, &conductor.news, conductor.stop_to_store);
        let done = core.write(&mut self.store, durability, |core, tx| {
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
                core.forget_turn(kept);
                Err(error)
            }
        }
    }

    fn pass(&mut self, core: &mut Core, conductor: &mut Conductor) -> Vec<Merged> {
        let mut ask = core.due_a_look(&conductor.news);
        if core.clock.saturating_sub(conductor.clocks.unread_at) >= TICK {
            ask.append(&mut conductor.unread);
        }
        ask.retain(|task| core.is_in_hand(*task));
        let asked = core.asked(ask);
        let pass = ReconcilerRegistry::default().check(&self.store, &asked);
        for unread in pass.unknown {
            conductor.unread.extend(unread.tasks);
            conductor.clocks.unread_at = core.clock;
        }
        let mut merged = pass.merged;
        if core.passes_off() && !conductor.only_pass {
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
        which: usize,
        core: &mut Core,
        conductor: &mut Conductor,
    ) -> Result<()> {
        let waits = core.schedule.waits_for_claims();
        let due = !conductor.news.is_empty() || std::mem::take(&mut conductor.clocks.ticked);
        if !waits || !due {
            return Ok(());
        }
        let mut waited: Vec<TaskId> = core.schedule.waited_for().collect();
        waited.retain(|task| core.is_in_hand(*task));
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
                // Others may be quicker with the lock, and gone again.
                self.meddle();
                if self.gone(which) {
                    return Ok(());
                }
                if self.is_conducted(attempt.batch)
                    || core.take_over(&mut self.store, attempt)?.is_none()
                {
                    continue;
                }
                let name = self.name(task);
                self.say(|| format!("{name}: {} takes over", core.batch.short()));
                let fate = self.fate(attempt.id, attempt.stage);
                match self.is_heard_at() {
                    None => Self::take_note(core, conductor, fate),
                    Some(at) => conductor.sweeps.push((at, fate)),
                }
            }
            let claim = self
                .store
                .read(|reader| reader.standing(task))?
                .and_then(|standing| standing.claim);
            let dead = claim.filter(|batch| *batch != core.batch && open.is_empty());
            self.meddle();
            if self.gone(which) {
                return Ok(());
            }
            if let Some(dead) = dead.filter(|batch| !self.is_conducted(*batch)) {
                let by = core.actor();
                self.store
                    .write_as(&by, Durability::Full, |tx| tx.release_claim(task, dead))?;
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
                let fate = self.failed_start(&launch, core.batch);
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

    /// An agent that does not come to its start, for one reason or another.
    fn failed_start(&mut self, launch: &Launch, batch: BatchId) -> Judged {
        let started = (launch.attempt, launch.stage);
        let fate = |end, cause, free| judged(started.0, started.1, end, false, cause, free);
        let (of_the_gate, of_the_system) = (AttemptEnd::NeverStarted, FailureCause::NeverStarted);
        match self.rng.below(4) {
            // Its supervisor could not start it, and says so in its record.
            0 => {
                let fate = fate(AttemptEnd::Exited, FailureCause::Exit, false);
                self.records.insert(started, fate.clone());
                fate
            }
            // Its job was impossible.
            1 => {
                self.launched.remove(&started);
                self.at_gate.insert(launch.identity.supervisor, batch);
                fate(AttemptEnd::Exited, FailureCause::Exit, true)
            }
            // Its files could not be written for the moment.
            2 => {
                self.launched.remove(&started);
                self.at_gate.insert(launch.identity.supervisor, batch);
                fate(of_the_gate, of_the_system, true)
            }
            // Its supervisor was dead.
            _ => {
                self.launched.remove(&started);
                fate(of_the_gate, of_the_system, false)
            }
        }
    }

    /// When the end of an attempt is heard whose supervisor was found dead; none when at once.
    fn is_heard_at(&mut self) -> Option<i64> {
        if self.by_chance && self.rng.chance(60) {
            return None;
        }
        let ms = if self.by_chance {
            self.rng.between(0, 4000) as i64
        } else {
            self.sweep_ms
        };
        (ms > 0).then_some(self.now_ms + ms)
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
}

/// Whether a phase has an agent.
pub(super) const fn has_agent(phase: Phase) -> bool {
    matches!(phase, Phase::Running | Phase::Stopping)
}
