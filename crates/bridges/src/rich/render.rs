//! Writing formatted text as a platform reads it.
//!
//! Invariant: what people wrote cannot become a platform's markup where the platform has a way to escape it, and has no control characters.

use super::split::rows;
use super::{Flavour, InlineText, MentionTarget, RichText, TextBlock};
use crate::rich::markdown::is_link;

/// Writes a text.
pub fn render(text: &RichText, flavour: Flavour) -> String {
    let mut written = String::new();
    TextWriter { flavour, written: &mut written }.blocks(&text.blocks);
    written
}

/// How many bytes a character takes at most.
pub(crate) fn character_bytes(c: char, flavour: Flavour) -> usize {
    match (flavour, c) {
        (Flavour::MatrixHtml | Flavour::SlackMrkdwn, '&' | '<' | '>' | '"') => 6,
        (Flavour::Markdown | Flavour::DiscordMarkdown, c) if c.is_ascii_punctuation() => 2,
        _ => c.len_utf8(),
    }
}

struct TextWriter<'a> {
    flavour: Flavour,
    written: &'a mut String,
}

impl TextWriter<'_> {
    fn push(&mut self, text: &str) {
        self.written.push_str(text);
    }

    fn blocks(&mut self, blocks: &[TextBlock]) {
        for (index, block) in blocks.iter().enumerate() {
            if index > 0 && self.flavour != Flavour::MatrixHtml {
                let is_apart = self.flavour == Flavour::Markdown
                    || matches!((&blocks[index - 1], block), (TextBlock::Paragraph(_), TextBlock::Paragraph(_)));
                self.push(if is_apart { "\n\n" } else { "\n" });
            }
            self.block(block, blocks.len() == 1);
        }
    }

    fn block(&mut self, block: &TextBlock, is_alone: bool) {
        let is_html = self.flavour == Flavour::MatrixHtml;
        match block {
            TextBlock::Paragraph(inlines) if is_html && !is_alone => self.element("p", inlines),
            // XEP-0393 §5.2: a span does not go beyond its line.
            TextBlock::Paragraph(inlines) if self.flavour == Flavour::XmppStyling => {
                for (index, row) in rows(inlines).iter().enumerate() {
                    if index > 0 {
                        self.push("\n");
                    }
                    self.inlines(row);
                }
            }
            TextBlock::Paragraph(inlines) => self.inlines(inlines),
            TextBlock::Heading(inlines) => match self.flavour {
                Flavour::MatrixHtml => self.element("h3", inlines),
                Flavour::Markdown | Flavour::DiscordMarkdown => {
                    self.push("### ");
                    self.inlines(inlines);
                }
                _ => self.inline(&InlineText::Strong(inlines.clone())),
            },
            TextBlock::Code { language, text } => self.code_block(language.as_deref(), text),
            TextBlock::Quote(blocks) if is_html => {
                self.push("<blockquote>");
                self.blocks(blocks);
                self.push("</blockquote>");
            }
            TextBlock::Quote(blocks) => self.prefixed("> ", "> ", blocks),
            TextBlock::List { is_ordered, items } if is_html => {
                let (open, close) = if *is_ordered { ("<ol>", "</ol>") } else { ("<ul>", "</ul>") };
                self.push(open);
                for item in items {
                    self.push("<li>");
                    self.blocks(item);
                    self.push("</li>");
                }
                self.push(close);
            }
            TextBlock::List { is_ordered, items } => {
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        self.push("\n");
                    }
                    let marker = match (is_ordered, self.flavour) {
                        (true, _) => format!("{}. ", index + 1),
                        (false, Flavour::SlackMrkdwn | Flavour::IrcCodes) => "• ".into(),
                        (false, _) => "- ".into(),
                    };
                    self.prefixed(&marker, "  ", item);
                }
            }
        }
    }

    /// Blocks with something before the first line and something before each other line.
    fn prefixed(&mut self, first: &str, others: &str, blocks: &[TextBlock]) {
        let mut inner = String::new();
        TextWriter { flavour: self.flavour, written: &mut inner }.blocks(blocks);
        for (index, line) in inner.split('\n').enumerate() {
            if index > 0 {
                self.push("\n");
            }
            self.push(if index == 0 { first } else { others });
            self.push(line);
        }
    }

    fn code_block(&mut self, language: Option<&str>, text: &str) {
        match self.flavour {
            Flavour::MatrixHtml => {
                self.push("<pre><code");
                if let Some(language) = language.filter(|name| name.bytes().all(|b| b.is_ascii_alphanumeric())) {
                    self.push(" class=\"language-");
                    self.push(language);
                    self.push("\"");
                }
                self.push(">");
                self.text(text);
                self.push("</code></pre>");
            }
            Flavour::Plain => self.push(&printable(text)),
            Flavour::IrcCodes => {
                for (index, line) in printable(text).split('\n').enumerate() {
                    self.push(if index > 0 { "\n\u{11}" } else { "\u{11}" });
                    self.push(line);
                    self.push("\u{11}");
                }
            }
            Flavour::Markdown | Flavour::DiscordMarkdown | Flavour::SlackMrkdwn | Flavour::XmppStyling => {
                let text = match self.flavour {
                    Flavour::SlackMrkdwn => escape_mrkdwn(&printable(text)),
                    _ => printable(text),
                };
                let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
                let fence = "`".repeat(if self.flavour == Flavour::Markdown { longest.max(2) + 1 } else { 3 });
                let has_language = matches!(self.flavour, Flavour::Markdown | Flavour::DiscordMarkdown);
                self.push(&fence);
                if let Some(language) = language.filter(|_| has_language) {
                    self.push(&printable(&language.replace(['`', '\n'], "")));
                }
                self.push("\n");
                // Only Markdown has longer fences; elsewhere the code must not end its block.
                self.push(&if self.flavour == Flavour::Markdown { text } else { text.replace("```", "'''") });
                self.push("\n");
                self.push(&fence);
            }
        }
    }

    fn element(&mut self, name: &str, inlines: &[InlineText]) {
        self.push(&format!("<{name}>"));
        self.inlines(inlines);
        self.push(&format!("</{name}>"));
    }

    fn inlines(&mut self, inlines: &[InlineText]) {
        inlines.iter().for_each(|inline| self.inline(inline));
    }

    fn inline(&mut self, inline: &InlineText) {
        match inline {
            InlineText::Text(text) => self.text(text),
            InlineText::LineBreak if self.flavour == Flavour::MatrixHtml => self.push("<br>"),
            InlineText::LineBreak => self.push("\n"),
            InlineText::Strong(inner) => self.marked(inner, ["<strong>", "**", "*", "\u{2}"], "</strong>"),
            InlineText::Emphasis(inner) => self.marked(inner, ["<em>", "*", "_", "\u{1d}"], "</em>"),
            InlineText::Strike(inner) => self.marked(inner, ["<del>", "~~", "~", "\u{1e}"], "</del>"),
            InlineText::Code(code) => self.code(code),
            InlineText::Link { label, url } => self.link(label, url),
            InlineText::Mention { target, label } => self.mention(target, label),
        }
    }

    /// Between marks: those of HTML, Markdown, styling, IRC.
    fn marked(&mut self, inner: &[InlineText], [html, markdown, styling, irc]: [&str; 4], close: &str) {
        let (open, close) = match self.flavour {
            Flavour::Plain => ("", ""),
            Flavour::MatrixHtml => (html, close),
            Flavour::Markdown | Flavour::DiscordMarkdown => (markdown, markdown),
            Flavour::SlackMrkdwn | Flavour::XmppStyling => (styling, styling),
            Flavour::IrcCodes => (irc, irc),
        };
        self.push(open);
        self.inlines(inner);
        self.push(close);
    }

    fn code(&mut self, code: &str) {
        let code = printable(code).replace('\n', " ");
        match self.flavour {
            Flavour::Plain => self.push(&code),
            Flavour::MatrixHtml => {
                self.push("<code>");
                self.text(&code);
                self.push("</code>");
            }
            Flavour::IrcCodes => self.push(&format!("\u{11}{code}\u{11}")),
            Flavour::SlackMrkdwn => self.push(&format!("`{}`", escape_mrkdwn(&code).replace('`', "'"))),
            _ => self.push(&format!("`{}`", code.replace('`', "'"))),
        }
    }

    fn link(&mut self, label: &str, url: &str) {
        let (label, url) = (printable(label), printable(url));
        if !is_link(&url) {
            return self.text(&format!("{label} ({url})"));
        }
        match self.flavour {
            Flavour::MatrixHtml => {
                self.push(&format!("<a href=\"{}\">{}</a>", escape_html(&url), escape_html(&label)));
            }
            _ if label == url => self.push(&url),
            Flavour::Markdown | Flavour::DiscordMarkdown => {
                self.push(&format!("[{}]({})", label.replace(['[', ']'], ""), url.replace(')', "%29")));
            }
            Flavour::SlackMrkdwn => {
                self.push(&format!("<{}|{}>", escape_mrkdwn(&url), escape_mrkdwn(&label).replace('|', " ")));
            }
            Flavour::Plain | Flavour::XmppStyling | Flavour::IrcCodes => self.push(&format!("{label} ({url})")),
        }
    }

    fn mention(&mut self, target: &MentionTarget, label: &str) {
        let label = printable(label);
        match (target, self.flavour) {
            (MentionTarget::User(user), Flavour::MatrixHtml) => {
                let user = escape_html(&user.0);
                self.push(&format!("<a href=\"https://matrix.to/#/{user}\">{}</a>", escape_html(&label)));
            }
            (MentionTarget::User(user), Flavour::SlackMrkdwn | Flavour::DiscordMarkdown)
                if user.0.bytes().all(|byte| byte.is_ascii_alphanumeric()) =>
            {
                self.push(&format!("<@{user}>"));
            }
            // A client highlights the line by the nick alone.
            (MentionTarget::User(_), Flavour::IrcCodes | Flavour::XmppStyling) => self.push(&label),
            (MentionTarget::Participant(id), Flavour::Markdown | Flavour::Plain) => self.push(&format!("@{id}")),
            _ => {
                self.push("@");
                self.text(&label);
            }
        }
    }

    fn text(&mut self, text: &str) {
        let text = printable(text);
        match self.flavour {
            Flavour::MatrixHtml => self.push(&escape_html(&text)),
            Flavour::SlackMrkdwn => self.push(&escape_mrkdwn(&text)),
            Flavour::Markdown | Flavour::DiscordMarkdown => escape_markdown(&text, self.flavour, self.written),
            Flavour::Plain | Flavour::XmppStyling | Flavour::IrcCodes => self.push(&text),
        }
    }
}

