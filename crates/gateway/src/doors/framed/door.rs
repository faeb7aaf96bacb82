//! The framed door's own part of a session: who may begin one, and the grammar it speaks.
//!
//! Invariant: a session's id is its credential, so it is sent only in the answer to its CONNECT, and never logged.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use salon_dialects::framed::{Connect, Framed, FramedOptions, refuse};
use salon_protocol::{Code, ParticipantId, Refusal, TopicName};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::super as doors;
use super::super::sessions::{SessionTable, Visitor};
use crate::audit::{AuditEvent, AuditKind};
use crate::auth::{self, Grant};
use crate::carriers::{LineConnections, SessionLines, Undelivered};
use crate::clock;
use crate::connection::ConnectionContext;
use crate::gateway::GatewayState;
use crate::http::PeerAddress;

/// A connection, before it is known whose.
pub(super) struct FramedConnection {
    pub(super) door: Arc<FramedDoor>,
    pub(super) peer: SocketAddr,
}

impl FramedConnection {
    /// Verifies a CONNECT: whose it is, and which topic it may enter. A failure is audited here, a success where the session begins.
    pub(super) fn verify(&self, connect: &Connect) -> Result<(Visitor, TopicName), Refusal> {
        let mut asked = None;
        let verified = self.judge(connect, &mut asked).inspect_err(|refusal| {
            let event = AuditEvent::new(AuditKind::AuthFailed, clock::now());
            let event = event.code(refusal.code).reason(refusal.message.clone()).address(self.peer.ip());
            self.door.gateway.audit.record(asked.iter().fold(event, AuditEvent::topic));
        });
        let (grant, topic) = verified?;
        Ok((Visitor { gateway: self.door.gateway.clone(), peer: PeerAddress::At(self.peer), grant }, topic))
    }

    fn judge(&self, connect: &Connect, asked: &mut Option<TopicName>) -> Result<(Grant, TopicName), Refusal> {
        let wrong = |message: String| Refusal::new(Code::InvalidParameters, message);
        if let Some(topic) = &connect.topic {
            let topic = TopicName::new(topic).map_err(|error| wrong(format!("`topic` is not acceptable: {error}")))?;
            *asked = Some(topic);
        }
        let missing = || Refusal::new(Code::Unauthorized, "a token is required: `token` in the body of CONNECT");
        let token = connect.token.as_deref().ok_or_else(missing)?;
        let grant = self.door.gateway.verify(token)?;
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

/// What the large first frames of connections may take together, in KiB.
const MAX_STRANGERS_KIB: usize = 64 << 10;

/// What all connections of the door share.
pub(crate) struct FramedDoor {
    pub(super) gateway: Arc<GatewayState>,
    sessions: Arc<SessionTable<Box<str>, SessionLines>>,
    strangers: Arc<Semaphore>,
}

impl FramedDoor {
    pub(super) fn new(gateway: Arc<GatewayState>) -> Self {
        Self { gateway, sessions: Arc::default(), strangers: Arc::new(Semaphore::new(MAX_STRANGERS_KIB)) }
    }

    /// Memory for so many bytes of a connection that uses no session yet, if there is some.
    pub(super) fn room_for(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let kibibytes = u32::try_from(bytes.div_ceil(1024)).ok()?;
        self.strangers.clone().try_acquire_many_owned(kibibytes).ok()
    }

    /// The way into a session, and whose it is.
    pub(super) fn find(&self, id: &str) -> Option<(SessionLines, ParticipantId)> {
        self.sessions.get(&id.into())
    }

    /// Begins a session, which is yet to receive the CONNECT.
    pub(super) fn begin(&self, visitor: &Visitor, topic: &TopicName) -> Result<(Box<str>, SessionLines), Refusal> {
        let Visitor { gateway, grant, .. } = visitor;
        let id: Box<str> = auth::hex(&auth::random::<16>()).into();
        let expires = clock::instant(grant.expires);
        let begun = self.sessions.find_or_begin(visitor, id.clone(), topic, |connection| {
            let undelivered = undelivered(gateway.shutdown.subscribe(), connection.clone());
            let (carrier, way) = LineConnections::new(expires, undelivered);
            let options = FramedOptions {
                me: grant.participant.clone(),
                limits: gateway.config.limits.envelope(),
                session: id.clone(),
                linger: gateway.config.timings.framed_session_timeout,
                version: env!("CARGO_PKG_VERSION"),
            };
            let now = Instant::now();
            // Not the session's id: this stands in every envelope's.
            let dialect = Framed::new(options, doors::stamps(now), now);
            (doors::session(visitor, connection, carrier, dialect, None, doors::admit_once(grant)), way)
        });
        Ok((id, begun?.handle))
    }
}

/// The refusal of an unknown session.
pub(super) fn unknown() -> Refusal {
    Refusal::new(Code::Unauthorized, "there is no such session, or not any more; begin with CONNECT")
}

/// What is said to frames that a session had not heard when it ended.
fn undelivered(shutdown: watch::Receiver<bool>, connection: ConnectionContext) -> Undelivered {
    Box::new(move |frame| {
        let refusal = match *shutdown.borrow() {
            true => Refusal::new(Code::Closing, "the gateway is shutting down"),
            false => unknown(),
        };
        connection.refused(refusal.code);
        refuse(frame, &refusal, clock::now())
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::StreamExt;

    use super::*;
    use crate::audit::{Audit, AuditRotation};
    use crate::scratch::Scratch;

    /// The session ends before it has read a frame; the peer is answered all the same.
    #[tokio::test]
    async fn a_frame_that_its_session_did_not_read_is_a_refusal_like_any_other() {
        let scratch = Scratch::new();
        let trail = scratch.path().join("audit.log");
        let audit = Audit::open(&trail, AuditRotation::default(), clock::now());
        let connection = ConnectionContext::of_alice(audit.expect("a trail"));
        let (meters, audit) = (connection.meters.clone(), connection.audit.clone());
        let stop = watch::Sender::new(false);
        for (code, stopping) in [("unauthorized", false), ("closing", true)] {
            stop.send_replace(stopping);
            let expires = Instant::now() + Duration::from_secs(3600);
            let (lines, way) = LineConnections::new(expires, undelivered(stop.subscribe(), connection.clone()));
            let (line, mut answers) = way.open().await.expect("open");
            line.send(b"not even a frame".as_slice().into()).await.expect("sent");
            drop(lines);
            let answer = answers.next().await.expect("an answer").expect("not cut off");
            assert!(String::from_utf8_lossy(&answer).contains(code), "{answer:?}");
            let counted = format!("salon_refusals_total{{code=\"{code}\"}} 1\n");
            assert!(meters.render().contains(&counted), "{}", meters.render());
        }
        audit.close();
        let trail = std::fs::read_to_string(trail).expect("the trail");
        let refusals: Vec<_> = trail.lines().filter(|line| line.contains(r#""participant":"alice""#)).collect();
        assert_eq!(refusals.len(), 2, "{trail}");
    }
}
