//! What everybody offers, gathered and said as one list, in pages.
//!
//! The room has one catalogue, which its host keeps and publishes as snapshots: a session asks the host once per list request to bring the
//! catalogue up to date, and never per participant. A participant is listed in the client's own name when it may offer this client more: when the
//! client can be asked things and the room has few participants, or when the two have met in a call. A slow participant does not hold up a list:
//! after a timeout the answer has what is there, and `list_changed` announces the rest.

use std::sync::Arc;
use std::time::{Duration, Instant};

use salon_mcp::listing::{self, ListItem, Listing};
use salon_mcp::{Era, downgrade, handshake, upgrade};
use salon_protocol::{Members, ParticipantId, RpcError};
use serde_json::value::RawValue;

use super::door_call::CallPurpose;
use super::incoming::text_of;
use super::list_copy::{FetchedPeerList, ListFetch};
use super::{CatalogueAnswer, CatalogueQuery, ClientProfile, Door, DoorRequest, DoorScope, RoomAnswer, RoomQuery};
use crate::CatalogueSnapshot;

/// How long a list may be that was fetched in the client's own name: pages, elements, and bytes; and bytes of all together.
const MAX_PAGES: usize = 64;
const MAX_ITEMS: usize = 4096;
const MAX_BYTES: usize = 4 << 20;
const MAX_BYTES_IN_ALL: usize = 32 << 20;

/// A list that is being read.
#[derive(Debug)]
pub(super) struct PagedList {
    pub(super) listing: Listing,
    items: Vec<ListItem>,
    pages: usize,
    /// How long it may be kept, by what its pages say of that.
    ttl: Option<Duration>,
}

impl Door {
    /// Answers a request for a list.
    pub(super) fn list(&mut self, request: DoorRequest, listing: Listing, now: Instant) {
        self.lists.note_interest([listing]);
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
        self.lists.wait(number, needs, request, now);
        if self.is_room() {
            self.outbox.query(RoomQuery::Gather { number, listings: needs });
        }
        for who in self.lists.listed_apart() {
            for listing in needs {
                self.ask_list(&who, *listing, &profile, now);
            }
        }
        self.settle_gathers(now);
    }

    /// The same for a tool call, which lists of any age will do for.
    pub(super) fn gather_tool(&mut self, request: DoorRequest, now: Instant) {
        let is_known = match &self.options.scope {
            DoorScope::Room => {
                let name = text_of(request.params.as_deref(), "name");
                name.is_some_and(|name| self.lists.knows_tool(&name))
            }
            DoorScope::One(who) => self.lists.has_copy(who, Listing::Tools),
        };
        match is_known {
            true => self.serve_gathered(request, now),
            false => self.gather(&[Listing::Tools], request, now),
        }
    }

    /// Goes on with every request whose lists have come.
    pub(super) fn settle_gathers(&mut self, now: Instant) {
        for number in self.lists.settled(now) {
            self.gathered(number, now);
        }
    }

    /// Goes on with requests that name something on a list that has come.
    fn settle_findings(&mut self, now: Instant) {
        for number in self.lists.satisfied() {
            self.gathered(number, now);
        }
    }

