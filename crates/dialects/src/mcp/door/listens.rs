//! Subscriptions of the modern era: a request whose stream tells what changes, for as long as it is open.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use salon_mcp::listing::Listing;
use salon_mcp::{Era, meta, upgrade};
use salon_protocol::{Members, ParticipantId, RpcError, rpc};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::call_table::{CallPurpose, DoorCall};
use super::incoming::text_of;
use super::merge::OwnerLookup;
use super::{ClientProfile, Door, DoorRequest, DoorScope, DoorTimer};
use crate::streams::Channel;

/// Resources that one subscription may name.
const MAX_URIS: usize = 1024;

/// Bytes of the URIs of one participant's resources that can be subscribed to: all of them go into one message.
const MAX_URI_BYTES: usize = 256 << 10;

/// The lists whose changes can be subscribed to, as the filter calls them.
const NEWS: [(&str, Listing); 3] = [
    ("toolsListChanged", Listing::Tools),
    ("promptsListChanged", Listing::Prompts),
    ("resourcesListChanged", Listing::Resources),
];

/// How long a subscription waits for the participants it depends on.
const ACKNOWLEDGEMENT_TIMEOUT: Duration = Duration::from_secs(1);

/// In place of a subscription's number: what a legacy client has subscribed to one by one.
const ONE_BY_ONE: u64 = 0;

/// One subscription.
#[derive(Debug)]
pub(super) struct ListenStream {
    request: DoorRequest,
    /// The lists whose changes are announced.
    lists: BTreeSet<&'static str>,
    /// The resources whose updates are announced, by owner, as their owners call them.
    uris: BTreeSet<(ParticipantId, String)>,
    /// What is acknowledged, until that is sent.
    acknowledgement: Option<Honoured>,
    /// The door's own requests that must be acknowledged first, so that nothing that happens then is missed.
    awaited: BTreeSet<u64>,
}

impl ListenStream {
    pub(super) fn uris(&self) -> impl Iterator<Item = &(ParticipantId, String)> {
        self.uris.iter()
    }

    fn wants(&self, owner: &ParticipantId, uri: &str) -> bool {
        self.uris().any(|(known, wanted)| known == owner && is_part(uri, wanted))
    }
}

/// What of a filter is honoured.
#[derive(Debug)]
struct Honoured {
    lists: Vec<&'static str>,
    /// Resources: whose, as their owners call them, as the client does.
    uris: Vec<(ParticipantId, String, String)>,
}

