use cf_core::Phase;
use proptest::prelude::*;
use test_case::test_case;

use super::*;
use crate::{Decision, Evidence, SourceName};

use ReconcileAction::{Fail, Kill, LogContext, None as Nothing, Requeue, Skip};

fn finding(action: ReconcileAction, source: &str, believed: Phase) -> ReconciliationResult {
    ReconciliationResult::new(
        "01234567-89ab-cdef-0123-456789abcdef".parse().unwrap(),
        None,
        believed,
        Decision::act(
            1,
            action,
            Reason::Other(format!("{action} by {source}")),
            None,
        ),
        source.parse().unwrap(),
        Evidence::None,
    )
}

fn winner(local: ReconcileAction, github: ReconcileAction, believed: Phase) -> String {
    merge([
        finding(local, "local", believed),
        finding(github, "github", believed),
    ])
    .unwrap()
    .winner
    .reason
    .to_string()
}

#[test_case(Skip, Fail => "FAIL by github"; "fail beats skip")]
#[test_case(Kill, Skip => "SKIP by github"; "skip beats kill")]
#[test_case(Kill, LogContext => "KILL by local"; "kill beats context")]
#[test_case(Nothing, LogContext => "LOG_CONTEXT by github"; "context beats nothing")]
#[test_case(Skip, Skip => "SKIP by local"; "a tie keeps the earlier source")]
#[test_case(Nothing, Nothing => "NONE by local"; "nothing at all")]
fn on_a_running_task(local: ReconcileAction, github: ReconcileAction) -> String {
    winner(local, github, Phase::Running)
}

#[test_case(Requeue, Skip => "SKIP by github"; "skip beats requeue")]
#[test_case(Requeue, Kill => "REQUEUE by local"; "a kill does nothing to a held task")]
#[test_case(Requeue, LogContext => "REQUEUE by local"; "requeue beats context")]
fn on_a_held_task(local: ReconcileAction, github: ReconcileAction) -> String {
    winner(local, github, Phase::Held)
}

#[test_case(Requeue, Skip => "REQUEUE by local"; "a skip does nothing to a finished task")]
#[test_case(Requeue, Fail => "REQUEUE by local"; "a fail does nothing to a finished task")]
#[test_case(Nothing, Skip => "SKIP by github"; "of those that do nothing the most severe is shown")]
fn on_a_finished_task(local: ReconcileAction, github: ReconcileAction) -> String {
    winner(local, github, Phase::Finished)
}

#[test]
fn a_context_that_loses_is_kept() {
    let merged = merge([
        finding(Nothing, "local", Phase::Queued),
        finding(Skip, "github", Phase::Queued),
        finding(LogContext, "github", Phase::Queued),
    ])
    .unwrap();
    assert_eq!(merged.winner.action, Skip);
    assert_eq!(merged.winner.source, SourceName::Github);
    assert_eq!(merged.contexts().count(), 1);
    let reasons: Vec<String> = merged.reasons().map(ToString::to_string).collect();
    assert_eq!(reasons, ["SKIP by github", "LOG_CONTEXT by github"]);
}

#[test]
fn no_finding_is_no_merge() {
    assert_eq!(merge([]), None);
}

#[test]
fn only_skip_and_fail_settle_a_task() {
    let settled: Vec<_> = ReconcileAction::ALL
        .iter()
        .filter(|a| settles(**a))
        .collect();
    assert_eq!(settled, [&Skip, &Fail]);
}

fn some_findings() -> impl Strategy<Value = Vec<ReconciliationResult>> {
    let phase = proptest::sample::select(Phase::ALL);
    phase.prop_flat_map(|believed| {
        let action = proptest::sample::select(ReconcileAction::ALL);
        let source = proptest::sample::select(vec!["local", "github", "jira"]);
        let one =
            (action, source).prop_map(move |(action, source)| finding(action, source, believed));
        proptest::collection::vec(one, 1..8)
    })
}

proptest! {
    #[test]
    fn nothing_that_was_said_is_lost(findings in some_findings()) {
        let merged = merge(findings.clone()).unwrap();
        let at = findings.iter().position(|f| *f == merged.winner).unwrap();
        let mut again = merged.also.clone();
        again.insert(at, merged.winner);
        prop_assert_eq!(again, findings);
    }

    #[test]
    fn the_action_does_not_depend_on_the_order(
        (findings, shuffled) in some_findings().prop_flat_map(|f| (Just(f.clone()), Just(f).prop_shuffle()))
    ) {
        prop_assert_eq!(merge(findings).unwrap().winner.action, merge(shuffled).unwrap().winner.action);
    }

    #[test]
    fn equal_findings_may_change_places(findings in some_findings(), at in any::<proptest::sample::Index>()) {
        // A second copy of one finding, put right beside the first or at the very end.
        let at = at.index(findings.len());
        let mut beside = findings.clone();
        beside.insert(at, findings[at].clone());
        let mut at_the_end = findings.clone();
        at_the_end.push(findings[at].clone());
        prop_assert_eq!(merge(beside).unwrap().winner, merge(at_the_end).unwrap().winner);
    }

    #[test]
    fn skip_never_beats_fail(findings in some_findings()) {
        let has_fail = findings.iter().any(|f| f.action == Fail);
        prop_assert!(!(has_fail && merge(findings).unwrap().winner.action == Skip));
    }
}
