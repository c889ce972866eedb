//! What is below this supervisor: what runs there, what it has used, and signals to it.

use std::collections::HashSet;

use rustix::process::Signal;

use crate::process::{Process, Stat, descendants, own_pid, signal_exactly, stat};

/// Which part of what runs below is meant.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part<'a> {
    /// Everything.
    All,
    /// Everything but processes of these names and what is below them.
    Except(&'a [String]),
}

/// What runs below this supervisor now; zombies do not run.
pub(super) fn running(part: Part<'_>) -> Vec<Stat> {
    let mut spared: HashSet<i32> = HashSet::new();
    descendants(own_pid())
        .into_iter()
        .filter(|process| {
            // Parents come before their children, so being spared is handed down.
            let keep = match part {
                Part::All => false,
                Part::Except(names) => {
                    spared.contains(&process.ppid)
                        || names.iter().any(|name| is_name(name, process))
                }
            };
            if keep {
                spared.insert(process.pid);
            }
            !keep && process.runs()
        })
        .collect()
}

/// Whether a process has this command name; the kernel keeps 15 bytes of it.
fn is_name(name: &str, process: &Stat) -> bool {
    !name.is_empty() && name.as_bytes()[..name.len().min(15)] == *process.name.as_bytes()
}

/// Wakes a process that is stopped: it would never hear of what it was sent.
pub(super) fn wake(process: &Stat) {
    if process.state == b'T' {
        send(process, Signal::CONT);
    }
}

/// Sends a signal. Who may not be signalled (another user's process) is found again at the next look.
pub(super) fn send(process: &Stat, signal: Signal) {
    let _ = signal_exactly(process.pid, process.start_ticks, signal);
}

/// The processor time that everything below has used so far, what has ended included, in clock ticks.
pub(super) fn cpu_ticks() -> u64 {
    let waited = stat(own_pid()).map_or(0, |own| own.waited_ticks);
    descendants(own_pid())
        .iter()
        .map(|process| process.own_ticks + process.waited_ticks)
        .sum::<u64>()
        + waited
}

/// Numbers, start times and names, for a record.
pub(super) fn processes(stats: &[Stat]) -> Vec<Process> {
    stats.iter().map(Stat::process).collect()
}
