//! What a dead supervisor leaves behind: finding it and stopping it.
//!
//! While a supervisor lives, it alone stops what is below it, and it can prove that nothing is left. Once it is dead
//! there is no such proof. What it left is found by the mark in the environment (`CF_ATTEMPT_ID`), by the session that
//! it led, and by parentage, and is stopped until two looks in a row find nothing. A stranger is never touched, nor is
//! the caller or anything above it.
//!
//! A look that could not see all there is (no descriptor was left, say) proves nothing: what it missed may run.

use std::collections::{HashMap, HashSet};
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, io};

use cf_core::AttemptId;
use rustix::process::{Pid, Signal, WaitOptions, waitpid};

use super::{Process, Stat, all_pids, ancestors, own_pid, signal_exactly, stat};

/// How long to go on after SIGKILL before what is left counts as a survivor.
const KILL_BOUND: Duration = Duration::from_secs(5);

/// The time between two looks at `/proc`, of which one costs several milliseconds.
const PAUSE: Duration = Duration::from_millis(20);

/// How far the number of the session that the dead supervisor led can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionTrust {
    /// Its process has not been waited for, or has died just now: the number cannot belong to anybody else.
    Certain,
    /// It died at an unknown time: the session counts only if some process in it bears the attempt's mark.
    IfMarked,
}

/// A dead supervisor, as far as is needed to find what it left.
#[derive(Clone, Debug)]
pub struct Lost {
    /// The attempt that it ran.
    pub attempt: AttemptId,
    /// Its process number, which is also that of its session.
    pub session: i32,
    /// How far `session` can be believed.
    pub trust: SessionTrust,
    /// When it was started, in clock ticks since boot; 0 when that is unknown. What is older cannot come from it.
    pub not_before: u64,
    /// Processes that are known to come from it by other evidence, such as orphans that came to this process.
    pub roots: Vec<Process>,
}

/// What a sweep did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// How many processes were found and have ended.
    pub killed: usize,
    /// What could not be ended.
    pub survivors: Vec<Process>,
    /// Whether it could not see all there is, so that more may run than `survivors`.
    pub is_blind: bool,
}

impl Swept {
    /// Whether nothing is left, for certain.
    pub const fn is_clean(&self) -> bool {
        self.survivors.is_empty() && !self.is_blind
    }
}

/// What is left of an attempt now. It changes nothing.
///
/// # Errors
///
/// Something in `/proc` cannot be read, so that there may be more.
pub fn remains(lost: &Lost) -> io::Result<Vec<Process>> {
    let look = find(lost, &HashSet::new());
    match look.missed {
        Some(error) => Err(error),
        None => Ok(look.found.iter().map(Stat::process).collect()),
    }
}

