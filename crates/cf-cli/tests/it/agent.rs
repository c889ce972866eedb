//! What an agent gets: environment, prompt, log; and how its work is verified.

use cf_testkit::process;

use crate::{waiter, workspace};

#[test]
fn a_prompt_of_a_megabyte_reaches_the_agent() {
    let ws = workspace();
    ws.write("long.txt", "word ".repeat(220_000) + "the-last-word");
    ws.cf([
        "tasks",
        "add",
        "t",
        "--key",
        "a",
        "--file",
        "long.txt",
        "--run",
        "wc -c < $CF_PROMPT_FILE > size; grep -c the-last-word $CF_PROMPT_FILE > found",
    ])
    .ok();
    ws.run(["a"]).ok();
    let size: u64 = ws.read("size").trim().parse().expect("a number");
    assert!(size > 1_000_000, "{size}");
    assert_ne!(ws.read("found").trim(), "0");
}

#[test]
fn an_agent_learns_who_it_is_from_its_environment() {
    let ws = workspace();
    let id = ws.add("a", "env > env.txt; pwd > pwd.txt; cat \"$CF_PROMPT_FILE\" > prompt; [ ! -e \"$CF_CONTEXT_FILE\" ]");
    std::fs::create_dir(ws.root().join("sub")).expect("the folder is ours");
    ws.command(["work", "batch", "run", "a"])
        .dir(ws.root().join("sub"))
        .run()
        .ok();
    let env = ws.read("env.txt");
    let batch = ws.batch()["id"].as_str().expect("an id is text").to_owned();
    let attempt = ws.attempts("a")[0]["id"]
        .as_str()
        .expect("an id is text")
        .to_owned();
    for line in [
        format!("CF_TASK_ID={id}"),
        "CF_TASK_KEY=a".to_owned(),
        format!("CF_BATCH_ID={batch}"),
        format!("CF_ATTEMPT_ID={attempt}"),
        "CF_ATTEMPT=1".to_owned(),
        format!("CF_WORKSPACE={}", ws.root().display()),
    ] {
        assert!(env.lines().any(|found| found == line), "{line} in\n{env}");
    }
    assert!(env.contains("CF_PROMPT_FILE=") && env.contains("CF_CONTEXT_FILE="));
    assert_eq!(ws.read("pwd.txt").trim(), ws.root().to_string_lossy());
    assert!(!ws.read("prompt").is_empty());
}

#[test]
fn the_generation_counts_up() {
    let ws = workspace();
    ws.add(
        "a",
        "echo $CF_ATTEMPT >> generations; [ $CF_ATTEMPT -ge 2 ]",
    );
    ws.run(["a", "--retry", "1", "--retry-delay", "10ms"]).ok();
    assert_eq!(ws.read("generations"), "1\n2\n");
}

#[test]
fn tracker_tokens_reach_neither_agent_nor_supervisor() {
    let ws = workspace();
    ws.add(
        "a",
        "env > env.txt; tr '\\0' '\\n' < /proc/$PPID/environ > supervisor.txt",
    );
    let mut call = ws
        .command(["work", "batch", "run", "a"])
        .env("ORDINARY", "kept");
    for name in [
        "GH_TOKEN",
        "GITHUB_TOKEN",
        "GH_ENTERPRISE_TOKEN",
        "GITHUB_ENTERPRISE_TOKEN",
    ] {
        call = call.env(name, "the-secret-token");
    }
    call.run().ok().never_says("the-secret-token");
    for file in ["env.txt", "supervisor.txt"] {
        assert!(
            !ws.read(file).contains("the-secret-token"),
            "{file}: {}",
            ws.read(file)
        );
    }
    assert!(ws.read("env.txt").contains("ORDINARY=kept"));
    let everywhere = std::process::Command::new("grep")
        .args(["-r", "-l", "the-secret-token", ".cf"])
        .current_dir(ws.root())
        .output()
        .expect("grep is installed");
    assert!(
        everywhere.stdout.is_empty(),
        "{}",
        String::from_utf8_lossy(&everywhere.stdout)
    );
}

#[test]
fn an_agent_finds_cf_on_its_path() {
    let ws = workspace();
    ws.add(
        "a",
        "cf tasks show self --json > self.json; command -v cf > where",
    );
    ws.command(["work", "batch", "run", "a"])
        .env("PATH", "/usr/bin:/bin")
        .run()
        .ok();
    assert!(
        ws.read("self.json").contains(&ws.id("a")),
        "{}",
        ws.read("self.json")
    );
    assert!(!ws.read("where").is_empty());
}

#[test]
fn an_agent_inherits_no_descriptor_and_has_a_session_of_its_own() {
    let ws = workspace();
    ws.add("a", &format!("ls /proc/$$/fd > fds; {}", waiter("a")));
    let batch = ws.start(["a"]);
    let pid = ws.wait_for_pid("a.pid");
    let session = |pid| process::stat(pid).expect("it lives")[3].clone();
    assert_ne!(session(pid), session(batch.pid()));
    ws.touch("a.go");
    batch.wait().ok();
    // The shell may keep its script open under a number of its own from 10 upwards.
    let inherited: Vec<u32> = ws
        .read("fds")
        .split_whitespace()
        .filter_map(|fd| fd.parse().ok())
        .filter(|fd| (3..10).contains(fd))
        .collect();
    assert!(inherited.is_empty(), "{inherited:?}");
}

