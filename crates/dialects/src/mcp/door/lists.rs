//! What everybody offers, gathered and said as one list, in pages.
//!
//! The room has one catalogue, which its host keeps and publishes as snapshots: a session asks the host once per list request to bring the
//! catalogue up to date, and never per participant. A participant is listed in the client's own name when it may offer this client more: when the
//! client can be asked things and the room has few participants, or when the two have met in a call. A slow participant does not hold up a list:
//! after a timeout the answer has what is there, and `list_changed` announces the rest.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use salon_mcp::listing::{self, ListItem, Listing};
use salon_mcp::{Era, downgrade, handshake, upgrade};
use salon_protocol::{Members, ParticipantId, RpcError};
use serde_json::value::RawValue;

use super::call_table::CallPurpose;
use super::incoming::text_of;
use super::merge::OwnerLookup;
use super::peers::DoorPeer;
use super::{
    CatalogueAnswer, CatalogueQuery, ClientProfile, Door, DoorRequest, DoorScope, DoorTimer, RoomAnswer, RoomQuery,
};
use crate::CatalogueSnapshot;

/// How long a list waits for the catalogue.
const LIST_TIMEOUT: Duration = Duration::from_secs(3);
/// How long it then waits for participants that are listed in the client's own name: a guest may have to start a server for that.
const OWN_LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long changes are gathered before the client is notified.
const CHANGE_DELAY: Duration = Duration::from_millis(50);
/// The longest time for which a participant's `ttlMs` is believed (MCP 2026-07-28, "Caching").
const MAX_TTL: Duration = Duration::from_secs(3600);
/// How long a list may be that was fetched in the client's own name: pages, elements, and bytes; and bytes of all together.
const MAX_PAGES: usize = 64;
const MAX_ITEMS: usize = 4096;
const MAX_BYTES: usize = 4 << 20;
const MAX_BYTES_IN_ALL: usize = 32 << 20;

/// What is known of a list that the catalogue does not have: one in the client's own name, or the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PeerList {
    /// It is being asked for, and waited for until a moment; whether it has changed meanwhile.
    Asking { until: Instant, stale: bool },
    /// It is known, and asked for again when the client lists after a moment: not every server announces its changes.
    Known { until: Instant },
    /// It is not to be had, and not asked for before a moment.
    Lacking { until: Instant },
}

impl PeerList {
    /// Whether a request for lists waits for it.
    fn is_awaited(&self, now: Instant) -> bool {
        matches!(self, Self::Asking { until, .. } if *until > now)
    }
}

pub(super) type Lists = BTreeMap<Listing, PeerList>;

/// A list that is being read.
#[derive(Debug)]
pub(super) struct PagedList {
    pub(super) listing: Listing,
    items: Vec<ListItem>,
    pages: usize,
    /// How long it may be kept, by what its pages say of that.
    ttl: Option<Duration>,
}

/// A request that waits for lists.
#[derive(Debug)]
pub(super) struct ListWaiter {
    needs: &'static [Listing],
    pub(super) request: DoorRequest,
    /// The host is bringing the catalogue up to date.
    awaits_catalogue: bool,
    /// The catalogue has answered, and participants are listed in the client's own name.
    is_in_own_name: bool,
}

