//! From the others to the client: it is an MCP server in the room, and its tools are what it registered.
//!
//! Invariants: the client is asked only what it registered, by callers that are permitted it by their entries' stamps, with parameters that fit. A caller is
//! answered: by the client, or in its name when it does not, and no reply is dropped while its caller may wait for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use salon_mcp::meta;
use salon_protocol::{
    Code, Entry, EnvelopeId, McpVersion, Members, ParticipantId, Refusal, RpcError, RpcId, Stamp, Timestamp, rpc,
};
use serde_json::json;
use serde_json::value::RawValue;

use super::calls::SILENCE_TIMEOUT;
use super::message::{MachineDestination, MachineMessage, MessageKind, read, wrong};
use super::speech::{OutgoingMessage, write_failure, write_result};
use super::{Machine, MachineTimer, Purpose, raw};
use crate::StreamId;

/// Requests that may wait for the client's answers, in all and of one caller.
const MAX_PENDING_QUESTIONS: usize = 1024;
const MAX_OF_ONE: usize = 64;

/// Replies that may be on their way before no more of the room is read.
pub(super) const MAX_REPLIES: usize = 256;

/// How long one waits that the room had too much to take.
pub(super) const RETRY_DELAY: Duration = Duration::from_millis(250);

/// A request to the client.
#[derive(Debug)]
pub(super) struct IncomingCall {
    pub(super) caller: ParticipantId,
    /// For whom it is asked: the caller, unless that is the gateway.
    who: ParticipantId,
    pub(super) id: RpcId,
    /// What the caller recognises news of its progress by.
    pub(super) token: Option<Box<RawValue>>,
    /// When the client will have been silent for too long.
    deadline: Instant,
}

/// An answer in the client's name that is the door's own: a list, or a refusal.
#[derive(Debug, Clone)]
pub(super) struct DoorReply {
    /// Kept when it is sent again: the room may have stored it without an acknowledgement.
    stamp: (String, Timestamp),
    to: ParticipantId,
    request: EnvelopeId,
    id: RpcId,
    payload: Box<RawValue>,
}

/// The parameters of `tools/call`, as far as they mean something here.
struct Called {
    name: String,
    arguments: Box<RawValue>,
    meta: Members,
}

impl Called {
    fn read(entry: &Entry) -> Option<Self> {
        let mut params = Members::parse(entry.envelope.params()?)?;
        let name = read(params.get("name")?)?;
        let arguments = params.remove("arguments").unwrap_or_else(|| raw(&json!({})));
        let meta = params.remove("_meta").and_then(|meta| Members::parse(meta.get())).unwrap_or_default();
        Some(Self { name, arguments, meta })
    }

    fn narrowed(&self) -> Option<Vec<String>> {
        // A list that cannot be read permits nothing.
        self.meta.get(meta::PERMISSIONS).map(|listed| read(listed).unwrap_or_default())
    }

    /// For whom it is asked. Nobody but the gateway asks for another.
    fn origin(&self, entry: &Entry) -> ParticipantId {
        let from = entry.envelope.from();
        let named = self.meta.get(meta::ON_BEHALF_OF).filter(|_| from.is_host());
        named.and_then(read).unwrap_or_else(|| from.clone())
    }
}

impl Machine {
    /// Somebody asks the client something.
    pub(super) fn request_from(&mut self, entry: &Arc<Entry>, id: &RpcId, method: &str, now: Instant) {
        let outcome = match method {
            "initialize" => Ok(self.introduction(entry.envelope.params())),
            "ping" => Ok(raw(&json!({}))),
            "tools/list" => Ok(self.registry.list()),
            "tools/call" => return self.pass_on(entry, id, now),
            other => Err(RpcError::method_not_found(other)),
        };
        self.reply(entry, id, &outcome, now);
    }

    fn reply(&mut self, entry: &Entry, id: &RpcId, outcome: &Result<Box<RawValue>, RpcError>, now: Instant) {
        self.reply_to(entry.envelope.from().clone(), entry.envelope.id().clone(), id.clone(), outcome, now);
    }

