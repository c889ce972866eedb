//! What could be lost where nobody looks: other repositories in a worktree, locks, a branch that nobody has taken yet.

use super::*;

/// Makes a repository with a commit in a folder.
fn inner_repository(lab: &Lab, folder: &Path) {
    fs::create_dir(folder).unwrap();
    lab.git_in(folder, &["init", "-q"]);
    fs::write(folder.join("file"), "inner\n").unwrap();
    lab.git_in(folder, &["add", "file"]);
    let who = ["-c", "user.name=t", "-c", "user.email=t@example.com"];
    lab.git_in(
        folder,
        &[&who[..], &["commit", "-q", "-m", "inner"]].concat(),
    );
}

#[test]
fn a_repository_of_the_agents_own_is_no_finished_work_and_stays() {
    let lab = Lab::new();
    let left = lab.begun(&lab.order("t-1"));
    let tree = lab.tree("t-1");
    fs::write(tree.join("work"), "done\n").unwrap();
    inner_repository(&lab, &tree.join("inner"));
    let repository = lab.repository();
    let error = repository.commit_work(&left).unwrap_err().to_string();
    assert!(error.starts_with("inner is a git repository"), "{error}");
    assert_eq!(lab.git(&["rev-parse", "cf/a"]), left.base);
    let kept = repository.rescue(&left).unwrap();
    let kept_work = format!("{}:work", ref_of(&kept));
    assert_eq!(lab.git(&["show", &kept_work]), "done");
    assert!(!repository.remove_if_clean("t-1", None).unwrap());
    // Nor when the agent has committed the name of its commit by itself.
    lab.git_in(&tree, &["add", "--all"]);
    lab.git_in(&tree, &["commit", "-q", "-m", "all"]);
    repository.commit_work(&left).unwrap_err();
    assert!(!repository.remove_if_clean("t-1", None).unwrap());
    assert!(tree.join("inner/file").exists());
}

#[test]
fn a_declared_submodule_is_committed_and_its_worktree_stays() {
    let lab = Lab::new();
    let left = lab.begun(&lab.order("t-1"));
    let tree = lab.tree("t-1");
    inner_repository(&lab, &tree.join("inner"));
    fs::write(
        tree.join(".gitmodules"),
        "[submodule \"inner\"]\n\tpath = inner\n\turl = ../inner\n",
    )
    .unwrap();
    let repository = lab.repository();
    let kept = repository.commit_work(&left).unwrap();
    assert_eq!(lab.git(&["rev-parse", "cf/a"]), head_of(&kept));
    assert!(!repository.remove_if_clean("t-1", None).unwrap());
    assert!(tree.join("inner/file").exists());
}

#[test]
fn a_worktree_that_somebody_locked_stays_and_one_of_a_killed_git_goes() {
    let lab = Lab::new();
    let repository = lab.repository();
    for (name, reason, is_gone) in [("t-1", "mine", false), ("t-2", "initializing", true)] {
        let order = Order {
            branch: format!("cf/{name}"),
            ..lab.order(name)
        };
        lab.begun(&order);
        lab.git(&[
            "worktree",
            "lock",
            "--reason",
            reason,
            lab.tree(name).to_str().unwrap(),
        ]);
        assert_eq!(
            repository.remove_if_clean(name, None).unwrap(),
            is_gone,
            "{name}"
        );
        assert_eq!(lab.tree(name).exists(), !is_gone);
    }
}

#[test]
fn what_a_person_put_on_a_branch_that_no_attempt_came_to_is_kept() {
    let lab = Lab::new();
    let never = lab.order("t-1");
    let repository = lab.repository();
    let ready = repository.prepare(&never).unwrap();
    // It is stored that it begins, and then its conductor is killed. Somebody makes the branch.
    lab.git(&["checkout", "-q", "-b", "cf/a"]);
    lab.write("mine", "by hand\n");
    lab.git(&["add", "mine"]);
    lab.git(&["commit", "-q", "-m", "mine"]);
    let mine = lab.git(&["rev-parse", "HEAD"]);
    lab.git(&["checkout", "-q", "main"]);
    let older = Older {
        has_run: false,
        ..older(&lab.leaving(&never, ready.base))
    };
    let order = Order {
        is_ours: true,
        older: vec![older],
        ..lab.order("t-2")
    };
    let ready = repository.prepare(&order).unwrap();
    let reference = rescue_ref(never.task, never.attempt);
    assert_eq!(ready.saved, [(never.attempt, reference.clone())]);
    assert_eq!(lab.git(&["rev-parse", &reference]), mine);
    let nobodys = Order {
        older: Vec::new(),
        ..lab.order("t-3")
    };
    let nobodys = Order {
        is_ours: true,
        ..nobodys
    };
    let error = repository.prepare(&nobodys).unwrap_err().to_string();
    assert!(error.contains("cf did not make it"), "{error}");
}

#[test]
fn a_worktree_that_is_as_it_was_made_goes_though_nobody_has_its_base() {
    let lab = Lab::new();
    let repository = lab.repository();
    let order = lab.order("t-1");
    repository.prepare(&order).unwrap();
    let tree = lab.tree("t-1");
    lab.git_in(&tree, &["commit", "-q", "--allow-empty", "-m", "merged"]);
    let base = lab.git_in(&tree, &["rev-parse", "HEAD"]);
    fs::write(tree.join("new"), "x\n").unwrap();
    assert!(!repository.remove_if_clean("t-1", Some(&base)).unwrap());
    fs::remove_file(tree.join("new")).unwrap();
    assert!(!repository.remove_if_clean("t-1", None).unwrap());
    assert!(repository.remove_if_clean("t-1", Some(&base)).unwrap());
}

#[test]
fn what_the_user_is_in_the_middle_of_is_left_alone() {
    let lab = Lab::new();
    let left = lab.begun(&lab.order("t-1"));
    fs::write(lab.tree("t-1").join("work"), "done\n").unwrap();
    let repository = lab.repository();
    let kept = repository.commit_work(&left).unwrap();
    lab.git(&["checkout", "-q", "-b", "other"]);
    lab.git(&["commit", "-q", "--allow-empty", "-m", "other"]);
    lab.git(&["checkout", "-q", "main"]);
    lab.git(&["commit", "-q", "--allow-empty", "-m", "main"]);
    lab.git(&["merge", "-q", "-s", "ours", "--no-commit", "other"]);
    let begun = lab.git(&["rev-parse", "MERGE_HEAD"]);
    let error = repository.ready_to_merge().unwrap_err().to_string();
    assert_eq!(error, "a merge is under way in the checkout");
    repository.merge(head_of(&kept), "merge").unwrap_err();
    assert_eq!(lab.git(&["rev-parse", "MERGE_HEAD"]), begun);
    lab.git(&["merge", "--abort"]);
    for (mark, what) in [
        ("CHERRY_PICK_HEAD", "a cherry-pick"),
        ("REVERT_HEAD", "a revert"),
        ("rebase-merge", "a rebase"),
        ("rebase-apply", "a rebase"),
    ] {
        let mark = lab.root().join(".git").join(mark);
        fs::create_dir(&mark).unwrap();
        let error = repository.ready_to_merge().unwrap_err().to_string();
        assert_eq!(error, format!("{what} is under way in the checkout"));
        fs::remove_dir(&mark).unwrap();
    }
    assert_eq!(repository.ready_to_merge().unwrap(), "main");
}
