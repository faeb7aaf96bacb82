//! Every row of the table both ways, and sessions as scripts.
//!
//! The client, over a WebSocket: `client TEXT`, or shorter `call 1 METHOD {params}` and `tell METHOD {params}`. Over HTTP the same with the
//! stream before it: `3 call …`, `3 apart call …` where the answer goes elsewhere, `3 poll SECONDS …` (`3 poll SECONDS` alone brings
//! nothing), and `get 3`, `hangup 3`. The others: `bob: METHOD {result}` answers the oldest open request of that method to bob
//! (`bob: METHOD error {error}`), or what the catalogue was consulted for; `bob! METHOD {params}` tells the client something, where `"@"` is
//! the id of the oldest open `tools/call`; `bob* METHOD` tells everybody. `seat`, `settle` (handshakes are answered), `leave`, `tick MS`
//! and `closing` are events. What comes out: `⇒` to the room, `←` to the client.

mod interpreted;
mod polled;
mod properties;
mod refused;
mod servers;
mod table;

use std::sync::Arc;
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use salon_mcp::listing::Listing;
use salon_protocol::{
    CloseReason, Kind, Limits, McpVersion, Message, Participant, ParticipantId, Timestamp, TopicName,
};
use serde_json::value::RawValue;

use super::*;
use crate::mcp::door::{
    Body, DialectAction, DialectEvent, DoorScope, Listen, McpDoorOptions, McpOpening, PollBody, Post,
};
use crate::mcp::scripts::{CatalogueHost, Consults, OpenScriptRequest, Stage, begun, id, raw};
use crate::{Dialect, Frame, Stamps, StreamId};

/// What the others introduce themselves with.
const SERVER: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true}},"serverInfo":{"name":"s","version":"1"}}"#;

/// How a client begins that declares everything.
const HELLO: &str =
    r#"{"mcpVersion":"2025-06-18","clientCapabilities":{"supportsProgress":true,"supportsCancellation":true}}"#;

