//! Who is present by the log and who is connected here: decides which joins and leaves this node appends.
//!
//! Sans-IO: entries, connections, outcomes of appends and the time come in; who joins and who leaves comes out, and the room appends
//! that before it lets go of the lock. Deliberately absent: the log, tasks and timers.
//!
//! Invariant: the order in which joins and leaves are submitted is the order in which they are decided here. What this node has
//! submitted overrides what it has read, until it has read that, too.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use salon_log::{Claim, Fold, FoldEffect, RosterVersion, Standing};
use salon_protocol::{Entry, EnvelopeId, Kind, Participant, ParticipantId, PresenceEvent};

use crate::timings::Timings;

#[derive(Debug)]
pub(crate) struct Attendance {
    timings: Timings,
    /// What the log says, as far as this room has read it.
    fold: Fold,
    /// Who is connected here.
    seats: HashMap<ParticipantId, LocalConnections>,
    /// Joins and leaves that this node has submitted and not read back, oldest first; never none of somebody.
    in_flight: HashMap<ParticipantId, Vec<Submitted>>,
    /// Participants whose last connection here has gone, and why where they said so.
    departed: Vec<(ParticipantId, Option<String>)>,
    /// Whether participants that were present when the room was opened have time to come back.
    has_grace: bool,
    /// Who is present by the log and has no place on any node, and since when that is seen.
    orphaned: HashMap<ParticipantId, Instant>,
    /// The version of the topic's roster with which nothing was to be repaired. `None` once something has changed here since.
    settled_at: Option<RosterVersion>,
}

/// A participant with at least one connection here.
#[derive(Debug)]
struct LocalConnections {
    count: usize,
    /// How the newest connection claimed its place.
    claim: Claim,
    participant: Arc<Participant>,
}

/// A join or a leave on its way into the log.
#[derive(Debug)]
struct Submitted {
    envelope: EnvelopeId,
    /// The participant that joins; `None` for a leave.
    joins: Option<Arc<Participant>>,
    since: Instant,
}

/// Somebody of whom the log says, or is about to, that they are present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Announced {
    pub(crate) participant: Arc<Participant>,
    /// The envelope that says so.
    pub(crate) join: EnvelopeId,
}

/// How somebody comes in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryTerms {
    pub(crate) claim: Claim,
    /// Whether it goes on after an envelope that it has seen.
    pub(crate) is_resumed: bool,
    /// Whether other nodes hold its place, too.
    pub(crate) is_elsewhere: bool,
}

/// What becomes of somebody who has departed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Departure {
    /// They leave, by this.
    Leaves(Announced),
    /// They are back, or have left, or their leave is on its way.
    Over,
    /// Their join is on its way. A leave must not be stored without it.
    Later,
}

impl Attendance {
    /// Begins with those the log says are present, none of whom has come back yet.
    pub(crate) fn restore(standing: &Standing, timings: Timings) -> Self {
        Self {
            timings,
            fold: Fold::restore(standing),
            seats: HashMap::new(),
            in_flight: HashMap::new(),
            departed: Vec::new(),
            has_grace: !standing.present.is_empty(),
            orphaned: HashMap::new(),
            settled_at: None,
        }
    }

    /// Begins again after entries were missed. Gives participants that are connected here and have left by what the log says now.
    pub(crate) fn restart(&mut self, standing: &Standing, now: Instant) -> Vec<Arc<Participant>> {
        self.settled_at = None;
        self.fold = Fold::restore(standing);
        self.missing(now)
    }

    /// What the log says, as far as this room has read it.
    pub(crate) fn fold(&self) -> &Fold {
        &self.fold
    }

    /// Takes the next entry. Also gives the participants that are connected here and have left by it, as another node said: they must join again.
    pub(crate) fn take(&mut self, entry: &Arc<Entry>, now: Instant) -> (FoldEffect, Option<Arc<Participant>>) {
        let population = self.fold.population();
        let effect = self.fold.apply(entry);
        // The notice that deletes the topic is no presence envelope.
        if entry.envelope.kind() == Kind::Presence || self.fold.population() != population {
            self.settled_at = None;
        }
        if entry.envelope.kind() != Kind::Presence {
            return (effect, None);
        }
        let Some(presence) = entry.envelope.presence() else { return (effect, None) };
        let id = &presence.participant.id;
        let is_own = self.settled(id, entry.envelope.id());
        if is_own || presence.event != PresenceEvent::Leave || self.is_in_flight(id, now) {
            return (effect, None);
        }
        // After a gap the fold is ahead of the entries that are still read.
        let returns = self.seats.get(id).filter(|_| !self.fold.is_present(id));
        (effect, returns.map(|connected| connected.participant.clone()))
    }

