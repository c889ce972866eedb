use cf_core::{BatchId, BatchStatus, Outcome, Phase, TaskId, TaskStatus};

use super::*;
use crate::settings::Settings;
use crate::store::batch::BatchTask;
use crate::store::event::EventFilter;
use crate::store::task::{Expect, TaskSpec};

const NOTHING_KEPT: Pruning = Pruning {
    older_than: Duration::ZERO,
    keep_last: 1,
};

fn batch_id(number: u128) -> BatchId {
    BatchId(uuid::Uuid::from_u128(number))
}

/// A task that a batch has done, in six events of the batch.
fn run_once(tx: &mut Tx<'_>, batch: BatchId, task: TaskId) -> Result<()> {
    tx.insert_batch_of(batch, &Settings::default(), &[task])?;
    for to in [TaskStatus::InProgress, TaskStatus::Done] {
        tx.set_status(task, to, Expect::Anything)?;
    }
    tx.append(
        Event::new(EventType::BatchTaskQueued)
            .batch(batch)
            .task(task),
    )?;
    tx.append(
        Event::new(EventType::BatchTaskStarted)
            .batch(batch)
            .task(task),
    )?;
    let done = Event::new(EventType::BatchTaskCompleted)
        .batch(batch)
        .task(task);
    let seq = tx.append(done)?;
    let row = BatchTask {
        task,
        position: 0,
        phase: Phase::Finished,
        outcome: Some(Outcome::Completed),
        reason: None,
        attempts: 0,
        failures: 0,
        not_before: None,
        since_seq: seq,
        take_up_seq: 0,
        started_at: None,
        ended_at: None,
    };
    tx.store_batch_task(batch, &row)
}

/// A store with a task that two batches have had: the first has ended.
fn store() -> (Store, TaskId) {
    let mut store = Store::in_memory().unwrap();
    let spec = TaskSpec {
        title: "a task".to_owned(),
        ..TaskSpec::default()
    };
    let task = store.write(&Actor::Cli, |tx| tx.add_task(&spec)).unwrap();
    for number in [1, 2] {
        let batch = batch_id(number);
        store
            .write(&Actor::Batch(batch), |tx| run_once(tx, batch, task))
            .unwrap();
        store
            .write(&Actor::Github("github.com".to_owned()), |tx| {
                tx.set_status(task, TaskStatus::Ready, Expect::Anything)
            })
            .unwrap();
    }
    store
        .write(&Actor::System, |tx| {
            tx.end_batch(batch_id(1), BatchStatus::Completed, 0)
        })
        .unwrap();
    // What is to be old must be older than the call.
    std::thread::sleep(Duration::from_millis(2));
    (store, task)
}

fn kinds(store: &Store) -> Vec<(u64, String)> {
    let events = store.read(|reader| reader.event_list(&EventFilter::default()));
    let events = events.unwrap();
    events.iter().map(|e| (e.seq, e.kind.to_string())).collect()
}

#[test]
fn what_something_rests_on_stays_and_the_rest_goes() {
    let (mut store, _) = store();
    let before = kinds(&store);
    let told = store.prune_preview(NOTHING_KEPT).unwrap();
    assert_eq!(kinds(&store), before, "a look changes nothing");
    let pruned = store.prune(&Actor::Cli, NOTHING_KEPT).unwrap();
    assert_eq!(told, pruned);
    let after: Vec<String> = kinds(&store).into_iter().map(|(_, kind)| kind).collect();
    assert_eq!(
        after,
        [
            "TASK_CREATED",
            "BATCH_STARTED",
            "BATCH_TASK_COMPLETED",
            // The second batch has not ended.
            "BATCH_STARTED",
            "TASK_STATUS_CHANGED",
            "TASK_STATUS_CHANGED",
            "BATCH_TASK_QUEUED",
            "BATCH_TASK_STARTED",
            "BATCH_TASK_COMPLETED",
            "TASK_STATUS_CHANGED",
            "BATCH_COMPLETED",
            "EVENTS_PRUNED",
        ]
    );
    assert_eq!(pruned.removed as usize, before.len() + 1 - after.len());
    assert_eq!(
        pruned.removed + pruned.newer + pruned.needed(),
        before.len() as u64
    );
}

