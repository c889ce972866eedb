//! `cargo xtask ci`: what `cargo xtask test` leaves out, one named check after another.
//!
//! A check that fails does not keep the others from being made: the list of everything that is wrong comes at once.

use std::time::Instant;

use crate::agents;
use crate::args::Args;
use crate::checks::{
    browser, comments, dependencies, layers, links, manifests, migrations, rust, words,
};
use crate::problem::Problem;
use crate::repo::Repo;
use crate::torture;

/// How far the checks go.
#[derive(Clone, Copy)]
pub(crate) struct Mode {
    /// Golden lists are rewritten instead of compared.
    pub(crate) update: bool,
    /// The tests that take long are run too.
    pub(crate) full: bool,
}

impl Mode {
    pub(crate) fn from_args(args: &mut Args) -> Self {
        Self {
            update: args.flag("--update"),
            full: args.flag("--full"),
        }
    }
}

/// One check: its name, and the function that makes it and answers with one line.
struct Check {
    name: &'static str,
    make: fn(&Repo, Mode) -> Result<String, Problem>,
    only_when_full: bool,
}

const fn check(name: &'static str, make: fn(&Repo, Mode) -> Result<String, Problem>) -> Check {
    Check {
        name,
        make,
        only_when_full: false,
    }
}

/// Every check, the quick ones first.
const CHECKS: &[Check] = &[
    check("format", rust::format),
    check("banned words", words::banned),
    check("common misspellings", words::misspelled),
    check("width of comments", comments::width),
    check("links in documents", links::resolve),
    check("manifests", manifests::inherit),
    check("unused dependencies", dependencies::unused),
    check("layers", layers::rules),
    check("closures", layers::closures),
    check("migrations", migrations::unchanged),
    check("clippy", rust::clippy),
    check("rustdoc", rust::rustdoc),
    check("torture", torture::of_a_change),
    Check {
        name: "long tests",
        make: rust::long_tests,
        only_when_full: true,
    },
    Check {
        name: "report in a browser",
        make: browser::report,
        only_when_full: true,
    },
    Check {
        name: "agent programs",
        make: agents::check,
        only_when_full: true,
    },
];

/// Makes the checks and says how each ended.
///
/// # Errors
///
/// How many failed; what each found has been printed by then.
pub(crate) fn run(repo: &Repo, mode: Mode) -> Result<(), Problem> {
    let (mut passed, mut failed) = (0, Vec::new());
    for check in CHECKS {
        if check.only_when_full && !mode.full {
            continue;
        }
        let start = Instant::now();
        let answer = (check.make)(repo, mode);
        let seconds = start.elapsed().as_secs_f32();
        match answer {
            Ok(line) => {
                println!("ok    {:<20} {line} ({seconds:.1} s)", check.name);
                passed += 1;
            }
            Err(problem) => {
                println!(
                    "FAIL  {}\n      {}",
                    check.name,
                    problem.to_string().replace('\n', "\n      ")
                );
                failed.push(check.name);
            }
        }
    }
    println!("\n{passed} passed, {} failed", failed.len());
    if failed.is_empty() {
        return Ok(());
    }
    Err(Problem::new(format!("failed: {}", failed.join(", "))))
}
