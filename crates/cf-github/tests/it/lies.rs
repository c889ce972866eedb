//! A GitHub that lies: whatever it says, nothing is lost, nothing is asked without end, and the truth is believed
//! again.

use std::time::{Duration, Instant};

use cf_github::{Answer, CommentAsk, Comments, GitHub, Settings};
use cf_testkit::github::{Fault, Place, Received};
use serde_json::{Value, json};

use crate::{
    FRESH, NOW, ask, asks, client, client_with, exact, issues, known, look_one, quick, why,
    with_comments,
};

/// What makes a lie of a reply.
type Edit = fn(&mut Value);

const SINCE_EVER: CommentAsk = CommentAsk {
    since: Some(jiff::Timestamp::UNIX_EPOCH),
    seen: None,
    last: 20,
};

/// The items of the first repository in a reply, by alias.
fn items(reply: &mut Value) -> &mut serde_json::Map<String, Value> {
    reply["data"]["r0"]
        .as_object_mut()
        .expect("the repository is there")
}

async fn comments(client: &GitHub) -> Answer {
    look_one(client, with_comments(ask("o/r", 1, NOW), SINCE_EVER)).await
}

#[track_caller]
fn told(answer: &Answer) -> Vec<String> {
    match &known(answer).comments {
        Comments::Read(read) => read.list.iter().map(|one| one.body.clone()).collect(),
        other => panic!("not read: {other:?}"),
    }
}

#[tokio::test]
async fn replies_that_leave_most_out_are_asked_about_again_only_so_often() {
    let server = issues(200);
    server.fault(
        "/graphql",
        Fault::Edited(|reply| {
            let mut first = true;
            items(reply).retain(|key, _| {
                !key.starts_with('i') || key == "id" || std::mem::take(&mut first)
            });
        }),
        usize::MAX,
    );
    let client = client(&server);
    let answers = client.look(&asks(200)).await;
    let known = |answers: &[Answer]| {
        answers
            .iter()
            .filter(|a| matches!(a, Answer::Known(_)))
            .count()
    };
    assert!(known(&answers) >= 12, "what came is known");
    assert!(
        why(&answers[150]).contains("without a word"),
        "{:?}",
        answers[150]
    );
    assert_eq!(server.take_received().len(), 12, "two, and ten more");
    server.heal();
    assert_eq!(known(&client.look(&asks(200)).await), 200);
}

#[tokio::test]
async fn what_nothing_can_be_told_of_keeps_nobody_from_being_looked_for() {
    let server = issues(10);
    for number in 1..=8 {
        server.change("o/r", number, |item| item.place = Place::Hidden);
        let elsewhere = Fault::status(301, "Moved", &["location: https://elsewhere.example/x"]);
        server.fault(&format!("/issues/{number}"), elsewhere, usize::MAX);
    }
    server.issue("o/new", 99);
    server.change("o/r", 9, |item| {
        item.place = Place::Moved("o/new".to_owned(), 99);
    });
    let client = client(&server);
    for pass in 1..=4 {
        let answers = client.look(&asks(9)).await;
        assert!(
            matches!(answers[8], Answer::Moved { .. }) == (pass > 1),
            "pass {pass}: {:?}",
            answers[8]
        );
        if pass > 1 {
            assert!(
                why(&answers[0]).contains("another host"),
                "{:?}",
                answers[0]
            );
        }
    }
    let looks = server
        .received()
        .iter()
        .filter(|request| request.method == "GET")
        .count();
    assert_eq!(looks, 8 + 2, "each once, and where the last one went");
}

#[tokio::test]
async fn a_circle_of_redirects_is_not_walked_in_every_pass() {
    let server = issues(1);
    server.change("o/r", 1, |item| item.place = Place::Hidden);
    server.fault(
        "/issues/1",
        Fault::status(301, "Moved", &["location: /repos/o/r/issues/1"]),
        usize::MAX,
    );
    let client = client(&server);
    for _ in 0..5 {
        let answer = look_one(&client, ask("o/r", 1, NOW)).await;
        assert!(why(&answer).contains("redirects without end"), "{answer:?}");
    }
    let looks = server
        .received()
        .iter()
        .filter(|request| request.method == "GET")
        .count();
    assert_eq!(looks, 4);
}

