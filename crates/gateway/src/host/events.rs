//! What counts as an event for somebody who waits, and its text.

use std::collections::HashSet;

use salon_dialects::WAIT_TOOL;
use salon_mcp::input::ELICITATION;
use salon_protocol::{CHAT_METHOD, ChatRevision, Entry, Message, ParticipantId, PresenceEvent};
use serde::Deserialize;

use super::calls::Withdrawal;
use super::speech::cut;
use super::waiting;

/// How much of an event is in the text.
const MAX_WORDS: usize = 500;

/// A sort of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Sort {
    Mention,
    Chat,
    Join,
    Leave,
    Call,
    Any,
}

/// What somebody waits for.
pub(super) struct Interests {
    pub(super) caller: ParticipantId,
    /// What the caller is called in conversation, in lower case.
    pub(super) names: Vec<String>,
    pub(super) sorts: HashSet<Sort>,
    pub(super) from: Option<HashSet<ParticipantId>>,
    pub(super) namespace: uuid::Uuid,
}

impl Interests {
    /// The names somebody answers to.
    pub(super) fn names(id: &ParticipantId, display: Option<&str>) -> Vec<String> {
        let names = [Some(id.as_str()), display].into_iter().flatten().map(|name| name.trim().to_lowercase());
        names.filter(|name| !name.is_empty()).collect()
    }

    fn has(&self, sort: Sort) -> bool {
        self.sorts.contains(&sort)
    }

    /// Whether an entry is an event here. What the caller did itself never is.
    pub(super) fn wants(&self, entry: &Entry) -> bool {
        let envelope = &entry.envelope;
        if let Some(presence) = envelope.presence() {
            let sort = match presence.event {
                PresenceEvent::Join => Sort::Join,
                PresenceEvent::Leave => Sort::Leave,
                PresenceEvent::Status => Sort::Any,
                PresenceEvent::Heartbeat => return false,
            };
            let who = &presence.participant.id;
            return *who != self.caller && self.is_from(who) && (self.has(sort) || self.has(Sort::Any));
        }
        if *envelope.from() == self.caller || !self.is_from(envelope.from()) {
            return false;
        }
        let Some(message) = envelope.message() else { return false };
        if self.is_form(entry) {
            return false;
        }
        if self.has(Sort::Any) {
            return !self.is_waiting(entry);
        }
        let is_to_caller = || envelope.to().contains(&self.caller);
        match message {
            Message::Notification { method } if &**method == CHAT_METHOD || envelope.is_chat_revision() => {
                self.has(Sort::Chat) || self.has(Sort::Mention) && (is_to_caller() || self.is_named_in(entry))
            }
            Message::Notification { method } => {
                let is_upkeep = is_upkeep(method) || self.withdraws(entry, Withdrawal::Upkeep);
                self.has(Sort::Mention) && !is_upkeep && is_to_caller()
            }
            Message::Request { method, .. } => {
                (self.has(Sort::Call) || self.has(Sort::Mention)) && !is_upkeep(method) && is_to_caller()
            }
            // An answer to the caller has been given to it already, as the answer to its request.
            Message::Response { .. } => false,
        }
    }

    fn is_from(&self, who: &ParticipantId) -> bool {
        self.from.as_ref().is_none_or(|from| from.contains(who))
    }

    fn is_named_in(&self, entry: &Entry) -> bool {
        let Some(chat) = entry.envelope.chat() else { return false };
        let text = chat.text.to_lowercase();
        self.names.iter().any(|name| names(&text, name))
    }

    /// Whether an entry is itself part of somebody's waiting. If it were an event, clients that wait would wake each other for ever.
    fn is_waiting(&self, entry: &Entry) -> bool {
        let envelope = &entry.envelope;
        match envelope.message() {
            Some(Message::Request { method, .. }) => {
                #[derive(Deserialize)]
                struct Call {
                    name: String,
                }
                &**method == "tools/call"
                    && envelope.to().iter().any(ParticipantId::is_host)
                    && envelope
                        .params()
                        .and_then(|params| serde_json::from_str::<Call>(params).ok())
                        .is_some_and(|call| call.name == WAIT_TOOL)
            }
            Some(Message::Response { .. }) => waiting::is_answer(entry, &self.namespace),
            _ => false,
        }
    }

    /// Whether an entry puts a form to an approver's client, or takes one back: the client is shown forms by its door
    /// ([`super::approver_forms`]). If they were events, a form would end the very wait that it is put by.
    fn is_form(&self, entry: &Entry) -> bool {
        let envelope = &entry.envelope;
        match envelope.message() {
            Some(Message::Request { method, .. }) => {
                envelope.from().is_host() && !envelope.to().is_empty() && &**method == ELICITATION
            }
            Some(Message::Notification { .. }) => self.withdraws(entry, Withdrawal::Form),
            _ => false,
        }
    }

