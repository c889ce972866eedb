//! What becomes true elsewhere about a task that runs or waits, and what the batch does about it.

use std::time::{Duration, Instant};

use cf_testkit::process;
use test_case::test_case;

use crate::{sleeper, waiter, workspace};

#[test]
fn a_later_task_marked_done_never_starts() {
    let ws = workspace();
    ws.add("first", &waiter("first"));
    ws.add("second", "touch second.ran");
    ws.task("third")
        .run("touch third.ran")
        .after("second")
        .add();
    let batch = ws.start(["first", "second", "third"]);
    ws.wait_for_pid("first.pid");
    ws.set("second", "DONE");
    ws.touch("first.go");
    batch
        .wait()
        .ok()
        .says("[Reconciler] Skipping second: externally completed");
    assert!(!ws.exists("second.ran"));
    assert!(ws.exists("third.ran"), "its dependents run");
    ws.ended("second", "SKIPPED", "externally completed");
    assert!(ws.attempts("second").is_empty());
    assert_eq!(ws.batch_status(), "COMPLETED");
    let text = ws.batch_text();
    assert!(text.contains("Reconciliation events:"), "{text}");
    assert!(
        text.contains("1 task skipped (externally completed)"),
        "{text}"
    );
    let line = text.lines().find(|line| {
        line.contains("second") && line.contains("SKIP") && line.contains("externally completed")
    });
    assert!(line.is_some(), "{text}");
    assert_eq!(ws.batch()["counts"]["skipped"], 1);
}

#[test]
fn a_task_without_a_key_is_called_by_its_short_id() {
    let ws = workspace();
    ws.add("first", &waiter("first"));
    let second = ws
        .cf(["tasks", "add", "no key", "--run", "touch ran", "--json"])
        .json()["id"]
        .as_str()
        .expect("an id is text")
        .to_owned();
    let batch = ws.start(["first", &second]);
    ws.wait_for_pid("first.pid");
    ws.set(&second, "DONE");
    ws.touch("first.go");
    batch.wait().ok().says(&format!(
        "[Reconciler] Skipping {}: externally completed",
        &second[..8]
    ));
    assert!(!ws.exists("ran"));
}

#[test]
fn a_running_task_marked_done_is_stopped_with_its_whole_tree() {
    let ws = workspace();
    ws.add(
        "a",
        "setsid sh -c 'echo $$ > far.pid; sleep 60; true' & sh -c 'trap \"\" TERM; echo $$ > deaf.pid; while :; do sleep 0.1; done' & echo $$ > a.pid; wait",
    );
    ws.add("b", "touch b.ran");
    let batch = ws.start(["a", "b", "--max-parallel", "2", "--kill-grace", "500ms"]);
    let pids = ["a.pid", "far.pid", "deaf.pid"].map(|file| ws.wait_for_pid(file));
    ws.set("a", "DONE");
    ws.wait_for_event("BATCH_TASK_SKIPPED", "a");
    assert!(
        pids.iter().all(|pid| !process::alive(*pid)),
        "everything is gone when the outcome is stored"
    );
    batch.wait().ok();
    ws.no_agent_left();
    ws.ended("a", "SKIPPED", "externally completed");
    assert_eq!(ws.status("a"), "DONE");
    assert_eq!(ws.batch_status(), "COMPLETED");
    assert!(ws.exists("b.ran"));
}

#[test]
fn a_change_elsewhere_is_applied_long_before_the_interval() {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    let batch = ws.start(["a", "--reconcile-interval", "1h"]);
    ws.wait_for_pid("a.pid");
    let started = Instant::now();
    ws.set("a", "DONE");
    batch.wait().ok();
    assert!(started.elapsed() < Duration::from_secs(15));
    ws.ended("a", "SKIPPED", "externally completed");
}

#[test]
fn a_running_task_marked_merged_is_stopped() {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    ws.set("a", "MERGED");
    batch.wait().ok();
    ws.ended("a", "SKIPPED", "externally completed");
    assert_eq!(ws.status("a"), "MERGED");
}

