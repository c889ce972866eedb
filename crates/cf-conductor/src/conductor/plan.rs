//! What a batch is going to do, worked out and checked before anything is stored.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsStr;

use cf_core::{BatchId, Graph, GraphError, Isolation, TaskId, TaskLabel, TaskStatus};

use super::{ConductorError, Goal, Setup, trees};
use crate::engine::{Engine, EngineName, NoProgram, agents_on_path, program_started_in};
use crate::settings::Settings;
use crate::store::edges::Edges;
use crate::store::ids::{ById, IdSet};
use crate::store::task::{Task, TaskFilter};
use crate::store::{Reader, Store};
use crate::worktree::Base;

/// Which tasks a batch is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// These, in this order.
    Tasks(Vec<TaskId>),
    /// The tasks of a plan file, in this order. Nobody has named one by itself: those that a stranger wrote and that
    /// wait in the BACKLOG are left out, and those that depend on one of them.
    Plan(Vec<TaskId>),
    /// Every READY task whose dependencies are met or in the batch, in the order in which they were added.
    AllReady,
}

/// What taking a task up will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It will run.
    Runs,
    /// It is DONE and will be skipped, because nothing says to run it again.
    AlreadyDone,
    /// It is MERGED and will be skipped. Nothing runs it again.
    AlreadyMerged,
    /// It is BLOCKED with an open question, and will be held.
    Held,
    /// Another batch or attempt works on it; its end is waited for.
    ClaimedElsewhere,
    /// A person works on it.
    InProgressByHand,
}

impl Standing {
    /// Whether it will be skipped, and so needs no agent.
    const fn is_skipped(self) -> bool {
        matches!(self, Self::AlreadyDone | Self::AlreadyMerged)
    }
}

/// One task of a plan.
#[derive(Clone, Debug)]
pub struct PlannedTask {
    /// Its id.
    pub id: TaskId,
    /// How it is called.
    pub label: TaskLabel,
    /// Its title.
    pub title: String,
    /// The engine that will run it.
    pub engine: Option<EngineName>,
    /// What taking it up will do.
    pub standing: Standing,
    /// The labels of what it depends on.
    pub depends_on: Vec<String>,
}

/// What a batch is going to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The tasks in the order of the list; this is what is stored.
    pub tasks: Vec<TaskId>,
    /// The same in the order in which they would run one at a time.
    pub order: Vec<PlannedTask>,
    /// READY tasks, or tasks of a plan file, that were left out, and why.
    pub left_out: Vec<(TaskLabel, String)>,
    /// Its settings.
    pub settings: Settings,
    /// Whether DONE tasks are run again.
    pub force: bool,
    /// The engines that are used, each with the program that was found for it.
    pub engines: Vec<(Engine, String)>,
    /// What its worktrees start from; none without isolation.
    pub base: Option<Base>,
    /// Live batches of the same workspace that work in the same tree.
    pub neighbours: Vec<BatchId>,
}

impl Plan {
    /// How many tasks can start at once, `most` at most.
    pub(super) fn first(&self, most: usize) -> usize {
        let starts =
            |task: &&PlannedTask| task.standing == Standing::Runs && task.depends_on.is_empty();
        self.order.iter().filter(starts).take(most).count()
    }
}

/// Works out what a batch would do, and refuses what cannot be run. Stores nothing.
///
/// # Errors
///
/// A cycle, an unmet dependency outside the batch, an engine that is missing or unknown: named, with what to do.
pub fn prepare(
    store: &Store,
    setup: &Setup,
    selection: &Selection,
    settings: &Settings,
    force: bool,
) -> Result<Plan, ConductorError> {
    let mut plan = store.read(|reader| Ok(plan(reader, setup, selection, settings, force)))??;
    let runs = plan.order.iter().filter(|task| !task.standing.is_skipped());
    let labels = runs.map(|task| task.label.clone());
    let engines = plan.engines.iter().map(|(engine, _)| engine);
    plan.base = trees::check(store, setup, settings, labels, engines)?;
    Ok(plan)
}

