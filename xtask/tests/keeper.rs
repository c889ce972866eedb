//! That nothing outlives a kept command, with real processes.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Starts a script below a keeper and returns it with the pid that the script prints first.
fn keep(script: &str) -> (Child, String) {
    let mut keeper = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["keep", "/bin/sh", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("this program starts");
    let mut line = String::new();
    let stdout = keeper.stdout.take().expect("it is piped");
    BufReader::new(stdout)
        .read_line(&mut line)
        .expect("the script prints a line");
    (keeper, line.trim().to_owned())
}

fn lives(pid: &str) -> bool {
    // An ended process whose parent has not looked is no longer there for anybody else.
    fs::read_to_string(Path::new("/proc").join(pid).join("stat"))
        .is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn when_the_pipe_closes_everything_below_ends() {
    let (mut keeper, pid) = keep("setsid sleep 300 & echo $!; setsid sleep 300; sleep 300");
    assert!(lives(&pid));
    drop(keeper.stdin.take());
    let start = Instant::now();
    keeper.wait().unwrap();
    assert!(!lives(&pid));
    assert!(start.elapsed() < Duration::from_mins(1));
}

#[test]
fn what_a_command_leaves_behind_is_ended_and_said() {
    // Nobody below holds the keeper's own output, or reading it would wait for them.
    let (mut keeper, pid) = keep("setsid sleep 300 >&- 2>&- & echo $!");
    let held = keeper.stdin.take();
    let status = keeper.wait().unwrap();
    drop(held);
    assert!(!lives(&pid));
    assert_eq!(status.code(), Some(1));
    let mut said = String::new();
    keeper
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert!(said.contains(&format!("sleep ({pid})")), "{said}");
}

#[test]
fn the_exit_code_of_a_command_is_its_keepers() {
    let (mut keeper, pid) = keep("echo $$; exit 7");
    let held = keeper.stdin.take();
    let status = keeper.wait().unwrap();
    drop(held);
    assert_eq!(status.code(), Some(7));
    assert!(!lives(&pid));
}

#[test]
fn a_folder_is_removed_at_every_end() {
    let ground = std::env::temp_dir().join(format!("cf-keeper-{}", std::process::id()));
    let ends: [(&str, bool); 2] = [
        ("a killed chore", true),
        ("a command that ends by itself", false),
    ];
    for (end, is_killed) in ends {
        let folder = ground.join("folder");
        let wait = if is_killed { "sleep 300" } else { "exit 7" };
        let script = format!("mkdir -p \"$0/in\" && : > \"$0/in/file\" && echo made && {wait}");
        let mut keeper = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(["keep", "--sweep"])
            .arg(&folder)
            .args(["/bin/sh", "-c", &script])
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program starts");
        let mut line = String::new();
        let stdout = keeper.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert_eq!(line, "made\n", "{end}");
        let held = keeper.stdin.take();
        if is_killed {
            drop(held);
            keeper.wait().unwrap();
        } else {
            assert_eq!(keeper.wait().unwrap().code(), Some(7), "{end}");
            drop(held);
        }
        assert!(!folder.exists(), "{end}");
    }
    fs::remove_dir_all(&ground).unwrap();
}

#[test]
fn a_folder_is_removed_also_when_its_command_cannot_be_started() {
    let folder = std::env::temp_dir().join(format!("cf-keeper-unstarted-{}", std::process::id()));
    fs::create_dir_all(folder.join("in")).unwrap();
    let ended = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["keep", "--sweep"])
        .arg(&folder)
        .arg(folder.join("no-program"))
        .stdin(Stdio::piped())
        .output()
        .expect("this program starts");
    let is_left = folder.exists();
    let _ = fs::remove_dir_all(&folder);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(!is_left, "{ended:?}");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("no-program"), "{said}");
}
