use super::*;
use test_case::test_case;

fn base(host: &str, variables: &[(&str, &str)], named: &[(&str, Option<&str>)]) -> String {
    let environment = variables.iter().copied().collect();
    let named = named
        .iter()
        .map(|(host, api)| ((*host).to_owned(), api.map(str::to_owned)))
        .collect();
    match ApiBase::of(host, &environment, &named) {
        Ok(base) => format!("{} {}", base.at("/x"), base.graphql),
        Err(error) => error.to_string(),
    }
}

#[test_case("github.com", &[] => "https://api.github.com/x https://api.github.com/graphql"; "github itself")]
#[test_case("sub.ghe.com", &[] => "https://api.sub.ghe.com/x https://api.sub.ghe.com/graphql"; "data residency")]
#[test_case("ghe.corp", &[("GH_HOST", "GHE.corp")] => "https://ghe.corp/api/v3/x https://ghe.corp/api/graphql"; "Enterprise by GH_HOST")]
#[test_case("ghe.corp", &[("GH_HOST", "https://GHE.corp/")] => "https://ghe.corp/api/v3/x https://ghe.corp/api/graphql"; "Enterprise by its address in GH_HOST")]
#[test_case("ghe.corp", &[("GITHUB_API_URL", "https://ghe.corp/api/v3")] => "https://ghe.corp/api/v3/x https://ghe.corp/api/graphql"; "Enterprise by GITHUB_API_URL")]
#[test_case("ghe.corp:8443", &[("GITHUB_API_URL", "https://ghe.corp:8443/api/v3/")] => "https://ghe.corp:8443/api/v3/x https://ghe.corp:8443/api/graphql"; "Enterprise on a port")]
#[test_case("ghe.corp", &[("GITHUB_API_URL", "https://ghe.corp/api/v3"), ("GITHUB_GRAPHQL_URL", "https://ghe.corp/other/graphql")] => "https://ghe.corp/api/v3/x https://ghe.corp/other/graphql"; "GraphQL elsewhere on it")]
#[test_case("github.com", &[("GITHUB_API_URL", "http://127.0.0.1:4060")] => "http://127.0.0.1:4060/x http://127.0.0.1:4060/graphql"; "a stand in on this machine")]
#[test_case("127.0.0.1:4060", &[("GITHUB_API_URL", "http://127.0.0.1:4060/api/v3")] => "http://127.0.0.1:4060/api/v3/x http://127.0.0.1:4060/api/graphql"; "an Enterprise stand in")]
#[test_case("github.com", &[("GITHUB_API_URL", "https://ghe.corp/api/v3")] => "https://api.github.com/x https://api.github.com/graphql"; "another server's address changes nothing")]
fn the_api_of_a_host(host: &str, variables: &[(&str, &str)]) -> String {
    base(host, variables, &[])
}

#[test_case("evil.example", &[] ; "unknown")]
#[test_case("github.com.evil.example", &[] ; "suffix")]
#[test_case("notghe.com", &[] ; "almost")]
#[test_case("evil.example", &[("GH_HOST", "ghe.corp")] ; "another one is named")]
fn a_server_that_nobody_named_is_not_asked(host: &str, variables: &[(&str, &str)]) {
    let answer = base(host, variables, &[]);
    assert!(answer.contains("is not named by"), "{answer}");
}

#[test]
fn the_users_configuration_names_servers() {
    assert_eq!(
        base("ghe.corp", &[], &[("ghe.corp", None)]),
        "https://ghe.corp/api/v3/x https://ghe.corp/api/graphql"
    );
    assert_eq!(
        base(
            "ghe.corp",
            &[],
            &[("ghe.corp", Some("https://api.ghe.corp/v3"))]
        ),
        "https://api.ghe.corp/v3/x https://api.ghe.corp/v3/graphql"
    );
}

