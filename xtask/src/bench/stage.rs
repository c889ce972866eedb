//! Where the measuring happens: the programs, a scratch folder on a real disk, and workspaces of a given size.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Instant;

use super::disk;
use crate::checks::layers;
use crate::problem::Problem;
use crate::repo::{Repo, on_path, output};

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    /// Agents that are dispatched in one turn.
    pub(crate) dispatch: usize,
    /// Tasks of the store that is listed and counted.
    pub(crate) store: usize,
    /// The two batches whose cost per task is compared.
    pub(crate) growth: (usize, usize),
    /// Changes by another process in one turn.
    pub(crate) reactions: usize,
    /// How long an idle conductor is watched in one turn, in seconds.
    pub(crate) idle_seconds: u64,
    /// Events that are appended in one turn.
    pub(crate) events: usize,
    /// How often a short program is started in one turn.
    pub(crate) starts: usize,
}

const FULL: Sizes = Sizes {
    dispatch: 200,
    store: 10_000,
    growth: (10_000, 100_000),
    reactions: 60,
    idle_seconds: 15,
    events: 5_000,
    starts: 5,
};

const QUICK: Sizes = Sizes {
    dispatch: 60,
    store: 10_000,
    growth: (500, 5_000),
    reactions: 15,
    idle_seconds: 5,
    events: 1_000,
    starts: 5,
};

/// What an agent that does nothing is.
#[derive(Clone, Copy)]
pub(crate) enum Agent {
    /// The script `/bin/true > /dev/null`, run by `/bin/sh -c`: what a task's `run` is.
    Script,
    /// A program that ends at once, started without a shell: what an engine from the configuration is.
    Program,
    /// A script that leaves its pid in a file and then sleeps until it is stopped.
    Sleeper,
}

/// The folder for scratch folders in a place that is not the build folder.
const PLACE: &str = "cf-bench";

/// The script that stands for a task's `run`, the same for everybody who is measured.
pub(crate) const SCRIPT: &str = "/bin/true > /dev/null";

