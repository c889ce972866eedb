//! What the simulation found, each as a small story of its own, told step by step in a world where nothing else
//! happens.

mod taken_over;

use std::time::Duration;

use cf_core::{
    Actor, AttemptEnd, AttemptId, BatchId, EventType, Outcome, Phase, Strategy, TaskId, TaskStatus,
};
use cf_reconcile::FailureCause;
use serde_json::Value;

use super::world::World;
use crate::ambient::simulated;
use crate::conductor::recover;
use crate::conductor::take_up::Again;
use crate::conductor::turn::News;
use crate::settings::{Settings, WaitForBlockers};
use crate::store::Doing as _;
use crate::store::attempt::Attempt;
use crate::store::batch::Stop;
use crate::store::event::{Event, EventFilter};
use crate::store::task::TaskEdit;

const GOOD: (AttemptEnd, bool, FailureCause) = (AttemptEnd::Exited, true, FailureCause::Exit);
const BAD: (AttemptEnd, bool, FailureCause) = (AttemptEnd::Exited, false, FailureCause::Exit);
const KILLED: (AttemptEnd, bool, FailureCause) = (AttemptEnd::Killed, false, FailureCause::Stopped);
const UNCLEAN: (AttemptEnd, bool, FailureCause) =
    (AttemptEnd::Unclean, false, FailureCause::Stopped);

/// A world in which nothing happens by chance, with so many tasks and edges `(task, depends on)`.
fn world(tasks: usize, edges: &[(usize, usize)]) -> World {
    let mut world = World::new(1);
    world.quiet();
    for nth in 0..tasks {
        world.add_plain_task(nth);
    }
    for (task, on) in edges {
        let (task, on) = (world.tasks[*task], world.tasks[*on]);
        world.try_write(&Actor::Cli, |tx| tx.add_dependency(task, on).map(drop));
    }
    world
}

fn parallel() -> Settings {
    Settings {
        strategy: Strategy::Parallel,
        max_parallel: 4,
        retry_delay: Duration::ZERO,
        ..Settings::default()
    }
}

fn parallel_of(slots: usize) -> Settings {
    Settings {
        max_parallel: slots,
        ..parallel()
    }
}

fn begin(world: &mut World, tasks: &[usize], settings: Settings) -> usize {
    let tasks: Vec<TaskId> = tasks.iter().map(|nth| world.tasks[*nth]).collect();
    let which = world.begin(&tasks, settings, Again::No);
    turn(world, which);
    which
}

fn turn(world: &mut World, which: usize) {
    // Long enough for whatever is given time to settle.
    world.pass_time(10_000);
    if world.conductors[which].core.is_some() {
        world.one_loop(which);
    }
    world.check();
}

/// The agent of a task, which does not end by itself.
fn agent(world: &World, nth: usize) -> AttemptId {
    let task = world.tasks[nth];
    let running = world.agents.values().find(|agent| agent.task == task);
    running
        .unwrap_or_else(|| panic!("t{nth} has no agent"))
        .attempt
}

fn runs(world: &World, nth: usize) -> bool {
    world
        .agents
        .values()
        .any(|agent| agent.task == world.tasks[nth])
}

fn end(world: &mut World, nth: usize, fate: (AttemptEnd, bool, FailureCause)) {
    let attempt = agent(world, nth);
    world.end_agent_as(attempt, fate);
}

fn status(world: &World, nth: usize) -> TaskStatus {
    world
        .store
        .read(|reader| reader.task(world.tasks[nth]))
        .unwrap()
        .status
}

/// Where a task stands in a batch, in words.
fn stands(world: &World, which: usize, nth: usize) -> String {
    let batch: BatchId = world.conductors[which].batch;
    let row = world
        .store
        .read(|reader| reader.batch_task(batch, world.tasks[nth]))
        .unwrap()
        .unwrap();
    match row.outcome {
        Some(outcome) => format!("{outcome} {}", row.reason.unwrap_or_default()),
        None => row.phase.to_string(),
    }
}

/// Has the store fail where it reads a table.
fn rename(world: &mut World, from: &str, to: &str) {
    let sql = format!("ALTER TABLE {from} RENAME TO {to}");
    world.try_write(&Actor::System, |tx| {
        tx.conn.execute_batch(&sql).doing("rename a table")
    });
}

fn ended(world: &World, which: usize) -> bool {
    world.conductors[which].ended.is_some()
}

