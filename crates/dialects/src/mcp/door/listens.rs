//! Subscriptions of the modern era: a request whose stream tells what changes, for as long as it is open.

use std::sync::Arc;
use std::time::Instant;

use salon_mcp::listing::Listing;
use salon_mcp::{Era, meta, upgrade};
use salon_protocol::{Members, ParticipantId, RpcError, rpc};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::door_call::{CallPurpose, DoorCall};
use super::incoming::text_of;
use super::merge::OwnerLookup;
use super::subscriptions::{self, Honoured, LIST_FILTERS, ListenStream, MAX_URIS, PartEnd};
use super::{ClientProfile, Door, DoorRequest, DoorScope};
use crate::streams::Channel;

/// In place of a subscription's number: what a legacy client has subscribed to one by one.
const ONE_BY_ONE: u64 = 0;

impl Door {
    pub(super) fn open_listen(&mut self, request: DoorRequest, now: Instant) {
        let Some(filter) = filter_of(&request) else {
            let error = RpcError::invalid_params("`notifications` must be an object that says what to tell");
            return self.refuse(&request, error);
        };
        let modern = match &self.options.scope {
            DoorScope::One(who) if *who == self.options.me => {
                let error = self.absent(who);
                return self.refuse(&request, error);
            }
            DoorScope::One(who) => {
                self.peers.era(who, Era::Modern).filter(|era| *era == Era::Modern).map(|_| who.clone())
            }
            DoorScope::Room => None,
        };
        match modern {
            Some(who) => self.pass_on(request, &who, None, now),
            None if self.is_room() && filter.get("resourceSubscriptions").is_some() => {
                self.gather(&[Listing::Resources, Listing::Templates], request, now);
            }
            None => self.begin_listen(request, now),
        }
    }

    /// Whether a call is a subscription of the client's that a modern participant sees to.
    pub(super) fn is_subscription(&self, number: u64) -> bool {
        self.calls.client(number).is_some_and(|asked| &*asked.request.method == "subscriptions/listen")
    }

    /// Begins a subscription whose resources can be found by now.
    pub(super) fn begin_listen(&mut self, request: DoorRequest, now: Instant) {
        let filter = filter_of(&request).unwrap_or_default();
        let is_wanted = |key: &str| filter.get(key).is_some_and(|wanted| wanted.get() == "true");
        let wanted: Vec<_> = LIST_FILTERS.into_iter().filter(|(key, _)| is_wanted(key)).collect();
        let uris: Vec<String> = filter
            .get("resourceSubscriptions")
            .and_then(|uris| serde_json::from_str(uris.get()).ok())
            .unwrap_or_default();
        let mut honoured = Vec::new();
        for uri in uris.into_iter().take(MAX_URIS) {
            let found = match &self.options.scope {
                DoorScope::One(who) => OwnerLookup::One(who.clone(), uri.clone()),
                DoorScope::Room => self.lists.merged.find_uri(&uri),
            };
            if let OwnerLookup::One(who, theirs) = found {
                honoured.push((who, theirs, uri));
            }
        }
        self.lists.note_interest(wanted.iter().map(|(_, listing)| *listing));
        self.watch_lists(wanted.iter().map(|(_, listing)| *listing).collect());
        let (channel, profile) = (request.channel, request.profile.clone());
        self.streams.open_at(channel, None);
        let number = self.fresh();
        self.subscriptions.open(number, request, Honoured { lists: wanted, uris: honoured }, now);
        let peers = self.peers.ids(|_| true);
        for who in peers {
            self.subscribe_to(number, &who, &profile, now);
        }
        if self.subscriptions.awaits_nobody(number) {
            self.acknowledge(number);
        }
    }

    /// Somebody answered for its part in a subscription. A resource is subscribed to then; a modern participant's part is over.
    pub(super) fn listen_answered(&mut self, number: u64, call: u64, error: Option<&RpcError>, now: Instant) {
        let Some(DoorCall { to, method, params, .. }) = self.calls.get(call) else { return };
        let is_listen = &**method == "subscriptions/listen";
        let one = text_of(params.as_deref(), "uri").filter(|_| !is_listen);
        let who = to.clone();
        let is_theirs = |owner: &ParticipantId, uri: &str| *owner == who && (is_listen || one.as_deref() == Some(uri));
        if is_listen || error.is_some() {
            match self.subscriptions.part_ended(number, is_theirs) {
                PartEnd::Broken => {
                    self.drop_call(call);
                    return self.end_listen(number, now);
                }
                // Lists are everybody's, and a client of the legacy era cannot be told of an end: it is taken up again.
                PartEnd::Unnamed if is_listen && error.is_none_or(|error| error.code != RpcError::METHOD_NOT_FOUND) => {
                    return self.hold_off(call, now);
                }
                PartEnd::Unnamed | PartEnd::Refused => {}
            }
        }
        self.drop_call(call);
        self.listen_settled(number, call);
    }

