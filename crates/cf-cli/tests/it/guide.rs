//! The guide, followed to the letter: every chapter in a folder of its own, every command line run, and what it shows
//! compared with what is printed.
//!
//! Fenced `sh` blocks are run as they stand, by a shell that stops at the first failure. HTML comments above a block
//! say what a reader does by hand: `file NAME` writes the `toml` block below into a file, `exit N` names the exit code,
//! `background` leaves the block running for those below that say `second shell`. A `text` block shows lines of what
//! the `sh` block above prints, `…` for anything.

use cf_testkit::github::ScriptedGithub;
use cf_testkit::{Running, Workspace};

use crate::empty_folder;

const GUIDE: &str = include_str!("../../../../docs/guide.md");

/// A program that stands for Claude Code: it does what the guide's tasks ask for, and says so.
const CLAUDE: &str = r#"#!/bin/sh
cat > prompt.txt
mkdir -p docs && echo '03-14' > docs/dates.md
echo '{"type":"result","subtype":"success","is_error":false,"result":"done","permission_denials":[]}'
"#;

#[derive(Debug, PartialEq, Eq)]
struct Block<'g> {
    /// What the comment above it says; empty without one.
    mark: &'g str,
    language: &'g str,
    text: String,
}

/// The blocks of each chapter, with its heading.
fn chapters(guide: &str) -> Vec<(&str, Vec<Block<'_>>)> {
    let mut chapters = Vec::new();
    let mut mark = "";
    let mut lines = guide.lines();
    while let Some(line) = lines.next() {
        if let Some(heading) = line.strip_prefix("## ") {
            mark = "";
            chapters.push((heading, Vec::new()));
        } else if let Some(comment) = line.strip_prefix("<!-- ") {
            mark = comment.trim_end_matches("-->").trim();
        } else if let Some(language) = line.strip_prefix("```") {
            let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            let (_, blocks) = chapters.last_mut().expect("blocks stand in chapters");
            blocks.push(Block {
                mark,
                language,
                text: text.join("\n"),
            });
            mark = "";
        }
    }
    chapters
}

/// Follows a chapter.
fn follow(heading: &str, ws: &Workspace) {
    let chapters = chapters(GUIDE);
    let (_, blocks) = chapters
        .iter()
        .find(|(found, _)| *found == heading)
        .expect("the chapter is there");
    let mut running: Option<(Running<'_>, &str)> = None;
    let mut printed = String::new();
    for block in blocks {
        match block.language {
            "toml" => match block.mark.strip_prefix("file ") {
                Some(name) => ws.write(name, &block.text),
                None => panic!(
                    "{heading}: a reader does not know where this goes:\n{}",
                    block.text
                ),
            },
            "sh" if block.mark.starts_with("background") => {
                let mut started = ws.lines_of_shell(&block.text).spawn();
                started.wait_for_text("started ");
                running = Some((started, block.mark));
            }
            "sh" => {
                if block.mark != "second shell" {
                    end(running.take());
                }
                let code = block
                    .mark
                    .strip_prefix("exit ")
                    .map_or(0, |code| code.parse().expect("a code"));
                printed = ws.lines_of_shell(&block.text).run().code(code).text();
            }
            "text" => shows(heading, &block.text, &printed),
            other => panic!("{heading}: nobody checks a block of {other:?}"),
        }
    }
    end(running);
}

/// Waits for what ran in the first shell.
fn end(running: Option<(Running<'_>, &str)>) {
    match running {
        Some((running, "background")) => drop(running.wait().ok()),
        // The shell tells of the signal, or has become the program that was killed.
        Some((running, "background, killed")) => {
            let code = running.wait().exit_code();
            assert!(matches!(code, None | Some(137)), "{code:?}");
        }
        Some((_, other)) => panic!("no such mark: {other}"),
        None => {}
    }
}

/// Each line that the guide shows is printed, in this order.
fn shows(heading: &str, shown: &str, printed: &str) {
    let mut lines = printed.lines();
    for wanted in shown.lines() {
        assert!(
            lines.any(|line| is_like(wanted, line)),
            "{heading}: the guide shows {wanted:?}, but this was printed:\n{printed}"
        );
    }
}

/// Whether a line has the pieces of another, which `…` divides; spaces at either end do not count.
fn is_like(wanted: &str, line: &str) -> bool {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (wanted, line) = (words(wanted), words(line));
    if !wanted.contains('…') {
        return wanted == line;
    }
    let mut rest = line.as_str();
    for piece in wanted.split('…').map(str::trim) {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    true
}

#[test]
fn a_first_batch() {
    follow("A first batch", &empty_folder());
}

#[test]
fn claude_code_on_a_github_repository() {
    let github = ScriptedGithub::start();
    github.issue("octocat/hello-world", 12);
    github.change("octocat/hello-world", 12, |item| {
        item.labels.push("bug".to_owned());
    });
    github.pull_request("octocat/hello-world", 13);
    let ws = empty_folder().with(github.environment()).git();
    ws.program("claude", CLAUDE);
    ws.program("cargo", "#!/bin/sh\n");
    follow("Claude Code on a GitHub repository", &ws);
    assert!(ws.read("prompt.txt").contains("A table of every format"));
}

#[test]
fn several_agents_at_once() {
    follow("Several agents at once", &empty_folder());
}

#[test]
fn seeing_what_happens() {
    follow("Seeing what happens", &empty_folder());
}

#[test]
fn when_something_blocks() {
    follow("When something blocks", &empty_folder());
}

#[test]
fn after_a_crash() {
    follow("After a crash", &empty_folder());
}

#[test]
fn in_ci() {
    follow("In CI", &empty_folder());
}

#[test]
fn every_chapter_with_commands_is_followed() {
    let with_commands: Vec<&str> = chapters(GUIDE)
        .iter()
        .filter(|(_, blocks)| !blocks.is_empty())
        .map(|(heading, _)| *heading)
        .collect();
    assert_eq!(
        with_commands,
        [
            "A first batch",
            "Claude Code on a GitHub repository",
            "Several agents at once",
            "Seeing what happens",
            "When something blocks",
            "After a crash",
            "In CI",
        ]
    );
}

#[test]
fn a_line_is_like_another_when_all_pieces_stand_in_it() {
    assert!(is_like(
        "batch … COMPLETED  2 completed",
        "batch 1a2b COMPLETED 2 completed"
    ));
    assert!(!is_like("batch … FAILED", "batch 1a2b COMPLETED"));
    assert!(!is_like("two", "one two"));
}
