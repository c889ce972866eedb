//! Workspaces with names that a shell, a `PATH`, JSON or a terminal would take for something else.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use cf_testkit::{Workspace, process};
use test_case::test_case;

use crate::sleeper;

fn named(name: impl AsRef<OsStr>) -> Workspace {
    Workspace::named(env!("CARGO_BIN_EXE_cf"), name).init()
}

#[test_case("with a space"; "a space")]
#[test_case("it's \"quoted\""; "quotes")]
#[test_case("line\nbreak"; "a line break")]
#[test_case("on:path"; "a colon")]
#[test_case("--force"; "a flag")]
#[test_case("$(touch owned);`touch owned`&*?"; "what a shell would run")]
#[test_case("\u{1b}[2Jünï\u{202e}cöde"; "what a terminal would obey")]
fn a_batch_runs_wherever_its_workspace_lies(name: &str) {
    let ws = named(name);
    ws.add(
        "a",
        "cf tasks set status self DONE && pwd > here && cp \"$CF_PROMPT_FILE\" .",
    );
    ws.task("b")
        .run("test -e here")
        .verify("test -e here")
        .after("a")
        .add();
    let ran = ws.run(["a", "b"]).ok();
    assert_eq!(ws.read("here"), format!("{}\n", ws.root().display()));
    assert!(!ws.exists("owned") && !ws.exists(".cf/owned"));
    let mut shown = ran.text();
    for args in [
        ["status"].as_slice(),
        &["tasks", "show", "a"],
        &["config", "show"],
        &["config", "check"],
    ] {
        shown.push_str(&ws.cf(args).ok().text());
    }
    assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
    assert_eq!(
        ws.cf(["status", "--json"]).json()["workspace"],
        ws.root().to_str().expect("it is text")
    );
    ws.add("s", &sleeper("s"));
    let batch = ws.start(["s"]);
    let pid = ws.wait_for_pid("s.pid");
    batch.kill9();
    ws.cf(["stop", "--force", ws.batch_id().as_str()]);
    ws.wait_until("the agent is gone", || !process::alive(pid));
}

#[test]
fn a_path_that_is_not_text_is_a_path_all_the_same() {
    let ws = named(OsStr::from_bytes(b"not \xff\xfe text"));
    ws.add(
        "a",
        "cf tasks set status self DONE && cf blocker list && touch \"$CF_WORKSPACE/ran\"",
    );
    ws.run(["a"]).ok();
    assert!(ws.exists("ran"));
    let shown = ws.cf(["status", "--json"]).json();
    // JSON is text: what is none is replaced, and says so by that.
    assert!(
        shown["workspace"]
            .as_str()
            .is_some_and(|path| path.contains("not \u{fffd}")),
        "{shown}"
    );
    for args in [
        ["tasks", "show", "a"].as_slice(),
        &["explain", "a"],
        &["config", "show"],
        &["config", "check"],
        &["work", "batch", "status"],
        &["github", "status"],
        &["init"],
    ] {
        ws.cf(args).ok();
        ws.cf(args.iter().chain(&["--json"])).json();
    }
    ws.plan("[[task]]\nkey = 'p'\ntitle = 'p'\nrun = 'true'\n");
    ws.run(["--file", "plan.toml"]).ok();
    ws.config("max_paralel = 2\n");
    ws.cf(["config", "check", "--json"]).refused().json_error();
}

#[test]
fn every_path_in_json_is_one_that_may_be_no_text() {
    let ws = named(OsStr::from_bytes(b"not \xff text"));
    ws.config("[hooks]\non_batch_end = 'cat > told'\n");
    ws.add("a", "true");
    ws.run(["a"]).ok();
    let told: serde_json::Value = serde_json::from_str(&ws.read("told")).expect("it is JSON");
    let left = ".cf/supervisors/00000000-0000-4000-8000-000000000001.sup";
    ws.write(left, "");
    std::fs::File::open(ws.root().join(left))
        .and_then(|file| file.set_modified(std::time::UNIX_EPOCH))
        .expect("it is ours");
    let doctor = ws.cf(["doctor", "--fix", "--json"]).json();
    let pages = ws.root().join("pages");
    let man = ["--json", "man", "--dir"].map(OsStr::new);
    let man = ws.cf(man.into_iter().chain([pages.as_os_str()])).json();
    let page = ["work", "batch", "report", "--html", "page.html", "--json"];
    let _database = ws.other_database(
        ".codeframe/state.db",
        "CREATE TABLE workspace (id TEXT); INSERT INTO workspace VALUES ('w'); CREATE TABLE tasks (id TEXT, title TEXT);",
    );
    let imported = ws.cf(["import", "codeframe", "--json"]).json();
    for path in [
        &told["workspace"],
        &doctor["leftovers"][0]["path"],
        &doctor["cleaned"][0]["path"],
        &man["dir"],
        &ws.cf(page).json()["html"],
        &imported["database"],
    ] {
        let path = path.as_str().expect("a path is a text");
        assert!(path.contains("not \u{fffd} text"), "{path}");
    }
}

#[test]
fn two_workspaces_with_a_colon_share_no_link() {
    let (one, other) = (named("a:b"), named("a:b"));
    for ws in [&one, &other] {
        ws.add("a", "command -v cf > found");
        ws.run(["a"]).ok();
    }
    let found = one.read("found");
    assert!(
        !found.contains("a:b") && found.ends_with("/cf\n"),
        "{found}"
    );
    assert_ne!(found, other.read("found"));
}
