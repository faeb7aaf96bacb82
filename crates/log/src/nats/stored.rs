//! How many bytes the entries of a topic take: what the quotas are compared with.
//!
//! What a topic takes in all says the index of its shard ([`super::topic_index`]), so every node counts every topic. What each author takes follows from the
//! entries, like the fold: it is part of what is kept of a topic ([`super::snapshot`]). Entries are removed without being read, so an author's
//! bytes are counted in segments that end at some entry: a segment goes when that entry does. An author counts for at most one segment too much.
//!
//! What a quota does not allow is refused before it comes to the lane of its topic, where it would hold up the others. Only the
//! servers know whether it is a repetition of what is stored, which is acknowledged whatever the quotas say: one envelope of an author is looked for at a
//! time, and what else comes from it meanwhile is refused without.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use salon_protocol::{Entry, Envelope, EnvelopeId, ParticipantId, TopicName};

use super::Shared;
use super::fault::NatsFault;
use super::link::Stored;
use super::names::token;
use super::topic::Topic;
use super::topic_index::TopicIndex;
use crate::quota::StoredBytes;
use crate::{QuotaExceeded, StoredQuotas};

/// The longest segment, and how many of them a quota has at least.
const MAX_SEGMENT_BYTES: u64 = 1 << 20;
const MIN_SEGMENTS: u64 = 64;

/// What a server stores beside subject, headers and payload, about.
const MESSAGE_OVERHEAD: usize = 30;

/// A segment: the sequence of its last entry, and its bytes.
type Segment = (u64, u64);

/// The authors of a topic's entries, as they are kept.
pub(super) type AuthorsForm = Vec<(ParticipantId, Vec<Segment>)>;

/// What is known of one topic. See the module.
#[derive(Debug, Default)]
pub(super) struct FollowedBytes {
    authors: HashMap<ParticipantId, AuthorBytes>,
    /// The authors of which something is looked for that a quota does not allow.
    looked_up: HashSet<ParticipantId>,
}

/// An envelope that a quota does not allow.
pub(super) struct OverQuota {
    pub(super) exceeded: QuotaExceeded,
    /// The way to find out whether it is stored already. `None` while another of the same author is looked for.
    pub(super) lookup: Option<QuotaLookup>,
}

/// See [`OverQuota`]. Lets the author's next be looked for when it is dropped.
pub(super) struct QuotaLookup {
    topic: Arc<Topic>,
    author: ParticipantId,
}

impl QuotaLookup {
    pub(super) async fn finds_stored(self, shared: &Shared, id: &EnvelopeId) -> Result<bool, NatsFault> {
        let place = &self.topic.place;
        Ok(shared.link.newest(place.stream(), &place.subjects.entry(id)).await?.is_some())
    }
}

impl Drop for QuotaLookup {
    fn drop(&mut self) {
        self.topic.state().stored.looked_up.remove(&self.author);
    }
}

#[derive(Debug, Default)]
struct AuthorBytes {
    bytes: u64,
    segments: VecDeque<Segment>,
}

/// How long a segment is, at most.
fn segment_bytes(quotas: &StoredQuotas) -> u64 {
    let quota = if quotas.participant > 0 { quotas.participant } else { u64::MAX };
    (quota / MIN_SEGMENTS).min(MAX_SEGMENT_BYTES)
}

impl FollowedBytes {
    /// Takes over the authors that were kept.
    pub(super) fn restore(&mut self, authors: AuthorsForm) {
        let restored = authors.into_iter().map(|(author, segments)| {
            let bytes = segments.iter().map(|(_, bytes)| bytes).sum();
            (author, AuthorBytes { bytes, segments: segments.into() })
        });
        self.authors = restored.collect();
    }

    /// The authors, to be kept.
    pub(super) fn form(&self) -> AuthorsForm {
        self.authors
            .iter()
            .map(|(author, stored)| (author.clone(), stored.segments.iter().copied().collect()))
            .collect()
    }

    /// Takes off what is removed.
    pub(super) fn trim(&mut self, trimmed: u64) {
        self.authors.retain(|_, author| {
            while let Some((last, bytes)) = author.segments.front().copied()
                && last <= trimmed
            {
                author.segments.pop_front();
                author.bytes -= bytes;
            }
            !author.segments.is_empty()
        });
    }