fn plan(
    reader: &Reader<'_>,
    setup: &Setup,
    selection: &Selection,
    settings: &Settings,
    force: bool,
) -> Result<Plan, ConductorError> {
    let mut tasks: Vec<Task> = Vec::new();
    match selection {
        Selection::Tasks(ids) | Selection::Plan(ids) => {
            let mut seen = HashSet::new();
            for id in ids.iter().filter(|id| seen.insert(**id)) {
                tasks.push(reader.task(*id)?);
            }
        }
        Selection::AllReady => {
            let ready = TaskFilter::with_status(TaskStatus::Ready);
            reader.tasks_alone(&ready, |task| tasks.push(task))?;
        }
    }
    let depends_on = reader.all_edges()?;
    let mut left_out = Vec::new();
    if matches!(selection, Selection::Plan(_)) {
        leave_unread_out(&mut tasks, &depends_on, &mut left_out);
    }
    left_out.extend(check_outside(
        reader,
        setup,
        &mut tasks,
        &depends_on,
        selection,
        force,
    )?);
    let ids: IdSet = tasks.iter().map(|task| task.id).collect();
    let graph = Graph::new(
        tasks.iter().map(|task| (task.id, task.priority)),
        depends_on
            .all()
            .filter(|(task, on)| ids.contains(task) && ids.contains(on)),
    );
    let order = graph
        .order()
        .map_err(|GraphError::Cycle(cycle)| reader.cycle(&cycle).unwrap_or_else(|error| error))?;
    let mut used: HashMap<EngineName, (Engine, String)> = HashMap::new();
    let mut planned: ById<PlannedTask> = ById::default();
    let open = reader.tasks_with_open_attempts()?;
    let mut labels: ById<TaskLabel> = tasks.iter().map(|task| (task.id, task.label())).collect();
    for task in &tasks {
        let standing = standing(reader, &open, task, force)?;
        let engine = if standing.is_skipped() {
            None
        } else {
            Some(engine_of(setup, task, settings, &mut used)?)
        };
        let mut names = Vec::new();
        for on in depends_on.of(task.id) {
            let label = match labels.entry(*on) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(outside) => outside.insert(reader.label(*on)?),
            };
            names.push(label.to_string());
        }
        planned.insert(
            task.id,
            PlannedTask {
                id: task.id,
                label: task.label(),
                title: task.title.clone(),
                engine,
                standing,
                depends_on: names,
            },
        );
    }
    let neighbours = neighbours(reader, setup, settings)?;
    let mut engines: Vec<(Engine, String)> = used.into_values().collect();
    engines.sort_by(|a, b| a.0.name.cmp(&b.0.name));
    Ok(Plan {
        tasks: tasks.iter().map(|task| task.id).collect(),
        order: order.iter().filter_map(|id| planned.remove(id)).collect(),
        left_out,
        settings: settings.clone(),
        force,
        engines,
        base: None,
        neighbours,
    })
}

/// Refuses a resume that could not start its agents: asks of the tasks that it would take up what [`prepare`] asks of
/// those of a new batch. Stores nothing.
///
/// # Errors
///
/// As [`check_engines`], or the store cannot be read.
pub fn check_resume(
    store: &Store,
    setup: &Setup,
    settings: &Settings,
    batch: BatchId,
    force: bool,
) -> Result<(), ConductorError> {
    if let Some(holder) = setup.workspace.conductor_of(batch) {
        return Err(ConductorError::Conducted { batch, holder });
    }
    let tasks = store.read(|reader| {
        let goal = Goal::Resume(Box::new(settings.clone()), force);
        let mut tasks = Vec::new();
        for row in reader.batch_tasks(batch)? {
            if super::begin::is_taken_up(reader, &row, &goal, force)?
                && !reader.has_open_attempt(row.task)?
            {
                tasks.push(row.task);
            }
        }
        Ok(tasks)
    })?;
    check_engines(store, setup, settings, &tasks, force)
}

