//! `cargo xtask fuzz`: the tests named `fuzz_…`, each for so many minutes instead of a moment.
//!
//! They are ordinary tests, so that nothing but the toolchain is needed and every day's run tries them too. Here they
//! are built with optimizations and every assertion (the profile `long`), and run one after another.

use std::time::{Duration, SystemTime};

use crate::args::Args;
use crate::problem::Problem;
use crate::repo::{Repo, must};

/// The packages that read what others write, with the kind of target that holds the tests.
const PACKAGES: [(&str, &str); 2] = [("cf-cli", "--bins"), ("cf-github", "--lib")];

/// How long, and from where.
pub(crate) struct Options {
    minutes: u64,
    seed: u64,
}

impl Options {
    /// # Errors
    ///
    /// A value is no number.
    pub(crate) fn from_args(args: &mut Args) -> Result<Self, Problem> {
        let mut number = |flag: &str, otherwise: u64| match args.value(flag)? {
            None => Ok(otherwise),
            Some(text) => text
                .parse()
                .map_err(|_| Problem::new(format!("{flag} {text:?} is no number"))),
        };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let fresh = now.unwrap_or(Duration::ZERO).as_secs();
        Ok(Self {
            minutes: number("--minutes", 1)?,
            seed: number("--seed", fresh)?,
        })
    }
}

/// Tries every target.
///
/// # Errors
///
/// A target broke; its seed and its input have been printed.
pub(crate) fn run(repo: &Repo, options: &Options) -> Result<(), Problem> {
    println!("seed {}", options.seed);
    for (package, kind) in PACKAGES {
        let mut cargo = repo.cargo(&["test", "--profile", "long", "-p", package, kind, "fuzz_"]);
        cargo.args(["--", "--nocapture", "--test-threads", "1"]);
        cargo.env("CF_FUZZ_SECONDS", (options.minutes * 60).to_string());
        cargo.env("CF_FUZZ_SEED", options.seed.to_string());
        must(&mut cargo)?;
    }
    Ok(())
}
