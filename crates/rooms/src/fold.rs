//! What follows from a topic's entries so far: who is present, and which requests wait for an answer.
//!
//! Invariant: a fold over the log, in the log's order. The same entries give the same fold on every node and after every restart.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use salon_log::{OpenRequest, Standing};
use salon_protocol::{Entry, EnvelopeId, Message, Participant, ParticipantId, PresenceEvent, RpcId};

/// A request whose caller must be told that nobody will answer it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedCall {
    /// The request's envelope.
    pub request: EnvelopeId,
    /// Its JSON-RPC id.
    pub id: RpcId,
    /// Whom it asked.
    pub callee: ParticipantId,
}

/// A request without an answer.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) caller: ParticipantId,
    pub(crate) callee: ParticipantId,
    pub(crate) id: RpcId,
    asked: u64,
    failed: Option<u64>,
    /// An answer was accepted and is on its way into the log.
    pub(crate) answering: bool,
}

/// How many unanswered requests of one caller are remembered.
const MAX_OF_ONE: usize = 1000;

#[derive(Debug, Default)]
struct Caller {
    open: usize,
    /// Its requests in the order they were made, some of them answered since.
    asked: VecDeque<EnvelopeId>,
}

#[derive(Debug, Default)]
pub(crate) struct Fold {
    roster: BTreeMap<ParticipantId, Arc<Participant>>,
    calls: HashMap<EnvelopeId, Call>,
    /// The same by caller: what one of them leaves open must not push out what another waits for.
    callers: HashMap<ParticipantId, Caller>,
    /// The offset everything up to which has been taken.
    through: u64,
}

impl Fold {
    /// The fold of everything up to `standing.head`.
    pub(crate) fn restore(standing: &Standing) -> Self {
        let mut fold = Self::default();
        let mut joined = HashMap::new();
        for entry in &standing.present {
            if let Some(presence) = entry.envelope.presence() {
                joined.insert(presence.participant.id.clone(), entry.position.offset);
                fold.roster.insert(presence.participant.id.clone(), Arc::new(presence.participant));
            }
        }
        for open in &standing.unanswered {
            fold.ask(open.clone());
            // When exactly the callee left is not kept, so its callers may be told once more than needed.
            if let Some(call) = fold.calls.get_mut(&open.request)
                && !call.callee.is_host()
                && joined.get(&call.callee).is_none_or(|&since| since > call.asked)
            {
                call.failed = Some(standing.head.offset);
            }
        }
        fold.through = standing.head.offset;
        fold
    }

    /// Takes the next entry; says whether some call fails by it. What the fold was restored from is not taken twice.
    pub(crate) fn apply(&mut self, entry: &Entry) -> bool {
        if entry.position.offset <= self.through {
            return false;
        }
        self.through = entry.position.offset;
        if let Some(presence) = entry.envelope.presence() {
            let who = presence.participant.id.clone();
            return match presence.event {
                PresenceEvent::Join => {
                    let began_anew = self.roster.insert(who.clone(), Arc::new(presence.participant)).is_some();
                    began_anew && self.fail_calls_to(&who, entry.position.offset)
                }
                PresenceEvent::Leave => {
                    self.roster.remove(&who);
                    self.fail_calls_to(&who, entry.position.offset)
                }
                PresenceEvent::Heartbeat => false,
            };
        }
        match entry.envelope.message() {
            Some(Message::Request { .. }) => OpenRequest::of(entry).is_some_and(|open| self.ask(open)),
            Some(Message::Response { .. }) => {
                if let Some(request) = entry.envelope.correlation() {
                    self.remove(request);
                }
                false
            }
            Some(Message::Notification { .. }) | None => false,
        }
    }

    /// Notes a request; says whether it failed at once, because whom it asks left just before it.
    fn ask(&mut self, open: OpenRequest) -> bool {
        let OpenRequest { request, caller, callee, id, offset: asked } = open;
        let failed = (!self.is_present(&callee)).then_some(asked);
        let made = self.callers.entry(caller.clone()).or_default();
        made.open += 1;
        made.asked.push_back(request.clone());
        let too_many = made.open > MAX_OF_ONE;
        self.calls.insert(request, Call { caller: caller.clone(), callee, id, asked, failed, answering: false });
        if too_many {
            self.forget_oldest_of(&caller);
        }
        if self.calls.len() > Standing::MAX_UNANSWERED {
            let busiest = self.callers.iter().max_by_key(|(_, made)| made.open).map(|(caller, _)| caller.clone());
            busiest.iter().for_each(|caller| self.forget_oldest_of(caller));
        }
        failed.is_some()
    }