/// Refuses tasks whose agents cannot be started. What is done already (unless `force` runs it again) or deleted needs
/// no agent. Stores nothing.
///
/// # Errors
///
/// An engine that is missing or unknown, an agent program that is not there, worktrees that cannot be made: named, with
/// what to do.
pub fn check_engines(
    store: &Store,
    setup: &Setup,
    settings: &Settings,
    tasks: &[TaskId],
    force: bool,
) -> Result<(), ConductorError> {
    let mut used = HashMap::new();
    let runs =
        store.read(|reader| Ok(runs(reader, setup, settings, tasks, force, &mut used)))??;
    let engines = used.values().map(|(engine, _)| engine);
    trees::check(store, setup, settings, runs, engines)?;
    Ok(())
}

/// Those of the tasks that need an agent, each of which can be started; their engines are added to `used`.
fn runs(
    reader: &Reader<'_>,
    setup: &Setup,
    settings: &Settings,
    tasks: &[TaskId],
    force: bool,
    used: &mut HashMap<EngineName, (Engine, String)>,
) -> Result<Vec<TaskLabel>, ConductorError> {
    let mut runs = Vec::new();
    let open = reader.tasks_with_open_attempts()?;
    for id in tasks {
        let task = reader.task(*id)?;
        if !task.deleted && !standing(reader, &open, &task, force)?.is_skipped() {
            engine_of(setup, &task, settings, used)?;
            runs.push(task.label());
        }
    }
    Ok(runs)
}

/// The live batches of the workspace, whose agents work in the same tree.
fn neighbours(
    reader: &Reader<'_>,
    setup: &Setup,
    settings: &Settings,
) -> Result<Vec<BatchId>, ConductorError> {
    if settings.isolation != Isolation::None {
        return Ok(Vec::new());
    }
    let mut live = reader.unfinished_batches()?;
    live.retain(|batch| {
        batch.settings.isolation == Isolation::None
            && setup.workspace.conductor_of(batch.id).is_some()
    });
    Ok(live.into_iter().map(|batch| batch.id).collect())
}

/// What taking a task up will do; `open` are the tasks with an attempt that may be alive.
fn standing(
    reader: &Reader<'_>,
    open: &IdSet,
    task: &Task,
    force: bool,
) -> Result<Standing, ConductorError> {
    let live = task.claim.is_some() || open.contains(&task.id);
    Ok(match task.status {
        TaskStatus::Merged => Standing::AlreadyMerged,
        TaskStatus::Done if !force => Standing::AlreadyDone,
        TaskStatus::Blocked if reader.open_blockers(task.id)? > 0 => Standing::Held,
        _ if live => Standing::ClaimedElsewhere,
        TaskStatus::InProgress => Standing::InProgressByHand,
        TaskStatus::Backlog
        | TaskStatus::Ready
        | TaskStatus::Blocked
        | TaskStatus::Failed
        | TaskStatus::Done => Standing::Runs,
    })
}

/// Leaves out what a stranger wrote and nobody has read yet, and what depends on it.
fn leave_unread_out(
    tasks: &mut Vec<Task>,
    depends_on: &Edges,
    left_out: &mut Vec<(TaskLabel, String)>,
) {
    let mut out: HashMap<TaskId, TaskLabel> = HashMap::new();
    // Each round takes at least one task, and a chain is as long as there are tasks at most.
    loop {
        let before = out.len();
        tasks.retain(|task| {
            let why = match &task.origin {
                Some(origin) if task.status == TaskStatus::Backlog => Some(format!(
                    "written at {origin}, and in the BACKLOG until it is read"
                )),
                _ if task.status.is_done() => None,
                _ => depends_on
                    .of(task.id)
                    .iter()
                    .find_map(|on| Some(format!("depends on {}, which is left out", out.get(on)?))),
            };
            let Some(why) = why else {
                return true;
            };
            out.insert(task.id, task.label());
            left_out.push((task.label(), why));
            false
        });
        if out.len() == before {
            return;
        }
    }
}

/// How many unmet dependencies a refusal names.
const NAMED: usize = 20;

