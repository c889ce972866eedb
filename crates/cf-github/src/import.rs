//! Lists the issues of a repository, page by page, with everything that a task can be made from.
//!
//! Unlike a look, a listing is something that a person waits for: what goes wrong is an error. Pages of a hundred, so a
//! thousand issues cost ten requests, eleven where the server does not know dependencies between issues, and one more
//! for a milestone given by its title or for `@me`.

use std::collections::HashSet;
use std::sync::Arc;

use cf_core::Repo;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::answer::Why;
use crate::client::{GitHub, Host, Miss, locked_pass};
use crate::item::{Association, Comment, ItemState};
use crate::reply::Reply;
use crate::request::{IssuePage, Query};

mod read;
mod words;

use read::NoPage;
pub use read::blockers_named_in;

/// The most issues of a page.
const PAGE: u32 = 100;
/// The fewest; whatever fails with so few does not fail for its size.
const SMALLEST_PAGE: u32 = 5;

/// How many more issues may be listed than GitHub counted.
const MORE_THAN_TOLD: u64 = 1000;
/// How often a page that came to nothing without a named reason is taken for too large.
const GUESSES: u32 = 2;
/// How many issues one listing reads at most: GitHub's largest repositories have more, which nobody makes tasks of.
const MOST_ISSUES: usize = 50_000;
/// How many bytes of texts one listing brings at most: whoever makes tasks of them keeps them all in memory. That is 5
/// KiB for each of fifty thousand issues, several times what issues usually have.
const MOST_BYTES: usize = 256 * 1024 * 1024;
/// How many pages in a row may bring nothing new.
const IDLE_PAGES: u32 = 3;

/// Which issues are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IssueFilter {
    /// Only issues that have all of these labels, by name, without regard to case.
    pub labels: Vec<String>,
    /// Only issues of this milestone: its number, its title, or `*` for any.
    pub milestone: Option<String>,
    /// Only issues of this assignee: a login, `@me`, or `*` for anybody.
    pub assignee: Option<String>,
    /// Open ones, closed ones, or both.
    pub states: IssueStates,
    /// At most so many.
    pub limit: Option<usize>,
    /// How many of each issue's newest comments come along, at most 100.
    pub comments: u32,
}

/// Open issues, closed ones, or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IssueStates {
    /// Open ones.
    #[default]
    Open,
    /// Closed ones.
    Closed,
    /// Both.
    All,
}

/// An issue with what a task can be made from. All texts are foreign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedIssue {
    /// GitHub's global id of it.
    pub node_id: String,
    /// Its number.
    pub number: u64,
    /// Its title.
    pub title: String,
    /// Its text, as written; GitHub allows 65,536 characters.
    pub body: String,
    /// The address that a person can open.
    pub url: String,
    /// Where it stands.
    pub state: ItemState,
    /// The names of its labels.
    pub labels: Vec<String>,
    /// The title of its milestone.
    pub milestone: Option<String>,
    /// The logins of its assignees.
    pub assignees: Vec<String>,
    /// Its author's login; missing when the account is gone.
    pub author: Option<String>,
    /// How the author stands to the repository.
    pub association: Association,
    /// When it was opened.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// The issues that block it, by the tracker's word. Empty where the server does not know such relations.
    pub blocked_by: Vec<Blocking>,
    /// Its newest comments, oldest first, as many as were asked for; nothing when none were, or one of them cannot
    /// be read: a list that is not whole would hide what it leaves out.
    pub comments: Option<Vec<Comment>>,
}

impl ImportedIssue {
    /// How many bytes its texts have.
    fn bytes(&self) -> usize {
        let names = self.labels.iter().chain(&self.assignees);
        let comments = self.comments.iter().flatten();
        self.title.len()
            + self.body.len()
            + self.url.len()
            + names.map(String::len).sum::<usize>()
            + comments.map(|comment| comment.body.len()).sum::<usize>()
    }
}

/// An issue that blocks another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocking {
    /// Its repository.
    pub repo: Repo,
    /// Its number.
    pub number: u64,
    /// Whether it is open still.
    pub open: bool,
}

