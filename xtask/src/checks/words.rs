//! Words that do not belong into the tree, and words that are spelled wrongly.

use std::path::Path;

use crate::ci::Mode;
use crate::problem::Problem;
use crate::repo::Repo;

/// A text that must not occur, in which files, and why.
struct Banned {
    text: &'static str,
    /// Only files with this extension; none means every file.
    only: Option<&'static str>,
    whole_word: bool,
    why: &'static str,
}

const fn anywhere(text: &'static str, why: &'static str) -> Banned {
    Banned {
        text,
        only: None,
        whole_word: false,
        why,
    }
}

const fn in_rust(text: &'static str, why: &'static str) -> Banned {
    Banned {
        text,
        only: Some("rs"),
        whole_word: false,
        why,
    }
}

const fn word(text: &'static str, why: &'static str) -> Banned {
    Banned {
        text,
        only: None,
        whole_word: true,
        why,
    }
}

const MACHINE: &str = "a path of one machine";
const REGISTRY: &str = "the host of a package registry: the ordinary clients know where to go";
const UNFINISHED: &str = "unfinished work is an issue, not a comment";

/// The texts are written in two parts, so that this file does not find itself.
const BANNED: &[Banned] = &[
    anywhere(concat!("/wo", "rk/"), MACHINE),
    anywhere(concat!("/ro", "ot/"), MACHINE),
    anywhere(concat!("../sha", "red"), "a path outside the repository"),
    anywhere(concat!("index.cra", "tes.io"), REGISTRY),
    anywhere(concat!("static.cra", "tes.io"), REGISTRY),
    anywhere(concat!("npm", "js.org"), REGISTRY),
    anywhere(concat!("py", "pi.org"), REGISTRY),
    anywhere(concat!("deb.deb", "ian.org"), REGISTRY),
    in_rust(
        concat!("#[al", "low("),
        "an exception carries its reason: #[expect(lint, reason = \"…\")]",
    ),
    in_rust(
        concat!("#![al", "low("),
        "an exception carries its reason: #![expect(lint, reason = \"…\")]",
    ),
    in_rust(concat!("to", "do!("), UNFINISHED),
    in_rust(concat!("unimple", "mented!("), UNFINISHED),
    word(concat!("TO", "DO"), UNFINISHED),
    word(concat!("FIX", "ME"), UNFINISHED),
    word(concat!("XX", "X"), UNFINISHED),
];

/// Files that are not ours to word: lock files name registries, licences are what they are.
const NOT_OURS: &[&str] = &["Cargo.lock", "LICENSE-APACHE", "LICENSE-MIT"];

const MISSPELLINGS: &str = "xtask/data/misspellings.txt";

/// No file has a text that does not belong into the tree.
pub(crate) fn banned(repo: &Repo, _: Mode) -> Result<String, Problem> {
    let mut findings = Vec::new();
    let mut count = 0;
    for (file, text) in ours(repo)? {
        count += 1;
        for (number, line) in text.lines().enumerate() {
            for ban in BANNED {
                if ban.found_in(&file, line) {
                    findings.push(format!(
                        "{}:{}: {} ({})",
                        file,
                        number + 1,
                        ban.text,
                        ban.why
                    ));
                }
            }
        }
    }
    Problem::unless_empty(
        &findings,
        format!("none in {count} files"),
        "the list, with reasons, is in xtask/src/checks/words.rs",
    )
}

/// No file has one of the misspellings that are common in English technical text.
///
/// This is a list of mistakes, not a dictionary: it finds the usual ones and accepts every name.
pub(crate) fn misspelled(repo: &Repo, _: Mode) -> Result<String, Problem> {
    let list = repo
        .text(Path::new(MISSPELLINGS))
        .ok_or_else(|| Problem::new(format!("{MISSPELLINGS} is missing")))?;
    let wrong: Vec<(&str, &str)> = list
        .lines()
        .filter_map(|line| line.split_once(' '))
        .collect();
    let mut findings = Vec::new();
    let mut count = 0;
    for (file, text) in ours(repo)?
        .into_iter()
        .filter(|(file, _)| file != MISSPELLINGS)
    {
        count += 1;
        for (number, line) in text.lines().enumerate() {
            for found in line.split(|c: char| !c.is_alphabetic()) {
                let found = found.to_lowercase();
                if let Ok(at) = wrong.binary_search_by(|(word, _)| (*word).cmp(&found)) {
                    findings.push(format!(
                        "{file}:{}: {found} is spelled {}",
                        number + 1,
                        wrong[at].1
                    ));
                }
            }
        }
    }
    Problem::unless_empty(
        &findings,
        format!("none of {} known mistakes in {count} files", wrong.len()),
        "correct them",
    )
}

impl Banned {
    fn found_in(&self, file: &str, line: &str) -> bool {
        if self
            .only
            .is_some_and(|only| Path::new(file).extension().is_none_or(|ext| ext != only))
        {
            return false;
        }
        let part = |c: char| c.is_alphanumeric() || c == '_';
        line.match_indices(self.text).any(|(at, _)| {
            !self.whole_word
                || (!line[..at].ends_with(part) && !line[at + self.text.len()..].starts_with(part))
        })
    }
}

/// Every text file that we wrote, with its text.
fn ours(repo: &Repo) -> Result<Vec<(String, String)>, Problem> {
    Ok(repo
        .files()?
        .into_iter()
        .filter(|file| {
            !NOT_OURS
                .iter()
                .any(|name| file.file_name().is_some_and(|found| found == *name))
        })
        .filter_map(|file| {
            let text = repo.text(&file)?;
            Some((file.to_string_lossy().into_owned(), text))
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_misspellings_is_sorted_and_lower_case() {
        let list = include_str!("../../data/misspellings.txt");
        let words: Vec<&str> = list
            .lines()
            .map(|line| line.split_once(' ').expect("two words a line").0)
            .collect();
        assert!(words.is_sorted());
        assert!(words.iter().all(|word| *word == word.to_lowercase()));
    }

    #[test]
    fn a_banned_word_counts_only_as_a_word_and_a_text_anywhere() {
        let unfinished = word("LATER", "");
        assert!(unfinished.found_in("a.md", "LATER: this"));
        assert!(!unfinished.found_in("a.md", "SEE_LATER"));
        let rust = in_rust("x!(", "");
        assert!(rust.found_in("a.rs", "x!(1)"));
        assert!(!rust.found_in("a.md", "x!(1)"));
    }
}
