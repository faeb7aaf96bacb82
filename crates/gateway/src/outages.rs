//! Outages of a shared log, as the connections of this gateway see them.
//!
//! A log on one machine cannot: one that fails stops the gateway.

use std::sync::Arc;
use std::time::Duration;

use salon_log::{LogHealth, TopicLog};
use tokio::sync::watch;

/// Watches the health of a log that this gateway shares with others.
pub(crate) struct OutageWatch {
    log: Arc<dyn TopicLog>,
    outage: watch::Sender<bool>,
    outage_delay: Duration,
}

impl OutageWatch {
    /// An outage counts once it has lasted for `outage_delay`.
    pub(crate) fn new(log: Arc<dyn TopicLog>, outage_delay: Duration) -> Self {
        Self { log, outage: watch::Sender::new(false), outage_delay }
    }

    /// Whether the log is out of reach.
    pub(crate) fn outage(&self) -> watch::Receiver<bool> {
        self.outage.subscribe()
    }

    /// Follows the health of the log, for ever.
    pub(crate) async fn watch(&self) {
        let mut health = self.log.health();
        let is_out = |health: &LogHealth| matches!(health, LogHealth::Unreachable(_));
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

/// The outages as one connection sees them, each change once.
pub(crate) struct Outage {
    now: watch::Receiver<bool>,
    reported: bool,
}

impl Outage {
    pub(crate) fn new(outages: &OutageWatch) -> Self {
        Self { now: outages.outage(), reported: false }
    }

    /// Waits until the log is out of reach, or back, and says which. Nothing is lost when this is given up while waiting.
    pub(crate) async fn changed(&mut self) -> bool {
        let reported = self.reported;
        let changed = self.now.wait_for(|now| *now != reported).await.map(|now| *now);
        match changed {
            Ok(now) => self.reported = now,
            // The gateway has ended, which sessions learn otherwise.
            Err(_) => std::future::pending().await,
        }
        self.reported
    }
}
