//! The commands as a person uses them: what they print, where they look, how they colour.

use test_case::test_case;

use crate::{empty_folder, plan_of, until, waiter, workspace};

#[test]
fn cf_alone_tells_what_it_can_do() {
    let ws = empty_folder();
    let output = ws.cf([""; 0]);
    assert!(
        output
            .exit_code()
            .is_some_and(|code| code == 0 || code == 2),
        "{:?}",
        output.exit_code()
    );
    let text = output.text();
    for word in ["init", "tasks", "work", "blocker"] {
        assert!(text.contains(word), "{word} in\n{text}");
    }
    assert!(!ws.exists(".cf"));
}

#[test]
fn dash_c_works_as_if_started_there() {
    let ws = empty_folder();
    std::fs::create_dir(ws.root().join("there")).expect("the folder is ours");
    ws.cf(["-C", "there", "init"]).ok();
    ws.cf([
        "-C",
        "there",
        "tasks",
        "add",
        "t",
        "--key",
        "a",
        "--run",
        "pwd > where",
    ])
    .ok();
    ws.cf(["tasks", "list", "-C", "there"]).ok().says("a");
    ws.cf(["-C", "there", "work", "batch", "run", "a"]).ok();
    assert_eq!(
        ws.read("there/where").trim(),
        ws.root().join("there").to_string_lossy()
    );
    ws.cf(["-C", "nowhere", "status"]).refused().says("nowhere");
}

#[test]
fn the_list_shows_tasks_by_status() {
    let ws = workspace();
    ws.add("one", "true");
    ws.add("two", "true");
    ws.add("three", "true");
    ws.set("two", "DONE");
    ws.set("three", "FAILED");
    ws.cf(["tasks", "list"])
        .ok()
        .says("one")
        .says("two")
        .says("three");
    ws.cf(["tasks", "list", "--status", "DONE"])
        .ok()
        .says("two")
        .never_says("one");
    let two = ws
        .cf([
            "tasks", "list", "--status", "DONE", "--status", "FAILED", "--json",
        ])
        .json();
    assert_eq!(two.as_array().map(Vec::len), Some(2));
    ws.cf(["tasks", "list", "--status", "NEVER"]).refused();
}

#[test]
fn show_tells_everything_about_a_task() {
    let ws = workspace();
    ws.task("a")
        .run("true")
        .description("Paint the shed.")
        .add();
    ws.ask("a", "Which colour?");
    ws.cf(["tasks", "show", "a"])
        .ok()
        .says("Paint the shed.")
        .says("Which colour?")
        .says("BLOCKED");
}

#[test]
fn a_description_may_come_from_a_file() {
    let ws = workspace();
    ws.write("d.md", "From a file.\n");
    ws.cf(["tasks", "add", "t", "--key", "a", "--file", "d.md"])
        .ok();
    assert_eq!(
        ws.show("a")["description"].as_str().map(str::trim),
        Some("From a file.")
    );
    ws.cf([
        "tasks",
        "add",
        "t",
        "--key",
        "b",
        "--file",
        "d.md",
        "--description",
        "both",
    ])
    .refused();
    ws.cf(["tasks", "add", "t", "--key", "b", "--file", "missing.md"])
        .refused()
        .says("missing.md");
}

#[test]
fn a_task_can_be_edited() {
    let ws = workspace();
    ws.add("a", "true");
    ws.cf(["tasks", "edit", "a", "--title", "Another title"])
        .ok();
    assert_eq!(ws.show("a")["title"], "Another title");
    assert_eq!(ws.show("a")["run"], "true", "the rest stays");
    assert_eq!(ws.events_of("TASK_EDITED", "a").len(), 1);
}

#[test]
fn an_export_can_be_imported() {
    let ws = workspace();
    ws.task("a")
        .run("echo \"it's\" 'fine'\n")
        .description("multi\nline \"\"\" ''' text")
        .add();
    ws.task("b")
        .run("true")
        .verify("test 1")
        .after("a")
        .priority(2)
        .add();
    let plan = ws.cf(["tasks", "export"]).ok().stdout();
    let other = workspace();
    other.cf(["tasks", "import", other.plan(&plan)]).ok();
    for field in ["title", "description", "run", "verify", "priority"] {
        for key in ["a", "b"] {
            assert_eq!(ws.show(key)[field], other.show(key)[field], "{key} {field}");
        }
    }
    assert_eq!(other.show("b")["depends_on"][0], other.id("a").as_str());
}

