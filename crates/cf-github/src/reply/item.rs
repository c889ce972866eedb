//! Reads one issue or pull request.

use cf_core::{LinkKind, Repo};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::Told;
use crate::item::{COMMENT_CAP_BYTES, CloseReason, Item, ItemState, cut, id, number};

/// An item as GraphQL writes it.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawItem {
    #[serde(rename = "__typename")]
    typename: Option<String>,
    id: Option<String>,
    number: Option<u64>,
    title: Option<String>,
    state: Option<String>,
    pr_state: Option<String>,
    state_reason: Option<String>,
    merged_at: Option<Timestamp>,
    closed_at: Option<Timestamp>,
    is_draft: Option<bool>,
    updated_at: Option<Timestamp>,
}

pub(super) fn read(value: Value, home: &Repo, asked: Option<u64>, latest: Timestamp) -> Told {
    let raw: RawItem = match serde_json::from_value(value) {
        Ok(raw) => raw,
        Err(error) => return Told::Unreadable(error.to_string()),
    };
    let (kind, state) = match raw.kind_and_state() {
        Ok(known) => known,
        Err(why) => return Told::Unreadable(why),
    };
    let (Some(node_id), Some(number), Some(updated_at)) = (
        raw.id.and_then(id),
        raw.number.and_then(number),
        raw.updated_at,
    ) else {
        return Told::Unreadable("an item without id, number or time".to_owned());
    };
    if updated_at > latest {
        return Told::Unreadable("an item that changed in the future".to_owned());
    }
    if state.ended_at() > Some(latest) {
        return Told::Unreadable("an item that was closed in the future".to_owned());
    }
    if asked.is_some_and(|asked| asked != number) {
        return Told::Unreadable(format!("asked for another number, got {number}"));
    }
    Told::Is(Item {
        node_id,
        kind,
        repo: home.clone(),
        number,
        title: cut(&raw.title.unwrap_or_default(), COMMENT_CAP_BYTES).0,
        state,
        draft: raw.is_draft.unwrap_or(false),
        updated_at,
    })
}

impl RawItem {
    /// What it is and where it stands.
    ///
    /// # Errors
    ///
    /// A word is missing or not known to this version; in words.
    fn kind_and_state(&self) -> Result<(LinkKind, ItemState), String> {
        match self.typename.as_deref() {
            Some("Issue") => issue_state(
                self.state.as_deref(),
                self.state_reason.as_deref(),
                self.closed_at,
            )
            .map(|state| (LinkKind::Issue, state)),
            Some("PullRequest") => {
                pr_state(self.pr_state.as_deref(), self.merged_at, self.closed_at)
                    .map(|state| (LinkKind::Pr, state))
            }
            Some(other) => Err(format!("neither an issue nor a pull request: {other:?}")),
            None => Err("an item without its kind".to_owned()),
        }
    }
}

/// Reads the state of an issue, in GitHub's words in GraphQL or REST.
///
/// # Errors
///
/// It makes no sense to this version; in words. A closing without its time could not be told from another one.
pub(crate) fn issue_state(
    state: Option<&str>,
    reason: Option<&str>,
    closed_at: Option<Timestamp>,
) -> Result<ItemState, String> {
    match state {
        Some("OPEN" | "open") => Ok(ItemState::Open),
        Some("CLOSED" | "closed") => Ok(ItemState::Closed {
            reason: match reason {
                Some("COMPLETED" | "completed") => CloseReason::Completed,
                Some("NOT_PLANNED" | "not_planned") => CloseReason::NotPlanned,
                Some("DUPLICATE" | "duplicate") => CloseReason::Duplicate,
                None | Some("REOPENED" | "reopened") => CloseReason::Unstated,
                Some(other) => return Err(format!("an issue that was closed as {other:?}")),
            },
            at: closed_at.ok_or("a closed issue without the time of its closing")?,
        }),
        Some(other) => Err(format!("an issue in the state {other:?}")),
        None => Err("an issue without its state".to_owned()),
    }
}

/// Reads the state of a pull request. That it was merged is said by `mergedAt`, and by nothing else.
///
/// # Errors
///
/// It makes no sense to this version; in words.
pub(crate) fn pr_state(
    state: Option<&str>,
    merged_at: Option<Timestamp>,
    closed_at: Option<Timestamp>,
) -> Result<ItemState, String> {
    match (state, merged_at) {
        (Some("MERGED" | "CLOSED" | "closed"), Some(at)) => Ok(ItemState::Merged { at }),
        (Some("MERGED"), None) => {
            Err("a merged pull request without the time of its merging".to_owned())
        }
        (Some("CLOSED" | "closed"), None) => Ok(ItemState::ClosedUnmerged {
            at: closed_at.ok_or("a closed pull request without the time of its closing")?,
        }),
        (Some("OPEN" | "open"), None) => Ok(ItemState::Open),
        (Some("OPEN" | "open"), Some(_)) => {
            Err("an open pull request with a time of merging".to_owned())
        }
        (Some(other), _) => Err(format!("a pull request in the state {other:?}")),
        (None, _) => Err("a pull request without its state".to_owned()),
    }
}
