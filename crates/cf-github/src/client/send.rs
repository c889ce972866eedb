//! Sending one request: the gate, the floor, one retry, and what its end means for the pace.

use std::time::Instant;

use governor::clock::{Clock as _, DefaultClock};
use jiff::{SignedDuration, Timestamp};

use super::host::Host;
use super::locked;
use crate::answer::Why;
use crate::chunk::SMALLEST;
use crate::pace::{Headers, Resource, Signal, classify};
use crate::reply::{self, Reply, Whole};
use crate::request::Query;
use crate::rest::RestLook;
use crate::wire::{Raw, WireError};

/// Why a query brought no usable reply.
#[derive(Debug)]
pub(crate) enum Miss {
    /// It asked for too much at once. What came all the same is here, and whether that is certain or it only looks so.
    TooMuch {
        /// Data for a part of it.
        partial: Option<Reply>,
        /// In words.
        how: String,
        /// Whether GitHub named a limit of the query, or the reply was too long.
        named: bool,
    },
    /// None of it may be read.
    Forbidden,
    /// The server does not know a field.
    UnknownField(String),
    /// Nothing more may be sent now.
    Stop(Why),
}

/// How one try went.
enum Tried {
    Reply(Reply),
    Miss(Miss),
    Failed(String, Headers),
}

impl Host {
    /// Sends a query about `size` things, once more if it fails in a way that has nothing to do with its size.
    ///
    /// # Errors
    ///
    /// There is no usable reply.
    pub(crate) async fn query(&self, query: &Query, size: usize) -> Result<Reply, Miss> {
        match self.try_query(query, size).await {
            Tried::Reply(reply) => return Ok(reply),
            Tried::Miss(miss) => return Err(miss),
            // GitHub has said when to come back.
            Tried::Failed(how, headers) if headers.retry_after.is_some() => {
                return Err(Miss::Stop(self.failed(&how, &headers)));
            }
            Tried::Failed(how, _) => {
                tracing::debug!(host = self.name(), how, "request failed; once more");
            }
        }
        tokio::time::sleep(self.settings.retry_delay).await;
        match self.try_query(query, size).await {
            Tried::Reply(reply) => Ok(reply),
            Tried::Miss(miss) => Err(miss),
            Tried::Failed(how, headers) => Err(Miss::Stop(self.failed(&how, &headers))),
        }
    }

    async fn try_query(&self, query: &Query, size: usize) -> Tried {
        if let Some(why) = self.gate(Resource::Graphql).why() {
            return Tried::Miss(Miss::Stop(why));
        }
        self.wait_for_floor().await;
        locked(&self.sent).graphql += 1;
        let too_much = |how: String, named: bool| {
            // With so few, the size is not to blame.
            if size <= SMALLEST as usize {
                Tried::Failed(how, Headers::default())
            } else {
                Tried::Miss(Miss::TooMuch {
                    partial: None,
                    how,
                    named,
                })
            }
        };
        let sent = self.wire.graphql(&query.document()).await;
        *locked(&self.ended) = Some(Instant::now());
        let raw = match sent {
            Ok(raw) => raw,
            Err(error @ WireError::TimedOut) => return too_much(error.to_string(), false),
            Err(error @ WireError::TooLong(_)) => return too_much(error.to_string(), true),
            Err(WireError::Broken(how)) => return Tried::Failed(how, Headers::default()),
        };
        self.note_skew(&raw.headers);
        if raw.status != 200 {
            let message = start_of(&raw.body);
            return match classify(raw.status, &raw.headers, &message) {
                Signal::Failed(how)
                    if matches!(raw.status, 502 | 504) && raw.headers.retry_after.is_none() =>
                {
                    too_much(how, false)
                }
                Signal::Failed(how) => Tried::Failed(how, raw.headers),
                Signal::Answered => {
                    Tried::Failed(format!("GitHub answered {}", raw.status), raw.headers)
                }
                Signal::Forbidden => {
                    self.note(Resource::Graphql, &Signal::Forbidden, &raw.headers);
                    Tried::Miss(Miss::Forbidden)
                }
                signal => Tried::Miss(self.stopped(Resource::Graphql, &signal, &raw.headers)),
            };
        }
        self.read(raw, size)
    }

