//! When a new attempt goes on with the session of an earlier one, what it is told then, and in which home it works.

use cf_testkit::Workspace;
use test_case::test_case;

use crate::workspace;

/// A program that stands for Claude Code. For attempt N it keeps its prompt in `prompt.N`, its arguments in `args.N`
/// and its home in `home.N`, does what `do.N` says, and ends well in the session `s-1`.
fn fake_claude(ws: &Workspace) {
    ws.program(
        "claude",
        r#"#!/bin/sh
cat > prompt.$CF_ATTEMPT
echo "$@" > args.$CF_ATTEMPT
echo "$HOME" > home.$CF_ATTEMPT
echo '{"type":"system","subtype":"init","session_id":"s-1"}'
if [ -e do.$CF_ATTEMPT ]; then . ./do.$CF_ATTEMPT; fi
echo '{"type":"result","subtype":"success","is_error":false,"result":"ok","session_id":"s-1"}'
"#,
    );
}

const ASK: &str = "cf blocker ask 'Which colour?'";
const UNKNOWN: &str = r#"echo '{"type":"result","subtype":"error_during_execution","is_error":true,"session_id":"s-1","errors":["No conversation found with session ID: s-1"]}'
exit 1"#;

/// A workspace with a task that asks in its first attempt.
fn asking(config: &str) -> Workspace {
    let ws = workspace();
    fake_claude(&ws);
    ws.config(config);
    ws.write("do.1", ASK);
    ws.task("a")
        .description("Paint the shed")
        .engine("claude-code")
        .add();
    ws.run(["a"]).code(4);
    ws
}

fn resumes(ws: &Workspace, attempt: u32) -> bool {
    ws.read(&format!("args.{attempt}")).contains("--resume s-1")
}

#[test]
fn an_answer_goes_on_with_the_session_and_is_all_that_is_told() {
    let ws = asking("");
    assert!(!resumes(&ws, 1));
    ws.cf(["blocker", "answer", "teal"]).ok();
    ws.resume([""; 0])
        .ok()
        .says("started a (attempt 2, in its earlier session)");
    assert!(resumes(&ws, 2));
    let prompt = ws.read("prompt.2");
    assert!(prompt.contains("You go on with the task `a`"), "{prompt}");
    assert!(prompt.contains("> teal"), "{prompt}");
    assert!(!prompt.contains("Paint the shed"), "{prompt}");
    let context = ws.attempts("a")[1]["id"].as_str().unwrap().to_owned();
    assert!(prompt.contains(&context), "its own context file: {prompt}");
    assert_eq!(ws.attempts("a")[0]["resumes"], cf_testkit::Value::Null);
    assert_eq!(ws.attempts("a")[1]["resumes"], "s-1");
    assert_eq!(
        ws.events_of("BATCH_TASK_STARTED", "a")[1]["data"]["resumes"],
        "s-1"
    );
}

#[test]
fn a_second_answer_comes_without_the_first() {
    let ws = asking("");
    ws.write("do.2", "cf blocker ask 'Which brush?'");
    ws.cf(["blocker", "answer", "teal"]).ok();
    ws.resume([""; 0]).code(4);
    ws.cf(["blocker", "answer", "broad"]).ok();
    ws.resume([""; 0]).ok();
    assert!(resumes(&ws, 3));
    let prompt = ws.read("prompt.3");
    assert!(
        prompt.contains("> broad") && !prompt.contains("teal"),
        "{prompt}"
    );
}

#[test]
fn a_question_by_a_person_about_a_running_agent_goes_on_as_well() {
    let ws = workspace();
    fake_claude(&ws);
    ws.write("do.1", "echo > asked.me; sleep 60");
    ws.task("a").engine("claude-code").add();
    let batch = ws.start(["a"]);
    ws.wait_for_line("asked.me");
    ws.ask("a", "Is it the right shed?");
    batch.wait().code(4);
    ws.cf(["blocker", "answer", "Yes."]).ok();
    ws.resume([""; 0]).ok();
    assert!(resumes(&ws, 2));
    assert!(ws.read("prompt.2").contains("> Yes."));
}

#[test]
fn a_task_that_was_changed_is_told_again() {
    let ws = asking("");
    ws.cf(["tasks", "edit", "a", "--description", "Paint the fence"])
        .ok();
    ws.cf(["blocker", "answer", "teal"]).ok();
    ws.resume([""; 0]).ok();
    assert!(resumes(&ws, 2));
    let prompt = ws.read("prompt.2");
    assert!(
        prompt.contains("Paint the fence") && prompt.contains("> teal"),
        "{prompt}"
    );
}

