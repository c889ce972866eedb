//! How a batch ends: where each of its tasks stands, and what that makes of the whole.

use cf_core::{BatchStatus, Outcome};

use crate::Reason;

/// Where a task that has an outcome stands when the batch is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Its work is done, here or elsewhere.
    Done,
    /// Its work is not wanted any more.
    Dropped,
    /// It failed, or cannot be done because another one is bad or was dropped.
    Bad,
    /// It waits for a person, or for a task that does.
    Held,
    /// It was stopped.
    Cut,
}

impl Standing {
    /// Every value.
    pub const ALL: &'static [Self] = &[Self::Done, Self::Dropped, Self::Bad, Self::Held, Self::Cut];
}

/// Decides where a task stands, from its outcome and the reason for it.
///
/// A skip for a reason that is none of the contract's counts as bad: nobody vouches for the work.
pub const fn standing(outcome: Outcome, reason: &Reason) -> Standing {
    match outcome {
        Outcome::Completed => Standing::Done,
        Outcome::Failed => Standing::Bad,
        Outcome::Blocked => Standing::Held,
        Outcome::Cancelled => Standing::Cut,
        Outcome::Skipped => match reason {
            Reason::AlreadyDone
            | Reason::ExternallyCompleted
            | Reason::IssueClosed
            | Reason::PullRequestMerged
            | Reason::Succeeded => Standing::Done,
            Reason::IssueClosedAsNotPlanned
            | Reason::IssueClosedAsDuplicate
            | Reason::WithdrawnToBacklog
            | Reason::TaskDeleted => Standing::Dropped,
            Reason::Dependency { cause, .. } => cause.standing(),
            Reason::InProgressByHand
            | Reason::ClaimedElsewhere
            | Reason::ExternallyBlocked
            | Reason::TheAgentAsked
            | Reason::AnswerAwaited => Standing::Held,
            Reason::Stopped | Reason::StoppedByHand | Reason::StoppedAfter { .. } => Standing::Cut,
            Reason::ExternallyFailed
            | Reason::ExternallyFailedWhileBlocked
            | Reason::PullRequestClosed
            | Reason::NothingNew
            | Reason::PutBackInTheQueue
            | Reason::BlockersResolved
            | Reason::UnblockedByHand
            | Reason::Reopened
            | Reason::ExitAwaited
            | Reason::EndAwaited
            | Reason::IssueReopened
            | Reason::PullRequestReopened
            | Reason::LinkGone
            | Reason::LinkUnknown
            | Reason::LinkSettling
            | Reason::ClosureOverruled
            | Reason::NewComments(_)
            | Reason::Other(_) => Standing::Bad,
        },
    }
}

/// How many tasks of a batch stand where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counts {
    /// Work done.
    pub done: usize,
    /// Work not wanted.
    pub dropped: usize,
    /// Failed, or hopeless.
    pub bad: usize,
    /// Waiting for a person.
    pub held: usize,
    /// Stopped.
    pub cut: usize,
}

impl Counts {
    /// Counts one more task.
    pub const fn add(&mut self, standing: Standing) {
        match standing {
            Standing::Done => self.done += 1,
            Standing::Dropped => self.dropped += 1,
            Standing::Bad => self.bad += 1,
            Standing::Held => self.held += 1,
            Standing::Cut => self.cut += 1,
        }
    }
}

impl FromIterator<Standing> for Counts {
    fn from_iter<I: IntoIterator<Item = Standing>>(standings: I) -> Self {
        let mut counts = Self::default();
        for standing in standings {
            counts.add(standing);
        }
        counts
    }
}

/// What stopped a batch, if anything did. A signal comes before a stop that was stored as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StopCause {
    /// Nothing: every task has its outcome.
    None,
    /// SIGINT, SIGTERM or SIGHUP.
    Signal,
    /// A stop in the store, by another command.
    Stored,
}

impl StopCause {
    /// Every value.
    pub const ALL: &'static [Self] = &[Self::None, Self::Signal, Self::Stored];
}

/// The exit codes of `cf`. They are a contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ExitCode {
    /// Everything is done, or was dropped.
    Success = 0,
    /// `cf` itself failed.
    Internal = 1,
    /// The command line is wrong.
    Usage = 2,
    /// Some tasks are bad, or were cut.
    Incomplete = 3,
    /// Nothing is bad, but a person must answer first.
    Held = 4,
    /// The batch was stopped by another command.
    Stopped = 5,
    /// A signal stopped the batch.
    Interrupted = 130,
}

impl ExitCode {
    /// Every value.
    pub const ALL: &'static [Self] = &[
        Self::Success,
        Self::Internal,
        Self::Usage,
        Self::Incomplete,
        Self::Held,
        Self::Stopped,
        Self::Interrupted,
    ];

    /// The number that the process ends with.
    pub const fn code(self) -> u8 {
        self as u8
    }
}

/// Decides how a batch ends in which every task has an outcome. The first row that fits decides.
pub const fn final_status(counts: &Counts, stop: StopCause) -> (BatchStatus, ExitCode) {
    let (done, bad) = (counts.done > 0, counts.bad > 0);
    let (held, cut) = (counts.held > 0, counts.cut > 0);
    match (stop, bad, held, cut, done) {
        (StopCause::Signal, ..) => (BatchStatus::Cancelled, ExitCode::Interrupted),
        (StopCause::Stored, ..) => (BatchStatus::Cancelled, ExitCode::Stopped),
        (StopCause::None, false, false, false, _) => (BatchStatus::Completed, ExitCode::Success),
        (StopCause::None, true, _, _, true) => (BatchStatus::Partial, ExitCode::Incomplete),
        (StopCause::None, true, _, _, false) => (BatchStatus::Failed, ExitCode::Incomplete),
        (StopCause::None, false, _, true, _) => (BatchStatus::Partial, ExitCode::Incomplete),
        (StopCause::None, false, true, false, _) => (BatchStatus::Partial, ExitCode::Held),
    }
}

#[cfg(test)]
mod tests;
