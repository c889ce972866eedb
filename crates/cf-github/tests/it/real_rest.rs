//! The REST look against a mock of GitHub's own OpenAPI description, which refuses requests that do not fit it.
//!
//! Needs node and the packages of `tests/rest`; `cargo xtask test-integration` installs them and runs this.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use cf_github::{Answer, GoneHow};
use cf_testkit::github::{Place, ScriptedGithub};

use crate::{NOW, ask, client, known, look_one, why};

/// The mock server.
struct Mock {
    child: Child,
    address: SocketAddr,
}

impl Mock {
    fn start() -> Self {
        let address = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("loopback has a free port");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rest");
        let mut child = Command::new("node")
            .args(["node_modules/@stoplight/prism-cli/dist/index.js", "mock"])
            .args(["--errors", "--host", "127.0.0.1", "--port"])
            .arg(address.port().to_string())
            .arg("openapi.json")
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("node is installed");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let mut lines = lines.map_while(Result::ok);
        assert!(
            lines.any(|line| line.contains("Prism is listening")),
            "`npm ci` and `node slice.mjs` were run in tests/rest"
        );
        // What it says further must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
#[ignore = "needs node and the packages of tests/rest"]
async fn real_rest_knows_every_look_and_its_examples_are_read() {
    let mock = Mock::start();
    for code in [200, 301, 404, 410] {
        let server = ScriptedGithub::start();
        server.issue("octocat/Hello-World", 1347);
        server.change("octocat/Hello-World", 1347, |item| {
            item.place = Place::RestOnly;
        });
        server.forward_rest(mock.address, code);
        let client = client(&server);
        let answer = look_one(&client, ask("octocat/Hello-World", 1347, NOW)).await;
        let heads = server.take_forwarded();
        assert!(!heads.is_empty(), "nothing was asked over REST");
        for head in &heads {
            assert!(
                head.starts_with(&format!("HTTP/1.1 {code}")),
                "{code}: the mock refuses the request: {head}"
            );
            assert!(!head.to_lowercase().contains("sl-violations"), "{head}");
        }
        match code {
            200 => assert_eq!(known(&answer).item.number, 1347),
            301 => assert!(why(&answer).contains("redirect"), "{answer:?}"),
            404 => assert!(
                matches!(&answer, Answer::Gone(gone) if gone.how == GoneHow::Invisible),
                "{answer:?}"
            ),
            // The description's example does not say what ended.
            _ => assert!(!matches!(answer, Answer::Known(_)), "{answer:?}"),
        }
    }
}
