//! What an observation means: the decision tables, the merge and the effects of `cf`, as pure values.
//!
//! A program that conducts tasks compares, again and again, what it believes about a task with what has become true
//! elsewhere. This crate is the middle of that comparison:
//!
//! ```text
//! observe (yours) → decide (a table, per source) → merge → plan → apply (yours)
//! ```
//!
//! Values go in and values come out. Nothing here reads a clock, a file, a socket or a random number, nothing waits,
//! logs, or keeps state, and there is no trait to implement. All enumerations are exhaustive on purpose: a new status,
//! action or reason must break every table that forgot it. `cf_core` is re-exported, so that this crate is enough.
//!
//! # Decide
//!
//! [`decide`] is the table for the task store: what is stored, who wrote it, what the batch believes.
//!
//! ```
//! use cf_reconcile::cf_core::TaskStatus;
//! use cf_reconcile::{Believed, LocalObservation, Reason, ReconcileAction, Stored, Writer, decide};
//!
//! // Somebody finished by hand what an agent is still working on.
//! let seen = LocalObservation::new(Believed::Running, Stored::Status(TaskStatus::Done), Writer::Other);
//! let decision = decide(&seen);
//! assert_eq!(decision.action, ReconcileAction::Skip);
//! assert_eq!(decision.reason, Reason::ExternallyCompleted);
//! assert_eq!(decision.row, 17);
//! ```
//!
//! [`decide_links`] is the table for issues and pull requests, all of one task at once. Not knowing never acts:
//!
//! ```
//! use cf_reconcile::{ClosedUnmerged, IssueState, LinkObservation, LinkState, ReconcileAction, decide_links};
//!
//! let closed = LinkObservation::new(LinkState::Issue(IssueState::Completed));
//! let unread = LinkObservation::new(LinkState::Unknown);
//! assert_eq!(decide_links(&[closed], ClosedUnmerged::Fail).action, ReconcileAction::Skip);
//! assert_eq!(decide_links(&[closed, unread], ClosedUnmerged::Fail).action, ReconcileAction::None);
//! ```
//!
//! # Merge and plan
//!
//! Each decision becomes a [`ReconciliationResult`] of its source. [`merge()`] finds the one that wins and keeps the
//! others; [`plan`] says what it does in the task's phase.
//!
//! ```
//! use cf_reconcile::cf_core::{Phase, TaskId, TaskStatus};
//! use cf_reconcile::{
//!     AfterStop, Believed, ClosedUnmerged, Effect, Evidence, IssueState, LinkObservation, LinkState,
//!     LocalObservation, ReconciliationResult, SourceName, Stored, Writer, decide, decide_links, merge,
//!     new_context, plan,
//! };
//!
//! let task: TaskId = "01234567-89ab-cdef-0123-456789abcdef".parse()?;
//! let stored = TaskStatus::InProgress;
//! let local = decide(&LocalObservation::new(Believed::Running, Stored::Status(stored), Writer::Own));
//! let links = [LinkObservation {
//!     new_comments: 2,
//!     ..LinkObservation::new(LinkState::Issue(IssueState::NotPlanned))
//! }];
//! let by_links = decide_links(&links, ClosedUnmerged::default());
//! // Comments are news beside whatever else a link says.
//! let comments = new_context(&links);
//!
//! let finding = |decision, source| {
//!     ReconciliationResult::new(task, Some(stored), Phase::Running, decision, source, Evidence::None)
//! };
//! let mut findings = vec![finding(local, SourceName::Local), finding(by_links, SourceName::Github)];
//! findings.extend(comments.map(|decision| finding(decision, SourceName::Github)));
//!
//! let merged = merge(findings).expect("there are findings");
//! assert_eq!(merged.winner.reason.to_string(), "issue closed as not planned");
//! assert_eq!(merged.contexts().count(), 1);
//! let effect = plan(merged.winner.action, merged.winner.believed);
//! assert_eq!(effect, Effect::StopThen(AfterStop::Skip));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Dependencies, retries, and the end
//!
//! [`decide_waiting`] says what becomes of a task that waits for others, [`retry_delay`] and [`may_retry`] when a
//! failed one is tried again, and [`final_status`] what a batch ends with.
//!
//! ```
//! use cf_reconcile::cf_core::{BatchStatus, Outcome};
//! use cf_reconcile::{
//!     Counts, Dependency, LiveClaim, Reason, StopCause, Stored, WaitingDecision, decide_waiting, final_status,
//!     standing,
//! };
//! use cf_reconcile::cf_core::TaskStatus;
//!
//! let failed = Reason::from("exit code 1");
//! let dependency = Dependency::Finished {
//!     outcome: Outcome::Failed,
//!     reason: &failed,
//!     stored: Stored::Status(TaskStatus::Failed),
//!     claim: LiveClaim::None,
//! };
//! let WaitingDecision::Skip(skipped) = decide_waiting([&dependency.state("build")]) else { panic!() };
//! assert_eq!(skipped.to_string(), "dependency build failed");
//!
//! let counts: Counts = [
//!     standing(Outcome::Completed, &Reason::Succeeded),
//!     standing(Outcome::Failed, &failed),
//!     standing(Outcome::Skipped, &skipped),
//! ]
//! .into_iter()
//! .collect();
//! let (status, exit) = final_status(&counts, StopCause::None);
//! assert_eq!((status, exit.code()), (BatchStatus::Partial, 3));
//! ```
//!
//! The complete tables are printed in `docs/decision-table.md`, and a test compares that page with the code.

mod action;
mod dependency;
mod effect;
mod ending;
mod finding;
mod link;
mod local;
mod merge;
mod reason;
mod retry;

pub use action::ReconcileAction;
pub use cf_core;
pub use dependency::{
    Dependency, DependencyCause, DependencyState, LiveClaim, WaitingDecision, decide_waiting,
};
pub use effect::{AfterEnd, AfterStop, Effect, WrittenSince, plan};
pub use ending::{Counts, ExitCode, Standing, StopCause, final_status, standing};
pub use finding::{Decision, Evidence, LinkEvidence, ReconciliationResult, SourceName};
pub use link::{
    Caused, ClosedUnmerged, Closure, Freshness, GONE_PASSES, IssueState, LinkObservation,
    LinkState, Origin, PullRequestState, Settle, decide_links, new_context,
};
pub use local::{
    AskGrace, Believed, Blockers, LocalObservation, OpenBlockers, SinceHold, Stored, Writer,
    Written, decide,
};
pub use merge::{Merged, merge, settles};
pub use reason::Reason;
pub use retry::{FailureCause, LONGEST_DELAY, may_retry, retry_delay};
