//! Agents in worktrees: where they work, where their work goes, and that the user's checkout is left alone.

use cf_testkit::{Signal, Workspace};
use serde_json::Value;

use crate::{sleeper, until, waiter, workspace};

/// A workspace in a repository, where agents work in worktrees.
#[track_caller]
pub(crate) fn repository() -> Workspace {
    let ws = crate::empty_folder().git().init();
    ws.config("isolation = 'worktree'\n");
    ws
}

/// The worktree of the newest attempt of a task.
#[track_caller]
pub(crate) fn tree(ws: &Workspace, key: &str) -> Value {
    ws.attempts(key)
        .last()
        .map(|attempt| attempt["worktree"].clone())
        .filter(Value::is_object)
        .unwrap_or_else(|| panic!("{key} has an attempt in a worktree"))
}

/// What a file holds in a commit.
#[track_caller]
pub(crate) fn in_commit(ws: &Workspace, commit: &str, file: &str) -> String {
    ws.git_do(["show", &format!("{commit}:{file}")])
}

/// The user's checkout, as they see it: what is changed, what is staged, what is stashed, where HEAD is.
#[track_caller]
pub(crate) fn users(ws: &Workspace) -> Vec<String> {
    vec![
        ws.git_do(["--no-optional-locks", "status", "--porcelain", "--branch"]),
        ws.git_do(["diff", "--cached"]),
        ws.git_do(["stash", "list"]),
        ws.git_do(["rev-parse", "HEAD"]),
    ]
}

#[test]
fn agents_work_in_worktrees_and_their_work_is_on_branches() {
    let ws = repository();
    ws.write("README", "mine, and not committed\n");
    ws.write("staged", "mine\n");
    ws.git_do(["add", "staged"]);
    ws.write("new", "mine\n");
    let before = users(&ws);
    ws.add(
        "a",
        "pwd > where; cat README > seen; ls new staged; test $? -ne 0 && test \"$CF_WORKSPACE\" != \"$PWD\"",
    );
    ws.cf(["tasks", "edit", "a", "--title", "Write a"]).ok();
    ws.task("b")
        .run("echo b > b; cat where > a-was-here")
        .after("a")
        .add();
    ws.run(["a", "b"])
        .ok()
        .says("Isolation: worktree")
        .says("Base: ");
    for key in ["a", "b"] {
        ws.ended(key, "COMPLETED", "");
        let tree = tree(&ws, key);
        assert_eq!(tree["branch"], format!("cf/{key}"));
        assert_eq!(tree["removed"], true, "a finished one is removed: {tree:#}");
        assert!(!std::path::Path::new(tree["path"].as_str().unwrap()).exists());
        assert_eq!(
            ws.git_do(["rev-parse", &format!("cf/{key}")]).trim(),
            tree["commit"].as_str().unwrap()
        );
    }
    assert_eq!(in_commit(&ws, "cf/a", "seen"), "a repository\n");
    assert!(in_commit(&ws, "cf/a", "where").contains("/.cf/worktrees/a-"));
    assert_eq!(
        in_commit(&ws, "cf/b", "a-was-here"),
        in_commit(&ws, "cf/a", "where")
    );
    assert_eq!(
        ws.git_do(["log", "-1", "--format=%s by %an", "cf/a"]),
        "Write a by t\n"
    );
    let body = ws.git_do(["log", "-1", "--format=%b", "cf/a"]);
    assert!(
        body.contains(&format!("Cf-Task: a ({})", ws.id("a"))),
        "{body}"
    );
    assert_eq!(users(&ws), before);
    assert_eq!(ws.git_do(["worktree", "list"]).lines().count(), 1);
    ws.cf(["tasks", "show", "a"]).ok().says("on branch cf/a");
}

#[test]
fn the_verification_runs_in_the_worktree_before_the_work_is_committed() {
    let ws = repository();
    ws.task("a")
        .run("echo x > made")
        .verify("test -e made && pwd > verified")
        .add();
    ws.run(["a"]).ok();
    assert!(in_commit(&ws, "cf/a", "verified").contains("/.cf/worktrees/a-"));
    ws.task("b").run("echo x > made").verify("false").add();
    ws.run(["b"]).code(3);
    let tree = tree(&ws, "b");
    assert_eq!(tree["commit"], Value::Null);
    assert_eq!(
        in_commit(&ws, tree["rescue"].as_str().unwrap(), "made"),
        "x\n"
    );
}

