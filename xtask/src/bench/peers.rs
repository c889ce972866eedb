//! Other programs that start many processes: make, xargs, GNU parallel, pueue.
//!
//! They do less than `cf` (no store that survives them, no supervision, no reconciliation) and are the yardstick all
//! the same: this is what people use today.

use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::bench::stage::{SCRIPT, Stage, remove, timed_ms};
use crate::problem::Problem;
use crate::repo::{Repo, must, on_path, output};

/// pueue takes a third of a second for a task when it works serially; more of them would measure nothing better.
const PUEUE_TASKS: usize = 20;

/// Brings the peers that are missing: GNU parallel from the distribution, pueue from its source.
pub(crate) fn install(repo: &Repo) -> Result<(), Problem> {
    if !on_path("parallel") {
        must(Command::new("apt-get").args(["install", "--yes", "--quiet", "parallel"])).map_err(
            |problem| problem.hint("as an ordinary user, have GNU parallel installed first"),
        )?;
    }
    let root = repo.target()?.join("bench/peers");
    if !on_path("pueued") && !root.join("bin/pueued").is_file() {
        must(
            repo.cargo(&["install", "--quiet", "--locked", "pueue", "--root"])
                .arg(&root),
        )?;
    }
    Ok(())
}

/// `make`, its recipe the script that a task's `run` is, or the program alone.
pub(crate) fn make(stage: &Stage, slots: usize, recipe: &str) -> Result<Vec<f64>, Problem> {
    let tasks = stage.sizes.dispatch;
    let file = stage.fresh("Makefile")?;
    let names: Vec<String> = (0..tasks).map(|task| format!("t{task}")).collect();
    let names = names.join(" ");
    let text = format!("all: {names}\n.PHONY: all {names}\n{names}:\n\t@{recipe}\n");
    fs::write(&file, text)?;
    let mut command = Command::new("make");
    command.arg(format!("-j{slots}")).arg("-f").arg(&file);
    command.env_remove("MAKEFLAGS");
    let elapsed = timed_ms(&mut command);
    remove(&file);
    Ok(vec![elapsed? / tasks as f64])
}

/// `make` with the script.
pub(crate) fn make_script(stage: &Stage, slots: usize) -> Result<Vec<f64>, Problem> {
    make(stage, slots, SCRIPT)
}

/// `make` with the program, which it starts without a shell.
pub(crate) fn make_program(stage: &Stage, slots: usize) -> Result<Vec<f64>, Problem> {
    make(stage, slots, &stage.noop.display().to_string())
}

/// `xargs`, one process an item.
pub(crate) fn xargs(stage: &Stage, slots: usize, command: &[&str]) -> Result<Vec<f64>, Problem> {
    let tasks = stage.sizes.dispatch;
    let items = items(stage, tasks)?;
    let mut xargs = Command::new("xargs");
    xargs
        .arg("-a")
        .arg(&items)
        .args(["-n1", &format!("-P{slots}")])
        .args(command);
    let elapsed = timed_ms(&mut xargs);
    remove(&items);
    Ok(vec![elapsed? / tasks as f64])
}

/// `xargs` with the script.
pub(crate) fn xargs_script(stage: &Stage, slots: usize) -> Result<Vec<f64>, Problem> {
    xargs(stage, slots, &["/bin/sh", "-c", SCRIPT])
}

/// `xargs` with the program.
pub(crate) fn xargs_program(stage: &Stage, slots: usize) -> Result<Vec<f64>, Problem> {
    xargs(stage, slots, &[&stage.noop.display().to_string()])
}

/// GNU parallel with the script.
pub(crate) fn parallel(stage: &Stage, slots: usize) -> Result<Vec<f64>, Problem> {
    let tasks = stage.sizes.dispatch;
    let items = items(stage, tasks)?;
    let mut command = Command::new("parallel");
    command
        .args(["--plain", "--will-cite", "-N0", &format!("-j{slots}"), "-a"])
        .arg(&items)
        .arg(SCRIPT)
        .env("HOME", stage.scratch.join("home"));
    let elapsed = timed_ms(&mut command);
    remove(&items);
    Ok(vec![elapsed? / tasks as f64])
}

fn items(stage: &Stage, tasks: usize) -> Result<std::path::PathBuf, Problem> {
    let file = stage.fresh("items")?;
    let mut text = String::new();
    for task in 0..tasks {
        writeln!(text, "{task}").expect("writing to a string cannot fail");
    }
    fs::write(&file, text)?;
    Ok(file)
}

/// pueue with the script: from the first task that is added to the end of the last.
pub(crate) fn pueue(stage: &Stage, slots: usize) -> Result<Vec<f64>, Problem> {
    let home = stage.fresh("pueue")?;
    fs::create_dir_all(&home)?;
    let program = |name: &str| {
        let installed = stage.peer(name);
        let mut command = if installed.is_file() {
            Command::new(installed)
        } else {
            Command::new(name)
        };
        command.env("HOME", &home).stdin(Stdio::null());
        for base in [
            "XDG_CONFIG_HOME",
            "XDG_DATA_HOME",
            "XDG_RUNTIME_DIR",
            "XDG_STATE_HOME",
        ] {
            command.env(base, &home);
        }
        command
    };
    let mut daemon = program("pueued")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let measured = (|| {
        let start = Instant::now();
        while output(program("pueue").arg("status")).is_err() {
            if start.elapsed() > Duration::from_secs(10) {
                return Err(Problem::new("pueued did not start"));
            }
            thread::sleep(Duration::from_millis(20));
        }
        output(program("pueue").args(["parallel", &slots.to_string()]))?;
        let start = Instant::now();
        for _ in 0..PUEUE_TASKS {
            output(program("pueue").args(["add", "--", SCRIPT]))?;
        }
        output(program("pueue").args(["wait", "--quiet"]))?;
        Ok(vec![
            start.elapsed().as_secs_f64() * 1000.0 / PUEUE_TASKS as f64,
        ])
    })();
    // The daemon is ours; it ends whatever the measuring gave.
    let _ = daemon.kill();
    let _ = daemon.wait();
    remove(&home);
    measured
}
