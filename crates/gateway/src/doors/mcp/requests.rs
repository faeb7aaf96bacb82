//! One request: whose it is, which session it belongs to, and what becomes of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::HttpBody as _;
use axum::extract::{Extension, FromRequestParts, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use salon_dialects::mcp::door::{Route, Scope, route};
use salon_dialects::mcp::draft::Interpreter;
use salon_dialects::mcp::{Era, Revision};
use salon_dialects::{Listen, Opening, Post};
use salon_protocol::{Code, InvalidId, ParticipantId, Refusal, TopicName};

use super::super::{accepts_events, is_date, is_json};
use super::refusals::No;
use super::table::{Life, Place, Visitor};
use crate::carriers::{Asked, Inbox, Outcome};
use crate::clock;
use crate::gateway::{Gateway, MAX_MESSAGE, public_path};
use crate::http::credentials::Asking;
use crate::http::{Peer, Query, body};

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";

/// How often a request of the stateless revision is tried with another session, when the one there was has just ended.
const MAX_TRIES: usize = 3;

/// How long a poll waits that does not say, and the longest that one may.
const WAIT: u64 = 25;
const LONGEST_WAIT: u64 = 60;

/// What an address names, which may be nothing: a session knows where it belongs.
struct Wanted {
    topic: Option<TopicName>,
    scope: Option<Scope>,
}

impl Wanted {
    /// From the path, or where that has no topic, from the query.
    fn read(path: &RawPathParams, query: &Query) -> Result<Self, No> {
        let named = |name: &str| path.iter().find(|(known, _)| *known == name).map(|(_, value)| value);
        let Some(topic) = named("topic") else {
            let participant: Option<ParticipantId> = query.name("participant")?;
            return Ok(Self { topic: query.name("topic")?, scope: participant.map(Scope::One) });
        };
        let wrong =
            |what: &str, error: InvalidId| No::bad(format!("the {what} in the path is not acceptable: {error}"));
        let topic = TopicName::new(topic).map_err(|error| wrong("topic", error))?;
        let participant = named("participant").map(ParticipantId::new).transpose();
        let scope = participant.map_err(|error| wrong("participant", error))?.map_or(Scope::Room, Scope::One);
        Ok(Self { topic: Some(topic), scope: Some(scope) })
    }
}

/// A request whose token is good.
pub(crate) struct Arrived {
    visitor: Visitor,
    wanted: Wanted,
    query: Query,
    expires: Instant,
}

/// A session that exists.
struct Found {
    id: Box<str>,
    inbox: Inbox,
}

impl FromRequestParts<Arc<Gateway>> for Arrived {
    type Rejection = No;

    async fn from_request_parts(parts: &mut Parts, gateway: &Arc<Gateway>) -> Result<Self, No> {
        let path = RawPathParams::from_request_parts(parts, gateway).await;
        let path = path.map_err(|_| No::bad("the path is not UTF-8"))?;
        let unmarked = |_| No::from(Refusal::new(Code::Internal, "nobody knows where this request came from"));
        let Extension(peer) = Extension::<Peer>::from_request_parts(parts, gateway).await.map_err(unmarked)?;
        let query = Query::parse(parts.uri.query())?;
        let wanted = Wanted::read(&path, &query)?;
        let (headers, topic) = (&parts.headers, wanted.topic.as_ref());
        let asking = Asking { gateway, peer: peer.ip(), headers, query: &query, topic };
        let grant = asking.in_passing(parts.method == Method::GET).await.map_err(No::Problem)?;
        let expires = clock::instant(grant.expires);
        Ok(Self { visitor: Visitor { gateway: gateway.clone(), peer, grant }, wanted, query, expires })
    }
}

impl Arrived {
    /// Where somebody belongs who has no session.
    fn place(&self) -> Result<Place, No> {
        let Visitor { grant, .. } = &self.visitor;
        let topic = self.wanted.topic.as_ref().or(grant.only_topic());
        let topic = topic.ok_or_else(|| No::bad("`topic` is missing, and the token opens more than one"))?;
        let scope = self.wanted.scope.clone().unwrap_or(Scope::Room);
        Ok(Place { participant: grant.participant.clone(), topic: topic.clone(), scope })
    }

    /// Who has come, and where to.
    pub(super) fn newcomer(self) -> Result<(Visitor, Place), No> {
        let place = self.place()?;
        Ok((self.visitor, place))
    }

    /// The id of the session the request says it belongs to.
    fn session_id(&self, headers: &HeaderMap) -> Result<Option<Box<str>>, No> {
        match headers.get(SESSION) {
            // An id that is no text is none of ours.
            Some(value) => value.to_str().map(|id| Some(id.into())).map_err(|_| No::no_session()),
            None => Ok(self.query.get("sessionId").map(Into::into)),
        }
    }

    /// The session of an id, if it is this participant's and this address is its own. All else is as if there were none.
    fn find(&self, id: Box<str>) -> Result<Found, No> {
        let Visitor { gateway, grant, .. } = &self.visitor;
        let found = gateway.mcp.find(&id, grant).filter(|(place, _)| {
            self.wanted.topic.as_ref().is_none_or(|topic| *topic == place.topic)
                && self.wanted.scope.as_ref().is_none_or(|scope| *scope == place.scope)
        });
        let (_, inbox) = found.ok_or_else(No::no_session)?;
        Ok(Found { id, inbox })
    }

    /// `GET`: a stream of events, of a session that exists or of a new one.
    pub(super) async fn listen(self, headers: &HeaderMap) -> Result<Response, No> {
        self.check_version(headers)?;
        if !accepts_events(headers) {
            return Err(No::wrong(StatusCode::NOT_ACCEPTABLE, "`Accept` must allow text/event-stream"));
        }
        let (inbox, listen) = match self.session_id(headers)? {
            Some(id) => {
                let after = headers.get("last-event-id").and_then(|value| value.to_str().ok()).map(Into::into);
                (self.find(id)?.inbox, Listen { after, endpoint: None })
            }
            None => {
                let (id, inbox) = self.visitor.gateway.mcp.begin(&self.visitor, self.place()?, Life::Stream)?;
                let before =
                    self.visitor.gateway.config.http.public_url.as_deref().map(public_path).unwrap_or_default();
                let endpoint = Some(format!("{before}/message?sessionId={id}").into());
                (inbox, Listen { after: None, endpoint })
            }
        };
        self.ask(&inbox, Asked { opening: Opening::Listen(listen), text: None }).await
    }

    /// `POST`: messages, of a session that exists, of a new one, or of none.
    pub(super) async fn post(self, request: Request) -> Result<Response, No> {
        let (headers, text) = self.read(request).await?;
        let opening = post(&headers, false);
        match route(version(&headers), &text) {
            Route::Refused(fault) => Err(No::Fault(fault)),
            Route::Modern => self.ask_shared(opening, text).await,
            Route::Initialize => {
                let inbox = match self.session_id(&headers)? {
                    Some(id) => self.find(id)?.inbox,
                    None => self.visitor.gateway.mcp.begin(&self.visitor, self.place()?, Life::Session)?.1,
                };
                self.ask(&inbox, Asked { opening, text: Some(text) }).await
            }
            Route::Legacy => {
                self.check_version(&headers)?;
                let id = self.session_id(&headers)?.ok_or_else(missing_session)?;
                self.ask(&self.find(id)?.inbox, Asked { opening, text: Some(text) }).await
            }
        }
    }

    /// `POST /message`: messages that are answered on the session's stream.
    pub(super) async fn message(self, request: Request) -> Result<Response, No> {
        let id = self.session_id(request.headers())?.ok_or_else(missing_session)?;
        let inbox = self.find(id)?.inbox;
        let (headers, text) = self.read(request).await?;
        if let Route::Refused(fault) = route(version(&headers), &text) {
            return Err(No::Fault(fault));
        }
        self.ask(&inbox, Asked { opening: post(&headers, true), text: Some(text) }).await
    }

    /// `POST …/poll`: messages or none, answered with what there is to be said, or will be in a while.
    pub(super) async fn poll(self, request: Request) -> Result<Response, No> {
        let wait = Duration::from_secs(self.wait()?);
        let id = self.session_id(request.headers())?;
        let found = id.map(|id| self.find(id)).transpose()?;
        // A body that is empty is of no type.
        let is_empty = request.body().is_end_stream();
        let (_, text) = if is_empty { self.read_text(request).await? } else { self.read(request).await? };
        let inbox = match found {
            Some(found) => found.inbox,
            None if Interpreter::begins_by_poll(&text) => {
                self.visitor.gateway.mcp.begin(&self.visitor, self.place()?, Life::Polls)?.1
            }
            None => return Err(No::no_poll()),
        };
        self.ask(&inbox, Asked { opening: Opening::Poll(wait), text: Some(text) }).await
    }

    /// How many seconds a poll waits.
    fn wait(&self) -> Result<u64, No> {
        let Some(wait) = self.query.get("wait") else { return Ok(WAIT) };
        let is_number = !wait.is_empty() && wait.bytes().all(|byte| byte.is_ascii_digit());
        let wrong = || No::bad(format!("`wait` must be a whole number of seconds; at most {LONGEST_WAIT} are waited"));
        // What is too long to be read is longer than is waited.
        let seconds = is_number.then(|| wait.parse().unwrap_or(LONGEST_WAIT)).ok_or_else(wrong)?;
        Ok(seconds.min(LONGEST_WAIT))
    }

    /// `DELETE`: the end of a session.
    pub(super) async fn delete(self, headers: &HeaderMap) -> Result<Response, No> {
        self.check_version(headers)?;
        let id = self.session_id(headers)?.ok_or_else(missing_session)?;
        let Found { id, inbox } = self.find(id)?;
        self.visitor.gateway.mcp.remove(&id);
        inbox.dismiss().await;
        Ok(StatusCode::NO_CONTENT.into_response())
    }

    /// The headers and the body, which is text in JSON.
    async fn read(&self, request: Request) -> Result<(HeaderMap, Box<str>), No> {
        if !is_json(request.headers()) {
            return Err(No::wrong(StatusCode::UNSUPPORTED_MEDIA_TYPE, "`Content-Type` must be application/json"));
        }
        self.read_text(request).await
    }

    async fn read_text(&self, request: Request) -> Result<(HeaderMap, Box<str>), No> {
        let limit = self.visitor.gateway.config.limits.message;
        let most = if limit > 0 { limit } else { MAX_MESSAGE };
        let (parts, body) = request.into_parts();
        let bytes = body::read(body, most).await?;
        let text = String::from_utf8(bytes.into()).map_err(|_| No::not_json("the body is not UTF-8"))?;
        Ok((parts.headers, text.into()))
    }

    /// Sessions are for the revisions that have them.
    fn check_version(&self, headers: &HeaderMap) -> Result<(), No> {
        let Some(version) = version(headers) else { return Ok(()) };
        match Revision::parse(version).map(Revision::era) {
            Some(Era::Legacy) => Ok(()),
            Some(Era::Modern) => Err(No::Method("POST")),
            None if is_date(version) && version > Revision::MODERN.date() => Err(No::Method("POST")),
            None => Err(No::bad("`MCP-Protocol-Version` names no revision that is known here")),
        }
    }

    async fn ask(&self, inbox: &Inbox, asked: Asked) -> Result<Response, No> {
        match inbox.ask(asked, self.expires).await {
            Outcome::Answered(response) => Ok(response),
            Outcome::Unheard(_) | Outcome::Ended => Err(self.ended()),
            Outcome::Busy => Err(busy()),
        }
    }

    /// A request of the stateless revision: whichever session hears it.
    async fn ask_shared(&self, opening: Opening, text: Box<str>) -> Result<Response, No> {
        let place = self.place()?;
        let mut asked = Asked { opening, text: Some(text) };
        for _ in 0..MAX_TRIES {
            let inbox = self.visitor.gateway.mcp.shared(&self.visitor, &place)?;
            asked = match inbox.ask(asked, self.expires).await {
                Outcome::Answered(response) => return Ok(response),
                Outcome::Unheard(asked) => asked,
                Outcome::Ended => break,
                Outcome::Busy => return Err(busy()),
            };
        }
        Err(Refusal::new(Code::Closing, "the request was not answered before the gateway let it go; try again").into())
    }

    /// What to say when a session has ended without an answer.
    fn ended(&self) -> No {
        if *self.visitor.gateway.shutdown.borrow() {
            return Refusal::new(Code::Closing, "the gateway is shutting down").into();
        }
        No::no_session()
    }
}

fn busy() -> No {
    Refusal::new(Code::RateLimited, "too many requests of this session wait for their answers").into()
}

fn missing_session() -> No {
    No::bad("`Mcp-Session-Id` is missing; begin with `initialize`")
}

fn version(headers: &HeaderMap) -> Option<&str> {
    // A header that is no text names no revision either.
    headers.get(VERSION).map(|value| value.to_str().unwrap_or_default())
}

/// A POST as the grammar sees it.
fn post(headers: &HeaderMap, apart: bool) -> Opening {
    let own = headers.iter().filter(|(name, _)| name.as_str().starts_with("mcp-"));
    let told = own.map(|(name, value)| (name.as_str().into(), String::from_utf8_lossy(value.as_bytes()).into()));
    Opening::Post(Post { headers: told.collect(), apart })
}
