//! What the client has subscribed to: streams of the modern era, and single resources of the legacy era.
//!
//! Invariants: a stream is acknowledged once, before anything else is sent on it, and as soon as the participants that it depends on have
//! answered or have been waited for long enough. What was refused before that is not acknowledged. A client is told only of what it has
//! subscribed to. Deliberately absent: the requests to participants, and sending.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use salon_mcp::listing::{Listing, is_part};
use salon_protocol::{Members, ParticipantId};
use serde_json::value::RawValue;

use super::{ClientProfile, DoorRequest, DoorTimer};
use crate::streams::Channel;
use salon_mcp::timers::Timers;

/// Resources that one stream may name, and that a legacy client may subscribe to.
pub(super) const MAX_URIS: usize = 1024;

/// Bytes of the URIs of one participant's resources that can be subscribed to: all of them go into one message.
const MAX_URI_BYTES: usize = 256 << 10;

/// How long a stream waits for the participants it depends on.
const ACKNOWLEDGEMENT_TIMEOUT: Duration = Duration::from_secs(1);

/// The lists whose changes can be subscribed to, as the filter calls them.
// MCP 2026-07-28, Subscriptions, "Subscription Filter".
pub(super) const LIST_FILTERS: [(&str, Listing); 3] = [
    ("toolsListChanged", Listing::Tools),
    ("promptsListChanged", Listing::Prompts),
    ("resourcesListChanged", Listing::Resources),
];

/// A stream of the modern era.
#[derive(Debug)]
pub(super) struct ListenStream {
    pub(super) request: DoorRequest,
    /// The methods of the notifications that lists have changed.
    lists: BTreeSet<&'static str>,
    /// The resources whose updates are announced, by owner, as their owners call them.
    uris: BTreeSet<(ParticipantId, String)>,
    /// What is acknowledged, until that is sent.
    acknowledgement: Option<Honoured>,
    /// The door's own requests that must be answered first, so that nothing that happens then is missed.
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
pub(super) struct Honoured {
    /// The lists, as the filter calls them.
    pub(super) lists: Vec<(&'static str, Listing)>,
    /// Resources: whose, as their owners call them, as the client does.
    pub(super) uris: Vec<(ParticipantId, String, String)>,
}

impl Honoured {
    fn params(&self) -> Box<RawValue> {
        let lists = self.lists.iter().map(|(key, _)| *key);
        let uris: Vec<&str> = self.uris.iter().map(|(.., asked)| asked.as_str()).collect();
        filter(lists, &uris)
    }
}

/// What became of a participant's part in a stream when the participant ended it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PartEnd {
    /// The stream is not acknowledged, and will not name these resources.
    Refused,
    /// Resources whose updates the client was promised.
    Broken,
    /// The stream names no resource of them, or is not known.
    Unnamed,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ClientSubscriptions {
    streams: BTreeMap<u64, ListenStream>,
    /// What a legacy client has subscribed to, by owner, as their owners call it.
    single: BTreeSet<(ParticipantId, String)>,
    /// [`DoorTimer::Listen`].
    pub(super) timers: Timers<DoorTimer>,
}

impl ClientSubscriptions {
    /// Opens a stream of the modern era, which is acknowledged after a time, even if participants have not answered.
    pub(super) fn open(&mut self, number: u64, request: DoorRequest, honoured: Honoured, now: Instant) {
        let lists = honoured.lists.iter().map(|(_, listing)| listing.changed()).collect();
        let uris = honoured.uris.iter().map(|(who, theirs, _)| (who.clone(), theirs.clone())).collect();
        let acknowledgement = Some(honoured);
        self.streams.insert(number, ListenStream { request, lists, uris, acknowledgement, awaited: BTreeSet::new() });
        self.timers.set(DoorTimer::Listen(number), now + ACKNOWLEDGEMENT_TIMEOUT);
    }

    /// How many streams are open.
    pub(super) fn streams(&self) -> usize {
        self.streams.len()
    }

