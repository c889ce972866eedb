//! Stopping a batch or a task.

use std::time::{Duration, Instant};

use cf_testkit::{Signal, process};
use test_case::test_case;

use crate::{sleeper, stubborn, waiter, workspace};

#[test_case(Signal::INT; "ctrl c")]
#[test_case(Signal::TERM; "sigterm")]
#[test_case(Signal::HUP; "sighup")]
fn a_signal_stops_the_agents_and_ends_with_130(signal: Signal) {
    let ws = workspace();
    for key in ["a", "b", "c", "d"] {
        ws.add(key, &sleeper(key));
    }
    let batch = ws.start(["a", "b", "c", "d", "--max-parallel", "2"]);
    let pids = [ws.wait_for_pid("a.pid"), ws.wait_for_pid("b.pid")];
    batch.signal(signal);
    batch.wait().code(130);
    assert!(pids.iter().all(|pid| !process::alive(*pid)));
    ws.no_agent_left();
    assert!(
        !ws.exists("c.pid") && !ws.exists("d.pid"),
        "the queue does not start"
    );
    for key in ["a", "b", "c", "d"] {
        assert_eq!(ws.status(key), "READY", "{key}");
        ws.ended(key, "CANCELLED", "");
    }
    assert_eq!(ws.batch_status(), "CANCELLED");
    assert_eq!(ws.batch()["exit_code"], 130);
    assert_eq!(ws.events_named("BATCH_CANCELLED").len(), 1);
}

#[test]
fn a_second_ctrl_c_kills_at_once() {
    let ws = workspace();
    ws.add("a", &stubborn("a"));
    let batch = ws.start(["a", "--kill-grace", "50s"]);
    let pid = ws.wait_for_pid("a.pid");
    batch.signal(Signal::INT);
    ws.wait_for_phase("a", "stopping");
    assert!(process::alive(pid), "the grace is not over");
    let started = Instant::now();
    batch.signal(Signal::INT);
    batch.wait().code(130);
    assert!(started.elapsed() < Duration::from_secs(20));
    assert!(!process::alive(pid));
    ws.no_agent_left();
    assert_eq!(ws.status("a"), "READY");
}

#[test]
fn stop_keeps_the_result_of_a_task_that_is_finishing() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    ws.add("b", "touch b.ran");
    let batch = ws.start(["a", "b"]);
    ws.wait_for_pid("a.pid");
    ws.cf(["work", "batch", "stop"]).ok();
    ws.touch("a.go");
    batch.wait().code(5);
    ws.ended("a", "COMPLETED", "");
    ws.ended("b", "CANCELLED", "");
    assert_eq!(ws.status("a"), "DONE");
    assert_eq!(ws.status("b"), "READY");
    assert!(!ws.exists("b.ran"));
    assert_eq!(ws.batch_status(), "CANCELLED");
}

#[test]
fn stop_without_force_lets_a_failing_agent_end_without_a_retry() {
    let ws = workspace();
    ws.add("a", &format!("{}; exit 1", waiter("a")));
    let batch = ws.start(["a", "--retry", "3", "--retry-delay", "10ms"]);
    ws.wait_for_pid("a.pid");
    ws.cf(["work", "batch", "stop"]).ok();
    ws.touch("a.go");
    batch.wait().code(5);
    assert_eq!(ws.lines("a.pid"), 1);
}

#[test]
fn stop_force_from_another_shell_really_stops_the_agents() {
    let ws = workspace();
    ws.add(
        "a",
        "setsid sleep 60 & sh -c 'sleep 60; true' & echo $$ > a.pid; wait",
    );
    ws.add("b", "touch b.ran");
    let batch = ws.start(["a", "b", "--kill-grace", "3s"]);
    ws.wait_for_pid("a.pid");
    ws.cf(["work", "batch", "stop", "--force"]).ok();
    batch.wait().code(5);
    ws.no_agent_left();
    assert_eq!(ws.status("a"), "READY");
    assert_eq!(ws.batch_status(), "CANCELLED");
    assert!(!ws.exists("b.ran"));
    assert_eq!(ws.attempts("a")[0]["end"], "killed");
}

#[test]
fn stop_is_seen_without_reconciliation() {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    let batch = ws.start(["a", "--reconcile-interval", "0"]);
    ws.wait_for_pid("a.pid");
    ws.cf(["work", "batch", "stop", "--force"]).ok();
    batch.wait().code(5);
    ws.no_agent_left();
}

#[test]
fn stop_works_during_the_backoff_of_a_retry() {
    let ws = workspace();
    ws.add("a", "echo x >> runs; exit 1");
    let batch = ws.start(["a", "--retry", "1", "--retry-delay", "60s"]);
    ws.wait_for_event("BATCH_TASK_RETRYING", "a");
    ws.cf(["work", "batch", "stop"]).ok();
    batch.wait().code(5);
    assert_eq!(ws.lines("runs"), 1);
}

