//! The view of a terminal: a line for each running agent that changes in place, and a bar below them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use cf_conductor::engine::SuccessRule;
use cf_conductor::heard;
use cf_conductor::store::event::Event;
use cf_conductor::supervise::logfile::LogReader;
use cf_conductor::workspace::Workspace;
use cf_core::{EventType, Phase, TaskId, TaskLabel, Timestamp};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::told::{Told, joined};
use crate::console::{Console, Look};
use crate::render::{text, time};

/// How much of what an agent said or called last is shown, in characters.
const LINE_CHARS: usize = 200;

/// How many agents have a line of their own; the others are in the bar.
const MOST_LINES: usize = 16;

#[derive(Debug)]
pub(super) struct Live {
    console: Console,
    workspace: Workspace,
    lines: MultiProgress,
    bar: ProgressBar,
    running: BTreeMap<TaskId, Agent>,
    /// The tasks that have an outcome, and which of them failed.
    ended: BTreeSet<TaskId>,
    failed: BTreeSet<TaskId>,
}

/// One running agent.
#[derive(Debug)]
struct Agent {
    label: String,
    /// When its attempt started, as this process saw it.
    since: std::time::Instant,
    /// How long it ran already when this process saw it.
    before: std::time::Duration,
    log: Option<LogReader>,
    rule: SuccessRule,
    /// Where its log ended when it was last looked at.
    log_end: u64,
    last_line: String,
    line: Option<ProgressBar>,
}

impl Live {
    pub(super) fn new(console: Console, total: u64, workspace: Workspace) -> Self {
        let lines = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(8));
        let bar = lines.add(ProgressBar::new(total));
        let style = ProgressStyle::with_template("[{bar:24}] {pos}/{len} {msg}")
            .expect("the template is right")
            .progress_chars("=> ");
        bar.set_style(style);
        Self {
            console,
            workspace,
            lines,
            bar,
            running: BTreeMap::new(),
            ended: BTreeSet::new(),
            failed: BTreeSet::new(),
        }
    }

    /// Counts tasks that ended before the first event.
    pub(super) fn have_ended(&mut self, tasks: impl IntoIterator<Item = TaskId>) {
        self.ended.extend(tasks);
        self.bar.set_position(self.ended.len() as u64);
    }

    /// Takes an event in, and prints its line above those that change.
    pub(super) fn event(
        &mut self,
        event: &Event,
        label: Option<&TaskLabel>,
        told: Option<Told>,
    ) -> io::Result<()> {
        self.follow(event, label);
        if let Some(told) = told {
            self.lines
                .println(self.console.paint(told.look, told.text).to_string())?;
        }
        self.caption();
        Ok(())
    }

    fn follow(&mut self, event: &Event, label: Option<&TaskLabel>) {
        let (Some(task), Some(kind)) = (event.task, event.kind.known()) else {
            return;
        };
        self.count(task, kind, event);
        match kind {
            EventType::BatchTaskStarted | EventType::AttemptAdopted => {
                self.started(task, event, label);
            }
            EventType::BatchTaskCompleted
            | EventType::BatchTaskFailed
            | EventType::BatchTaskSkipped
            | EventType::BatchTaskCancelled
            | EventType::BatchTaskKilled
            | EventType::BatchTaskRetrying
            | EventType::BatchTaskBlocked
            | EventType::AttemptEnded => self.ended(task),
            _ => {}
        }
    }

    /// Moves the bar: a task counts while it has an outcome, however often it got one.
    fn count(&mut self, task: TaskId, kind: EventType, event: &Event) {
        let has_outcome = match kind {
            EventType::BatchTaskCompleted
            | EventType::BatchTaskFailed
            | EventType::BatchTaskSkipped
            | EventType::BatchTaskCancelled => true,
            // A held task has none yet.
            EventType::BatchTaskBlocked => event.text("phase") == Some(Phase::Finished.as_str()),
            EventType::BatchTaskQueued
            | EventType::BatchTaskStarted
            | EventType::BatchTaskRequeued
            | EventType::BatchTaskWaiting => false,
            _ => return,
        };
        if joined(event) {
            self.bar.inc_length(1);
        }
        self.failed.remove(&task);
        if has_outcome {
            self.ended.insert(task);
        } else {
            self.ended.remove(&task);
        }
        if kind == EventType::BatchTaskFailed {
            self.failed.insert(task);
        }
        self.bar.set_position(self.ended.len() as u64);
    }

    fn started(&mut self, task: TaskId, event: &Event, label: Option<&TaskLabel>) {
        self.ended(task);
        let line = (self.running.len() < MOST_LINES).then(|| {
            let line = self
                .lines
                .insert_before(&self.bar, ProgressBar::new_spinner());
            line.set_style(
                ProgressStyle::with_template("{wide_msg}").expect("the template is right"),
            );
            line
        });
        let agent = Agent {
            label: label.map_or_else(
                || task.short(),
                |label| text::line(label.as_str()).into_owned(),
            ),
            since: std::time::Instant::now(),
            before: time::between(event.at, Timestamp::now()),
            log: event
                .attempt
                .map(|attempt| LogReader::new(self.workspace.log_of(attempt))),
            rule: event
                .text("format")
                .and_then(SuccessRule::from_word)
                .unwrap_or(SuccessRule::ExitZero),
            log_end: 0,
            last_line: String::new(),
            line,
        };
        agent.show(&self.console);
        self.running.insert(task, agent);
    }

    fn ended(&mut self, task: TaskId) {
        if let Some(line) = self.running.remove(&task).and_then(|agent| agent.line) {
            line.finish_and_clear();
            self.lines.remove(&line);
        }
    }

    fn caption(&self) {
        let mut caption = format!("{} running", self.running.len());
        if !self.failed.is_empty() {
            let failed = format_args!("{} failed", self.failed.len());
            caption = format!("{caption}, {}", self.console.paint(Look::Bad, failed));
        }
        self.bar.set_message(caption);
    }

    /// Moves the clocks on and looks at the ends of the logs.
    pub(super) fn tick(&mut self) {
        for agent in self
            .running
            .values_mut()
            .filter(|agent| agent.line.is_some())
        {
            agent.look();
            agent.show(&self.console);
        }
        self.bar.tick();
    }

    pub(super) fn say(&self, text: &str) -> io::Result<()> {
        let line = format!(
            "{} {}",
            self.console.paint(Look::Warn, "warning:"),
            text::line(text)
        );
        self.lines.println(line)
    }

    pub(super) fn finish(&mut self) -> io::Result<()> {
        for line in std::mem::take(&mut self.running)
            .into_values()
            .filter_map(|agent| agent.line)
        {
            line.finish_and_clear();
        }
        self.bar.finish_and_clear();
        self.lines.clear()
    }
}

