//! The file: the form of `salon.toml` and the errors it can have. Variables and flags fill the same form.

use std::collections::BTreeMap;
use std::path::Path;

use salon_protocol::TopicName;
use serde::Deserialize;
use toml::de::DeTable;

use super::guest::{GuestKey, GuestOf};
use super::{ConfigError, Overrides, RetentionOverrides, renamed};

/// A topic's name in the file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct TopicKey(pub TopicName);

impl TryFrom<String> for TopicKey {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        TopicName::new(&text).map(Self).map_err(|why| format!("`{text}` is not a topic's name: {why}"))
    }
}

/// What one topic has of its own.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TopicOf {
    /// Whether it has a history.
    pub history: Option<bool>,
    /// How long its entries are kept.
    pub retention: RetentionOverrides,
    /// MCP servers to bring into it.
    pub guests: BTreeMap<GuestKey, GuestOf>,
}

impl Overrides {
    /// Reads a file. Its relative paths are taken from its own folder.
    pub fn from_file(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.into(), source })?;
        let mut given: Self = toml::from_str(&text).map_err(|error| explain(path, &text, &error))?;
        given.resolve(path.parent().unwrap_or(Path::new("")));
        Ok(given)
    }
}

fn explain(path: &Path, text: &str, error: &toml::de::Error) -> ConfigError {
    let place = error.span().map_or(0, |span| span.start);
    let line = line_at(text, place);
    let message = error.message().trim_end();
    let (message, hint) = match message.strip_prefix("unknown field `") {
        // What follows is the list of the keys there are, each in backticks.
        Some(rest) => {
            let mut quoted = rest.split('`').step_by(2);
            let wrong = quoted.next().unwrap_or_default();
            let known: Vec<_> = quoted.collect();
            let hint = match renamed_hint(text, place).or_else(|| near_hint(wrong, &known)) {
                Some(hint) => hint,
                None => format!("the keys here are {}", known.join(", ")),
            };
            (format!("unknown key `{wrong}`"), Some(hint))
        }
        None => (message.to_owned(), None),
    };
    ConfigError::File { path: path.into(), line, message, hint }
}

fn near_hint(wrong: &str, known: &[&str]) -> Option<String> {
    nearest(wrong, known.iter().copied(), 2).map(|key| format!("did you mean `{key}`?"))
}

/// What a key of an earlier version is called now, if there is one at a place in a text.
fn renamed_hint(text: &str, place: usize) -> Option<String> {
    let whole = DeTable::parse(text).ok()?;
    let key = key_at(whole.get_ref(), place)?;
    let told: Vec<_> =
        renamed::by_key(&key).iter().map(|(old, new)| format!("`{old}` is called `{}` now", new.key)).collect();
    (!told.is_empty()).then(|| told.join(", "))
}

/// The key that stands at a place in a text, with its sections: `log.url`.
fn key_at(table: &DeTable<'_>, place: usize) -> Option<String> {
    table.iter().find_map(|(key, value)| {
        if key.span().start == place {
            return Some(key.get_ref().to_string());
        }
        let inner = key_at(value.get_ref().as_table()?, place)?;
        Some(format!("{}.{inner}", key.get_ref()))
    })
}

/// The line of a place in a text, the first being 1.
fn line_at(text: &str, place: usize) -> usize {
    let before = text.as_bytes().get(..place).unwrap_or_default();
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

/// The line where a text gives a key such as `tls.cert`.
pub(super) fn line_of(text: &str, key: &str) -> Option<usize> {
    let whole = DeTable::parse(text).ok()?;
    let (section, name) = key.rsplit_once('.').map_or((None, key), |(section, name)| (Some(section), name));
    let table = match section {
        Some(section) => whole.get_ref().get(section)?.get_ref().as_table()?,
        None => whole.get_ref(),
    };
    let (found, _) = table.iter().find(|(known, _)| known.get_ref() == name)?;
    Some(line_at(text, found.span().start))
}

/// The known word that is nearest to a wrong one, if no more than `most` letters are different.
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>, most: usize) -> Option<&'a str> {
    let near = known.into_iter().map(|word| (strsim::levenshtein(wrong, word), word)).min()?;
    Some(near).filter(|(distance, _)| *distance <= most).map(|(_, word)| word)
}
