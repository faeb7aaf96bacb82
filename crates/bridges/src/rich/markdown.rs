//! Parsing of Markdown, as much as chat has: emphasis, code, links, headings, lists, quotes. What else there is stays as it was written.
//!
//! Invariant: linear in the length of the text for a bounded depth, and never fails.

use super::{InlineText, MAX_DEPTH, RichText, TextBlock};

/// How far the end of a link is looked for, in bytes.
const MAX_LINK_BYTES: usize = 2_048;

/// Reads a text. A line break is a line break, as in every chat.
pub fn parse(text: &str) -> RichText {
    let lines: Vec<&str> = text.lines().collect();
    RichText { blocks: blocks(&lines, 0) }
}

fn blocks(lines: &[&str], depth: usize) -> Vec<TextBlock> {
    let mut blocks = Vec::new();
    let mut paragraph: Vec<&str> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        let bare = line.trim_start();
        let starts_block = |line: &str| fence(line).is_some() || heading(line).is_some() || line.trim().is_empty();
        let nested = depth < MAX_DEPTH;
        if let Some((marks, language)) = fence(bare) {
            flush(&mut paragraph, &mut blocks);
            let inside = &lines[at + 1..];
            let end = inside.iter().position(|line| {
                let line = line.trim();
                line.len() >= marks && line.bytes().all(|byte| byte == b'`')
            });
            let code = &inside[..end.unwrap_or(inside.len())];
            blocks.push(TextBlock::Code { language: language.map(str::to_owned), text: code.join("\n") });
            at += code.len() + 1 + usize::from(end.is_some());
            continue;
        }
        if let Some(title) = heading(bare) {
            flush(&mut paragraph, &mut blocks);
            blocks.push(TextBlock::Heading(inlines(title, 0)));
            at += 1;
        } else if nested && quoted(bare).is_some() {
            flush(&mut paragraph, &mut blocks);
            let inside: Vec<&str> = lines[at..].iter().map_while(|line| quoted(line.trim_start())).collect();
            at += inside.len();
            blocks.push(TextBlock::Quote(self::blocks(&inside, depth + 1)));
        } else if let Some((is_ordered, _)) = list_item(bare).filter(|_| nested) {
            flush(&mut paragraph, &mut blocks);
            let mut items: Vec<Vec<&str>> = Vec::new();
            let indent = line.len() - bare.len();
            while let Some(line) = lines.get(at) {
                let bare = line.trim_start();
                let deeper = line.len() - bare.len() > indent;
                match (list_item(bare), items.last_mut()) {
                    (_, Some(item)) if deeper && !starts_block(bare) => {
                        item.push(line.get(indent + 2..).unwrap_or(bare))
                    }
                    (Some((ordered, content)), _) if ordered == is_ordered => items.push(vec![content]),
                    _ => break,
                }
                at += 1;
            }
            let items = items.iter().map(|item| self::blocks(item, depth + 1)).collect();
            blocks.push(TextBlock::List { is_ordered, items });
        } else {
            if line.trim().is_empty() {
                flush(&mut paragraph, &mut blocks);
            } else {
                paragraph.push(line);
            }
            at += 1;
        }
    }
    flush(&mut paragraph, &mut blocks);
    blocks
}

fn flush(paragraph: &mut Vec<&str>, blocks: &mut Vec<TextBlock>) {
    if !paragraph.is_empty() {
        blocks.push(TextBlock::Paragraph(inlines(&paragraph.join("\n"), 0)));
        paragraph.clear();
    }
}

/// The number of marks and the language, where a line opens a block of code.
fn fence(line: &str) -> Option<(usize, Option<&str>)> {
    let rest = line.trim_start_matches('`');
    let marks = line.len() - rest.len();
    let language = rest.trim();
    (marks >= 3 && !rest.contains('`')).then(|| (marks, (!language.is_empty()).then_some(language)))
}

fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    text.strip_prefix(' ').filter(|_| (1..=6).contains(&level)).map(str::trim)
}

