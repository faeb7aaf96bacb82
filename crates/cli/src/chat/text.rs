//! Text that others wrote, made fit for a terminal: nothing in it commands the terminal, and its width is what the terminal shows.

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::safe;

/// A text without control characters and without those that turn the direction of writing; line breaks stay.
pub(crate) fn safe(text: &str) -> String {
    safe::block(text).replace('\t', "    ")
}

/// The same in one line.
pub(crate) fn safe_line(text: &str) -> String {
    safe(text).split('\n').map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// How many columns a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.graphemes(true).map(UnicodeWidthStr::width).sum()
}

/// A text cut to so many columns, with a mark where something is missing.
pub(crate) fn shorten(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut cut = String::new();
    let mut taken = 0;
    for grapheme in text.graphemes(true) {
        taken += grapheme.width();
        if taken > columns.saturating_sub(1) {
            break;
        }
        cut.push_str(grapheme);
    }
    if columns > 0 {
        cut.push('…');
    }
    cut
}

/// A text of at most so many bytes, for keeping.
pub(crate) fn clip(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes);
    format!("{}… ({} more bytes)", &text[..end], text.len() - end)
}

/// Breaks styled text into lines of at most so many columns: at blanks where there are some, inside a word that is longer than a line.
pub(crate) fn wrap(spans: &[Span<'_>], columns: usize) -> Vec<Line<'static>> {
    let columns = columns.max(1);
    let mut lines = Vec::new();
    let mut line: Vec<Glyph<'_>> = Vec::new();
    let mut taken = 0;
    for span in spans {
        for text in span.content.graphemes(true) {
            if text == "\n" {
                lines.push(joined(&line));
                line.clear();
                taken = 0;
                continue;
            }
            let glyph = Glyph { text, style: span.style, width: text.width() };
            if taken + glyph.width > columns {
                if glyph.text == " " {
                    // The blank at which a line breaks is not shown.
                    lines.push(joined(&line));
                    line.clear();
                    taken = 0;
                    continue;
                }
                let rest = match line.iter().rposition(|glyph| glyph.text == " ") {
                    Some(blank) if line[..blank].iter().any(|glyph| glyph.text != " ") => {
                        let rest = line.split_off(blank + 1);
                        line.pop();
                        rest
                    }
                    _ => Vec::new(),
                };
                lines.push(joined(&line));
                line = rest;
                taken = line.iter().map(|glyph| glyph.width).sum();
                if taken + glyph.width > columns {
                    lines.push(joined(&line));
                    line.clear();
                    taken = 0;
                }
            }
            taken += glyph.width;
            line.push(glyph);
        }
    }
    lines.push(joined(&line));
    lines
}

struct Glyph<'a> {
    text: &'a str,
    style: Style,
    width: usize,
}

fn joined(glyphs: &[Glyph<'_>]) -> Line<'static> {
    let mut spans: Vec<(String, Style)> = Vec::new();
    for glyph in glyphs {
        match spans.last_mut() {
            Some((text, style)) if *style == glyph.style => text.push_str(glyph.text),
            _ => spans.push((glyph.text.to_owned(), glyph.style)),
        }
    }
    Line::from(spans.into_iter().map(|(text, style)| Span::styled(text, style)).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wrapped(text: &str, columns: usize) -> Vec<String> {
        wrap(&[Span::raw(text)], columns).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn nothing_commands_the_terminal() {
        assert_eq!(safe("\u{1b}[2Jgone\u{7}\r\n\u{202e}back\tx"), "\\u{1b}[2Jgone\\u{7}\n\\u{202e}back    x");
        assert_eq!(safe("👩‍💻 ok é"), "👩‍💻 ok é");
        assert_eq!(safe_line(" a\n\n b\u{2028}"), "a b\\u{2028}");
    }

    #[test]
    fn lines_break_at_blanks_by_what_is_seen() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("abcdefgh ij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrapped("go to abcdefgh", 5), ["go to", "abcde", "fgh"]);
        assert_eq!(wrapped("日本語のテキスト", 6), ["日本語", "のテキ", "スト"]);
        assert_eq!(wrapped("a\n\n  b", 9), ["a", "", "  b"]);
        assert_eq!(wrapped("", 9), [""]);
    }

    #[test]
    fn a_cut_is_marked_and_fits() {
        assert_eq!(shorten("short", 5), "short");
        assert_eq!(shorten("longer", 5), "long…");
        assert_eq!(shorten("日本語", 4), "日…");
        assert_eq!(shorten("x", 0), "");
        assert_eq!(clip("héllo", 2), "h… (5 more bytes)");
    }

    proptest! {
        #[test]
        fn no_line_is_too_wide_and_nothing_but_blanks_is_lost(text in "[a-z 日👩‍💻é\n]{0,60}", columns in 2usize..20) {
            let lines = wrapped(&text, columns);
            prop_assert!(lines.iter().all(|line| width(line) <= columns), "{:?}", lines);
            let seen = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(seen(&lines.concat()), seen(&text));
        }
    }
}
