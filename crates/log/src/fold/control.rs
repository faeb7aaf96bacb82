//! What the gateway's notices in a topic add up to: the topic's settings, and the calls that are held for approval.
//!
//! Invariant: as in [`super::Fold`], decided by the order of the entries alone. Of two changes of the settings from one version the first
//! counts, and of two decisions about a call.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use salon_control::{ApprovalDecision, ApprovalRequest, ControlNotice, Decision, TopicSettings};
use salon_protocol::{Entry, Envelope, EnvelopeId, FailureCause, Message, ParticipantId, RpcId, SessionId};

use crate::OpenRequest;

/// How many calls may be held in a topic at once. Rooms refuse more; here it is a backstop for what several nodes accept at once.
pub const MAX_HELD_CALLS: usize = 256;
const MAX_FOLDED_HOLDS: usize = 2 * MAX_HELD_CALLS;

/// A call that is held for approval.
#[derive(Debug, Clone)]
pub struct HeldCall {
    /// What the notice says that holds it.
    pub request: Arc<ApprovalRequest>,
    /// The entry of that notice; its stamp is the caller's.
    pub entry: Arc<Entry>,
    /// The participants that have approved it.
    pub approved_by: BTreeSet<ParticipantId>,
    call: OpenRequest,
    /// The session of the caller that made it.
    session: Option<SessionId>,
    decisions: Vec<Arc<Entry>>,
}

impl HeldCall {
    /// Whether as many have approved as have to: it is to be stored now.
    pub fn is_approved(&self) -> bool {
        self.approved_by.len() >= self.request.needs as usize
    }

    /// Reads the held envelope of a notice.
    fn new(entry: &Arc<Entry>, request: Box<ApprovalRequest>) -> Option<Self> {
        let (call, session) = OpenRequest::held(entry, &request)?;
        let (entry, request) = (entry.clone(), Arc::from(request));
        Some(Self { request, entry, approved_by: BTreeSet::new(), call, session, decisions: Vec::new() })
    }

    /// Whether a cancellation of its caller's means it: by the id of its envelope where it names one, and else by the request's id, the callee
    /// and the session.
    fn is_cancelled_by(&self, cancellation: &Envelope, id: &RpcId) -> bool {
        if self.call.caller != *cancellation.from() || self.call.id != *id {
            return false;
        }
        match cancellation.correlation() {
            Some(request) => *request == self.call.request,
            None => {
                let is_callee = cancellation.to().is_empty() || cancellation.to().contains(&self.call.callee);
                let session = cancellation.from_session();
                is_callee && (session.is_none() || self.session.is_none() || session == self.session.as_ref())
            }
        }
    }

    /// How many bytes of memory it takes, roughly.
    pub fn bytes(&self) -> usize {
        // The notice, and the copy of it that was read.
        super::BYTES_BESIDE_TEXTS + 2 * self.entry.envelope.text().len()
    }
}

impl OpenRequest {
    /// The request that a notice holds, at the place of the notice.
    fn held(entry: &Entry, held: &ApprovalRequest) -> Option<(Self, Option<SessionId>)> {
        let envelope = Envelope::restore(held.request.as_str()).ok()?;
        let (Some(Message::Request { id, .. }), [callee]) = (envelope.message(), envelope.to()) else { return None };
        let is_same = *envelope.id() == held.id && *envelope.from() == held.caller && *callee == held.callee;
        let open = Self {
            request: held.id.clone(),
            caller: held.caller.clone(),
            callee: held.callee.clone(),
            id: id.clone(),
            offset: entry.position.offset,
        };
        is_same.then(|| (open, envelope.from_session().cloned()))
    }

    /// The request that an entry holds for approval, if it does.
    pub(crate) fn held_by(entry: &Entry) -> Option<Self> {
        match ControlNotice::of(&entry.envelope) {
            Some(ControlNotice::Requested(held)) => Self::held(entry, &held).map(|(open, _)| open),
            _ => None,
        }
    }
}

/// What one more notice changes.
pub(super) enum ControlEffect {
    /// It counts.
    Counts,
    /// It counts for nothing: somebody was first.
    Stale,
    /// It counts, and it is a change of the settings by this participant; these counted before.
    Settings { by: ParticipantId, before: Option<Arc<TopicSettings>> },
    /// A held call fails by it.
    Fails(OpenRequest, FailureCause),
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(super) struct ControlFold {
    settings: Option<(Arc<TopicSettings>, Arc<Entry>)>,
    holds: BTreeMap<EnvelopeId, HeldCall>,
    bytes: usize,
}

impl ControlFold {
    /// Everything that the entries add up to that are kept of a topic.
    pub(super) fn restore(entries: &[Arc<Entry>]) -> Self {
        let mut fold = Self::default();
        for entry in entries {
            match ControlNotice::of(&entry.envelope) {
                Some(ControlNotice::Settings(change)) => fold.set(change.settings, entry),
                Some(notice) => drop(fold.apply(entry, notice)),
                None => {}
            }
        }
        fold
    }

    /// The entries from which it can be restored, the oldest first.
    pub(super) fn entries(&self) -> Vec<Arc<Entry>> {
        let holds = self.holds.values().flat_map(|hold| std::iter::once(&hold.entry).chain(&hold.decisions));
        let mut entries: Vec<_> = self.settings.iter().map(|(_, entry)| entry).chain(holds).cloned().collect();
        entries.sort_unstable_by_key(|entry| entry.position.offset);
        entries
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.settings.is_none() && self.holds.is_empty()
    }

