//! Coding-agent programs, played by scripts: where they are found, how they get their prompt and when they have
//! succeeded.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

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

/// Writes an executable file below the root of a workspace.
fn executable(ws: &Workspace, name: &str, script: &str) {
    ws.write(name, script);
    std::fs::set_permissions(ws.root().join(name), Permissions::from_mode(0o755))
        .expect("the file is ours");
}

#[test]
fn a_relative_program_is_looked_for_where_it_is_started_wherever_the_caller_stands() {
    let ws = workspace();
    ws.config("engine = 'mine'\n[engines.mine]\ncommand = ['./agent.sh']\n");
    executable(&ws, "agent.sh", "#!/bin/sh\necho root >> ran\n");
    executable(&ws, "sub/other.sh", "#!/bin/sh\necho sub >> ran\n");
    ws.task("a").add();
    ws.task("b").add();
    let sub = ws.root().join("sub");
    ws.command(["run", "a"]).dir(&sub).run().ok();
    ws.command(["-C", "sub", "run", "b"]).run().ok();
    assert_eq!(ws.read("ran"), "root\nroot\n");

    // What lies beside the caller, and not where agents start, does not count.
    ws.config("engine = 'mine'\n[engines.mine]\ncommand = ['./other.sh']\n");
    ws.task("c").add();
    ws.command(["run", "c"])
        .dir(&sub)
        .run()
        .code(1)
        .says("needs the program \"./other.sh\", which is not there: agents start in")
        .never_says("not on the PATH");
    ws.write("other.sh", "");
    ws.run(["c"])
        .code(1)
        .says("is not an executable file")
        .says("chmod +x");
    assert_eq!(ws.status("c"), "READY");
    assert!(ws.attempts("c").is_empty());
    let absolute = ws.root().join("nowhere/agent");
    ws.config(&format!(
        "engine = 'mine'\n[engines.mine]\ncommand = ['{}']\n",
        absolute.display()
    ));
    ws.run(["c"])
        .code(1)
        .says("which is not there")
        .never_says("not on the PATH");
}
