//! Scripts through one entry point: who says what, and what the switchboard then does.
//!
//! `alice#7 METHOD {params}` is a request in the room with the id 7 (`alice/s1#7` of her session `s1`), `alice! METHOD {params}` a notification, `alice=9 {result}` an answer to our
//! request 9 (`alice=9 error` an error); `0> TEXT` is said by the server on lane 0 (`0/5> TEXT` on the answer of request 5). `open`, `end`, `fail`, `leave`, `tick` and
//! `refuse` are events. What comes out: `→` to a server, `⇒` to the room.

mod calls;
mod eras;
mod lanes;
mod news;
mod properties;
mod questions;
mod sessions;

use super::*;
use insta::assert_snapshot;
use salon_protocol::{Code, Compose, Envelope, Kind, Sessions, Timestamp};

const TOOLS: &str = r#"{"tools":{"listChanged":true},"resources":{"subscribe":true},"prompts":{},"logging":{}}"#;

struct Play {
    board: Switchboard,
    start: Instant,
    now: Instant,
    said: u32,
    told: String,
    last: Option<PublishPurpose>,
}

impl Play {
    fn new(eras: &[Era], change: impl FnOnce(&mut SwitchboardOptions)) -> Self {
        let raw = |text: String| RawValue::from_string(text).unwrap();
        let mut setting = SwitchboardOptions {
            name: "guest".into(),
            isolated: false,
            expose: Expose::default(),
            tools: ToolFilter::default(),
            timeout: Duration::from_secs(60),
            eras: eras.to_vec(),
            http: false,
            seed: "seed".into(),
        };
        change(&mut setting);
        let server = match setting.room_era() {
            Era::Legacy => ServerProfile::from_initialize(&raw(format!(
                r#"{{"protocolVersion":"2025-11-25","capabilities":{TOOLS},"serverInfo":{{"name":"s","version":"1"}}}}"#
            ))),
            Era::Modern => ServerProfile::from_discover(&raw(format!(
                r#"{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{TOOLS},"_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"s","version":"1"}}}}}}"#
            ))),
        };
        let now = Instant::now();
        let ours = HandshakeParams { info: Some(raw(r#"{"name":"salon"}"#.into())), ..HandshakeParams::default() };
        let board = Switchboard::new(setting, server.unwrap(), ours, now);
        let mut play = Self { board, start: now, now, said: 0, told: String::new(), last: None };
        play.collect();
        play
    }

    /// Beginning with its tools known and its seat taken; what that made it say is left out.
    fn seated(eras: &[Era], change: impl FnOnce(&mut SwitchboardOptions)) -> Self {
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
        let (from, session) = from.split_once('/').map_or((from, None), |(from, session)| (from, Some(session)));
        let session = session.map(|session| SessionId::new(session).unwrap());
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
        Envelope::restore(compose.text_between(Sessions { from_session: session.as_ref(), to_session: None })).unwrap()
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
                SwitchboardAction::Publish(Publish { to, session, correlation, payload, what }) => {
                    self.last = Some(what);
                    let to: Vec<_> = to.iter().map(ParticipantId::as_str).collect();
                    let mut to = if to.is_empty() { "*".into() } else { to.join(",") };
                    session.inspect(|session| to.push_str(&format!("/{session}")));
                    let correlation = correlation.map(|id| format!(" re {id}")).unwrap_or_default();
                    format!("⇒ {to}{correlation} {}", payload.get())
                }
                SwitchboardAction::Send { lane, text, headers, .. } => {
                    let headers: String = headers.iter().map(|(name, value)| format!("[{name}: {value}]")).collect();
                    format!("→ {}{headers} {text}", lane.0)
                }
                SwitchboardAction::Abandon { lane, request } => format!("→ {} abandon {request}", lane.0),
                SwitchboardAction::Open { lane, era, handshake_params, revision } => {
                    format!("open {} {era:?} {revision} {}", lane.0, handshake_params.capabilities)
                }
                SwitchboardAction::Close { lane } => format!("close {}", lane.0),
                SwitchboardAction::Listed => format!("listed {}", self.board.tools()),
                SwitchboardAction::Lost { why } => format!("lost: {why}"),
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
