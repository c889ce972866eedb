//! What a change elsewhere means for dependents, other tasks and slots, and how it is recorded.

use cf_testkit::process;

use crate::{sleeper, waiter, workspace};

#[test]
fn a_reopened_task_and_what_was_skipped_for_it_run_in_the_same_batch() {
    let ws = workspace();
    ws.add("keep", &waiter("keep"));
    ws.add("a", "echo x >> a.runs");
    ws.task("b").run("echo x >> b.runs").after("a").add();
    ws.task("c").run("echo x >> c.runs").after("b").add();
    let batch = ws.start(["keep", "a", "b", "c"]);
    ws.wait_for_pid("keep.pid");
    ws.set("a", "FAILED");
    ws.wait_for_event("BATCH_TASK_SKIPPED", "c");
    ws.set("a", "READY");
    ws.wait_for_event("BATCH_TASK_REQUEUED", "a");
    ws.touch("keep.go");
    batch.wait().ok();
    assert_eq!(
        (ws.lines("a.runs"), ws.lines("b.runs"), ws.lines("c.runs")),
        (1, 1, 1)
    );
    assert_eq!(ws.batch_status(), "COMPLETED");
    let requeued = ws.events_of("BATCH_TASK_REQUEUED", "a");
    assert!(requeued[0].to_string().contains("reopened"), "{requeued:?}");
}

#[test]
fn a_failed_task_set_ready_runs_again_in_the_same_batch() {
    let ws = workspace();
    ws.add("a", "echo x >> runs; [ $(wc -l < runs) -ge 2 ]");
    ws.add("keep", &waiter("keep"));
    let batch = ws.start(["a", "keep", "--max-parallel", "2"]);
    ws.wait_for_event("BATCH_TASK_FAILED", "a");
    ws.set("a", "READY");
    ws.wait_for_event("BATCH_TASK_COMPLETED", "a");
    ws.touch("keep.go");
    batch.wait().ok();
    assert_eq!(ws.lines("runs"), 2);
}

#[test]
fn dependents_run_when_a_failed_task_is_finished_by_hand() {
    let ws = workspace();
    ws.add("a", "exit 1");
    ws.task("b").run("touch b.ran").after("a").add();
    ws.add("keep", &waiter("keep"));
    let batch = ws.start(["a", "b", "keep", "--max-parallel", "2"]);
    ws.wait_for_event("BATCH_TASK_SKIPPED", "b");
    ws.set("a", "DONE");
    ws.wait_for_event("BATCH_TASK_COMPLETED", "b");
    ws.touch("keep.go");
    batch.wait();
    assert!(ws.exists("b.ran"));
    ws.ended("b", "COMPLETED", "");
}

#[test]
fn a_reopened_dependency_leaves_alone_what_ran_for_it() {
    let ws = workspace();
    ws.add("a", "echo x >> a.runs");
    ws.task("b").run(&waiter("b")).after("a").add();
    ws.set("a", "DONE");
    let batch = ws.start(["a", "b", "--max-parallel", "2"]);
    let pid = ws.wait_for_pid("b.pid");
    ws.set("a", "READY");
    ws.wait_for_event("BATCH_TASK_COMPLETED", "a");
    assert!(process::alive(pid), "it is left running");
    ws.touch("b.go");
    batch.wait().ok();
    assert_eq!(ws.lines("a.runs"), 1);
    assert_eq!(ws.lines("b.pid"), 1);
    assert!(
        !ws.events_of("BATCH_TASK_DEPENDENCY_REOPENED", "b")
            .is_empty(),
        "{}",
        ws.describe()
    );
}

#[test]
fn a_task_whose_dependency_is_held_counts_as_held() {
    let ws = workspace();
    ws.add("a", "cf blocker ask 'Which colour?'");
    ws.task("b").run("touch b.ran").after("a").add();
    ws.run(["a", "b"]).code(4);
    ws.ended("b", "SKIPPED", "dependency a blocked");
    assert!(!ws.exists("b.ran"));
    assert_eq!(ws.status("b"), "READY");
}

#[test]
fn a_dependency_undone_by_hand_is_not_met() {
    let ws = workspace();
    ws.add("a", "true");
    ws.add("keep", &waiter("keep"));
    ws.task("b")
        .run("touch b.ran")
        .after("a")
        .after("keep")
        .add();
    let batch = ws.start(["a", "keep", "b", "--max-parallel", "2"]);
    ws.wait_for_event("BATCH_TASK_COMPLETED", "a");
    ws.set("a", "BACKLOG");
    ws.touch("keep.go");
    batch.wait().code(4);
    ws.ended("b", "SKIPPED", "dependency a not done");
    assert!(!ws.exists("b.ran"));
}

#[test]
fn a_task_finished_elsewhere_gives_its_slot_to_the_next() {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    ws.add("b", "touch b.ran");
    let batch = ws.start(["a", "b", "--strategy", "serial"]);
    ws.wait_for_pid("a.pid");
    ws.set("a", "DONE");
    batch.wait().ok();
    assert!(ws.exists("b.ran"));
}

#[test]
fn agents_of_other_tasks_are_left_alone() {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    ws.add("b", &waiter("b"));
    let batch = ws.start(["a", "b", "--max-parallel", "2"]);
    ws.wait_for_pid("a.pid");
    let other = ws.wait_for_pid("b.pid");
    ws.set("a", "DONE");
    ws.wait_for_event("BATCH_TASK_SKIPPED", "a");
    assert!(process::alive(other));
    ws.touch("b.go");
    batch.wait().ok();
    assert_eq!(ws.lines("b.pid"), 1);
    ws.ended("b", "COMPLETED", "");
}

#[test]
fn an_applied_action_is_recorded_with_its_evidence() {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    ws.set("a", "DONE");
    batch.wait().ok();
    let event = &ws.events_of("BATCH_TASK_SKIPPED", "a")[0];
    assert_eq!(event["batch"], ws.batch()["id"]);
    assert!(
        event["actor"]
            .as_str()
            .is_some_and(|actor| !actor.is_empty()),
        "{event}"
    );
    let data = event["data"].to_string();
    for word in ["SKIP", "externally completed", "local", "DONE", "running"] {
        assert!(data.contains(word), "{word} in {data}");
    }
    let shown = &ws.batch()["reconciliation"];
    assert_eq!(shown["events"][0]["action"], "SKIP");
    assert_eq!(shown["events"][0]["label"], "a");
    assert_eq!(shown["events"][0]["reason"], "externally completed");
    assert_eq!(shown["events"][0]["source"], "local");
    assert_eq!(
        shown["totals"][0]["text"],
        "1 task skipped (externally completed)"
    );
}

#[test]
fn totals_count_tasks_of_one_reason_together() {
    let ws = workspace();
    ws.add("first", &waiter("first"));
    for key in ["a", "b", "c"] {
        ws.add(key, "touch ran");
    }
    let batch = ws.start(["first", "a", "b", "c"]);
    ws.wait_for_pid("first.pid");
    ws.cf(["tasks", "set", "status", "a", "b", "c", "DONE"])
        .ok();
    ws.touch("first.go");
    batch.wait().ok();
    let text = ws.batch_text();
    assert!(
        text.contains("3 tasks skipped (externally completed)"),
        "{text}"
    );
    assert!(!ws.exists("ran"));
}
