//! JSON Schemas of parameters, as somebody registered them.
//!
//! Invariants: what all schemas of one client may come to is bounded ([`Size`]) before anything is made of them, so a registration takes
//! milliseconds and little memory. Arguments are checked only where that takes a number of steps in proportion to their length
//! ([`super::steps`]): a schema refers only within itself and never in circles, and a pattern costs as much as its automaton is large.

use std::collections::{BTreeMap, HashMap};

use jsonschema::{PatternOptions, Validator};
use salon_protocol::{Code, percent_decoded};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::steps::{Costs, MAX_PER_BYTE, MAX_STEPS, Steps};

/// What the schemas of one client may come to with every reference followed, in values.
pub(super) const MAX_VALUES: usize = 10_000;

/// How many patterns they may have, and of how many bytes in all.
pub(super) const MAX_PATTERNS: usize = 64;
pub(super) const MAX_PATTERN_BYTES: usize = 8 * 1024;

/// How many values may lie within one another, references included.
const MAX_LEVELS: usize = 128;

/// How large the automaton of a pattern may be, in bytes, and the sizes it is compared with.
const MAX_AUTOMATON: usize = 64 * 1024;
const SMALLER: [usize; 2] = [8 * 1024, 1024];

/// How many times `unevaluatedProperties` and `unevaluatedItems` have looked at what is beside them when they are done.
pub(super) const UNEVALUATED: usize = 4;

/// How many steps a check may have taken for it to be done again to find out where the arguments do not fit.
const FEW_STEPS: usize = 10_000;

/// How much a schema is, with its references followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) values: usize,
    pub(super) patterns: usize,
    pub(super) pattern_bytes: usize,
}

impl Size {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            values: self.values.saturating_add(other.values),
            patterns: self.patterns.saturating_add(other.patterns),
            pattern_bytes: self.pattern_bytes.saturating_add(other.pattern_bytes),
        }
    }

    /// Says what is too much, if anything is.
    pub(super) fn excess(self) -> Option<String> {
        if self.values > MAX_VALUES {
            return Some(format!("come to more than {MAX_VALUES} values with their references followed"));
        }
        if self.patterns > MAX_PATTERNS || self.pattern_bytes > MAX_PATTERN_BYTES {
            return Some(format!(
                "have more than {MAX_PATTERNS} patterns, or more than {MAX_PATTERN_BYTES} bytes of them"
            ));
        }
        None
    }
}

/// Why arguments are not taken.
#[derive(Debug)]
pub(super) enum SchemaError {
    /// They are not what the schema wants.
    Unlike(String),
    /// It would take too long to find out.
    TooLong,
}

impl SchemaError {
    pub(super) fn code(&self) -> Code {
        match self {
            Self::Unlike(_) => Code::InvalidParameters,
            Self::TooLong => Code::TooLarge,
        }
    }

    pub(super) fn describe(self) -> String {
        match self {
            Self::Unlike(describe) => describe,
            Self::TooLong => format!(
                "the parameters are too much to check against the schema of this tool: it would take more than {MAX_STEPS} steps and {MAX_PER_BYTE} a byte"
            ),
        }
    }
}

/// A schema that has been read and measured, and of which nothing is made yet.
#[derive(Debug)]
pub(super) struct Plan {
    whole: Value,
    pub(super) size: Size,
    /// What its patterns are.
    patterns: Vec<String>,
}

impl Plan {
    /// Reads a schema, or says why it is invalid.
    pub(super) fn new(raw: &RawValue) -> Result<Self, String> {
        let whole: Value = serde_json::from_str(raw.get()).map_err(|_| "it cannot be read")?;
        if !whole.is_object() {
            return Err("it is not an object".into());
        }
        if whole["$schema"].as_str().is_some_and(|uri| uri.contains("draft-04")) {
            return Err("drafts of JSON Schema before 6 are not supported".into());
        }
        let mut measure = Measure { whole: &whole, sizes: HashMap::new(), way: Vec::new(), patterns: Vec::new() };
        let size = measure.weigh(&whole)?;
        let patterns = measure.patterns.into_iter().map(str::to_owned).collect();
        Ok(Self { whole, size, patterns })
    }

