//! Everything around the conductors: agents and their supervisors, people, crashes, time.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use cf_core::{
    Actor, AttemptEnd, AttemptId, BatchId, Ending, OnFailure, Phase, Strategy, SupervisorId,
    TaskId, TaskStatus, Timestamp,
};
use cf_reconcile::FailureCause;
use serde_json::{Value, json};

use super::log::Checker;
use super::loop_::Conductor;
use crate::ambient::simulated;
use crate::conductor::settle::Judged;
use crate::process::{Identity, Process};
use crate::settings::{Settings, WaitForBlockers};
use crate::store::attempt::AttemptResult;
use crate::store::task::{Expect, TaskSpec};
use crate::store::{Doing as _, Result, Store};
use crate::supervise::Stage;

/// SplitMix64 (Steele, Lea, Flood 2014): small, and the same everywhere.
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub(super) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        (!of.is_empty()).then(|| of[self.below(of.len() as u64) as usize])
    }
}

/// A process of an attempt that runs.
#[derive(Clone, Debug)]
pub(super) struct Agent {
    pub attempt: AttemptId,
    pub task: TaskId,
    pub batch: BatchId,
    pub stage: Stage,
    pub supervisor: SupervisorId,
    /// When it ends by itself.
    pub ends_at: i64,
    /// When a stop has ended it, once it was told.
    pub killed_at: Option<i64>,
}

pub(super) struct World {
    pub rng: Rng,
    pub seed: u64,
    pub store: Kept,
    pub now_ms: i64,
    pub clock: Duration,
    pub tasks: Vec<TaskId>,
    pub conductors: Vec<Conductor>,
    pub agents: BTreeMap<AttemptId, Agent>,
    /// The last word about each process that a supervisor wrote.
    pub records: HashMap<(AttemptId, Stage), Judged>,
    pub launched: HashSet<(AttemptId, Stage)>,
    /// Supervisors that wait at their gates, with the batch that they belong to.
    pub at_gate: BTreeMap<SupervisorId, BatchId>,
    pub checker: Checker,
    pub steps: u64,
    /// The conductor whose turn it is, and which therefore cannot be picked up by anybody.
    pub out: Option<usize>,
    /// In percent: how likely the outside world does something at each opportunity.
    pub busy: u64,
    /// In percent: how likely the transaction of a turn fails, and other things that a machine short of something does.
    pub faults: u64,
    /// Of a thousand: how many uses of the store it refuses a conductor.
    pub refusals: u64,
    /// Whether conductors die between their next commit and its effects.
    pub crash_after_commit: bool,
    /// Whether anything happens by chance.
    pub by_chance: bool,
    /// How long it takes to stop what a dead supervisor left, where nothing happens by chance.
    pub sweep_ms: i64,
    trace: VecDeque<String>,
    trace_all: bool,
}

