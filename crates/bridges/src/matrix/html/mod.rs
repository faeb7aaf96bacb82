//! `formatted_body` of Matrix messages, parsed into neutral text.
//!
//! Client-server API v1.15, "m.room.message msgtypes": the HTML subset that clients send. Everything else about a tag is ignored, and its text
//! is kept, so that the result has no markup but that of [`RichText`]. One pass, linear in the input; nesting is bounded.

mod blocks;
mod tag;

use salon_protocol::percent_decoded;

use self::blocks::{BlockBuilder, InlineStyle, OpenBlock};
use self::tag::{HtmlTag, unescape};
use crate::rich::{InlineText, MentionTarget, RichText, TextBlock};

/// Addresses that a link may lead to. Anything else (`javascript:`, `data:`) becomes plain text.
const LINK_SCHEMES: [&str; 3] = ["https://", "http://", "mailto:"];

/// Matrix URIs of a user (client-server API, "Matrix URIs" and "matrix.to navigation").
const USER_LINKS: [&str; 2] = ["https://matrix.to/#/", "matrix:u/"];

/// Parses HTML. `mentioned` says who a Matrix user id is.
pub fn parse(html: &str, mentioned: &dyn Fn(&str) -> MentionTarget) -> RichText {
    let mut builder = HtmlReader::new(mentioned);
    let last_end = html.rfind('>');
    let mut rest = html;
    while !rest.is_empty() {
        let (text, tail) = rest.split_at(rest.find('<').unwrap_or(rest.len()));
        builder.text(&unescape(text));
        let has_tags = last_end.is_some_and(|end| end >= html.len() - tail.len());
        if !has_tags {
            // Looking for the end of each tag would read the rest of the text once for each of them.
            builder.text(&unescape(tail));
            break;
        }
        let Some((tag, after)) = HtmlTag::parse(tail) else {
            // A `<` that begins no tag is text.
            let (sign, after) = tail.split_at(tail.len().min(1));
            builder.text(sign);
            rest = after;
            continue;
        };
        rest = after;
        builder.tag(&tag);
    }
    builder.finish()
}

struct HtmlReader<'a> {
    mentioned: &'a dyn Fn(&str) -> MentionTarget,
    blocks: BlockBuilder,
    capture: Option<TextCapture>,
}

/// Text that is gathered until the tag that ends it.
struct TextCapture {
    until: String,
    /// How many of the same name have been opened within.
    nested: usize,
    what: CaptureKind,
    text: String,
}

enum CaptureKind {
    CodeBlock {
        language: Option<String>,
    },
    Code,
    Link {
        href: String,
    },
    /// Quoted text of the message that is replied to, scripts, styles.
    Nothing,
}

impl<'a> HtmlReader<'a> {
    fn new(mentioned: &'a dyn Fn(&str) -> MentionTarget) -> Self {
        Self { mentioned, blocks: BlockBuilder::new(), capture: None }
    }

    fn text(&mut self, text: &str) {
        match &mut self.capture {
            Some(capture) => capture.text.push_str(text),
            None => self.blocks.text(text),
        }
    }

