//! `cf doctor`: every check, and that cleaning takes nothing that somebody needs.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use cf_testkit::github::{Fault, ScriptedGithub};
use cf_testkit::{Workspace, process};
use serde_json::{Value, json};

use crate::{empty_folder, sleeper, waiter, workspace};

/// The findings of one check, as `level: what`.
fn findings(examined: &Value, check: &str) -> Vec<String> {
    let all = examined["findings"].as_array().expect("a list");
    all.iter()
        .filter(|finding| finding["check"] == check)
        .map(|finding| {
            let text = |name: &str| finding[name].as_str().unwrap_or_default().to_owned();
            format!("{}: {}", text("level"), text("what"))
        })
        .collect()
}

fn examine(ws: &Workspace, code: i32) -> Value {
    let output = ws.cf(["doctor", "--json"]).code(code);
    serde_json::from_slice(output.stdout_bytes()).expect("it prints JSON")
}

/// Makes a file that was last changed long ago.
fn old(ws: &Workspace, name: &str) {
    let path = ws.root().join(name);
    fs::create_dir_all(path.parent().expect("it lies in the root")).expect("the root is ours");
    let file = File::create(path).expect("the root is ours");
    file.set_modified(SystemTime::now() - Duration::from_hours(1))
        .expect("it is ours");
}

#[test]
fn a_new_workspace_is_fine() {
    let ws = workspace();
    let examined = examine(&ws, 0);
    assert_eq!(examined["ok"], true);
    assert_eq!(findings(&examined, "workspace").len(), 1);
    assert_eq!(
        findings(&examined, "config"),
        ["ok: every setting can be used"]
    );
    let database = &findings(&examined, "database")[0];
    assert!(database.starts_with("ok: sound, version "), "{database}");
    assert_eq!(findings(&examined, "attempts"), ["ok: none is stale"]);
    assert_eq!(findings(&examined, "leftovers"), ["ok: none"]);
    assert!(findings(&examined, "disk")[0].starts_with("ok: "));
    let git = &findings(&examined, "git")[0];
    assert!(
        git.starts_with("note: git version ") && git.ends_with("in no repository"),
        "{git}"
    );
    assert!(findings(&examined, "github")[0].starts_with("note: off: there is no token"));
    ws.cf(["doctor"]).ok().says("ok       database   sound");
}

#[test]
fn without_a_workspace_it_says_how_to_make_one() {
    let ws = empty_folder();
    let examined = examine(&ws, 0);
    assert_eq!(
        findings(&examined, "workspace"),
        ["note: there is none here"]
    );
    ws.cf(["doctor"]).ok().says("make one with `cf init`");
}

#[test]
fn agents_are_asked_for_their_versions_and_get_no_token() {
    let ws = workspace().with([
        ("GH_TOKEN", "token-of-mine"),
        ("SAME", "token-of-mine"),
        ("CF_WEBHOOK_SECRET", "secret-of-mine"),
        ("GITHUB_API_URL", "http://127.0.0.1:9"),
    ]);
    ws.program(
        "codex",
        "#!/bin/sh\n[ \"$*\" = --version ] && env > codex.env && echo 'codex 1.2.3'",
    );
    ws.program("gemini", "#!/bin/sh\nexit 7");
    let examined = examine(&ws, 1);
    let agents = findings(&examined, "agents");
    assert!(
        agents[0].starts_with("ok: codex: codex 1.2.3 ("),
        "{agents:?}"
    );
    assert!(
        agents[1].starts_with("problem: gemini: ") && agents[1].ends_with("fails at --version"),
        "{agents:?}"
    );
    let env = ws.read("codex.env");
    assert!(!env.contains("-of-mine") && !env.contains("CF_"), "{env}");
    let github = &findings(&examined, "github")[0];
    assert!(
        github.starts_with("note: github.com: token from GH_TOKEN: "),
        "{github}"
    );
    assert!(!examined.to_string().contains("token-of-mine"));
}