/// Refuses unmet dependencies outside the batch by name, unless a live claim works on them. `--all-ready` leaves the
/// tasks out that have one, and then those that depend on what was left out.
fn check_outside(
    reader: &Reader<'_>,
    setup: &Setup,
    tasks: &mut Vec<Task>,
    depends_on: &Edges,
    selection: &Selection,
    force: bool,
) -> Result<Vec<(TaskLabel, String)>, ConductorError> {
    let inside: ById<usize> = tasks
        .iter()
        .enumerate()
        .map(|(at, task)| (task.id, at))
        .collect();
    let runs =
        |task: &Task| !(task.status.is_done() && (!force || task.status == TaskStatus::Merged));
    let mut dependents: ById<Vec<usize>> = ById::default();
    // Asked once for each task outside, however many depend on it.
    let mut outside: HashMap<TaskId, Option<String>> = HashMap::new();
    let mut unmet: Vec<(usize, String)> = Vec::new();
    for (at, task) in tasks.iter().enumerate().filter(|(_, task)| runs(task)) {
        for on in depends_on.of(task.id) {
            if inside.contains_key(on) {
                dependents.entry(*on).or_default().push(at);
                continue;
            }
            let missing = match outside.entry(*on) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(unmet_outside(reader, setup, *on)?),
            };
            if let Some(missing) = missing {
                unmet.push((at, missing.clone()));
            }
        }
    }
    if *selection != Selection::AllReady {
        return match unmet.len() {
            0 => Ok(Vec::new()),
            _ => Err(refuse_outside(tasks, &unmet)),
        };
    }
    let mut reasons: HashMap<usize, String> = HashMap::new();
    let mut left_out = Vec::new();
    let mut next = VecDeque::from(unmet);
    while let Some((at, missing)) = next.pop_front() {
        let Entry::Vacant(new) = reasons.entry(at) else {
            continue;
        };
        left_out.push((tasks[at].label(), format!("depends on {missing}")));
        new.insert(missing);
        let own = format!("{} ({})", tasks[at].label(), tasks[at].status);
        let dependents = dependents.get(&tasks[at].id).into_iter().flatten();
        next.extend(dependents.map(|dependent| (*dependent, own.clone())));
    }
    let mut at = 0;
    tasks.retain(|_| {
        at += 1;
        !reasons.contains_key(&(at - 1))
    });
    Ok(left_out)
}

/// What a task outside the batch is called when nobody who is alive works on it and it is not done; nothing when it is
/// met, or will be.
fn unmet_outside(
    reader: &Reader<'_>,
    setup: &Setup,
    on: TaskId,
) -> Result<Option<String>, ConductorError> {
    let other = reader.task(on)?;
    let met = other.status.is_done() && !reader.has_open_attempt(on)?;
    if met || is_claimed(reader, setup, &other)? {
        return Ok(None);
    }
    Ok(Some(format!("{} ({})", other.label(), other.status)))
}

fn refuse_outside(tasks: &[Task], unmet: &[(usize, String)]) -> ConductorError {
    let mut named: Vec<String> = unmet
        .iter()
        .take(NAMED)
        .map(|(at, missing)| format!("{} depends on {missing}", tasks[*at].label()))
        .collect();
    if unmet.len() > NAMED {
        named.push(format!("and {} more", unmet.len() - NAMED));
    }
    ConductorError::Refused {
        what: format!(
            "dependencies outside the batch are not met: {}",
            named.join("; ")
        ),
        hint: Some("add them to the batch, or finish them first".to_owned()),
    }
}

/// Whether a task has a claim that ends by itself: its batch has a conductor, its agent lives, or its agent has ended
/// and nobody has settled that yet, which the batch does that meets it.
fn is_claimed(reader: &Reader<'_>, setup: &Setup, task: &Task) -> Result<bool, ConductorError> {
    if let Some(batch) = task.claim
        && setup.workspace.conductor_of(batch).is_some()
    {
        return Ok(true);
    }
    Ok(reader
        .open_attempts_of(task.id)?
        .iter()
        .any(|attempt| attempt.end.is_none()))
}

