//! A link with what is known about it: when it was read last, what it was then, and what stands in the way since.

use std::fmt::Write as _;

use cf_conductor::github::{LinkView, SeenState};
use cf_core::{LinkKind, Timestamp};
use serde::Serialize;

use super::time::{self, as_full_opt};

/// A link with what is known about it, in words.
pub(crate) fn words(view: &LinkView, now: Timestamp) -> String {
    let link = &view.link;
    let mut words = format!("{} {link}: ", link.kind);
    let state = match view.last.as_ref().map(|last| &last.state) {
        None => match view.why {
            Some(_) => "unknown".to_owned(),
            None => "not asked yet".to_owned(),
        },
        Some(SeenState::Is {
            kind,
            state,
            reason,
            since,
        }) => {
            let as_what = match (kind, reason) {
                (LinkKind::Issue, Some(reason)) => format!(" ({})", reason.replace('_', " ")),
                _ => String::new(),
            };
            let what = match *state {
                "open" | "draft" => "changed",
                _ => "since",
            };
            format!("{state}{as_what}, {what} {}", time::short(*since))
        }
        Some(SeenState::Gone { how, looks: 1 }) => format!("gone: it {how}"),
        Some(SeenState::Gone { how, looks }) => format!("gone: it {how}, {looks} times in a row"),
        Some(SeenState::Moved { to }) => format!("moved to {to}"),
    };
    words.push_str(&state);
    if let Some(last) = &view.last {
        let age = time::elapsed(time::between(last.as_of, now));
        let _ = write!(words, "; seen {age} ago");
    }
    if let Some(why) = &view.why {
        let _ = write!(words, "; {why}");
    }
    words
}

/// What is known about a link.
#[derive(Debug, Serialize)]
pub(crate) struct TrackerJson {
    state: Option<&'static str>,
    reason: Option<String>,
    #[serde(serialize_with = "as_full_opt")]
    since: Option<Timestamp>,
    moved_to: Option<String>,
    #[serde(serialize_with = "as_full_opt")]
    as_of: Option<Timestamp>,
    why: Option<String>,
}

impl TrackerJson {
    pub(crate) fn new(view: &LinkView) -> Self {
        let mut json = Self {
            state: None,
            reason: None,
            since: None,
            moved_to: None,
            as_of: view.last.as_ref().map(|last| last.as_of),
            why: view.why.clone(),
        };
        match view.last.as_ref().map(|last| &last.state) {
            None => {}
            Some(SeenState::Is {
                state,
                reason,
                since,
                ..
            }) => {
                json.state = Some(state);
                json.reason = reason.map(str::to_owned);
                json.since = Some(*since);
            }
            Some(SeenState::Gone { how, .. }) => {
                json.state = Some("gone");
                json.reason = Some(how.clone());
            }
            Some(SeenState::Moved { to }) => {
                json.state = Some("moved");
                json.moved_to = Some(to.url());
            }
        }
        json
    }
}

#[cfg(test)]
mod tests {
    use cf_conductor::store::Store;
    use cf_conductor::store::task::TaskSpec;
    use cf_core::{Actor, Link};

    use super::*;
    use crate::render::json::TaskJson;

    #[test]
    fn what_is_known_stays_with_its_link_when_another_one_is_gone() {
        let mut store = Store::in_memory().unwrap();
        let spec = TaskSpec {
            title: "t".to_owned(),
            ..TaskSpec::default()
        };
        let id = store.write(&Actor::Cli, |tx| tx.add_task(&spec)).unwrap();
        let task = store.read(|reader| reader.task(id)).unwrap();
        let links = ["o/r#1", "o/r#2"]
            .map(|text| Link::parse(text, LinkKind::Issue, "github.com").unwrap());
        let views = [LinkView {
            link: links[1].clone(),
            last: None,
            why: Some("no token".to_owned()),
        }];
        let shape = TaskJson::new(&task, &[], &links, 0).with_trackers(&views);
        let shape = serde_json::to_value(shape).unwrap();
        assert!(shape["links"][0].get("tracker").is_none(), "{shape}");
        assert_eq!(shape["links"][1]["tracker"]["why"], "no token");
    }
}
