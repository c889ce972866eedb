//! The loop itself: it waits, looks, decides with [`Core::turn`], stores, and then lets the effects happen.

mod ahead;
mod arrival;
mod effects;
mod follow;
mod looks;
mod stopping;
mod trees;
mod trouble;
mod waiting;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cf_core::{Actor, AttemptId, BatchId, TaskId};
use cf_reconcile::ReconcileAction;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::Signal;

use super::launch::InheritedBy;
use super::plan::Plan;
use super::recover::stopped::FoundStopped;
use super::settle::Judged;
use super::take_up::Again;
use super::turn::{Core, News};
use ahead::Ahead;
use looks::{Arrival, Follower};
use trees::{Done, Trees};
use waiting::stopping_signals;

use super::begin::TICK;
use super::{BatchEnd, ConductorError, Observer, Setup, recover};
use crate::alarm::Alarm;
use crate::executor::{Adopted, Executor, LocalExecutor, LocalOptions, Note};
use crate::fault;
use crate::hooks::Hooked;
use crate::process;
use crate::settings::Settings;
use crate::store::attempt::Attempt;
use crate::store::batch::{Batch, Stop};
use crate::store::event::Event;
use crate::store::{Durability, Store};
use crate::wake::Watch;
use crate::workspace::BatchLock;

/// How long a store that refused is left alone before the next try.
const STORE_PAUSE: Duration = Duration::from_millis(200);

/// How many files a conductor may have open with so many slots. A supervisor takes two pipes, and for a moment those
/// of its start; one that is adopted takes a pidfd. The others are the database, its log, the watch, GitHub and git.
const fn files_for(slots: usize) -> u64 {
    3 * slots as u64 + 64
}

/// What is to be done with a batch that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Take up what is unfinished and run it, with these settings; with `true` everything but what is MERGED.
    Resume(Box<Settings>, bool),
    /// End it: its conductor is gone, and somebody asked it to stop.
    Stop(Stop),
    /// Settle what can be settled without starting anything, then leave it as it is. With a list, of these tasks only.
    Pass(Option<Vec<TaskId>>),
}

/// Stores a batch for a plan and runs it to its end.
///
/// # Errors
///
/// It cannot be started, or could not go on; see [`ConductorError`].
pub fn start(
    setup: &mut Setup,
    store: Store,
    plan: &Plan,
    observer: &mut dyn Observer,
) -> Result<BatchEnd, ConductorError> {
    let batch = BatchId(uuid::Uuid::new_v4());
    check_platform()?;
    setup.workspace.refuse_untrusted()?;
    let lock = lock(setup, batch)?;
    let mut hooked = hooked(setup, observer);
    let ended = within_runtime(async {
        let settings = plan.settings.clone();
        let mut conductor = Conductor::new(setup, store, batch, settings, lock, &mut hooked)?;
        // They start while the batch is stored. One that cannot be started is told when it is needed.
        let _ = conductor
            .executor
            .warm(plan.first(conductor.core.settings.slots()));
        let again = if plan.force { Again::Yes } else { Again::No };
        let base = plan.base.as_ref().map(|base| base.commit.as_str());
        if let Err(error) = conductor.begin(&plan.tasks, again, base) {
            conductor.executor.retire_all().await;
            return Err(error);
        }
        conductor.conduct().await
    });
    hooked.finish();
    ended
}

/// The observer, and the hooks beside it.
fn hooked<'o>(setup: &mut Setup, observer: &'o mut dyn Observer) -> Hooked<'o> {
    let hooks = std::mem::take(&mut setup.hooks);
    Hooked::new(hooks, &setup.workspace, &setup.environment, observer)
}

/// Does what is to be done with a batch that exists and has no live conductor.
///
/// # Errors
///
/// Somebody else conducts it, it has ended and nothing is to be resumed, or it could not go on.
pub fn conduct(
    setup: &mut Setup,
    store: Store,
    batch: BatchId,
    goal: &Goal,
    observer: &mut dyn Observer,
) -> Result<BatchEnd, ConductorError> {
    check_platform()?;
    setup.workspace.refuse_untrusted()?;
    let lock = lock(setup, batch)?;
    let stored = store.read(|reader| reader.batch(batch))?;
    let settings = match goal {
        Goal::Resume(settings, _) => (**settings).clone(),
        Goal::Stop(_) | Goal::Pass(_) => stored.settings.clone(),
    };
    let mut hooked = hooked(setup, observer);
    let ended = within_runtime(async {
        let mut conductor = Conductor::new(setup, store, batch, settings, lock, &mut hooked)?;
        conductor.pick_up(&stored, goal)?;
        conductor.conduct().await
    });
    hooked.finish();
    ended
}

