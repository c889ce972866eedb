//! `cf work batch status`, `list`, `stop`, `follow` and `report`.

mod observer;
mod refuse;
mod report;
mod run;
mod watch;

use std::collections::HashMap;
use std::io::Write as _;

use cf_conductor::closing::Closing;
use cf_conductor::engine::SuccessRule;
use cf_conductor::heard;
use cf_conductor::store::attempt::Attempt;
use cf_conductor::store::batch::{Batch, BatchTask, BatchTaskView, Stop};
use cf_conductor::store::{Reader, Store, StoreError};
use cf_conductor::supervise::Stage;
use cf_conductor::supervise::logfile::Logs;
use cf_conductor::workspace::Workspace;
use cf_core::{BatchId, Outcome, Phase, TaskId, TaskLabel, TaskRef, Timestamp};

use super::{Ended, Labels};
use crate::args::work::{BatchListArgs, BatchStatusArgs, StopArgs};
use crate::console::screen::rows;
use crate::console::{self, Console};
use crate::error::CliError;
use crate::render::batch::{Counts, Listed, write_list, write_status};
use crate::render::excerpt::excerpt;
use crate::render::json::BatchJson;
use crate::render::reconciliation::{Line, Total, totals};
use crate::workspace;
pub(super) use refuse::known_engine;
pub(super) use report::report;
pub(super) use run::{finish_pass, resolve, resume, run, setup, setup_of, start};
pub(super) use watch::{Care, follow};

/// How much of what an agent said or called last is shown beside its task.
const DOING_CHARS: usize = 120;

/// A batch with its counts and its live conductor.
pub(super) fn listed(
    reader: &Reader<'_>,
    workspace: &Workspace,
    batch: Batch,
) -> Result<Listed, StoreError> {
    let totals = reader.totals(batch.id)?;
    Ok(Listed {
        conductor: conductor_of(workspace, &batch),
        closing: Closing::of(reader, &batch)?,
        batch,
        counts: Counts::of(&totals.counts),
        used: totals.used,
    })
}

/// The live conductor of a batch. One that has ended has none, and asking costs a file.
fn conductor_of(workspace: &Workspace, batch: &Batch) -> Option<u32> {
    if batch.status.is_final() {
        None
    } else {
        workspace.conductor_of(batch.id)
    }
}

/// What the agent of each of these attempts said or called last, of those that run.
pub(super) fn doing(workspace: &Workspace, running: &[Attempt]) -> HashMap<TaskId, String> {
    let logs = Logs::of(workspace);
    running
        .iter()
        .filter(|attempt| attempt.stage == Stage::Agent && attempt.end.is_none())
        .filter_map(|attempt| {
            let rule = attempt.format.unwrap_or(SuccessRule::ExitZero);
            let mut log = logs.of_attempt(attempt.id);
            Some((attempt.task, heard::latest(rule, &mut log, DOING_CHARS)?))
        })
        .collect()
}

/// Everything that is shown of one batch, read together.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) listed: Listed,
    tasks: Vec<BatchTaskView>,
    /// What each running agent said or called last.
    doing: HashMap<TaskId, String>,
    actions: Actions,
}

/// What sources did to a batch.
#[derive(Debug, Default)]
struct Actions {
    lines: Vec<Line>,
    totals: Vec<Total>,
    labels: Labels,
    /// The newest event that has a line.
    seq: u64,
}

impl Actions {
    /// Reads those that are new.
    fn read(&mut self, reader: &Reader<'_>, id: BatchId) -> Result<(), StoreError> {
        for event in reader.reconciliation_events_after(id, self.seq)? {
            let label = event
                .task
                .map(|task| self.labels.of(reader, task))
                .transpose()?;
            self.lines.extend(Line::of(&event, label.as_ref()));
            self.seq = event.seq;
        }
        self.totals = totals(&self.lines);
        Ok(())
    }
}

impl Shown {
    /// Reads it.
    ///
    /// # Errors
    ///
    /// The store refuses, or there is no such batch.
    pub(super) fn read(
        store: &Store,
        workspace: &Workspace,
        id: BatchId,
    ) -> Result<Self, CliError> {
        Self::read_on(store, workspace, id, Actions::default())
    }

