//! When a change elsewhere acts: under resume, in a backoff, without passes, in the instant of an end.

use std::time::Duration;

use cf_testkit::{Signal, Value, Workspace, process};

use crate::{sleeper, until, waiter, workspace};

/// The kinds of event that end a task inside a batch.
const TERMINAL: [&str; 5] = [
    "BATCH_TASK_COMPLETED",
    "BATCH_TASK_FAILED",
    "BATCH_TASK_BLOCKED",
    "BATCH_TASK_SKIPPED",
    "BATCH_TASK_CANCELLED",
];

/// The events that ended a task inside a batch.
fn endings(ws: &Workspace, key: &str) -> Vec<Value> {
    TERMINAL
        .iter()
        .flat_map(|kind| ws.events_of(kind, key))
        .collect()
}

#[test]
fn what_the_agent_itself_reports_is_not_an_outside_change() {
    let ws = workspace();
    ws.add(
        "a",
        "cf tasks set status self DONE; sleep 0.7; echo x > finished",
    );
    let batch = ws.start(["a", "--reconcile-interval", "100ms"]);
    batch.wait().ok().never_says("[Reconciler] Skipping");
    assert!(ws.exists("finished"), "its exit is awaited");
    ws.ended("a", "COMPLETED", "");
    assert!(ws.events_of("BATCH_TASK_KILLED", "a").is_empty());
}

#[test]
fn the_same_holds_under_resume() {
    let ws = workspace();
    ws.add(
        "a",
        "echo $$ >> a.pid; [ $(wc -l < a.pid) -ge 2 ] || exit 1; sleep 60",
    );
    ws.run(["a", "--retry", "0"]).code(3);
    let batch = ws.spawn(["work", "batch", "resume"]);
    ws.wait_for_lines("a.pid", 2);
    ws.set("a", "DONE");
    batch.wait().ok();
    ws.ended("a", "SKIPPED", "externally completed");
    ws.no_agent_left();
}

#[test]
fn the_same_holds_for_an_adopted_agent() {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    let batch = ws.start(["a"]);
    let pid = ws.wait_for_pid("a.pid");
    batch.kill9();
    let resumed = ws.spawn(["work", "batch", "resume"]);
    ws.wait_for_event("ATTEMPT_ADOPTED", "a");
    ws.set("a", "DONE");
    resumed.wait().ok();
    assert!(!process::alive(pid));
    ws.ended("a", "SKIPPED", "externally completed");
}

#[test]
fn what_was_marked_done_while_nobody_conducted_stays_done() {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    let batch = ws.start(["a"]);
    let pid = ws.wait_for_pid("a.pid");
    batch.kill9();
    ws.set("a", "DONE");
    ws.resume([""; 0]).ok();
    assert!(!process::alive(pid), "no agent works on what is done");
    assert_eq!(ws.status("a"), "DONE");
    assert_eq!(ws.lines("a.pid"), 1);
}

#[test]
fn a_task_marked_done_in_the_backoff_of_its_retry_is_not_started_again() {
    let ws = workspace();
    ws.add("a", "echo x >> runs; exit 1");
    let batch = ws.start(["a", "--retry", "1", "--retry-delay", "120s"]);
    ws.wait_for_event("BATCH_TASK_RETRYING", "a");
    ws.set("a", "DONE");
    batch.wait().ok();
    assert_eq!(ws.lines("runs"), 1);
    ws.ended("a", "SKIPPED", "externally completed");
    assert_eq!(ws.status("a"), "DONE");
}

#[test]
fn without_passes_a_running_agent_is_not_stopped() {
    let ws = workspace();
    ws.add(
        "a",
        &format!("{}; sleep 0.3; echo x > finished", waiter("a")),
    );
    let batch = ws.start(["a", "--reconcile-interval", "0"]);
    ws.wait_for_pid("a.pid");
    ws.set("a", "DONE");
    ws.touch("a.go");
    batch.wait().ok().says("disabled");
    assert!(ws.exists("finished"), "no agent is stopped");
    assert_eq!(ws.status("a"), "DONE");
    assert!(ws.events_of("BATCH_TASK_KILLED", "a").is_empty());
}

