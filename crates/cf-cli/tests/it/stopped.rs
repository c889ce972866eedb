//! Supervisors that somebody stopped (SIGSTOP) and whose conductor is gone: whoever meets one lets it go on.

use cf_testkit::{Signal, Workspace, process};

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
