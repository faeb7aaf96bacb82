//! The others in the room, as servers: performing the MCP handshake with them in the client's name.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use salon_mcp::handshake::{HandshakeError, ServerProfile};
use salon_mcp::{Era, Revision, code};
use salon_protocol::{LogLevel, McpVersion, Participant, ParticipantId, PresenceEvent, RpcError};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::call_table::{CallPurpose, DoorCall};
use super::calls::CALL_TIMEOUT;
use super::{ClientProfile, Door, DoorScope};

/// How long somebody who was asked by the door itself may take before nothing is expected of it.
const OWN_REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// How long somebody who did not answer is left alone.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// How far the handshake with a participant has got.
#[derive(Debug)]
pub(super) enum PeerHandshake {
    Stranger,
    /// It was greeted, with these capabilities of the client's.
    Greeted {
        told: Box<RawValue>,
    },
    Met {
        told: Box<RawValue>,
        server: ServerProfile,
    },
    /// It is no server, or does not answer; not asked again before a moment.
    Mute {
        until: Instant,
        error: RpcError,
    },
}

/// Somebody in the room.
#[derive(Debug)]
pub(super) struct DoorPeer {
    mcp: McpVersion,
    pub(super) greeting: PeerHandshake,
    /// Calls that wait for the greeting.
    waiting: VecDeque<u64>,
    /// The level of log lines it was told.
    level: Option<LogLevel>,
    /// It has met the client, whatever became of that.
    pub(super) has_met: bool,
    /// The client has called it.
    pub(super) was_called: bool,
    /// Its responses name this session, for which it keeps something.
    pub(super) keeps_session: bool,
}

impl DoorPeer {
    fn new(mcp: McpVersion) -> Self {
        Self {
            mcp,
            greeting: PeerHandshake::Stranger,
            waiting: VecDeque::new(),
            level: None,
            has_met: false,
            was_called: false,
            keeps_session: false,
        }
    }

    /// The era it is spoken to in: the client's own where it can.
    pub(super) fn era_for(&self, client: Era) -> Era {
        client.with(&self.mcp)
    }

    /// Whether a client of the legacy era performs the MCP handshake with it, as a subscription to single resources needs.
    pub(super) fn has_handshake(&self) -> bool {
        self.era_for(Era::Legacy) == Era::Legacy
    }

    /// Whether it is spoken to in the caller's era, whichever that is.
    pub(super) fn speaks_both_eras(&self) -> bool {
        self.era_for(Era::Legacy) == Era::Legacy && self.era_for(Era::Modern) == Era::Modern
    }

    /// The client calls it. Whether what it lists to the client may be something else from now on.
    pub(super) fn note_call(&mut self) -> bool {
        !std::mem::replace(&mut self.was_called, true) && self.speaks_both_eras()
    }

    pub(super) fn note_level(&mut self, level: LogLevel) {
        self.level = Some(level);
    }

    pub(super) fn is_handshake_done(&self) -> bool {
        matches!(self.greeting, PeerHandshake::Met { .. })
    }

    pub(super) fn server(&self) -> Option<&ServerProfile> {
        match &self.greeting {
            PeerHandshake::Met { server, .. } => Some(server),
            _ => None,
        }
    }
}

impl Door {
    /// Takes note of who is in the room.
    pub(super) fn meet(&mut self, roster: &[Arc<Participant>]) {
        for participant in roster {
            if self.is_peer(&participant.id) {
                self.lists.found(&participant.id);
                self.peers.insert(participant.id.clone(), DoorPeer::new(participant.mcp.clone()));
            }
        }
        // The host is in every room and on nobody's list.
        let host = ParticipantId::host();
        if self.is_peer(&host) {
            self.lists.found(&host);
            self.peers.insert(host, DoorPeer::new(McpVersion::default()));
        }
    }