    /// Makes the schema usable; says why when it is not.
    pub(super) fn build(self) -> Result<Schema, String> {
        let mut costs = BTreeMap::new();
        for pattern in self.patterns {
            let size = automaton(&pattern)?;
            costs.insert(pattern, size);
        }
        // What the library says of a schema may quote it; where it stands is enough.
        let checker = validator(&self.whole, MAX_AUTOMATON).map_err(|error| match error.instance_path().as_str() {
            "" => "it is not a JSON Schema that can be used here".to_owned(),
            place => format!("`{place}` is not a JSON Schema that can be used here"),
        })?;
        Ok(Schema { checker, whole: self.whole, costs: Costs::new(costs) })
    }
}

fn validator(schema: &Value, automaton: usize) -> Result<Validator, jsonschema::ValidationError<'_>> {
    let patterns = PatternOptions::regex().size_limit(automaton).dfa_size_limit(automaton);
    jsonschema::options().offline().with_pattern_options(patterns).should_validate_formats(false).build(schema)
}

/// How large the automaton of a pattern is, roughly and at the most.
fn automaton(pattern: &str) -> Result<usize, String> {
    let fits = |most: usize| validator(&json!({ "pattern": pattern }), most).is_ok();
    if has_flags(pattern) {
        return Err("a pattern has flags or looks around, neither of which is supported".into());
    }
    if !fits(MAX_AUTOMATON) {
        return Err(format!(
            "a pattern is no regular expression, or comes to an automaton of more than {MAX_AUTOMATON} bytes"
        ));
    }
    Ok(SMALLER.into_iter().take_while(|most| fits(*most)).last().unwrap_or(MAX_AUTOMATON))
}

/// Whether a pattern has a group that is neither plain nor named. Flags make small patterns large.
fn has_flags(pattern: &str) -> bool {
    let (mut rest, mut in_class) = (pattern.chars().peekable(), false);
    while let Some(character) = rest.next() {
        match character {
            '\\' => drop(rest.next()),
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class && rest.next_if_eq(&'?').is_some() && !matches!(rest.peek(), Some(':' | '<')) => {
                return true;
            }
            _ => {}
        }
    }
    false
}

/// Parameters as they must be.
#[derive(Debug)]
pub(super) struct Schema {
    checker: Validator,
    /// The schema itself, by which it is seen beforehand how long a check takes.
    whole: Value,
    costs: Costs,
}

impl Schema {
    /// Whether arguments fit; says where they do not.
    pub(super) fn check(&self, arguments: &RawValue) -> Result<(), SchemaError> {
        let Ok(value) = serde_json::from_str::<Value>(arguments.get()) else {
            return Err(SchemaError::Unlike("the parameters have a number that nothing here can check".into()));
        };
        let mut steps = Steps::new(&self.whole, &self.costs, arguments.get().len());
        if !steps.suffice(&value) {
            return Err(SchemaError::TooLong);
        }
        if self.checker.is_valid(&value) {
            return Ok(());
        }
        // Errors are collected branch by branch, which takes longer than the check.
        let found = if steps.taken() > FEW_STEPS { None } else { self.checker.validate(&value).err() };
        let Some(error) = found else { return Err(SchemaError::Unlike("the parameters do not fit the schema".into())) };
        let place = error.instance_path().as_str().to_owned();
        let place = if place.is_empty() { "the parameters do".to_owned() } else { format!("`{place}` does") };
        let rule = error.schema_path().as_str().trim_start_matches('/').to_owned();
        Err(SchemaError::Unlike(format!("{place} not fit the schema at `{rule}`")))
    }
}

/// How large a schema is when every reference is followed.
struct Measure<'a> {
    whole: &'a Value,
    /// By their place in memory, which is theirs alone while the schema is looked at.
    sizes: HashMap<*const Value, Size>,
    /// Where the measuring is at, from the outside in.
    way: Vec<*const Value>,
    patterns: Vec<&'a str>,
}

