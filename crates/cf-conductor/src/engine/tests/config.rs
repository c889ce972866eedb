use std::collections::BTreeMap;
use std::time::Duration;

use test_case::test_case;

use crate::engine::{
    Engine, EngineConfig, EngineConfigError, EngineName, Engines, Home, Leftovers, Permissions,
    PromptBy, SuccessRule,
};

fn engine(name: &str, toml: &str) -> Result<Engine, EngineConfigError> {
    let config: EngineConfig = toml::from_str(toml).unwrap();
    config.engine(&name.parse().unwrap())
}

#[test]
fn a_table_overrides_parts_of_a_preset() {
    let changed = engine(
        "claude-code",
        r#"
            permissions = "edit"
            args = ["--max-turns", "50"]
            env = { CLAUDE_CODE_MAX_RETRIES = "3" }
            pass_env = ["GH_TOKEN", "CLAUDECODE"]
            timeout = "30m"
            program = "/opt/claude"
            leftovers = "report"
            keep = ["sccache"]
        "#,
    )
    .unwrap();
    let preset = Engine::preset("claude-code").unwrap();
    assert_eq!(changed.permissions, Permissions::Edit);
    assert_eq!(changed.extra_args, ["--max-turns", "50"]);
    assert_eq!(changed.command[0], "/opt/claude");
    assert_eq!(changed.command[1..], preset.command[1..]);
    assert_eq!(changed.success, preset.success);
    assert_eq!(changed.grants, preset.grants);
    assert_eq!(changed.env["DISABLE_AUTOUPDATER"], "1");
    assert_eq!(changed.env["CLAUDE_CODE_MAX_RETRIES"], "3");
    assert_eq!(changed.env_remove, ["CLAUDE_CODE_ENTRYPOINT"]);
    assert_eq!(changed.default_timeout, Some(Duration::from_mins(30)));
    assert_eq!(changed.leftovers, Leftovers::Report);
}

#[test]
fn a_table_makes_an_engine_of_ones_own() {
    let mine = engine(
        "aider",
        r#"
            command = ["aider", "--yes", "--message-file", "{prompt_file}"]
            prompt = "file"
            success = "exit-zero"
            permissions = "read"
            model_flag = "--model"
            resume_flag = ["--restore=yes", "--chat={session}"]
            home = "attempt"
            timeout = "none"
            [grants.read]
            args = ["--dry-run"]
            env = { LOOK = "only" }
        "#,
    )
    .unwrap();
    assert_eq!(mine.prompt, PromptBy::File);
    assert_eq!(mine.success, SuccessRule::ExitZero);
    assert_eq!(mine.model_args, ["--model", "{model}"]);
    assert_eq!(mine.resume_args, ["--restore=yes", "--chat={session}"]);
    assert_eq!(mine.home, Home::Attempt);
    assert_eq!(mine.default_timeout, None);
    assert_eq!(mine.grants.read.unwrap().args, ["--dry-run"]);
}

#[test]
fn no_words_for_a_session_mean_that_none_is_continued() {
    let mine = engine("codex", "resume_flag = []").unwrap();
    assert!(mine.resume_args.is_empty());
    assert!(!Engine::preset("codex").unwrap().resume_args.is_empty());
}

#[test]
fn an_engine_can_begin_as_a_preset() {
    let reviewer = engine("reviewer", "base = \"codex\"\npermissions = \"read\"").unwrap();
    assert_eq!(reviewer.name.as_str(), "reviewer");
    assert_eq!(reviewer.program(), "codex");
    assert_eq!(reviewer.tail, ["-"]);
}

#[test]
fn the_time_limits_of_presets() {
    for engine in Engine::presets() {
        let limit = (engine.name.as_str() != "shell").then_some(Duration::from_hours(2));
        assert_eq!(engine.default_timeout, limit, "{}", engine.name);
    }
}

#[test_case("mine", "" => "engine `mine` has no command and is not built in; built in are shell, claude-code, codex, opencode, gemini"; "no command")]
#[test_case("mine", "command = []" => "engine `mine` has no command and is not built in; built in are shell, claude-code, codex, opencode, gemini"; "empty command")]
#[test_case("mine", "command = [\"\"]" => "engine `mine` has no usable program name in `command`"; "empty word")]
#[test_case("codex", "command = []" => "engine `codex` has no usable program name in `command`"; "a preset without its command")]
#[test_case("codex", "program = \"\"" => "engine `codex` has no usable program name in `program`"; "empty program")]
#[test_case("mine", "base = \"clod\"" => "engine `mine` has the base `clod`, which is not built in; built in are shell, claude-code, codex, opencode, gemini"; "unknown base")]
#[test_case("mine", "base = \"shell\"" => "engine `mine` has the base `shell`, which is not built in; built in are shell, claude-code, codex, opencode, gemini"; "shell as base")]
#[test_case("mine", "command = [\"x\"]\npermissions = \"edit\"" => "engine `mine` cannot be confined to `edit`: say how, with `grants.edit = { args = […] }`"; "permissions without words")]
#[test_case("shell", "command = [\"x\"]" => "engine `shell` runs the task's own script and has no `command`"; "shell with a command")]
#[test_case("shell", "permissions = \"read\"" => "engine `shell` runs the task's own script and has no `permissions`"; "shell confined")]
#[test_case("codex", "env = { \"A=B\" = \"\" }" => "engine `codex` sets the variable \"A=B\", which no environment can hold"; "odd variable")]
fn refuses(name: &str, toml: &str) -> String {
    engine(name, toml).unwrap_err().to_string()
}

#[test_case("colour = 1"; "unknown key")]
#[test_case("prompt = \"pipe\""; "unknown way of the prompt")]
#[test_case("permissions = \"some\""; "unknown permissions")]
#[test_case("success = \"always\""; "unknown rule")]
#[test_case("timeout = \"-5\""; "negative time limit")]
#[test_case("timeout = -5"; "negative number of seconds")]
#[test_case("timeout = 0"; "no time at all")]
#[test_case("base = \"Claude Code\""; "impossible name")]
#[test_case("grants.none.args = []"; "unknown level")]
fn cannot_be_read(toml: &str) {
    assert!(toml::from_str::<EngineConfig>(toml).is_err());
}

#[test]
fn a_time_limit_may_be_plain_seconds() {
    let engine = engine("codex", "timeout = 90").unwrap();
    assert_eq!(engine.default_timeout, Some(Duration::from_secs(90)));
}

#[test]
fn the_engines_of_a_workspace_are_the_presets_and_its_own() {
    let config: BTreeMap<EngineName, EngineConfig> =
        toml::from_str("[codex]\npermissions = \"read\"\n[mine]\ncommand = [\"mine\"]\n").unwrap();
    let engines = Engines::new(&config).unwrap();
    let names: Vec<&str> = engines.iter().map(|engine| engine.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "claude-code",
            "codex",
            "gemini",
            "mine",
            "opencode",
            "shell"
        ]
    );
    let codex = engines.get(&"codex".parse().unwrap()).unwrap();
    assert_eq!(codex.permissions, Permissions::Read);
    assert_eq!(Engines::default().iter().count(), 5);
}

#[test_case("claude-code" => true)]
#[test_case("a.b_c-1" => true)]
#[test_case("" => false; "empty")]
#[test_case("-a" => false; "an option")]
#[test_case("A" => false; "upper case")]
#[test_case("a/b" => false; "a path")]
fn names(text: &str) -> bool {
    text.parse::<EngineName>().is_ok()
}
