//! Discord's REST API: messages, webhooks, within the limits that its answers tell of.
//!
//! Discord API v10: "Message", "Webhook", "Rate Limits".

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use reqwest::{Method, StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::gateway_payload::DiscordMessage;
use super::rate_limits::{DiscordLimits, DiscordRoute};
use crate::http_sender::{ApiAnswer, ApiBody, ApiRequest, ApiRequestError, ApiSender};
use crate::platform::{DriverError, PlatformFailure};

/// A wait of this length is part of the request; a longer one is the core's, which can tell people of it.
const MAX_INLINE_WAIT: Duration = Duration::from_secs(2);

pub(super) struct DiscordApi {
    sender: ApiSender,
    base: Url,
    limits: Mutex<DiscordLimits>,
}

/// Why Discord did not do something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum DiscordFailure {
    #[error("{0}")]
    ApiRequestError(#[from] ApiRequestError),
    #[error("Discord's rate limit is used up")]
    Limited { after: Duration },
    #[error("Discord refused with {status}: {message}")]
    Refused { status: u16, code: u64, message: String },
}

/// A webhook of the bridge's own in one channel. Anybody with its token can write there.
#[derive(Clone, Deserialize)]
pub(super) struct DiscordWebhook {
    pub(super) id: String,
    pub(super) token: Option<String>,
    pub(super) name: Option<String>,
    pub(super) application_id: Option<String>,
}

impl DiscordWebhook {
    fn secret(&self) -> &str {
        self.token.as_deref().unwrap_or_default()
    }
}

#[derive(Deserialize, Default)]
struct DiscordErrorBody {
    #[serde(default)]
    code: u64,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
pub(super) struct OwnUser {
    pub(super) id: String,
    pub(super) username: String,
}

#[derive(Deserialize)]
struct GatewayAddress {
    url: String,
}

/// A request to the API.
struct DiscordCall<'a> {
    method: Method,
    /// What Discord counts against one limit, together with the resource.
    name: &'static str,
    resource: &'a str,
    path: &'a [&'a str],
    query: &'a [(&'a str, &'a str)],
    body: Option<Value>,
}

impl<'a> DiscordCall<'a> {
    fn new(method: Method, name: &'static str, resource: &'a str, path: &'a [&'a str]) -> Self {
        Self { method, name, resource, path, query: &[], body: None }
    }
}

impl DiscordApi {
    pub(super) fn new(base: &str, token: &str) -> Result<Self, DriverError> {
        let base = Url::parse(base).map_err(|error| DriverError(format!("`api` is not a URL: {error}")))?;
        Ok(Self { sender: ApiSender::new(&format!("Bot {token}"))?, base, limits: Mutex::default() })
    }

    pub(super) async fn gateway_url(&self) -> Result<String, DiscordFailure> {
        let call = DiscordCall::new(Method::GET, "gateway", "", &["gateway", "bot"]);
        Ok(self.call::<GatewayAddress>(call).await?.url)
    }

    pub(super) async fn own_user(&self) -> Result<OwnUser, DiscordFailure> {
        self.call(DiscordCall::new(Method::GET, "user", "", &["users", "@me"])).await
    }

    /// The newest messages of a channel, oldest first.
    pub(super) async fn messages(&self, channel: &str, limit: u32) -> Result<Vec<DiscordMessage>, DiscordFailure> {
        let path = ["channels", channel, "messages"];
        let query = [("limit", &*limit.to_string())];
        let call = DiscordCall { query: &query, ..DiscordCall::new(Method::GET, "messages", channel, &path) };
        let found: Vec<Value> = self.call(call).await?;
        // One that is not readable is left out.
        let newest_first = found.into_iter().filter_map(|message| serde_json::from_value(message).ok());
        let mut messages: Vec<DiscordMessage> = newest_first.collect();
        messages.reverse();
        Ok(messages)
    }

    pub(super) async fn webhooks(&self, channel: &str) -> Result<Vec<DiscordWebhook>, DiscordFailure> {
        let path = ["channels", channel, "webhooks"];
        self.call(DiscordCall::new(Method::GET, "webhooks", channel, &path)).await
    }