/// The engine of a task, with its program found, or a refusal that names what is there.
fn engine_of(
    setup: &Setup,
    task: &Task,
    settings: &Settings,
    used: &mut HashMap<EngineName, (Engine, String)>,
) -> Result<EngineName, ConductorError> {
    let name = match (&task.run, &task.engine, &settings.engine) {
        (Some(_), _, _) => EngineName::shell(),
        (None, Some(name), _) | (None, None, Some(name)) => name
            .parse()
            .map_err(|_| unknown_engine(setup, task, name))?,
        (None, None, None) => return Err(no_engine(setup, task)),
    };
    if used.contains_key(&name) {
        return Ok(name);
    }
    let engine = setup
        .engines
        .get(&name)
        .ok_or_else(|| unknown_engine(setup, task, name.as_str()))?;
    if engine.runs_scripts() && task.run.is_none() {
        return Err(ConductorError::Refused {
            what: format!(
                "task {} has no `run` script for the shell engine",
                task.label()
            ),
            hint: Some(format!(
                "give it one with `cf tasks edit {} --run SCRIPT`, or choose an engine",
                task.label()
            )),
        });
    }
    let program = engine.program();
    let found = if settings.isolation == Isolation::Worktree && is_relative(program) {
        // It starts in a worktree, so what the base has of it decides: `trees::check`.
        program.to_owned()
    } else {
        program_started_in(setup.workspace.root(), program, &search_path(setup))
            .map_err(|why| no_program(setup, engine, why))?
            .display()
            .to_string()
    };
    used.insert(name.clone(), (engine.clone(), found));
    Ok(name)
}

/// Whether a program is a path that begins where the agent starts.
pub(super) fn is_relative(program: &str) -> bool {
    program.contains('/') && !program.starts_with('/')
}

fn no_program(setup: &Setup, engine: &Engine, why: NoProgram) -> ConductorError {
    let (name, program) = (&engine.name, engine.program());
    let root = setup.workspace.root().display();
    let (why, hint) = match why {
        NoProgram::NotOnPath => (
            "which is not on the PATH".to_owned(),
            format!(
                "install it, or choose another engine; {}",
                on_path(&search_path(setup))
            ),
        ),
        NoProgram::NotThere if is_relative(program) => (
            format!("which is not there: agents start in {root}"),
            format!("put it there, or write its path from {root}, or an absolute one"),
        ),
        NoProgram::NotThere => (
            "which is not there".to_owned(),
            format!("correct its path in [engines.{name}], or choose another engine"),
        ),
        NoProgram::NotExecutable(file) => (
            format!("and {} is not an executable file", file.display()),
            format!("try `chmod +x {}`", file.display()),
        ),
    };
    ConductorError::Refused {
        what: format!("engine {name} needs the program {program:?}, {why}"),
        hint: Some(hint),
    }
}

fn search_path(setup: &Setup) -> std::ffi::OsString {
    setup
        .environment
        .iter()
        .find(|(name, _)| name == OsStr::new("PATH"))
        .map(|(_, value)| value.clone())
        .unwrap_or_default()
}

fn no_engine(setup: &Setup, task: &Task) -> ConductorError {
    ConductorError::Refused {
        what: format!(
            "task {} has no `run` script, and no engine was chosen for it",
            task.label()
        ),
        hint: Some(format!(
            "choose one with --engine; {}",
            on_path(&search_path(setup))
        )),
    }
}

fn unknown_engine(setup: &Setup, task: &Task, name: &str) -> ConductorError {
    let known: Vec<&str> = setup
        .engines
        .iter()
        .map(|engine| engine.name.as_str())
        .collect();
    ConductorError::Refused {
        what: format!(
            "task {} names the engine {name:?}, which is not known",
            task.label()
        ),
        hint: Some(format!(
            "known engines: {}; [engines.NAME] in the configuration makes one",
            known.join(", ")
        )),
    }
}

fn on_path(path: &OsStr) -> String {
    let found: Vec<String> = agents_on_path(path)
        .into_iter()
        .map(|(name, _)| name.to_string())
        .collect();
    if found.is_empty() {
        "no known agent program is on the PATH".to_owned()
    } else {
        format!("on the PATH: {}", found.join(", "))
    }
}
