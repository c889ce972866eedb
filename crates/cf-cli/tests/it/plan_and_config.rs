//! Plan files, settings and their layers, and which `.cf` is trusted.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use test_case::test_case;

use crate::{empty_folder, workspace};

const PLAN: &str = "\
[batch]
max_parallel = 2
retry = 1
retry_delay = '10ms'
reconcile_interval = '5s'
on_failure = 'stop'

[[task]]
key = 'base'
title = 'The base'
description = '''
Several lines
of it.
'''
run = 'echo base >> order'
verify = 'true'
priority = 2
timeout = '40s'
env = { COLOUR = 'green' }

[[task]]
key = 'top'
title = 'The top'
run = 'echo top >> order'
depends_on = ['base']
";

#[test]
fn a_plan_is_imported_with_every_field() {
    let ws = workspace();
    ws.cf(["tasks", "import", ws.plan(PLAN)]).ok();
    let base = ws.show("base");
    assert_eq!(base["title"], "The base");
    assert_eq!(
        base["description"].as_str().map(str::trim),
        Some("Several lines\nof it.")
    );
    assert_eq!(base["run"], "echo base >> order");
    assert_eq!(base["verify"], "true");
    assert_eq!(base["priority"], 2);
    assert_eq!(base["timeout_ms"], 40_000);
    assert_eq!(base["env"]["COLOUR"], "green");
    assert_eq!(base["status"], "READY");
    assert_eq!(ws.show("top")["depends_on"][0], ws.id("base").as_str());
    assert_eq!(ws.show("top")["priority"], 0);
}

#[test]
fn importing_again_updates_by_key_and_leaves_statuses_alone() {
    let ws = workspace();
    ws.cf(["tasks", "import", ws.plan(PLAN)]).ok();
    let id = ws.id("base");
    ws.set("base", "DONE");
    ws.set("top", "BACKLOG");
    ws.cf([
        "tasks",
        "import",
        ws.plan(&PLAN.replace("The base", "A better base")),
    ])
    .ok();
    assert_eq!(ws.show("base")["title"], "A better base");
    assert_eq!(ws.show("base")["id"], id.as_str());
    assert_eq!(
        (ws.status("base"), ws.status("top")),
        ("DONE".into(), "BACKLOG".into())
    );
    assert_eq!(
        ws.cf(["tasks", "list", "--json"])
            .json()
            .as_array()
            .map(Vec::len),
        Some(2)
    );
}

#[test]
fn importing_the_same_plan_twice_changes_nothing() {
    let ws = workspace();
    ws.cf(["tasks", "import", ws.plan(PLAN)]).ok();
    let before = (ws.events().len(), ws.show("base"), ws.show("top"));
    ws.cf(["tasks", "import", ws.plan(PLAN)]).ok();
    assert_eq!(before, (ws.events().len(), ws.show("base"), ws.show("top")));
}

#[test]
fn a_plan_is_run_with_its_own_settings() {
    let ws = empty_folder();
    ws.run(["--file", ws.plan(PLAN)])
        .ok()
        .says("Reconcile interval: 5s");
    assert!(
        ws.exists(".cf/state.db"),
        "the workspace is made beside the plan"
    );
    assert_eq!(ws.read("order"), "base\ntop\n");
    let batch = ws.batch();
    assert_eq!(batch["max_parallel"], 2);
    assert_eq!(batch["strategy"], "parallel");
    assert_eq!(batch["retry"], 1);
    assert_eq!(batch["retry_delay_ms"], 10);
    assert_eq!(batch["reconcile_interval_ms"], 5_000);
    assert_eq!(batch["on_failure"], "stop");
}

#[test]
fn a_flag_goes_before_the_plan() {
    let ws = empty_folder();
    ws.run([
        "--file",
        ws.plan(PLAN),
        "--retry",
        "0",
        "--reconcile-interval",
        "6s",
    ])
    .ok();
    assert_eq!(ws.batch()["retry"], 0);
    assert_eq!(ws.batch()["reconcile_interval_ms"], 6_000);
}

