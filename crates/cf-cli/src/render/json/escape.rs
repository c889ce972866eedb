//! JSON as it goes to a terminal: nothing in it acts on what shows it.
//!
//! JSON itself escapes U+0000–U+001F only. Here U+007F–U+009F, which terminals act upon too, and the marks that reorder
//! text (Bidi_Control of UAX #9) are escaped as well. All of them stand in strings only, so the values do not change.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// Writes a value on one line.
///
/// # Errors
///
/// The writer refuses.
pub(crate) fn write(out: impl Write, value: &(impl Serialize + ?Sized)) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(out, Harmless))?;
    Ok(())
}

/// Returns a value as one line.
pub(crate) fn text(value: &(impl Serialize + ?Sized)) -> String {
    let mut out = Vec::new();
    write(&mut out, value).expect("a vector takes whatever is written to it");
    String::from_utf8(out).expect("JSON is UTF-8")
}

/// Writes what is JSON already.
///
/// # Errors
///
/// The writer refuses.
pub(crate) fn pass(out: &mut (impl Write + ?Sized), json: &str) -> io::Result<()> {
    let mut rest = json;
    while let Some(at) = rest.bytes().position(may_begin) {
        let mut chars = rest[at..].chars();
        let acting = chars.next().filter(|c| acts(*c));
        let end = if acting.is_some() {
            at
        } else {
            rest.len() - chars.as_str().len()
        };
        out.write_all(&rest.as_bytes()[..end])?;
        if let Some(c) = acting {
            write!(out, "\\u{:04x}", u32::from(c))?;
        }
        rest = chars.as_str();
    }
    out.write_all(rest.as_bytes())
}

/// Whether a character is escaped beyond what JSON asks for.
pub(crate) const fn acts(c: char) -> bool {
    matches!(c, '\u{7f}'..='\u{9f}')
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a byte may be the first one of a character that [`acts`]. Most text has none of these.
#[expect(
    clippy::needless_bitwise_bool,
    reason = "with branches the compiler looks at one byte after the other"
)]
pub(super) const fn may_begin(byte: u8) -> bool {
    (byte == 0x7f) | (byte == 0xc2) | (byte == 0xd8) | (byte == 0xe2)
}

/// Compact JSON in which what [`acts`] is escaped.
struct Harmless;

impl Formatter for Harmless {
    fn write_string_fragment<W: Write + ?Sized>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        pass(out, fragment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    #[test]
    fn what_acts_is_escaped_and_its_neighbours_are_not() {
        let text = super::text(
            "\u{7e}\u{7f}\u{80}\u{9b}\u{9f}\u{a0}ä\u{61b}\u{61c}\u{200d}\u{200e}\u{202f}\u{2066}\u{206a}",
        );
        assert_eq!(
            text,
            "\"~\\u007f\\u0080\\u009b\\u009f\u{a0}ä\u{61b}\\u061c\u{200d}\\u200e\u{202f}\\u2066\u{206a}\""
        );
    }

    proptest! {
        #[test]
        fn nothing_that_acts_is_left_and_the_value_is_the_same(
            name in any::<String>(),
            odd in "[a\"\\\\\n\u{0}\u{7d}-\u{a1}\u{61c}\u{200d}-\u{2070}ä🎉]{0,40}",
        ) {
            let mut value = json!({ "a": [odd, 1, null], "b": { "c": odd } });
            value[&name] = json!(odd);
            let written = super::text(&value);
            prop_assert!(!written.chars().any(acts));
            prop_assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), value.clone());
            let mut passed = Vec::new();
            pass(&mut passed, &serde_json::to_string(&value).unwrap()).unwrap();
            prop_assert_eq!(String::from_utf8(passed).unwrap(), written);
        }
    }
}
