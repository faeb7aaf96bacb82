//! The sessions of the framed door: which there are, how they begin, and how to reach them.
//!
//! Invariant: whoever knows a session's id may use it, so an id is told to nobody but in the answer to its CONNECT, and never logged.
//! Each counts as a connection of its participant and of the address it began from.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use salon_dialects::framed::{Connect, Framed, Options, refuse};
use salon_dialects::{Introduction, Stamps};
use salon_log::Claim;
use salon_protocol::{Code, Participant, Refusal, TopicName};
use salon_rooms::{Admission, Deliver};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::super as doors;
use crate::audit::{AuditEvent, AuditKind};
use crate::auth::{self, Grant};
use crate::carriers::{Lines, Unheard, Way};
use crate::clock;
use crate::entrance::Entrance;
use crate::gateway::{Counts, Gateway};
use crate::http::Peer;
use crate::session::{Beginning, Session};

/// Whose connection it is, as far as that can be known.
pub(super) struct Caller {
    pub(super) gateway: Arc<Gateway>,
    pub(super) peer: SocketAddr,
}

impl Caller {
    /// Whether somebody is who they say, and where they may go. Kept in the audit trail.
    pub(super) fn verify(&self, connect: &Connect) -> Result<(Grant, TopicName), Refusal> {
        let mut asked = None;
        let verified = self.judge(connect, &mut asked);
        let event = match &verified {
            Ok((grant, topic)) => AuditEvent::new(AuditKind::AuthOk, clock::now()).grant(grant).topic(topic),
            Err(refusal) => {
                let event = AuditEvent::new(AuditKind::AuthFailed, clock::now());
                let event = event.code(refusal.code).reason(refusal.message.clone());
                asked.iter().fold(event, AuditEvent::topic)
            }
        };
        self.gateway.audit.record(event.address(self.peer.ip()));
        verified
    }

    fn judge(&self, connect: &Connect, asked: &mut Option<TopicName>) -> Result<(Grant, TopicName), Refusal> {
        let wrong = |message: String| Refusal::new(Code::InvalidParameters, message);
        if let Some(topic) = &connect.topic {
            let topic = TopicName::new(topic).map_err(|error| wrong(format!("`topic` is not acceptable: {error}")))?;
            *asked = Some(topic);
        }
        let missing = || Refusal::new(Code::Unauthorized, "a token is required: `token` in the body of CONNECT");
        let token = connect.token.as_deref().ok_or_else(missing)?;
        let grant = self.gateway.verifier.verify(token, clock::now())?;
        grant.require_unsigned()?;
        if connect.id != grant.participant.as_str() {
            let message = format!("`clientInfo.id` must be \"{}\", the token's participant", grant.participant);
            return Err(Refusal::new(Code::Forbidden, message));
        }
        let topic = asked.clone().or_else(|| grant.only_topic().cloned());
        let topic = topic.ok_or_else(|| wrong("`topic` is missing, and the token opens more than one".into()))?;
        grant.require(&topic)?;
        Ok((grant, topic))
    }
}

struct Known {
    way: Way,
    _counted: Counts,
}

/// What the large first frames of connections may take together, in KiB.
const STRANGERS_ROOM: usize = 64 << 10;

/// Every session.
pub(crate) struct Sessions {
    known: Mutex<HashMap<Box<str>, Known>>,
    strangers: Arc<Semaphore>,
}

impl Default for Sessions {
    fn default() -> Self {
        Self { known: Mutex::default(), strangers: Arc::new(Semaphore::new(STRANGERS_ROOM)) }
    }
}

impl Sessions {
    fn known(&self) -> MutexGuard<'_, HashMap<Box<str>, Known>> {
        self.known.lock().expect("no code panics while it holds the sessions")
    }

    /// Room for so many bytes of somebody who belongs to no session yet, if there is some.
    pub(super) fn room_for(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let kibibytes = u32::try_from(bytes.div_ceil(1024)).ok()?;
        self.strangers.clone().try_acquire_many_owned(kibibytes).ok()
    }

    /// The way into a session.
    pub(super) fn find(&self, id: &str) -> Option<Way> {
        self.known().get(id).map(|known| known.way.clone())
    }

    /// Begins a session, which is yet to hear the CONNECT.
    pub(super) fn begin(&self, caller: &Caller, grant: &Grant, topic: TopicName) -> Result<(Box<str>, Way), Refusal> {
        let Caller { gateway, peer } = caller;
        let ledger = gateway.ledger(grant, &topic, peer.ip());
        let counted = gateway.count(grant, &Peer::At(*peer)).inspect_err(|refusal| ledger.told_no(refusal.code))?;
        let id: Box<str> = auth::hex(&auth::random::<16>()).into();
        let expires = clock::instant(grant.expires);
        let (carrier, way) = Lines::new(expires, unheard(gateway));
        let began = Instant::now();
        let options = Options {
            me: grant.participant.clone(),
            limits: gateway.config.limits.envelope(),
            session: id.clone(),
            linger: gateway.config.timings.framed_session_timeout,
            version: env!("CARGO_PKG_VERSION"),
        };
        // Not the session's id: this stands in every envelope's.
        let stamps = Stamps::new(uuid::Uuid::new_v4().simple().to_string(), began, clock::now());
        let dialect = Framed::new(options, stamps, began);
        let beginning = Beginning { dialect, carrier, patience: None, expires, ledger: ledger.clone() };
        let session = Box::pin(Session::outside(entrance(gateway, grant, &topic), beginning));
        self.known().insert(id.clone(), Known { way: way.clone(), _counted: counted });
        let (owner, key) = (gateway.clone(), id.clone());
        gateway.spawn(async move {
            doors::run(session, &ledger).await;
            owner.framed.known().remove(&key);
        });
        Ok((id, way))
    }
}

/// What is said to those who name a session that is not there.
pub(super) fn unknown() -> Refusal {
    Refusal::new(Code::Unauthorized, "there is no such session, or not any more; begin with CONNECT")
}

/// What is said to frames that a session had not heard when it ended.
fn unheard(gateway: &Gateway) -> Unheard {
    let shutdown = gateway.shutdown.subscribe();
    Box::new(move |frame| {
        let refusal = match *shutdown.borrow() {
            true => Refusal::new(Code::Closing, "the gateway is shutting down"),
            false => unknown(),
        };
        refuse(frame, &refusal, clock::now())
    })
}

/// The way into the room. A participant is there once: two of them would both do what one was asked.
fn entrance(gateway: &Arc<Gateway>, grant: &Grant, topic: &TopicName) -> Entrance {
    let (id, name, kind) = (grant.participant.clone(), grant.name.clone(), grant.kind);
    doors::entrance(gateway, topic, grant, move |Introduction { mcp, capabilities, .. }| Admission {
        participant: Participant { id: id.clone(), name: name.clone(), kind, mcp, capabilities },
        claim: Claim::Exclusive,
        after: None,
        recent: None,
        deliver: Deliver::Directed,
        echo: false,
    })
}
