//! What this client knows of everybody's lists: the merged lists, how old its own copies are, which requests wait for lists, and which
//! changes the client has not been told of.
//!
//! Invariants: only participants in the room have copies. A copy is fetched once at a time, and again only when it is older than it may be, or
//! when a change was announced. A request waits until every list that it needs has come or has been waited for long enough. A participant is
//! listed in the client's own name only where it may list something else to this client than to all.
//! Deliberately absent: asking anybody, handshakes, and what is sent to the client.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use salon_mcp::listing::Listing;
use salon_protocol::ParticipantId;

use super::incoming::text_of;
use super::list_copy::{CopyChange, FetchedPeerList, ListCopies, ListCopy, ListFetch, ListWaiter};
use super::merge::{MergedLists, OwnerLookup};
use super::{ClientProfile, DoorRequest, DoorTimer, McpDoorOptions};
use crate::CatalogueSnapshot;
use salon_mcp::timers::Timers;

/// How long a list waits for the catalogue.
const LIST_TIMEOUT: Duration = Duration::from_secs(3);
/// How long it then waits for participants that are listed in the client's own name: a guest may have to start a server for that.
const OWN_LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long changes are gathered before the client is notified.
const CHANGE_DELAY: Duration = Duration::from_millis(50);
/// The longest time for which a participant's `ttlMs` is believed (MCP 2026-07-28, "Caching").
const MAX_TTL: Duration = Duration::from_secs(3600);
/// How long a list that could not be fetched is not asked for again.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug)]
pub(super) struct DoorLists {
    is_room: bool,
    /// How old a copy may be where its owner does not say.
    pub(super) max_age: Duration,
    pub(super) merged: MergedLists,
    /// The lists the client has asked for.
    interest: BTreeSet<Listing>,
    /// Of the participants in the room.
    copies: BTreeMap<ParticipantId, ListCopies>,
    /// Participants that may list other things to this client than to all: it has met or called them, or they said so.
    candidates: BTreeSet<ParticipantId>,
    waiters: BTreeMap<u64, ListWaiter>,
    /// Changes that the client has not been told of, by the notifications' methods.
    changed: BTreeSet<&'static str>,
    /// [`DoorTimer::Gather`] of a request, and [`DoorTimer::Changed`].
    pub(super) timers: Timers<DoorTimer>,
}

impl DoorLists {
    pub(super) fn new(options: &McpDoorOptions) -> Self {
        Self {
            is_room: options.scope.is_room(),
            max_age: options.list_max_age,
            merged: MergedLists::of(&options.me),
            interest: BTreeSet::new(),
            copies: BTreeMap::new(),
            candidates: BTreeSet::new(),
            waiters: BTreeMap::new(),
            changed: BTreeSet::new(),
            timers: Timers::default(),
        }
    }

    /// A participant was here before the client.
    pub(super) fn found(&mut self, who: &ParticipantId) {
        self.copies.insert(who.clone(), ListCopies::default());
    }

    /// A participant has joined, maybe again: what it listed to this client before is void.
    pub(super) fn joined(&mut self, who: &ParticipantId) {
        self.found(who);
        self.candidates.remove(who);
        self.merged.joined(who);
    }

    /// A participant has left. Returns the listings that differ and that the catalogue will not tell of.
    pub(super) fn left(&mut self, who: &ParticipantId) -> Vec<Listing> {
        self.copies.remove(who);
        self.candidates.remove(who);
        self.merged.remove(who)
    }

    /// The client is interested in lists from now on.
    pub(super) fn note_interest(&mut self, listings: impl IntoIterator<Item = Listing>) {
        self.interest.extend(listings);
    }

    /// The lists the client has asked for.
    pub(super) fn interest(&self) -> Vec<Listing> {
        self.interest.iter().copied().collect()
    }

    pub(super) fn is_of_interest(&self, listing: Listing) -> bool {
        self.interest.contains(&listing)
    }

    /// A participant may list something else to this client than to all.
    pub(super) fn note_candidate(&mut self, who: &ParticipantId) {
        self.candidates.insert(who.clone());
    }

    /// A participant told this client alone of a change: from now on it is asked in the client's name.
    pub(super) fn set_apart(&mut self, who: &ParticipantId) {
        if let Some(copies) = self.copies.get_mut(who) {
            copies.is_apart = true;
            self.candidates.insert(who.clone());
        }
    }

    /// What a participant lists to the client may be something else from now on: copies are fetched again when the client lists.
    pub(super) fn expire(&mut self, who: &ParticipantId, now: Instant) {
        for list in self.copies.get_mut(who).into_iter().flat_map(|copies| copies.lists.values_mut()) {
            if let ListCopy::Fetched { until } = list {
                *until = now;
            }
        }
    }

    /// What could not be fetched for a while may be fetched now.
    pub(super) fn forgive(&mut self) {
        for copies in self.copies.values_mut() {
            copies.lists.retain(|_, list| !matches!(list, ListCopy::Lacking { .. }));
        }
    }

