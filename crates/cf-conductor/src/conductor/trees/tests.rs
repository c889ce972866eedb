//! What the end of an attempt with a worktree means, when it comes a second time with its work kept.

use std::collections::HashMap;

use cf_core::BatchId;
use cf_reconcile::FailureCause;

use super::*;
use crate::conductor::turn::StopIntent;
use crate::engine::SuccessRule;
use crate::process::Identity;
use crate::store::attempt::{AttemptResult, NewAttempt};
use crate::store::task::TaskSpec;

fn result(end: AttemptEnd, success: bool, left_behind: u32) -> AttemptResult {
    AttemptResult {
        end,
        ending: None,
        success,
        reason: String::new(),
        last_said: None,
        session: None,
        tokens: None,
        cost_micro_usd: None,
        left_behind,
        record: serde_json::Value::Null,
    }
}

#[test]
fn work_whose_verification_never_began_before_a_stop_is_kept_and_not_done() {
    let temp = tempfile::tempdir().unwrap();
    let (workspace, _) = Workspace::create(temp.path()).unwrap();
    let mut store = Store::open(&workspace).unwrap();
    let settings = Settings::default();
    let (batch, attempt) = (
        BatchId(uuid::Uuid::new_v4()),
        AttemptId(uuid::Uuid::new_v4()),
    );
    let identity = Identity::of_self(cf_core::SupervisorId(uuid::Uuid::new_v4())).unwrap();
    let mut core = Core::new(batch, settings.clone(), HashMap::new());
    let task = store
        .write(&Actor::Cli, |tx| {
            tx.add_task(&TaskSpec {
                title: "t".to_owned(),
                ..TaskSpec::default()
            })
        })
        .unwrap();
    let ended = Judged {
        attempt,
        stage: Stage::Verify,
        result: result(AttemptEnd::NeverStarted, false, 0),
        cause: FailureCause::NeverStarted,
        survivors: Vec::new(),
        session_is_unknown: false,
        free: false,
        kept: None,
        question: None,
    };
    store
        .write(&Actor::Batch(batch), |tx| {
            tx.insert_batch(batch, &settings, &[task])?;
            let new = NewAttempt {
                id: attempt,
                task,
                batch,
                engine: "shell".to_owned(),
                format: SuccessRule::ExitZero,
                resumes: None,
                supervisor: identity.clone(),
            };
            tx.claim(&new, tx.reader().task(task)?.version)?;
            tx.insert_worktree(attempt, task, "t-1", "cf/t")?;
            tx.worktree_begins(attempt, "base")?;
            let agent = result(AttemptEnd::Exited, true, 2);
            let row = tx.reader().attempt(attempt)?;
            tx.begin_verification(&row, &identity, &agent)?;
            let version = tx.reader().task(task)?.version;
            let running = Running {
                attempt,
                generation: 1,
                task,
                stage: Stage::Verify,
                identity: identity.clone(),
                version,
                rule: SuccessRule::ExitZero,
                session: None,
                verify: Some("true".to_owned()),
                stop: Some(StopIntent {
                    why: Why::Batch,
                    version,
                }),
                asked_at: None,
                agent_result: Some(agent),
                jobs: None,
                tree: Some(Tree {
                    name: "t-1".to_owned(),
                    branch: "cf/t".to_owned(),
                }),
            };
            core.running.insert(task, running);
            core.by_attempt.insert(attempt, task);
            core.settle(tx, &ended)?;
            let mut keep = core.keeps.pop().expect("its work is kept first");
            assert!(!keep.is_finished);
            keep.judged.kept = Some(Kept::Done(worktree::Kept::Nothing));
            core.settle(tx, &keep.judged)?;
            let row = tx.reader().attempt(attempt)?;
            assert_eq!(row.left_behind, 2, "what was left behind counts once");
            assert_eq!(tx.reader().task(task)?.status, TaskStatus::Ready);
            Ok(())
        })
        .unwrap();
}
