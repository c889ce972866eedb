use cf_core::{Actor, AttemptEnd, AttemptId, BatchStatus, EventType, SupervisorId, TaskId};
use std::time::Duration;
use test_case::test_case;

use super::*;
use crate::engine::{SuccessRule, Tokens};
use crate::process::Identity;
use crate::settings::Settings;
use crate::store::Store;
use crate::store::attempt::{Attempt, AttemptResult, NewAttempt};
use crate::store::event::Event;
use crate::store::prune::Pruning;
use crate::store::task::TaskSpec;

fn batch_id(number: u128) -> BatchId {
    BatchId(uuid::Uuid::from_u128(number))
}

/// A store with a batch of five tasks that goes on.
fn store() -> (Store, Vec<TaskId>) {
    let mut store = Store::in_memory().unwrap();
    let tasks = store
        .write(&Actor::Cli, |tx| {
            let mut tasks = Vec::new();
            for number in 0..5 {
                let spec = TaskSpec {
                    title: format!("task {number}"),
                    ..TaskSpec::default()
                };
                tasks.push(tx.add_task(&spec)?);
            }
            tx.insert_batch_of(batch_id(1), &Settings::default(), &tasks)?;
            Ok(tasks)
        })
        .unwrap();
    (store, tasks)
}

fn finish(tx: &mut Tx<'_>, batch: BatchId, outcome: Outcome) -> Result<()> {
    for mut row in tx.reader().batch_tasks(batch)? {
        if row.position % 2 == 0 || row.outcome.is_none() {
            row.phase = Phase::Finished;
            row.outcome = Some(outcome);
            tx.store_batch_task(batch, &row)?;
        }
    }
    Ok(())
}

/// An attempt of the first task, by this batch.
fn attempt(tx: &mut Tx<'_>, batch: BatchId, task: TaskId) -> Result<Attempt> {
    let id = AttemptId(uuid::Uuid::from_u128(9));
    let new = NewAttempt {
        id,
        task,
        batch,
        engine: "an agent".to_owned(),
        format: SuccessRule::ExitZero,
        resumes: None,
        supervisor: Identity {
            supervisor: SupervisorId(uuid::Uuid::from_u128(9)),
            pid: 1,
            start_ticks: 1,
            boot_id: "b".to_owned(),
            pid_ns: 1,
        },
    };
    tx.claim(&new, &tx.reader().task(task)?)?;
    tx.reader().attempt(id)
}

fn used(tokens: u64) -> AttemptResult {
    AttemptResult {
        end: AttemptEnd::Exited,
        ending: None,
        success: true,
        reason: String::new(),
        last_said: None,
        session: None,
        tokens: Some(Tokens {
            input: tokens,
            cached: 0,
            output: 0,
        }),
        cost_micro_usd: Some(tokens * 2),
        left_behind: 0,
        output_lost: 0,
        record: serde_json::Value::Null,
    }
}

fn stored(store: &Store, batch: BatchId) -> Option<Totals> {
    store
        .read(|reader| {
            let stored = reader.stored_totals(batch)?;
            if let Some(stored) = &stored {
                assert_eq!(*stored, reader.counted_totals(batch)?);
                assert_eq!(*stored, reader.totals(batch)?);
            }
            Ok(stored)
        })
        .unwrap()
}

