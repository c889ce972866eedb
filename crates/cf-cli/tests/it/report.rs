//! `cf work batch report`: words, JSON, and a page that needs nothing else.

use std::os::unix::fs::{MetadataExt as _, symlink};

use cf_testkit::Workspace;

use crate::{waiter, workspace};

const HOSTILE: &str = "</script><script>alert(1)</script>";

/// A batch of which one task succeeds at the second attempt, one fails, and one is skipped for it.
fn ended_badly() -> Workspace {
    let ws = workspace();
    ws.task("good")
        .run("[ -e tried ] || { touch tried; exit 3; }")
        .add();
    ws.cf([
        "tasks",
        "add",
        HOSTILE,
        "--key",
        "bad",
        "--run",
        "echo broken >&2; exit 4",
    ])
    .ok();
    ws.task("after").run("true").after("bad").add();
    ws.run(["--all-ready", "--retry", "1", "--retry-delay", "0s"])
        .code(3);
    ws
}

#[test]
fn words_say_what_was_not_completed_and_why() {
    let ws = ended_badly();
    ws.cf(["work", "batch", "report"])
        .ok()
        .says("PARTIAL")
        .says("4, 2 of them retries")
        .says("exit code   3")
        .says("Not completed:")
        .says("exit code 4: broken")
        .says("dependency bad failed");
}

#[test]
fn a_page_needs_nothing_else_and_is_for_its_maker_alone() {
    let ws = ended_badly();
    ws.cf(["work", "batch", "report", "--html", "report.html"])
        .ok()
        .says("wrote report.html");
    let mode = std::fs::metadata(ws.root().join("report.html"))
        .unwrap()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let page = ws.read("report.html");
    assert!(page.starts_with("<!doctype html>"));
    assert!(page.contains("default-src 'none'; style-src 'sha256-"));
    assert!(!page.contains("unsafe-") && !page.contains(HOSTILE));
    assert!(page.contains("&lt;/script&gt;&lt;script&gt;alert(1)"));
    assert_eq!(page.matches("<script").count(), 1);
    for loads in [" src=", "<link", "@import", "url(http"] {
        assert!(!page.contains(loads), "{loads}");
    }
    let printed = ws
        .cf(["work", "batch", "report", "--html", "-"])
        .ok()
        .stdout();
    assert!(printed.starts_with("<!doctype html>"));
}

#[test]
fn a_page_takes_the_place_of_an_older_file_and_of_nothing_else() {
    let ws = ended_badly();
    ws.write("report.html", "older");
    let told = ws
        .cf(["work", "batch", "report", "--html", "report.html", "--json"])
        .ok()
        .json();
    assert_eq!(
        told["html"].as_str(),
        Some(&*ws.root().join("report.html").to_string_lossy())
    );
    assert_eq!(told["batch"].as_str(), Some(&*ws.batch_id()));
    assert!(ws.read("report.html").starts_with("<!doctype html>"));
    ws.write("target", "untouched");
    symlink("target", ws.root().join("link.html")).unwrap();
    ws.cf(["work", "batch", "report", "--html", "link.html"])
        .refused()
        .says("not an ordinary file");
    assert_eq!(ws.read("target"), "untouched");
    ws.cf(["work", "batch", "report", "--html", "none/report.html"])
        .refused()
        .says("none/report.html");
}

#[test]
fn json_has_attempts_with_slots_and_actions_with_evidence() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    ws.add("b", &waiter("b"));
    let mut run = ws.start(["a", "b", "--max-parallel", "2"]);
    ws.wait_for_pid("a.pid");
    ws.wait_for_pid("b.pid");
    let live = ws.cf(["work", "batch", "report", "--json"]).ok().json();
    assert_eq!(live["batch"]["status"], "RUNNING");
    assert!(live["attempts"][1]["ended_at"].is_null());
    assert!(run.is_running());
    ws.set("b", "DONE");
    ws.touch("a.go");
    run.wait().ok();
    let report = ws.cf(["work", "batch", "report", "--json"]).ok().json();
    let keys: Vec<&str> = report
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let expected = [
        "actions",
        "attempts",
        "batch",
        "made_at",
        "questions",
        "retries",
        "tasks",
        "work_ms",
    ];
    assert_eq!(keys, expected);
    let slots: Vec<_> = report["attempts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|attempt| attempt["slot"].as_u64())
        .collect();
    assert_eq!(slots, [Some(1), Some(2)]);
    let action = &report["actions"][0];
    assert_eq!(action["data"]["action"], "SKIP");
    assert_eq!(action["data"]["evidence"]["status"], "DONE");
    let task: Vec<&str> = report["tasks"][0]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let expected = [
        "depends_on",
        "label",
        "outcome",
        "phase",
        "reason",
        "task",
        "title",
        "work_ms",
    ];
    assert_eq!(task, expected);
}

#[test]
fn what_cannot_be_reported_is_refused() {
    let ws = workspace();
    ws.cf(["work", "batch", "report"])
        .refused()
        .says("no batch yet");
    ws.add("a", "true");
    ws.run(["a"]).ok();
    ws.cf(["work", "batch", "report", "feedbeef"])
        .refused()
        .says("feedbeef");
    ws.cf(["work", "batch", "report", "--html", "-", "--json"])
        .code(2);
}
