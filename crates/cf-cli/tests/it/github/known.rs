//! What a person is told of a link: what it was when it was read last, and what stands in the way since.

use cf_testkit::Workspace;
use cf_testkit::github::{Budget, Fault, Place, ScriptedGithub};
use serde_json::{Value, json};

use super::{configured, following};

/// A workspace with a task `a` that is linked to issue 12, which is asked about once.
fn looked(github: &ScriptedGithub) -> Workspace {
    let ws = following(github);
    ws.add("a", "true");
    ws.cf(["tasks", "link", "a", "o/r#12"]).ok();
    ws.cf(["reconcile", "--dry-run"]).ok();
    ws
}

/// What is known about the only link of `a`, which `tasks show` and `explain` say alike.
#[track_caller]
fn tracker(ws: &Workspace) -> Value {
    let shown = ws.show("a")["links"][0]["tracker"].clone();
    let explained = ws.cf(["explain", "a", "--json"]).ok().json();
    assert_eq!(explained["task"]["links"][0]["tracker"], shown);
    shown
}

/// Both commands say it, and neither the token.
#[track_caller]
fn says(ws: &Workspace, words: &str) {
    for command in [&["tasks", "show", "a"][..], &["explain", "a"]] {
        ws.cf(command).ok().says(words).never_says("scripted-token");
    }
}

#[test]
fn a_link_is_shown_as_it_was_when_it_was_read_last_and_how_long_ago_that_was() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    github.back_to("o/r", 12, 1_700_000_000);
    let ws = following(&github);
    ws.add("a", "true");
    ws.cf(["tasks", "link", "a", "o/r#12"]).ok();
    says(&ws, "issue o/r#12: not asked yet");
    assert_eq!(tracker(&ws)["state"], Value::Null);
    ws.cf(["reconcile", "--dry-run"]).ok();
    says(
        &ws,
        "issue o/r#12: open, changed 2023-11-14T22:13:20Z; seen ",
    );
    let open = tracker(&ws);
    assert_eq!(
        (&open["state"], &open["why"]),
        (&json!("open"), &Value::Null)
    );
    assert_eq!(open["since"], "2023-11-14T22:13:20.000Z");
    assert!(open["as_of"].is_string(), "{open}");
    github.close("o/r", 12, Some("NOT_PLANNED"));
    let asked = github.received().len();
    assert_eq!(tracker(&ws), open);
    assert_eq!(github.received().len(), asked, "to show it nobody is asked");
    let ws = ws.with([("CF_RECONCILE_INTERVAL", "1ms")]);
    ws.cf(["reconcile", "--dry-run"]).ok();
    says(&ws, "issue o/r#12: closed (not planned), since ");
    let closed = tracker(&ws);
    assert_eq!(
        (&closed["state"], &closed["reason"]),
        (&json!("closed"), &json!("not_planned"))
    );
    let ws = ws.with([("CF_RECONCILE_GITHUB", "false")]);
    says(&ws, "; reconcile_github is false");
    let ws = ws.with([("CF_RECONCILE_GITHUB", "true"), ("GH_TOKEN", "")]);
    says(&ws, "closed (not planned)");
    says(&ws, "GH_TOKEN");
}

#[test]
fn explain_finds_what_the_next_pass_will_from_what_is_cached() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    let ws = following(&github).with([("CF_RECONCILE_INTERVAL", "1h")]);
    ws.add("a", &crate::waiter("a"));
    ws.add("b", "true");
    ws.cf(["tasks", "link", "b", "o/r#12"]).ok();
    let batch = ws.start(["a", "b"]);
    ws.wait_for_pid("a.pid");
    batch.kill9();
    github.close("o/r", 12, Some("COMPLETED"));
    let explained = ws.with([("CF_RECONCILE_INTERVAL", "1ms")]);
    explained.cf(["reconcile", "--dry-run"]).ok();
    let ws = explained.with([("CF_RECONCILE_INTERVAL", "1h")]);
    let said = ws.cf(["explain", "b", "--json"]).ok().json();
    assert_eq!(said["findings"][0]["action"], "SKIP", "{said}");
    ws.touch("a.go");
    ws.cf(["resume"]).ok();
    ws.ended("b", "SKIPPED", "issue closed");
}

