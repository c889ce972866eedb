//! Which crate may know which: the design's table as data, proved with `cargo tree`.

use std::collections::BTreeSet;

use crate::checks::golden;
use crate::ci::Mode;
use crate::problem::Problem;
use crate::repo::{Repo, output};

/// What a crate of the product may not do.
struct Layer {
    name: &'static str,
    /// The crates of this workspace that it may depend on.
    may_know: &'static [&'static str],
    /// The libraries from outside that its own manifest may name.
    may_use: &'static [&'static str],
    /// What must not be in its closure, however indirectly.
    never_reaches: &'static [&'static str],
}

const RUNTIMES: &[&str] = &[
    "tokio",
    "rusqlite",
    "reqwest",
    "clap",
    "tracing",
    "rand",
    "getrandom",
];

const LAYERS: &[Layer] = &[
    Layer {
        name: "cf-core",
        may_know: &[],
        may_use: &["jiff", "serde", "thiserror", "uuid"],
        never_reaches: RUNTIMES,
    },
    Layer {
        name: "cf-reconcile",
        may_know: &["cf-core"],
        may_use: &["serde"],
        never_reaches: RUNTIMES,
    },
    Layer {
        name: "cf-github",
        may_know: &["cf-core"],
        may_use: &[
            "governor",
            "jiff",
            "moka",
            "reqwest",
            "ring",
            "rustls",
            "secrecy",
            "serde",
            "serde_json",
            "thiserror",
            "tokio",
            "tracing",
        ],
        never_reaches: &["rusqlite", "clap", "cf-reconcile", "cf-conductor"],
    },
    Layer {
        name: "cf-conductor",
        may_know: &["cf-core", "cf-github", "cf-reconcile"],
        may_use: &[
            "close_fds",
            "refinery",
            "rusqlite",
            "rustix",
            "serde",
            "serde_json",
            "signal-hook",
            "thiserror",
            "tokio",
            "tokio-util",
            "tracing",
            "uuid",
        ],
        never_reaches: &["clap", "comfy-table", "anstream", "unicode-width"],
    },
    Layer {
        name: "cf-cli",
        may_know: &["cf-conductor", "cf-core"],
        may_use: &[
            "anstream",
            "clap",
            "clap_complete",
            "clap_mangen",
            "comfy-table",
            "rustix",
            "serde",
            "serde_json",
            "strsim",
            "thiserror",
            "tokio",
            "toml",
            "tracing",
            "tracing-subscriber",
            "unicode-width",
        ],
        never_reaches: &[],
    },
];

/// The crates whose closure is under review: those of the product.
const CLOSURES: &[&str] = &[
    "cf-core",
    "cf-reconcile",
    "cf-github",
    "cf-conductor",
    "cf-cli",
];

/// No crate knows a crate, or reaches a library, that its layer forbids.
pub(crate) fn rules(repo: &Repo, _: Mode) -> Result<String, Problem> {
    let packages = repo.packages()?;
    let ours: BTreeSet<&str> = packages
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    let mut findings = Vec::new();
    for layer in LAYERS {
        let Some(package) = packages.iter().find(|package| package.name == layer.name) else {
            findings.push(format!("{} is missing from the workspace", layer.name));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|found| !found.dev) {
            let name = dependency.name.as_str();
            if ours.contains(name) && !layer.may_know.contains(&name) {
                findings.push(format!("{} may not know {name}", layer.name));
            }
            if !ours.contains(name) && !layer.may_use.contains(&name) {
                findings.push(format!("{} may not use {name}", layer.name));
            }
        }
        let closure = closure(repo, layer.name)?;
        for forbidden in layer.never_reaches {
            if closure.contains(*forbidden) {
                findings.push(format!("{} reaches {forbidden}", layer.name));
            }
        }
    }
    Problem::unless_empty(
        &findings,
        format!("{} crates keep to their layer", LAYERS.len()),
        "`cargo tree -p CRATE -e normal,build -i LIBRARY` shows the way; the rule is a table in xtask/src/checks/layers.rs",
    )
}

/// The closure of each crate is the one that was reviewed.
pub(crate) fn closures(repo: &Repo, mode: Mode) -> Result<String, Problem> {
    let mut findings = Vec::new();
    let mut sizes = Vec::new();
    for name in CLOSURES {
        let lines: Vec<String> = closure(repo, name)?.into_iter().collect();
        sizes.push(format!("{name} {}", lines.len()));
        findings.extend(golden::compare(
            repo,
            mode,
            &format!("closure-{name}.txt"),
            &lines,
        )?);
    }
    Problem::unless_empty(
        &findings,
        sizes.join(", "),
        "if each of them is worth its weight, `cargo xtask ci --update` accepts them",
    )
}

/// Everything that a build of the crate compiles on Linux, by name, without the crate itself.
pub(crate) fn closure(repo: &Repo, name: &str) -> Result<BTreeSet<String>, Problem> {
    let tree = output(&mut repo.cargo(&[
        "tree",
        "--package",
        name,
        "--edges=normal,build",
        "--prefix=none",
        "--format={p}",
        "--target=x86_64-unknown-linux-gnu",
    ]))?;
    Ok(tree
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|found| *found != name)
        .map(str::to_owned)
        .collect())
}
