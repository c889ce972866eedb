//! Spawning and waiting, with and without commits.

use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rusqlite::Connection;

use crate::{Answer, store};

/// How often the store is written for one task.
#[derive(Clone, Copy)]
enum Commits {
    /// One transaction says that one task ended and that the next starts.
    Joint,
    /// One transaction for the start and one for the end.
    Two,
}

/// Spawns the command and waits for it, `tasks` times, `slots` at a time.
pub(crate) fn bare(slots: &str, tasks: &str, command: &[&str]) -> Answer {
    in_slots(slots.parse()?, tasks.parse()?, |_| once(command))
}

/// The same, and the store is told about each task.
pub(crate) fn committing(
    db: &str,
    sync: &str,
    commits: &str,
    slots: &str,
    tasks: &str,
    command: &[&str],
) -> Answer {
    let commits = match commits {
        "joint" => Commits::Joint,
        "two" => Commits::Two,
        other => return Err(format!("{other:?} is neither `joint` nor `two`").into()),
    };
    let connection = Mutex::new(store::create(db, sync)?);
    in_slots(slots.parse()?, tasks.parse()?, |task| {
        if matches!(commits, Commits::Two) {
            commit(&connection, task, &["started"])?;
        }
        once(command)?;
        match commits {
            Commits::Two => commit(&connection, task, &["ended"]),
            Commits::Joint => commit(&connection, task, &["ended", "started"]),
        }
    })
}

fn in_slots(
    slots: usize,
    tasks: usize,
    work: impl Fn(usize) -> Result<(), String> + Sync,
) -> Answer {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let slots: Vec<_> = (0..slots)
            .map(|_| {
                scope.spawn(|| {
                    loop {
                        let task = next.fetch_add(1, Ordering::Relaxed);
                        if task >= tasks {
                            return Ok::<(), String>(());
                        }
                        work(task)?;
                    }
                })
            })
            .collect();
        for slot in slots {
            slot.join().map_err(|_| "a slot panicked".to_owned())??;
        }
        Ok(())
    })
}

fn once(command: &[&str]) -> Result<(), String> {
    let status = Command::new(command[0])
        .args(&command[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(|error| format!("{}: {error}", command[0]))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{}: {status}", command[0]))
    }
}

fn commit(connection: &Mutex<Connection>, task: usize, what: &[&str]) -> Result<(), String> {
    let mut connection = connection.lock().map_err(|_| "a slot panicked")?;
    store::record(&mut connection, task, what).map_err(|error| error.to_string())
}
