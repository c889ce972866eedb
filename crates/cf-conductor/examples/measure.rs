//! Measures what a pass and an event cost in this program, for the bench: `measure FOLDER TASKS EVENTS`.
//!
//! It makes a workspace with so many tasks in the folder, a tenth of them blocked, and prints one JSON object:
//! `all_changed_ms` (a pass in which every task changed), `unchanged_us` (nothing changed), `one_changed_us` (one task
//! changed), `events_normal_per_second` and `events_full_per_second` (appends, each its own transaction), and
//! `links_fresh_ms` (a pass in which the GitHub source alone is asked about 1,000 tasks, each with a link whose answer
//! is cached and fresh, in a workspace of its own; nothing is sent anywhere).

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cf_conductor::github::{Access, GithubSource, status};
use cf_conductor::settings::Settings;
use cf_conductor::source::{Asked, Merged, ReconcilerRegistry};
use cf_conductor::store::event::{Event, EventFilter};
use cf_conductor::store::task::{Expect, TaskSpec};
use cf_conductor::store::{Durability, Store};
use cf_conductor::workspace::Workspace;
use cf_core::{Actor, BatchId, EventType, Link, LinkKind, Phase, TaskId, TaskStatus, Timestamp};
use cf_github::{Item, ItemState, Seen, Snapshot, Token, What};
use cf_reconcile::{AskGrace, Believed, Reason};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, tasks, events] = arguments.as_slice() else {
        return Err("measure FOLDER TASKS EVENTS".into());
    };
    let (tasks, events): (usize, usize) = (tasks.parse()?, events.parse()?);
    std::fs::create_dir_all(folder)?;
    let (workspace, _) = Workspace::create(Path::new(folder))?;
    let mut store = Store::open(&workspace)?;
    let mut other = Store::open(&workspace)?;
    let asked = fill(&mut store, tasks)?;
    let mut registry = ReconcilerRegistry::default();

    let mut all_changed = Vec::new();
    for _ in 0..15 {
        let begun = Instant::now();
        let pass = registry.check(&store, &asked);
        all_changed.push(begun.elapsed().as_secs_f64() * 1e3);
        assert_eq!(pass.merged.len(), tasks);
    }

    let rounds = 10_000u32;
    let begun = Instant::now();
    let mut version = store.data_version()?;
    for _ in 0..rounds {
        let now = store.data_version()?;
        assert_eq!(std::mem::replace(&mut version, now), now, "nobody writes");
    }
    let unchanged = begun.elapsed().as_secs_f64() * 1e6 / f64::from(rounds);

    let mut one_changed = Vec::new();
    let mut seen = store.read(|reader| reader.last_seq())?;
    for round in 0..200.min(tasks) {
        let asked_one = &asked[round % tasks];
        let to = if round < tasks {
            TaskStatus::Failed
        } else {
            TaskStatus::Done
        };
        other.write_as(&Actor::Cli, Durability::Normal, |tx| {
            tx.set_status(asked_one.task, to, Expect::Anything)
        })?;
        let begun = Instant::now();
        let now = store.data_version()?;
        assert_ne!(std::mem::replace(&mut version, now), now);
        let mut changed = Vec::new();
        store.read(|reader| {
            reader.events(
                &EventFilter {
                    after: seen,
                    ..EventFilter::default()
                },
                |event| {
                    seen = event.seq;
                    changed.extend(event.task);
                    Ok(())
                },
            )
        })?;
        assert_eq!(changed, [asked_one.task]);
        registry.check(&store, std::slice::from_ref(asked_one));
        one_changed.push(begun.elapsed().as_secs_f64() * 1e6);
    }

    let normal = appends(&mut store, events, Durability::Normal)?;
    let full = appends(&mut store, events.div_ceil(10), Durability::Full)?;
    let links_fresh = links_fresh()?;
    println!(
        "{{\"all_changed_ms\":{},\"unchanged_us\":{unchanged},\"one_changed_us\":{},\
         \"events_normal_per_second\":{normal},\"events_full_per_second\":{full},\"links_fresh_ms\":{links_fresh}}}",
        median(all_changed),
        median(one_changed)
    );
    Ok(())
}

