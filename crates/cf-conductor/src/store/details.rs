//! The details of an event: few names with a value each, kept small.
//!
//! A batch of 10,000 tasks holds an event of each at once while they are stored, and every task makes several more. A
//! map of `serde_json` takes a node of 632 bytes for the first name, and copies each; these take 56 bytes a name, with
//! room for four at first.

use std::borrow::Cow;
use std::fmt;
use std::ops::Index;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// Values by name, in the order of the names, which is that in which they are written. A name stands once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details(Vec<(Cow<'static, str>, Value)>);

impl Details {
    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let at = self.place(name).ok()?;
        Some(&self.0[at].1)
    }

    /// Whether a name has a value, be it null.
    pub fn contains(&self, name: &str) -> bool {
        self.place(name).is_ok()
    }

    /// Gives a name a value, in place of what it had.
    pub fn insert(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Value>) {
        let name = name.into();
        match self.place(&name) {
            Ok(at) => self.0[at].1 = value.into(),
            Err(at) => self.0.insert(at, (name, value.into())),
        }
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| (**other).cmp(name))
    }
}

/// What a name has, null when it has nothing.
impl Index<&str> for Details {
    type Output = Value;

    fn index(&self, name: &str) -> &Value {
        self.get(name).unwrap_or(&Value::Null)
    }
}

impl Serialize for Details {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de> Deserialize<'de> for Details {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = Details;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Details, A::Error> {
                let mut details = Details::default();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    details.insert(name, value);
                }
                Ok(details)
            }
        }
        deserializer.deserialize_map(Names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Map, json};

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
            prop::collection::vec(any::<u8>(), 0..3).prop_map(Value::from),
        ]
    }

    proptest! {
        /// Written, read and asked they are a map, whatever comes in whatever order, a name twice included.
        #[test]
        fn they_are_a_map(entries in prop::collection::vec(("[a-d]{0,2}", value()), 0..12)) {
            let mut details = Details::default();
            let mut map = Map::new();
            for (name, value) in entries {
                details.insert(name.clone(), value.clone());
                map.insert(name, value);
            }
            let text = serde_json::to_string(&details).unwrap();
            prop_assert_eq!(&text, &serde_json::to_string(&map).unwrap());
            prop_assert_eq!(&serde_json::from_str::<Details>(&text).unwrap(), &details);
            for name in ["", "a", "b", "aa", "dd", "e"] {
                prop_assert_eq!(details.get(name), map.get(name));
                prop_assert_eq!(details.contains(name), map.contains_key(name));
                prop_assert_eq!(&details[name], map.get(name).unwrap_or(&Value::Null));
            }
        }
    }

    #[test]
    fn what_is_no_map_is_refused() {
        assert!(serde_json::from_str::<Details>("[1]").is_err());
        assert!(serde_json::from_str::<Details>("{\"a\":1").is_err());
        let twice: Details = serde_json::from_str("{\"a\":1,\"a\":2}").unwrap();
        assert_eq!(twice["a"], json!(2));
    }
}
