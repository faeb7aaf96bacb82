//! Who sits in a room on this node, and whom the log has been told of, by whichever node.
//!
//! Invariant: changed only together with submitting the entry that says so, under one lock, or by an entry of another node as it is
//! read. So presence in the log and here never disagree about the order of a leave and the join that follows it: what this node has
//! submitted outweighs what it reads until it has read that, too.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use salon_log::{Claim, Standing};
use salon_protocol::{EnvelopeId, Participant, ParticipantId, Presence, PresenceEvent};

use crate::timings::Timings;

#[derive(Debug, Default)]
pub(crate) struct Seating {
    timings: Timings,
    /// Connections here, by participant, and how the newest claimed its place; never none.
    seats: HashMap<ParticipantId, (usize, Claim)>,
    /// Everyone whose join was submitted or read and whose leave was not.
    announced: HashMap<ParticipantId, Announced>,
    /// Participants whose last connection here has gone, and why where they said so.
    departed: Vec<(ParticipantId, Option<String>)>,
    /// Joins and leaves that this node has submitted and not read back, by participant; never none.
    in_flight: HashMap<ParticipantId, Vec<(EnvelopeId, Instant)>>,
    /// Whether those who were present when the room was opened have time to come back.
    is_waiting: bool,
    /// Who is present by the log and has no place on any node, and since when that is seen.
    orphaned: HashMap<ParticipantId, Instant>,
}

/// Somebody of whom the log says, or is about to, that they are present.
#[derive(Debug, Clone)]
pub(crate) struct Announced {
    pub(crate) participant: Arc<Participant>,
    /// The envelope that says so.
    pub(crate) join: EnvelopeId,
}

impl Seating {
    /// Begins with those the log says are present, none of whom has come back yet.
    pub(crate) fn restore(standing: &Standing, timings: Timings) -> Self {
        let mut seating = Self { timings, is_waiting: !standing.present.is_empty(), ..Self::default() };
        seating.announced = present(standing);
        seating
    }

    /// Begins again after entries were missed. Says who sits here and is not present by what the log says now.
    pub(crate) fn restart(&mut self, standing: &Standing) -> Vec<Arc<Participant>> {
        let mut now = present(standing);
        let mut missed = Vec::new();
        for (id, known) in std::mem::take(&mut self.announced) {
            if self.is_in_flight(&id) {
                now.insert(id, known);
            } else if self.is_seated(&id) && !now.contains_key(&id) {
                missed.push(known.participant);
            }
        }
        self.announced = now;
        missed
    }

    pub(crate) fn announced(&self, id: &ParticipantId) -> Option<&Arc<Participant>> {
        self.announced.get(id).map(|announced| &announced.participant)
    }

    pub(crate) fn population(&self) -> usize {
        self.announced.len()
    }

    pub(crate) fn is_seated(&self, id: &ParticipantId) -> bool {
        self.seats.contains_key(id)
    }

    /// Whether the room has nothing left to do here. Whoever sits on other nodes is theirs to look after.
    pub(crate) fn is_idle(&self) -> bool {
        let mut in_flight = self.in_flight.values().flatten();
        let is_nothing_in_flight = in_flight.all(|(_, since)| since.elapsed() >= self.timings.submission_timeout);
        let is_nobody_due = self.departed.is_empty() && self.orphaned.is_empty();
        self.seats.is_empty() && is_nobody_due && is_nothing_in_flight && !self.is_waiting
    }

