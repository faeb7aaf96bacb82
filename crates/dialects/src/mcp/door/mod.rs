//! The door for MCP clients: a room as one server, or one participant as itself, in every revision.
//!
//! One value per session: a WebSocket, a session over HTTP, or all requests that one participant makes without a session. The client
//! speaks MCP; in the room it is a participant whose requests are envelopes like everybody's. The door performs the MCP handshake with the others in the client's
//! name and with the client's capabilities ([`peers`]), gathers what they offer ([`lists`]) under names that every host accepts
//! ([`merge`]), passes calls on ([`calls`]), answers ([`answers`]) and questions ([`asks`]) back, and says in one era what was said in the other.
//!
//! State is in components that know nothing of each other, each with its invariants and its tests: [`client`], [`client_streams`],
//! [`outbox`], [`sessions`], [`peer_table`], [`list_table`], [`call_table`], [`questions`], [`subscriptions`]. The other files route between them.
//!
//! Invariants: a request is answered once, unless its client cancels it; to the room every request has an id of the door's own, which
//! is its envelope's id, its JSON-RPC id and its progress token, so that clients with equal ids never meet. Deliberately absent: sockets, tokens, sessions' ids.

mod answers;
mod askers;
mod asks;
mod call_table;
mod calls;
mod client;
mod client_streams;
mod counted;
mod door_call;
mod incoming;
mod legacy;
mod list_copy;
mod list_table;
mod listens;
mod lists;
mod merge;
mod modern;
mod modern_checks;
mod news;
mod opening;
mod outbox;
mod parting;
mod peer_table;
mod peers;
mod questions;
mod refused;
pub(super) mod route;
mod sessions;
mod subscriptions;
mod targets;
#[cfg(test)]
mod tests;
mod waits;
mod withdrawing;

use std::time::{Duration, Instant};

use salon_mcp::{Era, Revision, code};
use salon_protocol::system::{OUTAGE, READY};
use salon_protocol::{CloseReason, Limits, LogLevel, McpVersion, ParticipantId, Refusal, RpcError, TopicName};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::{Dialect, Frame, Introduction, Stamps, StreamId};
use call_table::DoorCalls;
use client::{ClientProfile, ClientSession, DoorRequest};
use client_streams::ClientStreams;
use list_table::DoorLists;
use outbox::Outbox;
use peer_table::DoorPeers;
use questions::ClientQuestions;
use salon_mcp::timers::Timers;
use sessions::DoorSessions;
use subscriptions::ClientSubscriptions;

pub use crate::{CatalogueAnswer, CatalogueQuery, RoomAnswer, RoomQuery};
pub(in crate::mcp) use counted::code_of as refusal_code;
pub(in crate::mcp) use opening::stream_options;
pub use opening::{DialectAction, DialectEvent, Listen, McpOpening, Post};
pub(in crate::mcp) use route::BodyMessages;
pub use route::{Body, ClientMessage, ErrorBody, PollBody, PostRoute};

/// Requests of the client that may be open.
const MAX_CALLS: usize = 256;

/// What a client sees as its server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DoorScope {
    /// Everybody in the room, merged.
    Room,
    /// One participant, as it is.
    One(ParticipantId),
}

/// What does not change while a session lasts.
#[derive(Debug, Clone)]
pub struct McpDoorOptions {
    /// Who the client is in the room.
    pub me: ParticipantId,
    /// The room.
    pub topic: TopicName,
    /// What it sees of it.
    pub scope: DoorScope,
    /// Bounds on what it sends.
    pub limits: Limits,
    /// The id of its session, where there is one to be told.
    pub session: Option<Box<str>>,
    /// How long a session without open streams may be silent.
    pub idle: Option<Duration>,
    /// The same for one whose client hung up while something was open: many clients end without another word.
    pub vanished_timeout: Duration,
    /// How old a list may be when the client asks for it, where its owner does not say.
    pub list_max_age: Duration,
    /// Until when participants that were here before the gateway was restarted may still be on their way back.
    pub returning_until: Option<Instant>,
    /// In a room with no more others than this, a client that can be asked things is shown at once what its being so brings; in a
    /// fuller one once it calls somebody.
    pub few: usize,
    /// The first number that questions to the client are counted from: those of a session before must not be taken for this one's.
    pub first: u64,
    /// Random bytes, from which ids that nobody can guess are made.
    pub salt: [u8; 16],
    /// The gateway's version.
    pub version: &'static str,
}

impl DoorScope {
    /// Whether the whole room is seen.
    pub fn is_room(&self) -> bool {
        *self == Self::Room
    }
}