#[test]
fn what_is_gone_or_has_moved_is_shown_as_that() {
    for (place, state, words) in [
        (Place::Deleted, "gone", "gone: it was deleted"),
        (
            Place::Hidden,
            "gone",
            "gone: it does not exist, or the token cannot see it",
        ),
        (
            Place::Moved("o/new".to_owned(), 7),
            "moved",
            "moved to o/new#7",
        ),
    ] {
        let github = ScriptedGithub::start();
        github.issue("o/new", 7);
        github.issue("o/r", 12);
        github.change("o/r", 12, |item| item.place = place);
        let ws = looked(&github);
        says(&ws, words);
        assert_eq!(tracker(&ws)["state"], state);
    }
}

#[test]
fn what_stands_in_the_way_is_shown_without_secrets() {
    let limited = [
        "x-ratelimit-limit: 5000",
        "x-ratelimit-remaining: 0",
        "x-ratelimit-reset: 32503680000",
        "retry-after: 3000",
    ];
    let odd = Fault::Edited(|reply| {
        reply["data"]["r0"]["i12"] = Value::Null;
        reply["errors"] = json!([{
            "type": "ODD", "path": ["r0", "i12"], "message": "no to scripted-token",
        }]);
    });
    for (fault, words) in [
        (odd, "GitHub's reply cannot be read: no to [redacted]"),
        (
            Fault::status(401, "Bad credentials", &[]),
            "the token was rejected (401)",
        ),
        (
            Fault::status(403, "API rate limit exceeded.", &limited),
            "its rate limit is used up",
        ),
        (
            Fault::status(500, "no", &[]),
            "requests fail: GitHub answered 500",
        ),
    ] {
        let github = ScriptedGithub::start();
        github.issue("o/r", 12);
        github.fault("/graphql", fault, 9);
        let ws = looked(&github);
        says(&ws, "issue o/r#12: unknown; ");
        says(&ws, words);
        let tracker = tracker(&ws);
        let why = tracker["why"].as_str().unwrap();
        assert!(why.contains(words), "{why}");
        assert_eq!(
            (&tracker["state"], &tracker["as_of"]),
            (&Value::Null, &Value::Null)
        );
    }
}

#[test]
fn what_is_left_to_agents_is_counted_as_it_is_set() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    github.budget(Budget {
        limit: 5000,
        remaining: 2000,
        resets_in: 600,
    });
    let ws = looked(&github);
    assert_eq!(tracker(&ws)["why"], Value::Null);
    let ws = ws.with([("CF_GITHUB_RESERVE", "50")]);
    says(&ws, "the rest of its rate limit is reserved for others");
}

#[test]
fn what_stands_in_the_way_of_a_batch_is_shown_until_it_is_over() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    let odd = Fault::Edited(|reply| reply["data"]["r0"]["i12"]["state"] = json!("FROZEN"));
    github.fault("/graphql", odd, 1);
    let ws = following(&github).with([("CF_RECONCILE_INTERVAL", "1h")]);
    ws.add("a", "true");
    ws.cf(["tasks", "link", "a", "o/r#12"]).ok();
    ws.cf(["run", "a"]).ok();
    says(&ws, "FROZEN");
    ws.cf(["run", "a", "--force"]).ok();
    assert_eq!(tracker(&ws)["state"], "open");
    assert_eq!(tracker(&ws)["why"], Value::Null);
}

#[test]
fn what_stood_in_the_way_is_over_when_the_link_was_read() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    let odd = Fault::Edited(|reply| reply["data"]["r0"]["i12"]["state"] = json!("FROZEN"));
    github.fault("/graphql", odd, 1);
    let ws = looked(&github);
    says(&ws, "FROZEN");
    ws.cf(["reconcile", "--dry-run"]).ok();
    let tracker = tracker(&ws);
    assert_eq!(
        (&tracker["state"], &tracker["why"]),
        (&json!("open"), &Value::Null)
    );
}

