//! Staying connected to Slack: the endpoint for events, and what was missed.

use std::net::SocketAddr;
use std::time::Duration;

use hyper::HeaderMap;

use super::SlackDriver;
use super::events::SlackMessage;
use super::web_api::SlackFailure;
use crate::callback_driver::CallbackPlatform;
use crate::connected_channels::ConnectedChannels;
use crate::http_receiver::{PlatformAnswer, PlatformRequest};
use crate::platform::{ActionKey, BridgeEnded, PlatformChannel, PlatformEvent, PlatformEvents, PlatformMessageId};

/// How far back a channel is read after a connect, and how many of its threads.
const HISTORY_LIMIT: u32 = 100;
const MAX_THREADS_READ: usize = 5;

const MAX_REQUEST_BYTES: usize = 1 << 20;

impl CallbackPlatform for SlackDriver {
    type Failure = SlackFailure;

    const CALLER: &'static str = "Slack";

    fn listen(&self) -> SocketAddr {
        self.listen
    }

    fn channels(&self) -> &ConnectedChannels {
        &self.channels
    }

    /// Who sent a request is known when all of it is there.
    fn max_request_bytes(&self, _headers: &HeaderMap) -> usize {
        MAX_REQUEST_BYTES
    }

    async fn answer(&self, request: PlatformRequest, events: &PlatformEvents) -> PlatformAnswer {
        self.take_request(request, events).await
    }

    fn retry_after(failure: &SlackFailure) -> Option<Duration> {
        match failure {
            SlackFailure::Limited { after } => Some(*after),
            _ => None,
        }
    }

    async fn connect(&self, events: &PlatformEvents) -> Result<Result<(), SlackFailure>, BridgeEnded> {
        if self.identity.borrow().is_none() {
            match self.api.identity().await {
                Ok(identity) => drop(self.identity.send_replace(Some(identity))),
                Err(failure) => return Ok(Err(failure)),
            }
        }
        for channel in &self.channels.missing() {
            match self.read_channel(channel).await {
                Ok(messages) => self.catch_up(channel, messages, events).await?,
                Err(failure @ SlackFailure::Refused(_)) => {
                    tracing::warn!(%channel, %failure, "slack bridge: cannot read the channel; invite the app into it");
                }
                Err(failure) => return Ok(Err(failure)),
            }
        }
        Ok(Ok(()))
    }
}

impl SlackDriver {
    /// The newest messages of a channel with those of its newest threads, oldest first.
    pub(super) async fn read_channel(&self, channel: &PlatformChannel) -> Result<Vec<SlackMessage>, SlackFailure> {
        // Possible in a public channel. Into a private one the app is invited, and the history tells whether it was.
        if let Err(failure) = self.api.join(channel.as_str()).await
            && !matches!(failure, SlackFailure::Refused(_))
        {
            return Err(failure);
        }
        let mut messages = self.api.history(channel.as_str(), HISTORY_LIMIT).await?;
        let threads: Vec<_> =
            messages.iter().rev().filter(|message| message.reply_count > 0).map(|message| message.ts.clone()).collect();
        for root in threads.into_iter().take(MAX_THREADS_READ) {
            let replies = self.api.replies(channel.as_str(), &root).await?;
            messages.extend(replies.into_iter().filter(|reply| reply.ts != root));
        }
        // A `ts` has seconds of a fixed width for centuries.
        messages.sort_by(|one, other| one.ts.cmp(&other.ts));
        // What was written before the app came into the channel is not the bridge's.
        let own = self.identity.borrow().as_ref().map(|identity| identity.user_id.clone());
        let entered = messages.iter().rposition(|message| message.is_entry() && message.user == own);
        Ok(messages.split_off(entered.map_or(0, |at| at + 1)))
    }

    async fn catch_up(
        &self,
        channel: &PlatformChannel,
        messages: Vec<SlackMessage>,
        events: &PlatformEvents,
    ) -> Result<(), BridgeEnded> {
        self.channels.connect(channel, events).await?;
        for message in messages {
            // Anybody's app can write metadata.
            let event = match message.key().filter(|_| self.is_own(&message)) {
                Some(key) => Some(PlatformEvent::Echo {
                    key: ActionKey::new(key),
                    id: Some(PlatformMessageId::new(&message.ts)),
                }),
                None => self.message_event(channel, message).await,
            };
            if let Some(event) = event {
                events.report(channel.clone(), event).await?;
            }
        }
        events.report(channel.clone(), PlatformEvent::CaughtUp).await?;
        tracing::info!(%channel, "slack bridge: connected");
        Ok(())
    }
}
