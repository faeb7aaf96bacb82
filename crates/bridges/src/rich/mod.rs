//! Formatted text in a neutral form. Each platform's text is parsed into it or rendered from it, so that no platform knows another's syntax.
//!
//! Invariant: nested no deeper than [`MAX_DEPTH`], so that recursion over it is bounded.

pub mod markdown;
mod render;
mod split;
#[cfg(test)]
mod tests;
mod walk;

use salon_protocol::ParticipantId;

use crate::platform::PlatformUserId;
pub use render::render;
#[cfg(feature = "irc")]
pub(crate) use split::joined;
pub use split::{lines, split};

/// How deep quotes, lists and emphasis may be nested. Parsers keep what is deeper as plain text.
pub const MAX_DEPTH: usize = 8;

/// A text: blocks, one below the other.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RichText {
    pub blocks: Vec<TextBlock>,
}

/// A part of a text that begins on a line of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextBlock {
    Paragraph(Vec<InlineText>),
    Heading(Vec<InlineText>),
    /// Text as it is, with its line breaks.
    Code {
        language: Option<String>,
        text: String,
    },
    Quote(Vec<TextBlock>),
    List {
        is_ordered: bool,
        items: Vec<Vec<TextBlock>>,
    },
}

/// A part of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InlineText {
    Text(String),
    Strong(Vec<InlineText>),
    Emphasis(Vec<InlineText>),
    Strike(Vec<InlineText>),
    Code(String),
    Link { label: String, url: String },
    Mention { target: MentionTarget, label: String },
    LineBreak,
}

/// Who is mentioned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MentionTarget {
    /// A person of the platform.
    User(PlatformUserId),
    /// A participant of the room, on the platform the puppet of one.
    Participant(ParticipantId),
}

/// How a platform writes formatted text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// None: what is between the marks.
    Plain,
    /// The room's own.
    Markdown,
    /// `org.matrix.custom.html` (Matrix client-server API, "m.room.message msgtypes").
    MatrixHtml,
    /// Slack's mrkdwn.
    SlackMrkdwn,
    /// Discord's Markdown.
    DiscordMarkdown,
    /// Message Styling, XEP-0393.
    XmppStyling,
    /// mIRC control codes.
    IrcCodes,
}

impl RichText {
    /// A text without formatting. A blank line separates paragraphs.
    pub fn plain(text: &str) -> Self {
        let mut inlines = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if index > 0 {
                inlines.push(InlineText::LineBreak);
            }
            if !line.is_empty() {
                inlines.push(InlineText::Text(line.to_owned()));
            }
        }
        let blocks = if inlines.is_empty() { Vec::new() } else { vec![TextBlock::Paragraph(inlines)] };
        Self { blocks }
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
}

impl RichText {
    /// Whether there is any formatting in it.
    pub fn is_formatted(&self) -> bool {
        let is_plain = |inline: &InlineText| {
            matches!(inline, InlineText::Text(_) | InlineText::LineBreak | InlineText::Mention { .. })
        };
        !self.blocks.iter().all(|block| matches!(block, TextBlock::Paragraph(inlines) if inlines.iter().all(is_plain)))
    }
}
