//! `cargo xtask scale`: builds `cf` and hands over to the program that makes large workspaces and measures them.
//!
//! That program is another binary of this package, so that the other chores start without waiting for SQLite to
//! compile. `docs/scale.md` tells what was found.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::args::Args;
use crate::keeper;
use crate::problem::Problem;
use crate::repo::{Repo, must};

/// How large the workspace is, and how often each command is run.
pub(crate) struct Options {
    tasks: u64,
    events: u64,
    batch: u64,
    rounds: u64,
    seed: u64,
    keep: Option<PathBuf>,
}

impl Options {
    pub(crate) fn from_args(args: &mut Args) -> Result<Self, Problem> {
        let mut number = |name: &str, default: u64| match args.value(name)? {
            None => Ok(default),
            Some(text) => match text.parse() {
                Ok(number) if number > 0 => Ok(number),
                _ => Err(Problem::new(format!("{name} needs a number from 1"))),
            },
        };
        let tasks = number("--tasks", 100_000)?;
        Ok(Self {
            tasks,
            events: number("--events", 10_000_000)?,
            batch: number("--batch", (tasks / 10).max(1))?,
            rounds: number("--rounds", 5)?,
            seed: number("--seed", 7)?,
            keep: args.value("--keep")?.map(PathBuf::from),
        })
    }
}

/// Builds what is needed, makes the workspaces and prints the table. Workspaces that a folder given with `--keep` has
/// already are measured as they are; without it they are removed, however this ends.
///
/// # Errors
///
/// Something could not be built, made or run. What is over its bound is printed, and is no error.
pub(crate) fn run(repo: &Repo, options: &Options) -> Result<(), Problem> {
    repo.build_release("cf-cli", &["--bin", "cf"])?;
    repo.build_release("xtask", &["--features", "scale", "--bin", "cf-scale"])?;
    let release = repo.target()?.join("release");
    let sizes = [
        options.tasks,
        options.events,
        options.batch,
        options.seed,
        options.rounds,
    ];
    let scale = |folder: &Path| {
        let mut scale = Command::new(release.join("cf-scale"));
        scale
            .arg(release.join("cf"))
            .arg(folder)
            .args(sizes.map(|number| number.to_string()));
        scale
    };
    if let Some(folder) = &options.keep {
        return must(&mut scale(folder));
    }
    // Outside the repository, or its own workspace would be found upward.
    let folder = std::env::temp_dir().join(format!("cf-scale-{}", std::process::id()));
    keeper::below_with(&scale(&folder), &folder)
}