    fn reply_to(
        &mut self,
        to: ParticipantId,
        request: EnvelopeId,
        id: RpcId,
        outcome: &Result<Box<RawValue>, RpcError>,
        now: Instant,
    ) {
        let (stamp, payload) = (self.stamps.next(now), rpc::outcome(&id.to_raw(), outcome));
        self.publish_reply(DoorReply { stamp, to, request, id, payload });
    }

    fn publish_reply(&mut self, reply: DoorReply) {
        if self.try_reply(reply.clone()).is_err() {
            // One that is longer than the room takes would be so again; that it is can still be said.
            let message = "the answer is longer than a message may be".to_owned();
            let error = rpc_error(RpcError::INTERNAL, Code::TooLarge, message);
            let payload = rpc::outcome(&reply.id.to_raw(), &Err(error));
            let _ = self.try_reply(DoorReply { payload, ..reply });
        }
    }

    fn try_reply(&mut self, reply: DoorReply) -> Result<(), Refusal> {
        let DoorReply { stamp: (id, ts), to, request, payload, .. } = reply.clone();
        let purpose = Purpose::Reply(Box::new(reply));
        let published = self.publish((&id, ts), std::slice::from_ref(&to), Some(&request), payload, purpose);
        published.map_err(|(refusal, _)| refusal)?;
        self.replying += 1;
        Ok(())
    }

    /// The room does not take a reply. Where it has too much to do, or can store nothing for now, the reply waits a little; otherwise
    /// nobody waits for it any more.
    pub(super) fn not_replied(&mut self, reply: DoorReply, refusal: &Refusal, now: Instant) {
        if matches!(refusal.code, Code::RateLimited | Code::Closing) {
            // An outage's end is waited for instead.
            if self.unsent_replies.is_empty() && !self.is_out {
                self.timers.insert((now + RETRY_DELAY, MachineTimer::Replies));
            }
            self.unsent_replies.push(reply);
        }
    }

    pub(super) fn reply_again(&mut self) {
        for reply in std::mem::take(&mut self.unsent_replies) {
            self.publish_reply(reply);
        }
    }

    fn introduction(&self, params: Option<&str>) -> Box<RawValue> {
        let incoming =
            params.and_then(Members::parse).and_then(|params| read::<String>(params.get("protocolVersion")?));
        raw(&json!({
            "protocolVersion": McpVersion::answer_to(incoming.as_deref().unwrap_or_default()),
            "capabilities": { "tools": { "listChanged": true } },
            "serverInfo": { "name": self.options.me.as_str(), "version": self.options.version },
        }))
    }

    /// Asks the client, unless the caller may not or the parameters do not fit.
    fn pass_on(&mut self, entry: &Entry, id: &RpcId, now: Instant) {
        match self.ask(entry, id, now) {
            Ok(text) => self.streams.ask(text, entry.envelope.id().clone()),
            Err(error) => self.reply(entry, id, &Err(error), now),
        }
    }

