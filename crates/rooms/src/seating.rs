//! Who sits in a room on this node, and whom the log has been told of.
//!
//! Invariant: changed only together with submitting the entry that says so, under one lock, so that presence in the log and here
//! never disagree about the order of a leave and the join that follows it.

use std::collections::HashMap;
use std::sync::Arc;

use salon_log::Claim;
use salon_protocol::{Participant, ParticipantId};

#[derive(Debug, Default)]
pub(crate) struct Seating {
    /// Connections here, by participant, and how the newest claimed its place; never none.
    seats: HashMap<ParticipantId, (usize, Claim)>,
    /// Everyone whose join was submitted and whose leave was not.
    announced: HashMap<ParticipantId, Arc<Participant>>,
    /// Participants whose last connection here has gone, and why where they said so.
    departed: Vec<(ParticipantId, Option<String>)>,
}

impl Seating {
    /// Begins with those the log says are present, none of whom has come back yet.
    pub(crate) fn restore(roster: Vec<Arc<Participant>>) -> Self {
        let announced = roster.into_iter().map(|p| (p.id.clone(), p)).collect();
        Self { announced, ..Self::default() }
    }

    pub(crate) fn announced(&self, id: &ParticipantId) -> Option<&Arc<Participant>> {
        self.announced.get(id)
    }

    pub(crate) fn population(&self) -> usize {
        self.announced.len()
    }

    pub(crate) fn is_seated(&self, id: &ParticipantId) -> bool {
        self.seats.contains_key(id)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.seats.is_empty() && self.announced.is_empty() && self.departed.is_empty()
    }

    pub(crate) fn announce(&mut self, participant: Arc<Participant>) {
        self.announced.insert(participant.id.clone(), participant);
    }

    pub(crate) fn sit(&mut self, id: &ParticipantId, claim: Claim) {
        let (count, newest) = self.seats.entry(id.clone()).or_insert((0, claim));
        *count += 1;
        *newest = claim;
    }

    /// Whether somebody sits here and would let another connection of theirs sit beside.
    pub(crate) fn is_shared(&self, id: &ParticipantId) -> bool {
        self.seats.get(id).is_some_and(|(_, claim)| *claim == Claim::Shared)
    }

    pub(crate) fn rise(&mut self, id: &ParticipantId, reason: Option<String>) {
        if let Some((count, _)) = self.seats.get_mut(id) {
            *count -= 1;
            if *count == 0 {
                self.seats.remove(id);
                self.departed.push((id.clone(), reason));
            }
        }
    }

    /// Counts everyone who has no connection here as departed: their time to come back is over.
    pub(crate) fn depart_absent(&mut self) {
        let absent = self.announced.keys().filter(|id| !self.seats.contains_key(*id)).map(|id| (id.clone(), None));
        self.departed.extend(absent.collect::<Vec<_>>());
    }

    pub(crate) fn take_departed(&mut self) -> Vec<(ParticipantId, Option<String>)> {
        std::mem::take(&mut self.departed)
    }

    /// Takes somebody off the list, unless they are back.
    pub(crate) fn withdraw(&mut self, id: &ParticipantId) -> Option<Arc<Participant>> {
        if self.is_seated(id) { None } else { self.announced.remove(id) }
    }
}