#[test]
fn github_is_asked_what_the_token_may_do() {
    let github = ScriptedGithub::start();
    let ws = workspace().with(github.environment());
    let told = |fault: Fault, code: i32| {
        github.heal();
        github.fault("/rate_limit", fault, 1);
        findings(&examine(&ws, code), "github")[0].clone()
    };
    assert_eq!(
        told(
            Fault::status(200, "", &["x-oauth-scopes: repo, read:org"]),
            0
        ),
        "ok: github.com: token from GH_TOKEN, scopes: repo, read:org"
    );
    assert_eq!(
        told(Fault::status(200, "", &["x-oauth-scopes: "]), 0),
        "note: github.com: token from GH_TOKEN, scopes: none"
    );
    assert!(
        told(Fault::status(200, "", &[]), 0)
            .starts_with("ok: github.com: token from GH_TOKEN, taken")
    );
    assert!(told(Fault::status(401, "Bad credentials", &[]), 1).starts_with("problem: "));
    assert!(told(Fault::Silence(Duration::from_secs(20)), 0).starts_with("note: "));
    assert!(
        github
            .received()
            .iter()
            .all(|request| request.path.ends_with("/rate_limit"))
    );
    assert_eq!(github.received().len(), 5, "nothing is asked twice");
}

#[test]
fn what_a_killed_conductor_left_is_a_problem_until_it_is_taken_up() {
    let ws = workspace();
    ws.add("a", &sleeper("a"));
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    let supervisor = ws.supervisor("a");
    assert_eq!(
        findings(&examine(&ws, 0), "attempts"),
        ["ok: none is stale"],
        "while it is conducted"
    );
    batch.kill9();
    process::kill9(supervisor);
    ws.agents().into_iter().for_each(process::kill9);
    ws.wait_for_quiet();
    let attempts = findings(&examine(&ws, 1), "attempts");
    assert!(
        attempts[0].ends_with("has not ended, and nobody conducts it"),
        "{attempts:?}"
    );
    assert_eq!(
        attempts[1],
        "problem: attempt 1 of a has no end, and its supervisor is gone"
    );
    // Its file is needed to settle it, however old it is.
    for entry in fs::read_dir(ws.root().join(".cf/supervisors")).expect("it is there") {
        let file = File::options()
            .write(true)
            .open(entry.expect("it can be read").path())
            .expect("it is ours");
        file.set_modified(SystemTime::now() - Duration::from_hours(1))
            .expect("it is ours");
    }
    assert_eq!(examine(&ws, 1)["leftovers"], json!([]));
    ws.cf(["doctor"]).code(1).says("cf resume");
    ws.cf(["work", "batch", "stop", &ws.batch_id()]).ok();
    assert_eq!(
        findings(&examine(&ws, 0), "attempts"),
        ["ok: none is stale"]
    );
}

#[test]
fn only_what_nobody_needs_is_removed() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    let dead = ".cf/supervisors/00000000-0000-4000-8000-000000000001.sup";
    let lock = ".cf/locks/00000000-0000-4000-8000-000000000002.lock";
    let copy = ".cf/codeframe-1/state.db";
    let other = ".cf/supervisors/something else";
    let young = ".cf/supervisors/00000000-0000-4000-8000-000000000003.sup";
    for name in [dead, lock, other, copy] {
        old(&ws, name);
    }
    File::open(ws.root().join(".cf/codeframe-1"))
        .and_then(|folder| folder.set_modified(SystemTime::now() - Duration::from_hours(1)))
        .expect("it is ours");
    let folder = ws.root().join(".cf/codeframe-2");
    fs::create_dir(&folder).expect("its place is free");
    let running = File::open(&folder).expect("it is there");
    running
        .set_modified(SystemTime::now() - Duration::from_hours(1))
        .expect("it is ours");
    running.lock().expect("nobody holds it");
    ws.write(young, "");
    ws.cf(["doctor"])
        .ok()
        .says("3 things that nobody needs")
        .says(dead);
    assert!(ws.exists(dead), "looking changes nothing");
    let cleaned = ws.cf(["doctor", "--fix", "--json"]).json();
    assert_eq!(cleaned["cleaned"].as_array().map(Vec::len), Some(3));
    assert_eq!(findings(&cleaned, "leftovers"), ["ok: none; 3 removed"]);
    assert_eq!([dead, lock, copy].map(|name| ws.exists(name)), [false; 3]);
    let left = [other, young, ".cf/codeframe-2"];
    assert_eq!(left.map(|name| ws.exists(name)), [true; 3]);
    ws.touch("a.go");
    batch.wait().ok();
    assert_eq!(ws.status("a"), "DONE", "its own supervisor's file stayed");
}

