//! What is worth keeping between processes: answers, how far each repository's list of changes was read, budgets and
//! pauses. Plain values with serde; the caller keeps them where it likes. No token and no comment is among them.

use std::sync::Arc;

use cf_core::{Link, Repo};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::answer::{GoneHow, Why};
use crate::item::{FoundPr, Item};
use crate::pace::Pace;

/// What was learned, or what somebody learned earlier.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Saved {
    /// Answers, one for each link.
    pub snapshots: Vec<Snapshot>,
    /// How far the lists of changes were read, one for each repository.
    pub marks: Vec<Mark>,
    /// Budgets and pauses, one for each host.
    pub hosts: Vec<HostState>,
    /// What stood in the way of reading single items, or no longer does.
    pub troubles: Vec<ItemTrouble>,
}

impl Saved {
    /// Whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        self.snapshots.is_empty()
            && self.marks.is_empty()
            && self.hosts.is_empty()
            && self.troubles.is_empty()
    }

    /// Adds what was learned later.
    pub fn extend(&mut self, later: Self) {
        // Each part by its name, so that none is forgotten.
        let Self {
            snapshots,
            marks,
            hosts,
            troubles,
        } = later;
        self.snapshots.extend(snapshots);
        self.marks.extend(marks);
        self.hosts.extend(hosts);
        self.troubles.extend(troubles);
    }
}

/// The last answer about one item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The host, in lower case.
    pub host: String,
    /// The repository that was asked.
    pub repo: Repo,
    /// The number that was asked for.
    pub number: u64,
    /// [`crate::Token::fingerprint`] of the token that it was read with.
    pub token: u64,
    /// When the answer was asked for, by this machine's clock.
    pub read_at: Timestamp,
    /// The answer.
    pub what: What,
}

/// What an answer said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The item stands so.
    Is(Box<Seen>),
    /// It is not there.
    Gone {
        /// How.
        how: GoneHow,
        /// How many looks in a row have found it gone.
        looks: u32,
    },
    /// It lives elsewhere.
    Moved {
        /// Where.
        to: Link,
    },
}

/// An item as it was read, with what was found through it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The item.
    #[serde(flatten)]
    pub item: Arc<Item>,
    /// Whether it has changed since pull requests that close it were last looked for.
    pub moved: bool,
    /// The item's `updated_at` when they were looked for; nothing when nobody has.
    pub found_at: Option<Timestamp>,
    /// Those pull requests.
    pub found: Vec<FoundPr>,
    /// The validator of the REST look, for an item that only such a look finds.
    #[serde(default)]
    pub etag: Option<String>,
}

/// How far one repository's list of changes was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Every item that was read at or after this time is covered by the lists read since.
    pub base: Timestamp,
    /// When the last complete list was asked for.
    pub checked_at: Timestamp,
}

/// A [`Span`] with the repository that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The host, in lower case.
    pub host: String,
    /// The repository.
    pub repo: Repo,
    /// [`crate::Token::fingerprint`] of the token that it was read with.
    pub token: u64,
    /// How far.
    pub span: Span,
}

/// What stood in the way of reading one item, apart from what holds for its whole host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemTrouble {
    /// The host, in lower case.
    pub host: String,
    /// The repository.
    pub repo: Repo,
    /// The number.
    pub number: u64,
    /// [`crate::Token::fingerprint`] of the token that it was to be read with.
    pub token: u64,
    /// When that turned out.
    pub at: Timestamp,
    /// What, without secrets; nothing when it was read since.
    pub why: Option<Why>,
}

/// Budget, pause and chunk size of one host with one token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostState {
    /// The host, in lower case.
    pub host: String,
    /// [`crate::Token::fingerprint`] of the token that the budget belongs to.
    pub token: u64,
    /// The state.
    pub pace: Pace,
}
