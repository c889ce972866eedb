//! Going on with a batch that ended or was left.

use cf_testkit::Signal;

use crate::{until, waiter, workspace};

#[test]
fn resume_keeps_the_settings_of_the_batch() {
    let ws = workspace();
    ws.add("a", "test -e fixed");
    ws.run([
        "a",
        "--strategy",
        "parallel",
        "--max-parallel",
        "3",
        "--on-failure",
        "stop",
        "--retry",
        "1",
        "--retry-delay",
        "10ms",
        "--timeout",
        "50s",
        "--stall-timeout",
        "40s",
        "--kill-grace",
        "3s",
        "--reconcile-interval",
        "7s",
    ])
    .code(3);
    let before = ws.batch();
    ws.touch("fixed");
    ws.resume([""; 0]).ok().says("Reconcile interval: 7s");
    let after = ws.batch();
    for setting in [
        "id",
        "strategy",
        "max_parallel",
        "on_failure",
        "retry",
        "retry_delay_ms",
        "timeout_ms",
        "stall_timeout_ms",
        "kill_grace_ms",
        "reconcile_interval_ms",
        "engine",
        "isolation",
    ] {
        assert_eq!(before[setting], after[setting], "{setting}");
    }
    assert_eq!(after["max_parallel"], 3);
    assert_eq!(after["timeout_ms"], 50_000);
    assert_eq!(after["stall_timeout_ms"], 40_000);
    assert_eq!(after["kill_grace_ms"], 3_000);
    assert_eq!(after["reconcile_interval_ms"], 7_000);
    assert_eq!(after["status"], "COMPLETED");
}

#[test]
fn a_flag_given_to_resume_replaces_the_stored_setting() {
    let ws = workspace();
    ws.add("a", "test -e fixed");
    ws.run(["a"]).code(3);
    ws.touch("fixed");
    ws.resume(["--reconcile-interval", "9s"]).ok();
    assert_eq!(ws.batch()["reconcile_interval_ms"], 9_000);
}

#[test]
fn resume_runs_failed_tasks_and_what_was_skipped_for_them() {
    let ws = workspace();
    ws.add("a", "test -e fixed");
    ws.task("b").run("echo x >> b.runs").after("a").add();
    ws.add("c", "echo x >> c.runs");
    ws.run(["a", "b", "c"]).code(3);
    ws.touch("fixed");
    ws.resume([""; 0]).ok();
    assert_eq!(ws.status("a"), "DONE");
    assert_eq!(ws.lines("b.runs"), 1);
    assert_eq!(
        ws.lines("c.runs"),
        1,
        "what is completed does not run again"
    );
    assert_eq!(ws.events_named("BATCH_RESUMED").len(), 1);
}

#[test]
fn resume_leaves_a_task_alone_that_a_person_finished() {
    let ws = workspace();
    ws.add("a", "echo x >> runs; exit 1");
    ws.run(["a"]).code(3);
    ws.set("a", "DONE");
    ws.resume([""; 0]).ok();
    assert_eq!(ws.lines("runs"), 1);
    assert_eq!(ws.status("a"), "DONE");
    assert_eq!(ws.batch_status(), "COMPLETED");
}

#[test]
fn resume_runs_a_cancelled_batch_to_its_end() {
    let ws = workspace();
    ws.add("a", &format!("echo x >> runs; {}", until("go")));
    ws.add("b", "touch b.ran");
    let batch = ws.start(["a", "b"]);
    ws.wait_for_line("runs");
    batch.signal(Signal::INT);
    batch.wait().code(130);
    ws.touch("go");
    ws.resume([""; 0]).ok();
    assert_eq!(ws.lines("runs"), 2);
    assert!(ws.exists("b.ran"));
    assert_eq!(ws.batch_status(), "COMPLETED");
}

#[test]
fn resume_after_a_stored_stop_goes_on() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    ws.add("b", "touch b.ran");
    let batch = ws.start(["a", "b"]);
    ws.wait_for_pid("a.pid");
    ws.cf(["work", "batch", "stop"]).ok();
    ws.touch("a.go");
    batch.wait().code(5);
    ws.resume([""; 0]).ok();
    assert!(ws.exists("b.ran"));
    assert_eq!(ws.lines("a.pid"), 1);
}

#[test]
fn resume_runs_a_held_task_whose_question_was_answered() {
    let ws = workspace();
    ws.add("a", "cat $CF_PROMPT_FILE > prompt");
    let blocker = ws.ask("a", "Which colour?");
    ws.run(["a"]).code(4);
    ws.cf(["blocker", "answer", &blocker, "ultramarine"]).ok();
    ws.resume([""; 0]).ok();
    assert!(
        ws.read("prompt").contains("ultramarine"),
        "{}",
        ws.read("prompt")
    );
}

#[test]
fn resume_takes_up_a_skipped_task_that_is_ready_now() {
    let ws = workspace();
    ws.add("a", "touch a.ran");
    ws.add("b", "true");
    ws.set("a", "DONE");
    ws.run(["a", "b"]).ok();
    assert!(!ws.exists("a.ran"));
    ws.set("a", "READY");
    let id = ws.batch()["id"].as_str().expect("an id is text").to_owned();
    ws.resume([&id]).ok();
    assert!(ws.exists("a.ran"));
}

#[test]
fn resume_force_runs_everything_but_merged() {
    let ws = workspace();
    ws.add("a", "echo x >> a.runs");
    ws.add("b", "echo x >> b.runs");
    ws.run(["a", "b"]).ok();
    ws.set("b", "MERGED");
    let id = ws.batch()["id"].as_str().expect("an id is text").to_owned();
    ws.resume([&id, "--force"]).ok();
    assert_eq!(ws.lines("a.runs"), 2);
    assert_eq!(ws.lines("b.runs"), 1);
}

#[test]
fn a_batch_that_runs_already_is_refused_before_anything_is_shown_of_it() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    let id = ws.batch_id();
    let refused = ws.resume([id.as_str()]).code(1);
    assert_eq!(refused.stdout(), "");
    refused
        .says(&format!("batch {} is conducted by process", &id[..8]))
        .never_says(&id);
    ws.touch("a.go");
    batch.wait().ok();
}

#[test]
fn resume_without_an_id_takes_the_newest_unfinished_batch() {
    let ws = workspace();
    ws.resume([""; 0]).refused();
    ws.add("a", "test -e fixed");
    ws.add("b", "true");
    let first = ws.start(["a"]);
    first.wait().code(3);
    let id = ws.batch()["id"].clone();
    ws.run(["b"]).ok();
    ws.touch("fixed");
    ws.resume([""; 0]).ok();
    let shown = ws
        .cf([
            "work",
            "batch",
            "status",
            id.as_str().expect("an id is text"),
            "--json",
        ])
        .json();
    assert_eq!(shown["status"], "COMPLETED");
    assert_eq!(ws.status("a"), "DONE");
}
