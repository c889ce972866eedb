//! Commands and an address that are told what happens in a batch, and that cannot harm it.

use std::fs;

use cf_testkit::Workspace;
use cf_testkit::github::{Fault, Received, ScriptedGithub};
use serde_json::{Value, json};

use crate::{until, waiter, workspace};

/// What a hook wrote down, one JSON value a line.
fn told(ws: &Workspace, file: &str) -> Vec<Value> {
    let text = ws.read(file);
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a hook is told JSON"))
        .collect()
}

fn log(ws: &Workspace) -> String {
    ws.read(".cf/logs/hooks.log")
}

/// A server that takes whatever is sent to `/news`.
fn receiver() -> ScriptedGithub {
    let server = ScriptedGithub::start();
    server.fault("/news", Fault::status(200, "", &[]), 100);
    server
}

fn news(server: &ScriptedGithub) -> Vec<Received> {
    let mut received = server.received();
    received.retain(|request| request.path == "/news");
    received
}

#[test]
fn each_hook_is_told_its_events() {
    let ws = workspace();
    ws.config(
        "[hooks]\non_task_end = 'cat >> ends'\non_blocked = 'cat >> blocked'\non_batch_end = 'cat >> ended; pwd >> pwd'\n",
    );
    ws.add("good", "true");
    ws.add("bad", "false");
    ws.add("asks", "cf blocker ask 'Which?'");
    ws.run(["good", "bad", "asks"]).code(3);
    let ends = told(&ws, "ends");
    let mut kinds: Vec<_> = ends
        .iter()
        .map(|end| {
            (
                end["event"]["data"]["label"].as_str(),
                end["event"]["type"].as_str(),
            )
        })
        .collect();
    kinds.sort_unstable();
    assert_eq!(
        kinds,
        [
            (Some("asks"), Some("BATCH_TASK_BLOCKED")),
            (Some("bad"), Some("BATCH_TASK_FAILED")),
            (Some("good"), Some("BATCH_TASK_COMPLETED"))
        ]
    );
    // Once that it is held, and once that it ended so.
    let blocked = told(&ws, "blocked");
    assert_eq!(
        (blocked.len(), &blocked[0]["event"]["task"]),
        (1, &json!(ws.id("asks")))
    );
    let phases: Vec<Value> = ws
        .events_of("BATCH_TASK_BLOCKED", "asks")
        .iter()
        .map(|event| event["data"]["phase"].clone())
        .collect();
    assert_eq!(phases, ["held", "finished"]);
    let ended = told(&ws, "ended");
    assert_eq!(ended.len(), 1);
    assert_eq!(
        (&ended[0]["hook"], &ended[0]["event"]["data"]["exit_code"]),
        (&json!("on_batch_end"), &json!(3))
    );
    assert_eq!(ended[0]["workspace"], ws.root().to_string_lossy().as_ref());
    // The event is as the log of the workspace has it.
    let stored = ws.events_named("BATCH_PARTIAL");
    assert_eq!(ended[0]["event"], stored[0]);
    assert_eq!(ws.read("pwd").trim(), ws.root().to_string_lossy());
}

#[test]
fn a_hook_that_hangs_fails_or_is_missing_harms_no_batch() {
    let ws = workspace();
    ws.config("[hooks]\non_task_end = 'sleep 600 & echo $$ >> hook.pid; sleep 600'\non_batch_end = 'echo said; exit 3'\ntimeout = '300ms'\n");
    ws.add("a", "true");
    ws.run(["a"]).ok();
    ws.ended("a", "COMPLETED", "");
    let log = log(&ws);
    assert!(
        log.contains(" on_task_end a: killed: it took longer than 300ms"),
        "{log}"
    );
    assert!(
        log.contains("said\n") && log.contains(": ended with 3"),
        "{log}"
    );
    ws.wait_for_quiet();
    ws.config("[hooks]\non_batch_end = 'no-such-program-at-all'\n");
    ws.add("b", "true");
    ws.run(["b"]).ok();
    assert!(crate::hooks::log(&ws).contains("ended with 127"));
}