    /// Follows the room's catalogue from now on.
    pub(super) fn follow_catalogue(&mut self) {
        if self.is_room() {
            self.outbox.query(RoomQuery::Next { after: self.lists.merged.version() });
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
                Some(items) => self.keep_list(FetchedPeerList { owner: &who, listing, items, ttl: None }, now),
                None => self.not_listed(&who, listing, now),
            },
            RoomAnswer::Gathered { number, snapshot } => {
                if let Some(snapshot) = snapshot {
                    self.catalogue_changed(snapshot, now);
                }
                self.lists.catalogue_arrived(number);
                self.settle_gathers(now);
            }
            RoomAnswer::Watching | RoomAnswer::StoppedWaiting => {}
            RoomAnswer::Waited { number, idle } => self.waited(number, idle, now),
            RoomAnswer::Authority(authority) => self.lists.merged.set_authority(authority),
            RoomAnswer::Next(snapshot) => {
                self.catalogue_changed(snapshot, now);
                self.follow_catalogue();
            }
        }
    }

    /// There is a newer snapshot. The client is told of what differs for it, unless it is about to be answered with it.
    fn catalogue_changed(&mut self, snapshot: Arc<CatalogueSnapshot>, now: Instant) {
        for listing in self.lists.update(snapshot) {
            self.list_changed(listing, now);
        }
        self.settle_findings(now);
    }

    /// Goes on with a request, whether everything has come or not.
    pub(super) fn gathered(&mut self, number: u64, now: Instant) {
        self.lists.catalogue_arrived(number);
        if self.is_more_to_come(number, now) {
            return;
        }
        let Some(request) = self.lists.take_waiter(number) else { return };
        match Listing::of_method(&request.method) {
            Some(listing) => self.answer_page(&request, listing),
            None => self.serve_gathered(request, now),
        }
    }

    /// Lists participants in the client's own name before the client is answered, where that is due; whether the answer waits for that.
    ///
    /// In a room of few, servers that offer a client with capabilities more are asked for it. In a full room that waits until it calls
    /// somebody.
    fn is_more_to_come(&mut self, number: u64, now: Instant) -> bool {
        let Some((listing, profile)) = self.lists.retry_as_client(number) else { return false };
        if !self.is_room() || self.peers.len() > self.options.few || !handshake::takes_questions(&profile.capabilities)
        {
            return false;
        }
        for who in self.lists.set_all_apart(listing) {
            self.ask_list(&who, listing, &profile, now);
        }
        self.lists.wait_for_copies(number, listing, now)
    }

    fn answer_page(&mut self, request: &DoorRequest, listing: Listing) {
        let page = cursor_of(request).ok().and_then(|cursor| self.lists.merged.page(listing, cursor.as_deref()));
        let Some((items, next)) = page else {
            return self.refuse(request, RpcError::invalid_params("`cursor` was not issued here"));
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
        self.streams.answer_request(request, &Ok(result));
    }

    /// Asks a participant for a list that the catalogue does not have, unless it is known well enough or being asked for.
    pub(super) fn ask_list(
        &mut self,
        who: &ParticipantId,
        listing: Listing,
        profile: &Arc<ClientProfile>,
        now: Instant,
    ) {
        let Some(peer) = self.peers.get(who) else { return };
        // A participant that the client has met and that may ask it things may offer it more than the room knows of.
        // And a server that speaks both eras may be another process in each: what counts is the one that the client's calls go to.
        let offers_more = (peer.is_handshake_done() && handshake::takes_questions(&profile.capabilities))
            || (peer.was_called && profile.era() == Era::Modern && peer.speaks_both_eras());
        match self.lists.fetch(who, listing, offers_more, now) {
            ListFetch::No => {}
            ListFetch::Host => self.outbox.query(RoomQuery::One(CatalogueQuery { who: who.clone(), listing })),
            ListFetch::Participant => {
                let reading = PagedList { listing, items: Vec::new(), pages: 0, ttl: None };
                self.run(who, CallPurpose::List(Box::new(reading)), listing.method(), None, profile, now);
            }
        }
    }

    /// Lists the offers of a participant again after its first handshake with the client.
    pub(super) fn list_peers(&mut self, who: &ParticipantId, profile: &Arc<ClientProfile>, now: Instant) {
        self.lists.note_candidate(who);
        if !self.is_room() || !handshake::takes_questions(&profile.capabilities) {
            return;
        }
        for listing in self.lists.interest() {
            if self.lists.is_known(who, listing) {
                self.lists.forget(who, listing);
                self.ask_list(who, listing, profile, now);
            }
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
        if is_much || self.lists.merged.bytes() + bytes > MAX_BYTES_IN_ALL {
            return self.not_listed(who, listing, now);
        }
        if let Some(cursor) = next {
            let mut params = Members::default();
            params.set("cursor", &*cursor);
            self.run(who, CallPurpose::List(Box::new(reading)), listing.method(), Some(params.to_raw()), profile, now);
            return;
        }
        let (items, ttl) = (reading.items.into(), reading.ttl);
        self.keep_list(FetchedPeerList { owner: who, listing, items, ttl }, now);
    }

    /// Keeps a participant's list, for as long as it may be kept.
    pub(super) fn keep_list(&mut self, list: FetchedPeerList<'_>, now: Instant) {
        let (who, listing) = (list.owner, list.listing);
        let Some(change) = self.lists.put(list, now) else { return };
        if change.is_news {
            self.list_changed(listing, now);
        }
        if change.is_stale {
            self.list_stale(who, &[listing], now);
        }
        if self.is_room() {
            self.settle_findings(now);
        }
        self.settle_gathers(now);
    }

    /// Somebody's list is not to be had.
    pub(super) fn not_listed(&mut self, who: &ParticipantId, listing: Listing, now: Instant) {
        self.lists.lacking(who, listing, now);
        self.settle_gathers(now);
    }

    /// Somebody says that a list of theirs has changed.
    pub(super) fn list_stale(&mut self, who: &ParticipantId, listings: &[Listing], now: Instant) {
        for listing in listings {
            if self.lists.stale(who, *listing)
                && let Some(profile) = self.client.latest().filter(|_| self.follows(*listing))
            {
                self.ask_list(who, *listing, &profile, now);
            }
        }
    }

    /// Whether the client is notified of changes of a list: the room announces `listChanged` to every client of the legacy era, whether or not
    /// it has listed.
    pub(super) fn follows(&self, listing: Listing) -> bool {
        self.lists.is_of_interest(listing) || (self.is_room() && self.client.is_introduced())
    }

    /// What the client was told of a list is no longer so.
    pub(super) fn list_changed(&mut self, listing: Listing, now: Instant) {
        if self.follows(listing) || self.subscriptions.streams() > 0 {
            self.lists.note_change(listing, now);
        }
    }
}

/// Where a list is to be gone on with; an error if that is no text.
fn cursor_of(request: &DoorRequest) -> Result<Option<String>, serde_json::Error> {
    let params = request.params.as_deref().and_then(|params| Members::parse(params.get()));
    params.and_then(|mut params| params.remove("cursor")).map_or(Ok(None), |cursor| serde_json::from_str(cursor.get()))
}
