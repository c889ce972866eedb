//! `cf blocker …`: questions and answers.

use std::io::Write as _;
use std::path::Path;

use cf_conductor::store::blocker::Blocker;
use cf_conductor::store::{Reader, Store, StoreError};
use cf_core::{BlockerId, BlockerStatus, TaskLabel, TaskRef};
use serde_json::json;

use super::{Ended, Labels, find_task, kept_when_stale, read_text};
use crate::args::blocker::{AnswerArgs, AskArgs, BlockerCommand, ListArgs, OneArgs, ResolveArgs};
use crate::console::{self, Console, Look};
use crate::error::CliError;
use crate::render::json::BlockerJson;
use crate::render::table::{Field, Table};
use crate::render::{text, time};
use crate::workspace;

pub(super) fn run(command: BlockerCommand, console: &Console) -> Ended {
    match command {
        BlockerCommand::Ask(args) => ask(&args, console),
        BlockerCommand::List(args) => list(&args, console),
        BlockerCommand::Show(args) => show(&args, console),
        BlockerCommand::Resolve(args) => resolve(&args, console),
        BlockerCommand::Answer(args) => answer(args, console),
    }
}

fn ask(args: &AskArgs, console: &Console) -> Ended {
    let (_, mut store, actor) = workspace::open_to_write()?;
    let asked = store.write(&actor, |tx| {
        let task = args
            .task
            .as_ref()
            .map(|given| find_task(&tx.reader(), &actor, given))
            .transpose()?;
        tx.ask(task, &args.question)
    });
    let said = json!({ "question": args.question });
    let id = kept_when_stale(&mut store, &actor, asked, said)?;
    confirm(&store, id, console, "asked")
}

fn answer(args: AnswerArgs, console: &Console) -> Ended {
    let hint = "give the answer, `-` for standard input, or --file F; with the question's id before it when \
                several are open";
    let mut words = args.words;
    let (given, answer) = match (&args.file, words.len()) {
        (Some(path), 0 | 1) => (words.pop(), read_text(path)?),
        (None, 1 | 2) => {
            let text = words.pop().expect("there is at least one word");
            let text = if text == "-" {
                read_text(Path::new("-"))?
            } else {
                text
            };
            (words.pop(), text)
        }
        (Some(_), _) => {
            return Err(CliError::usage(
                "an answer is given both as text and as a file",
                hint,
            ));
        }
        (None, _) => return Err(CliError::usage("there is no answer", hint)),
    };
    let (_, mut store, actor) = workspace::open_to_write()?;
    let id = store.write(&actor, |tx| {
        let id = match given {
            Some(given) => question(&tx.reader(), &TaskRef::new(given))?,
            None => only_open(&tx.reader())?,
        };
        tx.answer(id, answer.trim_end())?;
        Ok(id)
    })?;
    confirm(&store, id, console, "answered")
}

/// The one question that is open.
fn only_open(reader: &Reader<'_>) -> Result<BlockerId, StoreError> {
    let open = reader.blockers(None, Some(BlockerStatus::Open))?;
    match open.as_slice() {
        [one] => Ok(one.id),
        [] => Err(StoreError::Refused {
            what: "no question is open".to_owned(),
            hint: None,
        }),
        several => Err(StoreError::Refused {
            what: format!(
                "{} questions are open, so the answer needs the id of one",
                several.len()
            ),
            hint: Some("`cf blocker list --status open` shows them".to_owned()),
        }),
    }
}

/// The question that an id names, or a task about which exactly one is open.
///
/// # Errors
///
/// Neither does, or both do, and it is not the same.
fn question(reader: &Reader<'_>, given: &TaskRef) -> Result<BlockerId, StoreError> {
    let by_id = reader.find_blocker(given);
    let task = match reader.find_task(given) {
        Ok(task) => reader.task(task)?,
        Err(error) => {
            return match by_id {
                Err(StoreError::Unknown { .. })
                    if matches!(error, StoreError::Ambiguous { .. }) =>
                {
                    Err(error)
                }
                by_id => by_id,
            };
        }
    };
    let is_key = task
        .key
        .as_ref()
        .is_some_and(|key| key.as_str() == given.as_str());
    match by_id {
        Err(StoreError::Unknown { .. }) => {}
        Ok(id) if is_key && reader.blocker(id)?.task != Some(task.id) => {
            return Err(StoreError::Refused {
                what: format!(
                    "{given} is a task, and the question {} begins so",
                    id.short()
                ),
                hint: Some("write more characters of the question's id".to_owned()),
            });
        }
        by_id => return by_id,
    }
    let open = reader.blockers(Some(task.id), Some(BlockerStatus::Open))?;
    let label = task.label();
    match open.as_slice() {
        [one] => Ok(one.id),
        [] => Err(StoreError::Refused {
            what: format!("no question about {label} is open"),
            hint: Some(format!(
                "`cf blocker list --task {label}` shows those that were"
            )),
        }),
        several => {
            let ids: Vec<String> = several.iter().map(|one| one.id.short()).collect();
            Err(StoreError::Refused {
                what: format!(
                    "{} questions about {label} are open: {}",
                    several.len(),
                    ids.join(", ")
                ),
                hint: Some("give the id of one".to_owned()),
            })
        }
    }
}

