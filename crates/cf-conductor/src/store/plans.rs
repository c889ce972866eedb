//! What readings cost as the store grows, counted in steps of SQLite's virtual machine, and how their statements find
//! their rows. Nothing is timed.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use cf_core::{
    Actor, AttemptId, BatchId, BatchStatus, Outcome, Phase, TaskId, TaskKey, TaskRef, TaskStatus,
};
use rusqlite::params_from_iter;
use rusqlite::trace::{TraceEvent, TraceEventCodes};
use rusqlite::types::Null;

use super::event::EventFilter;
use super::prune::Pruning;
use super::task::{TaskFilter, TaskSpec};
use super::{Reader, Result, Store};
use crate::settings::Settings;

/// Tasks of the small store; the large one has ten times as many. Both have the same batches.
const TASKS: usize = 40;
const BATCHES: u128 = 5;

/// What is asked about.
struct About {
    task: TaskId,
    batch: BatchId,
    ended: BatchId,
    attempt: AttemptId,
    chained: TaskId,
    newest: u64,
}

/// A reading by its name.
type Reading = (&'static str, fn(&Reader<'_>, &About) -> Result<()>);

/// What looks at one thing, or at the newest of something: the same in a store of any size.
const FLAT: &[Reading] = &[
    ("find by key", |r, _| r.find_task(&name("t7")).map(drop)),
    ("find by id", |r, a| {
        r.find_task(&name(&a.task.to_string())).map(drop)
    }),
    ("task", |r, a| r.task_view(a.task).map(drop)),
    ("standing", |r, a| r.standing(a.task).map(drop)),
    ("dependents", |r, a| r.dependents(a.task).map(drop)),
    ("links", |r, a| r.links(a.task).map(drop)),
    ("comments", |r, a| r.comments(a.task).map(drop)),
    ("blockers", |r, a| r.blockers(Some(a.task), None).map(drop)),
    ("open blockers", |r, _| r.count_open_blockers().map(drop)),
    ("attempts", |r, a| r.attempts(a.task).map(drop)),
    ("attempt", |r, a| r.attempt(a.attempt).map(drop)),
    ("open attempts", |r, _| r.open_attempts().map(drop)),
    ("tasks with open attempts", |r, _| {
        r.tasks_with_open_attempts().map(drop)
    }),
    ("open attempts of a task", |r, a| {
        r.open_attempts_of(a.task).map(drop)
    }),
    ("open attempts of a batch", |r, a| {
        r.open_attempts_of_batch(a.batch).map(drop)
    }),
    ("has an open attempt", |r, a| {
        r.has_open_attempt(a.task).map(drop)
    }),
    ("worktrees", |r, a| r.worktrees_of(a.task).map(drop)),
    ("batches of a task", |r, a| r.batches_of(a.task).map(drop)),
    ("batches at work", |r, a| {
        r.batches_working_on(a.task).map(drop)
    }),
    ("place in a batch", |r, a| {
        r.batch_task(a.batch, a.task).map(drop)
    }),
    ("newest batch", |r, _| r.newest_batch().map(drop)),
    ("unfinished batches", |r, _| {
        r.unfinished_batches().map(drop)
    }),
    ("actions of a batch", |r, a| {
        r.reconciliation_events(a.batch).map(drop)
    }),
    ("totals of a batch that has ended", |r, a| {
        r.totals(a.ended).map(drop)
    }),
    ("used in a batch", |r, a| r.used_in_batch(a.batch).map(drop)),
    ("newest number", |r, _| r.last_seq().map(drop)),
    ("events of a task", |r, a| {
        let task = Some(a.task);
        r.event_list(&EventFilter {
            task,
            ..EventFilter::default()
        })
        .map(drop)
    }),
    ("new events", |r, a| {
        let after = a.newest - 20;
        r.event_list(&EventFilter {
            after,
            ..EventFilter::default()
        })
        .map(drop)
    }),
    ("last events", |r, _| {
        r.seq_before_last(&EventFilter::default(), 20).map(drop)
    }),
    ("last events of a batch", |r, a| {
        let batch = Some(a.batch);
        let filter = EventFilter {
            batch,
            ..EventFilter::default()
        };
        r.seq_before_last(&filter, 20).map(drop)
    }),
    ("deletions", |r, _| r.deletions_after(0).map(drop)),
    ("start of an attempt", |r, a| {
        r.began_seq(a.task, a.attempt).map(drop)
    }),
    ("edited after", |r, a| {
        r.was_edited_after(a.task, 0).map(drop)
    }),
    ("stop requested", |r, a| {
        r.stop_was_requested(a.task, a.attempt).map(drop)
    }),
    ("set ready by hand", |r, a| {
        r.set_ready_by_hand(a.task).map(drop)
    }),
    ("first tasks", |r, _| {
        let filter = TaskFilter {
            statuses: Vec::new(),
            limit: Some(10),
        };
        r.tasks(&filter, |_| Ok(()))?;
        r.task_rows(&filter, |_| ControlFlow::Continue(()))?;
        r.task_lines(&filter, |_| ControlFlow::Continue(()))
    }),
    ("tasks with a rare status", |r, _| {
        let filter = TaskFilter::with_status(TaskStatus::Failed);
        r.tasks(&filter, |_| Ok(()))?;
        r.task_rows(&filter, |_| ControlFlow::Continue(()))?;
        r.task_lines(&filter, |_| ControlFlow::Continue(()))
    }),
];

