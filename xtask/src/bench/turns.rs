//! The turns that contenders take: one measurement each, whose samples come back in the row's unit.

use std::process::Command;

use serde_json::Value;

use crate::bench::live;
use crate::bench::peers::pueue;
use crate::bench::stage::{Agent, SCRIPT, Stage, Workspace, timed_ms};
use crate::problem::Problem;
use crate::repo::output;

pub(crate) fn starts(stage: &Stage, command: impl Fn() -> Command) -> Result<Vec<f64>, Problem> {
    (0..stage.sizes.starts)
        .map(|_| timed_ms(&mut command()))
        .collect()
}

/// A peer that says its version.
pub(crate) fn version_of(stage: &Stage, program: &str) -> Result<Vec<f64>, Problem> {
    starts(stage, || {
        let mut peer = stage.peer(program);
        peer.arg("--version");
        peer
    })
}

pub(crate) fn read_floor(stage: &Stage, what: &str) -> Result<Vec<f64>, Problem> {
    let workspace = stage.store(stage.sizes.store)?;
    starts(stage, || {
        let mut command = Command::new(&stage.floor);
        command.arg(what).arg(workspace.db());
        command
    })
}

pub(crate) fn read_cf(stage: &Stage, args: &[&str]) -> Result<Vec<f64>, Problem> {
    let workspace = stage.store(stage.sizes.store)?;
    starts(stage, || stage.cf_in(&workspace, args))
}

pub(crate) fn sqlite3(stage: &Stage) -> Result<Vec<f64>, Problem> {
    let workspace = stage.store(stage.sizes.store)?;
    starts(stage, || {
        let mut command = Command::new("sqlite3");
        command
            .arg(workspace.db())
            .arg("SELECT id, key, status, priority, title FROM task ORDER BY pk");
        command
    })
}

fn spawn(stage: &Stage, slots: &str, agent: &[&str]) -> Result<Vec<f64>, Problem> {
    let tasks = stage.sizes.dispatch;
    let mut command = Command::new(&stage.floor);
    command
        .args(["spawn", slots, &tasks.to_string()])
        .args(agent);
    Ok(vec![timed_ms(&mut command)? / tasks as f64])
}

pub(crate) fn spawn_program(stage: &Stage, slots: &str) -> Result<Vec<f64>, Problem> {
    spawn(stage, slots, &[&stage.noop.display().to_string()])
}

pub(crate) fn spawn_script(stage: &Stage, slots: &str) -> Result<Vec<f64>, Problem> {
    spawn(stage, slots, &["/bin/sh", "-c", SCRIPT])
}

pub(crate) fn spawn_commit(
    stage: &Stage,
    slots: &str,
    sync: &str,
    commits: &str,
) -> Result<Vec<f64>, Problem> {
    let tasks = stage.sizes.dispatch;
    let db = stage.fresh("floor.db")?;
    let mut command = Command::new(&stage.floor);
    command
        .arg("spawn-commit")
        .arg(&db)
        .args([sync, commits, slots, &tasks.to_string()])
        .arg(&stage.noop);
    let elapsed = timed_ms(&mut command);
    Ok(vec![elapsed? / tasks as f64])
}

pub(crate) fn dispatch(stage: &Stage, slots: usize, agent: Agent) -> Result<Vec<f64>, Problem> {
    dispatch_of(stage, stage.sizes.dispatch, slots, agent)
}

/// A whole `cf work batch run` over tasks that the store holds already, divided by their number.
pub(crate) fn dispatch_of(
    stage: &Stage,
    tasks: usize,
    slots: usize,
    agent: Agent,
) -> Result<Vec<f64>, Problem> {
    let workspace = stage.workspace(tasks, agent)?;
    let elapsed = timed_ms(&mut run(stage, &workspace, slots))?;
    Ok(vec![elapsed / tasks as f64])
}

pub(crate) fn run(stage: &Stage, workspace: &Workspace, slots: usize) -> Command {
    let slots_text = slots.to_string();
    let strategy = if slots == 1 { "serial" } else { "parallel" };
    let mut args = vec![
        "work",
        "batch",
        "run",
        "--all-ready",
        "--strategy",
        strategy,
    ];
    if slots > 1 {
        args.extend(["--max-parallel", &slots_text]);
    }
    stage.cf_in(workspace, &args)
}

/// The slope between two batches, so that what a start costs once is not counted.
pub(crate) fn fsyncs(stage: &Stage) -> Result<Vec<f64>, Problem> {
    let (few, many) = (20, 60);
    let count = |tasks: usize| -> Result<f64, Problem> {
        let workspace = stage.workspace(tasks, Agent::Script)?;
        let trace = workspace.folder.join("trace").display().to_string();
        let calls = "trace=fsync,fdatasync,sync_file_range";
        let options = ["-f", "-qq", "-e", calls, "-o", &trace];
        let mut strace = Stage::through("strace", &options, &run(stage, &workspace, 1));
        timed_ms(&mut strace)?;
        let lines = std::fs::read_to_string(&trace)?;
        Ok(lines
            .lines()
            .filter(|line| line.contains("sync(") || line.contains("sync_file_range("))
            .count() as f64)
    };
    Ok(vec![(count(many)? - count(few)?) / (many - few) as f64])
}

