//! Conductors and supervisors that die in the middle.

use std::time::Duration;

use cf_testkit::{Running, Signal, Workspace, process};

use crate::{sleeper, stubborn, until, waiter, workspace};

/// Kills the conductor, the supervisor of a task and every agent at once.
fn kill_everything(ws: &Workspace, conductor: Running<'_>, task: &str) {
    let supervisor = ws.supervisor(task);
    process::signal(supervisor, Signal::STOP);
    conductor.kill9();
    ws.agents().into_iter().for_each(process::kill9);
    process::kill9(supervisor);
    ws.wait_for_quiet();
}

#[test]
fn an_agent_that_survives_its_conductor_is_adopted_and_runs_once() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    let batch = ws.start(["a"]);
    let pid = ws.wait_for_pid("a.pid");
    batch.kill9();
    assert!(process::alive(pid), "the agent outlives its conductor");
    let resumed = ws.spawn(["work", "batch", "resume"]);
    ws.wait_for_event("ATTEMPT_ADOPTED", "a");
    assert!(process::alive(pid));
    ws.touch("a.go");
    resumed.wait().ok();
    assert_eq!(ws.lines("a.pid"), 1);
    assert_eq!(ws.attempts("a").len(), 1);
    assert_eq!(ws.status("a"), "DONE");
    ws.wait_for_quiet();
}

#[test]
fn an_agent_of_another_batch_is_told_of_by_the_key_of_its_task() {
    let ws = workspace();
    ws.add("long", &waiter("long"));
    ws.task("next").run("true").after("long").add();
    let batch = ws.start(["long"]);
    ws.wait_for_pid("long.pid");
    batch.kill9();
    let other = ws.start(["--all-ready"]);
    ws.wait_for_event("BATCH_TASK_QUEUED", "next");
    ws.touch("long.go");
    other.wait().ok().says("adopted long\n");
    assert_eq!(ws.status("next"), "DONE");
    assert_eq!(ws.lines("long.pid"), 1);
}

#[test]
fn a_result_that_came_while_nobody_conducted_is_kept() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    batch.kill9();
    ws.touch("a.go");
    ws.wait_for_quiet();
    ws.resume([""; 0]).ok();
    assert_eq!(ws.lines("a.pid"), 1);
    assert_eq!(ws.status("a"), "DONE");
    assert_eq!(ws.attempts("a").len(), 1);
}

#[test]
fn an_adopted_agent_that_fails_is_failed_and_retried_by_the_batchs_policy() {
    let ws = workspace();
    ws.add("a", &format!("{}; [ $(wc -l < a.pid) -ge 2 ]", waiter("a")));
    let batch = ws.start(["a", "--retry", "1", "--retry-delay", "10ms"]);
    ws.wait_for_pid("a.pid");
    batch.kill9();
    let resumed = ws.spawn(["work", "batch", "resume"]);
    ws.wait_for_event("ATTEMPT_ADOPTED", "a");
    ws.touch("a.go");
    resumed.wait().ok();
    assert_eq!(ws.lines("a.pid"), 2);
    assert_eq!(ws.status("a"), "DONE");
}

#[test]
fn a_timeout_holds_for_an_agent_whose_conductor_died() {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    let batch = ws.start(["a", "--timeout", "2s", "--kill-grace", "1s"]);
    let pid = ws.wait_for_pid("a.pid");
    batch.kill9();
    ws.wait_until("the supervisor ended the agent", || !process::alive(pid));
    ws.wait_for_quiet();
    assert_ne!(ws.attempts("a")[0]["success"], true);
}

#[test]
fn tasks_that_had_not_started_are_run_by_resume() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    ws.add("b", "echo x >> b.runs");
    ws.task("c").run("echo x >> c.runs").after("b").add();
    let batch = ws.start(["a", "b", "c"]);
    ws.wait_for_pid("a.pid");
    batch.kill9();
    ws.touch("a.go");
    ws.resume([""; 0]).ok();
    assert_eq!(
        (ws.lines("a.pid"), ws.lines("b.runs"), ws.lines("c.runs")),
        (1, 1, 1)
    );
    assert_eq!(ws.batch_status(), "COMPLETED");
}