/// What reads a batch or the workspace as a whole: ten times as much for ten times as many.
const ALONG: &[Reading] = &[
    ("counts by status", |r, _| r.status_counts().map(drop)),
    ("tasks", |r, _| r.tasks(&TaskFilter::default(), |_| Ok(()))),
    ("lines of tasks", |r, _| {
        r.task_lines(&TaskFilter::default(), |_| ControlFlow::Continue(()))
    }),
    ("rows of tasks", |r, _| {
        r.task_rows(&TaskFilter::default(), |_| ControlFlow::Continue(()))
    }),
    ("standings", |r, _| r.standings(|_| true, |_| ())),
    ("edges", |r, _| r.edges().map(drop)),
    ("counts of a batch", |r, a| {
        r.batch_counts(a.batch).map(drop)
    }),
    ("rows of a batch", |r, a| r.batch_tasks(a.batch).map(drop)),
    ("tasks of a batch", |r, a| {
        r.batch_task_views(a.batch).map(drop)
    }),
    ("tasks at work", |r, a| {
        r.batch_tasks_at_work(a.batch).map(drop)
    }),
    ("history of a batch", |r, a| {
        r.batch_history(a.batch).map(drop)
    }),
    ("attempts of a batch", |r, a| {
        r.attempts_of_batch(a.batch).map(drop)
    }),
    ("events of a batch", |r, a| {
        let batch = Some(a.batch);
        r.event_list(&EventFilter {
            batch,
            ..EventFilter::default()
        })
        .map(drop)
    }),
];

/// The tables that grow, each with the readings that may go through all of it.
const WHOLE: &[(&str, &[&str])] = &[
    ("event", &[]),
    ("attempt", &[]),
    ("batch_task", &[]),
    ("comment", &[]),
    ("blocker", &[]),
    (
        "task",
        &[
            "tasks",
            "first tasks",
            "lines of tasks",
            "rows of tasks",
            "standings",
        ],
    ),
    ("dependency", &["edges", "tasks", "rows of tasks"]),
    ("link", &["rows of tasks"]),
];

fn name(text: &str) -> TaskRef {
    text.parse().unwrap()
}

