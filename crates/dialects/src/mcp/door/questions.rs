//! What other participants have asked the client and it has not answered.
//!
//! Invariants: a question is taken once, and its deadline goes with it. So many may be open, and so many of one participant, that none of
//! them can keep the others from asking. A question belongs to one call of the client's or to none.
//! Deliberately absent: who may ask, how a question is written in an era, and the answers.

use std::collections::BTreeMap;
use std::time::Instant;

use salon_protocol::{EnvelopeId, Members, ParticipantId, RpcError, RpcId};
use serde_json::value::RawValue;

use super::DoorTimer;
use salon_mcp::timers::Timers;

/// Questions that may be open, and of them those of one participant.
pub(super) const MAX_QUESTIONS_OPEN: usize = 64;
pub(super) const MAX_QUESTIONS_EACH: usize = 16;

/// Begins the keys under which a modern client is asked.
const KEY_PREFIX: &str = "req_";

/// A question to the client.
#[derive(Debug)]
pub(super) struct ClientQuestion {
    pub(super) method: Box<str>,
    pub(super) origin: QuestionOrigin,
    /// The call it belongs to.
    pub(super) call: Option<u64>,
    /// Whether its asker named no call, so that it may be about something else than the call it was put to.
    pub(super) names_no_call: bool,
    /// The asker's own progress token.
    pub(super) token: Option<Box<RawValue>>,
}

impl ClientQuestion {
    /// Where its answer goes when a request in the room asked it.
    pub(super) fn asker(self) -> Option<(ParticipantId, EnvelopeId, RpcId)> {
        match self.origin {
            QuestionOrigin::Request { from, envelope, id, .. } => Some((from, envelope, id)),
            QuestionOrigin::Input { .. } => None,
        }
    }

    fn is_from(&self, who: &ParticipantId) -> bool {
        matches!(&self.origin, QuestionOrigin::Request { from, .. } if from == who)
    }

    fn is_envelope(&self, asked: &EnvelopeId) -> bool {
        matches!(&self.origin, QuestionOrigin::Request { envelope, .. } if envelope == asked)
    }

    fn is_input(&self) -> bool {
        matches!(self.origin, QuestionOrigin::Input { .. })
    }
}

#[derive(Debug)]
pub(super) enum QuestionOrigin {
    /// A request in the room; with the parameters that a modern client is asked with.
    Request { from: ParticipantId, envelope: EnvelopeId, id: RpcId, params: Option<Box<RawValue>> },
    /// A question of a modern participant's answer, under its key.
    Input { key: String },
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ClientQuestions {
    open: BTreeMap<u64, ClientQuestion>,
    /// [`DoorTimer::Ask`].
    pub(super) timers: Timers<DoorTimer>,
}

impl ClientQuestions {
    /// Whether a participant may ask one more.
    pub(super) fn has_room_for(&self, who: &ParticipantId) -> bool {
        self.has_room(1) && self.open.values().filter(|question| question.is_from(who)).count() < MAX_QUESTIONS_EACH
    }

    /// Whether so many more may be open.
    pub(super) fn has_room(&self, more: usize) -> bool {
        self.open.len() + more <= MAX_QUESTIONS_OPEN
    }

    pub(super) fn insert(&mut self, number: u64, question: ClientQuestion) {
        self.open.insert(number, question);
    }

    pub(super) fn get(&self, number: u64) -> Option<&ClientQuestion> {
        self.open.get(&number)
    }

    /// Has an open question time out, because no call ends it.
    pub(super) fn expire_at(&mut self, number: u64, at: Instant) {
        if self.open.contains_key(&number) {
            self.timers.set(DoorTimer::Ask(number), at);
        }
    }

    pub(super) fn take(&mut self, number: u64) -> Option<ClientQuestion> {
        self.timers.forget(DoorTimer::Ask(number));
        self.open.remove(&number)
    }

    /// Takes the question of a call that has this key to a modern client.
    pub(super) fn take_keyed(&mut self, call: u64, key: &str) -> Option<ClientQuestion> {
        let number = key.strip_prefix(KEY_PREFIX)?.parse().ok()?;
        self.open.get(&number).filter(|question| question.call == Some(call))?;
        self.take(number)
    }

    pub(super) fn all(&self) -> Vec<u64> {
        self.open.keys().copied().collect()
    }

    /// The questions of a call.
    pub(super) fn of_call(&self, call: u64) -> Vec<u64> {
        self.numbers(|question| question.call == Some(call))
    }

    /// The questions of a call that a modern participant asked by its answer, and nobody else.
    pub(super) fn inputs_of(&self, call: u64) -> Vec<u64> {
        self.numbers(|question| question.call == Some(call) && question.is_input())
    }

    /// The questions of a call that are about this call.
    pub(super) fn about_call(&self, call: u64) -> Vec<u64> {
        self.numbers(|question| question.call == Some(call) && !question.names_no_call)
    }

    /// Whether a question is open that this envelope asked.
    pub(super) fn is_asked_by(&self, envelope: &EnvelopeId) -> bool {
        self.open.values().any(|question| question.is_envelope(envelope))
    }

    /// The questions that a participant asked by requests.
    pub(super) fn of_asker(&self, who: &ParticipantId) -> Vec<u64> {
        self.numbers(|question| question.is_from(who))
    }

    /// The question that a participant asked by the request with this id.
    pub(super) fn of_request(&self, who: &ParticipantId, named: &RpcId) -> Option<u64> {
        let is_it = |question: &ClientQuestion| matches!(&question.origin, QuestionOrigin::Request { from, id, .. } if from == who && id == named);
        self.open.iter().find(|(_, question)| is_it(question)).map(|(number, _)| *number)
    }

