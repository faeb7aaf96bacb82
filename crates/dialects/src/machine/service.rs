//! From the others to the client: it is an MCP server in the room, and its tools are what it registered.
//!
//! Invariant: the client is asked only what it registered, by callers that are permitted it, with parameters that fit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use salon_protocol::{Code, Entry, EnvelopeId, McpVersion, Members, ParticipantId, Refusal, RpcError, RpcId, rpc};
use serde_json::json;
use serde_json::value::RawValue;

use super::calls::PERMISSIONS;
use super::message::{Destination, Kind, Spoken, read, wrong};
use super::speech::{Message, write_failure, write_result};
use super::{Due, Machine, Purpose, raw};
use crate::{Action, StreamId};

/// Requests that may wait for the client's answers.
const MOST_ASKED: usize = 1024;

/// Replies that wait for the room to take them, and for how long.
const MOST_LATE: usize = 256;
const PAUSE: Duration = Duration::from_millis(250);

/// For whom the gateway asks, where it does so for somebody.
const ON_BEHALF_OF: &str = "salon/onBehalfOf";

/// A request to the client.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) caller: ParticipantId,
    pub(super) id: RpcId,
    /// What the caller recognises news of its progress by.
    pub(super) token: Option<Box<RawValue>>,
}

/// An answer in the client's name that is the door's own: a list, or a no.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    to: ParticipantId,
    request: EnvelopeId,
    payload: Box<RawValue>,
}

/// A call of which it is to be seen whether its caller is permitted it.
#[derive(Debug)]
pub(super) struct Judged {
    /// Whose permissions count.
    who: ParticipantId,
    entry: Arc<Entry>,
    id: RpcId,
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
        self.meta.get(PERMISSIONS).map(|listed| read(listed).unwrap_or_default())
    }
}

impl Machine {
    /// Somebody asks the client something.
    pub(super) fn request_from(&mut self, entry: &Arc<Entry>, id: &RpcId, method: &str, now: Instant) {
        let outcome = match method {
            "initialize" => Ok(self.introduction(entry.envelope.params())),
            "ping" => Ok(raw(&json!({}))),
            "tools/list" => Ok(self.registry.list()),
            "tools/call" => return self.called(entry, id, now),
            other => Err(RpcError::method_not_found(other)),
        };
        self.reply(entry, id, &outcome, now);
    }

    fn reply(&mut self, entry: &Entry, id: &RpcId, outcome: &Result<Box<RawValue>, RpcError>, now: Instant) {
        let payload = rpc::outcome(&id.to_raw(), outcome);
        let to = entry.envelope.from().clone();
        self.say_reply(Reply { to, request: entry.envelope.id().clone(), payload }, now);
    }

    fn say_reply(&mut self, reply: Reply, now: Instant) {
        let (id, ts) = self.stamps.next(now);
        let Reply { to, request, payload } = reply.clone();
        let purpose = Purpose::Reply(Box::new(reply));
        // One that is longer than the room takes would be so again.
        let _ = self.publish((&id, ts), std::slice::from_ref(&to), Some(&request), payload, purpose);
    }

    /// The room has had too much of the client: what is to be replied in its name waits a little.
    pub(super) fn not_replied(&mut self, reply: Reply, refusal: &Refusal, now: Instant) {
        if refusal.code == Code::RateLimited && self.late.len() < MOST_LATE {
            if self.late.is_empty() {
                self.timers.insert((now + PAUSE, Due::Replies));
            }
            self.late.push(reply);
        }
    }

    pub(super) fn reply_again(&mut self, now: Instant) {
        for reply in std::mem::take(&mut self.late) {
            self.say_reply(reply, now);
        }
    }

    fn introduction(&self, params: Option<&str>) -> Box<RawValue> {
        let asked = params.and_then(Members::parse).and_then(|params| read::<String>(params.get("protocolVersion")?));
        raw(&json!({
            "protocolVersion": McpVersion::answer_to(asked.as_deref().unwrap_or_default()),
            "capabilities": { "tools": { "listChanged": true } },
            "serverInfo": { "name": self.options.me.as_str(), "version": self.options.version },
        }))
    }

    fn called(&mut self, entry: &Arc<Entry>, id: &RpcId, now: Instant) {
        let Some(called) = Called::read(entry) else {
            return self.reply(entry, id, &Err(RpcError::invalid_params("`name` must be the name of a tool")), now);
        };
        let Some(tool) = self.registry.find(&called.name) else {
            let error = told(RpcError::INVALID_PARAMS, Code::NotFound, "no such tool is registered here".into());
            return self.reply(entry, id, &Err(error), now);
        };
        if tool.permissions.is_empty() && called.narrowed().is_none() {
            return self.pass_on(entry, id, &[], now);
        }
        // Nobody gains by having the gateway ask.
        let behalf = called.meta.get(ON_BEHALF_OF).filter(|_| entry.envelope.from().is_host());
        let who = behalf.and_then(read).unwrap_or_else(|| entry.envelope.from().clone());
        self.judged.push(Judged { who: who.clone(), entry: entry.clone(), id: id.clone() });
        self.actions.push_back(Action::Permissions(who));
    }

    /// It is known what somebody is permitted.
    pub(super) fn permitted(&mut self, who: &ParticipantId, granted: &[String], now: Instant) {
        let (known, others) = std::mem::take(&mut self.judged).into_iter().partition(|judged| judged.who == *who);
        self.judged = others;
        let known: Vec<Judged> = known;
        for Judged { entry, id, .. } in known {
            self.pass_on(&entry, &id, granted, now);
        }
    }

