//! The canonical form of RFC 8785, in which a message is signed: sorted keys, one spelling of every string and number.
//!
//! Invariant: linear in the text but for the sorting of keys. A number is a double there, so a text with an integer that a double
//! does not hold has no canonical form here, rather than one that two texts share.

use std::cmp::Ordering;

use serde_json::value::RawValue;

/// How deep a value may be nested.
const MAX_LEVELS: usize = 128;

/// The largest integer below which every one is a double of its own.
const LARGEST_INTEGER: u64 = 1 << 53;

/// Why a text has no canonical form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoForm {
    /// It is not JSON.
    NotJson,
    /// It is nested too deeply.
    TooDeep,
    /// A key stands twice.
    DuplicateKey,
    /// An integer is beyond 2^53.
    LargeInteger,
    /// A number is beyond the range of doubles.
    OutOfRange,
}

impl NoForm {
    /// A sentence for a person.
    pub fn told(self) -> &'static str {
        match self {
            Self::NotJson => "it is not valid JSON",
            Self::TooDeep => "it is nested too deeply",
            Self::DuplicateKey => "a key stands twice in an object",
            Self::LargeInteger => "it has an integer beyond 2^53, which the canonical form cannot hold",
            Self::OutOfRange => "it has a number beyond the range of doubles, which the canonical form cannot hold",
        }
    }
}

/// A value taken apart.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    /// `true`, `false`, `null`, or a number or string as the canonical form has it.
    Plain(String),
    List(Vec<Self>),
    /// In canonical order.
    Object(Vec<(String, Self)>),
}

/// The canonical form of a JSON text.
pub fn canonical(text: &str) -> Result<String, NoForm> {
    Ok(Node::read(text)?.text())
}

impl Node {
    pub(super) fn read(text: &str) -> Result<Self, NoForm> {
        // Once this has passed, what is left is to find where values begin and end.
        let checked: &RawValue = serde_json::from_str(text).map_err(|_| NoForm::NotJson)?;
        let mut reader = Reader { text: checked.get(), at: 0 };
        reader.value(1)
    }

    /// Takes a member out.
    pub(super) fn remove(&mut self, key: &str) -> Option<Self> {
        let Self::Object(members) = self else { return None };
        let at = members.iter().position(|(name, _)| name == key)?;
        Some(members.remove(at).1)
    }

