//! From what was given to what the gateway runs by: the sources in their order, then the rules that concern several settings.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use salon_log::Retention;

use super::Config;
use super::file::{LimitsOf, Log, Overrides, RetentionOf, TimesOf, TopicKey, TopicOf, line_of};
use super::guest::{Guest, GuestKey};
use super::value::{
    Address, Count, Deadline, Depth, Durable, Format, HostName, IntegrityKey, Issuer, KeysAt, LogName, LogUrl, Origin,
    PublicUrl, Replicas, Size, Span, ToolPattern, Topics,
};

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
        /// Where a file gives the first of them that no weightier place gives: the file and the line.
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
        match (&self.tls_cert, &self.tls_key) {
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
        if self.ring_per_room > self.ring_total {
            return refuse(
                &["memory.per_room", "memory.total"],
                format!("one room may use {} bytes of memory, all together {}", self.ring_per_room, self.ring_total),
                "make `memory.total` at least `memory.per_room`",
            );
        }
        Ok(())
    }

    fn validate_nats(&self) -> Result<(), ConfigError> {
        let nats = &self.nats;
        match (&nats.cert, &nats.key) {
            (Some(_), None) => {
                return refuse(&["log.cert"], "a certificate for NATS without its key".into(), "set `log.key` too");
            }
            (None, Some(_)) => {
                return refuse(&["log.key"], "a key for NATS without its certificate".into(), "set `log.cert` too");
            }
            _ => {}
        }
        if nats.servers.0.is_empty() && (nats.credentials.is_some() || nats.ca.is_some() || nats.cert.is_some()) {
            return refuse(
                &["log.credentials", "log.ca", "log.cert"],
                "something to show to NATS servers, but no servers".into(),
                "set `log.url` (`--log nats://host:4222`) too",
            );
        }
        if !cfg!(feature = "nats") && !nats.servers.0.is_empty() {
            return refuse(
                &["log.url"],
                "this `salon` was built without support for NATS".into(),
                "leave `log.url` (`--log`) out to keep the log in the data directory, or install a `salon` with the feature `nats`, which is on by default",
            );
        }
        Ok(())
    }

    /// Takes over what was given, but hands back the topics: what they leave open follows the defaults of all sources together.
    fn apply(&mut self, given: Overrides) -> BTreeMap<TopicKey, TopicOf> {
        let Overrides {
            listen,
            data,
            dev,
            plaintext,
            framed,
            tls,
            log,
            retention,
            limits,
            memory,
            times,
            http,
            auth,
            ui,
            tracing,
            audit,
            topics,
        } = given;
        set(&mut self.listen, listen.map(|Address(address)| address));
        self.framed.listen = framed.listen.map(|Address(address)| address).or(self.framed.listen);
        set(&mut self.data, data);
        set(&mut self.dev, dev);
        set(&mut self.plaintext, plaintext);
        self.tls_cert = tls.cert.or(self.tls_cert.take());
        self.tls_key = tls.key.or(self.tls_key.take());
        self.apply_log(log);
        self.apply_limits(limits);
        set(&mut self.ring_per_room, memory.per_room.map(|Size(bytes)| bytes));
        set(&mut self.ring_total, memory.total.map(|Size(bytes)| bytes));
        self.apply_times(times);
        set(&mut self.origins, http.origins.map(|list| list.into_iter().map(|Origin(text)| text).collect()));
        set(&mut self.hosts, http.hosts.map(|list| list.into_iter().map(|HostName(text)| text).collect()));
        self.public_url = http.public_url.map(|PublicUrl(url)| url).or(self.public_url.take());
        self.jwks = auth.jwks.map(|KeysAt(source)| source).or(self.jwks.take());
        let servers = auth.authorization_servers.map(|list| list.into_iter().map(|Issuer(url)| url).collect());
        set(&mut self.authorization_servers, servers);
        let keys = auth.integrity_keys.map(|list| list.into_iter().map(|IntegrityKey(key)| key).collect());
        set(&mut self.integrity_keys, keys);
        set(&mut self.ui.enabled, ui.enabled);
        set(&mut self.ui.allow, ui.allow.map(|list| list.into_iter().map(|ToolPattern(text)| text).collect()));
        set(&mut self.log_format, tracing.format.map(|Format(format)| format));
        set(&mut self.log_filter, tracing.filter);
        set(&mut self.audit, audit.enabled);
        self.audit_file = audit.file.or(self.audit_file.take());
        self.retention.default = narrowed(self.retention.default, retention);
        topics
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
            self.retention.topics.insert(name, narrowed(self.retention.default, topic.retention));
        }
    }

    fn apply_log(&mut self, given: Log) {
        set(&mut self.durability, given.durability.map(|Durable(durability)| durability));
        let nats = &mut self.nats;
        set(&mut nats.servers, given.url.map(|LogUrl(servers)| servers));
        set(&mut nats.name, given.name.map(|LogName(name)| name));
        nats.credentials = given.credentials.or(nats.credentials.take());
        nats.ca = given.ca.or(nats.ca.take());
        nats.cert = given.cert.or(nats.cert.take());
        nats.key = given.key.or(nats.key.take());
        set(&mut nats.replicas, given.replicas.map(|Replicas(count)| Some(count).filter(|count| *count > 0)));
        set(&mut nats.topics, given.topics.map(|Topics(count)| count));
    }

    fn apply_limits(&mut self, given: LimitsOf) {
        let limits = &mut self.limits;
        set(&mut limits.message, given.message.map(|Size(bytes)| bytes));
        set(&mut limits.depth, given.depth.map(|Depth(levels)| levels));
        set(&mut limits.recipients, given.recipients.map(|Count(n)| n as usize));
        set(&mut limits.rate, given.rate.map(|Count(n)| n));
        set(&mut limits.burst, given.burst.map(|Count(n)| n));
        set(&mut limits.participants, given.participants.map(|Count(n)| n as usize));
        set(&mut limits.connections_per_participant, given.connections_per_participant.map(|Count(n)| n as usize));
        set(&mut limits.connections_per_address, given.connections_per_address.map(|Count(n)| n as usize));
    }

    fn apply_times(&mut self, given: TimesOf) {
        let times = &mut self.times;
        set(&mut times.write_deadline, given.write_deadline.map(|Deadline(time)| time));
        set(&mut times.ping_interval, given.ping_interval.map(|Deadline(time)| time));
        set(&mut times.silence_limit, given.silence_limit.map(|Deadline(time)| time));
        set(&mut times.crash_grace, given.crash_grace.map(|Span(time)| time));
        set(&mut times.drain_deadline, given.drain_deadline.map(|Span(time)| time));
        set(&mut times.heartbeat, given.heartbeat.map(|Span(time)| time));
    }
}

/// Adds the line of the file that has a part in a conflict, where one has: what a weightier place gives is not the file's.
fn place(error: ConfigError, file: Option<&Path>, overrides: &Overrides) -> ConfigError {
    let ConfigError::Conflict { keys, at: None, message, hint } = error else { return error };
    let at = file.and_then(|path| {
        let text = std::fs::read_to_string(path).ok()?;
        let line = keys.iter().filter(|key| !overrides.gives(key)).find_map(|key| line_of(&text, key))?;
        Some((path.to_owned(), line))
    });
    ConfigError::Conflict { keys, at, message, hint }
}

/// A retention with what was given in place of what was there; zero is no bound.
fn narrowed(base: Retention, given: RetentionOf) -> Retention {
    Retention {
        age: given.age.map_or(base.age, |Span(age)| Some(age).filter(|age| !age.is_zero())),
        count: given.count.map_or(base.count, |Count(count)| Some(u64::from(count)).filter(|count| *count > 0)),
    }
}

fn set<T>(setting: &mut T, given: Option<T>) {
    if let Some(value) = given {
        *setting = value;
    }
}
