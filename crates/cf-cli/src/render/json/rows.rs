//! The shapes of events and tasks for lists of many, written straight from the rows of the database.
//!
//! They are those of [`EventJson`](super::EventJson) and [`TaskJson`](super::TaskJson) to the byte. What is stored as
//! JSON is passed on as it stands once it is known to be JSON and compact; every other text is escaped.

use std::io::Write as _;

use cf_conductor::store::StoreError;
use cf_conductor::store::rows::{EventRow, TaskRow};
use serde::de::IgnoredAny;

use super::{LinkJson, escape};
use crate::render::{number, time};

/// Writes an event.
///
/// # Errors
///
/// What is stored as its details is no JSON.
pub(crate) fn push_event(out: &mut Vec<u8>, row: &EventRow<'_>) -> Result<(), StoreError> {
    out.extend_from_slice(b"{\"seq\":");
    number::push(out, row.seq);
    out.extend_from_slice(b",\"at\":\"");
    time::push_full(out, row.at);
    out.extend_from_slice(b"\",\"type\":");
    push_text(out, row.kind);
    for (name, id) in [
        (",\"task\":", row.task),
        (",\"batch\":", row.batch),
        (",\"attempt\":", row.attempt),
    ] {
        push_opt(out, name, id);
    }
    out.extend_from_slice(b",\"actor\":");
    push_text(out, row.actor);
    out.extend_from_slice(b",\"data\":");
    if is_compact(row.data) && serde_json::from_str::<IgnoredAny>(row.data).is_ok() {
        push_json(out, row.data);
    } else {
        push_value(out, &row.event()?.data);
    }
    out.push(b'}');
    Ok(())
}

/// Writes a task.
pub(crate) fn push_task(out: &mut Vec<u8>, row: &TaskRow<'_>) {
    out.extend_from_slice(b"{\"id\":");
    push_text(out, row.id);
    push_opt(out, ",\"key\":", row.key);
    push_opt(out, ",\"title\":", Some(row.title));
    push_opt(out, ",\"description\":", Some(row.description));
    push_opt(out, ",\"run\":", row.run);
    push_opt(out, ",\"verify\":", row.verify);
    push_opt(out, ",\"engine\":", row.engine);
    push_opt(out, ",\"model\":", row.model);
    out.extend_from_slice(b",\"timeout_ms\":");
    match row.timeout_ms {
        Some(ms) => number::push(out, ms),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b",\"env\":");
    push_json(out, &row.env);
    out.extend_from_slice(b",\"priority\":");
    match u64::try_from(row.priority) {
        Ok(priority) => number::push(out, priority),
        Err(_) => push_value(out, &row.priority),
    }
    push_opt(out, ",\"status\":", Some(row.status));
    out.extend_from_slice(b",\"version\":");
    number::push(out, row.version);
    out.extend_from_slice(b",\"depends_on\":[");
    for (at, on) in row.depends_on.iter().enumerate() {
        out.extend_from_slice(if at == 0 { b"\"" } else { b",\"" });
        let mut text = [0; ID];
        on.0.hyphenated().encode_lower(&mut text);
        out.extend_from_slice(&text);
        out.push(b'"');
    }
    out.extend_from_slice(b"],\"links\":");
    if row.links.is_empty() {
        out.extend_from_slice(b"[]");
    } else {
        let links: Vec<_> = row.links.iter().map(LinkJson::new).collect();
        push_value(out, &links);
    }
    out.extend_from_slice(b",\"open_blockers\":");
    number::push(out, row.open_blockers);
    out.extend_from_slice(b",\"created_at\":\"");
    time::push_full(out, row.created_at);
    out.extend_from_slice(b"\",\"updated_at\":\"");
    time::push_full(out, row.updated_at);
    out.extend_from_slice(b"\"}");
}

/// The length of an id as text.
const ID: usize = 36;

fn push_value(out: &mut Vec<u8>, value: &impl serde::Serialize) {
    escape::write(out, value).expect("a vector takes whatever is written to it");
}

fn push_json(out: &mut Vec<u8>, json: &str) {
    escape::pass(out, json).expect("a vector takes whatever is written to it");
}

fn push_opt(out: &mut Vec<u8>, name: &str, text: Option<&str>) {
    out.extend_from_slice(name.as_bytes());
    match text {
        Some(text) => push_text(out, text),
        None => out.extend_from_slice(b"null"),
    }
}

/// Whether a byte stands for itself in a string of JSON, whatever comes next.
#[expect(
    clippy::needless_bitwise_bool,
    reason = "with branches the compiler looks at one byte after the other"
)]
const fn is_plain(byte: u8) -> bool {
    (byte >= b' ') & (byte != b'"') & (byte != b'\\') & !escape::may_begin(byte)
}

/// Writes a string, escaped as [`escape`] does it.
fn push_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text;
    loop {
        let (plain, from) = rest.split_at(plain_prefix(rest.as_bytes()));
        out.extend_from_slice(plain.as_bytes());
        let mut chars = from.chars();
        let Some(c) = chars.next() else {
            break;
        };
        let short = match c {
            '"' | '\\' => c,
            '\u{8}' => 'b',
            '\t' => 't',
            '\n' => 'n',
            '\u{c}' => 'f',
            '\r' => 'r',
            _ => 'u',
        };
        rest = chars.as_str();
        // A vector takes whatever is written to it, here and below.
        if short != 'u' {
            let _ = write!(out, "\\{short}");
        } else if c < ' ' || escape::acts(c) {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            let _ = write!(out, "{c}");
        }
    }
    out.push(b'"');
}

/// How many bytes at the beginning stand for themselves. Looks at sixteen at once, without a branch for each.
fn plain_prefix(bytes: &[u8]) -> usize {
    let (wide, _) = bytes.as_chunks::<16>();
    let is_all_plain = |chunk: &&[u8; 16]| {
        let odd = chunk
            .iter()
            .fold(0, |odd, byte| odd | u8::from(!is_plain(*byte)));
        odd == 0
    };
    let skipped = 16 * wide.iter().take_while(is_all_plain).count();
    let rest = bytes[skipped..].iter().take_while(|byte| is_plain(**byte));
    skipped + rest.count()
}

/// Whether a text, if it is JSON, is an object without spaces between its parts, as this program stores it.
fn is_compact(text: &str) -> bool {
    let mut bytes = text.bytes();
    let mut is_inside = false;
    if bytes.next() != Some(b'{') {
        return false;
    }
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => is_inside = !is_inside,
            b'\\' => {
                bytes.next();
            }
            b' ' | b'\t' | b'\n' | b'\r' if !is_inside => return false,
            _ => {}
        }
    }
    true
}

#[cfg(test)]
mod tests;
