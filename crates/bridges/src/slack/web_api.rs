//! Slack's Web API, as far as a bridge needs it.
//!
//! Slack, "Using the Slack Web API": every answer has `ok`, and `error` where it is false; a limit is HTTP 429 with `Retry-After`.

use std::time::Duration;

use reqwest::{Method, StatusCode, Url};
use serde::Deserialize;
use serde_json::{Value, json};

use super::events::SlackMessage;
use crate::http_sender::{ApiBody, ApiRequest, ApiRequestError, ApiSender};
use crate::platform::{DriverError, PlatformFailure};

const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Errors after which nobody knows whether it was done ("chat.postMessage", "Errors").
const UNCERTAIN: [&str; 4] = ["fatal_error", "internal_error", "request_timeout", "service_unavailable"];

pub(super) struct SlackApi {
    sender: ApiSender,
    base: Url,
}

/// Why Slack did not do something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SlackFailure {
    #[error("{0}")]
    ApiRequestError(#[from] ApiRequestError),
    #[error("Slack's rate limit is used up")]
    Limited { after: Duration },
    #[error("Slack answered HTTP {0}")]
    Status(u16),
    #[error("Slack refused: {0}")]
    Refused(String),
}

/// Who the bridge is in a workspace.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct SlackIdentity {
    pub(super) user_id: String,
    pub(super) bot_id: Option<String>,
    #[serde(default)]
    pub(super) team: String,
}

impl SlackApi {
    pub(super) fn new(base: &str, token: &str) -> Result<Self, DriverError> {
        let base = Url::parse(base).map_err(|error| DriverError(format!("`api` is not a URL: {error}")))?;
        Ok(Self { sender: ApiSender::new(&format!("Bearer {token}"))?, base })
    }

    pub(super) async fn identity(&self) -> Result<SlackIdentity, SlackFailure> {
        parsed(self.call("auth.test", json!({})).await?)
    }

    /// What a user is called: the display name, or the real name.
    pub(super) async fn user_name(&self, user: &str) -> Result<Option<String>, SlackFailure> {
        let answer = self.form_call("users.info", &[("user", user)]).await?;
        let user = &answer["user"];
        let names = [&user["profile"]["display_name"], &user["real_name"], &user["name"]];
        Ok(names.iter().filter_map(|name| name.as_str()).find(|name| !name.is_empty()).map(str::to_owned))
    }

    /// The newest messages of a channel, oldest first, with the bridge's keys.
    pub(super) async fn history(&self, channel: &str, limit: u32) -> Result<Vec<SlackMessage>, SlackFailure> {
        let limit = limit.to_string();
        let fields = [("channel", channel), ("limit", &limit), ("include_all_metadata", "true")];
        let mut messages = messages(self.form_call("conversations.history", &fields).await?);
        messages.reverse();
        Ok(messages)
    }

    /// The messages of a thread, oldest first.
    pub(super) async fn replies(&self, channel: &str, root: &str) -> Result<Vec<SlackMessage>, SlackFailure> {
        let fields = [("channel", channel), ("ts", root), ("limit", "200"), ("include_all_metadata", "true")];
        Ok(messages(self.form_call("conversations.replies", &fields).await?))
    }

    /// Joins a public channel. A private one has to invite the app.
    pub(super) async fn join(&self, channel: &str) -> Result<(), SlackFailure> {
        self.call("conversations.join", json!({"channel": channel})).await.map(drop)
    }

    /// Writes a message and returns its `ts`.
    pub(super) async fn post(&self, message: Value) -> Result<String, SlackFailure> {
        let answer = self.call("chat.postMessage", message).await?;
        let ts = answer["ts"].as_str().map(str::to_owned);
        ts.ok_or_else(|| SlackFailure::unreadable("no `ts`"))
    }

    pub(super) async fn update(&self, channel: &str, ts: &str, text: &str) -> Result<(), SlackFailure> {
        self.call("chat.update", json!({"channel": channel, "ts": ts, "text": text})).await.map(drop)
    }

    pub(super) async fn delete(&self, channel: &str, ts: &str) -> Result<(), SlackFailure> {
        self.call("chat.delete", json!({"channel": channel, "ts": ts})).await.map(drop)
    }

    async fn call(&self, method: &str, body: Value) -> Result<Value, SlackFailure> {
        self.send(ApiRequest { method: Method::POST, url: self.url(method), body: ApiBody::Json(body) }).await
    }

    /// Methods that read take a form and no JSON.
    async fn form_call(&self, method: &str, fields: &[(&str, &str)]) -> Result<Value, SlackFailure> {
        let url = self.url(method);
        let mut encoded = url.clone();
        encoded.query_pairs_mut().clear().extend_pairs(fields);
        let body = ApiBody::Form(encoded.query().unwrap_or_default().to_owned());
        self.send(ApiRequest { method: Method::POST, url, body }).await
    }

    fn url(&self, method: &str) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push(method);
        }
        url
    }

    async fn send(&self, request: ApiRequest) -> Result<Value, SlackFailure> {
        let answer = self.sender.send(&request).await?;
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            return Err(SlackFailure::Limited { after: answer.retry_after().unwrap_or(DEFAULT_RETRY_AFTER) });
        }
        if !answer.status.is_success() {
            return Err(SlackFailure::Status(answer.status.as_u16()));
        }
        let value: Value = answer.json().map_err(|error| SlackFailure::unreadable(&error.to_string()))?;
        match (value["ok"].as_bool(), value["error"].as_str()) {
            (Some(true), _) => Ok(value),
            (_, Some("ratelimited")) => {
                Err(SlackFailure::Limited { after: answer.retry_after().unwrap_or(DEFAULT_RETRY_AFTER) })
            }
            (_, Some(error)) => Err(SlackFailure::Refused(error.chars().take(100).collect())),
            (_, None) => Err(SlackFailure::unreadable("neither `ok` nor `error`")),
        }
    }
}

fn parsed<T: for<'de> Deserialize<'de>>(answer: Value) -> Result<T, SlackFailure> {
    serde_json::from_value(answer).map_err(|error| SlackFailure::unreadable(&error.to_string()))
}

/// The messages of an answer. One that is not readable is left out.
fn messages(mut answer: Value) -> Vec<SlackMessage> {
    match answer["messages"].take() {
        Value::Array(found) => found.into_iter().filter_map(|message| serde_json::from_value(message).ok()).collect(),
        _ => Vec::new(),
    }
}

impl SlackFailure {
    fn unreadable(reason: &str) -> Self {
        Self::ApiRequestError(ApiRequestError {
            reason: format!("the answer of Slack is unreadable: {reason}"),
            is_unsent: false,
        })
    }

    pub(super) fn is_error(&self, wanted: &str) -> bool {
        matches!(self, Self::Refused(error) if error == wanted)
    }

    /// What an action that failed like this has come to.
    pub(super) fn into_failure(self) -> PlatformFailure {
        let reason = self.to_string();
        match self {
            Self::ApiRequestError(no_answer) => no_answer.into_failure(),
            Self::Limited { after } => PlatformFailure::RetryAfter { after, reason },
            Self::Status(500..) => PlatformFailure::Unknown { reason },
            Self::Refused(error) if UNCERTAIN.contains(&error.as_str()) => PlatformFailure::Unknown { reason },
            Self::Status(_) | Self::Refused(_) => PlatformFailure::Permanent { reason },
        }
    }
}
