//! Repositories, branches and agents that are not as one would wish: each gets a defined answer, and changes nothing
//! that is not its own.

use std::os::unix::fs::PermissionsExt as _;

use test_case::test_case;

use crate::worktree::{in_commit, repository, tree, users};
use crate::{empty_folder, until};

#[test]
fn without_a_repository_or_a_commit_nothing_starts() {
    let ws = empty_folder().init();
    ws.add("a", "touch ran");
    let events = ws.events().len();
    ws.run(["a", "--isolation", "worktree"])
        .code(1)
        .says("is not in a git repository")
        .says("--isolation none");
    ws.git_do(["init", "-q", "-b", "main"]);
    ws.run(["a", "--isolation", "worktree"])
        .code(1)
        .says("no commit");
    ws.run(["a", "--isolation", "worktree", "--dry-run"])
        .code(1);
    assert_eq!(ws.events().len(), events);
    assert_eq!(ws.status("a"), "READY");
    ws.run(["a"]).ok();
}

#[test]
fn without_git_nothing_starts() {
    let ws = repository();
    ws.add("a", "touch ran");
    let empty = ws.home();
    ws.command(["run", "a"])
        .env("PATH", &empty)
        .run()
        .code(1)
        .says("`git` is not on the PATH");
    ws.command(["work", "merge"])
        .env("PATH", &empty)
        .run()
        .ok()
        .says("nothing to merge");
    assert_eq!(ws.status("a"), "READY");
}

#[test]
fn a_relative_program_has_to_be_in_the_commit_that_worktrees_start_from() {
    let ws = repository();
    ws.config(
        "isolation = 'worktree'\nengine = 'mine'\n[engines.mine]\ncommand = ['bin/agent.sh']\n",
    );
    ws.write("bin/agent.sh", "#!/bin/sh\npwd > ran\n");
    let file = ws.root().join("bin/agent.sh");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    ws.task("a").add();
    ws.run(["a"])
        .code(1)
        .says("needs the program \"bin/agent.sh\", which is no executable file of the commit")
        .says("commit it");
    assert!(ws.attempts("a").is_empty());
    ws.run(["a", "--isolation", "none"]).ok();
    ws.git_do(["add", "bin"]);
    ws.git_do(["commit", "-q", "-m", "an agent"]);
    std::fs::remove_file(&file).expect("it is there");
    ws.task("b").add();
    let sub = ws.root().join("bin");
    ws.command(["run", "b"]).dir(&sub).run().ok();
    assert!(in_commit(&ws, "cf/b", "ran").contains("worktrees"));
    // What lies behind a link is not looked at.
    ws.git_do(["checkout", "-q", "--", "bin"]);
    std::os::unix::fs::symlink("bin", ws.root().join("tools")).expect("it is free");
    ws.git_do(["add", "tools"]);
    ws.git_do(["commit", "-q", "-m", "a link"]);
    ws.config(
        "isolation = 'worktree'\nengine = 'mine'\n[engines.mine]\ncommand = ['./tools/agent.sh']\n",
    );
    ws.task("c").add();
    ws.run(["c"]).ok();
}

#[test]
fn a_detached_head_is_a_base_like_any_other() {
    let ws = repository();
    ws.git_do(["checkout", "-q", "--detach"]);
    ws.add("a", "touch made");
    ws.run(["a"]).ok().says("HEAD is detached");
    assert_eq!(
        ws.git_do(["ls-tree", "--name-only", "cf/a"]),
        "README\nmade\n"
    );
}

#[test]
fn a_dirty_checkout_is_allowed_and_said() {
    let ws = repository();
    ws.write("README", "changed\n");
    ws.add("a", "cat README > seen");
    let before = users(&ws);
    ws.run(["a"]).ok().says("1 file is changed or new");
    assert_eq!(in_commit(&ws, "cf/a", "seen"), "a repository\n");
    assert_eq!(users(&ws), before);
}

