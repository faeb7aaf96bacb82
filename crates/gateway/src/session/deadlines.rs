//! The moments a session must not miss, all by one timer.

use std::task::Context;
use std::time::{Duration, Instant};

use salon_dialects::Dialect;
use salon_protocol::CloseReason;
use salon_rooms::Seat;

use super::Session;
use crate::carriers::StreamCarrier;

/// How long reading pauses, at the most, for one short message too many.
const MAX_READ_PAUSE: Duration = Duration::from_millis(10);

/// How many bytes of a message lengthen this by a millisecond: to read and refuse half a megabyte costs the others as much as a
/// hundred short messages.
const BYTES_PER_PAUSE_MS: u64 = 2048;

/// How long reading pauses for a message of so many bytes, whose sender would have to wait so long.
fn read_pause(wait: Duration, bytes: usize) -> Duration {
    wait.min(MAX_READ_PAUSE + Duration::from_millis(bytes as u64 / BYTES_PER_PAUSE_MS))
}

/// The times a connection is held to whose silence says something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeepAlive {
    /// How often the peer is pinged.
    pub(crate) ping: Duration,
    /// How long it may say nothing at all.
    pub(crate) silence: Duration,
}

impl<D: Dialect, C: StreamCarrier<D::Opening>> Session<D, C> {
    /// Reads nothing for a while: a peer that sends too much is slowed down rather than answered ever faster.
    pub(super) fn pause(&mut self, wait: Duration, bytes: usize, now: Instant) {
        let until = now + read_pause(wait, bytes);
        self.paused = Some(until);
        self.timer.as_mut().reset(until.into());
    }

    /// Looks after pings, silence, the token's end and the dialect's own timer.
    pub(super) fn poll_deadlines(&mut self, cx: &mut Context<'_>) -> bool {
        // The dialect may have set itself an earlier deadline since the timer was.
        if let Some(at) = self.dialect.poll_timeout()
            && self.ending.is_none()
            && at < self.timer.deadline().into_std()
        {
            self.timer.as_mut().reset(at.into());
        }
        if self.timer.as_mut().poll(cx).is_pending() {
            return false;
        }
        let now = Instant::now();
        if self.ending.is_some() {
            return true;
        }
        if self.paused.is_some_and(|until| now >= until) {
            self.paused = None;
        }
        if now >= self.expires {
            self.close(CloseReason::TokenExpired, now);
            return true;
        }
        if let Some(keep_alive) = self.keep_alive {
            if now >= self.last_received + keep_alive.silence {
                self.close(CloseReason::Unresponsive, now);
                return true;
            }
            if now >= self.next_ping {
                self.next_ping = now + keep_alive.ping;
                self.carrier.ping();
                self.connection.meters.lag.record(self.seat.as_ref().map_or(0, Seat::lag) as f64);
            }
        }
        if self.dialect.poll_timeout().is_some_and(|at| now >= at) {
            self.dialect.handle_timeout(now);
        }
        let next = self.next_deadline();
        self.timer.as_mut().reset(next.into());
        true
    }

    fn next_deadline(&self) -> Instant {
        let keep_alive = self.keep_alive.map(|keep_alive| self.next_ping.min(self.last_received + keep_alive.silence));
        let deadlines = [keep_alive, self.dialect.poll_timeout(), self.paused];
        deadlines.into_iter().flatten().fold(self.expires, Instant::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_as_long_as_the_message_is_large_and_no_longer_than_the_wait() {
        let ms = Duration::from_millis;
        assert_eq!(read_pause(ms(3), 100), ms(3));
        assert_eq!(read_pause(ms(1000), 100), ms(10));
        assert_eq!(read_pause(ms(1000), 512 * 1024), ms(266));
        assert_eq!(read_pause(ms(125), 512 * 1024), ms(125));
    }
}
