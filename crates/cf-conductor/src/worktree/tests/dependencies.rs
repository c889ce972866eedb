//! The work of one task below that of another, and in the user's branch.

use super::*;

fn finished(lab: &Lab, name: &str, branch: &str, file: &str, text: &str) -> Part {
    let order = Order {
        branch: branch.to_owned(),
        ..lab.order(name)
    };
    let left = lab.begun(&order);
    fs::write(lab.tree(name).join(file), text).unwrap();
    let repository = lab.repository();
    let kept = repository.commit_work(&left).unwrap();
    assert!(repository.remove_if_clean(name, None).unwrap());
    Part {
        label: branch.trim_start_matches("cf/").to_owned(),
        branch: branch.to_owned(),
        head: head_of(&kept).to_owned(),
    }
}

#[test]
fn a_base_has_the_work_of_all_dependencies() {
    let lab = Lab::new();
    let parts = vec![
        finished(&lab, "b-1", "cf/b", "b", "b\n"),
        finished(&lab, "c-1", "cf/c", "c", "c\n"),
    ];
    let left = lab.begun(&Order {
        parts: parts.clone(),
        ..lab.order("t-1")
    });
    let tree = lab.tree("t-1");
    assert!(tree.join("b").exists() && tree.join("c").exists());
    let repository = lab.repository();
    for part in &parts {
        assert!(repository.contains(&left.base, &part.head).unwrap());
    }
}

#[test]
fn a_conflict_of_dependencies_names_the_files_and_leaves_nothing() {
    let lab = Lab::new();
    let parts = vec![
        finished(&lab, "b-1", "cf/b", "file", "b\n"),
        finished(&lab, "c-1", "cf/c", "file", "c\n"),
    ];
    let order = Order {
        parts,
        ..lab.order("t-1")
    };
    let repository = lab.repository();
    match repository.prepare(&order) {
        Err(Unready::Conflict { what, files }) => {
            assert_eq!(files, ["file"]);
            assert_eq!(what, "bringing the work of c together with that of b");
        }
        other => panic!("it should conflict: {other:?}"),
    }
    assert!(!lab.tree("t-1").exists());
    assert_eq!(repository.tip("cf/a").unwrap(), None);
    assert_eq!(lab.git(&["worktree", "list"]).lines().count(), 1);
}

#[test]
fn a_merge_that_conflicts_leaves_the_checkout_as_it_was() {
    let lab = Lab::new();
    let part = finished(&lab, "b-1", "cf/b", "file", "b\n");
    lab.write("file", "mine\n");
    lab.git(&["commit", "-q", "-a", "-m", "mine"]);
    let repository = lab.repository();
    assert_eq!(repository.ready_to_merge().unwrap(), "main");
    let before = lab.git(&["rev-parse", "HEAD"]);
    match repository.merge(&part.head, "merge b") {
        Err(MergeRefused::Conflict(files)) => assert_eq!(files, ["file"]),
        other => panic!("it should conflict: {other:?}"),
    }
    assert_eq!(lab.git(&["rev-parse", "HEAD"]), before);
    assert_eq!(lab.git(&["status", "--porcelain"]), "");
    lab.write("file", "dirty\n");
    let error = repository.ready_to_merge().unwrap_err().to_string();
    assert!(error.contains("not committed: file"), "{error}");
    lab.git(&["checkout", "-q", "--detach", "--force"]);
    let error = repository.ready_to_merge().unwrap_err().to_string();
    assert!(error.contains("detached"), "{error}");
}
