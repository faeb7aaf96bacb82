//! Discord: a bot reads by the gateway's WebSocket and writes by webhooks, which can show any name.
//!
//! Discord API v10. Replies are not possible for webhooks. Discord has no idempotency key for them either: what became of a message whose
//! answer was lost is found by comparing it with the newest message of the bridge in the channel.

mod connection;
pub mod gateway_payload;
pub mod gateway_session;
mod inbound;
mod rate_limits;
mod rest;
mod setup;
#[cfg(test)]
mod tests;
pub mod text;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::rest::{DiscordApi, DiscordFailure, DiscordWebhook};
pub use self::setup::{init, open};
use crate::connected_channels::ConnectedChannels;
use crate::platform::{
    ActionKey, CheckFinding, DriverError, Pace, PlatformAction, PlatformCapabilities, PlatformChannel, PlatformDriver,
    PlatformEvent, PlatformEvents, PlatformFailure, PlatformMessageId, PlatformReceipt, RenderedText, ResendRule,
    Speaker,
};
use crate::rich::Flavour;

/// A message has at most 2,000 characters.
const MAX_TEXT_BYTES: usize = 2000;

const MAX_PARTS: usize = 5;

/// "Webhook", "Create Webhook": names have 1 to 80 characters.
const MAX_USERNAME_CHARS: usize = 80;

/// The bridge to the channels of one bot.
pub struct DiscordDriver {
    api: DiscordApi,
    token: String,
    channels: ConnectedChannels,
    webhook_name: String,
    timing: DiscordTiming,
    own_user: Mutex<Option<String>>,
    states: Mutex<HashMap<PlatformChannel, WebhookState>>,
}

#[derive(Debug, Clone, Copy)]
struct DiscordTiming {
    reconnect_base: Duration,
    message_interval: Duration,
}

/// What is known of a channel.
#[derive(Clone)]
struct WebhookState {
    webhook: DiscordWebhook,
    /// The newest message of the bridge that the history had, until the bridge writes again.
    newest: Option<WrittenMessage>,
    /// A message that was perhaps sent by this process.
    unanswered: Option<(ActionKey, WrittenMessage)>,
}

/// A message as the bridge writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct WrittenMessage {
    id: PlatformMessageId,
    username: String,
    content: String,
}

impl WrittenMessage {
    fn is_same_text(&self, other: &Self) -> bool {
        // Discord removes white space at both ends.
        self.username == other.username && self.content.trim() == other.content.trim()
    }
}

impl DiscordDriver {
    fn is_own_webhook(&self, id: &str) -> bool {
        self.states.lock().values().any(|state| state.webhook.id == id)
    }

    /// Remembers what a connect found. Returns the echo of a message that was in doubt, if it has arrived.
    fn remember_channel(
        &self,
        channel: &PlatformChannel,
        webhook: DiscordWebhook,
        newest: Option<WrittenMessage>,
    ) -> Option<PlatformEvent> {
        let mut states = self.states.lock();
        let unanswered = states.remove(channel).and_then(|state| state.unanswered);
        let echo = match (unanswered, &newest) {
            (Some((key, sent)), Some(newest)) if newest.is_same_text(&sent) => {
                Some(PlatformEvent::Echo { key, id: Some(newest.id.clone()) })
            }
            _ => None,
        };
        // A message that has been matched is not matched again.
        let newest = newest.filter(|_| echo.is_none());
        states.insert(channel.clone(), WebhookState { webhook, newest, unanswered: None });
        echo
    }

    async fn send(
        &self,
        channel: &PlatformChannel,
        key: &ActionKey,
        speaker: Option<&Speaker>,
        text: &RenderedText,
    ) -> Result<PlatformReceipt, PlatformFailure> {
        let username = username(speaker.map_or(self.webhook_name.as_str(), |speaker| speaker.name.as_str()));
        let written = WrittenMessage {
            id: PlatformMessageId::new(""),
            username: username.clone(),
            content: text.formatted.clone(),
        };
        let webhook = {
            let mut states = self.states.lock();
            let state = states.get_mut(channel).ok_or_else(|| no_webhook(channel))?;
            // A message of before a crash: the core has its key, the channel has the message.
            if let Some(newest) = state.newest.take().filter(|newest| newest.is_same_text(&written)) {
                return Ok(PlatformReceipt { id: Some(newest.id) });
            }
            state.unanswered = Some((key.clone(), written));
            state.webhook.clone()
        };
        let body = json!({
            "content": text.formatted, "username": username, "allowed_mentions": allowed_mentions(text),
        });
        let sent = self.api.execute(&webhook, body).await;
        let sent = sent.map_err(DiscordFailure::into_failure);
        if !matches!(sent, Err(PlatformFailure::Unknown { .. }))
            && let Some(state) = self.states.lock().get_mut(channel)
        {
            state.unanswered = None;
        }
        Ok(PlatformReceipt { id: Some(PlatformMessageId::new(sent?.id)) })
    }