    fn tag(&mut self, tag: &HtmlTag<'_>) {
        if let Some(capture) = &mut self.capture {
            if tag.name == capture.until {
                match (tag.is_closing, capture.nested) {
                    (false, _) => capture.nested += 1,
                    (true, 0) => self.end_capture(),
                    (true, _) => capture.nested -= 1,
                }
            } else {
                match (tag.name.as_str(), &mut capture.what) {
                    ("br", _) => capture.text.push('\n'),
                    ("code", CaptureKind::CodeBlock { language: language @ None }) if !tag.is_closing => {
                        *language = code_language(tag);
                    }
                    ("img", CaptureKind::Link { .. }) => {
                        capture.text.push_str(&tag.attribute("alt").unwrap_or_default())
                    }
                    _ => {}
                }
            }
            return;
        }
        match (tag.name.as_str(), tag.is_closing) {
            ("br", _) => self.blocks.push(InlineText::LineBreak),
            ("img", false) => {
                let alternative = tag.attribute("alt").or_else(|| tag.attribute("title")).unwrap_or_default();
                self.text(&alternative);
            }
            ("pre", false) => {
                self.blocks.end_line();
                self.start_capture(tag, CaptureKind::CodeBlock { language: None });
            }
            ("code", false) => self.start_capture(tag, CaptureKind::Code),
            ("a", false) => {
                if let Some(href) = tag.attribute("href") {
                    self.start_capture(tag, CaptureKind::Link { href });
                }
            }
            ("mx-reply" | "script" | "style", false) => self.start_capture(tag, CaptureKind::Nothing),
            ("b" | "strong", _) => self.blocks.emphasis(InlineStyle::Strong, tag.is_closing),
            ("i" | "em", _) => self.blocks.emphasis(InlineStyle::Emphasis, tag.is_closing),
            ("del" | "s" | "strike", _) => self.blocks.emphasis(InlineStyle::Strike, tag.is_closing),
            ("h1" | "h2" | "h3" | "h4" | "h5" | "h6", is_closing) => self.blocks.heading(!is_closing),
            ("p" | "div" | "hr" | "table" | "tr" | "details" | "summary" | "caption", _) => self.blocks.end_line(),
            ("td" | "th", true) => self.text(" "),
            ("blockquote", false) => self.blocks.open_container(OpenBlock::Quote),
            ("ul", false) => self.blocks.open_container(OpenBlock::List { is_ordered: false, items: Vec::new() }),
            ("ol", false) => self.blocks.open_container(OpenBlock::List { is_ordered: true, items: Vec::new() }),
            ("li", false) => self.blocks.open_item(),
            ("li", true) => self.blocks.close_item(),
            ("blockquote", true) => self.blocks.close_quote(),
            ("ul" | "ol", true) => self.blocks.close_list(),
            _ => {}
        }
    }

    fn start_capture(&mut self, tag: &HtmlTag<'_>, what: CaptureKind) {
        self.capture = Some(TextCapture { until: tag.name.clone(), nested: 0, what, text: String::new() });
    }

    fn end_capture(&mut self) {
        let Some(TextCapture { what, text, .. }) = self.capture.take() else { return };
        match what {
            CaptureKind::Nothing => {}
            CaptureKind::CodeBlock { language } => {
                let text = text.trim_end_matches('\n').to_owned();
                self.blocks.add_block(TextBlock::Code { language, text });
            }
            CaptureKind::Code if text.is_empty() => {}
            CaptureKind::Code => self.blocks.push(InlineText::Code(text)),
            CaptureKind::Link { href } => {
                let label = text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
                self.push_link(&href, label);
            }
        }
    }

    fn push_link(&mut self, href: &str, label: String) {
        if let Some(user) = linked_user(href) {
            let label = if label.is_empty() { user.clone() } else { label };
            self.blocks.push(InlineText::Mention { target: (self.mentioned)(&user), label });
        } else if LINK_SCHEMES
            .iter()
            .any(|scheme| href.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)))
            && !href.contains(|character: char| character.is_control() || character == ' ')
        {
            let label = if label.is_empty() { href.to_owned() } else { label };
            self.blocks.push(InlineText::Link { label, url: href.to_owned() });
        } else if !label.is_empty() {
            self.blocks.push(InlineText::Text(label));
        }
    }

    fn finish(mut self) -> RichText {
        // What was captured and never ended is kept, except what would be dropped anyway.
        self.end_capture();
        self.blocks.finish()
    }
}

fn code_language(tag: &HtmlTag<'_>) -> Option<String> {
    let class = tag.attribute("class")?;
    let language = class.split_ascii_whitespace().find_map(|class| class.strip_prefix("language-"))?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '#' | '_' | '.');
    (!language.is_empty() && language.len() <= 32 && language.chars().all(is_name)).then(|| language.to_owned())
}

/// The user that a link names.
fn linked_user(href: &str) -> Option<String> {
    let (link, rest) = USER_LINKS.iter().find_map(|link| Some((*link, href.strip_prefix(link)?)))?;
    let rest = rest.split(['?', '/']).next()?;
    let id = percent_decoded(rest)?;
    let id = if link.starts_with("matrix:") { format!("@{id}") } else { id };
    (id.starts_with('@') && id.contains(':') && id.len() <= 255).then_some(id)
}