    fn is_peer(&self, who: &ParticipantId) -> bool {
        match &self.options.scope {
            DoorScope::Room => *who != self.options.me,
            // Nobody is its own server: what one says to oneself nobody else answers.
            DoorScope::One(one) => who == one && *who != self.options.me,
        }
    }

    /// Somebody came or went.
    pub(super) fn presence(&mut self, event: PresenceEvent, participant: Participant, now: Instant) {
        let who = participant.id.clone();
        if event != PresenceEvent::Heartbeat {
            self.sessions.forget(&who);
        }
        if !self.is_peer(&who) {
            return;
        }
        match event {
            PresenceEvent::Heartbeat => {}
            PresenceEvent::Leave => {
                self.peers.remove(&who);
                self.drop_asks_from(&who);
                for request in self.client.take_introducing() {
                    self.introduce_one(request, &who, now);
                }
                for listing in self.lists.left(&who) {
                    self.list_changed(listing, now);
                }
                self.settle_gathers(now);
                for number in self.calls.numbers(|call| call.to == who && call.sent_in().is_none()) {
                    let error = self.absent(&who);
                    self.fail(number, &error, now);
                }
            }
            PresenceEvent::Join => {
                // A participant that joins again has forgotten us: its open handshakes and lists are void.
                for number in self.calls.numbers(|call| call.to == who && !call.is_client()) {
                    self.drop_call(number);
                }
                self.drop_asks_from(&who);
                let old = self.peers.insert(who.clone(), DoorPeer::new(participant.mcp));
                self.lists.joined(&who);
                if let Some(profile) = self.client.latest() {
                    self.resume_news(&who, &profile, now);
                    // What waited for the one before waits for this one.
                    for number in old.map(|old| old.waiting).unwrap_or_default() {
                        self.dispatch(number, now);
                    }
                    for request in self.client.take_introducing() {
                        self.introduce_one(request, &who, now);
                    }
                }
            }
        }
    }

    pub(super) fn absent(&self, who: &ParticipantId) -> RpcError {
        if *who == self.options.me {
            let told = format!(
                "you are `{who}` yourself, and nobody is its own server: name another participant, or none for the whole room"
            );
            return RpcError::new(code::GONE, told)
                .with_data(&json!({ "code": salon_protocol::Code::InvalidParameters }));
        }
        let data = json!({ "code": salon_protocol::Code::RecipientNotFound });
        RpcError::new(code::GONE, format!("`{who}` is not in the room {}", self.options.topic)).with_data(&data)
    }

    /// Performs the MCP handshake, unless that is under way: a second handshake waits for its end, for two at once would undo each other.
    pub(super) fn start_handshake(&mut self, who: &ParticipantId, profile: &Arc<ClientProfile>, now: Instant) {
        let Some(peer) = self.peers.get_mut(who) else { return };
        if matches!(&peer.greeting, PeerHandshake::Greeted { .. }) {
            return;
        }
        peer.greeting = PeerHandshake::Greeted { told: profile.capabilities.clone() };
        // Where there is no handshake, discovery says the same.
        if peer.era_for(profile.era()) == Era::Modern {
            self.run(who, CallPurpose::Greet, "server/discover", None, profile, now);
            return;
        }
        let hello = profile.hello();
        let revision = if profile.era() == Era::Modern { Revision::R2025_11_25 } else { profile.revision };
        let params = hello.params(revision, &self.info());
        self.run(who, CallPurpose::Greet, "initialize", Some(params), profile, now);
    }

    /// Who the client is, where it has not said so itself.
    pub(super) fn info(&self) -> Box<RawValue> {
        let info = json!({ "name": self.options.me.as_str(), "version": "" });
        to_raw_value(&info).expect("two strings")
    }

    /// Asks somebody something for the door's own sake.
    pub(super) fn run(
        &mut self,
        who: &ParticipantId,
        purpose: CallPurpose,
        method: &str,
        params: Option<Box<RawValue>>,
        profile: &Arc<ClientProfile>,
        now: Instant,
    ) -> u64 {
        let number = self.fresh();
        let call = DoorCall::new(who, method, params, profile.clone(), purpose);
        self.calls.insert(number, call, Some(now + OWN_REQUEST_TIMEOUT));
        self.dispatch(number, now);
        number
    }

