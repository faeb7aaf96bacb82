//! Compares JSON that is expected in part with JSON that came.

use std::collections::BTreeMap;

use serde_json::Value;

/// Values bound so far, by their names without `$`.
pub(crate) type Bindings = BTreeMap<String, String>;

/// Values that a scene has named, as they are written there, by their names without `$`.
#[derive(Debug, Default)]
pub(crate) struct NamedValues(BTreeMap<String, String>);

impl NamedValues {
    /// Names a value. The name is bound to itself, because what comes is read as the name where it is the value.
    pub(crate) fn name(&mut self, name: &str, value: &str, bindings: &mut Bindings) -> Result<(), String> {
        if bindings.insert(name.to_owned(), format!("${name}")).is_some() {
            return Err(format!("${name} is something else already"));
        }
        self.0.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    /// What is sent: the values instead of the strings that name them.
    pub(crate) fn write(&self, text: String) -> String {
        self.0.iter().fold(text, |text, (name, value)| text.replace(&format!("\"${name}\""), value))
    }

    /// What came: the names instead of the values that are there byte for byte. A name that came would pass for its value.
    pub(crate) fn read(&self, text: &str) -> Result<String, String> {
        let mut read = text.to_owned();
        for (name, value) in &self.0 {
            let word = format!("\"${name}\"");
            if text.contains(&word) {
                return Err(format!("what came has the name {word}, not the value: {text}"));
            }
            read = read.replace(value, &word);
        }
        Ok(read)
    }
}

/// Tells the first place where `actual` lacks what `expected` names. Binds nothing unless all of it fits.
pub(crate) fn compare(expected: &Value, actual: &Value, bindings: &mut Bindings) -> Result<(), String> {
    let mut bound = bindings.clone();
    at("", expected, Some(actual), &mut bound)?;
    *bindings = bound;
    Ok(())
}

fn at(path: &str, expected: &Value, actual: Option<&Value>, bindings: &mut Bindings) -> Result<(), String> {
    let place = if path.is_empty() { "the whole" } else { path };
    let differs = || {
        let came = actual.map_or_else(|| "nothing".into(), Value::to_string);
        format!("{place}: expected {expected}, came {came}")
    };
    if *expected == "(absent)" {
        return if actual.is_none() { Ok(()) } else { Err(differs()) };
    }
    let actual = actual.ok_or_else(differs)?;
    match (expected, actual) {
        (Value::String(word), _) if word == "(any)" => Ok(()),
        (Value::String(word), Value::String(came)) if part(word).is_some() => {
            if part(word).is_some_and(|part| came.contains(part)) { Ok(()) } else { Err(differs()) }
        }
        (Value::String(word), Value::String(came)) if lacking(word).is_some() => {
            if lacking(word).is_some_and(|part| !came.contains(part)) { Ok(()) } else { Err(differs()) }
        }
        (Value::String(word), came) if is_variable(word) => {
            let came = came.as_str().map_or_else(|| came.to_string(), str::to_owned);
            match bindings.get(&word[1..]) {
                Some(bound) if *bound != came && bound == word => Err(format!("{place}: expected {word}, came {came}")),
                Some(bound) if *bound != came => Err(format!("{place}: expected {word} = {bound}, came {came}")),
                Some(_) => Ok(()),
                None => {
                    bindings.insert(word[1..].to_owned(), came);
                    Ok(())
                }
            }
        }
        (Value::Object(expected), Value::Object(actual)) => expected.iter().try_for_each(|(key, value)| {
            let key = named(key, value, actual, bindings);
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            at(&path, value, actual.get(&key), bindings)
        }),
        (Value::Array(expected), Value::Array(actual)) => list(path, expected, actual, bindings),
        (expected, actual) if expected == actual => Ok(()),
        _ => Err(differs()),
    }
}

/// The member that a key means: a variable that is not bound yet means the first that fits, and binds its name.
fn named(key: &str, value: &Value, actual: &serde_json::Map<String, Value>, bindings: &mut Bindings) -> String {
    if !is_variable(key) {
        return key.to_owned();
    }
    if let Some(bound) = bindings.get(&key[1..]) {
        return bound.clone();
    }
    let fits = |member: &Value| at("", value, Some(member), &mut bindings.clone()).is_ok();
    let found = actual.iter().find(|(_, member)| fits(member)).map_or(key, |(name, _)| name).to_owned();
    bindings.insert(key[1..].to_owned(), found.clone());
    found
}

fn list(path: &str, expected: &[Value], actual: &[Value], bindings: &mut Bindings) -> Result<(), String> {
    if let [first, wanted @ ..] = expected
        && *first == "(some)"
    {
        return wanted.iter().try_for_each(|want| {
            let found = actual.iter().any(|item| at(path, want, Some(item), &mut bindings.clone()).is_ok());
            if found { Ok(()) } else { Err(format!("{path}: {want} is not among {}", Value::from(actual))) }
        });
    }
    let (expected, open) = match expected {
        [start @ .., last] if *last == "(more)" => (start, true),
        whole => (whole, false),
    };
    if actual.len() < expected.len() || (!open && actual.len() > expected.len()) {
        let (want, came) = (expected.len(), actual.len());
        return Err(format!("{path}: expected {want} elements, came {came}: {}", Value::from(actual)));
    }
    let mut pairs = expected.iter().zip(actual).enumerate();
    pairs.try_for_each(|(i, (want, item))| at(&format!("{path}[{i}]"), want, Some(item), bindings))
}

/// The `X` of `(has X)`.
fn part(word: &str) -> Option<&str> {
    word.strip_prefix("(has ")?.strip_suffix(')')
}

/// The `X` of `(lacks X)`.
fn lacking(word: &str) -> Option<&str> {
    word.strip_prefix("(lacks ")?.strip_suffix(')')
}

pub(crate) fn is_variable(word: &str) -> bool {
    let name = word.strip_prefix('$').unwrap_or_default();
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// Puts bound values in the place of their names; longer names first, so that `$A` does not eat into `$AB`.
pub(crate) fn substitute(text: &str, bindings: &Bindings) -> String {
    let mut names: Vec<&String> = bindings.keys().collect();
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    names.into_iter().fold(text.to_owned(), |text, name| text.replace(&format!("${name}"), &bindings[name]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(expected: &str, actual: &str) -> String {
        let read = |text: &str| serde_json::from_str(text).expect("the test writes JSON");
        let mut bindings = Bindings::from([("OLD".into(), "7".into())]);
        match compare(&read(expected), &read(actual), &mut bindings) {
            Ok(()) => bindings.iter().map(|(k, v)| format!("{k}={v} ")).collect(),
            Err(told) => told,
        }
    }

    #[test]
    fn only_what_is_named_is_compared() {
        insta::assert_snapshot!(verdict(r#"{"a":{"b":1}}"#, r#"{"a":{"b":1,"c":2},"d":3}"#), @"OLD=7");
        insta::assert_snapshot!(verdict(r#"{"a":{"b":1}}"#, r#"{"a":{"b":1.0}}"#), @"a.b: expected 1, came 1.0");
        insta::assert_snapshot!(verdict(r#"{"a":1}"#, "{}"), @"a: expected 1, came nothing");
        insta::assert_snapshot!(verdict(r#"{"a":"(absent)"}"#, r#"{"a":null}"#), @r#"a: expected "(absent)", came null"#);
        insta::assert_snapshot!(verdict(r#"{"a":"(absent)","b":"(any)"}"#, r#"{"b":[]}"#), @"OLD=7");
    }

    #[test]
    fn a_part_of_a_text_is_looked_for() {
        insta::assert_snapshot!(verdict(r#"{"a":"(has lo wo)"}"#, r#"{"a":"hello world"}"#), @"OLD=7");
        insta::assert_snapshot!(verdict(r#"{"a":"(has x)"}"#, r#"{"a":"hello"}"#), @r#"a: expected "(has x)", came "hello""#);
        insta::assert_snapshot!(verdict(r#"{"a":"(lacks x)"}"#, r#"{"a":"hello"}"#), @"OLD=7");
        insta::assert_snapshot!(verdict(r#"{"a":"(lacks ell)"}"#, r#"{"a":"hello"}"#), @r#"a: expected "(lacks ell)", came "hello""#);
        insta::assert_snapshot!(verdict(r#"{"a":"(has 1)"}"#, r#"{"a":1}"#), @r#"a: expected "(has 1)", came 1"#);
    }

    #[test]
    fn arrays_are_whole_unless_they_say_so() {
        insta::assert_snapshot!(verdict("[1]", "[1,2]"), @": expected 1 elements, came 2: [1,2]");
        insta::assert_snapshot!(verdict(r#"[1,"(more)"]"#, "[1,2]"), @"OLD=7");
        insta::assert_snapshot!(verdict(r#"["(some)",{"x":2}]"#, r#"[1,{"x":2,"y":3}]"#), @"OLD=7");
        insta::assert_snapshot!(verdict(r#"["(some)",9]"#, "[1]"), @": 9 is not among [1]");
    }

    #[test]
    fn variables_bind_once() {
        insta::assert_snapshot!(verdict(r#"{"a":"$NEW"}"#, r#"{"a":"x"}"#), @"NEW=x OLD=7");
        insta::assert_snapshot!(verdict(r#"{"a":"$OLD"}"#, r#"{"a":8}"#), @"a: expected $OLD = 7, came 8");
        insta::assert_snapshot!(verdict(r#"{"$K":{"x":2}}"#, r#"{"a":{"x":1},"b":{"x":2}}"#), @"K=b OLD=7");
        insta::assert_snapshot!(verdict(r#"{"$K":{"x":3}}"#, r#"{"a":{"x":1}}"#), @r#"$K: expected {"x":3}, came nothing"#);
        assert_eq!(substitute("$OLD $OLDER", &Bindings::from([("OLD".into(), "1".into())])), "1 1ER");
    }

    #[test]
    fn a_named_value_comes_byte_for_byte() {
        let (mut named, mut bindings) = (NamedValues::default(), Bindings::default());
        named.name("X", r#"{"n":123456789012345678901,"d": 1.10}"#, &mut bindings).expect("a new name");
        assert!(named.name("X", "1", &mut bindings).is_err());
        let sent = named.write(r#"{"a":"$X","b":"$XY"}"#.into());
        assert_eq!(sent, r#"{"a":{"n":123456789012345678901,"d": 1.10},"b":"$XY"}"#);
        let mut came = |text: &str| {
            let read = named.read(text)?;
            let actual = serde_json::from_str(&read).expect("the test writes JSON");
            compare(&serde_json::json!({"a": "$X"}), &actual, &mut bindings)
        };
        assert_eq!(came(&sent), Ok(()));
        for (right, wrong) in [("8901,", "8902,"), ("1.10", "1.1"), (": ", ":")] {
            let told = came(&sent.replace(right, wrong)).expect_err("a byte differs");
            assert!(told.starts_with("a: expected $X"), "{told}");
        }
        assert!(came(r#"{"a":"$X"}"#).is_err(), "a name is not its value");
    }
}