#[test]
fn a_task_that_was_done_before_the_take_up_is_skipped_when_another_claim_on_it_ends() {
    let mut world = world(1, &[]);
    let first = begin(&mut world, &[0], parallel());
    let task = world.tasks[0];
    world.set_status(task, TaskStatus::Done);
    let second = begin(&mut world, &[0], parallel());
    assert_eq!(stands(&world, second, 0), "queued");
    end(&mut world, 0, KILLED);
    turn(&mut world, first);
    // The second of these turns never came to its end: the claim was tried again and again.
    for _ in 0..3 {
        turn(&mut world, second);
    }
    assert_eq!(stands(&world, second, 0), "SKIPPED already done");
}

#[test]
fn a_task_that_another_claim_kept_from_the_take_up_is_taken_up_when_that_ends() {
    let mut world = world(1, &[]);
    let first = begin(&mut world, &[0], parallel());
    let task = world.tasks[0];
    world.set_status(task, TaskStatus::Backlog);
    let second = begin(&mut world, &[0], parallel());
    turn(&mut world, first);
    end(&mut world, 0, KILLED);
    turn(&mut world, first);
    turn(&mut world, second);
    turn(&mut world, second);
    assert!(runs(&world, 0));
}

#[test]
fn an_agent_whose_stop_was_stored_and_not_sent_is_told_by_the_next_conductor() {
    let mut world = world(1, &[]);
    let batch = begin(&mut world, &[0], parallel());
    let task = world.tasks[0];
    world.set_status(task, TaskStatus::Blocked);
    world.crash_after_commit = true;
    turn(&mut world, batch);
    assert_eq!(stands(&world, batch, 0), "stopping");
    assert_eq!(world.agents[&agent(&world, 0)].killed_at, None);
    world.crash_after_commit = false;
    world.pick_up(batch, false, None);
    turn(&mut world, batch);
    assert!(world.agents[&agent(&world, 0)].killed_at.is_some());
}

#[test]
fn the_success_of_an_agent_whose_verification_never_began_is_kept_when_the_batch_is_stopped() {
    let mut world = world(1, &[]);
    let verified = TaskEdit {
        verify: Some(Some("true".to_owned())),
        ..TaskEdit::default()
    };
    let task = world.tasks[0];
    world.try_write(&Actor::Cli, |tx| tx.edit_task(task, &verified).map(drop));
    let batch = begin(&mut world, &[0], parallel());
    let attempt = agent(&world, 0);
    world.crash_after_commit = true;
    end(&mut world, 0, GOOD);
    turn(&mut world, batch);
    world.crash_after_commit = false;
    world.pick_up(batch, false, Some(Stop::Force));
    turn(&mut world, batch);
    turn(&mut world, batch);
    assert!(ended(&world, batch));
    assert_eq!(status(&world, 0), TaskStatus::Ready);
    let stored = world.store.read(|reader| reader.attempt(attempt)).unwrap();
    assert_eq!(
        (stored.end, stored.success),
        (Some(AttemptEnd::Exited), Some(true))
    );
    let mut kept = 0;
    let stale = |event: Event| {
        kept += u32::from(event.kind == EventType::AttemptStaleResult);
        Ok(())
    };
    world
        .store
        .read(|reader| reader.events(&EventFilter::default(), stale))
        .unwrap();
    assert_eq!(kept, 1, "the result is kept as stale");
}

#[test]
fn a_task_that_was_stopped_by_hand_does_not_start_again_whatever_was_known_first() {
    for crash in [false, true] {
        let mut world = world(1, &[]);
        let batch = begin(&mut world, &[0], parallel());
        let task = world.tasks[0];
        world.stop_task(task, false);
        world.crash_after_commit = crash;
        turn(&mut world, batch);
        world.crash_after_commit = false;
        if crash {
            world.pick_up(batch, false, None);
            turn(&mut world, batch);
        }
        end(&mut world, 0, KILLED);
        turn(&mut world, batch);
        turn(&mut world, batch);
        assert_eq!(stands(&world, batch, 0), "CANCELLED stopped by hand");
        assert!(!runs(&world, 0) && ended(&world, batch));
    }
}

