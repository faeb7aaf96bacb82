//! Names with `*` for any characters.

use std::fmt;
use std::str::FromStr;

/// The longest pattern, in bytes.
const MAX_BYTES: usize = 256;

/// A pattern for one name: `*` matches any characters, also none. Everything else matches itself.
///
/// Every message may be compared with hundreds of patterns, so what a pattern is like is found out when it is read.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NamePattern {
    text: Box<str>,
    shape: PatternShape,
}

/// How a name is compared with a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum PatternShape {
    /// Every name matches.
    Any,
    /// There is no `*`.
    Exact,
    /// There is one `*`, behind so many bytes.
    Ends(usize),
    /// There are several.
    Parts,
}

impl PatternShape {
    fn of(text: &str) -> Self {
        match text.split_once('*') {
            None => Self::Exact,
            Some(_) if text.bytes().all(|byte| byte == b'*') => Self::Any,
            Some((_, behind)) if behind.contains('*') => Self::Parts,
            Some((before, _)) => Self::Ends(before.len()),
        }
    }
}

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

impl std::error::Error for InvalidPattern {}

impl NamePattern {
    /// The pattern that matches every name.
    pub fn any() -> Self {
        Self { text: "*".into(), shape: PatternShape::Any }
    }

    /// Whether every name matches.
    pub fn is_any(&self) -> bool {
        self.shape == PatternShape::Any
    }

    /// Its first and its last byte.
    pub(crate) fn ends(&self) -> [Option<u8>; 2] {
        [self.text.bytes().next(), self.text.bytes().next_back()]
    }

    /// Whether a name matches. Takes time in proportion to both lengths.
    pub fn matches(&self, name: &str) -> bool {
        match self.shape {
            PatternShape::Any => true,
            PatternShape::Exact => *self.text == *name,
            PatternShape::Ends(star) => {
                let (text, name) = (self.text.as_bytes(), name.as_bytes());
                name.len() + 1 >= text.len() && name.starts_with(&text[..star]) && name.ends_with(&text[star + 1..])
            }
            PatternShape::Parts => self.matches_parts(name),
        }
    }

    /// What stands between two `*` is looked for once, from where the one before it was found.
    fn matches_parts(&self, name: &str) -> bool {
        let mut parts = self.text.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = name.strip_prefix(first) else { return false };
        let Some(last) = parts.next_back() else { return rest.is_empty() };
        for part in parts {
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last)
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
        Ok(Self { text: text.into(), shape: PatternShape::of(text) })
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
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
        fn as_defined(pattern in "[aä*]{1,8}", name in "[aä]{0,10}") {
            let read: NamePattern = pattern.parse().expect("a pattern");
            prop_assert_eq!(read.matches(&name), by_definition(pattern.as_bytes(), name.as_bytes()));
        }
    }
}
