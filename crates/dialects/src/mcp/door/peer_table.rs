//! The participants that are servers to the client: the handshake with each, the calls that wait for it, and what each may do.
//!
//! Invariants: one handshake with a participant is under way at a time, for two at once would undo each other. A call waits for one
//! participant, and is taken once. A participant that joins again starts over.
//! Deliberately absent: requests, and what a handshake says.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use salon_mcp::Era;
use salon_mcp::handshake::{HandshakeError, ServerProfile};
use salon_mcp::input::ROOTS;
use salon_protocol::{LogLevel, McpVersion, ParticipantId, RpcError};
use serde_json::value::RawValue;

/// How long a participant whose handshake failed is not asked again, and one that has no handshake at all.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(60);
const NO_SERVER_RETRY_AFTER: Duration = Duration::from_secs(60 * 60);

#[derive(Debug)]
enum PeerHandshake {
    None,
    /// It was sent, with these capabilities of the client's.
    Sent(Box<RawValue>),
    Done {
        capabilities: Box<RawValue>,
        server: ServerProfile,
    },
    /// The participant is no server, or does not answer.
    Failed {
        until: Instant,
        error: RpcError,
    },
}

/// The handshake with a participant, for a client with certain capabilities.
#[derive(Debug)]
pub(super) enum HandshakeStatus<'a> {
    /// None was performed with these capabilities, or it is under way.
    Missing,
    Done(&'a ServerProfile),
    Failed(&'a RpcError),
}

/// How a handshake ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HandshakeEnd {
    /// The participant has introduced itself, in an era.
    Done(Era),
    Failed,
}

/// Whether a participant may ask the client something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuestionRight {
    /// The client has not called it.
    Denied,
    /// Nor has it when it was asked for its roots, which servers do once, right after the handshake.
    DeniedRoots,
    /// The client has called it.
    Granted,
}

#[derive(Debug)]
pub(super) struct DoorPeer {
    mcp: McpVersion,
    handshake: PeerHandshake,
    /// Calls that wait for the handshake.
    waiting: VecDeque<u64>,
    /// The level of log lines it was told.
    level: Option<LogLevel>,
    /// A handshake was performed, whatever became of a later one.
    pub(super) has_met: bool,
    /// The client has called it.
    pub(super) was_called: bool,
    /// See [`super::askers`].
    questions: QuestionRight,
    /// Its responses name this session, for which it keeps something.
    keeps_session: bool,
}

impl DoorPeer {
    /// The era it is spoken to in: the client's own where it can.
    pub(super) fn era_for(&self, client: Era) -> Era {
        client.with(&self.mcp)
    }

    /// Whether it is spoken to in the caller's era, whichever that is.
    pub(super) fn speaks_both_eras(&self) -> bool {
        self.era_for(Era::Legacy) == Era::Legacy && self.era_for(Era::Modern) == Era::Modern
    }

