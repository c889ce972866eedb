//! What a process is given or denied: rights, an environment, a home, its own program, a sane clock.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use cf_testkit::{Workspace, process};

use crate::{empty_folder, waiter, workspace};

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

#[test]
fn without_a_home_everything_works() {
    let ws = workspace();
    ws.add("a", "test -z \"$HOME\"");
    let bare = |args: &[&str]| {
        let mut call = ws.command(args);
        for name in [
            "HOME",
            "XDG_CONFIG_HOME",
            "XDG_DATA_HOME",
            "XDG_STATE_HOME",
            "XDG_CACHE_HOME",
            "TMPDIR",
        ] {
            call = call.env_remove(name);
        }
        call.run().ok()
    };
    bare(&["run", "a"]);
    bare(&["config", "show"]);
    bare(&["status"]);
}

#[test]
fn an_environment_of_megabytes_reaches_the_agent_or_is_refused_by_name() {
    let ws = workspace();
    // As much as a kernel takes: 6 MiB, in strings of at most 128 KiB.
    ws.add("a", "env | wc -c > size");
    let script = "ulimit -s unlimited 2>/dev/null || exit 77
        big=$(head -c 100000 /dev/zero | tr '\\0' x)
        n=0; while [ $n -lt 50 ]; do export \"BIG_$n=$big\"; n=$((n + 1)); done
        exec \"$CF\" run a";
    let ended = ws.shell(script).run();
    if ended.exit_code() != Some(77) {
        ended.ok();
        let size: u64 = ws.read("size").trim().parse().expect("a number");
        assert!(size > 5_000_000, "{size}");
    }
    // Ten are more than any program can be started with.
    let variable = |n: u32| format!("V{n} = '{}'", "y".repeat(100_000));
    let variables: Vec<String> = (0..100).map(variable).collect();
    ws.plan(&format!(
        "[[task]]\nkey = 'b'\ntitle = 'b'\nrun = 'touch ran'\n[task.env]\n{}\n",
        variables.join("\n")
    ));
    ws.run(["--file", "plan.toml"]).code(3);
    assert!(!ws.exists("ran"));
    ws.ended("b", "FAILED", "rgument list too long");
}

#[test]
fn everything_in_the_folder_is_private_whatever_the_umask() {
    let ws = empty_folder();
    ws.plan("[[task]]\nkey = 'a'\ntitle = 'a'\nrun = 'echo said'\nverify = 'echo looked'\n");
    ws.shell("umask 0; exec \"$CF\" run --file plan.toml")
        .run()
        .ok();
    ws.shell("umask 0; exec \"$CF\" tasks add more").run().ok();
    let mut open = vec![ws.root().join(".cf")];
    let mut seen = 0;
    while let Some(path) = open.pop() {
        let meta = fs::symlink_metadata(&path).expect("it is there");
        if meta.is_symlink() {
            continue;
        }
        seen += 1;
        assert_eq!(
            meta.permissions().mode() & 0o077,
            0,
            "{} is {:o}",
            path.display(),
            meta.permissions().mode()
        );
        if meta.is_dir() {
            open.extend(
                fs::read_dir(&path)
                    .expect("it is ours")
                    .flatten()
                    .map(|entry| entry.path()),
            );
        }
    }
    assert!(seen > 10, "{seen}");
}

#[test]
fn a_process_that_may_not_be_signalled_is_named_and_not_taken_for_gone() {
    if !is_root() {
        eprintln!("only root can make a process that its own user may not signal");
        return;
    }
    let ws = Workspace::new(env!("CARGO_BIN_EXE_cf"));
    let base = ws.root().parent().expect("it has one").to_owned();
    // A program of root's that makes itself root's altogether, started by somebody else.
    ws.program("become-root", "");
    let strong = ws.bin().join("become-root");
    fs::copy("/usr/bin/setpriv", &strong).expect("util-linux is installed");
    fs::set_permissions(&strong, fs::Permissions::from_mode(0o4755)).expect("it is ours");
    // The program under test must be reachable for that somebody.
    let program = base.join("bin/cf");
    fs::copy(env!("CARGO_BIN_EXE_cf"), &program).expect("there is room");
    for folder in [
        base.clone(),
        base.join("ws"),
        base.join("home"),
        base.join("bin"),
    ] {
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }
    for folder in ["ws", "home", "tmp"] {
        std::os::unix::fs::chown(base.join(folder), Some(65_534), Some(65_534)).expect("root may");
    }
    let as_nobody = |args: &[&str]| {
        let call = [
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
        ];
        let program = program.to_str().expect("it is text");
        ws.program_call(
            "/usr/bin/env",
            call.iter()
                .copied()
                .chain([program])
                .chain(args.iter().copied()),
        )
    };
    as_nobody(&["init"]).run().ok();
    let script = format!(
        "{} --reuid=0 --regid=0 --clear-groups sh -c 'echo $$ > a.pid; exec sleep 60'",
        strong.display()
    );
    as_nobody(&["tasks", "add", "a", "--key", "a", "--run", &script])
        .run()
        .ok();
    let batch = as_nobody(&["run", "a", "--kill-grace", "100ms"]).spawn();
    let pid = ws.wait_for_pid("a.pid");
    if fs::metadata(format!("/proc/{pid}")).is_ok_and(|meta| meta.uid() != 0) {
        eprintln!("programs are not made root's here");
        process::kill9(pid);
        return;
    }
    as_nobody(&["work", "stop", "a"]).run().ok();
    let ended = batch.wait();
    assert!(process::alive(pid), "nobody could kill it");
    let shown = as_nobody(&["tasks", "show", "a", "--json"]).run().json();
    assert_eq!(shown["status"], "BLOCKED", "{ended:?}");
    assert!(
        shown["blockers"][0]["question"]
            .as_str()
            .is_some_and(|text| text.contains(&pid.to_string())),
        "{shown:#}"
    );
    as_nobody(&["run", "a"]).run().code(4);
    process::kill9(pid);
    ws.wait_until("it is gone", || !process::alive(pid));
    as_nobody(&["tasks", "edit", "a", "--run", "true"])
        .run()
        .ok();
    as_nobody(&["run", "a"]).run().ok();
}