#[test]
fn several_agents_work_at_once_and_see_nothing_of_each_other() {
    let ws = repository();
    for key in ["a", "b", "c", "d"] {
        ws.add(
            key,
            &format!("echo {key} > README; touch {root}/{key}.up; for k in a b c d; do {until}; done; cat README",
                root = ws.root().display(),
                until = until(&format!("{}/$k.up", ws.root().display()))),
        );
    }
    ws.run(["a", "b", "c", "d", "--max-parallel", "4"]).ok();
    for key in ["a", "b", "c", "d"] {
        assert_eq!(
            in_commit(&ws, &format!("cf/{key}"), "README"),
            format!("{key}\n")
        );
    }
    assert_eq!(ws.read("README"), "a repository\n");
}

#[test]
fn what_a_failed_attempt_left_is_kept_and_told_and_the_next_one_starts_afresh() {
    let ws = repository();
    ws.task("a")
        .run("if [ $CF_ATTEMPT = 1 ]; then echo half > half; exit 1; fi; test ! -e half; echo done > done; cat $CF_PROMPT_FILE")
        .add();
    let output = ws.run(["a", "--retry", "1", "--retry-delay", "0"]).ok();
    let reference = ws.attempts("a")[0]["worktree"]["rescue"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        reference,
        format!(
            "refs/cf/rescue/{}/{}",
            ws.id("a"),
            ws.attempts("a")[0]["id"].as_str().unwrap()
        )
    );
    output.says(&format!("kept what a left as {reference}"));
    assert_eq!(in_commit(&ws, &reference, "half"), "half\n");
    assert_eq!(
        ws.git_do(["ls-tree", "--name-only", "cf/a"]),
        "README\ndone\n"
    );
    ws.cf(["tasks", "show", "a"]).ok().says(&reference);
    // Its own worktree holds what is on no branch, and stays.
    let first = &ws.attempts("a")[0]["worktree"];
    assert_eq!(first["removed"], false);
    assert!(
        std::path::Path::new(first["path"].as_str().unwrap())
            .join("half")
            .exists()
    );
}

#[test]
fn an_agent_is_told_where_the_earlier_work_is() {
    let ws = repository();
    ws.add("a", "cp \"$CF_PROMPT_FILE\" prompt; [ $CF_ATTEMPT = 2 ]");
    ws.run(["a", "--retry", "1", "--retry-delay", "0"]).ok();
    let prompt = in_commit(&ws, "cf/a", "prompt");
    let kept = ws.attempts("a")[0]["worktree"]["rescue"].clone();
    assert!(prompt.contains(kept.as_str().unwrap()), "{prompt}");
}

#[test]
fn an_attempt_goes_on_from_what_was_kept_when_asked_to() {
    let ws = repository();
    ws.add("a", "echo $CF_ATTEMPT >> count; [ $CF_ATTEMPT = 3 ]");
    ws.run(["a"]).code(3);
    ws.cf(["work", "start", "a", "--from-rescue"]).code(3);
    ws.cf(["work", "start", "a", "--from-rescue"]).ok();
    assert_eq!(in_commit(&ws, "cf/a", "count"), "1\n2\n3\n");
    // What was finished can be gone on from as well.
    ws.run(["a", "--force", "--from-rescue"]).code(3);
    assert_eq!(
        in_commit(&ws, tree(&ws, "a")["rescue"].as_str().unwrap(), "count"),
        "1\n2\n3\n4\n"
    );
    ws.config("");
    ws.run(["a", "--force", "--from-rescue"])
        .code(2)
        .says("--isolation worktree");
}

#[test]
fn work_is_kept_before_a_stop() {
    let ws = repository();
    ws.add(
        "a",
        &format!(
            "echo half > half; {}",
            sleeper(&format!("{}/a", ws.root().display()))
        ),
    );
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    batch.signal(Signal::INT);
    let output = batch.wait().code(130);
    ws.ended("a", "CANCELLED", "");
    assert_eq!(ws.status("a"), "READY");
    let tree = tree(&ws, "a");
    let reference = tree["rescue"].as_str().unwrap();
    output.says(reference);
    assert_eq!(in_commit(&ws, reference, "half"), "half\n");
    ws.no_agent_left();
}

#[test]
fn a_finding_stops_an_agent_at_once_and_its_work_is_kept() {
    let ws = repository();
    ws.add(
        "a",
        &format!(
            "echo half > half; {}",
            sleeper(&format!("{}/a", ws.root().display()))
        ),
    );
    let batch = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    ws.set("a", "DONE");
    batch.wait().ok();
    ws.ended("a", "SKIPPED", "externally completed");
    let tree = tree(&ws, "a");
    assert_eq!(
        in_commit(&ws, tree["rescue"].as_str().unwrap(), "half"),
        "half\n"
    );
    assert_eq!(
        tree["commit"],
        Value::Null,
        "what a person did is not its work"
    );
}