#[tokio::test]
async fn an_outage_says_nothing_about_the_size_of_requests() {
    let server = issues(100);
    let silent = Settings {
        limits: cf_github::Limits {
            timeout: Duration::from_millis(200),
            ..cf_github::Limits::default()
        },
        ..quick()
    };
    for fault in [
        Fault::Silence(Duration::from_secs(1)),
        Fault::status(502, "Bad Gateway", &[]),
        Fault::body(
            r#"{"data":null,"errors":[{"message":"Something went wrong while executing your query."}]}"#,
        ),
    ] {
        server.fault("/graphql", fault.clone(), usize::MAX);
        let client = client_with(&server, silent);
        let answers = client.look(&asks(100)).await;
        assert!(matches!(answers[0], Answer::Unknown { .. }), "{fault:?}");
        server.heal();
        tokio::time::sleep(Duration::from_millis(1400)).await;
        server.take_received();
        let began = Instant::now();
        let mut answers = client.look(&asks(100)).await;
        while matches!(answers[99], Answer::Unknown { .. })
            && began.elapsed() < Duration::from_secs(5)
        {
            tokio::time::sleep(Duration::from_millis(100)).await;
            answers = client.look(&asks(100)).await;
        }
        known(&answers[99]);
        assert_eq!(server.take_received().len(), 1, "{fault:?}");
    }
}

#[tokio::test]
async fn a_list_of_comments_that_is_none_tells_nothing() {
    let edits: [Edit; 3] = [
        |reply| reply["data"]["c"][0]["comments"]["nodes"] = Value::Null,
        |reply| reply["data"]["c"][0]["comments"] = Value::Null,
        |reply| reply["data"]["c"][0]["comments"]["pageInfo"] = Value::Null,
    ];
    for (n, edit) in edits.into_iter().enumerate() {
        let server = issues(1);
        server.comment("o/r", 1, "one");
        let client = client(&server);
        server.fault("/graphql", narrow(edit), 1);
        let answer = comments(&client).await;
        assert!(
            matches!(known(&answer).comments, Comments::Unknown(_)),
            "{n}: {answer:?}"
        );
        assert_eq!(told(&comments(&client).await), ["one"], "{n}");
    }
}

/// The request for comments, and the pull requests that close an issue, answered otherwise.
fn narrow(edit: Edit) -> Fault {
    Fault::Holding("nodes(ids:".to_owned(), Box::new(Fault::Edited(edit)))
}

#[tokio::test]
async fn a_comment_that_makes_no_sense_holds_back_no_other_and_is_asked_for_again() {
    let edits: [Edit; 5] = [
        |reply| reply["data"]["c"][0]["comments"]["nodes"][1] = json!("text"),
        |reply| reply["data"]["c"][0]["comments"]["nodes"][1]["createdAt"] = json!("yesterday"),
        |reply| {
            reply["data"]["c"][0]["comments"]["nodes"][1]["createdAt"] =
                json!("9000-01-01T00:00:00Z");
        },
        |reply| reply["data"]["c"][0]["comments"]["nodes"][1]["id"] = Value::Null,
        |reply| {
            reply["data"]["c"][0]["comments"]["nodes"][1] = Value::Null;
            reply["errors"] =
                json!([{"message": "timeout", "path": ["c", 0, "comments", "nodes", 1]}]);
        },
    ];
    for (n, edit) in edits.into_iter().enumerate() {
        let server = issues(1);
        server.comment("o/r", 1, "one");
        server.comment("o/r", 1, "two");
        let client = client(&server);
        server.fault("/graphql", narrow(edit), 1);
        let answer = comments(&client).await;
        assert_eq!(told(&answer), ["one"], "{n}");
        assert_eq!(unread(&answer), 1, "{n}");
        let answer = comments(&client).await;
        assert_eq!(told(&answer), ["one", "two"], "{n}");
        assert_eq!(unread(&answer), 0, "{n}");
    }
}

#[track_caller]
fn unread(answer: &Answer) -> u32 {
    match &known(answer).comments {
        Comments::Read(read) => read.unread,
        other => panic!("not read: {other:?}"),
    }
}

#[tokio::test]
async fn a_comment_that_never_makes_sense_is_said_once_and_not_asked_for_in_every_pass() {
    let server = issues(1);
    server.comment("o/r", 1, "one");
    server.comment("o/r", 1, "two");
    server.fault(
        "/graphql",
        narrow(|reply| {
            reply["data"]["c"][0]["comments"]["nodes"][0]["createdAt"] = json!("yesterday");
        }),
        usize::MAX,
    );
    // Of what changed a moment ago more may come within the same second.
    server.back_to("o/r", 1, 1_700_000_000);
    let client = client(&server);
    for _ in 0..6 {
        let answer = comments(&client).await;
        assert_eq!(
            (told(&answer), unread(&answer)),
            (vec!["two".to_owned()], 1)
        );
    }
    let narrow = |received: Vec<Received>| {
        let is_narrow = |request: &&Received| request.body.contains("nodes(ids:");
        received.iter().filter(is_narrow).count()
    };
    assert_eq!(
        narrow(server.take_received()),
        3,
        "then only once in a while"
    );
    let said: Vec<String> = client
        .take_notices()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].starts_with("1 comment cannot be read of github.com/o/r#1;"),
        "{said:?}"
    );
    // What is new of the item is no reason to wait.
    server.comment("o/r", 1, "three");
    assert_eq!(told(&comments(&client).await), ["two", "three"]);
    assert_eq!(narrow(server.take_received()), 1);
    assert!(client.take_notices().is_empty());
}

