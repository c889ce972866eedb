//! `cf status`: the workspace and its newest batch, in a few lines, once or for as long as a batch runs.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::time::{Duration, Instant};

use cf_conductor::store::Store;
use cf_conductor::store::batch::BatchTaskView;
use cf_conductor::wake::Listener;
use cf_conductor::workspace::Workspace;
use cf_core::{BatchId, TaskId, TaskStatus, Timestamp};
use serde::Serialize;

use super::Ended;
use super::batch::{Care, doing, listed};
use super::events::LOOK;
use crate::args::StatusArgs;
use crate::console::screen::{Screen, height, rows};
use crate::console::{self, Console, Look};
use crate::error::CliError;
use crate::render::batch::{Listed, table_of};
use crate::render::json::BatchJson;
use crate::render::{task, text};
use crate::workspace;

#[derive(Serialize)]
struct StatusJson<'s> {
    workspace: Option<Cow<'s, str>>,
    tasks: BTreeMap<&'static str, u64>,
    open_blockers: u64,
    batch: Option<BatchJson<'s>>,
}

struct Found<'w> {
    workspace: &'w Workspace,
    counts: Vec<(TaskStatus, u64)>,
    open_blockers: u64,
    batch: Option<Listed>,
    /// Older batches that have not ended, newest first.
    others: Vec<Listed>,
    /// How many more there are.
    more: usize,
}

/// How many batches are told beside the newest.
const MOST_OTHERS: usize = 4;

/// How often the clocks of running tasks move on.
const TICK: Duration = Duration::from_secs(1);

/// `cf status`.
pub(super) fn run(args: &StatusArgs, console: &Console) -> Ended {
    match workspace::find()? {
        Some(found) if args.watch => watch(&found, console),
        Some(found) => show(&look(&found)?, console),
        None if console.json => without(),
        None => Err(CliError::NoWorkspace(workspace::current_dir()?)),
    }
}

/// `cf` alone: the status, or what to do first.
pub(super) fn or_how_to_start(console: &Console) -> Ended {
    match workspace::find()? {
        Some(found) => show(&look(&found)?, console),
        None if console.json => without(),
        None => {
            let mut out = console::out();
            writeln!(
                out,
                "there is no workspace in {} or above it",
                workspace::current_dir()?.display()
            )?;
            for (words, what) in [
                ("cf init", "make one here"),
                (
                    "cf tasks add \"Say hello\" --run \"echo hello\"",
                    "add a task",
                ),
                (
                    "cf work batch run --all-ready",
                    "run what is ready; `cf run` for short",
                ),
                (
                    "cf run --file plan.toml",
                    "or all of it at once, from a plan",
                ),
                ("cf blocker list", "what agents want to know"),
                ("cf --help", "every command"),
            ] {
                writeln!(out, "  {words:<44}  {what}")?;
            }
            out.flush()?;
            Ok(0)
        }
    }
}

fn without() -> Ended {
    console::print_json(&StatusJson {
        workspace: None,
        tasks: words(TaskStatus::ALL.iter().map(|s| (*s, 0))),
        open_blockers: 0,
        batch: None,
    })?;
    Ok(0)
}

fn words(counts: impl Iterator<Item = (TaskStatus, u64)>) -> BTreeMap<&'static str, u64> {
    counts.map(|(status, n)| (status.as_str(), n)).collect()
}

fn look(workspace: &Workspace) -> Result<Found<'_>, CliError> {
    read(&Store::open_to_read(workspace)?, workspace)
}

fn read<'w>(store: &Store, workspace: &'w Workspace) -> Result<Found<'w>, CliError> {
    let found = store.read(|reader| {
        let batch = reader.newest_batch()?;
        let batch = batch
            .map(|batch| listed(reader, workspace, batch))
            .transpose()?;
        let mut unfinished = reader.unfinished_batches()?;
        unfinished.sort_by_key(|batch| std::cmp::Reverse(batch.started_at));
        let newest = batch.as_ref().map(|listed| listed.batch.id);
        unfinished.retain(|other| newest != Some(other.id));
        let more = unfinished.len().saturating_sub(MOST_OTHERS);
        let mut others = Vec::new();
        for other in unfinished.into_iter().take(MOST_OTHERS) {
            others.push(listed(reader, workspace, other)?);
        }
        Ok((
            reader.status_counts()?,
            reader.count_open_blockers()?,
            batch,
            others,
            more,
        ))
    })?;
    let (counts, open_blockers, batch, others, more) = found;
    Ok(Found {
        workspace,
        counts,
        open_blockers,
        batch,
        others,
        more,
    })
}