    /// Reads a reply with status 200, which says little by itself.
    fn read(&self, raw: Raw, size: usize) -> Tried {
        let reply = match reply::read(&raw.body) {
            Ok(reply) => Reply {
                latest: raw.headers.latest(Timestamp::now()),
                ..reply
            },
            Err(why) => {
                return Tried::Failed(format!("its reply cannot be read: {why}"), raw.headers);
            }
        };
        match reply.whole() {
            Whole::Data => {
                let cost = reply.cost().unwrap_or(1);
                locked(&self.sent).points += u64::from(cost);
                self.note(Resource::Graphql, &Signal::Answered, &raw.headers);
                Tried::Reply(reply)
            }
            Whole::TooMuch { how, .. } if size <= 1 => {
                Tried::Failed(self.redacted(&how), raw.headers)
            }
            Whole::TooMuch { how, named } => Tried::Miss(Miss::TooMuch {
                how: self.redacted(&how),
                named,
                partial: reply.data.is_some().then_some(reply),
            }),
            Whole::RateLimited => {
                Tried::Miss(self.stopped(Resource::Graphql, &Signal::RateLimited, &raw.headers))
            }
            Whole::SecondaryLimit => {
                Tried::Miss(self.stopped(Resource::Graphql, &Signal::SecondaryLimit, &raw.headers))
            }
            Whole::UnknownField(how) => {
                self.note(Resource::Graphql, &Signal::Answered, &raw.headers);
                Tried::Miss(Miss::UnknownField(self.redacted(&how)))
            }
            Whole::Forbidden => {
                self.note(Resource::Graphql, &Signal::Forbidden, &raw.headers);
                Tried::Miss(Miss::Forbidden)
            }
            Whole::Failed(how) => Tried::Failed(self.redacted(&how), raw.headers),
        }
    }

    /// Sends a REST look.
    ///
    /// # Errors
    ///
    /// There is no reply about the item.
    pub(crate) async fn rest(&self, look: &RestLook) -> Result<Raw, Why> {
        if let Some(why) = self.gate(Resource::Core).why() {
            return Err(why);
        }
        self.wait_for_floor().await;
        locked(&self.sent).rest += 1;
        let sent = self.wire.rest(look).await;
        *locked(&self.ended) = Some(Instant::now());
        let raw = sent.map_err(|error| Why::Failed(error.to_string()))?;
        self.note_skew(&raw.headers);
        let signal = classify(raw.status, &raw.headers, &start_of(&raw.body));
        match signal {
            Signal::Answered | Signal::Forbidden => {
                self.note(Resource::Core, &signal, &raw.headers);
                Ok(raw)
            }
            // GraphQL may be well: only this look has failed.
            Signal::Failed(how) => Err(Why::Failed(how)),
            Signal::RateLimited | Signal::SecondaryLimit | Signal::Rejected => {
                self.note(Resource::Core, &signal, &raw.headers);
                Err(self
                    .gate(Resource::Core)
                    .why()
                    .unwrap_or_else(|| Why::Failed("GitHub asks to wait".to_owned())))
            }
        }
    }

    /// A request has failed for good; the circuit opens.
    pub(crate) fn failed(&self, how: &str, headers: &Headers) -> Why {
        let how = self.redacted(how);
        self.note(Resource::Graphql, &Signal::Failed(how.clone()), headers);
        self.gate(Resource::Graphql)
            .why()
            .unwrap_or(Why::Failed(how))
    }

    fn stopped(&self, resource: Resource, signal: &Signal, headers: &Headers) -> Miss {
        self.note(resource, signal, headers);
        let why = self.gate(resource).why();
        Miss::Stop(why.unwrap_or_else(|| Why::Failed("GitHub asks to wait".to_owned())))
    }

    fn note(&self, resource: Resource, signal: &Signal, headers: &Headers) {
        let notice = locked(&self.pace).after(
            resource,
            signal,
            headers,
            &self.settings.patience,
            Timestamp::now(),
            jitter(),
        );
        self.pace_changed();
        self.notices.push(self.name(), notice);
    }

    fn note_skew(&self, headers: &Headers) {
        if let Some(date) = headers.date {
            *locked(&self.skew) = date.duration_since(Timestamp::now());
        }
    }

    pub(super) fn skew(&self) -> SignedDuration {
        *locked(&self.skew)
    }

    fn redacted(&self, text: &str) -> String {
        self.wire.access().token.in_words(text)
    }

    /// Waits until the floor between two requests has passed, counted from the last start by the governor's own clock,
    /// and from the last end: a request that was slow to arrive must not be followed too soon either.
    async fn wait_for_floor(&self) {
        let ended = *locked(&self.ended);
        if let Some(ended) = ended {
            let left = self.settings.floor.saturating_sub(ended.elapsed());
            if !left.is_zero() {
                tokio::time::sleep(left).await;
            }
        }
        while let Err(early) = self.floor.check() {
            tokio::time::sleep(early.wait_time_from(DefaultClock::default().now())).await;
        }
    }
}

/// The start of a body, enough to recognize a message.
fn start_of(body: &[u8]) -> String {
    String::from_utf8_lossy(&body[..body.len().min(4096)]).into_owned()
}

/// A number between 0 and 1 that differs from call to call; nothing depends on it being hard to guess.
fn jitter() -> f64 {
    use std::hash::{BuildHasher, Hasher};
    let random = std::hash::RandomState::new().build_hasher().finish();
    (random >> 11) as f64 / (1_u64 << 53) as f64
}
