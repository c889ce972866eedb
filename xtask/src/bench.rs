//! `cargo xtask bench`: `cf` beside its floors and its peers.
//!
//! The machine decides every absolute figure, so only ratios within one run count: the contenders of a row take turns,
//! and medians are compared. A contender that cannot be measured is a failure that is printed, never a row that is
//! missing; a peer that is not installed is said once. `docs/performance.md` explains the rows.

mod compare;
mod counts;
mod disk;
mod figures;
mod live;
mod peers;
mod processes;
mod record;
mod report;
mod row;
mod rows;
mod stage;
mod svg;
mod turns;

use std::fs;
use std::path::PathBuf;

use crate::args::Args;
use crate::keeper;
use crate::problem::Problem;
use crate::repo::{Repo, on_path};
use disk::Disk;
use figures::RowFigures;
use record::{FIGURES, Kind, PICTURE, Record};
use row::{Contender, Measured, Role, Row};
use stage::Stage;

/// Tells the process below a keeper from the first one.
const KEPT: &str = "--kept";

/// What is measured, and how thoroughly.
pub(crate) struct Options {
    quick: bool,
    with_peers: bool,
    only: Option<String>,
    rounds: Option<usize>,
    json: Option<PathBuf>,
    /// The file for the picture of this run; an empty path means beside what is built.
    svg: Option<PathBuf>,
    record: bool,
    draw: bool,
    /// The folder in which everything is measured; nothing means the build folder.
    place: Option<PathBuf>,
    kept: bool,
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
            record: args.flag("--record"),
            draw: args.flag("--draw"),
            place: args.value("--in")?.map(PathBuf::from),
            kept: args.flag(KEPT),
            svg: args.value_or("--svg", "").map(PathBuf::from),
        })
    }
}

/// Builds what is compared, measures every row below a keeper, prints the table and does what else is asked for.
///
/// # Errors
///
/// Something could not be built or measured. A missed target and a worse figure are results, not errors.
pub(crate) fn run(repo: &Repo, options: &Options, words: Vec<String>) -> Result<(), Problem> {
    if options.draw {
        return draw(repo, &Record::read(&repo.root)?);
    }
    if !options.kept {
        // Not below the keeper: a build may leave a server of the compiler's cache running, and it is not ours to end.
        build(repo)?;
        if options.with_peers {
            peers::install(repo)?;
        }
        let again = ["bench".to_owned()].into_iter().chain(words);
        return keeper::below(&again.chain([KEPT.to_owned()]).collect::<Vec<_>>());
    }
    let stage = Stage::new(repo, options.quick, options.place.as_deref())?;
    let rows: Vec<&'static Row> = rows::ROWS
        .iter()
        .filter(|row| match &options.only {
            Some(only) => row.id.contains(only.as_str()),
            None => true,
        })
        .collect();
    if rows.is_empty() {
        return Err(Problem::new("no row has that text in its id"));
    }
    say_what_is_missing(&stage, &rows);
    let disk = Disk::below(&stage.scratch)?;
    eprintln!("the disk: {disk}");
    if disk.is_slow() {
        eprintln!(
            "making files is slow in this folder, and dispatch waits for it: `--in DIR` measures elsewhere"
        );
    }
    let (date, machine) = (record::today()?, format!("{}; {disk}", record::machine()));
    let mut measured = Vec::new();
    for row in rows {
        if tool(row).is_some_and(|tool| !on_path(tool)) {
            continue;
        }
        let rounds = options.rounds.unwrap_or(if options.quick {
            (row.rounds / 4).max(row.rounds.min(3))
        } else {
            row.rounds
        });
        let result = measure(&stage, row, rounds);
        let figures = result.figures(&date, &machine);
        report::print_row(&result, &figures);
        measured.push((result, figures));
    }
    finish(repo, options, &measured)
}

