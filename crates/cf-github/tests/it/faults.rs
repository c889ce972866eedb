//! What goes wrong is never taken for a change, and ends by itself.

use std::time::{Duration, Instant};

use cf_github::{Answer, GitHub, ItemState, NoticeKind, Settings, Trouble};
use cf_testkit::github::{Budget, Fault, ScriptedGithub};

use crate::{FRESH, NOW, ask, client, client_with, known, look_one, quick, why};

fn one_issue() -> ScriptedGithub {
    let server = ScriptedGithub::start();
    server.issue("o/r", 1);
    server
}

/// Looks until it is known, for five seconds at most.
async fn until_known(client: &GitHub) -> Answer {
    let began = Instant::now();
    loop {
        let answer = look_one(client, ask("o/r", 1, NOW)).await;
        if matches!(answer, Answer::Known(_)) || began.elapsed() > Duration::from_secs(5) {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn opened(client: &GitHub) -> Vec<Trouble> {
    client
        .take_notices()
        .into_iter()
        .filter_map(|notice| match notice.what {
            NoticeKind::Opened { why, .. } => Some(why),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn one_failure_is_tried_again_and_nobody_hears_of_it() {
    for fault in [
        Fault::status(500, "Server Error", &[]),
        Fault::status(502, "Bad Gateway", &[]),
        Fault::Reset,
        Fault::Truncated,
        Fault::body("<html><body>Unicorn!</body></html>"),
        Fault::body(
            r#"{"data":null,"errors":[{"message":"Something went wrong while executing your query."}]}"#,
        ),
        Fault::body("null"),
        Fault::body("{}"),
        Fault::body("[]"),
    ] {
        let server = one_issue();
        server.close("o/r", 1, Some("COMPLETED"));
        server.fault("/graphql", fault.clone(), 1);
        let client = client(&server);
        let answer = look_one(&client, ask("o/r", 1, FRESH)).await;
        assert!(
            matches!(known(&answer).item.state, ItemState::Closed { .. }),
            "{fault:?}"
        );
        assert_eq!(client.take_notices(), [], "{fault:?}");
    }
}

#[tokio::test]
async fn a_failing_github_opens_a_circuit_that_closes_by_itself() {
    let server = one_issue();
    let client = client(&server);
    known(&look_one(&client, ask("o/r", 1, NOW)).await);
    server.fault("/graphql", Fault::status(500, "no", &[]), 100);
    server.take_received();
    let mut last_seen = 0;
    for _ in 0..200 {
        match look_one(&client, ask("o/r", 1, NOW)).await {
            Answer::Unknown {
                last: Some(last), ..
            } => {
                assert_eq!(last.item.state, ItemState::Open);
                last_seen += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(last_seen, 200);
    assert!(
        server.take_received().len() <= 4,
        "two tries, and then it waits"
    );
    assert_eq!(opened(&client).len(), 1);
    server.heal();
    known(&until_known(&client).await);
    let notices = client.take_notices();
    assert_eq!(notices.len(), 1);
    assert_eq!(notices[0].what, NoticeKind::Closed);
    assert_eq!(notices[0].to_string(), "github.com answers again");
}

#[tokio::test]
async fn a_silent_server_costs_its_timeout_and_no_more() {
    let server = one_issue();
    server.fault("/graphql", Fault::Silence(Duration::from_secs(3)), 2);
    let client = client_with(
        &server,
        Settings {
            limits: cf_github::Limits {
                timeout: Duration::from_millis(400),
                ..cf_github::Limits::default()
            },
            ..quick()
        },
    );
    let began = Instant::now();
    let answer = look_one(&client, ask("o/r", 1, FRESH)).await;
    assert!(
        why(&answer).contains("no whole reply in time"),
        "{answer:?}"
    );
    assert!(
        began.elapsed() < Duration::from_millis(2500),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn nobody_listening_is_said_without_the_token() {
    let server = one_issue();
    let client = client(&server);
    drop(server);
    let answer = look_one(&client, ask("o/r", 1, FRESH)).await;
    let text = why(&answer);
    assert!(!text.contains("scripted-token"));
    assert!(
        text.contains("efused") || text.contains("connect"),
        "{text}"
    );
}

#[tokio::test]
async fn a_huge_body_is_not_swallowed() {
    let server = one_issue();
    server.fault("/graphql", Fault::Huge(50 * 1024 * 1024), 2);
    let client = client(&server);
    let answer = look_one(&client, ask("o/r", 1, FRESH)).await;
    assert!(
        why(&answer).contains("longer than 8388608 bytes"),
        "{answer:?}"
    );
    known(&until_known(&client).await);
}

#[tokio::test]
async fn a_rejected_token_switches_the_host_off_with_one_word() {
    let server = one_issue();
    server.require_token("another");
    let client = client(&server);
    for _ in 0..5 {
        let answer = look_one(&client, ask("o/r", 1, NOW)).await;
        assert_eq!(why(&answer), "the token was rejected (401)");
    }
    assert_eq!(server.received().len(), 1);
    let notices = client.take_notices();
    assert_eq!(notices.len(), 1);
    assert_eq!(
        notices[0].to_string(),
        "github.com is off: the token was rejected (401)"
    );
}

#[tokio::test]
async fn limits_are_obeyed_and_told_apart() {
    let rate = r#"{"errors":[{"type":"RATE_LIMITED","message":"API rate limit exceeded"}]}"#;
    for (fault, trouble, at_least) in [
        (
            Fault::Reply(
                200,
                vec![("x-ratelimit-remaining".into(), "0".into())],
                rate.into(),
            ),
            Trouble::RateLimit,
            3000,
        ),
        (
            Fault::status(
                403,
                "API rate limit exceeded for user ID 1.",
                &["x-ratelimit-remaining: 0"],
            ),
            Trouble::RateLimit,
            3000,
        ),
        (
            Fault::status(403, "You have exceeded a secondary rate limit.", &[]),
            Trouble::SecondaryLimit,
            60,
        ),
        (
            Fault::status(403, "Slow down", &["retry-after: 7"]),
            Trouble::SecondaryLimit,
            7,
        ),
        (
            Fault::status(
                429,
                "Too many requests",
                &["retry-after: Fri, 31 Dec 2100 23:59:59 GMT"],
            ),
            Trouble::SecondaryLimit,
            3500,
        ),
        (
            Fault::body(
                r#"{"data":null,"errors":[{"message":"You have exceeded a secondary rate limit."}]}"#,
            ),
            Trouble::SecondaryLimit,
            60,
        ),
        (
            Fault::status(503, "Unavailable", &["retry-after: 9"]),
            Trouble::Failing("GitHub answered 503".into()),
            9,
        ),
    ] {
        let server = one_issue();
        server.fault("/graphql", fault.clone(), 1);
        let client = client(&server);
        let began = Instant::now();
        let answer = look_one(&client, ask("o/r", 1, FRESH)).await;
        assert!(why(&answer).contains("not asked before"), "{answer:?}");
        assert!(
            began.elapsed() < Duration::from_secs(3),
            "a look does not wait for a pause"
        );
        assert_eq!(opened(&client), [trouble], "{fault:?}");
        let until = client.waits_until(&crate::link("o/r", 1)).unwrap();
        let wait = until.duration_since(jiff::Timestamp::now()).as_secs();
        assert!(wait >= at_least - 1 && wait <= 3600, "{fault:?}: {wait}");
        look_one(&client, ask("o/r", 1, FRESH)).await;
        assert_eq!(server.received().len(), 1, "{fault:?}");
    }
}

#[tokio::test]
async fn a_clock_that_is_wrong_does_not_lengthen_a_wait() {
    for skew in [-7200, 7200] {
        let server = one_issue();
        server.skew(skew);
        server.budget(Budget {
            limit: 5000,
            remaining: 0,
            resets_in: 300,
        });
        let client = client(&server);
        look_one(&client, ask("o/r", 1, FRESH)).await;
        let until = client.waits_until(&crate::link("o/r", 1)).unwrap();
        let wait = until.duration_since(jiff::Timestamp::now()).as_secs();
        assert!((299..=307).contains(&wait), "{wait}");
    }
}

#[tokio::test]
async fn the_reserve_is_left_to_others() {
    let server = one_issue();
    server.budget(Budget {
        limit: 5000,
        remaining: 1003,
        resets_in: 600,
    });
    let client = client(&server);
    for _ in 0..6 {
        look_one(&client, ask("o/r", 1, NOW)).await;
    }
    assert_eq!(server.received().len(), 3);
    assert_eq!(opened(&client), [Trouble::Reserve]);
}

#[tokio::test]
async fn a_plain_403_is_about_that_repository_only() {
    let server = one_issue();
    server.issue("p/q", 1);
    // The document about both is refused, then the one about the first alone; the second alone goes through.
    server.fault(
        "/graphql",
        Fault::status(403, "Resource not accessible by personal access token", &[]),
        2,
    );
    let client = client(&server);
    let answers = client
        .look(&[ask("o/r", 1, FRESH), ask("p/q", 1, FRESH)])
        .await;
    assert!(matches!(answers[0], Answer::Gone(_)), "{answers:?}");
    known(&answers[1]);
    assert_eq!(client.take_notices(), []);
}

#[tokio::test]
async fn a_document_that_is_too_much_is_halved_and_the_size_remembered() {
    for partial in [false, true] {
        let server = crate::issues(200);
        server.fault("/graphql", Fault::TooMuch(60, partial), 1000);
        let client = client(&server);
        let asks: Vec<_> = (1..=200).map(|n| ask("o/r", n, FRESH)).collect();
        let answers = client.look(&asks).await;
        for answer in &answers {
            known(answer);
        }
        let first = server.take_received().len();
        assert!(first <= 8, "{first}");
        let asks: Vec<_> = (1..=100).map(|n| ask("o/r", n, NOW)).collect();
        client.look(&asks).await;
        let sizes: Vec<usize> = server
            .take_received()
            .iter()
            .map(|request| request.body.matches("issueOrPullRequest(").count())
            .collect();
        assert_eq!(sizes, [50, 50], "the good size is remembered");
        assert_eq!(client.take_notices(), []);
    }
}

#[tokio::test]
async fn a_timeout_halves_once_and_does_not_send_the_same_again() {
    let server = crate::issues(100);
    server.fault("/graphql", Fault::status(502, "timeout", &[]), 1);
    let client = client(&server);
    let asks: Vec<_> = (1..=100).map(|n| ask("o/r", n, FRESH)).collect();
    for answer in client.look(&asks).await {
        known(&answer);
    }
    let sizes: Vec<usize> = server
        .received()
        .iter()
        .map(|request| request.body.matches("issueOrPullRequest(").count())
        .collect();
    assert_eq!(sizes, [100, 50, 50]);
}

#[tokio::test]
async fn a_rest_look_that_fails_leaves_one_link_unknown() {
    let server = one_issue();
    server.fault("/issues/", Fault::status(500, "no", &[]), 1);
    let client = client(&server);
    let asks = [ask("o/r", 1, FRESH), ask("o/r", 99, FRESH)];
    // It is looked for once more after a minute.
    for _ in 0..2 {
        let answers = client.look(&asks).await;
        known(&answers[0]);
        assert_eq!(why(&answers[1]), "GitHub answered 500");
    }
}

#[tokio::test]
async fn a_redirect_to_another_host_is_not_followed() {
    let server = one_issue();
    let other = ScriptedGithub::start();
    let location = format!("location: {}/repositories/1/issues/1", other.url());
    server.fault("/issues/", Fault::status(301, "Moved", &[&location]), 1);
    let client = client(&server);
    let answer = look_one(&client, ask("o/r", 99, FRESH)).await;
    assert!(why(&answer).contains("another host"), "{answer:?}");
    assert_eq!(other.received().len(), 0);
}
