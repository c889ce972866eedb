//! Symbolic links and named pipes in places where `cf` reads and writes.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use cf_testkit::Workspace;
use test_case::test_case;

use crate::workspace;

/// A folder beside the workspace, to which links lead.
fn elsewhere(ws: &Workspace) -> PathBuf {
    let folder = ws.home().join("elsewhere");
    fs::create_dir_all(&folder).expect("the home is ours");
    folder
}

fn is_empty(folder: &PathBuf) -> bool {
    fs::read_dir(folder).expect("it is there").next().is_none()
}

#[test_case("attempts"; "attempts")]
#[test_case("supervisors"; "supervisors")]
#[test_case("locks"; "locks")]
#[test_case("bin"; "bin")]
fn nothing_is_written_through_a_folder_that_became_a_link(folder: &str) {
    let ws = workspace();
    ws.add("first", "true");
    ws.run(["first"]).ok();
    let outside = elsewhere(&ws);
    let inside = ws.root().join(".cf").join(folder);
    fs::rename(&inside, ws.root().join("moved")).expect("it is there");
    symlink(&outside, &inside).expect("its place is free");
    ws.add("a", "echo said; touch ran");
    let ended = ws.run(["a"]);
    assert!(is_empty(&outside), "{ended:?}");
    assert!(!ws.exists("ran"));
    assert!(matches!(ended.exit_code(), Some(1 | 3)), "{ended:?}");
    ended.says("symbolic link");
}

#[test]
fn an_agent_cannot_lead_prompts_astray() {
    let ws = workspace();
    let outside = elsewhere(&ws);
    let lead = format!(
        "mv .cf/attempts moved; ln -s '{}' .cf/attempts",
        outside.display()
    );
    ws.add("a", &lead);
    ws.task("b").run("touch ran").after("a").add();
    ws.run(["a", "b"]).code(3);
    assert!(is_empty(&outside) && !ws.exists("ran"));
    ws.ended("b", "FAILED", "symbolic link");
}

#[test]
fn an_agent_cannot_lead_logs_astray() {
    let ws = workspace();
    let outside = elsewhere(&ws);
    let lead = format!("mv .cf/logs moved; ln -s '{}' .cf/logs", outside.display());
    ws.add("a", &lead);
    // A log that cannot be written costs what was said, and not the work.
    ws.task("b").run("echo said; touch ran").after("a").add();
    ws.run(["a", "b"]).ok();
    assert!(is_empty(&outside) && ws.exists("ran"));
}

/// Everything that opens the database, and what of it says that it cannot.
fn is_refused_for_a_link(ws: &Workspace, name: &str) {
    for args in [
        &["tasks", "add", "x", "--run", "true"][..],
        &["run", "--all-ready"],
        &["status"],
        &["tasks", "list"],
        &["events"],
        &["init"],
    ] {
        ws.cf(args)
            .refused()
            .says(&format!("{name} is a symbolic link"))
            .says("else remove the link");
    }
    ws.cf(["doctor"])
        .code(1)
        .says(&format!("{name} is a symbolic link"))
        .says("else remove the link");
}

#[test]
fn a_database_that_is_a_link_is_neither_written_nor_read() {
    let ws = workspace();
    let database = ws.root().join(".cf/state.db");
    let moved = elsewhere(&ws).join("state.db");
    fs::rename(&database, &moved).expect("it is there");
    symlink(&moved, &database).expect("its place is free");
    let before = fs::read(&moved).expect("it is there");
    is_refused_for_a_link(&ws, "state.db");
    assert_eq!(fs::read(&moved).expect("it is there"), before);
    fs::remove_file(&moved).expect("it is ours");
    is_refused_for_a_link(&ws, "state.db");
    assert!(!moved.exists());
}

#[test_case("state.db-wal"; "log")]
#[test_case("state.db-shm"; "index of the log")]
#[test_case("state.db-journal"; "journal")]
fn a_file_of_the_database_that_is_a_link_is_followed_nowhere(name: &str) {
    let ws = workspace();
    let place = ws.root().join(".cf").join(name);
    let outside = elsewhere(&ws).join(name);
    let _ = fs::remove_file(&place);
    symlink(&outside, &place).expect("its place is free");
    is_refused_for_a_link(&ws, name);
    assert!(!outside.exists(), "nothing was made there");
    fs::write(&outside, "").expect("the folder is ours");
    is_refused_for_a_link(&ws, name);
    assert!(fs::read(&outside).expect("it is there").is_empty());
    fs::remove_file(&place).expect("it is there");
    ws.cf(["doctor"]).ok();
}