    /// The participants whose lists may be others than the catalogue's, in order.
    pub(super) fn listed_apart(&self) -> Vec<ParticipantId> {
        if !self.is_room {
            return self.copies.keys().cloned().collect();
        }
        let mut apart: Vec<_> = self.candidates.iter().cloned().chain([ParticipantId::host()]).collect();
        apart.sort_unstable();
        apart
    }

    /// Whether anything is known or being asked of a participant's list.
    pub(super) fn is_followed(&self, who: &ParticipantId, listing: Listing) -> bool {
        self.copy(who, listing).is_some() || self.merged.is_catalogued(who, listing)
    }

    /// Whether a participant's list is known, to this client alone or to the catalogue.
    pub(super) fn is_known(&self, who: &ParticipantId, listing: Listing) -> bool {
        match self.copy(who, listing) {
            Some(list) => matches!(list, ListCopy::Fetched { .. }),
            None => self.merged.is_catalogued(who, listing),
        }
    }

    /// Whether there is a copy of a participant's list.
    pub(super) fn has_copy(&self, who: &ParticipantId, listing: Listing) -> bool {
        matches!(self.copy(who, listing), Some(ListCopy::Fetched { .. }))
    }

    fn copy(&self, who: &ParticipantId, listing: Listing) -> Option<&ListCopy> {
        self.copies.get(who)?.lists.get(&listing)
    }

    /// Has a copy fetched again, however old it is.
    pub(super) fn forget(&mut self, who: &ParticipantId, listing: Listing) {
        if let Some(copies) = self.copies.get_mut(who) {
            copies.lists.remove(&listing);
        }
    }

    /// Begins to fetch a list, unless it is known well enough or being asked for. `offers_more` says that the participant may list
    /// more to this client than to all.
    pub(super) fn fetch(
        &mut self,
        who: &ParticipantId,
        listing: Listing,
        offers_more: bool,
        now: Instant,
    ) -> ListFetch {
        let Some(copies) = self.copies.get_mut(who) else { return ListFetch::No };
        match copies.lists.get(&listing) {
            Some(ListCopy::Asking { .. }) => return ListFetch::No,
            Some(ListCopy::Fetched { until } | ListCopy::Lacking { until }) if *until > now => return ListFetch::No,
            _ => {}
        }
        let (fetch, timeout) = match self.is_room {
            true if who.is_host() => (ListFetch::Host, LIST_TIMEOUT),
            true if !offers_more && !copies.is_apart => return ListFetch::No,
            _ => (ListFetch::Participant, OWN_LIST_TIMEOUT),
        };
        copies.lists.insert(listing, ListCopy::Asking { until: now + timeout, stale: false });
        fetch
    }

    /// Keeps a copy for as long as it may be kept; `None` where its owner has left.
    pub(super) fn put(&mut self, list: FetchedPeerList<'_>, now: Instant) -> Option<CopyChange> {
        let FetchedPeerList { owner, listing, items, ttl } = list;
        let copies = self.copies.get_mut(owner)?;
        let until = now + ttl.map_or(self.max_age, |ttl| ttl.min(MAX_TTL));
        let before = copies.lists.insert(listing, ListCopy::Fetched { until });
        let is_stale = matches!(before, Some(ListCopy::Asking { stale: true, .. }));
        let is_awaited = self.waiters.values().any(|waiter| waiter.needs.contains(&listing));
        Some(CopyChange { is_news: self.merged.put(owner, listing, items) && !is_awaited, is_stale })
    }

    /// A list that was not to be had is not asked for again for a while.
    pub(super) fn lacking(&mut self, who: &ParticipantId, listing: Listing, now: Instant) {
        if let Some(copies) = self.copies.get_mut(who) {
            copies.lists.insert(listing, ListCopy::Lacking { until: now + RETRY_AFTER });
        }
    }

    /// A participant announced that a list has changed. Whether it is to be fetched again.
    pub(super) fn stale(&mut self, who: &ParticipantId, listing: Listing) -> bool {
        let Some(copies) = self.copies.get_mut(who) else { return false };
        match copies.lists.get_mut(&listing) {
            Some(ListCopy::Asking { stale, .. }) => {
                *stale = true;
                false
            }
            Some(ListCopy::Fetched { .. } | ListCopy::Lacking { .. }) => {
                copies.lists.remove(&listing);
                true
            }
            None => self.interest.contains(&listing),
        }
    }

    /// Has a request wait for lists.
    pub(super) fn wait(&mut self, number: u64, needs: &'static [Listing], request: DoorRequest, now: Instant) {
        let waiter = ListWaiter { needs, request, awaits_catalogue: self.is_room, is_in_own_name: false };
        self.waiters.insert(number, waiter);
        self.timers.set(DoorTimer::Gather(number), now + LIST_TIMEOUT);
    }