    /// Reads it as it is now. Of the events only those are read that are new.
    ///
    /// # Errors
    ///
    /// The store refuses.
    pub(super) fn read_again(
        &mut self,
        store: &Store,
        workspace: &Workspace,
    ) -> Result<(), CliError> {
        let actions = std::mem::take(&mut self.actions);
        *self = Self::read_on(store, workspace, self.listed.batch.id, actions)?;
        Ok(())
    }

    fn read_on(
        store: &Store,
        workspace: &Workspace,
        id: BatchId,
        mut actions: Actions,
    ) -> Result<Self, CliError> {
        let (listed, tasks, running) = store.read(|reader| {
            let batch = reader.batch(id)?;
            let tasks = reader.batch_task_views(id)?;
            // All of them are at hand, and need not be gone through once more to be counted.
            let mut counts = Counts::default();
            for view in &tasks {
                counts.add(view.row.phase, view.row.outcome, 1);
            }
            let listed = Listed {
                conductor: conductor_of(workspace, &batch),
                closing: Closing::of(reader, &batch)?,
                batch,
                counts,
                used: reader.used(id)?,
            };
            actions.read(reader, id)?;
            Ok((listed, tasks, reader.open_attempts_of_batch(id)?))
        })?;
        Ok(Self {
            listed,
            tasks,
            doing: doing(workspace, &running),
            actions,
        })
    }

    /// Its JSON shape.
    pub(super) fn json(&self) -> BatchJson<'_> {
        BatchJson::short(&self.listed).with_details(
            &self.tasks,
            &self.doing,
            &self.actions.lines,
            &self.actions.totals,
        )
    }

    /// The tasks that wait for somebody.
    pub(super) fn blocked(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.tasks
            .iter()
            .filter(|view| {
                view.row.phase == Phase::Held || view.row.outcome == Some(Outcome::Blocked)
            })
            .map(|view| view.row.task)
    }

    /// Its tasks.
    pub(super) fn views(&self) -> &[BatchTaskView] {
        &self.tasks
    }

    /// What became of its tasks, with the label of each.
    pub(super) fn rows(&self) -> impl Iterator<Item = (TaskLabel, &BatchTask)> {
        self.tasks.iter().map(|view| {
            let label = TaskLabel::new(view.row.task, view.key.as_ref());
            (label, &view.row)
        })
    }

    /// Writes it as words.
    ///
    /// # Errors
    ///
    /// The writer refuses.
    pub(super) fn write(
        &self,
        console: &Console,
        out: &mut impl std::io::Write,
    ) -> std::io::Result<()> {
        write_status(
            console,
            out,
            &self.listed,
            &self.tasks,
            &self.doing,
            &self.actions.lines,
            Timestamp::now(),
        )
    }

    /// The same for a terminal of this size, on which it stands as a whole.
    ///
    /// # Errors
    ///
    /// The writer refuses.
    pub(super) fn picture(
        &self,
        console: &Console,
        width: usize,
        height: usize,
    ) -> std::io::Result<Vec<u8>> {
        let mut whole = Vec::new();
        self.write(console, &mut whole)?;
        if rows(&String::from_utf8_lossy(&whole), width) < height {
            return Ok(whole);
        }
        excerpt(
            console,
            &self.listed,
            &self.tasks,
            &self.doing,
            &self.actions.lines,
            (width, height),
            Timestamp::now(),
        )
    }
}

/// The batch that is named, else the newest.
pub(super) fn named_or_newest(store: &Store, given: Option<&TaskRef>) -> Result<BatchId, CliError> {
    let found = store.read(|reader| match given {
        Some(given) => reader.find_batch(given).map(Some),
        None => Ok(reader.newest_batch()?.map(|batch| batch.id)),
    })?;
    found.ok_or_else(|| {
        CliError::refused(
            "there is no batch yet",
            "start one with `cf run --all-ready` or `cf run --file PLAN`",
        )
    })
}

/// `cf work batch status`.
pub(super) fn status(args: &BatchStatusArgs, console: &Console) -> Ended {
    let (workspace, store) = workspace::open_to_read()?;
    let id = named_or_newest(&store, args.batch.as_ref())?;
    if args.watch {
        return watch::status(&store, &workspace, id, console);
    }
    store.expect_a_scan()?;
    let shown = Shown::read(&store, &workspace, id)?;
    if console.json {
        console::print_json(&shown.json())?;
        return Ok(0);
    }
    let mut out = console::out();
    shown.write(console, &mut out)?;
    out.flush()?;
    Ok(0)
}

