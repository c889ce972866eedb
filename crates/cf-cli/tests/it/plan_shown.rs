//! What `run` shows before it starts, and the plans that it refuses.

use crate::workspace;

#[test]
fn the_plan_is_shown_before_the_batch_starts() {
    let ws = workspace();
    ws.add("a", "true");
    ws.add("b", "true");
    ws.run(["a"]).ok().says("Reconcile interval: 30s");
    ws.run(["b", "--reconcile-interval", "500ms"])
        .ok()
        .says("Reconcile interval: 500ms");
}

#[test]
fn an_interval_of_zero_is_said_to_be_disabled() {
    let ws = workspace();
    ws.add("a", "true");
    ws.run(["a", "--reconcile-interval", "0"])
        .ok()
        .says("Reconcile interval: disabled");
    assert_eq!(ws.batch()["reconcile_interval_ms"], 0);
}

#[test]
fn plain_seconds_are_an_interval() {
    let ws = workspace();
    ws.add("a", "true");
    ws.run(["a", "--reconcile-interval", "7"])
        .ok()
        .says("Reconcile interval: 7s");
    assert_eq!(ws.batch()["reconcile_interval_ms"], 7_000);
}

#[test]
fn a_dry_run_shows_the_plan_and_changes_nothing() {
    let ws = workspace();
    ws.add("plain-one", "touch ran");
    ws.add("failed-one", "touch ran");
    ws.set("failed-one", "FAILED");
    let before = (ws.events(), ws.cf(["tasks", "list", "--json"]).json());
    ws.run(["plain-one", "failed-one", "--dry-run"])
        .ok()
        .says("plain-one")
        .says("failed-one")
        .says("shell")
        .says("Reconcile interval: 30s");
    let after = (ws.events(), ws.cf(["tasks", "list", "--json"]).json());
    assert_eq!(before, after);
    assert!(!ws.exists("ran"));
    assert_eq!(
        ws.cf(["work", "batch", "list", "--json"]).json(),
        cf_testkit::json!([])
    );
}

#[test]
fn run_without_tasks_names_the_three_ways() {
    let ws = workspace();
    ws.add("a", "touch ran");
    let output = ws.run([""; 0]).code(2);
    let output = output.says("--all-ready").says("--file");
    assert!(output.stderr().contains("TASK"), "{}", output.stderr());
    assert!(!ws.exists("ran"));
}

#[test]
fn a_dependency_on_itself_is_refused_before_anything_starts() {
    let ws = workspace();
    let plan = ws
        .plan("[[task]]\nkey = 'alone'\ntitle = 't'\nrun = 'touch ran'\ndepends_on = ['alone']\n");
    ws.run(["--file", plan]).refused().says("alone");
    assert!(!ws.exists("ran"));
    assert_eq!(
        ws.cf(["work", "batch", "list", "--json"]).json(),
        cf_testkit::json!([])
    );
}

#[test]
fn a_dependency_on_itself_is_told_apart_from_a_cycle() {
    let ws = workspace();
    ws.add("a", "true");
    ws.cf(["tasks", "depend", "a", "a"])
        .code(1)
        .says("task a depends on itself")
        .says("hint: name another task")
        .never_says("remove one");
    ws.task("b").run("true").after("a").add();
    ws.cf(["tasks", "depend", "a", "b"])
        .code(1)
        .says("remove one of these dependencies");
}

#[test]
fn a_cycle_is_refused_and_named() {
    let ws = workspace();
    let plan = ws.plan(
        "[[task]]\nkey = 'one'\ntitle = 't'\nrun = 'touch ran'\ndepends_on = ['three']\n\
         [[task]]\nkey = 'two'\ntitle = 't'\nrun = 'touch ran'\ndepends_on = ['one']\n\
         [[task]]\nkey = 'three'\ntitle = 't'\nrun = 'touch ran'\ndepends_on = ['two']\n",
    );
    ws.run(["--file", plan])
        .refused()
        .says("one")
        .says("two")
        .says("three");
    assert!(!ws.exists("ran"));
}

#[test]
fn a_long_cycle_is_named_at_both_ends_and_the_rest_is_counted() {
    let ws = workspace();
    let task = |n: usize, on: usize| {
        format!("[[task]]\nkey = 't{n}'\ntitle = 't'\nrun = 'touch ran'\ndepends_on = ['t{on}']\n")
    };
    let plan = |last: &str| -> String {
        let tasks = (1..300).map(|n| task(n, n - 1));
        [last.to_owned()].into_iter().chain(tasks).collect()
    };
    let cycle = ws.plan(&plan(&task(0, 299)));
    let short = "t0 -> t299 -> t298 -> t297 -> t296 -> … 291 more … -> t4 -> t3 -> t2 -> t1 -> t0";
    ws.run(["--file", cycle]).code(2).says(short);
    assert!(!ws.exists("ran"));

    let chain = ws.plan(&plan("[[task]]\nkey = 't0'\ntitle = 't'\nrun = 'true'\n"));
    ws.cf(["tasks", "import", chain]).ok();
    ws.cf(["tasks", "depend", "t0", "t299"])
        .refused()
        .says(short);
    let told = ws.cf(["tasks", "depend", "t0", "t299", "--json"]).refused();
    assert!(
        told.stderr().contains(short) && told.stderr().len() < 1_000,
        "{}",
        told.stderr()
    );
}

#[test]
fn a_dependency_on_something_unknown_is_refused_and_named() {
    let ws = workspace();
    let plan = ws.plan(
        "[[task]]\nkey = 'one'\ntitle = 't'\nrun = 'touch ran'\ndepends_on = ['nowhere-to-be-found']\n",
    );
    ws.run(["--file", plan])
        .refused()
        .says("nowhere-to-be-found");
    ws.cf(["tasks", "add", "t", "--depends-on", "nowhere-to-be-found"])
        .refused()
        .says("nowhere-to-be-found");
    assert!(!ws.exists("ran"));
}
