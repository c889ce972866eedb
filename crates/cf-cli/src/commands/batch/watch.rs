//! `cf work batch follow`, and `status --watch`: a batch as it goes on, seen from another process.

use std::io::Write as _;
use std::time::{Duration, Instant};

use cf_conductor::store::batch::BatchTaskView;
use cf_conductor::store::blocker::Blocker;
use cf_conductor::store::event::EventFilter;
use cf_conductor::store::{Reader, Store, StoreError};
use cf_conductor::wake::Listener;
use cf_conductor::workspace::Workspace;
use cf_core::{BatchId, BatchStatus, BlockerStatus, Isolation, Outcome, TaskStatus};

use super::super::events::{CHUNK, LOOK, Tail};
use super::super::{Ended, Labels};
use super::{Shown, named_or_newest};
use crate::args::work::FollowArgs;
use crate::console::screen::{Screen, height};
use crate::console::{self, Console, Look};
use crate::error::CliError;
use crate::progress::Progress;
use crate::render::json::LastLine;
use crate::render::text;
use crate::workspace;

/// How long an unfinished batch may be without a conductor before whoever follows it gives up. A conductor stores its
/// batch a moment before it can be seen to hold the lock.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often the clocks of a watched batch move on.
const TICK: Duration = Duration::from_secs(1);

/// The reason of a task that a person works on; one of those that scripts may match on.
const BY_HAND: &str = "in progress by hand";

/// How many events of the past are told before what happens, at most: what came before them is of little use by now,
/// and telling all of it would take the longer the longer the batch has been running.
const MOST_PAST: usize = 5_000;

/// How many failed tasks are named with the command that shows their logs.
const MOST_LOGS: usize = 3;

/// How many questions are named once more where the next steps are.
const MOST_ANSWERS: usize = 3;

/// Notices when the batch that is looked at has lost its conductor: nothing will happen to it any more.
#[derive(Debug, Default)]
pub(in crate::commands) struct Care {
    abandoned_since: Option<Instant>,
}

impl Care {
    /// Whether the batch, which has not ended, has been without a conductor for too long.
    pub(in crate::commands) fn is_abandoned(&mut self, workspace: &Workspace, id: BatchId) -> bool {
        if workspace.conductor_of(id).is_some() {
            self.abandoned_since = None;
            return false;
        }
        let since = self.abandoned_since.get_or_insert_with(Instant::now);
        since.elapsed() > PATIENCE
    }

    fn refuse_abandoned(&mut self, workspace: &Workspace, id: BatchId) -> Result<(), CliError> {
        if !self.is_abandoned(workspace, id) {
            return Ok(());
        }
        Err(CliError::refused(
            format!("the conductor of batch {} is gone", id.short()),
            format!(
                "go on with `cf resume {0}`, or end it with `cf stop {0} --force`",
                id.short()
            ),
        ))
    }
}

/// `cf work batch follow`.
pub(in crate::commands) fn follow(args: &FollowArgs, console: &Console) -> Ended {
    let (workspace, store) = workspace::open_to_read()?;
    // Events are read in their order, and the tasks once.
    store.expect_a_scan()?;
    let id = named_or_newest(&store, args.batch.as_ref())?;
    let mut listener = Listener::new(&workspace.wake_file());
    let mut filter = EventFilter {
        batch: Some(id),
        limit: Some(CHUNK),
        ..EventFilter::default()
    };
    // Programs get every event; people would wait for what they have no use for.
    let last = args.last.or((!console.json).then_some(MOST_PAST));
    if let Some(last) = last {
        filter.after = store.read(|reader| reader.seq_before_last(&filter, last))?;
    }
    // How many tasks there are is taken in together with how they stand.
    let mut progress = Progress::new(console, 0, &workspace);
    if filter.after > 0 {
        progress.earlier(id)?;
    }
    let mut tail = Tail::new(filter);
    let mut labels = Labels::default();
    let mut care = Care::default();
    let mut is_past = true;
    loop {
        // Asked before reading: the events of a batch that has ended are then read to the last. Its end is read first
        // too, because that has the labels of all tasks.
        let shown = end_of_ended(&store, &workspace, id)?;
        if let Some(shown) = &shown {
            labels.take(shown.rows().map(|(label, row)| (row.task, label)));
        }
        if progress.is_live() && !is_past {
            show_live(&store, &mut tail, &mut labels, &mut progress)?;
        } else {
            let stands = (is_past && shown.is_none()).then_some(id);
            tell(&store, &mut tail, &mut labels, &mut progress, stands)?;
            is_past = stands.is_none() && is_past;
        }
        if let Some(shown) = shown {
            // Telling takes as long as somebody reads, and the batch may have been resumed meanwhile.
            if store.read(|reader| reader.batch(id))? != shown.listed.batch {
                continue;
            }
            progress.finish()?;
            return end_of(&shown, &store, console);
        }
        progress.tick();
        if let Err(gone) = care.refuse_abandoned(&workspace, id) {
            progress.finish()?;
            return Err(gone);
        }
        listener.wait(LOOK);
    }
}

