//! What becomes of a task when what it depends on will not be done, or is done again.

use cf_core::{Outcome, Phase, TaskStatus};
use cf_reconcile::{DependencyCause, LiveClaim, Reason, Stored};
use test_case::test_case;

use super::*;
use crate::schedule::Note;

fn skip(schedule: &mut Schedule, nth: usize, reason: &Reason) {
    schedule.finish(id(nth), Outcome::Skipped, reason, at(1), None);
    schedule.settle(at(1));
}

#[test]
fn a_chain_is_skipped_with_the_task_at_which_it_began() {
    let mut schedule = schedule(1, 4, &[(1, 0), (2, 1), (3, 2)]);
    start_all(&mut schedule, at(0));
    fail(&mut schedule, 0, at(1));
    for nth in 1..4 {
        assert_eq!(ended(&schedule, nth), "SKIPPED dependency t0 failed");
    }
    assert!(schedule.is_idle());
}

#[test_case(&Reason::ExternallyCompleted => "queued"; "done elsewhere")]
#[test_case(&Reason::AlreadyDone => "queued"; "done before")]
#[test_case(&Reason::PullRequestMerged => "queued"; "merged")]
#[test_case(&Reason::ExternallyFailed => "SKIPPED dependency t0 failed"; "failed by hand")]
#[test_case(&Reason::WithdrawnToBacklog => "SKIPPED dependency t0 withdrawn"; "withdrawn")]
#[test_case(&Reason::TaskDeleted => "SKIPPED dependency t0 deleted"; "deleted")]
#[test_case(&Reason::IssueClosedAsNotPlanned => "SKIPPED dependency t0 not needed"; "not planned")]
fn what_a_skip_means_to_a_dependent(reason: &Reason) -> String {
    let mut schedule = schedule(1, 2, &[(1, 0)]);
    skip(&mut schedule, 0, reason);
    ended(&schedule, 1)
}

#[test]
fn of_several_dead_dependencies_the_first_bad_one_names_the_reason() {
    let mut schedule = schedule(3, 3, &[(2, 0), (2, 1)]);
    start_all(&mut schedule, at(0));
    schedule.hold(id(0), &Reason::AnswerAwaited, None);
    fail(&mut schedule, 1, at(1));
    assert_eq!(ended(&schedule, 2), "SKIPPED dependency t1 failed");
}

#[test]
fn what_was_skipped_for_a_dependency_waits_again_when_that_is_reopened() {
    let mut schedule = schedule(1, 3, &[(1, 0), (2, 1)]);
    start_all(&mut schedule, at(0));
    fail(&mut schedule, 0, at(1));
    schedule.saw(id(0), Stored::Status(TaskStatus::Ready), LiveClaim::None);
    schedule.enqueue(id(0), Some(Reason::Reopened), None, at(2));
    schedule.settle(at(2));
    assert_eq!(
        [phase(&schedule, 1), phase(&schedule, 2)],
        [Phase::Waiting; 2]
    );
    for nth in 0..3 {
        assert_eq!(start_all(&mut schedule, at(3)), [nth]);
        complete(&mut schedule, nth, at(3));
    }
    assert!(schedule.is_idle());
}

#[test]
fn what_was_skipped_for_a_dependency_may_start_when_that_is_done_after_all() {
    let mut schedule = schedule(1, 3, &[(1, 0), (2, 1)]);
    start_all(&mut schedule, at(0));
    fail(&mut schedule, 0, at(1));
    schedule.saw(id(0), Stored::Status(TaskStatus::Done), LiveClaim::None);
    schedule.settle(at(2));
    assert_eq!(ended(&schedule, 0), "FAILED exit code 1");
    assert_eq!(ended(&schedule, 1), "queued");
    assert_eq!(ended(&schedule, 2), "waiting");
}

#[test]
fn a_task_skipped_for_two_stays_skipped_until_neither_stands_in_its_way() {
    let mut schedule = schedule(2, 3, &[(2, 0), (2, 1)]);
    start_all(&mut schedule, at(0));
    fail(&mut schedule, 0, at(1));
    fail(&mut schedule, 1, at(1));
    schedule.enqueue(id(0), Some(Reason::Reopened), None, at(2));
    schedule.settle(at(2));
    assert_eq!(phase(&schedule, 2), Phase::Finished);
    schedule.enqueue(id(1), Some(Reason::Reopened), None, at(2));
    schedule.settle(at(2));
    assert_eq!(phase(&schedule, 2), Phase::Waiting);
}

