//! A batch seen from a second shell: `status --watch` and `work logs --follow`, until it ends.

use crate::{until, waiter, workspace};

#[test]
fn logs_are_followed_from_one_attempt_to_the_next() {
    let ws = workspace();
    let script = format!(
        "echo begun; {}; [ -e tried ] || {{ touch tried; echo broken; exit 3; }}; echo mended",
        until("go")
    );
    ws.add("a", &script);
    let run = ws.start(["a", "--retry", "1", "--retry-delay", "0s"]);
    ws.wait_for_event("BATCH_TASK_STARTED", "a");
    let mut logs = ws.spawn(["work", "logs", "a", "--follow"]);
    logs.wait_for_text("begun");
    ws.touch("go");
    run.wait().ok();
    let said = logs.wait().ok().stdout();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines,
        ["begun", "broken", "[cf: attempt 2]", "begun", "mended"]
    );
}

#[test]
fn logs_of_a_task_that_waits_for_its_turn_are_waited_for() {
    let ws = workspace();
    ws.add("first", &waiter("first"));
    ws.task("second").run("echo here").after("first").add();
    let run = ws.start(["first", "second"]);
    ws.wait_for_pid("first.pid");
    let mut logs = ws.spawn(["work", "logs", "second", "--follow"]);
    logs.wait_for_text("[cf: not started yet]");
    ws.touch("first.go");
    run.wait().ok();
    logs.wait().ok().says("[cf: attempt 1]").says("here");
}

#[test]
fn logs_of_one_attempt_end_with_it_and_those_of_no_task_in_work_are_refused() {
    let ws = workspace();
    ws.add(
        "a",
        "[ -e tried ] || { touch tried; echo one; exit 3; }; echo two",
    );
    ws.cf(["work", "logs", "a", "--follow"])
        .refused()
        .says("not been started");
    ws.run(["a", "--retry", "1", "--retry-delay", "0s"]).ok();
    ws.cf(["work", "logs", "a", "--follow", "--attempt", "1"])
        .ok()
        .says("one")
        .never_says("two");
    ws.cf(["work", "logs", "a", "--follow"])
        .ok()
        .says("two")
        .never_says("one");
}

#[test]
fn the_status_is_watched_until_no_batch_runs() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    let run = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    let mut watch = ws.spawn(["status", "--watch"]);
    let mut json = ws.spawn(["status", "--watch", "--json"]);
    watch.wait_for_text("1 running");
    json.wait_for_text("\"running\":1");
    ws.touch("a.go");
    run.wait().ok();
    watch.wait().ok().says("COMPLETED  1 completed");
    let states = json.wait().ok().json_lines();
    assert_eq!(states.last().unwrap()["batch"]["status"], "COMPLETED");
    let once = ws.cf(["status", "--watch"]).ok().stdout();
    assert_eq!(once.matches("workspace").count(), 1, "nothing runs");
}

#[test]
fn a_batch_without_a_conductor_is_watched_no_longer() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    let run = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    let mut watch = ws.spawn(["work", "batch", "status", "--watch"]);
    let status = ws.spawn(["status", "--watch"]);
    watch.wait_for_text("RUNNING");
    run.kill9();
    watch.wait().refused().says("is gone").says("cf resume");
    status.wait().ok().says("its conductor is gone");
    ws.touch("a.go");
    ws.resume([""; 0]).ok();
}

#[test]
fn every_batch_that_has_not_ended_is_told() {
    let ws = workspace();
    for key in ["a", "b"] {
        ws.add(key, &waiter(key));
    }
    let first = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    let older = ws.batch_id();
    let second = ws.start(["b"]);
    ws.wait_for_pid("b.pid");
    let newer = ws.batch_id();
    let status = ws.cf(["status"]).ok().stdout();
    let batches: Vec<&str> = status
        .lines()
        .filter(|line| line.starts_with("batch "))
        .collect();
    assert_eq!(batches.len(), 2, "{status}");
    for (line, id) in batches.iter().zip([newer, older]) {
        assert!(
            line.starts_with(&format!("batch {}  RUNNING", &id[..8])),
            "{status}"
        );
    }
    for (key, run) in [("a", first), ("b", second)] {
        ws.touch(&format!("{key}.go"));
        run.wait().ok();
    }
    let status = ws.cf(["status"]).ok().stdout();
    assert_eq!(
        status
            .lines()
            .filter(|line| line.starts_with("batch "))
            .count(),
        1,
        "{status}"
    );
}