    /// A handshake was answered.
    pub(super) fn handshake_done(
        &mut self,
        who: &ParticipantId,
        outcome: Result<&RawValue, RpcError>,
        profile: &Arc<ClientProfile>,
        now: Instant,
    ) {
        let Some(peer) = self.peers.get_mut(who) else { return };
        let PeerHandshake::Greeted { told } = &peer.greeting else { return };
        let told = told.clone();
        let era = peer.era_for(profile.era());
        let server = outcome.and_then(|result| {
            let server = match era {
                Era::Legacy => ServerProfile::from_initialize(result),
                Era::Modern => ServerProfile::from_discover(result),
            };
            server.map_err(|unfit| match unfit {
                HandshakeError::Unreadable => {
                    RpcError::internal(format!("`{who}` introduced itself in a way that cannot be read"))
                }
                HandshakeError::Revision(named) => {
                    let data = json!({ "supported": Revision::all_dates(), "requested": named });
                    RpcError::invalid_params(format!("`{who}` speaks MCP {named}, which is not known here"))
                        .with_data(&data)
                }
            })
        });
        match server {
            Ok(server) => {
                peer.greeting = PeerHandshake::Met { told, server };
                peer.level = None;
                peer.has_met = true;
                if era == Era::Legacy {
                    self.outbox.notify(std::slice::from_ref(who), None, "notifications/initialized", None, now);
                }
                if let Some(level) = self.client.level().filter(|_| profile.era() == Era::Legacy) {
                    self.want_level(who, level, profile, now);
                }
            }
            Err(error) => {
                // A participant without this method is not a server, until it joins again.
                let quiet = if error.code == RpcError::METHOD_NOT_FOUND { RETRY_AFTER * 60 } else { RETRY_AFTER };
                peer.greeting = PeerHandshake::Mute { until: now + quiet, error };
            }
        }
        self.peer_ready(who, now);
        if self.peers.get(who).is_some_and(DoorPeer::is_handshake_done) {
            self.list_peers(who, profile, now);
        }
    }

    /// The room did not take a handshake. Whatever waited for it fails; the next call begins with another one.
    pub(super) fn handshake_failed(&mut self, who: &ParticipantId, error: &RpcError, now: Instant) {
        let Some(peer) = self.peers.get_mut(who) else { return };
        peer.greeting = PeerHandshake::Stranger;
        for number in std::mem::take(&mut peer.waiting) {
            self.fail(number, error, now);
        }
        for request in self.client.take_introducing() {
            self.not_introduced(&request, error.clone());
        }
    }

    /// What could not be said or heard for a while was not anybody's silence.
    pub(super) fn forgive(&mut self) {
        for peer in self.peers.values_mut() {
            if matches!(&peer.greeting, PeerHandshake::Mute { error, .. } if error.code != RpcError::METHOD_NOT_FOUND) {
                peer.greeting = PeerHandshake::Stranger;
            }
        }
        self.lists.forgive();
    }

    /// Goes on with what waited for a handshake.
    pub(super) fn peer_ready(&mut self, who: &ParticipantId, now: Instant) {
        let Some(peer) = self.peers.get_mut(who) else { return };
        let waiting: Vec<u64> = std::mem::take(&mut peer.waiting).into();
        // Requests that this handshake serves go first: the next one may undo it.
        let (served, others): (Vec<_>, Vec<_>) = match &peer.greeting {
            PeerHandshake::Met { told, .. } => waiting.into_iter().partition(|number| {
                self.calls.get(*number).is_some_and(|call| call.profile.capabilities.get() == told.get())
            }),
            _ => (waiting, Vec::new()),
        };
        for number in served {
            self.dispatch(number, now);
        }
        for request in self.client.take_introducing() {
            self.introduce_one(request, who, now);
        }
        for number in others {
            self.dispatch(number, now);
        }
    }

