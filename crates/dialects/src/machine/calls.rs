//! From the client to the others: a request is a tool call, with a handshake in the client's name before the first to somebody.

use std::sync::Arc;
use std::time::{Duration, Instant};

use salon_mcp::handshake::Hello;
use salon_mcp::listing::{Item, Listing};
use salon_mcp::{Era, Head, Revision, meta};
use salon_protocol::{
    Code, Envelope, EnvelopeId, McpVersion, Members, Participant, ParticipantId, PresenceEvent, Refusal, RpcError,
    Timestamp, rpc,
};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::message::{Destination, Spoken, read, wrong};
use super::opening::Action;
use super::speech::{Answered, Failure, Message, code_of, read_result, status};
use super::streams::Answer;
use super::{Due, Machine, Purpose, raw};
use crate::{CatalogueQuery, StreamId};

/// Requests of the client that may be open.
const MAX_CALLS: usize = 256;

/// How long a request may be silent.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// The gateway's own tool that is this door's.
const REGISTRY: &str = "registry";

/// Somebody in the room.
#[derive(Debug)]
pub(super) struct Peer {
    mcp: McpVersion,
    greeting: Greeting,
    /// What it listed when that was looked up last, unless it has said since that this changed.
    tools: Option<Arc<[Item]>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Greeting {
    Stranger,
    Greeted,
    /// It has answered the handshake. Whoever answers with an error may still answer calls.
    Met,
}

/// A request of the client's.
#[derive(Debug)]
pub(super) struct Call {
    stream: StreamId,
    to: ParticipantId,
    at: Timestamp,
    tool: Wanted,
    meta: Members,
    state: State,
    deadline: Instant,
    /// News of its progress so far.
    sequence: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// What the other offers is being looked up.
    Consulting,
    /// For a handshake, before a tool of this name is called.
    Waiting(String),
    /// It is in the room, or on its way.
    Sent,
}

/// `payload.tool`.
#[derive(Debug, Deserialize)]
pub(super) struct Wanted {
    pub(super) id: String,
    #[serde(default)]
    pub(super) capability: Option<String>,
    #[serde(default)]
    pub(super) parameters: Option<Box<RawValue>>,
}

impl Wanted {
    fn read(payload: &Members) -> Result<Self, Refusal> {
        let tool = payload.get("tool").ok_or_else(|| wrong("a request needs `payload.tool`"))?;
        let tool: Self = read(tool).ok_or_else(|| {
            wrong("`payload.tool` must be an object with the string `id`, maybe the string `capability`, and maybe `parameters`")
        })?;
        match &tool.parameters {
            Some(parameters) if !parameters.get().starts_with('{') => {
                Err(wrong("`payload.tool.parameters` must be an object"))
            }
            _ => Ok(tool),
        }
    }

    /// What a participant calls it that lists these tools: both names, else the tool's alone.
    fn name(&self, offered: Option<&[Item]>) -> Option<String> {
        let dotted = self.capability.as_ref().map(|capability| format!("{}.{capability}", self.id));
        let has = |name: &str| offered.is_none_or(|items| items.iter().any(|item| *item.name == *name));
        match (dotted, offered) {
            (Some(dotted), Some(_)) if has(&dotted) => Some(dotted),
            _ => Some(self.id.clone()).filter(|id| has(id)),
        }
    }
}

impl Machine {
    /// Takes note of who is in the room.
    pub(super) fn meet(&mut self, roster: &[Arc<Participant>]) {
        for participant in roster.iter().filter(|participant| participant.id != self.options.me) {
            self.peers.insert(participant.id.clone(), Peer::new(participant.mcp.clone()));
        }
        // The host is in every room and on nobody's list.
        self.peers.insert(ParticipantId::host(), Peer::new(McpVersion::default()));
    }

    /// Somebody came or went. What waits for them is told by whoever keeps the room.
    pub(super) fn presence(&mut self, event: PresenceEvent, participant: &Participant, now: Instant) {
        match event {
            PresenceEvent::Heartbeat => {}
            PresenceEvent::Join => {
                self.peers.insert(participant.id.clone(), Peer::new(participant.mcp.clone()));
                self.greetings.retain(|_, who| *who != participant.id);
                // Whoever began anew has not seen the handshake that these waited for.
                self.go_on(&participant.id, now);
            }
            PresenceEvent::Leave => {
                self.peers.remove(&participant.id);
                self.greetings.retain(|_, who| *who != participant.id);
                let gone = absent(&participant.id);
                for id in self.calls_to(&participant.id, |state| *state != State::Sent) {
                    self.fail(&id, &gone, now);
                }
            }
        }
    }

