//! The programs that a batch needs: agents and git, each asked for its version with a limit of time.

use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::{Examination, Finding};
use crate::engine::{agents_on_path, find_program, withhold};
use crate::process::has_ended;
use crate::workspace::Workspace;

/// How long a program may take to tell its version. Agents are large scripts, and start slowly on a busy machine.
pub const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// The most of its answer that is read, in bytes.
const ANSWER_CAP: usize = 4096;

/// The longest version that is shown, in characters.
const LONGEST: usize = 80;

/// The agents on the `PATH`.
pub(super) fn agents(path: &OsStr, found: &mut Examination) {
    let agents = agents_on_path(path);
    if agents.is_empty() {
        found.findings.push(Finding::note(
            "agents",
            "none of those built in is on the PATH",
            "tasks with `run` need none; for others install one, or describe yours in [engines.NAME]",
        ));
    }
    // All at once: each is mostly waited for.
    let told = std::thread::scope(|scope| {
        let asked: Vec<_> = agents
            .iter()
            .map(|(_, program)| scope.spawn(|| version(program, VERSION_LIMIT)))
            .collect();
        asked
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err("was not asked".to_owned()))
            })
            .collect::<Vec<_>>()
    });
    for ((name, program), version) in agents.iter().zip(told) {
        let place = program.display();
        found.findings.push(match version {
            Ok(version) => Finding::ok("agents", format!("{name}: {version} ({place})")),
            Err(why) => Finding::problem(
                "agents",
                format!("{name}: {place} {why}"),
                format!("try `{place} --version`; a batch with this engine would fail"),
            ),
        });
    }
}

/// Git, and whether the workspace is in a repository.
pub(super) fn git(path: &OsStr, workspace: Option<&Workspace>, found: &mut Examination) {
    let Some(program) = find_program("git", path) else {
        let hint = "install it: repositories, their remotes and worktrees are found with it";
        found
            .findings
            .push(Finding::note("git", "it is not on the PATH", hint));
        return;
    };
    let version = match version(&program, VERSION_LIMIT) {
        Ok(version) => version,
        Err(why) => {
            let what = format!("{} {why}", program.display());
            found
                .findings
                .push(Finding::problem("git", what, "try `git --version`"));
            return;
        }
    };
    let in_repository = workspace.is_some_and(|workspace| {
        workspace
            .root()
            .ancestors()
            .any(|folder| folder.join(".git").exists())
    });
    found
        .findings
        .push(if workspace.is_none() || in_repository {
            Finding::ok("git", version)
        } else {
            let hint = "agents work without one; nothing keeps what they overwrite";
            Finding::note(
                "git",
                format!("{version}; the workspace is in no repository"),
                hint,
            )
        });
}

/// The first line that `PROGRAM --version` prints. It gets no token, no terminal and a process group of its own, which
/// is killed when it has ended or the limit is over.
///
/// # Errors
///
/// What went wrong, to be read after the program's name.
fn version(program: &Path, limit: Duration) -> Result<String, String> {
    let mut command = Command::new(program);
    command
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0);
    withhold(&mut command);
    let mut child = command
        .spawn()
        .map_err(|error| format!("cannot be started: {error}"))?;
    let group = Pid::from_raw(i32::try_from(child.id()).unwrap_or(0));
    let ended = group
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
        .is_some_and(|pidfd| has_ended(pidfd, limit));
    // It was not waited for yet, so the group is still its own.
    if let Some(group) = group {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let status = child
        .wait()
        .map_err(|error| format!("cannot be waited for: {error}"))?;
    if !ended {
        return Err(format!(
            "does not answer --version within {} s",
            limit.as_secs()
        ));
    }
    if !status.success() {
        return Err("fails at --version".to_owned());
    }
    // What left the group may hold the pipe open for ever: only what is in it by now counts.
    let mut answer = vec![0; ANSWER_CAP];
    let read = child
        .stdout
        .take()
        .filter(|out| ioctl_fionbio(out, true).is_ok())
        .and_then(|mut out| out.read(&mut answer).ok())
        .unwrap_or(0);
    let text = String::from_utf8_lossy(&answer[..read]);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty());
    match line {
        Some(line) => Ok(line
            .chars()
            .filter(|c| !c.is_control())
            .take(LONGEST)
            .collect()),
        None => Err("says nothing at --version".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn told(script: &str, limit: Duration) -> Result<String, String> {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("agent");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        loop {
            match version(&program, limit) {
                // A fork of another test's holds the file open for writing, for a moment.
                Err(why) if why.contains("busy") => {}
                told => return told,
            }
        }
    }

    #[test]
    fn the_first_line_is_the_version() {
        let limit = VERSION_LIMIT;
        assert_eq!(
            told("echo; echo ' agent 1.2'; echo more", limit).as_deref(),
            Ok("agent 1.2")
        );
        assert_eq!(told("exit 3", limit), Err("fails at --version".to_owned()));
        assert_eq!(
            told("true", limit),
            Err("says nothing at --version".to_owned())
        );
    }

    #[test]
    fn a_program_that_hangs_is_killed_with_what_it_started() {
        let error = told("sleep 600 & sleep 600", Duration::ZERO).unwrap_err();
        assert!(error.starts_with("does not answer"), "{error}");
    }

    #[test]
    fn what_it_leaves_behind_with_its_output_open_is_not_waited_for() {
        // The second is in no group of the program's, and ends when the program's file is gone.
        let apart = "setsid sh -c 'while test -e \"$0\"; do sleep 0.05; done' \"$0\" &";
        for left in ["sleep 600 &", apart] {
            let script = format!("echo 1.2; {left}");
            assert_eq!(told(&script, VERSION_LIMIT).as_deref(), Ok("1.2"));
            assert_eq!(
                told(left, VERSION_LIMIT),
                Err("says nothing at --version".to_owned())
            );
        }
    }
}
