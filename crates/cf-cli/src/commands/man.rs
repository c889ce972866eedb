//! `cf man`: manual pages, made from the command line itself.

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use serde_json::json;

use super::Ended;
use crate::args::{self, ManArgs};
use crate::console::{self, Console};
use crate::error::CliError;

pub(super) fn run(args: &ManArgs, console: &Console) -> Ended {
    let command = args::whole();
    match &args.dir {
        Some(dir) => write_all(&command, dir, console),
        None => print_one(&command, &args.command),
    }
}

/// Prints the page of one command.
fn print_one(whole: &clap::Command, words: &[String]) -> Ended {
    let mut command = whole;
    for word in words {
        command = command.find_subcommand(word).ok_or_else(|| {
            CliError::usage(
                format!(
                    "there is no command `{} {word}`",
                    command.get_bin_name().unwrap_or("cf")
                ),
                format!(
                    "`{} --help` lists them",
                    command.get_bin_name().unwrap_or("cf")
                ),
            )
        })?;
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    let mut out = console::out();
    out.write_all(&page)?;
    out.flush()?;
    Ok(0)
}

/// Writes a page for every command into a folder: `cf.1`, `cf-tasks.1`, `cf-tasks-add.1`, …
fn write_all(whole: &clap::Command, dir: &Path, console: &Console) -> Ended {
    let failed = |what| {
        let path = dir.to_owned();
        move |source| CliError::File { what, path, source }
    };
    std::fs::create_dir_all(dir).map_err(failed("make"))?;
    clap_mangen::generate_to(whole.clone(), dir).map_err(failed("write the pages into"))?;
    let entries = std::fs::read_dir(dir).map_err(failed("read"))?;
    let mut pages: Vec<OsString> = entries
        .flatten()
        .map(|entry| entry.file_name())
        .filter(|name| {
            let name = name.as_bytes();
            name.starts_with(b"cf") && name.ends_with(b".1")
        })
        .collect();
    pages.sort();
    if console.json {
        let pages: Vec<_> = pages.iter().map(|page| page.to_string_lossy()).collect();
        console::print_json(&json!({ "dir": dir.to_string_lossy(), "pages": pages }))?;
    } else {
        console.say(format_args!(
            "wrote {} pages to {}",
            pages.len(),
            dir.display()
        ))?;
    }
    Ok(0)
}
