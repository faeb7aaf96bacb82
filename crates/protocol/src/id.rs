//! Names that arrive from outside: checked once, then trusted.

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
    /// A character outside the allowed set.
    #[error("{0:?} is not one of A-Z a-z 0-9 . _ : ~ @ -")]
    Character(char),
    /// A control character in an envelope id.
    #[error("it has a control character")]
    Control,
}

fn check_name(text: &str) -> Result<(), InvalidId> {
    if text.is_empty() {
        return Err(InvalidId::Empty);
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '~' | '@' | '-');
    if let Some(other) = text.chars().find(|&c| !allowed(c)) {
        return Err(InvalidId::Character(other));
    }
    if text.len() > MAX_CHARS { Err(InvalidId::TooLong) } else { Ok(()) }
}

fn check_envelope_id(text: &str) -> Result<(), InvalidId> {
    if text.is_empty() {
        return Err(InvalidId::Empty);
    }
    if text.chars().any(char::is_control) {
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
    /// A topic's name, such as `room:alpha`: 1 to 128 characters of `A-Z a-z 0-9 . _ : ~ @ -`.
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
    /// One session of a participant, which may have several at once; of the same characters as a participant's id. It means something only
    /// together with that id.
    SessionId,
    check_name
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
            Some(prefix) => check_name(prefix).map(|()| Self::Prefix(prefix.into())),
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
        assert_eq!(verdict("r\u{43e}om"), "'о' is not one of A-Z a-z 0-9 . _ : ~ @ -");
        assert_eq!(verdict("a\u{7f}"), "'\\u{7f}' is not one of A-Z a-z 0-9 . _ : ~ @ -");
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
        assert!("ro om*".parse::<TopicPattern>().is_err());
    }
}