#[test]
fn a_task_that_was_stopped_and_held_by_hand_is_blocked() {
    let mut world = world(1, &[]);
    let batch = begin(&mut world, &[0], parallel());
    let task = world.tasks[0];
    world.stop_task(task, true);
    turn(&mut world, batch);
    end(&mut world, 0, KILLED);
    turn(&mut world, batch);
    turn(&mut world, batch);
    assert_eq!(stands(&world, batch, 0), "BLOCKED stopped by hand");
    assert_eq!(status(&world, 0), TaskStatus::Blocked);
}

#[test]
fn a_stop_of_another_batchs_agent_cancels_nothing_here() {
    let mut world = world(1, &[]);
    let first = begin(&mut world, &[0], parallel());
    let second = begin(&mut world, &[0], parallel());
    let task = world.tasks[0];
    world.stop_task(task, false);
    turn(&mut world, first);
    turn(&mut world, second);
    end(&mut world, 0, KILLED);
    turn(&mut world, first);
    turn(&mut world, second);
    turn(&mut world, second);
    assert_eq!(stands(&world, first, 0), "CANCELLED stopped by hand");
    assert!(runs(&world, 0), "the second batch runs it");
}

#[test]
fn a_stop_is_heard_although_the_transaction_that_heard_it_failed() {
    let mut world = world(1, &[]);
    let batch = begin(&mut world, &[0], parallel());
    let id = world.conductors[batch].batch;
    world.try_write(&Actor::Cli, |tx| tx.request_stop(id, Stop::Force).map(drop));
    world.faults = 100;
    turn(&mut world, batch);
    world.faults = 0;
    turn(&mut world, batch);
    assert!(world.agents[&agent(&world, 0)].killed_at.is_some());
    end(&mut world, 0, KILLED);
    turn(&mut world, batch);
    assert!(ended(&world, batch));
    assert_eq!(status(&world, 0), TaskStatus::Ready);
}

#[test]
fn a_batch_whose_attempt_another_batch_settled_can_be_stopped() {
    let mut world = world(1, &[]);
    let first = begin(&mut world, &[0], parallel());
    world.crash(first);
    let second = begin(&mut world, &[0], parallel());
    end(&mut world, 0, GOOD);
    turn(&mut world, second);
    turn(&mut world, second);
    assert_eq!(stands(&world, first, 0), "running");
    world.pick_up(first, false, Some(Stop::Drain));
    turn(&mut world, first);
    assert!(ended(&world, first));
}

#[test]
fn a_retry_of_an_attempt_that_was_taken_over_is_not_taken_for_somebody_elses() {
    let mut world = world(1, &[]);
    let first = begin(&mut world, &[0], parallel());
    let second = begin(
        &mut world,
        &[0],
        Settings {
            retry: 1,
            ..parallel()
        },
    );
    world.crash(first);
    end(&mut world, 0, BAD);
    turn(&mut world, second);
    turn(&mut world, second);
    assert!(runs(&world, 0));
    let task = world.tasks[0];
    world.ask(&Actor::Attempt(agent(&world, 0)), None);
    world.try_write(&Actor::Cli, |tx| {
        tx.edit_task(
            task,
            &crate::store::task::TaskEdit {
                priority: Some(3),
                ..Default::default()
            },
        )
        .map(drop)
    });
    turn(&mut world, second);
    assert_eq!(stands(&world, second, 0), "running");
}

#[test]
fn in_progress_by_hand_is_not_taken_over_with_an_attempt() {
    let mut world = world(1, &[]);
    let first = begin(&mut world, &[0], parallel());
    let task = world.tasks[0];
    world.set_status(task, TaskStatus::Blocked);
    world.crash(first);
    let second = begin(&mut world, &[0], parallel());
    world.set_status(task, TaskStatus::InProgress);
    end(&mut world, 0, BAD);
    for _ in 0..4 {
        turn(&mut world, second);
    }
    assert_eq!(status(&world, 0), TaskStatus::InProgress);
    assert_eq!(stands(&world, second, 0), "BLOCKED in progress by hand");
}

#[test]
fn what_was_skipped_for_a_deleted_dependency_stays_skipped_when_the_store_fails() {
    let mut world = world(3, &[(1, 0)]);
    let batch = begin(&mut world, &[0, 1, 2], Settings::default());
    let (first, last) = (world.tasks[0], world.tasks[2]);
    world.try_write(&Actor::Cli, |tx| tx.delete_task(first, true));
    turn(&mut world, batch);
    end(&mut world, 0, KILLED);
    turn(&mut world, batch);
    assert_eq!(stands(&world, batch, 1), "SKIPPED dependency t0 deleted");
    world.faults = 100;
    world.set_status(last, TaskStatus::Blocked);
    turn(&mut world, batch);
    world.faults = 0;
    turn(&mut world, batch);
    turn(&mut world, batch);
    assert_eq!(stands(&world, batch, 1), "SKIPPED dependency t0 deleted");
}

