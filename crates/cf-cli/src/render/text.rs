//! Text from outside, made harmless for a terminal.
//!
//! Titles, questions, comments and logs are written by people and programs that nobody vouches for. Whatever of theirs
//! is printed goes through [`clean`]; nothing else in the program decides what may reach a terminal.

use std::borrow::Cow;
use std::path::Path;

/// Returns `text` without anything that a terminal would act upon.
///
/// Removed are escape sequences with their contents (CSI, OSC, DCS, APC, PM, SOS, in their 7-bit and 8-bit forms), all
/// other C0 and C1 controls except line feed and tab, and the characters that reorder or hide text (bidirectional
/// controls, line and paragraph separators, tags). An unterminated string sequence ends at the end of its line, so
/// that it cannot swallow the rest of a log.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if is_plain(text) || !text.chars().any(is_suspect) {
        return Cow::Borrowed(text);
    }
    let mut kept = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' => match rest.peek().copied() {
                Some('[') => {
                    rest.next();
                    skip_csi(&mut rest);
                }
                Some(']' | 'P' | 'X' | '^' | '_') => {
                    rest.next();
                    skip_string(&mut rest);
                }
                // Two-character sequences, with intermediates (ECMA-35): `ESC ( B`.
                Some(' '..='~') => {
                    while rest.next_if(|c| (' '..='/').contains(c)).is_some() {}
                    rest.next_if(|c| ('0'..='~').contains(c));
                }
                _ => {}
            },
            '\u{9b}' => skip_csi(&mut rest),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => skip_string(&mut rest),
            c if is_suspect(c) => {}
            c => kept.push(c),
        }
    }
    Cow::Owned(kept)
}

/// Whether a text has nothing but printable ASCII. Most has, and is looked at without a branch for each byte.
fn is_plain(text: &str) -> bool {
    let is_plain = |byte: u8| (b' '..=b'~').contains(&byte);
    text.bytes().fold(true, |all, byte| all & is_plain(byte))
}

/// Returns `text` cleaned and on one line: line feeds and tabs become spaces, spaces at either end go.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    if is_plain(text) && !text.starts_with(' ') && !text.ends_with(' ') {
        return Cow::Borrowed(text);
    }
    match clean(text) {
        Cow::Borrowed(same) if !same.contains(['\n', '\t']) => Cow::Borrowed(same.trim()),
        cleaned => Cow::Owned(cleaned.trim().replace(['\n', '\t'], " ")),
    }
}

/// A path on one line; what is no text in it is replaced.
pub(crate) fn path(path: &Path) -> String {
    line(&path.to_string_lossy()).into_owned()
}

/// Returns `text` cut to `width` characters, the last of them an ellipsis when something was cut.
pub(crate) fn shortened(text: &str, width: usize) -> Cow<'_, str> {
    // A character has a byte or more.
    if text.len() <= width {
        return Cow::Borrowed(text);
    }
    match text.char_indices().nth(width) {
        None => Cow::Borrowed(text),
        Some(_) if width == 0 => Cow::Borrowed(""),
        Some(_) => {
            let end = text
                .char_indices()
                .nth(width - 1)
                .map_or(text.len(), |(at, _)| at);
            Cow::Owned(format!("{}…", text[..end].trim_end()))
        }
    }
}

const fn is_suspect(c: char) -> bool {
    matches!(c,
        '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        // Marks, embeddings, overrides and isolates of the bidirectional algorithm (UAX #9), and the two separators.
        | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}'
        // Interlinear annotations, the byte order mark, and tags, which are invisible.
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

type Chars<'t> = std::iter::Peekable<std::str::Chars<'t>>;

/// Parameters (0x30–0x3f), intermediates (0x20–0x2f), one final (0x40–0x7e): ECMA-48, 5.4.
fn skip_csi(rest: &mut Chars<'_>) {
    while rest.next_if(|c| ('0'..='?').contains(c)).is_some() {}
    while rest.next_if(|c| (' '..='/').contains(c)).is_some() {}
    rest.next_if(|c| ('@'..='~').contains(c));
}

/// Up to the string terminator (`ESC \`, 0x9c) or a bell; a line feed ends it too and is kept.
fn skip_string(rest: &mut Chars<'_>) {
    while let Some(c) = rest.next_if(|c| *c != '\n') {
        match c {
            '\u{7}' | '\u{9c}' => return,
            '\u{1b}' => {
                rest.next_if_eq(&'\\');
                return;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use test_case::test_case;

    #[test_case("plain ünïcode 🎉" => "plain ünïcode 🎉"; "ordinary text stays")]
    #[test_case("a\tb\nc" => "a\tb\nc"; "tab and line feed stay")]
    #[test_case("\u{1b}[31mred\u{1b}[0m" => "red"; "colours")]
    #[test_case("\u{1b}]0;title\u{7}x" => "x"; "a window title")]
    #[test_case("\u{1b}]8;;http://evil\u{1b}\\click\u{1b}]8;;\u{1b}\\" => "click"; "a hyperlink")]
    #[test_case("\u{9b}2Jx" => "x"; "an 8-bit sequence")]
    #[test_case("\u{1b}(Bx" => "x"; "a character set")]
    #[test_case("\u{1b}cx" => "x"; "a reset")]
    #[test_case("\u{1b}Pq1\nx" => "\nx"; "an open string ends with its line")]
    #[test_case("a\u{1b}" => "a"; "an escape at the end")]
    #[test_case("a\r\u{8}b\u{0}" => "ab"; "controls")]
    #[test_case("user\u{202e}txt.exe" => "usertxt.exe"; "an override")]
    fn cleans(text: &str) -> String {
        clean(text).into_owned()
    }

    #[test_case(" a\n\tb " => "a  b"; "to one line")]
    fn flattens(text: &str) -> String {
        line(text).into_owned()
    }

    #[test_case("abcdef", 4 => "abc…"; "too long")]
    #[test_case("abcd", 4 => "abcd"; "just fits")]
    #[test_case("ab", 0 => ""; "no room")]
    fn shortens(text: &str, width: usize) -> String {
        shortened(text, width).into_owned()
    }

    proptest! {
        #[test]
        fn nothing_suspect_is_left(text in any::<String>()) {
            prop_assert!(!clean(&text).chars().any(is_suspect));
        }

        #[test]
        fn nothing_suspect_is_left_of_sequences(text in "([a\\[\\]P0-9;m \n\u{1b}\u{9b}\u{9d}\u{7}\u{202e}\\\\]){0,40}") {
            let cleaned = clean(&text);
            prop_assert!(!cleaned.chars().any(is_suspect));
            prop_assert_eq!(clean(&cleaned), cleaned.clone());
        }

        #[test]
        fn harmless_text_is_untouched(text in "[ -~äöü€\n\t]{0,60}") {
            prop_assert_eq!(clean(&text), text.as_str());
        }

        #[test]
        fn one_line_is_one_line(text in any::<String>()) {
            let breaks = ['\n', '\r', '\t', '\u{2028}'];
            prop_assert!(!line(&text).contains(breaks));
        }
    }
}
