//! `cf work merge`: finished work comes to the user's branch, whole or not at all.

use serde_json::Value;

use crate::workspace;
use cf_testkit::Workspace;

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
        .says("would write over a, which is in no commit")
        .never_says("nothing to merge");
    assert_eq!(ws.read("a"), "mine\n");
    assert_eq!(ws.status("a"), "DONE");
    ws.write("other", "mine\n");
    std::fs::remove_file(ws.root().join("a")).unwrap();
    ws.cf(["work", "merge"]).ok();
    assert_eq!(ws.status("a"), "MERGED");
}

/// Everything of the user's that a merge which is refused must leave alone: also what git ignores, when files were
/// written, and what the reflog says.
fn everything(ws: &Workspace) -> (Vec<String>, String) {
    let files = "find . -path ./.git -prune -o -path ./.cf -prune -o -type f -printf '%p %T@ ' -exec cat {} +; \
                 cat .git/index .git/logs/HEAD .git/ORIG_HEAD 2>/dev/null | sha256sum";
    (users(ws), ws.shell(files).run().stdout())
}

#[test]
fn a_file_that_git_ignores_is_not_written_over_and_not_removed() {
    let ws = repository();
    ws.write(".git/info/exclude", "local.env\nkept\nbuilt\n");
    ws.add(
        "env",
        "echo agent > local.env; git add -f local.env; git commit -qm env; echo env > README",
    );
    ws.add(
        "folder",
        "mkdir kept; echo agent > kept/file; git add -f kept; git commit -qm kept",
    );
    ws.add(
        "file",
        "echo agent > built; git add -f built; git commit -qm built",
    );
    ws.run(["env", "folder", "file"]).ok();
    ws.write("local.env", "SECRET\n");
    ws.write("kept", "a file where the branch has a folder\n");
    std::fs::create_dir(ws.root().join("built")).unwrap();
    ws.write("built/artifact", "a folder where the branch has a file\n");
    let before = everything(&ws);
    for (task, named) in [
        ("env", "local.env"),
        ("folder", "kept"),
        ("file", "built/artifact"),
    ] {
        ws.cf(["work", "merge", task])
            .code(1)
            .says(&format!("would write over {named}, which is in no commit"))
            .says("the checkout is as it was");
        assert_eq!(ws.status(task), "DONE");
    }
    assert_eq!(everything(&ws), before);
    // A conflict besides does not change that.
    ws.write("README", "mine\n");
    ws.git_do(["commit", "-q", "-a", "-m", "mine"]);
    let before = everything(&ws);
    ws.cf(["work", "merge", "env"])
        .code(1)
        .says("conflicts in README");
    assert_eq!(everything(&ws), before);
    ws.git_do(["reset", "-q", "--hard", "HEAD~1"]);
    for there in ["local.env", "kept"] {
        std::fs::remove_file(ws.root().join(there)).unwrap();
    }
    std::fs::remove_dir_all(ws.root().join("built")).unwrap();
    ws.cf(["work", "merge"]).ok();
    assert_eq!(ws.read("local.env"), "agent\n");
}

#[test]
fn a_change_that_git_was_told_not_to_look_at_is_not_undone() {
    let ws = repository();
    ws.write("settings", "theirs\n");
    ws.write("other", "other\n");
    ws.git_do(["add", "settings", "other"]);
    ws.git_do(["commit", "-q", "-m", "settings"]);
    ws.add("a", "echo agent > settings; echo agent > other");
    ws.run(["a"]).ok();
    for how in ["--assume-unchanged", "--skip-worktree"] {
        ws.git_do(["update-index", how, "settings", "other"]);
        ws.write("settings", "mine\n");
        let before = everything(&ws);
        ws.cf(["work", "merge"])
            .code(1)
            .says("would write over settings, which is in no commit");
        assert_eq!(everything(&ws), before);
        for back in ["--no-assume-unchanged", "--no-skip-worktree"] {
            ws.git_do(["update-index", back, "settings", "other"]);
        }
    }
    ws.git_do(["checkout", "-q", "settings"]);
    ws.git_do(["update-index", "--assume-unchanged", "settings", "other"]);
    ws.cf(["work", "merge"]).ok();
    assert_eq!(ws.read("settings"), "agent\n");
}

#[test]
fn a_git_that_cannot_foresee_a_merge_undoes_it() {
    let ws = repository();
    // As a git before 2.38 does it.
    ws.program(
        "git",
        "#!/bin/sh\nfor arg; do [ \"$arg\" = merge-tree ] && { echo 'usage: git merge-tree' >&2; exit 129; }; done\n\
         PATH=${PATH#*:} exec git \"$@\"",
    );
    ws.add("a", "echo a > README; echo a > a");
    ws.add("b", "echo b > b");
    ws.run(["a", "b"]).ok();
    ws.write("README", "mine\n");
    ws.git_do(["commit", "-q", "-a", "-m", "mine"]);
    ws.write("b", "mine\n");
    let before = users(&ws);
    ws.cf(["work", "merge", "a"])
        .code(1)
        .says("conflicts in README");
    ws.cf(["work", "merge", "b"])
        .code(1)
        .says("would write over b");
    assert_eq!(users(&ws), before);
    std::fs::remove_file(ws.root().join("b")).unwrap();
    ws.cf(["work", "merge", "b"]).ok();
}

#[test]
fn odd_names_of_files_are_told_in_one_piece() {
    let ws = repository();
    let script = |who| format!("printf {who} > \"$(printf 'new\\nline \\033[31m')\"");
    for key in ["a", "b"] {
        ws.add(key, &script(key));
    }
    ws.task("c").run("true").after("a").after("b").add();
    ws.run(["a", "b", "c"]).code(4);
    let name = r#""new\nline \u{1b}[31m""#;
    let question = ws.blockers("c")[0]["question"].as_str().unwrap().to_owned();
    assert!(
        question.contains(&format!("conflicts in {name}")),
        "{question}"
    );
    ws.cf(["work", "merge", "a", "b"])
        .code(1)
        .says(&format!("conflicts in {name}; the checkout"));
}

#[test]
fn a_person_in_another_checkout_merges_into_that_one() {
    let ws = repository();
    ws.add("a", "echo a > a");
    ws.run(["a"]).ok();
    let theirs = ws.home().join("theirs");
    ws.git_do([
        "worktree",
        "add",
        "-q",
        "-b",
        "topic",
        theirs.to_str().unwrap(),
    ]);
    let before = users(&ws);
    ws.command(["work", "merge"])
        .dir(&theirs)
        .run()
        .ok()
        .says("merged cf/a into topic");
    assert_eq!(users(&ws), before);
    assert_eq!(in_commit(&ws, "topic", "a"), "a\n");
    // From the worktree of an attempt the workspace's own checkout is meant.
    ws.add("b", "echo b > b; exit 1");
    ws.run(["b"]).code(3);
    ws.add("c", "echo c > c");
    ws.run(["c"]).ok();
    ws.command(["work", "merge"])
        .dir(super::worktree::tree(&ws, "b")["path"].as_str().unwrap())
        .run()
        .ok()
        .says("into main");
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
