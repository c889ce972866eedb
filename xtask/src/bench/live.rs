//! A batch that is running while it is looked at: memory, idleness, reaction.

use std::collections::HashMap;
use std::fs;
use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::bench::processes;
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
        processes::below(self.conductor.id(), |program| program == self.stage.cf)
    }
}

/// The sum of the proportional set sizes of conductor and supervisors, in MiB, while four agents run.
pub(crate) fn memory(stage: &Stage, tasks: usize) -> Result<Vec<f64>, Problem> {
    let live = Live::start(stage, tasks, 4)?;
    thread::sleep(Duration::from_secs(1));
    Ok(vec![processes::pss_mib(&live.processes()?)?])
}

/// What an idle conductor with one long agent costs: the share of a core in percent, and wake-ups a second.
pub(crate) fn idle(stage: &Stage) -> Result<(f64, f64), Problem> {
    let live = Live::start(stage, 1, 1)?;
    thread::sleep(Duration::from_secs(2));
    let pids = live.processes()?;
    idleness(stage, &pids)
}

/// The share of a core in percent, and wake-ups a second, of processes that have nothing to do.
pub(crate) fn idleness(stage: &Stage, pids: &[u32]) -> Result<(f64, f64), Problem> {
    let before = processes::spent(pids)?;
    let start = Instant::now();
    thread::sleep(Duration::from_secs(stage.sizes.idle_seconds));
    let seconds = start.elapsed().as_secs_f64();
    let after = processes::spent(pids)?;
    Ok((
        (after.0 - before.0) / 1e9 / seconds * 100.0,
        (after.1 - before.1) / seconds,
    ))
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

/// Milliseconds until the signal is at the agent when another process marks its task DONE: from that process's commit,
/// and from its start.
pub(crate) fn reaction(stage: &Stage) -> Result<Vec<(f64, f64)>, Problem> {
    let changes = stage.sizes.reactions;
    let mut live = Live::start(stage, changes, 4)?;
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
        samples.push(react(stage, &live.workspace, &key, pid)?);
        done.push(key);
    }
    Ok(samples)
}

/// The same with a bare watcher in the place of the conductor, which does nothing but look and signal.
pub(crate) fn reaction_floor(stage: &Stage) -> Result<Vec<(f64, f64)>, Problem> {
    let tasks = stage.sizes.reactions;
    let workspace = stage.workspace(tasks, Agent::Script)?;
    (0..tasks)
        .map(|task| {
            let key = format!("t{task}");
            let mut agent = Ended(Command::new("sleep").arg("3600").spawn()?);
            let mut watcher = Command::new(&stage.floor);
            watcher
                .arg("obey")
                .arg(workspace.db())
                .arg(workspace.folder.join(".cf/wake"))
                .args([&key, &agent.0.id().to_string()])
                .stdin(Stdio::null())
                .stdout(Stdio::piped());
            let mut watcher = Ended(watcher.spawn()?);
            let mut said = [0];
            let output = watcher.0.stdout.as_mut();
            output.expect("it is piped").read_exact(&mut said)?;
            thread::sleep(Duration::from_millis(20));
            let took = react(stage, &workspace, &key, agent.0.id())?;
            watcher.0.wait()?;
            agent.0.wait()?;
            Ok(took)
        })
        .collect()
}

/// A process that ends when it is dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It has ended already, unless something went wrong.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Marks a task DONE and returns how long it took its agent to end: from the commit, and from the start of the command.
fn react(stage: &Stage, workspace: &Workspace, key: &str, pid: u32) -> Result<(f64, f64), Problem> {
    let command = stage.cf_in(workspace, &["tasks", "set", "status", key, "DONE"]);
    let db = workspace.db().display().to_string();
    let mut floor = Stage::through(
        &stage.floor.display().to_string(),
        &["react", &db, &pid.to_string(), key],
        &command,
    );
    let printed = output(&mut floor)?;
    match numbers(&printed).as_slice() {
        [from_commit, from_start] => Ok((*from_commit, *from_start)),
        _ => Err(Problem::new(format!("cf-floor react printed {printed:?}"))),
    }
}

/// The numbers in a text that holds nothing else but white space.
pub(crate) fn numbers(text: &str) -> Vec<f64> {
    text.split_whitespace()
        .map_while(|word| word.parse().ok())
        .collect()
}
