//! The end of a session, as the room sees it.
//!
//! Its participant may stay, in another session, and then nobody sees anybody leave. So calls of this client are cancelled, participants that
//! asked it something get an error, and who keeps something for the session is told that it has ended.

use std::time::Instant;

use salon_mcp::code;
use salon_protocol::{CloseReason, RpcError, SESSION_ENDED_METHOD};
use serde_json::value::to_raw_value;

use super::Door;
use super::door_call::CallPurpose;

/// Recipients that one envelope may name.
const MAX_RECIPIENTS: usize = 256;

impl Door {
    /// Answers everything that is open, and ends the session.
    pub(super) fn close(&mut self, why: &str, reason: CloseReason, now: Instant) {
        self.part(why, now);
        self.streams.end(reason);
    }

    /// Answers everything that is open, the client's requests and what it was asked.
    pub(super) fn part(&mut self, why: &str, now: Instant) {
        self.withdraw_all(now);
        let error = RpcError::new(code::GONE, why);
        self.end_listens();
        let waiting = self.lists.of_requests(|_| true);
        let waiting: Vec<_> = waiting.into_iter().filter_map(|number| self.lists.take_waiter(number)).collect();
        let waiting: Vec<_> = waiting.into_iter().chain(self.client.take_waiting(|_| true)).collect();
        for request in waiting {
            self.streams.answer_request(&request, &Err(error.clone()));
        }
        for number in self.calls.numbers(|_| true) {
            self.fail(number, &error, now);
        }
    }

    /// Takes back from the room what it does for the client.
    fn withdraw_all(&mut self, now: Instant) {
        self.refuse_asks(now);
        let reason = to_raw_value("the session of the client has ended").ok();
        // What the door asked for its own sake is answered soon, or was to be.
        let lasts = |purpose: &CallPurpose| matches!(purpose, CallPurpose::Client(_) | CallPurpose::Listen(_));
        for number in self.calls.numbers(|call| lasts(&call.purpose) && self.calls.is_in_room(call)) {
            self.withdraw_from(number, reason.as_deref(), now);
        }
        self.notify_session_ended(now);
    }

    /// Lets participants that keep something for this session free it. Its participant may stay in the room, by another session.
    fn notify_session_ended(&mut self, now: Instant) {
        for some in self.peers.take_session_keepers().chunks(MAX_RECIPIENTS) {
            self.outbox.notify(some, None, SESSION_ENDED_METHOD, None, now);
        }
    }
}
