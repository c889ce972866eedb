//! What processes take while they are looked at: memory, time on a core, wake-ups. From `/proc`, for everybody alike.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use crate::problem::Problem;

/// Every process below this one, itself included, whose program is accepted: agents are somebody else's cost.
pub(crate) fn below(root: u32, is_counted: impl Fn(&Path) -> bool) -> Result<Vec<u32>, Problem> {
    let mut parents = HashMap::new();
    for entry in fs::read_dir("/proc")? {
        let Ok(pid) = entry?.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        if let Some(parent) = parent(pid) {
            parents.insert(pid, parent);
        }
    }
    let is_below = |mut pid: u32| {
        while pid != root {
            match parents.get(&pid) {
                Some(parent) => pid = *parent,
                None => return false,
            }
        }
        true
    };
    let program = |pid: u32| fs::read_link(format!("/proc/{pid}/exe"));
    let found: Vec<u32> = parents
        .keys()
        .copied()
        .filter(|pid| is_below(*pid) && program(*pid).is_ok_and(|program| is_counted(&program)))
        .collect();
    if found.contains(&root) {
        return Ok(found);
    }
    Err(
        Problem::new(format!("the entry of {root} in /proc cannot be read"))
            .hint("a conductor makes itself undumpable; measure memory and idleness as root"),
    )
}

/// The parent of a process: the second field after the name, which may itself hold spaces and parentheses.
fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

/// The sum of the proportional set sizes of the processes, in MiB.
pub(crate) fn pss_mib(pids: &[u32]) -> Result<f64, Problem> {
    let mut kib = 0.0;
    for pid in pids {
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
        kib += field(&rollup, "Pss:").ok_or_else(|| Problem::new("smaps_rollup says no Pss"))?;
    }
    Ok(kib / 1024.0)
}

/// Nanoseconds on a core, and voluntary context switches, of every thread of the processes.
pub(crate) fn spent(pids: &[u32]) -> Result<(f64, f64), Problem> {
    let (mut nanoseconds, mut switches) = (0.0, 0.0);
    for pid in pids {
        for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
            let folder = thread?.path();
            let schedule = fs::read_to_string(folder.join("schedstat"))?;
            nanoseconds += schedule
                .split_whitespace()
                .next()
                .and_then(|text| text.parse::<f64>().ok())
                .unwrap_or_default();
            let status = fs::read_to_string(folder.join("status"))?;
            switches += field(&status, "voluntary_ctxt_switches:").unwrap_or_default();
        }
    }
    Ok((nanoseconds, switches))
}

fn field(text: &str, name: &str) -> Option<f64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}
