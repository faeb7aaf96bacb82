//! One request: whose it is, which session it belongs to, and what becomes of it.

use std::time::Duration;

use axum::body::HttpBody as _;
use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use salon_dialects::mcp::door::{Body, DoorScope, Listen, McpOpening, PollBody, Post, PostRoute};
use salon_dialects::mcp::draft::Interpreter;
use salon_mcp::{Era, Revision};
use salon_protocol::{Code, ParticipantId, Refusal, TopicName};

use super::super::sessions::Visitor;
use super::super::{accepts_events, is_date, is_json, last_event_id, read_text};
use super::door::{Lifetime, McpDoor, McpSessionKey};
use super::refusals::McpRejection;
use crate::auth::AuthError;
use crate::carriers::{ExchangeOutcome, Inbox, RequestAccess, StreamRequest};
use crate::clock;
use crate::gateway::public_path;
use crate::http::{Incoming, Query};

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";

/// How often a request of the stateless revision is tried with another session, when the one there was has just ended.
const MAX_TRIES: usize = 3;

/// How long a poll waits that does not say, and the longest that one may.
const DEFAULT_WAIT_SECONDS: u64 = 25;
const MAX_WAIT_SECONDS: u64 = 60;

/// What an address names, which may be nothing: a session knows where it belongs.
struct AddressedRoom {
    topic: Option<TopicName>,
    scope: Option<DoorScope>,
}

impl AddressedRoom {
    /// From the path, or where that has no topic, from the query.
    fn read(incoming: &Incoming) -> Result<Self, McpRejection> {
        let Some(topic) = incoming.path_topic()? else {
            let participant: Option<ParticipantId> = incoming.query.name("participant")?;
            return Ok(Self { topic: incoming.query.name("topic")?, scope: participant.map(DoorScope::One) });
        };
        let scope = incoming.path_participant()?.map_or(DoorScope::Room, DoorScope::One);
        Ok(Self { topic: Some(topic), scope: Some(scope) })
    }
}

/// A request whose token is good.
pub(crate) struct McpRequest {
    door: McpDoor,
    visitor: Visitor,
    addressed: AddressedRoom,
    query: Query,
    access: RequestAccess,
}

/// Messages, and the session they are for where they name one or begin one.
type RoutedRequest = (Option<Inbox<McpOpening>>, StreamRequest<McpOpening>);

/// A session that exists.
struct SessionRef {
    id: Box<str>,
    inbox: Inbox<McpOpening>,
}

impl FromRequestParts<McpDoor> for McpRequest {
    type Rejection = McpRejection;

    async fn from_request_parts(parts: &mut Parts, door: &McpDoor) -> Result<Self, McpRejection> {
        let incoming = Incoming::from_request_parts(parts, door).await?;
        let addressed = AddressedRoom::read(&incoming)?;
        let credentials = incoming.credentials(&parts.headers, addressed.topic.as_ref());
        let grant = credentials.for_request(parts.method == Method::GET).await.map_err(McpRejection::Problem)?;
        let access = RequestAccess::new(clock::instant(grant.expires), incoming.gateway.visit(&grant));
        incoming.note(&grant, addressed.topic.as_ref().or(grant.only_topic()));
        let Incoming { gateway, peer, query, .. } = incoming;
        Ok(Self { door: door.clone(), visitor: Visitor { gateway, peer, grant }, addressed, query, access })
    }
}

impl McpRequest {
    /// Where somebody belongs who has no session.
    fn session_key(&self) -> Result<McpSessionKey, McpRejection> {
        let Visitor { grant, .. } = &self.visitor;
        let topic = self.addressed.topic.as_ref().or(grant.only_topic());
        let topic = topic.ok_or_else(|| McpRejection::bad("`topic` is missing, and the token opens more than one"))?;
        let scope = self.addressed.scope.clone().unwrap_or(DoorScope::Room);
        Ok(McpSessionKey { participant: grant.participant.clone(), topic: topic.clone(), scope })
    }

    /// Who has come, and where to.
    pub(super) fn newcomer(self) -> Result<(Visitor, McpSessionKey), McpRejection> {
        let session_key = self.session_key()?;
        Ok((self.visitor, session_key))
    }

    /// The id of the session the request says it belongs to.
    fn session_id(&self, headers: &HeaderMap) -> Result<Option<Box<str>>, McpRejection> {
        match headers.get(SESSION) {
            // An id that is not text is unknown here.
            Some(value) => value.to_str().map(|id| Some(id.into())).map_err(|_| McpRejection::no_session()),
            None => Ok(self.query.get("sessionId").map(Into::into)),
        }
    }

    /// The session of an id, if it is this participant's and this address is its own. All else is as if there were none.
    fn find(&self, id: Box<str>) -> Result<SessionRef, McpRejection> {
        let AddressedRoom { topic, scope } = &self.addressed;
        let found = self.door.find(&id, &self.visitor.grant, topic.as_ref(), scope.as_ref());
        let inbox = found.ok_or_else(McpRejection::no_session)?;
        Ok(SessionRef { id, inbox })
    }