#[test_case("github.com", "garbage" ; "no address")]
#[test_case("github.com", "127.0.0.1:4060" ; "no scheme")]
#[test_case("github.com", "localhost:4060" ; "a scheme by accident")]
#[test_case("sub.ghe.com", "garbage" ; "data residency")]
#[test_case("ghe.corp", "garbage" ; "Enterprise")]
fn where_the_address_in_the_environment_names_no_server_nobody_is_asked(host: &str, address: &str) {
    let answer = base(
        host,
        &[("GITHUB_API_URL", address), ("GH_HOST", "ghe.corp")],
        &[],
    );
    assert!(answer.contains("is refused"), "{answer}");
    assert!(answer.contains(address), "{answer}");
}

#[test_case("http://ghe.corp/api/v3" ; "plain http to another machine")]
#[test_case("http://127.0.0.1.evil.example/" ; "a name that looks like this machine")]
#[test_case("ftp://ghe.corp" ; "another scheme")]
#[test_case("https://me:pw@ghe.corp/api/v3" ; "credentials")]
#[test_case("nonsense" ; "no address")]
fn an_address_is_refused(address: &str) {
    let error = ApiBase::from_rest(address).unwrap_err().to_string();
    assert!(!error.contains("pw"), "{error}");
}

#[test]
fn graphql_on_another_host_is_refused() {
    let answer = base(
        "ghe.corp",
        &[
            ("GITHUB_API_URL", "https://ghe.corp/api/v3"),
            ("GITHUB_GRAPHQL_URL", "https://evil.example/graphql"),
        ],
        &[],
    );
    assert!(answer.contains("another host"), "{answer}");
}

#[test]
fn each_host_gets_its_own_token() {
    let environment: Environment = [
        ("GH_TOKEN", "cloud"),
        ("GH_ENTERPRISE_TOKEN", "enterprise"),
        ("GH_HOST", "ghe.corp"),
    ]
    .into_iter()
    .collect();
    let fingerprint = |host| {
        HostAccess::resolve(host, &environment, &NamedHosts::new(), |_| None)
            .map(|access| access.token.fingerprint())
    };
    assert_eq!(
        fingerprint("GitHub.com"),
        Ok(Token::new("cloud").unwrap().fingerprint())
    );
    assert_eq!(
        fingerprint("ghe.corp"),
        Ok(Token::new("enterprise").unwrap().fingerprint())
    );
    assert!(matches!(
        fingerprint("evil.example"),
        Err(HostError::NotNamed { .. })
    ));
}

#[test]
fn without_a_token_the_command_is_asked_and_then_said_what_to_set() {
    let environment = Environment::default();
    let access = HostAccess::resolve("github.com", &environment, &NamedHosts::new(), |host| {
        Token::new(format!("for-{host}")).ok()
    })
    .unwrap();
    assert_eq!(access.source, TokenSource::GhCommand);
    let error =
        HostAccess::resolve("github.com", &environment, &NamedHosts::new(), |_| None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no token for github.com; set GH_TOKEN or GITHUB_TOKEN, or sign in with `gh` and write `token = \"gh\"` below `[github]` in the configuration"
    );
}

#[test]
fn the_environment_prints_names_only() {
    let environment: Environment = [("GH_TOKEN", "secret"), ("HOME", "/root")]
        .into_iter()
        .collect();
    assert_eq!(format!("{environment:?}"), r#"{"GH_TOKEN"}"#);
}

#[test_case("GHE.corp" => "ghe.corp"; "a name")]
#[test_case(" https://ghe.corp/ " => "ghe.corp"; "an address")]
#[test_case("www.github.com" => "github.com"; "the other name of the same host")]
#[test_case("https://" => "github.com"; "nothing of it is left")]
#[test_case("" => "github.com"; "empty")]
fn short_links_live_on(gh_host: &str) -> String {
    let environment: Environment = [("GH_HOST", gh_host)].into_iter().collect();
    environment.default_host()
}
