//! Requests to `registry`, which is this door's own tool at the gateway: what the client offers.

use std::time::Instant;

use salon_protocol::{Code, EnvelopeId, Members, ParticipantId, Refusal, rpc};
use serde_json::json;
use serde_json::value::RawValue;

use super::calls::Wanted;
use super::message::{read, wrong};
use super::registry::Tool;
use super::speech::Message;
use super::streams::Answer;
use super::{Machine, Purpose, raw};
use crate::StreamId;
use crate::mcp::listing::Listing;

impl Machine {
    pub(super) fn registry(
        &mut self,
        stream: StreamId,
        id: EnvelopeId,
        tool: Wanted,
        now: Instant,
    ) -> Result<(), Refusal> {
        let parameters = tool.parameters.unwrap_or_else(|| raw(&json!({})));
        match tool.capability.as_deref() {
            Some("register") => {
                let (name, registered) = self.registry.read(&parameters, self.options.limits.message)?;
                let result = raw(&json!({ "id": name, "tools": registered.names(&name) }));
                self.change(stream, id, &name, Some(registered), result, now);
                Ok(())
            }
            Some("unregister") => {
                let named =
                    Members::parse(parameters.get()).and_then(|parameters| read::<String>(parameters.get("id")?));
                let name = named.ok_or_else(|| wrong("`id` must be the id of a tool"))?;
                if !self.registry.has(&name) {
                    return Err(Refusal::new(Code::NotFound, "no tool of this id is registered"));
                }
                self.change(stream, id, &name, None, raw(&json!({ "id": name })), now);
                Ok(())
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
        id: EnvelopeId,
        name: &str,
        tool: Option<Tool>,
        result: Box<RawValue>,
        now: Instant,
    ) {
        // At once: whoever hears the news may ask before its author knows that it was told.
        let before = self.registry.put(name, tool).map(Box::new);
        let purpose = Purpose::Registered { stream, id, tool: name.into(), before, result };
        let (envelope, ts) = self.stamps.next(now);
        let payload = rpc::notification(Listing::Tools.changed(), None);
        if let Err((refusal, purpose)) = self.publish((&envelope, ts), &[], None, payload, purpose) {
            self.undo(purpose, refusal, now);
        }
    }

    /// Answers a request of the client's in the gateway's name.
    pub(super) fn gateway_answers(&mut self, stream: StreamId, request: &EnvelopeId, result: &RawValue, now: Instant) {
        let (id, at) = self.stamps.next(now);
        let gateway = ParticipantId::host();
        let message = Message::new("response", &id, at, &gateway, Some(&self.options.me)).about(request.as_str());
        let text = message.with("result", result).text();
        self.streams.answer(stream, 200, Answer::Text(text));
    }
}
