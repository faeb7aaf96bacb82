//! Who hears when something changes: clients with a session, and stateless ones while they listen.

use std::collections::HashSet;

use parking_lot::{Mutex, MutexGuard};
use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::SubscriptionContext;
use rmcp::{Peer, RoleServer};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use uuid::Uuid;

#[derive(Clone, Debug)]
pub(crate) enum Change {
    Tools,
    Prompts,
    Resource(String),
}

pub(crate) struct Changes {
    listeners: broadcast::Sender<Change>,
    sessions: Mutex<Vec<Session>>,
}

struct Session {
    id: Uuid,
    peer: Peer<RoleServer>,
    /// The resources it wants to hear of.
    resources: HashSet<String>,
}

impl Default for Changes {
    fn default() -> Self {
        Self { listeners: broadcast::Sender::new(64), sessions: Mutex::default() }
    }
}

impl Changes {
    pub(crate) fn enter(&self, id: Uuid, peer: Peer<RoleServer>) {
        self.sessions().push(Session { id, peer, resources: HashSet::new() });
    }

    pub(crate) fn subscribe(&self, id: Uuid, uri: String) {
        if let Some(session) = self.sessions().iter_mut().find(|session| session.id == id) {
            session.resources.insert(uri);
        }
    }

    pub(crate) fn unsubscribe(&self, id: Uuid, uri: &str) {
        if let Some(session) = self.sessions().iter_mut().find(|session| session.id == id) {
            session.resources.remove(uri);
        }
    }

    fn sessions(&self) -> MutexGuard<'_, Vec<Session>> {
        let mut sessions = self.sessions.lock();
        sessions.retain(|session| !session.peer.is_transport_closed());
        sessions
    }

    /// Tells everyone who is to hear of `change`.
    pub(crate) async fn announce(&self, change: Change) {
        // There may be no stateless client to hear it.
        self.listeners.send(change.clone()).ok();
        let wants = |session: &&Session| match &change {
            Change::Tools | Change::Prompts => true,
            Change::Resource(uri) => session.resources.contains(uri),
        };
        let peers: Vec<_> = self.sessions().iter().filter(wants).map(|session| session.peer.clone()).collect();
        for peer in peers {
            let told = match &change {
                Change::Tools => peer.notify_tool_list_changed().await,
                Change::Prompts => peer.notify_prompt_list_changed().await,
                Change::Resource(uri) => {
                    peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri.clone())).await
                }
            };
            // It fails only for a client that left a moment ago.
            told.ok();
        }
    }

    /// Passes changes on to a stateless client until it stops listening.
    pub(crate) async fn forward(&self, context: SubscriptionContext) {
        let mut changes = self.listeners.subscribe();
        loop {
            let change = tokio::select! { biased;
                () = context.cancelled() => return,
                change = changes.recv() => change,
            };
            let sink = context.sink();
            // The sink refuses what the client did not ask for.
            match change {
                Ok(Change::Tools) => drop(sink.notify_tool_list_changed().await),
                Ok(Change::Prompts) => drop(sink.notify_prompt_list_changed().await),
                Ok(Change::Resource(uri)) => drop(sink.notify_resource_updated(uri).await),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    }
}
