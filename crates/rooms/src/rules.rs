//! Room rules: decides whether a draft may enter a topic.
//! Invariant: pure. No clock, no log, no wire format.

use salon_control::{Authority, HeldBy};
use salon_log::{CallClosure, Fold};
use salon_protocol::{
    CHAT_EDIT_METHOD, CHAT_METHOD, CHAT_RETRACT_METHOD, Code, Draft, Envelope, EnvelopeId, Kind, Message,
    ParticipantId, Refusal, RpcId,
};

/// What the room knows that bears on a draft.
#[derive(Debug, Clone)]
pub struct Circumstances {
    /// Whether the first participant the draft names is here.
    pub recipient_present: bool,
    /// How many calls of the draft's author wait for an answer. Only requests need it; the host is exempt, and has none.
    pub calls_waiting: usize,
    /// What the draft's `correlation_id` names. Only responses, and edits and retractions of chat, need it.
    pub referent: Referent,
    /// Whether the draft cancels a call, or tells of its progress, that waits for an answer and that its author is no party of.
    pub concerns_others: bool,
    /// Whether the draft's one recipient waits for an answer of the author. Only what a server asks its client needs it.
    pub is_called: bool,
    /// What the topic's settings and the author's token say of the author; `None` where they forbid nothing.
    pub authority: Option<Authority>,
    /// The chain of agents that the draft would make longer; `None` where the topic has no settings.
    pub chain: Option<AgentChain>,
}

/// A chain of envelopes that follow from each other, each of another agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentChain {
    /// How many times it has gone from one agent to another.
    pub hops: u32,
    /// How many times it may.
    pub limit: u32,
}

/// A draft that was accepted.
#[derive(Debug)]
pub struct AcceptedDraft {
    /// It.
    pub envelope: Envelope,
    /// The rule that holds it until somebody approves.
    pub held_by: Option<HeldBy>,
}

/// What a `correlation_id` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Referent {
    /// No envelope of this topic.
    Nothing,
    /// A chat message.
    Chat {
        /// Who said it.
        author: ParticipantId,
    },
    /// A message that was redacted.
    Redacted,
    /// Another envelope that is not a request.
    NoRequest,
    /// A request.
    Request {
        /// Whom it was addressed to.
        callee: ParticipantId,
        /// Its JSON-RPC id.
        id: RpcId,
        /// Why it does not wait for an answer, if it does not.
        ended: Option<CallClosure>,
    },
}

/// Accepts a draft of `author`'s, or gives it back with the reason why not. The refusal names the draft.
pub fn accept(author: &ParticipantId, draft: Draft, circumstances: &Circumstances) -> Result<AcceptedDraft, Refused> {
    let judged = judge(author, draft.envelope(), circumstances).and_then(|()| judge_chain(circumstances.chain));
    let judged = judged.and_then(|()| match &circumstances.authority {
        Some(authority) => authority.judge(draft.envelope(), circumstances.is_called),
        None => Ok(None),
    });
    match judged {
        Ok(held_by) => Ok(AcceptedDraft { envelope: draft.trust(), held_by }),
        Err(refusal) => {
            let refusal = refusal.regarding(Some(draft.envelope().id().clone()));
            Err(Box::new((draft, refusal)))
        }
    }
}

/// A draft that was not accepted, and why.
pub type Refused = Box<(Draft, Refusal)>;

fn judge(author: &ParticipantId, envelope: &Envelope, circumstances: &Circumstances) -> Result<(), Refusal> {
    if envelope.from() != author {
        let message = format!("`from` must be \"{author}\", the participant this connection belongs to");
        return Err(Refusal::new(Code::FromMismatch, message));
    }
    let (Kind::Mcp, Some(message)) = (envelope.kind(), envelope.message()) else {
        return Err(Refusal::new(
            Code::ReservedKind,
            "only the gateway sends `presence` and `system`; `kind` must be \"mcp\"",
        ));
    };
    if envelope.is_redacted() {
        return Err(Refusal::new(Code::InvalidEnvelope, "only the gateway writes `redacted`"));
    }
    match message {
        Message::Request { method, .. }
            if [CHAT_METHOD, CHAT_EDIT_METHOD, CHAT_RETRACT_METHOD].contains(&&**method) =>
        {
            Err(Refusal::new(Code::InvalidParameters, "a chat message is a notification: it has no `payload.id`"))
        }
        Message::Request { .. } => judge_request(envelope, circumstances),
        Message::Response { id, .. } => judge_response(author, envelope, id, circumstances),
        Message::Notification { method }
            if (&**method == CHAT_METHOD || &**method == CHAT_EDIT_METHOD) && envelope.chat().is_none() =>
        {
            let message = "a chat message needs a string `text`; `format` is \"plain\" or \"markdown\"";
            Err(Refusal::new(Code::InvalidParameters, message))
        }
        Message::Notification { .. } if envelope.is_chat_revision() => judge_revision(author, envelope, circumstances),
        Message::Notification { .. } if circumstances.concerns_others => {
            let message = "only the caller and the callee of a call may cancel it or tell of its progress";
            Err(Refusal::new(Code::CorrelationMismatch, message))
        }
        Message::Notification { .. } => Ok(()),
    }
}

