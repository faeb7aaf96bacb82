//! Scripts through one entry point: who says what, and what the door then does.
//!
//! The client, over a WebSocket: `request m1 bob {payload}`, `response`, `notification`, `error`, `x-…` alike, with `-` for no
//! destination, `m1@r1` for a message about the request `r1`, `# {metadata}` behind the payload; an `error`'s payload is its `error`.
//! `raw TEXT` is a frame as it stands. Over HTTP the same with the stream before it, and `get 3 [AFTER]`, `hangup 3`.
//! The others: `bob: METHOD {result}` answers the oldest open request of that method to bob (`bob: METHOD error {error}`),
//! `list bob {tools}` what was looked up (`list bob none`), `bob? e1 METHOD {params}` asks the client with the JSON-RPC id 5,
//! `bob! METHOD {params}` tells it something, `bob* METHOD {params}` everybody. `permit bob read write` is what bob's entries are stamped with from then on. `join`,
//! `leave`, `gone m1 bob`, `tick MS`, `seat`, `no-seat`, `gap` and `closing` are events. What is published is taken at once, unless `refuse CODE` or
//! `repeat` comes before it, or it is to `hold`: then `take` takes the oldest that waits, `drop CODE` refuses it, and `await-approval` has it wait for approval; `stored m1` is
//! the client's own request in the room. What comes out: `⇒` to the room, `↩` the door's own
//! replies, `←` to the client, without versions and times.

mod asking;
mod bad_input;
mod bounds;
mod calling;
mod properties;
mod sealing;
mod streaming;
mod telling;

use std::collections::HashMap;
use std::sync::Arc;

use super::*;
use crate::{BodyForm, History, Joined, StreamHead};
use insta::assert_snapshot;
use salon_mcp::listing::{Listing, read_page};
use salon_protocol::{Entry, FailureCause, Members, Message, Participant, Position, Stamp};

fn id(text: &str) -> ParticipantId {
    ParticipantId::new(text).unwrap()
}

fn somebody(word: &str) -> Participant {
    let (who, versions) = word.split_once('/').unwrap_or((word, ""));
    let versions: Vec<String> = versions.split(',').filter(|date| !date.is_empty()).map(Into::into).collect();
    let version = versions.first().cloned().unwrap_or_else(|| salon_protocol::McpVersion::default().version);
    let mcp = salon_protocol::McpVersion { version, versions, handshake_optional: false };
    serde_json::from_value(serde_json::json!({ "id": id(who), "mcp": mcp })).unwrap()
}

struct Play {
    door: Machine,
    now: Instant,
    /// Requests in the room that nobody has answered: whom, method, envelope.
    open: Vec<(String, String, String)>,
    /// What the entries of participants are stamped with.
    stamps: HashMap<String, Stamp>,
    /// What becomes of what is published next.
    fate: Option<Option<Code>>,
    /// What was published and is neither taken nor refused, where that is so.
    held: Option<VecDeque<(Ticket, Draft)>>,
    said: u32,
    told: String,
}

impl Play {
    fn new(change: impl FnOnce(&mut MachineOptions)) -> Self {
        let now = Instant::now();
        let mut options = MachineOptions {
            me: id("alice"),
            topic: TopicName::new("room:a").unwrap(),
            limits: Limits::default(),
            terms: None,
            idle: None,
            version: "9",
        };
        change(&mut options);
        let door = Machine::new(options, Stamps::new("s", now, Timestamp(0)), now);
        Self {
            door,
            now,
            open: Vec::new(),
            stamps: HashMap::new(),
            fate: None,
            held: None,
            said: 0,
            told: String::new(),
        }
    }

    /// A WebSocket of alice's in a room with bob and carol.
    fn seated() -> Self {
        Self::seated_with(|_| {})
    }

    fn seated_with(change: impl FnOnce(&mut MachineOptions)) -> Self {
        let mut play = Self::new(change);
        play.event(DialectEvent::StreamOpened(StreamId::ONLY, MachineOpening::Duplex));
        play.after("seat")
    }

    /// HTTP alone.
    fn posting() -> Self {
        Self::new(|options| options.idle = Some(Duration::from_secs(60)))
    }

    /// Goes on from a script whose outcome is left out.
    fn after(mut self, script: &str) -> Self {
        self.run(script);
        self.told.clear();
        self
    }

    fn act(mut self, script: &str) -> String {
        self.run(script);
        self.told
    }