impl Agent {
    /// Reads what it said or called last, if its log has grown.
    fn look(&mut self) {
        let Some(log) = &mut self.log else { return };
        // A log that cannot be read for a moment is no reason to disturb what is shown.
        let Ok(extent) = log.extent() else { return };
        if extent.end == self.log_end {
            return;
        }
        self.log_end = extent.end;
        if let Some(line) = heard::latest(self.rule, log, LINE_CHARS) {
            self.last_line = text::line(&line).into_owned();
        }
    }

    fn show(&self, console: &Console) {
        let Some(line) = &self.line else { return };
        let elapsed = time::elapsed(self.before + self.since.elapsed());
        line.set_message(format!(
            "{}  {elapsed:>6}  {}",
            console.paint(Look::Strong, &self.label),
            console.paint(Look::Dim, &self.last_line)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    const ONE: &str = "00000000-0000-0000-0000-00000000000a";

    #[test_case(&[("BATCH_TASK_BLOCKED", "held")] => (0, 0); "a held task has not ended")]
    #[test_case(&[("BATCH_TASK_BLOCKED", "finished")] => (1, 0); "a blocked one has")]
    #[test_case(&[("BATCH_TASK_BLOCKED", "held"), ("BATCH_TASK_REQUEUED", "queued")] => (0, 0); "a held task that is requeued takes nobody's place")]
    #[test_case(&[("BATCH_TASK_FAILED", "finished"), ("BATCH_TASK_REQUEUED", "queued")] => (0, 0); "a failed task that is requeued does not count")]
    #[test_case(&[("BATCH_TASK_SKIPPED", "finished"), ("BATCH_TASK_SKIPPED", "finished")] => (1, 0); "a task counts once")]
    #[test_case(&[("BATCH_TASK_FAILED", "finished")] => (1, 1); "a failed task")]
    #[test_case(&[("BATCH_TASK_RETRYING", "queued"), ("BATCH_TASK_STARTED", "running"), ("BATCH_TASK_COMPLETED", "finished")] => (1, 0); "a task that succeeds at last")]
    fn the_bar_counts_tasks_that_have_an_outcome(events: &[(&str, &str)]) -> (u64, usize) {
        let mut live = live();
        for (kind, phase) in events {
            let event = Event::new(kind.parse().unwrap())
                .task(ONE.parse().unwrap())
                .with("phase", *phase);
            live.event(&event, None, None).unwrap();
        }
        (live.bar.position(), live.failed.len())
    }

    #[test]
    fn a_task_that_ended_before_counts_until_it_is_taken_up_again() {
        let mut live = live();
        live.have_ended([
            ONE.parse().unwrap(),
            "00000000-0000-0000-0000-00000000000b".parse().unwrap(),
        ]);
        assert_eq!(live.bar.position(), 2);
        let taken_up = Event::new(EventType::BatchTaskQueued).task(ONE.parse().unwrap());
        live.event(&taken_up, None, None).unwrap();
        assert_eq!(live.bar.position(), 1);
    }

    fn live() -> Live {
        let workspace = Workspace::unmade(std::path::Path::new("/nowhere"));
        let live = Live::new(Console::plain(Some(80)), 3, workspace);
        live.lines.set_draw_target(ProgressDrawTarget::hidden());
        live
    }
}