fn judge_chain(chain: Option<AgentChain>) -> Result<(), Refusal> {
    let Some(AgentChain { limit, .. }) = chain.filter(|chain| chain.hops > chain.limit) else { return Ok(()) };
    let message =
        format!("it follows from a chain of more than {limit} agents (`limits.hops`): a person has to begin a new one");
    Err(Refusal::new(Code::TooManyHops, message))
}

fn judge_request(envelope: &Envelope, circumstances: &Circumstances) -> Result<(), Refusal> {
    let [callee] = envelope.to() else {
        let message = format!("a request must be addressed to exactly one participant, not {}", envelope.to().len());
        return Err(Refusal::new(Code::RecipientRequired, message));
    };
    if !circumstances.recipient_present {
        return Err(Refusal::new(Code::RecipientNotFound, format!("`{callee}` is not in this room")));
    }
    if circumstances.calls_waiting >= Fold::MAX_WAITING_OF_CALLER {
        let limit = Fold::MAX_WAITING_OF_CALLER;
        let message = format!("{limit} calls of yours wait for an answer in this room already, which is the limit");
        return Err(Refusal::new(Code::RateLimited, message));
    }
    Ok(())
}

fn judge_response(
    author: &ParticipantId,
    envelope: &Envelope,
    id: &RpcId,
    circumstances: &Circumstances,
) -> Result<(), Refusal> {
    let Some(named) = envelope.correlation() else {
        let message = "a response must carry the request's envelope id as `correlation_id`";
        return Err(Refusal::new(Code::CorrelationRequired, message));
    };
    let mismatch = |message: String| Err(Refusal::new(Code::CorrelationMismatch, message));
    match &circumstances.referent {
        Referent::Nothing => mismatch(format!("no envelope `{named}` is known in this room")),
        Referent::Chat { .. } | Referent::Redacted | Referent::NoRequest => {
            mismatch(format!("`{named}` is not a request, so it cannot be answered"))
        }
        Referent::Request { callee, .. } if callee != author => {
            mismatch(format!("the request `{named}` was addressed to `{callee}`"))
        }
        Referent::Request { id: asked, .. } if asked != id => {
            mismatch(format!("the request `{named}` has the JSON-RPC id {}, not {}", asked.to_json(), id.to_json()))
        }
        Referent::Request { ended: Some(end), .. } => Err(call_ended(named, *end)),
        Referent::Request { ended: None, .. } => Ok(()),
    }
}

/// Only its author edits or retracts a chat message.
fn judge_revision(author: &ParticipantId, envelope: &Envelope, circumstances: &Circumstances) -> Result<(), Refusal> {
    let Some(named) = envelope.correlation() else {
        let message = "an edit or a retraction must carry the id of the chat message as `correlation_id`";
        return Err(Refusal::new(Code::CorrelationRequired, message));
    };
    let mismatch = |message: String| Err(Refusal::new(Code::CorrelationMismatch, message));
    match &circumstances.referent {
        Referent::Chat { author: said_by } if said_by == author => Ok(()),
        Referent::Chat { author: said_by } => {
            let message = format!("`{named}` is a message of `{said_by}`, and only its author edits or retracts it");
            Err(Refusal::new(Code::Forbidden, message))
        }
        Referent::Redacted => mismatch(format!("`{named}` was redacted, so it cannot be edited or retracted")),
        Referent::Nothing => mismatch(format!("no envelope `{named}` is known in this room")),
        Referent::NoRequest | Referent::Request { .. } => {
            mismatch(format!("`{named}` is not a chat message, so it cannot be edited or retracted"))
        }
    }
}

