//! The port through which the batch loop runs attempts, and what it hears back.
//!
//! An executor runs processes of attempts below *supervisors* and tells how they ended. The verdict always comes from
//! the record that our own supervisor writes, on every executor; an executor only carries jobs to it and records back.
//! [`LocalExecutor`] runs them on this machine.
//!
//! Another engine (Slurm, Kubernetes) fits when it keeps these promises:
//!
//! - **Identity first.** [`Executor::acquire`] gives a place whose identity can be stored before anything may start
//!   there; only [`Executor::submit`] lets something start.
//! - **Submitting is certain or says so.** [`ExecutorError::Gone`] means that nothing was started and nothing will be;
//!   [`ExecutorError::Uncertain`] that it may have been, and [`Executor::adopt`] will tell. Submitting an attempt and
//!   stage twice starts it once.
//! - **Not reachable is not dead.** [`Fate::Lost`] is said only of an attempt of which nobody is alive any more.
//! - **One wait for all.** [`Executor::note`] waits for whatever ends next, however many run.
//!
//! An executor never touches the store and never decides what an end means for a task.

mod fate;
mod local;
mod slot;

pub use local::{LocalExecutor, LocalOptions};

use std::future::Future;
use std::io;
use std::path::Path;
use std::time::Duration;

use cf_core::{AttemptEnd, AttemptId, SupervisorId};

use crate::process::{Identity, Swept};
use crate::supervise::logfile::Chunk;
use crate::supervise::{Ended, Job, Stage};

/// How it came out with one process of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It has ended, and this is the record: exit record or kill receipt.
    Ended(Ended),
    /// It could not be started; the text says what was tried and what the system said.
    SpawnFailed {
        /// What was tried and what the system said.
        error: String,
        /// Whether the system was short of something at that moment (processes, memory, descriptors, room on the
        /// disk), which says nothing about the task: the same may well work later.
        passing: bool,
    },
    /// Its supervisor died before it was started.
    NeverStarted,
    /// Its supervisor died and left no record. What it left behind has been stopped, but for the survivors.
    Lost(Swept),
}

impl Fate {
    /// What it means for the attempt. A program that could not be started counts as never started.
    pub fn attempt_end(&self) -> AttemptEnd {
        match self {
            Self::Ended(ended) => ended.attempt_end(),
            Self::SpawnFailed { .. } | Self::NeverStarted => AttemptEnd::NeverStarted,
            Self::Lost(_) => AttemptEnd::Lost,
        }
    }
}

/// What an executor has to say: one process of an attempt is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The supervisor below which it ran; it is to be released when the fate is stored.
    pub supervisor: SupervisorId,
    /// The attempt.
    pub attempt: AttemptId,
    /// The process of it.
    pub stage: Stage,
    /// How it came out.
    pub fate: Fate,
}

/// What was found of an attempt whose conductor is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Adopted {
    /// Its supervisor lives and is watched from now on; a note will come.
    Running,
    /// Its supervisor is dead and left no record; what it left behind is being stopped, then a note will come.
    Sweeping,
    /// It was over already.
    Settled(Fate),
}

/// A process of an attempt that runs, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// The supervisor below which it runs.
    pub supervisor: SupervisorId,
    /// The attempt.
    pub attempt: AttemptId,
    /// The process of it.
    pub stage: Stage,
}

/// Why an executor could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ExecutorError {
    /// No supervisor could be started.
    #[error("cannot start a supervisor ({what})")]
    Start {
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The supervisor is not there any more. Nothing was started, and nothing will be.
    #[error("supervisor {0} is gone; nothing was started")]
    Gone(SupervisorId),
    /// The job may or may not have been taken; adopting the attempt will tell.
    #[error("it is uncertain whether supervisor {supervisor} took the job")]
    Uncertain {
        /// The supervisor that was asked.
        supervisor: SupervisorId,
        /// What the system said.
        source: io::Error,
    },
    /// The job cannot be sent, whoever were to run it.
    #[error("the job cannot be sent")]
    Job(#[source] io::Error),
    /// The supervisor lives where no signal of this process reaches it.
    #[error("supervisor {0} lives in another pid namespace and cannot be reached from here")]
    Unreachable(SupervisorId),
    /// The supervisor is there and may not be signalled.
    #[error("cannot signal supervisor {supervisor}")]
    Signal {
        /// The supervisor that was to be signalled.
        supervisor: SupervisorId,
        /// What the system said.
        source: io::Error,
    },
}

impl ExecutorError {
    /// Whether this process has as many files open as it may.
    pub fn is_for_want_of_files(&self) -> bool {
        let Self::Start { source, .. } = self else {
            return false;
        };
        source.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error())
    }
}

/// Runs processes of attempts and tells how they ended. See the module for what an implementation promises.
///
/// It belongs to one task: everything takes `&mut self`, and nothing here is `Send`.
#[expect(
    async_fn_in_trait,
    reason = "the batch loop runs on one thread and uses static dispatch"
)]
pub trait Executor {
    /// Gives an idle supervisor at its gate: one that was released, or a new one.
    ///
    /// Store its identity with the attempt, and only then submit. Cancelling loses nothing: the supervisor is given
    /// out the next time.
    ///
    /// # Errors
    ///
    /// No supervisor could be started.
    async fn acquire(&mut self) -> Result<Identity, ExecutorError>;

    /// Hands a whole job to an acquired supervisor, or to one whose process has just ended (for the next stage).
    ///
    /// # Errors
    ///
    /// [`ExecutorError::Gone`] and [`ExecutorError::Job`]: nothing was started. [`ExecutorError::Uncertain`]: adopt the
    /// attempt to find out.
    fn submit(&mut self, supervisor: SupervisorId, job: &Job) -> Result<(), ExecutorError>;

    /// Gives a supervisor back. Whatever it reported has been stored: its own file may go.
    fn release(&mut self, supervisor: SupervisorId);

    /// Asks for the end of what runs below a supervisor: SIGTERM, `grace`, SIGKILL. A note will tell.
    ///
    /// A second request can only shorten the grace. When nothing runs there (any more), nothing happens.
    ///
    /// # Errors
    ///
    /// The supervisor lives and cannot be reached.
    fn stop(&mut self, supervisor: SupervisorId, grace: Duration) -> Result<(), ExecutorError>;

    /// Ends what runs below a supervisor at once. A note will tell.
    ///
    /// # Errors
    ///
    /// The supervisor lives and cannot be reached.
    fn kill(&mut self, supervisor: SupervisorId) -> Result<(), ExecutorError> {
        self.stop(supervisor, Duration::ZERO)
    }

    /// Finds out about an attempt that another conductor submitted, and watches it if it still runs. Release the
    /// supervisor when its fate is stored, whatever the answer.
    ///
    /// # Errors
    ///
    /// It cannot be found out now. The attempt then counts as live.
    fn adopt(
        &mut self,
        identity: &Identity,
        attempt: AttemptId,
        stage: Stage,
    ) -> Result<Adopted, ExecutorError>;

    /// Waits for the next end of a process; for ever when nothing runs. Cancelling loses nothing.
    fn note(&mut self) -> impl Future<Output = Note>;

    /// Everything that was submitted or adopted and has not been told of by a note.
    fn running(&self) -> Vec<Running>;

    /// Up to `most` bytes of a log from `offset` on.
    ///
    /// # Errors
    ///
    /// The log is there and cannot be read.
    fn read_log(&self, log: &Path, offset: u64, most: usize) -> io::Result<Chunk>;

    /// Lets every supervisor go that runs nothing, and waits until they are gone. What runs is left alone.
    async fn retire_all(&mut self);
}
