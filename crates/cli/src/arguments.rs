//! Arguments as a person types them, `key=value`, made into the JSON a schema asks for.
//!
//! A value is typed by its property: `x=1` is a number where the schema says number and the text "1" where it says string. What is
//! sent is the text that was typed, so a number keeps every digit. The schema is somebody else's and is not trusted: patterns run in
//! linear time, references lead nowhere outside it, and one that is itself wrong checks nothing.

mod field;
mod tree;

use std::fmt;

use jsonschema::error::{ValidationError, ValidationErrorKind};
use salon_dialects::json_schema;
use salon_protocol::Members;
use serde_json::Value;
use serde_json::value::RawValue;

pub(crate) use self::field::ArgumentField;
use self::tree::{Argument, ArgumentTree};

/// Mistakes reported at once.
const MAX_LISTED_FAULTS: usize = 4;

/// How deep the alternatives of a property are looked into for its types.
const MAX_NESTED: usize = 4;

/// What arguments must look like: the `inputSchema` of a tool, or the `requestedSchema` of a question.
#[derive(Debug, Clone, Default)]
pub(crate) struct ArgumentSchema {
    whole: Value,
    /// The names of its properties as they were written, which a map does not keep.
    order: Vec<String>,
}

/// What of a schema says how things go together, and nothing of one argument alone.
const ABOUT_ALL: [&str; 13] = [
    "required",
    "minProperties",
    "maxProperties",
    "propertyNames",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "$ref",
];

/// Why arguments do not fit, a line a mistake.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) struct ArgumentErrors(Vec<String>);

impl fmt::Display for ArgumentErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl ArgumentErrors {
    fn one(mistake: impl Into<String>) -> Self {
        Self(vec![mistake.into()])
    }
}

impl ArgumentSchema {
    /// A schema as it came; a missing one, or one that is not an object, requires nothing.
    pub(crate) fn new(raw: Option<&RawValue>) -> Self {
        let text = raw.map(RawValue::get).unwrap_or_default();
        let properties = Members::parse(text).and_then(|whole| Members::parse(whole.get("properties")?.get()));
        let order = properties.iter().flat_map(Members::iter).map(|(name, _)| name.to_owned()).collect();
        Self { whole: serde_json::from_str(text).unwrap_or_default(), order }
    }

    /// Makes the arguments. A pair is `key=value`, typed by the schema, or `key:=JSON`, taken as it is; a single text that begins with
    /// `{` is the whole. An array takes JSON, or its key several times; `a.b=value` reaches into an object.
    pub(crate) fn read<T: AsRef<str>>(&self, pairs: &[T]) -> Result<Box<RawValue>, ArgumentErrors> {
        let text = match pairs {
            [whole] if whole.as_ref().starts_with('{') => whole.as_ref().to_owned(),
            _ => self.compose(pairs)?,
        };
        let made =
            RawValue::from_string(text).map_err(|error| ArgumentErrors::one(format!("that is not JSON: {error}")))?;
        self.check(&made, false)?;
        Ok(made)
    }

    /// The same for a form that a person fills in: formats such as `email` and `date` are checked as well (MCP 2025-11-25, Elicitation,
    /// "Requested Schema").
    pub(crate) fn fill_in<T: AsRef<str>>(&self, pairs: &[T]) -> Result<Box<RawValue>, ArgumentErrors> {
        let made = self.read(pairs)?;
        self.check(&made, true)?;
        Ok(made)
    }

    /// Looks at one argument while the others are not known yet: what was typed for it, more than one for a list.
    pub(crate) fn try_one<T: AsRef<str>>(&self, pairs: &[T]) -> Result<(), ArgumentErrors> {
        let made =
            RawValue::from_string(self.compose(pairs)?).map_err(|error| ArgumentErrors::one(error.to_string()))?;
        let mut alone = self.clone();
        if let Some(whole) = alone.whole.as_object_mut() {
            whole.retain(|keyword, _| !ABOUT_ALL.contains(&&**keyword));
        }
        alone.check(&made, true)
    }

    fn compose<T: AsRef<str>>(&self, pairs: &[T]) -> Result<String, ArgumentErrors> {
        let mut given = ArgumentTree::default();
        let taken = pairs.iter().map(|pair| given.put(self.pair(pair.as_ref())?));
        let mistakes: Vec<_> = taken.filter_map(Result::err).take(MAX_LISTED_FAULTS).collect();
        if mistakes.is_empty() { Ok(given.json()) } else { Err(ArgumentErrors(mistakes)) }
    }

