//! Configuration: every setting, its default, and the sources it may come from.
//!
//! In order of increasing weight: the file, the environment, the flags. The last two are read by the command line and arrive here
//! as one [`Overrides`]. docs/configuration.md describes every key. Deliberately absent: reading the environment, and opening
//! any file but the configuration's own.

mod file;
mod guest;
mod load;
mod settings;
mod value;

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use salon_log::{Durability, RetentionRules};
use salon_protocol::TopicName;

use crate::auth::Confirmation;
use crate::auth::jwks::JwksSource;
use crate::timings::Timings;

pub use file::{
    AuditOf, AuthOf, FramedOf, HttpOf, LimitsOf, Log, MemoryOf, Overrides, RetentionOf, TimesOf, Tls, TopicKey,
    TopicOf, TracingOf, UiOf, nearest,
};
pub use guest::{Feature, Guest, GuestKey, GuestOf, Private, Server, Transport};
pub use load::ConfigError;
pub use settings::{SETTINGS, Setting};
pub use value::{
    Address, Count, Deadline, Depth, DisplayName, Durable, ExposedFeature, Format, HostName, IntegrityKey, Issuer,
    KeysAt, Kind, LogFormat, LogName, LogUrl, Origin, PublicUrl, Replicas, Servers, Size, Span, ToolPattern, Topics,
    Unfit, UrlTransport,
};

/// The name of the audit trail's file in the data directory, where it is there.
pub const AUDIT_FILE: &str = "audit.log";

/// Every setting the gateway runs by.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The door of the Multi-Component Protocol.
    pub framed: Framed,
    /// Where the log, the key and the audit trail are.
    pub data: PathBuf,
    /// Whether the conveniences for trying things out are on: tokens for the asking, and tokens in URLs.
    pub dev: bool,
    /// Whether other machines may connect without TLS.
    pub plaintext: bool,
    /// The certificate chain, with [`Config::tls_key`]: both or neither.
    pub tls_cert: Option<PathBuf>,
    /// The certificate's key.
    pub tls_key: Option<PathBuf>,
    /// The log on NATS, where it is there and not in the data directory.
    pub nats: Nats,
    /// What an acknowledgement is worth. Of a log on NATS the servers decide.
    pub durability: Durability,
    /// How long entries are kept.
    pub retention: RetentionRules,
    /// Topics without history.
    pub history_off: HashSet<TopicName>,
    /// MCP servers that whoever runs the gateway brings into topics. The gateway itself starts none.
    pub guests: Vec<Guest>,
    /// Bounds on what one participant or address may do.
    pub limits: Limits,
    /// Bytes of recent entries kept in memory for one room.
    pub ring_per_room: usize,
    /// Bytes of recent entries kept in memory for all rooms.
    pub ring_total: usize,
    /// How long things may take.
    pub times: Times,
    /// Web pages that may connect, by origin.
    pub origins: Vec<String>,
    /// Names the gateway answers to, beside those of loopback and the address it listens on.
    pub hosts: Vec<String>,
    /// Where clients reach the gateway, where that is not what their requests say; without a slash at its end.
    pub public_url: Option<String>,
    /// Public keys to trust beside the gateway's own key.
    pub jwks: Option<JwksSource>,
    /// Who gives out tokens that the gateway takes, for clients that can ask there.
    pub authorization_servers: Vec<String>,
    /// Public keys with which messages of the Machine Context Protocol may be signed, by their names.
    pub integrity_keys: BTreeMap<String, Confirmation>,
    /// The room in a browser.
    pub ui: Ui,
    /// How log lines look.
    pub log_format: LogFormat,
    /// Which log lines there are.
    pub log_filter: String,
    /// Whether there is an audit trail.
    pub audit: bool,
    /// Where it is, if not in the data directory.
    pub audit_file: Option<PathBuf>,
    /// Times that are no settings. Only tests have others than the default.
    pub timings: Timings,
}

/// Bounds on what one participant or address may do. Zero switches one off, except that of depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one envelope.
    pub message: usize,
    /// Levels of nesting in it.
    pub depth: usize,
    /// Entries in its `to`.
    pub recipients: usize,
    /// Messages a second of one participant, in the long run.
    pub rate: u32,
    /// Messages at once.
    pub burst: u32,
    /// Participants in one topic.
    pub participants: usize,
    /// Connections of one participant.
    pub connections_per_participant: usize,
    /// Connections from one address.
    pub connections_per_address: usize,
}

impl Limits {
    /// The bounds on one envelope.
    pub fn envelope(&self) -> salon_protocol::Limits {
        salon_protocol::Limits { message: self.message, depth: self.depth, recipients: self.recipients }
    }
}

/// The room in a browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ui {
    /// Whether there is a page.
    pub enabled: bool,
    /// Tools it need not ask about before it calls them: `participant/tool`, with `*` for any characters.
    pub allow: Vec<String>,
}

/// The door of the Multi-Component Protocol. Only where it listens is for people to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framed {
    /// Where it listens; nowhere unless it is said.
    pub listen: Option<SocketAddr>,
    /// For a frame that has begun to end, and for a stranger to begin one.
    pub stall: Duration,
    /// For a session without connections to be used again.
    pub linger: Duration,
}

