//! What a batch takes up, what it leaves out, and dependencies that lie outside it or change while it runs.

use crate::{waiter, workspace};

#[test]
fn an_attempt_ended_when_its_agent_did_and_not_when_that_was_stored() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    batch.kill9();
    ws.touch("a.go");
    ws.wait_for_quiet();
    let now = || ws.sql("SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now')");
    let over = now();
    // A time of its own for what follows, to the millisecond.
    ws.wait_until("the clock goes on", || now() > over);
    ws.resume([""; 0]).ok();
    let attempt = &ws.attempts("a")[0];
    let ended = attempt["ended_at"].as_str().unwrap();
    assert!(
        attempt["started_at"].as_str().unwrap() < ended && ended <= over.as_str(),
        "{attempt}, {over}"
    );
    assert_eq!(ws.row("a")["ended_at"], ended);
    let report = ws.cf(["work", "batch", "report", "--json"]).json();
    let took = ws.sql("SELECT ended_at_ms - started_at_ms FROM attempt");
    assert_eq!(report["work_ms"].to_string(), took);
    assert_eq!(report["tasks"][0]["work_ms"].to_string(), took);
    let stored = &ws.events_of("ATTEMPT_ENDED", "a")[0]["at"];
    assert!(stored.as_str().unwrap() > over.as_str(), "{stored}, {over}");
}

#[test]
fn a_dependency_outside_the_batch_that_is_not_done_is_refused_by_name() {
    let ws = workspace();
    ws.add("outside", "touch outside.ran");
    ws.task("inside")
        .run("touch inside.ran")
        .after("outside")
        .add();
    ws.run(["inside"]).refused().says("outside");
    assert!(!ws.exists("inside.ran") && !ws.exists("outside.ran"));
    assert_eq!(ws.status("inside"), "READY");
    assert_eq!(
        ws.cf(["work", "batch", "list", "--json"]).json(),
        cf_testkit::json!([])
    );
}

#[test]
fn a_dependency_outside_the_batch_that_is_done_is_enough() {
    let ws = workspace();
    ws.add("outside", "true");
    ws.task("inside")
        .run("touch inside.ran")
        .after("outside")
        .add();
    ws.set("outside", "DONE");
    ws.run(["inside"]).ok();
    assert!(ws.exists("inside.ran"));
}

#[test]
fn a_dependency_that_another_batch_works_on_is_waited_for() {
    let ws = workspace();
    ws.add("outside", &waiter("outside"));
    ws.task("inside")
        .run("touch inside.ran")
        .after("outside")
        .add();
    let first = ws.start(["outside"]);
    ws.wait_for_pid("outside.pid");
    let second = ws.start(["inside"]);
    ws.wait_for_event("BATCH_TASK_QUEUED", "inside");
    assert!(!ws.exists("inside.ran"));
    ws.touch("outside.go");
    first.wait().ok();
    second.wait().ok();
    assert!(ws.exists("inside.ran"));
}

#[test]
fn a_dependency_outside_that_fails_elsewhere_is_not_waited_for_ever() {
    let ws = workspace();
    ws.add("outside", &format!("{}; exit 1", waiter("outside")));
    ws.task("inside")
        .run("touch inside.ran")
        .after("outside")
        .add();
    let first = ws.start(["outside"]);
    ws.wait_for_pid("outside.pid");
    let second = ws.start(["inside"]);
    ws.wait_for_event("BATCH_TASK_QUEUED", "inside");
    ws.touch("outside.go");
    first.wait().code(3);
    second.wait().code(4);
    ws.ended("inside", "SKIPPED", "dependency outside not done");
    assert!(!ws.exists("inside.ran"));
}

#[test]
fn all_ready_leaves_out_what_waits_for_something_outside_and_lists_it() {
    let ws = workspace();
    ws.add("outside", "true");
    ws.set("outside", "BACKLOG");
    ws.task("left-out-one").run("true").after("outside").add();
    ws.add("plain", "true");
    ws.run(["--all-ready"]).ok().says("left-out-one");
    assert_eq!(ws.batch()["counts"]["total"], 1);
    assert_eq!(ws.status("plain"), "DONE");
    assert_eq!(ws.status("left-out-one"), "READY");
    assert_eq!(ws.status("outside"), "BACKLOG");
}

