//! What is left of worktrees, and what can go.

use cf_core::{Actor, BatchId};

use super::*;
use crate::process::Identity;
use crate::settings::Settings;
use crate::store::Store;
use crate::store::attempt::{AttemptResult, NewAttempt};
use crate::store::task::TaskSpec;

/// Stores an attempt with a worktree, which stands ready on its branch. Its end is stored when it is over.
fn attempt_in_store(lab: &Lab, store: &mut Store, name: &str, is_over: bool) -> Leaving {
    let batch = BatchId(uuid::Uuid::new_v4());
    let attempt = AttemptId(uuid::Uuid::new_v4());
    let identity = Identity::of_self(cf_core::SupervisorId(uuid::Uuid::new_v4())).unwrap();
    let task = store
        .write(&Actor::Cli, |tx| {
            let spec = TaskSpec {
                title: name.to_owned(),
                ..TaskSpec::default()
            };
            tx.add_task(&spec)
        })
        .unwrap();
    store
        .write(&Actor::Batch(batch), |tx| {
            tx.insert_batch_of(batch, &Settings::default(), &[task])?;
            let new = NewAttempt {
                id: attempt,
                task,
                batch,
                engine: "shell".to_owned(),
                format: crate::engine::SuccessRule::ExitZero,
                resumes: None,
                supervisor: identity,
            };
            tx.claim(&new, &tx.reader().task(new.task)?)?;
            tx.insert_worktree(attempt, task, name, &format!("cf/{name}"))?;
            tx.worktree_begins(attempt, "base")?;
            if is_over {
                let result = AttemptResult {
                    end: cf_core::AttemptEnd::Exited,
                    ending: None,
                    success: false,
                    reason: String::new(),
                    last_said: None,
                    session: None,
                    tokens: None,
                    cost_micro_usd: None,
                    left_behind: 0,
                    output_lost: 0,
                    record: serde_json::Value::Null,
                };
                tx.end_attempt(attempt, &result)?;
            }
            Ok(())
        })
        .unwrap();
    lab.begun(&Order {
        attempt,
        task,
        branch: format!("cf/{name}"),
        ..lab.order(name)
    })
}

#[test]
fn leftovers_are_listed_and_only_those_go_with_which_nothing_is_lost() {
    let lab = Lab::new();
    let mut store = Store::open(&lab.workspace).unwrap();
    for (name, is_over) in [
        ("clean", true),
        ("dirty", true),
        ("gone", true),
        ("live", false),
    ] {
        attempt_in_store(&lab, &mut store, name, is_over);
    }
    lab.begun(&Order {
        branch: "cf/unknown".to_owned(),
        ..lab.order("unknown")
    });
    fs::write(lab.tree("dirty").join("work"), "x").unwrap();
    fs::remove_dir_all(lab.tree("gone")).unwrap();
    let repository = lab.repository();
    let list = leftovers(&repository, &store).unwrap();
    let shown: Vec<_> = list
        .iter()
        .map(|left| (left.name.as_str(), left.standing, left.attempt.is_some()))
        .collect();
    assert_eq!(
        shown,
        [
            ("clean", Standing::Clean, true),
            ("dirty", Standing::Dirty, true),
            ("gone", Standing::Prunable, true),
            ("live", Standing::Live, true),
            ("unknown", Standing::Clean, false),
        ]
    );
    for (name, is_gone) in [
        ("clean", true),
        ("dirty", false),
        ("gone", true),
        ("live", false),
        ("none", true),
    ] {
        assert_eq!(
            remove_leftover(&repository, &store, name).unwrap(),
            is_gone,
            "{name}"
        );
        assert_eq!(repository.git_dir(name).is_none(), is_gone, "{name}");
    }
}

#[test]
fn a_commit_that_nobody_else_has_keeps_its_worktree() {
    let lab = Lab::new();
    lab.begun(&lab.order("t-1"));
    let tree = lab.tree("t-1");
    lab.git_in(&tree, &["checkout", "-q", "--detach"]);
    lab.git_in(&tree, &["commit", "-q", "--allow-empty", "-m", "mine"]);
    let repository = lab.repository();
    assert!(!repository.remove_if_clean("t-1", None).unwrap());
    lab.git_in(&tree, &["branch", "kept"]);
    assert!(repository.remove_if_clean("t-1", None).unwrap());
}
