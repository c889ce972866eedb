//! A batch on a terminal: what is shown while it runs, and what is left of it.

use std::time::Duration;

use cf_testkit::{Cf, Shown, Workspace};

use crate::workspace;

/// Two tasks whose last words have more room than a narrow terminal, long enough for a look at them.
fn run_on(name: &str) -> Shown {
    let ws: Workspace = workspace();
    ws.add(
        "wide",
        "echo 國國國國國國國國國國國國國國國國國國國國國國國國; sleep 1.2",
    );
    ws.add(
        "long",
        "echo one two three four five six seven eight nine; sleep 1.2; exit 3",
    );
    ws.command(["run", "wide", "long", "--strategy", "parallel"])
        .env("TERM", name)
        .run_on_terminal(40, 8)
}

/// Which events have a line, with those that have scrolled away.
fn told(shown: &Shown) -> Vec<String> {
    let lines = shown.terminal.joined().into_iter();
    let first = ["started", "completed", "failed"];
    let mut told: Vec<String> = lines
        .filter(|line| first.iter().any(|word| line.starts_with(word)))
        .map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" "))
        .collect();
    told.sort();
    told
}

const TOLD: [&str; 4] = [
    "completed wide",
    "failed long",
    "started long",
    "started wide",
];

#[test]
fn a_batch_leaves_what_happened_and_nothing_of_what_changed_in_place() {
    let shown = run_on("xterm");
    assert_eq!(shown.exit_code(), Some(3), "{}", shown.written);
    let written = &shown.written;
    assert!(
        written.contains("[                        ] 0/2 2 running"),
        "{written}"
    );
    // As much of what an agent said as its line had room for, and no more.
    let cut = "one two three four five si\u{1b}[0m\r\n";
    assert!(written.contains(cut), "{written}");
    assert_eq!(told(&shown), TOLD, "{written}");
    for line in shown.terminal.joined() {
        assert!(!line.contains(" running"), "{line:?} in {written}");
    }
}

#[test]
fn a_terminal_that_cannot_move_its_cursor_is_told_the_events() {
    let shown = run_on("dumb");
    assert_eq!(shown.exit_code(), Some(3), "{}", shown.written);
    assert_eq!(told(&shown), TOLD, "{}", shown.written);
    assert!(!shown.written.contains('\u{1b}'), "{}", shown.written);
    assert!(!shown.written.contains(" running"), "{}", shown.written);
}

/// Runs a command while somebody else holds the store for longer than a second.
fn while_locked(ws: &Workspace, words: &[&str], run: impl FnOnce(Cf<'_>) -> String) -> String {
    let lock = ws.lock_database();
    let holds = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(3));
        drop(lock);
    });
    let written = run(ws.command(words));
    holds.join().expect("it only sleeps");
    written
}

#[test]
fn a_terminal_is_told_once_what_a_command_waits_for() {
    let ws = workspace();
    let written = while_locked(&ws, &["tasks", "add", "A"], |command| {
        command.run_on_terminal(200, 8).written
    });
    let told = "has locked the workspace database; waiting for that to end, 1m at most";
    assert_eq!(written.matches(told).count(), 1, "{written}");
    // Where the kernel lists locks it says who it is: the process of this test.
    if std::fs::read_to_string("/proc/locks").is_ok_and(|list| list.contains("POSIX")) {
        let holder = format!("process {} (", std::process::id());
        assert!(written.contains(&holder), "{written}");
    }
    assert!(written.contains("added "), "{written}");
}

#[test]
fn whoever_is_not_before_a_terminal_waits_in_silence() {
    let ws = workspace();
    let piped = while_locked(&ws, &["tasks", "add", "A"], |command| {
        command.run().ok().stderr()
    });
    assert_eq!(piped, "");
    let json = while_locked(&ws, &["tasks", "add", "B", "--json"], |command| {
        command.run_on_terminal(200, 8).written
    });
    assert!(!json.contains("locked"), "{json}");
}
