//! The token: a type that prints as nothing, and the choice of one for a host from the environment.
//!
//! The choice is pure. Nothing here stores a token, logs one, or hands one to a host that it was not meant for.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};

use secrecy::{ExposeSecret, SecretString};

use crate::host::{Environment, HostKind};
use crate::redact::{MARK, redact};

/// A token for one host. It has no `Display`, its `Debug` shows nothing, and it is wiped when dropped.
#[derive(Clone)]
pub struct Token(SecretString);

/// Why a text is not a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It is empty. An empty variable counts as unset.
    #[error("it is empty")]
    Empty,
    /// It holds a newline, another control character, or something outside ASCII, which no header can carry.
    #[error("it holds a newline or another character that no token has")]
    BadCharacter,
}

impl Token {
    /// Takes a text for a token.
    ///
    /// # Errors
    ///
    /// It is empty, or holds a character that cannot stand in a header.
    pub fn new(text: impl Into<String>) -> Result<Self, TokenError> {
        let secret = SecretString::from(text.into());
        let text = secret.expose_secret();
        if text.is_empty() {
            return Err(TokenError::Empty);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::BadCharacter);
        }
        Ok(Self(secret))
    }

    /// Takes this token, and everything that looks like one, out of `text`.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let exact = self.0.expose_secret();
        if text.contains(exact) {
            let text = text.replace(exact, MARK);
            return Cow::Owned(redact(&text).into_owned());
        }
        redact(text)
    }

    /// A text that came from outside in a few words that can be shown and kept: without this token and whatever looks
    /// like one, without control characters, at most about 300 characters.
    pub(crate) fn in_words(&self, text: &str) -> String {
        // The whole of it first, since a token must not be cut in two. Others are recognized by how they begin.
        let text = text.replace(self.0.expose_secret(), MARK);
        let start = &text[..text.floor_char_boundary(2048)];
        let words = redact(start);
        let mut words = words.chars().map(|c| if c.is_control() { ' ' } else { c });
        let mut short: String = words.by_ref().take(300).collect();
        if words.next().is_some() {
            short.push('…');
        }
        short
    }

    /// A short number that tells tokens apart and says nothing about them: what was learned with another token (what
    /// is visible, how much budget is left) is not believed with this one.
    pub fn fingerprint(&self) -> u64 {
        // The hasher's keys are fixed, so the number is the same in every process of one version of the program.
        let mut hasher = std::hash::DefaultHasher::new();
        self.0.expose_secret().hash(&mut hasher);
        hasher.finish()
    }

    /// The value for an `Authorization` header, marked so that nothing prints it.
    pub(crate) fn header(&self) -> reqwest::header::HeaderValue {
        let text = format!("Bearer {}", self.0.expose_secret());
        let mut value = reqwest::header::HeaderValue::from_str(&text)
            .expect("a token has only visible ASCII characters");
        value.set_sensitive(true);
        value
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Where a token was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenSource {
    /// The variable `GH_TOKEN`.
    GhToken,
    /// The variable `GITHUB_TOKEN`.
    GithubToken,
    /// The variable `GH_ENTERPRISE_TOKEN`.
    GhEnterpriseToken,
    /// The variable `GITHUB_ENTERPRISE_TOKEN`.
    GithubEnterpriseToken,
    /// The command `gh auth token`.
    GhCommand,
}

impl TokenSource {
    /// The name of the variable or command, as people know it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::GhToken => "GH_TOKEN",
            Self::GithubToken => "GITHUB_TOKEN",
            Self::GhEnterpriseToken => "GH_ENTERPRISE_TOKEN",
            Self::GithubEnterpriseToken => "GITHUB_ENTERPRISE_TOKEN",
            Self::GhCommand => "gh auth token",
        }
    }

    /// The variables that are asked for a host of this kind, first one first.
    pub const fn variables(kind: HostKind) -> [Self; 2] {
        match kind {
            HostKind::Cloud => [Self::GhToken, Self::GithubToken],
            HostKind::Enterprise => [Self::GhEnterpriseToken, Self::GithubEnterpriseToken],
        }
    }
}

impl fmt::Display for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What the environment has for a host.
#[derive(Clone, Debug)]
pub enum TokenChoice {
    /// A token, and where it was found.
    Found(Token, TokenSource),
    /// No variable is set; the `gh` command may know one.
    None,
    /// A variable is set to something that is not a token. No other source is tried: the user meant this one.
    Refused(TokenSource, TokenError),
}

