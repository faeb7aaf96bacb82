//! What happens in the room, as far as the client is to know.

use std::time::Instant;

use salon_control::{ApprovalRequest, SETTINGS_METHOD};
use salon_mcp::listing::Listing;
use salon_mcp::{Era, meta};
use salon_protocol::{CHAT_METHOD, Envelope, EnvelopeId, Kind, LogLevel, Members, Message, ParticipantId, rpc};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::calls::CALL_TIMEOUT;
use super::door_call::CallPurpose;
use super::incoming::text_of;
use super::{Door, RoomQuery};
use crate::MAX_HOLD;
use crate::streams::Channel;

impl Door {
    pub(super) fn overhear(&mut self, envelope: &Envelope, now: Instant) {
        if *envelope.from() == self.options.me {
            self.call_stored(envelope.id(), now);
            return self.sessions.note(envelope, self.outbox.made(envelope.id()));
        }
        if !envelope.concerns_session(self.outbox.session()) && envelope.to().contains(&self.options.me) {
            return self.overhear_other_session(envelope);
        }
        match (envelope.kind(), envelope.message()) {
            (Kind::Presence, _) => {
                if let Some(presence) = envelope.presence() {
                    self.presence(presence.event, presence.participant, now);
                }
            }
            (Kind::Mcp, Some(Message::Response { .. })) => {
                if let Some(call) = envelope.correlation() {
                    self.sessions.call_over(call);
                }
                if envelope.to_session().is_some() {
                    self.peers.note_session_keeper(envelope.from());
                }
                let request = envelope.correlation();
                if let Some(number) = request.and_then(|request| self.calls.call_to(request, envelope.from())) {
                    self.answered(number, envelope.payload(), now);
                }
            }
            (Kind::Mcp, Some(Message::Request { id, method })) if envelope.to().contains(&self.options.me) => {
                self.asked(envelope, id, method, now);
            }
            (Kind::Mcp, Some(Message::Notification { method })) => {
                let params = envelope.params().and_then(|params| RawValue::from_string(params.to_owned()).ok());
                self.told(envelope, method, params.as_deref(), now);
            }
            _ => {}
        }
    }

    /// Something for another session of the participant.
    fn overhear_other_session(&mut self, envelope: &Envelope) {
        if let (Some(Message::Response { .. }), Some(call)) = (envelope.message(), envelope.correlation()) {
            self.sessions.call_over(call);
        }
    }

    fn told(&mut self, envelope: &Envelope, method: &str, params: Option<&RawValue>, now: Instant) {
        let from = envelope.from();
        if !self.peers.has(from) {
            return;
        }
        if method == SETTINGS_METHOD && from.is_host() {
            return self.settings_changed(now);
        }
        // What names a call of another session of the same participant is for that one, and so is what names a question to it.
        let is_elsewhere = |request: &EnvelopeId| {
            let is_call = self.calls.of_envelope(request).is_some() || self.outbox.made(request);
            !is_call && !self.questions.is_asked_by(request)
        };
        let is_addressed =
            envelope.to().contains(&self.options.me) && !envelope.correlation().is_some_and(is_elsewhere);
        let call = envelope.correlation().and_then(|request| self.calls.call_to(request, from));
        if let Some(listen) = call.and_then(|number| self.calls.listen_of(number)) {
            return self.listen_notified((listen, call.unwrap_or_default()), from, method, params, now);
        }
        if let Some(number) = call.filter(|number| self.is_subscription(*number)) {
            return self.passed_on(Some(number), from, method, params);
        }
        let knows_client = self.peers.get(from).is_some_and(|peer| peer.is_handshake_done() || peer.was_called);
        // A participant that the client has never contacted may not notify it.
        let is_stranger =
            !self.peers.get(from).is_some_and(|peer| peer.has_met) && self.calls.cause(call, from).is_none();
        if is_addressed && knows_client && method.ends_with("/list_changed") {
            self.lists.set_apart(from);
        }
        match method {
            "notifications/tools/list_changed" => self.offer_changed(from, &[Listing::Tools], method, now),
            "notifications/prompts/list_changed" => self.offer_changed(from, &[Listing::Prompts], method, now),
            "notifications/resources/list_changed" => {
                self.offer_changed(from, &[Listing::Resources, Listing::Templates], method, now);
            }
            // A handshake that somebody makes with the client's participant ends here.
            "notifications/initialized" => {}
            // What was said, and what became of it, a client reads by `room.wait` and `history.get`.
            _ if !is_addressed || method == CHAT_METHOD || envelope.is_chat_revision() => {}
            "notifications/progress" => self.progressed(from, params, now),
            "notifications/cancelled" => self.ask_withdrawn(from, params),
            "notifications/resources/updated" => self.updated(from, params),
            _ if is_stranger => {}
            "notifications/message" => self.logged(from, call, envelope.to_session().is_some(), params),
            _ => self.passed_on(call, from, method, params),
        }
    }

