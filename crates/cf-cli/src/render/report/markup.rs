//! HTML under construction. Markup comes from the program alone, text from anywhere.
//!
//! A template is a `&'static str`, so nothing that was read at run time can be markup; what fills its holes is escaped.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::super::text;

/// What fills a hole of a template.
#[derive(Clone, Copy, Debug)]
pub(super) enum Hole<'t> {
    /// Text from anywhere: cleaned, on one line, and escaped, for content and for quoted attributes alike.
    Text(&'t str),
    /// The same with its line breaks, for elements that keep them.
    Lines(&'t str),
    /// A word of the program's own.
    Word(&'static str),
    /// A count, or a number of pixels.
    Int(usize),
    /// A share in per cent, with two decimals.
    Share(f64),
}

/// HTML that grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Markup(String);

impl Markup {
    /// Nothing yet.
    pub(super) const fn new() -> Self {
        Self(String::new())
    }

    /// Adds markup as it stands.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Adds a template, each `{}` of which is filled by the next hole.
    pub(super) fn put(&mut self, template: &'static str, holes: &[Hole<'_>]) -> &mut Self {
        debug_assert_eq!(
            template.matches("{}").count(),
            holes.len(),
            "{template} has a value for each hole"
        );
        debug_assert_eq!(
            template.matches('{').count(),
            holes.len(),
            "{template} has no brace but for a hole"
        );
        let mut rest = template;
        for hole in holes {
            // One byte is found faster than two.
            let (piece, next) = rest.split_once('{').unwrap_or((rest, ""));
            self.0.push_str(piece);
            self.fill(*hole);
            rest = next.strip_prefix('}').unwrap_or(next);
        }
        self.0.push_str(rest);
        self
    }

    /// Adds what was built elsewhere.
    pub(super) fn add(&mut self, other: &Self) -> &mut Self {
        self.0.push_str(&other.0);
        self
    }

    /// The finished text.
    pub(super) fn into_string(self) -> String {
        self.0
    }

    fn fill(&mut self, hole: Hole<'_>) {
        match hole {
            Hole::Text(given) => escape_into(&text::line(given), &mut self.0),
            Hole::Lines(given) => escape_into(&text::clean(given), &mut self.0),
            Hole::Word(word) => self.0.push_str(word),
            Hole::Int(n) => {
                let _ = write!(self.0, "{n}");
            }
            Hole::Share(share) => {
                let _ = write!(self.0, "{share:.2}");
            }
        }
    }
}

fn escape_into(text: &str, out: &mut String) {
    let mut rest = text;
    // What is escaped has one byte, so that text can be parted before and after it.
    while let Some(at) = rest.bytes().position(|byte| escaped(byte).is_some()) {
        let (plain, from) = rest.split_at(at);
        let (special, next) = from.split_at(1);
        out.push_str(plain);
        out.push_str(escaped(special.as_bytes()[0]).unwrap_or_default());
        rest = next;
    }
    out.push_str(rest);
}

/// The characters that end text or a quoted attribute (HTML, 13.1.2 and 13.1.4).
const fn escaped(byte: u8) -> Option<&'static str> {
    Some(match byte {
        b'&' => "&amp;",
        b'<' => "&lt;",
        b'>' => "&gt;",
        b'"' => "&quot;",
        b'\'' => "&#39;",
        _ => return None,
    })
}

/// An address that a person may open, if it is one: text from outside must not become a `javascript:` link.
pub(super) fn web_address(text: &str) -> Option<Cow<'_, str>> {
    let text = text::line(text);
    (text.starts_with("https://") || text.starts_with("http://")).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filled(text: &str) -> String {
        let mut page = Markup::new();
        page.put(
            "<p title=\"{}\">{}</p>",
            &[Hole::Text(text), Hole::Text(text)],
        );
        page.into_string()
    }

    #[test]
    fn text_is_escaped_and_markup_is_not() {
        let mut page = Markup::new();
        page.put(
            "<b {}>{}|{}|{}</b>",
            &[
                Hole::Word("hidden"),
                Hole::Text("</script><i a='b' c=\"d\">&amp;\u{1b}[31m\u{202e}\n"),
                Hole::Int(7),
                Hole::Share(12.3456),
            ],
        );
        assert_eq!(
            page.into_string(),
            "<b hidden>&lt;/script&gt;&lt;i a=&#39;b&#39; c=&quot;d&quot;&gt;&amp;amp;|7|12.35</b>"
        );
    }

    #[test]
    fn only_web_addresses_are_links() {
        assert!(web_address("https://example.org/1").is_some());
        for text in [
            "javascript:alert(1)",
            "data:text/html,x",
            " file:///etc",
            "//x",
            "",
        ] {
            assert!(web_address(text).is_none(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn text_never_becomes_markup(text in any::<String>()) {
            let page = filled(&text);
            prop_assert_eq!(page.matches('<').count(), 2);
            prop_assert_eq!(page.matches('>').count(), 2);
            prop_assert_eq!(page.matches('"').count(), 2);
            prop_assert!(!page.chars().any(char::is_control), "{}", page.escape_debug());
        }

        #[test]
        fn text_of_markup_never_becomes_markup(text in "[<>&\"'/a=!\\-\u{0}\u{1b}\n]{0,40}") {
            let page = filled(&text);
            prop_assert_eq!(page.matches(['<', '>']).count(), 4);
            prop_assert!(!page.chars().any(char::is_control), "{}", page.escape_debug());
        }
    }
}