#[test]
fn a_plan_goes_before_the_environment_and_that_before_the_files() {
    let ws = workspace();
    ws.config("retry = 7\nkill_grace = '7s'\nreconcile_interval = '7s'\n");
    fs::create_dir_all(ws.home().join(".config/cf")).expect("the home is ours");
    fs::write(
        ws.home().join(".config/cf/config.toml"),
        "retry = 8\nkill_grace = '8s'\nretry_delay = '8s'\n",
    )
    .expect("the home is ours");
    let plan = ws.plan("[batch]\nretry = 1\n[[task]]\nkey = 'a'\ntitle = 't'\nrun = 'true'\n");
    ws.command(["work", "batch", "run", "--file", plan])
        .env("CF_RETRY", "2")
        .env("CF_RECONCILE_INTERVAL", "2s")
        .run()
        .ok();
    let batch = ws.batch();
    assert_eq!(batch["retry"], 1, "the plan");
    assert_eq!(batch["reconcile_interval_ms"], 2_000, "the environment");
    assert_eq!(batch["kill_grace_ms"], 7_000, "the workspace's file");
    assert_eq!(batch["retry_delay_ms"], 8_000, "the user's file");
}

#[test]
fn the_tasks_own_timeout_goes_before_the_flag() {
    let ws = workspace();
    let plan = ws.plan("[[task]]\nkey = 'a'\ntitle = 't'\nrun = 'sleep 60'\ntimeout = '300ms'\n");
    ws.run(["--file", plan, "--timeout", "50s", "--kill-grace", "1s"])
        .code(3);
    ws.ended("a", "FAILED", "");
    ws.no_agent_left();
}

#[test]
fn a_script_is_run_by_the_shell_whatever_the_engine_says() {
    let ws = workspace();
    ws.add("a", "touch ran");
    ws.run(["a", "--engine", "codex"]).ok();
    assert!(ws.exists("ran"));
    assert_eq!(ws.attempts("a")[0]["engine"], "shell");
}

#[test]
fn a_script_together_with_another_engine_is_refused() {
    let ws = workspace();
    ws.cf([
        "tasks", "add", "t", "--key", "a", "--run", "true", "--engine", "codex",
    ])
    .refused();
    let plan = ws.plan("[[task]]\nkey = 'a'\ntitle = 't'\nrun = 'true'\nengine = 'codex'\n");
    ws.cf(["tasks", "import", plan]).refused();
    assert_eq!(
        ws.cf(["tasks", "list", "--json"]).json(),
        cf_testkit::json!([])
    );
}

#[test]
fn config_show_says_where_each_setting_comes_from() {
    let ws = workspace();
    ws.config("kill_grace = '7s'\n");
    let shown = ws
        .command(["config", "show"])
        .env("CF_RETRY", "2")
        .run()
        .ok()
        .stdout();
    let line = |name: &str| {
        shown
            .lines()
            .find(|line| line.contains(name))
            .unwrap_or_else(|| panic!("{name} in\n{shown}"))
            .to_owned()
    };
    assert!(line("kill_grace").contains("config.toml"), "{shown}");
    assert!(
        line("retry").contains("CF_RETRY") || shown.contains("CF_RETRY"),
        "{shown}"
    );
    assert!(line("reconcile_interval").contains("default"), "{shown}");
}

#[test]
fn config_check_finds_what_is_wrong() {
    let ws = workspace();
    ws.cf(["config", "check"]).ok();
    ws.config("kill_grase = '7s'\n");
    ws.cf(["config", "check"])
        .refused()
        .says("kill_grase")
        .says("kill_grace");
}

#[test_case("kill_grase = '7s'\n", "kill_grace"; "a mistyped setting")]
#[test_case("reconcile_intervals = '7s'\n", "reconcile_interval"; "another mistyped setting")]
fn an_unknown_setting_is_an_error_with_a_suggestion(config: &str, suggestion: &str) {
    let ws = workspace();
    ws.add("a", "touch ran");
    ws.config(config);
    ws.run(["a"]).refused().says("config.toml").says(suggestion);
    assert!(!ws.exists("ran"));
    ws.config("");
    assert_eq!(ws.status("a"), "READY");
}

#[test_case("[[task]]\nkey = 'a'\ntitel = 't'\nrun = 'true'\n", "title"; "in a task")]
#[test_case("[batch]\nmax_paralel = 2\n[[task]]\nkey = 'a'\ntitle = 't'\nrun = 'true'\n", "max_parallel"; "in the batch")]
#[test_case("[[tasks]]\nkey = 'a'\ntitle = 't'\nrun = 'true'\n", "task"; "a whole table")]
fn an_unknown_key_in_a_plan_is_an_error_with_a_suggestion(plan: &str, suggestion: &str) {
    let ws = workspace();
    ws.run(["--file", ws.plan(plan)])
        .refused()
        .says("plan.toml")
        .says(suggestion);
    assert_eq!(
        ws.cf(["tasks", "list", "--json"]).json(),
        cf_testkit::json!([])
    );
}

