//! One request over HTTP: whose it is, what becomes of it, and how it is refused: as an error message of the protocol, unless nobody was let in.

use std::time::Instant;

use axum::body::Body;
use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use salon_dialects::machine::{self, MachineMessage, MachineOpening, Terms, UnverifiedMessage};
use salon_protocol::{Code, EnvelopeId, ParticipantId, Refusal, TopicName};

use super::super::sessions::{OpenSession, Visitor};
use super::super::{accepts_events, is_json, last_event_id, read_text};
use super::door::{MachineDoor, MachineSessionKey};
use super::terms;
use crate::auth::AuthError;
use crate::carriers::{ExchangeOutcome, RequestAccess, StreamRequest};
use crate::clock;
use crate::http::{Incoming, Problem, RefusedWith, invalid};

/// How often a request is tried with another session, when the one there was has just ended.
const MAX_TRIES: usize = 3;

/// A request whose token is good.
pub(crate) struct MachineRequest {
    door: MachineDoor,
    visitor: Visitor,
    session_key: MachineSessionKey,
    terms: Terms,
    access: RequestAccess,
}

impl FromRequestParts<MachineDoor> for MachineRequest {
    type Rejection = MachineRejection;

    async fn from_request_parts(parts: &mut Parts, door: &MachineDoor) -> Result<Self, MachineRejection> {
        let incoming = Incoming::from_request_parts(parts, door).await?;
        let topic: Option<TopicName> = incoming.query.name("topic")?;
        let credentials = incoming.credentials(&parts.headers, topic.as_ref());
        let grant = credentials.for_signed_request(parts.method == Method::GET).await?;
        let session_key = session_key(&grant, topic.clone())?;
        incoming.note(&grant, Some(&session_key.topic));
        let terms = terms::terms(&door.gateway, &grant, &session_key.topic, credentials.token());
        let access = RequestAccess::new(clock::instant(grant.expires), door.gateway.visit(&grant));
        let visitor = Visitor { gateway: door.gateway.clone(), peer: incoming.peer, grant };
        Ok(Self { door: door.clone(), visitor, session_key, terms, access })
    }
}

/// Where somebody goes.
pub(super) fn session_key(grant: &crate::auth::Grant, topic: Option<TopicName>) -> Result<MachineSessionKey, Problem> {
    let topic = topic.or_else(|| grant.only_topic().cloned());
    let topic = topic.ok_or_else(|| invalid("`topic` is missing, and the token opens more than one"))?;
    Ok(MachineSessionKey { participant: grant.participant.clone(), topic })
}

impl MachineRequest {
    fn no(&self, refusal: Refusal) -> MachineRejection {
        MachineRejection::Message {
            status: machine::status(refusal.code),
            refusal,
            to: self.session_key.participant.clone(),
        }
    }

    /// `POST`: a message.
    pub(super) async fn post(self, request: Request) -> Result<Response, MachineRejection> {
        let Visitor { gateway, grant, .. } = &self.visitor;
        if let Some(wait) = self.door.paused(&grant.participant, Instant::now()) {
            return Err(self.no(gateway.rooms.too_many(wait)));
        }
        if !is_json(request.headers()) {
            let told = "`Content-Type` must be application/json";
            let mut no = self.no(self.counted(Refusal::new(Code::InvalidParameters, told)));
            if let MachineRejection::Message { status, refusal, .. } = &mut no
                && refusal.code == Code::InvalidParameters
            {
                *status = StatusCode::UNSUPPORTED_MEDIA_TYPE.as_u16();
            }
            return Err(no);
        }
        let message = self.read(request.into_body()).await.map_err(|refusal| self.no(self.counted(refusal)))?;
        // A call has the id of the message that makes it.
        let call = message.id().cloned();
        let opening = MachineOpening::Post(Ok(Box::new(message)));
        self.ask(StreamRequest { opening, is_message: true }, call).await
    }

