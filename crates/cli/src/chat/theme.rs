//! How things look. Without colour, weight, marks and words still distinguish everything.

use std::collections::HashMap;

use ratatui::style::{Color, Modifier, Style};
use salon_protocol::{ParticipantId, ParticipantKind};

/// Readable on light and dark.
const COLOURS: [Color; 7] =
    [Color::Cyan, Color::Magenta, Color::Green, Color::Blue, Color::Yellow, Color::LightBlue, Color::LightMagenta];

/// How many participants keep a colour of their own choosing; later ones get the one their id falls on.
const MAX_REMEMBERED: usize = 1024;

#[derive(Debug, Clone)]
pub(crate) struct Theme {
    colour: bool,
    chosen: HashMap<ParticipantId, usize>,
}

impl Theme {
    pub(crate) fn new(colour: bool) -> Self {
        Self { colour, chosen: HashMap::new() }
    }

    /// Gives a participant a colour, if possible one nobody has yet.
    pub(crate) fn meet(&mut self, id: &ParticipantId) {
        if self.chosen.len() < MAX_REMEMBERED && !self.chosen.contains_key(id) {
            let wanted = falls_on(id);
            let order = (0..COLOURS.len()).map(|step| (wanted + step) % COLOURS.len());
            let free = order.clone().find(|place| !self.chosen.values().any(|taken| taken == place));
            self.chosen.insert(id.clone(), free.unwrap_or(wanted));
        }
    }

    pub(crate) fn name(&self, id: &ParticipantId) -> Style {
        let place = self.chosen.get(id).copied().unwrap_or_else(|| falls_on(id));
        self.coloured(COLOURS[place]).add_modifier(Modifier::BOLD)
    }

    pub(crate) fn dim(&self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(crate) fn strong(&self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(crate) fn emphasis(&self) -> Style {
        Style::new().add_modifier(Modifier::ITALIC)
    }

    pub(crate) fn code(&self) -> Style {
        if self.colour { Style::new().fg(Color::Cyan) } else { Style::new().add_modifier(Modifier::UNDERLINED) }
    }

    pub(crate) fn good(&self) -> Style {
        self.coloured(Color::Green)
    }

    pub(crate) fn bad(&self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub(crate) fn busy(&self) -> Style {
        self.coloured(Color::Yellow)
    }

    /// What the person should not overlook: their name, a question, what is new.
    pub(crate) fn notable(&self) -> Style {
        self.coloured(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    pub(crate) fn bar(&self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    fn coloured(&self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }
}

fn falls_on(id: &ParticipantId) -> usize {
    let hash = id
        .as_str()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    usize::try_from(hash % COLOURS.len() as u64).unwrap_or_default()
}

/// The sign of a kind; one column wide everywhere.
pub(crate) fn sign(kind: Option<ParticipantKind>) -> &'static str {
    match kind {
        Some(ParticipantKind::Human) => "●",
        Some(ParticipantKind::Agent) => "◆",
        Some(ParticipantKind::Robot) => "■",
        None => "·",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_long_as_there_are_colours_nobody_shares_one() {
        let mut theme = Theme::new(true);
        let ids: Vec<_> = (0..COLOURS.len()).map(|n| ParticipantId::new(format!("p{n}")).expect("an id")).collect();
        ids.iter().for_each(|id| theme.meet(id));
        let mut seen: Vec<_> =
            ids.iter().filter_map(|id| theme.name(id).fg).map(|colour| format!("{colour}")).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), COLOURS.len());
    }

    #[test]
    fn without_colour_there_is_none() {
        let theme = Theme::new(false);
        let id = ParticipantId::new("alice").expect("an id");
        let styles =
            [theme.name(&id), theme.code(), theme.good(), theme.bad(), theme.busy(), theme.notable(), theme.bar()];
        assert!(styles.iter().all(|style| style.fg.is_none() && style.bg.is_none()));
    }
}
