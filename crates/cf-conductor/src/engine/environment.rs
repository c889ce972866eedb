//! The environment of an agent: the caller's, cleaned, and what `cf` adds. What is taken out of it goes to no other
//! program either that `cf` starts.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

use cf_core::{AttemptId, BatchId, TaskId, TaskKey};

use super::{Engine, Home};
use crate::hooks::SECRET_VARIABLE;

/// Variables that hold a tracker's token, by the programs that read them.
const TOKEN_NAMES: [&str; 11] = [
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GH_ENTERPRISE_TOKEN",
    "GITHUB_ENTERPRISE_TOKEN",
    "GITHUB_API_TOKEN",
    "GITHUB_PAT",
    "GITHUB_OAUTH_TOKEN",
    "COPILOT_GITHUB_TOKEN",
    "HOMEBREW_GITHUB_API_TOKEN",
    "ACTIONS_RUNTIME_TOKEN",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
];

/// How GitHub's tokens begin, under whatever name they are kept.
const TOKEN_PREFIXES: [&str; 6] = ["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"];

/// What git tells its hooks about the repository that they run for. An agent works where it is put, so it must not
/// inherit another repository when `cf` was started by a hook.
const GIT_PLACE: [&str; 8] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
];

/// Variables that put a program's settings elsewhere than below `HOME`.
const HOMES: [&str; 8] = [
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "OPENCODE_CONFIG_DIR",
    "GEMINI_CLI_HOME",
];

/// What a shell looks in when there is no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What `cf` tells an agent about its attempt.
#[derive(Clone, Copy, Debug)]
pub struct CfVariables<'a> {
    /// The task.
    pub task: TaskId,
    /// Its key, if it has one.
    pub key: Option<&'a TaskKey>,
    /// The batch.
    pub batch: BatchId,
    /// The attempt.
    pub attempt: AttemptId,
    /// Which attempt of the task it is: 1, 2, …
    pub generation: u32,
    /// The workspace's root.
    pub workspace: &'a Path,
    /// The folder in which the agent starts.
    pub directory: &'a Path,
    /// The file that holds the prompt.
    pub prompt_file: &'a Path,
    /// The file to which news about the task is appended while the agent runs.
    pub context_file: &'a Path,
    /// The folder with the link to `cf`.
    pub bin: &'a Path,
    /// The home folder of an engine with [`Home::Attempt`].
    pub home: &'a Path,
}

/// Whether a variable holds a tracker's token: by its name, or by how its value begins.
fn is_tracker_token(name: &OsStr, value: &OsStr) -> bool {
    let by_name = name.to_str().is_some_and(|name| {
        TOKEN_NAMES
            .iter()
            .any(|token| name.eq_ignore_ascii_case(token))
    });
    let value = value.as_encoded_bytes().trim_ascii_start();
    by_name
        || TOKEN_PREFIXES
            .iter()
            .any(|prefix| value.starts_with(prefix.as_bytes()))
}

/// The names of the variables that hold a secret of `cf`'s, or tell `cf` something: tracker tokens, every `CF_*` (the
/// webhook's secret is one), and whatever else has the value of such a token or of that secret.
pub fn withheld<'v>(
    variables: impl IntoIterator<Item = (&'v OsStr, &'v OsStr)>,
) -> BTreeSet<&'v OsStr> {
    let variables: Vec<_> = variables.into_iter().collect();
    let secrets: BTreeSet<&OsStr> = variables
        .iter()
        .filter(|(name, value)| {
            !value.is_empty() && (is_tracker_token(name, value) || *name == SECRET_VARIABLE)
        })
        .map(|(_, value)| *value)
        .collect();
    variables
        .into_iter()
        .filter(|(name, value)| {
            is_tracker_token(name, value)
                || name.as_encoded_bytes().starts_with(b"CF_")
                || secrets.contains(value)
        })
        .map(|(name, _)| name)
        .collect()
}

