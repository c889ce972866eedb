//! `cargo xtask test` and `cargo xtask test-integration`.

use std::path::Path;
use std::process::Command;

use crate::github;
use crate::problem::Problem;
use crate::readme;
use crate::repo::{Repo, must};

const CONSUMER: &str = "tests-consumer/cf-reconcile-consumer/Cargo.toml";

/// Every test of the workspace, then what cannot be a test inside it.
pub(crate) fn every(repo: &Repo) -> Result<(), Problem> {
    must(at_once(&mut repo.cargo(&["test", "--workspace"])))?;
    outside_the_workspace(repo)
}

/// The tests with real processes, and those that look at the project from outside.
///
/// With a filter only the tests of `cf`'s integration binary that have the text in their name.
pub(crate) fn integration(repo: &Repo, filter: Option<&str>) -> Result<(), Problem> {
    let mut cargo = repo.cargo(&["test", "-p", "cf-cli", "--test", "it"]);
    at_once(&mut cargo);
    if let Some(filter) = filter {
        return must(cargo.args(["--", filter]));
    }
    must(&mut cargo)?;
    github::on_its_own_descriptions(repo)?;
    outside_the_workspace(repo)
}

/// Runs more tests at once than there are cores: those with real processes wait most of their time.
fn at_once(cargo: &mut Command) -> &mut Command {
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        cargo.env("RUST_TEST_THREADS", (3 * cores).to_string());
    }
    cargo
}

fn outside_the_workspace(repo: &Repo) -> Result<(), Problem> {
    readme_commands(repo)?;
    consumer(repo)
}

/// The README's own commands, run as they are written in a clean copy of the tree.
fn readme_commands(repo: &Repo) -> Result<(), Problem> {
    let ran = readme::run_commands(repo)?;
    println!("README: {ran} commands run as written");
    Ok(())
}

/// A crate outside the workspace that depends on `cf-reconcile` alone is built, tested and run.
fn consumer(repo: &Repo) -> Result<(), Problem> {
    if !repo.root.join(CONSUMER).is_file() {
        return Err(Problem::new(format!("{CONSUMER} is missing"))
            .hint("it shows that cf-reconcile can be used by itself"));
    }
    let target = repo.target()?.join("consumer");
    for verb in ["run", "test"] {
        let mut cargo = repo.cargo(&[verb, "--manifest-path", CONSUMER, "--target-dir"]);
        must(cargo.arg(Path::new(&target)))?;
    }
    Ok(())
}
