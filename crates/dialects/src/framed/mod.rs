//! The Multi-Component Protocol, MCP/1.0: frames of a header and a body, and four requests.
//!
//! One value per session, which outlives the connections it is used over: each of them is a stream. A peer CONNECTs, SENDs what it
//! has to say, RECEIVEs what the room has for it, and DISCONNECTs. What it sends as JSON-RPC is in the room as it is, so such a peer can be called
//! and call like everybody.
//!
//! Invariants: every request is answered once, on its own stream; entries are taken from the room only while a RECEIVE waits for them.
//! Deliberately absent: sockets, tokens (the owner of the connection has checked them), and which session a frame belongs to ([`route`]).

mod body;
mod frame;
mod header;
mod receiving;
mod route;
mod sending;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use salon_protocol::system::OUTAGE;
use salon_protocol::{
    CloseReason, Code, Compose, Draft, Entry, EnvelopeId, Kind, Limits, McpVersion, ParticipantId, PresenceEvent,
    Refusal, RpcError, RpcId, rpc,
};
use serde::Serialize;
use serde_json::json;
use serde_json::value::to_raw_value;

use crate::{Dialect, Frame, Introduction, Joined, Stamps, StreamId, Ticket};
use body::{FrameDestination, SendBody};
use header::{FramedHeader, Method, Regarding, VERSION};
use receiving::{Delivery, Messages, ReceivableItem, Receiving, UndeliveredNotice};
use sending::{Fingerprint, RequestStatus, Sending};

pub use body::Connect;
pub use frame::{Broken, Decoder, MAX_HEADER, encode, split};
pub use route::{FrameRoute, refuse, refuse_header, route};

type DialectEvent = crate::DialectEvent<(), Infallible>;
type DialectAction = crate::DialectAction<Infallible>;

/// How long a RECEIVE that does not want to wait does, for what lies in the log to be read.
const SHORTEST_WAIT: Duration = Duration::from_millis(20);

/// What does not change while a session lasts. No `Debug`: there is a credential in it.
#[derive(Clone)]
pub struct FramedOptions {
    /// Who the peer is in the room.
    pub me: ParticipantId,
    /// Bounds on what it sends.
    pub limits: Limits,
    /// The session's id, which is sent once and is the peer's credential.
    pub session: Box<str>,
    /// How long the session outlives its last connection.
    pub linger: Duration,
    /// The gateway's version.
    pub version: &'static str,
}

/// A request that waits for its answer.
#[derive(Debug, Clone)]
struct PendingRequest {
    stream: StreamId,
    regarding: Regarding,
}

enum SeatState {
    Outside,
    Entering(PendingRequest),
    Inside,
    /// It leaves once everything it has sent is settled.
    Leaving(PendingRequest, Option<String>),
    Gone,
}

/// One session.
pub struct Framed {
    options: FramedOptions,
    stamps: Stamps,
    seat_state: SeatState,
    streams: BTreeSet<StreamId>,
    /// When a session without connections ends.
    ends: Option<Instant>,
    receiving: Receiving,
    sending: Sending,
    tickets: u64,
    /// Whether what came last counts against the rate.
    counted: bool,
    /// What the answers given since the last look at the clock are stamped with.
    now: Instant,
    actions: VecDeque<DialectAction>,
}

impl Framed {
    /// A session whose CONNECT is about to come.
    pub fn new(options: FramedOptions, stamps: Stamps, now: Instant) -> Self {
        Self {
            ends: Some(now + options.linger),
            options,
            stamps,
            seat_state: SeatState::Outside,
            streams: BTreeSet::new(),
            receiving: Receiving::default(),
            sending: Sending::default(),
            tickets: 0,
            counted: true,
            now,
            actions: VecDeque::new(),
        }
    }

    fn answer(&mut self, to: &PendingRequest, body: &impl Serialize) {
        let frame = header::answer(&to.regarding, 200, body, self.stamps.time(self.now));
        self.actions.push_back(DialectAction::Send(to.stream, Frame::Binary(frame)));
    }

    fn refuse(&mut self, to: &PendingRequest, word: &'static str, refusal: &Refusal) {
        let frame = header::refuse(&to.regarding, word, refusal, self.stamps.time(self.now));
        self.actions.push_back(DialectAction::Refuse(to.stream, refusal.code, Frame::Binary(frame)));
    }

    fn error(&mut self, to: &PendingRequest, refusal: &Refusal) {
        self.refuse(to, "error", refusal);
    }

