//! What the kernel says about processes: who they are, what is below them, and how to reach one without hitting
//! another.
//!
//! A process is never named by its number alone: numbers are used again. Everything here carries the start time along
//! and looks again, through a pidfd, just before it sends a signal. Nothing here waits, and nothing is cached except
//! what cannot change while this program runs (the boot id and the pid namespace).

mod own;
mod sweep;

pub(crate) use own::is_stopped_child;
pub use own::{
    adopted, become_subreaper, close_on_exec_all, is_ignored, lock_held, make_room_for_files,
    make_undumpable, most_bytes_of_a_file, most_files, reap, survive_file_limit,
};
pub(crate) use sweep::mark_of;
pub use sweep::{Lost, SessionTrust, Swept, remains, sweep};

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use cf_core::SupervisorId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// Who a supervisor is, so that a later program can find it again and never takes a stranger for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its own id; its file is named after it.
    pub supervisor: SupervisorId,
    /// Its process number, in the pid namespace `pid_ns`. It leads a session of the same number.
    pub pid: i32,
    /// When it was started, in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub start_ticks: u64,
    /// The boot in which it lives.
    pub boot_id: String,
    /// The inode number of the pid namespace in which `pid` means something.
    pub pid_ns: u64,
}

impl Identity {
    /// The identity of this process itself, as the given supervisor.
    ///
    /// # Errors
    ///
    /// `/proc` cannot be read.
    pub fn of_self(supervisor: SupervisorId) -> io::Result<Self> {
        let pid = own_pid();
        Ok(Self {
            supervisor,
            pid,
            start_ticks: stat(pid)?.start_ticks,
            boot_id: boot_id()?.to_owned(),
            pid_ns: pid_namespace()?,
        })
    }

    /// Whether its process number means anything here: same boot, same pid namespace.
    pub fn is_local(&self) -> bool {
        boot_id().is_ok_and(|id| id == self.boot_id)
            && pid_namespace().is_ok_and(|ns| ns == self.pid_ns)
    }
}

/// A process, told from a later one with the same number by its start.
///
/// Written as `[pid, start_ticks, "name"]`, because it has to fit into a record of fixed size.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "(i32, u64, String)", into = "(i32, u64, String)")]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// When it was started, in clock ticks since boot.
    pub start_ticks: u64,
    /// Its command name as the kernel keeps it: at most 15 printable ASCII characters.
    pub name: String,
}

impl Process {
    /// Whether it still runs; a zombie does not.
    pub fn alive(&self) -> bool {
        stat(self.pid).is_ok_and(|now| now.start_ticks == self.start_ticks && now.runs())
    }
}

impl From<(i32, u64, String)> for Process {
    fn from((pid, start_ticks, name): (i32, u64, String)) -> Self {
        Self {
            pid,
            start_ticks,
            name,
        }
    }
}

impl From<Process> for (i32, u64, String) {
    fn from(process: Process) -> Self {
        (process.pid, process.start_ticks, process.name)
    }
}

/// The part of `/proc/PID/stat` that is used here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its number.
    pub pid: i32,
    /// Its command name, anything but printable ASCII replaced by `?`.
    pub name: String,
    /// The letter of its state: `R`, `S`, `D`, `T`, `Z`, …
    pub state: u8,
    /// Its parent.
    pub ppid: i32,
    /// Its session.
    pub session: i32,
    /// Processor time of its own threads, in clock ticks.
    pub own_ticks: u64,
    /// Processor time of its children that it has waited for, and of theirs, in clock ticks.
    pub waited_ticks: u64,
    /// When it was started, in clock ticks since boot.
    pub start_ticks: u64,
}

impl Stat {
    /// Whether it runs at all: a zombie only waits to be waited for.
    pub const fn runs(&self) -> bool {
        !matches!(self.state, b'Z' | b'X' | b'x')
    }

    /// Number, start and name.
    pub fn process(&self) -> Process {
        Process {
            pid: self.pid,
            start_ticks: self.start_ticks,
            name: self.name.clone(),
        }
    }
}

/// Reads `/proc/PID/stat`.
///
/// # Errors
///
/// There is no such process, or `/proc` cannot be read.
pub fn stat(pid: i32) -> io::Result<Stat> {
    // The system gives all of it to one read. Its 52 numbers and a name of at most 64 bytes are shorter than this.
    let mut bytes = [0; 2048];
    let length = File::open(format!("/proc/{pid}/stat"))?.read(&mut bytes)?;
    parse_stat(&bytes[..length])
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "unreadable /proc/PID/stat"))
}

