//! `cf status`: the workspace and its newest batch, in a few lines.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use cf_conductor::store::Store;
use cf_conductor::workspace::Workspace;
use cf_core::TaskStatus;
use serde::Serialize;

use super::Ended;
use super::batch::listed;
use crate::console::{self, Console, Look};
use crate::error::CliError;
use crate::render::batch::Listed;
use crate::render::json::BatchJson;
use crate::render::task;
use crate::workspace;

#[derive(Serialize)]
struct StatusJson<'s> {
    workspace: Option<&'s Path>,
    tasks: BTreeMap<&'static str, u64>,
    open_blockers: u64,
    batch: Option<BatchJson<'s>>,
}

struct Found {
    workspace: Workspace,
    counts: Vec<(TaskStatus, u64)>,
    open_blockers: u64,
    batch: Option<Listed>,
    /// The newest batch that has not ended and that nobody conducts, when that is not the newest of all.
    abandoned: Option<Listed>,
}

/// `cf status`.
pub(super) fn run(console: &Console) -> Ended {
    match workspace::find()? {
        Some(found) => show(&look(found)?, console),
        None if console.json => without(),
        None => Err(CliError::NoWorkspace(workspace::current_dir()?)),
    }
}

/// `cf` alone: the status, or what to do first.
pub(super) fn or_how_to_start(console: &Console) -> Ended {
    match workspace::find()? {
        Some(found) => show(&look(found)?, console),
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

fn look(workspace: Workspace) -> Result<Found, CliError> {
    let store = Store::open_to_read(&workspace)?;
    let found = store.read(|reader| {
        let batch = reader.newest_batch()?;
        let batch = batch
            .map(|batch| listed(reader, &workspace, batch))
            .transpose()?;
        let mut unfinished = reader.unfinished_batches()?;
        unfinished.sort_by_key(|batch| std::cmp::Reverse(batch.started_at));
        let mut abandoned = None;
        for other in unfinished {
            let is_newest = batch.as_ref().is_some_and(|l| l.batch.id == other.id);
            let other = listed(reader, &workspace, other)?;
            if other.is_abandoned() {
                abandoned = (!is_newest).then_some(other);
                break;
            }
        }
        Ok((
            reader.status_counts()?,
            reader.count_open_blockers()?,
            batch,
            abandoned,
        ))
    })?;
    let (counts, open_blockers, batch, abandoned) = found;
    Ok(Found {
        workspace,
        counts,
        open_blockers,
        batch,
        abandoned,
    })
}

fn show(found: &Found, console: &Console) -> Ended {
    if console.json {
        console::print_json(&StatusJson {
            workspace: Some(found.workspace.root()),
            tasks: words(found.counts.iter().copied()),
            open_blockers: found.open_blockers,
            batch: found.batch.as_ref().map(BatchJson::short),
        })?;
        return Ok(0);
    }
    let mut out = console::out();
    writeln!(out, "workspace  {}", found.workspace.root().display())?;
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
    match &found.batch {
        Some(listed) => {
            writeln!(out, "{}", listed.summary(console))?;
            if let Some(notice) = listed.conductor_notice() {
                writeln!(out, "           {}", console.paint(Look::Warn, notice))?;
            }
        }
        None => writeln!(
            out,
            "batch      none yet; start one with `cf run --all-ready`"
        )?,
    }
    if let Some(listed) = &found.abandoned {
        writeln!(out, "{}", listed.summary(console))?;
        if let Some(notice) = listed.conductor_notice() {
            writeln!(out, "           {}", console.paint(Look::Warn, notice))?;
        }
    }
    out.flush()?;
    Ok(0)
}