/// Stops what a dead supervisor left: SIGTERM, `grace`, SIGKILL, until two looks find nothing or 5 seconds have passed.
///
/// It blocks for as long as that takes; when nothing was left, that is two looks through `/proc`.
pub fn sweep(lost: &Lost, grace: Duration) -> Swept {
    if crate::fault::is_broken("sweep.none") {
        return Swept::default();
    }
    let begun = Instant::now();
    let mut met: HashSet<(i32, u64)> = HashSet::new();
    let mut termed: HashSet<(i32, u64)> = HashSet::new();
    let mut empty_looks = 0;
    loop {
        for (pid, _) in &met {
            wait_for(*pid);
        }
        let Look { found, missed } = find(lost, &met);
        met.extend(found.iter().map(|stat| (stat.pid, stat.start_ticks)));
        if found.is_empty() && missed.is_none() {
            empty_looks += 1;
            if empty_looks == 2 {
                return Swept {
                    killed: met.len(),
                    ..Swept::default()
                };
            }
            continue;
        }
        empty_looks = 0;
        if let Some(error) = &missed {
            tracing::warn!(attempt = %lost.attempt, %error, "cannot see all that a dead supervisor may have left");
        }
        let elapsed = begun.elapsed();
        if elapsed >= grace + KILL_BOUND {
            let survivors: Vec<Process> = found.iter().map(Stat::process).collect();
            return Swept {
                killed: met.len().saturating_sub(survivors.len()),
                survivors,
                is_blind: missed.is_some(),
            };
        }
        for process in &found {
            let key = (process.pid, process.start_ticks);
            // What cannot be signalled shows up as a survivor.
            if elapsed >= grace {
                let _ = signal_exactly(process.pid, process.start_ticks, Signal::KILL);
            } else if termed.insert(key) {
                let _ = signal_exactly(process.pid, process.start_ticks, Signal::TERM);
                if process.state == b'T' {
                    let _ = signal_exactly(process.pid, process.start_ticks, Signal::CONT);
                }
            }
        }
        if missed.is_some() {
            thread::sleep(PAUSE);
        } else if elapsed < grace {
            thread::sleep(PAUSE.min(grace.saturating_sub(elapsed)));
        } else {
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Waits for a process that was found, has ended, and came to this process as an orphan; for any other it does nothing.
fn wait_for(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

/// What one look through `/proc` found, and why it may have missed something.
struct Look {
    found: Vec<Stat>,
    missed: Option<io::Error>,
}

/// One look through `/proc`: every running process that bears the mark, is in the session, was met before, or comes
/// from one of those. What was met may have lost the parent by which it was found.
fn find(lost: &Lost, met: &HashSet<(i32, u64)>) -> Look {
    let mut spared: HashSet<i32> = ancestors(own_pid())
        .into_iter()
        .map(|(pid, _)| pid)
        .collect();
    spared.insert(own_pid());
    let mark = lost.attempt.to_string();
    let mut missed = None;
    let pids = all_pids().unwrap_or_else(|error| {
        missed = Some(error);
        Vec::new()
    });
    let mut all: Vec<Stat> = Vec::with_capacity(pids.len());
    for pid in pids {
        match if_there(stat(pid)) {
            Ok(Some(stat)) if stat.start_ticks >= lost.not_before => all.push(stat),
            Ok(_) => {}
            Err(error) => missed = Some(error),
        }
    }
    let mut marked: HashSet<i32> = HashSet::new();
    for stat in all.iter().filter(|stat| stat.runs()) {
        match read_mark(stat.pid) {
            Ok(found) if found.as_ref() == Some(&mark) => {
                marked.insert(stat.pid);
            }
            Ok(_) => {}
            Err(error) => missed = Some(error),
        }
    }
    let session_is_ours = match lost.trust {
        SessionTrust::Certain => true,
        SessionTrust::IfMarked => all
            .iter()
            .any(|stat| stat.session == lost.session && marked.contains(&stat.pid)),
    };
    let mut roots = met.clone();
    roots.extend(lost.roots.iter().map(|root| (root.pid, root.start_ticks)));
    let mut below: HashMap<i32, Vec<i32>> = HashMap::new();
    let mut open: Vec<i32> = Vec::new();
    for stat in &all {
        below.entry(stat.ppid).or_default().push(stat.pid);
        let rooted = roots.contains(&(stat.pid, stat.start_ticks));
        if marked.contains(&stat.pid) || rooted || (session_is_ours && stat.session == lost.session)
        {
            open.push(stat.pid);
        }
    }
    let mut ours: HashSet<i32> = HashSet::new();
    while let Some(pid) = open.pop() {
        if pid > 1 && !spared.contains(&pid) && ours.insert(pid) {
            open.extend(below.get(&pid).into_iter().flatten());
        }
    }
    all.retain(|stat| stat.runs() && ours.contains(&stat.pid));
    Look { found: all, missed }
}

/// What was read of a process; none when it has gone meanwhile, or is none that the system tells of.
fn if_there<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    use io::ErrorKind::{InvalidData, NotFound, PermissionDenied};
    let is_gone = |error: &io::Error| {
        matches!(error.kind(), NotFound | PermissionDenied | InvalidData)
            || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
    };
    match read {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The attempt that a process was started for, as its environment says. Another user's cannot be read, and says
/// nothing; nor does one that cannot be read for the moment.
pub(crate) fn mark_of(pid: i32) -> Option<String> {
    read_mark(pid).ok().flatten()
}

fn read_mark(pid: i32) -> io::Result<Option<String>> {
    let Some(environ) = if_there(fs::read(format!("/proc/{pid}/environ")))? else {
        return Ok(None);
    };
    let mark = environ
        .split(|b| *b == 0)
        .find_map(|line| line.strip_prefix(b"CF_ATTEMPT_ID="));
    Ok(mark.map(|mark| String::from_utf8_lossy(mark).into_owned()))
}
