//! Reading a supervisor's file: what it says about one process of an attempt.

use std::io;
use std::path::Path;

use cf_core::AttemptId;

use super::Fate;
use crate::process::Swept;
use crate::supervise::{Ended, Record, Stage, read_records};

/// What the file of a supervisor that is dead says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// The last word.
    Final(Fate),
    /// It was started (or may have been), and what runs of it is nobody's now; the first part of its end, if it ended.
    Open(Option<Box<Ended>>),
}

/// Reads what the file says. To be asked when its supervisor is dead: the record is written before the exit.
pub(super) fn written(path: &Path, attempt: AttemptId, stage: Stage) -> io::Result<Written> {
    // Without the file nothing shows that the process was not started.
    if !std::fs::exists(path)? {
        return Ok(Written::Open(None));
    }
    let mut answer = Written::Final(Fate::NeverStarted);
    for record in read_records(path)? {
        if record.subject() != Some((attempt, stage)) {
            continue;
        }
        answer = match record {
            Record::Hello(_) => continue,
            Record::Started { .. } => Written::Open(None),
            Record::Ended(ended) if ended.unfinished => Written::Open(Some(Box::new(ended))),
            Record::Ended(ended) => Written::Final(Fate::Ended(ended)),
            Record::SpawnFailed { error, passing, .. } => {
                Written::Final(Fate::SpawnFailed { error, passing })
            }
        };
    }
    Ok(answer)
}

/// The fate of a process whose supervisor died before it could finish, after what was left has been stopped.
pub(super) fn after_sweep(first: Option<Box<Ended>>, swept: Swept) -> Fate {
    match first {
        None => Fate::Lost(swept),
        Some(first) => Fate::Ended(Ended {
            clean: swept.is_clean(),
            unfinished: false,
            retires: true,
            unlisted: u32::from(swept.is_blind),
            survivors: swept.survivors,
            ..*first
        }),
    }
}
