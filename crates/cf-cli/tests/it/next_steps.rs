//! What a person is told to do next: at the end of a batch, by `explain`, by `status`, and when a word is wrong.

use crate::workspace;

#[test]
fn a_batch_with_a_failed_task_ends_with_the_next_steps() {
    let ws = workspace();
    ws.add("a", "exit 3");
    let resume = |text: &str| {
        let at = text.find("cf resume ").expect("the batch is named");
        text[at + 10..at + 18].to_owned()
    };
    let output = ws.run(["a"]).code(3).says("cf logs a");
    let batch = resume(&output.stdout());
    ws.cf(["explain", "a"])
        .ok()
        .says(&format!("cf resume {batch}"));
    ws.resume([batch.as_str()]).code(3);
    assert_eq!(ws.attempts("a").len(), 2);
}

#[test]
fn a_batch_that_waits_for_answers_says_them_before_the_resume() {
    let ws = workspace();
    ws.add("a", "cf blocker ask 'Which colour?'");
    let said = ws.run(["a"]).code(4).stdout();
    let (_, next) = said.split_once("Next:\n").expect("there are next steps");
    let steps: Vec<&str> = next.lines().map(str::trim).collect();
    let [answer, resume] = steps.as_slice() else {
        panic!("{said}");
    };
    let blocker = ws.blockers("a")[0]["id"].to_string();
    let answers = format!("cf blocker answer {} TEXT  ", &blocker[1..9]);
    assert!(answer.starts_with(&answers), "{said}");
    assert!(answer.ends_with("answers a"), "{said}");
    assert!(resume.starts_with("cf resume "), "{said}");
    assert!(resume.ends_with("then takes up what is not done"), "{said}");

    // Without an answer nothing else is said the second time; with one there is nothing to say.
    ws.cf(["resume"]).code(4).says(answer);
    ws.cf(["blocker", "answer", "teal"]).ok();
    ws.cf(["follow"])
        .code(4)
        .never_says("cf blocker answer")
        .says("  takes up what is not done")
        .never_says("then takes up");
}

#[test]
fn a_batch_in_worktrees_ends_with_how_its_work_is_merged() {
    let ws = crate::worktree::repository();
    ws.add("a", "echo a > a");
    ws.add("b", "exit 1");
    let merge = "cf work merge             brings finished work to the current branch";
    ws.run(["a"]).ok().says(merge).never_says("cf resume");
    ws.cf(["work", "batch", "status"])
        .ok()
        .says("isolation   worktree");
    ws.cf(["work", "merge"]).ok();
    ws.cf(["follow"]).ok().never_says("Next:");
    ws.run(["b"])
        .code(3)
        .never_says("cf work merge")
        .says("cf resume");
}

#[test]
fn a_quiet_batch_with_a_bad_end_says_so_in_one_line() {
    let ws = workspace();
    ws.add("bad", "exit 3");
    ws.add("good", "true");
    let bad = ws.cf(["run", "bad", "-q"]).code(3);
    assert!(bad.stdout().is_empty(), "{}", bad.stdout());
    assert_eq!(bad.stderr().lines().count(), 1, "{}", bad.stderr());
    let good = ws.cf(["run", "good", "-q"]).ok();
    assert!(good.text().is_empty(), "{}", good.text());
}

#[test]
fn explain_says_how_a_done_task_runs_again() {
    let ws = workspace();
    ws.add("a", "true");
    ws.run(["a"]).ok();
    ws.cf(["explain", "a"])
        .ok()
        .says("it is done; cf work start a --force runs it again");
    ws.cf(["work", "start", "a", "--force"]).ok();
    assert_eq!(ws.attempts("a").len(), 2);
}

#[test]
fn what_is_skipped_as_done_is_told_with_what_runs_it_again() {
    let ws = workspace();
    for key in ["a", "b", "c"] {
        ws.add(key, "true");
    }
    ws.run(["a", "b", "c"]).ok().never_says("--force");
    ws.set("c", "MERGED");
    ws.cf(["work", "start", "a"])
        .ok()
        .says("already done, skipped")
        .says("\n1 task is done already; --force runs it again\n");
    ws.run(["a", "b", "c", "--dry-run"])
        .ok()
        .says("already merged, skipped")
        .says("\n2 tasks are done already; --force runs them again\n");
    ws.run(["a", "b", "c", "--force"])
        .ok()
        .never_says("done already");
    // What is merged is not run again by anything.
    ws.cf(["work", "start", "c"])
        .ok()
        .says("already merged, skipped")
        .never_says("--force");
    let json = ws.cf(["run", "c", "--dry-run", "--json"]).ok().json();
    assert_eq!(json["order"][0]["standing"], "already done");
}

#[test]
fn explain_says_that_a_task_runs_or_that_its_conductor_is_gone() {
    let ws = workspace();
    ws.add("a", "echo $$ > pid; sleep 60");
    let batch = ws.start(["a"]);
    ws.wait_for_pid("pid");
    ws.cf(["explain", "a"]).ok().says("it is running");
    batch.kill9();
    ws.cf(["explain", "a"])
        .ok()
        .says("its conductor is gone: cf resume ");
    ws.cf(["status"]).ok().says("its conductor is gone");
    ws.cf(["stop", "--force", &ws.batch_id()]).ok();
    ws.wait_for_quiet();
}

