//! Message Styling (XEP-0393), parsed into neutral text.
//!
//! Invariant: linear in the length of the text. A search for the end of a span that finds none is not repeated in the same line, and spans of one kind
//! are not nested in each other, so a line is read at most once for each kind of span.

use crate::rich::{InlineText, MAX_DEPTH, RichText, TextBlock};

const FENCE: &str = "```";
/// The longest word after the opening fence that names a language.
const MAX_LANGUAGE_BYTES: usize = 32;
/// What opens and closes a span (XEP-0393 §5.3 to §5.6).
const DIRECTIVES: [char; 4] = ['*', '_', '~', '`'];

/// Reads the body of a message.
pub(super) fn parse(body: &str) -> RichText {
    let lines: Vec<&str> = body.lines().collect();
    RichText { blocks: blocks(&lines, 0) }
}

/// Whether a client would read marks of emphasis or code in a text.
pub(super) fn has_directives(body: &str) -> bool {
    has_marks(&parse(body).blocks)
}

fn has_marks(blocks: &[TextBlock]) -> bool {
    let is_plain = |inline: &InlineText| matches!(inline, InlineText::Text(_) | InlineText::LineBreak);
    blocks.iter().any(|block| match block {
        TextBlock::Paragraph(inlines) | TextBlock::Heading(inlines) => !inlines.iter().all(is_plain),
        TextBlock::Quote(inner) => has_marks(inner),
        TextBlock::Code { .. } => true,
        TextBlock::List { .. } => false,
    })
}

/// XEP-0393 §5.1: every line is a block of its own, unless it begins a preformatted block or a quotation.
fn blocks(lines: &[&str], depth: usize) -> Vec<TextBlock> {
    let mut blocks = Vec::new();
    let mut plain: Vec<&str> = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        if let Some(after) = line.strip_prefix(FENCE) {
            add_plain(&mut plain, &mut blocks);
            let inside = &lines[at + 1..];
            let end = inside.iter().position(|line| line.trim_end() == FENCE);
            let code = &inside[..end.unwrap_or(inside.len())];
            let is_language = |word: &&str| {
                let is_word = word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '#' | '.'));
                !word.is_empty() && word.len() <= MAX_LANGUAGE_BYTES && is_word
            };
            let language = Some(after.trim()).filter(is_language).map(str::to_owned);
            blocks.push(TextBlock::Code { language, text: code.join("\n") });
            at += code.len() + 1 + usize::from(end.is_some());
        } else if depth < MAX_DEPTH && quoted(line).is_some() {
            add_plain(&mut plain, &mut blocks);
            let inside: Vec<&str> = lines[at..].iter().map_while(|line| quoted(line)).collect();
            at += inside.len();
            blocks.push(TextBlock::Quote(self::blocks(&inside, depth + 1)));
        } else {
            plain.push(line);
            at += 1;
        }
    }
    add_plain(&mut plain, &mut blocks);
    blocks
}

/// XEP-0393 §5.1.3: spaces at the beginning of a quoted line are not part of it.
fn quoted(line: &str) -> Option<&str> {
    line.strip_prefix('>').map(|rest| rest.trim_start_matches(' '))
}

fn add_plain(lines: &mut Vec<&str>, blocks: &mut Vec<TextBlock>) {
    let is_written = |line: &&str| !line.trim().is_empty();
    let (first, last) = (lines.iter().position(is_written), lines.iter().rposition(is_written));
    if let (Some(first), Some(last)) = (first, last) {
        let mut inlines = Vec::new();
        for (index, line) in lines[first..=last].iter().enumerate() {
            if index > 0 {
                inlines.push(InlineText::LineBreak);
            }
            inlines.extend(spans(line));
        }
        blocks.push(TextBlock::Paragraph(inlines));
    }
    lines.clear();
}

