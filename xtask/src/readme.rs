//! The README's commands, run as they stand.
//!
//! A fenced `sh` block below the line `<!-- test -->` is run in a clean copy of the tree; one below
//! `<!-- run by .ci/run -->` must stand in `.ci/run` word for word, because running it here would run this very chore
//! again.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::problem::Problem;
use crate::repo::{Repo, must, output};

const RUN_HERE: &str = "<!-- test -->";
const RUN_BY_CI: &str = "<!-- run by .ci/run -->";

#[derive(Debug, PartialEq, Eq)]
enum Block {
    RunHere(Vec<String>),
    RunByCi(Vec<String>),
}

/// Runs the marked commands, and returns how many there were.
///
/// # Errors
///
/// A command that fails, and a README whose marks lead nowhere.
pub(crate) fn run_commands(repo: &Repo) -> Result<usize, Problem> {
    let readme = fs::read_to_string(repo.root.join("README.md"))?;
    let ci = fs::read_to_string(repo.root.join(".ci/run"))?;
    let blocks = marked_blocks(&readme)?;
    let mut ran = 0;
    let mut tree = None;
    for block in blocks {
        match block {
            Block::RunByCi(commands) => {
                for command in commands {
                    if !ci.lines().any(|line| line.trim() == command) {
                        return Err(Problem::new(format!(".ci/run does not run `{command}`"))
                            .hint("README.md says that it does; keep the two the same"));
                    }
                    ran += 1;
                }
            }
            Block::RunHere(commands) => {
                let folder = match &tree {
                    Some(folder) => folder,
                    None => tree.insert(clean_copy(repo)?),
                };
                for command in commands {
                    run_in(repo, folder, &command)?;
                    ran += 1;
                }
            }
        }
    }
    if ran == 0 {
        return Err(Problem::new("README.md marks no command to be tested")
            .hint(format!("write `{RUN_HERE}` above its fenced sh blocks")));
    }
    Ok(ran)
}

fn marked_blocks(readme: &str) -> Result<Vec<Block>, Problem> {
    let mut blocks = Vec::new();
    let mut lines = readme.lines();
    while let Some(line) = lines.next() {
        let mark = line.trim();
        if mark != RUN_HERE && mark != RUN_BY_CI {
            continue;
        }
        let opening = lines.find(|line| !line.trim().is_empty());
        if opening.map(str::trim) != Some("```sh") {
            return Err(Problem::new(format!(
                "README.md: no fenced sh block follows {mark}"
            )));
        }
        let commands = lines
            .by_ref()
            .take_while(|line| line.trim() != "```")
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(str::to_owned)
            .collect();
        blocks.push(if mark == RUN_HERE {
            Block::RunHere(commands)
        } else {
            Block::RunByCi(commands)
        });
    }
    Ok(blocks)
}

/// Brings a copy of the tree up to date: a repository of its own, without anything that an earlier run left there.
///
/// Files that are the same are not written again, so that cargo does not compile them again either.
fn clean_copy(repo: &Repo) -> Result<PathBuf, Problem> {
    let copy = repo.target()?.join("readme");
    fs::create_dir_all(&copy)?;
    let files = repo.files()?;
    let known: HashSet<&Path> = files.iter().map(PathBuf::as_path).collect();
    remove_strangers(&copy, &copy, &known)?;
    for file in &files {
        let (from, to) = (repo.root.join(file), copy.join(file));
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        if fs::read(&to).ok() != Some(fs::read(&from)?) {
            fs::copy(&from, &to)?;
        }
    }
    if !copy.join(".git").exists() {
        output(
            Command::new("git")
                .args(["init", "--quiet"])
                .current_dir(&copy),
        )?;
    }
    Ok(copy)
}

fn remove_strangers(root: &Path, folder: &Path, known: &HashSet<&Path>) -> Result<(), Problem> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let relative = path.strip_prefix(root).unwrap_or(&path);
        if entry.file_type()?.is_dir() {
            if relative == Path::new(".git") {
                continue;
            }
            if known.iter().any(|file| file.starts_with(relative)) {
                remove_strangers(root, &path, known)?;
            } else {
                fs::remove_dir_all(&path)?;
            }
        } else if !known.contains(relative) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn run_in(repo: &Repo, folder: &Path, command: &str) -> Result<(), Problem> {
    let mut shell = Command::new("sh");
    shell
        .args(["-eu", "-c", command])
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", repo.target()?)
        .env_remove("CARGO_MANIFEST_DIR")
        .stdin(Stdio::null());
    must(&mut shell).map_err(|problem| {
        Problem::new(format!("README.md: {problem}"))
            .hint("the README's commands must work as they are written, on a fresh clone")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_marked_blocks_are_taken_and_comments_are_left_out() {
        let readme = "```sh\nrm -rf x\n```\n<!-- test -->\n\n```sh\n# a comment\ncargo a\ncargo b\n```\n\
                      <!-- run by .ci/run -->\n```sh\ncargo c\n```\n";
        assert_eq!(
            marked_blocks(readme).unwrap(),
            [
                Block::RunHere(vec!["cargo a".into(), "cargo b".into()]),
                Block::RunByCi(vec!["cargo c".into()]),
            ]
        );
    }

    #[test]
    fn a_mark_that_leads_nowhere_is_a_problem() {
        assert!(marked_blocks("<!-- test -->\ntext\n").is_err());
    }
}
