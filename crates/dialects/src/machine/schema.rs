//! JSON Schemas of parameters, as somebody registered them.
//!
//! Invariant: checking arguments costs no more than the size of schema and arguments allows: patterns are matched in linear time, a
//! schema refers only within itself and never in circles, and what it comes to with every reference followed is bounded.

use std::collections::HashMap;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use serde_json::value::RawValue;

/// What a schema may come to with every reference followed, in values.
const MOST_VALUES: usize = 10_000;

/// How many values may lie within one another, references included.
const MOST_LEVELS: usize = 128;

/// How large a pattern's machine may be, in bytes.
const MOST_PATTERN: usize = 1 << 20;

/// Parameters as they must be.
#[derive(Debug)]
pub(super) struct Schema(Validator);

impl Schema {
    /// Makes a schema usable; says why when it is not.
    pub(super) fn new(raw: &RawValue) -> Result<Self, String> {
        let whole: Value = serde_json::from_str(raw.get()).map_err(|_| "it cannot be read")?;
        if !whole.is_object() {
            return Err("it is not an object".into());
        }
        Measure { whole: &whole, known: HashMap::new(), way: Vec::new() }.weigh(&whole)?;
        let patterns = PatternOptions::regex().size_limit(MOST_PATTERN).dfa_size_limit(MOST_PATTERN);
        let options = jsonschema::options().offline().with_pattern_options(patterns).should_validate_formats(false);
        // What the library says of a schema may quote it; where it stands is enough.
        options.build(&whole).map(Self).map_err(|error| match error.instance_path().as_str() {
            "" => "it is no JSON Schema that can be used here".to_owned(),
            place => format!("`{place}` is no JSON Schema that can be used here"),
        })
    }

    /// Whether arguments fit; says where they do not.
    pub(super) fn check(&self, arguments: &RawValue) -> Result<(), String> {
        let Ok(value) = serde_json::from_str::<Value>(arguments.get()) else {
            return Err("the parameters have a number that nothing here can check".into());
        };
        let Err(error) = self.0.validate(&value) else { return Ok(()) };
        let place = error.instance_path().as_str().to_owned();
        let place = if place.is_empty() { "the parameters do".to_owned() } else { format!("`{place}` does") };
        let rule = error.schema_path().as_str().trim_start_matches('/').to_owned();
        Err(format!("{place} not fit the schema at `{rule}`"))
    }
}

/// How large a schema is when every reference is followed.
struct Measure<'a> {
    whole: &'a Value,
    /// By their place in memory, which is theirs alone while the schema is looked at.
    known: HashMap<*const Value, usize>,
    /// Where the measuring is at, from the outside in.
    way: Vec<*const Value>,
}

impl<'a> Measure<'a> {
    fn weigh(&mut self, value: &'a Value) -> Result<usize, String> {
        let place: *const Value = value;
        if let Some(known) = self.known.get(&place) {
            return Ok(*known);
        }
        if self.way.contains(&place) {
            return Err("it refers to itself in a circle".into());
        }
        if self.way.len() == MOST_LEVELS {
            return Err(format!("it is nested deeper than {MOST_LEVELS} levels, references included"));
        }
        self.way.push(place);
        let mut size = 1usize;
        match value {
            Value::Array(items) => {
                for item in items {
                    size = size.saturating_add(self.weigh(item)?);
                }
            }
            Value::Object(members) => {
                for (key, member) in members {
                    size = size.saturating_add(self.weigh(member)?);
                    if matches!(key.as_str(), "$dynamicRef" | "$recursiveRef") {
                        return Err(format!("`{key}` is not supported"));
                    }
                    if key == "$ref"
                        && let Some(reference) = member.as_str()
                    {
                        let target = self.follow(reference)?;
                        size = size.saturating_add(self.weigh(target)?);
                    }
                }
            }
            _ => {}
        }
        self.way.pop();
        if size > MOST_VALUES {
            return Err(format!("it comes to more than {MOST_VALUES} values with its references followed"));
        }
        self.known.insert(place, size);
        Ok(size)
    }

