//! What `--json` prints: stable shapes, whole ids, times in UTC.

use std::collections::BTreeSet;

use cf_testkit::Value;

use crate::{empty_folder, waiter, workspace};

const TASK: &[&str] = &[
    "id",
    "key",
    "title",
    "description",
    "run",
    "verify",
    "engine",
    "model",
    "timeout_ms",
    "env",
    "priority",
    "status",
    "version",
    "depends_on",
    "links",
    "open_blockers",
    "created_at",
    "updated_at",
];

const BLOCKER: &[&str] = &[
    "id",
    "task",
    "task_label",
    "question",
    "answer",
    "status",
    "asked_by",
    "asked_at",
    "answered_at",
];

const ATTEMPT: &[&str] = &[
    "id",
    "task",
    "task_label",
    "batch",
    "generation",
    "engine",
    "state",
    "end",
    "exit_code",
    "signal",
    "success",
    "reason",
    "last_said",
    "session",
    "resumes",
    "tokens",
    "cost_micro_usd",
    "left_behind",
    "output_lost",
    "worktree",
    "log",
    "started_at",
    "ended_at",
    "supervisor_pid",
];

const BATCH: &[&str] = &[
    "id",
    "status",
    "strategy",
    "max_parallel",
    "on_failure",
    "retry",
    "retry_delay_ms",
    "timeout_ms",
    "stall_timeout_ms",
    "kill_grace_ms",
    "reconcile_interval_ms",
    "engine",
    "isolation",
    "started_at",
    "ended_at",
    "conductor",
    "exit_code",
    "counts",
    "tokens",
    "cost_micro_usd",
];

const EVENT: &[&str] = &[
    "seq", "at", "type", "task", "batch", "attempt", "actor", "data",
];

/// Asserts that an object has exactly these keys.
#[track_caller]
fn has_keys(value: &Value, keys: &[&str]) {
    let found: BTreeSet<&str> = value
        .as_object()
        .unwrap_or_else(|| panic!("an object: {value:#}"))
        .keys()
        .map(String::as_str)
        .collect();
    let expected: BTreeSet<&str> = keys.iter().copied().collect();
    assert_eq!(found, expected, "{value:#}");
}

/// Asserts a time: RFC 3339, UTC, milliseconds.
#[track_caller]
fn is_time(value: &Value) {
    let text = value
        .as_str()
        .unwrap_or_else(|| panic!("a time is text: {value}"));
    let bytes = text.as_bytes();
    assert!(
        bytes.len() == 24 && bytes[10] == b'T' && bytes[19] == b'.' && bytes[23] == b'Z',
        "{text} is a time in UTC with milliseconds"
    );
}

/// Asserts a whole id.
#[track_caller]
fn is_id(value: &Value) {
    let text = value
        .as_str()
        .unwrap_or_else(|| panic!("an id is text: {value}"));
    assert!(
        text.len() == 36 && text.matches('-').count() == 4,
        "{text} is a whole id"
    );
}

#[test]
fn a_task_has_its_shape() {
    let ws = workspace();
    ws.add("base", "true");
    let added = ws
        .cf([
            "tasks",
            "add",
            "t",
            "--key",
            "a",
            "--depends-on",
            "base",
            "--json",
        ])
        .json();
    has_keys(&added, TASK);
    is_id(&added["id"]);
    is_id(&added["depends_on"][0]);
    is_time(&added["created_at"]);
    is_time(&added["updated_at"]);
    assert!(added["run"].is_null() && added["engine"].is_null() && added["timeout_ms"].is_null());
    assert_eq!(added["env"], cf_testkit::json!({}));
    assert_eq!(added["links"], cf_testkit::json!([]));
    for task in ws
        .cf(["tasks", "list", "--json"])
        .json()
        .as_array()
        .expect("a list is an array")
    {
        has_keys(task, TASK);
    }
    let mut shown = TASK.to_vec();
    shown.extend(["blockers", "attempts", "comments", "events"]);
    has_keys(&ws.show("a"), &shown);
    let without_key = ws.cf(["tasks", "add", "t", "--json"]).json();
    assert!(without_key["key"].is_null());
}