/// Takes the fields out of a line of `/proc/PID/stat`. The name may hold anything, also spaces and parentheses.
fn parse_stat(bytes: &[u8]) -> Option<Stat> {
    let open = bytes.iter().position(|b| *b == b'(')?;
    let close = bytes.iter().rposition(|b| *b == b')')?;
    let pid = std::str::from_utf8(bytes.get(..open)?)
        .ok()?
        .trim()
        .parse()
        .ok()?;
    let name = bytes
        .get(open + 1..close)?
        .iter()
        .map(|b| match b {
            b'"' | b'\\' => '?',
            b if b.is_ascii_graphic() || *b == b' ' => char::from(*b),
            _ => '?',
        })
        .collect();
    let rest = std::str::from_utf8(bytes.get(close + 1..)?).ok()?;
    // The first of these is field 3, the state (proc_pid_stat(5)).
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        pid,
        name,
        state: *fields.first()?.as_bytes().first()?,
        ppid: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        own_ticks: number(14)? + number(15)?,
        waited_ticks: number(16)? + number(17)?,
        start_ticks: number(22)?,
    })
}

/// The number of this process.
pub fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_pid()
}

/// Whether `/proc` is there and shows this process under its own number. Without it nothing can be found or stopped
/// with certainty.
pub fn proc_available() -> bool {
    stat(own_pid()).is_ok()
        && fs::read_link("/proc/self").is_ok_and(|to| to.as_os_str() == &*own_pid().to_string())
        && boot_id().is_ok()
        && pid_namespace().is_ok()
}

/// The id that the kernel drew for this boot.
///
/// # Errors
///
/// `/proc` cannot be read.
pub fn boot_id() -> io::Result<&'static str> {
    static BOOT_ID: OnceLock<String> = OnceLock::new();
    if let Some(id) = BOOT_ID.get() {
        return Ok(id);
    }
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(BOOT_ID.get_or_init(|| id.trim().to_owned()))
}

/// The inode number of this process's pid namespace.
///
/// # Errors
///
/// `/proc` cannot be read.
pub fn pid_namespace() -> io::Result<u64> {
    static PID_NS: OnceLock<u64> = OnceLock::new();
    if let Some(ns) = PID_NS.get() {
        return Ok(*ns);
    }
    // A link that reads `pid:[4026531836]`.
    let link = fs::read_link("/proc/self/ns/pid")?;
    let inode = link
        .to_str()
        .and_then(|text| text.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok())
        .ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "unreadable /proc/self/ns/pid")
        })?;
    Ok(*PID_NS.get_or_init(|| inode))
}

/// Every process number that `/proc` shows.
fn all_pids() -> io::Result<Vec<i32>> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        pids.extend(
            entry?
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<i32>().ok()),
        );
    }
    Ok(pids)
}

/// The children of a process, whichever of its threads started them. Empty when there is no such process.
///
/// The kernel's list may miss some while siblings come and go; who needs certainty asks again.
pub fn children(pid: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for thread in threads.flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(list) => {
                found.extend(
                    list.split_ascii_whitespace()
                        .filter_map(|p| p.parse::<i32>().ok()),
                );
            }
            // The thread has just ended, or this kernel has no such list.
            Err(_) if has_children_lists() => {}
            Err(_) => return children_by_parent(pid),
        }
    }
    found
}

/// Whether the kernel was built with the lists of children (`CONFIG_PROC_CHILDREN`).
fn has_children_lists() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        fs::exists(format!("/proc/self/task/{}/children", own_pid())).unwrap_or(false)
    })
}

fn children_by_parent(parent: i32) -> Vec<i32> {
    all_pids()
        .unwrap_or_default()
        .into_iter()
        .filter(|pid| stat(*pid).is_ok_and(|stat| stat.ppid == parent))
        .collect()
}

/// Everything below a process, zombies included, parents before their children.
pub fn descendants(root: i32) -> Vec<Stat> {
    let mut seen = HashSet::from([root]);
    let mut open = vec![root];
    let mut found = Vec::new();
    while let Some(parent) = open.pop() {
        for child in children(parent) {
            if seen.insert(child)
                && let Ok(stat) = stat(child)
            {
                found.push(stat);
                open.push(child);
            }
        }
    }
    found
}

/// The chain of parents of a process, nearest first, each with its start time; the process itself is not in it.
///
/// This tells whether somebody stands below a live supervisor.
pub fn ancestors(pid: i32) -> Vec<(i32, u64)> {
    let mut chain = Vec::new();
    let mut seen = HashSet::from([pid]);
    let mut at = stat(pid).map_or(0, |stat| stat.ppid);
    while at > 0 && seen.insert(at) {
        let Ok(stat) = stat(at) else { break };
        chain.push((at, stat.start_ticks));
        at = stat.ppid;
    }
    chain
}

/// Whether the process that lives under this number now is the one that was meant, and it has not ended.
pub fn is_same(identity: &Identity) -> bool {
    identity.is_local()
        && stat(identity.pid).is_ok_and(|now| now.start_ticks == identity.start_ticks && now.runs())
}

/// Whether this supervisor, and nobody else under its number, was stopped (SIGSTOP) and not let go on.
pub(crate) fn is_stopped(identity: &Identity) -> bool {
    is_same(identity) && stat(identity.pid).is_ok_and(|now| now.state == b'T')
}

