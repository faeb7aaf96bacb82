//! What one item looks like: time, who, and what, wrapped under itself.

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use salon_protocol::{EnvelopeId, ParticipantId, REDACTED_TEXT};

use super::event::{Now, PersonQuestion, Zone};
use super::item::{CallItem, CallOutcome, CallProgress, ChatItem, ChatMessage, ItemBody, MessageState, TextTone};
use super::layout::{PendingLine, duration};
use super::markdown;
use super::text::{shorten, width, wrap};
use super::theme::{Theme, sign};
use super::transcript::ChatTranscript;
use crate::transcript::{EDITED, RETRACTED};

/// From which width on names have a wide column, a fair one, a column at all, and times are shown.
const ROOMY: usize = 100;
const FAIR: usize = 66;
const WIDE: usize = 56;
const TIMED: usize = 36;
/// How many lines of an answer are shown unless all is wanted, and how many of anything.
const FEW_LINES: usize = 3;
const MAX_LINES: usize = 400;

/// How many addressees of a message are named.
const MAX_ADDRESSEES: usize = 4;

/// How many milliseconds may lie between two who come together, and how many of those are named.
const TOGETHER: u64 = 60_000;
const MAX_NAMES: usize = 12;

const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// Everything that decides how an item looks, beside the item.
#[derive(Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) theme: &'a Theme,
    pub(crate) columns: usize,
    pub(crate) all: bool,
    pub(crate) now: Now,
    pub(crate) zone: Zone,
    pub(crate) questions: &'a [PersonQuestion],
    /// Width of the longest id in the room.
    pub(crate) longest_name: usize,
}

