//! The start of one process of an attempt: its files, its environment, its job. All of it after the commit that names
//! the attempt, and before the gate; of the file with its prompt only what stands in it, when that was made ahead.

mod files;
mod told;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cf_core::AttemptId;
use rustix::fs::{Mode, OFlags};

use super::Setup;
use super::session::Session;
use super::trees::Tree;
use super::turn::Core;
use crate::engine::{
    CfVariables, Engine, EngineName, Home, Start, StdinFrom, inherited_environment,
    own_environment, script_invocation,
};
use crate::process::Identity;
use crate::settings::Settings;
use crate::store::task::Task;
use crate::store::{Store, StoreError};
use crate::supervise::{Inherited, Job, LogLimits, Stage};
use crate::workspace::inside;
use files::{keep_free, make_folder_in_place, make_prompt_in_place};

pub(super) use files::PromptFile;

/// The limit of a `verify` command where neither task nor batch sets one: ten minutes are long for a check, and a
/// check that hangs would hold its slot for ever.
const VERIFY_TIMEOUT: Duration = Duration::from_mins(10);

/// What is to be started.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    pub task: Task,
    pub attempt: AttemptId,
    pub generation: u32,
    pub identity: Identity,
    pub stage: Stage,
    /// The worktree that it starts in, if its attempt has one of its own.
    pub tree: Option<Tree>,
    /// The session that an agent goes on with.
    session: Option<Session>,
    /// The command of a verification.
    command: Option<String>,
}

impl Launch {
    pub(super) fn agent(
        task: Task,
        attempt: AttemptId,
        generation: u32,
        identity: Identity,
        tree: Option<Tree>,
        session: Option<Session>,
    ) -> Self {
        Self {
            task,
            attempt,
            generation,
            identity,
            stage: Stage::Agent,
            tree,
            session,
            command: None,
        }
    }

    pub(super) fn verification(
        task: Task,
        attempt: AttemptId,
        generation: u32,
        identity: Identity,
        tree: Option<Tree>,
        command: String,
    ) -> Self {
        Self {
            task,
            attempt,
            generation,
            identity,
            stage: Stage::Verify,
            tree,
            session: None,
            command: Some(command),
        }
    }
}

/// Why a process could not be prepared.
#[derive(Debug, thiserror::Error)]
pub(super) enum LaunchError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot {what} {path}")]
    File {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("cannot build the command of the agent")]
    Invocation(#[from] crate::engine::InvocationError),
    #[error("no fence for the prompt is free")]
    Fence(#[from] crate::prompt::NoFence),
    #[error("engine {0:?} is not known any more")]
    NoEngine(String),
}

impl LaunchError {
    /// Whether the same start may succeed later: nothing is wrong with the task, its engine or the settings.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Store(_) => true,
            // Room, descriptors and memory come back; what is in the way of a file stays there.
            Self::File { source, .. } => !matches!(
                source.kind(),
                io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied
            ),
            Self::Invocation(_) | Self::Fence(_) | Self::NoEngine(_) => false,
        }
    }
}

/// What the agents of each engine inherit of the caller's environment.
pub(super) type InheritedBy = HashMap<EngineName, Inherited>;

/// Where an attempt keeps its own files.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn of(setup: &Setup, attempt: AttemptId) -> Self {
        Self(setup.workspace.folder_of(attempt))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Makes it in place of whatever stands there: nothing of it is an attempt's that has not begun.
    fn make_in_place(&self) -> Result<(), LaunchError> {
        make_folder_in_place(&self.0).map_err(|source| LaunchError::File {
            what: "make the folder of the attempt at",
            path: self.0.clone(),
            source,
        })
    }
}