    pub(super) fn is_handshake_done(&self) -> bool {
        matches!(self.handshake, PeerHandshake::Done { .. })
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct DoorPeers {
    peers: BTreeMap<ParticipantId, DoorPeer>,
}

impl DoorPeers {
    /// A participant is in the room, maybe again. Returns the calls that waited for it before.
    pub(super) fn joined(&mut self, who: &ParticipantId, mcp: McpVersion) -> VecDeque<u64> {
        let peer = DoorPeer {
            mcp,
            handshake: PeerHandshake::None,
            waiting: VecDeque::new(),
            level: None,
            has_met: false,
            was_called: false,
            questions: QuestionRight::Denied,
            keeps_session: false,
        };
        self.peers.insert(who.clone(), peer).map(|before| before.waiting).unwrap_or_default()
    }

    pub(super) fn left(&mut self, who: &ParticipantId) {
        self.peers.remove(who);
    }

    pub(super) fn get(&self, who: &ParticipantId) -> Option<&DoorPeer> {
        self.peers.get(who)
    }

    pub(super) fn has(&self, who: &ParticipantId) -> bool {
        self.peers.contains_key(who)
    }

    pub(super) fn len(&self) -> usize {
        self.peers.len()
    }

    /// The participants that are wanted, in order.
    pub(super) fn ids(&self, is_wanted: impl Fn(&DoorPeer) -> bool) -> Vec<ParticipantId> {
        self.peers.iter().filter(|(_, peer)| is_wanted(peer)).map(|(who, _)| who.clone()).collect()
    }

    /// The era that a client of an era speaks to a participant in.
    pub(super) fn era(&self, who: &ParticipantId, client: Era) -> Option<Era> {
        self.get(who).map(|peer| peer.era_for(client))
    }

    /// What a participant said of itself in the handshake.
    pub(super) fn server(&self, who: &ParticipantId) -> Option<&ServerProfile> {
        match &self.get(who)?.handshake {
            PeerHandshake::Done { server, .. } => Some(server),
            _ => None,
        }
    }

    /// The handshake with a participant, for a client with these capabilities.
    pub(super) fn handshake(
        &self,
        who: &ParticipantId,
        capabilities: &RawValue,
        now: Instant,
    ) -> Option<HandshakeStatus<'_>> {
        Some(match &self.get(who)?.handshake {
            PeerHandshake::Done { capabilities: told, server } if told.get() == capabilities.get() => {
                HandshakeStatus::Done(server)
            }
            PeerHandshake::Failed { until, error } if *until > now => HandshakeStatus::Failed(error),
            _ => HandshakeStatus::Missing,
        })
    }

    /// Has a call wait for the handshake.
    pub(super) fn wait(&mut self, who: &ParticipantId, number: u64) {
        if let Some(peer) = self.peers.get_mut(who) {
            peer.waiting.push_back(number);
        }
    }

    /// A handshake is performed from now on. Returns the era it is performed in, unless one is under way.
    pub(super) fn begin_handshake(&mut self, who: &ParticipantId, capabilities: &RawValue, client: Era) -> Option<Era> {
        let peer = self.peers.get_mut(who)?;
        if matches!(peer.handshake, PeerHandshake::Sent(_)) {
            return None;
        }
        peer.handshake = PeerHandshake::Sent(capabilities.to_owned());
        Some(peer.era_for(client))
    }

    /// A handshake was answered. `None` when none was under way.
    pub(super) fn end_handshake(
        &mut self,
        who: &ParticipantId,
        outcome: Result<&RawValue, RpcError>,
        client: Era,
        now: Instant,
    ) -> Option<HandshakeEnd> {
        let peer = self.peers.get_mut(who)?;
        let PeerHandshake::Sent(capabilities) = &peer.handshake else { return None };
        let capabilities = capabilities.clone();
        let era = peer.era_for(client);
        let server = outcome.and_then(|result| {
            let server = match era {
                Era::Legacy => ServerProfile::from_initialize(result),
                Era::Modern => ServerProfile::from_discover(result),
            };
            server.map_err(|error| not_understood(who, error))
        });
        Some(match server {
            Ok(server) => {
                peer.handshake = PeerHandshake::Done { capabilities, server };
                peer.level = None;
                peer.has_met = true;
                HandshakeEnd::Done(era)
            }
            Err(error) => {
                // A participant without this method is not a server, until it joins again.
                let is_server = error.code != RpcError::METHOD_NOT_FOUND;
                let retry_after = if is_server { RETRY_AFTER } else { NO_SERVER_RETRY_AFTER };
                peer.handshake = PeerHandshake::Failed { until: now + retry_after, error };
                HandshakeEnd::Failed
            }
        })
    }

    /// A handshake could not be sent: the next call begins another one. Returns the calls that waited for it.
    pub(super) fn drop_handshake(&mut self, who: &ParticipantId) -> VecDeque<u64> {
        let Some(peer) = self.peers.get_mut(who) else { return VecDeque::new() };
        peer.handshake = PeerHandshake::None;
        std::mem::take(&mut peer.waiting)
    }

    /// Participants that did not answer during an outage are asked again.
    pub(super) fn forgive(&mut self) {
        for peer in self.peers.values_mut() {
            if matches!(&peer.handshake, PeerHandshake::Failed { error, .. } if error.code != RpcError::METHOD_NOT_FOUND)
            {
                peer.handshake = PeerHandshake::None;
            }
        }
    }

    /// Takes the calls that wait for a participant: those that its handshake serves, by the capabilities of their clients, and the others.
    pub(super) fn take_waiting<'a>(
        &mut self,
        who: &ParticipantId,
        capabilities_of: impl Fn(u64) -> Option<&'a RawValue>,
    ) -> (Vec<u64>, Vec<u64>) {
        let Some(peer) = self.peers.get_mut(who) else { return Default::default() };
        let waiting = std::mem::take(&mut peer.waiting);
        match &peer.handshake {
            PeerHandshake::Done { capabilities, .. } => waiting
                .into_iter()
                .partition(|number| capabilities_of(*number).is_some_and(|wanted| wanted.get() == capabilities.get())),
            _ => (waiting.into(), Vec::new()),
        }
    }

