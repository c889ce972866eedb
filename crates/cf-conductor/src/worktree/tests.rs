//! The module against real repositories.

mod agents;
mod dependencies;
mod leftover;
mod limits;
mod losses;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use cf_core::{AttemptId, TaskId};

use super::*;
use crate::workspace::Workspace;

/// A repository with a workspace, in a folder whose name has a space.
struct Lab {
    temp: tempfile::TempDir,
    workspace: Workspace,
    task: TaskId,
}

impl Lab {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("a repository");
        fs::create_dir(&root).unwrap();
        let (workspace, _) = Workspace::create(&root).unwrap();
        let lab = Self {
            temp,
            workspace,
            task: TaskId(uuid::Uuid::new_v4()),
        };
        lab.git(&["init", "-q", "-b", "main"]);
        lab.git(&["config", "user.name", "t"]);
        lab.git(&["config", "user.email", "t@example.com"]);
        lab.write("file", "one\n");
        lab.git(&["add", "file"]);
        lab.git(&["commit", "-q", "-m", "start"]);
        lab
    }

    fn root(&self) -> &Path {
        self.workspace.root()
    }

    fn git(&self, args: &[&str]) -> String {
        self.git_in(self.root(), args)
    }

    fn git_in(&self, folder: &Path, args: &[&str]) -> String {
        let output = Command::new("git")
            .args(args)
            .current_dir(folder)
            .env("HOME", self.temp.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "git {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout)
            .unwrap()
            .trim_end()
            .to_owned()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.root().join(name), text).unwrap();
    }

    fn repository(&self) -> Repository {
        let author = Some(("cf".to_owned(), "cf@example.com".to_owned()));
        let git = Git::new(Duration::from_mins(1), author, Cancel::default());
        Repository::of(&self.workspace, git).unwrap()
    }

    fn order(&self, name: &str) -> Order {
        Order {
            attempt: AttemptId(uuid::Uuid::new_v4()),
            task: self.task,
            name: name.to_owned(),
            branch: "cf/a".to_owned(),
            is_ours: false,
            base: self.git(&["rev-parse", "HEAD"]),
            parts: Vec::new(),
            from: None,
            older: Vec::new(),
        }
    }

    /// A worktree that is ready for its agent, and what will be known of it at its end.
    fn begun(&self, order: &Order) -> Leaving {
        let repository = self.repository();
        let ready = repository.prepare(order).unwrap();
        repository.take_branch(order, &ready).unwrap();
        self.leaving(order, ready.base)
    }

    fn leaving(&self, order: &Order, base: String) -> Leaving {
        Leaving {
            attempt: order.attempt,
            task: self.task,
            name: order.name.clone(),
            branch: order.branch.clone(),
            base,
            message: "the title\n".to_owned(),
        }
    }

    fn tree(&self, name: &str) -> PathBuf {
        self.workspace.worktrees().join(name)
    }

    /// What the user's checkout looks like: its status, its index, its stash.
    fn users(&self) -> (String, Vec<u8>, String) {
        (
            self.git(&["--no-optional-locks", "status", "--porcelain"]),
            fs::read(self.root().join(".git/index")).unwrap(),
            self.git(&["stash", "list"]),
        )
    }
}

fn older(left: &Leaving) -> Older {
    Older {
        left: left.clone(),
        is_live: false,
        has_run: true,
        is_removed: false,
    }
}

fn head_of(kept: &Kept) -> &str {
    match kept {
        Kept::Committed { head } => head,
        other => panic!("it should be committed: {other:?}"),
    }
}

fn ref_of(kept: &Kept) -> &str {
    match kept {
        Kept::Rescued { reference } => reference,
        other => panic!("it should be rescued: {other:?}"),
    }
}

