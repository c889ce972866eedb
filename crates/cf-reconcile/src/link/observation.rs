//! What is known about a task's links, in the few values that the tables ask for.

use std::fmt;
use std::str::FromStr;

use cf_core::{Outcome, UnknownWord};
use serde::{Deserialize, Serialize};

use crate::{Believed, Reason};

/// On how many passes in a row a link must be gone before one warning is given.
pub const GONE_PASSES: u32 = 3;

/// What is known about an issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IssueState {
    /// Open.
    Open,
    /// Closed as completed.
    Completed,
    /// Closed, and nobody said as what.
    ClosedWithoutReason,
    /// Closed as not planned.
    NotPlanned,
    /// Closed as a duplicate.
    Duplicate,
}

/// What is known about a pull request. Whether it was merged is what the tracker says about the merge, never its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PullRequestState {
    /// Open.
    Open,
    /// Open, as a draft.
    Draft,
    /// Merged.
    Merged,
    /// Closed and not merged.
    Closed,
}

/// What is known about the target of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkState {
    /// It is an issue, whatever the link said.
    Issue(IssueState),
    /// It is a pull request, whatever the link said.
    PullRequest(PullRequestState),
    /// It is not there, or not for this account (404, 410, no permission).
    Gone,
    /// It could not be read (error, timeout, rate limit, a malformed or unforeseen reply).
    Unknown,
}

impl LinkState {
    /// Every value.
    pub const ALL: &'static [Self] = &[
        Self::Issue(IssueState::Open),
        Self::Issue(IssueState::Completed),
        Self::Issue(IssueState::ClosedWithoutReason),
        Self::Issue(IssueState::NotPlanned),
        Self::Issue(IssueState::Duplicate),
        Self::PullRequest(PullRequestState::Open),
        Self::PullRequest(PullRequestState::Draft),
        Self::PullRequest(PullRequestState::Merged),
        Self::PullRequest(PullRequestState::Closed),
        Self::Gone,
        Self::Unknown,
    ];
}

/// How the task came by the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Somebody linked it to the task.
    Linked,
    /// A pull request that says it closes a linked issue. Anybody can open one, so it never fails a task.
    ThroughIssue,
}

impl Origin {
    /// Every value.
    pub const ALL: &'static [Self] = &[Self::Linked, Self::ThroughIssue];
}

/// Whether the answer may be acted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Freshness {
    /// Read successfully, and not older than the interval.
    Fresh,
    /// Read successfully, but longer ago. Counts as unknown; only its comments are used.
    Stale,
}

impl Freshness {
    /// Every value.
    pub const ALL: &'static [Self] = &[Self::Fresh, Self::Stale];
}

/// Whether this closure (state, reason, and the time of closing or merging) may still act. Open links are
/// [`Self::New`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Closure {
    /// It may.
    New,
    /// A person decided to go on in spite of it, or the batch was forced. A reopening ends that.
    Spent,
}

impl Closure {
    /// Every value.
    pub const ALL: &'static [Self] = &[Self::New, Self::Spent];
}

/// What the link's closure did to the task in this batch, as long as that is why the task stands where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Caused {
    /// Nothing, or nothing that still stands.
    Nothing,
    /// It was one of those for which the task was skipped.
    Skip,
    /// It was one of those for which the task failed.
    Fail,
    /// It was one of those about which `cf` asked a question that holds the task ([`ClosedUnmerged::Block`]).
    Block,
}

impl Caused {
    /// Every value.
    pub const ALL: &'static [Self] = &[Self::Nothing, Self::Skip, Self::Fail, Self::Block];

    /// What the closures of a task's links did, from where it stands in the batch and the reason for that.
    ///
    /// A SKIP by issues rests on all of them and a FAIL on every pull request, so that this is true of each. It never
    /// says [`Self::Block`], which is known by the open question alone: a hold may have more than one reason.
    pub const fn of(believed: Believed, reason: &Reason) -> Self {
        match (believed, reason) {
            (
                Believed::Finished(Outcome::Skipped),
                Reason::IssueClosed
                | Reason::IssueClosedAsNotPlanned
                | Reason::IssueClosedAsDuplicate,
            ) => Self::Skip,
            (Believed::Finished(Outcome::Failed), Reason::PullRequestClosed) => Self::Fail,
            _ => Self::Nothing,
        }
    }
}

/// Whether the task's agent, who may have changed the link itself, has time to end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Settle {
    /// No agent runs, or the link changed before it started.
    NotNeeded,
    /// The link changed after the attempt began, and `github.settle` is not over.
    Waiting,
    /// The link changed after the attempt began, and `github.settle` is over.
    Over,
}

