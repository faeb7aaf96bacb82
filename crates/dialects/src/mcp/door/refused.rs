//! Requests of the door's own that the room does not take for now. They are made again as they were, under the same id: what was refused because
//! the room was closing may have been stored all the same, and nobody is to be asked twice.
//!
//! As with what is kept, only the oldest is tried, and the others follow as long as the room takes something. What the client asks is not made again:
//! it gets the refusal.

use std::time::Instant;

use salon_protocol::{EnvelopeId, Refusal};

use super::calls::{CallPurpose, CallStage, DoorCall};
use super::outbox::{RETRY_DELAY, is_passing};
use super::{Door, DoorTimer, refusal_error};

impl Door {
    /// The room does not take a request, and never will.
    pub(super) fn fail_refused(&mut self, number: u64, refusal: &Refusal, now: Instant) {
        if matches!(self.calls.get(&number), Some(DoorCall { purpose: CallPurpose::Client(_), .. })) {
            self.outbox.count(refusal.code);
        }
        let error = refusal_error(refusal);
        match self.calls.get(&number) {
            // That says nothing of whom it greets.
            Some(DoorCall { purpose: CallPurpose::Greet, .. }) => {
                if let Some(call) = self.drop_call(number) {
                    self.handshake_failed(&call.to, &error, now);
                }
            }
            _ => self.fail(number, &error, now),
        }
    }

    /// The room took something. It may take what it has not.
    pub(super) fn taken(&mut self, envelope: &EnvelopeId, now: Instant) {
        if let Some(call) = self.sent.get(envelope).and_then(|number| self.calls.get_mut(number)) {
            call.draft = None;
        }
        self.ask_oldest(now);
    }

    /// The room did not take something.
    pub(super) fn not_taken(&mut self, refusal: &Refusal, now: Instant) {
        if self.refused().next().is_some() {
            self.wait_to_ask(now);
        }
        let Some(number) = refusal.regarding.as_ref().and_then(|envelope| self.sent.get(envelope)).copied() else {
            return;
        };
        let Some(call) = self.calls.get_mut(&number) else { return };
        if let CallStage::Sent(envelope, era) = &call.state
            && is_passing(refusal)
            && call.draft.is_some()
            && self.peers.contains_key(&call.to)
        {
            call.state = CallStage::Refused(envelope.clone(), *era, refusal.clone());
            return self.wait_to_ask(now);
        }
        if let Some(envelope) = std::mem::replace(&mut call.state, CallStage::Waiting).envelope() {
            self.sent.remove(envelope);
        }
        self.fail_refused(number, refusal, now);
    }

    /// The requests that the room has not taken, the oldest first.
    fn refused(&self) -> impl Iterator<Item = (u64, &DoorCall)> {
        let refused = self.calls.iter().filter(|(_, call)| matches!(call.state, CallStage::Refused(..)));
        refused.map(|(number, call)| (*number, call))
    }

    fn wait_to_ask(&mut self, now: Instant) {
        if !self.timers.has(DoorTimer::Refused) {
            self.after(RETRY_DELAY, DoorTimer::Refused, now);
        }
    }

    /// Makes the oldest of them again, as it was; the others follow as long as the room takes something.
    pub(super) fn ask_oldest(&mut self, now: Instant) {
        if self.outbox.is_out() {
            return;
        }
        let oldest = self.refused().find(|(_, call)| !self.outbox.is_unwelcomed(&call.to)).map(|(number, _)| number);
        match oldest {
            Some(number) => self.make_again(number),
            None if self.refused().next().is_some() => self.wait_to_ask(now),
            None => {}
        }
    }

    /// Makes all of them again.
    pub(super) fn ask_again(&mut self) {
        self.forget_timer(DoorTimer::Refused);
        for number in self.refused().map(|(number, _)| number).collect::<Vec<_>>() {
            self.make_again(number);
        }
    }

    fn make_again(&mut self, number: u64) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        if let (CallStage::Refused(_, era, _), Some(draft)) = (&call.state, call.draft.take()) {
            let era = *era;
            self.say_call(number, draft, era);
        }
    }
}
