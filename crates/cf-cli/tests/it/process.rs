//! What becomes of an agent and of everything that it starts.

use std::time::{Duration, Instant};

use cf_testkit::process;

use crate::{plan_of, sleeper, waiter, workspace};

#[test]
fn a_loop_in_the_background_is_gone_after_a_stop() {
    let ws = workspace();
    ws.add(
        "a",
        "sh -c 'while :; do date >> f; sleep 0.05; done & echo $! > loop.pid; wait'",
    );
    let batch = ws.start(["a"]);
    let looping = ws.wait_for_pid("loop.pid");
    ws.wait_for_lines("f", 2);
    ws.cf(["work", "batch", "stop", "--force"]).ok();
    batch.wait().code(5);
    assert!(!process::alive(looping));
    ws.no_agent_left();
    let attempt = &ws.attempts("a")[0];
    assert_eq!(attempt["end"], "killed", "{attempt}");
}

#[test]
fn what_an_agent_leaves_in_a_session_of_its_own_is_stopped_and_said() {
    let ws = workspace();
    ws.add("a", "setsid sh -c 'echo $$ > far.pid; sleep 300; true' & while [ ! -s far.pid ]; do sleep 0.02; done; exit 0");
    ws.run(["a"]).ok();
    let far = ws.wait_for_pid("far.pid");
    assert!(!process::alive(far));
    ws.no_agent_left();
    assert_eq!(ws.status("a"), "DONE");
    let left = ws.attempts("a")[0]["left_behind"].as_u64();
    assert!(left.is_some_and(|count| count >= 1), "{left:?}");
}

#[test]
fn everything_below_a_wrapper_is_stopped() {
    let ws = workspace();
    ws.add(
        "a",
        "sh -c 'sh -c \"echo \\$\\$ > deep.pid; sleep 60; true\"; true'; true",
    );
    let batch = ws.start(["a"]);
    let deep = ws.wait_for_pid("deep.pid");
    ws.cf(["work", "stop", "a"]).ok();
    batch.wait().code(3);
    assert!(!process::alive(deep));
    ws.no_agent_left();
}

#[test]
fn an_agent_that_ignores_sigterm_is_killed_after_the_grace() {
    let ws = workspace();
    ws.add(
        "a",
        "trap '' TERM; echo $$ > a.pid; while :; do sleep 0.1; done",
    );
    let batch = ws.start(["a", "--kill-grace", "700ms"]);
    let pid = ws.wait_for_pid("a.pid");
    let started = Instant::now();
    ws.cf(["work", "batch", "stop", "--force"]).ok();
    batch.wait().code(5);
    assert!(
        started.elapsed() >= Duration::from_millis(600),
        "the grace was given"
    );
    assert!(!process::alive(pid));
    ws.no_agent_left();
    assert_eq!(ws.attempts("a")[0]["end"], "killed");
    let ended = ws.events_named("ATTEMPT_ENDED");
    let record = ended.last().expect("the attempt ended")["data"]
        .to_string()
        .to_uppercase();
    assert!(
        record.contains("TERM") && record.contains("KILL"),
        "the receipt shows both signals: {record}"
    );
}

#[test]
fn an_agent_that_ends_within_the_grace_is_not_killed() {
    let ws = workspace();
    ws.add(
        "a",
        "trap 'echo bye > bye; exit 0' TERM; echo $$ > a.pid; while :; do sleep 0.05; done",
    );
    let batch = ws.start(["a", "--kill-grace", "30s"]);
    ws.wait_for_pid("a.pid");
    let started = Instant::now();
    ws.cf(["work", "batch", "stop", "--force"]).ok();
    batch.wait().code(5);
    assert!(started.elapsed() < Duration::from_secs(20));
    assert_eq!(ws.read("bye"), "bye\n");
    assert_eq!(
        ws.status("a"),
        "READY",
        "a stopped task is not done, whatever its agent's exit code"
    );
}

