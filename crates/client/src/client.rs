//! A gateway and the token to use it with: what can be asked without taking a seat in a room.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper::http::{Method, Request, StatusCode, header, request};
use hyper_util::rt::TokioIo;
use salon_protocol::{Envelope, EnvelopeId, Participant, ParticipantId, TopicName, percent_encoded};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::error::{HttpRefusal, ReplyError};
use crate::gateway::Wire;
use crate::mcp::{Prompt, Resource, ResourceTemplate, Tool};
use crate::{Entering, Gateway, RestError, Token, TokenProvider};

/// How long an answer may take.
pub(crate) const ANSWER_TIME: Duration = Duration::from_secs(30);

/// The longest answer that is read. A page of history is about a megabyte, twice over.
const MAX_BYTES: usize = 64 << 20;

type Wiring = TokioIo<Box<dyn Wire>>;

/// A gateway and the token to use it with. Cheap to clone; nothing is connected until something is asked.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use salon_client::{Client, Gateway, StaticToken};
///
/// let client = Client::new(Gateway::new("http://127.0.0.1:8787")?, StaticToken::new("eyJ…"));
/// for topic in client.topics().await? {
///     println!("{topic}: {} here", client.participants(&topic).await?.len());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    gateway: Gateway,
    tokens: Arc<dyn TokenProvider>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("gateway", &self.gateway).finish_non_exhaustive()
    }
}

/// Which part of a topic's history to read: the newest of what is between two ends.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct HistoryQuery {
    /// At most this many, 1 to 1000; 100 unless given.
    pub limit: Option<usize>,
    /// Only what came before this: an envelope id, or a time such as `2025-08-17T14:00:00Z`.
    pub before: Option<String>,
    /// Only what came after this envelope.
    pub after: Option<EnvelopeId>,
}

impl HistoryQuery {
    /// The newest 100.
    pub fn new() -> Self {
        Self::default()
    }

    /// At most this many, 1 to 1000.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Only what came before this: an envelope id, or a time such as `2025-08-17T14:00:00Z`.
    #[must_use]
    pub fn before(mut self, before: impl Into<String>) -> Self {
        self.before = Some(before.into());
        self
    }

    /// Only what came after this envelope.
    #[must_use]
    pub fn after(mut self, after: EnvelopeId) -> Self {
        self.after = Some(after);
        self
    }
}

/// A page of history.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Page {
    /// The envelopes, the newest first.
    pub envelopes: Vec<Envelope>,
    /// What [`HistoryQuery::before`] must be for the page before this one; `None` at the beginning.
    pub next: Option<String>,
    /// Whether the topic keeps a history at all.
    pub enabled: bool,
}

/// A list of one participant's, as its room's gateway has it.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct ParticipantOffer<T> {
    /// Whose it is.
    pub id: ParticipantId,
    /// What is on it; `None` where the participant is not there or did not tell the gateway.
    #[serde(default = "Option::default")]
    pub items: Option<Vec<T>>,
}

/// Which tokens [`Client::revoke`] revokes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenSelection {
    /// The one with this id, which is its claim `jti`.
    Token(String),
    /// Those of a participant.
    Participant(ParticipantId),
    /// Those of a participant, by its id or by its subject (`sub`) at the gateway's authorization server.
    Subject(String),
    /// Everybody's.
    All,
}

/// What [`Client::revoke`] has revoked.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct RevocationReceipt {
    /// Tokens issued up to here are revoked, RFC 3339.
    pub before: String,
    /// The ids of the participant whose tokens are revoked, as the gateway uses them: an id that was given, and that of a subject.
    #[serde(default)]
    pub participants: Vec<ParticipantId>,
}

/// The answer of `/health`.
#[derive(Debug, Clone, Deserialize)]
#[non_exhaustive]
pub struct Health {
    /// `ok`.
    pub status: String,
    /// The gateway's clock, RFC 3339.
    pub timestamp: String,
    /// Seconds since it started.
    pub uptime: f64,
    /// The version of its protocol.
    pub protocol: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestAuth {
    WithToken,
    Openly,
}

impl Client {
    /// A client of a gateway. Nothing is connected yet.
    pub fn new(gateway: Gateway, tokens: impl TokenProvider) -> Self {
        Self { gateway, tokens: Arc::new(tokens) }
    }

    /// The gateway.
    pub fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// The token it would use now.
    pub async fn token(&self) -> Result<Token, RestError> {
        Ok(self.tokens.token(false).await?)
    }

    pub(crate) fn tokens(&self) -> &dyn TokenProvider {
        &*self.tokens
    }

    /// Begins to enter a room.
    pub fn room(&self, topic: TopicName) -> Entering {
        Entering::new(self.clone(), topic)
    }