    /// A request: a tool call, or one to this door itself.
    pub(super) fn request(&mut self, stream: StreamId, spoken: Spoken, now: Instant) -> Result<(), Refusal> {
        let Spoken { id: Some(id), at, destination, payload, metadata, security, .. } = spoken else {
            return Err(wrong("a request needs a `messageId`"));
        };
        let Some(Destination::One(to)) = destination else {
            return Err(Refusal::new(
                Code::RecipientRequired,
                "a request needs one participant as its `header.destination`",
            ));
        };
        let tool = Wanted::read(&payload)?;
        if to.is_host() && tool.id == REGISTRY {
            return self.registry(stream, (id, at), tool, now);
        }
        if self.calls.contains_key(&id) {
            return Err(Refusal::new(Code::IdConflict, "a request with this `messageId` is open already"));
        }
        // Those that were taken back count until that has been said.
        if self.calls.len() + self.asides.len() >= MAX_CALLS {
            let told = format!("{MAX_CALLS} requests of yours are open already; wait for an answer");
            return Err(Refusal::new(Code::RateLimited, told));
        }
        if to == self.options.me {
            return Err(wrong("a request to yourself would have nobody to answer it"));
        }
        let Some(peer) = self.peers.get(&to) else { return Err(absent(&to)) };
        let known = peer.tools.as_deref().and_then(|tools| tool.name(Some(tools)));
        let mut own = Members::default();
        own.set("progressToken", id.as_str());
        if let Some(context) = payload.get("context") {
            own.set("context", context);
        }
        if let Some(metadata) = &metadata {
            own.set("metadata", metadata);
        }
        if let Some(permissions) = &security.permissions {
            own.set(meta::PERMISSIONS, permissions);
        }
        let deadline = now + PATIENCE;
        self.timers.insert((deadline, Due::Call(id.clone())));
        let is_known = known.is_some();
        let state = known.map_or(State::Consulting, State::Waiting);
        self.calls.insert(id, Call { stream, to: to.clone(), at, tool, meta: own, state, deadline, sequence: 0 });
        if is_known {
            self.go_on(&to, now);
        } else {
            self.actions.push_back(Action::Ask(CatalogueQuery { who: to, listing: Listing::Tools }));
        }
        Ok(())
    }

    fn calls_to(&self, who: &ParticipantId, is_so: impl Fn(&State) -> bool) -> Vec<EnvelopeId> {
        let mut ids: Vec<_> = self
            .calls
            .iter()
            .filter(|(_, call)| call.to == *who && is_so(&call.state))
            .map(|(id, _)| id.clone())
            .collect();
        ids.sort_unstable();
        ids
    }

    /// It is known what somebody offers, or that this is not to be had.
    pub(super) fn consulted(&mut self, who: &ParticipantId, offered: Option<Arc<[Item]>>, now: Instant) {
        if let Some(peer) = self.peers.get_mut(who) {
            peer.tools.clone_from(&offered);
        }
        for id in self.calls_to(who, |state| *state == State::Consulting) {
            let Some(call) = self.calls.get_mut(&id) else { continue };
            match call.tool.name(offered.as_deref()) {
                Some(name) => call.state = State::Waiting(name),
                None => {
                    let told = format!("`{who}` has no such tool, or not with this capability");
                    self.fail(&id, &Refusal::new(Code::NotFound, told), now);
                }
            }
        }
        self.go_on(who, now);
    }

    /// Somebody's tools are not what they were.
    pub(super) fn tools_changed(&mut self, who: &ParticipantId) {
        if let Some(peer) = self.peers.get_mut(who) {
            peer.tools = None;
        }
    }

    /// Sends what waits for somebody, once a handshake has been made where one is needed.
    fn go_on(&mut self, who: &ParticipantId, now: Instant) {
        let waiting = self.calls_to(who, |state| matches!(state, State::Waiting(_)));
        if waiting.is_empty() {
            return;
        }
        let Some(peer) = self.peers.get_mut(who) else { return };
        if Era::Legacy.with(&peer.mcp) == Era::Legacy {
            match peer.greeting {
                Greeting::Met => {}
                Greeting::Greeted => return,
                Greeting::Stranger => return self.greet(who, now),
            }
        }
        for id in waiting {
            self.send(&id, now);
        }
    }

    fn greet(&mut self, who: &ParticipantId, now: Instant) {
        let info = self.info();
        let params = Hello::default().params(Revision::ROOM, &info);
        let (id, ts) = self.stamps.next(now);
        let payload = rpc::request(&id, "initialize", Some(&params));
        let Ok(envelope) = EnvelopeId::new(&id) else { return };
        let purpose = Purpose::Greeting(envelope.clone());
        self.greetings.insert(envelope, who.clone());
        if let Some(peer) = self.peers.get_mut(who) {
            peer.greeting = Greeting::Greeted;
        }
        if let Err((refusal, purpose)) = self.publish((&id, ts), std::slice::from_ref(who), None, payload, purpose) {
            self.undo(purpose, refusal, now);
        }
    }

