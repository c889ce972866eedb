//! The view of a terminal: a line for each running agent that changes in place, and a bar below them.

use std::collections::BTreeSet;
use std::io;

use cf_conductor::engine::SuccessRule;
use cf_conductor::heard;
use cf_conductor::store::attempt::Attempt;
use cf_conductor::store::batch::BatchTask;
use cf_conductor::store::event::Event;
use cf_conductor::supervise::logfile::{LogReader, Logs};
use cf_conductor::workspace::Workspace;
use cf_core::{AttemptId, EventType, Outcome, Phase, TaskId, TaskLabel, Timestamp};

use super::told::Told;
use crate::console::lines::{Lines, bar};
use crate::console::{Console, Look};
use crate::render::{text, time};

/// How much of what an agent said or called last is shown, in characters.
const LINE_CHARS: usize = 200;

/// How many agents have a line of their own, those that started first; the others are in the bar.
const MOST_LINES: usize = 16;

#[derive(Debug)]
pub(super) struct Live {
    console: Console,
    logs: Logs,
    lines: Lines,
    /// How many tasks the batch has.
    total: u64,
    /// In the order in which they started.
    running: Vec<Agent>,
    /// The tasks that have an outcome, and which of them failed.
    ended: BTreeSet<TaskId>,
    failed: BTreeSet<TaskId>,
}

/// One running agent.
#[derive(Debug)]
struct Agent {
    task: TaskId,
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
}

impl Live {
    pub(super) fn new(console: Console, total: u64, workspace: &Workspace) -> Self {
        Self {
            console,
            logs: Logs::of(workspace),
            lines: Lines::default(),
            total,
            running: Vec::new(),
            ended: BTreeSet::new(),
            failed: BTreeSet::new(),
        }
    }

    /// Takes in how the tasks of the batch stand. Events after that change it.
    pub(super) fn stand(&mut self, places: &[BatchTask]) {
        self.total = places.len() as u64;
        let finished = places.iter().filter(|place| place.phase == Phase::Finished);
        for place in finished {
            self.ended.insert(place.task);
            if place.outcome == Some(Outcome::Failed) {
                self.failed.insert(place.task);
            }
        }
    }

    /// Shows an agent that runs already.
    pub(super) fn is_running(&mut self, attempt: &Attempt, label: &TaskLabel) {
        let rule = attempt.format.unwrap_or(SuccessRule::ExitZero);
        let at = attempt.started_at;
        self.show_agent(attempt.task, Some(label), at, Some(attempt.id), rule);
    }

    /// Prints lines of what happened before anything is shown that changes in place.
    pub(super) fn print(&mut self, lines: &str) -> io::Result<()> {
        self.lines.print(lines, &[])
    }

