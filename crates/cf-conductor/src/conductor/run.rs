//! The loop itself: it waits, looks, decides with [`Core::turn`], stores, and then lets the effects happen.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cf_core::{Actor, AttemptId, BatchId, TaskId};
use cf_reconcile::{Reason, ReconcileAction};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::launch::{self, Launch};
use super::plan::Plan;
use super::settle::Judged;
use super::take_up::{self, Again};
use super::turn::{AtGate, Core, News};
use super::{BatchEnd, ConductorError, Notice, Observer, Setup, recover, rows};
use crate::executor::{Adopted, Executor, Fate, LocalExecutor, LocalOptions, Note};
use crate::process;
use crate::settings::Settings;
use crate::store::batch::{Batch, BatchTask, Stop};
use crate::store::event::Event;
use crate::store::{Durability, Reader, Store, StoreError, now};
use crate::wake::Watch;
use crate::workspace::BatchLock;

/// The longest time between two looks when nothing wakes the loop: a writer that died between its commit and its poke
/// is noticed then.
const TICK: Duration = Duration::from_secs(1);

/// The same where the system tells of no changes.
const POLL: Duration = Duration::from_millis(100);

/// How long a store that refused is left alone before the next try.
const STORE_PAUSE: Duration = Duration::from_millis(200);

/// How long, beyond the grace, the end of agents is waited for when the batch cannot go on.
const ABANDON: Duration = Duration::from_secs(10);

/// What is to be done with a batch that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Take up what is unfinished and run it, with these settings; with `true` everything but what is MERGED.
    Resume(Settings, bool),
    /// End it: its conductor is gone, and somebody asked it to stop.
    Stop(Stop),
    /// Settle what can be settled without starting anything, then leave it as it is.
    Pass,
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
    within_runtime(async {
        let mut conductor =
            Conductor::new(setup, store, batch, plan.settings.clone(), lock, observer)?;
        let again = if plan.force { Again::Yes } else { Again::No };
        conductor.begin(&plan.tasks, again)?;
        conductor.conduct().await
    })
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
        Goal::Resume(settings, _) => settings.clone(),
        Goal::Stop(_) | Goal::Pass => stored.settings.clone(),
    };
    within_runtime(async {
        let mut conductor = Conductor::new(setup, store, batch, settings, lock, observer)?;
        conductor.pick_up(&stored, goal)?;
        conductor.conduct().await
    })
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
    look: bool,
    notes: Vec<Note>,
    signals: u32,
}

