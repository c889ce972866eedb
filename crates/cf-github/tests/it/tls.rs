//! Private certificate authorities and proxies come from the environment, as users expect. The environment belongs to a
//! process, so each case runs in one of its own: this test program again.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use cf_github::{Answer, Environment, GitHub, HostAccess, NamedHosts};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::{FRESH, ask, quick};

/// One look at `o/r#1` on the host in `CF_TEST_HOST`, with the rest of the environment as it is.
#[tokio::test]
#[ignore = "run by the other tests of this file, with an environment of its own"]
async fn child() {
    let host = std::env::var("CF_TEST_HOST").unwrap();
    let environment: Environment = std::env::vars().collect();
    let client = GitHub::new(quick(), move |host| {
        HostAccess::resolve(host, &environment, &NamedHosts::new(), |_| None)
    });
    let mut ask = ask("o/r", 1, FRESH);
    ask.link.host = host;
    match client.look(&[ask]).await.remove(0) {
        Answer::Known(known) => println!("known: {}", known.item.title),
        Answer::Unknown { why, .. } => println!("unknown: {why}"),
        other => println!("{other:?}"),
    }
}

/// What the child printed.
fn look(host: &str, variables: &[(&str, &str)]) -> String {
    let output = Command::new(std::env::current_exe().expect("what this test brings along works"))
        .args(["--exact", "tls::child", "--ignored", "--nocapture"])
        .env_clear()
        .env("CF_TEST_HOST", host)
        .env("GITHUB_API_URL", format!("https://{host}/api/v3"))
        .env("GH_ENTERPRISE_TOKEN", "the-secret-token")
        .envs(variables.iter().copied())
        .output()
        .expect("what this test brings along works");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    text
}

/// A GitHub with one issue behind TLS. Returns its host and its authority's certificate.
fn tls_server() -> (String, String) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut authority =
        rcgen::CertificateParams::new(Vec::new()).expect("what this test brings along works");
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_key = rcgen::KeyPair::generate().expect("what this test brings along works");
    let authority = rcgen::CertifiedIssuer::self_signed(authority, authority_key)
        .expect("what this test brings along works");
    let key = rcgen::KeyPair::generate().expect("what this test brings along works");
    let certificate = rcgen::CertificateParams::new(vec!["localhost".to_owned()])
        .expect("what this test brings along works")
        .signed_by(&key, &authority)
        .expect("what this test brings along works");
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from(certificate.der().to_vec())],
            PrivateKeyDer::try_from(key.serialize_der())
                .expect("what this test brings along works"),
        )
        .expect("what this test brings along works");
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("what this test brings along works");
    let host = format!(
        "localhost:{}",
        listener
            .local_addr()
            .expect("what this test brings along works")
            .port()
    );
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = rustls::ServerConnection::new(Arc::clone(&config))
                .expect("what this test brings along works");
            let mut stream = BufReader::new(rustls::StreamOwned::new(
                connection,
                stream.expect("what this test brings along works"),
            ));
            let mut length = 0;
            let mut line = String::new();
            while stream.read_line(&mut line).is_ok_and(|read| read > 2) {
                if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = text
                        .trim()
                        .parse()
                        .expect("what this test brings along works");
                }
                line.clear();
            }
            let mut body = vec![0; length];
            if stream.read_exact(&mut body).is_err() {
                // The handshake failed.
                continue;
            }
            let body = r#"{"data":{"r0":{"i1":{"__typename":"Issue","id":"I","number":1,"title":"behind TLS","state":"OPEN","updatedAt":"2026-01-01T00:00:00Z"}}}}"#;
            let reply = format!(
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            let stream = stream.get_mut();
            let _ = stream.write_all(reply.as_bytes());
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    });
    (host, authority.pem())
}

#[test]
fn a_private_authority_is_trusted_when_it_is_named_and_not_otherwise() {
    let (host, authority) = tls_server();
    let file = std::env::temp_dir().join(format!("cf-github-ca-{}.pem", std::process::id()));
    std::fs::write(&file, authority).unwrap();
    let with = look(&host, &[("SSL_CERT_FILE", file.to_str().unwrap())]);
    assert!(with.contains("known: behind TLS"), "{with}");
    let without = look(&host, &[]);
    assert!(without.contains("unknown: "), "{without}");
    assert!(without.contains("certificate"), "{without}");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_proxy_is_used_and_sees_no_token() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = format!(
        "http://me:proxy-password@{}",
        listener.local_addr().unwrap()
    );
    let seen = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let mut bytes = vec![0; 4096];
        let length = stream.read(&mut bytes).unwrap();
        let _ = stream.write_all(b"HTTP/1.1 502 no\r\n\r\n");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    });
    let text = look("ghe.invalid", &[("HTTPS_PROXY", proxy.as_str())]);
    let seen = seen.join().unwrap();
    assert!(seen.starts_with("CONNECT ghe.invalid:443"), "{seen}");
    assert!(!seen.contains("the-secret-token"));
    assert!(text.contains("unknown: "), "{text}");
    assert!(!text.contains("proxy-password"), "{text}");
}

#[test]
fn no_proxy_goes_around_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let proxy = format!("http://{}", listener.local_addr().unwrap());
    let (host, authority) = tls_server();
    let file = std::env::temp_dir().join(format!("cf-github-ca2-{}.pem", std::process::id()));
    std::fs::write(&file, authority).unwrap();
    let text = look(
        &host,
        &[
            ("HTTPS_PROXY", proxy.as_str()),
            ("NO_PROXY", "localhost"),
            ("SSL_CERT_FILE", file.to_str().unwrap()),
        ],
    );
    assert!(text.contains("known: behind TLS"), "{text}");
    assert!(listener.accept().is_err(), "nobody came to the proxy");
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_proxy_that_cannot_be_used_is_not_gone_around() {
    for variable in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"] {
        let (host, authority) = tls_server();
        let name = format!("cf-github-ca3-{}-{variable}.pem", std::process::id());
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, authority).unwrap();
        let authority = ("SSL_CERT_FILE", file.to_str().unwrap());
        let text = look(&host, &[(variable, "::garbage::"), authority]);
        assert!(
            text.contains(&format!("in {variable} cannot be used")),
            "{text}"
        );
        let text = look(&host, &[(variable, ""), authority]);
        assert!(text.contains("known: behind TLS"), "{text}");
        std::fs::remove_file(file).unwrap();
    }
}
