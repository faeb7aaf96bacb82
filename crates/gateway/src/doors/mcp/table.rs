//! The sessions of MCP over HTTP: which there are, whose they are, and how to reach them.
//!
//! Invariants: nobody reaches a session with another's token or at another address. One that has an id and is used with several tokens
//! may do what all of them permit; requests without one share a session only with those whose tokens permit the same. Each counts as a
//! connection of its participant until it is forgotten here; who may have no more makes room by ending the one that has been idle the
//! longest.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use salon_dialects::Stamps;
use salon_dialects::mcp::door::{Options, Scope};
use salon_dialects::mcp::draft::Interpreter;
use salon_log::Claim;
use salon_protocol::{Participant, ParticipantId, ParticipantKind, Refusal, TopicName};
use salon_rooms::{Admission, Deliver};

use super::super::{self as doors, MAX_NAME_CHARS};
use crate::auth::{self, Grant};
use crate::carriers::{Exchanges, Inbox};
use crate::clock;
use crate::entrance::Entrance;
use crate::gateway::{Counts, Gateway, LimitReached};
use crate::http::Peer;
use crate::http::credentials::Asking;
use crate::permissions::Held;
use crate::session::{Beginning, Session};

/// How many others a room may have for everybody to be asked, in the name of each client that can be asked things, what they offer it.
const FEW: usize = 16;

/// How long a session may be silent that begins with a handshake and ends when its client says so.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// How long somebody stays whose requests belong to no session, or who was to come back and ask.
const SESSIONLESS_IDLE_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Where a session belongs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) participant: ParticipantId,
    pub(super) topic: TopicName,
    pub(super) scope: Scope,
}

/// How long a session lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    /// From a handshake to a farewell.
    Session,
    /// As long as the stream it begins with (HTTP+SSE).
    Stream,
    /// As long as somebody asks what has happened.
    Polls,
}

/// Who makes a request.
pub(super) struct Visitor {
    pub(super) gateway: Arc<Gateway>,
    pub(super) peer: Peer,
    pub(super) grant: Grant,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Id(Box<str>),
    /// The requests of the stateless revision: one session for all of a participant's at one address whose tokens permit this. Who
    /// shows another token cannot begin a session of its own, and must neither gain nor lose by what was shown before.
    Shared(Place, BTreeSet<String>),
}

struct Known {
    place: Place,
    inbox: Inbox,
    held: Arc<Held>,
    /// Which address it counts for.
    address: IpAddr,
    number: u64,
    _counted: Counts,
}

impl Known {
    /// It is used with a token.
    fn used(&self, grant: &Grant) -> Inbox {
        self.held.narrow(&grant.permissions);
        self.inbox.clone()
    }
}

/// Every session.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<Table>);

#[derive(Default)]
struct Table {
    known: HashMap<Key, Known>,
    number: u64,
}

impl Sessions {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().expect("no code panics while it holds the sessions")
    }

    /// The session of an id, if it is this participant's, its token opens the topic, and `is_at` accepts where it belongs. One that
    /// is not found is not used, and keeps its permissions.
    pub(super) fn find(&self, id: &str, grant: &Grant, is_at: impl FnOnce(&Place) -> bool) -> Option<Inbox> {
        let table = self.table();
        let known = table.known.get(&Key::Id(id.into()))?;
        let Place { participant, topic, .. } = &known.place;
        let is_found = *participant == grant.participant && grant.opens(topic) && is_at(&known.place);
        is_found.then(|| known.used(grant))
    }

    /// Begins a session; gives its id.
    pub(super) fn begin(&self, visitor: &Visitor, place: Place, life: Life) -> Result<(Box<str>, Inbox), Refusal> {
        let id: Box<str> = auth::hex(&auth::random::<24>()).into();
        let idle = match life {
            Life::Session => IDLE_TIMEOUT,
            Life::Stream => visitor.gateway.config.timings.stream_idle_timeout,
            Life::Polls => SESSIONLESS_IDLE_TIMEOUT,
        };
        let inbox = self.table().begin(visitor, Key::Id(id.clone()), place, idle)?;
        Ok((id, inbox))
    }

    /// The session that requests share which belong to none. One that has just ended is replaced.
    pub(super) fn shared(&self, visitor: &Visitor, place: &Place) -> Result<Inbox, Refusal> {
        let mut table = self.table();
        let key = Key::Shared(place.clone(), visitor.grant.permissions.iter().cloned().collect());
        match table.known.get(&key) {
            Some(known) if !known.inbox.is_closed() => Ok(known.used(&visitor.grant)),
            _ => table.begin(visitor, key, place.clone(), SESSIONLESS_IDLE_TIMEOUT),
        }
    }

    /// Nobody finds the session any more.
    pub(super) fn remove(&self, id: &str) {
        self.table().known.remove(&Key::Id(id.into()));
    }

    fn forget(&self, key: &Key, number: u64) {
        let mut table = self.table();
        if table.known.get(key).is_some_and(|known| known.number == number) {
            table.known.remove(key);
        }
    }
}

