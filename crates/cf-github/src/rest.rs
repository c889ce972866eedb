//! The one REST look at an item that GraphQL does not find: it alone tells moved from deleted from invisible. Pure; the
//! redirects are followed by hand, so that another repository's item is never taken for the one that was asked for.

use cf_core::{Link, LinkKind, Repo};
use jiff::Timestamp;
use reqwest::Url;
use serde::Deserialize;

use crate::answer::GoneHow;
use crate::host::ApiBase;
use crate::item::{COMMENT_CAP_BYTES, Item, cut, id, number};
use crate::pace::Headers;
use crate::reply::{issue_state, pr_state};

/// How many redirects are followed.
pub(crate) const HOPS: usize = 3;

/// A REST request: `GET` of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestLook {
    /// The address.
    pub url: Url,
    /// The validator of an answer that is known already.
    pub etag: Option<String>,
}

impl RestLook {
    /// The look at an item by repository and number. Every pull request is an issue here.
    pub fn at(base: &ApiBase, repo: &Repo, number: u64) -> Self {
        Self {
            url: base.at(&format!("/repos/{repo}/issues/{number}")),
            etag: None,
        }
    }

    /// The look at where a redirect points.
    ///
    /// # Errors
    ///
    /// It points nowhere, or to another host or port, where the token has no business.
    pub fn after_redirect(base: &ApiBase, location: Option<&str>) -> Result<Self, String> {
        let location = location
            .filter(|text| !text.is_empty())
            .ok_or("a redirect without an address")?;
        let url = base
            .rest
            .join(location)
            .map_err(|_| "a redirect to something that is no address")?;
        if url.origin() != base.rest.origin() {
            return Err("a redirect to another host, not followed".to_owned());
        }
        Ok(Self { url, etag: None })
    }
}

/// What a look showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Looked {
    /// The item; it may be in another repository than the one that was asked for.
    Item(Box<Item>),
    /// It is not there.
    Gone(GoneHow),
    /// It is elsewhere.
    Redirect,
    /// Neither can be told.
    Unclear(String),
}

/// Reads the reply to a look, limits and failures aside.
pub(crate) fn read(status: u16, headers: &Headers, body: &[u8], now: Timestamp) -> Looked {
    match status {
        200 => match item(body) {
            Ok(item) if item.updated_at > headers.latest(now) => {
                Looked::Unclear("an item that changed in the future".to_owned())
            }
            Ok(item) if item.state.ended_at() > Some(headers.latest(now)) => {
                Looked::Unclear("an item that was closed in the future".to_owned())
            }
            Ok(item) => Looked::Item(Box::new(item)),
            Err(why) => Looked::Unclear(why),
        },
        301 | 302 | 307 | 308 => Looked::Redirect,
        404 => Looked::Gone(GoneHow::Invisible),
        403 => Looked::Gone(GoneHow::Forbidden),
        410 => {
            let message = String::from_utf8_lossy(&body[..body.len().min(2048)]).to_lowercase();
            // 410 also says that issues are disabled in the repository, or that the version of the API has ended.
            if message.contains("deleted") {
                Looked::Gone(GoneHow::Deleted)
            } else if message.contains("disabled") {
                Looked::Gone(GoneHow::Invisible)
            } else {
                Looked::Unclear("GitHub answered 410 and not why".to_owned())
            }
        }
        status => Looked::Unclear(format!(
            "GitHub answered {status}{}",
            if headers.sso { " (single sign-on)" } else { "" }
        )),
    }
}

/// An issue as REST writes it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RawIssue {
    node_id: Option<String>,
    number: Option<u64>,
    title: Option<String>,
    state: Option<String>,
    state_reason: Option<String>,
    closed_at: Option<Timestamp>,
    updated_at: Option<Timestamp>,
    draft: Option<bool>,
    repository_url: Option<String>,
    pull_request: Option<RawPullRequest>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawPullRequest {
    merged_at: Option<Timestamp>,
}

fn item(body: &[u8]) -> Result<Item, String> {
    let raw: RawIssue = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let missing = |what: &str| format!("an item without {what}");
    let state = raw.state.as_deref();
    let (kind, state) = match &raw.pull_request {
        None => (
            LinkKind::Issue,
            issue_state(state, raw.state_reason.as_deref(), raw.closed_at),
        ),
        Some(pr) => (LinkKind::Pr, pr_state(state, pr.merged_at, raw.closed_at)),
    };
    // `https://api…/repos/OWNER/NAME`
    let repo = raw.repository_url.as_deref().and_then(|url| {
        let mut parts = url.trim_end_matches('/').rsplit('/');
        let (name, owner) = (parts.next()?, parts.next()?);
        format!("{owner}/{name}").parse().ok()
    });
    Ok(Item {
        node_id: raw.node_id.and_then(id).ok_or_else(|| missing("id"))?,
        kind,
        repo: repo.ok_or_else(|| missing("repository"))?,
        number: raw
            .number
            .and_then(number)
            .ok_or_else(|| missing("number"))?,
        title: cut(&raw.title.unwrap_or_default(), COMMENT_CAP_BYTES).0,
        state: state?,
        draft: raw.draft.unwrap_or(false),
        updated_at: raw.updated_at.ok_or_else(|| missing("time"))?,
    })
}