#[test]
fn a_task_that_runs_again_elsewhere_is_waited_for_by_what_was_skipped_for_it() {
    let mut world = world(3, &[(1, 0)]);
    let first = begin(&mut world, &[0, 1, 2], parallel());
    end(&mut world, 0, BAD);
    turn(&mut world, first);
    assert_eq!(stands(&world, first, 1), "SKIPPED dependency t0 failed");
    let second = begin(&mut world, &[0], parallel());
    turn(&mut world, first);
    assert_eq!(stands(&world, first, 1), "waiting");
    end(&mut world, 2, GOOD);
    turn(&mut world, first);
    turn(&mut world, first);
    assert!(!ended(&world, first), "t0 runs elsewhere");
    end(&mut world, 0, GOOD);
    turn(&mut world, second);
    turn(&mut world, first);
    turn(&mut world, first);
    assert!(runs(&world, 1));
}

#[test]
fn at_the_end_nothing_waits_for_what_is_left_of_an_unclean_stop() {
    let mut world = world(3, &[(1, 0), (2, 1)]);
    let batch = begin(&mut world, &[0, 1, 2], parallel());
    let task = world.tasks[0];
    world.set_status(task, TaskStatus::Blocked);
    turn(&mut world, batch);
    end(&mut world, 0, UNCLEAN);
    turn(&mut world, batch);
    turn(&mut world, batch);
    assert!(ended(&world, batch));
    assert_eq!(stands(&world, batch, 2), "SKIPPED dependency t0 blocked");
}

#[test]
fn a_question_about_survivors_is_asked_although_the_task_was_deleted() {
    let mut world = world(1, &[]);
    let batch = begin(&mut world, &[0], parallel());
    let task = world.tasks[0];
    world.try_write(&Actor::Cli, |tx| tx.delete_task(task, true));
    turn(&mut world, batch);
    end(&mut world, 0, UNCLEAN);
    turn(&mut world, batch);
    turn(&mut world, batch);
    assert_eq!(stands(&world, batch, 0), "SKIPPED task deleted");
    assert_eq!(
        world
            .store
            .read(|reader| reader.count_open_blockers())
            .unwrap(),
        1
    );
}

#[test]
fn what_an_ended_batch_left_unclean_is_cleaned_up_by_who_waits_for_it() {
    let mut world = world(1, &[]);
    let first = begin(&mut world, &[0], parallel());
    let task = world.tasks[0];
    world.set_status(task, TaskStatus::Failed);
    turn(&mut world, first);
    end(&mut world, 0, UNCLEAN);
    for _ in 0..3 {
        turn(&mut world, first);
    }
    assert!(ended(&world, first));
    world.set_status(task, TaskStatus::Ready);
    let second = begin(&mut world, &[0], parallel());
    turn(&mut world, second);
    turn(&mut world, second);
    assert!(runs(&world, 0));
}

#[test]
fn without_passes_the_end_of_a_claim_elsewhere_is_noticed() {
    let mut world = world(1, &[]);
    let first = begin(&mut world, &[0], parallel());
    let second = begin(
        &mut world,
        &[0],
        Settings {
            reconcile_interval: Duration::ZERO,
            ..parallel()
        },
    );
    end(&mut world, 0, BAD);
    turn(&mut world, first);
    for _ in 0..3 {
        turn(&mut world, second);
    }
    assert_eq!(stands(&world, second, 0), "SKIPPED externally failed");
}

