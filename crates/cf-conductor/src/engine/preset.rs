//! The engines that are built in. Each flag was checked against the program's own help, and each command line was run.
//!
//! Versions: Claude Code 2.1.197, Codex 0.171.0, opencode 1.18.33, Gemini CLI 0.61.0.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{
    Engine, EngineName, Grant, Grants, Home, Leftovers, Permissions, PromptBy, SuccessRule,
};

/// The time limit of an agent's attempt where nobody sets one.
const AGENT_TIMEOUT: Duration = Duration::from_hours(2);

/// The names of the engines that are built in, in the order in which they are listed.
const PRESETS: [&str; 5] = ["shell", "claude-code", "codex", "opencode", "gemini"];

impl Engine {
    /// The engines that are built in.
    pub fn presets() -> impl Iterator<Item = Self> {
        PRESETS.iter().filter_map(|name| Self::preset(name))
    }

    /// The built-in engine of this name.
    pub fn preset(name: &str) -> Option<Self> {
        Some(match name {
            "shell" => shell(),
            "claude-code" => claude_code(),
            "codex" => codex(),
            "opencode" => opencode(),
            "gemini" => gemini(),
            _ => return None,
        })
    }

    /// An engine that is nothing but a command: it gets its prompt on standard input and succeeds with exit code 0.
    pub(super) fn plain(name: EngineName) -> Self {
        Self {
            name,
            command: Vec::new(),
            extra_args: Vec::new(),
            tail: Vec::new(),
            prompt: PromptBy::Stdin,
            env: BTreeMap::new(),
            env_remove: Vec::new(),
            pass_env: Vec::new(),
            success: SuccessRule::ExitZero,
            permissions: Permissions::All,
            grants: Grants::default(),
            model_args: Vec::new(),
            resume_args: Vec::new(),
            home: Home::User,
            default_timeout: Some(AGENT_TIMEOUT),
            version_args: words(&["--version"]),
            leftovers: Leftovers::Stop,
            keep: Vec::new(),
        }
    }
}

/// The task's own script.
fn shell() -> Engine {
    Engine {
        prompt: PromptBy::File,
        default_timeout: None,
        version_args: Vec::new(),
        ..Engine::plain(EngineName::shell())
    }
}

fn claude_code() -> Engine {
    Engine {
        command: words(&[
            "claude",
            "-p",
            "--output-format",
            "stream-json",
            "--verbose",
        ]),
        // Several of them at once must not replace the program under each other's feet.
        env: variables(&[("DISABLE_AUTOUPDATER", "1")]),
        // Set by a Claude Code that started the conductor; an agent is a session of its own.
        env_remove: words(&["CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"]),
        success: SuccessRule::Claude,
        grants: Grants {
            // Without IS_SANDBOX the flag is refused for root.
            all: grant(&["--dangerously-skip-permissions"], &[("IS_SANDBOX", "1")]),
            // `cf` itself is allowed, so that the agent can ask and report.
            edit: grant(
                &[
                    "--permission-mode",
                    "acceptEdits",
                    "--allowedTools=Bash(cf:*)",
                ],
                &[],
            ),
            read: grant(
                &[
                    "--permission-mode",
                    "dontAsk",
                    "--allowedTools=Bash(cf:*),Read,Glob,Grep",
                    "--disallowedTools=Edit,Write,NotebookEdit",
                ],
                &[],
            ),
        },
        model_args: words(&["--model", "{model}"]),
        resume_args: words(&["--resume", "{session}"]),
        ..Engine::plain(named("claude-code"))
    }
}

fn codex() -> Engine {
    Engine {
        command: words(&[
            "codex",
            "exec",
            "--json",
            "--skip-git-repo-check",
            "-c",
            "check_for_update_on_startup=false",
            // A login shell takes its `PATH` from the system's profile, where `cf` is not.
            "-c",
            "allow_login_shell=false",
        ]),
        tail: words(&["-"]),
        success: SuccessRule::Codex,
        grants: Grants {
            all: grant(&["--dangerously-bypass-approvals-and-sandbox"], &[]),
            // The state folder may lie outside the working tree, and `cf` writes to it when the agent asks.
            edit: grant(
                &["--sandbox", "workspace-write", "--add-dir", "{state}"],
                &[],
            ),
            read: grant(&["--sandbox", "read-only"], &[]).map(|grant| Grant {
                reaches_cf: false,
                ..grant
            }),
        },
        model_args: words(&["--model", "{model}"]),
        resume_args: words(&["resume", "{session}"]),
        ..Engine::plain(named("codex"))
    }
}

fn opencode() -> Engine {
    Engine {
        command: words(&["opencode", "run", "--format", "json"]),
        env: variables(&[("OPENCODE_DISABLE_AUTOUPDATE", "1")]),
        success: SuccessRule::Opencode,
        grants: Grants {
            all: grant(&[], &[("OPENCODE_PERMISSION", r#"{"*":"allow"}"#)]),
            edit: grant(
                &[],
                &[(
                    "OPENCODE_PERMISSION",
                    r#"{"edit":"allow","bash":{"*":"deny","cf *":"allow"},"external_directory":"deny"}"#,
                )],
            ),
            read: grant(
                &[],
                &[(
                    "OPENCODE_PERMISSION",
                    r#"{"edit":"deny","bash":{"*":"deny","cf *":"allow"},"external_directory":"deny"}"#,
                )],
            ),
        },
        model_args: words(&["--model", "{model}"]),
        resume_args: words(&["--session", "{session}"]),
        ..Engine::plain(named("opencode"))
    }
}

fn gemini() -> Engine {
    Engine {
        // Without `--skip-trust` a folder that nobody has trusted by hand is refused; `-p ""` means that the prompt
        // is what stands on standard input.
        command: words(&["gemini", "-o", "stream-json", "--skip-trust"]),
        tail: words(&["-p", ""]),
        success: SuccessRule::Gemini,
        grants: Grants {
            all: grant(&["--approval-mode", "yolo"], &[]),
            // Without `--allowed-tools` these modes have no shell at all, so that `cf` could not be called.
            edit: grant(
                &[
                    "--approval-mode",
                    "auto_edit",
                    "--allowed-tools=run_shell_command(cf)",
                ],
                &[],
            ),
            read: grant(
                &[
                    "--approval-mode",
                    "plan",
                    "--allowed-tools=run_shell_command(cf)",
                ],
                &[],
            ),
        },
        model_args: words(&["--model", "{model}"]),
        resume_args: words(&["--resume", "{session}"]),
        ..Engine::plain(named("gemini"))
    }
}

fn named(name: &str) -> EngineName {
    name.parse().expect("the names of presets are valid")
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|&(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "a field of `Grants` is an option, and each preset has all three"
)]
fn grant(args: &[&str], env: &[(&str, &str)]) -> Option<Grant> {
    Some(Grant {
        args: words(args),
        env: variables(env),
        reaches_cf: true,
    })
}
