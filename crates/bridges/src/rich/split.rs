//! Cutting a long text into parts that a platform takes, at the best places there are: between blocks, then lines, then words.
//!
//! Invariant: no part is longer than the limit when rendered, and nothing but white space is lost between parts.

use super::render::{character_bytes, render};
use super::{Flavour, InlineText, RichText, TextBlock};

/// The smallest limit that is kept: marks of formatting need some space.
const MIN_LIMIT_BYTES: usize = 64;

/// Cuts a text into parts of at most `limit` bytes each, when rendered.
pub fn split(text: &RichText, flavour: Flavour, limit: usize) -> Vec<RichText> {
    let limit = limit.max(MIN_LIMIT_BYTES);
    let mut parts: Vec<RichText> = Vec::new();
    for block in &text.blocks {
        let mut pieces = split_block(block, flavour, limit);
        if let (Some(last), [_]) = (parts.last_mut(), &pieces[..]) {
            last.blocks.append(&mut pieces);
            if render(last, flavour).len() <= limit {
                continue;
            }
            pieces.extend(last.blocks.pop());
        }
        parts.extend(pieces.into_iter().map(|piece| RichText { blocks: vec![piece] }));
    }
    parts
}

/// Every line of a text as a text of its own, for platforms whose messages are lines.
pub fn lines(text: &RichText) -> Vec<RichText> {
    let mut found = Vec::new();
    block_lines(&text.blocks, "", &mut found);
    found.retain(|line| !line.is_empty());
    found.into_iter().map(|inlines| RichText { blocks: vec![TextBlock::Paragraph(inlines)] }).collect()
}

fn block_lines(blocks: &[TextBlock], prefix: &str, found: &mut Vec<Vec<InlineText>>) {
    let starting = |prefix: &str| if prefix.is_empty() { vec![] } else { vec![InlineText::Text(prefix.to_owned())] };
    for block in blocks {
        match block {
            TextBlock::Paragraph(inlines) => {
                for row in rows(inlines).into_iter().filter(|row| !row.is_empty()) {
                    found.push(starting(prefix).into_iter().chain(row).collect());
                }
            }
            TextBlock::Heading(inlines) => {
                let mut line = starting(prefix);
                line.push(InlineText::Strong(inlines.clone()));
                found.push(line);
            }
            TextBlock::Code { text, .. } => {
                for row in text.lines().filter(|row| !row.trim().is_empty()) {
                    let mut line = starting(prefix);
                    line.push(InlineText::Code(row.to_owned()));
                    found.push(line);
                }
            }
            TextBlock::Quote(inner) => block_lines(inner, &format!("{prefix}> "), found),
            TextBlock::List { is_ordered, items } => {
                for (index, item) in items.iter().enumerate() {
                    let marker = if *is_ordered { format!("{}. ", index + 1) } else { "• ".into() };
                    let before = found.len();
                    block_lines(item, prefix, found);
                    if let Some(first) = found.get_mut(before) {
                        first.insert(usize::from(!prefix.is_empty()), InlineText::Text(marker));
                    }
                }
            }
        }
    }
}

/// Inlines without line breaks: a list for each line, with the emphasis around it.
pub(super) fn rows(inlines: &[InlineText]) -> Vec<Vec<InlineText>> {
    let mut rows = vec![Vec::new()];
    unbroken(inlines, &|inline| inline, &mut rows);
    rows.into_iter().map(joined).collect()
}

/// Distributes inlines over rows, a new one at each line break, with the emphasis around them.
fn unbroken(inlines: &[InlineText], wrap: &dyn Fn(InlineText) -> InlineText, rows: &mut Vec<Vec<InlineText>>) {
    for inline in inlines {
        match inline {
            InlineText::LineBreak => rows.push(Vec::new()),
            InlineText::Strong(inner) => unbroken(inner, &|inline| wrap(InlineText::Strong(vec![inline])), rows),
            InlineText::Emphasis(inner) => unbroken(inner, &|inline| wrap(InlineText::Emphasis(vec![inline])), rows),
            InlineText::Strike(inner) => unbroken(inner, &|inline| wrap(InlineText::Strike(vec![inline])), rows),
            other => rows.last_mut().expect("there is a first row").push(wrap(other.clone())),
        }
    }
}

fn rendered_bytes(block: &TextBlock, flavour: Flavour) -> usize {
    // Two blocks, because a paragraph alone has less around it.
    let text = RichText { blocks: vec![block.clone(), TextBlock::Paragraph(Vec::new())] };
    render(&text, flavour).len()
}

fn split_block(block: &TextBlock, flavour: Flavour, limit: usize) -> Vec<TextBlock> {
    if rendered_bytes(block, flavour) <= limit {
        return vec![block.clone()];
    }
    match block {
        TextBlock::Paragraph(inlines) => split_inlines(inlines, flavour, limit).map(TextBlock::Paragraph).collect(),
        TextBlock::Heading(inlines) => split_inlines(inlines, flavour, limit).map(TextBlock::Heading).collect(),
        TextBlock::Code { language, text } => split_code(language.as_ref(), text, flavour, limit),
        TextBlock::Quote(_) | TextBlock::List { .. } => {
            // Long quotes and lists are rare enough to become lines.
            let rows = lines(&RichText { blocks: vec![block.clone()] });
            let paragraphs = rows.iter().flat_map(|row| &row.blocks);
            paragraphs.flat_map(|row| split_block(row, flavour, limit)).collect()
        }
    }
}

