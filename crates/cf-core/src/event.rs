//! The kinds of event in the append-only log.

use crate::words;

words! {
    /// What happened. The log holds one of these words per entry; the details stand in the entry's data.
    pub enum EventType ("event type") {
        /// The workspace was created.
        WorkspaceCreated = "WORKSPACE_CREATED",
        /// A person removed old events that nothing rests on any more; data: `before`, `older_than_ms`, `keep_last`.
        EventsPruned = "EVENTS_PRUNED",
        /// A task was created.
        TaskCreated = "TASK_CREATED",
        /// A task's title, description, commands or settings changed.
        TaskEdited = "TASK_EDITED",
        /// A task's status changed; data: `from`, `to`, `version`.
        TaskStatusChanged = "TASK_STATUS_CHANGED",
        /// A task was deleted.
        TaskDeleted = "TASK_DELETED",
        /// A dependency was added or removed; data: `on`, `added`.
        TaskDependencyChanged = "TASK_DEPENDENCY_CHANGED",
        /// Somebody asked for this task's agent alone to be stopped; the attempt is the one that is meant; data:
        /// `hold`.
        TaskStopRequested = "TASK_STOP_REQUESTED",
        /// A link was added.
        TaskLinked = "TASK_LINKED",
        /// A link was removed.
        TaskUnlinked = "TASK_UNLINKED",
        /// A question was asked.
        BlockerAsked = "BLOCKER_ASKED",
        /// A question was answered.
        BlockerAnswered = "BLOCKER_ANSWERED",
        /// A question needs no answer any more.
        BlockerResolved = "BLOCKER_RESOLVED",
        /// A batch began; data: its settings.
        BatchStarted = "BATCH_STARTED",
        /// A batch that had ended, or whose conductor was gone, goes on.
        BatchResumed = "BATCH_RESUMED",
        /// Somebody asked the batch to stop; data: `force`.
        BatchStopRequested = "BATCH_STOP_REQUESTED",
        /// A task of the batch was taken up.
        BatchTaskQueued = "BATCH_TASK_QUEUED",
        /// A task's agent may start; data: `generation`, the number of the attempt among all of the task's.
        BatchTaskStarted = "BATCH_TASK_STARTED",
        /// A task's agent is to be stopped, and why. The intent of a stop.
        BatchTaskStopping = "BATCH_TASK_STOPPING",
        /// An attempt failed and another will follow; data: `due`, `failures`.
        BatchTaskRetrying = "BATCH_TASK_RETRYING",
        /// A task's agent succeeded.
        BatchTaskCompleted = "BATCH_TASK_COMPLETED",
        /// A task failed for good.
        BatchTaskFailed = "BATCH_TASK_FAILED",
        /// A task is held, or ended the batch blocked.
        BatchTaskBlocked = "BATCH_TASK_BLOCKED",
        /// A task was skipped.
        BatchTaskSkipped = "BATCH_TASK_SKIPPED",
        /// A task was stopped, or never started because the batch was.
        BatchTaskCancelled = "BATCH_TASK_CANCELLED",
        /// A task's agent was stopped because of what a source said.
        BatchTaskKilled = "BATCH_TASK_KILLED",
        /// A held or finished task went back into the queue.
        BatchTaskRequeued = "BATCH_TASK_REQUEUED",
        /// New comments were stored for a task.
        BatchTaskContext = "BATCH_TASK_CONTEXT",
        /// A task that was skipped for a dependency waits for it again.
        BatchTaskWaiting = "BATCH_TASK_WAITING",
        /// A dependency of a task that runs or ran was reopened.
        BatchTaskDependencyReopened = "BATCH_TASK_DEPENDENCY_REOPENED",
        /// The batch ended with every task done or dropped.
        BatchCompleted = "BATCH_COMPLETED",
        /// The batch ended with some tasks not done.
        BatchPartial = "BATCH_PARTIAL",
        /// The batch ended with bad tasks and none done.
        BatchFailed = "BATCH_FAILED",
        /// The batch was stopped.
        BatchCancelled = "BATCH_CANCELLED",
        /// An attempt was stored with its supervisor's identity; its agent may start.
        AttemptStarted = "ATTEMPT_STARTED",
        /// An attempt ended; data: `end`, `success`, `reason`, `ended_at`, and where they apply `signals`,
        /// `left_behind`.
        AttemptEnded = "ATTEMPT_ENDED",
        /// An attempt's agent is to be verified.
        AttemptVerifying = "ATTEMPT_VERIFYING",
        /// An attempt from a conductor that died goes on under this one; data: `started_at`.
        AttemptAdopted = "ATTEMPT_ADOPTED",
        /// An agent reported the status of its own task; data: `status`.
        AttemptReported = "ATTEMPT_REPORTED",
        /// A result came too late, or from an attempt that is not the current one; kept, not applied.
        AttemptStaleResult = "ATTEMPT_STALE_RESULT",
        /// The work of an attempt was committed on its task's branch; data: `branch`, `commit`.
        AttemptCommitted = "ATTEMPT_COMMITTED",
        /// What an attempt left in its worktree is kept under a ref; data: `ref`.
        AttemptRescued = "ATTEMPT_RESCUED",
        /// Survivors of an unclean stop are gone.
        AttemptCleaned = "ATTEMPT_CLEANED",
        /// A source could not be read; said once.
        SourceUnavailable = "SOURCE_UNAVAILABLE",
        /// A source that could not be read answers again.
        SourceAvailable = "SOURCE_AVAILABLE",
        /// Something a source says that nothing acts on, such as a link that is gone.
        SourceNotice = "SOURCE_NOTICE",
    }
}

/// A word in the log that this version does not know; readers show it as it stands.
pub type UnknownEventType = crate::UnknownWord;