#[test]
fn a_script_may_name_its_interpreter() {
    let ws = workspace();
    ws.add(
        "a",
        "#!/usr/bin/awk -f\nBEGIN { print \"from awk\" > \"out\" }\n",
    );
    ws.run(["a"]).ok();
    assert_eq!(ws.read("out"), "from awk\n");
}

#[test]
fn a_task_may_have_variables_of_its_own() {
    let ws = workspace();
    let plan = ws.plan("[[task]]\nkey = 'a'\ntitle = 't'\nrun = 'echo $COLOUR > out'\nenv = { COLOUR = 'green' }\n");
    ws.run(["--file", plan]).ok();
    assert_eq!(ws.read("out"), "green\n");
}

#[test]
fn output_goes_to_the_log_of_the_attempt() {
    let ws = workspace();
    ws.add(
        "a",
        "echo out-$CF_ATTEMPT; echo err-$CF_ATTEMPT >&2; [ $CF_ATTEMPT -ge 2 ]",
    );
    ws.run(["a", "--retry", "1", "--retry-delay", "10ms"]).ok();
    ws.cf(["work", "logs", "a", "--attempt", "1"])
        .ok()
        .says("out-1")
        .says("err-1")
        .never_says("out-2");
    ws.cf(["work", "logs", "a", "--attempt", "2"])
        .ok()
        .says("out-2")
        .never_says("out-1");
}

#[test]
fn logs_can_be_followed_to_the_end() {
    let ws = workspace();
    ws.add("a", &format!("echo early; {}; echo late", waiter("a")));
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    let mut follow = ws.spawn(["work", "logs", "a", "--follow"]);
    follow.wait_for_text("early");
    ws.touch("a.go");
    follow.wait().ok().says("late");
    batch.wait().ok();
}

#[test]
fn a_failed_verification_fails_the_task() {
    let ws = workspace();
    ws.task("a")
        .run("touch ran")
        .verify("echo the-check-says-no; exit 1")
        .add();
    ws.run(["a"]).code(3);
    assert!(ws.exists("ran"));
    ws.ended("a", "FAILED", "the-check-says-no");
    assert_eq!(ws.status("a"), "FAILED");
}

#[test]
fn a_verification_that_passes_completes_the_task() {
    let ws = workspace();
    ws.task("a")
        .run("touch made")
        .verify("test -e made && echo $CF_TASK_KEY > verified")
        .add();
    ws.run(["a"]).ok();
    assert_eq!(ws.read("verified"), "a\n");
    assert_eq!(ws.status("a"), "DONE");
    assert_eq!(ws.attempts("a").len(), 1, "it belongs to the same attempt");
}

#[test]
fn a_failed_agent_is_not_verified() {
    let ws = workspace();
    ws.task("a").run("exit 1").verify("touch verified").add();
    ws.run(["a"]).code(3);
    assert!(!ws.exists("verified"));
}

#[test]
fn the_last_lines_of_a_verification_go_into_the_next_prompt() {
    let ws = workspace();
    ws.task("a")
        .run("cp $CF_PROMPT_FILE prompt.$CF_ATTEMPT")
        .verify("[ $CF_ATTEMPT -ge 2 ] || { printf 'three-%s\\n' tests-are-red; exit 1; }")
        .add();
    ws.run(["a", "--retry", "1", "--retry-delay", "10ms"]).ok();
    assert!(!ws.read("prompt.1").contains("three-tests-are-red"));
    assert!(
        ws.read("prompt.2").contains("three-tests-are-red"),
        "{}",
        ws.read("prompt.2")
    );
}

#[test]
fn a_verification_is_stopped_with_its_task() {
    let ws = workspace();
    ws.task("a")
        .run("true")
        .verify("echo $$ > verify.pid; sleep 60")
        .add();
    let batch = ws.start(["a"]);
    let pid = ws.wait_for_pid("verify.pid");
    ws.cf(["work", "stop", "a"]).ok();
    batch.wait().code(3);
    assert!(!process::alive(pid));
    assert_eq!(ws.status("a"), "READY");
}

#[test]
fn a_prompt_tells_the_task_its_dependencies_and_how_to_ask() {
    let ws = workspace();
    ws.add("base", "true");
    ws.task("a")
        .run("cp $CF_PROMPT_FILE prompt")
        .description("Paint the shed in one coat.")
        .after("base")
        .add();
    ws.run(["base", "a"]).ok();
    let prompt = ws.read("prompt");
    for text in ["Paint the shed in one coat.", "base", "cf blocker ask"] {
        assert!(prompt.contains(text), "{text:?} in\n{prompt}");
    }
}

#[test]
fn the_previous_failure_goes_into_the_next_prompt() {
    let ws = workspace();
    ws.add(
        "a",
        "cp $CF_PROMPT_FILE prompt.$CF_ATTEMPT; echo the-disk-is-on-fire; [ $CF_ATTEMPT -ge 2 ]",
    );
    ws.run(["a", "--retry", "1", "--retry-delay", "10ms"]).ok();
    assert!(
        ws.read("prompt.2").contains("the-disk-is-on-fire"),
        "{}",
        ws.read("prompt.2")
    );
}