    fn hear(&mut self, stream: StreamId, frame: &[u8]) {
        let Some((head, body)) = split(frame) else {
            let refusal = Refusal::new(Code::InvalidEnvelope, "the lengths are not those of one frame");
            return self.error(&PendingRequest { stream, regarding: Regarding::default() }, &refusal);
        };
        let (regarding, header) = FramedHeader::read(head);
        let reply_to = PendingRequest { stream, regarding };
        let done = header.and_then(|header| match (header.method, &self.seat_state) {
            (_, SeatState::Leaving(..) | SeatState::Gone) => Err(over()),
            (Method::Connect, SeatState::Outside) => self.connect(&reply_to, body),
            (Method::Connect, _) => Err(Refusal::new(Code::InvalidParameters, "this session is connected already")),
            (_, SeatState::Outside | SeatState::Entering(_)) => Err(over()),
            (Method::Send, SeatState::Inside) => {
                self.send(&reply_to, &header, body);
                Ok(())
            }
            (Method::Receive, SeatState::Inside) => self.receive(&reply_to, body),
            (Method::Disconnect, SeatState::Inside) => self.disconnect(&reply_to, body),
        });
        if let Err(refusal) = done {
            self.error(&reply_to, &refusal);
        }
    }

    fn connect(&mut self, reply_to: &PendingRequest, body: &[u8]) -> Result<(), Refusal> {
        let connect = body::connect(body)?;
        self.seat_state = SeatState::Entering(reply_to.clone());
        let introduction = Introduction { name: None, mcp: McpVersion::default(), capabilities: connect.capabilities };
        self.actions.push_back(DialectAction::Join(Box::new(introduction)));
        Ok(())
    }

    fn joined(&mut self, joined: &Joined) {
        let SeatState::Entering(reply_to) = std::mem::replace(&mut self.seat_state, SeatState::Inside) else { return };
        let limit = self.options.limits.message;
        let body = json!({
            "sessionId": self.options.session,
            "serverInfo": {
                "version": self.options.version,
                "protocolVersion": VERSION,
                "supportedMethods": Method::ALL.map(Method::word),
            },
            "topic": joined.topic,
            "participant": joined.participant.id,
            "participants": joined.roster,
            "limits": {"message": limit},
        });
        self.answer(&reply_to, &body);
    }

    fn not_joined(&mut self, refusal: &Refusal) {
        if let SeatState::Entering(reply_to) = std::mem::replace(&mut self.seat_state, SeatState::Gone) {
            // The session has counted the refused join.
            let frame = header::refuse(&reply_to.regarding, "error", refusal, self.stamps.time(self.now));
            self.actions.push_back(DialectAction::Send(reply_to.stream, Frame::Binary(frame)));
        }
        self.actions.push_back(DialectAction::Close(CloseReason::Bye));
    }

    fn send(&mut self, reply_to: &PendingRequest, header: &FramedHeader, body: &[u8]) {
        let content_type = header.content_type.as_deref();
        let destination = header.destination.as_deref();
        let fingerprint = Fingerprint::of(content_type, destination, body);
        match self.sending.status(&header.id, fingerprint) {
            RequestStatus::New => {}
            RequestStatus::UnderWay(ticket) => return self.sending.join(ticket, reply_to.clone()),
            RequestStatus::Accepted(envelope) => return self.accepted(reply_to, &envelope),
            RequestStatus::Taken => {
                let refusal =
                    Refusal::new(Code::IdConflict, "this session has sent something else under the same `id`");
                return self.refuse(reply_to, "rejected", &refusal);
            }
        }
        let send_body = match content_type {
            None => body::send(body, destination, &self.options.limits),
            Some(content_type) => body::send_bytes(body, content_type, destination),
        };
        match send_body {
            Ok(send_body) => {
                if let Err(refusal) = self.publish(reply_to, header, fingerprint, send_body) {
                    self.refuse(reply_to, "rejected", &refusal);
                }
            }
            Err(refusal) => self.error(reply_to, &refusal),
        }
    }

    fn publish(
        &mut self,
        reply_to: &PendingRequest,
        header: &FramedHeader,
        fingerprint: Fingerprint,
        send_body: SendBody,
    ) -> Result<(), Refusal> {
        let mut to = match &send_body.destination {
            FrameDestination::One(to) => Some(to.clone()),
            FrameDestination::Open | FrameDestination::Everybody => None,
        };
        let mut correlation = send_body.correlation.clone();
        let mut answers = None;
        if let Some(id) = &send_body.answers {
            let (request, from) = self.sending.answered(&send_body, id)?;
            // An answer that does not say whom it is for is for the caller.
            if send_body.destination == FrameDestination::Open {
                to = from;
            }
            correlation = Some(request.clone());
            answers = Some(request);
        }
        let text = Compose {
            id: &self.stamps.named(&header.id),
            ts: header.timestamp.unwrap_or_else(|| self.stamps.time(self.now)),
            from: &self.options.me,
            to: to.as_slice(),
            kind: Kind::Mcp,
            correlation_id: correlation.as_ref().map(EnvelopeId::as_str),
            payload: send_body.payload,
        }
        .text();
        let draft = Draft::parse(text, &self.options.limits)?;
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.sending.begin(ticket, header.id.clone(), fingerprint, reply_to.clone(), answers);
        self.actions.push_back(DialectAction::Publish(ticket, Box::new(draft)));
        Ok(())
    }

