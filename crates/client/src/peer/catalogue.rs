//! Lists that participants give in pages, whole and kept until they change.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use salon_protocol::Members;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{GREETING, Peer, modern, read};
use crate::{CallError, RequestOptions, ResultError, RpcError};

/// The longest list that is taken.
const MAX_PAGES: usize = 100;
const MAX_ITEMS: usize = 10_000;
const MAX_BYTES: usize = 32 << 20;

/// How often a list that changes while it is read is read again before it is taken as it is.
const READINGS: usize = 3;

/// A whole list, and until when it may be kept, where that is not until it changes.
pub(super) struct FetchedList<T> {
    items: Arc<[T]>,
    until: Option<Instant>,
}

/// A list, kept until it changes or its time is over. Those who want it at the same time share one reading.
#[derive(Debug)]
pub(super) struct Listing<T> {
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

impl<T> Default for Listing<T> {
    fn default() -> Self {
        Self { changes: AtomicU64::new(0), kept: Mutex::const_new(None) }
    }
}

impl<T> Listing<T> {
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
            if now == changes || readings == READINGS {
                return Ok(items);
            }
            changes = now;
        }
    }
}

/// Reads every page of a list.
pub(super) async fn pages<T: DeserializeOwned>(
    peer: &Peer,
    is_modern: bool,
    method: &str,
    key: &'static str,
) -> Result<FetchedList<T>, CallError> {
    let mut items = Vec::new();
    let mut until: Option<Instant> = None;
    let mut bytes = 0;
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let mut params = Members::default();
        if let Some(cursor) = &cursor {
            params.set("cursor", cursor);
        }
        let options = RequestOptions { timeout: GREETING, progress: false, ..RequestOptions::default() };
        let answer = match peer.start(method, &params, options).await?.result().await {
            // It has none, and says so in another way.
            Err(CallError::Answered(RpcError { code: RpcError::METHOD_NOT_FOUND, .. })) => {
                // A modern participant does not announce later that it has some.
                return Ok(FetchedList { items: Arc::default(), until: is_modern.then(Instant::now) });
            }
            answer => answer?,
        };
        bytes += answer.get().len();
        let page: Members = read(&answer)?;
        if is_modern {
            // Such a participant announces changes only to those who listen for them.
            let this = Instant::now() + modern::lifetime(&page);
            until = Some(until.map_or(this, |until| until.min(this)));
        }
        for item in raw_items(&page, key)? {
            match serde_json::from_str(item.get()) {
                Ok(item) => items.push(item),
                // One that cannot be read must not hide the others.
                Err(error) => tracing::debug!(peer = %peer.id(), method, %error, "an item of a list was left out"),
            }
        }
        let next = page.get("nextCursor").and_then(|next| serde_json::from_str::<Option<String>>(next.get()).ok());
        let before = std::mem::replace(&mut cursor, next.flatten());
        if cursor.is_none() {
            return Ok(FetchedList { items: items.into(), until });
        }
        if cursor == before || items.len() > MAX_ITEMS || bytes > MAX_BYTES {
            break;
        }
    }
    Err(ResultError::Endless(method.into()).into())
}

fn raw_items(page: &Members, key: &'static str) -> Result<Vec<Box<RawValue>>, ResultError> {
    let items = page.get(key).ok_or(ResultError::Missing(key))?;
    Ok(serde_json::from_str(items.get())?)
}