    /// Who the client is to those it shakes hands with.
    fn info(&self) -> Box<RawValue> {
        raw(&json!({ "name": self.options.me.as_str(), "version": "" }))
    }

    /// A handshake was not possible: what waited for it is not either.
    pub(super) fn not_greeted(&mut self, envelope: &EnvelopeId, refusal: &Refusal, now: Instant) {
        let Some(who) = self.greetings.remove(envelope) else { return };
        if let Some(peer) = self.peers.get_mut(&who) {
            peer.greeting = Greeting::Stranger;
        }
        for id in self.calls_to(&who, |state| matches!(state, State::Waiting(_))) {
            self.fail(&id, refusal, now);
        }
    }

    fn send(&mut self, id: &EnvelopeId, now: Instant) {
        let Some(call) = self.calls.get_mut(id) else { return };
        let State::Waiting(name) = std::mem::replace(&mut call.state, State::Sent) else { return };
        let mut params = Members::default();
        params.set("name", &name);
        match call.tool.parameters.take() {
            Some(arguments) => params.set("arguments", &arguments),
            None => params.set("arguments", &json!({})),
        }
        params.set("_meta", &std::mem::take(&mut call.meta));
        let (to, at) = (call.to.clone(), call.at);
        let mut params = params.to_raw();
        if self.peers.get(&to).is_some_and(|peer| Era::Legacy.with(&peer.mcp) == Era::Modern) {
            let (hello, info) = (Hello::default(), self.info());
            let asker = meta::Asker { capabilities: &hello.capabilities, info: &info, level: None };
            params = meta::upgrade(Some(&params), asker).unwrap_or(params);
        }
        let payload = rpc::request(id.as_str(), "tools/call", Some(&params));
        let purpose = Purpose::Call(id.clone());
        if let Err((refusal, purpose)) =
            self.publish((id.as_str(), at), std::slice::from_ref(&to), None, payload, purpose)
        {
            self.undo(purpose, refusal, now);
        }
    }

    /// Somebody answered a request of the client's, or a handshake made in its name.
    pub(super) fn response(&mut self, envelope: &Envelope, at: Timestamp, now: Instant) {
        let Some(request) = envelope.correlation() else { return };
        if self.greetings.get(request).is_some_and(|who| who == envelope.from()) {
            self.greetings.remove(request);
            return self.greeted(envelope, now);
        }
        if self.calls.get(request).is_none_or(|call| call.to != *envelope.from() || call.state != State::Sent) {
            return;
        }
        let request = request.clone();
        let Some(call) = self.drop_call(&request) else { return };
        let (answered, failure) = match Head::read(envelope.payload()) {
            Some(Head { result: Some(result), .. }) => read_result(result),
            Some(Head { error: Some(error), .. }) => (Answered::default(), Some(rpc_failure(error))),
            _ => (Answered::default(), Some(Failure { code: Code::ToolError, message: String::new(), details: None })),
        };
        let kind = if failure.is_some() { "error" } else { "response" };
        let mut message = Message::new(kind, envelope.id().as_str(), at, envelope.from(), Some(&self.options.me));
        message = message.about(request.as_str()).with_metadata(answered.metadata);
        if let Some(result) = &answered.result {
            message = message.with("result", result);
        }
        if let Some(context) = &answered.context {
            message = message.with("context", context);
        }
        // An answer from the room is one, whatever it says.
        let answer_status = failure.as_ref().map_or(200, |failure| match failure.code {
            Code::ToolError => 200,
            code => status(code),
        });
        message.error = failure;
        let text = message.text();
        self.streams.answer(call.stream, answer_status, Answer::Text(text));
    }

    fn greeted(&mut self, envelope: &Envelope, now: Instant) {
        let who = envelope.from().clone();
        if let Some(peer) = self.peers.get_mut(&who) {
            peer.greeting = Greeting::Met;
        }
        if matches!(Head::read(envelope.payload()), Some(Head { result: Some(_), .. })) {
            self.tell(&who, None, rpc::notification("notifications/initialized", None), now);
        }
        self.go_on(&who, now);
    }

    /// Somebody told how far it has come with something. What is no request of the client's, or was asked of another, is not told.
    pub(super) fn progress(&mut self, envelope: &Envelope, params: &Members, at: Timestamp, now: Instant) {
        let token: Option<EnvelopeId> = params.get("progressToken").and_then(read);
        let Some(id) = token else { return };
        let me = self.options.me.clone();
        let Some(call) = self.calls.get_mut(&id).filter(|call| call.to == *envelope.from()) else { return };
        self.timers.remove(&(call.deadline, Due::Call(id.clone())));
        call.deadline = now + PATIENCE;
        self.timers.insert((call.deadline, Due::Call(id.clone())));
        call.sequence += 1;
        let mut stream = Members::default();
        stream.set("sequence", &call.sequence);
        for key in ["progress", "total", "message"] {
            if let Some(value) = params.get(key) {
                stream.set(key, value);
            }
        }
        let number = |key: &str| params.get(key).and_then(read::<f64>);
        let is_final =
            number("total").is_some_and(|total| number("progress").is_some_and(|progress| progress >= total));
        stream.set("final", &is_final);
        let message = Message::new("notification", envelope.id().as_str(), at, envelope.from(), Some(&me));
        self.streams.say(message.about(id.as_str()).with("stream", &stream).text());
    }

