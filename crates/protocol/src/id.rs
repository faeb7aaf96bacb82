//! Names that arrive from outside: checked once, then trusted.
//!
//! Topics and participants may be called as chat platforms call them: `#general`, `!room:server`, `@user:server`, `Team Room`. What is refused would have
//! a meaning where names are written: in paths, patterns, quotations. Letters beyond ASCII are refused, so that no name can be written with letters of
//! another script that look the same. In an address a name is percent-encoded ([`crate::percent_encoded`]).

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The longest topic name, participant id or envelope id, in characters.
const MAX_CHARS: usize = 128;

/// Why a name was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidId {
    /// Nothing was given.
    #[error("it is empty")]
    Empty,
    /// More than 128 characters were given.
    #[error("it has more than 128 characters")]
    TooLong,
    /// A character that a name cannot have.
    #[error(
        "{0:?} is not allowed: a name has letters and digits of ASCII, spaces between them, and ! # $ & ' ( ) + , - . : ; = @ [ ] ^ _ {{ | }} ~"
    )]
    Character(char),
    /// A space at the beginning or the end.
    #[error("it begins or ends with a space")]
    Space,
    /// `.` or `..`, which lead elsewhere in an address.
    #[error("`.` and `..` are not names")]
    Dots,
    /// A character that a session's id cannot have.
    #[error("{0:?} is not one of A-Z a-z 0-9 . _ : ~ @ -")]
    SessionCharacter(char),
    /// A control character in an envelope id.
    #[error("it has a control character")]
    Control,
}

/// Whether a name can have a character.
fn is_name_character(c: char) -> bool {
    c == ' ' || (c.is_ascii_graphic() && !matches!(c, '"' | '%' | '*' | '/' | '<' | '>' | '?' | '\\' | '`'))
}

fn check_characters(text: &str) -> Result<(), InvalidId> {
    if text.is_empty() {
        return Err(InvalidId::Empty);
    }
    let is_unknown = |&c: &char| !is_name_character(c);
    // Byte by byte, because nearly all names are names; no part of another character is one of a name's.
    if text.bytes().map(char::from).any(|c| is_unknown(&c)) {
        return Err(text.chars().find(is_unknown).map_or(InvalidId::Empty, InvalidId::Character));
    }
    // All of them are ASCII, so these are bytes as well.
    if text.len() > MAX_CHARS { Err(InvalidId::TooLong) } else { Ok(()) }
}

fn check_name(text: &str) -> Result<(), InvalidId> {
    check_characters(text)?;
    if text.starts_with(' ') || text.ends_with(' ') {
        return Err(InvalidId::Space);
    }
    if matches!(text, "." | "..") { Err(InvalidId::Dots) } else { Ok(()) }
}

fn check_session(text: &str) -> Result<(), InvalidId> {
    if text.is_empty() {
        return Err(InvalidId::Empty);
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '~' | '@' | '-');
    if let Some(other) = text.chars().find(|&c| !allowed(c)) {
        return Err(InvalidId::SessionCharacter(other));
    }
    if text.len() > MAX_CHARS { Err(InvalidId::TooLong) } else { Ok(()) }
}

fn check_envelope_id(text: &str) -> Result<(), InvalidId> {
    if text.is_empty() {
        return Err(InvalidId::Empty);
    }
    let has_control = match text.is_ascii() {
        true => text.bytes().any(|byte| byte.is_ascii_control()),
        false => text.chars().any(char::is_control),
    };
    if has_control {
        return Err(InvalidId::Control);
    }
    // Bytes bound characters from above, so the count is needed only for long ids.
    if text.len() > MAX_CHARS && text.chars().count() > MAX_CHARS { Err(InvalidId::TooLong) } else { Ok(()) }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $check:path) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and keeps a name.
            pub fn new(text: impl AsRef<str>) -> Result<Self, InvalidId> {
                $check(text.as_ref())?;
                Ok(Self(text.as_ref().into()))
            }

            /// The name as it was given.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;
            fn try_from(text: String) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0.as_ref().into()
            }
        }
    };
}

name!(
    /// A topic's name, such as `room:alpha`, `#general` or `Team Room`: 1 to 128 letters and digits of ASCII, spaces between them, and
    /// ``! # $ & ' ( ) + , - . : ; = @ [ ] ^ _ { | } ~``; neither `.` nor `..`.
    TopicName,
    check_name
);
name!(
    /// A participant's stable id within a topic, of the same characters as a topic's name.
    ParticipantId,
    check_name
);
name!(
    /// An envelope's id: any 1 to 128 characters that are not control characters, unique in its topic.
    EnvelopeId,
    check_envelope_id
);
name!(
    /// One session of a participant, which may have several at once: 1 to 128 characters of `A-Z a-z 0-9 . _ : ~ @ -`. It means something only
    /// together with the participant's id.
    SessionId,
    check_session
);

impl ParticipantId {
    /// The prefix of the gateway's own ids, which no token may name.
    pub const RESERVED_PREFIX: &'static str = "system:";

