//! Help, version and usage errors.

use test_case::test_case;

use crate::empty_folder;

const COMMANDS: &[&[&str]] = &[
    &[],
    &["init"],
    &["status"],
    &["tasks"],
    &["tasks", "add"],
    &["tasks", "list"],
    &["tasks", "show"],
    &["tasks", "set", "status"],
    &["tasks", "edit"],
    &["tasks", "delete"],
    &["tasks", "depend"],
    &["tasks", "link"],
    &["tasks", "unlink"],
    &["tasks", "import"],
    &["tasks", "export"],
    &["tasks", "graph"],
    &["blocker"],
    &["blocker", "ask"],
    &["blocker", "list"],
    &["blocker", "show"],
    &["blocker", "resolve"],
    &["blocker", "answer"],
    &["work"],
    &["work", "start"],
    &["work", "stop"],
    &["work", "logs"],
    &["work", "batch"],
    &["work", "batch", "run"],
    &["work", "batch", "status"],
    &["work", "batch", "list"],
    &["work", "batch", "stop"],
    &["work", "batch", "resume"],
    &["work", "batch", "follow"],
    &["work", "batch", "report"],
    &["reconcile"],
    &["explain"],
    &["import"],
    &["import", "codeframe"],
    &["events"],
    &["config"],
    &["config", "show"],
    &["config", "check"],
    &["doctor"],
    &["completions"],
    &["man"],
    &["run"],
    &["stop"],
    &["resume"],
    &["follow"],
    &["logs"],
];

#[test]
fn every_command_explains_itself() {
    let ws = empty_folder();
    for command in COMMANDS {
        let mut args = command.to_vec();
        args.push("--help");
        let output = ws.cf(&args).ok();
        assert!(
            output.stdout().to_lowercase().contains("usage"),
            "{command:?}: {}",
            output.stdout()
        );
        assert!(
            output.stderr().is_empty(),
            "{command:?}: {}",
            output.stderr()
        );
    }
}

#[test]
fn the_help_of_run_names_every_setting() {
    let ws = empty_folder();
    let help = ws.cf(["work", "batch", "run", "--help"]).ok().stdout();
    for flag in [
        "--all-ready",
        "--file",
        "--strategy",
        "--max-parallel",
        "--on-failure",
        "--retry",
        "--retry-delay",
        "--timeout",
        "--stall-timeout",
        "--kill-grace",
        "--engine",
        "--isolation",
        "--reconcile-interval",
        "--wait-for-blockers",
        "--force",
        "--dry-run",
        "--json",
    ] {
        assert!(help.contains(flag), "{flag} in\n{help}");
    }
    assert!(help.contains("30s"), "the default interval is said");
}

#[test]
fn the_version_is_told() {
    let ws = empty_folder();
    ws.cf(["--version"]).ok().says("cf ");
}

#[test_case(&["tsks", "list"], "tasks"; "a mistyped command")]
#[test_case(&["tasks", "lst"], "list"; "a mistyped subcommand")]
#[test_case(&["work", "batch", "run", "--max-paralel", "2"], "--max-parallel"; "a mistyped flag")]
fn a_typing_error_is_a_usage_error_with_a_suggestion(args: &[&str], suggestion: &str) {
    let ws = empty_folder();
    ws.cf(args).code(2).says(suggestion);
}

#[test_case(&["tasks", "add"]; "no title")]
#[test_case(&["tasks", "set", "status", "a"]; "no status")]
#[test_case(&["work", "start"]; "no task")]
#[test_case(&["explain"]; "nothing to explain")]
#[test_case(&["completions"]; "no shell")]
fn a_missing_argument_is_a_usage_error(args: &[&str]) {
    let ws = empty_folder().init();
    ws.cf(args).code(2);
}
