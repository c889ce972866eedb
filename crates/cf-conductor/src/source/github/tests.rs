use std::sync::Arc;
use std::time::Duration;

use cf_core::{Actor, AttemptId, BatchId, Link, LinkKind, Outcome, SupervisorId, TaskStatus};
use cf_github::{CloseReason, Item, ItemState, Saved, Seen as SavedSeen, Snapshot, Token, What};
use cf_reconcile::AskGrace;

use super::closing::{Closing, to_pin};
use super::*;
use crate::github::Access;
use crate::process::Identity;
use crate::settings::Settings;
use crate::store::attempt::NewAttempt;
use crate::store::event::Event;
use crate::store::follow::Spent;
use crate::store::task::{Expect, TaskSpec};

/// A store with one linked task, and a source that knows what the test says.
struct Lab {
    store: Store,
    source: GithubSource,
    task: TaskId,
    batch: BatchId,
}

fn link() -> Link {
    Link::parse("o/r#12", LinkKind::Issue, "github.com").unwrap()
}

fn ago(seconds: u64) -> Timestamp {
    let at = Timestamp::now() - Duration::from_secs(seconds);
    Timestamp::from_second(at.as_second()).unwrap()
}

fn closed(seconds: u64) -> ItemState {
    ItemState::Closed {
        reason: CloseReason::Completed,
        at: ago(seconds),
    }
}

impl Lab {
    fn new() -> Self {
        let mut store = Store::in_memory().unwrap();
        let task = store
            .write(&Actor::Cli, |tx| {
                let task = tx.add_task(&TaskSpec {
                    title: "t".to_owned(),
                    run: Some("true".to_owned()),
                    ..TaskSpec::default()
                })?;
                tx.link(task, &link())?;
                Ok(task)
            })
            .unwrap();
        let source = GithubSource::new(&Access {
            environment: vec![("GH_TOKEN".into(), "t".into())],
            ..Access::default()
        });
        source.configure(&Settings::default());
        let batch = BatchId(uuid::Uuid::new_v4());
        store
            .write(&Actor::Batch(batch), |tx| {
                tx.insert_batch_of(batch, &Settings::default(), &[task])
            })
            .unwrap();
        Self {
            store,
            source,
            task,
            batch,
        }
    }

    /// GitHub said this, so many seconds ago.
    fn knows(&self, kind: LinkKind, state: ItemState, seconds: u64) {
        self.knows_of(link(), kind, state, seconds);
    }

    fn knows_of(&self, link: Link, kind: LinkKind, state: ItemState, seconds: u64) {
        let item = Item {
            node_id: format!("I_{}", link.number),
            kind,
            repo: link.repo.clone(),
            number: link.number,
            title: "t".to_owned(),
            state,
            draft: false,
            updated_at: ago(seconds),
        };
        let snapshot = Snapshot {
            host: link.host,
            repo: link.repo,
            number: link.number,
            token: Token::new("t").unwrap().fingerprint(),
            read_at: Timestamp::now() - Duration::from_secs(seconds),
            what: What::Is(Box::new(SavedSeen {
                item: Arc::new(item),
                moved: false,
                found_at: None,
                found: Vec::new(),
                etag: None,
            })),
        };
        self.source.client().load(Saved {
            snapshots: vec![snapshot],
            ..Saved::default()
        });
    }