    /// How many requests wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiters.len()
    }

    /// The requests that wait and are wanted.
    pub(super) fn of_requests(&self, is_wanted: impl Fn(&DoorRequest) -> bool) -> Vec<u64> {
        self.numbers(|waiter| is_wanted(&waiter.request))
    }

    /// A request waits no longer.
    pub(super) fn take_waiter(&mut self, number: u64) -> Option<DoorRequest> {
        self.timers.forget(DoorTimer::Gather(number));
        self.waiters.remove(&number).map(|waiter| waiter.request)
    }

    /// A request does not wait for the catalogue any more.
    pub(super) fn catalogue_arrived(&mut self, number: u64) {
        if let Some(waiter) = self.waiters.get_mut(&number) {
            waiter.awaits_catalogue = false;
        }
    }

    /// The requests all of whose lists have come.
    pub(super) fn settled(&self, now: Instant) -> Vec<u64> {
        if self.waiters.is_empty() {
            return Vec::new();
        }
        let apart = self.listed_apart();
        self.numbers(|waiter| {
            let copies = apart.iter().filter_map(|who| self.copies.get(who));
            let mut lists = copies.flat_map(|copies| waiter.needs.iter().filter_map(|need| copies.lists.get(need)));
            !waiter.awaits_catalogue && lists.all(|list| !list.is_awaited(now))
        })
    }

    /// The requests that name something on a list that has come, so that nobody else's lists matter.
    pub(super) fn satisfied(&self) -> Vec<u64> {
        self.numbers(|waiter| {
            let listing = match &*waiter.request.method {
                "tools/call" => Listing::Tools,
                "prompts/get" => Listing::Prompts,
                _ => return false,
            };
            let name = text_of(waiter.request.params.as_deref(), "name");
            name.is_some_and(|name| self.merged.is_listed(listing, &name))
        })
    }

    /// Whether a call names a tool that is known by now, however old the list is.
    pub(super) fn knows_tool(&self, name: &str) -> bool {
        self.merged.find(Listing::Tools, name) != OwnerLookup::Nobody
    }

    /// A request for a list goes on once more before it is answered: in the client's own name. Returns what it asks for; once.
    pub(super) fn retry_as_client(&mut self, number: u64) -> Option<(Listing, Arc<ClientProfile>)> {
        let waiter = self.waiters.get_mut(&number)?;
        let listing = Listing::of_method(&waiter.request.method).filter(|_| !waiter.is_in_own_name)?;
        waiter.is_in_own_name = true;
        Some((listing, waiter.request.profile.clone()))
    }

    /// Sets everybody apart whose list is known, but not in the client's own name. Returns them: they are to be asked.
    pub(super) fn set_all_apart(&mut self, listing: Listing) -> Vec<ParticipantId> {
        let is_due = |who: &&ParticipantId| {
            let is_apart = self.copies.get(*who).is_some_and(|copies| copies.is_apart);
            !who.is_host() && !is_apart && self.is_known(who, listing)
        };
        let due: Vec<_> = self.copies.keys().filter(is_due).cloned().collect();
        for who in &due {
            self.set_apart(who);
            self.forget(who, listing);
        }
        due
    }

    /// Whether a request for a list has to wait for copies; it then does so for longer.
    pub(super) fn wait_for_copies(&mut self, number: u64, listing: Listing, now: Instant) -> bool {
        let mut lists = self.copies.values().filter_map(|copies| copies.lists.get(&listing));
        let is_awaited = lists.any(|list| list.is_awaited(now));
        if is_awaited {
            self.timers.set(DoorTimer::Gather(number), now + OWN_LIST_TIMEOUT);
        }
        is_awaited
    }

    /// There is a newer snapshot. Returns the listings that differ for the client, but for those it is about to be answered with.
    pub(super) fn update(&mut self, snapshot: Arc<CatalogueSnapshot>) -> Vec<Listing> {
        let changed = self.merged.update(snapshot, &self.interest);
        let is_listing = |listing: &Listing| {
            self.waiters.values().any(|waiter| Listing::of_method(&waiter.request.method) == Some(*listing))
        };
        changed.into_iter().filter(|listing| !is_listing(listing)).collect()
    }

    /// What the client was told of a list is no longer so: it is notified together with what changes soon after.
    pub(super) fn note_change(&mut self, listing: Listing, now: Instant) {
        if self.changed.is_empty() {
            self.timers.set(DoorTimer::Changed, now + CHANGE_DELAY);
        }
        self.changed.insert(listing.changed());
    }

    /// The notifications that the client is to be sent.
    pub(super) fn take_changes(&mut self) -> BTreeSet<&'static str> {
        std::mem::take(&mut self.changed)
    }

    fn numbers(&self, is_wanted: impl Fn(&ListWaiter) -> bool) -> Vec<u64> {
        self.waiters.iter().filter(|(_, waiter)| is_wanted(waiter)).map(|(number, _)| *number).collect()
    }
}
