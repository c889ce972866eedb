//! What every crate's manifest has in common.

use std::fs;

use crate::ci::Mode;
use crate::problem::Problem;
use crate::repo::Repo;

/// Every crate inherits the workspace's lints and takes its dependencies from the workspace's table.
pub(crate) fn inherit(repo: &Repo, _: Mode) -> Result<String, Problem> {
    let packages = repo.packages()?;
    let mut findings = Vec::new();
    for package in &packages {
        let manifest = fs::read_to_string(package.folder.join("Cargo.toml"))?;
        findings.extend(
            faults(&manifest)
                .into_iter()
                .map(|fault| format!("{}: {fault}", package.name)),
        );
    }
    Problem::unless_empty(
        &findings,
        format!("{} crates inherit lints and versions", packages.len()),
        "write `[lints] workspace = true`, and `name.workspace = true` for each dependency",
    )
}

fn faults(manifest: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut section = "";
    let mut lints = false;
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        } else if section == "[lints]" {
            lints |= line == "workspace = true";
        } else if section.ends_with("dependencies]")
            && !line.is_empty()
            && !line.starts_with('#')
            && line.contains('=')
            && !line.replace(' ', "").contains("workspace=true")
        {
            faults.push(format!("a dependency with a version of its own: {line}"));
        }
    }
    if !lints {
        faults.push("does not inherit the workspace's lints".to_owned());
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_of_its_own_and_missing_lints_are_found() {
        assert_eq!(
            faults("[dependencies]\na.workspace = true\nb = \"1\"\n").len(),
            2
        );
        assert!(faults("[dependencies]\na = { workspace = true, optional = true }\n[lints]\nworkspace = true\n").is_empty());
    }
}