    fn check(
        &self,
        believed: Believed,
        attempt: Option<AttemptId>,
    ) -> Vec<(ReconcileAction, String)> {
        let asked = Asked {
            task: self.task,
            batch: self.batch,
            believed,
            take_up_seq: 0,
            since_seq: 0,
            attempt,
            ask_grace: AskGrace::Running,
        };
        self.source
            .reconciler()
            .check_tasks(&self.store, &[asked])
            .into_iter()
            .map(|(_, said)| match said {
                Observation::Known(finding) => (finding.action, finding.reason.to_string()),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    fn set(&mut self, by: &Actor, to: TaskStatus) {
        let task = self.task;
        self.store
            .write(by, |tx| tx.set_status(task, to, Expect::Anything))
            .unwrap();
    }
}

#[test]
fn a_fresh_closing_acts_and_an_old_one_does_not() {
    let lab = Lab::new();
    assert_eq!(
        lab.check(Believed::Queued, None),
        [(ReconcileAction::None, "link could not be read".to_owned())]
    );
    lab.knows(LinkKind::Issue, closed(600), 5);
    assert_eq!(
        lab.check(Believed::Queued, None),
        [(ReconcileAction::Skip, "issue closed".to_owned())]
    );
    let old = Lab::new();
    old.knows(LinkKind::Issue, closed(600), 120);
    assert_eq!(
        old.check(Believed::Queued, None),
        [(ReconcileAction::None, "link could not be read".to_owned())]
    );
    // However long a look took, its answers are fresh when they arrive.
    old.source
        .taking_in(Some(Timestamp::now() - Duration::from_secs(121)));
    assert_eq!(
        old.check(Believed::Queued, None)[0].0,
        ReconcileAction::Skip
    );
}

#[test]
fn without_passes_it_says_nothing() {
    let lab = Lab::new();
    lab.knows(LinkKind::Issue, closed(600), 5);
    lab.source.configure(&Settings {
        reconcile_interval: Duration::ZERO,
        ..Settings::default()
    });
    assert!(lab.check(Believed::Queued, None).is_empty());
}

#[test]
fn what_does_nothing_where_a_task_stands_is_not_told() {
    let lab = Lab::new();
    lab.knows(LinkKind::Issue, closed(600), 5);
    assert!(
        lab.check(Believed::Finished(Outcome::Completed), None)
            .is_empty()
    );
    assert!(lab.check(Believed::Stopping, None).is_empty());
}

#[test]
fn a_persons_ready_after_the_closing_overrules_it_and_an_earlier_one_does_not() {
    let mut lab = Lab::new();
    lab.set(&Actor::Cli, TaskStatus::Backlog);
    lab.set(&Actor::Cli, TaskStatus::Ready);
    lab.knows(LinkKind::Issue, closed(600), 5);
    assert_eq!(
        lab.check(Believed::Queued, None),
        [(ReconcileAction::None, "closed, but overruled".to_owned())]
    );
    let mut earlier = Lab::new();
    earlier.set(&Actor::Cli, TaskStatus::Backlog);
    earlier.set(&Actor::Cli, TaskStatus::Ready);
    // In the future, so that no rounding makes it the same second.
    let state = ItemState::Closed {
        reason: CloseReason::Completed,
        at: Timestamp::now() + Duration::from_secs(5),
    };
    earlier.knows(LinkKind::Issue, state, 0);
    assert_eq!(
        earlier.check(Believed::Queued, None)[0].0,
        ReconcileAction::Skip
    );
}

#[test]
fn an_answer_or_a_batch_is_no_person_who_overrules() {
    let mut lab = Lab::new();
    lab.knows(LinkKind::Issue, closed(600), 5);
    let task = lab.task;
    let question = lab
        .store
        .write(&Actor::Cli, |tx| tx.ask(Some(task), "why?"))
        .unwrap();
    lab.store
        .write(&Actor::Cli, |tx| tx.answer(question, "because"))
        .unwrap();
    assert_eq!(
        lab.check(Believed::Queued, None)[0].0,
        ReconcileAction::Skip
    );
    lab.set(&Actor::Cli, TaskStatus::Backlog);
    let batch = lab.batch;
    lab.set(&Actor::Batch(batch), TaskStatus::Ready);
    assert_eq!(
        lab.check(Believed::Queued, None)[0].0,
        ReconcileAction::Skip
    );
}

#[test]
fn a_merged_task_is_left_alone() {
    let mut lab = Lab::new();
    lab.knows(LinkKind::Issue, closed(600), 5);
    lab.set(&Actor::Cli, TaskStatus::Merged);
    assert!(lab.check(Believed::Queued, None).is_empty());
}

#[test]
fn an_agent_that_may_have_done_it_has_time_to_end() {
    let mut lab = Lab::new();
    let (task, batch) = (lab.task, lab.batch);
    let attempt = AttemptId(uuid::Uuid::new_v4());
    lab.store
        .write(&Actor::Batch(batch), |tx| {
            let new = NewAttempt {
                id: attempt,
                task,
                batch,
                engine: "shell".to_owned(),
                format: crate::engine::SuccessRule::ExitZero,
                resumes: None,
                supervisor: Identity {
                    supervisor: SupervisorId(uuid::Uuid::new_v4()),
                    pid: 1,
                    start_ticks: 1,
                    boot_id: "b".to_owned(),
                    pid_ns: 1,
                },
            };
            tx.claim(&new, &tx.reader().task(new.task)?)
        })
        .unwrap();
    lab.knows(LinkKind::Pr, ItemState::Merged { at: ago(0) }, 0);
    assert_eq!(
        lab.check(Believed::Running, Some(attempt)),
        [(
            ReconcileAction::None,
            "the agent may have changed the link".to_owned()
        )]
    );
    assert!(lab.source.settles_in().is_some());
    assert!(lab.source.take_settled().is_empty());
}

#[test]
fn what_is_pinned_counts_word_for_word() {
    let lab = Lab::new();
    let mut row = lab
        .store
        .read(|reader| reader.link_rows(lab.task))
        .unwrap()
        .remove(0);
    let at = ago(600);
    let closing = |reason| {
        let state = ItemState::Closed { reason, at };
        Closing::of(&link(), &state).unwrap()
    };
    let (done, dropped) = (
        closing(CloseReason::Completed),
        closing(CloseReason::NotPlanned),
    );
    assert!(!done.is_spent(&row, None));
    let overruled = Some((7, ago(300)));
    assert!(done.is_spent(&row, overruled));
    let spent = to_pin(&row, std::slice::from_ref(&done), overruled).unwrap();
    assert_eq!(spent.seq, 7);
    row.spent = Some(spent);
    assert!(done.is_spent(&row, overruled));
    assert!(
        !dropped.is_spent(&row, overruled),
        "another reason is another closing"
    );
    assert!(to_pin(&row, &[done], overruled).is_none(), "pinned already");
    // Whoever overrules once more overrules that as well.
    assert!(dropped.is_spent(&row, Some((9, ago(100)))));
}

#[test]
fn what_is_pinned_is_the_same_text_whatever_the_host_of_short_forms_is() {
    // Which host that is belongs to a whole process.
    const ALONE: &str = "CF_TEST_ALONE";
    let name = "source::github::tests::what_is_pinned_is_the_same_text_whatever_the_host_of_short_forms_is";
    let state = ItemState::Closed {
        reason: CloseReason::Completed,
        at: Timestamp::UNIX_EPOCH,
    };
    let text = || Closing::of(&link(), &state).unwrap().text;
    assert_eq!(text(), "o/r#12 completed 1970-01-01T00:00:00Z");
    if std::env::var_os(ALONE).is_some() {
        Link::short_forms_live_on("ghe.corp");
        assert_eq!(link().to_string(), "github.com/o/r#12");
        assert_eq!(text(), "o/r#12 completed 1970-01-01T00:00:00Z");
        return;
    }
    let alone = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&alone.stdout);
    assert!(
        alone.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

/// Two issues closed and one of them reopened: what closed the other is not undone.
#[test]
fn a_reopening_undoes_the_closing_of_its_own_link_only() {
    let mut lab = Lab::new();
    let (task, batch) = (lab.task, lab.batch);
    let other = Link {
        number: 13,
        ..link()
    };
    lab.store
        .write(&Actor::Cli, |tx| tx.link(task, &other))
        .unwrap();
    let acted_at = ago(500);
    lab.store
        .write(&Actor::Batch(batch), |tx| {
            tx.acted(task, acted_at)?;
            let evidence =
                serde_json::json!({ "kind": "link", "url": link().url(), "state": "open" });
            tx.append(
                Event::new(cf_core::EventType::BatchTaskRequeued)
                    .task(task)
                    .batch(batch)
                    .with("source", "github")
                    .with("evidence", evidence),
            )
        })
        .unwrap();
    let shut = |reason, seconds| ItemState::Closed {
        reason,
        at: ago(seconds),
    };
    lab.knows_of(other, LinkKind::Issue, closed(600), 3);
    let rows = lab.store.read(|reader| reader.link_rows(task)).unwrap();
    let undone = |row| {
        lab.store
            .read(|reader| closing::overruled(reader, row, None))
            .unwrap()
            .is_some()
    };
    assert_eq!(
        rows.iter().map(undone).collect::<Vec<_>>(),
        [true, false],
        "{rows:?}"
    );
    // Closed anew, as not planned; the other one is still completed.
    lab.knows(LinkKind::Issue, shut(CloseReason::NotPlanned, 60), 1);
    assert_eq!(
        lab.check(Believed::Queued, None),
        [(ReconcileAction::Skip, "issue closed".to_owned())]
    );
}

#[test]
fn what_acted_before_it_was_overruled_is_older_whatever_the_clocks_say() {
    let lab = Lab::new();
    let mut row = lab
        .store
        .read(|reader| reader.link_rows(lab.task))
        .unwrap()
        .remove(0);
    // GitHub's clock goes ahead of ours by a minute.
    let at = Timestamp::now() + Duration::from_mins(1);
    let closing = Closing {
        text: "x".to_owned(),
        at,
    };
    let overruled = Some((9, Timestamp::now()));
    assert!(!closing.is_spent(&row, overruled));
    row.acted = Some((at, 5));
    assert!(closing.is_spent(&row, overruled));
    row.acted = Some((at, 12));
    assert!(!closing.is_spent(&row, overruled), "it acted again since");
    row.spent = Some(Spent {
        seq: 9,
        closures: vec!["x".to_owned()],
    });
    assert!(closing.is_spent(&row, None));
}

/// Asking about everything is for the beginning of a batch; a later pass asks about what changed. This build is not
/// optimized, and the machine is shared.
#[test]
fn a_thousand_fresh_links_are_asked_about_at_once() {
    let mut lab = Lab::new();
    lab.knows(LinkKind::Issue, ItemState::Open, 0);
    let tasks: Vec<TaskId> = lab
        .store
        .write(&Actor::Cli, |tx| {
            (0..1000)
                .map(|n| {
                    let task = tx.add_task(&TaskSpec {
                        title: n.to_string(),
                        ..TaskSpec::default()
                    })?;
                    tx.link(task, &link())?;
                    Ok(task)
                })
                .collect()
        })
        .unwrap();
    let asked: Vec<Asked> = tasks
        .into_iter()
        .map(|task| Asked {
            task,
            batch: lab.batch,
            believed: Believed::Queued,
            take_up_seq: 0,
            since_seq: 0,
            attempt: None,
            ask_grace: AskGrace::Running,
        })
        .collect();
    let begun = std::time::Instant::now();
    let said = lab.source.reconciler().check_tasks(&lab.store, &asked);
    let took = begun.elapsed();
    assert_eq!(said.len(), 1000);
    assert!(took < Duration::from_secs(1), "{took:?}");
}
