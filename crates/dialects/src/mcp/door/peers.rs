//! The others in the room, as servers: performing the MCP handshake with them in the client's name.

use std::sync::Arc;
use std::time::{Duration, Instant};

use salon_mcp::{Era, Revision, code, meta};
use salon_protocol::{LogLevel, McpVersion, Members, Participant, ParticipantId, PresenceEvent, RpcError};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::calls::CALL_TIMEOUT;
use super::door_call::{CallPurpose, DoorCall};
use super::peer_table::{DoorPeer, HandshakeEnd, HandshakeStatus, RETRY_AFTER};
use super::{ClientProfile, Door, DoorScope};

/// How long a participant may take to answer a request of the door's own.
const OWN_REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
impl Door {
    /// Takes note of who is in the room.
    pub(super) fn meet(&mut self, roster: &[Arc<Participant>]) {
        for participant in roster {
            if self.is_peer(&participant.id) && !self.is_left_out(participant) {
                self.lists.found(&participant.id);
                self.peers.joined(&participant.id, participant.mcp.clone());
            }
        }
        // The host is in every room and in no roster.
        let host = ParticipantId::host();
        if self.is_peer(&host) {
            self.lists.found(&host);
            self.peers.joined(&host, McpVersion::default());
        }
    }

    fn is_peer(&self, who: &ParticipantId) -> bool {
        match &self.options.scope {
            DoorScope::Room => *who != self.options.me,
            // A participant is not its own server: requests to itself would have no answer.
            DoorScope::One(one) => who == one && *who != self.options.me,
        }
    }

    /// Whether a participant offers nothing: the ghost of a bridge, unless the client has come to see it alone.
    fn is_left_out(&self, participant: &Participant) -> bool {
        participant.via.is_some() && matches!(self.options.scope, DoorScope::Room)
    }

