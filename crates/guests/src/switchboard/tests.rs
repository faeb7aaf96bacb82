//! Scripts through one entry point: who says what, and what the switchboard then does.
//!
//! `alice#7 METHOD {params}` is a request in the room with the id 7, `alice! METHOD {params}` a notification, `alice=9 {result}` an answer to our
//! request 9 (`alice=9 error` an error); `0> TEXT` is said by the server on lane 0 (`0/5> TEXT` on the answer of request 5). `open`, `end`, `fail`, `leave`, `tick` and
//! `refuse` are events. What comes out: `→` to a server, `⇒` to the room.

use super::*;
use insta::assert_snapshot;
use proptest::prelude::*;
use salon_protocol::{Code, Compose, Envelope, Kind, Timestamp};

const TOOLS: &str = r#"{"tools":{"listChanged":true},"resources":{"subscribe":true},"prompts":{},"logging":{}}"#;

struct Play {
    board: Switchboard,
    start: Instant,
    now: Instant,
    said: u32,
    told: String,
    last: Option<What>,
}

impl Play {
    fn new(eras: &[Era], change: impl FnOnce(&mut Setting)) -> Self {
        let raw = |text: String| RawValue::from_string(text).unwrap();
        let mut setting = Setting {
            name: "guest".into(),
            isolated: false,
            expose: Expose::default(),
            timeout: Duration::from_secs(60),
            eras: eras.to_vec(),
            http: false,
            seed: "seed".into(),
        };
        change(&mut setting);
        let server = match setting.room_era() {
            Era::Legacy => Server::from_initialize(&raw(format!(
                r#"{{"protocolVersion":"2025-11-25","capabilities":{TOOLS},"serverInfo":{{"name":"s","version":"1"}}}}"#
            ))),
            Era::Modern => Server::from_discover(&raw(format!(
                r#"{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{TOOLS},"_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"s","version":"1"}}}}}}"#
            ))),
        };
        let now = Instant::now();
        let ours = Hello { info: Some(raw(r#"{"name":"salon"}"#.into())), ..Hello::default() };
        let board = Switchboard::new(setting, server.unwrap(), ours, now);
        let mut play = Self { board, start: now, now, said: 0, told: String::new(), last: None };
        play.collect();
        play
    }

    /// Beginning with its tools known and its seat taken; what that made it say is left out.
    fn seated(eras: &[Era], change: impl FnOnce(&mut Setting)) -> Self {
        let mut play = Self::new(eras, change);
        play.line(r#"0> {"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"t"}]}}"#);
        if eras == [Era::Modern] {
            play.line(r#"0> {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":3}}}"#);
        }
        play.board.seated(ParticipantId::new("guest").unwrap());
        play.collect();
        play.told.clear();
        play
    }

    fn envelope(&mut self, from: &str, kind: Kind, correlation: Option<&str>, payload: &str) -> Envelope {
        self.said += 1;
        let (from, to) = (ParticipantId::new(from).unwrap(), [ParticipantId::new("guest").unwrap()]);
        let compose = Compose {
            id: &format!("e{}", self.said),
            ts: Timestamp(0),
            from: &from,
            to: &to,
            kind,
            correlation_id: correlation,
            payload: RawValue::from_string(payload.into()).unwrap(),
        };
        compose.envelope()
    }

    fn line(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let lane = |word: &str| LaneId(word.parse().unwrap());
        let now = self.now;
        if let Some(place) = word.strip_suffix('>') {
            let (at, related) = place.split_once('/').map_or((place, None), |(at, of)| (at, of.parse().ok()));
            self.board.said(lane(at), rest, related, now);
        } else if let Some((from, id)) = word.split_once('#') {
            let (method, params) = rest.split_once(' ').unwrap_or((rest, "{}"));
            let payload = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
            let envelope = self.envelope(from, Kind::Mcp, None, &payload);
            self.board.heard(&envelope, now);
        } else if let Some(from) = word.strip_suffix('!') {
            let (method, params) = rest.split_once(' ').unwrap_or((rest, "{}"));
            let envelope = self.envelope(
                from,
                Kind::Mcp,
                None,
                &format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#),
            );
            self.board.heard(&envelope, now);
        } else if let Some((from, id)) = word.split_once('=') {
            let outcome = match rest {
                "error" => r#""error":{"code":-1,"message":"no"}"#.to_owned(),
                result => format!(r#""result":{result}"#),
            };
            let envelope =
                self.envelope(from, Kind::Mcp, Some("x"), &format!(r#"{{"jsonrpc":"2.0","id":{id},{outcome}}}"#));
            self.board.heard(&envelope, now);
        } else {
            let (first, why) = rest.split_once(' ').unwrap_or((rest, ""));
            match word {
                "open" => {
                    let revision = Revision::parse(why).unwrap_or(Revision::ROOM);
                    self.board.opened(lane(first), revision, now);
                }
                "end" => self.board.ended(lane(first), why, now),
                "fail" => self.board.unanswered(LaneId::BASE, first.parse().unwrap(), why, None, now),
                "leave" => {
                    let presence = format!(r#"{{"event":"leave","participant":{{"id":"{rest}"}}}}"#);
                    let envelope = self.envelope("system:gateway", Kind::Presence, None, &presence);
                    self.board.heard(&envelope, now);
                }
                "tick" => {
                    self.now += Duration::from_secs(rest.parse().unwrap());
                    self.board.tick(self.now);
                }
                "refuse" => {
                    let what = self.last.clone().expect("something was said");
                    self.board.refused(&what, &Refusal::new(Code::TooLarge, "it is too large"), now);
                }
                _ => panic!("{line}"),
            }
        }
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(action) = self.board.poll() {
            let line = match action {
                Action::Publish(Publish { to, correlation, payload, what }) => {
                    self.last = Some(what);
                    let to: Vec<_> = to.iter().map(ParticipantId::as_str).collect();
                    let to = if to.is_empty() { "*".into() } else { to.join(",") };
                    let correlation = correlation.map(|id| format!(" re {id}")).unwrap_or_default();
                    format!("⇒ {to}{correlation} {}", payload.get())
                }
                Action::Send { lane, text, headers, .. } => {
                    let headers: String = headers.iter().map(|(name, value)| format!("[{name}: {value}]")).collect();
                    format!("→ {}{headers} {text}", lane.0)
                }
                Action::Abandon { lane, request } => format!("→ {} abandon {request}", lane.0),
                Action::Open { lane, era, hello, revision } => {
                    format!("open {} {era:?} {revision} {}", lane.0, hello.capabilities)
                }
                Action::Close { lane } => format!("close {}", lane.0),
                Action::Listed => format!("listed {}", self.board.tools()),
                Action::Lost { why } => format!("lost: {why}"),
            };
            // The head of every message is the same.
            self.told.push_str(&line.replace(r#""jsonrpc":"2.0","#, ""));
            self.told.push('\n');
        }
    }

    fn act(mut self, script: &str) -> String {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            self.line(line);
        }
        assert!(self.now >= self.start);
        self.told
    }
}

fn legacy(script: &str) -> String {
    Play::seated(&[Era::Legacy], |_| {}).act(script)
}

fn modern(script: &str) -> String {
    let told = Play::seated(&[Era::Modern], |_| {}).act(script);
    // What every modern request says of its asker is shown once, elsewhere.
    told.replace(r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"salon"},"#, "…,")
        .replace("io.modelcontextprotocol/", "/")
}

#[test]
fn a_guest_begins_with_its_tools() {
    let script = r#"
        0> {"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"a"}],"nextCursor":"c"}}
        0> {"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"b"}]}}
        0> {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
        0> {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
        0> {"jsonrpc":"2.0","id":4,"error":{"code":-1,"message":"busy"}}
        0> {"jsonrpc":"2.0","id":5,"result":{"tools":[]}}
    "#;
    assert_snapshot!(Play::new(&[Era::Legacy], |_| {}).act(script), @r#"
    → 0 {"id":2,"method":"tools/list"}
    → 0 {"id":3,"method":"tools/list","params":{"cursor":"c"}}
    listed 2
    → 0 {"id":4,"method":"tools/list"}
    → 0 {"id":5,"method":"tools/list"}
    listed 0
    "#);
    let changed = r#"
        0> {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
        0> {"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"t"},{"name":"u"}]}}
        0> {"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}
    "#;
    assert_snapshot!(legacy(changed), @r#"
    → 0 {"id":3,"method":"tools/list"}
    ⇒ * {"method":"notifications/tools/list_changed","params":{"tools":["t","u"]}}
    listed 2
    ⇒ * {"method":"notifications/prompts/list_changed"}
    "#);
}

#[test]
fn the_handshake_is_answered_from_the_servers_own() {
    let script = r#"
        alice#1 initialize {"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a","version":"1"}}
        alice! notifications/initialized
        bob#"x" initialize {"protocolVersion":"2031-01-01"}
        alice#2 ping
    "#;
    assert_snapshot!(legacy(script), @r#"
    ⇒ alice re e1 {"id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"prompts":{},"logging":{}},"serverInfo":{"name":"s","version":"1"}}}
    ⇒ bob re e3 {"id":"x","result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"prompts":{},"logging":{}},"serverInfo":{"name":"s","version":"1"}}}
    ⇒ alice re e4 {"id":2,"result":{}}
    "#);
}

#[test]
fn ids_and_tokens_are_each_callers_own() {
    let script = r#"
        alice#1 tools/call {"name":"t","arguments":{"n": 12345678901234567890},"_meta":{"progressToken":1,"k":1.0}}
        bob#"1" tools/call {"name":"t","_meta":{"progressToken":"1"}}
        bob#1 tools/call {"name":"t"}
        0> {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":4,"progress":1}}
        0> {"jsonrpc":"2.0","id":5,"result":{"n":1.0}}
        0> {"jsonrpc":"2.0","id":4,"result":{"content":[]}, "extra":1}
        0> {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":3,"progress":0.5}}
        0> {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":4,"progress":2}}
        0> {"jsonrpc":"2.0","id":3,"error":{"code":-5,"message":"no","data":{"big":12345678901234567890}}}
        0> {"jsonrpc":"2.0","id":3,"result":{}}
    "#;
    assert_snapshot!(legacy(script), @r#"
    → 0 {"id":3,"method":"tools/call","params":{"name":"t","arguments":{"n": 12345678901234567890},"_meta":{"progressToken":3,"k":1.0}}}
    → 0 {"id":4,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":4}}}
    → 0 {"id":5,"method":"tools/call","params":{"name":"t"}}
    ⇒ bob re e2 {"method":"notifications/progress","params":{"progressToken":"1","progress":1}}
    ⇒ bob re e3 {"id":1,"result":{"n":1.0}}
    ⇒ bob re e2 {"id":"1","result":{"content":[]},"extra":1}
    ⇒ alice re e1 {"method":"notifications/progress","params":{"progressToken":1,"progress":0.5}}
    ⇒ alice re e1 {"id":1,"error":{"code":-5,"message":"no","data":{"big":12345678901234567890}}}
    "#);
}

#[test]
fn cancelling_and_leaving_reach_the_server_under_its_number() {
    let script = r#"
        alice#1 tools/call {"name":"t"}
        bob#1 tools/call {"name":"t"}
        alice! notifications/cancelled {"requestId":1,"reason":"enough"}
        alice! notifications/cancelled {"requestId":1}
        0> {"jsonrpc":"2.0","id":3,"result":{}}
        leave bob
        0> {"jsonrpc":"2.0","id":4,"result":{}}
    "#;
    assert_snapshot!(legacy(script), @r#"
    → 0 {"id":3,"method":"tools/call","params":{"name":"t"}}
    → 0 {"id":4,"method":"tools/call","params":{"name":"t"}}
    → 0 {"method":"notifications/cancelled","params":{"requestId":3,"reason":"enough"}}
    → 0 {"method":"notifications/cancelled","params":{"requestId":4}}
    "#);
}

#[test]
fn a_call_without_progress_times_out() {
    let script = r#"
        alice#1 tools/call {"name":"t","_meta":{"progressToken":9}}
        tick 59
        0> {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":3,"progress":1}}
        tick 59
        tick 1
    "#;
    assert_snapshot!(legacy(script), @r#"
    → 0 {"id":3,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":3}}}
    ⇒ alice re e1 {"method":"notifications/progress","params":{"progressToken":9,"progress":1}}
    → 0 {"method":"notifications/cancelled","params":{"requestId":3,"reason":"no answer and no progress in time"}}
    ⇒ alice re e1 {"id":1,"error":{"code":-32603,"message":"the server of `guest` gave no answer and no progress for 60 s","data":{"code":"timeout"}}}
    "#);
}

#[test]
fn over_http_a_request_that_is_withdrawn_keeps_no_place() {
    let script = r#"
        alice#1 tools/call {"name":"t"}
        bob#1 tools/call {"name":"t"}
        alice! notifications/cancelled {"requestId":1}
        0> {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":4,"progress":1}}
        tick 29
        tick 31
    "#;
    let play = Play::seated(&[Era::Legacy], |setting| setting.http = true);
    assert_snapshot!(play.act(script), @r#"
    → 0 {"id":3,"method":"tools/call","params":{"name":"t"}}
    → 0 {"id":4,"method":"tools/call","params":{"name":"t"}}
    → 0 {"method":"notifications/cancelled","params":{"requestId":3}}
    → 0 abandon 3
    → 0 {"id":5,"method":"ping"}
    → 0 {"method":"notifications/cancelled","params":{"requestId":4,"reason":"no answer and no progress in time"}}
    → 0 abandon 4
    ⇒ bob re e2 {"id":1,"error":{"code":-32603,"message":"the server of `guest` gave no answer and no progress for 60 s","data":{"code":"timeout"}}}
    "#);
}

#[test]
fn whoever_can_be_asked_has_a_lane_of_its_own() {
    let script = r#"
        alice#1 initialize {"protocolVersion":"2025-06-18","capabilities":{"sampling":{}},"clientInfo":{"name":"a"}}
        alice#2 tools/call {"name":"t"}
        alice! notifications/roots/list_changed
        bob#1 tools/call {"name":"t"}
        open 3
        3> {"jsonrpc":"2.0","id":0,"method":"sampling/createMessage","params":{"maxTokens": 5,"_meta":{"progressToken":"p"}}}
        alice! notifications/progress {"progressToken":6,"progress":1}
        bob=6 {"stolen":true}
        alice=6 {"role":"assistant"}
        3> {"jsonrpc":"2.0","id":0,"method":"elicitation/create"}
        3> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0,"reason":"late"}}
        alice=7 {}
        3> {"jsonrpc":"2.0","id":5,"result":{"from":"another lane"}}
        3> {"jsonrpc":"2.0","id":4,"result":{}}
        0> {"jsonrpc":"2.0","id":"s1","method":"ping"}
        0> {"jsonrpc":"2.0","id":"s2","method":"roots/list"}
        alice! notifications/roots/list_changed
        leave alice
    "#;
    assert_snapshot!(legacy(script), @r#"
    ⇒ alice re e1 {"id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"prompts":{},"logging":{}},"serverInfo":{"name":"s","version":"1"}}}
    open 3 Legacy 2025-06-18 {"sampling":{}}
    → 0 {"id":5,"method":"tools/call","params":{"name":"t"}}
    → 3 {"id":4,"method":"tools/call","params":{"name":"t"}}
    ⇒ alice re e2 {"id":6,"method":"sampling/createMessage","params":{"maxTokens":5,"_meta":{"progressToken":6}}}
    → 3 {"method":"notifications/progress","params":{"progressToken":"p","progress":1}}
    → 3 {"id":0,"result":{"role":"assistant"}}
    ⇒ alice re e2 {"id":7,"method":"elicitation/create"}
    ⇒ alice {"method":"notifications/cancelled","params":{"reason":"late","requestId":7}}
    ⇒ alice re e2 {"id":2,"result":{}}
    → 0 {"id":"s1","result":{}}
    → 0 {"id":"s2","error":{"code":-32601,"message":"`roots/list` cannot be asked here: this connection is shared by callers who offer no such thing"}}
    → 3 {"method":"notifications/roots/list_changed","params":{}}
    close 3
    "#);
}

#[test]
fn a_lane_of_ones_own_can_fail_alone() {
    let script = r#"
        alice#1 initialize {"capabilities":{"roots":{}}}
        alice#2 tools/list
        end 3 it does not start
        alice#3 tools/list
        open 5
        5> {"jsonrpc":"2.0","id":1,"method":"roots/list"}
        end 5 it crashed
        alice#4 tools/list
    "#;
    assert_snapshot!(legacy(script).split_once('\n').unwrap().1, @r#"
    open 3 Legacy 2025-06-18 {"roots":{}}
    ⇒ alice re e2 {"id":2,"error":{"code":-32603,"message":"the server of `guest` is gone: it does not start","data":{"code":"closing"}}}
    open 5 Legacy 2025-06-18 {"roots":{}}
    → 5 {"id":6,"method":"tools/list","params":{}}
    ⇒ alice re e3 {"id":7,"method":"roots/list"}
    ⇒ alice {"method":"notifications/cancelled","params":{"requestId":7}}
    ⇒ alice re e3 {"id":3,"error":{"code":-32603,"message":"the server of `guest` is gone: it crashed","data":{"code":"closing"}}}
    open 8 Legacy 2025-06-18 {"roots":{}}
    "#);
}

#[test]
fn when_the_server_is_gone_everybody_hears_it_at_once() {
    let script = r#"
        alice#1 tools/call {"name":"t"}
        bob#1 tools/call {"name":"t"}
        end 0 exit status 1
        end 0 again
    "#;
    assert_snapshot!(legacy(script), @r#"
    → 0 {"id":3,"method":"tools/call","params":{"name":"t"}}
    → 0 {"id":4,"method":"tools/call","params":{"name":"t"}}
    ⇒ alice re e1 {"id":1,"error":{"code":-32603,"message":"the server of `guest` is gone: exit status 1","data":{"code":"closing"}}}
    ⇒ bob re e2 {"id":1,"error":{"code":-32603,"message":"the server of `guest` is gone: exit status 1","data":{"code":"closing"}}}
    lost: exit status 1
    "#);
}

#[test]
fn a_server_waits_while_its_question_is_thought_about() {
    let script = r#"
        alice#1 initialize {"capabilities":{"roots":{}}}
        alice#2 tools/list
        open 3
        3> {"jsonrpc":"2.0","id":"q","method":"roots/list"}
        tick 100
        refuse
        3> {"jsonrpc":"2.0","id":"r","method":"roots/list"}
        tick 599
        tick 1
        tick 60
    "#;
    assert_snapshot!(legacy(script).lines().skip(3).collect::<Vec<_>>().join("\n"), @r#"
    ⇒ alice re e2 {"id":5,"method":"roots/list"}
    → 3 {"id":"q","error":{"code":-32603,"message":"`alice` was not asked or did not answer: it is too large"}}
    ⇒ alice re e2 {"id":6,"method":"roots/list"}
    ⇒ alice {"method":"notifications/cancelled","params":{"requestId":6,"reason":"no answer in time"}}
    → 3 {"id":"r","error":{"code":-32603,"message":"`alice` was not asked or did not answer: no answer in time"}}
    → 3 {"method":"notifications/cancelled","params":{"requestId":4,"reason":"no answer and no progress in time"}}
    ⇒ alice re e2 {"id":2,"error":{"code":-32603,"message":"the server of `guest` gave no answer and no progress for 60 s","data":{"code":"timeout"}}}
    "#);
}

#[test]
fn a_question_whose_caller_began_anew_is_answered_for_it() {
    assert_snapshot!(asked_of_one_who_began_anew(true), @r#"→ 3 {"id":"q","error":{"code":-32603,"message":"`alice` was not asked or did not answer: `alice` began anew"}}"#);
    assert_eq!(asked_of_one_who_began_anew(false), asked_of_one_who_began_anew(true));
}

fn asked_of_one_who_began_anew(known_first: bool) -> String {
    let mut play = Play::seated(&[Era::Legacy], |_| {});
    for line in [
        r#"alice#1 initialize {"capabilities":{"roots":{}}}"#,
        "alice#2 tools/list",
        "open 3",
        r#"3> {"jsonrpc":"2.0","id":"q","method":"roots/list"}"#,
    ] {
        play.line(line);
    }
    let ask = play.last.clone().expect("it was asked");
    let id = EnvelopeId::new("ask").unwrap();
    let error = r#"{"event":"error","type":"error","code":"recipient_not_found","message":"`alice` began anew"}"#;
    let envelope = play.envelope("system:gateway", Kind::System, Some("ask"), error);
    // What becomes of it may be heard before what it is called.
    if known_first {
        play.board.published(&ask, &id, play.now);
    }
    play.board.heard(&envelope, play.now);
    if !known_first {
        play.board.published(&ask, &id, play.now);
    }
    play.told.clear();
    play.collect();
    assert!(play.board.early_failures.is_empty());
    play.told
}

#[test]
fn failures_are_kept_only_for_questions_whose_envelope_is_not_known() {
    let mut play = Play::seated(&[Era::Legacy], |_| {});
    let error = r#"{"event":"error","type":"error","code":"recipient_not_found","message":"gone"}"#;
    let hear = |play: &mut Play, number: usize| {
        let envelope = play.envelope("system:gateway", Kind::System, Some(&format!("other-{number}")), error);
        play.board.heard(&envelope, play.now);
    };
    hear(&mut play, 0);
    assert!(play.board.early_failures.is_empty(), "nothing was asked");
    play.line(r#"alice#1 initialize {"capabilities":{"roots":{}}}"#);
    play.line("alice#2 tools/list");
    play.line("open 3");
    play.line(r#"3> {"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
    for number in 0..100 {
        hear(&mut play, number);
    }
    assert_eq!(play.board.early_failures.len(), 64);
}

#[test]
fn a_new_handshake_with_other_capabilities_takes_another_lane() {
    let script = r#"
        alice#1 initialize {"capabilities":{"roots":{}}}
        alice#2 tools/list
        open 3
        alice#3 initialize {"capabilities":{}}
        alice#4 tools/list
        3> {"jsonrpc":"2.0","id":4,"result":{}}
    "#;
    let told = legacy(script);
    let without_handshakes: Vec<_> = told.lines().filter(|line| !line.contains("serverInfo")).collect();
    assert_snapshot!(without_handshakes.join("\n"), @r#"
    open 3 Legacy 2025-06-18 {"roots":{}}
    → 3 {"id":4,"method":"tools/list","params":{}}
    → 0 {"id":5,"method":"tools/list","params":{}}
    ⇒ alice re e2 {"id":2,"result":{}}
    close 3
    "#);
}

#[test]
fn subscriptions_are_made_once_and_told_to_those_who_hold_them() {
    let script = r#"
        alice#1 resources/subscribe {"uri":"file:///a"}
        0> {"jsonrpc":"2.0","id":3,"result":{}}
        bob#1 resources/subscribe {"uri":"file:///a"}
        carol#1 tools/call {"name":"t"}
        0> {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///a","n": 1}}
        0> {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///a/part"}}
        0> {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///ab"}}
        alice#2 resources/unsubscribe {"uri":"file:///a"}
        leave bob
        0> {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///a"}}
        dave#1 resources/subscribe {"uri":"file:///none"}
        0> {"jsonrpc":"2.0","id":6,"error":{"code":-32002,"message":"no such thing"}}
    "#;
    assert_snapshot!(legacy(script), @r#"
    → 0 {"id":3,"method":"resources/subscribe","params":{"uri":"file:///a"}}
    ⇒ alice re e1 {"id":1,"result":{}}
    ⇒ bob re e2 {"id":1,"result":{}}
    → 0 {"id":4,"method":"tools/call","params":{"name":"t"}}
    ⇒ alice,bob {"method":"notifications/resources/updated","params":{"uri":"file:///a","n": 1}}
    ⇒ alice,bob {"method":"notifications/resources/updated","params":{"uri":"file:///a/part"}}
    ⇒ alice re e4 {"id":2,"result":{}}
    → 0 {"id":5,"method":"resources/unsubscribe","params":{"uri":"file:///a"}}
    → 0 {"id":6,"method":"resources/subscribe","params":{"uri":"file:///none"}}
    ⇒ dave re e6 {"id":1,"error":{"code":-32002,"message":"no such thing"}}
    → 0 {"id":7,"method":"resources/unsubscribe","params":{"uri":"file:///none"}}
    "#);
}

#[test]
fn log_lines_go_to_whom_they_are_grave_enough() {
    let script = r#"
        0> {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"emergency","data":"nobody asked"}}
        alice#1 logging/setLevel {"level":"warning"}
        0> {"jsonrpc":"2.0","id":3,"result":{}}
        bob#1 logging/setLevel {"level":"debug"}
        0> {"jsonrpc":"2.0","id":4,"result":{}}
        carol#1 logging/setLevel {"level":"error"}
        0> {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1.0}}
        0> {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"alert","data":2}}
        leave bob
        0> {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":3}}
    "#;
    assert_snapshot!(legacy(script), @r#"
    → 0 {"id":3,"method":"logging/setLevel","params":{"level":"warning"}}
    ⇒ alice re e1 {"id":1,"result":{}}
    → 0 {"id":4,"method":"logging/setLevel","params":{"level":"debug"}}
    ⇒ bob re e2 {"id":1,"result":{}}
    ⇒ carol re e3 {"id":1,"result":{}}
    ⇒ bob {"method":"notifications/message","params":{"level":"info","data":1.0}}
    ⇒ alice,bob,carol {"method":"notifications/message","params":{"level":"alert","data":2}}
    → 0 {"id":5,"method":"logging/setLevel","params":{"level":"warning"}}
    "#);
}

#[test]
fn what_is_not_exposed_is_not_there() {
    let script = r#"
        alice#1 initialize {}
        alice#2 resources/list
        alice#3 completion/complete {"ref":{"type":"ref/prompt"}}
        alice#4 tools/list
        0> {"jsonrpc":"2.0","method":"notifications/resources/list_changed"}
    "#;
    let play = Play::seated(&[Era::Legacy], |setting| setting.expose = "tools".parse().unwrap());
    assert_snapshot!(play.act(script), @r#"
    ⇒ alice re e1 {"id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"logging":{}},"serverInfo":{"name":"s","version":"1"}}}
    ⇒ alice re e2 {"id":2,"error":{"code":-32601,"message":"`guest` does not offer `resources/list` here: its owner exposes only tools"}}
    ⇒ alice re e3 {"id":3,"error":{"code":-32601,"message":"`guest` does not offer `completion/complete` here: its owner exposes only tools"}}
    → 0 {"id":3,"method":"tools/list","params":{}}
    "#);
}

#[test]
fn no_news_comes_of_what_is_not_exposed() {
    let script = r#"
        alice#"l" subscriptions/listen {"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["a"],"x":1.0}}
        0> {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":4},"notifications":{"toolsListChanged":true}}}
        0> {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":4},"uri":"a"}}
        0> {"jsonrpc":"2.0","method":"notifications/prompts/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":4}}}
        0> {"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":4}}}
    "#;
    let play = Play::seated(&[Era::Modern], |setting| setting.expose = "tools".parse().unwrap());
    assert_snapshot!(play.act(script).replace("io.modelcontextprotocol/", "/"), @r#"
    → 0 {"id":4,"method":"subscriptions/listen","params":{"_meta":{"/protocolVersion":"2026-07-28"},"notifications":{"toolsListChanged":true,"x":1.0}}}
    ⇒ alice re e1 {"method":"notifications/subscriptions/acknowledged","params":{"_meta":{"/subscriptionId":"l"},"notifications":{"toolsListChanged":true}}}
    ⇒ alice re e1 {"method":"notifications/tools/list_changed","params":{"_meta":{"/subscriptionId":"l"}}}
    "#);
}

#[test]
fn a_caller_of_an_older_revision_gets_what_that_has() {
    let script = r#"
        alice#1 initialize {"protocolVersion":"2024-11-05"}
        alice#2 tools/call {"name":"t"}
        bob#1 tools/call {"name":"t"}
        0> {"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"audio","data":"AAAA","mimeType":"audio/wav"},{"type":"resource_link","uri":"u","name":"n"}],"ttlMs": 1}}
        0> {"jsonrpc":"2.0","id":4,"result":{"content":[{"type":"resource_link","uri":"u","name":"n"}],"ttlMs": 1}}
        carol#1 initialize {"protocolVersion":"2025-03-26","capabilities":{"roots":{}}}
        carol#2 tools/call {"name":"t"}
        carol#3 tools/call {"name":"t"}
        open 5 2025-11-25
        5> {"jsonrpc":"2.0","id":6,"result":{"content":[{"type":"resource_link","uri":"u","name":"n"}]}}
    "#;
    let told = legacy(script);
    let answers: Vec<_> = told.lines().filter(|line| line.contains("content")).collect();
    assert_snapshot!(answers.join("\n"), @r#"
    ⇒ alice re e2 {"id":2,"result":{"content":[{"type":"resource","resource":{"uri":"urn:mcp:audio","mimeType":"audio/wav","blob":"AAAA"}},{"type":"text","text":"n <u>"}],"ttlMs":1}}
    ⇒ bob re e3 {"id":1,"result":{"content":[{"type":"resource_link","uri":"u","name":"n"}],"ttlMs": 1}}
    ⇒ carol re e5 {"id":2,"result":{"content":[{"type":"text","text":"n <u>"}]}}
    "#);
}

#[test]
fn log_lines_of_a_server_that_takes_no_wishes_are_heard_by_level_too() {
    let introduction = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s"}}"#;
    let server = Server::from_initialize(&RawValue::from_string(introduction.into()).unwrap()).unwrap();
    let mut play = Play::seated(&[Era::Legacy], |_| {});
    play.board.server = server;
    let script = r#"
        alice#1 initialize {}
        alice#2 logging/setLevel {"level":"warning"}
        bob#1 logging/setLevel {"level":"shrill"}
        0> {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}
        0> {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":2}}
        carol#1 initialize {"capabilities":{"roots":{}}}
        carol#2 tools/list
        open 3
        3> {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"debug","data":3}}
        carol#3 logging/setLevel {"level":"warning"}
        3/4> {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":4}}
        3> {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":5}}
        3> {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"alert","data":6}}
        leave alice
    "#;
    assert_snapshot!(play.act(script), @r#"
    ⇒ alice re e1 {"id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"s"}}}
    ⇒ alice re e2 {"id":2,"result":{}}
    ⇒ bob re e3 {"id":1,"error":{"code":-32602,"message":"`level` must be one of debug, info, notice, warning, error, critical, alert, emergency"}}
    ⇒ alice {"method":"notifications/message","params":{"level":"error","data":2}}
    ⇒ carol re e4 {"id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"s"}}}
    open 3 Legacy 2025-06-18 {"roots":{}}
    → 3 {"id":4,"method":"tools/list","params":{}}
    ⇒ carol {"method":"notifications/message","params":{"level":"debug","data":3}}
    ⇒ carol re e6 {"id":3,"result":{}}
    ⇒ carol {"method":"notifications/message","params":{"level":"alert","data":6}}
    "#);
}

#[test]
fn an_answer_the_room_does_not_take_becomes_an_error() {
    let script = r#"
        alice#1 tools/call {"name":"t"}
        0> {"jsonrpc":"2.0","id":3,"result":{"much":true}}
        refuse
    "#;
    assert_snapshot!(legacy(script), @r#"
    → 0 {"id":3,"method":"tools/call","params":{"name":"t"}}
    ⇒ alice re e1 {"id":1,"result":{"much":true}}
    ⇒ alice re e1 {"id":1,"error":{"code":-32603,"message":"the room did not take the answer: it is too large","data":{"code":"too_large"}}}
    "#);
}

#[test]
fn a_caller_has_only_so_many_calls_open() {
    let mut play = Play::seated(&[Era::Legacy], |_| {});
    for id in 0..MOST_CALLS_OF_ONE {
        play.line(&format!("alice#{id} tools/list"));
    }
    play.told.clear();
    assert_snapshot!(play.act("alice#256 tools/list\nbob#1 tools/list"), @r#"
    ⇒ alice re e257 {"id":256,"error":{"code":-32603,"message":"256 calls of yours are open already; wait for an answer","data":{"code":"rate_limited"}}}
    → 0 {"id":259,"method":"tools/list","params":{}}
    "#);
}

#[test]
fn there_are_only_so_many_calls_and_lanes_in_all() {
    let mut play = Play::seated(&[Era::Legacy], |_| {});
    for call in 0..MOST_CALLS {
        play.line(&format!("p{}#{call} tools/list", call % 10));
    }
    play.told.clear();
    assert_snapshot!(play.act("late#1 tools/list"), @r#"⇒ late re e2049 {"id":1,"error":{"code":-32603,"message":"`guest` has 2048 open calls already; try again later","data":{"code":"rate_limited"}}}"#);

    let mut play = Play::seated(&[Era::Legacy], |setting| setting.isolated = true);
    for caller in 0..MOST_OWN_LANES {
        play.line(&format!("p{caller}#1 tools/list"));
    }
    play.told.clear();
    assert_snapshot!(play.act("late#1 tools/list\nleave p0\nlate#2 tools/list"), @r#"
    ⇒ late re e65 {"id":1,"error":{"code":-32603,"message":"`guest` already serves 64 callers with a connection of their own","data":{"code":"rate_limited"}}}
    close 3
    open 131 Legacy 2025-06-18 {}
    "#);

    let mut play = Play::seated(&[Era::Modern], |_| {});
    let much = format!(r#"{{"a":"{}"}}"#, "x".repeat(1 << 20));
    for call in 0..16 {
        play.line(&format!("alice#{call} tools/call {much}"));
    }
    assert!(play.told.ends_with(
        r#""message":"`guest` has too much to do already; try again later","data":{"code":"rate_limited"}}}
"#
    ));
}

#[test]
fn isolation_gives_everybody_a_lane() {
    let script = "alice#1 tools/list\nbob#1 tools/list\nopen 3\nalice#2 tools/list";
    assert_snapshot!(Play::seated(&[Era::Legacy], |setting| setting.isolated = true).act(script), @r#"
    open 3 Legacy 2025-06-18 {}
    open 5 Legacy 2025-06-18 {}
    → 3 {"id":4,"method":"tools/list","params":{}}
    → 3 {"id":7,"method":"tools/list","params":{}}
    "#);
}

const MODERN_META: &str = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":"p"},"name":"t"}"#;

#[test]
fn modern_callers_are_refused_by_a_legacy_server_and_passed_to_a_modern_one() {
    assert_snapshot!(legacy(&format!("alice#1 tools/call {MODERN_META}")), @r#"⇒ alice re e1 {"id":1,"error":{"code":-32022,"message":"`guest` does not speak MCP 2026-07-28; it begins with `initialize`","data":{"requested":"2026-07-28","supported":["2024-11-05","2025-03-26","2025-06-18","2025-11-25"]}}}"#);
    let script = format!(
        r#"alice#1 tools/call {MODERN_META}
        0> {{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":4,"progress":1}}}}
        0> {{"jsonrpc":"2.0","id":4,"result":{{"resultType":"input_required","requestState":"s"}}}}
        alice#2 initialize {MODERN_META}"#
    );
    assert_snapshot!(modern(&script), @r#"
    → 0 {"id":4,"method":"tools/call","params":{"_meta":{"/protocolVersion":"2026-07-28","/clientCapabilities":{},"progressToken":4},"name":"t"}}
    ⇒ alice re e1 {"method":"notifications/progress","params":{"progressToken":"p","progress":1}}
    ⇒ alice re e1 {"id":1,"result":{"resultType":"input_required","requestState":"s"}}
    ⇒ alice re e2 {"id":2,"error":{"code":-32601,"message":"MCP 2026-07-28 has no `initialize`"}}
    "#);
}

#[test]
fn a_server_of_both_eras_is_spoken_to_in_its_callers() {
    let script = format!("alice#1 tools/list\nbob#1 tools/call {MODERN_META}\nopen 4");
    assert_snapshot!(Play::seated(&[Era::Modern, Era::Legacy], |_| {}).act(&script), @r#"
    → 0 {"id":3,"method":"tools/list","params":{}}
    open 4 Modern 2025-11-25 {}
    → 4 {"id":5,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":5},"name":"t"}}
    "#);
}

#[test]
fn a_legacy_caller_of_a_modern_server_is_translated() {
    let script = r#"
        alice#1 initialize {"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"tasks":{}},"clientInfo":{"name":"a"}}
        alice#2 logging/setLevel {"level":"info"}
        alice#3 tools/call {"name":"t","arguments":{"n": 1.0},"task":{}}
        0> {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","data":1}}
        0> {"jsonrpc":"2.0","id":4,"result":{"resultType":"complete","content":[],"structuredContent":[1],"_meta":{"io.modelcontextprotocol/serverInfo":{}}}}
        alice#4 tasks/list
        alice#5 ping
    "#;
    assert_snapshot!(modern(script), @r#"
    ⇒ alice re e1 {"id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"prompts":{},"logging":{}},"serverInfo":{"name":"s","version":"1"}}}
    ⇒ alice re e2 {"id":2,"result":{}}
    → 0 {"id":4,"method":"tools/call","params":{"name":"t","arguments":{"n": 1.0},"_meta":{"/protocolVersion":"2026-07-28","/clientInfo":{"name":"a"},"/clientCapabilities":{"elicitation":{}},"/logLevel":"info"}}}
    ⇒ alice {"method":"notifications/message","params":{"level":"warning","data":1}}
    ⇒ alice re e3 {"id":3,"result":{"content":[]}}
    ⇒ alice re e4 {"id":4,"error":{"code":-32601,"message":"tasks are not carried between revisions of MCP"}}
    ⇒ alice re e5 {"id":5,"result":{}}
    "#);
}

#[test]
fn what_a_modern_server_wants_to_know_is_asked_for() {
    let script = r#"
        alice#1 initialize {"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"sampling":{}}}
        alice#2 tools/call {"name":"t","_meta":{"progressToken":7}}
        0> {"jsonrpc":"2.0","id":4,"result":{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"url","url":"u"}},"b":{"method":"sampling/createMessage","params":{"n": 1}}},"requestState":"s\u0031"}}
        alice=6 {"text":"hi"}
        alice=5 error
        0> {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}
        0> {"jsonrpc":"2.0","id":7,"result":{"resultType":"input_required","requestState":"t"}}
        tick 2
        0> {"jsonrpc":"2.0","id":8,"result":{"resultType":"complete","content":[]}}
    "#;
    assert_snapshot!(modern(script).split_once('\n').unwrap().1, @r#"
    → 0 {"id":4,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":4,…,"/clientCapabilities":{"elicitation":{},"sampling":{}}}}}
    ⇒ alice re e2 {"id":5,"method":"elicitation/create","params":{"mode":"url","url":"u","elicitationId":"seed-4-0"}}
    ⇒ alice re e2 {"id":6,"method":"sampling/createMessage","params":{"n": 1}}
    → 0 {"id":7,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":7,…,"/clientCapabilities":{"elicitation":{},"sampling":{}}},"inputResponses":{"b":{"text":"hi"},"a":{"action":"cancel"}},"requestState":"s\u0031"}}
    ⇒ alice re e2 {"method":"notifications/progress","params":{"progressToken":7,"progress":1}}
    → 0 {"id":8,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":8,…,"/clientCapabilities":{"elicitation":{},"sampling":{}}},"requestState":"t"}}
    ⇒ alice re e2 {"id":2,"result":{"content":[]}}
    ⇒ alice {"method":"notifications/elicitation/complete","params":{"elicitationId":"seed-4-0"}}
    "#);
}

#[test]
fn a_question_that_is_refused_fails_the_call_unless_it_is_a_persons_to_refuse() {
    let ask = |method: &str| {
        format!(
            r#"alice#1 tools/call {{"name":"t"}}
            0> {{"jsonrpc":"2.0","id":4,"result":{{"resultType":"input_required","inputRequests":{{"a":{{"method":"{method}"}}}}}}}}
            alice=5 error"#
        )
    };
    assert_snapshot!(modern(&ask("sampling/createMessage")).lines().last().unwrap(), @r#"⇒ alice re e1 {"id":1,"error":{"code":-1,"message":"no"}}"#);
    assert_snapshot!(modern(&ask("elicitation/create")).lines().last().unwrap(), @r#"→ 0 {"id":6,"method":"tools/call","params":{"name":"t","_meta":{…,"/clientCapabilities":{}},"inputResponses":{"a":{"action":"cancel"}}}}"#);
    let mut again = ask("sampling/createMessage").replace("alice=5 error", "");
    for number in 0..11 {
        let (ask, next) = (5 + 2 * number, 6 + 2 * number);
        again.push_str(&format!("\nalice={ask} {{}}\n"));
        again.push_str(&format!(r#"0> {{"jsonrpc":"2.0","id":{next},"result":{{"resultType":"input_required","inputRequests":{{"a":{{"method":"sampling/createMessage"}}}}}}}}"#));
    }
    assert_snapshot!(modern(&again).lines().last().unwrap(), @r#"⇒ alice re e1 {"id":1,"error":{"code":-32603,"message":"the server of `guest` asked back too often"}}"#);
}

#[test]
fn subscriptions_of_legacy_callers_are_one_to_a_modern_server() {
    let ack = |number: u32| {
        format!(
            r#"0> {{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{number}}}}}}}"#
        )
    };
    let script = format!(
        r#"alice#1 resources/subscribe {{"uri":"a"}}
        bob#1 resources/subscribe {{"uri":"b"}}
        {}
        {}
        0> {{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":5}},"uri":"b"}}}}
        leave bob
        {}
        0> {{"jsonrpc":"2.0","id":6,"result":{{"resultType":"complete"}}}}
        tick 1"#,
        ack(4),
        ack(5),
        ack(6)
    );
    assert_snapshot!(modern(&script), @r#"
    → 0 {"id":4,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a"]},"_meta":{…,"/clientCapabilities":{}}}}
    ⇒ alice re e1 {"id":1,"result":{}}
    → 0 {"method":"notifications/cancelled","params":{"requestId":3,"reason":"replaced"}}
    → 0 {"id":5,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a","b"]},"_meta":{…,"/clientCapabilities":{}}}}
    ⇒ bob re e2 {"id":1,"result":{}}
    → 0 {"method":"notifications/cancelled","params":{"requestId":4,"reason":"replaced"}}
    ⇒ bob {"method":"notifications/resources/updated","params":{"uri":"b"}}
    → 0 {"id":6,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a"]},"_meta":{…,"/clientCapabilities":{}}}}
    → 0 {"method":"notifications/cancelled","params":{"requestId":5,"reason":"replaced"}}
    → 0 {"id":7,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a"]},"_meta":{…,"/clientCapabilities":{}}}}
    "#);
}

#[test]
fn a_modern_callers_own_subscription_is_told_under_its_own_id() {
    let script = r#"
        alice#"l" subscriptions/listen {"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"notifications":{"toolsListChanged":true}}
        0> {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":4},"notifications":{}}}
        0> {"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":4}}}
        tick 600
        alice! notifications/cancelled {"requestId":"l"}
    "#;
    assert_snapshot!(modern(script), @r#"
    → 0 {"id":4,"method":"subscriptions/listen","params":{"_meta":{"/protocolVersion":"2026-07-28"},"notifications":{"toolsListChanged":true}}}
    ⇒ alice re e1 {"method":"notifications/subscriptions/acknowledged","params":{"_meta":{"/subscriptionId":"l"},"notifications":{}}}
    ⇒ alice re e1 {"method":"notifications/tools/list_changed","params":{"_meta":{"/subscriptionId":"l"}}}
    → 0 {"method":"notifications/cancelled","params":{"requestId":4}}
    "#);
}

#[test]
fn over_http_requests_have_headers_and_a_word_tells_whether_the_server_is_there() {
    let script = r#"
        alice#1 tools/call {"name":"t","arguments":{"r":"eu"}}
        0> {"jsonrpc":"2.0","id":4,"error":{"code":-32020,"message":"header"}}
        0> {"jsonrpc":"2.0","id":5,"result":{"tools":[{"name":"t","inputSchema":{"properties":{"r":{"x-mcp-header":"Region"}}}}]}}
        alice! notifications/cancelled {"requestId":1}
        alice#2 tools/list
        fail 7 connection refused
        fail 8 connection refused
    "#;
    let told = Play::seated(&[Era::Modern], |setting| setting.http = true).act(script);
    let told: Vec<_> = told.lines().map(|line| line.split(r#","params""#).next().unwrap()).collect();
    assert_snapshot!(told.join("\n"), @r#"
    → 0[Mcp-Method: tools/call][Mcp-Name: t] {"id":4,"method":"tools/call"
    → 0[Mcp-Method: tools/list] {"id":5,"method":"tools/list"
    ⇒ * {"method":"notifications/tools/list_changed"
    listed 1
    → 0[Mcp-Method: tools/call][Mcp-Name: t][Mcp-Param-Region: eu] {"id":6,"method":"tools/call"
    → 0 abandon 6
    → 0[Mcp-Method: tools/list] {"id":7,"method":"tools/list"
    → 0[Mcp-Method: server/discover] {"id":8,"method":"server/discover"
    ⇒ alice re e3 {"id":2,"error":{"code":-32603,"message":"the server of `guest` gave no answer: connection refused"}}
    lost: the server of `guest` gave no answer: connection refused
    "#);
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![
        (0_u8..4).prop_map(|id| id.to_string()),
        (0_u8..4).prop_map(|id| format!("\"{id}\"")),
        Just("1.0".to_owned()),
        Just("123456789012345678901234567890".to_owned()),
        Just(r#""\u00e9\"x""#.to_owned()),
    ]
}

proptest! {
    /// However the callers' ids and tokens collide, and in whatever order the server answers, each gets its own back.
    #[test]
    fn what_goes_up_comes_down_to_whom_it_belongs(
        calls in prop::collection::vec((0..5_usize, id(), prop::option::of(id())), 1..40),
        order in any::<prop::sample::Index>(),
    ) {
        let mut play = Play::seated(&[Era::Legacy], |_| {});
        for (caller, id, token) in &calls {
            let meta = token.as_ref().map(|token| format!(r#"{{"_meta":{{"progressToken":{token}}}}}"#));
            play.line(&format!("p{caller}#{id} tools/call {}", meta.as_deref().unwrap_or("{}")));
        }
        play.told.clear();
        let first = order.index(calls.len());
        for at in (0..calls.len()).map(|at| (at + first) % calls.len()) {
            let (caller, id, token) = &calls[at];
            let (number, envelope) = (at + 3, at + 1);
            play.line(&format!(r#"0> {{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{number},"progress":{at}}}}}"#));
            play.line(&format!(r#"0> {{"jsonrpc":"2.0","id":{number},"result":{{"at":{at}}}}}"#));
            let progress = token.as_ref().map(|token| {
                format!("⇒ p{caller} re e{envelope} {{\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":{token},\"progress\":{at}}}}}\n")
            });
            let answer = format!("⇒ p{caller} re e{envelope} {{\"id\":{id},\"result\":{{\"at\":{at}}}}}\n");
            prop_assert_eq!(&play.told, &(progress.unwrap_or_default() + &answer));
            play.told.clear();
        }
        prop_assert!(play.board.calls.is_empty() && play.board.due().is_none());
    }

    /// Nothing a server says makes it fall over.
    #[test]
    fn a_server_may_say_anything(text in r#"[\[\]{}",:0-9a-z/ ]{0,60}"#, method in "[a-z]{1,8}/[a-z]{1,8}", params in r#"(\{"[a-zA-Z]{1,12}":([0-9]{1,3}|"x"|null|\{\})\}|\[\]|7)"#) {
        for eras in [[Era::Legacy], [Era::Modern]] {
            let mut play = Play::seated(&eras, |_| {});
            play.line("alice#1 tools/call {\"_meta\":{\"progressToken\":1}}");
            play.line(&format!("0> {text}"));
            for method in [&*method, "notifications/progress", "notifications/cancelled", "notifications/message", "notifications/resources/updated", "notifications/subscriptions/acknowledged"] {
                play.line(&format!(r#"0> {{"method":"{method}","params":{params}}}"#));
                play.line(&format!(r#"0/4> {{"id":4,"method":"{method}","params":{params}}}"#));
                play.line(&format!(r#"0> {{"id":4,"result":{params}}}"#));
            }
        }
    }
}