    /// What a reference within the schema leads to.
    fn follow(&self, reference: &str) -> Result<&'a Value, String> {
        let pointer = reference.strip_prefix('#').filter(|pointer| pointer.is_empty() || pointer.starts_with('/'));
        let pointer = pointer.ok_or("a `$ref` must be a JSON Pointer within the schema, such as `#/$defs/name`")?;
        let decoded = percent_decoded(pointer).ok_or("a `$ref` has a broken percent escape")?;
        self.whole.pointer(&decoded).ok_or_else(|| "a `$ref` leads nowhere".to_owned())
    }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                u8::try_from(high * 16 + low).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.into()).expect("the test writes JSON")
    }

    fn schema(text: &str) -> Result<Schema, String> {
        Schema::new(&raw(text))
    }

    fn refused(text: &str) -> String {
        schema(text).expect_err("refused")
    }

    fn check(schema_text: &str, arguments: &str) -> String {
        schema(schema_text).expect("a schema").check(&raw(arguments)).err().unwrap_or_else(|| "fits".into())
    }

    #[test]
    fn arguments_are_checked_and_not_quoted() {
        let text = r##"{"type":"object","properties":{"x":{"type":"integer","maximum":10},"name":{"pattern":"^[a-z]+$"},"to":{"$ref":"#/$defs/place"}},
            "required":["x"],"additionalProperties":false,"$defs":{"place":{"type":"array","items":{"type":"number"}}}}"##;
        assert_snapshot!(check(text, r#"{"x":3,"name":"abc","to":[1,2.5]}"#), @"fits");
        assert_snapshot!(check(text, r#"{"x":11}"#), @"`/x` does not fit the schema at `properties/x/maximum`");
        assert_snapshot!(check(text, r#"{"x":"secret"}"#), @"`/x` does not fit the schema at `properties/x/type`");
        assert_snapshot!(check(text, "{}"), @"the parameters do not fit the schema at `required`");
        assert_snapshot!(check(text, r#"{"x":1,"y":1}"#), @"the parameters do not fit the schema at `additionalProperties`");
        assert_snapshot!(check(text, r#"{"x":1,"to":["a"]}"#), @"`/to/0` does not fit the schema at `$defs/place/items/type`");
        assert_snapshot!(check(r#"{"type":"object"}"#, r#"{"n":1e999}"#), @"the parameters have a number that nothing here can check");
        assert_snapshot!(check(r#"{"properties":{"n":{"type":"integer"}}}"#, r#"{"n":123456789012345678901234567890}"#), @"fits");
        assert_snapshot!(check(r#"{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"n":{"const":1}}}"#, r#"{"n":2}"#), @"`/n` does not fit the schema at `properties/n/const`");
    }

    #[test]
    fn a_schema_that_could_do_harm_is_not_taken() {
        assert_snapshot!(refused("[]"), @"it is not an object");
        assert_snapshot!(refused(r#"{"type":"nothing"}"#), @"`/type` is no JSON Schema that can be used here");
        assert_snapshot!(refused(r##"{"$ref":"#"}"##), @"it refers to itself in a circle");
        assert_snapshot!(refused(r##"{"properties":{"a":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}"##), @"it refers to itself in a circle");
        assert_snapshot!(refused(r##"{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}"##), @"it refers to itself in a circle");
        assert_snapshot!(refused(r##"{"$ref":"#/%24defs/a","$defs":{"a":{"$ref":"#/%24defs/a"}}}"##), @"it refers to itself in a circle");
        assert_snapshot!(refused(r##"{"$ref":"#/$defs/none"}"##), @"a `$ref` leads nowhere");
        assert_snapshot!(refused(r##"{"$ref":"#/%zz"}"##), @"a `$ref` has a broken percent escape");
        assert_snapshot!(refused(r##"{"$ref":"#named","$anchor":"named"}"##), @"a `$ref` must be a JSON Pointer within the schema, such as `#/$defs/name`");
        assert_snapshot!(refused(r#"{"$ref":"http://192.0.2.1/schema.json"}"#), @"a `$ref` must be a JSON Pointer within the schema, such as `#/$defs/name`");
        assert_snapshot!(refused(r##"{"$dynamicRef":"#a"}"##), @"`$dynamicRef` is not supported");
        assert_snapshot!(refused(r#"{"$schema":"http://192.0.2.1/meta.json"}"#), @"it is no JSON Schema that can be used here");
        assert_snapshot!(refused(r#"{"properties":{"a":{"pattern":"(?=look)around"}}}"#), @"`/properties/a/pattern` is no JSON Schema that can be used here");
        assert_snapshot!(refused(r#"{"properties":{"a":{"pattern":"(((a{1000}){1000}){1000}){1000}"}}}"#), @"`/properties/a/pattern` is no JSON Schema that can be used here");
        let levels = |count: usize| format!("{}{{}}{}", r#"{"not":"#.repeat(count), "}".repeat(count));
        assert_snapshot!(refused(&levels(MOST_LEVELS)), @"it cannot be read");
        // Each of these refers to the one before twice: without a bound the sixtieth would be 2^60 checks.
        let doubled: Vec<_> = (1..60)
            .map(|at| {
                let before = at - 1;
                format!(r##""d{at}":{{"allOf":[{{"$ref":"#/$defs/d{before}"}},{{"$ref":"#/$defs/d{before}"}}]}}"##)
            })
            .collect();
        let doubled = format!(r##"{{"$ref":"#/$defs/d59","$defs":{{"d0":{{}},{}}}}}"##, doubled.join(","));
        assert_snapshot!(refused(&doubled), @"it comes to more than 10000 values with its references followed");
        let chain: Vec<_> = (1..5000).map(|at| format!(r##""c{at}":{{"$ref":"#/$defs/c{}"}}"##, at - 1)).collect();
        let chain = format!(r##"{{"$ref":"#/$defs/c4999","$defs":{{"c0":{{}},{}}}}}"##, chain.join(","));
        assert!(schema(&chain).is_err(), "a chain of references is nesting too");
    }
}
