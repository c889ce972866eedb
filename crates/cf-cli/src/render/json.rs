//! The JSON shapes. They are documented in `docs/json.md` and stay as they are: a field may be added, never changed.

pub(crate) mod escape;
pub(crate) mod rows;

use std::collections::{BTreeMap, HashMap};

use cf_conductor::github::LinkView;
use cf_conductor::settings::Settings;
use cf_conductor::store::attempt::Attempt;
use cf_conductor::store::batch::BatchTaskView;
use cf_conductor::store::blocker::Blocker;
use cf_conductor::store::details::Details;
use cf_conductor::store::event::Event;
use cf_conductor::store::follow::StoredComment;
use cf_conductor::store::task::Task;
use cf_conductor::store::worktree::Worktree;
use cf_conductor::workspace::Workspace;
use cf_core::{
    Asker, AttemptEnd, AttemptId, BatchId, BatchStatus, BlockerId, BlockerStatus, Ending,
    Isolation, Link, LinkKind, OnFailure, Outcome, Phase, Strategy, TaskId, TaskLabel, TaskStatus,
    Timestamp,
};
use serde::{Serialize, Serializer};

use super::batch::{Counts, Listed};
use super::link::TrackerJson;
use super::reconciliation::{Line, Total};
use super::time::{as_full, as_full_opt, millis};

/// A task.
#[derive(Debug, Serialize)]
pub(crate) struct TaskJson<'t> {
    id: TaskId,
    key: Option<&'t str>,
    title: &'t str,
    description: &'t str,
    run: Option<&'t str>,
    verify: Option<&'t str>,
    engine: Option<&'t str>,
    model: Option<&'t str>,
    timeout_ms: Option<u64>,
    env: &'t BTreeMap<String, String>,
    priority: i64,
    status: TaskStatus,
    version: u64,
    depends_on: &'t [TaskId],
    links: Vec<LinkJson<'t>>,
    open_blockers: u64,
    #[serde(serialize_with = "as_full")]
    created_at: Timestamp,
    #[serde(serialize_with = "as_full")]
    updated_at: Timestamp,
}

#[derive(Debug, Serialize)]
struct LinkJson<'t> {
    kind: LinkKind,
    host: &'t str,
    repo: String,
    number: u64,
    url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tracker: Option<TrackerJson>,
}

impl<'t> LinkJson<'t> {
    fn new(link: &'t Link) -> Self {
        Self {
            kind: link.kind,
            host: &link.host,
            repo: link.repo.to_string(),
            number: link.number,
            url: link.url(),
            tracker: None,
        }
    }
}

impl<'t> TaskJson<'t> {
    pub(crate) fn new(
        task: &'t Task,
        depends_on: &'t [TaskId],
        links: &'t [Link],
        open_blockers: u64,
    ) -> Self {
        Self {
            id: task.id,
            key: task.key.as_ref().map(cf_core::TaskKey::as_str),
            title: &task.title,
            description: &task.description,
            run: task.run.as_deref(),
            verify: task.verify.as_deref(),
            engine: task.engine.as_deref(),
            model: task.model.as_deref(),
            timeout_ms: task.timeout.map(millis),
            env: &task.env,
            priority: task.priority,
            status: task.status,
            version: task.version,
            depends_on,
            links: links.iter().map(LinkJson::new).collect(),
            open_blockers,
            created_at: task.created_at,
            updated_at: task.updated_at,
        }
    }
}

impl TaskJson<'_> {
    /// The same with what is known about its links. That is read a moment later, when some of them may be gone.
    pub(crate) fn with_trackers(mut self, views: &[LinkView]) -> Self {
        for link in &mut self.links {
            let own = views.iter().find(|view| view.link.url() == link.url);
            link.tracker = own.map(TrackerJson::new);
        }
        self
    }
}

/// A task with everything around it.
#[derive(Debug, Serialize)]
pub(crate) struct FullTaskJson<'t> {
    #[serde(flatten)]
    pub(crate) task: TaskJson<'t>,
    pub(crate) blockers: Vec<BlockerJson<'t>>,
    pub(crate) attempts: Vec<AttemptJson<'t>>,
    pub(crate) comments: Vec<CommentJson<'t>>,
    pub(crate) events: Vec<EventJson<'t>>,
}

/// A comment on a task's issue or pull request.
#[derive(Debug, Serialize)]
pub(crate) struct CommentJson<'c> {
    author: &'c str,
    trusted: bool,
    #[serde(serialize_with = "as_full")]
    at: Timestamp,
    body: &'c str,
    url: String,
    news: bool,
}

impl<'c> CommentJson<'c> {
    pub(crate) fn new(comment: &'c StoredComment) -> Self {
        Self {
            author: &comment.author,
            trusted: comment.trusted,
            at: comment.at,
            body: &comment.body,
            url: comment.link.url(),
            news: comment.news,
        }
    }
}