    /// Whether a call may be made now: with a handshake where its era wants one. Otherwise it waits, or the error says why it never can.
    pub(super) fn is_peer_ready(
        &mut self,
        who: &ParticipantId,
        number: u64,
        profile: &Arc<ClientProfile>,
        now: Instant,
    ) -> Result<bool, RpcError> {
        let Some(peer) = self.peers.get_mut(who) else { return Err(self.absent(who)) };
        match &peer.greeting {
            PeerHandshake::Met { told, .. } if told.get() == profile.capabilities.get() => {
                if !self.outbox.is_unwelcomed(who) {
                    return Ok(true);
                }
                peer.waiting.push_back(number);
                return Ok(false);
            }
            PeerHandshake::Mute { until, error } if *until > now => return Err(error.clone()),
            _ => {}
        }
        peer.waiting.push_back(number);
        self.start_handshake(who, profile, now);
        Ok(false)
    }

    /// Has somebody log at a level, if it can, or at a more talkative one where something else that is open needs that: a client that wants less
    /// gets less.
    pub(super) fn want_level(
        &mut self,
        who: &ParticipantId,
        level: LogLevel,
        profile: &Arc<ClientProfile>,
        now: Instant,
    ) {
        let level = self.finest_level(who).map_or(level, |finest| finest.min(level));
        let Some(peer) = self.peers.get_mut(who) else { return };
        let logs = peer.server().is_some_and(|server| server.has("logging"));
        let is_told = peer.level == Some(level);
        // The modern era says the level with each request.
        if !logs || is_told || peer.era_for(profile.era()) == Era::Modern {
            return;
        }
        peer.note_level(level);
        let params = to_raw_value(&json!({ "level": level.word() })).expect("a word");
        self.run(who, CallPurpose::Duty, "logging/setLevel", Some(params), profile, now);
    }

    /// Notifies every participant with a handshake.
    pub(super) fn notify_peers(&mut self, method: &str, params: Option<&RawValue>, now: Instant) {
        let is_greeted = |peer: &DoorPeer| peer.is_handshake_done() && peer.has_handshake();
        let met: Vec<_> = self.peers.iter().filter(|(_, peer)| is_greeted(peer)).map(|(who, _)| who.clone()).collect();
        for who in met {
            self.outbox.notify(&[who], None, method, params, now);
        }
    }

    /// Somebody has been silent for too long: nothing is expected of it any more.
    pub(super) fn errand_due(&mut self, number: u64, now: Instant) {
        let Some(call) = self.calls.get(number) else { return };
        // A subscription lasts, and is made again until the room takes it.
        let lasts = matches!(call.purpose, CallPurpose::Listen(_));
        if let Some(refusal) = call.refusal().filter(|_| !lasts) {
            let refusal = refusal.clone();
            return self.fail_refused(number, &refusal, now);
        }
        let who = call.to.clone();
        let error = RpcError::internal(format!("`{who}` did not answer in time"));
        match &call.purpose {
            CallPurpose::Listen(_) => {}
            // A participant that has asked the client waits, while there is a client to answer.
            CallPurpose::Client(asked)
                if asked.pause.is_parked() || (self.questions.is_asking(number) && self.streams.is_attended()) =>
            {
                self.calls.extend(number, now + CALL_TIMEOUT);
            }
            CallPurpose::Client(_) => {
                self.withdraw_from(number, None, now);
                self.fail(number, &error.with_data(&json!({ "code": salon_protocol::Code::Timeout })), now);
            }
            _ => self.fail(number, &error, now),
        }
    }

    /// Asks again after a while what somebody has answered for now.
    pub(super) fn hold_off(&mut self, number: u64, now: Instant) {
        self.calls.unsend(number);
        self.calls.send_again_at(number, now + RETRY_AFTER);
    }
}
