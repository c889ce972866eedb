//! Bad input gets a clear error, a non-zero exit, and no change.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use test_case::test_case;

use crate::{plan_of, sleeper, workspace};

#[test_case(&["--max-parallel", "0"]; "no slot")]
#[test_case(&["--max-parallel", "-1"]; "fewer than no slot")]
#[test_case(&["--max-parallel", "999999999999"]; "too many slots")]
#[test_case(&["--max-parallel", "two"]; "slots in words")]
#[test_case(&["--reconcile-interval", "-5"]; "a negative interval")]
#[test_case(&["--reconcile-interval", "99999999999999999999"]; "an absurd interval")]
#[test_case(&["--reconcile-interval", "soon"]; "an interval in words")]
#[test_case(&["--reconcile-interval", ""]; "an empty interval")]
#[test_case(&["--timeout", "-1s"]; "a negative timeout")]
#[test_case(&["--timeout", "400d"]; "an absurd timeout")]
#[test_case(&["--stall-timeout", "1x"]; "an unknown unit")]
#[test_case(&["--kill-grace", "1e9"]; "an exponent")]
#[test_case(&["--retry", "-1"]; "a negative retry")]
#[test_case(&["--retry-delay", "-1"]; "a negative delay")]
#[test_case(&["--on-failure", "panic"]; "an unknown policy")]
#[test_case(&["--strategy", "random"]; "an unknown strategy")]
#[test_case(&["--isolation", "container"]; "an unknown isolation")]
#[test_case(&["--wait-for-blockers=-1"]; "a negative wait")]
#[test_case(&["--no-such-flag"]; "an unknown flag")]
fn a_bad_flag_is_a_usage_error_and_nothing_starts(flags: &[&str]) {
    let ws = workspace();
    ws.add("a", "touch ran");
    let before = ws.events().len();
    let mut args = vec!["a"];
    args.extend(flags);
    let output = ws.run(&args).code(2);
    assert!(
        !output.stderr().is_empty() && !output.stderr().contains("panicked"),
        "{}",
        output.stderr()
    );
    assert!(!ws.exists("ran"));
    assert_eq!(ws.events().len(), before);
}

#[test]
fn an_unknown_engine_is_refused_before_anything_is_claimed() {
    let ws = workspace();
    ws.task("a").description("words only").add();
    ws.run(["a", "--engine", "no-such-engine"])
        .refused()
        .says("no-such-engine");
    assert_eq!(ws.status("a"), "READY");
    assert!(ws.attempts("a").is_empty());
}

#[test]
fn a_missing_agent_program_is_refused_before_anything_is_claimed() {
    let ws = workspace();
    ws.add("ok", "touch ok.ran");
    ws.task("a").engine("gemini").add();
    let path = ws.bin();
    ws.command(["work", "batch", "run", "ok", "a"])
        .env("PATH", &path)
        .run()
        .refused()
        .says("gemini");
    assert_eq!(ws.status("a"), "READY");
    assert_eq!(ws.status("ok"), "READY");
    assert!(!ws.exists("ok.ran"));
    assert!(ws.attempts("a").is_empty());
}

#[test]
fn a_plan_with_a_key_twice_is_refused() {
    let ws = workspace();
    let plan = ws.plan("[[task]]\nkey = 'twice'\ntitle = 'one'\nrun = 'true'\n[[task]]\nkey = 'twice'\ntitle = 'two'\nrun = 'true'\n");
    ws.cf(["tasks", "import", plan]).refused().says("twice");
    ws.run(["--file", plan]).refused().says("twice");
    assert_eq!(
        ws.cf(["tasks", "list", "--json"]).json(),
        cf_testkit::json!([])
    );
}

#[test]
fn a_plan_that_is_not_text_is_refused() {
    let ws = workspace();
    ws.write(
        "plan.toml",
        b"[[task]]\nkey = 'a'\ntitle = '\xff\xfe'\nrun = 'true'\n",
    );
    ws.cf(["tasks", "import", "plan.toml"])
        .refused()
        .says("plan.toml");
    assert_eq!(
        ws.cf(["tasks", "list", "--json"]).json(),
        cf_testkit::json!([])
    );
}

