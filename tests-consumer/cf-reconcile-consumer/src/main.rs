//! Decides a few observations with the tables of `cf-reconcile`, merges them per task, and prints what to do.

use cf_reconcile::cf_core::{TaskId, TaskStatus, Uuid};
use cf_reconcile::{
    Believed, ClosedUnmerged, Evidence, IssueState, LinkObservation, LinkState, LocalObservation,
    PullRequestState, ReconciliationResult, SourceName, Stored, Writer, decide, decide_links,
    merge, new_context, plan, settles,
};

/// A task as this program sees it: where it believes it to stand, what its store says, and its links.
struct Seen {
    name: &'static str,
    local: LocalObservation,
    links: Vec<LinkObservation>,
}

fn main() {
    for (number, task) in (1..).zip(&tasks()) {
        println!("{}", sentence(number, task));
    }
}

fn tasks() -> [Seen; 4] {
    let issue = |state| LinkObservation::new(LinkState::Issue(state));
    let pull_request = |state| LinkObservation::new(LinkState::PullRequest(state));
    let local =
        |believed, status| LocalObservation::new(believed, Stored::Status(status), Writer::Other);
    [
        Seen {
            name: "done-by-hand",
            local: local(Believed::Running, TaskStatus::Done),
            links: vec![issue(IssueState::Open)],
        },
        Seen {
            name: "not-planned",
            local: local(Believed::Queued, TaskStatus::Ready),
            links: vec![LinkObservation {
                new_comments: 2,
                ..issue(IssueState::NotPlanned)
            }],
        },
        Seen {
            name: "rejected",
            local: local(Believed::Running, TaskStatus::InProgress),
            links: vec![pull_request(PullRequestState::Closed)],
        },
        Seen {
            name: "unreadable",
            local: local(Believed::Queued, TaskStatus::Ready),
            links: vec![LinkObservation::new(LinkState::Unknown)],
        },
    ]
}

fn sentence(number: u32, task: &Seen) -> String {
    let id = TaskId(Uuid::from_u128(u128::from(number)));
    let believed = task.local.believed.phase();
    let finding = |decision, source| {
        let stored = task.local.stored.status();
        ReconciliationResult::new(id, stored, believed, decision, source, Evidence::None)
    };
    let mut findings = vec![finding(decide(&task.local), SourceName::Local)];
    if !settles(findings[0].action) {
        let tracker = SourceName::Other("tracker".to_owned());
        let decision = decide_links(&task.links, ClosedUnmerged::default());
        findings.push(finding(decision, tracker.clone()));
        findings.extend(new_context(&task.links).map(|context| finding(context, tracker)));
    }
    let merged = merge(findings).expect("the store always has a finding");
    let mut reasons: Vec<String> = merged.reasons().map(ToString::to_string).collect();
    if reasons.is_empty() {
        reasons.push(merged.winner.reason.to_string());
    }
    let effect = plan(merged.winner.action, believed);
    format!(
        "{}: {} by {} ({}): {effect:?}",
        task.name,
        merged.winner.action,
        merged.winner.source,
        reasons.join("; ")
    )
}

#[test]
fn each_task_gets_its_sentence() {
    let sentences: Vec<String> = (1..)
        .zip(&tasks())
        .map(|(number, task)| sentence(number, task))
        .collect();
    assert_eq!(
        sentences,
        [
            "done-by-hand: SKIP by local (externally completed): StopThen(Skip)",
            "not-planned: SKIP by tracker (issue closed as not planned; 2 new comments): DropFromQueue",
            "rejected: FAIL by tracker (pull request closed without merge): StopThen(Fail)",
            "unreadable: NONE by local (nothing new): Nothing",
        ]
    );
}