#[test]
fn an_attempt_without_record_and_without_life_is_lost() {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    let supervisor = ws.supervisor("a");
    process::kill9(supervisor);
    batch.wait().code(3);
    ws.ended("a", "FAILED", "lost");
    assert_eq!(ws.attempts("a")[0]["end"], "lost");
    assert_eq!(ws.status("a"), "FAILED");
    ws.no_agent_left();
}

#[test]
fn what_a_dead_supervisor_leaves_is_found_and_stopped() {
    let ws = workspace();
    ws.add(
        "a",
        "setsid sh -c 'echo $$ > far.pid; sleep 60; true' & (sleep 60; true) & echo $$ > a.pid; wait",
    );
    let batch = ws.start(["a"]);
    let near = ws.wait_for_pid("a.pid");
    let far = ws.wait_for_pid("far.pid");
    process::kill9(ws.supervisor("a"));
    batch.wait().code(3);
    assert!(!process::alive(near) && !process::alive(far));
    ws.no_agent_left();
}

#[test]
fn a_supervisor_that_somebody_stopped_is_let_go_on() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    let batch = ws.start(["a", "--timeout", "20s"]);
    ws.wait_for_pid("a.pid");
    process::signal(ws.supervisor("a"), Signal::STOP);
    ws.touch("a.go");
    batch.wait().ok();
    assert_eq!(ws.status("a"), "DONE");
}

#[test]
fn an_adopted_supervisor_that_somebody_stopped_is_let_go_on() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    process::signal(ws.supervisor("a"), Signal::STOP);
    batch.kill9();
    ws.touch("a.go");
    ws.resume([""; 0]).ok();
    assert_eq!((ws.status("a").as_str(), ws.lines("a.pid")), ("DONE", 1));
}

#[test]
fn a_lost_attempt_is_retried_by_policy() {
    let ws = workspace();
    ws.add(
        "a",
        "echo $$ >> a.pid; [ $(wc -l < a.pid) -ge 2 ] || sleep 60",
    );
    let batch = ws.start(["a", "--retry", "1", "--retry-delay", "10ms"]);
    ws.wait_for_pid("a.pid");
    process::kill9(ws.supervisor("a"));
    batch.wait().ok();
    assert_eq!(ws.lines("a.pid"), 2);
    assert_eq!(ws.attempts("a")[0]["end"], "lost");
}

#[test]
fn the_verdict_of_an_older_attempt_is_never_taken_for_a_lost_one() {
    let ws = workspace();
    ws.add(
        "a",
        "echo $$ >> a.pid; case $(wc -l < a.pid) in 1) exit 0;; 2) sleep 60;; *) exit 7;; esac",
    );
    ws.run(["a"]).ok();
    let again = ws.start(["a", "--force"]);
    ws.wait_for_lines("a.pid", 2);
    kill_everything(&ws, again, "a");
    ws.resume([""; 0]).code(3);
    assert_eq!(ws.status("a"), "FAILED");
    assert_eq!(ws.attempts("a")[1]["end"], "lost");
    assert_ne!(ws.row("a")["outcome"], "COMPLETED");
}

#[test]
fn nothing_runs_twice_however_often_the_conductor_is_killed() {
    let ws = workspace();
    let keys: Vec<String> = (0..12).map(|n| format!("t{n}")).collect();
    for key in &keys {
        ws.add(key, "echo $CF_TASK_KEY >> runs; sleep 0.05");
    }
    let mut args: Vec<&str> = keys.iter().map(String::as_str).collect();
    args.extend(["--max-parallel", "3"]);
    let mut batch = ws.start(&args);
    ws.wait_until("the batch is stored", || {
        !ws.events_named("BATCH_STARTED").is_empty()
    });
    // The moment of death is what the test varies; nothing depends on which one it hits.
    for n in 0..6u64 {
        std::thread::sleep(Duration::from_millis(n * 37 % 130));
        batch.kill9();
        assert_eq!(ws.sql("PRAGMA integrity_check"), "ok");
        batch = ws.spawn(["work", "batch", "resume"]);
    }
    let last = batch.wait();
    let over = ws.batch_status() == "COMPLETED";
    assert!(over, "{}\n{}", last.text(), ws.describe());
    let mut runs: Vec<String> = ws.read("runs").lines().map(str::to_owned).collect();
    runs.sort();
    let mut expected = keys.clone();
    expected.sort();
    assert_eq!(runs, expected, "each task ran exactly once");
    for key in &keys {
        assert_eq!(ws.status(key), "DONE", "{key}");
    }
    ws.wait_for_quiet();
}

