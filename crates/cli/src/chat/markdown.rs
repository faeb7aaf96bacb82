//! As much Markdown as a line of chat needs: emphasis, code, headings, lists and quotes. Whatever else there is stays as it was typed.

use ratatui::style::Style;
use ratatui::text::Span;

use super::theme::Theme;

/// A text as styled spans, line breaks inside them.
pub(crate) fn spans(text: &str, theme: &Theme) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    let mut fenced = false;
    let mut first = true;
    for line in text.split('\n') {
        let bare = line.trim_start();
        if bare.starts_with("```") {
            fenced = !fenced;
            continue;
        }
        if !std::mem::take(&mut first) {
            spans.push(Span::raw("\n"));
        }
        if fenced {
            spans.push(Span::styled(line.to_owned(), theme.code()));
        } else if let Some(heading) = heading(bare) {
            inline(heading, theme.strong(), theme, &mut spans);
        } else if let Some(item) = bare.strip_prefix("- ").or_else(|| bare.strip_prefix("* ")) {
            let indent = &line[..line.len() - bare.len()];
            spans.push(Span::raw(format!("{indent}• ")));
            inline(item, Style::default(), theme, &mut spans);
        } else if let Some(quote) = bare.strip_prefix("> ") {
            spans.push(Span::styled("▏", theme.dim()));
            inline(quote, theme.dim(), theme, &mut spans);
        } else {
            inline(line, Style::default(), theme, &mut spans);
        }
    }
    spans
}

fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    text.strip_prefix(' ').filter(|_| (1..=6).contains(&level))
}

fn inline(text: &str, base: Style, theme: &Theme, spans: &mut Vec<Span<'static>>) {
    const MARKS: [&str; 5] = ["`", "**", "__", "*", "_"];
    let mut plain = String::new();
    let mut rest = text;
    let mut before = ' ';
    while let Some(c) = rest.chars().next() {
        let marked = MARKS.iter().find_map(|mark| {
            let inner = enclosed(rest, mark, before)?;
            Some((*mark, inner))
        });
        let Some((mark, inner)) = marked else {
            plain.push(c);
            before = c;
            rest = &rest[c.len_utf8()..];
            continue;
        };
        if !plain.is_empty() {
            spans.push(Span::styled(std::mem::take(&mut plain), base));
        }
        let style = match mark {
            "`" => theme.code(),
            "**" | "__" => theme.strong(),
            _ => theme.emphasis(),
        };
        spans.push(Span::styled(inner.to_owned(), base.patch(style)));
        rest = &rest[inner.len() + 2 * mark.len()..];
        before = ' ';
    }
    if !plain.is_empty() {
        spans.push(Span::styled(plain, base));
    }
}

/// What stands between two of a mark at the start of a text. Inside a word nothing is a mark: `snake_case_name`.
fn enclosed<'a>(text: &'a str, mark: &str, before: char) -> Option<&'a str> {
    let inner = text.strip_prefix(mark).filter(|_| !before.is_alphanumeric())?;
    let end = inner.find(mark)?;
    let (found, after) = (&inner[..end], &inner[end + mark.len()..]);
    let whole = !found.is_empty() && (mark == "`" || found.trim() == found);
    (whole && !after.starts_with(char::is_alphanumeric) && !after.starts_with(mark)).then_some(found)
}

#[cfg(test)]
mod tests {
    use ratatui::style::Modifier;

    use super::*;

    fn told(text: &str) -> String {
        let told = spans(text, &Theme::new(false)).into_iter().map(|span| {
            let modifier = span.style.add_modifier;
            let mark = match modifier {
                _ if modifier.contains(Modifier::BOLD) => "B",
                _ if modifier.contains(Modifier::ITALIC) => "I",
                _ if modifier.contains(Modifier::UNDERLINED) => "C",
                _ if modifier.contains(Modifier::DIM) => "D",
                _ => return span.content.into_owned(),
            };
            format!("<{mark} {}>", span.content)
        });
        told.collect()
    }

    #[test]
    fn the_little_there_is() {
        assert_eq!(told("a **b c** and *d*, `e *f*`"), "a <B b c> and <I d>, <C e *f*>");
        assert_eq!(told("snake_case_name 2*3*4 ** x *"), "snake_case_name 2*3*4 ** x *");
        assert_eq!(told("# Title\n- one\n  * two\n> said"), "<B Title>\n• one\n  • two\n<D ▏><D said>");
        assert_eq!(told("```rust\nlet *a* = 1;\n```\nend"), "<C let *a* = 1;>\nend");
    }
}
