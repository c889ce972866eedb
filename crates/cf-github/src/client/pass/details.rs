//! The narrow second request: new comments where an item moved, and pull requests that close an issue.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::{Pass, Why};
use crate::client::{Miss, locked};
use crate::entry::{CommentWant, Entry, Holes, Key, Talk};
use crate::item::Comment;
use crate::reply::{self, CommentPage, DetailsReply};
use crate::request::{DETAILED, Details, FIRST_COMMENTS, Query};
use crate::saved::{Seen, What};

/// How many older comments are read at a time, and how often: about a thousand, then the oldest are left out.
const OLDER: u32 = 50;
const OLDER_PAGES: usize = 20;
/// How many such pages are read in one pass, for all items together; the others follow in later ones.
const OLDER_IN_A_PASS: usize = 100;

/// How often a request that came to nothing without a named reason is taken for too large, in one pass.
const GUESSES: u32 = 2;

/// One item whose details are wanted.
struct Detail {
    key: Key,
    id: String,
    comments: Option<CommentWant>,
    found: bool,
}

impl Pass<'_> {
    /// Reads what is wanted beyond states. Returns why it stopped, if it did.
    pub(super) async fn read_details(&mut self) -> Option<Why> {
        let mut details = self.wanted_details();
        // Whose comments were begun is read to the end first, so that each pass gets further.
        let begun = locked(&self.host.unfinished)
            .as_ref()
            .map(|(key, _)| key.clone());
        details.sort_by(|a, b| {
            let rank = |detail: &Detail| begun.as_ref() != Some(&detail.key);
            rank(a).cmp(&rank(b)).then_with(|| a.key.cmp(&b.key))
        });
        let mut size = DETAILED;
        let mut guesses = 0;
        // Whether only items of one repository are asked about together: one of them may not be read.
        let mut apart = false;
        while let Some(first) = details.first() {
            if self.is_over() {
                self.unread(&details, Why::NotAsked);
                return None;
            }
            let taken = details
                .iter()
                .take(size)
                .take_while(|detail| !apart || detail.key.repo == first.key.repo)
                .count();
            let some = &details[..taken];
            let at = Timestamp::now();
            // Each item brings a list, so even ten may be too much.
            match self.host.query(&query_for(some), taken * 10).await {
                Ok(mut reply) => {
                    let mut read = reply::details(&mut reply);
                    let some: Vec<Detail> = details.drain(..taken).collect();
                    for (n, detail) in some.iter().enumerate() {
                        if let Err(why) = self.take_in_detail(detail, &mut read, at).await {
                            self.unread(&some[n..], why.clone());
                            return Some(self.unread(&details, why));
                        }
                    }
                }
                Err(Miss::TooMuch { named, .. }) if taken > 1 && (named || guesses < GUESSES) => {
                    guesses += u32::from(!named);
                    size = (taken / 2).max(1);
                }
                // One item alone is too much: that says nothing about the others.
                Err(Miss::TooMuch {
                    how, named: true, ..
                }) => {
                    self.unread(&details[..taken], Why::Failed(how));
                    details.drain(..taken);
                    size = DETAILED;
                }
                Err(Miss::TooMuch { how, .. }) => {
                    let why = self.host.failed(&how, &crate::Headers::default());
                    return Some(self.unread(&details, why));
                }
                Err(Miss::Forbidden) if !apart => apart = true,
                Err(Miss::Forbidden) => {
                    let why = Why::Failed("comments may not be read with this token".to_owned());
                    let repo = first.key.repo.clone();
                    let (forbidden, rest) = details
                        .into_iter()
                        .partition(|detail| detail.key.repo == repo);
                    details = rest;
                    self.unread(&forbidden, why);
                }
                // An older server may know comments and not the pull requests that close an issue.
                Err(Miss::UnknownField(_)) if some.iter().any(|detail| detail.found) => {
                    for detail in &mut details {
                        detail.found = false;
                    }
                    details.retain(|detail| detail.comments.is_some());
                }
                Err(Miss::UnknownField(how)) => {
                    self.unread(&details, Why::Unreadable(how));
                    return None;
                }
                Err(Miss::Stop(why)) => return Some(self.unread(&details, why)),
            }
        }
        None
    }

    /// Keeps what a reply says about one item, older comments included.
    ///
    /// # Errors
    ///
    /// Nothing more may be sent now.
    async fn take_in_detail(
        &mut self,
        detail: &Detail,
        read: &mut DetailsReply,
        at: Timestamp,
    ) -> Result<(), Why> {
        if detail.found {
            self.keep_found(&detail.key, read.found.remove(&detail.id), at);
        }
        let Some(want) = detail.comments else {
            return Ok(());
        };
        let page = read.comments.remove(&detail.id);
        let older = match page {
            Some(page) => self.read_older(detail, want, page).await?,
            None => Err(Why::Unreadable("a reply without its comments".to_owned())),
        };
        match older {
            Ok(all) => self.keep_talk(&detail.key, all, want, at),
            Err(why) => self.host.trouble(&detail.key, why),
        }
        Ok(())
    }

    fn wanted_details(&self) -> Vec<Detail> {
        self.wants
            .iter()
            .filter_map(|(key, want)| {
                let entry = self.host.cached(key)?;
                let seen = entry.seen()?;
                let comments = want.comments.filter(|_| entry.comments_due(want));
                let found = entry.found_due(want);
                (comments.is_some() || found).then(|| Detail {
                    key: key.clone(),
                    id: seen.item.node_id.clone(),
                    comments,
                    found,
                })
            })
            .collect()
    }

    fn unread(&self, details: &[Detail], why: Why) -> Why {
        let why = self.host.in_words(why);
        for detail in details {
            self.host.trouble(&detail.key, why.clone());
        }
        why
    }

    /// Reads on from a page towards older comments until the want is met, or there were too many. What keeps this
    /// item's alone from being read is within; a pass that has read enough is one such reason, and the next one goes on
    /// there.
    ///
    /// # Errors
    ///
    /// Nothing more may be sent now.
    async fn read_older(
        &mut self,
        detail: &Detail,
        want: CommentWant,
        mut page: CommentPage,
    ) -> Result<Result<CommentPage, Why>, Why> {
        let unreadable = |how: &str| Ok(Err(Why::Unreadable(how.to_owned())));
        let begun = locked(&self.host.unfinished).take_if(|(key, _)| *key == detail.key);
        if let Some((_, begun)) = begun {
            go_on_from(begun, &mut page);
        }
        let mut last = OLDER;
        let mut known: HashSet<String> =
            page.list.iter().map(|comment| comment.id.clone()).collect();
        for _ in 0..OLDER_PAGES {
            if want.is_met_by(&page.list, page.before.is_some())
                || page.list.len() > OLDER as usize * OLDER_PAGES
            {
                break;
            }
            let Some(before) = page.before.clone() else {
                break;
            };
            if self.older >= OLDER_IN_A_PASS || self.is_over() {
                self.keep_unfinished(&detail.key, page);
                return Ok(Err(Why::NotAsked));
            }
            self.older += 1;
            let query = Query::OlderComments {
                id: detail.id.clone(),
                before,
                last,
            };
            match self.host.query(&query, last as usize).await {
                Ok(mut reply) => {
                    let Some(older) = reply::node(&mut reply) else {
                        return unreadable("a reply without comments");
                    };
                    let mut list = older.list;
                    list.retain(|comment| known.insert(comment.id.clone()));
                    // Comments may be written or deleted meanwhile; a page of nothing but known ones leads nowhere.
                    let nothing = list.is_empty() && older.unread == 0;
                    if older.before.is_some() && (nothing || older.before == page.before) {
                        return unreadable("pages of comments without end");
                    }
                    list.append(&mut page.list);
                    page.list = list;
                    page.unread += older.unread;
                    page.before = older.before;
                }
                Err(Miss::TooMuch { .. }) if last > 1 => last = (last / 2).max(1),
                Err(Miss::TooMuch { how, .. }) => return Ok(Err(Why::Failed(how))),
                Err(Miss::Forbidden) => {
                    let how = "older comments may not be read with this token";
                    return Ok(Err(Why::Failed(how.to_owned())));
                }
                Err(Miss::UnknownField(how)) => return unreadable(&how),
                Err(Miss::Stop(why)) => return Err(why),
            }
        }
        Ok(Ok(page))
    }

    /// Keeps what was read of an item's comments for the next pass, unless another is being read to its end: whoever
    /// was first stays first. With each taking the other's place, none would ever be read.
    fn keep_unfinished(&self, key: &Key, page: CommentPage) {
        let mut kept = locked(&self.host.unfinished);
        let is_held = kept.as_ref().is_some_and(|(first, _)| self.is_due(first));
        if !is_held {
            *kept = Some((key.clone(), page));
        }
    }

    /// Whether the comments of an item are still to be read.
    fn is_due(&self, key: &Key) -> bool {
        let want = self.wants.get(key);
        want.zip(self.host.cached(key))
            .is_some_and(|(want, entry)| {
                want.comments.is_some() && entry.seen().is_some() && entry.comments_due(want)
            })
    }

    fn keep_talk(&self, key: &Key, page: CommentPage, want: CommentWant, at: Timestamp) {
        let Some(entry) = self.host.cached(key) else {
            return;
        };
        let server_now = at.checked_add(self.host.skew()).unwrap_or(at);
        let more = page.before.is_some();
        let list: Vec<Comment> = page.list;
        let before = entry
            .talk
            .as_ref()
            .filter(|talk| talk.updated_at == page.updated_at);
        let before = before.and_then(|talk| talk.holes);
        let talk = Talk {
            unread: page.unread,
            holes: (page.unread > 0).then(|| Holes::after(before, at)),
            cut: !want.is_met_by(&list, more),
            settled: Talk::settles(page.updated_at, server_now),
            updated_at: page.updated_at,
            read_at: at,
            list: list.into(),
            more,
        };
        self.host.keep_details(
            key,
            self.began,
            Entry {
                read_at: entry.read_at,
                what: entry.what.clone(),
                talk: Some(Arc::new(talk)),
                holes: entry.holes,
            },
        );
        self.host.note_unread(key, page.unread);
    }

    /// Keeps the pull requests that close an issue, with its `updated_at` at that time; nothing when the reply had no
    /// whole list of them.
    fn keep_found(&self, key: &Key, told: Option<(Timestamp, Vec<crate::FoundPr>)>, at: Timestamp) {
        let Some(entry) = self.host.cached(key) else {
            return;
        };
        let Some(seen) = entry.seen() else {
            return;
        };
        // A machine that lags behind does not know yet what the item moved for.
        let told = told.filter(|(updated_at, _)| *updated_at >= seen.item.updated_at);
        let Some((updated_at, found)) = told else {
            let entry = Entry {
                holes: Some(Holes::after(entry.holes, at)),
                ..(*entry).clone()
            };
            self.host.cache.insert(key.clone(), Arc::new(entry));
            return;
        };
        let seen = Seen {
            found_at: Some(updated_at),
            moved: false,
            found,
            ..seen.clone()
        };
        self.host.keep_details(
            key,
            self.began,
            Entry {
                read_at: entry.read_at,
                what: What::Is(Box::new(seen)),
                talk: entry.talk.clone(),
                holes: None,
            },
        );
    }
}