    /// What a pair says, its value as JSON.
    fn pair<'a>(&self, pair: &'a str) -> Result<Argument<'a>, String> {
        let split = pair.split_once('=');
        if split.is_some_and(|(key, _)| key.trim_end_matches(':').is_empty()) {
            return Err(format!("an argument is `name=value`, and `{pair}` has no name"));
        }
        let (key, value) = split.ok_or_else(|| {
            let names: Vec<_> = self.fields().into_iter().map(|field| format!("{}=…", field.name)).collect();
            let known = if names.is_empty() { String::new() } else { format!(": {}", names.join(" ")) };
            format!("`{pair}` is no `key=value`{known}")
        })?;
        if let Some(key) = key.strip_suffix(':') {
            let json =
                serde_json::from_str::<&RawValue>(value).map_err(|_| format!("`{key}` is not JSON: `{value}`"))?;
            let path = self.locate(key).map_or_else(|_| vec![key], |(path, _)| path);
            return Ok(Argument { path, json: json.get().to_owned(), listed: false });
        }
        let (path, property) = self.locate(key)?;
        let Some(property) = property else { return Ok(Argument { path, json: guessed(value), listed: false }) };
        let listed = self.types(property) == ["array"] && !value.starts_with('[');
        let property = if listed { self.follow(&property["items"]) } else { property };
        let value = match (self.types(property).as_slice(), value.to_ascii_lowercase().as_str()) {
            (["boolean"], "yes" | "y") => "true",
            (["boolean"], "no" | "n") => "false",
            _ => value,
        };
        // A value may be called by its title, unless that is another's value.
        let choices = self.choices(property);
        let titled = choices.iter().find(|choice| !value.is_empty() && choice.title.eq_ignore_ascii_case(value));
        let value = match titled.filter(|_| choices.iter().all(|choice| choice.value != value)) {
            Some(choice) => &choice.value,
            None => value,
        };
        let json = self.typed(value, property).ok_or_else(|| {
            let kind = self.kind(property);
            let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
            let given = if value.is_empty() { "and nothing was given".into() } else { format!("not `{value}`") };
            format!("`{key}` must be {article} {kind}, {given}")
        })?;
        Ok(Argument { path, json, listed })
    }

    /// Where a key leads: the names on the way, and what the schema says of what is there. A name may have a dot in it.
    fn locate<'k>(&self, key: &'k str) -> Result<(Vec<&'k str>, Option<&Value>), String> {
        let (mut level, mut rest, mut path) = (&self.whole, key, Vec::new());
        loop {
            let known = level.get("properties").and_then(Value::as_object);
            if let Some(property) = known.and_then(|known| known.get(rest)) {
                path.push(rest);
                return Ok((path, Some(self.follow(property))));
            }
            let split = rest.split_once('.').filter(|(head, tail)| !head.is_empty() && !tail.is_empty());
            if let (Some((head, tail)), Some(known)) = (split, known)
                && let Some(property) = known.get(head)
            {
                path.push(head);
                (level, rest) = (self.follow(property), tail);
                continue;
            }
            let others = level.get("additionalProperties");
            match known.filter(|_| others.is_none_or(|others| *others == Value::Bool(false))) {
                Some(known) if known.is_empty() => return Err(format!("`{key}` is not an argument; there are none")),
                Some(known) => {
                    let names: Vec<_> = known.keys().map(String::as_str).collect();
                    return Err(format!("`{key}` is not an argument; there are: {}", names.join(", ")));
                }
                None if split.is_some() => path.extend(rest.split('.')),
                None => path.push(rest),
            }
            return Ok((path, others.filter(|others| split.is_none() && others.is_object()).map(|it| self.follow(it))));
        }
    }

    /// What a reference within the schema leads to; everything else is what it is.
    fn follow<'a>(&'a self, property: &'a Value) -> &'a Value {
        let mut at = property;
        for _ in 0..MAX_NESTED {
            let reference = at["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
            match reference.and_then(|pointer| self.whole.pointer(pointer)) {
                Some(next) => at = next,
                None => break,
            }
        }
        at
    }

    /// Formats such as `email` are hints to most programs, and looked at only where a person can be asked again.
    fn check(&self, made: &RawValue, formats: bool) -> Result<(), ArgumentErrors> {
        let value = match serde_json::from_str::<Value>(made.get()) {
            Ok(value) => value,
            // Nothing here can hold it, so nothing here can check it.
            Err(error) if error.to_string().starts_with("number out of range") => return Ok(()),
            Err(_) => return Err(ArgumentErrors::one("that is nested too deeply")),
        };
        if !self.whole.is_object() {
            return Ok(());
        }
        let mistakes = json_schema::mistakes(&self.whole, &value, formats, MAX_LISTED_FAULTS);
        let told: Vec<String> = mistakes.iter().map(|error| self.mistake(error)).collect();
        if told.is_empty() { Ok(()) } else { Err(ArgumentErrors(told)) }
    }

    /// A mistake in words.
    fn mistake(&self, error: &ValidationError<'_>) -> String {
        let field = |name: &str| self.fields().into_iter().find(|field| field.name == name);
        if let ValidationErrorKind::Required { property } = error.kind() {
            let name = property.as_str().unwrap_or_default();
            let kind = field(name).map(|field| field.kind).filter(|kind| !kind.is_empty());
            return format!("`{name}` is missing{}", kind.map(|kind| format!(" ({kind})")).unwrap_or_default());
        }
        let place = error.instance_path().as_str().trim_start_matches('/').replace('/', ".");
        if let ValidationErrorKind::OneOfNotValid { .. } | ValidationErrorKind::AnyOf { .. } = error.kind()
            && let Some(choices) = field(place.split('.').next().unwrap_or_default())
                .filter(|field| field.name == place || field.several)
                .map(|field| field.choices)
                .filter(|choices| !choices.is_empty())
        {
            let values: Vec<_> = choices.iter().map(|choice| format!("\"{}\"", choice.value)).collect();
            return format!("`{place}`: {} is not one of {}", error.instance(), values.join(", "));
        }
        if place.is_empty() { error.to_string() } else { format!("`{place}`: {error}") }
    }

    /// A value as JSON of one of the types the property has.
    fn typed(&self, value: &str, property: &Value) -> Option<String> {
        let types = self.types(property);
        if types.is_empty() {
            return Some(guessed(value));
        }
        let json = serde_json::from_str::<&RawValue>(value).ok().map(RawValue::get);
        let fits = |json: &str| {
            let found = match json.as_bytes().first() {
                Some(b'{') => "object",
                Some(b'[') => "array",
                Some(b'"') => "string",
                Some(b't' | b'f') => "boolean",
                Some(b'n') => "null",
                _ => "number",
            };
            // A text is what was typed, quotes and all; whether a number is whole is for the check of the whole to say.
            found != "string" && (types.contains(&found) || (found == "number" && types.contains(&"integer")))
        };
        match json.filter(|json| fits(json)) {
            Some(json) => Some(json.to_owned()),
            None if types.contains(&"string") => Some(Value::from(value).to_string()),
            None => None,
        }
    }
}