#[test]
fn after_a_killed_conductor_no_task_is_in_a_state_that_nobody_owns() {
    let ws = workspace();
    for key in ["a", "b", "c"] {
        ws.add(key, "echo x >> $CF_TASK_KEY.runs; sleep 0.1");
    }
    let batch = ws.start(["a", "b", "c", "--max-parallel", "2"]);
    ws.wait_for_event("BATCH_TASK_STARTED", "a");
    batch.kill9();
    ws.wait_for_quiet();
    assert_eq!(ws.sql("PRAGMA integrity_check"), "ok");
    for key in ["a", "b", "c"] {
        if ws.status(key) == "IN_PROGRESS" {
            assert!(
                !ws.attempts(key).is_empty(),
                "{key} is claimed by an attempt"
            );
        }
    }
    // A new batch meets the claims of the dead one and settles them.
    ws.run(["a", "b", "c"]).ok();
    for key in ["a", "b", "c"] {
        assert_eq!(ws.status(key), "DONE", "{key}");
        // One whose job had not been sent yet was never started, and is followed by another attempt.
        assert_eq!(ws.lines(&format!("{key}.runs")), 1, "{key} ran once");
    }
}

#[test]
fn status_says_that_the_conductor_is_gone_and_how_to_go_on() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    let running = ws.batch();
    assert_eq!(running["conductor"]["alive"], true);
    assert_eq!(running["conductor"]["pid"], batch.pid());
    batch.kill9();
    assert_eq!(ws.batch()["conductor"]["alive"], false);
    assert!(ws.batch_text().contains("resume"), "{}", ws.batch_text());
}

#[test]
fn stop_with_the_conductor_gone_stops_what_lives() {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    ws.add("b", "touch b.ran");
    let batch = ws.start(["a", "b"]);
    let pid = ws.wait_for_pid("a.pid");
    batch.kill9();
    assert!(process::alive(pid));
    let id = ws.batch_id();
    ws.cf(["work", "batch", "stop", "--force"])
        .refused()
        .says(&id[..8]);
    assert!(
        process::alive(pid),
        "without an id only what runs is stopped"
    );
    ws.cf(["work", "batch", "stop", &id, "--force"]).ok();
    assert!(!process::alive(pid));
    ws.no_agent_left();
    assert_eq!(ws.status("a"), "READY");
    assert_eq!(ws.batch_status(), "CANCELLED");
    assert!(!ws.exists("b.ran"));
}

#[test]
fn a_second_conductor_is_refused_and_told_who_holds_the_batch() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    ws.resume([""; 0]).refused();
    let id = ws.batch()["id"].as_str().expect("an id is text").to_owned();
    ws.resume([&id]).refused().says(&batch.pid().to_string());
    ws.touch("a.go");
    batch.wait().ok();
    assert_eq!(ws.lines("a.pid"), 1);
}

#[test]
fn a_second_batch_waits_until_a_stopping_agent_is_verified_dead() {
    let ws = workspace();
    ws.add("a", "echo $$ >> a.pid; [ $(wc -l < a.pid) -ge 2 ] && exit 0; trap '' TERM; while :; do sleep 0.1; done");
    let first = ws.start(["a", "--kill-grace", "2s"]);
    let old = ws.wait_for_pid("a.pid");
    ws.cf(["work", "stop", "a"]).ok();
    ws.set("a", "READY");
    let second = ws.start(["a"]);
    ws.wait_until("the agent runs again, or both batches are over", || {
        let lines = ws.lines("a.pid");
        assert!(
            lines < 2 || !process::alive(old),
            "the second agent started beside the first"
        );
        lines == 2
    });
    first.wait();
    second.wait().ok();
    assert_eq!(ws.lines("a.pid"), 2);
    assert_eq!(ws.status("a"), "DONE");
}

