//! GitHub for the rest of this crate and for commands: one client for the process, with what it knows kept in the
//! store.
//!
//! A [`GithubSource`] is made without any cost; the client of a host is built when a link of that host is first met.
//! What it learns is shared with every other process of the workspace through the store's cache, in which there is no
//! token and no comment. Nothing here decides what an answer means.

mod cache;
mod import;
mod links;
mod remote;
mod status;

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cf_core::{TaskId, Timestamp};
use cf_github::{
    Environment, GitHub, HostAccess, HostError, NamedHosts, Notice, NoticeKind, Patience,
    Settings as ClientSettings,
};
use cf_reconcile::ClosedUnmerged;

use crate::conductor::event_loop;
use crate::settings::{CommentsFrom, Settings};
use crate::source::GitHubReconciler;

pub use cache::look_up;
pub(crate) use cache::{comments_of, keep, store_comments};
pub use import::{
    ImportProgress, ImportRequest, Imported, ImportedTask, IssueFilter, IssueStates, import,
};
pub use links::{LastSeen, LinkView, SeenState, links_of};
pub use remote::remote_of;
pub use status::{BudgetView, HostView, StatusView, status};

/// The host of links that name none.
pub const DEFAULT_HOST: &str = "github.com";

/// Where GitHub may be asked, and how gently.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The environment of the process.
    pub environment: Vec<(OsString, OsString)>,
    /// Another address of the API, from the user's own configuration; the variable `GITHUB_API_URL` goes before it.
    pub api_url: Option<String>,
    /// Enterprise servers that the user's own configuration names.
    pub hosts: Vec<String>,
    /// Whether `gh auth token` may be asked when no variable has a token.
    pub ask_gh: bool,
    /// How much of each rate limit is left to others, in percent.
    pub reserve_percent: u8,
}

impl Access {
    fn variables(&self) -> Environment {
        let mut variables: HashMap<String, String> = self
            .environment
            .iter()
            // A value that is no text is kept as one that is refused, rather than taken for none.
            .filter_map(|(name, value)| {
                Some((
                    name.to_str()?.to_owned(),
                    value.to_string_lossy().into_owned(),
                ))
            })
            .collect();
        if let Some(url) = &self.api_url
            && variables.get("GITHUB_API_URL").is_none_or(String::is_empty)
        {
            variables.insert("GITHUB_API_URL".to_owned(), url.clone());
        }
        variables.into_iter().collect()
    }
}

/// The host on which short links such as `owner/repo#12` live: by the environment, else by the user's own
/// configuration.
pub fn default_host(access: &Access) -> String {
    access.variables().default_host()
}

/// How findings are made, from the settings of whoever asks.
#[derive(Clone, Debug)]
struct Policy {
    /// How old an answer may be; zero switches the source off.
    interval: Duration,
    closed_unmerged: ClosedUnmerged,
    settle: Duration,
    comments_from: CommentsFrom,
}

/// Which hosts may be asked with which token, found out once for each.
struct Hosts {
    variables: Environment,
    named: NamedHosts,
    /// The environment for `gh auth token`, when that may be asked.
    gh: Option<Vec<(OsString, OsString)>>,
    resolved: Mutex<HashMap<String, Result<HostAccess, HostError>>>,
}

impl Hosts {
    fn resolve(&self, host: &str) -> Result<HostAccess, HostError> {
        if let Some(known) = locked(&self.resolved).get(host) {
            return known.clone();
        }
        let found = HostAccess::resolve(host, &self.variables, &self.named, |host| {
            let environment = self.gh.as_ref()?;
            cf_github::token_from_gh(Path::new("gh"), host, environment.iter().cloned())
        });
        locked(&self.resolved).insert(host.to_owned(), found.clone());
        found
    }
}

struct Inner {
    client: GitHub,
    hosts: Arc<Hosts>,
    /// Hosts about which it was said already why they are not asked.
    said: Mutex<HashSet<String>>,
    default_host: String,
    patience: Patience,
    policy: Mutex<Policy>,
    /// Up to when the store's cache was read, in milliseconds since 1970.
    loaded_ms: Mutex<Option<i64>>,
    /// When the look was asked whose answers are being taken in right now: however long it took, they are fresh.
    arrived: Mutex<Option<Timestamp>>,
    /// Tasks whose agents have time to end by themselves, and until when.
    settling: Mutex<HashMap<TaskId, Timestamp>>,
}

/// GitHub as this process asks it. Clones share everything.
#[derive(Clone)]
pub struct GithubSource(Arc<Inner>);

impl std::fmt::Debug for GithubSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("GithubSource").field(&self.0.client).finish()
    }
}

impl GithubSource {
    /// A source that has asked nothing yet, and opened nothing.
    pub fn new(access: &Access) -> Self {
        let default_host = default_host(access);
        let variables = access.variables();
        let named: NamedHosts = access
            .hosts
            .iter()
            .map(|host| (host.to_ascii_lowercase(), None))
            .collect();
        let hosts = Arc::new(Hosts {
            variables,
            named,
            gh: access.ask_gh.then(|| access.environment.clone()),
            resolved: Mutex::default(),
        });
        let patience = Patience {
            reserve_percent: access.reserve_percent,
            ..Patience::default()
        };
        let settings = ClientSettings {
            patience,
            ..ClientSettings::default()
        };
        let client = GitHub::new(settings, {
            let hosts = Arc::clone(&hosts);
            move |host| hosts.resolve(host)
        });
        let defaults = Settings::default();
        Self(Arc::new(Inner {
            client,
            hosts,
            said: Mutex::default(),
            default_host,
            patience,
            policy: Mutex::new(Policy {
                interval: defaults.reconcile_interval,
                closed_unmerged: defaults.github.closed_unmerged,
                settle: defaults.github.settle,
                comments_from: defaults.github.comments_from,
            }),
            loaded_ms: Mutex::new(None),
            arrived: Mutex::new(None),
            settling: Mutex::default(),
        }))
    }

