//! MCPx v0: the room's own grammar. An entry goes out as it stands in the log; nothing is ever re-encoded.

mod ghosts;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use salon_control::{ApprovalRequest, GhostGrant};
use salon_protocol::system::{self, Welcome};
use salon_protocol::{
    CloseReason, Code, Compose, Draft, EnvelopeId, Kind, Limits, Participant, ParticipantId, Presence, PresenceEvent,
    Refusal,
};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{Dialect, Frame, Joined, Stamps, StreamId, Ticket};

pub use ghosts::{GhostAnswer, GhostOutcome, GhostQuery, GhostRequest};

type DialectEvent = crate::DialectEvent<(), GhostAnswer>;
type DialectAction = crate::DialectAction<GhostQuery>;

/// What a connection asked for.
#[derive(Debug, Clone, Copy)]
pub struct McpxOptions {
    /// Bounds on what the peer sends.
    pub limits: Limits,
    /// Whether the peer wants its own envelopes back. A repeated one is the room's business otherwise, and is echoed here.
    pub echo: bool,
    /// How often the peer gets a heartbeat.
    pub heartbeat: Option<Duration>,
}

/// One MCPx connection.
#[derive(Debug)]
pub struct Mcpx {
    options: McpxOptions,
    stamps: Stamps,
    participant: Option<Arc<Participant>>,
    /// Whom the peer may act for, if it is a bridge.
    ghosts: Option<GhostGrant>,
    tickets: u64,
    next_heartbeat: Option<Instant>,
    actions: VecDeque<DialectAction>,
}

impl Mcpx {
    /// A connection that has its seat but has not been welcomed.
    pub fn new(options: McpxOptions, stamps: Stamps) -> Self {
        Self {
            options,
            stamps,
            participant: None,
            ghosts: None,
            tickets: 0,
            next_heartbeat: None,
            actions: VecDeque::new(),
        }
    }

    /// For a peer that is a bridge, where it is one.
    #[must_use]
    pub fn acting_for(mut self, ghosts: Option<GhostGrant>) -> Self {
        self.ghosts = ghosts;
        self
    }

    fn send(&mut self, frame: Frame) {
        self.actions.push_back(DialectAction::Send(StreamId::ONLY, frame));
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

    fn error(&mut self, refusal: &Refusal, now: Instant) -> Frame {
        self.compose(Kind::System, refusal.regarding.as_ref(), system::Error::from(refusal), now)
    }

    fn refuse(&mut self, refusal: &Refusal, now: Instant) {
        let frame = self.error(refusal, now);
        self.actions.push_back(DialectAction::Refuse(StreamId::ONLY, refusal.code, frame));
    }

    /// Tells of something that went wrong and that the peer did not cause.
    fn tell(&mut self, refusal: &Refusal, now: Instant) {
        let frame = self.error(refusal, now);
        self.send(frame);
    }

    /// Tells the caller that its request waits for approval.
    fn tell_held(&mut self, held: &ApprovalRequest, now: Instant) {
        let payload = system::HeldRequest::new(&held.callee, held.needs, held.expires);
        let frame = self.compose(Kind::System, Some(&held.id), payload, now);
        self.send(frame);
    }

    fn welcome(&mut self, joined: Joined, now: Instant) {
        self.participant = Some(joined.participant.clone());
        self.next_heartbeat = self.options.heartbeat.map(|every| now + every);
        let raw = |text| serde_json::from_str::<&RawValue>(text).expect("a stored envelope is JSON");
        let recent = joined.history.recent.iter().flatten().map(|entry| raw(entry.envelope.text())).collect();
        let history = system::WelcomeHistory { enabled: joined.history.enabled, limit: joined.history.limit, recent };
        let gateway = ParticipantId::host();
        // MCPx v0 §5.3: the newcomer is `participant`, and `participants` are the others.
        let others = joined.roster.iter().filter(|present| present.id != joined.participant.id);
        let participants: Vec<&Participant> = others.map(|present| &**present).collect();
        let (message, longest) = (self.options.limits.message, self.options.limits.longest());
        let limits = system::WelcomeLimits {
            message: (message > 0).then_some(message),
            answer: (longest > message).then_some(longest),
        };
        let (newcomer, topic) = (&joined.participant, &joined.topic);
        let welcome = Welcome::new(newcomer, topic, &participants, history, &gateway, limits, joined.durability)
            .with_heartbeat(self.options.heartbeat)
            .with_ghosts(self.ghosts.as_ref().map(ghosts::describe));
        let frame = self.compose(Kind::System, None, welcome, now);
        self.send(frame);
    }
}

impl Dialect for Mcpx {
    type Opening = ();
    type Query = GhostQuery;
    type Answer = GhostAnswer;

