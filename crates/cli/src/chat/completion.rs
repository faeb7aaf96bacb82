//! What could stand where the cursor is: commands, participants, tools, their arguments and the values of those. Pure.

use salon_protocol::{Participant, ParticipantId};

use super::commands::COMMANDS;
use super::event::ChatTool;
use super::theme::sign;
use crate::arguments::{ArgumentField, ArgumentSchema};

/// How many suggestions are made at most.
const MAX_SUGGESTIONS: usize = 200;

/// One thing that could stand there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Suggestion {
    pub(crate) text: String,
    pub(crate) about: String,
}

/// What could replace the text between `start` and the cursor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Completion {
    pub(crate) start: usize,
    pub(crate) suggestions: Vec<Suggestion>,
    /// Whose tools have to be known first.
    pub(crate) asks: Option<ParticipantId>,
}

/// What is known of the room.
pub(crate) struct CompletionSource<'a> {
    pub(crate) me: &'a ParticipantId,
    pub(crate) roster: &'a [Participant],
    /// The tools of a participant, when they have been asked for.
    pub(crate) tools: &'a dyn Fn(&ParticipantId) -> Option<&'a [ChatTool]>,
    /// The form of the question that `/answer` would answer.
    pub(crate) form: Option<&'a ArgumentSchema>,
}

/// What could stand at the end of a text.
pub(crate) fn complete(text: &str, known: &CompletionSource<'_>) -> Completion {
    let start =
        text.rfind(char::is_whitespace).map_or(0, |at| at + text[at..].chars().next().map_or(0, char::len_utf8));
    let (before, word) = text.split_at(start);
    let words: Vec<&str> = before.split_whitespace().collect();
    let found = |suggestions: Vec<Suggestion>| {
        let fits = |suggestion: &Suggestion| begins(&suggestion.text, word) && is_one_word(suggestion.text.trim_end());
        let mut suggestions: Vec<_> = suggestions.into_iter().filter(fits).collect();
        suggestions.truncate(MAX_SUGGESTIONS);
        Completion { start, suggestions, asks: None }
    };
    match &words[..] {
        [] if word.starts_with('/') && !word.starts_with("//") => found(
            COMMANDS.iter().map(|c| suggest(format!("/{} ", c.name), format!("{} {}", c.usage, c.about))).collect(),
        ),
        ["/call" | "/tools" | "/read" | "/cancel"] => found(participants(known, "", " ")),
        ["/call", to] => match ParticipantId::new(to).ok().map(|id| ((known.tools)(&id), id)) {
            Some((Some(tools), _)) => {
                found(tools.iter().map(|tool| suggest(format!("{} ", tool.name), tool.description.clone())).collect())
            }
            Some((None, id)) => Completion { start, asks: Some(id), ..Completion::default() },
            None => Completion::default(),
        },
        ["/call", to, tool, given @ ..] => match ParticipantId::new(to).ok().map(|id| ((known.tools)(&id), id)) {
            Some((Some(tools), _)) => {
                let fields = tools.iter().find(|known| known.name == *tool).map(|tool| tool.schema.fields());
                found(arguments(&fields.unwrap_or_default(), given, word))
            }
            Some((None, id)) => Completion { start, asks: Some(id), ..Completion::default() },
            None => Completion::default(),
        },
        ["/answer", given @ ..] => {
            found(arguments(&known.form.map(ArgumentSchema::fields).unwrap_or_default(), given, word))
        }
        _ if word.starts_with('@') => found(participants(known, "@", " ")),
        ["/reply", ..] | [] if !word.is_empty() && !word.starts_with('/') => found(participants(known, "", " ")),
        [first, ..] if !word.is_empty() && !first.starts_with('/') => found(participants(known, "", " ")),
        _ => Completion::default(),
    }
}

fn suggest(text: impl Into<String>, about: impl Into<String>) -> Suggestion {
    Suggestion { text: text.into(), about: about.into() }
}

fn participants(known: &CompletionSource<'_>, before: &str, after: &str) -> Vec<Suggestion> {
    let others = known.roster.iter().filter(|participant| participant.id != *known.me);
    let others = others.map(|participant| {
        let name = participant.name.as_deref().unwrap_or_default();
        suggest(format!("{before}{}{after}", participant.id), format!("{} {name}", sign(participant.kind)))
    });
    let mut all: Vec<_> = others.collect();
    all.sort_by_cached_key(|suggestion| suggestion.text.to_lowercase());
    if before.is_empty() {
        all.push(suggest(format!("{}{after}", ParticipantId::host()), "the gateway itself"));
    }
    all
}

fn arguments(fields: &[ArgumentField], given: &[&str], word: &str) -> Vec<Suggestion> {
    if let Some((name, _)) = word.split_once('=') {
        let choices = fields.iter().filter(|field| field.name == name).flat_map(|field| &field.choices);
        return choices.map(|choice| suggest(format!("{name}={} ", choice.value), choice.title.as_str())).collect();
    }
    let is_given =
        |field: &ArgumentField| given.iter().any(|pair| pair.split_once('=').is_some_and(|(key, _)| key == field.name));
    let open = fields.iter().filter(|field| !is_given(field));
    let about = |field: &ArgumentField| {
        let needed = if field.required { "" } else { " (optional)" };
        format!("{}{needed} {}", field.kind, field.description)
    };
    open.map(|field| suggest(format!("{}=", field.name), about(field))).collect()
}

