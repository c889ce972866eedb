use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

fn workspace() -> (tempfile::TempDir, Workspace) {
    let folder = tempfile::tempdir().unwrap();
    let workspace = Workspace::create(folder.path()).unwrap().0;
    (folder, workspace)
}

#[test]
fn a_batch_has_one_holder_however_often_its_lock_is_taken_and_given_back() {
    let (_folder, workspace) = workspace();
    let batch = BatchId(uuid::Uuid::from_u128(7));
    let (inside, taken) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while taken.load(Ordering::SeqCst) < 200 {
                    let Ok(_lock) = workspace.lock_batch(batch).unwrap() else {
                        continue;
                    };
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "alone");
                    assert!(workspace.conductor_of(batch).is_some());
                    taken.fetch_add(1, Ordering::SeqCst);
                    inside.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(workspace.conductor_of(batch), None);
    assert!(workspace.live_batches().unwrap().is_empty());
    assert_eq!(std::fs::read_dir(workspace.locks()).unwrap().count(), 0);
}

#[test]
fn a_lock_that_is_held_names_its_holder() {
    let (_folder, workspace) = workspace();
    let batch = BatchId(uuid::Uuid::from_u128(7));
    let held = workspace.lock_batch(batch).unwrap().unwrap();
    let me = std::process::id();
    assert_eq!(workspace.lock_batch(batch).unwrap().unwrap_err(), me);
    assert_eq!(workspace.conductor_of(batch), Some(me));
    assert_eq!(workspace.live_batches().unwrap(), [batch]);
    drop(held);
    assert_eq!(workspace.conductor_of(batch), None);
}

#[test]
fn the_file_of_another_holder_is_not_taken_away() {
    let (_folder, workspace) = workspace();
    let batch = BatchId(uuid::Uuid::from_u128(7));
    let first = workspace.lock_batch(batch).unwrap().unwrap();
    // Somebody removed the file by hand, and another process took the lock.
    std::fs::remove_file(workspace.lock_of(batch)).unwrap();
    let second = workspace.lock_batch(batch).unwrap().unwrap();
    drop(first);
    assert!(workspace.conductor_of(batch).is_some());
    drop(second);
    assert!(!workspace.lock_of(batch).exists());
}