#[test_case(BatchStatus::Completed, Outcome::Completed)]
#[test_case(BatchStatus::Partial, Outcome::Blocked)]
#[test_case(BatchStatus::Failed, Outcome::Failed)]
#[test_case(BatchStatus::Failed, Outcome::Skipped)]
#[test_case(BatchStatus::Cancelled, Outcome::Cancelled)]
fn a_batch_has_totals_from_its_end_until_it_goes_on(status: BatchStatus, outcome: Outcome) {
    let (mut store, tasks) = store();
    let batch = batch_id(1);
    let by = Actor::Batch(batch);
    assert_eq!(stored(&store, batch), None);
    let end = |store: &mut Store, outcome| {
        store
            .write(&by, |tx| {
                finish(tx, batch, outcome)?;
                tx.end_batch(batch, status, 0)
            })
            .unwrap();
    };
    end(&mut store, outcome);
    let first = stored(&store, batch).expect("it has ended");
    assert_eq!(first.counts, [(Phase::Finished, Some(outcome), 5)]);

    // What a source finds afterwards, or a person removes, is none of its course.
    store
        .write(&Actor::Github("github.com".to_owned()), |tx| {
            let event = Event::new(EventType::BatchTaskSkipped);
            tx.append(event.task(tasks[0]).batch(batch).with("action", "SKIP"))
        })
        .unwrap();
    let everything = Pruning {
        older_than: Duration::ZERO,
        keep_last: 1,
    };
    store.prune(&Actor::Cli, everything).unwrap();
    assert_eq!(stored(&store, batch), Some(first));

    store
        .write(&by, |tx| tx.reopen_batch(batch, &Settings::default()))
        .unwrap();
    assert_eq!(stored(&store, batch), None);
    end(&mut store, Outcome::Completed);
    let counts = stored(&store, batch).expect("it has ended again").counts;
    assert_eq!(counts.iter().map(|(_, _, n)| n).sum::<u64>(), 5);
    assert!(counts.contains(&(
        Phase::Finished,
        Some(Outcome::Completed),
        if outcome == Outcome::Completed { 5 } else { 3 }
    )));
}

#[test]
fn what_an_agent_used_is_counted_again_where_it_is_heard_of_after_the_end() {
    let (mut store, tasks) = store();
    let (batch, next) = (batch_id(1), batch_id(2));
    let by = Actor::Batch(batch);
    let attempt = store
        .write(&by, |tx| {
            let attempt = attempt(tx, batch, tasks[0])?;
            tx.begin_verification(&attempt, &attempt.supervisor, &used(70))?;
            finish(tx, batch, Outcome::Completed)?;
            tx.end_batch(batch, BatchStatus::Completed, 0)?;
            Ok(attempt)
        })
        .unwrap();
    let used_now = |store: &Store| stored(store, batch).map(|totals| totals.used);
    assert_eq!(used_now(&store), Some((Some(70), Some(140))));
    store
        .write(&by, |tx| tx.end_attempt(attempt.id, &used(80)))
        .unwrap();
    assert_eq!(used_now(&store), Some((Some(80), Some(160))));
    store
        .write(&by, |tx| {
            tx.insert_batch_of(next, &Settings::default(), &tasks)?;
            tx.move_attempt(&attempt, next)
        })
        .unwrap();
    assert_eq!(used_now(&store), Some((None, None)));
    let moved = store.read(|reader| reader.totals(next)).unwrap();
    assert_eq!(moved.used, (Some(80), Some(160)));
}

#[test]
fn batches_that_had_ended_before_there_were_totals_get_theirs() {
    let (mut store, tasks) = store();
    let (ended, live) = (batch_id(1), batch_id(2));
    store
        .write(&Actor::Cli, |tx| {
            let attempt = attempt(tx, ended, tasks[0])?;
            tx.end_attempt(attempt.id, &used(5))?;
            for (batch, outcome) in [(ended, Outcome::Failed), (live, Outcome::Completed)] {
                if batch == live {
                    tx.insert_batch_of(batch, &Settings::default(), &tasks)?;
                }
                finish(tx, batch, outcome)?;
            }
            tx.end_batch(ended, BatchStatus::Failed, 3)
        })
        .unwrap();
    let before = stored(&store, ended);
    assert!(before.is_some());
    store
        .conn
        .execute_batch(&format!(
            "DROP TABLE batch_total; {}",
            include_str!("../../../migrations/V8__batch_totals.sql")
        ))
        .unwrap();
    store.conn.flush_prepared_statement_cache();
    assert_eq!(stored(&store, ended), before);
    assert_eq!(stored(&store, live), None);
}
