//! Reads GraphQL replies. Everything may be null or missing, and unknown words make an item unknown; nothing here can
//! panic on what a server sends.

use std::collections::HashMap;

use cf_core::Repo;
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::item::Item;
use crate::request::RepoPart;

mod details;
mod error;
mod item;

pub(crate) use details::{CommentPage, DetailsReply, RawActor, Within, comments_of, details, node};
use error::Errors;
pub(crate) use error::GraphqlError;
pub(crate) use item::{issue_state, pr_state};

/// The most values of a reply that are taken apart: a page of issues with everything has about forty thousand. Within
/// the cap of a body there is room for millions, which would take seconds and hundreds of megabytes.
const MOST_VALUES: usize = 250_000;
/// The most errors of a reply that are read. Each field may have one, of a few thousand; more is no reply.
const MOST_ERRORS: usize = 20_000;

/// A reply whose body is JSON: its data, if there is any, and its errors.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The data.
    pub(crate) data: Option<Map<String, Value>>,
    /// The errors.
    pub(crate) errors: Vec<GraphqlError>,
    /// The latest time that something in it can have happened at ([`crate::Headers::latest`]).
    pub(crate) latest: Timestamp,
}

/// What a reply as a whole says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Whole {
    /// There is data; the errors concern parts of it.
    Data,
    /// Too much was asked at once, for certain or as it looks; what data there is can be used.
    TooMuch {
        /// In words.
        how: String,
        /// Whether GitHub named a limit of the query; it has the same vague words for a timeout and for an outage.
        named: bool,
    },
    /// The budget is used up.
    RateLimited,
    /// Too many requests in a short time.
    SecondaryLimit,
    /// A field is not known to this server.
    UnknownField(String),
    /// Nothing of it may be read.
    Forbidden,
    /// No data, for another reason.
    Failed(String),
}

/// Reads a body.
///
/// # Errors
///
/// It is not a JSON object.
pub(crate) fn read(body: &[u8]) -> Result<Reply, String> {
    if values(body) > MOST_VALUES {
        return Err(format!("it has more than {MOST_VALUES} values"));
    }
    let mut whole: Map<String, Value> = match serde_json::from_slice(body) {
        Ok(Value::Object(whole)) => whole,
        Ok(_) => return Err("it is not an object".to_owned()),
        // As proxies and sign-in pages have it.
        Err(_) if body.trim_ascii_start().first() == Some(&b'<') => {
            return Err("it is markup and not JSON".to_owned());
        }
        Err(error) => return Err(error.to_string()),
    };
    let errors = match whole.remove("errors") {
        Some(Value::Array(errors)) if errors.len() > MOST_ERRORS => {
            return Err(format!("it has {} errors", errors.len()));
        }
        Some(Value::Array(errors)) => errors
            .into_iter()
            .map(|error| serde_json::from_value(error).unwrap_or_default())
            .collect(),
        _ => Vec::new(),
    };
    let data = match whole.remove("data") {
        Some(Value::Object(data)) => Some(data),
        // Null, or the text "null" as some 502 replies have it.
        _ => None,
    };
    let mut reply = Reply {
        data,
        errors,
        latest: Timestamp::MAX,
    };
    if reply.data.is_none() && reply.errors.is_empty() {
        // A REST-like error body; its message counts as an error.
        let message = whole.remove("message");
        reply.errors.push(GraphqlError::said(message.as_ref()));
    }
    Ok(reply)
}

/// About how many values a JSON text has: its commas and opening brackets outside strings.
fn values(body: &[u8]) -> usize {
    let mut count = 0;
    let mut at = 0;
    while let Some(&byte) = body.get(at) {
        match byte {
            b'"' => {
                at += 1;
                while let Some(byte) = body.get(at).filter(|byte| **byte != b'"') {
                    at += if *byte == b'\\' { 2 } else { 1 };
                }
            }
            b',' | b'[' | b'{' => count += 1,
            _ => {}
        }
        at += 1;
    }
    count
}

