//! What a pass keeps of what it read about an item, beside what was known before.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::{Entry, GoneHow, Host, Item, Key, Seen, What, Why};
use crate::time::between;

/// GitHub answers from many machines, some of which lag behind by a few seconds. For so long after an answer an older
/// one is taken for such a machine's.
const LAG: Duration = Duration::from_secs(30);

impl Host {
    /// Keeps an item that was read, together with what is known through it.
    pub(super) fn keep_item(&self, key: &Key, item: impl Into<Arc<Item>>, read_at: Timestamp) {
        let item: Arc<Item> = item.into();
        let before = self.cached(key);
        let known = before.as_deref().and_then(Entry::seen);
        if let (Some(before), Some(known)) = (&before, known)
            && item.updated_at < known.item.updated_at
            && between(before.read_at, read_at) < LAG
        {
            // Whoever takes it for news has the item swing between what it was and what it is.
            let how = "an answer that is older than the last one";
            self.trouble(key, Why::Unreadable(how.to_owned()));
            return;
        }
        let is_same = known.is_some_and(|known| known.item.updated_at == item.updated_at);
        let seen = Seen {
            moved: known.is_some_and(|known| known.moved || !is_same),
            found_at: known.and_then(|known| known.found_at),
            found: known.map(|known| known.found.clone()).unwrap_or_default(),
            etag: known.and_then(|known| known.etag.clone()),
            item,
        };
        let entry = Entry {
            read_at,
            what: What::Is(Box::new(seen)),
            talk: before.as_ref().and_then(|before| before.talk.clone()),
            holes: before
                .as_ref()
                .and_then(|before| before.holes)
                .filter(|_| is_same),
        };
        self.keep(key, entry);
    }

    pub(super) fn keep_gone(&self, key: &Key, how: GoneHow, read_at: Timestamp) {
        let looks = match self.cached(key).as_deref() {
            Some(Entry {
                what: What::Gone { looks, .. },
                ..
            }) => looks.saturating_add(1),
            _ => 1,
        };
        self.keep(
            key,
            Entry {
                read_at,
                what: What::Gone { how, looks },
                talk: None,
                holes: None,
            },
        );
    }
}
