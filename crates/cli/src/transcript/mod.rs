//! The messages of a room as lines for a person: from whom to whom, and how every call ended.
//!
//! Whatever participants wrote is shown without its control characters: a line of chat must not command the terminal.

pub(crate) mod calls;
pub(crate) mod reading;
pub(crate) mod revisions;

use std::fmt::Write;
use std::time::Duration;

use salon_control::ControlNotice;
use salon_protocol::{CHAT_METHOD, ChatRevision, Envelope, Kind, Message, ParticipantId, Presence, PresenceEvent};

use self::calls::OpenCalls;
use self::revisions::Revisions;
use crate::{clock, safe};

/// The longest text shown of one thing.
const MAX_CHARS: usize = 96;

/// What is shown beside a text that its author has edited, and in place of one that was taken back.
pub(crate) const EDITED: &str = "(edited)";
pub(crate) const RETRACTED: &str = "(retracted)";

/// How wide who and whom are.
const WHO_WIDTH: usize = 24;

/// Turns envelopes into lines, remembering the calls that are open.
pub(crate) struct LineTranscript {
    colour: bool,
    /// The most characters of a chat line, and of anything else.
    most: (usize, usize),
    open: OpenCalls<TranscriptCall>,
    /// Everybody seen so far, in order of appearance: the order of the colours.
    seen: Vec<ParticipantId>,
    /// What became of chat lines that are shown together with it.
    revisions: Revisions,
}

/// When something happened. Time is an argument.
#[derive(Debug, Clone, Copy)]
pub(crate) struct When<'a> {
    /// What the line says of it.
    pub(crate) time_text: &'a str,
    /// By this machine's own clock, since any moment; needed for the duration of a call.
    pub(crate) since: Option<Duration>,
}

/// The sender's time as a line shows it: `2025-08-17 14:00:00`, as clocks show it here.
pub(crate) fn sent_at(envelope: &Envelope) -> String {
    reading::sent(envelope).map_or_else(String::new, clock::second)
}

struct TranscriptCall {
    what: String,
    requested_at: Option<Duration>,
}

#[derive(Clone, Copy)]
enum LineTone {
    Dim,
    Good,
    Bad,
}

impl LineTranscript {
    /// Lines to be read as they go by, none of them long.
    pub(crate) fn new(colour: bool) -> Self {
        Self {
            colour,
            most: (MAX_CHARS, MAX_CHARS),
            open: OpenCalls::default(),
            seen: Vec::new(),
            revisions: Revisions::default(),
        }
    }

    /// Shows chat whole, and more of everything else.
    pub(crate) fn at_length(self) -> Self {
        Self { most: (usize::MAX, 4 * MAX_CHARS), ..self }
    }

