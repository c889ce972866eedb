//! What reconciliation did to a batch: one line an action, and totals by reason.

use std::fmt;

use cf_conductor::store::event::Event;
use cf_core::{TaskId, TaskLabel, Timestamp};
use serde::Serialize;

use super::{text, time};

/// One applied action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Line {
    #[serde(serialize_with = "time::as_full")]
    at: Timestamp,
    action: String,
    task: Option<TaskId>,
    label: String,
    reason: String,
    source: String,
}

impl Line {
    /// Reads an event that names an action; nothing for any other event.
    pub(crate) fn of(event: &Event, label: Option<&TaskLabel>) -> Option<Self> {
        let action = event.text("action")?;
        Some(Self {
            at: event.at,
            action: action.to_owned(),
            task: event.task,
            label: label.map_or_else(String::new, ToString::to_string),
            reason: event.text("reason").unwrap_or_default().to_owned(),
            source: event.text("source").unwrap_or("local").to_owned(),
        })
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}  {:<11}  {}  {}",
            time::short(self.at),
            self.action,
            text::line(&self.label),
            text::line(&self.reason)
        )
    }
}

/// How often an action was applied for a reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Total {
    action: String,
    reason: String,
    count: u64,
    text: String,
}

impl fmt::Display for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::line(&self.text))
    }
}

/// Counts lines by action and reason, in the order in which they first appear.
pub(crate) fn totals(lines: &[Line]) -> Vec<Total> {
    let mut totals: Vec<Total> = Vec::new();
    for line in lines {
        // The number of comments differs from task to task; what is counted is the tasks.
        let reason = match line.action.as_str() {
            "LOG_CONTEXT" => "new comments",
            _ => line.reason.as_str(),
        };
        match totals
            .iter_mut()
            .find(|t| t.action == line.action && t.reason == reason)
        {
            Some(total) => total.count += 1,
            None => totals.push(Total {
                action: line.action.clone(),
                reason: reason.to_owned(),
                count: 1,
                text: String::new(),
            }),
        }
    }
    for total in &mut totals {
        let tasks = if total.count == 1 { "task" } else { "tasks" };
        let done = match total.action.as_str() {
            "SKIP" => "skipped",
            "KILL" => "killed",
            "REQUEUE" => "requeued",
            "FAIL" => "failed",
            "LOG_CONTEXT" => "given new context",
            other => other,
        };
        total.text = format!("{} {tasks} {done} ({})", total.count, total.reason);
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;
    use cf_core::EventType;

    fn line(action: &str, reason: &str) -> Line {
        let id: TaskId = "00000000-0000-0000-0000-00000000000a".parse().unwrap();
        let event = Event::new(EventType::BatchTaskSkipped)
            .task(id)
            .with("action", action)
            .with("reason", reason);
        Line::of(
            &event,
            Some(&TaskLabel::new(id, Some(&"parser".parse().unwrap()))),
        )
        .unwrap()
    }

    #[test]
    fn a_line_has_time_action_task_and_reason() {
        assert_eq!(
            line("SKIP", "externally completed").to_string(),
            "1970-01-01T00:00:00Z  SKIP         parser  externally completed"
        );
    }

    #[test]
    fn totals_count_by_action_and_reason() {
        let lines = [
            line("SKIP", "externally completed"),
            line("KILL", "externally blocked"),
            line("SKIP", "externally completed"),
            line("SKIP", "externally completed"),
            line("REQUEUE", "blockers resolved"),
            line("REQUEUE", "blockers resolved"),
            line("LOG_CONTEXT", "2 new comments"),
            line("LOG_CONTEXT", "1 new comments"),
        ];
        let texts: Vec<String> = totals(&lines).iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "3 tasks skipped (externally completed)",
                "1 task killed (externally blocked)",
                "2 tasks requeued (blockers resolved)",
                "2 tasks given new context (new comments)",
            ]
        );
    }

    #[test]
    fn an_event_without_an_action_is_no_line() {
        let event = Event::new(EventType::BatchTaskCompleted);
        assert!(Line::of(&event, None).is_none());
    }
}
