//! What a topic's entries added up to at some position, kept so that it need not be read from the beginning, and so that retention
//! leaves nobody out.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use salon_protocol::{
    Entry, Envelope, EnvelopeId, FailureCause, ParticipantId, Position, RpcId, Stamp, Timestamp, TopicName,
};
use serde::{Deserialize, Serialize};

use super::Shared;
use super::fault::NatsFault;
use super::names::token;
use super::parts;
use super::stored::AuthorsForm;
use crate::{CallClosure, Deletion, FailedRequest, Fold, Ignored, OpenRequest, Standing};

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
    /// How many bytes the authors of the entries have stored. Version 0.1 did not count them.
    #[serde(default)]
    stored: AuthorsForm,
    /// The notices of the gateway that settings and held calls follow from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    control: Vec<NoticeForm>,
    /// Where the topic was deleted, and whether nobody has entered it since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deleted: Option<(u64, bool)>,
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
        let kept = parts::load(&shared.link, &shared.folds, &token(topic.as_str())).await?;
        let Some((revision, bytes)) = kept else { return Ok(None) };
        let damaged = || NatsFault::Damaged(format!("what was kept of `{topic}`").into());
        Ok(Some((revision, Self::read(&bytes, shared.epoch).ok_or_else(damaged)?)))
    }

    /// Keeps it in place of a revision, and gives its own.
    pub(super) async fn keep(&self, shared: &Shared, topic: &TopicName, revision: u64) -> Result<u64, NatsFault> {
        parts::keep(shared, &token(topic.as_str()), self.head, self.write(), revision).await
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
            deleted: self.standing.deletion.map(|Deletion { at, is_vacant }| (at, is_vacant)),
            stopped: self.standing.failed.iter().filter_map(stopped).collect(),
        };
        serde_json::to_vec(&form).expect("plain JSON")
    }

    pub(super) fn read(bytes: &[u8], epoch: u32) -> Option<Self> {
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
            deletion: form.deleted.map(|(at, is_vacant)| Deletion { at, is_vacant }),
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
