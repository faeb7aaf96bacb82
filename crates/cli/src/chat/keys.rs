//! What keys do.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::commands::{self, ChatRequest};
use super::completion::{Completion, CompletionSource, Popup, complete};
use super::event::{ChatEffect, Now};
use super::model::Model;
use super::transcript::OlderHistory;

/// Shown after the first Ctrl-C.
const LEAVE_HINT: &str = "Ctrl-C again leaves";

impl Model {
    pub(super) fn key(&mut self, key: KeyEvent, now: Now) {
        if key.kind == KeyEventKind::Release {
            return;
        }
        let hint = self.hint.take();
        self.completing = false;
        if !matches!(key.code, KeyCode::Tab | KeyCode::BackTab)
            && self.popup.take().is_some()
            && key.code == KeyCode::Esc
        {
            return;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        let shift = key.modifiers.contains(KeyModifiers::SHIFT);
        let page = isize::try_from(self.transcript_size().1.saturating_sub(1).max(1)).unwrap_or(1);
        let empty = self.composer.is_empty();
        match key.code {
            KeyCode::Tab => self.complete(true),
            KeyCode::BackTab => self.complete(false),
            KeyCode::Enter if alt || shift => self.composer.insert("\n"),
            KeyCode::Enter => self.submit(now),
            KeyCode::F(1) => self.run_command(ChatRequest::Help, "/help", now),
            KeyCode::F(2) => self.run_command(ChatRequest::All, "/all", now),
            KeyCode::PageUp => self.scroll(-page, now),
            KeyCode::PageDown => self.scroll(page, now),
            KeyCode::Home if control || empty => self.show_oldest(now),
            KeyCode::End if control || empty => self.move_to(None),
            KeyCode::Up if shift => self.scroll(-1, now),
            KeyCode::Down if shift => self.scroll(1, now),
            KeyCode::Up => self.composer.earlier(),
            KeyCode::Down => self.composer.later(),
            KeyCode::Left if control || alt => self.composer.word_left(),
            KeyCode::Right if control || alt => self.composer.word_right(),
            KeyCode::Left => self.composer.left(),
            KeyCode::Right => self.composer.right(),
            KeyCode::Home => self.composer.home(),
            KeyCode::End => self.composer.end(),
            KeyCode::Backspace if alt => self.composer.erase_word(),
            KeyCode::Backspace => self.composer.erase_before(),
            KeyCode::Delete => self.composer.erase_after(),
            KeyCode::Char(letter) if control => self.control(letter, hint.as_deref()),
            KeyCode::Char('b') if alt => self.composer.word_left(),
            KeyCode::Char('f') if alt => self.composer.word_right(),
            KeyCode::Char(letter) if !alt => self.composer.insert(letter.encode_utf8(&mut [0; 4])),
            _ => {}
        }
    }

    fn control(&mut self, letter: char, hint: Option<&str>) {
        match letter {
            'a' => self.composer.home(),
            'e' => self.composer.end(),
            'b' => self.composer.left(),
            'f' => self.composer.right(),
            'h' => self.composer.erase_before(),
            'w' => self.composer.erase_word(),
            'u' => self.composer.erase_to_start(),
            'k' => self.composer.erase_to_end(),
            'p' => self.composer.earlier(),
            'n' => self.composer.later(),
            'j' => self.composer.insert("\n"),
            'l' => self.do_later(ChatEffect::Redraw),
            'd' if self.composer.is_empty() => self.do_later(ChatEffect::Quit),
            'd' => self.composer.erase_after(),
            'c' if !self.composer.is_empty() => self.composer.set(""),
            'c' if hint == Some(LEAVE_HINT) => self.do_later(ChatEffect::Quit),
            'c' => self.hint = Some(LEAVE_HINT.into()),
            _ => {}
        }
    }

    fn submit(&mut self, now: Now) {
        if self.composer.text().trim().is_empty() {
            self.composer.set("");
            return;
        }
        let line = self.composer.take();
        // A person who writes sees the newest messages.
        self.marker = None;
        self.move_to(None);
        match commands::parse(&line) {
            Ok(run_command) => self.run_command(run_command, line.trim(), now),
            Err(why) => self.complain(line.trim(), &why, now),
        }
    }

    pub(super) fn show_oldest(&mut self, now: Now) {
        if matches!(self.transcript.older, OlderHistory::Failed(_)) {
            self.transcript.older = OlderHistory::Perhaps;
        }
        let (columns, rows) = self.transcript_size();
        let pending = self.pending();
        let anchor = self.sheet(&pending, columns, now).start(rows);
        self.move_to(anchor);
    }

    /// Completes what stands before the cursor; when several things could stand there, shows them and takes them in turn.
    pub(super) fn complete(&mut self, forward: bool) {
        if let Some(popup) = &mut self.popup {
            let (start, text) = (popup.start, popup.turn(forward).to_owned());
            self.composer.replace(start, &text);
            return;
        }
        let text = &self.composer.text()[..self.composer.cursor()];
        let form = self.questions.first().and_then(|question| question.form.as_ref());
        let known = CompletionSource {
            me: &self.me,
            roster: &self.roster,
            tools: &|id| self.tools.get(id).map(Vec::as_slice),
            form,
        };
        let Completion { start, suggestions, asks } = complete(text, &known);
        if let Some(whose) = asks {
            self.hint = Some(format!("asking {whose} what it offers …"));
            self.completing = true;
            self.ask_for_tools(whose, false);
            return;
        }
        let popup = Popup { start, suggestions, chosen: None };
        match &popup.suggestions[..] {
            [] => self.hint = Some("nothing fits here".into()),
            [only] => self.composer.replace(start, &only.text),
            _ => {
                let common = popup.common();
                if common.len() > text.len() - start {
                    self.composer.replace(start, common);
                }
                self.popup = Some(popup);
            }
        }
    }
}
