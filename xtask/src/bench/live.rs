//! A batch that is running while it is looked at: memory, idleness, reaction.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::bench::stage::{Agent, Stage, Workspace};
use crate::problem::Problem;
use crate::repo::output;

const PATIENCE: Duration = Duration::from_mins(1);

/// A conductor with sleeping agents, in the background. Stopped, and its agents with it, when this is dropped.
struct Live<'a> {
    stage: &'a Stage,
    workspace: Workspace,
    conductor: Child,
}

impl Drop for Live<'_> {
    fn drop(&mut self) {
        if !matches!(self.conductor.try_wait(), Ok(None)) {
            return;
        }
        // Ctrl-C: the conductor stops its agents and verifies their end, which a kill would leave undone.
        let _ = Command::new("kill")
            .args(["-INT", &self.conductor.id().to_string()])
            .status();
        let _ = self.conductor.wait();
    }
}

impl<'a> Live<'a> {
    /// Starts a batch over so many tasks and waits until every slot has its agent.
    fn start(stage: &'a Stage, tasks: usize, slots: usize) -> Result<Self, Problem> {
        let workspace = stage.workspace(tasks, Agent::Sleeper)?;
        let errors = fs::File::create(workspace.folder.join("stderr"))?;
        let slots_text = slots.to_string();
        let conductor = stage
            .cf_in(
                &workspace,
                &[
                    "work",
                    "batch",
                    "run",
                    "--all-ready",
                    "--strategy",
                    "parallel",
                    "--max-parallel",
                    &slots_text,
                ],
            )
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()?;
        let mut live = Self {
            stage,
            workspace,
            conductor,
        };
        live.wait_for(|live| Ok(live.agents()?.len() >= slots.min(tasks)))?;
        Ok(live)
    }

