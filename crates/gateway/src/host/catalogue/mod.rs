//! What everybody in a room offers, as far as somebody wanted to know.
//!
//! One slot a participant and list ([`slots`]), filled by one list request however many sessions ask at once ([`super::handshake`]), and good until the
//! participant leaves, joins again or says that the list has changed. Not every server says so: a list is asked for again when it is wanted and
//! older than its owner allows (`ttlMs` of MCP 2026-07-28), or than a fixed age; so many in a second, the oldest first.
//!
//! What is known is merged into a snapshot, which sessions read. Invariants: a request for lists costs what is due, and not a look at
//! every participant. Bounded: a slot belongs to somebody present, what the slots of all rooms hold is counted in bytes
//! ([`ListBudget`]), and a room's snapshot has bounds of its own; a list that does not fit is left out and counted.

mod budget;
mod seen_tools;
mod slots;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use salon_dialects::{CatalogueSnapshot, SnapshotBuilder};
use salon_mcp::listing::{ListItem, Listing};
use salon_protocol::{Participant, ParticipantId};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::calls::MissingReason;
use super::library::{Board, Demand};
use seen_tools::SeenTools;
use slots::{ListState, ListStep, ParticipantSlot, Queue};

pub(super) use budget::ListBudget;
pub(super) use seen_tools::{ToolChange, announcement};
pub(super) use slots::{Consulted, HandshakeResult, Meeting, OfferedList};

/// How long a participant that did not answer is not asked again.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// How long an answer waits for a participant, from when it was last asked something. The list request goes on behind it.
const LIST_TIMEOUT: Duration = Duration::from_secs(3);

/// The bounds of what a participant's `ttlMs` may be: the first keeps clients that list often from having everybody asked each time.
const MIN_TTL: Duration = Duration::from_secs(1);
const MAX_TTL: Duration = Duration::from_secs(3600);

/// How many lists of a room are asked for again in [`REVALIDATION_INTERVAL`] because of their age.
const MAX_REVALIDATIONS: usize = 64;
pub(super) const REVALIDATION_INTERVAL: Duration = Duration::from_secs(1);

/// A list as a list request brings it.
pub(super) struct ListResult {
    pub(super) items: Vec<ListItem>,
    /// How long it may be kept, where its owner says so.
    pub(super) ttl: Option<Duration>,
}

/// What keeping a list has shown.
#[derive(Default)]
pub(super) struct SettledList {
    /// It is left out of the catalogue from now on, because it is too long.
    pub(super) is_left_out: bool,
    /// Tools that the room has seen before, and with another definition.
    pub(super) changes: Vec<ToolChange>,
}

/// A list to be fetched. The holder must settle it.
pub(super) struct ListRequest {
    pub(super) who: Arc<Participant>,
    pub(super) listing: Listing,
    pub(super) meeting: Arc<Meeting>,
    /// There is such a list, whatever the handshake says.
    pub(super) is_announced: bool,
}

/// A session's request for lists that is not answered yet.
struct Waiter {
    listings: &'static [Listing],
    done: oneshot::Sender<()>,
}

/// A place to wait until lists are known.
pub(super) struct ListWait {
    done: oneshot::Receiver<()>,
    deadline: Instant,
}

impl ListWait {
    /// Waits until all of them are known, or have been waited for long enough.
    pub(super) async fn settled(self) {
        let _ = tokio::time::timeout_at(self.deadline, self.done).await;
    }
}

pub(super) struct Catalogue {
    slots: HashMap<ParticipantId, ParticipantSlot>,
    /// By listing.
    queues: [Queue; 4],
    waiters: Vec<Waiter>,
    builder: SnapshotBuilder,
    seen_tools: SeenTools,
    board: Arc<Board>,
    budget: Arc<ListBudget>,
    max_age: Duration,
    /// Whether everybody present has a slot.
    is_complete: bool,
    /// The listings that a session has asked for.
    requested: [bool; 4],
    /// Lists that are too old are being asked for, so many in an interval.
    is_revalidating: bool,
    revalidated: (Instant, usize),
}

impl Catalogue {
    /// `max_age` is how old a list may be whose owner does not say, `announce_interval` how far announcements of a participant's changed tools are apart.
    pub(super) fn new(
        budget: Arc<ListBudget>,
        (max_age, announce_interval): (Duration, Duration),
        board: Arc<Board>,
    ) -> Self {
        let mut catalogue = Self {
            slots: HashMap::new(),
            queues: Default::default(),
            waiters: Vec::new(),
            builder: SnapshotBuilder::after(&board.snapshot()),
            seen_tools: SeenTools::new(announce_interval),
            board,
            budget,
            max_age,
            is_complete: false,
            requested: [false; 4],
            is_revalidating: false,
            revalidated: (Instant::now(), 0),
        };
        catalogue.publish();
        catalogue
    }