impl<'a> Measure<'a> {
    fn weigh(&mut self, value: &'a Value) -> Result<Size, String> {
        let place: *const Value = value;
        if let Some(sizes) = self.sizes.get(&place) {
            return Ok(*sizes);
        }
        if self.way.contains(&place) {
            return Err("it refers to itself in a circle".into());
        }
        if self.way.len() == MAX_LEVELS {
            return Err(format!("it is nested deeper than {MAX_LEVELS} levels, references included"));
        }
        self.way.push(place);
        let mut size = Size { values: 1, ..Size::default() };
        match value {
            Value::Array(items) => {
                for item in items {
                    size = size.plus(self.weigh(item)?);
                }
            }
            Value::Object(members) => {
                for (key, member) in members {
                    size = size.plus(self.weigh(member)?).plus(self.member(key, member)?);
                }
                let again =
                    ["unevaluatedProperties", "unevaluatedItems"].iter().filter(|key| members.contains_key(**key));
                // Within one another they look at the same again and again.
                size.values = again.fold(size.values, |values, _| values.saturating_mul(UNEVALUATED));
            }
            _ => {}
        }
        self.way.pop();
        if let Some(excess) = size.excess() {
            return Err(format!("it would {excess}"));
        }
        self.sizes.insert(place, size);
        Ok(size)
    }

    /// What a member is more than its value.
    fn member(&mut self, key: &str, member: &'a Value) -> Result<Size, String> {
        let text = member.as_str();
        match key {
            "$dynamicRef" | "$recursiveRef" => Err(format!("`{key}` is not supported")),
            // Another base for what it refers to.
            "$id" if text.is_some() && self.way.len() > 1 => Err("`$id` is supported at the top alone".into()),
            "$ref" => match text {
                Some(reference) => {
                    let target = follow(self.whole, reference)?;
                    self.weigh(target)
                }
                None => Ok(Size::default()),
            },
            "pattern" => Ok(text.map_or_else(Size::default, |text| self.pattern(text))),
            "patternProperties" => {
                let keys = member.as_object().into_iter().flat_map(|members| members.keys());
                Ok(keys.fold(Size::default(), |size, text| size.plus(self.pattern(text))))
            }
            _ => Ok(Size::default()),
        }
    }

    fn pattern(&mut self, text: &'a str) -> Size {
        self.patterns.push(text);
        Size { values: 0, patterns: 1, pattern_bytes: text.len() }
    }
}

