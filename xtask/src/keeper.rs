//! The keeper: a process above everything that a chore starts, which lets nothing outlive the chore.
//!
//! Measurements start conductors, daemons and agents, and many of those leave their parent on purpose. So the chore
//! runs below a second process of this program, the keeper: a subreaper, to which every orphan comes, in a process
//! group of its own, where Ctrl-C does not reach it. It holds one end of a pipe whose other end the first process
//! has. However that process ends, by Ctrl-C or by SIGKILL, the pipe closes with it, and the keeper ends all that is
//! below.

use std::fs;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio, exit};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process, pidfd_open, pidfd_send_signal,
    set_child_subreaper, wait,
};

use crate::problem::Problem;

/// Says that a folder follows which is to be removed at the end.
const SWEEP: &str = "--sweep";

/// How long what is ending already may take for it, once the chore has ended.
const GRACE: Duration = Duration::from_secs(3);

/// Runs this program once more, below a keeper, with these words as its command line, and ends with its exit code
/// unless that is 0.
///
/// # Errors
///
/// The keeper could not be started.
pub(crate) fn below(words: &[String]) -> Result<(), Problem> {
    let program = std::env::current_exe()?;
    held(Command::new(&program).arg("keep").arg(&program).args(words))
}

/// Runs a command below a keeper, which removes this folder when nothing is left of the command, however it has ended.
/// Ends with its exit code unless that is 0.
///
/// # Errors
///
/// The keeper could not be started.
pub(crate) fn below_with(command: &Command, folder: &Path) -> Result<(), Problem> {
    held(
        Command::new(std::env::current_exe()?)
            .args(["keep", SWEEP])
            .arg(folder)
            .arg(command.get_program())
            .args(command.get_args()),
    )
}

/// Waits for a keeper, whose other end of the pipe this process has.
fn held(keeper: &mut Command) -> Result<(), Problem> {
    let mut keeper = keeper.stdin(Stdio::piped()).process_group(0).spawn()?;
    // Waiting would close it, and with it end the chore.
    let held = keeper.stdin.take();
    let status = keeper.wait()?;
    drop(held);
    if status.success() {
        return Ok(());
    }
    exit(status.code().unwrap_or(1))
}

/// Is the keeper of a command: runs it, and ends with its exit code, unless that is 0, when nothing is left below. The
/// words of the command may follow `--sweep FOLDER`.
///
/// # Errors
///
/// The command could not be started or watched, or it ended and left processes behind. Those have been ended.
pub(crate) fn keep(words: &[&str]) -> Result<(), Problem> {
    let (folder, words) = match words {
        [SWEEP, folder, words @ ..] => (Some(Path::new(*folder)), words),
        words => (None, words),
    };
    let kept = run(words);
    if kept.is_err() {
        // What was started and cannot be watched is not left alone with its folder.
        let _ = end_all(Duration::ZERO);
    }
    if let Some(folder) = folder {
        // What cannot be removed lies in the folder for temporary files and harms nobody.
        let _ = fs::remove_dir_all(folder);
    }
    let (code, left) = kept?;
    if !left.is_empty() {
        return Err(Problem::new(format!(
            "left behind, and ended now: {}",
            left.join(", ")
        )));
    }
    match code {
        Some(0) => Ok(()),
        Some(code) => exit(code),
        None => exit(1),
    }
}

/// Runs a command until nothing is left below. Returns its exit code, if it has one, and the names of what it left
/// behind, unless that was ended because nobody waits any more.
fn run(words: &[&str]) -> Result<(Option<i32>, Vec<String>), Problem> {
    let (program, arguments) = words
        .split_first()
        .ok_or_else(|| Problem::new("which command is to be kept?"))?;
    set_child_subreaper(Some(getpid())).map_err(std::io::Error::from)?;
    let kept = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .spawn()
        .map_err(|error| Problem::new(format!("cannot start {program}: {error}")))?;
    let kept = Pid::from_child(&kept);
    let abandoned = Arc::new(AtomicBool::new(false));
    watch_the_pipe(kept, Arc::clone(&abandoned))?;

    let code = loop {
        // Orphans that end are taken away here as well.
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == kept => break status.exit_status(),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(std::io::Error::from(error).into()),
        }
    };
    let mut left = end_all(if abandoned.load(Ordering::Acquire) {
        Duration::ZERO
    } else {
        GRACE
    })?;
    if abandoned.load(Ordering::Acquire) {
        left.clear();
    }
    Ok((code, left))
}

/// Ends the command when nobody holds the other end of our standard input any more.
fn watch_the_pipe(kept: Pid, abandoned: Arc<AtomicBool>) -> Result<(), Problem> {
    let handle = pidfd_open(kept, PidfdFlags::empty()).map_err(std::io::Error::from)?;
    thread::spawn(move || {
        // Nobody writes to it: whatever the answer is, it is the end.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        abandoned.store(true, Ordering::Release);
        // It may have ended by itself a moment ago.
        let _ = pidfd_send_signal(&handle, Signal::KILL);
    });
    Ok(())
}

/// Ends everything below this process, what is still there after the grace by SIGKILL, and returns the names of those.
///
/// The children are enough: whoever they leave behind becomes our child. None of their pids can have gone to a
/// stranger, because we alone take them away.
fn end_all(grace: Duration) -> Result<Vec<String>, Problem> {
    let start = Instant::now();
    let mut ended = Vec::new();
    loop {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(Errno::CHILD) => return Ok(ended),
                Err(Errno::INTR) => {}
                Err(error) => return Err(std::io::Error::from(error).into()),
            }
        }
        if start.elapsed() >= grace {
            for (pid, name) in children()? {
                // It may have ended since it was seen; then it is a zombie, to which a signal does nothing.
                let _ = kill_process(pid, Signal::KILL);
                let shown = format!("{name} ({})", pid.as_raw_nonzero());
                if !ended.contains(&shown) {
                    ended.push(shown);
                }
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// The children of this process that have not ended, with their names.
fn children() -> Result<Vec<(Pid, String)>, Problem> {
    let ours = getpid().as_raw_nonzero().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
            .and_then(Pid::from_raw)
        else {
            continue;
        };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        if let Some((name, state, parent)) = identity(&stat)
            && parent == ours
            && state != "Z"
        {
            found.push((pid, name.to_owned()));
        }
    }
    Ok(found)
}

/// Name, state and parent, as `/proc/PID/stat` has them. The name may itself hold spaces and parentheses.
fn identity(stat: &str) -> Option<(&str, &str, &str)> {
    let (head, rest) = stat.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let mut rest = rest.split_whitespace();
    Some((name, rest.next()?, rest.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_the_rest_of_the_line() {
        assert_eq!(
            identity("12 (a) S 1 (b) R 7 8"),
            Some(("a) S 1 (b", "R", "7"))
        );
        assert_eq!(identity("12"), None);
    }
}
