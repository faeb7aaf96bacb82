//! What the client says: requests, notifications, answers, one by one or in batches.

use std::sync::Arc;
use std::time::Instant;

use salon_mcp::{Revision, RpcHead, meta};
use salon_protocol::{Members, RpcError, rpc};
use serde_json::json;
use serde_json::value::RawValue;

use super::client::RequestAdmission;
use super::counted::code_of;
use super::route::{Body, BodyMessages, ClientMessage, ErrorBody, PostRoute, ReadMessage};
use super::{ClientProfile, Door, DoorRequest, MAX_CALLS, Post, modern_checks};
use crate::StreamId;
use crate::streams::{Channel, PostStyle, STREAM_OPEN_DELAY};

/// Where a message came from.
struct MessageSource {
    stream: StreamId,
    /// Over HTTP, what the request said of itself.
    request: Option<HttpSource>,
}

/// The headers of a request over HTTP, and whether it is answered apart from it.
struct HttpSource {
    headers: Vec<(Box<str>, Box<str>)>,
    apart: bool,
}

impl Door {
    /// Hears a frame on a stream that lasts.
    pub(in crate::mcp) fn receive_body(&mut self, stream: StreamId, body: Result<Body, ErrorBody>, now: Instant) {
        self.streams.client_is_back(now);
        self.hear(MessageSource { stream, request: None }, body, now);
    }

    /// A request over HTTP.
    pub(super) fn receive_post(&mut self, stream: StreamId, post: Post, now: Instant) {
        let Post { body, headers, apart } = post;
        self.streams.client_is_back(now);
        self.hear(MessageSource { stream, request: Some(HttpSource { headers, apart }) }, body, now);
    }

    fn hear(&mut self, source: MessageSource, body: Result<Body, ErrorBody>, now: Instant) {
        match body {
            Err(fault) => self.refuse_message(&source, &fault),
            Ok(Body { messages: BodyMessages::Batch(messages), .. }) => self.receive_batch(source, messages, now),
            Ok(Body { route: PostRoute::Modern, messages: BodyMessages::One(message) }) => {
                self.receive_modern(source, *message, now);
            }
            Ok(Body { messages: BodyMessages::One(message), .. }) => self.receive_legacy(source, *message, now),
        }
    }

    fn refuse_message(&mut self, source: &MessageSource, fault: &ErrorBody) {
        self.outbox.count(code_of(&fault.error));
        self.send_fault(source, fault.status, &fault.message());
    }

    fn send_fault(&mut self, source: &MessageSource, status: u16, message: &RawValue) {
        match &source.request {
            Some(_) => self.streams.refuse(source.stream, status, message),
            None => self.streams.answer(Channel::SESSION, status, message),
        }
    }

    /// Opens a channel for so many requests; what wants no answer is acknowledged.
    fn channel(&mut self, source: &MessageSource, requests: usize, style: PostStyle) -> Channel {
        match &source.request {
            None => Channel::SESSION,
            Some(request) if request.apart => {
                self.streams.accept(source.stream);
                Channel::SESSION
            }
            Some(_) => self.streams.post(source.stream, requests, style),
        }
    }

    fn receive_modern(&mut self, source: MessageSource, message: ClientMessage, now: Instant) {
        let style = PostStyle::default();
        let (Some(method), Some(id)) = (&message.method, &message.id) else {
            self.channel(&source, 0, style);
            // Over HTTP a request is taken back by hanging up, and another client of the same participant may have used the same id.
            if source.request.is_none() {
                self.receive_other(&message.head(), now);
            }
            return;
        };
        let headers = source.request.as_ref().map(|request| &request.headers[..]);
        let asker = match modern_checks::check(headers, method, message.params.as_deref()) {
            Ok(asker) => asker,
            Err(wrong) => {
                self.outbox.count(code_of(&wrong.error));
                return self.send_fault(&source, wrong.status, &rpc::failure(id, &wrong.error));
            }
        };
        let profile = ClientProfile {
            revision: Revision::MODERN,
            capabilities: asker.capabilities,
            info: asker.info,
            level: asker.level,
        };
        let profile = Arc::new(profile);
        self.client.note_profile(&profile);
        let channel = self.channel(&source, 1, style);
        let headers = source.request.map(|request| request.headers);
        if let Some(request) = request(channel, message, profile, headers) {
            self.admit(request, now);
        }
    }

