//! How the log is for those who are connected here, where it can be out of reach.
//!
//! A log on one machine cannot: one that fails stops the gateway.

use std::sync::Arc;
use std::time::Duration;

use salon_log::{Health, TopicLog};
use tokio::sync::watch;

/// A log that this gateway shares with others.
pub(crate) struct Nodes {
    log: Arc<dyn TopicLog>,
    outage: watch::Sender<bool>,
    outage_delay: Duration,
}

impl Nodes {
    /// An outage counts once it has lasted for `outage_delay`.
    pub(crate) fn new(log: Arc<dyn TopicLog>, outage_delay: Duration) -> Self {
        Self { log, outage: watch::Sender::new(false), outage_delay }
    }

    /// Whether the log is out of reach, for whoever must tell somebody.
    pub(crate) fn outage(&self) -> watch::Receiver<bool> {
        self.outage.subscribe()
    }

    /// Follows how the log is, for ever.
    pub(crate) async fn watch(&self) {
        let mut health = self.log.health();
        let is_out = |health: &Health| matches!(health, Health::Unreachable(_));
        loop {
            if health.wait_for(is_out).await.is_err() {
                return;
            }
            let back = health.wait_for(|health| !is_out(health));
            if tokio::time::timeout(self.outage_delay, back).await.is_ok() {
                continue;
            }
            self.outage.send_replace(true);
            if health.wait_for(|health| !is_out(health)).await.is_err() {
                return;
            }
            self.outage.send_replace(false);
        }
    }
}

/// What is heard of outages, each change once.
pub(crate) struct Outage {
    now: watch::Receiver<bool>,
    told: bool,
}

impl Outage {
    pub(crate) fn new(nodes: &Nodes) -> Self {
        Self { now: nodes.outage(), told: false }
    }

    /// Waits until the log is out of reach, or back, and says which. Nothing is lost when this is given up while waiting.
    pub(crate) async fn changed(&mut self) -> bool {
        let told = self.told;
        let changed = self.now.wait_for(|now| *now != told).await.map(|now| *now);
        match changed {
            Ok(now) => self.told = now,
            // The gateway has ended, which is told otherwise.
            Err(_) => std::future::pending().await,
        }
        self.told
    }
}