/// A store whose tasks form one chain and have all been in every batch, with an attempt and four events in each.
fn store(tasks: usize) -> (Store, About) {
    let mut store = Store::in_memory().unwrap();
    let mut ids = Vec::new();
    store
        .write(&Actor::Cli, |tx| {
            for number in 0..tasks {
                let key: TaskKey = format!("t{number}").parse().unwrap();
                let spec = TaskSpec {
                    key: Some(key),
                    title: format!("task {number}"),
                    ..TaskSpec::default()
                };
                ids.push(tx.add_task(&spec)?);
            }
            for pair in ids.windows(2) {
                tx.insert_dependency(pair[1], pair[0])?;
            }
            for number in 1..=BATCHES {
                let batch = BatchId(uuid::Uuid::from_u128(number));
                tx.insert_batch_of(batch, &Settings::default(), &ids)?;
                let filled = tx.conn.execute_batch(&format!(
                    "INSERT INTO attempt (id, task, batch, generation, engine, stage, supervisor, supervisor_pid, \
                     start_ticks, boot_id, pid_ns, open, ending, started_at_ms) \
                     SELECT '00000000-0000-4000-{number:04}-' || substr(task, 25), task, batch, {number}, 'shell', \
                     'agent', '00000000-0000-4000-8000-000000000000', 1, 1, 'b', 1, 0, 'exited', 0 \
                     FROM batch_task WHERE batch = '{batch}';
                     WITH RECURSIVE times (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM times WHERE n < 4)
                     INSERT INTO event (at_ms, type, task, batch, attempt, actor, data) \
                     SELECT 0, 'ATTEMPT_REPORTED', task, batch, id, 'system', '{{}}' FROM attempt, times \
                     WHERE batch = '{batch}' ORDER BY attempt.pk, n"
                ));
                filled.unwrap();
            }
            let ended = BatchId(uuid::Uuid::from_u128(BATCHES));
            for mut row in tx.reader().batch_tasks(ended)? {
                row.phase = Phase::Finished;
                row.outcome = Some(Outcome::Completed);
                tx.store_batch_task(ended, &row)?;
            }
            tx.end_batch(ended, BatchStatus::Completed, 0)
        })
        .unwrap();
    let about = store
        .read(|reader| {
            Ok(About {
                task: ids[7],
                batch: BatchId(uuid::Uuid::from_u128(3)),
                ended: BatchId(uuid::Uuid::from_u128(BATCHES)),
                attempt: reader.attempts(ids[7])?[2].id,
                chained: ids[tasks - 1],
                newest: reader.last_seq()?,
            })
        })
        .unwrap();
    (store, about)
}

/// How many steps of the virtual machine it takes. The first call, which prepares statements, does not count.
fn steps(store: &mut Store, mut work: impl FnMut(&mut Store)) -> u64 {
    work(store);
    let count = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&count);
    let counting = move || {
        counter.fetch_add(1, Ordering::Relaxed);
        false
    };
    store.conn.progress_handler(1, Some(counting)).unwrap();
    work(store);
    store
        .conn
        .progress_handler(0, None::<fn() -> bool>)
        .unwrap();
    count.load(Ordering::Relaxed)
}

fn reads((_, reading): &Reading, about: &About) -> impl FnMut(&mut Store) {
    move |store| store.read(|reader| reading(reader, about)).unwrap()
}

#[test]
fn what_looks_at_one_thing_costs_the_same_in_a_store_of_any_size() {
    let (mut small, about_small) = store(TASKS);
    let (mut large, about_large) = store(TASKS * 10);
    let mut grown = Vec::new();
    for reading in FLAT {
        let before = steps(&mut small, reads(reading, &about_small));
        let after = steps(&mut large, reads(reading, &about_large));
        if after > before + before / 4 + 20 {
            grown.push(format!("{}: {before} → {after} steps", reading.0));
        }
    }
    assert!(grown.is_empty(), "{grown:#?}");
}

