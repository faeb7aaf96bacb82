//! The envelope scanner and parser, on any text a peer could send.

use salon_protocol::{Draft, Envelope, Kind, Limits};
use serde_json::value::RawValue;

const LIMITS: Limits = Limits { message: 4096, answer: 4096, depth: 64, recipients: 256 };

pub(crate) fn run(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    match Draft::parse(text, &LIMITS) {
        Err(refusal) => assert!(!refusal.message.is_empty(), "a refusal says why"),
        Ok(draft) => keeps_its_word(text, &draft),
    }
    true
}

/// What must hold of everything that is accepted.
fn keeps_its_word(text: &str, draft: &Draft) {
    let envelope = draft.envelope();
    assert_eq!(envelope.text(), text, "the text is the sender's");
    assert!(text.len() <= LIMITS.message);
    assert!(depth(text) <= LIMITS.depth, "nested {} levels", depth(text));
    assert!(envelope.to().len() <= LIMITS.recipients);
    assert!(serde_json::from_str::<&RawValue>(text).is_ok(), "the scan is never laxer than serde_json");
    assert!(serde_json::from_str::<&RawValue>(envelope.payload()).is_ok(), "the payload's range is a value");
    if let Some(params) = envelope.params() {
        assert!(serde_json::from_str::<&RawValue>(params).is_ok(), "the params' range is a value");
    }
    assert_eq!(envelope.message().is_some(), envelope.kind() == Kind::Mcp);
    assert_eq!(Envelope::restore(text).as_ref(), Ok(envelope), "what was accepted is read back the same");
    // Views that decode further must not panic on what the scan let through.
    let _ = (envelope.presence(), envelope.chat());
}

/// Counted apart from the scanner, so that the two check each other.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut quoted, mut escaped) = (0usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !quoted => depth -= 1,
            _ => {}
        }
    }
    deepest
}