    async fn send_action(
        &self,
        channel: &PlatformChannel,
        action: &PlatformAction,
    ) -> Result<PlatformReceipt, PlatformFailure> {
        match action {
            PlatformAction::Send { key, speaker, text, .. } => self.send(channel, key, speaker.as_ref(), text).await,
            PlatformAction::Edit { target, text, .. } => {
                let webhook = self.webhook_of(channel)?;
                let body = json!({"content": text.formatted, "allowed_mentions": {"parse": []}});
                let edited = self.api.edit(&webhook, target.as_str(), body).await;
                edited.map_err(DiscordFailure::into_failure)?;
                Ok(PlatformReceipt::default())
            }
            PlatformAction::Retract { target, .. } => {
                let webhook = self.webhook_of(channel)?;
                match self.api.delete(&webhook, target.as_str()).await {
                    // Somebody was faster.
                    Err(failure) if failure.is_status(reqwest::StatusCode::NOT_FOUND) => {}
                    deleted => deleted.map_err(DiscordFailure::into_failure)?,
                }
                Ok(PlatformReceipt::default())
            }
            PlatformAction::RemovePuppet { .. } => Ok(PlatformReceipt::default()),
        }
    }

    fn webhook_of(&self, channel: &PlatformChannel) -> Result<DiscordWebhook, PlatformFailure> {
        let states = self.states.lock();
        states.get(channel).map(|state| state.webhook.clone()).ok_or_else(|| no_webhook(channel))
    }
}

fn no_webhook(channel: &PlatformChannel) -> PlatformFailure {
    PlatformFailure::Offline { reason: format!("the bridge has no webhook in {channel}") }
}

/// Only people that the room mentioned are notified, never `@everyone` ("Allowed Mentions Object").
fn allowed_mentions(text: &RenderedText) -> Value {
    let users: Vec<_> = text.mentions.iter().map(|user| user.as_str()).filter(|id| text::is_snowflake(id)).collect();
    json!({"parse": [], "users": users})
}

/// A name as webhooks may have it ("Webhook", "Create Webhook"): not empty, and without the words that Discord keeps for itself.
fn username(name: &str) -> String {
    let mut name: String = name.trim().chars().filter(|c| !c.is_control()).take(MAX_USERNAME_CHARS - 8).collect();
    for word in ["discord", "clyde"] {
        while let Some(at) = name.to_ascii_lowercase().find(word) {
            name.insert(at + 1, '-');
        }
    }
    let is_kept = ["everyone", "here"].iter().any(|word| name.eq_ignore_ascii_case(word));
    if name.is_empty() || is_kept { format!("{name} (Salon)").trim().to_owned() } else { name }
}

impl PlatformDriver for DiscordDriver {
    fn capabilities(&self) -> PlatformCapabilities {
        PlatformCapabilities {
            flavour: Flavour::DiscordMarkdown,
            max_text_bytes: MAX_TEXT_BYTES,
            is_multiline: true,
            max_parts: MAX_PARTS,
            can_edit: true,
            can_retract: true,
            can_reply: false,
            shows_speaker: true,
            resend: ResendRule::AfterEcho,
            // Answers tell the limits. This keeps a busy room from running into them.
            pace: Pace { interval: self.timing.message_interval, burst: 5 },
        }
    }

    fn run(
        self: Arc<Self>,
        events: PlatformEvents,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<(), DriverError>> {
        async move { self.stay(events, stop).await }.boxed()
    }

    fn perform<'a>(
        &'a self,
        channel: &'a PlatformChannel,
        action: &'a PlatformAction,
    ) -> BoxFuture<'a, Result<PlatformReceipt, PlatformFailure>> {
        self.channels.perform(channel, self.send_action(channel, action)).boxed()
    }

    fn check(&self) -> BoxFuture<'_, Vec<CheckFinding>> {
        self.look().boxed()
    }
}
