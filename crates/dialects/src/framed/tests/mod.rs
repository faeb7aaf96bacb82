//! Scripts through one entry point: what comes on which stream, what happens in the room, and what is then said.
//!
//! `1 SEND s1 {body}` is a request with the id `s1` on stream 1 (opened when it is first used); `1 SEND s1 [contentType: x] [destination: y] BODY` has more in its header,
//! and `1 frame {header} BODY` is any frame. `hangup 1`, `seat`, `no-seat CODE`, `accept`, `refuse CODE` (the oldest draft), `bob → alice r1 {payload}` (an envelope of that id, `→ *` to all, `r1/c1` with a
//! correlation), `join bob`, `gone e1 7 bob`, `gap`, `tick MS` and `closing REASON` are events. What comes out: `⇒` to the room, `←` to the peer. `wants` says whether entries are wanted.

mod bad_input;
mod frames;
mod properties;
mod receiving;
mod sending;
mod sessions;

use insta::assert_snapshot;
use salon_protocol::{Envelope, FailureCause, Participant, Position, Presence, Timestamp, TopicName};
use serde_json::value::RawValue;

use super::*;
use crate::History;

const CONNECT: &str =
    r#"1 CONNECT c0 {"clientInfo":{"id":"alice","version":"1","capabilities":["lift","chat"]},"token":"t"}"#;

struct Play {
    framed: Framed,
    now: Instant,
    drafts: VecDeque<(Ticket, Draft)>,
    said: u64,
    told: String,
    ended: bool,
    /// How many refusals it wants counted.
    refusals: usize,
}

fn id(text: &str) -> ParticipantId {
    ParticipantId::new(text).unwrap()
}

fn entry(offset: u64, text: String) -> Arc<Entry> {
    let envelope = Envelope::restore(text.as_str()).unwrap_or_else(|error| panic!("{text}: {error}"));
    Arc::new(Entry {
        position: Position { epoch: 1, offset },
        arrived: Timestamp(5000 + offset),
        stamp: None,
        envelope,
    })
}

impl Play {
    /// A session of which nothing has been heard.
    fn new(limits: Limits) -> Self {
        let now = Instant::now();
        let options = FramedOptions {
            me: id("alice"),
            limits,
            session: "S".into(),
            linger: Duration::from_secs(60),
            version: "9",
        };
        let framed = Framed::new(options, Stamps::new("x", now, Timestamp(1000)), now);
        Self { framed, now, drafts: VecDeque::new(), said: 0, told: String::new(), ended: false, refusals: 0 }
    }

    /// A session that has its seat; how it got it is left out.
    fn seated() -> Self {
        Self::new(Limits::default()).after(&format!("{CONNECT}\nseat"))
    }

    fn after(mut self, script: &str) -> Self {
        self.run(script);
        self.told.clear();
        self
    }

    fn event(&mut self, event: DialectEvent) {
        self.framed.handle_event(event, self.now);
    }

    fn frame(&mut self, stream: u32, frame: Box<[u8]>) {
        let stream = StreamId(stream);
        if !self.framed.streams.contains(&stream) {
            self.event(DialectEvent::StreamOpened(stream, ()));
        }
        self.framed.handle_frame(stream, Frame::Binary(frame), self.now);
    }