    /// `GET`: a stream of events, of a session that exists or of a new one.
    pub(super) async fn listen(self, headers: &HeaderMap) -> Result<Response, McpRejection> {
        let Visitor { gateway, grant, .. } = &self.visitor;
        gateway.reads.take(&grant.participant)?;
        self.check_version(headers)?;
        if !accepts_events(headers) {
            return Err(McpRejection::wrong(StatusCode::NOT_ACCEPTABLE, "`Accept` must allow text/event-stream"));
        }
        let (inbox, listen) = match self.session_id(headers)? {
            Some(id) => (self.find(id)?.inbox, Listen { after: last_event_id(headers), endpoint: None }),
            None => {
                let (id, inbox) = self.door.begin(&self.visitor, &self.session_key()?, Lifetime::Stream)?;
                let before =
                    self.visitor.gateway.config.http.public_url.as_deref().map(public_path).unwrap_or_default();
                let endpoint = Some(format!("{before}/message?sessionId={id}").into());
                (inbox, Listen { after: None, endpoint })
            }
        };
        self.ask(&inbox, StreamRequest { opening: McpOpening::Listen(listen), is_message: false }).await
    }

    /// `POST`: messages, of a session that exists, of a new one, or of none.
    pub(super) async fn post(self, request: Request) -> Result<Response, McpRejection> {
        match self.route(request).await.map_err(|rejection| self.counted(rejection))? {
            (Some(inbox), asked) => self.ask(&inbox, asked).await,
            (None, asked) => self.ask_shared(asked).await,
        }
    }

    /// The session that messages are for; `None` for whichever session hears them.
    async fn route(&self, request: Request) -> Result<RoutedRequest, McpRejection> {
        let (headers, text) = self.read(request).await?;
        let body = Body::read(version(&headers), &text).map_err(McpRejection::Fault)?;
        let inbox = match body.route {
            PostRoute::Modern => None,
            PostRoute::Initialize => Some(match self.session_id(&headers)? {
                Some(id) => self.find(id)?.inbox,
                None => self.door.begin(&self.visitor, &self.session_key()?, Lifetime::Session)?.1,
            }),
            PostRoute::Legacy => {
                self.check_version(&headers)?;
                Some(self.find(self.session_id(&headers)?.ok_or_else(missing_session)?)?.inbox)
            }
        };
        Ok((inbox, post(&headers, body, false)))
    }

    /// What reaches no session spends the rate of its sender like a message: what is said instead, where there was too much.
    fn counted(&self, rejection: McpRejection) -> McpRejection {
        let Visitor { gateway, grant, .. } = &self.visitor;
        match gateway.rooms.count_refused(&grant.participant) {
            Ok(()) => rejection,
            Err(wait) => gateway.rooms.too_many(wait).into(),
        }
    }

    /// `POST /message`: messages that are answered on the session's stream.
    pub(super) async fn message(self, request: Request) -> Result<Response, McpRejection> {
        let routed = async {
            let id = self.session_id(request.headers())?.ok_or_else(missing_session)?;
            let inbox = self.find(id)?.inbox;
            let (headers, text) = self.read(request).await?;
            let body = Body::read(version(&headers), &text).map_err(McpRejection::Fault)?;
            Ok((inbox, post(&headers, body, true)))
        };
        let (inbox, asked) = routed.await.map_err(|rejection| self.counted(rejection))?;
        self.ask(&inbox, asked).await
    }

    /// `POST …/poll`: messages or none, answered with what there is to be said, or will be in a while.
    pub(super) async fn poll(self, request: Request) -> Result<Response, McpRejection> {
        let (inbox, asked) = self.route_poll(request).await.map_err(|rejection| self.counted(rejection))?;
        self.ask(&inbox, asked).await
    }

    async fn route_poll(
        &self,
        request: Request,
    ) -> Result<(Inbox<McpOpening>, StreamRequest<McpOpening>), McpRejection> {
        let wait = Duration::from_secs(self.wait()?);
        let id = self.session_id(request.headers())?;
        let found = id.map(|id| self.find(id)).transpose()?;
        // A body that is empty is of no type.
        let is_empty = request.body().is_end_stream();
        let (_, text) = if is_empty { self.read_text(request).await? } else { self.read(request).await? };
        let body = PollBody::read(&text);
        let inbox = match (found, &body) {
            (Some(found), _) => found.inbox,
            (None, Ok(body)) if Interpreter::starts_by_poll(body) => {
                self.door.begin(&self.visitor, &self.session_key()?, Lifetime::Polls)?.1
            }
            (None, _) => return Err(McpRejection::no_poll()),
        };
        Ok((inbox, StreamRequest { opening: McpOpening::Poll(wait, body), is_message: true }))
    }

