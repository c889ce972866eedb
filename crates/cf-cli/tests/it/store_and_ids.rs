//! The store under many hands, identifiers, and the status machine as people meet it.

use cf_testkit::Value;
use test_case::test_case;

use crate::{empty_folder, plan_of, waiter, workspace};

const STATUSES: [&str; 7] = [
    "BACKLOG",
    "READY",
    "IN_PROGRESS",
    "BLOCKED",
    "FAILED",
    "DONE",
    "MERGED",
];

#[test]
fn a_workspace_is_a_folder_with_everything_in_it() {
    let ws = empty_folder();
    let made = ws.cf(["init", "--json"]).json();
    assert_eq!(made["created"], true);
    assert!(ws.exists(".cf/state.db"));
    assert_eq!(ws.read(".cf/.gitignore").trim(), "*");
    let again = ws.cf(["init", "--json"]).json();
    assert_eq!(again["created"], false);
}

#[test]
fn init_makes_a_workspace_elsewhere() {
    let ws = empty_folder();
    std::fs::create_dir(ws.root().join("there")).expect("the folder is ours");
    ws.cf(["init", "there"]).ok();
    assert!(ws.exists("there/.cf/state.db"));
    assert!(!ws.exists(".cf"));
}

#[test]
fn a_new_task_is_ready_and_has_every_field() {
    let ws = workspace();
    ws.add("base", "true");
    let task = ws
        .cf([
            "tasks",
            "add",
            "A title",
            "--key",
            "a",
            "--description",
            "words",
            "--run",
            "true",
            "--verify",
            "test 1",
            "--depends-on",
            "base",
            "--priority",
            "3",
            "--json",
        ])
        .json();
    assert_eq!(task["title"], "A title");
    assert_eq!(task["key"], "a");
    assert_eq!(task["description"], "words");
    assert_eq!(task["run"], "true");
    assert_eq!(task["verify"], "test 1");
    assert_eq!(task["priority"], 3);
    assert_eq!(task["status"], "READY");
    assert_eq!(task["depends_on"][0], ws.id("base").as_str());
    let created = &ws.events_of("TASK_CREATED", "a")[0];
    assert_eq!(created["actor"], "cli");
}

#[test]
fn thirty_tasks_are_added_at_once() {
    let ws = workspace();
    let adds: Vec<_> = (0..30)
        .map(|n| ws.spawn(["tasks", "add", &format!("t{n}")]))
        .collect();
    for add in adds {
        add.wait().ok();
    }
    assert_eq!(
        ws.cf(["tasks", "list", "--json"])
            .json()
            .as_array()
            .map(Vec::len),
        Some(30)
    );
}

#[test]
fn twenty_first_starts_in_an_empty_folder_all_succeed() {
    let ws = empty_folder();
    let starts: Vec<_> = (0..20).map(|_| ws.spawn(["init", "--json"])).collect();
    let made = starts
        .into_iter()
        .map(|start| start.wait().json())
        .filter(|made| made["created"] == true)
        .count();
    assert_eq!(made, 1, "one of them created it");
    ws.add("a", "true");
    ws.run(["a"]).ok();
    assert_eq!(ws.sql("PRAGMA integrity_check"), "ok");
}

#[test]
fn twenty_runs_of_one_plan_file_in_an_empty_folder_all_succeed() {
    let ws = empty_folder();
    let plan = ws.plan("[[task]]\nkey = 'a'\ntitle = 't'\nrun = 'echo x >> runs'\n");
    let runs: Vec<_> = (0..20).map(|_| ws.start(["--file", plan])).collect();
    for run in runs {
        run.wait().ok();
    }
    assert_eq!(ws.lines("runs"), 1);
}

#[test]
fn the_same_key_given_twenty_times_at_once_makes_one_task() {
    let ws = workspace();
    let adds: Vec<_> = (0..20)
        .map(|_| ws.spawn(["tasks", "add", "t", "--key", "only"]))
        .collect();
    let added = adds
        .into_iter()
        .map(|add| add.wait().exit_code())
        .filter(|code| *code == Some(0))
        .count();
    assert_eq!(added, 1);
    assert_eq!(
        ws.cf(["tasks", "list", "--json"])
            .json()
            .as_array()
            .map(Vec::len),
        Some(1)
    );
}

