//! The channels of a platform with an HTTP API, and which of them are connected.

use std::collections::HashSet;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::platform::{BridgeEnded, PlatformChannel, PlatformEvent, PlatformEvents, PlatformFailure};

pub(crate) struct ConnectedChannels {
    pub(crate) all: Vec<PlatformChannel>,
    connected: Mutex<HashSet<PlatformChannel>>,
    /// An action has ended without an answer: what became of it is found by connecting again.
    in_doubt: Notify,
}

impl ConnectedChannels {
    pub(crate) fn new(all: impl IntoIterator<Item = PlatformChannel>) -> Self {
        Self { all: all.into_iter().collect(), connected: Mutex::default(), in_doubt: Notify::new() }
    }

    pub(crate) fn is_connected(&self, channel: &PlatformChannel) -> bool {
        self.connected.lock().contains(channel)
    }

    /// Those that wait for their first connect, or for the next.
    #[cfg(any(feature = "matrix", feature = "slack"))]
    pub(crate) fn missing(&self) -> Vec<PlatformChannel> {
        let connected = self.connected.lock();
        self.all.iter().filter(|channel| !connected.contains(channel)).cloned().collect()
    }

    /// Notes that a channel can be written to, and reports it.
    pub(crate) async fn connect(&self, channel: &PlatformChannel, events: &PlatformEvents) -> Result<(), BridgeEnded> {
        self.connected.lock().insert(channel.clone());
        events.report(channel.clone(), PlatformEvent::Connected).await
    }

    pub(crate) async fn disconnect(&self, reason: &str, events: &PlatformEvents) -> Result<(), BridgeEnded> {
        let connected = std::mem::take(&mut *self.connected.lock());
        for channel in connected {
            events.report(channel, PlatformEvent::Disconnected { reason: reason.to_owned() }).await?;
        }
        Ok(())
    }

    /// Waits until an action has ended without an answer.
    pub(crate) async fn in_doubt(&self) {
        self.in_doubt.notified().await;
    }

    /// Does something in a channel that is connected. Without an answer, or where the future is dropped, the channels are connected again.
    pub(crate) async fn perform<T>(
        &self,
        channel: &PlatformChannel,
        action: impl Future<Output = Result<T, PlatformFailure>>,
    ) -> Result<T, PlatformFailure> {
        if !self.is_connected(channel) {
            return Err(PlatformFailure::Offline { reason: format!("the bridge is not in {channel}") });
        }
        let mut guard = UnansweredGuard { channels: self, is_answered: false };
        let done = action.await;
        guard.is_answered = !matches!(done, Err(PlatformFailure::Offline { .. } | PlatformFailure::Unknown { .. }));
        done
    }
}

struct UnansweredGuard<'a> {
    channels: &'a ConnectedChannels,
    is_answered: bool,
}

impl Drop for UnansweredGuard<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.channels.in_doubt.notify_one();
        }
    }
}