    /// How many seconds a poll waits.
    fn wait(&self) -> Result<u64, McpRejection> {
        let Some(wait) = self.query.get("wait") else { return Ok(DEFAULT_WAIT_SECONDS) };
        let is_number = !wait.is_empty() && wait.bytes().all(|byte| byte.is_ascii_digit());
        let wrong = || {
            McpRejection::bad(format!(
                "`wait` must be a whole number of seconds; at most {MAX_WAIT_SECONDS} are waited"
            ))
        };
        // What is too long to be read is longer than is waited.
        let seconds = is_number.then(|| wait.parse().unwrap_or(MAX_WAIT_SECONDS)).ok_or_else(wrong)?;
        Ok(seconds.min(MAX_WAIT_SECONDS))
    }

    /// `DELETE`: the end of a session.
    pub(super) async fn delete(self, headers: &HeaderMap) -> Result<Response, McpRejection> {
        self.check_version(headers)?;
        let id = self.session_id(headers)?.ok_or_else(missing_session)?;
        let SessionRef { id, inbox } = self.find(id)?;
        self.door.remove(&id);
        inbox.dismiss().await;
        Ok(StatusCode::NO_CONTENT.into_response())
    }

    /// The headers and the body, which is text in JSON.
    async fn read(&self, request: Request) -> Result<(HeaderMap, Box<str>), McpRejection> {
        if !is_json(request.headers()) {
            return Err(McpRejection::wrong(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "`Content-Type` must be application/json",
            ));
        }
        self.read_text(request).await
    }

    async fn read_text(&self, request: Request) -> Result<(HeaderMap, Box<str>), McpRejection> {
        let (parts, body) = request.into_parts();
        let text = read_text(&self.visitor.gateway, &self.visitor.grant, body).await?;
        Ok((parts.headers, text))
    }

    /// Sessions are for the revisions that have them.
    fn check_version(&self, headers: &HeaderMap) -> Result<(), McpRejection> {
        let Some(version) = version(headers) else { return Ok(()) };
        match Revision::parse(version).map(Revision::era) {
            Some(Era::Legacy) => Ok(()),
            Some(Era::Modern) => Err(McpRejection::Method("POST")),
            None if is_date(version) && version > Revision::MODERN.date() => Err(McpRejection::Method("POST")),
            None => Err(McpRejection::bad("`MCP-Protocol-Version` names no revision that is known here")),
        }
    }

    async fn ask(&self, inbox: &Inbox<McpOpening>, asked: StreamRequest<McpOpening>) -> Result<Response, McpRejection> {
        match inbox.ask(asked, self.access.clone()).await {
            ExchangeOutcome::Answered(response) => Ok(response),
            ExchangeOutcome::Undelivered(_) | ExchangeOutcome::Ended => Err(self.ended()),
            ExchangeOutcome::Expired => Err(McpRejection::Problem(AuthError::Expired.into())),
            ExchangeOutcome::Busy => Err(busy()),
        }
    }

    /// A request of the stateless revision: whichever session hears it.
    async fn ask_shared(&self, mut asked: StreamRequest<McpOpening>) -> Result<Response, McpRejection> {
        let session_key = self.session_key().map_err(|rejection| self.counted(rejection))?;
        for _ in 0..MAX_TRIES {
            let inbox = self.door.shared(&self.visitor, &session_key).map_err(|no| self.counted(no.into()))?;
            asked = match inbox.ask(asked, self.access.clone()).await {
                ExchangeOutcome::Answered(response) => return Ok(response),
                ExchangeOutcome::Undelivered(asked) => asked,
                ExchangeOutcome::Ended => break,
                ExchangeOutcome::Expired => return Err(McpRejection::Problem(AuthError::Expired.into())),
                ExchangeOutcome::Busy => return Err(busy()),
            };
        }
        Err(Refusal::new(Code::Closing, "the request was not answered before the gateway let it go; try again").into())
    }

    /// What to say when a session has ended without an answer.
    fn ended(&self) -> McpRejection {
        if *self.visitor.gateway.shutdown.borrow() {
            return Refusal::new(Code::Closing, "the gateway is shutting down").into();
        }
        McpRejection::no_session()
    }
}

fn busy() -> McpRejection {
    Refusal::new(Code::RateLimited, "too many requests of this session wait for their answers").into()
}

fn missing_session() -> McpRejection {
    McpRejection::bad("`Mcp-Session-Id` is missing; begin with `initialize`")
}

fn version(headers: &HeaderMap) -> Option<&str> {
    // A header that is no text names no revision either.
    headers.get(VERSION).map(|value| value.to_str().unwrap_or_default())
}

/// A POST as the grammar sees it.
fn post(headers: &HeaderMap, body: Body, apart: bool) -> StreamRequest<McpOpening> {
    let own = headers.iter().filter(|(name, _)| name.as_str().starts_with("mcp-"));
    let told = own.map(|(name, value)| (name.as_str().into(), String::from_utf8_lossy(value.as_bytes()).into()));
    let opening = McpOpening::Post(Post { body: Ok(body), headers: told.collect(), apart });
    StreamRequest { opening, is_message: true }
}
