//! The tracker's source: what the issues and pull requests that a task is linked to mean for it.
//!
//! Each link is put into one of a few values by whoever read it; nothing here knows how. Not knowing never acts: an
//! unreadable, unauthorised or old answer leaves the task alone. A transferred link is followed before it comes here,
//! and stands for the place where it arrived.

mod observation;
#[cfg(test)]
mod tests;

use cf_core::TaskStatus;

use crate::{Decision, Reason, ReconcileAction};

pub use observation::{
    Caused, ClosedUnmerged, Closure, Freshness, GONE_PASSES, IssueState, LinkObservation,
    LinkState, Origin, PullRequestState, Settle,
};

/// Decides what all links of one task together mean for it. The first rule that fits decides:
///
/// 1. any merged pull request → SKIP, DONE;
/// 2. all linked issues closed, nothing unknown → SKIP, DONE if any was completed, else BACKLOG;
/// 3. every linked pull request closed and unmerged, nothing unknown → FAIL (or what `policy` says);
/// 4. a link that ended the task is open again → REQUEUE, READY;
/// 5. new comments → LOG_CONTEXT;
/// 6. else NONE.
///
/// A rule acts only if a closure that makes it fit is not spent, and not before the agent had its time. Links that are
/// gone do not count. `row` is the number of the row in the contract's table of links (1 to 12). New comments beside an
/// action that wins over them are [`new_context`]'s to report.
pub fn decide_links(links: &[LinkObservation], policy: ClosedUnmerged) -> Decision {
    let ruling = merged_pull_request(links)
        .or_else(|| closed_issues(links))
        .or_else(|| closed_pull_requests(links, policy));
    match ruling {
        Some(Ruling::Acts(decision)) => decision,
        Some(Ruling::Waits) => new_context(links)
            .unwrap_or_else(|| Decision::none(quiet_row(links), Reason::LinkSettling)),
        None => reopened(links)
            .or_else(|| new_context(links))
            .unwrap_or_else(|| quiet(links)),
    }
}

/// The LOG_CONTEXT of a task's links, if there are new comments; to be merged beside what [`decide_links`] says.
pub fn new_context(links: &[LinkObservation]) -> Option<Decision> {
    let count = links
        .iter()
        .filter(|link| !matches!(link.state, LinkState::Gone | LinkState::Unknown))
        .fold(0u32, |sum, link| sum.saturating_add(link.new_comments));
    (count > 0).then(|| {
        Decision::act(
            2,
            ReconcileAction::LogContext,
            Reason::NewComments(count),
            None,
        )
    })
}

/// A rule that fits: what it asks for, or that the agent still has time to end by itself.
enum Ruling {
    Acts(Decision),
    Waits,
}

fn merged_pull_request(links: &[LinkObservation]) -> Option<Ruling> {
    let mut merged = links
        .iter()
        .filter(|link| {
            link.known() == LinkState::PullRequest(PullRequestState::Merged) && link.is_new()
        })
        .peekable();
    merged.peek()?;
    Some(if merged.all(LinkObservation::waits) {
        Ruling::Waits
    } else {
        Ruling::Acts(Decision::act(
            7,
            ReconcileAction::Skip,
            Reason::PullRequestMerged,
            Some(TaskStatus::Done),
        ))
    })
}

fn closed_issues(links: &[LinkObservation]) -> Option<Ruling> {
    if any_unknown(links) {
        return None;
    }
    let issues = links.iter().filter_map(|link| match link.known() {
        LinkState::Issue(state) => Some((link, state)),
        LinkState::PullRequest(_) | LinkState::Gone | LinkState::Unknown => None,
    });
    let mut waits = false;
    let mut verdict: Option<Decision> = None;
    for (link, state) in issues {
        let decision = issue_closed(state)?;
        waits |= link.is_new() && link.waits();
        // A completed issue decides; otherwise the first one that was closed as something else.
        if link.is_new()
            && verdict
                .as_ref()
                .is_none_or(|first| first.row > decision.row)
        {
            verdict = Some(decision);
        }
    }
    let verdict = verdict?;
    Some(if waits {
        Ruling::Waits
    } else {
        Ruling::Acts(verdict)
    })
}

