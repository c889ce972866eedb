//! Which hosts may be asked, where their API is, and whose token goes there. Pure.
//!
//! The rule throughout: a token goes only to the host that it was given for. Where an API is comes from the host's
//! name, from the environment, or from the user's own configuration; a workspace's file has no say.

use std::collections::BTreeMap;
use std::fmt;

use reqwest::Url;

use crate::token::{Token, TokenChoice, TokenError, TokenSource, choose_token};

/// The variables that this crate reads, by name; everything else is left out.
const READ: [&str; 8] = [
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GH_ENTERPRISE_TOKEN",
    "GITHUB_ENTERPRISE_TOKEN",
    "GH_HOST",
    "GITHUB_API_URL",
    "GITHUB_GRAPHQL_URL",
    "GITHUB_SERVER_URL",
];

/// The part of the environment that matters here. Prints only the names.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<&'static str, String>);

impl Environment {
    /// The value of a variable; nothing when it is unset or empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .get(name)
            .map(String::as_str)
            .filter(|text| !text.is_empty())
    }

    /// The host that short links such as `owner/repo#12` live on: `GH_HOST`, else the server that `GITHUB_API_URL`
    /// belongs to, else `github.com`.
    pub fn default_host(&self) -> String {
        self.named_host()
            .or_else(|| self.server())
            .unwrap_or_else(|| GITHUB.to_owned())
    }

    /// The host that `GH_HOST` names. It is a name, but an address of it is taken for that, as by `gh`.
    fn named_host(&self) -> Option<String> {
        let name = self.get("GH_HOST")?.trim().to_ascii_lowercase();
        let name = name
            .strip_prefix("https://")
            .or_else(|| name.strip_prefix("http://"))
            .unwrap_or(&name)
            .trim_end_matches('/');
        Some(match name {
            "www.github.com" | "api.github.com" => GITHUB.to_owned(),
            other => other.to_owned(),
        })
        .filter(|name| !name.is_empty())
    }

    /// The host whose API `GITHUB_API_URL` is.
    fn server(&self) -> Option<String> {
        let api = Url::parse(self.get("GITHUB_API_URL")?).ok()?;
        if let Some(server) = self
            .get("GITHUB_SERVER_URL")
            .and_then(|url| Url::parse(url).ok())
            .as_ref()
            .and_then(authority)
        {
            return Some(server);
        }
        let host = authority(&api)?;
        if host == "api.github.com" {
            return Some(GITHUB.to_owned());
        }
        if let Some(sub) = host
            .strip_prefix("api.")
            .filter(|sub| sub.ends_with(".ghe.com"))
        {
            return Some(sub.to_owned());
        }
        // A stand-in on this machine takes the place of github.com; anything else is a server of its own.
        if is_loopback(&api) && !api.path().trim_end_matches('/').ends_with("/api/v3") {
            return Some(GITHUB.to_owned());
        }
        Some(host)
    }
}

impl<K: AsRef<str>, V: Into<String>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(variables: I) -> Self {
        let mut read = BTreeMap::new();
        for (name, value) in variables {
            if let Some(name) = READ.iter().find(|known| **known == name.as_ref()) {
                read.insert(*name, value.into());
            }
        }
        Self(read)
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

const GITHUB: &str = "github.com";

/// Whose tokens a host takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostKind {
    /// `github.com` and `*.ghe.com`.
    Cloud,
    /// An Enterprise server.
    Enterprise,
}

impl HostKind {
    /// The kind of this host, by its name.
    pub fn of(host: &str) -> Self {
        if host == GITHUB || host.ends_with(".ghe.com") {
            Self::Cloud
        } else {
            Self::Enterprise
        }
    }
}

/// Where the API of a host is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiBase {
    /// The base of the REST paths, without a slash at the end.
    pub rest: Url,
    /// The address for GraphQL.
    pub graphql: Url,
}

/// Why a host is not asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Nobody named this server.
    #[error(
        "{host} is not named by GH_HOST, GITHUB_API_URL or your own configuration, so no token is sent to it"
    )]
    NotNamed {
        /// The host of the link.
        host: String,
    },
    /// There is no token for it.
    #[error(
        "there is no token for {host}; set {}, or sign in with `gh` and write `token = \"gh\"` below `[github]` in the configuration",
        names(*.kind)
    )]
    NoToken {
        /// The host.
        host: String,
        /// Which variables would be read.
        kind: HostKind,
    },
    /// A variable holds something that is not a token.
    #[error("the token in {source_name} is refused: {error}")]
    TokenRefused {
        /// The variable.
        source_name: TokenSource,
        /// What is wrong with it.
        error: TokenError,
    },
    /// An address cannot be used.
    #[error("the API address {address:?} is refused: {why}")]
    Address {
        /// The address, without credentials.
        address: String,
        /// What is wrong with it.
        why: &'static str,
    },
}

fn names(kind: HostKind) -> String {
    let [first, second] = TokenSource::variables(kind);
    format!("{first} or {second}")
}

/// A host that may be asked, with everything needed to do so.
#[derive(Clone, Debug)]
pub struct HostAccess {
    /// The host as links name it, in lower case, with its port if it has one.
    pub host: String,
    /// Where its API is.
    pub base: ApiBase,
    /// The token for it.
    pub token: Token,
    /// Where the token was found.
    pub source: TokenSource,
}

