//! What processes share that may run the same bridge one after the other: how far it has come, the secret of its ids, and its newest messages.
//!
//! Without it, a process that takes over would show again what the other has shown, publish again what the other has published, and not know what is replied to.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use salon_protocol::EnvelopeId;
use serde::{Deserialize, Serialize};

use super::BridgeError;
use super::shared_messages::{SharedMessages, is_shared};
use crate::core::{StoreChange, StoredChannel};
use crate::platform::{ActionKey, PlatformChannel};
use crate::room::HeldNotice;
use crate::store::BridgeStore;

/// Small values that outlive the process. Only the process that runs the bridge writes them.
pub trait SharedState: Send + Sync + 'static {
    fn read<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>, String>>;

    fn keep<'a>(&'a self, name: &'a str, value: Vec<u8>) -> BoxFuture<'a, Result<(), String>>;
}

/// How far a channel has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ChannelProgress {
    /// Whose store has the rest.
    store: String,
    position: Option<String>,
    attempt: Option<ActionKey>,
}

/// The shared state of one channel.
pub(super) struct SharedChannel {
    state: Arc<dyn SharedState>,
    name: String,
    progress: ChannelProgress,
    messages: SharedMessages,
}

/// The secret from which ids of envelopes follow: the first process's, for all.
pub(super) async fn shared_key(state: &dyn SharedState, own: [u8; 32]) -> Result<[u8; 32], BridgeError> {
    const NAME: &str = "key";
    let found = state.read(NAME).await.map_err(BridgeError::Shared)?;
    let key = found.and_then(|bytes| bytes.try_into().ok()).unwrap_or(own);
    // Written each time, so that it is kept for as long as the bridge is used.
    state.keep(NAME, key.to_vec()).await.map_err(BridgeError::Shared)?;
    Ok(key)
}

impl SharedChannel {
    /// Takes over from the process that ran the channel last: where that was another, its progress replaces that of the store.
    pub(super) async fn take_over(
        state: Arc<dyn SharedState>,
        channel: &PlatformChannel,
        store: &mut BridgeStore,
        stored: &mut StoredChannel,
    ) -> Result<Self, BridgeError> {
        let name = format!("channel:{channel}");
        let found = state.read(&name).await.map_err(BridgeError::Shared)?;
        let last = found.and_then(|bytes| serde_json::from_slice::<ChannelProgress>(&bytes).ok());
        let messages = SharedMessages::load(state.clone(), &name).await.map_err(BridgeError::Shared)?;
        let id = store.id();
        if let Some(last) = last.filter(|last| last.store != id) {
            let position = last.position.and_then(|text| EnvelopeId::new(text).ok());
            // A call that is too long to be shared may still wait.
            let is_decided =
                |notice: &&HeldNotice| is_shared(notice) && !messages.held().iter().any(|held| held.id == notice.id);
            let decided =
                stored.held.iter().filter(is_decided).map(|notice| StoreChange::HeldRemove(notice.id.clone()));
            let mut changes: Vec<_> = decided.collect();
            changes.extend(messages.messages().cloned().map(StoreChange::Map));
            changes.extend(messages.held().iter().cloned().map(StoreChange::HeldAdd));
            changes.extend(position.map(StoreChange::Position));
            changes.push(StoreChange::Attempt(last.attempt));
            store.commit(channel, &changes)?;
            changes.into_iter().for_each(|change| stored.apply(change));
        }
        let position = stored.position.as_ref().map(|position| position.as_str().to_owned());
        let progress = ChannelProgress { store: id, position, attempt: stored.attempt.clone() };
        Ok(Self { state, name, progress, messages })
    }

    /// Tells what was committed here, before what follows it is done. A failure is left to the lease, which ends soon if this goes on.
    pub(super) async fn committed(&mut self, changes: &[StoreChange]) {
        self.messages.apply(changes);
        if let Err(error) = self.messages.write().await {
            tracing::warn!(channel = %self.name, error, "bridge: messages not stored for other gateways, retrying with the next change");
        }
        let before = self.progress.clone();
        for change in changes {
            match change {
                StoreChange::Position(position) => self.progress.position = Some(position.as_str().to_owned()),
                StoreChange::Attempt(attempt) => self.progress.attempt.clone_from(attempt),
                _ => {}
            }
        }
        if before == self.progress {
            return;
        }
        let value = serde_json::to_vec(&self.progress).expect("texts are JSON");
        if let Err(error) = self.state.keep(&self.name, value).await {
            tracing::warn!(channel = %self.name, error, "bridge: progress not stored for other gateways, retrying with the next change");
        }
    }
}