#[test]
fn an_attempt_ends_with_its_agent_not_with_its_output() {
    let ws = workspace();
    ws.add("a", "sleep 600 & echo $! > left.pid; exit 0");
    let started = Instant::now();
    ws.run(["a", "--kill-grace", "2s"]).ok();
    assert!(started.elapsed() < Duration::from_secs(20));
    assert!(!process::alive(ws.wait_for_pid("left.pid")));
    assert_eq!(ws.status("a"), "DONE");
}

#[test]
fn a_stranger_is_never_touched() {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    let mut stranger = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .expect("sleep is installed");
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    ws.cf(["work", "batch", "stop", "--force"]).ok();
    batch.wait().code(5);
    assert!(process::alive(stranger.id()));
    stranger.kill().expect("it is our own child");
    stranger.wait().expect("it is our own child");
}

#[test]
fn an_agent_killed_by_somebody_is_failed_with_the_signal_named() {
    let ws = workspace();
    ws.add("a", "kill -9 $$");
    ws.run(["a"]).code(3);
    ws.ended("a", "FAILED", "SIGKILL");
    let attempt = &ws.attempts("a")[0];
    assert_eq!(attempt["end"], "exited");
    assert!(attempt["exit_code"].is_null());
    assert!(!attempt["signal"].is_null());
}

#[test]
fn an_agent_killed_by_somebody_is_retried_by_policy() {
    let ws = workspace();
    ws.add(
        "a",
        "echo x >> runs; [ $(wc -l < runs) -ge 2 ] || kill -9 $$",
    );
    ws.run(["a", "--retry", "1", "--retry-delay", "10ms"]).ok();
    assert_eq!(ws.lines("runs"), 2);
}

#[test]
fn a_flood_of_output_is_bounded_and_keeps_head_and_tail() {
    let ws = workspace();
    ws.add(
        "a",
        "echo THE-HEAD; head -c 300000000 /dev/zero; echo; echo THE-TAIL; grep VmHWM /proc/$PPID/status > memory",
    );
    ws.run(["a"]).ok();
    let log = ws.attempts("a")[0]["log"]
        .as_str()
        .expect("a path is text")
        .to_owned();
    let size = std::fs::metadata(ws.root().join(log))
        .expect("there is a log")
        .len();
    assert!(size < 128 << 20, "{size} bytes");
    let shown = ws.cf(["work", "logs", "a"]).ok();
    assert!(shown.stdout().contains("THE-HEAD") && shown.stdout().contains("THE-TAIL"));
    let memory: u64 = ws
        .read("memory")
        .split_whitespace()
        .nth(1)
        .and_then(|kb| kb.parse().ok())
        .expect("the supervisor's memory is known");
    assert!(memory < 200 << 10, "{memory} kB");
}

#[test]
fn bytes_that_are_not_text_are_kept_in_the_log() {
    let ws = workspace();
    ws.add("a", "printf 'before \\377\\376 after\\n'");
    ws.run(["a"]).ok();
    let log = ws.attempts("a")[0]["log"]
        .as_str()
        .expect("a path is text")
        .to_owned();
    let bytes = std::fs::read(ws.root().join(log)).expect("there is a log");
    assert!(bytes.windows(2).any(|pair| pair == [0xff, 0xfe]));
    let shown = ws.cf(["work", "logs", "a"]).ok();
    assert!(
        std::str::from_utf8(shown.stdout_bytes()).is_ok(),
        "what is shown is text"
    );
}

#[test]
fn an_agent_that_reads_its_input_meets_the_end_at_once() {
    let ws = workspace();
    ws.add(
        "a",
        "cat > got; echo end >> got; readlink /proc/self/fd/0 > input",
    );
    ws.run(["a"]).ok();
    assert_eq!(ws.read("got"), "end\n");
}

