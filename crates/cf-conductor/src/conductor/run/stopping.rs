//! Signals to this process, and what becomes of the agents when the batch cannot go on.

use std::collections::HashMap;
use std::time::Duration;

use cf_core::{AttemptId, TaskId};

use super::super::{ConductorError, Notice};
use super::Conductor;
use crate::executor::Executor;

/// How long, beyond the grace, the end of agents is waited for when the batch cannot go on.
const ABANDON: Duration = Duration::from_secs(10);

impl Conductor<'_> {
    /// The first signal stops the batch with the grace; a further one ends its agents at once.
    pub(super) fn take_signals(&mut self, count: u32) -> Result<(), ConductorError> {
        for _ in 0..count {
            self.signals_seen += 1;
            self.core.signalled = true;
            if self.signals_seen == 1 {
                self.observer.notice(&Notice::Stopping);
                self.stop_to_store = true;
            } else {
                self.tell_all_to_end(Duration::ZERO)?;
            }
            if self.signals_seen > 2 {
                // Whatever git is at stays in the worktrees.
                self.trees.cancel_all();
            }
        }
        Ok(())
    }

    pub(super) fn tell_all_to_end(&mut self, grace: Duration) -> Result<(), ConductorError> {
        let live: Vec<_> = self
            .core
            .running
            .values()
            .map(|r| r.identity.supervisor)
            .collect();
        for supervisor in live {
            self.executor.stop(supervisor, grace)?;
        }
        let starting: Vec<_> = self.core.by_attempt.keys().copied().collect();
        for attempt in starting {
            self.trees.cancel(attempt);
        }
        Ok(())
    }

    /// Stops what runs because the batch cannot go on; nothing can be stored any more. Returns what could not be
    /// stopped in time.
    pub(super) async fn abandon(&mut self) -> Vec<(TaskId, AttemptId)> {
        let grace = self.core.settings.kill_grace;
        self.trees.cancel_all();
        let mut live: HashMap<AttemptId, TaskId> = HashMap::new();
        for running in self.core.running.values() {
            live.insert(running.attempt, running.task);
            let _ = self.executor.stop(running.identity.supervisor, grace);
        }
        // Of an attempt whose worktree is made, or whose work is kept, nothing runs.
        let runs: Vec<AttemptId> = self
            .executor
            .running()
            .iter()
            .map(|running| running.attempt)
            .collect();
        live.retain(|attempt, _| runs.contains(attempt));
        let deadline = tokio::time::Instant::now() + grace + ABANDON;
        while !live.is_empty() {
            match tokio::time::timeout_at(deadline, self.executor.note()).await {
                Ok(note) => live.remove(&note.attempt),
                Err(_) => break,
            };
        }
        live.into_iter()
            .map(|(attempt, task)| (task, attempt))
            .collect()
    }
}