    /// Takes note of a level of log lines. Whether the participant, to which the client speaks in that era, is to be told.
    // MCP 2026-07-28, Logging: a modern request says the level itself.
    pub(super) fn note_level(&mut self, who: &ParticipantId, level: LogLevel, client: Era) -> bool {
        let logs = self.server(who).is_some_and(|server| server.has("logging"));
        let Some(peer) = self.peers.get_mut(who) else { return false };
        let is_told = logs && peer.era_for(client) == Era::Legacy;
        is_told && peer.level.replace(level) != Some(level)
    }

    /// The client itself told a participant the level.
    pub(super) fn set_level(&mut self, who: &ParticipantId, level: LogLevel) {
        if let Some(peer) = self.peers.get_mut(who) {
            peer.level = Some(level);
        }
    }

    /// The client calls a participant. Whether what that lists to the client may be something else from now on.
    pub(super) fn note_call(&mut self, who: &ParticipantId) -> bool {
        let Some(peer) = self.peers.get_mut(who) else { return false };
        !std::mem::replace(&mut peer.was_called, true) && peer.speaks_both_eras()
    }

    /// The client calls a participant, so it may ask. Whether it has a handshake, and wanted to know the client's roots before that.
    pub(super) fn grant_questions(&mut self, who: &ParticipantId) -> bool {
        let Some(peer) = self.peers.get_mut(who) else { return false };
        let before = std::mem::replace(&mut peer.questions, QuestionRight::Granted);
        before == QuestionRight::DeniedRoots && peer.is_handshake_done()
    }

    /// Whether a participant may ask the client something outside of a call.
    pub(super) fn may_ask(&mut self, who: &ParticipantId, method: &str) -> bool {
        let Some(peer) = self.peers.get_mut(who) else { return false };
        if peer.questions == QuestionRight::Denied && method == ROOTS {
            peer.questions = QuestionRight::DeniedRoots;
        }
        peer.questions == QuestionRight::Granted && peer.is_handshake_done()
    }

    /// A participant keeps something for this session.
    pub(super) fn note_session_keeper(&mut self, who: &ParticipantId) {
        if let Some(peer) = self.peers.get_mut(who) {
            peer.keeps_session = true;
        }
    }

    /// The participants that keep something for this session, once.
    pub(super) fn take_session_keepers(&mut self) -> Vec<ParticipantId> {
        let keepers =
            self.peers.iter_mut().filter_map(|(who, peer)| std::mem::take(&mut peer.keeps_session).then_some(who));
        keepers.cloned().collect()
    }
}

fn not_understood(who: &ParticipantId, error: HandshakeError) -> RpcError {
    match error {
        HandshakeError::Unreadable => {
            RpcError::internal(format!("`{who}` introduced itself in a way that cannot be read"))
        }
        HandshakeError::Revision(named) => {
            let data = serde_json::json!({ "supported": salon_mcp::Revision::all_dates(), "requested": named });
            RpcError::invalid_params(format!("`{who}` speaks MCP {named}, which is not known here")).with_data(&data)
        }
    }
}

#[cfg(test)]
mod tests;
