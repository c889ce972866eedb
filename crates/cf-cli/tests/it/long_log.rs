//! A log that has become long: its end, and shortening it.

use crate::{sleeper, waiter, workspace};
use cf_testkit::{Workspace, json};

/// A workspace in which a batch has ended: one task was done, one failed, one was skipped because it was done by hand.
fn with_a_past() -> Workspace {
    let ws = workspace();
    ws.add("a", "true");
    ws.add("b", "false");
    ws.add("c", &sleeper("c"));
    let batch = ws.start(["a", "b", "c", "--retry", "1", "--retry-delay", "0"]);
    ws.wait_for_pid("c.pid");
    ws.set("c", "DONE");
    batch.wait().code(3);
    ws
}

/// Everything that people read about the past, but for the log itself.
fn told(ws: &Workspace) -> Vec<String> {
    [
        &["status"][..],
        &["work", "batch", "status"],
        &["work", "batch", "report"],
        &["work", "batch", "list", "--json"],
        &["tasks", "list", "--json"],
        &["explain", "b"],
        &["explain", "c", "--json"],
    ]
    .map(|words| ws.cf(words).ok().stdout())
    .to_vec()
}

#[test]
fn pruning_removes_what_nothing_rests_on_and_nothing_that_is_read() {
    let ws = with_a_past();
    let before = ws.events();
    let told_before = told(&ws);
    let preview = ws.cf([
        "events",
        "prune",
        "--older-than",
        "0",
        "--dry-run",
        "--json",
    ]);
    let preview = preview.ok().json();
    assert_eq!(ws.events(), before, "a dry run changes nothing");
    let pruned = ws.cf(["events", "prune", "--older-than", "0", "--json"]);
    let pruned = pruned.ok().json();
    for field in ["removed", "newer", "kept", "before"] {
        assert_eq!(preview[field], pruned[field], "{field}");
    }
    let after = ws.events();
    let removed = pruned["removed"].as_u64().unwrap() as usize;
    assert!(removed >= 5, "{pruned:#}");
    assert_eq!(after.len(), before.len() - removed + 1);
    assert_eq!(ws.events_named("EVENTS_PRUNED").len(), 1);
    assert_eq!(told(&ws), told_before);
    // The next number is greater than any before.
    ws.set("b", "READY");
    let newest = ws.events().last().unwrap()["seq"].as_u64();
    assert!(newest > before.last().unwrap()["seq"].as_u64());
    // Every task and every outcome is still accounted for.
    let unknown = "SELECT count(*) FROM task WHERE status_seq NOT IN (SELECT seq FROM event)";
    assert_eq!(ws.sql(unknown), "0");
    let unknown = "SELECT count(*) FROM batch_task WHERE since_seq NOT IN (SELECT seq FROM event)";
    assert_eq!(ws.sql(unknown), "0");
}

#[test]
fn pruning_says_what_it_keeps_and_the_file_shrinks_when_asked() {
    let ws = with_a_past();
    let said = ws.cf(["events", "prune", "--older-than", "1d"]).ok().text();
    assert!(said.contains("removed 0 events older than 1d"), "{said}");
    let said = ws.cf([
        "events",
        "prune",
        "--older-than",
        "0",
        "--keep-last",
        "3",
        "--shrink",
    ]);
    let said = said.ok().text();
    for words in [
        "kept 3 newer ones",
        "outcomes of tasks in their batches",
        "freed ",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(ws.sql("PRAGMA freelist_count"), "0");
    assert_eq!(ws.sql("PRAGMA integrity_check"), "ok");
}

#[test]
fn a_running_batch_loses_nothing_and_is_not_held_up() {
    let ws = with_a_past();
    ws.add("d", &waiter("d"));
    ws.add("e", "touch e.ran");
    let batch = ws.start(["d", "e"]);
    ws.wait_for_pid("d.pid");
    let of_batch = |ws: &Workspace| {
        let own = format!(
            "SELECT count(*) FROM event WHERE batch = '{}'",
            ws.batch_id()
        );
        ws.sql(&own)
    };
    let before = of_batch(&ws);
    let refused = ws
        .cf(["events", "prune", "--older-than", "0", "--shrink"])
        .code(1);
    assert!(refused.text().contains("is running"), "{}", refused.text());
    ws.cf(["events", "prune", "--older-than", "0"]).ok();
    assert_eq!(of_batch(&ws), before);
    ws.touch("d.go");
    batch.wait().ok();
    ws.ended("d", "COMPLETED", "");
    assert!(ws.exists("e.ran"));
}

#[test]
fn an_agent_may_not_prune() {
    let ws = workspace();
    ws.add("a", "cf events prune --older-than 0 2> said; echo $? > code; cf events prune --older-than 0 --dry-run");
    ws.run(["a"]).ok();
    assert_eq!(ws.read("code").trim(), "1");
    assert!(
        ws.read("said")
            .contains("an agent may not prune the event log")
    );
    assert!(ws.events_named("EVENTS_PRUNED").is_empty());
}

#[test]
fn what_is_followed_after_no_event_of_the_past_begins_now() {
    let ws = with_a_past();
    let newest = ws.events().len();
    let following = ws.spawn(["events", "--last", "0", "--follow", "--json"]);
    // It does not say when it has begun.
    let mut tasks = 0;
    ws.wait_until("an event is followed", || {
        tasks += 1;
        ws.add(&format!("new{tasks}"), "true");
        !following.text().is_empty()
    });
    let seen = following.kill9().json_lines();
    assert!(seen[0]["seq"].as_u64().unwrap() > newest as u64, "{seen:?}");
}

#[test]
fn the_newest_events_and_the_first_tasks_can_be_asked_for() {
    let ws = with_a_past();
    let all = ws.events();
    let last = ws.cf(["events", "--last", "3", "--json"]).ok().json();
    assert_eq!(last.as_array().unwrap()[..], all[all.len() - 3..]);
    let many = ws.cf(["events", "--last", "999999", "--json"]).ok().json();
    assert_eq!(many.as_array().unwrap()[..], all[..]);
    let of_b = ws
        .cf(["events", "--task", "b", "--last", "1", "--json"])
        .ok()
        .json();
    assert_eq!(of_b[0]["type"], "BATCH_TASK_FAILED");
    let none = ws.cf(["events", "--last", "0", "--json"]).ok().json();
    assert_eq!(none, json!([]));
    assert_eq!(ws.cf(["events", "--last", "0"]).ok().text(), "");
    let first = ws
        .cf(["tasks", "list", "--limit", "2", "--json"])
        .ok()
        .json();
    assert_eq!(
        (&first[0]["key"], &first[1]["key"]),
        (&"a".into(), &"b".into())
    );
    assert_eq!(first.as_array().map(Vec::len), Some(2));
    let lines = ws
        .cf(["tasks", "list", "--limit", "1", "--status", "done"])
        .ok()
        .stdout();
    assert_eq!(lines.lines().count(), 2, "{lines}");
}