    /// A call waits for approval. It may do so for longer than a callee is waited for; what becomes of it the room tells.
    pub(super) fn held(&mut self, held: &ApprovalRequest, now: Instant) {
        let Some(number) = self.calls.of_envelope(&held.id) else { return };
        self.calls.renew(number, now + MAX_HOLD);
        let message = format!("waits for approval: `{}` of `{}`", held.tool, held.callee);
        let params = json!({ "progressToken": held.id, "progress": 0, "message": message });
        let params = to_raw_value(&params).expect("texts are plain JSON");
        self.report_progress(number, &params);
    }

    /// A call of the client's is in the room. The time for its callee begins, which for a held call is when enough have approved it.
    fn call_stored(&mut self, envelope: &EnvelopeId, now: Instant) {
        let number = self.calls.of_envelope(envelope).filter(|number| self.calls.client(*number).is_some());
        if let Some(number) = number {
            self.calls.renew(number, now + CALL_TIMEOUT);
        }
    }

    /// What the client may call may be something else now.
    fn settings_changed(&mut self, now: Instant) {
        self.outbox.query(RoomQuery::Authority);
        self.list_stale(&ParticipantId::host(), &[Listing::Tools], now);
        self.list_changed(Listing::Tools, now);
    }

    fn offer_changed(&mut self, from: &ParticipantId, listings: &[Listing], method: &str, now: Instant) {
        if !self.peers.has(from) {
            return;
        }
        let is_known = listings.iter().any(|listing| self.lists.is_followed(from, *listing));
        // A list that is asked for again tells for itself whether it differs.
        let is_asked = is_known && listings.iter().any(|listing| self.follows(*listing));
        if !self.is_room() && self.client.is_introduced() {
            self.streams.say(Channel::SESSION, &rpc::notification(method, None));
        } else if !is_asked {
            self.list_changed(listings[0], now);
        }
        self.list_stale(from, listings, now);
    }

    fn progressed(&mut self, from: &ParticipantId, params: Option<&RawValue>, now: Instant) {
        let Some(params) = params.and_then(|params| Members::parse(params.get())) else { return };
        let token = params.get("progressToken").and_then(|token| serde_json::from_str::<String>(token.get()).ok());
        let request = token.and_then(|token| EnvelopeId::new(token).ok());
        let Some(number) = request.and_then(|request| self.calls.call_to(&request, from)) else { return };
        // A callee that reports progress is not silent.
        self.calls.renew(number, now + CALL_TIMEOUT);
        self.report_progress(number, &params.to_raw());
    }

    /// Tells the client of a call's progress, where it wants to know.
    fn report_progress(&mut self, number: u64, params: &RawValue) {
        let Some(mut params) = Members::parse(params.get()) else { return };
        let Some(asked) = self.calls.client(number) else { return };
        if let Some(token) = asked.token.as_ref().filter(|_| !asked.pause.is_parked()) {
            params.set("progressToken", token);
            let channel = asked.request.channel;
            self.streams.say(channel, &rpc::notification("notifications/progress", Some(&params.to_raw())));
        }
    }