#[test_case("kill_grace = 'soon'\n", 1; "no duration")]
#[test_case("# a comment\nretry = 'often'\n", 2; "a wrong type")]
#[test_case("# one\n# two\nreconcile_interval = '-5s'\n", 3; "negative")]
fn a_bad_setting_names_file_and_line(config: &str, line: u32) {
    let ws = workspace();
    ws.add("a", "touch ran");
    ws.config(config);
    let output = ws.run(["a"]).refused().says("config.toml");
    assert!(
        output.stderr().contains(&line.to_string()),
        "line {line} in {}",
        output.stderr()
    );
    assert!(!ws.exists("ran"));
}

#[test]
fn a_config_that_is_not_toml_or_not_text_is_refused() {
    let ws = workspace();
    ws.add("a", "touch ran");
    for config in [
        &b"this is not toml"[..],
        &b"retry = \xff\xfe\n"[..],
        &b"[unclosed\n"[..],
    ] {
        ws.write(".cf/config.toml", config);
        ws.run(["a"]).refused().says("config.toml");
    }
    assert!(!ws.exists("ran"));
}

#[test]
fn a_workspace_that_others_can_write_is_refused() {
    let ws = workspace();
    ws.add("a", "touch ran");
    let folder = ws.root().join(".cf");
    for mode in [0o777, 0o757] {
        fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).expect("the folder is ours");
        ws.run(["a"]).refused().says(".cf");
    }
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("the folder is ours");
    ws.run(["a"]).ok();
}

#[test]
fn settings_that_others_can_write_are_refused() {
    let ws = workspace();
    ws.add("a", "touch ran");
    ws.config("retry = 0\n");
    let file = ws.root().join(".cf/config.toml");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).expect("the file is ours");
    ws.run(["a"]).refused();
    assert!(!ws.exists("ran"));
}

#[test]
fn a_workspace_of_somebody_else_is_refused() {
    let ws = workspace();
    ws.add("a", "touch ran");
    // Only root can give a folder away; for anybody else there is nothing to try.
    if std::os::unix::fs::chown(ws.root().join(".cf"), Some(12_345), None).is_err() {
        return;
    }
    ws.run(["a"]).refused().says(".cf");
    assert!(!ws.exists("ran"));
    std::os::unix::fs::chown(ws.root().join(".cf"), Some(0), None).expect("root may take it back");
}

#[test]
fn a_workspace_that_git_tracks_is_refused() {
    let ws = empty_folder().git().init();
    ws.add("a", "touch ran");
    ws.git_do(["add", "-f", ".cf/.gitignore"]);
    ws.run(["a"]).refused().says("git");
    assert!(!ws.exists("ran"));
    ws.git_do(["rm", "-q", "--cached", "-f", ".cf/.gitignore"]);
    ws.run(["a"]).ok();
}

#[test]
fn a_workspace_that_is_a_link_to_elsewhere_does_not_run_strangers_commands() {
    let ws = workspace();
    ws.add("a", "touch ran");
    let elsewhere = ws.root().join("elsewhere");
    fs::rename(ws.root().join(".cf"), &elsewhere).expect("the folder is ours");
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o777)).expect("the folder is ours");
    std::os::unix::fs::symlink(&elsewhere, ws.root().join(".cf")).expect("the folder is ours");
    ws.run(["a"]).refused();
    assert!(!ws.exists("ran"));
}

#[test]
fn without_script_and_engine_a_task_is_refused_with_what_there_is() {
    let ws = workspace();
    ws.task("a").description("words only").add();
    ws.program("claude", "#!/bin/sh\nexit 0\n");
    ws.run(["a"]).refused().says("claude");
    assert_eq!(ws.status("a"), "READY");
    assert!(ws.attempts("a").is_empty());
}

#[test]
fn the_engine_of_the_settings_is_used_last() {
    let ws = workspace();
    ws.program(
        "codex",
        "#!/bin/sh\ncat > /dev/null\necho '{\"type\":\"turn.completed\",\"usage\":{}}'\n",
    );
    ws.config("engine = 'codex'\n");
    ws.task("a").description("words only").add();
    ws.run(["a"]).ok();
    assert_eq!(ws.attempts("a")[0]["engine"], "codex");
}
