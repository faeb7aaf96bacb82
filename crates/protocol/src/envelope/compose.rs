//! Envelopes that the gateway writes itself.

use serde::Serialize;

use super::{Envelope, Kind, PROTOCOL};
use crate::{ParticipantId, SessionId, Timestamp};

/// An envelope the gateway writes itself.
#[derive(Debug, Serialize)]
pub struct Compose<'a, P: Serialize> {
    /// Its id.
    pub id: &'a str,
    /// When it was written.
    pub ts: Timestamp,
    /// Who it is from.
    pub from: &'a ParticipantId,
    /// Whom it names.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub to: &'a [ParticipantId],
    /// What it carries.
    pub kind: Kind,
    /// What it replies to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<&'a str>,
    /// The payload.
    pub payload: P,
}

/// Which sessions of its sender and of its one recipient an envelope names.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Sessions<'a> {
    /// The session of the sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_session: Option<&'a SessionId>,
    /// The session of the recipient.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_session: Option<&'a SessionId>,
}

impl<P: Serialize> Compose<'_, P> {
    /// The envelope's text.
    pub fn text(&self) -> String {
        self.text_between(Sessions::default())
    }

    /// The envelope's text, with the sessions it is from and for.
    pub fn text_between(&self, sessions: Sessions<'_>) -> String {
        #[derive(Serialize)]
        struct Whole<'a, T> {
            protocol: &'static str,
            #[serde(flatten)]
            sessions: Sessions<'a>,
            #[serde(flatten)]
            rest: &'a T,
        }
        let whole = Whole { protocol: PROTOCOL, sessions, rest: self };
        serde_json::to_string(&whole).expect("an envelope has only string keys")
    }

    /// The envelope, accepted: the gateway needs nobody's permission.
    pub fn envelope(&self) -> Envelope {
        Envelope::restore(self.text()).expect("what the gateway composes is well-formed")
    }
}