#[test]
fn a_branch_that_is_there_is_refused_by_name() {
    let ws = repository();
    ws.git_do(["branch", "cf/a"]);
    ws.add("a", "touch ran");
    let at = ws.git_do(["rev-parse", "cf/a"]);
    ws.run(["a"])
        .code(1)
        .says("branch cf/a is there already, and cf did not make it")
        .says("git branch -m cf/a");
    assert_eq!(
        (ws.git_do(["rev-parse", "cf/a"]), ws.status("a").as_str()),
        (at, "READY")
    );
    ws.git_do(["branch", "-D", "cf/a"]);
    ws.run(["a"]).ok();
    // cf's own is taken again.
    ws.run(["a", "--force"]).ok();
    ws.git_do(["checkout", "-q", "cf/a"]);
    ws.run(["a", "--force"]).code(3);
    ws.ended("a", "FAILED", "branch cf/a is checked out in");
}

#[test]
fn a_branch_that_leaves_no_room_is_refused_by_name() {
    let ws = repository();
    ws.git_do(["branch", "cf"]);
    ws.add("a", "touch ran");
    ws.run(["a"]).code(1).says("a branch named `cf`");
}

#[test]
fn submodules_are_said_to_be_empty_and_do_no_harm() {
    let ws = repository();
    let other = ws.home().join("other");
    std::fs::create_dir(&other).unwrap();
    let other = other.display().to_string();
    ws.git_do(["-C", &other, "init", "-q", "-b", "main"]);
    ws.git_do(["-C", &other, "commit", "-q", "--allow-empty", "-m", "other"]);
    ws.git_do([
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        &other,
        "sub",
    ]);
    ws.git_do(["commit", "-q", "-m", "with a submodule"]);
    ws.add("a", "ls -A sub > seen; touch made");
    let before = users(&ws);
    ws.run(["a"]).ok().says("submodules are empty folders");
    assert_eq!(in_commit(&ws, "cf/a", "seen"), "");
    assert_eq!(tree(&ws, "a")["removed"], true);
    assert_eq!(users(&ws), before);
    ws.cf(["work", "merge"]).ok();
}

#[test]
fn a_path_with_spaces_and_a_title_like_an_option_are_only_names() {
    let ws = repository();
    let folder = ws.root().join("a folder; with 'odd' $names");
    std::fs::create_dir(&folder).unwrap();
    let inside = folder.to_str().unwrap();
    ws.git_do(["-C", inside, "init", "-q", "-b", "main"]);
    ws.git_do(["-C", inside, "commit", "-q", "--allow-empty", "-m", "start"]);
    let cf = |args: &[&str]| ws.command(args).dir(&folder).run();
    cf(&["init"]).ok();
    cf(&[
        "tasks",
        "add",
        "--key",
        "a",
        "--run",
        "echo x > 'a file'",
        "--",
        "--upload-pack=touch pwned",
    ])
    .ok();
    cf(&["run", "a", "--isolation", "worktree"]).ok();
    assert_eq!(
        ws.git_do(["-C", inside, "log", "-1", "--format=%s", "cf/a"]),
        "--upload-pack=touch pwned\n"
    );
    cf(&["work", "merge"]).ok();
    assert!(folder.join("a file").exists());
}

#[test]
fn a_hook_that_hangs_is_not_run() {
    let ws = repository();
    for hook in [
        "post-checkout",
        "pre-commit",
        "commit-msg",
        "pre-merge-commit",
        "reference-transaction",
    ] {
        let name = format!(".git/hooks/{hook}");
        ws.write(&name, "#!/bin/sh\nsleep 1000\n");
        std::fs::set_permissions(ws.root().join(name), std::fs::Permissions::from_mode(0o755))
            .unwrap();
    }
    ws.add("a", "echo a > a");
    ws.run(["a"]).ok();
    ws.cf(["work", "merge"]).ok();
    assert_eq!(ws.status("a"), "MERGED");
}

#[test]
fn a_filter_that_hangs_ends_at_the_limit() {
    let ws = repository();
    ws.write(".gitattributes", "README filter=slow\n");
    ws.git_do(["add", ".gitattributes"]);
    ws.git_do(["commit", "-q", "-m", "slow"]);
    ws.git_do(["config", "filter.slow.smudge", "sleep 1000"]);
    ws.config("isolation = 'worktree'\n[git]\ntimeout = '1s'\n");
    ws.add("a", "touch ran");
    ws.run(["a"]).code(3);
    ws.ended("a", "FAILED", "git did not end within 1s");
    assert_eq!(ws.git_do(["worktree", "list"]).lines().count(), 1);
    ws.wait_for_quiet();
}

