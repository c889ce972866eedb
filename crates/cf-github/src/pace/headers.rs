//! What a reply's status, headers and message mean for the pace. Pure.

use std::time::Duration;

use jiff::Timestamp;

use super::{Budget, LONGEST, Resource, SHORTEST};
use crate::time::{between, http_date, later};

/// Clocks that differ by more than this are not believed: with them, no certificate would be valid either.
const ODD_CLOCK: Duration = Duration::from_hours(30 * 24);
/// The clocks of a server's machines differ by less.
const SLACK: Duration = Duration::from_mins(10);
/// Where the server does not say what time it is, only its times themselves tell how its clock goes.
const SLACK_WITHOUT_DATE: Duration = Duration::from_hours(24);

/// The headers of a reply that matter, read once. Whatever cannot be read is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// The server's own time, unless it is too far from ours to be believed.
    pub date: Option<Timestamp>,
    /// How long to wait, a second to an hour; it comes as a number of seconds or as a date.
    pub retry_after: Option<Duration>,
    /// `x-ratelimit-limit`.
    pub limit: Option<u32>,
    /// `x-ratelimit-remaining`.
    pub remaining: Option<u32>,
    /// `x-ratelimit-reset`, in seconds since 1970 by the server's clock.
    pub reset: Option<i64>,
    /// Which budget these three are about.
    pub resource: Option<Resource>,
    /// Where a redirect points.
    pub location: Option<String>,
    /// The validator of a conditional request.
    pub etag: Option<String>,
    /// Whether an organization asks for single sign-on.
    pub sso: bool,
}

impl Headers {
    /// Reads the headers; `get` returns the value of one by its name in lower case.
    pub fn read<'a>(now: Timestamp, get: impl Fn(&str) -> Option<&'a str>) -> Self {
        // The one place where it is judged: whatever reckons with a time that is off by years, reckons wrong.
        let date = get("date")
            .and_then(http_date)
            .filter(|date| between(now, *date).max(between(*date, now)) < ODD_CLOCK);
        let number = |name| get(name).and_then(|text| text.trim().parse::<i64>().ok());
        let small = |name| number(name).and_then(|n| u32::try_from(n).ok());
        Self {
            date,
            retry_after: get("retry-after").and_then(|text| retry_after(text, date.unwrap_or(now))),
            limit: small("x-ratelimit-limit"),
            remaining: small("x-ratelimit-remaining"),
            reset: number("x-ratelimit-reset"),
            resource: match get("x-ratelimit-resource") {
                Some("graphql") => Some(Resource::Graphql),
                Some("core") => Some(Resource::Core),
                _ => None,
            },
            location: get("location").map(str::to_owned),
            etag: get("etag").map(str::to_owned),
            sso: get("x-github-sso").is_some_and(|text| text.contains("required")),
        }
    }

    /// The latest time that something on the server can have happened at: a time after it is no time.
    ///
    /// What is remembered as seen up to a time in the future would hide everything until then.
    pub fn latest(&self, now: Timestamp) -> Timestamp {
        match self.date {
            Some(date) => later(date, SLACK),
            None => later(now, SLACK_WITHOUT_DATE),
        }
    }

    /// The budget, if all three numbers are there. Its reset is told by this machine's clock.
    pub fn budget(&self, now: Timestamp) -> Option<Budget> {
        let reset = Timestamp::from_second(self.reset?).ok()?;
        let wait = between(self.date.unwrap_or(now), reset).min(LONGEST);
        Some(Budget {
            limit: self.limit?,
            remaining: self.remaining?,
            resets_at: later(now, wait),
            at: now,
        })
    }
}

/// Reads `Retry-After`: seconds, or a date that is compared with the server's own.
fn retry_after(text: &str, server_now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    let wait = if let Ok(seconds) = text.parse::<u64>() {
        Duration::from_secs(seconds)
    } else {
        between(server_now, http_date(text)?)
    };
    Some(wait.clamp(SHORTEST, LONGEST))
}

/// How a request ended, for the pace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// GitHub answered; what it said is another matter.
    Answered,
    /// The budget is used up.
    RateLimited,
    /// Too many requests in a short time.
    SecondaryLimit,
    /// The token is no good.
    Rejected,
    /// This repository, or organization, is not for this token.
    Forbidden,
    /// Anything else that went wrong, in words without secrets.
    Failed(String),
}

/// Tells what a status and message mean. `message` is the start of the body, or the errors of a GraphQL reply.
///
/// A permission is told from a limit by what GitHub documents: no budget left, `Retry-After`, or its words.
pub fn classify(status: u16, headers: &Headers, message: &str) -> Signal {
    let message = message.to_ascii_lowercase();
    let secondary = message.contains("secondary rate") || message.contains("abuse detection");
    match status {
        200..=299 | 304 => Signal::Answered,
        401 => Signal::Rejected,
        403 | 429 if secondary => Signal::SecondaryLimit,
        403 | 429 if headers.remaining == Some(0) => Signal::RateLimited,
        403 if headers.sso => Signal::Forbidden,
        403 | 429 if headers.retry_after.is_some() => Signal::SecondaryLimit,
        403 if message.contains("rate limit") => Signal::RateLimited,
        429 => Signal::SecondaryLimit,
        403 => Signal::Forbidden,
        404 | 410 | 301 | 302 | 307 | 308 => Signal::Answered,
        _ => Signal::Failed(format!("GitHub answered {status}")),
    }
}