/// A value nothing is known about: JSON if it is some, else a text.
fn guessed(value: &str) -> String {
    match serde_json::from_str::<&RawValue>(value) {
        Ok(json) => json.get().to_owned(),
        Err(_) => Value::from(value).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    const SCHEMA: &str = r#"{
        "type": "object",
        "properties": {
            "x": {"type": "number", "description": "Metres east"},
            "count": {"type": "integer", "minimum": 1},
            "label": {"type": "string", "pattern": "^[a-z ]+$"},
            "gear": {"enum": ["slow", "fast"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "careful": {"type": "boolean"},
            "where": {"type": "object"},
            "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "any": {}
        },
        "required": ["x"]
    }"#;

    fn made(schema: &str, pairs: &[&str]) -> String {
        let schema: Box<RawValue> = serde_json::from_str(schema).expect("a schema");
        match ArgumentSchema::new(Some(&schema)).read(pairs) {
            Ok(made) => made.get().to_owned(),
            Err(unfit) => unfit.to_string(),
        }
    }

    #[test]
    fn a_value_is_typed_by_its_property() {
        assert_snapshot!(
            made(SCHEMA, &["x=1.50", "label=true", "gear=fast", "tags=a", "tags=b c", "careful=true", "where={\"a\":1}", "limit=null", "any=x y"]),
            @r#"{"x":1.50,"label":"true","gear":"fast","tags":["a","b c"],"careful":true,"where":{"a":1},"limit":null,"any":"x y"}"#
        );
        assert_snapshot!(made(SCHEMA, &["x=12345678901234567890123", "any=7", "tags=[\"k=v\"]"]), @r#"{"x":12345678901234567890123,"any":7,"tags":["k=v"]}"#);
        assert_snapshot!(made(SCHEMA, &[r#"{"x":1,"more":2}"#]), @r#"{"x":1,"more":2}"#);
        assert_snapshot!(made(SCHEMA, &["x=1", "careful=Yes", "label=yes"]), @r#"{"x":1,"careful":true,"label":"yes"}"#);
        assert_snapshot!(made(SCHEMA, &["x:=1", "label:=\"a\"", "new:=[1]"]), @r#"{"x":1,"label":"a","new":[1]}"#);
    }

    #[test]
    fn mistakes_are_told_before_anything_is_sent() {
        for (pairs, told) in [
            (&["x=far"][..], "`x` must be a number, not `far`"),
            (&["x=1", "x=2"], "`x` is given twice"),
            (&["x"], "`x` is no `key=value`: x=… count=… label=… gear=… tags=… careful=… where=… limit=… any=…"),
            (&[], "`x` is missing (number)"),
            (
                &["x=1", "speed=3"],
                "`speed` is not an argument; there are: any, careful, count, gear, label, limit, tags, where, x",
            ),
            (&["x=1", "count=0"], "`count`: 0 is less than the minimum of 1"),
            (&["x=1", "count=1.5"], "`count`: 1.5 is not of type \"integer\""),
            (&["x=1", "gear=up"], "`gear`: \"up\" is not one of \"slow\" or \"fast\""),
            (&["x=1", "label=A"], "`label`: \"A\" does not match \"^[a-z ]+$\""),
            (&["x=1", "careful=maybe"], "`careful` must be a boolean, not `maybe`"),
            (&["=5"], "an argument is `name=value`, and `=5` has no name"),
            (&[":=5"], "an argument is `name=value`, and `:=5` has no name"),
            (&["x="], "`x` must be a number, and nothing was given"),
            (&["x:=one"], "`x` is not JSON: `one`"),
            (&["{\"x\":"], "that is not JSON: EOF while parsing a value at line 1 column 5"),
        ] {
            assert_eq!(made(SCHEMA, pairs), told);
        }
    }

    #[test]
    fn a_form_holds_its_answers_to_their_formats() {
        let schema = r#"{"properties":{
            "mail":{"type":"string","format":"email"},"day":{"type":"string","format":"date"},
            "page":{"type":"string","format":"uri"},"at":{"type":"string","format":"date-time"}
        }}"#;
        let schema: Box<RawValue> = serde_json::from_str(schema).expect("a schema");
        let schema = ArgumentSchema::new(Some(&schema));
        let fits = |pair: &str| schema.fill_in(&[pair]).map(drop).map_err(|unfit| unfit.to_string());
        for pair in ["mail=a@example.org", "day=2026-02-28", "page=https://example.org/x", "at=2026-02-28T10:00:00Z"] {
            assert_eq!(fits(pair), Ok(()), "{pair}");
        }
        for (pair, told) in [
            ("mail=a at example", "`mail`: \"a at example\" is not a \"email\""),
            ("day=2026-02-30", "`day`: \"2026-02-30\" is not a \"date\""),
            ("page=example", "`page`: \"example\" is not a \"uri\""),
            ("at=tomorrow", "`at`: \"tomorrow\" is not a \"date-time\""),
        ] {
            assert_eq!(fits(pair), Err(told.to_owned()));
        }
        // To a tool, formats are hints.
        assert!(schema.read(&["day=soon"]).is_ok());
    }

    #[test]
    fn values_with_titles_are_choices() {
        let schema = r#"{"properties":{
            "gear":{"oneOf":[{"const":"s","title":"Slow"},{"const":"f","title":"s"},{"const":"r","title":"Very Fast"}]},
            "old":{"enum":["a","b"],"enumNames":["First","Second"]},
            "many":{"type":"array","items":{"anyOf":[{"const":1,"title":"One"},{"const":2,"title":"Two"}]}}
        }}"#;
        for (pairs, told) in [
            (&["gear=s"][..], r#"{"gear":"s"}"#),
            (&["gear=very fast", "old=second"], r#"{"gear":"r","old":"b"}"#),
            (&["many=two", "many=1"], r#"{"many":[2,1]}"#),
            (&["gear=up"], r#"`gear`: "up" is not one of "s", "f", "r""#),
            (&["many:=[3]"], r#"`many.0`: 3 is not one of "1", "2""#),
        ] {
            assert_eq!(made(schema, pairs), told);
        }
        let schema: Box<RawValue> = serde_json::from_str(schema).expect("a schema");
        let fields = ArgumentSchema::new(Some(&schema)).fields();
        let kinds: Vec<_> = fields.iter().map(|field| &*field.kind).collect();
        assert_eq!(kinds, ["s|f|r", "a|b", "array of 1|2"]);
        assert_eq!(fields[0].choices[2].title, "Very Fast");
        assert_eq!(fields[2].choices[0].title, "One");
    }

    #[test]
    fn a_key_with_dots_reaches_into_objects() {
        let schema = r##"{
            "properties": {
                "where": {"$ref": "#/$defs/Spot"},
                "maybe": {"anyOf": [{"$ref": "#/$defs/Spot"}, {"type": "null"}]},
                "spots": {"type": "array", "items": {"$ref": "#/$defs/Spot"}},
                "a.b": {"type": "string"},
                "ages": {"type": "object", "additionalProperties": {"type": "integer"}},
                "loop": {"$ref": "#/properties/loop"}
            },
            "$defs": {"Spot": {"type": "object", "properties": {"x": {"type": "integer"}, "tags": {"type": "array"}}}}
        }"##;
        for (pairs, told) in [
            (&["where.x=1", "where.tags=a", "where.tags=2"][..], r#"{"where":{"x":1,"tags":["a",2]}}"#),
            (&["a.b=1", "ages.tom=7"], r#"{"a.b":"1","ages":{"tom":7}}"#),
            (&["maybe={\"x\":1}", "spots={\"x\":2}"], r#"{"maybe":{"x":1},"spots":[{"x":2}]}"#),
            (&["maybe=null", "loop=1"], r#"{"maybe":null,"loop":1}"#),
            (&["where.x=far"], "`where.x` must be an integer, not `far`"),
            (&["where.y=1"], "`where.y` is not an argument; there are: tags, x"),
            (&["where={}", "where.x=1"], "`where.x` is given twice"),
            (&["where.x=1", "where={}"], "`where` is given twice"),
            (&["where:={\"x\":\"far\"}"], "`where.x`: \"far\" is not of type \"integer\""),
            (&["ages.tom=old"], "`ages.tom` must be an integer, not `old`"),
        ] {
            assert_eq!(made(schema, pairs), told);
        }
        assert_eq!(made("{}", &["a.b=1", "a.c=x", "d.=2", "e=1e400"]), r#"{"a":{"b":1,"c":"x"},"d.":2,"e":1e400}"#);
    }

    #[test]
    fn a_schema_that_says_little_asks_for_little() {
        assert_eq!(made("{}", &["a=1", "b=x"]), r#"{"a":1,"b":"x"}"#);
        assert_eq!(made("true", &[]), "{}");
        assert_eq!(made(r#"{"type":"object","properties":{}}"#, &["a=1"]), "`a` is not an argument; there are none");
        assert_eq!(made(r#"{"properties":{},"additionalProperties":true}"#, &["a=1"]), r#"{"a":1}"#);
        // Wrong in itself, or leading elsewhere: nothing can be checked by it.
        assert_eq!(made(r#"{"type":"nothing"}"#, &["a=1"]), r#"{"a":1}"#);
        assert_eq!(made(r#"{"$ref":"http://127.0.0.1:9/x"}"#, &["a=1"]), r#"{"a":1}"#);
    }

    #[test]
    fn a_pattern_that_would_take_for_ever_does_not() {
        let schema = r#"{"properties":{"a":{"type":"string","pattern":"^(a+)+$"}}}"#;
        let long = format!("a={}b", "a".repeat(5000));
        assert!(made(schema, &[&long]).contains("does not match"));
    }

    #[test]
    fn fields_are_for_people() {
        let schema: Box<RawValue> = serde_json::from_str(SCHEMA).expect("a schema");
        let told: Vec<_> = ArgumentSchema::new(Some(&schema))
            .fields()
            .into_iter()
            .map(|field| format!("{}{} {}", field.name, if field.required { "*" } else { "" }, field.kind))
            .collect();
        assert_snapshot!(told.join(", "), @"x* number, count integer, label string, gear slow|fast, tags array of string, careful boolean, where object, limit integer|null, any");
    }
}
