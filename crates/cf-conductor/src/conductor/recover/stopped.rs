//! Supervisors whose conductor is gone and that somebody stopped (SIGSTOP): nobody else looks after their agents, and
//! whoever waits for the end of one would wait for ever.
//!
//! One that is found stopped at two looks, a second apart, is let go on. In between it may be part of something that is
//! suspended as a whole.

use std::collections::HashSet;
use std::time::Duration;

use cf_core::{SupervisorId, TaskId, TaskLabel};

use super::is_alive;
use crate::conductor::begin::TICK;
use crate::process::{Identity, is_stopped, let_go_on};
use crate::store::{Result, Store};
use crate::workspace::Workspace;

/// How long one that is let go on by hand may take to say how its agent ended, where that has ended already.
const END: Duration = Duration::from_secs(1);

/// Which supervisors were found stopped at the last look.
#[derive(Debug, Default)]
pub(in crate::conductor) struct FoundStopped(HashSet<SupervisorId>);

impl FoundStopped {
    /// Looks at the supervisors that are waited for, and lets those go on that were found stopped before and still are.
    /// To be asked once a tick, with all of them.
    pub(in crate::conductor) fn look(&mut self, waited_for: &[Identity]) {
        let mut stopped = HashSet::new();
        for identity in waited_for.iter().filter(|identity| is_stopped(identity)) {
            if self.0.contains(&identity.supervisor) {
                wake(identity, Duration::ZERO);
            }
            stopped.insert(identity.supervisor);
        }
        self.0 = stopped;
    }
}

fn wake(identity: &Identity, patience: Duration) {
    let pid = identity.pid;
    tracing::warn!(
        pid,
        "a supervisor without a conductor was stopped, and is let go on"
    );
    if let Err(error) = let_go_on(identity, patience) {
        tracing::warn!(pid, %error, "cannot wake a stopped supervisor");
    }
}

/// An open attempt whose conductor is gone and whose supervisor is stopped.
#[derive(Clone, Debug)]
pub struct Stopped {
    /// The task.
    pub task: TaskLabel,
    /// Which attempt of it.
    pub generation: u32,
    /// Its supervisor.
    pub supervisor: Identity,
}

/// Looks for attempts whose conductor is gone and whose supervisor is stopped, of these tasks when some are given.
///
/// # Errors
///
/// The store cannot be read.
pub fn stopped(
    store: &Store,
    workspace: &Workspace,
    only: Option<&[TaskId]>,
) -> Result<Vec<Stopped>> {
    store.read(|reader| {
        let mut found = Vec::new();
        for attempt in reader.open_attempts()? {
            if only.is_none_or(|only| only.contains(&attempt.task))
                && is_alive(workspace, &attempt)
                && is_stopped(&attempt.supervisor)
                && workspace.conductor_of(attempt.batch).is_none()
            {
                found.push(Stopped {
                    task: reader.label(attempt.task)?,
                    generation: attempt.generation,
                    supervisor: attempt.supervisor,
                });
            }
        }
        Ok(found)
    })
}

/// Lets those go on that are still stopped after a second. One whose agent has ended meanwhile gets a moment to say so.
pub fn wake_the_stopped(found: &[Stopped]) {
    if found.is_empty() {
        return;
    }
    std::thread::sleep(TICK);
    for one in found {
        if is_stopped(&one.supervisor) {
            wake(&one.supervisor, END);
        }
    }
}
