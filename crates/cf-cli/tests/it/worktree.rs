//! `--isolation worktree`: every attempt in a git worktree of its own.

use cf_testkit::Workspace;

use crate::{empty_folder, sleeper};

fn repository() -> Workspace {
    empty_folder().git().init()
}

#[test]
fn an_agent_works_in_a_worktree_on_the_tasks_branch() {
    let ws = repository();
    let root = ws.root().display().to_string();
    ws.add("a", &format!("pwd > {root}/where; git rev-parse --abbrev-ref HEAD > {root}/branch; echo new > made; git add made; git commit -q -m made"));
    ws.run(["a", "--isolation", "worktree"]).ok();
    assert_ne!(ws.read("where").trim(), root);
    assert_eq!(ws.read("branch").trim(), "cf/a");
    assert!(
        !ws.exists("made"),
        "the workspace's own tree is not touched"
    );
    assert_eq!(ws.git_do(["show", "cf/a:made"]), "new\n");
    assert_eq!(ws.status("a"), "DONE");
}

#[test]
fn a_task_without_a_key_gets_a_branch_by_its_id() {
    let ws = repository();
    let task = ws
        .cf(["tasks", "add", "t", "--run", "true", "--json"])
        .json();
    let id = task["id"].as_str().expect("an id is text");
    ws.run([id, "--isolation", "worktree"]).ok();
    ws.git_do(["rev-parse", "--verify", &format!("cf/{}", &id[..8])]);
}

#[test]
fn a_task_sees_what_its_dependencies_made() {
    let ws = repository();
    ws.add(
        "base",
        "echo new > made; git add made; git commit -q -m made",
    );
    ws.task("top").run("test -e made").after("base").add();
    ws.run(["base", "top", "--isolation", "worktree"]).ok();
    assert_eq!(ws.status("top"), "DONE");
}

#[test]
fn tasks_side_by_side_do_not_meet() {
    let ws = repository();
    for key in ["a", "b"] {
        ws.add(key, "echo $CF_TASK_KEY > same; sleep 0.2; test \"$(cat same)\" = \"$CF_TASK_KEY\" && git add same && git commit -q -m same");
    }
    ws.run(["a", "b", "--isolation", "worktree", "--max-parallel", "2"])
        .ok();
    assert_eq!(ws.git_do(["show", "cf/a:same"]), "a\n");
    assert_eq!(ws.git_do(["show", "cf/b:same"]), "b\n");
}

#[test]
fn a_branch_that_somebody_else_made_is_refused_by_name() {
    let ws = repository();
    ws.git_do(["branch", "cf/a"]);
    let before = ws.git_do(["rev-parse", "cf/a"]);
    ws.add("a", "echo x > made; git add made; git commit -q -m made");
    let output = ws.run(["a", "--isolation", "worktree"]);
    assert_ne!(output.exit_code(), Some(0));
    assert!(output.text().contains("cf/a"), "{}", output.text());
    assert_eq!(ws.git_do(["rev-parse", "cf/a"]), before);
}

#[test]
fn uncommitted_work_is_saved_before_a_stop() {
    let ws = repository();
    let root = ws.root().display().to_string();
    let id = ws.add(
        "a",
        &format!("echo precious > work; echo $$ > {root}/a.pid; sleep 60"),
    );
    let batch = ws.start(["a", "--isolation", "worktree"]);
    ws.wait_for_pid("a.pid");
    ws.cf(["work", "batch", "stop", "--force"]).ok();
    let output = batch.wait().code(5);
    let refs = ws.git_do(["for-each-ref", "--format=%(refname)", "refs/cf/rescue"]);
    let rescue = refs
        .lines()
        .next()
        .unwrap_or_else(|| panic!("there is a rescue ref: {}", output.text()))
        .to_owned();
    assert!(
        rescue.contains(&id) || rescue.contains("/a/") || rescue.contains(&id[..8]),
        "{rescue}"
    );
    assert_eq!(ws.git_do(["show", &format!("{rescue}:work")]), "precious\n");
    assert!(
        output.text().contains(&rescue),
        "the ref is printed: {}",
        output.text()
    );
}

#[test]
fn a_second_attempt_starts_from_the_base_and_saves_the_first_ones_work() {
    let ws = repository();
    ws.add(
        "a",
        "test -e half && exit 9; [ $CF_ATTEMPT -ge 2 ] && exit 0; echo half > half; exit 1",
    );
    ws.run([
        "a",
        "--isolation",
        "worktree",
        "--retry",
        "1",
        "--retry-delay",
        "10ms",
    ])
    .ok();
    let refs = ws.git_do(["for-each-ref", "--format=%(refname)", "refs/cf/rescue"]);
    let rescue = refs
        .lines()
        .next()
        .expect("there is a rescue ref")
        .to_owned();
    assert_eq!(ws.git_do(["show", &format!("{rescue}:half")]), "half\n");
}

#[test]
fn outside_a_repository_there_is_no_worktree() {
    let ws = empty_folder().init();
    ws.add("a", &sleeper("a"));
    ws.run(["a", "--isolation", "worktree"])
        .refused()
        .says("git");
    assert!(!ws.exists("a.pid"));
    assert_eq!(ws.status("a"), "READY");
}

#[test]
fn a_dirty_worktree_is_kept() {
    let ws = repository();
    let root = ws.root().display().to_string();
    ws.add(
        "a",
        &format!("pwd > {root}/where; echo unfinished > dirty; exit 1"),
    );
    ws.run(["a", "--isolation", "worktree"]).code(3);
    let tree = ws.read("where").trim().to_owned();
    assert!(std::path::Path::new(&tree).join("dirty").exists());
}
