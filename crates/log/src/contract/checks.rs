//! Running checks, several at a time, each with a limit.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::LocalBoxFuture;

/// How many checks run at a time: each has a log of its own, and waits for its engine more than it computes.
const CHECKS_AT_ONCE: usize = 4;

pub(super) async fn all<'a>(checks: impl IntoIterator<Item = LocalBoxFuture<'a, ()>>) {
    futures_util::stream::iter(checks).buffer_unordered(CHECKS_AT_ONCE).collect::<()>().await;
}

pub(super) async fn within(check: &str, work: impl Future<Output = ()>) {
    tracing::debug!(check);
    // Thousands of writes to a cluster, one after the other, take their time on a busy machine.
    let done = tokio::time::timeout(Duration::from_secs(300), work).await;
    assert!(done.is_ok(), "the check \"{check}\" did not come to an end");
}
