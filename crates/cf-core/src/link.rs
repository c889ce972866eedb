//! Ties between a task and a GitHub issue or pull request.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use crate::words;

/// The host that is left out of what is shown, where short forms live on it.
const GITHUB: &str = "github.com";

/// Whether short forms live on another host than [`GITHUB`] in this process.
static HOSTS_SHOWN: AtomicBool = AtomicBool::new(false);

words! {
    /// What a link points at.
    pub enum LinkKind ("link kind") {
        /// An issue.
        Issue = "issue",
        /// A pull request.
        Pr = "pr",
    }
}

/// A repository's `owner/name`, as GitHub allows it. Compared without regard to case, as GitHub does.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Repo {
    owner: String,
    name: String,
}

impl Repo {
    /// The account that owns it.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn folded(&self) -> (String, String) {
        (
            self.owner.to_ascii_lowercase(),
            self.name.to_ascii_lowercase(),
        )
    }
}

impl PartialEq for Repo {
    fn eq(&self, other: &Self) -> bool {
        self.owner.eq_ignore_ascii_case(&other.owner) && self.name.eq_ignore_ascii_case(&other.name)
    }
}

impl Eq for Repo {}

impl std::hash::Hash for Repo {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        for part in [&self.owner, &self.name] {
            for byte in part.bytes() {
                state.write_u8(byte.to_ascii_lowercase());
            }
            // No part holds it, so that no two repositories run together.
            state.write_u8(b'/');
        }
    }
}

impl PartialOrd for Repo {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Repo {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.folded().cmp(&other.folded())
    }
}

impl fmt::Display for Repo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

impl FromStr for Repo {
    type Err = LinkError;

    fn from_str(text: &str) -> Result<Self, LinkError> {
        let refuse = |why| refuse(text, why);
        let (owner, name) = text
            .split_once('/')
            .ok_or_else(|| refuse("it is not OWNER/REPO"))?;
        // GitHub's own rules: accounts have letters, digits and hyphens (and `_` for managed users), at most 39 or so;
        // repositories also `.` and `_`, at most 100, and are never `.` or `..`.
        let account = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        if owner.is_empty()
            || owner.len() > 64
            || !owner.bytes().all(account)
            || owner.starts_with('-')
        {
            return Err(refuse("its owner is not an account name"));
        }
        let repository = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        if name.is_empty()
            || name.len() > 100
            || !name.bytes().all(repository)
            || name == "."
            || name == ".."
        {
            return Err(refuse("its repository is not a repository name"));
        }
        Ok(Self {
            owner: owner.to_owned(),
            name: name.to_owned(),
        })
    }
}

impl TryFrom<String> for Repo {
    type Error = LinkError;

    fn try_from(text: String) -> Result<Self, LinkError> {
        text.parse()
    }
}

impl From<Repo> for String {
    fn from(repo: Repo) -> Self {
        repo.to_string()
    }
}

/// A GitHub issue or pull request that a task is tied to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Link {
    /// The host in lower case, such as `github.com`.
    pub host: String,
    /// The repository on it.
    pub repo: Repo,
    /// The number; issues and pull requests of a repository share one sequence.
    pub number: u64,
    /// What a person said it is; the tracker's answer decides.
    pub kind: LinkKind,
}

/// A text that names no issue or pull request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.words())]
pub struct LinkError {
    /// The text that was given, cut to 200 characters.
    pub text: String,
    /// What is wrong with it.
    pub why: &'static str,
    /// The host of short forms, when that is what is wrong, cut to 200 characters.
    pub host: Option<String>,
}

impl LinkError {
    fn words(&self) -> String {
        let Self { text, why, host } = self;
        match host {
            Some(host) => {
                format!(
                    "the host of {text:?} is GH_HOST, and {host:?} is no host; set it to one, or write the URL"
                )
            }
            None => format!(
                "{text:?} does not name an issue or pull request: {why}; write `owner/repo#12` or its URL"
            ),
        }
    }
}

impl Link {
    /// Reads `owner/repo#12`, `HOST/owner/repo#12`, `https://HOST/owner/repo/issues/12` or `…/pull/12`, the last two
    /// also without `https://`; blanks around it do not count.
    ///
    /// `kind` is what the short forms mean; an address says it by itself. `host` is where the shortest form lives,
    /// which is what `GH_HOST` says when it is not `github.com`.
    ///
    /// # Errors
    ///
    /// The text is none of these, or the host, repository or number is impossible.
    pub fn parse(text: &str, kind: LinkKind, host: &str) -> Result<Self, LinkError> {
        let text = text.trim();
        let address = text
            .strip_prefix("https://")
            .or_else(|| text.strip_prefix("http://"));
        let place = text.split(['?', '#']).next().unwrap_or_default();
        match (address, place.matches('/').count()) {
            (Some(address), _) => Self::at_address(text, address),
            // Neither an account nor a repository has a slash in its name.
            (None, 3..) => Self::at_address(text, text),
            (None, 2) => {
                let (host, rest) = text.split_once('/').expect("there are two");
                Self::short(text, rest, kind, host)
            }
            (None, 0 | 1) => {
                let link = Self::short(text, text, kind, GITHUB)?;
                let host = host_of(text, host).map_err(|error| LinkError {
                    host: Some(cut(host)),
                    ..error
                })?;
                Ok(Self { host, ..link })
            }
        }
    }

