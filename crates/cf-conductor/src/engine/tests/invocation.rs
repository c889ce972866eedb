use std::path::Path;

use test_case::test_case;

use crate::engine::{
    Engine, EngineConfig, InvocationError, NoProgram, Permissions, PromptBy, Start, StdinFrom,
    agents_on_path, find_program, program_started_in, script_invocation,
};

fn start<'a>() -> Start<'a> {
    Start {
        script: None,
        model: None,
        resume: None,
        prompt: "do it",
        prompt_file: Path::new("/w/.cf/attempts/1.md"),
        script_file: Path::new("/w/.cf/attempts/1/script"),
        state: Path::new("/w/.cf"),
    }
}

fn words(engine: &Engine, start: &Start<'_>) -> String {
    let invocation = engine.invocation(start).unwrap();
    let words: Vec<String> = invocation
        .argv
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .map(|word| {
            if word.is_empty() {
                "''".to_owned()
            } else {
                word
            }
        })
        .collect();
    words.join(" ")
}

#[test_case("claude-code", Permissions::All => "claude -p --output-format stream-json --verbose --dangerously-skip-permissions --model m1 --resume s1")]
#[test_case("claude-code", Permissions::Edit => "claude -p --output-format stream-json --verbose --permission-mode acceptEdits --allowedTools=Bash(cf:*) --model m1 --resume s1")]
#[test_case("claude-code", Permissions::Read => "claude -p --output-format stream-json --verbose --permission-mode dontAsk --allowedTools=Bash(cf:*),Read,Glob,Grep --disallowedTools=Edit,Write,NotebookEdit --model m1 --resume s1")]
#[test_case("codex", Permissions::All => "codex exec --json --skip-git-repo-check -c check_for_update_on_startup=false -c allow_login_shell=false --dangerously-bypass-approvals-and-sandbox --model m1 resume s1 -")]
#[test_case("codex", Permissions::Edit => "codex exec --json --skip-git-repo-check -c check_for_update_on_startup=false -c allow_login_shell=false --sandbox workspace-write --add-dir /w/.cf --model m1 resume s1 -")]
#[test_case("codex", Permissions::Read => "codex exec --json --skip-git-repo-check -c check_for_update_on_startup=false -c allow_login_shell=false --sandbox read-only --model m1 resume s1 -")]
#[test_case("opencode", Permissions::All => "opencode run --format json --model m1 --session s1")]
#[test_case("opencode", Permissions::Edit => "opencode run --format json --model m1 --session s1"; "opencode edit")]
#[test_case("opencode", Permissions::Read => "opencode run --format json --model m1 --session s1"; "opencode read")]
#[test_case("gemini", Permissions::All => "gemini -o stream-json --skip-trust --approval-mode yolo --model m1 --resume s1 -p ''")]
#[test_case("gemini", Permissions::Edit => "gemini -o stream-json --skip-trust --approval-mode auto_edit --allowed-tools=run_shell_command(cf) --model m1 --resume s1 -p ''")]
#[test_case("gemini", Permissions::Read => "gemini -o stream-json --skip-trust --approval-mode plan --allowed-tools=run_shell_command(cf) --model m1 --resume s1 -p ''")]
fn the_command_lines_of_the_presets(name: &str, permissions: Permissions) -> String {
    let engine = Engine::preset(name).unwrap().with_permissions(permissions);
    let start = Start {
        model: Some("m1"),
        resume: Some("s1"),
        ..start()
    };
    let invocation = engine.invocation(&start).unwrap();
    assert_eq!(invocation.stdin, StdinFrom::PromptFile);
    assert_eq!(invocation.file, None);
    words(&engine, &start)
}

#[test]
fn permissions_that_are_variables_differ() {
    let of = |permissions| {
        let engine = Engine::preset("opencode").unwrap();
        let engine = engine.with_permissions(permissions);
        engine.invocation(&start()).unwrap().env["OPENCODE_PERMISSION"].clone()
    };
    let all = [Permissions::All, Permissions::Edit, Permissions::Read].map(of);
    assert!(all[0] != all[1] && all[1] != all[2] && all[0] != all[2]);
    for words in all {
        assert!(serde_json::from_str::<serde_json::Value>(&words).is_ok());
    }
}

