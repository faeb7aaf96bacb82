use std::sync::Arc;

use super::super::ClientProfile;
use super::*;
use crate::mcp::door::empty;
use salon_mcp::Revision;
use salon_protocol::{Code, Compose, Kind, Limits, Timestamp};
use std::time::Duration;

fn who(name: &str) -> ParticipantId {
    ParticipantId::new(name).unwrap()
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.into()).unwrap()
}

fn profile(level: Option<LogLevel>) -> Arc<ClientProfile> {
    Arc::new(ClientProfile { revision: Revision::MODERN, capabilities: empty(), info: None, level })
}

fn asked(channel: Channel, level: Option<LogLevel>) -> CallPurpose {
    let (id, method) = (raw("1"), "tools/call".into());
    let request = DoorRequest { channel, id, method, params: None, profile: profile(level), headers: None };
    CallPurpose::Client(Box::new(ClientRequest::new(request, None, None)))
}

fn insert(calls: &mut DoorCalls, number: u64, to: &str, purpose: CallPurpose) {
    let level = match &purpose {
        CallPurpose::Client(asked) => asked.request.profile.level,
        _ => None,
    };
    calls.insert(number, DoorCall::new(&who(to), "tools/call", Some(raw("{}")), profile(level), purpose), None);
}

fn draft(id: &str) -> Draft {
    let (from, to) = (who("alice"), [who("bob")]);
    let payload = serde_json::json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call" });
    let compose =
        Compose { id, ts: Timestamp(0), from: &from, to: &to, kind: Kind::Mcp, correlation_id: None, payload };
    Draft::parse(compose.text(), &Limits::default()).unwrap()
}

fn envelope(id: &str) -> EnvelopeId {
    EnvelopeId::new(id).unwrap()
}

#[test]
fn an_envelope_leads_to_its_call_while_that_waits_for_the_answer() {
    let mut calls = DoorCalls::default();
    insert(&mut calls, 1, "bob", CallPurpose::Duty);
    calls.sent(1, &draft("e1"), Era::Legacy);
    assert_eq!(calls.of_envelope(&envelope("e1")), Some(1));
    assert_eq!(calls.call_to(&envelope("e1"), &who("bob")), Some(1));
    assert_eq!(calls.call_to(&envelope("e1"), &who("carol")), None, "not every name is one's own to give");
    calls.unsend(1);
    assert_eq!(calls.of_envelope(&envelope("e1")), None, "it is sent again, and this is no answer to that");
    calls.sent(1, &draft("e2"), Era::Legacy);
    calls.extend(1, Instant::now());
    calls.remove(1);
    assert_eq!((calls.of_envelope(&envelope("e2")), calls.timers.next()), (None, None));
}

#[test]
fn only_the_doors_own_requests_are_sent_again_and_only_until_they_are_stored() {
    let now = Instant::now();
    let busy = Refusal::new(Code::RateLimited, "too much");
    let mut calls = DoorCalls::default();
    insert(&mut calls, 1, "bob", CallPurpose::Duty);
    insert(&mut calls, 2, "bob", CallPurpose::Duty);
    insert(&mut calls, 3, "bob", asked(Channel::SESSION, None));
    for number in 1..=3 {
        calls.sent(number, &draft(&format!("e{number}")), Era::Legacy);
    }
    calls.stored(&envelope("e2"));
    assert_eq!([1, 2, 3].map(|number| calls.refused(number, &busy)), [true, false, false]);
    assert!(calls.has_refused());
    assert_eq!(calls.of_envelope(&envelope("e1")), Some(1), "it may have been stored, and then it is answered");
    calls.retry_later(now);
    calls.retry_later(now + Duration::from_secs(9));
    assert_eq!(calls.timers.next(), Some(now + RETRY_DELAY), "the first deadline stands");
    let (again, era) = calls.take_refused(1).expect("a draft");
    assert_eq!((again.envelope().id().as_str(), era), ("e1", Era::Legacy));
    calls.sent(1, &again, era);
    assert!(!calls.has_refused() && calls.take_refused(2).is_none());
}

