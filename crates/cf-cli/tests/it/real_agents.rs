//! Whole batches with the real Claude Code, Codex and opencode, each started by its own preset, against a scripted
//! model on loopback.
//!
//! Needs node and the programs of `tests/agents`; `cargo xtask test-integration --agents` installs them and runs this.

use std::path::Path;
use std::time::{Duration, Instant};

use cf_testkit::model::{ScriptedModel, Step};
use cf_testkit::{Output, Workspace};
use test_case::test_case;

use crate::empty_folder;

/// Where the programs are.
const PROGRAMS: &str = "CF_TEST_AGENTS";

/// How long anything may take. The slowest of them needs five seconds of a core of its own before it says a word.
const PATIENCE: Duration = Duration::from_mins(5);

/// How an engine is told where its model is. Its preset says everything else.
fn config(engine: &str, url: &str) -> String {
    match engine {
        "claude-code" => format!(
            "env = {{ ANTHROPIC_BASE_URL = \"{url}\", ANTHROPIC_API_KEY = \"none\", \
             CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC = \"1\", CLAUDE_CODE_MAX_RETRIES = \"1\" }}\n"
        ),
        "codex" => format!(
            "args = [\"-c\", \"model_provider=scripted\", \"-c\", \"model_providers.scripted={{name='scripted',\
             base_url='{url}/v1',env_key='SCRIPTED_KEY',wire_api='responses',request_max_retries=1,\
             stream_max_retries=1}}\", \"-c\", \"analytics.enabled=false\", \"-c\", \"features.plugins=false\", \
             \"-m\", \"scripted\"]\nenv = {{ SCRIPTED_KEY = \"none\" }}\n"
        ),
        "opencode" => format!(
            "env = {{ OPENCODE_DISABLE_MODELS_FETCH = \"1\", OPENCODE_DISABLE_LSP_DOWNLOAD = \"1\", \
             OPENCODE_DISABLE_DEFAULT_PLUGINS = \"1\", npm_config_offline = \"true\", \
             OPENCODE_CONFIG_CONTENT = '''{{\"model\":\"scripted/m\",\"small_model\":\"scripted/m\",\"share\":\"disabled\",\
             \"provider\":{{\"scripted\":{{\"npm\":\"@ai-sdk/openai-compatible\",\"name\":\"scripted\",\
             \"options\":{{\"baseURL\":\"{url}/v1\",\"apiKey\":\"none\"}},\"models\":{{\"m\":{{\"name\":\"m\",\
             \"tool_call\":true,\"limit\":{{\"context\":200000,\"output\":32000}}}}}}}}}}}}''' }}\n"
        ),
        other => panic!("{other} is not tried here"),
    }
}

/// A workspace in which `engine` is installed and reaches nothing but the model. An agent that does not give up is
/// stopped after four minutes.
fn lab(engine: &str, model: &ScriptedModel, more: &str) -> Workspace {
    let programs =
        std::env::var(PROGRAMS).expect("`cargo xtask test-integration --agents` says where");
    let ws = empty_folder().git().init();
    for program in ["claude", "codex", "opencode", "node"] {
        let path = std::env::var("PATH").unwrap_or_default();
        let found = std::iter::once(programs.as_str())
            .chain(path.split(':'))
            .map(|folder| Path::new(folder).join(program))
            .find_map(|file| file.canonicalize().ok());
        if let Some(file) = found {
            let link = ws.bin().join(program);
            std::os::unix::fs::symlink(file, link).expect("the folder is writable");
        }
    }
    ws.config(&format!(
        "engine = \"{engine}\"\ntimeout = \"4m\"\n\n[engines.{engine}]\n{more}{}",
        config(engine, &model.url())
    ));
    ws
}

/// Runs a command of `cf` to its end.
fn cf<const N: usize>(ws: &Workspace, args: [&str; N]) -> Output {
    ws.command(args).deadline(PATIENCE).run()
}

/// Waits for what an agent does.
fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test_case("claude-code"; "claude code")]
#[test_case("codex"; "codex")]
#[test_case("opencode"; "opencode")]
#[ignore = "needs the agents' programs: cargo xtask test-integration --agents"]
fn it_runs_a_command_and_is_understood(engine: &str) {
    let model = ScriptedModel::start();
    model.when(
        "Make the file",
        [
            Step::Say("I make it."),
            Step::Run("printf '%s' \"$CF_TASK_KEY\" > made.txt"),
            Step::Say("It is made."),
        ],
    );
    let ws = lab(engine, &model, "");
    ws.task("make")
        .description("Make the file; $(touch pwned)")
        .add();
    cf(&ws, ["run", "make"]).ok().says("It is made.");
    assert_eq!(ws.status("make"), "DONE");
    assert_eq!(ws.read("made.txt"), "make");
    assert!(!ws.exists("pwned"));
    let attempt = &ws.attempts("make")[0];
    assert_eq!(attempt["engine"], engine);
    assert_eq!(attempt["last_said"], "It is made.", "{attempt}");
    assert!(attempt["session"].is_string(), "{attempt}");
    assert_eq!(attempt["tokens"]["total"], 2_040, "two requests: {attempt}");
    ws.no_agent_left();
}

