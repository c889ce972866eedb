//! Other programs that start many processes: make, xargs, GNU parallel, and pueue in a file of its own.
//!
//! They do less than `cf` (no store that survives them, no supervision, no reconciliation) and are the yardstick all
//! the same: this is what people use today.

pub(crate) mod pueue;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::bench::processes;
use crate::bench::stage::{SCRIPT, Stage, timed_ms};
use crate::problem::Problem;
use crate::repo::{Repo, must, on_path};

const PATIENCE: Duration = Duration::from_mins(1);

/// The peers that Debian has: program and package.
const PACKAGES: &[(&str, &str)] = &[
    ("make", "make"),
    ("xargs", "findutils"),
    ("parallel", "parallel"),
    ("sqlite3", "sqlite3"),
];

/// Always the same, so that its figures can be compared.
const PUEUE: &str = "pueue@4.0.4";

/// Brings the peers that are missing: from the distribution, and pueue from its source. What cannot be had is said, and
/// the measuring goes on without it.
pub(crate) fn install(repo: &Repo) -> Result<(), Problem> {
    let missing: Vec<&str> = PACKAGES
        .iter()
        .filter(|(program, _)| !on_path(program))
        .map(|(_, package)| *package)
        .collect();
    if !missing.is_empty() {
        let apt = |words: &[&str]| {
            let mut apt = Command::new("apt-get");
            apt.args(words)
                .env("DEBIAN_FRONTEND", "noninteractive")
                .stdin(Stdio::null());
            must(&mut apt)
        };
        let install = ["install", "-y", "-qq", "--no-install-recommends"];
        let installed = apt(&["update", "-qq"])
            .and_then(|()| apt(&[install.as_slice(), missing.as_slice()].concat()));
        if let Err(problem) = installed {
            println!("not installed: {} ({problem})", missing.join(", "));
        }
    }
    let root = repo.target()?.join("bench/peers");
    if !on_path("pueued") && !root.join("bin/pueued").is_file() {
        let install = ["install", "--quiet", "--locked", PUEUE, "--root"];
        if let Err(problem) = must(repo.cargo(&install).arg(&root)) {
            println!("not installed: pueue ({problem})");
        }
    }
    Ok(())
}

/// In which order `make` may take its targets.
#[derive(Clone, Copy)]
pub(crate) enum Order {
    Any,
    /// Each target needs the one before it.
    Chain,
}

/// `make`, its recipe the script that a task's `run` is, or the program alone, which it starts without a shell.
fn make(stage: &Stage, slots: usize, recipe: &str, order: Order) -> Result<Vec<f64>, Problem> {
    let tasks = stage.sizes.dispatch;
    let file = stage.fresh("Makefile")?;
    let names: Vec<String> = (0..tasks).map(|task| format!("t{task}")).collect();
    let mut text = format!("all: {0}\n.PHONY: all {0}\n", names.join(" "));
    for (at, name) in names.iter().enumerate() {
        let needs = match order {
            Order::Chain if at > 0 => names[at - 1].as_str(),
            Order::Any | Order::Chain => "",
        };
        writeln!(text, "{name}: {needs}\n\t@{recipe}").expect("writing to a string cannot fail");
    }
    fs::write(&file, text)?;
    let mut command = Command::new("make");
    command.arg(format!("-j{slots}")).arg("-f").arg(&file);
    command.env_remove("MAKEFLAGS");
    let elapsed = timed_ms(&mut command);
    Ok(vec![elapsed? / tasks as f64])
}

/// `make` with the script.
pub(crate) fn make_script(stage: &Stage, slots: usize, order: Order) -> Result<Vec<f64>, Problem> {
    make(stage, slots, SCRIPT, order)
}

/// `make` with the program.
pub(crate) fn make_program(stage: &Stage, slots: usize) -> Result<Vec<f64>, Problem> {
    make(stage, slots, &stage.noop.display().to_string(), Order::Any)
}

