//! What is understood of an agent's output: shown while it runs, and stored at its end.

use cf_testkit::{Workspace, json};
use test_case::test_case;

use crate::workspace;

/// A program that stands for a coding agent: it prints the lines of `<name>.first`, waits for the file `go`, and ends
/// with the lines of `<name>.last`.
fn fake_agent(ws: &Workspace, name: &str, first: &[&str], last: &[&str]) {
    ws.write(&format!("{name}.first"), first.join("\n") + "\n");
    ws.write(&format!("{name}.last"), last.join("\n") + "\n");
    ws.program(
        name,
        &format!(
            "#!/bin/sh\ncat > /dev/null\ncat {name}.first\necho > {name}.said\n{}\ncat {name}.last\n",
            crate::until("go")
        ),
    );
}

const CLAUDE: &[&str] = &[
    r#"{"type":"system","subtype":"init","session_id":"s-1"}"#,
    r#"{"type":"assistant","message":{"content":[{"type":"text","text":"I read\u001b[2J the tests"}]},"session_id":"s-1"}"#,
    r#"{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Bash","input":{"command":"cargo test"}}]},"session_id":"s-1"}"#,
    r#"{"type":"tomorrow","what":[1,2,3]}"#,
    "\u{fffd} not an event",
    r#"{"type":"user","message":"#,
];
const CLAUDE_END: &[&str] = &[
    "",
    r#"{"type":"result","subtype":"success","is_error":false,"result":"All 12 tests pass.","session_id":"s-1","total_cost_usd":0.42,"usage":{"input_tokens":2000,"cache_read_input_tokens":10000,"output_tokens":345},"permission_denials":[]}"#,
];

#[test]
fn what_an_agent_says_is_shown_while_it_runs_and_kept_at_its_end() {
    let ws = workspace();
    fake_agent(&ws, "claude", CLAUDE, CLAUDE_END);
    ws.task("a").engine("claude-code").add();
    let batch = ws.start(["a"]);
    ws.wait_for_line("claude.said");
    ws.wait_until("the log says it", || {
        ws.row("a")["doing"] == "\u{fffd} not an event"
    });
    ws.cf(["work", "batch", "status"]).ok().says("not an event");
    let attempt = &ws.attempts("a")[0];
    assert_eq!(attempt["state"], "running");
    assert_eq!(attempt["last_said"], "I read the tests");
    assert_eq!(attempt["session"], "s-1");
    assert!(attempt["tokens"].is_null());
    ws.cf(["tasks", "show", "a"])
        .ok()
        .says("it said: I read the tests")
        .says("session s-1");
    ws.touch("go");
    batch
        .wait()
        .ok()
        .says("(12.3k tokens, $0.42): All 12 tests pass.")
        .says("used        12.3k tokens, $0.42");

    let attempt = &ws.attempts("a")[0];
    assert_eq!(attempt["last_said"], "All 12 tests pass.");
    assert_eq!(attempt["session"], "s-1");
    assert_eq!(
        attempt["tokens"],
        json!({"total": 12_345, "input": 12_000, "cached": 10_000, "output": 345})
    );
    assert_eq!(attempt["cost_micro_usd"], 420_000);
    assert!(ws.row("a")["doing"].is_null());
    let batch = ws.batch();
    assert_eq!(batch["tokens"], 12_345);
    assert_eq!(batch["cost_micro_usd"], 420_000);
    let ended = &ws.events_of("ATTEMPT_ENDED", "a")[0]["data"];
    assert_eq!(ended["last_said"], "All 12 tests pass.");
    assert_eq!(ended["session"], "s-1");
    assert_eq!(
        ended["tokens"],
        json!({"input": 12_000, "cached": 10_000, "output": 345})
    );
    assert_eq!(ended["cost_micro_usd"], 420_000);
}

#[test_case("codex", "codex", &[r#"{"type":"thread.started","thread_id":"t-1"}"#],
    &[r#"{"type":"item.completed","item":{"type":"agent_message","text":"done"}}"#,
      r#"{"type":"turn.completed","usage":{"input_tokens":20,"cached_input_tokens":4,"output_tokens":3}}"#]
    => (json!("done"), json!("t-1"), json!(23), json!(null)); "codex")]
#[test_case("opencode", "opencode", &[r#"{"type":"step_start","sessionID":"ses_1","part":{}}"#],
    &[r#"{"type":"text","sessionID":"ses_1","part":{"text":"done"}}"#,
      r#"{"type":"step_finish","sessionID":"ses_1","part":{"reason":"stop","tokens":{"input":10,"output":2,"cache":{"write":1,"read":5}},"cost":0.5}}"#]
    => (json!("done"), json!("ses_1"), json!(18), json!(500_000)); "opencode")]
