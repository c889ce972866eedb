//! One host: its cache, its pace, and what its callers want.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cf_core::{Link, Repo};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use jiff::{SignedDuration, Timestamp};
use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use super::{HostStatus, Notices, Sent, Settings, locked};
use crate::answer::{
    Answer, CommentAsk, Comments, Gone, Known, LinkAsk, NoticeKind, Read, Why, unread_words,
};
use crate::entry::{CommentWant, Entry, Key, KeyRef, Want};
use crate::item::FoundPr;
use crate::pace::{Gate, Pace, Resource};
use crate::reply::CommentPage;
use crate::saved::{Seen, Span, What};
use crate::wire::Wire;

/// One host with one token.
pub(crate) struct Host {
    pub(super) wire: Wire,
    pub(super) settings: Settings,
    pub(super) notices: Arc<Notices>,
    pub(super) floor: DefaultDirectRateLimiter,
    /// When the last request ended.
    pub(super) ended: Mutex<Option<Instant>>,
    pub(super) pace: Mutex<Pace>,
    pub(super) sent: Mutex<Sent>,
    /// The server's clock less ours, as its last reply told it whose time can be believed.
    pub(super) skew: Mutex<SignedDuration>,
    /// What passes cost lately, in points.
    pub(super) cost: Mutex<u32>,
    pub(super) cache: Cache<Key, Arc<Entry>>,
    pub(super) spans: Mutex<HashMap<Repo, Span>>,
    /// Why something that was asked for is not known, and when that turned out.
    pub(super) troubles: Mutex<HashMap<Key, (Timestamp, Why)>>,
    /// Items of which it was said that comments cannot be read.
    unread_said: Mutex<HashSet<Key>>,
    /// When a look over REST told nothing about an item, or failed.
    pub(super) looked: Mutex<HashMap<Key, Timestamp>>,
    /// The item with which the next pass over states begins: the last one had no time for it.
    pub(super) next: Mutex<Option<Key>>,
    /// An item of whose comments the last pass had no time to read all, with those that it read.
    pub(super) unfinished: Mutex<Option<(Key, CommentPage)>>,
    /// What callers want and no pass has taken up yet.
    wanted: Mutex<HashMap<Key, Want>>,
    /// Held by whoever sends requests: one at a time for each host.
    pub(super) pass: tokio::sync::Mutex<()>,
    pub(super) changed: Mutex<Unsaved>,
    pub(super) fingerprint: u64,
}

/// What was learned and not handed out to be saved.
#[derive(Default)]
pub(super) struct Unsaved {
    pub(super) keys: HashSet<Key>,
    pub(super) spans: HashSet<Repo>,
    pub(super) pace: bool,
    /// Items that something stands in the way of, or no longer does.
    pub(super) troubles: HashSet<Key>,
}

