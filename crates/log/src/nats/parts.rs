//! Values that may be longer than a message: cut into parts. The first is the one that counts: it names the others, which are stored before it.

use std::sync::atomic::{AtomicU64, Ordering};

use async_nats::HeaderMap;
use bytes::Bytes;

use super::Shared;
use super::bucket::Bucket;
use super::fault::NatsFault;
use super::link::NatsLink;

/// How many bytes a part has, where the servers take so many.
const PART_BYTES: usize = 512 * 1024;

/// Names the further parts: how many, and what they are called by.
const PARTS: &str = "Salon-Parts";

/// The newest value of a key, and its revision.
pub(super) async fn load(link: &NatsLink, bucket: &Bucket, key: &str) -> Result<Option<(u64, Vec<u8>)>, NatsFault> {
    loop {
        let kept = bucket.get(link, key).await?;
        let Some(first) = kept.value else { return Ok(None) };
        let mut bytes = first.payload.to_vec();
        let mut is_whole = true;
        if let Some((count, mark)) = first.headers.get(PARTS).and_then(|parts| parts.as_str().split_once(' ')) {
            for part in 1..=count.parse::<usize>().unwrap_or_default() {
                match bucket.get(link, &format!("{key}.{mark}.{part}")).await?.value {
                    Some(more) => bytes.extend_from_slice(&more.payload),
                    None => is_whole = false,
                }
            }
        }
        // Without further parts it is one value. Otherwise a newer one may have taken its place meanwhile, whose writer removes the parts of this one.
        let is_newest = first.headers.get(PARTS).is_none() || bucket.get(link, key).await?.revision == kept.revision;
        if is_newest && is_whole {
            return Ok(Some((kept.revision, bytes)));
        }
        if is_newest {
            return Err(NatsFault::Damaged(format!("the value `{key}`").into()));
        }
    }
}

/// What the parts of a value are called by: no two values have the same, also of those that one node keeps as of the same position.
fn mark(node: &str, head: u64) -> String {
    static VALUES: AtomicU64 = AtomicU64::new(0);
    format!("{node}-{head}-{}", VALUES.fetch_add(1, Ordering::Relaxed))
}

/// Keeps a value, as of a position, in place of a revision, and gives its own.
pub(super) async fn keep(
    shared: &Shared,
    key: &str,
    head: u64,
    value: Vec<u8>,
    revision: u64,
) -> Result<u64, NatsFault> {
    let (bucket, link, bytes) = (&shared.folds, &shared.link, Bytes::from(value));
    let mut headers = HeaderMap::new();
    let most = PART_BYTES.min(shared.longest()).max(1);
    let further = bytes.len().saturating_sub(1) / most;
    let mark = mark(&shared.node, head);
    let mut oldest = None;
    for part in 1..=further {
        let slice = bytes.slice(part * most..bytes.len().min((part + 1) * most));
        let stored = bucket.put(link, &format!("{key}.{mark}.{part}"), slice).await?;
        oldest = oldest.or(Some(stored));
    }
    if further > 0 {
        headers.insert(PARTS, format!("{further} {mark}"));
    }
    let before = bucket.get(link, key).await?;
    if before.revision != revision {
        return Err(NatsFault::Raced);
    }
    let kept = bucket.replace(link, key, revision, bytes.slice(..bytes.len().min(most)), headers).await?;
    // Parts that are older belong to what was kept before, or to a node that was too late to keep its own. What cannot be removed now,
    // the next one removes.
    let removed =
        link.purge(&bucket.stream, Some(&bucket.subject(&format!("{key}.*.*"))), oldest.unwrap_or(kept)).await;
    if let Err(fault) = removed {
        tracing::debug!(key, %fault, "nats: old parts of a value not removed, retrying at the next sweep");
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_one_position_have_parts_of_their_own() {
        let (one, two) = (mark("node", 7), mark("node", 7));
        assert_ne!(one, two, "the parts of a value were overwritten while it is the one that counts");
        assert!(!one.contains(['.', ' ']), "it is a token of a subject, and a word of a header");
    }
}
