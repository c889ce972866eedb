//! The narrow second request: new comments where an item moved, and pull requests that close an issue.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::{Pass, Why};
use crate::client::Miss;
use crate::entry::{CommentWant, Entry, Key, Talk};
use crate::item::Comment;
use crate::reply::{self, CommentPage};
use crate::request::{DETAILED, Details, FIRST_COMMENTS, Query};
use crate::saved::{Seen, What};

/// How many older comments are read at a time, and how often: about a thousand, then the oldest are left out.
const OLDER: u32 = 50;
const OLDER_PAGES: usize = 20;
/// How many such pages are read in one pass, for all items together; the others follow in later ones.
const OLDER_IN_A_PASS: usize = 100;

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
        details.sort_by(|a, b| a.key.cmp(&b.key));
        let mut size = DETAILED;
        let mut guesses = 0;
        while !details.is_empty() {
            let last = details
                .iter()
                .take(size)
                .filter_map(|detail| detail.comments)
                .map(|want| want.last)
                .max()
                .unwrap_or(0)
                .max(FIRST_COMMENTS);
            let some = &details[..size.min(details.len())];
            let of = |wanted: fn(&Detail) -> bool| -> Vec<String> {
                some.iter()
                    .filter(|detail| wanted(detail))
                    .map(|detail| detail.id.clone())
                    .collect()
            };
            let query = Query::Details(Details {
                comments: of(|detail| detail.comments.is_some()),
                last,
                found: of(|detail| detail.found),
            });
            let at = Timestamp::now();
            // Each item brings a list, so even ten may be too much.
            match self.host.query(&query, some.len() * 10).await {
                Ok(mut reply) => {
                    let mut read = reply::details(&mut reply);
                    let some: Vec<Detail> = details.drain(..size.min(details.len())).collect();
                    for detail in some {
                        if detail.found
                            && let Some((updated_at, found)) = read.found.remove(&detail.id)
                        {
                            self.keep_found(&detail.key, updated_at, found);
                        }
                        let Some(want) = detail.comments else {
                            continue;
                        };
                        match read.comments.remove(&detail.id) {
                            Some(page) => {
                                let read = self.read_older(&detail.id, want, page).await;
                                match read {
                                    Ok(Some(all)) => self.keep_talk(&detail.key, all, want, at),
                                    Ok(None) => self.host.trouble(&detail.key, Why::NotAsked),
                                    Err(why @ Why::Unreadable(_)) => {
                                        self.host.trouble(&detail.key, why);
                                    }
                                    Err(why) => return Some(self.unread(&details, why)),
                                }
                            }
                            None => self.host.trouble(
                                &detail.key,
                                Why::Unreadable("a reply without its comments".to_owned()),
                            ),
                        }
                    }
                }
                Err(Miss::TooMuch { named, .. }) if size > 1 && (named || guesses < 2) => {
                    guesses += u32::from(!named);
                    size = (size.min(details.len()) / 2).max(1);
                }
                Err(Miss::TooMuch { how, .. }) => {
                    let why = self.host.failed(&how, &crate::Headers::default());
                    return Some(self.unread(&details, why));
                }
                Err(Miss::Forbidden) => {
                    let why = Why::Failed("comments may not be read with this token".to_owned());
                    self.unread(&details, why);
                    return None;
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

    /// Reads on from a page towards older comments until the want is met, or there were too many. Nothing when this
    /// pass has read enough.
    async fn read_older(
        &mut self,
        id: &str,
        want: CommentWant,
        mut page: CommentPage,
    ) -> Result<Option<CommentPage>, Why> {
        let mut last = OLDER;
        let mut known: HashSet<String> =
            page.list.iter().map(|comment| comment.id.clone()).collect();
        for _ in 0..OLDER_PAGES {
            if want.is_met_by(&page.list, page.before.is_some()) {
                break;
            }
            let Some(before) = page.before.clone() else {
                break;
            };
            if self.older >= OLDER_IN_A_PASS {
                return Ok(None);
            }
            self.older += 1;
            let query = Query::OlderComments {
                id: id.to_owned(),
                before,
                last,
            };
            match self.host.query(&query, last as usize).await {
                Ok(mut reply) => {
                    let older = reply::node(&mut reply)
                        .ok_or_else(|| Why::Unreadable("a reply without comments".to_owned()))?;
                    let mut list = older.list;
                    list.retain(|comment| known.insert(comment.id.clone()));
                    // Comments may be written or deleted meanwhile; a page of nothing but known ones leads nowhere.
                    if older.before.is_some() && (list.is_empty() || older.before == page.before) {
                        return Err(Why::Unreadable("pages of comments without end".to_owned()));
                    }
                    list.append(&mut page.list);
                    page.list = list;
                    page.before = older.before;
                }
                Err(Miss::TooMuch { .. }) if last > 1 => last = (last / 2).max(1),
                Err(Miss::Stop(why)) => return Err(why),
                Err(miss) => {
                    return Err(Why::Failed(format!(
                        "older comments cannot be read: {miss:?}"
                    )));
                }
            }
        }
        Ok(Some(page))
    }

    fn keep_talk(&self, key: &Key, page: CommentPage, want: CommentWant, at: Timestamp) {
        let Some(entry) = self.host.cached(key) else {
            return;
        };
        let server_now = at.checked_add(self.host.skew()).unwrap_or(at);
        let more = page.before.is_some();
        let list: Vec<Comment> = page.list;
        let talk = Talk {
            cut: !want.is_met_by(&list, more),
            settled: Talk::settles(page.updated_at, server_now),
            updated_at: page.updated_at,
            read_at: at,
            list: list.into(),
            more,
        };
        self.host.keep(
            key,
            Entry {
                read_at: entry.read_at,
                what: entry.what.clone(),
                talk: Some(Arc::new(talk)),
            },
        );
    }

    fn keep_found(&self, key: &Key, updated_at: Timestamp, found: Vec<crate::FoundPr>) {
        let Some(entry) = self.host.cached(key) else {
            return;
        };
        let Some(seen) = entry.seen() else {
            return;
        };
        let seen = Seen {
            found_at: Some(updated_at),
            moved: false,
            found,
            ..seen.clone()
        };
        self.host.keep(
            key,
            Entry {
                read_at: entry.read_at,
                what: What::Is(Box::new(seen)),
                talk: entry.talk.clone(),
            },
        );
    }
}
