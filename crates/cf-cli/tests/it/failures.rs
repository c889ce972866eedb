//! Failures: dependents, policies, retries, time limits, and the exit code.

use std::time::Instant;

use crate::{sleeper, stubborn, until, waiter, workspace};

#[test]
fn a_failed_task_takes_its_dependents_along_with_the_cause() {
    let ws = workspace();
    ws.add("a", "exit 1");
    ws.task("b").run("touch b.ran").after("a").add();
    ws.task("c").run("touch c.ran").after("b").add();
    ws.run(["a", "b", "c"]).code(3);
    ws.ended("a", "FAILED", "");
    ws.ended("b", "SKIPPED", "dependency a failed");
    ws.ended("c", "SKIPPED", "dependency a failed");
    assert!(!ws.exists("b.ran") && !ws.exists("c.ran"));
    assert_eq!(ws.batch_status(), "FAILED");
    assert_eq!(ws.status("a"), "FAILED");
    assert_eq!(ws.status("b"), "READY");
}

#[test]
fn the_reason_of_a_failure_is_what_the_agent_said_last() {
    let ws = workspace();
    ws.add("a", "echo earlier; echo the-parser-broke; exit 3");
    ws.run(["a"]).code(3);
    ws.ended("a", "FAILED", "the-parser-broke");
    assert_eq!(ws.attempts("a")[0]["exit_code"], 3);
}

#[test]
fn a_failure_leaves_the_rest_running_by_default() {
    let ws = workspace();
    ws.add("a", "exit 1");
    ws.add("b", "touch b.ran");
    ws.run(["a", "b"]).code(3);
    assert!(ws.exists("b.ran"));
    assert_eq!(ws.batch_status(), "PARTIAL");
}

#[test]
fn on_failure_stop_starts_nothing_new() {
    let ws = workspace();
    ws.add("a", "exit 1");
    ws.add("b", "touch b.ran");
    ws.run(["a", "b", "--on-failure", "stop"]).code(3);
    ws.ended("b", "CANCELLED", "stopped after a failed");
    assert!(!ws.exists("b.ran"));
    assert_eq!(ws.batch_status(), "FAILED");
    assert_eq!(ws.status("b"), "READY");
}

#[test]
fn on_failure_stop_lets_running_agents_end() {
    let ws = workspace();
    ws.add("slow", &waiter("slow"));
    ws.add("bad", &format!("{}; exit 1", until("slow.pid")));
    ws.add("later", "touch later.ran");
    let batch = ws.start([
        "slow",
        "bad",
        "later",
        "--max-parallel",
        "2",
        "--on-failure",
        "stop",
    ]);
    ws.wait_for_event("BATCH_TASK_FAILED", "bad");
    ws.touch("slow.go");
    batch.wait().code(3);
    ws.ended("slow", "COMPLETED", "");
    ws.ended("later", "CANCELLED", "stopped after bad failed");
    assert!(!ws.exists("later.ran"));
    assert_eq!(ws.batch_status(), "PARTIAL");
}

#[test]
fn on_failure_stop_ignores_what_is_only_held() {
    let ws = workspace();
    ws.add("a", "cf blocker ask 'which one?'");
    ws.add("b", "touch b.ran");
    ws.run(["a", "b", "--on-failure", "stop"]).code(4);
    assert!(ws.exists("b.ran"));
}

#[test]
fn a_retry_runs_the_task_again_until_it_succeeds() {
    let ws = workspace();
    ws.add("a", "echo x >> runs; [ $(wc -l < runs) -ge 3 ]");
    ws.run(["a", "--retry", "2", "--retry-delay", "20ms"]).ok();
    assert_eq!(ws.lines("runs"), 3);
    let generations: Vec<_> = ws
        .attempts("a")
        .iter()
        .map(|a| a["generation"].clone())
        .collect();
    assert_eq!(generations, [1, 2, 3]);
    assert_eq!(ws.status("a"), "DONE");
    assert_eq!(ws.row("a")["attempts"], 3);
}

#[test]
fn retries_end_in_one_failure_after_the_last_attempt() {
    let ws = workspace();
    ws.add("a", "echo x >> runs; exit 1");
    ws.run(["a", "--retry", "2", "--retry-delay", "20ms"])
        .code(3);
    assert_eq!(ws.lines("runs"), 3);
    assert_eq!(ws.events_of("BATCH_TASK_FAILED", "a").len(), 1);
    assert_eq!(ws.events_named("BATCH_FAILED").len(), 1);
    let events = ws.events();
    let last = events.last().expect("there are events");
    assert_eq!(last["type"], "BATCH_FAILED", "{last}");
    let failed: Vec<_> = events
        .iter()
        .filter(|e| e["type"] == "TASK_STATUS_CHANGED" && e["data"]["to"] == "FAILED")
        .collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
}

#[test]
fn between_two_attempts_the_task_stays_in_progress() {
    let ws = workspace();
    ws.add("a", "exit 1");
    let batch = ws.start(["a", "--retry", "1", "--retry-delay", "60s"]);
    ws.wait_for_event("BATCH_TASK_RETRYING", "a");
    assert_eq!(ws.status("a"), "IN_PROGRESS");
    batch.signal(cf_testkit::Signal::INT);
    batch.wait().code(130);
    assert_eq!(ws.status("a"), "READY");
}

