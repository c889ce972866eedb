//! The last resort for a token, when the user's configuration allows it: `gh auth token`, with a limit of time.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::token::Token;

/// How long the command may take.
const LIMIT: Duration = Duration::from_secs(2);

/// Asks `program` (normally `gh`, found on the `PATH`) for its token for `host`. Blocks for at most two seconds.
///
/// Returns nothing when the program is missing, fails, takes too long, or prints no token: all of these mean that there
/// is no token from this source.
pub fn token_from_gh(program: &Path, host: &str) -> Option<Token> {
    let mut child = Command::new(program)
        .args(["auth", "token", "--hostname", host])
        .env("GH_PROMPT_DISABLED", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let began = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if began.elapsed() < LIMIT => std::thread::sleep(Duration::from_millis(10)),
            Ok(None) | Err(_) => {
                // Both fail only when it has ended by itself in between.
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    };
    if !status.success() {
        return None;
    }
    // A token fits into the pipe, so waiting first cannot block the program. What it may have left running holds the
    // pipe open, though: one read is enough.
    let mut text = vec![0; 8192];
    let length = child.stdout.take()?.read(&mut text).ok()?;
    text.truncate(length);
    Token::new(String::from_utf8(text).ok()?.trim_end_matches(['\r', '\n'])).ok()
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

    #[test]
    fn the_command_is_asked_for_the_host() {
        let path = gh(
            "ok",
            r#"[ "$*" = "auth token --hostname ghe.example" ] && echo abc"#,
        );
        assert_eq!(
            token_from_gh(&path, "ghe.example").map(|token| token.fingerprint()),
            Some(Token::new("abc").unwrap().fingerprint())
        );
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_command_that_fails_hangs_or_is_missing_is_no_token() {
        for (name, script) in [
            ("fails", "echo abc; exit 1"),
            ("nothing", "exit 0"),
            ("hangs", "exec sleep 20"),
            ("two", "echo a; echo b"),
        ] {
            let path = gh(name, script);
            let began = Instant::now();
            assert!(token_from_gh(&path, "github.com").is_none(), "{name}");
            assert!(began.elapsed() < Duration::from_secs(5));
            std::fs::remove_file(path).unwrap();
        }
        assert!(token_from_gh(Path::new("/nonexistent/gh"), "github.com").is_none());
    }
}
