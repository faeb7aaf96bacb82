//! The line being written: text, cursor, and the lines written before. Pure; knows no command.

use std::collections::VecDeque;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// How many lines are remembered.
const MAX_REMEMBERED: usize = 200;

/// How long a line may become, in bytes: below the gateway's own limit for a message.
const MAX_BYTES: usize = 512 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Composer {
    text: String,
    /// In bytes, on a border between graphemes.
    cursor: usize,
    written: VecDeque<String>,
    /// Which remembered line is shown, counted from the newest, and the line that was begun before looking.
    looking: Option<(usize, String)>,
}

impl Composer {
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn cursor(&self) -> usize {
        self.cursor
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Replaces everything.
    pub(crate) fn set(&mut self, text: impl Into<String>) {
        self.text = text.into();
        self.cursor = self.text.len();
        self.looking = None;
    }

    /// Replaces what stands between `start` and the cursor.
    pub(crate) fn replace(&mut self, start: usize, text: &str) {
        let start = self.text.floor_char_boundary(start.min(self.cursor));
        self.text.replace_range(start..self.cursor, text);
        self.cursor = start + text.len();
    }

    /// Puts text in at the cursor. Control characters other than line breaks are left out: they cannot be seen, nor be meant.
    pub(crate) fn insert(&mut self, text: &str) {
        let text: String = text
            .replace("\r\n", "\n")
            .replace(['\r', '\t'], " ")
            .chars()
            .filter(|c| *c == '\n' || !c.is_control())
            .collect();
        if self.text.len() + text.len() <= MAX_BYTES {
            self.text.insert_str(self.cursor, &text);
            self.cursor += text.len();
            // What was put in may have grown together with what stands before or after it.
            let border = self.borders().find(|border| *border >= self.cursor);
            self.cursor = border.unwrap_or(self.text.len());
        }
    }

    /// Takes the line and remembers it.
    pub(crate) fn take(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        (self.cursor, self.looking) = (0, None);
        if !text.trim().is_empty() && self.written.front() != Some(&text) {
            self.written.push_front(text.clone());
            self.written.truncate(MAX_REMEMBERED);
        }
        text
    }

    pub(crate) fn left(&mut self) {
        self.cursor = self.before();
    }

    pub(crate) fn right(&mut self) {
        self.cursor = self.after();
    }

    pub(crate) fn home(&mut self) {
        self.cursor = 0;
    }

    pub(crate) fn end(&mut self) {
        self.cursor = self.text.len();
    }

    pub(crate) fn word_left(&mut self) {
        self.cursor = self.word_before();
    }

    pub(crate) fn word_right(&mut self) {
        let rest = &self.text[self.cursor..];
        let blank = rest.len() - rest.trim_start().len();
        let word = rest[blank..].find(char::is_whitespace).unwrap_or(rest.len() - blank);
        self.cursor += blank + word;
    }

    pub(crate) fn erase_before(&mut self) {
        self.erase(self.before(), self.cursor);
    }

    pub(crate) fn erase_after(&mut self) {
        self.erase(self.cursor, self.after());
    }

    pub(crate) fn erase_word(&mut self) {
        self.erase(self.word_before(), self.cursor);
    }

    pub(crate) fn erase_to_start(&mut self) {
        self.erase(0, self.cursor);
    }

    pub(crate) fn erase_to_end(&mut self) {
        self.erase(self.cursor, self.text.len());
    }

    /// Shows the line written before the one shown.
    pub(crate) fn earlier(&mut self) {
        let (index, begun) = match self.looking.take() {
            None => (0, self.text.clone()),
            Some((index, begun)) => (index + 1, begun),
        };
        match self.written.get(index).cloned() {
            Some(line) => {
                self.set(line);
                self.looking = Some((index, begun));
            }
            None => self.looking = index.checked_sub(1).map(|index| (index, begun)),
        }
    }

    /// Shows the line written after the one shown, in the end the one that was begun.
    pub(crate) fn later(&mut self) {
        let Some((index, begun)) = self.looking.take() else { return };
        match index.checked_sub(1).and_then(|index| Some((index, self.written.get(index)?.clone()))) {
            Some((index, line)) => {
                self.set(line);
                self.looking = Some((index, begun));
            }
            None => self.set(begun),
        }
    }

    /// The lines as they stand in a field of some width, and the cursor's row and column there.
    pub(crate) fn laid_out(&self, columns: usize) -> (Vec<String>, (usize, usize)) {
        let columns = columns.max(2);
        let mut lines = vec![String::new()];
        let (mut column, mut at, mut cursor) = (0, 0, None);
        for grapheme in self.text.graphemes(true) {
            let width = grapheme.width();
            if grapheme != "\n" && column + width > columns {
                lines.push(String::new());
                column = 0;
            }
            if at == self.cursor {
                cursor = Some((lines.len() - 1, column));
            }
            at += grapheme.len();
            if grapheme == "\n" {
                lines.push(String::new());
                column = 0;
            } else {
                lines.last_mut().expect("there is always a line").push_str(grapheme);
                column += width;
            }
        }
        if cursor.is_none() && column >= columns {
            lines.push(String::new());
            column = 0;
        }
        let cursor = cursor.unwrap_or((lines.len() - 1, column));
        (lines, cursor)
    }

    fn erase(&mut self, from: usize, to: usize) {
        self.text.replace_range(from..to, "");
        self.cursor = from;
    }

    fn borders(&self) -> impl DoubleEndedIterator<Item = usize> {
        self.text.grapheme_indices(true).map(|(at, _)| at)
    }

    fn before(&self) -> usize {
        self.borders().rfind(|border| *border < self.cursor).unwrap_or(0)
    }

    fn after(&self) -> usize {
        self.borders().find(|border| *border > self.cursor).unwrap_or(self.text.len())
    }

    fn word_before(&self) -> usize {
        let head = self.text[..self.cursor].trim_end();
        head.rfind(char::is_whitespace).map_or(0, |at| at + head[at..].chars().next().map_or(0, char::len_utf8))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The text with a bar where the cursor is.
    fn shown(composer: &Composer) -> String {
        let (before, after) = composer.text().split_at(composer.cursor());
        format!("{before}|{after}")
    }

    fn written(text: &str) -> Composer {
        let mut composer = Composer::default();
        composer.insert(text);
        composer
    }

    #[test]
    fn the_cursor_moves_by_what_is_seen() {
        let mut composer = written("a👩‍💻e\u{301}");
        composer.left();
        assert_eq!(shown(&composer), "a👩‍💻|e\u{301}");
        composer.left();
        assert_eq!(shown(&composer), "a|👩‍💻e\u{301}");
        composer.erase_after();
        assert_eq!(shown(&composer), "a|e\u{301}");
        composer.end();
        composer.erase_before();
        assert_eq!(shown(&composer), "a|");
    }

    #[test]
    fn words_and_rests_are_erased_at_once() {
        let mut composer = written("one two  three ");
        composer.erase_word();
        assert_eq!(shown(&composer), "one two  |");
        composer.word_left();
        assert_eq!(shown(&composer), "one |two  ");
        composer.word_right();
        assert_eq!(shown(&composer), "one two|  ");
        composer.erase_to_end();
        composer.left();
        composer.erase_to_start();
        assert_eq!(shown(&composer), "|o");
    }

    #[test]
    fn earlier_lines_come_back_and_the_one_begun_is_kept() {
        let mut composer = Composer::default();
        for line in ["first", "second", "second", " "] {
            composer.insert(line);
            composer.take();
        }
        composer.insert("begun");
        let mut walk = String::new();
        for step in "^^^vvv".chars() {
            if step == '^' {
                composer.earlier()
            } else {
                composer.later()
            }
            walk += &format!("{} ", composer.text());
        }
        assert_eq!(walk, "second first first second begun begun ");
    }

    #[test]
    fn what_is_pasted_cannot_command() {
        assert_eq!(shown(&written("a\u{1b}[2J\r\nb\tc\u{7}")), "a[2J\nb c|");
    }

    #[test]
    fn a_long_line_is_laid_out_in_several() {
        assert_eq!(written("abcdef").laid_out(4), (vec!["abcd".into(), "ef".into()], (1, 2)));
        assert_eq!(written("abcd").laid_out(4), (vec!["abcd".into(), String::new()], (1, 0)));
        assert_eq!(written("a\nb").laid_out(4), (vec!["a".into(), "b".into()], (1, 1)));
        assert_eq!(written("日本語").laid_out(5), (vec!["日本".into(), "語".into()], (1, 2)));
    }

    proptest! {
        #[test]
        fn the_cursor_stays_on_a_border(keys in proptest::collection::vec(0u8..14, 0..40)) {
            let mut composer = Composer::default();
            for key in keys {
                match key {
                    0 => composer.insert("a b"),
                    1 => composer.insert("👩‍💻"),
                    2 => composer.insert("\u{301}"),
                    3 => composer.insert("🇩"),
                    4 => composer.left(),
                    5 => composer.right(),
                    6 => composer.word_left(),
                    7 => composer.word_right(),
                    8 => composer.erase_before(),
                    9 => composer.erase_after(),
                    10 => composer.erase_word(),
                    11 => drop(composer.take()),
                    12 => composer.earlier(),
                    _ => composer.home(),
                }
                prop_assert!(composer.text().is_char_boundary(composer.cursor()));
                composer.laid_out(7);
            }
        }
    }
}
