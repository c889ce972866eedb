//! Reads comments, and pull requests that close an issue.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{GraphqlError, Reply, pr_state};
use crate::item::{self, Association, COMMENT_CAP_BYTES, Comment, FoundPr, cut};

/// A page of an item's comments, the newest at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommentPage {
    /// The comments, oldest first.
    pub(crate) list: Vec<Comment>,
    /// How many of them cannot be read, and are not in the list.
    pub(crate) unread: u32,
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
    let within = Within::of(reply);
    let hidden = Hidden::of(reply);
    for node in list(data.remove("c")) {
        if let Some((id, page)) = page(node, within) {
            read.comments.insert(id, page);
        }
    }
    for (nth, node) in list(data.remove("f")).into_iter().enumerate() {
        if let Some((id, found)) = found(node, within, &hidden.of_issue(nth)) {
            read.found.insert(id, found);
        }
    }
    read
}

/// What is true for all of a reply.
#[derive(Clone, Copy)]
pub(crate) struct Within {
    /// Whether there is no error, so that what is null is so for a good reason.
    whole: bool,
    /// The latest time that something in it can have happened at.
    pub(crate) latest: Timestamp,
}

impl Within {
    pub(crate) fn of(reply: &Reply) -> Self {
        Self {
            whole: reply.errors.is_empty(),
            latest: reply.latest,
        }
    }
}

/// The places, in lists of pull requests that close an issue, at which this token may see nothing: the issue's place in
/// the reply, and the pull request's in its list.
struct Hidden(HashSet<(u64, u64)>);

impl Hidden {
    fn of(reply: &Reply) -> Self {
        let hidden = reply
            .errors
            .iter()
            .filter(|error| error.is_forbidden() || error.is_missing());
        Self(hidden.filter_map(GraphqlError::closing_at).collect())
    }

    fn of_issue(&self, nth: usize) -> HashSet<u64> {
        let of_it = self.0.iter().filter(|(issue, _)| *issue == nth as u64);
        of_it.map(|(_, place)| *place).collect()
    }
}

/// Reads the reply to [`crate::request::Query::OlderComments`].
pub(crate) fn node(reply: &mut Reply) -> Option<CommentPage> {
    let within = Within::of(reply);
    match reply.data.take()?.remove("node")? {
        Value::Object(node) => page(node, within).map(|(_, page)| page),
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

/// Reads a page of comments. What cannot be read of it is counted, so that it is asked for again.
fn page(mut node: Map<String, Value>, within: Within) -> Option<(String, CommentPage)> {
    let id = node.get("id")?.as_str()?.to_owned();
    let updated_at = time(node.get("updatedAt")).filter(|at| *at <= within.latest)?;
    let Some(Value::Object(mut comments)) = node.remove("comments") else {
        return None;
    };
    let page = comments.get("pageInfo")?;
    let before = match page.get("hasPreviousPage")? {
        Value::Bool(false) => None,
        Value::Bool(true) => Some(page.get("startCursor")?.as_str()?.to_owned()),
        _ => return None,
    };
    let (list, unread) = comment_list(comments.remove("nodes"), within)?;
    Some((
        id,
        CommentPage {
            list,
            unread,
            before,
            updated_at,
        },
    ))
}

/// The comments of a list that can be read, and how many cannot.
fn comment_list(nodes: Option<Value>, within: Within) -> Option<(Vec<Comment>, u32)> {
    let Some(Value::Array(nodes)) = nodes else {
        return None;
    };
    let mut list = Vec::with_capacity(nodes.len());
    let mut unread = 0;
    for node in nodes {
        match node {
            Value::Null if within.whole => {}
            node => match comment(node).filter(|one| one.created_at <= within.latest) {
                Some(comment) => list.push(comment),
                None => unread += 1,
            },
        }
    }
    Some((list, unread))
}

/// The comments of an imported issue; nothing when one of them cannot be read, or they are not there.
pub(crate) fn comments_of(value: Option<Value>, within: Within) -> Option<Vec<Comment>> {
    match value {
        Some(Value::Object(mut comments)) => comment_list(comments.remove("nodes"), within)
            .filter(|(_, unread)| *unread == 0)
            .map(|(list, _)| list),
        _ => None,
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
        id: raw.id.and_then(item::id)?,
        by_bot: raw.author.as_ref().is_some_and(RawActor::is_bot),
        author: raw
            .author
            .and_then(|author| author.login)
            .map(|login| item::login(&login)),
        by_token_account: raw.viewer_did_author.unwrap_or(false),
        association: Association::read(raw.author_association.as_deref()),
        created_at: raw.created_at?,
        edited_at: raw.last_edited_at,
        minimized: raw.is_minimized.unwrap_or(false),
        body,
        cut: was_cut,
    })
}

/// Reads the pull requests that close an issue. A list that is not whole is none: one that it leaves out may be the
/// merged one. What this token may not see is no part of it.
fn found(
    mut node: Map<String, Value>,
    within: Within,
    hidden: &HashSet<u64>,
) -> Option<(String, (Timestamp, Vec<FoundPr>))> {
    let id = node.get("id")?.as_str()?.to_owned();
    let updated_at = time(node.get("updatedAt")).filter(|at| *at <= within.latest)?;
    let Some(Value::Object(mut prs)) = node.remove("closedByPullRequestsReferences") else {
        // The field itself may be null: then there are none.
        return within.whole.then(|| (id, (updated_at, Vec::new())));
    };
    let Some(Value::Array(nodes)) = prs.remove("nodes") else {
        return None;
    };
    let mut found = Vec::with_capacity(nodes.len());
    for (nth, node) in (0..).zip(nodes) {
        match node {
            Value::Null if within.whole || hidden.contains(&nth) => {}
            node => found.push(found_pr(&node, within)?),
        }
    }
    Some((id, (updated_at, found)))
}

fn found_pr(pr: &Value, within: Within) -> Option<FoundPr> {
    let state = pr_state(
        pr.get("prState")?.as_str(),
        time(pr.get("mergedAt")),
        time(pr.get("closedAt")),
    );
    Some(FoundPr {
        repo: pr
            .get("repository")?
            .get("nameWithOwner")?
            .as_str()?
            .parse()
            .ok()?,
        number: item::number(pr.get("number")?.as_u64()?)?,
        state: state
            .ok()
            .filter(|state| state.ended_at() <= Some(within.latest))?,
    })
}
