//! Tasks as words: lists, and one task with everything around it.

use std::io::{self, Write};
use std::path::Path;

use cf_conductor::github::LinkView;
use cf_conductor::store::attempt::Attempt;
use cf_conductor::store::blocker::Blocker;
use cf_conductor::store::event::Event;
use cf_conductor::store::follow::StoredComment;
use cf_conductor::store::read_cli::TaskLine;
use cf_conductor::store::task::Task;
use cf_conductor::store::worktree::Worktree;
use cf_core::{
    Actor, BlockerStatus, Outcome, Phase, TaskLabel, TaskStatus, Timestamp, format_duration,
};

use super::event::event_line;
use super::table::{Field, Table};
use super::{link, text, time, usage};
use crate::console::{Console, Look};

/// How a status looks.
pub(crate) const fn look(status: TaskStatus) -> Look {
    match status {
        TaskStatus::Done | TaskStatus::Merged => Look::Good,
        TaskStatus::Failed => Look::Bad,
        TaskStatus::Blocked => Look::Warn,
        TaskStatus::InProgress => Look::Busy,
        TaskStatus::Backlog => Look::Dim,
        TaskStatus::Ready => Look::Plain,
    }
}

/// Who set something, in words.
pub(crate) fn by(actor: &Actor) -> String {
    match actor {
        Actor::Cli => "a person".to_owned(),
        Actor::Batch(id) => format!("batch {}", id.short()),
        Actor::Attempt(id) => format!("its agent, in attempt {}", id.short()),
        Actor::Github(host) => format!("GitHub ({})", text::line(host)),
        Actor::System => "cf itself".to_owned(),
    }
}

/// How an outcome looks.
pub(crate) const fn outcome_look(outcome: Outcome) -> Look {
    match outcome {
        Outcome::Completed => Look::Good,
        Outcome::Failed => Look::Bad,
        Outcome::Blocked => Look::Warn,
        Outcome::Skipped | Outcome::Cancelled => Look::Dim,
    }
}

/// How a phase looks.
pub(crate) const fn phase_look(phase: Phase) -> Look {
    match phase {
        Phase::Running | Phase::Stopping => Look::Busy,
        Phase::Held => Look::Warn,
        Phase::Waiting | Phase::Queued | Phase::Finished => Look::Plain,
    }
}

/// The headings of a list of tasks.
pub(crate) const HEADINGS: &[&str] = &["Id", "Key", "Status", "Priority", "Blockers", "Title"];

/// A list of tasks for a terminal.
pub(crate) fn table() -> Table {
    Table::new(HEADINGS)
}

/// Adds a task to a list.
pub(crate) fn add_row(table: &mut Table, line: &TaskLine<'_>) {
    let blockers = match line.open_blockers {
        0 => String::new(),
        n => n.to_string(),
    };
    let status: Option<TaskStatus> = line.status.parse().ok();
    table.row([
        line.id.get(..8).unwrap_or(line.id).into(),
        Field::new(line.key.unwrap_or_default(), Look::Strong),
        Field::new(line.status, status.map_or(Look::Plain, look)),
        line.priority.to_string().into(),
        Field::new(blockers, Look::Warn),
        line.title.into(),
    ]);
}

/// Everything that `cf tasks show` tells.
#[derive(Debug)]
pub(crate) struct FullTask<'t> {
    pub(crate) task: &'t Task,
    /// What it depends on, with where that stands.
    pub(crate) depends_on: &'t [(TaskLabel, TaskStatus)],
    pub(crate) dependents: &'t [TaskLabel],
    pub(crate) links: &'t [LinkView],
    pub(crate) blockers: &'t [Blocker],
    pub(crate) attempts: &'t [Attempt],
    /// The worktrees of those that have their own.
    pub(crate) worktrees: &'t [Worktree],
    /// Where worktrees are.
    pub(crate) trees: &'t Path,
    pub(crate) comments: &'t [StoredComment],
    pub(crate) events: &'t [Event],
}

