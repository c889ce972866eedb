//! One pass over what is wanted: states first, then the items that were not found, then comments and pull requests
//! found through issues. Runs under the host's sending lock, one request after the other.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Instant;

use cf_core::Repo;
use jiff::Timestamp;

use super::host::Host;
use super::locked;
use super::send::Miss;
use crate::answer::{GoneHow, Proof, Why};
use crate::chunk::{Chunk, SMALLEST};
use crate::entry::{Entry, Key, Want};
use crate::item::Item;
use crate::pace::Trouble;
use crate::plan::{Batch, Due, begin_with, fit, in_chunks, is_worth_listing, plan};
use crate::reply::{self, RepoReply, Told};
use crate::request::{Query, RepoPart};
use crate::saved::{Seen, Span, What};

mod details;
mod keeping;
mod missing;

/// How often a request that came to nothing without a named reason is taken for too large, in one pass.
const GUESSES: u32 = 2;
/// How many requests of a pass ask again for what replies left out.
const AGAIN: usize = 10;

/// A pass under way.
struct Pass<'a> {
    host: &'a Host,
    began: Timestamp,
    wants: HashMap<Key, Want>,
    /// What is due by list, and may fall back to exact reads.
    listed: HashMap<Repo, Vec<Key>>,
    read: HashSet<Key>,
    missing: Vec<Key>,
    guesses: u32,
    /// How many requests asked again for what replies left out.
    again: usize,
    /// Until when requests for states begin, and any.
    states_until: Instant,
    until: Instant,
    /// How many older pages of comments were read.
    older: usize,
    /// The size of requests before the first that was taken for too large without a word of GitHub's about that, as
    /// long as no smaller one went well.
    before: Option<Chunk>,
}

impl Host {
    /// Asks for everything in `wants` that is due now.
    pub(super) async fn run_pass(&self, mut wants: HashMap<Key, Want>) {
        let began = Timestamp::now();
        self.add_followed(&mut wants);
        let points = locked(&self.sent).points;
        let now = Instant::now();
        let mut pass = Pass {
            host: self,
            began,
            states_until: now + self.settings.pass_limit * 2 / 3,
            until: now + self.settings.pass_limit,
            wants,
            listed: HashMap::new(),
            read: HashSet::new(),
            missing: Vec::new(),
            guesses: 0,
            again: 0,
            older: 0,
            before: None,
        };
        let mut stopped = pass.read_states().await;
        if stopped.is_none() {
            pass.look_up_missing().await;
            stopped = pass.read_details().await;
        }
        self.unread_still(&pass.wants);
        if let Some(why) = stopped {
            for key in pass.wants.keys().filter(|key| !pass.read.contains(*key)) {
                self.trouble(key, why.clone());
            }
        }
        let spent = locked(&self.sent).points - points;
        *locked(&self.cost) = u32::try_from(spent).unwrap_or(u32::MAX).max(1);
    }

    /// Adds the open pull requests that were found through wanted issues: they are followed with them.
    fn add_followed(&self, wants: &mut HashMap<Key, Want>) {
        let mut followed = Vec::new();
        for (key, want) in &*wants {
            if let Some(entry) = self.cached(key) {
                followed.extend(entry.followed(want).map(|key| {
                    (
                        key,
                        Want {
                            comments: None,
                            found: crate::FoundAsk::Never,
                            ..want.clone()
                        },
                    )
                }));
            }
        }
        for (key, want) in followed {
            match wants.get_mut(&key) {
                Some(known) => known.merge(&want),
                None => {
                    wants.insert(key, want);
                }
            }
        }
    }
}

