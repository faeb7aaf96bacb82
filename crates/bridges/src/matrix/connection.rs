//! Staying in the rooms: the bridge's own user registers and joins, and joins again after the homeserver was away.

use std::net::SocketAddr;
use std::time::Duration;

use hyper::HeaderMap;
use serde_json::Value;

use super::MatrixDriver;
use super::homeserver::{HomeserverFailure, KEY_MEMBER};
use super::inbound::{authorize, person};
use crate::callback_driver::CallbackPlatform;
use crate::connected_channels::ConnectedChannels;
use crate::http_receiver::{PlatformAnswer, PlatformRequest};
use crate::platform::{ActionKey, BridgeEnded, PlatformChannel, PlatformEvent, PlatformEvents, PlatformMessageId};

/// Members that are reported when the bridge enters. Others are when they first speak.
const MAX_REPORTED_MEMBERS: usize = 500;

/// Synapse sends up to 100 events of up to 64 KiB, and what is around them.
const MAX_TRANSACTION_BYTES: usize = 16 << 20;

/// The largest request without the homeserver's token, which is refused when it has been read.
const MAX_UNKNOWN_REQUEST_BYTES: usize = 16 << 10;

impl CallbackPlatform for MatrixDriver {
    type Failure = HomeserverFailure;

    const CALLER: &'static str = "the homeserver";

    fn listen(&self) -> SocketAddr {
        self.listen
    }

    fn channels(&self) -> &ConnectedChannels {
        &self.channels
    }

    fn max_request_bytes(&self, headers: &HeaderMap) -> usize {
        if authorize(headers, &self.hs_token).is_none() { MAX_TRANSACTION_BYTES } else { MAX_UNKNOWN_REQUEST_BYTES }
    }

    async fn answer(&self, request: PlatformRequest, events: &PlatformEvents) -> PlatformAnswer {
        self.take_request(request, events).await
    }

    fn disconnected(&self) {
        // What comes now waits, because what was missed is older.
        self.ready.send_replace(false);
    }

    async fn invited(&self) {
        self.invited.notified().await;
    }

    fn look_interval(&self) -> Option<Duration> {
        Some(self.look_interval)
    }

    async fn look(&self, events: &PlatformEvents) -> Result<Result<(), HomeserverFailure>, BridgeEnded> {
        self.look_for_unsent(events).await
    }

    async fn connect(&self, events: &PlatformEvents) -> Result<Result<(), HomeserverFailure>, BridgeEnded> {
        if let Err(failure) = self.homeserver.register(&self.ids.bot).await {
            return Ok(Err(failure));
        }
        for channel in &self.channels.missing() {
            let room = match self.join_channel(channel).await {
                Ok(room) => room,
                Err(failure @ HomeserverFailure::Refused { status: 400..=499, .. }) => {
                    tracing::warn!(%channel, %failure, bot = self.ids.bot_id(), "matrix bridge: cannot join, waiting for an invitation");
                    continue;
                }
                Err(failure) => return Ok(Err(failure)),
            };
            let catching_up = self.catch_up(channel, &room, events).await?;
            if let Err(failure) = catching_up {
                return Ok(Err(failure));
            }
            tracing::info!(%channel, %room, "matrix bridge: connected");
        }
        self.ready.send_replace(true);
        // A homeserver without this endpoint sends what it kept in its own time.
        let mut pinged = self.homeserver.ping(&self.appservice).await;
        if pinged.is_err() {
            // Synapse can have kept a connection to the process that was here before, and finds only now that it is closed.
            pinged = self.homeserver.ping(&self.appservice).await;
        }
        if let Err(failure) = pinged {
            tracing::warn!(%failure, listen = %self.listen, "matrix bridge: homeserver cannot reach the bridge, check `url` in its registration");
        }
        Ok(Ok(()))
    }
}

impl MatrixDriver {
    pub(super) async fn join_channel(&self, channel: &PlatformChannel) -> Result<String, HomeserverFailure> {
        let room = match channel.as_str().strip_prefix('#') {
            Some(_) => self.homeserver.resolve_alias(channel.as_str()).await?,
            None => channel.as_str().to_owned(),
        };
        self.homeserver.join(&room, None).await?;
        Ok(room)
    }

    /// Reports what a channel needs after a connect. What people wrote meanwhile comes in transactions, except what the homeserver has forgotten to send.
    async fn catch_up(
        &self,
        channel: &PlatformChannel,
        room: &str,
        events: &PlatformEvents,
    ) -> Result<Result<(), HomeserverFailure>, BridgeEnded> {
        let found = async {
            // Own messages, of which at most one of a channel is in doubt, and what the bridge was not given.
            let begun = self.begun.lock().remove(channel);
            let known = {
                let mut newest_taken = self.newest_taken.lock();
                if let Some(begun) = begun {
                    newest_taken.entry(room.to_owned()).or_insert(begun);
                }
                newest_taken.get(room).cloned()
            };
            let newest = self.homeserver.newest_events(room, known.as_deref()).await?;
            Ok((newest, self.homeserver.members(room).await?))
        };
        let (newest, members) = match found.await {
            Ok(found) => found,
            Err(failure) => return Ok(Err(failure)),
        };
        self.rooms.lock().insert(channel.clone(), room.to_owned());
        self.channels.connect(channel, events).await?;
        // Anybody can write the member; the sender is the homeserver's word.
        let is_own = |event: &&Value| event["sender"].as_str().is_some_and(|sender| self.ids.is_own(sender));
        for event in newest.iter().filter(is_own) {
            if let (Some(key), Some(id)) = (event["content"][KEY_MEMBER].as_str(), event["event_id"].as_str()) {
                let (key, id) = (ActionKey::new(key), Some(PlatformMessageId::new(id)));
                events.report(channel.clone(), PlatformEvent::Echo { key, id }).await?;
            }
        }
        let people = members.into_iter().filter(|member| !self.ids.is_own(&member.user_id));
        for member in people.take(MAX_REPORTED_MEMBERS) {
            let name = self.names.remember(&member.user_id, member.display_name);
            let author = person(member.user_id, name);
            events.report(channel.clone(), PlatformEvent::Join { author }).await?;
        }
        events.report(channel.clone(), PlatformEvent::CaughtUp).await?;
        if self.take_missed(room, newest, events).await.is_none() {
            tracing::warn!(%channel, "matrix bridge: missed messages not stored, looking again with the next connect");
        }
        Ok(Ok(()))
    }
}
