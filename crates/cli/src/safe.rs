//! What others wrote, made safe to show: it must not command the terminal, nor pass for a line of ours.

/// A text on one line: without control characters, and without those that turn the direction of writing or hide.
pub(crate) fn line(text: &str) -> String {
    escaped(text.chars())
}

/// A text that may have several lines.
pub(crate) fn block(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    let tabs = |line: &str| line.split('\t').map(|part| escaped(part.chars())).collect::<Vec<_>>().join("\t");
    lines.into_iter().map(tabs).collect::<Vec<_>>().join("\n")
}

/// A text on one line, of which at most so many characters are shown.
pub(crate) fn clipped(text: &str, most: usize) -> String {
    let mut shown = escaped(text.chars().take(most));
    if text.chars().nth(most).is_some() {
        shown.push('…');
    }
    shown
}

/// A word as a shell takes it.
pub(crate) fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@=~+,%".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.into() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// A text of ours in which URLs have nothing before their hosts.
pub(crate) fn without_passwords(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        let end = after.find(char::is_whitespace).unwrap_or(after.len());
        let host = after[..end].rfind('@').map_or(0, |at| at + 1);
        shown.extend([before, "://"]);
        rest = &after[host..];
    }
    shown + rest
}

fn escaped(characters: impl Iterator<Item = char>) -> String {
    let mut shown = String::new();
    for c in characters {
        if c.is_control() || deceives(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Characters that are not seen themselves but change what others look like.
fn deceives(c: char) -> bool {
    matches!(c,
        '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_a_url_is_left_out() {
        let told = without_passwords("no 'natss://u:p@ss@h:1,tls://v:w@i' and http://a.example, a@b nor x://y");
        assert_eq!(told, "no 'natss://i' and http://a.example, a@b nor x://y");
        assert_eq!(without_passwords("nats://u:s'ecret@h"), "nats://h");
    }

    #[test]
    fn nothing_commands_the_terminal() {
        assert_eq!(line("a\x1b[2J\r\n\tb\u{9b}\u{202e}é"), r"a\u{1b}[2J\r\n\tb\u{9b}\u{202e}é");
        assert_eq!(block("a\tb\r\nc\rd\x07"), "a\tb\nc\\rd\\u{7}");
        assert_eq!(clipped("abc\n", 4), "abc\\n");
        assert_eq!(clipped("abcde", 4), "abcd…");
    }
}