/// The programs, the scratch folder, and what has been made once for several rows.
pub(crate) struct Stage {
    pub(crate) cf: PathBuf,
    pub(crate) floor: PathBuf,
    pub(crate) noop: PathBuf,
    pub(crate) scratch: PathBuf,
    pub(crate) sizes: Sizes,
    measure: PathBuf,
    peers: PathBuf,
    made: Cell<usize>,
    stores: RefCell<HashMap<usize, Rc<Workspace>>>,
    blocked: RefCell<Option<Rc<Workspace>>>,
    round: Cell<usize>,
    kept: RefCell<HashMap<(&'static str, usize), Vec<f64>>>,
    /// The crates that `cf` is built from, itself included.
    pub(crate) crates: usize,
}

/// A workspace made for measuring. It goes when everything has been measured.
pub(crate) struct Workspace {
    pub(crate) folder: PathBuf,
}

impl Drop for Stage {
    /// Removes everything that was made, and not earlier: a file system may look at every file that was removed a
    /// moment ago before it makes a new one (ext4 without a journal does), and whoever is measured next would pay.
    fn drop(&mut self) {
        // What cannot be removed is tried again by the next run in the same folder.
        let _ = fs::remove_dir_all(&self.scratch);
        if let Some(place) = self.scratch.parent().filter(|place| place.ends_with(PLACE)) {
            let _ = fs::remove_dir(place);
        }
    }
}

/// Removes the scratch folders of runs that were ended before they could do so.
fn remove_old_runs(bench: &Path) {
    for entry in fs::read_dir(bench).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(pid) = name.strip_prefix("run-")
            && !Path::new("/proc").join(pid).exists()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl Workspace {
    pub(crate) fn db(&self) -> PathBuf {
        self.folder.join(".cf/state.db")
    }

    /// Where the sleeping agents leave their pids, a file a task.
    pub(crate) fn pids(&self) -> PathBuf {
        self.folder.join("pids")
    }
}

impl Stage {
    /// Finds what was built, and makes a scratch folder: below `place` if there is one, else in the build folder.
    pub(crate) fn new(repo: &Repo, quick: bool, place: Option<&Path>) -> Result<Self, Problem> {
        let target = repo.target()?;
        let release = target.join("release");
        let bench = target.join("bench");
        let place = match place {
            Some(place) => place
                .canonicalize()
                .map_err(|error| Problem::new(format!("--in {}: {error}", place.display())))?
                .join(PLACE),
            None => bench.clone(),
        };
        fs::create_dir_all(&place)?;
        if disk::is_in_memory(&place)? {
            return Err(Problem::new(format!(
                "{} lies in memory, where a flush costs nothing; name a folder on a disk with --in DIR",
                place.display()
            )));
        }
        let scratch = place.join(format!("run-{}", std::process::id()));
        remove_old_runs(&place);
        fs::create_dir_all(scratch.join("home"))?;
        Ok(Self {
            cf: release.join("cf").canonicalize()?,
            floor: release.join("cf-floor"),
            noop: release.join("cf-noop"),
            peers: bench.join("peers/bin"),
            scratch,
            sizes: if quick { QUICK } else { FULL },
            measure: release.join("examples/measure"),
            made: Cell::new(0),
            stores: RefCell::default(),
            blocked: RefCell::default(),
            round: Cell::new(0),
            kept: RefCell::default(),
            crates: layers::closure(repo, "cf-cli")?.len() + 1,
        })
    }

    /// Tells whether a peer is installed, for the measuring or for everybody.
    pub(crate) fn has(&self, program: &str) -> bool {
        on_path(program) || self.peers.join(program).is_file()
    }

    /// A peer; one that was installed for the measuring before one that is on the PATH.
    pub(crate) fn peer(&self, program: &str) -> Command {
        let installed = self.peers.join(program);
        let mut command = if installed.is_file() {
            Command::new(installed)
        } else {
            Command::new(program)
        };
        command
            .env("HOME", self.scratch.join("home"))
            .current_dir(&self.scratch)
            .stdin(Stdio::null());
        command
    }

    /// Says which round it is: what [`Stage::once`] keeps is kept for a round.
    pub(crate) fn begin_round(&self, round: usize) {
        self.round.set(round);
    }

    /// `cf`, with a home of its own and nothing of the caller's settings.
    pub(crate) fn cf(&self) -> Command {
        let mut command = Command::new(&self.cf);
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            if name.starts_with("CF_") || name.ends_with("_TOKEN") || name.starts_with("XDG_") {
                command.env_remove(name);
            }
        }
        command
            .env("HOME", self.scratch.join("home"))
            .current_dir(&self.scratch)
            .stdin(Stdio::null());
        command
    }

    /// `cf` in a workspace.
    pub(crate) fn cf_in(&self, workspace: &Workspace, args: &[&str]) -> Command {
        let mut command = self.cf();
        command.arg("-C").arg(&workspace.folder).args(args);
        command
    }

    /// Returns a fresh workspace with so many tasks in it.
    pub(crate) fn workspace(&self, tasks: usize, agent: Agent) -> Result<Workspace, Problem> {
        self.made.set(self.made.get() + 1);
        let workspace = Workspace {
            folder: self.scratch.join(format!("workspace-{}", self.made.get())),
        };
        fs::create_dir_all(workspace.pids())?;
        let mut init = self.cf();
        output(init.arg("init").arg(&workspace.folder))?;
        if matches!(agent, Agent::Program) {
            let config = workspace.folder.join(".cf/config.toml");
            let mut text = fs::read_to_string(&config).unwrap_or_default();
            write!(
                text,
                "\n[engines.noop]\ncommand = [\"{}\"]\nprompt = \"file\"\n",
                self.noop.display()
            )
            .expect("writing to a string cannot fail");
            fs::write(&config, text)?;
        }
        let plan = workspace.folder.join("plan.toml");
        fs::write(&plan, plan_text(&workspace, tasks, agent))?;
        output(self.cf_in(&workspace, &["tasks", "import"]).arg(&plan))?;
        Ok(workspace)
    }

    /// Returns the workspace of so many tasks that several rows read and none changes.
    pub(crate) fn store(&self, tasks: usize) -> Result<Rc<Workspace>, Problem> {
        if let Some(found) = self.stores.borrow().get(&tasks) {
            return Ok(Rc::clone(found));
        }
        let made = Rc::new(self.workspace(tasks, Agent::Script)?);
        self.stores.borrow_mut().insert(tasks, Rc::clone(&made));
        Ok(made)
    }

    /// The example program that measures passes and events inside a conductor. It makes a workspace in the folder, a
    /// tenth of its tasks blocked, and leaves it there.
    pub(crate) fn measure(&self, folder: &Path, tasks: usize, what: &[&str]) -> Command {
        let mut command = Command::new(&self.measure);
        command
            .arg(folder)
            .arg(tasks.to_string())
            .args(what)
            .stdin(Stdio::null());
        command
    }

    /// Returns the workspace whose tasks are those of a pass, for the floor of the same pass.
    pub(crate) fn blocked_store(&self) -> Result<Rc<Workspace>, Problem> {
        if let Some(found) = &*self.blocked.borrow() {
            return Ok(Rc::clone(found));
        }
        self.made.set(self.made.get() + 1);
        let made = Rc::new(Workspace {
            folder: self.scratch.join(format!("workspace-{}", self.made.get())),
        });
        output(&mut self.measure(&made.folder, self.sizes.store, &["1"]))?;
        Ok(Rc::clone(self.blocked.borrow_mut().insert(made)))
    }

    /// Measures once a round what several rows look at from different sides.
    pub(crate) fn once(
        &self,
        name: &'static str,
        measure: impl FnOnce() -> Result<Vec<f64>, Problem>,
    ) -> Result<Vec<f64>, Problem> {
        let key = (name, self.round.get());
        if let Some(kept) = self.kept.borrow().get(&key) {
            return Ok(kept.clone());
        }
        let samples = measure()?;
        self.kept.borrow_mut().insert(key, samples.clone());
        Ok(samples)
    }

    /// Runs a command below a tool that looks at it, in the same place and with the same environment.
    pub(crate) fn through(tool: &str, options: &[&str], command: &Command) -> Command {
        let mut through = Command::new(tool);
        through
            .args(options)
            .arg(command.get_program())
            .args(command.get_args())
            .stdin(Stdio::null());
        if let Some(folder) = command.get_current_dir() {
            through.current_dir(folder);
        }
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => through.env(name, value),
                None => through.env_remove(name),
            };
        }
        through
    }

    /// Returns a path in the scratch folder at which nothing is.
    pub(crate) fn fresh(&self, name: &str) -> Result<PathBuf, Problem> {
        self.made.set(self.made.get() + 1);
        let folder = self.scratch.join(format!("fresh-{}", self.made.get()));
        fs::create_dir_all(&folder)?;
        Ok(folder.join(name))
    }
}