fn lock(setup: &Setup, batch: BatchId) -> Result<BatchLock, ConductorError> {
    setup
        .workspace
        .lock_batch(batch)?
        .map_err(|holder| ConductorError::Conducted { batch, holder })
}

fn check_platform() -> Result<(), ConductorError> {
    if !process::proc_available() {
        return Err(ConductorError::Platform(
            "/proc is not mounted, and without it the end of an agent cannot be verified",
        ));
    }
    Ok(())
}

fn within_runtime<T>(
    work: impl Future<Output = Result<T, ConductorError>>,
) -> Result<T, ConductorError> {
    event_loop()?.block_on(work)
}

/// An event loop for this thread.
///
/// # Errors
///
/// The system has no descriptors left for it.
pub(crate) fn event_loop() -> Result<Runtime, ConductorError> {
    has_room_for_a_loop()
        .and_then(|()| Builder::new_current_thread().enable_all().build())
        .map_err(|source| ConductorError::System {
            what: "start the event loop",
            source,
        })
}

/// Sees whether there are as many descriptors as an event loop takes: tokio panics when it can have none for what it
/// hears of signals by.
fn has_room_for_a_loop() -> io::Result<()> {
    // Three to wait with, three to hear of signals.
    let pairs = [UnixStream::pair(), UnixStream::pair(), UnixStream::pair()];
    pairs.into_iter().try_for_each(|pair| pair.map(drop))
}

/// What became true outside while the loop waited.
#[derive(Debug, Default)]
struct Woken {
    notes: Vec<Note>,
    arrivals: Vec<Arrival>,
    done: Vec<Done>,
    signals: u32,
    /// Somebody has committed.
    commit: bool,
}

struct Conductor<'a> {
    setup: &'a mut Setup,
    store: Store,
    core: Core,
    executor: LocalExecutor,
    observer: &'a mut dyn Observer,
    watch: Watch,
    alarm: Alarm,
    signals: Vec<Signal>,
    /// Attempts that ended and are not stored yet.
    pending: Vec<Judged>,
    data_version: Option<i64>,
    /// What others changed and no transaction has taken in yet.
    news: News,
    /// Tasks that a source could not read, asked about again with the next tick.
    unread: BTreeSet<TaskId>,
    unread_at: Duration,
    /// On the loop's clock, when the sources other than the store were asked about everything last.
    last_pass: Option<Duration>,
    /// How many times in a row no supervisor could be started.
    failed_starts: u32,
    /// On the loop's clock, until when no further supervisor is started, because one could not be.
    short_until: Duration,
    /// On the loop's clock, since when the store refuses.
    trouble_since: Duration,
    /// The loop goes round once more without waiting.
    look_again: bool,
    last_tick: Duration,
    /// A tick has gone by since claims of others were looked at.
    ticked: bool,
    /// A signal asked for a stop that could not be stored yet.
    stop_to_store: bool,
    stop_sent: bool,
    last_instant: Instant,
    next_tick: Option<Instant>,
    signals_seen: u32,
    store_trouble: bool,
    /// What is written outside a turn fails, though turns that write nothing succeed.
    writes_fail: bool,
    trouble_told: bool,
    /// That an agent's files cannot be written was said, and none could be since.
    launch_trouble: bool,
    source_trouble: HashMap<String, String>,
    database: (PathBuf, u64),
    /// Nothing is started; the loop leaves when nothing is running any more.
    only_pass: bool,
    /// Looks at GitHub, when it is followed.
    follower: Option<Follower>,
    /// Looks that arrived and are not stored yet.
    arrivals: Vec<Arrival>,
    /// What git does beside the loop.
    trees: Trees,
    /// What agents inherit of the caller's environment.
    inherited: InheritedBy,
    /// What was made for attempts that are still to come.
    ahead: Ahead,
    /// When the next is made: not right after one could not be.
    ahead_from: Duration,
    /// Attempts of dead supervisors whose remains are being stopped: a note tells when they are gone.
    sweeping: BTreeSet<AttemptId>,
    /// Which supervisors of dead conductors, that are waited for, were found stopped with the last tick.
    found_stopped: FoundStopped,
    _lock: BatchLock,
}