#[test]
fn a_running_task_marked_blocked_is_held_while_the_batch_goes_on() {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    ws.add("b", "touch b.ran");
    let batch = ws.start(["a", "b"]);
    let pid = ws.wait_for_pid("a.pid");
    ws.set("a", "BLOCKED");
    batch.wait().code(4);
    assert!(!process::alive(pid));
    ws.no_agent_left();
    assert!(ws.exists("b.ran"));
    ws.ended("a", "BLOCKED", "externally blocked");
    assert_eq!(ws.status("a"), "BLOCKED");
    let text = ws.batch_text();
    assert!(
        text.contains("1 task killed (externally blocked)"),
        "{text}"
    );
}

#[test]
fn a_running_task_that_is_asked_about_is_held_and_runs_again_with_the_answer() {
    let ws = workspace();
    ws.add("a", "cp $CF_PROMPT_FILE prompt.$CF_ATTEMPT; echo $$ >> a.pid; [ $CF_ATTEMPT -ge 2 ] || sleep 60");
    ws.add("keep", &waiter("keep"));
    let batch = ws.start(["a", "keep", "--max-parallel", "2"]);
    let pid = ws.wait_for_pid("a.pid");
    let blocker = ws.ask("a", "Stop! Which colour?");
    ws.wait_for_phase("a", "held");
    assert!(!process::alive(pid));
    ws.cf(["blocker", "answer", &blocker, "ultramarine"]).ok();
    ws.wait_for_event("BATCH_TASK_COMPLETED", "a");
    ws.touch("keep.go");
    batch
        .wait()
        .ok()
        .says("[Reconciler] Killing a: externally blocked")
        .says("[Reconciler] Re-queueing a: blockers resolved");
    assert!(
        ws.read("prompt.2").contains("ultramarine"),
        "{}",
        ws.read("prompt.2")
    );
    let requeued = ws.events_of("BATCH_TASK_REQUEUED", "a");
    assert_eq!(requeued.len(), 1, "{requeued:?}");
    assert!(
        requeued[0].to_string().contains("blockers resolved"),
        "{requeued:?}"
    );
    let text = ws.batch_text();
    assert!(
        text.contains("1 task requeued (blockers resolved)"),
        "{text}"
    );
    assert_eq!(ws.events_of("BATCH_TASK_KILLED", "a").len(), 1);
    assert_eq!(ws.status("a"), "DONE");
}

#[test]
fn a_held_task_set_ready_by_hand_runs_again() {
    let ws = workspace();
    ws.add("a", "echo $$ >> a.pid; [ $CF_ATTEMPT -ge 2 ] || sleep 60");
    ws.add("keep", &waiter("keep"));
    let batch = ws.start(["a", "keep", "--max-parallel", "2"]);
    ws.wait_for_pid("a.pid");
    ws.set("a", "BLOCKED");
    ws.wait_for_phase("a", "held");
    ws.set("a", "READY");
    ws.wait_for_event("BATCH_TASK_COMPLETED", "a");
    ws.touch("keep.go");
    batch.wait().ok();
    let requeued = ws.events_of("BATCH_TASK_REQUEUED", "a");
    assert_eq!(requeued.len(), 1, "{requeued:?}");
    assert!(
        requeued[0].to_string().contains("unblocked by hand"),
        "{requeued:?}"
    );
}

#[test_case("DONE", "externally completed", 0; "done")]
#[test_case("FAILED", "externally failed", 3; "failed")]
#[test_case("BACKLOG", "withdrawn to backlog", 0; "withdrawn")]
fn a_held_task_is_skipped_for_what_is_decided_elsewhere(status: &str, reason: &str, code: i32) {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    ws.add("keep", &waiter("keep"));
    let batch = ws.start(["a", "keep", "--max-parallel", "2"]);
    ws.wait_for_pid("a.pid");
    ws.set("a", "BLOCKED");
    ws.wait_for_phase("a", "held");
    ws.set("a", status);
    ws.wait_for_event("BATCH_TASK_SKIPPED", "a");
    ws.touch("keep.go");
    batch.wait().code(code);
    ws.ended("a", "SKIPPED", reason);
    assert_eq!(ws.status("a"), status);
    assert_eq!(ws.lines("a.pid"), 1);
}

