//! What an `[engines.NAME]` table may hold, key by key, so that a complaint names the key and its line.
//!
//! Whether the whole makes an engine is decided where it is made: [`super::layer::Layer::engines`].

use std::borrow::Cow;

use cf_conductor::engine::EngineConfig;
use serde::Deserialize as _;
use serde::de::IntoDeserializer as _;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::document::{Complaints, article};

const STRINGS: &str = "a list of strings";
const WORDS: &str = "a string or a list of strings";
const VARIABLES: &str = "a table of strings, by the variables' names";

/// The keys of a table, and what may be written for each.
const KEYS: &[(&str, &str)] = &[
    ("base", "the name of a built-in engine"),
    (
        "command",
        "a list of strings: the program and its arguments",
    ),
    ("program", "a string"),
    ("args", STRINGS),
    ("prompt", "one of stdin, file, argument"),
    ("env", VARIABLES),
    ("pass_env", STRINGS),
    (
        "success",
        "one of exit-zero, claude, codex, opencode, gemini",
    ),
    ("permissions", "one of all, edit, read"),
    ("grants", "a table with all, edit or read"),
    ("model_flag", WORDS),
    ("resume_flag", WORDS),
    ("home", "one of user, attempt"),
    ("timeout", "a duration such as \"30m\", or \"none\""),
    ("leftovers", "one of stop, report"),
    ("keep", STRINGS),
];

/// The levels of `grants`.
const LEVELS: &[(&str, &str)] = &[
    ("all", "a table with args or env"),
    ("edit", "a table with args or env"),
    ("read", "a table with args or env"),
];

/// The keys of one level of `grants`.
const GRANT: &[(&str, &str)] = &[("args", STRINGS), ("env", VARIABLES)];

/// Complains about every key of the table `place` that is not known or whose value cannot be used.
pub(super) fn check(table: &DeTable<'_>, place: &str, complaints: &mut Complaints<'_>) {
    keys(table, place, KEYS, &[], complaints);
}

/// Checks one table; `above` are the keys that lead to it from that of the engine.
fn keys(
    table: &DeTable<'_>,
    place: &str,
    known: &[(&str, &str)],
    above: &[&str],
    complaints: &mut Complaints<'_>,
) {
    for (key, value) in table {
        let name = key.get_ref().as_ref();
        let Some((_, expected)) = known.iter().find(|(known, _)| *known == name) else {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            complaints.unknown(key, &format!("[{place}]"), &names);
            continue;
        };
        let inner = match above {
            [] if name == "grants" => Some(LEVELS),
            ["grants"] => Some(GRANT),
            _ => None,
        };
        let place = format!("{place}.{name}");
        let above: Vec<&str> = above.iter().copied().chain([name]).collect();
        match (inner, value.get_ref()) {
            (Some(inner), DeValue::Table(table)) => keys(table, &place, inner, &above, complaints),
            _ => {
                if let Some(problem) = problem(value, &above, expected) {
                    complaints.at(&value.span(), format!("`{place}`: {problem}"));
                }
            }
        }
    }
}

/// What is wrong with a value, by itself, for the key at the end of `path`.
fn problem(value: &Spanned<DeValue<'_>>, path: &[&str], expected: &str) -> Option<String> {
    let mut whole = value.clone();
    for key in path.iter().rev() {
        let key = Spanned::new(whole.span(), Cow::Borrowed(*key));
        let span = whole.span();
        whole = Spanned::new(span, DeValue::Table([(key, whole)].into_iter().collect()));
    }
    let error = EngineConfig::deserialize(whole.into_deserializer()).err()?;
    let value = value.get_ref();
    let said = error.message();
    // What a value's own type says is better than what is said of all values of its kind.
    let in_general = ["invalid type", "unknown variant", "data did not match"];
    Some(if !in_general.iter().any(|start| said.starts_with(start)) {
        said.to_owned()
    } else if let Some(text) = value
        .as_str()
        .filter(|_| said.starts_with("unknown variant"))
    {
        format!("{text:?} is not allowed: expected {expected}")
    } else if value.as_array().is_some() || value.as_table().is_some() {
        format!("expected {expected}")
    } else {
        format!("expected {expected}, found {}", article(value.type_str()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys that serde knows, as its complaint about another one lists them.
    fn known_to_serde(text: &str) -> Vec<String> {
        let error = toml::from_str::<EngineConfig>(text).unwrap_err();
        let (_, list) = error.message().split_once(", expected ").unwrap();
        list.split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn every_key_is_here_and_no_other() {
        for (text, here) in [
            ("x = 1", KEYS),
            ("grants.x = 1", LEVELS),
            ("grants.all.x = 1", GRANT),
        ] {
            let here: Vec<&str> = here.iter().map(|(name, _)| *name).collect();
            assert_eq!(known_to_serde(text), here);
        }
    }
}