/// Says how it ended, beside what was recorded, and writes what is asked for.
fn finish(
    repo: &Repo,
    options: &Options,
    measured: &[(Measured, RowFigures)],
) -> Result<(), Problem> {
    let figures: Vec<RowFigures> = measured
        .iter()
        .map(|(_, figures)| figures.clone())
        .collect();
    report::print_summary(&figures);
    let kind = if options.quick {
        Kind::Quick
    } else {
        Kind::Full
    };
    let mut record = Record::read(&repo.root)?;
    let changes = compare::compare(record.of(kind), &figures);
    report::print_changes(&changes);
    if let Some(file) = &options.json {
        fs::write(file, report::json(measured, &changes, options.quick))?;
    }
    if let Some(file) = &options.svg {
        let beside = repo.target()?.join("bench/performance.svg");
        let file = if file.as_os_str().is_empty() {
            &beside
        } else {
            file
        };
        fs::write(file, svg::draw(&figures))?;
        println!("\nthis run's picture: {}", file.display());
    }
    let failures: Vec<String> = measured
        .iter()
        .flat_map(|(row, _)| row.contenders.iter().map(move |it| (row, it)))
        .filter(|(_, contender)| contender.failure.is_some())
        .map(|(row, contender)| format!("{}: {}", row.row.id, contender.name))
        .collect();
    if !failures.is_empty() {
        return Err(Problem::new(format!(
            "could not be measured: {}",
            failures.join(", ")
        )));
    }
    if options.record {
        let table: Vec<&str> = rows::ROWS.iter().map(|row| row.id).collect();
        record.take(kind, &figures, &table);
        record.write(&repo.root)?;
        draw(repo, &record)?;
        println!("\nrecorded in {FIGURES}, drawn in {PICTURE}");
    }
    Ok(())
}

fn draw(repo: &Repo, record: &Record) -> Result<(), Problem> {
    Ok(fs::write(
        repo.root.join(PICTURE),
        svg::draw(&record.drawn()),
    )?)
}

fn build(repo: &Repo) -> Result<(), Problem> {
    repo.build_release("cf-cli", &["--bin", "cf"])?;
    repo.build_release("cf-conductor", &["--example", "measure"])?;
    repo.build_release(
        "xtask",
        &[
            "--features",
            "floor",
            "--bin",
            "cf-floor",
            "--bin",
            "cf-noop",
        ],
    )
}

/// Lets the contenders of a row take turns, in every other round the other way round.
///
/// In a row of a single round the first one takes a second turn at the end, so that nobody is always later.
fn measure(stage: &Stage, row: &'static Row, rounds: usize) -> Measured {
    eprintln!("measuring {} …", row.id);
    let mut result = Measured::of(row);
    let mut take = |at: usize| {
        let slot = &mut result.contenders[at];
        if slot.failure.is_some() || slot.absent {
            return;
        }
        let contender = &row.contenders[at];
        if needs(contender).is_some_and(|program| !stage.has(program)) {
            slot.absent = true;
            return;
        }
        match (contender.measure)(stage) {
            Ok(samples) => slot.turns.push(samples),
            Err(problem) => slot.failure = Some(problem.to_string()),
        }
    };
    let contenders = row.contenders.len();
    for round in 0..rounds {
        stage.begin_round(round);
        for at in 0..contenders {
            take(if round % 2 == 0 {
                at
            } else {
                contenders - 1 - at
            });
        }
    }
    if rounds == 1 && contenders > 1 && tool(row).is_none() {
        stage.begin_round(rounds);
        take(0);
    }
    result
}

/// The program without which a peer cannot take part.
const fn needs(contender: &Contender) -> Option<&'static str> {
    match contender.role {
        Role::Peer(program) => Some(program),
        Role::Floor | Role::Ours => None,
    }
}

/// The program that counts what the row is about.
fn tool(row: &Row) -> Option<&'static str> {
    match row.unit {
        "instructions" => Some("valgrind"),
        "calls" => Some("strace"),
        _ => None,
    }
}

/// One line for the peers, and one for each tool, whatever the number of rows that go without.
fn say_what_is_missing(stage: &Stage, rows: &[&'static Row]) {
    let mut peers: Vec<&str> = rows
        .iter()
        .flat_map(|row| row.contenders)
        .filter_map(needs)
        .filter(|program| !stage.has(program))
        .collect();
    peers.sort_unstable();
    peers.dedup();
    if !peers.is_empty() {
        println!(
            "not installed, so not compared with: {} (--with-peers installs what it can)",
            peers.join(", ")
        );
    }
    for tool_name in ["valgrind", "strace"] {
        let without: Vec<&str> = rows
            .iter()
            .filter(|row| tool(row) == Some(tool_name))
            .map(|row| row.id)
            .collect();
        if !without.is_empty() && !on_path(tool_name) {
            println!("without {tool_name} not counted: {}", without.join(", "));
        }
    }
}