/// Whether a suggestion goes on from what was typed, whatever its case.
fn begins(text: &str, typed: &str) -> bool {
    text.get(..typed.len()).is_some_and(|start| start.eq_ignore_ascii_case(typed))
}

/// Whether a name that others chose can be typed, and does nothing to the terminal.
fn is_one_word(text: &str) -> bool {
    !text.is_empty()
        && text == crate::safe::line(text)
        && !text.contains(|c: char| c.is_whitespace() || "'\"\\".contains(c))
}

/// The suggestions on show, and which of them stands in the line.
#[derive(Debug, Clone)]
pub(crate) struct Popup {
    pub(crate) start: usize,
    pub(crate) suggestions: Vec<Suggestion>,
    pub(crate) chosen: Option<usize>,
}

impl Popup {
    /// The next suggestion, or the one before.
    pub(crate) fn turn(&mut self, forward: bool) -> &str {
        let count = self.suggestions.len();
        let chosen = match (self.chosen, forward) {
            (None, true) => 0,
            (None, false) => count - 1,
            (Some(chosen), true) => (chosen + 1) % count,
            (Some(chosen), false) => (chosen + count - 1) % count,
        };
        self.chosen = Some(chosen);
        &self.suggestions[chosen].text
    }

    /// What all suggestions begin with.
    pub(crate) fn common(&self) -> &str {
        let first = self.suggestions.first().map_or("", |suggestion| &suggestion.text);
        let shared =
            |a: &str, b: &str| a.char_indices().zip(b.chars()).find(|((_, a), b)| a != b).map(|((at, _), _)| at);
        let common = self.suggestions.iter().filter_map(|other| shared(first, &other.text)).min();
        let shortest = self.suggestions.iter().map(|other| other.text.len()).min().unwrap_or(0);
        &first[..common.unwrap_or(shortest.min(first.len()))]
    }
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn suggested(text: &str) -> String {
        let schema = r#"{"properties":{"x":{"type":"number","description":"east"},"gear":{"enum":["slow","fast"]}},"required":["x"]}"#;
        let schema = ArgumentSchema::new(Some(serde_json::from_str(schema).expect("a schema")));
        let tool = |name: &str| ChatTool { name: name.into(), description: format!("{name}s"), schema: schema.clone() };
        let tools = [tool("move"), tool("measure"), tool("mean\u{1b}[2J"), tool("my tool")];
        let roster: Vec<Participant> = ["Rover", "alice", "bob", "me"]
            .iter()
            .map(|id| serde_json::from_value(serde_json::json!({"id": id, "name": id.to_uppercase()})).expect("one"))
            .collect();
        let me = ParticipantId::new("me").expect("an id");
        let of = |id: &ParticipantId| (id.as_str() == "Rover").then_some(&tools[..]);
        let known = CompletionSource { me: &me, roster: &roster, tools: &of, form: Some(&schema) };
        let Completion { start, suggestions, asks } = complete(text, &known);
        let texts: Vec<_> = suggestions.iter().map(|s| format!("{:?}", s.text)).collect();
        let asks = asks.map(|id| format!(" asks {id}")).unwrap_or_default();
        format!("{start} {}{asks}", texts.join(" "))
    }

    #[test]
    fn what_could_stand_there() {
        assert_snapshot!(suggested("/c"), @r#"0 "/call " "/cancel ""#);
        assert_snapshot!(suggested("//c"), @"0");
        assert_snapshot!(suggested("/call "), @r#"6 "alice " "bob " "Rover " "system:gateway ""#);
        assert_snapshot!(suggested("/call r"), @r#"6 "Rover ""#);
        assert_snapshot!(suggested("/call Rover m"), @r#"12 "move " "measure ""#);
        assert_snapshot!(suggested("/call bob m"), @"10  asks bob");
        assert_snapshot!(suggested("/call Rover move "), @r#"17 "x=" "gear=""#);
        assert_snapshot!(suggested("/call Rover move x=1 "), @r#"21 "gear=""#);
        assert_snapshot!(suggested("/call Rover move gear="), @r#"17 "gear=slow " "gear=fast ""#);
        assert_snapshot!(suggested("/call Rover move gear=f"), @r#"17 "gear=fast ""#);
        assert_snapshot!(suggested("/answer g"), @r#"8 "gear=""#);
        assert_snapshot!(suggested("well, @A"), @r#"6 "@alice ""#);
        assert_snapshot!(suggested("日本 @b"), @r#"7 "@bob ""#);
        assert_snapshot!(suggested("/reply @b"), @r#"7 "@bob ""#);
        assert_snapshot!(suggested("bo"), @r#"0 "bob ""#);
        assert_snapshot!(suggested("right, b"), @r#"7 "bob ""#);
        assert_snapshot!(suggested("plain"), @"0");
        assert_snapshot!(suggested(""), @"0");
    }

    #[test]
    fn suggestions_take_turns_after_what_they_share() {
        let suggestions = ["move ", "mow ", "mop"].iter().map(|text| suggest(*text, "")).collect();
        let mut popup = Popup { start: 0, suggestions, chosen: None };
        assert_eq!(popup.common(), "mo");
        assert_eq!(popup.turn(false), "mop");
        assert_eq!(popup.turn(true), "move ");
        assert_eq!(popup.turn(true), "mow ");
        popup.suggestions.truncate(1);
        assert_eq!(popup.common(), "move ");
    }
}
