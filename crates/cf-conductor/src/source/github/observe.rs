//! From an answer about a link to the few values that the table asks for.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use cf_core::{Link, LinkKind, Timestamp};
use cf_github::{Answer, CloseReason, Comment, Comments, Item, ItemState, Known};
use cf_reconcile::{
    Caused, Closure, Evidence, Freshness, IssueState, LinkEvidence, LinkObservation, LinkState,
    Origin, PullRequestState, Settle,
};

use super::closing::{Closing, reason_word};
use crate::store::follow::{LinkRow, Overruled};

/// What is true around all links of a task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings {
    /// What links did to the task, if that is why it stands where it stands.
    pub caused: Caused,
    /// When the agent that runs was started.
    pub attempt_began: Option<Timestamp>,
    /// How long it may take to end by itself when a link has changed since.
    pub settle: Duration,
    /// The time.
    pub now: Timestamp,
}

/// What is known about one link, with what its finding rests on.
#[derive(Clone, Debug)]
pub(crate) struct Seen<'r> {
    pub observation: LinkObservation,
    /// Until when the agent has time to end by itself.
    pub settles_at: Option<Timestamp>,
    /// When it was closed or merged.
    pub ended_at: Option<Timestamp>,
    link: Cow<'r, Link>,
    state: Option<ItemState>,
    /// When it changed last; nothing for what was found through another.
    pub updated_at: Option<Timestamp>,
}

impl Seen<'_> {
    /// What a finding about it rests on.
    pub(crate) fn evidence(&self) -> Evidence {
        let (state, state_reason) = match &self.state {
            None => ("unknown", None),
            Some(ItemState::Open) => ("open", None),
            Some(ItemState::Closed { reason, .. }) => ("closed", reason_word(*reason)),
            Some(ItemState::ClosedUnmerged { .. }) => ("closed", None),
            Some(ItemState::Merged { .. }) => ("merged", None),
        };
        let merged = matches!(self.state, Some(ItemState::Merged { .. }));
        Evidence::Link(Box::new(LinkEvidence {
            url: self.link.url(),
            state: state.to_owned(),
            state_reason: state_reason.map(str::to_owned),
            updated_at: self.updated_at,
            merged_at: self.ended_at.filter(|_| merged),
            closed_at: self.ended_at.filter(|_| !merged),
        }))
    }
}

/// Observes a link, and the pull requests that were found through it; adds them to what was seen.
pub(crate) fn observe<'r>(
    around: &Surroundings,
    row: &'r LinkRow,
    answer: &Answer,
    question_open: bool,
    overruled: Option<Overruled>,
    seen: &mut Vec<Seen<'r>>,
) {
    let (known, freshness) = match answer {
        Answer::Known(known) => (Some(known), Freshness::Fresh),
        Answer::Unknown { last, .. } => (last.as_ref(), Freshness::Stale),
        Answer::Gone(_) | Answer::Moved { .. } => (None, Freshness::Fresh),
    };
    let Some(known) = known else {
        let state = match answer {
            Answer::Gone(_) => LinkState::Gone,
            // Where it is now is asked before anything is decided.
            _ => LinkState::Unknown,
        };
        seen.push(Seen {
            observation: LinkObservation::new(state),
            settles_at: None,
            ended_at: None,
            link: Cow::Borrowed(&row.link),
            state: None,
            updated_at: None,
        });
        return;
    };
    if is_odd(&row.link, known.item.kind) {
        seen.push(Seen {
            observation: LinkObservation::new(LinkState::Unknown),
            settles_at: None,
            ended_at: None,
            link: Cow::Borrowed(&row.link),
            state: None,
            updated_at: None,
        });
        return;
    }
    let link = if known.item.kind == row.link.kind {
        Cow::Borrowed(&row.link)
    } else {
        Cow::Owned(Link {
            kind: known.item.kind,
            ..row.link.clone()
        })
    };
    let caused = if question_open {
        Caused::Block
    } else {
        around.caused
    };
    let one = |link: Cow<'r, Link>, state: &ItemState, item: Option<&Item>, origin, caused| {
        let (settle, settles_at) = settle(around, state, known.read_at);
        let observation = LinkObservation {
            origin,
            freshness,
            caused,
            settle,
            ..LinkObservation::new(link_state(link.kind, state, item.is_some_and(|i| i.draft)))
        };
        let spent = Closing::of(&link, state).is_some_and(|c| c.is_spent(row, overruled));
        Seen {
            observation: if spent {
                LinkObservation {
                    closure: Closure::Spent,
                    ..observation.overruled()
                }
            } else {
                observation
            },
            settles_at,
            ended_at: state.ended_at(),
            link,
            state: Some(*state),
            updated_at: item.map(|item| item.updated_at),
        }
    };
    seen.push(one(
        link,
        &known.item.state,
        Some(&known.item),
        Origin::Linked,
        caused,
    ));
    let found = known.found.iter().map(|pr| {
        let link = Link {
            host: row.link.host.clone(),
            repo: pr.repo.clone(),
            number: pr.number,
            kind: LinkKind::Pr,
        };
        let link = Cow::Owned(link);
        one(link, &pr.state, None, Origin::ThroughIssue, Caused::Nothing)
    });
    seen.extend(found);
}

/// Whether a link was made for a pull request, and GitHub says that there is an issue. What somebody expects of a merge
/// is not what an issue's closing means, so that it decides nothing. The other way round a pull request is taken for
/// what it is: every number of one is among the issues' too.
pub(crate) const fn is_odd(link: &Link, is: LinkKind) -> bool {
    matches!((link.kind, is), (LinkKind::Pr, LinkKind::Issue))
}

