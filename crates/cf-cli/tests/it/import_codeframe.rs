//! `cf import codeframe`: another program's workspace is taken over, and left as it was.

use std::collections::BTreeMap;
use std::fs;

use cf_testkit::{OtherDatabase, Workspace};
use serde_json::{Value, json};
use test_case::test_case;

use crate::workspace;

/// The tables that are read, with the columns of today.
const TABLES: &str = "
PRAGMA journal_mode = WAL;
PRAGMA user_version = 5;
CREATE TABLE workspace (id TEXT PRIMARY KEY, repo_path TEXT, tech_stack TEXT, created_at TEXT, updated_at TEXT);
CREATE TABLE tasks (id TEXT PRIMARY KEY, workspace_id TEXT, prd_id TEXT, title TEXT, description TEXT, status TEXT,
    priority INTEGER, depends_on TEXT, parent_id TEXT, is_leaf INTEGER, created_at TEXT, updated_at TEXT,
    github_issue_number INTEGER, external_url TEXT);
CREATE TABLE blockers (id TEXT PRIMARY KEY, workspace_id TEXT, task_id TEXT, question TEXT, answer TEXT, status TEXT,
    created_at TEXT, answered_at TEXT, created_by TEXT);
CREATE TABLE batch_runs (id TEXT PRIMARY KEY, workspace_id TEXT, task_ids TEXT, status TEXT, started_at TEXT);
INSERT INTO workspace VALUES ('00000000-0000-4000-8000-0000000000ff', '/repo', NULL, 't', 't');
";

fn id(n: u32) -> String {
    format!("{n:08x}-0000-4000-8000-000000000000")
}

/// One row of `tasks`; what is not said is as CodeFRAME leaves it.
fn task(n: u32, title: &str, status: &str, more: &str) -> String {
    let fields: BTreeMap<&str, &str> = more
        .split(" | ")
        .filter_map(|field| field.split_once(" = "))
        .collect();
    let joined = |words: Vec<&str>| {
        words
            .into_iter()
            .fold(String::new(), |all, word| all + ", " + word)
    };
    let names = joined(fields.keys().copied().collect());
    let values = joined(fields.values().copied().collect());
    format!(
        "INSERT INTO tasks (id, workspace_id, title, status, created_at{names}) VALUES \
         ('{}', '00000000-0000-4000-8000-0000000000ff', '{title}', '{status}', \
         '2026-01-01T00:00:{n:02}+00:00'{values});",
        id(n)
    )
}

fn on(list: &[u32]) -> String {
    let ids: Vec<String> = list.iter().map(|n| format!("\"{}\"", id(*n))).collect();
    format!("depends_on = '[{}]'", ids.join(", "))
}

fn codeframe(ws: &Workspace, rows: &str) -> OtherDatabase {
    ws.other_database(".codeframe/state.db", &format!("{TABLES}{rows}"))
}

/// The name and content of every file of the other program.
fn files(ws: &Workspace) -> BTreeMap<String, Vec<u8>> {
    let folder = fs::read_dir(ws.root().join(".codeframe")).expect("it is there");
    folder
        .map(|entry| {
            let entry = entry.expect("it can be read");
            let content = fs::read(entry.path()).expect("it can be read");
            (entry.file_name().to_string_lossy().into_owned(), content)
        })
        .collect()
}

fn notes(imported: &Value, kind: &str) -> Vec<String> {
    let notes = imported["notes"].as_array().cloned().unwrap_or_default();
    let of_kind = notes.iter().filter(|note| note["kind"] == kind);
    of_kind
        .map(|note| {
            format!(
                "{} {}",
                &note["subject"].as_str().unwrap_or("")[..8],
                note["what"].as_str().unwrap_or("")
            )
        })
        .collect()
}

