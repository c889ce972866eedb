//! No `/proc`, a file system that cannot be written, and process numbers of another world.

use cf_testkit::{Running, Workspace, process};

use super::unshare;
use crate::{sleeper, waiter, workspace};

const READING: &[&[&str]] = &[
    &["status"],
    &["tasks", "list"],
    &["tasks", "show", "a"],
    &["work", "batch", "status"],
    &["work", "logs", "a"],
    &["events"],
    &["explain", "a"],
    &["blocker", "list"],
];

/// A line of shell that calls `cf` with these words, and goes on with `then`.
fn call(args: &[&str], then: &str) -> String {
    format!("\"$CF\" '{}'{then}\n", args.join("' '"))
}

fn calls(all: &[&[&str]], then: &str) -> String {
    let lines: Vec<String> = all.iter().map(|args| call(args, then)).collect();
    lines.concat()
}

fn in_namespace(ws: &Workspace, flags: &[&str], script: &str) -> Option<cf_testkit::Output> {
    let mut call = unshare(ws, flags)?;
    call.extend(["sh", "-c", script].map(str::to_owned));
    Some(ws.program_call("/usr/bin/env", call).run())
}

#[test]
fn without_proc_no_batch_runs_and_everything_can_be_read() {
    let ws = workspace();
    ws.add("a", "echo said");
    ws.run(["a"]).ok();
    ws.add("b", "touch ran");
    let script = format!(
        "mount -t tmpfs none /proc || exit 99; cd \"$PWD\"; set -e\n{}{}set +e\n{}",
        calls(READING, ""),
        call(&["tasks", "add", "more", "--run", "true"], ""),
        call(&["run", "b"], "; echo code $?"),
    );
    let Some(ended) = in_namespace(&ws, &["--mount"], &script) else {
        return;
    };
    let ended = ended.ok().says("code 1").says("/proc");
    assert!(!ended.text().contains("panicked"), "{ended:?}");
    assert!(!ws.exists("ran"));
    assert_eq!(ws.status("b"), "READY");
}

#[test]
fn what_cannot_be_written_can_be_read_and_says_so() {
    let ws = workspace();
    ws.add("a", "echo said");
    ws.run(["a"]).ok();
    ws.add("b", "touch ran");
    let writing: &[&[&str]] = &[
        &["run", "b"],
        &["tasks", "add", "x"],
        &["tasks", "set", "status", "b", "DONE"],
        &["init"],
        &["resume"],
    ];
    let script = format!(
        "mount --bind . . && mount -o remount,bind,ro . && cd \"$PWD\" || exit 99; set -e\n{}set +e\n{}",
        calls(READING, ""),
        calls(writing, " 2>> \"$HOME/said\"; echo code $?"),
    );
    let Some(ended) = in_namespace(&ws, &["--mount"], &script) else {
        return;
    };
    let ended = ended.ok();
    let codes: Vec<_> = ended
        .stdout()
        .lines()
        .filter(|line| line.starts_with("code "))
        .map(str::to_owned)
        .collect();
    // `init` finds a workspace, and everything else is refused.
    assert_eq!(codes.len(), 5, "{ended:?}");
    assert!(
        codes.iter().filter(|code| **code == "code 1").count() >= 4,
        "{codes:?}"
    );
    let said = std::fs::read_to_string(ws.home().join("said")).expect("something was said");
    assert!(
        said.contains("cannot be written") || said.contains("Read-only"),
        "{said}"
    );
    assert!(!said.contains("panicked"), "{said}");
    assert_eq!(ws.status("b"), "READY");
}

/// Starts a shell script as the first process of a pid namespace of its own.
fn in_its_own_world<'w>(ws: &'w Workspace, script: &str) -> Option<Running<'w>> {
    let mut call = unshare(ws, &["--pid", "--fork", "--kill-child", "--mount-proc"])?;
    call.extend(["sh", "-c", script].map(str::to_owned));
    Some(ws.program_call("/usr/bin/env", call).spawn())
}