#[test]
fn without_passes_a_lost_claim_is_still_decided_by_the_table() {
    let ws = workspace();
    ws.add("first", &waiter("first"));
    ws.add("second", "touch second.ran");
    let batch = ws.start(["first", "second", "--reconcile-interval", "0"]);
    ws.wait_for_pid("first.pid");
    ws.set("second", "DONE");
    ws.touch("first.go");
    batch.wait().ok();
    assert!(!ws.exists("second.ran"));
    ws.ended("second", "SKIPPED", "externally completed");
}

#[test]
fn without_passes_nothing_is_requeued() {
    let ws = workspace();
    ws.add("a", "cf blocker ask 'Which colour?'; echo x >> runs");
    ws.add("keep", &waiter("keep"));
    let batch = ws.start(["a", "keep", "--reconcile-interval", "0"]);
    ws.wait_for_pid("keep.pid");
    ws.wait_for_event("BATCH_TASK_BLOCKED", "a");
    ws.cf(["blocker", "answer", "blue"]).ok();
    ws.touch("keep.go");
    batch.wait().code(4);
    assert_eq!(ws.lines("runs"), 1);
}

#[test]
fn a_late_result_of_an_agent_that_a_person_overruled_is_kept_as_stale() {
    let ws = workspace();
    ws.add(
        "a",
        "trap 'exit 0' TERM; echo $$ > a.pid; while :; do sleep 0.05; done",
    );
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    ws.set("a", "FAILED");
    batch.wait().code(3);
    assert_eq!(ws.status("a"), "FAILED");
    assert!(
        !ws.events_of("ATTEMPT_STALE_RESULT", "a").is_empty(),
        "{}",
        ws.describe()
    );
    assert!(ws.events_of("BATCH_TASK_COMPLETED", "a").is_empty());
}

#[test]
fn done_in_the_instant_of_a_failure_stays_done_with_one_terminal_event() {
    let ws = workspace();
    for n in 0..5 {
        let key = format!("t{n}");
        ws.add(
            &key,
            &format!("echo $$ > {key}.pid; while [ ! -e {key}.go ]; do :; done; exit 1"),
        );
        let batch = ws.start([&key]);
        ws.wait_for_pid(&format!("{key}.pid"));
        let set = ws.spawn(["tasks", "set", "status", &key, "DONE"]);
        std::thread::sleep(Duration::from_millis(n * 4));
        ws.touch(&format!("{key}.go"));
        set.wait().ok();
        let code = batch.wait().exit_code();
        assert!(code == Some(0) || code == Some(3), "{code:?}");
        assert_eq!(ws.status(&key), "DONE");
        let ends = endings(&ws, &key);
        assert_eq!(ends.len(), 1, "{ends:?}");
    }
}

#[test]
fn a_task_that_is_done_already_when_its_agent_succeeds_is_a_success() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    let batch = ws.start(["a", "--reconcile-interval", "0"]);
    ws.wait_for_pid("a.pid");
    ws.set("a", "DONE");
    ws.touch("a.go");
    let output = batch.wait().ok();
    assert!(
        !output.text().contains("may not"),
        "no refused transition: {}",
        output.text()
    );
    assert_eq!(ws.batch_status(), "COMPLETED");
    assert_eq!(endings(&ws, "a").len(), 1);
}

#[test]
fn twenty_changes_in_a_second_settle_to_one_result_with_every_step_in_the_log() {
    let ws = workspace();
    ws.add("first", &waiter("first"));
    let id = ws.add("second", "touch second.ran");
    let batch = ws.start(["first", "second"]);
    ws.wait_for_pid("first.pid");
    for status in twenty_changes() {
        ws.set("second", status);
    }
    ws.touch("first.go");
    batch.wait().ok();
    assert_eq!(ws.status("second"), "DONE");
    assert!(!ws.exists("second.ran"));
    ws.ended("second", "SKIPPED", "externally completed");
    let steps = ws
        .events()
        .into_iter()
        .filter(|e| {
            e["type"] == "TASK_STATUS_CHANGED" && e["task"] == id.as_str() && e["actor"] == "cli"
        })
        .count();
    assert_eq!(steps, 20);
    assert_eq!(ws.events_of("BATCH_TASK_SKIPPED", "second").len(), 1);
}

