//! A finding: an observation of one task by one source, turned into an action, with what it rests on.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use cf_core::{Actor, Phase, TaskId, TaskStatus, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{Reason, ReconcileAction};

/// What a table decided about one task, and by which of its rows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Decision {
    /// The number of the row in its own table, from 1, as the printed tables show it.
    pub row: u8,
    /// What to do.
    pub action: ReconcileAction,
    /// Why.
    pub reason: Reason,
    /// The status that the source asks for. It is written with the intent, before any stop; `None` asks for nothing.
    pub external_status: Option<TaskStatus>,
}

impl Decision {
    pub(crate) const fn none(row: u8, reason: Reason) -> Self {
        Self {
            row,
            action: ReconcileAction::None,
            reason,
            external_status: None,
        }
    }

    pub(crate) const fn act(
        row: u8,
        action: ReconcileAction,
        reason: Reason,
        external_status: Option<TaskStatus>,
    ) -> Self {
        Self {
            row,
            action,
            reason,
            external_status,
        }
    }
}

/// What one source found about one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReconciliationResult {
    /// The task.
    pub task_id: TaskId,
    /// The status in the store; none when the task is deleted.
    pub current_status: Option<TaskStatus>,
    /// The status that the source asks for, if any.
    pub external_status: Option<TaskStatus>,
    /// Where the batch believes the task to stand.
    pub believed: Phase,
    /// What to do.
    pub action: ReconcileAction,
    /// Why.
    pub reason: Reason,
    /// Who found it.
    pub source: SourceName,
    /// What it rests on.
    pub evidence: Evidence,
}

impl ReconciliationResult {
    /// Puts a decision beside the task it is about, its source, and what it rests on.
    pub fn new(
        task_id: TaskId,
        current_status: Option<TaskStatus>,
        believed: Phase,
        decision: Decision,
        source: SourceName,
        evidence: Evidence,
    ) -> Self {
        Self {
            task_id,
            current_status,
            external_status: decision.external_status,
            believed,
            action: decision.action,
            reason: decision.reason,
            source,
            evidence,
        }
    }
}

/// Who found something: the name of a source, as stored and shown.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum SourceName {
    /// The workspace's own store.
    Local,
    /// GitHub.
    Github,
    /// A source that a downstream program adds.
    Other(String),
}

impl SourceName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Local => "local",
            Self::Github => "github",
            Self::Other(name) => name,
        }
    }
}

impl fmt::Display for SourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl From<String> for SourceName {
    fn from(name: String) -> Self {
        match name.as_str() {
            "local" => Self::Local,
            "github" => Self::Github,
            _ => Self::Other(name),
        }
    }
}

impl From<SourceName> for String {
    fn from(name: SourceName) -> Self {
        name.as_str().to_owned()
    }
}

impl FromStr for SourceName {
    type Err = Infallible;

    fn from_str(name: &str) -> Result<Self, Infallible> {
        Ok(name.to_owned().into())
    }
}

/// What a finding rests on. In JSON an object with `kind`: `none`, `local` or `link`; times in RFC 3339, UTC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Evidence {
    /// Nothing beyond the finding itself.
    None,
    /// What the store says.
    Local {
        /// The stored status; none when the task is deleted.
        status: Option<TaskStatus>,
        /// The task's version; none when the task is deleted.
        version: Option<i64>,
        /// Who wrote the status.
        actor: Option<Actor>,
        /// How many questions about the task are open.
        open_blockers: u32,
    },
    /// What a tracker says about the link that decided. Behind a pointer: it is three times what the others are, and
    /// most findings are the store's.
    Link(Box<LinkEvidence>),
}

/// What a tracker says about a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkEvidence {
    /// The address that a person can open.
    pub url: String,
    /// The state in the tracker's own word.
    pub state: String,
    /// The reason for the state in the tracker's own word.
    pub state_reason: Option<String>,
    /// When the tracker last changed it.
    #[serde(with = "rfc3339", default)]
    pub updated_at: Option<Timestamp>,
    /// When it was merged.
    #[serde(with = "rfc3339", default)]
    pub merged_at: Option<Timestamp>,
    /// When it was closed.
    #[serde(with = "rfc3339", default)]
    pub closed_at: Option<Timestamp>,
}

/// Times as text, without the serde feature of the time library, which consumers of this crate need not build.
mod rfc3339 {
    use cf_core::Timestamp;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    #[expect(
        clippy::ref_option,
        reason = "serde calls it with a reference to the field"
    )]
    pub(super) fn serialize<S: Serializer>(
        at: &Option<Timestamp>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        at.map(|at| at.to_string()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        Option::<String>::deserialize(deserializer)?
            .map(|text| text.parse().map_err(D::Error::custom))
            .transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(evidence: Evidence) -> ReconciliationResult {
        ReconciliationResult::new(
            "01234567-89ab-cdef-0123-456789abcdef".parse().unwrap(),
            Some(TaskStatus::Ready),
            Phase::Queued,
            Decision::act(
                3,
                ReconcileAction::Skip,
                Reason::IssueClosed,
                Some(TaskStatus::Done),
            ),
            SourceName::Github,
            evidence,
        )
    }

    fn closed() -> Evidence {
        Evidence::Link(Box::new(LinkEvidence {
            url: "https://github.com/a/b/issues/3".into(),
            state: "closed".into(),
            state_reason: Some("completed".into()),
            updated_at: Some("2026-01-02T03:04:05Z".parse().unwrap()),
            merged_at: None,
            closed_at: Some("2026-01-02T03:04:05Z".parse().unwrap()),
        }))
    }

    #[test]
    fn a_finding_reads_back_from_json() {
        let evidences = [
            Evidence::None,
            Evidence::Local {
                status: Some(TaskStatus::Done),
                version: Some(7),
                actor: Some(Actor::Cli),
                open_blockers: 0,
            },
            closed(),
        ];
        for evidence in evidences {
            let before = finding(evidence);
            let json = serde_json::to_string(&before).unwrap();
            let after: ReconciliationResult = serde_json::from_str(&json).unwrap();
            assert_eq!(after, before);
        }
    }

    #[test]
    fn the_shape_is_stable() {
        let json = serde_json::to_value(finding(Evidence::None)).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "task_id": "01234567-89ab-cdef-0123-456789abcdef",
                "current_status": "READY",
                "external_status": "DONE",
                "believed": "queued",
                "action": "SKIP",
                "reason": "issue closed",
                "source": "github",
                "evidence": { "kind": "none" },
            })
        );
    }

    #[test]
    fn the_shape_of_a_links_evidence_is_stable() {
        assert_eq!(
            serde_json::to_string(&closed()).unwrap(),
            r#"{"kind":"link","url":"https://github.com/a/b/issues/3","state":"closed","state_reason":"completed","#
                .to_owned()
                + r#""updated_at":"2026-01-02T03:04:05Z","merged_at":null,"closed_at":"2026-01-02T03:04:05Z"}"#
        );
    }

    #[test]
    fn a_source_reads_back_as_written() {
        for name in ["local", "github", "jira"] {
            assert_eq!(name.parse::<SourceName>().unwrap().to_string(), name);
        }
    }
}