    /// Looks for those who are present by the log and have no place anywhere, of whom no node may know that it should see them off: two
    /// let go of a shared place at once, a claim outlived its claimant, a node stopped in between. Whoever stays so for as long as a
    /// lease has departed; says whether somebody has.
    pub(crate) fn depart_orphaned(&mut self, placed: &[ParticipantId], now: Instant) -> bool {
        if self.is_waiting {
            return false;
        }
        let placed: HashSet<_> = placed.iter().collect();
        let absent = self.announced.keys().filter(|id| !self.is_seated(id) && !placed.contains(id));
        let absent: Vec<_> = absent.cloned().collect();
        let absent: HashSet<_> = absent.into_iter().filter(|id| !self.is_in_flight(id)).collect();
        self.orphaned.retain(|id, _| absent.contains(id));
        for id in absent {
            self.orphaned.entry(id).or_insert(now);
        }
        let timeout = self.timings.orphan_timeout;
        let is_over = |since: &Instant| now.duration_since(*since) >= timeout;
        let over: Vec<_> =
            self.orphaned.iter().filter(|(_, since)| is_over(since)).map(|(id, _)| (id.clone(), None)).collect();
        let departs = !over.is_empty();
        self.orphaned.retain(|_, since| !is_over(since));
        self.departed.extend(over);
        departs
    }

    /// Who sits here without the log saying that they are present, and without anything on its way that would.
    pub(crate) fn unheard(&mut self, is_present: impl Fn(&ParticipantId) -> bool) -> Vec<Arc<Participant>> {
        let absent: Vec<_> = self.seats.keys().filter(|id| !is_present(id)).cloned().collect();
        let unheard = absent.into_iter().filter(|id| !self.is_in_flight(id)).collect::<Vec<_>>();
        unheard.iter().filter_map(|id| self.announced(id).cloned()).collect()
    }

    /// Notes that a join was submitted.
    pub(crate) fn announce(&mut self, participant: Arc<Participant>, join: EnvelopeId) {
        self.submitted(&participant.id, join.clone());
        self.announced.insert(participant.id.clone(), Announced { participant, join });
    }

    /// Notes that a join or a leave was submitted.
    pub(crate) fn submitted(&mut self, id: &ParticipantId, envelope: EnvelopeId) {
        self.in_flight.entry(id.clone()).or_default().push((envelope, Instant::now()));
    }

    /// Notes that one that was submitted will not be read.
    pub(crate) fn not_stored(&mut self, id: &ParticipantId, envelope: &EnvelopeId) {
        self.landed(id, envelope);
    }

    fn landed(&mut self, id: &ParticipantId, envelope: &EnvelopeId) -> bool {
        let Some(flight) = self.in_flight.get_mut(id) else { return false };
        let before = flight.len();
        flight.retain(|(other, _)| other != envelope);
        let landed = flight.len() < before;
        if flight.is_empty() {
            self.in_flight.remove(id);
        }
        landed
    }

    fn is_in_flight(&mut self, id: &ParticipantId) -> bool {
        let Some(flight) = self.in_flight.get_mut(id) else { return false };
        let timeout = self.timings.submission_timeout;
        flight.retain(|(_, since)| since.elapsed() < timeout);
        if flight.is_empty() {
            self.in_flight.remove(id);
        }
        self.in_flight.contains_key(id)
    }

    /// Takes in a join or a leave as the log has it. Gives whoever sits here and has left by what another node said.
    pub(crate) fn hear(&mut self, envelope: &EnvelopeId, presence: Presence) -> Option<Arc<Participant>> {
        let id = presence.participant.id.clone();
        if self.landed(&id, envelope) || self.is_in_flight(&id) {
            return None;
        }
        match presence.event {
            PresenceEvent::Join => {
                let announced = Announced { participant: Arc::new(presence.participant), join: envelope.clone() };
                self.announced.insert(id, announced);
                None
            }
            PresenceEvent::Leave => {
                let known = self.announced.remove(&id).map(|known| known.participant);
                self.is_seated(&id).then(|| known.unwrap_or_else(|| Arc::new(presence.participant)))
            }
            PresenceEvent::Heartbeat => None,
        }
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
        self.is_waiting = false;
        let absent = self.announced.keys().filter(|id| !self.seats.contains_key(*id)).map(|id| (id.clone(), None));
        self.departed.extend(absent.collect::<Vec<_>>());
    }

    /// Counts somebody as departed, unless they sit here.
    pub(crate) fn depart(&mut self, id: &ParticipantId, reason: Option<String>) {
        if !self.is_seated(id) {
            self.departed.push((id.clone(), reason));
        }
    }

