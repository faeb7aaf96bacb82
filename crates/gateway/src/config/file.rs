//! The settings as somebody gave them: the form of `salon.toml`, and of what variables and flags add to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use salon_protocol::TopicName;
use serde::Deserialize;
use toml::de::DeTable;

use super::ConfigError;
use super::guest::{GuestKey, GuestOf};
use super::value::{
    Address, Count, Deadline, Depth, Durable, Format, HostName, IntegrityKey, Issuer, KeysAt, LogName, LogUrl, Origin,
    PublicUrl, Replicas, Size, Span, ToolPattern, Topics,
};

/// Every setting, where it was given. The file has this form; the command line fills the same from variables and flags.
/// docs/configuration.md describes every key, and a test holds it to that.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Overrides {
    pub listen: Option<Address>,
    pub data: Option<PathBuf>,
    pub dev: Option<bool>,
    pub plaintext: Option<bool>,
    pub framed: FramedOf,
    pub tls: Tls,
    pub log: Log,
    pub retention: RetentionOf,
    pub limits: LimitsOf,
    pub memory: MemoryOf,
    pub times: TimesOf,
    pub http: HttpOf,
    pub auth: AuthOf,
    pub ui: UiOf,
    pub tracing: TracingOf,
    pub audit: AuditOf,
    pub topics: BTreeMap<TopicKey, TopicOf>,
}

macro_rules! sections {
    ($($name:ident { $($key:ident: $value:ty,)* })*) => {$(
        #[derive(Debug, Clone, Default, PartialEq, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $(pub $key: Option<$value>,)*
        }
    )*};
}

sections! {
    FramedOf { listen: Address, }
    Tls { cert: PathBuf, key: PathBuf, }
    Log {
        url: LogUrl, name: LogName, credentials: PathBuf, ca: PathBuf, cert: PathBuf, key: PathBuf, replicas: Replicas, topics: Topics,
        durability: Durable,
    }
    RetentionOf { age: Span, count: Count, }
    LimitsOf {
        message: Size, depth: Depth, recipients: Count, rate: Count, burst: Count, participants: Count,
        connections_per_participant: Count, connections_per_address: Count,
    }
    MemoryOf { per_room: Size, total: Size, }
    TimesOf {
        write_deadline: Deadline, ping_interval: Deadline, silence_limit: Deadline, crash_grace: Span, drain_deadline: Span,
        heartbeat: Span,
    }
    HttpOf { origins: Vec<Origin>, hosts: Vec<HostName>, public_url: PublicUrl, }
    AuthOf { jwks: KeysAt, authorization_servers: Vec<Issuer>, integrity_keys: Vec<IntegrityKey>, }
    UiOf { enabled: bool, allow: Vec<ToolPattern>, }
    TracingOf { format: Format, filter: String, }
    AuditOf { enabled: bool, file: PathBuf, }
}

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
    pub history: Option<bool>,
    pub retention: RetentionOf,
    pub guests: BTreeMap<GuestKey, GuestOf>,
}

impl Overrides {
    /// Reads a file. Its relative paths are taken from its own folder.
    pub fn from_file(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.into(), source })?;
        let mut given: Self = toml::from_str(&text).map_err(|error| explain(path, &text, &error))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let log = &mut given.log;
        let places = [&mut given.data, &mut given.tls.cert, &mut given.tls.key, &mut given.audit.file];
        let of_log = [&mut log.credentials, &mut log.ca, &mut log.cert, &mut log.key];
        for place in places.into_iter().chain(of_log).flatten() {
            *place = folder.join(&*place);
        }
        given.auth.jwks = given.auth.jwks.map(|KeysAt(source)| KeysAt(source.relative_to(folder)));
        Ok(given)
    }

    /// Whether one of the settings that can contradict each other is given.
    pub(super) fn gives(&self, key: &str) -> bool {
        match key {
            "listen" => self.listen.is_some(),
            "framed.listen" => self.framed.listen.is_some(),
            "dev" => self.dev.is_some(),
            "tls.cert" => self.tls.cert.is_some(),
            "tls.key" => self.tls.key.is_some(),
            "log.url" => self.log.url.is_some(),
            "log.credentials" => self.log.credentials.is_some(),
            "log.ca" => self.log.ca.is_some(),
            "log.cert" => self.log.cert.is_some(),
            "log.key" => self.log.key.is_some(),
            "memory.per_room" => self.memory.per_room.is_some(),
            "memory.total" => self.memory.total.is_some(),
            "times.ping_interval" => self.times.ping_interval.is_some(),
            "times.silence_limit" => self.times.silence_limit.is_some(),
            _ => false,
        }
    }
}

fn explain(path: &Path, text: &str, error: &toml::de::Error) -> ConfigError {
    let line = line_at(text, error.span().map_or(0, |span| span.start));
    let message = error.message().trim_end();
    let (message, hint) = match message.strip_prefix("unknown field `") {
        // What follows is the list of the keys there are, each in backticks.
        Some(rest) => {
            let mut quoted = rest.split('`').step_by(2);
            let wrong = quoted.next().unwrap_or_default();
            let known: Vec<_> = quoted.collect();
            let hint = match nearest(wrong, known.iter().copied(), 2) {
                Some(key) => format!("did you mean `{key}`?"),
                None => format!("the keys here are {}", known.join(", ")),
            };
            (format!("unknown key `{wrong}`"), Some(hint))
        }
        None => (message.to_owned(), None),
    };
    ConfigError::File { path: path.into(), line, message, hint }
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
