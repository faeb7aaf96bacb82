//! Tickets: small values that are kept for a moment and taken once, by whichever node.

use std::time::{Duration, Instant};

use super::Nats;
use super::fault::Fault;
use super::link::Link;
use crate::ReadError;

/// How long a ticket is kept.
pub(super) const LIFETIME: Duration = Duration::from_secs(30);
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Retries while nobody answers, for as long as an election may take and a client at a door waits.
pub(super) async fn waiting<T, F: Future<Output = Result<T, Fault>>>(
    link: &Link,
    mut ask: impl FnMut() -> F,
) -> Result<T, Fault> {
    let by = Instant::now() + link.timings.retry_timeout;
    loop {
        match ask().await {
            Err(Fault::Unavailable(_)) if Instant::now() < by => tokio::time::sleep(RETRY_DELAY).await,
            answer => return answer,
        }
    }
}

impl Nats {
    /// Keeps a value under a key that has not been used: letters and digits.
    pub async fn put_ticket(&self, key: &str, value: Vec<u8>) -> Result<(), ReadError> {
        if let Some(why) = self.shared.trouble() {
            return Err(ReadError::Unavailable(why));
        }
        let value = bytes::Bytes::from(value);
        // The same key and value again are the same ticket.
        waiting(&self.shared.link, || self.shared.tickets.put(&self.shared.link, key, value.clone())).await?;
        Ok(())
    }

    /// Takes the value of a key. Of all who try, one gets it.
    pub async fn take_ticket(&self, key: &str) -> Result<Option<Vec<u8>>, ReadError> {
        if let Some(why) = self.shared.trouble() {
            return Err(ReadError::Unavailable(why));
        }
        let (bucket, link) = (&self.shared.tickets, &self.shared.link);
        let kept = waiting(link, || bucket.get(link, key)).await?;
        let Some(stored) = kept.value else { return Ok(None) };
        match bucket.remove(link, key, Some(kept.revision)).await {
            Ok(_) => Ok(Some(stored.payload.to_vec())),
            Err(Fault::Raced) => Ok(None),
            Err(fault) => Err(fault.into()),
        }
    }
}
