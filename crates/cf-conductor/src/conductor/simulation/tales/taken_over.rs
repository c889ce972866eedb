//! An attempt of a batch that is gone, taken over for a task that has its outcome here already: until its end is
//! verified it is this batch's to look after, whatever is said of the task meanwhile.

use cf_core::{Actor, AttemptEnd, BatchStatus, EventType, TaskStatus};
use cf_reconcile::FailureCause;

use super::{
    BAD, GOOD, KILLED, agent, begin, end, ended, open_attempt, parallel, runs, stands, status,
    turn, world,
};
use crate::conductor::run::Goal;
use crate::conductor::simulation::world::World;
use crate::store::batch::Stop;
use crate::store::event::EventFilter;
use crate::store::task::TaskEdit;

const LOST: (AttemptEnd, bool, FailureCause) = (AttemptEnd::Lost, false, FailureCause::Lost);

/// How many turns go by until the end of the attempt that was taken over is heard.
const UNTIL_HEARD: usize = 3;

/// A world in which t0 has failed in a batch, ran again in another one that is gone, and was taken over by the first:
/// there t1 waits for it, and nothing else is left to do. The end of the attempt is heard some turns later.
fn taken_over(fate: (AttemptEnd, bool, FailureCause)) -> (World, usize) {
    taken_over_of(&TaskEdit::default(), fate)
}

/// The same, where t0 was edited before it ran again.
fn taken_over_of(edit: &TaskEdit, fate: (AttemptEnd, bool, FailureCause)) -> (World, usize) {
    let mut world = world(3, &[(1, 0)]);
    let first = begin(&mut world, &[0, 1, 2], parallel());
    end(&mut world, 0, BAD);
    turn(&mut world, first);
    let task = world.tasks[0];
    world.try_write(&Actor::Cli, |tx| tx.edit_task(task, edit).map(drop));
    let second = begin(&mut world, &[0], parallel());
    turn(&mut world, first);
    end(&mut world, 2, GOOD);
    world.crash(second);
    end(&mut world, 0, fate);
    world.sweep_ms = 10_000 * UNTIL_HEARD as i64;
    turn(&mut world, first);
    let batch = world.conductors[first].batch;
    assert_eq!(open_attempt(&world, 0).batch, batch);
    assert_eq!(stands(&world, first, 0), "FAILED Exit");
    assert_eq!(stands(&world, first, 1), "waiting");
    (world, first)
}

/// The turns until the end of the attempt is heard; the batch does not end in any of them.
fn until_heard(world: &mut World, which: usize) {
    for _ in 1..UNTIL_HEARD {
        turn(world, which);
        assert!(!ended(world, which) && is_open(world));
    }
}

fn turns(world: &mut World, which: usize) {
    (0..3).for_each(|_| turn(world, which));
}

/// Whether any attempt is open.
fn is_open(world: &World) -> bool {
    !world.open_attempts().is_empty()
}

fn told(world: &World, kind: EventType) -> usize {
    let filter = EventFilter::default();
    let events = world.store.read(|reader| reader.event_list(&filter));
    events.unwrap().iter().filter(|e| e.kind == kind).count()
}

#[test]
fn the_end_of_an_attempt_that_was_taken_over_makes_its_task_what_it_is_and_changes_no_outcome() {
    for (fate, becomes) in [(GOOD, TaskStatus::Done), (LOST, TaskStatus::Failed)] {
        let (mut world, first) = taken_over(fate);
        until_heard(&mut world, first);
        // It is not given up in between.
        assert_eq!(stands(&world, first, 1), "waiting");
        turns(&mut world, first);
        assert_eq!(status(&world, 0), becomes);
        if fate == GOOD {
            assert!(runs(&world, 1));
            end(&mut world, 1, GOOD);
        }
        turns(&mut world, first);
        assert_eq!(stands(&world, first, 0), "FAILED Exit");
        assert_eq!(
            told(&world, EventType::AttemptEnded),
            3 + usize::from(fate == GOOD)
        );
        assert_eq!(world.conductors[first].ended, Some(BatchStatus::Partial));
    }
}

#[test]
fn a_batch_does_not_end_while_it_has_an_open_attempt_that_nothing_waits_for() {
    let (mut world, first) = taken_over(LOST);
    let waits = world.tasks[1];
    world.set_status(waits, TaskStatus::Done);
    until_heard(&mut world, first);
    assert_eq!(stands(&world, first, 1), "SKIPPED externally completed");
    turns(&mut world, first);
    assert!(ended(&world, first) && !is_open(&world));
}

