//! `cargo xtask torture`: builds `cf` with its fault points and hands over to the program that breaks it on purpose.
//!
//! That program is another binary of this package, so that the other chores start without waiting for SQLite to
//! compile. `cf` with fault points goes into a folder of its own and shares everything else with the usual build.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::args::Args;
use crate::ci::Mode;
use crate::problem::Problem;
use crate::repo::{Repo, must};

/// The seed that CI always tries.
const FIXED_SEED: u64 = 5;

/// What is to be done.
pub(crate) struct Options {
    points: Option<String>,
    mutants: Option<String>,
    seconds: u64,
    seed: Option<u64>,
    round: Option<u64>,
}

impl Options {
    pub(crate) fn from_args(args: &mut Args) -> Result<Self, Problem> {
        let minutes: f64 = number(args, "--minutes")?.unwrap_or(2.0);
        let seed = number(args, "--seed")?;
        let round = number(args, "--round")?;
        let mut part = |flag| {
            args.flag(flag)
                .then(|| args.next_word().unwrap_or_default())
        };
        let (points, mutants) = (part("--points"), part("--mutants"));
        Ok(Self {
            points,
            mutants,
            seconds: (minutes * 60.0) as u64,
            seed,
            round,
        })
    }
}

fn number<T: std::str::FromStr>(args: &mut Args, name: &str) -> Result<Option<T>, Problem> {
    args.value(name)?
        .map(|value| {
            value
                .parse()
                .map_err(|_| Problem::new(format!("{name} {value:?} is not a number")))
        })
        .transpose()
}

/// Walks the points, makes rounds of a seed, or looks how many of those a broken `cf` survives.
///
/// # Errors
///
/// It cannot be built, or something that `cf` promises did not hold; what has been printed by then.
pub(crate) fn run(repo: &Repo, options: &Options) -> Result<(), Problem> {
    let mut torture = build(repo)?;
    if let Some(only) = &options.points {
        return must(torture.arg("points").arg(only));
    }
    let seed = options.seed.unwrap_or_else(fresh_seed);
    if let Some(only) = &options.mutants {
        return must(torture.args(["mutants", &seed.to_string(), only]));
    }
    torture
        .arg("rounds")
        .args([seed, options.seconds].map(|number| number.to_string()))
        .args(options.round.map(|round| round.to_string()));
    must(&mut torture)
}

/// What a change has to survive: a death at every named point, and two minutes of torture, one with the fixed seed and
/// one with a fresh one.
pub(crate) fn of_a_change(repo: &Repo, _: Mode) -> Result<String, Problem> {
    must(build(repo)?.arg("points"))?;
    let fresh = fresh_seed();
    for seed in [FIXED_SEED, fresh] {
        must(build(repo)?.args(["rounds", &seed.to_string(), "60"]))?;
    }
    Ok(format!(
        "every named point, and a minute each of the seeds {FIXED_SEED} and {fresh}"
    ))
}

fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(1, |time| time.as_secs() % 1_000_000_000)
}

/// Builds what is needed, and returns the call of the program, to be given what to do.
fn build(repo: &Repo) -> Result<Command, Problem> {
    let target = repo.target()?;
    let own = target.join("torture");
    let mut cf = repo.cargo(&["build", "--quiet", "--package", "cf-cli", "--bin", "cf"]);
    cf.args(["--features", "fault-points", "--target-dir"])
        .arg(&own)
        // What is compiled on the way is the same for every build.
        .env("CARGO_BUILD_BUILD_DIR", &target);
    must(&mut cf)?;
    must(&mut repo.cargo(&[
        "build",
        "--quiet",
        "--package",
        "xtask",
        "--features",
        "torture",
        "--bin",
        "cf-torture",
    ]))?;
    let mut torture = Command::new(target.join("debug/cf-torture"));
    // Outside the repository, or its own workspace would be found upward.
    let ground = std::env::temp_dir().join(format!("cf-torture-{}", std::process::id()));
    torture.arg(own.join("debug/cf")).arg(ground);
    Ok(torture)
}
