//! A filter in the words that GitHub takes, some of which have to be looked up.

use serde_json::{Map, Value, json};

use super::{ImportError, IssueStates, Listing, read};
use crate::answer::Why;
use crate::client::Miss;
use crate::request::Query;

impl Listing {
    /// Turns the filter into the words that GitHub takes, which may need a look-up.
    pub(super) async fn filter_words(&self) -> Result<Map<String, Value>, ImportError> {
        let mut words = Map::new();
        let states: &[&str] = match self.filter.states {
            IssueStates::Open => &["OPEN"],
            IssueStates::Closed => &["CLOSED"],
            IssueStates::All => &["OPEN", "CLOSED"],
        };
        words.insert("states".to_owned(), json!(states));
        if !self.filter.labels.is_empty() {
            words.insert("labels".to_owned(), json!(self.filter.labels));
        }
        match self.filter.assignee.as_deref() {
            None => {}
            Some("@me") => {
                words.insert("assignee".to_owned(), self.viewer().await?.into());
            }
            Some(login) => {
                words.insert("assignee".to_owned(), login.into());
            }
        }
        match self.filter.milestone.as_deref() {
            None => {}
            Some(number) if number == "*" || number.parse::<u32>().is_ok() => {
                words.insert("milestoneNumber".to_owned(), number.into());
            }
            Some(title) => {
                let number = self.milestone(title).await?;
                words.insert("milestoneNumber".to_owned(), number.to_string().into());
            }
        }
        Ok(words)
    }

    async fn viewer(&self) -> Result<String, ImportError> {
        let reply = self
            .host
            .query(&Query::Viewer, 1)
            .await
            .map_err(|miss| self.failed(miss))?;
        read::viewer(&reply).ok_or_else(|| {
            self.failed(Miss::Stop(Why::Unreadable(
                "a reply without the account".to_owned(),
            )))
        })
    }

    async fn milestone(&self, title: &str) -> Result<u64, ImportError> {
        let query = Query::Milestones {
            repo: self.repo.clone(),
            text: title.to_owned(),
        };
        let reply = self
            .host
            .query(&query, 1)
            .await
            .map_err(|miss| self.failed(miss))?;
        let known = read::milestones(&reply).ok_or_else(|| ImportError::NoRepository {
            host: self.host.access_host().to_owned(),
            repo: self.repo.clone(),
        })?;
        known
            .iter()
            .find(|(_, name)| name == title)
            .or_else(|| {
                known
                    .iter()
                    .find(|(_, name)| name.eq_ignore_ascii_case(title))
            })
            .map(|(number, _)| *number)
            .ok_or_else(|| ImportError::NoMilestone {
                repo: self.repo.clone(),
                title: title.to_owned(),
                titles: known.into_iter().map(|(_, name)| name).collect(),
            })
    }
}
