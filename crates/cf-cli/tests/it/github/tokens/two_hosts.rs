//! Two hosts in one batch: `github.com` and an Enterprise server behind TLS, which have the same repository name.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read as _, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use cf_testkit::github::{Received, ScriptedGithub};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::sleeper;

const CLOUD: &str = "token-of-the-cloud";
const SERVER: &str = "token-of-the-server";

#[test]
fn two_hosts_in_one_batch_get_their_own_token_each_and_never_the_others() {
    let cloud = ScriptedGithub::start();
    let server = ScriptedGithub::start();
    cloud.require_token(CLOUD);
    server.require_token(SERVER);
    cloud.issue("o/r", 12);
    server.issue("o/r", 12);
    let (host, authority) = behind_tls(&server);

    let ws = crate::empty_folder();
    let certificate = ws.root().join("authority.pem");
    std::fs::write(&certificate, authority).unwrap();
    let ws = ws
        .with([
            ("GITHUB_API_URL", cloud.url().as_str()),
            ("GH_TOKEN", CLOUD),
            ("GH_ENTERPRISE_TOKEN", SERVER),
            ("SSL_CERT_FILE", certificate.to_str().unwrap()),
        ])
        .init();
    // A server is named by the user's own file; the workspace's has no say in it.
    let own = ws.home().join(".config/cf");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(
        own.join("config.toml"),
        format!("[github]\nhosts = [\"{host}\"]\n"),
    )
    .unwrap();
    ws.write(
        ".cf/config.toml",
        "reconcile_interval = \"300ms\"\nkill_grace = \"1s\"\n[github]\nsettle = \"0s\"\n",
    );
    ws.add("a", &sleeper("a"));
    ws.add("b", &sleeper("b"));
    ws.cf(["tasks", "link", "a", "o/r#12"]).ok();
    let link = format!("https://{host}/o/r/issues/12");
    ws.cf(["tasks", "link", "b", &link]).ok();

    let batch = ws.start(["a", "b", "--max-parallel", "2"]);
    ws.wait_for_pid("a.pid");
    ws.wait_for_pid("b.pid");
    // The issues have everything in common but their host.
    server.close("o/r", 12, Some("NOT_PLANNED"));
    ws.wait_for_event("BATCH_TASK_SKIPPED", "b");
    assert_eq!(ws.row("a")["phase"], "running");
    cloud.close("o/r", 12, Some("COMPLETED"));
    let output = batch.wait().ok();
    ws.ended("a", "SKIPPED", "issue closed");
    ws.ended("b", "SKIPPED", "issue closed as not planned");
    assert_eq!(ws.status("a"), "DONE");
    assert_eq!(ws.status("b"), "BACKLOG");

    only(&cloud.received(), CLOUD, SERVER);
    only(&server.received(), SERVER, CLOUD);
    assert_eq!(ws.events_named("SOURCE_UNAVAILABLE").len(), 0);
    output.never_says(CLOUD).never_says(SERVER);
    ws.cf(["github", "status"])
        .ok()
        .says("token: from GH_TOKEN")
        .says("token: from GH_ENTERPRISE_TOKEN")
        .never_says(CLOUD)
        .never_says(SERVER);
}

/// Every request carries `own`, and `other` is nowhere in any of them.
#[track_caller]
fn only(received: &[Received], own: &str, other: &str) {
    assert!(!received.is_empty());
    for request in received {
        assert_eq!(request.headers["authorization"], format!("Bearer {own}"));
        let mut whole = format!("{} {}\n", request.path, request.body);
        for (name, value) in &request.headers {
            let _ = writeln!(whole, "{name}: {value}");
        }
        assert!(!whole.contains(other), "{whole}");
    }
}