    /// Whether the client thinks about a question of a call.
    pub(super) fn is_asking(&self, call: u64) -> bool {
        self.open.values().any(|question| question.call == Some(call))
    }

    /// What a modern client is asked by the answer to a call, by key.
    // MCP 2026-07-28, Multi Round-Trip Requests, "InputRequests".
    pub(super) fn for_modern_client(&self, call: u64) -> Vec<(String, Members)> {
        let of_call = self.open.iter().filter(|(_, question)| question.call == Some(call));
        let asked = of_call.filter_map(|(number, question)| {
            let QuestionOrigin::Request { params, .. } = &question.origin else { return None };
            let mut asked = Members::default();
            asked.set("method", &*question.method);
            if let Some(params) = params {
                asked.set("params", params);
            }
            Some((format!("{KEY_PREFIX}{number}"), asked))
        });
        asked.collect()
    }

    /// Gives the questions of a call that is over to another one, or to none until a moment. Whether there were any.
    pub(super) fn hand_over(&mut self, call: u64, heir: Option<u64>, until: Instant) -> bool {
        let numbers = self.of_call(call);
        for number in &numbers {
            if let Some(question) = self.open.get_mut(number) {
                question.call = heir;
            }
            if heir.is_none() {
                self.expire_at(*number, until);
            }
        }
        !numbers.is_empty()
    }

    fn numbers(&self, is_wanted: impl Fn(&ClientQuestion) -> bool) -> Vec<u64> {
        self.open.iter().filter(|(_, question)| is_wanted(question)).map(|(number, _)| *number).collect()
    }
}

/// The error for a participant that asks when no more questions may be open.
pub(super) fn too_many() -> RpcError {
    let told =
        format!("too many questions are open already: at most {MAX_QUESTIONS_OPEN}, of one asker {MAX_QUESTIONS_EACH}");
    RpcError::internal(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn who(name: &str) -> ParticipantId {
        ParticipantId::new(name).unwrap()
    }

    fn request(from: &str, id: &str, call: Option<u64>) -> ClientQuestion {
        let (envelope, id) = (EnvelopeId::new("e1").unwrap(), RpcId::parse(id).unwrap());
        let params = RawValue::from_string(r#"{"n":1}"#.into()).ok();
        let origin = QuestionOrigin::Request { from: who(from), envelope, id, params };
        ClientQuestion { method: "roots/list".into(), origin, call, names_no_call: false, token: None }
    }

    fn input(call: u64) -> ClientQuestion {
        let origin = QuestionOrigin::Input { key: "k".into() };
        ClientQuestion { method: "roots/list".into(), origin, call: Some(call), names_no_call: false, token: None }
    }

    #[test]
    fn one_participant_cannot_keep_the_others_from_asking() {
        let mut questions = ClientQuestions::default();
        for number in 0..MAX_QUESTIONS_EACH as u64 {
            assert!(questions.has_room_for(&who("bob")));
            questions.insert(number, request("bob", "1", None));
        }
        assert!(!questions.has_room_for(&who("bob")) && questions.has_room_for(&who("carol")));
        for number in questions.open.len() as u64..MAX_QUESTIONS_OPEN as u64 {
            assert!(questions.has_room(1));
            questions.insert(number, input(1));
        }
        assert!(!questions.has_room_for(&who("carol")) && questions.has_room(0));
    }

    #[test]
    fn a_key_finds_only_a_question_of_its_call() {
        let mut questions = ClientQuestions::default();
        questions.insert(4, request("bob", "1", Some(2)));
        questions.insert(5, input(2));
        let asked = questions.for_modern_client(2);
        let asked: Vec<_> = asked.iter().map(|(key, asked)| (key.as_str(), asked.to_raw().get().to_owned())).collect();
        assert_eq!(asked, [("req_4", r#"{"method":"roots/list","params":{"n":1}}"#.to_owned())]);
        for (call, key) in [(3, "req_4"), (2, "req_6"), (2, "4"), (2, "req_x")] {
            assert!(questions.take_keyed(call, key).is_none(), "{call} {key}");
        }
        assert!(questions.take_keyed(2, "req_4").is_some());
        assert!(questions.take_keyed(2, "req_4").is_none(), "it is taken once");
        assert!(!questions.inputs_of(2).is_empty() && questions.is_asking(2));
    }

    #[test]
    fn questions_without_a_call_expire_and_their_deadline_goes_with_them() {
        let now = Instant::now();
        let mut questions = ClientQuestions::default();
        questions.insert(4, request("bob", "1", Some(2)));
        questions.insert(5, request("carol", "\"1\"", Some(3)));
        assert!(questions.hand_over(2, Some(3), now) && !questions.hand_over(2, None, now));
        assert_eq!((questions.of_call(3), questions.timers.next()), (vec![4, 5], None));
        let until = now + Duration::from_secs(1);
        assert!(questions.hand_over(3, None, until));
        assert!(questions.of_call(3).is_empty());
        assert_eq!(questions.timers.next(), Some(until));
        assert_eq!(questions.of_request(&who("bob"), &RpcId::parse("1").unwrap()), Some(4));
        assert_eq!(questions.of_request(&who("carol"), &RpcId::parse("1").unwrap()), None, "another type of id");
        assert_eq!(questions.of_asker(&who("carol")), [5]);
        for number in questions.all() {
            assert!(questions.take(number).and_then(ClientQuestion::asker).is_some());
        }
        assert_eq!(questions.timers.next(), None);
        questions.expire_at(4, until);
        assert_eq!(questions.timers.next(), None, "it is not open");
    }
}
