//! Measures what a pass and an event cost in this program, for the bench: `measure FOLDER TASKS EVENTS`, or
//! `measure FOLDER TASKS WHAT TIMES`.
//!
//! It makes a workspace with so many tasks in the folder, a tenth of them blocked, and prints one JSON object:
//! `all_changed_ms` (a pass in which every task changed), `unchanged_us` (nothing changed), `one_changed_us` (one task
//! changed), `events_normal_per_second` and `events_full_per_second` (appends, each its own transaction), and
//! `links_fresh_ms` (a pass in which the GitHub source alone is asked about 1,000 tasks, each with a link whose answer
//! is cached and fresh, in a workspace of its own; nothing is sent anywhere).
//!
//! With `all`, `unchanged`, `write`, `one` or `links` and a number it does that so many times, and measures nothing:
//! for somebody who counts instructions, and takes the difference between two numbers. `one` is a `write` of one task
//! by another connection, and the pass after it.

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
    let (folder, tasks, rest) = match arguments.as_slice() {
        [folder, tasks, rest @ ..] if matches!(rest.len(), 1 | 2) => (folder, tasks, rest),
        _ => return Err("measure FOLDER TASKS EVENTS, or measure FOLDER TASKS WHAT TIMES".into()),
    };
    let mut ground = Ground::new(Path::new(folder), tasks.parse()?)?;
    match rest {
        [what, times] => repeat(&mut ground, what, times.parse()?),
        [events] => measure(&mut ground, events.parse()?),
        _ => unreachable!("there are one or two"),
    }
}

/// A workspace with tasks, and what a conductor has of it.
struct Ground {
    store: Store,
    /// The connection of somebody else.
    other: Store,
    asked: Vec<Asked>,
    registry: ReconcilerRegistry,
    /// What was looked at: the version of the data, and the number of the last event.
    seen: (i64, u64),
}

impl Ground {
    fn new(folder: &Path, tasks: usize) -> Result<Self, Failure> {
        std::fs::create_dir_all(folder)?;
        let (workspace, _) = Workspace::create(folder)?;
        let mut store = Store::open(&workspace)?;
        let other = Store::open(&workspace)?;
        let asked = fill(&mut store, tasks)?;
        let seen = (
            store.data_version()?,
            store.read(|reader| reader.last_seq())?,
        );
        Ok(Self {
            store,
            other,
            asked,
            registry: ReconcilerRegistry::default(),
            seen,
        })
    }

    fn pass_all(&mut self) {
        let pass = self.registry.check(&self.store, &self.asked);
        assert_eq!(pass.merged.len(), self.asked.len());
    }

    fn pass_unchanged(&mut self) -> Result<(), Failure> {
        let now = self.store.data_version()?;
        let before = std::mem::replace(&mut self.seen.0, now);
        assert_eq!(before, now, "nobody writes");
        Ok(())
    }

    /// Another connection writes one task: each in its turn, and then each once more.
    fn write_one(&mut self, round: usize) -> Result<(), Failure> {
        let to = if (round / self.asked.len()).is_multiple_of(2) {
            TaskStatus::Failed
        } else {
            TaskStatus::Done
        };
        let task = self.asked[round % self.asked.len()].task;
        self.other.write_as(&Actor::Cli, Durability::Normal, |tx| {
            tx.set_status(task, to, Expect::Anything)
        })?;
        Ok(())
    }

    fn pass_one(&mut self, round: usize) -> Result<(), Failure> {
        let asked_one = &self.asked[round % self.asked.len()];
        let now = self.store.data_version()?;
        assert_ne!(std::mem::replace(&mut self.seen.0, now), now);
        let mut changed = Vec::new();
        let mut last = self.seen.1;
        self.store.read(|reader| {
            reader.events(
                &EventFilter {
                    after: self.seen.1,
                    ..EventFilter::default()
                },
                |event| {
                    last = event.seq;
                    changed.extend(event.task);
                    Ok(())
                },
            )
        })?;
        self.seen.1 = last;
        assert_eq!(changed, [asked_one.task]);
        self.registry
            .check(&self.store, std::slice::from_ref(asked_one));
        Ok(())
    }
}

fn repeat(ground: &mut Ground, what: &str, times: usize) -> Result<(), Failure> {
    if what == "links" {
        links_fresh(times)?;
        return Ok(());
    }
    for round in 0..times {
        match what {
            "all" => ground.pass_all(),
            "unchanged" => ground.pass_unchanged()?,
            "write" => ground.write_one(round)?,
            "one" => {
                ground.write_one(round)?;
                ground.pass_one(round)?;
            }
            other => return Err(format!("{other:?} is nothing to repeat").into()),
        }
    }
    Ok(())
}

fn measure(ground: &mut Ground, events: usize) -> Result<(), Failure> {
    let mut all_changed = Vec::new();
    for _ in 0..15 {
        let begun = Instant::now();
        ground.pass_all();
        all_changed.push(begun.elapsed().as_secs_f64() * 1e3);
    }

    let rounds = 10_000u32;
    let begun = Instant::now();
    for _ in 0..rounds {
        ground.pass_unchanged()?;
    }
    let unchanged = begun.elapsed().as_secs_f64() * 1e6 / f64::from(rounds);

    let mut one_changed = Vec::new();
    for round in 0..200.min(ground.asked.len()) {
        ground.write_one(round)?;
        let begun = Instant::now();
        ground.pass_one(round)?;
        one_changed.push(begun.elapsed().as_secs_f64() * 1e6);
    }

    let normal = appends(&mut ground.store, events, Durability::Normal)?;
    let full = appends(&mut ground.store, events.div_ceil(10), Durability::Full)?;
    let links_fresh = links_fresh(15)?;
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

/// What a pass about a thousand fresh links in five repositories costs, in milliseconds: the median of so many.
fn links_fresh(times: usize) -> Result<f64, Failure> {
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
    for _ in 0..times {
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
