//! What waits to be received, and who waits to receive it.
//!
//! Invariants: one batch is out at a time. It is the receiver's once a stream asks again that it was sent on, and comes again to the stream that
//! asks on one that was opened since, or on any once those it was sent on are gone. Nobody else gets it: two would do what one was asked. Nothing is taken from the room while nobody wants it, so what waits here is bounded by what one look at the room brings.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use salon_protocol::{Entry, Kind, ParticipantId};
use serde::Serialize;
use serde_json::value::RawValue;

use super::PendingRequest;
use crate::StreamId;

/// Requests of one session that may wait at once.
pub(super) const MAX_WAITING: usize = 16;

/// Messages in one batch, and the bytes of their payloads after which no more is added.
const MAX_MESSAGES: usize = 100;
const MAX_BYTES: usize = 256 << 10;

/// Something to be received.
#[derive(Debug, Clone)]
pub(super) enum ReceivableItem {
    Entry(Arc<Entry>),
    /// What the gateway has to say to this receiver alone.
    Notice(Box<UndeliveredNotice>),
}

#[derive(Debug, Clone)]
pub(super) struct UndeliveredNotice {
    pub(super) id: String,
    pub(super) kind: Kind,
    pub(super) correlation: Option<String>,
    pub(super) payload: Box<RawValue>,
    pub(super) timestamp: u64,
}

impl ReceivableItem {
    fn bytes(&self) -> usize {
        match self {
            Self::Entry(entry) => entry.envelope.payload().len(),
            Self::Notice(notice) => notice.payload.get().len(),
        }
    }
}

struct Waiting {
    reply_to: PendingRequest,
    until: Instant,
    /// Whether its stream was opened while a batch was out.
    opened_meanwhile: bool,
}

struct OutstandingBatch {
    items: Vec<ReceivableItem>,
    /// The open streams it was sent on.
    sent: BTreeSet<StreamId>,
    /// The newest stream when it was first sent.
    newest: StreamId,
}

/// One session's receiving.
pub(super) struct Receiving {
    backlog: VecDeque<ReceivableItem>,
    batch: Option<OutstandingBatch>,
    waiting: VecDeque<Waiting>,
    newest: StreamId,
}

/// What a request to receive is answered with.
pub(super) struct Delivery {
    pub(super) to: PendingRequest,
    pub(super) items: Vec<ReceivableItem>,
}

impl Default for Receiving {
    fn default() -> Self {
        Self { backlog: VecDeque::new(), batch: None, waiting: VecDeque::new(), newest: StreamId::ONLY }
    }
}

impl Receiving {
    /// Somebody asks. False when too many do.
    pub(super) fn ask(&mut self, reply_to: PendingRequest, until: Instant) -> bool {
        if self.batch.as_ref().is_some_and(|batch| batch.sent.contains(&reply_to.stream)) {
            self.batch = None;
        }
        if self.waiting.len() >= MAX_WAITING {
            return false;
        }
        let opened_meanwhile = self.batch.as_ref().is_some_and(|batch| reply_to.stream > batch.newest);
        self.waiting.push_back(Waiting { reply_to, until, opened_meanwhile });
        true
    }

    pub(super) fn push(&mut self, item: ReceivableItem) {
        self.backlog.push_back(item);
    }

    /// Replaces the entries of the batch that is out, and those that wait, by what the log has of them now.
    pub(super) fn refresh(&mut self, current: &dyn Fn(&Arc<Entry>) -> Arc<Entry>) {
        let out = self.batch.iter_mut().flat_map(|batch| &mut batch.items);
        for item in out.chain(&mut self.backlog) {
            if let ReceivableItem::Entry(entry) = item {
                *entry = current(entry);
            }
        }
    }

    /// Takes the newest notice back, if it has not been received and is one that is wanted.
    pub(super) fn take_back(&mut self, is_such: impl FnOnce(&UndeliveredNotice) -> bool) -> bool {
        let takes = matches!(self.backlog.back(), Some(ReceivableItem::Notice(notice)) if is_such(notice));
        takes && self.backlog.pop_back().is_some()
    }