#[test]
fn all_ready_leaves_out_a_whole_chain_below_something_outside() {
    let ws = workspace();
    ws.add("outside", "true");
    ws.set("outside", "BACKLOG");
    // In the order of the list every task comes before what it depends on.
    let task = |n: u32| {
        let on = if n == 199 {
            "outside".to_owned()
        } else {
            format!("t{}", n + 1)
        };
        format!("[[task]]\nkey = 't{n}'\ntitle = 't'\nrun = 'true'\ndepends_on = ['{on}']\n")
    };
    let plan = ws.plan(&(0..200).map(task).collect::<String>());
    ws.cf(["tasks", "import", plan]).ok();
    ws.add("plain", "true");
    let shown = ws.cf(["run", "--all-ready", "--dry-run", "--json"]).json();
    let left_out = shown["left_out"].as_array().expect("a list");
    assert_eq!(left_out.len(), 200);
    assert_eq!(left_out[0]["label"], "t199");
    assert_eq!(left_out[0]["reason"], "depends on outside (BACKLOG)");
    assert_eq!(left_out[1]["label"], "t198");
    assert_eq!(left_out[1]["reason"], "depends on t199 (READY)");
    let order = shown["order"].as_array().expect("a list");
    assert_eq!(order.len(), 1);
    assert_eq!(order[0]["label"], "plain");
}

#[test]
fn a_refusal_says_how_many_dependencies_it_does_not_name() {
    let ws = workspace();
    ws.add("outside", "true");
    let task = |n: u32| {
        format!("[[task]]\nkey = 't{n}'\ntitle = 't'\nrun = 'true'\ndepends_on = ['outside']\n")
    };
    let plan = ws.plan(&(0..23).map(task).collect::<String>());
    ws.run(["--file", plan])
        .refused()
        .says("t19 depends on outside (READY)")
        .never_says("t20 depends")
        .says("and 3 more");
}

#[test]
fn all_ready_takes_ready_tasks_only() {
    let ws = workspace();
    for (key, status) in [
        ("is-ready", "READY"),
        ("is-backlog", "BACKLOG"),
        ("is-failed", "FAILED"),
        ("is-blocked", "BLOCKED"),
        ("is-done", "DONE"),
    ] {
        ws.add(key, "echo $CF_TASK_KEY >> ran");
        ws.set(key, status);
    }
    ws.run(["--all-ready"]).ok();
    assert_eq!(ws.read("ran"), "is-ready\n");
    assert_eq!(ws.status("is-backlog"), "BACKLOG");
    assert_eq!(ws.status("is-failed"), "FAILED");
    assert_eq!(ws.status("is-blocked"), "BLOCKED");
}

#[test]
fn the_take_up_makes_named_tasks_ready_and_runs_them() {
    let ws = workspace();
    for (key, status) in [
        ("is-backlog", "BACKLOG"),
        ("is-failed", "FAILED"),
        ("is-blocked", "BLOCKED"),
    ] {
        ws.add(key, "echo $CF_TASK_KEY >> ran");
        ws.set(key, status);
    }
    ws.run(["is-backlog", "is-failed", "is-blocked"]).ok();
    assert_eq!(ws.lines("ran"), 3);
    for key in ["is-backlog", "is-failed", "is-blocked"] {
        assert_eq!(ws.status(key), "DONE", "{key}");
        let changes = ws.events_of("TASK_STATUS_CHANGED", key);
        let ready = changes
            .iter()
            .find(|e| e["data"]["to"] == "READY")
            .unwrap_or_else(|| panic!("{key} became READY first: {changes:?}"));
        let actor = ready["actor"].as_str().expect("an actor is text");
        assert!(actor.starts_with("batch:"), "{actor}");
    }
}

