//! The order of the layers, and what a wrong file is told.

use super::layer::known;
use super::*;
use test_case::test_case;

fn read(text: &str, owner: Owner) -> Result<Layer, String> {
    let document = Document::new("config.toml", text.to_owned());
    from_document(&document, owner).map_err(|error| error.to_string())
}

fn places(
    environment: &[(&str, &str)],
    workspace: &str,
    user: &str,
) -> (tempfile::TempDir, Places) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("w.toml"), workspace).unwrap();
    std::fs::write(dir.path().join("u.toml"), user).unwrap();
    let places = Places {
        workspace: Some(dir.path().join("w.toml")),
        user: Some(dir.path().join("u.toml")),
        environment: environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), OsString::from(value)))
            .collect(),
    };
    (dir, places)
}

fn retry(layer: &Layer) -> (u32, String) {
    let setting = layer.retry.as_ref().unwrap();
    let origin = setting.origin.to_string();
    let short = origin.rsplit('/').next().unwrap().to_owned();
    (setting.value.0, short)
}

#[test]
fn the_nearer_place_wins_and_says_so() {
    let flag = Layer {
        retry: Some(Setting {
            value: Retries(5),
            origin: Origin::Flag("--retry"),
        }),
        ..Layer::default()
    };
    let plan = Layer {
        retry: Some(Setting {
            value: Retries(4),
            origin: Origin::Plan(Place {
                file: "plan.toml".into(),
                line: 9,
            }),
        }),
        ..Layer::default()
    };
    let (_dir, all) = places(&[("CF_RETRY", "3")], "\nretry = 2", "retry = 1");
    let none = Layer::default;
    assert_eq!(
        retry(&all.resolve(flag, plan.clone()).unwrap()),
        (5, "--retry".to_owned())
    );
    assert_eq!(
        retry(&all.resolve(none(), plan).unwrap()),
        (4, "plan.toml:9".to_owned())
    );
    assert_eq!(
        retry(&all.resolve(none(), none()).unwrap()),
        (3, "environment, CF_RETRY".to_owned())
    );
    let (_dir, files) = places(&[("CF_RETRY", "")], "\nretry = 2", "retry = 1");
    assert_eq!(
        retry(&files.resolve(none(), none()).unwrap()),
        (2, "w.toml:2".to_owned())
    );
    let (_dir, user) = places(&[], "", "retry = 1");
    assert_eq!(
        retry(&user.resolve(none(), none()).unwrap()),
        (1, "u.toml:1".to_owned())
    );
    assert_eq!(
        retry(&Places::default().resolve(none(), none()).unwrap()),
        (0, "default".to_owned())
    );
}

#[test]
fn several_agents_mean_parallel() {
    let (_dir, places) = places(&[("CF_MAX_PARALLEL", "3")], "", "");
    let layer = places.resolve(Layer::default(), Layer::default()).unwrap();
    assert_eq!(known(layer.strategy.as_ref()), Strategy::Parallel);
    let flags = Layer {
        strategy: Some(Setting {
            value: Strategy::Serial,
            origin: Origin::Flag("--strategy"),
        }),
        ..Layer::default()
    };
    let layer = places.resolve(flags, Layer::default()).unwrap();
    assert_eq!(known(layer.strategy.as_ref()), Strategy::Serial);
}

#[test]
fn one_agent_at_a_time_is_the_default() {
    let layer = Places::default()
        .resolve(Layer::default(), Layer::default())
        .unwrap();
    assert_eq!(known(layer.strategy.as_ref()), Strategy::Serial);
    assert_eq!(known(layer.max_parallel.as_ref()), Slots(4));
}

#[test]
fn waiting_for_blockers_needs_passes() {
    let (_dir, places) = places(&[], "reconcile_interval = 0\nwait_for_blockers = true", "");
    let error = places
        .resolve(Layer::default(), Layer::default())
        .unwrap_err();
    assert!(
        error.to_string().contains("reconcile_interval is 0"),
        "{error}"
    );
}

