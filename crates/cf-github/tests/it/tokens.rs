//! A token goes to its own host and shows up nowhere else.

use cf_github::{Environment, GitHub, HostAccess, NamedHosts, NoticeKind};
use cf_testkit::github::{Fault, ScriptedGithub};

use crate::{FRESH, ask, known, look_one, quick, why};

fn client(variables: Vec<(&str, String)>) -> GitHub {
    let environment: Environment = variables.into_iter().collect();
    GitHub::new(quick(), move |host| {
        HostAccess::resolve(host, &environment, &NamedHosts::new(), |_| None)
    })
}

fn enterprise_ask(server: &ScriptedGithub) -> cf_github::LinkAsk {
    let host = server.url().trim_start_matches("http://").to_owned();
    let mut ask = ask("o/r", 1, FRESH);
    ask.link.host = host;
    ask
}

#[tokio::test]
async fn each_variable_is_sent_to_its_host() {
    for (variable, value) in [("GH_TOKEN", "one"), ("GITHUB_TOKEN", "two")] {
        let server = ScriptedGithub::start();
        server.issue("o/r", 1);
        server.require_token(value);
        let client = client(vec![
            ("GITHUB_API_URL", server.url()),
            ("GH_ENTERPRISE_TOKEN", "wrong".to_owned()),
            (variable, value.to_owned()),
        ]);
        known(&look_one(&client, ask("o/r", 1, FRESH)).await);
    }
}

#[tokio::test]
async fn an_enterprise_server_gets_its_own_token_below_its_own_path() {
    for variable in ["GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"] {
        let server = ScriptedGithub::start();
        server.issue("o/r", 1);
        server.require_token("enterprise");
        let client = client(vec![
            ("GITHUB_API_URL", server.enterprise_url()),
            ("GH_TOKEN", "cloud".to_owned()),
            (variable, "enterprise".to_owned()),
        ]);
        known(&look_one(&client, enterprise_ask(&server)).await);
        assert_eq!(server.received()[0].path, "/api/graphql");
    }
}

#[tokio::test]
async fn a_host_that_nobody_named_is_never_asked() {
    let server = ScriptedGithub::start();
    server.issue("o/r", 1);
    let client = client(vec![("GH_TOKEN", "cloud".to_owned())]);
    for _ in 0..3 {
        let answer = look_one(&client, enterprise_ask(&server)).await;
        assert!(why(&answer).contains("is not named by"));
    }
    assert_eq!(server.received().len(), 0);
    let notices = client.take_notices();
    assert_eq!(notices.len(), 1, "said once");
    assert!(matches!(notices[0].what, NoticeKind::Off { .. }));
}

#[tokio::test]
async fn without_a_token_nothing_is_sent_and_it_is_said_what_to_set() {
    let server = ScriptedGithub::start();
    let client = client(vec![
        ("GITHUB_API_URL", server.url()),
        ("GH_TOKEN", String::new()),
    ]);
    let answer = look_one(&client, ask("o/r", 1, FRESH)).await;
    assert_eq!(
        why(&answer),
        "there is no token for github.com; set GH_TOKEN or GITHUB_TOKEN, or sign in with `gh` and write `token = \"gh\"` below `[github]` in the configuration"
    );
    assert_eq!(server.received().len(), 0);
}

#[tokio::test]
async fn no_reply_can_make_the_token_show() {
    let token = "ghs_123_eyJh.bGci-Oi_J9";
    let server = ScriptedGithub::start();
    server.issue("o/r", 1);
    for body in [
        format!(r#"{{"data":null,"errors":[{{"message":"odd {token} request"}}]}}"#),
        format!(r#"{{"message":"Bearer {token}"}}"#),
        token.to_owned(),
    ] {
        server.fault("/graphql", Fault::body(&body), 2);
        let client = client(vec![
            ("GITHUB_API_URL", server.url()),
            ("GH_TOKEN", token.to_owned()),
        ]);
        let answer = look_one(&client, ask("o/r", 1, FRESH)).await;
        let everything = format!(
            "{answer:?} {:?} {:?} {:?} {}",
            client.take_notices(),
            client.status(),
            client,
            serde_json::to_string(&client.take_changed()).unwrap()
        );
        for part in [token, "eyJh", "bGci"] {
            assert!(!everything.contains(part), "{everything}");
        }
    }
}