impl Door {
    /// Answers a request for a list.
    pub(super) fn list(&mut self, request: DoorRequest, listing: Listing, now: Instant) {
        self.interest.insert(listing);
        let needs: &'static [Listing] = match listing {
            Listing::Tools => &[Listing::Tools],
            Listing::Prompts => &[Listing::Prompts],
            Listing::Resources => &[Listing::Resources],
            Listing::Templates => &[Listing::Templates],
        };
        // Later pages are of what the first was of.
        match cursor_of(&request) {
            Ok(Some(_)) | Err(_) => self.answer_page(&request, listing),
            Ok(None) => self.gather(needs, request, now),
        }
    }

    /// Has a request wait until lists are known, or have been waited for long enough.
    pub(super) fn gather(&mut self, needs: &'static [Listing], request: DoorRequest, now: Instant) {
        let profile = request.profile.clone();
        let number = self.fresh();
        let awaits_catalogue = self.is_room();
        self.gathers.insert(number, ListWaiter { needs, request, awaits_catalogue, is_in_own_name: false });
        if awaits_catalogue {
            self.outbox.query(RoomQuery::Gather { number, listings: needs });
        }
        for who in self.listed_apart() {
            for listing in needs {
                self.ask_list(&who, *listing, &profile, now);
            }
        }
        self.after(LIST_TIMEOUT, DoorTimer::Gather(number), now);
        self.settle_gathers(now);
    }

    /// The same for a tool call, which lists of any age will do for.
    pub(super) fn gather_tool(&mut self, request: DoorRequest, now: Instant) {
        let is_known = match &self.options.scope {
            DoorScope::Room => {
                let name = text_of(request.params.as_deref(), "name");
                name.is_some_and(|name| self.shelf.find(Listing::Tools, &name) != OwnerLookup::Nobody)
            }
            DoorScope::One(who) => {
                let list = self.peers.get(who).and_then(|peer| peer.lists.get(&Listing::Tools));
                matches!(list, Some(PeerList::Known { .. }))
            }
        };
        match is_known {
            true => self.serve_gathered(request, now),
            false => self.gather(&[Listing::Tools], request, now),
        }
    }

    /// The participants whose lists may be others than the catalogue's, in order.
    fn listed_apart(&self) -> Vec<ParticipantId> {
        match &self.options.scope {
            DoorScope::One(_) => self.peers.keys().cloned().collect(),
            DoorScope::Room => {
                let mut apart: Vec<_> = self.list_candidates.iter().cloned().chain([ParticipantId::host()]).collect();
                apart.sort_unstable();
                apart
            }
        }
    }

    /// Goes on with every request whose lists have come.
    pub(super) fn settle_gathers(&mut self, now: Instant) {
        if self.gathers.is_empty() {
            return;
        }
        let apart = self.listed_apart();
        let is_settled = |gather: &ListWaiter| {
            let peers = apart.iter().filter_map(|who| self.peers.get(who));
            let mut lists = peers.flat_map(|peer| gather.needs.iter().filter_map(|need| peer.lists.get(need)));
            !gather.awaits_catalogue && lists.all(|list| !list.is_awaited(now))
        };
        let settled: Vec<u64> =
            self.gathers.iter().filter(|(_, gather)| is_settled(gather)).map(|(number, _)| *number).collect();
        for number in settled {
            self.gathered(number, now);
        }
    }

    /// Goes on with requests that name something on a list that has come, so that nobody else's lists matter.
    fn settle_found(&mut self, now: Instant) {
        let is_found = |gather: &ListWaiter| {
            let listing = match &*gather.request.method {
                "tools/call" => Listing::Tools,
                "prompts/get" => Listing::Prompts,
                _ => return false,
            };
            let name = text_of(gather.request.params.as_deref(), "name");
            name.is_some_and(|name| self.shelf.is_listed(listing, &name))
        };
        let found = self.gathers.iter().filter(|(_, gather)| is_found(gather)).map(|(number, _)| *number);
        for number in found.collect::<Vec<_>>() {
            self.gathered(number, now);
        }
    }

    /// Follows the room's catalogue from now on.
    pub(super) fn follow_catalogue(&mut self) {
        if self.is_room() {
            self.outbox.query(RoomQuery::Next { after: self.shelf.version() });
        }
    }

    /// Has the host look at these lists of newcomers, for a client that is told of changes and has not listed.
    pub(super) fn watch_lists(&mut self, listings: Vec<Listing>) {
        if self.is_room() && !listings.is_empty() {
            self.outbox.query(RoomQuery::Watch { listings });
        }
    }

    /// The gateway answers what was asked of it.
    pub(super) fn resolved(&mut self, answer: RoomAnswer, now: Instant) {
        match answer {
            RoomAnswer::One(CatalogueAnswer { query: CatalogueQuery { who, listing }, items }) => match items {
                Some(items) => self.shelve(&who, listing, items, None, now),
                None => self.not_listed(&who, listing, now),
            },
            RoomAnswer::Gathered { number, snapshot } => {
                if let Some(snapshot) = snapshot {
                    self.catalogue_changed(snapshot, now);
                }
                if let Some(gather) = self.gathers.get_mut(&number) {
                    gather.awaits_catalogue = false;
                }
                self.settle_gathers(now);
            }
            RoomAnswer::Watching => {}
            RoomAnswer::Next(snapshot) => {
                self.catalogue_changed(snapshot, now);
                self.follow_catalogue();
            }
        }
    }

    /// There is a newer snapshot. The client is told of what differs for it, unless it is about to be answered with it.
    fn catalogue_changed(&mut self, snapshot: Arc<CatalogueSnapshot>, now: Instant) {
        for listing in self.shelf.update(snapshot, &self.interest) {
            if !self.is_listing(listing) {
                self.list_changed(listing, now);
            }
        }
        self.settle_found(now);
    }

    /// Whether the client waits for a list.
    fn is_listing(&self, listing: Listing) -> bool {
        self.gathers.values().any(|gather| Listing::of_method(&gather.request.method) == Some(listing))
    }

    /// Goes on with a request, whether everything has come or not.
    pub(super) fn gathered(&mut self, number: u64, now: Instant) {
        self.forget_timer(DoorTimer::Gather(number));
        if let Some(gather) = self.gathers.get_mut(&number) {
            gather.awaits_catalogue = false;
        }
        if self.is_more_to_come(number, now) {
            return;
        }
        let Some(ListWaiter { request, .. }) = self.gathers.remove(&number) else { return };
        match Listing::of_method(&request.method) {
            Some(listing) => self.answer_page(&request, listing),
            None => self.serve_gathered(request, now),
        }
    }

    /// Lists participants in the client's own name before the client is answered, where that is due; whether the answer waits for that.
    fn is_more_to_come(&mut self, number: u64, now: Instant) -> bool {
        let Some(gather) = self.gathers.get_mut(&number) else { return false };
        let Some(listing) = Listing::of_method(&gather.request.method).filter(|_| !gather.is_in_own_name) else {
            return false;
        };
        gather.is_in_own_name = true;
        let profile = gather.request.profile.clone();
        if !self.list_in_own_name(listing, &profile, now) {
            return false;
        }
        self.after(OWN_LIST_TIMEOUT, DoorTimer::Gather(number), now);
        true
    }

    /// In a room of few, servers that offer a client with capabilities more are asked for it. In a full room that waits until it calls
    /// somebody. Whether any of them has to be waited for.
    fn list_in_own_name(&mut self, listing: Listing, profile: &Arc<ClientProfile>, now: Instant) -> bool {
        if !self.is_room() || self.peers.len() > self.options.few || !handshake::takes_questions(&profile.capabilities)
        {
            return false;
        }
        let is_due = |(who, peer): &(&ParticipantId, &DoorPeer)| {
            !who.is_host() && !peer.lists_apart && self.is_list_known(who, peer, listing)
        };
        let due: Vec<_> = self.peers.iter().filter(is_due).map(|(who, _)| who.clone()).collect();
        for who in due {
            self.list_apart(&who);
            if let Some(peer) = self.peers.get_mut(&who) {
                peer.lists.remove(&listing);
            }
            self.ask_list(&who, listing, profile, now);
        }
        self.peers.values().filter_map(|peer| peer.lists.get(&listing)).any(|list| list.is_awaited(now))
    }

    /// Whether a participant's list is known, to this client alone or to the catalogue.
    fn is_list_known(&self, who: &ParticipantId, peer: &DoorPeer, listing: Listing) -> bool {
        match peer.lists.get(&listing) {
            Some(list) => matches!(list, PeerList::Known { .. }),
            None => self.shelf.is_catalogued(who, listing),
        }
    }

    fn answer_page(&mut self, request: &DoorRequest, listing: Listing) {
        let page = cursor_of(request).ok().and_then(|cursor| self.shelf.page(listing, cursor.as_deref()));
        let Some((items, next)) = page else {
            return self.refuse(request, RpcError::invalid_params("`cursor` is none that was given out here"));
        };
        let mut result = Members::default();
        result.set(listing.key(), &items);
        if let Some(next) = next {
            result.set("nextCursor", &next);
        }
        let result = result.to_raw();
        let result = match request.profile.era() {
            Era::Legacy => downgrade::result(listing.method(), &result, request.profile.revision),
            Era::Modern => upgrade::result(listing.method(), &result, Some(&self.server_info())),
        };
        self.answer(request, &Ok(result));
    }

    /// Asks a participant for a list that the catalogue does not have, unless it is known well enough or being asked for.
    pub(super) fn ask_list(
        &mut self,
        who: &ParticipantId,
        listing: Listing,
        profile: &Arc<ClientProfile>,
        now: Instant,
    ) {
        let is_room = self.is_room();
        let Some(peer) = self.peers.get_mut(who) else { return };
        match peer.lists.get(&listing) {
            Some(PeerList::Asking { .. }) => return,
            Some(PeerList::Known { until } | PeerList::Lacking { until }) if *until > now => return,
            _ => {}
        }
        // What the host lists depends on who asks, and it is here.
        if is_room && who.is_host() {
            peer.lists.insert(listing, PeerList::Asking { until: now + LIST_TIMEOUT, stale: false });
            let query = CatalogueQuery { who: who.clone(), listing };
            return self.outbox.query(RoomQuery::One(query));
        }
        // A participant that the client has met and that may ask it things may offer it more than the room knows of, and so may one that
        // told it of a change.
        // And a server that speaks both eras may be another process in each: what counts is the one that the client's calls go to.
        let offers_more = peer.lists_apart
            || (peer.is_handshake_done() && handshake::takes_questions(&profile.capabilities))
            || (peer.was_called && profile.era() == Era::Modern && peer.speaks_both_eras());
        if is_room && !offers_more {
            return;
        }
        peer.lists.insert(listing, PeerList::Asking { until: now + OWN_LIST_TIMEOUT, stale: false });
        let reading = PagedList { listing, items: Vec::new(), pages: 0, ttl: None };
        self.run(who, CallPurpose::List(Box::new(reading)), listing.method(), None, profile, now);
    }

    /// Lists the offers of a participant again after its first handshake with the client.
    pub(super) fn list_peers(&mut self, who: &ParticipantId, profile: &Arc<ClientProfile>, now: Instant) {
        self.list_candidates.insert(who.clone());
        if !self.is_room() || !handshake::takes_questions(&profile.capabilities) {
            return;
        }
        for listing in self.interest.clone() {
            if !self.peers.get(who).is_some_and(|peer| self.is_list_known(who, peer, listing)) {
                continue;
            }
            if let Some(peer) = self.peers.get_mut(who) {
                peer.lists.remove(&listing);
            }
            self.ask_list(who, listing, profile, now);
        }
    }

    /// A page of somebody's list has come.
    pub(super) fn listed(
        &mut self,
        who: &ParticipantId,
        mut reading: PagedList,
        result: &RawValue,
        profile: &Arc<ClientProfile>,
        now: Instant,
    ) {
        let listing = reading.listing;
        let Some((page, next)) = listing::read_page(listing, result) else {
            return self.not_listed(who, listing, now);
        };
        reading.items.extend(page);
        reading.pages += 1;
        reading.ttl = listing::ttl(result).into_iter().chain(reading.ttl).min();
        let bytes: usize = reading.items.iter().map(|item| item.raw.get().len()).sum();
        let is_much = reading.items.len() > MAX_ITEMS || bytes > MAX_BYTES || reading.pages > MAX_PAGES;
        if is_much || self.shelf.bytes() + bytes > MAX_BYTES_IN_ALL {
            return self.not_listed(who, listing, now);
        }
        if let Some(cursor) = next {
            let mut params = Members::default();
            params.set("cursor", &*cursor);
            self.run(who, CallPurpose::List(Box::new(reading)), listing.method(), Some(params.to_raw()), profile, now);
            return;
        }
        self.shelve(who, listing, reading.items, reading.ttl, now);
    }

    /// Keeps a participant's list, for as long as it may be kept.
    pub(super) fn shelve(
        &mut self,
        who: &ParticipantId,
        listing: Listing,
        items: impl Into<Arc<[ListItem]>>,
        ttl: Option<Duration>,
        now: Instant,
    ) {
        let Some(peer) = self.peers.get_mut(who) else { return };
        let until = now + ttl.map_or(self.options.list_max_age, |ttl| ttl.min(MAX_TTL));
        let stale =
            matches!(peer.lists.insert(listing, PeerList::Known { until }), Some(PeerList::Asking { stale: true, .. }));
        let is_awaited = self.gathers.values().any(|gather| gather.needs.contains(&listing));
        if self.shelf.put(who, listing, items) && !is_awaited {
            self.list_changed(listing, now);
        }
        if stale {
            self.list_stale(&who.clone(), &[listing], now);
        }
        if self.is_room() {
            self.settle_found(now);
        }
        self.settle_gathers(now);
    }

    /// Somebody's list is not to be had.
    pub(super) fn not_listed(&mut self, who: &ParticipantId, listing: Listing, now: Instant) {
        self.list_lacking(who, listing, now);
        self.settle_gathers(now);
    }

    /// Somebody tells this client alone of a change: from now on it is asked in the client's name.
    pub(super) fn list_apart(&mut self, who: &ParticipantId) {
        if let Some(peer) = self.peers.get_mut(who) {
            peer.lists_apart = true;
            self.list_candidates.insert(who.clone());
        }
    }

    /// Somebody says that a list of theirs has changed.
    pub(super) fn list_stale(&mut self, who: &ParticipantId, listings: &[Listing], now: Instant) {
        for listing in listings {
            let Some(peer) = self.peers.get_mut(who) else { return };
            match peer.lists.get_mut(listing) {
                Some(PeerList::Asking { stale, .. }) => {
                    *stale = true;
                    continue;
                }
                Some(PeerList::Known { .. } | PeerList::Lacking { .. }) => {
                    peer.lists.remove(listing);
                }
                None if self.interest.contains(listing) => {}
                None => continue,
            }
            if let Some(profile) = self.profile.clone().filter(|_| self.follows(*listing)) {
                self.ask_list(who, *listing, &profile, now);
            }
        }
    }

    /// Whether the client is notified of changes of a list: the room announces `listChanged` to every client of the legacy era, whether or not
    /// it has listed.
    pub(super) fn follows(&self, listing: Listing) -> bool {
        self.interest.contains(&listing) || (self.is_room() && self.is_introduced())
    }

    /// What the client was told of a list is no longer so.
    pub(super) fn list_changed(&mut self, listing: Listing, now: Instant) {
        if self.follows(listing) || self.subscriptions.streams() > 0 {
            if self.changed.is_empty() {
                self.after(CHANGE_DELAY, DoorTimer::Changed, now);
            }
            self.changed.insert(listing.changed());
        }
    }
}

/// Where a list is to be gone on with; an error if that is no text.
fn cursor_of(request: &DoorRequest) -> Result<Option<String>, serde_json::Error> {
    let params = request.params.as_deref().and_then(|params| Members::parse(params.get()));
    params.and_then(|mut params| params.remove("cursor")).map_or(Ok(None), |cursor| serde_json::from_str(cursor.get()))
}