    fn ask(&mut self, entry: &Entry, id: &RpcId, now: Instant) -> Result<String, RpcError> {
        let envelope = &entry.envelope;
        let unnamed = || RpcError::invalid_params("`name` must be the name of a tool");
        let unknown = || rpc_error(RpcError::INVALID_PARAMS, Code::NotFound, "no such tool is registered here".into());
        let called = Called::read(entry).ok_or_else(unnamed)?;
        let tool = self.registry.find(&called.name).ok_or_else(unknown)?;
        let narrowed = called.narrowed();
        // What the gateway asks for somebody has that caller's stamp.
        let granted = entry.stamp.as_ref().map(Stamp::permissions).unwrap_or_default();
        let is_permitted = |wanted: &String| {
            granted.contains(wanted) && narrowed.as_ref().is_none_or(|narrowed| narrowed.contains(wanted))
        };
        if let Some(lacking) = tool.permissions.iter().find(|wanted| !is_permitted(wanted)) {
            let message = format!("`{}` needs the permission `{lacking}`", called.name);
            return Err(rpc_error(RpcError::SERVER_ERROR, Code::Forbidden, message));
        }
        if !called.arguments.get().starts_with('{') {
            return Err(RpcError::invalid_params("`arguments` must be an object"));
        }
        let who = called.origin(entry);
        // Before the arguments are looked at, which takes longer.
        let full = |message: String| Err(rpc_error(RpcError::INTERNAL, Code::RateLimited, message));
        if self.incoming.len() >= MAX_PENDING_QUESTIONS {
            return full(format!("{MAX_PENDING_QUESTIONS} requests wait for answers already"));
        }
        if self.incoming.values().filter(|incoming| incoming.who == who).count() >= MAX_OF_ONE {
            return full(format!("{MAX_OF_ONE} requests of yours wait for answers already"));
        }
        tool.check(&called.arguments)
            .map_err(|unfit| rpc_error(RpcError::INVALID_PARAMS, unfit.code(), unfit.describe()))?;
        let mut wanted = Members::default();
        wanted.set("id", tool.id);
        wanted.set("capability", tool.capability);
        wanted.set("parameters", &called.arguments);
        let mut message = OutgoingMessage::new(
            "request",
            envelope.id().as_str(),
            entry.arrived,
            envelope.from(),
            Some(&self.options.me),
        )
        .with("tool", &wanted)
        .with_metadata(called.meta.get("metadata").map(ToOwned::to_owned));
        if let Some(context) = called.meta.get("context") {
            message = message.with("context", context);
        }
        if let Some(narrowed) = &narrowed {
            let left: Vec<_> = narrowed.iter().filter(|permission| granted.contains(permission)).collect();
            message = message.with("security", &json!({ "permissions": left }));
        }
        let text = message.text();
        let token = called.meta.get("progressToken").map(ToOwned::to_owned);
        let incoming = IncomingCall {
            caller: envelope.from().clone(),
            who,
            id: id.clone(),
            token,
            deadline: now + SILENCE_TIMEOUT,
        };
        self.wait_for(envelope.id().clone(), incoming);
        Ok(text)
    }

    /// Waits for the client's answer to a request.
    pub(super) fn wait_for(&mut self, request: EnvelopeId, incoming: IncomingCall) {
        self.timers.insert((incoming.deadline, MachineTimer::Incoming(request.clone())));
        self.incoming.insert(request, incoming);
    }

    /// Nothing more is waited for.
    fn remove_incoming(&mut self, request: &EnvelopeId) -> Option<IncomingCall> {
        let incoming = self.incoming.remove(request)?;
        self.timers.remove(&(incoming.deadline, MachineTimer::Incoming(request.clone())));
        Some(incoming)
    }

    /// The client is at work on a request.
    pub(super) fn lengthen(&mut self, request: &EnvelopeId, now: Instant) {
        if let Some(mut incoming) = self.remove_incoming(request) {
            incoming.deadline = now + SILENCE_TIMEOUT;
            self.wait_for(request.clone(), incoming);
        }
    }

    /// The client has been silent about a request for too long: its caller gets an error, and so does the client.
    pub(super) fn unanswered(&mut self, request: &EnvelopeId, now: Instant) {
        let Some(IncomingCall { caller, id, .. }) = self.remove_incoming(request) else { return };
        let reason = format!("`{}` did not answer within {} seconds", self.options.me, SILENCE_TIMEOUT.as_secs());
        let mut cancelled = Members::default();
        cancelled.set("reason", &reason);
        self.reply_to(caller, request.clone(), id, &Err(rpc_error(RpcError::SERVER_ERROR, Code::Timeout, reason)), now);
        let (made, at) = self.stamps.next(now);
        let gateway = ParticipantId::host();
        let message = OutgoingMessage::new("notification", &made, at, &gateway, Some(&self.options.me));
        self.notify_client(message.about(request.as_str()).with("cancelled", &cancelled).text());
    }

    /// Answers what was asked of a client that listens to nothing.
    pub(super) fn answer_undelivered(&mut self, now: Instant) {
        for request in self.streams.take_unread() {
            let Some(IncomingCall { caller, id, .. }) = self.remove_incoming(&request) else { continue };
            let message = format!("`{}` does not take its messages, and too many wait for it", self.options.me);
            self.reply_to(
                caller,
                request,
                id,
                &Err(rpc_error(RpcError::SERVER_ERROR, Code::RateLimited, message)),
                now,
            );
        }
    }