#[test_case("claude-code", "echo $$ > agent.pid; sleep 901 & setsid sleep 902 & sleep 903"; "claude code in a command")]
#[test_case("codex", "echo $$ > agent.pid; sleep 901 & setsid sleep 902 & sleep 903"; "codex in a command")]
#[test_case("opencode", "echo $$ > agent.pid; sleep 901 & setsid sleep 902 & sleep 903"; "opencode in a command")]
#[test_case("claude-code", ""; "claude code while the model thinks")]
#[test_case("codex", ""; "codex while the model thinks")]
#[test_case("opencode", ""; "opencode while the model thinks")]
#[ignore = "needs the agents' programs: cargo xtask test-integration --agents"]
fn it_is_stopped_in_the_middle_and_leaves_nothing(engine: &str, command: &'static str) {
    let model = ScriptedModel::start();
    let step = if command.is_empty() {
        Step::Hang
    } else {
        Step::Run(command)
    };
    model.when("Take your time", [Step::Say("I begin."), step]);
    let ws = lab(engine, &model, "");
    ws.task("slow").description("Take your time").add();
    let batch = ws.command(["run", "slow"]).deadline(PATIENCE).spawn();
    if command.is_empty() {
        until("the agent waits for the model", || model.hanging() == 1);
    } else {
        until("the command runs", || ws.exists("agent.pid"));
    }
    batch.signal(cf_testkit::Signal::INT);
    batch.wait().code(130);
    ws.no_agent_left();
    assert_eq!(ws.status("slow"), "READY");
    let attempt = &ws.attempts("slow")[0];
    assert_eq!(attempt["end"], "killed", "{attempt}");
    until("the model is left alone", || model.hanging() == 0);
}

#[test_case("claude-code"; "claude code")]
#[test_case("codex"; "codex")]
#[test_case("opencode"; "opencode")]
#[ignore = "needs the agents' programs: cargo xtask test-integration --agents"]
fn it_fails_when_its_model_does(engine: &str) {
    let model = ScriptedModel::start();
    model.when("Make the file", [Step::Fail(400)]);
    let ws = lab(engine, &model, "");
    ws.task("make").description("Make the file").add();
    cf(&ws, ["run", "make"]).code(3).says("scripted failure");
    assert_eq!(ws.status("make"), "FAILED");
    ws.no_agent_left();
}

/// A model whose agent asks which colour the page gets, and paints it teal.
fn painter() -> ScriptedModel {
    let model = ScriptedModel::start();
    model.when(
        "Paint the page",
        [
            Step::Run("cf blocker ask 'Which colour?'"),
            Step::Say("I wait for the answer."),
        ],
    );
    model.when(
        "teal",
        [
            Step::Run("echo teal > colour.txt"),
            Step::Say("It is teal."),
        ],
    );
    model
}

/// A workspace in which a painter has asked.
fn asked(engine: &str, model: &ScriptedModel, more: &str) -> Workspace {
    let ws = lab(engine, model, more);
    ws.task("paint").description("Paint the page").add();
    cf(&ws, ["run", "paint"]).code(4).says("Which colour?");
    assert_eq!(ws.status("paint"), "BLOCKED");
    assert_eq!(ws.blockers("paint")[0]["asked_by"], "agent");
    ws
}

#[test_case("claude-code", ""; "claude code")]
#[test_case("codex", ""; "codex")]
#[test_case("opencode", ""; "opencode")]
#[test_case("claude-code", "home = \"attempt\"\n"; "claude code in a home of its own")]
#[test_case("codex", "home = \"attempt\"\n"; "codex in a home of its own")]
#[test_case("opencode", "home = \"attempt\"\n"; "opencode in a home of its own")]
#[ignore = "needs the agents' programs: cargo xtask test-integration --agents"]
fn it_asks_and_goes_on_with_the_answer(engine: &str, home: &str) {
    let model = painter();
    let ws = asked(engine, &model, home);
    ws.cf(["blocker", "answer", "teal"]).ok();
    cf(&ws, ["resume"]).ok().says("in its earlier session");
    assert_eq!(ws.status("paint"), "DONE");
    assert_eq!(ws.read("colour.txt").trim(), "teal");
    let attempts = ws.attempts("paint");
    assert_eq!(attempts.len(), 2);
    assert!(attempts[0]["session"].is_string());
    assert_eq!(attempts[1]["resumes"], attempts[0]["session"]);
    assert_eq!(attempts[1]["session"], attempts[0]["session"]);
    assert_eq!(attempts[1]["last_said"], "It is teal.");
    for attempt in &attempts {
        assert_eq!(attempt["tokens"]["total"], 2_040, "two requests: {attempt}");
    }
    let prompts = model.prompts();
    let last = prompts.last().expect("it was asked");
    assert!(
        last.contains("You go on") && !last.contains("Paint the page"),
        "{last}"
    );
    if !home.is_empty() {
        let kept = std::fs::read_dir(ws.home()).expect("it is there").count();
        assert_eq!(kept, 0, "nothing is put into the user's home");
    }
    ws.no_agent_left();
}

#[test_case("claude-code"; "claude code")]
#[test_case("codex"; "codex")]
#[test_case("opencode"; "opencode")]
#[ignore = "needs the agents' programs: cargo xtask test-integration --agents"]
fn it_starts_afresh_when_its_session_is_gone(engine: &str) {
    let model = painter();
    let ws = asked(engine, &model, "");
    std::fs::remove_dir_all(ws.home()).expect("it can be removed");
    std::fs::create_dir(ws.home()).expect("it can be made");
    ws.cf(["blocker", "answer", "teal"]).ok();
    cf(&ws, ["resume"]).ok();
    assert_eq!(ws.status("paint"), "DONE");
    let attempts = ws.attempts("paint");
    assert_eq!(attempts.len(), 3, "{attempts:?}");
    assert_eq!(attempts[1]["resumes"], attempts[0]["session"]);
    assert!(attempts[1]["session"].is_null() && attempts[2]["resumes"].is_null());
    assert_eq!(ws.row("paint")["attempts"], 2, "one of them did nothing");
    let prompts = model.prompts();
    let last = prompts.last().expect("it was asked");
    assert!(
        last.contains("Paint the page") && last.contains("> teal"),
        "{last}"
    );
}