#[test]
fn a_task_set_done_is_no_met_dependency_while_an_attempt_that_was_taken_over_is_open() {
    let (mut world, first) = taken_over(LOST);
    let task = world.tasks[0];
    world.set_status(task, TaskStatus::Done);
    until_heard(&mut world, first);
    assert!(
        !runs(&world, 1),
        "what its agent left is still being stopped"
    );
    turns(&mut world, first);
    assert!(runs(&world, 1));
    assert_eq!(status(&world, 0), TaskStatus::Done);
}

#[test]
fn a_task_that_is_reopened_runs_again_when_the_attempt_that_was_taken_over_has_ended() {
    for fate in [GOOD, LOST] {
        let (mut world, first) = taken_over(fate);
        let task = world.tasks[0];
        world.set_status(task, TaskStatus::Ready);
        until_heard(&mut world, first);
        assert!(!runs(&world, 0));
        turns(&mut world, first);
        assert!(runs(&world, 0));
        assert_eq!(told(&world, EventType::AttemptStaleResult), 1);
        end(&mut world, 0, GOOD);
        turns(&mut world, first);
        assert_eq!(stands(&world, first, 0), "COMPLETED succeeded");
    }
}

#[test]
fn a_task_that_an_attempt_without_result_leaves_ready_runs_again_where_it_was_taken_over() {
    let (mut world, first) = taken_over(KILLED);
    until_heard(&mut world, first);
    turns(&mut world, first);
    assert!(runs(&world, 0));
    assert_eq!(told(&world, EventType::BatchTaskRequeued), 1);
    end(&mut world, 0, GOOD);
    turns(&mut world, first);
    assert_eq!(stands(&world, first, 0), "COMPLETED succeeded");
    assert!(runs(&world, 1));
}

#[test]
fn a_success_that_was_not_verified_is_kept_as_stale_and_its_task_runs_again() {
    let verified = TaskEdit {
        verify: Some(Some("true".to_owned())),
        ..TaskEdit::default()
    };
    let (mut world, first) = taken_over_of(&verified, GOOD);
    until_heard(&mut world, first);
    turns(&mut world, first);
    assert!(runs(&world, 0) && !runs(&world, 1));
    assert_eq!(told(&world, EventType::AttemptStaleResult), 1);
}

#[test]
fn a_resume_takes_up_what_has_failed_with_the_attempt_that_was_taken_over() {
    for (fate, outcome) in [(GOOD, "COMPLETED succeeded"), (LOST, "FAILED Lost")] {
        let (mut world, first) = taken_over(fate);
        world.crash(first);
        world.pick_up(first, false, None);
        assert_eq!(stands(&world, first, 0), "running");
        until_heard(&mut world, first);
        turns(&mut world, first);
        assert_eq!(stands(&world, first, 0), outcome);
        assert_eq!(runs(&world, 1), fate == GOOD);
    }
}

#[test]
fn a_resume_skips_what_was_set_done_when_the_attempt_that_was_taken_over_has_ended() {
    let (mut world, first) = taken_over(GOOD);
    world.crash(first);
    let task = world.tasks[0];
    world.set_status(task, TaskStatus::Done);
    world.pick_up(first, false, None);
    until_heard(&mut world, first);
    turns(&mut world, first);
    assert_eq!(stands(&world, first, 0), "SKIPPED already done");
    assert!(runs(&world, 1));
}

#[test]
fn a_batch_that_is_stopped_ends_with_what_it_took_over() {
    for stop in [Stop::Drain, Stop::Force] {
        for is_picked_up in [false, true] {
            let (mut world, first) = taken_over(LOST);
            let id = world.conductors[first].batch;
            world.try_write(&Actor::Cli, |tx| tx.request_stop(id, stop).map(drop));
            if is_picked_up {
                world.crash(first);
                world.pick_up(first, false, Some(stop));
            }
            until_heard(&mut world, first);
            turns(&mut world, first);
            assert_eq!(world.conductors[first].ended, Some(BatchStatus::Cancelled));
            assert_eq!(stands(&world, first, 0), "FAILED Exit");
            assert_eq!(stands(&world, first, 1), "CANCELLED stopped");
            assert_eq!(status(&world, 0), TaskStatus::Failed);
        }
    }
}