    /// Publishes what is known by now.
    pub(super) fn publish(&mut self) -> Arc<CatalogueSnapshot> {
        let snapshot = self.builder.snapshot();
        self.board.publish(&snapshot);
        snapshot
    }

    /// Looks a list up of a participant that is here.
    pub(super) fn consult(
        &mut self,
        who: &Arc<Participant>,
        listing: Listing,
        now: Instant,
    ) -> (Consulted, Option<ListRequest>) {
        self.admit(who, false, now);
        let list = &self.slots[&who.id].lists[listing as usize];
        let knowledge = list.knowledge.subscribe();
        let is_due = list.is_due(now);
        let list_request = if is_due { self.start(&who.id, listing, now) } else { None };
        (Consulted { who: who.clone(), knowledge }, list_request)
    }

    /// Gives a participant a slot, unless this very join of it has one. Every list is due at once; what it listed before it joined again is
    /// shown until it has answered.
    fn admit(&mut self, who: &Arc<Participant>, is_newcomer: bool, now: Instant) -> bool {
        if self.slots.get(&who.id).is_some_and(|slot| Arc::ptr_eq(&slot.who, who)) {
            return false;
        }
        self.drop_slot(&who.id);
        let mut slot = ParticipantSlot::new(who, is_newcomer);
        for (queue, list) in self.queues.iter_mut().zip(&mut slot.lists) {
            queue.set(&who.id, list, Some(ListStep::Due(now)));
        }
        self.slots.insert(who.id.clone(), slot);
        true
    }

    fn drop_slot(&mut self, who: &ParticipantId) {
        if let Some(mut slot) = self.slots.remove(who) {
            for (queue, list) in self.queues.iter_mut().zip(&mut slot.lists) {
                queue.set(who, list, None);
            }
        }
    }

    /// Begins to ask for a list.
    fn start(&mut self, who: &ParticipantId, listing: Listing, now: Instant) -> Option<ListRequest> {
        let slot = self.slots.get_mut(who)?;
        let list = &mut slot.lists[listing as usize];
        let earlier = match &*list.knowledge.borrow() {
            ListState::Fetched(offer) => Some(offer.clone()),
            _ => None,
        };
        list.knowledge.send_replace(ListState::Asking { since: now, earlier });
        let is_announced = list.is_announced;
        self.queues[listing as usize].set(who, list, Some(ListStep::Pending(now)));
        Some(ListRequest { who: slot.who.clone(), listing, meeting: slot.meeting.clone(), is_announced })
    }

    /// Whether everybody present is known. Once [`Self::complete`] has been told who is, joins and leaves keep it so.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Takes note of who is present, and of nobody else. Ghosts offer nothing, so their bridge is not asked for each of them.
    pub(super) fn complete(&mut self, roster: &[Arc<Participant>], now: Instant) {
        let roster: Vec<_> = roster.iter().filter(|who| who.via.is_none()).collect();
        let present: HashSet<_> = roster.iter().map(|who| &who.id).collect();
        let known = self.slots.keys().cloned().chain(self.builder.participants());
        let gone: Vec<_> = known.filter(|who| !present.contains(who)).collect();
        gone.iter().for_each(|who| self.forget(who));
        for who in roster {
            self.admit(who, false, now);
        }
        self.is_complete = true;
    }

    /// Finds out what all participants but the asker offer of some kinds: the lists to be had now, and a place to wait for them; `None`
    /// when there is nothing to wait for.
    pub(super) fn gather(
        &mut self,
        asker: &ParticipantId,
        listings: &'static [Listing],
        now: Instant,
    ) -> (Vec<ListRequest>, Option<ListWait>) {
        let mut list_requests = Vec::new();
        for listing in listings {
            self.requested[*listing as usize] = true;
            self.start_due(*listing, asker, now, &mut list_requests);
            self.start_aged(*listing, now, &mut list_requests);
        }
        let deadlines = listings.iter().filter_map(|listing| self.queues[*listing as usize].deadline());
        let Some(deadline) = deadlines.max().filter(|deadline| *deadline > now) else { return (list_requests, None) };
        let (done, waiting) = oneshot::channel();
        // Those that gave up waiting: participants that are always slow would let them pile up.
        self.waiters.retain(|waiter| !waiter.done.is_closed());
        self.waiters.push(Waiter { listings, done });
        (list_requests, Some(ListWait { done: waiting, deadline }))
    }

    fn start_due(
        &mut self,
        listing: Listing,
        asker: &ParticipantId,
        now: Instant,
        list_requests: &mut Vec<ListRequest>,
    ) {
        while let Some(who) = self.queues[listing as usize].next_due(asker, now) {
            list_requests.extend(self.start(&who, listing, now));
        }
    }

