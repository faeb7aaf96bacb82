//! A JSON object taken apart no further than its members, so that one of them can be changed and the rest stay as they were
//! written.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

/// The members of an object, in their order, each value as its sender wrote it.
#[derive(Debug, Clone, Default)]
pub struct Members(Vec<(String, Box<RawValue>)>);

impl Members {
    /// Reads an object; `None` when the text is anything else.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// A member's value, as written.
    pub fn get(&self, key: &str) -> Option<&RawValue> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| &**value)
    }

    /// Sets a member, in its place where it is there and at the end where it is not.
    ///
    /// # Panics
    /// When the value cannot be JSON: it has keys that are no strings.
    pub fn set(&mut self, key: &str, value: &(impl Serialize + ?Sized)) {
        let value = serde_json::value::to_raw_value(value).expect("a value has only string keys");
        match self.0.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// Takes a member out.
    pub fn remove(&mut self, key: &str) -> Option<Box<RawValue>> {
        let at = self.0.iter().position(|(name, _)| name == key)?;
        Some(self.0.remove(at).1)
    }

    /// Keeps the members that pass.
    pub fn retain(&mut self, mut keep: impl FnMut(&str) -> bool) {
        self.0.retain(|(name, _)| keep(name));
    }

    /// Every member, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), &**value))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The object as JSON.
    pub fn to_raw(&self) -> Box<RawValue> {
        serde_json::value::to_raw_value(self).expect("members have string keys")
    }
}

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reading;
        impl<'de> Visitor<'de> for Reading {
            type Value = Members;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_touched_stays_as_it_was_written() {
        let mut members = Members::parse(r#"{"b": 1.0,"a":12345678901234567890123, "c" : {"x":  [ ]}}"#).unwrap();
        members.set("a", "new");
        members.set("d", &7);
        assert_eq!(members.to_raw().get(), r#"{"b":1.0,"a":"new","c":{"x":  [ ]},"d":7}"#);
        assert_eq!(members.remove("b").unwrap().get(), "1.0");
        assert!(members.get("b").is_none());
        assert!(Members::parse("[1]").is_none());
    }
}