    pub(super) async fn create_webhook(&self, channel: &str, name: &str) -> Result<DiscordWebhook, DiscordFailure> {
        let path = ["channels", channel, "webhooks"];
        let body = Some(json!({"name": name}));
        self.call(DiscordCall { body, ..DiscordCall::new(Method::POST, "create webhook", channel, &path) }).await
    }

    /// Writes into a channel with a name of the speaker's own.
    pub(super) async fn execute(
        &self,
        webhook: &DiscordWebhook,
        body: Value,
    ) -> Result<DiscordMessage, DiscordFailure> {
        let path = ["webhooks", &webhook.id, webhook.secret()];
        let call = DiscordCall::new(Method::POST, "execute", &webhook.id, &path);
        self.call(DiscordCall { query: &[("wait", "true")], body: Some(body), ..call }).await
    }

    pub(super) async fn edit(
        &self,
        webhook: &DiscordWebhook,
        message: &str,
        body: Value,
    ) -> Result<DiscordMessage, DiscordFailure> {
        let path = ["webhooks", &webhook.id, webhook.secret(), "messages", message];
        let call = DiscordCall::new(Method::PATCH, "edit", &webhook.id, &path);
        self.call(DiscordCall { body: Some(body), ..call }).await
    }

    pub(super) async fn delete(&self, webhook: &DiscordWebhook, message: &str) -> Result<(), DiscordFailure> {
        let path = ["webhooks", &webhook.id, webhook.secret(), "messages", message];
        self.send(DiscordCall::new(Method::DELETE, "delete", &webhook.id, &path)).await.map(drop)
    }

    async fn call<T: DeserializeOwned>(&self, call: DiscordCall<'_>) -> Result<T, DiscordFailure> {
        self.send(call).await?.json().map_err(|error| {
            let reason = format!("the answer of Discord is unreadable: {error}");
            DiscordFailure::ApiRequestError(ApiRequestError { reason, is_unsent: false })
        })
    }

    async fn send(&self, call: DiscordCall<'_>) -> Result<ApiAnswer, DiscordFailure> {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(call.path);
        }
        url.query_pairs_mut().extend_pairs(call.query);
        let route = DiscordRoute { name: call.name, resource: call.resource.to_owned() };
        let request = ApiRequest { method: call.method, url, body: call.body.map_or(ApiBody::None, ApiBody::Json) };
        loop {
            let wait = self.limits.lock().wait(&route, Instant::now());
            if wait > MAX_INLINE_WAIT {
                return Err(DiscordFailure::Limited { after: wait });
            }
            tokio::time::sleep(wait).await;
            self.limits.lock().spend(&route);
            let answer = self.sender.send(&request).await?;
            let refused = self.limits.lock().observe(&route, &answer, Instant::now());
            match refused {
                Some(after) if after > MAX_INLINE_WAIT => return Err(DiscordFailure::Limited { after }),
                Some(after) => {
                    tokio::time::sleep(after).await;
                    continue;
                }
                None if answer.status.is_success() => return Ok(answer),
                None => return Err(refusal(&answer)),
            }
        }
    }
}

fn refusal(answer: &ApiAnswer) -> DiscordFailure {
    let body: DiscordErrorBody = answer.json().unwrap_or_default();
    let message = body.message.chars().take(200).collect();
    DiscordFailure::Refused { status: answer.status.as_u16(), code: body.code, message }
}

impl DiscordFailure {
    pub(super) fn is_status(&self, wanted: StatusCode) -> bool {
        matches!(self, Self::Refused { status, .. } if *status == wanted.as_u16())
    }

    /// What an action that failed like this has come to.
    pub(super) fn into_failure(self) -> PlatformFailure {
        let reason = self.to_string();
        match self {
            Self::ApiRequestError(no_answer) => no_answer.into_failure(),
            Self::Limited { after } => PlatformFailure::RetryAfter { after, reason },
            Self::Refused { status: 500.., .. } => PlatformFailure::Unknown { reason },
            Self::Refused { .. } => PlatformFailure::Permanent { reason },
        }
    }
}