#[test]
fn an_agent_that_asks_gets_its_answer_in_a_new_worktree() {
    let ws = repository();
    ws.add("a", "if [ $CF_ATTEMPT = 1 ]; then echo half > half; cf blocker ask 'Which?'; else touch done; fi");
    ws.run(["a"]).code(4);
    assert!(tree(&ws, "a")["rescue"].is_string());
    ws.cf(["blocker", "answer", "This one."]).ok();
    ws.resume([""; 0]).ok();
    assert_eq!(
        ws.git_do(["ls-tree", "--name-only", "cf/a"]),
        "README\ndone\n"
    );
}

#[test]
fn a_conflict_of_dependencies_blocks_the_task_with_a_question_that_names_the_files() {
    let ws = repository();
    ws.add("a", "echo a > README");
    ws.add("b", "echo b > README");
    ws.task("c").run("touch c").after("a").after("b").add();
    ws.run(["a", "b", "c"]).code(4);
    ws.ended("c", "BLOCKED", "");
    assert_eq!(ws.status("c"), "BLOCKED");
    let question = ws.blockers("c")[0].clone();
    assert_eq!(question["asked_by"], "system");
    let text = question["question"].as_str().unwrap();
    assert!(
        text.contains("README") && text.contains("work of b"),
        "{text}"
    );
    assert_eq!(ws.row("c")["attempts"], 0, "no attempt is used up");
    assert_eq!(
        ws.git_do(["worktree", "list"]).lines().count(),
        1,
        "nothing is half-done"
    );
    assert_eq!(ws.git_do(["for-each-ref", "refs/heads/cf/c"]), "");
    // A person brings the branches together, and says so.
    ws.git_do(["checkout", "-q", "cf/b"]);
    ws.git_do(["merge", "-q", "-X", "ours", "-m", "together", "cf/a"]);
    ws.git_do(["checkout", "-q", "main"]);
    ws.cf(["blocker", "resolve", question["id"].as_str().unwrap()])
        .ok();
    ws.resume([""; 0]).ok();
    assert_eq!(ws.git_do(["ls-tree", "--name-only", "cf/c"]), "README\nc\n");
    assert_eq!(in_commit(&ws, "cf/c", "README"), "b\n");
}

/// The folder of an attempt, and three descriptors of it, are held from before its worktree is made.
#[test]
fn of_attempts_whose_worktrees_cannot_be_made_nothing_is_held() {
    let ws = repository();
    let root = ws.root().display().to_string();
    ws.add("a", "echo a > README");
    ws.add("b", "echo b > README");
    ws.add("w", &waiter(&format!("{root}/w")));
    let conflicting: Vec<String> = (0..12).map(|nth| format!("c{nth}")).collect();
    for key in &conflicting {
        ws.task(key).run("true").after("a").after("b").add();
    }
    let mut all = vec!["w", "a", "b"];
    all.extend(conflicting.iter().map(String::as_str));
    all.extend(["--strategy", "parallel", "--max-parallel", "3"]);
    let batch = ws.start(all);
    ws.wait_for_pid("w.pid");
    for key in &conflicting {
        ws.wait_until("its question", || ws.status(key) == "BLOCKED");
    }
    let held = || {
        let folders = std::fs::read_dir(ws.root().join(".cf/attempts")).expect("it is there");
        folders.count()
    };
    // Those of the three that started.
    ws.wait_until("what is not needed is gone", || held() == 3);
    ws.touch("w.go");
    batch.wait().code(4);
}

#[test]
fn a_resume_keeps_isolation_and_base() {
    let ws = crate::empty_folder().git().init();
    ws.add("a", "[ -e ../../../go ] && ls > seen");
    ws.run(["a", "--isolation", "worktree"]).code(3);
    ws.write("later", "x\n");
    ws.git_do(["add", "later"]);
    ws.git_do(["commit", "-q", "-m", "later"]);
    ws.touch("go");
    ws.resume([""; 0]).ok().says("Isolation: worktree");
    assert_eq!(in_commit(&ws, "cf/a", "seen"), "README\nseen\n");
    assert_eq!(ws.batch()["isolation"], "worktree");
}

#[test]
fn two_batches_work_in_one_repository_without_a_warning() {
    let ws = repository();
    let root = ws.root().display().to_string();
    ws.add("a", &waiter(&format!("{root}/a")));
    ws.add("b", "touch b");
    let first = ws.start(["a"]);
    ws.wait_for_pid("a.pid");
    let second = ws.run(["b"]).ok();
    assert!(
        !second.stderr().contains("same tree"),
        "{}",
        second.stderr()
    );
    ws.touch("a.go");
    first.wait().ok();
    // Without isolation the other works in the user's tree.
    assert_eq!(ws.git_do(["branch", "--list", "cf/*"]).lines().count(), 2);
}

