//! How many HTTP requests a connection has under way, and the tasks that make them.

use std::sync::Arc;

use parking_lot::Mutex;
use salon_mcp::RpcHead;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use super::UpstreamError;

/// Requests at once in each lane.
const WIDTH: usize = 64;

/// What a message is to its carrier. Each kind has places of its own, because the answer to a server's question must not wait
/// behind the calls that wait for it, and a subscription would hold its place for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SendLane {
    /// Gets an answer.
    Request,
    /// Gets an answer only when it ends: `subscriptions/listen`.
    Standing,
    /// Gets none: a notification, or an answer of ours.
    Word,
}

impl SendLane {
    pub(super) fn of(head: &RpcHead<'_>) -> Self {
        match (head.request_id(), head.method.as_deref()) {
            (Some(_), Some("subscriptions/listen")) => Self::Standing,
            (Some(_), _) => Self::Request,
            (None, _) => Self::Word,
        }
    }
}

/// Whether this is the word that ends the handshake, in MCP or in its draft dialect.
pub(super) fn ends_handshake(head: &RpcHead<'_>) -> bool {
    head.id.is_none() && matches!(head.method.as_deref(), Some("notifications/initialized" | "initialized"))
}

/// The requests under way. Dropping this ends them.
#[derive(Debug)]
pub(super) struct Lanes {
    permits: [Arc<Semaphore>; 3],
    tasks: Mutex<JoinSet<()>>,
    /// False while `notifications/initialized` is on its way: what comes after it must not overtake it.
    open: watch::Sender<bool>,
}

impl Lanes {
    pub(super) fn new() -> Self {
        let permits = [(); 3].map(|()| Arc::new(Semaphore::new(WIDTH)));
        Self { permits, tasks: Mutex::new(JoinSet::new()), open: watch::Sender::new(true) }
    }

    /// Waits for a place. A permanent one is not waited for: it may never come free.
    pub(super) async fn place(&self, lane: SendLane) -> Result<OwnedSemaphorePermit, UpstreamError> {
        let permits = self.permits[lane as usize].clone();
        match lane {
            SendLane::Standing => permits.try_acquire_owned().map_err(|_| UpstreamError::TooManyStreams),
            SendLane::Request | SendLane::Word => permits.acquire_owned().await.map_err(|_| UpstreamError::Closed),
        }
    }

    /// Runs a task that ends with the connection.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Holds everything back that has not been posted yet, until what is returned is dropped.
    pub(super) fn hold(&self) -> SendGate {
        self.open.send_replace(false);
        SendGate(self.open.clone())
    }

    /// Waits until nothing is held back.
    pub(super) fn ready(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut open = self.open.subscribe();
        async move {
            // An error means that the connection is gone, and with it the waiting senders.
            let _ = open.wait_for(|open| *open).await;
        }
    }
}

/// Holds messages back.
#[derive(Debug)]
pub(super) struct SendGate(watch::Sender<bool>);

impl Drop for SendGate {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}