#[test_case("gemini", "gemini", &[r#"{"type":"init","session_id":"g-1"}"#],
    &[r#"{"type":"message","role":"assistant","content":"done","delta":true}"#,
      r#"{"type":"result","status":"success","stats":{"total_tokens":30,"input_tokens":20,"output_tokens":10}}"#]
    => (json!("done"), json!("g-1"), json!(30), json!(null)); "gemini")]
fn each_program_is_understood(
    engine: &str,
    program: &str,
    first: &[&str],
    last: &[&str],
) -> (
    cf_testkit::Value,
    cf_testkit::Value,
    cf_testkit::Value,
    cf_testkit::Value,
) {
    let ws = workspace();
    fake_agent(&ws, program, first, last);
    ws.touch("go");
    ws.task("a").engine(engine).add();
    ws.run(["a"]).ok();
    let attempt = ws.attempts("a").remove(0);
    let total = attempt["tokens"]["total"].clone();
    (
        attempt["last_said"].clone(),
        attempt["session"].clone(),
        total,
        attempt["cost_micro_usd"].clone(),
    )
}

#[test]
fn what_an_agent_said_before_it_was_stopped_or_timed_out_is_kept() {
    let ws = workspace();
    fake_agent(&ws, "claude", CLAUDE, CLAUDE_END);
    ws.task("a").engine("claude-code").add();
    let batch = ws.start(["a"]);
    ws.wait_for_line("claude.said");
    ws.cf(["work", "stop", "a"]).ok();
    batch.wait();
    ws.run(["a", "--timeout", "4s"]).code(3);
    let attempts = ws.attempts("a");
    assert_eq!(attempts.len(), 2);
    for attempt in attempts {
        assert_eq!(attempt["last_said"], "I read the tests", "{attempt}");
        assert_eq!(attempt["session"], "s-1");
    }
}

#[test]
fn a_script_is_asked_nothing() {
    let ws = workspace();
    ws.add(
        "a",
        "echo '{\"type\":\"result\",\"session_id\":\"s\"}'; echo hello",
    );
    ws.run(["a"]).ok();
    let attempt = &ws.attempts("a")[0];
    for field in ["last_said", "session", "tokens", "cost_micro_usd"] {
        assert!(attempt[field].is_null(), "{field}");
    }
    let batch = ws.batch();
    assert!(batch["tokens"].is_null() && batch["cost_micro_usd"].is_null());
}

#[test_case("claude-code", "claude",
    r#"{"type":"result","subtype":"success","is_error":false,"result":"done","total_cost_usd":1e20,"usage":{"input_tokens":18446744073709551615,"output_tokens":9223372036854775808}}"#
    => (json!(1_u64 << 53), json!(1_u64 << 53)); "more than there is")]
#[test_case("claude-code", "claude",
    r#"{"type":"result","subtype":"success","is_error":false,"result":"done","total_cost_usd":-1,"usage":{"input_tokens":-5,"output_tokens":7}}"#
    => (json!(7), json!(null)); "less than nothing")]
#[test_case("claude-code", "claude",
    r#"{"type":"result","subtype":"success","is_error":false,"result":"done","total_cost_usd":0.25}"#
    => (json!(null), json!(250_000)); "cost alone")]
fn whatever_numbers_agents_report_their_batch_ends(
    engine: &str,
    program: &str,
    last: &str,
) -> (cf_testkit::Value, cf_testkit::Value) {
    let ws = workspace();
    fake_agent(&ws, program, &[], &[last]);
    ws.touch("go");
    ws.task("a").engine(engine).add();
    ws.run(["a"]).ok();
    let batch = ws.batch();
    (batch["tokens"].clone(), batch["cost_micro_usd"].clone())
}

#[test]
fn the_sum_of_the_largest_numbers_is_one_that_can_be_shown() {
    let ws = workspace();
    fake_agent(
        &ws,
        "claude",
        &[],
        &[
            r#"{"type":"result","subtype":"success","is_error":false,"result":"done","total_cost_usd":1e300,"usage":{"input_tokens":9007199254740992,"output_tokens":9007199254740992}}"#,
        ],
    );
    ws.touch("go");
    ws.task("a").engine("claude-code").add();
    ws.task("b").engine("claude-code").add();
    ws.run(["a", "b"]).ok();
    let batch = ws.batch();
    assert_eq!(batch["tokens"], 1_u64 << 53);
    assert_eq!(batch["cost_micro_usd"], 1_u64 << 53);
}