    /// Puts those back on the list of the departed who could not be looked after.
    pub(crate) fn still_departed(&mut self, departed: Vec<(ParticipantId, Option<String>)>) {
        for (id, reason) in departed {
            self.depart(&id, reason);
        }
    }

    pub(crate) fn take_departed(&mut self) -> Vec<(ParticipantId, Option<String>)> {
        std::mem::take(&mut self.departed)
    }

    /// Takes somebody off the list, unless they are back.
    pub(crate) fn withdraw(&mut self, id: &ParticipantId) -> Option<Announced> {
        if self.is_seated(id) { None } else { self.announced.remove(id) }
    }

    /// Puts somebody back on the list whose leave was not stored, unless they are back; the leave is due again.
    pub(crate) fn put_back(&mut self, announced: Announced, reason: Option<String>) {
        let id = announced.participant.id.clone();
        self.announced.entry(id.clone()).or_insert(announced);
        self.depart(&id, reason);
    }
}

fn present(standing: &Standing) -> HashMap<ParticipantId, Announced> {
    let announced = |entry: &Arc<salon_protocol::Entry>| {
        let participant = Arc::new(entry.envelope.presence()?.participant);
        Some((participant.id.clone(), Announced { participant, join: entry.envelope.id().clone() }))
    };
    standing.present.iter().filter_map(announced).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const ORPHAN_TIMEOUT: Duration = Timings::NORMAL.orphan_timeout;

    fn alice() -> Arc<Participant> {
        Arc::new(Participant::new(ParticipantId::new("alice").expect("a name")))
    }

    fn id(text: &str) -> EnvelopeId {
        EnvelopeId::new(text).expect("an id")
    }

    /// Present by the log, by what another node said.
    fn seating() -> Seating {
        let mut seating = Seating::default();
        let presence = Presence { event: PresenceEvent::Join, participant: (*alice()).clone(), reason: None };
        seating.hear(&id("join"), presence);
        seating
    }

    #[test]
    fn whoever_has_no_place_for_a_lease_departs() {
        let (mut seating, begin) = (seating(), Instant::now());
        assert!(seating.is_idle(), "whoever sits elsewhere is no business of this node's");
        assert!(!seating.depart_orphaned(&[], begin));
        assert!(!seating.is_idle(), "a room is not put away while somebody in it may be nowhere");
        assert!(!seating.depart_orphaned(&[], begin + ORPHAN_TIMEOUT / 2));
        assert!(seating.depart_orphaned(&[], begin + ORPHAN_TIMEOUT));
        assert_eq!(seating.take_departed(), [(alice().id.clone(), None)]);
    }

    #[test]
    fn whoever_has_a_place_again_has_not_departed() {
        let (mut seating, begin) = (seating(), Instant::now());
        seating.depart_orphaned(&[], begin);
        assert!(!seating.depart_orphaned(&[alice().id.clone()], begin + ORPHAN_TIMEOUT));
        assert!(!seating.depart_orphaned(&[], begin + 2 * ORPHAN_TIMEOUT), "the time begins anew");
        seating.sit(&alice().id, Claim::Exclusive);
        assert!(!seating.depart_orphaned(&[], begin + 4 * ORPHAN_TIMEOUT), "she sits here");
        seating.rise(&alice().id, None);
        seating.take_departed();
        seating.submitted(&alice().id, id("leave"));
        assert!(!seating.depart_orphaned(&[], begin + 5 * ORPHAN_TIMEOUT));
        assert!(!seating.depart_orphaned(&[], begin + 6 * ORPHAN_TIMEOUT), "her leave is on its way");
    }

    #[test]
    fn whoever_has_time_to_come_back_has_it() {
        let (mut seating, begin) = (seating(), Instant::now());
        seating.is_waiting = true;
        assert!(!seating.depart_orphaned(&[], begin));
        assert!(!seating.depart_orphaned(&[], begin + 2 * ORPHAN_TIMEOUT));
    }
}
