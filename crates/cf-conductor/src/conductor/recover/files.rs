//! The files of supervisors that nobody will ask again.
//!
//! A conductor removes the file of each supervisor that it lets go. One that is killed leaves them behind, 64 KiB each;
//! whoever starts next removes those of supervisors that are provably dead and of which no open attempt needs to know
//! what they did.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use cf_core::{BatchId, SupervisorId};

use crate::store::Store;
use crate::supervise::RecordFile;
use crate::workspace::Workspace;

/// Removes the files of supervisors that are dead and not asked about any more. Nothing while another conductor lives:
/// it may be just about to read one. A file that cannot be removed harms nobody.
pub(in crate::conductor) fn remove_of_the_dead(
    workspace: &Workspace,
    store: &Store,
    own: BatchId,
) -> crate::store::Result<()> {
    if workspace.live_batches()?.iter().any(|batch| *batch != own) {
        return Ok(());
    }
    let needed: HashSet<SupervisorId> = store.read(|reader| {
        let open = reader.open_attempts()?;
        Ok(open
            .iter()
            .map(|attempt| attempt.supervisor.supervisor)
            .collect())
    })?;
    for entry in fs::read_dir(workspace.supervisors())
        .into_iter()
        .flatten()
        .flatten()
    {
        let path = entry.path();
        if supervisor_of(&path).is_some_and(|id| !needed.contains(&id)) {
            let _ = RecordFile::remove_unless_held(&path);
        }
    }
    Ok(())
}

/// Whose file it is; nobody's when it is something else.
fn supervisor_of(path: &Path) -> Option<SupervisorId> {
    if path.extension()? != "sup" {
        return None;
    }
    path.file_stem()?.to_str()?.parse().ok()
}