    /// Whether more of the room is wanted.
    pub(super) fn is_wanted(&self) -> bool {
        self.batch.is_none() && self.backlog.is_empty() && !self.waiting.is_empty()
    }

    pub(super) fn opened(&mut self, stream: StreamId) {
        self.newest = self.newest.max(stream);
    }

    /// Who asked on a stream that is gone is not answered there.
    pub(super) fn closed(&mut self, stream: StreamId) {
        self.waiting.retain(|waiting| waiting.reply_to.stream != stream);
        if let Some(batch) = &mut self.batch {
            batch.sent.remove(&stream);
        }
    }

    /// The next answer that can be given.
    pub(super) fn deliver(&mut self) -> Option<Delivery> {
        let Some(batch) = &mut self.batch else {
            if self.backlog.is_empty() {
                return None;
            }
            let to = self.waiting.pop_front()?.reply_to;
            let items = self.fill();
            self.batch =
                Some(OutstandingBatch { items: items.clone(), sent: BTreeSet::from([to.stream]), newest: self.newest });
            return Some(Delivery { to, items });
        };
        let lost = batch.sent.is_empty();
        let other = self.waiting.iter().position(|waiting| lost || waiting.opened_meanwhile)?;
        let to = self.waiting.remove(other)?.reply_to;
        batch.sent.insert(to.stream);
        Some(Delivery { to, items: batch.items.clone() })
    }

    fn fill(&mut self) -> Vec<ReceivableItem> {
        let (mut items, mut bytes) = (Vec::new(), 0);
        while items.len() < MAX_MESSAGES
            && bytes < MAX_BYTES
            && let Some(item) = self.backlog.pop_front()
        {
            bytes += item.bytes();
            items.push(item);
        }
        items
    }

    /// Requests that have waited long enough.
    pub(super) fn due(&mut self, now: Instant) -> Vec<PendingRequest> {
        let (due, rest): (VecDeque<_>, _) =
            std::mem::take(&mut self.waiting).into_iter().partition(|waiting| waiting.until <= now);
        self.waiting = rest;
        due.into_iter().map(|waiting| waiting.reply_to).collect()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.waiting.iter().map(|waiting| waiting.until).min()
    }

    /// Everybody who waits.
    pub(super) fn give_up(&mut self) -> Vec<PendingRequest> {
        std::mem::take(&mut self.waiting).into_iter().map(|waiting| waiting.reply_to).collect()
    }
}

/// The body of an answer.
#[derive(Serialize)]
pub(super) struct Messages<'a> {
    messages: Vec<FramedDelivery<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FramedDelivery<'a> {
    id: &'a str,
    sender: &'a str,
    payload: &'a RawValue,
    timestamp: u64,
    destination: To<'a>,
    kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum To<'a> {
    One(&'a str),
    Several(&'a [ParticipantId]),
}

impl<'a> Messages<'a> {
    pub(super) fn new(items: &'a [ReceivableItem], me: &'a ParticipantId, host: &'a ParticipantId) -> Self {
        let message = |item: &'a ReceivableItem| match item {
            ReceivableItem::Entry(entry) => {
                let envelope = &entry.envelope;
                FramedDelivery {
                    id: envelope.id().as_str(),
                    sender: envelope.from().as_str(),
                    payload: serde_json::from_str(envelope.payload()).expect("a stored payload is JSON"),
                    timestamp: entry.arrived.0,
                    destination: match envelope.to() {
                        [] => To::One("*"),
                        [one] => To::One(one.as_str()),
                        several => To::Several(several),
                    },
                    kind: envelope.kind(),
                    correlation_id: envelope.correlation().map(salon_protocol::EnvelopeId::as_str),
                }
            }
            ReceivableItem::Notice(notice) => FramedDelivery {
                id: &notice.id,
                sender: host.as_str(),
                payload: &notice.payload,
                timestamp: notice.timestamp,
                destination: To::One(me.as_str()),
                kind: notice.kind,
                correlation_id: notice.correlation.as_deref(),
            },
        };
        Self { messages: items.iter().map(message).collect() }
    }
}
