//! The client: asks about many links, for many callers, with as few requests as will do.
//!
//! What several callers want at the same time is gathered into one pass per host; whoever comes while a pass runs finds
//! its answers in the cache. A look never waits for a pause or a closed circuit: it answers from what is known, and
//! says why the rest is not. Nothing here prints; what a person should hear comes out of [`GitHub::take_notices`].

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use cf_core::Link;
use jiff::Timestamp;

use crate::answer::{Answer, LinkAsk, Notice, NoticeKind, Why};
use crate::host::{HostAccess, HostError};
use crate::pace::{Pace, Patience};
use crate::saved::Saved;
use crate::wire::{Limits, Wire};

mod host;
mod keep;
mod pass;
mod send;

pub(crate) use host::Host;
pub(crate) use send::Miss;

/// How the client behaves. The defaults are right for GitHub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Reserve and back-off.
    pub patience: Patience,
    /// Limits of a single request.
    pub limits: Limits,
    /// The shortest time between two requests to one host.
    pub floor: Duration,
    /// The wait before a request that failed is sent once more.
    pub retry_delay: Duration,
    /// For how long a pass over what is wanted begins requests; two thirds of it are for the states of items, the rest
    /// is for what comes after them. What it did not come to is unknown ([`Why::NotAsked`]) and comes first in the
    /// next.
    pub pass_limit: Duration,
    /// About how many bytes of answers are kept in memory for each host.
    pub cache_bytes: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            patience: Patience::default(),
            limits: Limits::default(),
            floor: Duration::from_millis(100),
            retry_delay: Duration::from_secs(1),
            // A thousand links take three seconds, so only a server that hardly answers takes a minute.
            pass_limit: Duration::from_mins(1),
            cache_bytes: 64 * 1024 * 1024,
        }
    }
}

/// Finds out where and with which token a host may be asked; called once for each host, outside any lock. It may block
/// for as long as it takes to ask a command for a token.
pub type Resolve = dyn Fn(&str) -> Result<HostAccess, HostError> + Send + Sync;

/// GitHub, on however many hosts. Cheap to share behind an [`Arc`].
pub struct GitHub {
    settings: Settings,
    resolve: Box<Resolve>,
    hosts: Mutex<HashMap<String, Result<Arc<Host>, String>>>,
    /// Saved state of hosts that nobody has asked yet.
    waiting: Mutex<HashMap<String, Saved>>,
    notices: Arc<Notices>,
}

/// What people should hear, in order.
#[derive(Default)]
pub(crate) struct Notices(Mutex<Vec<Notice>>);

impl Notices {
    pub(crate) fn push(&self, host: &str, what: Option<NoticeKind>) {
        if let Some(what) = what {
            locked(&self.0).push(Notice {
                host: host.to_owned(),
                what,
            });
        }
    }
}

/// What `cf github status` shows about a host.
#[derive(Clone, Debug)]
pub struct HostStatus {
    /// The host.
    pub host: String,
    /// Where its token was found.
    pub source: crate::TokenSource,
    /// Budget, pause and circuit.
    pub pace: Pace,
    /// How many answers are cached.
    pub cached: u64,
    /// What was sent in this process.
    pub sent: Sent,
}

/// What was sent to a host in this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// GraphQL requests.
    pub graphql: u64,
    /// REST requests.
    pub rest: u64,
    /// GraphQL points that they cost.
    pub points: u64,
}

