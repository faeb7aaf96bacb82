//! The sessions of this session's participant, and which of them a question from the room is for.
//!
//! A participant may have several sessions at once, at this gateway and at others. What a session sends names it (`from_session`); a
//! participant that knows of sessions names the one it asks (`to_session`), or the call it asks about (`correlation_id`). A question with
//! neither is for the session with the newest open call to its asker; without such a call for the session that last turned to the asker. All
//! sessions see the participant's messages in the room's order, so they agree without asking each other.

use std::collections::BTreeMap;

use salon_mcp::Cancelled;
use salon_mcp::listing::Listing;
use salon_protocol::{Envelope, EnvelopeId, Message, ParticipantId, RpcId, SESSION_ENDED_METHOD, SessionId};
use serde_json::value::RawValue;

/// Open calls, and contacts with participants, that are remembered: the newest.
const MAX_CALLS: usize = 1024;
const MAX_CONTACTS: usize = 1024;

/// A session of the participant, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Whose {
    Own,
    /// Another session; without an id, a connection that names none.
    Other(Option<SessionId>),
    /// One that made a call before this session had its seat, and may have ended since.
    Earlier,
}

/// A request that waits for its answer, and during which its caller may be asked something.
#[derive(Debug)]
struct OpenCall {
    request: EnvelopeId,
    id: Option<RpcId>,
    callee: ParticipantId,
    whose: Whose,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct DoorSessions {
    /// In the room's order.
    calls: BTreeMap<u64, OpenCall>,
    /// When a session last turned to a participant.
    contacts: BTreeMap<(ParticipantId, Whose), u64>,
    /// How many messages were counted, which is their order.
    counted: u64,
    /// Another session has turned to somebody.
    has_others: bool,
}

impl DoorSessions {
    pub(super) fn has_others(&self) -> bool {
        self.has_others
    }

    /// The calls of the participant that were open when this session got its seat, the oldest first.
    pub(super) fn seated(&mut self, open: &[(EnvelopeId, ParticipantId)]) {
        for (request, callee) in open {
            self.insert(OpenCall { request: request.clone(), id: None, callee: callee.clone(), whose: Whose::Earlier });
        }
    }

    /// Takes note of something that the participant sends to another: when this session sends it, and when it is in the room.
    pub(super) fn note(&mut self, envelope: &Envelope, is_own: bool) {
        let whose = if is_own { Whose::Own } else { Whose::Other(envelope.from_session().cloned()) };
        match (envelope.message(), envelope.to()) {
            (Some(Message::Request { id, method }), [callee]) => {
                self.note_contact(callee, &whose);
                if may_ask_back(method) {
                    self.call_over(envelope.id());
                    let (request, id, callee) = (envelope.id().clone(), Some(id.clone()), callee.clone());
                    self.insert(OpenCall { request, id, callee, whose });
                }
            }
            (Some(Message::Notification { method }), _) if **method == *SESSION_ENDED_METHOD => {
                self.calls.retain(|_, call| call.whose != whose);
                self.contacts.retain(|(_, of), _| *of != whose);
            }
            (Some(Message::Notification { method }), [callee]) => {
                self.note_contact(callee, &whose);
                if **method == *"notifications/cancelled" {
                    self.cancelled(envelope, callee, &whose);
                }
            }
            _ => {}
        }
    }

    fn note_contact(&mut self, with: &ParticipantId, whose: &Whose) {
        self.has_others |= *whose != Whose::Own;
        self.counted += 1;
        self.contacts.insert((with.clone(), whose.clone()), self.counted);
        if self.contacts.len() > MAX_CONTACTS {
            let oldest = self.contacts.iter().min_by_key(|(_, at)| **at).map(|(contact, _)| contact.clone());
            oldest.and_then(|oldest| self.contacts.remove(&oldest));
        }
    }

    fn insert(&mut self, call: OpenCall) {
        self.counted += 1;
        self.calls.insert(self.counted, call);
        if self.calls.len() > MAX_CALLS {
            self.calls.pop_first();
        }
    }

