//! Plans written as JSON: the same document as in TOML, or a bare list of its tasks.
//!
//! The text becomes the table that TOML would have made of it, with the place of every value, so that one reader judges
//! all formats and complains in the same words. `null` means the same as leaving a field out.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::document::{Complaints, Document};

/// How deep a plan may nest. A variable of a task's environment stands four levels deep; each level is read once more
/// on the way down, so a bound keeps a hostile file cheap.
const DEEPEST: usize = 8;

/// Reads the text as a plan's table. What is not JSON in it is complained about.
pub(super) fn table<'d>(document: &'d Document, complaints: &mut Complaints<'_>) -> DeTable<'d> {
    let text = document.text();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let raw: &RawValue = match serde_json::from_str(text) {
        Ok(raw) => raw,
        Err(error) => {
            let place = format!(" at line {} column {}", error.line(), error.column());
            let told = error.to_string();
            let at = document.offset(error.line(), error.column());
            complaints.at(
                &(at..at),
                told.strip_suffix(&place).unwrap_or(&told).to_owned(),
            );
            return DeTable::new();
        }
    };
    let mut reading = Reading {
        document,
        complaints,
    };
    let Some(value) = reading.value(raw, 0) else {
        return DeTable::new();
    };
    let span = value.span();
    match value.into_inner() {
        DeValue::Table(table) => table,
        list @ DeValue::Array(_) => {
            let key = Spanned::new(span.clone(), Cow::Borrowed("task"));
            DeTable::from_iter([(key, Spanned::new(span, list))])
        }
        other => {
            let found = crate::document::article(other.type_str());
            complaints.at(
                &span,
                format!("expected a list of tasks, or an object with `task`, found {found}"),
            );
            DeTable::new()
        }
    }
}

struct Reading<'d, 'c, 'e> {
    document: &'d Document,
    complaints: &'c mut Complaints<'e>,
}

impl<'d> Reading<'d, '_, '_> {
    /// Where a part of the text stands in it.
    fn span(&self, raw: &RawValue) -> Range<usize> {
        let start = raw.get().as_ptr().addr() - self.document.text().as_ptr().addr();
        start..start + raw.get().len()
    }

    /// The value, unless it is `null` or was complained about.
    fn value(&mut self, raw: &'d RawValue, depth: usize) -> Option<Spanned<DeValue<'d>>> {
        let span = self.span(raw);
        if depth > DEEPEST {
            self.complaints
                .at(&span, "a plan does not nest so deep".to_owned());
            return None;
        }
        let value = match raw.get().as_bytes().first() {
            Some(b'{') => DeValue::Table(self.object(raw, depth)),
            Some(b'[') => DeValue::Array(self.list(raw, depth)),
            Some(b'"') => DeValue::String(Cow::Owned(parsed(raw)?)),
            Some(b't') => DeValue::Boolean(true),
            Some(b'f') => DeValue::Boolean(false),
            Some(b'n') => return None,
            // A number of JSON is one of TOML.
            _ => {
                let Ok(number) = DeValue::parse(raw.get()) else {
                    self.complaints
                        .at(&span, "this number cannot be read".to_owned());
                    return None;
                };
                number.into_inner()
            }
        };
        Some(Spanned::new(span, value))
    }

    fn object(&mut self, raw: &'d RawValue, depth: usize) -> DeTable<'d> {
        let mut table = DeTable::new();
        let Some(Fields(fields)) = parsed(raw) else {
            return table;
        };
        for (key, value) in fields {
            let span = self.span(key);
            let Some(name) = parsed::<String>(key) else {
                continue;
            };
            let Some(value) = self.value(value, depth + 1) else {
                continue;
            };
            if table
                .insert(Spanned::new(span.clone(), Cow::Owned(name.clone())), value)
                .is_some()
            {
                self.complaints.at(&span, format!("duplicate key `{name}`"));
            }
        }
        table
    }

    fn list(&mut self, raw: &'d RawValue, depth: usize) -> DeArray<'d> {
        let mut list = DeArray::new();
        for item in parsed::<Vec<&RawValue>>(raw).unwrap_or_default() {
            if let Some(value) = self.value(item, depth + 1) {
                list.push(value);
            } else if item.get() == "null" {
                self.complaints
                    .at(&self.span(item), "`null` cannot stand in a list".to_owned());
            }
        }
        list
    }
}

/// Reads a part of a text that was found to be JSON before.
fn parsed<'d, T: serde::Deserialize<'d>>(raw: &'d RawValue) -> Option<T> {
    serde_json::from_str(raw.get()).ok()
}

/// The fields of an object as they stand, a repeated name as often as it is written.
struct Fields<'d>(Vec<(&'d RawValue, &'d RawValue)>);

impl<'de> serde::Deserialize<'de> for Fields<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Each)
    }
}
