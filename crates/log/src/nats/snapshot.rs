//! What a topic's entries added up to at some position, kept so that it need not be read from the beginning, and so that retention
//! leaves nobody out.
//!
//! It is cut into parts that fit into a message. The first is the one that counts: it names the others, which are stored before it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use async_nats::HeaderMap;
use bytes::Bytes;
use salon_protocol::{
    Entry, Envelope, EnvelopeId, FailureCause, ParticipantId, Position, RpcId, Stamp, Timestamp, TopicName,
};
use serde::{Deserialize, Serialize};

use super::Shared;
use super::fault::NatsFault;
use super::names::token;
use super::stored::AuthorsForm;
use crate::{CallClosure, FailedRequest, Fold, Ignored, OpenRequest, Standing};

/// How many bytes a part has, where the servers take so many.
const PART: usize = 512 * 1024;

/// Names the further parts: how many, and what they are called by.
const PARTS: &str = "Salon-Parts";

pub(super) struct Snapshot {
    pub(super) head: u64,
    standing: Standing,
    /// Entries that count for nothing, by their offsets.
    ignored: BTreeMap<u64, Ignored>,
    /// How many bytes the authors of the entries have stored.
    authors: AuthorsForm,
}

/// A call: the request's offset, its envelope, caller, callee, JSON-RPC id as JSON.
type CallForm = (u64, EnvelopeId, ParticipantId, ParticipantId, Box<str>);

/// A notice: offset, time of arrival, text, stamp.
type NoticeForm = (u64, u64, Box<str>, Option<Box<str>>);

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum IgnoredForm {
    AnsweredCall,
    FailedCall,
    AbsentParticipant,
    Stale,
}

#[derive(Serialize, Deserialize)]
struct SnapshotForm {
    head: u64,
    /// Offset, time of arrival, text.
    present: Vec<(u64, u64, Box<str>)>,
    /// The calls that wait. Version 0.1 kept those that have failed here, too.
    unanswered: Vec<CallForm>,
    /// The calls that have failed, by the offset at which they did.
    #[serde(default)]
    failed: Vec<(u64, CallForm)>,
    /// The offsets of requests that have failed because too many waited; the others have because the callee left.
    #[serde(default)]
    cancelled: Vec<u64>,
    /// The offsets of entries that count for nothing, and why.
    #[serde(default)]
    ignored: Vec<(u64, IgnoredForm)>,
    /// How many bytes the authors of the entries have stored. Versions up to 0.2 did not count.
    #[serde(default)]
    stored: AuthorsForm,
    /// The notices of the gateway that settings and held calls follow from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    control: Vec<NoticeForm>,
    /// Why calls have failed that somebody stopped, by the offsets of their requests or of the notices that held them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    stopped: Vec<(u64, StoppedForm)>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoppedForm {
    Denied,
    Expired,
    Withdrawn,
    Stopped,
}

impl StoppedForm {
    fn of(cause: FailureCause) -> Option<Self> {
        match cause {
            FailureCause::CalleeLeft | FailureCause::TooManyWaiting => None,
            FailureCause::Denied => Some(Self::Denied),
            FailureCause::Expired => Some(Self::Expired),
            FailureCause::Withdrawn => Some(Self::Withdrawn),
            FailureCause::Stopped => Some(Self::Stopped),
        }
    }

    fn cause(self) -> FailureCause {
        match self {
            Self::Denied => FailureCause::Denied,
            Self::Expired => FailureCause::Expired,
            Self::Withdrawn => FailureCause::Withdrawn,
            Self::Stopped => FailureCause::Stopped,
        }
    }
}

impl Snapshot {
    pub(super) fn new(standing: Standing, ignored: BTreeMap<u64, Ignored>, authors: AuthorsForm) -> Self {
        Self { head: standing.head.offset, standing, ignored, authors }
    }

    /// Whether nobody was present, and there are no settings.
    pub(super) fn is_empty(&self) -> bool {
        self.standing.present.is_empty() && self.standing.control.is_empty()
    }

    /// The fold, the entries that count for nothing, and what the authors have stored.
    pub(super) fn parts(self) -> (Fold, BTreeMap<u64, Ignored>, AuthorsForm) {
        (Fold::restore(&self.standing), self.ignored, self.authors)
    }