/// What the user's own configuration says: servers by host, each with the base of its REST API when it is not the usual
/// one.
pub type NamedHosts = BTreeMap<String, Option<String>>;

impl HostAccess {
    /// Finds out where and with which token `host` may be asked. `from_command` is called when no variable has a token,
    /// and says what the `gh` command knows; pass `|_| None` where the configuration does not allow it.
    ///
    /// # Errors
    ///
    /// The host was not named, there is no token for it, or an address or token is unusable.
    pub fn resolve(
        host: &str,
        environment: &Environment,
        named: &NamedHosts,
        from_command: impl FnOnce(&str) -> Option<Token>,
    ) -> Result<Self, HostError> {
        let host = host.to_ascii_lowercase();
        let base = ApiBase::of(&host, environment, named)?;
        let kind = HostKind::of(&host);
        let (token, source) = match choose_token(kind, environment) {
            TokenChoice::Found(token, source) => (token, source),
            TokenChoice::Refused(source_name, error) => {
                return Err(HostError::TokenRefused { source_name, error });
            }
            TokenChoice::None => match from_command(&host) {
                Some(token) => (token, TokenSource::GhCommand),
                None => return Err(HostError::NoToken { host, kind }),
            },
        };
        Ok(Self {
            host,
            base,
            token,
            source,
        })
    }
}

impl ApiBase {
    /// Finds the API of `host`: the user's configuration, else `GITHUB_API_URL` when it belongs to that host, else the
    /// usual place.
    ///
    /// # Errors
    ///
    /// The server was not named by anybody, or its address is unusable.
    pub fn of(
        host: &str,
        environment: &Environment,
        named: &NamedHosts,
    ) -> Result<Self, HostError> {
        if let Some(Some(address)) = named.get(host) {
            return Self::from_rest(address);
        }
        if environment.server().as_deref() == Some(host) {
            let rest = environment.get("GITHUB_API_URL").unwrap_or_default();
            let base = Self::from_rest(rest)?;
            return match environment.get("GITHUB_GRAPHQL_URL") {
                None => Ok(base),
                Some(graphql) => base.with_graphql(graphql),
            };
        }
        // An address that names no server could be meant for any: nobody's token goes anywhere else instead.
        if let Some(rest) = environment.get("GITHUB_API_URL")
            && environment.server().is_none()
        {
            return Self::from_rest(rest);
        }
        match HostKind::of(host) {
            HostKind::Cloud => Self::from_rest(&format!("https://api.{host}")),
            HostKind::Enterprise => {
                let by_environment = environment.named_host().as_deref() == Some(host);
                if !by_environment && !named.contains_key(host) {
                    return Err(HostError::NotNamed {
                        host: host.to_owned(),
                    });
                }
                Self::from_rest(&format!("https://{host}/api/v3"))
            }
        }
    }

    /// Takes the base of the REST API, and derives the address for GraphQL: beside `/api/v3` on an Enterprise server,
    /// below the base elsewhere.
    ///
    /// # Errors
    ///
    /// It is no address, has credentials, or is plain http to another machine.
    pub fn from_rest(address: &str) -> Result<Self, HostError> {
        let mut rest = check(address)?;
        let path = rest.path().trim_end_matches('/').to_owned();
        rest.set_path(&path);
        let mut graphql = rest.clone();
        let above = path
            .strip_suffix("/api/v3")
            .map_or_else(|| path.clone(), |above| format!("{above}/api"));
        graphql.set_path(&format!("{above}/graphql"));
        Ok(Self { rest, graphql })
    }

    /// Replaces the address for GraphQL.
    fn with_graphql(self, address: &str) -> Result<Self, HostError> {
        let graphql = check(address)?;
        if graphql.origin() != self.rest.origin() {
            return Err(HostError::Address {
                address: crate::redact(address).into_owned(),
                why: "it is on another host than GITHUB_API_URL",
            });
        }
        Ok(Self { graphql, ..self })
    }

    /// The address of a path below the base; `path` begins with a slash.
    pub(crate) fn at(&self, path: &str) -> Url {
        let mut url = self.rest.clone();
        let whole = format!("{}{path}", self.rest.path().trim_end_matches('/'));
        url.set_path(&whole);
        url
    }

    /// Whether everything goes over plain http, which is so only on this machine.
    pub(crate) fn is_plain(&self) -> bool {
        self.rest.scheme() == "http"
    }
}

fn check(address: &str) -> Result<Url, HostError> {
    let refuse = |why| HostError::Address {
        address: crate::redact(address).into_owned(),
        why,
    };
    let mut url = Url::parse(address).map_err(|_| refuse("it cannot be read"))?;
    match url.scheme() {
        "https" => {}
        "http" if is_loopback(&url) => {}
        "http" => return Err(refuse("plain http is for this machine only")),
        _ => return Err(refuse("it is neither https nor http")),
    }
    if url.host_str().is_none() {
        return Err(refuse("it has no host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refuse("it holds credentials"));
    }
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}

/// Whether the address is on this machine, by its number. A name could be made to point anywhere, `localhost` excepted.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost") => true,
        Some(host) => host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback()),
        None => false,
    }
}

/// `host` or `host:port` of an address, in lower case.
fn authority(url: &Url) -> Option<String> {
    let host = url.host_str()?.to_ascii_lowercase();
    Some(match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host,
    })
}

#[cfg(test)]
mod tests;
