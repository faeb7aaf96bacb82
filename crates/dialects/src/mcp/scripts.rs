//! What scripts share that are played to a door: the room around it, and its clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use salon_mcp::listing::{ListItem, Listing, read_page};
use salon_protocol::{
    Compose, Entry, Envelope, EnvelopeId, Kind, Participant, ParticipantId, Position, SessionId, Sessions, Timestamp,
    TopicName,
};
use serde_json::value::RawValue;

use super::door::{CatalogueAnswer, CatalogueQuery, DialectEvent, McpOpening, RoomAnswer, RoomQuery};
use crate::{BodyForm, CatalogueSnapshot, Dialect, History, Joined, SnapshotBuilder, StreamHead, StreamId};

pub(super) fn id(text: &str) -> ParticipantId {
    ParticipantId::new(text).unwrap()
}

pub(super) fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.into()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A request of the door's that nobody has answered; without an id, a list that the room's host asks for.
#[derive(Debug, Clone)]
pub(super) struct OpenScriptRequest {
    pub(super) to: String,
    pub(super) method: String,
    pub(super) id: Option<String>,
}

/// How long the host waits for a list, and how long it does not ask again for one that it did not get.
const LIST_TIMEOUT: Duration = Duration::from_secs(3);
const RETRY_AFTER: Duration = Duration::from_secs(60);

#[derive(Clone, Copy)]
enum HostList {
    Asking { since: Instant, is_stale: bool },
    Fetched { since: Instant },
    Lacking { since: Instant },
}

/// The room's host, as far as its catalogue is concerned: it asks every participant once, whatever sessions there are.
pub(super) struct CatalogueHost {
    builder: SnapshotBuilder,
    roster: BTreeSet<String>,
    newcomers: BTreeSet<String>,
    lists: BTreeMap<(String, Listing), HostList>,
    requested: BTreeSet<Listing>,
    gathers: Vec<(u64, &'static [Listing])>,
    /// The version after which the door wants the next.
    after: Option<u64>,
}

impl Default for CatalogueHost {
    fn default() -> Self {
        Self {
            builder: SnapshotBuilder::after(&CatalogueSnapshot::default()),
            roster: BTreeSet::new(),
            newcomers: BTreeSet::new(),
            lists: BTreeMap::new(),
            requested: BTreeSet::new(),
            gathers: Vec::new(),
            after: None,
        }
    }
}

/// Lists that the host asks participants for.
pub(super) type Consults = Vec<(String, Listing)>;

impl CatalogueHost {
    /// The door asks.
    pub(super) fn asked(&mut self, query: RoomQuery, now: Instant, max_age: Duration) -> Consults {
        let (number, listings) = match query {
            RoomQuery::One(CatalogueQuery { who, listing }) => return vec![(who.to_string(), listing)],
            RoomQuery::Next { after } => {
                self.after = Some(after);
                return Vec::new();
            }
            RoomQuery::Watch { listings } => {
                self.requested.extend(listings);
                return Vec::new();
            }
            // Nothing is forbidden on this stage, and a script says itself what becomes of waits.
            RoomQuery::Authority | RoomQuery::Wait { .. } | RoomQuery::StopWaiting { .. } => return Vec::new(),
            RoomQuery::Gather { number, listings } => (number, listings),
        };
        self.requested.extend(listings);
        self.gathers.push((number, listings));
        let all = self.roster.iter().flat_map(|who| listings.iter().map(|listing| (who.clone(), *listing)));
        let is_due = |list: &(String, Listing)| match self.lists.get(list) {
            None => true,
            Some(HostList::Asking { .. }) => false,
            Some(HostList::Fetched { since }) => *since + max_age <= now,
            Some(HostList::Lacking { since }) => *since + RETRY_AFTER <= now,
        };
        let due = all.filter(is_due).collect();
        self.ask(due, now)
    }

    fn ask(&mut self, lists: Consults, now: Instant) -> Consults {
        for list in &lists {
            self.lists.insert(list.clone(), HostList::Asking { since: now, is_stale: false });
        }
        lists
    }

