//! Reads comments, and pull requests that close an issue.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Reply, pr_state};
use crate::item::{Association, COMMENT_CAP_BYTES, Comment, FoundPr, cut};

/// A page of an item's comments, the newest at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommentPage {
    /// The comments, oldest first.
    pub(crate) list: Vec<Comment>,
    /// The cursor before which older ones stand, if there are any.
    pub(crate) before: Option<String>,
    /// The item's `updated_at` at that time.
    pub(crate) updated_at: Timestamp,
}

/// What a request for details brought: comments and closing pull requests, by node id.
#[derive(Debug, Default)]
pub(crate) struct DetailsReply {
    /// Pages of comments.
    pub(crate) comments: HashMap<String, CommentPage>,
    /// Closing pull requests, each list with the issue's `updated_at` at that time.
    pub(crate) found: HashMap<String, (Timestamp, Vec<FoundPr>)>,
}

/// Reads the reply to [`crate::request::Query::Details`]. What cannot be read is left out.
pub(crate) fn details(reply: &mut Reply) -> DetailsReply {
    let mut data = reply.data.take().unwrap_or_default();
    let mut read = DetailsReply::default();
    for node in list(data.remove("c")) {
        if let Some((id, page)) = page(node) {
            read.comments.insert(id, page);
        }
    }
    for node in list(data.remove("f")) {
        if let Some((id, found)) = found(node) {
            read.found.insert(id, found);
        }
    }
    read
}

/// Reads the reply to [`crate::request::Query::OlderComments`].
pub(crate) fn node(reply: &mut Reply) -> Option<CommentPage> {
    match reply.data.take()?.remove("node")? {
        Value::Object(node) => page(node).map(|(_, page)| page),
        _ => None,
    }
}

fn list(value: Option<Value>) -> Vec<Map<String, Value>> {
    match value {
        Some(Value::Array(nodes)) => nodes
            .into_iter()
            .filter_map(|node| match node {
                Value::Object(node) => Some(node),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}

fn time(value: Option<&Value>) -> Option<Timestamp> {
    value?.as_str()?.parse().ok()
}

fn page(mut node: Map<String, Value>) -> Option<(String, CommentPage)> {
    let id = node.get("id")?.as_str()?.to_owned();
    let updated_at = time(node.get("updatedAt"))?;
    let Some(Value::Object(mut comments)) = node.remove("comments") else {
        return None;
    };
    let page = comments.get("pageInfo");
    let before = page
        .filter(|page| page.get("hasPreviousPage") == Some(&Value::Bool(true)))
        .and_then(|page| page.get("startCursor")?.as_str())
        .map(str::to_owned);
    let list = list(comments.remove("nodes"))
        .into_iter()
        .filter_map(|node| comment(Value::Object(node)))
        .collect();
    Some((
        id,
        CommentPage {
            list,
            before,
            updated_at,
        },
    ))
}

/// The comments of an imported issue.
pub(crate) fn comments_of(value: Option<Value>) -> Vec<Comment> {
    match value {
        Some(Value::Object(mut comments)) => list(comments.remove("nodes"))
            .into_iter()
            .filter_map(|node| comment(Value::Object(node)))
            .collect(),
        _ => Vec::new(),
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawComment {
    id: Option<String>,
    created_at: Option<Timestamp>,
    last_edited_at: Option<Timestamp>,
    is_minimized: Option<bool>,
    viewer_did_author: Option<bool>,
    author_association: Option<String>,
    author: Option<RawActor>,
    body: Option<String>,
}

/// An account, as GraphQL writes it.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawActor {
    #[serde(rename = "__typename")]
    typename: Option<String>,
    pub(crate) login: Option<String>,
}

impl RawActor {
    pub(crate) fn is_bot(&self) -> bool {
        self.typename.as_deref() == Some("Bot")
            || self
                .login
                .as_deref()
                .is_some_and(|login| login.ends_with("[bot]"))
    }
}

fn comment(value: Value) -> Option<Comment> {
    let raw: RawComment = serde_json::from_value(value).ok()?;
    let (body, was_cut) = cut(&raw.body.unwrap_or_default(), COMMENT_CAP_BYTES);
    Some(Comment {
        id: raw.id?,
        by_bot: raw.author.as_ref().is_some_and(RawActor::is_bot),
        author: raw.author.and_then(|author| author.login),
        by_token_account: raw.viewer_did_author.unwrap_or(false),
        association: Association::read(raw.author_association.as_deref()),
        created_at: raw.created_at?,
        edited_at: raw.last_edited_at,
        minimized: raw.is_minimized.unwrap_or(false),
        body,
        cut: was_cut,
    })
}

fn found(mut node: Map<String, Value>) -> Option<(String, (Timestamp, Vec<FoundPr>))> {
    let id = node.get("id")?.as_str()?.to_owned();
    let updated_at = time(node.get("updatedAt"))?;
    let Some(Value::Object(mut prs)) = node.remove("closedByPullRequestsReferences") else {
        // The field itself may be null: then there are none.
        return Some((id, (updated_at, Vec::new())));
    };
    let found = list(prs.remove("nodes"))
        .into_iter()
        .filter_map(|pr| {
            Some(FoundPr {
                repo: pr
                    .get("repository")?
                    .get("nameWithOwner")?
                    .as_str()?
                    .parse()
                    .ok()?,
                number: pr.get("number")?.as_u64()?,
                state: pr_state(
                    pr.get("prState")?.as_str()?,
                    time(pr.get("mergedAt")),
                    time(pr.get("closedAt")),
                )?,
            })
        })
        .collect();
    Some((id, (updated_at, found)))
}
