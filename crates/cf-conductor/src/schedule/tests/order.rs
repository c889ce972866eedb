//! What starts when: dependencies, priority, position, slots, gates, retries.

use std::collections::HashSet;

use cf_core::{Outcome, Phase, TaskStatus};
use cf_reconcile::{LiveClaim, Reason, Stored};
use proptest::prelude::*;
use test_case::test_case;

use super::*;
use crate::schedule::Mode;

#[test_case(&[0, 0, 0], &[] => vec![0, 1, 2]; "position decides among equals")]
#[test_case(&[2, 1, 0], &[] => vec![2, 1, 0]; "the urgent one is first")]
#[test_case(&[0, 5, 0], &[(2, 1)] => vec![0, 1, 2]; "a dependency goes before however unimportant it is")]
#[test_case(&[0, 0, 0], &[(0, 1), (1, 2)] => vec![2, 1, 0]; "a list in the wrong order runs in the right one")]
#[test_case(&[1, 0, 0, 0], &[(1, 0), (2, 0), (3, 1), (3, 2)] => vec![0, 1, 2, 3]; "a diamond")]
fn serial_order(priorities: &[i64], edges: &[(usize, usize)]) -> Vec<usize> {
    let mut schedule = with_priorities(1, priorities, edges);
    let mut order = Vec::new();
    loop {
        let started = start_all(&mut schedule, at(0));
        let [one] = started.as_slice() else {
            return order;
        };
        order.push(*one);
        complete(&mut schedule, *one, at(0));
    }
}

#[test]
fn the_fast_branch_of_a_diamond_does_not_wait_for_the_slow_one() {
    // 0 → 1 → 3 and 0 → 2 → 4: while 1 is slow, 4 starts.
    let mut schedule = schedule(2, 5, &[(1, 0), (2, 0), (3, 1), (4, 2)]);
    assert_eq!(start_all(&mut schedule, at(0)), [0]);
    complete(&mut schedule, 0, at(1));
    assert_eq!(start_all(&mut schedule, at(1)), [1, 2]);
    complete(&mut schedule, 2, at(2));
    assert_eq!(start_all(&mut schedule, at(2)), [4]);
    assert_eq!(phase(&schedule, 3), Phase::Waiting);
}

#[test]
fn a_waiting_task_holds_no_slot_and_a_stopping_one_does() {
    let mut schedule = schedule(1, 3, &[(1, 0)]);
    assert_eq!(start_all(&mut schedule, at(0)), [0]);
    schedule.stopping(id(0), &Reason::ExternallyBlocked, None);
    assert_eq!((schedule.busy(), schedule.next(at(0))), (1, None));
    schedule.hold(id(0), &Reason::ExternallyBlocked, None);
    assert_eq!(start_all(&mut schedule, at(0)), [2]);
}

#[test]
fn a_retry_starts_when_it_is_due_and_not_before() {
    let mut schedule = schedule(1, 2, &[]);
    assert_eq!(start_all(&mut schedule, at(0)), [0]);
    schedule.retry(id(0), at(500), Reason::from("exit code 1"));
    schedule.settle(at(0));
    assert_eq!(schedule.next_due(), Some(at(500)));
    // Others go ahead in the meantime, and a slot that is busy does not lose the retry.
    assert_eq!(start_all(&mut schedule, at(499)), [1]);
    assert_eq!(schedule.next(at(500)), None);
    complete(&mut schedule, 1, at(700));
    assert!(!schedule.is_idle());
    assert_eq!(start_all(&mut schedule, at(700)), [0]);
    let row = schedule.row(id(0)).unwrap();
    assert_eq!((row.attempts, row.failures, row.not_before), (2, 1, None));
    assert_eq!(schedule.next_due(), None);
}

#[test]
fn a_retry_that_became_due_keeps_its_place_when_its_priority_changes() {
    let mut schedule = schedule(1, 2, &[]);
    assert_eq!(start_all(&mut schedule, at(0)), [0]);
    schedule.retry(id(0), at(10), Reason::from("exit code 1"));
    assert_eq!(schedule.next(at(20)), Some(id(0)));
    schedule.set_priority(id(0), 7);
    schedule.recount();
    assert_eq!(start_all(&mut schedule, at(20)), [1]);
    complete(&mut schedule, 1, at(20));
    assert_eq!(start_all(&mut schedule, at(20)), [0]);
}

