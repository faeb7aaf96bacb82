//! Requests of the door's own that the room does not take for now. They are made again as they were, under the same id: what was refused because
//! the room was closing may have been stored all the same, and nobody is to be asked twice.
//!
//! As with what is kept, only the oldest is tried, and the others follow as long as the room takes something. What the client asks is not made again:
//! it gets the refusal.

use std::time::Instant;

use salon_protocol::{EnvelopeId, Refusal};

use super::door_call::{CallPurpose, DoorCall};
use super::outbox::is_passing;
use super::{Door, DoorTimer, refusal_error};

impl Door {
    /// The room does not take a request, and never will.
    pub(super) fn fail_refused(&mut self, number: u64, refusal: &Refusal, now: Instant) {
        if self.calls.client(number).is_some() {
            self.outbox.count(refusal.code);
        }
        let error = refusal_error(refusal);
        match self.calls.get(number) {
            // The participant has not seen it, and may answer another one.
            Some(DoorCall { purpose: CallPurpose::Handshake, .. }) => {
                if let Some(call) = self.drop_call(number) {
                    self.handshake_failed(&call.to, &error, now);
                }
            }
            _ => self.fail(number, &error, now),
        }
    }

    /// The room took something. It may take what it has not.
    pub(super) fn taken(&mut self, envelope: &EnvelopeId, now: Instant) {
        self.calls.stored(envelope);
        self.ask_oldest(now);
    }

    /// The room did not take something.
    pub(super) fn draft_refused(&mut self, refusal: &Refusal, now: Instant) {
        if self.calls.has_refused() {
            self.calls.retry_later(now);
        }
        let number = refusal.regarding.as_ref().and_then(|envelope| self.calls.of_envelope(envelope));
        let Some(number) = number else { return };
        let is_here = self.calls.get(number).is_some_and(|call| self.peers.has(&call.to));
        if is_passing(refusal) && is_here && self.calls.refused(number, refusal) {
            return self.calls.retry_later(now);
        }
        self.calls.unsend(number);
        self.fail_refused(number, refusal, now);
    }

    /// Makes the oldest of them again, as it was; the others follow as long as the room takes something.
    pub(super) fn ask_oldest(&mut self, now: Instant) {
        if self.outbox.is_out() {
            return;
        }
        let oldest = self.calls.find(|_, call| call.refusal().is_some() && !self.outbox.is_unwelcomed(&call.to));
        match oldest {
            Some(number) => self.make_again(number),
            None if self.calls.has_refused() => self.calls.retry_later(now),
            None => {}
        }
    }

    /// Makes all of them again.
    pub(super) fn ask_again(&mut self) {
        self.calls.timers.forget(DoorTimer::Refused);
        for number in self.calls.numbers(|call| call.refusal().is_some()) {
            self.make_again(number);
        }
    }

    fn make_again(&mut self, number: u64) {
        if let Some((draft, era)) = self.calls.take_refused(number) {
            self.send_call(number, draft, era);
        }
    }
}
