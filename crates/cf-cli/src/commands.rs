//! One file a command: arguments become a request, the answer is rendered. Each returns the exit code.

mod batch;
mod blocker;
mod completions;
mod config;
mod doctor;
mod events;
mod explain;
mod github;
mod import;
mod init;
mod man;
mod merge;
mod reconcile;
mod status;
mod tasks;
mod work;

use std::collections::hash_map::Entry;
use std::io::Read as _;
use std::path::Path;

use cf_conductor::store::ids::ById;
use cf_conductor::store::{Reader, Store, StoreError};
use cf_core::{Actor, TaskId, TaskLabel, TaskRef};

use crate::args::github::PrCommand;
use crate::args::work::{BatchCommand, WorkCommand};
use crate::args::{Cli, Command};
use crate::console::Console;
use crate::document::{self, LARGEST_BYTES};
use crate::error::CliError;

/// What a command ends with: an exit code, or why it did not do what was asked.
pub(crate) type Ended = Result<u8, CliError>;

/// Runs the command.
///
/// # Errors
///
/// Whatever kept it from doing what was asked.
pub(crate) fn run(cli: Cli, console: &Console) -> Ended {
    let Some(command) = cli.command else {
        return status::or_how_to_start(console);
    };
    if console.json {
        refuse_json(&command)?;
    }
    match command {
        Command::Init(args) => init::run(&args, console),
        Command::Status(args) => status::run(&args, console),
        Command::Tasks(group) => tasks::run(group.command, console),
        Command::Blocker(group) => blocker::run(group.command, console),
        Command::Work(group) => run_work(group.command, console),
        Command::Logs(args) => work::logs(&args, console),
        Command::Run(args) => batch::run(&args, console),
        Command::Resume(args) => batch::resume(&args, console),
        Command::Follow(args) => batch::follow(&args, console),
        Command::Stop(args) => batch::stop(&args, console),
        Command::Reconcile(args) => reconcile::run(&args, console),
        Command::Explain(args) => explain::run(&args, console),
        Command::Events(args) => events::run(&args, console),
        Command::Import(group) => import::run(&group.command, console),
        Command::Github(group) => github::run(&group.command, console),
        Command::Pr(group) => match group.command {
            PrCommand::Link(args) => tasks::link_prs(&args, console),
        },
        Command::Config(group) => config::run(&group.command, console),
        Command::Doctor(args) => doctor::run(&args, console),
        Command::Man(args) => man::run(&args, console),
        Command::Completions(args) => completions::run(&args),
    }
}

fn run_work(command: WorkCommand, console: &Console) -> Ended {
    match command {
        WorkCommand::Start(args) => batch::start(&args, console),
        WorkCommand::Merge(args) => merge::run(&args, console),
        WorkCommand::Stop(args) => work::stop(&args, console),
        WorkCommand::Logs(args) => work::logs(&args, console),
        WorkCommand::Batch(group) => match group.command {
            BatchCommand::Run(args) => batch::run(&args, console),
            BatchCommand::Resume(args) => batch::resume(&args, console),
            BatchCommand::Status(args) => batch::status(&args, console),
            BatchCommand::List(args) => batch::list(&args, console),
            BatchCommand::Follow(args) => batch::follow(&args, console),
            BatchCommand::Report(args) => batch::report(&args, console),
            BatchCommand::Stop(args) => batch::stop(&args, console),
        },
    }
}

/// Refuses `--json` where what is printed is a text of its own: a plan, a log, a script.
fn refuse_json(command: &Command) -> Result<(), CliError> {
    let logs = ("work logs", "a log");
    let (words, what) = match command {
        Command::Work(group) if matches!(group.command, WorkCommand::Logs(_)) => logs,
        Command::Logs(_) => logs,
        Command::Completions(_) => ("completions", "a script"),
        Command::Man(args) if args.dir.is_none() => ("man", "a manual page"),
        _ => return Ok(()),
    };
    Err(CliError::usage(
        format!("`cf {words}` has no JSON: it prints {what}"),
        "leave out --json",
    ))
}

/// The task that a person or an agent names; `self` is the task of the agent that calls.
fn find_task(reader: &Reader<'_>, actor: &Actor, given: &TaskRef) -> Result<TaskId, StoreError> {
    if given.as_str() != "self" {
        return reader.find_task(given);
    }
    match actor {
        Actor::Attempt(attempt) => Ok(reader.attempt(*attempt)?.task),
        _ => Err(StoreError::Refused {
            what: "`self` means the task of the agent that calls, and this is no agent".to_owned(),
            hint: Some("give the task's key or id".to_owned()),
        }),
    }
}

/// What an attempt says that is over is kept, although nothing acts on it; the answer stays a refusal.
fn kept_when_stale<T>(
    store: &mut Store,
    actor: &Actor,
    written: Result<T, StoreError>,
    said: serde_json::Value,
) -> Result<T, StoreError> {
    if let Err(StoreError::StaleAttempt { attempt }) = &written {
        let attempt = *attempt;
        store.write(actor, |tx| tx.keep_stale(None, attempt, said))?;
    }
    written
}

/// Labels of tasks, each read once.
#[derive(Debug, Default)]
struct Labels(ById<TaskLabel>);

impl Labels {
    fn of(&mut self, reader: &Reader<'_>, id: TaskId) -> Result<TaskLabel, StoreError> {
        self.known(reader, id).cloned()
    }

    /// Takes what was read together with something else.
    fn take(&mut self, labels: impl Iterator<Item = (TaskId, TaskLabel)>) {
        self.0.extend(labels);
    }

    fn known(&mut self, reader: &Reader<'_>, id: TaskId) -> Result<&TaskLabel, StoreError> {
        Ok(match self.0.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(reader.label(id)?),
        })
    }
}

/// Reads a text that somebody wrote into a file, or standard input for `-`.
fn read_text(path: &Path) -> Result<String, CliError> {
    let failed = |source| CliError::File {
        what: "read",
        path: path.to_owned(),
        source,
    };
    let mut bytes = Vec::new();
    if path.as_os_str() == "-" {
        std::io::stdin()
            .lock()
            .take(LARGEST_BYTES + 1)
            .read_to_end(&mut bytes)
    } else {
        let file = document::open(path).map_err(failed)?;
        file.take(LARGEST_BYTES + 1).read_to_end(&mut bytes)
    }
    .map_err(failed)?;
    if bytes.len() as u64 > LARGEST_BYTES {
        return Err(CliError::refused(
            format!(
                "{} is larger than {} MiB",
                path.display(),
                LARGEST_BYTES / 1024 / 1024
            ),
            "a text for an agent should be much shorter",
        ));
    }
    String::from_utf8(bytes).map_err(|_| {
        CliError::refused(
            format!("{} is not valid UTF-8", path.display()),
            "convert it first, for example with iconv",
        )
    })
}