    /// A participant of whom the log says, or is about to, that they are present.
    pub(crate) fn announced(&self, id: &ParticipantId, now: Instant) -> Option<Announced> {
        match self.newest_in_flight(id, now) {
            Some(Submitted { envelope, joins, .. }) => {
                joins.clone().map(|participant| Announced { participant, join: envelope.clone() })
            }
            None => {
                let join = self.fold.join_of(id)?.envelope.id().clone();
                self.fold.participant(id).map(|participant| Announced { participant: participant.clone(), join })
            }
        }
    }

    /// How many are present, or about to be.
    pub(crate) fn population(&self, now: Instant) -> usize {
        let changes = self.in_flight.keys().filter_map(|id| Some((id, self.newest_in_flight(id, now)?)));
        changes.fold(self.fold.population(), |count, (id, submitted)| {
            match (submitted.joins.is_some(), self.fold.is_present(id)) {
                (true, false) => count + 1,
                (false, true) => count - 1,
                _ => count,
            }
        })
    }

    pub(crate) fn is_seated(&self, id: &ParticipantId) -> bool {
        self.seats.contains_key(id)
    }

    /// Whether somebody is connected here and would let another connection of theirs sit beside.
    fn is_shared(&self, id: &ParticipantId) -> bool {
        self.seats.get(id).is_some_and(|connected| connected.claim == Claim::Shared)
    }

    /// Whether the room has nothing left to do here. Participants of other nodes are those nodes' work.
    pub(crate) fn is_idle(&self, now: Instant) -> bool {
        let is_nothing_in_flight = self.in_flight.keys().all(|id| self.newest_in_flight(id, now).is_none());
        let is_nobody_due = self.departed.is_empty() && self.orphaned.is_empty();
        self.seats.is_empty() && is_nobody_due && is_nothing_in_flight && !self.has_grace
    }

    /// Gives somebody a seat. Says as whom they sit there, and whether they must join for that.
    pub(crate) fn enter(
        &mut self,
        newcomer: Participant,
        entrance: EntryTerms,
        now: Instant,
    ) -> (Arc<Participant>, bool) {
        let newcomer = Arc::new(newcomer);
        let beside = entrance.claim == Claim::Shared && (entrance.is_elsewhere || self.is_shared(&newcomer.id));
        let (participant, joins) = match self.announced(&newcomer.id, now) {
            None => (newcomer, true),
            // It goes on where it was: nothing has happened that others need to know.
            Some(known) if entrance.is_resumed || beside => (known.participant, false),
            // It starts over. What it was asked before is lost, and this is how its callers are notified.
            Some(known) => {
                let joins = known.participant != newcomer || self.fold.is_awaited(&newcomer.id);
                (newcomer, joins)
            }
        };
        self.sit(&participant, entrance.claim);
        (participant, joins)
    }

    /// Counts one more connection of a participant.
    fn sit(&mut self, participant: &Arc<Participant>, claim: Claim) {
        self.settled_at = None;
        let connected = self.seats.entry(participant.id.clone()).or_insert_with(|| LocalConnections {
            count: 0,
            claim,
            participant: participant.clone(),
        });
        connected.count += 1;
        connected.claim = claim;
        connected.participant = participant.clone();
    }

    /// Counts one connection less. The last one departs, unless the place is handed over to whichever node they come back to.
    pub(crate) fn rise(&mut self, id: &ParticipantId, reason: Option<String>, hands_over: bool) {
        self.settled_at = None;
        if let Some(connected) = self.seats.get_mut(id) {
            connected.count -= 1;
            if connected.count == 0 {
                self.seats.remove(id);
                if !hands_over {
                    self.departed.push((id.clone(), reason));
                }
            }
        }
    }

    /// Notes that a join was submitted.
    pub(crate) fn joins(&mut self, participant: Arc<Participant>, envelope: EnvelopeId, now: Instant) {
        self.settled_at = None;
        let id = participant.id.clone();
        let submitted = Submitted { envelope, joins: Some(participant), since: now };
        self.in_flight.entry(id).or_default().push(submitted);
    }

    /// Notes that a leave was submitted.
    pub(crate) fn leaves(&mut self, id: &ParticipantId, envelope: EnvelopeId, now: Instant) {
        self.settled_at = None;
        let submitted = Submitted { envelope, joins: None, since: now };
        self.in_flight.entry(id.clone()).or_default().push(submitted);
    }

    /// Notes that one that was submitted has been read, or will not be; says whether there was such a one.
    pub(crate) fn settled(&mut self, id: &ParticipantId, envelope: &EnvelopeId) -> bool {
        let Some(flight) = self.in_flight.get_mut(id) else { return false };
        let before = flight.len();
        flight.retain(|submitted| submitted.envelope != *envelope);
        let settled = flight.len() < before;
        if flight.is_empty() {
            self.in_flight.remove(id);
        }
        settled
    }

