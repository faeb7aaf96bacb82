//! What things are called in NATS.
//!
//! Invariant: nothing a client wrote reaches a subject. Names and ids become digests, in letters that subjects, streams and keys
//! allow; what they stand for is kept beside them.

use aws_lc_rs::digest::{SHA256, digest};
use salon_protocol::{EnvelopeId, ParticipantId, TopicName};

/// The most bytes of a log's name.
const MAX_NAME: usize = 32;

/// A digest as a token: 144 bits, 24 letters. Two ids with the same one would only refuse each other.
pub(super) fn token(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let digest = digest(&SHA256, text.as_bytes());
    let mut token = String::with_capacity(24);
    for three in digest.as_ref()[..18].chunks(3) {
        let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        token.extend([18, 12, 6, 0].map(|shift| char::from(LETTERS[(bits >> shift & 63) as usize])));
    }
    token
}

/// The names of one log.
#[derive(Debug, Clone)]
pub(super) struct StreamNames(Box<str>);

impl StreamNames {
    /// `None` for a name that NATS would not take.
    pub(super) fn new(log: &str) -> Option<Self> {
        let fits = (1..=MAX_NAME).contains(&log.len())
            && log.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        fits.then(|| Self(log.into()))
    }

    /// The stream of a topic.
    pub(super) fn room(&self, topic: &TopicName) -> String {
        format!("{}-room-{}", self.0, token(topic.as_str()))
    }

    /// The subjects of a topic's entries.
    pub(super) fn entries(&self, topic: &TopicName) -> String {
        format!("{}.room.{}.*", self.0, token(topic.as_str()))
    }

    /// The subject of one entry.
    pub(super) fn entry(&self, topic: &TopicName, id: &EnvelopeId) -> String {
        format!("{}.room.{}.{}", self.0, token(topic.as_str()), token(id.as_str()))
    }

    /// The subjects of all entries.
    pub(super) fn rooms(&self) -> String {
        format!("{}.room.>", self.0)
    }

    /// The subject of a topic's stream while it is being forgotten: nobody appends to it.
    pub(super) fn shut(&self, topic: &TopicName) -> String {
        format!("{}.shut.{}", self.0, token(topic.as_str()))
    }

    /// The subjects of all that are being forgotten.
    pub(super) fn all_shut(&self) -> String {
        format!("{}.shut.>", self.0)
    }

    /// Where it is said that a topic's stream was made. Not stored.
    pub(super) fn made(&self) -> String {
        format!("{}.made", self.0)
    }

    /// The stream of all contexts, and its subjects.
    pub(super) fn context(&self) -> (String, String) {
        (format!("{}-context", self.0), format!("{}.context.>", self.0))
    }

    /// What the subjects of a topic's context begin with.
    pub(super) fn context_of(&self, topic: &TopicName) -> String {
        format!("{}.context.{}", self.0, token(topic.as_str()))
    }

    /// A bucket by its purpose.
    pub(super) fn bucket(&self, purpose: &str) -> String {
        format!("{}-{purpose}", self.0)
    }

    /// The key of a seat.
    pub(super) fn seat(topic: &TopicName, participant: &ParticipantId) -> String {
        format!("{}.{}", token(topic.as_str()), token(participant.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_letters_that_subjects_allow() {
        for text in ["", "a.b", "room:*", ">", "Ключ \u{1f511}", &"x".repeat(10_000)] {
            let token = token(text);
            assert_eq!(token.len(), 24, "{text}");
            assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{token}");
        }
        assert_eq!(token("abc"), "ungWv48Bz-pBQUDeXa4iI7AD", "as the first 18 bytes of SHA-256 are in base64url");
        assert_ne!(token("room:a"), token("room:b"));
    }

    #[test]
    fn a_logs_name_is_plain() {
        for name in ["", "a.b", "a b", "a>", "é", &"x".repeat(33)] {
            assert!(StreamNames::new(name).is_none(), "{name}");
        }
        assert!(StreamNames::new("salon-2_B").is_some());
    }
}