fn fill(store: &mut Store, tasks: usize) -> Result<Vec<Asked>, Failure> {
    let ids: Vec<TaskId> = store.write(&Actor::Cli, |tx| {
        let mut ids = Vec::with_capacity(tasks);
        for n in 0..tasks {
            let id = tx.add_task(&TaskSpec {
                title: format!("task {n}"),
                ..TaskSpec::default()
            })?;
            if n % 10 == 0 {
                tx.ask(Some(id), "which way?")?;
            }
            ids.push(id);
        }
        Ok(ids)
    })?;
    let mut asked: Vec<Asked> = ids
        .iter()
        .enumerate()
        .map(|(n, task)| Asked {
            task: *task,
            batch: BatchId(task.0),
            believed: Believed::from_row(
                if n % 10 == 0 {
                    Phase::Held
                } else {
                    Phase::Queued
                },
                None,
            )
            .expect("neither phase has an outcome"),
            take_up_seq: 0,
            since_seq: 0,
            attempt: None,
            ask_grace: AskGrace::Running,
        })
        .collect();
    // Conductors ask in the order of the ids, which is not that of the rows.
    asked.sort_by_key(|asked| asked.task);
    Ok(asked)
}

/// What a pass about a thousand fresh links in five repositories costs, in milliseconds.
fn links_fresh() -> Result<f64, Failure> {
    const LINKS: usize = 1_000;
    const TOKEN: &str = "measured";
    let folder = tempfile::tempdir()?;
    let (workspace, _) = Workspace::create(folder.path())?;
    let mut store = Store::open(&workspace)?;
    let asked: Vec<Asked> = fill(&mut store, LINKS)?
        .into_iter()
        .map(|asked| Asked {
            believed: Believed::Queued,
            ..asked
        })
        .collect();
    let token = Token::new(TOKEN)?.fingerprint();
    store.write(&Actor::Cli, |tx| {
        for (n, asked) in asked.iter().enumerate() {
            let text = format!("o/r{}#{}", n % 5, n + 1);
            let link = Link::parse(&text, LinkKind::Issue, "github.com")
                .expect("it is written as links are");
            tx.link(asked.task, &link)?;
            let snapshot = answer(link, token);
            let key = format!("item {n}");
            let json = serde_json::to_string(&snapshot).expect("answers are JSON");
            tx.cache_answer(&key, &json)?;
        }
        Ok(())
    })?;
    let source = GithubSource::new(&Access {
        environment: vec![("GH_TOKEN".into(), TOKEN.into())],
        ..Access::default()
    });
    source.configure(&Settings {
        reconcile_interval: Duration::from_hours(1),
        ..Settings::default()
    });
    // What is cached in the store is taken in by this, without asking anybody.
    status(&source, &store, folder.path())?;
    let mut registry = ReconcilerRegistry::new(vec![Box::new(source.reconciler())]);
    let mut took = Vec::new();
    for _ in 0..15 {
        let begun = Instant::now();
        let pass = registry.check(&store, &asked);
        took.push(begun.elapsed().as_secs_f64() * 1e3);
        assert_eq!(pass.merged.len(), LINKS);
        // An answer that is missing or too old would be another reason.
        let known = |merged: &Merged| merged.winner.reason == Reason::NothingNew;
        assert!(pass.merged.iter().all(known), "{:?}", pass.merged[0]);
    }
    Ok(median(took))
}

/// The answer that an issue is open, read just now.
fn answer(link: Link, token: u64) -> Snapshot {
    let now = Timestamp::now();
    Snapshot {
        host: link.host,
        repo: link.repo.clone(),
        number: link.number,
        token,
        read_at: now,
        what: What::Is(Box::new(Seen {
            item: Arc::new(Item {
                node_id: format!("I_{}", link.number),
                kind: LinkKind::Issue,
                repo: link.repo,
                number: link.number,
                title: "an issue".to_owned(),
                state: ItemState::Open,
                draft: false,
                updated_at: now,
            }),
            moved: false,
            found_at: None,
            found: Vec::new(),
            etag: None,
        })),
    }
}

fn appends(store: &mut Store, count: usize, durability: Durability) -> Result<f64, Failure> {
    let begun = Instant::now();
    for _ in 0..count {
        store.write_as(&Actor::Cli, durability, |tx| {
            tx.append(Event::new(EventType::SourceNotice))
        })?;
    }
    Ok(count as f64 / begun.elapsed().as_secs_f64())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
