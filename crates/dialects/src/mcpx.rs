//! MCPx v0: the room's own grammar. An entry goes out as it stands in the log; nothing is ever re-encoded.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use salon_protocol::system::{self, Welcome};
use salon_protocol::{
    CloseReason, Code, Compose, Draft, EnvelopeId, Kind, Limits, Participant, ParticipantId, Presence, PresenceEvent,
    Refusal,
};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{Action, Dialect, Event, Frame, Joined, Stamps, StreamId, Ticket};

/// What a connection asked for.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Bounds on what the peer sends.
    pub limits: Limits,
    /// Whether the peer wants its own envelopes back. A repeated one is the room's business otherwise, and is echoed here.
    pub echo: bool,
    /// How often the peer is told that its seat is still held.
    pub heartbeat: Option<Duration>,
}

/// One MCPx connection.
#[derive(Debug)]
pub struct Mcpx {
    options: Options,
    stamps: Stamps,
    participant: Option<Arc<Participant>>,
    tickets: u64,
    next_heartbeat: Option<Instant>,
    actions: VecDeque<Action>,
}

impl Mcpx {
    /// A connection that has its seat but has not been welcomed.
    pub fn new(options: Options, stamps: Stamps) -> Self {
        Self { options, stamps, participant: None, tickets: 0, next_heartbeat: None, actions: VecDeque::new() }
    }

    fn send(&mut self, frame: Frame) {
        self.actions.push_back(Action::Send(StreamId::ONLY, frame));
    }

    fn compose(
        &mut self,
        kind: Kind,
        correlation: Option<&EnvelopeId>,
        payload: impl Serialize,
        now: Instant,
    ) -> Frame {
        let (id, ts) = self.stamps.next(now);
        let to = self.participant.as_ref().map(|p| p.id.clone());
        let text = Compose {
            id: &id,
            ts,
            from: &ParticipantId::host(),
            to: to.as_slice(),
            kind,
            correlation_id: correlation.map(EnvelopeId::as_str),
            payload,
        }
        .text();
        Frame::Text(text.into())
    }

    fn refuse(&mut self, refusal: &Refusal, now: Instant) {
        let frame = self.compose(Kind::System, refusal.regarding.as_ref(), system::Error::from(refusal), now);
        self.actions.push_back(Action::Refuse(StreamId::ONLY, refusal.code, frame));
    }

    fn welcome(&mut self, joined: Joined, now: Instant) {
        self.participant = Some(joined.participant.clone());
        self.next_heartbeat = self.options.heartbeat.map(|every| now + every);
        let recent = joined.history.recent.as_ref().map(|entries| {
            let raw = |text| serde_json::from_str::<&RawValue>(text).expect("a stored envelope is JSON");
            entries.iter().map(|entry| raw(entry.envelope.text())).collect()
        });
        let history = system::History { enabled: joined.history.enabled, limit: joined.history.limit, recent };
        let gateway = ParticipantId::host();
        let participants: Vec<&Participant> = joined.roster.iter().map(|p| &**p).collect();
        let welcome =
            Welcome::new(&joined.participant.id, &joined.topic, &participants, history, &gateway, joined.durability);
        let frame = self.compose(Kind::System, None, welcome, now);
        self.send(frame);
    }
}

impl Dialect for Mcpx {
    fn handle_frame(&mut self, _: StreamId, frame: Frame, now: Instant) {
        let Frame::Text(text) = frame else {
            return self
                .refuse(&Refusal::new(Code::InvalidEnvelope, "an envelope is a text frame, not a binary one"), now);
        };
        match Draft::parse(text, &self.options.limits) {
            Ok(draft) => {
                self.tickets += 1;
                self.actions.push_back(Action::Publish(Ticket(self.tickets), Box::new(draft)));
            }
            Err(refusal) => self.refuse(&refusal, now),
        }
    }

    fn handle_event(&mut self, event: Event, now: Instant) {
        match event {
            Event::Joined(joined) => self.welcome(joined, now),
            Event::Entry(entry) => self.send(Frame::Entry(entry)),
            // The echo is the acknowledgement; the room does not say a stored envelope twice, so a repeated one is said here.
            Event::Accepted { entry, repeated, .. } if repeated && self.options.echo => self.send(Frame::Entry(entry)),
            Event::Accepted { .. } => {}
            Event::Refused { refusal, .. } => self.refuse(&refusal, now),
            Event::CallFailed { request, callee, .. } => {
                let message = format!("`{callee}` left before it answered this request");
                self.refuse(&Refusal::new(Code::RecipientNotFound, message).regarding(Some(request)), now);
            }
            Event::Gap => {
                let message = "envelopes before the next one are no longer kept, and you have not seen them";
                self.refuse(&Refusal::new(Code::NotFound, message), now);
            }
            Event::Closing(reason) => {
                if reason == CloseReason::Shutdown {
                    self.refuse(&Refusal::new(Code::Closing, reason.to_string()), now);
                }
                self.actions.push_back(Action::Close(reason));
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.next_heartbeat.is_none_or(|at| now < at) {
            return;
        }
        self.next_heartbeat = self.options.heartbeat.map(|every| now + every);
        if let Some(participant) = self.participant.clone() {
            let payload = Presence { event: PresenceEvent::Heartbeat, participant: Participant::clone(&participant) };
            let frame = self.compose(Kind::Presence, None, payload, now);
            self.send(frame);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next_heartbeat
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn forwards_entries(&self) -> bool {
        true
    }
}
