//! `cargo xtask scale`: how `cf` grows.
//!
//! Called by the chore of that name, which builds `cf` first: `cf-scale CF FOLDER TASKS EVENTS BATCH SEED ROUNDS` makes
//! a workspace of that size and one of a tenth, and prints what each command costs in both and how that grew;
//! `cf-scale make CF FOLDER TASKS EVENTS BATCH SEED` only makes one, to look at.

mod ids;
mod life;
mod make;
mod measure;
#[path = "../torture/rng.rs"]
#[expect(dead_code, reason = "torture picks from lists, and this does not")]
mod rng;
mod rows;

use std::path::Path;
use std::process::ExitCode;

use make::Size;

type Answer<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["make", cf, folder, size @ ..] => Size::read(size)
            .and_then(|size| make::workspace(Path::new(cf), Path::new(folder), &size)),
        [cf, folder, size @ .., rounds] => Size::read(size).and_then(|size| {
            let rounds = rounds.parse()?;
            measure::growth(Path::new(cf), Path::new(folder), &size, rounds)
        }),
        _ => Err("this is a part of `cargo xtask scale`, and is called by it".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
