//! pueue: a daemon with a queue, and a client.
//!
//! Each daemon that is measured is ours alone: its files and its socket lie in the scratch folder, it listens on
//! nothing else, and it is shut down when its measurement ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{PATIENCE, pids_in, sleeper, until_there};
use crate::bench::stage::{SCRIPT, Stage, timed_ms};
use crate::bench::{live, processes};
use crate::problem::Problem;
use crate::repo::output;

/// The tasks between two marks: the daemon looks after its tasks every 300 ms, so that more would only take longer.
const FEW: usize = 12;
/// The tasks before the first mark.
const BEFORE: usize = 3;

/// A daemon of our own.
struct Pueued<'a> {
    stage: &'a Stage,
    home: PathBuf,
    daemon: Child,
}

impl<'a> Pueued<'a> {
    /// Starts one whose queue is empty.
    fn start(stage: &'a Stage, slots: usize) -> Result<Self, Problem> {
        let home = stage.fresh("pueue")?;
        fs::create_dir_all(&home)?;
        let folder = home.display();
        fs::write(
            home.join("pueue.yml"),
            format!(
                "shared:\n  pueue_directory: {folder}\n  runtime_directory: {folder}\n  \
                 use_unix_socket: true\n  unix_socket_path: {folder}/socket\n"
            ),
        )?;
        let daemon = Self::spawn(stage, &home)?;
        let pueued = Self {
            stage,
            home,
            daemon,
        };
        pueued.until_it_answers()?;
        pueued.ask(&["parallel", &slots.to_string()])?;
        Ok(pueued)
    }

    /// Starts one that has so many tasks in its list, none of which it may run: adding them one by one would take it
    /// minutes, so one is added, and copied in the file in which it keeps them.
    fn with_list(stage: &'a Stage, slots: usize, tasks: usize) -> Result<Self, Problem> {
        let mut pueued = Self::start(stage, slots)?;
        pueued.ask(&["add", "--stashed", "--", SCRIPT])?;
        pueued.shut_down();
        let state = pueued.home.join("state.json");
        let text = fs::read_to_string(&state)?;
        fs::write(&state, copied(&text, tasks)?)?;
        pueued.daemon = Self::spawn(stage, &pueued.home)?;
        pueued.until_it_answers()?;
        Ok(pueued)
    }

    fn spawn(stage: &Stage, home: &Path) -> Result<Child, Problem> {
        Ok(configured(stage.peer("pueued"), home)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?)
    }

    fn client(&self, args: &[&str]) -> Command {
        let mut command = configured(self.stage.peer("pueue"), &self.home);
        command.args(args);
        command
    }

    fn ask(&self, args: &[&str]) -> Result<String, Problem> {
        output(&mut self.client(args))
    }