#[test]
fn the_work_of_an_attempt_ends_on_its_branch_and_the_checkout_stays_as_it_was() {
    let lab = Lab::new();
    lab.write("untracked", "mine\n");
    lab.write("file", "changed\n");
    let before = lab.users();
    let left = lab.begun(&lab.order("t-1"));
    let tree = lab.tree("t-1");
    assert_eq!(fs::read_to_string(tree.join("file")).unwrap(), "one\n");
    assert!(!tree.join("untracked").exists());
    assert_eq!(
        lab.git_in(&tree, &["symbolic-ref", "HEAD"]),
        "refs/heads/cf/a"
    );
    fs::write(tree.join("new file"), "work\n").unwrap();
    fs::remove_file(tree.join("file")).unwrap();
    let repository = lab.repository();
    let kept = repository.commit_work(&left).unwrap();
    assert_eq!(lab.git(&["rev-parse", "cf/a"]), head_of(&kept));
    assert_eq!(lab.git(&["ls-tree", "--name-only", "cf/a"]), "new file");
    assert_eq!(
        lab.git(&["log", "-1", "--format=%s %an", "cf/a"]),
        "the title cf"
    );
    assert_eq!(
        repository.commit_work(&left).unwrap(),
        kept,
        "twice is once"
    );
    assert!(repository.remove_if_clean("t-1", None).unwrap());
    assert!(!tree.exists());
    assert_eq!(lab.users(), before);
    assert_eq!(lab.git(&["worktree", "list"]).lines().count(), 1);
}

#[test]
fn what_a_git_left_that_was_killed_while_it_added_a_worktree_is_in_nobodys_way() {
    let lab = Lab::new();
    let (tree, half) = (lab.tree("t-1"), lab.root().join(".git/worktrees/t-1"));
    // In the order in which git writes: the lock, the two files that name each other, the repository, the commit.
    let add_half = |rest: &[(&str, &str)]| {
        fs::create_dir_all(&tree).unwrap();
        fs::create_dir_all(&half).unwrap();
        let file = tree.join(".git");
        fs::write(half.join("gitdir"), format!("{}\n", file.display())).unwrap();
        fs::write(half.join("locked"), "initializing\n").unwrap();
        fs::write(file, format!("gitdir: {}\n", half.display())).unwrap();
        for (name, text) in rest {
            fs::write(half.join(name), text).unwrap();
        }
    };
    let named = ("commondir", "../..\n");
    for rest in [
        &[][..],
        &[("commondir", "")],
        &[named],
        &[named, ("HEAD.lock", "")],
        &[named, ("HEAD", "")],
    ] {
        add_half(rest);
        let gone = lab.repository().remove_if_clean("t-1", None);
        assert!(gone.is_ok_and(|gone| gone), "{rest:?}");
        assert!(!half.exists() && !tree.exists(), "{rest:?}");
        lab.git(&["fsck", "--connectivity-only"]);
    }
    for rest in [&[][..], &[named], &[("commondir", "")]] {
        add_half(rest);
        assert_eq!(lab.repository().listed().unwrap().len(), 1, "{rest:?}");
        assert!(!half.exists(), "{rest:?}");
    }
    add_half(&[named]);
    lab.begun(&lab.order("t-2"));
    assert_eq!(lab.git(&["worktree", "list"]).lines().count(), 2);
    // What is locked for another reason is somebody's, and so is what lies elsewhere.
    add_half(&[named]);
    fs::write(half.join("locked"), "on a stick\n").unwrap();
    assert!(
        lab.repository()
            .remove_if_clean("t-1", None)
            .is_ok_and(|gone| !gone)
    );
    assert!(half.exists());
}

#[test]
fn a_change_that_leaves_size_and_second_as_they_were_is_not_missed() {
    let lab = Lab::new();
    lab.git(&["config", "core.trustctime", "false"]);
    let left = lab.begun(&lab.order("t-1"));
    let tree = lab.tree("t-1");
    let index = lab.root().join(".git/worktrees/t-1/index");
    let long_ago = std::time::SystemTime::now() - Duration::from_hours(1);
    let touch = |path: &Path| {
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(long_ago).unwrap();
    };
    touch(&tree.join("file"));
    lab.git_in(&tree, &["update-index", "--refresh"]);
    fs::write(tree.join("file"), "two\n").unwrap();
    touch(&tree.join("file"));
    touch(&index);
    let kept = lab.repository().commit_work(&left).unwrap();
    let commit = head_of(&kept);
    assert_eq!(lab.git(&["show", &format!("{commit}:file")]), "two");
}

