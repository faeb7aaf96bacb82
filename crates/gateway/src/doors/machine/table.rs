//! The sessions over HTTP: one for all that a participant sends and hears in a topic.
//!
//! Invariants: nobody reaches a session with another's token. A session that is used with several tokens may do what all of them permit,
//! and a request over HTTP what its own does. A participant is in a room once by this door: its WebSocket takes the place of its session
//! over HTTP, and while there is one nothing begins over HTTP, so that a stream that reconnects by itself cannot throw it out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use salon_dialects::Stamps;
use salon_dialects::machine::{Machine, Options, Terms};
use salon_log::Claim;
use salon_protocol::{Code, Participant, ParticipantId, Refusal, TopicName};
use salon_rooms::{Admission, Deliver};

use super::super as doors;
use crate::auth::Grant;
use crate::carriers::{Exchanges, Inbox};
use crate::clock;
use crate::connection::ConnectionContext;
use crate::entrance::Entrance;
use crate::gateway::{Counts, Gateway};
use crate::http::Peer;
use crate::http::credentials::Asking;
use crate::permissions::Held;
use crate::session::{Beginning, Session};

/// How long a participant stays that has no connection.
const IDLE: Duration = Duration::from_secs(60);

/// Who is where.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) participant: ParticipantId,
    pub(super) topic: TopicName,
}

/// Who makes a request.
pub(super) struct Visitor {
    pub(super) gateway: Arc<Gateway>,
    pub(super) peer: Peer,
    pub(super) grant: Grant,
}

struct Known {
    inbox: Inbox,
    connection: ConnectionContext,
    number: u64,
    _counted: Counts,
}

/// Every session.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<Table>);

#[derive(Default)]
struct Table {
    known: HashMap<Place, Known>,
    /// How many WebSockets there are.
    sockets: HashMap<Place, usize>,
    number: u64,
    /// Whose messages are not read, because too many were refused, and until when.
    paused: HashMap<ParticipantId, Instant>,
}

/// How many participants may be paused before those that are not any more are looked for.
const MANY_PAUSED: usize = 1024;

impl Sessions {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().expect("no code panics while it holds the sessions")
    }

    /// The session of whoever asks, which is begun where there is none, and what its calls are permitted.
    pub(super) fn inbox(&self, visitor: &Visitor, place: &Place) -> Result<(Inbox, Arc<Held>), Refusal> {
        let mut table = self.table();
        if table.sockets.contains_key(place) {
            let told = format!("`{}` is connected by WebSocket; use one of the two at a time", place.participant);
            return Err(Refusal::new(Code::IdConflict, told));
        }
        match table.known.get(place) {
            Some(known) if !known.inbox.is_closed() => {
                known.connection.held.narrow(&visitor.grant.permissions);
                Ok((known.inbox.clone(), known.connection.held.clone()))
            }
            _ => table.begin(visitor, place),
        }
    }

    /// How long a participant is not heard, because too many messages of its were refused.
    pub(super) fn paused(&self, who: &ParticipantId, now: Instant) -> Option<Duration> {
        self.table().paused.get(who).and_then(|until| until.checked_duration_since(now)).filter(|wait| !wait.is_zero())
    }

    /// Too many messages of a participant were refused. Telling that a message is wrong costs as much as publishing one, so nothing is
    /// read until it could be.
    pub(super) fn pause(&self, who: &ParticipantId, wait: Duration, now: Instant) {
        let mut table = self.table();
        if table.paused.len() >= MANY_PAUSED {
            table.paused.retain(|_, until| *until > now);
        }
        table.paused.insert(who.clone(), now + wait);
    }

    /// A WebSocket, until the returned value is dropped.
    pub(super) fn attend(gateway: &Arc<Gateway>, place: &Place) -> Attended {
        *gateway.machine.table().sockets.entry(place.clone()).or_default() += 1;
        Attended { gateway: gateway.clone(), place: place.clone() }
    }

    fn forget(&self, place: &Place, number: u64) {
        let mut table = self.table();
        if table.known.get(place).is_some_and(|known| known.number == number) {
            table.known.remove(place);
        }
    }
}

/// A WebSocket that is open.
pub(super) struct Attended {
    gateway: Arc<Gateway>,
    place: Place,
}

impl Drop for Attended {
    fn drop(&mut self) {
        let mut table = self.gateway.machine.table();
        if let Some(count) = table.sockets.get_mut(&self.place) {
            *count -= 1;
            if *count == 0 {
                table.sockets.remove(&self.place);
            }
        }
    }
}

impl Table {
    fn begin(&mut self, visitor: &Visitor, place: &Place) -> Result<(Inbox, Arc<Held>), Refusal> {
        let Visitor { gateway, peer, grant } = visitor;
        let connection = gateway.connection(grant, &place.topic, peer.ip());
        let counted = gateway.count(grant, peer)?;
        Asking::note_entry(gateway, peer.ip(), grant, &place.topic);
        let (carrier, inbox) = Exchanges::new();
        let dialect = dialect(gateway, place, None, Some(IDLE));
        let expires = clock::instant(grant.expires);
        let beginning = Beginning { dialect, carrier, patience: None, expires, connection: connection.clone() };
        let session = Box::pin(Session::outside(entrance(gateway, grant, &place.topic), beginning));
        self.number += 1;
        let number = self.number;
        let known = Known { inbox: inbox.clone(), connection: connection.clone(), number, _counted: counted };
        self.known.insert(place.clone(), known);
        let (owner, place, held) = (gateway.clone(), place.clone(), connection.held.clone());
        gateway.spawn(async move {
            doors::run(session, &connection).await;
            owner.machine.forget(&place, number);
        });
        Ok((inbox, held))
    }
}

/// The grammar of one session.
pub(super) fn dialect(gateway: &Gateway, place: &Place, terms: Option<Terms>, idle: Option<Duration>) -> Machine {
    let began = Instant::now();
    let stamps = Stamps::new(uuid::Uuid::new_v4().simple().to_string(), began, clock::now());
    let options = Options {
        me: place.participant.clone(),
        topic: place.topic.clone(),
        limits: gateway.config.limits.envelope(),
        terms,
        idle,
        version: env!("CARGO_PKG_VERSION"),
    };
    Machine::new(options, stamps, began)
}

/// The way into the room. A participant is there once: two of them would both do what one was asked.
pub(super) fn entrance(gateway: &Arc<Gateway>, grant: &Grant, topic: &TopicName) -> Entrance {
    let (id, name, kind) = (grant.participant.clone(), grant.name.clone(), grant.kind);
    doors::entrance(gateway, topic, grant, move |introduction| Admission {
        participant: Participant { name: name.clone(), kind, mcp: introduction.mcp, ..Participant::new(id.clone()) },
        claim: Claim::Exclusive,
        after: None,
        recent: None,
        deliver: Deliver::Directed,
        echo: false,
    })
}