#[test]
fn suspending_everything_counts_against_nobody() {
    let ws = workspace();
    ws.add("a", &format!("echo $$ > a.pid; {}", until("go")));
    let batch = ws.start(["a", "--timeout", "2s", "--stall-timeout", "1800ms"]);
    ws.wait_for_pid("a.pid");
    let mut everybody = vec![batch.pid(), ws.supervisor("a")];
    everybody.extend(ws.agents());
    for pid in &everybody {
        process::signal(*pid, Signal::STOP);
    }
    // The suspension has to be longer than both limits.
    std::thread::sleep(Duration::from_millis(2100));
    ws.touch("go");
    for pid in everybody.iter().rev() {
        process::signal(*pid, Signal::CONT);
    }
    batch.wait().ok();
    ws.ended("a", "COMPLETED", "");
    assert_eq!(ws.attempts("a").len(), 1);
}

/// Kills the conductor of `a`, whose agent goes on until `a.go` exists, lets the agent end, and returns the batch.
fn ended_without_a_conductor(ws: &Workspace, args: &[&str]) -> String {
    let batch = ws.start(args);
    ws.wait_for_pid("a.pid");
    batch.kill9();
    ws.touch("a.go");
    ws.wait_for_quiet();
    ws.batch_id()
}

#[test]
fn reconcile_settles_what_ended_without_a_conductor_although_it_finds_nothing() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    ended_without_a_conductor(&ws, &["a"]);
    ws.cf(["reconcile", "--dry-run"]).ok();
    assert_eq!(ws.status("a"), "IN_PROGRESS");
    ws.cf(["reconcile"]).ok().says("nothing to do");
    assert_eq!(ws.status("a"), "DONE");
    ws.ended("a", "COMPLETED", "");
    assert_eq!(ws.lines("a.pid"), 1);
}

#[test]
fn reconcile_settles_the_remains_of_a_dead_supervisor() {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    let batch = ws.start(["a"]);
    let pid = ws.wait_for_pid("a.pid");
    let supervisor = ws.supervisor("a");
    process::signal(supervisor, Signal::STOP);
    batch.kill9();
    process::kill9(supervisor);
    ws.cf(["reconcile"]).ok();
    assert!(!process::alive(pid));
    ws.ended("a", "FAILED", "lost");
    ws.no_agent_left();
}

#[test]
fn reconcile_of_named_tasks_leaves_the_others_of_a_dead_batch_alone() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    ws.add("b", &waiter("b"));
    ws.add("c", "true");
    let batch = ws.start(["a", "b", "c", "--max-parallel", "2"]);
    ws.wait_for_pid("a.pid");
    ws.wait_for_pid("b.pid");
    batch.kill9();
    ws.touch("a.go");
    ws.touch("b.go");
    ws.wait_for_quiet();
    ws.set("c", "DONE");
    ws.cf(["reconcile", "a"]).ok();
    ws.ended("a", "COMPLETED", "");
    assert_eq!(ws.status("b"), "IN_PROGRESS");
    assert_eq!(ws.row("b")["phase"], "running");
    assert_eq!(ws.row("c")["phase"], "queued");
    ws.cf(["reconcile", "b", "c"]).ok();
    ws.ended("b", "COMPLETED", "");
    ws.ended("c", "SKIPPED", "externally completed");
    assert_eq!((ws.lines("a.pid"), ws.lines("b.pid")), (1, 1));
}

#[test]
fn reconcile_of_a_task_shows_the_batches_that_have_it() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    ws.add("b", "true");
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    let looks = |task: &str| ws.cf(["reconcile", task, "--dry-run", "--json"]).json();
    assert_eq!(looks("b"), cf_testkit::json!([]));
    assert_eq!(looks("a")[0]["batch"], ws.batch_id().as_str());
    ws.touch("a.go");
    batch.wait().ok();
}

