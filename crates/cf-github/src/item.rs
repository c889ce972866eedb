//! What GitHub says about an issue or pull request, as values. Impossible combinations cannot be written down: whether
//! a pull request was merged is its state, never a guess from `closed`.

use cf_core::{LinkKind, Repo};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// An issue or pull request, the scalars of it that `cf` uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// GitHub's global id of it.
    pub node_id: String,
    /// What it is, by the tracker's word.
    pub kind: LinkKind,
    /// The repository that it is in now, by the tracker's word. Differs from the one asked for after a renaming.
    pub repo: Repo,
    /// Its number.
    pub number: u64,
    /// Its title, as GitHub has it: foreign text.
    pub title: String,
    /// Where it stands.
    pub state: ItemState,
    /// Whether it is a draft; always false for an issue.
    pub draft: bool,
    /// When it last changed in any way, in whole seconds.
    pub updated_at: Timestamp,
}

/// Where an issue or pull request stands. A closing has a time, by which it is told from another one; without it there
/// is no such state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum ItemState {
    /// Open.
    Open,
    /// An issue was closed.
    Closed {
        /// Why.
        reason: CloseReason,
        /// When.
        at: Timestamp,
    },
    /// A pull request was closed and not merged.
    ClosedUnmerged {
        /// When.
        at: Timestamp,
    },
    /// A pull request was merged. Final.
    Merged {
        /// When.
        at: Timestamp,
    },
}

impl ItemState {
    /// When it was closed or merged.
    pub const fn ended_at(&self) -> Option<Timestamp> {
        match self {
            Self::Open => None,
            Self::Closed { at, .. } | Self::ClosedUnmerged { at } | Self::Merged { at } => {
                Some(*at)
            }
        }
    }
}

/// Why an issue was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CloseReason {
    /// Its work is done.
    Completed,
    /// Nobody is going to do it.
    NotPlanned,
    /// Another issue is about the same.
    Duplicate,
    /// Nobody said.
    Unstated,
}

/// How an author stands to the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Association {
    /// Owns it.
    Owner,
    /// Belongs to the organization that owns it.
    Member,
    /// Was invited to work on it.
    Collaborator,
    /// Anybody else, and whatever this version does not know.
    Other,
}

impl Association {
    /// Reads GitHub's word.
    pub(crate) fn read(word: Option<&str>) -> Self {
        match word {
            Some("OWNER") => Self::Owner,
            Some("MEMBER") => Self::Member,
            Some("COLLABORATOR") => Self::Collaborator,
            _ => Self::Other,
        }
    }

    /// Whether text by such an author may be given to agents.
    pub const fn is_trusted(self) -> bool {
        match self {
            Self::Owner | Self::Member | Self::Collaborator => true,
            Self::Other => false,
        }
    }
}

/// The most bytes of a comment's body that are kept.
pub const COMMENT_CAP_BYTES: usize = 4096;

/// A comment on an issue or pull request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comment {
    /// GitHub's global id of it; the same comment is never told twice under different ids.
    pub id: String,
    /// The author's login; missing when the account is gone.
    pub author: Option<String>,
    /// Whether a program wrote it.
    pub by_bot: bool,
    /// Whether the account of the token wrote it.
    pub by_token_account: bool,
    /// How the author stands to the repository.
    pub association: Association,
    /// When it was written.
    pub created_at: Timestamp,
    /// When its text was last edited, if ever. An edited comment is not a new one.
    pub edited_at: Option<Timestamp>,
    /// Whether it was hidden, as spam for example.
    pub minimized: bool,
    /// Its text, cut at a character after at most [`COMMENT_CAP_BYTES`]: foreign text.
    pub body: String,
    /// Whether the text was cut.
    pub cut: bool,
}

/// A pull request that GitHub says closes an issue. Anybody can open one, so it never speaks against a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundPr {
    /// Its repository.
    pub repo: Repo,
    /// Its number.
    pub number: u64,
    /// Where it stands.
    pub state: ItemState,
}

/// The most bytes of an id. GitHub's have about thirty.
const ID_CAP_BYTES: usize = 256;
/// The most bytes of a login that are kept; GitHub allows 39 characters, and adds `[bot]`.
const LOGIN_CAP_BYTES: usize = 100;

/// The number of an issue or pull request, if it can be one: GraphQL's `Int` has 32 bits and a sign.
pub(crate) fn number(number: u64) -> Option<u64> {
    (1..=0x7fff_ffff).contains(&number).then_some(number)
}

/// An id, if it can be one.
pub(crate) fn id(id: String) -> Option<String> {
    (!id.is_empty() && id.len() <= ID_CAP_BYTES).then_some(id)
}

/// A login, cut.
pub(crate) fn login(login: &str) -> String {
    cut(login, LOGIN_CAP_BYTES).0
}

/// Cuts a text at a character so that at most `cap` bytes are left, and says whether it did.
///
/// Every text that is kept goes through here. NUL, which no argument of a process can hold, becomes U+FFFD.
pub(crate) fn cut(text: &str, cap: usize) -> (String, bool) {
    if text.contains('\0') {
        return cut(&text.replace('\0', "\u{fffd}"), cap);
    }
    let end = text.floor_char_boundary(cap);
    (text[..end].to_owned(), end < text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_a_character() {
        assert_eq!(cut("häh", 2), ("h".to_owned(), true));
        assert_eq!(cut("häh", 4), ("häh".to_owned(), false));
    }

    #[test]
    fn a_nul_is_replaced_before_a_text_is_cut() {
        assert_eq!(cut("a\0b", 5), ("a\u{fffd}b".to_owned(), false));
        assert_eq!(cut("a\0b", 4), ("a\u{fffd}".to_owned(), true));
    }

    #[test]
    fn only_three_associations_are_trusted() {
        for (word, trusted) in [
            (Some("OWNER"), true),
            (Some("MEMBER"), true),
            (Some("COLLABORATOR"), true),
            (Some("CONTRIBUTOR"), false),
            (Some("FIRST_TIMER"), false),
            (Some("SOMETHING_NEW"), false),
            (None, false),
        ] {
            assert_eq!(Association::read(word).is_trusted(), trusted, "{word:?}");
        }
    }
}