    /// The newest, and its revision.
    pub(super) async fn load(shared: &Shared, topic: &TopicName) -> Result<Option<(u64, Self)>, NatsFault> {
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
                let damaged = || NatsFault::Damaged(format!("what was kept of `{topic}`").into());
                return Ok(Some((kept.revision, read.ok_or_else(damaged)?)));
            }
            // A newer one has taken its place meanwhile; its parts were removed after that.
            if bucket.get(&shared.link, &key).await?.revision == kept.revision {
                return Err(NatsFault::Damaged(format!("what was kept of `{topic}`").into()));
            }
        }
    }

    /// Keeps it in place of a revision, and gives its own.
    pub(super) async fn keep(&self, shared: &Shared, topic: &TopicName, revision: u64) -> Result<u64, NatsFault> {
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
            return Err(NatsFault::Raced);
        }
        let kept = bucket.replace(link, &key, revision, bytes.slice(..bytes.len().min(most)), headers).await?;
        // Parts that are older belong to what was kept before, or to a node that was too late to keep its own. What cannot be removed now,
        // the next one removes.
        let removed =
            link.purge(&bucket.stream, Some(&bucket.subject(&format!("{key}.*.*"))), oldest.unwrap_or(kept)).await;
        if let Err(fault) = removed {
            tracing::debug!(%topic, %fault, "snapshot: old parts not removed, retrying at the next sweep");
        }
        Ok(kept)
    }

    fn write(&self) -> Vec<u8> {
        let present = |entry: &Arc<Entry>| (entry.position.offset, entry.arrived.0, entry.envelope.text().into());
        let control = |entry: &Arc<Entry>| {
            let (offset, arrived, text) = present(entry);
            (offset, arrived, text, entry.stamp.as_ref().map(|stamp| stamp.text().into()))
        };
        let stopped = |call: &FailedRequest| Some((call.open.offset, StoppedForm::of(call.cause)?));
        let cancelled = self.standing.failed.iter().filter(|call| call.cause == FailureCause::TooManyWaiting);
        let form = SnapshotForm {
            head: self.head,
            present: self.standing.present.iter().map(present).collect(),
            unanswered: self.standing.waiting.iter().map(write_call).collect(),
            failed: self.standing.failed.iter().map(|call| (call.at, write_call(&call.open))).collect(),
            cancelled: cancelled.map(|call| call.open.offset).collect(),
            ignored: self.ignored.iter().map(|(offset, why)| (*offset, write_ignored(*why))).collect(),
            stored: self.authors.clone(),
            control: self.standing.control.iter().map(control).collect(),
            stopped: self.standing.failed.iter().filter_map(stopped).collect(),
        };
        serde_json::to_vec(&form).expect("plain JSON")
    }

    fn read(bytes: &[u8], epoch: u32) -> Option<Self> {
        let form: SnapshotForm = serde_json::from_slice(bytes).ok()?;
        let entry = |offset, arrived, text: Box<str>, stamp: Option<Box<str>>| {
            let envelope = Envelope::restore(text).ok()?;
            let stamp = stamp.and_then(|text| Stamp::restore(&text));
            Some(Arc::new(Entry { position: Position { epoch, offset }, arrived: Timestamp(arrived), stamp, envelope }))
        };
        let present = form.present.into_iter().map(|(offset, arrived, text)| entry(offset, arrived, text, None));
        let control =
            form.control.into_iter().map(|(offset, arrived, text, stamp)| entry(offset, arrived, text, stamp));
        let stopped: HashMap<_, _> = form.stopped.into_iter().collect();
        let cancelled: HashSet<_> = form.cancelled.into_iter().collect();
        let failed = form.failed.into_iter().map(|(at, call)| {
            let open = read_call(call)?;
            let cause = match (stopped.get(&open.offset), cancelled.contains(&open.offset)) {
                (Some(stopped), _) => stopped.cause(),
                (None, true) => FailureCause::TooManyWaiting,
                (None, false) => FailureCause::CalleeLeft,
            };
            Some(FailedRequest { at, open, cause })
        });
        let standing = Standing {
            head: Position { epoch, offset: form.head },
            present: present.collect::<Option<_>>()?,
            waiting: form.unanswered.into_iter().map(read_call).collect::<Option<_>>()?,
            failed: failed.collect::<Option<_>>()?,
            control: control.collect::<Option<_>>()?,
        };
        let ignored = form.ignored.into_iter().map(|(offset, why)| (offset, read_ignored(why)));
        Some(Self::new(standing, ignored.collect(), form.stored))
    }
}

fn write_ignored(why: Ignored) -> IgnoredForm {
    match why {
        Ignored::Answer(CallClosure::Answered) => IgnoredForm::AnsweredCall,
        Ignored::Answer(CallClosure::Failed) => IgnoredForm::FailedCall,
        Ignored::Leave => IgnoredForm::AbsentParticipant,
        Ignored::Stale => IgnoredForm::Stale,
    }
}

fn read_ignored(why: IgnoredForm) -> Ignored {
    match why {
        IgnoredForm::AnsweredCall => Ignored::Answer(CallClosure::Answered),
        IgnoredForm::FailedCall => Ignored::Answer(CallClosure::Failed),
        IgnoredForm::AbsentParticipant => Ignored::Leave,
        IgnoredForm::Stale => Ignored::Stale,
    }
}

fn write_call(open: &OpenRequest) -> CallForm {
    let id = match &open.id {
        RpcId::Number(text) => text.clone(),
        RpcId::String(text) => serde_json::to_string(text).expect("a text is JSON").into(),
    };
    (open.offset, open.request.clone(), open.caller.clone(), open.callee.clone(), id)
}

fn read_call((offset, request, caller, callee, id): CallForm) -> Option<OpenRequest> {
    Some(OpenRequest { request, caller, callee, id: RpcId::parse(&id)?, offset })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_says_why_calls_failed() {
        let failed = |number: u64, cause| FailedRequest {
            at: 10,
            open: OpenRequest {
                request: EnvelopeId::new(format!("r{number}")).expect("an id"),
                caller: ParticipantId::new("alice").expect("a name"),
                callee: ParticipantId::new("bob").expect("a name"),
                id: RpcId::Number("1".into()),
                offset: number,
            },
            cause,
        };
        let failed = vec![failed(1, FailureCause::CalleeLeft), failed(2, FailureCause::TooManyWaiting)];
        let standing = Standing { failed, ..Standing::nothing(Position { epoch: 1, offset: 10 }) };
        let bytes = Snapshot::new(standing.clone(), BTreeMap::new(), Vec::new()).write();
        let read = Snapshot::read(&bytes, 1).expect("what was written");
        assert_eq!(read.standing.failed, standing.failed);
        // Version 0.2.0 did not say why.
        let text = String::from_utf8(bytes).expect("JSON").replace(r#","cancelled":[2]"#, "");
        let read = Snapshot::read(text.as_bytes(), 1).expect("what an earlier version wrote");
        assert!(read.standing.failed.iter().all(|call| call.cause == FailureCause::CalleeLeft));
    }
}
