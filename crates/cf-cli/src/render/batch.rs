//! Batches as words: a list, and one with its tasks and what reconciliation did.

use std::collections::HashMap;
use std::io::{self, Write};

use cf_conductor::closing::Closing;
use cf_conductor::store::batch::{Batch, BatchTaskView, Stop};
use cf_core::{
    BatchStatus, Isolation, Outcome, Phase, TaskId, TaskLabel, Timestamp, format_duration,
};
use serde::Serialize;

use super::reconciliation::{Line, Total, totals};
use super::table::{Field, Table};
use super::task::{outcome_look, phase_look};
use super::{text, time, usage};
use crate::console::{Console, Look};

/// How many tasks of a batch stand where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counts {
    pub(crate) total: u64,
    pub(crate) waiting: u64,
    pub(crate) queued: u64,
    pub(crate) running: u64,
    pub(crate) stopping: u64,
    pub(crate) held: u64,
    pub(crate) completed: u64,
    pub(crate) failed: u64,
    pub(crate) blocked: u64,
    pub(crate) skipped: u64,
    pub(crate) cancelled: u64,
}

impl Counts {
    /// Adds `n` tasks that stand at this phase, with this outcome when it is the last.
    pub(crate) const fn add(&mut self, phase: Phase, outcome: Option<Outcome>, n: u64) {
        self.total += n;
        let place = match (phase, outcome) {
            (Phase::Waiting, _) => &mut self.waiting,
            (Phase::Queued, _) => &mut self.queued,
            (Phase::Running, _) => &mut self.running,
            (Phase::Stopping, _) => &mut self.stopping,
            (Phase::Held, _) => &mut self.held,
            (Phase::Finished, Some(Outcome::Completed)) => &mut self.completed,
            (Phase::Finished, Some(Outcome::Failed)) => &mut self.failed,
            (Phase::Finished, Some(Outcome::Blocked)) => &mut self.blocked,
            (Phase::Finished, Some(Outcome::Skipped)) => &mut self.skipped,
            (Phase::Finished, Some(Outcome::Cancelled) | None) => &mut self.cancelled,
        };
        *place += n;
    }

    /// The sum of the rows that the store counted.
    pub(crate) fn of(rows: &[(Phase, Option<Outcome>, u64)]) -> Self {
        let mut counts = Self::default();
        for (phase, outcome, n) in rows {
            counts.add(*phase, *outcome, *n);
        }
        counts
    }

    /// `2 completed, 1 failed, 3 waiting`: what is not zero.
    pub(crate) fn in_words(&self) -> String {
        let words = [
            (self.completed, "completed"),
            (self.failed, "failed"),
            (self.blocked, "blocked"),
            (self.skipped, "skipped"),
            (self.cancelled, "cancelled"),
            (self.running, "running"),
            (self.stopping, "stopping"),
            (self.held, "held"),
            (self.queued, "queued"),
            (self.waiting, "waiting"),
        ];
        let shown: Vec<String> = words
            .iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, word)| format!("{n} {word}"))
            .collect();
        if shown.is_empty() {
            "no tasks".to_owned()
        } else {
            shown.join(", ")
        }
    }
}

/// How the status of a batch looks.
pub(crate) const fn look(status: BatchStatus) -> Look {
    match status {
        BatchStatus::Completed => Look::Good,
        BatchStatus::Failed => Look::Bad,
        BatchStatus::Partial => Look::Warn,
        BatchStatus::Running => Look::Busy,
        BatchStatus::Pending | BatchStatus::Cancelled => Look::Dim,
    }
}

/// A batch as it is listed: with its counts, and its live conductor's process if there is one.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) batch: Batch,
    pub(crate) counts: Counts,
    /// The live conductor's process, 0 when only that it lives is known.
    pub(crate) conductor: Option<u32>,
    /// Why it starts nothing new although it has not ended.
    pub(crate) closing: Option<Closing>,
    /// Tokens, and cost in millionths of a dollar, where agents report them.
    pub(crate) used: (Option<u64>, Option<u64>),
}

impl Listed {
    /// Whether it has not ended and nobody conducts it.
    pub(crate) fn is_abandoned(&self) -> bool {
        !self.batch.status.is_final() && self.conductor.is_none()
    }

    /// One line about it: id, status, and what its tasks do.
    pub(crate) fn summary(&self, console: &Console) -> String {
        format!(
            "batch {}  {}  {}",
            self.batch.id.short(),
            console.paint(look(self.batch.status), self.batch.status),
            self.counts.in_words()
        )
    }

    /// The same for standard error, when nothing else says how it ended.
    pub(crate) fn summary_err(&self, console: &Console) -> String {
        format!(
            "batch {}  {}  {}",
            self.batch.id.short(),
            console.paint_err(look(self.batch.status), self.batch.status),
            self.counts.in_words()
        )
    }

    /// What a person should know about its conductor, if anything.
    pub(crate) fn conductor_notice(&self) -> Option<String> {
        if self.is_abandoned() {
            return Some(format!(
                "its conductor is gone; go on with `cf resume {0}`, or end it with `cf stop {0} --force`",
                self.batch.id.short()
            ));
        }
        self.closing.as_ref().map(|closing| match closing {
            Closing::Stop(Stop::Drain) => {
                "stopping: running agents may end, nothing new starts".to_owned()
            }
            Closing::Stop(Stop::Force) => "stopping: its agents are being stopped".to_owned(),
            Closing::Failure(bad) => {
                format!("stopping, for {bad} failed: running agents may end, nothing new starts")
            }
        })
    }
}

