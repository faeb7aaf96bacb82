//! One spelling for every JSON value: sorted keys, one form of every string and number.
//!
//! Two uses, which differ in numbers alone. A signed message has the form of RFC 8785, where a number is a double: a text with an
//! integer that a double does not hold has no form there, rather than one that two texts share. A comparison keeps every digit.
//! Invariant: linear in the text but for the sorting of keys.

use std::cmp::Ordering;
use std::fmt;

use serde_json::value::RawValue;

/// How deep a value may be nested.
const MAX_LEVELS: usize = 128;

/// The largest integer below which every one is a double of its own.
const MAX_EXACT_INTEGER: u64 = 1 << 53;

/// Why a text has no canonical form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoCanonicalForm {
    /// The text is not JSON, or has half of a surrogate pair.
    #[error("it is not valid JSON")]
    NotJson,
    /// Objects and arrays are nested more than 128 levels.
    #[error("it is nested too deeply")]
    TooDeep,
    /// An object has a key twice.
    #[error("a key stands twice in an object")]
    DuplicateKey,
    /// An integer is beyond 2^53.
    #[error("it has an integer beyond 2^53, which the canonical form cannot hold")]
    LargeInteger,
    /// A number is beyond the range of doubles.
    #[error("it has a number beyond the range of doubles, which the canonical form cannot hold")]
    OutOfRange,
}

/// What a number is.
#[derive(Debug, Clone, Copy)]
enum Numbers {
    /// A double, as ECMAScript writes it (RFC 8785 §3.2.2.3).
    Double,
    /// Its digits without zeros around them and a power of ten, none rounded away.
    Exact,
}

/// A JSON value in the form of RFC 8785, taken apart.
#[derive(Debug, Clone, PartialEq)]
pub struct CanonicalJson(CanonicalNode);

impl CanonicalJson {
    /// Reads a JSON text.
    pub fn parse(text: &str) -> Result<Self, NoCanonicalForm> {
        parse(text, Numbers::Double).map(Self)
    }

    /// Removes a member, which a path of keys leads to. False when there is none.
    pub fn remove(&mut self, path: &[&str]) -> bool {
        let Some((last, parents)) = path.split_last() else { return false };
        let mut node = &mut self.0;
        for key in parents {
            let CanonicalNode::Object(members) = node else { return false };
            let Some((_, value)) = members.iter_mut().find(|(name, _)| name == key) else { return false };
            node = value;
        }
        let CanonicalNode::Object(members) = node else { return false };
        let before = members.len();
        members.retain(|(name, _)| name != last);
        members.len() < before
    }
}

impl fmt::Display for CanonicalJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A text that all spellings of one JSON value share, and no other value has. Blanks, escapes, the order of keys and the spelling of
/// numbers do not matter (`1`, `1.0` and `10e-1` are one number), and no digit is rounded away. A value that has no canonical form
/// is compared as it is written.
pub fn comparable_json(value: &RawValue) -> String {
    parse(value.get(), Numbers::Exact).map_or_else(|_| value.get().to_owned(), |node| node.to_string())
}

#[derive(Debug, Clone, PartialEq)]
enum CanonicalNode {
    /// `true`, `false`, `null`, or a number or string as the canonical form has it.
    Plain(String),
    List(Vec<Self>),
    /// In canonical order.
    Object(Vec<(String, Self)>),
}

fn parse(text: &str, numbers: Numbers) -> Result<CanonicalNode, NoCanonicalForm> {
    // Once this has passed, what is left is to find where values begin and end.
    let checked: &RawValue = serde_json::from_str(text).map_err(|_| NoCanonicalForm::NotJson)?;
    CanonicalReader { text: checked.get(), at: 0, numbers }.value(1)
}

impl fmt::Display for CanonicalNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(text) => f.write_str(text),
            Self::List(items) => {
                f.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if at == 0 { "" } else { "," })?;
                }
                f.write_str("]")
            }
            Self::Object(members) => {
                f.write_str("{")?;
                for (at, (name, value)) in members.iter().enumerate() {
                    write!(f, "{}{}:{value}", if at == 0 { "" } else { "," }, string(name))?;
                }
                f.write_str("}")
            }
        }
    }
}

struct CanonicalReader<'a> {
    text: &'a str,
    at: usize,
    numbers: Numbers,
}

