//! Questions that a person must answer: what they hold, and how an answer reaches the agent.

use cf_testkit::{Signal, process};

use crate::{sleeper, until, waiter, workspace};

#[test]
fn asking_blocks_the_task_and_the_last_answer_makes_it_ready() {
    let ws = workspace();
    ws.add("a", "true");
    let first = ws.ask("a", "One?");
    let second = ws.ask("a", "Two?");
    assert_eq!(ws.status("a"), "BLOCKED");
    assert_eq!(ws.show("a")["open_blockers"], 2);
    ws.cf(["blocker", "answer", &first, "yes"]).ok();
    assert_eq!(ws.status("a"), "BLOCKED", "one of two is still open");
    ws.cf(["blocker", "answer", &second, "no"]).ok();
    assert_eq!(ws.status("a"), "READY");
    let blockers = ws.blockers("a");
    assert_eq!(blockers[0]["answer"], "yes");
    assert_eq!(blockers[0]["status"], "ANSWERED");
    assert_eq!(blockers[0]["asked_by"], "human");
    assert_eq!(ws.events_of("BLOCKER_ASKED", "a").len(), 2);
    assert_eq!(ws.events_of("BLOCKER_ANSWERED", "a").len(), 2);
}

#[test]
fn asking_blocks_backlog_ready_in_progress_and_failed_tasks_only() {
    let ws = workspace();
    for (n, (status, after)) in [
        ("BACKLOG", "BLOCKED"),
        ("READY", "BLOCKED"),
        ("IN_PROGRESS", "BLOCKED"),
        ("FAILED", "BLOCKED"),
        ("DONE", "DONE"),
        ("MERGED", "MERGED"),
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("t{n}");
        ws.add(&key, "true");
        ws.set(&key, status);
        ws.cf(["blocker", "ask", "Why?", "--task", &key]);
        assert_eq!(ws.status(&key), after, "{status}");
    }
}

#[test]
fn a_resolved_blocker_needs_no_answer() {
    let ws = workspace();
    ws.add("a", "true");
    let blocker = ws.ask("a", "Really?");
    ws.cf(["blocker", "resolve", &blocker]).ok();
    let shown = ws.cf(["blocker", "show", &blocker, "--json"]).json();
    assert_eq!(shown["status"], "RESOLVED");
    assert_eq!(ws.events_of("BLOCKER_RESOLVED", "a").len(), 1);
    ws.run(["a"]).ok();
}

#[test]
fn a_blocker_without_a_task_holds_nothing() {
    let ws = workspace();
    ws.add("a", "true");
    ws.cf(["blocker", "ask", "Shall we?"]).ok();
    ws.run(["a"]).ok();
    let list = ws.cf(["blocker", "list", "--json"]).json();
    assert_eq!(list.as_array().map(Vec::len), Some(1));
    assert!(list[0]["task"].is_null());
}

#[test]
fn an_answer_without_an_id_goes_to_the_only_open_question() {
    let ws = workspace();
    ws.add("a", "true");
    let blocker = ws.ask("a", "One?");
    ws.cf(["blocker", "answer", "because"]).ok();
    let shown = ws.cf(["blocker", "show", &blocker, "--json"]).json();
    assert_eq!(shown["answer"], "because");
    ws.ask("a", "Two?");
    ws.ask("a", "Three?");
    ws.cf(["blocker", "answer", "which one?"]).refused();
    assert_eq!(ws.show("a")["open_blockers"], 2);
}

