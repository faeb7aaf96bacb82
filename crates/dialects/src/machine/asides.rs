//! What the door says to others of its own accord, in the client's name: that a handshake is done, and that nobody waits for an answer.
//!
//! Invariants: while the session lasts, none is lost because the room had too much to do, or could store nothing for a while; what it has
//! not taken by the end is. Saying them again spends the client's rate, so that one at a time is, the oldest first, and none during an
//! outage. How many there are is bounded: a client at the limit of them and of open requests makes no more requests.

use std::collections::BTreeMap;
use std::time::Instant;

use salon_protocol::{Code, EnvelopeId, ParticipantId, Refusal, Timestamp};
use serde_json::value::RawValue;

use super::service::RETRY_DELAY;
use super::{Machine, MachineTimer, Purpose};

/// Something said to somebody that is answered by nobody.
#[derive(Debug, Clone)]
pub(super) struct Aside {
    /// Which of the asides it is.
    number: u64,
    /// Kept when it is sent again: the room may have stored it without an acknowledgement.
    stamp: (String, Timestamp),
    to: ParticipantId,
    about: Option<EnvelopeId>,
    payload: Box<RawValue>,
}

/// Those that the room has not taken.
#[derive(Debug, Default)]
pub(super) struct Asides {
    /// Those that are to be said, by their places.
    unsaid: BTreeMap<u64, Aside>,
    /// How many are on their way into the room.
    saying: usize,
    /// How many there have been.
    numbered: u64,
    /// Whether nothing is sent again before its retry is due.
    is_resting: bool,
}

impl Asides {
    pub(super) fn len(&self) -> usize {
        self.unsaid.len() + self.saying
    }
}

impl Machine {
    /// Says something of the door's own to somebody, behind what waits to be said.
    pub(super) fn tell(
        &mut self,
        to: &ParticipantId,
        about: Option<&EnvelopeId>,
        payload: Box<RawValue>,
        now: Instant,
    ) {
        let stamp = self.stamps.next(now);
        let number = self.asides.numbered;
        self.asides.numbered += 1;
        let aside = Aside { number, stamp, to: to.clone(), about: about.cloned(), payload };
        if self.is_out || !self.asides.unsaid.is_empty() {
            self.asides.unsaid.insert(number, aside);
        } else {
            self.send_aside(aside);
        }
    }

    fn send_aside(&mut self, aside: Aside) {
        let Aside { stamp: (id, ts), to, about, payload, .. } = aside.clone();
        let purpose = Purpose::Aside(Box::new(aside));
        // What it says is short, unless the limit is shorter still.
        if self.publish((&id, ts), std::slice::from_ref(&to), about.as_ref(), payload, purpose).is_ok() {
            self.asides.saying += 1;
        }
    }

    /// The room has taken one, and may take the next.
    pub(super) fn aside_stored(&mut self) {
        self.asides.saying -= 1;
        self.send_next();
    }

    /// The room does not take it. Where it has too much to do, or can store nothing for now, it is sent again after a delay; otherwise
    /// nobody is there to hear it.
    pub(super) fn aside_refused(&mut self, aside: Aside, refusal: &Refusal, now: Instant) {
        self.asides.saying -= 1;
        if matches!(refusal.code, Code::RateLimited | Code::Closing) {
            self.asides.unsaid.insert(aside.number, aside);
            if !self.is_out && !self.asides.is_resting {
                self.asides.is_resting = true;
                self.timers.insert((now + RETRY_DELAY, MachineTimer::Asides));
            }
        }
        self.send_next();
    }

    pub(super) fn retry_asides(&mut self) {
        self.asides.is_resting = false;
        self.send_next();
    }

    /// Says the oldest again; the others follow as they are taken.
    fn send_next(&mut self) {
        while !self.is_out && !self.asides.is_resting && self.asides.saying == 0 {
            let Some((_, aside)) = self.asides.unsaid.pop_first() else { return };
            self.send_aside(aside);
        }
    }

    /// Nothing can be stored, or something can be again. What the room did not take waits for that, and is then said.
    pub(super) fn outage(&mut self, is_out: bool, now: Instant) {
        self.is_out = is_out;
        self.notify_outage(!is_out, now);
        if is_out {
            self.timers.retain(|(_, due)| !matches!(due, MachineTimer::Asides | MachineTimer::Replies));
        } else {
            self.reply_again();
            self.retry_asides();
        }
    }
}