impl<'a> CanonicalReader<'a> {
    fn peek(&mut self) -> Option<u8> {
        let blanks = self.text.as_bytes()[self.at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.at += blanks;
        self.text.as_bytes().get(self.at).copied()
    }

    fn value(&mut self, level: usize) -> Result<CanonicalNode, NoCanonicalForm> {
        match self.peek() {
            Some(b'{' | b'[') if level > MAX_LEVELS => Err(NoCanonicalForm::TooDeep),
            Some(b'{') => self.object(level),
            Some(b'[') => self.list(level),
            Some(b'"') => Ok(CanonicalNode::Plain(string(&self.string()?))),
            Some(b'-' | b'0'..=b'9') => {
                let number = self.while_in(|byte| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9'));
                Ok(CanonicalNode::Plain(match self.numbers {
                    Numbers::Double => double(number)?,
                    Numbers::Exact => exact(number),
                }))
            }
            Some(_) => Ok(CanonicalNode::Plain(self.while_in(|byte| byte.is_ascii_lowercase()).to_owned())),
            None => Err(NoCanonicalForm::NotJson),
        }
    }

    fn while_in(&mut self, belongs: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        self.at += self.text.as_bytes()[start..].iter().take_while(|byte| belongs(**byte)).count();
        &self.text[start..self.at]
    }

    fn string(&mut self) -> Result<String, NoCanonicalForm> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        self.at += 1;
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        // Half of a surrogate pair is JSON, but no text.
        let quoted = self.text.get(start..self.at).ok_or(NoCanonicalForm::NotJson)?;
        serde_json::from_str(quoted).map_err(|_| NoCanonicalForm::NotJson)
    }

    fn list(&mut self, level: usize) -> Result<CanonicalNode, NoCanonicalForm> {
        self.at += 1;
        let mut items = Vec::new();
        while self.more(b']')? {
            items.push(self.value(level + 1)?);
        }
        Ok(CanonicalNode::List(items))
    }

    fn object(&mut self, level: usize) -> Result<CanonicalNode, NoCanonicalForm> {
        self.at += 1;
        let mut members = Vec::new();
        while self.more(b'}')? {
            let name = self.string()?;
            if self.peek() != Some(b':') {
                return Err(NoCanonicalForm::NotJson);
            }
            self.at += 1;
            members.push((name, self.value(level + 1)?));
        }
        members.sort_by(|(one, _), (other, _)| by_code_units(one, other));
        match members.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            true => Err(NoCanonicalForm::DuplicateKey),
            false => Ok(CanonicalNode::Object(members)),
        }
    }

    /// Whether another item follows; passes over what separates or ends them.
    fn more(&mut self, end: u8) -> Result<bool, NoCanonicalForm> {
        match self.peek() {
            Some(byte) if byte == end => {
                self.at += 1;
                Ok(false)
            }
            Some(b',') => {
                self.at += 1;
                self.peek().map(|_| true).ok_or(NoCanonicalForm::NotJson)
            }
            Some(_) => Ok(true),
            None => Err(NoCanonicalForm::NotJson),
        }
    }
}

/// The order of keys: that of their UTF-16 code units.
fn by_code_units(one: &str, other: &str) -> Ordering {
    one.encode_utf16().cmp(other.encode_utf16())
}

/// `serde_json` escapes exactly what RFC 8785 has escaped, and in the same spelling.
fn string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A number as ECMAScript writes it.
fn double(literal: &str) -> Result<String, NoCanonicalForm> {
    let is_integer = literal.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit());
    let magnitude = literal.trim_start_matches('-').parse::<u64>();
    if is_integer && !magnitude.is_ok_and(|magnitude| magnitude <= MAX_EXACT_INTEGER) {
        return Err(NoCanonicalForm::LargeInteger);
    }
    let value: f64 = literal.parse().map_err(|_| NoCanonicalForm::NotJson)?;
    if !value.is_finite() {
        return Err(NoCanonicalForm::OutOfRange);
    }
    let written = ryu_js::Buffer::new().format_finite(value).to_owned();
    // From here on only integers are left, and not all of them: one in another spelling is an integer as well.
    if value.abs() >= MAX_EXACT_INTEGER as f64 && exact(literal) != exact(&written) {
        return Err(NoCanonicalForm::LargeInteger);
    }
    Ok(written)
}

