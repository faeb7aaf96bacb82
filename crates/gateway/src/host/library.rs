//! Where doors ask what somebody in a room offers: the catalogue of that room's host answers.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use salon_mcp::listing::{Item, Listing};
use salon_protocol::{ParticipantId, TopicName};
use tokio::sync::{mpsc, oneshot};

/// Questions that may wait for one host.
const MAX_WAITING: usize = 1024;

/// A question.
pub(super) struct Query {
    /// For whom.
    pub(super) asker: ParticipantId,
    pub(super) who: ParticipantId,
    pub(super) listing: Listing,
    pub(super) answer: oneshot::Sender<Option<Arc<[Item]>>>,
}

/// The hosts of the rooms that are open.
#[derive(Default)]
pub(crate) struct Library(Mutex<HashMap<TopicName, mpsc::Sender<Query>>>);

impl Library {
    fn hosts(&self) -> MutexGuard<'_, HashMap<TopicName, mpsc::Sender<Query>>> {
        self.0.lock()
    }

    /// What somebody offers, to whoever asks; `None` when that is not to be had.
    pub(crate) fn consult(
        &self,
        topic: &TopicName,
        asker: &ParticipantId,
        who: &ParticipantId,
        listing: Listing,
    ) -> BoxFuture<'static, Option<Arc<[Item]>>> {
        let host = self.hosts().get(topic).cloned();
        let (asker, who) = (asker.clone(), who.clone());
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            host?.send(Query { asker, who, listing, answer }).await.ok()?;
            answered.await.ok().flatten()
        })
    }

    /// A host begins to answer for a room, until the returned value is dropped.
    pub(super) fn open(self: &Arc<Self>, topic: &TopicName) -> Desk {
        let (sender, queries) = mpsc::channel(MAX_WAITING);
        self.hosts().insert(topic.clone(), sender.clone());
        Desk { library: self.clone(), topic: topic.clone(), sender, queries }
    }
}

/// Where one host hears what is asked.
pub(super) struct Desk {
    library: Arc<Library>,
    topic: TopicName,
    sender: mpsc::Sender<Query>,
    queries: mpsc::Receiver<Query>,
}

impl Desk {
    /// The next question. There is always another.
    pub(super) async fn next(&mut self) -> Query {
        match self.queries.recv().await {
            Some(query) => query,
            // Never: the sender is held here.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let mut hosts = self.library.hosts();
        // The room may have been opened anew meanwhile, with another host.
        if hosts.get(&self.topic).is_some_and(|host| host.same_channel(&self.sender)) {
            hosts.remove(&self.topic);
        }
    }
}
