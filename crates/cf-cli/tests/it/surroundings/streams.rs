//! Standard streams that are closed, full or gone, and a terminal that vanishes.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::time::Duration;

use cf_testkit::{Signal, Workspace, process};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

use crate::{plan_of, sleeper, waiter, workspace};

/// The writing end of a pipe that nobody reads.
fn unread() -> std::io::PipeWriter {
    std::io::pipe().expect("there are descriptors left").1
}

fn with_a_history() -> Workspace {
    let ws = workspace();
    ws.cf(["tasks", "import", ws.plan(&plan_of(50, "true"))])
        .ok();
    ws.add("a", "yes | head -n 2000");
    ws.ask("t1", "which one?");
    ws.run(["a"]).ok();
    ws
}

const READING: &[&[&str]] = &[
    &["status"],
    &["tasks", "list"],
    &["tasks", "show", "a"],
    &["tasks", "graph"],
    &["tasks", "export"],
    &["blocker", "list"],
    &["work", "logs", "a"],
    &["work", "batch", "status"],
    &["work", "batch", "list"],
    &["work", "batch", "follow"],
    &["events"],
    &["explain", "a"],
    &["reconcile", "--dry-run"],
    &["config", "show"],
    &["config", "check"],
    &["github", "status"],
    &["completions", "bash"],
    &["man"],
    &["--version"],
    &["-V"],
    &["--help"],
    &["tasks", "list", "-h"],
    &["help", "tasks"],
];

#[test]
fn a_reader_that_has_gone_ends_every_reading_command_quietly() {
    let ws = with_a_history();
    for args in READING {
        let ended = ws.command(*args).stdout(unread()).run();
        assert!(
            ended.exit_code() == Some(0) && ended.stderr().is_empty(),
            "{args:?}: {ended:?}"
        );
    }
}

#[test]
fn an_output_that_takes_nothing_is_said() {
    let ws = with_a_history();
    for args in READING {
        let full = File::options()
            .write(true)
            .open("/dev/full")
            .expect("it is there");
        let ended = ws.command(*args).stdout(full).run().refused();
        assert!(
            ended.stderr().contains("No space left"),
            "{args:?}: {ended:?}"
        );
    }
}

#[test]
fn a_list_that_is_not_read_on_keeps_the_log_of_the_store_from_nothing() {
    let ws = workspace();
    let script = format!("true # {}", "x".repeat(300));
    ws.cf(["tasks", "import", ws.plan(&plan_of(2_000, &script))])
        .ok();
    for args in [
        &["tasks", "list"][..],
        &["tasks", "list", "--json"],
        &["tasks", "graph", "--format", "dot"],
    ] {
        let whole = ws.cf(args).ok();
        assert!(
            whole.stdout_bytes().len() > 64 * 1024,
            "{args:?} fits into a pipe"
        );
        let (mut from, to) = std::io::pipe().expect("there are descriptors left");
        let list = ws.command(args).stdout(to).spawn();
        let mut read = vec![0; 1];
        from.read_exact(&mut read).expect("the list begins");
        // The log is not emptied while a reading lasts that began before.
        ws.wait_until("the log can be used again", || {
            ws.set("t0", "backlog");
            ws.set("t0", "ready");
            ws.sql("PRAGMA wal_checkpoint(TRUNCATE)") == "0"
        });
        from.read_to_end(&mut read).expect("the list ends");
        list.wait().ok();
        assert_eq!(read, whole.stdout_bytes(), "{args:?}");
    }
}

#[test]
fn closed_streams_keep_nothing_from_being_done() {
    let ws = workspace();
    ws.add("good", "echo said; touch ran");
    ws.add("bad", "exit 7");
    ws.shell("\"$CF\" run good >&- 2>&- <&-").run().ok();
    assert!(ws.exists("ran"), "it ran");
    ws.cf(["work", "logs", "good"]).ok().says("said");
    ws.shell("\"$CF\" run bad >&- 2>&-").run().code(3);
    ws.shell("\"$CF\" tasks show nothing >&- 2>&-")
        .run()
        .code(1);
    ws.shell("\"$CF\" status >&- 2>&-").run().ok();
}

