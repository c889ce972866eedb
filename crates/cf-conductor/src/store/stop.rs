//! Stopping a single task by hand.

use cf_core::{AttemptId, EventType, TaskId, TaskStatus};

use super::attempt::Attempt;
use super::event::Event;
use super::{Doing as _, Reader, Result, StoreError, Tx};

impl Tx<'_> {
    /// Asks whoever conducts the batch of a task's running agent to stop it, and not to start the task again in that
    /// batch. With `hold` the task is BLOCKED from now on, and held there; without, a task in progress becomes READY.
    /// Returns the attempt that is meant; one that has ended by then is not stopped again.
    ///
    /// What a person or a tracker has made of the task while its agent ran stays: only BLOCKED and READY are written,
    /// and never over DONE or MERGED.
    ///
    /// # Errors
    ///
    /// The caller is an agent, the task has no running agent, or SQLite refuses.
    pub fn request_task_stop(&mut self, id: TaskId, hold: bool) -> Result<Attempt> {
        self.refuse_agent("stop a task")?;
        let task = self.live_task(id)?;
        let mut open = self.reader().open_attempts_of(id)?;
        // What outlived a stop already is a question to a person, and no second stop would end it.
        open.retain(|attempt| attempt.end.is_none());
        let Some(attempt) = open.pop() else {
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
                .attempt(attempt.id)
                .with("hold", hold),
        )?;
        let to = match (hold, task.status) {
            (_, TaskStatus::Done | TaskStatus::Merged) => None,
            (true, _) => Some(TaskStatus::Blocked),
            (false, TaskStatus::InProgress) => Some(TaskStatus::Ready),
            (false, _) => None,
        };
        if let Some(to) = to {
            let by = self.actor.clone();
            self.write_status(&task, to, &by, None)?;
        }
        Ok(attempt)
    }
}

impl Reader<'_> {
    /// Whether somebody asked for this attempt of a task to be stopped.
    pub(crate) fn stop_was_requested(&self, task: TaskId, attempt: AttemptId) -> Result<bool> {
        self.conn
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM event WHERE task = ?1 AND attempt = ?2 AND type = 'TASK_STOP_REQUESTED')",
            )
            .and_then(|mut s| {
                s.query_row((task.to_string(), attempt.to_string()), |row| row.get(0))
            })
            .doing("read the event log")
    }
}