#[test]
fn a_hundred_tasks_leave_no_zombie() {
    let ws = workspace();
    let plan = ws.plan(&plan_of(100, "(exit 0) & exit 0"));
    let mut batch = ws.start(["--file", plan, "--max-parallel", "4"]);
    // A process that has just ended is a zombie until its parent looks; one that is seen twice was forgotten.
    let mut seen: Vec<u32> = Vec::new();
    while batch.is_running() {
        let mut below = vec![batch.pid()];
        below.extend(process::descendants(batch.pid()));
        let now: Vec<u32> = below
            .iter()
            .flat_map(|pid| process::zombies_of(*pid))
            .collect();
        let stuck: Vec<_> = now.iter().filter(|pid| seen.contains(pid)).collect();
        assert!(stuck.is_empty(), "zombies: {stuck:?}");
        seen = now;
        std::thread::sleep(Duration::from_millis(200));
    }
    batch.wait().ok();
    assert_eq!(ws.batch()["counts"]["completed"], 100);
    ws.wait_for_quiet();
}

#[test]
fn leftovers_may_be_reported_and_left() {
    let ws = workspace();
    ws.config("leftovers = 'report'\n");
    ws.add("a", "setsid sleep 60 & echo $! > left.pid; exit 0");
    ws.run(["a"]).ok();
    assert!(process::alive(ws.wait_for_pid("left.pid")), "it is left");
    let left = ws.attempts("a")[0]["left_behind"].as_u64();
    assert!(left.is_some_and(|count| count >= 1), "and said: {left:?}");
}

/// A container's shell is often led by a process outside its pid namespace: the session's number is 0 there.
#[test]
fn a_batch_runs_where_the_leader_of_its_session_is_outside_its_pid_namespace() {
    let ws = workspace();
    ws.add("a", "setsid sleep 300 & exit 0");
    let in_container = |command: &str| {
        std::process::Command::new("unshare")
            .args([
                "--user",
                "--map-root-user",
                "--pid",
                "--fork",
                "--mount-proc",
            ])
            .args(["sh", "-c", command, "sh"])
            .arg(ws.binary())
            .arg(ws.root())
            .stdin(std::process::Stdio::null())
            .output()
            .expect("unshare is part of every Linux system")
    };
    let possible = in_container("exit 0");
    if !possible.status.success() {
        let why = String::from_utf8_lossy(&possible.stderr).into_owned();
        eprintln!("not tried: this machine makes no pid namespaces: {why}");
        return;
    }
    let output = in_container(
        r#"read -r _ _ _ _ _ session _ < /proc/$$/stat; [ "$session" = 0 ] && "$1" -C "$2" work batch run a"#,
    );
    assert!(output.status.success(), "{output:?}");
    assert_eq!(ws.status("a"), "DONE");
    assert_eq!(ws.attempts("a")[0]["left_behind"], 1);
}

#[test]
fn more_agents_than_the_usual_limit_of_open_files_allows_run_at_once_and_have_that_limit() {
    let ws = workspace();
    ws.config("[hooks]\non_batch_end = 'ulimit -Sn > hook.limit'\n");
    let keys: Vec<String> = (0..40).map(|n| format!("t{n}")).collect();
    for key in &keys {
        let script = format!("ulimit -Sn > {key}.limit; {}", waiter(key));
        ws.add(key, &script);
    }
    let mut words = vec![
        "work",
        "batch",
        "run",
        "--all-ready",
        "--max-parallel",
        "40",
    ];
    words.extend(["--kill-grace", "1s"]);
    let batch = ws.command(words).under_limits("-Sn 50").spawn();
    for key in &keys {
        ws.wait_for_pid(&format!("{key}.pid"));
        assert_eq!(ws.read(&format!("{key}.limit")).trim(), "50", "{key}");
    }
    for key in &keys {
        ws.touch(&format!("{key}.go"));
    }
    batch.wait().ok();
    assert_eq!(ws.read("hook.limit").trim(), "50", "a hook has it too");
}

#[test]
fn where_the_limit_of_open_files_is_too_low_it_is_said_and_the_batch_goes_on_with_fewer() {
    let ws = workspace();
    for n in 0..40 {
        ws.add(&format!("t{n}"), "true");
    }
    let words = [
        "work",
        "batch",
        "run",
        "--all-ready",
        "--max-parallel",
        "40",
    ];
    let ended = ws.command(words).under_limits("-n 40").spawn().wait().ok();
    let said = ended.text();
    assert!(
        said.contains("40 agents at once need up to 184 open files"),
        "{said}"
    );
    assert!(said.contains("--max-parallel"), "{said}");
}