#[test]
fn ten_thousand_tasks_are_all_there() {
    let ws = workspace();
    ws.cf(["tasks", "import", ws.plan(&plan_of(10_000, "true"))])
        .ok();
    let list = ws.cf(["tasks", "list", "--json"]).json();
    assert_eq!(list.as_array().map(Vec::len), Some(10_000));
    let shown = ws.cf(["tasks", "list"]).ok().stdout();
    assert!(shown.lines().count() >= 10_000, "no silent cap");
    assert_eq!(ws.cf(["status", "--json"]).json()["tasks"]["READY"], 10_000);
    let plan = ws.run(["--all-ready", "--dry-run"]).ok().text();
    assert!(
        plan.contains("10000") || plan.contains("10,000"),
        "the plan holds all of them"
    );
}

#[test]
fn following_a_burst_of_events_shows_every_one_in_order() {
    let ws = workspace();
    let mut follow = ws.spawn(["events", "--follow", "--json"]);
    follow.wait_for_text("WORKSPACE_CREATED");
    ws.cf(["tasks", "import", ws.plan(&plan_of(10_000, "true"))])
        .ok();
    let all = ws.events();
    let last = all.last().expect("there are events")["seq"].to_string();
    ws.wait_until("the last event is shown", || {
        let text = follow.text();
        text.ends_with('\n') && text.lines().last().is_some_and(|line| line.contains(&last))
    });
    let shown: Vec<Value> = follow.kill9().json_lines();
    let seqs: Vec<u64> = shown
        .iter()
        .filter_map(|event| event["seq"].as_u64())
        .collect();
    let expected: Vec<u64> = all
        .iter()
        .filter_map(|event| event["seq"].as_u64())
        .filter(|seq| Some(seq) >= seqs.first())
        .collect();
    assert!(seqs.len() >= 10_000);
    assert_eq!(seqs, expected);
}

#[test]
fn a_task_is_found_by_key_then_id_then_prefix() {
    let ws = workspace();
    let id = ws.add("plain", "true");
    // A key that is also the beginning of another task's id.
    let prefix = id[..8].to_owned();
    assert_eq!(ws.show(&prefix)["id"], id.as_str());
    assert_eq!(ws.show(&id)["id"], id.as_str());
    assert_eq!(ws.show(&id[..4])["id"], id.as_str());
    let other = ws
        .cf(["tasks", "add", "t", "--key", &prefix, "--json"])
        .json();
    assert_eq!(
        ws.show(&prefix)["id"],
        other["id"],
        "an exact key comes first"
    );
    assert_eq!(ws.show(&id)["id"], id.as_str());
}

#[test_case("nobody"; "an unknown key")]
#[test_case("ffffffff"; "an unknown prefix")]
#[test_case("00000000-0000-0000-0000-000000000000"; "an unknown id")]
#[test_case("%"; "a wildcard")]
#[test_case("____"; "another wildcard")]
#[test_case("%%%%"; "four wildcards")]
#[test_case(""; "nothing")]
#[test_case("a'; DROP TABLE task; --"; "a statement")]
fn an_unknown_task_is_refused_and_nothing_is_touched(name: &str) {
    let ws = workspace();
    ws.add("a", "true");
    let before = ws.events().len();
    for args in [
        vec!["tasks", "show", name],
        vec!["tasks", "set", "status", name, "DONE"],
        vec!["tasks", "set", "status", "a", name, "DONE"],
        vec!["tasks", "delete", name, "--force"],
        vec!["work", "batch", "run", name],
        vec!["work", "start", name],
        vec!["work", "logs", name],
        vec!["explain", name],
    ] {
        ws.cf(&args).refused();
    }
    assert_eq!(ws.events().len(), before);
    assert_eq!(ws.status("a"), "READY");
}