const fn link_state(kind: LinkKind, state: &ItemState, draft: bool) -> LinkState {
    match (kind, state) {
        (LinkKind::Issue, ItemState::Open) => LinkState::Issue(IssueState::Open),
        (LinkKind::Issue, ItemState::Closed { reason, .. }) => LinkState::Issue(match reason {
            CloseReason::Completed => IssueState::Completed,
            CloseReason::NotPlanned => IssueState::NotPlanned,
            CloseReason::Duplicate => IssueState::Duplicate,
            CloseReason::Unstated => IssueState::ClosedWithoutReason,
        }),
        (LinkKind::Pr, ItemState::Open) => LinkState::PullRequest(if draft {
            PullRequestState::Draft
        } else {
            PullRequestState::Open
        }),
        (LinkKind::Pr, ItemState::ClosedUnmerged { .. }) => {
            LinkState::PullRequest(PullRequestState::Closed)
        }
        (_, ItemState::Merged { .. }) => LinkState::PullRequest(PullRequestState::Merged),
        // An issue has no merge to miss, and a pull request no reason: such an answer makes no sense.
        (LinkKind::Issue, ItemState::ClosedUnmerged { .. })
        | (LinkKind::Pr, ItemState::Closed { .. }) => LinkState::Unknown,
    }
}

/// Whether the agent, who may have closed it itself, has time to end, and until when.
fn settle(
    around: &Surroundings,
    state: &ItemState,
    read_at: Timestamp,
) -> (Settle, Option<Timestamp>) {
    let Some(began) = around.attempt_began else {
        return (Settle::NotNeeded, None);
    };
    if *state == ItemState::Open {
        return (Settle::NotNeeded, None);
    }
    let changed = state.ended_at().unwrap_or(read_at);
    // GitHub's times are whole seconds, and its clock may go before ours.
    if changed.as_second() < began.as_second() {
        return (Settle::NotNeeded, None);
    }
    let until = changed.min(read_at) + around.settle;
    if around.now < until {
        (Settle::Waiting, Some(until))
    } else {
        (Settle::Over, None)
    }
}

/// The closings that an answer tells of: of the item, and of the pull requests that close it.
pub(crate) fn closings_of(row: &LinkRow, answer: &Answer) -> Vec<Closing> {
    let Some(known) = known(answer) else {
        return Vec::new();
    };
    let found = known.found.iter().filter_map(|pr| {
        let link = Link {
            host: row.link.host.clone(),
            repo: pr.repo.clone(),
            number: pr.number,
            kind: LinkKind::Pr,
        };
        Closing::of(&link, &pr.state)
    });
    Closing::of(&row.link, &known.item.state)
        .into_iter()
        .chain(found)
        .collect()
}

/// Whether an answer tells of any closing.
pub(crate) fn is_closed(answer: &Answer) -> bool {
    known(answer).is_some_and(|known| {
        known.item.state != ItemState::Open
            || known.found.iter().any(|pr| pr.state != ItemState::Open)
    })
}

/// Whether the item of a link is open, freshly read.
pub(crate) fn is_open(answer: &Answer) -> bool {
    matches!(answer, Answer::Known(known) if known.item.state == ItemState::Open)
}

const fn known(answer: &Answer) -> Option<&Known> {
    match answer {
        Answer::Known(known) => Some(known),
        Answer::Unknown { last, .. } => last.as_ref(),
        Answer::Gone(_) | Answer::Moved { .. } => None,
    }
}

/// The comments that came with an answer.
pub(crate) fn comments(answer: &Answer) -> &[Comment] {
    match known(answer).map(|known| &known.comments) {
        Some(Comments::Read(read)) => &read.list,
        _ => &[],
    }
}

/// Whether a comment is worth storing at all: programs and hidden ones say nothing to agents.
pub(crate) const fn is_kept(comment: &Comment) -> bool {
    !comment.by_bot && !comment.minimized
}

/// Whether a comment is news: kept, and newer than the link, by the whole seconds that GitHub counts in.
pub(crate) fn is_news(row: &LinkRow, comment: &Comment) -> bool {
    is_kept(comment) && is_newer(row, comment)
}

/// Whether a comment is newer than the link.
pub(crate) fn is_newer(row: &LinkRow, comment: &Comment) -> bool {
    comment.created_at.as_second() >= row.created_at.as_second()
}

/// A number that changes with whatever the table looks at in an answer, and not with its age.
pub(crate) fn fingerprint(answer: &Answer) -> u64 {
    let mut hasher = DefaultHasher::new();
    match answer {
        Answer::Unknown { .. } => 0u8.hash(&mut hasher),
        Answer::Moved { .. } => 1u8.hash(&mut hasher),
        Answer::Gone(_) => 2u8.hash(&mut hasher),
        Answer::Known(known) => {
            (3u8, known.item.kind as u8, known.item.draft).hash(&mut hasher);
            hash_state(&known.item.state, &mut hasher);
            for pr in &known.found {
                (&pr.repo, pr.number).hash(&mut hasher);
                hash_state(&pr.state, &mut hasher);
            }
        }
    }
    hasher.finish()
}

fn hash_state(state: &ItemState, hasher: &mut DefaultHasher) {
    let word = match state {
        ItemState::Open => 0u8,
        ItemState::Closed { reason, .. } => 1 + *reason as u8,
        ItemState::ClosedUnmerged { .. } => 10,
        ItemState::Merged { .. } => 11,
    };
    (word, state.ended_at().map(Timestamp::as_second)).hash(hasher);
}