    /// Whom a request asked has left, or began anew.
    pub(super) fn left_unanswered(&mut self, request: &EnvelopeId, callee: &ParticipantId, now: Instant) {
        let told = format!("`{callee}` left before it answered");
        let refusal = Refusal::new(Code::RecipientNotFound, told);
        self.not_greeted(request, &refusal, now);
        self.fail(request, &refusal, now);
    }

    fn drop_call(&mut self, id: &EnvelopeId) -> Option<Call> {
        let call = self.calls.remove(id)?;
        self.timers.remove(&(call.deadline, Due::Call(id.clone())));
        Some(call)
    }

    /// A request of the client's will have no answer but this.
    pub(super) fn fail(&mut self, id: &EnvelopeId, refusal: &Refusal, now: Instant) {
        if let Some(call) = self.drop_call(id) {
            let refusal = Refusal { regarding: Some(id.clone()), ..refusal.clone() };
            self.refuse(call.stream, &refusal, now);
        }
    }

    /// A request has been silent for too long.
    pub(super) fn overdue(&mut self, id: &EnvelopeId, now: Instant) {
        let Some(call) = self.calls.get(id) else { return };
        let told = format!("`{}` did not answer within {} seconds", call.to, PATIENCE.as_secs());
        if let Some(peer) = self.peers.get_mut(&call.to)
            && peer.greeting == Greeting::Greeted
        {
            let who = call.to.clone();
            peer.greeting = Greeting::Stranger;
            self.greetings.retain(|_, greeted| *greeted != who);
        }
        self.withdraw(id, "the answer took too long", now);
        self.fail(id, &Refusal::new(Code::Timeout, told), now);
    }

    /// The client takes a request of its own back. Says whether there was one.
    pub(super) fn cancel(&mut self, id: &EnvelopeId, now: Instant) -> bool {
        let known = self.calls.contains_key(id);
        self.withdraw(id, "the caller cancelled", now);
        self.fail(id, &Refusal::new(Code::Closing, "the request was cancelled by its sender"), now);
        known
    }

    /// Nobody waits for the answer of a POST any more.
    pub(super) fn hung_up(&mut self, stream: StreamId, now: Instant) {
        let open: Vec<_> =
            self.calls.iter().filter(|(_, call)| call.stream == stream).map(|(id, _)| id.clone()).collect();
        for id in open {
            self.withdraw(&id, "the caller hung up", now);
            self.drop_call(&id);
        }
    }

    /// Tells whom a request asked that nobody waits for it.
    fn withdraw(&mut self, id: &EnvelopeId, reason: &str, now: Instant) {
        let Some(Call { to, state: State::Sent, .. }) = self.calls.get(id) else { return };
        let to = to.clone();
        let params = raw(&json!({ "requestId": id.as_str(), "reason": reason }));
        self.tell(&to, Some(id), rpc::notification("notifications/cancelled", Some(&params)), now);
    }
}

impl Peer {
    fn new(mcp: McpVersion) -> Self {
        Self { mcp, greeting: Greeting::Stranger, tools: None }
    }
}

fn absent(who: &ParticipantId) -> Refusal {
    Refusal::new(Code::RecipientNotFound, format!("`{who}` is not in this room"))
}

/// A JSON-RPC error as this protocol says it.
fn rpc_failure(error: &RawValue) -> Failure {
    let unreadable = |_| RpcError::internal("the error that came cannot be read");
    let RpcError { code, message, data } = serde_json::from_str(error.get()).unwrap_or_else(unreadable);
    let mut members = data.as_deref().and_then(|data| Members::parse(data.get()));
    let word: Option<String> = members.as_ref().and_then(|data| read(data.get("code")?));
    if let (Some(code), Some(data)) = (word.as_deref().and_then(code_of), members.as_mut()) {
        data.remove("code");
        let details = data.remove("details").or_else(|| (!data.is_empty()).then(|| data.to_raw()));
        return Failure { code, message, details };
    }
    let code = match code {
        RpcError::INVALID_PARAMS => Code::InvalidParameters,
        RpcError::METHOD_NOT_FOUND => Code::NotFound,
        _ => Code::ToolError,
    };
    Failure { code, message, details: data }
}
