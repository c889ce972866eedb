//! The loop itself: it waits, looks, decides with [`Core::turn`], stores, and then lets the effects happen.

mod ahead;
mod arrival;
mod follow;
mod looks;
mod trees;

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cf_core::{Actor, AttemptId, BatchId, TaskId};
use cf_reconcile::ReconcileAction;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::launch::{self, Launch};
use super::plan::Plan;
use super::settle::Judged;
use super::take_up::Again;
use super::turn::{AtGate, Core, News};
use ahead::Ahead;
use looks::{Arrival, Follower, next_arrival};
use trees::{Done, Trees, next_done};

use super::begin::TICK;
use super::{BatchEnd, ConductorError, Notice, Observer, Setup, recover};
use crate::executor::{Adopted, Executor, ExecutorError, Fate, LocalExecutor, LocalOptions, Note};
use crate::fault;
use crate::hooks::Hooked;
use crate::process;
use crate::settings::Settings;
use crate::store::batch::{Batch, Stop};
use crate::store::event::Event;
use crate::store::{Durability, Store, StoreError};
use crate::wake::Watch;
use crate::workspace::BatchLock;

/// The same where the system tells of no changes.
const POLL: Duration = Duration::from_millis(100);

/// How long a store that refused is left alone before the next try.
const STORE_PAUSE: Duration = Duration::from_millis(200);

/// After how many failed tries, a second apart, a batch without any supervisor gives up.
const FAILED_STARTS: u32 = 10;

/// How many files a conductor may have open with so many slots. A supervisor takes two pipes, and for a moment those
/// of its start; one that is adopted takes a pidfd. The others are the database, its log, the watch, GitHub and git.
const fn files_for(slots: usize) -> u64 {
    3 * slots as u64 + 64
}

/// How long others may keep the store busy before that is said.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long a batch that a signal stopped, and whose agents have ended, waits for a store that refuses.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// How long, beyond the grace, the end of agents is waited for when the batch cannot go on.
const ABANDON: Duration = Duration::from_secs(10);

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
        let again = if plan.force { Again::Yes } else { Again::No };
        let base = plan.base.as_ref().map(|base| base.commit.as_str());
        conductor.begin(&plan.tasks, again, base)?;
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
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| ConductorError::System {
            what: "start the event loop",
            source,
        })?;
    runtime.block_on(work)
}

/// What became true outside while the loop waited.
#[derive(Debug, Default)]
struct Woken {
    notes: Vec<Note>,
    arrivals: Vec<Arrival>,
    done: Vec<Done>,
    signals: u32,
}