#[test]
fn a_link_has_its_shape() {
    let ws = workspace();
    let plan = ws.plan("[[task]]\nkey = 'a'\ntitle = 't'\nrun = 'true'\nissue = 'https://github.com/octo/cat/issues/7'\n");
    ws.cf(["tasks", "import", plan]).ok();
    let listed = ws.cf(["tasks", "list", "--json"]).json();
    let mut keys = vec!["kind", "host", "repo", "number", "url"];
    has_keys(&listed[0]["links"][0], &keys);
    let links = ws.show("a")["links"].clone();
    keys.push("tracker");
    has_keys(&links[0], &keys);
    has_keys(
        &links[0]["tracker"],
        &["state", "reason", "since", "moved_to", "as_of", "why"],
    );
    assert_eq!(links[0]["kind"], "issue");
    assert_eq!(links[0]["host"], "github.com");
    assert_eq!(links[0]["repo"], "octo/cat");
    assert_eq!(links[0]["number"], 7);
}

#[test]
fn a_blocker_has_its_shape() {
    let ws = workspace();
    ws.add("a", "true");
    let asked = ws
        .cf(["blocker", "ask", "Why?", "--task", "a", "--json"])
        .json();
    has_keys(&asked, BLOCKER);
    is_id(&asked["id"]);
    assert_eq!(asked["task"], ws.id("a").as_str());
    assert_eq!(asked["task_label"], "a");
    assert_eq!(asked["status"], "OPEN");
    assert!(asked["answer"].is_null() && asked["answered_at"].is_null());
    is_time(&asked["asked_at"]);
    let id = asked["id"].as_str().expect("an id is text");
    let answered = ws.cf(["blocker", "answer", id, "because", "--json"]).json();
    has_keys(&answered, BLOCKER);
    is_time(&answered["answered_at"]);
    has_keys(&ws.cf(["blocker", "show", id, "--json"]).json(), BLOCKER);
    has_keys(&ws.cf(["blocker", "list", "--json"]).json()[0], BLOCKER);
}

#[test]
fn an_attempt_has_its_shape() {
    let ws = workspace();
    ws.add("a", &format!("{}; exit 3", waiter("a")));
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    let running = &ws.attempts("a")[0];
    has_keys(running, ATTEMPT);
    is_id(&running["id"]);
    assert_eq!(running["state"], "running");
    assert!(
        running["end"].is_null() && running["ended_at"].is_null() && running["success"].is_null()
    );
    assert!(running["supervisor_pid"].as_u64().is_some());
    is_time(&running["started_at"]);
    ws.touch("a.go");
    batch.wait().code(3);
    let ended = &ws.attempts("a")[0];
    has_keys(ended, ATTEMPT);
    assert_eq!(ended["state"], "ended");
    assert_eq!(ended["end"], "exited");
    assert_eq!(ended["exit_code"], 3);
    assert_eq!(ended["success"], false);
    assert_eq!(ended["left_behind"], 0);
    assert_eq!(ended["engine"], "shell");
    is_time(&ended["ended_at"]);
}

#[test]
fn a_batch_has_its_shape() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    ws.add("b", "true");
    let batch = ws.start(["a", "b"]);
    ws.wait_for_pid("a.pid");
    ws.set("b", "DONE");
    let mut keys = BATCH.to_vec();
    keys.extend(["tasks", "reconciliation"]);
    let running = ws.batch();
    has_keys(&running, &keys);
    is_id(&running["id"]);
    is_time(&running["started_at"]);
    assert!(running["ended_at"].is_null() && running["exit_code"].is_null());
    has_keys(&running["conductor"], &["alive", "pid"]);
    ws.touch("a.go");
    batch.wait().ok();
    let ended = ws.batch();
    has_keys(&ended, &keys);
    is_time(&ended["ended_at"]);
    assert_eq!(ended["exit_code"], 0);
    assert_eq!(ended["conductor"]["alive"], false);
    has_keys(
        &ended["counts"],
        &[
            "total",
            "waiting",
            "queued",
            "running",
            "stopping",
            "held",
            "completed",
            "failed",
            "blocked",
            "skipped",
            "cancelled",
        ],
    );
    has_keys(
        &ended["tasks"][0],
        &[
            "task",
            "key",
            "label",
            "title",
            "position",
            "phase",
            "outcome",
            "reason",
            "doing",
            "attempts",
            "started_at",
            "ended_at",
        ],
    );
    has_keys(&ended["reconciliation"], &["events", "totals"]);
    has_keys(
        &ended["reconciliation"]["events"][0],
        &["at", "action", "task", "label", "reason", "source"],
    );
    has_keys(
        &ended["reconciliation"]["totals"][0],
        &["action", "reason", "count", "text"],
    );
    has_keys(&ws.cf(["work", "batch", "list", "--json"]).json()[0], BATCH);
}

