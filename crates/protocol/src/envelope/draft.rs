//! Proposed envelopes: what a peer sent is read here, within limits, or refused.

use super::Envelope;
use super::head::EnvelopeHead;
use crate::scan::{Outline, ScanError, scan};
use crate::{Code, EnvelopeId, Message, Refusal, Stamp};

/// Bounds on what one envelope may be. Zero switches a bound off, except that of depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the whole text.
    pub message: usize,
    /// Bytes of a response's text, where that may be longer than another message.
    pub answer: usize,
    /// Levels of nesting, the envelope itself being the first.
    pub depth: usize,
    /// Entries in `to`.
    pub recipients: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { message: 1 << 20, answer: 4 << 20, depth: 64, recipients: 256 }
    }
}

impl Limits {
    /// Bytes of the longest text, whatever it is. Zero is no limit.
    pub fn longest(&self) -> usize {
        if self.message == 0 { 0 } else { self.message.max(self.answer) }
    }

    /// The limit that a text of this length exceeds, and the setting it is.
    pub(super) fn exceeded(&self, length: usize, is_answer: bool) -> Option<(usize, &'static str)> {
        let limit = if is_answer { self.longest() } else { self.message };
        let setting = if is_answer && limit > self.message { "limits.answer" } else { "limits.message" };
        (limit > 0 && length > limit).then_some((limit, setting))
    }
}

/// A proposed envelope: well-formed, but nobody has yet judged whether it may enter the room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    envelope: Envelope,
    stamp: Option<Stamp>,
}

impl Draft {
    /// Reads what a peer sent. The refusal names the envelope's id wherever one can be read.
    pub fn parse(text: impl Into<Box<str>>, limits: &Limits) -> Result<Self, Refusal> {
        let text = text.into();
        if let Some(exceeded) = limits.exceeded(text.len(), true) {
            let mut outline = Outline::default();
            // Only for its id: whatever else may be wrong with it does not matter any more.
            let _ = scan(&text, limits.depth, &mut outline);
            return Err(too_large(&text, exceeded).regarding(readable_id(&text, &outline)));
        }
        let mut outline = Outline::default();
        let scanned = scan(&text, limits.depth, &mut outline).map_err(unreadable);
        let head = scanned.and_then(|()| EnvelopeHead::read(&text, &outline, limits));
        match head {
            Ok(head) => {
                let is_answer = matches!(head.message, Some(Message::Response { .. }));
                if let Some(exceeded) = limits.exceeded(text.len(), is_answer) {
                    return Err(too_large(&text, exceeded).regarding(Some(head.id)));
                }
                Ok(Self { envelope: Envelope { text, head }, stamp: None })
            }
            Err(refusal) => {
                let id = readable_id(&text, &outline);
                Err(refusal.regarding(id))
            }
        }
    }

    /// The proposed envelope, for the rules to look at.
    pub fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    /// The credentials it comes with. A new draft has none.
    pub fn stamp(&self) -> Option<&Stamp> {
        self.stamp.as_ref()
    }

    /// The same draft with other credentials.
    #[must_use]
    pub fn stamped(self, stamp: Option<Stamp>) -> Self {
        Self { stamp, ..self }
    }

    /// Accepts it. Only for callers that have judged it, or wrote it themselves.
    pub fn trust(self) -> Envelope {
        self.envelope
    }
}

/// Whether a text that is not an envelope is JSON as strictly as one: not too long, not too deep, no key twice, every string whole.
pub fn check_json(text: &str, limits: &Limits) -> Result<(), Refusal> {
    if let Some(exceeded) = limits.exceeded(text.len(), false) {
        return Err(too_large(text, exceeded));
    }
    scan(text, limits.depth, &mut Outline::default()).map_err(unreadable)
}

fn too_large(text: &str, (limit, setting): (usize, &str)) -> Refusal {
    let message = format!("the message has {} bytes; the limit is {limit} (`{setting}`)", text.len());
    Refusal::new(Code::TooLarge, message)
}

fn unreadable(error: ScanError) -> Refusal {
    match error {
        ScanError::TooDeep { .. } => Refusal::new(Code::TooDeep, format!("the message was refused: {error}")),
        _ => Refusal::new(Code::InvalidJson, format!("the message is not valid JSON: {error}")),
    }
}

fn readable_id(text: &str, outline: &Outline<'_>) -> Option<EnvelopeId> {
    let field = outline.envelope.iter().find(|f| f.key == "id")?;
    EnvelopeId::new(serde_json::from_str::<String>(&text[field.value.clone()]).ok()?).ok()
}
