//! Listing the issues of a repository.

use cf_github::{Association, ImportError, ImportedIssue, IssueFilter, IssueStates, Listing};
use cf_testkit::github::{Fault, ScriptedGithub};

use crate::client;

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

fn issues(count: u64) -> ScriptedGithub {
    let server = ScriptedGithub::start();
    for number in 1..=count {
        server.issue("o/r", number);
    }
    server
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
    assert_eq!(issue.comments[0].body, "a comment");
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
