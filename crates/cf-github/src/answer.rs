//! Questions about links and their answers. An answer is three-valued: known, unknown, or gone (moved included); not
//! knowing is never taken for anything else.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cf_core::{Link, Repo};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::item::{Comment, FoundPr, Item};
use crate::time::whole_seconds;

/// A question about one link, which may be a borrowed one.
#[derive(Clone, Debug)]
pub struct LinkAsk<L = Link> {
    /// What is asked about. Its kind plays no part: GitHub says what it is.
    pub link: L,
    /// How old an answer may be, normally the interval between passes.
    pub fresh_within: Duration,
    /// How the answer must have been come by.
    pub proof: Proof,
    /// Which comments are wanted, if any.
    pub comments: Option<CommentAsk>,
    /// Whether pull requests that close the issue are wanted.
    pub found: FoundAsk,
}

impl<L> LinkAsk<L> {
    /// Asks for the state alone, listed.
    pub const fn state(link: L, fresh_within: Duration) -> Self {
        Self {
            link,
            fresh_within,
            proof: Proof::Listed,
            comments: None,
            found: FoundAsk::Never,
        }
    }
}

/// How an answer must have been come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Proof {
    /// A list of what changed in the repository will do. Lists lag behind by up to half a minute.
    Listed,
    /// The item itself was read. Right for a task that is about to start.
    Exact,
}

/// Which comments are wanted. Both values come from the caller's store and move in the transaction that stores the
/// comments; until then the same comments are told again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommentAsk {
    /// Comments written at or after this time, or the last `last` when there is none. Inclusive, since times are whole
    /// seconds: what has the same [`Comment::id`] is known already.
    pub since: Option<Timestamp>,
    /// [`Read::up_to`] of the last comments stored, if any. Nothing is asked while the item has not changed after it.
    pub seen: Option<Timestamp>,
    /// How many at most, from the newest back, when there is no `since`.
    pub last: u32,
}

/// Whether pull requests that close an issue are wanted. They cost a narrow request for each forty issues, and they are
/// followed from then on with the other links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FoundAsk {
    /// Not wanted.
    Never,
    /// Looked for when the issue has changed since an earlier look, or was closed without its work being done. Right
    /// for a pass over everything.
    WhenMoved,
    /// Looked for also when nobody has looked yet. Right for a task that is about to start.
    Now,
}

/// The answer for one link.
#[derive(Clone, Debug)]
pub enum Answer {
    /// It was read, and the answer is as fresh as asked for.
    Known(Known),
    /// It could not be read, or not freshly enough.
    Unknown {
        /// Why.
        why: Why,
        /// When it was last read, and what that said. For showing; nothing may act on it.
        last: Option<Known>,
    },
    /// It is not there, or not for this token.
    Gone(Gone),
    /// It lives elsewhere now. The caller replaces its link and asks again.
    Moved {
        /// Where it is now.
        to: Link,
        /// When that was seen.
        at: Timestamp,
    },
}

/// What was read.
#[derive(Clone, Debug)]
pub struct Known {
    /// The item.
    pub item: Arc<Item>,
    /// When the item itself was read.
    pub read_at: Timestamp,
    /// When it was last known to stand so: when it was read, or a complete list of changes did not name it.
    pub checked_at: Timestamp,
    /// Its comments.
    pub comments: Comments,
    /// Pull requests that close it, as far as they were looked for.
    pub found: Vec<FoundPr>,
}

/// What is known about new comments.
#[derive(Clone, Debug)]
pub enum Comments {
    /// None were asked for.
    NotAsked,
    /// Nothing changed since they were last stored.
    Unchanged,
    /// They were read.
    Read(Read),
    /// They could not be read; asked again later.
    Unknown(Why),
}

