//! Scripts through one entry point: who says what, and what the door then does.
//!
//! The client, over a WebSocket: `client TEXT`, or shorter `call 1 METHOD {params}`, `tell METHOD {params}`, `reply 7 {result}` (`reply @METHOD {result}` to the oldest such question), and `ask 1 METHOD {params}` for a request
//! of the modern era. Over HTTP the same with the stream before it: `3 client TEXT`, `3 [name: value] client TEXT`,
//! `3 apart client TEXT` where the answer goes elsewhere, and `get 3 [AFTER]`, `hangup 3`.
//! The others: `bob: METHOD {result}` answers the oldest open request of that method to bob (`bob: METHOD error {error}`), of the door's or else of the room's host, who asks for lists (`consult`);
//! `settle` answers every handshake and every list that is open, with what `offers` says. `bob? 5 @METHOD asked/method {params}`
//! asks the client during such a request (`@-` during none, `@=id` by an envelope's id), `bob! @METHOD told/method {params}` tells it something, `bob* told/method {params}` everybody.
//! `beside bob METHOD {params}` is a request that the session `s2` of the client's participant makes of bob, this one being `s`. `bob>s` instead of `bob` names the session that is meant.
//! `idle {result}` and `happened` answer the oldest wait of the gateway's. `join`, `leave`, `gone bob METHOD`, `refuse METHOD CODE`, `refuse-last CODE`, `refuse-id ID CODE`, `accept ID`, `held ID` (it waits for approval), `stored ID` (it is in the room), `tick MS`, `seat`, `no-seat`, `gap` and `closing` are events, `mark` is for the reader. What comes out: `⇒` to the room, `←` to the client.

mod asking;
mod calling;
mod elicited;
mod eras;
mod handshakes;
mod listing;
mod logs;
mod modern_door;
mod one;
mod properties;
mod refused;
mod resources;
mod sessions;
mod streams;
mod subscriptions;
mod waiting;

use super::client::MAX_EARLY;
use super::*;
use crate::mcp::scripts::{CatalogueHost, Consults, OpenScriptRequest, Stage, begun, id, raw};
use crate::{EventFrame, Ticket};
use insta::assert_snapshot;
use salon_mcp::listing::Listing;
use salon_protocol::{
    Code, Compose, Entry, Envelope, EnvelopeId, FailureCause, Kind, McpVersion, Members, Message, Participant,
    Position, RpcId, Timestamp,
};
use std::sync::Arc;

/// What the others introduce themselves with, unless a script says something else.
const SERVER: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"prompts":{},"logging":{}},"serverInfo":{"name":"s","version":"1"}}"#;
/// The capabilities of a client that can be asked everything.
const ASKABLE: &str = r#"{"sampling":{},"elicitation":{},"roots":{}}"#;

