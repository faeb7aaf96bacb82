//! Staying connected to Discord: webhooks of the bridge's own, the gateway's WebSocket, what was missed.

use std::time::{Duration, Instant};

use reqwest::StatusCode;
use salon_client::Backoff;
use salon_client::internal::{SocketEvent, TextSocket};
use tokio_util::sync::CancellationToken;

use super::gateway_payload::{DiscordEvent, MAX_PAYLOAD_BYTES};
use super::gateway_session::{AfterClose, GatewaySession, GatewayStep};
use super::rest::{DiscordFailure, DiscordWebhook};
use super::{DiscordDriver, WrittenMessage};
use crate::platform::{BridgeEnded, DriverError, PlatformChannel, PlatformEvent, PlatformEvents, PlatformMessageId};

/// How far back a channel is read after a connect.
const HISTORY_LIMIT: u32 = 100;

/// The wait before a reconnect, so that what was under way has been reported as failed by then.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);

/// How a connection ended.
enum Ended {
    Stopped,
    Fatal(DriverError),
    Lost(String),
}

impl From<BridgeEnded> for Ended {
    fn from(BridgeEnded: BridgeEnded) -> Self {
        Self::Stopped
    }
}

impl DiscordDriver {
    pub(super) async fn stay(&self, events: PlatformEvents, stop: CancellationToken) -> Result<(), DriverError> {
        let backoff = Backoff { base: self.timing.reconnect_base, ..Backoff::default() };
        let mut session = None;
        let mut attempt = 0;
        loop {
            let connecting = self.connect(&mut session, &mut attempt, &events);
            let ended = tokio::select! { biased;
                () = stop.cancelled() => return Ok(()),
                ended = connecting => ended,
            };
            match ended {
                Ended::Stopped => return Ok(()),
                Ended::Fatal(error) => return Err(error),
                Ended::Lost(reason) => {
                    if self.channels.disconnect(&reason, &events).await.is_err() {
                        return Ok(());
                    }
                    let delay =
                        backoff.delay(attempt, rand::random()).max(RECONNECT_DELAY.min(self.timing.reconnect_base));
                    attempt = attempt.saturating_add(1);
                    tracing::warn!(
                        reason,
                        delay_ms = delay.as_millis(),
                        "discord bridge: connection lost, reconnecting"
                    );
                    tokio::select! { biased;
                        () = stop.cancelled() => return Ok(()),
                        () = tokio::time::sleep(delay) => {}
                    }
                }
            }
        }
    }

    /// One connection, from its address to its end.
    async fn connect(&self, session: &mut Option<GatewaySession>, attempt: &mut u32, events: &PlatformEvents) -> Ended {
        let session = match session {
            Some(session) => session,
            None => match self.prepare().await {
                Ok(new) => session.insert(new),
                Err(failure) if failure.is_status(StatusCode::UNAUTHORIZED) => {
                    return Ended::Fatal(DriverError("Discord does not know the bot's token".into()));
                }
                Err(failure) => return Ended::Lost(failure.to_string()),
            },
        };
        let mut socket = match TextSocket::open_bounded(&session.address(), MAX_PAYLOAD_BYTES).await {
            Ok(socket) => socket,
            Err(error) => return Ended::Lost(error.to_string()),
        };
        session.opened(Instant::now());
        loop {
            let timeout = session.next_timeout().unwrap_or_else(Instant::now);
            // What has come is read before the time is looked at: an acknowledgement that waited while a catch-up went on is no silence.
            let steps = tokio::select! { biased;
                next = socket.next() => match next {
                    Ok(SocketEvent::Text(text)) => session.handle_text(&text, Instant::now(), rand::random()),
                    Ok(SocketEvent::Sent) => continue,
                    Err(closed) => {
                        return match session.closed(closed.code) {
                            AfterClose::Reconnect => Ended::Lost(closed.why.to_string()),
                            AfterClose::Fatal(reason) => Ended::Fatal(DriverError(reason.into())),
                        };
                    }
                },
                () = tokio::time::sleep_until(timeout.into()) => session.handle_timeout(Instant::now()),
                () = self.channels.in_doubt() => {
                    // What became of an action is found in the history, which is read after a connect.
                    session.closed(None);
                    return Ended::Lost("an action was not answered".into());
                }
            };
            for step in steps {
                match step {
                    GatewayStep::Send(text) => socket.send(text),
                    GatewayStep::Event(event) => {
                        if let Err(ended) = self.report(*event, events).await {
                            return ended.into();
                        }
                    }
                    GatewayStep::Online { is_resumed } => {
                        *attempt = 0;
                        tracing::info!(is_resumed, "discord bridge: connected");
                        match self.catch_up(events).await {
                            Ok(Ok(())) => {}
                            Ok(Err(failure)) => {
                                session.closed(None);
                                return Ended::Lost(failure.to_string());
                            }
                            Err(ended) => return ended.into(),
                        }
                    }
                    GatewayStep::Reconnect => {
                        session.closed(None);
                        return Ended::Lost("Discord asked for a new connection, or was silent".into());
                    }
                }
            }
        }
    }