    pub(super) fn joined(&mut self, who: &str, is_followed: bool, now: Instant) -> Consults {
        self.roster.insert(who.to_owned());
        self.newcomers.insert(who.to_owned());
        let wanted = Listing::ALL.into_iter().filter(|listing| is_followed || self.requested.contains(listing));
        let lists = wanted.map(|listing| (who.to_owned(), listing)).collect();
        self.ask(lists, now)
    }

    pub(super) fn left(&mut self, who: &str) {
        self.roster.remove(who);
        self.lists.retain(|(owner, _), _| owner != who);
        self.builder.remove(&id(who));
    }

    /// A participant says that a list has changed.
    pub(super) fn changed(&mut self, who: &str, method: &str, now: Instant) -> Consults {
        let mut again = Vec::new();
        for listing in Listing::ALL.into_iter().filter(|listing| listing.changed() == method) {
            match self.lists.get_mut(&(who.to_owned(), listing)) {
                Some(HostList::Asking { is_stale, .. }) => *is_stale = true,
                Some(_) => again.push((who.to_owned(), listing)),
                None => {}
            }
        }
        self.ask(again, now)
    }

    /// A participant has answered the host.
    fn listed(&mut self, who: &str, listing: Listing, items: Option<Arc<[ListItem]>>, now: Instant) -> Consults {
        let is_news = self.newcomers.contains(who);
        let state = match items {
            Some(items) => {
                self.builder.put(&id(who), listing, items, is_news);
                HostList::Fetched { since: now }
            }
            None => HostList::Lacking { since: now },
        };
        let list = (who.to_owned(), listing);
        let before = self.lists.insert(list.clone(), state);
        let is_stale = matches!(before, Some(HostList::Asking { is_stale: true, .. }));
        let again = if is_stale { vec![list] } else { Vec::new() };
        self.ask(again, now)
    }

    /// What the door is answered by now.
    pub(super) fn answers(&mut self, now: Instant) -> Vec<RoomAnswer> {
        let snapshot = self.builder.snapshot();
        let mut answers = Vec::new();
        if self.after.is_some_and(|after| after < snapshot.version()) {
            self.after = None;
            answers.push(RoomAnswer::Next(snapshot.clone()));
        }
        let is_awaited = |(_, listing): &(String, Listing), list: &HostList, listings: &[Listing]| {
            matches!(list, HostList::Asking { since, .. } if *since + LIST_TIMEOUT > now) && listings.contains(listing)
        };
        let is_open = |listings: &[Listing]| self.lists.iter().any(|(key, list)| is_awaited(key, list, listings));
        let (open, settled): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.gathers).into_iter().partition(|(_, listings)| is_open(listings));
        self.gathers = open;
        let gathered = |(number, _)| RoomAnswer::Gathered { number, snapshot: Some(snapshot.clone()) };
        answers.extend(settled.into_iter().map(gathered));
        answers
    }
}

/// Somebody to whom a script is played.
pub(super) trait Stage {
    type Actor: Dialect<Opening = McpOpening, Answer = RoomAnswer>;

    fn actor(&mut self) -> &mut Self::Actor;

    fn host(&mut self) -> &mut CatalogueHost;

    /// The host asks participants for lists.
    fn consult(&mut self, consults: Consults);

    /// Brings the host's answers to the door.
    fn resolve(&mut self) {
        let now = *self.now();
        for answer in self.host().answers(now) {
            self.event(DialectEvent::Answered(answer));
        }
    }

    fn now(&mut self) -> &mut Instant;

    /// How many entries there were.
    fn said(&mut self) -> &mut u32;

    /// Takes down what comes out.
    fn collect(&mut self);

    fn event(&mut self, event: DialectEvent) {
        let now = *self.now();
        self.actor().handle_event(event, now);
        self.collect();
    }

