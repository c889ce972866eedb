//! A look at real processes through `/proc`, by identity rather than by name.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};

/// Every process id that can be seen.
pub fn all() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

/// The fields of `/proc/PID/stat` behind the command's name: index 0 is the state, 1 the parent, 3 the session, 4 the
/// terminal. `None` when there is no such process.
pub fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

/// Whether the process exists and is not a zombie.
pub fn alive(pid: u32) -> bool {
    stat(pid).is_some_and(|fields| !matches!(fields.first().map(String::as_str), Some("Z" | "X")))
}

/// The parent of a process.
pub fn parent(pid: u32) -> Option<u32> {
    stat(pid)?.get(1)?.parse().ok()
}

/// The children of `pid` that ended and that nobody has waited for.
pub fn zombies_of(pid: u32) -> Vec<u32> {
    all()
        .into_iter()
        .filter(|&child| {
            stat(child).is_some_and(|fields| {
                fields.first().is_some_and(|state| state == "Z")
                    && fields
                        .get(1)
                        .is_some_and(|parent| *parent == pid.to_string())
            })
        })
        .collect()
}

/// Every process below `pid`, `pid` itself not included.
pub fn descendants(pid: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = all()
        .into_iter()
        .filter_map(|child| Some((child, parent(child)?)))
        .collect();
    let mut found = vec![pid];
    let mut at = 0;
    while let Some(&above) = found.get(at) {
        for &(child, parent) in &parents {
            if parent == above && !found.contains(&child) {
                found.push(child);
            }
        }
        at += 1;
    }
    found.remove(0);
    found
}

/// The environment with which a process was started, one `NAME=value` each. Empty when it cannot be read.
pub fn environment(pid: u32) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    bytes
        .split(|byte| *byte == 0)
        .filter(|entry| !entry.is_empty())
        .map(|entry| String::from_utf8_lossy(entry).into_owned())
        .collect()
}

/// The living processes whose environment holds exactly this `NAME=value`.
pub fn with_environment(entry: &str) -> Vec<u32> {
    all()
        .into_iter()
        .filter(|&pid| environment(pid).iter().any(|found| found == entry) && alive(pid))
        .collect()
}

/// The program that a process runs.
pub fn program(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// The living processes that belong to a folder: it stands in their environment, or they work below it.
pub fn of_folder(folder: &Path) -> Vec<u32> {
    let Some(text) = folder.to_str() else {
        return Vec::new();
    };
    let own = std::process::id();
    all()
        .into_iter()
        .filter(|&pid| pid != own && alive(pid))
        .filter(|&pid| {
            fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(folder))
                || environment(pid).iter().any(|entry| entry.contains(text))
        })
        .collect()
}

/// Sends a signal. That the process is gone already is not an error.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// Sends SIGKILL.
pub fn kill9(pid: u32) {
    signal(pid, Signal::KILL);
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::time::{Duration, Instant};

    use super::*;

    /// A shell with a child of its own.
    fn shell_with_a_child(mark: &str) -> Child {
        Command::new("/bin/sh")
            .args(["-c", "sleep 60 & wait"])
            .env("CF_TESTKIT_MARK", mark)
            .spawn()
            .unwrap()
    }

    fn wait_until(condition: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !condition() {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_tree_is_found_by_parentage_and_by_mark_until_it_is_killed() {
        let mut shell = shell_with_a_child("tree");
        let pid = shell.id();
        wait_until(|| with_environment("CF_TESTKIT_MARK=tree").len() == 2);
        let below = descendants(pid);
        assert_eq!(below.len(), 1);
        assert_eq!(parent(below[0]), Some(pid));
        assert!(alive(pid) && alive(below[0]));
        kill9(pid);
        kill9(below[0]);
        wait_until(|| !alive(pid) && !alive(below[0]));
        assert!(zombies_of(std::process::id()).contains(&pid));
        shell.wait().unwrap();
        assert!(!zombies_of(std::process::id()).contains(&pid));
        assert!(with_environment("CF_TESTKIT_MARK=tree").is_empty());
    }

    #[test]
    fn processes_belong_to_the_folder_that_they_work_in_or_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        let mut inside = Command::new("sleep")
            .arg("60")
            .current_dir(&path)
            .spawn()
            .unwrap();
        let mut named = Command::new("sleep")
            .arg("60")
            .env("HOME", &path)
            .spawn()
            .unwrap();
        wait_until(|| of_folder(&path).len() == 2);
        let mut found = of_folder(&path);
        found.sort_unstable();
        let mut expected = vec![inside.id(), named.id()];
        expected.sort_unstable();
        assert_eq!(found, expected);
        for child in [&mut inside, &mut named] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