#[test]
fn a_task_stands_for_the_only_open_question_about_it() {
    let ws = workspace();
    ws.add("a", "true");
    ws.add("b", "true");
    let first = ws.ask("a", "One?");
    ws.ask("b", "Other?");
    ws.cf(["blocker", "answer", "a", "because"]).ok();
    assert_eq!(ws.blockers("a")[0]["answer"], "because");
    ws.cf(["blocker", "resolve", "b"]).ok();
    assert_eq!(ws.blockers("b")[0]["status"], "RESOLVED");
    for args in [&["resolve", "a"][..], &["answer", "a", "again"]] {
        ws.cf(["blocker"].iter().chain(args))
            .code(1)
            .says("no question about a is open");
    }
    let open = [ws.ask("a", "Two?"), ws.ask("a", "Three?")];
    for args in [&["resolve", "a"][..], &["answer", "a", "which?"]] {
        let said = ws.cf(["blocker"].iter().chain(args)).code(1);
        let said = said.says("2 questions about a are open");
        let said = said.never_says(&first[..8]);
        open.iter().fold(said, |said, id| said.says(&id[..8]));
    }
    assert_eq!(ws.show("a")["open_blockers"], 2);
    for args in [&["resolve", "nothing"][..], &["answer", "nothing", "x"]] {
        ws.cf(["blocker"].iter().chain(args))
            .code(1)
            .says("there is no blocker \"nothing\"");
    }
}

#[test]
fn a_key_that_begins_another_question_is_no_answer_to_it() {
    let ws = workspace();
    ws.add("a", "true");
    let of_a = ws.ask("a", "One?");
    let key = &of_a[..8];
    ws.add(key, "true");
    ws.ask(key, "Other?");
    for args in [&["resolve", key][..], &["answer", key, "yes"]] {
        ws.cf(["blocker"].iter().chain(args))
            .code(1)
            .says("is a task, and the question");
    }
    ws.cf(["blocker", "answer", &of_a, "yes"]).ok();
    assert_eq!(ws.blockers("a")[0]["answer"], "yes");
}

#[test]
fn an_answer_may_come_from_a_file_or_standard_input() {
    let ws = workspace();
    ws.add("a", "true");
    let first = ws.ask("a", "One?");
    let second = ws.ask("a", "Two?");
    ws.write("answer.txt", "from a file");
    ws.cf(["blocker", "answer", &first, "--file", "answer.txt"])
        .ok();
    ws.command(["blocker", "answer", &second, "-"])
        .stdin("from standard input")
        .run()
        .ok();
    let answers: Vec<String> = ws
        .blockers("a")
        .iter()
        .map(|b| b["answer"].as_str().unwrap_or_default().trim().to_owned())
        .collect();
    assert_eq!(answers, ["from a file", "from standard input"]);
}

#[test]
fn an_answered_question_cannot_be_answered_again() {
    let ws = workspace();
    ws.add("a", "true");
    let blocker = ws.ask("a", "One?");
    ws.cf(["blocker", "answer", &blocker, "first"]).ok();
    ws.cf(["blocker", "answer", &blocker, "second"]).refused();
    assert_eq!(ws.blockers("a")[0]["answer"], "first");
}

#[test]
fn an_answered_question_leaves_a_task_alone_that_moved_on() {
    let ws = workspace();
    ws.add("a", "true");
    let blocker = ws.ask("a", "One?");
    ws.set("a", "DONE");
    ws.cf(["blocker", "answer", &blocker, "late"]).ok();
    assert_eq!(ws.status("a"), "DONE");
}

#[test]
fn unknown_blockers_and_tasks_are_refused() {
    let ws = workspace();
    ws.add("a", "true");
    ws.ask("a", "One?");
    ws.cf(["blocker", "answer", "ffffffff", "x"]).refused();
    ws.cf(["blocker", "show", "ffffffff"]).refused();
    ws.cf(["blocker", "ask", "Why?", "--task", "nobody"])
        .refused()
        .says("nobody");
    assert_eq!(ws.show("a")["open_blockers"], 1);
}