impl Pass<'_> {
    /// Reads the state of whatever is due. Returns why it stopped, if it did.
    async fn read_states(&mut self) -> Option<Why> {
        let (host, began) = (self.host, self.began);
        let spans = locked(&host.spans).clone();
        let mut counts: HashMap<&Repo, usize> = HashMap::new();
        let mut due = Vec::new();
        for (key, want) in &self.wants {
            *counts.entry(&key.repo).or_default() += 1;
            let entry = host.cached(key);
            let span = spans.get(&key.repo);
            if entry
                .as_ref()
                .is_some_and(|entry| !entry.is_due(span, want, began))
            {
                continue;
            }
            let listable = entry
                .filter(|entry| {
                    want.proof == Proof::Listed && span.is_some_and(|span| entry.is_covered(span))
                })
                .map(|entry| entry.read_at);
            if listable.is_some() {
                self.listed
                    .entry(key.repo.clone())
                    .or_default()
                    .push(key.clone());
            }
            due.push(Due {
                key: key.clone(),
                listable,
            });
        }
        if due.is_empty() {
            return None;
        }
        let worth_listing: Vec<Repo> = counts
            .into_iter()
            .filter(|(repo, count)| is_worth_listing(*count) && !spans.contains_key(*repo))
            .map(|(repo, _)| repo.clone())
            .collect();
        let chunk = locked(&host.pace).chunk.size();
        let mut queue = plan(due, &spans, chunk, host.skew(), began);
        if let Some(first) = locked(&host.next).take() {
            begin_with(&mut queue, &first);
        }
        while let Some(batch) = queue.pop_front() {
            if Instant::now() >= self.states_until {
                queue.push_front(batch);
                self.leave(&queue);
                return None;
            }
            if let Some(why) = self.run_batch(batch, &mut queue).await {
                return Some(why);
            }
        }
        // From here on the lists of these repositories tell what changes.
        for repo in worth_listing {
            let span = Span {
                base: began,
                checked_at: began,
            };
            host.keep_span(&repo, span);
        }
        None
    }

    /// Leaves what there is no time for to the next pass, which begins with it.
    fn leave(&mut self, queue: &VecDeque<Batch>) {
        *locked(&self.host.next) = queue.iter().find_map(|batch| batch.exact.first().cloned());
        for batch in queue {
            for key in self.keys_of(batch) {
                self.host.trouble(&key, Why::NotAsked);
            }
        }
    }

    /// Whether no request begins any more.
    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Sends one batch; what it leaves open goes back into the queue. Returns why to stop, if so.
    async fn run_batch(&mut self, mut batch: Batch, queue: &mut VecDeque<Batch>) -> Option<Why> {
        let host = self.host;
        fit(&mut batch, queue, locked(&host.pace).chunk.size());
        let size = batch.size();
        let parts = batch.parts();
        let query = Query::Items(parts.clone());
        let at = Timestamp::now();
        match host.query(&query, size).await {
            Ok(mut reply) => {
                locked(&host.pace)
                    .chunk
                    .went_well(batch.exact.len(), Timestamp::now());
                self.before = None;
                let told = reply::items(&mut reply, &parts);
                let (left, fall_back) = self.take_in(&parts, told, at);
                // Without a word about them: once more by themselves, unless nothing came at all.
                let nothing = left.len() >= batch.exact.len();
                for batch in in_chunks(left, SMALLEST as usize) {
                    if nothing || self.again >= AGAIN {
                        self.unreadable(&batch.exact, "a reply without a word about it");
                    } else {
                        self.again += 1;
                        queue.push_back(Batch {
                            alone: true,
                            ..batch
                        });
                    }
                }
                let chunk = locked(&host.pace).chunk.size();
                queue.extend(in_chunks(fall_back, chunk));
                None
            }
            Err(Miss::TooMuch {
                partial,
                how,
                named,
            }) => {
                {
                    let chunk = &mut locked(&host.pace).chunk;
                    if named {
                        self.before = None;
                    } else {
                        self.before.get_or_insert(*chunk);
                    }
                    chunk.was_too_large(size, Timestamp::now());
                }
                host.pace_changed();
                if let Some(mut reply) = partial {
                    let mut told = reply::items(&mut reply, &parts);
                    // Lists are asked for again, whole.
                    for told in &mut told {
                        told.changed = None;
                    }
                    (batch.exact, _) = self.take_in(&parts, told, at);
                }
                if !named {
                    self.guesses += 1;
                }
                if self.guesses > GUESSES {
                    self.size_was_not_to_blame();
                    return Some(host.failed(&how, &crate::Headers::default()));
                }
                if !named {
                    tokio::time::sleep(host.settings.retry_delay).await;
                }
                self.halve(&batch, &how, queue);
                None
            }
            Err(Miss::Forbidden) => {
                match batch.clone().split_repos() {
                    Some([first, second]) => {
                        queue.push_front(second);
                        queue.push_front(first);
                    }
                    None => {
                        for key in self.keys_of(&batch) {
                            host.keep_gone(&key, GoneHow::Forbidden, at);
                            self.read.insert(key);
                        }
                    }
                }
                None
            }
            Err(Miss::UnknownField(how)) => {
                let why = Why::Unreadable(how);
                for key in self.keys_of(&batch) {
                    host.trouble(&key, why.clone());
                    self.read.insert(key);
                }
                None
            }
            Err(Miss::Stop(why)) => {
                if has_failed(&why) {
                    self.size_was_not_to_blame();
                }
                Some(why)
            }
        }
    }

    /// The smaller requests failed as well: an outage says nothing about the right size.
    fn size_was_not_to_blame(&mut self) {
        if let Some(before) = self.before.take() {
            locked(&self.host.pace).chunk = before;
            self.host.pace_changed();
        }
    }

    fn halve(&mut self, batch: &Batch, how: &str, queue: &mut VecDeque<Batch>) {
        if let Some(halves) = batch.clone().split() {
            for half in halves.into_iter().rev() {
                // What is smaller than the smallest size would be filled up again, and never get any smaller.
                let alone = half.alone || half.size() < SMALLEST as usize;
                queue.push_front(Batch { alone, ..half });
            }
        } else {
            let keys = self.keys_of(batch);
            self.unreadable(&keys, how);
        }
    }

    /// The items that a batch is about, by number or by list.
    fn keys_of(&self, batch: &Batch) -> Vec<Key> {
        let mut keys = batch.exact.clone();
        for (repo, _) in &batch.lists {
            keys.extend(self.listed.get(repo).into_iter().flatten().cloned());
        }
        keys
    }

    fn unreadable(&mut self, keys: &[Key], how: &str) {
        for key in keys {
            self.host.trouble(key, Why::Unreadable(how.to_owned()));
            self.read.insert(key.clone());
        }
    }

    /// Takes in what a reply tells. Returns the items without a word about them, and those that a list was to cover and
    /// does not.
    fn take_in(
        &mut self,
        parts: &[RepoPart],
        told: Vec<RepoReply>,
        at: Timestamp,
    ) -> (Vec<Key>, Vec<Key>) {
        let host = self.host;
        let mut left = Vec::new();
        let mut fall_back = Vec::new();
        for (part, told) in parts.iter().zip(told) {
            let key = |number: u64| Key {
                repo: part.repo.clone(),
                number,
            };
            for number in &part.numbers {
                let key = key(*number);
                match told.numbered.get(number) {
                    None => {
                        left.push(key);
                        continue;
                    }
                    Some(Told::Is(item)) => host.keep_item(&key, item.clone(), at),
                    Some(Told::Missing) => self.missing.push(key.clone()),
                    Some(Told::RepoMissing) => host.keep_gone(&key, GoneHow::Invisible, at),
                    Some(Told::Forbidden) => host.keep_gone(&key, GoneHow::Forbidden, at),
                    Some(Told::Unreadable(how)) => {
                        host.trouble(&key, Why::Unreadable(how.clone()));
                    }
                }
                self.read.insert(key);
            }
            let Some(changed) = told.changed else {
                continue;
            };
            for item in changed.items {
                let key = key(item.number);
                let Some(entry) = host.cached(&key) else {
                    continue;
                };
                let Some(known) = entry.seen().filter(|_| !self.read.contains(&key)) else {
                    continue;
                };
                if item.updated_at > known.item.updated_at {
                    // When the item itself was read stays as it was: lists lag behind.
                    host.keep_item(&key, item, entry.read_at);
                } else if item.updated_at == known.item.updated_at && item.state != known.item.state
                {
                    // Two changes in one second. Only the item itself can say which came last.
                    fall_back.push(key);
                }
            }
            let listed = self.listed.get(&part.repo).cloned().unwrap_or_default();
            let base = locked(&host.spans).get(&part.repo).map(|span| span.base);
            match base {
                Some(base) if changed.complete => {
                    host.keep_span(
                        &part.repo,
                        Span {
                            base,
                            checked_at: at,
                        },
                    );
                    for key in &listed {
                        host.came_through(key);
                    }
                    self.read.extend(listed);
                }
                _ => {
                    let span = Span {
                        base: at,
                        checked_at: at,
                    };
                    host.keep_span(&part.repo, span);
                    fall_back.extend(listed.into_iter().filter(|key| !self.read.contains(key)));
                }
            }
        }
        fall_back.sort();
        fall_back.dedup();
        (left, fall_back)
    }
}

/// Whether requests fail, whatever their size. That GitHub asks to wait says nothing about the size.
const fn has_failed(why: &Why) -> bool {
    matches!(
        why,
        Why::Failed(_)
            | Why::Waiting {
                why: Trouble::Failing(_),
                ..
            }
    )
}