#[test]
fn a_stop_in_the_moment_of_a_reopening_is_told_after_it() {
    let (mut world, first) = taken_over(LOST);
    let (id, task) = (world.conductors[first].batch, world.tasks[0]);
    world.set_status(task, TaskStatus::Ready);
    world.try_write(&Actor::Cli, |tx| tx.request_stop(id, Stop::Force).map(drop));
    turn(&mut world, first);
    for kind in [
        EventType::BatchTaskRequeued,
        EventType::BatchTaskStopping,
        EventType::AttemptAdopted,
    ] {
        assert_eq!(told(&world, kind), 1, "{kind}");
    }
    turns(&mut world, first);
    assert_eq!(stands(&world, first, 0), "CANCELLED stopped");
    assert_eq!(world.conductors[first].ended, Some(BatchStatus::Cancelled));
}

#[test]
fn a_task_that_is_reopened_after_a_stop_is_not_said_to_be_stopping_and_does_not_start() {
    let (mut world, first) = taken_over(LOST);
    let (id, task) = (world.conductors[first].batch, world.tasks[0]);
    world.try_write(&Actor::Cli, |tx| tx.request_stop(id, Stop::Force).map(drop));
    turn(&mut world, first);
    world.set_status(task, TaskStatus::Ready);
    turn(&mut world, first);
    assert_eq!(stands(&world, first, 0), "running");
    turns(&mut world, first);
    assert_eq!(stands(&world, first, 0), "CANCELLED stopped");
    assert!(ended(&world, first) && !runs(&world, 0));
    assert_eq!(status(&world, 0), TaskStatus::Ready);
}

#[test]
fn a_stop_by_hand_of_what_was_taken_over_starts_nothing_in_the_batch() {
    for (hold, becomes) in [(false, TaskStatus::Ready), (true, TaskStatus::Blocked)] {
        for crashes in [false, true] {
            let (mut world, first) = taken_over(LOST);
            let task = world.tasks[0];
            world.stop_task(task, hold);
            if crashes {
                world.crash_after_commit = true;
                turn(&mut world, first);
                world.crash_after_commit = false;
                world.pick_up(first, false, Some(Stop::Drain));
            }
            until_heard(&mut world, first);
            turns(&mut world, first);
            assert!(ended(&world, first) && !is_open(&world));
            assert_eq!(status(&world, 0), becomes);
            assert_eq!(stands(&world, first, 0), "FAILED Exit");
        }
    }
}

#[test]
fn a_task_that_is_deleted_leaves_no_attempt_open_that_was_taken_over() {
    let (mut world, first) = taken_over(GOOD);
    let task = world.tasks[0];
    world.try_write(&Actor::Cli, |tx| tx.delete_task(task, true));
    until_heard(&mut world, first);
    turns(&mut world, first);
    assert!(ended(&world, first) && !is_open(&world));
    assert_eq!(told(&world, EventType::AttemptStaleResult), 1);
    assert_eq!(stands(&world, first, 0), "FAILED Exit");
}

#[test]
fn a_pass_by_hand_settles_what_a_dead_conductor_had_taken_over() {
    let (mut world, first) = taken_over(GOOD);
    world.crash(first);
    world.take_hold(first, &Goal::Pass(None));
    until_heard(&mut world, first);
    turn(&mut world, first);
    assert!(!is_open(&world) && !ended(&world, first));
    assert_eq!(status(&world, 0), TaskStatus::Done);
    assert_eq!(stands(&world, first, 0), "FAILED Exit");
}

#[test]
fn an_attempt_that_was_taken_over_and_dropped_is_settled_by_who_begins_its_task_again() {
    let (mut world, first) = taken_over(GOOD);
    world.crash(first);
    let third = begin(&mut world, &[0], parallel());
    until_heard(&mut world, third);
    turns(&mut world, third);
    assert_eq!(stands(&world, third, 0), "COMPLETED succeeded");
    world.pick_up(first, false, None);
    turns(&mut world, first);
    assert_eq!(stands(&world, first, 0), "SKIPPED already done");
    let agent = agent(&world, 1);
    world.end_agent_as(agent, GOOD);
    turns(&mut world, first);
    assert_eq!(world.conductors[first].ended, Some(BatchStatus::Completed));
}