#[test]
fn an_agent_that_asks_is_blocked_and_runs_again_in_the_same_batch_with_the_answer() {
    let ws = workspace();
    ws.add("a", "cp $CF_PROMPT_FILE prompt.$CF_ATTEMPT; [ $CF_ATTEMPT -ge 2 ] || cf blocker ask 'Which colour?'");
    ws.add("keep", &waiter("keep"));
    let batch = ws.start(["a", "keep", "--max-parallel", "2"]);
    ws.wait_for_event("BATCH_TASK_BLOCKED", "a");
    assert_eq!(ws.status("a"), "BLOCKED");
    let blocker = &ws.blockers("a")[0];
    assert_eq!(blocker["asked_by"], "agent");
    assert_eq!(blocker["question"], "Which colour?");
    ws.cf([
        "blocker",
        "answer",
        blocker["id"].as_str().expect("an id is text"),
        "ultramarine",
    ])
    .ok();
    ws.wait_for_event("BATCH_TASK_COMPLETED", "a");
    ws.touch("keep.go");
    batch.wait().ok();
    assert!(!ws.read("prompt.1").contains("ultramarine"));
    let prompt = ws.read("prompt.2");
    assert!(
        prompt.contains("ultramarine") && prompt.contains("Which colour?"),
        "{prompt}"
    );
    let requeued = ws.events_of("BATCH_TASK_REQUEUED", "a");
    assert_eq!(requeued.len(), 1, "once, not on every pass: {requeued:?}");
    assert!(
        requeued[0].to_string().contains("blockers resolved"),
        "{requeued:?}"
    );
    assert_eq!(ws.events_named("BATCH_STARTED").len(), 1);
    assert_eq!(ws.attempts("a").len(), 2);
    // The first one is no success, however well it ended.
    ws.cf(["tasks", "show", "a"])
        .ok()
        .says("1 asked shell")
        .says("2 success shell");
}

#[test]
fn an_agent_that_asks_and_exits_badly_is_blocked_not_failed() {
    let ws = workspace();
    ws.add("a", "cf blocker ask 'Which colour?'; exit 1");
    ws.run(["a", "--retry", "2", "--retry-delay", "10ms"])
        .code(4)
        .says("Which colour?");
    ws.ended("a", "BLOCKED", "");
    assert_eq!(ws.status("a"), "BLOCKED");
    assert_eq!(ws.attempts("a").len(), 1, "a question uses up no retry");
}

#[test]
fn an_agent_that_is_answered_before_it_ends_runs_again() {
    let ws = workspace();
    ws.add(
        "a",
        &format!("cp $CF_PROMPT_FILE prompt.$CF_ATTEMPT; [ $CF_ATTEMPT -ge 2 ] && exit 0; cf blocker ask 'Which colour?'; echo x > asked; {}; exit 0", until("answered")),
    );
    let batch = ws.start(["a"]);
    ws.wait_for_line("asked");
    ws.cf(["blocker", "answer", "ultramarine"]).ok();
    ws.touch("answered");
    batch.wait().ok();
    assert_eq!(
        ws.attempts("a").len(),
        2,
        "exit 0 of the attempt that asked is not the end"
    );
    assert!(ws.read("prompt.2").contains("ultramarine"));
    assert_eq!(ws.status("a"), "DONE");
    let requeued = ws.events_of("BATCH_TASK_REQUEUED", "a");
    assert_eq!(requeued.len(), 1, "{requeued:?}");
    assert!(
        requeued[0].to_string().contains("blockers resolved"),
        "{requeued:?}"
    );
}

#[test]
fn an_agent_that_is_answered_before_it_ends_runs_again_without_reconciliation() {
    let ws = workspace();
    ws.add(
        "a",
        &format!("echo x >> runs; [ $CF_ATTEMPT -ge 2 ] && exit 0; cf blocker ask 'Which colour?'; echo x > asked; {}", until("answered")),
    );
    let batch = ws.start(["a", "--reconcile-interval", "0"]);
    ws.wait_for_line("asked");
    ws.cf(["blocker", "answer", "ultramarine"]).ok();
    ws.touch("answered");
    batch.wait().ok();
    assert_eq!(ws.lines("runs"), 2);
}