impl Reply {
    /// Says what the reply as a whole means.
    pub(crate) fn whole(&self) -> Whole {
        for error in &self.errors {
            let message = error.message().to_ascii_lowercase();
            match error.kind() {
                "RESOURCE_LIMITS_EXCEEDED" | "MAX_NODE_LIMIT_EXCEEDED" | "ARGUMENT_LIMIT" => {
                    return Whole::TooMuch {
                        how: error.message().to_owned(),
                        named: true,
                    };
                }
                "RATE_LIMITED" | "graphql_rate_limit" if self.data.is_none() => {
                    return Whole::RateLimited;
                }
                "undefinedField" => return Whole::UnknownField(error.message().to_owned()),
                _ => {}
            }
            if self.data.is_some() {
                continue;
            }
            if message.contains("secondary rate") || message.contains("abuse detection") {
                return Whole::SecondaryLimit;
            }
            if message.contains("rate limit") && message.contains("exceeded") {
                return Whole::RateLimited;
            }
            if message.contains("cannot query field") || message.contains("doesn't exist on type") {
                return Whole::UnknownField(error.message().to_owned());
            }
            if message.contains("timeout") || message.contains("something went wrong") {
                return Whole::TooMuch {
                    how: error.message().to_owned(),
                    named: false,
                };
            }
        }
        if self.data.is_some() {
            return Whole::Data;
        }
        if self.errors.iter().any(GraphqlError::is_forbidden) {
            return Whole::Forbidden;
        }
        Whole::Failed(
            self.errors
                .iter()
                .map(GraphqlError::message)
                .find(|message| !message.is_empty())
                .unwrap_or("a reply without data")
                .to_owned(),
        )
    }

    /// Whether it says that something is not there, as far as this token sees.
    pub(crate) fn says_missing(&self) -> bool {
        self.errors.iter().any(GraphqlError::is_missing)
    }

    /// What the request cost, in points.
    pub(crate) fn cost(&self) -> Option<u32> {
        let cost = self
            .data
            .as_ref()?
            .get("rateLimit")?
            .get("cost")?
            .as_u64()?;
        u32::try_from(cost).ok()
    }
}

/// What a reply says about one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// It stands so.
    Is(Item),
    /// There is no such number, as far as this token sees.
    Missing,
    /// Its repository is not there, as far as this token sees.
    RepoMissing,
    /// It may not be read.
    Forbidden,
    /// The reply says nothing usable, and why.
    Unreadable(String),
}

/// What a reply says about one repository.
#[derive(Debug)]
pub(crate) struct RepoReply {
    /// The items that were asked for by number, each with what is told about it. Those without a word are left out.
    pub(crate) numbered: HashMap<u64, Told>,
    /// The items that changed, and whether nothing was left out; nothing when that was not asked.
    pub(crate) changed: Option<Changed>,
}

/// The list of what changed in a repository.
#[derive(Debug)]
pub(crate) struct Changed {
    /// The items in the list.
    pub(crate) items: Vec<Item>,
    /// Whether the list goes back to the time that was asked for.
    pub(crate) complete: bool,
}

/// Reads the reply to [`crate::request::Query::Items`], one answer for each part, in order.
pub(crate) fn items(reply: &mut Reply, parts: &[RepoPart]) -> Vec<RepoReply> {
    let mut data = reply.data.take().unwrap_or_default();
    let errors = Errors::of(reply);
    parts
        .iter()
        .enumerate()
        .map(|(r, part)| repo(&format!("r{r}"), part, &mut data, &errors))
        .collect()
}