fn somebody(who: &str) -> Participant {
    let participant = format!(r#"{{"id":"{who}"}}"#);
    let mcp = McpVersion::default();
    Participant { mcp, ..serde_json::from_str(&participant).unwrap() }
}

struct Play {
    dialect: Interpreter,
    now: Instant,
    roster: Vec<Arc<Participant>>,
    open: Vec<OpenScriptRequest>,
    host: CatalogueHost,
    said: u32,
    told: String,
    /// Codes of what was refused.
    counted: Vec<&'static str>,
    ended: bool,
}

impl Play {
    fn new(scope: DoorScope, others: &str) -> Self {
        let now = Instant::now();
        let options = McpDoorOptions {
            me: id("alice"),
            topic: TopicName::new("room:a").unwrap(),
            scope,
            limits: Limits::default(),
            session: Some("session-1".into()),
            idle: Some(Duration::from_secs(300)),
            vanished_timeout: Duration::from_secs(60),
            list_max_age: Duration::from_secs(600),
            returning_until: None,
            few: 0,
            first: 0,
            salt: [7; 16],
            version: "9",
        };
        let roster = others.split_whitespace().map(|who| Arc::new(somebody(who))).collect();
        let dialect = Interpreter::new(options, Stamps::new("s", now, Timestamp(0)), now);
        Self {
            dialect,
            now,
            roster,
            open: Vec::new(),
            host: CatalogueHost::default(),
            said: 0,
            told: String::new(),
            counted: Vec::new(),
            ended: false,
        }
    }

    fn duplex(others: &str) -> Self {
        let mut play = Self::new(DoorScope::Room, others);
        play.event(DialectEvent::StreamOpened(StreamId::ONLY, McpOpening::Duplex));
        play
    }

    /// A client over a WebSocket that has introduced itself.
    fn greeted(hello: &str) -> Self {
        Self::duplex("bob").after(&format!("call 0 initialize {hello}\nseat\ntell initialized {{}}"))
    }

    /// The same, and it has listed bob's tools.
    fn listed() -> Self {
        Self::greeted(HELLO).after(
            r#"call "l" tools/list
            bob: tools/list {"tools":[{"name":"t"},{"name":"u","description":"old"}]}"#,
        )
    }

    fn after(mut self, script: &str) -> Self {
        self.run(script);
        self.told.clear();
        self
    }

    fn act(mut self, script: &str) -> String {
        self.run(script);
        self.told.replace(r#""jsonrpc":"2.0","#, "")
    }

    fn run(&mut self, script: &str) {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            self.line(line);
        }
    }

    fn frame(&mut self, stream: StreamId, text: &str) {
        self.dialect.handle_frame(stream, Frame::Text(text.into()), self.now);
        self.collect();
    }

    fn message(words: &str) -> Option<String> {
        let (word, rest) = words.split_once(' ').unwrap_or((words, ""));
        let (first, more) = rest.split_once(' ').unwrap_or((rest, ""));
        let params = |text: &str| if text.is_empty() { String::new() } else { format!(r#","params":{text}"#) };
        Some(match word {
            "client" => rest.to_owned(),
            "call" => {
                let (method, given) = more.split_once(' ').unwrap_or((more, ""));
                format!(r#"{{"jsonrpc":"2.0","id":{first},"method":"{method}"{}}}"#, params(given))
            }
            "tell" => format!(r#"{{"jsonrpc":"2.0","method":"{first}"{}}}"#, params(more)),
            _ => return None,
        })
    }

    /// Something of the client's.
    fn client(&mut self, line: &str) -> bool {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        let Ok(number) = first.parse() else {
            return Self::message(line).map(|text| self.frame(StreamId::ONLY, &text)).is_some();
        };
        let stream = StreamId(number);
        let opening = if let Some(rest) = rest.strip_prefix("poll ") {
            let (wait, words) = rest.split_once(' ').unwrap_or((rest, ""));
            let wait = Duration::from_secs(wait.parse().unwrap());
            McpOpening::Poll(wait, PollBody::read(&Self::message(words).unwrap_or_default()))
        } else {
            let words = rest.strip_prefix("apart ").unwrap_or(rest);
            let text = Self::message(words).unwrap_or_else(|| panic!("{line}"));
            let body = Body::read(None, &text);
            McpOpening::Post(Post { body, headers: Vec::new(), apart: words.len() < rest.len() })
        };
        self.event(DialectEvent::StreamOpened(stream, opening));
        true
    }

    fn answer(&mut self, at: usize, outcome: &str) {
        let open = self.open.remove(at);
        self.answer_open(&open, outcome);
    }

    fn line(&mut self, line: &str) {
        if self.client(line) {
            return;
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (method, params) = rest.split_once(' ').unwrap_or((rest, ""));
        let params_of = |text: &str| if text.is_empty() { String::new() } else { format!(r#","params":{text}"#) };
        if let Some(from) = word.strip_suffix(':') {
            let at = self.open.iter().position(|open| open.to == from && open.method == method);
            let at = at.unwrap_or_else(|| panic!("no open {method} to {from}\n{}", self.told));
            return self.answer(at, if params.is_empty() { "{}" } else { params });
        }
        if let Some(from) = word.strip_suffix('!') {
            let call = self.open.iter().find(|open| open.to == from && open.method == "tools/call");
            let call = call.and_then(|open| open.id.clone());
            let params = params_of(params).replace(r#""@""#, &format!("{:?}", call.as_deref().unwrap_or_default()));
            let payload = format!(r#"{{"jsonrpc":"2.0","method":"{method}"{params}}}"#);
            return self.entry(from, Kind::Mcp, call.as_deref(), &payload);
        }
        if let Some(from) = word.strip_suffix('*') {
            let payload = format!(r#"{{"jsonrpc":"2.0","method":"{method}"{}}}"#, params_of(params));
            self.entry_to(&[], from, Kind::Mcp, None, &payload);
            let consults = self.host.changed(from, method, self.now);
            return self.consult(consults);
        }
        let stream = |word: &str| StreamId(word.parse().unwrap());
        match word {
            "seat" => self.join_room(somebody("alice"), &self.roster.clone(), &[]),
            "settle" => {
                while let Some(at) = self.open.iter().position(|open| open.method == "initialize") {
                    self.answer(at, SERVER);
                }
            }
            "leave" => {
                let presence = format!(r#"{{"event":"leave","participant":{{"id":"{rest}"}}}}"#);
                self.entry("system:gateway", Kind::Presence, None, &presence);
                self.host.left(rest);
                self.resolve();
            }
            "get" => self.event(DialectEvent::StreamOpened(stream(rest), McpOpening::Listen(Listen::default()))),
            "sse" => {
                let listen = Listen { after: None, endpoint: Some("/message?sessionId=x".into()) };
                self.event(DialectEvent::StreamOpened(stream(rest), McpOpening::Listen(listen)));
            }
            "hangup" => self.event(DialectEvent::StreamClosed(stream(rest))),
            "closing" => self.event(DialectEvent::Closing(CloseReason::Shutdown)),
            "mark" => self.told.push_str(&format!("· {rest}\n")),
            "tick" => self.pass(Duration::from_millis(rest.parse().unwrap())),
            _ => panic!("{line}"),
        }
    }
}

impl Stage for Play {
    type Actor = Interpreter;

    fn actor(&mut self) -> &mut Interpreter {
        &mut self.dialect
    }

    fn host(&mut self) -> &mut CatalogueHost {
        &mut self.host
    }

    fn consult(&mut self, consults: Consults) {
        for (to, listing) in consults {
            self.open.push(OpenScriptRequest { to, method: listing.method().into(), id: None });
        }
    }

    fn now(&mut self) -> &mut Instant {
        &mut self.now
    }

    fn said(&mut self) -> &mut u32 {
        &mut self.said
    }

    fn collect(&mut self) {
        while let Some(action) = self.dialect.poll_action() {
            assert!(!self.ended, "nothing comes after the end: {action:?}");
            let line = match action {
                DialectAction::Join(introduction) => format!("join {}", introduction.name.as_deref().unwrap_or("-")),
                DialectAction::Ask(query) => {
                    let consults = self.host.asked(query, self.now, Duration::from_secs(600));
                    self.consult(consults);
                    continue;
                }
                DialectAction::Publish(_, draft) | DialectAction::Reply(_, draft) => {
                    let envelope = draft.envelope();
                    let to: Vec<_> = envelope.to().iter().map(ParticipantId::as_str).collect();
                    if let Some(Message::Request { method, .. }) = envelope.message() {
                        let id = Some(envelope.id().to_string());
                        self.open.push(OpenScriptRequest { to: to.join(","), method: method.to_string(), id });
                    }
                    format!("⇒ {} {}", to.join(","), envelope.payload())
                }
                DialectAction::Begin(stream, head) => begun(stream, &head),
                DialectAction::Send(StreamId(stream), frame) => {
                    let stream = if stream == 0 { String::new() } else { stream.to_string() };
                    match frame {
                        Frame::Text(text) => format!("{stream}← {text}"),
                        Frame::Event(event) => {
                            let name = event.name.filter(|name| *name != "message").unwrap_or_default();
                            format!("{stream}←{name} {}", event.data)
                        }
                        other => panic!("{other:?}"),
                    }
                }
                DialectAction::Refused(code) => {
                    self.counted.push(code.word());
                    continue;
                }
                DialectAction::Finish(StreamId(stream)) => format!("finish {stream}"),
                DialectAction::Close(reason) => {
                    self.ended = true;
                    format!("close {}", reason.word())
                }
                other => panic!("{other:?}"),
            };
            self.told.push_str(&line);
            self.told.push('\n');
        }
        // The gateway's own participant has nothing to offer here.
        if let Some(at) = self.open.iter().position(|open| open.to == "system:gateway" && open.id.is_none()) {
            let key = Listing::of_method(&self.open[at].method).unwrap().key();
            self.answer(at, &format!(r#"{{"{key}":[]}}"#));
        }
        self.resolve();
    }
}
