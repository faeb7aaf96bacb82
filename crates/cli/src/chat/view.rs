//! Drawing: the transcript, who is here, how things stand, and the line being written.

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Widget};
use salon_protocol::ParticipantKind;

use super::completion::Popup;
use super::event::{ConnectionStatus, Now};
use super::model::Model;
use super::text::{safe_line, shorten, width};
use super::theme::sign;

/// The smallest screen that is of any use.
const LEAST: (u16, u16) = (20, 5);
/// From which size on there is space for the roster.
const ROSTER_FROM: (u16, u16) = (72, 8);
/// How many rows the line being written may take, and how many suggestions are shown.
const MAX_COMPOSER_ROWS: usize = 6;
const MAX_SUGGESTIONS: usize = 8;

const PROMPT: &str = "› ";

/// Where things are on the screen.
struct Areas {
    transcript: Rect,
    roster: Option<Rect>,
    status: Rect,
    composer: Rect,
}

impl Model {
    fn areas(&self) -> Areas {
        let (columns, rows) = self.size;
        let most = MAX_COMPOSER_ROWS.min(usize::from(rows / 3)).max(1);
        let composer = u16::try_from(self.composed().0.len().min(most)).unwrap_or(1);
        let above = rows.saturating_sub(composer + 1);
        let shows_roster = columns >= ROSTER_FROM.0 && rows >= ROSTER_FROM.1;
        let roster = if !shows_roster {
            0
        } else if columns >= 110 {
            26
        } else {
            20
        };
        Areas {
            // One column stays free, so that text does not touch the line beside it.
            transcript: Rect::new(0, 0, columns - roster - u16::from(shows_roster), above),
            roster: shows_roster.then(|| Rect::new(columns - roster, 0, roster, above)),
            status: Rect::new(0, above, columns, 1),
            composer: Rect::new(0, above + 1, columns, composer),
        }
    }

    /// How many columns and rows the transcript has.
    pub(super) fn transcript_size(&self) -> (usize, usize) {
        let area = self.areas().transcript;
        (area.width.into(), area.height.into())
    }

    fn composed(&self) -> (Vec<String>, (usize, usize)) {
        self.composer.laid_out(usize::from(self.size.0).saturating_sub(width(PROMPT)))
    }

    pub(crate) fn draw(&self, frame: &mut Frame<'_>, now: Now) {
        let whole = frame.area();
        let (columns, rows) = self.size;
        if columns < LEAST.0 || rows < LEAST.1 || (whole.width, whole.height) != self.size {
            let text = format!("too small: {}×{}, needs {}×{}", whole.width, whole.height, LEAST.0, LEAST.1);
            let lines = super::text::wrap(&[Span::raw(text)], whole.width.into());
            put(frame, whole, &lines);
            return;
        }
        let areas = self.areas();
        self.draw_transcript(frame, areas.transcript, now);
        if let Some(area) = areas.roster {
            self.draw_roster(frame, area);
        }
        self.draw_status(frame, areas.status, now);
        self.draw_composer(frame, areas.composer);
        if let Some(popup) = &self.popup {
            self.draw_popup(frame, areas.transcript, popup);
        }
    }

    fn draw_transcript(&self, frame: &mut Frame<'_>, area: Rect, now: Now) {
        let pending = self.pending();
        let window = self.sheet(&pending, area.width.into(), now).window(self.anchor(), area.height.into());
        // The newest stands at the bottom, next to where one writes.
        let free = area.height - u16::try_from(window.lines.len()).unwrap_or(area.height).min(area.height);
        let area = Rect { y: area.y + free, height: area.height - free, ..area };
        put(frame, area, &window.lines);
    }

    fn draw_roster(&self, frame: &mut Frame<'_>, area: Rect) {
        let mut lines = Vec::new();
        let columns = usize::from(area.width).saturating_sub(2);
        let mut heading = None;
        for one in &self.roster {
            if heading != Some(one.kind) {
                heading = Some(one.kind);
                let words = match one.kind {
                    Some(ParticipantKind::Human) => "people",
                    Some(ParticipantKind::Agent) => "agents",
                    Some(ParticipantKind::Robot) => "robots",
                    None => "others",
                };
                let count = self.roster.iter().filter(|other| other.kind == one.kind).count();
                lines.push(Line::styled(format!("{words} {count}"), self.theme.dim()));
            }
            let you = if one.id == self.me { " (you)" } else { "" };
            let status = one.status.as_ref().map(|status| safe_line(&status.to_string()));
            let id = shorten(one.id.as_str(), columns.saturating_sub(2 + width(you)));
            let left = columns.saturating_sub(width(&id) + 3);
            let name = one.name.as_deref().map(safe_line).filter(|name| !name.eq_ignore_ascii_case(one.id.as_str()));
            let name = name.filter(|_| you.is_empty() && left > 3).map(|name| format!(" {}", shorten(&name, left)));
            lines.push(Line::from(vec![
                Span::styled(format!("{} ", sign(one.kind)), self.theme.name(&one.id)),
                Span::styled(id, self.theme.name(&one.id)),
                Span::styled(name.unwrap_or_else(|| you.to_owned()), self.theme.dim()),
            ]));
            if let Some(status) = status {
                let status = format!("  {}", shorten(&status, columns.saturating_sub(2)));
                lines.push(Line::styled(status, self.theme.dim()));
            }
        }
        let rows = usize::from(area.height);
        if lines.len() > rows {
            let hidden = lines.len() - rows + 1;
            lines.truncate(rows - 1);
            lines.push(Line::styled(format!("{hidden} more: /who"), self.theme.dim()));
        }
        for row in area.top()..area.bottom() {
            frame.buffer_mut().set_string(area.x, row, "│", self.theme.dim());
        }
        put(frame, Rect { x: area.x + 2, width: area.width - 2, ..area }, &lines);
    }

