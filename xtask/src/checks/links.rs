//! Links in Markdown files that lead nowhere. Links to the network are not followed.

use std::path::{Path, PathBuf};

use crate::ci::Mode;
use crate::problem::Problem;
use crate::repo::Repo;

/// Every relative link of every Markdown file leads to a file, and to a heading of it when it names one.
pub(crate) fn resolve(repo: &Repo, _: Mode) -> Result<String, Problem> {
    let mut findings = Vec::new();
    let mut count = 0;
    for file in repo.files()? {
        if file.extension().is_none_or(|ext| ext != "md") {
            continue;
        }
        let text = repo.text(&file).unwrap_or_default();
        for target in links(&text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            count += 1;
            if let Some(fault) = fault(repo, &file, &text, &target) {
                findings.push(format!("{}: {target}: {fault}", file.display()));
            }
        }
    }
    Problem::unless_empty(
        &findings,
        format!("{count} lead somewhere"),
        "correct the link, or write what it points to",
    )
}

fn fault(repo: &Repo, file: &Path, text: &str, target: &str) -> Option<&'static str> {
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let (place, text) = if path.is_empty() {
        (file.to_path_buf(), text.to_owned())
    } else {
        let place = normal(&file.parent().unwrap_or(Path::new("")).join(path));
        if !repo.root.join(&place).exists() {
            return Some("no such file");
        }
        (place.clone(), repo.text(&place).unwrap_or_default())
    };
    let is_markdown = place.extension().is_some_and(|ext| ext == "md");
    if !heading.is_empty() && is_markdown && !headings(&text).any(|found| found == heading) {
        return Some("no such heading");
    }
    None
}

/// Resolves `..` and `.` by name.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                normal.pop();
            }
            std::path::Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

/// The targets of `[text](target)` and of `[name]: target`, outside code.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(text) {
        let mut rest = line.as_str();
        while let Some(at) = rest.find("](") {
            rest = &rest[at + 2..];
            if let Some(end) = rest.find(')') {
                found.push(
                    rest[..end]
                        .split_whitespace()
                        .next()
                        .unwrap_or_default()
                        .to_owned(),
                );
            }
        }
        if let Some((name, target)) = line.split_once("]: ")
            && name.starts_with('[')
        {
            found.push(target.trim().to_owned());
        }
    }
    found
}

/// The anchors of a document's headings, as GitHub makes them.
fn headings(text: &str) -> impl Iterator<Item = String> {
    prose(text)
        .into_iter()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            line.trim_start_matches('#')
                .trim()
                .to_lowercase()
                .chars()
                .filter(|c| c.is_alphanumeric() || *c == ' ' || *c == '-' || *c == '_')
                .map(|c| if c == ' ' { '-' } else { c })
                .collect()
        })
}

/// The lines outside fenced blocks, inline code blanked out of those that hold links.
fn prose(text: &str) -> Vec<String> {
    let mut fenced = false;
    text.lines()
        .filter(|line| {
            let fence = line.trim_start().starts_with("```");
            fenced ^= fence;
            !fenced && !fence
        })
        .map(|line| {
            if line.starts_with('#') {
                return line.replace('`', "");
            }
            line.split('`').step_by(2).collect::<Vec<_>>().join("code")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_code_only() {
        let text = "see [a](b.md#c) and `[x](y)`\n```sh\n[n](o)\n```\n[d]: e.md\n";
        assert_eq!(links(text), ["b.md#c", "e.md"]);
    }

    #[test]
    fn a_heading_is_named_as_github_names_it() {
        let found: Vec<String> = headings("## What `cf` does, and why\n").collect();
        assert_eq!(found, ["what-cf-does-and-why"]);
    }
}