    fn newest_in_flight(&self, id: &ParticipantId, now: Instant) -> Option<&Submitted> {
        let newest = self.in_flight.get(id)?.last()?;
        (now.duration_since(newest.since) < self.timings.submission_timeout).then_some(newest)
    }

    fn is_in_flight(&self, id: &ParticipantId, now: Instant) -> bool {
        self.newest_in_flight(id, now).is_some()
    }

    /// Who is connected here without the log saying that they are present, and without anything on its way that would.
    pub(crate) fn missing(&mut self, now: Instant) -> Vec<Arc<Participant>> {
        // What was not read back in time was not stored.
        let timeout = self.timings.submission_timeout;
        self.in_flight.retain(|_, flight| {
            flight.retain(|submitted| now.duration_since(submitted.since) < timeout);
            !flight.is_empty()
        });
        let missing = self.seats.iter().filter(|(id, _)| !self.fold.is_present(id) && !self.is_in_flight(id, now));
        missing.map(|(_, connected)| connected.participant.clone()).collect()
    }

    /// Ends the time to come back: everyone who has no connection here has departed.
    pub(crate) fn end_grace(&mut self) {
        self.settled_at = None;
        self.has_grace = false;
        let absent = self.fold.roster().map(|participant| &participant.id).filter(|id| !self.is_seated(id));
        let absent: Vec<_> = absent.map(|id| (id.clone(), None)).collect();
        self.departed.extend(absent);
    }

    /// Counts somebody as departed, unless they are connected here.
    pub(crate) fn depart(&mut self, id: &ParticipantId, reason: Option<String>) {
        if !self.is_seated(id) {
            self.settled_at = None;
            self.departed.push((id.clone(), reason));
        }
    }

    /// Looks for participants that are present by the log and have no place anywhere, of whom no node may know that it should remove them: two
    /// let go of a shared place at once, a claim outlived its claimant, a node stopped in between. A participant that stays so for as long as a
    /// lease has departed; says whether somebody has.
    pub(crate) fn depart_orphaned(&mut self, placed: &[ParticipantId], now: Instant) -> bool {
        if self.has_grace {
            return false;
        }
        let placed: HashSet<_> = placed.iter().collect();
        let is_absent =
            |id: &&ParticipantId| !self.is_seated(id) && !placed.contains(id) && !self.is_in_flight(id, now);
        let absent: HashSet<_> = self.fold.roster().map(|present| &present.id).filter(is_absent).cloned().collect();
        self.orphaned.retain(|id, _| absent.contains(id));
        for id in absent {
            self.orphaned.entry(id).or_insert(now);
        }
        let timeout = self.timings.orphan_timeout;
        let is_over = |since: &Instant| now.duration_since(*since) >= timeout;
        let over: Vec<_> =
            self.orphaned.iter().filter(|(_, since)| is_over(since)).map(|(id, _)| (id.clone(), None)).collect();
        self.orphaned.retain(|_, since| !is_over(since));
        let departs = !over.is_empty();
        self.departed.extend(over);
        departs
    }

    /// Remembers the version of the roster that [`Self::depart_orphaned`] was given, if nothing is to be repaired: then nothing will be while neither that nor
    /// anything here changes, however much time passes.
    pub(crate) fn note_repaired(&mut self, version: Option<RosterVersion>) {
        let is_nothing_pending =
            !self.has_grace && self.departed.is_empty() && self.orphaned.is_empty() && self.in_flight.is_empty();
        let is_settled = is_nothing_pending && self.seats.keys().all(|id| self.fold.is_present(id));
        self.settled_at = version.filter(|_| is_settled);
    }

    /// Whether nothing is to be repaired with a version of the roster, because nothing was and nothing has changed since.
    pub(crate) fn is_settled_at(&self, version: Option<RosterVersion>) -> bool {
        version.is_some() && self.settled_at == version
    }

    /// Participants that have departed, each once, whether or not they are back.
    pub(crate) fn take_departed(&mut self) -> Vec<(ParticipantId, Option<String>)> {
        self.settled_at = None;
        std::mem::take(&mut self.departed)
    }