#[test]
fn follow_begins_with_the_newest_events_when_it_is_told_to() {
    let ws = workspace();
    for key in ["a", "b", "c"] {
        ws.add(key, "echo done");
    }
    ws.run(["a", "b", "c"]).ok();
    let whole = ws.cf(["follow"]).ok().stdout();
    assert!(whole.starts_with("batch "), "{whole}");
    assert!(!whole.contains("earlier events"), "{whole}");
    assert_eq!(whole.matches("completed ").count(), 3, "{whole}");

    // The outcome of the last task, and the end of the batch.
    let newest = ws.cf(["follow", "--last", "2"]).ok().stdout();
    let mut lines = newest.lines();
    let earlier = lines.next().unwrap_or_default();
    assert!(
        earlier.starts_with("(earlier events: cf events --batch "),
        "{newest}"
    );
    let told: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    assert_eq!(told.len(), 2, "{newest}");
    assert!(told[0].starts_with("completed "), "{newest}");
    assert!(told[1].ends_with(" COMPLETED"), "{newest}");

    let none = ws.cf(["work", "batch", "follow", "--last", "0"]).ok();
    none.never_says("completed ").says("COMPLETED");
    ws.cf(["follow", "--last", "2", "--quiet"])
        .ok()
        .never_says("earlier events");

    // Programs get every event unless they ask for fewer, and the batch at last.
    let lines = |words: &[&str]| ws.cf(words).ok().json_lines();
    let all = lines(&["follow", "--json"]);
    assert_eq!(all[0]["type"], "BATCH_STARTED");
    let two = lines(&["follow", "--json", "--last", "2"]);
    assert_eq!(two[..2], all[all.len() - 3..all.len() - 1]);
    assert_eq!(two.len(), 3);
    assert!(two[2]["batch"].is_object());
}

#[test]
fn follow_knows_what_runs_already_although_its_start_is_not_told() {
    let ws = workspace();
    ws.add("bad", "exit 3");
    ws.add("a", &waiter("a"));
    ws.add("b", &waiter("b"));
    let run = ws.start([
        "bad",
        "a",
        "b",
        "--strategy",
        "parallel",
        "--max-parallel",
        "3",
    ]);
    ws.wait_for_pid("a.pid");
    ws.wait_for_pid("b.pid");
    ws.wait_for_event("BATCH_TASK_FAILED", "bad");

    let mut piped = ws.spawn(["follow", "--last", "0"]);
    piped.wait_for_text("earlier events");
    let bar = "[========>               ] 1/3 2 running, ";
    let shown = ws
        .command(["follow", "--last", "0"])
        .env("TERM", "xterm")
        .watch_on_terminal(60, 10, |written| {
            if written.contains("completed a in ") {
                ws.touch("b.go");
            } else if written.contains(bar) {
                ws.touch("a.go");
            }
        });
    let written = &shown.written;
    assert!(written.contains(bar), "{written}");
    assert!(!written.contains("(attempt 1)"), "{written}");
    assert!(written.contains("completed a in "), "{written}");
    run.wait().code(3);
    piped
        .wait()
        .code(3)
        .says("completed a in ")
        .says("completed b in ")
        .never_says("(attempt 1)");
}

#[test]
fn the_agents_that_started_first_have_lines_when_follow_comes_later() {
    let ws = workspace();
    let keys: Vec<String> = (0..20).map(|at| format!("t{at:02}")).collect();
    for key in &keys {
        ws.add(key, &waiter(key));
    }
    let names = keys.iter().map(String::as_str);
    let run = ws.start(names.chain(["--strategy", "parallel", "--max-parallel", "20"]));
    for key in &keys {
        ws.wait_for_pid(&format!("{key}.pid"));
    }
    let mut agents = String::new();
    ws.command(["follow", "--last", "0"])
        .env("TERM", "xterm")
        .watch_on_terminal(60, 30, |written| {
            if agents.is_empty()
                && let Some(bar) = written.find("0/20 20 running")
            {
                agents = written[..bar].to_owned();
                for key in &keys {
                    ws.touch(&format!("{key}.go"));
                }
            }
        });
    run.wait().ok();
    let started = ws.events_named("BATCH_TASK_STARTED");
    let order = started.iter().map(|event| event["data"]["label"].as_str());
    let order: Vec<String> = order.flatten().map(str::to_owned).collect();
    let at = |label: &String| agents.find(label.as_str());
    let shown: Vec<&String> = order.iter().filter(|label| at(label).is_some()).collect();
    assert_eq!(shown, order[..16].iter().collect::<Vec<_>>(), "{agents}");
    assert!(order[..16].is_sorted_by_key(at), "{agents}");
}
