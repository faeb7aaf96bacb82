//! Noticing that a consumer serves a replica that lags.
//!
//! A consumer of one replica reads what the server has on which it was placed. A server that stood still and goes on may lack the newest
//! messages for minutes, and says by every heartbeat that there is nothing new. Only the stream's leader knows better.

use std::time::Instant;

use tokio::sync::watch;

use super::link::NatsLink;

/// While following is younger than so many intervals the leader is asked in each of them: a consumer is placed again because something was
/// odd, which is when servers lag.
const FREQUENT_CHECKS: u32 = 12;
/// Afterwards, once in so many.
const RARE_CHECKS: u32 = 6;

/// Waits until nothing came for an interval though the leader of the stream had more before it.
pub(super) async fn lagging(link: &NatsLink, stream: &str, mut followed: watch::Receiver<u64>) {
    let (interval, began) = (link.timings.lag_interval, Instant::now());
    let mut leader_has = None;
    loop {
        let before = *followed.borrow_and_update();
        let is_behind = leader_has.is_some_and(|last| last > before);
        let is_rare = !is_behind && began.elapsed() >= interval * FREQUENT_CHECKS;
        tokio::time::sleep(if is_rare { interval * RARE_CHECKS } else { interval }).await;
        if followed.has_changed().unwrap_or(false) {
            leader_has = None;
            continue;
        }
        if is_behind {
            return;
        }
        // Where there is no leader, nothing new can be stored, either.
        leader_has = link.info(stream).await.ok().map(|info| info.state.last_sequence);
    }
}