fn split_code(language: Option<&String>, text: &str, flavour: Flavour, limit: usize) -> Vec<TextBlock> {
    let block = |text: String| TextBlock::Code { language: language.cloned(), text };
    let around = rendered_bytes(&block(String::new()), flavour) + 8;
    let space = limit.saturating_sub(around).max(16);
    let mut parts: Vec<(String, usize)> = Vec::new();
    for line in text.split('\n') {
        for piece in cut(line, flavour, space) {
            let bytes = piece.chars().map(|c| character_bytes(c, flavour)).sum::<usize>() + 3;
            match parts.last_mut() {
                Some((part, used)) if *used + bytes <= space => {
                    part.push('\n');
                    part.push_str(piece);
                    *used += bytes;
                }
                _ => parts.push((piece.to_owned(), bytes)),
            }
        }
    }
    parts.into_iter().map(|(text, _)| block(text)).collect()
}

/// Cuts a text without regard for words.
fn cut(text: &str, flavour: Flavour, limit: usize) -> Vec<&str> {
    let (mut pieces, mut start, mut used) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        let bytes = character_bytes(c, flavour);
        if used + bytes > limit && at > start {
            pieces.push(&text[start..at]);
            (start, used) = (at, 0);
        }
        used += bytes;
    }
    pieces.push(&text[start..]);
    pieces
}

/// Space that the marks around a word may take.
const MARKS_BYTES: usize = 24;

fn split_inlines(
    inlines: &[InlineText],
    flavour: Flavour,
    limit: usize,
) -> impl Iterator<Item = Vec<InlineText>> + use<> {
    let mut words = Vec::new();
    to_words(inlines, &|inline| inline, flavour, limit - MARKS_BYTES, &mut words);
    let (mut parts, mut used): (Vec<Vec<InlineText>>, usize) = (vec![Vec::new()], 7);
    for word in words {
        let bytes = render(&RichText { blocks: vec![TextBlock::Paragraph(vec![word.clone()])] }, flavour).len() + 1;
        let is_blank =
            matches!(&word, InlineText::LineBreak) || matches!(&word, InlineText::Text(text) if text.trim().is_empty());
        let last = parts.last_mut().expect("there is a first part");
        if used + bytes <= limit {
            if !(last.is_empty() && is_blank) {
                last.push(word);
                used += bytes;
            }
        } else if !is_blank {
            parts.push(vec![word]);
            used = 7 + bytes;
        }
    }
    parts.into_iter().filter(|part| !part.is_empty()).map(joined)
}

/// Inlines as single words, each with the emphasis around it and the white space after it.
fn to_words(
    inlines: &[InlineText],
    wrap: &dyn Fn(InlineText) -> InlineText,
    flavour: Flavour,
    limit: usize,
    words: &mut Vec<InlineText>,
) {
    for inline in inlines {
        match inline {
            InlineText::Text(text) => {
                for word in text.split_inclusive(char::is_whitespace) {
                    words.extend(
                        cut(word, flavour, limit).into_iter().map(|piece| wrap(InlineText::Text(piece.into()))),
                    );
                }
            }
            InlineText::Code(text) => {
                words.extend(cut(text, flavour, limit).into_iter().map(|piece| wrap(InlineText::Code(piece.into()))));
            }
            InlineText::Strong(inner) => to_words(inner, &|i| wrap(InlineText::Strong(vec![i])), flavour, limit, words),
            InlineText::Emphasis(inner) => {
                to_words(inner, &|i| wrap(InlineText::Emphasis(vec![i])), flavour, limit, words);
            }
            InlineText::Strike(inner) => to_words(inner, &|i| wrap(InlineText::Strike(vec![i])), flavour, limit, words),
            InlineText::Link { label, url } if label.len() + url.len() > limit / 8 => {
                to_words(&[InlineText::Text(format!("{label} ({url})"))], wrap, flavour, limit, words);
            }
            InlineText::Mention { label, .. } if label.len() > limit / 8 => {
                to_words(&[InlineText::Text(label.clone())], wrap, flavour, limit, words);
            }
            other => words.push(wrap(other.clone())),
        }
    }
}

/// Puts neighbours of the same emphasis together again.
pub(crate) fn joined(words: Vec<InlineText>) -> Vec<InlineText> {
    let mut joined: Vec<InlineText> = Vec::new();
    for word in words {
        match (joined.last_mut(), word) {
            (Some(InlineText::Text(last)), InlineText::Text(text)) => last.push_str(&text),
            (Some(InlineText::Strong(last)), InlineText::Strong(inner))
            | (Some(InlineText::Emphasis(last)), InlineText::Emphasis(inner))
            | (Some(InlineText::Strike(last)), InlineText::Strike(inner)) => {
                let inner = std::mem::take(last).into_iter().chain(inner).collect();
                *last = self::joined(inner);
            }
            (_, word) => joined.push(word),
        }
    }
    joined
}
