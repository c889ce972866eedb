//! How long it takes from another process's commit until the agent gets its signal.
//!
//! Seen from outside, so that it says the same about every program: the commit is the moment at which a busy reader of
//! the store sees the new status, the signal is the end of an agent that dies by it.

use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::{Answer, store};

const PATIENCE: Duration = Duration::from_mins(1);

/// Runs the command, which sets the task's status, and prints the milliseconds to the agent's end: from the commit of
/// the command, and from its start.
pub(crate) fn measure(db: &str, pid: &str, key: &str, command: &[&str]) -> Answer {
    let ended = watch(pid)?;
    let reader = store::open(db)?;
    let before = status(&reader, key)?;
    let mut seen = version(&reader)?;

    let start = Instant::now();
    let mut writer = spawn(command)?;
    let committed = loop {
        let now = Instant::now();
        let looked_at = version(&reader)?;
        if std::mem::replace(&mut seen, looked_at) != looked_at && status(&reader, key)? != before {
            break now;
        }
        if now - start > PATIENCE {
            return Err("the new status was never seen".into());
        }
    };
    if !writer.wait()?.success() {
        return Err("the command that sets the status failed".into());
    }
    let ended = end(ended, start)?;
    println!("{:.4} {:.4}", ms(ended, committed), ms(ended, start));
    Ok(())
}

/// Signals the agent as soon as the task has another status, woken by the file that writers write to after a commit.
///
/// It says on its output when it watches.
pub(crate) fn obey(db: &str, wake: &str, key: &str, pid: &str) -> Answer {
    let pid = Pid::from_raw(pid.parse()?).ok_or("not a pid")?;
    let reader = store::open(db)?;
    let before = status(&reader, key)?;
    let mut seen = version(&reader)?;
    let events = inotify::init(inotify::CreateFlags::CLOEXEC)?;
    inotify::add_watch(&events, wake, inotify::WatchFlags::MODIFY)?;
    println!("watching");
    let mut buffer = [0u8; 4096];
    loop {
        rustix::io::read(&events, &mut buffer)?;
        let now = version(&reader)?;
        if std::mem::replace(&mut seen, now) != now && status(&reader, key)? != before {
            return Ok(kill_process(pid, Signal::TERM)?);
        }
    }
}

fn status(reader: &Connection, key: &str) -> rusqlite::Result<String> {
    reader
        .prepare_cached("SELECT status FROM task WHERE key = ?1 AND deleted_at_ms IS NULL")?
        .query_row([key], |row| row.get(0))
}

fn version(reader: &Connection) -> rusqlite::Result<i64> {
    reader
        .prepare_cached("PRAGMA data_version")?
        .query_row([], |row| row.get(0))
}

/// Runs the command, which stops the agent, and prints the milliseconds from its start to the agent's end.
pub(crate) fn kill(pid: &str, command: &[&str]) -> Answer {
    let ended = watch(pid)?;
    let start = Instant::now();
    let mut killer = spawn(command)?;
    if !killer.wait()?.success() {
        return Err("the command that stops the agent failed".into());
    }
    println!("{:.4}", ms(end(ended, start)?, start));
    Ok(())
}

type Watcher = JoinHandle<rustix::io::Result<Instant>>;

/// Waits beside us for the end of the process.
fn watch(pid: &str) -> Result<Watcher, Box<dyn std::error::Error>> {
    let pid = Pid::from_raw(pid.parse()?).ok_or("not a pid")?;
    let agent = pidfd_open(pid, PidfdFlags::empty())?;
    Ok(thread::spawn(move || {
        poll(&mut [PollFd::new(&agent, PollFlags::IN)], None).map(|_| Instant::now())
    }))
}

fn spawn(command: &[&str]) -> std::io::Result<Child> {
    Command::new(command[0])
        .args(&command[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
}

fn end(watcher: Watcher, start: Instant) -> Result<Instant, Box<dyn std::error::Error>> {
    while !watcher.is_finished() {
        if start.elapsed() > PATIENCE {
            return Err("the agent never got its signal".into());
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(watcher.join().map_err(|_| "the watcher panicked")??)
}

fn ms(end: Instant, start: Instant) -> f64 {
    end.saturating_duration_since(start).as_secs_f64() * 1000.0
}
