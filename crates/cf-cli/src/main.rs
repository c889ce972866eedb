//! The `cf` command: words in, words out.
//!
//! A command is a file in [`commands`]: arguments become a request to the conductor, its answer is rendered. Nothing
//! here knows how tasks are stored or agents are started, and no runtime is started for a command that does not need
//! one.

mod args;
mod commands;
mod config;
mod console;
mod document;
mod error;
#[cfg(test)]
mod fuzz;
mod made_file;
mod plan;
mod progress;
mod render;
mod workspace;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use cf_conductor::{engine, process, supervise};
use clap::error::ErrorKind;
use clap::{CommandFactory as _, FromArgMatches as _};
use tracing_subscriber::filter::LevelFilter;

use args::{Cli, Color};
use console::Console;
use error::CliError;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    // A disk that is full in this way is told as any other is; where the kernel refuses, it ends this process.
    let _ = process::survive_file_limit();
    // A supervisor is this program again, and must stay small: no parser, no configuration, no threads.
    if supervise::is_supervisor_call(&words) {
        return supervise::supervise();
    }
    // Who knows a token leaves no core dump, whatever it was called for.
    if engine::has_secret() {
        let _ = process::make_undumpable();
    }
    // Building the parser of every command costs more than everything else that this one does.
    if let [_, only] = words.as_slice()
        && (only == "--version" || only == "-V")
    {
        let printed = writeln!(std::io::stdout(), "cf {}", env!("CARGO_PKG_VERSION"));
        return shown(printed, false, Color::Auto).into();
    }
    let cli = match parse(&words) {
        Ok(cli) => cli,
        Err(code) => return code.into(),
    };
    let console = Console::new(&cli.global);
    console.tell_a_long_wait();
    log_to_stderr(cli.global.verbose);
    cf_core::Link::short_forms_live_on(config::default_host());
    let ended = enter(&cli).and_then(|()| commands::run(cli, &console));
    match ended {
        Ok(code) => code.into(),
        Err(error) => error.report(&console).into(),
    }
}

/// Reads the command line, or prints help or what is wrong with it and returns the exit code.
fn parse(words: &[OsString]) -> Result<Cli, u8> {
    // What is wrong with the words must be told in the form that they ask for, so these two are looked for first.
    let before_dashes = || words.iter().skip(1).take_while(|word| *word != "--");
    let json = before_dashes().any(|word| word == "--json");
    let color = if before_dashes().any(|word| word == "--color=never") {
        Color::Never
    } else if before_dashes().any(|word| word == "--color=always") {
        Color::Always
    } else {
        Color::Auto
    };
    if let Some(error) = detached_wait(words, color.into()) {
        return Err(error::report_usage(&error, json));
    }
    let matches = Cli::command()
        .color(color.into())
        .try_get_matches_from(words);
    match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => Ok(cli),
        Err(error) => Err(match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => shown(error.print(), json, color),
            _ => error::report_usage(&error, json),
        }),
    }
}

/// The exit code of what only shows something, once it is said why it could not.
fn shown(printed: io::Result<()>, json: bool, color: Color) -> u8 {
    let Err(error) = printed else {
        return 0;
    };
    CliError::from(error).report(&Console::before_options(json, color))
}

/// `--wait-for-blockers` may stand alone, so a duration behind it would be read as the name of a task.
fn detached_wait(words: &[OsString], color: clap::ColorChoice) -> Option<clap::Error> {
    let flag = "--wait-for-blockers";
    let at = words
        .iter()
        .take_while(|word| *word != "--")
        .position(|word| word == flag)?;
    let next = words.get(at + 1)?.to_str()?;
    let is_meant = cf_core::parse_duration(next).is_ok() || ["true", "false"].contains(&next);
    is_meant.then(|| {
        Cli::command().color(color).error(
            ErrorKind::ValueValidation,
            format!("the value of {flag} needs an equals sign: write {flag}={next}"),
        )
    })
}

/// With `-v` the conductor's own log goes to standard error: what it does, and with `-vv` every detail.
fn log_to_stderr(verbose: u8) {
    let level = match verbose {
        0 => return,
        1 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
}

/// Goes to the directory of `-C`.
fn enter(cli: &Cli) -> Result<(), CliError> {
    let Some(path) = &cli.global.directory else {
        return Ok(());
    };
    std::env::set_current_dir(path).map_err(|error| CliError::Usage {
        message: format!("cannot work in {}: {error}", path.display()),
        hint: None,
    })
}