    fn wait_for(
        &mut self,
        mut there: impl FnMut(&Self) -> Result<bool, Problem>,
    ) -> Result<(), Problem> {
        let start = Instant::now();
        while !there(self)? {
            if let Some(status) = self.conductor.try_wait()? {
                return Err(self.problem(&format!("the conductor ended ({status})")));
            }
            if start.elapsed() > PATIENCE {
                return Err(self.problem("the agents did not start within a minute"));
            }
            thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    fn problem(&self, what: &str) -> Problem {
        let said = fs::read_to_string(self.workspace.folder.join("stderr")).unwrap_or_default();
        Problem::new(format!("{what}: {}", said.trim_end()))
    }

    /// The agents that have started: their tasks' keys and pids.
    fn agents(&self) -> Result<HashMap<String, u32>, Problem> {
        let mut agents = HashMap::new();
        for entry in fs::read_dir(self.workspace.pids())? {
            let entry = entry?;
            let path = entry.path();
            let key = entry.file_name().to_string_lossy().into_owned();
            if let Some(pid) = fs::read_to_string(&path)
                .ok()
                .and_then(|text| text.trim().parse().ok())
                && path.extension().is_none()
            {
                agents.insert(key, pid);
            }
        }
        Ok(agents)
    }

    /// The conductor and its supervisors: every process below it, itself included, that runs `cf`.
    fn processes(&self) -> Result<Vec<u32>, Problem> {
        let mut parents = HashMap::new();
        for entry in fs::read_dir("/proc")? {
            let Ok(pid) = entry?.file_name().to_string_lossy().parse::<u32>() else {
                continue;
            };
            if let Some(parent) = parent(pid) {
                parents.insert(pid, parent);
            }
        }
        let ours = self.conductor.id();
        let below = |mut pid: u32| {
            while pid != ours {
                match parents.get(&pid) {
                    Some(parent) => pid = *parent,
                    None => return false,
                }
            }
            true
        };
        let found: Vec<u32> = parents
            .keys()
            .copied()
            .filter(|pid| {
                below(*pid)
                    && fs::read_link(format!("/proc/{pid}/exe"))
                        .is_ok_and(|exe| exe == self.stage.cf)
            })
            .collect();
        if found.contains(&ours) {
            return Ok(found);
        }
        Err(
            Problem::new("the conductor's entry in /proc cannot be read")
                .hint("a conductor makes itself undumpable; measure memory and idleness as root"),
        )
    }
}

/// The parent of a process: the second field after the name, which may itself hold spaces and parentheses.
fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

/// The sum of the proportional set sizes of conductor and supervisors, in MiB, while four agents run.
pub(crate) fn memory(stage: &Stage, tasks: usize) -> Result<Vec<f64>, Problem> {
    let live = Live::start(stage, tasks, 4)?;
    thread::sleep(Duration::from_secs(1));
    let mut kib = 0.0;
    for pid in live.processes()? {
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
        kib += field(&rollup, "Pss:").ok_or_else(|| Problem::new("smaps_rollup says no Pss"))?;
    }
    Ok(vec![kib / 1024.0])
}

/// What an idle conductor with one long agent costs: the share of a core in percent, and wake-ups a second.
pub(crate) fn idle(stage: &Stage) -> Result<(f64, f64), Problem> {
    let live = Live::start(stage, 1, 1)?;
    thread::sleep(Duration::from_secs(2));
    let pids = live.processes()?;
    let before = spent(&pids)?;
    let start = Instant::now();
    thread::sleep(Duration::from_secs(stage.sizes.idle_seconds));
    let seconds = start.elapsed().as_secs_f64();
    let after = spent(&pids)?;
    Ok((
        (after.0 - before.0) / 1e9 / seconds * 100.0,
        (after.1 - before.1) / seconds,
    ))
}

/// Nanoseconds on a core, and voluntary context switches, of every thread of the processes.
fn spent(pids: &[u32]) -> Result<(f64, f64), Problem> {
    let (mut nanoseconds, mut switches) = (0.0, 0.0);
    for pid in pids {
        for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
            let folder = thread?.path();
            let schedule = fs::read_to_string(folder.join("schedstat"))?;
            nanoseconds += schedule
                .split_whitespace()
                .next()
                .and_then(|text| text.parse::<f64>().ok())
                .unwrap_or_default();
            let status = fs::read_to_string(folder.join("status"))?;
            switches += field(&status, "voluntary_ctxt_switches:").unwrap_or_default();
        }
    }
    Ok((nanoseconds, switches))
}

fn field(text: &str, name: &str) -> Option<f64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

/// Milliseconds from the start of `resume`, after the conductor of a batch was killed, until it has said of each of its
/// agents that it is adopted.
pub(crate) fn recovery(stage: &Stage, tasks: usize, slots: usize) -> Result<Vec<f64>, Problem> {
    let mut live = Live::start(stage, tasks, slots)?;
    live.conductor.kill()?;
    live.conductor.wait()?;
    let said = live.workspace.folder.join("resumed");
    let file = fs::File::create(&said)?;
    let start = Instant::now();
    live.conductor = stage
        .cf_in(&live.workspace, &["work", "batch", "resume"])
        .stdout(file.try_clone()?)
        .stderr(file)
        .spawn()?;
    live.wait_for(|_| {
        let said = fs::read_to_string(&said)?;
        Ok(said.matches("adopted ").count() >= slots)
    })?;
    Ok(vec![start.elapsed().as_secs_f64() * 1000.0])
}

/// Milliseconds from the commit of another process, which marks a running task DONE, to the signal at its agent.
pub(crate) fn reaction(stage: &Stage) -> Result<Vec<f64>, Problem> {
    let changes = stage.sizes.reactions;
    let mut live = Live::start(stage, changes, 4)?;
    let db = live.workspace.db();
    let mut samples = Vec::new();
    let mut done: Vec<String> = Vec::new();
    while samples.len() < changes {
        let mut next = None;
        live.wait_for(|live| {
            next = live
                .agents()?
                .into_iter()
                .find(|(key, _)| !done.contains(key));
            Ok(next.is_some())
        })?;
        let (key, pid) = next.expect("the wait ends when there is one");
        // The conductor shall be at rest, as it is when a person makes a change, not in the middle of the last one.
        thread::sleep(Duration::from_millis(20));
        samples.push(react(&live, &db, &key, pid)?);
        done.push(key);
    }
    Ok(samples)
}

fn react(live: &Live<'_>, db: &PathBuf, key: &str, pid: u32) -> Result<f64, Problem> {
    let stage = live.stage;
    let mut command = stage.cf_in(&live.workspace, &["tasks", "set", "status", key, "DONE"]);
    let mut floor = Command::new(&stage.floor);
    floor
        .arg("react")
        .arg(db)
        .args([&pid.to_string(), key])
        .arg(command.get_program())
        .args(command.get_args())
        .env("HOME", stage.scratch.join("home"))
        .current_dir(&stage.scratch);
    command.stdin(Stdio::null());
    let printed = output(&mut floor)?;
    printed
        .trim()
        .parse()
        .map_err(|_| Problem::new(format!("cf-floor react printed {printed:?}")))
}