/// The link to an item on `host`.
pub(crate) fn link_to(host: &str, item: &Item) -> Link {
    Link {
        host: host.to_owned(),
        repo: item.repo.clone(),
        number: item.number,
        kind: item.kind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::{CloseReason, ItemState};
    use test_case::test_case;

    fn base() -> ApiBase {
        ApiBase::from_rest("https://ghe.corp/api/v3").unwrap()
    }

    #[test]
    fn the_path_is_below_the_base() {
        let look = RestLook::at(&base(), &"o/n.x".parse().unwrap(), 7);
        assert_eq!(
            look.url.as_str(),
            "https://ghe.corp/api/v3/repos/o/n.x/issues/7"
        );
    }

    #[test_case(Some("https://ghe.corp/api/v3/repositories/5/issues/1") => true; "the same host")]
    #[test_case(Some("/api/v3/repositories/5/issues/1") => true; "a path")]
    #[test_case(Some("https://ghe.corp:444/x") => false; "another port")]
    #[test_case(Some("http://ghe.corp/x") => false; "without TLS")]
    #[test_case(Some("https://evil.example/x") => false; "another host")]
    #[test_case(Some("//evil.example/x") => false; "another host without a scheme")]
    #[test_case(Some("") => false; "empty")]
    #[test_case(None => false; "missing")]
    fn a_redirect_is_followed(location: Option<&str>) -> bool {
        RestLook::after_redirect(&base(), location).is_ok()
    }

    #[test_case(404, "{}" => Looked::Gone(GoneHow::Invisible))]
    #[test_case(403, "{}" => Looked::Gone(GoneHow::Forbidden))]
    #[test_case(410, r#"{"message":"This issue was deleted"}"# => Looked::Gone(GoneHow::Deleted); "deleted")]
    #[test_case(410, r#"{"message":"Issues are disabled for this repo"}"# => Looked::Gone(GoneHow::Invisible); "disabled")]
    #[test_case(301, "" => Looked::Redirect)]
    fn a_status_says(status: u16, body: &str) -> Looked {
        read(
            status,
            &Headers::default(),
            body.as_bytes(),
            Timestamp::UNIX_EPOCH,
        )
    }

    #[test_case(410, r#"{"message":"API version ended"}"#)]
    #[test_case(200, "<html>")]
    #[test_case(200, "{}")]
    #[test_case(200, "[]"; "a list")]
    #[test_case(200, r#"{"node_id":"I","number":99999999999,"state":"open","updated_at":"1970-01-01T00:00:00Z","repository_url":"x/a/b"}"#; "a number that is none")]
    #[test_case(200, r#"{"node_id":"I","number":3,"state":"open","updated_at":"1970-01-03T00:00:00Z","repository_url":"x/a/b"}"#; "from the future")]
    #[test_case(418, "")]
    fn the_rest_is_unclear(status: u16, body: &str) {
        let looked = read(
            status,
            &Headers::default(),
            body.as_bytes(),
            Timestamp::UNIX_EPOCH,
        );
        assert!(matches!(looked, Looked::Unclear(_)), "{looked:?}");
    }

    #[test_case(r#""state":"closed","state_reason":"duplicate","closed_at":"1970-01-01T00:00:00Z""# => ItemState::Closed { reason: CloseReason::Duplicate, at: Timestamp::UNIX_EPOCH }; "duplicate")]
    #[test_case(r#""state":"closed","closed_at":"1970-01-01T00:00:00Z","pull_request":{"merged_at":null}"# => ItemState::ClosedUnmerged { at: Timestamp::UNIX_EPOCH }; "closed is not merged")]
    #[test_case(r#""state":"closed","pull_request":{"merged_at":"1970-01-01T00:00:00Z"}"# => ItemState::Merged { at: Timestamp::UNIX_EPOCH }; "merged")]
    fn an_item(state: &str) -> ItemState {
        let body = format!(
            r#"{{"node_id":"I","number":3,"title":null,"updated_at":"2026-01-01T00:00:00Z","repository_url":"https://ghe.corp/api/v3/repos/a/b","user":null,{state}}}"#
        );
        let item = item(body.as_bytes()).unwrap();
        assert_eq!(item.repo, "a/b".parse().unwrap());
        item.state
    }
}
