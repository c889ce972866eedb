//! Listing the issues of a repository.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cf_github::{
    Association, ImportError, ImportedIssue, IssueFilter, IssueStates, Limits, Listing, Settings,
};
use cf_testkit::github::{Fault, ScriptedGithub};
use serde_json::{Value, json};

use crate::{client, client_with, issues, quick};

async fn all(mut listing: Listing) -> Vec<ImportedIssue> {
    let mut issues = Vec::new();
    while let Some(page) = listing.next().await.expect("the page is read") {
        issues.extend(page.issues);
    }
    issues
}

async fn import(server: &ScriptedGithub, filter: IssueFilter) -> Vec<u64> {
    let client = client(server);
    let listing = client
        .list_issues("github.com", "o/r".parse().expect("a name"), filter)
        .expect("the host is known");
    all(listing)
        .await
        .iter()
        .map(|issue| issue.number)
        .collect()
}

#[tokio::test]
async fn a_thousand_issues_cost_ten_requests() {
    let server = issues(1000);
    let numbers = import(&server, IssueFilter::default()).await;
    assert_eq!(numbers, (1..=1000).collect::<Vec<_>>());
    assert_eq!(server.received().len(), 10);
}

#[tokio::test]
async fn an_older_server_costs_one_more() {
    let server = issues(1000);
    server.forget_blocked_by();
    assert_eq!(import(&server, IssueFilter::default()).await.len(), 1000);
    assert_eq!(server.received().len(), 11);
}

#[tokio::test]
async fn an_issue_comes_with_what_a_task_is_made_from() {
    let server = issues(3);
    server.change("o/r", 2, |item| {
        "a title".clone_into(&mut item.title);
        "a body".clone_into(&mut item.body);
        item.labels = vec!["bug".to_owned(), "p1".to_owned()];
        item.assignees = vec!["mona".to_owned()];
        item.milestone = Some((3, "v1".to_owned()));
        item.blocked_by = vec![("o/r".to_owned(), 1)];
        "NONE".clone_into(&mut item.association);
        item.author = None;
    });
    server.comment("o/r", 2, "a comment");
    let client = client(&server);
    let filter = IssueFilter {
        comments: 20,
        ..IssueFilter::default()
    };
    let listing = client
        .list_issues("github.com", "o/r".parse().unwrap(), filter)
        .unwrap();
    let issue = all(listing).await.swap_remove(1);
    assert_eq!(
        (issue.title.as_str(), issue.body.as_str()),
        ("a title", "a body")
    );
    assert_eq!(issue.labels, ["bug", "p1"]);
    assert_eq!(issue.assignees, ["mona"]);
    assert_eq!(issue.milestone.as_deref(), Some("v1"));
    assert_eq!(
        (issue.blocked_by[0].number, issue.blocked_by[0].open),
        (1, true)
    );
    assert_eq!(issue.association, Association::Other);
    assert_eq!(issue.author, None);
    assert_eq!(issue.comments.expect("they are whole")[0].body, "a comment");
}

