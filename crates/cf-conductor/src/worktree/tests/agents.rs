//! Agents that do to their worktrees what nobody asked for.

use test_case::test_case;

use super::*;

/// What an agent does to its worktree, and the file that is on its task's branch then.
#[test_case("git add -A && git commit -qm mine", "work"; "it commits by itself")]
#[test_case("git add -A && git commit -qm mine && git checkout -q --detach", "work"; "it commits and detaches")]
#[test_case("git checkout -q -b other && git add -A && git commit -qm mine", "work"; "it works on a branch of its own")]
#[test_case("rm .git", "work"; "it removes the link to the repository")]
#[test_case("printf x > \"$(git rev-parse --git-dir)/index\"", "work"; "it breaks the index")]
#[test_case("touch \"$(git rev-parse --git-dir)/index.lock\"", "work"; "a git of it was killed")]
#[test_case("rm -rf \"$(git rev-parse --git-dir)\"", "work"; "it makes git forget the worktree")]
fn what_an_agent_leaves_is_taken(script: &str, file: &str) {
    let lab = Lab::new();
    let left = lab.begun(&lab.order("t-1"));
    let before = lab.users();
    let tree = lab.tree("t-1");
    fs::write(tree.join("work"), "done\n").unwrap();
    let done = Command::new("sh")
        .args(["-ec", script])
        .current_dir(&tree)
        .env("HOME", lab.temp.path())
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    let kept = lab.repository().commit_work(&left).unwrap();
    assert_eq!(lab.git(&["rev-parse", "cf/a"]), head_of(&kept));
    assert_eq!(lab.git(&["show", &format!("cf/a:{file}")]), "done");
    assert_eq!(lab.users(), before);
}

#[test]
fn a_worktree_that_its_agent_removed_is_no_success_and_its_commits_are_kept() {
    let lab = Lab::new();
    let left = lab.begun(&lab.order("t-1"));
    let tree = lab.tree("t-1");
    fs::write(tree.join("work"), "done\n").unwrap();
    lab.git_in(&tree, &["add", "-A"]);
    lab.git_in(&tree, &["commit", "-q", "-m", "mine"]);
    fs::remove_dir_all(&tree).unwrap();
    let repository = lab.repository();
    let error = repository.commit_work(&left).unwrap_err().to_string();
    assert!(error.contains("is gone"), "{error}");
    let kept = repository.rescue(&left).unwrap();
    assert_eq!(
        lab.git(&["show", &format!("{}:work", ref_of(&kept))]),
        "done"
    );
    assert!(repository.remove_if_clean("t-1", None).unwrap());
    assert_eq!(lab.git(&["worktree", "list"]).lines().count(), 1);
}

#[test]
fn commits_that_the_agent_left_behind_on_the_branch_are_kept() {
    let lab = Lab::new();
    let left = lab.begun(&lab.order("t-1"));
    let tree = lab.tree("t-1");
    fs::write(tree.join("first"), "x\n").unwrap();
    lab.git_in(&tree, &["add", "-A"]);
    lab.git_in(&tree, &["commit", "-q", "-m", "first"]);
    lab.git_in(&tree, &["checkout", "-q", "--detach", "main"]);
    fs::write(tree.join("second"), "y\n").unwrap();
    lab.repository().commit_work(&left).unwrap();
    assert_eq!(lab.git(&["ls-tree", "--name-only", "cf/a"]), "file\nsecond");
    let reference = rescue_ref(left.task, left.attempt);
    assert_eq!(lab.git(&["show", &format!("{reference}:first")]), "x");
}
