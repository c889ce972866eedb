//! What people read, as files: a reviewer sees a change of it in the diff. `SNAPSHOTS=overwrite` writes them anew.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use snapbox::{Data, assert_data_eq};

/// Every command that has help of its own.
const COMMANDS: &[&str] = &[
    "",
    "init",
    "status",
    "tasks",
    "tasks add",
    "tasks list",
    "tasks show",
    "tasks set",
    "tasks set status",
    "tasks edit",
    "tasks delete",
    "tasks depend",
    "tasks link",
    "tasks unlink",
    "tasks import",
    "tasks export",
    "tasks graph",
    "blocker",
    "blocker ask",
    "blocker list",
    "blocker show",
    "blocker resolve",
    "blocker answer",
    "work",
    "work start",
    "work stop",
    "work logs",
    "work merge",
    "work batch",
    "work batch run",
    "work batch status",
    "work batch list",
    "work batch stop",
    "work batch resume",
    "work batch follow",
    "work batch report",
    "reconcile",
    "explain",
    "events",
    "events prune",
    "import",
    "import codeframe",
    "github",
    "github import",
    "github status",
    "pr",
    "pr link",
    "config",
    "config show",
    "config check",
    "doctor",
    "completions",
    "man",
    "run",
    "stop",
    "resume",
    "follow",
    "logs",
];

fn cf(directory: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cf"))
        .args(words)
        .current_dir(directory)
        .env_clear()
        .env("HOME", directory)
        .env("COLUMNS", "100")
        .output()
        .expect("cf can be started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("what cf prints is UTF-8")
}

fn golden(name: &str) -> Data {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    Data::read_from(&path, None)
}

#[test]
fn the_help_of_every_command_is_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    for command in COMMANDS {
        let mut words: Vec<&str> = command.split_whitespace().collect();
        words.push("--help");
        let output = cf(dir.path(), &words);
        assert!(output.status.success(), "{command}");
        let name = if command.is_empty() {
            "cf".to_owned()
        } else {
            command.replace(' ', "-")
        };
        assert_data_eq!(
            text(&output.stdout),
            golden(&format!("help/{name}.txt")).raw()
        );
    }
}

#[test]
fn no_command_is_missing_here() {
    let dir = tempfile::tempdir().unwrap();
    for command in COMMANDS {
        let mut words: Vec<&str> = command.split_whitespace().collect();
        words.push("--help");
        let help = text(&cf(dir.path(), &words).stdout);
        let Some(list) = help.split("Commands:\n").nth(1) else {
            continue;
        };
        for line in list.lines().take_while(|line| !line.is_empty()) {
            // Descriptions that wrap are further in than the names.
            let Some(name) = line
                .strip_prefix("  ")
                .filter(|rest| !rest.starts_with(' '))
            else {
                continue;
            };
            let name = name.split_whitespace().next().unwrap_or_default();
            let full = format!("{command} {name}").trim().to_owned();
            assert!(
                name == "help" || COMMANDS.contains(&full.as_str()),
                "{full}"
            );
        }
    }
}

#[test]
fn every_setting_is_shown_with_its_meaning() {
    let dir = tempfile::tempdir().unwrap();
    let output = cf(dir.path(), &["config", "show"]);
    assert_data_eq!(text(&output.stdout), golden("config-show.txt").raw());
}

#[test]
fn errors_have_a_cause_and_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    let mut told = String::new();
    for words in [
        &["status"][..],
        &["status", "--json"],
        &["tasks", "list"],
        &["run"],
        &["run", "--json"],
        &["work", "batch", "run", "--max-paralel", "2"],
        &["work", "batch", "run", "--max-paralel", "2", "--json"],
        &["run", "--max-parallel", "0"],
        &["run", "--all-ready", "--reconcile-interval", "-5"],
        &["run", "--file", "missing.toml"],
        &["-C", "missing", "status"],
        &["tasks", "set", "status", "a", "nothing"],
        &["init"],
        &["tasks", "show", "nothing"],
        &["tasks", "show", "nothing", "--json"],
        &["tasks", "set", "status", "self", "done"],
        &["blocker", "answer"],
        &["blocker", "answer", "yes"],
        &["tasks", "edit", "a"],
        &["stop"],
        &["resume"],
        &["follow"],
    ] {
        let output = cf(dir.path(), words);
        let code = output.status.code().unwrap_or(-1);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        write!(told, "$ cf {}\n{out}{err}[{code}]\n\n", words.join(" ")).unwrap();
    }
    let told = told.replace(dir.path().to_str().unwrap(), "DIR");
    assert_data_eq!(told, golden("errors.txt").raw());
}