/// What falls due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum DoorTimer {
    /// A list has been waited for long enough.
    Gather(u64),
    /// A participant has not answered a request in time.
    OwnRequest(u64),
    /// The questions of a call have been gathered.
    Questions(u64),
    /// A client has not come back with answers.
    Parked(u64),
    /// Something is asked again, after a pause.
    Again(u64),
    /// A question that belongs to no call has been open for long.
    Ask(u64),
    /// Lists have changed.
    Changed,
    /// A subscription has waited long enough for others.
    Listen(u64),
    /// What the room did not take is sent again.
    Late,
    /// A request that the room did not take is made again.
    Refused,
    /// The client has been silent for long.
    Idle,
}

/// One MCP client. The components own what they are about; the door routes between them.
#[derive(Debug)]
pub struct Door {
    options: McpDoorOptions,
    /// Numbers calls, questions, subscriptions and waiting requests, so that no two of them are equal.
    last_number: u64,
    client: ClientSession,
    streams: ClientStreams,
    outbox: Outbox,
    sessions: DoorSessions,
    peers: DoorPeers,
    lists: DoorLists,
    calls: DoorCalls,
    questions: ClientQuestions,
    subscriptions: ClientSubscriptions,
}

impl Door {
    /// A session before its first message.
    pub fn new(options: McpDoorOptions, stamps: Stamps, now: Instant) -> Self {
        Self {
            last_number: options.first,
            client: ClientSession::default(),
            streams: ClientStreams::new(&options, now),
            outbox: Outbox::new(&options, stamps),
            sessions: DoorSessions::default(),
            peers: DoorPeers::default(),
            lists: DoorLists::new(&options),
            calls: DoorCalls::default(),
            questions: ClientQuestions::default(),
            subscriptions: ClientSubscriptions::default(),
            options,
        }
    }

    fn fresh(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn is_room(&self) -> bool {
        self.options.scope.is_room()
    }

    /// Asks for a seat under the name the client gave itself.
    fn ask_for_seat(&mut self, profile: &ClientProfile) {
        let name = profile.info.as_deref().and_then(legacy::name_of);
        // A modern client is asked by `input_required`; to its callers the door answers in every revision.
        let versions = match profile.era() {
            Era::Legacy => Vec::new(),
            Era::Modern => Revision::all_dates().map(Into::into).to_vec(),
        };
        let mcp = McpVersion { version: profile.revision.date().into(), versions, handshake_optional: false };
        self.outbox.join(Introduction { name: name.map(Into::into), mcp, ..Introduction::default() });
    }

    /// How many requests of the client's are being worked on.
    fn open_requests(&self) -> usize {
        self.calls.client_count() + self.lists.waiting() + self.subscriptions.streams() + self.client.waiting()
    }

    fn seated(&mut self, now: Instant) {
        for request in self.client.seated() {
            self.serve(request, now);
        }
    }

    fn not_seated(&mut self, refusal: &Refusal) {
        for request in self.client.not_seated() {
            self.streams.answer_request(&request, &Err(refusal_error(refusal)));
        }
        self.streams.end(CloseReason::Bye);
    }

    fn idle(&mut self, now: Instant) {
        let is_busy = self.open_requests() > 0;
        if self.streams.is_idle(is_busy, self.outbox.is_late(), now) {
            self.close("nothing was said for long", CloseReason::Bye, now);
        }
    }
}

impl Door {
    fn timers(&self) -> [&Timers<DoorTimer>; 6] {
        let Self { streams, outbox, lists, questions, calls, subscriptions, .. } = self;
        [&streams.timers, &outbox.timers, &lists.timers, &questions.timers, &calls.timers, &subscriptions.timers]
    }

    /// Takes the earliest deadline that has passed, whichever component it is of.
    fn take_due(&mut self, now: Instant) -> Option<DoorTimer> {
        let Self { streams, outbox, lists, questions, calls, subscriptions, .. } = self;
        let all = [
            &mut streams.timers,
            &mut outbox.timers,
            &mut lists.timers,
            &mut questions.timers,
            &mut calls.timers,
            &mut subscriptions.timers,
        ];
        all.into_iter().filter(|timers| timers.first().is_some()).min_by_key(|timers| timers.first())?.take(now)
    }
}

impl Dialect for Door {
    type Opening = McpOpening;
    type Query = RoomQuery;
    type Answer = RoomAnswer;

    fn handle_frame(&mut self, stream: StreamId, frame: Frame, now: Instant) {
        self.receive_body(stream, Body::read_frame(&frame), now);
    }

