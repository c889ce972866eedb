//! Stopping a single task by hand.

use cf_core::{AttemptId, EventType, TaskId};

use super::attempt::Attempt;
use super::event::{Event, EventFilter};
use super::{Reader, Result, StoreError, Tx};

impl Tx<'_> {
    /// Asks whoever conducts the batch of a task's running agent to stop it, and not to start the task again in that
    /// batch. Returns the attempt that is meant; one that has ended by then is not stopped again.
    ///
    /// # Errors
    ///
    /// The caller is an agent, the task has no running agent, or SQLite refuses.
    pub fn request_task_stop(&mut self, id: TaskId) -> Result<Attempt> {
        self.refuse_agent("stop a task")?;
        let task = self.live_task(id)?;
        let Some(attempt) = self.reader().open_attempts_of(id)?.pop() else {
            return Err(StoreError::Refused {
                what: format!("task {} has no running agent", task.label()),
                hint: Some(format!(
                    "`cf tasks set status {} backlog` keeps it from being started",
                    task.label()
                )),
            });
        };
        self.append(
            Event::new(EventType::TaskStopRequested)
                .task(id)
                .batch(attempt.batch)
                .attempt(attempt.id),
        )?;
        Ok(attempt)
    }
}

impl Reader<'_> {
    /// Whether somebody asked for this attempt of a task to be stopped.
    pub(crate) fn stop_was_requested(&self, task: TaskId, attempt: AttemptId) -> Result<bool> {
        let mut requested = false;
        self.events(
            &EventFilter {
                task: Some(task),
                ..EventFilter::default()
            },
            |event| {
                requested |=
                    event.kind == EventType::TaskStopRequested && event.attempt == Some(attempt);
                Ok(())
            },
        )?;
        Ok(requested)
    }
}