/// A blocker.
#[derive(Debug, Serialize)]
pub(crate) struct BlockerJson<'b> {
    id: BlockerId,
    task: Option<TaskId>,
    task_label: Option<String>,
    question: &'b str,
    answer: Option<&'b str>,
    status: BlockerStatus,
    asked_by: Asker,
    #[serde(serialize_with = "as_full")]
    asked_at: Timestamp,
    #[serde(serialize_with = "as_full_opt")]
    answered_at: Option<Timestamp>,
}

impl<'b> BlockerJson<'b> {
    pub(crate) fn new(blocker: &'b Blocker, label: Option<&TaskLabel>) -> Self {
        Self {
            id: blocker.id,
            task: blocker.task,
            task_label: label.map(ToString::to_string),
            question: &blocker.question,
            answer: blocker.answer.as_deref(),
            status: blocker.status,
            asked_by: blocker.asked_by,
            asked_at: blocker.asked_at,
            answered_at: blocker.answered_at,
        }
    }
}

/// An attempt.
#[derive(Debug, Serialize)]
pub(crate) struct AttemptJson<'a> {
    id: AttemptId,
    task: TaskId,
    task_label: String,
    batch: BatchId,
    generation: u32,
    engine: &'a str,
    state: &'static str,
    end: Option<AttemptEnd>,
    exit_code: Option<i32>,
    signal: Option<i32>,
    success: Option<bool>,
    reason: Option<&'a str>,
    last_said: Option<&'a str>,
    session: Option<&'a str>,
    resumes: Option<&'a str>,
    tokens: Option<TokensJson>,
    cost_micro_usd: Option<u64>,
    left_behind: u32,
    output_lost: u64,
    log: String,
    #[serde(serialize_with = "as_full")]
    started_at: Timestamp,
    #[serde(serialize_with = "as_full_opt")]
    ended_at: Option<Timestamp>,
    supervisor_pid: Option<i32>,
    worktree: Option<WorktreeJson<'a>>,
}

/// The worktree of an attempt.
#[derive(Debug, Serialize)]
struct WorktreeJson<'w> {
    path: String,
    removed: bool,
    branch: &'w str,
    base: Option<&'w str>,
    commit: Option<&'w str>,
    rescue: Option<&'w str>,
}

#[derive(Debug, Serialize)]
struct TokensJson {
    total: u64,
    input: u64,
    cached: u64,
    output: u64,
}

impl<'a> AttemptJson<'a> {
    /// Its output is kept below the workspace's folder, and so is its worktree, if it has one.
    pub(crate) fn new(
        attempt: &'a Attempt,
        label: &TaskLabel,
        workspace: &Workspace,
        worktree: Option<&'a Worktree>,
    ) -> Self {
        let (exit_code, signal) = match attempt.ending {
            Some(Ending::Code(code)) => (Some(code), None),
            Some(Ending::Signal(signal)) => (None, Some(signal)),
            None => (None, None),
        };
        Self {
            id: attempt.id,
            task: attempt.task,
            task_label: label.to_string(),
            batch: attempt.batch,
            generation: attempt.generation,
            engine: &attempt.engine,
            state: if attempt.open { "running" } else { "ended" },
            end: attempt.end,
            exit_code,
            signal,
            success: attempt.success,
            reason: attempt.reason.as_deref(),
            last_said: attempt.last_said.as_deref(),
            session: attempt.session.as_deref(),
            resumes: attempt.resumes.as_deref(),
            tokens: attempt.used().map(|used| TokensJson {
                total: used.total(),
                input: used.input,
                cached: used.cached,
                output: used.output,
            }),
            cost_micro_usd: attempt.cost_micro_usd,
            left_behind: attempt.left_behind,
            output_lost: attempt.output_lost,
            log: workspace.log_of(attempt.id).to_string_lossy().into_owned(),
            started_at: attempt.started_at,
            ended_at: attempt.ended_at,
            supervisor_pid: attempt.open.then_some(attempt.supervisor.pid),
            worktree: worktree.map(|row| WorktreeJson {
                path: workspace
                    .worktrees()
                    .join(&row.name)
                    .to_string_lossy()
                    .into_owned(),
                removed: row.is_removed,
                branch: &row.branch,
                base: row.base.as_deref(),
                commit: row.head.as_deref(),
                rescue: row.rescue.as_deref(),
            }),
        }
    }
}

/// An event.
#[derive(Debug, Serialize)]
pub(crate) struct EventJson<'e> {
    seq: u64,
    #[serde(serialize_with = "as_full")]
    at: Timestamp,
    r#type: &'e str,
    task: Option<TaskId>,
    batch: Option<BatchId>,
    attempt: Option<AttemptId>,
    actor: String,
    data: &'e Details,
}

impl<'e> EventJson<'e> {
    pub(crate) fn new(event: &'e Event) -> Self {
        Self {
            seq: event.seq,
            at: event.at,
            r#type: event.kind.as_str(),
            task: event.task,
            batch: event.batch,
            attempt: event.attempt,
            actor: event.actor.to_string(),
            data: &event.data,
        }
    }
}

