//! The turns that contenders take: one measurement each, whose samples come back in the row's unit.

use std::process::Command;

use serde_json::Value;

use crate::bench::live;
use crate::bench::stage::{Agent, SCRIPT, Stage, Workspace, remove, timed_ms};
use crate::problem::Problem;
use crate::repo::output;

pub(crate) fn starts(stage: &Stage, command: impl Fn() -> Command) -> Result<Vec<f64>, Problem> {
    (0..stage.sizes.starts)
        .map(|_| timed_ms(&mut command()))
        .collect()
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
    remove(&db);
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

fn run(stage: &Stage, workspace: &Workspace, slots: usize) -> Command {
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
        let trace = workspace.folder.join("trace");
        let run = run(stage, &workspace, 1);
        let mut strace = Command::new("strace");
        strace
            .args(["-f", "-qq", "-e", "trace=fsync,fdatasync,sync_file_range"])
            .arg("-o")
            .arg(&trace)
            .arg(run.get_program())
            .args(run.get_args())
            .env("HOME", stage.scratch.join("home"))
            .current_dir(&stage.scratch);
        timed_ms(&mut strace)
            .map_err(|problem| problem.hint("strace counts the calls; install it"))?;
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

pub(crate) fn reaction(stage: &Stage) -> Result<Vec<f64>, Problem> {
    stage.once("reaction", || live::reaction(stage))
}

pub(crate) fn append(stage: &Stage, sync: &str) -> Result<Vec<f64>, Problem> {
    let db = stage.fresh("floor.db")?;
    let mut command = Command::new(&stage.floor);
    command
        .arg("append")
        .arg(&db)
        .args([sync, &stage.sizes.events.to_string()]);
    let printed = output(&mut command);
    remove(&db);
    let rate = printed?;
    rate.trim()
        .parse()
        .map(|rate| vec![rate])
        .map_err(|_| Problem::new(format!("cf-floor append printed {rate:?}")))
}

pub(crate) fn pass_floor(stage: &Stage, field: &str) -> Result<Vec<f64>, Problem> {
    let workspace = stage.blocked_store()?;
    let mut command = Command::new(&stage.floor);
    command.arg("passes").arg(workspace.db());
    number(&output(&mut command)?, field)
}

/// What happens inside a conductor is measured inside one: by an example program of its crate, which prints JSON.
pub(crate) fn pass_cf(stage: &Stage, field: &str) -> Result<Vec<f64>, Problem> {
    let folder = stage.fresh("measure")?;
    let printed = output(&mut stage.measure(&folder, stage.sizes.events));
    remove(&folder);
    number(&printed?, field)
}

fn number(json: &str, field: &str) -> Result<Vec<f64>, Problem> {
    serde_json::from_str::<Value>(json)
        .ok()
        .and_then(|value| value[field].as_f64())
        .map(|number| vec![number])
        .ok_or_else(|| Problem::new(format!("no number {field:?} in {json:?}")))
}
