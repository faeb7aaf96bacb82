//! Which gateway runs a bridge: a lease that the gateways of one log share, and how far the bridge has come.
//!
//! Deliberately absent: bridges. The program that starts the gateway runs them, and asks here whether it may.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use parking_lot::Mutex;
use salon_log::ReadError;
use salon_log::cluster::{Cluster, Keyspace};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use crate::auth::hex;

/// How far bridges have come. Kept for as long as a gateway may be away and still take over.
const PROGRESS: Keyspace = Keyspace { name: "bridgeprogress", time_to_live: Duration::from_secs(90 * 24 * 60 * 60) };

/// The keyspaces of bridges, with leases that last so long.
#[cfg(feature = "nats")]
pub(crate) fn keyspaces(lifetime: Duration) -> [Keyspace; 2] {
    [leases(lifetime), PROGRESS]
}

fn leases(lifetime: Duration) -> Keyspace {
    Keyspace { name: "bridgeleases", time_to_live: lifetime }
}

/// Gives out leases of bridges. Cloning shares it: the program that starts a gateway hands one clone to it, and asks the other.
#[derive(Clone)]
pub struct BridgeLeases {
    opened: Arc<watch::Sender<Option<SharedLeases>>>,
    /// Names this process among those that share the log.
    holder: [u8; 16],
}

#[derive(Clone)]
struct SharedLeases {
    cluster: Arc<dyn Cluster>,
    lifetime: Duration,
}

impl std::fmt::Debug for BridgeLeases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BridgeLeases(..)")
    }
}

impl Default for BridgeLeases {
    fn default() -> Self {
        Self::new()
    }
}

impl BridgeLeases {
    /// Leases of a gateway that does not serve yet.
    pub fn new() -> Self {
        Self { opened: Arc::new(watch::Sender::new(None)), holder: crate::auth::random() }
    }

    pub(crate) fn open(&self, cluster: Arc<dyn Cluster>, lifetime: Duration) {
        self.opened.send_replace(Some(SharedLeases { cluster, lifetime }));
    }

    async fn shared(&self) -> SharedLeases {
        let mut opened = self.opened.subscribe();
        let shared = opened.wait_for(Option::is_some).await.ok().and_then(|shared| shared.clone());
        shared.expect("this value holds the sender")
    }

    /// Waits until this process may run a bridge. `waiting` is called once if another has it.
    pub async fn acquire(&self, bridge: &str, waiting: impl FnOnce()) -> BridgeLease {
        let SharedLeases { cluster, lifetime } = self.shared().await;
        let key = key_of(&[bridge]);
        let lease = BridgeLease {
            cluster,
            lifetime,
            key,
            bridge: bridge.to_owned(),
            holder: self.holder.to_vec(),
            acquired: Mutex::new(Instant::now()),
        };
        let mut waiting = Some(waiting);
        loop {
            let asked = Instant::now();
            match lease.claim().await {
                Ok(true) => {
                    *lease.acquired.lock() = asked;
                    return lease;
                }
                Ok(false) => waiting.take().map(|waiting| waiting()).unwrap_or_default(),
                Err(error) => tracing::warn!(bridge, %error, "bridge lease: store unreachable, retrying"),
            }
            sleep(lifetime / 4).await;
        }
    }
}

/// The right to run a bridge. It ends by itself unless it is held.
pub struct BridgeLease {
    cluster: Arc<dyn Cluster>,
    lifetime: Duration,
    key: String,
    bridge: String,
    holder: Vec<u8>,
    acquired: Mutex<Instant>,
}

impl BridgeLease {
    /// Renews the lease. Returns when it is lost: another process has it, or the store cannot be reached and the lease is about to end. It ends by the
    /// store's clock a lifetime after it was written, which is later than it was asked for.
    pub async fn hold(&self) {
        let mut renewed = *self.acquired.lock();
        loop {
            let deadline = renewed + self.lifetime * 3 / 4;
            sleep(self.lifetime / 4).await;
            let asked = Instant::now();
            match timeout_at(deadline, self.claim()).await {
                Ok(Ok(true)) => renewed = asked,
                Ok(Err(_)) if Instant::now() < deadline => {}
                Ok(Ok(false) | Err(_)) | Err(_) => return,
            }
        }
    }