    /// Takes an event in, and prints its line above those that change.
    pub(super) fn event(
        &mut self,
        event: &Event,
        label: Option<&TaskLabel>,
        told: Option<Told>,
    ) -> io::Result<()> {
        self.follow(event, label);
        let picture = self.picture();
        if let Some(told) = told {
            let line = self.console.paint(told.look, told.text).to_string();
            return self.lines.print(&line, &picture);
        }
        self.lines.show(&picture);
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
            | EventType::AttemptEnded
            | EventType::AttemptCleaned => self.ended(task),
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
        if event.data["joined"] == true {
            self.total += 1;
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
    }

    fn started(&mut self, task: TaskId, event: &Event, label: Option<&TaskLabel>) {
        let rule = event
            .text("format")
            .and_then(SuccessRule::from_word)
            .unwrap_or(SuccessRule::ExitZero);
        // One that is taken over has been running for some time.
        let started_at = event.text("started_at").and_then(|at| at.parse().ok());
        let at = started_at.unwrap_or(event.at);
        self.show_agent(task, label, at, event.attempt, rule);
    }

    fn show_agent(
        &mut self,
        task: TaskId,
        label: Option<&TaskLabel>,
        started_at: Timestamp,
        attempt: Option<AttemptId>,
        rule: SuccessRule,
    ) {
        self.ended(task);
        self.running.push(Agent {
            task,
            label: label.map_or_else(
                || task.short(),
                |label| text::line(label.as_str()).into_owned(),
            ),
            since: std::time::Instant::now(),
            before: time::between(started_at, Timestamp::now()),
            log: attempt.map(|attempt| self.logs.of_attempt(attempt)),
            rule,
            log_end: 0,
            last_line: String::new(),
        });
    }

    fn ended(&mut self, task: TaskId) {
        self.running.retain(|agent| agent.task != task);
    }

    /// What is to be seen: the agents, and the bar below them.
    fn picture(&self) -> Vec<String> {
        let agents = self.running.iter().take(MOST_LINES);
        let mut picture: Vec<String> = agents.map(|agent| agent.line(&self.console)).collect();
        let mut counts = format!(
            "{} {} running",
            bar(self.ended.len() as u64, self.total),
            self.running.len()
        );
        if !self.failed.is_empty() {
            let failed = format_args!("{} failed", self.failed.len());
            counts = format!("{counts}, {}", self.console.paint(Look::Bad, failed));
        }
        picture.push(counts);
        picture
    }

    /// Moves the clocks on and looks at the ends of the logs.
    pub(super) fn tick(&mut self) {
        for agent in self.running.iter_mut().take(MOST_LINES) {
            agent.look();
        }
        self.lines.show(&self.picture());
    }

    pub(super) fn say(&mut self, text: &str) -> io::Result<()> {
        let line = format!(
            "{} {}",
            self.console.paint(Look::Warn, "warning:"),
            text::line(text)
        );
        self.lines.print(&line, &self.picture())
    }

    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.running.clear();
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

    fn line(&self, console: &Console) -> String {
        let elapsed = time::elapsed(self.before + self.since.elapsed());
        format!(
            "{}  {elapsed:>6}  {}",
            console.paint(Look::Strong, &self.label),
            console.paint(Look::Dim, &self.last_line)
        )
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
    fn the_bar_counts_tasks_that_have_an_outcome(events: &[(&str, &str)]) -> (usize, usize) {
        let mut live = live();
        for (kind, phase) in events {
            let event = Event::new(kind.parse().unwrap())
                .task(ONE.parse().unwrap())
                .with("phase", *phase);
            live.follow(&event, None);
        }
        (live.ended.len(), live.failed.len())
    }

    #[test]
    fn a_task_that_ended_before_counts_until_it_is_taken_up_again() {
        let mut live = live();
        let other = "00000000-0000-0000-0000-00000000000b";
        let third = "00000000-0000-0000-0000-00000000000c";
        live.stand(&[
            place(ONE, Phase::Finished, Some(Outcome::Failed)),
            place(other, Phase::Finished, Some(Outcome::Skipped)),
            place(third, Phase::Held, None),
        ]);
        assert_eq!((live.ended.len(), live.failed.len()), (2, 1));
        let taken_up = Event::new(EventType::BatchTaskQueued).task(ONE.parse().unwrap());
        live.follow(&taken_up, None);
        assert_eq!((live.ended.len(), live.failed.len()), (1, 0));
    }

    #[test]
    fn the_first_agents_have_lines_above_the_bar() {
        let mut live = live();
        let task = |at: usize| -> TaskId {
            format!("00000000-0000-0000-0000-0000000000{:02x}", 99 - at)
                .parse()
                .unwrap()
        };
        for at in 0..MOST_LINES + 2 {
            let label = TaskLabel::new(task(at), Some(&format!("t{at}").parse().unwrap()));
            let started = Event::new(EventType::BatchTaskStarted).task(task(at));
            live.follow(&started, Some(&label));
        }
        let labels = |live: &Live| -> Vec<String> {
            let picture = live.picture();
            let agents = picture[..picture.len() - 1].iter();
            let first = |line: &String| line.split(' ').next().unwrap().to_owned();
            agents.map(first).collect()
        };
        let expected: Vec<String> = (0..MOST_LINES).map(|at| format!("t{at}")).collect();
        assert_eq!(labels(&live), expected);
        assert_eq!(
            live.picture().last().unwrap(),
            "[                        ] 0/3 18 running"
        );

        // One that ends gives its line to another.
        let failed = Event::new(EventType::BatchTaskFailed).task(task(0));
        live.follow(&failed, None);
        let expected: Vec<String> = (1..=MOST_LINES).map(|at| format!("t{at}")).collect();
        assert_eq!(labels(&live), expected);
        assert_eq!(
            live.picture().last().unwrap(),
            "[========>               ] 1/3 17 running, 1 failed"
        );
    }

    fn place(task: &str, phase: Phase, outcome: Option<Outcome>) -> BatchTask {
        BatchTask {
            task: task.parse().unwrap(),
            position: 0,
            phase,
            outcome,
            reason: None,
            attempts: 1,
            failures: 0,
            not_before: None,
            since_seq: 1,
            take_up_seq: 1,
            started_at: None,
            ended_at: None,
        }
    }

    fn live() -> Live {
        let workspace = Workspace::unmade(std::path::Path::new("/nowhere"));
        Live::new(Console::plain(Some(80)), 3, &workspace)
    }
}