#[tokio::test]
async fn pull_requests_that_make_no_sense_or_are_hidden_are_not_asked_for_in_every_pass() {
    let nonsense: Edit = |reply| {
        reply["data"]["f"][0]["closedByPullRequestsReferences"]["nodes"][0]["prState"] =
            json!("FROZEN");
    };
    let hidden: Edit = |reply| {
        reply["data"]["f"][0]["closedByPullRequestsReferences"]["nodes"][0] = Value::Null;
        let path = json!(["f", 0, "closedByPullRequestsReferences", "nodes", 0]);
        reply["errors"] = json!([{"type": "FORBIDDEN", "message": "no", "path": path}]);
    };
    for (edit, requests, found) in [(nonsense, 3, 0), (hidden, 1, 1)] {
        let server = issues(1);
        for number in [2, 3] {
            server.pull_request("o/r", number);
        }
        server.change("o/r", 1, |item| {
            item.closing = vec![("o/r".to_owned(), 2), ("o/r".to_owned(), 3)];
        });
        server.fault("/graphql", narrow(edit), usize::MAX);
        let client = client(&server);
        for _ in 0..6 {
            let answer = look_one(&client, exact("o/r", 1)).await;
            assert_eq!(
                known(&answer).found.len(),
                found,
                "what is hidden does not count"
            );
        }
        let received = server.take_received();
        let narrow = |request: &&Received| request.body.contains("nodes(ids:");
        assert_eq!(received.iter().filter(narrow).count(), requests);
    }
}

#[tokio::test]
async fn a_comment_that_is_deleted_while_it_is_read_is_left_out() {
    let server = issues(1);
    server.comment("o/r", 1, "one");
    server.comment("o/r", 1, "two");
    let client = client(&server);
    let edit: Edit = |reply| reply["data"]["c"][0]["comments"]["nodes"][0] = Value::Null;
    server.fault("/graphql", narrow(edit), 1);
    assert_eq!(told(&comments(&client).await), ["two"]);
}

#[tokio::test]
async fn pages_of_comments_that_lead_nowhere_are_left_alone() {
    let edits: [Edit; 2] = [
        // The same page for ever, and under cursors that differ.
        |reply| {
            reply["data"]["node"]["comments"]["pageInfo"] =
                json!({"hasPreviousPage": true, "startCursor": "20"});
        },
        |reply| {
            reply["data"]["node"]["comments"]["pageInfo"] =
                json!({"hasPreviousPage": true, "startCursor": "40"});
            reply["data"]["node"]["comments"]["nodes"] = json!([]);
        },
    ];
    for edit in edits {
        let server = issues(2);
        for n in 0..50 {
            server.comment("o/r", 1, &format!("{n}"));
        }
        server.comment("o/r", 2, "here");
        server.fault(
            "/graphql",
            Fault::Holding("$b:String!".to_owned(), Box::new(Fault::Edited(edit))),
            usize::MAX,
        );
        let client = client(&server);
        let both = [1, 2].map(|number| with_comments(ask("o/r", number, NOW), SINCE_EVER));
        let answers = client.look(&both).await;
        let Comments::Unknown(why) = &known(&answers[0]).comments else {
            panic!("{:?}", answers[0]);
        };
        assert!(why.to_string().contains("without end"), "{why}");
        assert_eq!(told(&answers[1]), ["here"], "the others are read");
        assert!(server.take_received().len() <= 4);
        server.heal();
        assert_eq!(told(&comments(&client).await).len(), 50);
    }
}

#[tokio::test]
async fn of_more_new_comments_than_can_be_read_the_oldest_are_left_out_and_the_rest_is_told_once() {
    let server = issues(1);
    for n in 0..1100 {
        server.comment_by("o/r", 1, |comment| {
            comment.body = format!("{n}");
            comment.created_at = 1_700_000_000 + n;
        });
    }
    server.back_to("o/r", 1, 1_700_001_100);
    let client = client(&server);
    let answer = comments(&client).await;
    let Comments::Read(read) = &known(&answer).comments else {
        panic!("{answer:?}");
    };
    assert!(read.more);
    assert_eq!(read.list.last().map(|one| one.body.as_str()), Some("1099"));
    assert_eq!(read.list.len(), 20 + 20 * 50);
    assert_eq!(server.take_received().len(), 22);
    let seen = CommentAsk {
        seen: Some(read.up_to),
        ..SINCE_EVER
    };
    let answer = look_one(&client, with_comments(ask("o/r", 1, NOW), seen)).await;
    assert!(
        matches!(known(&answer).comments, Comments::Unchanged),
        "{answer:?}"
    );
    assert_eq!(server.take_received().len(), 1);
}