/// Everything that is shown of a batch, if it has ended.
fn end_of_ended(
    store: &Store,
    workspace: &Workspace,
    id: BatchId,
) -> Result<Option<Shown>, CliError> {
    let batch = store.read(|reader| reader.batch(id))?;
    let has_ended = batch.status.is_final();
    has_ended
        .then(|| Shown::read(store, workspace, id))
        .transpose()
}

/// Tells what has happened up to now. Of a batch that is given, also takes in how it stands at that moment.
fn tell(
    store: &Store,
    tail: &mut Tail,
    labels: &mut Labels,
    progress: &mut Progress,
    stands: Option<BatchId>,
) -> Result<(), CliError> {
    let mut lines = Vec::new();
    loop {
        let count = store.read(|reader| {
            let count = tail.read_in(reader, progress.wants(), |row| {
                progress.row(row, &mut lines, |task| labels.known(reader, task))
            })?;
            if let Some(id) = stands.filter(|_| count < CHUNK) {
                stand(reader, id, labels, progress)?;
            }
            Ok(count)
        })?;
        progress.print(&lines)?;
        if count < CHUNK {
            return Ok(());
        }
        lines.clear();
    }
}

/// Takes in how the tasks of a batch stand, and which agents run.
fn stand(
    reader: &Reader<'_>,
    id: BatchId,
    labels: &mut Labels,
    progress: &mut Progress,
) -> Result<(), StoreError> {
    if !progress.tells() {
        return Ok(());
    }
    if progress.is_live() {
        progress.stand(&reader.batch_tasks(id)?);
    }
    for attempt in reader.open_attempts_of_batch(id)? {
        // What has ended and left something behind is looked after, and runs no more.
        if attempt.end.is_none() {
            progress.is_running(&attempt, labels.known(reader, attempt.task)?);
        }
    }
    Ok(())
}

/// Shows what is new where lines change in place.
fn show_live(
    store: &Store,
    tail: &mut Tail,
    labels: &mut Labels,
    progress: &mut Progress,
) -> Result<(), CliError> {
    loop {
        let events = tail.next(store)?;
        if events.is_empty() {
            return Ok(());
        }
        for event in &events {
            let label = event
                .task
                .map(|task| store.read(|reader| labels.of(reader, task)))
                .transpose()?;
            progress.event(event, label.as_ref())?;
        }
    }
}

/// Prints how a batch ended, and returns its exit code.
pub(in crate::commands) fn end(
    store: &Store,
    workspace: &Workspace,
    id: BatchId,
    console: &Console,
) -> Ended {
    end_of(&Shown::read(store, workspace, id)?, store, console)
}

fn end_of(shown: &Shown, store: &Store, console: &Console) -> Ended {
    let code = shown.listed.batch.exit_code.unwrap_or(0);
    if console.json {
        console::print_json(&LastLine {
            batch: shown.json(),
        })?;
    } else if !console.quiet {
        let mut out = console::out();
        writeln!(out)?;
        shown.write(console, &mut out)?;
        let questions = open_questions(store, shown)?;
        write_questions(&questions, console, &mut out)?;
        write_next(shown, &questions, &mut out)?;
        out.flush()?;
    } else if code != 0 {
        // Even whoever wants to read nothing is told that the end is a bad one.
        let _ = writeln!(console::err(), "{}", shown.listed.summary_err(console));
    }
    Ok(code)
}