impl Drop for World {
    fn drop(&mut self) {
        simulated::set_now(None);
        simulated::set_ids(None);
        if std::thread::panicking() {
            let last: Vec<&str> = self.trace.iter().map(String::as_str).collect();
            eprintln!(
                "seed {} failed at step {}; before that:\n{}",
                self.seed,
                self.steps,
                last.join("\n")
            );
        }
    }
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let now_ms = 1_700_000_000_000;
        simulated::set_ids(Some(seed ^ 0x5eed));
        simulated::seed_refusals(seed ^ 0xd15c);
        simulated::set_now(Timestamp::from_millisecond(now_ms).ok());
        let mut rng = Rng(seed);
        let busy = rng.pick(&[2, 8, 25, 60]).expect("some are given");
        let faults = rng.pick(&[0, 0, 3, 10]).expect("some are given");
        Self {
            rng,
            seed,
            store: Kept::empty(),
            now_ms,
            clock: Duration::ZERO,
            tasks: Vec::new(),
            conductors: Vec::new(),
            agents: BTreeMap::new(),
            records: HashMap::new(),
            launched: HashSet::new(),
            at_gate: BTreeMap::new(),
            checker: Checker::default(),
            steps: 0,
            out: None,
            busy,
            faults,
            refusals: 4 * faults,
            crash_after_commit: false,
            by_chance: true,
            sweep_ms: 0,
            trace: VecDeque::new(),
            trace_all: std::env::var_os("CF_SIM_TRACE").is_some(),
        }
    }

    pub(super) fn say(&mut self, what: impl FnOnce() -> String) {
        let line = format!("{:>4} {}", self.steps, what());
        if self.trace_all {
            eprintln!("{line}");
        }
        self.trace.push_back(line);
        if self.trace.len() > 150 {
            self.trace.pop_front();
        }
    }

    /// What happened so far, in words.
    pub(super) fn story(&self) -> String {
        self.trace.iter().cloned().collect::<Vec<_>>().join("\n")
    }

    /// How a task is called in the story: its place in the world's list.
    pub(super) fn name(&self, task: TaskId) -> String {
        self.tasks
            .iter()
            .position(|id| *id == task)
            .map_or_else(|| task.short(), |at| format!("t{at}"))
    }

    /// Some tasks in some order of dependence, and a batch for most of them.
    pub(super) fn populate(&mut self) {
        let count = self.rng.between(1, 7);
        for nth in 0..count {
            self.add_task(nth as usize);
        }
        for _ in 0..self.rng.below(2 * count) {
            self.add_edge();
        }
        self.start_batch();
    }

    /// From now on only what a test says happens.
    pub(super) fn quiet(&mut self) {
        self.busy = 0;
        (self.faults, self.refusals) = (0, 0);
        self.by_chance = false;
    }

    pub(super) fn add_plain_task(&mut self, nth: usize) -> TaskId {
        let spec = TaskSpec {
            key: Some(format!("t{nth}").parse().expect("a key")),
            title: format!("task {nth}"),
            run: Some("true".to_owned()),
            ..TaskSpec::default()
        };
        let task = self
            .store
            .write(&Actor::Cli, |tx| tx.add_task(&spec))
            .expect("a task is added");
        self.tasks.push(task);
        task
    }

    pub(super) fn add_task(&mut self, nth: usize) -> TaskId {
        let spec = self.task_spec(nth);
        let task = self
            .store
            .write(&Actor::Cli, |tx| tx.add_task(&spec))
            .expect("a task is added");
        self.tasks.push(task);
        if spec.verify.is_some() {
            self.checker.to_verify.insert(task);
        }
        task
    }

    pub(super) fn task_spec(&mut self, nth: usize) -> TaskSpec {
        TaskSpec {
            key: Some(format!("t{nth}").parse().expect("a key")),
            title: format!("task {nth}"),
            run: Some("true".to_owned()),
            verify: self.rng.chance(25).then(|| "true".to_owned()),
            priority: self.rng.below(3) as i64,
            ..TaskSpec::default()
        }
    }

    pub(super) fn settings(&mut self) -> Settings {
        let rng = &mut self.rng;
        let passes = !rng.chance(10);
        let for_a_while = WaitForBlockers::For(Duration::from_secs(5));
        let wait = rng
            .pick(&[WaitForBlockers::Off, for_a_while, WaitForBlockers::Always])
            .expect("some are given");
        Settings {
            strategy: if rng.chance(70) {
                Strategy::Parallel
            } else {
                Strategy::Serial
            },
            max_parallel: rng.between(1, 3) as usize,
            on_failure: if rng.chance(20) {
                OnFailure::Stop
            } else {
                OnFailure::Continue
            },
            retry: rng.below(3) as u32,
            retry_delay: Duration::from_millis(rng.below(3000)),
            ask_grace: Duration::from_secs(rng.below(4)),
            reconcile_interval: Duration::from_secs(if passes { 30 } else { 0 }),
            // Without passes nobody would hear of an answer, and the command line refuses it.
            wait_for_blockers: if passes { wait } else { WaitForBlockers::Off },
            ..Settings::default()
        }
    }

    // ---- time -----------------------------------------------------------------------------------------------------

    /// One turn of one conductor, with whatever happens before, in, and after it.
    pub(super) fn step(&mut self) {
        self.steps += 1;
        let ms = self
            .rng
            .pick(&[0, 1, 50, 400, 1000, 1000])
            .expect("some are given");
        self.pass_time(ms);
        self.meddle();
        let live: Vec<usize> = self.live().collect();
        if let Some(which) = self.rng.pick(&live) {
            self.one_loop(which);
        }
        self.check();
    }

    pub(super) fn live(&self) -> impl Iterator<Item = usize> + '_ {
        self.conductors
            .iter()
            .enumerate()
            .filter(|(_, conductor)| conductor.core.is_some())
            .map(|(at, _)| at)
    }

    /// Nobody meddles any more: every batch that has a conductor must come to its end, and every attempt to its own.
    pub(super) fn calm_down(&mut self) {
        self.busy = 0;
        (self.faults, self.refusals) = (0, 0);
        self.say(|| "calm".to_owned());
        // What still has no conductor gets one, or is left to whoever waits for it.
        for which in 0..self.conductors.len() {
            if self.conductors[which].is_orphan() && self.rng.chance(60) {
                self.resume(which);
            }
        }
        let mut turns = 0;
        while self.live().next().is_some() {
            turns += 1;
            assert!(
                turns < 400,
                "a batch does not end: {}",
                self.describe_live()
            );
            self.steps += 1;
            self.pass_time(1000);
            for which in self.live().collect::<Vec<_>>() {
                self.clean_up(which);
                self.one_loop(which);
                self.check();
                if turns > 60
                    && self.conductors[which].settings.wait_for_blockers == WaitForBlockers::Always
                {
                    self.unblock_everything();
                }
            }
        }
        self.check();
    }

    fn describe_live(&self) -> String {
        let mut text = String::new();
        for conductor in &self.conductors {
            let Some(core) = &conductor.core else {
                continue;
            };
            for task in core.schedule.members() {
                let row = core.schedule.row(task).expect("a member has a row");
                if row.phase != Phase::Finished {
                    let gate = core.schedule.gate(task);
                    text = format!("{text}\n{} {row:?} gate {gate:?}", self.name(task));
                }
            }
        }
        text
    }

    /// A batch that waits for blockers for ever needs somebody to end what holds it.
    fn unblock_everything(&mut self) {
        for task in self.tasks.clone() {
            let _ = self.store.write(&Actor::Cli, |tx| {
                let row = tx.live_task(task)?;
                if row.status == TaskStatus::Blocked
                    || row.status == TaskStatus::InProgress && row.claim.is_none()
                {
                    tx.set_status(task, TaskStatus::Done, Expect::Anything)?;
                }
                Ok(())
            });
        }
    }

    pub(super) fn pass_time(&mut self, ms: i64) {
        self.now_ms += ms;
        self.clock += Duration::from_millis(ms.unsigned_abs());
        simulated::set_now(Timestamp::from_millisecond(self.now_ms).ok());
        let ended: Vec<Agent> = self
            .agents
            .values()
            .filter(|agent| {
                agent.ends_at <= self.now_ms || agent.killed_at.is_some_and(|at| at <= self.now_ms)
            })
            .cloned()
            .collect();
        for agent in ended {
            self.end_agent(&agent);
        }
    }

    // ---- agents ---------------------------------------------------------------------------------------------------

    fn end_agent(&mut self, agent: &Agent) {
        let killed = agent.killed_at.is_some_and(|at| at <= self.now_ms);
        let fate = if killed && self.rng.chance(15) {
            (AttemptEnd::Unclean, false, FailureCause::Stopped)
        } else if killed && self.rng.chance(80) {
            (AttemptEnd::Killed, false, FailureCause::Stopped)
        } else {
            match self.rng.below(12) {
                0..=6 => (AttemptEnd::Exited, true, FailureCause::Exit),
                7 => (AttemptEnd::Exited, false, FailureCause::Timeout),
                8 => (AttemptEnd::Lost, false, FailureCause::Lost),
                9 if self.rng.chance(20) => (AttemptEnd::Killed, false, FailureCause::Stopped),
                _ => (AttemptEnd::Exited, false, FailureCause::Exit),
            }
        };
        self.end_agent_as(agent.attempt, fate);
    }

    pub(super) fn end_agent_as(
        &mut self,
        attempt: AttemptId,
        fate: (AttemptEnd, bool, FailureCause),
    ) {
        let agent = self.agents.remove(&attempt).expect("an agent that runs");
        let (end, success, cause) = fate;
        let owner = self
            .conductors
            .iter()
            .position(|c| c.batch == agent.batch && c.looks_after(agent.task));
        let alone = matches!(end, AttemptEnd::Lost)
            || owner.is_none()
            || self.by_chance && self.rng.chance(5);
        let judged = judged(attempt, agent.stage, end, success, cause, !alone);
        let name = self.name(agent.task);
        self.say(|| {
            format!(
                "{name}: agent {} {:?} ends: {end} {success} {cause:?}",
                attempt.short(),
                agent.stage
            )
        });
        if end != AttemptEnd::Lost {
            self.records.insert((attempt, agent.stage), judged.clone());
        }
        if let Some(owner) = owner {
            if !alone {
                self.at_gate.insert(agent.supervisor, agent.batch);
            }
            self.conductors[owner].notes.push(judged);
        }
    }

    /// What is found of a process whose supervisor is dead.
    pub(super) fn fate(&self, attempt: AttemptId, stage: Stage) -> Judged {
        if let Some(record) = self.records.get(&(attempt, stage)) {
            return Judged {
                free: false,
                ..record.clone()
            };
        }
        if self.launched.contains(&(attempt, stage)) {
            judged(
                attempt,
                stage,
                AttemptEnd::Lost,
                false,
                FailureCause::Lost,
                false,
            )
        } else {
            judged(
                attempt,
                stage,
                AttemptEnd::NeverStarted,
                false,
                FailureCause::NeverStarted,
                false,
            )
        }
    }
}