/// Chooses the token for a host of this kind; an empty variable counts as unset.
pub fn choose_token(kind: HostKind, environment: &Environment) -> TokenChoice {
    for source in TokenSource::variables(kind) {
        match environment.get(source.as_str()).map(Token::new) {
            None | Some(Err(TokenError::Empty)) => {}
            Some(Ok(token)) => return TokenChoice::Found(token, source),
            Some(Err(error)) => return TokenChoice::Refused(source, error),
        }
    }
    TokenChoice::None
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test]
    fn a_token_prints_as_nothing() {
        let token = Token::new("not-a-known-format-42").unwrap();
        assert_eq!(format!("{token:?}"), "Token");
        assert_eq!(format!("{:?}", token.header()), "Sensitive");
        assert_eq!(
            token.redact("a not-a-known-format-42, ghp_x"),
            "a [redacted], [redacted]"
        );
    }

    #[test]
    fn foreign_text_is_kept_in_a_few_words_and_no_token_is_cut_in_two() {
        let token = Token::new("not-a-known-format-42").unwrap();
        assert_eq!(token.in_words("\x1b[31mno\r\nway"), " [31mno  way");
        for before in 280..320 {
            let text = format!(
                "{}{}{}",
                "x".repeat(before),
                "not-a-known-format-42",
                "y".repeat(9_000_000)
            );
            let words = token.in_words(&text);
            assert!(!words.contains("not-a"), "{words}");
            assert_eq!(words.chars().count(), 301);
        }
    }

    #[test]
    fn tokens_are_told_apart_by_their_fingerprints() {
        let [a, b, again] = ["a", "b", "a"].map(|text| Token::new(text).unwrap().fingerprint());
        assert_ne!(a, b);
        assert_eq!(a, again);
    }

    #[test_case("" => Err(TokenError::Empty); "empty")]
    #[test_case("abc\n" => Err(TokenError::BadCharacter); "newline at the end")]
    #[test_case("a\r\nHost: x" => Err(TokenError::BadCharacter); "another header")]
    #[test_case("a b" => Err(TokenError::BadCharacter); "space")]
    #[test_case("é" => Err(TokenError::BadCharacter); "not ascii")]
    #[test_case("ghs_1_a.b-c_d" => Ok(()); "a long one")]
    fn token(text: &str) -> Result<(), TokenError> {
        Token::new(text).map(|_| ())
    }

    #[test_case(HostKind::Cloud, &[("GH_TOKEN", "a"), ("GITHUB_TOKEN", "b")] => "a from GH_TOKEN"; "GH_TOKEN goes first")]
    #[test_case(HostKind::Cloud, &[("GH_TOKEN", ""), ("GITHUB_TOKEN", "b")] => "b from GITHUB_TOKEN"; "an empty one is unset")]
    #[test_case(HostKind::Cloud, &[("GH_ENTERPRISE_TOKEN", "e")] => "none"; "an Enterprise token stays with its host")]
    #[test_case(HostKind::Enterprise, &[("GH_TOKEN", "a"), ("GITHUB_TOKEN", "b")] => "none"; "a cloud token stays there")]
    #[test_case(HostKind::Enterprise, &[("GH_ENTERPRISE_TOKEN", "e"), ("GITHUB_ENTERPRISE_TOKEN", "f")] => "e from GH_ENTERPRISE_TOKEN"; "Enterprise")]
    #[test_case(HostKind::Enterprise, &[("GITHUB_ENTERPRISE_TOKEN", "f")] => "f from GITHUB_ENTERPRISE_TOKEN"; "the other Enterprise variable")]
    #[test_case(HostKind::Cloud, &[("GH_TOKEN", "a\n"), ("GITHUB_TOKEN", "b")] => "GH_TOKEN refused"; "a newline is refused, not skipped")]
    #[test_case(HostKind::Cloud, &[] => "none"; "nothing set")]
    fn chooses(kind: HostKind, variables: &[(&str, &str)]) -> String {
        match choose_token(kind, &variables.iter().copied().collect()) {
            TokenChoice::Found(token, source) => {
                format!("{} from {source}", token.0.expose_secret())
            }
            TokenChoice::None => "none".to_owned(),
            TokenChoice::Refused(source, _) => format!("{source} refused"),
        }
    }
}
