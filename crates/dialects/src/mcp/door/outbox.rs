//! What the door sends to the gateway: envelopes for the room in the client's name, queries, and refusals to be counted, in one order.
//!
//! Invariants: an envelope is from the client and names its session. Answers and notifications, for which a participant would wait in
//! vain, are kept until the room has stored them. One that the room refuses for now is sent again unchanged, under the same id.
//! What is sent again counts against the client's rate, stored or not. So nothing is sent again while the room is known to store nothing,
//! and otherwise only the oldest; the rest follows it one by one, in order, as long as the room stores it.
//! Deliberately absent: requests, which their own component keeps, and whom an envelope is for.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use salon_protocol::{
    Code, Compose, Draft, EnvelopeId, Kind, Limits, Message, ParticipantId, Refusal, RpcError, RpcId, SessionId, rpc,
};
use serde_json::value::RawValue;

use super::{DialectAction, DoorTimer, McpDoorOptions, RoomQuery, refusal_error};
use crate::{Introduction, Stamps, Ticket};
use salon_mcp::timers::Timers;

/// How long a draft that the room refused waits before it is sent again.
pub(super) const RETRY_DELAY: Duration = Duration::from_millis(250);
/// Answers that may be on their way before no more of the room is read.
const MAX_ANSWERS: usize = 64;
/// Notifications that are kept. Those of a client that sends more at once are sent once.
const MAX_NOTES: usize = 256;

const INITIALIZED: &str = "notifications/initialized";

/// Whose words they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Voice {
    /// The client answers.
    Client,
    /// The door answers for the client, who knows nothing of it and must not pay for it.
    Door,
    /// The door says that the client's answer does not fit into the room.
    Failure,
    /// A notification.
    Note,
}

/// A draft that the room has not stored.
#[derive(Debug)]
struct KeptDraft {
    /// The ticket it was first sent with.
    first: u64,
    draft: Draft,
    voice: Voice,
}

