//! What happens to issues while their tasks wait or run.

use cf_testkit::github::{Fault, ScriptedGithub};
use cf_testkit::process;
use serde_json::json;
use test_case::test_case;

use super::following;
use crate::{sleeper, waiter};

#[test_case(Some("COMPLETED"), "issue closed", "DONE"; "completed")]
#[test_case(None, "issue closed", "DONE"; "without a reason")]
#[test_case(Some("NOT_PLANNED"), "issue closed as not planned", "BACKLOG"; "not planned")]
#[test_case(Some("DUPLICATE"), "issue closed as duplicate", "BACKLOG"; "duplicate")]
fn an_issue_closed_while_its_task_is_queued(reason: Option<&str>, said: &str, status: &str) {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    let ws = following(&github);
    ws.add("first", &waiter("first"));
    ws.add("a", "touch a.ran");
    ws.cf(["tasks", "link", "a", "o/r#12"]).ok();
    let batch = ws.start(["first", "a"]);
    ws.wait_for_pid("first.pid");
    github.close("o/r", 12, reason);
    ws.wait_for_event("BATCH_TASK_SKIPPED", "a");
    ws.touch("first.go");
    batch
        .wait()
        .ok()
        .says(&format!("[Reconciler] Skipping a: {said}"));
    ws.ended("a", "SKIPPED", said);
    assert_eq!(ws.status("a"), status);
    assert!(!ws.exists("a.ran"));
}

#[test_case(Some("COMPLETED"), "issue closed", "DONE"; "completed")]
#[test_case(None, "issue closed", "DONE"; "without a reason")]
#[test_case(Some("NOT_PLANNED"), "issue closed as not planned", "BACKLOG"; "not planned")]
#[test_case(Some("DUPLICATE"), "issue closed as duplicate", "BACKLOG"; "duplicate")]
fn an_issue_closed_while_its_task_runs(reason: Option<&str>, said: &str, status: &str) {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    let ws = following(&github);
    ws.add("a", &sleeper("a"));
    ws.cf(["tasks", "link", "a", "o/r#12"]).ok();
    let batch = ws.start(["a"]);
    let pid = ws.wait_for_pid("a.pid");
    github.close("o/r", 12, reason);
    batch.wait().ok();
    assert!(!process::alive(pid));
    ws.no_agent_left();
    ws.ended("a", "SKIPPED", said);
    assert_eq!(ws.status("a"), status);
    let event = &ws.events_of("BATCH_TASK_SKIPPED", "a")[0];
    assert_eq!(event["data"]["source"], "github");
    assert_eq!(event["data"]["evidence"]["state"], "closed");
}

#[test]
fn of_three_linked_issues_all_must_be_closed() {
    let github = ScriptedGithub::start();
    let ws = following(&github);
    ws.add("keep", &waiter("keep"));
    ws.add("a", &waiter("a"));
    for number in 1..=3 {
        github.issue("o/r", number);
        ws.cf(["tasks", "link", "a", &format!("o/r#{number}")]).ok();
    }
    github.close("o/r", 1, Some("COMPLETED"));
    let batch = ws.start(["keep", "a", "--max-parallel", "2"]);
    ws.wait_for_pid("a.pid");
    github.close("o/r", 2, Some("NOT_PLANNED"));
    github.take_received();
    ws.wait_until("three looks went by", || github.received().len() >= 3);
    assert_eq!(ws.row("a")["phase"], "running");
    github.close("o/r", 3, Some("NOT_PLANNED"));
    ws.wait_for_event("BATCH_TASK_SKIPPED", "a");
    ws.touch("keep.go");
    batch.wait().ok();
    ws.ended("a", "SKIPPED", "issue closed");
    assert_eq!(ws.status("a"), "DONE", "one of them was completed");
}

#[test]
fn an_issue_that_is_reopened_brings_its_skipped_task_back() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    github.close("o/r", 12, Some("NOT_PLANNED"));
    let ws = following(&github);
    ws.add("keep", &waiter("keep"));
    ws.add("a", "touch a.ran");
    ws.task("b").run("touch b.ran").after("a").add();
    ws.cf(["tasks", "link", "a", "o/r#12"]).ok();
    let batch = ws.start(["keep", "a", "b", "--max-parallel", "2"]);
    ws.wait_for_event("BATCH_TASK_SKIPPED", "a");
    assert_eq!(ws.status("a"), "BACKLOG");
    ws.wait_for_event("BATCH_TASK_SKIPPED", "b");
    github.reopen("o/r", 12);
    ws.wait_for_event("BATCH_TASK_COMPLETED", "b");
    ws.touch("keep.go");
    batch
        .wait()
        .ok()
        .says("[Reconciler] Re-queueing a: issue reopened");
    assert_eq!(ws.status("a"), "DONE");
}