    /// Tells a client that gets the room's log lines whether the room stores and delivers messages. A modern one hears log lines of its
    /// requests alone.
    pub(super) fn notify_outage(&mut self, level: LogLevel, said: &str) {
        if !self.is_room() || !self.client.is_introduced() || self.client.level().is_some_and(|wanted| level < wanted) {
            return;
        }
        let params = json!({ "level": level.word(), "logger": ParticipantId::host().as_str(), "data": said });
        let params = to_raw_value(&params).expect("texts are plain JSON");
        self.streams.say(Channel::SESSION, &rpc::notification("notifications/message", Some(&params)));
    }

    fn logged(&mut self, from: &ParticipantId, named: Option<u64>, names_session: bool, params: Option<&RawValue>) {
        let level = text_of(params, "level").and_then(|level| level.parse::<LogLevel>().ok());
        let message = rpc::notification("notifications/message", params);
        let cause = self.calls.cause(named, from);
        let channel = cause.and_then(|call| match &call.purpose {
            CallPurpose::Client(asked) => Some((asked.request.channel, call.profile.era(), call.profile.level)),
            _ => None,
        });
        let admits = |wanted: Option<LogLevel>| match (wanted, level) {
            (Some(wanted), Some(level)) => level >= wanted,
            _ => false,
        };
        // One participant is taken as it is, unless it may have been another session that had it say more.
        let level_kept =
            self.client.level().filter(|_| self.is_room() || (!names_session && self.sessions.has_others()));
        match channel {
            Some((channel, Era::Modern, wanted)) if admits(wanted) => self.streams.say(channel, &message),
            Some((_, Era::Modern, _)) => {}
            // Who has not said what it wants takes what its server sends.
            Some((channel, Era::Legacy, _)) if level_kept.is_none() || admits(level_kept) => {
                self.streams.say(channel, &message);
            }
            None if self.client.is_introduced() && (level_kept.is_none() || admits(level_kept)) => {
                self.streams.say(Channel::SESSION, &message);
            }
            _ => {}
        }
    }

    pub(super) fn updated(&mut self, from: &ParticipantId, params: Option<&RawValue>) {
        let Some(uri) = text_of(params, "uri") else { return };
        // In a room anybody could tell of anything.
        if self.is_room() && !self.subscriptions.is_subscribed(from, &uri) {
            return;
        }
        let Some(mut params) = params.and_then(|params| Members::parse(params.get())) else { return };
        if self.is_room() {
            params.set("uri", &self.lists.merged.listed_uri(from, &uri));
        }
        let params = params.to_raw();
        if self.client.is_introduced() {
            self.streams.say(Channel::SESSION, &rpc::notification("notifications/resources/updated", Some(&params)));
        }
        self.notify_listens_updated(from, &uri, &params);
    }

    /// Whatever else somebody tells the client: with the call it is about, else by itself.
    fn passed_on(&mut self, named: Option<u64>, from: &ParticipantId, method: &str, params: Option<&RawValue>) {
        let channel = match self.calls.cause(named, from).map(|call| &call.purpose) {
            // The modern era has no ids of questions, so there is no notification about them.
            Some(CallPurpose::Client(asked))
                if asked.request.is_modern() && method == "notifications/elicitation/complete" =>
            {
                return;
            }
            Some(CallPurpose::Client(asked)) => {
                // A subscription's own news carry its id as the client knows it.
                let is_listen = &*asked.request.method == "subscriptions/listen";
                let id = asked.request.id.clone();
                let patched = params.filter(|_| is_listen).and_then(|params| meta::with_subscription(params, &id));
                let channel = asked.request.channel;
                return self.streams.say(channel, &rpc::notification(method, patched.as_deref().or(params)));
            }
            _ if self.client.is_introduced() => Channel::SESSION,
            _ => return,
        };
        self.streams.say(channel, &rpc::notification(method, params));
    }
}
