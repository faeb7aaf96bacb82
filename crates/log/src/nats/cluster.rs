//! Values that nodes share, in a bucket a keyspace: the server removes them when their time is over, and changes them by revision.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::DeliverPolicy;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use super::bucket::Bucket;
use super::fault::NatsFault;
use super::follow::{Course, Follow};
use super::link::NatsLink;
use super::{Nats, RETRY_DELAY, Shared};
use crate::ReadError;
use crate::cluster::{ChangeValue, Cluster, Keyspace, ValueListener};

/// How long it may take to hear every value there is.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait before something is asked for again: shorter than elsewhere, because a client at a door waits for it.
const ASK_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Retries while nobody answers, for as long as an election may take and a client at a door waits.
async fn retrying<T, F: Future<Output = Result<T, NatsFault>>>(
    link: &NatsLink,
    mut ask: impl FnMut() -> F,
) -> Result<T, NatsFault> {
    let by = Instant::now() + link.timings.retry_timeout;
    loop {
        match ask().await {
            Err(NatsFault::Unavailable(_)) if Instant::now() < by => tokio::time::sleep(ASK_RETRY_DELAY).await,
            answer => return answer,
        }
    }
}

impl Shared {
    /// The bucket of a keyspace, unless NATS is out of reach.
    fn keyspace(&self, space: Keyspace) -> Result<&Bucket, ReadError> {
        if let Some(why) = self.trouble() {
            return Err(ReadError::Unavailable(why));
        }
        let undeclared = || ReadError::Failed(format!("the keyspace `{}` was not declared", space.name).into());
        self.keyspaces.get(space.name).ok_or_else(undeclared)
    }

    async fn take_value(&self, space: Keyspace, key: &str) -> Result<Option<Vec<u8>>, ReadError> {
        let (bucket, link) = (self.keyspace(space)?, &self.link);
        let kept = retrying(link, || bucket.get(link, key)).await?;
        let Some(stored) = kept.value else { return Ok(None) };
        match bucket.remove(link, key, Some(kept.revision)).await {
            Ok(_) => Ok(Some(stored.payload.to_vec())),
            Err(NatsFault::Raced) => Ok(None),
            Err(fault) => Err(fault.into()),
        }
    }

    async fn change_value(&self, space: Keyspace, key: &str, change: ChangeValue<'_>) -> Result<(), ReadError> {
        let (bucket, link) = (self.keyspace(space)?, &self.link);
        let by = Instant::now() + link.timings.retry_timeout;
        loop {
            let kept = retrying(link, || bucket.get(link, key)).await?;
            let Some(value) = change(kept.value.as_ref().map(|stored| &*stored.payload)) else { return Ok(()) };
            match bucket.replace(link, key, kept.revision, Bytes::from(value), HeaderMap::new()).await {
                // What was not acknowledged may be stored all the same, which the next look tells.
                Err(NatsFault::Raced | NatsFault::Unavailable(_)) if Instant::now() < by => {
                    tokio::time::sleep(ASK_RETRY_DELAY).await;
                }
                changed => return Ok(changed.map(drop)?),
            }
        }
    }

    async fn follow_values(self: Arc<Self>, space: &'static str, hear: ValueListener, ready: oneshot::Sender<()>) {
        let Some(bucket) = self.keyspaces.get(space) else { return };
        let mut ready = Some(ready);
        loop {
            let course = Course {
                stream: &bucket.stream,
                from: DeliverPolicy::LastPerSubject,
                filter: Some(bucket.subjects()),
                headers_only: false,
            };
            if let Ok(mut follow) = Follow::begin(&self.link, course).await {
                loop {
                    if follow.has_caught_up() {
                        // The asker may not wait any more.
                        let _ = ready.take().map(|ready| ready.send(()));
                    }
                    let Some(messages) = follow.next().await else { break };
                    for message in messages {
                        if let Some((_, Some(value))) = bucket.read(&message) {
                            hear(value);
                        }
                    }
                }
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }
}

impl Cluster for Nats {
    fn is_shared(&self) -> bool {
        true
    }

    fn keep(&self, space: Keyspace, key: &str, value: Vec<u8>) -> BoxFuture<'static, Result<(), ReadError>> {
        let (shared, key, value) = (self.shared.clone(), key.to_owned(), Bytes::from(value));
        let kept = async move {
            let (bucket, link) = (shared.keyspace(space)?, &shared.link);
            // The same key and value twice are the same as once.
            retrying(link, || bucket.put(link, &key, value.clone())).await?;
            Ok(())
        };
        kept.boxed()
    }

    fn take(&self, space: Keyspace, key: &str) -> BoxFuture<'static, Result<Option<Vec<u8>>, ReadError>> {
        let (shared, key) = (self.shared.clone(), key.to_owned());
        async move { shared.take_value(space, &key).await }.boxed()
    }

    fn change<'a>(
        &'a self,
        space: Keyspace,
        key: &str,
        change: ChangeValue<'a>,
    ) -> BoxFuture<'a, Result<(), ReadError>> {
        let key = key.to_owned();
        async move { self.shared.change_value(space, &key, change).await }.boxed()
    }

    fn follow(&self, space: Keyspace, hear: ValueListener) -> BoxFuture<'static, Result<(), ReadError>> {
        let (ready, heard) = oneshot::channel();
        self.spawn(self.shared.clone().follow_values(space.name, hear, ready));
        let heard = async move {
            match tokio::time::timeout(CATCH_UP_TIMEOUT, heard).await {
                Ok(Ok(())) => Ok(()),
                _ => Err(ReadError::Unavailable("the values that gateways share could not be read".into())),
            }
        };
        heard.boxed()
    }
}