#[test]
fn work_that_is_not_finished_is_kept_and_stays_where_it_is() {
    let lab = Lab::new();
    let left = lab.begun(&lab.order("t-1"));
    let repository = lab.repository();
    assert_eq!(repository.rescue(&left).unwrap(), Kept::Nothing);
    let tree = lab.tree("t-1");
    fs::write(tree.join("half"), "done\n").unwrap();
    let kept = repository.rescue(&left).unwrap();
    let reference = ref_of(&kept);
    assert_eq!(reference, rescue_ref(left.task, left.attempt));
    assert_eq!(lab.git(&["show", &format!("{reference}:half")]), "done");
    let commit = lab.git(&["rev-parse", reference]);
    assert_eq!(repository.rescue(&left).unwrap(), kept);
    assert_eq!(lab.git(&["rev-parse", reference]), commit, "twice is once");
    assert!(
        !repository.remove_if_clean("t-1", None).unwrap(),
        "a dirty one stays"
    );
    assert!(tree.join("half").exists());
    fs::write(tree.join("half"), "more\n").unwrap();
    repository.rescue(&left).unwrap();
    assert_eq!(lab.git(&["show", &format!("{reference}:half")]), "more");
    assert!(
        lab.git(&["rev-list", reference]).contains(&commit),
        "what was kept before is not lost"
    );
}

#[test]
fn a_new_attempt_takes_the_branch_and_what_the_older_one_holds_is_kept() {
    let lab = Lab::new();
    let first = lab.begun(&lab.order("t-1"));
    let tree = lab.tree("t-1");
    fs::write(tree.join("half"), "done\n").unwrap();
    lab.git_in(&tree, &["add", "half"]);
    lab.git_in(&tree, &["commit", "-q", "-m", "by the agent"]);
    fs::write(tree.join("rest"), "not\n").unwrap();
    let order = Order {
        is_ours: true,
        older: vec![older(&first)],
        ..lab.order("t-2")
    };
    let repository = lab.repository();
    let ready = repository.prepare(&order).unwrap();
    let reference = rescue_ref(first.task, first.attempt);
    assert_eq!(ready.saved, [(first.attempt, reference.clone())]);
    assert_eq!(ready.base, order.base);
    repository.take_branch(&order, &ready).unwrap();
    repository
        .take_branch(
            &order,
            &Ready {
                tip: Some(order.base.clone()),
                ..ready
            },
        )
        .unwrap();
    assert_eq!(lab.git(&["rev-parse", "cf/a"]), order.base);
    assert_eq!(
        lab.git(&["ls-tree", "--name-only", &reference]),
        "file\nhalf\nrest"
    );
    assert_eq!(
        lab.git_in(&tree, &["rev-parse", "--abbrev-ref", "HEAD"]),
        "HEAD"
    );
    assert!(tree.join("rest").exists());
    assert_eq!(
        lab.git_in(&lab.tree("t-2"), &["symbolic-ref", "HEAD"]),
        "refs/heads/cf/a"
    );
}

#[test]
fn finished_work_whose_folder_is_gone_is_kept_before_the_branch_is_taken_again() {
    let lab = Lab::new();
    let first = lab.begun(&lab.order("t-1"));
    fs::write(lab.tree("t-1").join("done"), "work\n").unwrap();
    let repository = lab.repository();
    let kept = repository.commit_work(&first).unwrap();
    assert!(repository.remove_if_clean("t-1", None).unwrap());
    let order = Order {
        is_ours: true,
        older: vec![Older {
            is_removed: true,
            ..older(&first)
        }],
        ..lab.order("t-2")
    };
    let ready = repository.prepare(&order).unwrap();
    repository.take_branch(&order, &ready).unwrap();
    let reference = rescue_ref(first.task, first.attempt);
    assert_eq!(lab.git(&["rev-parse", &reference]), head_of(&kept));
}