    pub(super) fn member(&mut self, key: &str) -> Option<&mut Self> {
        let Self::Object(members) = self else { return None };
        members.iter_mut().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Plain(text) => out.push_str(text),
            Self::List(items) => {
                for (at, item) in items.iter().enumerate() {
                    out.push(if at == 0 { '[' } else { ',' });
                    item.write(out);
                }
                out.push_str(if items.is_empty() { "[]" } else { "]" });
            }
            Self::Object(members) => {
                for (at, (name, value)) in members.iter().enumerate() {
                    out.push(if at == 0 { '{' } else { ',' });
                    out.push_str(&string(name));
                    out.push(':');
                    value.write(out);
                }
                out.push_str(if members.is_empty() { "{}" } else { "}" });
            }
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&mut self) -> Option<u8> {
        let blanks = self.text.as_bytes()[self.at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.at += blanks;
        self.text.as_bytes().get(self.at).copied()
    }

    fn value(&mut self, level: usize) -> Result<Node, NoForm> {
        match self.peek() {
            Some(b'{' | b'[') if level > MAX_LEVELS => Err(NoForm::TooDeep),
            Some(b'{') => self.object(level),
            Some(b'[') => self.list(level),
            Some(b'"') => Ok(Node::Plain(string(&self.string()?))),
            Some(b'-' | b'0'..=b'9') => {
                let number = self.while_in(|byte| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9'));
                Ok(Node::Plain(canonical_number(number)?))
            }
            Some(_) => Ok(Node::Plain(self.while_in(|byte| byte.is_ascii_lowercase()).to_owned())),
            None => Err(NoForm::NotJson),
        }
    }

    fn while_in(&mut self, belongs: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        self.at += self.text.as_bytes()[start..].iter().take_while(|byte| belongs(**byte)).count();
        &self.text[start..self.at]
    }

    fn string(&mut self) -> Result<String, NoForm> {
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
        let quoted = self.text.get(start..self.at).ok_or(NoForm::NotJson)?;
        serde_json::from_str(quoted).map_err(|_| NoForm::NotJson)
    }

    fn list(&mut self, level: usize) -> Result<Node, NoForm> {
        self.at += 1;
        let mut items = Vec::new();
        while self.more(b']')? {
            items.push(self.value(level + 1)?);
        }
        Ok(Node::List(items))
    }

    fn object(&mut self, level: usize) -> Result<Node, NoForm> {
        self.at += 1;
        let mut members = Vec::new();
        while self.more(b'}')? {
            let name = self.string()?;
            if self.peek() != Some(b':') {
                return Err(NoForm::NotJson);
            }
            self.at += 1;
            members.push((name, self.value(level + 1)?));
        }
        members.sort_by(|(one, _), (other, _)| by_code_units(one, other));
        match members.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            true => Err(NoForm::DuplicateKey),
            false => Ok(Node::Object(members)),
        }
    }

    /// Whether another item follows; passes over what separates or ends them.
    fn more(&mut self, end: u8) -> Result<bool, NoForm> {
        match self.peek() {
            Some(byte) if byte == end => {
                self.at += 1;
                Ok(false)
            }
            Some(b',') => {
                self.at += 1;
                self.peek().map(|_| true).ok_or(NoForm::NotJson)
            }
            Some(_) => Ok(true),
            None => Err(NoForm::NotJson),
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
fn canonical_number(literal: &str) -> Result<String, NoForm> {
    let is_integer = literal.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit());
    if is_integer {
        let magnitude = literal.trim_start_matches('-').parse::<u64>();
        if magnitude.is_ok_and(|magnitude| magnitude <= LARGEST_INTEGER) {
            return Ok(if literal == "-0" { "0".to_owned() } else { literal.to_owned() });
        }
        return Err(NoForm::LargeInteger);
    }
    let value: f64 = literal.parse().map_err(|_| NoForm::NotJson)?;
    if !value.is_finite() {
        return Err(NoForm::OutOfRange);
    }
    if value == 0.0 {
        return Ok("0".to_owned());
    }
    // From here on only integers are left, and not all of them: one that is spelt otherwise is an integer as well.
    if value.abs() >= LARGEST_INTEGER as f64 && !is_kept(literal, value) {
        return Err(NoForm::LargeInteger);
    }
    let sign = if value < 0.0 { "-" } else { "" };
    let (digits, power) = shortest(value.abs());
    let (count, point) = (digits.len() as i32, power + 1);
    let written = if count <= point && point <= 21 {
        format!("{digits}{}", "0".repeat((point - count) as usize))
    } else if 0 < point && point <= 21 {
        let (whole, fraction) = digits.split_at(point as usize);
        format!("{whole}.{fraction}")
    } else if -6 < point && point <= 0 {
        format!("0.{}{digits}", "0".repeat(-point as usize))
    } else {
        let (first, rest) = digits.split_at(1);
        let dot = if rest.is_empty() { "" } else { "." };
        format!("{first}{dot}{rest}e{}{}", if power < 0 { '-' } else { '+' }, power.abs())
    };
    Ok(format!("{sign}{written}"))
}

/// Whether the shortest text of a double says what the literal does, digit for digit.
fn is_kept(literal: &str, value: f64) -> bool {
    let (digits, power) = shortest(value.abs());
    let (mantissa, exponent) = literal.split_once(['e', 'E']).unwrap_or((literal, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let written = format!("{}{fraction}", whole.trim_start_matches('-'));
    let leading = written.bytes().take_while(|digit| *digit == b'0').count();
    let significant = written.trim_matches('0');
    let Ok(exponent) = exponent.parse::<i64>() else { return false };
    let first = exponent.saturating_add(whole.trim_start_matches('-').len() as i64) - 1 - leading as i64;
    significant == digits.trim_end_matches('0') && first == i64::from(power)
}

/// The digits that a double's exact value has at the most.
const MAX_DIGITS: usize = 768;

/// The fewest digits that read back as the same double, and the power of ten of the first of them.
fn shortest(value: f64) -> (String, i32) {
    let (digits, power) = scientific(&format!("{value:e}"));
    // Two such texts can be equally near to the double. ECMAScript takes the even one, the standard library the larger.
    if digits.len() >= 16 && scientific(&format!("{value:.*e}", digits.len())).0.ends_with('5') {
        let (exact, _) = scientific(&format!("{value:.MAX_DIGITS$e}"));
        let (lower, rest) = exact.split_at(digits.len());
        let is_halfway = rest.strip_prefix('5').is_some_and(|rest| rest.bytes().all(|digit| digit == b'0'));
        let is_even = lower.bytes().last().is_some_and(|digit| digit % 2 == 0);
        if is_halfway && is_even && read(lower, power) == Some(value) {
            return (lower.to_owned(), power);
        }
    }
    (digits, power)
}

fn scientific(text: &str) -> (String, i32) {
    let (digits, power) = text.split_once('e').unwrap_or((text, "0"));
    (digits.replace('.', ""), power.parse().unwrap_or(0))
}

fn read(digits: &str, power: i32) -> Option<f64> {
    let (first, rest) = digits.split_at_checked(1)?;
    format!("{first}.{rest}e{power}").parse().ok()
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
            ("9007199254740993", NoForm::LargeInteger),
            ("-9007199254740993", NoForm::LargeInteger),
            ("9007199254740993.0", NoForm::LargeInteger),
            ("9.007199254740993e15", NoForm::LargeInteger),
            ("9007199254740992.5", NoForm::LargeInteger),
            ("-90071992547409930E-1", NoForm::LargeInteger),
            ("295147905179352825856.0", NoForm::LargeInteger),
            ("123456789012345678901234567890", NoForm::LargeInteger),
            ("1e400", NoForm::OutOfRange),
            ("-1e400", NoForm::OutOfRange),
            ("01", NoForm::NotJson),
            ("1.", NoForm::NotJson),
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
    fn what_has_no_canonical_form_is_told() {
        for (text, why) in [
            ("", NoForm::NotJson),
            ("{", NoForm::NotJson),
            ("[1,]", NoForm::NotJson),
            ("{\"a\":1}x", NoForm::NotJson),
            (r#""\ud800""#, NoForm::NotJson),
            (r#"{"\ud800":1}"#, NoForm::NotJson),
            (r#"{"a":1,"\u0061":2}"#, NoForm::DuplicateKey),
            (r#"{"a":[{"n":9007199254740993}]}"#, NoForm::LargeInteger),
        ] {
            assert_eq!(canonical(text), Err(why), "{text}");
        }
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(canonical(&deep(128)), Ok(deep(128)));
        assert_eq!(canonical(&deep(129)), Err(NoForm::TooDeep));
        assert_eq!(canonical(&deep(100_000)), Err(NoForm::TooDeep));
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
