//! Coding-agent programs, played by scripts: how they get their prompt and when they have succeeded.

use cf_testkit::Workspace;

use crate::workspace;

/// A program that stands for a coding agent: it keeps its prompt and prints `closing` as its last line.
fn fake_agent(ws: &Workspace, name: &str, closing: &str) {
    let out = ws.root().join("prompt.txt");
    ws.program(
        name,
        &format!(
            "#!/bin/sh\ncat > '{}'\necho \"$@\" > '{}.args'\necho '{closing}'\n",
            out.display(),
            out.display()
        ),
    );
}

#[test]
fn an_agent_program_gets_its_prompt_on_standard_input() {
    let ws = workspace();
    fake_agent(
        &ws,
        "claude",
        r#"{"type":"result","subtype":"success","is_error":false,"result":"ok","permission_denials":[]}"#,
    );
    ws.task("a")
        .description("Paint the shed; $(touch pwned) `touch pwned` \"quoted\"")
        .add();
    ws.run(["a", "--engine", "claude-code"]).ok();
    let prompt = ws.read("prompt.txt");
    assert!(
        prompt.contains("Paint the shed; $(touch pwned) `touch pwned` \"quoted\""),
        "{prompt}"
    );
    assert!(
        !ws.read("prompt.txt.args").contains("Paint the shed"),
        "nothing of it on the command line"
    );
    assert!(!ws.exists("pwned"));
    assert_eq!(ws.status("a"), "DONE");
    assert_eq!(ws.attempts("a")[0]["engine"], "claude-code");
}

#[test]
fn an_agent_program_that_ends_with_0_but_says_that_it_failed_is_failed() {
    let ws = workspace();
    fake_agent(
        &ws,
        "claude",
        r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":529,"result":"Overloaded"}"#,
    );
    ws.task("a").engine("claude-code").add();
    ws.run(["a"]).code(3);
    assert_eq!(ws.status("a"), "FAILED");
}

#[test]
fn an_agent_program_that_was_refused_a_tool_is_failed() {
    let ws = workspace();
    fake_agent(
        &ws,
        "claude",
        r#"{"type":"result","subtype":"success","is_error":false,"result":"ok","permission_denials":[{"tool_name":"Bash","tool_input":{"command":"ls"}}]}"#,
    );
    ws.task("a").engine("claude-code").add();
    ws.run(["a"]).code(3);
    assert_eq!(ws.status("a"), "FAILED");
}

#[test]
fn an_agent_program_without_a_closing_event_is_failed() {
    let ws = workspace();
    fake_agent(&ws, "codex", r#"{"type":"turn.started"}"#);
    ws.task("a").engine("codex").add();
    ws.run(["a"]).code(3);
    fake_agent(
        &ws,
        "codex",
        r#"{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}"#,
    );
    ws.run(["a"]).ok();
}