#[test]
fn numbers_are_never_given_again() {
    let (mut store, _) = store();
    let newest = store.read(|reader| reader.last_seq()).unwrap();
    store.prune(&Actor::Cli, NOTHING_KEPT).unwrap();
    let then = store.read(|reader| reader.last_seq()).unwrap();
    assert_eq!(then, newest + 1, "the event that tells of it");
    store.prune(&Actor::Cli, NOTHING_KEPT).unwrap();
    assert_eq!(
        store.read(|reader| reader.last_seq()).unwrap(),
        then,
        "where nothing is removed nothing is told"
    );
}

#[test]
fn what_is_young_or_among_the_last_stays() {
    let (mut store, _) = store();
    let before = kinds(&store);
    for pruning in [
        Pruning {
            older_than: Duration::from_hours(1),
            keep_last: 1,
        },
        Pruning {
            older_than: Duration::ZERO,
            keep_last: before.len() as u64,
        },
    ] {
        let pruned = store.prune(&Actor::Cli, pruning).unwrap();
        assert_eq!((pruned.removed, pruned.newer), (0, before.len() as u64));
        assert_eq!(kinds(&store), before);
    }
}

#[test]
fn an_event_above_the_horizon_cannot_be_removed_and_the_horizon_stays() {
    let (mut store, _) = store();
    let refused = |store: &Store, sql: &str| store.conn.execute(sql, []).unwrap_err().to_string();
    let said = refused(&store, "DELETE FROM event WHERE seq = 1");
    assert!(said.contains("append-only"), "{said}");
    let pruned = store.prune(&Actor::Cli, NOTHING_KEPT).unwrap();
    let above = format!("DELETE FROM event WHERE seq = {}", pruned.before);
    assert!(refused(&store, &above).contains("append-only"));
    for sql in [
        "UPDATE event_horizon SET seq = 0",
        "DELETE FROM event_horizon",
    ] {
        assert!(refused(&store, sql).contains("never goes back"));
    }
    assert!(refused(&store, "UPDATE event SET at_ms = 0").contains("append-only"));
}

#[test]
fn an_agent_may_not() {
    let (mut store, _) = store();
    let agent = Actor::Attempt(cf_core::AttemptId(uuid::Uuid::from_u128(9)));
    let refused = store.prune(&agent, NOTHING_KEPT).unwrap_err();
    assert!(
        matches!(refused, StoreError::NotForAgents { .. }),
        "{refused}"
    );
}

/// Those events carry no batch, and a conductor that was stopped for a while has yet to read them.
#[test]
fn changed_dependencies_and_links_stay_while_a_batch_has_the_task() {
    let (mut store, task) = store();
    let spec = TaskSpec {
        title: "another".to_owned(),
        ..TaskSpec::default()
    };
    let other = store.write(&Actor::Cli, |tx| tx.add_task(&spec)).unwrap();
    let news = [
        EventType::TaskDependencyChanged,
        EventType::TaskLinked,
        EventType::TaskUnlinked,
    ];
    for of in [task, other] {
        store
            .write(&Actor::Cli, |tx| {
                for kind in news {
                    tx.append(Event::new(kind).task(of))?;
                }
                Ok(())
            })
            .unwrap();
    }
    store
        .write(&Actor::Cli, |tx| tx.add_task(&spec).map(drop))
        .unwrap();
    std::thread::sleep(Duration::from_millis(2));
    let left = |store: &Store, of| {
        let events = store.read(|reader| reader.event_list(&EventFilter::default()));
        let events = events.unwrap();
        let is_news = |event: &&Event| event.kind.known().is_some_and(|kind| news.contains(&kind));
        events
            .iter()
            .filter(is_news)
            .filter(|event| event.task == Some(of))
            .count()
    };
    store.prune(&Actor::Cli, NOTHING_KEPT).unwrap();
    assert_eq!((left(&store, task), left(&store, other)), (3, 0));
    store
        .write(&Actor::System, |tx| {
            tx.end_batch(batch_id(2), BatchStatus::Completed, 0)
        })
        .unwrap();
    std::thread::sleep(Duration::from_millis(2));
    store.prune(&Actor::Cli, NOTHING_KEPT).unwrap();
    assert_eq!(left(&store, task), 0, "nobody has it in hand any more");
}
