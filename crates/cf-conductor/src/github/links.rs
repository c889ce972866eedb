//! What is known about a task's links, for people: read from the store, and nobody is asked.

use cf_core::{Link, LinkKind, TaskId, Timestamp};
use cf_github::pace::{Gate, Resource};
use cf_github::{ItemState, Patience, Saved, Snapshot, What, Why};

use super::GithubSource;
use super::cache::cached_about;
use crate::source::github::closing::reason_word;
use crate::source::github::observe;
use crate::store::{Reader, Result};

/// A link, and what is known about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkView {
    /// The link.
    pub link: Link,
    /// What it was when it was read last; nothing when it never was.
    pub last: Option<LastSeen>,
    /// What stands in the way of newer words, if anything does; never a secret.
    pub why: Option<String>,
}

/// What a link was when it was read last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastSeen {
    /// What was seen.
    pub state: SeenState,
    /// When that was last known to be so.
    pub as_of: Timestamp,
}

/// What was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeenState {
    /// An issue or pull request.
    Is {
        /// Which of them, by GitHub's word.
        kind: LinkKind,
        /// `open`, `draft`, `closed` or `merged`.
        state: &'static str,
        /// Why it was closed, in GitHub's word.
        reason: Option<&'static str>,
        /// Since when it is closed or merged; of what is open, when it changed last.
        since: Timestamp,
    },
    /// Nothing, or nothing for the token.
    Gone {
        /// How, in words.
        how: String,
        /// How many looks in a row have found it gone.
        looks: u32,
    },
    /// That it lives elsewhere.
    Moved {
        /// Where.
        to: Link,
    },
}

/// What is known about the links of a task, oldest first. `source` is nothing where GitHub is not followed, with the
/// reason in words.
///
/// # Errors
///
/// The store cannot be read.
pub fn links_of(
    source: std::result::Result<&GithubSource, &str>,
    reader: &Reader<'_>,
    task: TaskId,
) -> Result<Vec<LinkView>> {
    let links = reader.links(task)?.into_iter();
    links
        .map(|link| {
            let saved = cached_about(reader, &link)?;
            let newest = saved.snapshots.iter().max_by_key(|one| one.read_at);
            let why = match source {
                Ok(source) => source
                    .check(&link.host)
                    .err()
                    .or_else(|| trouble(newest, &saved, &source.0.patience))
                    .or_else(|| newest.and_then(|newest| odd_kind(&link, newest))),
                Err(why) => Some(why.to_owned()),
            };
            Ok(LinkView {
                last: newest.map(|newest| last_seen(newest, &saved)),
                why,
                link,
            })
        })
        .collect()
}

fn last_seen(newest: &Snapshot, saved: &Saved) -> LastSeen {
    let state = match &newest.what {
        What::Is(seen) => {
            let (state, reason) = match &seen.item.state {
                ItemState::Open if seen.item.draft => ("draft", None),
                ItemState::Open => ("open", None),
                ItemState::Closed { reason, .. } => ("closed", reason_word(*reason)),
                ItemState::ClosedUnmerged { .. } => ("closed", None),
                ItemState::Merged { .. } => ("merged", None),
            };
            SeenState::Is {
                kind: seen.item.kind,
                state,
                reason,
                since: seen.item.state.ended_at().unwrap_or(seen.item.updated_at),
            }
        }
        What::Gone { how, looks } => SeenState::Gone {
            how: how.to_string(),
            looks: *looks,
        },
        What::Moved { to } => SeenState::Moved { to: to.clone() },
    };
    // A list of changes that does not name it says that it still stands so.
    let listed = saved
        .marks
        .iter()
        .filter(|mark| mark.token == newest.token && newest.read_at >= mark.span.base)
        .filter(|_| matches!(newest.what, What::Is(_)))
        .map(|mark| mark.span.checked_at);
    LastSeen {
        state,
        as_of: listed.fold(newest.read_at, Timestamp::max),
    }
}

/// What stands in the way: of the item, or of everything on its host.
fn trouble(newest: Option<&Snapshot>, saved: &Saved, patience: &Patience) -> Option<String> {
    let own = saved.troubles.iter().max_by_key(|trouble| trouble.at);
    let own = own.filter(|own| newest.is_none_or(|newest| own.at >= newest.read_at));
    let own = own.and_then(|own| own.why.as_ref());
    let waited_for = match own {
        Some(Why::Waiting { why, .. }) => Some(why),
        Some(why) => return Some(why.to_string()),
        None => None,
    };
    let token = newest.map(|newest| newest.token);
    let waits = saved
        .hosts
        .iter()
        .filter(|host| token.is_none_or(|token| token == host.token))
        .find_map(|host| {
            let now = Timestamp::now();
            match host.pace.gate(Resource::Graphql, patience, now) {
                Gate::Wait { until, why } => Some(Why::Waiting { until, why }.to_string()),
                Gate::Go | Gate::Off => None,
            }
        });
    // How long the host is left alone now is its own word. When that is over, what the last look met is still all that
    // is known.
    waits.or_else(|| waited_for.map(|why| format!("the last look did not get through: {why}")))
}

/// Says that a link is about something else than it was made for, where that keeps it from deciding anything.
fn odd_kind(link: &Link, newest: &Snapshot) -> Option<String> {
    match &newest.what {
        What::Is(seen) if observe::is_odd(link, seen.item.kind) => {
            Some("it is an issue, not a pull request, and decides nothing".to_owned())
        }
        _ => None,
    }
}