    /// The streams that are open, with their clients.
    pub(super) fn profiles(&self) -> Vec<(u64, Arc<ClientProfile>)> {
        self.streams.iter().map(|(number, stream)| (*number, stream.request.profile.clone())).collect()
    }

    /// The streams whose requests are wanted.
    pub(super) fn of_requests(&self, is_wanted: impl Fn(&DoorRequest) -> bool) -> Vec<u64> {
        self.numbers(|stream| is_wanted(&stream.request))
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<ListenStream> {
        self.timers.forget(DoorTimer::Listen(number));
        self.streams.remove(&number)
    }

    /// Takes all streams away: the session ends.
    pub(super) fn take_streams(&mut self) -> Vec<ListenStream> {
        self.timers = Timers::default();
        std::mem::take(&mut self.streams).into_values().collect()
    }

    /// What a stream wants of a participant: lists as the filter calls them, and resources as the participant calls them.
    pub(super) fn part(&self, number: u64, who: &ParticipantId) -> Option<(Vec<&'static str>, Vec<String>)> {
        let stream = self.streams.get(&number)?;
        let lists = LIST_FILTERS.into_iter().filter(|(_, listing)| stream.lists.contains(listing.changed()));
        let uris = stream.uris().filter(|(owner, _)| owner == who).map(|(_, uri)| uri.clone());
        Some((lists.map(|(key, _)| key).collect(), uris.collect()))
    }

    /// A stream that is not acknowledged waits for the answer to a request.
    pub(super) fn await_answer(&mut self, number: u64, call: u64) {
        if let Some(stream) = self.streams.get_mut(&number).filter(|stream| stream.acknowledgement.is_some()) {
            stream.awaited.insert(call);
        }
    }

    /// Whether a stream waits for no answer.
    pub(super) fn awaits_nobody(&self, number: u64) -> bool {
        self.streams.get(&number).is_some_and(|stream| stream.awaited.is_empty())
    }

    /// A request that a stream depends on was answered, or never will be. Whether it was the last one.
    pub(super) fn settled(&mut self, number: u64, call: u64) -> bool {
        let Some(stream) = self.streams.get_mut(&number) else { return false };
        stream.awaited.remove(&call) && stream.awaited.is_empty()
    }

    /// A participant does not do its part in a stream, or not any more: these resources.
    pub(super) fn part_ended(&mut self, number: u64, is_theirs: impl Fn(&ParticipantId, &str) -> bool) -> PartEnd {
        let Some(ListenStream { acknowledgement, uris, .. }) = self.streams.get_mut(&number) else {
            return PartEnd::Unnamed;
        };
        match acknowledgement {
            Some(honoured) => {
                honoured.uris.retain(|(owner, theirs, _)| !is_theirs(owner, theirs));
                uris.retain(|(owner, uri)| !is_theirs(owner, uri));
                PartEnd::Refused
            }
            None if uris.iter().any(|(owner, uri)| is_theirs(owner, uri)) => PartEnd::Broken,
            None => PartEnd::Unnamed,
        }
    }

    /// The parameters of the acknowledgement; once.
    pub(super) fn take_acknowledgement(&mut self, number: u64) -> Option<Box<RawValue>> {
        self.timers.forget(DoorTimer::Listen(number));
        let honoured = self.streams.get_mut(&number)?.acknowledgement.take()?;
        Some(honoured.params())
    }

    /// Where a stream is, and the id that marks its notifications.
    pub(super) fn address(&self, number: u64) -> Option<(Channel, Box<RawValue>)> {
        self.streams.get(&number).map(|stream| (stream.request.channel, stream.request.id.clone()))
    }

    /// Whether a stream announces changes of a list, by the notification's method.
    pub(super) fn wants_list(&self, number: u64, changed: &str) -> bool {
        self.streams.get(&number).is_some_and(|stream| stream.lists.contains(changed))
    }

    /// Whether a stream announces updates of a resource.
    pub(super) fn wants_update(&self, number: u64, owner: &ParticipantId, uri: &str) -> bool {
        self.streams.get(&number).is_some_and(|stream| stream.wants(owner, uri))
    }

    /// The streams that announce changes of a list.
    pub(super) fn of_list(&self, changed: &str) -> Vec<u64> {
        self.numbers(|stream| stream.lists.contains(changed))
    }

    /// The streams that announce updates of a resource.
    pub(super) fn of_resource(&self, owner: &ParticipantId, uri: &str) -> Vec<u64> {
        self.numbers(|stream| stream.wants(owner, uri))
    }

    /// Whether the client wants to hear of a resource of somebody's.
    pub(super) fn is_subscribed(&self, owner: &ParticipantId, uri: &str) -> bool {
        let streamed = self.streams.values().flat_map(ListenStream::uris);
        self.single.iter().chain(streamed).any(|(known, wanted)| known == owner && is_part(uri, wanted))
    }

    /// Whether a stream names that very resource.
    pub(super) fn is_streamed(&self, owner: &ParticipantId, uri: &str) -> bool {
        self.streams.values().flat_map(ListenStream::uris).any(|(known, wanted)| known == owner && wanted == uri)
    }

    /// Whether the client has subscribed to that very resource, in one way or the other.
    pub(super) fn wants_resource(&self, owner: &ParticipantId, uri: &str) -> bool {
        self.is_streamed(owner, uri) || self.single.contains(&(owner.clone(), uri.to_owned()))
    }

    /// A legacy client has subscribed to a resource. Beyond the bound its owner's return is not announced to it.
    pub(super) fn subscribe(&mut self, owner: &ParticipantId, uri: &str) {
        if self.single.len() < MAX_URIS {
            self.single.insert((owner.clone(), uri.to_owned()));
        }
    }

    pub(super) fn unsubscribe(&mut self, owner: &ParticipantId, uri: &str) {
        self.single.remove(&(owner.clone(), uri.to_owned()));
    }

    /// Whether a legacy client may subscribe to one more resource of a modern participant's.
    pub(super) fn has_room_for(&self, owner: &ParticipantId, uri: &str) -> bool {
        let bytes = uri.len() + self.single_of(owner).map(str::len).sum::<usize>();
        self.single.len() < MAX_URIS && bytes <= MAX_URI_BYTES
    }

    /// What a legacy client has subscribed to of a participant's.
    pub(super) fn single_of(&self, who: &ParticipantId) -> impl Iterator<Item = &str> {
        self.single.iter().filter(move |(owner, _)| owner == who).map(|(_, uri)| uri.as_str())
    }

    fn numbers(&self, is_wanted: impl Fn(&ListenStream) -> bool) -> Vec<u64> {
        self.streams.iter().filter(|(_, stream)| is_wanted(stream)).map(|(number, _)| *number).collect()
    }
}

/// The parameters of a subscription, or of its acknowledgement.
pub(super) fn filter<'a>(lists: impl Iterator<Item = &'a str>, uris: &[impl serde::Serialize]) -> Box<RawValue> {
    let mut filter = Members::default();
    for key in lists {
        filter.set(key, &true);
    }
    if !uris.is_empty() {
        filter.set("resourceSubscriptions", uris);
    }
    let mut params = Members::default();
    params.set("notifications", &filter);
    params.to_raw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::door::empty;
    use salon_mcp::Revision;

    fn who(name: &str) -> ParticipantId {
        ParticipantId::new(name).unwrap()
    }

    /// A stream for changes of tools and for a resource each of bob's and carol's.
    fn open(now: Instant) -> ClientSubscriptions {
        let profile = ClientProfile { revision: Revision::MODERN, capabilities: empty(), info: None, level: None };
        let request = DoorRequest {
            channel: Channel::SESSION,
            id: RawValue::from_string("7".into()).unwrap(),
            method: "subscriptions/listen".into(),
            params: None,
            profile: Arc::new(profile),
            headers: None,
        };
        let uris = [("bob", "file:///a"), ("carol", "file:///b")];
        let uris = uris.map(|(owner, uri)| (who(owner), uri.to_owned(), format!("salon://{owner}/{uri}")));
        let mut subscriptions = ClientSubscriptions::default();
        subscriptions.open(4, request, Honoured { lists: vec![LIST_FILTERS[0]], uris: uris.into() }, now);
        subscriptions
    }

    #[test]
    fn a_stream_is_acknowledged_once_with_what_was_not_refused() {
        let now = Instant::now();
        let mut subscriptions = open(now);
        assert_eq!(subscriptions.timers.next(), Some(now + ACKNOWLEDGEMENT_TIMEOUT));
        subscriptions.await_answer(4, 1);
        subscriptions.await_answer(4, 2);
        assert_eq!(subscriptions.part_ended(4, |owner, _| *owner == who("bob")), PartEnd::Refused);
        assert!(!subscriptions.settled(4, 1) && subscriptions.settled(4, 2) && !subscriptions.settled(4, 2));
        let acknowledged = subscriptions.take_acknowledgement(4).unwrap();
        assert_eq!(
            acknowledged.get(),
            r#"{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["salon://carol/file:///b"]}}"#
        );
        assert!(subscriptions.take_acknowledgement(4).is_none() && subscriptions.timers.next().is_none());
        assert!(!subscriptions.is_streamed(&who("bob"), "file:///a"));
        assert_eq!(subscriptions.part_ended(4, |owner, _| *owner == who("bob")), PartEnd::Unnamed);
        assert_eq!(subscriptions.part_ended(4, |owner, _| *owner == who("carol")), PartEnd::Broken);
        subscriptions.await_answer(4, 3);
        assert!(subscriptions.awaits_nobody(4), "nothing waits any more");
    }

    #[test]
    fn a_stream_announces_what_it_names_and_what_is_below_that() {
        let subscriptions = open(Instant::now());
        assert_eq!(subscriptions.of_list(Listing::Tools.changed()), [4]);
        assert!(subscriptions.of_list(Listing::Prompts.changed()).is_empty());
        assert!(subscriptions.wants_list(4, Listing::Tools.changed()) && !subscriptions.wants_list(5, "x"));
        for (owner, uri, is_wanted) in [
            ("bob", "file:///a", true),
            ("bob", "file:///a/b", true),
            ("bob", "file:///ab", false),
            ("carol", "file:///a", false),
        ] {
            assert_eq!(subscriptions.wants_update(4, &who(owner), uri), is_wanted, "{owner} {uri}");
            assert_eq!(subscriptions.of_resource(&who(owner), uri).len(), usize::from(is_wanted), "{owner} {uri}");
            assert_eq!(subscriptions.is_subscribed(&who(owner), uri), is_wanted, "{owner} {uri}");
        }
        assert!(!subscriptions.wants_resource(&who("bob"), "file:///a/b"), "not that very one");
        let part = subscriptions.part(4, &who("bob"));
        assert_eq!(part, Some((vec!["toolsListChanged"], vec!["file:///a".to_owned()])));
    }

    #[test]
    fn single_subscriptions_are_bounded_in_number_and_bytes() {
        let mut subscriptions = ClientSubscriptions::default();
        let long = "x".repeat(MAX_URI_BYTES / 2);
        subscriptions.subscribe(&who("bob"), &long);
        assert!(subscriptions.has_room_for(&who("bob"), &long));
        assert!(!subscriptions.has_room_for(&who("bob"), &format!("{long}y")));
        assert!(subscriptions.has_room_for(&who("carol"), &format!("{long}y")), "all of one go into one message");
        for number in 0..MAX_URIS {
            subscriptions.subscribe(&who("carol"), &number.to_string());
        }
        assert!(!subscriptions.has_room_for(&who("dave"), "a"));
        assert_eq!(subscriptions.single_of(&who("carol")).count(), MAX_URIS - 1);
        subscriptions.unsubscribe(&who("bob"), &long);
        assert!(subscriptions.has_room_for(&who("dave"), "a") && !subscriptions.wants_resource(&who("bob"), &long));
    }
}