/// The open questions of the tasks that were left held.
fn open_questions(store: &Store, shown: &Shown) -> Result<Vec<Blocker>, CliError> {
    let mut questions = Vec::new();
    for task in shown.blocked() {
        questions
            .extend(store.read(|reader| reader.blockers(Some(task), Some(BlockerStatus::Open)))?);
    }
    Ok(questions)
}

/// The open questions, each with the command that answers it.
fn write_questions(
    questions: &[Blocker],
    console: &Console,
    out: &mut impl std::io::Write,
) -> std::io::Result<()> {
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

/// What to do next: merge what was done on branches, read what the failed ones wrote, answer, and go on.
fn write_next(
    shown: &Shown,
    questions: &[Blocker],
    out: &mut impl std::io::Write,
) -> std::io::Result<()> {
    let batch = &shown.listed.batch;
    let is_unmerged = |view: &BatchTaskView| {
        view.row.outcome == Some(Outcome::Completed) && view.status == TaskStatus::Done
    };
    let has_work =
        batch.settings.isolation == Isolation::Worktree && shown.views().iter().any(is_unmerged);
    let is_complete = batch.status == BatchStatus::Completed;
    if is_complete && !has_work {
        return Ok(());
    }
    writeln!(out, "\nNext:")?;
    if has_work {
        let what = "brings finished work to the current branch";
        writeln!(out, "  {:<24}  {what}", "cf work merge")?;
    }
    if is_complete {
        return Ok(());
    }
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
    // All of them stand above with the command for each. A resume without the answers would hold their tasks again.
    for question in questions.iter().take(MOST_ANSWERS) {
        let id = question.id.short();
        let label = shown
            .rows()
            .find(|(_, row)| Some(row.task) == question.task);
        let label = label.map_or_else(String::new, |(label, _)| label.to_string());
        writeln!(
            out,
            "  cf blocker answer {id} TEXT  answers {}",
            text::line(&label)
        )?;
    }
    let resume = format!("cf resume {}", batch.id.short());
    let when = if questions.is_empty() { "" } else { "then " };
    writeln!(out, "  {resume:<24}  {when}takes up what is not done")
}

/// `cf work batch status --watch`: anew whenever something happens, until the batch ends.
pub(super) fn status(
    store: &Store,
    workspace: &Workspace,
    id: BatchId,
    console: &Console,
) -> Ended {
    let mut listener = Listener::new(&workspace.wake_file());
    let mut shown = Shown::read(store, workspace, id)?;
    let mut seen = None;
    let mut drawn_at = Instant::now();
    let mut screen = Screen::default();
    let mut care = Care::default();
    loop {
        let (batch, seq) = store.read(|reader| Ok((reader.batch(id)?, reader.last_seq()?)))?;
        let is_final = batch.status.is_final();
        let now = Some((seq, batch.status));
        // On a terminal the clocks of running tasks move on too.
        let ticks = console.width.is_some() && !console.json && drawn_at.elapsed() >= TICK;
        if seen != now || ticks {
            shown.read_again(store, workspace)?;
            draw(&shown, &mut screen, seen.is_none(), is_final, console)?;
            seen = now;
            drawn_at = Instant::now();
        }
        if is_final {
            return Ok(0);
        }
        care.refuse_abandoned(workspace, id)?;
        listener.wait(LOOK);
    }
}

/// Shows a batch in the place of its last picture; at its end, and where no terminal is, as a whole and for good.
fn draw(
    shown: &Shown,
    screen: &mut Screen,
    is_first: bool,
    is_last: bool,
    console: &Console,
) -> Result<(), CliError> {
    if console.json {
        return Ok(console::print_json(&shown.json())?);
    }
    let mut out = console::out();
    match console.width {
        Some(width) if !is_last => {
            let picture = shown.picture(console, width, height())?;
            screen.show(&picture, width, &mut out)?;
        }
        Some(_) => {
            screen.clear(&mut out)?;
            shown.write(console, &mut out)?;
        }
        None => {
            if !is_first {
                writeln!(out)?;
            }
            shown.write(console, &mut out)?;
        }
    }
    Ok(out.flush()?)
}
