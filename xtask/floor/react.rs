//! How long it takes from another process's commit until the agent gets its signal.
//!
//! Seen from outside, so that it says the same about every program: the commit is the moment at which a busy reader of
//! the store sees the new status, the signal is the end of an agent that dies by it.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::{Answer, store};

const PATIENCE: Duration = Duration::from_mins(1);

/// Runs the command, which sets the task's status, and prints the milliseconds from its commit to the agent's end.
pub(crate) fn measure(db: &str, pid: &str, key: &str, command: &[&str]) -> Answer {
    let pid = Pid::from_raw(pid.parse()?).ok_or("not a pid")?;
    let agent = pidfd_open(pid, PidfdFlags::empty())?;
    let reader = store::open(db)?;
    let status = || {
        reader
            .prepare_cached("SELECT status FROM task WHERE key = ?1 AND deleted_at_ms IS NULL")?
            .query_row([key], |row| row.get::<_, String>(0))
    };
    let version = || {
        reader
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get::<_, i64>(0))
    };
    let before = status()?;
    let mut seen = version()?;

    let ended = thread::spawn(move || {
        poll(&mut [PollFd::new(&agent, PollFlags::IN)], None).map(|_| Instant::now())
    });
    let mut writer = Command::new(command[0])
        .args(&command[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()?;
    let start = Instant::now();
    let committed = loop {
        let now = Instant::now();
        let version = version()?;
        if version != seen {
            seen = version;
            if status()? != before {
                break now;
            }
        }
        if now - start > PATIENCE {
            return Err("the new status was never seen".into());
        }
    };
    if !writer.wait()?.success() {
        return Err("the command that sets the status failed".into());
    }
    while !ended.is_finished() {
        if start.elapsed() > PATIENCE {
            return Err("the agent never got its signal".into());
        }
        thread::sleep(Duration::from_millis(1));
    }
    let ended = ended.join().map_err(|_| "the watcher panicked")??;
    println!(
        "{:.4}",
        ended.saturating_duration_since(committed).as_secs_f64() * 1000.0
    );
    Ok(())
}