impl Settle {
    /// Every value.
    pub const ALL: &'static [Self] = &[Self::NotNeeded, Self::Waiting, Self::Over];
}

/// What a linked pull request that was closed and not merged does to the task (`github.closed_unmerged`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClosedUnmerged {
    /// The task fails.
    #[default]
    Fail,
    /// The task is blocked with a question that names the pull request.
    Block,
    /// Nothing.
    Ignore,
}

impl ClosedUnmerged {
    /// Every value.
    pub const ALL: &'static [Self] = &[Self::Fail, Self::Block, Self::Ignore];

    /// The stable word, as configured and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Block => "block",
            Self::Ignore => "ignore",
        }
    }
}

impl fmt::Display for ClosedUnmerged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for ClosedUnmerged {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        Self::ALL
            .iter()
            .copied()
            .find(|policy| policy.as_str() == text)
            .ok_or_else(|| UnknownWord {
                what: "policy for pull requests closed without merge",
                text: text.to_owned(),
                allowed: &["fail", "block", "ignore"],
            })
    }
}

/// What is known about one link of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkObservation {
    /// What its target is, and how it stands.
    pub state: LinkState,
    /// How the task came by it.
    pub origin: Origin,
    /// Whether the answer may be acted on.
    pub freshness: Freshness,
    /// Whether its closure may still act.
    pub closure: Closure,
    /// What its last closure did to the task.
    pub caused: Caused,
    /// Whether the agent has time to end by itself.
    pub settle: Settle,
    /// How many comments are news: newer than the last look, and not written by a bot or by `cf`.
    pub new_comments: u32,
}

impl LinkObservation {
    /// A fresh answer about a linked target, which did nothing yet, with no agent to wait for and nothing said.
    pub const fn new(state: LinkState) -> Self {
        Self {
            state,
            origin: Origin::Linked,
            freshness: Freshness::Fresh,
            closure: Closure::New,
            caused: Caused::Nothing,
            settle: Settle::NotNeeded,
            new_comments: 0,
        }
    }

    /// The complete input space of one link, with no and with two new comments, also what cannot happen.
    pub fn all() -> impl Iterator<Item = Self> {
        LinkState::ALL.iter().flat_map(|&state| {
            Origin::ALL.iter().flat_map(move |&origin| {
                Freshness::ALL.iter().flat_map(move |&freshness| {
                    Closure::ALL.iter().flat_map(move |&closure| {
                        Caused::ALL.iter().flat_map(move |&caused| {
                            Settle::ALL.iter().flat_map(move |&settle| {
                                [0, 2].into_iter().map(move |new_comments| Self {
                                    state,
                                    origin,
                                    freshness,
                                    closure,
                                    caused,
                                    settle,
                                    new_comments,
                                })
                            })
                        })
                    })
                })
            })
        })
    }

    /// The same link after a person overruled its closure: it does not act again, and nothing that it did stands.
    ///
    /// A person overrules a closure by setting the task READY after it (the local reasons `reopened` and `unblocked by
    /// hand`), and by answering the question that it caused ([`Caused::Block`]). Whoever decides both sources in one
    /// pass applies it before [`crate::decide_links`].
    pub const fn overruled(self) -> Self {
        Self {
            closure: Closure::Spent,
            caused: Caused::Nothing,
            ..self
        }
    }

    /// Whether the pull request for which the task was blocked is open again, so that the question about it is
    /// resolved. What that means for the task follows from its questions, by the local table.
    pub const fn resolves_question(&self) -> bool {
        matches!(
            (self.known(), self.caused),
            (
                LinkState::PullRequest(PullRequestState::Open | PullRequestState::Draft),
                Caused::Block
            )
        )
    }

    /// The state as far as it may be acted on.
    pub(super) const fn known(&self) -> LinkState {
        match (self.state, self.freshness) {
            (state, Freshness::Fresh) => state,
            (LinkState::Gone, Freshness::Stale) => LinkState::Gone,
            (
                LinkState::Issue(_) | LinkState::PullRequest(_) | LinkState::Unknown,
                Freshness::Stale,
            ) => LinkState::Unknown,
        }
    }

    pub(super) const fn is_new(&self) -> bool {
        matches!(self.closure, Closure::New)
    }

    pub(super) const fn waits(&self) -> bool {
        matches!(self.settle, Settle::Waiting)
    }
}
