//! What an event is in words: `started parser (attempt 1)`, `[Reconciler] Skipping parser: externally completed`.

use std::time::Duration;

use cf_conductor::store::StoreError;
use cf_conductor::store::attempt::Attempt;
use cf_conductor::store::event::Event;
use cf_conductor::store::ids::ById;
use cf_conductor::store::rows::EventRow;
use cf_core::{BatchId, EventType, Phase, TaskId, TaskLabel, Timestamp};

use super::details::Details;
use crate::console::Look;
use crate::render::{text, time, usage};

/// A line about an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) text: String,
    pub(super) look: Look,
}

/// Turns events into lines, and remembers what a line needs of earlier ones.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Teller {
    /// When each task's newest attempt started.
    started: ById<Timestamp>,
    /// The last thing that reconciliation was said to do with a task: a stop is stored as intent and as outcome, and
    /// is told once.
    acted: ById<String>,
    /// What each task's newest attempt said last and used, where its end tells.
    words: ById<Words>,
}

/// How much of what an agent said last stands behind the word of its end.
const SAID_CHARS: usize = 100;

#[derive(Debug, Default, PartialEq, Eq)]
struct Words {
    said: Option<String>,
    used: Option<String>,
    /// When it ended, which may have been stored much later.
    ended_at: Option<Timestamp>,
}

/// An event as far as words tell of it.
struct Heard<'e> {
    at: Timestamp,
    /// None for a word that a newer program has written.
    kind: Option<EventType>,
    task: Option<TaskId>,
    batch: Option<BatchId>,
    details: Details<'e>,
}

/// Whether an event may have a line, or is needed for a later one, as far as can be seen without reading its details.
pub(super) fn is_told(kind: &str, data: &str) -> bool {
    let is_named = |name: &str| data.contains(name);
    match kind.parse() {
        Ok(
            EventType::AttemptEnded
            | EventType::AttemptAdopted
            | EventType::AttemptVerifying
            | EventType::AttemptCommitted
            | EventType::AttemptRescued
            | EventType::BatchStarted
            | EventType::BatchResumed
            | EventType::BatchStopRequested
            | EventType::BatchCompleted
            | EventType::BatchPartial
            | EventType::BatchFailed
            | EventType::BatchCancelled
            | EventType::BatchTaskStarted
            | EventType::BatchTaskCompleted
            | EventType::BatchTaskFailed
            | EventType::BatchTaskSkipped
            | EventType::BatchTaskBlocked
            | EventType::BatchTaskCancelled
            | EventType::BatchTaskStopping
            | EventType::BatchTaskKilled
            | EventType::BatchTaskRequeued
            | EventType::BatchTaskWaiting
            | EventType::BatchTaskDependencyReopened
            | EventType::BatchTaskRetrying
            | EventType::SourceUnavailable
            | EventType::SourceAvailable
            | EventType::SourceNotice,
        ) => true,
        Ok(EventType::BatchTaskQueued) if is_named("\"joined\"") => true,
        _ => is_named("\"action\"") || is_named("\"intent\""),
    }
}

impl Teller {
    /// Takes in an agent that runs already; its start may have been told or not.
    pub(super) fn is_running(&mut self, attempt: &Attempt) {
        self.started
            .entry(attempt.task)
            .or_insert(attempt.started_at);
    }

    /// The line of an event; nothing for events that only programs care about.
    pub(super) fn tell(&mut self, event: &Event, label: Option<&TaskLabel>) -> Option<Told> {
        let heard = Heard {
            at: event.at,
            kind: event.kind.known(),
            task: event.task,
            batch: event.batch,
            details: Details::of(event),
        };
        self.line(&heard, label)
    }

