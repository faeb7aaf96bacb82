//! What the door says to others of its own accord, in the client's name: that a handshake is done, and that nobody waits for an answer.
//!
//! Invariant: none is lost because the room had too much to do, or could store nothing for a while. How many wait is bounded: whoever has
//! as many of them and of open requests as may be makes no more requests.

use std::time::Instant;

use salon_protocol::{Code, EnvelopeId, ParticipantId, Refusal, Timestamp};
use serde_json::value::RawValue;

use super::service::PAUSE;
use super::{Due, Machine, Purpose};

/// Something said to somebody that is answered by nobody.
#[derive(Debug, Clone)]
pub(super) struct Aside {
    /// Kept when it is said again: the room may have taken it and not have said so.
    stamp: (String, Timestamp),
    to: ParticipantId,
    about: Option<EnvelopeId>,
    payload: Box<RawValue>,
}

impl Machine {
    /// Says something of the door's own to somebody.
    pub(super) fn tell(
        &mut self,
        to: &ParticipantId,
        about: Option<&EnvelopeId>,
        payload: Box<RawValue>,
        now: Instant,
    ) {
        let stamp = self.stamps.next(now);
        self.say_aside(Aside { stamp, to: to.clone(), about: about.cloned(), payload });
    }

    fn say_aside(&mut self, aside: Aside) {
        let Aside { stamp: (id, ts), to, about, payload } = aside.clone();
        let purpose = Purpose::Aside(Box::new(aside));
        // What it says is short, unless the limit is shorter still.
        let _ = self.publish((&id, ts), std::slice::from_ref(&to), about.as_ref(), payload, purpose);
    }

    /// The room does not take it. Where it has too much to do, or can store nothing for now, it is said again in a while; otherwise
    /// nobody is there to hear it.
    pub(super) fn not_said(&mut self, aside: Aside, refusal: &Refusal, now: Instant) {
        if matches!(refusal.code, Code::RateLimited | Code::Closing) {
            if self.unsaid.is_empty() {
                self.timers.insert((now + PAUSE, Due::Asides));
            }
            self.unsaid.push(aside);
        }
    }

    pub(super) fn say_again(&mut self) {
        for aside in std::mem::take(&mut self.unsaid) {
            self.say_aside(aside);
        }
    }
}
