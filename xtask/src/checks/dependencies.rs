//! Dependencies that nobody uses.

use std::fs;
use std::path::Path;

use crate::ci::Mode;
use crate::problem::Problem;
use crate::repo::Repo;

/// Dependencies that no source names, and why they stand in a manifest all the same: (crate, dependency, reason).
const UNNAMED: &[(&str, &str, &str)] = &[];

/// Every dependency that a manifest names occurs as an identifier in the sources that it is for.
pub(crate) fn unused(repo: &Repo, _: Mode) -> Result<String, Problem> {
    let mut findings = Vec::new();
    let mut count = 0;
    for package in repo.packages()? {
        let mut product = String::new();
        read_sources(&package.folder.join("src"), &mut product)?;
        for folder in ["floor", "scale", "torture"] {
            read_sources(&package.folder.join(folder), &mut product)?;
        }
        product.push_str(&fs::read_to_string(package.folder.join("build.rs")).unwrap_or_default());
        let mut tests = product.clone();
        for folder in ["tests", "examples", "benches"] {
            read_sources(&package.folder.join(folder), &mut tests)?;
        }
        for dependency in &package.dependencies {
            count += 1;
            let sources = if dependency.dev { &tests } else { &product };
            let excused = UNNAMED.iter().any(|(by, what, _)| {
                *by == package.name.as_str() && *what == dependency.name.as_str()
            });
            if !excused && !names(sources, &dependency.ident) {
                findings.push(format!("{} does not use {}", package.name, dependency.name));
            }
        }
    }
    Problem::unless_empty(
        &findings,
        format!("{count} dependencies, each named by a source"),
        "take them out of the manifest; one that is there for a feature alone goes into UNNAMED, with its reason",
    )
}

/// Appends every Rust source below a folder, without its comments.
fn read_sources(folder: &Path, into: &mut String) -> Result<(), Problem> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(());
    };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            read_sources(&path, into)?;
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            let text = fs::read_to_string(&path)?;
            for line in text
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"))
            {
                into.push_str(line);
                into.push('\n');
            }
        }
    }
    Ok(())
}

/// Tells whether the text has the identifier as a whole word.
fn names(text: &str, ident: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(ident)
        .any(|(at, _)| !text[..at].ends_with(part) && !text[at + ident.len()..].starts_with(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("use toml::Table;", "toml" => true)]
    #[test_case("toml_edit::parse()", "toml" => false; "part of another name")]
    #[test_case("#[serde_json::x]", "serde_json" => true)]
    fn an_identifier_counts_only_as_a_whole_word(text: &str, ident: &str) -> bool {
        names(text, ident)
    }
}
