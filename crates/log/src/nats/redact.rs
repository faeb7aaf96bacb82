//! Redaction: a message of a stream cannot be replaced, so it is erased, and records of it take its place.
//!
//! Two records are stored before the message is erased. One has a subject that follows from the message's sequence: who finds a hole at a
//! sequence reads the tombstone there. The other has the message's own subject: who looks for its id finds the tombstone, and nobody stores
//! another message with that id. Both are messages of the same stream that no reader gets as entries at their own sequences. Every step can be
//! repeated, by any node: each node that follows the topic does so when the notice comes by.

use std::sync::Arc;
use std::time::Duration;

use async_nats::HeaderMap;
use bytes::Bytes;
use salon_control::{MessageRedaction, RedactedMessage};
use salon_protocol::{Timestamp, TopicName};

use super::fault::NatsFault;
use super::follow::expecting;
use super::link::Stored;
use super::shard::TopicAddress;
use super::topic;
use super::{Shared, TOPIC};

/// The header of a record: the sequence of the message it stands for, and when that arrived.
pub(super) const REDACTED: &str = "Salon-Redacted";

/// How long to wait before erasing is tried again.
const RETRY_DELAY: Duration = Duration::from_millis(250);
/// How long the append of a notice waits each time before it looks whether everything is erased, and how often.
const WAIT_DELAY: Duration = Duration::from_millis(25);
const MAX_TRIES: usize = 200;

/// What a record stands for.
pub(super) fn stands_for(stored: &Stored) -> Option<(u64, Timestamp)> {
    let (sequence, arrived) = stored.headers.get(REDACTED)?.as_str().split_once(' ')?;
    Some((sequence.parse().ok()?, Timestamp(arrived.parse().ok()?)))
}

/// Whether a message is a record at a sequence of its own, which no reader gets.
pub(super) fn is_record(stored: &Stored) -> bool {
    stands_for(stored).is_some_and(|(sequence, _)| sequence != stored.sequence)
}

/// The record of a message, at the sequence of that message.
pub(super) fn in_its_place(record: Stored, sequence: u64) -> Option<Stored> {
    let (_, arrived) = stands_for(&record).filter(|(of, _)| *of == sequence)?;
    Some(Stored { sequence, time: arrived, ..record })
}

impl Shared {
    /// Erases what a notice says is redacted, however long that takes, unless the log is closed.
    pub(super) async fn erase_all(self: Arc<Self>, topic: TopicName, notice: u64, redaction: MessageRedaction) {
        while !*self.stop.borrow() {
            match self.erase_once(&topic, notice, &redaction).await {
                Ok(()) => return,
                Err(NatsFault::Unavailable(why)) => {
                    tracing::debug!(%topic, %why, "nats: redacted message not erased yet, retrying");
                    tokio::time::sleep(RETRY_DELAY).await;
                }
                Err(fault) => {
                    return tracing::error!(%topic, %fault, "nats: redacted message not erased, it stays in the stream");
                }
            }
        }
    }

    /// Waits until a redaction is carried out, for the append of its notice, but not for ever: the follower of the topic goes on.
    pub(super) async fn erase_soon(&self, topic: &TopicName, notice: u64, redaction: &MessageRedaction) {
        let is_pending = || self.followed(topic).is_some_and(|followed| followed.has_pending_redaction(notice));
        for _ in 0..MAX_TRIES {
            if self.erase_messages(topic, redaction).await.is_ok() && !is_pending() {
                return;
            }
            tokio::time::sleep(WAIT_DELAY).await;
        }
    }

    async fn erase_messages(&self, topic: &TopicName, redaction: &MessageRedaction) -> Result<(), NatsFault> {
        for message in &redaction.messages {
            self.erase_message(topic, message).await?;
        }
        Ok(())
    }

    async fn erase_once(&self, topic: &TopicName, notice: u64, redaction: &MessageRedaction) -> Result<(), NatsFault> {
        self.erase_messages(topic, redaction).await?;
        let Some(followed) = self.followed(topic) else { return Ok(()) };
        // A snapshot has the texts of calls that are held; the next one has not. The redaction that is carried out last keeps it for all.
        let is_last = !followed.note_erased(notice, true);
        if is_last && followed.kept().is_some() {
            self.keep_newest(&followed).await.inspect_err(|_| _ = followed.note_erased(notice, false))?;
        }
        Ok(())
    }

    async fn erase_message(&self, name: &TopicName, message: &RedactedMessage) -> Result<(), NatsFault> {
        let place = self.place(name);
        // It is gone, by an earlier try or by retention.
        let Some(stored) = self.link.by_sequence(place.stream(), message.offset).await? else { return Ok(()) };
        // The stream has entries of other topics, too.
        if !place.subjects.has(&stored.subject) {
            return Ok(());
        }
        let entry = topic::entry(self.epoch, &stored)?;
        let Some(tombstone) = message.replace(&entry) else { return Ok(()) };
        let text = Bytes::copy_from_slice(tombstone.envelope.text().as_bytes());
        let record = |mut headers: HeaderMap| {
            headers.insert(TOPIC, name.as_str());
            headers.insert(REDACTED, format!("{} {}", message.offset, entry.arrived.0));
            if let Some(stamp) = stored.headers.get(topic::STAMP) {
                headers.insert(topic::STAMP, stamp.as_str());
            }
            headers
        };
        let hole = place.subjects.hole(message.offset);
        for (subject, expected) in [(hole, 0), (stored.subject.clone(), message.offset)] {
            match self.link.store(subject, record(expecting(expected)), text.clone()).await {
                // Another node was first, or an earlier try.
                Ok(_) | Err(NatsFault::Raced) => {}
                Err(fault) => return Err(fault),
            }
        }
        self.link.erase(place.stream(), &stored.subject, message.offset).await
    }

    /// The tombstone that stands for a message which is not there, at its sequence.
    pub(super) async fn tombstone(
        &self,
        stream: &str,
        subject: &str,
        sequence: u64,
    ) -> Result<Option<Stored>, NatsFault> {
        let found = self.link.newest(stream, subject).await?;
        Ok(found.and_then(|record| in_its_place(record, sequence)))
    }

    /// Puts tombstones where messages of a topic between two sequences were redacted.
    pub(super) async fn with_tombstones(
        &self,
        place: &TopicAddress,
        after: u64,
        through: u64,
        mut messages: Vec<Stored>,
    ) -> Result<Vec<Stored>, NatsFault> {
        let holes = place.indexed(|index| index.holes(after, through)).unwrap_or_default();
        if holes.is_empty() {
            return Ok(messages);
        }
        for sequence in holes {
            let found = self.tombstone(place.stream(), &place.subjects.hole(sequence), sequence).await?;
            let Some(tombstone) = found else { continue };
            match messages.binary_search_by_key(&sequence, |message| message.sequence) {
                // It is not erased yet.
                Ok(at) => messages[at] = tombstone,
                Err(at) => messages.insert(at, tombstone),
            }
        }
        Ok(messages)
    }
}
