//! The real agent programs, as npm has them, run by `cf` against a scripted model on loopback.
//!
//! They take about 1 GB below `target/`, so only `cargo xtask test-integration --agents` and `ci --full` install them.

use std::fs;
use std::process::{Command, Stdio};

use crate::ci::Mode;
use crate::problem::Problem;
use crate::repo::{Repo, must, on_path};

/// The programs and their versions. A lock file would not do: npm leaves programs for other machines out of it, and
/// then refuses it. Each of the three has no dependency but itself for one machine, of the same version.
const PACKAGES: &str = "crates/cf-cli/tests/agents/package.json";

/// The same for a machine that may have no Node.js.
pub(crate) fn check(repo: &Repo, _: Mode) -> Result<String, Problem> {
    if !on_path("node") || !on_path("npm") {
        return Ok("SKIPPED: node and npm are not on the PATH".to_owned());
    }
    run(repo)?;
    Ok("Claude Code, Codex and opencode do as they are told".to_owned())
}

/// Installs the programs, unless these versions are there, and runs the tests that need them.
pub(crate) fn run(repo: &Repo) -> Result<(), Problem> {
    if !on_path("node") || !on_path("npm") {
        return Err(Problem::new("the agent programs need node and npm")
            .hint("install Node.js 20 or newer"));
    }
    let folder = repo.target()?.join("agents");
    fs::create_dir_all(&folder)?;
    let wanted = fs::read(repo.root.join(PACKAGES))?;
    // Written last, so that it says what is installed.
    let installed = folder.join("installed.json");
    if fs::read(&installed).ok().as_ref() != Some(&wanted) {
        fs::write(folder.join("package.json"), &wanted)?;
        let mut npm = Command::new("npm");
        // Their install scripts put the program for this machine in its place.
        npm.args(["install", "--no-package-lock", "--no-audit", "--no-fund"])
            .current_dir(&folder)
            .stdin(Stdio::null());
        must(&mut npm)?;
        fs::write(&installed, &wanted)?;
    }
    let args = [
        "test",
        "-p",
        "cf-cli",
        "--test",
        "it",
        "--",
        "--ignored",
        "real_agents",
    ];
    let mut cargo = repo.cargo(&args);
    // Each of them takes seconds of a whole core to start.
    cargo.arg("--test-threads=2");
    must(cargo.env("CF_TEST_AGENTS", folder.join("node_modules/.bin")))
}