impl<'a> Conductor<'a> {
    fn new(
        setup: &'a mut Setup,
        mut store: Store,
        batch: BatchId,
        settings: Settings,
        lock: BatchLock,
        observer: &'a mut dyn Observer,
    ) -> Result<Self, ConductorError> {
        recover::clean_up_all(&mut store, &Actor::Batch(batch))?;
        recover::files::remove_of_the_dead(&setup.workspace, &store, batch)?;
        setup.workspace.link_program(&setup.program)?;
        let system = |what| move |source| ConductorError::System { what, source };
        process::close_on_exec_all();
        process::become_subreaper().map_err(system("become the parent of orphaned processes"))?;
        process::make_undumpable().map_err(system("close this process to others"))?;
        let files = process::make_room_for_files(files_for(settings.slots()))
            .map_err(system("raise the limit of open files"))?;
        let executor = LocalExecutor::new(LocalOptions {
            lost_grace: settings.kill_grace,
            subreaper: true,
            files,
            ..LocalOptions::new(setup.workspace.supervisors())
        })
        .map_err(system("prepare the supervisors"))?;
        let path = store.path().to_owned();
        let inode = std::fs::metadata(&path)
            .map(|meta| meta.ino())
            .map_err(system("find the database"))?;
        let rules = setup
            .engines
            .iter()
            .map(|engine| (engine.name.to_string(), engine.success))
            .collect();
        // Programs tie a session to the folder in which it began, and some never answer in another one.
        let same_folder = settings.isolation == cf_core::Isolation::None;
        let resumable = setup
            .engines
            .iter()
            .filter(|engine| same_folder && !engine.resume_args.is_empty())
            .map(|engine| engine.name.to_string())
            .collect();
        Ok(Self {
            watch: Watch::new(&setup.workspace.wake_file()),
            alarm: Alarm::new(),
            signals: stopping_signals()?,
            core: Core {
                resumable,
                ..Core::new(batch, settings, rules)
            },
            setup,
            store,
            executor,
            observer,
            pending: Vec::new(),
            data_version: None,
            news: News::default(),
            unread: BTreeSet::new(),
            unread_at: Duration::ZERO,
            last_pass: None,
            failed_starts: 0,
            short_until: Duration::ZERO,
            trouble_since: Duration::ZERO,
            look_again: false,
            last_tick: Duration::ZERO,
            ticked: true,
            stop_to_store: false,
            stop_sent: false,
            last_instant: Instant::now(),
            next_tick: None,
            signals_seen: 0,
            store_trouble: false,
            writes_fail: false,
            trouble_told: false,
            launch_trouble: false,
            source_trouble: HashMap::new(),
            database: (path, inode),
            only_pass: false,
            follower: None,
            arrivals: Vec::new(),
            trees: Trees::default(),
            inherited: InheritedBy::default(),
            ahead: Ahead::new(),
            ahead_from: Duration::ZERO,
            sweeping: BTreeSet::new(),
            found_stopped: FoundStopped::default(),
            _lock: lock,
        })
    }

    /// Stores a new batch and takes its tasks up, in one transaction.
    fn begin(
        &mut self,
        tasks: &[TaskId],
        again: Again,
        base: Option<&str>,
    ) -> Result<(), ConductorError> {
        let ((), events) = self
            .core
            .write(&mut self.store, Durability::Full, |core, tx| {
                core.begin(tx, tasks, again, base)
            })?;
        self.observer.events(&events);
        Ok(())
    }