/// `xargs`, one process an item.
fn xargs(stage: &Stage, slots: usize, command: &[&str]) -> Result<Vec<f64>, Problem> {
    let tasks = stage.sizes.dispatch;
    let items = items(stage, tasks)?;
    let elapsed = timed_ms(&mut xargs_over(&items, slots, command));
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

fn xargs_over(items: &Path, slots: usize, command: &[&str]) -> Command {
    let mut xargs = Command::new("xargs");
    xargs
        .arg("-a")
        .arg(items)
        .args(["-n1", &format!("-P{slots}")])
        .args(command);
    xargs
}

/// GNU parallel with the script.
pub(crate) fn parallel(stage: &Stage, slots: usize) -> Result<Vec<f64>, Problem> {
    let tasks = stage.sizes.dispatch;
    let items = items(stage, tasks)?;
    let elapsed = timed_ms(&mut parallel_over(stage, &items, slots, SCRIPT));
    Ok(vec![elapsed? / tasks as f64])
}

fn parallel_over(stage: &Stage, items: &Path, slots: usize, script: &str) -> Command {
    let mut command = stage.peer("parallel");
    command
        .args(["--plain", "--will-cite", "-N0", &format!("-j{slots}"), "-a"])
        .arg(items)
        .arg(script);
    command
}

fn items(stage: &Stage, tasks: usize) -> Result<PathBuf, Problem> {
    let file = stage.fresh("items")?;
    let mut text = String::new();
    for task in 0..tasks {
        writeln!(text, "{task}").expect("writing to a string cannot fail");
    }
    fs::write(&file, text)?;
    Ok(file)
}

/// How much memory `xargs` takes while four agents sleep.
pub(crate) fn xargs_memory(stage: &Stage) -> Result<Vec<f64>, Problem> {
    memory(stage, "xargs", |items, agent| {
        xargs_over(items, 4, &["/bin/sh", "-c", agent])
    })
}

/// How much memory GNU parallel takes while four agents sleep: it is a Perl script.
pub(crate) fn parallel_memory(stage: &Stage) -> Result<Vec<f64>, Problem> {
    memory(stage, "perl", |items, agent| {
        parallel_over(stage, items, 4, agent)
    })
}

/// The PSS of the processes that run the program, below the command, once four agents sleep.
fn memory(
    stage: &Stage,
    program: &str,
    command: impl Fn(&Path, &str) -> Command,
) -> Result<Vec<f64>, Problem> {
    let items = items(stage, 4)?;
    let pids = items.with_file_name("pids");
    fs::create_dir_all(&pids)?;
    let mut running = Running(
        command(&items, &sleeper(&pids, 0))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?,
    );
    until_there(&pids, 4)?;
    thread::sleep(Duration::from_secs(1));
    let is_program = |path: &Path| path.file_name().is_some_and(|name| name == program);
    let measured = processes::below(running.0.id(), is_program)
        .and_then(|counted| processes::pss_mib(&counted));
    stop_agents(&pids)?;
    // Its agents failed, and so does it.
    running.0.wait()?;
    Ok(vec![measured?])
}

/// A script that leaves a number in a file with the name of its pid and sleeps until it is stopped.
fn sleeper(pids: &Path, number: usize) -> String {
    let pids = pids.display();
    format!("echo {number} > {pids}/$$.new; mv {pids}/$$.new {pids}/$$; exec sleep 3600")
}

/// Waits until so many agents have left their pids.
fn until_there(pids: &Path, agents: usize) -> Result<(), Problem> {
    let start = Instant::now();
    while pids_in(pids)?.len() < agents {
        if start.elapsed() > PATIENCE {
            return Err(Problem::new("the agents did not start within a minute"));
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// The pids that agents have left.
fn pids_in(pids: &Path) -> Result<Vec<u32>, Problem> {
    let mut found = Vec::new();
    for entry in fs::read_dir(pids)? {
        found.extend(entry?.file_name().to_string_lossy().parse::<u32>());
    }
    Ok(found)
}

fn stop_agents(pids: &Path) -> Result<(), Problem> {
    let agents = pids_in(pids)?;
    // One that has ended since needs no signal.
    let _ = Command::new("kill")
        .args(agents.iter().map(u32::to_string))
        .stderr(Stdio::null())
        .status();
    Ok(())
}

/// A process that ends when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already, unless something went wrong.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
