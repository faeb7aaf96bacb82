//! Whose call a server's question on a shared lane belongs to.
//!
//! Over Streamable HTTP a question comes on the stream of its call. Elsewhere nothing names the call, so a question is passed on only while all
//! calls that the server can be working on are of one caller. Any other question is declined, and the server is told why.

use std::time::Instant;

use salon_mcp::Era;
use salon_mcp::handshake::{self, HandshakeParams};
use salon_protocol::Members;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::call::LaneCallStage;
use super::{CallerId, LaneId, ReplyAddress, Switchboard, SwitchboardOptions};

/// The handshake of a lane that callers share. It declares what a guest can pass on to the caller whose call it is: sampling, and elicitation in its
/// form mode. Not roots, which are a property of the connection and not of a call; not URL-mode elicitation, whose completion names no call; not
/// tasks, which outlive their call.
pub(crate) fn shared_handshake(setting: &SwitchboardOptions, ours: &HandshakeParams, era: Era) -> HandshakeParams {
    // Of an isolated guest only the guest itself uses it, for lists. A modern server is told with each request.
    if setting.isolated || era == Era::Modern {
        return ours.clone();
    }
    let declared = json!({ "elicitation": {}, "sampling": {} });
    HandshakeParams { capabilities: to_raw_value(&declared).expect("an object can be written"), ..ours.clone() }
}

/// Whose calls on a lane were cancelled or timed out a short while ago. The server may not have noticed yet, and may still ask something for them.
///
/// The two callers of whom that was last are enough: a question about one caller needs only whether there is another.
#[derive(Debug, Default)]
pub(super) struct WithdrawnCalls {
    last: Option<Withdrawn>,
    last_of_another: Option<Withdrawn>,
}

#[derive(Debug)]
struct Withdrawn {
    caller: CallerId,
    until: Instant,
}

impl WithdrawnCalls {
    /// Adds a call that was withdrawn after all that were added before.
    fn add(&mut self, caller: &CallerId, until: Instant) {
        let before = self.last.replace(Withdrawn { caller: caller.clone(), until });
        if let Some(before) = before.filter(|before| before.caller != *caller) {
            self.last_of_another = Some(before);
        }
    }

    /// Whether a question can be about such a call of another caller than this.
    fn may_be_of_another(&self, caller: &CallerId, now: Instant) -> bool {
        let mut known = self.last.iter().chain(&self.last_of_another);
        known.any(|withdrawn| withdrawn.until > now && withdrawn.caller != *caller)
    }
}

impl Switchboard {
    /// A call is taken from a server that may go on with it.
    pub(super) fn note_withdrawn(&mut self, number: u64, now: Instant) {
        let Some(call) = self.calls.get(&number).filter(|call| matches!(call.state, LaneCallStage::Sent)) else {
            return;
        };
        let (Some(asked), Some(lane)) = (call.asked(), self.lanes.get_mut(&call.lane)) else { return };
        lane.withdrawn.add(&asked.reply.caller, now + self.setting.timeout);
    }

    /// The call on a shared lane that a server's question belongs to, or why it is declined.
    pub(super) fn addressee_of(
        &self,
        lane: LaneId,
        method: &str,
        params: Option<&RawValue>,
        related: Option<u64>,
        now: Instant,
    ) -> Result<(ReplyAddress, u64), String> {
        // MCP 2025-11-25, Streamable HTTP, "Sending Messages to the Server": requests on the stream of a POST relate to the request in it.
        let number = match related {
            Some(number) => number,
            None => self.only_caller(lane, method, now)?,
        };
        let call = self.calls.get(&number).filter(|call| call.lane == lane);
        let Some(asked) = call.and_then(|call| call.asked()) else {
            return Err(format!("`{method}` cannot be asked here: no call of a participant is waiting for it"));
        };
        let caller = &asked.reply.caller;
        let capabilities = self.callers.get(caller).map(|known| &*known.handshake_params.capabilities);
        if !capabilities.is_some_and(|capabilities| handshake::answers(capabilities, method)) {
            return Err(format!(
                "`{method}` cannot be asked here: `{}` does not offer to answer it",
                caller.participant
            ));
        }
        if method == "roots/list" || !is_form(method, params) {
            let told = "callers that share a connection cannot be asked this; `salon/isolated` gives a caller its own";
            return Err(format!("`{method}` cannot be asked here: {told}"));
        }
        Ok((asked.reply.clone(), number))
    }

    /// The oldest call that runs on a lane, if all that the server can be working on are of one caller.
    fn only_caller(&self, lane: LaneId, method: &str, now: Instant) -> Result<u64, String> {
        let running =
            self.calls.iter().filter(|(_, call)| call.lane == lane && matches!(call.state, LaneCallStage::Sent));
        let mut running = running.filter_map(|(number, call)| Some((*number, &call.asked()?.reply.caller)));
        let Some((number, caller)) = running.next() else {
            return Err(format!("`{method}` cannot be asked here: no call of a participant is waiting for it"));
        };
        let withdrawn = self.lanes.get(&lane).is_some_and(|lane| lane.withdrawn.may_be_of_another(caller, now));
        if withdrawn || running.any(|(_, other)| other != caller) {
            return Err(format!(
                "`{method}` cannot be asked here: calls of several callers share this connection, and nothing says whose question it is"
            ));
        }
        Ok(number)
    }
}

/// Whether an elicitation is of the mode that shared lanes declare.
// MCP 2025-11-25, Elicitation: `mode` is `form` where it is missing.
fn is_form(method: &str, params: Option<&RawValue>) -> bool {
    let mode = params.filter(|_| method == "elicitation/create").and_then(|params| Members::parse(params.get()));
    mode.is_none_or(|params| params.get("mode").is_none_or(|mode| mode.get() == "\"form\""))
}