#[test]
fn explain_says_of_a_new_task_that_its_status_is_the_one_it_was_added_with() {
    let ws = workspace();
    ws.add("a", "true");
    ws.cf([
        "tasks",
        "import",
        ws.plan("[[task]]\nkey = 'b'\ntitle = 'B'\n"),
    ])
    .ok();
    for key in ["a", "b"] {
        ws.cf(["explain", key])
            .ok()
            .says("the status is the one with which a person added it")
            .never_says("set by");
        ws.cf(["tasks", "show", key])
            .ok()
            .says("a person, who added it");
    }
    ws.set("a", "BACKLOG");
    ws.cf(["explain", "a"])
        .ok()
        .says("the status was set by a person");
    ws.cf(["tasks", "show", "a"])
        .ok()
        .never_says("who added it");
}

#[test]
fn explain_names_the_task_because_of_which_another_was_skipped() {
    let ws = workspace();
    ws.add("build", "exit 3");
    ws.task("test").run("true").after("build").add();
    ws.task("doc").run("true").after("test").add();
    ws.run(["build", "test", "doc"]).code(3);
    ws.cf(["explain", "doc"])
        .ok()
        .says("\n  finish build (FAILED), for which it was skipped: cf explain build\n")
        .says("\n  finish test (READY): cf explain test\n");
    // It is one of its own dependencies, and said once.
    ws.cf(["explain", "test"])
        .ok()
        .says("\n  finish build (FAILED): cf explain build\n")
        .never_says("for which");
    ws.set("build", "DONE");
    ws.cf(["explain", "doc"]).ok().never_says("for which");
}

#[test]
fn explain_proposes_no_engine_where_the_configuration_has_one() {
    let ws = workspace();
    ws.task("a").add();
    ws.cf(["explain", "a"])
        .ok()
        .says("cf work start a --engine ENGINE runs it");
    ws.config("engine = 'claude-code'\n");
    ws.cf(["explain", "a"])
        .ok()
        .says("cf work start a runs it")
        .never_says("--engine");
}

#[test]
fn a_plan_without_tasks_makes_no_batch() {
    let ws = workspace();
    ws.add("a", "true");
    ws.run(["a"]).ok();
    let plan = ws.plan("[batch]\nretry = 1\n");
    ws.run(["--file", plan])
        .ok()
        .says("nothing to do: there are no tasks in plan.toml");
    let json = ws.cf(["run", "--file", plan, "--json"]).ok().json();
    assert!(json["batch"].is_null());
    assert_eq!(ws.events_named("BATCH_STARTED").len(), 1);
}

#[test]
fn nothing_ready_makes_no_batch() {
    let ws = workspace();
    ws.add("a", "exit 1");
    ws.run(["a"]).code(3);
    ws.run(["--all-ready"])
        .ok()
        .says("nothing to do: nothing is READY: 1 FAILED");
    assert_eq!(ws.events_named("BATCH_STARTED").len(), 1);
    let json = ws.cf(["run", "--all-ready", "--json"]).ok().json();
    assert!(json["batch"].is_null());
}

#[test]
fn an_unknown_engine_is_refused_where_it_is_named() {
    let ws = workspace();
    ws.cf(["tasks", "add", "A", "--engine", "claud"])
        .code(2)
        .says("did you mean claude-code?");
    ws.add("a", "true");
    ws.run(["a", "--engine", "claud"])
        .code(2)
        .says("--engine: there is no engine")
        .says("[engines.NAME] in the configuration makes one");
    let plan = ws.plan("[[task]]\ntitle = \"A\"\nengine = \"claud\"\n");
    ws.run(["--file", plan]).code(2).says("`engine`");
    let plan = ws.plan("[[task]]\ntitle = \"A\"\nrun = \"true\"\ndepends_on = [\"nobody\"]\n");
    ws.run(["--file", plan]).code(2).says("`depends_on`");
}

#[test]
fn a_broken_configuration_can_be_looked_at() {
    let ws = workspace();
    ws.config("retri = 3\n");
    ws.cf(["config", "show"])
        .code(2)
        .says("kill_grace")
        .says("did you mean `retry`?");
}

#[test]
fn what_has_no_json_refuses_it() {
    let ws = workspace();
    for words in [
        &["logs", "a"][..],
        &["work", "logs", "a"],
        &["completions", "bash"],
        &["man"],
    ] {
        let error = ws.cf(words.iter().chain(&["--json"])).code(2).json_error();
        assert_eq!(error["error"]["exit_code"], 2, "{words:?}: {error}");
    }
}

#[test]
fn a_duration_behind_wait_for_blockers_is_no_task() {
    let ws = workspace();
    ws.cf(["run", "--all-ready", "--wait-for-blockers", "5m"])
        .code(2)
        .says("--wait-for-blockers=5m");
}

#[test]
fn the_list_of_batches_fits_a_usual_terminal() {
    let ws = workspace();
    ws.add("a", "true");
    ws.run(["a"]).ok();
    let list = ws.cf(["work", "batch", "list"]).ok().stdout();
    assert!(list.lines().all(|line| line.len() <= 80), "{list}");
    assert!(!list.contains("Conductor"), "{list}");
}