#[test]
fn tasks_come_with_their_statuses_dependencies_questions_and_issues() {
    let ws = workspace();
    let blocker = |n: u32, task: &str, status: &str, answer: &str| {
        format!(
            "INSERT INTO blockers VALUES ('{}', '00000000-0000-4000-8000-0000000000ff', {task}, 'Which one?', {answer}, \
             '{status}', '2026-01-02T03:04:05.000006+00:00', NULL, 'agent');",
            id(n)
        )
    };
    let rows = [
        task(
            1,
            "Backlog",
            "BACKLOG",
            "priority = 7 | description = 'in full'",
        ),
        task(2, "Ready", "READY", &on(&[1, 6])),
        task(3, "Blocked", "BLOCKED", ""),
        task(
            4,
            "Failed",
            "FAILED",
            "external_url = 'https://github.com/o/r/issues/12' | github_issue_number = 12",
        ),
        task(5, "Done", "DONE", "github_issue_number = 13"),
        task(6, "Merged", "MERGED", ""),
        blocker(101, &format!("'{}'", id(3)), "OPEN", "NULL"),
        blocker(102, &format!("'{}'", id(3)), "ANSWERED", "'The first'"),
        blocker(103, "NULL", "RESOLVED", "NULL"),
    ];
    drop(codeframe(&ws, &rows.concat()));
    ws.write(
        ".codeframe/github_integration.json",
        r#"{"repo": "r2", "owner_login": "o2"}"#,
    );
    let before = files(&ws);
    let imported = ws.cf(["import", "codeframe", "--json"]).json();
    assert_eq!(files(&ws), before, "the other workspace is as it was");
    assert_eq!(
        (
            &imported["added"],
            &imported["dependencies"],
            &imported["blockers"],
            &imported["links"]
        ),
        (&json!(6), &json!(2), &json!(3), &json!(2))
    );
    assert_eq!(
        (&imported["version"], &imported["notes"]),
        (&json!(5), &json!([]))
    );
    // As CodeFRAME lists them: by priority, then by age.
    assert_eq!(
        imported["tasks"],
        json!([id(2), id(3), id(4), id(5), id(6), id(1)])
    );
    for (n, status) in [
        (1, "BACKLOG"),
        (2, "READY"),
        (3, "BLOCKED"),
        (4, "FAILED"),
        (5, "DONE"),
        (6, "MERGED"),
    ] {
        assert_eq!(ws.status(&id(n)[..8]), status);
    }
    let first = ws.show(&id(1));
    assert_eq!(
        (&first["priority"], &first["description"]),
        (&json!(7), &json!("in full"))
    );
    assert_eq!(ws.show(&id(2))["depends_on"], json!([id(1), id(6)]));
    assert_eq!(
        ws.show(&id(4))["links"][0]["url"],
        "https://github.com/o/r/issues/12"
    );
    assert_eq!(
        ws.show(&id(5))["links"][0]["url"],
        "https://github.com/o2/r2/issues/13"
    );
    let questions = ws.blockers(&id(3));
    assert_eq!(questions.len(), 2);
    assert_eq!(
        (&questions[0]["id"], &questions[0]["status"]),
        (&json!(id(101)), &json!("OPEN"))
    );
    assert_eq!(
        (&questions[1]["answer"], &questions[1]["asked_by"]),
        (&json!("The first"), &json!("agent"))
    );
    assert_eq!(questions[0]["asked_at"], "2026-01-02T03:04:05.000Z");
    // The last open question, answered here, lets the task go on.
    ws.cf(["blocker", "answer", &id(101), "This one"]).ok();
    assert_eq!(ws.status(&id(3)), "READY");
}

#[test]
fn a_second_import_changes_nothing_and_a_later_one_adds_what_is_new() {
    let ws = workspace();
    let other = codeframe(
        &ws,
        &[
            task(1, "One", "READY", ""),
            task(2, "Two", "READY", &on(&[1])),
        ]
        .concat(),
    );
    ws.cf(["import", "codeframe"]).ok().says("2 tasks added");
    ws.cf(["tasks", "edit", &id(1), "--key", "one", "--run", "true"])
        .ok();
    ws.set("one", "DONE");
    let before = ws.events().len();
    let again = ws.cf(["import", "codeframe", "--json"]).json();
    assert_eq!(
        (&again["added"], &again["changed"], &again["dependencies"]),
        (&json!(0), &json!(0), &json!(0))
    );
    assert_eq!(ws.events().len(), before);
    other.run(&format!(
        "{}UPDATE tasks SET title = 'Another one', status = 'FAILED' WHERE id = '{}';",
        task(3, "Three", "READY", &on(&[2])),
        id(1)
    ));
    ws.cf(["tasks", "delete", &id(2), "--force"]).ok();
    let later = ws.cf(["import", "codeframe", "--json"]).json();
    assert_eq!((&later["added"], &later["changed"]), (&json!(1), &json!(1)));
    assert_eq!(
        notes(&later, "task"),
        ["00000002 it was deleted here and is not brought back"]
    );
    let one = ws.show("one");
    assert_eq!(
        (&one["title"], &one["status"], &one["run"]),
        (&json!("Another one"), &json!("DONE"), &json!("true"))
    );
    assert_eq!(
        ws.show(&id(3))["depends_on"],
        json!([]),
        "on a task that was deleted here"
    );
}

