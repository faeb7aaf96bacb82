//! The Machine door's own part of a session: over HTTP there is one for all that a participant sends and hears in a topic.
//!
//! Invariants: a request over HTTP may do what its own token permits. A participant is in a room once by this door: its WebSocket takes the place of its session
//! over HTTP, and while there is one nothing begins over HTTP, so that a stream that reconnects by itself cannot throw it out.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::FromRef;
use parking_lot::{Mutex, MutexGuard};
use salon_dialects::machine::{Machine, MachineOpening, Options, Terms};
use salon_log::Claim;
use salon_protocol::{Code, Participant, ParticipantId, Refusal, TopicName};
use salon_rooms::{Admission, Deliver};

use super::super as doors;
use super::super::sessions::{Found, SessionTable, Visitor};
use crate::auth::Grant;
use crate::carriers::{Exchanges, Inbox};
use crate::clock;
use crate::entrance::Entrance;
use crate::gateway::Gateway;
use crate::session::{Beginning, Session};

/// How long a participant stays that has no connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Who is where.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct MachinePlace {
    pub(super) participant: ParticipantId,
    pub(super) topic: TopicName,
}

/// What the addresses of the protocol share.
#[derive(Clone)]
pub(crate) struct MachineDoor {
    pub(super) gateway: Arc<Gateway>,
    sessions: Arc<SessionTable<MachinePlace, Inbox<MachineOpening>>>,
    state: Arc<Mutex<DoorState>>,
}

#[derive(Default)]
struct DoorState {
    /// How many WebSockets there are.
    sockets: HashMap<MachinePlace, usize>,
    /// Participants whose messages are not read, because too many were refused, and until when.
    paused: HashMap<ParticipantId, Instant>,
}

impl FromRef<MachineDoor> for Arc<Gateway> {
    fn from_ref(door: &MachineDoor) -> Self {
        door.gateway.clone()
    }
}

/// How many participants may be paused before those that are not any more are looked for.
const MANY_PAUSED: usize = 1024;

impl MachineDoor {
    pub(super) fn new(gateway: &Arc<Gateway>) -> Self {
        Self { gateway: gateway.clone(), sessions: Arc::default(), state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, DoorState> {
        self.state.lock()
    }

    /// The participant's session, which is begun where there is none.
    pub(super) fn session(
        &self,
        visitor: &Visitor,
        place: &MachinePlace,
    ) -> Result<Found<Inbox<MachineOpening>>, Refusal> {
        // Held until the session is in its table, so that no WebSocket comes between.
        let state = self.state();
        if state.sockets.contains_key(place) {
            let message = format!("`{}` is connected by WebSocket; use one of the two at a time", place.participant);
            return Err(Refusal::new(Code::IdConflict, message));
        }
        self.sessions.find_or_begin(visitor, place.clone(), &place.topic, |connection| {
            let Visitor { gateway, grant, .. } = visitor;
            let (carrier, inbox) = Exchanges::new();
            let dialect = dialect(gateway, place, None, Some(IDLE_TIMEOUT));
            let expires = clock::instant(grant.expires);
            let resolver = Some(doors::catalogue_resolver::<Machine>(gateway, &connection));
            let beginning = Beginning { dialect, resolver, carrier, keep_alive: None, expires, connection };
            (Box::pin(Session::outside(entrance(gateway, grant, &place.topic), beginning)), inbox)
        })
    }

    /// How long the participant's messages are not read, because too many were refused.
    pub(super) fn paused(&self, who: &ParticipantId, now: Instant) -> Option<Duration> {
        self.state().paused.get(who).and_then(|until| until.checked_duration_since(now)).filter(|wait| !wait.is_zero())
    }

    /// Reads no messages of a participant for a while. Answering that a message is wrong costs as much as publishing one.
    pub(super) fn pause(&self, who: &ParticipantId, wait: Duration, now: Instant) {
        let mut state = self.state();
        if state.paused.len() >= MANY_PAUSED {
            state.paused.retain(|_, until| *until > now);
        }
        state.paused.insert(who.clone(), now + wait);
    }

    /// Counts a WebSocket, until the returned value is dropped.
    pub(super) fn open_socket(&self, place: &MachinePlace) -> OpenSocket {
        *self.state().sockets.entry(place.clone()).or_default() += 1;
        OpenSocket { state: self.state.clone(), place: place.clone() }
    }
}

/// A WebSocket that is open.
pub(super) struct OpenSocket {
    state: Arc<Mutex<DoorState>>,
    place: MachinePlace,
}

impl Drop for OpenSocket {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        if let Some(count) = state.sockets.get_mut(&self.place) {
            *count -= 1;
            if *count == 0 {
                state.sockets.remove(&self.place);
            }
        }
    }
}

/// The grammar of one session.
pub(super) fn dialect(
    gateway: &Gateway,
    place: &MachinePlace,
    terms: Option<Terms>,
    idle: Option<Duration>,
) -> Machine {
    let options = Options {
        me: place.participant.clone(),
        topic: place.topic.clone(),
        limits: gateway.config.limits.envelope(),
        terms,
        idle,
        version: env!("CARGO_PKG_VERSION"),
    };
    let now = Instant::now();
    Machine::new(options, doors::stamps(now), now)
}

/// The way into the room. A participant is there once: two of them would both do what one was asked.
pub(super) fn entrance(gateway: &Arc<Gateway>, grant: &Grant, topic: &TopicName) -> Entrance {
    let (id, name, kind) = (grant.participant.clone(), grant.name.clone(), grant.kind);
    doors::entrance(gateway, topic, move |introduction| Admission {
        participant: Participant { name: name.clone(), kind, mcp: introduction.mcp, ..Participant::new(id.clone()) },
        claim: Claim::Exclusive,
        after: None,
        recent: None,
        deliver: Deliver::Directed,
        echo: false,
    })
}
