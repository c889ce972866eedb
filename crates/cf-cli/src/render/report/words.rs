//! The report as words: what is not done and why, what took long, and what reconciliation did.

use std::cmp::Reverse;
use std::io::{self, Write};

use cf_core::BlockerStatus;

use super::super::reconciliation::{Line, totals};
use super::super::table::{Field, Table};
use super::super::task::{outcome_look, phase_look};
use super::super::{text, time, usage};
use super::{Report, Standing, TaskEntry};
use crate::console::{Console, Look};

/// How many tasks are named as those that took longest.
const LONGEST: usize = 5;

/// Writes it. `conductor` is the process that conducts the batch, if there is one.
///
/// # Errors
///
/// The writer refuses.
pub(crate) fn write_words(
    report: &Report,
    conductor: Option<u32>,
    console: &Console,
    out: &mut impl Write,
) -> io::Result<()> {
    let batch = &report.batch;
    let listed = report.listed(conductor);
    writeln!(out, "{}", listed.summary(console))?;
    if let Some(notice) = listed.conductor_notice() {
        writeln!(out, "{}", console.paint(Look::Warn, notice))?;
    }
    writeln!(
        out,
        "  started     {}, {} {}",
        time::short(batch.started_at),
        if batch.ended_at.is_some() {
            "took"
        } else {
            "has taken"
        },
        time::elapsed(report.took())
    )?;
    writeln!(
        out,
        "  attempts    {}, {} of them retries; {} of work, {:.1} at a time on average",
        report.attempts.len(),
        report.retries(),
        time::elapsed(report.worked()),
        report.at_once()
    )?;
    if let Some(used) = usage::words(listed.used.0, listed.used.1) {
        writeln!(out, "  used        {used}")?;
    }
    if let Some(code) = batch.exit_code {
        writeln!(out, "  exit code   {code}")?;
    }
    let open: Vec<&TaskEntry> = report
        .tasks
        .iter()
        .filter(|task| task.standing() != Standing::Completed)
        .collect();
    table(report, "Not completed:", &open, console, out)?;
    let mut longest: Vec<&TaskEntry> = report
        .tasks
        .iter()
        .filter(|task| !task.attempts.is_empty())
        .collect();
    longest.sort_by_key(|task| Reverse(report.worked_on(task)));
    longest.truncate(LONGEST);
    table(report, "Longest:", &longest, console, out)?;
    questions(report, console, out)?;
    let lines: Vec<Line> = report
        .actions
        .iter()
        .filter_map(|event| {
            Line::of(
                event,
                report.task_of(event.task).map(|(_, task)| &task.label),
            )
        })
        .collect();
    if !lines.is_empty() {
        writeln!(out, "\n{}", console.paint(Look::Strong, "Reconciliation:"))?;
        for total in totals(&lines) {
            writeln!(out, "  {total}")?;
        }
    }
    Ok(())
}

fn table(
    report: &Report,
    heading: &str,
    tasks: &[&TaskEntry],
    console: &Console,
    out: &mut impl Write,
) -> io::Result<()> {
    if tasks.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", console.paint(Look::Strong, heading))?;
    let mut table = Table::new(&["Task", "State", "Attempts", "Work", "Title", "Reason"]);
    for task in tasks {
        let look = task
            .outcome
            .map_or_else(|| phase_look(task.phase), outcome_look);
        table.row([
            Field::new(task.label.as_str(), Look::Strong),
            Field::new(task.word(), look),
            task.attempts.len().to_string().into(),
            time::elapsed(report.worked_on(task)).into(),
            text::shortened(&task.title, 60).into(),
            task.reason.as_str().into(),
        ]);
    }
    table.write(console, out)
}

fn questions(report: &Report, console: &Console, out: &mut impl Write) -> io::Result<()> {
    let mut open = report
        .questions
        .iter()
        .filter(|question| question.status == BlockerStatus::Open)
        .peekable();
    if open.peek().is_some() {
        writeln!(
            out,
            "\n{}",
            console.paint(Look::Warn, "Answers are needed:")
        )?;
    }
    for question in open {
        writeln!(out, "  {}", text::line(&question.question))?;
        writeln!(out, "    cf blocker answer {} TEXT", question.id.short())?;
    }
    Ok(())
}