    /// A session does not want an answer any more. Not every client says by which envelope.
    fn cancelled(&mut self, envelope: &Envelope, callee: &ParticipantId, whose: &Whose) {
        let params = envelope.params().and_then(|params| serde_json::from_str::<&RawValue>(params).ok());
        let named = Cancelled::read(params).and_then(|cancelled| RpcId::parse(cancelled.id.get()));
        let is_named = |call: &OpenCall| named.is_some() && call.id == named && call.callee == *callee;
        self.calls.retain(|_, call| {
            let is_it = envelope.correlation() == Some(&call.request) || (call.whose == *whose && is_named(call));
            !is_it
        });
    }

    /// A call was answered, or never will be.
    pub(super) fn call_over(&mut self, request: &EnvelopeId) {
        self.calls.retain(|_, call| call.request != *request);
    }

    /// A participant has left, or started over: it remembers no session.
    pub(super) fn forget(&mut self, who: &ParticipantId) {
        self.calls.retain(|_, call| call.callee != *who);
        self.contacts.retain(|(with, _), _| with != who);
    }

    /// Whether a call is open that another session has made.
    pub(super) fn is_open_elsewhere(&self, request: &EnvelopeId) -> bool {
        self.calls.values().any(|call| call.request == *request && call.whose != Whose::Own)
    }