#[test]
fn stop_without_an_id_wants_exactly_one_running_batch() {
    let ws = workspace();
    ws.cf(["work", "batch", "stop"]).refused();
    ws.add("a", &waiter("a"));
    ws.add("b", &waiter("b"));
    let first = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    let first_id = ws.batch()["id"].as_str().expect("an id is text").to_owned();
    let second = ws.start(["b"]);
    ws.wait_for_pid("b.pid");
    let second_id = ws.batch()["id"].as_str().expect("an id is text").to_owned();
    ws.cf(["work", "batch", "stop"])
        .refused()
        .says(&first_id[..8])
        .says(&second_id[..8]);
    ws.cf(["work", "batch", "stop", &first_id]).ok();
    ws.touch("a.go");
    ws.touch("b.go");
    first.wait().code(5);
    second.wait().ok();
}

#[test]
fn stop_without_an_id_does_not_count_a_batch_whose_conductor_is_gone() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    ws.add("b", &waiter("b"));
    let dead = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    let dead_id = ws.batch_id();
    dead.kill9();
    ws.cf(["stop"])
        .refused()
        .says("no batch is running")
        .says(&dead_id[..8]);
    let live = ws.start(["b"]);
    ws.wait_for_pid("b.pid");
    ws.cf(["stop"]).ok();
    ws.touch("b.go");
    live.wait().code(5);
    assert_eq!(
        ws.sql(&format!(
            "SELECT coalesce(stop, 'none') FROM batch WHERE id = '{dead_id}'"
        )),
        "none"
    );
    ws.touch("a.go");
}

#[test]
fn a_batch_is_found_by_a_prefix_of_its_id() {
    let ws = workspace();
    ws.add("a", "true");
    ws.run(["a"]).ok();
    let id = ws.batch()["id"].as_str().expect("an id is text").to_owned();
    let shown = ws
        .cf(["work", "batch", "status", &id[..8], "--json"])
        .json();
    assert_eq!(shown["id"], id.as_str());
    ws.cf(["work", "batch", "status", "ffffffff-0000"])
        .refused();
}

#[test]
fn work_stop_ends_one_agent_and_the_batch_goes_on_without_it() {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    ws.add("b", "touch b.ran");
    let batch = ws.start(["a", "b"]);
    let pid = ws.wait_for_pid("a.pid");
    ws.cf(["work", "stop", "a"])
        .ok()
        .says("stopped a; it is READY");
    assert!(!process::alive(pid));
    batch.wait().code(3);
    ws.ended("a", "CANCELLED", "stopped by hand");
    assert_eq!(ws.status("a"), "READY");
    assert_eq!(
        ws.lines("a.pid"),
        1,
        "it is not started again in this batch"
    );
    assert!(ws.exists("b.ran"));
}

#[test_case("30s"; "with passes")]
#[test_case("0"; "without passes")]
fn work_stop_hold_blocks_the_task(interval: &str) {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    ws.add("b", "true");
    let batch = ws.start(["a", "b", "--reconcile-interval", interval]);
    let pid = ws.wait_for_pid("a.pid");
    let stopped = ws.cf(["work", "stop", "a", "--hold", "--json"]).json();
    assert!(!process::alive(pid));
    assert_eq!(stopped["ended"], true);
    assert_eq!(stopped["status"], "BLOCKED");
    let requested = &ws.events_of("TASK_STOP_REQUESTED", "a")[0];
    assert_eq!(requested["data"]["hold"], true);
    batch.wait().code(4);
    ws.ended("a", "BLOCKED", "stopped by hand");
    assert_eq!(ws.status("a"), "BLOCKED");
    assert_eq!(ws.lines("a.pid"), 1);
    assert_eq!(ws.status("b"), "DONE");
}

#[test]
fn work_stop_without_passes_gives_the_task_back() {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    let batch = ws.start(["a", "--reconcile-interval", "0"]);
    ws.wait_for_pid("a.pid");
    ws.cf(["work", "stop", "a"])
        .ok()
        .says("stopped a; it is READY");
    batch.wait().code(3);
    ws.ended("a", "CANCELLED", "stopped by hand");
    assert_eq!(ws.status("a"), "READY");
}

#[test]
fn work_stop_keeps_what_a_person_made_of_the_task() {
    let ws = workspace();
    ws.add("a", &stubborn("a"));
    let batch = ws.start(["a", "--kill-grace", "500ms"]);
    ws.wait_for_pid("a.pid");
    ws.set("a", "DONE");
    ws.cf(["work", "stop", "a", "--hold"]).ok();
    batch.wait();
    assert_eq!(ws.status("a"), "DONE");
}

#[test]
fn work_stop_of_a_task_that_does_not_run_changes_nothing() {
    let ws = workspace();
    ws.add("a", "true");
    let before = ws.events().len();
    ws.cf(["work", "stop", "a"])
        .refused()
        .says("no running agent");
    ws.cf(["work", "stop", "a", "--hold"]).refused();
    assert_eq!(ws.status("a"), "READY");
    assert_eq!(ws.events().len(), before);
}
