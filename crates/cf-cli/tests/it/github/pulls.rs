//! What happens to pull requests while their tasks wait or run.

use cf_testkit::github::ScriptedGithub;
use cf_testkit::process;
use test_case::test_case;

use super::{configured, following};
use crate::{sleeper, until, waiter};

#[test]
fn a_merged_pull_request_makes_its_queued_task_done() {
    let github = ScriptedGithub::start();
    github.pull_request("o/r", 13);
    github.merge("o/r", 13);
    let ws = following(&github);
    ws.add("a", "touch a.ran");
    ws.cf(["pr", "link", "a", "o/r#13"]).ok();
    ws.run(["a"])
        .ok()
        .says("[Reconciler] Skipping a: pull request merged");
    ws.ended("a", "SKIPPED", "pull request merged");
    assert_eq!(ws.status("a"), "DONE");
    assert!(!ws.exists("a.ran"));
}

#[test]
fn a_pull_request_given_as_an_issue_number_is_a_pull_request() {
    let github = ScriptedGithub::start();
    github.pull_request("o/r", 13);
    let ws = following(&github);
    ws.add("a", &sleeper("a"));
    ws.cf(["tasks", "link", "a", "o/r#13"]).ok();
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    github.merge("o/r", 13);
    batch.wait().ok();
    ws.ended("a", "SKIPPED", "pull request merged");
    assert_eq!(ws.status("a"), "DONE");
}

#[test]
fn a_pull_request_closed_without_merge_fails_its_running_task() {
    let github = ScriptedGithub::start();
    github.pull_request("o/r", 13);
    let ws = following(&github);
    ws.add("a", &sleeper("a"));
    ws.cf(["pr", "link", "a", "o/r#13"]).ok();
    let batch = ws.start(["a", "--retry", "3"]);
    let pid = ws.wait_for_pid("a.pid");
    github.close("o/r", 13, None);
    batch
        .wait()
        .code(3)
        .says("[Reconciler] Failing a: pull request closed without merge")
        .says("cf tasks unlink a https://github.com/o/r/pull/13 && cf work start a");
    assert!(!process::alive(pid));
    ws.ended("a", "FAILED", "pull request closed without merge");
    assert_eq!(ws.status("a"), "FAILED");
    assert_eq!(ws.attempts("a").len(), 1, "not tried again");
    ws.cf(["explain", "a"]).ok().says("cf tasks unlink a");
    // Whoever runs it again without unlinking meets the same closing again.
    ws.run(["a"]).code(3);
    ws.cf(["tasks", "unlink", "a", "o/r#13"]).ok();
    ws.cf(["tasks", "edit", "a", "--run", "true"]).ok();
    ws.run(["a"]).ok();
    assert_eq!(ws.status("a"), "DONE");
}

#[test]
fn a_draft_does_nothing() {
    let github = ScriptedGithub::start();
    github.pull_request("o/r", 13);
    github.change("o/r", 13, |item| item.draft = true);
    let ws = following(&github);
    ws.add("a", "touch a.ran");
    ws.cf(["pr", "link", "a", "o/r#13"]).ok();
    ws.run(["a"]).ok();
    ws.ended("a", "COMPLETED", "");
}

#[test]
fn a_pull_request_that_is_reopened_brings_its_failed_task_back() {
    let github = ScriptedGithub::start();
    github.pull_request("o/r", 13);
    let ws = following(&github);
    ws.add("keep", &waiter("keep"));
    ws.add("a", "echo $$ >> a.pid; [ $CF_ATTEMPT -ge 2 ] || sleep 60");
    ws.cf(["pr", "link", "a", "o/r#13"]).ok();
    let batch = ws.start(["keep", "a", "--max-parallel", "2"]);
    ws.wait_for_pid("a.pid");
    github.close("o/r", 13, None);
    ws.wait_for_event("BATCH_TASK_FAILED", "a");
    github.reopen("o/r", 13);
    ws.wait_for_event("BATCH_TASK_COMPLETED", "a");
    ws.touch("keep.go");
    batch
        .wait()
        .ok()
        .says("[Reconciler] Re-queueing a: pull request reopened");
    assert_eq!(ws.status("a"), "DONE");
    assert_eq!(ws.events_of("BATCH_TASK_REQUEUED", "a").len(), 1);
}