#[test]
fn a_hook_does_not_hold_up_the_tasks_behind_it() {
    let ws = workspace();
    ws.config(&format!("[hooks]\non_task_end = '{}'\n", until("hook.go")));
    for key in ["a", "b", "c", "d", "e", "f"] {
        ws.add(key, "true");
    }
    ws.add("last", "touch hook.go");
    ws.run(["a", "b", "c", "d", "e", "f", "last"]).ok();
    assert_eq!(
        log(&ws).matches("ended with 0").count(),
        7,
        "every one was told: {}",
        log(&ws)
    );
}

#[test]
fn a_signal_ends_the_waiting_for_hooks() {
    let ws = workspace();
    ws.config("[hooks]\non_batch_end = 'touch hook.runs; sleep 600'\ntimeout = '10m'\n");
    ws.add("a", "true");
    let batch = ws.start(["a"]);
    ws.wait_until("the hook runs", || ws.exists("hook.runs"));
    assert_eq!(
        ws.batch_status(),
        "COMPLETED",
        "the batch has ended already"
    );
    // Its handler may not be in place yet in the moment in which the hook starts.
    ws.wait_until("it ends", || {
        batch.signal(cf_testkit::Signal::INT);
        log(&ws).contains("killed")
    });
    batch.wait().ok();
    ws.wait_for_quiet();
}

#[test]
fn a_hook_gets_no_token_and_may_ask_cf() {
    let ws = workspace().with([
        ("GH_TOKEN", "token-of-mine"),
        ("CF_WEBHOOK_SECRET", "secret-of-mine"),
        ("SAME_TOKEN", "token-of-mine"),
        ("SAME_SECRET", "secret-of-mine"),
    ]);
    ws.config("reconcile_github = false\n[hooks]\non_task_end = 'env > hook.env; cf tasks show a --json > shown'\n");
    ws.add("a", "env > a.env");
    ws.run(["a"]).ok();
    for file in ["hook.env", "a.env"] {
        let env = ws.read(file);
        assert!(
            !env.contains("token-of-mine") && !env.contains("secret-of-mine"),
            "{file}: {env}"
        );
    }
    assert!(ws.read("hook.env").contains("CF_HOOK=on_task_end\n"));
    let shown: Value = serde_json::from_str(&ws.read("shown")).expect("it is JSON");
    assert_eq!(shown["status"], "DONE");
}

#[test]
fn the_webhook_is_told_the_same_and_signed() {
    let server = receiver();
    let ws = workspace().with([("CF_WEBHOOK_SECRET", "secret-of-mine")]);
    ws.command(["config", "check"])
        .env("CF_WEBHOOK_URL", "http://example.com/")
        .run()
        .code(2)
        .says("https");
    fs::create_dir_all(ws.home().join(".config/cf")).expect("the home is ours");
    let config = format!("[webhook]\nurl = \"{}/news\"\n", server.url());
    fs::write(ws.home().join(".config/cf/config.toml"), config).expect("the home is ours");
    ws.config("[hooks]\non_task_end = 'cat > end'\n");
    ws.add("a", "true");
    let output = ws.run(["a"]).ok();
    let news = news(&server);
    let kinds: Vec<_> = news
        .iter()
        .map(|request| request.headers["x-cf-event"].as_str())
        .collect();
    assert_eq!(kinds, ["on_task_end", "on_batch_end"]);
    let body: Value = serde_json::from_str(&news[0].body).expect("it is JSON");
    assert_eq!(body, told(&ws, "end")[0], "a command is told the same");
    for request in &news {
        let signature = &request.headers["x-hub-signature-256"];
        let digits = signature
            .strip_prefix("sha256=")
            .expect("it names its kind");
        assert!(
            digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{signature}"
        );
        assert!(!request.headers.contains_key("authorization"));
    }
    assert_ne!(
        news[0].headers["x-hub-signature-256"],
        news[1].headers["x-hub-signature-256"]
    );
    for text in [output.text(), log(&ws), news[0].body.clone()] {
        assert!(!text.contains("secret-of-mine"), "{text}");
    }
}