#[test]
fn what_a_failing_github_leaves_unknown_is_shown_until_a_look_gets_through() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    github.issue("o/r", 13);
    let ws = looked(&github).with([("CF_RECONCILE_INTERVAL", "1ms")]);
    for fault in [
        Fault::status(500, "no", &["retry-after: 1"]),
        Fault::status(429, "slow down", &["retry-after: 1"]),
    ] {
        github.fault("/graphql", fault, usize::MAX);
        ws.cf(["reconcile", "--dry-run"]).ok();
        says(&ws, "GitHub is not asked before");
        ws.wait_until("the pause is over", || {
            let shown = ws.show("a")["links"][0]["tracker"]["why"].clone();
            let why = shown.as_str().expect("it is not lost");
            why.contains("the last look did not get through: ")
        });
        says(&ws, "; the last look did not get through: ");
        assert_eq!(tracker(&ws)["state"], "open", "as it was before");
        github.heal();
        ws.cf(["reconcile", "--dry-run"]).ok();
        assert_eq!(tracker(&ws)["why"], Value::Null);
    }
}

#[test]
fn a_github_that_does_not_answer_before_the_batch_ends_is_shown_as_that() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    let silence = Fault::Silence(std::time::Duration::from_mins(1));
    github.fault("/graphql", silence, usize::MAX);
    let ws = configured(&github, "wait = \"1s\"");
    ws.add("a", "true");
    ws.cf(["tasks", "link", "a", "o/r#12"]).ok();
    ws.run(["a"]).ok();
    says(&ws, "issue o/r#12: unknown; GitHub did not answer within ");
}

#[test]
fn what_an_item_that_makes_no_sense_was_before_is_shown_with_what_is_wrong() {
    let fault = |edit| Fault::Edited(edit);
    for (fault, words) in [
        (
            fault(|reply| reply["data"]["r0"]["i12"]["state"] = Value::Null),
            "an issue without its state",
        ),
        (
            fault(|reply| reply["data"]["r0"]["i12"]["number"] = json!("12")),
            "GitHub's reply cannot be read: ",
        ),
        (
            fault(|reply| reply["data"]["r0"]["i12"] = json!("closed")),
            "something that is no item",
        ),
        (
            Fault::status(401, "Bad credentials", &[]),
            "the token was rejected (401)",
        ),
    ] {
        let github = ScriptedGithub::start();
        github.issue("o/r", 12);
        let ws = looked(&github).with([("CF_RECONCILE_INTERVAL", "1ms")]);
        github.fault("/graphql", fault, usize::MAX);
        ws.cf(["reconcile", "--dry-run"]).ok();
        says(&ws, "issue o/r#12: open, changed ");
        says(&ws, words);
        assert_eq!(tracker(&ws)["state"], "open");
    }
}

#[test]
fn an_issue_that_was_linked_as_a_pull_request_decides_nothing_and_says_so() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    github.close("o/r", 12, Some("COMPLETED"));
    let ws = following(&github);
    ws.add("a", "touch a.ran");
    ws.cf(["pr", "link", "a", "o/r#12"]).ok();
    ws.run(["a"]).ok();
    assert!(ws.exists("a.ran"));
    says(
        &ws,
        "; it is an issue, not a pull request, and decides nothing",
    );
    assert_eq!(tracker(&ws)["state"], "closed");
}

#[test]
fn a_closing_at_no_time_does_nothing_and_is_said() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    github.close("o/r", 12, Some("COMPLETED"));
    let odd = Fault::Edited(|reply| reply["data"]["r0"]["i12"]["closedAt"] = Value::Null);
    github.fault("/graphql", odd, usize::MAX);
    let ws = following(&github);
    ws.add("a", "touch a.ran");
    ws.cf(["tasks", "link", "a", "o/r#12"]).ok();
    ws.run(["a"]).ok();
    assert!(ws.exists("a.ran"));
    says(&ws, "a closed issue without the time of its closing");
}

#[test]
fn a_link_to_a_host_that_is_not_trusted_says_so() {
    let github = ScriptedGithub::start();
    let ws = following(&github);
    ws.add("a", "true");
    ws.cf(["tasks", "link", "a", "ghe.corp/o/r#12"]).ok();
    says(&ws, "issue ghe.corp/o/r#12: unknown; ");
    says(&ws, "ghe.corp");
    assert!(tracker(&ws)["why"].as_str().unwrap().contains("ghe.corp"));
}