#[test]
fn an_ambiguous_prefix_is_refused_with_its_candidates() {
    let ws = workspace();
    // With this many tasks some two ids share their first four digits (the chance that none do is below 1e-9).
    ws.cf(["tasks", "import", ws.plan(&plan_of(1_800, "true"))])
        .ok();
    let list = ws.cf(["tasks", "list", "--json"]).json();
    let ids: Vec<String> = list
        .as_array()
        .expect("a list")
        .iter()
        .map(|task| task["id"].as_str().expect("an id is text").to_owned())
        .collect();
    let (one, two) = ids
        .iter()
        .enumerate()
        .find_map(|(at, one)| {
            ids[at + 1..]
                .iter()
                .find(|two| two[..4] == one[..4])
                .map(|two| (one, two))
        })
        .expect("two of 1,800 ids share four digits");
    let before = ws.events().len();
    ws.cf(["tasks", "set", "status", &one[..4], "DONE"])
        .refused()
        .says(&one[..8])
        .says(&two[..8]);
    assert_eq!(ws.events().len(), before);
    ws.cf(["tasks", "show", &one[..3]]).refused();
}

#[test_case("A"; "upper case")]
#[test_case("-a"; "a leading hyphen")]
#[test_case("a b"; "a space")]
#[test_case("a/b"; "a slash")]
#[test_case("a..b"; "two dots")]
#[test_case("a."; "a final dot")]
#[test_case("a.lock"; "a final lock")]
#[test_case("self"; "self")]
#[test_case("done"; "a status")]
#[test_case("in_progress"; "another status")]
#[test_case("ä"; "not ascii")]
#[test_case(""; "empty")]
fn a_key_that_breaks_the_rules_is_refused(key: &str) {
    let ws = workspace();
    ws.cf(["tasks", "add", "t", &format!("--key={key}")])
        .refused();
    let plan = ws.plan(&format!(
        "[[task]]\nkey = '{key}'\ntitle = 't'\nrun = 'true'\n"
    ));
    ws.cf(["tasks", "import", plan]).refused();
    assert_eq!(
        ws.cf(["tasks", "list", "--json"]).json(),
        cf_testkit::json!([])
    );
}

#[test]
fn a_key_is_unique() {
    let ws = workspace();
    ws.add("a", "true");
    ws.cf(["tasks", "add", "t", "--key", "a"])
        .refused()
        .says("a");
    assert_eq!(
        ws.cf(["tasks", "list", "--json"])
            .json()
            .as_array()
            .map(Vec::len),
        Some(1)
    );
}

#[test]
fn people_may_set_any_status_except_out_of_merged() {
    let ws = workspace();
    for from in STATUSES {
        for to in STATUSES {
            let key = format!("{}-{}", from.to_lowercase(), to.to_lowercase());
            ws.add(&key, "true");
            ws.set(&key, from);
            let output = ws.cf(["tasks", "set", "status", &key, to]);
            if from == "MERGED" && to != "MERGED" {
                output.refused();
                assert_eq!(ws.status(&key), "MERGED");
            } else {
                output.ok();
                assert_eq!(ws.status(&key), to, "{from} to {to}");
            }
        }
    }
}

#[test]
fn a_status_that_a_task_has_already_is_not_written_again() {
    let ws = workspace();
    ws.add("a", "true");
    ws.set("a", "DONE");
    let before = (ws.events().len(), ws.show("a")["version"].clone());
    ws.set("a", "DONE");
    assert_eq!(before, (ws.events().len(), ws.show("a")["version"].clone()));
}

#[test]
fn several_tasks_change_together_or_not_at_all() {
    let ws = workspace();
    ws.add("a", "true");
    ws.add("b", "true");
    ws.add("m", "true");
    ws.cf(["tasks", "set", "status", "a", "b", "DONE"]).ok();
    assert_eq!(
        (ws.status("a"), ws.status("b")),
        ("DONE".into(), "DONE".into())
    );
    ws.set("m", "MERGED");
    ws.cf(["tasks", "set", "status", "a", "m", "READY"])
        .refused();
    assert_eq!(ws.status("a"), "DONE", "a refused change changes nothing");
}

