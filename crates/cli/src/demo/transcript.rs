//! The room's life as lines for a person: who said what to whom, and how every call ended.
//!
//! Whatever participants wrote is shown without its control characters: a line of chat must not command the terminal.

use std::collections::HashMap;
use std::fmt::Write;
use std::time::Duration;

use salon_protocol::{CHAT_METHOD, Envelope, EnvelopeId, Kind, Message, ParticipantId, Presence, PresenceEvent};
use serde_json::Value;

/// How many unanswered calls are remembered; more are forgotten all at once.
const MOST_OPEN: usize = 1024;

/// The longest text shown of one thing.
const MOST_CHARS: usize = 96;

/// How wide who and whom are.
const WHO_WIDTH: usize = 24;

/// Turns envelopes into lines, remembering the calls that are open. Time is an argument: how long the room has been watched.
pub(crate) struct Transcript {
    colour: bool,
    open: HashMap<EnvelopeId, Open>,
    /// Everybody seen so far, in order of appearance: the order of the colours.
    seen: Vec<ParticipantId>,
}

struct Open {
    what: String,
    asked: Duration,
}

#[derive(Clone, Copy)]
enum Tone {
    Dim,
    Good,
    Bad,
}

impl Transcript {
    pub(crate) fn new(colour: bool) -> Self {
        Self { colour, open: HashMap::new(), seen: Vec::new() }
    }

    /// The line for an envelope; `None` when there is nothing to show.
    pub(crate) fn line(&mut self, envelope: &Envelope, at: Duration) -> Option<String> {
        let told = match (envelope.kind(), envelope.message()) {
            (Kind::Presence, _) => self.presence(&envelope.presence()?)?,
            (Kind::System, _) | (_, None) => return None,
            (_, Some(Message::Request { method, .. })) => self.request(envelope, method, at),
            (_, Some(Message::Response { succeeded, .. })) => self.response(envelope, *succeeded, at),
            (_, Some(Message::Notification { method })) => self.notification(envelope, method),
        };
        let time = format!("{}:{:02}", at.as_secs() / 60, at.as_secs() % 60);
        Some(format!("{}  {told}", self.tone(Tone::Dim, &format!("{time:>5}"))))
    }

    fn presence(&mut self, presence: &Presence) -> Option<String> {
        let participant = &presence.participant;
        let name = self.name(&participant.id);
        match presence.event {
            PresenceEvent::Join => {
                let kind = participant.kind.and_then(|kind| serde_json::to_value(kind).ok());
                let kind = kind.as_ref().and_then(Value::as_str).map(|kind| format!(", {}", with_article(kind)));
                Some(format!("{} {name} joined{}", self.tone(Tone::Good, "+"), kind.unwrap_or_default()))
            }
            PresenceEvent::Leave => Some(format!("{} {name} left", self.tone(Tone::Bad, "-"))),
            PresenceEvent::Heartbeat => None,
        }
    }

    fn request(&mut self, envelope: &Envelope, method: &str, at: Duration) -> String {
        let params: Value = envelope.params().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let (what, details) = match params["name"].as_str().filter(|_| method == "tools/call") {
            Some(tool) => (tool.to_owned(), arguments(&params["arguments"])),
            None => (method.to_owned(), String::new()),
        };
        let line = format!("{}{}{}", self.way(envelope, "→"), shown(&what), shown(&details));
        if self.open.len() >= MOST_OPEN {
            self.open.clear();
        }
        self.open.insert(envelope.id().clone(), Open { what, asked: at });
        line
    }

    fn response(&mut self, envelope: &Envelope, succeeded: bool, at: Duration) -> String {
        let open = envelope.correlation().and_then(|id| self.open.remove(id));
        let payload: Value = serde_json::from_str(envelope.payload()).unwrap_or_default();
        let worked = succeeded && payload["result"]["isError"] != true;
        let mark = if worked { self.tone(Tone::Good, "✓") } else { self.tone(Tone::Bad, "✗") };
        let what = open.as_ref().map_or("answer", |open| &open.what);
        let mut line = format!("{}{mark} {}", self.way(envelope, "→"), shown(what));
        if let Some(outcome) = outcome(&payload) {
            let _ = write!(line, ": {}", shown(&outcome));
        }
        if let Some(open) = &open {
            let took = format!(" ({} ms)", at.saturating_sub(open.asked).as_millis());
            line.push_str(&self.tone(Tone::Dim, &took));
        }
        line
    }

    fn notification(&mut self, envelope: &Envelope, method: &str) -> String {
        if let Some(chat) = envelope.chat().filter(|_| method == CHAT_METHOD) {
            return format!("{}: {}", self.name(envelope.from()), shown(&chat.text));
        }
        let way = self.way(envelope, "…");
        let params: Value = envelope.params().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let text = match method {
            "notifications/progress" => {
                let open = envelope.correlation().and_then(|id| self.open.get(id));
                let what = open.map_or("progress", |open| &open.what);
                let message = params["message"].as_str().map(|text| format!(", {text}")).unwrap_or_default();
                format!("{what} {} of {}{message}", params["progress"], params["total"])
            }
            other => other.strip_prefix("notifications/").unwrap_or(other).to_owned(),
        };
        format!("{way}{}", self.tone(Tone::Dim, &shown(&text)))
    }

    /// Who speaks to whom, padded.
    fn way(&mut self, envelope: &Envelope, arrow: &str) -> String {
        let to = match envelope.to() {
            [] => "everybody".to_owned(),
            [one] => one.to_string(),
            several => format!("{} participants", several.len()),
        };
        let from = envelope.from();
        let width = from.as_str().chars().count() + to.chars().count() + 3;
        let pad = WHO_WIDTH.saturating_sub(width) + 2;
        let to = match envelope.to() {
            [one] => self.name(one),
            _ => to,
        };
        format!("{} {arrow} {to}{:pad$}", self.name(from), "")
    }