    /// Lets another process have it at once.
    pub async fn release(&self) {
        let released = self.change(|current| (current == Some(&*self.holder)).then(Vec::new)).await;
        if let Err(error) = released {
            tracing::debug!(bridge = %self.bridge, %error, "bridge lease: not released, it ends by itself");
        }
    }

    /// How far the bridge has come in a channel, as [`Self::keep_progress`] was last told by any process.
    pub async fn progress(&self, channel: &str) -> Result<Option<Vec<u8>>, ReadError> {
        let found = Mutex::new(None);
        let read = |current: Option<&[u8]>| {
            *found.lock() = current.map(<[u8]>::to_vec);
            None
        };
        self.cluster.change(PROGRESS, &key_of(&[&self.bridge, channel]), &read).await?;
        Ok(found.into_inner())
    }

    /// Tells the processes that may take over.
    pub async fn keep_progress(&self, channel: &str, progress: Vec<u8>) -> Result<(), ReadError> {
        self.cluster.keep(PROGRESS, &key_of(&[&self.bridge, channel]), progress).await
    }

    /// Takes or renews the lease. Returns whether this process has it.
    async fn claim(&self) -> Result<bool, ReadError> {
        let is_held = AtomicBool::new(false);
        self.change(|current| {
            let is_free = current.is_none_or(|holder| holder.is_empty() || holder == self.holder);
            is_held.store(is_free, Ordering::Relaxed);
            is_free.then(|| self.holder.clone())
        })
        .await?;
        Ok(is_held.into_inner())
    }

    async fn change(&self, change: impl Fn(Option<&[u8]>) -> Option<Vec<u8>> + Send + Sync) -> Result<(), ReadError> {
        self.cluster.change(leases(self.lifetime), &self.key, &change).await
    }
}

/// A key of a keyspace. Parts are digested, because people chose them.
fn key_of(parts: &[&str]) -> String {
    let text: String = parts.iter().map(|part| format!("{}:{part}", part.len())).collect();
    hex(digest(&SHA256, text.as_bytes()).as_ref())
}

#[cfg(test)]
mod tests {
    use salon_log::cluster::SingleNode;

    use super::*;

    const LIFETIME: Duration = Duration::from_secs(8);

    /// Two processes of one store. Its clock is tokio's, which these tests stop.
    fn two() -> [BridgeLeases; 2] {
        let start = (std::time::Instant::now(), Instant::now());
        let clock = move || start.0 + start.1.elapsed();
        let cluster: Arc<dyn Cluster> = Arc::new(SingleNode::with_clock(Box::new(clock)));
        std::array::from_fn(|_| {
            let leases = BridgeLeases::new();
            leases.open(cluster.clone(), LIFETIME);
            leases
        })
    }

    /// Whether something ends within a time of the stopped clock.
    async fn ends(what: impl Future, within: Duration) -> bool {
        tokio::time::timeout(within, what).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn one_process_has_a_bridge_until_it_releases_it() {
        let [one, other] = two();
        let lease = one.acquire("office", || panic!("it is free")).await;
        let another = one.acquire("lab", || panic!("another bridge is free")).await;
        let waited = AtomicBool::new(false);
        let lost_or_taken = async {
            tokio::select! {
                () = lease.hold() => {}
                _ = other.acquire("office", || waited.store(true, Ordering::Relaxed)) => {}
            }
        };
        assert!(!ends(lost_or_taken, LIFETIME * 10).await, "it is renewed, so the other waits");
        assert!(waited.into_inner(), "who waits is told");
        lease.release().await;
        let taken = other.acquire("office", || panic!("it is free again")).await;
        assert!(!ends(one.acquire("office", || {}), LIFETIME / 2).await, "now the other has it");
        drop((taken, another));
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_is_gone_loses_it_and_hears_so() {
        let [one, other] = two();
        let lease = one.acquire("office", || {}).await;
        lease.keep_progress("#lab", b"e7".to_vec()).await.expect("kept");
        // It does not renew, as if it were dead or cut off.
        let taken = other.acquire("office", || {}).await;
        assert_eq!(taken.progress("#lab").await.expect("read").as_deref(), Some(&b"e7"[..]));
        assert_eq!(taken.progress("#other").await.expect("read"), None);
        assert!(ends(lease.hold(), LIFETIME).await, "it hears that another has it");
        lease.release().await;
        assert!(!ends(one.acquire("office", || {}), LIFETIME / 2).await, "a late release takes nothing from the other");
    }
}
