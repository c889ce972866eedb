//! A store or a source that cannot be used for now: it is said once, waited for, and said once when it is back.

use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use super::super::{ConductorError, Notice};
use super::Conductor;
use crate::executor::Executor;
use crate::store::StoreError;
use crate::store::wait::{Holder, held_up_by};

/// How long others may keep the store busy before that is said.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long a batch that a signal stopped, and whose agents have ended, waits for a store that refuses.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// What the store said, and who keeps it busy.
fn why(error: &StoreError, holder: Option<Holder>) -> String {
    let said = crate::chain(error);
    match holder.filter(|_| error.is_busy()) {
        Some(holder) if holder.is_stopped => format!(
            "{said}; {holder} has it locked, and is stopped; let it go on with `kill -CONT {}`, or end it",
            holder.pid
        ),
        Some(holder) => format!("{said}; {holder} has it locked"),
        None => said,
    }
}

impl Conductor<'_> {
    /// Goes on without the store for now, or leaves when nothing is gained by waiting for it.
    ///
    /// # Errors
    ///
    /// The one given, when no agent is left to be looked after and either the store was waited for in vain after a
    /// request to stop, or this process can never write what it has to. What could not be stored is in the records of
    /// the supervisors then, and the batch can be resumed.
    pub(super) fn bear_with_store(&mut self, error: StoreError) -> Result<(), ConductorError> {
        self.store_is_not_well(&error);
        if self.stop_to_store && !self.stop_sent {
            // The agents are told to end whether or not the store takes the word down.
            self.stop_sent = true;
            self.tell_all_to_end(self.core.settings.kill_grace)?;
        }
        let lasted = self.core.clock.saturating_sub(self.trouble_since);
        let asked = self.signals_seen > 1 || (self.signals_seen > 0 && lasted >= LAST_WORDS);
        if (asked || error.is_file_limit(&self.database.0)) && self.executor.running().is_empty() {
            return Err(error.into());
        }
        Ok(())
    }

    /// A store that is not where it was is not this batch's store any more.
    pub(super) fn check_database(&self) -> Result<(), ConductorError> {
        let (path, inode) = &self.database;
        match std::fs::metadata(path) {
            Ok(meta) if meta.ino() == *inode => Ok(()),
            Ok(_) => Err(ConductorError::Vanished {
                path: path.clone(),
                survivors: Vec::new(),
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(ConductorError::Vanished {
                    path: path.clone(),
                    survivors: Vec::new(),
                })
            }
            // What cannot be looked at may be back in a moment.
            Err(_) => Ok(()),
        }
    }

    pub(super) fn store_is_not_well(&mut self, error: &StoreError) {
        if !std::mem::replace(&mut self.store_trouble, true) {
            self.trouble_since = self.core.clock;
        }
        // Others who write are through in a moment, and nothing is lost by waiting for them.
        let patience = if error.is_busy() {
            PATIENCE
        } else {
            Duration::ZERO
        };
        let lasted = self.core.clock.saturating_sub(self.trouble_since);
        if lasted >= patience && !std::mem::replace(&mut self.trouble_told, true) {
            self.observer.notice(&Notice::Unavailable {
                what: "store".to_owned(),
                why: why(error, held_up_by()),
            });
        }
    }

    /// What could not be written is nothing to write any more, as when somebody else has done it. The end of the batch
    /// is not of that kind.
    pub(super) fn nothing_aside(&mut self) {
        self.writes_fail &= self.core.is_over();
    }

    /// The store has taken something.
    pub(super) fn writes_succeed(&mut self) {
        self.writes_fail = false;
        self.store_is_well();
    }

    pub(super) fn store_is_well(&mut self) {
        if self.writes_fail {
            return;
        }
        self.store_trouble = false;
        if std::mem::take(&mut self.trouble_told) {
            self.observer.notice(&Notice::Available {
                what: "store".to_owned(),
            });
        }
        if self.core.relook.is_empty() {
            for (what, _) in std::mem::take(&mut self.source_trouble) {
                self.observer.notice(&Notice::Available { what });
            }
        }
    }

    pub(super) fn source_is_not_well(&mut self, source: &str, why: &str) {
        if !self.source_trouble.contains_key(source) {
            self.source_trouble
                .insert(source.to_owned(), why.to_owned());
            self.observer.notice(&Notice::Unavailable {
                what: source.to_owned(),
                why: why.to_owned(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case(rusqlite::ffi::SQLITE_BUSY, false => Some("; process 7 (cf) has it locked".to_owned()); "a writer")]
    #[test_case(rusqlite::ffi::SQLITE_BUSY, true => Some("; process 7 (cf) has it locked, and is stopped; let it go on \
                                                          with `kill -CONT 7`, or end it".to_owned()); "a stopped one")]
    #[test_case(rusqlite::ffi::SQLITE_FULL, false => Some(String::new()); "another trouble")]
    fn whoever_keeps_the_store_busy_is_named(code: i32, is_stopped: bool) -> Option<String> {
        let error = StoreError::Sql {
            what: "begin",
            source: rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None),
        };
        let holder = Holder {
            pid: 7,
            name: "cf".to_owned(),
            is_stopped,
        };
        let why = why(&error, Some(holder));
        why.strip_prefix(&crate::chain(&error)).map(str::to_owned)
    }
}