#[test_case("merged", "open" => "SKIPPED".to_owned(); "one is merged")]
#[test_case("merged", "closed" => "SKIPPED".to_owned(); "one is merged and one closed")]
#[test_case("closed", "open" => "COMPLETED".to_owned(); "one is open")]
#[test_case("closed", "closed" => "FAILED".to_owned(); "both are closed")]
fn of_two_pull_requests(first: &str, second: &str) -> String {
    let github = ScriptedGithub::start();
    let ws = following(&github);
    ws.add("a", "true");
    for (number, state) in [(13, first), (14, second)] {
        github.pull_request("o/r", number);
        match state {
            "merged" => github.merge("o/r", number),
            "closed" => github.close("o/r", number, None),
            _ => {}
        }
        ws.cf(["pr", "link", "a", &format!("o/r#{number}")]).ok();
    }
    ws.run(["a"]);
    ws.row("a")["outcome"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[test]
fn a_closed_pull_request_may_ask_a_question_that_its_reopening_resolves() {
    let github = ScriptedGithub::start();
    github.pull_request("o/r", 13);
    let ws = configured(&github, "closed_unmerged = \"block\"\nsettle = \"0s\"");
    ws.add("keep", &waiter("keep"));
    ws.add("a", "echo $$ >> a.pid; [ $CF_ATTEMPT -ge 2 ] || sleep 60");
    ws.cf(["pr", "link", "a", "o/r#13"]).ok();
    let batch = ws.start(["keep", "a", "--max-parallel", "2"]);
    let pid = ws.wait_for_pid("a.pid");
    github.close("o/r", 13, None);
    ws.wait_for_phase("a", "held");
    assert!(!process::alive(pid));
    assert_eq!(ws.status("a"), "BLOCKED");
    let blockers = ws.blockers("a");
    assert_eq!(blockers.len(), 1, "{blockers:?}");
    assert_eq!(blockers[0]["asked_by"], "system");
    assert!(
        blockers[0]["question"]
            .as_str()
            .unwrap()
            .contains("https://github.com/o/r/pull/13")
    );
    github.reopen("o/r", 13);
    ws.wait_for_event("BATCH_TASK_COMPLETED", "a");
    assert_eq!(ws.blockers("a")[0]["status"], "RESOLVED");
    ws.touch("keep.go");
    batch
        .wait()
        .ok()
        .says("[Reconciler] Re-queueing a: blockers resolved");
}

#[test]
fn an_answer_to_that_question_lets_the_task_run_in_spite_of_the_closing() {
    let github = ScriptedGithub::start();
    github.pull_request("o/r", 13);
    github.close("o/r", 13, None);
    let ws = configured(&github, "closed_unmerged = \"block\"");
    ws.add("a", "cat $CF_PROMPT_FILE > prompt");
    ws.cf(["pr", "link", "a", "o/r#13"]).ok();
    ws.run(["a"]).code(4);
    let blockers = ws.blockers("a");
    assert_eq!(blockers.len(), 1, "{blockers:?}");
    let id = blockers[0]["id"].as_str().unwrap();
    ws.cf(["blocker", "answer", id, "do it again from scratch"])
        .ok();
    ws.resume([] as [&str; 0]).ok();
    ws.ended("a", "COMPLETED", "");
    assert!(ws.read("prompt").contains("do it again from scratch"));
    assert_eq!(ws.blockers("a").len(), 1, "not asked again");
}

#[test]
fn a_closed_pull_request_may_be_ignored() {
    let github = ScriptedGithub::start();
    github.pull_request("o/r", 13);
    github.close("o/r", 13, None);
    let ws = configured(&github, "closed_unmerged = \"ignore\"");
    ws.add("a", "true");
    ws.cf(["pr", "link", "a", "o/r#13"]).ok();
    ws.run(["a"]).ok();
    ws.ended("a", "COMPLETED", "");
}

#[test]
fn a_strangers_pull_request_for_the_issue_never_fails_the_task() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    github.pull_request("o/r", 90);
    github.close("o/r", 90, None);
    github.change("o/r", 12, |item| item.closing.push(("o/r".to_owned(), 90)));
    let ws = following(&github);
    ws.add("a", &waiter("a"));
    ws.cf(["tasks", "link", "a", "o/r#12"]).ok();
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    ws.touch("a.go");
    batch.wait().ok();
    ws.ended("a", "COMPLETED", "");
}

#[test]
fn a_pull_request_found_through_the_issue_can_be_merged() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    github.pull_request("o/r", 90);
    github.change("o/r", 12, |item| item.closing.push(("o/r".to_owned(), 90)));
    let ws = following(&github);
    ws.add("a", &sleeper("a"));
    ws.cf(["tasks", "link", "a", "o/r#12"]).ok();
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    github.merge("o/r", 90);
    batch.wait().ok();
    ws.ended("a", "SKIPPED", "pull request merged");
}

#[test]
fn an_agent_that_merges_its_own_pull_request_may_end_by_itself() {
    let github = ScriptedGithub::start();
    github.pull_request("o/r", 13);
    let ws = configured(&github, "settle = \"1m\"");
    ws.add("a", &format!("echo $$ > a.pid; {}", until("a.go")));
    ws.cf(["pr", "link", "a", "o/r#13"]).ok();
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    github.take_received();
    github.merge("o/r", 13);
    // Seen by a look, and left alone.
    ws.wait_until("the merge was seen", || github.received().len() >= 3);
    ws.touch("a.go");
    batch.wait().ok();
    ws.ended("a", "COMPLETED", "");
    assert_eq!(ws.status("a"), "DONE");
}

#[test]
fn an_agent_that_does_not_end_in_that_time_is_stopped() {
    let github = ScriptedGithub::start();
    github.pull_request("o/r", 13);
    let ws = configured(&github, "settle = \"1s\"");
    ws.add("a", &sleeper("a"));
    ws.cf(["pr", "link", "a", "o/r#13"]).ok();
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    github.merge("o/r", 13);
    batch.wait().ok();
    ws.ended("a", "SKIPPED", "pull request merged");
}
