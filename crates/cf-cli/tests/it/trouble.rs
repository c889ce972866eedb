//! A store that refuses, a start that does not come about, and stops that fall together with an end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cf_testkit::{Signal, Workspace, process};

use crate::{sleeper, until, waiter, workspace};

#[test]
fn a_success_that_did_not_come_to_its_verification_is_no_success() {
    let ws = workspace();
    ws.task("a")
        .run(&waiter("a"))
        .verify("touch verified; false")
        .add();
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    batch.kill9();
    ws.touch("a.go");
    ws.wait_for_quiet();
    ws.cf(["work", "batch", "stop", "--force", ws.batch_id().as_str()]);
    assert!(!ws.exists("verified"));
    assert_eq!(ws.status("a"), "READY");
    ws.ended("a", "CANCELLED", "stopped");
}

#[test]
fn the_dependents_of_a_task_that_is_stopped_by_hand_do_not_wait_for_it() {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    ws.task("b").run("touch b.ran").after("a").add();
    let batch = ws.start(["a", "b"]);
    ws.wait_for_pid("a.pid");
    ws.cf(["work", "stop", "a"]).ok();
    batch.wait().code(3);
    assert_eq!(ws.status("a"), "READY");
    ws.ended("a", "CANCELLED", "stopped by hand");
    ws.ended("b", "SKIPPED", "dependency a not done");
    assert!(!ws.exists("b.ran"));
}

#[test]
fn the_first_signal_stops_the_agents_also_while_the_database_is_locked() {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    let batch = ws.start(["a"]);
    let pid = ws.wait_for_pid("a.pid");
    let lock = ws.lock_database();
    batch.signal(Signal::INT);
    ws.wait_until("the agent is gone", || !process::alive(pid));
    drop(lock);
    batch.wait().code(130);
    assert_eq!(ws.status("a"), "READY");
    assert_eq!(ws.batch_status(), "CANCELLED");
}

#[test]
fn a_locked_database_is_said_once_and_settles_when_it_is_free() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    ws.add("b", "touch b.ran");
    let mut batch = ws.start(["a", "b"]);
    ws.wait_for_pid("a.pid");
    let lock = ws.lock_database();
    ws.touch("a.go");
    batch.wait_for_text("store");
    std::thread::sleep(Duration::from_millis(1_500));
    drop(lock);
    let output = batch.wait().ok();
    assert_eq!(
        ws.lines("a.pid"),
        1,
        "what ended while it was locked is not run again"
    );
    assert!(ws.exists("b.ran"));
    let text = output.text();
    let said: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("database is locked"))
        .collect();
    assert_eq!(said.len(), 1, "{text}");
    // Where the kernel lists locks it says who it is: the process of this test.
    if std::fs::read_to_string("/proc/locks").is_ok_and(|list| list.contains("POSIX")) {
        let holder = format!("process {} (", std::process::id());
        assert!(said[0].contains(&holder), "{text}");
    }
}

#[test]
fn a_batch_that_cannot_have_all_its_supervisors_goes_on_with_those_that_it_has() {
    let mut short = 0;
    for descriptors in [22, 26, 30] {
        let ws = workspace();
        let keys = ["a", "b", "c", "d", "e", "f", "g", "h"];
        for key in keys {
            ws.add(key, "exit 0");
        }
        let mut args = vec!["work", "batch", "run", "--max-parallel", "8"];
        args.extend(keys);
        let ended = ws
            .command(args)
            .under_limits(&format!("-n {descriptors}"))
            .run();
        if ended.text().contains("Too many open files") && ended.exit_code() == Some(0) {
            short += 1;
            assert!(keys.iter().all(|key| ws.status(key) == "DONE"));
        }
    }
    assert!(short > 0, "one of them had some supervisors, and too few");
}

#[test]
fn without_the_descriptors_for_an_event_loop_it_is_said_and_nothing_is_begun() {
    let ws = workspace();
    ws.add("a", "exit 0");
    let mut said = 0;
    for descriptors in 6..=16 {
        let ended = ws
            .command(["run", "a", "--force"])
            .under_limits(&format!("-n {descriptors}"))
            .run();
        if ended.exit_code() == Some(0) {
            continue;
        }
        let text = ended.refused().text();
        assert!(text.contains("error: cannot "), "{descriptors}: {text}");
        said += u32::from(text.contains("cannot start the event loop"));
    }
    assert!(said > 0, "one of them had too few for it alone");
}

#[test]
fn a_retry_that_is_due_and_has_no_slot_costs_nothing() {
    let ws = workspace();
    ws.add("a", "exit 1");
    ws.add("b", &waiter("b"));
    let batch = ws.start(["a", "b", "--retry", "1", "--retry-delay", "10ms"]);
    ws.wait_for_pid("b.pid");
    ws.wait_for_event("BATCH_TASK_RETRYING", "a");
    let before = cpu_ticks(batch.pid());
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(1) {
        std::thread::sleep(Duration::from_millis(100));
    }
    let used = cpu_ticks(batch.pid()) - before;
    ws.touch("b.go");
    batch.wait().code(3);
    // A tick is 10 ms: a loop that spins uses most of the second.
    assert!(used <= 20, "{used} ticks of a hundred");
}

