//! What git must not run, and what must not run for ever.

use super::*;

#[test]
fn no_hook_is_run() {
    use std::os::unix::fs::PermissionsExt as _;
    let lab = Lab::new();
    for hook in [
        "post-checkout",
        "pre-commit",
        "commit-msg",
        "post-commit",
        "reference-transaction",
    ] {
        let path = lab.root().join(".git/hooks").join(hook);
        fs::write(&path, "#!/bin/sh\ntouch \"$HOME/ran\"\nsleep 1000\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let left = lab.begun(&lab.order("t-1"));
    fs::write(lab.tree("t-1").join("work"), "done\n").unwrap();
    let repository = lab.repository();
    let kept = repository.commit_work(&left).unwrap();
    assert_eq!(
        repository.merge(head_of(&kept), "merge").unwrap(),
        Merged::Brought(lab.git(&["rev-parse", "main"]))
    );
    assert!(!lab.temp.path().join("ran").exists());
}

#[test]
fn what_hangs_is_ended_by_the_limit_and_by_a_cancel() {
    let lab = Lab::new();
    lab.git(&["config", "filter.slow.smudge", "sleep 1000"]);
    lab.write(".gitattributes", "file filter=slow\n");
    lab.git(&["add", ".gitattributes"]);
    lab.git(&["commit", "-q", "-m", "slow"]);
    let short = Git::new(Duration::from_millis(300), None, Cancel::default());
    let repository = Repository::of(&lab.workspace, short).unwrap();
    let error = repository
        .prepare(&lab.order("t-1"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("did not end within"), "{error}");
    let cancel = Cancel::default();
    let repository = lab.repository().cut_short_by(&cancel);
    cancel.cancel();
    let error = repository
        .prepare(&lab.order("t-2"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("it was stopped"), "{error}");
}

#[test]
fn what_prints_without_end_is_ended() {
    let git = Git::new(Duration::from_mins(5), None, Cancel::default());
    let temp = tempfile::tempdir().unwrap();
    let error = git
        .call("print", temp.path())
        .args(["-c", "alias.endless=!yes", "endless"])
        .bytes()
        .unwrap_err();
    let error = crate::chain(&error);
    assert!(error.contains("more than 256 MiB"), "{error}");
    // What it says beside that is read for as long as it may take, and mostly dropped.
    let git = Git::new(Duration::from_millis(300), None, Cancel::default());
    let error = git
        .call("complain", temp.path())
        .args(["-c", "alias.endless=!yes >&2", "endless"])
        .bytes()
        .unwrap_err()
        .to_string();
    assert!(error.contains("did not end within"), "{error}");
}

#[test]
fn git_speaks_the_language_in_which_it_is_understood() {
    let git = Git::new(Duration::from_mins(1), None, Cancel::default());
    let temp = tempfile::tempdir().unwrap();
    let said = git
        .call("speak", temp.path())
        .args(["-c", "alias.speak=!echo \"$LC_ALL\"", "speak"])
        .text()
        .unwrap();
    assert_eq!(said, "C");
}

#[test]
fn a_lock_file_from_the_future_is_removed() {
    let lab = Lab::new();
    let order = lab.order("t-1");
    let repository = lab.repository();
    let ready = repository.prepare(&order).unwrap();
    fs::create_dir_all(lab.root().join(".git/refs/heads/cf")).unwrap();
    let lock = lab.root().join(".git/refs/heads/cf/a.lock");
    let file = fs::File::create(&lock).unwrap();
    file.set_modified(std::time::SystemTime::now() + Duration::from_hours(1))
        .unwrap();
    repository.take_branch(&order, &ready).unwrap();
    assert!(!lock.exists());
}