#[test]
fn a_held_task_that_is_deleted_is_skipped() {
    let ws = workspace();
    ws.add("a", "true");
    ws.add("keep", &waiter("keep"));
    ws.ask("a", "Why?");
    let batch = ws.start(["a", "keep", "--max-parallel", "2"]);
    ws.wait_for_pid("keep.pid");
    ws.cf(["tasks", "delete", "a", "--force"]).ok();
    ws.touch("keep.go");
    batch.wait().ok();
    assert!(
        ws.batch().to_string().contains("task deleted"),
        "{:#}",
        ws.batch()
    );
}

#[test]
fn a_queued_task_marked_failed_is_skipped_and_so_are_its_dependents() {
    let ws = workspace();
    ws.add("first", &waiter("first"));
    ws.add("second", "touch second.ran");
    ws.task("third")
        .run("touch third.ran")
        .after("second")
        .add();
    let batch = ws.start(["first", "second", "third"]);
    ws.wait_for_pid("first.pid");
    ws.set("second", "FAILED");
    ws.touch("first.go");
    batch
        .wait()
        .code(3)
        .says("[Reconciler] Skipping second: externally failed");
    ws.ended("second", "SKIPPED", "externally failed");
    ws.ended("third", "SKIPPED", "dependency second failed");
    assert!(!ws.exists("second.ran") && !ws.exists("third.ran"));
    assert_eq!(ws.batch_status(), "PARTIAL");
}

#[test]
fn a_running_task_marked_failed_is_stopped_and_counts_as_bad() {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    let batch = ws.start(["a", "--retry", "3", "--retry-delay", "10ms"]);
    let pid = ws.wait_for_pid("a.pid");
    ws.set("a", "FAILED");
    batch.wait().code(3);
    assert!(!process::alive(pid));
    ws.ended("a", "SKIPPED", "externally failed");
    assert_eq!(ws.status("a"), "FAILED");
    assert_eq!(ws.attempts("a").len(), 1, "it is not retried");
}

#[test]
fn a_running_task_put_back_to_ready_runs_again_without_using_a_retry() {
    let ws = workspace();
    ws.add(
        "a",
        "echo $$ >> a.pid; [ $(wc -l < a.pid) -ge 2 ] || sleep 60",
    );
    let batch = ws.start(["a", "--retry", "0"]);
    let first = ws.wait_for_pid("a.pid");
    ws.set("a", "READY");
    batch.wait().ok();
    assert!(!process::alive(first));
    assert_eq!(ws.lines("a.pid"), 2);
    assert_eq!(ws.status("a"), "DONE");
    assert!(ws.events_of("BATCH_TASK_FAILED", "a").is_empty());
    assert!(ws.events_of("BATCH_TASK_RETRYING", "a").is_empty());
    let killed = ws.events_of("BATCH_TASK_KILLED", "a");
    assert!(
        killed
            .iter()
            .any(|event| event.to_string().contains("put back in the queue")),
        "{killed:?}"
    );
}

#[test]
fn a_running_task_withdrawn_to_backlog_is_stopped_and_dropped() {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    ws.task("b").run("touch b.ran").after("a").add();
    let batch = ws.start(["a", "b"]);
    let pid = ws.wait_for_pid("a.pid");
    ws.set("a", "BACKLOG");
    batch.wait().code(3);
    assert!(!process::alive(pid));
    ws.ended("a", "SKIPPED", "withdrawn to backlog");
    ws.ended("b", "SKIPPED", "dependency a withdrawn");
    assert_eq!(ws.status("a"), "BACKLOG");
    assert!(!ws.exists("b.ran"));
}