    fn name(&mut self, id: &ParticipantId) -> String {
        // Cyan, yellow, magenta, green, blue: readable on light and dark.
        const COLOURS: [u8; 5] = [36, 33, 35, 32, 34];
        let place = self.seen.iter().position(|seen| seen == id).unwrap_or_else(|| {
            self.seen.push(id.clone());
            self.seen.len() - 1
        });
        self.paint(&format!("1;{}", COLOURS[place % COLOURS.len()]), id.as_str())
    }

    fn tone(&self, tone: Tone, text: &str) -> String {
        match tone {
            Tone::Dim => self.paint("2", text),
            Tone::Good => self.paint("32", text),
            Tone::Bad => self.paint("31", text),
        }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

fn with_article(kind: &str) -> String {
    let article = if kind.starts_with('a') { "an" } else { "a" };
    format!("{article} {kind}")
}

fn arguments(arguments: &Value) -> String {
    match arguments.as_object() {
        Some(arguments) if !arguments.is_empty() => format!(" {}", Value::from(arguments.clone())),
        _ => String::new(),
    }
}

/// What an answer says, in a few words.
fn outcome(payload: &Value) -> Option<String> {
    let result = &payload["result"];
    if let Some(message) = payload["error"]["message"].as_str() {
        return Some(message.to_owned());
    }
    if let Some(text) = result["content"][0]["text"].as_str() {
        return Some(text.to_owned());
    }
    if let Some(tools) = result["tools"].as_array() {
        let names: Vec<_> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
        return Some(names.join(", "));
    }
    result["serverInfo"]["name"].as_str().map(|name| {
        let version = result["protocolVersion"].as_str().unwrap_or("unknown");
        format!("{name}, MCP {version}")
    })
}

/// A text as it may be shown: no control characters, none that turn the direction of writing, and not too long.
fn shown(text: &str) -> String {
    let turns = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut shown = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == MOST_CHARS {
            shown.push('…');
            break;
        }
        if c.is_control() || turns(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    /// Lines for envelopes that come 10 ms apart, each given as `from → to correlation payload`.
    fn told(colour: bool, envelopes: &[(&str, &str, &str, &str)]) -> String {
        let mut transcript = Transcript::new(colour);
        let mut lines = Vec::new();
        for (n, (from, to, about, payload)) in envelopes.iter().enumerate() {
            let kind = if payload.contains("jsonrpc") { "mcp" } else { "presence" };
            let to = if to.is_empty() { "[]".into() } else { format!("[\"{to}\"]") };
            let about = if about.is_empty() { String::new() } else { format!("\"correlation_id\":\"{about}\",") };
            let text = format!(
                r#"{{"protocol":"mcp-x/v0","id":"e{n}","ts":"2025-08-17T14:00:00Z","from":"{from}","to":{to},"kind":"{kind}",{about}"payload":{payload}}}"#
            );
            let envelope = Envelope::restore(text).expect("an envelope");
            lines.extend(transcript.line(&envelope, Duration::from_millis(61_000 + 10 * n as u64)));
        }
        lines.join("\n")
    }

    #[test]
    fn a_call_is_paired_with_its_answer() {
        assert_snapshot!(told(false, &[
            ("system:gateway", "", "", r#"{"event":"join","participant":{"id":"bob","kind":"agent"}}"#),
            ("alice", "bob", "", r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"move","arguments":{"x":1}}}"#),
            ("alice", "bob", "", r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#),
            ("bob", "alice", "e1", r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1,"total":2,"message":"half"}}"#),
            ("bob", "alice", "e2", r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"move"},{"name":"stop"}]}}"#),
            ("bob", "alice", "e1", r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"stuck"}],"isError":true}}"#),
            ("bob", "alice", "e9", r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no such method"}}"#),
            ("system:gateway", "", "", r#"{"event":"leave","participant":{"id":"bob"}}"#),
            ("system:gateway", "", "", r#"{"event":"heartbeat","participant":{"id":"bob"}}"#),
        ]), @r#"
        1:01  + bob joined, an agent
        1:01  alice → bob               move {"x":1}
        1:01  alice → bob               tools/list
        1:01  bob … alice               move 1 of 2, half
        1:01  bob → alice               ✓ tools/list: move, stop (20 ms)
        1:01  bob → alice               ✗ move: stuck (40 ms)
        1:01  bob → alice               ✗ answer: no such method
        1:01  - bob left
        "#);
    }

    #[test]
    fn nothing_anybody_says_commands_the_terminal() {
        let chat = |text: &str| {
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/chat/message","params":{{"text":"{text}"}}}}"#)
        };
        let lines = told(
            false,
            &[
                ("alice", "", "", &chat(r"\u001b[2Jgone\u0007\n\u202eback")),
                ("alice", "", "", &chat(&"long ".repeat(100))),
            ],
        );
        assert_snapshot!(lines, @r#"
        1:01  alice: \u{1b}[2Jgone\u{7}\n\u{202e}back
        1:01  alice: long long long long long long long long long long long long long long long long long long long l…
        "#);
    }

    #[test]
    fn colour_is_put_on_names_and_marks() {
        let join = r#"{"event":"join","participant":{"id":"bob","kind":"robot"}}"#;
        assert_snapshot!(told(true, &[("system:gateway", "", "", join)]).replace('\x1b', "ESC"), @"ESC[2m 1:01ESC[0m  ESC[32m+ESC[0m ESC[1;36mbobESC[0m joined, a robot");
    }
}
