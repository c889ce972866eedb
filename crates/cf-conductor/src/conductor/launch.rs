//! The start of one process of an attempt: its files, its environment, its job. All of it after the commit that names
//! the attempt, and before the gate; of its folder and its files only what stands in them, when those were made ahead.

mod files;

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cf_core::{AttemptId, BatchId, BlockerStatus, Outcome, TaskId};
use rustix::fs::{Mode, OFlags};

use super::session::{self, Session};
use super::trees::Tree;
use super::{Setup, context};
use crate::engine::{
    CfVariables, Engine, EngineName, Home, Start, StdinFrom, SuccessRule, agent_environment,
    last_lines, script_invocation,
};
use crate::heard;
use crate::process::Identity;
use crate::prompt::{Answer, Channel, Dependency, Failure, Opening, Origin, Prompt, Reply};
use crate::settings::Settings;
use crate::store::attempt::Attempt;
use crate::store::task::Task;
use crate::store::{Reader, Store, StoreError};
use crate::supervise::{Job, LogLimits, Stage};
use crate::workspace::inside;
use files::{CONTEXT, PROMPT};

pub(super) use files::Files;

/// How many lines of a failed attempt's output go into the next prompt, and how many bytes at most.
const FAILURE_LINES: usize = 40;
const FAILURE_BYTES: usize = 8 << 10;

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

/// Where an attempt keeps its own files.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn of(setup: &Setup, attempt: AttemptId) -> Self {
        Self(setup.workspace.folder_of(attempt))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

