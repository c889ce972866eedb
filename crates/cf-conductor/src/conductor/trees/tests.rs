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
        output_lost: 0,
        record: serde_json::Value::Null,
    }
}

/// A store, a batch's core, and the attempt in a worktree that it looks after; its base is stored.
struct Lab {
    _temp: tempfile::TempDir,
    store: Store,
    core: Core,
    batch: BatchId,
    task: TaskId,
    attempt: AttemptId,
}

impl Lab {
    /// With a result of its agent, the attempt is at its verification.
    fn new(agent: Option<AttemptResult>, stop: Option<Why>) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let (workspace, _) = Workspace::create(temp.path()).unwrap();
        let mut store = Store::open(&workspace).unwrap();
        let settings = Settings::default();
        let batch = BatchId(uuid::Uuid::new_v4());
        let attempt = AttemptId(uuid::Uuid::new_v4());
        let identity = Identity::of_self(cf_core::SupervisorId(uuid::Uuid::new_v4())).unwrap();
        let mut core = Core::new(batch, settings.clone(), HashMap::new());
        let spec = TaskSpec {
            title: "t".to_owned(),
            ..TaskSpec::default()
        };
        let task = store.write(&Actor::Cli, |tx| tx.add_task(&spec)).unwrap();
        store
            .write(&Actor::Batch(batch), |tx| {
                tx.insert_batch_of(batch, &settings, &[task])?;
                let new = NewAttempt {
                    id: attempt,
                    task,
                    batch,
                    engine: "shell".to_owned(),
                    format: SuccessRule::ExitZero,
                    resumes: None,
                    supervisor: identity.clone(),
                };
                tx.claim(&new, &tx.reader().task(task)?)?;
                tx.insert_worktree(attempt, task, "t-1", "cf/t")?;
                tx.worktree_begins(attempt, "base")?;
                if let Some(agent) = &agent {
                    let row = tx.reader().attempt(attempt)?;
                    tx.begin_verification(&row, &identity, agent)?;
                }
                let version = tx.reader().task(task)?.version;
                let running = Running {
                    attempt,
                    generation: 1,
                    task,
                    stage: if agent.is_some() {
                        Stage::Verify
                    } else {
                        Stage::Agent
                    },
                    identity: identity.clone(),
                    version,
                    rule: SuccessRule::ExitZero,
                    session: None,
                    verify: Some("true".to_owned()),
                    stop: stop.map(|why| StopIntent { why, version }),
                    asked_at: None,
                    agent_result: agent,
                    jobs: None,
                    tree: Some(Tree {
                        name: "t-1".to_owned(),
                        branch: "cf/t".to_owned(),
                    }),
                };
                core.running.insert(task, running);
                core.by_attempt.insert(attempt, task);
                Ok(())
            })
            .unwrap();
        Self {
            _temp: temp,
            store,
            core,
            batch,
            task,
            attempt,
        }
    }

    fn settle(&mut self, judged: &Judged) {
        let by = Actor::Batch(self.batch);
        let core = &mut self.core;
        self.store.write(&by, |tx| core.settle(tx, judged)).unwrap();
    }

    fn never_started(&self, stage: Stage) -> Judged {
        Judged {
            attempt: self.attempt,
            stage,
            result: result(AttemptEnd::NeverStarted, false, 0),
            cause: FailureCause::NeverStarted,
            survivors: Vec::new(),
            session_is_unknown: false,
            free: false,
            kept: None,
            question: None,
        }
    }
}

#[test]
fn work_whose_verification_never_began_before_a_stop_is_kept_and_not_done() {
    let agent = result(AttemptEnd::Exited, true, 2);
    let mut lab = Lab::new(Some(agent), Some(Why::Batch));
    lab.settle(&lab.never_started(Stage::Verify));
    let mut keep = lab.core.keeps.pop().expect("its work is kept first");
    assert!(!keep.is_finished);
    keep.judged.kept = Some(Kept::Done(worktree::Kept::Nothing));
    lab.settle(&keep.judged);
    let left = |reader: &Reader<'_>| Ok(reader.attempt(lab.attempt)?.left_behind);
    assert_eq!(lab.store.read(left).unwrap(), 2, "that counts once");
    let task = lab.store.read(|reader| reader.task(lab.task)).unwrap();
    assert_eq!(task.status, TaskStatus::Ready);
}

#[test]
fn a_worktree_whose_base_was_stored_is_looked_at_before_it_goes() {
    let mut lab = Lab::new(None, None);
    lab.settle(&lab.never_started(Stage::Agent));
    let bases: Vec<_> = lab
        .core
        .tidies
        .iter()
        .map(|tidy| tidy.base.as_deref())
        .collect();
    assert_eq!(bases, [Some("base")]);
}