#[test]
fn a_skip_says_its_own_reason_and_not_that_of_the_reopening_before_it() {
    let mut world = world(3, &[(1, 0)]);
    let batch = begin(&mut world, &[0, 1, 2], parallel());
    end(&mut world, 0, BAD);
    turn(&mut world, batch);
    let second = world.tasks[1];
    world.set_status(second, TaskStatus::Blocked);
    world.set_status(second, TaskStatus::Ready);
    let mut said = Vec::new();
    turn(&mut world, batch);
    let id = world.conductors[batch].batch;
    let filter = crate::store::event::EventFilter {
        batch: Some(id),
        task: Some(second),
        ..Default::default()
    };
    for event in world
        .store
        .read(|reader| reader.event_list(&filter))
        .unwrap()
    {
        if event.kind == cf_core::EventType::BatchTaskSkipped {
            said.push(event.data["reason"].as_str().unwrap_or_default().to_owned());
        }
    }
    assert!(
        said.iter().all(|reason| reason == "dependency t0 failed"),
        "{said:?}"
    );
    let phase = world
        .store
        .read(|reader| reader.batch_task(id, second))
        .unwrap()
        .unwrap();
    assert_eq!(
        (phase.phase, phase.outcome),
        (Phase::Finished, Some(Outcome::Skipped))
    );
}

#[test]
fn a_failed_task_that_is_reopened_with_what_it_depends_on_is_said_to_be() {
    let mut world = world(5, &[]);
    let batch = begin(&mut world, &[4, 1, 0, 2, 3], parallel_of(2));
    let first = world.tasks[0];
    world.set_status(first, TaskStatus::Backlog);
    for nth in 1..=3 {
        turn(&mut world, batch);
        end(&mut world, nth, BAD);
    }
    for nth in 1..=3 {
        let task = world.tasks[nth];
        world.try_write(&Actor::Cli, |tx| tx.add_dependency(task, first).map(drop));
    }
    turn(&mut world, batch);
    assert_eq!(stands(&world, batch, 0), "SKIPPED withdrawn to backlog");
    assert_eq!(stands(&world, batch, 3), "FAILED Exit");
    for nth in 0..=3 {
        let task = world.tasks[nth];
        world.set_status(task, TaskStatus::Ready);
    }
    // Some are looked at before what they depend on, and are skipped for it in between. The log reads the same.
    turn(&mut world, batch);
    turn(&mut world, batch);
    assert!(runs(&world, 0));
    for nth in 1..=3 {
        assert_eq!(stands(&world, batch, nth), "waiting");
    }
}

#[test]
fn a_task_that_joined_is_not_forgotten_when_the_store_fails_for_a_moment() {
    let mut world = world(2, &[]);
    let batch = begin(&mut world, &[0], parallel());
    let id = world.conductors[batch].batch;
    let joined = |task| Event::new(EventType::BatchTaskQueued).task(task).batch(id);
    let mut news = News {
        joined: world.tasks.iter().map(|task| joined(*task)).collect(),
        ..News::default()
    };
    let mut core = world.conductors[batch].core.take().unwrap();
    rename(&mut world, "batch_task", "hidden");
    let read = world.store.read(|r| core.take_joined(r, &mut news));
    assert!(read.is_err());
    assert_eq!(news.joined.len(), 2);
    rename(&mut world, "hidden", "batch_task");
    world
        .store
        .read(|r| core.take_joined(r, &mut news))
        .unwrap();
    assert!(news.joined.is_empty());
}

#[test]
fn a_claim_of_the_dead_on_an_answered_task_is_settled_by_who_holds_that() {
    for (fate, outcome) in [
        (Some(GOOD), "COMPLETED succeeded"),
        (Some(BAD), "FAILED Exit"),
        (None, "held"),
    ] {
        let mut world = world(1, &[]);
        let task = world.tasks[0];
        let patient = Settings {
            wait_for_blockers: WaitForBlockers::Always,
            ..parallel()
        };
        let first = begin(&mut world, &[0], patient);
        world.ask(&Actor::Attempt(agent(&world, 0)), None);
        end(&mut world, 0, GOOD);
        turn(&mut world, first);
        assert_eq!(stands(&world, first, 0), "held");
        // Another batch is the first to see that it was answered.
        world.set_status(task, TaskStatus::Ready);
        let second = begin(&mut world, &[0], parallel());
        turn(&mut world, first);
        world.crash(second);
        match fate {
            Some(fate) => end(&mut world, 0, fate),
            // A live one is waited for.
            None => assert!(runs(&world, 0)),
        }
        for _ in 0..3 {
            turn(&mut world, first);
        }
        assert_eq!(stands(&world, first, 0), outcome);
        assert_eq!(ended(&world, first), fate.is_some());
    }
}

/// The open attempt of a task.
fn open_attempt(world: &World, nth: usize) -> Attempt {
    let task = world.tasks[nth];
    let mut open = world
        .store
        .read(|reader| reader.open_attempts_of(task))
        .unwrap();
    open.pop().expect("it has an open attempt")
}

