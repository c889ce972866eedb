//! One wrong reply spoils nothing of what is known, and nothing that is read after it.

use std::time::{Duration, Instant};

use cf_github::{Answer, FoundAsk, GitHub, ItemState, LinkAsk};
use cf_testkit::github::Fault;
use serde_json::{Value, json};

use crate::{NOW, ask, asks, client, exact, issues, known, look_one};

#[tokio::test]
async fn a_clock_that_goes_wrong_by_a_year_hides_no_change() {
    const YEAR: i64 = 365 * 24 * 60 * 60;
    for skew in [YEAR, -YEAR] {
        let server = issues(600);
        for number in 1..=600 {
            server.back_to("o/r", number, 1_700_000_000);
        }
        let client = client(&server);
        client.look(&asks(600)).await;
        server.skew(skew);
        client.look(&asks(600)).await;
        server.skew(0);
        for number in 1..=5 {
            server.close("o/r", number, Some("COMPLETED"));
        }
        server.take_received();
        let answers = client.look(&asks(600)).await;
        for answer in &answers[..5] {
            let state = known(answer).item.state;
            assert!(matches!(state, ItemState::Closed { .. }), "{answer:?}");
        }
        assert_eq!(server.take_received().len(), 1, "by the list, {skew}");
    }
}

#[tokio::test]
async fn a_size_that_was_named_too_large_stays_so_whatever_follows() {
    let named = Fault::body(
        r#"{"data":null,"errors":[{"type":"RESOURCE_LIMITS_EXCEEDED","message":"too much"}]}"#,
    );
    let unnamed = Fault::status(502, "Bad Gateway", &[]);
    let limit = Fault::status(429, "slow down", &["retry-after: 1"]);
    let failing = Fault::status(500, "no", &[]);
    for (faults, requests) in [
        (vec![named.clone(), limit.clone()], 2),
        (vec![named, failing.clone(), failing.clone()], 2),
        // What is asked to wait has not failed for its size, nor shown that it was not to blame.
        (vec![unnamed.clone(), limit], 2),
        (vec![unnamed, failing.clone(), failing], 1),
    ] {
        let server = issues(100);
        for fault in &faults {
            server.fault("/graphql", fault.clone(), 1);
        }
        let client = client(&server);
        client.look(&asks(100)).await;
        assert_eq!(server.take_received().len(), faults.len());
        let began = Instant::now();
        while matches!(client.look(&asks(100)).await[99], Answer::Unknown { .. }) {
            assert!(began.elapsed() < Duration::from_secs(9), "{faults:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(server.take_received().len(), requests, "{faults:?}");
    }
}

/// The pull requests that are known to close the issue.
async fn found(client: &GitHub) -> Vec<u64> {
    let moved = LinkAsk {
        found: FoundAsk::WhenMoved,
        ..ask("o/r", 1, NOW)
    };
    let answer = look_one(client, moved).await;
    known(&answer).found.iter().map(|pr| pr.number).collect()
}

fn closing(reply: &mut Value) -> &mut Value {
    &mut reply["data"]["f"][0]["closedByPullRequestsReferences"]
}

#[tokio::test]
async fn a_list_of_pull_requests_that_is_not_whole_or_is_older_replaces_none() {
    let edits: [fn(&mut Value); 8] = [
        |reply| closing(reply)["nodes"] = Value::Null,
        |reply| closing(reply)["nodes"][0] = json!("text"),
        |reply| closing(reply)["nodes"][0]["number"] = json!(u64::MAX),
        |reply| closing(reply)["nodes"][0]["prState"] = json!("FROZEN"),
        |reply| closing(reply)["nodes"][0]["repository"] = Value::Null,
        |reply| {
            closing(reply)["nodes"][0] = Value::Null;
            let path = json!(["f", 0, "closedByPullRequestsReferences", "nodes", 0]);
            reply["errors"] = json!([{"message": "timeout", "path": path}]);
        },
        |reply| {
            closing(reply)["nodes"] = json!([]);
            reply["data"]["f"][0]["updatedAt"] = json!("2020-01-01T00:00:00Z");
        },
        |reply| {
            closing(reply)["nodes"] = json!([]);
            reply["data"]["f"][0]["updatedAt"] = json!("9000-01-01T00:00:00Z");
        },
    ];
    for (n, edit) in edits.into_iter().enumerate() {
        let server = issues(1);
        let o_r = |number| ("o/r".to_owned(), number);
        server.pull_request("o/r", 2);
        server.pull_request("o/r", 3);
        server.change("o/r", 1, |item| item.closing = vec![o_r(2)]);
        let client = client(&server);
        let answer = look_one(&client, exact("o/r", 1)).await;
        assert_eq!(known(&answer).found.len(), 1, "{n}");
        tokio::time::sleep(Duration::from_millis(1100)).await;
        server.change("o/r", 1, |item| item.closing = vec![o_r(2), o_r(3)]);
        let narrow = "closedByPullRequestsReferences".to_owned();
        server.fault(
            "/graphql",
            Fault::Holding(narrow, Box::new(Fault::Edited(edit))),
            1,
        );
        assert_eq!(found(&client).await, [2], "{n}: as it was known before");
        assert_eq!(found(&client).await, [2, 3], "{n}: asked for once more");
    }
}