thread_local! {
    /// A store that a world of this thread has left, with nothing in it.
    static LEFT: Cell<Option<Store>> = const { Cell::new(None) };
}

/// What empties a store, without what makes sure that the log is only ever added to.
const EMPTY: &str =
    "DELETE FROM comment; DELETE FROM link; DELETE FROM blocker; DELETE FROM dependency;
     DELETE FROM worktree; DELETE FROM batch_task; DELETE FROM batch_total; DELETE FROM attempt;
     DELETE FROM batch; DELETE FROM task;
     DELETE FROM event; DELETE FROM github_cache;";

/// The store of a world. It is used again by the next world of the thread: making the tables and preparing the
/// statements takes longer than all that happens in a world.
pub(super) struct Kept(Option<Store>);

impl Kept {
    fn empty() -> Self {
        Self(Some(LEFT.take().unwrap_or_else(|| {
            let mut store = Store::in_memory().expect("memory is left");
            let guard = "DROP TRIGGER event_is_append_only_delete";
            run_sql(&mut store, guard).expect("the log has its guard");
            store
        })))
    }
}

impl Deref for Kept {
    type Target = Store;

    fn deref(&self) -> &Store {
        self.0.as_ref().expect("it is given up at the end alone")
    }
}

impl DerefMut for Kept {
    fn deref_mut(&mut self) -> &mut Store {
        self.0.as_mut().expect("it is given up at the end alone")
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(mut store) = self.0.take()
            && !std::thread::panicking()
            && run_sql(&mut store, EMPTY).is_ok()
        {
            LEFT.set(Some(store));
        }
    }
}