/// The loop looks by itself once a second. A task that needs another supervisor than those that wait has one fetched at
/// once; were it left to the clock, each pair would cost a second.
#[test]
fn tasks_that_become_ready_together_do_not_wait_for_the_clock() {
    let pairs = 6;
    let took = |is_chain: bool| {
        let ws = workspace();
        for pair in 0..pairs {
            let waits = format!("while [ ! -e {pair}.up ]; do sleep 0.01; done");
            for (one, script) in [("a", waits), ("b", format!("touch {pair}.up"))] {
                let mut task = ws.task(&format!("{one}{pair}")).run(&script);
                if is_chain {
                    task = task.after(&format!("first{pair}"));
                }
                if is_chain && one == "a" {
                    let mut first = ws.task(&format!("first{pair}")).run("true");
                    if pair > 0 {
                        first = first
                            .after(&format!("a{}", pair - 1))
                            .after(&format!("b{}", pair - 1));
                    }
                    first.add();
                }
                task.add();
            }
            if !is_chain {
                ws.add(&format!("first{pair}"), "true");
            }
        }
        let begun = Instant::now();
        let all = ["--all-ready", "--max-parallel", "2"];
        ws.run(all).ok();
        begun.elapsed()
    };
    // The machine may be slow, but is so for both.
    let apart = took(false);
    let chained = took(true);
    assert!(
        chained < apart + Duration::from_secs(pairs / 2),
        "{chained:?}, and {apart:?} without dependencies"
    );
}

/// Processor time of a process, in clock ticks: fields 14 and 15 of its `stat`, counted behind its name.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let behind = stat.rsplit_once(')').expect("its name is in brackets").1;
    let fields: Vec<&str> = behind.split_whitespace().collect();
    fields[11].parse::<u64>().expect("a number") + fields[12].parse::<u64>().expect("a number")
}

#[test]
fn a_stop_in_the_instant_of_the_end_is_kept() {
    let ws = workspace();
    for round in 0..5 {
        let key = format!("t{round}");
        ws.add(&key, &until(&format!("{key}.go")));
        let batch = ws.start([key.as_str()]);
        ws.wait_for_event("BATCH_TASK_STARTED", &key);
        ws.touch(&format!("{key}.go"));
        let stopped = ws.cf(["work", "batch", "stop"]);
        let ended = batch.wait();
        if stopped.exit_code() == Some(0) {
            // Once a stop is stored, the batch ends CANCELLED, whatever came of its tasks.
            assert_eq!(ended.exit_code(), Some(5), "{}", ended.text());
        } else {
            assert_eq!(ended.exit_code(), Some(0), "{}", ended.text());
        }
    }
}

/// Stops every supervisor of a conductor but this one, again and again, until that is over or was waited for in vain.
fn keep_others_stopped(conductor: u32, but: u32, over: &AtomicBool) {
    let begun = Instant::now();
    while !over.load(Ordering::Relaxed) && begun.elapsed() < Duration::from_mins(1) {
        for child in cf_conductor::process::children(conductor.cast_signed()) {
            // Before it is a supervisor its conductor waits for it.
            let line = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
            if child.cast_unsigned() != but && line.starts_with(b"cf-supervise\0") {
                process::signal(child.cast_unsigned(), Signal::STOP);
            }
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Adds tasks to the running batch until one of them waits for a supervisor that has not said hello.
fn wait_for_a_supervisor(ws: &Workspace, batch: &str) {
    for key in ["b", "c", "d", "e", "f", "g"] {
        let add = [
            "tasks", "add", key, "--key", key, "--run", "true", "--batch", batch,
        ];
        ws.cf(add).ok();
        std::thread::sleep(Duration::from_millis(700));
        if ws.events_of("BATCH_TASK_STARTED", key).is_empty() {
            return;
        }
    }
    panic!("every supervisor said hello before it was stopped");
}

#[test]
fn a_stop_is_seen_while_a_supervisor_does_not_get_to_its_hello() {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    let batch = ws.start(["a", "--max-parallel", "9"]);
    let agent = ws.wait_for_pid("a.pid");
    let known = ws.supervisor("a");
    let over = AtomicBool::new(false);
    let took = std::thread::scope(|scope| {
        scope.spawn(|| keep_others_stopped(batch.pid(), known, &over));
        wait_for_a_supervisor(&ws, &ws.batch_id());
        let begun = Instant::now();
        let stop = ws.spawn(["work", "batch", "stop", "--force"]);
        ws.wait_until("the agent is gone", || !process::alive(agent));
        let took = begun.elapsed();
        over.store(true, Ordering::Relaxed);
        stop.wait();
        took
    });
    batch.wait().code(5);
    // One that is waited for to the end gets twenty seconds.
    assert!(took < Duration::from_secs(8), "{took:?}");
}
