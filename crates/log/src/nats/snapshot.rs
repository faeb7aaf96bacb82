//! What a topic's entries added up to at some position, kept so that it need not be read from the beginning, and so that retention
//! leaves nobody out.
//!
//! It is cut into parts that fit into a message. The first is the one that counts: it names the others, which are stored before it.

use std::sync::Arc;

use async_nats::HeaderMap;
use bytes::Bytes;
use salon_protocol::{Entry, Envelope, EnvelopeId, ParticipantId, Position, RpcId, Timestamp, TopicName};
use serde::{Deserialize, Serialize};

use super::Shared;
use super::fault::Fault;
use super::names::token;
use crate::folded::Folded;
use crate::{OpenRequest, Standing};

/// How many bytes a part has, where the servers take so many.
const PART: usize = 512 * 1024;

/// Names the further parts: how many, and what they are called by.
const PARTS: &str = "Salon-Parts";

pub(super) struct Snapshot {
    pub(super) head: u64,
    present: Vec<Arc<Entry>>,
    unanswered: Vec<OpenRequest>,
}

#[derive(Serialize, Deserialize)]
struct Form {
    head: u64,
    /// Offset, time of arrival, text.
    present: Vec<(u64, u64, Box<str>)>,
    /// Offset, envelope, caller, callee, JSON-RPC id as JSON.
    unanswered: Vec<(u64, EnvelopeId, ParticipantId, ParticipantId, Box<str>)>,
}

impl Snapshot {
    pub(super) fn new(standing: Standing) -> Self {
        Self { head: standing.head.offset, present: standing.present, unanswered: standing.unanswered }
    }

    /// Whether nobody was present.
    pub(super) fn is_empty(&self) -> bool {
        self.present.is_empty()
    }

    pub(super) fn fold(self) -> Folded {
        Folded::restore(self.present, self.unanswered)
    }

    /// The newest, and its revision.
    pub(super) async fn load(shared: &Shared, topic: &TopicName) -> Result<Option<(u64, Self)>, Fault> {
        let key = token(topic.as_str());
        let bucket = &shared.standings;
        loop {
            let kept = bucket.get(&shared.link, &key).await?;
            let Some(first) = kept.value else { return Ok(None) };
            let mut bytes = first.payload.to_vec();
            let mut is_whole = true;
            if let Some((count, mark)) = first.headers.get(PARTS).and_then(|parts| parts.as_str().split_once(' ')) {
                for part in 1..=count.parse::<usize>().unwrap_or_default() {
                    match bucket.get(&shared.link, &format!("{key}.{mark}.{part}")).await?.value {
                        Some(more) => bytes.extend_from_slice(&more.payload),
                        None => is_whole = false,
                    }
                }
            }
            if is_whole {
                let read = Self::read(&bytes, shared.epoch);
                let damaged = || Fault::Damaged(format!("what was kept of `{topic}`").into());
                return Ok(Some((kept.revision, read.ok_or_else(damaged)?)));
            }
            // A newer one has taken its place meanwhile; its parts were removed after that.
            if bucket.get(&shared.link, &key).await?.revision == kept.revision {
                return Err(Fault::Damaged(format!("what was kept of `{topic}`").into()));
            }
        }
    }

    /// Keeps it in place of a revision, and gives its own.
    pub(super) async fn keep(&self, shared: &Shared, topic: &TopicName, revision: u64) -> Result<u64, Fault> {
        let key = token(topic.as_str());
        let (bucket, link) = (&shared.standings, &shared.link);
        let bytes = Bytes::from(self.write());
        let mut headers = HeaderMap::new();
        let most = PART.min(shared.longest()).max(1);
        let further = bytes.len().saturating_sub(1) / most;
        // No two that are kept are as of the same position by the same node.
        let mark = format!("{}-{}", shared.node, self.head);
        let mut oldest = None;
        for part in 1..=further {
            let slice = bytes.slice(part * most..bytes.len().min((part + 1) * most));
            let stored = bucket.put(link, &format!("{key}.{mark}.{part}"), slice).await?;
            oldest = oldest.or(Some(stored));
        }
        if further > 0 {
            headers.insert(PARTS, format!("{further} {mark}"));
        }
        let before = bucket.get(link, &key).await?;
        if before.revision != revision {
            return Err(Fault::Raced);
        }
        let kept = bucket.replace(link, &key, revision, bytes.slice(..bytes.len().min(most)), headers).await?;
        // Parts that are older belong to what was kept before, or to whoever came too late to keep theirs. What cannot be removed now,
        // the next one removes.
        let removed =
            link.purge(&bucket.stream, Some(&bucket.subject(&format!("{key}.*.*"))), oldest.unwrap_or(kept)).await;
        if let Err(fault) = removed {
            tracing::debug!(%topic, %fault, "parts that are not needed any more could not be removed yet");
        }
        Ok(kept)
    }

    fn write(&self) -> Vec<u8> {
        let id = |id: &RpcId| match id {
            RpcId::Number(text) => text.clone(),
            RpcId::String(text) => serde_json::to_string(text).expect("a text is JSON").into(),
        };
        let form = Form {
            head: self.head,
            present: self
                .present
                .iter()
                .map(|entry| (entry.position.offset, entry.arrived.0, entry.envelope.text().into()))
                .collect(),
            unanswered: self
                .unanswered
                .iter()
                .map(|open| (open.offset, open.request.clone(), open.caller.clone(), open.callee.clone(), id(&open.id)))
                .collect(),
        };
        serde_json::to_vec(&form).expect("plain JSON")
    }

    fn read(bytes: &[u8], epoch: u32) -> Option<Self> {
        let form: Form = serde_json::from_slice(bytes).ok()?;
        let present = form.present.into_iter().map(|(offset, arrived, text)| {
            let envelope = Envelope::restore(text).ok()?;
            Some(Arc::new(Entry {
                position: Position { epoch, offset },
                arrived: Timestamp(arrived),
                stamp: None,
                envelope,
            }))
        });
        let unanswered = form.unanswered.into_iter().map(|(offset, request, caller, callee, id)| {
            Some(OpenRequest { request, caller, callee, id: RpcId::parse(&id)?, offset })
        });
        Some(Self {
            head: form.head,
            present: present.collect::<Option<_>>()?,
            unanswered: unanswered.collect::<Option<_>>()?,
        })
    }
}
