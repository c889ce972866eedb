//! The last resort for a token, when the user's configuration allows it: `gh auth token`, with a limit of time and an
//! environment of its own.

use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::token::Token;

/// How long the command may take.
const LIMIT: Duration = Duration::from_secs(2);
/// How often it is looked whether it has ended.
const STEP: Duration = Duration::from_millis(10);
/// The most bytes that it may print; the longest token is a tenth of it.
const LONGEST: usize = 8192;

/// Asks `program` (normally `gh`, found on the `PATH`) for its token for `host`. Blocks for at most two seconds, also
/// when something that the program leaves running holds its output open.
///
/// Of `environment` it gets what it needs to find its configuration and the keyring, and nothing else: `HOME`, `PATH`,
/// `GH_CONFIG_DIR`, `GH_HOST`, `DBUS_SESSION_BUS_ADDRESS`, and `XDG_CONFIG_HOME`, `XDG_DATA_HOME`, `XDG_STATE_HOME` and
/// `XDG_RUNTIME_DIR`. None of them holds a token.
///
/// Returns nothing when the program is missing, fails, takes too long, or prints no token: all of these mean that there
/// is no token from this source.
pub fn token_from_gh(
    program: &Path,
    host: &str,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Option<Token> {
    // A socket, since a read from one can be given up after a while.
    let (mut ours, theirs) = UnixStream::pair().ok()?;
    let mut child = Command::new(program)
        .args(["auth", "token", "--hostname", host])
        .env_clear()
        .envs(
            environment
                .into_iter()
                .filter(|(name, _)| is_passed_on(name)),
        )
        .env("GH_PROMPT_DISABLED", "1")
        .stdin(Stdio::null())
        .stdout(OwnedFd::from(theirs))
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut text = Vec::new();
    let Some(status) = read_until_it_ends(&mut child, &mut ours, &mut text) else {
        // Both fail only when it has ended by itself in between.
        let _ = child.kill();
        let _ = child.wait();
        return None;
    };
    // What it printed before its end is there; what goes on holding the other side is not waited for.
    ours.set_nonblocking(true).ok()?;
    while text.len() <= LONGEST && read_some(&mut ours, &mut text) == Some(true) {}
    if !status.success() || text.len() > LONGEST {
        return None;
    }
    Token::new(String::from_utf8(text).ok()?.trim_end_matches(['\r', '\n'])).ok()
}

/// The variables that `gh` gets: where its configuration and its keyring are. People keep tokens under names of their
/// own that begin as its do, so these are listed one by one.
const PASSED_ON: [&str; 9] = [
    "HOME",
    "PATH",
    "GH_CONFIG_DIR",
    "GH_HOST",
    "DBUS_SESSION_BUS_ADDRESS",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
];

fn is_passed_on(name: &OsStr) -> bool {
    PASSED_ON.iter().any(|passed| name == *passed)
}

/// Reads what a command prints until it ends; nothing when it takes too long, prints too much, or cannot be waited for.
fn read_until_it_ends(
    child: &mut Child,
    output: &mut UnixStream,
    text: &mut Vec<u8>,
) -> Option<ExitStatus> {
    let until = Instant::now() + LIMIT;
    let mut open = output.set_read_timeout(Some(STEP)).is_ok();
    while Instant::now() < until && text.len() <= LONGEST {
        if open {
            open = read_some(output, text).is_some();
        } else {
            std::thread::sleep(STEP);
        }
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) => {}
            Err(_) => return None,
        }
    }
    None
}

/// Reads what is there; whether there was something, or nothing at the end.
fn read_some(output: &mut UnixStream, text: &mut Vec<u8>) -> Option<bool> {
    let mut piece = [0; 1024];
    match output.read(&mut piece) {
        Ok(0) => None,
        Ok(length) => {
            text.extend_from_slice(&piece[..length]);
            Some(true)
        }
        Err(error) => matches!(
            error.kind(),
            ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
        )
        .then_some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn gh(name: &str, script: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("cf-github-gh-{}-{name}", std::process::id()));
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// What `gh` says with these variables, as a fingerprint.
    fn asked(path: &Path, host: &str, more: &[(&str, &str)]) -> Option<u64> {
        let path_variable = std::env::var_os("PATH").map(|value| ("PATH".into(), value));
        let more = more
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        let environment: Vec<(OsString, OsString)> =
            path_variable.into_iter().chain(more).collect();
        token_from_gh(path, host, environment).map(|token| token.fingerprint())
    }

    fn token(text: &str) -> u64 {
        Token::new(text).unwrap().fingerprint()
    }

    #[test]
    fn the_command_is_asked_for_the_host() {
        let path = gh(
            "ok",
            r#"[ "$*" = "auth token --hostname ghe.example" ] && echo abc"#,
        );
        assert_eq!(asked(&path, "ghe.example", &[]), Some(token("abc")));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn it_gets_what_it_needs_and_nothing_else() {
        let path = gh(
            "environment",
            r#"echo "$HOME,$XDG_CONFIG_HOME,$GH_CONFIG_DIR,$DBUS_SESSION_BUS_ADDRESS,$GH_TOKEN$GH_ENTERPRISE_TOKEN$GITHUB_TOKEN$AWS_SECRET_ACCESS_KEY$GH_PAT$XDG_TOKEN""#,
        );
        let given = [
            ("HOME", "h"),
            ("XDG_CONFIG_HOME", "x"),
            ("GH_CONFIG_DIR", "c"),
            ("DBUS_SESSION_BUS_ADDRESS", "d"),
            ("GH_TOKEN", "secret"),
            ("GH_ENTERPRISE_TOKEN", "secret"),
            ("GITHUB_TOKEN", "secret"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("GH_PAT", "secret"),
            ("XDG_TOKEN", "secret"),
        ];
        assert_eq!(asked(&path, "github.com", &given), Some(token("h,x,c,d,")));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_it_leaves_running_is_not_waited_for() {
        for (name, script, said) in [
            ("says", "sleep 30 & echo abc", Some(token("abc"))),
            ("says-no-end", "sleep 30 & printf abc", Some(token("abc"))),
            ("silent", "sleep 30 & exit 0", None),
        ] {
            let path = gh(name, &format!("{script}\necho $! >$0.pid"));
            let began = Instant::now();
            assert_eq!(asked(&path, "github.com", &[]), said, "{name}");
            assert!(began.elapsed() < Duration::from_millis(2800), "{name}");
            let pid = path.with_extension("pid");
            if let Ok(pid) = std::fs::read_to_string(&pid) {
                let _ = Command::new("kill").arg(pid.trim()).status();
            }
            let _ = std::fs::remove_file(pid);
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn a_command_that_fails_hangs_or_is_missing_is_no_token() {
        for (name, script) in [
            ("fails", "echo abc; exit 1"),
            ("nothing", "exit 0"),
            ("hangs", "exec sleep 20"),
            ("says and hangs", "echo abc; exec sleep 20"),
            ("two", "echo a; echo b"),
            ("floods", "exec yes"),
        ] {
            let path = gh(name, script);
            let began = Instant::now();
            assert_eq!(asked(&path, "github.com", &[]), None, "{name}");
            assert!(began.elapsed() < Duration::from_secs(5));
            std::fs::remove_file(path).unwrap();
        }
        assert_eq!(asked(Path::new("/nonexistent/gh"), "github.com", &[]), None);
    }
}
