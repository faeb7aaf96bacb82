//! How a bridge enters its ghosts: messages to the gateway that are not stored. What comes of them everybody sees as presence.

use std::sync::Arc;
use std::time::Instant;

use salon_control::GhostGrant;
use salon_protocol::system::{self, WelcomeGhosts};
use salon_protocol::{Code, Draft, EnvelopeId, Kind, Participant, ParticipantId, ParticipantKind, Refusal};
use serde::Deserialize;

use super::Mcpx;

/// The longest display name, and the longest reason of a leave.
const MAX_CHARS: usize = 256;

/// What a bridge asks of the gateway.
#[derive(Debug, Clone, PartialEq)]
pub struct GhostQuery {
    /// The envelope that asks.
    pub regarding: EnvelopeId,
    /// What for.
    pub request: GhostRequest,
}

/// What is to become of a ghost.
#[derive(Debug, Clone, PartialEq)]
pub enum GhostRequest {
    /// It enters.
    Enter {
        /// Its id.
        id: ParticipantId,
        /// A name for people to read.
        name: Option<String>,
        /// What it is.
        kind: Option<ParticipantKind>,
    },
    /// It leaves.
    Leave {
        /// Its id.
        id: ParticipantId,
        /// Why, for the others to see.
        reason: Option<String>,
    },
}

/// What became of a query.
#[derive(Debug, Clone)]
pub struct GhostAnswer {
    /// The envelope that asked.
    pub regarding: EnvelopeId,
    /// The outcome.
    pub outcome: Result<GhostOutcome, Refusal>,
}

/// What has become of a ghost.
#[derive(Debug, Clone)]
pub enum GhostOutcome {
    /// It is present, as everybody sees it.
    Entered(Arc<Participant>),
    /// It does not sit here any more.
    Left(ParticipantId),
}

impl GhostQuery {
    /// Reads a message about a ghost; `None` where it is about something else.
    pub(super) fn read(draft: &Draft) -> Option<Result<Self, Refusal>> {
        #[derive(Deserialize)]
        struct Head {
            event: Option<String>,
            r#type: Option<String>,
        }
        let envelope = draft.envelope();
        if envelope.kind() != Kind::System {
            return None;
        }
        let head: Head = serde_json::from_str(envelope.payload()).ok()?;
        let request = match head.event.or(head.r#type)?.as_str() {
            "ghost.enter" => GhostRequest::read_enter(envelope.payload()),
            "ghost.leave" => GhostRequest::read_leave(envelope.payload()),
            _ => return None,
        };
        let is_for_host = envelope.to().iter().all(ParticipantId::is_host);
        let addressed = is_for_host.then_some(()).ok_or_else(|| invalid("it is for `system:gateway` alone"));
        Some(addressed.and(request).map(|request| Self { regarding: envelope.id().clone(), request }))
    }
}

impl GhostRequest {
    fn read_enter(payload: &str) -> Result<Self, Refusal> {
        #[derive(Deserialize)]
        struct Enter {
            id: ParticipantId,
            name: Option<String>,
            kind: Option<ParticipantKind>,
        }
        let Enter { id, name, kind } = serde_json::from_str(payload).map_err(invalid)?;
        check_text("name", name.as_deref())?;
        Ok(Self::Enter { id, name, kind })
    }

    fn read_leave(payload: &str) -> Result<Self, Refusal> {
        #[derive(Deserialize)]
        struct Leave {
            id: ParticipantId,
            reason: Option<String>,
        }
        let Leave { id, reason } = serde_json::from_str(payload).map_err(invalid)?;
        check_text("reason", reason.as_deref())?;
        Ok(Self::Leave { id, reason })
    }
}

fn check_text(name: &str, text: Option<&str>) -> Result<(), Refusal> {
    let fits = |text: &str| text.chars().count() <= MAX_CHARS && !text.chars().any(char::is_control);
    if text.is_none_or(fits) {
        return Ok(());
    }
    Err(invalid(format_args!("`{name}` must have at most {MAX_CHARS} characters, none of them a control character")))
}

fn invalid(why: impl std::fmt::Display) -> Refusal {
    Refusal::new(Code::InvalidParameters, format!("the message about a ghost is not what it must be: {why}"))
}

/// What a welcome says to a bridge.
pub(super) fn describe(grant: &GhostGrant) -> WelcomeGhosts {
    WelcomeGhosts {
        acts_for: grant.namespaces.iter().map(ToString::to_string).collect(),
        max: grant.max,
        kinds: grant.kinds.clone(),
        call: grant.calls,
    }
}

impl Mcpx {
    /// Only a bridge may act for others. One of a bridge's ghosts enters nobody.
    pub(super) fn check_bridge(&self, draft: &Draft, query: GhostQuery) -> Result<GhostQuery, Refusal> {
        if self.ghosts.is_none() {
            return Err(Refusal::new(Code::Forbidden, "your token acts for nobody: it has no `acts_for`"));
        }
        match &self.participant {
            Some(bridge) if bridge.id == *draft.envelope().from() => Ok(query),
            _ => Err(Refusal::new(Code::FromMismatch, "only the bridge itself enters its ghosts and lets them leave")),
        }
    }

    pub(super) fn tell_ghost(&mut self, GhostAnswer { regarding, outcome }: GhostAnswer, now: Instant) {
        let frame = match &outcome {
            Ok(GhostOutcome::Entered(ghost)) => {
                self.compose(Kind::System, Some(&regarding), system::GhostEntered::new(ghost), now)
            }
            Ok(GhostOutcome::Left(id)) => self.compose(Kind::System, Some(&regarding), system::GhostLeft::new(id), now),
            Err(refusal) => return self.refuse(refusal, now),
        };
        self.send(frame);
    }
}