#[test]
fn a_plan_with_a_line_of_100_megabytes_is_refused() {
    let ws = workspace();
    let plan = format!(
        "[[task]]\nkey = 'a'\ntitle = 't'\nrun = 'true'\ndescription = '{}'\n",
        "x".repeat(100_000_000)
    );
    ws.cf(["tasks", "import", ws.plan(&plan)]).refused();
    assert_eq!(
        ws.cf(["tasks", "list", "--json"]).json(),
        cf_testkit::json!([])
    );
}

#[test_case("not toml at all"; "not toml")]
#[test_case("[[task]]\nkey = 'a'\n"; "no title")]
#[test_case("[[task]]\nkey = 'a'\ntitle = 't'\npriority = -1\n"; "a negative priority")]
#[test_case("[[task]]\nkey = 'a'\ntitle = 't'\ntimeout = '-1s'\n"; "a negative timeout")]
#[test_case("[[task]]\nkey = 'a'\ntitle = 't'\ndepends_on = 'b'\n"; "a wrong type")]
#[test_case("[[task]]\nkey = 'a'\ntitle = 't'\nissue = 'https://github.com/o/../r/issues/1'\n"; "an odd repository")]
#[test_case("[[task]]\nkey = 'a'\ntitle = 't'\nenv = { 'A=B' = 'x' }\n"; "an impossible variable")]
#[test_case("[batch]\nmax_parallel = 0\n[[task]]\nkey = 'a'\ntitle = 't'\nrun = 'true'\n"; "no slot")]
fn a_bad_plan_is_refused_as_a_whole(plan: &str) {
    let ws = workspace();
    let good = "[[task]]\nkey = 'good'\ntitle = 'good'\nrun = 'touch ran'\n";
    let text = if plan.starts_with("[batch]") {
        format!("{plan}{good}")
    } else {
        format!("{good}{plan}")
    };
    ws.run(["--file", ws.plan(&text)])
        .refused()
        .says("plan.toml");
    assert!(!ws.exists("ran"));
    assert_eq!(
        ws.cf(["tasks", "list", "--json"]).json(),
        cf_testkit::json!([])
    );
}

#[test]
fn a_missing_plan_is_refused_by_name() {
    let ws = workspace();
    ws.run(["--file", "missing.toml"])
        .refused()
        .says("missing.toml");
}

#[test_case("o"; "no slash")]
#[test_case("o/r/x"; "two slashes")]
#[test_case("o/.."; "dots")]
#[test_case("-o/r"; "a leading hyphen")]
#[test_case("o/r?x=1"; "a query")]
#[test_case("o/r\nHost: evil"; "a line break")]
#[test_case("ö/r"; "a letter beyond ascii")]
fn a_repository_name_with_odd_characters_is_refused(name: &str) {
    let ws = workspace();
    ws.command(["github", "import", name])
        .env("GH_TOKEN", "x")
        .env("GITHUB_API_URL", "http://127.0.0.1:9")
        .run()
        .refused();
    assert_eq!(
        ws.cf(["tasks", "list", "--json"]).json(),
        cf_testkit::json!([])
    );
}

#[test]
fn a_refused_transition_says_what_is_allowed() {
    let ws = workspace();
    ws.add("a", "true");
    ws.set("a", "MERGED");
    ws.cf(["tasks", "set", "status", "a", "READY"])
        .refused()
        .says("MERGED");
    assert_eq!(ws.status("a"), "MERGED");
}

#[test]
fn an_empty_title_is_refused() {
    let ws = workspace();
    ws.cf(["tasks", "add", ""]).refused();
    ws.cf(["tasks", "add", "   "]).refused();
    assert_eq!(
        ws.cf(["tasks", "list", "--json"]).json(),
        cf_testkit::json!([])
    );
}

