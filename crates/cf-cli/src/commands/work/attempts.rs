//! `cf work logs --follow`: a task's attempts one after another, for as long as a batch may start another one.

use std::collections::BTreeMap;
use std::io::Write as _;

use cf_conductor::store::Store;
use cf_conductor::store::attempt::Attempt;
use cf_conductor::wake::Listener;
use cf_conductor::workspace::Workspace;
use cf_core::{BatchId, TaskId, TaskLabel};

use super::super::Ended;
use super::super::batch::Care;
use super::super::events::LOOK;
use super::{not_started, print};
use crate::console::{self, Console};
use crate::error::CliError;

/// Prints the newest attempt of a task as it grows, then every one that follows it.
///
/// Begins to wait where a batch is going to start the first one, and ends when none is at work on the task any more.
pub(super) fn follow(
    workspace: &Workspace,
    store: &Store,
    task: TaskId,
    label: &TaskLabel,
    console: &Console,
) -> Ended {
    let mut listener = Listener::new(&workspace.wake_file());
    let mut cares = BTreeMap::new();
    let mut printed = 0;
    let mut is_told = false;
    loop {
        // Asked before the attempts are read: one that was started meanwhile is then seen.
        let goes_on = is_worked_on(workspace, store, task, &mut cares)?;
        let attempts = store.read(|reader| reader.attempts(task))?;
        if let Some(attempt) = after(&attempts, printed) {
            if printed > 0 || is_told {
                say(&format!("[cf: attempt {}]", attempt.generation))?;
            }
            print(workspace, store, attempt, true, console)?;
            printed = attempt.generation;
            continue;
        }
        match (goes_on, printed) {
            (false, 0) => {
                let status = store.read(|reader| Ok(reader.task(task)?.status))?;
                return Err(not_started(label, status));
            }
            (false, _) => return Ok(0),
            (true, 0) if !is_told => {
                say("[cf: not started yet]")?;
                is_told = true;
            }
            (true, _) => {}
        }
        listener.wait(LOOK);
    }
}

/// The newest attempt at first, and then the one after the last that was printed.
fn after(attempts: &[Attempt], printed: u32) -> Option<&Attempt> {
    if printed == 0 {
        return attempts.last();
    }
    attempts.iter().find(|attempt| attempt.generation > printed)
}

/// Whether a batch that somebody conducts has the task and has not finished it.
fn is_worked_on(
    workspace: &Workspace,
    store: &Store,
    task: TaskId,
    cares: &mut BTreeMap<BatchId, Care>,
) -> Result<bool, CliError> {
    let batches = store.read(|reader| reader.batches_working_on(task))?;
    Ok(batches
        .into_iter()
        .any(|id| !cares.entry(id).or_default().is_abandoned(workspace, id)))
}

fn say(line: &str) -> std::io::Result<()> {
    let mut out = console::out();
    writeln!(out, "{line}")?;
    out.flush()
}