/// Comments that were read.
#[derive(Clone, Debug)]
pub struct Read {
    /// Oldest first. Those of bots and hidden ones are among them, marked.
    pub list: Arc<[Comment]>,
    /// What to store as [`CommentAsk::seen`] together with them.
    pub up_to: Timestamp,
    /// Whether there were more than are told here; those are the oldest.
    pub more: bool,
    /// How many of them make no sense and are not told. As long as there are any, whoever stores the others leaves
    /// [`CommentAsk::since`] and [`CommentAsk::seen`] where they are: they are asked for again, in each pass at first,
    /// then less and less often.
    pub unread: u32,
}

/// An item that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    /// How.
    pub how: GoneHow,
    /// When it was last looked for.
    pub at: Timestamp,
    /// How many looks in a row have found it gone.
    pub looks: u32,
}

/// How an item is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GoneHow {
    /// It was deleted (410).
    Deleted,
    /// It does not exist, or this token cannot see it (404).
    Invisible,
    /// GitHub says that this token may not see it (403, single sign-on).
    Forbidden,
}

impl fmt::Display for GoneHow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deleted => "was deleted",
            Self::Invisible => "does not exist, or the token cannot see it",
            Self::Forbidden => "may not be read with this token",
        })
    }
}

/// Why something is not known. None of these carries a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Nobody has asked yet, or other things went first.
    #[error("not asked yet")]
    NotAsked,
    /// The host cannot be asked at all.
    #[error("{0}")]
    Host(String),
    /// The token was rejected; the host is not asked any more.
    #[error("the token was rejected (401)")]
    TokenRejected,
    /// Requests wait until then.
    #[error("GitHub is not asked before {}: {why}", whole_seconds(*.until))]
    Waiting {
        /// Until when.
        until: Timestamp,
        /// What for.
        why: crate::pace::Trouble,
    },
    /// The request failed.
    #[error("{0}")]
    Failed(String),
    /// The reply makes no sense to this version.
    #[error("GitHub's reply cannot be read: {0}")]
    Unreadable(String),
}

impl Why {
    /// Whether it came of asking, so that it is true until a look gets through.
    pub(crate) const fn is_to_be_saved(&self) -> bool {
        match self {
            Self::Failed(_) | Self::Unreadable(_) | Self::TokenRejected | Self::Waiting { .. } => {
                true
            }
            Self::NotAsked | Self::Host(_) => false,
        }
    }

    /// Whether both say the same, however long it lasts.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Waiting { why: one, .. }, Self::Waiting { why: other, .. }) => one == other,
            _ => self == other,
        }
    }
}

/// Something to tell a person once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The host that it is about.
    pub host: String,
    /// What.
    pub what: NoticeKind,
}

/// What a notice says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoticeKind {
    /// The host is not asked for a while; tasks go on without it.
    Opened {
        /// Why.
        why: crate::pace::Trouble,
        /// Until when, at first.
        until: Timestamp,
    },
    /// The host answers again.
    Closed,
    /// The host is not asked any more.
    Off {
        /// Why.
        why: Why,
    },
    /// Comments make no sense; the others of their item are told. Said once for each item.
    Unread {
        /// The item's repository.
        repo: Repo,
        /// Its number.
        number: u64,
        /// How many.
        comments: u32,
    },
}

/// How many comments cannot be read, in words.
pub(crate) fn unread_words(comments: u32) -> String {
    match comments {
        1 => "1 comment cannot be read".to_owned(),
        n => format!("{n} comments cannot be read"),
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            NoticeKind::Opened { why, until } => {
                let until = whole_seconds(*until);
                write!(f, "{} is not asked before {until}: {why}", self.host)
            }
            NoticeKind::Closed => write!(f, "{} answers again", self.host),
            NoticeKind::Off { why } => write!(f, "{} is off: {why}", self.host),
            NoticeKind::Unread {
                repo,
                number,
                comments,
            } => write!(
                f,
                "{} of {}/{repo}#{number}; the others are told, and it is asked for again",
                unread_words(*comments),
                self.host
            ),
        }
    }
}
