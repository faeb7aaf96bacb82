//! What the client says: requests, notifications, answers, one by one or in batches.

use std::sync::Arc;
use std::time::Instant;

use salon_mcp::{Head, Revision, meta};
use salon_protocol::{Code, Members, RpcError, rpc};
use serde_json::json;
use serde_json::value::RawValue;

use super::calls::read_error;
use super::counted::code_of;
use super::route::{self, Route};
use super::{Door, MAX_CALLS, MAX_EARLY, Manner, Place, Post, Request};
use crate::streams::{Channel, PostStyle, STREAM_OPEN_DELAY};
use crate::{Frame, StreamId};

const INVALID_REQUEST: i64 = -32600;
/// Messages one batch may have.
const MAX_IN_BATCH: usize = 64;

/// Where a message came from.
struct Source {
    stream: StreamId,
    /// Over HTTP, what the request said of itself.
    post: Option<Post>,
}

impl Door {
    pub(super) fn hear(&mut self, stream: StreamId, frame: Frame, now: Instant) {
        let post = self.posts.remove(&stream);
        let source = Source { stream, post };
        let Frame::Text(text) = frame else {
            return self.refuse_message(&source, 400, INVALID_REQUEST, "a message is text, not binary");
        };
        let version = source.post.as_ref().and_then(|post| header(post, "mcp-protocol-version"));
        match route::route(version, &text) {
            Route::Refused(fault) => {
                if let Ok(message) = RawValue::from_string(fault.body.into()) {
                    let error = Members::parse(message.get()).and_then(|mut message| message.remove("error"));
                    self.count(error.map_or(Code::InvalidEnvelope, |error| code_of(&read_error(&error))));
                    self.say_fault(&source, fault.status, &message);
                }
            }
            Route::Modern => self.hear_modern(source, &text, now),
            Route::Initialize | Route::Legacy if text.trim_start().starts_with('[') => {
                self.hear_batch(source, &text, now);
            }
            Route::Initialize | Route::Legacy => self.hear_legacy(source, &text, now),
        }
    }

    fn say_fault(&mut self, source: &Source, status: u16, message: &RawValue) {
        match &source.post {
            Some(_) => self.outlets.refuse(source.stream, status, message),
            None => self.outlets.answer(Channel::SESSION, status, message),
        }
    }

    fn refuse_message(&mut self, source: &Source, status: u16, code: i64, told: &str) {
        let null = RawValue::NULL;
        let error = RpcError::new(code, told);
        self.count(code_of(&error));
        let message = rpc::failure(null, &error);
        self.say_fault(source, status, &message);
    }

    /// Opens a channel for so many requests; what wants no answer is acknowledged.
    fn channel(&mut self, source: &Source, requests: usize, style: PostStyle) -> Channel {
        match &source.post {
            None => Channel::SESSION,
            Some(post) if post.apart => {
                self.outlets.accept(source.stream);
                Channel::SESSION
            }
            Some(_) => self.outlets.post(source.stream, requests, style),
        }
    }

    fn hear_modern(&mut self, source: Source, text: &str, now: Instant) {
        let Some(head) = Head::read(text) else {
            return self.refuse_message(&source, 400, INVALID_REQUEST, "this is no JSON-RPC message");
        };
        let style = PostStyle { resumable: false, prime: false, session_header: false };
        let (Some(method), Some(id)) = (head.method.as_deref(), head.id) else {
            self.channel(&source, 0, style);
            // Over HTTP a request is taken back by hanging up, and another client of the same participant may have used the same id.
            if source.post.is_none() {
                self.hear_the_rest(&head, now);
            }
            return;
        };
        let headers = source.post.as_ref().map(|post| &post.headers[..]);
        let asker = match route::check(headers, method, head.params) {
            Ok(asker) => asker,
            Err(wrong) => {
                self.count(code_of(&wrong.error));
                let message = rpc::failure(id, &wrong.error);
                return self.say_fault(&source, wrong.status, &message);
            }
        };
        let manner = Manner {
            revision: Revision::MODERN,
            capabilities: asker.capabilities,
            info: asker.info,
            level: asker.level,
        };
        let manner = Arc::new(manner);
        self.manner = Some(manner.clone());
        let channel = self.channel(&source, 1, style);
        let request = Request {
            channel,
            id: id.to_owned(),
            method: method.into(),
            params: head.params.map(ToOwned::to_owned),
            manner,
            headers: source.post.map(|post| post.headers),
        };
        self.admit(request, now);
    }

