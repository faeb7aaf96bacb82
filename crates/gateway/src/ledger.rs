//! What one connection does, as the meters count it and the audit trail keeps it.

use std::net::IpAddr;

use salon_protocol::{Code, ParticipantId, TopicName};
use salon_rooms::Happening;

use crate::audit::{Audit, AuditEvent, AuditKind};
use crate::clock;
use crate::meters::Meters;

/// One connection's ledger.
#[derive(Clone)]
pub(crate) struct Ledger {
    pub(crate) meters: Meters,
    pub(crate) audit: Audit,
    pub(crate) participant: ParticipantId,
    pub(crate) topic: TopicName,
    pub(crate) address: IpAddr,
}

impl Ledger {
    /// The connection was told no.
    pub(crate) fn refused(&self, code: Code) {
        self.meters.refused(code);
        self.record(AuditKind::Refusal, |event| event.code(code));
    }

    /// Entries are on their way to the connection's socket.
    pub(crate) fn delivered(&self, happenings: &[Happening]) {
        for entries in happenings.iter().map(Happening::entries) {
            self.meters.delivered(entries);
        }
    }

    /// Keeps something in the audit trail.
    pub(crate) fn record(&self, kind: AuditKind, more: impl FnOnce(AuditEvent) -> AuditEvent) {
        let event = AuditEvent::new(kind, clock::now());
        self.audit.record(more(event.participant(&self.participant).topic(&self.topic).address(self.address)));
    }
}