#[test]
fn the_take_up_skips_what_is_done_already() {
    let ws = workspace();
    ws.add("is-done", "touch ran");
    ws.add("is-merged", "touch ran");
    ws.add("next", "true");
    ws.set("is-done", "DONE");
    ws.set("is-merged", "MERGED");
    ws.run(["is-done", "is-merged", "next"]).ok();
    ws.ended("is-done", "SKIPPED", "already done");
    ws.ended("is-merged", "SKIPPED", "already done");
    assert!(!ws.exists("ran"));
    assert_eq!(ws.batch_status(), "COMPLETED");
}

#[test]
fn force_runs_done_tasks_again_but_never_merged_ones() {
    let ws = workspace();
    ws.add("is-done", "echo done >> ran");
    ws.add("is-merged", "echo merged >> ran");
    ws.set("is-done", "DONE");
    ws.set("is-merged", "MERGED");
    ws.run(["is-done", "is-merged", "--force"]).ok();
    assert_eq!(ws.read("ran"), "done\n");
    assert_eq!(ws.status("is-merged"), "MERGED");
    ws.ended("is-merged", "SKIPPED", "already done");
}

#[test]
fn a_task_in_progress_by_hand_is_held_and_not_started() {
    let ws = workspace();
    ws.add("a", "touch ran");
    ws.add("b", "true");
    ws.set("a", "IN_PROGRESS");
    ws.run(["a", "b"]).code(4);
    ws.ended("a", "BLOCKED", "in progress by hand");
    assert!(!ws.exists("ran"));
    assert_eq!(ws.status("a"), "IN_PROGRESS");
}

#[test]
fn a_task_that_another_batch_runs_is_waited_for_and_never_started_twice() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    let first = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    let mut second = ws.start(["a"]);
    ws.wait_until("the second batch is stored", || {
        ws.events_named("BATCH_STARTED").len() == 2
    });
    assert!(second.is_running());
    ws.touch("a.go");
    first.wait().ok();
    second.wait().ok();
    assert_eq!(ws.lines("a.pid"), 1);
    assert_eq!(ws.attempts("a").len(), 1);
}

#[test]
fn a_second_live_batch_warns_and_names_the_first() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    ws.add("b", "true");
    let first = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    let id = ws.batch()["id"].as_str().expect("an id is text").to_owned();
    ws.run(["b"]).ok().says(&id[..8]);
    ws.touch("a.go");
    first.wait().ok();
}

#[test]
fn a_dependency_added_while_the_batch_runs_is_obeyed() {
    let ws = workspace();
    let plan = |extra: &str| {
        format!(
            "[[task]]\nkey = 'first'\ntitle = 'first'\nrun = '''{}'''\n\
             [[task]]\nkey = 'x'\ntitle = 'x'\nrun = 'echo x >> order'\n{extra}\
             [[task]]\nkey = 'y'\ntitle = 'y'\nrun = 'echo y >> order'\n",
            waiter("first")
        )
    };
    ws.cf(["tasks", "import", ws.plan(&plan(""))]).ok();
    let batch = ws.start(["first", "x", "y"]);
    ws.wait_for_pid("first.pid");
    ws.cf(["tasks", "import", ws.plan(&plan("depends_on = ['y']\n"))])
        .ok();
    ws.touch("first.go");
    batch.wait().ok();
    assert_eq!(ws.read("order"), "y\nx\n");
}

#[test]
fn a_dependency_deleted_meanwhile_is_said_and_nothing_hangs() {
    let ws = workspace();
    ws.add("first", &waiter("first"));
    ws.add("base", "true");
    ws.task("top").run("touch top.ran").after("base").add();
    let batch = ws.start(["first", "base", "top"]);
    ws.wait_for_pid("first.pid");
    ws.cf(["tasks", "delete", "base"]).refused();
    ws.cf(["tasks", "delete", "base", "--force"]).ok();
    ws.touch("first.go");
    batch.wait().code(3);
    ws.ended("top", "SKIPPED", "dependency base deleted");
    assert!(!ws.exists("top.ran"));
}
