//! Tickets: small values that are kept for a moment and taken once, by whichever node.

use std::time::{Duration, Instant};

use super::Nats;
use super::fault::Fault;
use crate::ReadError;

/// How long a ticket is kept.
pub(super) const LIFETIME: Duration = Duration::from_secs(30);
/// How long an election is waited for, and how often is asked.
const PATIENCE: Duration = Duration::from_secs(8);
const PAUSE: Duration = Duration::from_millis(100);

/// Asks again while nobody answers, for as long as whoever waits at a door does.
pub(super) async fn waiting<T, F: Future<Output = Result<T, Fault>>>(mut ask: impl FnMut() -> F) -> Result<T, Fault> {
    let by = Instant::now() + PATIENCE;
    loop {
        match ask().await {
            Err(Fault::Unavailable(_)) if Instant::now() < by => tokio::time::sleep(PAUSE).await,
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
        waiting(|| self.shared.tickets.put(&self.shared.link, key, value.clone())).await?;
        Ok(())
    }

    /// Takes the value of a key. Of all who try, one gets it.
    pub async fn take_ticket(&self, key: &str) -> Result<Option<Vec<u8>>, ReadError> {
        if let Some(why) = self.shared.trouble() {
            return Err(ReadError::Unavailable(why));
        }
        let (bucket, link) = (&self.shared.tickets, &self.shared.link);
        let kept = waiting(|| bucket.get(link, key)).await?;
        let Some(stored) = kept.value else { return Ok(None) };
        match bucket.remove(link, key, Some(kept.revision)).await {
            Ok(_) => Ok(Some(stored.payload.to_vec())),
            Err(Fault::Raced) => Ok(None),
            Err(fault) => Err(fault.into()),
        }
    }
}