#[test_case("mkfifo .cf/wake"; "a named pipe")]
#[test_case("mkdir .cf/wake"; "a folder")]
#[test_case("ln -s ../victim .cf/wake"; "a link")]
fn what_stands_in_the_place_of_the_wake_file_stops_nothing(plant: &str) {
    let ws = workspace();
    fs::write(ws.root().join("victim"), "mine").expect("the root is ours");
    // The conductor of this batch watches the file that goes.
    ws.add(
        "first",
        &format!("rm .cf/wake; {plant}; cf blocker ask 'which one?'"),
    );
    ws.run(["first"]);
    assert_eq!(ws.status("first"), "BLOCKED");
    ws.add("a", "touch ran");
    ws.set("a", "backlog");
    ws.set("a", "ready");
    ws.run(["a"]).ok();
    assert!(ws.exists("ran"));
    ws.cf(["reconcile"]).ok();

    ws.cf(["doctor"])
        .code(1)
        .says(".cf/wake is a")
        .says("--fix");
    ws.cf(["doctor", "--fix"]).ok();
    ws.set("a", "ready");
    let meta = fs::symlink_metadata(ws.root().join(".cf/wake")).expect("it is made anew");
    assert!(meta.is_file());
    ws.cf(["doctor"]).ok();
    let victim = fs::read(ws.root().join("victim")).expect("it is left alone");
    assert_eq!(victim, b"mine");
}

#[test]
fn a_folder_with_something_in_it_is_not_cleared_for_the_wake_file() {
    let ws = workspace();
    let wake = ws.root().join(".cf/wake");
    fs::remove_file(&wake).expect("it is there");
    fs::create_dir(&wake).expect("its place is free");
    fs::write(wake.join("kept"), "").expect("the folder is ours");
    ws.cf(["doctor", "--fix"]).code(1).says("move it away");
    assert!(wake.join("kept").exists());
    ws.add("a", "true");
}

fn pipe(ws: &Workspace, name: &str) {
    ws.program_call("/usr/bin/env", ["mkfifo", name]).run().ok();
}

#[test]
fn a_named_pipe_in_place_of_a_file_is_refused_and_not_waited_for() {
    let ws = workspace();
    ws.add("a", "true");
    pipe(&ws, "pipe");
    for args in [
        ["run", "--file", "pipe"].as_slice(),
        &["tasks", "import", "pipe"],
        &["tasks", "add", "x", "--file", "pipe"],
        &["blocker", "answer", "--file", "pipe"],
    ] {
        ws.cf(args).refused().says("named pipe");
    }
    fs::remove_file(ws.root().join(".cf/config.toml")).expect("it is there");
    pipe(&ws, ".cf/config.toml");
    ws.cf(["config", "check"]).refused().says("named pipe");
    ws.run(["a"]).refused().says("named pipe");
}

#[test]
fn what_the_caller_opened_is_read_also_when_it_is_a_pipe() {
    let ws = workspace();
    ws.plan("[[task]]\nkey = 'p'\ntitle = 'p'\nrun = 'true'\n");
    ws.shell("cat plan.toml | \"$CF\" tasks import /dev/stdin")
        .run()
        .ok();
    ws.shell("cat plan.toml | \"$CF\" tasks import -")
        .run()
        .ok();
    ws.shell("(sleep 0.2; cat plan.toml) | \"$CF\" run --file -")
        .run()
        .ok();
    ws.shell("echo words | \"$CF\" tasks add q --key q --file /dev/fd/0")
        .run()
        .ok();
    assert_eq!(ws.show("q")["description"], "words\n");
}

#[test]
fn the_log_of_hooks_is_a_file_or_nothing() {
    let ws = workspace();
    let outside = elsewhere(&ws);
    ws.config("[hooks]\non_batch_end = 'echo said; echo told >> told'\n");
    ws.add("a", "true");
    let log = ws.root().join(".cf/logs/hooks.log");
    symlink(outside.join("hooks.log"), &log).expect("its place is free");
    ws.run(["a"]).ok();
    assert!(is_empty(&outside), "a link is not followed");
    fs::remove_file(&log).expect("it is ours");
    pipe(&ws, ".cf/logs/hooks.log");
    ws.add("b", "true");
    ws.run(["b"]).ok();
    assert_eq!(ws.lines("told"), 2, "hooks are told all the same");
}