    /// The same of an event as it is stored, if it [`is_told`]. `label` returns that of its task.
    ///
    /// # Errors
    ///
    /// The event cannot be read, or `label` refuses.
    pub(super) fn tell_row<'l>(
        &mut self,
        row: &EventRow<'_>,
        label: impl FnOnce(TaskId) -> Result<&'l TaskLabel, StoreError>,
    ) -> Result<Option<Told>, StoreError> {
        let task = row.task_id()?;
        let label = task.map(label).transpose()?;
        let Some(details) = Details::read(row.data) else {
            return Ok(self.tell(&row.event()?, label));
        };
        let heard = Heard {
            at: row.at,
            kind: row.kind.parse().ok(),
            task,
            batch: row.batch_id()?,
            details,
        };
        Ok(self.line(&heard, label))
    }

    fn line(&mut self, event: &Heard<'_>, label: Option<&TaskLabel>) -> Option<Told> {
        let name = label.map_or("", TaskLabel::as_str);
        let name = text::line(name);
        let told = &event.details;
        if let Some(action) = told.action().or_else(|| told.intent()) {
            return self.reconciled(event, action, &name);
        }
        let line = |look, text| Some(Told { text, look });
        let because = |verb: &str| match told.reason() {
            Some(reason) if !reason.is_empty() => format!("{verb} {name}: {}", text::line(reason)),
            _ => format!("{verb} {name}"),
        };
        match event.kind? {
            EventType::BatchTaskStarted => {
                if let Some(task) = event.task {
                    self.started.insert(task, event.at);
                    self.acted.remove(&task);
                    self.words.remove(&task);
                }
                line(
                    Look::Busy,
                    match told.generation {
                        Some(generation) if told.resumes().is_some() => {
                            format!("started {name} (attempt {generation}, in its earlier session)")
                        }
                        Some(generation) => format!("started {name} (attempt {generation})"),
                        None => format!("started {name}"),
                    },
                )
            }
            EventType::AttemptEnded => {
                if let Some(task) = event.task {
                    self.words.insert(task, words(told));
                }
                None
            }
            EventType::BatchTaskQueued if told.has_joined() => {
                line(Look::Plain, format!("joined {name}"))
            }
            EventType::BatchTaskCompleted => {
                let took = self.took(event);
                let words = event.task.and_then(|task| self.words.remove(&task));
                let Words { said, used, .. } = words.unwrap_or_default();
                let used = used.map_or_else(String::new, |used| format!(" ({used})"));
                let said = said.map_or_else(String::new, |said| format!(": {said}"));
                line(Look::Good, format!("completed {name}{took}{used}{said}"))
            }
            EventType::BatchTaskFailed => {
                let took = self.took(event);
                let reason = told
                    .reason()
                    .map_or_else(String::new, |r| format!(": {}", text::line(r)));
                line(Look::Bad, format!("failed {name}{took}{reason}"))
            }
            EventType::BatchTaskSkipped => line(Look::Dim, because("skipped")),
            // That it is held was told when it began.
            EventType::BatchTaskBlocked
                if told.phase_before() == Some(Phase::Held.as_str())
                    && told.phase() == Some(Phase::Finished.as_str()) =>
            {
                None
            }
            EventType::BatchTaskBlocked => line(Look::Warn, because("blocked")),
            EventType::BatchTaskCancelled => line(Look::Dim, because("cancelled")),
            EventType::BatchTaskStopping => line(Look::Warn, because("stopping")),
            EventType::BatchTaskKilled => line(Look::Warn, because("stopped")),
            EventType::BatchTaskRequeued => line(Look::Busy, because("requeued")),
            EventType::BatchTaskWaiting => line(Look::Plain, because("waiting again")),
            EventType::BatchTaskDependencyReopened => line(
                Look::Warn,
                format!("a dependency of {name} was reopened after it started"),
            ),
            EventType::BatchTaskRetrying => {
                let due = told.due().and_then(|due| due.parse::<Timestamp>().ok());
                let delay = due.map_or(Duration::ZERO, |due| time::between(event.at, due));
                line(
                    Look::Warn,
                    format!("{} (again in {})", because("failed"), time::elapsed(delay)),
                )
            }
            EventType::BatchStarted => line(Look::Plain, batch(event, "started")),
            EventType::BatchResumed => {
                // What was done to a task before may be done to it again.
                self.acted.clear();
                line(Look::Plain, batch(event, "resumed"))
            }
            EventType::BatchStopRequested => line(Look::Warn, batch(event, "is stopping")),
            EventType::BatchCompleted => line(Look::Good, batch(event, "COMPLETED")),
            EventType::BatchPartial => line(Look::Warn, batch(event, "PARTIAL")),
            EventType::BatchFailed => line(Look::Bad, batch(event, "FAILED")),
            EventType::BatchCancelled => line(Look::Dim, batch(event, "CANCELLED")),
            EventType::AttemptAdopted => {
                let started = told.started_at().and_then(|at| at.parse().ok());
                if let (Some(task), Some(started)) = (event.task, started) {
                    self.started.insert(task, started);
                }
                line(Look::Busy, format!("adopted {name}"))
            }
            EventType::AttemptVerifying => line(Look::Plain, format!("verifying {name}")),
            EventType::AttemptCommitted => {
                let branch = told.branch().unwrap_or_default();
                line(
                    Look::Plain,
                    format!("committed the work of {name} on {}", text::line(branch)),
                )
            }
            EventType::AttemptRescued => {
                let kept = told.r#ref().unwrap_or_default();
                line(
                    Look::Warn,
                    format!("kept what {name} left as {}", text::line(kept)),
                )
            }
            EventType::SourceUnavailable | EventType::SourceAvailable | EventType::SourceNotice => {
                let said = told.text().or_else(|| told.reason()).unwrap_or_default();
                let source = told.source().unwrap_or("a source");
                if said.is_empty() {
                    return None;
                }
                line(
                    Look::Warn,
                    format!("[{}] {}", text::line(source), text::line(said)),
                )
            }
            _ => None,
        }
    }

    fn reconciled(&mut self, event: &Heard<'_>, action: &str, name: &str) -> Option<Told> {
        let reason = event.details.reason().unwrap_or_default();
        let (verb, look) = match action {
            "SKIP" => ("Skipping", Look::Dim),
            "KILL" => ("Killing", Look::Warn),
            "REQUEUE" => ("Re-queueing", Look::Busy),
            "FAIL" => ("Failing", Look::Bad),
            "LOG_CONTEXT" => ("New context for", Look::Plain),
            _ => return None,
        };
        let mut told = format!("[Reconciler] {verb} {name}: {}", text::line(reason));
        if reason == "pull request closed without merge"
            && action == "FAIL"
            && let Some(url) = event.details.url()
        {
            let url = text::line(url);
            told = format!(
                "{told}\n  to run it all the same: cf tasks unlink {name} {url} && cf work start {name}"
            );
        }
        // New comments are no intent, and each time there are others.
        if let Some(task) = event.task
            && action != "LOG_CONTEXT"
        {
            if self.acted.get(&task) == Some(&told) {
                return None;
            }
            self.acted.insert(task, told.clone());
        }
        Some(Told { text: told, look })
    }

    /// How long the attempt took that an event ends.
    fn took(&self, event: &Heard<'_>) -> String {
        let Some((task, started)) = event
            .task
            .and_then(|task| Some((task, self.started.get(&task)?)))
        else {
            return String::new();
        };
        let ended_at = self.words.get(&task).and_then(|words| words.ended_at);
        let took = time::between(*started, ended_at.unwrap_or(event.at));
        format!(" in {}", time::elapsed(took))
    }
}

