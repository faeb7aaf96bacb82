//! Names with `*` for any characters.

use std::fmt;
use std::str::FromStr;

/// The longest pattern, in bytes.
const MAX_BYTES: usize = 256;

/// A pattern for one name: `*` matches any characters, also none. Everything else matches itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NamePattern(Box<str>);

/// Why a text is not a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidPattern {
    /// It is empty.
    Empty,
    /// It has more than 256 bytes.
    TooLong,
    /// It has a control character.
    Control,
}

impl fmt::Display for InvalidPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "a name is missing",
            Self::TooLong => "a name has more than 256 bytes",
            Self::Control => "a name has a control character",
        })
    }
}

impl NamePattern {
    /// The pattern that matches every name.
    pub fn any() -> Self {
        Self("*".into())
    }

    /// Whether every name matches.
    pub fn is_any(&self) -> bool {
        self.0.bytes().all(|byte| byte == b'*')
    }

    /// Whether a name matches. Takes at most the product of both lengths in steps.
    pub fn matches(&self, name: &str) -> bool {
        let (pattern, name) = (self.0.as_bytes(), name.as_bytes());
        let (mut at, mut read) = (0, 0);
        // Where the newest `*` is, and how much of the name it has taken.
        let mut star = None;
        while read < name.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    star = Some((at, read));
                    at += 1;
                }
                Some(byte) if *byte == name[read] => {
                    at += 1;
                    read += 1;
                }
                _ => {
                    let Some((star_at, taken)) = star else { return false };
                    star = Some((star_at, taken + 1));
                    (at, read) = (star_at + 1, taken + 1);
                }
            }
        }
        pattern[at..].iter().all(|byte| *byte == b'*')
    }
}

impl FromStr for NamePattern {
    type Err = InvalidPattern;

    fn from_str(text: &str) -> Result<Self, InvalidPattern> {
        if text.is_empty() {
            return Err(InvalidPattern::Empty);
        }
        if text.len() > MAX_BYTES {
            return Err(InvalidPattern::TooLong);
        }
        if text.chars().any(char::is_control) {
            return Err(InvalidPattern::Control);
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, without regard to cost.
    fn by_definition(pattern: &[u8], name: &[u8]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some((b'*', rest)) => (0..=name.len()).any(|taken| by_definition(rest, &name[taken..])),
            Some((byte, rest)) => name.split_first().is_some_and(|(n, tail)| n == byte && by_definition(rest, tail)),
        }
    }

    #[test]
    fn examples() {
        let matches = |pattern: &str, name: &str| pattern.parse::<NamePattern>().expect("a pattern").matches(name);
        assert!(matches("robot-*", "robot-7") && matches("robot-*", "robot-") && !matches("robot-*", "robot"));
        assert!(matches("*_file", "read_file") && !matches("*_file", "read_files") && matches("r*d*", "read"));
        assert!(matches("*", "anything") && matches("exact", "exact") && !matches("exact", "Exact"));
        for (text, why) in [("", InvalidPattern::Empty), ("a\nb", InvalidPattern::Control)] {
            assert_eq!(text.parse::<NamePattern>(), Err(why));
        }
        assert_eq!("x".repeat(257).parse::<NamePattern>(), Err(InvalidPattern::TooLong));
    }

    proptest! {
        #[test]
        fn as_defined(pattern in "[ab*]{1,8}", name in "[ab]{0,10}") {
            let read: NamePattern = pattern.parse().expect("a pattern");
            prop_assert_eq!(read.matches(&name), by_definition(pattern.as_bytes(), name.as_bytes()));
        }
    }
}
