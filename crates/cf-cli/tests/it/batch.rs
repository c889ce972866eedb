//! The batch: order, slots, and what is recorded.

use cf_testkit::Value;

use crate::{until, waiter, workspace};

#[test]
fn one_task_runs_once_and_is_done() {
    let ws = workspace();
    ws.add("a", "echo x >> runs");
    ws.run(["a"]).ok();
    assert_eq!(ws.lines("runs"), 1);
    assert_eq!(ws.status("a"), "DONE");
    assert_eq!(ws.row("a")["outcome"], "COMPLETED");
    assert_eq!(ws.batch_status(), "COMPLETED");
    assert_eq!(ws.events_of("BATCH_TASK_COMPLETED", "a").len(), 1);
    assert_eq!(ws.events_named("BATCH_COMPLETED").len(), 1);
}

#[test]
fn an_agent_that_changes_nothing_is_completed_once() {
    let ws = workspace();
    ws.add("a", "true");
    ws.run(["a"]).ok();
    assert_eq!(ws.attempts("a").len(), 1);
    assert_eq!(ws.events_of("BATCH_TASK_STARTED", "a").len(), 1);
    assert_eq!(ws.status("a"), "DONE");
}

#[test]
fn a_batch_without_tasks_has_nothing_to_do() {
    let ws = workspace();
    ws.run(["--all-ready"]).ok().says("nothing to do");
}

#[test]
fn serial_goes_by_dependencies_then_priority_then_position() {
    let ws = workspace();
    let note = "echo $CF_TASK_KEY >> order";
    ws.task("x").run(note).priority(1).add();
    ws.task("z").run(note).after("x").add();
    ws.add("u", note);
    ws.add("v", note);
    ws.run(["x", "z", "v", "u", "--strategy", "serial"]).ok();
    assert_eq!(ws.read("order"), "v\nu\nx\nz\n");
}

#[test]
fn serial_is_the_default_and_more_slots_mean_parallel() {
    let ws = workspace();
    ws.add("a", "true");
    ws.add("b", "true");
    ws.run(["a"]).ok();
    assert_eq!(ws.batch()["strategy"], "serial");
    ws.run(["b", "--max-parallel", "2"]).ok();
    assert_eq!(ws.batch()["strategy"], "parallel");
    assert_eq!(ws.batch()["max_parallel"], 2);
}

#[test]
fn serial_never_runs_two_at_once() {
    let ws = workspace();
    let script =
        "mkdir run.$CF_TASK_KEY; ls -d run.* | wc -l >> seen; sleep 0.05; rmdir run.$CF_TASK_KEY";
    for key in ["a", "b", "c"] {
        ws.add(key, script);
    }
    ws.run(["a", "b", "c"]).ok();
    assert!(
        ws.read("seen").lines().all(|line| line.trim() == "1"),
        "{}",
        ws.read("seen")
    );
    assert_eq!(ws.lines("seen"), 3);
}

#[test]
fn parallel_runs_independent_tasks_at_the_same_time() {
    let ws = workspace();
    ws.add("a", &format!("touch a.here; {}", until("b.here")));
    ws.add("b", &format!("touch b.here; {}", until("a.here")));
    ws.run(["a", "b", "--strategy", "parallel"]).ok();
    assert_eq!(ws.batch()["max_parallel"], 4);
}

#[test]
fn parallel_never_runs_more_than_its_slots() {
    let ws = workspace();
    let script =
        "mkdir run.$CF_TASK_KEY; ls -d run.* | wc -l >> seen; sleep 0.1; rmdir run.$CF_TASK_KEY";
    let keys = ["a", "b", "c", "d", "e", "f"];
    for key in keys {
        ws.add(key, script);
    }
    ws.run(keys.iter().chain(&["--max-parallel", "2"])).ok();
    let most = ws
        .read("seen")
        .lines()
        .filter_map(|line| line.trim().parse::<u32>().ok())
        .max();
    assert_eq!(most, Some(2), "{}", ws.read("seen"));
    assert_eq!(ws.lines("seen"), 6);
}

#[test]
fn a_chain_of_five_goes_through_one_slot() {
    let ws = workspace();
    let note = "echo $CF_TASK_KEY >> order";
    ws.add("t1", note);
    for n in 2..=5 {
        ws.task(&format!("t{n}"))
            .run(note)
            .after(&format!("t{}", n - 1))
            .add();
    }
    ws.run([
        "t5",
        "t4",
        "t3",
        "t2",
        "t1",
        "--strategy",
        "parallel",
        "--max-parallel",
        "1",
    ])
    .ok();
    assert_eq!(ws.read("order"), "t1\nt2\nt3\nt4\nt5\n");
}