struct Play {
    door: Door,
    now: Instant,
    roster: Vec<Arc<Participant>>,
    /// What a modern client says that it can be asked.
    capabilities: String,
    /// What else it says in `_meta`.
    extra: String,
    /// What somebody's list has in it when it is settled: owner, method, result.
    offers: Vec<(&'static str, &'static str, &'static str)>,
    open: Vec<OpenScriptRequest>,
    host: CatalogueHost,
    /// What the door asked of the room's host, but for the next snapshot.
    asks: usize,
    /// Waits that the gateway has not answered.
    waits: Vec<u64>,
    /// Questions to the client that it has not answered: method and id.
    asked: Vec<(String, String)>,
    said: u32,
    told: String,
    /// What was published, by ticket, and how much of it was not counted against the client's rate.
    published: Vec<(Ticket, Envelope)>,
    uncounted: usize,
    /// Whether the door has closed.
    ended: bool,
}

fn somebody(word: &str) -> Participant {
    let (who, versions) = word.split_once('/').unwrap_or((word, ""));
    let versions: Vec<String> = versions.split(',').filter(|date| !date.is_empty()).map(Into::into).collect();
    let version = versions.first().cloned().unwrap_or_else(|| McpVersion::default().version);
    Participant { mcp: McpVersion { version, versions, handshake_optional: false }, ..Participant::new(id(who)) }
}

impl Play {
    /// A session of which nothing has been heard, in a room with these: `bob`, or `bob/2026-07-28,2025-11-25` with what it speaks.
    fn new(scope: DoorScope, others: &str, change: impl FnOnce(&mut McpDoorOptions)) -> Self {
        let now = Instant::now();
        let mut options = McpDoorOptions {
            me: id("alice"),
            topic: TopicName::new("room:a").unwrap(),
            scope,
            limits: Limits::default(),
            session: Some("session-1".into()),
            idle: None,
            vanished_timeout: Duration::from_secs(60),
            list_max_age: Duration::from_secs(600),
            returning_until: None,
            few: 0,
            first: 0,
            salt: [7; 16],
            version: "9",
        };
        change(&mut options);
        let roster = others.split_whitespace().map(|word| Arc::new(somebody(word))).collect();
        let door = Door::new(options, Stamps::new("s", now, Timestamp(0)), now);
        let (capabilities, extra) = ("{}".into(), String::new());
        Self {
            door,
            now,
            roster,
            capabilities,
            extra,
            offers: Vec::new(),
            open: Vec::new(),
            host: CatalogueHost::default(),
            asks: 0,
            waits: Vec::new(),
            asked: Vec::new(),
            said: 0,
            told: String::new(),
            published: Vec::new(),
            uncounted: 0,
            ended: false,
        }
    }

    fn duplex(scope: DoorScope, others: &str) -> Self {
        let mut play = Self::new(scope, others, |_| {});
        play.event(DialectEvent::StreamOpened(StreamId::ONLY, McpOpening::Duplex));
        play
    }

    /// A client that has introduced itself; what that made the door say is left out.
    fn introduced(scope: DoorScope, others: &str, revision: &str, capabilities: &str) -> Self {
        let play = Self::duplex(scope, others);
        play.after(&format!(
            r#"call 0 initialize {{"protocolVersion":"{revision}","capabilities":{capabilities},"clientInfo":{{"name":"c","version":"1"}}}}
            seat"#
        ))
    }

    /// Goes on from a script whose outcome is left out.
    fn after(mut self, script: &str) -> Self {
        self.run(script);
        self.told.clear();
        self
    }

