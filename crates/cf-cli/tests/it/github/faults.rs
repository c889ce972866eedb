//! A GitHub that fails: the batch goes on, and the right thing happens once GitHub is back.

use std::time::{Duration, Instant};

use cf_testkit::github::{Budget, Fault, Place, ScriptedGithub, http_date};
use test_case::test_case;

use super::{configured, following};
use crate::{sleeper, waiter};

/// Everything that can go wrong with a reply and is over after a moment.
fn fault(name: &str) -> Fault {
    let limit =
        |headers: &[&str]| Fault::status(403, "API rate limit exceeded for user ID 1.", headers);
    let soon = in_seconds(2);
    match name {
        "500" => Fault::status(500, "oops", &[]),
        "502 html" => Fault::Reply(
            502,
            vec![("content-type".into(), "text/html".into())],
            "<html>Unicorn!</html>".into(),
        ),
        "html" => Fault::body("<!DOCTYPE html><html></html>"),
        "null" => Fault::body("null"),
        "data null" => Fault::body("{\"data\":null}"),
        "truncated" => Fault::Truncated,
        "reset" => Fault::Reset,
        "huge" => Fault::Huge(50_000_000),
        "primary" => limit(&[
            "x-ratelimit-limit: 5000",
            "x-ratelimit-remaining: 0",
            &format!("x-ratelimit-reset: {soon}"),
        ]),
        "secondary" => Fault::status(
            403,
            "You have exceeded a secondary rate limit.",
            &["retry-after: 1"],
        ),
        "429" => Fault::status(429, "Too many requests", &["retry-after: 1"]),
        "429 until a date" => Fault::status(
            429,
            "Too many requests",
            &[&format!("retry-after: {}", http_date(in_seconds(4)))],
        ),
        "limit in a 200" => in_a_200(
            "RATE_LIMITED",
            "API rate limit exceeded for user ID 1.",
            &[
                ("x-ratelimit-remaining", "0"),
                ("x-ratelimit-reset", &in_seconds(4).to_string()),
            ],
        ),
        "secondary in a 200" => in_a_200(
            "FORBIDDEN",
            "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.",
            &[("retry-after", "3")],
        ),
        other => panic!("{other}"),
    }
}

/// A reply of GraphQL's that is an error and nothing else, with these headers.
fn in_a_200(kind: &str, message: &str, headers: &[(&str, &str)]) -> Fault {
    let headers = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let body = format!("{{\"errors\":[{{\"type\":\"{kind}\",\"message\":\"{message}\"}}]}}");
    Fault::Reply(200, headers, body)
}

/// The time so many seconds from now, in seconds since 1970.
fn in_seconds(seconds: u64) -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("it is later than 1970")
        .as_secs()
        + seconds
}

#[test_case("500"; "server error")]
#[test_case("502 html"; "gateway")]
#[test_case("html"; "markup for JSON")]
#[test_case("null"; "null")]
#[test_case("data null"; "no data")]
#[test_case("truncated"; "truncated")]
#[test_case("reset"; "connection reset")]
#[test_case("huge"; "fifty megabytes")]
#[test_case("primary"; "primary limit")]
#[test_case("secondary"; "secondary limit")]
#[test_case("429"; "too many requests")]
#[test_case("429 until a date"; "too many requests until a date")]
#[test_case("limit in a 200"; "primary limit in a 200")]
#[test_case("secondary in a 200"; "secondary limit in a 200")]
fn after(name: &str) {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    let ws = following(&github);
    ws.add("a", &sleeper("a"));
    ws.add("b", &waiter("b"));
    ws.cf(["tasks", "link", "a", "o/r#12"]).ok();
    let mut batch = ws.start(["a", "b", "--max-parallel", "2"]);
    ws.wait_for_pid("a.pid");
    // A second limit in a row is waited for longer than a test can.
    let times = match name {
        "secondary" | "429" | "429 until a date" | "secondary in a 200" => 1,
        _ => 2,
    };
    github.fault("/graphql", fault(name), times);
    github.close("o/r", 12, Some("COMPLETED"));
    // Local reconciliation goes on undisturbed.
    ws.wait_for_pid("b.pid");
    let begun = Instant::now();
    ws.set("b", "DONE");
    ws.wait_for_event("BATCH_TASK_SKIPPED", "b");
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
    assert!(batch.is_running());
    ws.wait_for_event("BATCH_TASK_SKIPPED", "a");
    batch.wait().ok();
    ws.ended("a", "SKIPPED", "issue closed");
    assert_eq!(ws.status("a"), "DONE");
    let warned = ws.events_named("SOURCE_UNAVAILABLE").len();
    assert!(warned <= 2, "{warned}");
    assert_eq!(ws.events_named("SOURCE_AVAILABLE").len(), warned);
    if let "429 until a date" | "limit in a 200" | "secondary in a 200" = name {
        let received = github.received();
        let pause = received
            .windows(2)
            .map(|pair| pair[1].at - pair[0].at)
            .max();
        assert!(pause > Some(Duration::from_millis(2500)), "{pause:?}");
        assert_eq!(warned, 1);
    }
}