#[test]
fn cf_finds_its_workspace_from_inside_a_worktree() {
    let ws = repository();
    ws.add(
        "a",
        "mkdir sub; cd sub; cf tasks show a --json > seen; cf tasks set status self DONE",
    );
    ws.run(["a"]).ok();
    assert!(in_commit(&ws, "cf/a", "sub/seen").contains(&ws.id("a")));
}

#[test]
fn a_workspace_in_a_folder_of_the_repository_has_agents_in_that_folder() {
    let ws = crate::empty_folder().git();
    ws.write("part/file", "x\n");
    ws.git_do(["add", "part"]);
    ws.git_do(["commit", "-q", "-m", "part"]);
    ws.write(
        "part/plan.toml",
        "[batch]\nisolation = 'worktree'\n[[task]]\nkey = 'a'\ntitle = 'x'\nrun = 'test -e file && cf tasks show a > seen'\n",
    );
    ws.run(["--file", "part/plan.toml"]).ok();
    assert!(ws.exists("part/.cf"));
    assert!(in_commit(&ws, "cf/a", "part/seen").contains("cf/a"));
}

#[test]
fn a_task_without_a_key_has_a_branch_by_its_id() {
    let ws = repository();
    let id = ws
        .cf(["tasks", "add", "x", "--run", "touch x", "--json"])
        .json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    ws.run([id.as_str()]).ok();
    assert_eq!(
        ws.git_do(["ls-tree", "--name-only", &format!("cf/{}", &id[..8])]),
        "README\nx\n"
    );
}

#[test]
fn without_isolation_nothing_of_git_is_touched() {
    let ws = workspace();
    ws.add("a", "touch a");
    ws.run(["a"]).ok();
    assert!(ws.exists("a"));
    assert_eq!(ws.attempts("a")[0]["worktree"], Value::Null);
}

#[test]
fn work_is_built_on_through_a_task_that_was_done_by_hand() {
    let ws = repository();
    ws.add("a", "echo a > a");
    ws.task("b").run("touch b").after("a").add();
    ws.task("c").run("cat a > seen").after("b").add();
    ws.run(["a"]).ok();
    ws.set("b", "DONE");
    ws.run(["c"]).ok();
    assert_eq!(in_commit(&ws, "cf/c", "seen"), "a\n");
}

#[test]
fn a_repository_that_an_agent_made_is_not_lost() {
    let ws = repository();
    ws.add(
        "a",
        "mkdir inner; cd inner; git init -q; git -c user.name=t -c user.email=t commit -q --allow-empty -m inner; \
         cd ..; git add --all; touch made",
    );
    ws.run(["a"]).code(3);
    ws.ended("a", "FAILED", "inner is a git repository of its own");
    let tree = tree(&ws, "a");
    assert_eq!(tree["removed"], false);
    assert_eq!(in_commit(&ws, tree["rescue"].as_str().unwrap(), "made"), "");
    // Nor by whoever tidies up later.
    ws.run(["a", "--force"]).code(3);
    let path = std::path::Path::new(tree["path"].as_str().unwrap());
    assert!(path.join("inner/.git/HEAD").exists());
}

#[test]
fn a_filter_that_git_runs_for_cf_gets_no_token() {
    let ws = crate::empty_folder()
        .with([
            ("GH_TOKEN", "token-of-mine"),
            ("SAME", "token-of-mine"),
            ("CF_WEBHOOK_SECRET", "secret-of-mine"),
        ])
        .git()
        .init();
    ws.config("isolation = 'worktree'\nreconcile_github = false\n");
    ws.write(".gitattributes", "*.txt filter=spy\n");
    ws.write("a.txt", "a");
    ws.git_do(["add", ".gitattributes", "a.txt"]);
    ws.git_do(["commit", "-q", "-m", "spied on"]);
    let seen = ws.root().join("seen");
    let spy = format!("env >> '{}'; cat", seen.display());
    ws.git_do(["config", "filter.spy.smudge", &spy]);
    ws.git_do(["config", "filter.spy.clean", &spy]);
    ws.add("a", "true");
    ws.run(["a"]).ok();
    let env = ws.read("seen");
    assert!(env.contains("GIT_TERMINAL_PROMPT=0"), "cf's own git ran it");
    assert!(env.contains("GIT_NO_LAZY_FETCH=1"), "{env}");
    assert!(!env.contains("-of-mine"), "{env}");
}