#[test_case("git add -A && git commit -qm mine"; "it commits by itself")]
#[test_case("git checkout -q -b other && git add -A && git commit -qm mine"; "it commits on another branch")]
#[test_case("git checkout -q --detach && git add -A && git commit -qm mine"; "it commits on no branch")]
#[test_case("git branch -q -m other"; "it renames the branch")]
#[test_case("rm .git"; "it cuts itself off")]
fn what_an_agent_leaves_on_head_is_taken(script: &str) {
    let ws = repository();
    let before = users(&ws);
    ws.add("a", &format!("echo work > work; {script}"));
    ws.run(["a"]).ok();
    assert_eq!(in_commit(&ws, "cf/a", "work"), "work\n");
    assert_eq!(users(&ws), before);
    ws.cf(["work", "merge"]).ok();
    assert_eq!(ws.read("work"), "work\n");
}

#[test]
fn an_agent_that_removes_its_worktree_has_failed_and_its_commits_are_kept() {
    let ws = repository();
    ws.add(
        "a",
        "echo work > work; git add -A; git commit -qm mine; rm -rf \"$PWD\"",
    );
    ws.run(["a"]).code(3);
    ws.ended("a", "FAILED", "its worktree");
    let kept = tree(&ws, "a")["rescue"].as_str().unwrap().to_owned();
    assert_eq!(in_commit(&ws, &kept, "work"), "work\n");
    ws.add("b", "git worktree remove --force \"$PWD\"");
    ws.run(["b"]).code(3);
    ws.ended("b", "FAILED", "its worktree");
    assert_eq!(ws.git_do(["worktree", "list"]).lines().count(), 1);
}

#[test]
fn work_that_cannot_be_committed_is_no_success_and_stays_where_it_is() {
    let ws = repository();
    ws.add("a", "echo work > work; git init -q inner; echo x > inner/x");
    ws.run(["a"]).code(3);
    ws.ended("a", "FAILED", "its work could not be committed");
    let tree = tree(&ws, "a");
    assert_eq!(tree["removed"], false);
    assert!(
        std::path::Path::new(tree["path"].as_str().unwrap())
            .join("inner/x")
            .exists()
    );
    assert_eq!(
        in_commit(&ws, tree["rescue"].as_str().unwrap(), "work"),
        "work\n"
    );
}

#[test]
fn an_agent_that_cut_itself_off_does_not_reach_the_checkout() {
    let ws = repository();
    let before = users(&ws);
    ws.add(
        "a",
        "rm .git; echo x > x; git add -A && git commit -qm astray; test $? -ne 0",
    );
    ws.run(["a"]).ok();
    assert_eq!(users(&ws), before);
}

#[test]
fn git_is_not_led_astray_by_the_environment() {
    let ws = repository();
    ws.add("a", "echo a > a; test -z \"$GIT_DIR$GIT_INDEX_FILE\"");
    ws.command(["run", "a"])
        .env("GIT_DIR", "/nonexistent")
        .env("GIT_INDEX_FILE", "/nonexistent/index")
        .env("GIT_WORK_TREE", "/nonexistent")
        .run()
        .ok();
    assert_eq!(in_commit(&ws, "cf/a", "a"), "a\n");
}

#[test]
fn commits_are_made_in_the_name_that_is_configured_or_not_at_all() {
    let ws = repository();
    ws.config("isolation = 'worktree'\n[git]\nauthor = 'Robot <robot@example.com>'\n");
    ws.add("a", "echo a > a");
    ws.run(["a"]).ok();
    assert_eq!(
        ws.git_do(["log", "-1", "--format=%an <%ae> %cn", "cf/a"]),
        "Robot <robot@example.com> Robot\n"
    );
    ws.config("isolation = 'worktree'\n");
    ws.git_do(["config", "user.useConfigOnly", "true"]);
    ws.add("b", "touch ran");
    let mut nobody = ws.command(["run", "b"]);
    for name in [
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
    ] {
        nobody = nobody.env(name, "");
    }
    nobody
        .run()
        .code(1)
        .says("in whose name")
        .says("git.author");
    ws.config("[git]\nauthor = 'Robot'\n");
    ws.cf(["config", "check"])
        .code(2)
        .says("config.toml:2")
        .says("a name and an address");
}