    /// The topics that the token opens and that have been entered before.
    pub async fn topics(&self) -> Result<Vec<TopicName>, RestError> {
        #[derive(Deserialize)]
        struct Topics {
            topics: Vec<TopicName>,
        }
        let answer: Topics = self.ask(RequestAuth::WithToken, Method::GET, "/v0/topics", None).await?;
        Ok(answer.topics)
    }

    /// Whether a topic exists: somebody has entered or made it, and it was not deleted since. Asking does not make it.
    pub async fn topic_exists(&self, topic: &TopicName) -> Result<bool, RestError> {
        Ok(self.topic_settings(topic).await?.is_some())
    }

    /// The settings of a topic as JSON; `None` where there is no such topic.
    pub async fn topic_settings(&self, topic: &TopicName) -> Result<Option<serde_json::Value>, RestError> {
        #[derive(Deserialize)]
        struct Answer {
            settings: serde_json::Value,
        }
        let path = format!("/v0/topics/{}", percent_encoded(topic.as_str()));
        match self.ask::<Answer>(RequestAuth::WithToken, Method::GET, &path, None).await {
            Ok(answer) => Ok(Some(answer.settings)),
            Err(RestError::Refused(refusal)) if refusal.status == 404 && refusal.code == "not_found" => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes the settings of a topic that has none. The participant becomes its owner.
    pub async fn create_topic(&self, topic: &TopicName, settings: &serde_json::Value) -> Result<(), RestError> {
        let path = format!("/v0/topics/{}", percent_encoded(topic.as_str()));
        self.ask_bytes(RequestAuth::WithToken, Method::PUT, &path, Some(settings.to_string())).await.map(drop)
    }

    /// Deletes a topic, with everything that was said there. Needs an owner's token, or an operator's.
    pub async fn delete_topic(&self, topic: &TopicName, reason: Option<&str>) -> Result<(), RestError> {
        let query = query_string(&[("reason", reason)]);
        let path = format!("/v0/topics/{}{query}", percent_encoded(topic.as_str()));
        self.ask_bytes(RequestAuth::WithToken, Method::DELETE, &path, None).await.map(drop)
    }

    /// Who is in a topic.
    pub async fn participants(&self, topic: &TopicName) -> Result<Vec<Participant>, RestError> {
        #[derive(Deserialize)]
        struct Present {
            participants: Vec<Participant>,
        }
        let path = format!("/v0/topics/{}/participants", percent_encoded(topic.as_str()));
        let answer: Present = self.ask(RequestAuth::WithToken, Method::GET, &path, None).await?;
        Ok(answer.participants)
    }

    /// The tools of everybody in a topic, or of one participant, as the gateway knows them. Nothing is stored for it, and no seat is needed.
    pub async fn tools(
        &self,
        topic: &TopicName,
        of: Option<&ParticipantId>,
    ) -> Result<Vec<ParticipantOffer<Tool>>, RestError> {
        self.lists(topic, "tools", of).await
    }

    /// The prompts of everybody in a topic, or of one participant, as the gateway knows them.
    pub async fn prompts(
        &self,
        topic: &TopicName,
        of: Option<&ParticipantId>,
    ) -> Result<Vec<ParticipantOffer<Prompt>>, RestError> {
        self.lists(topic, "prompts", of).await
    }

    /// The resources of everybody in a topic, or of one participant, as the gateway knows them.
    pub async fn resources(
        &self,
        topic: &TopicName,
        of: Option<&ParticipantId>,
    ) -> Result<Vec<ParticipantOffer<Resource>>, RestError> {
        self.lists(topic, "resources", of).await
    }

    /// The resource templates of everybody in a topic, or of one participant, as the gateway knows them.
    pub async fn resource_templates(
        &self,
        topic: &TopicName,
        of: Option<&ParticipantId>,
    ) -> Result<Vec<ParticipantOffer<ResourceTemplate>>, RestError> {
        self.lists(topic, "resource_templates", of).await
    }

    async fn lists<T: DeserializeOwned>(
        &self,
        topic: &TopicName,
        list: &str,
        of: Option<&ParticipantId>,
    ) -> Result<Vec<ParticipantOffer<T>>, RestError> {
        #[derive(Deserialize)]
        struct Lists {
            participants: Vec<ParticipantOffer<Box<RawValue>>>,
        }
        let query = query_string(&[("participant", of.map(ParticipantId::as_str))]);
        let path = format!("/v0/topics/{}/lists/{list}{query}", percent_encoded(topic.as_str()));
        let answer: Lists = self.ask(RequestAuth::WithToken, Method::GET, &path, None).await?;
        // An item that cannot be read does not hide the others.
        let read = |items: Vec<Box<RawValue>>| {
            items.into_iter().filter_map(|item| serde_json::from_str(item.get()).ok()).collect()
        };
        let offers = answer.participants.into_iter();
        Ok(offers.map(|offer| ParticipantOffer { id: offer.id, items: offer.items.map(read) }).collect())
    }

    /// A page of a topic's history, the newest first.
    pub async fn history(&self, topic: &TopicName, query: &HistoryQuery) -> Result<Page, RestError> {
        #[derive(Deserialize)]
        struct Answer {
            enabled: bool,
            history: Vec<Box<RawValue>>,
            next: Option<String>,
        }
        let limit = query.limit.map(|limit| limit.to_string());
        let wanted = [
            ("limit", limit.as_deref()),
            ("before", query.before.as_deref()),
            ("after", query.after.as_ref().map(EnvelopeId::as_str)),
        ];
        let path = format!("/v0/topics/{}/history{}", percent_encoded(topic.as_str()), query_string(&wanted));
        let answer: Answer = self.ask(RequestAuth::WithToken, Method::GET, &path, None).await?;
        let envelopes: Result<Vec<_>, _> = answer.history.iter().map(|text| Envelope::restore(text.get())).collect();
        let envelopes = envelopes.map_err(|refusal| self.unreadable(refusal))?;
        Ok(Page { envelopes, next: answer.next, enabled: answer.enabled })
    }

    /// Publishes one envelope without taking a seat. It makes nobody present; a request is refused unless its sender is seated.
    pub async fn publish(&self, topic: &TopicName, envelope: String) -> Result<(), RestError> {
        let path = format!("/v0/topics/{}/messages", percent_encoded(topic.as_str()));
        let _: Box<RawValue> = self.ask(RequestAuth::WithToken, Method::POST, &path, Some(envelope)).await?;
        Ok(())
    }

    /// Revokes tokens: those issued up to `before`, an RFC 3339 time, or up to now. Needs a token with the permission `revoke`.
    pub async fn revoke(&self, tokens: &TokenSelection, before: Option<&str>) -> Result<RevocationReceipt, RestError> {
        let mut body = match tokens {
            TokenSelection::Token(id) => serde_json::json!({ "token": id }),
            TokenSelection::Participant(id) => serde_json::json!({ "participant": id }),
            TokenSelection::Subject(subject) => serde_json::json!({ "participant": subject }),
            TokenSelection::All => serde_json::json!({ "all": true }),
        };
        if let Some(before) = before {
            body["before"] = before.into();
        }
        let path = "/v0/auth/revocations";
        self.ask(RequestAuth::WithToken, Method::POST, path, Some(body.to_string())).await
    }

    /// Whether the gateway answers. Needs no token.
    pub async fn health(&self) -> Result<Health, RestError> {
        self.ask(RequestAuth::Openly, Method::GET, "/health", None).await
    }

    /// Whether the gateway takes messages now. Needs no token.
    pub async fn ready(&self) -> Result<(), RestError> {
        let _: Box<RawValue> = self.ask(RequestAuth::Openly, Method::GET, "/ready", None).await?;
        Ok(())
    }

    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        ask: RequestAuth,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> Result<T, RestError> {
        let answer = self.ask_bytes(ask, method, path, body).await?;
        serde_json::from_slice(&answer).map_err(|error| self.unreadable(error))
    }

    async fn ask_bytes(
        &self,
        ask: RequestAuth,
        method: Method,
        path: &str,
        body: Option<String>,
    ) -> Result<Bytes, RestError> {
        let body = Bytes::from(body.unwrap_or_default());
        let mut refresh = false;
        loop {
            let token = match ask {
                RequestAuth::WithToken => Some(self.tokens.token(refresh).await?),
                RequestAuth::Openly => None,
            };
            match self.exchange(&method, path, token.as_ref(), body.clone()).await {
                // A token may have been replaced since it was last asked for; once is enough to find out.
                Err(RestError::Refused(refusal)) if refusal.status == 401 && !refresh && token.is_some() => {
                    refresh = true
                }
                answer => return answer,
            }
        }
    }

    /// The same with headers of one's own, for what is not JSON.
    pub(crate) async fn ask_with(
        &self,
        method: Method,
        path: &str,
        headers: &[(header::HeaderName, header::HeaderValue)],
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), RestError> {
        let mut refresh = false;
        loop {
            let token = self.tokens.token(refresh).await?;
            match self.exchange_with(&method, path, Some(&token), headers, body.clone()).await {
                Err(RestError::Refused(refusal)) if refusal.status == 401 && !refresh => refresh = true,
                answer => return answer,
            }
        }
    }

    async fn exchange(
        &self,
        method: &Method,
        path: &str,
        token: Option<&Token>,
        body: Bytes,
    ) -> Result<Bytes, RestError> {
        self.exchange_with(method, path, token, &[], body).await.map(|(_, answer)| answer)
    }

    async fn exchange_with(
        &self,
        method: &Method,
        path: &str,
        token: Option<&Token>,
        headers: &[(header::HeaderName, header::HeaderValue)],
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), RestError> {
        let request = self.request(path, token).method(method);
        let request = request.body(Full::new(body));
        let mut request = request.map_err(|error| self.unreadable(ReplyError::transport(error)))?;
        for (name, value) in headers {
            request.headers_mut().insert(name.clone(), value.clone());
        }
        let (status, answer) = match tokio::time::timeout(ANSWER_TIME, self.send(request)).await {
            Ok(sent) => sent.map_err(|error| self.unreachable(error))?,
            Err(_) => return Err(self.unreachable(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"))),
        };
        if status.is_success() { Ok((status, answer)) } else { Err(refusal(status, &answer).into()) }
    }

    pub(crate) fn request(&self, path: &str, token: Option<&Token>) -> request::Builder {
        let request = Request::builder()
            .uri(format!("{}{path}", self.gateway.prefix))
            .header(header::HOST, &*self.gateway.authority)
            .header(header::CONTENT_TYPE, "application/json");
        match token {
            Some(token) => request.header(header::AUTHORIZATION, format!("Bearer {}", token.expose())),
            None => request,
        }
    }

    pub(crate) async fn connect(&self) -> io::Result<(SendRequest<Full<Bytes>>, Connection<Wiring, Full<Bytes>>)> {
        let wire = TokioIo::new(self.gateway.dial().await?);
        http1::handshake(wire).await.map_err(io::Error::other)
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> io::Result<(StatusCode, Bytes)> {
        let (mut sender, connection) = self.connect().await?;
        let answering = async {
            let (head, body) = sender.send_request(request).await.map_err(io::Error::other)?.into_parts();
            let body = Limited::new(body, MAX_BYTES).collect().await.map_err(io::Error::other)?;
            Ok((head.status, body.to_bytes()))
        };
        tokio::pin!(answering);
        tokio::select! { biased;
            answer = &mut answering => answer,
            // The connection may end before the answer has been taken from it.
            _ = connection => answering.await,
        }
    }

    pub(crate) fn unreachable(&self, why: io::Error) -> RestError {
        RestError::Unreachable { url: self.gateway.shared_url(), source: Arc::new(why) }
    }

    pub(crate) fn unreadable(&self, why: impl Into<ReplyError>) -> RestError {
        RestError::Unreadable { url: self.gateway.shared_url(), source: why.into() }
    }
}

/// Reads a gateway's answer that is not a success.
pub(crate) fn refusal(status: StatusCode, body: &[u8]) -> HttpRefusal {
    #[derive(Deserialize)]
    struct Problem<'a> {
        #[serde(borrow)]
        error: Cow<'a, str>,
        #[serde(borrow)]
        code: Cow<'a, str>,
    }
    match serde_json::from_slice::<Problem<'_>>(body) {
        Ok(problem) => {
            HttpRefusal { status: status.as_u16(), code: problem.code.into(), message: problem.error.into() }
        }
        Err(_) => HttpRefusal {
            status: status.as_u16(),
            code: String::new(),
            message: format!("the answer was {status}, and not a gateway's"),
        },
    }
}

/// The query of an address, `?` included; nothing where there is nothing to ask for.
pub(crate) fn query_string(wanted: &[(&str, Option<&str>)]) -> String {
    let mut query = String::new();
    for (key, value) in wanted.iter().filter_map(|(key, value)| value.map(|value| (key, value))) {
        query.push(if query.is_empty() { '?' } else { '&' });
        query.push_str(key);
        query.push('=');
        for byte in value.bytes() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => query.push(char::from(byte)),
                _ => query.push_str(&format!("%{byte:02X}")),
            }
        }
    }
    query
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_escaped() {
        let wanted = [("topic", Some("room:a&b=ü")), ("none", None), ("x", Some("1"))];
        assert_eq!(query_string(&wanted), "?topic=room%3Aa%26b%3D%C3%BC&x=1");
        assert_eq!(query_string(&[]), "");
    }

    #[test]
    fn an_answer_of_somebody_else_is_told_apart() {
        let ours = refusal(StatusCode::FORBIDDEN, br#"{"error":"not yours","code":"forbidden"}"#);
        assert_eq!(ours, HttpRefusal { status: 403, code: "forbidden".into(), message: "not yours".into() });
        let other = refusal(StatusCode::BAD_GATEWAY, b"<html>");
        assert_eq!((other.status, other.code.as_str()), (502, ""));
    }
}
