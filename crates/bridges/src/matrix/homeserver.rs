//! The client-server API of a homeserver, as an application service uses it: with its own token, and as any user of its namespace.
//!
//! Client-server API v1.15; application service API v1.15, "Identity assertion", "Server admin style permissions", "Pinging".

use std::time::Duration;

use reqwest::{Method, Url};
use salon_protocol::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http_sender::{ApiBody, ApiRequest, ApiRequestError, ApiSender, bounded_wait};
use crate::platform::{DriverError, PlatformFailure};

/// The wait where a homeserver asks for one without saying how long.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Events that the history is asked for at once, and how often at most: the bridge looks among the last 1,000 for what it was not given.
const HISTORY_PAGE: usize = 100;
const MAX_HISTORY_PAGES: usize = 10;
/// Events of the first page where a known one is looked for, which is usually among the newest.
const FIRST_PAGE: usize = 20;

/// A homeserver and the token of the application service.
#[derive(Clone)]
pub(super) struct Homeserver {
    sender: ApiSender,
    base: Url,
}

/// Why the homeserver did not do something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HomeserverFailure {
    #[error("{0}")]
    ApiRequestError(#[from] ApiRequestError),
    #[error("the homeserver refused with {status} {code}: {message}")]
    Refused { status: u16, code: String, message: String, retry_after: Option<Duration> },
}

/// Client-server API, "Standard error response".
#[derive(Deserialize, Default)]
struct MatrixError {
    #[serde(default)]
    errcode: String,
    #[serde(default)]
    error: String,
    retry_after_ms: Option<u64>,
}

/// A member of a room.
pub(super) struct RoomMember {
    pub(super) user_id: String,
    pub(super) display_name: Option<String>,
}

/// A request to the API, below `/_matrix/client/`.
struct ClientCall<'a> {
    method: Method,
    path: &'a [&'a str],
    as_user: Option<&'a str>,
    query: &'a [(&'a str, &'a str)],
    body: Option<Value>,
}

impl<'a> ClientCall<'a> {
    fn new(method: Method, path: &'a [&'a str]) -> Self {
        Self { method, path, as_user: None, query: &[], body: None }
    }
}

/// The member of an event's content that holds the bridge's key for it, so that the event is recognised in the history.
pub(super) const KEY_MEMBER: &str = "chat.salon.key";

