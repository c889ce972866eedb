//! A task of two batches, one of which dies while an agent of it runs: the other one looks after what is left.

use cf_testkit::{Running, Workspace, process};

use crate::{stubborn, waiter, workspace};

/// A line of shell that tells of the second agent of `a` that it runs. One that has ended may still be a zombie.
const TELLS: &str =
    "grep -qs '^State:.[RSDT]' /proc/$(sed -n 2p a.pid)/status && touch beside; true";

/// The task `a`: it fails, then runs until it is killed, and then ends well.
fn three_lives() -> String {
    format!(
        "echo $$ >> a.pid; n=$(wc -l < a.pid)
[ $n -ge 2 ] || exit 1
[ $n -eq 2 ] || {{ {TELLS}; exit; }}
trap '' TERM; while :; do sleep 0.1; done"
    )
}

/// A batch in which `a` has failed and `b` waits for it, because `a` runs again in a second batch, which is there too.
fn two_batches<'w>(ws: &'w Workspace, grace: &str) -> (Running<'w>, Running<'w>) {
    ws.add("a", &three_lives());
    let b = format!("{TELLS}; touch b.ran");
    ws.task("b").run(&b).after("a").add();
    ws.add("c", &waiter("c"));
    let limits = ["--strategy", "parallel", "--kill-grace", grace];
    let first = ws.start(["a", "b", "c"].into_iter().chain(limits));
    ws.wait_for_event("BATCH_TASK_SKIPPED", "b");
    let second = ws.start(["a"]);
    ws.wait_for_lines("a.pid", 2);
    ws.wait_for_event("BATCH_TASK_WAITING", "b");
    ws.touch("c.go");
    ws.wait_for_event("BATCH_TASK_COMPLETED", "c");
    (first, second)
}

/// The first of two batches, after the other one and the supervisor of its agent were killed: it has taken the attempt
/// over, and stops what is left of it.
fn taken_over<'w>(ws: &'w Workspace, grace: &str) -> Running<'w> {
    let (first, second) = two_batches(ws, grace);
    let supervisor = ws.supervisor("a");
    second.kill9();
    process::kill9(supervisor);
    ws.wait_for_event("ATTEMPT_ADOPTED", "a");
    first
}

/// Where the last event of a kind about a task stands in the log.
fn place(ws: &Workspace, kind: &str, key: &str) -> u64 {
    let events = ws.events_of(kind, key);
    let last = events
        .last()
        .unwrap_or_else(|| panic!("no {kind} of {key}"));
    last["seq"].as_u64().expect("it has a number")
}

#[test]
fn a_batch_does_not_end_before_what_it_took_over_has_ended() {
    let ws = workspace();
    let first = taken_over(&ws, "2s");
    // Whoever says anything about the task has the batch look at it.
    ws.cf(["tasks", "edit", "a", "--priority", "1"]).ok();
    first.wait().code(3);
    assert_eq!(ws.sql("SELECT count(*) FROM attempt WHERE open = 1"), "0");
    assert_eq!(ws.status("a"), "FAILED");
    ws.no_agent_left();
    // Until then `b` waited, and was not given up in between.
    assert!(place(&ws, "BATCH_TASK_SKIPPED", "b") > place(&ws, "ATTEMPT_ENDED", "a"));
    assert_eq!(ws.events_of("BATCH_TASK_SKIPPED", "b").len(), 2);
    let outcome = "SELECT b.status || ' ' || bt.outcome || ' ' || bt.attempts FROM batch b \
                   JOIN batch_task bt ON bt.batch = b.id JOIN task t ON t.id = bt.task \
                   WHERE t.key = 'a' ORDER BY b.pk LIMIT 1";
    assert_eq!(ws.sql(outcome), "PARTIAL FAILED 1");
}

#[test]
fn what_depends_on_a_task_starts_after_the_end_of_the_attempt_that_was_taken_over() {
    let ws = workspace();
    let first = taken_over(&ws, "3s");
    ws.set("a", "DONE");
    first.wait().code(3);
    assert!(ws.exists("b.ran") && !ws.exists("beside"));
    assert_eq!(ws.status("a"), "DONE");
    assert_eq!(ws.events_of("ATTEMPT_STALE_RESULT", "a").len(), 1);
}

#[test]
fn a_task_that_is_reopened_starts_after_the_end_of_the_attempt_that_was_taken_over() {
    let ws = workspace();
    let first = taken_over(&ws, "3s");
    ws.set("a", "READY");
    first.wait().ok();
    assert_eq!(ws.lines("a.pid"), 3);
    assert!(ws.exists("b.ran") && !ws.exists("beside"));
    assert_eq!(ws.status("a"), "DONE");
}

#[test]
fn reconcile_settles_what_it_takes_over_and_nothing_that_it_was_not_asked_about() {
    let ws = workspace();
    let (first, second) = two_batches(&ws, "1s");
    let supervisor = ws.supervisor("a");
    let pids = ws.wait_for_lines("a.pid", 2);
    let agent = pids.lines().last().and_then(|pid| pid.parse().ok());
    let agent = agent.expect("its second line is a number");
    first.kill9();
    second.kill9();
    process::kill9(supervisor);
    ws.cf(["reconcile", "c"]).ok();
    assert!(process::alive(agent) && ws.events_of("ATTEMPT_ADOPTED", "a").is_empty());
    ws.cf(["reconcile"]).ok();
    assert!(!process::alive(agent));
    assert_eq!(ws.sql("SELECT count(*) FROM attempt WHERE open = 1"), "0");
    assert_eq!(ws.status("a"), "FAILED");
}

#[test]
fn reconcile_waits_for_the_end_of_what_it_takes_over() {
    let ws = workspace();
    ws.add("a", &stubborn("a"));
    ws.task("b").run("true").after("a").add();
    let first = ws.start(["a"]);
    let agent = ws.wait_for_pid("a.pid");
    let second = ws.start(["b", "--kill-grace", "1s"]);
    ws.wait_for_event("BATCH_TASK_QUEUED", "b");
    let supervisor = ws.supervisor("a");
    first.kill9();
    second.kill9();
    process::kill9(supervisor);
    ws.cf(["reconcile"]).ok();
    assert!(!process::alive(agent));
    assert_eq!(ws.events_of("ATTEMPT_ADOPTED", "a").len(), 1);
    assert_eq!(ws.sql("SELECT count(*) FROM attempt WHERE open = 1"), "0");
    assert_eq!(ws.status("a"), "FAILED");
}