#[test]
fn what_reads_a_whole_costs_in_proportion_to_it() {
    let (mut small, about_small) = store(TASKS);
    let (mut large, about_large) = store(TASKS * 10);
    let mut grown = Vec::new();
    for reading in ALONG {
        let before = steps(&mut small, reads(reading, &about_small));
        let after = steps(&mut large, reads(reading, &about_large));
        if after > before * 11 {
            grown.push(format!("{}: {before} → {after} steps", reading.0));
        }
    }
    assert!(grown.is_empty(), "{grown:#?}");
}

#[test]
fn no_statement_goes_through_a_table_that_grows_unless_all_of_it_is_asked_for() {
    let (mut store, about) = store(TASKS);
    let mut found = Vec::new();
    for reading in FLAT.iter().chain(ALONG) {
        let seen = Arc::new(Mutex::new(BTreeSet::new()));
        let into = Arc::clone(&seen);
        let note = move |event: TraceEvent<'_>| {
            if let TraceEvent::Stmt(statement, _) = event {
                into.lock().unwrap().insert(statement.sql().into_owned());
            }
        };
        store
            .conn
            .trace_v2(TraceEventCodes::SQLITE_TRACE_STMT, Some(note))
            .unwrap();
        reads(reading, &about)(&mut store);
        store
            .conn
            .trace_v2(TraceEventCodes::empty(), None::<fn(TraceEvent<'_>)>)
            .unwrap();
        let seen = seen.lock().unwrap();
        for sql in seen.iter().filter(|sql| sql.starts_with("SELECT")) {
            found.extend(scans(&store, reading.0, sql));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// The tables that a statement goes through, of those that grow and that this reading may not.
fn scans(store: &Store, reading: &str, sql: &str) -> Vec<String> {
    let mut statement = store
        .conn
        .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
        .unwrap();
    let nothing = vec![Null; statement.parameter_count()];
    let plan: Vec<String> = statement
        .query_map(params_from_iter(nothing), |row| row.get(3))
        .unwrap()
        .collect::<rusqlite::Result<_>>()
        .unwrap();
    // A table under another name is one that grows, unless it is known not to.
    let may = |table: &str| match WHOLE.iter().find(|(name, _)| *name == table) {
        Some((_, readings)) => readings.contains(&reading),
        None => ["batch", "CONSTANT ROW"].contains(&table),
    };
    let table = |step: &str| {
        let rest = step.strip_prefix("SCAN ")?;
        // With an index it goes through the part that the index is of; the steps tell whether that is all.
        (!rest.contains("INDEX")).then(|| rest.to_owned())
    };
    plan.iter()
        .filter_map(|step| table(step))
        .filter(|table| !may(table))
        .map(|table| format!("{reading}: {table}: {sql}"))
        .collect()
}

#[test]
fn a_task_at_the_end_of_a_chain_is_added_as_cheaply_as_at_its_beginning() {
    let add = |about: &About| {
        let on = about.chained;
        move |store: &mut Store| {
            let spec = TaskSpec {
                title: "another".to_owned(),
                ..TaskSpec::default()
            };
            let added = store.write(&Actor::Cli, |tx| {
                let task = tx.add_task(&spec)?;
                tx.add_dependency(task, on)
            });
            assert!(added.unwrap());
        }
    };
    let (mut small, about_small) = store(TASKS);
    let (mut large, about_large) = store(TASKS * 10);
    let before = steps(&mut small, add(&about_small));
    let after = steps(&mut large, add(&about_large));
    assert!(after < before + before / 4, "{before} → {after} steps");
}

#[test]
fn pruning_costs_in_proportion_to_what_it_looks_at() {
    let prune = |store: &mut Store| {
        let pruning = Pruning {
            older_than: std::time::Duration::ZERO,
            keep_last: 1,
        };
        store.prune_preview(pruning).unwrap();
    };
    let before = steps(&mut store(TASKS).0, prune);
    let after = steps(&mut store(TASKS * 10).0, prune);
    assert!(after < before * 11, "{before} → {after} steps");
}
