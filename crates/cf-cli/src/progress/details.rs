//! The details of an event of which words tell, without the others.
//!
//! A batch of ten thousand tasks has some sixty thousand events. A value is made of what is told alone, and a text
//! without escapes stays where it is.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use cf_conductor::store::event::Event;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// What is told of an event beyond its type and what it is about. A detail of another kind is as good as none.
///
/// One more has three places: here, among the `texts!` if it is one, and in [`Details::of`]; and a line in the test
/// that compares the two readings.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Details<'e> {
    #[serde(borrow)]
    action: Option<Text<'e>>,
    #[serde(borrow)]
    intent: Option<Text<'e>>,
    #[serde(borrow)]
    reason: Option<Text<'e>>,
    #[serde(borrow)]
    resumes: Option<Text<'e>>,
    #[serde(borrow)]
    phase: Option<Text<'e>>,
    #[serde(borrow)]
    phase_before: Option<Text<'e>>,
    #[serde(borrow)]
    due: Option<Text<'e>>,
    #[serde(borrow)]
    started_at: Option<Text<'e>>,
    #[serde(borrow)]
    ended_at: Option<Text<'e>>,
    #[serde(borrow)]
    branch: Option<Text<'e>>,
    #[serde(borrow)]
    r#ref: Option<Text<'e>>,
    #[serde(borrow)]
    text: Option<Text<'e>>,
    #[serde(borrow)]
    source: Option<Text<'e>>,
    #[serde(borrow)]
    last_said: Option<Text<'e>>,
    #[serde(borrow, deserialize_with = "map")]
    evidence: Option<Evidence<'e>>,
    pub(super) generation: Option<u64>,
    pub(super) cost_micro_usd: Option<u64>,
    #[serde(deserialize_with = "map")]
    tokens: Option<Tokens>,
    joined: Option<bool>,
}

/// A text that is borrowed where it has no escapes.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Text<'e>(#[serde(borrow)] Cow<'e, str>);

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Evidence<'e> {
    #[serde(borrow)]
    url: Option<Text<'e>>,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Tokens {
    input: Option<u64>,
    output: Option<u64>,
}

/// Reads a map or null; a list is no map, though serde would take its items for the fields in their order.
fn map<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    struct Maps<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Maps<T> {
        type Value = Option<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map")
        }

        fn visit_unit<E>(self) -> Result<Option<T>, E> {
            Ok(None)
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Option<T>, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map)).map(Some)
        }
    }
    from.deserialize_any(Maps(PhantomData))
}

macro_rules! texts {
    ($($name:ident),+) => {
        impl Details<'_> {
            $(pub(super) fn $name(&self) -> Option<&str> {
                text(self.$name.as_ref())
            })+
        }
    };
}

texts!(
    action,
    intent,
    reason,
    resumes,
    phase,
    phase_before,
    due,
    started_at,
    ended_at,
    branch,
    r#ref,
    text,
    source,
    last_said
);

fn text<'d>(given: Option<&'d Text<'_>>) -> Option<&'d str> {
    given.map(|text| text.0.as_ref())
}

impl<'e> Details<'e> {
    /// Reads them as they are stored; none where a detail is of another kind than this program stores, or stands there
    /// twice.
    pub(super) fn read(json: &'e str) -> Option<Self> {
        let is_map = json.trim_start().starts_with('{');
        is_map.then(|| serde_json::from_str(json).ok()).flatten()
    }

    /// Those of an event that was read as a whole.
    pub(super) fn of(event: &'e Event) -> Self {
        let text = |name| event.text(name).map(|text| Text(Cow::Borrowed(text)));
        let number = |value: Option<&Value>| value.and_then(Value::as_u64);
        let at = |name: &str| event.data.get(name);
        let within = |name: &str, part: &str| at(name).and_then(|value| value.get(part));
        let url = within("evidence", "url").and_then(Value::as_str);
        Self {
            action: text("action"),
            intent: text("intent"),
            reason: text("reason"),
            resumes: text("resumes"),
            phase: text("phase"),
            phase_before: text("phase_before"),
            due: text("due"),
            started_at: text("started_at"),
            ended_at: text("ended_at"),
            branch: text("branch"),
            r#ref: text("ref"),
            text: text("text"),
            source: text("source"),
            last_said: text("last_said"),
            evidence: Some(Evidence {
                url: url.map(|url| Text(Cow::Borrowed(url))),
            }),
            generation: number(at("generation")),
            cost_micro_usd: number(at("cost_micro_usd")),
            tokens: Some(Tokens {
                input: number(within("tokens", "input")),
                output: number(within("tokens", "output")),
            }),
            joined: at("joined").and_then(Value::as_bool),
        }
    }

    /// The address of what a source saw.
    pub(super) fn url(&self) -> Option<&str> {
        text(self.evidence.as_ref()?.url.as_ref())
    }

    /// The tokens that were read and written, together.
    pub(super) fn tokens(&self) -> Option<u64> {
        let tokens = self.tokens.as_ref()?;
        Some(tokens.input?.saturating_add(tokens.output?))
    }

    /// Whether a task was added to a batch that was there already.
    pub(super) fn has_joined(&self) -> bool {
        self.joined == Some(true)
    }
}
