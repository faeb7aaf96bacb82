//! Who was handed an entry, and who is not here to get one. It follows from where the readers of this node stand.
//!
//! Deliberately absent: whether anybody has read it. That a participant says itself (MCPx v0 §4.1.1).

use std::collections::{BTreeMap, BTreeSet};

use salon_protocol::{Entry, Envelope, ParticipantId, Position, TopicName};

use crate::registry::Rooms;
use crate::room::Room;

/// What became of an entry at the participants that are present and that it is for, but for its author.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeliveryReport {
    /// Whose connection was handed it.
    pub delivered: Vec<ParticipantId>,
    /// Whose connection has not come to it yet.
    pub pending: Vec<ParticipantId>,
    /// Who is connected to another node, which knows.
    pub elsewhere: Vec<ParticipantId>,
}

impl Rooms {
    /// The position up to which each participant that sits at this node was handed everything that it wants.
    pub fn delivered(&self, topic: &TopicName) -> BTreeMap<ParticipantId, Position> {
        let Some(visit) = self.visit_open(topic) else { return BTreeMap::new() };
        let room = visit.room();
        let position = |offset| Position { epoch: room.epoch, offset };
        room.handed().into_iter().map(|(who, offset)| (who, position(offset))).collect()
    }

    /// The participants that an envelope names and that are not in the room, which is open.
    pub fn absent(&self, topic: &TopicName, envelope: &Envelope) -> Vec<ParticipantId> {
        self.visit_open(topic).map(|visit| visit.room().absent(envelope)).unwrap_or_default()
    }
}

impl Room {
    /// The offset up to which each participant that sits at this node was handed everything that it wants.
    pub(crate) fn handed(&self) -> BTreeMap<ParticipantId, u64> {
        let mut handed: BTreeMap<ParticipantId, u64> = BTreeMap::new();
        for bell in self.seat_bells() {
            if let Some(reader) = &bell.interest.reader {
                let at = handed.entry(reader.clone()).or_default();
                *at = bell.handed().max(*at);
            }
        }
        handed
    }

    pub(crate) fn delivery_report(&self, entry: &Entry) -> DeliveryReport {
        let bells = self.seat_bells();
        let (offset, author) = (entry.position.offset, entry.envelope.from());
        let present: Vec<ParticipantId> = self.attendance().fold().roster().map(|one| one.id.clone()).collect();
        let mut report = DeliveryReport::default();
        for who in present.into_iter().filter(|who| who != author) {
            let mut seats = bells.iter().filter(|bell| bell.interest.reader.as_ref() == Some(&who)).peekable();
            if seats.peek().is_none() {
                match self.log.is_elsewhere(&self.topic, &who) {
                    true => report.elsewhere.push(who),
                    false => report.pending.push(who),
                }
                continue;
            }
            let mut wanting = seats.filter(|bell| bell.interest.wants(&entry.envelope)).peekable();
            if wanting.peek().is_none() {
                continue;
            }
            match wanting.any(|bell| bell.handed() >= offset) {
                true => report.delivered.push(who),
                false => report.pending.push(who),
            }
        }
        report
    }

    /// The participants that an envelope names and that are not present.
    pub(crate) fn absent(&self, envelope: &Envelope) -> Vec<ParticipantId> {
        if envelope.to().is_empty() {
            return Vec::new();
        }
        let attendance = self.attendance();
        let absent = envelope.to().iter().filter(|who| !attendance.fold().is_present(who));
        absent.collect::<BTreeSet<_>>().into_iter().cloned().collect()
    }
}