/// A page of issues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The issues, oldest first.
    pub issues: Vec<ImportedIssue>,
    /// How many more there were that cannot be read.
    pub unreadable: usize,
    /// How many GitHub says there are in all, before filters that it does not know; for showing progress.
    pub total: Option<u64>,
}

/// Why a listing ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The host may not be asked.
    #[error("{0}")]
    Host(String),
    /// The repository is not there, or not for this token.
    #[error("{host}/{repo} does not exist, or the token cannot see it")]
    NoRepository {
        /// The host.
        host: String,
        /// The repository.
        repo: Repo,
    },
    /// No milestone has this title.
    #[error("{repo} has no milestone {title:?}{}", known(.titles))]
    NoMilestone {
        /// The repository.
        repo: Repo,
        /// The title that was given.
        title: String,
        /// Titles that are like it.
        titles: Vec<String>,
    },
    /// There are more than one listing brings.
    #[error("{repo} has {what}: too many to be listed at once")]
    TooMany {
        /// The repository.
        repo: Repo,
        /// More of what than may be.
        what: String,
    },
    /// A request failed, or may not be sent now.
    #[error("the issues of {repo} cannot be read: {why}")]
    Failed {
        /// The repository.
        repo: Repo,
        /// Why.
        why: Why,
    },
}

fn known(titles: &[String]) -> String {
    if titles.is_empty() {
        String::new()
    } else {
        format!("; there is {}", titles.join(", "))
    }
}

/// How much one listing brings.
#[derive(Clone, Copy, Debug)]
struct Most {
    issues: usize,
    bytes: usize,
}

/// A listing under way.
#[derive(Debug)]
pub struct Listing {
    host: Arc<Host>,
    repo: Repo,
    filter: IssueFilter,
    /// GitHub's filter, once milestone and assignee are known by the words that it takes.
    asked: Option<Map<String, Value>>,
    after: Option<String>,
    first: u32,
    blocked_by: bool,
    left: usize,
    /// The issues that were read, at most [`Most::issues`].
    numbers: HashSet<u64>,
    /// How many bytes of texts were brought, at most [`Most::bytes`].
    bytes: usize,
    /// How many issues GitHub said there are, when it last did.
    total: Option<u64>,
    most: Most,
    /// How many pages in a row brought nothing new.
    idle: u32,
    done: bool,
}

impl GitHub {
    /// Begins to list the issues of a repository; nothing is sent before [`Listing::next`].
    ///
    /// # Errors
    ///
    /// The host may not be asked.
    pub fn list_issues(
        &self,
        host: &str,
        repo: Repo,
        filter: IssueFilter,
    ) -> Result<Listing, ImportError> {
        let host = self.host(host).map_err(ImportError::Host)?;
        Ok(Listing {
            host,
            repo,
            left: filter.limit.unwrap_or(usize::MAX),
            filter,
            asked: None,
            after: None,
            first: PAGE,
            blocked_by: true,
            numbers: HashSet::new(),
            bytes: 0,
            total: None,
            most: Most {
                issues: MOST_ISSUES,
                bytes: MOST_BYTES,
            },
            idle: 0,
            done: false,
        })
    }
}

impl Listing {
    /// Reads the next page; nothing after the last one.
    ///
    /// # Errors
    ///
    /// The repository or milestone is not there, there are more than fifty thousand issues or 256 MiB of text, or a
    /// request failed. Calling again tries the same page once more.
    pub async fn next(&mut self) -> Result<Option<Page>, ImportError> {
        if self.done || self.left == 0 {
            return Ok(None);
        }
        let host = Arc::clone(&self.host);
        let _sending = locked_pass(&host).await;
        let asked = if let Some(asked) = &self.asked {
            asked.clone()
        } else {
            let asked = self.filter_words().await?;
            self.asked.insert(asked).clone()
        };
        let mut reply = self.page(asked).await?;
        let page = read::page(&mut reply).map_err(|why| match why {
            NoPage::NoRepository => ImportError::NoRepository {
                host: self.host.access_host().to_owned(),
                repo: self.repo.clone(),
            },
            NoPage::Unreadable(how) => self.unreadable(how),
        })?;
        self.goes_on(&page)?;
        self.after = page.next;
        self.done = self.after.is_none();
        let mut issues: Vec<ImportedIssue> = page
            .issues
            .into_iter()
            .filter(|issue| has_all(&issue.labels, &self.filter.labels))
            .collect();
        issues.truncate(self.left);
        self.left -= issues.len();
        self.bytes += issues.iter().map(ImportedIssue::bytes).sum::<usize>();
        if self.bytes > self.most.bytes {
            return Err(self.too_many(format!(
                "issues with more than {} MiB of text",
                self.most.bytes >> 20
            )));
        }
        Ok(Some(Page {
            issues,
            unreadable: page.unreadable,
            total: page.total,
        }))
    }

