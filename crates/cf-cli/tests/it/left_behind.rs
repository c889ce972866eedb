//! What a conductor that is killed leaves in the workspace, and who tidies it up; and what no program has that is given
//! to people.

use std::fs;

use cf_testkit::Workspace;

use crate::{waiter, workspace};

fn files_of_supervisors(ws: &Workspace) -> usize {
    let folder = ws.root().join(".cf/supervisors");
    fs::read_dir(folder).map_or(0, Iterator::count)
}

#[test]
fn the_next_conductor_removes_the_files_of_dead_supervisors() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    ws.add("b", "exit 0");
    let batch = ws.start(["a", "b", "--max-parallel", "2"]);
    ws.wait_for_pid("a.pid");
    ws.wait_until("b is done", || ws.status("b") == "DONE");
    batch.kill9();
    ws.touch("a.go");
    ws.wait_for_quiet();
    assert!(files_of_supervisors(&ws) >= 1);
    // The file of an attempt that nobody has settled is still needed, and is read before it goes.
    ws.resume([""; 0]).ok();
    assert_eq!(ws.status("a"), "DONE");
    assert_eq!(ws.lines("a.pid"), 1);
    assert_eq!(files_of_supervisors(&ws), 0);
}

#[test]
#[cfg(not(feature = "fault-points"))]
fn an_ordinary_program_cannot_be_made_to_die_at_a_named_point() {
    let ws = workspace();
    let program = fs::read(ws.binary()).expect("the program can be read");
    let name = b"CF_FAULT";
    assert!(!program.windows(name.len()).any(|bytes| bytes == name));
    ws.command(["tasks", "add", "one"])
        .env("CF_FAULT", "wake.poked")
        .run()
        .ok();
}
