use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use proptest::prelude::*;
use salon_protocol::RpcError;
use serde_json::value::RawValue;

use super::{CallEnd, CallFailure, CallId, Caller, CallerProfile, CallerStep, ListLimits, RequestId};
use crate::Era;
use crate::handshake::HandshakeParams;
use crate::listing::Listing;

const LIMITS: ListLimits = ListLimits { pages: 3, items: 4, bytes: 1000 };
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);
const HANDSHAKE: Duration = Duration::from_secs(15);

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.into()).expect("the test writes JSON")
}

fn profile(capabilities: &str) -> CallerProfile {
    let client = HandshakeParams {
        requested_revision: None,
        capabilities: raw(capabilities),
        info: Some(raw(r#"{"name":"c"}"#)),
    };
    CallerProfile {
        handshake_timeout: Some(HANDSHAKE),
        silence_timeout: Some(SILENCE_TIMEOUT),
        ..CallerProfile::new(client)
    }
}

/// A caller whose steps are written down, one a line.
struct CallerScript {
    caller: Caller,
    now: Instant,
    sent: Vec<RequestId>,
}

impl CallerScript {
    fn new(era: Era) -> Self {
        Self::with(Caller::new(profile(r#"{"roots":{},"elicitation":{}}"#), era))
    }

    fn with(caller: Caller) -> Self {
        Self { caller, now: Instant::now(), sent: Vec::new() }
    }

    fn call(&mut self, method: &str, params: &str) -> CallId {
        self.caller.call(method, Some(&raw(params)), self.now)
    }

    /// Answers the newest request.
    fn result(&mut self, result: &str) {
        let request = *self.sent.last().expect("something was sent");
        self.caller.answered(request, Ok(&raw(result)), self.now);
    }

    fn error(&mut self, error: &str) {
        let request = *self.sent.last().expect("something was sent");
        self.caller.answered(request, Err(&raw(error)), self.now);
    }

    fn after(&mut self, time: Duration) {
        self.now += time;
        self.caller.handle_timeout(self.now);
    }

    fn steps(&mut self) -> String {
        let mut lines = Vec::new();
        while let Some(step) = self.caller.poll_step() {
            if let CallerStep::Send { request, .. } = &step {
                self.sent.push(*request);
            }
            lines.push(line(&step).replace("io.modelcontextprotocol/", "~/"));
        }
        lines.join("\n")
    }
}

fn line(step: &CallerStep) -> String {
    match step {
        CallerStep::Send { method, params, .. } => {
            format!("send {method} {}", params.as_deref().map_or("-", RawValue::get))
        }
        CallerStep::Initialized => "initialized".into(),
        CallerStep::Withdraw { reason, .. } => format!("withdraw: {reason}"),
        CallerStep::Ask { key, question, .. } => format!("ask {key} {}", question.method),
        CallerStep::Introduced(Ok(result)) => format!("introduced {result}"),
        CallerStep::Introduced(Err(failure)) => format!("not introduced: {failure:?}"),
        CallerStep::End(_, Ok(CallEnd::Result(result))) => format!("end {result}"),
        CallerStep::End(_, Ok(CallEnd::List(list))) => {
            let names: Vec<_> = list.items.iter().map(|item| &*item.name).collect();
            format!("end [{}] kept {:?}", names.join(" "), list.lifetime)
        }
        CallerStep::End(_, Err(CallFailure::NoInput { method, error })) => {
            format!("no input: {method}, {}", error.code)
        }
        CallerStep::End(_, Err(CallFailure::Lost(why))) => format!("lost: {}", why.message),
        CallerStep::End(_, Err(failure)) => format!("failed: {failure:?}"),
    }
}

#[test]
fn a_legacy_server_is_called_after_one_handshake() {
    let mut script = CallerScript::new(Era::Legacy);
    script.call("tools/call", r#"{"name":"a","arguments":{"n": 1.0}}"#);
    script.call("ping", "{}");
    assert_snapshot!(script.steps(), @r#"send initialize {"protocolVersion":"2025-06-18","capabilities":{"roots":{},"elicitation":{}},"clientInfo":{"name":"c"}}"#);
    script.result(r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}"#);
    assert_snapshot!(script.steps(), @r#"
    initialized
    introduced {"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}
    send tools/call {"name":"a","arguments":{"n": 1.0}}
    send ping {}
    "#);
    assert!(script.caller.server().is_some_and(|server| server.has("tools")));
    script.result("{}");
    script.call("tools/call", r#"{"name":"b"}"#);
    assert_snapshot!(script.steps(), @r#"
    end {}
    send tools/call {"name":"b"}
    "#);
    // What looks like a question is none in this era.
    script.result(r#"{"resultType":"input_required"}"#);
    assert_snapshot!(script.steps(), @r#"end {"resultType":"input_required"}"#);
}

#[test]
fn a_modern_server_is_told_with_every_request_who_calls() {
    let mut script = CallerScript::new(Era::Modern);
    script.call("tools/call", r#"{"name":"a","_meta":{"progressToken":7}}"#);
    assert_snapshot!(script.steps(), @r#"send tools/call {"name":"a","_meta":{"progressToken":7,"~/protocolVersion":"2026-07-28","~/clientInfo":{"name":"c"},"~/clientCapabilities":{"roots":{},"elicitation":{}}}}"#);
    script.error(r#"{"code":1,"message":"no"}"#);
    script.call("tools/call", "[1]");
    assert_snapshot!(script.steps(), @r#"
    failed: Answered(RawValue({"code":1,"message":"no"}))
    failed: InvalidParams
    "#);
    script.caller.introduce(script.now);
    script.steps();
    script.result(r#"{"capabilities":{"prompts":{}}}"#);
    assert_snapshot!(script.steps(), @r#"introduced {"capabilities":{"prompts":{}}}"#);
    assert!(script.caller.server().is_some_and(|server| server.has("prompts")));
}

#[test]
fn a_handshake_that_fails_fails_what_waits_for_it_and_is_tried_again() {
    let mut script = CallerScript::new(Era::Legacy);
    script.call("ping", "{}");
    script.steps();
    script.after(HANDSHAKE);
    assert_snapshot!(script.steps(), @r"
    not introduced: TimedOut
    failed: TimedOut
    ");
    // Its answer comes too late to matter.
    script.result("{}");
    assert_snapshot!(script.steps(), @"");
    script.call("ping", "{}");
    script.steps();
    script.error(r#"{"code":-32601,"message":"?"}"#);
    script.call("ping", "{}");
    assert_snapshot!(script.steps(), @r#"
    not introduced: Handshake(RawValue({"code":-32601,"message":"?"}))
    failed: Handshake(RawValue({"code":-32601,"message":"?"}))
    failed: Handshake(RawValue({"code":-32601,"message":"?"}))
    "#);
    let mut script =
        CallerScript::with(Caller::new(CallerProfile { calls_unwilling: true, ..profile("{}") }, Era::Legacy));
    script.call("ping", "{}");
    script.steps();
    script.error(r#"{"code":-32601,"message":"?"}"#);
    assert_snapshot!(script.steps(), @r#"
    not introduced: Handshake(RawValue({"code":-32601,"message":"?"}))
    send ping {}
    "#);
}

#[test]
fn a_server_that_starts_over_is_introduced_again() {
    let mut script = CallerScript::new(Era::Legacy);
    script.call("ping", "{}");
    script.steps();
    let before = script.sent[0];
    script.caller.restarted(Era::Legacy, script.now);
    assert!(script.steps().starts_with("send initialize"));
    script.caller.answered(before, Ok(&raw("{}")), script.now);
    assert_snapshot!(script.steps(), @"");
    script.caller.restarted(Era::Modern, script.now);
    assert!(script.steps().starts_with("send ping"), "it needs no handshake now");
}

#[test]
fn lists_are_read_to_their_end() {
    for (era, end) in [
        (Era::Legacy, "end [a b c] kept None"),
        // The shortest of its pages.
        (Era::Modern, "end [a b c] kept Some(2s)"),
    ] {
        let mut script = CallerScript::with(Caller::after_handshake(profile("{}"), era));
        script.caller.list(Listing::Tools, LIMITS, script.now);
        assert!(script.steps().starts_with("send tools/list {"));
        script.result(r#"{"tools":[{"name":"a"},{"name":"b"}],"nextCursor":"2","ttlMs":5000}"#);
        assert!(script.steps().contains(r#""cursor":"2""#));
        script.result(r#"{"tools":[{"name":"c"}],"ttlMs":2000}"#);
        assert_eq!(script.steps(), end);
    }
    let read = |pages: &[&str]| {
        let mut script = CallerScript::with(Caller::after_handshake(profile("{}"), Era::Legacy));
        script.caller.list(Listing::Prompts, LIMITS, script.now);
        for page in pages {
            script.steps();
            match page.strip_prefix('!') {
                Some(error) => script.error(error),
                None => script.result(page),
            }
        }
        script.steps()
    };
    assert_snapshot!(read(&[r#"!{"code":-32601,"message":"?"}"#]), @"end [] kept None");
    assert_snapshot!(read(&[r#"!{"code":-32603,"message":"?"}"#]), @r#"failed: Answered(RawValue({"code":-32603,"message":"?"}))"#);
    assert_snapshot!(read(&[r#"{"tools":[]}"#]), @"failed: Unreadable");
    let circle = r#"{"prompts":[],"nextCursor":"x"}"#;
    assert_snapshot!(read(&[circle, circle]), @"failed: Endless");
    let long = r#"{"prompts":[{"name":"1"},{"name":"2"},{"name":"3"},{"name":"4"},{"name":"5"}]}"#;
    assert_snapshot!(read(&[long]), @"failed: Endless");
    assert_snapshot!(read(&[r#"{"prompts":[],"nextCursor":"1"}"#, r#"{"prompts":[],"nextCursor":"2"}"#, r#"{"prompts":[],"nextCursor":"3"}"#]), @"failed: Endless");
}

#[test]
fn a_modern_server_is_given_the_input_it_asks_for() {
    let mut script = CallerScript::new(Era::Modern);
    let call = script.call("tools/call", r#"{"name":"a"}"#);
    script.steps();
    script.result(r#"{"resultType":"input_required","inputRequests":{"where":{"method":"roots/list"},"who":{"method":"elicitation/create"}},"requestState":"s"}"#);
    assert_snapshot!(script.steps(), @r"
    ask where roots/list
    ask who elicitation/create
    ");
    script.caller.input(call, "who", Err(RpcError::internal("broken")), script.now);
    script.caller.input(call, "who", Ok(raw("{}")), script.now);
    script.caller.input(call, "nobody", Ok(raw("{}")), script.now);
    assert_snapshot!(script.steps(), @"");
    script.caller.input(call, "where", Ok(raw(r#"{"roots":[]}"#)), script.now);
    let sent = script.steps();
    assert!(
        sent.ends_with(r#","inputResponses":{"who":{"action":"cancel"},"where":{"roots":[]}},"requestState":"s"}"#),
        "{sent}"
    );
    // Nothing to answer: the same again, a little later.
    script.result(r#"{"resultType":"input_required","requestState":"t"}"#);
    assert_snapshot!(script.steps(), @"");
    script.after(Duration::from_secs(1));
    let sent = script.steps();
    assert!(sent.starts_with("send tools/call") && sent.ends_with(r#"},"requestState":"t"}"#), "{sent}");
    script.result(r#"{"resultType":"complete"}"#);
    assert_snapshot!(script.steps(), @r#"end {"resultType":"complete"}"#);
}

#[test]
fn input_that_the_client_does_not_offer_is_declined_or_fails_the_call() {
    let ask = |questions: &str| format!(r#"{{"resultType":"input_required","inputRequests":{questions}}}"#);
    let mut script = CallerScript::with(Caller::new(profile("{}"), Era::Modern));
    script.call("tools/call", r#"{"name":"a"}"#);
    script.steps();
    script.result(&ask(r#"{"who":{"method":"elicitation/create"}}"#));
    let sent = script.steps();
    assert!(sent.ends_with(r#""inputResponses":{"who":{"action":"decline"}}}"#), "{sent}");
    script.result(&ask(r#"{"who":{"method":"elicitation/create"},"what":{"method":"sampling/createMessage"}}"#));
    assert_snapshot!(script.steps(), @"no input: sampling/createMessage, -32601");

    let mut script = CallerScript::new(Era::Modern);
    script.call("tools/call", r#"{"name":"a"}"#);
    script.steps();
    script.result(&ask(r#"{"where":{"method":"roots/list"},"what":{"method":"sampling/createMessage"}}"#));
    assert_snapshot!(script.steps(), @"no input: sampling/createMessage, -32601");
    let call = script.call("tools/call", r#"{"name":"a"}"#);
    script.steps();
    script.result(&ask(r#"{"where":{"method":"roots/list"}}"#));
    script.steps();
    script.caller.input(call, "where", Err(RpcError::internal("broken")), script.now);
    assert_snapshot!(script.steps(), @"no input: roots/list, -32603");
}

#[test]
fn a_server_that_only_asks_is_given_up() {
    let mut script = CallerScript::new(Era::Modern);
    script.call("tools/call", r#"{"name":"a"}"#);
    let mut end = script.steps();
    let mut sent = 0;
    while end.starts_with("send") {
        sent += 1;
        script.result(r#"{"resultType":"input_required"}"#);
        script.after(Duration::from_secs(16));
        end = script.steps();
    }
    assert_eq!((sent, &*end), (11, "failed: TooMuchInput"));
}

#[test]
fn a_call_that_waits_for_approval_has_its_time_when_the_server_gets_it() {
    let mut script = CallerScript::with(Caller::after_handshake(profile("{}"), Era::Legacy));
    script.call("tools/call", r#"{"name":"a"}"#);
    script.steps();
    script.caller.wait_for_approval(script.sent[0], script.now + 9 * SILENCE_TIMEOUT);
    script.after(8 * SILENCE_TIMEOUT);
    script.caller.progressed(script.sent[0], script.now);
    script.after(SILENCE_TIMEOUT / 2);
    assert_snapshot!(script.steps(), @"");
    script.after(SILENCE_TIMEOUT / 2);
    assert_snapshot!(script.steps(), @r"
    withdraw: the answer took too long
    failed: TimedOut
    ");
}

#[test]
fn silence_ends_a_call_and_progress_renews_it() {
    let mut script = CallerScript::with(Caller::after_handshake(profile("{}"), Era::Legacy));
    let call = script.call("tools/call", r#"{"name":"a"}"#);
    script.steps();
    script.after(SILENCE_TIMEOUT / 2);
    assert_eq!(script.caller.progressed(script.sent[0], script.now), Some(call));
    script.after(SILENCE_TIMEOUT / 2);
    assert_snapshot!(script.steps(), @"");
    script.after(SILENCE_TIMEOUT / 2);
    assert_snapshot!(script.steps(), @r"
    withdraw: the answer took too long
    failed: TimedOut
    ");
    assert_eq!(script.caller.progressed(script.sent[0], script.now), None);
    assert_eq!(script.caller.poll_timeout(), None);
    let call = script.call("tools/call", r#"{"name":"a"}"#);
    script.steps();
    script.caller.cancel(call, "not wanted");
    script.caller.cancel(call, "not wanted");
    assert_snapshot!(script.steps(), @r"
    withdraw: not wanted
    failed: Cancelled
    ");
    script.call("tools/call", r#"{"name":"a"}"#);
    script.steps();
    script.caller.lost(script.sent[2], &RpcError::internal("it left"));
    assert_snapshot!(script.steps(), @"lost: it left");
}

/// What happens to a caller. Numbers choose among what there is.
#[derive(Debug, Clone)]
enum CallerEvent {
    Call,
    List,
    Introduce,
    Cancel(usize),
    Forget(usize),
    Answer(usize, usize),
    Refuse(usize),
    Lose(usize),
    Progress(usize),
    Input(usize, bool),
    Restart(bool),
    Pass(u64),
}

fn caller_event() -> impl Strategy<Value = CallerEvent> {
    let some = || 0..8_usize;
    prop_oneof![
        Just(CallerEvent::Call),
        Just(CallerEvent::List),
        Just(CallerEvent::Introduce),
        some().prop_map(CallerEvent::Cancel),
        some().prop_map(CallerEvent::Forget),
        (some(), 0..ANSWERS.len()).prop_map(|(request, answer)| CallerEvent::Answer(request, answer)),
        some().prop_map(CallerEvent::Refuse),
        some().prop_map(CallerEvent::Lose),
        some().prop_map(CallerEvent::Progress),
        (some(), any::<bool>()).prop_map(|(ask, ok)| CallerEvent::Input(ask, ok)),
        any::<bool>().prop_map(CallerEvent::Restart),
        (1..90_u64).prop_map(CallerEvent::Pass),
    ]
}

const ANSWERS: [&str; 6] = [
    "{}",
    r#"{"tools":[{"name":"a"}]}"#,
    r#"{"tools":[],"nextCursor":"n"}"#,
    r#"{"resultType":"input_required"}"#,
    r#"{"resultType":"input_required","inputRequests":{"k":{"method":"roots/list"},"e":{"method":"elicitation/create"}}}"#,
    r#"{"resultType":"input_required","inputRequests":{"s":{"method":"sampling/createMessage"}}}"#,
];

/// What an owner knows of its caller.
struct Owner {
    caller: Caller,
    now: Instant,
    calls: Vec<CallId>,
    requests: Vec<RequestId>,
    asks: Vec<(CallId, Box<str>)>,
    withdrawn: BTreeSet<RequestId>,
    forgotten: BTreeSet<CallId>,
    ends: BTreeMap<CallId, usize>,
}

impl Owner {
    fn happen(&mut self, event: &CallerEvent) {
        let now = self.now;
        let request = |index: &usize| self.requests.get(index % self.requests.len().max(1)).copied();
        match event {
            CallerEvent::Call => self.calls.push(self.caller.call("tools/call", Some(&raw(r#"{"name":"a"}"#)), now)),
            CallerEvent::List => self.calls.push(self.caller.list(Listing::Tools, LIMITS, now)),
            CallerEvent::Introduce => self.caller.introduce(now),
            CallerEvent::Cancel(index) => {
                if let Some(call) = self.calls.get(index % self.calls.len().max(1)) {
                    self.caller.cancel(*call, "not wanted");
                }
            }
            CallerEvent::Forget(index) => {
                let call = self.calls.get(index % self.calls.len().max(1)).copied();
                if let Some(call) = call.filter(|call| !self.ends.contains_key(call)) {
                    self.forgotten.insert(call);
                    self.caller.forget(call);
                }
            }
            CallerEvent::Answer(index, answer) => {
                if let Some(request) = request(index) {
                    self.caller.answered(request, Ok(&raw(ANSWERS[*answer])), now);
                }
            }
            CallerEvent::Refuse(index) => {
                if let Some(request) = request(index) {
                    self.caller.answered(request, Err(&raw(r#"{"code":-32601,"message":"?"}"#)), now);
                }
            }
            CallerEvent::Lose(index) => {
                if let Some(request) = request(index) {
                    self.caller.lost(request, &RpcError::internal("gone"));
                }
            }
            CallerEvent::Progress(index) => {
                if let Some(request) = request(index) {
                    let call = self.caller.progressed(request, now);
                    assert!(call.is_none_or(|call| !self.ends.contains_key(&call)), "progress of a call that is over");
                }
            }
            CallerEvent::Input(index, ok) => {
                if let Some((call, key)) = self.asks.get(index % self.asks.len().max(1)) {
                    let answer = if *ok { Ok(raw("{}")) } else { Err(RpcError::internal("broken")) };
                    self.caller.input(*call, key, answer, now);
                }
            }
            CallerEvent::Restart(modern) => {
                self.caller.restarted(if *modern { Era::Modern } else { Era::Legacy }, now);
            }
            CallerEvent::Pass(seconds) => {
                self.now += Duration::from_secs(*seconds);
                self.caller.handle_timeout(self.now);
            }
        }
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(step) = self.caller.poll_step() {
            match step {
                CallerStep::Send { request, .. } => {
                    assert!(!self.requests.contains(&request), "a request is sent once");
                    self.requests.push(request);
                }
                CallerStep::Withdraw { request, .. } => {
                    assert!(self.withdrawn.insert(request), "a request is withdrawn once");
                }
                CallerStep::Ask { call, key, .. } => {
                    assert!(!self.ends.contains_key(&call), "a question of a call that is over");
                    self.asks.push((call, key));
                }
                CallerStep::End(call, _) => *self.ends.entry(call).or_default() += 1,
                CallerStep::Initialized | CallerStep::Introduced(_) => {}
            }
        }
    }
}

proptest! {
    #[test]
    fn every_call_ends_once(
        modern in any::<bool>(),
        unwilling in any::<bool>(),
        events in prop::collection::vec(caller_event(), 1..60),
    ) {
        let profile = CallerProfile { calls_unwilling: unwilling, ..profile(r#"{"roots":{},"elicitation":{}}"#) };
        let caller = Caller::new(profile, if modern { Era::Modern } else { Era::Legacy });
        let mut owner = Owner {
            caller,
            now: Instant::now(),
            calls: Vec::new(),
            requests: Vec::new(),
            asks: Vec::new(),
            withdrawn: BTreeSet::new(),
            forgotten: BTreeSet::new(),
            ends: BTreeMap::new(),
        };
        for event in &events {
            owner.happen(event);
        }
        // Whatever is open ends by itself: each has a deadline, and a call may pause and be sent again between two of them.
        for _ in 0..100 {
            owner.happen(&CallerEvent::Pass(700));
        }
        prop_assert_eq!(owner.caller.poll_timeout(), None);
        for call in &owner.calls {
            let ends = usize::from(!owner.forgotten.contains(call));
            prop_assert_eq!(owner.ends.get(call).copied().unwrap_or_default(), ends);
        }
    }
}