    /// Asks the client, unless the caller may not or the parameters do not fit.
    fn pass_on(&mut self, entry: &Arc<Entry>, id: &RpcId, granted: &[String], now: Instant) {
        match self.ask(entry, id, granted) {
            Ok(text) => self.streams.say(text),
            Err(error) => self.reply(entry, id, &Err(error), now),
        }
    }

    fn ask(&mut self, entry: &Entry, id: &RpcId, granted: &[String]) -> Result<String, RpcError> {
        let envelope = &entry.envelope;
        let unknown = || told(RpcError::INVALID_PARAMS, Code::NotFound, "no such tool is registered here".into());
        let called = Called::read(entry).ok_or_else(unknown)?;
        let tool = self.registry.find(&called.name).ok_or_else(unknown)?;
        let narrowed = called.narrowed();
        let is_permitted = |wanted: &String| {
            granted.contains(wanted) && narrowed.as_ref().is_none_or(|narrowed| narrowed.contains(wanted))
        };
        if let Some(lacking) = tool.permissions.iter().find(|wanted| !is_permitted(wanted)) {
            let message = format!("`{}` needs the permission `{lacking}`", called.name);
            return Err(told(FORBIDDEN, Code::Forbidden, message));
        }
        if !called.arguments.get().starts_with('{') {
            return Err(RpcError::invalid_params("`arguments` must be an object"));
        }
        tool.check(&called.arguments).map_err(|why| told(RpcError::INVALID_PARAMS, Code::InvalidParameters, why))?;
        if self.asked.len() >= MOST_ASKED {
            let message = format!("{MOST_ASKED} requests wait for answers already");
            return Err(told(RpcError::INTERNAL, Code::RateLimited, message));
        }
        let mut wanted = Members::default();
        wanted.set("id", tool.id);
        wanted.set("capability", tool.capability);
        wanted.set("parameters", &called.arguments);
        let mut message =
            Message::new("request", envelope.id().as_str(), entry.arrived, envelope.from(), Some(&self.options.me))
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
        let asked = Asked { caller: envelope.from().clone(), id: id.clone(), token };
        self.asked.insert(envelope.id().clone(), asked);
        Ok(text)
    }

    /// The client answers a request.
    pub(super) fn answered(&mut self, stream: StreamId, spoken: Spoken, now: Instant) -> Result<(), Refusal> {
        let Spoken { id, at, kind, request, destination, payload, metadata, error, .. } = spoken;
        let Some(request) = request else {
            return Err(Refusal::new(
                Code::CorrelationRequired,
                "`header.requestId` must name the request that is answered",
            ));
        };
        let unknown = || {
            let told = format!("`{request}` is no request that waits for your answer");
            Refusal::new(Code::CorrelationMismatch, told)
        };
        let asked = self.asked.get(&request).ok_or_else(unknown)?;
        if destination.is_some_and(|to| to != Destination::One(asked.caller.clone())) {
            return Err(Refusal::new(
                Code::CorrelationMismatch,
                format!("`{request}` was asked by `{}`", asked.caller),
            ));
        }
        let context = payload.get("context");
        let result = match (&kind, &error) {
            (Kind::Error, Some(error)) => write_failure(error, context, metadata.as_ref()),
            (Kind::Error, None) => return Err(wrong("an error needs `error`")),
            _ => write_result(payload.get("result"), context, metadata.as_ref()),
        };
        let Some(asked) = self.asked.remove(&request) else { return Err(unknown()) };
        let response = rpc::response(&asked.id.to_raw(), &result);
        let caller = asked.caller.clone();
        let made = self.stamps.next(now).0;
        let envelope = id.as_ref().map_or(made.as_str(), EnvelopeId::as_str).to_owned();
        let purpose = Purpose::Answer { stream, id, request: request.clone(), asked: Box::new(asked) };
        let published = self.publish((&envelope, at), std::slice::from_ref(&caller), Some(&request), response, purpose);
        if let Err((refusal, purpose)) = published {
            self.undo(purpose, refusal, now);
        }
        Ok(())
    }

    /// A caller does not wait any more.
    pub(super) fn cancelled(&mut self, entry: &Entry, params: &Members) {
        let Some(id) = params.get("requestId").and_then(|id| RpcId::parse(id.get())) else { return };
        let caller = entry.envelope.from();
        let found = self.asked.iter().find(|(_, asked)| asked.caller == *caller && asked.id == id);
        let Some(request) = found.map(|(request, _)| request.clone()) else { return };
        self.asked.remove(&request);
        let mut cancelled = Members::default();
        if let Some(reason) = params.get("reason") {
            cancelled.set("reason", reason);
        }
        let message =
            Message::new("notification", entry.envelope.id().as_str(), entry.arrived, caller, Some(&self.options.me));
        self.streams.say(message.about(request.as_str()).with("cancelled", &cancelled).text());
    }

    /// Whoever has left waits for nothing.
    pub(super) fn forget_caller(&mut self, who: &ParticipantId) {
        self.asked.retain(|_, asked| asked.caller != *who);
    }
}

/// The JSON-RPC code of a call that is not permitted.
const FORBIDDEN: i64 = -32000;

fn told(code: i64, word: Code, message: String) -> RpcError {
    RpcError::new(code, message).with_data(&json!({ "code": word }))
}