impl Look<'_> {
    /// The day of an item.
    pub(crate) fn day(&self, item: &ChatItem) -> String {
        (self.zone)(item.at).day
    }

    /// A line across with words in it.
    pub(crate) fn rule(&self, words: &str, style: Style) -> Line<'static> {
        let words = shorten(words, self.columns.saturating_sub(6));
        let rest = self.columns.saturating_sub(width(&words) + 2);
        let (left, right) = (rest / 2, rest - rest / 2);
        Line::styled(format!("{} {words} {}", "─".repeat(left), "─".repeat(right)), style)
    }

    /// Something that is being sent.
    pub(crate) fn pending(&self, pending: &PendingLine) -> Vec<Line<'static>> {
        let dim = self.theme.dim();
        let text = format!("{} ({})", pending.line, pending.stage);
        let spans = [Span::styled(self.spinner(), self.theme.busy()), Span::styled(format!(" {text}"), dim)];
        Self { columns: self.columns.min(WIDE - 1), ..*self }.beside(None, &spans, self.columns)
    }

    pub(crate) fn lines(&self, item: &ChatItem, transcript: &ChatTranscript) -> Vec<Line<'static>> {
        let time = Some((self.zone)(item.at).minute);
        let dim = self.theme.dim();
        match &item.body {
            ItemBody::Chat(said) => self.chat(time, said, transcript),
            ItemBody::Presence { .. } => self.presence(std::iter::once(item)),
            ItemBody::Call(call) => self.call(time, item.envelope.as_ref(), call),
            ItemBody::Answer { from, to, outcome, .. } => {
                let mut spans = vec![Span::styled("answers ", dim)];
                spans.extend(self.recipients(to));
                self.with_outcome(time, from, spans, outcome)
            }
            ItemBody::Notice { from, to, text, .. } => {
                let mut spans = vec![];
                if !to.is_empty() {
                    spans.push(Span::styled("→ ", dim));
                    spans.extend(self.recipients(to));
                }
                spans.push(Span::styled(self.folded(text), dim));
                self.block(time, &spans, Some(from))
            }
            ItemBody::Note { tone, text, rows } => self.note(time, *tone, text, rows),
        }
    }

    /// Whether two joins or leaves in a row share a line: a crowd that comes is one event to people.
    pub(crate) fn is_together(&self, one: &ChatItem, other: &ChatItem) -> bool {
        match (&one.body, &other.body) {
            (ItemBody::Presence { joined, .. }, ItemBody::Presence { joined: other_joined, .. }) => {
                joined == other_joined && other.at.0.abs_diff(one.at.0) < TOGETHER && self.day(one) == self.day(other)
            }
            _ => false,
        }
    }

    /// Participants that came, or left, together.
    pub(crate) fn presence<'a>(&self, mut group: impl Iterator<Item = &'a ChatItem>) -> Vec<Line<'static>> {
        let mut names = Vec::new();
        let mut first = None;
        for item in group.by_ref().take(MAX_NAMES) {
            let ItemBody::Presence { who, kind, joined } = &item.body else { continue };
            first.get_or_insert((item.at, *joined));
            names.push(kind.map_or_else(|| who.to_string(), |kind| format!("{}\u{a0}{who}", sign(Some(kind)))));
        }
        let Some((at, joined)) = first else { return Vec::new() };
        let more = group.count();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let (mark, word) = if joined { ("→", "joined") } else { ("←", "left") };
        let text = format!("{mark} {}{more} {word}", names.join(", "));
        self.block(Some((self.zone)(at).minute), &[Span::styled(text, self.theme.dim())], None)
    }

    /// What this program says stands further left than what participants say.
    fn note(&self, time: Option<String>, tone: TextTone, text: &str, rows: &[(String, String)]) -> Vec<Line<'static>> {
        let dim = self.theme.dim();
        let (mark, style) = match tone {
            TextTone::Requested => ("", self.theme.strong()),
            TextTone::Dim => ("– ", dim),
            TextTone::Bad => ("✗ ", self.theme.bad()),
        };
        let mut spans = vec![Span::styled(format!("{mark}{}", text.split('\n').next().unwrap_or_default()), style)];
        let rest = if tone == TextTone::Dim { dim } else { Style::default() };
        spans.extend(text.split('\n').skip(1).map(|line| Span::styled(format!("\n{line}"), rest)));
        let look = Self { columns: self.columns.min(WIDE - 1), ..*self };
        let indent = look.indent();
        let mut lines = look.beside(time, &spans, self.columns);
        let columns = self.columns.saturating_sub(indent + 2);
        let what_columns = rows.iter().map(|(what, _)| width(what)).max().unwrap_or(0) + 2;
        let hangs = what_columns + 24 > columns;
        for (what, about) in rows {
            let spans = [Span::raw(what.clone())];
            let mut row = wrap(&spans, columns);
            if !about.is_empty() {
                let (left, about_columns) =
                    if hangs { (2, columns.saturating_sub(2)) } else { (what_columns, columns - what_columns) };
                let mut about = wrap(&[Span::styled(about.clone(), dim)], about_columns).into_iter();
                if !hangs && let Some(first) = about.next() {
                    row[0].push_span(Span::raw(" ".repeat(what_columns - width(what))));
                    row[0].spans.extend(first.spans);
                }
                row.extend(about.map(|line| indented(left, line)));
            }
            lines.extend(row.into_iter().map(|line| indented(indent + 2, line)));
        }
        lines
    }

    fn chat(&self, time: Option<String>, said: &ChatMessage, transcript: &ChatTranscript) -> Vec<Line<'static>> {
        let mut spans = Vec::new();
        if let Some(id) = &said.reply_to {
            let about = transcript.get(id).map(|item| &item.body);
            let quote = match about {
                Some(ItemBody::Chat(about)) => format!("{}: {}", about.from, about.text.replace('\n', " ")),
                Some(ItemBody::Call(call)) => format!("{} → {} {}", call.from, call.to, call.what),
                _ => "something earlier".to_owned(),
            };
            spans.push(Span::styled(
                format!("↳ {}\n", shorten(&quote, self.body_columns().saturating_sub(3))),
                self.theme.dim(),
            ));
        }
        if !said.to.is_empty() {
            spans.extend(self.addressees(&said.to));
        }
        if said.markdown {
            spans.extend(markdown::spans(&said.text, self.theme));
        } else {
            spans.push(Span::raw(said.text.clone()));
        }
        let mark = match said.state {
            MessageState::AsSaid => None,
            MessageState::Edited => Some(format!(" {EDITED}")),
            MessageState::Retracted => Some(RETRACTED.to_owned()),
            MessageState::Redacted => Some(REDACTED_TEXT.to_owned()),
        };
        spans.extend(mark.map(|mark| Span::styled(mark, self.theme.dim())));
        if said.names_me {
            for span in &mut spans {
                span.style = span.style.patch(self.theme.notable());
            }
        }
        self.block(time, &spans, Some(&said.from))
    }

    fn call(&self, time: Option<String>, id: Option<&EnvelopeId>, call: &CallItem) -> Vec<Line<'static>> {
        let (theme, dim) = (self.theme, self.theme.dim());
        let mut spans = Vec::new();
        if call.question {
            spans.push(Span::styled(format!("? {}", call.details), theme.notable()));
            let open = self.questions.iter().position(|question| Some(&question.id) == id);
            if let Some(place) = open.filter(|_| call.outcome.is_none()) {
                let number = if self.questions.len() > 1 { format!("#{} ", place + 1) } else { String::new() };
                let form = self.questions[place].form.as_ref().map(|form| form.as_written()).unwrap_or_default();
                let shape: Vec<_> = form.iter().map(|field| format!("{}={}", field.name, field.kind)).collect();
                let shape = if shape.is_empty() { "TEXT".to_owned() } else { shape.join(" ") };
                spans.push(Span::styled(
                    format!("\n/answer {number}{shape} · /decline {number}").trim_end().to_owned(),
                    dim,
                ));
                return self.block(time, &spans, Some(&call.from));
            }
        } else {
            spans.push(Span::styled("→ ", dim));
            spans.push(Span::styled(call.to.to_string(), theme.name(&call.to)));
            spans.push(Span::styled(format!(" {}", call.what), theme.strong()));
            if !call.details.is_empty() {
                spans.push(Span::raw(format!(" {}", self.folded(&call.details))));
            }
        }
        match &call.outcome {
            Some(outcome) => self.with_outcome(time, &call.from, spans, outcome),
            None => {
                let state = if call.cancelled {
                    vec![Span::styled("⊘ cancelled", dim)]
                } else if call.is_running() {
                    self.running(call)
                } else {
                    vec![Span::styled("… no answer yet", dim)]
                };
                self.joined(time, &call.from, spans, state)
            }
        }
    }

    fn running(&self, call: &CallItem) -> Vec<Span<'static>> {
        let mut spans = vec![Span::styled(self.spinner(), self.theme.busy())];
        if let Some(CallProgress { done, total, message }) = &call.progress {
            match total {
                Some(total) => spans.extend(self.bar((done / total).clamp(0.0, 1.0))),
                None => spans.push(Span::raw(format!(" {}", shorten(&done.to_string(), 12)))),
            }
            if !message.is_empty() {
                spans.push(Span::raw(format!(" {}", shorten(message, self.body_columns()))));
            }
        }
        let elapsed = call.began.map(|began| self.now.since_start.saturating_sub(began).as_secs()).unwrap_or_default();
        if elapsed > 0 {
            spans.push(Span::styled(format!(" {elapsed}\u{a0}s"), self.theme.dim()));
        }
        spans
    }

    fn bar(&self, done: f64) -> [Span<'static>; 3] {
        let columns = if self.columns >= WIDE { 16 } else { 8 };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 100")]
        let (filled, percent) = ((done * columns as f64).round() as usize, (done * 100.0).round() as usize);
        let bar = |sign: &str, columns: usize| sign.repeat(columns);
        [
            Span::styled(format!(" {}", bar("█", filled)), self.theme.busy()),
            Span::styled(bar("░", columns - filled.min(columns)), self.theme.dim()),
            Span::raw(format!(" {percent}\u{a0}%")),
        ]
    }

    fn spinner(&self) -> &'static str {
        let step = self.now.since_start.as_millis() / 100 % SPINNER.len() as u128;
        SPINNER[usize::try_from(step).unwrap_or_default()]
    }

    fn with_outcome(
        &self,
        time: Option<String>,
        from: &ParticipantId,
        spans: Vec<Span<'static>>,
        outcome: &CallOutcome,
    ) -> Vec<Line<'static>> {
        let theme = self.theme;
        let (mark, style) = if outcome.well { ("✓", theme.good()) } else { ("✗", theme.bad()) };
        let mut state = vec![Span::styled(mark, style)];
        if !outcome.text.is_empty() {
            let style = if outcome.well { Style::default() } else { style };
            state.push(Span::styled(format!(" {}", self.few_lines(&outcome.text)), style));
        }
        if let Some(took) = outcome.took {
            state.push(Span::styled(format!(" ·\u{a0}{}", duration(took)), theme.dim()));
        }
        self.joined(time, from, spans, state)
    }

    /// A request and its state: in one line where both fit, else under each other.
    fn joined(
        &self,
        time: Option<String>,
        from: &ParticipantId,
        mut spans: Vec<Span<'static>>,
        state: Vec<Span<'static>>,
    ) -> Vec<Line<'static>> {
        let name = if self.columns >= WIDE { 0 } else { width(from.as_str()) + 1 };
        let whole: usize = spans.iter().chain(&state).map(|span| width(&span.content)).sum();
        let broken = spans.iter().chain(&state).any(|span| span.content.contains('\n'));
        let fits = !broken && name + whole + 2 <= self.body_columns();
        spans.push(Span::raw(if fits { "  " } else { "\n" }));
        spans.extend(state);
        self.block(time, &spans, Some(from))
    }

    /// Whom a message is for, each by name, as far as they are few.
    fn addressees(&self, to: &[ParticipantId]) -> Vec<Span<'static>> {
        let dim = self.theme.dim();
        let mut spans = vec![Span::styled("→ ", dim)];
        if to.len() > MAX_ADDRESSEES {
            spans.push(Span::raw(format!("{} participants", to.len())));
        } else {
            for (at, one) in to.iter().enumerate() {
                let comma = if at == 0 { "" } else { ", " };
                spans.extend([Span::styled(comma, dim), Span::styled(one.to_string(), self.theme.name(one))]);
            }
        }
        spans.push(Span::styled(": ", dim));
        spans
    }

    fn recipients(&self, to: &[ParticipantId]) -> Vec<Span<'static>> {
        match to {
            [] => vec![Span::raw("everybody ")],
            [one] => vec![Span::styled(one.to_string(), self.theme.name(one)), Span::raw(" ")],
            several => vec![Span::raw(format!("{} participants ", several.len()))],
        }
    }

    /// A text as far as it is shown in one go.
    fn folded(&self, text: &str) -> String {
        if self.all { text.to_owned() } else { shorten(&text.replace('\n', " "), self.body_columns().max(20) * 3 / 2) }
    }

    fn few_lines(&self, text: &str) -> String {
        let columns = self.body_columns().max(1);
        let mut budget = if self.all { MAX_LINES } else { FEW_LINES };
        let mut shown = Vec::new();
        for line in text.split('\n') {
            let lines = (width(line) + 2).div_ceil(columns).max(1);
            if lines > budget {
                shown.push(shorten(line, (budget * columns).saturating_sub(2)));
                if budget == 0 || self.all {
                    shown.pop();
                    shown.push("…".into());
                }
                break;
            }
            budget -= lines;
            shown.push(line.to_owned());
        }
        shown.join("\n")
    }

    /// How wide names stand beside each other, where there is room for it.
    fn name_columns(&self) -> usize {
        let most = match self.columns {
            ROOMY.. => 20,
            FAIR.. => 14,
            _ => 10,
        };
        self.longest_name.clamp(8, most)
    }

    /// Where the text of an item begins.
    fn indent(&self) -> usize {
        match self.columns {
            WIDE.. => 6 + self.name_columns() + 1,
            TIMED.. => 6,
            _ => 0,
        }
    }

    fn body_columns(&self) -> usize {
        self.columns.saturating_sub(self.indent())
    }

    /// Time and name, and the text beside them.
    fn block(&self, time: Option<String>, spans: &[Span<'_>], who: Option<&ParticipantId>) -> Vec<Line<'static>> {
        let name = who.map(|who| Span::styled(shorten(who.as_str(), self.name_columns()), self.theme.name(who)));
        if self.columns < WIDE {
            let body: Vec<_> =
                name.into_iter().flat_map(|name| [name, Span::raw(" ")]).chain(spans.iter().cloned()).collect();
            return self.beside(time, &body, self.columns);
        }
        let name = name.unwrap_or_default();
        let mut first = vec![self.time(time), Span::raw(" ".repeat(self.name_columns() - width(&name.content)))];
        first.extend([name, Span::raw(" ")]);
        self.under(first, self.indent(), spans, self.columns)
    }

    /// The time, and the text beside it.
    fn beside(&self, time: Option<String>, spans: &[Span<'_>], columns: usize) -> Vec<Line<'static>> {
        let indent = self.indent();
        let first = if indent > 0 { vec![self.time(time)] } else { Vec::new() };
        self.under(first, indent, spans, columns)
    }

    fn time(&self, time: Option<String>) -> Span<'static> {
        Span::styled(format!("{:<6}", time.unwrap_or_default()), self.theme.dim())
    }

    /// Text after what begins its first line, all of it under each other.
    fn under(
        &self,
        first: Vec<Span<'static>>,
        indent: usize,
        spans: &[Span<'_>],
        columns: usize,
    ) -> Vec<Line<'static>> {
        let mut wrapped = wrap(spans, columns.saturating_sub(indent));
        if wrapped.len() > MAX_LINES {
            wrapped.truncate(MAX_LINES);
            wrapped.push(Line::from(Span::styled("… too long to show", self.theme.dim())));
        }
        let mut lines: Vec<_> = wrapped.into_iter().map(|line| indented(indent, line)).collect();
        if indent > 0
            && let Some(line) = lines.first_mut()
        {
            line.spans.splice(..1, first);
        }
        lines
    }
}

fn indented(columns: usize, mut line: Line<'static>) -> Line<'static> {
    if columns > 0 {
        line.spans.insert(0, Span::raw(" ".repeat(columns)));
    }
    line
}