#[test]
fn the_file_of_an_attempt_that_never_came_is_removed() {
    let ws = workspace();
    ws.add("a", &waiter("a"));
    ws.add("b", "true");
    let files = || {
        fs::read_dir(ws.root().join(".cf/attempts"))
            .expect("it is there")
            .map(|entry| entry.expect("it can be read").path())
            .collect::<Vec<_>>()
    };
    let grow_old = || {
        for file in files() {
            File::open(file)
                .and_then(|file| file.set_modified(SystemTime::now() - Duration::from_hours(1)))
                .expect("it is ours");
        }
    };
    let batch = ws.start(["a", "b"]);
    ws.wait_for_pid("a.pid");
    ws.wait_until("the next one's file", || files().len() == 2);
    grow_old();
    assert_eq!(
        examine(&ws, 0)["leftovers"],
        json!([]),
        "while it is conducted"
    );
    batch.kill9();
    ws.cf(["work", "batch", "stop", "--force", &ws.batch_id()])
        .ok();
    // Somebody has put something into another one.
    let kept = ".cf/attempts/00000000-0000-4000-8000-000000000001.md";
    ws.write(kept, "mine");
    grow_old();
    let cleaned = ws.cf(["doctor", "--fix", "--json"]).json();
    assert_eq!(findings(&cleaned, "leftovers"), ["ok: none; 1 removed"]);
    assert_eq!(files().len(), 2, "that of the attempt, and the other");
    assert!(ws.exists(kept));

    ws.cf(["work", "batch", "run", "b"]).ok();
    assert_eq!(files().len(), 3, "what is not used goes with the batch");
}

#[test]
fn what_stood_in_the_place_of_an_attempts_folder_is_removed() {
    let ws = workspace();
    let planted = ".cf/attempts/not-00000000-0000-4000-8000-000000000001";
    let other = ".cf/attempts/not-mine";
    for folder in [planted, other] {
        ws.write(&format!("{folder}/home/file"), "planted");
        File::open(ws.root().join(folder))
            .and_then(|folder| folder.set_modified(SystemTime::now() - Duration::from_hours(1)))
            .expect("it is ours");
    }
    ws.cf(["doctor"])
        .ok()
        .says("what stood in the place of an attempt's folder: ")
        .says(planted);
    let cleaned = ws.cf(["doctor", "--fix", "--json"]).json();
    assert_eq!(findings(&cleaned, "leftovers"), ["ok: none; 1 removed"]);
    assert_eq!([planted, other].map(|name| ws.exists(name)), [false, true]);
}

/// An agent can make one, and what it leads to may be anybody's.
#[test]
fn behind_a_link_nothing_is_a_leftover() {
    let ws = workspace();
    let outside = empty_folder();
    for name in ["one/__init__.py", "two/cf.17"] {
        old(&outside, name);
    }
    let link = |to: &str, at: &str| {
        let at = ws.root().join(at);
        let _ = fs::remove_dir_all(&at);
        fs::create_dir_all(at.parent().expect("it lies in the root")).expect("the root is ours");
        std::os::unix::fs::symlink(outside.root().join(to), &at).expect("the root is ours");
        // A link has no other age than its own.
        let long_ago = std::process::Command::new("touch")
            .args(["-h", "-d", "1 hour ago"])
            .arg(&at)
            .status();
        assert!(long_ago.is_ok_and(|status| status.success()));
    };
    link("one", ".cf/attempts/00000000-0000-4000-8000-000000000001");
    link("two", ".cf/bin");
    let cleaned = ws.cf(["doctor", "--fix", "--json"]).json();
    assert_eq!(findings(&cleaned, "leftovers"), ["ok: none"]);
    assert!(outside.exists("one/__init__.py"));
    assert!(outside.exists("two/cf.17"));
}

#[test]
fn a_worktree_is_removed_only_when_nothing_would_be_lost_with_it() {
    let ws = workspace().git();
    ws.write("committed", "x");
    ws.git_do(["add", "committed"]);
    ws.git_do(["commit", "-q", "-m", "one"]);
    assert!(findings(&examine(&ws, 0), "worktrees").is_empty());
    for name in ["clean", "dirty"] {
        let path = format!(".cf/worktrees/{name}");
        ws.git_do(["worktree", "add", "-q", "--detach", &path]);
    }
    ws.write(".cf/worktrees/dirty/new", "nowhere else");
    ws.cf(["doctor"])
        .ok()
        .says("something is left in dirty")
        .says("worktree that holds nothing of its own: ")
        .says(".cf/worktrees/clean");
    let cleaned = ws.cf(["doctor", "--fix", "--json"]).json();
    assert_eq!(findings(&cleaned, "leftovers"), ["ok: none; 1 removed"]);
    assert!(!ws.exists(".cf/worktrees/clean"));
    assert_eq!(ws.read(".cf/worktrees/dirty/new"), "nowhere else");
    assert!(!ws.git_do(["worktree", "list"]).contains("worktrees/clean"));
}