    /// The message, held to what its sender came with.
    async fn read(&self, body: Body) -> Result<MachineMessage, Refusal> {
        let limits = self.visitor.gateway.config.limits.envelope();
        let text = read_text(&self.visitor.gateway, &self.visitor.grant, body).await?;
        UnverifiedMessage::parse(text, &limits).verify(&self.session_key.participant, Some(&self.terms))
    }

    /// What is refused counts like what is published: what is said instead, where there was too much.
    fn counted(&self, refusal: Refusal) -> Refusal {
        let Visitor { gateway, grant, .. } = &self.visitor;
        let Err(wait) = gateway.rooms.count_refused(&grant.participant) else { return refusal };
        self.door.pause(&grant.participant, wait, Instant::now());
        gateway.rooms.too_many(wait).regarding(refusal.regarding)
    }

    /// `GET`: a stream of events.
    pub(super) async fn listen(self, headers: &HeaderMap) -> Result<Response, MachineRejection> {
        let Visitor { gateway, grant, .. } = &self.visitor;
        gateway.reads.take(&grant.participant).map_err(|refusal| self.no(refusal))?;
        if !accepts_events(headers) {
            let refusal = Refusal::new(Code::InvalidParameters, "`Accept` must allow text/event-stream");
            let status = StatusCode::NOT_ACCEPTABLE.as_u16();
            return Err(MachineRejection::Message { status, refusal, to: self.session_key.participant });
        }
        let opening = MachineOpening::Listen(last_event_id(headers));
        self.ask(StreamRequest { opening, is_message: false }, None).await
    }

    async fn ask(
        &self,
        mut asked: StreamRequest<MachineOpening>,
        call: Option<EnvelopeId>,
    ) -> Result<Response, MachineRejection> {
        for _ in 0..MAX_TRIES {
            let found = self.door.session(&self.visitor, &self.session_key);
            // A stream that reconnects by itself is no message.
            let counted = |refusal| if asked.is_message { self.counted(refusal) } else { refusal };
            let OpenSession { handle, connection } = found.map_err(|refusal| self.no(counted(refusal)))?;
            let _stamped = call.clone().map(|call| connection.stamps.begin_request(call, &self.visitor.grant));
            asked = match handle.ask(asked, self.access.clone()).await {
                ExchangeOutcome::Answered(response) => return Ok(response),
                ExchangeOutcome::Undelivered(asked) => asked,
                ExchangeOutcome::Ended => break,
                ExchangeOutcome::Expired => return Err(Problem::from(AuthError::Expired).into()),
                ExchangeOutcome::Busy => {
                    let told = "too many requests of yours wait for their answers";
                    return Err(self.no(Refusal::new(Code::RateLimited, told)));
                }
            };
        }
        let told = "the message was not answered before the gateway let it go; try again";
        Err(self.no(Refusal::new(Code::Closing, told)))
    }
}

/// An answer that is a no.
pub(crate) enum MachineRejection {
    /// As everywhere.
    Problem(Problem),
    /// As an error message to somebody.
    Message { status: u16, refusal: Refusal, to: ParticipantId },
    /// This address does not take the method; it takes this.
    Method(&'static str),
}

impl From<Problem> for MachineRejection {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl IntoResponse for MachineRejection {
    fn into_response(self) -> Response {
        match self {
            Self::Problem(problem) => problem.into_response(),
            Self::Message { status, refusal, to } => {
                let id = uuid::Uuid::new_v4().to_string();
                let body = machine::error_text(&refusal, &id, clock::now(), Some(&to));
                let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
                let mut response = (status, [(header::CONTENT_TYPE, "application/json")], body).into_response();
                response.extensions_mut().insert(RefusedWith(refusal.code));
                if refusal.code == Code::RateLimited {
                    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
                }
                response
            }
            Self::Method(allowed) => {
                let problem = invalid(format!("this address takes only {allowed}"));
                let mut response = problem.with_status(StatusCode::METHOD_NOT_ALLOWED).into_response();
                response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
                response
            }
        }
    }
}