impl Table {
    fn begin(&mut self, visitor: &Visitor, key: Key, place: Place, idle: Duration) -> Result<Inbox, Refusal> {
        let Visitor { gateway, peer, grant } = visitor;
        let counted = self.make_room(visitor);
        let connection = gateway.connection(grant, &place.topic, peer.ip());
        let counted = counted.inspect_err(|refusal| connection.audit_refusal(refusal.code))?;
        Asking::note_entry(gateway, peer.ip(), grant, &place.topic);
        let session_id = match &key {
            Key::Id(id) => Some(id.clone()),
            Key::Shared(..) => None,
        };
        let (carrier, inbox) = Exchanges::new();
        let dialect = door(gateway, &place, session_id, Some(idle));
        let expires = clock::instant(grant.expires);
        let entrance = entrance(gateway, grant, &place.topic);
        let beginning = Beginning { dialect, carrier, patience: None, expires, connection: connection.clone() };
        let session = Box::pin(Session::outside(entrance, beginning));
        self.number += 1;
        let number = self.number;
        let held = connection.held.clone();
        let known = Known { place, inbox: inbox.clone(), held, address: peer.ip(), number, _counted: counted };
        self.known.insert(key.clone(), known);
        let owner = gateway.clone();
        gateway.spawn(async move {
            doors::run(session, &connection).await;
            owner.mcp.forget(&key, number);
        });
        Ok(inbox)
    }

    /// Counts one more session, and ends another of its participant for it where that helps.
    fn make_room(&mut self, Visitor { gateway, peer, grant }: &Visitor) -> Result<Counts, Refusal> {
        let own = |known: &Known| known.place.participant == grant.participant;
        let ended = match gateway.try_count(grant, peer) {
            Ok(counted) => return Ok(counted),
            Err(LimitReached::Participant(refusal)) => self.end_idlest(own).then_some(()).ok_or(refusal),
            // Only one that counts for the same address.
            Err(LimitReached::Address(refusal)) => {
                let beside = |known: &Known| own(known) && known.address == peer.ip();
                self.end_idlest(beside).then_some(()).ok_or(refusal)
            }
        };
        ended.and_then(|()| gateway.count(grant, peer))
    }

    /// Ends the session among `those` that nobody waits for, the one unused for the longest. Says whether there was one.
    fn end_idlest(&mut self, those: impl Fn(&Known) -> bool) -> bool {
        let own = self.known.iter().filter(|(_, known)| those(known));
        let idle = own.filter_map(|(key, known)| Some((known.inbox.idle_since()?, key)));
        let Some(key) = idle.min_by_key(|(since, _)| *since).map(|(_, key)| key.clone()) else { return false };
        // A session that nobody can reach ends by itself.
        self.known.remove(&key).is_some()
    }
}

/// The grammar of one session.
pub(super) fn door(gateway: &Gateway, place: &Place, session: Option<Box<str>>, idle: Option<Duration>) -> Interpreter {
    let began = Instant::now();
    let stamps = Stamps::new(uuid::Uuid::new_v4().simple().to_string(), began, clock::now());
    let options = Options {
        me: place.participant.clone(),
        topic: place.topic.clone(),
        scope: place.scope.clone(),
        limits: gateway.config.limits.envelope(),
        session,
        idle,
        few: FEW,
        // Far from each other, and small enough for clients whose numbers are doubles.
        first: u64::from(u32::from_le_bytes(auth::random())) << 20,
        salt: auth::random(),
        version: env!("CARGO_PKG_VERSION"),
    };
    Interpreter::new(options, stamps, began)
}

/// The way into the room for a client that is yet to introduce itself. It sits beside its participant's other sessions.
pub(super) fn entrance(gateway: &Arc<Gateway>, grant: &Grant, topic: &TopicName) -> Entrance {
    let (id, name) = (grant.participant.clone(), grant.name.clone());
    // A program that speaks MCP acts for a model, unless the token says otherwise.
    let kind = grant.kind.or(Some(ParticipantKind::Agent));
    doors::entrance(gateway, topic, grant, move |introduction| {
        let own_name = || introduction.name.as_deref().and_then(display_name);
        let name = name.clone().or_else(own_name);
        Admission {
            participant: Participant { name, kind, mcp: introduction.mcp, ..Participant::new(id.clone()) },
            claim: Claim::Shared,
            after: None,
            recent: None,
            deliver: Deliver::Directed,
            // What another session of the same participant says to somebody can concern this one.
            echo: true,
        }
    })
}

/// A name that a client gave itself, as far as it can be shown.
fn display_name(given: &str) -> Option<String> {
    let clean: String = given.chars().filter(|character| !character.is_control()).take(MAX_NAME_CHARS).collect();
    let clean = clean.trim();
    (!clean.is_empty()).then(|| clean.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cleaned_and_cut_rather_than_refused() {
        assert_eq!(display_name("Claude Code").as_deref(), Some("Claude Code"));
        assert_eq!(display_name(" a\nb\u{7}c ").as_deref(), Some("abc"));
        assert_eq!(display_name("é".repeat(300).as_str()).map(|name| name.chars().count()), Some(256));
        assert_eq!(display_name("\n \t"), None);
    }
}