    fn receive_legacy(&mut self, source: MessageSource, message: ClientMessage, now: Instant) {
        let method = message.method.as_deref();
        let style = PostStyle {
            resumable: true,
            // SEP-1699, from 2025-11-25 on.
            prime: self.client.revision() >= Revision::R2025_11_25 && method == Some("tools/call"),
            session_header: message.is_initialize(),
        };
        let channel = self.channel(&source, usize::from(message.is_request()), style);
        self.receive_one(channel, message, now);
    }

    /// Several messages at once, which one revision has; each is answered for itself.
    fn receive_batch(&mut self, source: MessageSource, messages: Vec<ReadMessage>, now: Instant) {
        if self.client.revision() > Revision::R2025_03_26 {
            let told = format!(
                "batches were removed from MCP after 2025-03-26; this session speaks {}",
                self.client.revision()
            );
            return self.refuse_message(&source, &ErrorBody::invalid(told));
        }
        let wants_answer = |message: &ReadMessage| message.as_ref().map_or(true, ClientMessage::is_request);
        let answers = messages.iter().filter(|message| wants_answer(message)).count();
        let channel = self.channel(&source, answers, PostStyle { resumable: true, ..PostStyle::default() });
        for message in messages {
            match message {
                Ok(message) => self.receive_one(channel, message, now),
                Err(fault) => {
                    self.outbox.count(code_of(&fault.error));
                    self.streams.answer(channel, 200, &fault.message());
                }
            }
        }
    }

    fn receive_one(&mut self, channel: Channel, message: ClientMessage, now: Instant) {
        if !message.is_request() {
            return self.receive_other(&message.head(), now);
        }
        let profile = match self.client.introduced() {
            Some(profile) => profile,
            None => Arc::new(ClientProfile {
                revision: Revision::ROOM,
                capabilities: super::empty(),
                info: None,
                level: None,
            }),
        };
        let Some(request) = request(channel, message, profile, None) else { return };
        match &*request.method {
            "initialize" => self.initialize(request, now),
            "ping" => self.streams.answer_request(&request, &Ok(super::empty())),
            _ if !self.client.is_introduced() => {
                let error = RpcError::new(RpcError::INVALID_REQUEST, "a session begins with `initialize`");
                self.refuse(&request, error);
            }
            _ => self.admit(request, now),
        }
    }

    /// Takes a request on, now or when the client has its seat.
    pub(super) fn admit(&mut self, request: DoorRequest, now: Instant) {
        if self.open_requests() >= MAX_CALLS {
            let told = format!("{MAX_CALLS} requests of yours are open already; wait for an answer");
            let error = RpcError::internal(told).with_data(&json!({ "code": "rate_limited" }));
            return self.refuse(&request, error);
        }
        self.streams.open_at(request.channel, Some(now + STREAM_OPEN_DELAY));
        let profile = request.profile.clone();
        match self.client.admit(request) {
            RequestAdmission::Serve(request) => self.serve(request, now),
            RequestAdmission::Wait { asks_for_seat: true } => self.ask_for_seat(&profile),
            RequestAdmission::Wait { asks_for_seat: false } => {}
            RequestAdmission::TooMany(request) => {
                self.refuse(&request, RpcError::internal("too many requests before the room was entered"));
            }
        }
    }

    /// Notifications and answers.
    fn receive_other(&mut self, head: &RpcHead<'_>, now: Instant) {
        match (head.method.as_deref(), head.id) {
            (Some("notifications/cancelled"), _) => self.client_cancelled(head.params, now),
            (Some("notifications/progress"), _) => self.client_progressed(head.params, now),
            (Some("notifications/roots/list_changed"), _) => {
                self.notify_peers("notifications/roots/list_changed", head.params, now)
            }
            (None, Some(id)) => self.client_answered(id, head, now),
            // `notifications/initialized` among them: nothing waits for it here.
            _ => {}
        }
    }
}

fn request(
    channel: Channel,
    message: ClientMessage,
    profile: Arc<ClientProfile>,
    headers: Option<Vec<(Box<str>, Box<str>)>>,
) -> Option<DoorRequest> {
    let ClientMessage { id: Some(id), method: Some(method), params, .. } = message else { return None };
    Some(DoorRequest { channel, id, method, params, profile, headers })
}

/// A string member of a request's parameters.
pub(super) fn text_of(params: Option<&RawValue>, key: &str) -> Option<String> {
    let params = Members::parse(params?.get())?;
    serde_json::from_str(params.get(key)?.get()).ok()
}

/// The progress token of a request.
pub(super) fn token_of(params: Option<&RawValue>) -> Option<Box<RawValue>> {
    params.and_then(meta::progress_token)
}