#[test]
fn an_agent_cannot_answer_what_it_asked() {
    let ws = workspace();
    ws.add("a", "cf blocker ask 'Which colour?' --json > asked.json; cf blocker answer blue > said 2>&1; echo $? > code");
    ws.run(["a"]).code(4);
    assert_ne!(ws.read("code").trim(), "0", "{}", ws.read("said"));
    assert_eq!(ws.blockers("a")[0]["status"], "OPEN");
}

#[test]
fn an_agent_that_asks_is_given_time_to_end_and_then_stopped() {
    let ws = workspace();
    ws.config("ask_grace = '400ms'\n");
    ws.add(
        "a",
        &format!("cf blocker ask 'Which colour?'; {}", sleeper("a")),
    );
    let batch = ws.start(["a", "--reconcile-interval", "200ms"]);
    let pid = ws.wait_for_pid("a.pid");
    batch.wait().code(4);
    assert!(!cf_testkit::process::alive(pid));
    ws.ended("a", "BLOCKED", "");
    assert_eq!(ws.status("a"), "BLOCKED");
}

#[test]
fn of_two_questions_one_answer_is_not_enough() {
    let ws = workspace();
    ws.add("a", "echo x >> runs; [ $CF_ATTEMPT -ge 2 ] && exit 0; cf blocker ask 'One?'; cf blocker ask 'Two?'");
    ws.add("keep", &waiter("keep"));
    let batch = ws.start([
        "a",
        "keep",
        "--max-parallel",
        "2",
        "--reconcile-interval",
        "100ms",
    ]);
    ws.wait_for_event("BATCH_TASK_BLOCKED", "a");
    let blockers = ws.blockers("a");
    ws.cf([
        "blocker",
        "answer",
        blockers[0]["id"].as_str().expect("an id is text"),
        "1",
    ])
    .ok();
    ws.touch("keep.go");
    batch.wait().code(4);
    assert_eq!(ws.lines("runs"), 1);
    assert_eq!(ws.status("a"), "BLOCKED");
}

#[test]
fn an_old_answer_does_not_free_a_task_that_was_blocked_by_hand() {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    ws.add("keep", &waiter("keep"));
    let blocker = ws.ask("a", "One?");
    ws.cf(["blocker", "answer", &blocker, "old"]).ok();
    let batch = ws.start([
        "a",
        "keep",
        "--max-parallel",
        "2",
        "--reconcile-interval",
        "100ms",
    ]);
    ws.wait_for_pid("a.pid");
    ws.set("a", "BLOCKED");
    ws.wait_for_phase("a", "held");
    ws.touch("keep.go");
    batch.wait().code(4);
    assert_eq!(ws.lines("a.pid"), 1);
    assert_eq!(ws.status("a"), "BLOCKED");
}

#[test]
fn wait_for_blockers_keeps_the_batch_open_for_the_answer() {
    let ws = workspace();
    ws.add("a", "cp $CF_PROMPT_FILE prompt.$CF_ATTEMPT; [ $CF_ATTEMPT -ge 2 ] || cf blocker ask 'Which colour?'");
    let mut batch = ws.start(["a", "--wait-for-blockers"]);
    ws.wait_for_event("BATCH_TASK_BLOCKED", "a");
    assert!(batch.is_running());
    ws.cf(["blocker", "answer", "ultramarine"]).ok();
    batch.wait().ok();
    assert!(ws.read("prompt.2").contains("ultramarine"));
}

#[test]
fn wait_for_blockers_ends_after_its_time() {
    let ws = workspace();
    ws.add("a", "cf blocker ask 'Which colour?'");
    ws.run(["a", "--wait-for-blockers=300ms"]).code(4);
}

#[test]
fn wait_for_blockers_without_reconciliation_is_a_usage_error() {
    let ws = workspace();
    ws.add("a", "touch ran");
    ws.run(["a", "--wait-for-blockers", "--reconcile-interval", "0"])
        .code(2);
    assert!(!ws.exists("ran"));
}