const fn issue_closed(state: IssueState) -> Option<Decision> {
    let (row, reason, status) = match state {
        IssueState::Open => return None,
        IssueState::Completed | IssueState::ClosedWithoutReason => {
            (3, Reason::IssueClosed, TaskStatus::Done)
        }
        IssueState::NotPlanned => (4, Reason::IssueClosedAsNotPlanned, TaskStatus::Backlog),
        IssueState::Duplicate => (4, Reason::IssueClosedAsDuplicate, TaskStatus::Backlog),
    };
    Some(Decision::act(
        row,
        ReconcileAction::Skip,
        reason,
        Some(status),
    ))
}

fn closed_pull_requests(links: &[LinkObservation], policy: ClosedUnmerged) -> Option<Ruling> {
    let (action, status) = match policy {
        ClosedUnmerged::Fail => (ReconcileAction::Fail, TaskStatus::Failed),
        ClosedUnmerged::Block => (ReconcileAction::Kill, TaskStatus::Blocked),
        ClosedUnmerged::Ignore => return None,
    };
    if any_unknown(links) {
        return None;
    }
    let (mut acts, mut waits) = (false, false);
    for link in links.iter().filter(|link| link.origin == Origin::Linked) {
        match link.known() {
            LinkState::PullRequest(PullRequestState::Closed) => {
                acts |= link.is_new();
                waits |= link.is_new() && link.waits();
            }
            LinkState::PullRequest(
                PullRequestState::Open | PullRequestState::Draft | PullRequestState::Merged,
            ) => return None,
            LinkState::Issue(_) | LinkState::Gone | LinkState::Unknown => {}
        }
    }
    if !acts {
        return None;
    }
    Some(if waits {
        Ruling::Waits
    } else {
        Ruling::Acts(Decision::act(
            8,
            action,
            Reason::PullRequestClosed,
            Some(status),
        ))
    })
}

fn reopened(links: &[LinkObservation]) -> Option<Decision> {
    links.iter().find_map(|link| {
        let (row, reason) = match (link.known(), link.caused) {
            (LinkState::Issue(IssueState::Open), Caused::Skip) => (5, Reason::IssueReopened),
            (
                LinkState::PullRequest(PullRequestState::Open | PullRequestState::Draft),
                Caused::Fail,
            ) => (9, Reason::PullRequestReopened),
            _ => return None,
        };
        Some(Decision::act(
            row,
            ReconcileAction::Requeue,
            reason,
            Some(TaskStatus::Ready),
        ))
    })
}

fn any_unknown(links: &[LinkObservation]) -> bool {
    links.iter().any(|link| link.known() == LinkState::Unknown)
}

/// NONE, with the most telling reason: a link that could not be read, one that is gone, one that was overruled.
fn quiet(links: &[LinkObservation]) -> Decision {
    let spent = |link: &LinkObservation| {
        !link.is_new()
            && match link.known() {
                LinkState::Issue(IssueState::Open)
                | LinkState::PullRequest(PullRequestState::Open | PullRequestState::Draft)
                | LinkState::Gone
                | LinkState::Unknown => false,
                LinkState::Issue(_) | LinkState::PullRequest(_) => true,
            }
    };
    let reason = match quiet_row(links) {
        12 => Reason::LinkUnknown,
        10 => Reason::LinkGone,
        _ if links.iter().any(spent) => Reason::ClosureOverruled,
        _ => Reason::NothingNew,
    };
    Decision::none(quiet_row(links), reason)
}

fn quiet_row(links: &[LinkObservation]) -> u8 {
    let any = |fits: fn(LinkState) -> bool| links.iter().any(|link| fits(link.known()));
    if any(|state| matches!(state, LinkState::Unknown)) {
        12
    } else if any(|state| matches!(state, LinkState::Gone)) {
        10
    } else if any(|state| matches!(state, LinkState::PullRequest(_))) {
        6
    } else {
        1
    }
}
