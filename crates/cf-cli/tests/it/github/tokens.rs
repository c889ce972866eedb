//! Whose token goes where.

mod two_hosts;

use cf_testkit::Workspace;
use cf_testkit::github::ScriptedGithub;
use test_case::test_case;

/// A workspace with one linked task, whose `cf` has these variables.
#[track_caller]
fn with(variables: &[(&str, &str)], link: &str) -> Workspace {
    let ws = crate::empty_folder().with(variables.iter().copied()).init();
    ws.write(".cf/config.toml", "reconcile_interval = \"300ms\"\n");
    ws.add("a", "env > a.env");
    ws.cf(["tasks", "link", "a", link]).ok();
    ws
}

#[test]
fn without_a_token_everything_works_and_one_line_says_how_to_turn_it_on() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    let ws = with(&[("GITHUB_API_URL", &github.url())], "o/r#12");
    let output = ws.run(["a"]).ok();
    assert_eq!(
        output
            .text()
            .matches("there is no token for github.com; set GH_TOKEN or GITHUB_TOKEN")
            .count(),
        1,
        "{}",
        output.text()
    );
    output.says("GitHub: off");
    ws.ended("a", "COMPLETED", "");
    assert_eq!(github.received().len(), 0);
    ws.cf(["github", "status"])
        .ok()
        .says("off: there is no token");
    ws.cf(["github", "import", "o/r"])
        .refused()
        .says("GH_TOKEN");
}

#[test_case("GH_TOKEN")]
#[test_case("GITHUB_TOKEN")]
fn the_token_comes_from(variable: &str) {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    let ws = with(
        &[
            ("GITHUB_API_URL", &github.url()),
            (variable, "token-of-mine"),
        ],
        "o/r#12",
    );
    let output = ws.run(["a"]).ok().says(&format!("token from {variable}"));
    output.never_says("token-of-mine");
    let received = github.received();
    assert!(!received.is_empty());
    assert!(
        received
            .iter()
            .all(|request| request.headers["authorization"] == "Bearer token-of-mine")
    );
    assert!(
        !ws.read("a.env").contains("token-of-mine"),
        "an agent has no token"
    );
    let database = std::fs::read(ws.root().join(".cf/state.db")).expect("the database is there");
    let holds = database
        .windows(13)
        .any(|window| window == b"token-of-mine");
    assert!(!holds, "the store has no token");
    ws.cf(["github", "status"])
        .ok()
        .says(&format!("token: from {variable}"))
        .never_says("token-of-mine");
}

#[test_case("", "there is no token"; "an empty one is none")]
#[test_case("two\nlines", "the token in GH_TOKEN is refused"; "one with a newline is refused")]
fn a_token_that_is_none(token: &str, said: &str) {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    let ws = with(
        &[("GITHUB_API_URL", &github.url()), ("GH_TOKEN", token)],
        "o/r#12",
    );
    ws.run(["a"]).ok().says(said).says("GitHub: off");
    assert_eq!(github.received().len(), 0);
}

#[test]
fn an_enterprise_server_gets_its_own_token_and_no_other() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    github.close("o/r", 12, Some("COMPLETED"));
    let base = github.enterprise_url();
    let host = github.url().replace("http://", "");
    let link = format!("https://{host}/o/r/issues/12");
    let ws = with(
        &[
            ("GITHUB_API_URL", &base),
            ("GH_TOKEN", "token-of-the-cloud"),
            ("GH_ENTERPRISE_TOKEN", "token-of-the-server"),
        ],
        &link,
    );
    ws.run(["a"]).ok();
    ws.ended("a", "SKIPPED", "issue closed");
    let received = github.received();
    assert!(!received.is_empty());
    for request in received {
        assert!(request.path.starts_with("/api/"), "{}", request.path);
        assert_eq!(
            request.headers["authorization"],
            "Bearer token-of-the-server"
        );
    }
}

#[test]
fn a_link_to_a_host_that_nobody_named_is_unknown_and_said_once() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    let ws = with(
        &[
            ("GITHUB_API_URL", &github.url()),
            ("GH_TOKEN", "token-of-mine"),
            ("GH_ENTERPRISE_TOKEN", "token-of-the-server"),
        ],
        "https://evil.example/o/r/issues/12",
    );
    ws.cf(["tasks", "link", "a", "o/r#12"]).ok();
    let output = ws.run(["a"]).ok();
    assert_eq!(
        output
            .text()
            .matches("evil.example is not named by GH_HOST")
            .count(),
        1,
        "{}",
        output.text()
    );
    ws.ended("a", "COMPLETED", "");
}

#[test]
fn a_workspaces_file_never_decides_where_a_token_goes() {
    let github = ScriptedGithub::start();
    let ws = crate::empty_folder().with([("GH_TOKEN", "t")]).init();
    ws.write(
        ".cf/config.toml",
        format!("[github]\napi_url = \"{}\"\n", github.url()),
    );
    ws.cf(["github", "status"])
        .refused()
        .says("read from the user's own file only");
    std::fs::create_dir_all(ws.home().join(".config/cf")).unwrap();
    std::fs::write(
        ws.home().join(".config/cf/config.toml"),
        format!("[github]\napi_url = \"{}\"\n", github.url()),
    )
    .unwrap();
    ws.write(".cf/config.toml", "");
    github.issue("o/r", 12);
    ws.cf(["github", "import", "o/r"]).ok();
    assert_eq!(github.received().len(), 1);
}

#[test_case("CF_RECONCILE_GITHUB")]
#[test_case("RECONCILE_GITHUB")]
fn it_is_switched_off_by(variable: &str) {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    github.close("o/r", 12, Some("COMPLETED"));
    let ws = with(
        &[
            ("GITHUB_API_URL", &github.url()),
            ("GH_TOKEN", "t"),
            (variable, "false"),
        ],
        "o/r#12",
    );
    ws.run(["a"]).ok().says(&format!(
        "GitHub: off, reconcile_github is false (environment, {variable})"
    ));
    ws.ended("a", "COMPLETED", "");
    assert_eq!(github.received().len(), 0);
}

#[test]
fn the_links_own_repository_is_asked_whatever_the_remote_says() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    github.close("o/r", 12, Some("COMPLETED"));
    github.issue("other/r", 12);
    let ws = crate::empty_folder()
        .git()
        .with(github.environment())
        .init();
    ws.git_do(["remote", "add", "origin", "https://github.com/o/r"]);
    ws.add("a", "true");
    ws.run(["a", "--dry-run"])
        .ok()
        .says("GitHub: on, the repository is at github.com/o/r");
    ws.cf(["tasks", "link", "a", "o/r#12"]).ok();
    ws.git_do(["remote", "set-url", "origin", "https://github.com/other/r"]);
    ws.run(["a"]).ok();
    ws.ended("a", "SKIPPED", "issue closed");
}