impl KeptDraft {
    /// The participant that this tells that its handshake is over.
    fn welcomes(&self) -> Option<&ParticipantId> {
        match (self.draft.envelope().message(), self.draft.envelope().to()) {
            (Some(Message::Notification { method }), [who]) if **method == *INITIALIZED => Some(who),
            _ => None,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Outbox {
    me: ParticipantId,
    session: SessionId,
    pub(super) limits: Limits,
    stamps: Stamps,
    last_ticket: u64,
    /// On their way, by ticket.
    sent: HashMap<u64, KeptDraft>,
    /// What the room has refused for now, in the order in which it was first sent.
    refused: BTreeMap<u64, KeptDraft>,
    /// The ticket of the draft that is tried again, before the rest.
    trial: Option<u64>,
    /// Whether the room is known to store nothing for now.
    is_out: bool,
    /// [`DoorTimer::Late`].
    pub(super) timers: Timers<DoorTimer>,
    actions: VecDeque<DialectAction>,
}

impl Outbox {
    pub(super) fn new(options: &McpDoorOptions, stamps: Stamps) -> Self {
        Self {
            me: options.me.clone(),
            session: stamps.session(),
            limits: options.limits,
            stamps,
            last_ticket: 0,
            sent: HashMap::new(),
            refused: BTreeMap::new(),
            trial: None,
            is_out: false,
            timers: Timers::default(),
            actions: VecDeque::new(),
        }
    }

    /// The session that its envelopes are from.
    pub(super) fn session(&self) -> &SessionId {
        &self.session
    }

    /// Whether an envelope is one of this session.
    pub(super) fn made(&self, envelope: &EnvelopeId) -> bool {
        self.stamps.made(envelope.as_str())
    }

    pub(super) fn is_out(&self) -> bool {
        self.is_out
    }

    /// Writes an envelope, unless it is more than the room takes. `payload` is given the envelope's id.
    pub(super) fn compose(
        &mut self,
        to: &[ParticipantId],
        correlation: Option<&EnvelopeId>,
        payload: impl FnOnce(&str) -> Box<RawValue>,
        now: Instant,
    ) -> Result<Draft, Refusal> {
        let (id, ts) = self.stamps.next(now);
        let payload = payload(&id);
        let compose = Compose {
            id: &id,
            ts,
            from: &self.me,
            to,
            kind: Kind::Mcp,
            correlation_id: correlation.map(EnvelopeId::as_str),
            payload,
        };
        let sessions = salon_protocol::Sessions { from_session: Some(&self.session), to_session: None };
        Draft::parse(compose.text_between(sessions), &self.limits)
    }

    /// Sends a draft once.
    pub(super) fn publish(&mut self, draft: Box<Draft>) {
        let ticket = self.ticket();
        self.actions.push_back(DialectAction::Publish(ticket, draft));
    }

    /// Sends a message once: later, it would tell of what is over.
    pub(super) fn publish_once(
        &mut self,
        to: &ParticipantId,
        about: &EnvelopeId,
        message: Box<RawValue>,
        now: Instant,
    ) {
        if let Ok(draft) = self.compose(std::slice::from_ref(to), Some(about), |_| message, now) {
            self.publish(Box::new(draft));
        }
    }

    /// Sends the answer to a participant's request. An answer that is more than the room takes becomes an error that says so.
    pub(super) fn answer(
        &mut self,
        to: &ParticipantId,
        envelope: &EnvelopeId,
        id: &RpcId,
        message: Box<RawValue>,
        voice: Voice,
        now: Instant,
    ) {
        let to = std::slice::from_ref(to);
        let written = self.compose(to, Some(envelope), |_| message, now).or_else(|refusal| {
            let error = rpc::failure(&id.to_raw(), &refusal_error(&refusal));
            self.compose(to, Some(envelope), |_| error, now)
        });
        if let Ok(draft) = written {
            self.keep(draft, voice);
        }
    }

    /// The door's own answer, in the client's name.
    pub(super) fn reply(
        &mut self,
        to: &ParticipantId,
        envelope: &EnvelopeId,
        id: &RpcId,
        outcome: &Result<Box<RawValue>, RpcError>,
        now: Instant,
    ) {
        let payload = rpc::outcome(&id.to_raw(), outcome);
        self.answer(to, envelope, id, payload, Voice::Door, now);
    }

    /// Sends a notification, unless it is more than the room takes.
    pub(super) fn notify(
        &mut self,
        to: &[ParticipantId],
        about: Option<&EnvelopeId>,
        method: &str,
        params: Option<&RawValue>,
        now: Instant,
    ) {
        if let Ok(draft) = self.compose(to, about, |_| rpc::notification(method, params), now) {
            self.keep(draft, Voice::Note);
        }
    }

    /// Asks the gateway something.
    pub(super) fn query(&mut self, query: RoomQuery) {
        self.actions.push_back(DialectAction::Ask(query));
    }

    /// Asks for a seat.
    pub(super) fn join(&mut self, introduction: Introduction) {
        self.actions.push_back(DialectAction::Join(Box::new(introduction)));
    }

    /// Has a refusal counted whose answer is a message like any other.
    pub(super) fn count(&mut self, code: Code) {
        self.actions.push_back(DialectAction::Refused(code));
    }

    pub(super) fn poll_action(&mut self) -> Option<DialectAction> {
        self.actions.pop_front()
    }

    /// Whether more of the room may be read that wants an answer.
    pub(super) fn has_room(&self) -> bool {
        self.kept(|voice| voice != Voice::Note) < MAX_ANSWERS
    }

    /// Whether there is a draft that the room has refused.
    pub(super) fn is_late(&self) -> bool {
        !self.refused.is_empty() || self.sent.iter().any(|(ticket, kept)| *ticket != kept.first)
    }

    /// Whether a participant does not know yet that its handshake is over. Before that it may not be asked anything.
    pub(super) fn is_unwelcomed(&self, who: &ParticipantId) -> bool {
        self.refused.values().any(|kept| kept.welcomes() == Some(who))
    }

    /// Whether a ticket is that of a draft that is kept.
    pub(super) fn keeps(&self, ticket: Ticket) -> bool {
        self.sent.contains_key(&ticket.0)
    }

    /// The room stored a draft. Like [`Self::retry`].
    pub(super) fn accepted(&mut self, ticket: Ticket) -> Option<ParticipantId> {
        self.sent.remove(&ticket.0);
        self.trial.take_if(|trial| *trial == ticket.0).and_then(|_| self.retry())
    }

    /// The room refused a draft. Like [`Self::retry`]. A draft that the room will not take later either is dropped; an answer becomes an error that
    /// says why, so that nobody waits for it.
    pub(super) fn refused(&mut self, ticket: Ticket, refusal: &Refusal, now: Instant) -> Option<ParticipantId> {
        let was_trial = self.trial.take_if(|trial| *trial == ticket.0).is_some();
        let kept = self.sent.remove(&ticket.0)?;
        if is_passing(refusal) {
            self.refused.insert(kept.first, kept);
            if self.trial.is_none() && !self.timers.has(DoorTimer::Late) {
                self.timers.set(DoorTimer::Late, now + RETRY_DELAY);
            }
            return None;
        }
        if does_not_fit(refusal) && kept.voice != Voice::Failure {
            self.fail_answer(&kept, refusal, now);
        }
        if was_trial { self.retry() } else { None }
    }

    /// Sends an error in place of an answer that the room has no place for.
    fn fail_answer(&mut self, kept: &KeptDraft, refusal: &Refusal, now: Instant) {
        let envelope = kept.draft.envelope();
        let (Some(Message::Response { id, .. }), Some(request)) = (envelope.message(), envelope.correlation()) else {
            return;
        };
        let refusal = Refusal::new(refusal.code, format!("the answer does not fit into the room: {}", refusal.message));
        let error = rpc::failure(&id.to_raw(), &refusal_error(&refusal));
        // This one fits: short answers are exempt from quotas.
        if let Ok(draft) = self.compose(envelope.to(), Some(request), |_| error, now) {
            self.keep(draft, Voice::Failure);
        }
    }

    /// Sends the oldest refused draft again. Returns the participant that learns by it that its handshake is over.
    pub(super) fn retry(&mut self) -> Option<ParticipantId> {
        if self.is_out || self.trial.is_some() {
            return None;
        }
        self.timers.forget(DoorTimer::Late);
        let (_, kept) = self.refused.pop_first()?;
        let welcomed = kept.welcomes().cloned();
        let ticket = self.ticket();
        self.trial = Some(ticket.0);
        self.send(ticket, kept);
        welcomed
    }

    /// The room stores nothing from now on.
    pub(super) fn outage(&mut self) {
        self.is_out = true;
    }

    /// The room stores drafts again, so all refused ones are sent. Returns the participants that learn by it that their handshakes are over.
    pub(super) fn recovered(&mut self) -> Vec<ParticipantId> {
        self.is_out = false;
        self.timers.forget(DoorTimer::Late);
        self.trial = None;
        let refused = std::mem::take(&mut self.refused);
        let welcomed = refused.values().filter_map(|kept| kept.welcomes().cloned()).collect();
        for kept in refused.into_values() {
            let ticket = self.ticket();
            self.send(ticket, kept);
        }
        welcomed
    }

    fn kept(&self, is_counted: impl Fn(Voice) -> bool) -> usize {
        self.sent.values().chain(self.refused.values()).filter(|kept| is_counted(kept.voice)).count()
    }

    fn ticket(&mut self) -> Ticket {
        self.last_ticket += 1;
        Ticket(self.last_ticket)
    }

    fn keep(&mut self, draft: Draft, voice: Voice) {
        let ticket = self.ticket();
        self.send(ticket, KeptDraft { first: ticket.0, draft, voice });
    }

    fn send(&mut self, ticket: Ticket, kept: KeptDraft) {
        let draft = Box::new(kept.draft.clone());
        self.actions.push_back(match kept.voice {
            Voice::Door | Voice::Failure => DialectAction::Reply(ticket, draft),
            Voice::Client | Voice::Note => DialectAction::Publish(ticket, draft),
        });
        if kept.voice != Voice::Note || self.kept(|voice| voice == Voice::Note) < MAX_NOTES {
            self.sent.insert(ticket.0, kept);
        }
    }
}

/// Whether the room may take later what it did not take for this reason.
pub(super) fn is_passing(refusal: &Refusal) -> bool {
    matches!(refusal.code, Code::RateLimited | Code::Closing)
}

/// Whether the room has no place for an answer, and would have one for a shorter one.
fn does_not_fit(refusal: &Refusal) -> bool {
    matches!(refusal.code, Code::TooLarge | Code::TooDeep | Code::StorageFull)
}