/// Writes the files of a process and builds its job. It starts in `directory`; `made` is the file of its prompt if that
/// was made ahead, and what agents inherit is put into `inherited` when it is first needed.
pub(super) fn job(
    setup: &Setup,
    store: &Store,
    core: &Core,
    launch: &Launch,
    directory: &Path,
    made: Option<PromptFile>,
    inherited: &mut InheritedBy,
) -> Result<Job, LaunchError> {
    let (batch, settings) = (core.batch, &core.settings);
    let task = &launch.task;
    let engine = engine(setup, settings, task)?;
    let folder = Folder::of(setup, launch.attempt);
    let root = setup.workspace.root();
    let prompt_file = setup.workspace.prompt_of(launch.attempt);
    let context_file = setup.workspace.context_of(launch.attempt);
    // A session is kept in the home in which it began.
    let begun_by = launch.session.as_ref().map(|session| session.begun_by);
    let home_folder = Folder::of(setup, begun_by.unwrap_or(launch.attempt));
    let home = home_folder.file("home");
    let invocation = if let Some(command) = &launch.command {
        script_invocation(command, &folder.file("verify"))?
    } else {
        let mut file = file_of_prompt(made, setup, &prompt_file, &context_file)?;
        let prompt = told::prompt(setup, store, core, launch, engine, &context_file)?;
        let prompt = prompt.render(std::iter::repeat_with(|| {
            uuid::Uuid::new_v4().simple().to_string()
        }))?;
        file.write_all(prompt.as_bytes())
            .map_err(|source| LaunchError::File {
                what: "write",
                path: prompt_file.clone(),
                source,
            })?;
        engine.invocation(&Start {
            script: task.run.as_deref(),
            model: task.model.as_deref(),
            resume: launch.session.as_ref().map(|session| session.id.as_str()),
            prompt: &prompt,
            prompt_file: &prompt_file,
            script_file: &folder.file("run"),
            state: &setup.workspace.folder(),
        })?
    };
    match launch.stage {
        Stage::Agent => {
            let has_home = engine.home == Home::Attempt;
            if invocation.file.is_some() || (has_home && begun_by.is_none()) {
                folder.make_in_place()?;
            }
            if has_home {
                make_folder(&home_folder.0)?;
                make_folder(&home)?;
            }
        }
        Stage::Verify if invocation.file.is_some() => make_folder(&folder.0)?,
        Stage::Verify => {}
    }
    if let Some(script) = &invocation.file {
        write_private(&script.path, script.body.as_bytes())?;
    }
    let inherited = inherited
        .entry(engine.name.clone())
        .or_insert_with(|| Inherited::new(inherited_environment(&setup.environment, engine)))
        .clone();
    let mut env = own_environment(
        inherited.get("PATH"),
        engine,
        &invocation.env,
        &task.env,
        &CfVariables {
            task: task.id,
            key: task.key.as_ref(),
            batch,
            attempt: launch.attempt,
            generation: launch.generation,
            workspace: root,
            directory,
            prompt_file: &prompt_file,
            context_file: &context_file,
            bin: &setup.workspace.bin(),
            home: &home,
        },
    );
    if launch.tree.is_some() {
        // Where an agent has destroyed its worktree, git would find the user's checkout, in which it lies.
        env.insert(
            "GIT_CEILING_DIRECTORIES".into(),
            setup.workspace.worktrees().into(),
        );
    }
    let timeout = match launch.stage {
        Stage::Agent => task.timeout.or(settings.timeout).or(engine.default_timeout),
        Stage::Verify => Some(task.timeout.or(settings.timeout).unwrap_or(VERIFY_TIMEOUT)),
    };
    let mut keep = settings.keep.clone();
    keep.extend(engine.keep.iter().cloned());
    Ok(Job {
        attempt: launch.attempt,
        stage: launch.stage,
        argv: invocation.argv.into_iter().map(Into::into).collect(),
        inherited,
        env: env
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
        cwd: directory.as_os_str().to_owned().into(),
        stdin: match invocation.stdin {
            StdinFrom::Null => None,
            StdinFrom::PromptFile => Some(prompt_file.into_os_string().into()),
        },
        log: LogLimits {
            path: log_path(setup, launch.attempt, launch.stage)
                .into_os_string()
                .into(),
            head_bytes: settings.log_head_bytes,
            tail_bytes: settings.log_tail_bytes,
        },
        timeout_ms: timeout.map(millis),
        stall_timeout_ms: settings.stall_timeout.map(millis),
        grace_ms: millis(settings.kill_grace),
        leftovers: if engine.leftovers == crate::supervise::Leftovers::Report {
            engine.leftovers
        } else {
            settings.leftovers
        },
        keep,
    })
}

/// The output of one process of an attempt.
pub(super) fn log_path(setup: &Setup, attempt: AttemptId, stage: Stage) -> PathBuf {
    match stage {
        Stage::Agent => setup.workspace.log_of(attempt),
        Stage::Verify => setup.workspace.verify_log_of(attempt),
    }
}

fn engine<'a>(
    setup: &'a Setup,
    settings: &Settings,
    task: &Task,
) -> Result<&'a Engine, LaunchError> {
    let name = match (&task.run, &task.engine, &settings.engine) {
        (Some(_), _, _) => EngineName::shell(),
        (None, Some(name), _) | (None, None, Some(name)) => name
            .parse()
            .map_err(|_| LaunchError::NoEngine(name.clone()))?,
        (None, None, None) => return Err(LaunchError::NoEngine(String::new())),
    };
    setup
        .engines
        .get(&name)
        .ok_or_else(|| LaunchError::NoEngine(name.to_string()))
}

/// The file for an attempt's prompt: that which was made ahead if nobody has touched it, else a new one. Nothing stands
/// in the place of its context then.
fn file_of_prompt(
    made: Option<PromptFile>,
    setup: &Setup,
    prompt: &Path,
    context: &Path,
) -> Result<File, LaunchError> {
    let file = || {
        let folder = inside::Folder::at(&setup.workspace.attempts())?;
        keep_free(&folder, context)?;
        let made = made.and_then(|made| made.open_as_made(&folder));
        // With few descriptors left, one that is not needed is one too many.
        drop(folder);
        made.map_or_else(|| make_prompt_in_place(prompt), Ok)
    };
    file().map_err(|source| LaunchError::File {
        what: "make the prompt of the attempt at",
        path: prompt.to_owned(),
        source,
    })
}

fn make_folder(path: &Path) -> Result<(), LaunchError> {
    inside::make_folder(path).map_err(|source| LaunchError::File {
        what: "create",
        path: path.to_owned(),
        source,
    })
}

/// Writes a new file that only its owner can read. A link in its place is not followed.
fn write_private(path: &Path, bytes: &[u8]) -> Result<(), LaunchError> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NONBLOCK;
    inside::open(path, flags, Mode::RUSR | Mode::WUSR)
        .and_then(|file| File::from(file).write_all(bytes))
        .map_err(|source| LaunchError::File {
            what: "write",
            path: path.to_owned(),
            source,
        })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
