//! Whole batches against a server that executes GitHub's own GraphQL schema.
//!
//! Needs node and the packages of the client's `tests/schema`; `cargo xtask test-integration` installs them and runs
//! this.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use cf_testkit::Workspace;
use serde_json::{Value, json};

use crate::{sleeper, waiter};

/// The server, which ends with its standard input.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cf-github/tests/schema");
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

    /// Tells the server something, and returns what it says.
    fn control(&self, what: &str, body: &Value) -> Value {
        let address = self.url.trim_start_matches("http://");
        let body = body.to_string();
        let mut stream = TcpStream::connect(address).expect("the server listens");
        write!(
            stream,
            "POST /control/{what} HTTP/1.0\r\nhost: {address}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .expect("the server reads");
        let mut reply = String::new();
        stream
            .read_to_string(&mut reply)
            .expect("the server answers");
        let (_, body) = reply.split_once("\r\n\r\n").expect("a head and a body");
        serde_json::from_str(body).expect("JSON")
    }

    fn set(&self, repo: &str, number: u64, mut fields: Value) {
        fields["repo"] = repo.into();
        fields["number"] = number.into();
        self.control("set", &fields);
    }

    #[track_caller]
    fn workspace(&self) -> Workspace {
        let variables = [("GITHUB_API_URL", self.url.as_str()), ("GH_TOKEN", "t")];
        let ws = crate::empty_folder().with(variables).init();
        ws.write(
            ".cf/config.toml",
            "reconcile_interval = \"300ms\"\nkill_grace = \"1s\"\n[github]\nsettle = \"0s\"\n",
        );
        ws
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "needs node and the packages of tests/schema"]
fn a_batch_follows_issues_pull_requests_and_comments() {
    let server = Server::start();
    let ws = server.workspace();
    let waits = "cp $CF_CONTEXT_FILE context; [ -s context ] && exit 0";
    ws.add("closed", &sleeper("closed"));
    ws.add("done-pr", &sleeper("done-pr"));
    ws.add("lost-pr", &sleeper("lost-pr"));
    ws.add(
        "told",
        &format!("echo $$ > told.pid; while :; do {waits}; sleep 0.1; done"),
    );
    ws.cf(["tasks", "link", "closed", "o/r0#1"]).ok();
    ws.cf(["pr", "link", "done-pr", "o/r0#4"]).ok();
    ws.cf(["pr", "link", "lost-pr", "o/r1#8"]).ok();
    ws.cf(["tasks", "link", "told", "o/r1#3"]).ok();
    let batch = ws.start([
        "closed",
        "done-pr",
        "lost-pr",
        "told",
        "--max-parallel",
        "4",
    ]);
    for key in ["closed", "done-pr", "lost-pr", "told"] {
        ws.wait_for_pid(&format!("{key}.pid"));
    }
    server.set(
        "o/r0",
        1,
        json!({"state": "CLOSED", "stateReason": "NOT_PLANNED"}),
    );
    server.set("o/r0", 4, json!({"state": "MERGED"}));
    server.set("o/r1", 8, json!({"state": "CLOSED"}));
    std::thread::sleep(std::time::Duration::from_millis(1100));
    server.control(
        "comment",
        &json!({"repo": "o/r1", "number": 3, "body": "look at this"}),
    );
    batch.wait().code(3);
    ws.ended("closed", "SKIPPED", "issue closed as not planned");
    ws.ended("done-pr", "SKIPPED", "pull request merged");
    ws.ended("lost-pr", "FAILED", "pull request closed without merge");
    ws.ended("told", "COMPLETED", "");
    assert!(ws.read("context").contains("look at this"));
    let stats = server.control("stats", &json!({}));
    assert!(stats["mostInFlight"].as_u64() <= Some(1), "{stats}");
    assert!(stats["closestMs"].as_f64() >= Some(100.0), "{stats}");
}

#[test]
#[ignore = "needs node and the packages of tests/schema"]
fn a_thousand_links_and_faults_beside_them() {
    let server = Server::start();
    let ws = server.workspace();
    let mut plan = format!(
        "[[task]]\nkey = 'first'\ntitle = 'first'\nrun = '''{}'''\n",
        waiter("first")
    );
    for repo in 0..5 {
        for number in 1..=200 {
            let _ = write!(
                plan,
                "[[task]]\nkey = 't{repo}-{number}'\ntitle = 't'\nrun = 'true'\ndepends_on = ['first']\nissue = \
                 'o/r{repo}#{number}'\n"
            );
        }
    }
    ws.write("plan.toml", plan);
    ws.cf(["tasks", "import", "plan.toml"]).ok();
    server.control("stats", &json!({}));
    let batch = ws.start(["--all-ready", "--reconcile-interval", "4s"]);
    ws.wait_for_pid("first.pid");
    std::thread::sleep(std::time::Duration::from_millis(3500));
    let cold = server.control("stats", &json!({}));
    assert!(cold["graphql"].as_u64() <= Some(10), "{cold}");
    assert!(cold["graphql"].as_u64() >= Some(4), "{cold}");
    // The budget may stretch the interval a little.
    let mut later = 0;
    ws.wait_until("the next pass went by", || {
        std::thread::sleep(std::time::Duration::from_millis(500));
        later += server.control("stats", &json!({}))["graphql"]
            .as_u64()
            .unwrap_or(0);
        later > 0
    });
    assert_eq!(later, 1);
    server.control(
        "fault",
        &json!([{"path": "/graphql", "times": 2, "status": 502, "body": "<html>"}]),
    );
    server.set(
        "o/r2",
        7,
        json!({"state": "CLOSED", "stateReason": "COMPLETED"}),
    );
    ws.wait_for_event("BATCH_TASK_SKIPPED", "t2-7");
    ws.cf(["stop", "--force"]).ok();
    batch.wait().code(5);
}