fn resolve(args: &ResolveArgs, console: &Console) -> Ended {
    let (_, mut store, actor) = workspace::open_to_write()?;
    let id = store.write(&actor, |tx| {
        let id = question(&tx.reader(), &args.blocker)?;
        tx.resolve(id)?;
        Ok(id)
    })?;
    confirm(&store, id, console, "resolved")
}

/// Says what became of a question and of the task that it holds.
fn confirm(store: &Store, id: BlockerId, console: &Console, what: &str) -> Ended {
    let (blocker, task) = store.read(|reader| {
        let blocker = reader.blocker(id)?;
        let task = blocker.task.map(|id| reader.task(id)).transpose()?;
        Ok((blocker, task))
    })?;
    let label = task.as_ref().map(cf_conductor::store::task::Task::label);
    if console.json {
        console::print_json(&BlockerJson::new(&blocker, label.as_ref()))?;
        return Ok(0);
    }
    match task {
        Some(task) => console.say(format_args!(
            "{what} {} ({} is {})",
            id.short(),
            task.label(),
            task.status
        ))?,
        None => console.say(format_args!("{what} {}", id.short()))?,
    }
    Ok(0)
}

fn list(args: &ListArgs, console: &Console) -> Ended {
    let (_, store) = workspace::open_to_read()?;
    let (mut blockers, labels) = store.read(|reader| {
        let task = args
            .task
            .as_ref()
            .map(|given| reader.find_task(given))
            .transpose()?;
        let blockers = reader.blockers(task, args.status)?;
        let mut labels = Labels::default();
        for blocker in &blockers {
            if let Some(task) = blocker.task {
                labels.of(reader, task)?;
            }
        }
        Ok((blockers, labels))
    })?;
    blockers.sort_by_key(|blocker| blocker.status != BlockerStatus::Open);
    let label = |blocker: &Blocker| blocker.task.and_then(|task| labels.0.get(&task).cloned());
    if console.json {
        let shapes: Vec<_> = blockers
            .iter()
            .map(|blocker| BlockerJson::new(blocker, label(blocker).as_ref()))
            .collect();
        console::print_json(&shapes)?;
        return Ok(0);
    }
    let mut table = Table::new(&["Id", "Status", "Task", "Asked by", "Asked", "Question"]);
    for blocker in &blockers {
        table.row([
            blocker.id.short().into(),
            Field::new(blocker.status.as_str(), look(blocker.status)),
            Field::new(
                label(blocker).as_ref().map_or("", TaskLabel::as_str),
                Look::Strong,
            ),
            blocker.asked_by.as_str().into(),
            time::short(blocker.asked_at).into(),
            blocker.question.as_str().into(),
        ]);
    }
    let mut out = console::out();
    table.write(console, &mut out)?;
    out.flush()?;
    Ok(0)
}

const fn look(status: BlockerStatus) -> Look {
    match status {
        BlockerStatus::Open => Look::Warn,
        BlockerStatus::Answered => Look::Good,
        BlockerStatus::Resolved => Look::Dim,
    }
}

fn show(args: &OneArgs, console: &Console) -> Ended {
    let (_, store) = workspace::open_to_read()?;
    let (blocker, label) = store.read(|reader| {
        let blocker = reader.blocker(reader.find_blocker(&args.blocker)?)?;
        let label = blocker.task.map(|task| reader.label(task)).transpose()?;
        Ok((blocker, label))
    })?;
    if console.json {
        console::print_json(&BlockerJson::new(&blocker, label.as_ref()))?;
        return Ok(0);
    }
    let mut out = console::out();
    writeln!(
        out,
        "{}  {}",
        blocker.id,
        console.paint(look(blocker.status), blocker.status)
    )?;
    if let Some(label) = &label {
        writeln!(out, "  task        {label}")?;
    }
    writeln!(
        out,
        "  asked by    {}, {}",
        blocker.asked_by,
        time::short(blocker.asked_at)
    )?;
    writeln!(out, "\n{}", text::clean(blocker.question.trim_end()))?;
    if let Some(answer) = &blocker.answer {
        let at = blocker.answered_at.map_or_else(String::new, time::short);
        writeln!(out, "\n{} {at}", console.paint(Look::Strong, "Answer"))?;
        writeln!(out, "{}", text::clean(answer))?;
    }
    out.flush()?;
    Ok(0)
}
