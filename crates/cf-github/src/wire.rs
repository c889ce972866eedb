//! The connection: sends one request, reads the reply up to a cap, and says how it went. Knows nothing of what is in
//! it.
//!
//! Redirects are never followed here, plain http never goes through a proxy, and every error text is redacted.

use std::error::Error as _;
use std::sync::Once;
use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH,
};
use reqwest::redirect::Policy;

use crate::host::HostAccess;
use crate::pace::Headers;
use crate::request::Document;
use crate::rest::RestLook;
use crate::token::Token;

/// The version of the REST API. The oldest one still served: Enterprise servers know it.
const API_VERSION: &str = "2022-11-28";
/// GitHub refuses requests without one.
const USER_AGENT: &str = concat!("cf/", env!("CARGO_PKG_VERSION"));

/// Limits of a single request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// To connect, between two pieces of a reply, and for the whole. GitHub itself gives up after ten seconds.
    pub timeout: Duration,
    /// The most bytes of a reply, after decompression.
    pub body_cap: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10),
            body_cap: 8 * 1024 * 1024,
        }
    }
}

/// A whole reply.
#[derive(Debug)]
pub(crate) struct Raw {
    pub(crate) status: u16,
    pub(crate) headers: Headers,
    pub(crate) body: Vec<u8>,
}

/// A request without a whole reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    /// Nothing came in time, after the connection stood: the request may have been too large.
    #[error("no whole reply in time")]
    TimedOut,
    /// The reply is longer than the cap.
    #[error("the reply is longer than {0} bytes")]
    TooLong(usize),
    /// Anything else.
    #[error("{0}")]
    Broken(String),
}

/// A connection to one host with one token.
pub(crate) struct Wire {
    client: reqwest::Client,
    access: HostAccess,
    limits: Limits,
}

impl Wire {
    /// Sets up a connection; nothing is sent. Proxies come from the environment (`HTTPS_PROXY`, `NO_PROXY`), and so do
    /// further certificate authorities (`SSL_CERT_FILE`, `SSL_CERT_DIR`).
    ///
    /// # Errors
    ///
    /// There is no certificate authority on this machine, or a variable cannot be used.
    pub(crate) fn new(access: HostAccess, limits: Limits) -> Result<Self, String> {
        choose_provider();
        let mut defaults = HeaderMap::new();
        defaults.insert(
            HeaderName::from_static("x-github-api-version"),
            HeaderValue::from_static(API_VERSION),
        );
        let mut builder = reqwest::Client::builder()
            .user_agent(USER_AGENT)
            .default_headers(defaults)
            .redirect(Policy::none())
            .connect_timeout(limits.timeout)
            .read_timeout(limits.timeout)
            .timeout(limits.timeout)
            .pool_max_idle_per_host(1);
        builder = if access.base.is_plain() {
            // This machine only: no proxy may see the token, and no certificates are needed.
            builder.no_proxy().tls_certs_only(Vec::new())
        } else {
            check_proxies(|name| std::env::var(name).ok())?;
            builder.https_only(true)
        };
        let client = builder
            .build()
            .map_err(|error| describe(&access.token, &error))?;
        Ok(Self {
            client,
            access,
            limits,
        })
    }

    /// Who is asked, and how.
    pub(crate) const fn access(&self) -> &HostAccess {
        &self.access
    }

    /// Sends a document.
    ///
    /// # Errors
    ///
    /// No whole reply came back.
    pub(crate) async fn graphql(&self, document: &Document) -> Result<Raw, WireError> {
        self.send(
            self.client
                .post(self.access.base.graphql.clone())
                .header(CONTENT_TYPE, "application/json")
                .header(ACCEPT, "application/json")
                .body(document.body()),
        )
        .await
    }

    /// Looks at an item.
    ///
    /// # Errors
    ///
    /// No whole reply came back.
    pub(crate) async fn rest(&self, look: &RestLook) -> Result<Raw, WireError> {
        let mut request = self
            .client
            .get(look.url.clone())
            .header(ACCEPT, "application/vnd.github+json");
        if let Some(etag) = &look.etag
            && let Ok(etag) = HeaderValue::from_str(etag)
        {
            request = request.header(IF_NONE_MATCH, etag);
        }
        self.send(request).await
    }

    /// Asks for the rate limits, and returns the status and the scopes of the token, where the reply lists them.
    ///
    /// # Errors
    ///
    /// No reply came back.
    pub(crate) async fn scopes(&self) -> Result<(u16, Option<String>), WireError> {
        let response = self
            .client
            .get(self.access.base.at("/rate_limit"))
            .header(ACCEPT, "application/vnd.github+json")
            .header(AUTHORIZATION, self.access.token.header())
            .send()
            .await
            .map_err(|error| WireError::Broken(describe(&self.access.token, &error)))?;
        let scopes = response.headers().get("x-oauth-scopes");
        let scopes = scopes
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned);
        Ok((response.status().as_u16(), scopes))
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<Raw, WireError> {
        let refuse = |error: &reqwest::Error| {
            if error.is_timeout() && !error.is_connect() {
                WireError::TimedOut
            } else {
                WireError::Broken(describe(&self.access.token, error))
            }
        };
        let mut response = request
            .header(AUTHORIZATION, self.access.token.header())
            .send()
            .await
            .map_err(|error| refuse(&error))?;
        let headers = Headers::read(Timestamp::now(), |name| {
            response
                .headers()
                .get(name)
                .and_then(|value| value.to_str().ok())
        });
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|error| refuse(&error))? {
            if body.len() + piece.len() > self.limits.body_cap {
                return Err(WireError::TooLong(self.limits.body_cap));
            }
            body.extend_from_slice(&piece);
        }
        Ok(Raw {
            status: response.status().as_u16(),
            headers,
            body,
        })
    }
}

/// Refuses a proxy that cannot be used: it would be gone around in silence, which nobody meant who set it.
fn check_proxies(variable: impl Fn(&str) -> Option<String>) -> Result<(), String> {
    for name in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        let address = variable(name).filter(|address| !address.is_empty());
        if address.is_some_and(|address| reqwest::Proxy::https(address).is_err()) {
            return Err(format!("the address of a proxy in {name} cannot be used"));
        }
    }
    Ok(())
}

/// Says, once for the process, who does the cryptography of TLS.
pub(crate) fn choose_provider() {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // Fails only when the program has chosen another one, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// An error with its causes in one line, without secrets.
fn describe(token: &Token, error: &reqwest::Error) -> String {
    token.redact(&in_one_line(error)).into_owned()
}

/// An error with its causes in one line.
pub(crate) fn in_one_line(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        // Some wrap their cause's words, others do not.
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        cause = error.source();
    }
    text
}