impl Host {
    pub(super) fn new(wire: Wire, settings: Settings, notices: Arc<Notices>) -> Self {
        let floor = settings.floor.max(Duration::from_millis(1));
        let quota = Quota::with_period(floor).expect("the period is not zero");
        Self {
            fingerprint: wire.access().token.fingerprint(),
            wire,
            settings,
            notices,
            floor: RateLimiter::direct(quota),
            ended: Mutex::default(),
            pace: Mutex::default(),
            sent: Mutex::default(),
            skew: Mutex::new(SignedDuration::ZERO),
            cost: Mutex::new(1),
            cache: Cache::builder()
                .max_capacity(settings.cache_bytes)
                .weigher(|_, entry: &Arc<Entry>| weight(entry))
                .eviction_policy(EvictionPolicy::lru())
                .build(),
            spans: Mutex::default(),
            troubles: Mutex::default(),
            unread_said: Mutex::default(),
            looked: Mutex::default(),
            next: Mutex::default(),
            unfinished: Mutex::default(),
            wanted: Mutex::default(),
            pass: tokio::sync::Mutex::default(),
            changed: Mutex::default(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.wire.access().host
    }

    /// The host as links name it.
    pub(crate) fn access_host(&self) -> &str {
        self.name()
    }

    /// Answers questions that are all about this host.
    pub(super) async fn look(&self, asks: &[&LinkAsk]) -> Vec<Answer> {
        let asked_at = Timestamp::now();
        let keyed: Vec<(Key, Want)> = asks
            .iter()
            .map(|ask| (key_of(&ask.link), Want::of(ask, asked_at)))
            .collect();
        let due = self.due_among(&keyed, asked_at);
        if !due.is_empty() {
            match self.gate(Resource::Graphql).why() {
                Some(why) => {
                    for (key, _) in due {
                        self.trouble(&key, why.clone());
                    }
                }
                None => self.gather(due, asked_at).await,
            }
        }
        asks.iter()
            .zip(&keyed)
            .map(|(ask, (_, want))| self.answer_wanted(ask, want, asked_at))
            .collect()
    }

    fn due_among(&self, keyed: &[(Key, Want)], asked_at: Timestamp) -> Vec<(Key, Want)> {
        let spans = locked(&self.spans);
        keyed
            .iter()
            .filter(|(key, want)| self.is_due(key, want, &spans, asked_at))
            .cloned()
            .collect()
    }

    /// Puts wants beside those of others; whoever gets to send next takes them all up.
    async fn gather(&self, wants: Vec<(Key, Want)>, asked_at: Timestamp) {
        let add = |wanted: &mut HashMap<Key, Want>, wants: &[(Key, Want)]| {
            for (key, want) in wants {
                match wanted.get_mut(key) {
                    Some(known) => known.merge(want),
                    None => {
                        wanted.insert(key.clone(), want.clone());
                    }
                }
            }
        };
        add(&mut locked(&self.wanted), &wants);
        let _sending = self.pass.lock().await;
        let mut wanted = std::mem::take(&mut *locked(&self.wanted));
        // Whoever took ours up may have been dropped in the middle. What has met with trouble since was asked.
        let mut left = self.due_among(&wants, asked_at);
        left.retain(|(key, _)| {
            locked(&self.troubles)
                .get(key)
                .is_none_or(|(at, _)| *at < asked_at)
        });
        add(&mut wanted, &left);
        if !wanted.is_empty() {
            self.run_pass(wanted).await;
        }
    }

    /// Whether anything about the item has to be asked for.
    fn is_due(&self, key: &Key, want: &Want, spans: &HashMap<Repo, Span>, now: Timestamp) -> bool {
        let Some(entry) = self.cache.get(key) else {
            return true;
        };
        entry.is_due(spans.get(&key.repo), want, now)
            || entry.comments_due(want)
            || entry.found_due(want)
            || entry.followed(want).any(|key| match self.cache.get(&key) {
                Some(found) => found.is_due(spans.get(&key.repo), want, now),
                None => true,
            })
    }

    /// The answer that the cache has now to a question that was asked at `asked_at`.
    pub(super) fn answer<L: Borrow<Link>>(&self, ask: &LinkAsk<L>, asked_at: Timestamp) -> Answer {
        self.answer_wanted(ask, &Want::of(ask, asked_at), asked_at)
    }

    fn answer_wanted<L: Borrow<Link>>(
        &self,
        ask: &LinkAsk<L>,
        want: &Want,
        asked_at: Timestamp,
    ) -> Answer {
        let link = ask.link.borrow();
        let key = KeyRef {
            repo: &link.repo,
            number: link.number,
        };
        let trouble = || {
            let troubles = locked(&self.troubles);
            // Mostly there are none, and a key is a copy of the name.
            if troubles.is_empty() {
                return None;
            }
            troubles.get(&key_of(link)).map(|(_, why)| why.clone())
        };
        let why = || {
            trouble()
                .or_else(|| self.gate(Resource::Graphql).why())
                .unwrap_or(Why::NotAsked)
        };
        let Some(entry) = self.cache.get(&key) else {
            return Answer::Unknown {
                why: why(),
                last: None,
            };
        };
        let span = locked(&self.spans).get(key.repo).copied();
        let due = entry.is_due(span.as_ref(), want, asked_at);
        match &entry.what {
            What::Is(seen) => {
                let known = Known {
                    item: Arc::clone(&seen.item),
                    read_at: entry.read_at,
                    checked_at: entry.checked_at(span.as_ref()),
                    comments: comments(&entry, ask.comments, want, why),
                    found: self.found(seen),
                };
                if due {
                    Answer::Unknown {
                        why: why(),
                        last: Some(known),
                    }
                } else {
                    Answer::Known(known)
                }
            }
            _ if due => Answer::Unknown {
                why: why(),
                last: None,
            },
            What::Gone { how, looks } => Answer::Gone(Gone {
                how: *how,
                at: entry.read_at,
                looks: *looks,
            }),
            What::Moved { to } => Answer::Moved {
                to: to.clone(),
                at: entry.read_at,
            },
        }
    }

    /// The pull requests that close an issue, each as it was read last.
    fn found(&self, seen: &Seen) -> Vec<FoundPr> {
        seen.found
            .iter()
            .map(|pr| {
                let entry = self.cache.get(&Key {
                    repo: pr.repo.clone(),
                    number: pr.number,
                });
                let state = entry
                    .as_deref()
                    .and_then(Entry::seen)
                    .map_or(pr.state, |seen| seen.item.state);
                FoundPr {
                    state,
                    ..pr.clone()
                }
            })
            .collect()
    }

    pub(super) fn gate(&self, resource: Resource) -> Gate {
        locked(&self.pace).gate(resource, &self.settings.patience, Timestamp::now())
    }

    pub(super) fn waits_until(&self, now: Timestamp) -> Option<Timestamp> {
        match locked(&self.pace).gate(Resource::Graphql, &self.settings.patience, now) {
            Gate::Wait { until, .. } => Some(until),
            Gate::Go => None,
            Gate::Off => Some(Timestamp::MAX),
        }
    }

    pub(super) fn interval(&self, configured: Duration) -> Duration {
        let cost = *locked(&self.cost);
        locked(&self.pace).interval(configured, cost, &self.settings.patience, Timestamp::now())
    }

    pub(super) fn status(&self) -> HostStatus {
        self.cache.run_pending_tasks();
        HostStatus {
            host: self.name().to_owned(),
            source: self.wire.access().source,
            pace: locked(&self.pace).clone(),
            cached: self.cache.entry_count(),
            sent: *locked(&self.sent),
        }
    }

    pub(super) fn cached(&self, key: &Key) -> Option<Arc<Entry>> {
        self.cache.get(key)
    }

    /// Keeps what was read about an item, and forgets what stood in the way.
    pub(super) fn keep(&self, key: &Key, entry: Entry) {
        let was = locked(&self.troubles).remove(key);
        if was.is_some_and(|(_, why)| why.is_to_be_saved()) {
            locked(&self.changed).troubles.insert(key.clone());
        }
        self.cache.insert(key.clone(), Arc::new(entry));
        locked(&self.changed).keys.insert(key.clone());
    }

    /// Keeps what was read beside the state of an item. What this pass, which began then, has met with is about its
    /// state, and not over by that.
    pub(super) fn keep_details(&self, key: &Key, began: Timestamp, entry: Entry) {
        let met = locked(&self.troubles)
            .get(key)
            .is_some_and(|(at, _)| *at >= began);
        if met {
            self.cache.insert(key.clone(), Arc::new(entry));
            locked(&self.changed).keys.insert(key.clone());
        } else {
            self.keep(key, entry);
        }
    }

    pub(super) fn trouble(&self, key: &Key, why: Why) {
        let why = self.in_words(why);
        let new = why.clone();
        let before = locked(&self.troubles).insert(key.clone(), (Timestamp::now(), why));
        let before = before.map(|(_, why)| why);
        // What stands in the way for long is not saved again with every pass.
        let is_new = !before.as_ref().is_some_and(|before| before.is_like(&new));
        if is_new && (new.is_to_be_saved() || before.is_some_and(|why| why.is_to_be_saved())) {
            locked(&self.changed).troubles.insert(key.clone());
        }
    }

    /// Notes how many comments of an item could not be read, and says it once.
    pub(super) fn note_unread(&self, key: &Key, unread: u32) {
        if unread == 0 {
            locked(&self.unread_said).remove(key);
            return;
        }
        let what = NoticeKind::Unread {
            repo: key.repo.clone(),
            number: key.number,
            comments: unread,
        };
        self.trouble(key, Why::Unreadable(unread_words(unread)));
        if locked(&self.unread_said).insert(key.clone()) {
            self.notices.push(self.name(), Some(what));
        }
    }

    /// Comments that could not be read, and were not asked for again because of that, still cannot be.
    pub(super) fn unread_still(&self, wants: &HashMap<Key, Want>) {
        let said: Vec<Key> = locked(&self.unread_said).iter().cloned().collect();
        for key in said.iter().filter(|key| wants.contains_key(key)) {
            let talk = self.cached(key).and_then(|entry| entry.talk.clone());
            self.note_unread(key, talk.map_or(0, |talk| talk.unread));
        }
    }

    /// A list tells that the item stands as it did: its host is no longer in the way.
    pub(super) fn came_through(&self, key: &Key) {
        let mut troubles = locked(&self.troubles);
        if matches!(troubles.get(key), Some((_, Why::Waiting { .. }))) {
            troubles.remove(key);
            locked(&self.changed).troubles.insert(key.clone());
        }
    }

    /// Nobody waits for an answer about the item any longer.
    pub(super) fn unanswered(&self, key: &Key, waited: Duration) {
        let how = format!("GitHub did not answer within {} s", waited.as_secs());
        self.trouble(key, Why::Failed(how));
    }

    /// What stood in the way the last time still does.
    pub(super) fn still(&self, key: &Key) {
        if let Some((at, _)) = locked(&self.troubles).get_mut(key) {
            *at = Timestamp::now();
        }
    }

    /// The same reason without secrets, in a few words: parts of it may be GitHub's.
    pub(crate) fn in_words(&self, why: Why) -> Why {
        let short = |text: &str| self.wire.access().token.in_words(text);
        match why {
            Why::Failed(how) => Why::Failed(short(&how)),
            Why::Unreadable(how) => Why::Unreadable(short(&how)),
            Why::NotAsked | Why::Host(_) | Why::TokenRejected | Why::Waiting { .. } => why,
        }
    }

    pub(super) fn keep_span(&self, repo: &Repo, span: Span) {
        locked(&self.spans).insert(repo.clone(), span);
        locked(&self.changed).spans.insert(repo.clone());
    }

    pub(super) fn pace_changed(&self) {
        locked(&self.changed).pace = true;
    }
}

fn comments(
    entry: &Entry,
    asked: Option<CommentAsk>,
    want: &Want,
    why: impl Fn() -> Why,
) -> Comments {
    let (Some(asked), Some(seen)) = (asked, entry.seen()) else {
        return Comments::NotAsked;
    };
    if asked
        .seen
        .is_some_and(|seen_at| seen.item.updated_at <= seen_at)
    {
        return Comments::Unchanged;
    }
    let one = CommentWant::of(asked);
    if let Some(talk) = entry.talk_for(&one, want.fresh_after) {
        let from = match asked.since {
            Some(since) => talk
                .list
                .partition_point(|comment| comment.created_at < since),
            None => talk.list.len().saturating_sub(one.last as usize),
        };
        return Comments::Read(Read {
            list: talk.list[from..].into(),
            up_to: talk.up_to(),
            more: talk.more && from == 0,
            unread: talk.unread,
        });
    }
    Comments::Unknown(why())
}

/// About how many bytes an answer takes.
fn weight(entry: &Entry) -> u32 {
    let item = entry.seen().map_or(0, |seen| {
        seen.item.title.len() + seen.found.len() * 96 + 256
    });
    let talk = entry.talk.as_ref().map_or(0, |talk| {
        talk.list
            .iter()
            .map(|comment| comment.body.len() + 192)
            .sum()
    });
    u32::try_from(256 + item + talk).unwrap_or(u32::MAX)
}

pub(super) fn key_of(link: &Link) -> Key {
    Key {
        repo: link.repo.clone(),
        number: link.number,
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Host").field(&self.name()).finish()
    }
}