    /// Refuses pages that would never end: such as lead to themselves, bring nothing new, or more than GitHub says
    /// there is.
    fn goes_on(&mut self, page: &read::RawPage) -> Result<(), ImportError> {
        let known = self.numbers.len();
        self.numbers
            .extend(page.issues.iter().map(|issue| issue.number));
        self.idle = if self.numbers.len() == known {
            self.idle + 1
        } else {
            0
        };
        self.total = page.total.or(self.total);
        if self.numbers.len() > self.most.issues {
            return Err(self.too_many(format!("more than {} issues", self.most.issues)));
        }
        if page.next.is_none() {
            return Ok(());
        }
        let Some(total) = self.total else {
            return Err(self.unreadable("pages that do not say how many issues there are"));
        };
        let in_a_circle = page.next == self.after || self.idle > IDLE_PAGES;
        // Issues are opened while they are listed.
        let too_many = self.numbers.len() as u64 > total.saturating_add(MORE_THAN_TOLD);
        if in_a_circle || too_many {
            return Err(self.unreadable("pages without end"));
        }
        Ok(())
    }

    fn too_many(&self, what: String) -> ImportError {
        let repo = self.repo.clone();
        ImportError::TooMany { repo, what }
    }

    fn unreadable(&self, how: &str) -> ImportError {
        self.failed(Miss::Stop(Why::Unreadable(how.to_owned())))
    }

    /// Sends the request for a page, with fewer issues or without dependencies where the server asks for that.
    async fn page(&mut self, filter: Map<String, Value>) -> Result<Reply, ImportError> {
        let mut guesses = 0;
        loop {
            let first = self
                .first
                .min(u32::try_from(self.left).unwrap_or(PAGE))
                .max(1);
            let query = Query::Issues(IssuePage {
                repo: self.repo.clone(),
                filter: filter.clone(),
                after: self.after.clone(),
                // With labels to be checked here, a short page would cost more requests.
                first: if self.filter.labels.is_empty() {
                    first
                } else {
                    self.first
                },
                comments: self.filter.comments.min(100),
                blocked_by: self.blocked_by,
            });
            match self.host.query(&query, self.first as usize * 10).await {
                Ok(reply) => return Ok(reply),
                // A server that says nothing is asked for less only so often: somebody waits.
                Err(Miss::TooMuch { named, .. })
                    if self.first > SMALLEST_PAGE && (named || guesses < GUESSES) =>
                {
                    guesses += u32::from(!named);
                    self.first = (self.first / 2).max(SMALLEST_PAGE);
                }
                Err(Miss::UnknownField(_)) if self.blocked_by => self.blocked_by = false,
                Err(miss) => return Err(self.failed(miss)),
            }
        }
    }

    fn failed(&self, miss: Miss) -> ImportError {
        let why = match miss {
            Miss::Stop(why) => why,
            Miss::TooMuch { how, .. } => Why::Failed(how),
            Miss::Forbidden => Why::Failed("the token may not read them".to_owned()),
            Miss::UnknownField(how) => Why::Unreadable(how),
        };
        ImportError::Failed {
            repo: self.repo.clone(),
            why: self.host.in_words(why),
        }
    }
}

fn has_all(labels: &[String], wanted: &[String]) -> bool {
    wanted.iter().all(|wanted| {
        labels
            .iter()
            .any(|label| label.eq_ignore_ascii_case(wanted))
    })
}