#[test]
fn a_failed_verification_goes_on_and_a_failed_agent_starts_afresh() {
    let ws = workspace();
    fake_claude(&ws);
    ws.write("do.2", "exit 3");
    ws.task("a")
        .description("Paint the shed")
        .engine("claude-code")
        .verify("echo wet; [ -e prompt.3 ]")
        .add();
    ws.run(["a", "--retry", "2", "--retry-delay", "0"]).ok();
    assert!(resumes(&ws, 2), "the verification failed");
    let prompt = ws.read("prompt.2");
    assert!(
        prompt.contains("wet") && !prompt.contains("Paint the shed"),
        "{prompt}"
    );
    assert!(!resumes(&ws, 3), "the agent failed");
    let prompt = ws.read("prompt.3");
    assert!(
        prompt.contains("Paint the shed") && prompt.contains("exit code 3"),
        "{prompt}"
    );
}

#[test]
fn a_stopped_agent_starts_afresh() {
    let ws = workspace();
    fake_claude(&ws);
    ws.write("do.1", "echo > runs; sleep 60");
    ws.task("a").engine("claude-code").add();
    let batch = ws.start(["a"]);
    ws.wait_for_line("runs");
    batch.signal(cf_testkit::Signal::INT);
    batch.wait().code(130);
    ws.resume([""; 0]).ok();
    assert_eq!(ws.attempts("a")[0]["session"], "s-1");
    assert!(!resumes(&ws, 2));
}

#[test]
fn a_session_that_the_program_does_not_know_is_given_up_and_costs_no_attempt() {
    let ws = asking("");
    ws.write("do.2", UNKNOWN);
    ws.cf(["blocker", "answer", "teal"]).ok();
    ws.resume([""; 0]).ok();
    assert_eq!(ws.status("a"), "DONE");
    assert!(resumes(&ws, 2) && !resumes(&ws, 3));
    let prompt = ws.read("prompt.3");
    assert!(
        prompt.contains("Paint the shed") && prompt.contains("> teal"),
        "{prompt}"
    );
    assert!(!prompt.contains("No conversation"), "{prompt}");
    let attempts = ws.attempts("a");
    assert_eq!(attempts[1]["success"], false);
    assert!(attempts[1]["session"].is_null());
    assert!(
        attempts[1]["reason"]
            .as_str()
            .unwrap()
            .contains("No conversation found")
    );
    assert_eq!(
        ws.row("a")["attempts"],
        2,
        "of three starts, one did nothing"
    );
}

#[test]
fn a_program_that_speaks_of_a_session_that_it_was_not_given_has_failed() {
    let ws = workspace();
    fake_claude(&ws);
    ws.write("do.1", UNKNOWN);
    ws.task("a").engine("claude-code").add();
    ws.run(["a"]).code(3);
    assert_eq!(ws.attempts("a").len(), 1);
}

#[test_case("[engines.claude-code]\nresume_flag = []\n", "claude-code"; "it was told not to")]
#[test_case("[engines.other]\nbase = \"claude-code\"\n", "other"; "another engine has the task now")]
fn it_starts_afresh_when(config: &str, engine: &str) {
    let ws = asking(config);
    ws.cf(["tasks", "edit", "a", "--engine", engine]).ok();
    ws.cf(["blocker", "answer", "teal"]).ok();
    ws.resume([""; 0]).ok();
    assert!(!resumes(&ws, 2));
    let prompt = ws.read("prompt.2");
    assert!(
        prompt.contains("Paint the shed") && prompt.contains("> teal"),
        "{prompt}"
    );
}

#[test]
fn a_home_of_its_own_is_fresh_for_each_attempt_and_kept_for_its_session() {
    let ws = asking("[engines.claude-code]\nhome = \"attempt\"\n");
    ws.cf(["blocker", "answer", "teal"]).ok();
    ws.write("do.2", "cf tasks set status self FAILED");
    ws.resume([""; 0]).code(3);
    ws.resume([""; 0]).ok();
    let home = |n: u32| ws.read(&format!("home.{n}")).trim().to_owned();
    let id = |n: usize| ws.attempts("a")[n]["id"].as_str().unwrap().to_owned();
    assert!(home(1).ends_with(&format!("{}/home", id(0))), "{}", home(1));
    assert_eq!(home(2), home(1), "the session lives there");
    assert!(home(3).ends_with(&format!("{}/home", id(2))), "{}", home(3));
    assert!(resumes(&ws, 2) && !resumes(&ws, 3));
}

#[test]
fn the_home_is_the_users_otherwise() {
    let ws = asking("");
    assert_eq!(ws.read("home.1").trim(), ws.home().display().to_string());
}
