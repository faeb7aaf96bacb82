//! The guest's callers: sessions of participants, what is kept for each, and when it is forgotten.
//!
//! A session tells when it ends ([`SESSION_ENDED_METHOD`](salon_protocol::SESSION_ENDED_METHOD)), and a participant's leave ends all its sessions. A
//! session that ends without a word, because its gateway was killed, is forgotten when its participant has too many.

use std::collections::BTreeMap;
use std::time::Instant;

use salon_mcp::handshake::HandshakeParams;
use salon_mcp::{Era, Revision};
use salon_protocol::{Envelope, LogLevel, ParticipantId, RpcError, SessionId};
use serde_json::json;

use super::{LaneId, MAX_SESSIONS_OF_ONE, SubscriptionState, Switchboard};

/// One session of a participant, or all of the participant that names no sessions.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct CallerId {
    pub(super) participant: ParticipantId,
    pub(super) session: Option<SessionId>,
}

impl CallerId {
    /// The caller that sent an envelope. The gateway has verified the participant, so nobody can name another's session.
    pub(super) fn of(envelope: &Envelope) -> Self {
        Self { participant: envelope.from().clone(), session: envelope.from_session().cloned() }
    }
}

/// What is kept for a caller.
#[derive(Debug)]
pub(super) struct CallerState {
    pub(super) handshake_params: HandshakeParams,
    pub(super) revision: Revision,
    pub(super) level: Option<LogLevel>,
    /// It has made requests of the modern era.
    pub(super) is_modern: bool,
    pub(super) open: usize,
    /// When it made its last request, counted in requests.
    last_request: u64,
    /// Its own lanes, by era.
    pub(super) lanes: BTreeMap<Era, LaneId>,
    pub(super) subscriptions: BTreeMap<(LaneId, String), SubscriptionState>,
}

impl Default for CallerState {
    /// A caller without a handshake, which is not required here.
    fn default() -> Self {
        Self {
            handshake_params: HandshakeParams::default(),
            revision: Revision::ROOM,
            level: None,
            is_modern: false,
            open: 0,
            last_request: 0,
            lanes: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
        }
    }
}

impl Switchboard {
    /// Takes note of a caller that makes a request. Its participant's oldest idle session is forgotten when it has too many.
    pub(super) fn admit(&mut self, caller: &CallerId, now: Instant) -> Result<(), RpcError> {
        let is_new = !self.callers.contains_key(caller);
        if is_new && self.sessions(&caller.participant).count() >= MAX_SESSIONS_OF_ONE {
            let Some(idle) = self.least_recent(&caller.participant, |known| known.open == 0) else {
                let told =
                    format!("{MAX_SESSIONS_OF_ONE} sessions of yours have open calls already; wait for an answer");
                return Err(RpcError::internal(told).with_data(&json!({ "code": "rate_limited" })));
            };
            self.remove_caller(&idle, now);
        }
        self.requests += 1;
        self.callers.entry(caller.clone()).or_default().last_request = self.requests;
        Ok(())
    }

    /// The sessions of a participant of which something is remembered.
    fn sessions(&self, of: &ParticipantId) -> impl Iterator<Item = (&CallerId, &CallerState)> {
        let first = CallerId { participant: of.clone(), session: None };
        let of = of.clone();
        self.callers.range(first..).take_while(move |(id, _)| id.participant == of)
    }

    /// The session of a participant that has made no request for the longest time, of those that may be chosen.
    pub(super) fn least_recent(&self, of: &ParticipantId, may: impl Fn(&CallerState) -> bool) -> Option<CallerId> {
        let sessions = self.sessions(of).filter(|(_, known)| may(known));
        sessions.min_by_key(|(_, known)| known.last_request).map(|(id, _)| id.clone())
    }

    /// How many calls of a participant are open, in all its sessions.
    pub(super) fn open_calls(&self, of: &ParticipantId) -> usize {
        self.sessions(of).map(|(_, known)| known.open).sum()
    }

    /// Something may have been missed: a caller whose participant is not in the roster has left.
    pub(crate) fn present(&mut self, here: impl Fn(&ParticipantId) -> bool, now: Instant) {
        self.remove_callers(|caller| !here(&caller.participant), now);
    }

    /// A participant left: nothing goes on in its name.
    pub(super) fn left(&mut self, participant: &ParticipantId, now: Instant) {
        self.remove_callers(|caller| caller.participant == *participant, now);
    }

    fn remove_callers(&mut self, is_gone: impl Fn(&CallerId) -> bool, now: Instant) {
        let gone: Vec<_> = self.callers.keys().filter(|caller| is_gone(caller)).cloned().collect();
        for caller in gone {
            self.remove_caller(&caller, now);
        }
    }

    /// Ends everything of one caller.
    pub(super) fn remove_caller(&mut self, caller: &CallerId, now: Instant) {
        for number in self.calls_where(|call| call.asked().is_some_and(|asked| asked.reply.caller == *caller)) {
            self.cancel(number, None, now);
        }
        let Some(known) = self.callers.remove(caller) else { return };
        let owned = self.lanes.iter().filter(|(_, lane)| lane.owner.as_ref() == Some(caller));
        for lane in owned.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.close(lane);
        }
        for (lane, uri) in known.subscriptions.into_keys() {
            self.release_subscription(lane, &uri, now);
        }
        if known.level.is_some() {
            self.lower_level(now);
        }
    }

    /// The callers among these that must be told by themselves, because their participant has other sessions that must not hear it, and the
    /// participants that can be told together.
    pub(super) fn addressees(&self, mut to: Vec<CallerId>) -> (Vec<ParticipantId>, Vec<CallerId>) {
        to.sort();
        let (mut together, mut apart): (Vec<ParticipantId>, Vec<CallerId>) = (Vec::new(), Vec::new());
        for group in to.chunk_by(|a, b| a.participant == b.participant) {
            let participant = &group[0].participant;
            if self.sessions(participant).count() == group.len() {
                together.push(participant.clone());
            } else {
                apart.extend(group.iter().cloned());
            }
        }
        (together, apart)
    }
}
