//! Core dumps: who knows a tracker's token leaves none.

use std::fs;
use std::path::PathBuf;

use cf_testkit::{Signal, Workspace, process};

use crate::{sleeper, workspace};

const TOKEN: &str = "the-secret-token";

/// The dumps that lie in the workspace's folder, where the system puts them there (`core_pattern`).
fn dumps(ws: &Workspace) -> Vec<PathBuf> {
    let entries = fs::read_dir(ws.root()).expect("the folder can be read");
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().contains("/core"))
        .collect()
}

fn follow(ws: &Workspace, token: Option<&str>) -> bool {
    let mut call = ws.command(["events", "--follow"]);
    if let Some(token) = token {
        call = call.env("GH_TOKEN", token);
    }
    let mut reader = call.under_limits("-c unlimited").spawn();
    reader.wait_for_text("WORKSPACE_CREATED");
    reader.signal(Signal::ABORT);
    reader.wait().dumped_core()
}

#[test]
fn whoever_knows_a_token_leaves_no_core_dump() {
    let ws = workspace();
    if !follow(&ws, None) {
        eprintln!("this system dumps nothing: nothing was tried");
        return;
    }
    assert!(!follow(&ws, Some(TOKEN)), "a reader");
    for dump in dumps(&ws) {
        fs::remove_file(dump).unwrap();
    }
    ws.add("a", &sleeper("a"));
    let batch = ws
        .command(["work", "batch", "run", "a"])
        .env("GITHUB_TOKEN", TOKEN)
        .under_limits("-c unlimited")
        .spawn();
    let agent = ws.wait_for_pid("a.pid");
    let supervisor = ws.supervisor("a");
    batch.signal(Signal::ABORT);
    assert!(!batch.wait().dumped_core(), "a conductor");
    // The agent and its supervisor may: they never had it.
    for pid in [supervisor, agent] {
        process::signal(pid, Signal::ABORT);
        ws.wait_until("it has ended", || !process::alive(pid));
    }
    let dumps = dumps(&ws);
    assert!(
        !dumps.is_empty()
            || !fs::read("/proc/sys/kernel/core_pattern")
                .unwrap()
                .starts_with(b"core")
    );
    for dump in dumps {
        let bytes = fs::read(&dump).unwrap();
        let holds = bytes
            .windows(TOKEN.len())
            .any(|window| window == TOKEN.as_bytes());
        assert!(!holds, "{}", dump.display());
    }
    ws.cf(["work", "batch", "stop", "--force", &ws.batch_id()])
        .ok();
    ws.no_agent_left();
}