#[test]
fn what_became_of_a_paused_call_does_not_change() {
    let now = Instant::now();
    let mut calls = DoorCalls::default();
    insert(&mut calls, 1, "bob", asked(Channel::SESSION, None));
    calls.sent(1, &draft("e1"), Era::Legacy);
    assert!(!calls.park_outcome(1, || raw("1")), "its client is here");
    calls.gather_questions(1, now);
    assert!(calls.park(1, "state", now).is_some());
    assert_eq!((calls.parked("state", "tools/call"), calls.parked("state", "prompts/get")), (Some(1), None));
    assert!(calls.cause(None, &who("bob")).is_none(), "nothing can be said on its stream");
    assert!(calls.park_outcome(1, || raw("1")) && calls.park_outcome(1, || raw("2")));
    assert_eq!(calls.of_envelope(&envelope("e1")), None);
    let CallPurpose::Client(again) = asked(Channel::SESSION, None) else { unreachable!() };
    let resumed = calls.resume(1, again.request, None);
    assert!(matches!(resumed, Some(ResumedCall::Ended(outcome)) if outcome.get() == "1"));
    assert_eq!(calls.parked("state", "tools/call"), None);
    assert!(calls.cause(None, &who("bob")).is_some());
}

#[test]
fn a_call_that_is_to_be_made_anew_takes_no_answer() {
    let now = Instant::now();
    let mut calls = DoorCalls::default();
    insert(&mut calls, 1, "bob", asked(Channel::SESSION, None));
    calls.sent(1, &draft("e1"), Era::Legacy);
    calls.gather_questions(1, now);
    assert!(calls.resend_call(1), "its client is here to be asked");
    assert_eq!((calls.of_envelope(&envelope("e1")), calls.timers.next()), (None, None));
    calls.park(1, "state", now);
    assert!(!calls.resend_call(1));
    let CallPurpose::Client(again) = asked(Channel::SESSION, None) else { unreachable!() };
    assert!(matches!(calls.resume(1, again.request, None), Some(ResumedCall::Repeated)));
}

#[test]
fn a_call_whose_participant_wants_input_waits_to_be_sent_with_it() {
    let mut calls = DoorCalls::default();
    insert(&mut calls, 1, "bob", asked(Channel::SESSION, None));
    let roots = raw(r#"{"roots":{}}"#);
    let client = InputClient { capabilities: &roots, revision: Revision::ROOM, id_prefix: "p" };
    let wanted = |method: &str| {
        let asks = format!(r#"{{"resultType":"input_required","inputRequests":{{"a":{{"method":"{method}"}}}}}}"#);
        InputRequired::read(&raw(&asks)).unwrap()
    };
    calls.sent(1, &draft("e1"), Era::Modern);
    assert!(matches!(calls.begin_round(1, wanted("roots/list"), client), Some(Ok(InputRound::Ask(_)))));
    assert_eq!(calls.of_envelope(&envelope("e1")), None, "it has its answer");
    assert!(calls.client_mut(1).unwrap().rounds.answer("a", Ok(raw("1"))).unwrap());
    assert_eq!(calls.params(1, true).unwrap().get(), r#"{"inputResponses":{"a":1}}"#);
    calls.sent(1, &draft("e2"), Era::Modern);
    assert!(matches!(calls.begin_round(1, wanted("x/y"), client), Some(Err(InputFailure::NotOffered { .. }))));
    insert(&mut calls, 2, "bob", CallPurpose::Duty);
    assert!(calls.begin_round(2, wanted("roots/list"), client).is_none());
}

#[test]
fn the_finest_level_is_that_of_the_clients_open_requests() {
    let mut calls = DoorCalls::default();
    insert(&mut calls, 1, "bob", asked(Channel::SESSION, Some(LogLevel::Error)));
    insert(&mut calls, 2, "bob", asked(Channel::SESSION, Some(LogLevel::Info)));
    insert(&mut calls, 3, "carol", asked(Channel::SESSION, Some(LogLevel::Debug)));
    assert_eq!(calls.finest_level(&who("bob")), Some(LogLevel::Info));
    calls.remove(2);
    assert_eq!(calls.finest_level(&who("bob")), Some(LogLevel::Error));
    assert_eq!(calls.client_count(), 2);
}
