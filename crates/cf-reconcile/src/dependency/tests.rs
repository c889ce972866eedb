use test_case::test_case;

use super::*;
use crate::Reason as R;

fn shown(state: &DependencyState) -> String {
    match state {
        DependencyState::Met => "met".to_owned(),
        DependencyState::Pending => "pending".to_owned(),
        DependencyState::Dead { key, cause } => format!("{key} {cause}"),
    }
}

#[test_case(Outcome::Completed, &R::Succeeded, TaskStatus::Done => "met"; "completed")]
#[test_case(Outcome::Completed, &R::Succeeded, TaskStatus::Merged => "met"; "merged since")]
#[test_case(Outcome::Completed, &R::Succeeded, TaskStatus::Ready => "a not done"; "completed and set ready since")]
#[test_case(Outcome::Skipped, &R::AlreadyDone, TaskStatus::Done => "met"; "done before")]
#[test_case(Outcome::Skipped, &R::ExternallyCompleted, TaskStatus::Done => "met"; "done elsewhere")]
#[test_case(Outcome::Skipped, &R::IssueClosed, TaskStatus::Done => "met"; "its issue was closed")]
#[test_case(Outcome::Skipped, &R::PullRequestMerged, TaskStatus::Ready => "met"; "skipped because its work is done")]
#[test_case(Outcome::Skipped, &R::ExternallyFailed, TaskStatus::Failed => "a failed"; "failed elsewhere")]
#[test_case(Outcome::Skipped, &R::ExternallyFailedWhileBlocked, TaskStatus::Failed => "a failed"; "failed while held")]
#[test_case(Outcome::Skipped, &R::WithdrawnToBacklog, TaskStatus::Backlog => "a withdrawn"; "withdrawn")]
#[test_case(Outcome::Skipped, &R::IssueClosedAsNotPlanned, TaskStatus::Backlog => "a not needed"; "not planned")]
#[test_case(Outcome::Skipped, &R::IssueClosedAsDuplicate, TaskStatus::Backlog => "a not needed"; "duplicate")]
#[test_case(Outcome::Failed, &R::PullRequestClosed, TaskStatus::Failed => "a failed"; "its pull request was closed")]
#[test_case(Outcome::Failed, &R::Other(String::new()), TaskStatus::Failed => "a failed"; "b8 failed here")]
#[test_case(Outcome::Failed, &R::Other(String::new()), TaskStatus::Done => "met"; "failed here and fixed by a person")]
#[test_case(Outcome::Blocked, &R::TheAgentAsked, TaskStatus::Blocked => "a blocked"; "ended blocked")]
#[test_case(Outcome::Blocked, &R::InProgressByHand, TaskStatus::InProgress => "a blocked"; "a person works on it")]
#[test_case(Outcome::Cancelled, &R::StoppedByHand, TaskStatus::Ready => "a not done"; "stopped by hand")]
fn finished_in_the_batch(outcome: Outcome, reason: &Reason, stored: TaskStatus) -> String {
    let seen = Dependency::Finished {
        outcome,
        reason,
        stored: Stored::Status(stored),
        claim: LiveClaim::None,
    };
    shown(&seen.state("a"))
}

#[test]
fn a_deleted_dependency_is_said_and_does_not_hang() {
    for (outcome, reason) in [
        (Outcome::Skipped, R::TaskDeleted),
        (Outcome::Completed, R::Succeeded),
    ] {
        let seen = Dependency::Finished {
            outcome,
            reason: &reason,
            stored: Stored::Deleted,
            claim: LiveClaim::None,
        };
        assert_eq!(shown(&seen.state("a")), "a deleted");
    }
}

#[test]
fn a_chain_names_the_task_at_which_it_began() {
    for cause in DependencyCause::ALL {
        let reason = R::Dependency {
            key: "first".to_owned(),
            cause: *cause,
        };
        let seen = Dependency::Finished {
            outcome: Outcome::Skipped,
            reason: &reason,
            stored: Stored::Status(TaskStatus::Ready),
            claim: LiveClaim::None,
        };
        let state = seen.state("second");
        assert_eq!(shown(&state), format!("first {cause}"));
        assert_eq!(decide_waiting([&state]), WaitingDecision::Skip(reason));
    }
}

#[test_case(TaskStatus::Done, LiveClaim::None => "met"; "done")]
#[test_case(TaskStatus::Merged, LiveClaim::None => "met"; "merged")]
#[test_case(TaskStatus::Done, LiveClaim::Some => "pending"; "done but its agent still runs")]
#[test_case(TaskStatus::InProgress, LiveClaim::Some => "pending"; "b9 another batch works on it")]
#[test_case(TaskStatus::InProgress, LiveClaim::None => "a not done"; "in progress by hand")]
#[test_case(TaskStatus::Ready, LiveClaim::None => "a not done"; "nobody works on it")]
#[test_case(TaskStatus::Blocked, LiveClaim::None => "a not done"; "blocked outside")]
fn outside_the_batch(stored: TaskStatus, claim: LiveClaim) -> String {
    let stored = Stored::Status(stored);
    shown(&Dependency::Outside { stored, claim }.state("a"))
}

#[test]
fn one_that_runs_again_elsewhere_is_waited_for() {
    let seen = Dependency::Finished {
        outcome: Outcome::Failed,
        reason: &R::Other("exit code 1".to_owned()),
        stored: Stored::Status(TaskStatus::InProgress),
        claim: LiveClaim::Some,
    };
    assert_eq!(seen.state("a"), DependencyState::Pending);
    assert_eq!(Dependency::Unfinished.state("a"), DependencyState::Pending);
}

#[test_case(&["met", "met"] => "queue"; "all met")]
#[test_case(&[] => "queue"; "no dependency")]
#[test_case(&["met", "pending"] => "wait"; "one to come")]
#[test_case(&["pending", "failed"] => "dependency 1 failed"; "one dead needs no waiting")]
#[test_case(&["blocked", "failed"] => "dependency 1 failed"; "bad before held")]
#[test_case(&["failed", "deleted"] => "dependency 0 failed"; "the first of two bad ones")]
#[test_case(&["not done", "blocked"] => "dependency 0 not done"; "the first of two held ones")]
#[test_case(&["not needed", "blocked"] => "dependency 0 not needed"; "dropped before held")]
fn waiting(words: &[&str]) -> String {
    let states: Vec<DependencyState> = words
        .iter()
        .enumerate()
        .map(|(at, word)| match *word {
            "met" => DependencyState::Met,
            "pending" => DependencyState::Pending,
            cause => dead(&at.to_string(), cause.parse().unwrap()),
        })
        .collect();
    match decide_waiting(&states) {
        WaitingDecision::Wait => "wait".to_owned(),
        WaitingDecision::Queue => "queue".to_owned(),
        WaitingDecision::Skip(reason) => reason.to_string(),
    }
}

#[test]
fn causes_read_back_as_written() {
    for cause in DependencyCause::ALL {
        assert_eq!(cause.to_string().parse(), Ok(*cause));
    }
    let error = "gone".parse::<DependencyCause>().unwrap_err();
    assert_eq!(error.allowed.len(), DependencyCause::ALL.len());
}