    /// Counts an entry that came by.
    pub(super) fn add(&mut self, quotas: &StoredQuotas, entry: &Entry, stored: &Stored) {
        let (sequence, bytes) = (stored.sequence, entry.envelope.text().len() as u64);
        let from = entry.envelope.from();
        if !self.authors.contains_key(from) {
            self.authors.insert(from.clone(), AuthorBytes::default());
        }
        let author = self.authors.get_mut(from).expect("it was just looked for");
        author.bytes += bytes;
        match author.segments.back_mut() {
            Some((last, segment)) if *segment + bytes <= segment_bytes(quotas) => {
                *last = sequence;
                *segment += bytes;
            }
            _ => author.segments.push_back((sequence, bytes)),
        }
    }

    /// How many bytes an author has stored.
    fn of(&self, author: &ParticipantId) -> u64 {
        self.authors.get(author).map_or(0, |author| author.bytes)
    }
}

/// About how many bytes a message takes.
pub(super) fn message_bytes(stored: &Stored) -> u64 {
    let headers = stored.headers.iter().map(|(name, values)| {
        let values: usize = values.iter().map(|value| value.as_str().len()).sum();
        name.to_string().len() + values + 4
    });
    (MESSAGE_OVERHEAD + stored.subject.len() + stored.payload.len() + headers.sum::<usize>()) as u64
}

impl Topic {
    /// Whether the quotas allow an entry, by what has been followed.
    pub(super) fn check_quotas(&self, shared: &Shared, envelope: &Envelope) -> Result<(), QuotaExceeded> {
        let stored = StoredBytes {
            topic: self.place.indexed(TopicIndex::stored).unwrap_or_default(),
            participant: self.state().stored.of(envelope.from()),
            gateway: shared.stored_bytes(),
        };
        shared.options.quotas.check_entry(stored, envelope)
    }
}

impl Shared {
    /// Whether the quotas forbid an envelope, by what has been followed. One that is on its way already is its lane's to judge.
    pub(super) fn over_quota(self: &Arc<Self>, name: &TopicName, envelope: &Envelope) -> Option<OverQuota> {
        let topic = self.followed(name)?;
        let exceeded = topic.check_quotas(self, envelope).err()?;
        if topic.expects(&token(envelope.id().as_str())) {
            return None;
        }
        // What retention has removed meanwhile makes room.
        self.quota_exceeded.notify_one();
        let author = envelope.from().clone();
        let is_first = topic.state().stored.looked_up.insert(author.clone());
        let lookup = is_first.then(|| QuotaLookup { topic, author });
        Some(OverQuota { exceeded, lookup })
    }

    /// How many bytes everything takes, as far as this node knows.
    pub(super) fn stored_bytes(&self) -> u64 {
        let shards: u64 = self.shards.iter().map(|shard| shard.bytes()).sum();
        shards.saturating_add(self.context_bytes.load(Ordering::Relaxed))
    }

    /// Asks how many bytes the contexts take.
    pub(super) async fn count_contexts(&self) -> Result<(), NatsFault> {
        let bytes = self.link.info(&self.link.names.context().0).await?.state.bytes;
        self.context_bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use async_nats::HeaderMap;
    use salon_protocol::{Position, Timestamp};

    use super::*;
    use crate::contract::line;

    fn add(stored: &mut FollowedBytes, quotas: &StoredQuotas, sequence: u64, from: &str) {
        let envelope = line(&format!("e{sequence}"), from, "hello");
        let (time, subject, headers) = (Timestamp(0), "s".to_owned(), HeaderMap::new());
        let payload = envelope.text().to_owned().into();
        let entry = Entry { position: Position { epoch: 1, offset: sequence }, arrived: time, stamp: None, envelope };
        stored.add(quotas, &entry, &Stored { sequence, time, subject, headers, payload });
    }

    #[test]
    fn authors_are_counted_until_their_entries_are_removed() {
        let quotas = StoredQuotas { participant: 64 * 500, ..StoredQuotas::default() };
        let mut stored = FollowedBytes::default();
        let own = |stored: &FollowedBytes, name: &str| stored.of(&ParticipantId::new(name).expect("an id"));
        let length = line("e1", "alice", "hello").text().len() as u64;
        for sequence in 1..=9 {
            add(&mut stored, &quotas, sequence, "alice");
        }
        add(&mut stored, &quotas, 10, "bobby");
        assert_eq!(own(&stored, "alice"), 9 * length);
        let mut restored = FollowedBytes::default();
        restored.restore(stored.form());
        for stored in [&mut stored, &mut restored] {
            stored.trim(6);
            // Of two entries each, the last segment is removed with its last entry.
            assert_eq!((own(stored, "alice"), own(stored, "bobby")), (3 * length, length + 1));
            stored.trim(10);
            assert_eq!((own(stored, "alice"), stored.authors.len()), (0, 0));
        }
    }
}