    fn handle_event(&mut self, event: DialectEvent, now: Instant) {
        self.streams.pass_time(now);
        match event {
            DialectEvent::Joined(joined) => {
                self.sessions.seated(&joined.open_calls);
                self.meet(&joined.roster);
                self.follow_catalogue();
                self.outbox.query(RoomQuery::Authority);
                self.seated(now);
            }
            DialectEvent::NotJoined(refusal) => self.not_seated(&refusal),
            DialectEvent::Accepted { ticket, entry, .. } => {
                if let Some(who) = self.outbox.accepted(ticket) {
                    self.peer_ready(&who, now);
                }
                self.taken(entry.envelope.id(), now);
            }
            DialectEvent::Held { ticket, held } => {
                if let Some(who) = self.outbox.accepted(ticket) {
                    self.peer_ready(&who, now);
                }
                self.taken(&held.id, now);
                self.held(&held, now);
            }
            DialectEvent::Refused { ticket, refusal } => {
                let is_kept = self.outbox.keeps(ticket);
                if let Some(who) = self.outbox.refused(ticket, &refusal, now) {
                    self.peer_ready(&who, now);
                }
                if !is_kept {
                    self.draft_refused(&refusal, now);
                }
            }
            DialectEvent::Entry(entry) => self.overhear(&entry.envelope, now),
            DialectEvent::CallFailed { request, callee, cause, reason, .. } => {
                self.sessions.call_over(&request);
                if let Some(number) = self.calls.of_envelope(&request) {
                    let refusal = cause.refusal(&callee, reason.as_deref());
                    let error = RpcError::new(code::GONE, refusal.message);
                    self.fail(number, &error.with_data(&json!({ "code": refusal.code })), now);
                }
            }
            DialectEvent::Outage => {
                self.outbox.outage();
                self.notify_outage(LogLevel::Warning, OUTAGE);
            }
            DialectEvent::Recovered => {
                self.notify_outage(LogLevel::Notice, READY);
                self.forgive();
                for who in self.outbox.recovered() {
                    self.peer_ready(&who, now);
                }
                self.ask_again();
            }
            // Its client's calls are refused where the callee is absent, and it sends nothing else to anybody.
            DialectEvent::Absent { .. } => {}
            DialectEvent::Gap => {
                self.close("messages of the room that concern you are no longer kept", CloseReason::Bye, now)
            }
            DialectEvent::Answered(answer) => self.resolved(answer, now),
            DialectEvent::StreamOpened(stream, opening) => match opening {
                McpOpening::Duplex => self.streams.open_duplex(stream),
                McpOpening::Post(post) => self.receive_post(stream, post, now),
                // Only a dialect of MCP has this, and its interpreter sees to it.
                McpOpening::Poll(..) => {}
                McpOpening::Listen(listen) => self.streams.listen(stream, &listen, now),
            },
            DialectEvent::StreamClosed(stream) => {
                let closed = self.streams.closed(stream, self.client.is_introduced(), now);
                if let Some(channel) = closed.unanswered {
                    self.hung_up(channel, now);
                }
                if closed.was_duplex {
                    self.part("the client has gone away", now);
                }
            }
            DialectEvent::Closing(reason) => self.close(&reason.to_string(), reason, now),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.streams.handle_timeout(now);
        while let Some(due) = self.take_due(now) {
            match due {
                DoorTimer::Gather(number) => self.gathered(number, now),
                DoorTimer::OwnRequest(number) => self.own_request_due(number, now),
                DoorTimer::Questions(number) => self.put_questions(number, now),
                DoorTimer::Parked(number) => self.not_resumed(number, now),
                DoorTimer::Again(number) => self.dispatch(number, now),
                DoorTimer::Ask(number) => self.ask_due(number, now),
                DoorTimer::Changed => self.notify_changes(),
                DoorTimer::Listen(number) => self.acknowledge(number),
                DoorTimer::Late => {
                    if let Some(who) = self.outbox.retry() {
                        self.peer_ready(&who, now);
                    }
                }
                DoorTimer::Refused => self.ask_oldest(now),
                DoorTimer::Idle => self.idle(now),
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let timers = self.timers().into_iter().filter_map(|timers| timers.next());
        timers.chain(self.streams.poll_timeout()).min()
    }

    fn poll_action(&mut self) -> Option<DialectAction> {
        if let Some(action) = self.outbox.poll_action() {
            return Some(action);
        }
        // What is left to be sent goes out before the end does.
        self.streams.poll_action()
    }

    /// What others ask waits in the room while answers to them do not get in.
    fn ready(&self) -> bool {
        self.outbox.has_room()
    }
}

/// A room's refusal, as a JSON-RPC error.
fn refusal_error(refusal: &Refusal) -> RpcError {
    RpcError::new(code::GONE, refusal.message.to_string()).with_data(&json!({ "code": refusal.code }))
}

fn empty() -> Box<RawValue> {
    to_raw_value(&json!({})).expect("an empty object can be written")
}
