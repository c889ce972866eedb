//! What `cf` allows below a supervisor, and what a report is worth.

use cf_testkit::{Workspace, process};

use crate::{until, waiter, workspace};

/// The exit code that a script wrote into a file.
fn code_in(ws: &Workspace, name: &str) -> i32 {
    ws.read(name)
        .trim()
        .parse()
        .unwrap_or_else(|_| panic!("{name} should hold an exit code: {:?}", ws.read(name)))
}

#[test]
fn an_agents_cf_reads_asks_adds_and_reports_its_own_task() {
    let ws = workspace();
    ws.add("other", "true");
    ws.add(
        "a",
        "cf tasks list > list; echo $? > list.code\n\
         cf tasks show other > show; echo $? > show.code\n\
         cf tasks add 'found by the agent' --key found; echo $? > add.code\n\
         cf tasks set status self DONE; echo $? > self.code\n\
         cf tasks set status a DONE; echo $? > key.code\n\
         cf tasks set status $CF_TASK_ID DONE; echo $? > id.code\n\
         cf tasks show self --json > mine",
    );
    ws.run(["a"]).ok();
    for file in [
        "list.code",
        "show.code",
        "add.code",
        "self.code",
        "key.code",
        "id.code",
    ] {
        assert_eq!(code_in(&ws, file), 0, "{file}");
    }
    assert_eq!(ws.status("found"), "BACKLOG");
    assert!(
        ws.read("mine").contains("IN_PROGRESS"),
        "the status waits for the exit: {}",
        ws.read("mine")
    );
    assert_eq!(ws.status("a"), "DONE");
    assert!(!ws.events_of("ATTEMPT_REPORTED", "a").is_empty());
}

#[test]
fn an_agents_cf_refuses_everything_else() {
    let ws = workspace();
    ws.add("other", "true");
    let blocker = ws.ask("other", "An open question?");
    ws.add("victim", "true");
    let commands = [
        "cf tasks set status victim DONE",
        "cf tasks set status self READY",
        "cf tasks set status self MERGED",
        "cf tasks delete victim --force",
        "cf tasks edit victim --title stolen",
        &format!("cf blocker answer {blocker} yes"),
        &format!("cf blocker resolve {blocker}"),
        "cf blocker ask 'about another' --task victim",
        "cf work batch run victim",
        "cf work start victim",
        "cf work stop self",
        "cf work batch stop --force",
        "env -u CF_ATTEMPT_ID -u CF_TASK_ID -u CF_BATCH_ID cf tasks set status victim DONE",
        "env -i PATH=\"$PATH\" HOME=\"$HOME\" cf tasks set status victim DONE",
        "setsid -w cf tasks set status victim DONE",
    ];
    let script: Vec<String> = commands
        .iter()
        .enumerate()
        .map(|(n, command)| format!("{command} > said.{n} 2>&1; echo $? > code.{n}"))
        .collect();
    ws.add("a", &script.join("\n"));
    ws.run(["a"]).ok();
    for (n, command) in commands.iter().enumerate() {
        assert_ne!(
            code_in(&ws, &format!("code.{n}")),
            0,
            "{command}: {}",
            ws.read(&format!("said.{n}"))
        );
        assert!(
            !ws.read(&format!("said.{n}")).is_empty(),
            "{command} is explained"
        );
    }
    assert_eq!(ws.status("victim"), "READY");
    assert_eq!(ws.status("other"), "BLOCKED");
    assert!(ws.blockers("victim").is_empty());
    assert_eq!(ws.show("victim")["title"], "victim");
}

#[test]
fn an_agent_changes_nothing_in_another_workspace_whatever_it_hides() {
    let ws = workspace();
    let theirs = workspace();
    theirs.add("victim", "true");
    let there = theirs.root().display();
    let scrubbed = "env -i PATH=\"$PATH\" HOME=\"$HOME\"";
    let commands = [
        format!("cf -C '{there}' tasks set status victim DONE"),
        format!("{scrubbed} cf -C '{there}' tasks set status victim DONE"),
        format!("{scrubbed} cf -C '{there}' tasks add stranger"),
        format!("{scrubbed} cf -C '{there}' blocker ask 'and now?' --task victim"),
        format!("cd '{there}' && {scrubbed} cf work batch run victim"),
        format!("cd '{there}' && {scrubbed} setsid -w cf tasks delete victim"),
        format!("mkdir '{there}/new' && cd '{there}/new' && git init -q && {scrubbed} cf init"),
        // The name of another's attempt gives no rights either.
        format!(
            "{scrubbed} CF_ATTEMPT_ID=00000000-0000-4000-8000-000000000000 cf -C '{there}' tasks set status victim DONE"
        ),
    ];
    let script: Vec<String> = commands
        .iter()
        .enumerate()
        .map(|(n, command)| format!("({command}) > said.{n} 2>&1; echo $? > code.{n}"))
        .collect();
    ws.add("a", &script.join("\n"));
    ws.run(["a"]).ok();
    for (n, command) in commands.iter().enumerate() {
        let said = ws.read(&format!("said.{n}"));
        assert_ne!(code_in(&ws, &format!("code.{n}")), 0, "{command}: {said}");
        let is_explained = said.contains("agent") || said.contains("attempt");
        assert!(is_explained, "{command} is explained: {said}");
    }
    assert_eq!(theirs.status("victim"), "READY");
    assert!(theirs.blockers("victim").is_empty());
    assert!(!theirs.exists("new/.cf"));
}