#[test]
fn a_plain_403_shuts_out_one_repository_and_no_other() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    github.issue("o/locked", 13);
    let ws = following(&github);
    ws.add("a", &sleeper("a"));
    ws.add("b", &sleeper("b"));
    ws.add("c", &waiter("c"));
    ws.cf(["tasks", "link", "a", "o/r#12"]).ok();
    ws.cf(["tasks", "link", "b", "o/locked#13"]).ok();
    let batch = ws.start(["a", "b", "c", "--max-parallel", "3"]);
    for key in ["a", "b", "c"] {
        ws.wait_for_pid(&format!("{key}.pid"));
    }
    let forbidden = Fault::status(403, "Resource not accessible by personal access token", &[]);
    let locked = Fault::Holding("\"locked\"".to_owned(), Box::new(forbidden));
    github.fault("/graphql", locked, usize::MAX);
    github.close("o/locked", 13, Some("COMPLETED"));
    ws.wait_until("the repository was refused by itself", || {
        github
            .received()
            .iter()
            .any(|request| request.body.contains("\"locked\"") && !request.body.contains("\"r\""))
    });
    // Nothing is paused, neither locally nor for the other repository.
    let begun = Instant::now();
    ws.set("c", "DONE");
    ws.wait_for_event("BATCH_TASK_SKIPPED", "c");
    github.close("o/r", 12, Some("COMPLETED"));
    ws.wait_for_event("BATCH_TASK_SKIPPED", "a");
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    ws.ended("a", "SKIPPED", "issue closed");
    assert_eq!(ws.row("b")["phase"], "running");
    assert_eq!(ws.events_named("SOURCE_UNAVAILABLE").len(), 0);
    // Once it may be read again, its closing acts; it is looked at after half a minute at first.
    github.heal();
    while ws.row("b")["phase"] == "running" && begun.elapsed() < Duration::from_mins(1) {
        std::thread::sleep(Duration::from_millis(200));
    }
    ws.wait_for_event("BATCH_TASK_SKIPPED", "b");
    batch.wait().ok();
    ws.ended("b", "SKIPPED", "issue closed");
    assert_eq!(ws.status("b"), "DONE");
}

#[test]
fn a_reset_half_an_hour_away_delays_nothing_local() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    github.budget(Budget {
        limit: 5000,
        remaining: 0,
        resets_in: 1800,
    });
    let reset = in_seconds(1800);
    let limited = Fault::status(
        403,
        "API rate limit exceeded for user ID 1.",
        &[
            "x-ratelimit-limit: 5000",
            "x-ratelimit-remaining: 0",
            &format!("x-ratelimit-reset: {reset}"),
        ],
    );
    github.fault("/graphql", limited, 100);
    let ws = following(&github);
    ws.add("a", &sleeper("a"));
    ws.cf(["tasks", "link", "a", "o/r#12"]).ok();
    let mut batch = ws.start(["a"]);
    batch.wait_for_text("its rate limit is used up");
    ws.wait_for_pid("a.pid");
    let begun = Instant::now();
    ws.set("a", "DONE");
    let output = batch.wait().ok();
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
    ws.ended("a", "SKIPPED", "externally completed");
    assert_eq!(
        output.text().matches("its rate limit is used up").count(),
        1
    );
    assert_eq!(github.received().len(), 1, "not asked while it waits");
    // A second batch asks nothing either: the pause is shared.
    ws.add("b", "true");
    ws.cf(["tasks", "link", "b", "o/r#12"]).ok();
    let begun = Instant::now();
    ws.run(["b"]).ok();
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "a start does not wait while GitHub is paused"
    );
    assert_eq!(github.received().len(), 1);
    ws.cf(["github", "status"]).ok().says("paused: until ");
}