    /// Shows chat lines as these envelopes have left them.
    pub(crate) fn revised_by<'a>(mut self, envelopes: impl IntoIterator<Item = &'a Envelope>) -> Self {
        self.revisions = Revisions::of(envelopes);
        self
    }

    /// The line for an envelope; `None` when there is nothing to show.
    pub(crate) fn line(&mut self, envelope: &Envelope, when: When<'_>) -> Option<String> {
        let told = match (envelope.kind(), envelope.message()) {
            (Kind::Presence, _) => self.presence(&envelope.presence()?)?,
            (Kind::System, _) | (_, None) => return None,
            (_, Some(Message::Request { method, .. })) => self.request(envelope, method, when),
            (_, Some(Message::Response { .. })) => self.response(envelope, when),
            (_, Some(Message::Notification { method })) => self.notification(envelope, method)?,
        };
        Some(format!("{}  {told}", self.tone(LineTone::Dim, &format!("{:>5}", when.time_text))))
    }

    fn presence(&mut self, presence: &Presence) -> Option<String> {
        let participant = &presence.participant;
        let name = self.name(&participant.id);
        match presence.event {
            PresenceEvent::Join => {
                let kind = participant.kind.map(|kind| format!(", {}", with_article(kind.word())));
                Some(format!("{} {name} joined{}", self.tone(LineTone::Good, "+"), kind.unwrap_or_default()))
            }
            PresenceEvent::Leave => Some(format!("{} {name} left", self.tone(LineTone::Bad, "-"))),
            PresenceEvent::Status => {
                let status = participant.status.as_ref().map_or("no status any more".into(), ToString::to_string);
                let (mark, status) = (self.tone(LineTone::Dim, "~"), safe::line(&status));
                Some(format!("{mark} {name} {}", self.tone(LineTone::Dim, &status)))
            }
            PresenceEvent::Heartbeat => None,
        }
    }

    fn request(&mut self, envelope: &Envelope, method: &str, when: When<'_>) -> String {
        let params = reading::members(envelope.params().unwrap_or("{}"));
        let reading::RequestText { what, details } = reading::request_text(method, &params);
        let space = if details.is_empty() { "" } else { " " };
        let line = format!("{}{}{space}{}", self.way(envelope, "→"), self.printable(&what), self.printable(&details));
        self.open.ask(envelope.id().clone(), TranscriptCall { what, requested_at: when.since });
        line
    }

    fn response(&mut self, envelope: &Envelope, when: When<'_>) -> String {
        let open = self.open.answer(envelope.correlation());
        let reading::AnswerText { worked, says } = reading::answered(envelope);
        let mark = if worked { self.tone(LineTone::Good, "✓") } else { self.tone(LineTone::Bad, "✗") };
        let what = open.as_ref().map_or("answer", |open| &open.what);
        let mut line = format!("{}{mark} {}", self.way(envelope, "→"), self.printable(what));
        if !says.is_empty() {
            let _ = write!(line, ": {}", self.printable(&says));
        }
        if let (Some(now), Some(requested_at)) = (when.since, open.and_then(|open| open.requested_at)) {
            let took = format!(" ({} ms)", now.saturating_sub(requested_at).as_millis());
            line.push_str(&self.tone(LineTone::Dim, &took));
        }
        line
    }

    fn notification(&mut self, envelope: &Envelope, method: &str) -> Option<String> {
        if let Some(chat) = envelope.chat().filter(|_| method == CHAT_METHOD) {
            let revision = self.revisions.of_line(envelope).cloned();
            return Some(self.chat(envelope, &chat.text, revision.as_ref().filter(|_| !envelope.is_redacted())));
        }
        if let Some((original, revision)) = envelope.chat_revision() {
            return (!self.revisions.is_shown(original)).then(|| self.chat(envelope, "", Some(&revision)));
        }
        let text = match reading::reached(envelope) {
            Some(reading::Reached { progress, total, message }) => {
                let what = self.open.about(envelope.correlation()).map_or("progress", |open| &open.what);
                let total = total.map(|total| format!(" of {total}")).unwrap_or_default();
                let message = message.map(|text| format!(", {text}")).unwrap_or_default();
                format!("{what} {progress}{total}{message}")
            }
            None => match redacted_ids(envelope) {
                Some((by, ids)) => format!("message/redacted by {by}: {ids}"),
                None => method.strip_prefix("notifications/").unwrap_or(method).to_owned(),
            },
        };
        Some(format!("{}{}", self.way(envelope, "…"), self.tone(LineTone::Dim, &self.printable(&text))))
    }

    /// A chat line, as its author has left it.
    fn chat(&mut self, envelope: &Envelope, text: &str, revision: Option<&ChatRevision>) -> String {
        let to = match envelope.to() {
            [] => String::new(),
            _ => format!(" → {}", self.recipients(envelope)),
        };
        let text = match revision {
            None => safe::clipped(text, self.most.0),
            Some(ChatRevision::Edited(chat)) => {
                format!("{} {}", safe::clipped(&chat.text, self.most.0), self.tone(LineTone::Dim, EDITED))
            }
            Some(ChatRevision::Retracted) => self.tone(LineTone::Dim, RETRACTED),
        };
        format!("{}{to}: {text}", self.name(envelope.from()))
    }

    /// Sender and recipients, padded.
    fn way(&mut self, envelope: &Envelope, arrow: &str) -> String {
        // Colours take no room on the screen, and ids are of one-column characters.
        let to = match envelope.to() {
            [one] => one.as_str().len(),
            _ => self.recipients(envelope).len(),
        };
        let pad = WHO_WIDTH.saturating_sub(envelope.from().as_str().len() + to + 3) + 2;
        format!("{} {arrow} {}{:pad$}", self.name(envelope.from()), self.recipients(envelope), "")
    }

    fn recipients(&mut self, envelope: &Envelope) -> String {
        match envelope.to() {
            [] => "everybody".to_owned(),
            [one] => self.name(one),
            several => format!("{} participants", several.len()),
        }
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

    fn printable(&self, text: &str) -> String {
        safe::clipped(text, self.most.1)
    }

    fn tone(&self, tone: LineTone, text: &str) -> String {
        match tone {
            LineTone::Dim => self.paint("2", text),
            LineTone::Good => self.paint("32", text),
            LineTone::Bad => self.paint("31", text),
        }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Who redacted which messages by a notice of the gateway's.
fn redacted_ids(envelope: &Envelope) -> Option<(ParticipantId, String)> {
    match ControlNotice::of(envelope) {
        Some(ControlNotice::Redacted(redaction)) => {
            let ids: Vec<_> = redaction.messages.iter().map(|message| message.id.as_str()).collect();
            Some((redaction.by, ids.join(", ")))
        }
        _ => None,
    }
}

fn with_article(kind: &str) -> String {
    let article = if kind.starts_with('a') { "an" } else { "a" };
    format!("{article} {kind}")
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    /// Lines for envelopes that come 10 ms apart, each given as `from → to correlation payload`.
    fn told(colour: bool, envelopes: &[(&str, &str, &str, &str)]) -> String {
        let mut transcript = LineTranscript::new(colour);
        let mut lines = Vec::new();
        for (n, (from, to, about, payload)) in envelopes.iter().enumerate() {
            let kind = if payload.contains("jsonrpc") { "mcp" } else { "presence" };
            let to = if to.is_empty() { "[]".into() } else { format!("[\"{to}\"]") };
            let about = if about.is_empty() { String::new() } else { format!("\"correlation_id\":\"{about}\",") };
            let text = format!(
                r#"{{"protocol":"mcp-x/v0","id":"e{n}","ts":"2025-08-17T14:00:00Z","from":"{from}","to":{to},"kind":"{kind}",{about}"payload":{payload}}}"#
            );
            let envelope = Envelope::restore(text).expect("an envelope");
            let since = Some(Duration::from_millis(10 * n as u64));
            lines.extend(transcript.line(&envelope, When { time_text: "1:01", since }));
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
        1:01  alice → bob               move x=1
        1:01  alice → bob               tools/list
        1:01  bob … alice               move 1 of 2, half
        1:01  bob → alice               ✓ tools/list: move, stop (20 ms)
        1:01  bob → alice               ✗ move: stuck (40 ms)
        1:01  bob → alice               ✗ answer: no such method (-32601)
        1:01  - bob left
        "#);
    }

    #[test]
    fn chat_is_shown_as_its_author_has_left_it() {
        let envelope = |id: &str, from: &str, about: &str, what: &str, text: &str| {
            let payload =
                format!(r#"{{"jsonrpc":"2.0","method":"notifications/chat/{what}","params":{{"text":"{text}"}}}}"#);
            let about = if about.is_empty() { String::new() } else { format!(r#""correlation_id":"{about}","#) };
            Envelope::restore(format!(
                r#"{{"protocol":"mcp-x/v0","id":"{id}","ts":"2025-08-17T14:00:00Z","from":"{from}","kind":"mcp",{about}"payload":{payload}}}"#
            ))
            .expect("an envelope")
        };
        let envelopes = [
            envelope("e1", "alice", "", "message", "helo"),
            envelope("e2", "bob", "", "message", "secret"),
            envelope("e3", "alice", "e1", "edit", "hello"),
            envelope("e4", "bob", "e2", "retract", ""),
            envelope("e5", "bob", "e2", "edit", "again"),
            envelope("e6", "mallory", "e1", "edit", "mine"),
            envelope("e7", "alice", "e0", "edit", "of something earlier"),
        ];
        let lines = |transcript: LineTranscript| {
            let mut transcript = transcript;
            let when = When { time_text: "1:01", since: None };
            envelopes.iter().filter_map(|envelope| transcript.line(envelope, when)).collect::<Vec<_>>().join("\n")
        };
        assert_snapshot!(lines(LineTranscript::new(false).revised_by(&envelopes)), @r"
        1:01  alice: hello (edited)
        1:01  bob: (retracted)
        1:01  alice: of something earlier (edited)
        ");
        // As they come, nothing is known of what comes later.
        assert_snapshot!(lines(LineTranscript::new(false)), @r"
        1:01  alice: helo
        1:01  bob: secret
        1:01  alice: hello (edited)
        1:01  bob: (retracted)
        1:01  bob: again (edited)
        1:01  mallory: mine (edited)
        1:01  alice: of something earlier (edited)
        ");
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
