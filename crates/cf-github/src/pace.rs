//! When the next request may go out. Pure: the state, what a reply's headers say, and the time give the next state.
//!
//! Three things hold requests back: the budget less a reserve for others who use the same token, a pause that GitHub
//! asked for, and a circuit that opens when requests fail. All three end by themselves, and every wait is between a
//! second and an hour, whatever a header says. Waits are counted from the reply's own `Date`, so that a clock that goes
//! wrong here does no harm.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::answer::{NoticeKind, Why};
use crate::chunk::Chunk;
use crate::time::{between, later};

mod headers;

pub use headers::{Headers, Signal, classify};

/// The shortest and the longest wait.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_hours(1);
/// The first wait after a secondary limit that names none, and the longest before three in a row.
const SECONDARY: Duration = Duration::from_mins(1);
const SECONDARY_LONGEST: Duration = Duration::from_mins(15);

/// The two budgets that a token has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// GraphQL's points.
    Graphql,
    /// REST's requests.
    Core,
}

/// What is left of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// How much there is in an hour.
    pub limit: u32,
    /// How much is left.
    pub remaining: u32,
    /// When it is full again, by this machine's clock.
    pub resets_at: Timestamp,
    /// When GitHub said so, by this machine's clock.
    pub at: Timestamp,
}

/// How patient requests are. The defaults are right for GitHub; tests use shorter waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// How much of each budget is left to others, 0 to 100.
    pub reserve_percent: u8,
    /// The wait after the first failure; it doubles with each further one.
    pub first_backoff: Duration,
    /// The longest wait between failures.
    pub longest_backoff: Duration,
    /// How many failures in a row are worth a word to a person.
    pub announce_after: u32,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            reserve_percent: 20,
            first_backoff: Duration::from_secs(2),
            longest_backoff: Duration::from_mins(5),
            announce_after: 1,
        }
    }
}

/// Why requests wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// The budget is used up.
    RateLimit,
    /// Only the reserve for others is left of the budget.
    Reserve,
    /// GitHub asks for fewer requests.
    SecondaryLimit,
    /// Requests fail; the text says how, without secrets.
    Failing(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RateLimit => f.write_str("its rate limit is used up"),
            Self::Reserve => f.write_str("the rest of its rate limit is reserved for others"),
            Self::SecondaryLimit => f.write_str("it asks for fewer requests (secondary limit)"),
            Self::Failing(how) => write!(f, "requests fail: {how}"),
        }
    }
}

/// An open circuit, or a pause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Open {
    why: Trouble,
    until: Timestamp,
    announced: bool,
}

/// Everything that decides when the next request may go out, for one host and token.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pace {
    graphql: Option<Budget>,
    core: Option<Budget>,
    open: Option<Open>,
    failures: u32,
    strikes: u32,
    /// When a request last ended; the newer of two states is the true one.
    changed_at: Option<Timestamp>,
    /// The size of requests.
    pub(crate) chunk: Chunk,
    /// A rejected token is remembered by this process only: the next one may be started with a renewed one.
    #[serde(skip)]
    rejected: bool,
}

/// Whether a request may go out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// It may.
    Go,
    /// Not now.
    Wait {
        /// Until when.
        until: Timestamp,
        /// Why.
        why: Trouble,
    },
    /// Not in this process.
    Off,
}

impl Gate {
    /// Why nothing is known, when the gate is shut.
    pub(crate) fn why(&self) -> Option<Why> {
        match self {
            Self::Go => None,
            Self::Wait { until, why } => Some(Why::Waiting {
                until: *until,
                why: why.clone(),
            }),
            Self::Off => Some(Why::TokenRejected),
        }
    }
}

impl Pace {
    /// What is left of a budget, if GitHub has said.
    pub const fn budget(&self, resource: Resource) -> Option<&Budget> {
        match resource {
            Resource::Graphql => self.graphql.as_ref(),
            Resource::Core => self.core.as_ref(),
        }
    }