    /// The gateway's own participant, `system:gateway`.
    pub fn host() -> Self {
        static HOST: std::sync::OnceLock<ParticipantId> = std::sync::OnceLock::new();
        HOST.get_or_init(|| Self(Arc::from("system:gateway"))).clone()
    }

    /// Whether this is the gateway's own participant.
    pub fn is_host(&self) -> bool {
        self.as_str() == "system:gateway"
    }

    /// Whether the id belongs to the gateway rather than to somebody who could enter.
    pub fn is_reserved(&self) -> bool {
        self.as_str().starts_with(Self::RESERVED_PREFIX)
    }
}

/// The topics a token opens: one name, or every name with a prefix (`room:*`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopicPattern {
    /// This topic alone.
    Exact(TopicName),
    /// Every topic whose name begins so; empty opens all.
    Prefix(Box<str>),
}

impl TopicPattern {
    /// Whether the pattern opens a topic.
    pub fn opens(&self, topic: &TopicName) -> bool {
        match self {
            Self::Exact(name) => name == topic,
            Self::Prefix(prefix) => topic.as_str().starts_with(&**prefix),
        }
    }
}

impl FromStr for TopicPattern {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        match text.strip_suffix('*') {
            Some("") => Ok(Self::Prefix("".into())),
            // `Team *` opens what begins with `Team` and a space.
            Some(prefix) => check_characters(prefix).map(|()| Self::Prefix(prefix.into())),
            None => TopicName::new(text).map(Self::Exact),
        }
    }
}

impl fmt::Display for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => name.fmt(f),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_to_their_characters() {
        let verdict = |text: &str| TopicName::new(text).map_or_else(|e| e.to_string(), |_| "fine".into());
        assert_eq!(verdict("room:alpha~1@x_y-z.0"), "fine");
        assert_eq!(verdict(&"a".repeat(128)), "fine");
        assert_eq!(verdict(&"a".repeat(129)), "it has more than 128 characters");
        assert_eq!(verdict(""), "it is empty");
        for name in [
            "#general",
            "!room:server.example",
            "@user:server",
            "Team Room",
            "auth0|5f7c",
            "[a]{b}^'(c)",
            "...",
            "a.",
            "+&=$;,",
        ] {
            assert_eq!(verdict(name), "fine", "{name}");
        }
        let refused = |text: &str| TopicName::new(text).expect_err(text);
        for c in [
            '/', '\\', '*', '?', '%', '"', '`', '<', '>', '\0', '\t', '\n', '\u{7f}', '\u{85}', '\u{a0}', '\u{43e}',
            '\u{200b}', '\u{202e}',
        ] {
            assert_eq!(refused(&format!("a{c}b")), InvalidId::Character(c));
        }
        assert_eq!(refused(" a"), InvalidId::Space);
        assert_eq!(refused("a "), InvalidId::Space);
        assert_eq!(refused(" "), InvalidId::Space);
        assert_eq!(refused("."), InvalidId::Dots);
        assert_eq!(refused(".."), InvalidId::Dots);
        assert_eq!(SessionId::new("a b"), Err(InvalidId::SessionCharacter(' ')));
    }

    proptest::proptest! {
        #[test]
        fn a_name_survives_an_address(one in "\\PC{1,12}|[ -~]{1,12}", other in "[ -~]{1,12}") {
            let names: Vec<_> = [one, other].into_iter().filter_map(|text| ParticipantId::new(text).ok()).collect();
            for name in &names {
                let encoded = crate::percent_encoded(name.as_str());
                proptest::prop_assert!(encoded.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~:@%".contains(&byte)), "{}", encoded);
                proptest::prop_assert_eq!(crate::percent_decoded(&encoded), Some(name.to_string()));
                // No part of an address that leads elsewhere.
                proptest::prop_assert!(!matches!(&*encoded, "." | ".."));
            }
            if let [one, other] = &names[..] {
                let is_same = crate::percent_encoded(one.as_str()) == crate::percent_encoded(other.as_str());
                proptest::prop_assert_eq!(is_same, one == other);
            }
        }
    }

    #[test]
    fn envelope_ids_are_counted_in_characters() {
        assert!(EnvelopeId::new("é".repeat(128)).is_ok());
        assert_eq!(EnvelopeId::new("é".repeat(129)), Err(InvalidId::TooLong));
        assert_eq!(EnvelopeId::new("a\nb"), Err(InvalidId::Control));
    }

    #[test]
    fn a_pattern_opens_by_prefix() {
        let opens = |pattern: &str, topic: &str| {
            pattern.parse::<TopicPattern>().expect("a pattern").opens(&TopicName::new(topic).expect("a name"))
        };
        assert!(opens("room:*", "room:alpha"));
        assert!(!opens("room:*", "lobby"));
        assert!(opens("*", "lobby"));
        assert!(!opens("room:a", "room:alpha"));
        assert!(opens("#*", "#general"));
        assert!(opens("Team *", "Team Room"));
        assert!(!opens("Team *", "Teams"));
        for wrong in ["ro/om*", "ro*om", "**", ""] {
            assert!(wrong.parse::<TopicPattern>().is_err(), "{wrong}");
        }
    }
}
