//! What a conductor does to itself, and the probe of a supervisor's lock.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, WaitId, WaitIdOptions, WaitOptions, getpid, getrlimit,
    set_child_subreaper, set_dumpable_behavior, setrlimit, waitid, waitpid,
};

use super::{Stat, children, own_pid, stat};
use crate::workspace::inside;

/// Makes this process the parent of whatever a dead supervisor leaves behind.
///
/// # Errors
///
/// The kernel refuses.
pub fn become_subreaper() -> io::Result<()> {
    // Any number but 0 means yes.
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Forbids unprivileged processes of the same user to read this one's `/proc` entry, its environment above all.
///
/// # Errors
///
/// The kernel refuses.
pub fn make_undumpable() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Keeps every descriptor above the standard three from the programs that this process starts.
///
/// `cf` opens everything that way itself; this is for what whoever called it had open (`cf … 9<secret`). It is to be
/// called once, before the first supervisor is started, and does no harm when other threads run.
pub fn close_on_exec_all() {
    close_fds::set_fds_cloexec_threadsafe(3, &[]);
}

/// Whether this process was started with a signal ignored, as `nohup` and shells do. To be asked before anything
/// listens to it.
pub fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    // Signal 1 is bit 0 (proc_pid_status(5)).
    (1..=64).contains(&signal) && mask & (1 << (signal - 1)) != 0
}

/// Lets a write past the limit on the size of files (`ulimit -f`) fail with `EFBIG`, where SIGXFSZ would end this
/// process.
///
/// The signal gets a handler that does nothing: what is ignored would stay ignored in the programs that this process
/// starts. One that was ignored from the start stays so, here and there.
///
/// # Errors
///
/// The kernel refuses.
pub fn survive_file_limit() -> io::Result<()> {
    use signal_hook::consts::SIGXFSZ;

    if !is_ignored(SIGXFSZ) {
        signal_hook::flag::register(SIGXFSZ, Arc::default())?;
    }
    Ok(())
}

/// How large, in bytes, a file may become by this process's writing (`ulimit -f`); nothing stands for any size.
pub fn most_bytes_of_a_file() -> Option<u64> {
    getrlimit(Resource::Fsize).current
}

/// Lets this process have so many files open, or as many as the system allows, and returns the limit that it had when
/// that was lower: it is still the right one for agents and hooks, some of which go through all numbers up to it. git
/// keeps the raised one.
///
/// # Errors
///
/// The kernel refuses.
pub fn make_room_for_files(wanted: u64) -> io::Result<Option<Rlimit>> {
    let usual = getrlimit(Resource::Nofile);
    match raised(usual, wanted) {
        None => Ok(None),
        Some(limit) => {
            setrlimit(Resource::Nofile, limit)?;
            Ok(Some(usual))
        }
    }
}

/// How many files this process may have open; nothing stands for any number.
pub fn most_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// The limit under which so many can be open, or as near to it as may be; none where the present one is as good.
fn raised(usual: Rlimit, wanted: u64) -> Option<Rlimit> {
    let most = usual.maximum.map_or(wanted, |most| most.min(wanted));
    usual.current.filter(|now| *now < most).map(|_| Rlimit {
        current: Some(most),
        ..usual
    })
}

/// Whether a child of this process has been stopped (SIGSTOP) and not been let go on.
pub(crate) fn is_stopped_child(pid: i32) -> bool {
    // It is only asked about, so that the next call says the same, and its end stays to be waited for.
    let how = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Pid::from_raw(pid).is_some_and(|pid| matches!(waitid(WaitId::Pid(pid), how), Ok(Some(_))))
}

/// Whether somebody holds the lock on a supervisor's file, which is what being alive means: it is released by death
/// and is seen across pid namespaces. A file that is not there is held by nobody.
pub fn lock_held(path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let Ok(file) = inside::open(path, flags, Mode::empty()) else {
        return false;
    };
    matches!(
        flock(File::from(file), FlockOperation::NonBlockingLockShared),
        Err(rustix::io::Errno::WOULDBLOCK)
    )
}

/// The children of this process that it did not start: orphans that came to it as a subreaper.
///
/// Whatever this program starts by itself either stays in its session (git, for example) or is named in
/// `own_children` (the supervisors, each in a session of its own). What comes from below a supervisor is never in this
/// process's session. Its number is read from `/proc`, not by `getsid`: it is 0 where the leader of the session is
/// outside this pid namespace, as in a container, and `rustix` takes 0 for impossible.
pub fn adopted(own_children: &[i32]) -> Vec<Stat> {
    let own_children: HashSet<i32> = own_children.iter().copied().collect();
    let mut others = children(own_pid());
    others.retain(|pid| !own_children.contains(pid));
    if others.is_empty() {
        return Vec::new();
    }
    let Ok(own) = stat(own_pid()) else {
        return Vec::new();
    };
    others
        .into_iter()
        .filter_map(|pid| stat(pid).ok())
        // Its number may belong to somebody else since.
        .filter(|stat| stat.ppid == own_pid())
        .filter(|stat| stat.session != own.session)
        .collect()
}

/// Waits for an adopted orphan if it has ended, so that it stays no zombie. Returns whether it had.
///
/// It waits by number and never for just any child: that would steal the end of children that `std` or tokio wait for.
pub fn reap(orphan: &Stat) -> bool {
    !orphan.runs()
        && Pid::from_raw(orphan.pid)
            .is_some_and(|pid| matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(Some(_))))
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case(Some(1_024), Some(4_096), 1_600 => Some(1_600); "as many as are wanted")]
    #[test_case(Some(1_024), Some(1_200), 1_600 => Some(1_200); "no more than may be")]
    #[test_case(Some(1_024), None, 1_600 => Some(1_600); "no bound above")]
    #[test_case(Some(2_000), Some(4_096), 1_600 => None; "enough already")]
    #[test_case(Some(1_024), Some(1_024), 1_600 => None; "nothing to be had")]
    #[test_case(None, None, 1_600 => None; "no limit at all")]
    fn a_limit_is_raised_as_far_as_it_has_to_be(
        current: Option<u64>,
        maximum: Option<u64>,
        wanted: u64,
    ) -> Option<u64> {
        let limit = raised(Rlimit { current, maximum }, wanted)?;
        assert_eq!(limit.maximum, maximum);
        limit.current
    }
}