impl Homeserver {
    pub(super) fn new(base: &str, as_token: &str) -> Result<Self, DriverError> {
        let base = Url::parse(base).map_err(|error| DriverError(format!("`homeserver` is not a URL: {error}")))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(DriverError(format!("`homeserver` is `{}`, which is not http or https", base.scheme())));
        }
        Ok(Self { sender: ApiSender::new(&format!("Bearer {as_token}"))?, base })
    }

    /// Makes a user of the namespace. One that exists already is fine.
    pub(super) async fn register(&self, localpart: &str) -> Result<(), HomeserverFailure> {
        let body = json!({"type": "m.login.application_service", "username": localpart, "inhibit_login": true});
        let call = ClientCall { body: Some(body), ..ClientCall::new(Method::POST, &["v3", "register"]) };
        match self.call(call).await {
            Err(HomeserverFailure::Refused { code, .. }) if code == "M_USER_IN_USE" => Ok(()),
            answered => answered.map(drop),
        }
    }

    pub(super) async fn set_display_name(&self, user: &str, name: &str) -> Result<(), HomeserverFailure> {
        let path = ["v3", "profile", user, "displayname"];
        let body = Some(json!({"displayname": name}));
        self.call(ClientCall { as_user: Some(user), body, ..ClientCall::new(Method::PUT, &path) }).await.map(drop)
    }

    pub(super) async fn display_name(&self, user: &str) -> Result<Option<String>, HomeserverFailure> {
        let path = ["v3", "profile", user, "displayname"];
        let answer = self.call(ClientCall::new(Method::GET, &path)).await?;
        Ok(answer.get("displayname").and_then(Value::as_str).map(str::to_owned))
    }

    /// The room that an alias stands for.
    pub(super) async fn resolve_alias(&self, alias: &str) -> Result<String, HomeserverFailure> {
        let path = ["v3", "directory", "room", alias];
        let answer = self.call(ClientCall::new(Method::GET, &path)).await?;
        let room = answer.get("room_id").and_then(Value::as_str);
        room.map(str::to_owned).ok_or_else(|| HomeserverFailure::unreadable("no `room_id`"))
    }

    pub(super) async fn join(&self, room: &str, as_user: Option<&str>) -> Result<(), HomeserverFailure> {
        let path = ["v3", "rooms", room, "join"];
        let body = Some(json!({}));
        self.call(ClientCall { as_user, body, ..ClientCall::new(Method::POST, &path) }).await.map(drop)
    }

    pub(super) async fn leave(&self, room: &str, as_user: &str) -> Result<(), HomeserverFailure> {
        let path = ["v3", "rooms", room, "leave"];
        let body = Some(json!({}));
        let call = ClientCall { as_user: Some(as_user), body, ..ClientCall::new(Method::POST, &path) };
        self.call(call).await.map(drop)
    }

    /// The bridge's own user invites another.
    pub(super) async fn invite(&self, room: &str, user: &str) -> Result<(), HomeserverFailure> {
        let path = ["v3", "rooms", room, "invite"];
        let body = Some(json!({"user_id": user}));
        self.call(ClientCall { body, ..ClientCall::new(Method::POST, &path) }).await.map(drop)
    }

    pub(super) async fn members(&self, room: &str) -> Result<Vec<RoomMember>, HomeserverFailure> {
        let path = ["v3", "rooms", room, "joined_members"];
        let answer = self.call(ClientCall::new(Method::GET, &path)).await?;
        let joined = answer.get("joined").and_then(Value::as_object);
        let members = joined.into_iter().flatten().map(|(user_id, profile)| RoomMember {
            user_id: user_id.clone(),
            display_name: profile.get("display_name").and_then(Value::as_str).map(str::to_owned),
        });
        Ok(members.collect())
    }

    /// Whether messages in a room are encrypted. Once they are, they stay so.
    pub(super) async fn is_encrypted(&self, room: &str) -> Result<bool, HomeserverFailure> {
        let path = ["v3", "rooms", room, "state", "m.room.encryption", ""];
        match self.call(ClientCall::new(Method::GET, &path)).await {
            Ok(_) => Ok(true),
            Err(failure) if failure.is_code("M_NOT_FOUND") => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Sends an event. The same transaction id is the same event, as long as the homeserver remembers it. `at` is the time that the event has in place
    /// of the homeserver's (application service API v1.15, "Timestamp massaging").
    pub(super) async fn send(
        &self,
        room: &str,
        transaction: &str,
        as_user: Option<&str>,
        content: &Value,
        at: Option<Timestamp>,
    ) -> Result<String, HomeserverFailure> {
        let path = ["v3", "rooms", room, "send", "m.room.message", transaction];
        let body = Some(content.clone());
        let at = at.map(|at| at.0.to_string());
        let query: Vec<_> = at.iter().map(|at| ("ts", at.as_str())).collect();
        self.event_id(ClientCall { as_user, body, query: &query, ..ClientCall::new(Method::PUT, &path) }).await
    }

    pub(super) async fn redact(
        &self,
        room: &str,
        event: &str,
        transaction: &str,
        as_user: Option<&str>,
    ) -> Result<String, HomeserverFailure> {
        let path = ["v3", "rooms", room, "redact", event, transaction];
        let body = Some(json!({}));
        self.event_id(ClientCall { as_user, body, ..ClientCall::new(Method::PUT, &path) }).await
    }

    async fn event_id(&self, call: ClientCall<'_>) -> Result<String, HomeserverFailure> {
        let answer = self.call(call).await?;
        let id = answer.get("event_id").and_then(Value::as_str);
        id.map(str::to_owned).ok_or_else(|| HomeserverFailure::unreadable("no `event_id`"))
    }

    /// The newest events of a room, oldest first: a page of them, or as many as it takes to find one that is known.
    pub(super) async fn newest_events(&self, room: &str, known: Option<&str>) -> Result<Vec<Value>, HomeserverFailure> {
        let path = ["v3", "rooms", room, "messages"];
        let (mut newest_first, mut from) = (Vec::new(), None::<String>);
        for page in 0..=MAX_HISTORY_PAGES {
            let limit = if page == 0 && known.is_some() { FIRST_PAGE } else { HISTORY_PAGE }.to_string();
            let query = [("dir", "b"), ("limit", limit.as_str())].into_iter();
            let query: Vec<_> = query.chain(from.iter().map(|from| ("from", from.as_str()))).collect();
            let mut page = self.call(ClientCall { query: &query, ..ClientCall::new(Method::GET, &path) }).await?;
            let Some(Value::Array(events)) = page.get_mut("chunk").map(Value::take) else { break };
            newest_first.extend(events);
            let is_found = known.is_none_or(|known| newest_first.iter().any(|event| event["event_id"] == known));
            from = page.get("end").and_then(Value::as_str).map(str::to_owned);
            if is_found || from.is_none() {
                break;
            }
        }
        newest_first.reverse();
        Ok(newest_first)
    }

    /// Lets the homeserver call the bridge. One that had found the bridge unreachable tries again at once what it has kept; without this
    /// Synapse waits for up to nine minutes.
    pub(super) async fn ping(&self, appservice: &str) -> Result<(), HomeserverFailure> {
        let path = ["v1", "appservice", appservice, "ping"];
        let body = Some(json!({}));
        self.call(ClientCall { body, ..ClientCall::new(Method::POST, &path) }).await.map(drop)
    }

    async fn call(&self, call: ClientCall<'_>) -> Result<Value, HomeserverFailure> {
        let mut url = self.base.clone();
        url.path_segments_mut()
            .map_err(|()| HomeserverFailure::unreadable("the address has no path"))?
            .pop_if_empty()
            .extend(["_matrix", "client"])
            .extend(call.path);
        {
            let mut query = url.query_pairs_mut();
            query.extend_pairs(call.as_user.map(|user| ("user_id", user)));
            query.extend_pairs(call.query);
        }
        let request = ApiRequest { method: call.method, url, body: call.body.map_or(ApiBody::None, ApiBody::Json) };
        let answer = self.sender.send(&request).await?;
        if answer.status.is_success() {
            return answer.json().map_err(|error| HomeserverFailure::unreadable(&error.to_string()));
        }
        let body: MatrixError = answer.json().unwrap_or_default();
        // Client-server API, "Rate limiting": the header replaces `retry_after_ms`, which homeservers still send.
        let in_body = body.retry_after_ms.map(Duration::from_millis).and_then(|wait| bounded_wait(wait.as_secs_f64()));
        Err(HomeserverFailure::Refused {
            status: answer.status.as_u16(),
            code: body.errcode,
            message: body.error.chars().take(200).collect(),
            retry_after: answer.retry_after().or(in_body),
        })
    }
}

impl HomeserverFailure {
    /// A success that says nothing understandable: what happened is not known.
    fn unreadable(reason: &str) -> Self {
        Self::ApiRequestError(ApiRequestError {
            reason: format!("the answer of the homeserver is unreadable: {reason}"),
            is_unsent: false,
        })
    }

    pub(super) fn is_code(&self, wanted: &str) -> bool {
        matches!(self, Self::Refused { code, .. } if code == wanted)
    }

    /// What an action that failed like this has come to.
    pub(super) fn into_failure(self) -> PlatformFailure {
        let reason = self.to_string();
        match self {
            Self::ApiRequestError(no_answer) => no_answer.into_failure(),
            Self::Refused { status: 429, retry_after, .. } => {
                PlatformFailure::RetryAfter { after: retry_after.unwrap_or(DEFAULT_RETRY_AFTER), reason }
            }
            // A proxy whose homeserver is away, or a homeserver in trouble: the event may have been stored.
            Self::Refused { status: 500.., .. } => PlatformFailure::Unknown { reason },
            Self::Refused { .. } => PlatformFailure::Permanent { reason },
        }
    }
}