/// `cf work batch list`.
pub(super) fn list(args: &BatchListArgs, console: &Console) -> Ended {
    let (workspace, store) = workspace::open_to_read()?;
    let batches: Vec<Listed> = store.read(|reader| {
        let batches = reader.batches()?;
        batches
            .into_iter()
            .take(args.limit.unwrap_or(usize::MAX))
            .map(|batch| listed(reader, &workspace, batch))
            .collect()
    })?;
    if console.json {
        let shapes: Vec<_> = batches.iter().map(BatchJson::short).collect();
        console::print_json(&shapes)?;
        return Ok(0);
    }
    let mut out = console::out();
    write_list(console, &mut out, &batches)?;
    out.flush()?;
    Ok(0)
}

/// `cf work batch stop`.
pub(super) fn stop(args: &StopArgs, console: &Console) -> Ended {
    let (workspace, mut store, actor) = workspace::open_to_write()?;
    let id = match &args.batch {
        Some(given) => store.read(|reader| reader.find_batch(given))?,
        None => only_running(&store, &workspace)?,
    };
    let stop = if args.force { Stop::Force } else { Stop::Drain };
    let new = store.write(&actor, |tx| tx.request_stop(id, stop))?;
    let short = id.short();
    if workspace.conductor_of(id).is_none() {
        // Nobody is left to act on the request, so this process does.
        if stop == Stop::Drain && !console.json {
            console.say(format_args!(
                "batch {short}: its conductor is gone; waiting for agents that still run, if there are any \
                 (--force stops them)"
            ))?;
        }
        let ended = run::finish_off(&workspace, store, id, stop)?;
        return stopped(
            &workspace,
            id,
            console,
            format_args!("batch {short}: its conductor was gone; {}", ended.status),
        );
    }
    match (new, stop) {
        (false, _) => stopped(
            &workspace,
            id,
            console,
            format_args!("batch {short} is stopping already"),
        ),
        (true, Stop::Drain) => stopped(
            &workspace,
            id,
            console,
            format_args!("batch {short} is stopping: running agents may end, nothing new starts"),
        ),
        (true, Stop::Force) => stopped(
            &workspace,
            id,
            console,
            format_args!("batch {short} is stopping: its agents are being stopped"),
        ),
    }
}

/// Says what became of a request to stop.
fn stopped(
    workspace: &Workspace,
    id: BatchId,
    console: &Console,
    words: std::fmt::Arguments<'_>,
) -> Ended {
    if console.json {
        let store = Store::open_to_read(workspace)?;
        console::print_json(&Shown::read(&store, workspace, id)?.json())?;
    } else {
        console.say(words)?;
    }
    Ok(0)
}

/// The one batch that somebody conducts.
fn only_running(store: &Store, workspace: &Workspace) -> Result<BatchId, CliError> {
    let unfinished: Vec<BatchId> = store.read(|reader| {
        let batches = reader.unfinished_batches()?;
        Ok(batches.iter().map(|batch| batch.id).collect())
    })?;
    let live: Vec<BatchId> = unfinished
        .iter()
        .copied()
        .filter(|batch| workspace.conductor_of(*batch).is_some())
        .collect();
    let names = |batches: &[BatchId]| {
        let ids: Vec<String> = batches.iter().map(|id| id.short()).collect();
        ids.join(", ")
    };
    match (live.as_slice(), unfinished.as_slice()) {
        ([one], _) => Ok(*one),
        ([], []) => Err(CliError::refused(
            "no batch is running",
            "`cf work batch list` shows those that ended",
        )),
        ([], [one]) => Err(CliError::refused(
            format!(
                "no batch is running; batch {} has not ended, and its conductor is gone",
                one.short()
            ),
            format!(
                "go on with `cf resume {0}`, or end it with `cf stop {0} --force`",
                one.short()
            ),
        )),
        ([], several) => Err(CliError::refused(
            format!(
                "no batch is running; {} have not ended, and their conductors are gone: {}",
                several.len(),
                names(several)
            ),
            "give the id of one",
        )),
        (several, _) => Err(CliError::refused(
            format!("{} batches are running: {}", several.len(), names(several)),
            "give the id of one",
        )),
    }
}
