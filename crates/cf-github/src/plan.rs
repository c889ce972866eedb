//! Which requests a pass makes. Pure.
//!
//! Few items are read one by one, many aliases to a request. Many items are covered by lists of what changed in their
//! repositories, in one request for several repositories, together with those that need an exact look and those whose
//! last exact look is the longest ago: so transfers, deletions and anything that a list left out are found in turn.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use cf_core::Repo;
use jiff::{SignedDuration, Timestamp};

use crate::entry::Key;
use crate::request::RepoPart;
use crate::saved::Span;
use crate::time::{between, earlier};

/// A list of changes is worth it for more items than this in one repository.
const LIST_ABOVE: usize = 25;
/// The most repositories whose changes are listed in one request.
const LISTS: usize = 20;
/// The most items that are read exactly beside lists of changes, unless more have to be.
const SCRUB: usize = 100;
/// Lists reach so much further back than the last one: GitHub's lists lag behind, and clocks differ.
pub(crate) const OVERLAP: Duration = Duration::from_mins(2);
/// A list of changes over more than this would be cut anyway.
const LONGEST_SPAN: Duration = Duration::from_hours(1);

/// An item that has to be read.
#[derive(Clone, Debug)]
pub(crate) struct Due {
    pub(crate) key: Key,
    /// When it was last read, if its repository's list of changes tells everything since and a list will do.
    pub(crate) listable: Option<Timestamp>,
}

/// One request's worth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    /// Repositories whose changes are listed, with the time from which on, by the server's clock.
    pub(crate) lists: Vec<(Repo, Timestamp)>,
    /// Items that are read.
    pub(crate) exact: Vec<Key>,
    /// Whether it must not be put together with others, having been taken apart for a reason.
    pub(crate) alone: bool,
}

impl Batch {
    /// The parts of the request.
    pub(crate) fn parts(&self) -> Vec<RepoPart> {
        let mut parts: BTreeMap<&Repo, RepoPart> = BTreeMap::new();
        for (repo, since) in &self.lists {
            parts.insert(
                repo,
                RepoPart {
                    repo: repo.clone(),
                    changed_since: Some(*since),
                    numbers: Vec::new(),
                },
            );
        }
        for key in &self.exact {
            parts
                .entry(&key.repo)
                .or_insert_with(|| RepoPart {
                    repo: key.repo.clone(),
                    changed_since: None,
                    numbers: Vec::new(),
                })
                .numbers
                .push(key.number);
        }
        parts.into_values().collect()
    }

    /// How much is asked for, in items.
    pub(crate) fn size(&self) -> usize {
        self.exact.len() + self.lists.len() * 10
    }

    /// Halves it; nothing when it cannot be halved.
    pub(crate) fn split(mut self) -> Option<[Self; 2]> {
        let second = if !self.lists.is_empty() && !self.exact.is_empty() {
            Self {
                exact: std::mem::take(&mut self.exact),
                ..Self::default()
            }
        } else if self.lists.len() > 1 {
            Self {
                lists: self.lists.split_off(self.lists.len() / 2),
                ..Self::default()
            }
        } else if self.exact.len() > 1 {
            Self {
                exact: self.exact.split_off(self.exact.len() / 2),
                alone: self.alone,
                ..Self::default()
            }
        } else {
            return None;
        };
        Some([self, second])
    }

    /// Splits it by repository; nothing when there is only one.
    pub(crate) fn split_repos(self) -> Option<[Self; 2]> {
        let repos: Vec<Repo> = self.parts().into_iter().map(|part| part.repo).collect();
        if repos.len() < 2 {
            return None;
        }
        let first: std::collections::HashSet<&Repo> = repos[..repos.len() / 2].iter().collect();
        let (lists, other_lists) = self
            .lists
            .into_iter()
            .partition(|(repo, _)| first.contains(repo));
        let (exact, other_exact) = self
            .exact
            .into_iter()
            .partition(|key| first.contains(&key.repo));
        Some([
            Self {
                lists,
                exact,
                alone: true,
            },
            Self {
                lists: other_lists,
                exact: other_exact,
                alone: true,
            },
        ])
    }
}

