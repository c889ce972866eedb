//! News sent to an address of the user's: signed as GitHub signs its own, so that a receiver for those takes these.
//!
//! It lives here because this crate alone knows HTTP. It knows nothing of what it sends.

use std::fmt;
use std::fmt::Write as _;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::redirect::Policy;
use ring::hmac;
use secrecy::{ExposeSecret as _, SecretString};

use crate::host::is_loopback;
use crate::wire::choose_provider;

/// How long one try may take. GitHub's own webhooks wait for ten seconds
/// (<https://docs.github.com/en/webhooks/using-webhooks/best-practices-for-using-webhooks>).
pub const TRY_LIMIT: Duration = Duration::from_secs(10);

/// An address that is told what happens. Prints only its host: the rest of an address may be a secret.
pub struct Webhook {
    client: reqwest::Client,
    url: Url,
    secret: Option<SecretString>,
}

/// Why something was not delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undelivered {
    /// In words, without address and secret.
    pub why: String,
    /// Whether trying again may help.
    pub passing: bool,
}

impl Webhook {
    /// An address, and the secret that it shares with us. Sends nothing.
    ///
    /// # Errors
    ///
    /// The address is not https (plain http only to this machine) or has credentials in it, or there is no certificate
    /// authority on this machine.
    pub fn new(url: &str, secret: Option<&str>) -> Result<Self, String> {
        let url = Url::parse(url).map_err(|error| format!("it is no address: {error}"))?;
        let plain = url.scheme() == "http" && is_loopback(&url);
        if url.scheme() != "https" && !plain {
            return Err("it must be https (plain http only to this machine)".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("it must not have credentials in it".to_owned());
        }
        choose_provider();
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("cf/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .connect_timeout(TRY_LIMIT)
            .timeout(TRY_LIMIT);
        builder = if plain {
            builder.no_proxy().tls_certs_only(Vec::new())
        } else {
            builder.https_only(true)
        };
        Ok(Self {
            client: builder
                .build()
                .map_err(|error| error.without_url().to_string())?,
            url,
            secret: secret
                .filter(|secret| !secret.is_empty())
                .map(SecretString::from),
        })
    }

    /// Sends a body once. `kind` says what it is, `delivery` is the same for every try of the same news.
    ///
    /// With a secret, `X-Hub-Signature-256` holds the HMAC-SHA256 of the body.
    ///
    /// # Errors
    ///
    /// It was not taken: any answer but 2xx, redirects too, or none in [`TRY_LIMIT`].
    pub async fn send(&self, kind: &str, delivery: &str, body: &str) -> Result<(), Undelivered> {
        let mut request = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("X-Cf-Event", kind)
            .header("X-Cf-Delivery", delivery)
            .body(body.to_owned());
        if let Some(secret) = &self.secret {
            request = request.header(
                "X-Hub-Signature-256",
                signature(secret.expose_secret(), body),
            );
        }
        let response = request.send().await.map_err(|error| Undelivered {
            why: crate::wire::in_one_line(&error.without_url()),
            passing: true,
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let asks_to_wait = response.headers().contains_key(RETRY_AFTER);
        Err(Undelivered {
            why: format!("it answered {}", status.as_u16()),
            passing: status.is_server_error()
                || matches!(status.as_u16(), 408 | 429)
                || asks_to_wait,
        })
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Webhook")
            .field(&self.url.host_str().unwrap_or_default())
            .finish()
    }
}

/// The HMAC-SHA256 of a body, as `sha256=` and hexadecimal digits.
fn signature(secret: &str, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let mut text = "sha256=".to_owned();
    for byte in hmac::sign(&key, body.as_bytes()).as_ref() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test]
    fn the_signature_is_that_of_the_standard() {
        // RFC 4231, test case 2.
        assert_eq!(
            signature("Jefe", "what do ya want for nothing?"),
            "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test_case("http://example.com/"; "plain http")]
    #[test_case("https://user:word@example.com/"; "credentials")]
    #[test_case("ftp://localhost/"; "another scheme")]
    #[test_case("no address"; "no address")]
    fn an_address_is_refused(url: &str) {
        assert!(Webhook::new(url, None).is_err());
    }

    #[test]
    fn neither_path_nor_secret_is_printed() {
        let webhook = Webhook::new("http://127.0.0.1:1/secret/path", Some("a secret")).unwrap();
        let text = format!("{webhook:?}");
        assert!(
            text.contains("127.0.0.1") && !text.contains("secret"),
            "{text}"
        );
    }
}