/// What a reference within a schema leads to.
pub(super) fn follow<'a>(whole: &'a Value, reference: &str) -> Result<&'a Value, String> {
    let pointer = reference.strip_prefix('#').filter(|pointer| pointer.is_empty() || pointer.starts_with('/'));
    let pointer = pointer.ok_or("a `$ref` must be a JSON Pointer within the schema, such as `#/$defs/name`")?;
    let decoded = percent_decoded(pointer).ok_or("a `$ref` has a broken percent escape")?;
    whole.pointer(&decoded).ok_or_else(|| "a `$ref` leads nowhere".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.into()).expect("the test writes JSON")
    }

    fn schema(text: &str) -> Result<Schema, String> {
        Plan::new(&raw(text))?.build()
    }

    fn refused(text: &str) -> String {
        schema(text).expect_err("refused")
    }

    fn check(schema_text: &str, arguments: &str) -> String {
        schema(schema_text)
            .expect("a schema")
            .check(&raw(arguments))
            .map_or_else(SchemaError::describe, |()| "fits".into())
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
        assert_snapshot!(refused(r#"{"type":"nothing"}"#), @"`/type` is not a JSON Schema that can be used here");
        assert_snapshot!(refused(r##"{"$ref":"#"}"##), @"it refers to itself in a circle");
        assert_snapshot!(refused(r##"{"properties":{"a":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}}"##), @"it refers to itself in a circle");
        assert_snapshot!(refused(r##"{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}"##), @"it refers to itself in a circle");
        assert_snapshot!(refused(r##"{"$ref":"#/%24defs/a","$defs":{"a":{"$ref":"#/%24defs/a"}}}"##), @"it refers to itself in a circle");
        assert_snapshot!(refused(r##"{"$ref":"#/$defs/none"}"##), @"a `$ref` leads nowhere");
        assert_snapshot!(refused(r##"{"$ref":"#/%zz"}"##), @"a `$ref` has a broken percent escape");
        assert_snapshot!(refused(r##"{"$ref":"#named","$anchor":"named"}"##), @"a `$ref` must be a JSON Pointer within the schema, such as `#/$defs/name`");
        assert_snapshot!(refused(r#"{"$ref":"http://192.0.2.1/schema.json"}"#), @"a `$ref` must be a JSON Pointer within the schema, such as `#/$defs/name`");
        assert_snapshot!(refused(r##"{"$dynamicRef":"#a"}"##), @"`$dynamicRef` is not supported");
        assert_snapshot!(refused(r#"{"$schema":"http://192.0.2.1/meta.json"}"#), @"it is not a JSON Schema that can be used here");
        assert_snapshot!(refused(r#"{"properties":{"a":{"pattern":"(?=look)around"}}}"#), @"a pattern has flags or looks around, neither of which is supported");
        assert_snapshot!(refused(r#"{"properties":{"a":{"pattern":"(((a{1000}){1000}){1000}){1000}"}}}"#), @"a pattern is no regular expression, or comes to an automaton of more than 65536 bytes");
        let levels = |count: usize| format!("{}{{}}{}", r#"{"not":"#.repeat(count), "}".repeat(count));
        assert_snapshot!(refused(&levels(MAX_LEVELS)), @"it cannot be read");
        // Each of these refers to the one before twice: without a bound the sixtieth would be 2^60 checks.
        let doubled: Vec<_> = (1..60)
            .map(|at| {
                let before = at - 1;
                format!(r##""d{at}":{{"allOf":[{{"$ref":"#/$defs/d{before}"}},{{"$ref":"#/$defs/d{before}"}}]}}"##)
            })
            .collect();
        let doubled = format!(r##"{{"$ref":"#/$defs/d59","$defs":{{"d0":{{}},{}}}}}"##, doubled.join(","));
        assert_snapshot!(refused(&doubled), @"it would come to more than 10000 values with their references followed");
        let chain: Vec<_> = (1..5000).map(|at| format!(r##""c{at}":{{"$ref":"#/$defs/c{}"}}"##, at - 1)).collect();
        let chain = format!(r##"{{"$ref":"#/$defs/c4999","$defs":{{"c0":{{}},{}}}}}"##, chain.join(","));
        assert!(schema(&chain).is_err(), "a chain of references is nesting too");
    }

    #[test]
    fn what_costs_more_than_its_length_says_is_not_taken_either() {
        let nested = |count: usize| {
            let inner = r#"{"unevaluatedProperties":false}"#.to_owned();
            (0..count).fold(inner, |inner, _| format!(r#"{{"anyOf":[{inner}],"unevaluatedProperties":false}}"#))
        };
        assert!(schema(&nested(2)).is_ok());
        assert_snapshot!(refused(&nested(8)), @"it would come to more than 10000 values with their references followed");
        assert_snapshot!(refused(r##"{"properties":{"a":{"$id":"urn:a","$ref":"#/$defs/b"}},"$defs":{"b":{}}}"##), @"`$id` is supported at the top alone");
        assert!(schema(r##"{"$id":"urn:a","$ref":"#/$defs/b","$defs":{"b":{}}}"##).is_ok());
        assert_snapshot!(refused(r#"{"$schema":"http://json-schema.org/draft-04/schema#"}"#), @"drafts of JSON Schema before 6 are not supported");
        assert_snapshot!(refused(r#"{"properties":{"a":{"pattern":"(?i)x"}}}"#), @"a pattern has flags or looks around, neither of which is supported");
        assert!(schema(r#"{"properties":{"a":{"pattern":"^\\(?[(?i)](?:x)(?<n>y)$"}}}"#).is_ok(), "no flags");
        assert_snapshot!(refused(r#"{"properties":{"a":{"pattern":"\\p{L}{10}"}}}"#), @"a pattern is no regular expression, or comes to an automaton of more than 65536 bytes");
        let doubled: Vec<_> = (1..7)
            .map(|at| {
                let before = at - 1;
                format!(r##""d{at}":{{"allOf":[{{"$ref":"#/$defs/d{before}"}},{{"$ref":"#/$defs/d{before}"}}]}}"##)
            })
            .collect();
        let doubled = format!(r##"{{"$ref":"#/$defs/d6","$defs":{{"d0":{{"pattern":"x"}},{}}}}}"##, doubled.join(","));
        assert_snapshot!(refused(&doubled), @"it would have more than 64 patterns, or more than 8192 bytes of them");
    }

    /// Whether arguments of `count` of `item` are checked at all.
    fn is_checked(schema_text: &str, item: &str, count: usize) -> bool {
        let arguments = format!(r#"{{"a":[{}]}}"#, vec![item; count].join(","));
        !matches!(schema(schema_text).expect("a schema").check(&raw(&arguments)), Err(SchemaError::TooLong))
    }

    #[test]
    fn a_check_is_done_only_if_it_takes_no_longer_than_the_arguments_deserve() {
        // What is large is checked all the same where there is little to check.
        assert!(is_checked(r#"{"properties":{"a":{"items":{"type":"number"}}}}"#, "1.5", 200_000));
        let text = format!("{:?}", "a".repeat(1 << 20));
        assert!(is_checked(r#"{"properties":{"a":{"items":{"type":"string","maxLength":2000000}}}}"#, &text, 1));
        let rules = |count: usize, rule: &str| {
            format!(r#"{{"properties":{{"a":{{"items":{{"allOf":[{}]}}}}}}}}"#, vec![rule; count].join(","))
        };
        assert!(is_checked(&rules(1000, r#"{"minimum":0}"#), "1", 10));
        assert!(!is_checked(&rules(4000, r#"{"minimum":0}"#), "1", 1000));
        assert!(!is_checked(&rules(1000, r#"{"minLength":1}"#), &text, 1));
        // An automaton that is small may look at more than a large one.
        let small = r#"{"properties":{"a":{"items":{"pattern":"^[A-Za-z0-9+/]*={0,2}$"}}}}"#;
        let large = r#"{"properties":{"a":{"items":{"pattern":"^([ab]*a[ab]{800}[cd][ab]*)+$"}}}}"#;
        let long = format!("{:?}", "ab".repeat(5_000));
        assert!(is_checked(small, &long, 1));
        assert!(!is_checked(large, &long, 1));
        assert!(is_checked(large, &format!("{:?}", "ab".repeat(50)), 1));
        let names = r#"{"properties":{"a":{"items":{"patternProperties":{"^([ab]*a[ab]{800}[cd][ab]*)+$":{}}}}}}"#;
        assert!(!is_checked(names, &format!(r#"{{{long}:1}}"#), 1));
        assert!(!is_checked(
            r#"{"properties":{"a":{"items":{"propertyNames":{"pattern":"^([ab]*a[ab]{800}[cd][ab]*)+$"}}}}}"#,
            &format!(r#"{{{long}:1}}"#),
            1
        ));
        // Wherever a rule stands.
        let rule = r#"{"pattern":"^([ab]*a[ab]{800}[cd][ab]*)+$"}"#;
        for place in [
            format!(r#"{{"anyOf":[{{"type":"string"}},{rule}]}}"#),
            format!(r#"{{"oneOf":[{rule}]}}"#),
            format!(r#"{{"not":{rule}}}"#),
            format!(r#"{{"if":{rule},"then":{{}}}}"#),
            format!(r#"{{"if":true,"then":{rule}}}"#),
            format!(r#"{{"if":false,"else":{rule}}}"#),
            r##"{"$ref":"#/$defs/rule"}"##.to_owned(),
        ] {
            let text = format!(r#"{{"properties":{{"a":{{"items":{place}}}}},"$defs":{{"rule":{rule}}}}}"#);
            assert!(!is_checked(&text, &long, 1), "{place}");
        }
        for place in [
            format!(r#"{{"prefixItems":[{rule}]}}"#),
            format!(r#"{{"contains":{rule}}}"#),
            format!(r#"{{"unevaluatedItems":{rule}}}"#),
        ] {
            assert!(!is_checked(&format!(r#"{{"properties":{{"a":{place}}}}}"#), &long, 1), "{place}");
        }
        for place in [
            format!(r#"{{"additionalProperties":{{"items":{rule}}}}}"#),
            format!(r#"{{"unevaluatedProperties":{{"items":{rule}}}}}"#),
            format!(r#"{{"patternProperties":{{"a":{{"items":{rule}}}}}}}"#),
            format!(r#"{{"dependentSchemas":{{"a":{{"properties":{{"a":{{"items":{rule}}}}}}}}}}}"#),
        ] {
            assert!(!is_checked(&place, &long, 1), "{place}");
        }
        let unlike = schema(r#"{"properties":{"a":{"items":{"type":"string"}}}}"#).expect("a schema");
        let many = format!(r#"{{"a":[{}]}}"#, vec!["1"; 10_000].join(","));
        assert_snapshot!(unlike.check(&raw(&many)).expect_err("unlike").describe(), @"the parameters do not fit the schema");
    }
}