    /// Whether an entry says that the host does not wait any more for the answer to a request of a sort.
    fn withdraws(&self, entry: &Entry, withdrawal: Withdrawal) -> bool {
        let envelope = &entry.envelope;
        let request = envelope.correlation().filter(|_| envelope.from().is_host());
        request.is_some_and(|request| withdrawal.id(&self.namespace, request) == envelope.id().as_str())
    }
}

/// What MCP's machinery does by itself, which nobody waits for.
pub(super) fn is_upkeep(method: &str) -> bool {
    matches!(
        method,
        "initialize"
            | "notifications/initialized"
            | "ping"
            | "notifications/progress"
            | "tools/list"
            | "resources/list"
            | "resources/templates/list"
            | "prompts/list"
    )
}

/// Whether a text names somebody: as a word of its own, with or without `@`. Both are in lower case.
fn names(text: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    // These join words to one name, unless a sentence merely ends with them.
    let is_joint = |c: char| matches!(c, '-' | '.' | ':' | '~');
    text.match_indices(name).any(|(at, _)| {
        let mut before = text[..at].chars().rev();
        let begins = match before.next() {
            None => true,
            Some(c) if is_joint(c) => !before.next().is_some_and(is_word),
            Some(c) => !is_word(c),
        };
        let mut after = text[at + name.len()..].chars();
        let ends = match after.next() {
            None => true,
            Some(c) if is_joint(c) || c == '@' => !after.next().is_some_and(is_word),
            Some(c) => !is_word(c),
        };
        begins && ends
    })
}