#[test]
fn claude_code_may_do_anything_as_root() {
    let engine = Engine::preset("claude-code").unwrap();
    let env = engine.invocation(&start()).unwrap().env;
    assert_eq!(env["IS_SANDBOX"], "1");
}

#[test]
fn only_a_codex_that_may_read_cannot_reach_cf() {
    for engine in Engine::presets() {
        for permissions in [Permissions::All, Permissions::Edit, Permissions::Read] {
            let engine = engine.clone().with_permissions(permissions);
            let confined = engine.name.as_str() == "codex" && permissions == Permissions::Read;
            assert_eq!(
                engine.reaches_cf(),
                !confined,
                "{} {permissions}",
                engine.name
            );
        }
    }
}

fn script(text: &str) -> (Vec<String>, bool) {
    let invocation = script_invocation(text, Path::new("/a/script")).unwrap();
    let words = invocation.argv.iter();
    if let Some(file) = &invocation.file {
        assert_eq!(file.body, text);
        assert_eq!(file.path, Path::new("/a/script"));
    }
    assert_eq!(invocation.stdin, StdinFrom::Null);
    (
        words.map(|w| w.to_string_lossy().into_owned()).collect(),
        invocation.file.is_some(),
    )
}

#[test_case("make test" => (vec!["/bin/sh".to_owned(), "-c".to_owned(), "make test".to_owned()], false); "a script goes on the command line")]
#[test_case("-x" => (vec!["/bin/sh".to_owned(), "-c".to_owned(), " -x".to_owned()], false); "a script that looks like an option")]
#[test_case("#!/usr/bin/python3\nprint(1)\n" => (vec!["/usr/bin/python3".to_owned(), "/a/script".to_owned()], true); "an interpreter")]
#[test_case("#! /usr/bin/env -S node --no-warnings \r\n1" => (vec!["/usr/bin/env".to_owned(), "-S node --no-warnings".to_owned(), "/a/script".to_owned()], true); "everything behind the interpreter is one argument")]
#[test_case(" #!/bin/x" => (vec!["/bin/sh".to_owned(), "-c".to_owned(), " #!/bin/x".to_owned()], false); "only at the very beginning")]
#[test_case("" => (vec!["/bin/sh".to_owned(), "-c".to_owned(), String::new()], false); "an empty script")]
fn runs(text: &str) -> (Vec<String>, bool) {
    script(text)
}

#[test]
fn a_long_script_goes_to_a_file() {
    let (words, file) = script(&"true\n".repeat(30_000));
    assert_eq!(words, ["/bin/sh", "/a/script"]);
    assert!(file);
}

#[test_case("#!\necho" => InvocationError::NoInterpreter; "no interpreter")]
#[test_case("#!   \necho" => InvocationError::NoInterpreter; "blank interpreter")]
#[test_case("echo \0" => InvocationError::Nul { what: "script" }; "a NUL byte")]
fn refuses(text: &str) -> InvocationError {
    script_invocation(text, Path::new("/a/script")).unwrap_err()
}

#[test]
fn a_script_and_an_agent_do_not_mix() {
    let shell = Engine::preset("shell").unwrap();
    let claude = Engine::preset("claude-code").unwrap();
    assert_eq!(
        shell.invocation(&start()).unwrap_err(),
        InvocationError::NoScript
    );
    let with_script = Start {
        script: Some("ls"),
        ..start()
    };
    assert!(shell.invocation(&with_script).is_ok());
    assert!(matches!(
        claude.invocation(&with_script).unwrap_err(),
        InvocationError::ScriptForAgent { .. }
    ));
}

#[test_case(""; "empty")]
#[test_case("--dangerous"; "an option")]
#[test_case("a b"; "two words")]
#[test_case("a\nb"; "two lines")]
fn an_odd_model_is_refused(model: &str) {
    let engine = Engine::preset("codex").unwrap();
    let start = Start {
        model: Some(model),
        ..start()
    };
    assert!(matches!(
        engine.invocation(&start),
        Err(InvocationError::Model { .. })
    ));
}