    /// Takes up a batch that exists: finds what its attempts have come to, and what is left to do.
    fn pick_up(&mut self, stored: &Batch, goal: &Goal) -> Result<(), ConductorError> {
        let batch = self.core.batch;
        let mut base = None;
        if self.core.needs_base(goal) {
            base = self.store.read(|reader| reader.batch_base(batch))?;
            if base.is_none() {
                let settings = self.core.settings.clone();
                let repository = self.trees.repository(self.setup, &settings)?;
                base = Some(repository.base()?.commit);
            }
        }
        let (open, events) = self
            .core
            .write(&mut self.store, Durability::Full, |core, tx| {
                core.pick_up(tx, stored, goal, base.as_deref())
            })?;
        self.only_pass = matches!(goal, Goal::Pass(_));
        self.observer.events(&events);
        for attempt in open {
            self.adopt(&attempt)?;
            fault::point("adopted");
        }
        Ok(())
    }

    /// Has the end of an attempt heard that was left by a dead conductor.
    fn adopt(&mut self, attempt: &Attempt) -> Result<(), ConductorError> {
        match self
            .executor
            .adopt(&attempt.supervisor, attempt.id, attempt.stage)?
        {
            Adopted::Running => {}
            Adopted::Sweeping => {
                self.sweeping.insert(attempt.id);
            }
            Adopted::Settled(fate) => {
                self.take_note(&Note {
                    supervisor: attempt.supervisor.supervisor,
                    attempt: attempt.id,
                    stage: attempt.stage,
                    fate,
                });
            }
        }
        Ok(())
    }

    /// Runs turns until the batch is over. Whatever goes wrong for good, no agent is left running unnamed.
    async fn conduct(&mut self) -> Result<BatchEnd, ConductorError> {
        // From here on there are agents to look after, so other writers are not waited for at length.
        self.store.be_the_conductors()?;
        let begun = self.begin_following().and_then(|()| self.tidy_leftovers());
        let turned = match begun {
            Ok(()) => self.turns().await,
            Err(error) => Err(error),
        };
        self.remove_ahead();
        if turned.is_ok() {
            self.watch.end();
        }
        match turned {
            Ok(end) => {
                self.give_up_looks();
                // Everything that they reported has been stored.
                for idle in self.core.at_gate.drain(..) {
                    self.executor.release(idle.identity.supervisor);
                }
                self.finish_trees().await;
                self.executor.retire_all().await;
                fault::point("supervisors.retired");
                Ok(end)
            }
            Err(error) => {
                let survivors = self.abandon().await;
                self.executor.retire_all().await;
                Err(match error {
                    ConductorError::Vanished { path, .. } => {
                        ConductorError::Vanished { path, survivors }
                    }
                    other if self.core.running.is_empty() && survivors.is_empty() => other,
                    other => ConductorError::Abandoned {
                        source: Box::new(other),
                        survivors,
                    },
                })
            }
        }
    }

