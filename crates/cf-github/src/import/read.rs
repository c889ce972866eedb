//! Reads pages of issues, milestones and the account.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::{Blocking, ImportedIssue};
use crate::item::{self, Association, cut};
use crate::reply::{RawActor, Reply, Within, comments_of, issue_state};

/// The most bytes of a title; GitHub allows 256 characters.
const TITLE_CAP_BYTES: usize = 1024;
/// The most bytes of a text; GitHub allows 65,536 characters.
const BODY_CAP_BYTES: usize = 256 * 1024;

/// A page as it was read.
pub(super) struct RawPage {
    pub(super) issues: Vec<ImportedIssue>,
    /// How many there were that cannot be read.
    pub(super) unreadable: usize,
    pub(super) total: Option<u64>,
    /// The cursor after which the next page begins.
    pub(super) next: Option<String>,
}

/// Why a reply is no page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoPage {
    /// The repository is not there.
    NoRepository,
    /// The reply says neither that nor what its issues are.
    Unreadable(&'static str),
}

/// Reads a page. An issue that cannot be read is counted.
///
/// # Errors
///
/// The repository is not there, or the reply does not say what follows: ending there would leave issues out.
pub(super) fn page(reply: &mut Reply) -> Result<RawPage, NoPage> {
    let within = Within::of(reply);
    let mut data = reply.data.take().unwrap_or_default();
    let Some(Value::Object(mut repo)) = data.remove("repository") else {
        return Err(if reply.says_missing() {
            NoPage::NoRepository
        } else {
            NoPage::Unreadable("a reply without the repository")
        });
    };
    let Some(Value::Object(mut issues)) = repo.remove("issues") else {
        return Err(NoPage::Unreadable("a reply without the issues"));
    };
    let next = next(issues.get("pageInfo"))?;
    let total = issues.get("totalCount").and_then(Value::as_u64);
    let Some(Value::Array(nodes)) = issues.remove("nodes") else {
        return Err(NoPage::Unreadable("a page without issues"));
    };
    let count = nodes.len();
    let issues: Vec<ImportedIssue> = nodes
        .into_iter()
        .filter_map(|node| issue(node, within))
        .collect();
    Ok(RawPage {
        unreadable: count - issues.len(),
        issues,
        total,
        next,
    })
}

/// The cursor after which the next page begins, if there is one.
///
/// # Errors
///
/// That is not said.
fn next(page: Option<&Value>) -> Result<Option<String>, NoPage> {
    let more = page.and_then(|page| page.get("hasNextPage")?.as_bool());
    let cursor = page.and_then(|page| page.get("endCursor")?.as_str());
    match (more, cursor) {
        (Some(false), _) => Ok(None),
        (Some(true), Some(cursor)) => Ok(Some(cursor.to_owned())),
        _ => Err(NoPage::Unreadable("a page that does not say what follows")),
    }
}

/// The login of the token's account.
pub(super) fn viewer(reply: &Reply) -> Option<String> {
    let login = reply.data.as_ref()?.get("viewer")?.get("login")?.as_str()?;
    Some(login.to_owned())
}