#[test]
fn work_stop_ends_one_agent_of_a_dead_batch_and_no_other() {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    ws.add("b", &waiter("b"));
    let batch = ws.start(["a", "b", "--max-parallel", "2"]);
    let a = ws.wait_for_pid("a.pid");
    let b = ws.wait_for_pid("b.pid");
    batch.kill9();
    ws.cf(["work", "stop", "a"])
        .ok()
        .says("stopped a; it is READY");
    assert!(!process::alive(a) && process::alive(b));
    ws.ended("a", "CANCELLED", "stopped by hand");
    assert_eq!(ws.attempts("a")[0]["end"], "killed");
    assert_eq!(ws.row("b")["phase"], "running");
    ws.touch("b.go");
    ws.set("a", "DONE");
    ws.resume([""; 0]).ok();
    assert_eq!(ws.status("b"), "DONE");
    assert_eq!(ws.lines("b.pid"), 1, "it was adopted, not started again");
}

#[test]
fn work_stop_hold_holds_a_task_of_a_dead_batch() {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    let batch = ws.start(["a"]);
    let pid = ws.wait_for_pid("a.pid");
    batch.kill9();
    ws.cf(["work", "stop", "a", "--hold"])
        .ok()
        .says("stopped a; it is BLOCKED");
    assert!(!process::alive(pid));
    assert_eq!(ws.row("a")["phase"], "held");
    assert_eq!(ws.row("a")["reason"], "stopped by hand");
}

#[test]
fn work_stop_of_an_agent_that_ended_with_its_batch_dead_keeps_its_result_as_stale() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    ended_without_a_conductor(&ws, &["a"]);
    ws.cf(["work", "stop", "a"])
        .ok()
        .says("stopped a; it is READY");
    ws.ended("a", "CANCELLED", "stopped by hand");
    assert_eq!(ws.events_of("ATTEMPT_STALE_RESULT", "a").len(), 1);
}

#[test]
fn a_dependency_whose_agent_succeeded_without_a_conductor_is_met_by_whoever_needs_it() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    ws.task("b").run("touch b.ran").after("a").add();
    ended_without_a_conductor(&ws, &["a"]);
    ws.run(["b"]).ok();
    assert!(ws.exists("b.ran"));
    assert_eq!(ws.status("a"), "DONE");
    assert_eq!(ws.lines("a.pid"), 1);
}

#[test]
fn a_lock_of_a_batch_goes_with_its_conductor() {
    let ws = workspace();
    let locks = || {
        let folder = std::fs::read_dir(ws.root().join(".cf/locks")).expect("it is there");
        folder.count()
    };
    ws.add("a", &waiter("a"));
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    assert_eq!(locks(), 1);
    batch.kill9();
    assert_eq!(locks(), 1, "what a killed conductor leaves is taken over");
    ws.touch("a.go");
    ws.resume([""; 0]).ok();
    assert_eq!(locks(), 0);
    ws.add("b", "true");
    ws.run(["b"]).ok();
    assert_eq!(locks(), 0);
}

#[test]
fn resume_says_that_an_agent_program_is_missing_before_anything_is_claimed() {
    let ws = workspace();
    ws.program("claude", "#!/bin/sh\nexit 1\n");
    ws.task("a").engine("claude-code").add();
    ws.add("b", "echo x >> b.runs; exit 1");
    ws.run(["b", "a"]).code(3);
    std::fs::remove_file(ws.bin().join("claude")).expect("it is ours");
    let before = ws.events().len();
    ws.resume([""; 0]).refused().says("claude");
    assert_eq!(ws.events().len(), before);
    assert_eq!(ws.lines("b.runs"), 1);
    ws.set("a", "DONE");
    ws.resume([""; 0]).code(3);
    assert_eq!(ws.lines("b.runs"), 2, "what is done needs no program");
}

#[test]
fn a_stop_is_finished_although_the_conductor_dies_in_the_middle() {
    let ws = workspace();
    ws.add("a", &stubborn("a"));
    let batch = ws.start(["a", "--kill-grace", "1s"]);
    let pid = ws.wait_for_pid("a.pid");
    ws.cf(["work", "batch", "stop", "--force"]).ok();
    ws.wait_for_phase("a", "stopping");
    batch.kill9();
    ws.wait_until("the supervisor ended the agent", || !process::alive(pid));
    ws.wait_for_quiet();
    ws.cf(["work", "batch", "stop", &ws.batch_id(), "--force"])
        .ok();
    assert_eq!(ws.attempts("a")[0]["end"], "killed", "{}", ws.describe());
    assert_eq!(ws.status("a"), "READY");
    assert_eq!(ws.batch_status(), "CANCELLED");
}