fn custom(command: &[&str], prompt: PromptBy) -> Engine {
    let config = EngineConfig {
        command: Some(command.iter().map(|&word| word.to_owned()).collect()),
        prompt: Some(prompt),
        ..EngineConfig::default()
    };
    config.engine(&"mine".parse().unwrap()).unwrap()
}

#[test_case(&["a", "b"], PromptBy::Stdin => "a b"; "on standard input")]
#[test_case(&["a", "--file={prompt_file}", "b"], PromptBy::File => "a --file=/w/.cf/attempts/1.md b"; "a file in its place")]
#[test_case(&["a", "b"], PromptBy::File => "a b /w/.cf/attempts/1.md"; "a file at the end")]
#[test_case(&["a", "-m", "{prompt}"], PromptBy::Argument => "a -m do it"; "the text in its place")]
#[test_case(&["a"], PromptBy::Argument => "a do it"; "the text at the end")]
fn gives_the_prompt(command: &[&str], prompt: PromptBy) -> String {
    words(&custom(command, prompt), &start())
}

#[test]
fn a_prompt_that_no_argument_can_hold_is_refused() {
    let engine = custom(&["a"], PromptBy::Argument);
    let long = "x".repeat(1 << 20);
    let refused = |prompt| engine.invocation(&Start { prompt, ..start() }).unwrap_err();
    assert!(matches!(
        refused(&long),
        InvocationError::PromptTooLong {
            bytes: 1_048_576,
            ..
        }
    ));
    assert_eq!(refused("a\0b"), InvocationError::Nul { what: "prompt" });
    let by_stdin = custom(&["a"], PromptBy::Stdin);
    assert!(
        by_stdin
            .invocation(&Start {
                prompt: &long,
                ..start()
            })
            .is_ok()
    );
}

#[test]
fn what_an_engine_cannot_be_told_is_refused() {
    let engine = custom(&["a"], PromptBy::Stdin);
    let model = Start {
        model: Some("m"),
        ..start()
    };
    let resume = Start {
        resume: Some("s"),
        ..start()
    };
    assert!(matches!(
        engine.invocation(&model),
        Err(InvocationError::NoModelFlag { .. })
    ));
    assert!(matches!(
        engine.invocation(&resume),
        Err(InvocationError::NoResume { .. })
    ));
    let edit = engine.with_permissions(Permissions::Edit);
    assert!(matches!(
        edit.invocation(&start()),
        Err(InvocationError::NoGrant { .. })
    ));
}

#[cfg(unix)]
#[test]
fn programs_are_found_as_a_shell_finds_them() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("1"), folder.path().join("2"));
    for (place, name, mode) in [
        (&first, "codex", 0o644),
        (&second, "codex", 0o755),
        (&second, "claude", 0o755),
    ] {
        std::fs::create_dir_all(place).unwrap();
        let file = place.join(name);
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    std::fs::create_dir(first.join("claude")).unwrap();
    let path = std::env::join_paths([Path::new("relative"), &first, &second]).unwrap();
    assert_eq!(find_program("codex", &path), Some(second.join("codex")));
    assert_eq!(find_program("claude", &path), Some(second.join("claude")));
    assert_eq!(find_program("gemini", &path), None);
    assert_eq!(find_program("", &path), None);
    let absolute = second.join("codex");
    assert_eq!(
        find_program(absolute.to_str().unwrap(), "".as_ref()),
        Some(absolute)
    );
    assert_eq!(find_program("2/codex", &path), None);
    let started = |name| program_started_in(folder.path(), name, &path);
    assert_eq!(started("codex"), Ok(second.join("codex")));
    assert_eq!(started("gemini"), Err(NoProgram::NotOnPath));
    assert_eq!(started("./2/codex"), Ok(second.join("codex")));
    assert_eq!(started("2/gemini"), Err(NoProgram::NotThere));
    let no_program = Err(NoProgram::NotExecutable(first.join("codex")));
    assert_eq!(started("1/codex"), no_program);
    let found: Vec<String> = agents_on_path(&path)
        .into_iter()
        .map(|(name, _)| name.to_string())
        .collect();
    assert_eq!(found, ["claude-code", "codex"]);
}