/// XEP-0393 §5.2: a span begins where the text begins or after white space, has something in it, and does not begin or end with white space. The
/// first mark that can end it does.
fn spans(text: &str) -> Vec<InlineText> {
    let mut found = Vec::new();
    let mut plain = String::new();
    let mut is_unclosed = [false; DIRECTIVES.len()];
    let mut before = ' ';
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        let kind = DIRECTIVES.iter().position(|directive| *directive == c);
        let opening = kind.filter(|kind| {
            !is_unclosed[*kind] && before.is_whitespace() && after.starts_with(|next: char| !next.is_whitespace())
        });
        let inner = opening.and_then(|kind| {
            let end = closing(after, c);
            is_unclosed[kind] = end.is_none();
            end.filter(|end| *end > 0).map(|end| &after[..end])
        });
        let Some(inner) = inner else {
            plain.push(c);
            (before, rest) = (c, after);
            continue;
        };
        if !plain.is_empty() {
            found.push(InlineText::Text(std::mem::take(&mut plain)));
        }
        found.push(match c {
            '*' => InlineText::Strong(spans(inner)),
            '_' => InlineText::Emphasis(spans(inner)),
            '~' => InlineText::Strike(spans(inner)),
            _ => InlineText::Code(inner.to_owned()),
        });
        (before, rest) = (c, &after[inner.len() + 1..]);
    }
    if !plain.is_empty() {
        found.push(InlineText::Text(plain));
    }
    found
}

/// Where the first mark is that can end a span.
fn closing(text: &str, directive: char) -> Option<usize> {
    let mut before = directive;
    text.char_indices().find_map(|(at, c)| {
        let is_end = c == directive && !before.is_whitespace();
        before = c;
        is_end.then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rich::{Flavour, render};

    /// A text as the room has it.
    fn room(body: &str) -> String {
        render(&parse(body), Flavour::Markdown)
    }

    /// The examples of XEP-0393 §5.2.
    #[test]
    fn spans_begin_and_end_where_the_standard_says() {
        let strong = [
            ("*strong*", "**strong**"),
            ("plain *strong* plain", "plain **strong** plain"),
            ("*strong* plain *strong*", "**strong** plain **strong**"),
            ("*strong*plain*", r"**strong**plain\*"),
            ("* plain *strong*", r"\* plain **strong**"),
            ("_*both*_ ~struck~ `*code*`", "***both*** ~~struck~~ `*code*`"),
        ];
        for (body, expected) in strong {
            assert_eq!(room(body), expected, "{body}");
            assert!(has_directives(body), "{body}");
        }
        for body in
            ["not strong*", "*not strong", "*not \n strong", "*not *strong", "** not strong", "****", "2*3*4", ""]
        {
            assert_eq!(parse(body), RichText::plain(body), "{body}");
            assert!(!has_directives(body), "{body}");
        }
    }

    #[test]
    fn blocks_are_code_and_quotes() {
        let body = "before\n```rust\nlet a = *b*;\n\n  c\n```\n> > deeper\n> ```\n> x\nafter *it*";
        assert_eq!(
            room(body),
            "before\n\n```rust\nlet a = *b*;\n\n  c\n```\n\n> > deeper\n> \n> ```\n> x\n> ```\n\nafter **it**"
        );
        assert_eq!(room("```\nopen until the end"), "```\nopen until the end\n```");
        assert!(!has_directives("> said"), "a quote is readable with its mark");
        assert!(has_directives("> *said*"));
    }

    /// Spans never begin in one line and end in another, so each line has its own marks.
    #[test]
    fn emphasis_over_several_lines_is_written_line_by_line() {
        let word = |text: &str| InlineText::Text(text.into());
        let strong = vec![word("one"), InlineText::LineBreak, word("two "), InlineText::Emphasis(vec![word("three")])];
        let text = RichText { blocks: vec![TextBlock::Paragraph(vec![InlineText::Strong(strong), word(" four")])] };
        assert_eq!(render(&text, Flavour::XmppStyling), "*one*\n*two _three_* four");
    }

    #[test]
    fn a_hostile_line_is_read_in_linear_time() {
        for unit in ["*a ", " *a", "_*~`", "* ", ">", "> *_"] {
            drop(parse(&unit.repeat(200_000)));
        }
    }

    proptest! {
        /// What was written back is read as it was meant.
        #[test]
        fn rendered_text_is_read_again(body in "([a-c*_~`> ]|```|\n){0,60}") {
            let once = parse(&render(&parse(&body), Flavour::XmppStyling));
            let again = parse(&render(&once, Flavour::XmppStyling));
            prop_assert_eq!(once, again);
        }
    }
}