#[test]
fn a_second_batch_waits_for_the_branch_of_a_live_attempt() {
    let ws = repository();
    let root = ws.root().display().to_string();
    ws.add(
        "a",
        &format!(
            "echo $$ >> {root}/a.pid; {}; echo a > a",
            until(&format!("{root}/a.go"))
        ),
    );
    let first = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    let second = ws.start(["a"]);
    ws.wait_until("two batches run", || {
        ws.cf(["work", "batch", "list", "--json"])
            .json()
            .as_array()
            .unwrap()
            .len()
            == 2
    });
    ws.touch("a.go");
    first.wait().ok();
    second.wait().ok();
    assert_eq!(ws.attempts("a").len(), 1);
    assert_eq!(in_commit(&ws, "cf/a", "a"), "a\n");
}

#[test]
fn a_database_from_before_worktrees_is_migrated_after_a_copy() {
    let ws = repository();
    ws.add("a", "touch made");
    ws.sql_do(
        "DROP TABLE worktree; ALTER TABLE batch DROP COLUMN base; DROP INDEX attempt_used; \
         ALTER TABLE attempt DROP COLUMN format; ALTER TABLE attempt DROP COLUMN cached_tokens; \
         ALTER TABLE attempt DROP COLUMN output_tokens; ALTER TABLE attempt DROP COLUMN resumes; \
         ALTER TABLE attempt DROP COLUMN output_lost; \
         DROP INDEX event_whole_batch; DROP INDEX event_deletion; DROP TRIGGER event_is_append_only_delete; \
         DROP TABLE event_horizon; DROP TABLE batch_total; CREATE TRIGGER event_is_append_only_delete BEFORE DELETE ON event \
         BEGIN SELECT raise(ABORT, 'the event log is append-only'); END; \
         DELETE FROM refinery_schema_history WHERE version > 2; PRAGMA user_version = 2;",
    );
    assert_eq!(ws.status("a"), "READY");
    assert!(ws.exists(".cf/state.db.v2"));
    assert_eq!(ws.sql("PRAGMA user_version"), "8");
    ws.run(["a"]).ok();
    assert_eq!(tree(&ws, "a")["branch"], "cf/a");
}

#[test]
fn a_link_in_the_place_of_the_folder_of_worktrees_is_not_followed() {
    let ws = repository();
    let elsewhere = ws.home().join("elsewhere");
    std::fs::create_dir_all(elsewhere.join("not ours")).unwrap();
    let folder = ws.root().join(".cf/worktrees");
    let _ = std::fs::remove_dir_all(&folder);
    std::os::unix::fs::symlink(&elsewhere, &folder).unwrap();
    ws.add("a", "echo a > a");
    ws.run(["a"])
        .code(3)
        .says("is a symbolic link or no folder");
    ws.cf(["doctor"]).text();
    ws.cf(["doctor", "--fix"]).never_says("not ours");
    let there: Vec<_> = std::fs::read_dir(&elsewhere)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(there, ["not ours"]);
}

#[test]
fn an_agent_that_removes_its_worktree_is_told_so_once() {
    let ws = repository();
    ws.add("a", "rm -rf \"$PWD\"");
    ws.run(["a"])
        .code(3)
        .says("the agent has removed it")
        .never_says("is still in");
}

#[test]
fn an_agent_that_removes_the_repository_is_told_so() {
    let ws = repository();
    ws.add("a", "echo a > a; rm -rf \"$CF_WORKSPACE/.git\"");
    ws.run(["a"])
        .code(3)
        .says(".git is gone")
        .never_says("not on the PATH");
    ws.cf(["doctor"]).code(1).says("is not in a git repository");
}
