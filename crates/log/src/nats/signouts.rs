//! Who has signed out of the page: one value a participant, known to every node, for as long as a sign-in could last.
//!
//! Deliberately absent: what a value says. It is read and made by the gateways, and changed by revision, so no two changes are lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::DeliverPolicy;
use bytes::Bytes;
use salon_protocol::ParticipantId;
use tokio::sync::oneshot;

use super::fault::Fault;
use super::follow::{Course, Follow};
use super::names::token;
use super::tickets::waiting;
use super::{Nats, RETRY_DELAY, Shared};
use crate::ReadError;

/// How long a value is kept after its last change: a sign-in lasts a day at most, and clocks differ.
pub(super) const LIFETIME: Duration = Duration::from_secs(25 * 60 * 60);
/// How long it may take to hear of everything there is.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(30);

impl Nats {
    /// Changes what is kept of a participant: `change` makes what is to be of what there is, or `None` where that is well as it is.
    pub async fn change_sign_outs(
        &self,
        who: &ParticipantId,
        change: impl Fn(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<(), ReadError> {
        if let Some(why) = self.shared.trouble() {
            return Err(ReadError::Unavailable(why));
        }
        let (bucket, link, key) = (&self.shared.sign_outs, &self.shared.link, token(who.as_str()));
        let by = Instant::now() + link.timings.retry_timeout;
        loop {
            let kept = waiting(link, || bucket.get(link, &key)).await?;
            let Some(value) = change(kept.value.as_ref().map(|stored| &*stored.payload)) else { return Ok(()) };
            let value = Bytes::from(value);
            match bucket.replace(link, &key, kept.revision, value, HeaderMap::new()).await {
                // What was not acknowledged may be there all the same, which the next look tells.
                Err(Fault::Raced | Fault::Unavailable(_)) if Instant::now() < by => {
                    tokio::time::sleep(RETRY_DELAY).await
                }
                changed => return Ok(changed.map(drop)?),
            }
        }
    }

    /// Tells what is kept of everybody, and every change of it, for as long as the log is open. Resolves when all there was has been told.
    pub async fn follow_sign_outs(&self, hear: impl Fn(&[u8]) + Send + Sync + 'static) -> Result<(), ReadError> {
        let (ready, heard) = oneshot::channel();
        self.spawn(self.shared.clone().follow_sign_outs(hear, ready));
        match tokio::time::timeout(CATCH_UP_TIMEOUT, heard).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(ReadError::Unavailable("who has signed out could not be found out".into())),
        }
    }
}

impl Shared {
    async fn follow_sign_outs(
        self: Arc<Self>,
        hear: impl Fn(&[u8]) + Send + Sync + 'static,
        ready: oneshot::Sender<()>,
    ) {
        let mut ready = Some(ready);
        loop {
            let course = Course {
                stream: &self.sign_outs.stream,
                from: DeliverPolicy::LastPerSubject,
                filter: Some(self.sign_outs.subjects()),
                headers_only: false,
            };
            if let Ok(mut follow) = Follow::begin(&self.link, course).await {
                loop {
                    if follow.has_caught_up() {
                        // Whoever opened the log may have given up.
                        let _ = ready.take().map(|ready| ready.send(()));
                    }
                    let Some(messages) = follow.next().await else { break };
                    for message in messages {
                        if let Some((_, Some(value))) = self.sign_outs.read(&message) {
                            hear(value);
                        }
                    }
                }
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }
}