#[test]
fn the_graph_shows_who_waits_for_whom() {
    let ws = workspace();
    ws.add("base", "true");
    ws.task("top").run("true").after("base").add();
    ws.cf(["tasks", "graph"]).ok().says("base").says("top");
}

#[test]
fn status_counts_tasks_and_shows_the_newest_batch() {
    let ws = workspace();
    ws.cf(["status"]).ok();
    ws.add("a", "true");
    ws.run(["a"]).ok();
    ws.cf(["status"]).ok().says("DONE").says("COMPLETED");
}

#[test]
fn the_short_forms_do_the_same() {
    let ws = workspace();
    ws.add("a", &format!("echo said-something; {}", waiter("a")));
    let batch = ws.spawn(["run", "a"]);
    ws.wait_for_pid("a.pid");
    ws.cf(["logs", "a"]).ok().says("said-something");
    ws.cf(["stop"]).ok();
    ws.touch("a.go");
    batch.wait().code(5);
    ws.cf(["follow"]).code(5);
    ws.add("b", "test -e fixed");
    ws.cf(["run", "b"]).code(3);
    ws.touch("fixed");
    ws.cf(["resume"]).ok();
    ws.cf(["run"]).code(2);
}

#[test]
fn batch_status_can_be_watched_to_the_end() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    let watch = ws.spawn(["work", "batch", "status", "--watch"]);
    ws.touch("a.go");
    batch.wait().ok();
    watch.wait().says("COMPLETED");
}

#[test]
fn events_are_shown_and_followed() {
    let ws = workspace();
    ws.add("a", "true");
    ws.cf(["events"]).ok().says("TASK_CREATED");
    let mut follow = ws.spawn(["events", "--follow"]);
    follow.wait_for_text("TASK_CREATED");
    ws.run(["a"]).ok();
    follow.wait_for_text("BATCH_COMPLETED");
}

#[test]
fn control_sequences_from_outside_never_reach_a_terminal() {
    let ws = workspace();
    let evil = "\u{1b}[2J\u{1b}]0;owned\u{7}title\u{9b}31m";
    ws.cf([
        "tasks",
        "add",
        evil,
        "--key",
        "a",
        "--description",
        evil,
        "--run",
        "printf '\\033[2Jlog\\033]0;owned\\007\\n'; exit 1",
    ])
    .ok();
    ws.ask("a", evil);
    ws.cf(["blocker", "answer", evil]).ok();
    ws.run(["a"]).code(3);
    for args in [
        vec!["tasks", "list"],
        vec!["tasks", "show", "a"],
        vec!["blocker", "list"],
        vec!["work", "batch", "status"],
        vec!["work", "logs", "a"],
        vec!["events"],
        vec!["status"],
        vec!["explain", "a"],
        vec!["tasks", "graph"],
    ] {
        let output = ws.cf(&args).ok();
        let bad: Vec<char> = output
            .text()
            .chars()
            .filter(|c| c.is_control() && !matches!(c, '\n' | '\t' | '\r'))
            .collect();
        assert!(
            bad.is_empty(),
            "{args:?} prints {bad:?}:\n{:?}",
            output.text()
        );
    }
}

#[test]
fn a_line_break_in_a_title_does_not_forge_a_row() {
    let ws = workspace();
    // Refused or shown on one line; both are right.
    let added = ws.cf(["tasks", "add", "one\nforged-row", "--key", "a"]);
    let shown = ws.cf(["tasks", "list"]).ok().stdout();
    assert!(
        !shown.lines().any(|line| line.starts_with("forged-row")),
        "{shown}"
    );
    assert_eq!(shown.contains("one"), added.exit_code() == Some(0));
}

#[test]
fn nothing_is_coloured_where_nobody_looks() {
    let ws = workspace();
    ws.add("a", "true");
    let plain = ws.cf(["tasks", "list"]).ok();
    assert!(!plain.text().contains('\u{1b}'));
}

