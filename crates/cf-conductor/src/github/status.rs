//! What is known about GitHub without asking it: token sources, budgets as they were told last, the cache, the circuit.

use std::collections::BTreeMap;
use std::path::Path;

use cf_core::Timestamp;
use cf_github::pace::{Budget, Resource};

use super::{GithubSource, remote_of};
use crate::store::{Result, Store};

/// What is left of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetView {
    /// How much there is in an hour.
    pub limit: u32,
    /// How much is left.
    pub remaining: u32,
    /// When it is full again.
    pub resets_at: Timestamp,
    /// When GitHub said so.
    pub at: Timestamp,
}

impl From<&Budget> for BudgetView {
    fn from(budget: &Budget) -> Self {
        Self {
            limit: budget.limit,
            remaining: budget.remaining,
            resets_at: budget.resets_at,
            at: budget.at,
        }
    }
}

/// One host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostView {
    /// Its name.
    pub host: String,
    /// The variable or command that its token comes from; never the token.
    pub token: Option<&'static str>,
    /// Why it cannot be asked, if it cannot.
    pub refused: Option<String>,
    /// How many links point there.
    pub links: u64,
    /// The budget for GraphQL, if it was told in this hour.
    pub graphql: Option<BudgetView>,
    /// The budget for REST.
    pub rest: Option<BudgetView>,
    /// Why it is not asked for the moment, and until when.
    pub waits: Option<(String, Timestamp)>,
}

/// Everything that `cf github status` shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusView {
    /// The host of short links.
    pub default_host: String,
    /// The repository's GitHub remote.
    pub remote: Option<String>,
    /// The default host, and every host that a link points at.
    pub hosts: Vec<HostView>,
    /// How many answers are cached.
    pub cached: u64,
}

/// Puts together what is known. Asks nothing over the network.
///
/// # Errors
///
/// The store cannot be read.
pub fn status(source: &GithubSource, store: &Store, root: &Path) -> Result<StatusView> {
    let mut links: BTreeMap<String, u64> = BTreeMap::new();
    links.insert(source.default_host().to_owned(), 0);
    let cached = store.read(|reader| {
        for row in reader.all_link_rows()?.into_values().flatten() {
            *links.entry(row.link.host).or_default() += 1;
        }
        source.load(reader)?;
        reader.count_cached_answers()
    })?;
    let refused: BTreeMap<String, String> = source
        .open(links.keys().map(String::as_str))
        .into_iter()
        .collect();
    let known = source.client().status();
    let now = Timestamp::now();
    let hosts = links
        .into_iter()
        .map(|(host, links)| {
            let status = known.iter().find(|status| status.host == host);
            let budget = |resource| {
                status
                    .and_then(|status| status.pace.budget(resource))
                    .filter(|budget| budget.resets_at > now)
                    .map(BudgetView::from)
            };
            HostView {
                token: status.map(|status| status.source.as_str()),
                refused: refused.get(&host).cloned(),
                links,
                graphql: budget(Resource::Graphql),
                rest: budget(Resource::Core),
                waits: status
                    .and_then(|status| status.pace.trouble(now))
                    .map(|(why, until)| (why.to_string(), until)),
                host,
            }
        })
        .collect();
    let default_host = source.default_host().to_owned();
    Ok(StatusView {
        remote: remote_of(root, |host| host == default_host)
            .map(|(host, repo)| format!("{host}/{repo}")),
        default_host,
        hosts,
        cached,
    })
}