pub(crate) fn idle(stage: &Stage) -> Result<(f64, f64), Problem> {
    let both = stage.once("idle", || {
        let (cpu, wakeups) = live::idle(stage)?;
        Ok(vec![cpu, wakeups])
    })?;
    Ok((both[0], both[1]))
}

pub(crate) fn idle_pueued(stage: &Stage) -> Result<(f64, f64), Problem> {
    let both = stage.once("idle pueued", || {
        let (cpu, wakeups) = pueue::idle(stage)?;
        Ok(vec![cpu, wakeups])
    })?;
    Ok((both[0], both[1]))
}

/// Milliseconds until the agent has its signal: from the commit of the process that marks its task DONE.
pub(crate) fn reaction(stage: &Stage) -> Result<Vec<f64>, Problem> {
    Ok(reactions(stage)?.into_iter().step_by(2).collect())
}

/// The same from the start of that process.
pub(crate) fn reaction_from_start(stage: &Stage) -> Result<Vec<f64>, Problem> {
    Ok(reactions(stage)?.into_iter().skip(1).step_by(2).collect())
}

/// The floor of [`reaction`].
pub(crate) fn reaction_floor(stage: &Stage) -> Result<Vec<f64>, Problem> {
    stage.once("floor of reaction", || {
        let both = live::reaction_floor(stage)?;
        Ok(both
            .into_iter()
            .map(|(from_commit, _)| from_commit)
            .collect())
    })
}

fn reactions(stage: &Stage) -> Result<Vec<f64>, Problem> {
    stage.once("reaction", || {
        let both = live::reaction(stage)?;
        Ok(both.into_iter().flat_map(|(a, b)| [a, b]).collect())
    })
}

pub(crate) fn append(stage: &Stage, sync: &str) -> Result<Vec<f64>, Problem> {
    let db = stage.fresh("floor.db")?;
    let mut command = Command::new(&stage.floor);
    command
        .arg("append")
        .arg(&db)
        .args([sync, &stage.sizes.events.to_string()]);
    let printed = output(&mut command);
    let rate = printed?;
    rate.trim()
        .parse()
        .map(|rate| vec![rate])
        .map_err(|_| Problem::new(format!("cf-floor append printed {rate:?}")))
}

const FLOOR_PASSES: &[&str] = &["unchanged_us", "one_changed_us", "all_changed_ms"];
const PASSES: &[&str] = &[
    "unchanged_us",
    "one_changed_us",
    "all_changed_ms",
    "links_fresh_ms",
];
const APPENDS: &[&str] = &["events_normal_per_second", "events_full_per_second"];

/// The floors of all passes are measured together, once a round, and so are the passes.
pub(crate) fn pass_floor(stage: &Stage, field: &str) -> Result<Vec<f64>, Problem> {
    let all = stage.once("floors of passes", || {
        let workspace = stage.blocked_store()?;
        let mut command = Command::new(&stage.floor);
        command.arg("passes").arg(workspace.db());
        fields(&output(&mut command)?, FLOOR_PASSES)
    })?;
    one_of(FLOOR_PASSES, &all, field)
}

/// What happens inside a conductor is measured inside one: by an example program of its crate, which prints JSON.
pub(crate) fn pass_cf(stage: &Stage, field: &str) -> Result<Vec<f64>, Problem> {
    let all = stage.once("passes", || measured(stage, stage.sizes.store, 1, PASSES))?;
    one_of(PASSES, &all, field)
}

/// The same for events, which do not ask for many tasks.
pub(crate) fn append_cf(stage: &Stage, field: &str) -> Result<Vec<f64>, Problem> {
    let all = stage.once("appends", || {
        measured(stage, 10, stage.sizes.events, APPENDS)
    })?;
    one_of(APPENDS, &all, field)
}

fn measured(
    stage: &Stage,
    tasks: usize,
    events: usize,
    names: &[&str],
) -> Result<Vec<f64>, Problem> {
    let folder = stage.fresh("measure")?;
    let printed = output(&mut stage.measure(&folder, tasks, &[&events.to_string()]));
    fields(&printed?, names)
}

fn fields(json: &str, names: &[&str]) -> Result<Vec<f64>, Problem> {
    let value: Value = serde_json::from_str(json).unwrap_or_default();
    let numbers = names.iter().map(|name| value[name].as_f64());
    numbers
        .collect::<Option<Vec<f64>>>()
        .ok_or_else(|| Problem::new(format!("not all of {names:?} are in {json:?}")))
}

fn one_of(names: &[&str], all: &[f64], name: &str) -> Result<Vec<f64>, Problem> {
    let at = names.iter().position(|found| *found == name);
    at.map(|at| vec![all[at]])
        .ok_or_else(|| Problem::new(format!("{name} is none of {names:?}")))
}