#[test]
fn a_closing_that_was_undone_does_not_swing() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    let ws = following(&github);
    ws.add("keep", &waiter("keep"));
    ws.add("a", &sleeper("a"));
    ws.cf(["tasks", "link", "a", "o/r#12"]).ok();
    let batch = ws.start(["keep", "a", "--max-parallel", "2"]);
    ws.wait_for_pid("a.pid");
    let closed = Fault::Edited(|reply| {
        let item = &mut reply["data"]["r0"]["i12"];
        item["state"] = json!("CLOSED");
        item["stateReason"] = json!("COMPLETED");
        item["closedAt"] = json!("2026-01-01T00:00:00Z");
    });
    github.fault("/graphql", closed.clone(), usize::MAX);
    ws.wait_for_event("BATCH_TASK_SKIPPED", "a");
    github.heal();
    ws.wait_for_event("BATCH_TASK_REQUEUED", "a");
    ws.wait_until("it runs again", || ws.row("a")["phase"] == "running");
    // The same closing again, as a machine has it that lags behind: it acts no more, however often it is told.
    for _ in 0..2 {
        github.fault("/graphql", closed.clone(), 2);
        github.take_received();
        ws.wait_until("four looks went by", || github.received().len() >= 4);
    }
    assert_eq!(ws.row("a")["phase"], "running");
    assert_eq!(ws.events_of("BATCH_TASK_SKIPPED", "a").len(), 1);
    // A closing of its own does.
    github.close("o/r", 12, Some("COMPLETED"));
    ws.wait_until("it was skipped again", || {
        ws.events_of("BATCH_TASK_SKIPPED", "a").len() == 2
    });
    ws.touch("keep.go");
    batch.wait().ok();
    ws.ended("a", "SKIPPED", "issue closed");
}

#[test]
fn between_two_looks_only_the_last_state_counts() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    let ws = following(&github);
    ws.add("a", &sleeper("a"));
    ws.cf(["tasks", "link", "a", "o/r#12"]).ok();
    let batch = ws.start(["a", "--reconcile-interval", "2s"]);
    ws.wait_for_pid("a.pid");
    github.close("o/r", 12, Some("NOT_PLANNED"));
    github.reopen("o/r", 12);
    github.close("o/r", 12, Some("COMPLETED"));
    batch.wait().ok();
    ws.ended("a", "SKIPPED", "issue closed");
    assert_eq!(ws.status("a"), "DONE");
    assert_eq!(ws.events_of("BATCH_TASK_SKIPPED", "a").len(), 1);
}

#[test]
fn who_sets_a_task_ready_in_spite_of_the_closed_issue_is_obeyed() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    github.close("o/r", 12, Some("COMPLETED"));
    let ws = following(&github);
    ws.add("a", &waiter("a"));
    ws.cf(["tasks", "link", "a", "o/r#12"]).ok();
    ws.run(["a"]).ok();
    ws.ended("a", "SKIPPED", "issue closed");
    ws.set("a", "READY");
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    // Whatever else happens to the issue, the same closing does not act again.
    github.comment("o/r", 12, "a late word");
    github.change("o/r", 12, |item| {
        "another title".clone_into(&mut item.title);
    });
    github.take_received();
    ws.wait_until("three looks went by", || github.received().len() >= 3);
    assert_eq!(ws.row("a")["phase"], "running");
    // A new closing does.
    github.reopen("o/r", 12);
    github.take_received();
    // The second was begun after the first had been taken in, and the first after the reopening or just before it.
    ws.wait_until("the reopening was seen", || github.received().len() >= 3);
    // GitHub's times are whole seconds.
    github.skew(2);
    github.close("o/r", 12, Some("COMPLETED"));
    batch.wait().ok();
    ws.ended("a", "SKIPPED", "issue closed");
}

