//! Takes secrets out of any text before it can reach a log, an error or the store.
//!
//! Works by the formats of GitHub's tokens, without a length and without a word boundary at the end: the newer `ghs_`
//! tokens carry a JWT, with dots and hyphens, of about 520 characters. Whoever holds a token redacts its exact value
//! too ([`crate::Token::redact`]).

use std::borrow::Cow;

/// What stands in place of a secret.
pub(crate) const MARK: &str = "[redacted]";

/// Prefixes of tokens.
const PREFIXES: [&str; 6] = ["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"];

fn is_token_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-".contains(c)
}

/// Whether a character belongs to a secret.
type Belongs = fn(char) -> bool;

/// Words after which, behind blanks and a `:` or `=`, a secret follows up to the end given by the function.
const NAMED: [(&str, Belongs); 3] = [
    ("authorization_request", |c| {
        !c.is_whitespace() && !"&\"';<>".contains(c)
    }),
    ("authorization", |c| !"\r\n\"',;".contains(c)),
    ("access_token", |c| {
        !c.is_whitespace() && !"&\"';<>".contains(c)
    }),
];

/// Replaces everything in `text` that looks like a token, an `Authorization` value, the userinfo of a URL, or an
/// `authorization_request` value.
pub fn redact(text: &str) -> Cow<'_, str> {
    let mut out: Option<String> = None;
    let mut at = 0;
    let mut copied = 0;
    while at < text.len() {
        if let Some((start, end)) = secret_at(text, at) {
            let out = out.get_or_insert_with(|| String::with_capacity(text.len()));
            out.push_str(&text[copied..start]);
            out.push_str(MARK);
            copied = end;
            at = end;
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    match out {
        None => Cow::Borrowed(text),
        Some(mut out) => {
            out.push_str(&text[copied..]);
            Cow::Owned(out)
        }
    }
}

/// The range of a secret that is recognized at byte `at`.
fn secret_at(text: &str, at: usize) -> Option<(usize, usize)> {
    let rest = &text[at..];
    let bytes = rest.as_bytes();
    for prefix in PREFIXES {
        if bytes.starts_with(prefix.as_bytes()) {
            let tail = run(&rest[prefix.len()..], is_token_char);
            // `weighs_more` holds a prefix too; a token within a longer word is at least as long as the short ones.
            let inside = text[..at]
                .chars()
                .next_back()
                .is_some_and(|c| c.is_ascii_alphanumeric());
            if tail > 0 && (!inside || tail >= 20) {
                return Some((at, at + prefix.len() + tail));
            }
        }
    }
    for (name, belongs) in NAMED {
        if bytes.len() >= name.len() && bytes[..name.len()].eq_ignore_ascii_case(name.as_bytes()) {
            let after = &rest[name.len()..];
            let separator = run(after, |c| matches!(c, ' ' | ':' | '=' | '"' | '\''));
            let has_mark = after[..separator].contains([':', '=']);
            let value = run(&after[separator..], belongs);
            if has_mark && value > 0 {
                let start = at + name.len() + separator;
                return Some((start, start + value));
            }
        }
    }
    if bytes.starts_with(b"://") {
        let authority = run(&rest[3..], |c| {
            !c.is_whitespace() && !"/?#\"'<>".contains(c)
        });
        if let Some(user) = rest[3..3 + authority].rfind('@').filter(|user| *user > 0) {
            return Some((at + 3, at + 3 + user));
        }
    }
    None
}

/// The length in bytes of the run of characters at the start of `text` that belong.
fn run(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|c| !belongs(c)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("ghp_abcDEF123" => "[redacted]"; "a classic one")]
    #[test_case("token=gho_abc, then" => "token=[redacted], then"; "within text")]
    #[test_case("ghs_12345_eyJhbGciOi.eyJpc3MiOi-J9_x.sig-na_ture!" => "[redacted]!"; "with a JWT")]
    #[test_case("github_pat_11ABC_def456" => "[redacted]"; "fine grained")]
    #[test_case("weighs_more and highs_low" => "weighs_more and highs_low"; "ordinary words")]
    #[test_case("%20ghp_0123456789012345678901234567" => "%20[redacted]"; "percent encoded before it")]
    #[test_case("Authorization: Bearer abc def\nnext" => "Authorization: [redacted]\nnext"; "a header")]
    #[test_case("\"authorization\":\"token x\"}" => "\"authorization\":\"[redacted]\"}"; "a header in JSON")]
    #[test_case("no authorization here" => "no authorization here"; "the bare word")]
    #[test_case("via http://me:pw@proxy:8080/x" => "via http://[redacted]@proxy:8080/x"; "a proxy with a password")]
    #[test_case("https://github.com/a/b/issues/1" => "https://github.com/a/b/issues/1"; "an ordinary address")]
    #[test_case("url=https://x/sso?authorization_request=AB-C&y=1" => "url=https://x/sso?authorization_request=[redacted]&y=1"; "single sign on")]
    #[test_case("ä ghp_é" => "ä ghp_é"; "not ascii")]
    fn redacts(text: &str) -> String {
        redact(text).into_owned()
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(\\PC|ghs_|://|@|authorization[:=])*") {
            let _ = redact(&text);
        }

        #[test]
        fn a_token_never_survives(before in "[^a-zA-Z0-9]{0,5}", tail in "[A-Za-z0-9_.-]{20,60}") {
            let secret = format!("ghs_{tail}");
            let redacted = redact(&format!("{before}{secret}")).into_owned();
            proptest::prop_assert!(!redacted.contains(&tail), "{redacted}");
        }
    }
}