    fn until_it_answers(&self) -> Result<(), Problem> {
        let start = Instant::now();
        while self.ask(&["status"]).is_err() {
            if start.elapsed() > PATIENCE {
                return Err(Problem::new("pueued did not start within a minute"));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Adds sleeping agents and waits until they run. Returns where their pids are.
    fn sleep(&self, agents: usize) -> Result<PathBuf, Problem> {
        let pids = self.home.join("pids");
        fs::create_dir_all(&pids)?;
        for agent in 0..agents {
            self.ask(&["add", "--", &sleeper(&pids, agent)])?;
        }
        until_there(&pids, agents)?;
        Ok(pids)
    }

    fn processes(&self) -> Result<Vec<u32>, Problem> {
        processes::below(self.daemon.id(), |program| {
            program.file_name().is_some_and(|name| name == "pueued")
        })
    }

    /// Lets it end its tasks and itself. One that does not is killed; the keeper sees whether anything is left.
    fn shut_down(&mut self) {
        let _ = self.ask(&["shutdown"]);
        let start = Instant::now();
        while matches!(self.daemon.try_wait(), Ok(None)) && start.elapsed() < PATIENCE / 6 {
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

impl Drop for Pueued<'_> {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// With an environment of its own, because the daemon keeps a copy of it for every task.
fn configured(mut command: Command, home: &Path) -> Command {
    command
        .arg("--config")
        .arg(home.join("pueue.yml"))
        .env_clear()
        .env("HOME", home)
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    command
}

/// The daemon's file with so many copies of its only task.
fn copied(state: &str, tasks: usize) -> Result<String, Problem> {
    let unknown = || Problem::new("this version of pueue keeps its tasks in another way");
    let mut state: Value = serde_json::from_str(state).map_err(|_| unknown())?;
    let list = state.get_mut("tasks").and_then(Value::as_object_mut);
    let list = list.ok_or_else(unknown)?;
    let (_, first) = list.iter().next().ok_or_else(unknown)?;
    let mut task = first.clone();
    for id in 0..tasks {
        *task.get_mut("id").ok_or_else(unknown)? = id.into();
        list.insert(id.to_string(), task.clone());
    }
    Ok(state.to_string())
}

/// Milliseconds per task, as the slope between two marks in the middle of a queue; adding the tasks is not counted.
pub(crate) fn dispatch(stage: &Stage, slots: usize) -> Result<Vec<f64>, Problem> {
    let pueued = Pueued::start(stage, slots)?;
    let marks = ["first", "second"].map(|name| pueued.home.join(name));
    pueued.ask(&["pause"])?;
    for (mark, tasks) in marks.iter().zip([BEFORE, FEW]) {
        // The mark is a task as well.
        for _ in 1..tasks {
            pueued.ask(&["add", "--", SCRIPT])?;
        }
        pueued.ask(&["add", "--", &format!("echo > {}", mark.display())])?;
    }
    pueued.ask(&["start"])?;
    let start = Instant::now();
    let mut seen = marks.iter().map(|mark| {
        while !mark.exists() {
            if start.elapsed() > PATIENCE {
                return Err(Problem::new("pueued did not run its tasks within a minute"));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(Instant::now())
    });
    let mut next = || seen.next().expect("there are two marks");
    let (first, second) = (next()?, next()?);
    Ok(vec![(second - first).as_secs_f64() * 1000.0 / FEW as f64])
}

/// Milliseconds of `pueue status` with so many tasks, from start to end.
pub(crate) fn list(stage: &Stage) -> Result<Vec<f64>, Problem> {
    let pueued = Pueued::with_list(stage, 1, stage.sizes.store)?;
    (0..2)
        .map(|_| timed_ms(&mut pueued.client(&["status"])))
        .collect()
}

/// The daemon's memory in MiB while four agents sleep, and so many more tasks are in its list.
pub(crate) fn memory(stage: &Stage, tasks: usize) -> Result<Vec<f64>, Problem> {
    let pueued = if tasks > 4 {
        Pueued::with_list(stage, 4, tasks)?
    } else {
        Pueued::start(stage, 4)?
    };
    pueued.sleep(4)?;
    thread::sleep(Duration::from_secs(1));
    Ok(vec![processes::pss_mib(&pueued.processes()?)?])
}

/// The daemon with one long agent: the share of a core in percent, and wake-ups a second.
pub(crate) fn idle(stage: &Stage) -> Result<(f64, f64), Problem> {
    let pueued = Pueued::start(stage, 1)?;
    pueued.sleep(1)?;
    thread::sleep(Duration::from_secs(2));
    live::idleness(stage, &pueued.processes()?)
}

/// Milliseconds from the start of `pueue kill` to the end of the agent, one agent after another.
pub(crate) fn reaction(stage: &Stage) -> Result<Vec<f64>, Problem> {
    let agents = stage.sizes.reactions;
    let pueued = Pueued::start(stage, agents)?;
    let pids = pueued.sleep(agents)?;
    pids_in(&pids)?
        .into_iter()
        .map(|pid| {
            let pid = pid.to_string();
            // A new daemon counts its tasks from 0, in the order in which they were added.
            let task = fs::read_to_string(pids.join(&pid))?;
            thread::sleep(Duration::from_millis(20));
            let kill = pueued.client(&["kill", task.trim()]);
            let mut floor =
                Stage::through(&stage.floor.display().to_string(), &["kill", &pid], &kill);
            let printed = output(&mut floor)?;
            match live::numbers(&printed).as_slice() {
                [from_start] => Ok(*from_start),
                _ => Err(Problem::new(format!("cf-floor kill printed {printed:?}"))),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_task_of_a_list_is_copied_with_an_id_of_its_own() {
        let state = r#"{"groups":{"default":1},"tasks":{"0":{"id":0,"command":"true"}}}"#;
        let copied: Value = serde_json::from_str(&copied(state, 3).unwrap()).unwrap();
        assert_eq!(copied["groups"]["default"], 1);
        assert_eq!(copied["tasks"].as_object().unwrap().len(), 3);
        assert_eq!(copied["tasks"]["2"]["id"], 2);
        assert_eq!(copied["tasks"]["2"]["command"], "true");
    }

    #[test]
    fn a_list_that_is_kept_in_another_way_is_said() {
        assert!(super::copied("{}", 3).is_err());
        assert!(super::copied("[]", 3).is_err());
    }
}
