//! The Machine door's own part of a session: over HTTP there is one for all that a participant sends and hears in a topic.
//!
//! Invariants: a request over HTTP may do what its own token permits. A participant is in a room once by this door: its WebSocket takes the place of its session
//! over HTTP, and while there is one nothing begins over HTTP, so that a stream that reconnects by itself cannot throw it out.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::FromRef;
use parking_lot::{Mutex, MutexGuard};
use salon_dialects::machine::{Machine, MachineOpening, MachineOptions, Terms};
use salon_protocol::{Code, ParticipantId, Refusal, TopicName};

use super::super as doors;
use super::super::sessions::{OpenSession, SessionTable, Visitor};
use crate::carriers::{Exchanges, Inbox, StreamCarrier};
use crate::connection::ConnectionContext;
use crate::gateway::GatewayState;
use crate::session::Session;

/// How long a participant stays that has no connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Who is where.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct MachineSessionKey {
    pub(super) participant: ParticipantId,
    pub(super) topic: TopicName,
}

/// What the addresses of the protocol share.
#[derive(Clone)]
pub(crate) struct MachineDoor {
    pub(super) gateway: Arc<GatewayState>,
    sessions: Arc<SessionTable<MachineSessionKey, Inbox<MachineOpening>>>,
    state: Arc<Mutex<DoorState>>,
}

#[derive(Default)]
struct DoorState {
    /// How many WebSockets there are.
    sockets: HashMap<MachineSessionKey, usize>,
    /// Participants whose messages are not read, because too many were refused, and until when.
    paused: HashMap<ParticipantId, Instant>,
}

impl FromRef<MachineDoor> for Arc<GatewayState> {
    fn from_ref(door: &MachineDoor) -> Self {
        door.gateway.clone()
    }
}

/// How many participants may be paused before those that are not any more are looked for.
const PAUSED_SWEEP_THRESHOLD: usize = 1024;

impl MachineDoor {
    pub(super) fn new(gateway: &Arc<GatewayState>) -> Self {
        Self { gateway: gateway.clone(), sessions: Arc::default(), state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, DoorState> {
        self.state.lock()
    }

    /// The participant's session, which is begun where there is none.
    pub(super) fn session(
        &self,
        visitor: &Visitor,
        session_key: &MachineSessionKey,
    ) -> Result<OpenSession<Inbox<MachineOpening>>, Refusal> {
        // Held until the session is in its table, so that no WebSocket comes between.
        let state = self.state();
        if state.sockets.contains_key(session_key) {
            let message =
                format!("`{}` is connected by WebSocket; use one of the two at a time", session_key.participant);
            return Err(Refusal::new(Code::IdConflict, message));
        }
        self.sessions.find_or_begin(visitor, session_key.clone(), &session_key.topic, |connection| {
            let (carrier, inbox) = Exchanges::new();
            let dialect = dialect(&visitor.gateway, session_key, None, Some(IDLE_TIMEOUT));
            (session(visitor, connection, carrier, dialect), inbox)
        })
    }

    /// How long the participant's messages are not read, because too many were refused.
    pub(super) fn paused(&self, who: &ParticipantId, now: Instant) -> Option<Duration> {
        self.state().paused.get(who).and_then(|until| until.checked_duration_since(now)).filter(|wait| !wait.is_zero())
    }

    /// Reads no messages of a participant for a while. Answering that a message is wrong costs as much as publishing one.
    pub(super) fn pause(&self, who: &ParticipantId, wait: Duration, now: Instant) {
        let mut state = self.state();
        if state.paused.len() >= PAUSED_SWEEP_THRESHOLD {
            state.paused.retain(|_, until| *until > now);
        }
        state.paused.insert(who.clone(), now + wait);
    }

    /// Counts a WebSocket, until the returned value is dropped.
    pub(super) fn open_socket(&self, session_key: &MachineSessionKey) -> OpenSocket {
        *self.state().sockets.entry(session_key.clone()).or_default() += 1;
        OpenSocket { state: self.state.clone(), session_key: session_key.clone() }
    }
}

/// A WebSocket that is open.
pub(super) struct OpenSocket {
    state: Arc<Mutex<DoorState>>,
    session_key: MachineSessionKey,
}

impl Drop for OpenSocket {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        if let Some(count) = state.sockets.get_mut(&self.session_key) {
            *count -= 1;
            if *count == 0 {
                state.sockets.remove(&self.session_key);
            }
        }
    }
}

/// A session that is yet to join.
pub(super) fn session<C: StreamCarrier<MachineOpening>>(
    visitor: &Visitor,
    connection: ConnectionContext,
    carrier: C,
    dialect: Machine,
) -> Pin<Box<Session<Machine, C>>> {
    let resolver = doors::catalogue_resolver::<Machine>(&visitor.gateway, &connection);
    doors::session(visitor, connection, carrier, dialect, Some(resolver), doors::admit_once(&visitor.grant))
}

/// The grammar of one session.
pub(super) fn dialect(
    gateway: &GatewayState,
    session_key: &MachineSessionKey,
    terms: Option<Terms>,
    idle: Option<Duration>,
) -> Machine {
    let options = MachineOptions {
        me: session_key.participant.clone(),
        topic: session_key.topic.clone(),
        limits: gateway.config.limits.envelope(),
        terms,
        idle,
        version: env!("CARGO_PKG_VERSION"),
    };
    let now = Instant::now();
    Machine::new(options, doors::stamps(now), now)
}