/// Writes the files of a process and builds its job. It starts in `directory`; what of its files was made ahead is in
/// `made`.
pub(super) fn job(
    setup: &Setup,
    store: &Store,
    settings: &Settings,
    batch: BatchId,
    launch: &Launch,
    directory: &Path,
    made: Option<Files>,
) -> Result<Job, LaunchError> {
    let task = &launch.task;
    let engine = engine(setup, settings, task)?;
    let folder = Folder::of(setup, launch.attempt);
    let root = setup.workspace.root();
    let prompt_file = folder.file(PROMPT);
    let context_file = folder.file(CONTEXT);
    // A session is kept in the home in which it began.
    let begun_by = launch.session.as_ref().map(|session| session.begun_by);
    let home = Folder::of(setup, begun_by.unwrap_or(launch.attempt)).file("home");
    let invocation = if let Some(command) = &launch.command {
        script_invocation(command, &folder.file("verify"))?
    } else {
        let mut files = files(made, &folder.0)?;
        if engine.home == Home::Attempt {
            make_folder(&home)?;
        }
        let prompt = store.read(|reader| {
            let told = prompt(
                setup,
                reader,
                settings,
                launch,
                batch,
                engine,
                &context_file,
            );
            Ok(told)
        })??;
        let prompt = prompt.render(std::iter::repeat_with(|| {
            uuid::Uuid::new_v4().simple().to_string()
        }))?;
        files
            .write_prompt(&prompt)
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
    if let Some(script) = &invocation.file {
        write_private(&script.path, script.body.as_bytes())?;
    }
    let mut env = agent_environment(
        setup.environment.iter().cloned(),
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
        env.retain(|(name, _)| name != "GIT_CEILING_DIRECTORIES");
        env.push((
            "GIT_CEILING_DIRECTORIES".into(),
            setup.workspace.worktrees().into(),
        ));
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

/// What the agent of an attempt is told.
fn prompt(
    setup: &Setup,
    reader: &Reader<'_>,
    settings: &Settings,
    launch: &Launch,
    batch: BatchId,
    engine: &Engine,
    context_file: &Path,
) -> Result<Prompt, LaunchError> {
    let task = &launch.task;
    let before = before(reader, launch)?;
    // Who goes on with a session knows what was said before it went on: only later things are new.
    let since = match (&launch.session, &before) {
        (Some(_), Some(before)) => Some(reader.began_seq(task.id, before.id)?),
        _ => None,
    };
    let is_new = |seq: u64| since.is_none_or(|since| seq >= since);
    let opening = match since {
        None => Opening::Afresh,
        Some(since) if reader.was_edited_after(task.id, since)? => Opening::GoesOnWithChangedTask,
        Some(_) => Opening::GoesOn,
    };
    let answers = reader
        .blockers(Some(task.id), None)?
        .into_iter()
        .filter(|blocker| is_new(blocker.closed_seq.unwrap_or_default()))
        .filter_map(|blocker| {
            let reply = match (blocker.status, blocker.answer) {
                (BlockerStatus::Open, _) => return None,
                (_, Some(answer)) => Reply::Answered(answer),
                (_, None) => Reply::Resolved,
            };
            Some(Answer {
                question: blocker.question,
                reply,
            })
        })
        .collect();
    let mut comments = reader.comments(task.id)?;
    comments.retain(|comment| is_new(comment.stored_seq));
    Ok(Prompt {
        label: task.label().to_string(),
        title: task.title.clone(),
        description: task.description.clone(),
        origin: match &task.origin {
            None => Origin::Owner,
            Some(place) => Origin::Outside {
                place: place.clone(),
            },
        },
        generation: launch.generation,
        opening,
        dependencies: if since.is_none() {
            dependencies(reader, task.id, batch)?
        } else {
            Vec::new()
        },
        answers,
        comments: context::for_agents(&comments),
        comments_from: settings.github.comments_from,
        previous: before.and_then(|before| {
            let mut failure = failure(setup, &before, engine.success)?;
            if since.is_some() {
                // It is the agent's own.
                failure.log.clear();
            }
            Some(failure)
        }),
        rescue: if launch.tree.is_some() && !settings.from_rescue {
            reader.newest_rescue(task.id)?
        } else {
            None
        },
        branch: launch.tree.as_ref().map(|tree| tree.branch.clone()),
        verify: task.verify.clone(),
        channel: if engine.reaches_cf() {
            Channel::Cf {
                program: shell_word(&setup.workspace.bin().join("cf"), "cf"),
                context_file: shell_word(context_file, "$CF_CONTEXT_FILE"),
            }
        } else {
            Channel::LastWords
        },
    })
}

/// A path as an agent can copy it into a shell, or another word where it cannot.
fn shell_word(path: &Path, otherwise: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+,@%:=".contains(c);
    match path.to_str() {
        Some(text) if text.chars().all(plain) => text.to_owned(),
        _ => otherwise.to_owned(),
    }
}

fn dependencies(
    reader: &Reader<'_>,
    task: TaskId,
    batch: BatchId,
) -> Result<Vec<Dependency>, LaunchError> {
    let mut list = Vec::new();
    for on in reader.depends_on(task)? {
        let other = reader.task(on)?;
        let row = reader.batch_task(batch, on)?;
        list.push(Dependency {
            label: other.label().to_string(),
            title: other.title,
            outcome: row.as_ref().and_then(|row| row.outcome).or(None::<Outcome>),
            reason: row.and_then(|row| row.reason).unwrap_or_default(),
        });
    }
    Ok(list)
}

/// The newest attempt before this one that came to do anything.
fn before(reader: &Reader<'_>, launch: &Launch) -> Result<Option<Attempt>, LaunchError> {
    if launch.generation <= 1 {
        return Ok(None);
    }
    let mut attempts = reader.attempts(launch.task.id)?;
    attempts.retain(|attempt| attempt.id != launch.attempt && session::began(attempt));
    Ok(attempts.pop())
}

/// How an attempt failed, if it did.
fn failure(setup: &Setup, attempt: &Attempt, rule: SuccessRule) -> Option<Failure> {
    if attempt.success != Some(false) {
        return None;
    }
    let lines = |stage, rule| {
        let tail = heard::tail(&log_path(setup, attempt.id, stage));
        last_lines(rule, &tail, FAILURE_LINES, FAILURE_BYTES)
    };
    Some(Failure {
        reason: attempt.reason.clone().unwrap_or_default(),
        log: lines(Stage::Agent, rule),
        verify_log: if attempt.stage == Stage::Verify {
            lines(Stage::Verify, SuccessRule::ExitZero)
        } else {
            Vec::new()
        },
    })
}

/// The files of an attempt: those that were made ahead if nobody has touched them, else new ones.
fn files(made: Option<Files>, folder: &Path) -> Result<Files, LaunchError> {
    match made {
        Some(files) if files.are_as_made() => return Ok(files),
        // Another name of theirs, or what stands in their place now, must not be written into.
        Some(files) => files.remove(),
        None => {}
    }
    Files::make_in_place(folder.to_owned()).map_err(|source| LaunchError::File {
        what: "make the files of the attempt in",
        path: folder.to_owned(),
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