    fn draw_status(&self, frame: &mut Frame<'_>, area: Rect, now: Now) {
        let columns = usize::from(area.width);
        let (mark, state) = match &self.connection {
            ConnectionStatus::Live => ("●", "live".to_owned()),
            ConnectionStatus::Stalled(_) => ("◌", "the gateway stores nothing now; it goes on by itself".to_owned()),
            ConnectionStatus::Lost { attempt, why, .. } => {
                let when = match self.retry_at.map(|at| at.saturating_sub(now.since_start)) {
                    Some(wait) if !wait.is_zero() => format!(" in {} s", wait.as_millis().div_ceil(1000)),
                    _ => String::new(),
                };
                let why = if why.is_empty() { String::new() } else { format!(": {}", safe_line(why)) };
                ("○", format!("reconnecting{when} (attempt {attempt}){why}"))
            }
            ConnectionStatus::Over(why) => ("✗", safe_line(why)),
        };
        let unread = match (self.unread, self.anchor()) {
            (0, None) => None,
            (0, Some(_)) => Some("End: to the present ".to_owned()),
            (unread, _) => Some(format!("{unread} new, End: to the present ")),
        };
        let asked = (!self.questions.is_empty()).then(|| match self.questions.len() {
            1 => "1 question ".to_owned(),
            several => format!("{several} questions "),
        });
        let notes = [asked, unread].into_iter().flatten().collect::<String>();
        let idle = if columns >= 60 { "F1 help " } else { "" };
        let right = match (&self.hint, notes.is_empty()) {
            (Some(hint), _) => format!("{} ", safe_line(hint)),
            (None, false) => notes,
            (None, true) => idle.to_owned(),
        };
        let right = shorten(&right, columns / 2);
        let mut left = format!(" {} · {} · {mark} {state}", self.topic, self.me);
        if width(&left) + 1 + width(&right) > columns {
            left = format!(" {mark} {state} · {}", self.topic);
        }
        let left = shorten(&left, columns.saturating_sub(width(&right) + 1));
        let gap = columns.saturating_sub(width(&left) + width(&right));
        let bar = self.theme.bar();
        let notable = if self.hint.is_some() || right != idle { bar.patch(self.theme.strong()) } else { bar };
        let spans = vec![Span::styled(format!("{left}{}", " ".repeat(gap)), bar), Span::styled(right, notable)];
        put(frame, area, &[Line::from(spans)]);
    }

    fn draw_composer(&self, frame: &mut Frame<'_>, area: Rect) {
        let (lines, (row, column)) = self.composed();
        let rows = usize::from(area.height);
        let first = (row + 1).saturating_sub(rows);
        let shown = lines.iter().skip(first).take(rows).enumerate();
        let shown = shown.map(|(index, line)| {
            let prompt = if index + first == 0 { PROMPT } else { "  " };
            Line::from(vec![Span::styled(prompt, self.theme.strong()), Span::raw(line.clone())])
        });
        put(frame, area, &shown.collect::<Vec<_>>());
        let (x, y) = (u16::try_from(column + width(PROMPT)).unwrap_or(0), u16::try_from(row - first).unwrap_or(0));
        frame.set_cursor_position(Position::new(area.x + x, area.y + y));
    }

    fn draw_popup(&self, frame: &mut Frame<'_>, above: Rect, popup: &Popup) {
        let rows = MAX_SUGGESTIONS.min(usize::from(above.height)).min(popup.suggestions.len());
        let first = popup.chosen.unwrap_or(0).saturating_sub(rows.saturating_sub(1));
        let names = popup.suggestions.iter().map(|suggestion| width(suggestion.text.trim_end())).max().unwrap_or(0);
        let columns = usize::from(above.width).saturating_sub(4);
        let names = names.min(columns);
        let mut lines = Vec::new();
        for (index, suggestion) in popup.suggestions.iter().enumerate().skip(first).take(rows) {
            let text = shorten(suggestion.text.trim_end(), names);
            let about = shorten(&safe_line(&suggestion.about), columns.saturating_sub(names + 2));
            let style = if popup.chosen == Some(index) { self.theme.bar() } else { self.theme.strong() };
            let pad = " ".repeat(names - width(&text) + 2);
            lines.push(Line::from(vec![
                Span::styled(text, style),
                Span::styled(format!("{pad}{about}"), self.theme.dim()),
            ]));
        }
        if popup.suggestions.len() > rows {
            let more = format!("{} of {}", popup.chosen.map_or(first, |chosen| chosen) + 1, popup.suggestions.len());
            lines.push(Line::styled(more, self.theme.dim()));
            if lines.len() > usize::from(above.height) {
                lines.remove(0);
            }
        }
        let height = u16::try_from(lines.len()).unwrap_or(above.height);
        let area = Rect { y: above.bottom() - height, height, ..above };
        Clear.render(area, frame.buffer_mut());
        for row in area.top()..area.bottom() {
            frame.buffer_mut().set_string(area.x, row, "▏", self.theme.dim());
        }
        put(frame, Rect { x: area.x + 2, width: area.width.saturating_sub(2), ..area }, &lines);
    }
}

/// Puts lines into an area, from its top.
fn put(frame: &mut Frame<'_>, area: Rect, lines: &[Line<'_>]) {
    for (row, line) in (area.top()..area.bottom()).zip(lines) {
        frame.buffer_mut().set_line(area.x, row, line, area.width);
    }
}