    /// Whether the circuit is open or a pause holds, and until when.
    pub fn trouble(&self, now: Timestamp) -> Option<(&Trouble, Timestamp)> {
        self.open
            .as_ref()
            .filter(|open| holds(open.until, now))
            .map(|open| (&open.why, open.until))
    }

    /// Decides whether a request may go out now. Once a wait is over one may: how it ends decides what comes then.
    pub fn gate(&self, resource: Resource, patience: &Patience, now: Timestamp) -> Gate {
        if self.rejected {
            return Gate::Off;
        }
        if let Some((why, until)) = self.trouble(now) {
            return Gate::Wait {
                until,
                why: why.clone(),
            };
        }
        match self.budget(resource) {
            Some(budget) if budget.is_spent(patience) && holds(budget.resets_at, now) => {
                Gate::Wait {
                    until: budget.resets_at,
                    why: if budget.remaining == 0 {
                        Trouble::RateLimit
                    } else {
                        Trouble::Reserve
                    },
                }
            }
            _ => Gate::Go,
        }
    }

    /// Takes in how a request ended, and returns what a person should hear of it, if anything.
    ///
    /// `jitter` is between 0 and 1 and spreads the ends of waits, so that many clients do not come back at once.
    pub fn after(
        &mut self,
        resource: Resource,
        signal: &Signal,
        headers: &Headers,
        patience: &Patience,
        now: Timestamp,
        jitter: f64,
    ) -> Option<NoticeKind> {
        self.changed_at = Some(now);
        let budget = headers.budget(now);
        if let Some(budget) = budget {
            match headers.resource.unwrap_or(resource) {
                Resource::Graphql => self.graphql = Some(budget),
                Resource::Core => self.core = Some(budget),
            }
        }
        let spread =
            Duration::from_secs(1) + Duration::from_secs(5).mul_f64(jitter.clamp(0.0, 1.0));
        match signal {
            Signal::Answered => {
                self.failures = 0;
                self.strikes = 0;
                let spent = budget.filter(|budget| {
                    resource == Resource::Graphql
                        && headers.resource.unwrap_or(resource) == Resource::Graphql
                        && budget.is_spent(patience)
                        && holds(budget.resets_at, now)
                });
                if let Some(budget) = spent {
                    let until = clamp(later(budget.resets_at, spread), now);
                    return self.open(Trouble::Reserve, until, true);
                }
                let open = self.open.take()?;
                open.announced.then_some(NoticeKind::Closed)
            }
            Signal::RateLimited => {
                let wait = headers
                    .retry_after
                    .map(|wait| later(now, wait))
                    .or(budget.map(|budget| budget.resets_at))
                    .unwrap_or_else(|| later(now, SECONDARY));
                let until = clamp(later(wait, spread), now);
                if headers.resource.unwrap_or(resource) == Resource::Core {
                    // REST is asked rarely; GraphQL has a budget of its own and goes on.
                    self.core = Some(Budget {
                        limit: self.core.map_or(0, |budget| budget.limit),
                        remaining: 0,
                        resets_at: until,
                        at: now,
                    });
                    return None;
                }
                self.open(Trouble::RateLimit, until, true)
            }
            Signal::SecondaryLimit => {
                self.strikes = self.strikes.saturating_add(1);
                let doubled = SECONDARY
                    .saturating_mul(1 << (self.strikes - 1).min(10))
                    .min(SECONDARY_LONGEST);
                let wait = if self.strikes >= 3 {
                    LONGEST
                } else {
                    headers.retry_after.map_or(doubled, |named| {
                        if self.strikes > 1 {
                            named.max(doubled)
                        } else {
                            named
                        }
                    })
                };
                let until = clamp(later(later(now, wait), spread), now);
                self.open(Trouble::SecondaryLimit, until, true)
            }
            Signal::Failed(how) => {
                self.failures = self.failures.saturating_add(1);
                let wait = headers.retry_after.unwrap_or_else(|| {
                    patience
                        .first_backoff
                        .saturating_mul(1 << (self.failures - 1).min(16))
                        .min(patience.longest_backoff)
                });
                let wait = wait + wait.mul_f64(jitter.clamp(0.0, 1.0) / 4.0);
                let until = later(now, wait.min(LONGEST));
                self.open(
                    Trouble::Failing(how.clone()),
                    until,
                    self.failures >= patience.announce_after,
                )
            }
            Signal::Rejected => {
                let first = !self.rejected;
                self.rejected = true;
                first.then_some(NoticeKind::Off {
                    why: Why::TokenRejected,
                })
            }
            Signal::Forbidden => None,
        }
    }