    /// What becomes of somebody who has departed.
    pub(crate) fn departure(&self, id: &ParticipantId, now: Instant) -> Departure {
        match self.newest_in_flight(id, now) {
            _ if self.is_seated(id) => Departure::Over,
            Some(Submitted { joins: Some(_), .. }) => Departure::Later,
            _ => self.announced(id, now).map_or(Departure::Over, Departure::Leaves),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use salon_protocol::{Compose, Position, Presence, Timestamp};

    use super::*;

    const ORPHAN_TIMEOUT: Duration = Timings::NORMAL.orphan_timeout;

    fn alice() -> Arc<Participant> {
        Arc::new(Participant::new(ParticipantId::new("alice").expect("a name")))
    }

    fn id(text: &str) -> EnvelopeId {
        EnvelopeId::new(text).expect("an id")
    }

    fn said(offset: u64, envelope: &str, event: PresenceEvent) -> Arc<Entry> {
        let payload = Presence { event, participant: (*alice()).clone(), reason: None };
        let compose = Compose {
            id: envelope,
            ts: Timestamp(0),
            from: &ParticipantId::host(),
            to: &[],
            kind: Kind::Presence,
            correlation_id: None,
            payload,
        };
        let position = Position { epoch: 1, offset };
        Arc::new(Entry { position, arrived: Timestamp(0), stamp: None, envelope: compose.envelope() })
    }

    /// Alice is present by the log, by what another node said.
    fn attendance(now: Instant) -> Attendance {
        let mut attendance = Attendance::restore(&Standing::nothing(Position::start(1)), Timings::NORMAL);
        attendance.take(&said(1, "join", PresenceEvent::Join), now);
        attendance
    }

    #[test]
    fn a_participant_without_a_seat_for_a_lease_departs() {
        let begin = Instant::now();
        let mut attendance = attendance(begin);
        assert!(attendance.is_idle(begin), "a participant of another node is not this node's to remove");
        assert!(!attendance.depart_orphaned(&[], begin));
        assert!(!attendance.is_idle(begin), "a room stays open while somebody in it may be nowhere");
        assert!(!attendance.depart_orphaned(&[], begin + ORPHAN_TIMEOUT / 2));
        assert!(attendance.depart_orphaned(&[], begin + ORPHAN_TIMEOUT));
        assert_eq!(attendance.take_departed(), [(alice().id.clone(), None)]);
    }

    #[test]
    fn a_participant_with_a_seat_again_has_not_departed() {
        let begin = Instant::now();
        let mut attendance = attendance(begin);
        attendance.depart_orphaned(&[], begin);
        assert!(!attendance.depart_orphaned(&[alice().id.clone()], begin + ORPHAN_TIMEOUT));
        assert!(!attendance.depart_orphaned(&[], begin + 2 * ORPHAN_TIMEOUT), "the time starts over");
        attendance.sit(&alice(), Claim::Exclusive);
        assert!(!attendance.depart_orphaned(&[], begin + 4 * ORPHAN_TIMEOUT), "she sits here");
        attendance.rise(&alice().id, None, false);
        attendance.take_departed();
        attendance.leaves(&alice().id, id("leave"), begin + 5 * ORPHAN_TIMEOUT);
        assert!(!attendance.depart_orphaned(&[], begin + 5 * ORPHAN_TIMEOUT));
        assert!(!attendance.depart_orphaned(&[], begin + 6 * ORPHAN_TIMEOUT), "her leave is on its way");
    }

    #[test]
    fn the_grace_time_is_kept() {
        let begin = Instant::now();
        let mut attendance = attendance(begin);
        attendance.has_grace = true;
        assert!(!attendance.depart_orphaned(&[], begin));
        assert!(!attendance.depart_orphaned(&[], begin + 2 * ORPHAN_TIMEOUT));
    }

    #[test]
    fn what_is_on_its_way_overrides_what_was_read() {
        let now = Instant::now();
        let mut attendance = attendance(now);
        let join_of = |attendance: &Attendance| attendance.announced(&alice().id, now).map(|known| known.join);
        assert_eq!((join_of(&attendance), attendance.population(now)), (Some(id("join")), 1));
        attendance.leaves(&alice().id, id("leave"), now);
        assert_eq!((join_of(&attendance), attendance.population(now)), (None, 0));
        attendance.joins(alice(), id("again"), now);
        assert_eq!((join_of(&attendance), attendance.population(now)), (Some(id("again")), 1));
        attendance.settled(&alice().id, &id("again"));
        assert_eq!(join_of(&attendance), None, "the join was not stored, and the leave may be");
        attendance.settled(&alice().id, &id("leave"));
        assert_eq!(join_of(&attendance), Some(id("join")), "neither was stored");
    }

    #[test]
    fn a_participant_here_that_left_by_another_node_joins_again() {
        let now = Instant::now();
        let mut attendance = attendance(now);
        attendance.sit(&alice(), Claim::Exclusive);
        let (_, returns) = attendance.take(&said(2, "other", PresenceEvent::Leave), now);
        assert_eq!(returns, Some(alice()));
        attendance.joins(alice(), id("again"), now);
        assert_eq!(attendance.missing(now), [], "her join is on its way");
        attendance.settled(&alice().id, &id("again"));
        assert_eq!(attendance.missing(now), [alice()], "it was not stored");
    }
}
