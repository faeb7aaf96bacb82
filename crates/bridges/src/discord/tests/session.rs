use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::discord::gateway_session::{AfterClose, GatewaySession, GatewayStep};

/// Half of the range of random numbers.
const HALF: u64 = 1 << 63;

struct Script {
    session: GatewaySession,
    now: Instant,
}

impl Script {
    fn new() -> Self {
        let mut session = GatewaySession::new("secret", "wss://gateway.test");
        let now = Instant::now();
        session.opened(now);
        Self { session, now }
    }

    fn says(&mut self, payload: Value) -> Vec<String> {
        let steps = self.session.handle_text(&payload.to_string(), self.now, HALF);
        steps.iter().map(describe).collect()
    }

    fn passes(&mut self, millis: u64) -> Vec<String> {
        self.now += Duration::from_millis(millis);
        self.session.handle_timeout(self.now).iter().map(describe).collect()
    }

    fn reopens(&mut self) {
        self.session.opened(self.now);
    }
}

fn describe(step: &GatewayStep) -> String {
    match step {
        GatewayStep::Send(text) => {
            let payload: Value = serde_json::from_str(text).expect("JSON");
            match payload["op"].as_u64() {
                Some(1) => format!("heartbeat {}", payload["d"]),
                Some(2) => format!("identify {}", payload["d"]["intents"]),
                Some(6) => format!("resume {} {}", payload["d"]["session_id"], payload["d"]["seq"]),
                other => format!("{other:?}"),
            }
        }
        GatewayStep::Reconnect => "reconnect".into(),
        GatewayStep::Event(_) => "event".into(),
        GatewayStep::Online { is_resumed } => format!("online, resumed: {is_resumed}"),
    }
}

fn hello() -> Value {
    json!({"op": 10, "d": {"heartbeat_interval": 1000}})
}

fn ready() -> Value {
    json!({"op": 0, "s": 1, "t": "READY",
        "d": {"session_id": "s1", "resume_gateway_url": "wss://resume.test", "user": {"id": "9"}}})
}

fn event(sequence: u64) -> Value {
    json!({"op": 0, "s": sequence, "t": "TYPING_START", "d": {}})
}

#[test]
fn a_session_starts_beats_and_resumes() {
    let mut script = Script::new();
    assert_eq!(script.session.address(), "wss://gateway.test/?v=10&encoding=json");
    assert_eq!(script.says(hello()), ["identify 33280"]);
    // The first heartbeat comes after a random part of the interval.
    assert!(script.passes(499).is_empty());
    assert_eq!(script.passes(1), ["heartbeat null"]);
    assert!(script.says(json!({"op": 11})).is_empty());
    assert_eq!(script.says(ready()), ["event", "online, resumed: false"]);
    assert_eq!(script.says(event(5)), ["event"]);
    // Late and repeated events do not move the session back.
    assert_eq!(script.says(event(4)), ["event"]);
    assert_eq!(script.says(json!({"op": 1})), ["heartbeat 5"]);
    assert_eq!(script.says(json!({"op": 7})), ["reconnect"]);
    assert_eq!(script.session.closed(None), AfterClose::Reconnect);
    assert_eq!(script.session.address(), "wss://resume.test/?v=10&encoding=json");
    script.reopens();
    assert_eq!(script.says(hello()), ["resume \"s1\" 5"]);
    assert_eq!(script.says(json!({"op": 0, "s": 6, "t": "RESUMED", "d": {}})), ["event", "online, resumed: true"]);
}

#[test]
fn a_connection_without_an_acknowledgement_is_dead() {
    let mut script = Script::new();
    script.says(hello());
    assert_eq!(script.passes(500), ["heartbeat null"]);
    assert_eq!(script.passes(1000), ["reconnect"]);
}

#[test]
fn a_server_that_says_nothing_is_left() {
    let mut script = Script::new();
    assert!(script.passes(19_999).is_empty());
    assert_eq!(script.passes(1), ["reconnect"]);
}

#[test]
fn an_invalid_session_starts_over_unless_it_can_be_resumed() {
    for (is_resumable, expected) in [(true, "resume \"s1\" 1"), (false, "identify 33280")] {
        let mut script = Script::new();
        script.says(hello());
        script.says(ready());
        assert_eq!(script.says(json!({"op": 9, "d": is_resumable})), ["reconnect"]);
        script.session.closed(None);
        script.reopens();
        assert_eq!(script.says(hello()), [expected]);
    }
}

#[test]
fn close_codes_decide_what_happens_next() {
    for (code, expected) in [
        (Some(4004), "fatal"),
        (Some(4014), "fatal"),
        (Some(4000), "resume \"s1\" 1"),
        (None, "resume \"s1\" 1"),
        (Some(4007), "identify 33280"),
        (Some(4009), "identify 33280"),
        (Some(1000), "identify 33280"),
    ] {
        let mut script = Script::new();
        script.says(hello());
        script.says(ready());
        match script.session.closed(code) {
            AfterClose::Fatal(_) => assert_eq!(expected, "fatal", "{code:?}"),
            AfterClose::Reconnect => {
                script.reopens();
                assert_eq!(script.says(hello()), [expected], "{code:?}");
            }
        }
    }
}

#[test]
fn intervals_beyond_reason_are_bounded() {
    for (asked, bounded) in [(0, 100), (u64::MAX, 300_000)] {
        let mut script = Script::new();
        script.says(json!({"op": 10, "d": {"heartbeat_interval": asked}}));
        script.passes(bounded);
        assert!(script.session.next_timeout().is_some_and(|next| next <= script.now + Duration::from_millis(bounded)));
    }
}