#[test]
fn an_unknown_status_is_refused_with_what_is_allowed() {
    let ws = workspace();
    ws.add("a", "true");
    ws.cf(["tasks", "set", "status", "a", "FINISHED"])
        .refused()
        .says("DONE");
    assert_eq!(ws.status("a"), "READY");
}

#[test]
fn a_task_that_others_depend_on_is_not_deleted_without_force() {
    let ws = workspace();
    let id = ws.add("base", "true");
    ws.task("top").run("true").after("base").add();
    ws.cf(["tasks", "delete", "base"]).refused().says("top");
    assert_eq!(ws.status("base"), "READY");
    ws.cf(["tasks", "delete", "base", "--force"]).ok();
    ws.cf(["tasks", "show", "base"]).refused();
    assert_eq!(
        ws.show("top")["depends_on"],
        cf_testkit::json!([]),
        "the edges go too"
    );
    assert_eq!(ws.sql("SELECT count(*) FROM pragma_foreign_key_check"), "0");
    assert!(
        ws.events()
            .iter()
            .any(|e| e["type"] == "TASK_DELETED" && e["task"] == id.as_str()),
        "its history stays"
    );
}

#[test]
fn a_task_that_nobody_needs_is_deleted() {
    let ws = workspace();
    ws.add("a", "true");
    ws.run(["a"]).ok();
    ws.cf(["tasks", "delete", "a"]).ok();
    assert_eq!(
        ws.cf(["tasks", "list", "--json"]).json(),
        cf_testkit::json!([])
    );
    assert_eq!(ws.batch()["counts"]["total"], 1, "the batch keeps its rows");
    ws.cf(["work", "batch", "status"]).ok();
    assert_eq!(ws.sql("SELECT count(*) FROM pragma_foreign_key_check"), "0");
}

#[test]
fn a_running_task_is_not_deleted_without_force() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    ws.cf(["tasks", "delete", "a"]).refused();
    ws.touch("a.go");
    batch.wait().ok();
}

#[test]
fn the_workspace_is_found_from_below() {
    let ws = workspace();
    let id = ws.add("a", "true");
    let deep = ws.root().join("x/y/z");
    std::fs::create_dir_all(&deep).expect("the folder is ours");
    let shown = ws
        .command(["tasks", "show", "a", "--json"])
        .dir(&deep)
        .run()
        .json();
    assert_eq!(shown["id"], id.as_str());
}

#[test]
fn the_workspace_is_found_from_a_git_worktree() {
    let ws = empty_folder().git().init();
    let id = ws.add("a", "true");
    ws.git_do(["worktree", "add", "-q", "../tree", "-b", "side"]);
    let tree = ws.root().join("../tree");
    let shown = ws
        .command(["tasks", "show", "a", "--json"])
        .dir(&tree)
        .run()
        .json();
    assert_eq!(shown["id"], id.as_str());
}

#[test]
fn the_search_for_a_workspace_ends_at_the_repositorys_root() {
    let ws = workspace();
    ws.add("a", "true");
    ws.git_do(["init", "-q", "inner"]);
    ws.command(["tasks", "list"])
        .dir(ws.root().join("inner"))
        .run()
        .refused();
}

#[test]
fn without_a_workspace_one_is_asked_for() {
    let ws = empty_folder();
    ws.cf(["tasks", "list"]).refused().says("cf init");
    assert!(!ws.exists(".cf"));
}

#[test]
fn events_are_only_ever_appended() {
    let ws = workspace();
    ws.add("a", "true");
    let before = ws.events();
    ws.run(["a"]).ok();
    ws.cf(["tasks", "delete", "a"]).ok();
    let after = ws.events();
    assert_eq!(before[..], after[..before.len()]);
    let seqs: Vec<u64> = after
        .iter()
        .filter_map(|event| event["seq"].as_u64())
        .collect();
    assert!(seqs.windows(2).all(|pair| pair[0] < pair[1]), "{seqs:?}");
}