    pub(super) fn settings(&self) -> Option<&Arc<TopicSettings>> {
        self.settings.as_ref().map(|(settings, _)| settings)
    }

    pub(super) fn holds(&self) -> &BTreeMap<EnvelopeId, HeldCall> {
        &self.holds
    }

    /// Whether a notice would count for nothing.
    pub(super) fn is_stale(&self, notice: &ControlNotice) -> bool {
        match notice {
            ControlNotice::Settings(change) => change.settings.version != self.version() + 1,
            ControlNotice::Requested(held) => self.holds.contains_key(&held.id) || self.holds.len() >= MAX_FOLDED_HOLDS,
            ControlNotice::Decided(decided) => !self.is_open(decided),
            ControlNotice::Redacted(_) => false,
            // It counts before anything else does.
            ControlNotice::Deleted(_) => false,
        }
    }

    fn version(&self) -> u64 {
        self.settings().map_or(0, |settings| settings.version)
    }

    fn is_open(&self, decided: &ApprovalDecision) -> bool {
        let hold = self.holds.get(&decided.id);
        let first = |hold: &&HeldCall| decided.by.as_ref().is_none_or(|by| !hold.approved_by.contains(by));
        // Only what was approved is stored, so nothing else can turn out not to be storable.
        let is_due = |hold: &&HeldCall| hold.is_approved() == (decided.decision == Decision::Dropped);
        hold.filter(first).filter(is_due).is_some_and(|hold| hold.request.digest == decided.digest)
    }

    pub(super) fn apply(&mut self, entry: &Arc<Entry>, notice: ControlNotice) -> ControlEffect {
        if self.is_stale(&notice) {
            return ControlEffect::Stale;
        }
        match notice {
            ControlNotice::Settings(change) => {
                let before = self.settings().cloned();
                self.set(change.settings, entry);
                return ControlEffect::Settings { by: change.by, before };
            }
            ControlNotice::Requested(held) => {
                if let Some(hold) = HeldCall::new(entry, held) {
                    self.bytes += hold.bytes();
                    self.holds.insert(hold.request.id.clone(), hold);
                }
            }
            ControlNotice::Decided(decided) => return self.decide(entry, &decided),
            // Nobody approves a text that nobody can read.
            ControlNotice::Redacted(redaction) => {
                if let Some(call) = self.release(&redaction.id) {
                    return ControlEffect::Fails(call, FailureCause::Withdrawn);
                }
            }
            ControlNotice::Deleted(_) => {}
        }
        ControlEffect::Counts
    }

    pub(super) fn set(&mut self, settings: TopicSettings, entry: &Arc<Entry>) {
        let bytes = |entry: &Entry| super::BYTES_BESIDE_TEXTS + 2 * entry.envelope.text().len();
        self.bytes += bytes(entry);
        self.bytes -= self.settings.as_ref().map_or(0, |(_, entry)| bytes(entry));
        self.settings = Some((Arc::new(settings), entry.clone()));
    }

    fn decide(&mut self, entry: &Arc<Entry>, decided: &ApprovalDecision) -> ControlEffect {
        let cause = match decided.decision {
            Decision::Approved => {
                if let (Some(hold), Some(by)) = (self.holds.get_mut(&decided.id), &decided.by) {
                    hold.approved_by.insert(by.clone());
                    hold.decisions.push(entry.clone());
                }
                return ControlEffect::Counts;
            }
            Decision::Denied => FailureCause::Denied,
            Decision::Expired => FailureCause::Expired,
            Decision::Dropped => FailureCause::Withdrawn,
        };
        match self.release(&decided.id) {
            Some(call) => ControlEffect::Fails(call, cause),
            None => ControlEffect::Stale,
        }
    }

    /// Whether a call is held that has this id and this text.
    pub(super) fn holds_text(&self, id: &EnvelopeId, text: &str) -> bool {
        self.holds.get(id).is_some_and(|hold| hold.request.request == text)
    }

    /// Holds a call no longer.
    pub(super) fn release(&mut self, id: &EnvelopeId) -> Option<OpenRequest> {
        let hold = self.holds.remove(id)?;
        self.bytes -= hold.bytes();
        Some(hold.call)
    }

    /// Holds the calls of some callers no longer.
    pub(super) fn release_calls_of(&mut self, is_caller: impl Fn(&ParticipantId) -> bool) -> Vec<OpenRequest> {
        let of_caller = self.holds.values().filter(|hold| is_caller(&hold.call.caller));
        let ids: Vec<_> = of_caller.map(|hold| hold.call.request.clone()).collect();
        ids.iter().filter_map(|id| self.release(id)).collect()
    }

    /// The held call that a cancellation means.
    pub(super) fn cancelled_by(&self, cancellation: &Envelope, id: &RpcId) -> Option<&EnvelopeId> {
        let held = self.holds.values().find(|hold| hold.is_cancelled_by(cancellation, id));
        held.map(|hold| &hold.call.request)
    }

    /// The offset of the newest settings.
    pub(super) fn settings_at(&self) -> Option<u64> {
        self.settings.as_ref().map(|(_, entry)| entry.position.offset)
    }
}
