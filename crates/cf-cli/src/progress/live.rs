//! The view of a terminal: a line for each running agent that changes in place, and a bar below them.

use std::collections::BTreeMap;
use std::io;

use cf_conductor::store::event::Event;
use cf_conductor::supervise::logfile::LogReader;
use cf_conductor::workspace::Workspace;
use cf_core::{EventType, TaskId, TaskLabel, Timestamp};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::told::Told;
use crate::console::{Console, Look};
use crate::render::{text, time};

/// How much of the end of a log is read to find its last line, in bytes.
const TAIL_BYTES: usize = 4 * 1024;

/// How many agents have a line of their own; the others are in the bar.
const MOST_LINES: usize = 16;

#[derive(Debug)]
pub(super) struct Live {
    console: Console,
    workspace: Workspace,
    lines: MultiProgress,
    bar: ProgressBar,
    running: BTreeMap<TaskId, Agent>,
    failed: u64,
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
            failed: 0,
        }
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
        let Some(task) = event.task else { return };
        match event.kind {
            EventType::BatchTaskStarted | EventType::AttemptAdopted => {
                self.started(task, event, label);
            }
            EventType::BatchTaskCompleted
            | EventType::BatchTaskFailed
            | EventType::BatchTaskSkipped
            | EventType::BatchTaskCancelled => {
                self.ended(task);
                self.failed += u64::from(event.kind == EventType::BatchTaskFailed);
                self.bar.inc(1);
            }
            EventType::BatchTaskRequeued | EventType::BatchTaskWaiting => {
                self.bar.set_position(self.bar.position().saturating_sub(1));
            }
            EventType::BatchTaskKilled
            | EventType::BatchTaskRetrying
            | EventType::BatchTaskBlocked => self.ended(task),
            EventType::AttemptEnded => self.ended(task),
            _ => {}
        }
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
        if self.failed > 0 {
            let failed = format_args!("{} failed", self.failed);
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
        self.bar.finish_and_clear();
        self.lines.clear()
    }
}

impl Agent {
    /// Reads the last line of its log, if the log has grown.
    fn look(&mut self) {
        let Some(log) = &mut self.log else { return };
        // A log that cannot be read for a moment is no reason to disturb what is shown.
        let Ok(extent) = log.extent() else { return };
        if extent.end == self.log_end {
            return;
        }
        self.log_end = extent.end;
        if let Ok(lines) = log.last_lines(2, TAIL_BYTES) {
            let last = lines.iter().rev().map(|line| String::from_utf8_lossy(line));
            let last = last
                .map(|line| text::line(&line).into_owned())
                .find(|line| !line.is_empty());
            if let Some(line) = last {
                self.last_line = text::shortened(&line, 200).into_owned();
            }
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
