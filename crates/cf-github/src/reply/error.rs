//! The errors of a reply, and where they are in it.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::{Reply, Told};

/// One of a reply's errors.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct GraphqlError {
    #[serde(rename = "type")]
    kind: Option<String>,
    message: Option<String>,
    path: Option<Vec<Value>>,
    extensions: Option<Value>,
}

impl GraphqlError {
    /// An error that is only words, if that.
    pub(super) fn said(message: Option<&Value>) -> Self {
        Self {
            message: message.and_then(Value::as_str).map(str::to_owned),
            ..Self::default()
        }
    }

    /// The type, from either place where GitHub puts it.
    pub(super) fn kind(&self) -> &str {
        self.kind
            .as_deref()
            .or_else(|| self.extensions.as_ref()?.get("code")?.as_str())
            .unwrap_or_default()
    }

    pub(super) fn message(&self) -> &str {
        self.message.as_deref().unwrap_or_default()
    }

    pub(super) fn path(&self) -> Vec<&str> {
        self.path
            .iter()
            .flatten()
            .map(|part| part.as_str().unwrap_or_default())
            .collect()
    }

    /// Where it is among the pull requests that close issues, if there: the issue's place, and that in its list.
    pub(super) fn closing_at(&self) -> Option<(u64, u64)> {
        match self.path.as_deref()? {
            [alias, issue, field, nodes, place, ..] if alias == "f" && nodes == "nodes" => (field
                == "closedByPullRequestsReferences")
                .then(|| issue.as_u64().zip(place.as_u64()))
                .flatten(),
            _ => None,
        }
    }

    /// What is told of something that there is data for, and this error about it.
    pub(super) fn beside_data(&self) -> Told {
        Told::Unreadable(format!("an error beside its data: {}", self.message()))
    }

    pub(super) fn is_missing(&self) -> bool {
        self.kind() == "NOT_FOUND" || self.message().starts_with("Could not resolve to")
    }

    pub(super) fn is_forbidden(&self) -> bool {
        matches!(self.kind(), "FORBIDDEN" | "INSUFFICIENT_SCOPES")
            || self
                .extensions
                .as_ref()
                .and_then(|extensions| extensions.get("saml_failure"))
                .is_some_and(|value| value == &Value::Bool(true))
    }
}

/// The fields of an item in which null means something, so that one that an error has made null would be taken for it.
const DECIDING: [&str; 5] = ["state", "stateReason", "prState", "mergedAt", "closedAt"];

/// A reply's errors by where they are: there may be thousands, and each item is looked up.
pub(super) struct Errors<'e> {
    /// Those of repositories, of their fields, and of what decides about an item, the first of each.
    ///
    /// One without a path is about no item. What fails while a query is carried out is null and has its path in an
    /// error; what makes the query as a whole fail leaves no data, or has a type that says so (a limit that is used up
    /// with this reply), which [`Reply::whole`] reads. Data beside such an error is good.
    pub(super) at: HashMap<Vec<&'e str>, &'e GraphqlError>,
    /// The repositories' fields in which, or in a part of which, there is one.
    pub(super) within: HashSet<[&'e str; 2]>,
    /// The latest time that something in the reply can have happened at.
    pub(super) latest: Timestamp,
}

impl<'e> Errors<'e> {
    pub(super) fn of(reply: &'e Reply) -> Self {
        let mut at = HashMap::new();
        let mut within = HashSet::new();
        for error in &reply.errors {
            let path = error.path();
            if let [repo, field, ..] = path[..] {
                within.insert([repo, field]);
            }
            if path.len() <= 2 || matches!(path[..], [_, _, field] if DECIDING.contains(&field)) {
                at.entry(path).or_insert(error);
            }
        }
        Self {
            at,
            within,
            latest: reply.latest,
        }
    }

    /// The error about an item that is there, if there is one: it names the item, or a field of it that decides.
    pub(super) fn of_item(&self, repo: &str, item: &str) -> Option<&'e GraphqlError> {
        let fields = DECIDING.iter().map(|field| vec![repo, item, field]);
        std::iter::once(vec![repo, item])
            .chain(fields)
            .find_map(|path| self.at.get(&path).copied())
    }
}