#[test]
fn our_own_variable_wins_over_the_shared_one() {
    for (environment, expected) in [
        (&[("RECONCILE_GITHUB", "false")][..], false),
        (
            &[
                ("CF_RECONCILE_GITHUB", "true"),
                ("RECONCILE_GITHUB", "false"),
            ][..],
            true,
        ),
    ] {
        let (_dir, places) = places(environment, "", "");
        let layer = places.resolve(Layer::default(), Layer::default()).unwrap();
        assert_eq!(known(layer.reconcile_github.as_ref()), expected);
    }
}

#[test]
fn a_wrong_variable_is_named() {
    let (_dir, places) = places(&[("CF_MAX_PARALLEL", "0")], "", "");
    let error = places
        .resolve(Layer::default(), Layer::default())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the environment variable CF_MAX_PARALLEL: 0 is not allowed: expected a whole number from 1 to 10000"
    );
}

#[test_case("max_paralel = 3" => "config.toml:1: unknown key `max_paralel` in the configuration; did you mean `max_parallel`?"; "a typing error")]
#[test_case("\n\nretry = \"many\"" => "config.toml:3: `retry`: expected a whole number from 0 to 1000, found a string"; "a wrong type")]
#[test_case("kill_grace = -5" => "config.toml:1: `kill_grace`: \"-5\" is not a duration: it is negative; write for example `500ms`, `30s`, `2m`, `1h30m`, or plain seconds"; "a negative duration")]
#[test_case("strategy = \"both\"" => "config.toml:1: `strategy`: \"both\" is not a strategy; allowed: serial, parallel"; "a wrong word")]
#[test_case("[github]\nclosed = 1" => "config.toml:2: unknown key `closed` in [github]; did you mean `closed_unmerged`?"; "an unknown key in a table")]
#[test_case("github = 3" => "config.toml:1: `github` must be a table, not an integer"; "a table that is none")]
#[test_case("[github]\napi_url = \"https://ghe.example\"" => "config.toml:2: `github.api_url` decides where a token goes and is read from the user's own file only"; "where a token goes")]
#[test_case("[engines.\"A b\"]\nargs = []" => "config.toml:1: \"A b\" is not the name of an engine: lower-case letters, digits, `-` and `_`, at most 64"; "an engine name")]
#[test_case("[engines.fake]\ncommand = \"./agent.sh\"" => "config.toml:2: `engines.fake.command`: expected a list of strings: the program and its arguments, found a string"; "a command that is no list")]
#[test_case("[engines.fake]\ncommandd = [\"x\"]" => "config.toml:2: unknown key `commandd` in [engines.fake]; did you mean `command`?"; "an unknown key of an engine")]
#[test_case("[engines.fake]\ncommand = [\"x\"]\n[engines.fake.grants.all]\narg = []" => "config.toml:4: unknown key `arg` in [engines.fake.grants.all]; did you mean `args`?"; "an unknown key of a grant")]
#[test_case("[engines.fake]\ncommand = [\"x\"]\npermissions = \"al\"" => "config.toml:3: `engines.fake.permissions`: \"al\" is not allowed: expected one of all, edit, read"; "a wrong word of an engine")]
#[test_case("[engines.fake]\ncommand = [\"x\"]\ntimeout = \"0s\"" => "config.toml:3: `engines.fake.timeout`: a time limit of 0 ends every attempt at once; write \"none\" for no limit"; "a time limit of nothing")]
#[test_case("[engines.fake]\ncommand = [1]" => "config.toml:2: `engines.fake.command`: expected a list of strings: the program and its arguments"; "a command of a number")]
fn a_wrong_file_is_told(text: &str) -> String {
    read(text, Owner::Workspace).unwrap_err()
}

