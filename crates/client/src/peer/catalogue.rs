//! Lists that participants give in pages, whole and kept until they change.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use salon_mcp::caller::{ListLimits, WholeList};
use salon_protocol::ParticipantId;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::CallError;

/// The longest list that is taken.
pub(super) const LIMITS: ListLimits = ListLimits { pages: 100, items: 10_000, bytes: 32 << 20 };

/// How often a list that changes while it is read is read again before it is taken as it is.
const MAX_READINGS: usize = 3;

/// A whole list, and until when it may be kept, where that is not until it changes.
pub(super) struct FetchedList<T> {
    items: Arc<[T]>,
    until: Option<Instant>,
}

/// A list, kept until it changes or its time is over. Concurrent callers share one reading.
#[derive(Debug)]
pub(super) struct CachedList<T> {
    changes: AtomicU64,
    kept: Mutex<Option<KeptList<T>>>,
}

#[derive(Debug)]
struct KeptList<T> {
    /// How many changes were known when the reading began: what changed meanwhile may be in it or not.
    changes: u64,
    items: Arc<[T]>,
    until: Option<Instant>,
}

impl<T> Default for CachedList<T> {
    fn default() -> Self {
        Self { changes: AtomicU64::new(0), kept: Mutex::const_new(None) }
    }
}

impl<T> CachedList<T> {
    pub(super) fn changed(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }

    pub(super) async fn get<Fut>(&self, fetch: impl Fn() -> Fut) -> Result<Arc<[T]>, CallError>
    where
        Fut: Future<Output = Result<FetchedList<T>, CallError>>,
    {
        let mut kept = self.kept.lock().await;
        let is_fresh = |kept: &KeptList<T>| kept.until.is_none_or(|until| Instant::now() < until);
        let mut changes = self.changes.load(Ordering::Acquire);
        if let Some(kept) = kept.as_ref().filter(|kept| kept.changes == changes && is_fresh(kept)) {
            return Ok(kept.items.clone());
        }
        let mut readings = 0;
        loop {
            let FetchedList { items, until } = fetch().await?;
            *kept = Some(KeptList { changes, items: items.clone(), until });
            readings += 1;
            let now = self.changes.load(Ordering::Acquire);
            if now == changes || readings == MAX_READINGS {
                return Ok(items);
            }
            changes = now;
        }
    }
}

impl<T: DeserializeOwned> FetchedList<T> {
    /// Reads the items of a list. One that cannot be read does not hide the others.
    pub(super) fn read(peer: &ParticipantId, method: &str, list: WholeList) -> Self {
        let mut items = Vec::with_capacity(list.items.len());
        for item in list.items {
            match serde_json::from_str(item.raw.get()) {
                Ok(item) => items.push(item),
                Err(error) => tracing::debug!(%peer, method, %error, "peer: unreadable item of a list, left out"),
            }
        }
        Self { items: items.into(), until: list.lifetime.map(|lifetime| Instant::now() + lifetime) }
    }
}
