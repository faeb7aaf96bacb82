//! IRC's formatting codes as formatted text: bold, italic, strike, monospace. Colours are left out.

use crate::rich::{InlineText, RichText, TextBlock, joined};

/// Reads the text of a message.
pub(super) fn parse(text: &str) -> RichText {
    let mut parser = CodeParser::default();
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\u{2}' => parser.toggle(|style| &mut style.is_bold),
            '\u{1d}' => parser.toggle(|style| &mut style.is_italic),
            '\u{1e}' => parser.toggle(|style| &mut style.is_struck),
            '\u{11}' => parser.toggle(|style| &mut style.is_code),
            '\u{f}' => {
                parser.flush();
                parser.style = CodeStyle::default();
            }
            '\u{3}' => {
                // One or two digits, perhaps a comma and one or two digits more.
                let mut digits = 0;
                while digits < 2 && characters.next_if(char::is_ascii_digit).is_some() {
                    digits += 1;
                }
                if digits > 0 && characters.next_if_eq(&',').is_some() {
                    let mut digits = 0;
                    while digits < 2 && characters.next_if(char::is_ascii_digit).is_some() {
                        digits += 1;
                    }
                    if digits == 0 {
                        parser.plain.push(',');
                    }
                }
            }
            '\u{4}' => {
                for _ in 0..6 {
                    let _ = characters.next_if(char::is_ascii_hexdigit);
                }
            }
            c if c.is_control() => {}
            c => parser.plain.push(c),
        }
    }
    parser.flush();
    let blocks = if parser.found.is_empty() { vec![] } else { vec![TextBlock::Paragraph(joined(parser.found))] };
    RichText { blocks }
}

#[derive(Debug, Clone, Copy, Default)]
struct CodeStyle {
    is_bold: bool,
    is_italic: bool,
    is_struck: bool,
    is_code: bool,
}

#[derive(Debug, Default)]
struct CodeParser {
    style: CodeStyle,
    plain: String,
    found: Vec<InlineText>,
}

impl CodeParser {
    fn toggle(&mut self, which: impl Fn(&mut CodeStyle) -> &mut bool) {
        self.flush();
        let flag = which(&mut self.style);
        *flag = !*flag;
    }

    fn flush(&mut self) {
        if self.plain.is_empty() {
            return;
        }
        let text = std::mem::take(&mut self.plain);
        let mut inline = if self.style.is_code { InlineText::Code(text) } else { InlineText::Text(text) };
        if self.style.is_struck {
            inline = InlineText::Strike(vec![inline]);
        }
        if self.style.is_italic {
            inline = InlineText::Emphasis(vec![inline]);
        }
        if self.style.is_bold {
            inline = InlineText::Strong(vec![inline]);
        }
        self.found.push(inline);
    }
}

#[cfg(test)]
mod tests {
    use crate::rich::{Flavour, render};

    #[test]
    fn codes_become_formatting() {
        let markdown = |text: &str| render(&super::parse(text), Flavour::Markdown);
        assert_eq!(markdown("a \u{2}b \u{1d}c\u{f} d \u{11}e\u{11}"), "a **b *c*** d `e`");
        assert_eq!(markdown("\u{3}04,12red\u{3} \u{3}5,x \u{1b}[0m"), "red ,x \\[0m");
        assert_eq!(markdown(""), "");
    }
}
