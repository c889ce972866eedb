//! The report as JSON: the shapes of the other commands, together.

use cf_conductor::workspace::Workspace;
use cf_core::{TaskId, Timestamp};
use serde::Serialize;

use super::super::batch::Listed;
use super::super::json::{AttemptJson, BatchJson, BlockerJson, EventJson};
use super::super::time::as_full;
use super::Report;

/// A report. `docs/json.md` describes it.
#[derive(Debug, Serialize)]
pub(crate) struct ReportJson<'r> {
    #[serde(serialize_with = "as_full")]
    made_at: Timestamp,
    batch: BatchJson<'r>,
    work_ms: u64,
    retries: usize,
    tasks: Vec<TaskJson<'r>>,
    attempts: Vec<SlottedJson<'r>>,
    questions: Vec<BlockerJson<'r>>,
    actions: Vec<EventJson<'r>>,
}

#[derive(Debug, Serialize)]
struct TaskJson<'r> {
    task: TaskId,
    label: &'r str,
    title: &'r str,
    phase: &'static str,
    outcome: Option<&'static str>,
    reason: Option<&'r str>,
    work_ms: u64,
    depends_on: Vec<TaskId>,
}

#[derive(Debug, Serialize)]
struct SlottedJson<'r> {
    slot: usize,
    #[serde(flatten)]
    attempt: AttemptJson<'r>,
}

impl<'r> ReportJson<'r> {
    /// `listed` is [`Report::listed`].
    pub(crate) fn new(report: &'r Report, listed: &'r Listed, workspace: &Workspace) -> Self {
        let label = |task: Option<TaskId>| report.task_of(task).map(|(_, task)| &task.label);
        Self {
            made_at: report.made_at,
            batch: BatchJson::short(listed),
            work_ms: super::time::millis(report.worked()),
            retries: report.retries(),
            tasks: report
                .tasks
                .iter()
                .map(|task| TaskJson {
                    task: task.id,
                    label: task.label.as_str(),
                    title: &task.title,
                    phase: task.phase.as_str(),
                    outcome: task.outcome.map(cf_core::Outcome::as_str),
                    reason: Some(task.reason.as_str()).filter(|reason| !reason.is_empty()),
                    work_ms: super::time::millis(report.worked_on(task)),
                    depends_on: task
                        .depends_on
                        .iter()
                        .map(|on| report.tasks[*on].id)
                        .collect(),
                })
                .collect(),
            attempts: report
                .attempts
                .iter()
                .map(|attempt| SlottedJson {
                    slot: attempt.slot + 1,
                    attempt: AttemptJson::new(
                        &attempt.stored,
                        &report.tasks[attempt.task].label,
                        workspace,
                        report.worktrees.get(&attempt.stored.id),
                    ),
                })
                .collect(),
            questions: report
                .questions
                .iter()
                .map(|question| BlockerJson::new(question, label(question.task)))
                .collect(),
            actions: report.actions.iter().map(EventJson::new).collect(),
        }
    }
}