#[test]
fn a_github_that_hangs_holds_up_a_start_for_a_while_and_nothing_else() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    let ws = configured(&github, "wait = \"1s\"");
    ws.add("a", "touch a.ran");
    ws.add("b", "touch b.ran");
    ws.cf(["tasks", "link", "a", "o/r#12"]).ok();
    github.fault("/graphql", Fault::Silence(Duration::from_mins(1)), 100);
    let begun = Instant::now();
    let batch = ws.start(["a", "b"]);
    ws.wait_until("the other task went ahead", || ws.exists("b.ran"));
    assert!(!ws.exists("a.ran"));
    batch.wait().ok();
    let took = begun.elapsed();
    assert!(
        took > Duration::from_secs(1) && took < Duration::from_secs(6),
        "{took:?}"
    );
    ws.ended("a", "COMPLETED", "");
}

#[test]
fn a_rejected_token_is_said_once() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    github.require_token("another");
    let ws = following(&github);
    ws.add("a", "sleep 1");
    ws.cf(["tasks", "link", "a", "o/r#12"]).ok();
    let output = ws.run(["a"]).ok();
    assert_eq!(output.text().matches("token was rejected (401)").count(), 1);
    assert_eq!(github.received().len(), 1);
    output.never_says("scripted-token");
    ws.ended("a", "COMPLETED", "");
}

#[test]
fn one_broken_link_leaves_the_others_alone() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    github.issue("o/r", 13);
    github.change("o/r", 13, |item| item.place = Place::Hidden);
    github.issue("o/r", 14);
    github.change("o/r", 14, |item| item.place = Place::Deleted);
    github.issue("secret/r", 15);
    github.change("secret/r", 15, |item| item.place = Place::Protected);
    let ws = following(&github);
    for (key, link) in [
        ("a", "o/r#12"),
        ("b", "o/r#13"),
        ("c", "o/r#14"),
        ("d", "secret/r#15"),
    ] {
        ws.add(key, &waiter(key));
        ws.cf(["tasks", "link", key, link]).ok();
    }
    let batch = ws.start(["a", "b", "c", "d", "--max-parallel", "4"]);
    for key in ["a", "b", "c", "d"] {
        ws.wait_for_pid(&format!("{key}.pid"));
    }
    github.close("o/r", 12, Some("COMPLETED"));
    ws.wait_for_event("BATCH_TASK_SKIPPED", "a");
    for key in ["b", "c", "d"] {
        ws.touch(&format!("{key}.go"));
    }
    batch.wait().ok();
    for key in ["b", "c", "d"] {
        ws.ended(key, "COMPLETED", "");
    }
}

#[test]
fn words_that_nobody_knows_are_no_reason_to_act() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    github.change("o/r", 12, |item| {
        "ARCHIVED".clone_into(&mut item.state);
        item.reason = Some("SUPERSEDED".to_owned());
        item.author = None;
    });
    github.pull_request("o/r", 13);
    github.change("o/r", 13, |item| "ABANDONED".clone_into(&mut item.state));
    let ws = following(&github);
    ws.add("a", "true");
    ws.cf(["tasks", "link", "a", "o/r#12", "--pr", "o/r#13"])
        .ok();
    ws.run(["a"]).ok();
    ws.ended("a", "COMPLETED", "");
}

#[test]
fn other_commands_never_ask_the_network() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    let ws = following(&github);
    ws.add("a", "true");
    ws.cf(["tasks", "link", "a", "o/r#12"]).ok();
    for args in [
        &["status"][..],
        &["events"],
        &["tasks", "list"],
        &["tasks", "show", "a"],
        &["explain", "a"],
        &["github", "status"],
        &["config", "show"],
        &["run", "a", "--dry-run"],
    ] {
        ws.cf(args.iter().copied()).ok();
    }
    assert_eq!(github.received().len(), 0);
}

#[test]
fn a_task_that_waits_for_a_look_goes_before_those_that_come_after_it() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    github.fault("/graphql", Fault::Late(Duration::from_millis(300)), 100);
    let ws = following(&github);
    ws.add("a", "echo a >> order");
    ws.cf(["tasks", "link", "a", "o/r#12"]).ok();
    let others = ["b", "c", "d", "e", "f", "g"];
    for key in others {
        ws.add(key, &format!("sleep 0.4; echo {key} >> order"));
    }
    ws.run(["a", "b", "c", "d", "e", "f", "g"]).ok();
    let order = ws.read("order");
    let place = order.lines().position(|line| line == "a");
    assert!(place <= Some(3), "{order}");
}
