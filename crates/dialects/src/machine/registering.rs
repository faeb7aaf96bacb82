//! Requests to `registry`, which is this door's own tool at the gateway: what the client offers.

use std::time::Instant;

use salon_mcp::listing::Listing;
use salon_protocol::{Code, EnvelopeId, Members, ParticipantId, RateLimit, Refusal, Timestamp, TokenBucket, rpc};
use serde_json::json;
use serde_json::value::RawValue;

use super::calls::ToolRequest;
use super::message::{read, wrong};
use super::registry::Tool;
use super::schema::Size;
use super::speech::OutgoingMessage;
use super::{Machine, Purpose, raw, sent_before};
use crate::StreamId;
use crate::streams::StreamReply;

/// How many requests that changed something are remembered. Those before them are in the room, which remembers them all.
const MAX_CHANGED: usize = 64;

/// What registering may take at once, and in a second from then on: one for every registration and every pattern in it, and for so many
/// values of its schemas.
const MAX_UNITS: u32 = 512;
const UNITS_PER_SECOND: u32 = 16;
const VALUES_PER_UNIT: usize = 100;

/// What registering may still take. Reading a schema is more work than its length says.
#[derive(Debug)]
pub(super) struct Allowance {
    limit: RateLimit,
    bucket: TokenBucket,
    began: Instant,
}

impl Allowance {
    pub(super) fn new(now: Instant) -> Self {
        let limit = RateLimit::per_second(UNITS_PER_SECOND, MAX_UNITS);
        Self { limit, bucket: TokenBucket::default(), began: now }
    }

    fn spend(&mut self, units: usize, now: Instant) -> Result<(), Refusal> {
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        self.limit.take(&mut self.bucket, units, now.saturating_duration_since(self.began)).map_err(|wait| {
            let seconds = wait.as_millis().div_ceil(1000);
            let told = format!("you have registered too much in a short time; try again in {seconds} seconds");
            Refusal::new(Code::RateLimited, told)
        })
    }
}

/// A change of what is offered, until it is announced.
#[derive(Debug)]
pub(super) struct Registered {
    /// Later ones have greater ones.
    number: u64,
    pub(super) stream: StreamId,
    pub(super) id: EnvelopeId,
    tool: Box<str>,
    before: Option<Tool>,
    result: Box<RawValue>,
}

impl Machine {
    pub(super) fn registry(
        &mut self,
        stream: StreamId,
        (id, at): (EnvelopeId, Timestamp),
        tool: ToolRequest,
        now: Instant,
    ) -> Result<(), Refusal> {
        let parameters = tool.parameters.unwrap_or_else(|| raw(&json!({})));
        match tool.capability.as_deref() {
            Some("register") => {
                let Self { registry, allowance, options, .. } = self;
                let allowed = |size: Size| allowance.spend(1 + size.patterns + size.values / VALUES_PER_UNIT, now);
                let (name, registered) = registry.read(&parameters, options.limits.message, allowed)?;
                let result = raw(&json!({ "id": name, "tools": registered.names(&name) }));
                self.change(stream, (id, at), &name, Some(registered), result, now)
            }
            Some("unregister") => {
                let named =
                    Members::parse(parameters.get()).and_then(|parameters| read::<String>(parameters.get("id")?));
                let name = named.ok_or_else(|| wrong("`id` must be the id of a tool"))?;
                if !self.registry.has(&name) {
                    return Err(Refusal::new(Code::NotFound, "no tool of this id is registered"));
                }
                self.change(stream, (id, at), &name, None, raw(&json!({ "id": name })), now)
            }
            Some("list") => {
                let registered = self.registry.registered();
                self.gateway_answers(stream, &id, &registered, now);
                Ok(())
            }
            _ => Err(Refusal::new(Code::NotFound, "`registry` has the capabilities register, unregister and list")),
        }
    }

    /// Changes what is offered, and tells everybody. The client is answered once that is in the room.
    fn change(
        &mut self,
        stream: StreamId,
        (id, at): (EnvelopeId, Timestamp),
        name: &str,
        tool: Option<Tool>,
        result: Box<RawValue>,
        now: Instant,
    ) -> Result<(), Refusal> {
        let is_same = |purpose: &Purpose| matches!(purpose, Purpose::Registered(change) if change.id == id);
        if self.changed.contains(&id) || self.published.values().any(is_same) {
            return Err(sent_before());
        }
        // At once: a recipient of the news may ask before its author knows that it was sent.
        let before = self.registry.put(name, tool);
        let (number, envelope) = (self.tickets + 1, id.clone());
        let change = Registered { number, stream, id, tool: name.into(), before, result };
        let payload = rpc::notification(Listing::Tools.changed(), None);
        let purpose = Purpose::Registered(Box::new(change));
        if let Err((refusal, purpose)) = self.publish((envelope.as_str(), at), &[], None, payload, purpose) {
            self.undo(purpose, refusal, now);
        }
        Ok(())
    }

    /// A change has been announced.
    pub(super) fn registered(&mut self, change: Registered, now: Instant) {
        let Registered { stream, id, result, .. } = change;
        self.gateway_answers(stream, &id, &result, now);
        if self.changed.len() == MAX_CHANGED {
            self.changed.pop_front();
        }
        self.changed.push_back(id);
    }

    /// A change could not be announced, and is taken back. One of the same tool that came after it stays, and is taken back to what was before both.
    pub(super) fn unregistered(&mut self, change: Registered, refusal: Refusal, now: Instant) {
        let Registered { number, stream, id, tool, before, .. } = change;
        let later = |purpose: &mut Purpose| match purpose {
            Purpose::Registered(later) if later.tool == tool && later.number > number => Some(later.number),
            _ => None,
        };
        let next = self.published.values_mut().filter_map(later).min();
        match next.and_then(|ticket| self.published.get_mut(&ticket)) {
            Some(Purpose::Registered(later)) => later.before = before,
            _ => drop(self.registry.put(&tool, before)),
        }
        self.refuse(stream, &refusal.regarding(Some(id)), now);
    }

    /// Answers a request of the client's in the gateway's name.
    pub(super) fn gateway_answers(&mut self, stream: StreamId, request: &EnvelopeId, result: &RawValue, now: Instant) {
        let (id, at) = self.stamps.next(now);
        let gateway = ParticipantId::host();
        let message =
            OutgoingMessage::new("response", &id, at, &gateway, Some(&self.options.me)).about(request.as_str());
        let text = message.with("result", result).text();
        self.streams.answer_on(stream, 200, StreamReply::Text(text.into()));
    }
}