    async fn turns(&mut self) -> Result<BatchEnd, ConductorError> {
        let mut woken = Woken::default();
        loop {
            self.advance_clock();
            self.check_database()?;
            self.take_signals(woken.signals)?;
            for note in std::mem::take(&mut woken.notes) {
                self.take_note(&note);
            }
            self.arrivals.append(&mut woken.arrivals);
            self.trees.arrived.append(&mut woken.done);
            self.ready_supervisors().await?;
            self.tick(woken.commit)?;
            let events = match self.one_turn() {
                Ok(events) => events,
                Err(ConductorError::Store(error)) if error.is_transient() => {
                    self.bear_with_store(error)?;
                    woken = self.wait(STORE_PAUSE).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            if events.is_empty() {
                self.store_is_well();
            } else {
                self.writes_succeed();
            }
            // Agents are started and stopped before it is told.
            let done = self.effects();
            self.observer.events(&events);
            done?;
            self.follow();
            if self.only_pass
                && self.sweeping.is_empty()
                && self.trees.is_idle()
                && self.pending.is_empty()
                && self.core.relook.is_empty()
                && self.core.nothing_is_stopping()
            {
                return self.leave();
            }
            if self.pending.is_empty()
                && self.core.relook.is_empty()
                && self.core.is_over()
                && let Some(end) = self.try_end()?
            {
                return Ok(end);
            }
            self.make_ahead();
            let wait = self.longest_wait();
            woken = self.wait(wait).await;
        }
    }

    // ---- one turn ---------------------------------------------------------------------------------------------

    /// Returns what was stored, which is still to be told.
    fn one_turn(&mut self) -> Result<Vec<Event>, ConductorError> {
        if self.core.must_reload {
            self.core.reload(&self.store, &self.pending)?;
        }
        let version = self.store.data_version()?;
        if self.data_version != Some(version) {
            let read = self.core.look(&self.store)?;
            let before = std::mem::replace(&mut self.news, read);
            self.news.after(before);
            self.data_version = Some(version);
        }
        if !self.news.joined.is_empty() {
            let (core, news) = (&mut self.core, &mut self.news);
            let joined = self.store.read(|reader| core.take_joined(reader, news))?;
            self.observer.events(&joined);
            if self.core.must_reload {
                self.core.reload(&self.store, &self.pending)?;
            }
        }
        if self.stop_to_store {
            self.news.stop = Some(Stop::Force);
        }
        self.relink()?;
        while let Some(arrival) = self.arrivals.pop() {
            if let Err(error) = self.arrive(&arrival) {
                self.arrivals.push(arrival);
                return Err(error);
            }
        }
        self.take_done()?;
        self.settle_claims_of_the_dead()?;
        let merged = self.pass();
        let Some(durability) = self.core.due(&self.pending, &self.news, &merged) else {
            return Ok(Vec::new());
        };
        let kept = (self.core.at_gate.clone(), self.core.unverified.clone());
        let fresh = self.core.fresh.clone();
        let (pending, news, stop_to_store) = (&self.pending, &self.news, self.stop_to_store);
        let done = self.core.write(&mut self.store, durability, |core, tx| {
            if stop_to_store {
                tx.request_stop(core.batch, Stop::Force)?;
            }
            core.turn(tx, news, pending, merged)
        });
        match done {
            Ok(((), events)) => {
                self.pending.clear();
                self.news = News::default();
                self.stop_to_store = false;
                if self.core.nobody_else
                    && let Some(last) = events.last()
                {
                    self.core.seen_seq = last.seq;
                }
                Ok(events)
            }
            Err(error) => {
                self.core.forget_turn(kept);
                self.forget_ahead(fresh);
                Err(error.into())
            }
        }
    }

    /// Asks the sources: about what changed and what must be looked at again; and, before the first dispatch, by the
    /// interval and before a spawn, the sources that change without anybody committing.
    fn pass(&mut self) -> Vec<cf_reconcile::Merged> {
        let mut ask = self.core.due_a_look(&self.news);
        if self.core.clock.saturating_sub(self.unread_at) >= TICK {
            ask.append(&mut self.unread);
        }
        if !self.core.passes_off() && self.setup.registry.has_others() {
            ask.extend(self.due_for_others());
        }
        ask.retain(|task| self.core.is_in_hand(*task));
        let asked = self.core.asked(ask);
        let pass = self.setup.registry.check(&self.store, &asked);
        for unread in pass.unknown {
            self.source_is_not_well(unread.source.as_str(), &unread.why);
            self.unread.extend(unread.tasks);
            self.unread_at = self.core.clock;
        }
        let mut merged = pass.merged;
        if self.core.passes_off() && !self.only_pass {
            merged.retain(|found| found.winner.action == ReconcileAction::None);
        }
        merged
    }

    /// The tasks about which sources other than the store are to be asked now: all that have no outcome when the
    /// interval is over, else those that are about to start.
    fn due_for_others(&mut self) -> Vec<TaskId> {
        let interval = self.core.settings.reconcile_interval;
        let due = self
            .last_pass
            .is_none_or(|last| self.core.clock.saturating_sub(last) >= interval);
        if due {
            self.last_pass = Some(self.core.clock);
            let open = |task: &TaskId| {
                self.core
                    .schedule
                    .row(*task)
                    .is_some_and(|row| row.outcome.is_none())
            };
            return self.core.schedule.members().filter(open).collect();
        }
        let free = self
            .core
            .schedule
            .slots()
            .saturating_sub(self.core.schedule.busy());
        self.core.schedule.upcoming(free).collect()
    }

    /// A claim whose conductor is gone and whose attempt has ended is settled by whoever meets it: here, by taking the
    /// attempt over. Before that its supervisor may have to be let go on.
    fn settle_claims_of_the_dead(&mut self) -> Result<(), ConductorError> {
        let waits = self.core.schedule.waits_for_claims();
        let ticked = std::mem::take(&mut self.ticked);
        if !waits || (!ticked && self.news.is_empty()) {
            return Ok(());
        }
        let mut alive = Vec::new();
        let mut waited: Vec<TaskId> = self.core.schedule.waited_for().collect();
        waited.retain(|task| self.core.is_in_hand(*task));
        for task in waited {
            let open = self.store.read(|reader| reader.open_attempts_of(task))?;
            let batch = self.core.batch;
            for attempt in open
                .iter()
                .filter(|attempt| attempt.batch != batch && attempt.end.is_none())
            {
                if self.setup.workspace.conductor_of(attempt.batch).is_some() {
                    continue;
                }
                if recover::is_alive(&self.setup.workspace, attempt) {
                    alive.push(attempt.supervisor.clone());
                    continue;
                }
                let Ok(_theirs) = self.setup.workspace.lock_batch(attempt.batch)? else {
                    continue;
                };
                let Some(events) = self.core.take_over(&mut self.store, attempt)? else {
                    continue;
                };
                self.observer.events(&events);
                self.adopt(attempt)?;
            }
            // A claim without any attempt, of a batch that is gone: its conductor died between two attempts.
            let claim = self
                .store
                .read(|reader| reader.standing(task))?
                .and_then(|standing| standing.claim);
            let Some(dead) = claim.filter(|batch| *batch != self.core.batch && open.is_empty())
            else {
                continue;
            };
            let Ok(_theirs) = self.setup.workspace.lock_batch(dead)? else {
                continue;
            };
            let by = self.core.actor();
            let ((), events) = self
                .store
                .write_as(&by, Durability::Full, |tx| tx.release_claim(task, dead))?;
            self.wrote_aside(&events);
        }
        if ticked {
            self.found_stopped.look(&alive);
        }
        Ok(())
    }

    // ---- the end --------------------------------------------------------------------------

    /// Looks after what ends without telling: orphans that came to this process, and survivors of unclean stops. What
    /// somebody has committed is acted upon first, unless that goes on and on.
    fn tick(&mut self, after_commit: bool) -> Result<(), ConductorError> {
        let every = if after_commit { 2 * TICK } else { TICK };
        if self.core.clock.saturating_sub(self.last_tick) < every {
            return Ok(());
        }
        self.last_tick = self.core.clock;
        self.ticked = true;
        self.executor.reap();
        self.executor.wake_the_stopped();
        if self.core.unclean.is_empty() && !self.core.schedule.waits_for_claims() {
            self.nothing_aside();
            return Ok(());
        }
        match self.core.clean_up(&mut self.store) {
            Ok(events) => {
                if events.is_empty() {
                    self.nothing_aside();
                } else {
                    self.writes_succeed();
                }
                self.wrote_aside(&events);
                Ok(())
            }
            Err(error) if error.is_transient() => {
                self.writes_fail = true;
                self.bear_with_store(error)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What was stored outside a turn is read like anybody else's word.
    fn wrote_aside(&mut self, events: &[Event]) {
        if !events.is_empty() {
            self.data_version = None;
            self.observer.events(events);
        }
    }

    /// Leaves a batch as it is, after a pass by hand. What runs goes on under its supervisors.
    fn leave(&self) -> Result<BatchEnd, ConductorError> {
        let batch = self.core.batch;
        let status = self.store.read(|reader| reader.batch(batch))?.status;
        Ok(BatchEnd {
            batch,
            status,
            exit_code: 0,
        })
    }

    /// Ends the batch, unless somebody has said something since the last look: that is looked at first.
    fn try_end(&mut self) -> Result<Option<BatchEnd>, ConductorError> {
        let ended = self
            .core
            .write(&mut self.store, Durability::Full, |core, tx| {
                if tx.reader().last_seq()? != core.seen_seq {
                    return Ok(None);
                }
                core.end(tx).map(Some)
            });
        match ended {
            Ok((Some((status, exit)), events)) => {
                self.writes_succeed();
                self.observer.events(&events);
                Ok(Some(BatchEnd {
                    batch: self.core.batch,
                    status,
                    exit_code: exit.code(),
                }))
            }
            Ok((None, _)) => {
                self.data_version = None;
                self.look_again = true;
                Ok(None)
            }
            Err(error) if error.is_transient() => {
                self.writes_fail = true;
                self.bear_with_store(error)?;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}