/// Adds what an earlier pass read of an item's comments to its newest ones, if there is no gap between them.
fn go_on_from(begun: CommentPage, newest: &mut CommentPage) {
    let ids: HashSet<&str> = newest.list.iter().map(|one| one.id.as_str()).collect();
    let Some(first) = newest.list.first() else {
        return;
    };
    if !begun.list.iter().any(|one| ids.contains(one.id.as_str())) {
        return;
    }
    // The newer words are right about what is in both.
    let mut list: Vec<Comment> = begun
        .list
        .iter()
        .filter(|one| one.created_at <= first.created_at && !ids.contains(one.id.as_str()))
        .cloned()
        .collect();
    list.append(&mut newest.list);
    newest.list = list;
    newest.before = begun.before;
}

/// The request for the details of some items.
fn query_for(some: &[Detail]) -> Query {
    let last = some
        .iter()
        .filter_map(|detail| detail.comments)
        .map(|want| want.last)
        .fold(FIRST_COMMENTS, u32::max);
    let of = |wanted: fn(&Detail) -> bool| -> Vec<String> {
        some.iter()
            .filter(|detail| wanted(detail))
            .map(|detail| detail.id.clone())
            .collect()
    };
    Query::Details(Details {
        comments: of(|detail| detail.comments.is_some()),
        last,
        found: of(|detail| detail.found),
    })
}