#[test]
fn a_batch_runs_and_ends_as_it_must_although_nobody_sees_it() {
    let ws = workspace();
    ws.add("good", "touch ran");
    ws.add("bad", "exit 7");
    ws.command(["run", "good"]).stdout(unread()).run().ok();
    assert!(ws.exists("ran"));
    ws.command(["run", "bad"]).stdout(unread()).run().code(3);
    ws.command(["resume"]).stdout(unread()).run().code(3);
    let full = File::options()
        .write(true)
        .open("/dev/full")
        .expect("it is there");
    ws.command(["run", "bad"]).stdout(full).run().code(3);
}

#[test]
fn a_batch_whose_output_was_not_taken_says_so_once_at_its_end() {
    let ws = workspace();
    ws.add("bad", "exit 7");
    for args in [
        &["run", "bad"][..],
        &["--json", "run", "bad"],
        &["--quiet", "--json", "run", "bad"],
        &["resume"],
    ] {
        let full = File::options()
            .write(true)
            .open("/dev/full")
            .expect("it is there");
        let ended = ws.command(args).stdout(full).run().code(3);
        let said = ended.stderr().matches("No space left on device").count();
        assert_eq!(said, 1, "{args:?}: {ended:?}");
        let gone = ws.command(args).stdout(unread()).run().code(3);
        assert!(!gone.stderr().contains("standard output"), "{gone:?}");
    }
}

#[test]
fn a_pipe_that_lets_nobody_wait_gets_everything() {
    let ws = workspace();
    ws.cf(["tasks", "import", ws.plan(&plan_of(30, "true"))])
        .ok();
    let read = |args: &[&str]| {
        let (from, to) = pipe_with(PipeFlags::NONBLOCK).expect("there are descriptors left");
        fcntl_setpipe_size(&to, 4096).expect("a page is the least");
        let writer = ws.command(args).stdout(to).spawn();
        let mut read = Vec::new();
        let mut from = File::from(from);
        loop {
            // Slower than it is written.
            std::thread::sleep(Duration::from_millis(2));
            let mut some = [0; 1000];
            match from.read(&mut some) {
                Ok(0) => break,
                Ok(count) => read.extend_from_slice(&some[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
        }
        let ended = writer.wait().ok();
        assert!(ended.stderr().is_empty(), "{ended:?}");
        String::from_utf8(read).expect("it is text")
    };
    let told = read(&["--json", "run", "--all-ready"]);
    let last = told.lines().last().expect("it says something");
    assert!(last.starts_with("{\"batch\""), "{last}");
    assert!(told.len() > 4096, "it fits into the pipe");
    let events = read(&["--json", "events"]);
    assert_eq!(events, ws.cf(["--json", "events"]).ok().stdout());
}

#[test]
fn a_terminal_that_vanishes_stops_the_batch_with_the_grace() {
    let ws = workspace();
    ws.add(
        "a",
        &format!(
            "trap ': > had.grace; exit' TERM; {}",
            sleeper("a").replace("sleep 60", "sleep 60 & wait")
        ),
    );
    // `script` is the terminal: when it is killed, the terminal hangs up.
    let terminal = ws
        .program_call(
            "/usr/bin/env",
            ["script", "-qec", "\"$CF\" run a", "/dev/null"],
        )
        .spawn();
    let pid = ws.wait_for_pid("a.pid");
    terminal.kill9();
    ws.wait_for_quiet();
    assert!(!process::alive(pid) && ws.exists("had.grace"));
    assert_eq!(ws.status("a"), "READY");
    assert_eq!(ws.batch_status(), "CANCELLED");
    assert_eq!(ws.batch()["exit_code"], 130);
}

#[test]
fn a_batch_that_was_told_to_ignore_the_hangup_outlives_its_terminal() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    let batch = ws.shell("trap '' HUP; exec \"$CF\" run a").spawn();
    ws.wait_for_pid("a.pid");
    batch.signal(Signal::HUP);
    // Both come in order: had it stopped the batch, this event would be a later one than the stop's.
    ws.ask("a", "Still there?");
    ws.wait_for_event("BLOCKER_ASKED", "a");
    ws.cf(["tasks", "edit", "a", "--title", "looked at"]).ok();
    ws.touch("a.go");
    let ended = batch.wait();
    assert!(ended.exit_code() != Some(130), "{ended:?}");
    assert!(ws.events_named("BATCH_CANCELLED").is_empty());
}