#[test]
fn a_task_skipped_for_another_reason_stays_skipped() {
    let mut schedule = schedule(1, 2, &[(1, 0)]);
    skip(&mut schedule, 1, &Reason::WithdrawnToBacklog);
    start_all(&mut schedule, at(0));
    complete(&mut schedule, 0, at(1));
    assert_eq!(ended(&schedule, 1), "SKIPPED withdrawn to backlog");
}

#[test]
fn a_queued_task_waits_again_when_its_dependency_is_undone_and_one_that_ran_is_left() {
    let mut schedule = schedule(1, 3, &[(1, 0), (2, 0)]);
    start_all(&mut schedule, at(0));
    complete(&mut schedule, 0, at(1));
    assert_eq!(start_all(&mut schedule, at(1)), [1]);
    schedule.saw(id(0), Stored::Status(TaskStatus::Ready), LiveClaim::None);
    schedule.settle(at(2));
    assert_eq!(phase(&schedule, 1), Phase::Running);
    assert_eq!(ended(&schedule, 2), "SKIPPED dependency t0 not done");
    assert_eq!(
        schedule.take_notes(),
        [Note::DependencyReopened {
            task: id(1),
            on: id(0)
        }]
    );
}

#[test]
fn new_edges_count_at_once_and_removed_ones_do_not() {
    let mut schedule = schedule(1, 3, &[(2, 1)]);
    schedule.set_dependencies(id(1), &[id(0)], at(0));
    schedule.settle(at(0));
    assert_eq!(phase(&schedule, 1), Phase::Waiting);
    start_all(&mut schedule, at(0));
    fail(&mut schedule, 0, at(1));
    assert_eq!(ended(&schedule, 2), "SKIPPED dependency t0 failed");
    schedule.set_dependencies(id(1), &[], at(2));
    schedule.settle(at(2));
    assert_eq!(
        [ended(&schedule, 1), ended(&schedule, 2)],
        ["queued", "waiting"]
    );
}

#[test]
fn at_the_end_what_is_held_is_blocked_and_its_dependents_are_skipped_for_it() {
    let mut schedule = schedule(2, 4, &[(1, 0), (2, 1)]);
    schedule.hold(id(0), &Reason::AnswerAwaited, None);
    schedule.set_gate(id(3), Gate::InProgressByHand);
    schedule.settle(at(0));
    assert!(schedule.is_idle());
    assert_eq!(phase(&schedule, 1), Phase::Waiting);
    schedule.wind_up(&Reason::Stopped, at(1));
    assert_eq!(ended(&schedule, 0), "BLOCKED waiting for an answer");
    assert_eq!(ended(&schedule, 1), "SKIPPED dependency t0 blocked");
    assert_eq!(ended(&schedule, 2), "SKIPPED dependency t0 blocked");
    assert_eq!(ended(&schedule, 3), "BLOCKED in progress by hand");
    let counts = schedule.standings();
    assert_eq!((counts.held, counts.bad, counts.cut), (4, 0, 0));
}

#[test]
fn a_stop_cancels_what_did_not_get_its_turn_with_its_own_reason() {
    let mut schedule = schedule(1, 4, &[(1, 0)]);
    start_all(&mut schedule, at(0));
    fail(&mut schedule, 0, at(1));
    assert_eq!(schedule.first_bad(), Some("t0".to_owned()));
    schedule.hold(id(3), &Reason::AnswerAwaited, None);
    schedule.close();
    let cut = Reason::StoppedAfter {
        key: "t0".to_owned(),
    };
    schedule.wind_up(&cut, at(2));
    assert_eq!(ended(&schedule, 1), "SKIPPED dependency t0 failed");
    assert_eq!(ended(&schedule, 2), "CANCELLED stopped after t0 failed");
    assert_eq!(ended(&schedule, 3), "BLOCKED waiting for an answer");
}

#[test]
fn a_skip_for_a_dependency_is_not_what_a_batch_stops_for() {
    let mut schedule = schedule(1, 2, &[]);
    let reason = Reason::Dependency {
        key: "x".to_owned(),
        cause: DependencyCause::Failed,
    };
    skip(&mut schedule, 0, &reason);
    skip(&mut schedule, 1, &Reason::WithdrawnToBacklog);
    assert_eq!(schedule.first_bad(), None);
}
