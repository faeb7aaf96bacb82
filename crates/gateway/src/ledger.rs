//! What one connection does, as the meters count it and the audit trail keeps it.

use std::net::IpAddr;
use std::sync::Arc;

use salon_protocol::{Code, ParticipantId, TopicName};
use salon_rooms::Happening;

use crate::audit::{Audit, AuditEvent, AuditKind};
use crate::auth::Visit;
use crate::clock;
use crate::meters::Meters;
use crate::nodes::Nodes;
use crate::stamps::ConnectionStamps;

/// One connection's ledger.
#[derive(Clone)]
pub(crate) struct Ledger {
    pub(crate) meters: Meters,
    pub(crate) audit: Audit,
    pub(crate) participant: ParticipantId,
    pub(crate) topic: TopicName,
    pub(crate) address: IpAddr,
    /// What its entries are stamped with.
    pub(crate) stamps: Arc<ConnectionStamps>,
    /// The sign-in it stands on, where it stands on one.
    pub(crate) visit: Option<Arc<Visit>>,
    /// The gateways of the log, where it can have several.
    pub(crate) nodes: Option<Arc<Nodes>>,
}

impl Ledger {
    /// Waits for the end of the sign-in that the connection stands on: for ever, where it stands on none.
    pub(crate) async fn signed_out(&self) {
        match &self.visit {
            Some(visit) => visit.ended().await,
            None => std::future::pending().await,
        }
    }

    /// The connection was told no.
    pub(crate) fn refused(&self, code: Code) {
        self.meters.refused(code);
        self.told_no(code);
    }

    /// The same where the no is an HTTP answer, which is counted with all others.
    pub(crate) fn told_no(&self, code: Code) {
        self.record(AuditKind::Refusal, |event| event.code(code));
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

    /// Keeps something in the audit trail.
    pub(crate) fn record(&self, kind: AuditKind, more: impl FnOnce(AuditEvent) -> AuditEvent) {
        let event = AuditEvent::new(kind, clock::now());
        self.audit.record(more(event.participant(&self.participant).topic(&self.topic).address(self.address)));
    }
}