/// An event in words.
pub(super) fn words(entry: &Entry) -> String {
    let envelope = &entry.envelope;
    let (from, id) = (envelope.from(), envelope.id());
    if let Some(presence) = envelope.presence() {
        let who = &presence.participant.id;
        return match presence.event {
            PresenceEvent::Join => format!("{who} joined"),
            PresenceEvent::Leave => format!("{who} left"),
            PresenceEvent::Heartbeat => format!("{who} is here"),
            PresenceEvent::Status => match &presence.participant.status {
                Some(status) => format!("{who} is {status}"),
                None => format!("{who} has no status any more"),
            },
        };
    }
    let to = match envelope.to() {
        [] => "everyone".to_owned(),
        to => to.iter().map(ParticipantId::as_str).collect::<Vec<_>>().join(", "),
    };
    let params = || envelope.params().map(|params| format!(" {}", cut(params, MAX_WORDS))).unwrap_or_default();
    match envelope.message() {
        Some(Message::Notification { method }) if &**method == CHAT_METHOD => {
            let said = envelope.chat().map(|chat| chat.text).unwrap_or_default();
            format!("{from} said: {}", cut(&said, MAX_WORDS))
        }
        Some(Message::Notification { method }) => match envelope.chat_revision() {
            Some((original, ChatRevision::Edited(chat))) => {
                format!("{from} edited {original}: {}", cut(&chat.text, MAX_WORDS))
            }
            Some((original, ChatRevision::Retracted)) => format!("{from} retracted {original}"),
            None => format!("{from} told {to} {method}{}", params()),
        },
        Some(Message::Request { method, .. }) => format!("{from} asks {to} {method}{} (envelope {id})", params()),
        Some(Message::Response { .. }) => format!("{from} answered {to}: {}", cut(envelope.payload(), MAX_WORDS)),
        None => format!("{from}: {}", cut(envelope.payload(), MAX_WORDS)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::speech::derived_id;
    use super::*;
    use salon_protocol::{Envelope, EnvelopeId, Position, Timestamp};
    use serde_json::json;

    #[test]
    fn a_name_is_a_word() {
        for (text, expected) in [
            ("bob", true),
            ("hello, bob!", true),
            ("@bob: look", true),
            ("ask bob.", true),
            ("bob's turn", true),
            ("(bob)", true),
            ("bobby", false),
            ("kabob", false),
            ("bob-2 is here", false),
            ("room:bob", false),
            ("mail bob@example.org", false),
            ("bobby and bob", true),
            ("", false),
        ] {
            assert_eq!(names(text, "bob"), expected, "{text}");
        }
        assert!(names("danke, jörg müller", "jörg müller"));
        assert_eq!(Interests::names(&ParticipantId::host(), Some("  ")), ["system:gateway"]);
    }

    /// An entry from `from` to `to`, as the test writes it.
    fn entry(from: &str, to: &[&str], payload: serde_json::Value) -> Entry {
        let kind = if payload.get("event").is_some() { "presence" } else { "mcp" };
        let text = json!({
            "protocol": "mcp-x/v0", "id": "e1", "ts": "2025-08-17T14:00:00Z", "from": from, "to": to, "kind": kind,
            "payload": payload
        });
        let envelope = Envelope::restore(text.to_string()).expect("an envelope");
        Entry { position: Position::start(1), arrived: Timestamp(0), stamp: None, envelope }
    }

    /// Which sorts an entry is of, for alice.
    fn sorts(entry: &Entry) -> String {
        let caller = ParticipantId::new("alice").expect("a name");
        let all = [
            ("mention", Sort::Mention),
            ("chat", Sort::Chat),
            ("join", Sort::Join),
            ("leave", Sort::Leave),
            ("call", Sort::Call),
            ("any", Sort::Any),
        ];
        let wanted = all.iter().filter(|(_, sort)| {
            let interests = Interests {
                names: Interests::names(&caller, Some("Alice A.")),
                caller: caller.clone(),
                sorts: [*sort].into(),
                from: None,
                namespace: uuid::Uuid::nil(),
            };
            interests.wants(entry)
        });
        wanted.map(|(word, _)| *word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_entry_is_of_its_sorts() {
        let chat = |text: &str| json!({"jsonrpc":"2.0","method":CHAT_METHOD,"params":{"text":text}});
        let note = json!({"jsonrpc":"2.0","method":"notifications/note"});
        let call = |method: &str| json!({"jsonrpc":"2.0","id":1,"method":method,"params":{"name":"x"}});
        let presence = |event: &str, who: &str| json!({"event":event,"participant":{"id":who}});
        for (entry, expected) in [
            (entry("bob", &[], chat("hi")), "chat any"),
            (entry("bob", &[], chat("hi alice a.")), "mention chat any"),
            (entry("bob", &["alice"], chat("hi")), "mention chat any"),
            (entry("alice", &[], chat("I am alice")), ""),
            (entry("bob", &["alice"], note.clone()), "mention any"),
            (entry("bob", &[], note.clone()), "any"),
            (entry("bob", &["alice"], call("tools/call")), "mention call any"),
            (entry("bob", &["carol"], call("tools/call")), "any"),
            (entry("system:gateway", &["alice"], call("initialize")), "any"),
            (entry("bob", &["alice"], json!({"jsonrpc":"2.0","id":1,"result":{}})), "any"),
            (entry("system:gateway", &[], presence("join", "bob")), "join any"),
            (entry("system:gateway", &[], presence("leave", "bob")), "leave any"),
            (entry("system:gateway", &[], presence("leave", "alice")), ""),
        ] {
            assert_eq!(sorts(&entry), expected, "{}", entry.envelope.text());
        }
    }

    #[test]
    fn waiting_is_no_event() {
        let call = |tool: &str| json!({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":tool}});
        assert_eq!(sorts(&entry("bob", &["system:gateway"], call("room.wait"))), "");
        assert_eq!(sorts(&entry("bob", &["system:gateway"], call("presence.get"))), "any");
        assert_eq!(sorts(&entry("bob", &["carol"], call("room.wait"))), "any");
        let answer = |purpose: &str| {
            let request = EnvelopeId::new("w1").expect("an id");
            let text = json!({
                "protocol": "mcp-x/v0", "id": derived_id(&uuid::Uuid::nil(), purpose, &request), "ts": "2025-08-17T14:00:00Z",
                "from": "system:gateway", "to": ["bob"], "kind": "mcp", "correlation_id": "w1",
                "payload": {"jsonrpc":"2.0","id":1,"result":{}}
            });
            let envelope = Envelope::restore(text.to_string()).expect("an envelope");
            Entry { position: Position::start(1), arrived: Timestamp(0), stamp: None, envelope }
        };
        assert_eq!(sorts(&answer(waiting::PURPOSE)), "");
        assert_eq!(sorts(&answer("answer")), "any");
    }

    /// A form is shown by its door, and so is its end. What else the host takes back is an event where what it has asked was one.
    #[test]
    fn only_the_withdrawal_of_a_form_is_no_event() {
        let withdrawn = |method: &str| {
            let request = EnvelopeId::new("q1").expect("an id");
            let text = json!({
                "protocol": "mcp-x/v0", "id": Withdrawal::of(method).id(&uuid::Uuid::nil(), &request), "ts": "2025-08-17T14:00:00Z",
                "from": "system:gateway", "to": ["alice"], "kind": "mcp", "correlation_id": "q1",
                "payload": {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}
            });
            let envelope = Envelope::restore(text.to_string()).expect("an envelope");
            sorts(&Entry { position: Position::start(1), arrived: Timestamp(0), stamp: None, envelope })
        };
        assert_eq!(withdrawn("elicitation/create"), "");
        assert_eq!(withdrawn("tools/list"), "any");
        assert_eq!(withdrawn("tools/call"), "mention any");
        let call = |method: &str| json!({"jsonrpc":"2.0","id":1,"method":method,"params":{}});
        assert_eq!(sorts(&entry("system:gateway", &["alice"], call("elicitation/create"))), "");
        assert_eq!(sorts(&entry("bob", &["alice"], call("elicitation/create"))), "mention call any");
    }
}
