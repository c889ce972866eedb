//! Manual pages, and completions that shells take.

use std::process::{Command, Stdio};

use test_case::test_case;

use crate::empty_folder;

#[test]
fn every_command_has_a_page() {
    let ws = empty_folder();
    let written = ws.cf(["man", "--dir", "pages/man1", "--json"]).json();
    let pages: Vec<&str> = written["pages"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|page| page.as_str())
        .collect();
    for page in [
        "cf.1",
        "cf-tasks.1",
        "cf-tasks-add.1",
        "cf-work-batch-run.1",
        "cf-doctor.1",
        "cf-man.1",
    ] {
        assert!(pages.contains(&page), "{page} is not among {pages:?}");
        let text = ws.read(&format!("pages/man1/{page}"));
        assert!(
            text.contains(".SH SYNOPSIS") && text.contains(".SH DESCRIPTION"),
            "{page}: {text}"
        );
    }
    // The folder is the user's, where the pages of other programs lie too.
    let folder = std::fs::read_dir(ws.root().join("pages/man1")).expect("the folder is there");
    let names = folder.map(|entry| entry.expect("it can be read").file_name());
    let mut names: Vec<_> = names.filter_map(|name| name.into_string().ok()).collect();
    names.sort();
    assert_eq!(names, pages);
    assert!(pages.contains(&"cf-help-tasks-set-status.1"), "{pages:?}");
    assert!(
        ws.read("pages/man1/cf-tasks-add.1")
            .contains("\\-\\-depends\\-on")
    );
    ws.cf(["man", "--dir", "pages/man1"]).ok().says("wrote");
}

#[test]
fn one_page_is_printed() {
    let ws = empty_folder();
    let page = ws.cf(["man", "tasks", "add"]).ok().stdout();
    assert!(
        page.contains(".TH") && page.contains("\\-\\-verify"),
        "{page}"
    );
    let whole = ws.cf(["man"]).ok().stdout();
    assert!(
        whole.contains("doctor") && whole.contains("Exit codes"),
        "{whole}"
    );
    ws.cf(["man", "tasks", "dd"])
        .code(2)
        .says("there is no command `cf tasks dd`");
    ws.cf(["man", "tasks", "--dir", "x"]).code(2);
}

/// Each shell that is here reads its script without running a command of it.
#[test_case("bash", "bash", &["-n"]; "bash")]
#[test_case("zsh", "zsh", &["-n"]; "zsh")]
#[test_case("fish", "fish", &["--no-execute"]; "fish")]
fn a_shell_takes_its_completions(name: &str, shell: &str, check: &[&str]) {
    let ws = empty_folder();
    let script = ws.cf(["completions", name]).ok().stdout();
    for word in ["doctor", "import", "max-parallel"] {
        assert!(script.contains(word), "{name} does not complete {word}");
    }
    ws.write("completions", &script);
    let read = Command::new(shell)
        .args(check)
        .arg(ws.root().join("completions"))
        .stdin(Stdio::null())
        .status();
    // A shell that is not installed cannot be asked.
    if let Ok(status) = read {
        assert!(status.success(), "{name} refuses its script");
    }
}

#[test]
fn powershell_and_elvish_have_completions_too() {
    let ws = empty_folder();
    for name in ["powershell", "elvish"] {
        assert!(
            ws.cf(["completions", name])
                .ok()
                .stdout()
                .contains("doctor"),
            "{name}"
        );
    }
}
