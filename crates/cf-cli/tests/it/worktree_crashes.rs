//! Worktrees after `kill -9`, and git that is slow: nothing is lost, nothing is done twice, and the loop goes on.

use cf_testkit::{Signal, Workspace};
use serde_json::Value;

use crate::worktree::{in_commit, repository, tree};
use crate::{sleeper, until};

/// A repository in which git waits, when it fills a worktree (`smudge`) or takes in what it holds (`clean`), until the
/// file `go` is there, and says so before on the file `waits`.
fn slow(which: &str) -> Workspace {
    let ws = repository();
    ws.write(".gitattributes", "*.slow filter=slow\n");
    if which == "smudge" {
        ws.write("first.slow", "x\n");
    }
    ws.git_do(["add", "-A"]);
    ws.git_do(["commit", "-q", "-m", "slow"]);
    let root = ws.root().display().to_string();
    let waits = format!(
        "cat; echo $$ >> '{root}/waits'; {}",
        until(&format!("'{root}/go'"))
    );
    ws.git_do(["config", &format!("filter.slow.{which}"), &waits]);
    ws
}

fn worktrees(ws: &Workspace) -> usize {
    ws.git_do(["worktree", "list"]).lines().count()
}

#[test]
fn a_conductor_that_is_killed_while_a_worktree_is_made_leaves_a_task_that_can_be_resumed() {
    let ws = slow("smudge");
    ws.add("a", "echo work > work");
    let batch = ws.start(["a"]);
    ws.wait_for_line("waits");
    batch.kill9();
    ws.touch("go");
    ws.resume([""; 0]).ok();
    assert_eq!(in_commit(&ws, "cf/a", "work"), "work\n");
    assert_eq!(ws.row("a")["attempts"], 1, "the first was never started");
    assert_eq!(
        ws.git_do(["for-each-ref", "refs/cf/"]),
        "",
        "and left nothing"
    );
    ws.wait_for_quiet();
}

#[test]
fn a_conductor_that_is_killed_while_its_agent_works_is_followed_by_one_that_commits() {
    let ws = repository();
    let root = ws.root().display().to_string();
    ws.add(
        "a",
        &format!(
            "echo $$ >> {root}/a.pid; echo work > work; {}",
            until(&format!("{root}/go"))
        ),
    );
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    batch.kill9();
    ws.touch("go");
    ws.resume([""; 0]).ok();
    assert_eq!(in_commit(&ws, "cf/a", "work"), "work\n");
    assert_eq!(ws.attempts("a").len(), 1);
    assert_eq!(tree(&ws, "a")["removed"], true);
}

#[test]
fn a_conductor_that_is_killed_while_work_is_committed_is_followed_by_one_that_commits() {
    let ws = slow("clean");
    ws.add("a", "echo work > work.slow");
    let batch = ws.start(["a"]);
    ws.wait_for_line("waits");
    assert_eq!(
        ws.status("a"),
        "IN_PROGRESS",
        "it is not done before its work is safe"
    );
    batch.kill9();
    ws.touch("go");
    ws.resume([""; 0]).ok();
    assert_eq!(in_commit(&ws, "cf/a", "work.slow"), "work\n");
    assert_eq!(ws.attempts("a").len(), 1);
    assert_eq!(ws.git_do(["rev-list", "--count", "main..cf/a"]), "1\n");
    ws.wait_for_quiet();
}

#[test]
fn what_a_killed_conductor_and_its_killed_agent_left_is_kept() {
    let ws = repository();
    let root = ws.root().display().to_string();
    ws.add(
        "a",
        &format!("echo half > half; {}", sleeper(&format!("{root}/a"))),
    );
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    let supervisor = ws.supervisor("a");
    batch.kill9();
    cf_testkit::process::kill9(supervisor);
    ws.agents().into_iter().for_each(cf_testkit::process::kill9);
    ws.cf(["reconcile"]).ok();
    ws.cf(["stop", "--force"]).stdout();
    ws.resume(["--timeout", "1s", "--kill-grace", "0"]).code(3);
    let first = ws.attempts("a")[0]["worktree"].clone();
    assert_eq!(
        in_commit(&ws, first["rescue"].as_str().unwrap(), "half"),
        "half\n"
    );
}

#[test]
fn git_that_is_slow_does_not_hold_up_the_loop() {
    let ws = slow("clean");
    let root = ws.root().display().to_string();
    ws.add("a", "echo work > work.slow");
    ws.add("b", &sleeper(&format!("{root}/b")));
    let batch = ws.start(["a", "b", "--max-parallel", "2"]);
    ws.wait_for_pid("b.pid");
    ws.wait_for_line("waits");
    ws.set("b", "DONE");
    ws.wait_for_phase("b", "finished");
    assert_eq!(ws.status("a"), "IN_PROGRESS");
    ws.touch("go");
    batch.wait().ok();
    ws.ended("b", "SKIPPED", "externally completed");
    ws.ended("a", "COMPLETED", "");
}

#[test]
fn a_stop_while_a_worktree_is_made_ends_that_and_nothing_started() {
    let ws = slow("smudge");
    ws.add("a", "touch ran");
    let batch = ws.start(["a"]);
    ws.wait_for_line("waits");
    batch.signal(Signal::INT);
    batch.wait().code(130);
    ws.ended("a", "CANCELLED", "");
    assert_eq!(ws.status("a"), "READY");
    assert_eq!(worktrees(&ws), 1);
    assert_eq!(ws.row("a")["attempts"], 0);
    ws.wait_for_quiet();
}

#[test]
fn a_store_that_vanishes_while_a_worktree_is_made_leaves_no_agent_to_be_named() {
    let ws = slow("smudge");
    ws.add("a", "touch ran");
    let batch = ws.start(["a"]);
    ws.wait_for_line("waits");
    let attempt = ws.attempts("a").remove(0);
    let id = attempt["id"].as_str().expect("an id").to_owned();
    std::fs::remove_file(ws.root().join(".cf/state.db")).expect("it is there");
    let said = batch.wait().code(1).stderr();
    assert!(!said.contains(&id[..8]), "nothing of it ran: {said}");
}

#[test]
fn a_task_that_is_done_elsewhere_while_its_worktree_is_made_never_starts() {
    let ws = slow("smudge");
    ws.add("a", "touch ran");
    let batch = ws.start(["a"]);
    ws.wait_for_line("waits");
    ws.set("a", "DONE");
    batch.wait().ok();
    ws.ended("a", "SKIPPED", "externally completed");
    assert_eq!(tree(&ws, "a")["commit"], Value::Null);
    assert_eq!(worktrees(&ws), 1);
}
