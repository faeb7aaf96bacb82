//! `[bridges.NAME]`: what a bridge is told. The members that all platforms have are read here; the rest is read by the platform's module.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use salon_protocol::{ParticipantId, TopicName};
use serde::Deserialize;
use toml::Table;

use crate::platform::{DriverError, PlatformChannel};

/// A bridge, as configured.
#[derive(Debug, Clone, PartialEq)]
pub struct BridgeConfig {
    /// NAME of `[bridges.NAME]`.
    pub name: String,
    /// `irc`, `xmpp`, `matrix`, `slack`, `discord`.
    pub platform: String,
    /// What the ids of its ghosts begin with, without the colon.
    pub namespace: String,
    pub channels: BTreeMap<PlatformChannel, TopicName>,
    pub options: BridgeOptions,
    /// The members that are the platform's own.
    pub platform_options: Table,
    /// Where relative paths begin.
    pub directory: PathBuf,
}

/// How messages are shown, and how much is kept and waits.
#[derive(Debug, Clone, PartialEq)]
pub struct BridgeOptions {
    pub calls: CallDisplay,
    /// Whether joins and leaves of the room are shown on the platform.
    pub show_joins: bool,
    /// Whether messages of other bots come into the room.
    pub relay_bots: bool,
    /// Whether everybody in the channel is in the room, or only those that have spoken.
    pub seat_everybody: bool,
    pub max_ghosts: usize,
    /// Whether people of the platform may call tools (`!call`).
    pub ghosts_call: bool,
    /// Ids of ghosts that may decide about held calls.
    pub approvers: BTreeSet<ParticipantId>,
    /// How many messages wait in each direction at most.
    pub max_queue: usize,
    pub max_queue_bytes: usize,
    /// How many messages are remembered for replies and edits.
    pub max_mapped: usize,
    pub mapped_for: Duration,
}

impl Default for BridgeOptions {
    fn default() -> Self {
        Self {
            calls: CallDisplay::Summary,
            show_joins: false,
            relay_bots: false,
            seat_everybody: false,
            max_ghosts: 500,
            ghosts_call: false,
            approvers: BTreeSet::new(),
            max_queue: 500,
            max_queue_bytes: 1 << 20,
            max_mapped: 10_000,
            mapped_for: Duration::from_secs(30 * 24 * 60 * 60),
        }
    }
}

/// What of calls is shown on the platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallDisplay {
    None,
    /// One line with the call and how it ended.
    Summary,
    /// The arguments and the result as well.
    Full,
}

/// The members that all platforms have, as they are written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CommonMembers {
    platform: String,
    namespace: Option<String>,
    channels: BTreeMap<String, String>,
    calls: Option<CallDisplay>,
    joins: Option<bool>,
    relay_bots: Option<bool>,
    seat: Option<SeatPolicy>,
    ghosts_max: Option<usize>,
    ghosts_call: Option<bool>,
    approvers: Option<Vec<String>>,
    queue: Option<usize>,
}

/// Who is in the room.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum SeatPolicy {
    Speakers,
    Everybody,
}

const COMMON: [&str; 11] = [
    "platform",
    "namespace",
    "channels",
    "calls",
    "joins",
    "relay_bots",
    "seat",
    "ghosts_max",
    "ghosts_call",
    "approvers",
    "queue",
];

/// What is wrong with the configuration of a bridge.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("bridges.{bridge}: {reason}")]
pub struct BridgeConfigError {
    pub bridge: String,
    pub reason: String,
}

impl BridgeConfig {
    /// Reads the table `[bridges.NAME]`. Relative paths in it begin at `directory`.
    pub fn read(name: &str, table: &Table, directory: &Path) -> Result<Self, BridgeConfigError> {
        let wrong = |reason: String| BridgeConfigError { bridge: name.into(), reason };
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.is_empty() || name.len() > 32 || !name.chars().all(is_name) {
            return Err(wrong("a bridge's name has 1 to 32 letters, digits, `-` and `_`".into()));
        }
        let (common, platform_options): (Table, Table) =
            table.clone().into_iter().partition(|(key, _)| COMMON.contains(&&**key));
        let common: CommonMembers =
            common.try_into().map_err(|error: toml::de::Error| wrong(error.message().into()))?;
        let namespace = common.namespace.unwrap_or_else(|| common.platform.clone());
        if namespace.is_empty() || namespace.len() > 32 || !namespace.chars().all(is_name) {
            return Err(wrong(format!("`namespace`: `{namespace}` is not 1 to 32 letters, digits, `-` and `_`")));
        }
        let mut topics = BTreeSet::new();
        let mut channels = BTreeMap::new();
        for (channel, topic) in common.channels {
            let topic =
                TopicName::new(&topic).map_err(|error| wrong(format!("`channels`: topic `{topic}`: {error}")))?;
            if !topics.insert(topic.clone()) {
                // What one channel says would have to be shown in the other by this bridge itself.
                return Err(wrong(format!(
                    "`channels`: topic `{topic}` has two channels; use a second bridge for one of them"
                )));
            }
            channels.insert(PlatformChannel(channel), topic);
        }
        if channels.is_empty() {
            return Err(wrong(
                "`channels` is empty: name at least one, such as `channels = { \"#lab\" = \"room:lab\" }`".into(),
            ));
        }
        let approvers = common.approvers.unwrap_or_default().into_iter().map(|id| {
            let is_ghost = id.strip_prefix(&*namespace).is_some_and(|rest| rest.len() > 1 && rest.starts_with(':'));
            let parsed = ParticipantId::new(&id).map_err(|error| wrong(format!("`approvers`: `{id}`: {error}")))?;
            if is_ghost {
                Ok(parsed)
            } else {
                Err(wrong(format!("`approvers`: `{id}` does not begin with `{namespace}:`")))
            }
        });
        let usual = BridgeOptions::default();
        let options = BridgeOptions {
            calls: common.calls.unwrap_or(usual.calls),
            show_joins: common.joins.unwrap_or(usual.show_joins),
            relay_bots: common.relay_bots.unwrap_or(usual.relay_bots),
            seat_everybody: matches!(common.seat, Some(SeatPolicy::Everybody)),
            max_ghosts: common.ghosts_max.unwrap_or(usual.max_ghosts).max(1),
            ghosts_call: common.ghosts_call.unwrap_or(usual.ghosts_call),
            approvers: approvers.collect::<Result<_, _>>()?,
            max_queue: common.queue.unwrap_or(usual.max_queue).max(1),
            ..usual
        };
        let (name, platform) = (name.to_owned(), common.platform);
        Ok(Self { name, platform, namespace, channels, options, platform_options, directory: directory.into() })
    }