    fn accepted(&mut self, to: &PendingRequest, envelope: &EnvelopeId) {
        self.answer(to, &json!({"status": "accepted", "messageId": envelope}));
    }

    fn receive(&mut self, reply_to: &PendingRequest, body: &[u8]) -> Result<(), Refusal> {
        let wait = body::receive(body, &self.options.limits)?;
        // A closed stream would take what another could have.
        if !self.streams.contains(&reply_to.stream) {
            return Ok(());
        }
        if !self.receiving.ask(reply_to.clone(), self.now + wait.max(SHORTEST_WAIT)) {
            let message = format!("{} RECEIVEs of this session wait already", receiving::MAX_WAITING);
            return Err(Refusal::new(Code::RateLimited, message));
        }
        self.counted = wait < SHORTEST_WAIT;
        Ok(())
    }

    fn disconnect(&mut self, reply_to: &PendingRequest, body: &[u8]) -> Result<(), Refusal> {
        let reason = body::disconnect(body, &self.options.limits)?;
        self.seat_state = SeatState::Leaving(reply_to.clone(), reason);
        for waiting in self.receiving.give_up() {
            self.error(&waiting, &over());
        }
        self.leave();
        Ok(())
    }

    /// Leaves, if everything that was sent is settled.
    fn leave(&mut self) {
        if !matches!(self.seat_state, SeatState::Leaving(..)) || !self.sending.is_idle() {
            return;
        }
        let SeatState::Leaving(reply_to, reason) = std::mem::replace(&mut self.seat_state, SeatState::Gone) else {
            return;
        };
        let at = self.stamps.time(self.now).0;
        self.answer(&reply_to, &json!({"status": "disconnected", "timestamp": at}));
        self.actions.extend(reason.map(DialectAction::Farewell));
        self.actions.push_back(DialectAction::Close(CloseReason::Bye));
    }

    fn deliver(&mut self) {
        while let Some(Delivery { to, items }) = self.receiving.deliver() {
            let (me, host) = (self.options.me.clone(), ParticipantId::host());
            self.answer(&to, &Messages::new(&items, &me, &host));
        }
    }

    fn overhear(&mut self, entry: Arc<Entry>) {
        let envelope = &entry.envelope;
        let own = |event| !matches!(event, PresenceEvent::Heartbeat);
        let presence = envelope.presence();
        if presence.is_some_and(|presence| presence.participant.id == self.options.me && own(presence.event)) {
            return;
        }
        self.sending.hear(&entry, &self.options.me);
        self.receiving.push(ReceivableItem::Entry(entry));
    }

    /// Queues a notice for the peer alone.
    fn tell(&mut self, kind: Kind, correlation: Option<&EnvelopeId>, payload: Box<serde_json::value::RawValue>) {
        let (id, at) = self.stamps.next(self.now);
        let correlation = correlation.map(|id| id.as_str().to_owned());
        self.receiving.push(ReceivableItem::Notice(Box::new(UndeliveredNotice {
            id,
            kind,
            correlation,
            payload,
            timestamp: at.0,
        })));
    }

    fn call_failed(&mut self, request: &EnvelopeId, id: &RpcId, refusal: &Refusal) {
        let error =
            RpcError::new(RpcError::SERVER_ERROR, &*refusal.message).with_data(&json!({ "code": refusal.code }));
        self.tell(Kind::Mcp, Some(request), rpc::failure(&id.to_raw(), &error));
    }

    fn gap(&mut self) {
        let message = "messages before the next one are no longer kept, and you have not received them";
        let refusal = Refusal::new(Code::NotFound, message);
        let payload =
            to_raw_value(&salon_protocol::system::Error::from(&refusal)).expect("an error has only string keys");
        self.tell(Kind::System, None, payload);
    }

    fn outage(&mut self) {
        let payload = to_raw_value(&salon_protocol::system::Error::outage()).expect("an error has only string keys");
        self.tell(Kind::System, None, payload);
    }

    fn recovered(&mut self) {
        // A peer that has not received meanwhile need not know of the outage.
        if !self.receiving.take_back(|notice| notice.kind == Kind::System && notice.payload.get().contains(OUTAGE)) {
            let payload = to_raw_value(&salon_protocol::system::Ready::default()).expect("it has only string keys");
            self.tell(Kind::System, None, payload);
        }
    }

