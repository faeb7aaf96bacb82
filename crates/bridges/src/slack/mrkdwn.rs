//! Slack's mrkdwn, parsed into neutral text.
//!
//! Slack, "Formatting text for app surfaces". `&amp;`, `&lt;` and `&gt;` are the only escapes; links and mentions are between angle brackets.

use crate::platform::PlatformUserId;
use crate::rich::{InlineText, MAX_DEPTH, MentionTarget, RichText, TextBlock};

const FENCE: &str = "```";

/// How far the end of something between brackets is looked for, in bytes.
const MAX_TOKEN_BYTES: usize = 4096;

/// Parses a text. `name` says what a user is called, where that is known.
pub fn parse(text: &str, name: &dyn Fn(&str) -> Option<String>) -> RichText {
    let mut blocks = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(FENCE) {
        let Some((code, tail)) = after.split_once(FENCE) else { break };
        add_lines(before, name, &mut blocks);
        let code = unescape(code.trim_matches('\n'));
        if !code.is_empty() {
            blocks.push(TextBlock::Code { language: None, text: code });
        }
        rest = tail;
    }
    add_lines(rest, name, &mut blocks);
    RichText { blocks }
}

/// Paragraphs, and quotes of lines that begin with `>`.
fn add_lines(text: &str, name: &dyn Fn(&str) -> Option<String>, blocks: &mut Vec<TextBlock>) {
    let mut lines = text.split('\n').peekable();
    while let Some(first) = lines.next() {
        let is_quote = quoted(first).is_some();
        let mut inlines = inlines(quoted(first).unwrap_or(first), name, 1);
        while let Some(line) = lines.next_if(|line| quoted(line).is_some() == is_quote && !line.is_empty()) {
            inlines.push(InlineText::LineBreak);
            inlines.extend(self::inlines(quoted(line).unwrap_or(line), name, 1));
        }
        if inlines.is_empty() {
            continue;
        }
        let paragraph = TextBlock::Paragraph(inlines);
        blocks.push(if is_quote { TextBlock::Quote(vec![paragraph]) } else { paragraph });
    }
}

fn quoted(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("&gt;")?;
    Some(rest.strip_prefix(' ').unwrap_or(rest))
}

fn inlines(text: &str, name: &dyn Fn(&str) -> Option<String>, depth: usize) -> Vec<InlineText> {
    let mut found = Vec::new();
    let mut plain = String::new();
    let mut before = ' ';
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let special = match next {
            '<' => bracketed(rest, name),
            '*' | '_' | '~' | '`' if depth < MAX_DEPTH => marked(rest, next, before, name, depth),
            _ => None,
        };
        let Some((inline, length)) = special else {
            plain.push(next);
            before = next;
            rest = &rest[next.len_utf8()..];
            continue;
        };
        if !plain.is_empty() {
            found.push(InlineText::Text(unescape(&std::mem::take(&mut plain))));
        }
        found.push(inline);
        before = ' ';
        rest = &rest[length..];
    }
    if !plain.is_empty() {
        found.push(InlineText::Text(unescape(&plain)));
    }
    found
}

/// Text between two of a mark, within a line and not within a word.
fn marked(
    text: &str,
    mark: char,
    before: char,
    name: &dyn Fn(&str) -> Option<String>,
    depth: usize,
) -> Option<(InlineText, usize)> {
    let inner = text.strip_prefix(mark).filter(|_| !before.is_alphanumeric())?;
    let end = inner.find(mark)?;
    let (found, after) = (&inner[..end], &inner[end + 1..]);
    let is_whole =
        !found.is_empty() && (mark == '`' || found.trim() == found) && !after.starts_with(char::is_alphanumeric);
    if !is_whole {
        return None;
    }
    let inside = || inlines(found, name, depth + 1);
    let inline = match mark {
        '*' => InlineText::Strong(inside()),
        '_' => InlineText::Emphasis(inside()),
        '~' => InlineText::Strike(inside()),
        _ => InlineText::Code(unescape(found)),
    };
    Some((inline, end + 2))
}

/// A link or a mention: `<https://…|label>`, `<@U1|name>`, `<#C1|name>`, `<!here>`.
fn bracketed(text: &str, name: &dyn Fn(&str) -> Option<String>) -> Option<(InlineText, usize)> {
    let near = &text[..text.floor_char_boundary(MAX_TOKEN_BYTES)];
    let end = near.find('>')?;
    let inner = &near[1..end];
    let (target, label) =
        inner.split_once('|').map_or((inner, None), |(target, label)| (target, Some(unescape(label))));
    let inline = if let Some(user) = target.strip_prefix('@') {
        let label = label.or_else(|| name(user)).unwrap_or_else(|| user.to_owned());
        InlineText::Mention { target: MentionTarget::User(PlatformUserId::new(user)), label }
    } else if let Some(channel) = target.strip_prefix('#') {
        InlineText::Text(format!("#{}", label.unwrap_or_else(|| channel.to_owned())))
    } else if let Some(special) = target.strip_prefix('!') {
        let special = special.split('^').next().unwrap_or_default();
        InlineText::Text(label.unwrap_or_else(|| format!("@{special}")))
    } else {
        let url = unescape(target);
        if !crate::rich::markdown::is_link(&url) {
            return None;
        }
        InlineText::Link { label: label.unwrap_or_else(|| url.clone()), url }
    };
    Some((inline, end + 1))
}

fn unescape(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}