#[test]
fn what_cannot_be_taken_is_told() {
    let ws = workspace();
    let rows = [
        task(1, "A composite", "READY", &format!("is_leaf = 0 | {}", on(&[5]))),
        task(2, "First part", "READY", &format!("parent_id = '{}'", id(1))),
        task(3, "Second part", "READY", &format!("parent_id = '{}' | {}", id(1), on(&[2]))),
        task(4, "After the composite", "READY", &on(&[1, 99])),
        task(5, "A cycle", "IN_PROGRESS", &on(&[6])),
        task(6, "A cycle too", "IN_PROGRESS", &on(&[5, 6])),
        task(7, " ", "READY", ""),
        task(8, "Strange", "SLEEPING", ""),
        task(9, "Broken list", "READY", "depends_on = '[1' | github_issue_number = 4"),
        format!(
            "INSERT INTO batch_runs VALUES ('{}', '00000000-0000-4000-8000-0000000000ff', '[\"{}\"]', 'RUNNING', 't');
             INSERT INTO blockers VALUES ('{}', '00000000-0000-4000-8000-0000000000ff', '{}', 'q', NULL, 'OPEN', 't',
                 NULL, 'human');
             INSERT INTO tasks (id, workspace_id, title, status) VALUES ('t-1', '00000000-0000-4000-8000-0000000000ff',
                 'No UUID', 'READY');
             INSERT INTO tasks (id, workspace_id, title, status) VALUES ('{}', 'another', 'Not ours', 'READY');",
            id(200),
            id(6),
            id(201),
            id(1),
            id(202)
        ),
    ];
    let _other = codeframe(&ws, &rows.concat());
    let imported = ws.cf(["import", "codeframe", "--json"]).json();
    assert_eq!(
        imported["tasks"],
        json!([id(2), id(3), id(4), id(5), id(6), id(9)])
    );
    assert_eq!(
        notes(&imported, "running_batch"),
        ["000000c8 it is RUNNING there and is not taken; end it before its tasks run here"]
    );
    assert_eq!(notes(&imported, "composite").len(), 1);
    assert_eq!(
        notes(&imported, "in_progress"),
        [
            "00000005 it was IN_PROGRESS and is READY here",
            "00000006 it was IN_PROGRESS in a batch that is going on, and is BACKLOG here until somebody says READY"
        ]
    );
    assert_eq!(
        (ws.status(&id(5)), ws.status(&id(6))),
        ("READY".into(), "BACKLOG".into())
    );
    assert_eq!(
        notes(&imported, "dangling_dependency"),
        [
            format!("00000004 it depended on {}, which is not there", id(99)),
            "00000009 what it depends on is no list of ids, and is left out".to_owned(),
        ]
    );
    assert_eq!(
        notes(&imported, "cyclic_dependency"),
        [
            "00000006 its dependency on 00000005 is left out: it would close a cycle",
            "00000006 its dependency on 00000006 is left out: it would close a cycle"
        ]
    );
    assert_eq!(
        notes(&imported, "link"),
        ["00000009 its issue 4 is not taken: the workspace was connected to no repository"]
    );
    assert_eq!(notes(&imported, "blocker").len(), 1);
    let tasks: Vec<String> = imported["notes"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|note| note["kind"] == "task")
        .map(|note| note["what"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert!(
        tasks.iter().any(|what| what.contains("no title")),
        "{tasks:?}"
    );
    assert!(
        tasks.iter().any(|what| what.contains("\"SLEEPING\"")),
        "{tasks:?}"
    );
    assert!(
        tasks.iter().any(|what| what.contains("\"t-1\"")),
        "{tasks:?}"
    );
    // The parts wait for what the whole waited for, and what waited for the whole waits for its parts.
    assert_eq!(ws.show(&id(2))["depends_on"], json!([id(5)]));
    assert_eq!(ws.show(&id(3))["depends_on"], json!([id(2), id(5)]));
    assert_eq!(ws.show(&id(4))["depends_on"], json!([id(2), id(3)]));
    ws.cf(["import", "codeframe"])
        .ok()
        .says("not taken as it was:")
        .says("  00000006  its dependency on 00000005");
}

#[test]
fn a_live_database_is_read_with_its_journal_and_left_alone() {
    let ws = workspace();
    let other = codeframe(&ws, "");
    other.run("PRAGMA wal_autocheckpoint = 0;");
    other.run(&task(1, "In the journal alone", "READY", ""));
    let before = files(&ws);
    assert!(
        before["state.db-wal"].len() > 1000,
        "the row is not in the database file yet"
    );
    ws.cf(["import", "codeframe", ".codeframe"]).ok();
    assert_eq!(ws.status(&id(1)), "READY");
    assert_eq!(
        files(&ws),
        before,
        "nothing is written, and nothing made or removed"
    );
    let left = fs::read_dir(ws.root().join(".cf")).expect("it is there");
    let left: Vec<_> = left.flatten().map(|entry| entry.file_name()).collect();
    assert!(
        left.iter()
            .all(|name| !name.to_string_lossy().contains("codeframe")),
        "{left:?}"
    );
}

#[test]
fn a_database_from_long_ago_is_read() {
    let ws = workspace();
    drop(ws.other_database(
        "old/.codeframe/state.db",
        &format!(
            "CREATE TABLE workspace (id TEXT); INSERT INTO workspace VALUES ('w');
             CREATE TABLE tasks (id TEXT, workspace_id TEXT, title TEXT, status TEXT);
             INSERT INTO tasks VALUES ('{}', 'w', 'Old', 'READY');
             CREATE TABLE blockers (id TEXT, workspace_id TEXT, task_id TEXT, question TEXT, status TEXT);
             INSERT INTO blockers VALUES ('{}', 'w', '{}', 'Why?', 'OPEN');",
            id(1),
            id(2),
            id(1)
        ),
    ));
    let imported = ws.cf(["import", "codeframe", "old", "--json"]).json();
    assert_eq!(
        (
            &imported["version"],
            &imported["added"],
            &imported["blockers"]
        ),
        (&json!(0), &json!(1), &json!(1))
    );
    assert_eq!(ws.blockers(&id(1))[0]["asked_by"], "human");
}

#[test]
fn a_newer_database_is_read_and_said_to_be_one() {
    let ws = workspace();
    drop(codeframe(
        &ws,
        &format!("PRAGMA user_version = 6;{}", task(1, "New", "READY", "")),
    ));
    ws.cf(["import", "codeframe"])
        .ok()
        .says("made by a newer CodeFRAME (version 6; 5 is known)");
}

#[test_case("CREATE TABLE notes (id)"; "another program's")]
#[test_case(""; "an empty one")]
#[test_case("CREATE TABLE workspace (id); INSERT INTO workspace VALUES ('w'); CREATE VIEW tasks (id, workspace_id, title) AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, 'w', 't' FROM n"; "one whose tasks are a view without end")]
fn the_database_of_something_else_is_refused(statements: &str) {
    let ws = workspace();
    drop(ws.other_database(".codeframe/state.db", statements));
    ws.cf(["import", "codeframe"])
        .code(1)
        .says("is not the database of a CodeFRAME workspace");
    assert_eq!(ws.cf(["tasks", "list", "--json"]).json(), json!([]));
}

#[test]
fn no_workspace_and_no_database_are_refused() {
    let ws = workspace();
    ws.cf(["import", "codeframe"])
        .code(1)
        .says("there is no CodeFRAME workspace")
        .says("cf import codeframe PATH");
    ws.cf(["import", "codeframe", "/nowhere"])
        .code(1)
        .says("/nowhere/.codeframe/state.db is not there");
    ws.write(
        "state.db",
        "not a database, but long enough to be looked at as one".repeat(40),
    );
    ws.cf(["import", "codeframe", "state.db"])
        .code(1)
        .says("cannot read the CodeFRAME database");
}

#[test]
fn an_agent_imports_nothing() {
    let ws = workspace();
    drop(codeframe(&ws, &task(1, "One", "READY", "")));
    ws.add("a", "cf import codeframe > out 2>&1; true");
    ws.run(["a"]).ok();
    assert!(
        ws.read("out").contains("an agent may not import tasks"),
        "{}",
        ws.read("out")
    );
    ws.cf(["tasks", "show", &id(1)]).refused();
}