#[test]
fn a_task_that_waits_for_its_retry_holds_no_slot() {
    let ws = workspace();
    ws.add("a", "echo x >> runs; [ $(wc -l < runs) -ge 2 ]");
    ws.add("b", "test $(wc -l < runs) = 1 && touch b.ran");
    ws.run(["a", "b", "--retry", "1", "--retry-delay", "1s"])
        .ok();
    assert!(ws.exists("b.ran"));
    assert_eq!(ws.attempts("b").len(), 1);
}

#[test]
fn a_timeout_stops_the_agent_and_counts_as_failed() {
    let ws = workspace();
    ws.add("a", "(sleep 60; true) & sleep 60");
    let started = Instant::now();
    ws.run(["a", "--timeout", "300ms", "--kill-grace", "2s"])
        .code(3);
    assert!(started.elapsed().as_secs() < 20);
    ws.ended("a", "FAILED", "timed out after 300ms");
    assert_eq!(ws.status("a"), "FAILED");
    ws.no_agent_left();
}

#[test]
fn a_timeout_is_told_as_the_limit_however_long_the_agent_goes_on() {
    let ws = workspace();
    ws.add("a", &stubborn("a"));
    ws.run(["a", "--timeout", "300ms", "--kill-grace", "1s"])
        .code(3)
        .says("timed out after 300ms");
    ws.ended("a", "FAILED", "timed out after 300ms");
    assert_eq!(ws.attempts("a")[0]["reason"], "timed out after 300ms");
    ws.task("b").run("true").verify(&stubborn("b")).add();
    ws.run(["b", "--timeout", "300ms", "--kill-grace", "1s"])
        .code(3);
    ws.ended("b", "FAILED", "verify failed: timed out after 300ms");
}

#[test]
fn a_timeout_is_retried_by_policy() {
    let ws = workspace();
    ws.add("a", "echo x >> runs; [ $(wc -l < runs) -ge 2 ] || sleep 60");
    ws.run([
        "a",
        "--timeout",
        "400ms",
        "--retry",
        "1",
        "--retry-delay",
        "20ms",
    ])
    .ok();
    assert_eq!(ws.lines("runs"), 2);
}

#[test]
fn an_agent_without_output_and_work_is_stalled() {
    let ws = workspace();
    ws.add("a", "echo begin; sleep 60");
    let started = Instant::now();
    ws.run(["a", "--stall-timeout", "1s", "--kill-grace", "2s"])
        .code(3);
    assert!(started.elapsed().as_secs() < 25);
    ws.ended("a", "FAILED", "stalled for 1s");
    ws.no_agent_left();
}

#[test]
fn an_agent_that_ends_at_once_does_not_wait_for_its_stall_timeout() {
    let ws = workspace();
    ws.add("a", "true");
    let started = Instant::now();
    ws.run(["a", "--stall-timeout", "1h"]).ok();
    assert!(started.elapsed().as_secs() < 10);
    assert_eq!(ws.status("a"), "DONE");
}

#[test]
fn a_quiet_agent_with_busy_children_is_not_stalled() {
    let ws = workspace();
    ws.add(
        "a",
        "end=$(($(date +%s) + 4)); sh -c 'while [ $(date +%s) -lt '$end' ]; do :; done' & wait",
    );
    ws.run(["a", "--stall-timeout", "1s"]).ok();
    assert_eq!(ws.status("a"), "DONE");
}

#[test]
fn an_agent_that_keeps_talking_is_not_stalled() {
    let ws = workspace();
    ws.add("a", "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.3; done");
    ws.run(["a", "--stall-timeout", "1s"]).ok();
    assert_eq!(ws.status("a"), "DONE");
}

#[test]
fn held_tasks_beside_done_ones_give_partial_and_4_and_name_the_question() {
    let ws = workspace();
    ws.add("a", "true");
    ws.add("b", "touch b.ran");
    ws.ask("b", "Which colour shall it be?");
    ws.run(["a", "b"]).code(4).says("Which colour shall it be?");
    ws.ended("b", "BLOCKED", "");
    assert!(!ws.exists("b.ran"));
    assert_eq!(ws.batch_status(), "PARTIAL");
    assert_eq!(ws.batch()["exit_code"], 4);
}

#[test]
fn a_task_cut_short_without_a_bad_one_gives_partial_and_3() {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    ws.add("b", "true");
    let batch = ws.start(["a", "b"]);
    ws.wait_for_pid("a.pid");
    ws.cf(["work", "stop", "a"]).ok();
    batch.wait().code(3);
    assert_eq!(ws.batch_status(), "PARTIAL");
    ws.ended("a", "CANCELLED", "stopped by hand");
    ws.ended("b", "COMPLETED", "");
}

#[test]
fn dropped_tasks_do_not_spoil_a_batch() {
    let ws = workspace();
    ws.add("first", &waiter("first"));
    ws.add("gone", "touch gone.ran");
    ws.add("withdrawn", "touch withdrawn.ran");
    let batch = ws.start(["first", "gone", "withdrawn"]);
    ws.wait_for_pid("first.pid");
    ws.cf(["tasks", "delete", "gone", "--force"]).ok();
    ws.set("withdrawn", "BACKLOG");
    ws.touch("first.go");
    batch.wait().ok();
    ws.ended("withdrawn", "SKIPPED", "withdrawn to backlog");
    assert_eq!(ws.batch_status(), "COMPLETED");
    assert!(!ws.exists("gone.ran") && !ws.exists("withdrawn.ran"));
}