    /// Finds out where the gateway is and who the bot is.
    async fn prepare(&self) -> Result<GatewaySession, DiscordFailure> {
        let user = self.api.own_user().await?;
        *self.own_user.lock() = Some(user.id);
        let url = self.api.gateway_url().await?;
        Ok(GatewaySession::new(&self.token, &url))
    }

    async fn report(&self, event: DiscordEvent, events: &PlatformEvents) -> Result<(), BridgeEnded> {
        for (channel, event) in self.translate(event) {
            events.report(channel, event).await?;
        }
        Ok(())
    }

    /// Connects every channel: a webhook, what was written while the bridge was away, and what it had written itself.
    async fn catch_up(&self, events: &PlatformEvents) -> Result<Result<(), DiscordFailure>, BridgeEnded> {
        for channel in &self.channels.all {
            let found = async {
                let webhook = self.webhook(channel).await?;
                Ok((webhook, self.api.messages(channel.as_str(), HISTORY_LIMIT).await?))
            };
            let (webhook, messages) = match found.await {
                Ok(found) => found,
                Err(failure @ DiscordFailure::Refused { status: 400..=499, .. }) => {
                    tracing::warn!(%channel, %failure, "discord bridge: cannot use the channel; see `salon bridge check`");
                    continue;
                }
                Err(failure) => return Ok(Err(failure)),
            };
            let is_own = |id: &Option<String>| id.as_deref() == Some(&webhook.id);
            let newest = messages.iter().rev().find(|message| is_own(&message.webhook_id));
            let newest = newest.map(|message| WrittenMessage {
                id: PlatformMessageId::new(&message.id),
                username: message.author.as_ref().map(|user| user.username.clone()).unwrap_or_default(),
                content: message.content.clone().unwrap_or_default(),
            });
            // An id begins with the time. The webhook is as old as the bridge is in this channel, and what was written before is not its own.
            let age = |id: &str| id.parse::<u64>().unwrap_or_default();
            let since = age(&webhook.id);
            let echo = self.remember_channel(channel, webhook, newest);
            let missed = messages.into_iter().filter(|message| age(&message.id) > since);
            self.channels.connect(channel, events).await?;
            for event in missed.filter_map(|message| self.message_event(message)) {
                events.report(channel.clone(), event).await?;
            }
            if let Some(echo) = echo {
                events.report(channel.clone(), echo).await?;
            }
            events.report(channel.clone(), PlatformEvent::CaughtUp).await?;
        }
        Ok(Ok(()))
    }

    /// The bridge's webhook in a channel, which is made if there is none.
    pub(super) async fn webhook(&self, channel: &PlatformChannel) -> Result<DiscordWebhook, DiscordFailure> {
        let bot = self.own_user.lock().clone();
        let existing = self.api.webhooks(channel.as_str()).await?.into_iter().find(|webhook| {
            // Only the application that made a webhook is given its token.
            webhook.token.is_some()
                && webhook.name.as_deref() == Some(&self.webhook_name)
                && (webhook.application_id.is_none() || webhook.application_id == bot)
        });
        match existing {
            Some(webhook) => Ok(webhook),
            None => self.api.create_webhook(channel.as_str(), &self.webhook_name).await,
        }
    }
}