#[test_case(Gate::ClaimedElsewhere, false; "a claim elsewhere is waited for")]
#[test_case(Gate::AwaitingLook, false; "a look is waited for")]
#[test_case(Gate::InProgressByHand, true; "a person is not waited for")]
fn a_gate_keeps_a_task_from_starting(gate: Gate, idle: bool) {
    let mut schedule = schedule(2, 1, &[]);
    schedule.set_gate(id(0), gate);
    assert_eq!(schedule.next(at(0)), None);
    assert_eq!(schedule.is_idle(), idle);
    schedule.set_gate(id(0), Gate::Open);
    assert_eq!(start_all(&mut schedule, at(0)), [0]);
}

#[test]
fn a_task_outside_the_batch_is_waited_for_while_somebody_works_on_it() {
    let outside = outsider(9, TaskStatus::InProgress, LiveClaim::Some);
    let mut schedule = Schedule::new(1, vec![member(0, 0)], vec![outside], [(id(0), id(9))]);
    schedule.settle_all(at(0));
    assert_eq!(phase(&schedule, 0), Phase::Waiting);
    assert!(!schedule.is_idle() && schedule.waits_for_claims());
    schedule.saw(id(9), Stored::Status(TaskStatus::Done), LiveClaim::None);
    schedule.settle(at(1));
    assert_eq!(start_all(&mut schedule, at(1)), [0]);
}

#[test]
fn nothing_starts_once_it_is_closed_and_what_runs_may_end() {
    let mut schedule = schedule(2, 3, &[(2, 0)]);
    assert_eq!(start_all(&mut schedule, at(0)), [0, 1]);
    schedule.close();
    complete(&mut schedule, 0, at(1));
    assert_eq!(
        (schedule.mode(), schedule.next(at(1))),
        (Mode::Closing, None)
    );
    assert!(!schedule.is_idle());
    fail(&mut schedule, 1, at(1));
    assert!(schedule.is_idle());
    schedule.wind_up(&Reason::Stopped, at(2));
    assert_eq!(ended(&schedule, 2), "CANCELLED stopped");
}

/// Edges from later numbers to earlier ones only, so that there is no cycle.
fn graphs() -> impl Strategy<Value = (usize, Vec<i64>, Vec<(usize, usize)>)> {
    (1usize..12).prop_flat_map(|members| {
        let edges = proptest::collection::vec((0..members, 0..members), 0..24).prop_map(|pairs| {
            pairs
                .into_iter()
                .filter(|(a, b)| a > b)
                .collect::<HashSet<_>>()
                .into_iter()
                .collect()
        });
        (
            1usize..4,
            proptest::collection::vec(0i64..3, members),
            edges,
        )
    })
}

proptest! {
    /// However agents end, nothing starts before what it depends on, no more run than there are slots, no slot stays
    /// empty while something could start, and at the end everything has an outcome.
    #[test]
    fn every_run_comes_to_its_end((slots, priorities, edges) in graphs(), ends in proptest::collection::vec(any::<(u8, bool)>(), 64)) {
        let mut schedule = with_priorities(slots, &priorities, &edges);
        let mut running: Vec<usize> = Vec::new();
        let mut done: HashSet<usize> = HashSet::new();
        let mut ends = ends.into_iter().cycle();
        loop {
            let started = start_all(&mut schedule, at(0));
            for task in &started {
                for (_, on) in edges.iter().filter(|(dependent, _)| dependent == task) {
                    prop_assert!(done.contains(on), "t{} started before t{}", task, on);
                }
            }
            running.extend(started);
            prop_assert!(running.len() <= slots);
            prop_assert!(running.len() == slots || schedule.count(Phase::Queued) == 0);
            let Some((which, good)) = ends.next().filter(|_| !running.is_empty()) else { break };
            let task = running.swap_remove(usize::from(which) % running.len());
            if good {
                done.insert(task);
                complete(&mut schedule, task, at(0));
            } else {
                fail(&mut schedule, task, at(0));
            }
            schedule.recount();
        }
        prop_assert!(schedule.is_idle());
        schedule.wind_up(&Reason::Stopped, at(1));
        prop_assert_eq!(schedule.count(Phase::Finished), priorities.len());
        for nth in 0..priorities.len() {
            let row = schedule.row(id(nth)).unwrap();
            let doomed = edges.iter().any(|(task, on)| *task == nth && !done.contains(on));
            prop_assert_eq!(row.outcome == Some(Outcome::Skipped), doomed);
        }
    }
}
