//! What is seen: the store, and links.

use cf_core::TaskStatus;
use cf_reconcile::{
    AskGrace, Believed, Blockers, Caused, ClosedUnmerged, Closure, Decision, Freshness, IssueState,
    LinkObservation, LinkState, LocalObservation, OpenBlockers, Origin, PullRequestState,
    ReconcileAction, Settle, SinceHold, Stored, Writer, Written, decide, decide_links,
};

use super::{stored_word, words};
use crate::grid::{Axis, table};

fn decided(decision: &Decision, asks_for: String) -> Vec<String> {
    vec![
        decision.row.to_string(),
        decision.action.to_string(),
        decision.reason.to_string(),
        asks_for,
    ]
}

fn status_word(status: Option<TaskStatus>) -> String {
    status.map_or_else(|| "–".to_owned(), |status| status.to_string())
}

fn believed_word(believed: Believed) -> String {
    match believed {
        Believed::Finished(outcome) => format!("finished {outcome}"),
        other => other.phase().to_string(),
    }
}

fn blockers_word(blockers: Blockers) -> &'static str {
    match (blockers.open, blockers.since_hold) {
        (OpenBlockers::None, SinceHold::Nothing) => "none",
        (OpenBlockers::None, SinceHold::Resolved) => "all resolved since",
        (OpenBlockers::None, SinceHold::Answered) => "all answered since",
        (OpenBlockers::Some, SinceHold::Nothing) => "open",
        (OpenBlockers::Some, SinceHold::Resolved) => "open and one resolved since",
        (OpenBlockers::Some, SinceHold::Answered) => "open and one answered since",
    }
}

pub(super) fn local() -> String {
    let axes = [
        Axis::new("believed", Believed::ALL.iter().copied().map(believed_word)),
        Axis::new("stored", Stored::ALL.iter().copied().map(stored_word)),
        Axis::new("writer", Writer::ALL.iter().map(words)),
        Axis::new("written", Written::ALL.iter().map(words)),
        Axis::new("blockers", Blockers::ALL.iter().copied().map(blockers_word)),
        Axis::new(
            "ask_grace",
            AskGrace::ALL.iter().map(|grace| match grace {
                AskGrace::Running => "left",
                AskGrace::Over => "over",
            }),
        ),
    ];
    table(&axes, &["#", "action", "reason", "asks for"], |at| {
        let seen = LocalObservation {
            believed: Believed::ALL[at[0]],
            stored: Stored::ALL[at[1]],
            writer: Writer::ALL[at[2]],
            written: Written::ALL[at[3]],
            blockers: Blockers::ALL[at[4]],
            ask_grace: AskGrace::ALL[at[5]],
        };
        let decision = decide(&seen);
        let asks_for = match (decision.external_status, seen.stored) {
            (None, _) => "–".to_owned(),
            (Some(_), Stored::Status(_)) if decision.action != ReconcileAction::Requeue => {
                "as stored".to_owned()
            }
            (asked, _) => status_word(asked),
        };
        decided(&decision, asks_for)
    })
}

fn link_word(state: LinkState) -> &'static str {
    match state {
        LinkState::Issue(IssueState::Open) => "issue open",
        LinkState::Issue(IssueState::Completed) => "issue completed",
        LinkState::Issue(IssueState::ClosedWithoutReason) => "issue closed without a reason",
        LinkState::Issue(IssueState::NotPlanned) => "issue not planned",
        LinkState::Issue(IssueState::Duplicate) => "issue duplicate",
        LinkState::PullRequest(PullRequestState::Open) => "pull request open",
        LinkState::PullRequest(PullRequestState::Draft) => "pull request draft",
        LinkState::PullRequest(PullRequestState::Merged) => "pull request merged",
        LinkState::PullRequest(PullRequestState::Closed) => "pull request closed",
        LinkState::Gone => "gone",
        LinkState::Unknown => "unknown",
    }
}

pub(super) fn one_link() -> String {
    let axes = [
        Axis::new("link", LinkState::ALL.iter().copied().map(link_word)),
        Axis::new(
            "answer",
            Freshness::ALL.iter().map(|f| match f {
                Freshness::Fresh => "fresh",
                Freshness::Stale => "old",
            }),
        ),
        Axis::new("closure", Closure::ALL.iter().map(words)),
        Axis::new(
            "origin",
            Origin::ALL.iter().map(|origin| match origin {
                Origin::Linked => "linked",
                Origin::ThroughIssue => "through its issue",
            }),
        ),
        Axis::new("`closed_unmerged`", ClosedUnmerged::ALL),
        Axis::new("settle", Settle::ALL.iter().map(words)),
        Axis::new(
            "did",
            Caused::ALL.iter().map(|caused| match caused {
                Caused::Nothing => "nothing",
                Caused::Skip => "SKIP",
                Caused::Fail => "FAIL",
                Caused::Block => "block",
            }),
        ),
        Axis::new("comments", ["none", "2 new"]),
    ];
    table(&axes, &["#", "action", "reason", "asks for"], |at| {
        let link = LinkObservation {
            state: LinkState::ALL[at[0]],
            freshness: Freshness::ALL[at[1]],
            closure: Closure::ALL[at[2]],
            origin: Origin::ALL[at[3]],
            settle: Settle::ALL[at[5]],
            caused: Caused::ALL[at[6]],
            new_comments: if at[7] == 0 { 0 } else { 2 },
        };
        let decision = decide_links(&[link], ClosedUnmerged::ALL[at[4]]);
        decided(&decision, status_word(decision.external_status))
    })
}

pub(super) fn two_links() -> String {
    let axes = [
        Axis::new("one", LinkState::ALL.iter().copied().map(link_word)),
        Axis::new("the other", LinkState::ALL.iter().copied().map(link_word)),
    ];
    table(&axes, &["#", "action", "reason", "asks for"], |at| {
        let links = [at[0], at[1]].map(|at| LinkObservation::new(LinkState::ALL[at]));
        let decision = decide_links(&links, ClosedUnmerged::Fail);
        decided(&decision, status_word(decision.external_status))
    })
}