    fn presence(&mut self, event: &str, word: &str) {
        let participant = serde_json::to_string(&somebody(word)).unwrap();
        let presence = format!(r#"{{"event":"{event}","participant":{participant}}}"#);
        let who = somebody(word).id;
        if event == "join" && who.as_str() != "alice" && self.door.is_room() {
            let consults = self.host.joined(who.as_str(), self.door.client.is_introduced(), self.now);
            self.consult(consults);
        }
        self.entry("system:gateway", Kind::Presence, None, &presence);
        if event == "leave" {
            self.host.left(who.as_str());
            self.open.retain(|open| open.id.is_some() || open.to != who.as_str());
            self.resolve();
        }
    }

    /// Takes the oldest open request of a method to somebody: of the door's, else of the host's.
    fn take_open(&mut self, to: Option<&str>, method: &str) -> OpenScriptRequest {
        let is_it = |open: &OpenScriptRequest| open.method == method && to.is_none_or(|to| open.to == to);
        let own = self.open.iter().position(|open| is_it(open) && open.id.is_some());
        let at = own.or_else(|| self.open.iter().position(is_it));
        self.open.remove(at.unwrap_or_else(|| panic!("no open {method} to {to:?}\n{}", self.told)))
    }

    /// Something of the client's: on a stream of its own where the line begins with a number.
    fn client(&mut self, line: &str) -> bool {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (stream, said) = match first.parse() {
            Ok(number) => (Some(StreamId(number)), rest),
            Err(_) => (None, line),
        };
        let mut headers: Vec<(Box<str>, Box<str>)> = Vec::new();
        let mut said = said;
        let apart = said.starts_with("apart ");
        said = said.strip_prefix("apart ").unwrap_or(said);
        while let Some((header, rest)) = said.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
            let (name, value) = header.split_once(": ").unwrap();
            headers.push((name.into(), value.into()));
            said = rest;
        }
        let (word, rest) = said.split_once(' ').unwrap_or((said, ""));
        let (second, more) = rest.split_once(' ').unwrap_or((rest, ""));
        let (method, params) = more.split_once(' ').unwrap_or((more, ""));
        let second = match second.strip_prefix('@').filter(|_| word == "reply") {
            Some(method) => {
                let at = self.asked.iter().position(|(asked, _)| asked == method);
                let at = at.unwrap_or_else(|| panic!("no open {method}\n{}", self.told));
                self.asked.remove(at).1
            }
            None => second.to_owned(),
        };
        let with_params =
            |params: &str| if params.is_empty() { String::new() } else { format!(r#","params":{params}"#) };
        let text = match word {
            "client" => rest.to_owned(),
            "call" => format!(r#"{{"jsonrpc":"2.0","id":{second},"method":"{method}"{}}}"#, with_params(params)),
            "tell" => format!(r#"{{"jsonrpc":"2.0","method":"{second}"{}}}"#, with_params(more)),
            "reply" => match more.strip_prefix("error ") {
                Some(error) => format!(r#"{{"jsonrpc":"2.0","id":{second},"error":{error}}}"#),
                None => format!(r#"{{"jsonrpc":"2.0","id":{second},"result":{more}}}"#),
            },
            "ask" => {
                let mut members = Members::parse(if params.is_empty() { "{}" } else { params }).unwrap();
                if stream.is_some() && headers.is_empty() {
                    headers.push(("mcp-protocol-version".into(), "2026-07-28".into()));
                    headers.push(("mcp-method".into(), method.into()));
                    let named = if method == "resources/read" { "uri" } else { "name" };
                    if let Some(name) =
                        members.get(named).and_then(|name| serde_json::from_str::<String>(name.get()).ok())
                    {
                        headers.push(("mcp-name".into(), name.into()));
                    }
                }
                let meta = format!(
                    r#"{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{{"name":"c"}},"io.modelcontextprotocol/clientCapabilities":{}{}}}"#,
                    self.capabilities, self.extra
                );
                members.set("_meta", &RawValue::from_string(meta).unwrap());
                format!(r#"{{"jsonrpc":"2.0","id":{second},"method":"{method}","params":{}}}"#, members.to_raw())
            }
            _ => return false,
        };
        let version = headers.iter().find(|(name, _)| &**name == "mcp-protocol-version").map(|(_, value)| &**value);
        match stream {
            Some(stream) => {
                let body = Body::read(version, &text);
                self.event(DialectEvent::StreamOpened(stream, McpOpening::Post(Post { body, headers, apart })));
            }
            None => {
                self.door.handle_frame(StreamId::ONLY, Frame::Text(text.into()), self.now);
                self.collect();
            }
        }
        true
    }

    /// The envelope that `@METHOD` names, and what follows it.
    fn cause<'a>(&self, from: &str, line: &'a str) -> (Option<String>, &'a str) {
        let (cause, rest) = line.split_once(' ').unwrap_or((line, ""));
        let cause = cause.strip_prefix('@').unwrap();
        let from = from.split_once('>').map_or(from, |(from, _)| from);
        let named = self.open.iter().find(|open| open.to == from && open.method == cause);
        let named = named.and_then(|open| open.id.clone());
        match cause.strip_prefix('=') {
            _ if cause == "-" => (None, rest),
            Some(id) => (Some(id.to_owned()), rest),
            None => (Some(named.unwrap_or_else(|| panic!("no open {cause} to {from}\n{}", self.told))), rest),
        }
    }

    /// Answers every handshake and list, no matter of whom.
    fn settle(&mut self) {
        let is_list = |open: &OpenScriptRequest| Listing::of_method(&open.method).is_some();
        while let Some(at) = self.open.iter().position(|open| open.method == "initialize" || is_list(open)) {
            let open = self.open.remove(at);
            let offered = self.offers.iter().find(|(who, method, _)| *who == open.to && *method == open.method);
            let outcome = match (offered, Listing::of_method(&open.method)) {
                (Some((_, _, result)), _) => (*result).to_owned(),
                (None, Some(listing)) => format!(r#"{{"{}":[]}}"#, listing.key()),
                (None, None) => SERVER.to_owned(),
            };
            self.answer_open(&open, &outcome);
        }
    }

    /// Something of somebody else's.
    fn other(&mut self, line: &str) -> bool {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let with_params =
            |params: &str| if params.is_empty() { String::new() } else { format!(r#","params":{params}"#) };
        if let Some(from) = word.strip_suffix(':') {
            let (method, outcome) = rest.split_once(' ').unwrap_or((rest, "{}"));
            let who = from.split_once('>').map_or(from, |(who, _)| who);
            let open = self.take_open(Some(who), method);
            self.answer_open(&OpenScriptRequest { to: from.to_owned(), ..open }, outcome);
        } else if let Some(from) = word.strip_suffix('?') {
            let (number, rest) = rest.split_once(' ').unwrap();
            let (cause, rest) = self.cause(from, rest);
            let (method, params) = rest.split_once(' ').unwrap_or((rest, ""));
            let params = with_params(params);
            let payload = format!(r#"{{"jsonrpc":"2.0","id":{number},"method":"{method}"{params}}}"#);
            self.entry(from, Kind::Mcp, cause.as_deref(), &payload);
        } else if let Some(from) = word.strip_suffix('!') {
            let (cause, rest) = self.cause(from, rest);
            let (method, params) = rest.split_once(' ').unwrap_or((rest, ""));
            // `"@"` is the request's own id, which is its progress token too.
            let params =
                with_params(params).replace(r#""@""#, &format!(r#""{}""#, cause.as_deref().unwrap_or_default()));
            self.entry(
                from,
                Kind::Mcp,
                cause.as_deref(),
                &format!(r#"{{"jsonrpc":"2.0","method":"{method}"{params}}}"#),
            );
            let consults = self.host.changed(from, method, self.now);
            self.consult(consults);
        } else if let Some(from) = word.strip_suffix('*') {
            let (method, params) = rest.split_once(' ').unwrap_or((rest, ""));
            let payload = format!(r#"{{"jsonrpc":"2.0","method":"{method}"{}}}"#, with_params(params));
            self.entry_to(&[], from, Kind::Mcp, None, &payload);
            let consults = self.host.changed(from, method, self.now);
            self.consult(consults);
        } else {
            return false;
        }
        true
    }

    fn line(&mut self, line: &str) {
        if self.client(line) || self.other(line) {
            return;
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (first, second) = rest.split_once(' ').unwrap_or((rest, ""));
        let stream = |word: &str| StreamId(word.parse().unwrap());
        match word {
            // `seat e0 bob`: with a call of the participant's to bob open.
            "seat" => {
                let open: Vec<_> =
                    Some((first, second)).filter(|(request, _)| !request.is_empty()).into_iter().collect();
                self.join_room(somebody("alice"), &self.roster.clone(), &open);
            }
            "beside" => {
                let (method, params) = second.split_once(' ').unwrap_or((second, "{}"));
                let id = if method.starts_with("notifications/") { "" } else { r#""id":"x","# };
                let payload = format!(r#"{{"jsonrpc":"2.0",{id}"method":"{method}","params":{params}}}"#);
                self.entry_to(&[self::id(first)], "alice/s2", Kind::Mcp, None, &payload);
            }
            "settle" => self.settle(),
            "idle" | "happened" => {
                let number = self.waits.remove(0);
                let idle = (word == "idle").then(|| raw(rest));
                self.event(DialectEvent::Answered(RoomAnswer::Waited { number, idle }));
            }
            "no-seat" => self.event(DialectEvent::NotJoined(Refusal::new(Code::Forbidden, "the room is full"))),
            "join" | "leave" => self.presence(word, rest),
            "gone" => {
                let open = self.take_open(Some(first), second);
                let id = open.id.unwrap();
                let (request, rpc) = (EnvelopeId::new(&*id).unwrap(), RpcId::String(id.into()));
                let cause = FailureCause::CalleeLeft;
                self.event(DialectEvent::CallFailed {
                    request,
                    id: rpc,
                    callee: self::id(&open.to),
                    cause,
                    reason: None,
                });
            }
            "refuse" => {
                let open = self.take_open(None, first);
                let code = Code::ALL.into_iter().find(|code| code.word() == second).unwrap();
                self.refuse(|id| open.id.as_deref() == Some(id.as_str()), code);
            }
            "refuse-last" => {
                let code = Code::ALL.into_iter().find(|code| code.word() == first).unwrap();
                self.refuse(|_| true, code);
            }
            "refuse-id" => {
                let code = Code::ALL.into_iter().find(|code| code.word() == second).unwrap();
                self.refuse(|id| id.as_str() == first, code);
            }
            "accept" => {
                let said = self.published.iter().rfind(|(_, envelope)| envelope.id().as_str() == rest);
                let (ticket, envelope) = said.unwrap().clone();
                let entry = Entry { position: Position::start(1), arrived: Timestamp(0), stamp: None, envelope };
                self.event(DialectEvent::Accepted { ticket, entry: Arc::new(entry), repeated: false });
            }
            "held" | "stored" => {
                let said = self.published.iter().rfind(|(_, envelope)| envelope.id().as_str() == rest);
                let (ticket, envelope) = said.unwrap().clone();
                if word == "held" {
                    return self.event(DialectEvent::Held { ticket, held: crate::held_for_test(&envelope) });
                }
                let entry = Entry { position: Position::start(1), arrived: Timestamp(0), stamp: None, envelope };
                self.event(DialectEvent::Entry(Arc::new(entry)));
            }
            "get" => {
                let after = Some(second).filter(|after| !after.is_empty()).map(Into::into);
                self.event(DialectEvent::StreamOpened(
                    stream(first),
                    McpOpening::Listen(Listen { after, endpoint: None }),
                ));
            }
            "hangup" => self.event(DialectEvent::StreamClosed(stream(rest))),
            "gap" => self.event(DialectEvent::Gap),
            "outage" => self.event(DialectEvent::Outage),
            "recovered" => self.event(DialectEvent::Recovered),
            "closing" => self.event(DialectEvent::Closing(CloseReason::Shutdown)),
            "mark" => self.told.push_str(&format!("· {rest}\n")),
            "tick" => self.pass(Duration::from_millis(rest.parse().unwrap())),
            _ => panic!("{line}"),
        }
    }

    /// The room does not take the newest of those.
    fn refuse(&mut self, is_it: impl Fn(&EnvelopeId) -> bool, code: Code) {
        let (ticket, envelope) = self.published.iter().rfind(|(_, envelope)| is_it(envelope.id())).unwrap();
        let refusal = Refusal::new(code, format!("refused: {}", code.word())).regarding(Some(envelope.id().clone()));
        self.event(DialectEvent::Refused { ticket: *ticket, refusal });
    }

    fn note_question(&mut self, text: &str) {
        if let Some(salon_mcp::RpcHead { id: Some(id), method: Some(method), .. }) = salon_mcp::RpcHead::read(text) {
            self.asked.push((method.to_string(), id.get().to_owned()));
        }
    }

    fn published(&mut self, ticket: Ticket, envelope: &Envelope) -> String {
        self.published.push((ticket, envelope.clone()));
        let to: Vec<_> = envelope.to().iter().map(ParticipantId::as_str).collect();
        let to = to.join(",");
        let correlation = envelope.correlation().map(|id| format!(" re {id}")).unwrap_or_default();
        if let Some(Message::Request { method, .. }) = envelope.message() {
            let id = envelope.id().to_string();
            self.open.push(OpenScriptRequest { to: to.clone(), method: method.to_string(), id: Some(id) });
        }
        assert_eq!(envelope.from().as_str(), "alice");
        format!("⇒ {to}{correlation} {}", envelope.payload())
    }

    fn run(&mut self, script: &str) {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            self.line(line);
        }
    }

    /// What came of a script, without what every message has.
    fn act(mut self, script: &str) -> String {
        self.run(script);
        self.told
            .replace(r#""jsonrpc":"2.0","#, "")
            .replace("io.modelcontextprotocol/", "/")
            .replace(r#""/protocolVersion":"2026-07-28","/clientInfo":{"name":"c"},"#, "…,")
    }
}

impl Stage for Play {
    type Actor = Door;

    fn actor(&mut self) -> &mut Door {
        &mut self.door
    }

    fn host(&mut self) -> &mut CatalogueHost {
        &mut self.host
    }

    fn consult(&mut self, consults: Consults) {
        for (to, listing) in consults {
            self.told.push_str(&format!("consult {to} {}\n", listing.method()));
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
        while let Some(action) = self.door.poll_action() {
            let line = match action {
                DialectAction::Join(introduction) => {
                    let Introduction { name, mcp, .. } = *introduction;
                    format!("join {} {}", name.as_deref().unwrap_or("-"), mcp.version)
                }
                DialectAction::Ask(query) => {
                    self.asks += usize::from(!matches!(query, RoomQuery::Next { .. } | RoomQuery::Authority));
                    match &query {
                        RoomQuery::Wait { number, params } => {
                            self.waits.push(*number);
                            self.told.push_str(&format!("wait {params}\n"));
                        }
                        RoomQuery::StopWaiting { number } => {
                            self.waits.retain(|waiting| waiting != number);
                            self.told.push_str("stop waiting\n");
                        }
                        _ => {}
                    }
                    let consults = self.host.asked(query, self.now, self.door.options.list_max_age);
                    self.consult(consults);
                    continue;
                }
                DialectAction::Publish(ticket, draft) => self.published(ticket, draft.envelope()),
                DialectAction::Reply(ticket, draft) => {
                    self.uncounted += 1;
                    self.published(ticket, draft.envelope())
                }
                DialectAction::Begin(stream, head) => begun(stream, &head),
                DialectAction::Send(StreamId(stream), frame) => {
                    if let Frame::Text(text) = &frame {
                        self.note_question(text);
                    } else if let Frame::Event(event) = &frame {
                        self.note_question(&event.data);
                    }
                    let stream = if stream == 0 { String::new() } else { stream.to_string() };
                    match frame {
                        Frame::Text(text) => format!("{stream}← {text}"),
                        Frame::Event(event) => {
                            let EventFrame { name, id, retry, data } = *event;
                            let name = name.filter(|name| *name != "message").map(|name| format!(" {name}"));
                            let id = id.map(|id| format!(" #{id}")).unwrap_or_default();
                            let retry = retry.map(|retry| format!(" retry {retry:?}")).unwrap_or_default();
                            format!("{stream}←{}{id}{retry} {data}", name.unwrap_or_default())
                        }
                        other => panic!("{other:?}"),
                    }
                }
                DialectAction::Refused(_) => continue,
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
        self.resolve();
    }
}

/// A legacy client over a WebSocket that nobody can ask anything, in a room with `bob` and `carol`, whom it has met and whose tools it has listed.
fn room() -> Play {
    with_tools(Play::introduced(DoorScope::Room, "bob carol", "2025-06-18", "{}"))
}

/// The same for a client that can be asked everything.
fn askable() -> Play {
    with_tools(Play::introduced(DoorScope::Room, "bob carol", "2025-06-18", ASKABLE))
}

fn with_tools(mut play: Play) -> Play {
    play.offers = vec![
        ("bob", "tools/list", r#"{"tools":[{"name":"t"},{"name":"same"}]}"#),
        ("carol", "tools/list", r#"{"tools":[{"name":"u"},{"name":"same"}]}"#),
        ("system:gateway", "tools/list", r#"{"tools":[{"name":"chat.say"}]}"#),
    ];
    play.after(
        r#"call 0 tools/list
        settle
        call 0 tools/call {"name":"bob__t"}
        call 0 tools/call {"name":"carol__u"}
        settle
        bob: tools/call {}
        carol: tools/call {}"#,
    )
}