struct Conductor<'a> {
    setup: &'a mut Setup,
    store: Store,
    core: Core,
    executor: LocalExecutor,
    observer: &'a mut dyn Observer,
    watch: Watch,
    signals: [Signal; 3],
    /// Attempts that ended and are not stored yet.
    pending: Vec<Judged>,
    data_version: Option<i64>,
    last_pass: Duration,
    last_instant: Instant,
    next_tick: Option<Instant>,
    signals_seen: u32,
    store_trouble: bool,
    source_trouble: HashMap<String, String>,
    database: (PathBuf, u64),
    /// Nothing is started; the loop leaves when nothing is running any more.
    only_pass: bool,
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
        setup.workspace.link_program(&setup.program)?;
        let system = |what| move |source| ConductorError::System { what, source };
        process::become_subreaper().map_err(system("become the parent of orphaned processes"))?;
        process::make_undumpable().map_err(system("close this process to others"))?;
        let executor = LocalExecutor::new(LocalOptions {
            lost_grace: settings.kill_grace,
            subreaper: true,
            ..LocalOptions::new(setup.workspace.supervisors())
        })
        .map_err(system("prepare the supervisors"))?;
        let path = store.path().to_owned();
        let inode = std::fs::metadata(&path)
            .map(|meta| meta.ino())
            .map_err(system("find the database"))?;
        let listen = |kind| signal(kind).map_err(system("listen for signals"));
        let rules = setup
            .engines
            .iter()
            .map(|engine| (engine.name.to_string(), engine.success))
            .collect();
        Ok(Self {
            watch: Watch::new(&setup.workspace.wake_file()),
            signals: [
                listen(SignalKind::interrupt())?,
                listen(SignalKind::terminate())?,
                listen(SignalKind::hangup())?,
            ],
            core: Core::new(batch, settings, rules),
            setup,
            store,
            executor,
            observer,
            pending: Vec::new(),
            data_version: None,
            last_pass: Duration::ZERO,
            last_instant: Instant::now(),
            next_tick: None,
            signals_seen: 0,
            store_trouble: false,
            source_trouble: HashMap::new(),
            database: (path, inode),
            only_pass: false,
            _lock: lock,
        })
    }

    /// Stores a new batch and takes its tasks up, in one transaction.
    fn begin(&mut self, tasks: &[TaskId], again: Again) -> Result<(), ConductorError> {
        let (batch, settings) = (self.core.batch, self.core.settings.clone());
        let core = &mut self.core;
        let ((), events) = self
            .store
            .write_as(&Actor::Batch(batch), Durability::Full, |tx| {
                tx.insert_batch(batch, &settings, tasks)?;
                let mut taken = tx.reader().batch_tasks(batch)?;
                take_up::take_up(tx, batch, &mut taken, again)?;
                core.take_in(tx, &taken)
            })?;
        self.observer.events(&events);
        Ok(())
    }

    /// Takes up a batch that exists: finds what its attempts have come to, and what is left to do.
    fn pick_up(&mut self, stored: &Batch, goal: &Goal) -> Result<(), ConductorError> {
        let (batch, settings) = (self.core.batch, self.core.settings.clone());
        let core = &mut self.core;
        let mut open = Vec::new();
        let ((), events) = self
            .store
            .write_as(&Actor::Batch(batch), Durability::Full, |tx| {
                open = core.recall(&tx.reader(), &|_| None)?;
                let again = matches!(goal, Goal::Resume(_, true));
                if matches!(goal, Goal::Resume(..)) {
                    tx.reopen_batch(batch, &settings)?;
                }
                let mut taken: Vec<BatchTask> = Vec::new();
                for row in tx.reader().batch_tasks(batch)? {
                    if !core.running.contains_key(&row.task)
                        && is_taken_up(&tx.reader(), &row, goal, again)?
                    {
                        taken.push(row);
                    }
                }
                let again = if again { Again::Yes } else { Again::No };
                take_up::take_up(tx, batch, &mut taken, again)?;
                core.take_in(tx, &taken)?;
                for attempt in &open {
                    tx.append(
                        Event::new(cf_core::EventType::AttemptAdopted)
                            .task(attempt.task)
                            .batch(batch)
                            .attempt(attempt.id),
                    )?;
                }
                match goal {
                    Goal::Stop(stop) => core.stop_batch(tx, *stop),
                    Goal::Pass => {
                        core.schedule.close();
                        Ok(())
                    }
                    Goal::Resume(..) => Ok(()),
                }?;
                rows::store(core, tx)
            })?;
        if *goal == Goal::Pass {
            self.only_pass = true;
            self.core.relook = self.core.schedule.members().collect();
            if self.core.passes_off() {
                // Switched off is what the batch does by itself, not what a person asks for.
                self.core.settings.reconcile_interval = TICK;
            }
        }
        if stored.stop.is_some() && !matches!(goal, Goal::Resume(..)) {
            self.core.stop = self.core.stop.max(stored.stop);
        }
        self.observer.events(&events);
        for attempt in open {
            match self
                .executor
                .adopt(&attempt.supervisor, attempt.id, attempt.stage)?
            {
                Adopted::Running | Adopted::Sweeping => {}
                Adopted::Settled(fate) => {
                    self.take_note(Note {
                        supervisor: attempt.supervisor.supervisor,
                        attempt: attempt.id,
                        stage: attempt.stage,
                        fate,
                    });
                }
            }
        }
        Ok(())
    }

    /// Runs turns until the batch is over. Whatever goes wrong for good, no agent is left running unnamed.
    async fn conduct(&mut self) -> Result<BatchEnd, ConductorError> {
        // From here on there are agents to look after, so other writers are not waited for at length.
        self.store.be_the_conductors()?;
        match self.turns().await {
            Ok(end) => {
                self.executor.retire_all().await;
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
        let mut woken = Woken {
            look: true,
            ..Woken::default()
        };
        loop {
            self.advance_clock();
            self.check_database()?;
            self.take_signals(woken.signals).await?;
            for note in std::mem::take(&mut woken.notes) {
                self.take_note(note);
            }
            self.ready_supervisors().await?;
            match self.one_turn(woken.look) {
                Ok(()) => self.store_is_well(),
                Err(ConductorError::Store(error)) if error.is_transient() => {
                    self.store_is_not_well(&error);
                    woken = self.wait(STORE_PAUSE).await;
                    woken.look = true;
                    self.reload_when_possible();
                    continue;
                }
                Err(error) => return Err(error),
            }
            self.effects()?;
            if self.only_pass
                && self.pending.is_empty()
                && self.core.relook.is_empty()
                && self.nothing_is_stopping()
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
            let wait = self.longest_wait();
            woken = self.wait(wait).await;
        }
    }

    // ---- one turn ---------------------------------------------------------------------------------------------

    fn one_turn(&mut self, mut look: bool) -> Result<(), ConductorError> {
        let version = self.store.data_version()?;
        let changed_elsewhere = self.data_version != Some(version);
        look |= changed_elsewhere;
        let mut news = News::default();
        if look && changed_elsewhere {
            news = self.core.look(&self.store)?;
            self.data_version = Some(version);
        }
        self.settle_claims_of_the_dead(&mut news)?;
        let merged = self.pass(&mut news)?;
        let nothing_new = merged
            .iter()
            .all(|found| found.winner.action == ReconcileAction::None);
        let durability = if self.pending.is_empty() && nothing_new {
            Durability::Normal
        } else {
            Durability::Full
        };
        let idle = self.pending.is_empty()
            && self.core.unverified.is_empty()
            && merged.is_empty()
            && news.is_empty()
            && !self.core.can_start(now());
        if idle {
            return Ok(());
        }
        let durability = if self.core.can_start(now()) {
            Durability::Full
        } else {
            durability
        };
        let kept = (self.core.at_gate.clone(), self.core.unverified.clone());
        let (core, pending) = (&mut self.core, &self.pending);
        let by = core.actor();
        let done = self
            .store
            .write_as(&by, durability, |tx| core.turn(tx, &news, pending, merged));
        match done {
            Ok(((), events)) => {
                self.pending.clear();
                self.observer.events(&events);
                Ok(())
            }
            Err(error) => {
                (self.core.at_gate, self.core.unverified) = kept;
                self.core.launches.clear();
                self.core.stops.clear();
                self.core.released.clear();
                Err(error.into())
            }
        }
    }

    /// Asks the sources: about what changed, about what must be looked at again, and, when the interval is over, about
    /// everything that a source other than the store can say something about.
    fn pass(&mut self, news: &mut News) -> Result<Vec<cf_reconcile::Merged>, ConductorError> {
        let mut ask: Vec<TaskId> = std::mem::take(&mut self.core.relook).into_iter().collect();
        if !self.core.passes_off() {
            ask.extend(news.changed.iter().copied());
            ask.extend(self.core.ask_grace_over());
            self.last_pass = self.core.clock;
        } else {
            // Without passes only the end of a claim elsewhere is waited for.
            let waited: Vec<TaskId> = self.core.schedule.waited_for().collect();
            ask.extend(
                news.changed
                    .iter()
                    .copied()
                    .filter(|task| waited.contains(task)),
            );
        }
        ask.sort_unstable();
        ask.dedup();
        let asked = self.core.asked(ask);
        let pass = self.setup.registry.check(&self.store, &asked);
        for (source, why) in pass.unknown {
            self.source_is_not_well(source.as_str(), &why);
            // What could not be read is looked at again.
            self.data_version = None;
            self.core
                .relook
                .extend(asked.iter().map(|asked| asked.task));
        }
        if self.core.passes_off() {
            return Ok(pass
                .merged
                .into_iter()
                .filter(|found| found.winner.action == ReconcileAction::None)
                .collect());
        }
        Ok(pass.merged)
    }

    /// A claim whose conductor is gone and whose attempt has ended is settled by whoever meets it: here, by taking the
    /// attempt over.
    fn settle_claims_of_the_dead(&mut self, news: &mut News) -> Result<(), ConductorError> {
        if !self.core.schedule.waits_for_claims() {
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
                let by = self.core.actor();
                let core = &mut self.core;
                let (taken, events) = self.store.write_as(&by, Durability::Full, |tx| {
                    let again = tx.reader().attempt(attempt.id)?;
                    if !again.open || again.batch != attempt.batch {
                        return Ok(false);
                    }
                    core.take_over(tx, attempt)?;
                    rows::store(core, tx)?;
                    Ok(true)
                })?;
                self.observer.events(&events);
                if !taken {
                    continue;
                }
                if let Adopted::Settled(fate) =
                    self.executor
                        .adopt(&attempt.supervisor, attempt.id, attempt.stage)?
                {
                    self.take_note(Note {
                        supervisor: attempt.supervisor.supervisor,
                        attempt: attempt.id,
                        stage: attempt.stage,
                        fate,
                    });
                }
            }
            // A claim without any attempt, of a batch that is gone: its conductor died between two attempts.
            let orphaned = open.is_empty()
                && self
                    .store
                    .read(|reader| reader.standing(task))?
                    .is_some_and(|standing| {
                        standing.claim.is_some_and(|batch| {
                            batch != self.core.batch
                                && self.setup.workspace.conductor_of(batch).is_none()
                        })
                    });
            if orphaned {
                let by = self.core.actor();
                let ((), events) = self
                    .store
                    .write_as(&by, Durability::Full, |tx| tx.release_claim(task))?;
                self.observer.events(&events);
                news.changed.insert(task);
            }
        }
        Ok(())
    }

    // ---- effects, after the commit ------------------------------------------------------------------------------

    fn effects(&mut self) -> Result<(), ConductorError> {
        for supervisor in std::mem::take(&mut self.core.released) {
            self.executor.release(supervisor);
        }
        for launch in std::mem::take(&mut self.core.launches) {
            self.launch(&launch);
        }
        for (attempt, _, grace) in std::mem::take(&mut self.core.stops) {
            let running = self
                .core
                .by_attempt
                .get(&attempt)
                .and_then(|task| self.core.running.get(task));
            if let Some(supervisor) = running.map(|running| running.identity.supervisor) {
                let grace = if self.signals_seen > 1 {
                    Duration::ZERO
                } else {
                    grace
                };
                self.executor.stop(supervisor, grace)?;
            }
        }
        Ok(())
    }

    /// Writes an attempt's files and opens the gate. What fails here ends the attempt: its agent was never started.
    fn launch(&mut self, launch: &Launch) {
        let supervisor = launch.identity.supervisor;
        let sent = match launch::job(
            self.setup,
            &self.store,
            &self.core.settings,
            self.core.batch,
            launch,
        ) {
            Ok(job) => self
                .executor
                .submit(supervisor, &job)
                .map_err(|error| crate::chain(&error)),
            Err(error) => Err(crate::chain(&error)),
        };
        if let Err(error) = sent {
            let fate = match self
                .executor
                .adopt(&launch.identity, launch.attempt, launch.stage)
            {
                // The supervisor has it after all, or may have it: its note will tell.
                Ok(Adopted::Running | Adopted::Sweeping) => return,
                Ok(Adopted::Settled(Fate::Ended(ended))) => Fate::Ended(ended),
                _ => Fate::SpawnFailed { error },
            };
            self.take_note(Note {
                supervisor,
                attempt: launch.attempt,
                stage: launch.stage,
                fate,
            });
        }
    }

    fn take_note(&mut self, note: Note) {
        let running = self
            .core
            .by_attempt
            .get(&note.attempt)
            .and_then(|task| self.core.running.get(task));
        match running {
            Some(running) => self
                .pending
                .push(recover::judge(self.setup, running, &note)),
            None => self.executor.release(note.supervisor),
        }
    }

    async fn ready_supervisors(&mut self) -> Result<(), ConductorError> {
        let wanted = self.core.wanted_at_gate();
        while self.core.at_gate.len() > wanted {
            let Some(extra) = self.core.at_gate.pop() else {
                break;
            };
            self.executor.release(extra.identity.supervisor);
        }
        if self.core.at_gate.len() < wanted {
            self.executor.warm(wanted - self.core.at_gate.len())?;
        }
        while self.core.at_gate.len() < wanted {
            let identity = self.executor.acquire().await?;
            self.core.at_gate.push(AtGate { identity, jobs: 0 });
        }
        Ok(())
    }

    // ---- waiting ------------------------------------------------------------------------------------------------

    fn longest_wait(&self) -> Duration {
        let mut wait = if self.watch.has_events() { TICK } else { POLL };
        if let Some(due) = self.core.next_due() {
            let left = due.duration_since(now());
            wait = wait.min(Duration::try_from(left).unwrap_or(Duration::ZERO));
        }
        if !self.pending.is_empty()
            || !self.core.unverified.is_empty()
            || !self.core.relook.is_empty()
        {
            wait = if self.store_trouble {
                STORE_PAUSE
            } else {
                Duration::ZERO
            };
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
            let [interrupt, terminate, hangup] = &mut self.signals;
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
                () = self.watch.woken() => {
                    woken.look = true;
                    return woken;
                }
                _ = interrupt.recv() => { woken.signals += 1; return woken; }
                _ = terminate.recv() => { woken.signals += 1; return woken; }
                _ = hangup.recv() => { woken.signals += 1; return woken; }
                () = tokio::time::sleep_until(tick_at) => {
                    if next_tick.is_some_and(|at| at <= Instant::now()) {
                        self.next_tick = None;
                        self.observer.tick();
                    }
                    if tokio::time::Instant::now() >= until {
                        self.executor.reap();
                        let _ = self.core.clean_up(&mut self.store);
                        woken.look = true;
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

    async fn take_signals(&mut self, count: u32) -> Result<(), ConductorError> {
        for _ in 0..count {
            self.signals_seen += 1;
            self.core.signalled = true;
            if self.signals_seen == 1 {
                self.observer.notice(&Notice::Stopping);
                let (core, by) = (&mut self.core, Actor::Cli);
                let batch = core.batch;
                let stored = self.store.write_as(&by, Durability::Full, |tx| {
                    tx.request_stop(batch, Stop::Force)?;
                    core.stop_batch(tx, Stop::Force)?;
                    rows::store(core, tx)
                });
                match stored {
                    Ok(((), events)) => self.observer.events(&events),
                    // The agents are stopped whether or not the store takes the word down.
                    Err(error) => {
                        self.store_is_not_well(&error);
                        self.core.stop = Some(Stop::Force);
                        self.core.schedule.close();
                    }
                }
                self.effects()?;
            } else {
                let live: Vec<_> = self
                    .core
                    .running
                    .values()
                    .map(|running| running.identity.supervisor)
                    .collect();
                for supervisor in live {
                    self.executor.kill(supervisor)?;
                }
            }
        }
        Ok(())
    }

    /// Stops what runs because the batch cannot go on; nothing can be stored any more. Returns what could not be
    /// stopped in time.
    async fn abandon(&mut self) -> Vec<(TaskId, AttemptId)> {
        let grace = self.core.settings.kill_grace;
        let mut live: HashMap<AttemptId, TaskId> = HashMap::new();
        for running in self.core.running.values() {
            live.insert(running.attempt, running.task);
            let _ = self.executor.stop(running.identity.supervisor, grace);
        }
        for judged in &self.pending {
            live.remove(&judged.attempt);
        }
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
        if !self.store_trouble {
            self.store_trouble = true;
            self.observer.notice(&Notice::Unavailable {
                what: "store".to_owned(),
                why: crate::chain(error),
            });
        }
    }

    fn store_is_well(&mut self) {
        if self.store_trouble {
            self.store_trouble = false;
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

    /// After a transaction that failed as a whole: what was believed may be wrong, so it is read again.
    fn reload_when_possible(&mut self) {
        let own: HashMap<AttemptId, Option<u32>> = self
            .core
            .running
            .values()
            .map(|running| (running.attempt, running.jobs))
            .collect();
        let pending: Vec<AttemptId> = self.pending.iter().map(|judged| judged.attempt).collect();
        let core = &mut self.core;
        let reloaded = self.store.read(|reader| {
            let schedule = take_up::schedule(reader, core.batch, &core.settings)?;
            core.recall(reader, &|attempt| match own.get(&attempt) {
                Some(jobs) => *jobs,
                // Its end is known and not stored, so it was settled in the lost transaction, under our own supervisor.
                None if pending.contains(&attempt) => Some(1),
                None => None,
            })?;
            let mode = core.schedule.mode();
            core.schedule = schedule;
            if mode == crate::schedule::Mode::Closing {
                core.schedule.close();
            }
            core.schedule.settle_all(now());
            Ok(())
        });
        match reloaded {
            Ok(()) => {
                self.core.relook = self.core.schedule.members().collect();
            }
            Err(error) => self.store_is_not_well(&error),
        }
    }

    fn nothing_is_stopping(&self) -> bool {
        self.core.schedule.count(cf_core::Phase::Stopping) == 0
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

    fn try_end(&mut self) -> Result<Option<BatchEnd>, ConductorError> {
        // What was committed just now may have given the batch something to do.
        if self.data_version != Some(self.store.data_version()?) {
            return Ok(None);
        }
        let core = &mut self.core;
        let by = core.actor();
        match self
            .store
            .write_as(&by, Durability::Full, |tx| core.end(tx))
        {
            Ok(((status, exit), events)) => {
                self.observer.events(&events);
                Ok(Some(BatchEnd {
                    batch: self.core.batch,
                    status,
                    exit_code: exit.code(),
                }))
            }
            Err(error) if error.is_transient() => {
                self.store_is_not_well(&error);
                self.reload_when_possible();
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether a task of a batch that is resumed is taken up again.
fn is_taken_up(
    reader: &Reader<'_>,
    row: &BatchTask,
    goal: &Goal,
    again: bool,
) -> Result<bool, StoreError> {
    if !matches!(goal, Goal::Resume(..)) {
        return Ok(false);
    }
    if again {
        return Ok(true);
    }
    let reason = Reason::from(row.reason.as_deref().unwrap_or_default());
    Ok(match row.outcome {
        None
        | Some(
            cf_core::Outcome::Failed | cf_core::Outcome::Blocked | cf_core::Outcome::Cancelled,
        ) => true,
        Some(cf_core::Outcome::Completed) => false,
        Some(cf_core::Outcome::Skipped) => {
            matches!(reason, Reason::Dependency { .. })
                || reader
                    .standing(row.task)?
                    .is_some_and(|s| !s.deleted && s.status == cf_core::TaskStatus::Ready)
        }
    })
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