#[test]
fn colour_is_a_choice() {
    let ws = workspace();
    ws.add("a", "true");
    ws.set("a", "FAILED");
    let always = ws.cf(["--color", "always", "tasks", "list"]).ok();
    assert!(always.stdout().contains('\u{1b}'), "{:?}", always.stdout());
    let never = ws.cf(["--color", "never", "tasks", "list"]).ok();
    assert!(!never.text().contains('\u{1b}'));
    let no_color = ws
        .command(["tasks", "list"])
        .env("NO_COLOR", "1")
        .run()
        .ok();
    assert!(!no_color.text().contains('\u{1b}'));
    ws.cf(["--color", "sometimes", "tasks", "list"]).code(2);
}

#[test_case(&["-q"]; "quiet")]
#[test_case(&["-v"]; "verbose")]
fn loudness_changes_no_result(flag: &[&str]) {
    let ws = workspace();
    ws.add("a", "true");
    let mut args = vec!["work", "batch", "run", "a"];
    args.extend(flag);
    ws.cf(&args).ok();
    assert_eq!(ws.status("a"), "DONE");
}

#[test]
fn a_closed_pipe_is_no_crash() {
    let ws = workspace();
    let plan = plan_of(
        5_000,
        "echo a script of some length, so that the pipe is full",
    );
    ws.cf(["tasks", "import", ws.plan(&plan)]).ok();
    let output = std::process::Command::new("/bin/sh")
        .args(["-c", "\"$CF\" tasks list | head -n 1"])
        .env("CF", ws.binary())
        .env("HOME", ws.home())
        .current_dir(ws.root())
        .output()
        .expect("there is a shell");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !said.contains("panicked") && !said.to_lowercase().contains("broken pipe"),
        "{said}"
    );
}

#[test]
fn completions_are_written_for_the_usual_shells() {
    let ws = empty_folder();
    for shell in ["bash", "zsh", "fish"] {
        let script = ws.cf(["completions", shell]).ok();
        assert!(script.stdout().contains("cf"), "{shell}");
    }
    ws.cf(["completions", "tcl"]).code(2);
    // What an option takes is offered, too.
    ws.cf(["completions", "fish"])
        .ok()
        .says("-l isolation")
        .says("none\\t''")
        .says("worktree\\t''")
        .says("IN_PROGRESS\\t''");
}

#[test]
fn run_prints_which_folder_to_use_after_making_a_workspace_elsewhere() {
    let ws = empty_folder();
    ws.write(
        "plans/plan.toml",
        "[[task]]\nkey = 'a'\ntitle = 't'\nrun = 'pwd > where'\n",
    );
    ws.run(["--file", "plans/plan.toml"]).ok().says("-C");
    assert!(ws.exists("plans/.cf/state.db"));
    assert!(!ws.exists(".cf"));
    assert_eq!(
        ws.read("plans/where").trim(),
        ws.root().join("plans").to_string_lossy()
    );
}

#[test]
fn a_plans_workspace_is_looked_for_upward_from_the_plan() {
    let ws = workspace();
    ws.write(
        "plans/plan.toml",
        "[[task]]\nkey = 'a'\ntitle = 't'\nrun = 'pwd > where'\n",
    );
    ws.run(["--file", "plans/plan.toml"]).ok();
    assert!(!ws.exists("plans/.cf"));
    assert_eq!(ws.read("where").trim(), ws.root().to_string_lossy());
}

#[test]
fn reading_commands_work_while_a_batch_runs() {
    let ws = workspace();
    ws.add("a", &format!("echo early; echo x > a.pid; {}", until("go")));
    let batch = ws.start(["a"]);
    ws.wait_for_line("a.pid");
    for args in [
        vec!["status"],
        vec!["tasks", "list"],
        vec!["tasks", "show", "a"],
        vec!["work", "batch", "status"],
        vec!["work", "batch", "list"],
        vec!["work", "logs", "a"],
        vec!["events"],
        vec!["blocker", "list"],
        vec!["explain", "a"],
        vec!["config", "show"],
    ] {
        ws.cf(&args).ok();
    }
    ws.touch("go");
    batch.wait().ok();
}