/// Slack, "Formatting text for app surfaces": these three characters and no others.
fn escape_mrkdwn(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Escapes what would be a mark. Inside a word `_` is none, and addresses stay as they are.
fn escape_markdown(text: &str, flavour: Flavour, written: &mut String) {
    let mut word_start = true;
    let mut in_address = false;
    // How many digits the line has so far, and nothing else.
    let mut line_digits = None;
    let mut before = written.chars().next_back().unwrap_or('\n');
    // Spaces before a mark do not change what it is.
    let mut starts_line = before == '\n';
    let mut characters = text.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        if word_start {
            in_address = text[at..].starts_with("https://") || text[at..].starts_with("http://");
        }
        let after = characters.peek().map_or(' ', |(_, c)| *c);
        if starts_line {
            line_digits = Some(0);
        }
        let is_mark = match c {
            '*' | '`' | '[' | '\\' => true,
            '_' => !(before.is_alphanumeric() && after.is_alphanumeric()),
            '~' => before == '~' || after == '~',
            '|' | '<' => flavour == Flavour::DiscordMarkdown,
            '#' | '>' | '-' | '+' => starts_line,
            // A number would begin a list.
            '.' => after == ' ' && line_digits.is_some_and(|digits| digits > 0),
            _ => false,
        };
        if is_mark && !in_address {
            written.push('\\');
        }
        written.push(c);
        line_digits = line_digits.filter(|_| c.is_ascii_digit()).map(|digits| digits + 1);
        word_start = c.is_whitespace();
        starts_line = c == '\n' || (starts_line && c == ' ');
        before = c;
    }
}

/// Without control characters, which are markup on IRC and forbidden in XML.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}