/// Writes the list of batches.
///
/// # Errors
///
/// The writer refuses.
pub(crate) fn write_list(
    console: &Console,
    out: &mut impl Write,
    batches: &[Listed],
) -> io::Result<()> {
    let mut table = Table::new(&[
        "Id",
        "Status",
        "Started",
        "Tasks",
        "Completed",
        "Failed",
        "Blocked",
        "Skipped",
    ]);
    for listed in batches {
        let status = if listed.is_abandoned() {
            format!("{} (no conductor)", listed.batch.status)
        } else {
            listed.batch.status.to_string()
        };
        let counts = &listed.counts;
        table.row([
            listed.batch.id.short().into(),
            Field::new(status, look(listed.batch.status)),
            time::minute(listed.batch.started_at).into(),
            counts.total.to_string().into(),
            counts.completed.to_string().into(),
            counts.failed.to_string().into(),
            (counts.blocked + counts.held).to_string().into(),
            counts.skipped.to_string().into(),
        ]);
    }
    table.write(console, out)
}

/// Writes one batch as it is `now`: its state, its settings, its tasks, and what reconciliation did.
///
/// # Errors
///
/// The writer refuses.
pub(crate) fn write_status(
    console: &Console,
    out: &mut impl Write,
    listed: &Listed,
    tasks: &[BatchTaskView],
    doing: &HashMap<TaskId, String>,
    lines: &[Line],
    now: Timestamp,
) -> io::Result<()> {
    writeln!(out, "{}", listed.summary(console))?;
    if let Some(notice) = listed.conductor_notice() {
        writeln!(out, "{}", console.paint(Look::Warn, notice))?;
    }
    let batch = &listed.batch;
    let settings = &batch.settings;
    let ended = batch.ended_at.map_or_else(String::new, |end| {
        format!(
            ", took {}",
            time::elapsed(time::between(batch.started_at, end))
        )
    });
    writeln!(
        out,
        "  started     {}{ended}",
        time::short(batch.started_at)
    )?;
    writeln!(
        out,
        "  strategy    {}, {} at a time, {} on failure",
        settings.strategy,
        settings.slots(),
        settings.on_failure
    )?;
    writeln!(
        out,
        "  engine      {}",
        settings.engine.as_deref().unwrap_or("each task's own")
    )?;
    if settings.isolation == Isolation::Worktree {
        writeln!(out, "  isolation   {}", settings.isolation)?;
    }
    writeln!(
        out,
        "  reconcile   {}",
        interval(settings.reconcile_interval)
    )?;
    if let Some(pid) = listed.conductor.filter(|pid| *pid != 0) {
        writeln!(out, "  conductor   pid {pid}")?;
    }
    if let Some(used) = usage::words(listed.used.0, listed.used.1) {
        writeln!(out, "  used        {used}")?;
    }
    if !tasks.is_empty() {
        writeln!(out)?;
        table_of(tasks.iter(), doing, now).write(console, out)?;
    }
    write_reconciliation(console, out, lines, &totals(lines))
}

/// A row for each task: where it stands, how often it was tried, how long it has taken until `now`, and what its agent
/// is `doing`.
pub(crate) fn table_of<'v>(
    tasks: impl Iterator<Item = &'v BatchTaskView>,
    doing: &HashMap<TaskId, String>,
    now: Timestamp,
) -> Table {
    let mut table = Table::new(&["Task", "State", "Attempts", "Time", "Title", "Reason"]);
    for view in tasks {
        let row = &view.row;
        let (state, look) = match row.outcome {
            Some(outcome) => (outcome.as_str(), outcome_look(outcome)),
            None => (row.phase.as_str(), phase_look(row.phase)),
        };
        let end = match row.phase {
            Phase::Running | Phase::Stopping => Some(now),
            _ => row.ended_at,
        };
        let took = match (row.started_at, end) {
            (Some(start), Some(end)) => time::elapsed(time::between(start, end)),
            _ => String::new(),
        };
        table.row([
            Field::new(
                TaskLabel::new(row.task, view.key.as_ref()).as_str(),
                Look::Strong,
            ),
            Field::new(state, look),
            row.attempts.to_string().into(),
            took.into(),
            text::shortened(&view.title, 60).into(),
            match doing.get(&row.task) {
                Some(doing) => Field::new(doing, Look::Dim),
                None => row.reason.as_deref().unwrap_or_default().into(),
            },
        ]);
    }
    table
}

/// Writes `Reconciliation events:`, one line each, and the totals.
///
/// # Errors
///
/// The writer refuses.
pub(crate) fn write_reconciliation(
    console: &Console,
    out: &mut impl Write,
    lines: &[Line],
    totals: &[Total],
) -> io::Result<()> {
    writeln!(
        out,
        "\n{}",
        console.paint(Look::Strong, "Reconciliation events:")
    )?;
    if lines.is_empty() {
        return writeln!(out, "  none");
    }
    for line in lines {
        writeln!(out, "  {line}")?;
    }
    writeln!(out)?;
    for total in totals {
        writeln!(out, "  {total}")?;
    }
    Ok(())
}

/// An interval of passes in words.
pub(crate) fn interval(interval: std::time::Duration) -> String {
    if interval.is_zero() {
        "disabled".to_owned()
    } else {
        format!("every {}", format_duration(interval))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_say_what_is_not_zero() {
        let counts = Counts::of(&[
            (Phase::Finished, Some(Outcome::Completed), 2),
            (Phase::Running, None, 1),
            (Phase::Finished, Some(Outcome::Skipped), 3),
        ]);
        assert_eq!(counts.in_words(), "2 completed, 3 skipped, 1 running");
        assert_eq!(counts.total, 6);
        assert_eq!(Counts::default().in_words(), "no tasks");
    }
}