/// A batch, with its tasks and what reconciliation did unless it stands in a list.
#[derive(Debug, Serialize)]
pub(crate) struct BatchJson<'b> {
    id: BatchId,
    status: BatchStatus,
    strategy: Strategy,
    max_parallel: usize,
    on_failure: OnFailure,
    retry: u32,
    retry_delay_ms: u64,
    timeout_ms: Option<u64>,
    stall_timeout_ms: Option<u64>,
    kill_grace_ms: u64,
    reconcile_interval_ms: u64,
    engine: Option<&'b str>,
    isolation: Isolation,
    #[serde(serialize_with = "as_full")]
    started_at: Timestamp,
    #[serde(serialize_with = "as_full_opt")]
    ended_at: Option<Timestamp>,
    conductor: ConductorJson,
    exit_code: Option<u8>,
    counts: Counts,
    tokens: Option<u64>,
    cost_micro_usd: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tasks: Option<BatchTasksJson<'b>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reconciliation: Option<ReconciliationJson<'b>>,
}

#[derive(Debug, Serialize)]
struct ConductorJson {
    alive: bool,
    pid: Option<u32>,
}

/// The tasks of a batch. The shape of each is made when it is written: there may be very many.
#[derive(Debug)]
struct BatchTasksJson<'b> {
    tasks: &'b [BatchTaskView],
    doing: &'b HashMap<TaskId, String>,
}

impl Serialize for BatchTasksJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shape = |view| BatchTaskJson::new(view, self.doing);
        serializer.collect_seq(self.tasks.iter().map(shape))
    }
}

#[derive(Debug, Serialize)]
struct BatchTaskJson<'b> {
    task: TaskId,
    key: Option<&'b str>,
    label: String,
    title: &'b str,
    position: u32,
    phase: Phase,
    outcome: Option<Outcome>,
    reason: Option<&'b str>,
    doing: Option<&'b str>,
    attempts: u32,
    #[serde(serialize_with = "as_full_opt")]
    started_at: Option<Timestamp>,
    #[serde(serialize_with = "as_full_opt")]
    ended_at: Option<Timestamp>,
}

impl<'b> BatchTaskJson<'b> {
    fn new(view: &'b BatchTaskView, doing: &'b HashMap<TaskId, String>) -> Self {
        let row = &view.row;
        Self {
            task: row.task,
            key: view.key.as_ref().map(cf_core::TaskKey::as_str),
            label: TaskLabel::new(row.task, view.key.as_ref()).to_string(),
            title: &view.title,
            position: row.position,
            phase: row.phase,
            outcome: row.outcome,
            reason: row.reason.as_deref(),
            doing: doing.get(&row.task).map(String::as_str),
            attempts: row.attempts,
            started_at: row.started_at,
            ended_at: row.ended_at,
        }
    }
}

#[derive(Debug, Serialize)]
struct ReconciliationJson<'b> {
    events: &'b [Line],
    totals: &'b [Total],
}

impl<'b> BatchJson<'b> {
    /// The short form of a list.
    pub(crate) fn short(listed: &'b Listed) -> Self {
        let (batch, conductor) = (&listed.batch, listed.conductor);
        let settings: &Settings = &batch.settings;
        Self {
            id: batch.id,
            status: batch.status,
            strategy: settings.strategy,
            max_parallel: settings.max_parallel,
            on_failure: settings.on_failure,
            retry: settings.retry,
            retry_delay_ms: millis(settings.retry_delay),
            timeout_ms: settings.timeout.map(millis),
            stall_timeout_ms: settings.stall_timeout.map(millis),
            kill_grace_ms: millis(settings.kill_grace),
            reconcile_interval_ms: millis(settings.reconcile_interval),
            engine: settings.engine.as_deref(),
            isolation: settings.isolation,
            started_at: batch.started_at,
            ended_at: batch.ended_at,
            conductor: ConductorJson {
                alive: conductor.is_some(),
                pid: conductor.filter(|pid| *pid != 0),
            },
            exit_code: batch.exit_code,
            counts: listed.counts,
            tokens: listed.used.0,
            cost_micro_usd: listed.used.1,
            tasks: None,
            reconciliation: None,
        }
    }

    /// With the tasks and the reconciliation events.
    pub(crate) fn with_details(
        mut self,
        tasks: &'b [BatchTaskView],
        doing: &'b HashMap<TaskId, String>,
        events: &'b [Line],
        totals: &'b [Total],
    ) -> Self {
        self.tasks = Some(BatchTasksJson { tasks, doing });
        self.reconciliation = Some(ReconciliationJson { events, totals });
        self
    }
}

/// The last line of a stream about a batch.
#[derive(Debug, Serialize)]
pub(crate) struct LastLine<'b> {
    pub(crate) batch: BatchJson<'b>,
}