    /// Answers everything that waits, and ends.
    fn close(&mut self, reason: CloseReason) {
        let code = match reason {
            CloseReason::Shutdown => Code::Closing,
            CloseReason::Internal => Code::Internal,
            CloseReason::TooSlow => Code::Timeout,
            CloseReason::Deleted => Code::NotFound,
            _ => Code::Unauthorized,
        };
        let refusal = Refusal::new(code, reason.to_string());
        let mut open = self.receiving.give_up();
        open.extend(self.sending.give_up());
        match std::mem::replace(&mut self.seat_state, SeatState::Gone) {
            SeatState::Entering(reply_to) | SeatState::Leaving(reply_to, _) => open.push(reply_to),
            SeatState::Outside | SeatState::Inside | SeatState::Gone => {}
        }
        for reply_to in open {
            self.error(&reply_to, &refusal);
        }
        self.actions.push_back(DialectAction::Close(reason));
    }
}

/// The refusal of requests of a session that has ended.
fn over() -> Refusal {
    Refusal::new(Code::Unauthorized, "there is no such session, or not any more; begin with CONNECT")
}

impl Dialect for Framed {
    type Opening = ();
    type Query = Infallible;
    type Answer = Infallible;

    fn handle_frame(&mut self, stream: StreamId, frame: Frame, now: Instant) {
        self.now = now;
        self.counted = true;
        match frame {
            Frame::Binary(frame) => self.hear(stream, &frame),
            // The carrier of this grammar passes on nothing else.
            Frame::Text(_) | Frame::Entry(_) | Frame::Event(_) => {}
        }
    }

    fn handle_event(&mut self, event: DialectEvent, now: Instant) {
        self.now = now;
        match event {
            DialectEvent::Joined(joined) => self.joined(&joined),
            DialectEvent::NotJoined(refusal) => self.not_joined(&refusal),
            DialectEvent::Accepted { ticket, entry, .. } => {
                for reply_to in self.sending.accepted(ticket, entry.envelope.id()) {
                    self.accepted(&reply_to, entry.envelope.id());
                }
                self.leave();
            }
            // The answer or an error follows, as for every request.
            DialectEvent::Held { ticket, held } => {
                for reply_to in self.sending.accepted(ticket, &held.id) {
                    self.accepted(&reply_to, &held.id);
                }
                self.leave();
            }
            DialectEvent::Absent { id, participants } => {
                let payload = to_raw_value(&salon_protocol::system::AbsentRecipients::new(&participants));
                self.tell(Kind::System, Some(&id), payload.expect("names are plain JSON"));
            }
            DialectEvent::Refused { ticket, refusal } => {
                for reply_to in self.sending.refused(ticket) {
                    self.refuse(&reply_to, "rejected", &refusal);
                }
                self.leave();
            }
            DialectEvent::Entry(entry) => self.overhear(entry),
            DialectEvent::CallFailed { request, id, callee, cause, reason } => {
                self.call_failed(&request, &id, &cause.refusal(&callee, reason.as_deref()));
            }
            DialectEvent::Gap => self.gap(),
            DialectEvent::Outage => self.outage(),
            DialectEvent::Recovered => self.recovered(),
            DialectEvent::StreamOpened(stream, _) => {
                self.streams.insert(stream);
                self.receiving.opened(stream);
                self.ends = None;
            }
            DialectEvent::StreamClosed(stream) => {
                self.streams.remove(&stream);
                self.receiving.closed(stream);
                if self.streams.is_empty() {
                    self.ends = Some(now + self.options.linger);
                }
            }
            DialectEvent::Closing(reason) => self.close(reason),
            DialectEvent::Answered(never) => match never {},
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        for reply_to in self.receiving.due(now) {
            self.answer(&reply_to, &Messages::new(&[], &ParticipantId::host(), &ParticipantId::host()));
        }
        if self.ends.is_some_and(|ends| ends <= now) {
            self.ends = None;
            self.seat_state = SeatState::Gone;
            // No connection is left to answer on.
            self.sending.give_up();
            self.actions.push_back(DialectAction::Close(CloseReason::Bye));
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        [self.receiving.deadline(), self.ends].into_iter().flatten().min()
    }

    fn poll_action(&mut self) -> Option<DialectAction> {
        if self.actions.is_empty() {
            // Only now, so that everything one look at the room brought goes out together.
            self.deliver();
        }
        self.actions.pop_front()
    }

    fn refresh(&mut self, current: &dyn Fn(&Arc<Entry>) -> Arc<Entry>) {
        self.receiving.refresh(current);
    }

    fn ready(&self) -> bool {
        matches!(self.seat_state, SeatState::Inside) && self.receiving.is_wanted()
    }

    fn is_counted(&self) -> bool {
        self.counted
    }
}