#[test]
fn twenty_changes_of_a_running_task_end_with_the_last_one() {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    let batch = ws.start(["a", "--kill-grace", "1s"]);
    ws.wait_for_pid("a.pid");
    for status in twenty_changes() {
        ws.set("a", status);
    }
    batch.wait().ok();
    assert_eq!(ws.status("a"), "DONE");
    ws.no_agent_left();
    ws.ended("a", "SKIPPED", "externally completed");
}

/// Twenty statuses, each different from the one before; the last one is DONE.
fn twenty_changes() -> impl Iterator<Item = &'static str> {
    ["BLOCKED", "READY"]
        .into_iter()
        .cycle()
        .take(19)
        .chain(["DONE"])
}

#[test]
fn nothing_of_a_source_is_applied_while_an_agent_is_stopping() {
    let ws = workspace();
    ws.add(
        "a",
        "trap '' TERM; echo $$ >> a.pid; while :; do sleep 0.1; done",
    );
    let batch = ws.start(["a", "--kill-grace", "1500ms"]);
    let pid = ws.wait_for_pid("a.pid");
    ws.set("a", "BLOCKED");
    ws.wait_for_phase("a", "stopping");
    ws.set("a", "DONE");
    ws.wait_for_event("BATCH_TASK_SKIPPED", "a");
    assert!(
        !process::alive(pid),
        "the end of the agent is verified first"
    );
    batch.wait().ok();
    ws.ended("a", "SKIPPED", "externally completed");
    assert_eq!(ws.status("a"), "DONE");
    let told: Vec<String> = ws
        .events()
        .into_iter()
        .filter(|event| {
            event["type"] == "ATTEMPT_ENDED"
                || event["type"]
                    .as_str()
                    .is_some_and(|kind| kind.starts_with("BATCH_TASK_"))
        })
        .map(|event| event["type"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(
        told,
        [
            "BATCH_TASK_QUEUED",
            "BATCH_TASK_STARTED",
            "BATCH_TASK_STOPPING",
            "ATTEMPT_ENDED",
            "BATCH_TASK_KILLED",
            "BATCH_TASK_SKIPPED"
        ]
    );
}

#[test]
fn a_stop_wins_over_a_kill_that_is_going_on() {
    let ws = workspace();
    ws.add(
        "a",
        "trap '' TERM; echo $$ >> a.pid; while :; do sleep 0.1; done",
    );
    let batch = ws.start(["a", "--kill-grace", "1s"]);
    ws.wait_for_pid("a.pid");
    ws.set("a", "READY");
    ws.wait_for_phase("a", "stopping");
    batch.signal(Signal::INT);
    batch.wait().code(130);
    assert_eq!(ws.lines("a.pid"), 1);
    assert_eq!(ws.status("a"), "READY");
    ws.no_agent_left();
}

#[test]
fn reconcile_never_acts_on_a_batch_that_is_conducted() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    let batch = ws.start(["a"]);
    let pid = ws.wait_for_pid("a.pid");
    let before = ws.events().len();
    ws.cf(["reconcile"]).ok();
    ws.cf(["reconcile", "--dry-run"]).ok();
    ws.cf(["reconcile", "a", "--dry-run"]).ok();
    ws.cf(["explain", "a"]).ok().says("a");
    assert_eq!(ws.events().len(), before);
    assert!(process::alive(pid));
    ws.touch("a.go");
    batch.wait().ok();
}

#[test]
fn explain_tells_why_a_task_does_not_run() {
    let ws = workspace();
    ws.add("base", "true");
    ws.task("top").run("true").after("base").add();
    ws.cf(["explain", "top"]).ok().says("base");
    ws.ask("base", "Which colour?");
    ws.cf(["explain", "base"]).ok().says("Which colour?");
    ws.cf(["explain", "nobody"]).refused();
}

#[test]
fn a_killed_task_is_no_failure() {
    let ws = workspace();
    ws.add(
        "a",
        &format!(
            "echo $$ >> a.pid; [ $(wc -l < a.pid) -ge 3 ] || {{ {}; sleep 60; }}",
            until("never")
        ),
    );
    let batch = ws.start(["a", "--retry", "0", "--on-failure", "stop"]);
    for runs in 1..=2 {
        ws.wait_for_lines("a.pid", runs);
        ws.set("a", "READY");
    }
    batch.wait().ok();
    assert_eq!(ws.lines("a.pid"), 3);
    assert!(ws.events_of("BATCH_TASK_FAILED", "a").is_empty());
}
