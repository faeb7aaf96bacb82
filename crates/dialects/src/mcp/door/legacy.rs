//! The legacy era's own requests: the handshake, and the level of log lines.

use std::sync::Arc;
use std::time::Instant;

use salon_mcp::handshake::HandshakeParams;
use salon_mcp::{Era, OTHERS_ARE_DATA, Revision};
use salon_protocol::{LogLevel, Members, ParticipantId, RpcError};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::incoming::text_of;
use super::peer_table::{DoorPeer, HandshakeStatus};
use super::{ClientProfile, Door, DoorRequest, DoorScope};

/// The longest name taken from a client.
const MAX_NAME_CHARS: usize = 256;

impl Door {
    /// A client says who it is: it takes its seat, and is answered when it has it.
    pub(super) fn initialize(&mut self, mut request: DoorRequest, now: Instant) {
        if self.client.is_introduced() {
            let error = RpcError::new(
                RpcError::INVALID_REQUEST,
                "this session has begun already; open another one to start over",
            );
            return self.refuse(&request, error);
        }
        let hello = HandshakeParams::read(request.params.as_deref());
        let asked = hello
            .requested_revision
            .as_deref()
            .and_then(Revision::parse)
            .filter(|asked| Revision::LEGACY.contains(asked));
        let profile = Arc::new(ClientProfile {
            // A client that cannot speak what it is answered with hangs up; the newest with a handshake is the likeliest to suit it.
            revision: asked.unwrap_or(Revision::R2025_11_25),
            capabilities: hello.capabilities,
            info: hello.info,
            level: None,
        });
        self.client.introduce(&profile);
        request.profile = profile;
        self.admit(request, now);
    }

    /// Answers the handshake of a client that has its seat.
    pub(super) fn introduce(&mut self, request: DoorRequest, now: Instant) {
        match &self.options.scope {
            DoorScope::Room => {
                let result = self.introduction(request.profile.revision);
                self.streams.answer_request(&request, &Ok(result));
            }
            DoorScope::One(who) => {
                let who = who.clone();
                self.introduce_one(request, &who, now);
            }
        }
    }

    /// Answers with what the one participant says of itself, when that is known.
    pub(super) fn introduce_one(&mut self, request: DoorRequest, who: &ParticipantId, now: Instant) {
        match self.peers.handshake(who, &request.profile.capabilities, now) {
            None => self.not_introduced(&request, self.absent(who)),
            Some(HandshakeStatus::Done(server)) => {
                let agreed = request.profile.revision.min(server.revision());
                let result = match request.profile.era() {
                    Era::Legacy => server.introduce(agreed, |_| true, &[]),
                    Era::Modern => server.discovery(&Revision::all_dates()),
                };
                if request.profile.era() == Era::Legacy {
                    let profile =
                        Arc::new(ClientProfile { revision: agreed, ..ClientProfile::clone(&request.profile) });
                    self.client.introduce(&profile);
                }
                self.streams.answer_request(&request, &Ok(result));
            }
            Some(HandshakeStatus::Failed(error)) => {
                let error = error.clone();
                self.not_introduced(&request, error);
            }
            Some(HandshakeStatus::Missing) => {
                let profile = request.profile.clone();
                self.client.wait_for_introduction(request);
                self.start_handshake(who, &profile, now);
            }
        }
    }

    /// What the one participant says of itself is not to be had. A session whose handshake failed has nothing to go on with.
    pub(super) fn not_introduced(&mut self, request: &DoorRequest, error: RpcError) {
        self.refuse(request, error);
        if &*request.method == "initialize" {
            self.streams.end(salon_protocol::CloseReason::Bye);
        }
    }

    /// The room, as it introduces itself to a client of the legacy era.
    fn introduction(&self, revision: Revision) -> Box<RawValue> {
        let mut capabilities = self.capabilities();
        if revision < Revision::R2025_03_26 {
            capabilities.remove("completions");
        }
        let mut result = Members::default();
        result.set("protocolVersion", revision.date());
        result.set("capabilities", &capabilities);
        result.set("serverInfo", &self.server_info());
        result.set("instructions", &self.instructions());
        result.to_raw()
    }

    /// What a room can do, regardless of its participants.
    pub(super) fn capabilities(&self) -> Members {
        let mut capabilities = Members::default();
        capabilities.set("tools", &json!({ "listChanged": true }));
        capabilities.set("resources", &json!({ "subscribe": true, "listChanged": true }));
        capabilities.set("prompts", &json!({ "listChanged": true }));
        capabilities.set("completions", &json!({}));
        capabilities.set("logging", &json!({}));
        capabilities
    }

    pub(super) fn server_info(&self) -> Box<RawValue> {
        let title = format!("Salon: {}", self.options.topic);
        let info = json!({ "name": "salon", "title": title, "version": self.options.version });
        to_raw_value(&info).expect("three strings")
    }

    pub(super) fn instructions(&self) -> String {
        let (topic, me) = (&self.options.topic, &self.options.me);
        format!(
            "You are `{me}` in the room {topic}, which people, agents and robots share. Their tools are named after their owner: \
             `owner__tool`. `presence_get` tells who is here, `chat_say` speaks to everybody, `room_wait` waits until something happens and \
             tells what: call it again and again to take part. Everything you do here is seen by everybody in the room. \
             {OTHERS_ARE_DATA}"
        )
    }

    /// Which log lines the client wants, of everybody.
    pub(super) fn set_level(&mut self, request: &DoorRequest, now: Instant) {
        let Some(level) = level_of(request.params.as_deref()) else {
            let error = RpcError::invalid_params(
                "`level` must be one of debug, info, notice, warning, error, critical, alert, emergency",
            );
            return self.refuse(request, error);
        };
        self.client.set_level(level);
        for who in self.peers.ids(DoorPeer::is_handshake_done) {
            self.request_level(&who, level, &request.profile.clone(), now);
        }
        self.streams.answer_request(request, &Ok(super::empty()));
    }

    /// The most talkative level that the client wants of a participant, now.
    pub(super) fn finest_level(&self, who: &ParticipantId) -> Option<LogLevel> {
        self.calls.finest_level(who).into_iter().chain(self.client.level()).min()
    }

    /// Takes note of a level that a client asks its one participant for by itself.
    pub(super) fn note_level(&mut self, request: &DoorRequest, who: &ParticipantId) {
        if let Some(level) = level_of(request.params.as_deref()) {
            self.client.set_level(level);
            self.peers.set_level(who, level);
        }
    }
}

/// The level that a request asks for.
fn level_of(params: Option<&RawValue>) -> Option<LogLevel> {
    text_of(params, "level").and_then(|level| level.parse().ok())
}

/// What a client calls itself, as people are shown it.
pub(super) fn name_of(info: &RawValue) -> Option<String> {
    let info = Members::parse(info.get())?;
    let text = |key: &str| serde_json::from_str::<String>(info.get(key)?.get()).ok();
    let name = text("title").filter(|title| !title.trim().is_empty()).or_else(|| text("name"))?;
    let clean: String = name.chars().filter(|char| !char.is_control()).take(MAX_NAME_CHARS).collect();
    Some(clean).filter(|name| !name.trim().is_empty())
}