#[test]
fn an_ambiguous_prefix_is_counted_in_full() {
    let ws = workspace();
    ws.cf(["tasks", "import", ws.plan(&plan_of(25, "true"))])
        .ok();
    ws.sql_do("UPDATE task SET id = 'abcd' || substr(id, 5)");
    ws.cf(["tasks", "show", "abcd"])
        .refused()
        .says("may mean 25 tasks: abcd")
        .says(", …");
    ws.sql_do("DELETE FROM task WHERE pk > 2");
    ws.cf(["tasks", "show", "abcd"])
        .refused()
        .says("may mean 2 tasks: abcd")
        .never_says("…");
}

#[test]
fn an_id_that_cannot_be_read_is_an_error_and_no_crash() {
    let ws = workspace();
    ws.add("a", "true");
    ws.task("b").run("true").after("a").add();
    ws.sql_do("PRAGMA foreign_keys = off; UPDATE task SET id = 'ffff-nonsense' WHERE key = 'a'");
    ws.cf(["tasks", "show", "a"])
        .refused()
        .never_says("panicked");
    ws.cf(["tasks", "show", "ffff"])
        .refused()
        .never_says("panicked");
    ws.sql_do("PRAGMA foreign_keys = off; UPDATE dependency SET depends_on = 'nonsense'");
    ws.cf(["tasks", "show", "b"])
        .refused()
        .never_says("panicked");
}

#[test]
fn a_word_in_the_log_that_a_newer_program_wrote_is_shown_and_ends_nothing() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    let batch = ws.start(["a", "--reconcile-interval", "100ms"]);
    ws.wait_for_pid("a.pid");
    let (id, batch_id) = (ws.id("a"), ws.batch_id());
    ws.sql_do(&format!(
        "INSERT INTO event (at_ms, type, task, batch, actor, data) \
         VALUES (0, 'TASK_FROM_THE_FUTURE', '{id}', '{batch_id}', 'cli', '{{\"x\":1}}')"
    ));
    let written = ws.events_of("TASK_FROM_THE_FUTURE", "a");
    assert_eq!(written.len(), 1);
    assert_eq!(written[0]["data"]["x"], 1);
    ws.cf(["events"]).ok().says("TASK_FROM_THE_FUTURE");
    ws.cf(["tasks", "show", "a"])
        .ok()
        .says("TASK_FROM_THE_FUTURE");
    // The conductor reads on past it.
    ws.set("a", "DONE");
    batch.wait().ok();
    ws.ended("a", "SKIPPED", "externally completed");
    ws.cf(["work", "batch", "follow"]).ok();
}

#[test]
fn a_folder_in_which_others_could_put_a_database_becomes_no_workspace() {
    use std::os::unix::fs::PermissionsExt as _;
    let ws = empty_folder();
    let folder = ws.root().join(".cf");
    std::fs::create_dir(&folder).expect("the folder is ours");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).expect("it is ours");
    ws.cf(["init"]).refused().says("others may write to it");
    assert!(!ws.exists(".cf/state.db"));
    let plan = ws.plan(&plan_of(1, "touch ran"));
    ws.run(["--file", plan])
        .refused()
        .says("others may write to it");
    assert!(!ws.exists("ran"));
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).expect("it is ours");
    std::os::unix::fs::symlink("/tmp", folder.join("logs")).expect("the folder is ours");
    ws.cf(["init"]).refused().says("symbolic link");
    std::fs::remove_file(folder.join("logs")).expect("it is ours");
    ws.cf(["init"]).ok();
    assert!(ws.exists(".cf/state.db"));
}

#[test]
fn a_list_of_tasks_in_a_pipe_is_a_line_a_task() {
    let ws = workspace();
    for title in ["one\ntwo", "a\ttab\rand \u{2028}more", "\u{1b}[2Jclear"] {
        ws.cf(["tasks", "add", title]).ok();
    }
    let listed = ws.cf(["tasks", "list"]).ok().stdout();
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 4, "{listed:?}");
    for line in lines {
        assert_eq!(line.split('\t').count(), 6, "{line:?}");
        assert!(!line.contains(['\r', '\u{1b}', '\u{2028}']), "{line:?}");
    }
    let coloured = ws.cf(["tasks", "list", "--color", "always"]).ok().stdout();
    assert_eq!(coloured.lines().count(), 4, "{coloured:?}");
}
