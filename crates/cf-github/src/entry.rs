//! The cached answer about one item, and whether it will still do. Freshness is in the value and is judged by pure
//! functions of the time; the cache itself never drops anything for its age.

use std::sync::Arc;
use std::time::Duration;

use cf_core::{LinkKind, Repo};
use jiff::Timestamp;

use crate::answer::{CommentAsk, FoundAsk, GoneHow, LinkAsk, Proof};
use crate::item::{CloseReason, Comment, ItemState};
use crate::saved::{Seen, Span, What};
use crate::time::{between, earlier, later};

/// An item on one host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) repo: Repo,
    pub(crate) number: u64,
}

impl std::hash::Hash for Key {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        KeyRef::from(self).hash(state);
    }
}

/// An item on one host, to be looked up. A pass over many fresh answers does little else, so that a copy of the name
/// for each would be felt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyRef<'k> {
    pub(crate) repo: &'k Repo,
    pub(crate) number: u64,
}

impl<'k> From<&'k Key> for KeyRef<'k> {
    fn from(key: &'k Key) -> Self {
        Self {
            repo: &key.repo,
            number: key.number,
        }
    }
}

/// By hand, eight bytes at a time; without regard to case, like equality.
impl std::hash::Hash for KeyRef<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        for part in [self.repo.owner(), self.repo.name()] {
            for bytes in part.as_bytes().chunks(8) {
                let mut word = [0; 8];
                word[..bytes.len()].copy_from_slice(bytes);
                word.make_ascii_lowercase();
                state.write_u64(u64::from_le_bytes(word));
            }
        }
        state.write_u64(self.number);
    }
}

impl moka::Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.number == key.number && *self.repo == key.repo
    }
}

/// A cached answer.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// When the answer was asked for.
    pub(crate) read_at: Timestamp,
    /// The answer.
    pub(crate) what: What,
    /// The comments that were read last. Never saved.
    pub(crate) talk: Option<Arc<Talk>>,
    /// The looks at the pull requests that close it which brought nothing usable. Never saved.
    pub(crate) holes: Option<Holes>,
}

/// Looks in a row whose replies left something out that has to be there. A hole that a timeout has left is gone with
/// the next look; another is there for days, and nobody is to be asked about it in every pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holes {
    /// How many.
    pub(crate) looks: u32,
    /// When the last one was asked for.
    pub(crate) at: Timestamp,
}

impl Holes {
    /// One more.
    pub(crate) fn after(before: Option<Self>, at: Timestamp) -> Self {
        Self {
            looks: before.map_or(1, |before| before.looks.saturating_add(1)),
            at,
        }
    }

    /// Whether there is to be no other look for now, by somebody for whom an answer from `fresh_after` on is fresh.
    fn rest(&self, fresh_after: Timestamp) -> bool {
        look_again(GoneHow::Invisible, self.looks)
            .is_some_and(|wait| later(self.at, wait) >= fresh_after)
    }
}

/// Comments as they were read.
#[derive(Debug)]
pub(crate) struct Talk {
    /// The item's `updated_at` at that time.
    pub(crate) updated_at: Timestamp,
    /// When they were asked for.
    pub(crate) read_at: Timestamp,
    /// The comments, oldest first.
    pub(crate) list: Arc<[Comment]>,
    /// How many could not be read.
    pub(crate) unread: u32,
    /// The looks that could not read them.
    pub(crate) holes: Option<Holes>,
    /// Whether older ones were left out.
    pub(crate) more: bool,
    /// Whether there are too many for all that was wanted to be read.
    pub(crate) cut: bool,
    /// Whether nothing can be added any more without moving `updated_at`.
    pub(crate) settled: bool,
}

/// What is wanted about one item, for everybody who asks.
#[derive(Clone, Debug)]
pub(crate) struct Want {
    pub(crate) fresh_after: Timestamp,
    pub(crate) proof: Proof,
    pub(crate) comments: Option<CommentWant>,
    pub(crate) found: FoundAsk,
}

/// Which comments are wanted, for everybody who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommentWant {
    /// All from here on.
    pub(crate) since: Option<Timestamp>,
    /// At least so many.
    pub(crate) last: u32,
    /// Not while the item has not changed after this.
    pub(crate) seen: Option<Timestamp>,
}

/// GitHub writes times in whole seconds, so that another comment may follow within the same one; replicas lag a little.
const SETTLING: Duration = Duration::from_secs(5);
/// Clocks are set back now and then; an answer from further in the future than this is not believed.
const FUTURE: Duration = Duration::from_mins(1);
/// What cannot change any more is still read again once a day.
const FINAL: Duration = Duration::from_hours(24);

impl Want {
    pub(crate) fn of<L>(ask: &LinkAsk<L>, now: Timestamp) -> Self {
        Self {
            fresh_after: earlier(now, ask.fresh_within),
            proof: ask.proof,
            comments: ask.comments.map(CommentWant::of),
            found: ask.found,
        }
    }

    /// Adds what somebody else wants about the same item.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.fresh_after = self.fresh_after.max(other.fresh_after);
        self.proof = self.proof.max(other.proof);
        self.found = self.found.max(other.found);
        self.comments = match (self.comments, other.comments) {
            (Some(mine), Some(theirs)) => Some(CommentWant {
                since: match (mine.since, theirs.since) {
                    (Some(mine), Some(theirs)) => Some(mine.min(theirs)),
                    (one, other) => one.or(other),
                },
                last: mine.last.max(theirs.last),
                seen: mine
                    .seen
                    .zip(theirs.seen)
                    .map(|(mine, theirs)| mine.min(theirs)),
            }),
            (one, other) => one.or(other),
        };
    }
}