    /// Somebody does its part in a subscription, or never will.
    pub(super) fn listen_settled(&mut self, number: u64, call: u64) {
        if self.subscriptions.settled(number, call) {
            self.acknowledge(number);
        }
    }

    /// Sends the acknowledgement; once.
    pub(super) fn acknowledge(&mut self, number: u64) {
        let Some(params) = self.subscriptions.take_acknowledgement(number) else { return };
        let Some((channel, id)) = self.subscriptions.address(number) else { return };
        self.send_marked(channel, &id, "notifications/subscriptions/acknowledged", Some(&params));
    }

    /// Has somebody tell what a subscription wants of them.
    fn subscribe_to(&mut self, number: u64, who: &ParticipantId, profile: &Arc<ClientProfile>, now: Instant) {
        let Some((lists, theirs)) = self.subscriptions.part(number, who) else { return };
        match self.peers.era(who, profile.era()) {
            Some(Era::Modern) if !theirs.is_empty() || !lists.is_empty() => {
                let params = subscriptions::filter(lists.into_iter(), &theirs);
                self.listen_to(number, who, "subscriptions/listen", params, profile, now);
            }
            Some(Era::Legacy) => {
                for uri in theirs {
                    let params = to_raw_value(&json!({ "uri": uri })).expect("a string");
                    self.listen_to(number, who, "resources/subscribe", params, profile, now);
                }
            }
            _ => {}
        }
    }

    fn listen_to(
        &mut self,
        number: u64,
        who: &ParticipantId,
        method: &str,
        params: Box<RawValue>,
        profile: &Arc<ClientProfile>,
        now: Instant,
    ) {
        let call = self.run(who, CallPurpose::Listen(number), method, Some(params), profile, now);
        if self.calls.has(call) {
            self.subscriptions.await_answer(number, call);
        }
    }

    pub(super) fn duty(
        &mut self,
        who: &ParticipantId,
        method: &str,
        uri: &str,
        profile: &Arc<ClientProfile>,
        now: Instant,
    ) {
        let params = to_raw_value(&json!({ "uri": uri })).expect("a string");
        self.run(who, CallPurpose::Duty, method, Some(params), profile, now);
    }

    /// A legacy client subscribes to a resource of a modern participant's, or no longer: all that it has subscribed to there is one subscription,
    /// which is made again.
    pub(super) fn resubscribe(&mut self, request: &DoorRequest, who: &ParticipantId, now: Instant) {
        let Some(uri) = text_of(request.params.as_deref(), "uri") else {
            return self.refuse(request, RpcError::invalid_params("`uri` is missing"));
        };
        let is_more = &*request.method == "resources/subscribe";
        if is_more && !self.subscriptions.has_room_for(who, &uri) {
            let told = "too many resources are subscribed to already, or their URIs are too long";
            return self.refuse(request, RpcError::internal(told));
        }
        match is_more {
            true => self.subscriptions.subscribe(who, &uri),
            false => self.subscriptions.unsubscribe(who, &uri),
        }
        self.streams.answer_request(request, &Ok(super::empty()));
        self.listen_again(who, &request.profile.clone(), now);
    }

    fn listen_again(&mut self, who: &ParticipantId, profile: &Arc<ClientProfile>, now: Instant) {
        let is_it = |call: &DoorCall| call.to == *who && matches!(call.purpose, CallPurpose::Listen(ONE_BY_ONE));
        let before = self.calls.numbers(is_it);
        let uris: Vec<&str> = self.subscriptions.single_of(who).collect();
        if !uris.is_empty() {
            let params = subscriptions::filter(std::iter::empty(), &uris);
            self.run(who, CallPurpose::Listen(ONE_BY_ONE), "subscriptions/listen", Some(params), profile, now);
        }
        for number in before {
            self.cancel(number, None, now);
        }
    }

    /// Somebody is back who has forgotten what it was to tell.
    pub(super) fn resume_news(&mut self, who: &ParticipantId, profile: &Arc<ClientProfile>, now: Instant) {
        let mine: Vec<_> = self.subscriptions.single_of(who).map(ToOwned::to_owned).collect();
        if self.peers.era(who, Era::Legacy) == Some(Era::Modern) {
            self.listen_again(who, profile, now);
        } else {
            for uri in mine {
                self.duty(who, "resources/subscribe", &uri, profile, now);
            }
        }
        for (number, profile) in self.subscriptions.profiles() {
            self.subscribe_to(number, who, &profile, now);
        }
    }