#[test]
fn a_workspace_does_not_decide_where_news_go() {
    let server = receiver();
    let ws = workspace();
    ws.add("a", "true");
    ws.config(&format!("[webhook]\nurl = \"{}/news\"\n", server.url()));
    ws.run(["a"])
        .code(2)
        .says("`webhook.url` decides where news of the work goes");
    ws.config("");
    ws.command(["run", "a"])
        .env("CF_WEBHOOK_URL", format!("{}/news", server.url()))
        .run()
        .ok();
    assert_eq!(news(&server).len(), 2);
    assert!(
        !news(&server)[0].headers.contains_key("x-hub-signature-256"),
        "without a secret nothing is signed"
    );
}

#[test]
fn a_delivery_is_tried_again_where_that_may_help() {
    let server = ScriptedGithub::start();
    for (status, times) in [(503, 1), (200, 2), (404, 1), (200, 1)] {
        server.fault("/news", Fault::status(status, "", &[]), times);
    }
    let ws = workspace().with([("CF_WEBHOOK_URL", format!("{}/news", server.url()))]);
    ws.config("[hooks]\ntimeout = '1m'\n");
    // The end of a task and that of its batch are told.
    let deliveries = || {
        let mut ids: Vec<String> = news(&server)
            .iter()
            .map(|request| request.headers["x-cf-delivery"].clone())
            .collect();
        let requests = ids.len();
        ids.sort_unstable();
        ids.dedup();
        (ids.len(), requests)
    };
    ws.add("a", "true");
    ws.run(["a"]).ok();
    assert_eq!(deliveries(), (2, 3));
    assert!(!log(&ws).contains("given up"), "{}", log(&ws));
    ws.add("b", "true");
    ws.run(["b"]).ok();
    assert_eq!(deliveries(), (4, 5));
    assert!(
        log(&ws).contains("webhook: given up: it answered 404"),
        "{}",
        log(&ws)
    );
}

#[test]
fn a_webhook_that_never_answers_is_left_out_at_the_end() {
    let server = ScriptedGithub::start();
    server.fault(
        "/news",
        Fault::Silence(std::time::Duration::from_mins(1)),
        100,
    );
    let ws = workspace().with([("CF_WEBHOOK_URL", format!("{}/news", server.url()))]);
    ws.config("[hooks]\ntimeout = '200ms'\n");
    ws.add("a", "true");
    ws.run(["a"]).ok();
    assert_eq!(
        log(&ws)
            .matches("webhook: left out: the batch has ended")
            .count(),
        2,
        "{}",
        log(&ws)
    );
}

#[test]
fn a_mistyped_hook_is_refused_with_a_suggestion() {
    let ws = workspace();
    ws.config("[hooks]\non_task_done = 'true'\n");
    ws.cf(["config", "check"])
        .code(2)
        .says("unknown key `on_task_done` in [hooks]")
        .says("on_task_end");
    ws.config("[hooks]\non_task_end = ' '\n");
    ws.cf(["config", "check"]).code(2).says("it is empty");
}

#[test]
fn a_batch_that_nobody_conducts_is_told_when_it_is_stopped() {
    let ws = workspace();
    ws.config("[hooks]\non_batch_end = 'cat > ended'\n");
    ws.add("a", &waiter("a"));
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    batch.kill9();
    ws.cf(["stop", &ws.batch_id(), "--force"]).ok();
    assert_eq!(told(&ws, "ended")[0]["event"]["type"], "BATCH_CANCELLED");
    ws.wait_for_quiet();
}

#[test]
fn a_command_that_prints_without_end_fills_no_disk() {
    let ws = workspace();
    ws.config(
        "[hooks]\ntimeout = '2s'\non_task_end = 'echo first; yes'\non_batch_end = 'echo last'\n",
    );
    ws.add("a", "true");
    ws.run(["a"]).ok();
    let log = log(&ws);
    assert!(
        log.starts_with("first\ny\n") || log.starts_with("last\n"),
        "{}",
        &log[..40]
    );
    assert!(log.len() < 100_000, "{} bytes", log.len());
    for said in [
        "more bytes were left out]",
        "on_task_end a: killed: it took longer",
        "last\n",
    ] {
        assert!(log.contains(said), "{said}");
    }
    assert!(!ws.exists(".cf/logs/hooks.log.1"));
}
