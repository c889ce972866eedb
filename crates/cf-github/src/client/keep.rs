//! What outlives the process: handed out to be saved, and taken in again.

use std::sync::Arc;

use jiff::Timestamp;

use super::host::Host;
use super::locked;
use crate::answer::Why;
use crate::entry::{Entry, Key};
use crate::saved::{HostState, ItemTrouble, Mark, Saved, Snapshot, What};

impl Host {
    /// Adds what was learned since the last call.
    pub(super) fn take_changed(&self, saved: &mut Saved) {
        let changed = std::mem::take(&mut *locked(&self.changed));
        for key in changed.keys {
            // What was evicted in between is simply asked for again.
            if let Some(entry) = self.cache.get(&key) {
                saved.snapshots.push(Snapshot {
                    host: self.name().to_owned(),
                    repo: key.repo,
                    number: key.number,
                    token: self.fingerprint,
                    read_at: entry.read_at,
                    what: entry.what.clone(),
                });
            }
        }
        let spans = locked(&self.spans);
        for repo in changed.spans {
            if let Some(span) = spans.get(&repo) {
                saved.marks.push(Mark {
                    host: self.name().to_owned(),
                    repo,
                    token: self.fingerprint,
                    span: *span,
                });
            }
        }
        let troubles = locked(&self.troubles);
        for key in changed.troubles {
            let trouble = troubles.get(&key);
            saved.troubles.push(ItemTrouble {
                host: self.name().to_owned(),
                repo: key.repo,
                number: key.number,
                token: self.fingerprint,
                at: trouble.map_or_else(Timestamp::now, |(at, _)| *at),
                why: trouble
                    .map(|(_, why)| why.clone())
                    .filter(Why::is_to_be_saved),
            });
        }
        if changed.pace {
            saved.hosts.push(HostState {
                host: self.name().to_owned(),
                token: self.fingerprint,
                pace: locked(&self.pace).clone(),
            });
        }
    }

    /// Takes in what was saved, as far as it is newer and was read with the same token.
    pub(super) fn load(&self, saved: Saved) {
        for snapshot in saved.snapshots {
            if snapshot.token != self.fingerprint {
                continue;
            }
            let key = Key {
                repo: snapshot.repo,
                number: snapshot.number,
            };
            let known = self.cache.get(&key);
            if known
                .as_ref()
                .is_none_or(|known| is_newer(&snapshot.what, snapshot.read_at, known))
            {
                let entry = Entry {
                    read_at: snapshot.read_at,
                    what: snapshot.what,
                    talk: known.as_ref().and_then(|known| known.talk.clone()),
                    holes: known.and_then(|known| known.holes),
                };
                self.cache.insert(key, Arc::new(entry));
            }
        }
        {
            let mut spans = locked(&self.spans);
            for mark in saved.marks {
                let newer = spans
                    .get(&mark.repo)
                    .is_none_or(|span| span.checked_at < mark.span.checked_at);
                if mark.token == self.fingerprint && newer {
                    spans.insert(mark.repo, mark.span);
                }
            }
        }
        for state in saved.hosts {
            if state.token == self.fingerprint {
                let notice = locked(&self.pace).merge(&state.pace);
                self.notices.push(self.name(), notice);
            }
        }
    }
}

/// Whether a saved answer is newer than a known one. A list of changes renews an answer without a new look at the item.
fn is_newer(saved: &What, read_at: Timestamp, known: &Entry) -> bool {
    let saved_at = match saved {
        What::Is(seen) => Some(seen.item.updated_at),
        What::Gone { .. } | What::Moved { .. } => None,
    };
    match (saved_at, known.seen()) {
        (Some(saved_at), Some(known)) if saved_at != known.item.updated_at => {
            saved_at > known.item.updated_at
        }
        _ => read_at > known.read_at,
    }
}
