//! What a token may do, as far as GitHub says: one request, for people who look after their set-up.

use std::time::Duration;

use crate::host::HostAccess;
use crate::wire::{Limits, Wire};

/// The most bytes of a reply; GitHub sends about two thousand.
const BODY_CAP: usize = 64 * 1024;

/// What GitHub says of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scopes {
    /// The scopes of a classic token or of a program that signed in; none at all reads public repositories only.
    Listed(Vec<String>),
    /// A fine-grained token, or one of an app: GitHub takes it, and does not say what it may do.
    Unlisted,
    /// GitHub does not take the token.
    Refused,
}

/// Asks a host what the token may do. One `GET` of the rate limits, which is not counted against them
/// (<https://docs.github.com/en/rest/rate-limit>).
///
/// # Errors
///
/// In words, without the token: there was no answer within `limit`, or one that says nothing of the token.
pub async fn scopes(access: HostAccess, limit: Duration) -> Result<Scopes, String> {
    let limits = Limits {
        timeout: limit,
        body_cap: BODY_CAP,
    };
    let wire = Wire::new(access, limits)?;
    let asked = tokio::time::timeout(limit, wire.scopes()).await;
    let (status, header) = match asked {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return Err(error.to_string()),
        Err(_) => return Err(format!("no answer within {} s", limit.as_secs())),
    };
    match status {
        // A server without rate limits has no such page, and answers 404 with the same headers.
        200 | 404 => Ok(read(header.as_deref())),
        401 => Ok(Scopes::Refused),
        other => Err(format!("GitHub answered {other}")),
    }
}

fn read(header: Option<&str>) -> Scopes {
    match header {
        None => Scopes::Unlisted,
        Some(list) => Scopes::Listed(
            list.split(',')
                .map(str::trim)
                .filter(|scope| !scope.is_empty())
                .map(str::to_owned)
                .collect(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_scopes_are_not_the_same_as_no_list() {
        assert_eq!(read(None), Scopes::Unlisted);
        assert_eq!(read(Some("")), Scopes::Listed(Vec::new()));
        assert_eq!(
            read(Some("repo, read:org")),
            Scopes::Listed(vec!["repo".to_owned(), "read:org".to_owned()])
        );
    }
}
