//! `docs/reference.md`: every command with its options, written from the same descriptions as `--help`.
//!
//! `SNAPSHOTS=overwrite cargo test -p cf-cli reference` writes it anew.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, Command};
use snapbox::{Data, assert_data_eq};

const HEAD: &str = "\
# Reference

Every command and option, as `cf COMMAND --help` says them. This page is made from the program, and a test keeps it so;
[the guide](guide.md) says what they are good for.

";

#[test]
fn the_reference_is_made_from_the_commands() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference.md");
    assert_data_eq!(reference(), Data::read_from(&path, None).raw());
}

fn reference() -> String {
    let cf = super::whole();
    let mut page = HEAD.to_owned();
    let paths = paths(&cf, "cf");
    for (path, _) in &paths {
        let anchor = path.replace(' ', "-");
        let _ = writeln!(page, "- [`{path}`](#{anchor})");
    }
    for (path, command) in paths {
        let _ = write!(page, "\n## {path}\n");
        section(&mut page, command, path == "cf");
    }
    page
}

/// Every command that does something, with its whole name, in the order of the help.
fn paths<'c>(command: &'c Command, name: &str) -> Vec<(String, &'c Command)> {
    let mut paths = vec![(name.to_owned(), command)];
    for sub in command
        .get_subcommands()
        .filter(|sub| sub.get_name() != "help")
    {
        paths.extend(self::paths(sub, &format!("{name} {}", sub.get_name())));
    }
    paths
}

fn section(page: &mut String, command: &Command, is_root: bool) {
    let about = command.get_long_about().or_else(|| command.get_about());
    if let Some(about) = about {
        let _ = write!(page, "\n{about}\n");
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
    let _ = write!(page, "\n```text\n{usage}\n```\n");
    let is_shown =
        |arg: &&Arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str());
    // The global ones stand at the top, once.
    let args: Vec<&Arg> = command
        .get_arguments()
        .filter(is_shown)
        .filter(|arg| is_root || !arg.is_global_set())
        .collect();
    if !args.is_empty() {
        let heading = if is_root {
            "option of every command"
        } else {
            "argument"
        };
        let _ = write!(page, "\n| {heading} | is |\n|---|---|\n");
        for arg in args {
            let _ = writeln!(page, "| `{}` | {} |", bars(&name(arg)), cell(&meaning(arg)));
        }
    }
    let after = command
        .get_after_long_help()
        .or_else(|| command.get_after_help());
    if let Some(after) = after {
        let _ = write!(page, "\n```text\n{after}\n```\n");
    }
}

/// `--max-parallel N`, `-q, --quiet`, `TASK…`.
fn name(arg: &Arg) -> String {
    let many = arg
        .get_num_args()
        .is_some_and(|range| range.max_values() > 1);
    let values: Vec<String> = arg
        .get_value_names()
        .unwrap_or_default()
        .iter()
        .map(ToString::to_string)
        .collect();
    let values = values.join(" ") + if many { "…" } else { "" };
    if arg.is_positional() {
        return values;
    }
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let names: Vec<String> = short.into_iter().chain(long).collect();
    let takes = arg.get_action().takes_values();
    match (takes, arg.is_require_equals_set()) {
        (false, _) => names.join(", "),
        (true, true) => format!("{}[={values}]", names.join(", ")),
        (true, false) => format!("{} {values}", names.join(", ")),
    }
}

fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help());
    let mut meaning = help.map(ToString::to_string).unwrap_or_default();
    let words = arg.get_possible_values();
    if !words.is_empty() && arg.get_action().takes_values() && !arg.is_hide_possible_values_set() {
        let words: Vec<&str> = words
            .iter()
            .map(clap::builder::PossibleValue::get_name)
            .collect();
        let _ = write!(meaning, "; one of `{}`", words.join("`, `"));
    }
    let defaults: Vec<_> = arg
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy())
        .collect();
    if !defaults.is_empty() && arg.get_action().takes_values() && !arg.is_hide_default_value_set() {
        let _ = write!(meaning, "; `{}` unless given", defaults.join(" "));
    }
    meaning
}

/// A text as a cell of a table.
fn cell(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    bars(&words.join(" ")).replace('<', "&lt;")
}

/// A text whose bars do not end the cell of a table.
fn bars(text: &str) -> String {
    text.replace('|', "\\|")
}
