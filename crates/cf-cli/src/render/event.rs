//! An event on one line: time, number, type, what it is about, and its details.

use std::borrow::Cow;
use std::fmt;
use std::io::Write as _;

use cf_conductor::store::StoreError;
use cf_conductor::store::event::Event;
use cf_conductor::store::rows::EventRow;
use cf_core::{TaskId, TaskLabel};
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::{Number, Value};

use super::{number, text, time};

/// How many digits of an id people are shown, as [`TaskId::short`] has them.
const SHORT: usize = 8;

/// The details that are ids of the workspace: a task, a question, a batch. An agent's session is not: its program takes
/// nothing but the whole of it.
const IDS: [&str; 3] = ["on", "blocker", "from"];

/// How much of a detail is shown, in characters.
const DETAIL_CHARS: usize = 80;

/// The line of an event.
pub(crate) fn event_line(event: &Event, label: Option<&TaskLabel>) -> String {
    let actor = event.actor.to_string();
    let data = serde_json::to_string(&event.data).expect("details are JSON");
    let row = EventRow {
        seq: event.seq,
        at: event.at,
        kind: event.kind.as_str(),
        task: None,
        batch: None,
        attempt: None,
        actor: &actor,
        data: &data,
    };
    let mut line = Vec::new();
    push_line(&mut line, &row, label).expect("it was written a moment ago");
    String::from_utf8_lossy(&line).into_owned()
}

/// Writes the line of an event as it is stored.
///
/// # Errors
///
/// What is stored as its details is no JSON.
pub(crate) fn push_line(
    out: &mut Vec<u8>,
    row: &EventRow<'_>,
    label: Option<&TaskLabel>,
) -> Result<(), StoreError> {
    time::push_short(out, row.at);
    out.extend_from_slice(b"  ");
    number::push_right(out, row.seq, 6);
    out.extend_from_slice(b"  ");
    out.extend_from_slice(text::line(row.kind).as_bytes());
    if let Some(label) = label {
        out.extend_from_slice(b"  ");
        out.extend_from_slice(text::line(label.as_str()).as_bytes());
    }
    out.extend_from_slice(b"  by ");
    out.extend_from_slice(text::line(short_actor(row.actor)).as_bytes());
    let begun = out.len();
    if push_details(out, row.data).is_err() {
        out.truncate(begun);
        let sorted = serde_json::to_string(&row.event()?.data);
        let sorted = sorted.expect("details are JSON");
        push_details(out, &sorted).expect("details are JSON");
    }
    Ok(())
}

/// An actor with its id as people are shown ids.
fn short_actor(actor: &str) -> &str {
    let digits = match actor.split_once(':') {
        Some((kind @ ("batch" | "attempt"), _)) => kind.len() + 1 + SHORT,
        _ => return actor,
    };
    actor.get(..digits).unwrap_or(actor)
}

/// Writes ` name=value` for each detail, if the names rise, as they do in what this program stores.
fn push_details(out: &mut Vec<u8>, data: &str) -> serde_json::Result<()> {
    let mut json = serde_json::Deserializer::from_str(data);
    json.deserialize_map(Details(out))?;
    json.end()
}

struct Details<'o>(&'o mut Vec<u8>);

impl<'de> Visitor<'de> for Details<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut before: Option<Cow<'de, str>> = None;
        while let Some(name) = map.next_key_seed(Name)? {
            if before.is_some_and(|before| before >= name) {
                return Err(A::Error::custom("the names do not rise"));
            }
            map.next_value_seed(Detail(self.0, &name))?;
            before = Some(name);
        }
        Ok(())
    }
}

/// Reads a name without a copy of it where there needs none.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Name {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
}

/// Writes a detail: the name that it has, and what is read.
struct Detail<'o>(&'o mut Vec<u8>, &'o str);

impl<'o> Detail<'o> {
    fn push(self, value: impl fmt::Display) {
        let out = self.begin();
        // A vector takes whatever is written to it.
        let _ = write!(out, "{value}");
    }

    fn push_text(self, text: &str) {
        self.begin().extend_from_slice(text.as_bytes());
    }

    fn begin(self) -> &'o mut Vec<u8> {
        let Self(out, name) = self;
        out.extend_from_slice(b"  ");
        out.extend_from_slice(text::line(name).as_bytes());
        out.push(b'=');
        out
    }
}

