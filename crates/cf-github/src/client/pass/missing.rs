//! Items that GraphQL did not find: one REST look each tells moved from deleted from invisible.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::{Entry, Host, Key, Pass, Seen, What, Why, locked};
use crate::pace::Resource;
use crate::rest::{self, HOPS, Looked, RestLook};
use crate::time::between;

/// How many items are looked at in one pass; the others follow in later ones.
const LOOKS: usize = 5;
/// How long a look that told nothing, or failed, is not tried again.
const UNCLEAR: Duration = Duration::from_mins(1);

impl Pass<'_> {
    /// Looks at items that GraphQL did not find.
    pub(super) async fn look_up_missing(&mut self) {
        let missing = self.take_missing();
        let mut stopped = None;
        for (n, key) in missing.iter().enumerate() {
            if n < LOOKS && stopped.is_none() && !self.is_over() {
                let Err(why) = self.look_up(key).await else {
                    continue;
                };
                stopped = self.host.gate(Resource::Core).why();
                if stopped.is_none() {
                    // Only this look has failed; the next one may be about another item.
                    locked(&self.host.looked).insert(key.clone(), Timestamp::now());
                }
                self.host.trouble(key, why);
            } else {
                self.host
                    .trouble(key, stopped.clone().unwrap_or(Why::NotAsked));
            }
        }
    }

    /// The missing items, those first of which a look told nothing the longest time ago, or that had none: they must
    /// not keep each other from being looked at, even if every look at one fails.
    fn take_missing(&mut self) -> Vec<Key> {
        let now = Timestamp::now();
        let mut missing = std::mem::take(&mut self.missing);
        let mut unclear = Vec::new();
        {
            let looked = locked(&self.host.looked);
            missing.sort_by_key(|key| looked.get(key).copied());
            missing.retain(|key| {
                let soon = looked
                    .get(key)
                    .is_some_and(|at| *at <= now && between(*at, now) < UNCLEAR);
                if soon {
                    unclear.push(key.clone());
                }
                !soon
            });
        }
        for key in unclear {
            self.host.still(&key);
        }
        missing
    }

    /// Looks at one item, and follows where it went.
    ///
    /// # Errors
    ///
    /// The look has failed, or none may be sent now.
    async fn look_up(&self, key: &Key) -> Result<(), Why> {
        let host = self.host;
        let base = &host.wire.access().base;
        let known = host.cached(key);
        let known = known.as_deref().and_then(Entry::seen);
        let mut look = RestLook::at(base, &key.repo, key.number);
        look.etag = known.and_then(|seen| seen.etag.clone());
        for _ in 0..=HOPS {
            let at = Timestamp::now();
            let raw = host.rest(&look).await?;
            if raw.status == 304
                && let Some(seen) = known
            {
                host.keep_item(key, Arc::clone(&seen.item), at);
                return Ok(());
            }
            match rest::read(raw.status, &raw.headers, &raw.body, Timestamp::now()) {
                Looked::Item(item) if item.repo == key.repo && item.number == key.number => {
                    host.keep_item(key, *item, at);
                    host.keep_etag(key, raw.headers.etag);
                }
                Looked::Item(item) => {
                    let to = rest::link_to(host.name(), &item);
                    let new = Key {
                        repo: item.repo.clone(),
                        number: item.number,
                    };
                    host.keep_item(&new, *item, at);
                    host.keep(
                        key,
                        Entry {
                            read_at: at,
                            what: What::Moved { to },
                            talk: None,
                            holes: None,
                        },
                    );
                }
                Looked::Gone(how) => host.keep_gone(key, how, at),
                Looked::Unclear(how) => host.unclear(key, &how),
                Looked::Redirect => {
                    match RestLook::after_redirect(base, raw.headers.location.as_deref()) {
                        Ok(next) => {
                            look = next;
                            continue;
                        }
                        Err(how) => host.unclear(key, &how),
                    }
                }
            }
            return Ok(());
        }
        host.unclear(key, "redirects without end");
        Ok(())
    }
}

impl Host {
    /// Notes that a look has told nothing; another one soon would not either.
    fn unclear(&self, key: &Key, how: &str) {
        self.trouble(key, Why::Unreadable(how.to_owned()));
        locked(&self.looked).insert(key.clone(), Timestamp::now());
    }

    fn keep_etag(&self, key: &Key, etag: Option<String>) {
        let Some(entry) = self.cached(key) else {
            return;
        };
        if let What::Is(seen) = &entry.what {
            let seen = Seen {
                etag,
                ..(**seen).clone()
            };
            self.keep(
                key,
                Entry {
                    read_at: entry.read_at,
                    what: What::Is(Box::new(seen)),
                    talk: entry.talk.as_ref().map(Arc::clone),
                    holes: entry.holes,
                },
            );
        }
    }
}
