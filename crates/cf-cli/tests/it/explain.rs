//! `explain` says only what is true: of batches that start nothing new, and of tasks that need nothing.

use crate::{waiter, workspace};

const STARTS: &str = "its batch starts it when a slot is free";

#[test]
fn a_batch_that_is_stopping_is_not_said_to_start_what_waits() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    ws.add("b", "true");
    ws.task("c").run("true").after("a").add();
    let batch = ws.start(["a", "b", "c"]);
    ws.wait_for_pid("a.pid");
    ws.cf(["explain", "b"]).ok().says(STARTS);
    let id = ws.batch_id();
    let id = &id[..8];
    ws.cf(["stop"]).ok();
    let why = format!(
        "\n  batch {id} is stopping and starts nothing new: cf resume {id} tries it again when that batch has ended\n"
    );
    ws.cf(["explain", "b"]).ok().says(&why).never_says(STARTS);
    ws.cf(["explain", "c"])
        .ok()
        .says("\n  finish a (IN_PROGRESS)")
        .says(&why);
    ws.cf(["explain", "a"])
        .ok()
        .says("\n  it is running\n")
        .never_says("starts nothing new");
    ws.touch("a.go");
    batch.wait().code(5);
    ws.resume([id]).ok();
    assert_eq!(ws.status("b"), "DONE");
}

#[test]
fn a_batch_that_stops_on_a_failure_says_so_while_other_agents_run() {
    let ws = workspace();
    ws.add("bad", "exit 3");
    ws.add("slow", &waiter("slow"));
    ws.add("next", "true");
    let batch = ws.start([
        "bad",
        "slow",
        "next",
        "--max-parallel",
        "2",
        "--on-failure",
        "stop",
    ]);
    ws.wait_for_pid("slow.pid");
    ws.wait_for_event("BATCH_TASK_FAILED", "bad");
    let id = ws.batch_id();
    let id = &id[..8];
    ws.cf(["explain", "next"])
        .ok()
        .says(&format!(
            "\n  batch {id} stops on failures and starts nothing new, for bad failed: cf resume {id} tries it again"
        ))
        .never_says(STARTS);
    let notice = "stopping, for bad failed: running agents may end, nothing new starts";
    for words in [
        &["status"][..],
        &["work", "batch", "status"],
        &["work", "batch", "report"],
    ] {
        ws.cf(words).ok().says(notice);
    }
    ws.touch("slow.go");
    batch.wait().code(3);
    ws.ended("next", "CANCELLED", "stopped after bad failed");
    ws.cf(["status"]).ok().never_says("stopping");
}

#[test]
fn a_batch_that_goes_on_after_a_failure_is_said_to_start_what_waits() {
    let ws = workspace();
    ws.add("bad", "exit 3");
    ws.add("slow", &waiter("slow"));
    ws.add("next", "true");
    let batch = ws.start(["bad", "slow", "next"]);
    ws.wait_for_pid("slow.pid");
    ws.cf(["explain", "next"]).ok().says(STARTS);
    ws.cf(["status"]).ok().never_says("stopping");
    ws.touch("slow.go");
    batch.wait().code(3);
}

#[test]
fn a_task_that_was_stopped_by_hand_is_not_said_to_start_again() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    ws.add("b", &waiter("b"));
    let batch = ws.start(["a", "b", "--max-parallel", "2"]);
    ws.wait_for_pid("a.pid");
    ws.wait_for_pid("b.pid");
    let id = ws.batch_id();
    let id = &id[..8];
    ws.cf(["work", "stop", "b"]).ok();
    ws.wait_for_phase("b", "finished");
    ws.cf(["explain", "b"])
        .ok()
        .says(&format!(
            "\n  batch {id} does not start it again (stopped by hand): cf resume {id} tries it again when"
        ))
        .never_says(STARTS);
    for key in ["a.go", "b.go"] {
        ws.touch(key);
    }
    batch.wait();
    assert_eq!(ws.status("b"), "READY");
    ws.resume([id]).ok();
    assert_eq!(ws.status("b"), "DONE");
}

#[test]
fn a_retry_that_a_stopping_batch_does_not_start_is_not_said_to_be_due() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    ws.add("b", "exit 3");
    let batch = ws.start([
        "a",
        "b",
        "--max-parallel",
        "2",
        "--retry",
        "1",
        "--retry-delay",
        "60s",
    ]);
    ws.wait_for_pid("a.pid");
    ws.wait_for_event("BATCH_TASK_RETRYING", "b");
    ws.cf(["explain", "b"])
        .ok()
        .says("its next attempt is due at");
    ws.cf(["stop"]).ok();
    ws.cf(["explain", "b"])
        .ok()
        .says("starts nothing new")
        .never_says("its next attempt is due at");
    ws.touch("a.go");
    batch.wait().code(5);
}

#[test]
fn a_task_that_was_skipped_for_a_dependency_is_run_by_a_resume() {
    let ws = workspace();
    ws.add("a", "exit 3");
    ws.task("b").run("true").after("a").add();
    ws.run(["a", "b"]).code(3);
    ws.set("a", "DONE");
    let id = ws.batch_id();
    let id = &id[..8];
    ws.cf(["explain", "b"])
        .ok()
        .says(&format!("no batch has it: cf resume {id} tries it again"));
    ws.resume([id]).ok();
    assert_eq!(ws.status("b"), "DONE");
}

#[test]
fn a_done_task_needs_nothing_of_a_dependency_that_failed_later() {
    let ws = workspace();
    ws.add("slow", "true");
    ws.task("b").run("true").after("slow").add();
    ws.run(["slow", "b"]).ok();
    ws.set("slow", "FAILED");
    ws.cf(["explain", "b"])
        .ok()
        .says("\n  it is done\n")
        .never_says("finish slow");
    ws.set("b", "MERGED");
    ws.cf(["explain", "b"])
        .ok()
        .says("it is merged; nothing runs it again")
        .never_says("finish slow");
}

#[test]
fn a_running_task_needs_nothing_of_a_dependency_that_failed_later() {
    let ws = workspace();
    ws.add("slow", "true");
    ws.task("b").run(&waiter("b")).after("slow").add();
    let batch = ws.start(["slow", "b"]);
    ws.wait_for_pid("b.pid");
    ws.set("slow", "FAILED");
    ws.cf(["explain", "b"])
        .ok()
        .says("it is running")
        .never_says("finish slow");
    ws.touch("b.go");
    batch.wait();
}

#[test]
fn the_log_of_a_task_that_is_done_without_an_agent_is_not_said_to_need_a_start() {
    let ws = workspace();
    ws.add("a", "true");
    ws.cf(["logs", "a"])
        .code(1)
        .says("task a has not been started yet")
        .says("start it with `cf work start a`");
    for (status, words) in [("DONE", "done"), ("MERGED", "merged")] {
        ws.set("a", status);
        for follow in [&[][..], &["--follow"]] {
            ws.cf(["logs", "a"].iter().chain(follow))
                .code(1)
                .says(&format!("task a is {words}, and no agent worked on it"))
                .never_says("cf work start a`");
        }
    }
}
