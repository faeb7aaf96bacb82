//! From what was given to what the gateway runs by: the sources in their order, then the rules that concern several settings.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use salon_protocol::ParticipantId;

use super::file::{TopicKey, TopicOf, line_of};
use super::guest::{Guest, GuestKey};
use super::{Config, Overrides};

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("the configuration file `{}` could not be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Something in the file is not understood.
    #[error("{}:{line}: {message}{}", path.display(), hinted(hint.as_deref()))]
    File {
        /// The file.
        path: PathBuf,
        /// The line, the first being 1.
        line: usize,
        /// What is wrong.
        message: String,
        /// What might help.
        hint: Option<String>,
    },
    /// Settings that do not go together, wherever they came from.
    #[error("{}{message}{}", placed(at.as_ref()), hinted(Some(hint)))]
    Conflict {
        /// The keys that say so, the likeliest to be wrong first.
        keys: &'static [&'static str],
        /// Where a file gives the first of them that nothing overrides: the file and the line.
        at: Option<(PathBuf, usize)>,
        /// What is wrong.
        message: String,
        /// What might help.
        hint: &'static str,
    },
}

fn placed(at: Option<&(PathBuf, usize)>) -> String {
    at.map(|(path, line)| format!("{}:{line}: ", path.display())).unwrap_or_default()
}

fn refuse(keys: &'static [&'static str], message: String, hint: &'static str) -> Result<(), ConfigError> {
    Err(ConfigError::Conflict { keys, at: None, message, hint })
}

fn hinted(hint: Option<&str>) -> String {
    hint.map(|hint| format!("\n\nhint: {hint}")).unwrap_or_default()
}

impl Config {
    /// The defaults and what a file says, checked.
    pub fn from_file(path: &Path) -> Result<Self, ConfigError> {
        Self::load(Some(path), Overrides::default())
    }

