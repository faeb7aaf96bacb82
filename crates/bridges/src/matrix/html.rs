//! `formatted_body` of Matrix messages, parsed into neutral text.
//!
//! Client-server API v1.15, "m.room.message msgtypes": the HTML subset that clients send. Everything else about a tag is ignored, and its text
//! is kept, so that the result has no markup but that of [`RichText`]. One pass, linear in the input; nesting is bounded.

use crate::rich::{InlineText, MAX_DEPTH, MentionTarget, RichText, TextBlock};

/// Addresses that a link may lead to. Anything else (`javascript:`, `data:`) becomes plain text.
const LINK_SCHEMES: [&str; 3] = ["https://", "http://", "mailto:"];

/// Matrix URIs of a user (client-server API, "Matrix URIs" and "matrix.to navigation").
const USER_LINKS: [&str; 2] = ["https://matrix.to/#/", "matrix:u/"];

/// Parses HTML. `mentioned` says who a Matrix user id is.
pub fn parse(html: &str, mentioned: &dyn Fn(&str) -> MentionTarget) -> RichText {
    let mut builder = HtmlReader::new(mentioned);
    let mut rest = html;
    while !rest.is_empty() {
        let (text, tail) = rest.split_at(rest.find('<').unwrap_or(rest.len()));
        builder.text(&unescape(text));
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

struct HtmlTag<'a> {
    name: String,
    is_closing: bool,
    attributes: &'a str,
}

impl<'a> HtmlTag<'a> {
    /// A tag at the beginning of a text, and what follows it.
    fn parse(text: &'a str) -> Option<(Self, &'a str)> {
        let inner = text.strip_prefix('<')?;
        if let Some(comment) = inner.strip_prefix("!--") {
            let end = comment.find("-->").map_or("", |at| &comment[at + 3..]);
            return Some((Self { name: String::new(), is_closing: false, attributes: "" }, end));
        }
        let (is_closing, inner) = inner.strip_prefix('/').map_or((false, inner), |inner| (true, inner));
        if !inner.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return None;
        }
        let end = tag_end(inner)?;
        let (tag, after) = (&inner[..end], &inner[end + 1..]);
        let name_end = tag.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).unwrap_or(tag.len());
        let (name, attributes) = tag.split_at(name_end);
        Some((Self { name: name.to_ascii_lowercase(), is_closing, attributes }, after))
    }

    fn attribute(&self, wanted: &str) -> Option<String> {
        let mut rest = self.attributes;
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
            let name_end = rest.find(|c: char| c.is_ascii_whitespace() || matches!(c, '=' | '/')).unwrap_or(rest.len());
            let (name, tail) = rest.split_at(name_end);
            let tail = tail.trim_start();
            let Some(value) = tail.strip_prefix('=') else {
                if name.is_empty() {
                    return None;
                }
                rest = tail;
                continue;
            };
            let value = value.trim_start();
            let (value, tail) = match value.chars().next() {
                Some(quote @ ('"' | '\'')) => value[1..].split_once(quote).unwrap_or((&value[1..], "")),
                _ => value.split_at(value.find(|c: char| c.is_ascii_whitespace()).unwrap_or(value.len())),
            };
            if name.eq_ignore_ascii_case(wanted) {
                return Some(unescape(value));
            }
            rest = tail;
        }
    }
}

/// Where the `>` of a tag is. One in a quoted value does not count.
fn tag_end(tag: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in tag.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    // A quote that is never closed: the tag ends at its first `>`.
    quote.and_then(|_| tag.find('>'))
}

/// The character references that `formatted_body` needs (HTML, "Named character references"): the five of XML, `nbsp` and numbers.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let reference = rest[1..].find(';').filter(|length| *length <= 8).map(|length| &rest[1..=length]);
        match reference.and_then(|name| Some((name.len(), character(name)?))) {
            Some((length, character)) => {
                out.push(character);
                rest = &rest[length + 2..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

fn character(name: &str) -> Option<char> {
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code).filter(|character| !character.is_control() || *character == '\n')?
        }
    })
}

/// A block that other blocks are in.
enum OpenBlock {
    Root,
    Quote,
    List { is_ordered: bool, items: Vec<Vec<TextBlock>> },
    Item,
}

impl OpenBlock {
    /// How much deeper it makes what is in it. A list counts for its items, which may have no tag.
    fn depth(&self) -> usize {
        match self {
            Self::Root | Self::Item => 0,
            Self::Quote => 1,
            Self::List { .. } => 2,
        }
    }
}

/// Formatting that is open within a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InlineStyle {
    Strong,
    Emphasis,
    Strike,
}

