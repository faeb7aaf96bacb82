//! From the client to the others: a request is a tool call. What the participant offers is looked up first; [`callers`](super::callers)
//! makes the call.

use std::sync::Arc;
use std::time::{Duration, Instant};

use salon_mcp::caller::{CallId, RequestId};
use salon_mcp::listing::{ListItem, Listing};
use salon_mcp::{Era, meta};
use salon_protocol::{
    Code, Envelope, EnvelopeId, McpVersion, Members, Participant, ParticipantId, PresenceEvent, Refusal, Timestamp, rpc,
};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::callers::MachinePeer;
use super::message::{MachineDestination, MachineMessage, read, wrong};
use super::news::take_meta;
use super::opening::DialectAction;
use super::speech::OutgoingMessage;
use super::{Machine, MachineTimer, raw};
use crate::{CatalogueQuery, StreamId};

/// Requests of the client that may be open.
const MAX_CALLS: usize = 256;

/// How long a request may go on without an answer or progress, and how long looking up what a participant offers may take.
pub(super) const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);

/// The gateway's own tool that is this door's.
const REGISTRY: &str = "registry";

/// A request of the client's.
#[derive(Debug)]
pub(super) struct MachineCall {
    pub(super) stream: StreamId,
    pub(super) to: ParticipantId,
    pub(super) at: Timestamp,
    tool: ToolRequest,
    meta: Members,
    pub(super) state: RequestStage,
    /// The request that is in the room, or on its way there.
    pub(super) sent: Option<(RequestId, EnvelopeId)>,
    /// How often its progress was reported.
    sequence: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestStage {
    /// What the participant offers is being looked up, until this moment.
    Consulting(Instant),
    /// The participant's caller has it.
    Calling(CallId),
}

/// `payload.tool`.
#[derive(Debug, Deserialize)]
pub(super) struct ToolRequest {
    pub(super) id: String,
    #[serde(default)]
    pub(super) capability: Option<String>,
    #[serde(default)]
    pub(super) parameters: Option<Box<RawValue>>,
}

impl ToolRequest {
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

    /// The tool's name at a participant that offers these tools: with the capability where such a tool is listed, else without. Where the
    /// list is unknown it is what the client named: another capability must not be called in its place.
    fn name(&self, offered: Option<&[ListItem]>) -> Option<String> {
        let with_capability = self.capability.as_ref().map(|capability| format!("{}.{capability}", self.id));
        let Some(items) = offered else { return Some(with_capability.unwrap_or_else(|| self.id.clone())) };
        let is_listed = |name: &String| items.iter().any(|item| *item.name == **name);
        with_capability.filter(is_listed).or_else(|| Some(self.id.clone()).filter(is_listed))
    }
}

impl Machine {
    /// Takes note of who is in the room.
    pub(super) fn meet(&mut self, roster: &[Arc<Participant>]) {
        let others = roster.iter().filter(|participant| participant.id != self.options.me);
        // The host is in every room and in no roster.
        let host = (ParticipantId::host(), McpVersion::default());
        let known: Vec<_> = others.map(|one| (one.id.clone(), one.mcp.clone())).chain([host]).collect();
        for (id, mcp) in known {
            let peer = MachinePeer::new(&self.options.me, Era::Legacy.with(&mcp));
            self.peers.insert(id, peer);
        }
    }

    /// Somebody came or went. The room tells which requests in it have failed by that.
    pub(super) fn presence(&mut self, event: PresenceEvent, participant: &Participant, now: Instant) {
        let who = &participant.id;
        match event {
            PresenceEvent::Heartbeat | PresenceEvent::Status => {}
            PresenceEvent::Join => {
                let era = Era::Legacy.with(&participant.mcp);
                match self.peers.get_mut(who) {
                    // It has started over: it has not seen the handshake that some calls wait for.
                    Some(peer) => peer.started_over(era, now),
                    None => drop(self.peers.insert(who.clone(), MachinePeer::new(&self.options.me, era))),
                }
                self.forget_handshakes_with(who);
                self.perform(who, None, now);
            }
            PresenceEvent::Leave => {
                self.forget_handshakes_with(who);
                let gone = absent(who);
                for id in self.calls_to(who, |call| call.sent.is_none()) {
                    self.fail(&id, &gone, now);
                }
                if let Some(peer) = self.peers.get_mut(who) {
                    peer.is_here = false;
                }
                self.forget_if_absent(who);
            }
        }
    }

    /// A request: a tool call, or one to this door itself.
    pub(super) fn request(&mut self, stream: StreamId, spoken: MachineMessage, now: Instant) -> Result<(), Refusal> {
        let MachineMessage { id: Some(id), at, destination, payload, metadata, security, .. } = spoken else {
            return Err(wrong("a request needs a `messageId`"));
        };
        let Some(MachineDestination::One(to)) = destination else {
            return Err(Refusal::new(
                Code::RecipientRequired,
                "a request needs one participant as its `header.destination`",
            ));
        };
        let tool = ToolRequest::read(&payload)?;
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
        let Some(peer) = self.peers.get(&to).filter(|peer| peer.is_here) else { return Err(absent(&to)) };
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
        let deadline = now + SILENCE_TIMEOUT;
        self.timers.insert((deadline, MachineTimer::Consulting(id.clone())));
        let state = RequestStage::Consulting(deadline);
        self.calls.insert(
            id.clone(),
            MachineCall { stream, to: to.clone(), at, tool, meta: own, state, sent: None, sequence: 0 },
        );
        match known {
            Some(name) => self.call(&id, &name, now),
            None => self.actions.push_back(DialectAction::Ask(CatalogueQuery { who: to, listing: Listing::Tools })),
        }
        Ok(())
    }