impl Honoured {
    fn params(&self) -> Box<RawValue> {
        let mut filter = Members::default();
        for key in &self.lists {
            filter.set(key, &true);
        }
        let uris: Vec<&str> = self.uris.iter().map(|(.., asked)| asked.as_str()).collect();
        if !uris.is_empty() {
            filter.set("resourceSubscriptions", &uris);
        }
        let mut params = Members::default();
        params.set("notifications", &filter);
        params.to_raw()
    }
}

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
                self.peers.get(who).filter(|peer| peer.era_for(Era::Modern) == Era::Modern).map(|_| who.clone())
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
        let wanted: Vec<_> = NEWS.into_iter().filter(|(key, _)| is_wanted(key)).collect();
        let uris: Vec<String> = filter
            .get("resourceSubscriptions")
            .and_then(|uris| serde_json::from_str(uris.get()).ok())
            .unwrap_or_default();
        let (mut honoured, mut known) = (Vec::new(), BTreeSet::new());
        for uri in uris.into_iter().take(MAX_URIS) {
            let found = match &self.options.scope {
                DoorScope::One(who) => OwnerLookup::One(who.clone(), uri.clone()),
                DoorScope::Room => self.shelf.find_uri(&uri),
            };
            if let OwnerLookup::One(who, theirs) = found {
                known.insert((who.clone(), theirs.clone()));
                honoured.push((who, theirs, uri));
            }
        }
        let acknowledgement = Some(Honoured { lists: wanted.iter().map(|(key, _)| *key).collect(), uris: honoured });
        let lists = wanted.iter().map(|(_, listing)| listing.changed()).collect();
        self.interest.extend(wanted.iter().map(|(_, listing)| *listing));
        self.watch_lists(wanted.iter().map(|(_, listing)| *listing).collect());
        let (channel, profile) = (request.channel, request.profile.clone());
        self.streams.open_at(channel, None);
        let number = self.fresh();
        self.listens
            .insert(number, ListenStream { request, lists, uris: known, acknowledgement, awaited: BTreeSet::new() });
        self.after(ACKNOWLEDGEMENT_TIMEOUT, DoorTimer::Listen(number), now);
        let peers: Vec<_> = self.peers.keys().cloned().collect();
        for who in peers {
            self.subscribe_to(number, &who, &profile, now);
        }
        if self.listens.get(&number).is_some_and(|listening| listening.awaited.is_empty()) {
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
        let known = self.listens.get_mut(&number);
        let names_them = known.as_ref().is_some_and(|known| known.uris().any(|(owner, uri)| is_theirs(owner, uri)));
        let acknowledgement = known.map(|known| known.acknowledgement.as_mut());
        match acknowledgement {
            _ if !is_listen && error.is_none() => {}
            // What is refused from the first is not acknowledged.
            Some(Some(honoured)) => {
                honoured.uris.retain(|(owner, theirs, _)| !is_theirs(owner, theirs));
                if let Some(known) = self.listens.get_mut(&number) {
                    known.uris.retain(|(owner, uri)| !is_theirs(owner, uri));
                }
            }
            // The client was told that it would hear of these.
            Some(None) if names_them => {
                self.drop_call(call);
                return self.end_listen(number, now);
            }
            // Lists are everybody's, and a client of the legacy era cannot be told of an end: it is taken up again.
            _ if is_listen && error.is_none_or(|error| error.code != RpcError::METHOD_NOT_FOUND) => {
                return self.hold_off(call, now);
            }
            _ => {}
        }
        self.drop_call(call);
        self.listen_settled(number, call);
    }

    /// Somebody does its part in a subscription, or never will.
    pub(super) fn listen_settled(&mut self, number: u64, call: u64) {
        let Some(listening) = self.listens.get_mut(&number) else { return };
        if listening.awaited.remove(&call) && listening.awaited.is_empty() {
            self.acknowledge(number);
        }
    }

    /// Sends the acknowledgement; once.
    pub(super) fn acknowledge(&mut self, number: u64) {
        self.forget_timer(DoorTimer::Listen(number));
        let Some(listening) = self.listens.get_mut(&number) else { return };
        let Some(params) = listening.acknowledgement.take().map(|honoured| honoured.params()) else { return };
        let (channel, id) = (listening.request.channel, listening.request.id.clone());
        self.say_marked(channel, &id, "notifications/subscriptions/acknowledged", Some(&params));
    }

    /// Has somebody tell what a subscription wants of them.
    fn subscribe_to(&mut self, number: u64, who: &ParticipantId, profile: &Arc<ClientProfile>, now: Instant) {
        let Some(listening) = self.listens.get(&number) else { return };
        let theirs: Vec<String> =
            listening.uris.iter().filter(|(owner, _)| owner == who).map(|(_, uri)| uri.clone()).collect();
        let lists: Vec<_> =
            NEWS.into_iter().filter(|(_, listing)| listening.lists.contains(listing.changed())).collect();
        match self.peers.get(who).map(|peer| peer.era_for(profile.era())) {
            Some(Era::Modern) if !theirs.is_empty() || !lists.is_empty() => {
                let mut filter = Members::default();
                for (key, _) in lists {
                    filter.set(key, &true);
                }
                if !theirs.is_empty() {
                    filter.set("resourceSubscriptions", &theirs);
                }
                let mut params = Members::default();
                params.set("notifications", &filter);
                self.listen_to(number, who, "subscriptions/listen", params.to_raw(), profile, now);
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
        if self.calls.has(call)
            && let Some(listening) = self.listens.get_mut(&number).filter(|known| known.acknowledgement.is_some())
        {
            listening.awaited.insert(call);
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
        let one = (who.clone(), uri);
        let theirs = self.subscriptions.iter().filter(|(owner, _)| owner == who).map(|(_, uri)| uri.len());
        let bytes = one.1.len() + theirs.sum::<usize>();
        let is_much = self.subscriptions.len() >= MAX_URIS || bytes > MAX_URI_BYTES;
        if is_much && &*request.method == "resources/subscribe" {
            let told = "too many resources are subscribed to already, or their URIs are too long";
            return self.refuse(request, RpcError::internal(told));
        }
        let _ = if &*request.method == "resources/subscribe" {
            self.subscriptions.insert(one)
        } else {
            self.subscriptions.remove(&one)
        };
        self.answer(request, &Ok(super::empty()));
        self.listen_again(who, &request.profile.clone(), now);
    }

    fn listen_again(&mut self, who: &ParticipantId, profile: &Arc<ClientProfile>, now: Instant) {
        let is_it = |call: &DoorCall| call.to == *who && matches!(call.purpose, CallPurpose::Listen(ONE_BY_ONE));
        let before = self.calls.numbers(is_it);
        let uris: Vec<&str> =
            self.subscriptions.iter().filter(|(owner, _)| owner == who).map(|(_, uri)| uri.as_str()).collect();
        if !uris.is_empty() {
            let params = json!({ "notifications": { "resourceSubscriptions": uris } });
            let params = to_raw_value(&params).expect("strings");
            self.run(who, CallPurpose::Listen(ONE_BY_ONE), "subscriptions/listen", Some(params), profile, now);
        }
        for number in before {
            self.cancel(number, None, now);
        }
    }

    /// Somebody is back who has forgotten what it was to tell.
    pub(super) fn resume_news(&mut self, who: &ParticipantId, profile: &Arc<ClientProfile>, now: Instant) {
        let mine: Vec<_> = self.subscriptions.iter().filter(|(owner, _)| owner == who).cloned().collect();
        if self.peers.get(who).is_some_and(|peer| peer.era_for(Era::Legacy) == Era::Modern) {
            self.listen_again(who, profile, now);
        } else {
            for (_, uri) in mine {
                self.duty(who, "resources/subscribe", &uri, profile, now);
            }
        }
        let listens: Vec<_> =
            self.listens.iter().map(|(number, listening)| (*number, listening.request.profile.clone())).collect();
        for (number, profile) in listens {
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
        let listening = self.listens.get(&number);
        if let Some((_, listing)) = NEWS.into_iter().find(|(_, listing)| listing.changed() == method) {
            if listening.is_none_or(|listening| !listening.lists.contains(method)) {
                return;
            }
            self.tell_listen(number, method, params);
            let stale: &[Listing] = match listing {
                Listing::Resources => &[Listing::Resources, Listing::Templates],
                Listing::Tools => &[Listing::Tools],
                _ => &[Listing::Prompts],
            };
            self.list_apart(from);
            self.list_stale(from, stale, now);
        } else if method == "notifications/resources/updated" {
            let Some(uri) = text_of(params, "uri") else { return };
            if listening.is_none_or(|listening| !listening.wants(from, &uri)) {
                return;
            }
            let Some(mut params) = params.and_then(|params| Members::parse(params.get())) else { return };
            params.set("uri", &self.shelf.listed_uri(from, &uri));
            self.tell_listen(number, method, Some(&params.to_raw()));
        }
    }

    /// Says something on a subscription's stream, marked as its own.
    fn say_marked(&mut self, channel: Channel, id: &RawValue, method: &str, params: Option<&RawValue>) {
        let nothing = super::empty();
        let params = meta::with_subscription(params.unwrap_or(&nothing), id);
        self.say(channel, &rpc::notification(method, params.as_deref()));
    }

    /// Tells the client that lists have changed.
    pub(super) fn tell_changes(&mut self) {
        for method in std::mem::take(&mut self.changed) {
            if self.is_introduced() {
                self.say(Channel::SESSION, &rpc::notification(method, None));
            }
            let told = self.listens.iter().filter(|(_, listening)| listening.lists.contains(method));
            for number in told.map(|(number, _)| *number).collect::<Vec<_>>() {
                self.tell_listen(number, method, None);
            }
        }
    }

    /// Whether the client wants to hear of a resource of somebody's.
    pub(super) fn is_subscribed(&self, owner: &ParticipantId, uri: &str) -> bool {
        let listened = self.listens.values().flat_map(|listening| &listening.uris);
        self.subscriptions.iter().chain(listened).any(|(known, wanted)| known == owner && is_part(uri, wanted))
    }

    /// Whether a subscription names that very resource.
    pub(super) fn listens_to(&self, owner: &ParticipantId, uri: &str) -> bool {
        self.listens.values().flat_map(ListenStream::uris).any(|(known, wanted)| known == owner && wanted == uri)
    }

    /// Whether the client has subscribed to that very resource, in one way or the other.
    pub(super) fn wants_resource(&self, owner: &ParticipantId, uri: &str) -> bool {
        self.listens_to(owner, uri) || self.subscriptions.contains(&(owner.clone(), uri.to_owned()))
    }

    /// A participant of the legacy era tells of a resource.
    pub(super) fn tell_listens_updated(&mut self, from: &ParticipantId, uri: &str, params: &RawValue) {
        let told = self.listens.iter().filter(|(_, listening)| listening.wants(from, uri));
        for number in told.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.tell_listen(number, "notifications/resources/updated", Some(params));
        }
    }

    /// Sends a notification to a subscription, after its acknowledgement.
    fn tell_listen(&mut self, number: u64, method: &str, params: Option<&RawValue>) {
        self.acknowledge(number);
        let Some(listening) = self.listens.get(&number) else { return };
        let (channel, id) = (listening.request.channel, listening.request.id.clone());
        self.say_marked(channel, &id, method, params);
    }

    /// The session ends, and every subscription with it.
    pub(super) fn end_listens(&mut self) {
        for listening in std::mem::take(&mut self.listens).into_values() {
            self.say_ended(&listening);
        }
    }

    /// Ends a subscription with its result.
    fn end_listen(&mut self, number: u64, now: Instant) {
        if let Some(listening) = self.listens.remove(&number) {
            self.say_ended(&listening);
            self.release_listen(number, &listening, now);
        }
    }

    fn say_ended(&mut self, listening: &ListenStream) {
        let id = &listening.request.id;
        let nothing = upgrade::result("subscriptions/listen", &super::empty(), None);
        let result = meta::with_subscription(&nothing, id).unwrap_or(nothing);
        if self.duplex.is_some() {
            let mut params = Members::default();
            params.set("requestId", id);
            self.say(Channel::SESSION, &rpc::notification("notifications/cancelled", Some(&params.to_raw())));
        }
        self.answer(&listening.request, &Ok(result));
    }

    /// Ends the subscriptions that their client takes back.
    pub(super) fn end_listens_where(&mut self, wanted: &impl Fn(&DoorRequest) -> bool, now: Instant) {
        let ended: Vec<u64> = self
            .listens
            .iter()
            .filter(|(_, listening)| wanted(&listening.request))
            .map(|(number, _)| *number)
            .collect();
        for number in ended {
            let Some(listening) = self.listens.remove(&number) else { continue };
            self.streams.skip(listening.request.channel);
            self.release_listen(number, &listening, now);
        }
    }

    /// Nobody need tell anything for a subscription any more.
    fn release_listen(&mut self, number: u64, listening: &ListenStream, now: Instant) {
        self.forget_timer(DoorTimer::Listen(number));
        let is_part = |call: &DoorCall| matches!(call.purpose, CallPurpose::Listen(listen) if listen == number);
        for call in self.calls.numbers(is_part) {
            self.cancel(call, None, now);
        }
        let profile = listening.request.profile.clone();
        for (who, uri) in listening.uris() {
            let is_legacy = self.peers.get(who).is_some_and(|peer| peer.era_for(Era::Modern) == Era::Legacy);
            if is_legacy && !self.wants_resource(who, uri) {
                self.duty(who, "resources/unsubscribe", uri, &profile, now);
            }
        }
    }
}

fn filter_of(request: &DoorRequest) -> Option<Members> {
    let params = Members::parse(request.params.as_deref()?.get())?;
    Members::parse(params.get("notifications")?.get())
}

/// Whether a URI names a resource or something below it.
fn is_part(uri: &str, of: &str) -> bool {
    uri.strip_prefix(of).is_some_and(|rest| rest.is_empty() || of.ends_with('/') || rest.starts_with('/'))
}
