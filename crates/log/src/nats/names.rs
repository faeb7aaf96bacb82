//! What things are called in NATS.
//!
//! Invariant: nothing a client wrote reaches a subject. Names and ids become digests, in letters that subjects, streams and keys
//! allow; what they stand for is kept beside them.

use aws_lc_rs::digest::{SHA256, digest};
use salon_protocol::{EnvelopeId, ParticipantId, TopicName};

/// The most bytes of a log's name.
const MAX_NAME: usize = 32;

/// How many letters a digest has.
const TOKEN_CHARS: usize = 24;

/// A digest as a token: 144 bits, 24 letters. Two ids with the same one would only refuse each other.
pub(super) fn token(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let digest = digest(&SHA256, text.as_bytes());
    let mut token = String::with_capacity(TOKEN_CHARS);
    for three in digest.as_ref()[..18].chunks(3) {
        let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        token.extend([18, 12, 6, 0].map(|shift| char::from(LETTERS[(bits >> shift & 63) as usize])));
    }
    token
}

/// Stands for a digest in the subjects of marks.
pub(super) const MARK: &str = "mark";
/// Which of some shards has a topic. Never changes: topics would be lost.
pub(super) fn shard_of(topic: &TopicName, shards: u16) -> u16 {
    let digest = digest(&SHA256, topic.as_str().as_bytes());
    // The name of a topic's subjects is the beginning of this digest.
    let bits = digest.as_ref()[24..].iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
    u16::try_from(bits % u64::from(shards.max(1))).expect("less than the number of shards")
}

/// The subjects of one topic in the stream of its shard.
#[derive(Debug, Clone)]
pub(super) struct TopicSubjects(Box<str>);

impl TopicSubjects {
    /// All of them.
    pub(super) fn all(&self) -> String {
        format!("{}*", self.0)
    }

    /// The subject of one entry.
    pub(super) fn entry(&self, id: &EnvelopeId) -> String {
        format!("{}{}", self.0, token(id.as_str()))
    }

    /// The subject of the tombstone for a message that was erased. No entry has it: its last token is shorter than a digest.
    pub(super) fn hole(&self, sequence: u64) -> String {
        format!("{}hole-{sequence}", self.0)
    }

    /// The subject of settings that were copied without their entry. No entry has it either.
    pub(super) fn settings(&self) -> String {
        format!("{}settings", self.0)
    }

    /// Whether a subject is one of them.
    pub(super) fn has(&self, subject: &str) -> bool {
        subject.starts_with(&*self.0)
    }
}

/// Whether a message is an entry, by the last token of its subject.
pub(super) fn is_entry_token(last: &str) -> bool {
    last.len() == TOKEN_CHARS
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

    /// The stream of a shard.
    pub(super) fn shard(&self, number: u16) -> String {
        format!("{}-shard-{number}", self.0)
    }

    /// The subjects of a shard.
    pub(super) fn shard_subjects(&self, number: u16) -> String {
        format!("{}.{number}.>", self.0)
    }

    /// What the subjects of a shard begin with.
    pub(super) fn shard_prefix(&self, number: u16) -> String {
        format!("{}.{number}.", self.0)
    }

    /// The subject of a topic's mark. No entry has it: no digest is that short.
    pub(super) fn mark(&self, shard: u16, token: &str) -> String {
        format!("{}.{shard}.{MARK}.{token}", self.0)
    }

    /// What the subjects of a topic's entries begin with.
    pub(super) fn entries(&self, shard: u16, token: &str) -> TopicSubjects {
        TopicSubjects(format!("{}.{shard}.{token}.", self.0).into())
    }

    /// What the subjects of a topic began with when it had a stream of its own.
    pub(super) fn legacy_rooms(&self) -> String {
        format!("{}.room.", self.0)
    }

    /// What the subjects of such streams begin with once they take no messages any more.
    pub(super) fn legacy_closed(&self) -> String {
        format!("{}.closed.", self.0)
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
    fn a_topic_stays_in_its_shard() {
        let shard = |name: &str| shard_of(&TopicName::new(name).expect("a name"), 16);
        assert_eq!(["room", "room:a.b", "lobby", "#general"].map(shard), [2, 2, 3, 13], "topics would be lost");
        let mut counts = [0; 16];
        for number in 0..10_000 {
            counts[usize::from(shard(&format!("room:{number}")))] += 1;
        }
        assert!(counts.iter().all(|count| (500..750).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_logs_name_is_plain() {
        for name in ["", "a.b", "a b", "a>", "é", &"x".repeat(33)] {
            assert!(StreamNames::new(name).is_none(), "{name}");
        }
        assert!(StreamNames::new("salon-2_B").is_some());
    }
}
