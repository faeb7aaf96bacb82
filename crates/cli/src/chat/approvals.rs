//! Calls that wait for approval, as the room shows them: with the text that a decision is about, never with less.

use salon_control::text_digest;
use salon_protocol::{Envelope, EnvelopeId, Members};
use serde::Deserialize;

use super::transcript::MAX_TEXT;
use crate::transcript::reading::member;

/// How many held calls are remembered. A gateway holds no more in a topic.
const MAX_HELD: usize = 256;

/// A held call that was shown whole.
#[derive(Debug)]
struct ListedApproval {
    id: EnvelopeId,
    digest: String,
}

/// The held calls that can be decided about, the newest last.
#[derive(Debug, Default)]
pub(super) struct ApprovalList(Vec<ListedApproval>);

#[derive(Deserialize)]
struct Requested {
    id: EnvelopeId,
    request: String,
    digest: String,
    caller: String,
    callee: String,
    tool: String,
    expires: String,
}

impl ApprovalList {
    /// How a request for approval is shown. It can be decided about here only if its digest is that of the text, and all of it is shown.
    pub(super) fn requested(&mut self, params: &str) -> Option<String> {
        let Requested { id, request, digest, caller, callee, tool, expires } = serde_json::from_str(params).ok()?;
        let envelope = Envelope::restore(request.as_str()).ok()?;
        let arguments = envelope.params().unwrap_or("{}");
        let who = format!("{caller} waits for approval to call {tool} of {callee}");
        if text_digest(&request) != digest {
            return Some(format!("{who}, but the digest is not that of the call: do not approve it"));
        }
        let text = format!("{who}, until {expires}: {arguments} (/approve {id} or /deny {id})");
        if text.len() > MAX_TEXT {
            return Some(format!("{who}, with more than fits here: `salon approvals` shows it ({id})"));
        }
        if self.0.len() >= MAX_HELD {
            self.0.remove(0);
        }
        self.0.retain(|shown| shown.id != id);
        self.0.push(ListedApproval { id, digest });
        Some(text)
    }

    /// How a decision is shown.
    pub(super) fn decided(&mut self, params: &Members) -> Option<String> {
        let (id, decision): (EnvelopeId, String) = (member(params, "id")?, member(params, "decision")?);
        if decision != "approved" {
            self.0.retain(|shown| shown.id != id);
        }
        let by = member::<String>(params, "by").map(|by| format!(" by {by}")).unwrap_or_default();
        let reason = member::<String>(params, "reason").map(|reason| format!(": {reason}")).unwrap_or_default();
        Some(format!("the call {id} is {decision}{by}{reason}"))
    }

    /// The held call that a person means by the beginning of its id: its id and digest. Without one, the only call.
    pub(super) fn find(&self, typed: &str) -> Result<(EnvelopeId, String), String> {
        let found: Vec<_> = self.0.iter().filter(|shown| shown.id.as_str().starts_with(typed)).collect();
        match found[..] {
            [one] => Ok((one.id.clone(), one.digest.clone())),
            [] => Err("no such call waits for approval, or it was not shown here: see `salon approvals`".into()),
            _ => Err("several calls wait for approval: name one by its id".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn requested(id: &str, digest: impl Fn(&str) -> String) -> String {
        let payload = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "move", "arguments": { "x": 1 } } });
        let request = json!({ "protocol": "mcp-x/v0", "id": id, "ts": "2026-01-01T00:00:00Z", "from": "bot", "to": ["robot"], "kind": "mcp", "payload": payload });
        let request = request.to_string();
        let digest = digest(&request);
        json!({ "id": id, "request": request, "digest": digest, "caller": "bot", "callee": "robot", "tool": "move", "needs": 1, "expires": "2026-01-01T00:05:00Z" }).to_string()
    }

    #[test]
    fn a_call_is_decided_about_by_the_digest_of_what_was_shown() {
        let mut shown = ApprovalList::default();
        let text = shown.requested(&requested("call-1", text_digest)).expect("a request");
        assert!(text.contains(r#""arguments":{"x":1}"#) && text.contains("/approve call-1"), "{text}");
        let (id, digest) = shown.find("call").expect("the only one");
        assert_eq!((id.as_str(), digest.starts_with("sha256:")), ("call-1", true));
        let forged = shown.requested(&requested("call-2", |_| "sha256:00".into())).expect("a request");
        assert!(forged.contains("do not approve it"), "{forged}");
        assert!(shown.find("call-2").is_err());
        shown.requested(&requested("call-3", text_digest));
        assert!(shown.find("call").is_err(), "several");
        let denied = crate::transcript::reading::members(r#"{"id":"call-3","decision":"denied","by":"alice"}"#);
        assert_eq!(shown.decided(&denied).as_deref(), Some("the call call-3 is denied by alice"));
        assert!(shown.find("call-3").is_err());
    }
}
