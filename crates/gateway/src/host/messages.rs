//! The host's tools about single messages: editing and retracting one's own, redacting.
//!
//! The rules of the room judge what is published here as if its author had published it. Deliberately absent: what a view makes of it.

mod describe;
mod redact;
mod related;
mod repeated;
mod status;

use salon_protocol::{CHAT_EDIT_METHOD, CHAT_RETRACT_METHOD, EnvelopeId, RpcError};
use serde_json::{Value, json};

pub(super) use describe::descriptions;
#[cfg(feature = "nats")]
pub(crate) use status::RECEIPTS;
pub(super) use status::contribute;

use super::arguments::Arguments;
use super::office::{HostRequest, Office};
use super::speech::{HostOutcome, compose, derived_id, failed, structured};
use super::tools::read_chat;

/// The call of a tool about a message.
pub(super) struct MessageCall<'a> {
    office: &'a Office,
    request: &'a HostRequest,
}

impl<'a> MessageCall<'a> {
    /// Whether a tool is one of these.
    pub(super) fn is_one(tool: &str) -> bool {
        matches!(tool, "chat.edit" | "chat.retract" | "message.redact" | "message.status")
    }

    /// Answers a call.
    pub(super) async fn serve(
        office: &'a Office,
        request: &'a HostRequest,
        tool: &str,
        mut arguments: Arguments<'_>,
    ) -> HostOutcome {
        let call = Self { office, request };
        match tool {
            "chat.edit" => {
                let id: EnvelopeId = arguments.required("id")?;
                let params = read_chat(&mut arguments)?;
                arguments.end()?;
                call.revise(&id, CHAT_EDIT_METHOD, params).await
            }
            "chat.retract" => {
                let id: EnvelopeId = arguments.required("id")?;
                arguments.end()?;
                call.revise(&id, CHAT_RETRACT_METHOD, json!({})).await
            }
            "message.redact" => call.redact(arguments).await,
            "message.status" => call.status(arguments).await,
            other => Err(RpcError::invalid_params(format!("the gateway has no tool `{other}`"))),
        }
    }

    /// Publishes what the caller makes of a message of its own.
    async fn revise(&self, original: &EnvelopeId, method: &str, mut params: Value) -> HostOutcome {
        let (caller, asked) = (self.request.caller(), self.request.entry.envelope.id());
        // The request has the same text. Its id is here, so that both can be redacted together.
        params["_meta"] = json!({ "request": asked });
        let payload = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        let id = derived_id(&self.office.toolbox.namespace, "revise", asked);
        let draft = compose(&id, caller, &[], Some(original), payload).stamped(self.request.entry.stamp.clone());
        match self.office.desk.publish(caller, draft).outcome().await {
            Ok(_) => Ok(structured(&json!({ "id": id, "original_id": original }))),
            Err(refusal) => Ok(failed(&refusal.message)),
        }
    }
}