    pub(super) fn calls_to(&self, who: &ParticipantId, is_so: impl Fn(&MachineCall) -> bool) -> Vec<EnvelopeId> {
        let mut ids: Vec<_> =
            self.calls.iter().filter(|(_, call)| call.to == *who && is_so(call)).map(|(id, _)| id.clone()).collect();
        ids.sort_unstable();
        ids
    }

    /// It is known what somebody offers, or that this is not to be had.
    pub(super) fn consulted(&mut self, who: &ParticipantId, offered: Option<Arc<[ListItem]>>, now: Instant) {
        if let Some(peer) = self.peers.get_mut(who) {
            peer.tools.clone_from(&offered);
        }
        for id in self.calls_to(who, |call| matches!(call.state, RequestStage::Consulting(_))) {
            let Some(call) = self.calls.get(&id) else { continue };
            match call.tool.name(offered.as_deref()) {
                Some(name) => self.call(&id, &name, now),
                None => {
                    let told = format!("`{who}` has no such tool, or not with this capability");
                    self.fail(&id, &Refusal::new(Code::NotFound, told), now);
                }
            }
        }
    }

    /// Somebody's tools are not what they were.
    pub(super) fn tools_changed(&mut self, who: &ParticipantId) {
        if let Some(peer) = self.peers.get_mut(who) {
            peer.tools = None;
        }
    }

    /// Hands a request to the caller of its participant.
    fn call(&mut self, id: &EnvelopeId, name: &str, now: Instant) {
        let Some(call) = self.calls.get_mut(id) else { return };
        let mut params = Members::default();
        params.set("name", name);
        match call.tool.parameters.take() {
            Some(arguments) => params.set("arguments", &arguments),
            None => params.set("arguments", &json!({})),
        }
        params.set("_meta", &std::mem::take(&mut call.meta));
        let who = call.to.clone();
        let Some(peer) = self.peers.get_mut(&who) else { return };
        let calling = RequestStage::Calling(peer.caller.call("tools/call", Some(&params.to_raw()), now));
        if let RequestStage::Consulting(deadline) = std::mem::replace(&mut call.state, calling) {
            self.timers.remove(&(deadline, MachineTimer::Consulting(id.clone())));
        }
        self.perform(&who, None, now);
    }

    /// A participant reported progress. Progress of another's request is not passed on.
    pub(super) fn progress(&mut self, envelope: &Envelope, mut params: Members, at: Timestamp, now: Instant) {
        let token: Option<EnvelopeId> = params.get("progressToken").and_then(read);
        let Some(id) = token else { return };
        let own = take_meta(&mut params);
        let me = self.options.me.clone();
        let Some(call) = self.calls.get_mut(&id).filter(|call| call.to == *envelope.from()) else { return };
        if let (Some((request, _)), Some(peer)) = (&call.sent, self.peers.get_mut(&call.to)) {
            peer.caller.progressed(*request, now);
        }
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
        let message = OutgoingMessage::new("notification", envelope.id().as_str(), at, envelope.from(), Some(&me));
        let message = message.about(id.as_str()).with_context(own.context).with("stream", &stream);
        self.notify_client(message.with_metadata(own.metadata).text());
        self.schedule(envelope.from());
    }

    /// Takes a request of the client's away.
    pub(super) fn drop_call(&mut self, id: &EnvelopeId) -> Option<MachineCall> {
        let call = self.calls.remove(id)?;
        if let Some((_, envelope)) = &call.sent {
            self.sent.remove(envelope);
        }
        match call.state {
            RequestStage::Consulting(deadline) => {
                self.timers.remove(&(deadline, MachineTimer::Consulting(id.clone())));
            }
            RequestStage::Calling(calling) => {
                if let Some(peer) = self.peers.get_mut(&call.to) {
                    peer.caller.forget(calling);
                }
            }
        }
        self.schedule(&call.to);
        self.forget_if_absent(&call.to);
        Some(call)
    }

    /// A request of the client's will have no answer but this.
    pub(super) fn fail(&mut self, id: &EnvelopeId, refusal: &Refusal, now: Instant) {
        if let Some(call) = self.drop_call(id) {
            let refusal = Refusal { regarding: Some(id.clone()), ..refusal.clone() };
            self.refuse(call.stream, &refusal, now);
        }
    }

    /// It was not found out in time what a participant offers.
    pub(super) fn not_consulted(&mut self, id: &EnvelopeId, now: Instant) {
        if let Some(call) = self.calls.get(id) {
            let refusal = silent(&call.to);
            self.fail(id, &refusal, now);
        }
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
        let Some(MachineCall { to, sent: Some((_, envelope)), .. }) = self.calls.get(id) else { return };
        if !self.sent.contains_key(envelope) {
            return;
        }
        let (to, envelope) = (to.clone(), envelope.clone());
        self.notify_cancelled(&to, &envelope, reason, now);
    }

    pub(super) fn notify_cancelled(&mut self, to: &ParticipantId, envelope: &EnvelopeId, reason: &str, now: Instant) {
        let params = raw(&json!({ "requestId": envelope.as_str(), "reason": reason }));
        self.tell(to, Some(envelope), rpc::notification("notifications/cancelled", Some(&params)), now);
    }
}

fn absent(who: &ParticipantId) -> Refusal {
    Refusal::new(Code::RecipientNotFound, format!("`{who}` is not in this room"))
}

pub(super) fn silent(who: &ParticipantId) -> Refusal {
    let told = format!("`{who}` did not answer within {} seconds", SILENCE_TIMEOUT.as_secs());
    Refusal::new(Code::Timeout, told)
}
