//! When two answers are the same, and what the answers of several come to.
//!
//! Two JSON values are the same when they are equal as JSON: blanks, escapes, the order of keys and the spelling of numbers do not
//! matter (`1`, `1.0` and `10e-1` are one number), and no digit is rounded away.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::Members;

/// How deep a value is taken apart. A room carries no deeper ones; what is deeper is compared as it is written.
const MAX_LEVELS: usize = 128;

/// A value in the one form that all values have that are the same, and no other. For comparing, not for parsing.
pub fn canonical(value: &RawValue) -> String {
    let mut out = String::with_capacity(value.get().len());
    write(value, 0, &mut out);
    out
}

fn write(value: &RawValue, level: usize, out: &mut String) {
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'{' | b'[') if level == MAX_LEVELS => out.push_str(text),
        Some(b'{') => {
            let members = Members::parse(text).unwrap_or_default();
            let sorted: BTreeMap<&str, &RawValue> = members.iter().collect();
            out.push('{');
            for (name, value) in sorted {
                string(name, out);
                out.push(':');
                write(value, level + 1, out);
                out.push(',');
            }
            out.push('}');
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
            out.push('[');
            for item in items {
                write(item, level + 1, out);
                out.push(',');
            }
            out.push(']');
        }
        Some(b'"') => match serde_json::from_str::<String>(text) {
            Ok(decoded) => string(&decoded, out),
            // Half of a surrogate pair is JSON, but no text.
            Err(_) => out.push_str(text),
        },
        Some(b'-' | b'0'..=b'9') => number(text, out),
        _ => out.push_str(text),
    }
}

fn string(text: &str, out: &mut String) {
    out.push_str(&Value::from(text).to_string());
}

/// Writes a number as its digits, without zeros around them, and the power of ten they are multiplied with.
fn number(text: &str, out: &mut String) {
    let (sign, rest) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let (mantissa, power) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        return out.push('0');
    }
    // The text is not longer than what was held in memory, but the power it names may be as large as it likes.
    let power = power.parse::<i64>().ok().and_then(|power| {
        let zeros = i64::try_from(digits.len() - significant.len()).ok()?;
        power.checked_add(zeros)?.checked_sub(i64::try_from(fraction.len()).ok()?)
    });
    match power {
        Some(power) => {
            out.push_str(sign);
            out.push_str(significant);
            out.push('e');
            out.push_str(&power.to_string());
        }
        None => out.push_str(text),
    }
}

/// Counts the equal answers of so many voters, and tells when one of them has a majority or none can get it any more.
#[derive(Debug, Clone)]
pub struct Tally<B> {
    voters: usize,
    /// Those who may still vote.
    open: usize,
    votes: HashMap<B, usize>,
}

impl<B: Eq + Hash> Tally<B> {
    /// Nobody has voted yet.
    pub fn new(voters: usize) -> Self {
        Self { voters, open: voters, votes: HashMap::new() }
    }

    /// Of how many more than half make a majority.
    pub fn voters(&self) -> usize {
        self.voters
    }

    /// Somebody votes.
    pub fn vote(&mut self, ballot: B) {
        self.pass();
        *self.votes.entry(ballot).or_default() += 1;
    }

    /// Somebody who has a vote will not use it.
    pub fn pass(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    /// Somebody who had not voted has no vote after all.
    pub fn excuse(&mut self) {
        self.pass();
        self.voters = self.voters.saturating_sub(1);
    }

    /// What more than half of the voters said.
    pub fn majority(&self) -> Option<&B> {
        self.votes.iter().find(|(_, votes)| 2 * **votes > self.voters).map(|(ballot, _)| ballot)
    }

    /// Whether whatever may still be said makes no difference: there is a majority, or there cannot be one any more.
    pub fn is_settled(&self) -> bool {
        let most = self.votes.values().max().copied().unwrap_or(0);
        2 * most > self.voters || 2 * (most + self.open) <= self.voters
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn same(one: &str, other: &str) -> bool {
        let [one, other] = [one, other].map(|text| RawValue::from_string(text.into()).expect("the test writes JSON"));
        canonical(&one) == canonical(&other)
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

        /// Whatever order the votes come in, an early end tells what all of them would have.
        #[test]
        fn an_early_end_is_the_right_end(ballots in prop::collection::vec(prop::option::of(0..3u8), 0..9)) {
            let mut whole = Tally::new(ballots.len());
            let mut early = None;
            for ballot in &ballots {
                match ballot {
                    Some(ballot) => whole.vote(*ballot),
                    None => whole.pass(),
                }
                if whole.is_settled() && early.is_none() {
                    early = Some(whole.majority().copied());
                }
            }
            prop_assert!(whole.is_settled());
            let count = |one: u8| ballots.iter().filter(|ballot| **ballot == Some(one)).count();
            let most = (0..3).find(|one| 2 * count(*one) > ballots.len());
            prop_assert_eq!(whole.majority().copied(), most);
            prop_assert_eq!(early.unwrap_or_default(), most);
        }
    }

    #[test]
    fn a_majority_is_told_as_soon_as_it_is_certain() {
        let settled = |voters, votes: &str| {
            let mut tally = Tally::new(voters);
            let mut taken = 0;
            for vote in votes.chars() {
                taken += 1;
                match vote {
                    '-' => tally.pass(),
                    'x' => tally.excuse(),
                    vote => tally.vote(vote),
                }
                if tally.is_settled() {
                    break;
                }
            }
            (taken, tally.majority().copied())
        };
        assert_eq!(settled(3, "aab"), (2, Some('a')));
        assert_eq!(settled(5, "ba-aa"), (5, Some('a')));
        // Half is no majority, and three different answers of four leave no hope.
        assert_eq!(settled(4, "aabc"), (4, None));
        assert_eq!(settled(4, "abcc"), (3, None));
        assert_eq!(settled(3, "--a"), (2, None));
        // One of two is a majority once the second has no vote.
        assert_eq!(settled(2, "ax"), (2, Some('a')));
    }
}