#[test]
fn the_log_of_an_attempt_ends_with_what_its_verification_wrote() {
    let ws = workspace();
    ws.task("a")
        .run("echo from the agent")
        .verify("echo from the check; false")
        .add();
    ws.run(["a"]).code(3);
    let log = ws.cf(["work", "logs", "a"]).ok().stdout();
    assert_eq!(
        log,
        "from the agent\n[cf: the verification]\nfrom the check\n"
    );
    ws.add("b", "echo alone");
    ws.run(["b"]).ok();
    assert_eq!(ws.cf(["work", "logs", "b"]).ok().stdout(), "alone\n");
}

#[test]
fn a_log_that_is_followed_goes_on_into_the_verification() {
    let ws = workspace();
    ws.task("a")
        .run(&format!("echo from the agent; {}", waiter("a")))
        .verify(&format!("echo from the check; {}", until("checked")))
        .add();
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    let mut follow = ws.spawn(["work", "logs", "a", "--follow"]);
    follow.wait_for_text("from the agent");
    ws.touch("a.go");
    follow.wait_for_text("from the check");
    ws.touch("checked");
    batch.wait().ok();
    follow.wait().ok();
}

#[test]
fn an_attempt_has_one_number_wherever_it_is_named() {
    let ws = workspace();
    ws.add("a", "echo run $CF_ATTEMPT; [ $CF_ATTEMPT -ge 3 ]");
    ws.run(["a"]).code(3).says("started a (attempt 1)");
    // A new batch goes on counting: these are the task's second and third attempts.
    ws.run(["a", "--retry", "1", "--retry-delay", "10ms"])
        .ok()
        .says("started a (attempt 2)")
        .says("started a (attempt 3)");
    let numbers: Vec<_> = ws
        .events_of("BATCH_TASK_STARTED", "a")
        .iter()
        .map(|event| event["data"]["generation"].clone())
        .collect();
    assert_eq!(numbers, [1, 2, 3]);
    ws.cf(["work", "logs", "a", "--attempt", "3"])
        .ok()
        .says("run 3");
    let retrying = &ws.events_of("BATCH_TASK_RETRYING", "a")[0]["data"];
    assert_eq!(retrying["failures"], 1);
    assert!(
        retrying["due"]
            .as_str()
            .is_some_and(|due| due.ends_with('Z')),
        "{retrying}"
    );
    let ended = &ws.events_of("ATTEMPT_ENDED", "a")[2]["data"];
    assert_eq!(ended["end"], "exited");
    assert_eq!(ended["success"], true);
}

#[test]
fn explain_shows_links() {
    let ws = workspace();
    ws.add("a", "true");
    ws.cf(["tasks", "link", "a", "--issue", "o/r#7"]).ok();
    ws.cf(["explain", "a"]).ok().says("linked to issue o/r#7");
}

#[test]
fn explain_counts_a_dependency_as_met_that_was_skipped_because_its_work_is_done() {
    let ws = workspace();
    ws.add("a", "true");
    ws.add("keep", &waiter("keep"));
    ws.task("b").run("true").after("a").after("keep").add();
    ws.set("a", "DONE");
    let batch = ws.start(["keep", "a", "b", "--reconcile-interval", "0"]);
    ws.wait_for_pid("keep.pid");
    let met = || {
        ws.cf(["explain", "b", "--json"]).json()["dependencies"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|on| {
                (
                    on["label"].as_str().unwrap_or_default().to_owned(),
                    on["met"] == true,
                )
            })
            .collect::<std::collections::BTreeMap<_, _>>()
    };
    assert_eq!(
        met(),
        [("a".to_owned(), true), ("keep".to_owned(), false)].into()
    );
    // Without passes nobody takes the skip back.
    ws.set("a", "READY");
    assert_eq!(
        met(),
        [("a".to_owned(), true), ("keep".to_owned(), false)].into()
    );
    ws.touch("keep.go");
    batch.wait();
    assert!(!met()["a"], "no batch vouches for it any more");
}