    /// Reads `HOST/owner/repo/issues/12` and what may follow it.
    fn at_address(text: &str, address: &str) -> Result<Self, LinkError> {
        let path = address
            .split(['?', '#'])
            .next()
            .unwrap_or_default()
            .trim_end_matches('/');
        let mut parts = path.split('/');
        let host = host_of(text, parts.next().unwrap_or_default())?;
        let other = "the URL is not /OWNER/REPO/issues/N or /OWNER/REPO/pull/N";
        let (Some(owner), Some(name), Some(what), Some(number)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(refuse(text, other));
        };
        let kind = match what {
            "issues" => LinkKind::Issue,
            "pull" | "pulls" => LinkKind::Pr,
            _ => return Err(refuse(text, other)),
        };
        Ok(Self {
            host,
            repo: format!("{owner}/{name}").parse()?,
            number: number_of(number).ok_or_else(|| refuse(text, "its number cannot be read"))?,
            kind,
        })
    }

    /// Reads `owner/repo#12`.
    fn short(text: &str, rest: &str, kind: LinkKind, host: &str) -> Result<Self, LinkError> {
        let (repo, number) = rest
            .split_once('#')
            .ok_or_else(|| refuse(text, "it has no `#` and is not a URL"))?;
        Ok(Self {
            host: host_of(text, host)?,
            repo: repo.parse()?,
            number: number_of(number).ok_or_else(|| refuse(text, "its number cannot be read"))?,
            kind,
        })
    }

    /// The address that a person can open.
    pub fn url(&self) -> String {
        let what = match self.kind {
            LinkKind::Issue => "issues",
            LinkKind::Pr => "pull",
        };
        // A pass over linked tasks makes one for each, and the machinery of formatting costs several times as much.
        let mut digits = [0; 20];
        let number = decimal(self.number, &mut digits);
        let parts = [&self.host, &self.repo.owner, &self.repo.name, what, number];
        let length = parts.iter().map(|part| part.len() + 1).sum::<usize>();
        let mut url = String::with_capacity("https:/".len() + length);
        url.push_str("https:/");
        for part in parts {
            url.push('/');
            url.push_str(part);
        }
        url
    }
}

impl Link {
    /// The short form as it is shown where short forms live on `default_host`: reading it there leads back to this
    /// link.
    pub fn shown_on(&self, default_host: &str) -> String {
        let Self {
            host, repo, number, ..
        } = self;
        // With another default, both are told apart by naming both.
        if host == GITHUB && default_host == GITHUB {
            format!("{repo}#{number}")
        } else {
            format!("{host}/{repo}#{number}")
        }
    }

    /// Says, for this process, on which host short forms live. From then on links are shown with their host when that
    /// is not `github.com`: what is shown must be read as the same link.
    pub fn short_forms_live_on(host: &str) {
        HOSTS_SHOWN.store(host != GITHUB, Ordering::Relaxed);
    }
}

/// The short form as it is shown where short forms live in this process ([`Link::short_forms_live_on`]), `github.com`
/// unless something else was said.
impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let elsewhere = HOSTS_SHOWN.load(Ordering::Relaxed);
        f.write_str(&self.shown_on(if elsewhere { "" } else { GITHUB }))
    }
}

/// A number in decimal digits, written from the end of `digits`.
fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &str {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    str::from_utf8(&digits[at..]).expect("digits are ASCII")
}

fn refuse(text: &str, why: &'static str) -> LinkError {
    LinkError {
        text: cut(text),
        why,
        host: None,
    }
}

fn cut(text: &str) -> String {
    text.chars().take(200).collect()
}

/// The host of a link, by the one name that it goes by.
fn host_of(text: &str, host: &str) -> Result<String, LinkError> {
    if !is_host(host) {
        return Err(refuse(text, "its host cannot be read"));
    }
    let host = host.to_ascii_lowercase();
    Ok(match host.as_str() {
        "www.github.com" => GITHUB.to_owned(),
        _ => host,
    })
}