    /// Lets time go by, stopping wherever something is due.
    fn pass(&mut self, time: Duration) {
        let end = *self.now() + time;
        while let Some(due) = self.actor().poll_timeout().filter(|due| *due <= end) {
            let now = due.max(*self.now());
            *self.now() = now;
            self.actor().handle_timeout(now);
            let next = self.actor().poll_timeout();
            assert!(next.is_none_or(|next| next > now), "what was due has been seen to");
            self.collect();
        }
        *self.now() = end;
    }

    /// An entry of the room; `alice/s2` is something of a session of alice's, `bob>s` something of bob's for a session of the one it is for.
    fn entry_to(&mut self, to: &[ParticipantId], from: &str, kind: Kind, correlation: Option<&str>, payload: &str) {
        *self.said() += 1;
        let (from, to_session) = from.split_once('>').map_or((from, None), |(from, session)| (from, Some(session)));
        let (from, from_session) = from.split_once('/').map_or((from, None), |(from, session)| (from, Some(session)));
        let session = |text: Option<&str>| text.map(|text| SessionId::new(text).unwrap());
        let (from_session, to_session) = (session(from_session), session(to_session));
        let sessions = Sessions { from_session: from_session.as_ref(), to_session: to_session.as_ref() };
        let compose = Compose {
            id: &format!("e{}", self.said()),
            ts: Timestamp(0),
            from: &id(from),
            to,
            kind,
            correlation_id: correlation,
            payload: raw(payload),
        };
        let envelope = Envelope::restore(compose.text_between(sessions)).unwrap();
        self.event(DialectEvent::Entry(Arc::new(Entry {
            position: Position::start(1),
            arrived: Timestamp(0),
            stamp: None,
            envelope,
        })));
    }

    fn entry(&mut self, from: &str, kind: Kind, correlation: Option<&str>, payload: &str) {
        self.entry_to(&[id("alice")], from, kind, correlation, payload);
    }

    /// The callee answers with a result, or with `error {…}`.
    fn answer_open(&mut self, open: &OpenScriptRequest, outcome: &str) {
        let Some(id) = &open.id else {
            let listing = Listing::of_method(&open.method).unwrap();
            let items = RawValue::from_string(outcome.into()).ok().and_then(|result| read_page(listing, &result));
            let items = items.map(|(items, _)| items.into());
            if open.to == "system:gateway" {
                let query = CatalogueQuery { who: ParticipantId::host(), listing };
                return self.event(DialectEvent::Answered(RoomAnswer::One(CatalogueAnswer { query, items })));
            }
            let now = *self.now();
            let again = self.host().listed(&open.to, listing, items, now);
            self.consult(again);
            return self.resolve();
        };
        let outcome = match outcome.strip_prefix("error ") {
            Some(error) => format!(r#""error":{error}"#),
            None => format!(r#""result":{outcome}"#),
        };
        self.entry(&open.to, Kind::Mcp, Some(id), &format!(r#"{{"jsonrpc":"2.0","id":"{id}",{outcome}}}"#));
    }

    fn join_room(&mut self, me: Participant, roster: &[Arc<Participant>], open_calls: &[(&str, &str)]) {
        let open_calls = open_calls.iter().map(|(request, to)| (EnvelopeId::new(request).unwrap(), id(to))).collect();
        let others = roster.iter().filter(|other| other.id != me.id).map(|other| other.id.to_string());
        self.host().roster = others.collect();
        self.event(DialectEvent::Joined(Joined {
            topic: TopicName::new("room:a").unwrap(),
            participant: Arc::new(me),
            roster: roster.to_vec(),
            open_calls,
            history: History { enabled: true, limit: 1000, recent: None },
            durability: None,
        }));
    }
}

/// How an answer begins, as a line.
pub(super) fn begun(StreamId(stream): StreamId, StreamHead { status, form, headers }: &StreamHead) -> String {
    let form = match form {
        BodyForm::Empty => "empty",
        BodyForm::Json => "json",
        BodyForm::Events => "events",
    };
    let headers: String = headers.iter().map(|(name, value)| format!(" [{name}: {value}]")).collect();
    format!("begin {stream} {status} {form}{headers}")
}