fn quoted(line: &str) -> Option<&str> {
    let rest = line.strip_prefix('>')?;
    Some(rest.strip_prefix(' ').unwrap_or(rest))
}

/// Whether a line is an item of an ordered list, and its content.
fn list_item(line: &str) -> Option<(bool, &str)> {
    if let Some(content) = line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")) {
        return Some((false, content));
    }
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let content = line[digits..].strip_prefix(". ")?;
    (1..=9).contains(&digits).then_some((true, content))
}

/// The marks of emphasis, longer ones first.
const MARKS: [&str; 6] = ["`", "**", "__", "~~", "*", "_"];

pub(crate) fn inlines(text: &str, depth: usize) -> Vec<InlineText> {
    let mut found = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    let mut before = ' ';
    while let Some(c) = rest.chars().next() {
        let (inline, length) = match special(rest, before, depth) {
            Some(special) => special,
            None => {
                plain.push(c);
                before = c;
                rest = &rest[c.len_utf8()..];
                continue;
            }
        };
        match inline {
            InlineText::Text(text) => plain.push_str(&text),
            inline => {
                if !plain.is_empty() {
                    found.push(InlineText::Text(std::mem::take(&mut plain)));
                }
                found.push(inline);
            }
        }
        before = ' ';
        rest = &rest[length..];
    }
    if !plain.is_empty() {
        found.push(InlineText::Text(plain));
    }
    found
}

/// What begins here and is not plain text, and how long it is.
fn special(text: &str, before: char, depth: usize) -> Option<(InlineText, usize)> {
    match text.as_bytes()[0] {
        b'\n' => return Some((InlineText::LineBreak, 1)),
        b'\\' => {
            let escaped = text[1..].chars().next().filter(char::is_ascii_punctuation)?;
            return Some((InlineText::Text(escaped.to_string()), 2));
        }
        b'[' => return link(text),
        b'`' | b'*' | b'_' | b'~' if depth < MAX_DEPTH => {}
        _ => return None,
    }
    MARKS.iter().find_map(|mark| {
        let inner = enclosed(text, mark, before)?;
        let inline = match *mark {
            "`" => InlineText::Code(inner.to_owned()),
            "**" | "__" => InlineText::Strong(inlines(inner, depth + 1)),
            "~~" => InlineText::Strike(inlines(inner, depth + 1)),
            _ => InlineText::Emphasis(inlines(inner, depth + 1)),
        };
        Some((inline, inner.len() + 2 * mark.len()))
    })
}

/// `[label](https://…)`.
fn link(text: &str) -> Option<(InlineText, usize)> {
    let near = &text[..text.floor_char_boundary(MAX_LINK_BYTES)];
    let middle = near.find("](")?;
    let end = near[middle..].find(')')? + middle;
    let (label, url) = (&text[1..middle], &text[middle + 2..end]);
    let is_plain = !label.is_empty() && !label.contains(['[', '\n']) && is_link(url);
    is_plain.then(|| (InlineText::Link { label: label.to_owned(), url: url.to_owned() }, end + 1))
}

/// Whether something may be followed by a click. Scripts and local files may not.
pub fn is_link(url: &str) -> bool {
    let scheme = ["http://", "https://", "mailto:", "matrix:", "xmpp:"];
    let has_scheme =
        scheme.iter().any(|scheme| url.get(..scheme.len()).is_some_and(|s| s.eq_ignore_ascii_case(scheme)));
    has_scheme && !url.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '<' | '>' | '"' | '|'))
}

/// What stands between two of a mark at the start of a text. Inside a word nothing is a mark: `snake_case_name`.
fn enclosed<'a>(text: &'a str, mark: &str, before: char) -> Option<&'a str> {
    let inner = text.strip_prefix(mark).filter(|_| !before.is_alphanumeric())?;
    let end = inner.find(mark)?;
    let (found, after) = (&inner[..end], &inner[end + mark.len()..]);
    let whole = !found.is_empty() && (mark == "`" || (found.trim() == found && !found.ends_with('\\')));
    (whole && !after.starts_with(char::is_alphanumeric) && !after.starts_with(mark)).then_some(found)
}