#[test]
fn an_event_has_its_shape() {
    let ws = workspace();
    ws.add("a", "true");
    ws.run(["a"]).ok();
    for event in ws.events() {
        has_keys(&event, EVENT);
        is_time(&event["at"]);
        assert!(
            event["seq"].is_u64() && event["data"].is_object(),
            "{event}"
        );
        assert!(
            event["type"]
                .as_str()
                .is_some_and(|kind| kind.chars().all(|c| c.is_ascii_uppercase() || c == '_')),
            "{event}"
        );
    }
}

#[test]
fn a_run_prints_its_events_and_then_its_batch() {
    let ws = workspace();
    ws.add("a", "true");
    ws.add("b", "exit 1");
    let lines = ws.run(["a", "b", "--json"]).code(3).json_lines();
    let (last, events) = lines.split_last().expect("there are lines");
    assert_eq!(last["batch"]["status"], "PARTIAL");
    assert_eq!(last["batch"]["exit_code"], 3);
    for event in events {
        has_keys(event, EVENT);
    }
    let kinds: Vec<&str> = events
        .iter()
        .filter_map(|event| event["type"].as_str())
        .collect();
    assert!(
        kinds.contains(&"BATCH_STARTED") && kinds.contains(&"BATCH_PARTIAL"),
        "{kinds:?}"
    );
    let stored: Vec<Value> = ws
        .events()
        .into_iter()
        .filter(|event| event["batch"] == last["batch"]["id"])
        .collect();
    assert_eq!(events, stored, "every event of the batch, in order");
}

#[test]
fn resume_and_follow_print_lines_too() {
    let ws = workspace();
    ws.add("a", "test -e fixed");
    ws.run(["a"]).code(3);
    ws.touch("fixed");
    let lines = ws.resume(["--json"]).ok().json_lines();
    assert_eq!(
        lines.last().expect("there are lines")["batch"]["status"],
        "COMPLETED"
    );
    let lines = ws
        .cf(["work", "batch", "follow", "--json"])
        .ok()
        .json_lines();
    assert_eq!(
        lines.last().expect("there are lines")["batch"]["status"],
        "COMPLETED"
    );
}

#[test]
fn the_status_has_its_shape() {
    let ws = workspace();
    let shown = ws.cf(["status", "--json"]).json();
    has_keys(&shown, &["workspace", "tasks", "open_blockers", "batch"]);
    has_keys(
        &shown["tasks"],
        &[
            "BACKLOG",
            "READY",
            "IN_PROGRESS",
            "BLOCKED",
            "FAILED",
            "DONE",
            "MERGED",
        ],
    );
    assert!(shown["batch"].is_null());
    let outside = empty_folder();
    assert!(outside.cf(["status", "--json"]).json()["workspace"].is_null());
    assert!(
        shown["workspace"]
            .as_str()
            .is_some_and(|path| path.starts_with('/'))
    );
}

#[test]
fn init_has_its_shape() {
    let ws = empty_folder();
    has_keys(&ws.cf(["init", "--json"]).json(), &["workspace", "created"]);
}

#[test]
fn an_error_is_one_object_on_standard_error() {
    let ws = workspace();
    let output = ws.cf(["tasks", "show", "nobody", "--json"]).refused();
    let error = output.json_error();
    has_keys(&error, &["error"]);
    has_keys(&error["error"], &["message", "causes", "hint", "exit_code"]);
    assert_eq!(
        error["error"]["exit_code"].as_i64(),
        output.exit_code().map(i64::from)
    );
    assert!(
        error["error"]["message"]
            .as_str()
            .is_some_and(|message| message.contains("nobody"))
    );
    assert!(output.stdout().is_empty());
}

#[test]
fn a_usage_error_is_an_object_too() {
    let ws = workspace();
    for args in [
        vec!["work", "batch", "run", "--json"],
        vec!["work", "batch", "run", "a", "--max-parallel", "0", "--json"],
        vec!["tasks", "list", "--no-such-flag", "--json"],
    ] {
        let output = ws.cf(&args).code(2);
        assert_eq!(output.json_error()["error"]["exit_code"], 2, "{args:?}");
    }
}

#[test]
fn empty_lists_are_empty_arrays() {
    let ws = workspace();
    for args in [
        vec!["tasks", "list", "--json"],
        vec!["blocker", "list", "--json"],
        vec!["work", "batch", "list", "--json"],
    ] {
        assert_eq!(ws.cf(&args).json(), cf_testkit::json!([]), "{args:?}");
    }
}

#[test]
fn text_from_outside_is_whole_in_json() {
    let ws = workspace();
    let evil = "\u{1b}[2J ü \u{1f980} \"quoted\"\ttab";
    let task = ws.cf(["tasks", "add", evil, "--json"]).json();
    assert_eq!(task["title"], evil);
}
