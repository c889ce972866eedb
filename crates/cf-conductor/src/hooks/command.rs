//! One command: started, watched, ended.

mod printed;

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process_group, waitid, waitpgid,
};

use printed::Printed;

use super::{Call, LOOK, Shared};
use crate::process::most_files;

/// Runs a command to its end or to its limit, and notes how it ended. What it left in its group ends with it.
pub(super) fn run(call: &Call, shared: &Shared) {
    if shared.is_over() {
        shared.note(call, "left out: the batch has ended");
        return;
    }
    let began = Instant::now();
    let (mut child, mut printed) = match start(call, shared) {
        Ok(started) => started,
        Err(error) => return shared.note(call, &format!("cannot be started: {error}")),
    };
    let group = Pid::from_raw(i32::try_from(child.id()).unwrap_or(0));
    let mut late = false;
    while !has_ended(group) {
        if began.elapsed() >= shared.limit || shared.is_over() {
            late = true;
            break;
        }
        printed.wait(LOOK);
    }
    // It was not waited for yet, so its number is still its own.
    if let Some(group) = group {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let told = match child.wait() {
        _ if late => format!(
            "killed: it took longer than {}",
            cf_core::format_duration(shared.limit)
        ),
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("ended with {code}"),
            (None, signal) => format!("ended by signal {}", signal.unwrap_or(0)),
        },
        Err(error) => format!("cannot be waited for: {error}"),
    };
    if let Some(group) = group {
        reap(group);
    }
    shared.write_output(&printed.all());
    shared.note(call, &told);
}

/// Waits for what it left: orphans come to this process, which looks after those of agents alone.
fn reap(group: Pid) {
    for _ in 0..10 {
        match waitpgid(group, WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => std::thread::sleep(LOOK),
            Err(_) => return,
        }
    }
}

/// Starts it in a group of its own, in the session of the batch: what is in another session counts as an orphan of an
/// agent.
fn start(call: &Call, shared: &Shared) -> io::Result<(Child, Printed)> {
    let (printed, out) = Printed::new()?;
    let child = Command::new("/bin/sh")
        .args(["-c", &script(&call.command, shared.files)])
        .current_dir(&shared.root)
        .env_clear()
        .envs(shared.environment.iter().map(|(name, value)| (name, value)))
        .env("CF_HOOK", call.kind)
        .env("CF_WORKSPACE", &shared.root)
        .stdin(Stdio::from(body(&call.body)?))
        .stdout(out.try_clone()?)
        .stderr(out)
        .process_group(0)
        .spawn()?;
    Ok((child, printed))
}

/// The command, under the limit of open files that this process began with: some programs go through all numbers up to
/// it.
fn script(command: &str, files: Option<u64>) -> Cow<'_, str> {
    match files {
        Some(files) if most_files() != Some(files) => {
            Cow::Owned(format!("ulimit -S -n {files}\n{command}"))
        }
        _ => Cow::Borrowed(command),
    }
}

/// The JSON as a file in memory: a command that does not read it holds nothing up.
fn body(text: &str) -> io::Result<File> {
    let mut file = File::from(memfd_create("cf-hook", MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.rewind()?;
    Ok(file)
}

/// Whether it has ended, without waiting for it: until then nobody else can have its number.
fn has_ended(pid: Option<Pid>) -> bool {
    let Some(pid) = pid else { return true };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(pid), options), Ok(None))
}