fn plan_text(workspace: &Workspace, tasks: usize, agent: Agent) -> String {
    let what = match agent {
        Agent::Script => format!("run = '{SCRIPT}'"),
        Agent::Program => "engine = 'noop'".to_owned(),
        Agent::Sleeper => format!(
            "run = 'echo $$ > {pids}/$CF_TASK_KEY.new && mv {pids}/$CF_TASK_KEY.new {pids}/$CF_TASK_KEY && exec sleep 3600'",
            pids = workspace.pids().display()
        ),
    };
    let mut plan = String::new();
    for task in 0..tasks {
        writeln!(
            plan,
            "[[task]]\nkey = 't{task}'\ntitle = 'Task number {task} of the measurement'\n{what}\n"
        )
        .expect("writing to a string cannot fail");
    }
    plan
}

/// Runs a command that must succeed, its output thrown away, and returns the milliseconds that it took.
pub(crate) fn timed_ms(command: &mut Command) -> Result<f64, Problem> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let start = Instant::now();
    let child = command
        .spawn()
        .map_err(|error| Problem::new(format!("{}: {error}", crate::repo::show(command))))?;
    let output = child.wait_with_output()?;
    let elapsed = start.elapsed().as_secs_f64() * 1000.0;
    if output.status.success() {
        return Ok(elapsed);
    }
    Err(Problem::new(format!(
        "`{}` failed ({}): {}",
        crate::repo::show(command),
        output.status,
        String::from_utf8_lossy(&output.stderr).trim_end()
    )))
}
