//! Supervisors that somebody stopped (SIGSTOP) and whose conductor is gone: whoever meets one lets it go on.

use std::fs;

use cf_testkit::{Running, Signal, Value, Workspace, json, process};

use crate::{waiter, workspace};

/// The state of a process, as `/proc` has it.
fn state(pid: u32) -> String {
    process::stat(pid).map_or_else(String::new, |fields| fields[0].clone())
}

fn stop(pid: u32) {
    process::signal(pid, Signal::STOP);
}

/// A workspace in which `b` depends on `a`, whose agent has ended below a supervisor that is stopped and has no
/// conductor any more. Returns the supervisor too.
fn ended_below_a_stopped_supervisor() -> (Workspace, u32) {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    ws.task("b").run("touch b.ran").after("a").add();
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    let supervisor = ws.supervisor("a");
    stop(supervisor);
    batch.kill9();
    ws.touch("a.go");
    ws.wait_until("the agent has ended", || ws.agents().is_empty());
    (ws, supervisor)
}

fn open_attempts(ws: &Workspace) -> String {
    ws.sql("SELECT count(*) FROM attempt WHERE open = 1")
}

#[test]
fn a_batch_that_waits_for_a_task_lets_its_stopped_supervisor_go_on() {
    let (ws, _) = ended_below_a_stopped_supervisor();
    ws.run(["a"]).ok();
    assert_eq!((ws.status("a").as_str(), ws.lines("a.pid")), ("DONE", 1));
    assert_eq!(open_attempts(&ws), "0");
}

#[test]
fn a_batch_that_waits_for_a_dependency_lets_its_stopped_supervisor_go_on() {
    let (ws, _) = ended_below_a_stopped_supervisor();
    ws.set("a", "DONE");
    ws.run(["b"]).ok();
    assert!(ws.exists("b.ran"));
    assert_eq!(open_attempts(&ws), "0");
}

#[test]
fn explain_says_of_a_done_dependency_which_attempt_is_open_and_what_to_do() {
    let (ws, supervisor) = ended_below_a_stopped_supervisor();
    ws.set("a", "DONE");
    let batch = &ws.batch_id()[..8];
    ws.cf(["explain", "b"])
        .ok()
        .says("attempt 1 of a (DONE) is still open, the end of its agent is not verified")
        .says(&format!(
            "the conductor of batch {batch}, which holds it, is gone"
        ))
        .says(&format!(
            "its supervisor (process {supervisor}) is stopped: cf reconcile a"
        ))
        .never_says("finish a");
    process::signal(supervisor, Signal::CONT);
    ws.wait_for_quiet();
    ws.cf(["explain", "b"])
        .ok()
        .says("is gone, as its supervisor is: cf reconcile a settles it");
    ws.cf(["reconcile", "a"]).ok();
    ws.cf(["explain", "b"]).ok().never_says("attempt 1 of a");
}

#[test]
fn explain_says_of_a_done_dependency_that_its_agent_is_at_work() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    ws.task("b").run("true").after("a").add();
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    let supervisor = ws.supervisor("a");
    batch.kill9();
    ws.set("a", "DONE");
    let batch = &ws.batch_id()[..8];
    ws.cf(["explain", "b"]).ok().says(&format!(
        "(process {supervisor}) looks after it: cf resume {batch}"
    ));
    ws.touch("a.go");
}

#[test]
fn reconcile_lets_a_stopped_supervisor_go_on_and_says_so() {
    let (ws, supervisor) = ended_below_a_stopped_supervisor();
    let said = format!("the supervisor of attempt 1 of a (process {supervisor}) is stopped");
    ws.cf(["reconcile", "--dry-run"]).ok().says(&said);
    assert_eq!(state(supervisor), "T");
    ws.cf(["reconcile", "b"]).ok().never_says(&said);
    assert_eq!(state(supervisor), "T");
    ws.cf(["reconcile"]).ok().says(&said);
    // It may take longer to end than that command is ready to wait.
    ws.wait_for_quiet();
    ws.cf(["reconcile"]).ok().never_says(&said);
    assert_eq!(ws.status("a"), "DONE");
    assert_eq!(open_attempts(&ws), "0");
}

/// A batch whose task `b` runs, and the supervisor of `a`, which is done: it stands idle at its gate, stopped.
fn with_an_idle_one_stopped(ws: &Workspace) -> (Running<'_>, u32) {
    ws.add("a", &waiter("a"));
    ws.add("b", &waiter("b"));
    let batch = ws.start(["a", "b", "--max-parallel", "2"]);
    ws.wait_for_pid("a.pid");
    ws.wait_for_pid("b.pid");
    let idle = ws.supervisor("a");
    ws.touch("a.go");
    ws.wait_for_status("a", "DONE");
    stop(idle);
    ws.wait_until("it is stopped", || state(idle) == "T");
    (batch, idle)
}

fn files_of_supervisors(ws: &Workspace) -> usize {
    fs::read_dir(ws.root().join(".cf/supervisors")).map_or(0, Iterator::count)
}

#[test]
fn an_idle_supervisor_that_was_stopped_when_its_conductor_died_is_let_go_on_by_the_next() {
    let ws = workspace();
    let (batch, idle) = with_an_idle_one_stopped(&ws);
    batch.kill9();
    let running = ws.supervisor("b");
    stop(running);
    ws.touch("b.go");
    ws.resume([""; 0]).ok();
    assert!(!process::alive(idle));
    assert_eq!((ws.status("b").as_str(), ws.lines("b.pid")), ("DONE", 1));
    assert_eq!(files_of_supervisors(&ws), 0);
}

#[test]
fn another_batch_lets_go_on_what_a_dead_one_left_and_nothing_of_one_that_lives() {
    let ws = workspace();
    let (batch, idle) = with_an_idle_one_stopped(&ws);
    ws.add("c", &waiter("c"));
    ws.add("d", "true");
    ws.add("e", "true");
    ws.run(["d"]).ok();
    assert_eq!(state(idle), "T", "its conductor lives");
    let other = ws.start(["c"]);
    ws.wait_for_pid("c.pid");
    batch.kill9();
    ws.run(["e"]).ok();
    assert!(!process::alive(idle));
    ws.touch("b.go");
    ws.touch("c.go");
    other.wait().ok();
}

#[test]
fn doctor_lists_a_supervisor_that_nobody_needs_and_lets_it_go_on() {
    let ws = workspace();
    let (batch, idle) = with_an_idle_one_stopped(&ws);
    let leftovers = |code| {
        let examined = ws.cf(["doctor", "--json"]).code(code);
        let examined: Value = serde_json::from_slice(examined.stdout_bytes()).expect("it is JSON");
        examined["leftovers"].clone()
    };
    assert_eq!(leftovers(0), json!([]), "while it is conducted");
    let running = ws.supervisor("b");
    stop(running);
    batch.kill9();
    let what = format!("stopped supervisor without a conductor (process {idle}), with its file");
    // The batch that nobody conducts is a problem by itself.
    let found = leftovers(1);
    assert_eq!(found.as_array().map(Vec::len), Some(1), "{found}");
    assert_eq!(found[0]["what"], json!(what));
    assert_eq!(state(idle), "T", "looking changes nothing");
    ws.cf(["doctor", "--fix"]).says(&format!("removed {what}"));
    assert!(!process::alive(idle));
    assert_eq!(state(running), "T", "an attempt names it");
    assert_eq!(leftovers(1), json!([]));
    ws.touch("b.go");
    ws.resume([""; 0]).ok();
}
