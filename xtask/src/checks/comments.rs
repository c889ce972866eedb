//! Comments that are too wide. Code is rustfmt's business; comments and strings it leaves as they are.

use crate::ci::Mode;
use crate::problem::Problem;
use crate::repo::Repo;

const COLUMNS: usize = 120;

/// No comment of a Rust source is wider than a reviewer's window.
pub(crate) fn width(repo: &Repo, _: Mode) -> Result<String, Problem> {
    let mut findings = Vec::new();
    for file in repo.files()? {
        if file.extension().is_none_or(|ext| ext != "rs") {
            continue;
        }
        let text = repo.text(&file).unwrap_or_default();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| is_wide(line)) {
            findings.push(format!(
                "{}:{}: {} columns",
                file.display(),
                number + 1,
                line.chars().count()
            ));
        }
    }
    Problem::unless_empty(
        &findings,
        format!("none beyond {COLUMNS} columns"),
        "wrap them",
    )
}

fn is_wide(line: &str) -> bool {
    line.trim_start().starts_with("//") && line.chars().count() > COLUMNS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_counted_in_characters_and_in_comments_only() {
        let wide = "…".repeat(COLUMNS - 2);
        assert!(!is_wide(&format!("//{wide}")));
        assert!(is_wide(&format!("// {wide}")));
        assert!(!is_wide(&format!("let long = \"{wide}\";")));
    }
}
