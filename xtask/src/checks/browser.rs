//! The page of `cf work batch report` in Debian's Chromium: that its filter runs, and that it asks nobody for anything.

use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Stdio};

use crate::ci::Mode;
use crate::problem::Problem;
use crate::repo::{Repo, must, on_path};

const BROWSER: &str = "chromium";

/// Runs the tests that need a browser. Without one, and without the right to install it, it says so and goes on.
pub(crate) fn report(repo: &Repo, _: Mode) -> Result<String, Problem> {
    if !on_path(BROWSER) && !install() {
        return Ok(format!(
            "SKIPPED, {BROWSER} is not on the PATH and cannot be installed"
        ));
    }
    let filter = ["--ignored", "browser::"];
    let mut cargo = repo.cargo(&["test", "-p", "cf-cli", "--test", "it", "--"]);
    must(cargo.args(filter))?;
    Ok("its filter runs, and nothing is requested".to_owned())
}

/// Installs the browser with Debian's package manager, as root. Tells whether it is there now.
fn install() -> bool {
    let apt = |words: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.args(words)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        must(&mut apt).is_ok()
    };
    on_path("apt-get")
        && is_administrator()
        && apt(&["update", "-qq"])
        && apt(&["install", "-y", "-qq", "--no-install-recommends", BROWSER])
        && on_path(BROWSER)
}

/// Whether this process may install packages: `/proc/self` belongs to whoever it runs as.
fn is_administrator() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0)
}