struct HtmlReader<'a> {
    mentioned: &'a dyn Fn(&str) -> MentionTarget,
    /// The root first.
    containers: Vec<(OpenBlock, Vec<TextBlock>)>,
    /// The line's own inlines first, with its kind; then what is open in it.
    line: Vec<InlineText>,
    is_heading: bool,
    open: Vec<(InlineStyle, Vec<InlineText>)>,
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
        let containers = vec![(OpenBlock::Root, Vec::new())];
        Self { mentioned, containers, line: Vec::new(), is_heading: false, open: Vec::new(), capture: None }
    }

    fn text(&mut self, text: &str) {
        if let Some(capture) = &mut self.capture {
            capture.text.push_str(text);
            return;
        }
        let ends_in_space = self.inlines().last().is_none_or(|last| match last {
            InlineText::Text(text) => text.ends_with(' '),
            InlineText::LineBreak => true,
            _ => false,
        });
        // White space that separates tags is not content, and the rest of it is one space (HTML, "Collapse white space").
        let mut collapsed = String::with_capacity(text.len());
        let mut was_space = ends_in_space && (self.open.is_empty() || !self.inlines().is_empty());
        for character in text.chars() {
            if character.is_ascii_whitespace() {
                if !was_space {
                    collapsed.push(' ');
                }
                was_space = true;
            } else {
                collapsed.push(character);
                was_space = false;
            }
        }
        if !collapsed.is_empty() {
            self.push(InlineText::Text(collapsed));
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
            ("br", _) => self.push(InlineText::LineBreak),
            ("img", false) => {
                let alternative = tag.attribute("alt").or_else(|| tag.attribute("title")).unwrap_or_default();
                self.text(&alternative);
            }
            ("pre", false) => {
                self.end_line();
                self.start_capture(tag, CaptureKind::CodeBlock { language: None });
            }
            ("code", false) => self.start_capture(tag, CaptureKind::Code),
            ("a", false) => {
                if let Some(href) = tag.attribute("href") {
                    self.start_capture(tag, CaptureKind::Link { href });
                }
            }
            ("mx-reply" | "script" | "style", false) => self.start_capture(tag, CaptureKind::Nothing),
            ("b" | "strong", _) => self.emphasis(InlineStyle::Strong, tag.is_closing),
            ("i" | "em", _) => self.emphasis(InlineStyle::Emphasis, tag.is_closing),
            ("del" | "s" | "strike", _) => self.emphasis(InlineStyle::Strike, tag.is_closing),
            ("h1" | "h2" | "h3" | "h4" | "h5" | "h6", is_closing) => {
                self.end_line();
                self.is_heading = !is_closing;
            }
            ("p" | "div" | "hr" | "table" | "tr" | "details" | "summary" | "caption", _) => self.end_line(),
            ("td" | "th", true) => self.text(" "),
            ("blockquote", false) => self.open_container(OpenBlock::Quote),
            ("ul", false) => self.open_container(OpenBlock::List { is_ordered: false, items: Vec::new() }),
            ("ol", false) => self.open_container(OpenBlock::List { is_ordered: true, items: Vec::new() }),
            ("li", false) => {
                self.close_container(
                    |container| matches!(container, OpenBlock::Item),
                    |c| matches!(c, OpenBlock::List { .. }),
                );
                if matches!(self.containers.last(), Some((OpenBlock::List { .. }, _))) {
                    self.open_container(OpenBlock::Item);
                } else {
                    self.end_line();
                }
            }
            ("blockquote", true) => self.close_container(|container| matches!(container, OpenBlock::Quote), |_| false),
            ("ul" | "ol", true) => {
                self.close_container(|container| matches!(container, OpenBlock::List { .. }), |_| false)
            }
            ("li", true) => {
                self.close_container(
                    |container| matches!(container, OpenBlock::Item),
                    |c| matches!(c, OpenBlock::List { .. }),
                );
            }
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
                self.add_block(TextBlock::Code { language, text });
            }
            CaptureKind::Code if text.is_empty() => {}
            CaptureKind::Code => self.push(InlineText::Code(text)),
            CaptureKind::Link { href } => {
                let label = text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
                self.push_link(&href, label);
            }
        }
    }

    fn push_link(&mut self, href: &str, label: String) {
        if let Some(user) = linked_user(href) {
            let label = if label.is_empty() { user.clone() } else { label };
            self.push(InlineText::Mention { target: (self.mentioned)(&user), label });
        } else if LINK_SCHEMES
            .iter()
            .any(|scheme| href.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)))
            && !href.contains(|character: char| character.is_control() || character == ' ')
        {
            let label = if label.is_empty() { href.to_owned() } else { label };
            self.push(InlineText::Link { label, url: href.to_owned() });
        } else if !label.is_empty() {
            self.push(InlineText::Text(label));
        }
    }

    fn emphasis(&mut self, kind: InlineStyle, is_closing: bool) {
        if !is_closing {
            if self.depth() < MAX_DEPTH {
                self.open.push((kind, Vec::new()));
            }
        } else if self.open.iter().any(|(open, _)| *open == kind) {
            while let Some((closed, _)) = self.open.last().map(|(open, _)| (*open, ())) {
                self.close_emphasis();
                if closed == kind {
                    break;
                }
            }
        }
    }

    fn close_emphasis(&mut self) {
        let Some((kind, inner)) = self.open.pop() else { return };
        if inner.is_empty() {
            return;
        }
        self.push(match kind {
            InlineStyle::Strong => InlineText::Strong(inner),
            InlineStyle::Emphasis => InlineText::Emphasis(inner),
            InlineStyle::Strike => InlineText::Strike(inner),
        });
    }

    fn depth(&self) -> usize {
        self.containers.iter().map(|(container, _)| container.depth()).sum::<usize>() + self.open.len()
    }

    fn inlines(&self) -> &Vec<InlineText> {
        self.open.last().map_or(&self.line, |(_, inlines)| inlines)
    }

    fn push(&mut self, inline: InlineText) {
        let inlines = self.open.last_mut().map_or(&mut self.line, |(_, inlines)| inlines);
        match (inlines.last_mut(), inline) {
            (Some(InlineText::Text(before)), InlineText::Text(text)) => before.push_str(&text),
            (_, inline) => inlines.push(inline),
        }
    }

    /// Makes a block of what the line has.
    fn end_line(&mut self) {
        while !self.open.is_empty() {
            self.close_emphasis();
        }
        let mut inlines = std::mem::take(&mut self.line);
        while let Some(last) = inlines.last_mut() {
            match last {
                InlineText::LineBreak => {}
                InlineText::Text(text) => {
                    text.truncate(text.trim_end().len());
                    if !text.is_empty() {
                        break;
                    }
                }
                _ => break,
            }
            inlines.pop();
        }
        let is_heading = std::mem::take(&mut self.is_heading);
        if !inlines.is_empty() {
            self.add_block(if is_heading { TextBlock::Heading(inlines) } else { TextBlock::Paragraph(inlines) });
        }
    }

    fn add_block(&mut self, block: TextBlock) {
        if let Some((_, blocks)) = self.containers.last_mut() {
            blocks.push(block);
        }
    }

    fn open_container(&mut self, container: OpenBlock) {
        self.end_line();
        if self.depth() + container.depth() <= MAX_DEPTH {
            self.containers.push((container, Vec::new()));
        }
    }

    /// Closes the innermost container of a kind with all in it. `border` is what is not looked behind.
    fn close_container(&mut self, wanted: impl Fn(&OpenBlock) -> bool, border: impl Fn(&OpenBlock) -> bool) {
        self.end_line();
        let inner_first = self.containers.iter().rev().map(|(container, _)| container);
        let Some(above) = inner_first.take_while(|container| !border(container)).position(&wanted) else { return };
        for _ in 0..=above {
            self.close_innermost();
        }
    }

    fn close_innermost(&mut self) {
        if self.containers.len() < 2 {
            return;
        }
        let Some((container, blocks)) = self.containers.pop() else { return };
        match container {
            OpenBlock::Item => match self.containers.last_mut() {
                Some((OpenBlock::List { items, .. }, _)) if !blocks.is_empty() => items.push(blocks),
                _ => {}
            },
            OpenBlock::List { is_ordered, mut items } => {
                // Text between items is an item, too: nothing that a person wrote is lost.
                if !blocks.is_empty() {
                    items.push(blocks);
                }
                if !items.is_empty() {
                    self.add_block(TextBlock::List { is_ordered, items });
                }
            }
            OpenBlock::Quote => {
                if !blocks.is_empty() {
                    self.add_block(TextBlock::Quote(blocks));
                }
            }
            OpenBlock::Root => {}
        }
    }

    fn finish(mut self) -> RichText {
        // What was captured and never ended is kept, except what would be dropped anyway.
        self.end_capture();
        self.end_line();
        while self.containers.len() > 1 {
            self.close_innermost();
        }
        RichText { blocks: self.containers.pop().map(|(_, blocks)| blocks).unwrap_or_default() }
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

/// RFC 3986 §2.1.
pub(super) fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(rest.next())?, digit(rest.next())?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}