#[test]
fn an_empty_question_or_answer_is_refused() {
    let ws = workspace();
    ws.add("a", "true");
    ws.cf(["blocker", "ask", "", "--task", "a"]).refused();
    assert_eq!(ws.status("a"), "READY");
    let blocker = ws.ask("a", "One?");
    ws.cf(["blocker", "answer", &blocker, ""]).refused();
    assert_eq!(ws.status("a"), "BLOCKED");
}

#[test]
fn arguments_that_are_not_text_are_refused_without_a_crash() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let ws = workspace();
    ws.cf([
        OsStr::new("tasks"),
        OsStr::new("add"),
        OsStr::from_bytes(b"\xff\xfe"),
    ])
    .refused();
    ws.cf([
        OsStr::new("tasks"),
        OsStr::new("show"),
        OsStr::from_bytes(b"\xff\xfe"),
    ])
    .refused();
}

#[test]
fn a_database_of_a_newer_version_is_refused_and_left_alone() {
    let ws = workspace();
    ws.add("a", "touch ran");
    ws.sql_do(
        "INSERT INTO refinery_schema_history (version, name, applied_on, checksum) VALUES (999, 'later', '2099-01-01T00:00:00Z', '1');
         PRAGMA wal_checkpoint(TRUNCATE);",
    );
    let before = fs::read(ws.root().join(".cf/state.db")).expect("there is a database");
    ws.cf(["tasks", "list"]).refused().says("999");
    ws.run(["a"]).refused().says("newer");
    assert!(!ws.exists("ran"));
    assert_eq!(
        before,
        fs::read(ws.root().join(".cf/state.db")).expect("there is a database")
    );
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let ws = workspace();
    ws.add("a", "touch ran");
    for name in [".cf/state.db-wal", ".cf/state.db-shm"] {
        let _ = fs::remove_file(ws.root().join(name));
    }
    let junk = "this is not a database ".repeat(500);
    ws.write(".cf/state.db", &junk);
    ws.cf(["tasks", "list"]).refused().says("state.db");
    ws.run(["a"]).refused();
    ws.cf(["init"]).refused();
    assert_eq!(ws.read(".cf/state.db"), junk);
}

#[test]
fn an_empty_file_in_place_of_the_database_does_not_crash() {
    let ws = workspace();
    for name in [".cf/state.db-wal", ".cf/state.db-shm"] {
        let _ = fs::remove_file(ws.root().join(name));
    }
    ws.write(".cf/state.db", "");
    let output = ws.cf(["tasks", "list"]);
    assert!(!output.stderr().contains("panicked"), "{}", output.stderr());
}

#[test]
fn a_database_that_cannot_be_written_is_refused_clearly() {
    let ws = workspace();
    ws.add("a", "true");
    let before = ws.events().len();
    let files =
        ["state.db", "state.db-wal", "state.db-shm"].map(|name| ws.root().join(".cf").join(name));
    // Root may write everything, except what is immutable; for others the mode is enough.
    let locked = std::process::Command::new("chattr")
        .arg("+i")
        .arg(&files[0])
        .status()
        .is_ok_and(|status| status.success());
    if !locked {
        for file in &files {
            let _ = fs::set_permissions(file, fs::Permissions::from_mode(0o444));
        }
        if fs::OpenOptions::new().write(true).open(&files[0]).is_ok() {
            return;
        }
    }
    let output = ws.cf(["tasks", "add", "b"]);
    if locked {
        let unlocked = std::process::Command::new("chattr")
            .arg("-i")
            .arg(&files[0])
            .status();
        assert!(unlocked.is_ok_and(|status| status.success()));
    } else {
        for file in &files {
            let _ = fs::set_permissions(file, fs::Permissions::from_mode(0o644));
        }
    }
    output.refused().says("state.db");
    assert_eq!(ws.events().len(), before);
}