    /// Asks again for lists that are too old, as many as may be in this interval.
    fn start_aged(&mut self, listing: Listing, now: Instant, list_requests: &mut Vec<ListRequest>) {
        if now >= self.revalidated.0 + REVALIDATION_INTERVAL {
            self.revalidated = (now, 0);
        }
        while let Some(who) = self.queues[listing as usize].next_aged(now) {
            if self.revalidated.1 == MAX_REVALIDATIONS {
                self.is_revalidating = true;
                return;
            }
            self.revalidated.1 += 1;
            list_requests.extend(self.start(&who, listing, now));
        }
    }

    /// Whether lists that were too old when a session asked are still to be asked for, or changes of tools wait to be announced.
    pub(super) fn has_upkeep(&self) -> bool {
        self.is_revalidating || self.seen_tools.is_waiting()
    }

    /// The changes of tools that waited and are to be announced now, by participant.
    pub(super) fn due_tool_changes(&mut self, now: Instant) -> Vec<(ParticipantId, Vec<ToolChange>)> {
        self.seen_tools.due(now)
    }

    /// Goes on asking for lists that are too old.
    pub(super) fn revalidate(&mut self, now: Instant) -> Vec<ListRequest> {
        self.is_revalidating = false;
        let mut list_requests = Vec::new();
        for listing in Listing::ALL.into_iter().filter(|listing| self.requested[*listing as usize]).collect::<Vec<_>>()
        {
            self.start_aged(listing, now, &mut list_requests);
        }
        list_requests
    }

    /// The slot of a participant, unless it has joined again since.
    fn slot(&mut self, who: &Arc<Participant>) -> Option<&mut ParticipantSlot> {
        self.slots.get_mut(&who.id).filter(|slot| Arc::ptr_eq(&slot.who, who))
    }

    /// A list is about to be asked for: what changed before does not matter any more. Its owner has answered the handshake, so even one
    /// that took long over that is waited for again.
    pub(super) fn begin_listing(&mut self, list_request: &ListRequest, now: Instant) {
        let Some(slot) =
            self.slots.get_mut(&list_request.who.id).filter(|slot| Arc::ptr_eq(&slot.who, &list_request.who))
        else {
            return;
        };
        let list = &mut slot.lists[list_request.listing as usize];
        list.is_stale = false;
        if list.is_pending() {
            self.queues[list_request.listing as usize].set(&list_request.who.id, list, Some(ListStep::Pending(now)));
        }
        list.knowledge.send_if_modified(|knowledge| {
            if let ListState::Asking { since, .. } = knowledge {
                *since = now;
            }
            // That is for new requests; the waiting ones have waited long enough.
            false
        });
    }

    /// Whether it changed since.
    pub(super) fn is_stale(&mut self, list_request: &ListRequest) -> bool {
        self.slot(&list_request.who).is_some_and(|slot| slot.lists[list_request.listing as usize].is_stale)
    }

    /// Keeps what a list request brought.
    pub(super) fn settle(
        &mut self,
        list_request: &ListRequest,
        listed: Result<ListResult, MissingReason>,
    ) -> SettledList {
        let (now, listing, id) = (Instant::now(), list_request.listing, &list_request.who.id);
        if self.slot(&list_request.who).is_none() {
            return SettledList::default();
        }
        if matches!(listed, Err(MissingReason::Left)) {
            self.forget(id);
            return SettledList::default();
        }
        let changes = match &listed {
            Ok(listed) if listing == Listing::Tools => self.seen_tools.note(id, &listed.items, now),
            _ => Vec::new(),
        };
        let was_left_out = self.builder.is_left_out(id, listing);
        let ttl = listed.as_ref().ok().and_then(|listed| listed.ttl).map(|ttl| ttl.clamp(MIN_TTL, MAX_TTL));
        let offer = listed.and_then(|ListResult { items, .. }| {
            let bytes = items.iter().map(budget::weight).sum::<usize>() + budget::OVERHEAD;
            let taken = self.budget.take(bytes).ok_or(MissingReason::TooLong)?;
            Ok(OfferedList { items: items.into(), _taken: taken })
        });
        let Some(slot) = self.slots.get_mut(id) else { return SettledList::default() };
        let list = &mut slot.lists[listing as usize];
        let before = match &*list.knowledge.borrow() {
            ListState::Asking { earlier, .. } => earlier.clone(),
            _ => None,
        };
        let (knowledge, turn) = match (offer, before) {
            (Ok(offer), _) => {
                self.builder.put(id, listing, offer.items.clone(), slot.is_newcomer);
                (ListState::Fetched(Arc::new(offer)), ListStep::Aging(now + ttl.unwrap_or(self.max_age)))
            }
            // A participant that is here and slow still offers what it did.
            (Err(MissingReason::Timeout | MissingReason::Unasked), Some(before)) => {
                (ListState::Fetched(before), ListStep::Aging(now + RETRY_AFTER))
            }
            (Err(lack), _) => {
                match lack {
                    MissingReason::TooLong => self.builder.leave_out(id, listing),
                    _ => self.builder.remove_list(id, listing),
                }
                // A participant that answers again after all may have started over.
                slot.meeting = Arc::default();
                (ListState::Unknown(lack), ListStep::Due(now + RETRY_AFTER))
            }
        };
        list.knowledge.send_replace(knowledge);
        let turn = if std::mem::take(&mut list.is_stale) { ListStep::Due(now) } else { turn };
        self.queues[listing as usize].set(id, list, Some(turn));
        let is_left_out = self.builder.is_left_out(id, listing);
        self.wake();
        SettledList { is_left_out: is_left_out && !was_left_out, changes }
    }

