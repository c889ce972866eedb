use std::cell::RefCell;
use std::rc::Rc;

use cf_core::{Actor, TaskStatus};
use cf_reconcile::{Decision, Evidence, Reason};
use uuid::Uuid;

use super::*;
use crate::store::task::{Expect, TaskSpec};

type Said = Vec<(TaskId, Observation<ReconciliationResult>)>;

/// A source that says what the test wants, and remembers what it was asked about.
struct Says {
    name: &'static str,
    said: Said,
    asked: Rc<RefCell<Vec<TaskId>>>,
}

impl Says {
    fn new(name: &'static str, said: Said) -> Self {
        Self {
            name,
            said,
            asked: Rc::default(),
        }
    }
}

impl Reconciler for Says {
    fn name(&self) -> SourceName {
        SourceName::Other(self.name.to_owned())
    }

    fn check_tasks(&mut self, _: &Store, asked: &[Asked]) -> Said {
        self.asked
            .borrow_mut()
            .extend(asked.iter().map(|asked| asked.task));
        self.said.clone()
    }
}

fn task(nth: u128) -> TaskId {
    TaskId(Uuid::from_u128(nth))
}

fn ask(task: TaskId, believed: Believed) -> Asked {
    Asked {
        task,
        batch: BatchId(Uuid::from_u128(99)),
        believed,
        take_up_seq: 0,
        since_seq: 0,
        attempt: None,
        ask_grace: AskGrace::Running,
    }
}

fn known(
    nth: u128,
    action: ReconcileAction,
    source: &str,
) -> (TaskId, Observation<ReconciliationResult>) {
    let decision = Decision {
        row: 1,
        action,
        reason: Reason::Other(source.to_owned()),
        external_status: None,
    };
    let name = SourceName::Other(source.to_owned());
    let believed = Believed::Queued.phase();
    let finding =
        ReconciliationResult::new(task(nth), None, believed, decision, name, Evidence::None);
    (task(nth), Observation::Known(finding))
}

fn unknown(nth: u128, why: &str) -> (TaskId, Observation<ReconciliationResult>) {
    (task(nth), Observation::Unknown(why.to_owned()))
}

#[test]
fn what_sources_say_in_any_order_is_merged_in_the_order_of_the_questions() {
    use ReconcileAction::{Kill, LogContext, None, Skip};
    let one = vec![
        known(4, None, "one"),
        unknown(6, "first"),
        known(1, Skip, "one"),
        known(77, Skip, "one"),
        known(2, LogContext, "one"),
        unknown(5, "second"),
        (task(3), Observation::Gone),
    ];
    let two = vec![
        known(5, None, "two"),
        known(4, LogContext, "two"),
        known(2, Kill, "two"),
        known(2, None, "two"),
        unknown(3, "third"),
    ];
    let (one, two) = (Says::new("one", one), Says::new("two", two));
    let asked_two = Rc::clone(&two.asked);
    let mut registry = ReconcilerRegistry::new(vec![Box::new(one), Box::new(two)]);
    let asked: Vec<Asked> = (1..=6).map(|n| ask(task(n), Believed::Queued)).collect();

    let pass = registry.check(&Store::in_memory().unwrap(), &asked);

    let of = |finding: &ReconciliationResult| format!("{} {}", finding.reason, finding.action);
    let merged = pass.merged.iter().map(|found| {
        let also: Vec<String> = found.also.iter().map(of).collect();
        (found.winner.task_id, of(&found.winner), also.join(", "))
    });
    let expected = [
        (1, "one SKIP", ""),
        (2, "two KILL", "one LOG_CONTEXT, two NONE"),
        (4, "two LOG_CONTEXT", "one NONE"),
        (5, "two NONE", ""),
    ];
    let expected = expected.map(|(n, won, also)| (task(n), won.to_owned(), also.to_owned()));
    assert_eq!(merged.collect::<Vec<_>>(), expected);
    let unread = |source: &str, why: &str, tasks: &[u128]| Unread {
        source: SourceName::Other(source.to_owned()),
        why: why.to_owned(),
        tasks: tasks.iter().copied().map(task).collect(),
    };
    assert_eq!(
        pass.unknown,
        [
            unread("one", "first", &[6, 5]),
            unread("two", "third", &[3])
        ]
    );
    // The first task is settled.
    let left: Vec<TaskId> = (2..=6).map(task).collect();
    assert_eq!(*asked_two.borrow(), left);
}

#[test]
fn the_store_says_of_many_tasks_what_it_says_of_each() {
    let mut store = Store::in_memory().unwrap();
    let statuses = [
        TaskStatus::Ready,
        TaskStatus::Done,
        TaskStatus::Backlog,
        TaskStatus::Failed,
    ];
    let tasks: Vec<TaskId> = store
        .write(&Actor::Cli, |tx| {
            let mut tasks = Vec::new();
            for n in 0..300 {
                let id = tx.add_task(&TaskSpec {
                    title: format!("t{n}"),
                    ..TaskSpec::default()
                })?;
                if n % 7 == 0 {
                    tx.ask(Some(id), "which way?")?;
                } else {
                    tx.set_status(id, statuses[n % 4], Expect::Anything)?;
                }
                tasks.push(id);
            }
            Ok(tasks)
        })
        .unwrap();
    let mut asked: Vec<Asked> = tasks
        .iter()
        .enumerate()
        .filter(|(n, _)| n % 11 != 0)
        .map(|(n, task)| {
            let held = n % 7 == 0 || n % 5 == 0;
            ask(
                *task,
                if held {
                    Believed::Held
                } else {
                    Believed::Queued
                },
            )
        })
        .chain([ask(task(1), Believed::Queued), ask(task(2), Believed::Held)])
        .collect();
    asked.sort_by_key(|asked| asked.task);

    let together = LocalReconciler.check_tasks(&store, &asked);

    let apart: Said = asked
        .iter()
        .flat_map(|asked| LocalReconciler.check_tasks(&store, std::slice::from_ref(asked)))
        .collect();
    assert_eq!(together.len(), asked.len());
    assert_eq!(together, apart);
    let actions: HashSet<_> = together
        .iter()
        .map(|(_, said)| match said {
            Observation::Known(finding) => finding.action.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(actions.len() > 2, "{actions:?}");
}
