//! Names that settings had in 0.1 and 0.2. Each is refused, and the refusal names the new one.

use super::{SETTINGS, Setting};

/// The old key, the old flag without its dashes, the new key. The old variable followed from the old flag.
const RENAMED: &[(&str, &str, &str)] = &[
    ("log.url", "log", "store"),
    ("log.name", "log-name", "nats.name"),
    ("log.credentials", "log-credentials", "nats.credentials"),
    ("log.ca", "log-ca", "nats.ca"),
    ("log.cert", "log-cert", "nats.cert"),
    ("log.key", "log-key", "nats.key"),
    ("log.replicas", "log-replicas", "nats.replicas"),
    ("log.topics", "log-topics", "nats.topics"),
    ("log.durability", "durability", "sqlite.durability"),
    ("limits.message", "max-message", "limits.message"),
    ("limits.depth", "max-depth", "limits.depth"),
    ("limits.recipients", "max-recipients", "limits.recipients"),
    ("limits.rate", "rate-limit", "limits.rate"),
    ("limits.burst", "rate-burst", "limits.burst"),
    ("limits.participants", "max-participants", "limits.participants"),
    ("limits.connections_per_participant", "max-connections-per-participant", "limits.connections_per_participant"),
    ("limits.connections_per_address", "max-connections-per-address", "limits.connections_per_address"),
    ("memory.per_room", "ring-per-room", "memory.per_room"),
    ("memory.total", "ring-total", "memory.total"),
    ("times.write_deadline", "write-deadline", "times.write_deadline"),
    ("times.ping_interval", "ping-interval", "times.ping_interval"),
    ("times.silence_limit", "silence-limit", "times.silence_limit"),
    ("times.crash_grace", "crash-grace", "times.crash_grace"),
    ("times.drain_deadline", "drain-deadline", "times.drain_deadline"),
    ("times.heartbeat", "heartbeat", "times.heartbeat"),
    ("http.origins", "allow-origin", "http.origins"),
    ("http.hosts", "allow-host", "http.hosts"),
    ("http.public_url", "public-url", "http.public_url"),
    ("auth.jwks", "jwks", "auth.jwks"),
    ("auth.authorization_servers", "authorization-server", "auth.authorization_servers"),
    ("auth.integrity_keys", "integrity-key", "auth.integrity_keys"),
    ("ui.enabled", "ui", "ui.enabled"),
    ("tracing.format", "log-format", "log.format"),
    ("tracing.filter", "log-filter", "log.filter"),
    ("audit.enabled", "audit", "audit.enabled"),
];

/// Second names of flags, which had no variables.
const ALIASES: &[(&str, &str)] = &[("origin", "http.origins"), ("host", "http.hosts")];

/// The setting that had a flag, such as `--rate-limit`, if it has another now.
pub fn by_flag(flag: &str) -> Option<&'static Setting> {
    let name = flag.strip_prefix("--")?;
    let alias = || ALIASES.iter().find(|(old, _)| *old == name).map(|(_, new)| *new);
    let renamed = RENAMED.iter().find(|(_, old, _)| *old == name).map(|(_, _, new)| *new);
    Setting::of_key(renamed.or_else(alias)?).filter(|setting| setting.flag != flag)
}

/// The setting that had a variable, such as `SALON_RATE_LIMIT`, if it has another now.
pub fn by_variable(variable: &str) -> Option<&'static Setting> {
    let name = variable.strip_prefix("SALON_")?;
    let is_old = |old: &str| old.replace('-', "_").to_uppercase() == name;
    let (_, _, new) = RENAMED.iter().find(|(_, old, _)| is_old(old))?;
    Setting::of_key(new).filter(|setting| setting.variable != variable)
}

/// The settings that had a key, or a key in a section, and have others now: the old key and the setting.
pub(super) fn by_key(key: &str) -> Vec<(&'static str, &'static Setting)> {
    let is_meant = |old: &str| old == key || old.split_once('.').is_some_and(|(section, _)| section == key);
    let changed = RENAMED.iter().filter(|(old, _, new)| old != new && is_meant(old));
    changed.filter_map(|(old, _, new)| Some((*old, SETTINGS.iter().find(|setting| setting.key == *new)?))).collect()
}