#[test_case("trap '' XFSZ; "; "with the signal ignored")]
#[test_case(""; "with the signal as it is")]
fn a_full_disk_is_said_and_leaves_a_sound_database(before: &str) {
    let ws = workspace();
    ws.add("a", "true");
    ws.plan(&plan_of(2_000, "true"));
    // A limit on the size of files (400 blocks of 512 bytes) stands for the full disk.
    let script = format!("{before}ulimit -f 400; exec \"$CF\" tasks import plan.toml");
    let output = std::process::Command::new("/bin/sh")
        .args(["-c", &script])
        .env("CF", ws.binary())
        .env("HOME", ws.home())
        .current_dir(ws.root())
        .output()
        .expect("there is a shell");
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !said.trim().is_empty() && !said.contains("panicked"),
        "{said}"
    );
    assert_eq!(ws.sql("PRAGMA integrity_check"), "ok");
    assert_eq!(
        ws.cf(["tasks", "list", "--json"])
            .json()
            .as_array()
            .map(Vec::len),
        Some(1)
    );
}

#[test]
fn an_agent_does_not_inherit_what_cf_makes_of_signals() {
    let ws = workspace();
    ws.add("a", "grep -E '^Sig(Ign|Cgt):' /proc/self/status > signals");
    ws.run(["a"]).ok();
    let signals = ws.read("signals");
    assert_eq!(signals.lines().count(), 2);
    for line in signals.lines() {
        let mask = line.split_whitespace().next_back().expect("it has a mask");
        let mask = u64::from_str_radix(mask, 16).expect("it is hexadecimal");
        // SIGXFSZ is signal 25, and signal 1 is bit 0.
        assert_eq!(mask & (1 << 24), 0, "{signals}");
    }
}

#[test]
fn a_store_that_is_swapped_under_a_live_batch_stops_the_agents() {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    let batch = ws.start(["a"]);
    let pid = ws.wait_for_pid("a.pid");
    fs::rename(ws.root().join(".cf"), ws.root().join("moved")).expect("the folder is ours");
    batch.wait().code(1);
    ws.wait_until("the agent is gone", || !cf_testkit::process::alive(pid));
}

#[test]
fn an_unknown_batch_is_refused() {
    let ws = workspace();
    ws.add("a", "true");
    ws.run(["a"]).ok();
    for args in [
        vec![
            "work",
            "batch",
            "status",
            "ffffffff-ffff-4fff-8fff-ffffffffffff",
        ],
        vec!["work", "batch", "stop", "ffffffff"],
        vec!["work", "batch", "resume", "ffffffff"],
        vec!["work", "batch", "follow", "ffffffff"],
        vec!["work", "batch", "status", "%"],
    ] {
        ws.cf(&args).refused();
    }
}

#[test]
fn without_a_batch_there_is_nothing_to_show_or_follow() {
    let ws = workspace();
    ws.cf(["work", "batch", "resume"]).refused();
    ws.cf(["work", "batch", "follow"]).refused();
    ws.cf(["work", "batch", "list"]).ok();
}

#[test]
fn a_log_that_is_not_there_is_said() {
    let ws = workspace();
    ws.add("a", "true");
    ws.cf(["work", "logs", "a"]).refused();
    ws.run(["a"]).ok();
    ws.cf(["work", "logs", "a", "--attempt", "2"]).refused();
    ws.cf(["work", "logs", "a", "--attempt", "0"]).refused();
}

#[test]
fn a_task_named_twice_runs_once() {
    let ws = workspace();
    ws.add("a", "echo x >> a.runs");
    let id = ws.id("a");
    ws.run(["a", &id, "a"]).ok();
    assert_eq!(ws.lines("a.runs"), 1);
    assert_eq!(ws.batch()["counts"]["total"], 1);
}

#[test]
fn an_engine_that_makes_no_sense_is_found_by_a_look_at_the_configuration() {
    let ws = workspace();
    ws.config("[engines.mine]\nprogramm = 'x'\n");
    for command in ["check", "show"] {
        ws.cf(["config", command])
            .code(2)
            .says("config.toml")
            .says("engines.mine");
    }
    ws.config("");
    ws.cf(["config", "check"]).ok();
}
