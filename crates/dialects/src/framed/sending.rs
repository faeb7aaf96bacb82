//! What was sent, what became of it, and which requests may be answered.
//!
//! Invariant: a request to send is answered once, however often it is repeated and wherever; and all of its repetitions are one envelope.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};

use salon_protocol::{Code, Entry, EnvelopeId, Message, ParticipantId, Refusal, RpcId};

use super::PendingRequest;
use super::body::{FrameDestination, SendBody};
use crate::Ticket;

/// Accepted requests whose repetition is known for what it is. An older one is known to the room by its envelope, which is written the same
/// again if the header has a `timestamp`; without one it gets another time and is refused as a conflict.
const MAX_REMEMBERED: usize = 1024;

/// Requests of others that can be answered without naming them.
const MAX_OPEN: usize = 1024;

/// What tells a repetition from another request under the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint(u64);

impl Fingerprint {
    pub(super) fn of(content_type: Option<&str>, destination: Option<&str>, body: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        (content_type, destination, body).hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// What is known of a request under its id.
pub(super) enum RequestStatus {
    New,
    /// It is on its way: a repetition is answered too.
    UnderWay(Ticket),
    Accepted(EnvelopeId),
    /// Another request has the id.
    Taken,
}

#[derive(Debug)]
enum SendState {
    UnderWay(Ticket),
    Accepted(EnvelopeId),
}

#[derive(Debug)]
struct PendingSend {
    id: Box<str>,
    reply_to: Vec<PendingRequest>,
    answers: Option<EnvelopeId>,
}

/// A request of somebody else's.
#[derive(Debug)]
struct PeerRequest {
    envelope: EnvelopeId,
    id: RpcId,
    from: ParticipantId,
}

/// One session's sending.
#[derive(Debug, Default)]
pub(super) struct Sending {
    status: HashMap<Box<str>, (Fingerprint, SendState)>,
    /// The accepted, oldest first.
    order: VecDeque<Box<str>>,
    pending: HashMap<u64, PendingSend>,
    open: VecDeque<PeerRequest>,
}

impl Sending {
    pub(super) fn status(&self, id: &str, fingerprint: Fingerprint) -> RequestStatus {
        match self.status.get(id) {
            None => RequestStatus::New,
            Some((other, _)) if *other != fingerprint => RequestStatus::Taken,
            Some((_, SendState::UnderWay(ticket))) => RequestStatus::UnderWay(*ticket),
            Some((_, SendState::Accepted(envelope))) => RequestStatus::Accepted(envelope.clone()),
        }
    }

    /// Something is on its way into the room.
    pub(super) fn begin(
        &mut self,
        ticket: Ticket,
        id: Box<str>,
        fingerprint: Fingerprint,
        reply_to: PendingRequest,
        answers: Option<EnvelopeId>,
    ) {
        self.status.insert(id.clone(), (fingerprint, SendState::UnderWay(ticket)));
        self.pending.insert(ticket.0, PendingSend { id, reply_to: vec![reply_to], answers });
    }

    /// Has somebody answered too who repeats what is on its way.
    pub(super) fn join(&mut self, ticket: Ticket, reply_to: PendingRequest) {
        if let Some(pending) = self.pending.get_mut(&ticket.0) {
            pending.reply_to.push(reply_to);
        }
    }

    /// It is in the room. Returns the requests to answer.
    pub(super) fn accepted(&mut self, ticket: Ticket, envelope: &EnvelopeId) -> Vec<PendingRequest> {
        let Some(pending) = self.pending.remove(&ticket.0) else { return Vec::new() };
        if let Some(answered) = pending.answers {
            self.open.retain(|open| open.envelope != answered);
        }
        if let Some((_, state)) = self.status.get_mut(&pending.id) {
            *state = SendState::Accepted(envelope.clone());
            self.order.push_back(pending.id);
        }
        if self.order.len() > MAX_REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.status.remove(&oldest);
        }
        pending.reply_to
    }

    /// The room did not take it. Returns the requests to answer. The same may be tried again.
    pub(super) fn refused(&mut self, ticket: Ticket) -> Vec<PendingRequest> {
        let Some(pending) = self.pending.remove(&ticket.0) else { return Vec::new() };
        self.status.remove(&pending.id);
        pending.reply_to
    }

    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Everybody who waits to hear what became of something.
    pub(super) fn give_up(&mut self) -> Vec<PendingRequest> {
        self.pending.drain().flat_map(|(_, pending)| pending.reply_to).collect()
    }

    /// Remembers what the receiver is asked.
    pub(super) fn hear(&mut self, entry: &Entry, me: &ParticipantId) {
        let envelope = &entry.envelope;
        let Some(Message::Request { id, .. }) = envelope.message() else { return };
        if !envelope.to().contains(me) {
            return;
        }
        if self.open.len() >= MAX_OPEN {
            self.open.pop_front();
        }
        let open = PeerRequest { envelope: envelope.id().clone(), id: id.clone(), from: envelope.from().clone() };
        self.open.push_back(open);
    }

    /// The request that a response answers, and who asked it.
    pub(super) fn answered(
        &self,
        send_body: &SendBody,
        id: &RpcId,
    ) -> Result<(EnvelopeId, Option<ParticipantId>), Refusal> {
        if let Some(named) = &send_body.correlation {
            let from = self.open.iter().find(|open| open.envelope == *named).map(|open| open.from.clone());
            return Ok((named.clone(), from));
        }
        let mut fitting = self.open.iter().filter(|open| {
            open.id == *id && !matches!(&send_body.destination, FrameDestination::One(other) if open.from != *other)
        });
        let no = |message: String| Err(Refusal::new(Code::CorrelationRequired, message));
        match (fitting.next(), fitting.next()) {
            (Some(open), None) => Ok((open.envelope.clone(), Some(open.from.clone()))),
            (None, _) => no(format!(
                "no request with the id {} waits for an answer of yours; `correlationId` can name one by the id it was received under",
                id.to_json()
            )),
            (Some(_), Some(_)) => no(format!(
                "several requests with the id {} wait for an answer of yours: say by `destination` whose it is, or name it by `correlationId`",
                id.to_json()
            )),
        }
    }
}
