//! `cargo xtask torture`: breaks `cf` on purpose and looks from outside what became of its promises.
//!
//! Called by the chore of that name, which builds `cf` with its fault points first: `cf-torture CF FOLDER points` walks
//! every point once, `cf-torture CF FOLDER rounds SEED SECONDS [ROUND]` makes rounds of random torture, and
//! `cf-torture CF FOLDER mutants SEED` breaks `cf` itself, one rule after the other, to see whether that is found.

mod adversary;
mod agents;
mod check;
mod ground;
mod points;
mod replay;
mod rng;
mod rounds;
mod said;
mod trees;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [cf, folder, "points", only @ ..] => {
            let bad = points::walk(Path::new(cf), Path::new(folder), only.first().copied());
            exit(Path::new(folder), bad)
        }
        [cf, folder, "rounds", seed, seconds, round @ ..] => {
            let number = |word: &str| word.parse::<u64>().ok();
            let (Some(seed), Some(seconds)) = (number(seed), number(seconds)) else {
                return usage();
            };
            let (rounds, bad) = rounds::run(&rounds::Options {
                cf: PathBuf::from(cf),
                folder: PathBuf::from(folder),
                seed,
                time: Duration::from_secs(seconds),
                round: round.first().and_then(|word| number(word)),
                mutant: None,
            });
            println!("torture: {rounds} rounds of seed {seed}, {bad} with faults");
            exit(Path::new(folder), bad)
        }
        [cf, folder, "mutants", seed, only @ ..] => {
            let Ok(seed) = seed.parse() else {
                return usage();
            };
            let only = only.first().copied();
            let missed = rounds::mutants(Path::new(cf), Path::new(folder), seed, only);
            exit(Path::new(folder), missed)
        }
        _ => usage(),
    }
}

fn exit(folder: &Path, bad: u64) -> ExitCode {
    // What failed is kept; a folder with something in it stays.
    let _ = std::fs::remove_dir(folder);
    if bad == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn usage() -> ExitCode {
    eprintln!("this is a part of `cargo xtask torture`, and is called by it");
    ExitCode::from(2)
}