/// A log on NATS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nats {
    /// Its servers; where there are none, the log is not on NATS.
    pub servers: Servers,
    /// What the log is called there.
    pub name: String,
    /// The file with what the gateway shows to get in.
    pub credentials: Option<PathBuf>,
    /// Certificates to trust, PEM.
    pub ca: Option<PathBuf>,
    /// A certificate to show, with [`Nats::key`]: both or neither.
    pub cert: Option<PathBuf>,
    /// The certificate's key.
    pub key: Option<PathBuf>,
    /// How many servers keep everything; none leaves it to how the log was made.
    pub replicas: Option<usize>,
    /// How many topics there may be.
    pub topics: u64,
}

/// How long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// For a socket to take some bytes.
    pub write_deadline: Duration,
    /// Between two pings.
    pub ping_interval: Duration,
    /// Without a sign of life, after which a peer is gone.
    pub silence_limit: Duration,
    /// For participants to come back after a crash, before they have left.
    pub crash_grace: Duration,
    /// For connections to end when the gateway stops.
    pub drain_deadline: Duration,
    /// Between two presence heartbeats; zero is none.
    pub heartbeat: Duration,
}

impl Default for Config {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        let envelope = salon_protocol::Limits::default();
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8787)),
            framed: Framed { listen: None, stall: seconds(30), linger: seconds(60) },
            data: data_directory(std::env::var_os("XDG_DATA_HOME"), std::env::var_os("HOME")),
            dev: false,
            plaintext: false,
            tls_cert: None,
            tls_key: None,
            nats: Nats {
                servers: Servers::default(),
                name: "salon".into(),
                credentials: None,
                ca: None,
                cert: None,
                key: None,
                replicas: None,
                topics: salon_log::DEFAULT_MAX_TOPICS,
            },
            durability: Durability::Full,
            retention: RetentionRules::default(),
            history_off: HashSet::new(),
            guests: Vec::new(),
            limits: Limits {
                message: envelope.message,
                depth: envelope.depth,
                recipients: envelope.recipients,
                rate: 100,
                burst: 1000,
                participants: 10_000,
                connections_per_participant: 16,
                connections_per_address: 2_000,
            },
            ring_per_room: 4 << 20,
            ring_total: 256 << 20,
            times: Times {
                write_deadline: seconds(30),
                ping_interval: seconds(15),
                silence_limit: seconds(45),
                crash_grace: seconds(45),
                drain_deadline: seconds(10),
                heartbeat: seconds(30),
            },
            origins: Vec::new(),
            hosts: Vec::new(),
            public_url: None,
            jwks: None,
            authorization_servers: Vec::new(),
            integrity_keys: BTreeMap::new(),
            ui: Ui { enabled: true, allow: Vec::new() },
            log_format: LogFormat::Human,
            log_filter: "info".into(),
            audit: true,
            audit_file: None,
            timings: Timings::default(),
        }
    }
}

fn data_directory(xdg: Option<OsString>, home: Option<OsString>) -> PathBuf {
    // A relative `XDG_DATA_HOME` is to be ignored, says its specification.
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let base = xdg.and_then(absolute).or_else(|| home.and_then(absolute).map(|home| home.join(".local/share")));
    base.map_or_else(|| "salon-data".into(), |base| base.join("salon"))
}

impl Config {
    /// The certificate chain and its key, where there is TLS.
    pub fn tls(&self) -> Option<(&Path, &Path)> {
        self.tls_cert.as_deref().zip(self.tls_key.as_deref())
    }

    /// Where a browser reaches a gateway that listens at an address, with a slash at its end.
    pub fn page_url(&self, address: SocketAddr) -> String {
        if let Some(url) = &self.public_url {
            return format!("{url}/");
        }
        let ip = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        match self.tls() {
            // A certificate is for a name.
            Some(_) => match self.hosts.first() {
                Some(name) => format!("https://{name}:{}/", address.port()),
                None => format!("https://{}/", SocketAddr::new(ip, address.port())),
            },
            None => format!("http://{}/", SocketAddr::new(ip, address.port())),
        }
    }

    /// How the log on NATS is opened, where it is there. All nodes of it have the same `fingerprint`.
    #[cfg(feature = "nats")]
    pub fn nats(&self, fingerprint: String) -> Option<salon_log::nats::Options> {
        let Nats { servers, name, credentials, ca, cert, key, replicas, topics } = &self.nats;
        (!servers.0.is_empty()).then(|| salon_log::nats::Options {
            servers: servers.0.clone(),
            credentials: credentials.clone(),
            ca: ca.clone(),
            certificate: cert.clone().zip(key.clone()),
            name: name.clone(),
            replicas: *replicas,
            topics: *topics,
            retention: self.retention.clone(),
            fingerprint,
            timings: self.timings.nats,
            context_bounds: salon_log::context::Bounds::default(),
            keyspaces: crate::auth::KEYSPACES.to_vec(),
        })
    }

    /// Where the audit trail is, where there is one.
    pub fn audit_path(&self) -> Option<PathBuf> {
        self.audit.then(|| self.audit_file.clone().unwrap_or_else(|| self.data.join(AUDIT_FILE)))
    }
}

#[cfg(test)]
mod tests;
