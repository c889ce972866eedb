//! The project's own chores: `cargo xtask test`, `test-integration`, `ci`, `bench`, `scale`, `torture` and `fuzz`.
//!
//! Every check is one named function that answers with one line, or with a problem and a hint. Nothing here is part of
//! the product, and nothing in the product knows of it.

mod agents;
mod args;
mod bench;
mod checks;
mod ci;
mod fuzz;
mod github;
mod keeper;
mod problem;
mod readme;
mod repo;
mod scale;
mod test;
mod torture;

use std::process::ExitCode;

use args::Args;
use problem::Problem;
use repo::Repo;

const USAGE: &str = "\
usage: cargo xtask CHORE [OPTIONS]

  test                              every test that needs nothing beyond the toolchain
  test-integration [--filter TEXT]  real processes, the consumer of cf-reconcile, the README's own commands
  test-integration --agents         the real Claude Code, Codex and opencode, from npm, on a scripted model
  ci [--update] [--full]            what `test` leaves out: format, lints, layers, golden lists, words, links
                                    --update rewrites the golden lists, --full adds long tests, and the report in a browser
  fuzz [--minutes N] [--seed S]     everything that reads what others write, each target for N minutes (1)
  bench [--quick] [--with-peers] [--only TEXT] [--rounds N] [--json FILE] [--svg [FILE]] [--record] [--draw]
        [--in DIR]                  measures cf beside its floors and peers, as ratios within one run, and compares
                                    with the committed figures; --with-peers installs peers, --record commits to the
                                    new figures, --draw draws those that are committed once more, --in measures in
                                    another folder than the build's
  scale [--tasks N] [--events N] [--batch N] [--rounds N] [--seed S] [--keep DIR]
                                    measures how each command grows from a tenth of a large workspace to the whole
  torture [--minutes N] [--seed S] [--round K] [--points [TEXT]] [--mutants [TEXT]]
                                    kills, stops and starves real batches at random and looks from outside what became
                                    of them; --points lets cf die once at every named point instead, --mutants breaks
                                    its rules one after the other and looks whether that is found
";

fn main() -> ExitCode {
    let mut args = Args::from_env();
    let chore = args.next_word();
    let done = Repo::find().and_then(|repo| match chore.as_deref() {
        Some("test") => args.finish().and_then(|()| test::every(&repo)),
        Some("test-integration") => {
            let filter = args.value("--filter")?;
            let agents = args.flag("--agents");
            args.finish()?;
            if agents {
                agents::run(&repo)
            } else {
                test::integration(&repo, filter.as_deref())
            }
        }
        Some("ci") => {
            let mode = ci::Mode::from_args(&mut args);
            args.finish()?;
            ci::run(&repo, mode)
        }
        Some("bench") => {
            let words: Vec<String> = args.words().map(str::to_owned).collect();
            let options = bench::Options::from_args(&mut args)?;
            args.finish()?;
            bench::run(&repo, &options, words)
        }
        Some("keep") => keeper::keep(&args.words().collect::<Vec<_>>()),
        Some("scale") => {
            let options = scale::Options::from_args(&mut args)?;
            args.finish()?;
            scale::run(&repo, &options)
        }
        Some("torture") => {
            let options = torture::Options::from_args(&mut args)?;
            args.finish()?;
            torture::run(&repo, &options)
        }
        Some("fuzz") => {
            let options = fuzz::Options::from_args(&mut args)?;
            args.finish()?;
            fuzz::run(&repo, &options)
        }
        Some("help" | "--help" | "-h") => {
            print!("{USAGE}");
            Ok(())
        }
        Some(other) => {
            Err(Problem::new(format!("no chore is called {other:?}")).hint(USAGE.trim_end()))
        }
        None => Err(Problem::new("which chore?").hint(USAGE.trim_end())),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}