    /// The defaults, what the file says, and what the overrides say, in order of increasing weight, checked.
    pub fn load(file: Option<&Path>, overrides: Overrides) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        let mut topics = BTreeMap::new();
        if let Some(path) = file {
            topics = config.apply(Overrides::from_file(path)?);
        }
        topics.extend(config.apply(overrides.clone()));
        config.apply_topics(topics, file.unwrap_or(Path::new("")));
        config.validate().map_err(|error| place(error, file, &overrides))?;
        Ok(config)
    }

    /// Refuses settings that do not go together.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let listen = self.listen;
        match (&self.tls.cert, &self.tls.key) {
            (Some(_), None) => {
                return refuse(&["tls.cert"], "a TLS certificate without its key".into(), "set `tls.key` too");
            }
            (None, Some(_)) => {
                return refuse(&["tls.key"], "a TLS key without its certificate".into(), "set `tls.cert` too");
            }
            _ => {}
        }
        self.validate_nats()?;
        if !listen.ip().is_loopback() {
            if self.dev {
                return refuse(
                    &["dev", "listen"],
                    format!("`dev` hands a token to anyone who asks, and `{listen}` is open to other machines"),
                    "listen on `127.0.0.1`, or leave `dev` out and use `salon token`",
                );
            }
            if self.tls().is_none() && !self.plaintext {
                return refuse(
                    &["listen"],
                    format!("`{listen}` is open to other machines, and without TLS tokens travel in the clear"),
                    "set `tls.cert` and `tls.key`, or `plaintext = true` (`--plaintext`) behind a proxy that has TLS",
                );
            }
        }
        if let Some(framed) = self.framed.listen
            && !framed.ip().is_loopback()
            && self.tls().is_none()
            && !self.plaintext
        {
            return refuse(
                &["framed.listen"],
                format!("`{framed}` is open to other machines, and without TLS tokens travel in the clear"),
                "set `tls.cert` and `tls.key`, or `plaintext = true` (`--plaintext`) behind a proxy that has TLS",
            );
        }
        if self.times.silence_limit <= self.times.ping_interval {
            return refuse(
                &["times.silence_limit", "times.ping_interval"],
                format!(
                    "a peer would be gone after {:?} of silence but is only asked every {:?}",
                    self.times.silence_limit, self.times.ping_interval
                ),
                "make `times.silence_limit` more than `times.ping_interval`; three times is usual",
            );
        }
        if let Err(why) = self.namespaces() {
            let hint = "give each bridge ids that begin with a name of its own, such as `matrix:*=bridge:matrix`";
            return refuse(&["auth.namespaces"], why.to_string(), hint);
        }
        if self.memory.per_room > self.memory.total {
            return refuse(
                &["memory.per_room", "memory.total"],
                format!(
                    "one room may use {} bytes of memory, all together {}",
                    self.memory.per_room, self.memory.total
                ),
                "make `memory.total` at least `memory.per_room`",
            );
        }
        Ok(())
    }

    fn validate_nats(&self) -> Result<(), ConfigError> {
        let (nats, servers) = (&self.nats, self.nats_servers());
        match (&nats.cert, &nats.key) {
            (Some(_), None) => {
                return refuse(&["nats.cert"], "a certificate for NATS without its key".into(), "set `nats.key` too");
            }
            (None, Some(_)) => {
                return refuse(&["nats.key"], "a key for NATS without its certificate".into(), "set `nats.cert` too");
            }
            _ => {}
        }
        if servers.is_none() && (nats.credentials.is_some() || nats.ca.is_some() || nats.cert.is_some()) {
            return refuse(
                &["nats.credentials", "nats.ca", "nats.cert"],
                "something to show to NATS servers, but the store is not on NATS".into(),
                "set `store` (`--store nats://host:4222`) too",
            );
        }
        if !cfg!(feature = "nats") && servers.is_some() {
            return refuse(
                &["store"],
                "this `salon` was built without support for NATS".into(),
                "use `store = \"sqlite\"` (`--store sqlite`), or install a `salon` with the feature `nats`, which is on by default",
            );
        }
        Ok(())
    }

    /// Takes over what was given, but returns the topics: what they leave open follows the defaults of all sources together.
    pub fn apply(&mut self, mut given: Overrides) -> BTreeMap<TopicKey, TopicOf> {
        let topics = std::mem::take(&mut given.topics);
        self.apply_bridges(std::mem::take(&mut given.bridges));
        given.apply_to(self);
        topics
    }

    /// Takes over bridges, and keeps for each the ids of its ghosts.
    fn apply_bridges(&mut self, bridges: BTreeMap<String, toml::Table>) {
        for (name, table) in bridges {
            let namespace = table.get("namespace").or_else(|| table.get("platform")).and_then(toml::Value::as_str);
            // One that cannot be read is refused where the bridge is started.
            let owner = namespace.and_then(|namespace| {
                let owned = format!("{namespace}:*").parse().ok()?;
                Some((owned, ParticipantId::new(format!("bridge:{name}")).ok()?))
            });
            self.auth.namespaces.extend(owner.filter(|owner| !self.auth.namespaces.contains(owner)));
            self.bridges.insert(name, table);
        }
    }

    fn apply_topics(&mut self, topics: BTreeMap<TopicKey, TopicOf>, file: &Path) {
        for (TopicKey(name), topic) in topics {
            if topic.history == Some(false) {
                self.history_off.insert(name.clone());
            }
            self.guests.extend(topic.guests.into_iter().map(|(GuestKey(id), terms)| Guest {
                topic: name.clone(),
                id,
                file: file.to_owned(),
                terms,
            }));
            let mut retention = self.retention.clone();
            topic.retention.apply_to(&mut retention);
            self.topic_retention.insert(name, (&retention).into());
        }
    }
}

/// Adds the line of the file that has a part in a conflict, where one has: what overrides the file is not the file's.
fn place(error: ConfigError, file: Option<&Path>, overrides: &Overrides) -> ConfigError {
    let ConfigError::Conflict { keys, at: None, message, hint } = error else { return error };
    let at = file.and_then(|path| {
        let text = std::fs::read_to_string(path).ok()?;
        let line = keys.iter().filter(|key| !overrides.gives(key)).find_map(|key| line_of(&text, key))?;
        Some((path.to_owned(), line))
    });
    ConfigError::Conflict { keys, at, message, hint }
}