#[test]
fn within_a_batch_too() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    github.close("o/r", 12, Some("COMPLETED"));
    let ws = following(&github);
    ws.add("keep", &waiter("keep"));
    ws.add("a", "touch a.ran");
    ws.cf(["tasks", "link", "a", "o/r#12"]).ok();
    let batch = ws.start(["keep", "a", "--max-parallel", "2"]);
    ws.wait_for_event("BATCH_TASK_SKIPPED", "a");
    ws.set("a", "READY");
    ws.wait_for_event("BATCH_TASK_COMPLETED", "a");
    ws.touch("keep.go");
    batch
        .wait()
        .ok()
        .says("[Reconciler] Re-queueing a: reopened");
    assert!(ws.exists("a.ran"));
}

#[test]
fn a_forced_batch_runs_in_spite_of_the_closed_issue() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    github.close("o/r", 12, Some("COMPLETED"));
    let ws = following(&github);
    ws.add("a", "touch a.ran");
    ws.cf(["tasks", "link", "a", "o/r#12"]).ok();
    ws.run(["a"]).ok();
    assert!(!ws.exists("a.ran"));
    // GitHub's times are whole seconds, and the closing was made in the very second of this test.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    ws.run(["a", "--force"]).ok();
    ws.ended("a", "COMPLETED", "");
    assert!(ws.exists("a.ran"));
}

#[test]
fn a_transferred_issue_is_followed() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    github.issue("o/new", 7);
    github.change("o/r", 12, |item| {
        item.place = cf_testkit::github::Place::Moved("o/new".to_owned(), 7);
    });
    let ws = following(&github);
    ws.add("a", &sleeper("a"));
    ws.cf(["tasks", "link", "a", "o/r#12"]).ok();
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    github.close("o/new", 7, Some("COMPLETED"));
    batch.wait().ok();
    ws.ended("a", "SKIPPED", "issue closed");
    assert_eq!(ws.show("a")["links"][0]["repo"], "o/new");
    assert_eq!(ws.show("a")["links"][0]["number"], 7);
}

#[test]
fn passes_that_are_off_ask_nothing() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    github.close("o/r", 12, Some("COMPLETED"));
    let ws = following(&github);
    ws.add("a", "touch a.ran");
    ws.cf(["tasks", "link", "a", "o/r#12"]).ok();
    ws.run(["a", "--reconcile-interval", "0"])
        .ok()
        .says("GitHub: off, passes are disabled");
    ws.ended("a", "COMPLETED", "");
    assert_eq!(github.received().len(), 0);
}

#[test]
fn reconcile_asks_github_and_settles_a_batch_whose_conductor_is_gone() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    let ws = following(&github);
    ws.add("keep", &sleeper("keep"));
    ws.add("a", "touch a.ran");
    ws.cf(["tasks", "link", "a", "o/r#12"]).ok();
    let batch = ws.start(["keep", "a"]);
    ws.wait_for_pid("keep.pid");
    batch.kill9();
    github.close("o/r", 12, Some("COMPLETED"));
    // What was read is old at once.
    let ws = ws.with([("CF_RECONCILE_INTERVAL", "1ms")]);
    ws.cf(["reconcile", "--dry-run"])
        .ok()
        .says("SKIP")
        .says("issue closed");
    assert_eq!(ws.status("a"), "READY");
    ws.cf(["reconcile"]).ok();
    assert_eq!(ws.status("a"), "DONE");
    ws.cf(["explain", "a"]).ok().says("issue closed");
    ws.cf(["stop", &ws.batch_id(), "--force"]).ok();
}

#[test]
fn a_link_that_leads_nowhere_is_said_once_after_three_passes_and_stops_nothing() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    let ws = following(&github);
    ws.add("a", &waiter("a"));
    ws.add("b", "true");
    ws.cf(["tasks", "link", "a", "o/r#99"]).ok();
    ws.cf(["tasks", "link", "b", "o/r#12"]).ok();
    let batch = ws.start(["a", "b"]);
    ws.wait_for_events("SOURCE_NOTICE", "a", 1);
    let looks = || github.received().len();
    let so_far = looks();
    assert!(so_far >= 3, "it was looked for {so_far} times");
    ws.wait_until("more looks have followed", || looks() >= so_far + 4);
    ws.touch("a.go");
    batch.wait().ok();
    let said = ws.events_of("SOURCE_NOTICE", "a");
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(said[0]["data"]["reason"], "linked issue is gone");
    ws.ended("a", "COMPLETED", "");
}