/// Plans the requests for what is due. `skew` is the server's clock less ours.
pub(crate) fn plan(
    due: Vec<Due>,
    spans: &HashMap<Repo, Span>,
    chunk: usize,
    skew: SignedDuration,
    now: Timestamp,
) -> VecDeque<Batch> {
    let mut lists: Vec<(Repo, Timestamp)> = Vec::new();
    if due.len() > 2 * chunk {
        let mut counts: HashMap<&Repo, usize> = HashMap::new();
        for due in due.iter().filter(|due| due.listable.is_some()) {
            *counts.entry(&due.key.repo).or_default() += 1;
        }
        let mut counts: Vec<(&Repo, usize)> = counts
            .into_iter()
            .filter(|(_, count)| *count > LIST_ABOVE)
            .collect();
        counts.sort_by(|(a, m), (b, n)| n.cmp(m).then_with(|| a.cmp(b)));
        for (repo, _) in counts.into_iter().take(LISTS) {
            if let Some(span) = spans.get(repo).filter(|span| is_usable(span, now)) {
                lists.push((repo.clone(), list_from(span, skew)));
            }
        }
    }
    let mut exact = Vec::new();
    let mut listed = Vec::new();
    for due in due {
        match due.listable {
            Some(read_at) if lists.iter().any(|(repo, _)| *repo == due.key.repo) => {
                listed.push((read_at, due.key));
            }
            _ => exact.push(due.key),
        }
    }
    if !lists.is_empty() {
        let room = chunk.min(SCRUB).saturating_sub(exact.len());
        listed.sort();
        exact.extend(listed.into_iter().take(room).map(|(_, key)| key));
    }
    exact.sort();
    let mut batches: VecDeque<Batch> = in_chunks(exact, chunk);
    if !lists.is_empty() {
        match batches.front_mut() {
            Some(first) => first.lists = lists,
            None => batches.push_back(Batch {
                lists,
                ..Batch::default()
            }),
        }
    }
    batches
}

/// Exact reads, so many to a request.
pub(crate) fn in_chunks(keys: Vec<Key>, chunk: usize) -> VecDeque<Batch> {
    let mut batches = VecDeque::new();
    let mut keys = keys.into_iter().peekable();
    while keys.peek().is_some() {
        batches.push_back(Batch {
            exact: keys.by_ref().take(chunk.max(1)).collect(),
            ..Batch::default()
        });
    }
    batches
}

/// Fits a batch to the size that is right now: it may have changed since the batches were made.
pub(crate) fn fit(batch: &mut Batch, queue: &mut VecDeque<Batch>, chunk: usize) {
    if batch.exact.len() > chunk {
        let rest = batch.exact.split_off(chunk);
        queue.push_front(Batch {
            exact: rest,
            alone: batch.alone,
            ..Batch::default()
        });
    }
    if batch.alone || !batch.lists.is_empty() {
        return;
    }
    while let Some(next) = queue.front_mut() {
        let room = chunk
            .saturating_sub(batch.exact.len())
            .min(next.exact.len());
        if room == 0 || next.alone || !next.lists.is_empty() {
            return;
        }
        batch.exact.extend(next.exact.drain(..room));
        if next.exact.is_empty() {
            queue.pop_front();
        }
    }
}

/// Begins with the batch that holds `first`, or what follows it: an earlier pass had no time for it.
pub(crate) fn begin_with(queue: &mut VecDeque<Batch>, first: &Key) {
    let at = queue
        .iter()
        .position(|batch| batch.exact.last().is_some_and(|last| last >= first));
    queue.rotate_left(at.unwrap_or(0));
}

/// Whether so many items of a repository are worth a list of its changes later on.
pub(crate) const fn is_worth_listing(items: usize) -> bool {
    items > LIST_ABOVE
}

fn is_usable(span: &Span, now: Timestamp) -> bool {
    span.checked_at <= now && between(span.checked_at, now) < LONGEST_SPAN
}

/// The time from which on changes are listed, by the server's clock.
fn list_from(span: &Span, skew: SignedDuration) -> Timestamp {
    let at = earlier(span.checked_at, OVERLAP);
    at.checked_add(skew).unwrap_or(at)
}

#[cfg(test)]
mod tests;
