//! Tasks that join a running batch, and priorities that change while it runs.

use test_case::test_case;

use crate::{waiter, workspace};

#[test]
fn a_task_joins_a_running_batch_and_waits_for_what_it_depends_on() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    let batch = ws.start(["a", "--max-parallel", "2"]);
    ws.wait_for_pid("a.pid");
    let id = ws.batch_id();
    ws.cf([
        "tasks",
        "add",
        "B",
        "--key",
        "b",
        "--run",
        "echo b >> order",
        "--batch",
        &id,
    ])
    .ok();
    ws.wait_for_event("BATCH_TASK_COMPLETED", "b");
    let c = [
        "tasks",
        "add",
        "C",
        "--key",
        "c",
        "--run",
        "echo c >> order",
        "--depends-on",
        "a",
        "--batch",
        &id[..8],
    ];
    ws.cf(c).ok();
    let phases: Vec<_> = ["a", "b", "c"]
        .map(|key| ws.row(key)["position"].as_u64())
        .to_vec();
    assert_eq!(phases, [Some(0), Some(1), Some(2)]);
    ws.touch("a.go");
    batch
        .wait()
        .ok()
        .says("joined b")
        .says("completed b")
        .says("joined c");
    assert_eq!(ws.read("order"), "b\nc\n");
    assert_eq!(ws.batch()["counts"]["total"], 3);
    for key in ["a", "b", "c"] {
        ws.ended(key, "COMPLETED", "");
    }
}

#[test]
fn a_task_that_others_of_the_batch_come_to_depend_on_is_waited_for() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    ws.task("z").run("cat made > seen").after("a").add();
    let batch = ws.start(["a", "z"]);
    ws.wait_for_pid("a.pid");
    ws.cf([
        "tasks",
        "add",
        "B",
        "--key",
        "b",
        "--run",
        "echo x > made",
        "--batch",
        &ws.batch_id(),
    ])
    .ok();
    ws.cf(["tasks", "depend", "z", "b"]).ok();
    ws.touch("a.go");
    batch.wait().ok();
    assert_eq!(ws.read("seen"), "x\n");
}

#[test]
fn a_batch_that_has_ended_or_is_stopping_takes_no_task() {
    let ws = workspace();
    ws.add("a", "true");
    ws.run(["a"]).ok();
    let id = ws.batch_id();
    ws.cf([
        "tasks", "add", "B", "--key", "b", "--run", "true", "--batch", &id,
    ])
    .code(1)
    .says(&format!(
        "batch {} takes no task: it has ended (COMPLETED)",
        &id[..8]
    ));
    ws.cf(["tasks", "show", "b"]).refused();
    ws.cf(["tasks", "add", "B", "--run", "true", "--batch", "ffffffff"])
        .refused();
    ws.add("c", &waiter("c"));
    let batch = ws.start(["c"]);
    ws.wait_for_pid("c.pid");
    let id = ws.batch_id();
    ws.cf(["tasks", "add", "B", "--key", "b", "--batch", &id])
        .code(1)
        .says("give --run or --engine");
    ws.cf(["stop"]).ok();
    ws.cf([
        "tasks", "add", "B", "--key", "b", "--run", "true", "--batch", &id,
    ])
    .code(1)
    .says("it is stopping");
    ws.touch("c.go");
    batch.wait().code(5);
    ws.cf(["tasks", "show", "b"]).refused();
}

#[test]
fn a_task_that_joined_a_batch_without_a_conductor_is_taken_up_by_resume() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    batch.kill9();
    ws.cf([
        "tasks",
        "add",
        "B",
        "--key",
        "b",
        "--run",
        "touch b.ran",
        "--batch",
        &ws.batch_id(),
    ])
    .ok();
    ws.touch("a.go");
    ws.resume([""; 0]).ok();
    assert!(ws.exists("b.ran"));
    ws.ended("b", "COMPLETED", "");
}

#[test]
fn an_agent_adds_to_no_batch() {
    let ws = workspace();
    ws.add(
        "a",
        "cf tasks add B --key b --run true --batch $CF_BATCH_ID > out 2>&1; true",
    );
    ws.run(["a"]).ok();
    assert!(
        ws.read("out")
            .contains("an agent may not add a task to a batch"),
        "{}",
        ws.read("out")
    );
    ws.cf(["tasks", "show", "b"]).refused();
}

#[test_case("30s"; "with passes")]
#[test_case("0"; "without passes")]
fn a_priority_that_changes_reorders_the_queue_at_once(interval: &str) {
    let ws = workspace();
    ws.add("first", &waiter("first"));
    for key in ["b", "c", "d"] {
        ws.task(key)
            .run(&format!("echo {key} >> order"))
            .priority(5)
            .add();
    }
    let batch = ws.start(["first", "b", "c", "d", "--reconcile-interval", interval]);
    ws.wait_for_pid("first.pid");
    ws.cf(["tasks", "edit", "d", "--priority", "1"]).ok();
    ws.cf(["tasks", "edit", "b", "--priority", "9"]).ok();
    ws.touch("first.go");
    batch.wait().ok();
    assert_eq!(ws.read("order"), "d\nc\nb\n");
}