    /// Whether a question that names neither session nor call is this session's to answer, or to refuse where no session is meant.
    pub(super) fn is_ours(&self, asker: &ParticipantId) -> bool {
        let newest = self.calls.values().rev().find(|call| call.callee == *asker).map(|call| &call.whose);
        let own_contact = self.contacts.get(&(asker.clone(), Whose::Own));
        match newest {
            Some(Whose::Own) => true,
            // This session has turned to the asker since.
            Some(Whose::Earlier) => own_contact.is_some(),
            Some(Whose::Other(_)) => false,
            None => {
                let contacts = self.contacts.iter().filter(|((with, _), _)| with == asker);
                let latest = contacts.max_by_key(|(_, at)| **at).map(|((_, whose), _)| whose);
                latest.is_none_or(|whose| *whose == Whose::Own)
            }
        }
    }
}

/// Whether a callee may ask something because of a request. The requests that doors make for their own sake are left out: all sessions
/// must agree, and a request does not show for whose sake it was made.
fn may_ask_back(method: &str) -> bool {
    const OWN_METHODS: [&str; 6] = [
        "initialize",
        "server/discover",
        "subscriptions/listen",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
    ];
    !OWN_METHODS.contains(&method) && Listing::of_method(method).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use salon_protocol::{Compose, Kind, Sessions as Between, Timestamp};

    fn participant(text: &str) -> ParticipantId {
        ParticipantId::new(text).expect("a name")
    }

    fn session(text: &str) -> SessionId {
        SessionId::new(text).expect("an id")
    }

    /// `s2 e1 bob tools/call`: something that a session of alice's sends to bob; `-` for a connection without sessions.
    fn note(sessions: &mut DoorSessions, line: &str) {
        let words: Vec<_> = line.split_whitespace().collect();
        let [from, id, to, method] = words[..] else { panic!("{line}") };
        let (method, about) = method.split_once('=').unwrap_or((method, ""));
        let payload = match method {
            "notifications/cancelled" => {
                serde_json::json!({ "jsonrpc": "2.0", "method": method, "params": { "requestId": about } })
            }
            _ if method.starts_with("notifications/") => serde_json::json!({ "jsonrpc": "2.0", "method": method }),
            _ => serde_json::json!({ "jsonrpc": "2.0", "id": id, "method": method }),
        };
        let from_session = (from != "-").then(|| session(from));
        let compose = Compose {
            id,
            ts: Timestamp(0),
            from: &participant("alice"),
            to: &[participant(to)],
            kind: Kind::Mcp,
            correlation_id: None,
            payload,
        };
        let text = compose.text_between(Between { from_session: from_session.as_ref(), to_session: None });
        let envelope = Envelope::restore(text).expect("an envelope");
        sessions.note(&envelope, from == "s1");
    }

    fn after(lines: &[&str]) -> DoorSessions {
        let mut sessions = DoorSessions::default();
        lines.iter().for_each(|line| note(&mut sessions, line));
        sessions
    }

    fn envelope(text: &str) -> EnvelopeId {
        EnvelopeId::new(text).expect("an id")
    }

    #[test]
    fn the_newest_open_call_decides() {
        let bob = participant("bob");
        assert!(after(&[]).is_ours(&bob), "it is this session's to refuse");
        assert!(after(&["s1 e1 bob tools/call"]).is_ours(&bob));
        assert!(!after(&["s1 e1 bob tools/call", "s2 e2 bob tools/call"]).is_ours(&bob));
        assert!(!after(&["s1 e1 bob tools/call", "- e2 bob tools/call"]).is_ours(&bob));
        assert!(after(&["s2 e1 bob tools/call", "s1 e2 bob tools/call"]).is_ours(&bob));
        assert!(after(&["s1 e1 bob tools/call", "s2 e2 carol tools/call"]).is_ours(&bob));
        let mut both = after(&["s1 e1 bob tools/call", "s2 e2 bob tools/call"]);
        both.call_over(&envelope("e2"));
        assert!(both.is_ours(&bob), "the other's call has ended");
        for end in ["s2 e3 bob notifications/cancelled=e2", "s2 e3 bob notifications/session/ended"] {
            let both = after(&["s1 e1 bob tools/call", "s2 e2 bob tools/call", end]);
            assert!(both.is_ours(&bob), "{end}");
            let other = after(&["s1 e1 bob tools/call", "s2 e2 bob tools/call", &end.replace("s2", "s3")]);
            assert!(!other.is_ours(&bob), "not of session s3: {end}");
        }
    }

    #[test]
    fn without_a_call_the_last_contact_decides() {
        let bob = participant("bob");
        assert!(!after(&["s1 e1 bob initialize", "s2 e2 bob initialize"]).is_ours(&bob));
        assert!(after(&["s2 e1 bob initialize", "s1 e2 bob initialize"]).is_ours(&bob));
        assert!(!after(&["s2 e1 bob initialize"]).is_ours(&bob));
        assert!(!after(&["s1 e1 bob initialize", "s2 e2 bob notifications/roots/list_changed"]).is_ours(&bob));
        // A list that another session's door reads is no call.
        assert!(after(&["s1 e1 bob tools/call", "s2 e2 bob initialize", "s2 e3 bob tools/list"]).is_ours(&bob));
        let ended = after(&["s1 e1 bob initialize", "s2 e2 bob initialize", "s2 e3 bob notifications/session/ended"]);
        assert!(ended.is_ours(&bob));
    }

    #[test]
    fn calls_from_before_the_seat_are_others_until_this_session_turns_to_their_callee() {
        let bob = participant("bob");
        let mut sessions = DoorSessions::default();
        sessions.seated(&[(envelope("e0"), bob.clone())]);
        assert!(!sessions.is_ours(&bob) && sessions.is_open_elsewhere(&envelope("e0")));
        assert!(sessions.is_ours(&participant("carol")));
        note(&mut sessions, "s1 e1 bob initialize");
        assert!(sessions.is_ours(&bob), "nobody else may be there any more");
        note(&mut sessions, "s2 e2 bob tools/call");
        assert!(!sessions.is_ours(&bob));
        sessions.forget(&bob);
        assert!(sessions.is_ours(&bob) && !sessions.is_open_elsewhere(&envelope("e0")));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut sessions = DoorSessions::default();
        for number in 0..MAX_CALLS.max(MAX_CONTACTS) + 10 {
            note(&mut sessions, &format!("s{number} e{number} bob tools/call"));
        }
        assert_eq!((sessions.calls.len(), sessions.contacts.len()), (MAX_CALLS, MAX_CONTACTS));
        assert!(!sessions.is_open_elsewhere(&envelope("e0")) && sessions.is_open_elsewhere(&envelope("e1033")));
    }
}