/// Numbers and titles of milestones; nothing when the repository is not there.
pub(super) fn milestones(reply: &Reply) -> Option<Vec<(u64, String)>> {
    let repo = reply.data.as_ref()?.get("repository")?.as_object()?;
    let nodes = repo.get("milestones")?.get("nodes")?.as_array()?;
    Some(
        nodes
            .iter()
            .filter_map(|node| {
                Some((
                    node.get("number")?.as_u64()?,
                    cut(node.get("title")?.as_str()?, TITLE_CAP_BYTES).0,
                ))
            })
            .collect(),
    )
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawIssue {
    id: Option<String>,
    number: Option<u64>,
    title: Option<String>,
    body: Option<String>,
    url: Option<String>,
    state: Option<String>,
    state_reason: Option<String>,
    closed_at: Option<Timestamp>,
    created_at: Option<Timestamp>,
    updated_at: Option<Timestamp>,
    author: Option<RawActor>,
    author_association: Option<String>,
    milestone: Option<Value>,
    labels: Option<Value>,
    assignees: Option<Value>,
    comments: Option<Value>,
    blocked_by: Option<Value>,
}

fn issue(value: Value, within: Within) -> Option<ImportedIssue> {
    let raw: RawIssue = serde_json::from_value(value).ok()?;
    Some(ImportedIssue {
        state: issue_state(
            raw.state.as_deref(),
            raw.state_reason.as_deref(),
            raw.closed_at,
        )
        .ok()
        .filter(|state| state.ended_at() <= Some(within.latest))?,
        node_id: raw.id.and_then(item::id)?,
        number: raw.number.and_then(item::number)?,
        title: cut(&raw.title.unwrap_or_default(), TITLE_CAP_BYTES).0,
        body: cut(&raw.body.unwrap_or_default(), BODY_CAP_BYTES).0,
        url: raw.url.unwrap_or_default(),
        labels: names(raw.labels.as_ref(), "name"),
        milestone: raw
            .milestone
            .as_ref()
            .and_then(|milestone| milestone.get("title")?.as_str())
            .map(str::to_owned),
        assignees: names(raw.assignees.as_ref(), "login"),
        author: raw
            .author
            .and_then(|author| author.login)
            .map(|login| item::login(&login)),
        association: Association::read(raw.author_association.as_deref()),
        created_at: raw.created_at?,
        updated_at: raw.updated_at.filter(|at| *at <= within.latest)?,
        blocked_by: nodes(raw.blocked_by.as_ref())
            .filter_map(blocking)
            .collect(),
        comments: comments_of(raw.comments, within),
    })
}

fn nodes(connection: Option<&Value>) -> impl Iterator<Item = &Value> {
    connection
        .and_then(|connection| connection.get("nodes")?.as_array())
        .into_iter()
        .flatten()
}

fn names(connection: Option<&Value>, field: &str) -> Vec<String> {
    nodes(connection)
        .filter_map(|node| Some(node.get(field)?.as_str()?.to_owned()))
        .collect()
}

fn blocking(node: &Value) -> Option<Blocking> {
    Some(Blocking {
        repo: node
            .get("repository")?
            .get("nameWithOwner")?
            .as_str()?
            .parse()
            .ok()?,
        number: item::number(node.get("number")?.as_u64()?)?,
        // A word that is not known is not a reason to wait for ever.
        open: node.get("state")?.as_str()? == "OPEN",
    })
}

/// The numbers behind "blocked by #12" and "depends on #12" in an issue's text, in order, each once. A bare `#12` is
/// only a mention.
///
/// What people write by hand where the tracker has no such relation; several numbers may follow, with commas or `and`.
pub fn blockers_named_in(body: &str) -> Vec<u64> {
    let text = body.to_ascii_lowercase();
    let mut numbers = Vec::new();
    for phrase in ["blocked by", "depends on"] {
        for (at, _) in text.match_indices(phrase) {
            let mut rest = text[at + phrase.len()..].trim_start_matches([':', ' ', '*', '_']);
            while let Some(tail) = rest.strip_prefix('#') {
                let digits = tail
                    .find(|c: char| !c.is_ascii_digit())
                    .unwrap_or(tail.len());
                let Ok(number) = tail[..digits].parse::<u32>() else {
                    break;
                };
                numbers.push((at, u64::from(number)));
                rest = tail[digits..].trim_start_matches([' ', ',', '&']);
                rest = rest.strip_prefix("and ").unwrap_or(rest);
            }
        }
    }
    numbers.sort_by_key(|(at, _)| *at);
    let mut seen = std::collections::HashSet::new();
    numbers
        .into_iter()
        .map(|(_, number)| number)
        .filter(|number| *number > 0 && seen.insert(*number))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("Blocked by #12" => vec![12])]
    #[test_case("depends on: #3, #4 and #5." => vec![3, 4, 5]; "several")]
    #[test_case("- **Depends on** #3\n- Blocked by #2, #3" => vec![3, 2]; "in lists, each once")]
    #[test_case("see #12, depends on the weather" => Vec::<u64>::new(); "a mention is nothing")]
    #[test_case("blocked by #" => Vec::<u64>::new(); "no number")]
    #[test_case("blocked by #99999999999 ä depends on #7" => vec![7]; "an absurd number")]
    fn blockers(body: &str) -> Vec<u64> {
        blockers_named_in(body)
    }
}