    /// A participant joined or left.
    pub(super) fn presence(&mut self, event: PresenceEvent, participant: Participant, now: Instant) {
        let who = participant.id.clone();
        if matches!(event, PresenceEvent::Join | PresenceEvent::Leave) {
            self.sessions.forget(&who);
        }
        if !self.is_peer(&who) || self.is_left_out(&participant) {
            return;
        }
        match event {
            PresenceEvent::Heartbeat | PresenceEvent::Status => {}
            PresenceEvent::Leave => {
                self.peers.left(&who);
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
                let waiting = self.peers.joined(&who, participant.mcp);
                self.lists.joined(&who);
                if let Some(profile) = self.client.latest() {
                    self.resume_news(&who, &profile, now);
                    // What waited for the one before waits for this one.
                    for number in waiting {
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
        let Some(era) = self.peers.begin_handshake(who, &profile.capabilities, profile.era()) else { return };
        // Where there is no handshake, discovery says the same.
        if era == Era::Modern {
            self.run(who, CallPurpose::Handshake, "server/discover", None, profile, now);
            return;
        }
        let hello = profile.hello();
        let revision = if profile.era() == Era::Modern { Revision::R2025_11_25 } else { profile.revision };
        let params = hello.params(revision, &self.info());
        // The host asks only clients of this door about calls that wait for approval: others read the notices.
        let for_host = who.is_host().then(|| meta::with_mcp_door(&params, profile.era())).flatten();
        self.run(who, CallPurpose::Handshake, "initialize", Some(for_host.unwrap_or(params)), profile, now);
    }

    /// The client calls a participant, which may ask it something from now on. A server that asked for the roots before, and was refused, asks
    /// again when it hears that they changed.
    pub(super) fn grant_questions(&mut self, who: &ParticipantId, profile: &ClientProfile, now: Instant) {
        if self.peers.grant_questions(who) && announces_roots(&profile.capabilities) {
            self.outbox.notify(std::slice::from_ref(who), None, "notifications/roots/list_changed", None, now);
        }
    }

    /// Who the client is, where it has not said so itself.
    pub(super) fn info(&self) -> Box<RawValue> {
        let info = json!({ "name": self.options.me.as_str(), "version": "" });
        to_raw_value(&info).expect("two strings")
    }

    /// Sends a request of the door's own.
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
        let Some(end) = self.peers.end_handshake(who, outcome, profile.era(), now) else { return };
        if let HandshakeEnd::Done(era) = end {
            if era == Era::Legacy {
                self.outbox.notify(std::slice::from_ref(who), None, "notifications/initialized", None, now);
            }
            if let Some(level) = self.client.level().filter(|_| profile.era() == Era::Legacy) {
                self.request_level(who, level, profile, now);
            }
        }
        self.peer_ready(who, now);
        if self.peers.get(who).is_some_and(DoorPeer::is_handshake_done) {
            self.list_peers(who, profile, now);
        }
    }

    /// The room did not take a handshake. Whatever waited for it fails; the next call begins with another one.
    pub(super) fn handshake_failed(&mut self, who: &ParticipantId, error: &RpcError, now: Instant) {
        for number in self.peers.drop_handshake(who) {
            self.fail(number, error, now);
        }
        for request in self.client.take_introducing() {
            self.not_introduced(&request, error.clone());
        }
    }

    /// The room stores messages again: participants that did not answer meanwhile are asked again.
    pub(super) fn forgive(&mut self) {
        self.peers.forgive();
        self.lists.forgive();
    }

    /// Goes on with what waited for a handshake.
    pub(super) fn peer_ready(&mut self, who: &ParticipantId, now: Instant) {
        if !self.peers.has(who) {
            return;
        }
        let capabilities = |number| self.calls.get(number).map(|call| &*call.profile.capabilities);
        // Requests that this handshake serves go first: the next one may undo it.
        let (served, others) = self.peers.take_waiting(who, capabilities);
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
        let is_done = match self.peers.handshake(who, &profile.capabilities, now) {
            None => return Err(self.absent(who)),
            Some(HandshakeStatus::Failed(error)) => return Err(error.clone()),
            Some(HandshakeStatus::Done(_)) => true,
            Some(HandshakeStatus::Missing) => false,
        };
        if is_done && !self.outbox.is_unwelcomed(who) {
            return Ok(true);
        }
        self.peers.wait(who, number);
        if !is_done {
            self.start_handshake(who, profile, now);
        }
        Ok(false)
    }

    /// Has somebody log at a level, if it can, or at a more talkative one where something else that is open needs that: a client that wants less
    /// gets less.
    pub(super) fn request_level(
        &mut self,
        who: &ParticipantId,
        level: LogLevel,
        profile: &Arc<ClientProfile>,
        now: Instant,
    ) {
        let level = self.finest_level(who).map_or(level, |finest| finest.min(level));
        if self.peers.note_level(who, level, profile.era()) {
            let params = to_raw_value(&json!({ "level": level.word() })).expect("a word");
            self.run(who, CallPurpose::Duty, "logging/setLevel", Some(params), profile, now);
        }
    }

    /// Notifies every participant with a handshake.
    pub(super) fn notify_peers(&mut self, method: &str, params: Option<&RawValue>, now: Instant) {
        for who in self.peers.ids(|peer| peer.is_handshake_done() && peer.era_for(Era::Legacy) == Era::Legacy) {
            self.outbox.notify(&[who], None, method, params, now);
        }
    }

    /// A participant has been silent for too long: the request has failed.
    pub(super) fn own_request_due(&mut self, number: u64, now: Instant) {
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

    /// Sends a request again after a while that was answered for now.
    pub(super) fn hold_off(&mut self, number: u64, now: Instant) {
        self.calls.unsend(number);
        self.calls.send_again_at(number, now + RETRY_AFTER);
    }
}

/// Whether a client tells its servers that its roots changed.
fn announces_roots(capabilities: &RawValue) -> bool {
    let roots = Members::parse(capabilities.get()).and_then(|mut capabilities| capabilities.remove("roots"));
    let roots = roots.and_then(|roots| Members::parse(roots.get()));
    roots.is_some_and(|roots| roots.get("listChanged").is_some_and(|told| told.get() == "true"))
}
