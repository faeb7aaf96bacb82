//! The three names of every setting, for the command line and the documentation to agree on.

/// A setting by its names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// In the file.
    pub key: &'static str,
    /// In the environment.
    pub variable: &'static str,
    /// On the command line.
    pub flag: &'static str,
}

/// Every setting that has a variable and a flag: all but those of single topics.
pub const SETTINGS: &[Setting] = &[
    setting("listen", "SALON_LISTEN", "--listen"),
    setting("framed.listen", "SALON_FRAMED_LISTEN", "--framed-listen"),
    setting("data", "SALON_DATA", "--data"),
    setting("dev", "SALON_DEV", "--dev"),
    setting("plaintext", "SALON_PLAINTEXT", "--plaintext"),
    setting("tls.cert", "SALON_TLS_CERT", "--tls-cert"),
    setting("tls.key", "SALON_TLS_KEY", "--tls-key"),
    setting("log.url", "SALON_LOG", "--log"),
    setting("log.name", "SALON_LOG_NAME", "--log-name"),
    setting("log.credentials", "SALON_LOG_CREDENTIALS", "--log-credentials"),
    setting("log.ca", "SALON_LOG_CA", "--log-ca"),
    setting("log.cert", "SALON_LOG_CERT", "--log-cert"),
    setting("log.key", "SALON_LOG_KEY", "--log-key"),
    setting("log.replicas", "SALON_LOG_REPLICAS", "--log-replicas"),
    setting("log.topics", "SALON_LOG_TOPICS", "--log-topics"),
    setting("log.durability", "SALON_DURABILITY", "--durability"),
    setting("retention.age", "SALON_RETENTION_AGE", "--retention-age"),
    setting("retention.count", "SALON_RETENTION_COUNT", "--retention-count"),
    setting("limits.message", "SALON_MAX_MESSAGE", "--max-message"),
    setting("limits.depth", "SALON_MAX_DEPTH", "--max-depth"),
    setting("limits.recipients", "SALON_MAX_RECIPIENTS", "--max-recipients"),
    setting("limits.rate", "SALON_RATE_LIMIT", "--rate-limit"),
    setting("limits.burst", "SALON_RATE_BURST", "--rate-burst"),
    setting("limits.participants", "SALON_MAX_PARTICIPANTS", "--max-participants"),
    setting(
        "limits.connections_per_participant",
        "SALON_MAX_CONNECTIONS_PER_PARTICIPANT",
        "--max-connections-per-participant",
    ),
    setting("limits.connections_per_address", "SALON_MAX_CONNECTIONS_PER_ADDRESS", "--max-connections-per-address"),
    setting("memory.per_room", "SALON_RING_PER_ROOM", "--ring-per-room"),
    setting("memory.total", "SALON_RING_TOTAL", "--ring-total"),
    setting("times.write_deadline", "SALON_WRITE_DEADLINE", "--write-deadline"),
    setting("times.ping_interval", "SALON_PING_INTERVAL", "--ping-interval"),
    setting("times.silence_limit", "SALON_SILENCE_LIMIT", "--silence-limit"),
    setting("times.crash_grace", "SALON_CRASH_GRACE", "--crash-grace"),
    setting("times.drain_deadline", "SALON_DRAIN_DEADLINE", "--drain-deadline"),
    setting("times.heartbeat", "SALON_HEARTBEAT", "--heartbeat"),
    setting("http.origins", "SALON_ALLOW_ORIGIN", "--allow-origin"),
    setting("http.hosts", "SALON_ALLOW_HOST", "--allow-host"),
    setting("http.public_url", "SALON_PUBLIC_URL", "--public-url"),
    setting("auth.jwks", "SALON_JWKS", "--jwks"),
    setting("auth.authorization_servers", "SALON_AUTHORIZATION_SERVER", "--authorization-server"),
    setting("auth.integrity_keys", "SALON_INTEGRITY_KEY", "--integrity-key"),
    setting("ui.enabled", "SALON_UI", "--ui"),
    setting("ui.allow", "SALON_UI_ALLOW", "--ui-allow"),
    setting("tracing.format", "SALON_LOG_FORMAT", "--log-format"),
    setting("tracing.filter", "SALON_LOG_FILTER", "--log-filter"),
    setting("audit.enabled", "SALON_AUDIT", "--audit"),
    setting("audit.file", "SALON_AUDIT_FILE", "--audit-file"),
];

const fn setting(key: &'static str, variable: &'static str, flag: &'static str) -> Setting {
    Setting { key, variable, flag }
}