    fn hear_legacy(&mut self, source: Source, text: &str, now: Instant) {
        let Some(head) = Head::read(text) else {
            return self.refuse_message(&source, 400, INVALID_REQUEST, "this is no JSON-RPC message");
        };
        let is_request = head.method.is_some() && head.id.is_some();
        let revision = self.revision();
        let method = head.method.as_deref().unwrap_or_default();
        let style = PostStyle {
            resumable: true,
            prime: revision >= Revision::R2025_11_25 && method == "tools/call",
            session_header: method == "initialize",
        };
        let channel = self.channel(&source, usize::from(is_request), style);
        self.hear_one(channel, &head, now);
    }

    fn revision(&self) -> Revision {
        self.introduced.as_ref().map_or(Revision::ROOM, |manner| manner.revision)
    }

    /// Several messages at once, which one revision has; each is answered for itself.
    fn hear_batch(&mut self, source: Source, text: &str, now: Instant) {
        if self.revision() > Revision::R2025_03_26 {
            let told =
                format!("batches were removed from MCP after 2025-03-26; this session speaks {}", self.revision());
            return self.refuse_message(&source, 400, INVALID_REQUEST, &told);
        }
        let messages: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
        if messages.is_empty() || messages.len() > MAX_IN_BATCH {
            let told = format!("a batch has 1 to {MAX_IN_BATCH} messages");
            return self.refuse_message(&source, 400, INVALID_REQUEST, &told);
        }
        let heads: Vec<_> = messages.iter().map(|message| (message, route::read(message.get()))).collect();
        let wants_answer = |head: &Result<Head<'_>, _>| head.as_ref().map_or(true, |head| head.request_id().is_some());
        let answers = heads.iter().filter(|(_, head)| wants_answer(head)).count();
        let style = PostStyle { resumable: true, prime: false, session_header: false };
        let channel = self.channel(&source, answers, style);
        for (message, head) in heads {
            match head {
                Ok(head) => self.hear_one(channel, &head, now),
                Err(told) => {
                    let error = RpcError::new(INVALID_REQUEST, told);
                    self.count(code_of(&error));
                    let id = route::readable_id(message.get());
                    self.outlets.answer(channel, 200, &*rpc::failure(&id, &error));
                }
            }
        }
    }

    fn hear_one(&mut self, channel: Channel, head: &Head<'_>, now: Instant) {
        let (Some(method), Some(id)) = (head.method.as_deref(), head.id) else {
            return self.hear_the_rest(head, now);
        };
        let manner = match self.introduced.clone() {
            Some(manner) => manner,
            None => {
                Arc::new(Manner { revision: Revision::ROOM, capabilities: super::empty(), info: None, level: None })
            }
        };
        let params = head.params.map(ToOwned::to_owned);
        let request = Request { channel, id: id.to_owned(), method: method.into(), params, manner, headers: None };
        if method == "initialize" {
            return self.initialize(request, now);
        }
        if method == "ping" {
            return self.answer(&request, &Ok(super::empty()));
        }
        if !self.is_introduced() {
            let error = RpcError::new(INVALID_REQUEST, "a session begins with `initialize`");
            return self.refuse(&request, error);
        }
        self.admit(request, now);
    }

    /// Whether a legacy client has said who it is.
    pub(super) fn is_introduced(&self) -> bool {
        self.introduced.is_some()
    }

    /// Takes a request on, now or when the client has its seat.
    pub(super) fn admit(&mut self, request: Request, now: Instant) {
        if self.open_requests() >= MAX_CALLS {
            let told = format!("{MAX_CALLS} requests of yours are open already; wait for an answer");
            let error = RpcError::internal(told).with_data(&json!({ "code": "rate_limited" }));
            return self.refuse(&request, error);
        }
        self.outlets.open_at(request.channel, Some(now + STREAM_OPEN_DELAY));
        match self.place {
            Place::Inside => self.serve(request, now),
            Place::Outside | Place::Entering if self.early.len() >= MAX_EARLY => {
                self.refuse(&request, RpcError::internal("too many requests before the room was entered"));
            }
            Place::Outside | Place::Entering => {
                self.join(&request.manner.clone());
                self.early.push_back(request);
            }
        }
    }

    /// Notifications and answers.
    fn hear_the_rest(&mut self, head: &Head<'_>, now: Instant) {
        match (head.method.as_deref(), head.id) {
            (Some("notifications/cancelled"), _) => self.client_cancelled(head.params, now),
            (Some("notifications/progress"), _) => self.client_progressed(head.params, now),
            (Some("notifications/roots/list_changed"), _) => {
                self.tell_met("notifications/roots/list_changed", head.params, now)
            }
            (None, Some(id)) => self.client_answered(id, head, now),
            // `notifications/initialized` among them: nothing waits for it here.
            _ => {}
        }
    }
}

pub(super) fn header<'a>(post: &'a Post, name: &str) -> Option<&'a str> {
    post.headers.iter().find(|(known, _)| **known == *name).map(|(_, value)| &**value)
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
