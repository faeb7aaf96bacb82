//! Calls and held calls as lines for people.

use std::collections::{HashMap, VecDeque};

use salon_protocol::EnvelopeId;
use serde_json::{Map, Value};

use crate::config::CallDisplay;
use crate::rich::{InlineText, RichText, TextBlock};
use crate::room::{HeldNotice, RoomCall};

/// Calls without an answer that are remembered.
const MAX_OPEN_CALLS: usize = 1_000;
/// Held calls that are remembered. A topic holds at most 256.
const MAX_HELD_CALLS: usize = 256;
/// How much of arguments and results a summary shows.
const MAX_SUMMARY_CHARS: usize = 160;
/// The shortest beginning of a digest that names a held call.
const MIN_CODE_DIGITS: usize = 6;

/// The lines of calls that were shown, or will be with their answer.
#[derive(Debug, Default)]
pub(crate) struct CallLines {
    lines: HashMap<EnvelopeId, String>,
    order: VecDeque<EnvelopeId>,
}

impl CallLines {
    pub(crate) fn add(&mut self, call: EnvelopeId, line: String) {
        if self.order.len() >= MAX_OPEN_CALLS
            && let Some(oldest) = self.order.pop_front()
        {
            self.lines.remove(&oldest);
        }
        self.order.push_back(call.clone());
        self.lines.insert(call, line);
    }

    pub(crate) fn take(&mut self, call: &EnvelopeId) -> Option<String> {
        let line = self.lines.remove(call)?;
        self.order.retain(|other| other != call);
        Some(line)
    }
}

/// `alice → robot: move x=1`.
pub(crate) fn call_line(call: &RoomCall, display: CallDisplay) -> String {
    let arguments = match display {
        CallDisplay::Full => call.arguments.clone(),
        CallDisplay::None | CallDisplay::Summary => shortened(&brief_arguments(&call.arguments)),
    };
    let space = if arguments.is_empty() { "" } else { " " };
    format!("{} → {}: {}{space}{arguments}", call.caller, call.callee, call.tool)
}

fn brief_arguments(arguments: &str) -> String {
    let Ok(arguments) = serde_json::from_str::<Map<String, Value>>(arguments) else { return arguments.to_owned() };
    let pairs: Vec<String> = arguments.iter().map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join(" ")
}

/// One line, not too long.
pub(crate) fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_SUMMARY_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// A call that runs.
pub(crate) fn started(line: &str) -> RichText {
    paragraph(vec![InlineText::Text("⏳ ".into()), InlineText::Code(line.into())])
}

/// A call with its end.
pub(crate) fn ended(line: &str, is_error: bool, answer: &str, display: CallDisplay) -> RichText {
    let mark = if is_error { "✗ " } else { "✓ " };
    let mut inlines = vec![InlineText::Text(mark.into()), InlineText::Code(line.into())];
    let mut blocks = Vec::new();
    if display == CallDisplay::Full && answer.contains('\n') {
        blocks.push(TextBlock::Code { language: None, text: answer.into() });
    } else if !answer.is_empty() {
        let answer = if display == CallDisplay::Full { answer.to_owned() } else { shortened(answer) };
        inlines.push(InlineText::Text(" – ".into()));
        inlines.push(InlineText::Code(answer));
    }
    blocks.insert(0, TextBlock::Paragraph(inlines));
    RichText { blocks }
}

pub(crate) fn paragraph(inlines: Vec<InlineText>) -> RichText {
    RichText { blocks: vec![TextBlock::Paragraph(inlines)] }
}

/// The calls that wait for a decision.
#[derive(Debug, Default)]
pub(crate) struct HeldCalls {
    held: VecDeque<HeldNotice>,
}

impl HeldCalls {
    /// Adds one, and returns the oldest where there are too many.
    pub(crate) fn add(&mut self, notice: HeldNotice) -> Option<HeldNotice> {
        // After a restart the room reports it once more.
        self.remove(&notice.id);
        self.held.push_back(notice);
        if self.held.len() > MAX_HELD_CALLS { self.held.pop_front() } else { None }
    }

    pub(crate) fn remove(&mut self, id: &EnvelopeId) -> Option<HeldNotice> {
        let at = self.held.iter().position(|held| held.id == *id)?;
        self.held.remove(at)
    }

    /// What people type to name a call: so many digits of its digest that no other begins with them. It names the text that was shown.
    pub(crate) fn code(&self, notice: &HeldNotice) -> String {
        let digest = digits(notice);
        let is_taken = |length: usize| {
            let others = self.held.iter().filter(|other| other.id != notice.id);
            others.map(digits).any(|other| other.get(..length) == digest.get(..length))
        };
        let length = (MIN_CODE_DIGITS..digest.len()).find(|length| !is_taken(*length)).unwrap_or(digest.len());
        digest.get(..length).unwrap_or(digest).to_owned()
    }

    /// The call that a person named, by its code or its id.
    pub(crate) fn find(&self, named: &str) -> Result<&HeldNotice, String> {
        if let Some(exact) = self.held.iter().find(|held| held.id.as_str() == named) {
            return Ok(exact);
        }
        let is_code = named.len() >= MIN_CODE_DIGITS;
        let mut found = self.held.iter().filter(|held| is_code && digits(held).starts_with(named));
        match (found.next(), found.next()) {
            (Some(held), None) => Ok(held),
            (Some(_), Some(_)) => Err(format!("several calls begin with `{named}`; type more of it")),
            (None, _) => Err(format!("no call `{named}` waits here")),
        }
    }
}

fn digits(notice: &HeldNotice) -> &str {
    notice.digest.strip_prefix("sha256:").unwrap_or(&notice.digest)
}
