//! The batch loop: one owner of a batch's state, woken by messages, deciding from what it reads.
//!
//! Messages from agents, timers, other processes and signals only wake the loop. Each turn does the same: look at what
//! changed, settle what ended, apply what the sources found, start what may start, store all of it in one transaction,
//! and only then let the effects happen (a job through a gate, a signal, a file). When the transaction fails as a
//! whole, nothing has happened: the schedule is read from the store again, as after a crash.

mod apply;
mod begin;
mod context;
mod end;
mod gate;
mod launch;
mod look_over;
mod plan;
mod recover;
mod rows;
mod run;
mod session;
mod settle;
mod take_up;
mod trees;
mod turn;

#[cfg(test)]
mod simulation;

use std::ffi::OsString;
use std::path::PathBuf;

use cf_core::{AttemptId, BatchId, BatchStatus, TaskId};

use crate::engine::Engines;
use crate::executor::ExecutorError;
use crate::github::GithubSource;
use crate::hooks::Hooks;
use crate::source::ReconcilerRegistry;
use crate::store::StoreError;
use crate::store::event::Event;
use crate::workspace::{Workspace, WorkspaceError};
use crate::worktree::GitError;

pub use look_over::{LookOver, look_over, settle_receipts};
pub use plan::{
    Plan, PlannedTask, Selection, Standing as PlannedStanding, check_engines, check_resume, prepare,
};
pub use recover::stopped::{Stopped, stopped, wake_the_stopped};
pub(crate) use run::event_loop;
pub use run::{Goal, conduct, start};
pub use trees::repository;

/// What a conductor needs from its surroundings.
#[derive(Debug)]
pub struct Setup {
    /// The workspace.
    pub workspace: Workspace,
    /// Every engine.
    pub engines: Engines,
    /// The sources, in order.
    pub registry: ReconcilerRegistry,
    /// GitHub, when it is followed; its source is then among those of the registry.
    pub github: Option<GithubSource>,
    /// The environment that agents inherit, before it is cleaned.
    pub environment: Vec<(OsString, OsString)>,
    /// Who else is told what happens; taken by the batch that runs next.
    pub hooks: Hooks,
    /// The program that agents find as `cf`, and that supervisors are started from.
    pub program: PathBuf,
}

/// How a batch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchEnd {
    /// The batch.
    pub batch: BatchId,
    /// Its final status.
    pub status: BatchStatus,
    /// The exit code of the command that ran it.
    pub exit_code: u8,
}

/// Something that is not an event of the log, but that whoever watches should hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A source, or the store, cannot be read or written for the moment. Said once.
    Unavailable {
        /// The source's name, or `store`.
        what: String,
        /// Why.
        why: String,
    },
    /// It answers again. Said once.
    Available {
        /// The source's name, or `store`.
        what: String,
    },
    /// The batch is asked to stop; a second signal kills at once.
    Stopping,
    /// What an attempt left in its worktree could not be kept. It is still there.
    NotKept {
        /// The worktree.
        worktree: PathBuf,
        /// Why.
        why: String,
    },
}

/// Whoever watches a batch while this process conducts it.
pub trait Observer {
    /// These events were stored.
    fn events(&mut self, events: &[Event]);

    /// Something else happened.
    fn notice(&mut self, notice: &Notice);

    /// How often [`Observer::tick`] is to be called; nothing means never.
    fn tick_every(&self) -> Option<std::time::Duration> {
        None
    }

    /// Time has passed.
    fn tick(&mut self) {}
}

/// What can keep a batch from being conducted.
#[derive(Debug, thiserror::Error)]
pub enum ConductorError {
    /// The store refuses.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The workspace's files refuse.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// Worktrees cannot be made.
    #[error(transparent)]
    Git(#[from] GitError),
    /// Agents cannot be started.
    #[error("cannot start agents")]
    Executor(#[from] ExecutorError),
    /// This system cannot run agents safely.
    #[error("cannot run agents here: {0}")]
    Platform(&'static str),
    /// The batch has a conductor already.
    #[error("batch {} is conducted by process {holder}", .batch.short())]
    Conducted {
        /// The batch.
        batch: BatchId,
        /// Who holds its lock; 0 when that cannot be read.
        holder: u32,
    },
    /// What was asked for cannot be run as it stands.
    #[error("{what}")]
    Refused {
        /// What, and why.
        what: String,
        /// What to do instead.
        hint: Option<String>,
    },
    /// The store is not where it was when the batch began. Its agents were stopped.
    #[error("the workspace database at {path} has vanished; the running agents were stopped{}", left(.survivors))]
    Vanished {
        /// Where it was.
        path: PathBuf,
        /// Attempts whose agents could not be stopped.
        survivors: Vec<(TaskId, AttemptId)>,
    },
    /// The batch could not go on. Its agents were stopped, as far as that was possible.
    #[error("the batch cannot go on; its running agents were stopped{}", left(.survivors))]
    Abandoned {
        /// What failed.
        source: Box<ConductorError>,
        /// Attempts whose agents could not be stopped; `resume` finds them.
        survivors: Vec<(TaskId, AttemptId)>,
    },
    /// The system refuses something that a conductor cannot do without.
    #[error("cannot {what}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
}

fn left(survivors: &[(TaskId, AttemptId)]) -> String {
    if survivors.is_empty() {
        return String::new();
    }
    let names: Vec<String> = survivors
        .iter()
        .map(|(task, attempt)| format!("task {task} (attempt {attempt})"))
        .collect();
    format!(", except those of {}", names.join(", "))
}