    fn handle_frame(&mut self, _: StreamId, frame: Frame, now: Instant) {
        let Frame::Text(text) = frame else {
            return self
                .refuse(&Refusal::new(Code::InvalidEnvelope, "an envelope is a text frame, not a binary one"), now);
        };
        match Draft::parse(text, &self.options.limits) {
            Ok(draft) => match GhostQuery::read(&draft) {
                None => {
                    self.tickets += 1;
                    self.actions.push_back(DialectAction::Publish(Ticket(self.tickets), Box::new(draft)));
                }
                Some(query) => match query.and_then(|query| self.check_bridge(&draft, query)) {
                    Ok(query) => self.actions.push_back(DialectAction::Ask(query)),
                    Err(refusal) => self.refuse(&refusal.regarding(Some(draft.envelope().id().clone())), now),
                },
            },
            Err(refusal) => self.refuse(&refusal, now),
        }
    }

    fn handle_event(&mut self, event: DialectEvent, now: Instant) {
        match event {
            DialectEvent::Joined(joined) => self.welcome(joined, now),
            DialectEvent::Entry(entry) => self.send(Frame::Entry(entry)),
            DialectEvent::Held { held, .. } => self.tell_held(&held, now),
            // The echo is the acknowledgement; the room does not deliver a stored envelope twice, so the echo of a repeated one is sent here.
            DialectEvent::Accepted { entry, repeated, .. } if repeated && self.options.echo => {
                self.send(Frame::Entry(entry))
            }
            DialectEvent::Accepted { .. } => {}
            DialectEvent::Absent { id, participants } => {
                let payload = system::AbsentRecipients::new(&participants);
                let frame = self.compose(Kind::System, Some(&id), payload, now);
                self.send(frame);
            }
            DialectEvent::Refused { refusal, .. } => self.refuse(&refusal, now),
            DialectEvent::CallFailed { request, callee, cause, reason, .. } => {
                self.tell(&cause.refusal(&callee, reason.as_deref()).regarding(Some(request)), now);
            }
            DialectEvent::Gap => {
                let message = "envelopes before the next one are no longer kept, and you have not seen them";
                self.tell(&Refusal::new(Code::NotFound, message), now);
            }
            DialectEvent::Outage => {
                let frame = self.compose(Kind::System, None, system::Error::outage(), now);
                self.send(frame);
            }
            DialectEvent::Recovered => {
                let frame = self.compose(Kind::System, None, system::Ready::default(), now);
                self.send(frame);
            }
            DialectEvent::Closing(reason) => {
                if reason == CloseReason::Shutdown {
                    self.tell(&Refusal::new(Code::Closing, reason.to_string()), now);
                }
                self.actions.push_back(DialectAction::Close(reason));
            }
            DialectEvent::Answered(answer) => self.tell_ghost(answer, now),
            // It has its seat before it begins, and one stream for life.
            DialectEvent::NotJoined(_) | DialectEvent::StreamOpened(..) | DialectEvent::StreamClosed(_) => {}
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.next_heartbeat.is_none_or(|at| now < at) {
            return;
        }
        self.next_heartbeat = self.options.heartbeat.map(|every| now + every);
        if let Some(participant) = self.participant.clone() {
            let payload = Presence {
                event: PresenceEvent::Heartbeat,
                participant: Participant::clone(&participant),
                reason: None,
            };
            let frame = self.compose(Kind::Presence, None, payload, now);
            self.send(frame);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next_heartbeat
    }

    fn poll_action(&mut self) -> Option<DialectAction> {
        self.actions.pop_front()
    }

    fn forwards_entries(&self) -> bool {
        true
    }

    /// The echo is the acknowledgement.
    fn awaits_acceptance(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::History;
    use insta::assert_snapshot;
    use salon_protocol::{Entry, Envelope, FailureCause, Position, RpcId, Timestamp, TopicName};

    /// A connection of alice's, with what it says collected as text.
    struct Wire {
        dialect: Mcpx,
        now: Instant,
    }

    impl Wire {
        fn open(echo: bool) -> Self {
            let now = Instant::now();
            let options = McpxOptions { limits: Limits::default(), echo, heartbeat: Some(Duration::from_secs(30)) };
            let mut wire = Self { dialect: Mcpx::new(options, Stamps::new("s", now, Timestamp(0))), now };
            let alice = Participant::new(ParticipantId::new("alice").expect("an id"));
            let alice = Arc::new(Participant { name: Some("Alice".into()), ..alice });
            wire.dialect.handle_event(
                DialectEvent::Joined(Joined {
                    topic: TopicName::new("room:a").expect("a name"),
                    participant: alice.clone(),
                    roster: vec![alice],
                    open_calls: Vec::new(),
                    history: History { enabled: true, limit: 1000, recent: Some(vec![chat()]) },
                    durability: Some("os"),
                }),
                now,
            );
            wire
        }

        fn said(&mut self) -> String {
            std::iter::from_fn(|| self.dialect.poll_action())
                .map(|action| match action {
                    DialectAction::Send(_, Frame::Text(text)) | DialectAction::Refuse(_, _, Frame::Text(text)) => {
                        format!("{text}\n")
                    }
                    DialectAction::Send(_, Frame::Entry(entry)) => format!("entry {}\n", entry.envelope.id()),
                    other => format!("{other:?}\n"),
                })
                .collect()
        }

        fn on(&mut self, event: DialectEvent) -> String {
            self.dialect.handle_event(event, self.now);
            self.said()
        }
    }

    fn chat() -> Arc<Entry> {
        let text = r#"{"protocol":"mcp-x/v0","id":"c1","ts":"2025-08-17T14:00:00Z","from":"bob","kind":"mcp","payload":{"jsonrpc":"2.0","method":"notifications/chat/message","params":{"text":"hi","n":1.0}}}"#;
        let envelope = Envelope::restore(text).expect("an envelope");
        Arc::new(Entry { position: Position::start(1), arrived: Timestamp(0), stamp: None, envelope })
    }

    #[test]
    fn the_welcome_is_first_and_keeps_the_recent_as_they_were() {
        let mut wire = Wire::open(true);
        assert_snapshot!(wire.said(), @r#"{"protocol":"mcp-x/v0","id":"s-1","ts":"1970-01-01T00:00:00.000Z","from":"system:gateway","to":["alice"],"kind":"system","payload":{"event":"welcome","type":"welcome","participant":{"id":"alice","name":"Alice","mcp":{"version":"2025-06-18"}},"participant_id":"alice","topic":"room:a","participants":[],"history":{"enabled":true,"limit":1000,"recent":[{"protocol":"mcp-x/v0","id":"c1","ts":"2025-08-17T14:00:00Z","from":"bob","kind":"mcp","payload":{"jsonrpc":"2.0","method":"notifications/chat/message","params":{"text":"hi","n":1.0}}}]},"protocol":"mcp-x/v0","gateway":{"id":"system:gateway"},"limits":{"message":1048576,"answer":4194304},"durability":"os","heartbeat_ms":30000}}"#);
    }

    #[test]
    fn a_refusal_names_what_it_refuses() {
        let mut wire = Wire::open(true);
        wire.said();
        wire.dialect.handle_frame(StreamId::ONLY, Frame::Text(r#"{"id":"x"}"#.into()), wire.now);
        assert_snapshot!(wire.said(), @r#"{"protocol":"mcp-x/v0","id":"s-2","ts":"1970-01-01T00:00:00.000Z","from":"system:gateway","to":["alice"],"kind":"system","correlation_id":"x","payload":{"event":"error","type":"error","code":"invalid_envelope","message":"`protocol` is missing"}}"#);
        let failed = |cause| DialectEvent::CallFailed {
            request: EnvelopeId::new("r1").expect("an id"),
            id: RpcId::Number("1".into()),
            callee: ParticipantId::new("bob").expect("an id"),
            cause,
            reason: (cause == FailureCause::Denied).then(|| "too fast".into()),
        };
        assert_snapshot!(wire.on(failed(FailureCause::CalleeLeft)), @r#"{"protocol":"mcp-x/v0","id":"s-3","ts":"1970-01-01T00:00:00.000Z","from":"system:gateway","to":["alice"],"kind":"system","correlation_id":"r1","payload":{"event":"error","type":"error","code":"recipient_not_found","message":"`bob` left before it answered"}}"#);
        assert_snapshot!(wire.on(failed(FailureCause::TooManyWaiting)), @r#"{"protocol":"mcp-x/v0","id":"s-4","ts":"1970-01-01T00:00:00.000Z","from":"system:gateway","to":["alice"],"kind":"system","correlation_id":"r1","payload":{"event":"error","type":"error","code":"call_ended","message":"too many calls waited for an answer, so this one to `bob` was cancelled"}}"#);
        assert_snapshot!(wire.on(failed(FailureCause::Denied)), @r#"{"protocol":"mcp-x/v0","id":"s-5","ts":"1970-01-01T00:00:00.000Z","from":"system:gateway","to":["alice"],"kind":"system","correlation_id":"r1","payload":{"event":"error","type":"error","code":"approval_denied","message":"the call to `bob` was not approved: too fast"}}"#);
    }

    #[test]
    fn a_gap_is_told_and_regards_nothing() {
        let mut wire = Wire::open(true);
        wire.said();
        assert_snapshot!(wire.on(DialectEvent::Gap), @r#"{"protocol":"mcp-x/v0","id":"s-2","ts":"1970-01-01T00:00:00.000Z","from":"system:gateway","to":["alice"],"kind":"system","payload":{"event":"error","type":"error","code":"not_found","message":"envelopes before the next one are no longer kept, and you have not seen them"}}"#);
    }

    #[test]
    fn an_outage_is_told_and_so_is_its_end() {
        let mut wire = Wire::open(true);
        wire.said();
        assert_snapshot!(wire.on(DialectEvent::Outage), @r#"{"protocol":"mcp-x/v0","id":"s-2","ts":"1970-01-01T00:00:00.000Z","from":"system:gateway","to":["alice"],"kind":"system","payload":{"event":"error","type":"error","code":"closing","message":"nothing can be stored at the moment, and nothing new can be heard; it goes on by itself, and this connection stays","details":{"passing":true}}}"#);
        assert_snapshot!(wire.on(DialectEvent::Recovered), @r#"{"protocol":"mcp-x/v0","id":"s-3","ts":"1970-01-01T00:00:00.000Z","from":"system:gateway","to":["alice"],"kind":"system","payload":{"event":"ready","type":"ready","message":"messages are stored and heard again"}}"#);
        wire.dialect.handle_event(DialectEvent::Outage, wire.now);
        wire.said();
        wire.dialect.handle_timeout(wire.now + Duration::from_secs(30));
        assert!(wire.said().contains(r#""event":"heartbeat""#), "heartbeats go on meanwhile");
    }

    #[test]
    fn only_a_repeated_envelope_is_echoed_here() {
        let accepted = |repeated| DialectEvent::Accepted { ticket: Ticket(1), entry: chat(), repeated };
        let mut wire = Wire::open(true);
        wire.said();
        assert_eq!(wire.on(accepted(false)), "");
        assert_eq!(wire.on(accepted(true)), "entry c1\n");
        let mut quiet = Wire::open(false);
        quiet.said();
        assert_eq!(quiet.on(accepted(true)), "");
    }

    #[test]
    fn a_heartbeat_comes_when_it_is_due() {
        let mut wire = Wire::open(true);
        wire.said();
        wire.dialect.handle_timeout(wire.now + Duration::from_secs(29));
        assert_eq!(wire.said(), "");
        wire.dialect.handle_timeout(wire.now + Duration::from_secs(30));
        assert!(wire.said().contains(r#""ts":"1970-01-01T00:00:30.000Z""#));
        assert_eq!(wire.dialect.poll_timeout(), Some(wire.now + Duration::from_secs(60)));
    }

    #[test]
    fn a_shutdown_is_said_before_the_close() {
        let mut wire = Wire::open(true);
        wire.said();
        let said = wire.on(DialectEvent::Closing(CloseReason::Shutdown));
        assert!(said.contains(r#""code":"closing""#) && said.ends_with("Close(Shutdown)\n"), "{said}");
        assert_eq!(wire.on(DialectEvent::Closing(CloseReason::Replaced)), "Close(Replaced)\n");
    }
}
