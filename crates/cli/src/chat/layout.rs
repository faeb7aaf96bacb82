//! The transcript as lines of some width, and moving about in them.
//!
//! A place is a block and a line in it. The blocks are the head (what there is before the window), every item, and the tail (what is
//! being sent). Only blocks that are looked at are laid out.

use std::time::Duration;

use ratatui::text::Line;

use super::blocks::Look;
use super::item::{ChatItem, ItemBody};
use super::transcript::{ChatTranscript, OlderHistory};

/// Where the view begins: the key of an item and a line in it; none keeps to the end.
pub(crate) type Anchor = Option<(i64, usize)>;

/// Something on its way into the room.
#[derive(Debug, Clone)]
pub(crate) struct PendingLine {
    pub(crate) line: String,
    pub(crate) stage: &'static str,
}

/// The whole transcript, laid out where it is looked at.
pub(crate) struct Sheet<'a> {
    pub(crate) transcript: &'a ChatTranscript,
    pub(crate) pending: &'a [PendingLine],
    pub(crate) look: Look<'a>,
    /// The first item that came while the person looked elsewhere.
    pub(crate) marker: Option<i64>,
}

/// A block and a line in it.
type LinePosition = (usize, usize);

pub(crate) struct VisibleLines {
    pub(crate) lines: Vec<Line<'static>>,
    /// Whether the head is in sight.
    pub(crate) at_top: bool,
}

impl Sheet<'_> {
    /// What is seen through a window of some height.
    pub(crate) fn window(&self, anchor: Anchor, height: usize) -> VisibleLines {
        let top = self.top(anchor, height);
        let mut lines = Vec::new();
        let mut skip = top.1;
        for index in top.0..self.count() {
            lines.extend(self.block(index).into_iter().skip(std::mem::take(&mut skip)));
            if lines.len() >= height {
                break;
            }
        }
        lines.truncate(height);
        VisibleLines { lines, at_top: top.0 == 0 }
    }

    /// The anchor after moving by some lines, downwards when positive.
    pub(crate) fn moved(&self, anchor: Anchor, height: usize, lines: isize) -> Anchor {
        let top = self.top(anchor, height);
        let top = if lines < 0 { self.above(top, lines.unsigned_abs()) } else { self.below(top, lines.unsigned_abs()) };
        self.anchored(top, height)
    }

    /// The anchor at the very beginning.
    pub(crate) fn start(&self, height: usize) -> Anchor {
        self.anchored((0, 0), height)
    }

    /// The anchor at an item, unless the end is in sight from there.
    pub(crate) fn at(&self, key: i64, height: usize) -> Anchor {
        self.anchored((1 + self.transcript.items().partition_point(|item| item.key < key), 0), height)
    }

    /// An anchor at a place, unless the end is in sight from there.
    fn anchored(&self, place: LinePosition, height: usize) -> Anchor {
        let end = self.top(None, height);
        (place < end).then(|| (self.key(place.0), place.1))
    }

    fn top(&self, anchor: Anchor, height: usize) -> LinePosition {
        let end = self.above((self.count(), 0), height);
        let Some((key, line)) = anchor else { return end };
        let index = match key {
            i64::MIN => 0,
            key => 1 + self.transcript.items().partition_point(|item| item.key < key),
        };
        let height = self.block(index).len();
        // The item may have become shorter, or have been let go.
        end.min((index, line.min(height.saturating_sub(1))))
    }

    fn above(&self, (mut index, line): LinePosition, lines: usize) -> LinePosition {
        let mut wanted = lines;
        if line >= wanted {
            return (index, line - wanted);
        }
        wanted -= line;
        while index > 0 {
            index -= 1;
            let height = self.block(index).len();
            if height >= wanted {
                return (index, height - wanted);
            }
            wanted -= height;
        }
        (0, 0)
    }

    fn below(&self, (mut index, line): LinePosition, lines: usize) -> LinePosition {
        let mut wanted = line + lines;
        while index < self.count() {
            let height = self.block(index).len();
            if height > wanted {
                break;
            }
            wanted -= height;
            index += 1;
        }
        (index, wanted)
    }

    fn count(&self) -> usize {
        self.transcript.items().len() + 2
    }

    fn key(&self, index: usize) -> i64 {
        match index.checked_sub(1) {
            None => i64::MIN,
            Some(at) => self.transcript.items().get(at).map_or(i64::MAX, |item| item.key),
        }
    }

    fn block(&self, index: usize) -> Vec<Line<'static>> {
        let items = self.transcript.items();
        let Some(at) = index.checked_sub(1) else { return self.head() };
        let Some(item) = items.get(at) else { return if at == items.len() { self.tail() } else { Vec::new() } };
        if !self.shows(item) {
            return Vec::new();
        }
        let before = items.range(..at).rev().find(|item| self.shows(item));
        if before.is_some_and(|before| self.look.is_together(before, item)) {
            return Vec::new();
        }
        let mut lines = Vec::new();
        let day = self.look.day(item);
        if before.map(|before| self.look.day(before)).as_ref() != Some(&day) {
            lines.push(self.look.rule(&day, self.look.theme.dim()));
        }
        if self.marker.is_some_and(|marker| item.key >= marker && before.is_some_and(|before| before.key < marker)) {
            lines.push(self.look.rule("new", self.look.theme.notable()));
        }
        if matches!(item.body, ItemBody::Presence { .. }) {
            let after = items.range(at + 1..).filter(|item| self.shows(item));
            let mut last = item;
            let after = after.take_while(|other| self.look.is_together(std::mem::replace(&mut last, other), other));
            lines.extend(self.look.presence(std::iter::once(item).chain(after)));
        } else {
            lines.extend(self.look.lines(item, self.transcript));
        }
        lines
    }

    fn shows(&self, item: &ChatItem) -> bool {
        self.look.all || !item.is_minor()
    }

    fn head(&self) -> Vec<Line<'static>> {
        let dim = self.look.theme.dim();
        match &self.transcript.older {
            OlderHistory::Perhaps => vec![self.look.rule("more above", dim)],
            OlderHistory::Loading => vec![self.look.rule("loading …", dim)],
            OlderHistory::None => vec![self.look.rule("beginning of history", dim)],
            OlderHistory::Failed(why) => {
                vec![self.look.rule(&format!("older messages cannot be loaded: {why}"), self.look.theme.bad())]
            }
        }
    }

    fn tail(&self) -> Vec<Line<'static>> {
        if self.transcript.is_detached() {
            return vec![self.look.rule("End goes to the present", self.look.theme.notable())];
        }
        self.pending.iter().flat_map(|pending| self.look.pending(pending)).collect()
    }
}

/// How long something took, for people. Its blanks do not break lines.
pub(crate) fn duration(took: Duration) -> String {
    let seconds = took.as_secs();
    match seconds {
        0 => format!("{}\u{a0}ms", took.as_millis()),
        1..=9 => format!("{:.1}\u{a0}s", took.as_secs_f64()),
        10..=59 => format!("{seconds}\u{a0}s"),
        _ => format!("{}\u{a0}min\u{a0}{}\u{a0}s", seconds / 60, seconds % 60),
    }
}