/// The refusal of an answer whose call has ended before it.
pub(crate) fn call_ended(request: &EnvelopeId, end: CallClosure) -> Refusal {
    match end {
        CallClosure::Answered => {
            Refusal::new(Code::CorrelationMismatch, format!("the request `{request}` was already answered"))
        }
        CallClosure::Failed => {
            let message = format!("the call `{request}` had failed before this answer, and its caller was told so");
            Refusal::new(Code::CallEnded, message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;
    use salon_protocol::Limits;

    /// Judges `author → to payload [re correlation]`, in a room with bob, where alice asked bob `r1` with the id 7, and as many calls of
    /// busy's wait as may.
    fn judge(author: &str, envelope: &str) -> String {
        let mut parts = envelope.splitn(4, ' ');
        let mut part = || parts.next().expect("from, to, correlation and payload");
        let (from, to, correlation, payload) = (part(), part(), part(), part());
        let to = if to == "*" { String::new() } else { format!("\"{}\"", to.replace(',', "\",\"")) };
        let correlation =
            if correlation == "-" { String::new() } else { format!("\"correlation_id\":\"{correlation}\",") };
        let kind = if payload.contains("event") { "presence" } else { "mcp" };
        let text = format!(
            r#"{{"protocol":"mcp-x/v0","id":"e1","ts":"2025-08-17T14:00:00Z","from":"{from}","to":[{to}],{correlation}"kind":"{kind}","payload":{payload}}}"#
        );
        let draft = Draft::parse(text, &Limits::default()).expect("a draft");
        let request = |ended| Referent::Request {
            callee: ParticipantId::new("bob").expect("a name"),
            id: RpcId::Number("7".into()),
            ended,
        };
        let circumstances = Circumstances {
            calls_waiting: if author == "busy" { Fold::MAX_WAITING_OF_CALLER } else { 999 },
            recipient_present: draft.envelope().to().first().is_some_and(|id| id.as_str() == "bob"),
            referent: match draft.envelope().correlation().map(|id| id.as_str().to_owned()).as_deref() {
                Some("r1") => request(None),
                Some("r0") => request(Some(CallClosure::Answered)),
                Some("rx") => request(Some(CallClosure::Failed)),
                Some("chat") => Referent::Chat { author: ParticipantId::new("alice").expect("a name") },
                Some("gone") => Referent::Redacted,
                Some("other") => Referent::NoRequest,
                _ => Referent::Nothing,
            },
            concerns_others: author == "mallory" && draft.envelope().concerned_call().is_some(),
            is_called: false,
            authority: None,
            chain: None,
        };
        match accept(&ParticipantId::new(author).expect("a name"), draft, &circumstances) {
            Ok(_) => "accepted".into(),
            Err(refused) => format!("{} [{}]", refused.1, refused.1.regarding.as_ref().map_or("-", |id| id.as_str())),
        }
    }

    const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    const ANSWER: &str = r#"{"jsonrpc":"2.0","id":7,"result":{}}"#;

    #[test]
    fn a_request_has_one_recipient_who_is_here() {
        assert_snapshot!(judge("alice", &format!("alice bob - {CALL}")), @"accepted");
        assert_snapshot!(judge("alice", &format!("alice * - {CALL}")), @"recipient_required: a request must be addressed to exactly one participant, not 0 [e1]");
        assert_snapshot!(judge("alice", &format!("alice bob,carol - {CALL}")), @"recipient_required: a request must be addressed to exactly one participant, not 2 [e1]");
        assert_snapshot!(judge("alice", &format!("alice carol - {CALL}")), @"recipient_not_found: `carol` is not in this room [e1]");
    }

    #[test]
    fn only_so_many_calls_wait() {
        assert_snapshot!(judge("busy", &format!("busy bob - {CALL}")), @"rate_limited: 1000 calls of yours wait for an answer in this room already, which is the limit [e1]");
        assert_snapshot!(judge("busy", r#"busy bob - {"jsonrpc":"2.0","method":"notifications/x"}"#), @"accepted");
    }

    #[test]
    fn nobody_speaks_for_another() {
        assert_snapshot!(judge("mallory", &format!("alice bob - {CALL}")), @r#"from_mismatch: `from` must be "mallory", the participant this connection belongs to [e1]"#);
        assert_snapshot!(judge("alice", r#"alice * - {"event":"join"}"#), @r#"reserved_kind: only the gateway sends `presence` and `system`; `kind` must be "mcp" [e1]"#);
    }

    #[test]
    fn an_answer_answers_a_request() {
        assert_snapshot!(judge("bob", &format!("bob alice r1 {ANSWER}")), @"accepted");
        assert_snapshot!(judge("bob", &format!("bob alice - {ANSWER}")), @"correlation_required: a response must carry the request's envelope id as `correlation_id` [e1]");
        assert_snapshot!(judge("bob", &format!("bob alice r9 {ANSWER}")), @"correlation_mismatch: no envelope `r9` is known in this room [e1]");
        assert_snapshot!(judge("bob", &format!("bob alice chat {ANSWER}")), @"correlation_mismatch: `chat` is not a request, so it cannot be answered [e1]");
        assert_snapshot!(judge("carol", &format!("carol alice r1 {ANSWER}")), @"correlation_mismatch: the request `r1` was addressed to `bob` [e1]");
        assert_snapshot!(judge("bob", &format!("bob alice r0 {ANSWER}")), @"correlation_mismatch: the request `r0` was already answered [e1]");
        assert_snapshot!(judge("bob", &format!("bob alice rx {ANSWER}")), @"call_ended: the call `rx` had failed before this answer, and its caller was told so [e1]");
        assert_snapshot!(judge("bob", r#"bob alice r1 {"jsonrpc":"2.0","id":"7","result":1}"#), @r#"correlation_mismatch: the request `r1` has the JSON-RPC id 7, not "7" [e1]"#);
        assert_snapshot!(judge("bob", r#"bob alice r1 {"jsonrpc":"2.0","id":7.0,"error":{}}"#), @"correlation_mismatch: the request `r1` has the JSON-RPC id 7, not 7.0 [e1]");
    }

    #[test]
    fn a_call_is_its_parties_affair() {
        let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
        assert_snapshot!(judge("alice", &format!("alice bob - {cancelled}")), @"accepted");
        assert_snapshot!(judge("mallory", &format!("mallory bob - {cancelled}")), @"correlation_mismatch: only the caller and the callee of a call may cancel it or tell of its progress [e1]");
    }

    #[test]
    fn chat_has_text() {
        let chat = |params: &str| {
            judge("alice", &format!(r#"alice * - {{"jsonrpc":"2.0","method":"notifications/chat/message"{params}}}"#))
        };
        assert_snapshot!(chat(r#","params":{"text":"hi"}"#), @"accepted");
        assert_snapshot!(chat(r#","params":{"text":"hi","format":"markdown","x":1}"#), @"accepted");
        for wrong in ["", r#","params":{}"#, r#","params":{"text":1}"#, r#","params":{"text":"a","format":"html"}"#] {
            assert_eq!(chat(wrong).split(':').next(), Some("invalid_parameters"), "{wrong}");
        }
        assert_snapshot!(judge("alice", r#"alice bob - {"jsonrpc":"2.0","id":1,"method":"notifications/chat/message","params":{"text":"hi"}}"#), @"invalid_parameters: a chat message is a notification: it has no `payload.id` [e1]");
        assert_snapshot!(judge("alice", r#"alice * anything {"jsonrpc":"2.0","method":"notifications/x"}"#), @"accepted");
    }

    #[test]
    fn only_its_author_edits_a_chat_message() {
        let revise = |author: &str, original: &str, what: &str, params: &str| {
            judge(
                author,
                &format!(r#"{author} * {original} {{"jsonrpc":"2.0","method":"notifications/chat/{what}"{params}}}"#),
            )
        };
        let text = r#","params":{"text":"hi"}"#;
        assert_snapshot!(revise("alice", "chat", "edit", text), @"accepted");
        assert_snapshot!(revise("alice", "chat", "retract", ""), @"accepted");
        assert_snapshot!(revise("mallory", "chat", "edit", text), @"forbidden: `chat` is a message of `alice`, and only its author edits or retracts it [e1]");
        assert_snapshot!(revise("mallory", "chat", "retract", ""), @"forbidden: `chat` is a message of `alice`, and only its author edits or retracts it [e1]");
        assert_snapshot!(revise("alice", "-", "retract", ""), @"correlation_required: an edit or a retraction must carry the id of the chat message as `correlation_id` [e1]");
        assert_snapshot!(revise("alice", "e9", "edit", text), @"correlation_mismatch: no envelope `e9` is known in this room [e1]");
        assert_snapshot!(revise("alice", "r1", "edit", text), @"correlation_mismatch: `r1` is not a chat message, so it cannot be edited or retracted [e1]");
        assert_snapshot!(revise("alice", "other", "retract", ""), @"correlation_mismatch: `other` is not a chat message, so it cannot be edited or retracted [e1]");
        assert_snapshot!(revise("alice", "gone", "edit", text), @"correlation_mismatch: `gone` was redacted, so it cannot be edited or retracted [e1]");
        assert_snapshot!(revise("alice", "chat", "edit", ""), @r#"invalid_parameters: a chat message needs a string `text`; `format` is "plain" or "markdown" [e1]"#);
        assert_snapshot!(judge("alice", r#"alice bob chat {"jsonrpc":"2.0","id":1,"method":"notifications/chat/retract"}"#), @"invalid_parameters: a chat message is a notification: it has no `payload.id` [e1]");
    }
}
