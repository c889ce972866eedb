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
    let Some((kind, state)) = raw.kind_and_state() else {
        return Told::Unreadable(format!(
            "{} with the state {:?} and reason {:?}",
            raw.typename.as_deref().unwrap_or("something"),
            raw.state.as_deref().or(raw.pr_state.as_deref()),
            raw.state_reason
        ));
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
    /// What it is and where it stands; nothing when a word is not known to this version.
    fn kind_and_state(&self) -> Option<(LinkKind, ItemState)> {
        match self.typename.as_deref()? {
            "Issue" => Some((
                LinkKind::Issue,
                issue_state(
                    self.state.as_deref()?,
                    self.state_reason.as_deref(),
                    self.closed_at,
                )?,
            )),
            "PullRequest" => Some((
                LinkKind::Pr,
                pr_state(self.pr_state.as_deref()?, self.merged_at, self.closed_at)?,
            )),
            _ => None,
        }
    }
}

/// Reads the state of an issue, in GraphQL's or REST's words.
pub(crate) fn issue_state(
    state: &str,
    reason: Option<&str>,
    closed_at: Option<Timestamp>,
) -> Option<ItemState> {
    match state {
        "OPEN" | "open" => Some(ItemState::Open),
        "CLOSED" | "closed" => Some(ItemState::Closed {
            reason: match reason {
                Some("COMPLETED" | "completed") => CloseReason::Completed,
                Some("NOT_PLANNED" | "not_planned") => CloseReason::NotPlanned,
                Some("DUPLICATE" | "duplicate") => CloseReason::Duplicate,
                None | Some("REOPENED" | "reopened") => CloseReason::Unstated,
                Some(_) => return None,
            },
            at: closed_at,
        }),
        _ => None,
    }
}

/// Reads the state of a pull request. That it was merged is said by `mergedAt` or the state MERGED, never by CLOSED.
pub(crate) fn pr_state(
    state: &str,
    merged_at: Option<Timestamp>,
    closed_at: Option<Timestamp>,
) -> Option<ItemState> {
    match state {
        "MERGED" => Some(ItemState::Merged { at: merged_at }),
        "CLOSED" | "closed" if merged_at.is_some() => Some(ItemState::Merged { at: merged_at }),
        "CLOSED" | "closed" => Some(ItemState::ClosedUnmerged { at: closed_at }),
        "OPEN" | "open" => Some(ItemState::Open),
        _ => None,
    }
}