#[test]
fn every_complaint_is_made_at_once() {
    let text = read(
        "retry = true\nfoo = 1\n[github]\nwait = []\n",
        Owner::Workspace,
    )
    .unwrap_err();
    let lines: Vec<&str> = text.lines().map(|l| &l[..14]).collect();
    assert_eq!(
        lines,
        ["config.toml:1:", "config.toml:2:", "config.toml:4:"]
    );
}

#[test]
fn the_users_file_decides_where_a_token_goes() {
    let text = "[github]\napi_url = \"https://ghe.example/api/v3/\"\nhosts = [\"ghe.example\"]";
    let layer = read(text, Owner::User).unwrap();
    assert_eq!(
        layer.github_api_url.unwrap().value.0,
        "https://ghe.example/api/v3"
    );
    assert_eq!(layer.github_hosts.unwrap().value, ["ghe.example"]);
}

#[test]
fn an_engine_is_taken_whole_from_the_nearer_file() {
    let (_dir, places) = places(
        &[],
        "[engines.codex]\npermissions = \"read\"",
        "[engines.codex]\nmodel_flag = \"x\"\n[engines.mine]\ncommand = [\"a\"]",
    );
    let layer = places.resolve(Layer::default(), Layer::default()).unwrap();
    assert_eq!(layer.engines.len(), 2);
    assert!(layer.engines["codex"].value.contains_key("permissions"));
    assert!(!layer.engines["codex"].value.contains_key("model_flag"));
}

#[test]
fn the_example_shows_every_setting_at_its_default() {
    let text = include_str!("../../../../examples/config.toml");
    let example = read(text, Owner::User).unwrap();
    let defaults = Layer::defaults();
    for ((key, shown), (_, default)) in example.rows().into_iter().zip(defaults.rows()) {
        if let (Some((shown, _)), Some((default, _))) = (&shown, &default) {
            assert_eq!(shown, default, "{}", key.name);
        }
        let mentioned = text.contains(&format!("{} =", key.name.rsplit('.').next().unwrap()));
        assert!(mentioned, "{} is not in the example", key.name);
    }
}

#[test]
fn fuzz_settings() {
    let words = [
        "engine = 'x'\n",
        "[engines.x]\n",
        "command = ['x']\n",
        "permissions = 'edit'\n",
        "success = 'exit'\n",
        "env = { A = 'b' }\n",
        "max_parallel = 3\n",
        "retry_delay = '5s'\n",
        "reconcile_github = true\n",
        "github.closed_unmerged = 'block'\n",
        "[github]\n",
        "leftovers = 'report'\n",
        "keep = ['a']\n",
        "wait_for_blockers = '5m'\n",
        "on_failure = 'stop'\n",
    ];
    cf_testkit::fuzz(
        "settings",
        &[
            include_str!("../../../../examples/config.toml"),
            "retry = 1\n",
        ],
        &words,
        |bytes| {
            let Ok(text) = String::from_utf8(bytes.to_vec()) else {
                return "no text".to_owned();
            };
            let document = Document::new("config.toml", text);
            match from_document(&document, Owner::Workspace) {
                Ok(layer) => layer
                    .engines()
                    .map_or_else(|error| error.to_string(), |_| "ok".to_owned()),
                Err(error) => error.to_string(),
            }
        },
    );
}

#[test]
fn a_number_that_no_integer_holds_is_said_and_no_crash() {
    let said = read(
        "[engines.x]\ncommand = ['x']\ny = 92233720368547758071\n",
        Owner::Workspace,
    )
    .unwrap_err();
    assert!(said.contains("config.toml:3: "), "{said}");
}

#[test]
fn a_setting_that_there_is_none_of_is_an_error() {
    let mut layer = Layer::default();
    let said = layer.set_text("nonsense", "1", Origin::Default);
    assert_eq!(said, Err("there is no setting nonsense".to_owned()));
    let toml = DeTable::parse("nonsense = 1").unwrap();
    let value = toml.get_ref()["nonsense"].get_ref();
    let said = layer.set_toml("nonsense", value, Origin::Default);
    assert_eq!(said, Err("there is no setting nonsense".to_owned()));
}