#[test]
fn an_attempt_can_go_on_from_what_was_kept() {
    let lab = Lab::new();
    let first = lab.begun(&lab.order("t-1"));
    fs::write(lab.tree("t-1").join("half"), "done\n").unwrap();
    let repository = lab.repository();
    let reference = ref_of(&repository.rescue(&first).unwrap()).to_owned();
    lab.write("later", "x\n");
    lab.git(&["add", "later"]);
    lab.git(&["commit", "-q", "-m", "later"]);
    let order = Order {
        is_ours: true,
        from: Some(reference),
        older: vec![older(&first)],
        ..lab.order("t-2")
    };
    let left = lab.begun(&order);
    let tree = lab.tree("t-2");
    assert!(tree.join("half").exists() && tree.join("later").exists());
    assert_eq!(lab.git(&["rev-parse", "cf/a"]), left.base);
}

#[test]
fn a_branch_that_is_not_ours_is_refused_and_untouched() {
    let lab = Lab::new();
    lab.git(&["branch", "cf/a"]);
    let error = lab.repository().prepare(&lab.order("t-1")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "branch cf/a is there already, and cf did not make it"
    );
    lab.git(&["checkout", "-q", "cf/a"]);
    let order = Order {
        is_ours: true,
        ..lab.order("t-1")
    };
    let error = lab.repository().prepare(&order).unwrap_err().to_string();
    assert!(error.contains("cf/a is checked out in"), "{error}");
    assert!(!lab.tree("t-1").exists());
}

#[test]
fn a_branch_that_appears_between_the_halves_is_not_taken() {
    let lab = Lab::new();
    let order = lab.order("t-1");
    let repository = lab.repository();
    let ready = repository.prepare(&order).unwrap();
    lab.git(&["branch", "cf/a"]);
    assert!(repository.take_branch(&order, &ready).is_err());
}

#[test]
fn a_worktree_of_a_live_attempt_keeps_its_branch() {
    let lab = Lab::new();
    let first = lab.begun(&lab.order("t-1"));
    let order = Order {
        is_ours: true,
        older: vec![Older {
            is_live: true,
            ..older(&first)
        }],
        ..lab.order("t-2")
    };
    let error = lab.repository().prepare(&order).unwrap_err().to_string();
    assert!(error.contains("may be alive"), "{error}");
}

#[test]
fn the_lock_file_of_a_killed_git_is_removed() {
    let lab = Lab::new();
    let order = lab.order("t-1");
    let repository = lab.repository();
    let ready = repository.prepare(&order).unwrap();
    fs::create_dir_all(lab.root().join(".git/refs/heads/cf")).unwrap();
    let lock = lab.root().join(".git/refs/heads/cf/a.lock");
    let file = fs::File::create(&lock).unwrap();
    file.set_modified(std::time::SystemTime::now() - Duration::from_mins(5))
        .unwrap();
    repository.take_branch(&order, &ready).unwrap();
    assert!(!lock.exists());
}

#[test]
fn many_worktrees_are_made_at_once() {
    let lab = Lab::new();
    let repository = lab.repository();
    let began = Instant::now();
    std::thread::scope(|scope| {
        for n in 0..12 {
            let order = Order {
                branch: format!("cf/t{n}"),
                ..lab.order(&format!("t{n}-1"))
            };
            let repository = &repository;
            scope.spawn(move || {
                let ready = repository.prepare(&order).unwrap();
                repository.take_branch(&order, &ready).unwrap();
            });
        }
    });
    assert_eq!(
        lab.git(&["worktree", "list"]).lines().count(),
        13,
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn what_stands_around_is_named() {
    let lab = Lab::new();
    lab.write("file", "changed\n");
    lab.write("new", "x\n");
    let base = lab.repository().base().unwrap();
    assert_eq!((base.branch.as_deref(), base.changed), (Some("main"), 2));
    assert!(!base.has_submodules);
    let empty = tempfile::tempdir().unwrap();
    let (workspace, _) = Workspace::create(empty.path()).unwrap();
    let git = Git::new(Duration::from_mins(1), None, Cancel::default());
    let error = Repository::of(&workspace, git.clone())
        .unwrap_err()
        .to_string();
    assert!(error.contains("is not in a git repository"), "{error}");
    lab.git_in(empty.path(), &["init", "-q"]);
    let error = Repository::of(&workspace, git)
        .unwrap()
        .base()
        .unwrap_err()
        .to_string();
    assert!(error.contains("no commit"), "{error}");
}