    /// Answers the sessions whose lists are all known.
    fn wake(&mut self) {
        let queues = &self.queues;
        let is_settled = |waiter: &Waiter| waiter.listings.iter().all(|listing| queues[*listing as usize].is_settled());
        if queues.iter().any(Queue::is_settled) {
            for waiter in self.waiters.extract_if(.., |waiter| is_settled(waiter)) {
                // Its session may have given up.
                let _ = waiter.done.send(());
            }
        }
    }

    /// A participant has joined. Its lists are asked for at once where sessions are to be told of them.
    pub(super) fn joined(&mut self, who: &Arc<Participant>, demand: Demand, now: Instant) -> Vec<ListRequest> {
        if who.via.is_some() || !self.admit(who, demand != Demand::None, now) {
            return Vec::new();
        }
        let is_wanted = |listing: &Listing| match demand {
            Demand::None => false,
            Demand::Requested => self.requested[*listing as usize] || self.board.is_watched(*listing),
            Demand::All => true,
        };
        let wanted: Vec<_> = Listing::ALL.into_iter().filter(is_wanted).collect();
        wanted.into_iter().filter_map(|listing| self.start(&who.id, listing, now)).collect()
    }

    /// A participant says that lists of its have changed. They are asked for at once where sessions have them.
    pub(super) fn changed(
        &mut self,
        who: &ParticipantId,
        listings: &[Listing],
        demand: Demand,
        now: Instant,
    ) -> Vec<ListRequest> {
        let mut again = Vec::new();
        for listing in listings {
            let Some(slot) = self.slots.get_mut(who) else { break };
            let list = &mut slot.lists[*listing as usize];
            list.is_announced = true;
            if list.is_pending() {
                list.is_stale = true;
                continue;
            }
            self.queues[*listing as usize].set(who, list, Some(ListStep::Due(now)));
            if demand != Demand::None && (list.is_known() || self.requested[*listing as usize]) {
                again.push(*listing);
            }
        }
        self.heard(who, now);
        again.into_iter().filter_map(|listing| self.start(who, listing, now)).collect()
    }

    /// A participant speaks MCP after all; if it was silent before, it is asked again.
    pub(super) fn heard(&mut self, who: &ParticipantId, now: Instant) {
        let Some(slot) = self.slots.get_mut(who) else { return };
        for (queue, list) in self.queues.iter_mut().zip(&mut slot.lists) {
            let is_lacking = matches!(&*list.knowledge.borrow(), ListState::Unknown(_));
            if is_lacking && !list.is_due(now) {
                queue.set(who, list, Some(ListStep::Due(now)));
            }
        }
    }

    /// A participant has left.
    pub(super) fn forget(&mut self, who: &ParticipantId) {
        self.drop_slot(who);
        self.builder.remove(who);
        self.wake();
    }

    /// Something was missed: who is present is looked up again, and every list is asked for again when it is wanted. Where sessions follow
    /// the catalogue, that is at once.
    pub(super) fn start_over(&mut self, roster: &[Arc<Participant>], demand: Demand, now: Instant) -> Vec<ListRequest> {
        for (who, slot) in &mut self.slots {
            for (queue, list) in self.queues.iter_mut().zip(&mut slot.lists) {
                match list.is_pending() {
                    true => list.is_stale = true,
                    false => queue.set(who, list, Some(ListStep::Due(now))),
                }
            }
        }
        self.complete(roster, now);
        let mut list_requests = Vec::new();
        let wanted = Listing::ALL.into_iter().filter(|listing| self.requested[*listing as usize]);
        for listing in wanted.collect::<Vec<_>>() {
            if demand != Demand::None {
                self.start_due(listing, &ParticipantId::host(), now, &mut list_requests);
            }
        }
        list_requests
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        let known: Vec<_> = self.slots.keys().cloned().chain(self.builder.participants()).collect();
        known.iter().for_each(|who| self.forget(who));
        self.is_complete = false;
    }
}