    fn run(&mut self, script: &str) {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if !(self.client(line) || self.other(line)) {
                panic!("{line}?");
            }
        }
    }

    fn event(&mut self, event: DialectEvent) {
        self.door.handle_event(event, self.now);
        self.collect();
    }

    fn frame(&mut self, stream: Option<StreamId>, text: &str) {
        let Some(stream) = stream else {
            self.door.handle_frame(StreamId::ONLY, Frame::Text(text.into()), self.now);
            return self.collect();
        };
        let MachineOptions { me, limits, .. } = &self.door.options;
        let message = UnverifiedMessage::parse(text, limits).verify(me, None);
        self.event(DialectEvent::StreamOpened(stream, MachineOpening::Post(message.map(Box::new))));
    }

    fn client(&mut self, line: &str) -> bool {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (stream, said) = match first.parse() {
            Ok(number) => (Some(StreamId(number)), rest),
            Err(_) => (None, line),
        };
        let (kind, rest) = said.split_once(' ').unwrap_or((said, ""));
        if kind == "raw" {
            self.frame(stream, rest);
            return true;
        }
        if !matches!(kind, "request" | "response" | "notification" | "error") && !kind.starts_with("x-") {
            return false;
        }
        self.frame(stream, &message(kind, rest));
        true
    }

    fn entry(
        &mut self,
        id: Option<&str>,
        from: &str,
        to: &[ParticipantId],
        kind: EnvelopeKind,
        about: Option<&str>,
        payload: &str,
    ) {
        self.said += 1;
        let made = format!("e{}", self.said);
        let compose = Compose {
            id: id.unwrap_or(&made),
            ts: Timestamp(0),
            from: &self::id(from),
            to,
            kind,
            correlation_id: about,
            payload: RawValue::from_string(payload.into()).unwrap_or_else(|error| panic!("{payload}: {error}")),
        };
        let envelope = compose.envelope();
        let (position, arrived, stamp) = (Position::start(1), Timestamp(0), self.stamps.get(from).cloned());
        self.event(DialectEvent::Entry(Arc::new(Entry { position, arrived, stamp, envelope })));
    }

    fn answer(&mut self, from: &str, method: &str, outcome: &str) {
        let at = self.open.iter().position(|(to, asked, _)| to == from && asked == method);
        let at = at.unwrap_or_else(|| panic!("no open {method} to {from}\n{}", self.told));
        let (_, _, request) = self.open.remove(at);
        let outcome = match outcome.strip_prefix("error ") {
            Some(error) => format!(r#""error":{error}"#),
            None => format!(r#""result":{outcome}"#),
        };
        let payload = format!(r#"{{"jsonrpc":"2.0","id":"{request}",{outcome}}}"#);
        self.entry(None, from, &[id("alice")], EnvelopeKind::Mcp, Some(&request), &payload);
    }

    fn other(&mut self, line: &str) -> bool {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (second, more) = rest.split_once(' ').unwrap_or((rest, ""));
        let params = |text: &str| if text.is_empty() { String::new() } else { format!(r#","params":{text}"#) };
        if let Some(from) = word.strip_suffix(':') {
            self.answer(from, second, if more.is_empty() { "{}" } else { more });
            return true;
        }
        if let Some(from) = word.strip_suffix('?') {
            let (method, text) = more.split_once(' ').unwrap_or((more, ""));
            let payload = format!(r#"{{"jsonrpc":"2.0","id":5,"method":"{method}"{}}}"#, params(text));
            self.entry(Some(second), from, &[id("alice")], EnvelopeKind::Mcp, None, &payload);
            return true;
        }
        for (mark, to) in [('!', vec![id("alice"), id("dave")]), ('*', Vec::new())] {
            if let Some(from) = word.strip_suffix(mark) {
                let payload = format!(r#"{{"jsonrpc":"2.0","method":"{second}"{}}}"#, params(more));
                self.entry(None, from, &to, EnvelopeKind::Mcp, None, &payload);
                return true;
            }
        }
        match word {
            "list" => {
                let items = RawValue::from_string(more.into()).ok().and_then(|page| read_page(Listing::Tools, &page));
                let items = items.map(|(items, _)| items.into());
                self.event(DialectEvent::Answered(CatalogueAnswer {
                    query: CatalogueQuery { who: id(second), listing: Listing::Tools },
                    items,
                }));
            }
            "permit" => {
                let granted: Vec<String> = more.split_whitespace().map(Into::into).collect();
                match Stamp::new(None, &granted, None) {
                    Some(stamp) => self.stamps.insert(second.to_owned(), stamp),
                    None => self.stamps.remove(second),
                };
            }
            "refuse" => self.fate = Some(Code::ALL.into_iter().find(|code| code.word() == rest)),
            "repeat" => self.fate = Some(None),
            "hold" => self.held = Some(VecDeque::new()),
            "take" | "drop" => {
                let (ticket, draft) = self.held.as_mut().and_then(VecDeque::pop_front).unwrap();
                self.fate = Code::ALL.into_iter().find(|code| code.word() == rest).map(Some);
                self.settle(ticket, draft);
                self.collect();
            }
            "await-approval" => {
                let (ticket, draft) = self.held.as_mut().and_then(VecDeque::pop_front).unwrap();
                let held = crate::held_for_test(draft.envelope());
                self.event(DialectEvent::Held { ticket, held });
            }
            "stored" => {
                let payload = format!(r#"{{"jsonrpc":"2.0","id":"{rest}","method":"tools/call"}}"#);
                self.entry(Some(rest), "alice", &[id("bob")], EnvelopeKind::Mcp, None, &payload);
            }
            "join" | "leave" => {
                let participant = serde_json::to_string(&somebody(rest)).unwrap();
                let presence = format!(r#"{{"event":"{word}","participant":{participant}}}"#);
                self.entry(None, "system:gateway", &[], EnvelopeKind::Presence, None, &presence);
            }
            "gone" => {
                let id = salon_protocol::RpcId::parse("1").unwrap();
                let (request, callee) = (EnvelopeId::new(second).unwrap(), self::id(more));
                self.event(DialectEvent::CallFailed {
                    request,
                    id,
                    callee,
                    cause: FailureCause::CalleeLeft,
                    reason: None,
                });
            }
            "tick" => {
                self.now += Duration::from_millis(rest.parse().unwrap());
                self.door.handle_timeout(self.now);
                self.collect();
            }
            "seat" => {
                let roster = ["alice", "bob", "carol", "modern/2026-07-28"].map(|word| Arc::new(somebody(word)));
                let history = History { enabled: true, limit: 1000, recent: None };
                let topic = TopicName::new("room:a").unwrap();
                let participant = roster[0].clone();
                self.event(DialectEvent::Joined(Joined {
                    open_calls: Vec::new(),
                    topic,
                    participant,
                    roster: roster.into(),
                    history,
                    durability: None,
                }));
            }
            "no-seat" => self.event(DialectEvent::NotJoined(Refusal::new(Code::RateLimited, "the room is full"))),
            "gap" => self.event(DialectEvent::Gap),
            "outage" => self.event(DialectEvent::Outage),
            "recovered" => self.event(DialectEvent::Recovered),
            "closing" => self.event(DialectEvent::Closing(CloseReason::Shutdown)),
            "get" => {
                let after = Some(more).filter(|after| !after.is_empty()).map(Into::into);
                self.event(DialectEvent::StreamOpened(
                    StreamId(second.parse().unwrap()),
                    MachineOpening::Listen(after),
                ));
            }
            "hangup" => self.event(DialectEvent::StreamClosed(StreamId(second.parse().unwrap()))),
            _ => return false,
        }
        true
    }

    fn note(&mut self, line: &str) {
        self.told.push_str(line);
        self.told.push('\n');
    }

    fn collect(&mut self) {
        while let Some(action) = self.door.poll_action() {
            match action {
                DialectAction::Publish(ticket, draft) => self.published("⇒", ticket, *draft),
                DialectAction::Reply(ticket, draft) => self.published("↩", ticket, *draft),
                DialectAction::Send(stream, frame) => self.sent(stream, "←", &frame),
                DialectAction::Refuse(stream, code, frame) => self.sent(stream, &format!("← [{code}]"), &frame),
                DialectAction::Begin(stream, StreamHead { status, form, .. }) => {
                    let form = match form {
                        BodyForm::Empty => "",
                        BodyForm::Json => " json",
                        BodyForm::Events => " events",
                    };
                    self.note(&format!("{} {status}{form}", stream.0));
                }
                DialectAction::Finish(stream) => self.note(&format!("{} ends", stream.0)),
                DialectAction::Join(_) => self.note("join"),
                DialectAction::Ask(CatalogueQuery { who, listing }) => {
                    self.note(&format!("consult {who} {}", listing.key()))
                }
                DialectAction::Close(reason) => self.note(&format!("close {}", reason.word())),
                other => panic!("{other:?}"),
            }
        }
    }

    fn published(&mut self, mark: &str, ticket: Ticket, draft: Draft) {
        let envelope = draft.envelope().clone();
        assert_eq!(envelope.from().as_str(), "alice");
        let to: Vec<_> = envelope.to().iter().map(ParticipantId::as_str).collect();
        let to = if to.is_empty() { "*".to_owned() } else { to.join(",") };
        let about = envelope.correlation().map_or_else(String::new, |about| format!(" re {about}"));
        self.note(&format!(
            "{mark} {to} {}{about} {}",
            envelope.id(),
            envelope.payload().replace(r#""jsonrpc":"2.0","#, "")
        ));
        if let Some(Message::Request { method, .. }) = envelope.message()
            && self.fate.is_none()
        {
            self.open.push((to, method.to_string(), envelope.id().as_str().to_owned()));
        }
        if let Some(held) = &mut self.held {
            held.push_back((ticket, draft));
        } else {
            self.settle(ticket, draft);
        }
    }

    fn settle(&mut self, ticket: Ticket, draft: Draft) {
        let envelope = draft.envelope().clone();
        let event = match self.fate.take() {
            Some(Some(code)) => {
                let refusal = Refusal::new(code, "no").regarding(Some(envelope.id().clone()));
                DialectEvent::Refused { ticket, refusal }
            }
            fate => {
                let repeated = fate.is_some();
                let entry =
                    Entry { position: Position::start(1), arrived: Timestamp(0), stamp: None, envelope: draft.trust() };
                DialectEvent::Accepted { ticket, entry: Arc::new(entry), repeated }
            }
        };
        self.door.handle_event(event, self.now);
    }

    fn sent(&mut self, stream: StreamId, mark: &str, frame: &Frame) {
        let (text, event) = match frame {
            Frame::Text(text) => (text.to_string(), String::new()),
            Frame::Event(event) => (event.data.to_string(), format!(" ({})", event.id.as_deref().unwrap_or("-"))),
            other => panic!("{other:?}"),
        };
        let mut message = Members::parse(&text).unwrap();
        let mut header = Members::parse(message.get("header").unwrap().get()).unwrap();
        assert_eq!(header.remove("version").unwrap().get(), r#""1.0""#);
        header.remove("timestamp").unwrap();
        message.set("header", &header);
        let place = if stream == StreamId::ONLY { String::new() } else { format!("{} ", stream.0) };
        let text =
            message.to_raw().get().replace(r#""messageId":"#, r#""id":"#).replace(r#""messageType":"#, r#""type":"#);
        self.note(&format!("{place}{mark}{event} {text}"));
    }
}

/// A whole message from `ID[@REQUEST] DESTINATION PAYLOAD [# METADATA]`.
fn message(kind: &str, rest: &str) -> String {
    let (names, rest) = rest.split_once(' ').unwrap_or((rest, "-"));
    let (to, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let (payload, metadata) = rest.split_once(" # ").unwrap_or((rest, ""));
    let (id, request) = names.split_once('@').map_or((names, None), |(id, request)| (id, Some(request)));
    let mut header = serde_json::json!({ "version": "1.0", "messageId": id, "timestamp": "2025-03-21T10:00:00Z", "messageType": kind });
    if let Some(request) = request {
        header["requestId"] = request.into();
    }
    if to != "-" {
        header["destination"] = to.into();
    }
    header["source"] = "alice".into();
    let key = if kind == "error" { "error" } else { "payload" };
    let payload = if payload.is_empty() { "{}" } else { payload };
    let metadata = if metadata.is_empty() { String::new() } else { format!(r#","metadata":{metadata}"#) };
    format!(r#"{{"header":{header},"{key}":{payload}{metadata}}}"#)
}

/// A tool with a schema and a required permission, and one without either.
const REGISTER: &str = r#"
    request t1 system:gateway {"tool":{"id":"registry","capability":"register","parameters":{"id":"arm","capabilities":[{"name":"move","description":"Moves","parameters":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}}],"security":{"permissions":["drive"]}}}}
    request t2 system:gateway {"tool":{"id":"registry","capability":"register","parameters":{"id":"echo","capabilities":[{"name":"say"}]}}}
"#;