    fn open(&mut self, why: Trouble, until: Timestamp, announce: bool) -> Option<NoticeKind> {
        let already = self.open.as_ref().is_some_and(|open| open.announced);
        self.open = Some(Open {
            why: why.clone(),
            until,
            announced: already || announce,
        });
        (announce && !already).then_some(NoticeKind::Opened { why, until })
    }

    /// Takes in what another process learned with the same token, as far as it is newer, and returns what a person
    /// should hear of it, if anything.
    pub fn merge(&mut self, other: &Self) -> Option<NoticeKind> {
        for (mine, theirs) in [
            (&mut self.graphql, other.graphql),
            (&mut self.core, other.core),
        ] {
            if let Some(theirs) = theirs
                && mine.is_none_or(|mine| mine.at < theirs.at)
            {
                *mine = Some(theirs);
            }
        }
        self.chunk.merge(other.chunk);
        if other.changed_at <= self.changed_at {
            return None;
        }
        self.changed_at = other.changed_at;
        self.failures = other.failures;
        self.strikes = other.strikes;
        match (&other.open, self.open.take()) {
            (None, mine) => mine
                .is_some_and(|mine| mine.announced)
                .then_some(NoticeKind::Closed),
            (Some(theirs), mine) => {
                let said = mine.is_some_and(|mine| mine.announced);
                self.open = Some(Open {
                    announced: said || theirs.announced,
                    ..theirs.clone()
                });
                (theirs.announced && !said).then(|| NoticeKind::Opened {
                    why: theirs.why.clone(),
                    until: theirs.until,
                })
            }
        }
    }

    /// The time to leave between two passes, so that the budget above the reserve lasts until it is full again; at
    /// least `configured`. `cost` is what a pass costs, in points.
    pub fn interval(
        &self,
        configured: Duration,
        cost: u32,
        patience: &Patience,
        now: Timestamp,
    ) -> Duration {
        let Some(budget) = self.graphql.filter(|budget| holds(budget.resets_at, now)) else {
            return configured;
        };
        let passes = budget.remaining.saturating_sub(budget.reserve(patience)) / cost.max(1);
        let spread = between(now, budget.resets_at) / passes.max(1);
        configured.max(spread.min(LONGEST))
    }
}

impl Budget {
    /// How much is left to others.
    fn reserve(&self, patience: &Patience) -> u32 {
        let percent = u64::from(patience.reserve_percent.min(100));
        (u64::from(self.limit) * percent).div_ceil(100) as u32
    }

    /// Whether no more than the reserve is left.
    fn is_spent(&self, patience: &Patience) -> bool {
        self.remaining <= self.reserve(patience)
    }
}

/// Whether a wait until then still holds. One that is further away than any wait can be comes from a clock that was set
/// back, and does not.
fn holds(until: Timestamp, now: Timestamp) -> bool {
    now < until && between(now, until) <= LONGEST + Duration::from_mins(1)
}

/// Keeps the end of a wait between the shortest and the longest.
fn clamp(until: Timestamp, now: Timestamp) -> Timestamp {
    later(now, between(now, until).clamp(SHORTEST, LONGEST))
}

#[cfg(test)]
mod tests;