fn is_host(text: &str) -> bool {
    let (name, port) = text
        .split_once(':')
        .map_or((text, None), |(n, p)| (n, Some(p)));
    let label = |label: &str| {
        !label.is_empty()
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.split('.').all(label) && port.is_none_or(|p| p.parse::<u16>().is_ok())
}

fn number_of(text: &str) -> Option<u64> {
    // GitHub's numbers are GraphQL `Int`s, 32 bits with a sign.
    text.parse::<u32>()
        .ok()
        .filter(|n| (1..=0x7fff_ffff).contains(n))
        .map(u64::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("a/b#12" => "issue github.com a/b 12"; "short form")]
    #[test_case("https://github.com/a/b/pull/3" => "pr github.com a/b 3"; "pull request url")]
    #[test_case("https://GHE.example:8443/a/b.c/issues/3#issuecomment-1" => "issue ghe.example:8443 a/b.c 3"; "enterprise")]
    #[test_case("https://www.github.com/a/b/issues/3" => "issue github.com a/b 3"; "the other name of the same host")]
    #[test_case("github.com/a/b/pull/3/files" => "pr github.com a/b 3"; "as browsers show it")]
    #[test_case("ghe.example:8443/a/b#3" => "issue ghe.example:8443 a/b 3"; "as it is shown here")]
    #[test_case("localhost/a/b#3" => "issue localhost a/b 3"; "a host without a point")]
    #[test_case(" a/b#12\n" => "issue github.com a/b 12"; "blanks around it")]
    fn reads(text: &str) -> String {
        let link = Link::parse(text, LinkKind::Issue, "github.com").unwrap();
        format!("{} {} {} {}", link.kind, link.host, link.repo, link.number)
    }

    #[test_case("https://ghe.example" ; "an address")]
    #[test_case("ghe corp" ; "two words")]
    #[test_case("." ; "a point")]
    #[test_case("" ; "nothing")]
    fn a_default_host_that_is_none_is_named(host: &str) {
        let error = Link::parse("a/b#1", LinkKind::Issue, host).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&format!("GH_HOST, and {host:?}")), "{text}");
        // What names its host does not need another.
        let whole = Link::parse("github.com/a/b#1", LinkKind::Issue, host);
        assert_eq!(whole.unwrap().host, "github.com");
        let wrong = Link::parse("a/b#0", LinkKind::Issue, host).unwrap_err();
        assert!(wrong.to_string().contains("number"), "{wrong}");
    }

    #[test_case("o/r#7" => "https://github.com/o/r/issues/7"; "one digit")]
    #[test_case("ghe.corp:8443/o/r.x#2147483647" => "https://ghe.corp:8443/o/r.x/issues/2147483647"; "the largest number")]
    #[test_case("https://github.com/o/r/pull/100" => "https://github.com/o/r/pull/100"; "zeros at the end")]
    fn has_the_address(text: &str) -> String {
        Link::parse(text, LinkKind::Issue, "github.com")
            .unwrap()
            .url()
    }

    #[test]
    fn what_is_shown_leads_back_whatever_the_default_host_is() {
        for default in ["github.com", "ghe.corp", "ghe.corp:8443"] {
            for text in [
                "a/b#1",
                "github.com/a/b#1",
                "ghe.corp/a/b#1",
                "https://ghe.corp:8443/a/b/issues/1",
            ] {
                let link = Link::parse(text, LinkKind::Issue, default).unwrap();
                let shown = link.shown_on(default);
                let again = Link::parse(&shown, LinkKind::Issue, default);
                assert_eq!(again.as_ref(), Ok(&link), "{shown}, {default}");
            }
        }
        let link = Link::parse("a/b#1", LinkKind::Issue, "github.com").unwrap();
        assert_eq!(link.to_string(), "a/b#1");
    }

    #[test_case("a/b"; "no number")]
    #[test_case("a/b#0"; "zero")]
    #[test_case("a/b#99999999999"; "too large")]
    #[test_case("a#1"; "no repository")]
    #[test_case("a/../b#1"; "path")]
    #[test_case("-a/b#1"; "option")]
    #[test_case("https://github.com/a/b/wiki/3"; "another page")]
    #[test_case("https://user:pw@github.com/a/b/issues/3"; "credentials")]
    #[test_case("user:pw@github.com/a/b#3"; "credentials before a short form")]
    #[test_case("a/b/issues/3"; "a host too few")]
    #[test_case("git@github.com:a/b#3"; "a remote")]
    #[test_case("./a/b#3"; "a path")]
    #[test_case("../a/b#3"; "a path up")]
    #[test_case("-x/a/b#3"; "an option before a repository")]
    #[test_case("ghe..example/a/b#3"; "two points")]
    fn refuses(text: &str) {
        assert!(Link::parse(text, LinkKind::Issue, "github.com").is_err());
    }
}