impl<'de> DeserializeSeed<'de> for Detail<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Detail<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_str<E>(self, said: &str) -> Result<(), E> {
        if IDS.contains(&self.1)
            && let Ok(id) = said.parse::<TaskId>()
        {
            self.push_text(&id.short());
        } else {
            self.push_text(&text::shortened(&text::line(said), DETAIL_CHARS));
        }
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.push(value);
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.push(value);
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.push(value);
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.push(Number::from_f64(value).map_or(Value::Null, Value::Number));
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.push_text("null");
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut values: Vec<Value> = Vec::new();
        while let Some(value) = list.next_element()? {
            values.push(value);
        }
        // JSON escapes some of what a terminal acts upon, and not all.
        self.push_text(&text::line(&Value::Array(values).to_string()));
        Ok(())
    }

    /// Settings and records are for programs; the JSON has them.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(data: &str) -> Option<String> {
        line_by("ATTEMPT_ENDED", "cli", data)
    }

    fn line_by(kind: &str, actor: &str, data: &str) -> Option<String> {
        let row = EventRow {
            seq: 7,
            at: cf_core::Timestamp::UNIX_EPOCH,
            kind,
            task: None,
            batch: None,
            attempt: None,
            actor,
            data,
        };
        let mut out = Vec::new();
        push_line(&mut out, &row, None).ok()?;
        Some(String::from_utf8(out).unwrap())
    }

    #[test]
    fn every_detail_but_an_object_is_shown() {
        assert_eq!(
            line(r#"{"a":"x\u001b[31m y\nz","b":-1,"c":2.5,"d":null,"e":true,"f":["g",{"h":1}],"i":{"j":1}}"#)
                .as_deref(),
            Some(
                "1970-01-01T00:00:00Z       7  ATTEMPT_ENDED  by cli  a=x y z  b=-1  c=2.5  d=null  e=true  \
                 f=[\"g\",{\"h\":1}]"
            )
        );
        let long = line(&format!("{{\"a\":\"{}\"}}", "é".repeat(100))).unwrap();
        assert!(long.ends_with(&format!("a={}…", "é".repeat(79))), "{long}");
    }

    #[test]
    fn ids_are_short_unless_a_program_needs_the_whole() {
        let id = "0dd1b66c-69cc-40d7-8e07-c79f57801368";
        let by = |actor: &str| {
            let line = line_by("ATTEMPT_ENDED", actor, "{}").unwrap();
            line.split_once("  by ").unwrap().1.to_owned()
        };
        assert_eq!(by(&format!("batch:{id}")), "batch:0dd1b66c");
        assert_eq!(by(&format!("attempt:{id}")), "attempt:0dd1b66c");
        assert_eq!(by("github:github.example.org"), "github:github.example.org");
        assert_eq!(by("batch:é"), "batch:é");
        let details = format!(
            r#"{{"blocker":"{id}","from":"READY","on":"{id}","session":"{id}","title":"{id}"}}"#
        );
        assert!(line(&details).unwrap().ends_with(&format!(
            "  blocker=0dd1b66c  from=READY  on=0dd1b66c  session={id}  title={id}"
        )));
    }

    #[test]
    fn nothing_of_a_row_reaches_a_terminal_that_it_would_act_upon() {
        assert_eq!(
            line_by(
                "A\u{1b}[31mB",
                "c\u{9b}2Jd",
                "{\"e\u{9b}2Jf\":\"g\u{9b}2Jh\",\"i\":[\"j\u{9b}2Jk\",{\"l\u{202e}m\":1}]}",
            )
            .unwrap(),
            "1970-01-01T00:00:00Z       7  AB  by cd  ef=gh  i=[\"jk\",{\"lm\":1}]"
        );
    }

    #[test]
    fn details_stand_in_the_order_of_their_names_and_once() {
        let sorted = line(r#"{"a":3,"b":1,"c":4}"#);
        assert_eq!(line(r#" { "c": 4, "b": 1, "a": 2, "a": 3 } "#), sorted);
        assert!(sorted.unwrap().ends_with("  a=3  b=1  c=4"));
    }

    #[test]
    fn what_is_no_json_is_an_error() {
        for broken in ["", "{", "[]", "{\"a\":1}x", "{\"a\":[}"] {
            assert_eq!(line(broken), None, "{broken}");
        }
    }
}
