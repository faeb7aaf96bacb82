//! The context of one connection: whose it is, what it may do, and where what it does is counted and audited.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use salon_protocol::{Code, ParticipantId, TopicName};
use salon_rooms::Happening;
use tracing::Span;

use crate::audit::{Audit, AuditEvent, AuditKind};
use crate::auth::{RevocationWatch, SignedInVisit};
use crate::clock;
use crate::meters::Meters;
use crate::outages::OutageWatch;
use crate::seat_keeper::SeatKeeper;
use crate::stamps::ConnectionStamps;

/// The span of one accepted connection. Its id is in every log line of the connection, and of the session that begins with it. An error's
/// level, so that no filter takes the id from a line that it lets through.
pub(crate) fn span(peer: impl std::fmt::Display) -> Span {
    static LAST_ID: AtomicU64 = AtomicU64::new(0);
    let id = LAST_ID.fetch_add(1, Ordering::Relaxed) + 1;
    tracing::error_span!("connection", id, %peer)
}

/// Cheap to clone: a session and the table it is found in share one.
#[derive(Clone)]
pub(crate) struct ConnectionContext {
    pub(crate) meters: Meters,
    pub(crate) audit: Audit,
    pub(crate) participant: ParticipantId,
    pub(crate) topic: TopicName,
    pub(crate) address: IpAddr,
    /// What its entries are stamped with.
    pub(crate) stamps: Arc<ConnectionStamps>,
    /// Ends the connection when its token is revoked.
    pub(crate) revocation: RevocationWatch,
    /// The sign-in it stands on, where it stands on one.
    pub(crate) visit: Option<Arc<SignedInVisit>>,
    /// The gateways of the log, where it can have several.
    pub(crate) outages: Option<Arc<OutageWatch>>,
    /// Keeps its seat when it is lost, for one that has asked for that.
    pub(crate) seat_keeper: Option<SeatKeeper>,
}

impl ConnectionContext {
    /// A connection of alice's to `room:a`, with meters of its own.
    #[cfg(test)]
    pub(crate) fn of_alice(audit: Audit) -> Self {
        let alice = ParticipantId::new("alice").expect("an id");
        let grant = crate::auth::Grant::new(alice.clone(), Vec::new(), salon_protocol::Timestamp(0));
        Self {
            meters: Meters::new().expect("meters"),
            audit,
            participant: alice,
            topic: TopicName::new("room:a").expect("a name"),
            address: std::net::Ipv4Addr::LOCALHOST.into(),
            stamps: ConnectionStamps::new(&grant),
            revocation: RevocationWatch::never(&grant),
            visit: None,
            outages: None,
            seat_keeper: None,
        }
    }

    /// Waits until the token is revoked, or the sign-in ends that the connection stands on.
    pub(crate) fn access_ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let (revoked, signed_out) = (self.revocation.ended(), self.visit.as_ref().map(|visit| visit.ended()));
        async move {
            match signed_out {
                None => revoked.await,
                Some(signed_out) => tokio::select! { () = revoked => {}, () = signed_out => {} },
            }
        }
    }

    /// Counts and audits a refusal.
    pub(crate) fn refused(&self, code: Code) {
        let who = Some((&self.participant, Some(&self.topic)));
        record_refusal(&self.meters, &self.audit, code, who, self.address);
    }

    /// Entries are on their way to the connection's socket.
    pub(crate) fn delivered(&self, happenings: &[Happening]) {
        for happening in happenings {
            match happening {
                Happening::Batch(batch) => self.meters.delivered(batch.entries()),
                // Read from the log, or part of a batch: how old it is says nothing about how fast we are.
                Happening::Entry(_) => self.meters.deliveries.increment(1),
                Happening::CallFailed(_) | Happening::Gap => {}
            }
        }
    }

    /// Writes an event to the audit trail.
    pub(crate) fn record(&self, kind: AuditKind, more: impl FnOnce(AuditEvent) -> AuditEvent) {
        let event = AuditEvent::new(kind, clock::now());
        self.audit.record(more(event.participant(&self.participant).topic(&self.topic).address(self.address)));
    }
}

/// What every refusal comes to, whichever door says it: it is counted, and audited once it is known whom it concerns. A request that is
/// not let in is audited as such, where its credentials are verified.
pub(crate) fn record_refusal(
    meters: &Meters,
    audit: &Audit,
    code: Code,
    who: Option<(&ParticipantId, Option<&TopicName>)>,
    address: IpAddr,
) {
    meters.refused(code);
    let Some((participant, topic)) = who else { return };
    let event = AuditEvent::new(AuditKind::Refusal, clock::now()).participant(participant).address(address).code(code);
    audit.record(topic.into_iter().fold(event, AuditEvent::topic));
}