    /// The source as one of the registry's.
    pub fn reconciler(&self) -> GitHubReconciler {
        GitHubReconciler::new(self.clone())
    }

    /// The host on which short links live.
    pub fn default_host(&self) -> &str {
        &self.0.default_host
    }

    /// Makes findings by the settings of a batch from now on. An interval of zero switches the source off.
    pub fn configure(&self, settings: &Settings) {
        *locked(&self.0.policy) = Policy {
            interval: settings.reconcile_interval,
            closed_unmerged: settings.github.closed_unmerged,
            settle: settings.github.settle,
            comments_from: settings.github.comments_from,
        };
    }

    /// The variable or command that the token for a host comes from, or why it cannot be asked. Builds nothing and
    /// sends nothing. Whoever asks says it, so that it is not said again.
    ///
    /// # Errors
    ///
    /// The host was not named, there is no token for it, or one that cannot be used.
    pub fn check(&self, host: &str) -> Result<&'static str, String> {
        match self.0.hosts.resolve(host) {
            Ok(access) => Ok(access.source.as_str()),
            Err(error) => {
                locked(&self.0.said).insert(host.to_owned());
                Err(error.to_string())
            }
        }
    }

    /// Asks a host what its token may do, for at most `limit`.
    ///
    /// # Errors
    ///
    /// In words: there is no token, it is refused, or there is no answer in time.
    pub fn scopes(&self, host: &str, limit: Duration) -> Result<cf_github::Scopes, String> {
        let access = self
            .0
            .hosts
            .resolve(host)
            .map_err(|error| error.to_string())?;
        let runtime = event_loop().map_err(|error| crate::chain(&error))?;
        runtime.block_on(cf_github::scopes(access, limit))
    }

    /// Sets hosts up without asking them anything. Returns, for each that cannot be asked, why.
    pub fn open<'h>(&self, hosts: impl IntoIterator<Item = &'h str>) -> Vec<(String, String)> {
        let refused = hosts
            .into_iter()
            .filter_map(|host| Some((host.to_owned(), self.0.client.open(host).err()?)))
            .collect();
        // Whoever opens says it.
        self.0.client.take_notices();
        refused
    }

    /// The variable or command that the token of a host came from; nothing when the host was not opened.
    pub fn token_source(&self, host: &str) -> Option<&'static str> {
        self.0
            .client
            .status()
            .into_iter()
            .find(|status| status.host == host)
            .map(|status| status.source.as_str())
    }

    pub(crate) fn client(&self) -> &GitHub {
        &self.0.client
    }

    pub(crate) fn is_on(&self) -> bool {
        !locked(&self.0.policy).interval.is_zero()
    }

    pub(crate) fn closed_unmerged(&self) -> ClosedUnmerged {
        locked(&self.0.policy).closed_unmerged
    }

    pub(crate) fn comments_from(&self) -> CommentsFrom {
        locked(&self.0.policy).comments_from
    }

    pub(crate) fn settle(&self) -> Duration {
        locked(&self.0.policy).settle
    }

    /// The time to leave between two looks at a host, so that its budget lasts.
    pub(crate) fn interval(&self, host: &str) -> Duration {
        let configured = locked(&self.0.policy).interval;
        self.0.client.interval(host, configured)
    }

    /// How old an answer about a host may be to be acted upon.
    pub(crate) fn fresh_within(&self, host: &str) -> Duration {
        let interval = self.interval(host);
        match *locked(&self.0.arrived) {
            None => interval,
            Some(asked_at) => {
                let since = Timestamp::now().duration_since(asked_at);
                interval.max(Duration::try_from(since).unwrap_or_default())
            }
        }
    }

    /// While a look's answers are taken in, they are as fresh as when they were asked for.
    pub(crate) fn taking_in(&self, asked_at: Option<Timestamp>) {
        let mut arrived = locked(&self.0.arrived);
        *arrived = match (*arrived, asked_at) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (_, asked_at) => asked_at,
        };
    }

    /// Notes until when a task's agent has time to end by itself, or that it has none.
    pub(crate) fn note_settling(&self, task: TaskId, until: Option<Timestamp>) {
        let mut settling = locked(&self.0.settling);
        match until {
            Some(until) => {
                settling.insert(task, until);
            }
            // Of most tasks it was never said.
            None if settling.is_empty() => {}
            None => {
                settling.remove(&task);
            }
        }
    }

    /// Takes the tasks whose agents had their time to end by themselves; they are to be asked about again.
    pub(crate) fn take_settled(&self) -> Vec<TaskId> {
        let mut settling = locked(&self.0.settling);
        if settling.is_empty() {
            return Vec::new();
        }
        let now = Timestamp::now();
        settling
            .extract_if(|_, until| *until <= now)
            .map(|(task, _)| task)
            .collect()
    }

    /// How long until the next of them has had its time.
    pub(crate) fn settles_in(&self) -> Option<Duration> {
        let next = locked(&self.0.settling).values().min().copied()?;
        let left = next.duration_since(Timestamp::now());
        Some(Duration::try_from(left).unwrap_or_default())
    }

    pub(crate) fn take_notices(&self) -> Vec<Notice> {
        let mut notices = self.0.client.take_notices();
        let said = locked(&self.0.said);
        notices.retain(|notice| {
            let is_why = matches!(
                &notice.what,
                NoticeKind::Off {
                    why: cf_github::Why::Host(_)
                }
            );
            !(is_why && said.contains(&notice.host))
        });
        notices
    }
}

/// Locks for a few instructions. A panic elsewhere leaves nothing half done in what these locks guard.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
