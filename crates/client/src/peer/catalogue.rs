//! Lists that participants give in pages, whole and kept until they change.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use salon_protocol::{Members, ParticipantId};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::Mutex;

use super::{GREETING, read};
use crate::{CallError, RequestOptions, ResultError, Room, RpcError};

/// The longest list that is taken.
const MAX_PAGES: usize = 100;
const MAX_ITEMS: usize = 10_000;
const MAX_BYTES: usize = 32 << 20;

/// How often a list that changes while it is read is read again before it is taken as it is.
const READINGS: usize = 3;

/// A list, kept until it changes. Those who want it at the same time share one reading.
#[derive(Debug)]
pub(super) struct Listing<T> {
    changes: AtomicU64,
    kept: Mutex<Option<(u64, Arc<[T]>)>>,
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
        Fut: Future<Output = Result<Arc<[T]>, CallError>>,
    {
        let mut kept = self.kept.lock().await;
        for reading in 1.. {
            let changes = self.changes.load(Ordering::Acquire);
            if let Some((_, list)) = kept.as_ref().filter(|(at, _)| *at == changes) {
                return Ok(list.clone());
            }
            let list = fetch().await?;
            // Kept as it was when the reading began: what changed meanwhile may be in it or not.
            *kept = Some((changes, list.clone()));
            if reading == READINGS {
                return Ok(list);
            }
        }
        unreachable!("the loop ends with the last reading")
    }
}

/// Reads every page of a list.
pub(super) async fn pages<T: DeserializeOwned>(
    room: &Room,
    peer: &ParticipantId,
    method: &str,
    key: &'static str,
) -> Result<Arc<[T]>, CallError> {
    let mut items = Vec::new();
    let mut bytes = 0;
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let mut params = Members::default();
        if let Some(cursor) = &cursor {
            params.set("cursor", cursor);
        }
        let options = RequestOptions { timeout: GREETING, progress: false, ..RequestOptions::default() };
        let answer = match room.request_with(peer, method, &params, options).await?.result().await {
            // It has none, and says so in another way.
            Err(CallError::Answered(RpcError { code: RpcError::METHOD_NOT_FOUND, .. })) => return Ok(Arc::default()),
            answer => answer?,
        };
        bytes += answer.get().len();
        let page: Members = read(&answer)?;
        for item in raw_items(&page, key)? {
            match serde_json::from_str(item.get()) {
                Ok(item) => items.push(item),
                // One that cannot be read must not hide the others.
                Err(error) => tracing::debug!(%peer, method, %error, "an item of a list was left out"),
            }
        }
        let next = page.get("nextCursor").and_then(|next| serde_json::from_str::<Option<String>>(next.get()).ok());
        let before = std::mem::replace(&mut cursor, next.flatten());
        if cursor.is_none() {
            return Ok(items.into());
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
