//! Configuration: every setting, its default, and the sources it may come from.
//!
//! `settings.rs` declares every setting once; everything else follows from that. In order of increasing weight the sources are: the file,
//! the environment, the flags. The last two are read by the command line and arrive here as one [`Overrides`]. Deliberately absent:
//! reading the environment, and opening any file but the configuration's own.

#[macro_use]
mod declare;
mod file;
mod guest;
mod load;
pub mod renamed;
mod setting;
mod settings;
mod value;

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use salon_control::{InvalidNamespace, Namespaces};
use salon_log::files::FileQuotas;
use salon_log::{Retention, RetentionRules, StoredQuotas};

use crate::audit::AuditRotation;

pub use file::{TopicKey, TopicOf, nearest};
pub use guest::{Feature, Guest, GuestKey, GuestOf, GuestServer, GuestTransport, Private};
pub use load::ConfigError;
pub use setting::{Declaration, SETTINGS, Setting, SettingForm, SettingValue};
pub use settings::{
    AuditOverrides, AuditSettings, AuthOverrides, AuthSettings, Config, FramedOverrides, FramedSettings, HttpOverrides,
    HttpSettings, LimitOverrides, LimitSettings, LogOverrides, LogSettings, MemoryOverrides, MemorySettings,
    NatsOverrides, NatsSettings, Overrides, RetentionOverrides, RetentionSettings, SqliteOverrides, SqliteSettings,
    TimeOverrides, TimeSettings, TlsOverrides, TlsSettings, UiOverrides, UiSettings,
};
pub use value::{
    Address, ClaimName, Count, Creation, Deadline, Depth, DisplayName, Durable, ExposedFeature, Format, HostName,
    IntegrityKey, InvalidValue, Issuer, KeysAt, Kind, LogFormat, NamespaceOwner, Origin, PublicUrl, Replicas,
    ResourceUrl, RetentionAge, RetentionCount, Servers, Size, Span, Store, StoreName, StoreUrl, ToolPattern,
    TopicCreation, Topics, UrlTransport,
};

/// The name of the audit trail's file in the data directory, where it is there.
pub const AUDIT_FILE: &str = "audit.log";

impl LimitSettings {
    /// The bounds on one envelope.
    pub fn envelope(&self) -> salon_protocol::Limits {
        let Self { message, answer, depth, recipients, .. } = *self;
        salon_protocol::Limits { message, answer, depth, recipients }
    }
}

impl From<&RetentionSettings> for Retention {
    fn from(settings: &RetentionSettings) -> Self {
        Self { age: settings.age, count: settings.count }
    }
}

/// The default of `data`.
fn data_directory() -> PathBuf {
    data_directory_in(std::env::var_os("XDG_DATA_HOME"), std::env::var_os("HOME"))
}

fn data_directory_in(xdg: Option<OsString>, home: Option<OsString>) -> PathBuf {
    // XDG Base Directory Specification: "If an implementation encounters a relative path […] it should consider the path invalid and
    // ignore it."
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let base = xdg.and_then(absolute).or_else(|| home.and_then(absolute).map(|home| home.join(".local/share")));
    base.map_or_else(|| "salon-data".into(), |base| base.join("salon"))
}

impl Config {
    /// Who may make the first settings of a topic: with development mode everybody.
    pub(crate) fn topic_creation(&self) -> TopicCreation {
        if self.dev { TopicCreation::Anyone } else { self.auth.create_topics }
    }

    /// The certificate chain and its key, where there is TLS.
    pub fn tls(&self) -> Option<(&Path, &Path)> {
        self.tls.cert.as_deref().zip(self.tls.key.as_deref())
    }

    /// Where a browser reaches a gateway that listens at an address, with a slash at its end.
    pub fn page_url(&self, address: SocketAddr) -> String {
        if let Some(url) = &self.http.public_url {
            return format!("{url}/");
        }
        let ip = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        match self.tls() {
            // A certificate is for a name.
            Some(_) => match self.http.hosts.first() {
                Some(name) => format!("https://{name}:{}/", address.port()),
                None => format!("https://{}/", SocketAddr::new(ip, address.port())),
            },
            None => format!("http://{}/", SocketAddr::new(ip, address.port())),
        }
    }

    /// How long the entries of every topic are kept.
    pub fn retention_rules(&self) -> RetentionRules {
        RetentionRules { default: (&self.retention).into(), topics: self.topic_retention.clone() }
    }

    /// The ids that only bridges may use, and whose they are.
    pub fn namespaces(&self) -> Result<Namespaces, InvalidNamespace> {
        Namespaces::new(self.auth.namespaces.clone())
    }

    /// How many bytes are stored.
    pub fn stored_quotas(&self) -> StoredQuotas {
        let LimitSettings { topic_stored, participant_stored, context_stored, gateway_stored, .. } = &self.limits;
        StoredQuotas {
            topic: *topic_stored as u64,
            participant: *participant_stored as u64,
            context: *context_stored as u64,
            gateway: *gateway_stored as u64,
        }
    }

    /// How many bytes of files are stored.
    pub fn file_quotas(&self) -> FileQuotas {
        FileQuotas { topic: self.limits.topic_files as u64, total: self.limits.files as u64, ..FileQuotas::default() }
    }

    /// The NATS servers of the store, where it is there.
    pub fn nats_servers(&self) -> Option<&Servers> {
        match &self.store {
            Store::Sqlite => None,
            Store::Nats(servers) => Some(servers),
        }
    }

    /// How the store on NATS is opened, where it is there. All its nodes have the same `fingerprint`.
    #[cfg(feature = "nats")]
    pub fn nats_options(&self, fingerprint: String) -> Option<salon_log::nats::NatsOptions> {
        let NatsSettings { name, credentials, ca, cert, key, replicas, topics, shards } = &self.nats;
        Some(salon_log::nats::NatsOptions {
            servers: self.nats_servers()?.0.clone(),
            credentials: credentials.clone(),
            ca: ca.clone(),
            certificate: cert.clone().zip(key.clone()),
            name: name.clone(),
            replicas: *replicas,
            topics: *topics,
            shards: *shards,
            retention: self.retention_rules(),
            quotas: self.stored_quotas(),
            fingerprint,
            timings: self.timings.nats,
            context_bounds: salon_log::context::ContextLimits::default(),
            keyspaces: (crate::auth::KEYSPACES.into_iter().chain([crate::host::RECEIPTS]))
                .chain(crate::bridge_leases::keyspaces(self.timings.bridge_lease))
                .collect(),
            purpose: salon_log::nats::NatsPurpose::Serve,
        })
    }

    /// When a file of the audit trail is full, and how many are kept.
    pub fn audit_rotation(&self) -> AuditRotation {
        let AuditSettings { max_size, max_age, max_files, .. } = &self.audit;
        AuditRotation { size: *max_size as u64, age: *max_age, count: *max_files }
    }

    /// Where the audit trail is, where there is one.
    pub fn audit_path(&self) -> Option<PathBuf> {
        self.audit.enabled.then(|| self.audit.file.clone().unwrap_or_else(|| self.data.join(AUDIT_FILE)))
    }
}

#[cfg(test)]
mod document;
#[cfg(test)]
mod tests;