/// Whether this process was started with a secret of `cf`'s: a tracker's token, or the webhook's.
pub fn has_secret() -> bool {
    std::env::vars_os().any(|(name, value)| {
        !value.is_empty() && (is_tracker_token(&name, &value) || name == SECRET_VARIABLE)
    })
}

/// Takes what is withheld out of what a command inherits. Every program that `cf` starts for itself goes through this:
/// git runs whatever filter an agent wrote into `.git/config`.
pub fn withhold(command: &mut Command) {
    let variables: Vec<_> = std::env::vars_os().collect();
    for name in withheld(variables.iter().map(|(name, value)| (&**name, &**value))) {
        command.env_remove(name);
    }
}

/// What the agents of an engine inherit of the caller's environment.
///
/// The caller's variables without tracker tokens (and without any other variable of the same value), without `CF_*`,
/// without git's and the engine's unwanted ones. `pass_env` of the engine keeps a variable whatever it is. It is the
/// same for every attempt, so it need be asked for only once.
pub fn inherited_environment(
    caller: &[(OsString, OsString)],
    engine: &Engine,
) -> BTreeMap<OsString, OsString> {
    let secret = withheld(caller.iter().map(|(name, value)| (&**name, &**value)));
    let passed = |name: &OsStr| engine.pass_env.iter().any(|passed| name == passed.as_str());
    let unwanted = |name: &OsStr| {
        let known = name.to_str().unwrap_or_default();
        secret.contains(name)
            || GIT_PLACE.contains(&known)
            || engine.env_remove.iter().any(|removed| removed == known)
            || (engine.home == Home::Attempt && HOMES.contains(&known))
    };
    caller
        .iter()
        .filter(|(name, _)| passed(name) || !unwanted(name))
        // The shell's idea of where it was is not where the agent starts, and some programs believe it.
        .filter(|(name, _)| name != "OLDPWD")
        .cloned()
        .collect()
}

/// What an agent has in its environment beside what it inherits, and before it.
///
/// The engine's `env` (as [`super::Invocation::env`] has it), then the task's, which overrides it; then what `cf`
/// itself says, which nothing overrides.
pub fn own_environment(
    inherited_path: Option<&OsStr>,
    engine: &Engine,
    engine_env: &BTreeMap<String, String>,
    task_env: &BTreeMap<String, String>,
    cf: &CfVariables<'_>,
) -> BTreeMap<OsString, OsString> {
    let mut variables = BTreeMap::new();
    if engine.home == Home::Attempt {
        variables.insert("HOME".into(), cf.home.into());
    }
    for (name, value) in engine_env.iter().chain(task_env) {
        variables.insert(name.into(), value.into());
    }
    let path = variables
        .remove(OsStr::new("PATH"))
        .or_else(|| inherited_path.map(OsStr::to_owned))
        .filter(|path| !path.is_empty());
    variables.extend(own(cf, path));
    variables
}

/// What `cf` itself says.
fn own(cf: &CfVariables<'_>, path: Option<OsString>) -> [(OsString, OsString); 10] {
    let mut search = cf.bin.as_os_str().to_owned();
    search.push(":");
    search.push(path.unwrap_or_else(|| DEFAULT_PATH.into()));
    // Empty rather than absent, so that a script with `set -u` can ask for it.
    let key = cf.key.map_or("", TaskKey::as_str);
    [
        ("CF_TASK_ID".into(), cf.task.to_string().into()),
        ("CF_TASK_KEY".into(), key.into()),
        ("CF_BATCH_ID".into(), cf.batch.to_string().into()),
        ("CF_ATTEMPT_ID".into(), cf.attempt.to_string().into()),
        ("CF_ATTEMPT".into(), cf.generation.to_string().into()),
        ("CF_WORKSPACE".into(), cf.workspace.into()),
        ("CF_PROMPT_FILE".into(), cf.prompt_file.into()),
        ("CF_CONTEXT_FILE".into(), cf.context_file.into()),
        ("PATH".into(), search),
        ("PWD".into(), cf.directory.into()),
    ]
}