    /// Reads the members that are the platform's own.
    pub fn platform_members<T: for<'de> Deserialize<'de>>(&self) -> Result<T, DriverError> {
        let read = self.platform_options.clone().try_into();
        read.map_err(|error: toml::de::Error| DriverError(format!("bridges.{}: {}", self.name, error.message())))
    }

    /// The bridge's own id in its rooms.
    pub fn participant(&self) -> ParticipantId {
        ParticipantId::new(format!("bridge:{}", self.name)).expect("a bridge's name has characters that an id may have")
    }

    /// A path of the configuration.
    pub fn path(&self, path: &Path) -> PathBuf {
        self.directory.join(path)
    }

    /// Reads a file with a secret. One that other users can read is refused.
    pub fn secret(&self, path: &Path) -> Result<PlatformSecret, DriverError> {
        let path = self.path(path);
        let shown = path.display();
        let unreadable = |error: std::io::Error| DriverError(format!("`{shown}` cannot be read: {error}"));
        if !path.exists() {
            return Err(DriverError(format!(
                "`{shown}` does not exist; write the secret into it, and let only its owner read it (`chmod 600`)"
            )));
        }
        let mode = std::fs::metadata(&path).map_err(unreadable)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(DriverError(format!(
                "`{shown}` is open to other users (mode {mode:03o}); run `chmod 600` on it"
            )));
        }
        let text = std::fs::read_to_string(&path).map_err(unreadable)?;
        let text = text.trim();
        if text.is_empty() || text.contains(char::is_control) {
            return Err(DriverError(format!("`{shown}` must have one line, the secret")));
        }
        Ok(PlatformSecret(text.to_owned()))
    }
}

/// A password or a token. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct PlatformSecret(String);

impl PlatformSecret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the wire alone.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PlatformSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlatformSecret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<BridgeConfig, String> {
        let table = toml::from_str(text).expect("a table");
        BridgeConfig::read("office", &table, Path::new("/etc/salon")).map_err(|error| error.to_string())
    }

    #[test]
    fn common_members_are_read_and_the_rest_is_the_platforms() {
        let config = read("platform = 'irc'\nserver = 'irc.example:6697'\nchannels = { '#lab' = 'room:lab' }\napprovers = ['irc:ann']").expect("a bridge");
        assert_eq!(config.namespace, "irc");
        assert_eq!(config.participant().as_str(), "bridge:office");
        assert_eq!(config.platform_options.keys().collect::<Vec<_>>(), ["server"]);
    }

    #[test]
    fn mistakes_are_named() {
        let wrong = |text: &str| read(text).expect_err(text);
        assert_eq!(
            wrong("platform = 'irc'\nchannels = {}"),
            "bridges.office: `channels` is empty: name at least one, such as `channels = { \"#lab\" = \"room:lab\" }`"
        );
        assert_eq!(
            wrong("platform = 'irc'\nchannels = { '#a' = 'r', '#b' = 'r' }"),
            "bridges.office: `channels`: topic `r` has two channels; use a second bridge for one of them"
        );
        assert_eq!(
            wrong("platform = 'irc'\nchannels = { '#a' = 'r' }\napprovers = ['ann']"),
            "bridges.office: `approvers`: `ann` does not begin with `irc:`"
        );
        assert_eq!(
            wrong("platform = 'irc'\nchannels = { '#a' = 'r' }\ncalls = 'all'"),
            "bridges.office: unknown variant `all`, expected one of `none`, `summary`, `full`"
        );
    }
}