    fn forget_oldest_of(&mut self, caller: &ParticipantId) {
        while let Some(oldest) = self.callers.get_mut(caller).and_then(|made| made.asked.pop_front()) {
            if self.calls.contains_key(&oldest) {
                return self.remove(&oldest);
            }
        }
    }

    fn remove(&mut self, request: &EnvelopeId) {
        let Some(call) = self.calls.remove(request) else { return };
        let Some(made) = self.callers.get_mut(&call.caller) else { return };
        made.open -= 1;
        if made.open == 0 {
            self.callers.remove(&call.caller);
        } else if made.asked.len() > 2 * made.open + 64 {
            made.asked.retain(|id| self.calls.contains_key(id));
        }
    }

    fn fail_calls_to(&mut self, callee: &ParticipantId, at: u64) -> bool {
        let mut any = false;
        for call in self.calls.values_mut().filter(|call| call.callee == *callee && call.failed.is_none()) {
            call.failed = Some(at);
            any = true;
        }
        any
    }

    /// The calls of `caller` that failed after one offset and up to another, in the order they were made.
    pub(crate) fn failed_calls(&self, caller: &ParticipantId, after: u64, up_to: u64) -> Vec<FailedCall> {
        let mut failed: Vec<_> = self
            .calls
            .iter()
            .filter(|(_, call)| call.caller == *caller && call.failed.is_some_and(|at| after < at && at <= up_to))
            .collect();
        failed.sort_by_key(|(_, call)| call.asked);
        let tell = |(request, call): (&EnvelopeId, &Call)| FailedCall {
            request: request.clone(),
            id: call.id.clone(),
            callee: call.callee.clone(),
        };
        failed.into_iter().map(tell).collect()
    }

    /// Whether requests to a participant wait for an answer that may still come.
    pub(crate) fn is_awaited(&self, callee: &ParticipantId) -> bool {
        self.calls.values().any(|call| call.callee == *callee && call.failed.is_none())
    }

    /// The oldest unanswered request to a participant.
    pub(crate) fn first_asked(&self, callee: &ParticipantId) -> Option<u64> {
        self.calls.values().filter(|call| call.callee == *callee).map(|call| call.asked).min()
    }

    /// An unanswered request.
    pub(crate) fn call_mut(&mut self, request: &EnvelopeId) -> Option<&mut Call> {
        self.calls.get_mut(request)
    }

    /// Whether somebody is here. The host always is.
    pub(crate) fn is_present(&self, participant: &ParticipantId) -> bool {
        participant.is_host() || self.roster.contains_key(participant)
    }

    /// Somebody who is here.
    pub(crate) fn participant(&self, id: &ParticipantId) -> Option<&Arc<Participant>> {
        self.roster.get(id)
    }

    /// Everybody here, by id.
    pub(crate) fn roster(&self) -> Vec<Arc<Participant>> {
        self.roster.values().cloned().collect()
    }

    pub(crate) fn population(&self) -> usize {
        self.roster.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use salon_protocol::Position;

    fn name(text: &str) -> ParticipantId {
        ParticipantId::new(text).expect("a name")
    }

    fn open(caller: &str, number: u64) -> OpenRequest {
        OpenRequest {
            request: EnvelopeId::new(format!("{caller}-{number}")).expect("an id"),
            caller: name(caller),
            callee: name("system:gateway"),
            id: RpcId::Number("1".into()),
            offset: number + 1,
        }
    }

    #[test]
    fn one_callers_flood_forgets_only_its_own() {
        let standing = Standing { head: Position::start(1), present: Vec::new(), unanswered: Vec::new() };
        let mut fold = Fold::restore(&standing);
        fold.ask(open("alice", 0));
        for number in 0..3 * MAX_OF_ONE as u64 {
            fold.ask(open("mallory", number));
        }
        let knows = |fold: &mut Fold, id: &str| fold.call_mut(&EnvelopeId::new(id).expect("an id")).is_some();
        assert!(knows(&mut fold, "alice-0"));
        assert!(!knows(&mut fold, "mallory-0"));
        assert!(knows(&mut fold, "mallory-2999"));
        assert_eq!(fold.calls.len(), MAX_OF_ONE + 1);
        for number in 0..20 {
            for other in 0..MAX_OF_ONE as u64 {
                fold.ask(open(&format!("crowd-{number}"), other));
            }
        }
        assert_eq!(fold.calls.len(), Standing::MAX_UNANSWERED);
        assert!(knows(&mut fold, "alice-0"), "the busiest are forgotten first");
    }
}