#[test]
fn a_program_that_is_replaced_goes_on_with_what_it_was() {
    let ws = Workspace::new(env!("CARGO_BIN_EXE_cf"));
    let program = ws.bin().join("cf");
    fs::copy(env!("CARGO_BIN_EXE_cf"), &program).expect("there is room");
    let ws = ws.init();
    ws.add("a", &waiter("a"));
    ws.task("b").run("touch b.ran").after("a").add();
    // Two slots, so that a supervisor has to be started after the change.
    ws.task("c").run("touch c.ran").after("a").add();
    let batch = ws
        .program_call(&program, ["run", "a", "b", "c", "--max-parallel", "2"])
        .spawn();
    ws.wait_for_pid("a.pid");
    let fresh = ws.bin().join("cf.new");
    fs::write(&fresh, "#!/bin/sh\ntouch the.other\nexit 1\n").expect("there is room");
    fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755)).expect("it is ours");
    fs::rename(&fresh, &program).expect("it is ours");
    ws.touch("a.go");
    batch.wait().ok();
    assert!(ws.exists("b.ran") && ws.exists("c.ran"));
    assert!(
        !ws.exists("the.other"),
        "nothing of the new program was run"
    );
}

#[test]
fn a_program_that_is_removed_can_still_start_agents() {
    let ws = Workspace::new(env!("CARGO_BIN_EXE_cf"));
    let program = ws.bin().join("cf");
    fs::copy(env!("CARGO_BIN_EXE_cf"), &program).expect("there is room");
    let ws = ws.init();
    ws.add("a", &waiter("a"));
    ws.task("b").run("touch b.ran").after("a").add();
    let batch = ws.program_call(&program, ["run", "a", "b"]).spawn();
    ws.wait_for_pid("a.pid");
    fs::remove_file(&program).expect("it is ours");
    ws.touch("a.go");
    batch.wait().ok();
    assert!(ws.exists("b.ran"));
}

/// An hour and more than a year, forwards and backwards.
const JUMPS_MS: [i64; 4] = [3_600_000, -3_600_000, 40_000_000_000, -40_000_000_000];

#[test]
fn stored_times_of_another_clock_stop_nothing() {
    for jump in JUMPS_MS {
        let ws = workspace();
        ws.add("a", "echo ran >> ran; test -e good");
        ws.add("b", &waiter("b"));
        let batch = ws.start([
            "a",
            "b",
            "--max-parallel",
            "2",
            "--retry",
            "1",
            "--retry-delay",
            "1h",
        ]);
        ws.wait_for_pid("b.pid");
        ws.wait_for_event("BATCH_TASK_RETRYING", "a");
        batch.kill9();
        ws.touch("b.go");
        ws.touch("good");
        // What the clock says now is not what it said then.
        ws.sql_do(&format!(
            "UPDATE task SET created_at_ms = created_at_ms + {jump}, updated_at_ms = updated_at_ms + {jump};
             UPDATE batch SET started_at_ms = started_at_ms + {jump};
             UPDATE batch_task SET started_at_ms = started_at_ms + {jump}, not_before_ms = not_before_ms + {jump};
             UPDATE attempt SET started_at_ms = started_at_ms + {jump}, ended_at_ms = ended_at_ms + {jump};"
        ));
        for args in [
            ["status"].as_slice(),
            &["work", "batch", "status"],
            &["explain", "a"],
            &["tasks", "show", "a"],
            &["work", "batch", "list"],
        ] {
            let shown = ws.cf(args).ok().text();
            assert!(
                !shown.contains("took -") && !shown.contains("	-"),
                "{shown}"
            );
            ws.cf(args.iter().chain(&["--json"])).json();
        }
        ws.resume([] as [&str; 0]).ok();
        assert_eq!(ws.lines("ran"), 2, "jump {jump}");
        assert_eq!(ws.status("b"), "DONE");
    }
}