/// How much of what an agent said last is shown, in characters.
const MOST_SAID: usize = 300;

/// How many events of a task are shown as words.
const MOST_EVENTS: usize = 15;

impl FullTask<'_> {
    /// Writes the task as words.
    ///
    /// # Errors
    ///
    /// The writer refuses.
    pub(crate) fn write(&self, console: &Console, out: &mut impl Write) -> io::Result<()> {
        let task = self.task;
        writeln!(
            out,
            "{}  {}",
            console.paint(Look::Strong, text::line(&task.title)),
            console.paint(look(task.status), task.status)
        )?;
        let mut facts: Vec<(&str, String)> = vec![("id", task.id.to_string())];
        let mut fact = |name, value: Option<String>| {
            if let Some(value) = value {
                facts.push((name, value));
            }
        };
        fact("key", task.key.as_ref().map(ToString::to_string));
        fact("priority", Some(task.priority.to_string()));
        fact("engine", task.engine.clone());
        fact("model", task.model.clone());
        fact("timeout", task.timeout.map(format_duration));
        for (name, value) in &task.env {
            fact("env", Some(format!("{name}={value}")));
        }
        fact("verify", task.verify.clone());
        for (label, status) in self.depends_on {
            fact("depends on", Some(format!("{label} ({status})")));
        }
        for label in self.dependents {
            fact("needed by", Some(label.to_string()));
        }
        for view in self.links {
            fact("linked to", Some(link::words(view, Timestamp::now())));
        }
        let added = if task.has_first_status() {
            ", who added it"
        } else {
            ""
        };
        fact("status by", Some(format!("{}{added}", by(&task.status_by))));
        fact("created", Some(time::short(task.created_at)));
        fact("updated", Some(time::short(task.updated_at)));
        for (name, value) in facts {
            writeln!(
                out,
                "  {:<11} {}",
                console.paint(Look::Dim, name),
                text::line(&value)
            )?;
        }
        section(console, out, "Description", &task.description)?;
        section(
            console,
            out,
            "Script",
            task.run.as_deref().unwrap_or_default(),
        )?;
        self.write_blockers(console, out)?;
        self.write_attempts(console, out)?;
        write_comments(console, out, self.comments)?;
        self.write_events(console, out)
    }

    fn write_blockers(&self, console: &Console, out: &mut impl Write) -> io::Result<()> {
        if self.blockers.is_empty() {
            return Ok(());
        }
        heading(console, out, "Questions")?;
        for blocker in self.blockers {
            let look = if blocker.status == BlockerStatus::Open {
                Look::Warn
            } else {
                Look::Dim
            };
            writeln!(
                out,
                "  {} {} {}",
                blocker.id.short(),
                console.paint(look, format_args!("{:<8}", blocker.status.as_str())),
                text::line(&blocker.question)
            )?;
            if let Some(answer) = &blocker.answer {
                writeln!(out, "           answer: {}", text::line(answer))?;
            }
        }
        Ok(())
    }

    fn write_attempts(&self, console: &Console, out: &mut impl Write) -> io::Result<()> {
        if self.attempts.is_empty() {
            return Ok(());
        }
        heading(console, out, "Attempts")?;
        for attempt in self.attempts {
            let asked = self
                .blockers
                .iter()
                .any(|blocker| blocker.asked_attempt == Some(attempt.id));
            let (word, look) = match (attempt.open, attempt.success) {
                (true, _) => ("running", Look::Busy),
                // Whatever its exit code: it has not done the task.
                (false, _) if asked => ("asked", Look::Warn),
                (false, Some(true)) => ("success", Look::Good),
                (false, _) => ("ended", Look::Bad),
            };
            let took = attempt
                .ended_at
                .map(|end| time::elapsed(time::between(attempt.started_at, end)));
            writeln!(
                out,
                "  {} {} {} {} {}",
                attempt.generation,
                console.paint(look, word),
                attempt.engine,
                took.unwrap_or_else(|| format!("since {}", time::short(attempt.started_at))),
                text::line(attempt.reason.as_deref().unwrap_or_default())
            )?;
            if let Some(said) = attempt.last_said.as_deref().map(text::line)
                && !said.is_empty()
            {
                writeln!(out, "    it said: {}", text::shortened(&said, MOST_SAID))?;
            }
            let used = usage::words(attempt.tokens, attempt.cost_micro_usd);
            let session = attempt.session.as_ref().map(|id| format!("session {id}"));
            let facts: Vec<String> = used.into_iter().chain(session).collect();
            if !facts.is_empty() {
                writeln!(out, "    {}", console.paint(Look::Dim, facts.join(", ")))?;
            }
            if attempt.left_behind > 0 {
                writeln!(out, "    it left {} behind", processes(attempt.left_behind))?;
            }
            let lost = attempt.output_lost;
            if lost > 0 {
                writeln!(
                    out,
                    "    {lost} bytes of its output could not be written and are lost"
                )?;
            }
            if let Some(row) = self.worktrees.iter().find(|row| row.attempt == attempt.id) {
                write_worktree(out, row, self.trees)?;
            }
        }
        Ok(())
    }

    fn write_events(&self, console: &Console, out: &mut impl Write) -> io::Result<()> {
        heading(console, out, "History")?;
        let hidden = self.events.len().saturating_sub(MOST_EVENTS);
        if hidden > 0 {
            writeln!(
                out,
                "  … {hidden} earlier; `cf events --task {}` shows all",
                self.task.label()
            )?;
        }
        for event in &self.events[hidden..] {
            writeln!(out, "  {}", event_line(event, None))?;
        }
        Ok(())
    }
}