/// A number as its digits, without zeros around them, and the power of ten they are multiplied with.
fn exact(literal: &str) -> String {
    let (sign, rest) = literal.strip_prefix('-').map_or(("", literal), |rest| ("-", rest));
    let (mantissa, power) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        return "0".to_owned();
    }
    // The text is not longer than what was held in memory, but the power it names may be as large as it likes.
    let power = power.parse::<i64>().ok().and_then(|power| {
        let zeros = i64::try_from(digits.len() - significant.len()).ok()?;
        power.checked_add(zeros)?.checked_sub(i64::try_from(fraction.len()).ok()?)
    });
    power.map_or_else(|| literal.to_owned(), |power| format!("{sign}{significant}e{power}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    /// What RFC 8785 has in its appendix B, and what lies around its bounds.
    #[test]
    fn numbers_are_written_as_ecmascript_writes_them() {
        for (literal, written) in [
            ("0", "0"),
            ("-0", "0"),
            ("-0.0", "0"),
            ("0e99999", "0"),
            ("1.0", "1"),
            ("10e-1", "1"),
            ("100", "100"),
            ("1E2", "100"),
            ("4.50", "4.5"),
            ("2e-3", "0.002"),
            ("0.000000000000000000000000001", "1e-27"),
            ("333333333.33333329", "333333333.3333333"),
            ("1E30", "1e+30"),
            ("5e-324", "5e-324"),
            ("-5e-324", "-5e-324"),
            ("1.7976931348623157e308", "1.7976931348623157e+308"),
            ("9007199254740992", "9007199254740992"),
            ("-9007199254740992", "-9007199254740992"),
            ("295147905179352830000.0", "295147905179352830000"),
            ("9.999999999999997e22", "9.999999999999997e+22"),
            ("1e23", "1e+23"),
            ("1.0000000000000001e23", "1.0000000000000001e+23"),
            ("999999999999999700000.0", "999999999999999700000"),
            ("999999999999999900000.0", "999999999999999900000"),
            ("1e21", "1e+21"),
            ("9007199254740992.0", "9007199254740992"),
            ("9.007199254740992e15", "9007199254740992"),
            ("0.0900719925474099200e+17", "9007199254740992"),
            ("9.999999999999997e-7", "9.999999999999997e-7"),
            ("0.000001", "0.000001"),
            ("333333333.3333332", "333333333.3333332"),
            ("333333333.33333343", "333333333.33333343"),
            ("-0.0000033333333333333333", "-0.0000033333333333333333"),
            ("1424953923781206.25", "1424953923781206.2"),
            ("1424953923781206.75", "1424953923781206.8"),
        ] {
            assert_eq!(canonical(literal).as_deref(), Ok(written), "{literal}");
        }
        for (literal, why) in [
            ("9007199254740993", NoCanonicalForm::LargeInteger),
            ("-9007199254740993", NoCanonicalForm::LargeInteger),
            ("9007199254740993.0", NoCanonicalForm::LargeInteger),
            ("9.007199254740993e15", NoCanonicalForm::LargeInteger),
            ("9007199254740992.5", NoCanonicalForm::LargeInteger),
            ("-90071992547409930E-1", NoCanonicalForm::LargeInteger),
            ("295147905179352825856.0", NoCanonicalForm::LargeInteger),
            ("123456789012345678901234567890", NoCanonicalForm::LargeInteger),
            ("1e400", NoCanonicalForm::OutOfRange),
            ("-1e400", NoCanonicalForm::OutOfRange),
            ("01", NoCanonicalForm::NotJson),
            ("1.", NoCanonicalForm::NotJson),
        ] {
            assert_eq!(canonical(literal), Err(why), "{literal}");
        }
    }

    #[test]
    fn objects_are_sorted_and_strings_spelt_one_way() {
        // The example of RFC 8785, section 3.2.3: the order is that of UTF-16, in which U+1F600 comes before U+FB33.
        let text = "{\"\\u20ac\":\"Euro Sign\",\"\\r\":\"Carriage Return\",\"\\ufb33\":\"Hebrew Letter Dalet With Dagesh\",\"1\":\"One\",\
            \"\\ud83d\\ude00\":\"Emoji: Grinning Face\",\"\\u0080\":\"Control\",\"\\u00f6\":\"Latin Small Letter O With Diaeresis\"}";
        assert_eq!(
            canonical(text).as_deref(),
            Ok(
                "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u{80}\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\",\
                \"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\u{fb33}\":\"Hebrew Letter Dalet With Dagesh\"}"
            )
        );
        let odd = r#"[ "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/" , { } ,[ ], true,false ,null, {"b":[1.50],"a":{"\u0061":0}} ]"#;
        assert_eq!(
            canonical(odd).as_deref(),
            Ok(r#"["€$\u000f\nA'B\"\\\\\"/",{},[],true,false,null,{"a":{"a":0},"b":[1.5]}]"#)
        );
    }

    #[test]
    fn a_member_is_removed_by_its_path() {
        let mut json = CanonicalJson::parse(r#"{"b":{"c":1,"d":[2]},"a":1.0}"#).expect("a form");
        assert!(
            !json.remove(&[]) && !json.remove(&["x"]) && !json.remove(&["a", "c"]) && !json.remove(&["b", "d", "e"])
        );
        assert!(json.remove(&["b", "d"]));
        assert_eq!(json.to_string(), r#"{"a":1,"b":{"c":1}}"#);
    }

    #[test]
    fn what_has_no_canonical_form_is_told() {
        for (text, why) in [
            ("", NoCanonicalForm::NotJson),
            ("{", NoCanonicalForm::NotJson),
            ("[1,]", NoCanonicalForm::NotJson),
            ("{\"a\":1}x", NoCanonicalForm::NotJson),
            (r#""\ud800""#, NoCanonicalForm::NotJson),
            (r#"{"\ud800":1}"#, NoCanonicalForm::NotJson),
            (r#"{"a":1,"\u0061":2}"#, NoCanonicalForm::DuplicateKey),
            (r#"{"a":[{"n":9007199254740993}]}"#, NoCanonicalForm::LargeInteger),
        ] {
            assert_eq!(canonical(text), Err(why), "{text}");
        }
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(canonical(&deep(128)), Ok(deep(128)));
        assert_eq!(canonical(&deep(129)), Err(NoCanonicalForm::TooDeep));
        assert_eq!(canonical(&deep(100_000)), Err(NoCanonicalForm::TooDeep));
    }

    fn canonical(text: &str) -> Result<String, NoCanonicalForm> {
        CanonicalJson::parse(text).map(|json| json.to_string())
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-(1i64 << 53)..=(1i64 << 53)).prop_map(Value::from),
            any::<f64>().prop_filter_map("finite", |number| serde_json::Number::from_f64(number).map(Value::from)),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// The same value, every number as a double.
    fn doubles(value: &Value) -> Value {
        match value {
            Value::Number(number) => Value::from(number.as_f64().map_or(0.0, |number| number + 0.0)),
            Value::Array(items) => items.iter().map(doubles).collect(),
            Value::Object(members) => members.iter().map(|(key, value)| (key.clone(), doubles(value))).collect(),
            other => other.clone(),
        }
    }

    /// The same value in another spelling: keys backwards, everything escaped, blanks.
    fn otherwise(value: &Value) -> String {
        let text = |text: &str| {
            let units: String = text.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect();
            format!("\"{units}\"")
        };
        match value {
            Value::String(string) => text(string),
            Value::Array(items) => format!("[ {}\n]", items.iter().map(otherwise).collect::<Vec<_>>().join(" , ")),
            Value::Object(members) => {
                let members = members.iter().rev();
                let members: Vec<_> =
                    members.map(|(name, value)| format!("{} :\t{}", text(name), otherwise(value))).collect();
                format!("{{ {} }}", members.join(" ,"))
            }
            other => format!("{other} "),
        }
    }

    proptest! {
        #[test]
        fn it_reads_back_as_the_same_value(value in value()) {
            let form = canonical(&value.to_string()).expect("it has a form");
            let again: Value = serde_json::from_str(&form).expect("the form is JSON");
            prop_assert_eq!(doubles(&again), doubles(&value));
        }

        #[test]
        fn it_is_its_own_form_and_that_of_every_spelling(value in value()) {
            let form = canonical(&value.to_string()).expect("it has a form");
            // A large double is written with all its digits and would then be taken for an integer.
            if let Ok(again) = canonical(&form) {
                prop_assert_eq!(&again, &form);
            }
            prop_assert_eq!(canonical(&otherwise(&value)), Ok(form));
        }

        #[test]
        fn every_double_keeps_its_value(number in any::<f64>()) {
            prop_assume!(number.is_finite());
            let form = canonical(&format!("{number:e}")).expect("a form");
            prop_assert_eq!(form.parse::<f64>().expect("a number"), number);
        }

        #[test]
        fn no_text_is_a_danger(text in "[\\[\\]{}\",:0-9eE.+ \\\\utrueflsn-]{0,40}") {
            let _ = canonical(&text);
        }
    }
}

#[cfg(test)]
mod comparison_tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn same(one: &str, other: &str) -> bool {
        let [one, other] = [one, other].map(|text| RawValue::from_string(text.into()).expect("the test writes JSON"));
        comparable_json(&one) == comparable_json(&other)
    }

    #[test]
    fn values_are_compared_as_json() {
        for (one, other) in [
            (r#" { "b" : ["\u0078", 2.50], "a":1 } "#, r#"{"a":1,"b":["x",2.5]}"#),
            ("1", "1.0"),
            ("100", "1e2"),
            ("0.010", "1E-2"),
            ("12.5e+1", "125"),
            ("-0", "0.0e99999999999999999999"),
            ("10e9223372036854775806", "1e9223372036854775807"),
            ("1e99999999999999999999", "1e99999999999999999999"),
            (r#"{"\u0061":null}"#, r#"{"a":null}"#),
        ] {
            assert!(same(one, other), "{one} and {other}");
        }
        for (one, other) in [
            (r#"{"a":1}"#, r#"{"a":2}"#),
            (r#"{"a":1}"#, r#"{"a":1,"b":1}"#),
            ("9007199254740993", "9007199254740992"),
            ("100000000000000000001", "100000000000000000002"),
            ("0.1", "0.10000000000000001"),
            ("1e999", "2e999"),
            ("1e99999999999999999998", "1e99999999999999999999"),
            ("1", "-1"),
            ("1", "10"),
            (r#"["a","b"]"#, r#"["b","a"]"#),
            (r#"["a,b"]"#, r#"["a","b"]"#),
            (r#"[["a"],"b"]"#, r#"[["a","b"]]"#),
            (r#""1""#, "1"),
            (r#""null""#, "null"),
            (r#""\ud800""#, r#""\ud801""#),
            ("[]", "{}"),
        ] {
            assert!(!same(one, other), "{one} and {other}");
        }
    }

    #[test]
    fn depth_is_no_danger() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(same(&deep, &deep));
        assert!(!same(&deep, &format!("[{deep}]")));
    }

    /// Any value, with numbers that a machine holds exactly.
    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "\\PC{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c\"\\\\é]{0,2}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// The same value, written in another way: keys backwards, everything escaped, blanks, numbers with a power.
    fn otherwise(value: &Value) -> String {
        let text = |text: &str| {
            let units: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
            format!("\"{units}\"")
        };
        match value {
            Value::Null | Value::Bool(_) => format!("{value} "),
            Value::Number(number) => format!("{number}00.0e-2"),
            Value::String(string) => text(string),
            Value::Array(items) => format!("[ {} ]", items.iter().map(otherwise).collect::<Vec<_>>().join(" , ")),
            Value::Object(members) => {
                let members: Vec<_> = members
                    .iter()
                    .rev()
                    .map(|(name, value)| format!("{} :\t{}", text(name), otherwise(value)))
                    .collect();
                format!("{{\n{}}}", members.join(" ,"))
            }
        }
    }

    proptest! {
        #[test]
        fn the_spelling_does_not_matter(value in value()) {
            prop_assert!(same(&value.to_string(), &otherwise(&value)));
        }

        #[test]
        fn what_differs_is_not_the_same(one in value(), other in value()) {
            prop_assert_eq!(same(&one.to_string(), &other.to_string()), one == other);
        }

        #[test]
        fn no_digit_is_lost(whole in "[1-9][0-9]{0,40}", at in 0usize..40, power in -50i64..50) {
            let moved = format!("{}.{}e{}", &whole[..1], &whole[1..], power + whole.len() as i64 - 1);
            let moved = moved.replace(".e", "e");
            prop_assert!(same(&format!("{whole}e{power}"), &moved), "{}e{} and {}", whole, power, moved);
            let mut changed = whole.clone().into_bytes();
            let at = at % changed.len();
            changed[at] = if changed[at] == b'9' { b'1' } else { changed[at] + 1 };
            prop_assert!(!same(&whole, &String::from_utf8(changed).expect("digits")));
        }
    }
}
