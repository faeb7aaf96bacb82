//! The document lists what there is.

use std::cell::RefCell;

use serde::de::value::Error;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::*;

fn document() -> String {
    std::fs::read_to_string(document::PATH).expect("a document")
}

#[test]
fn the_document_lists_every_setting() {
    let keys = keys();
    let described: BTreeSet<_> = SETTINGS.iter().map(|setting| setting.key.clone()).collect();
    let of_all: BTreeSet<_> = keys.iter().filter(|key| !key.starts_with("topics.")).cloned().collect();
    assert_eq!(of_all, described, "every key of the file has its variable and flag");
    assert!(keys.len() > described.len(), "the keys of single topics are among them");
    let document = document();
    for key in &keys {
        assert!(document.contains(&format!("| `{key}` |")), "docs/reference/settings.md does not describe `{key}`");
    }
    for Setting { key, variable, flag, .. } in SETTINGS.iter() {
        let row = format!("| `{key}` | `{variable}` | `{flag}` |");
        assert!(document.contains(&row), "docs/reference/settings.md has no row that begins {row}");
    }
}

#[test]
fn the_document_tells_the_defaults() {
    let document = document();
    let (_, example) = document.rsplit_once("```toml\n").expect("an example");
    let example = example.strip_suffix("```\n").expect("its end");
    let told = load(example, "").expect("an example that works");
    assert_eq!(format!("{told:?}"), format!("{:?}", Config::default()));
    // What is commented out has no default to tell, but is a key all the same; everything else is there.
    for Setting { key, .. } in SETTINGS.iter() {
        let name = key.rsplit('.').next().expect("a name");
        let told = example.lines().any(|line| line.trim_start_matches("# ").starts_with(&format!("{name} = ")));
        assert!(told, "the example has no `{key}`");
    }
}

/// The keys of the file's format, as its own deserialiser asks for them.
fn keys() -> BTreeSet<String> {
    let found = RefCell::default();
    Overrides::deserialize(Probe { path: "", found: &found }).expect("a probe gives every section what it asks for");
    found.into_inner()
}

/// Plays a document in which every section is there and every value is left out.
#[derive(Clone, Copy)]
struct Probe<'a> {
    path: &'a str,
    found: &'a RefCell<BTreeSet<String>>,
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Error;

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.found.borrow_mut().insert(self.path.to_owned());
        // A guest is refused without it.
        if self.path.ends_with(".command") {
            return visitor.visit_some(serde::de::value::StrDeserializer::new("server"));
        }
        visitor.visit_none()
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &str,
        keys: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_map(Fields { probe: self, keys: keys.to_vec(), shown: None })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(Fields { probe: self, keys: vec!["any"], shown: Some("<name>") })
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        // What is in them, `salon-bridges` reads; its own pages describe it.
        if self.path.starts_with("bridges.") {
            return visitor.visit_bool(true);
        }
        panic!("`{}` is neither a section nor optional", self.path)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct seq
        tuple tuple_struct enum identifier ignored_any
    }
}

struct Fields<'a> {
    probe: Probe<'a>,
    keys: Vec<&'static str>,
    shown: Option<&'static str>,
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        self.keys.last().map(|key| seed.deserialize(serde::de::value::StrDeserializer::new(key))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let key = self.keys.pop().expect("a key came first");
        let key = self.shown.unwrap_or(key);
        let path = if self.probe.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.probe.path) };
        seed.deserialize(Probe { path: &path, ..self.probe })
    }
}
