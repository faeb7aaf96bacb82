//! Requests that the client cancels, or hangs up on.

use std::time::Instant;

use salon_mcp::{Cancelled, same_id};
use salon_protocol::Members;
use serde_json::value::RawValue;

use super::door_call::{CallPurpose, ClientRequest};
use super::{Door, DoorRequest};
use crate::streams::Channel;

impl Door {
    /// The client does not want an answer any more.
    pub(super) fn client_cancelled(&mut self, params: Option<&RawValue>, now: Instant) {
        let Some(cancelled) = Cancelled::read(params) else { return };
        let named = |request: &DoorRequest| same_id(request.id.get(), cancelled.id.get());
        self.withdraw(named, cancelled.reason, now);
    }

    /// The client hung up on a request; in the modern era that takes it back.
    pub(super) fn hung_up(&mut self, channel: Channel, now: Instant) {
        self.withdraw(|request| request.channel == channel && request.is_modern(), None, now);
    }

    fn withdraw(&mut self, wanted: impl Fn(&DoorRequest) -> bool, reason: Option<&RawValue>, now: Instant) {
        // The handshake is what a session cannot do without.
        let wanted = |request: &DoorRequest| &*request.method != "initialize" && wanted(request);
        for request in self.client.take_waiting(wanted) {
            self.skip(&request);
        }
        for number in self.lists.of_requests(wanted) {
            if let Some(request) = self.lists.take_waiter(number) {
                self.skip(&request);
            }
        }
        self.end_listens_where(&wanted, now);
        let is_wanted = |asked: &ClientRequest| !asked.pause.is_parked() && wanted(&asked.request);
        for number in self.calls.numbers(|call| call.client().is_some_and(is_wanted)) {
            self.cancel(number, reason, now);
        }
    }

    fn skip(&mut self, request: &DoorRequest) {
        self.streams.skip(request.channel);
    }

    /// Tells the participant that a call is cancelled.
    pub(super) fn withdraw_from(&mut self, number: u64, reason: Option<&RawValue>, now: Instant) {
        let Some(call) = self.calls.get(number) else { return };
        let (to, Some(envelope)) = (call.to.clone(), call.envelope().cloned()) else { return };
        let mut params = Members::default();
        params.set("requestId", envelope.as_str());
        if let Some(reason) = reason {
            params.set("reason", reason);
        }
        self.outbox.notify(&[to], Some(&envelope), "notifications/cancelled", Some(&params.to_raw()), now);
    }

    /// Cancels a call.
    pub(super) fn cancel(&mut self, number: u64, reason: Option<&RawValue>, now: Instant) {
        self.drop_asks_of(number, now);
        self.stop_waiting(number);
        self.withdraw_from(number, reason, now);
        let Some(call) = self.drop_call(number) else { return };
        if let CallPurpose::Client(asked) = call.purpose
            && !asked.pause.is_parked()
        {
            self.skip(&asked.request);
        }
    }
}
