//! Many at once: writers, batches over the same tasks, agents, and agents that call `cf` all the time.
//!
//! Each storm has a small form for every day and a full one, marked as long (`cargo xtask ci --full`), which prints how
//! long a call took: `--nocapture` shows it.

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use cf_testkit::Workspace;

use crate::{plan_of, workspace};

const LONG: Duration = Duration::from_mins(15);

/// Half of them, all but one in a hundred, and the longest.
fn print_latencies(what: &str, mut took: Vec<Duration>) {
    took.sort_unstable();
    let at = |part: usize| took[(took.len() * part / 100).min(took.len() - 1)];
    println!(
        "{what}: {} calls, p50 {:?}, p99 {:?}, max {:?}",
        took.len(),
        at(50),
        at(99),
        took[took.len() - 1]
    );
}

/// Writers side by side, each a chain of `tasks add`, `tasks set status` and `blocker ask`.
fn writers(processes: usize, rounds: usize) {
    let ws = workspace();
    let took = Mutex::new(Vec::new());
    let call = |args: &[&str]| {
        let begun = Instant::now();
        let done = ws.command(args).deadline(LONG).run();
        took.lock()
            .expect("nobody panics with it")
            .push(begun.elapsed());
        done.ok().never_says("locked");
    };
    thread::scope(|scope| {
        for writer in 0..processes {
            let call = &call;
            scope.spawn(move || {
                for round in 0..rounds {
                    let key = format!("w{writer}-{round}");
                    call(&["tasks", "add", &key, "--key", &key, "--run", "true"]);
                    call(&["tasks", "set", "status", &key, "BACKLOG"]);
                    call(&["blocker", "ask", "Which one?", "--task", &key]);
                }
            });
        }
    });
    print_latencies("writers", took.into_inner().expect("nobody panics with it"));
    let all = (processes * rounds).to_string();
    assert_eq!(
        ws.sql("SELECT count(*) FROM task WHERE status = 'BLOCKED' AND version = 3"),
        all
    );
    assert_eq!(
        ws.sql("SELECT count(*) FROM blocker WHERE status = 'OPEN'"),
        all
    );
    assert_eq!(
        ws.sql("SELECT count(*) FROM event WHERE type = 'TASK_STATUS_CHANGED'"),
        (2 * processes * rounds).to_string(),
        "every change has its event"
    );
    assert_eq!(
        ws.sql("SELECT max(seq) - count(*) FROM event"),
        "0",
        "without a gap"
    );
    assert_eq!(ws.sql("PRAGMA integrity_check"), "ok");
}

#[test]
fn writers_at_once_lose_nothing() {
    writers(8, 3);
}

#[test]
#[ignore = "thirty writers with a hundred rounds each take minutes"]
fn thirty_writers_at_once_lose_nothing() {
    writers(30, 100);
}

/// Batches over the same tasks at once: every task is run by one of them, and waited for by the others.
fn batches(count: usize, tasks: usize) {
    let ws = workspace();
    ws.cf([
        "tasks",
        "import",
        ws.plan(&plan_of(tasks, "echo $CF_TASK_KEY >> ran; sleep 0.05")),
    ])
    .ok();
    let keys: Vec<String> = (0..tasks).map(|nth| format!("t{nth}")).collect();
    let begun = Instant::now();
    thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                let args = ["run", "--max-parallel", "4"].into_iter();
                let run = ws
                    .command(args.chain(keys.iter().map(String::as_str)))
                    .deadline(LONG);
                run.run().ok().never_says("locked");
            });
        }
    });
    println!("{count} batches over {tasks} tasks: {:?}", begun.elapsed());
    let mut ran: Vec<String> = ws.read("ran").lines().map(str::to_owned).collect();
    ran.sort_unstable();
    let mut expected = keys;
    expected.sort_unstable();
    assert_eq!(ran, expected, "each once");
    assert_eq!(ws.sql("SELECT count(*) FROM attempt"), tasks.to_string());
    ws.no_agent_left();
}

#[test]
fn batches_over_the_same_tasks_run_each_once() {
    batches(5, 4);
}

#[test]
#[ignore = "twenty batches over twenty tasks take a while"]
fn twenty_batches_over_the_same_tasks_run_each_once() {
    batches(20, 20);
}

/// How many agents there were, and that each task came to its end with one.
fn each_once(ws: &Workspace, tasks: usize) {
    assert_eq!(
        ws.sql("SELECT count(*) FROM task WHERE status = 'DONE' AND key LIKE 't%'"),
        tasks.to_string()
    );
    assert_eq!(
        ws.sql("SELECT count(*) FROM attempt WHERE ending = 'exited' AND open = 0"),
        tasks.to_string()
    );
    assert_eq!(ws.sql("SELECT count(*) FROM attempt"), tasks.to_string());
    assert_eq!(ws.sql("PRAGMA integrity_check"), "ok");
    ws.no_agent_left();
}

fn agents(count: usize, slots: &str) {
    let ws = workspace();
    ws.plan(&plan_of(count, "true"));
    let begun = Instant::now();
    ws.command(["run", "-q", "--file", "plan.toml", "--max-parallel", slots])
        .deadline(LONG)
        .run()
        .ok();
    let took = begun.elapsed();
    println!(
        "{count} agents in {slots} slots: {took:?}, {:?} each",
        took / u32::try_from(count).expect("some")
    );
    each_once(&ws, count);
}

#[test]
fn many_agents_in_many_slots_come_to_their_ends() {
    agents(60, "16");
}

#[test]
#[ignore = "two thousand agents take a while"]
fn two_thousand_agents_in_64_slots_come_to_their_ends() {
    agents(2_000, "64");
}

/// Agents that call `cf` again and again while the batch runs, reading and writing.
fn talkative(agents: usize, calls: usize, slots: &str) {
    let ws = workspace();
    let script = format!(
        r#"n=0; while [ $n -lt {calls} ]; do n=$((n + 1))
           begun=$(date +%s%N)
           cf tasks show self > /dev/null 2>> bad || echo show >> bad
           cf tasks add "found by $CF_TASK_KEY" --key "x-$CF_TASK_KEY-$n" > /dev/null 2>> bad || echo add >> bad
           echo $((($(date +%s%N) - begun) / 2)) >> took.$CF_TASK_KEY
        done; cf tasks set status self DONE > /dev/null 2>> bad || echo report >> bad"#
    );
    ws.plan(&plan_of(agents, "sh agent"));
    ws.write("agent", script);
    let begun = Instant::now();
    ws.command(["run", "-q", "--file", "plan.toml", "--max-parallel", slots])
        .deadline(LONG)
        .run()
        .ok();
    println!("{agents} agents in {slots} slots: {:?}", begun.elapsed());
    assert_eq!(ws.read("bad"), "");
    let took = (0..agents).flat_map(|nth| {
        let lines = ws.read(&format!("took.t{nth}"));
        lines
            .lines()
            .map(|line| Duration::from_nanos(line.parse().expect("a number")))
            .collect::<Vec<_>>()
    });
    print_latencies("calls by agents", took.collect());
    assert_eq!(
        ws.sql("SELECT count(*) FROM task WHERE status = 'BACKLOG'"),
        (agents * calls).to_string()
    );
    each_once(&ws, agents);
}

#[test]
fn agents_that_call_cf_all_the_time_are_all_heard() {
    talkative(8, 3, "8");
}

#[test]
#[ignore = "two hundred agents with ten rounds of calls take minutes"]
fn two_hundred_agents_that_call_cf_all_the_time_are_all_heard() {
    talkative(200, 10, "64");
}