#[tokio::test]
async fn what_is_said_to_have_changed_in_the_future_hides_nothing_from_then_on() {
    let server = issues(1);
    let client = client(&server);
    let future: [(&str, Edit); 2] = [
        ("issueOrPullRequest", |reply| {
            items(reply)["i1"]["updatedAt"] = json!("9999-12-30T00:00:00Z");
        }),
        ("nodes(ids:", |reply| {
            reply["data"]["c"][0]["updatedAt"] = json!("9999-12-30T00:00:00Z");
        }),
    ];
    for (holding, edit) in future {
        server.comment("o/r", 1, holding);
        server.fault(
            "/graphql",
            Fault::Holding(holding.to_owned(), Box::new(Fault::Edited(edit))),
            1,
        );
        let answer = comments(&client).await;
        assert!(
            matches!(&answer, Answer::Unknown { .. })
                || matches!(&known(&answer).comments, Comments::Unknown(_)),
            "{answer:?}"
        );
        assert!(told(&comments(&client).await).contains(&holding.to_owned()));
    }
}

#[tokio::test]
async fn a_number_that_is_none_spoils_no_later_request() {
    let server = issues(1);
    server.pull_request("o/r", 2);
    server.change("o/r", 1, |item| item.closing = vec![("o/r".to_owned(), 2)]);
    let edit: Edit = |reply| {
        let nodes = &mut reply["data"]["f"][0]["closedByPullRequestsReferences"]["nodes"];
        let mut odd = nodes[0].clone();
        odd["number"] = json!(u64::MAX);
        nodes.as_array_mut().expect("a list").push(odd);
    };
    server.fault("/graphql", narrow(edit), 1);
    let client = client(&server);
    let answer = look_one(&client, exact("o/r", 1)).await;
    assert_eq!(known(&answer).found.len(), 0, "a list that is not whole");
    let answer = look_one(&client, exact("o/r", 1)).await;
    assert_eq!(known(&answer).found.len(), 1);
    assert!(
        !server
            .received()
            .iter()
            .any(|request| request.body.contains("18446744073709551615"))
    );
}

#[tokio::test]
async fn what_it_says_is_shown_in_a_few_words_and_without_the_token() {
    let server = issues(1);
    let edit = Fault::Edited(|reply| {
        items(reply).insert("i1".to_owned(), Value::Null);
        let message = format!("\u{1b}[31mscripted-token {}", "m".repeat(1_000_000));
        reply["errors"] = json!([{"type": "ODD", "path": ["r0", "i1"], "message": message}]);
    });
    server.fault("/graphql", edit, 1);
    let client = client(&server);
    let text = why(&look_one(&client, ask("o/r", 1, FRESH)).await);
    assert!(
        !text.contains("scripted-token") && !text.contains('\u{1b}'),
        "{text}"
    );
    assert!(
        text.contains("[redacted]") && text.chars().count() < 400,
        "{text}"
    );
}

#[tokio::test]
async fn a_reply_of_millions_of_values_is_not_taken_apart() {
    for body in [
        format!(
            "{{\"data\":{{\"r0\":null}},\"errors\":[{}]}}",
            vec!["{}"; 2_500_000].join(",")
        ),
        format!("{{\"data\":[{}]}}", vec!["0"; 4_000_000].join(",")),
        format!(
            "{{\"data\":{{\"r0\":null}},\"errors\":[{}]}}",
            vec!["{}"; 30_000].join(",")
        ),
    ] {
        let server = issues(1);
        server.fault("/graphql", Fault::body(&body), 2);
        let answer = look_one(&client(&server), ask("o/r", 1, FRESH)).await;
        let text = why(&answer);
        assert!(
            text.contains("values") || text.contains("30000 errors"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn an_answer_that_is_older_than_the_last_one_is_none() {
    let server = issues(1);
    server.close("o/r", 1, Some("COMPLETED"));
    let client = client(&server);
    let closed = known(&look_one(&client, ask("o/r", 1, NOW)).await)
        .item
        .state;
    let lag = Fault::Edited(|reply| {
        let item = &mut items(reply)["i1"];
        item["state"] = json!("OPEN");
        item["updatedAt"] = json!("2026-01-01T00:00:00Z");
    });
    server.fault("/graphql", lag, 3);
    for _ in 0..3 {
        let answer = look_one(&client, ask("o/r", 1, NOW)).await;
        assert!(
            why(&answer).contains("older than the last one"),
            "{answer:?}"
        );
    }
    assert_eq!(
        known(&look_one(&client, ask("o/r", 1, NOW)).await)
            .item
            .state,
        closed
    );
    server.reopen("o/r", 1);
    assert_ne!(
        known(&look_one(&client, ask("o/r", 1, NOW)).await)
            .item
            .state,
        closed
    );
}