    /// A modern participant tells something for a subscription.
    pub(super) fn listen_notified(
        &mut self,
        (number, call): (u64, u64),
        from: &ParticipantId,
        method: &str,
        params: Option<&RawValue>,
        now: Instant,
    ) {
        if number == ONE_BY_ONE && method == "notifications/resources/updated" {
            let plain = params.and_then(meta::strip);
            return self.updated(from, plain.as_deref());
        }
        if method == "notifications/subscriptions/acknowledged" {
            return self.listen_settled(number, call);
        }
        // A client gets nothing that it did not ask for.
        if let Some((_, listing)) = LIST_FILTERS.into_iter().find(|(_, listing)| listing.changed() == method) {
            if !self.subscriptions.wants_list(number, method) {
                return;
            }
            self.notify_listen(number, method, params);
            let stale: &[Listing] = match listing {
                Listing::Resources => &[Listing::Resources, Listing::Templates],
                Listing::Tools => &[Listing::Tools],
                _ => &[Listing::Prompts],
            };
            self.lists.set_apart(from);
            self.list_stale(from, stale, now);
        } else if method == "notifications/resources/updated" {
            let Some(uri) = text_of(params, "uri") else { return };
            if !self.subscriptions.wants_update(number, from, &uri) {
                return;
            }
            let Some(mut params) = params.and_then(|params| Members::parse(params.get())) else { return };
            params.set("uri", &self.lists.merged.listed_uri(from, &uri));
            self.notify_listen(number, method, Some(&params.to_raw()));
        }
    }

    /// Says something on a subscription's stream, marked as its own.
    fn send_marked(&mut self, channel: Channel, id: &RawValue, method: &str, params: Option<&RawValue>) {
        let nothing = super::empty();
        let params = meta::with_subscription(params.unwrap_or(&nothing), id);
        self.streams.say(channel, &rpc::notification(method, params.as_deref()));
    }

    /// Tells the client that lists have changed.
    pub(super) fn notify_changes(&mut self) {
        for method in self.lists.take_changes() {
            if self.client.is_introduced() {
                self.streams.say(Channel::SESSION, &rpc::notification(method, None));
            }
            for number in self.subscriptions.of_list(method) {
                self.notify_listen(number, method, None);
            }
        }
    }

    /// A participant of the legacy era tells of a resource.
    pub(super) fn notify_listens_updated(&mut self, from: &ParticipantId, uri: &str, params: &RawValue) {
        for number in self.subscriptions.of_resource(from, uri) {
            self.notify_listen(number, "notifications/resources/updated", Some(params));
        }
    }

    /// Sends a notification to a subscription, after its acknowledgement.
    fn notify_listen(&mut self, number: u64, method: &str, params: Option<&RawValue>) {
        self.acknowledge(number);
        let Some((channel, id)) = self.subscriptions.address(number) else { return };
        self.send_marked(channel, &id, method, params);
    }

    /// The session ends, and every subscription with it.
    pub(super) fn end_listens(&mut self) {
        for listening in self.subscriptions.take_streams() {
            self.send_ended(&listening);
        }
    }

    /// Ends a subscription with its result.
    fn end_listen(&mut self, number: u64, now: Instant) {
        if let Some(listening) = self.subscriptions.remove(number) {
            self.send_ended(&listening);
            self.release_listen(number, &listening, now);
        }
    }

    fn send_ended(&mut self, listening: &ListenStream) {
        let id = &listening.request.id;
        let nothing = upgrade::result("subscriptions/listen", &super::empty(), None);
        let result = meta::with_subscription(&nothing, id).unwrap_or(nothing);
        if self.streams.is_duplex() {
            let mut params = Members::default();
            params.set("requestId", id);
            self.streams.say(Channel::SESSION, &rpc::notification("notifications/cancelled", Some(&params.to_raw())));
        }
        self.streams.answer_request(&listening.request, &Ok(result));
    }

    /// Ends the subscriptions that their client takes back.
    pub(super) fn end_listens_where(&mut self, wanted: &impl Fn(&DoorRequest) -> bool, now: Instant) {
        for number in self.subscriptions.of_requests(wanted) {
            let Some(listening) = self.subscriptions.remove(number) else { continue };
            self.streams.skip(listening.request.channel);
            self.release_listen(number, &listening, now);
        }
    }

    /// Nobody need tell anything for a subscription any more.
    fn release_listen(&mut self, number: u64, listening: &ListenStream, now: Instant) {
        let is_part = |call: &DoorCall| matches!(call.purpose, CallPurpose::Listen(listen) if listen == number);
        for call in self.calls.numbers(is_part) {
            self.cancel(call, None, now);
        }
        let profile = listening.request.profile.clone();
        for (who, uri) in listening.uris() {
            let is_legacy = self.peers.era(who, Era::Modern) == Some(Era::Legacy);
            if is_legacy && !self.subscriptions.wants_resource(who, uri) {
                self.duty(who, "resources/unsubscribe", uri, &profile, now);
            }
        }
    }
}

fn filter_of(request: &DoorRequest) -> Option<Members> {
    let params = Members::parse(request.params.as_deref()?.get())?;
    Members::parse(params.get("notifications")?.get())
}