#[test]
fn a_held_task_at_the_start_is_run_when_it_is_answered() {
    let ws = workspace();
    ws.add("a", "cp $CF_PROMPT_FILE prompt");
    ws.add("keep", &waiter("keep"));
    let blocker = ws.ask("a", "Which colour?");
    let batch = ws.start(["a", "keep", "--max-parallel", "2"]);
    ws.wait_for_pid("keep.pid");
    ws.wait_for_phase("a", "held");
    ws.cf(["blocker", "answer", &blocker, "ultramarine"]).ok();
    ws.wait_for_event("BATCH_TASK_COMPLETED", "a");
    ws.touch("keep.go");
    batch.wait().ok();
    assert!(ws.read("prompt").contains("ultramarine"));
}

#[test]
fn text_from_people_stands_in_the_prompt_as_data() {
    let ws = workspace();
    ws.add("a", "cp $CF_PROMPT_FILE prompt.$CF_ATTEMPT; [ $CF_ATTEMPT -ge 2 ] || cf blocker ask 'Which colour?'");
    let batch = ws.start(["a", "--wait-for-blockers"]);
    ws.wait_for_event("BATCH_TASK_BLOCKED", "a");
    ws.cf([
        "blocker",
        "answer",
        "$(touch pwned) `touch pwned` '; touch pwned; '",
    ])
    .ok();
    batch.wait().ok();
    assert!(!ws.exists("pwned"));
    assert!(
        ws.read("prompt.2")
            .contains("$(touch pwned) `touch pwned` '; touch pwned; '")
    );
}

#[test]
fn a_batch_that_waits_for_blockers_waits_for_what_a_person_works_on() {
    let ws = workspace();
    ws.add("a", "echo x >> a.runs");
    ws.set("a", "IN_PROGRESS");
    ws.add("b", "touch b.ran");
    let batch = ws.start(["a", "b", "--wait-for-blockers"]);
    ws.wait_for_event("BATCH_TASK_COMPLETED", "b");
    ws.set("a", "READY");
    batch.wait().ok();
    assert_eq!(ws.lines("a.runs"), 1);
}

#[test]
fn a_batch_waits_so_long_for_what_a_person_works_on_as_it_was_told() {
    let ws = workspace();
    ws.add("a", "true");
    ws.set("a", "IN_PROGRESS");
    ws.add("b", "true");
    ws.run(["a", "b", "--wait-for-blockers=400ms"]).code(4);
    ws.ended("a", "BLOCKED", "in progress by hand");
    let waited = ws.sql(
        "SELECT (SELECT at_ms FROM event WHERE type = 'BATCH_PARTIAL') \
              - (SELECT at_ms FROM event WHERE type = 'BATCH_TASK_COMPLETED')",
    );
    assert!(
        waited.parse::<u64>().is_ok_and(|ms| ms >= 400),
        "{waited} ms"
    );
}

#[test]
fn a_task_that_is_blocked_by_hand_after_its_answer_stays_held() {
    let ws = workspace();
    ws.add("a", "touch ran");
    ws.add("b", &waiter("b"));
    ws.add("c", "true");
    ws.cf(["tasks", "depend", "c", "b"]).ok();
    let question = ws.ask("a", "One?");
    let batch = ws.start(["a", "b", "c", "--max-parallel", "2"]);
    ws.wait_for_pid("b.pid");
    // The conductor sees both at once.
    process::signal(batch.pid(), Signal::STOP);
    ws.cf(["blocker", "answer", &question, "yes"]).ok();
    ws.set("a", "BLOCKED");
    ws.set("c", "DONE");
    process::signal(batch.pid(), Signal::CONT);
    ws.wait_for_event("BATCH_TASK_SKIPPED", "c");
    assert_eq!(ws.status("a"), "BLOCKED");
    ws.set("a", "READY");
    ws.wait_for_event("BATCH_TASK_COMPLETED", "a");
    ws.touch("b.go");
    batch.wait().ok();
}