impl GitHub {
    /// A client that has asked nothing yet.
    pub fn new(
        settings: Settings,
        resolve: impl Fn(&str) -> Result<HostAccess, HostError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            settings,
            resolve: Box::new(resolve),
            hosts: Mutex::default(),
            waiting: Mutex::default(),
            notices: Arc::default(),
        }
    }

    /// Sets a host up without asking it anything, so that later looks need not.
    ///
    /// # Errors
    ///
    /// It may not be asked, and why, in words. The first time, that is a notice too.
    pub fn open(&self, host: &str) -> Result<(), String> {
        self.host(host).map(|_| ())
    }

    /// Answers every question, in order, from the cache where that is fresh enough and by asking where it is not.
    ///
    /// Takes as long as the requests do, at most [`Settings::pass_limit`] and the two tries of the last request, and as
    /// long again when another caller's pass is under way. Dropping it loses nothing but the reply of the request that
    /// is under way. Never fails: what could not be read is unknown.
    pub async fn look(&self, asks: &[LinkAsk]) -> Vec<Answer> {
        let mut groups: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, ask) in asks.iter().enumerate() {
            groups.entry(&ask.link.host).or_default().push(at);
        }
        let mut answers: Vec<Option<Answer>> = asks.iter().map(|_| None).collect();
        let mut looks = Vec::new();
        for (name, places) in groups {
            let some: Vec<&LinkAsk> = places.iter().map(|at| &asks[*at]).collect();
            match self.host(name) {
                Ok(host) => looks.push(async move { (places, host.look(&some).await) }),
                Err(why) => {
                    for at in places {
                        answers[at] = Some(host_unknown(&why));
                    }
                }
            }
        }
        for (places, some) in all(looks).await {
            for (at, answer) in places.into_iter().zip(some) {
                answers[at] = Some(answer);
            }
        }
        answers
            .into_iter()
            .map(|answer| answer.expect("every ask is in one host's group"))
            .collect()
    }

    /// Answers every question, in order and as the answers are taken, from the cache alone.
    pub fn peek<L: Borrow<Link>>(
        &self,
        asks: impl IntoIterator<Item = LinkAsk<L>>,
    ) -> impl Iterator<Item = Answer> {
        let now = Timestamp::now();
        // A few, so that looking through them is faster than anything else.
        let mut hosts: Vec<(String, Result<Arc<Host>, String>)> = Vec::new();
        asks.into_iter().map(move |ask| {
            let name = &ask.link.borrow().host;
            let at = hosts.iter().position(|(known, _)| known == name);
            let at = at.unwrap_or_else(|| {
                hosts.push((name.clone(), self.host(name)));
                hosts.len() - 1
            });
            match &hosts[at].1 {
                Ok(host) => host.answer(&ask, now),
                Err(why) => host_unknown(why),
            }
        })
    }

    /// Takes in what was saved, as far as it is newer than what is known and was read with the same token. What stood
    /// in the way of somebody else is for showing, and stays out.
    pub fn load(&self, saved: Saved) {
        let mut parts: HashMap<String, Saved> = HashMap::new();
        for snapshot in saved.snapshots {
            let part = parts.entry(snapshot.host.clone()).or_default();
            part.snapshots.push(snapshot);
        }
        for mark in saved.marks {
            parts.entry(mark.host.clone()).or_default().marks.push(mark);
        }
        for state in saved.hosts {
            parts
                .entry(state.host.clone())
                .or_default()
                .hosts
                .push(state);
        }
        for (name, part) in parts {
            let host = match locked(&self.hosts).get(&name) {
                Some(Ok(host)) => Some(Arc::clone(host)),
                Some(Err(_)) | None => None,
            };
            if let Some(host) = host {
                host.load(part);
            } else {
                let mut waiting = locked(&self.waiting);
                let known = waiting.entry(name).or_default();
                known.snapshots.extend(part.snapshots);
                known.marks.extend(part.marks);
                known.hosts.extend(part.hosts);
            }
        }
    }

    /// Notes that nobody waits any longer for the answer to a question that was asked so long ago.
    pub fn give_up(&self, link: &Link, waited: Duration) {
        if let Some(Ok(host)) = locked(&self.hosts).get(&link.host) {
            host.unanswered(&host::key_of(link), waited);
        }
    }

    /// What was learned since the last call, to be saved.
    pub fn take_changed(&self) -> Saved {
        let hosts: Vec<Arc<Host>> = self.opened();
        let mut saved = Saved::default();
        for host in hosts {
            host.take_changed(&mut saved);
        }
        saved
    }

    /// What people should hear, since the last call.
    pub fn take_notices(&self) -> Vec<Notice> {
        std::mem::take(&mut *locked(&self.notices.0))
    }

    /// The time to leave between two passes over the links of `host`, so that its budget lasts: `configured` or more.
    pub fn interval(&self, host: &str, configured: Duration) -> Duration {
        match locked(&self.hosts).get(host) {
            Some(Ok(host)) => host.interval(configured),
            Some(Err(_)) | None => configured,
        }
    }

    /// Until when requests to the host of `link` wait, if they do.
    pub fn waits_until(&self, link: &Link) -> Option<Timestamp> {
        match locked(&self.hosts).get(&link.host) {
            Some(Ok(host)) => host.waits_until(Timestamp::now()),
            Some(Err(_)) | None => None,
        }
    }

    /// The hosts that were set up so far.
    pub fn status(&self) -> Vec<HostStatus> {
        self.opened().iter().map(|host| host.status()).collect()
    }

    fn opened(&self) -> Vec<Arc<Host>> {
        let mut hosts: Vec<Arc<Host>> = locked(&self.hosts)
            .values()
            .filter_map(|host| host.as_ref().ok().cloned())
            .collect();
        hosts.sort_by(|a, b| a.name().cmp(b.name()));
        hosts
    }

    pub(crate) fn host(&self, name: &str) -> Result<Arc<Host>, String> {
        if let Some(host) = locked(&self.hosts).get(name) {
            return host.clone();
        }
        let made = (self.resolve)(name)
            .map_err(|error| error.to_string())
            .and_then(|access| Wire::new(access, self.settings.limits))
            .map(|wire| Arc::new(Host::new(wire, self.settings, Arc::clone(&self.notices))));
        let host = {
            let mut hosts = locked(&self.hosts);
            if let Some(other) = hosts.get(name) {
                return other.clone();
            }
            hosts.insert(name.to_owned(), made.clone());
            made
        };
        match &host {
            Ok(host) => {
                if let Some(saved) = locked(&self.waiting).remove(name) {
                    host.load(saved);
                }
            }
            Err(why) => self.notices.push(
                name,
                Some(NoticeKind::Off {
                    why: Why::Host(why.clone()),
                }),
            ),
        }
        host
    }
}

impl std::fmt::Debug for GitHub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let hosts: HashSet<String> = locked(&self.hosts).keys().cloned().collect();
        f.debug_struct("GitHub")
            .field("settings", &self.settings)
            .field("hosts", &hosts)
            .finish_non_exhaustive()
    }
}

fn host_unknown(why: &str) -> Answer {
    Answer::Unknown {
        why: Why::Host(why.to_owned()),
        last: None,
    }
}

/// Takes a host's turn to send.
pub(crate) async fn locked_pass(host: &Host) -> tokio::sync::MutexGuard<'_, ()> {
    host.pass.lock().await
}

/// Locks for a few instructions. A panic elsewhere leaves nothing half done in what these locks guard.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for all of them at once.
async fn all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut futures: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    let mut done: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        let mut pending = false;
        for (future, done) in futures.iter_mut().zip(&mut done) {
            if done.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(output) => *done = Some(output),
                    Poll::Pending => pending = true,
                }
            }
        }
        if pending {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
    done.into_iter()
        .map(|output| output.expect("the wait ends when all are done"))
        .collect()
}