#[test]
fn work_that_is_nowhere_else_is_told_with_its_task() {
    let ws = crate::worktree::repository();
    ws.add("a", "false");
    ws.run(["a"]).code(3);
    let tree = crate::worktree::tree(&ws, "a");
    let name = tree["path"]
        .as_str()
        .and_then(|path| path.rsplit('/').next())
        .expect("it has a name");
    // It was removed, with nothing in it; here is one that a conductor which was killed left.
    let path = format!(".cf/worktrees/{name}");
    ws.git_do(["worktree", "add", "-q", "--detach", &path]);
    ws.write(&format!("{path}/new"), "nowhere else");
    ws.sql_do("UPDATE worktree SET removed_at_ms = NULL");
    assert_eq!(
        findings(&examine(&ws, 0), "worktrees"),
        [format!("note: something is left in {name} of task a")]
    );
}

#[test]
fn a_workspace_that_others_may_write_and_a_wrong_setting_are_told() {
    use std::os::unix::fs::PermissionsExt as _;
    let ws = workspace();
    ws.config("retyr = 1\n");
    let config = findings(&examine(&ws, 1), "config");
    assert!(config[0].contains("unknown key `retyr`"), "{config:?}");
    ws.config("");
    fs::set_permissions(ws.root().join(".cf"), fs::Permissions::from_mode(0o777))
        .expect("it is ours");
    let told = findings(&examine(&ws, 1), "workspace");
    assert!(told[0].contains("others may write to it"), "{told:?}");
}

#[test]
fn a_damaged_database_is_told() {
    let ws = workspace();
    ws.add("a", "true");
    ws.sql_do("PRAGMA wal_checkpoint(TRUNCATE)");
    let path = ws.root().join(".cf/state.db");
    let mut bytes = fs::read(&path).expect("it is there");
    let half = bytes.len() / 2;
    bytes[half..].fill(0xa5);
    fs::write(&path, bytes).expect("it is ours");
    let database = findings(&examine(&ws, 1), "database");
    assert!(
        database.iter().any(|line| line.starts_with("problem: ")),
        "{database:?}"
    );
}

#[test]
fn an_agent_may_look_and_not_clean() {
    let ws = workspace();
    ws.add(
        "a",
        "cf doctor > looked; cf doctor --fix > cleaned 2>&1; true",
    );
    ws.run(["a"]).ok();
    assert!(ws.read("looked").contains("database"));
    assert!(ws.read("cleaned").contains("an agent may not clean up"));
}

#[test]
fn homes_of_agents_go_when_no_session_in_them_is_gone_on_with() {
    let ws = workspace();
    ws.program(
        "agent",
        "#!/bin/sh\necho x > $HOME/login; [ \"$CF_TASK_KEY\" = good ]\n",
    );
    ws.config("engine = 'own'\n[engines.own]\ncommand = ['agent']\nhome = 'attempt'\n");
    for key in ["good", "bad", "linked"] {
        ws.cf(["tasks", "add", key, "--key", key]).ok();
    }
    ws.run(["good", "bad", "linked"]).code(3);
    ws.set("linked", "DONE");
    let folder = |key: &str| {
        let id = ws.attempts(key)[0]["id"].as_str().unwrap().to_owned();
        ws.root().join(".cf/attempts").join(id)
    };
    // An agent that puts a link in the place of its folder has nothing removed but its own.
    let elsewhere = ws.home().join("elsewhere");
    fs::create_dir_all(elsewhere.join("home")).unwrap();
    fs::remove_dir_all(folder("linked")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, folder("linked")).unwrap();
    for key in ["good", "bad"] {
        let file = File::open(folder(key)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_hours(1))
            .unwrap();
    }
    std::process::Command::new("touch")
        .args(["-h", "-d", "1 hour ago"])
        .arg(folder("linked"))
        .status()
        .unwrap();
    ws.cf(["doctor"])
        .ok()
        .says("home that an agent had, whose task is done");
    assert!(folder("good").join("home/login").exists());
    ws.cf(["doctor", "--fix"]).text();
    assert!(!folder("good").join("home").exists());
    assert!(folder("bad").join("home/login").exists());
    assert!(elsewhere.join("home").exists());
    ws.cf(["tasks", "show", "good"]).ok().says("Attempts");
}