    /// The client answers a request.
    pub(super) fn answered(&mut self, stream: StreamId, spoken: MachineMessage, now: Instant) -> Result<(), Refusal> {
        let MachineMessage { id, at, kind, request, destination, payload, metadata, error, .. } = spoken;
        let Some(request) = request else {
            return Err(Refusal::new(
                Code::CorrelationRequired,
                "`header.requestId` must name the request that is answered",
            ));
        };
        let unknown = || {
            let rpc_error = format!("`{request}` is no request that waits for your answer");
            Refusal::new(Code::CorrelationMismatch, rpc_error)
        };
        let incoming = self.incoming.get(&request).ok_or_else(unknown)?;
        if destination.is_some_and(|to| to != MachineDestination::One(incoming.caller.clone())) {
            return Err(Refusal::new(
                Code::CorrelationMismatch,
                format!("`{request}` was asked by `{}`", incoming.caller),
            ));
        }
        let context = payload.get("context");
        let result = match (&kind, &error) {
            (MessageKind::Error, Some(error)) => write_failure(error, context, metadata.as_ref()),
            (MessageKind::Error, None) => return Err(wrong("an error needs `error`")),
            _ => write_result(payload.get("result"), context, metadata.as_ref()),
        };
        let Some(incoming) = self.remove_incoming(&request) else { return Err(unknown()) };
        let response = rpc::response(&incoming.id.to_raw(), &result);
        let caller = incoming.caller.clone();
        let made = self.stamps.next(now).0;
        let envelope = id.as_ref().map_or(made.as_str(), EnvelopeId::as_str).to_owned();
        let purpose = Purpose::Answer { stream, id, request: request.clone(), incoming: Box::new(incoming) };
        let published = self.publish((&envelope, at), std::slice::from_ref(&caller), Some(&request), response, purpose);
        if let Err((refusal, purpose)) = published {
            self.undo(purpose, refusal, now);
        }
        Ok(())
    }

    /// Answers a caller with an error in place of an answer that the room has no place for. Short answers are exempt from quotas.
    pub(super) fn fail_caller(&mut self, request: EnvelopeId, incoming: IncomingCall, refusal: &Refusal, now: Instant) {
        let message = format!("the answer of `{}` does not fit into the room: {}", self.options.me, refusal.message);
        let error = rpc_error(RpcError::SERVER_ERROR, refusal.code, message);
        self.reply_to(incoming.caller, request, incoming.id, &Err(error), now);
    }

    /// A caller does not wait any more.
    pub(super) fn cancelled(&mut self, entry: &Entry, params: &Members) {
        let Some(id) = params.get("requestId").and_then(|id| RpcId::parse(id.get())) else { return };
        let caller = entry.envelope.from();
        let found = self.incoming.iter().find(|(_, incoming)| incoming.caller == *caller && incoming.id == id);
        let Some(request) = found.map(|(request, _)| request.clone()) else { return };
        self.remove_incoming(&request);
        let mut cancelled = Members::default();
        if let Some(reason) = params.get("reason") {
            cancelled.set("reason", reason);
        }
        let message = OutgoingMessage::new(
            "notification",
            entry.envelope.id().as_str(),
            entry.arrived,
            caller,
            Some(&self.options.me),
        );
        self.notify_client(message.about(request.as_str()).with("cancelled", &cancelled).text());
    }

    /// A participant that has left waits for nothing.
    pub(super) fn forget_caller(&mut self, who: &ParticipantId) {
        let theirs = self.incoming.iter().filter(|(_, incoming)| incoming.caller == *who);
        for request in theirs.map(|(request, _)| request.clone()).collect::<Vec<_>>() {
            self.remove_incoming(&request);
        }
    }
}

fn rpc_error(code: i64, word: Code, message: String) -> RpcError {
    RpcError::new(code, message).with_data(&json!({ "code": word }))
}
