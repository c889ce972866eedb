//! `cargo xtask bench`: `cf` beside its floors and its peers.
//!
//! The machine decides every absolute figure, so only ratios within one run count: the contenders of a row take turns,
//! and medians are compared. A contender that cannot be measured is a failure that is printed, never a row that is
//! missing. `docs/performance.md` explains the rows.

mod live;
mod peers;
mod report;
mod row;
mod rows;
mod stage;
mod turns;

use std::path::PathBuf;

use crate::args::Args;
use crate::problem::Problem;
use crate::repo::{Repo, must, on_path};
use row::{Contender, Measured, Row};
use stage::Stage;

/// What is measured, and how thoroughly.
pub(crate) struct Options {
    quick: bool,
    with_peers: bool,
    only: Option<String>,
    rounds: Option<usize>,
    json: Option<PathBuf>,
}

impl Options {
    pub(crate) fn from_args(args: &mut Args) -> Result<Self, Problem> {
        let rounds = match args.value("--rounds")? {
            None => None,
            Some(text) => match text.parse() {
                Ok(rounds) if rounds > 0 => Some(rounds),
                _ => return Err(Problem::new("--rounds needs a number from 1")),
            },
        };
        Ok(Self {
            quick: args.flag("--quick"),
            with_peers: args.flag("--with-peers"),
            only: args.value("--only")?,
            rounds,
            json: args.value("--json")?.map(PathBuf::from),
        })
    }
}

/// Builds what is compared, measures every row, and prints the table.
///
/// # Errors
///
/// Something could not be built or measured. A missed target is a result, not an error.
pub(crate) fn run(repo: &Repo, options: &Options) -> Result<(), Problem> {
    build(repo)?;
    if options.with_peers {
        peers::install(repo)?;
    }
    let stage = Stage::new(repo, options.quick)?;
    let mut measured = Vec::new();
    for row in rows::ROWS {
        if options
            .only
            .as_ref()
            .is_some_and(|only| !row.id.contains(only.as_str()))
        {
            continue;
        }
        let rounds = options.rounds.unwrap_or(if options.quick {
            row.rounds.min(3)
        } else {
            row.rounds
        });
        let result = measure(&stage, row, rounds);
        report::print_row(&result);
        measured.push(result);
    }
    if measured.is_empty() {
        return Err(Problem::new("no row has that text in its id"));
    }
    report::print_summary(&measured);
    if let Some(file) = &options.json {
        std::fs::write(file, report::json(&measured, options.quick))?;
    }
    let failures: Vec<String> = measured
        .iter()
        .flat_map(|row| {
            row.contenders
                .iter()
                .filter(|contender| contender.failure.is_some())
                .map(|contender| format!("{}: {}", row.row.id, contender.name))
        })
        .collect();
    if failures.is_empty() {
        return Ok(());
    }
    Err(Problem::new(format!(
        "could not be measured: {}",
        failures.join(", ")
    )))
}

fn build(repo: &Repo) -> Result<(), Problem> {
    must(&mut repo.cargo(&["build", "--release", "--package", "cf-cli", "--bin", "cf"]))?;
    must(&mut repo.cargo(&[
        "build",
        "--release",
        "--package",
        "cf-conductor",
        "--example",
        "measure",
    ]))?;
    must(&mut repo.cargo(&[
        "build",
        "--release",
        "--package",
        "xtask",
        "--features",
        "floor",
        "--bin",
        "cf-floor",
        "--bin",
        "cf-noop",
    ]))
}

/// Lets the contenders of a row take turns.
fn measure(stage: &Stage, row: &'static Row, rounds: usize) -> Measured {
    eprintln!("measuring {} …", row.id);
    let mut result = Measured::of(row);
    for _ in 0..rounds {
        for (contender, at) in row.contenders.iter().zip(0..) {
            let slot = &mut result.contenders[at];
            if slot.failure.is_some() || slot.absent {
                continue;
            }
            if needs(contender).is_some_and(|program| !on_path(program) && !stage.has(program)) {
                slot.absent = true;
                continue;
            }
            match (contender.measure)(stage) {
                Ok(samples) => slot.taken.extend(samples),
                Err(problem) => slot.failure = Some(problem.to_string()),
            }
        }
    }
    result
}

/// The program without which a peer cannot take part.
const fn needs(contender: &Contender) -> Option<&'static str> {
    match contender.role {
        row::Role::Peer(program) => Some(program),
        row::Role::Floor | row::Role::Ours => None,
    }
}
