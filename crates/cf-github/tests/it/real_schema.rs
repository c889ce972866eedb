//! Against a server that executes GitHub's own GraphQL schema. The counts are the server's.
//!
//! Needs node and the packages of `tests/schema`; `cargo xtask test-integration` installs them and runs this.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use cf_github::{
    Answer, CommentAsk, Comments, Environment, FoundAsk, GitHub, HostAccess, IssueFilter,
    ItemState, LinkAsk, NamedHosts,
};
use serde_json::{Value, json};

use crate::{FRESH, NOW, ask, known, quick};

/// The server, which ends with its standard input.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schema");
        let mut child = Command::new("node")
            .arg("server.mjs")
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node is installed");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("it is piped"))
            .read_line(&mut line)
            .expect("the server says where it listens");
        let url = line
            .trim()
            .strip_prefix("listening on ")
            .expect("`npm ci` was run in tests/schema")
            .to_owned();
        Self { child, url }
    }

    fn client(&self) -> GitHub {
        let environment: Environment = [
            ("GITHUB_API_URL", self.url.clone()),
            ("GH_TOKEN", "t".to_owned()),
        ]
        .into_iter()
        .collect();
        let settings = cf_github::Settings {
            limits: cf_github::Limits::default(),
            ..quick()
        };
        GitHub::new(settings, move |host| {
            HostAccess::resolve(host, &environment, &NamedHosts::new(), |_| None)
        })
    }

    async fn control(&self, path: &str, body: Value) -> Value {
        let text = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only(Vec::new())
            .build()
            .expect("a client")
            .post(format!("{}/control/{path}", self.url))
            .body(body.to_string())
            .send()
            .await
            .expect("the server answers")
            .text()
            .await
            .expect("the server answers");
        serde_json::from_str(&text).expect("JSON")
    }

    /// How many requests there were since this was asked last.
    async fn requests(&self) -> u64 {
        let stats = self.control("stats", json!({})).await;
        assert!(stats["mostInFlight"].as_u64() <= Some(1), "{stats}");
        if let Some(closest) = stats["closestMs"].as_f64() {
            assert!(closest >= 100.0, "{stats}");
        }
        stats["graphql"].as_u64().unwrap_or(0) + stats["rest"].as_u64().unwrap_or(0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn asks(fresh_within: std::time::Duration) -> Vec<LinkAsk> {
    (0..5)
        .flat_map(|repo| {
            (1..=200).map(move |n| LinkAsk {
                found: FoundAsk::WhenMoved,
                ..ask(&format!("o/r{repo}"), n, fresh_within)
            })
        })
        .collect()
}

#[tokio::test]
#[ignore = "needs node and the packages of tests/schema"]
async fn a_thousand_links_on_the_real_schema() {
    let server = Server::start();
    let client = server.client();
    let answers = client.look(&asks(FRESH)).await;
    assert!(
        answers.iter().all(|a| matches!(a, Answer::Known(_))),
        "{:?}",
        answers[0]
    );
    let cold = server.requests().await;
    assert!(cold <= 10, "{cold}");
    client.look(&asks(FRESH)).await;
    assert_eq!(server.requests().await, 0);
    for pass in 0..3 {
        client.look(&asks(NOW)).await;
        assert_eq!(server.requests().await, 1, "pass {pass}");
    }
    server
        .control(
            "set",
            json!({"repo": "o/r3", "number": 8, "state": "MERGED"}),
        )
        .await;
    let answers = client.look(&asks(NOW)).await;
    assert!(matches!(
        known(&answers[607]).item.state,
        ItemState::Merged { .. }
    ));
    assert_eq!(server.requests().await, 1);
}

#[tokio::test]
#[ignore = "needs node and the packages of tests/schema"]
async fn comments_and_pull_requests_on_the_real_schema() {
    let server = Server::start();
    let client = server.client();
    for n in 0..45 {
        server
            .control(
                "comment",
                json!({"repo": "o/r0", "number": 1, "body": format!("c{n}")}),
            )
            .await;
    }
    server
        .control(
            "set",
            json!({"repo": "o/r0", "number": 1, "closing": [["o/r0", 4]]}),
        )
        .await;
    let asked = LinkAsk {
        comments: Some(CommentAsk {
            since: Some("2026-01-01T00:00:00Z".parse().expect("a time")),
            seen: None,
            last: 20,
        }),
        found: FoundAsk::Now,
        ..ask("o/r0", 1, FRESH)
    };
    let answer = client.look(&[asked]).await.remove(0);
    let known = known(&answer);
    let Comments::Read(read) = &known.comments else {
        panic!("{answer:?}")
    };
    assert_eq!(read.list.len(), 45);
    assert_eq!(known.found[0].number, 4);
    assert_eq!(server.requests().await, 3);
}

#[tokio::test]
#[ignore = "needs node and the packages of tests/schema"]
async fn moved_deleted_and_hidden_on_the_real_schema() {
    let server = Server::start();
    let client = server.client();
    for (number, field) in [
        (1, json!({"movedTo": ["o/r1", 5]})),
        (2, json!({"gone": 410})),
        (3, json!({"gone": 404})),
    ] {
        let mut body = field;
        body["repo"] = "o/r0".into();
        body["number"] = number.into();
        server.control("set", body).await;
    }
    let asks: Vec<LinkAsk> = (1..=5).map(|n| ask("o/r0", n, FRESH)).collect();
    let answers = client.look(&asks).await;
    assert!(matches!(&answers[0], Answer::Moved { to, .. } if to.to_string() == "o/r1#5"));
    assert!(matches!(&answers[1], Answer::Gone(gone) if gone.how == cf_github::GoneHow::Deleted));
    assert!(matches!(&answers[2], Answer::Gone(gone) if gone.how == cf_github::GoneHow::Invisible));
    known(&answers[3]);
    known(&answers[4]);
}

#[tokio::test]
#[ignore = "needs node and the packages of tests/schema"]
async fn an_import_on_the_real_schema() {
    let server = Server::start();
    let client = server.client();
    let mut listing = client
        .list_issues(
            "github.com",
            "o/r0".parse().expect("a name"),
            IssueFilter::default(),
        )
        .expect("the host is known");
    let mut count = 0;
    while let Some(page) = listing.next().await.expect("the page is read") {
        count += page.issues.len();
    }
    assert_eq!(count, 150);
    // This copy of the schema has no relations between issues, which costs one request.
    assert_eq!(server.requests().await, 3);
}