#[test]
fn dependencies_listed_in_the_wrong_order_are_put_right() {
    let ws = workspace();
    ws.add("first", "echo first >> order");
    ws.task("second")
        .run("echo second >> order")
        .after("first")
        .add();
    ws.run(["second", "first"]).ok();
    assert_eq!(ws.read("order"), "first\nsecond\n");
}

#[test]
fn the_fast_branch_of_a_diamond_does_not_wait_for_the_slow_one() {
    let ws = workspace();
    ws.add("top", "true");
    ws.task("slow").run(&until("tail.ran")).after("top").add();
    ws.task("fast").run("true").after("top").add();
    ws.task("tail").run("touch tail.ran").after("fast").add();
    ws.task("end")
        .run("touch end.ran")
        .after("slow")
        .after("tail")
        .add();
    ws.run(["top", "slow", "fast", "tail", "end", "--max-parallel", "2"])
        .ok();
    assert!(ws.exists("end.ran"));
}

#[test]
fn twenty_batches_over_one_task_run_it_exactly_once() {
    let ws = workspace();
    ws.add("a", "echo x >> runs; sleep 0.3");
    let batches: Vec<_> = (0..20).map(|_| ws.start(["a"])).collect();
    for batch in batches {
        batch.wait().ok();
    }
    assert_eq!(ws.lines("runs"), 1);
    assert_eq!(ws.status("a"), "DONE");
    assert_eq!(ws.attempts("a").len(), 1);
}

#[test]
fn every_outcome_has_its_event_with_batch_and_actor() {
    let ws = workspace();
    ws.add("good", "true");
    ws.add("bad", "exit 1");
    ws.task("after").run("true").after("bad").add();
    ws.run(["good", "bad", "after"]).code(3);
    let batch = ws.batch()["id"].clone();
    for (kind, key) in [
        ("BATCH_TASK_QUEUED", "good"),
        ("BATCH_TASK_STARTED", "good"),
        ("BATCH_TASK_COMPLETED", "good"),
        ("BATCH_TASK_FAILED", "bad"),
        ("BATCH_TASK_SKIPPED", "after"),
    ] {
        let events = ws.events_of(kind, key);
        assert_eq!(events.len(), 1, "{kind} {key}: {events:?}");
        assert_eq!(events[0]["batch"], batch, "{kind} {key}");
        let at = events[0]["at"].as_str().expect("a time is text");
        assert!(at.ends_with('Z'), "{at} is in UTC");
    }
    assert_eq!(ws.events_named("BATCH_STARTED").len(), 1);
    assert_eq!(ws.events_named("BATCH_PARTIAL").len(), 1);
}

#[test]
fn statuses_change_with_the_batch_as_their_actor() {
    let ws = workspace();
    ws.add("a", "true");
    ws.run(["a"]).ok();
    let moves: Vec<(Value, Value)> = ws
        .events_of("TASK_STATUS_CHANGED", "a")
        .iter()
        .map(|e| (e["data"]["from"].clone(), e["data"]["to"].clone()))
        .collect();
    assert_eq!(
        moves,
        [
            ("READY".into(), "IN_PROGRESS".into()),
            ("IN_PROGRESS".into(), "DONE".into())
        ]
    );
}

#[test]
fn the_list_of_batches_counts_the_skipped() {
    let ws = workspace();
    ws.add("a", "true");
    ws.add("b", "true");
    ws.set("b", "DONE");
    ws.run(["a", "b"]).ok();
    ws.cf(["work", "batch", "list"]).ok().says("Skipped");
    let list = ws.cf(["work", "batch", "list", "--json"]).json();
    assert_eq!(list[0]["counts"]["skipped"], 1);
    assert_eq!(list[0]["counts"]["completed"], 1);
}

#[test]
fn work_start_runs_one_task() {
    let ws = workspace();
    ws.add("a", "echo said-something");
    ws.cf(["work", "start", "a"]).ok();
    assert_eq!(ws.status("a"), "DONE");
    ws.cf(["work", "logs", "a"]).ok().says("said-something");
    ws.add("b", "exit 1");
    ws.cf(["work", "start", "b"]).code(3);
}

#[test]
fn follow_tells_the_end_of_a_running_batch_with_its_exit_code() {
    let ws = workspace();
    ws.add("a", &format!("{}; exit 1", waiter("a")));
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    let follow = ws.spawn(["work", "batch", "follow"]);
    ws.touch("a.go");
    batch.wait().code(3);
    follow.wait().code(3);
}
