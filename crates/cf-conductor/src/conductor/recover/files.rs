//! The files of supervisors that nobody will ask again.
//!
//! A conductor removes the file of each supervisor that it lets go. One that is killed leaves them behind, 64 KiB each;
//! whoever starts next removes those of supervisors that are provably dead and of which no open attempt needs to know
//! what they did. One that would have ended with its conductor, had nobody stopped it, is let go on first.

use std::fs;

use cf_core::BatchId;

use crate::store::Store;
use crate::stray;
use crate::supervise::RecordFile;
use crate::workspace::Workspace;

/// Lets strays go on that somebody stopped, and removes the files of supervisors that are dead and not asked about any
/// more. No file goes while another conductor lives: it may be just about to read one. What cannot be let go on, and a
/// file that cannot be removed, harm nobody.
pub(in crate::conductor) fn remove_of_the_dead(
    workspace: &Workspace,
    store: &Store,
    own: BatchId,
) -> crate::store::Result<()> {
    let needed = store.read(stray::needed)?;
    for stray in stray::find(workspace, &needed)? {
        if stray.is_stopped() {
            tracing::warn!(
                pid = stray.identity.pid,
                "a supervisor without a conductor was stopped, and is let go on"
            );
            let _ = stray.let_go_on();
        }
    }
    if workspace.live_batches()?.iter().any(|batch| *batch != own) {
        return Ok(());
    }
    // Only now: another conductor may have claimed something in between, and died.
    let needed = store.read(stray::needed)?;
    for entry in fs::read_dir(workspace.supervisors())
        .into_iter()
        .flatten()
        .flatten()
    {
        let path = entry.path();
        if stray::supervisor_of(&path).is_some_and(|id| !needed.contains(&id)) {
            let _ = RecordFile::remove_unless_held(&path);
        }
    }
    Ok(())
}