fn repo(
    alias: &str,
    part: &RepoPart,
    data: &mut Map<String, Value>,
    errors: &Errors<'_>,
) -> RepoReply {
    let of = |path: &[&str]| errors.at.get(path).copied();
    let mut numbered = HashMap::new();
    let fields = match data.remove(alias) {
        // Data beside an error that names the same place contradicts it; neither is believed.
        Some(Value::Object(_)) if of(&[alias]).is_some() => Err(true),
        Some(Value::Object(fields)) => Ok(fields),
        _ => Err(false),
    };
    let mut fields = match fields {
        Ok(fields) => fields,
        Err(contradicts) => {
            let told = match of(&[alias]) {
                Some(error) if contradicts => Some(error.beside_data()),
                Some(error) if error.is_forbidden() => Some(Told::Forbidden),
                Some(error) if error.is_missing() => Some(Told::RepoMissing),
                Some(error) => Some(Told::Unreadable(error.message().to_owned())),
                // Not a word about it: it was left out, and is asked for again.
                None => None,
            };
            if let Some(told) = told {
                numbered = part
                    .numbers
                    .iter()
                    .map(|number| (*number, told.clone()))
                    .collect();
            }
            return RepoReply {
                numbered,
                changed: part.changed_since.map(|_| Changed {
                    items: Vec::new(),
                    complete: false,
                }),
            };
        }
    };
    let home = fields
        .get("nameWithOwner")
        .and_then(Value::as_str)
        .and_then(|name| name.parse().ok())
        .unwrap_or_else(|| part.repo.clone());
    for number in &part.numbers {
        let key = format!("i{number}");
        let told = match fields.remove(&key) {
            Some(value @ Value::Object(_)) => Some(match errors.of_item(alias, &key) {
                Some(error) => error.beside_data(),
                None => item::read(value, &home, Some(*number), errors.latest),
            }),
            // Null is no word about it, and asked for again; anything else is no item.
            Some(value) if !value.is_null() && of(&[alias, &key]).is_none() => {
                Some(Told::Unreadable("something that is no item".to_owned()))
            }
            _ => match of(&[alias, &key]) {
                Some(error) if error.is_missing() => Some(Told::Missing),
                Some(error) if error.is_forbidden() => Some(Told::Forbidden),
                Some(error) => Some(Told::Unreadable(error.message().to_owned())),
                None => None,
            },
        };
        if let Some(told) = told {
            numbered.insert(*number, told);
        }
    }
    let changed = part
        .changed_since
        .map(|since| changed(&mut fields, alias, errors, &home, since));
    RepoReply { numbered, changed }
}

fn changed(
    fields: &mut Map<String, Value>,
    alias: &str,
    errors: &Errors<'_>,
    home: &Repo,
    since: Timestamp,
) -> Changed {
    let mut items = Vec::new();
    let mut complete = true;
    // An error anywhere within a list may have cost it an entry, or be about one that is there: its items are asked for
    // by number.
    for list in ["issues", "pullRequests"] {
        if errors.within.contains(&[alias, list]) {
            complete = false;
            continue;
        }
        let Some(Value::Object(mut list_value)) = fields.remove(list) else {
            complete = false;
            continue;
        };
        let more = list_value
            .get("pageInfo")
            .and_then(|page| page.get("hasNextPage"))
            .and_then(Value::as_bool);
        let Some(Value::Array(nodes)) = list_value.remove("nodes") else {
            complete = false;
            continue;
        };
        let mut oldest: Option<Timestamp> = None;
        for mut node in nodes {
            if let Value::Object(fields) = &mut node {
                let kind = if list == "issues" {
                    "Issue"
                } else {
                    "PullRequest"
                };
                fields.insert("__typename".to_owned(), kind.into());
            }
            match item::read(node, home, None, errors.latest) {
                Told::Is(item) => {
                    oldest = Some(oldest.map_or(item.updated_at, |at| at.min(item.updated_at)));
                    items.push(item);
                }
                _ => complete = false,
            }
        }
        complete &= match more {
            Some(false) => true,
            // Pull requests come newest first, without regard to the time asked for.
            Some(true) => list == "pullRequests" && oldest.is_some_and(|at| at < since),
            None => false,
        };
    }
    Changed { items, complete }
}

#[cfg(test)]
mod tests;