impl CommentWant {
    pub(crate) fn of(ask: CommentAsk) -> Self {
        Self {
            since: ask.since,
            last: if ask.since.is_some() {
                0
            } else {
                ask.last.clamp(1, 100)
            },
            seen: ask.seen,
        }
    }

    /// Whether comments read so far reach back far enough.
    pub(crate) fn is_met_by(&self, list: &[Comment], more: bool) -> bool {
        !more
            || (list.len() >= self.last as usize
                && self
                    .since
                    .is_none_or(|since| list.first().is_some_and(|first| first.created_at < since)))
    }
}

impl Talk {
    /// What the caller stores as seen: a second less while more may come in the same second.
    pub(crate) fn up_to(&self) -> Timestamp {
        if self.settled {
            self.updated_at
        } else {
            earlier(self.updated_at, Duration::from_secs(1))
        }
    }

    /// Whether an item that changed at `updated_at` has settled at `server_now`.
    pub(crate) fn settles(updated_at: Timestamp, server_now: Timestamp) -> bool {
        between(updated_at, server_now) >= SETTLING
    }
}

impl Entry {
    /// The item, when there is one.
    pub(crate) fn seen(&self) -> Option<&Seen> {
        match &self.what {
            What::Is(seen) => Some(seen),
            What::Gone { .. } | What::Moved { .. } => None,
        }
    }

    /// When the answer was last known to be true.
    pub(crate) fn checked_at(&self, span: Option<&Span>) -> Timestamp {
        match span {
            Some(span) if self.is_covered(span) => self.read_at.max(span.checked_at),
            _ => self.read_at,
        }
    }

    /// Whether the lists of changes tell everything that has happened to it since it was read.
    pub(crate) fn is_covered(&self, span: &Span) -> bool {
        self.seen().is_some() && self.read_at >= span.base
    }

    /// Whether it has to be read again for this want.
    pub(crate) fn is_due(&self, span: Option<&Span>, want: &Want, now: Timestamp) -> bool {
        if self.read_at > later(now, FUTURE) {
            return true;
        }
        match &self.what {
            What::Gone { how, looks } => match look_again(*how, *looks) {
                Some(wait) => now >= later(self.read_at, wait),
                None => self.read_at < want.fresh_after,
            },
            What::Moved { .. } => now >= later(self.read_at, FINAL),
            What::Is(seen) => {
                let at = match want.proof {
                    Proof::Exact => self.read_at,
                    Proof::Listed => self.checked_at(span),
                };
                let merged = matches!(seen.item.state, ItemState::Merged { .. });
                at < want.fresh_after && !(merged && now < later(self.read_at, FINAL))
            }
        }
    }

    /// The comments that were read, if they answer this want.
    pub(crate) fn talk_for(&self, want: &CommentWant, fresh_after: Timestamp) -> Option<&Talk> {
        let seen = self.seen()?;
        self.talk.as_deref().filter(|talk| {
            talk.updated_at >= seen.item.updated_at
                && (talk.settled || talk.read_at >= fresh_after)
                && (talk.read_at >= fresh_after
                    || talk.holes.is_none_or(|holes| holes.rest(fresh_after)))
                && (talk.cut || want.is_met_by(&talk.list, talk.more))
        })
    }

    /// Whether its comments have to be read.
    pub(crate) fn comments_due(&self, want: &Want) -> bool {
        let (Some(comments), Some(seen)) = (&want.comments, self.seen()) else {
            return false;
        };
        comments
            .seen
            .is_none_or(|seen_at| seen.item.updated_at > seen_at)
            && self.talk_for(comments, want.fresh_after).is_none()
    }

    /// The open pull requests that were found through it and are followed with it, when they are wanted.
    pub(crate) fn followed(&self, want: &Want) -> impl Iterator<Item = Key> {
        let wanted = want.found != FoundAsk::Never;
        self.seen()
            .filter(|_| wanted)
            .into_iter()
            .flat_map(|seen| &seen.found)
            .filter(|pr| pr.state == ItemState::Open)
            .map(|pr| Key {
                repo: pr.repo.clone(),
                number: pr.number,
            })
    }

    /// Whether pull requests that close it have to be looked for. They can add nothing once it is done by itself.
    pub(crate) fn found_due(&self, want: &Want) -> bool {
        let Some(seen) = self.seen() else {
            return false;
        };
        let done = matches!(
            seen.item.state,
            ItemState::Closed {
                reason: CloseReason::Completed | CloseReason::Unstated,
                ..
            }
        );
        seen.item.kind == LinkKind::Issue
            && !done
            && !self.holes.is_some_and(|holes| holes.rest(want.fresh_after))
            && match want.found {
                FoundAsk::Never => false,
                // One that was dropped may have been done all the same.
                FoundAsk::WhenMoved => {
                    seen.moved || (seen.item.state != ItemState::Open && seen.found_at.is_none())
                }
                FoundAsk::Now => seen.moved || seen.found_at.is_none(),
            }
    }
}

/// How long to wait before looking again for something that was gone on so many looks in a row. None for the first
/// looks: they follow each other as those at anything else do, since three of them are worth a warning.
fn look_again(how: GoneHow, looks: u32) -> Option<Duration> {
    let doublings = looks.checked_sub(3)?.min(16);
    // Permissions are given while somebody waits for it; what was deleted stays so.
    let (shortest, longest) = match how {
        GoneHow::Forbidden => (Duration::from_secs(30), Duration::from_mins(30)),
        GoneHow::Deleted | GoneHow::Invisible => (Duration::from_mins(10), Duration::from_hours(6)),
    };
    Some(shortest.saturating_mul(1 << doublings).min(longest))
}

#[cfg(test)]
mod tests;
