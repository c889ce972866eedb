use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use cf_core::{AttemptId, BatchId, TaskId};
use uuid::Uuid;

use crate::engine::{CfVariables, Engine, EngineConfig, inherited_environment, own_environment};

fn cf<'a>() -> CfVariables<'a> {
    CfVariables {
        task: TaskId(Uuid::from_u128(1)),
        key: None,
        batch: BatchId(Uuid::from_u128(2)),
        attempt: AttemptId(Uuid::from_u128(3)),
        generation: 2,
        workspace: Path::new("/w"),
        directory: Path::new("/w/tree"),
        prompt_file: Path::new("/w/.cf/p"),
        context_file: Path::new("/w/.cf/c"),
        bin: Path::new("/w/.cf/bin"),
        home: Path::new("/w/.cf/home"),
    }
}

fn environment(
    caller: &[(&str, &str)],
    engine: &Engine,
    task: &[(&str, &str)],
) -> BTreeMap<String, String> {
    let caller: Vec<_> = caller
        .iter()
        .map(|&(n, v)| (OsString::from(n), OsString::from(v)))
        .collect();
    let task = task
        .iter()
        .map(|&(n, v)| (n.to_owned(), v.to_owned()))
        .collect();
    let mut whole = inherited_environment(&caller, engine);
    let path = whole.get(OsStr::new("PATH")).map(OsString::as_os_str);
    let own = own_environment(path, engine, &engine.env, &task, &cf());
    whole.extend(own);
    whole
        .into_iter()
        .map(|(n, v)| (n.into_string().unwrap(), v.into_string().unwrap()))
        .collect()
}

fn shell(toml: &str) -> Engine {
    let config: EngineConfig = toml::from_str(toml).unwrap();
    config.engine(&"shell".parse().unwrap()).unwrap()
}

#[test]
fn an_agent_knows_its_attempt() {
    let lines: Vec<String> = environment(&[("LANG", "C")], &shell(""), &[])
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    assert_eq!(
        lines,
        [
            "CF_ATTEMPT=2",
            "CF_ATTEMPT_ID=00000000-0000-0000-0000-000000000003",
            "CF_BATCH_ID=00000000-0000-0000-0000-000000000002",
            "CF_CONTEXT_FILE=/w/.cf/c",
            "CF_PROMPT_FILE=/w/.cf/p",
            "CF_TASK_ID=00000000-0000-0000-0000-000000000001",
            "CF_TASK_KEY=",
            "CF_WORKSPACE=/w",
            "LANG=C",
            "PATH=/w/.cf/bin:/usr/local/bin:/usr/bin:/bin",
            "PWD=/w/tree",
        ]
    );
}

const CALLER: &[(&str, &str)] = &[
    ("GH_TOKEN", "secret"),
    ("GITHUB_TOKEN", ""),
    ("GH_ENTERPRISE_TOKEN", "e"),
    ("GITHUB_ENTERPRISE_TOKEN", "f"),
    ("SAME", "secret"),
    ("HIDDEN", "github_pat_11AA"),
    ("ALSO", " ghs_1"),
    ("CF_ATTEMPT_ID", "outer"),
    ("CF_MAX_PARALLEL", "9"),
    ("GIT_DIR", "/elsewhere/.git"),
    ("GIT_AUTHOR_NAME", "me"),
    ("OLDPWD", "/"),
    ("OPENAI_API_KEY", "k"),
    ("EMPTY", ""),
];

#[test]
fn tracker_tokens_and_what_belongs_to_the_caller_are_kept_back() {
    let seen = environment(CALLER, &shell(""), &[]);
    for name in [
        "GH_TOKEN",
        "GITHUB_TOKEN",
        "GH_ENTERPRISE_TOKEN",
        "GITHUB_ENTERPRISE_TOKEN",
        "SAME",
        "HIDDEN",
        "ALSO",
        "CF_MAX_PARALLEL",
        "GIT_DIR",
        "OLDPWD",
    ] {
        assert!(!seen.contains_key(name), "{name}");
    }
    assert!(!seen.values().any(|value| value == "outer"));
    for name in ["GIT_AUTHOR_NAME", "OPENAI_API_KEY", "EMPTY"] {
        assert!(seen.contains_key(name), "{name}");
    }
}

#[test]
fn the_config_passes_variables_on_by_name() {
    let engine = shell(r#"pass_env = ["GH_TOKEN", "CF_MAX_PARALLEL", "CF_ATTEMPT_ID"]"#);
    let seen = environment(CALLER, &engine, &[]);
    assert_eq!(seen["GH_TOKEN"], "secret");
    assert_eq!(seen["CF_MAX_PARALLEL"], "9");
    assert!(!seen.contains_key("SAME"));
    // The agent's own identity is never the caller's.
    assert!(seen["CF_ATTEMPT_ID"].ends_with('3'));
}

#[test]
fn a_task_overrides_its_engine_but_not_what_cf_says() {
    let engine = shell("env = { A = \"engine\", B = \"engine\", PATH = \"/engine\" }");
    let seen = environment(
        &[("A", "caller"), ("PATH", "/caller")],
        &engine,
        &[
            ("B", "task"),
            ("CF_ATTEMPT_ID", "forged"),
            ("GH_TOKEN", "given to this task"),
        ],
    );
    assert_eq!(seen["A"], "engine");
    assert_eq!(seen["B"], "task");
    assert_eq!(seen["PATH"], "/w/.cf/bin:/engine");
    assert!(seen["CF_ATTEMPT_ID"].ends_with('3'));
    assert_eq!(seen["GH_TOKEN"], "given to this task");
}

#[test]
fn a_home_of_its_own_leaves_the_users_folders() {
    let caller = [
        ("HOME", "/root"),
        ("XDG_DATA_HOME", "/d"),
        ("CODEX_HOME", "/c"),
    ];
    let user = environment(&caller, &shell(""), &[]);
    assert_eq!(user["HOME"], "/root");
    assert_eq!(user["CODEX_HOME"], "/c");
    let own = environment(&caller, &shell("home = \"attempt\""), &[]);
    assert_eq!(own["HOME"], "/w/.cf/home");
    assert!(!own.contains_key("XDG_DATA_HOME") && !own.contains_key("CODEX_HOME"));
}

#[test]
fn claude_code_below_claude_code_is_a_session_of_its_own() {
    let engine = Engine::preset("claude-code").unwrap();
    let seen = environment(&[("CLAUDECODE", "1")], &engine, &[]);
    assert!(!seen.contains_key("CLAUDECODE"));
    assert_eq!(seen["DISABLE_AUTOUPDATER"], "1");
}

#[cfg(unix)]
#[test]
fn bytes_that_are_no_text_pass_through() {
    use std::os::unix::ffi::OsStringExt as _;

    let odd = OsString::from_vec(vec![b'x', 0xff]);
    let seen = inherited_environment(&[(odd.clone(), odd.clone())], &shell(""));
    assert_eq!(seen.get(&odd), Some(&odd));
}