#[test]
fn an_agent_that_reports_failed_is_failed_whatever_its_exit_code() {
    let ws = workspace();
    ws.add("a", "cf tasks set status self FAILED; exit 0");
    ws.run(["a"]).code(3);
    ws.ended("a", "FAILED", "");
    assert_eq!(ws.status("a"), "FAILED");
}

#[test]
fn an_agent_that_reports_done_and_exits_badly_is_failed() {
    let ws = workspace();
    ws.add("a", "cf tasks set status self DONE; exit 1");
    ws.run(["a"]).code(3);
    assert_eq!(ws.status("a"), "FAILED");
}

#[test]
fn what_an_agent_changes_is_said_to_come_from_its_attempt() {
    let ws = workspace();
    ws.add("a", "cf tasks add x --key found");
    ws.run(["a"]).ok();
    let attempt = ws.attempts("a")[0]["id"]
        .as_str()
        .expect("an id is text")
        .to_owned();
    let created = &ws.events_of("TASK_CREATED", "found")[0];
    assert_eq!(created["actor"], format!("attempt:{attempt}").as_str());
}

#[test]
fn a_leftover_of_an_older_attempt_cannot_report() {
    let ws = workspace();
    ws.add(
        "a",
        "echo $CF_ATTEMPT_ID >> ids; [ $CF_ATTEMPT = 1 ] && exit 1\n\
                 CF_ATTEMPT_ID=$(head -n 1 ids) cf tasks set status self FAILED; exit 0",
    );
    // Below a live supervisor parentage decides, so the report counts for the attempt that made it.
    ws.run(["a", "--retry", "1", "--retry-delay", "10ms"])
        .code(3);
    ws.ended("a", "FAILED", "the agent reported FAILED");
    let reports = ws.events_of("ATTEMPT_REPORTED", "a");
    assert_eq!(reports.len(), 1);
    assert_eq!(reports[0]["attempt"], ws.attempts("a")[1]["id"]);

    let old = ws
        .read("ids")
        .lines()
        .next()
        .expect("there was an attempt")
        .to_owned();
    ws.add("b", &waiter("b"));
    let batch = ws.start(["b"]);
    ws.wait_for_pid("b.pid");
    let before = ws.status("b");
    ws.command(["tasks", "set", "status", "b", "DONE"])
        .env("CF_ATTEMPT_ID", &old)
        .run()
        .refused();
    assert_eq!(ws.status("b"), before);
    ws.touch("b.go");
    batch.wait().ok();
}

#[test]
fn a_write_in_the_name_of_an_ended_attempt_is_refused_and_kept_as_stale() {
    let ws = workspace();
    ws.add(
        "a",
        &format!(
            "echo $CF_ATTEMPT_ID >> ids; [ $CF_ATTEMPT = 1 ] && exit 1; {}",
            until("go")
        ),
    );
    let batch = ws.start(["a", "--retry", "1", "--retry-delay", "10ms"]);
    ws.wait_for_lines("ids", 2);
    let old = ws
        .read("ids")
        .lines()
        .next()
        .expect("there was an attempt")
        .to_owned();
    ws.command(["tasks", "set", "status", "a", "DONE"])
        .env("CF_ATTEMPT_ID", &old)
        .run()
        .refused();
    assert_eq!(ws.status("a"), "IN_PROGRESS");
    assert_eq!(ws.events_of("ATTEMPT_STALE_RESULT", "a").len(), 1);
    ws.command(["blocker", "ask", "Which colour?"])
        .env("CF_ATTEMPT_ID", &old)
        .run()
        .refused()
        .says("kept as stale");
    let stale = ws.events_of("ATTEMPT_STALE_RESULT", "a");
    assert_eq!(stale.len(), 2);
    assert_eq!(stale[1]["attempt"], old.as_str());
    assert_eq!(stale[1]["data"]["result"]["question"], "Which colour?");
    assert!(ws.blockers("a").is_empty());
    assert_eq!(ws.status("a"), "IN_PROGRESS");
    ws.touch("go");
    batch.wait().ok();
    assert_eq!(ws.status("a"), "DONE");
}

#[test]
fn agents_that_run_side_by_side_ask_for_cf_all_at_once() {
    let ws = workspace();
    let keys: Vec<String> = (0..8).map(|n| format!("t{n}")).collect();
    for key in &keys {
        ws.add(
            key,
            "for i in 1 2 3; do cf tasks add \"found $CF_TASK_KEY $i\" || exit 1; done",
        );
    }
    let mut args: Vec<&str> = keys.iter().map(String::as_str).collect();
    args.extend(["--max-parallel", "8"]);
    ws.run(&args).ok();
    let tasks = ws.cf(["tasks", "list", "--json"]).json();
    assert_eq!(tasks.as_array().map(Vec::len), Some(8 + 24));
}

#[test]
fn a_store_that_vanishes_stops_the_agents_and_ends_with_1() {
    let ws = workspace();
    // It says who it is first: from then on it may be stopped at any moment.
    ws.add("a", "echo $$ >> a.pid; rm -rf .cf; sleep 60");
    let batch = ws.start(["a"]);
    let pid = ws.wait_for_pid("a.pid");
    batch.wait().code(1);
    ws.wait_until("the agent is gone", || !process::alive(pid));
}