fn write_worktree(out: &mut impl Write, row: &Worktree, trees: &Path) -> io::Result<()> {
    if let Some(commit) = &row.head {
        writeln!(
            out,
            "    work: {commit:.8} on branch {}",
            text::line(&row.branch)
        )?;
    } else {
        writeln!(out, "    branch: {}", text::line(&row.branch))?;
    }
    if let Some(kept) = &row.rescue {
        writeln!(out, "    kept: {}", text::line(kept))?;
    }
    if !row.is_removed {
        let path = trees.join(&row.name);
        writeln!(
            out,
            "    worktree: {}",
            text::line(&path.display().to_string())
        )?;
    }
    Ok(())
}

/// How many comments are shown as words, the newest.
const MOST_COMMENTS: usize = 10;

/// Writes the comments on a task's issues and pull requests.
///
/// # Errors
///
/// The writer refuses.
pub(crate) fn write_comments(
    console: &Console,
    out: &mut impl Write,
    comments: &[StoredComment],
) -> io::Result<()> {
    if comments.is_empty() {
        return Ok(());
    }
    heading(console, out, "Comments")?;
    let hidden = comments.len().saturating_sub(MOST_COMMENTS);
    if hidden > 0 {
        writeln!(out, "  … {hidden} earlier")?;
    }
    for comment in &comments[hidden..] {
        let mark = if comment.trusted {
            ""
        } else {
            " (not a member of the repository)"
        };
        writeln!(
            out,
            "  {}  {}{mark} on {}",
            time::short(comment.at),
            text::line(&comment.author),
            text::line(&comment.link.to_string())
        )?;
        for line in text::clean(&comment.body).trim_end().lines() {
            writeln!(out, "    {line}")?;
        }
    }
    Ok(())
}

fn processes(count: u32) -> String {
    match count {
        1 => "1 process".to_owned(),
        n => format!("{n} processes"),
    }
}

fn heading(console: &Console, out: &mut impl Write, name: &str) -> io::Result<()> {
    writeln!(out, "\n{}", console.paint(Look::Strong, name))
}

fn section(console: &Console, out: &mut impl Write, name: &str, body: &str) -> io::Result<()> {
    if body.trim().is_empty() {
        return Ok(());
    }
    heading(console, out, name)?;
    for line in text::clean(body).trim_end().lines() {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}
