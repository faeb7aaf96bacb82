//! What participants say that they are doing: storing it, and ending what has a time.
//!
//! Which statuses there are follows from the log ([`salon_log::Fold`]). Every node writes that the time of one is over; the id of that entry
//! makes it one.

use salon_log::AppendError;
use salon_protocol::{
    Code, Compose, Envelope, EnvelopeId, Kind, Participant, ParticipantId, Presence, PresenceEvent, PresenceStatus,
    Refusal,
};

use crate::host_access::HostAccess;
use crate::room::{Room, now, unwritable};

/// A change of a status as an entry: which id it gets and what it is about.
pub struct StatusNotice<'a> {
    /// The id of the entry.
    pub id: &'a EnvelopeId,
    /// The request that asks for it; where a status ends, the entry that says it.
    pub about: &'a EnvelopeId,
}

impl StatusNotice<'_> {
    fn envelope(&self, participant: Participant) -> Envelope {
        Compose {
            id: self.id.as_str(),
            ts: now(),
            from: &ParticipantId::host(),
            to: &[],
            kind: Kind::Presence,
            correlation_id: Some(self.about.as_str()),
            payload: Presence { event: PresenceEvent::Status, participant, reason: None },
        }
        .envelope()
    }
}

impl Room {
    /// Ends the statuses whose time is over. Says whether all of that is done.
    pub(crate) async fn end_statuses(&self) -> bool {
        let ended = self.attendance().fold().ended_statuses(now());
        let mut is_done = true;
        for (who, said_by) in ended {
            let id = self.notice_id("status ended", &said_by);
            let Some(participant) = self.attendance().fold().participant(&who).cloned() else { continue };
            let notice = StatusNotice { id: &id, about: &said_by }.envelope((*participant).clone());
            is_done &= self.is_settled(self.log.append(&self.topic, notice).await);
        }
        is_done
    }
}

impl HostAccess {
    /// The status of a participant, and the entry that says it.
    pub fn status_of(&self, id: &ParticipantId) -> Option<(PresenceStatus, EnvelopeId)> {
        let attendance = self.room.attendance();
        let record = attendance.fold().status_of(id)?;
        Some((record.status.clone(), record.entry.envelope.id().clone()))
    }

    /// Stores what a participant says that it is doing, and waits until this room has folded it. The same envelope again is stored once.
    pub async fn set_status(
        &self,
        who: &ParticipantId,
        status: Option<PresenceStatus>,
        notice: StatusNotice<'_>,
    ) -> Result<(), Refusal> {
        let Some(participant) = self.participant(who) else {
            return Err(Refusal::new(
                Code::NotFound,
                format!("`{who}` is not in this room, so nobody sees its status"),
            ));
        };
        let is_end = status.is_none();
        let envelope = notice.envelope(Participant { status, ..(*participant).clone() });
        let appended = match self.room.log.append(&self.room.topic, envelope).await {
            // It has ended meanwhile, or this was stored before a restart.
            Err(AppendError::Stale) if is_end => return Ok(()),
            Err(AppendError::IdConflict) => return Ok(()),
            appended => appended.map_err(|error| unwritable(&error))?,
        };
        if self.room.folded(appended.entry.position.offset).await { Ok(()) } else { Err(crate::room::closed()) }
    }
}
