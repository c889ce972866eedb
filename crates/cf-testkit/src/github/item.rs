//! What the scripted GitHub is made of, and what can go wrong with it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An issue.
    Issue,
    /// A pull request.
    PullRequest,
}

/// Where an item is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// Here.
    #[default]
    Here,
    /// In another repository, under another number.
    Moved(String, u64),
    /// Deleted: 410.
    Deleted,
    /// Not for this token: 404.
    Hidden,
    /// Found by REST and not by GraphQL.
    RestOnly,
    /// Behind single sign-on: `FORBIDDEN`.
    Protected,
}

/// An issue or pull request. Fields are GitHub's words, so that a test can also write words that nobody knows.
#[derive(Clone, Debug)]
pub struct Item {
    /// What it is.
    pub kind: Kind,
    /// Its number.
    pub number: u64,
    /// Its title.
    pub title: String,
    /// Its text.
    pub body: String,
    /// `OPEN`, `CLOSED` or `MERGED`.
    pub state: String,
    /// `COMPLETED`, `NOT_PLANNED`, `DUPLICATE`, or nothing.
    pub reason: Option<String>,
    /// Whether it is a draft.
    pub draft: bool,
    /// The author's login; nothing when the account is gone.
    pub author: Option<String>,
    /// How the author stands to the repository.
    pub association: String,
    /// Its labels.
    pub labels: Vec<String>,
    /// The number and title of its milestone.
    pub milestone: Option<(u64, String)>,
    /// The logins of its assignees.
    pub assignees: Vec<String>,
    /// The issues that block it: repository and number.
    pub blocked_by: Vec<(String, u64)>,
    /// The pull requests that close it: repository and number.
    pub closing: Vec<(String, u64)>,
    /// Where it is.
    pub place: Place,
    pub(super) updated_at: u64,
    pub(super) created_at: u64,
    pub(super) closed_at: Option<u64>,
    pub(super) comments: Vec<Comment>,
}

/// A comment. `author` and `kind` decide whether a program wrote it.
#[derive(Clone, Debug)]
pub struct Comment {
    /// Its id.
    pub id: String,
    /// The author's login; nothing when the account is gone.
    pub author: Option<String>,
    /// `User` or `Bot`.
    pub kind: String,
    /// How the author stands to the repository.
    pub association: String,
    /// Whether the token's own account wrote it.
    pub own: bool,
    /// Its text.
    pub body: String,
    /// When it was written, in seconds since 1970.
    pub created_at: u64,
    /// When it was edited.
    pub edited_at: Option<u64>,
}

/// What goes wrong with a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// A reply with this status, these headers and this body.
    Reply(u16, Vec<(String, String)>, String),
    /// The connection is reset before a reply.
    Reset,
    /// The reply ends in the middle.
    Truncated,
    /// Nothing comes back for so long; then the connection is closed.
    Silence(Duration),
    /// The right reply, so much later.
    Late(Duration),
    /// A reply of so many bytes.
    Huge(usize),
    /// `RESOURCE_LIMITS_EXCEEDED` for more than so many items in one document, `true` with data for those that fit.
    TooMuch(usize, bool),
    /// The right reply, as this makes it.
    Edited(fn(&mut Value)),
    /// The other fault, for requests alone whose body holds this text.
    Holding(String, Box<Fault>),
}

impl Fault {
    /// A reply with this status, a JSON message, and headers written `name: value`.
    pub fn status(status: u16, message: &str, headers: &[&str]) -> Self {
        let headers = headers
            .iter()
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let body = serde_json::json!({ "message": message }).to_string();
        Self::Reply(status, headers, body)
    }

    /// A reply with status 200 and this body.
    pub fn body(body: &str) -> Self {
        Self::Reply(200, Vec::new(), body.to_owned())
    }
}

/// A request that was received.
#[derive(Clone, Debug)]
pub struct Received {
    /// When its last byte came.
    pub at: Instant,
    /// `GET` or `POST`.
    pub method: String,
    /// The path, as sent.
    pub path: String,
    /// Headers by their name in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: String,
}

/// What is left of the two budgets.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// How much there is in an hour.
    pub limit: u32,
    /// How much is left.
    pub remaining: u32,
    /// How many seconds from now it is full again.
    pub resets_in: i64,
}