#[tokio::test]
async fn filters_are_kept() {
    let server = issues(6);
    server.pull_request("o/r", 7);
    server.close("o/r", 1, Some("COMPLETED"));
    for (number, label) in [(2, "a"), (3, "a"), (3, "b"), (4, "b")] {
        server.change("o/r", number, |item| item.labels.push(label.to_owned()));
    }
    server.change("o/r", 5, |item| {
        item.milestone = Some((2, "Next".to_owned()));
    });
    server.change("o/r", 6, |item| item.assignees.push("mona".to_owned()));
    let filter = IssueFilter::default;
    let some = |text: &str| Some(text.to_owned());
    for (filter, numbers) in [
        (filter(), vec![2, 3, 4, 5, 6]),
        (
            IssueFilter {
                states: IssueStates::All,
                ..filter()
            },
            vec![1, 2, 3, 4, 5, 6],
        ),
        (
            IssueFilter {
                states: IssueStates::Closed,
                ..filter()
            },
            vec![1],
        ),
        (
            IssueFilter {
                labels: vec!["a".into()],
                ..filter()
            },
            vec![2, 3],
        ),
        (
            IssueFilter {
                labels: vec!["a".into(), "b".into()],
                ..filter()
            },
            vec![3],
        ),
        (
            IssueFilter {
                milestone: some("2"),
                ..filter()
            },
            vec![5],
        ),
        (
            IssueFilter {
                milestone: some("next"),
                ..filter()
            },
            vec![5],
        ),
        (
            IssueFilter {
                assignee: some("@me"),
                ..filter()
            },
            vec![6],
        ),
        (
            IssueFilter {
                limit: Some(2),
                ..filter()
            },
            vec![2, 3],
        ),
        (
            IssueFilter {
                limit: Some(0),
                ..filter()
            },
            vec![],
        ),
    ] {
        assert_eq!(import(&server, filter.clone()).await, numbers, "{filter:?}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_said() {
    let server = issues(1);
    server.change("o/r", 1, |item| {
        item.milestone = Some((2, "v1.0".to_owned()));
    });
    let client = client(&server);
    let mut listing = client
        .list_issues(
            "github.com",
            "no/where".parse().unwrap(),
            IssueFilter::default(),
        )
        .unwrap();
    assert!(matches!(
        listing.next().await,
        Err(ImportError::NoRepository { .. })
    ));
    let filter = IssueFilter {
        milestone: Some("v1".to_owned()),
        ..IssueFilter::default()
    };
    let mut listing = client
        .list_issues("github.com", "o/r".parse().unwrap(), filter)
        .unwrap();
    assert_eq!(
        listing.next().await.unwrap_err().to_string(),
        "o/r has no milestone \"v1\"; there is v1.0"
    );
    assert!(matches!(
        client.list_issues(
            "evil.example",
            "o/r".parse().unwrap(),
            IssueFilter::default()
        ),
        Err(ImportError::Host(_))
    ));
}

#[tokio::test]
async fn a_page_that_is_too_much_is_read_in_smaller_ones() {
    let server = issues(120);
    server.fault(
        "/graphql",
        Fault::body(
            r#"{"data":null,"errors":[{"type":"RESOURCE_LIMITS_EXCEEDED","message":"too much"}]}"#,
        ),
        1,
    );
    let numbers = import(&server, IssueFilter::default()).await;
    assert_eq!(numbers, (1..=120).collect::<Vec<_>>());
    assert_eq!(server.received().len(), 4);
}

async fn page_or_error(server: &ScriptedGithub) -> Result<(u64, usize), ImportError> {
    let client = client(server);
    let mut listing = client
        .list_issues(
            "github.com",
            "o/r".parse().expect("a name"),
            IssueFilter::default(),
        )
        .expect("the host is known");
    let (mut read, mut unreadable) = (0, 0);
    while let Some(page) = listing.next().await? {
        read += page.issues.len() as u64;
        unreadable += page.unreadable;
    }
    Ok((read, unreadable))
}

#[tokio::test]
async fn pages_without_end_are_refused() {
    let edits: [fn(&mut Value); 3] = [
        |reply| issues_of(reply)["pageInfo"] = json!({"hasNextPage": true, "endCursor": "100"}),
        |reply| {
            issues_of(reply)["pageInfo"] = json!({"hasNextPage": true, "endCursor": reply_id()});
            issues_of(reply)["nodes"] = json!([]);
        },
        // New ones for ever.
        |reply| {
            let list = issues_of(reply);
            list["totalCount"] = json!(1);
            list["pageInfo"] = json!({"hasNextPage": true, "endCursor": reply_id()});
            for node in list["nodes"].as_array_mut().expect("a list") {
                node["number"] = json!(next());
            }
        },
    ];
    for edit in edits {
        let server = issues(200);
        server.fault("/graphql", Fault::Edited(edit), usize::MAX);
        let error = page_or_error(&server).await.expect_err("it does not end");
        assert!(error.to_string().contains("pages without end"), "{error}");
        assert!(server.received().len() <= 15, "{}", server.received().len());
    }
}

#[tokio::test]
async fn a_total_that_is_told_once_will_do_and_one_that_is_never_told_is_missed() {
    let untold: fn(&mut Value) = |reply| issues_of(reply)["totalCount"] = Value::Null;
    let server = issues(250);
    server.fault(
        "/graphql",
        Fault::Holding("\"after\":\"".to_owned(), Box::new(Fault::Edited(untold))),
        usize::MAX,
    );
    assert_eq!(page_or_error(&server).await, Ok((250, 0)), "on later pages");
    server.heal();
    server.fault("/graphql", Fault::Edited(untold), usize::MAX);
    let error = page_or_error(&server).await.expect_err("it is never told");
    assert!(
        error
            .to_string()
            .contains("do not say how many issues there are"),
        "{error}"
    );
}

#[tokio::test]
async fn a_listing_ends_whatever_is_said_to_be_there() {
    // A page of a hundred issues of 40 KiB, new ones every time, and more said to be there than anybody has.
    let text: fn(&mut Value) = |reply| {
        let list = issues_of(reply);
        list["totalCount"] = json!(u64::MAX);
        list["pageInfo"] = json!({"hasNextPage": true, "endCursor": reply_id()});
        for node in list["nodes"].as_array_mut().expect("a list") {
            node["number"] = json!(next());
            node["body"] = json!("x".repeat(60_000));
        }
    };
    let server = issues(200);
    server.fault("/graphql", Fault::Edited(text), usize::MAX);
    let settings = Settings {
        floor: Duration::from_millis(1),
        ..quick()
    };
    let client = client_with(&server, settings);
    let mut listing = client
        .list_issues(
            "github.com",
            "o/r".parse().expect("a name"),
            IssueFilter::default(),
        )
        .expect("the host is known");
    let mut bytes = 0;
    let error = loop {
        let page = match listing.next().await {
            Ok(page) => page.expect("it said that there are more"),
            Err(error) => break error,
        };
        let bodies = page.issues.iter().map(|issue| issue.body.len());
        bytes += bodies.sum::<usize>();
    };
    assert!(
        error.to_string().contains("more than 256 MiB of text"),
        "{error}"
    );
    assert!(bytes <= 256 << 20, "{bytes}");
}

#[tokio::test]
async fn a_page_that_is_not_whole_is_no_page() {
    let edits: [fn(&mut Value); 6] = [
        |reply| reply["data"]["repository"] = Value::Null,
        |reply| reply["data"]["repository"]["issues"] = Value::Null,
        |reply| issues_of(reply)["nodes"] = Value::Null,
        |reply| issues_of(reply)["pageInfo"] = Value::Null,
        |reply| issues_of(reply)["pageInfo"] = json!({"hasNextPage": true, "endCursor": null}),
        |reply| issues_of(reply)["pageInfo"] = json!({"hasNextPage": "no"}),
    ];
    for edit in edits {
        let server = issues(3);
        server.fault("/graphql", Fault::Edited(edit), 1);
        let error = page_or_error(&server).await.expect_err("it is not whole");
        assert!(error.to_string().contains("cannot be read"), "{error}");
    }
}

#[tokio::test]
async fn an_issue_that_cannot_be_read_is_counted() {
    let edits: [fn(&mut Value); 5] = [
        |reply| second(reply)["number"] = json!(-1),
        |reply| second(reply)["number"] = json!(u64::MAX),
        |reply| second(reply)["updatedAt"] = json!("9999-01-01T00:00:00Z"),
        |reply| second(reply)["state"] = json!("FROZEN"),
        |reply| *second(reply) = Value::Null,
    ];
    for (n, edit) in edits.into_iter().enumerate() {
        let server = issues(3);
        server.fault("/graphql", Fault::Edited(edit), 1);
        assert_eq!(page_or_error(&server).await.expect("a page"), (2, 1), "{n}");
    }
}

#[tokio::test]
async fn a_list_of_comments_that_is_not_whole_is_none() {
    let edits: [fn(&mut Value); 7] = [
        |reply| second(reply)["comments"] = Value::Null,
        |reply| {
            second(reply)
                .as_object_mut()
                .expect("an issue")
                .remove("comments");
        },
        |reply| second(reply)["comments"]["nodes"] = Value::Null,
        |reply| second(reply)["comments"]["nodes"][0] = json!("text"),
        |reply| second(reply)["comments"]["nodes"][0]["id"] = Value::Null,
        |reply| {
            second(reply)["comments"]["nodes"][0]["createdAt"] = json!("9000-01-01T00:00:00Z");
        },
        |reply| {
            second(reply)["comments"]["nodes"][0] = Value::Null;
            let path = json!(["repository", "issues", "nodes", 1, "comments", "nodes", 0]);
            reply["errors"] = json!([{"message": "timeout", "path": path}]);
        },
    ];
    for (n, edit) in edits.into_iter().enumerate() {
        let server = issues(3);
        for number in 1..=3 {
            server.comment("o/r", number, "one");
            server.comment("o/r", number, "two");
        }
        server.fault("/graphql", Fault::Edited(edit), 1);
        let client = client(&server);
        let filter = IssueFilter {
            comments: 20,
            ..IssueFilter::default()
        };
        let listing = client
            .list_issues("github.com", "o/r".parse().expect("a name"), filter)
            .expect("the host is known");
        let counts: Vec<Option<usize>> = all(listing)
            .await
            .iter()
            .map(|issue| issue.comments.as_ref().map(Vec::len))
            .collect();
        assert_eq!(counts, [Some(2), None, Some(2)], "{n}");
    }
}

fn issues_of(reply: &mut Value) -> &mut Value {
    &mut reply["data"]["repository"]["issues"]
}

fn second(reply: &mut Value) -> &mut Value {
    &mut issues_of(reply)["nodes"][1]
}

/// A number that was not there before.
fn next() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1_000);
    NEXT.fetch_add(1, Ordering::SeqCst)
}

/// A cursor that was not there before; the scripted GitHub takes none but numbers.
fn reply_id() -> String {
    (next() % 100).to_string()
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up() {
    let server = issues(3);
    server.fault(
        "/graphql",
        Fault::Silence(Duration::from_secs(1)),
        usize::MAX,
    );
    let settings = Settings {
        limits: Limits {
            timeout: Duration::from_millis(200),
            ..Limits::default()
        },
        ..quick()
    };
    let client = client_with(&server, settings);
    let mut listing = client
        .list_issues(
            "github.com",
            "o/r".parse().expect("a name"),
            IssueFilter::default(),
        )
        .expect("the host is known");
    let error = listing.next().await.expect_err("there is no reply");
    assert!(error.to_string().contains("in time"), "{error}");
    assert_eq!(server.received().len(), 3);
}

#[tokio::test]
async fn a_page_that_is_too_long_is_read_in_smaller_ones() {
    let server = issues(12);
    server.fault("/graphql", Fault::Huge(9_000_000), 4);
    assert_eq!(
        import(&server, IssueFilter::default()).await,
        (1..=12).collect::<Vec<_>>()
    );
    assert_eq!(server.received().len(), 4 + 2, "six to a page in the end");
}