/// Puts TLS before a scripted GitHub. Returns its host, and the certificate of an authority made for it.
fn behind_tls(github: &ScriptedGithub) -> (String, String) {
    const MADE: &str = "a certificate of our own making is sound";
    let mut params = rcgen::CertificateParams::new(Vec::new()).expect(MADE);
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority =
        rcgen::CertifiedIssuer::self_signed(params, rcgen::KeyPair::generate().expect(MADE))
            .expect(MADE);
    let key = rcgen::KeyPair::generate().expect(MADE);
    let certificate = rcgen::CertificateParams::new(vec!["localhost".to_owned()])
        .expect(MADE)
        .signed_by(&key, &authority)
        .expect(MADE);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect(MADE)
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from(certificate.der().to_vec())],
            PrivateKeyDer::try_from(key.serialize_der()).expect(MADE),
        )
        .expect(MADE);
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener
        .local_addr()
        .expect("a bound socket has an address");
    let host = format!("localhost:{}", address.port());
    let to = github.url().replace("http://", "");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (config, to) = (Arc::clone(&config), to.clone());
            // A connection that breaks is the client's to notice.
            std::thread::spawn(move || pass_on(stream, config, &to));
        }
    });
    (host, authority.pem())
}

/// Passes requests on and replies back until the connection ends.
fn pass_on(stream: TcpStream, config: Arc<rustls::ServerConfig>, to: &str) -> io::Result<()> {
    let connection = rustls::ServerConnection::new(config).map_err(io::Error::other)?;
    let mut client = BufReader::new(rustls::StreamOwned::new(connection, stream));
    let mut github = BufReader::new(TcpStream::connect(to)?);
    loop {
        let request = message(&mut client)?;
        github.get_mut().write_all(&request)?;
        let reply = message(&mut github)?;
        client.get_mut().write_all(&reply)?;
        client.get_mut().flush()?;
    }
}

/// Reads one message with its body.
fn message(stream: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut length = 0;
    loop {
        let begin = bytes.len();
        if stream.read_until(b'\n', &mut bytes)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = String::from_utf8_lossy(&bytes[begin..]).to_ascii_lowercase();
        if let Some(text) = line.strip_prefix("content-length:") {
            length = text.trim().parse().map_err(io::Error::other)?;
        }
        if line.trim().is_empty() {
            break;
        }
    }
    stream.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[test]
fn with_another_default_host_what_is_shown_is_read_as_the_same_link() {
    let ws = crate::empty_folder().with([("GH_HOST", "ghe.corp")]).init();
    ws.add("a", "true");
    ws.add("b", "true");
    ws.cf(["tasks", "link", "a", "github.com/octocat/hello#12"])
        .ok();
    ws.cf(["tasks", "link", "b", "octocat/hello#12"]).ok();
    for (task, host) in [("a", "github.com"), ("b", "ghe.corp")] {
        assert_eq!(ws.show(task)["links"][0]["host"], host);
        let shown = format!("{host}/octocat/hello#12");
        ws.cf(["explain", task]).ok().says(&shown);
        ws.cf(["tasks", "unlink", task, &shown]).ok();
        assert_eq!(ws.show(task)["links"], serde_json::json!([]));
    }
    let ws = crate::empty_folder().init();
    ws.add("a", "true");
    let own = ws.home().join(".config/cf");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(
        own.join("config.toml"),
        "[github]\napi_url = \"https://ghe.corp/api/v3\"\n",
    )
    .unwrap();
    ws.cf(["tasks", "link", "a", "octocat/hello#12"]).ok();
    assert_eq!(ws.show("a")["links"][0]["host"], "ghe.corp");
    ws.cf(["explain", "a"])
        .ok()
        .says("ghe.corp/octocat/hello#12");
    let status = ws.cf(["github", "status", "--json"]).ok().json();
    assert_eq!(status["default_host"], "ghe.corp");
    // The environment goes before it, and a file that is wrong names no host.
    let ws = ws.with([("GH_HOST", "github.com")]);
    ws.cf(["tasks", "link", "a", "octocat/hello#13"]).ok();
    assert_eq!(ws.show("a")["links"][1]["host"], "github.com");
    let ws = ws.with([("GH_HOST", "")]);
    std::fs::write(own.join("config.toml"), "[github\n").unwrap();
    ws.cf(["tasks", "link", "a", "octocat/hello#14"]).ok();
    assert_eq!(ws.show("a")["links"][2]["host"], "github.com");
    let ws = crate::empty_folder().with([("GH_HOST", "ghe corp")]).init();
    ws.add("a", "true");
    ws.cf(["tasks", "link", "a", "octocat/hello#13"])
        .code(2)
        .says("GH_HOST, and \"ghe corp\" is no host");
}