struct Conductor<'a> {
    setup: &'a mut Setup,
    store: Store,
    core: Core,
    executor: LocalExecutor,
    observer: &'a mut dyn Observer,
    watch: Watch,
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
    /// What was made for attempts that are still to come.
    ahead: Ahead,
    /// Attempts of dead supervisors whose remains are being stopped: a note tells when they are gone.
    sweeping: BTreeSet<AttemptId>,
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
            ahead: Ahead::new(),
            sweeping: BTreeSet::new(),
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
            fault::point("adopted");
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
        match turned {
            Ok(end) => {
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
            self.tick()?;
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

    /// Goes on without the store for now, or leaves when nothing is gained by waiting for it.
    ///
    /// # Errors
    ///
    /// The one given, when no agent is left to be looked after and either the store was waited for in vain after a
    /// request to stop, or this process can never write what it has to. What could not be stored is in the records of
    /// the supervisors then, and the batch can be resumed.
    fn bear_with_store(&mut self, error: StoreError) -> Result<(), ConductorError> {
        self.store_is_not_well(&error);
        if self.stop_to_store && !self.stop_sent {
            // The agents are told to end whether or not the store takes the word down.
            self.stop_sent = true;
            self.tell_all_to_end(self.core.settings.kill_grace)?;
        }
        let lasted = self.core.clock.saturating_sub(self.trouble_since);
        let asked = self.signals_seen > 1 || (self.signals_seen > 0 && lasted >= LAST_WORDS);
        if (asked || error.is_file_limit(&self.database.0)) && self.executor.running().is_empty() {
            return Err(error.into());
        }
        Ok(())
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
    /// attempt over.
    fn settle_claims_of_the_dead(&mut self) -> Result<(), ConductorError> {
        let waits = self.core.schedule.waits_for_claims();
        let due = !self.news.is_empty() || std::mem::take(&mut self.ticked);
        if !waits || !due {
            return Ok(());
        }
        let waited: Vec<TaskId> = self.core.schedule.waited_for().collect();
        for task in waited {
            let open = self.store.read(|reader| reader.open_attempts_of(task))?;
            let batch = self.core.batch;
            for attempt in open
                .iter()
                .filter(|attempt| attempt.batch != batch && attempt.end.is_none())
            {
                if self.setup.workspace.conductor_of(attempt.batch).is_some()
                    || recover::is_alive(&self.setup.workspace, attempt)
                {
                    continue;
                }
                let Ok(_theirs) = self.setup.workspace.lock_batch(attempt.batch)? else {
                    continue;
                };
                let Some(events) = self.core.take_over(&mut self.store, attempt)? else {
                    continue;
                };
                self.observer.events(&events);
                if let Adopted::Settled(fate) =
                    self.executor
                        .adopt(&attempt.supervisor, attempt.id, attempt.stage)?
                {
                    self.take_note(&Note {
                        supervisor: attempt.supervisor.supervisor,
                        attempt: attempt.id,
                        stage: attempt.stage,
                        fate,
                    });
                }
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
        Ok(())
    }

    // ---- effects, after the commit ------------------------------------------------------------------------------

    fn effects(&mut self) -> Result<(), ConductorError> {
        for supervisor in std::mem::take(&mut self.core.released) {
            self.executor.release(supervisor);
        }
        for launch in std::mem::take(&mut self.core.launches) {
            if launch.tree.is_some() && launch.stage == crate::supervise::Stage::Agent {
                self.prepare_tree(launch);
            } else {
                self.launch(&launch);
            }
        }
        for keep in std::mem::take(&mut self.core.keeps) {
            self.keep(keep);
        }
        for tidy in std::mem::take(&mut self.core.tidies) {
            self.tidy(tidy);
        }
        self.give_contexts();
        for (attempt, _, grace) in std::mem::take(&mut self.core.stops) {
            let running = self
                .core
                .by_attempt
                .get(&attempt)
                .and_then(|task| self.core.running.get(task));
            self.trees.cancel(attempt);
            if let Some(supervisor) = running.map(|running| running.identity.supervisor) {
                let grace = if self.signals_seen > 1 {
                    Duration::ZERO
                } else {
                    grace
                };
                self.executor.stop(supervisor, grace)?;
                fault::point("stop.sent");
            }
        }
        Ok(())
    }

    /// Writes an attempt's files and opens the gate. When that fails here, its agent never started; when the job itself
    /// is impossible, trying again would not help.
    fn launch(&mut self, launch: &Launch) {
        let supervisor = launch.identity.supervisor;
        let directory = self.trees.directory(self.setup, launch);
        let made = launch::job(
            self.setup,
            &self.store,
            &self.core.settings,
            self.core.batch,
            launch,
            &directory,
            self.ahead.remove(&launch.attempt),
        );
        let failed = |error: &dyn std::error::Error| Fate::SpawnFailed {
            error: crate::chain(error),
            passing: false,
        };
        let fate = match made {
            Ok(job) => {
                self.launch_trouble = false;
                fault::point("launch.prepared");
                let sent = self.executor.submit(supervisor, &job);
                fault::point("launch.sent");
                match sent {
                    Ok(()) => return,
                    // Nothing of it went through the gate.
                    Err(error @ ExecutorError::Job(_)) => failed(&error),
                    Err(_) => {
                        match self
                            .executor
                            .adopt(&launch.identity, launch.attempt, launch.stage)
                        {
                            // The supervisor has it after all, or may have it: its note will tell.
                            Ok(Adopted::Running | Adopted::Sweeping) => return,
                            Ok(Adopted::Settled(Fate::Ended(ended))) => Fate::Ended(ended),
                            _ => Fate::NeverStarted,
                        }
                    }
                }
            }
            Err(error) if error.is_passing() => {
                if !std::mem::replace(&mut self.launch_trouble, true) {
                    self.observer.notice(&Notice::Unavailable {
                        what: "start of an agent".to_owned(),
                        why: crate::chain(&error),
                    });
                }
                Fate::NeverStarted
            }
            Err(error) => failed(&error),
        };
        self.take_note(&Note {
            supervisor,
            attempt: launch.attempt,
            stage: launch.stage,
            fate,
        });
    }

    fn take_note(&mut self, note: &Note) {
        fault::point("end.heard");
        self.sweeping.remove(&note.attempt);
        let running = self
            .core
            .by_attempt
            .get(&note.attempt)
            .and_then(|task| self.core.running.get(task));
        match running {
            Some(running) => {
                let judged = recover::judge(self.setup, running, note);
                if fault::is_broken("outcome.apart") {
                    let by = self.core.actor();
                    let apart = self
                        .store
                        .write(&by, |tx| tx.end_attempt(note.attempt, &judged.result));
                    tracing::debug!(is_stored = apart.is_ok(), "broken on purpose");
                }
                self.pending.push(judged);
            }
            None => self.executor.release(note.supervisor),
        }
    }

    /// Has as many supervisors at their gates as the next turn can use. A signal is heard meanwhile.
    async fn ready_supervisors(&mut self) -> Result<(), ConductorError> {
        if self.core.holds_off() || self.core.clock < self.short_until {
            return Ok(());
        }
        let wanted = self.core.wanted_at_gate();
        while self.core.at_gate.len() > wanted {
            let Some(extra) = self.core.at_gate.pop() else {
                break;
            };
            self.executor.release(extra.identity.supervisor);
        }
        let missing = wanted.saturating_sub(self.core.at_gate.len());
        let short = self.executor.warm(missing).err();
        let attainable = match &short {
            None => wanted,
            Some(_) => wanted.min(self.core.at_gate.len() + self.executor.at_hand()),
        };
        while self.core.at_gate.len() < attainable {
            let acquired = tokio::select! {
                acquired = self.executor.acquire() => Some(acquired),
                () = any_signal(&mut self.signals) => None,
            };
            match acquired {
                Some(Ok(identity)) => {
                    fault::point("supervisor.ready");
                    self.core.at_gate.push(AtGate { identity, jobs: 0 });
                }
                None => {
                    self.take_signals(1)?;
                    return Ok(());
                }
                // The signal of a terminal reaches a supervisor that has no session of its own yet.
                Some(Err(_)) if ready(any_signal(&mut self.signals)).is_some() => {
                    self.take_signals(1)?;
                    return Ok(());
                }
                Some(Err(error)) => return self.no_supervisor(error),
            }
        }
        if let Some(error) = short {
            return self.no_supervisor(error);
        }
        self.failed_starts = 0;
        Ok(())
    }

    /// A supervisor could not be started. The batch goes on with those that there are and tries again; when there is
    /// none for a while, it cannot go on.
    fn no_supervisor(&mut self, error: ExecutorError) -> Result<(), ConductorError> {
        self.failed_starts += 1;
        if self.failed_starts >= FAILED_STARTS
            && self.core.running.is_empty()
            && self.core.at_gate.is_empty()
        {
            return Err(error.into());
        }
        if self.failed_starts == 1 {
            let mut why = crate::chain(&error);
            if error.is_for_want_of_files() {
                let slots = self.core.settings.slots();
                let _ = write!(
                    why,
                    "; {slots} agents at once need up to {} open files, and the limit is {}: raise it (`ulimit -Hn`), \
                     or ask for fewer (--max-parallel)",
                    files_for(slots),
                    process::most_files().unwrap_or_default()
                );
            }
            self.observer.notice(&Notice::Unavailable {
                what: "start of an agent".to_owned(),
                why,
            });
        }
        self.short_until = self.core.clock + TICK;
        Ok(())
    }

    // ---- waiting ------------------------------------------------------------------------------------------------

    fn longest_wait(&mut self) -> Duration {
        if std::mem::take(&mut self.look_again) {
            return Duration::ZERO;
        }
        let mut wait = if self.watch.has_events() { TICK } else { POLL };
        // What nothing can be started for is not waited for by the clock.
        let short = self.short_until.saturating_sub(self.core.clock);
        let can_start =
            !self.core.holds_off() && (short.is_zero() || !self.core.at_gate.is_empty());
        if !short.is_zero() {
            wait = wait.min(short);
        }
        if let Some(due) = self.core.next_due().filter(|_| can_start) {
            let left = due.duration_since(self.core.time());
            wait = wait.min(Duration::try_from(left).unwrap_or(Duration::ZERO));
        }
        if let Some(follows) = self.longest_follow_wait() {
            wait = wait.min(follows);
        }
        let held_off = self
            .core
            .hold_off
            .and_then(|until| until.checked_sub(self.core.clock));
        if let Some(left) = held_off.filter(|left| !left.is_zero()) {
            wait = wait.min(left);
        }
        if !self.pending.is_empty()
            || (!self.core.unverified.is_empty() && can_start)
            || !self.core.relook.is_empty()
        {
            wait = if self.store_trouble {
                STORE_PAUSE
            } else {
                Duration::ZERO
            };
        }
        if self.writes_fail {
            wait = wait.max(STORE_PAUSE);
        }
        wait
    }

    async fn wait(&mut self, longest: Duration) -> Woken {
        let mut woken = Woken::default();
        let until = tokio::time::Instant::now() + longest;
        let tick = self.observer.tick_every();
        loop {
            let next_tick =
                tick.map(|every| *self.next_tick.get_or_insert_with(|| Instant::now() + every));
            let tick_at =
                next_tick.map_or(until, |at| until.min(tokio::time::Instant::from_std(at)));
            tokio::select! {
                biased;
                note = self.executor.note() => {
                    woken.notes.push(note);
                    // What ended at the same time is settled together.
                    while let Some(note) = ready(self.executor.note()) {
                        woken.notes.push(note);
                    }
                    return woken;
                }
                () = self.watch.woken() => return woken,
                done = next_done(&mut self.trees) => {
                    woken.done.push(done);
                    return woken;
                }
                arrival = next_arrival(&mut self.follower) => {
                    woken.arrivals.push(arrival);
                    return woken;
                }
                () = any_signal(&mut self.signals) => {
                    woken.signals += 1;
                    return woken;
                }
                () = tokio::time::sleep_until(tick_at) => {
                    if next_tick.is_some_and(|at| at <= Instant::now()) {
                        self.next_tick = None;
                        self.observer.tick();
                    }
                    if tokio::time::Instant::now() >= until {
                        return woken;
                    }
                }
            }
        }
    }

    /// Moves the loop's clock on. A gap in its own ticks, as after a suspend, is counted as one tick.
    fn advance_clock(&mut self) {
        let gone = self.last_instant.elapsed();
        self.last_instant = Instant::now();
        self.core.clock += if gone > 3 * TICK { TICK } else { gone };
    }

    // ---- signals, trouble, and the end --------------------------------------------------------------------------

    /// The first signal stops the batch with the grace; a further one ends its agents at once.
    fn take_signals(&mut self, count: u32) -> Result<(), ConductorError> {
        for _ in 0..count {
            self.signals_seen += 1;
            self.core.signalled = true;
            if self.signals_seen == 1 {
                self.observer.notice(&Notice::Stopping);
                self.stop_to_store = true;
            } else {
                self.tell_all_to_end(Duration::ZERO)?;
            }
            if self.signals_seen > 2 {
                // Whatever git is at stays in the worktrees.
                self.trees.cancel_all();
            }
        }
        Ok(())
    }

    fn tell_all_to_end(&mut self, grace: Duration) -> Result<(), ConductorError> {
        let live: Vec<_> = self
            .core
            .running
            .values()
            .map(|r| r.identity.supervisor)
            .collect();
        for supervisor in live {
            self.executor.stop(supervisor, grace)?;
        }
        let starting: Vec<_> = self.core.by_attempt.keys().copied().collect();
        for attempt in starting {
            self.trees.cancel(attempt);
        }
        Ok(())
    }

    /// Looks after what ends without telling: orphans that came to this process, and survivors of unclean stops.
    fn tick(&mut self) -> Result<(), ConductorError> {
        if self.core.clock.saturating_sub(self.last_tick) < TICK {
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

    /// Stops what runs because the batch cannot go on; nothing can be stored any more. Returns what could not be
    /// stopped in time.
    async fn abandon(&mut self) -> Vec<(TaskId, AttemptId)> {
        let grace = self.core.settings.kill_grace;
        self.trees.cancel_all();
        let mut live: HashMap<AttemptId, TaskId> = HashMap::new();
        for running in self.core.running.values() {
            live.insert(running.attempt, running.task);
            let _ = self.executor.stop(running.identity.supervisor, grace);
        }
        // Of an attempt whose worktree is made, or whose work is kept, nothing runs.
        let runs: Vec<AttemptId> = self
            .executor
            .running()
            .iter()
            .map(|running| running.attempt)
            .collect();
        live.retain(|attempt, _| runs.contains(attempt));
        let deadline = tokio::time::Instant::now() + grace + ABANDON;
        while !live.is_empty() {
            match tokio::time::timeout_at(deadline, self.executor.note()).await {
                Ok(note) => live.remove(&note.attempt),
                Err(_) => break,
            };
        }
        live.into_iter()
            .map(|(attempt, task)| (task, attempt))
            .collect()
    }

    /// A store that is not where it was is not this batch's store any more.
    fn check_database(&self) -> Result<(), ConductorError> {
        let (path, inode) = &self.database;
        match std::fs::metadata(path) {
            Ok(meta) if meta.ino() == *inode => Ok(()),
            Ok(_) => Err(ConductorError::Vanished {
                path: path.clone(),
                survivors: Vec::new(),
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(ConductorError::Vanished {
                    path: path.clone(),
                    survivors: Vec::new(),
                })
            }
            // What cannot be looked at may be back in a moment.
            Err(_) => Ok(()),
        }
    }

    fn store_is_not_well(&mut self, error: &StoreError) {
        if !std::mem::replace(&mut self.store_trouble, true) {
            self.trouble_since = self.core.clock;
        }
        // Others who write are through in a moment, and nothing is lost by waiting for them.
        let patience = if error.is_busy() {
            PATIENCE
        } else {
            Duration::ZERO
        };
        let lasted = self.core.clock.saturating_sub(self.trouble_since);
        if lasted >= patience && !std::mem::replace(&mut self.trouble_told, true) {
            self.observer.notice(&Notice::Unavailable {
                what: "store".to_owned(),
                why: crate::chain(error),
            });
        }
    }

    /// What could not be written is nothing to write any more, as when somebody else has done it. The end of the batch
    /// is not of that kind.
    fn nothing_aside(&mut self) {
        self.writes_fail &= self.core.is_over();
    }

    /// The store has taken something.
    fn writes_succeed(&mut self) {
        self.writes_fail = false;
        self.store_is_well();
    }

    fn store_is_well(&mut self) {
        if self.writes_fail {
            return;
        }
        self.store_trouble = false;
        if std::mem::take(&mut self.trouble_told) {
            self.observer.notice(&Notice::Available {
                what: "store".to_owned(),
            });
        }
        if self.core.relook.is_empty() {
            for (what, _) in std::mem::take(&mut self.source_trouble) {
                self.observer.notice(&Notice::Available { what });
            }
        }
    }

    fn source_is_not_well(&mut self, source: &str, why: &str) {
        if !self.source_trouble.contains_key(source) {
            self.source_trouble
                .insert(source.to_owned(), why.to_owned());
            self.observer.notice(&Notice::Unavailable {
                what: source.to_owned(),
                why: why.to_owned(),
            });
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

/// The signals that stop a batch. One that whoever started this program told it to ignore (`nohup`) is not among them.
fn stopping_signals() -> Result<Vec<Signal>, ConductorError> {
    let kinds = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
    ];
    let heard = kinds
        .into_iter()
        .filter(|kind| !process::is_ignored(kind.as_raw_value()));
    heard
        .map(|kind| {
            signal(kind).map_err(|source| ConductorError::System {
                what: "listen for signals",
                source,
            })
        })
        .collect()
}

/// Waits for one of the signals that stop a batch.
async fn any_signal(signals: &mut [Signal]) {
    std::future::poll_fn(|context| {
        let came = signals
            .iter_mut()
            .any(|signal| signal.poll_recv(context).is_ready());
        if came {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
}

/// What a future gives at once, if it is ready.
fn ready<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(value) => Some(value),
        std::task::Poll::Pending => None,
    }
}
