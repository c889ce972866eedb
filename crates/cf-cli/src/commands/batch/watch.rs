//! `cf work batch follow`, and `status --watch`: a batch as it goes on, seen from another process.

use std::io::Write as _;
use std::time::{Duration, Instant};

use cf_conductor::store::Store;
use cf_conductor::store::event::EventFilter;
use cf_conductor::workspace::Workspace;
use cf_core::{BatchId, BatchStatus, BlockerStatus, Outcome};

use super::super::events::{LOOK, Tail};
use super::super::{Ended, Labels};
use super::{Shown, named_or_newest};
use crate::args::work::BatchArgs;
use crate::console::{self, Console, Look};
use crate::error::CliError;
use crate::progress::Progress;
use crate::render::json::LastLine;
use crate::render::text;
use crate::workspace;

/// How long an unfinished batch may be without a conductor before whoever follows it gives up. A conductor stores its
/// batch a moment before it can be seen to hold the lock.
const PATIENCE: Duration = Duration::from_secs(2);

/// The reason of a task that a person works on; one of those that scripts may match on.
const BY_HAND: &str = "in progress by hand";

/// How many failed tasks are named with the command that shows their logs.
const MOST_LOGS: usize = 3;

/// `cf work batch follow`.
pub(in crate::commands) fn follow(args: &BatchArgs, console: &Console) -> Ended {
    let (workspace, store) = workspace::open_to_read()?;
    let id = named_or_newest(&store, args.batch.as_ref())?;
    let filter = EventFilter {
        batch: Some(id),
        limit: Some(1_000),
        ..EventFilter::default()
    };
    let mut tail = Tail::new(filter);
    let mut labels = Labels::default();
    let shown = Shown::read(&store, &workspace, id)?;
    let mut progress = Progress::new(console, shown.listed.counts.total, workspace.clone());
    let mut abandoned_since: Option<Instant> = None;
    loop {
        // Asked before reading: the events of a batch that has ended are then read to the last.
        let batch = store.read(|reader| reader.batch(id))?;
        loop {
            let events = tail.next(&store)?;
            if events.is_empty() {
                break;
            }
            for event in &events {
                let label = event
                    .task
                    .map(|task| store.read(|reader| labels.of(reader, task)))
                    .transpose()?;
                progress.event(event, label.as_ref())?;
            }
        }
        progress.tick();
        if batch.status.is_final() {
            break;
        }
        if workspace.conductor_of(id).is_some() {
            abandoned_since = None;
        } else if abandoned_since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
            progress.finish()?;
            return Err(CliError::refused(
                format!("the conductor of batch {} is gone", id.short()),
                format!(
                    "go on with `cf resume {0}`, or end it with `cf stop {0} --force`",
                    id.short()
                ),
            ));
        }
        std::thread::sleep(LOOK);
    }
    progress.finish()?;
    end(&store, &workspace, id, console)
}

/// Prints how a batch ended, and returns its exit code.
pub(in crate::commands) fn end(
    store: &Store,
    workspace: &Workspace,
    id: BatchId,
    console: &Console,
) -> Ended {
    let shown = Shown::read(store, workspace, id)?;
    let code = shown.listed.batch.exit_code.unwrap_or(0);
    if console.json {
        console::print_json(&LastLine {
            batch: shown.json(),
        })?;
    } else if !console.quiet {
        let mut out = console::out();
        writeln!(out)?;
        shown.write(console, &mut out)?;
        write_questions(store, &shown, console, &mut out)?;
        write_next(&shown, &mut out)?;
        out.flush()?;
    } else if code != 0 {
        // Even whoever wants to read nothing is told that the end is a bad one.
        let _ = writeln!(console::err(), "{}", shown.listed.summary_err(console));
    }
    Ok(code)
}

/// The open questions of the tasks that were left held, each with the command that answers it.
fn write_questions(
    store: &Store,
    shown: &Shown,
    console: &Console,
    out: &mut impl std::io::Write,
) -> Result<(), CliError> {
    let mut questions = Vec::new();
    for task in shown.blocked() {
        questions
            .extend(store.read(|reader| reader.blockers(Some(task), Some(BlockerStatus::Open)))?);
    }
    if questions.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\n{}",
        console.paint(Look::Warn, "Answers are needed:")
    )?;
    for blocker in questions {
        writeln!(out, "  {}", text::line(&blocker.question))?;
        writeln!(out, "    cf blocker answer {} TEXT", blocker.id.short())?;
    }
    Ok(())
}

/// What to do about the tasks that were not done: read what the failed ones wrote, and go on.
fn write_next(shown: &Shown, out: &mut impl std::io::Write) -> std::io::Result<()> {
    let batch = &shown.listed.batch;
    if batch.status == BatchStatus::Completed {
        return Ok(());
    }
    writeln!(out, "\nNext:")?;
    let failed = shown
        .rows()
        .filter(|(_, row)| row.outcome == Some(Outcome::Failed) && row.attempts > 0);
    for (label, _) in failed.take(MOST_LOGS) {
        let label = text::line(label.as_str()).into_owned();
        writeln!(
            out,
            "  {:<24}  what its agent wrote",
            format!("cf logs {label}")
        )?;
    }
    for (label, _) in shown
        .rows()
        .filter(|(_, row)| row.reason.as_deref() == Some(BY_HAND))
    {
        writeln!(
            out,
            "  cf tasks set status {} READY  gives back what is in progress by hand",
            text::line(label.as_str())
        )?;
    }
    let resume = format!("cf resume {}", batch.id.short());
    writeln!(out, "  {resume:<24}  takes up what is not done")
}

/// `cf work batch status --watch`: anew whenever something happens, until the batch ends.
pub(super) fn status(
    store: &Store,
    workspace: &Workspace,
    id: BatchId,
    console: &Console,
) -> Ended {
    let mut shown_at = None;
    let mut shown = Shown::read(store, workspace, id)?;
    loop {
        let (batch, seq) = store.read(|reader| Ok((reader.batch(id)?, reader.last_seq()?)))?;
        let key = (seq, batch.status);
        if shown_at != Some(key) {
            shown.read_again(store, workspace)?;
            if console.json {
                console::print_json(&shown.json())?;
            } else {
                let mut out = console::out();
                if console.width.is_some() {
                    // To the upper left corner, and clear what follows: what stood there scrolls away with nothing
                    // lost.
                    out.write_all(b"\x1b[H\x1b[2J")?;
                } else if shown_at.is_some() {
                    writeln!(out)?;
                }
                shown.write(console, &mut out)?;
                out.flush()?;
            }
            shown_at = Some(key);
        }
        if batch.status.is_final() {
            return Ok(0);
        }
        std::thread::sleep(LOOK);
    }
}
