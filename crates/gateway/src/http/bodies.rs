//! Bodies that are being received: how many there are and how many bytes of them wait in memory, of one sender and of all.
//!
//! A body counts from its request's head until it is whole or refused. Bytes count as they come, so that announcing a long body keeps
//! nobody else from sending one.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use salon_protocol::{Code, ParticipantId, Refusal};

use super::PeerAddress;
use crate::config::LimitSettings;
use crate::gateway::network;

/// Whose a body is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum BodySender {
    /// A participant whose token is verified.
    Participant(ParticipantId),
    /// Somebody of whom only the address is known.
    Address(IpAddr),
}

impl BodySender {
    pub(crate) fn stranger(peer: &PeerAddress) -> Self {
        Self::Address(network(peer.ip()))
    }
}

impl From<&crate::auth::Grant> for BodySender {
    fn from(grant: &crate::auth::Grant) -> Self {
        Self::Participant(grant.participant.clone())
    }
}

/// The most there may be at once. Zero is no limit.
#[derive(Debug, Clone, Copy)]
struct BodyLimits {
    count: usize,
    bytes: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct BodyLoad {
    count: usize,
    bytes: usize,
}

/// Every body that is being received.
pub(crate) struct Bodies {
    of_all: BodyLimits,
    of_one: BodyLimits,
    loads: Mutex<BodyLoads>,
}

#[derive(Default)]
struct BodyLoads {
    participants: BodyLoad,
    /// Counted apart: no number of strangers keeps a participant from sending.
    strangers: BodyLoad,
    by_sender: HashMap<BodySender, BodyLoad>,
}

impl BodyLoads {
    /// Everybody of the sender's sort together.
    fn all(&mut self, sender: &BodySender) -> &mut BodyLoad {
        match sender {
            BodySender::Participant(_) => &mut self.participants,
            BodySender::Address(_) => &mut self.strangers,
        }
    }
}

impl Bodies {
    /// With the limits of a configuration. The longest message always fits.
    pub(crate) fn new(limits: &LimitSettings, longest: usize) -> Arc<Self> {
        let fitting = |bytes: usize, least: usize| if bytes == 0 { 0 } else { bytes.max(least) };
        let of_one =
            BodyLimits { count: limits.bodies_per_sender, bytes: fitting(limits.body_bytes_per_sender, longest) };
        let of_all = BodyLimits { count: limits.bodies, bytes: fitting(limits.body_bytes, of_one.bytes.max(longest)) };
        Arc::new(Self { of_all, of_one, loads: Mutex::default() })
    }

    /// Counts one more body, until the returned value is dropped.
    pub(crate) fn begin(self: &Arc<Self>, sender: BodySender) -> Result<BodyIntake, Refusal> {
        let mut loads = self.loads.lock();
        let own = loads.by_sender.get(&sender).map_or(0, |load| load.count);
        if is_reached(self.of_one.count, own) {
            return Err(too_many(format!("you are sending {own} bodies already, which is the limit")));
        }
        let all = loads.all(&sender);
        if is_reached(self.of_all.count, all.count) {
            let message = format!("the gateway is receiving {} bodies already, which is the limit", all.count);
            return Err(too_many(message));
        }
        all.count += 1;
        loads.by_sender.entry(sender.clone()).or_default().count += 1;
        Ok(BodyIntake { bodies: self.clone(), sender, bytes: 0 })
    }
}

fn is_reached(limit: usize, count: usize) -> bool {
    limit > 0 && count >= limit
}

fn too_many(message: String) -> Refusal {
    Refusal::new(Code::RateLimited, message)
}

/// A body that is being received.
pub(crate) struct BodyIntake {
    bodies: Arc<Bodies>,
    sender: BodySender,
    bytes: usize,
}

impl BodyIntake {
    /// So many bytes more have come.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Refusal> {
        let Bodies { of_all, of_one, loads } = &*self.bodies;
        let mut loads = loads.lock();
        let own = loads.by_sender.get(&self.sender).map_or(0, |load| load.bytes);
        let is_over = |limit: usize, held: usize| limit > 0 && held.saturating_add(bytes) > limit;
        if is_over(of_one.bytes, own) {
            let message = format!("your unfinished bodies are longer than {} bytes together", of_one.bytes);
            return Err(too_many(message));
        }
        let all = loads.all(&self.sender);
        if is_over(of_all.bytes, all.bytes) {
            return Err(too_many("the gateway has no room for another body now".into()));
        }
        all.bytes += bytes;
        loads.by_sender.entry(self.sender.clone()).or_default().bytes += bytes;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for BodyIntake {
    fn drop(&mut self) {
        let mut loads = self.bodies.loads.lock();
        let all = loads.all(&self.sender);
        all.count -= 1;
        all.bytes -= self.bytes;
        if let Some(load) = loads.by_sender.get_mut(&self.sender) {
            load.count -= 1;
            load.bytes -= self.bytes;
            if load.count == 0 {
                loads.by_sender.remove(&self.sender);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(name: &str) -> BodySender {
        BodySender::Participant(ParticipantId::new(name).expect("an id"))
    }

    #[test]
    fn strangers_keep_no_participant_from_sending() {
        let bodies = bodies(1, 1, 100, 100);
        let stranger = BodySender::Address(std::net::Ipv4Addr::LOCALHOST.into());
        let _open = bodies.begin(stranger).expect("the first stranger");
        let _body = bodies.begin(sender("alice")).expect("participants are counted apart");
        let other = BodySender::Address(std::net::Ipv4Addr::new(192, 0, 2, 1).into());
        assert!(bodies.begin(other).is_err(), "strangers have a limit too");
    }

    fn bodies(count: usize, of_one: usize, bytes: usize, bytes_of_one: usize) -> Arc<Bodies> {
        let limits = LimitSettings {
            bodies: count,
            bodies_per_sender: of_one,
            body_bytes: bytes,
            body_bytes_per_sender: bytes_of_one,
            ..LimitSettings::default()
        };
        Bodies::new(&limits, 10)
    }

    #[test]
    fn bodies_are_counted_until_they_are_dropped() {
        let bodies = bodies(3, 2, 0, 0);
        let begin = |name: &str| bodies.begin(sender(name));
        let (first, second) = (begin("a").expect("one"), begin("a").expect("two"));
        assert!(begin("a").is_err(), "of one sender");
        let third = begin("b").expect("another's");
        assert!(begin("b").is_err(), "of all");
        drop((first, third));
        let again = (begin("a").expect("again"), begin("b").expect("again"));
        drop((second, again));
        let loads = bodies.loads.lock();
        assert!(loads.by_sender.is_empty() && loads.participants.count == 0);
    }

    #[test]
    fn bytes_are_counted_as_they_come() {
        let bodies = bodies(0, 0, 30, 20);
        let (mut first, mut second) =
            (bodies.begin(sender("a")).expect("one"), bodies.begin(sender("a")).expect("two"));
        first.grow(15).expect("room");
        assert!(second.grow(6).is_err(), "of one sender");
        second.grow(5).expect("room");
        let mut third = bodies.begin(sender("b")).expect("another's");
        third.grow(10).expect("room");
        assert!(third.grow(1).is_err(), "of all");
        drop(first);
        third.grow(10).expect("room again");
    }

    #[test]
    fn the_longest_message_always_fits() {
        let bodies = bodies(0, 0, 1, 1);
        bodies.begin(sender("a")).expect("one").grow(10).expect("as long as a message may be");
    }
}