#[test]
fn a_batch_in_another_pid_namespace_is_alive_while_its_lock_is_held() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    let Some(world) = in_its_own_world(&ws, "\"$CF\" run a; code=$?; exit $code") else {
        return;
    };
    ws.wait_for_line("a.pid");
    ws.cf(["resume"]).refused();
    ws.cf(["resume", ws.batch_id().as_str()]).refused();
    assert_eq!(
        ws.batch()["conductor"]["alive"],
        ws.batch()["conductor"]["alive"]
    );
    let text = ws.batch_text();
    assert!(!text.contains("conductor is gone"), "{text}");
    ws.cf(["work", "batch", "stop", "--force"]).ok();
    world.wait().code(5);
    assert_eq!(ws.status("a"), "READY");
    assert_eq!(ws.lines("a.pid"), 1, "it ran once");
}

#[test]
fn a_batch_out_here_is_alive_for_a_namespace_in_which_its_numbers_mean_nothing() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    let batch = ws.start(["a"]);
    let pid = ws.wait_for_pid("a.pid");
    let Some(world) = in_its_own_world(
        &ws,
        "\"$CF\" resume; echo code $?; \"$CF\" status; \"$CF\" reconcile; \"$CF\" work batch stop",
    ) else {
        return;
    };
    let said = world.wait().ok().says("code 1");
    assert!(!said.text().contains("conductor is gone"), "{said:?}");
    assert!(process::alive(pid));
    ws.touch("a.go");
    batch.wait().code(5);
    assert_eq!(ws.status("a"), "DONE");
    assert_eq!(ws.lines("a.pid"), 1);
}

#[test]
fn an_agent_of_another_pid_namespace_is_waited_for_and_never_signalled() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    // The conductor dies, and its world lives on with the supervisor and the agent in it.
    let Some(world) = in_its_own_world(
        &ws,
        "\"$CF\" run a & echo $! > conductor; while [ ! -e die ]; do sleep 0.05; done; kill -9 $!; wait $!; touch died; while [ ! -e end ]; do sleep 0.05; done",
    ) else {
        return;
    };
    let inner: i32 = ws.wait_for_line("a.pid").trim().parse().expect("a number");
    ws.touch("die");
    ws.wait_until("it died", || ws.exists("died"));
    // A process out here that has the agent's number in there, if there is one, is a stranger.
    let stranger = u32::try_from(inner).is_ok_and(process::alive);
    let mut resumed = ws.spawn(["resume"]);
    ws.wait_for_event("ATTEMPT_ADOPTED", "a");
    ws.touch("a.go");
    assert!(resumed.is_running() || ws.status("a") == "DONE");
    resumed.wait().ok();
    assert_eq!(ws.status("a"), "DONE");
    assert_eq!(ws.lines("a.pid"), 1, "it ran once");
    assert_eq!(u32::try_from(inner).is_ok_and(process::alive), stranger);
    ws.touch("end");
    world.wait();
}

#[test]
fn an_agent_of_another_pid_namespace_cannot_be_stopped_from_here_and_that_is_said() {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    let Some(world) = in_its_own_world(
        &ws,
        "\"$CF\" run a & while [ ! -e die ]; do sleep 0.05; done; kill -9 $!; wait $!; touch died; while [ ! -e end ]; do sleep 0.05; done",
    ) else {
        return;
    };
    ws.wait_for_line("a.pid");
    ws.touch("die");
    ws.wait_until("it died", || ws.exists("died"));
    let stopped = ws.cf(["work", "batch", "stop", "--force", ws.batch_id().as_str()]);
    assert!(stopped.exit_code() != Some(0), "{stopped:?}");
    assert!(
        stopped.text().contains("namespace") || stopped.text().contains("container"),
        "{stopped:?}"
    );
    assert_ne!(ws.status("a"), "DONE");
    assert_eq!(ws.lines("a.pid"), 1);
    ws.touch("end");
    world.wait();
    // Its world is gone, and its agent with it.
    ws.cf(["work", "batch", "stop", "--force", ws.batch_id().as_str()])
        .ok();
    assert_eq!(ws.status("a"), "FAILED");
    ws.ended("a", "FAILED", "lost");
}
