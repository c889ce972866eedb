//! `cf work merge`: finished work comes to the user's branch, whole or not at all.

use serde_json::Value;

use crate::workspace;
use crate::worktree::{in_commit, repository, users};

#[test]
fn finished_work_is_merged_in_the_order_of_dependencies() {
    let ws = repository();
    ws.add("b", "echo b > b");
    ws.task("a").run("echo a > a").after("b").add();
    ws.add("bad", "exit 1");
    ws.run(["a", "b", "bad"]).code(3);
    let merged = ws.cf(["work", "merge", "--json"]).json();
    assert_eq!(merged["into"], "main");
    let labels: Vec<&Value> = merged["merged"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| &m["label"])
        .collect();
    assert_eq!(labels, ["b", "a"]);
    for key in ["a", "b"] {
        assert_eq!(ws.status(key), "MERGED");
        assert_eq!(ws.read(key), format!("{key}\n"));
    }
    assert_eq!(ws.status("bad"), "FAILED");
    assert_eq!(ws.git_do(["log", "-1", "--format=%s"]), "Merge cf/a: a\n");
    let head = ws.git_do(["rev-parse", "HEAD"]);
    ws.cf(["work", "merge"]).ok().says("nothing to merge");
    ws.cf(["work", "merge", "a"])
        .ok()
        .says("a is merged already");
    assert_eq!(ws.git_do(["rev-parse", "HEAD"]), head);
}

#[test]
fn a_conflict_stops_it_with_nothing_half_done_and_can_be_settled_by_hand() {
    let ws = repository();
    for key in ["a", "b", "c"] {
        ws.add(key, &format!("echo {key} > README; echo {key} > {key}"));
    }
    ws.run(["a", "b", "c"]).ok();
    ws.cf(["work", "merge", "a", "b", "c"])
        .code(1)
        .says("merged cf/a into main")
        .says("merging cf/b into main conflicts in README")
        .says("git merge cf/b");
    assert_eq!(
        (ws.status("a").as_str(), ws.status("b").as_str()),
        ("MERGED", "DONE")
    );
    assert_eq!(ws.git_do(["status", "--porcelain"]), "");
    assert_eq!(ws.read("README"), "a\n");
    let error = ws.cf(["work", "merge", "b", "--json"]).code(1).json_error();
    assert!(
        error["error"]["message"]
            .as_str()
            .unwrap()
            .contains("README"),
        "{error}"
    );
    ws.git_do(["merge", "-q", "-X", "theirs", "-m", "by hand", "cf/b"]);
    ws.cf(["work", "merge", "b"]).ok();
    assert_eq!(ws.status("b"), "MERGED");
}

#[test]
fn a_checkout_that_is_not_clean_is_refused_by_name_and_untouched() {
    let ws = repository();
    ws.add("a", "echo a > a");
    ws.run(["a"]).ok();
    ws.write("README", "mine\n");
    let before = users(&ws);
    ws.cf(["work", "merge"])
        .code(1)
        .says("not committed: README")
        .says("commit or stash");
    assert_eq!(users(&ws), before);
    ws.git_do(["checkout", "-q", "README"]);
    // What git does not follow is in nobody's way, unless the work would write over it.
    ws.write("a", "mine\n");
    ws.cf(["work", "merge"])
        .code(1)
        .says("would be overwritten");
    assert_eq!(ws.read("a"), "mine\n");
    assert_eq!(ws.status("a"), "DONE");
    ws.write("other", "mine\n");
    std::fs::remove_file(ws.root().join("a")).unwrap();
    ws.cf(["work", "merge"]).ok();
    assert_eq!(ws.status("a"), "MERGED");
}

#[test]
fn what_cannot_be_merged_is_refused_by_name() {
    let ws = repository();
    ws.add("a", "echo a > a");
    ws.run(["a"]).ok();
    ws.add("new", "true");
    ws.cf(["work", "merge", "new"])
        .code(1)
        .says("task new is READY");
    ws.set("new", "DONE");
    ws.cf(["work", "merge", "new"])
        .code(1)
        .says("task new has no work on a branch");
    ws.cf(["work", "merge", "nothing"]).code(1).says("no task");
    ws.git_do(["checkout", "-q", "cf/a"]);
    ws.cf(["work", "merge"])
        .code(1)
        .says("is itself the branch of a task");
    ws.git_do(["checkout", "-q", "--detach"]);
    ws.cf(["work", "merge"]).code(1).says("HEAD is detached");
    assert_eq!(ws.status("a"), "DONE");
}

#[test]
fn what_a_person_added_to_the_branch_is_merged_too() {
    let ws = repository();
    ws.add("a", "echo a > a");
    ws.run(["a"]).ok();
    ws.git_do(["checkout", "-q", "cf/a"]);
    ws.write("reviewed", "yes\n");
    ws.git_do(["add", "reviewed"]);
    ws.git_do(["commit", "-q", "-m", "reviewed"]);
    ws.git_do(["checkout", "-q", "main"]);
    ws.cf(["work", "merge"]).ok();
    assert_eq!(in_commit(&ws, "main", "reviewed"), "yes\n");
}

#[test]
fn an_agent_may_not_merge() {
    let ws = repository();
    ws.add("a", "echo a > a");
    ws.add("b", "cf work merge a; test $? -eq 1");
    ws.run(["a", "b"]).ok();
    assert_eq!(ws.status("a"), "DONE");
}

#[test]
fn there_is_nothing_to_merge_without_worktrees() {
    let ws = workspace();
    ws.add("a", "true");
    ws.run(["a"]).ok();
    ws.cf(["work", "merge"]).ok().says("nothing to merge");
}