#[test]
fn a_queued_task_withdrawn_to_backlog_is_dropped() {
    let ws = workspace();
    ws.add("first", &waiter("first"));
    ws.add("second", "touch second.ran");
    let batch = ws.start(["first", "second"]);
    ws.wait_for_pid("first.pid");
    ws.set("second", "BACKLOG");
    ws.touch("first.go");
    batch.wait().ok();
    ws.ended("second", "SKIPPED", "withdrawn to backlog");
    assert_eq!(ws.status("second"), "BACKLOG");
}

#[test]
fn a_running_task_that_is_deleted_is_stopped() {
    let ws = workspace();
    let id = ws.add("a", &sleeper("a"));
    ws.task("b").run("touch b.ran").after("a").add();
    let batch = ws.start(["a", "b"]);
    let pid = ws.wait_for_pid("a.pid");
    ws.cf(["tasks", "delete", "a"]).refused();
    ws.cf(["tasks", "delete", "a", "--force"]).ok();
    batch.wait().code(3);
    assert!(!process::alive(pid));
    let row = ws.row(&id);
    assert_eq!(row["outcome"], "SKIPPED", "{row}");
    assert!(row.to_string().contains("task deleted"), "{row}");
    ws.ended("b", "SKIPPED", "dependency a deleted");
    assert!(!ws.exists("b.ran"));
}

#[test]
fn a_queued_task_that_is_blocked_is_held_without_an_attempt() {
    let ws = workspace();
    ws.add("first", &waiter("first"));
    ws.add("second", "touch second.ran");
    let batch = ws.start(["first", "second"]);
    ws.wait_for_pid("first.pid");
    ws.set("second", "BLOCKED");
    ws.wait_for_phase("second", "held");
    ws.touch("first.go");
    batch.wait().code(4);
    ws.ended("second", "BLOCKED", "externally blocked");
    assert!(ws.attempts("second").is_empty());
}

#[test]
fn a_queued_task_claimed_by_another_batch_is_left_to_it() {
    let ws = workspace();
    ws.add("first", &waiter("first"));
    ws.add(
        "shared",
        &format!("echo $CF_BATCH_ID >> owners; {}", waiter("shared")),
    );
    let one = ws.start(["first", "shared"]);
    ws.wait_for_pid("first.pid");
    let two = ws.start(["shared"]);
    ws.wait_for_pid("shared.pid");
    ws.touch("first.go");
    ws.wait_for_event("BATCH_TASK_COMPLETED", "first");
    ws.touch("shared.go");
    one.wait().ok();
    two.wait().ok();
    assert_eq!(
        ws.lines("owners"),
        1,
        "it ran once, in the batch that claimed it"
    );
}

#[test]
fn a_queued_task_taken_in_hand_and_finished_is_skipped() {
    let ws = workspace();
    ws.add("first", &waiter("first"));
    ws.add("second", "touch second.ran");
    let batch = ws.start(["first", "second"]);
    ws.wait_for_pid("first.pid");
    ws.set("second", "IN_PROGRESS");
    ws.set("second", "DONE");
    ws.touch("first.go");
    batch.wait().ok();
    ws.ended("second", "SKIPPED", "externally completed");
    assert!(!ws.exists("second.ran"));
}

#[test]
fn a_queued_task_taken_in_hand_is_not_started() {
    let ws = workspace();
    ws.add("first", &waiter("first"));
    ws.add("second", "touch second.ran");
    let batch = ws.start(["first", "second"]);
    ws.wait_for_pid("first.pid");
    ws.set("second", "IN_PROGRESS");
    ws.touch("first.go");
    batch.wait().code(4);
    ws.ended("second", "BLOCKED", "in progress by hand");
    assert!(!ws.exists("second.ran"));
    assert_eq!(ws.status("second"), "IN_PROGRESS");
}
