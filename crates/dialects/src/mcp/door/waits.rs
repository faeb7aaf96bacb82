//! Calls of `room.wait`: the gateway waits outside of the log, and the call is made in the room once something has happened.
//!
//! A wait without an event changes nothing, so nobody else needs to see it. One with events moves the caller's read position, which has to survive
//! a restart: its request and its answer are envelopes. Clients that listen by waiting thus store nothing while a room is quiet.

use std::time::Instant;

use salon_mcp::Era;
use salon_protocol::Members;
use serde_json::value::RawValue;

use super::Door;
use super::door_call::CallStage;
use super::incoming::text_of;
use crate::{RoomQuery, WAIT_TOOL};

impl Door {
    /// Asks the gateway to wait, if that is what a call is for; says whether it is.
    pub(super) fn wait_at_gateway(&mut self, number: u64, era: Era) -> bool {
        let Some(call) = self.calls.get(number) else { return false };
        let is_tool_call = call.to.is_host() && call.is_client() && &*call.method == "tools/call";
        let Some(params) = call.params.as_deref().filter(|_| is_tool_call) else { return false };
        if text_of(Some(params), "name").as_deref() != Some(WAIT_TOOL) {
            return false;
        }
        let query = RoomQuery::Wait { number, params: params.get().into() };
        self.calls.at_gateway(number, era);
        self.outbox.query(query);
        true
    }

    /// The gateway has waited.
    pub(super) fn waited(&mut self, number: u64, idle: Option<Box<RawValue>>, now: Instant) {
        let Some(CallStage::AtGateway(era)) = self.calls.get(number).map(|call| &call.state) else { return };
        let era = *era;
        match idle {
            Some(result) => {
                let mut message = Members::default();
                message.set("result", &result);
                self.client_call_answered(number, message, now);
            }
            None => self.send(number, era, now),
        }
    }

    /// Nobody needs a call any more: the gateway does not go on waiting for it.
    pub(super) fn stop_waiting(&mut self, number: u64) {
        if self.calls.get(number).is_some_and(|call| matches!(call.state, CallStage::AtGateway(_))) {
            self.outbox.query(RoomQuery::StopWaiting { number });
        }
    }
}