fn run_sql(store: &mut Store, sql: &str) -> Result<()> {
    store.write(&Actor::System, |tx| {
        tx.conn.execute_batch(sql).doing("prepare a world")
    })
}

/// A supervisor that nobody has seen before, of this process's own pid namespace and boot.
pub(super) fn identity(supervisor: SupervisorId) -> Identity {
    thread_local! {
        static OWN: Identity = Identity::of_self(SupervisorId(uuid::Uuid::nil())).expect("/proc is mounted");
    }
    Identity {
        supervisor,
        ..OWN.with(Clone::clone)
    }
}

pub(super) fn judged(
    attempt: AttemptId,
    stage: Stage,
    end: AttemptEnd,
    success: bool,
    cause: FailureCause,
    free: bool,
) -> Judged {
    // No process has this number, so that the survivors are gone as soon as somebody looks.
    let survivors = match end {
        AttemptEnd::Unclean => vec![Process {
            pid: i32::MAX,
            start_ticks: 1,
            name: "stray".to_owned(),
        }],
        _ => Vec::new(),
    };
    let record = if survivors.is_empty() {
        Value::Null
    } else {
        json!({ "survivors": survivors, "unlisted": 0 })
    };
    Judged {
        attempt,
        stage,
        result: AttemptResult {
            end,
            ending: (end == AttemptEnd::Exited).then_some(Ending::Code(i32::from(!success))),
            success,
            reason: format!("{cause:?}"),
            last_said: None,
            session: None,
            tokens: None,
            cost_micro_usd: None,
            left_behind: 0,
            output_lost: 0,
            record,
        },
        cause,
        survivors,
        session_is_unknown: false,
        free,
        kept: None,
        question: None,
    }
}