    fn request(&mut self, stream: u32, line: &str) {
        let (method, rest) = line.split_once(' ').unwrap_or((line, ""));
        if method == "frame" {
            let end = rest.find("} ").map_or(rest.len(), |at| at + 1);
            return self.frame(stream, encode(&rest.as_bytes()[..end], rest[end..].trim_start().as_bytes()));
        }
        let (id, mut body) = rest.split_once(' ').unwrap_or((rest, ""));
        let mut header = json!({"id": id, "method": method, "version": "MCP/1.0", "timestamp": 1_755_439_200_000_u64});
        while let Some((field, rest)) = body.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
            let (name, value) = field.split_once(": ").unwrap();
            header[name] = value.into();
            body = rest;
        }
        self.frame(stream, encode(header.to_string().as_bytes(), body.as_bytes()));
    }

    fn publish(&mut self, line: &str) {
        let mut words = line.splitn(5, ' ');
        let mut word = || words.next().unwrap_or_default();
        let (from, _, to, name, payload) = (word(), word(), word(), word(), word());
        let (name, correlation) = name.split_once('/').map_or((name, None), |(name, of)| (name, Some(of)));
        let to: Vec<_> = to.split(',').filter(|to| *to != "*").map(id).collect();
        let compose = Compose {
            id: name,
            ts: Timestamp(0),
            from: &id(from),
            to: &to,
            kind: Kind::Mcp,
            correlation_id: correlation,
            payload: RawValue::from_string(payload.into()).unwrap(),
        };
        self.said += 1;
        let entry = entry(self.said, compose.text());
        self.event(DialectEvent::Entry(entry));
    }

    fn presence(&mut self, event: PresenceEvent, who: &str) {
        self.said += 1;
        let payload = Presence { event, participant: Participant::new(id(who)), reason: None };
        let compose = Compose {
            id: &format!("p{}", self.said),
            ts: Timestamp(0),
            from: &ParticipantId::host(),
            to: &[],
            kind: Kind::Presence,
            correlation_id: None,
            payload,
        };
        let entry = entry(self.said, compose.text());
        self.event(DialectEvent::Entry(entry));
    }

    fn line(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let code = |rest: &str| Code::ALL.into_iter().find(|code| code.word() == rest).unwrap();
        match word {
            "hangup" => self.event(DialectEvent::StreamClosed(StreamId(rest.parse().unwrap()))),
            "seat" => {
                let alice = Arc::new(Participant::new(id("alice")));
                let history = History { enabled: true, limit: 1000, recent: None };
                let (topic, roster) = (TopicName::new("room:a").unwrap(), vec![alice.clone()]);
                self.event(DialectEvent::Joined(Joined {
                    topic,
                    participant: alice,
                    roster,
                    open_calls: Vec::new(),
                    history,
                    durability: None,
                }));
            }
            "no-seat" => self.event(DialectEvent::NotJoined(Refusal::new(code(rest), "not now"))),
            "accept" => {
                let (ticket, draft) = self.drafts.pop_front().unwrap();
                self.said += 1;
                let entry = entry(self.said, draft.envelope().text().to_owned());
                self.event(DialectEvent::Accepted { ticket, entry, repeated: false });
            }
            "refuse" => {
                let (ticket, _) = self.drafts.pop_front().unwrap();
                self.event(DialectEvent::Refused { ticket, refusal: Refusal::new(code(rest), "the room said no") });
            }
            "gone" => {
                let [request, number, callee] = rest.split(' ').collect::<Vec<_>>().try_into().unwrap();
                let request = EnvelopeId::new(request).unwrap();
                let (id, callee) = (RpcId::parse(number).unwrap(), id(callee));
                self.event(DialectEvent::CallFailed {
                    request,
                    id,
                    callee,
                    cause: FailureCause::CalleeLeft,
                    reason: None,
                });
            }
            "gap" => self.event(DialectEvent::Gap),
            "join" => self.presence(PresenceEvent::Join, rest),
            "tick" => {
                self.now += Duration::from_millis(rest.parse().unwrap());
                self.framed.handle_timeout(self.now);
            }
            "closing" => {
                let reasons =
                    [CloseReason::Shutdown, CloseReason::Replaced, CloseReason::Internal, CloseReason::TooSlow];
                let reason = reasons.into_iter().find(|reason| reason.word() == rest).unwrap();
                self.event(DialectEvent::Closing(reason));
            }
            "wants" => self.told.push_str(&format!("wants {}\n", self.framed.ready())),
            _ => match word.parse() {
                Ok(stream) => self.request(stream, rest),
                Err(_) => self.publish(line),
            },
        }
    }

    fn collect(&mut self) {
        while let Some(action) = self.framed.poll_action() {
            assert!(!self.ended, "nothing follows a close: {action:?}");
            match action {
                DialectAction::Send(stream, Frame::Binary(frame)) => self.told.push_str(&shown(stream, &frame)),
                DialectAction::Refuse(stream, code, Frame::Binary(frame)) => {
                    let shown = shown(stream, &frame);
                    assert!(shown.contains(&format!(r#""code":"{code}""#)), "{shown}");
                    self.told.push_str(&shown);
                    self.refusals += 1;
                }
                DialectAction::Publish(ticket, draft) => {
                    self.told.push_str(&format!("⇒ {}\n", draft.envelope().text()));
                    self.drafts.push_back((ticket, *draft));
                }
                DialectAction::Close(reason) => {
                    self.told.push_str(&format!("close {}\n", reason.word()));
                    self.ended = true;
                }
                other => self.told.push_str(&format!("{other:?}\n")),
            }
        }
    }

    fn run(&mut self, script: &str) -> String {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            self.line(line);
            self.collect();
        }
        std::mem::take(&mut self.told)
    }
}

/// An answer: the stream, the code, what it answers, and the body.
fn shown(stream: StreamId, frame: &[u8]) -> String {
    let (header, body) = split(frame).unwrap();
    let header: serde_json::Value = serde_json::from_slice(header).unwrap();
    assert_eq!((&header["version"], &header["contentType"]), (&"MCP/1.0".into(), &"json".into()));
    let word = |key: &str| header[key].as_str().unwrap().to_owned();
    let body = std::str::from_utf8(body).unwrap();
    format!("{} ← {} {} {} {body}\n", stream.0, header["code"], word("method"), word("id"))
}