#[test]
fn an_attempt_that_could_not_be_taken_over_is_not_believed_to_be_ones_own() {
    let mut world = world(1, &[]);
    let first = begin(&mut world, &[0], parallel());
    let second = begin(&mut world, &[0], parallel());
    world.crash(first);
    end(&mut world, 0, GOOD);
    let attempt = open_attempt(&world, 0);
    let mut core = world.conductors[second].core.take().unwrap();
    simulated::refuse(1_000);
    let taken = core.take_over(&mut world.store, &attempt);
    simulated::refuse(0);
    assert!(taken.is_err());
    world.conductors[second].core = Some(core);
    // Its end was never heard: nobody had it read, because it was taken for one that runs.
    for _ in 0..3 {
        turn(&mut world, second);
    }
    assert_eq!(stands(&world, second, 0), "COMPLETED succeeded");
}

#[test]
fn an_attempt_whose_verification_began_meanwhile_is_not_taken_over() {
    let mut world = world(1, &[]);
    let task = world.tasks[0];
    let verify = TaskEdit {
        verify: Some(Some("true".to_owned())),
        ..TaskEdit::default()
    };
    world.try_write(&Actor::Cli, |tx| tx.edit_task(task, &verify).map(drop));
    let first = begin(&mut world, &[0], parallel());
    let second = begin(&mut world, &[0], parallel());
    world.crash(first);
    end(&mut world, 0, GOOD);
    let seen = open_attempt(&world, 0);
    // Between that look and the lock another conductor comes, goes on, and dies.
    world.pick_up(first, false, None);
    turn(&mut world, first);
    turn(&mut world, first);
    world.crash(first);
    assert!(runs(&world, 0));
    let mut core = world.conductors[second].core.take().unwrap();
    assert!(core.take_over(&mut world.store, &seen).unwrap().is_none());
    world.conductors[second].core = Some(core);
}

#[test]
fn an_attempt_that_was_settled_as_unclean_meanwhile_is_not_taken_over() {
    let mut world = world(1, &[]);
    let first = begin(&mut world, &[0], parallel());
    let second = begin(&mut world, &[0], parallel());
    world.crash(first);
    let seen = open_attempt(&world, 0);
    let unclean = recover::failed(AttemptEnd::Unclean, None, String::new(), Value::Null);
    world
        .store
        .write(&Actor::System, |tx| tx.end_attempt(seen.id, &unclean))
        .unwrap();
    assert!(open_attempt(&world, 0).open, "something of it is alive");
    let mut core = world.conductors[second].core.take().unwrap();
    assert!(core.take_over(&mut world.store, &seen).unwrap().is_none());
    world.conductors[second].core = Some(core);
}

#[test]
fn what_runs_is_still_known_when_it_cannot_be_read_again() {
    let mut world = world(2, &[]);
    let batch = begin(&mut world, &[0, 1], parallel());
    let mut core = world.conductors[batch].core.take().unwrap();
    let known = core.by_attempt.clone();
    assert_eq!(known.len(), 2);
    rename(&mut world, "worktree", "hidden");
    assert!(core.reload(&world.store, &[]).is_err());
    rename(&mut world, "hidden", "worktree");
    // An end that is heard now must find its attempt.
    assert_eq!(core.by_attempt, known);
    assert_eq!(core.running.len(), 2);
}

#[test]
fn a_task_that_joins_is_taken_in_although_it_was_known_as_a_dependency() {
    let mut world = world(2, &[]);
    let batch = begin(&mut world, &[0], parallel());
    let (task, joins) = (world.tasks[0], world.tasks[1]);
    world.try_write(&Actor::Cli, |tx| tx.add_dependency(task, joins).map(drop));
    turn(&mut world, batch);
    let id = world.conductors[batch].batch;
    world.try_write(&Actor::Cli, |tx| tx.join_batch(id, joins));
    turn(&mut world, batch);
    turn(&mut world, batch);
    // It was never taken in, and had no outcome when the batch had ended.
    assert!(runs(&world, 1));
    for nth in [0, 1] {
        end(&mut world, nth, GOOD);
    }
    turn(&mut world, batch);
    turn(&mut world, batch);
    assert_eq!(stands(&world, batch, 1), "COMPLETED succeeded");
    assert!(ended(&world, batch));
}
