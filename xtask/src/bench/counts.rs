//! Instructions, counted by callgrind: what is left of a measurement when the machine's mood is taken out.
//!
//! Only the program itself is counted, not what it starts, and not the kernel. A whole process is counted from its
//! start to its end; what happens inside one is the difference between doing it often and seldom, divided by how
//! often.

use std::fs;
use std::process::Command;

use crate::bench::stage::{Agent, Stage, timed_ms};
use crate::bench::turns::run;
use crate::problem::Problem;
use crate::repo::output;

/// A library for [`dispatch`].
const OWN_PROGRAM: &str = include_str!("../../data/own_program.c");

/// How many tasks the store has in which passes are counted; instructions per task hardly depend on it.
const TASKS: usize = 1_000;

/// The instructions of a whole process, which must succeed.
fn counted(stage: &Stage, command: &Command) -> Result<f64, Problem> {
    let out = stage.fresh("callgrind")?;
    let file = format!("--callgrind-out-file={}", out.display());
    let options = ["-q", "--tool=callgrind", &file];
    let counted = timed_ms(&mut Stage::through("valgrind", &options, command))
        .and_then(|_| Ok(fs::read_to_string(&out)?));
    total(&counted?)
}

/// The last line but comments of callgrind's file.
fn total(text: &str) -> Result<f64, Problem> {
    text.lines()
        .rev()
        .find_map(|line| {
            let count = line
                .strip_prefix("totals:")
                .or_else(|| line.strip_prefix("summary:"))?;
            count.split_whitespace().next()?.parse().ok()
        })
        .ok_or_else(|| Problem::new("callgrind counted nothing"))
}

/// The instructions of one more: the difference between many and few.
fn slope(
    few: usize,
    many: usize,
    count: impl Fn(usize) -> Result<f64, Problem>,
) -> Result<f64, Problem> {
    Ok((count(many)? - count(few)?) / (many - few) as f64)
}

/// A program that exits.
pub(crate) fn start_floor(stage: &Stage) -> Result<Vec<f64>, Problem> {
    Ok(vec![counted(stage, &Command::new(&stage.noop))?])
}

/// `cf --version`.
pub(crate) fn start_cf(stage: &Stage) -> Result<Vec<f64>, Problem> {
    let mut cf = stage.cf();
    cf.arg("--version");
    Ok(vec![counted(stage, &cf)?])
}

/// A read of the store of 10,000 tasks by the floor.
pub(crate) fn read_floor(stage: &Stage, what: &str) -> Result<Vec<f64>, Problem> {
    let workspace = stage.store(stage.sizes.store)?;
    let mut floor = Command::new(&stage.floor);
    floor.arg(what).arg(workspace.db());
    Ok(vec![counted(stage, &floor)?])
}

/// The same by `cf`.
pub(crate) fn read_cf(stage: &Stage, args: &[&str]) -> Result<Vec<f64>, Problem> {
    let workspace = stage.store(stage.sizes.store)?;
    Ok(vec![counted(stage, &stage.cf_in(&workspace, args))?])
}

/// A task of a serial batch, in the conductor alone.
///
/// The conductor starts itself through `/proc/self/exe`, which below valgrind is valgrind. A library that is loaded
/// before the others names the right program.
pub(crate) fn dispatch(stage: &Stage) -> Result<Vec<f64>, Problem> {
    let library = stage.fresh("own_program.so")?;
    let source = library.with_extension("c");
    fs::write(&source, OWN_PROGRAM)?;
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O2", "-o"])
        .arg(&library)
        .arg(&source);
    output(&mut cc)?;
    let each = slope(10, 50, |tasks| {
        let workspace = stage.workspace(tasks, Agent::Program)?;
        let mut run = run(stage, &workspace, 1);
        run.env("LD_PRELOAD", &library)
            .env("OWN_PROGRAM", &stage.cf);
        counted(stage, &run)
    })?;
    Ok(vec![each])
}

/// Spawning a program and waiting for it, in the process that does so.
pub(crate) fn spawn_floor(stage: &Stage) -> Result<Vec<f64>, Problem> {
    let each = slope(10, 50, |tasks| {
        let mut floor = Command::new(&stage.floor);
        floor
            .args(["spawn", "1", &tasks.to_string()])
            .arg(&stage.noop);
        counted(stage, &floor)
    })?;
    Ok(vec![each])
}

/// A pass of the floor: `all` (divided by the tasks), `unchanged` or `one`.
pub(crate) fn pass_floor(stage: &Stage, what: &str) -> Result<Vec<f64>, Problem> {
    let store = stage.fresh("store")?;
    let made = timed_ms(&mut stage.measure(&store, TASKS, &["1"]));
    let each = made.and_then(|_| {
        let (few, many) = rounds(what);
        slope(few, many, |times| {
            let mut floor = Command::new(&stage.floor);
            floor
                .arg("pass")
                .arg(store.join(".cf/state.db"))
                .args([what, &times.to_string()]);
            counted(stage, &floor)
        })
    });
    Ok(vec![each? / shared_by(what)])
}

/// A pass of the conductor: `all` (divided by the tasks), `unchanged`, `one`, or `links` (divided by the links).
pub(crate) fn pass_cf(stage: &Stage, what: &str) -> Result<Vec<f64>, Problem> {
    let (few, many) = rounds(what);
    let each = |what: &str| slope(few, many, |times| repeated(stage, what, times));
    let mut count = each(what)?;
    if what == "one" {
        // The write that the pass is about is somebody else's.
        count -= each("write")?;
    }
    Ok(vec![count / shared_by(what)])
}

fn repeated(stage: &Stage, what: &str, times: usize) -> Result<f64, Problem> {
    let folder = stage.fresh("measure")?;
    // Links have a workspace of their own.
    let tasks = if what == "links" { 10 } else { TASKS };
    let repeat = stage.measure(&folder, tasks, &[what, &times.to_string()]);
    counted(stage, &repeat)
}

fn rounds(what: &str) -> (usize, usize) {
    match what {
        "unchanged" => (1_000, 6_000),
        "one" => (20, 120),
        _ => (2, 12),
    }
}

fn shared_by(what: &str) -> f64 {
    match what {
        "all" | "links" => TASKS as f64,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_that_of_the_whole_process() {
        let text = "version: 1\nevents: Ir\nsummary: 12\nfn=(1)\n1 5\n2 7\ntotals: 12\n";
        assert!((total(text).unwrap() - 12.0).abs() < 1e-9);
        assert!(total("version: 1\n").is_err());
    }

    #[test]
    fn a_slope_leaves_out_what_is_done_once() {
        let each = slope(10, 50, |times| Ok(1_000.0 + 7.0 * times as f64)).unwrap();
        assert!((each - 7.0).abs() < 1e-9);
    }
}