fn words(told: &Details<'_>) -> Words {
    let said = told.last_said().map(text::line);
    let said = said.filter(|said| !said.is_empty());
    Words {
        said: said.map(|said| text::shortened(&said, SAID_CHARS).into_owned()),
        used: usage::words(told.tokens(), told.cost_micro_usd),
        ended_at: told.ended_at().and_then(|at| at.parse().ok()),
    }
}

fn batch(event: &Heard<'_>, what: &str) -> String {
    event.batch.map_or_else(
        || format!("batch {what}"),
        |id| format!("batch {} {what}", id.short()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    fn event(kind: EventType, at_ms: i64, data: &[(&'static str, &str)]) -> Event {
        let mut event =
            Event::new(kind).task("00000000-0000-0000-0000-00000000000a".parse().unwrap());
        event.at = Timestamp::from_millisecond(at_ms).unwrap();
        for (name, value) in data {
            event = event.with(*name, *value);
        }
        event
    }

    fn tell(events: &[Event]) -> Vec<String> {
        let label = TaskLabel::new(events[0].task.unwrap(), Some(&"parser".parse().unwrap()));
        let mut teller = Teller::default();
        events
            .iter()
            .filter_map(|event| teller.tell(event, Some(&label)))
            .map(|told| told.text)
            .collect()
    }

    #[test]
    fn an_attempt_is_told_with_its_time() {
        let started = event(EventType::BatchTaskStarted, 1_000, &[]).with("generation", 2);
        let ended = event(EventType::BatchTaskCompleted, 2_250, &[]);
        assert_eq!(
            tell(&[started, ended]),
            ["started parser (attempt 2)", "completed parser in 1.2s"]
        );
    }

    #[test]
    fn an_event_is_told_alike_whether_it_was_read_as_a_whole_or_as_it_is_stored() {
        let task = "00000000-0000-0000-0000-00000000000a";
        let details = [
            "{}",
            r#"{"text":"x","reason":"y","source":"z","ref":"r","branch":"b","generation":1,"phase":"held"}"#,
            r#"{"joined":true}"#,
            r#"{"action":"SKIP","reason":"externally completed"}"#,
            r#"{"intent":"KILL","reason":"externally blocked"}"#,
            r#"{"action":"FAIL","reason":"pull request closed without merge","evidence":{"url":"https:\/\/h/o/r/pull/1"}}"#,
            r#"{"action":"FAIL","reason":"pull request closed without merge","evidence":"none","text":7}"#,
            r#"{"last_said":"a \"word\"","tokens":{"input":5,"output":7,"cached":1},"cost_micro_usd":420000}"#,
            r#"{"last_said":null,"tokens":{"input":5},"cost_micro_usd":-1,"resumes":"s","generation":2.0}"#,
            r#"{"reason":"first","reason":"last","joined":"true","due":"1970-01-01T00:00:02.5Z"}"#,
            r#"{"action":"FAIL","reason":"pull request closed without merge","evidence":["https://h/o/r/pull/1"]}"#,
            r#"{"last_said":"x","tokens":[5,7],"evidence":null}"#,
            r#"{"last_said":"x","tokens":null}"#,
            r#"{"format":"exit-zero","started_at":"1970-01-01T00:00:02.5Z"}"#,
            r#"{"end":"exited","ended_at":"1970-01-01T00:00:02.5Z"}"#,
            r#"{"phase":"finished","phase_before":"held","branch":"b\u0031","ref":"r\u001b[2Jx"}"#,
        ];
        for kind in EventType::ALL {
            for data in details {
                let row = EventRow {
                    seq: 1,
                    at: Timestamp::UNIX_EPOCH,
                    kind: kind.as_str(),
                    task: Some(task),
                    batch: None,
                    attempt: None,
                    actor: "cli",
                    data,
                };
                let label = TaskLabel::new(task.parse().unwrap(), None);
                let mut teller = Teller::default();
                let told = teller.tell(&row.event().unwrap(), Some(&label));
                let mut reader = Teller::default();
                let read = reader.tell_row(&row, |_| Ok(&label)).unwrap();
                assert_eq!(read, told, "{kind}: {data}");
                assert_eq!(reader, teller, "{kind}: {data}");
                assert!(
                    is_told(row.kind, data) || (told.is_none() && teller == Teller::default()),
                    "{kind}: {data}"
                );
            }
        }
    }

    #[test]
    fn what_an_agent_said_and_used_is_told_at_its_end() {
        let said = event(
            EventType::AttemptEnded,
            0,
            &[("last_said", "All 12 tests pass.\n\u{1b}[2J")],
        )
        .with(
            "tokens",
            serde_json::json!({"input": 12_000, "cached": 0, "output": 345}),
        )
        .with("cost_micro_usd", 420_000);
        let ended = event(EventType::BatchTaskCompleted, 1, &[]);
        assert_eq!(
            tell(&[said, ended]),
            ["completed parser (12.3k tokens, $0.42): All 12 tests pass."]
        );
    }

    #[test_case("SKIP", "externally completed" => "[Reconciler] Skipping parser: externally completed")]
    #[test_case("KILL", "externally blocked" => "[Reconciler] Killing parser: externally blocked")]
    #[test_case("REQUEUE", "blockers resolved" => "[Reconciler] Re-queueing parser: blockers resolved")]
    #[test_case("FAIL", "pull request closed without merge" => "[Reconciler] Failing parser: pull request closed without merge")]
    #[test_case("LOG_CONTEXT", "2 new comments" => "[Reconciler] New context for parser: 2 new comments")]
    fn an_action_is_told(action: &str, reason: &str) -> String {
        tell(&[event(
            EventType::BatchTaskSkipped,
            0,
            &[("action", action), ("reason", reason)],
        )])
        .remove(0)
    }

    #[test]
    fn intent_and_outcome_of_an_action_are_told_once() {
        let data = [("action", "SKIP"), ("reason", "externally completed")];
        let told = tell(&[
            event(
                EventType::BatchTaskStopping,
                0,
                &[("intent", "SKIP"), ("reason", "externally completed")],
            ),
            event(EventType::BatchTaskSkipped, 1, &data),
        ]);
        assert_eq!(told.len(), 1);
    }

    #[test]
    fn a_time_is_that_of_the_attempt_however_late_its_end_was_stored() {
        let adopted = event(
            EventType::AttemptAdopted,
            9_000,
            &[("started_at", "1970-01-01T00:00:01Z")],
        );
        let ended = event(
            EventType::AttemptEnded,
            9_400,
            &[("ended_at", "1970-01-01T00:00:03.5Z")],
        );
        let completed = event(EventType::BatchTaskCompleted, 9_500, &[]);
        let failed = event(EventType::BatchTaskFailed, 9_500, &[]);
        assert_eq!(
            tell(&[adopted.clone(), ended.clone(), completed]),
            ["adopted parser", "completed parser in 2.5s"]
        );
        assert_eq!(
            tell(&[adopted, ended, failed]),
            ["adopted parser", "failed parser in 2.5s"]
        );
    }

    #[test]
    fn what_is_done_once_more_is_told_once_more() {
        let skipped = event(
            EventType::BatchTaskSkipped,
            0,
            &[("action", "SKIP"), ("reason", "externally completed")],
        );
        let resumed = Event::new(EventType::BatchResumed);
        let told = tell(&[skipped.clone(), resumed, skipped]);
        assert_eq!(told.len(), 3, "{told:?}");
        let comments = event(
            EventType::BatchTaskContext,
            0,
            &[("action", "LOG_CONTEXT"), ("reason", "1 new comment")],
        );
        assert_eq!(tell(&[comments.clone(), comments]).len(), 2);
    }

    #[test]
    fn a_retry_says_when() {
        let data = [("due", "1970-01-01T00:00:02.5Z"), ("reason", "exit code 3")];
        let told = tell(&[event(EventType::BatchTaskRetrying, 1_000, &data)]);
        assert_eq!(told, ["failed parser: exit code 3 (again in 1.5s)"]);
    }

    #[test]
    fn text_from_outside_is_cleaned() {
        let told = tell(&[event(
            EventType::BatchTaskFailed,
            0,
            &[("reason", "exit code 1:\n\u{1b}[31mboom")],
        )]);
        assert_eq!(told, ["failed parser: exit code 1: boom"]);
    }
}