/// `cf status --watch`: anew whenever something changes, until no batch runs.
fn watch(workspace: &Workspace, console: &Console) -> Ended {
    let store = Store::open_to_read(workspace)?;
    let mut cares: BTreeMap<BatchId, Care> = BTreeMap::new();
    let mut seen = None;
    let mut listener = Listener::new(&workspace.wake_file());
    let mut drawn_at = Instant::now();
    let mut screen = Screen::default();
    loop {
        let (seq, unfinished) = store.read(|reader| {
            let unfinished = reader.unfinished_batches()?;
            let ids: Vec<BatchId> = unfinished.iter().map(|batch| batch.id).collect();
            Ok((reader.last_seq()?, ids))
        })?;
        let mut goes_on = false;
        for id in &unfinished {
            goes_on |= !cares.entry(*id).or_default().is_abandoned(workspace, *id);
        }
        // That a conductor has died is no event.
        let now = Some((seq, !goes_on && !unfinished.is_empty()));
        let changed = seen != now;
        match console.width.filter(|_| !console.json) {
            Some(width) if goes_on && (changed || drawn_at.elapsed() >= TICK) => {
                let picture = picture(&store, &read(&store, workspace)?, width, console)?;
                screen.show(&picture, width, &mut console::out())?;
                drawn_at = Instant::now();
            }
            Some(_) if goes_on => {}
            Some(_) => {
                let mut out = console::out();
                screen.clear(&mut out)?;
                out.flush()?;
                drop(out);
                show(&read(&store, workspace)?, console)?;
            }
            None if changed => {
                if seen.is_some() {
                    console.say(format_args!(""))?;
                }
                show(&read(&store, workspace)?, console)?;
            }
            None => {}
        }
        seen = now;
        if !goes_on {
            return Ok(0);
        }
        listener.wait(LOOK);
    }
}

/// The status, and what is at work in the newest batch as far as the terminal has room for it.
fn picture(
    store: &Store,
    found: &Found<'_>,
    width: usize,
    console: &Console,
) -> Result<Vec<u8>, CliError> {
    let mut picture = Vec::new();
    write(found, console, &mut picture)?;
    let Some(listed) = &found.batch else {
        return Ok(picture);
    };
    let (at_work, running) = store.read(|reader| {
        let id = listed.batch.id;
        Ok((
            reader.batch_tasks_at_work(id)?,
            reader.open_attempts_of_batch(id)?,
        ))
    })?;
    let doing = doing(found.workspace, &running);
    let fits = |picture: &[u8]| rows(&String::from_utf8_lossy(picture), width) < height();
    let mut count = at_work.len();
    while count > 0 {
        let mut whole = picture.clone();
        write_at_work(&at_work, count, &doing, console, &mut whole)?;
        if fits(&whole) {
            return Ok(whole);
        }
        count -= count.div_ceil(8);
    }
    Ok(picture)
}

fn write_at_work(
    tasks: &[BatchTaskView],
    count: usize,
    doing: &HashMap<TaskId, String>,
    console: &Console,
    out: &mut impl Write,
) -> io::Result<()> {
    writeln!(out)?;
    table_of(tasks[..count].iter(), doing, Timestamp::now()).write(console, out)?;
    if count < tasks.len() {
        let more = format!("… and {} more", tasks.len() - count);
        writeln!(out, "{}", console.paint(Look::Dim, more))?;
    }
    Ok(())
}

fn show(found: &Found<'_>, console: &Console) -> Ended {
    if console.json {
        console::print_json(&StatusJson {
            workspace: Some(found.workspace.root().to_string_lossy()),
            tasks: words(found.counts.iter().copied()),
            open_blockers: found.open_blockers,
            batch: found.batch.as_ref().map(BatchJson::short),
        })?;
        return Ok(0);
    }
    let mut out = console::out();
    write(found, console, &mut out)?;
    out.flush()?;
    Ok(0)
}

fn write(found: &Found<'_>, console: &Console, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "workspace  {}", text::path(found.workspace.root()))?;
    let total: u64 = found.counts.iter().map(|(_, n)| n).sum();
    write!(out, "tasks      {total}")?;
    for (at, (status, n)) in found.counts.iter().filter(|(_, n)| *n > 0).enumerate() {
        let lead = if at == 0 { ": " } else { ", " };
        write!(
            out,
            "{lead}{n} {}",
            console.paint(task::look(*status), status)
        )?;
    }
    writeln!(out)?;
    if found.open_blockers > 0 {
        let questions = if found.open_blockers == 1 {
            "1 question waits"
        } else {
            "questions wait"
        };
        let count = if found.open_blockers == 1 {
            String::new()
        } else {
            format!("{} ", found.open_blockers)
        };
        writeln!(
            out,
            "blockers   {}",
            console.paint(
                Look::Warn,
                format_args!("{count}{questions} for an answer; see `cf blocker list`")
            )
        )?;
    }
    if found.batch.is_none() {
        writeln!(
            out,
            "batch      none yet; start one with `cf run --all-ready`"
        )?;
    }
    for listed in found.batch.iter().chain(&found.others) {
        writeln!(out, "{}", listed.summary(console))?;
        if let Some(notice) = listed.conductor_notice() {
            writeln!(out, "           {}", console.paint(Look::Warn, notice))?;
        }
    }
    if found.more > 0 {
        writeln!(
            out,
            "           {} more have not ended; see `cf work batch list`",
            found.more
        )?;
    }
    Ok(())
}
