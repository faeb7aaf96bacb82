//! A request in the room that has no answer yet: what it is for, how far it has come, and how it is paused while a modern client is asked.

use std::sync::Arc;

use salon_mcp::Era;
use salon_mcp::rounds::InputRounds;
use salon_protocol::{Draft, EnvelopeId, ParticipantId, Refusal};
use serde_json::value::RawValue;

use super::lists::PagedList;
use super::{ClientProfile, DoorRequest};

/// A request in the room.
#[derive(Debug)]
pub(super) struct DoorCall {
    pub(super) to: ParticipantId,
    pub(super) method: Box<str>,
    /// As the client's era has them. `None` once they are not needed again.
    pub(super) params: Option<Box<RawValue>>,
    pub(super) profile: Arc<ClientProfile>,
    pub(super) purpose: CallPurpose,
    pub(super) state: CallStage,
    /// A request of the door's own as it was sent, until the room has stored it.
    pub(super) draft: Option<Box<Draft>>,
}

#[derive(Debug, Clone)]
pub(super) enum CallStage {
    /// For a handshake, or for its time to come again.
    Waiting,
    /// It is a wait that the gateway sees to ([`super::waits`]). In the room it would be of this era.
    AtGateway(Era),
    /// The room refused it for now. It may have been stored all the same: it is sent again as it was, and an answer that comes is one.
    Refused(EnvelopeId, Era, Refusal),
    /// It was sent, in an era.
    Sent(EnvelopeId, Era),
}

impl CallStage {
    /// The envelope that has it in the room, or may have it there.
    pub(super) fn envelope(&self) -> Option<&EnvelopeId> {
        match self {
            Self::Waiting | Self::AtGateway(_) => None,
            Self::Refused(envelope, ..) | Self::Sent(envelope, _) => Some(envelope),
        }
    }
}

/// What a request is for.
#[derive(Debug)]
pub(super) enum CallPurpose {
    Handshake,
    /// A page of a list.
    List(Box<PagedList>),
    /// Its answer changes nothing.
    Duty,
    /// A modern participant's part in a subscription of the client's.
    Listen(u64),
    /// The client asked.
    Client(Box<ClientRequest>),
}

/// What is kept of a request of the client's.
#[derive(Debug)]
pub(super) struct ClientRequest {
    pub(super) request: DoorRequest,
    pub(super) token: Option<Box<RawValue>>,
    /// A resource as the client calls it, and as its owner does.
    pub(super) uri: Option<(String, String)>,
    /// Where the client is of the modern era and must be asked something.
    pub(super) pause: Pause,
    /// Where the participant is of the modern era and the client is not, what it has asked back.
    pub(super) rounds: InputRounds,
}

impl ClientRequest {
    pub(super) fn new(request: DoorRequest, token: Option<Box<RawValue>>, uri: Option<(String, String)>) -> Self {
        Self { request, token, uri, pause: Pause::default(), rounds: InputRounds::default() }
    }
}

/// Where a call of a modern client stands that must be asked something.
#[derive(Debug, Default)]
pub(super) struct Pause {
    /// What the client gives back to have its call again: set while it is not here.
    pub(super) state: Option<Box<str>>,
    /// What became of the call meanwhile, without an id.
    pub(super) outcome: Option<Box<RawValue>>,
    /// The participant was answered for good, and wants the call made again.
    pub(super) is_repeated: bool,
}

impl Pause {
    pub(super) fn is_parked(&self) -> bool {
        self.state.is_some()
    }

    /// Whether the participant still works on the call.
    pub(super) fn is_under_way(&self) -> bool {
        self.outcome.is_none() && !self.is_repeated
    }
}

/// How a call goes on whose client has come back.
#[derive(Debug)]
pub(super) enum ResumedCall {
    /// The participant still works on it.
    UnderWay,
    /// It ended meanwhile, with this message, which has no id.
    Ended(Box<RawValue>),
    /// The participant wants it made again.
    Repeated,
}

impl DoorCall {
    pub(super) fn new(
        to: &ParticipantId,
        method: impl Into<Box<str>>,
        params: Option<Box<RawValue>>,
        profile: Arc<ClientProfile>,
        purpose: CallPurpose,
    ) -> Self {
        let (to, method) = (to.clone(), method.into());
        Self { to, method, params, profile, purpose, state: CallStage::Waiting, draft: None }
    }

    /// The client's request, where it is one.
    pub(super) fn client(&self) -> Option<&ClientRequest> {
        match &self.purpose {
            CallPurpose::Client(asked) => Some(asked),
            _ => None,
        }
    }

    pub(super) fn is_client(&self) -> bool {
        self.client().is_some()
    }

    /// The envelope that has it in the room, or may have it there.
    pub(super) fn envelope(&self) -> Option<&EnvelopeId> {
        self.state.envelope()
    }

    /// The era that it is answered in, where it is in the room or the gateway sees to it.
    pub(super) fn sent_in(&self) -> Option<Era> {
        match self.state {
            CallStage::Sent(_, era) | CallStage::AtGateway(era) => Some(era),
            _ => None,
        }
    }

    /// Why the room refused it for now.
    pub(super) fn refusal(&self) -> Option<&Refusal> {
        match &self.state {
            CallStage::Refused(.., refusal) => Some(refusal),
            _ => None,
        }
    }
}