/// Lets a supervisor go on that somebody stopped, and nobody else. Returns whether it has ended within `patience`.
///
/// # Errors
///
/// It is there but may not be signalled.
pub(crate) fn let_go_on(identity: &Identity, patience: Duration) -> io::Result<bool> {
    let pidfd =
        Pid::from_raw(identity.pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let Some(pidfd) = pidfd.filter(|_| is_same(identity)) else {
        return Ok(true);
    };
    match pidfd_send_signal(&pidfd, Signal::CONT) {
        Ok(()) => Ok(has_ended(&pidfd, patience)),
        Err(rustix::io::Errno::SRCH) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Sends a signal to a supervisor and to nobody else. Returns whether it was there to receive it.
///
/// # Errors
///
/// The process is there but may not be signalled.
pub fn signal(identity: &Identity, signal: Signal) -> io::Result<bool> {
    if !identity.is_local() {
        return Ok(false);
    }
    signal_exactly(identity.pid, identity.start_ticks, signal)
}

/// Sends a signal to the process with this number and this start time. Returns whether there was one.
pub(crate) fn signal_exactly(pid: i32, start_ticks: u64, signal: Signal) -> io::Result<bool> {
    let Some(raw) = Pid::from_raw(pid) else {
        return Ok(false);
    };
    let pidfd = match pidfd_open(raw, PidfdFlags::empty()) {
        Ok(pidfd) => pidfd,
        Err(rustix::io::Errno::SRCH | rustix::io::Errno::INVAL) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    // The descriptor now holds on to whoever has the number; only then is it worth looking who that is.
    if !stat(pid).is_ok_and(|now| now.start_ticks == start_ticks) {
        return Ok(false);
    }
    match pidfd_send_signal(&pidfd, signal) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::SRCH) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Lets a process go on that somebody stopped (SIGSTOP), or is just stopping.
///
/// The number must be known to be the one that is meant: a child that has not been waited for, or checked before.
pub(crate) fn wake(pid: i32) {
    // For one that runs this does nothing but take back a stop that is on the way, which its state does not show yet.
    if let Ok(now) = stat(pid)
        && let Err(error) = signal_exactly(pid, now.start_ticks, Signal::CONT)
    {
        tracing::warn!(pid, %error, "cannot wake a stopped supervisor");
    }
}

/// Waits until a supervisor that is dying has ended, and ends it when that takes longer than `patience`.
pub(crate) fn end_for_certain(identity: &Identity, patience: Duration) {
    let pidfd =
        Pid::from_raw(identity.pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let Some(pidfd) = pidfd.filter(|_| is_same(identity)) else {
        return;
    };
    if !has_ended(&pidfd, patience) {
        let _ = pidfd_send_signal(&pidfd, Signal::KILL);
        has_ended(&pidfd, patience);
    }
}

/// Whether the process behind a pidfd has ended, after waiting for that at most `patience`.
pub(crate) fn has_ended(pidfd: impl AsFd, patience: Duration) -> bool {
    let begun = Instant::now();
    let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
    loop {
        let left = patience.saturating_sub(begun.elapsed());
        let left = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut fds, Some(&left)) {
            // A signal to this process says nothing of the other one.
            Err(rustix::io::Errno::INTR) => {}
            ended => return matches!(ended, Ok(1..)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_parentheses_and_spaces() {
        let line = b"42 (a) b (c) S 1 42 7 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 555 0 0\n";
        let stat = parse_stat(line).unwrap();
        assert_eq!(stat.name, "a) b (c");
        assert_eq!((stat.pid, stat.ppid, stat.session), (42, 1, 7));
        assert_eq!((stat.own_ticks, stat.waited_ticks), (30, 70));
        assert_eq!(stat.start_ticks, 555);
    }

    #[test]
    fn this_process_is_itself_and_a_later_one_with_its_number_is_not() {
        let me = Identity::of_self(SupervisorId(uuid::Uuid::nil())).unwrap();
        assert!(is_same(&me));
        let later = Identity {
            start_ticks: me.start_ticks + 1,
            ..me.clone()
        };
        assert!(!is_same(&later));
        assert!(!signal(&later, Signal::KILL).unwrap());
        let elsewhere = Identity {
            pid_ns: me.pid_ns + 1,
            ..me.clone()
        };
        assert!(!signal(&elsewhere, Signal::KILL).unwrap());
        let before = Identity {
            boot_id: "another".into(),
            ..me
        };
        assert!(!signal(&before, Signal::KILL).unwrap());
    }

    #[test]
    fn the_chain_of_parents_begins_with_the_parent() {
        let parent = rustix::process::getppid().unwrap().as_raw_pid();
        assert_eq!(ancestors(own_pid()).first().unwrap().0, parent);
        assert!(proc_available());
    }
}
