//! The flags and variables of `salon serve`.
//!
//! Every setting of docs/configuration.md has one of each; a test holds the two together. Deliberately absent: defaults. What is
//! not given here is left to the file, and after that to the gateway.

use std::path::PathBuf;

use clap::Args;
use salon_gateway::config::{
    Address, AuditOf, AuthOf, Count, Deadline, Depth, Durable, Format, FramedOf, HostName, HttpOf, IntegrityKey,
    Issuer, KeysAt, LimitsOf, Log, LogName, LogUrl, MemoryOf, Origin, Overrides, PublicUrl, Replicas, RetentionOf,
    Size, Span, TimesOf, Tls, ToolPattern, Topics, TracingOf, UiOf,
};
use salon_protocol::TopicName;

use crate::args::{Places, switch};
use crate::guests::import::USUAL_TOPIC;
use crate::guests::plan::Sources;

const LIMITS: &str = "Limits (0 switches one off)";
const SECURITY: &str = "Security";
const STORAGE: &str = "Storage";
const NATS: &str = "Several gateways, on NATS JetStream";
const OUTPUT: &str = "Output";
const WEB: &str = "Web page";
const TUNING: &str = "Memory and times";

#[derive(Debug, Args)]
#[command(after_help = "\
Every flag is also a variable (--max-message is SALON_MAX_MESSAGE) and a key of salon.toml.
Flags override variables, variables override the file.

On this machine, data in the usual place, and a browser that is signed in:
  salon serve --open

Open to others, with TLS:
  salon serve --listen 0.0.0.0:8787 --tls-cert cert.pem --tls-key key.pem --allow-host chat.example

One of several that share their rooms on NATS, each with the same auth.key in its data directory:
  salon serve --log nats://nats-1:4222,nats://nats-2:4222,nats://nats-3:4222

What would be served, without serving it:
  salon serve --check

Whether the gateway that runs with these settings answers:
  salon serve --health")]
pub(crate) struct ServeArgs {
    /// Address to listen on [default: 127.0.0.1:8787]
    #[arg(long, value_name = "ADDR", env = "SALON_LISTEN", hide_env = true)]
    listen: Option<Address>,
    /// Address to listen on for framed connections of the Multi-Component Protocol
    #[arg(long, value_name = "ADDR", env = "SALON_FRAMED_LISTEN", hide_env = true)]
    framed_listen: Option<Address>,
    #[command(flatten)]
    pub(crate) places: Places,
    /// Print a link that signs a browser in as you, once, and open it where there is a desktop
    #[arg(long, conflicts_with = "check")]
    pub(crate) open: bool,
    /// Check everything a start would need, say what would be served, and end
    #[arg(long)]
    pub(crate) check: bool,
    /// Health check: ask the gateway that runs with these settings for /health, and exit with 0 if it is healthy, 1 if not
    #[arg(long, conflicts_with_all = ["check", "open"])]
    pub(crate) health: bool,
    /// Wait seconds where a gateway waits for tens of them, so that tests need not: leases, retries, idle streams
    #[arg(long, hide = true)]
    pub(crate) test_timings: bool,
    /// Conveniences for trying things out, on loopback only: tokens for the asking and in URLs [default: false]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", value_parser = switch())]
    #[arg(env = "SALON_DEV", hide_env = true, hide_possible_values = true)]
    dev: Option<bool>,
    /// File with MCP servers to bring in as guests for this run: `mcpServers` or `servers`; may be repeated
    #[arg(long, value_name = "FILE")]
    import: Vec<PathBuf>,
    /// Room that the servers of `--import` are brought into
    #[arg(long, value_name = "TOPIC", default_value = USUAL_TOPIC, requires = "import")]
    import_topic: TopicName,

    /// Certificate chain, PEM
    #[arg(long, value_name = "FILE", env = "SALON_TLS_CERT", hide_env = true, help_heading = SECURITY)]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate, PEM
    #[arg(long, value_name = "FILE", env = "SALON_TLS_KEY", hide_env = true, help_heading = SECURITY)]
    tls_key: Option<PathBuf>,
    /// Let other machines connect without TLS, behind a proxy that has it [default: false]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL", value_parser = switch())]
    #[arg(env = "SALON_PLAINTEXT", hide_env = true, hide_possible_values = true, help_heading = SECURITY)]
    plaintext: Option<bool>,
    /// Keys to trust beside the gateway's own: a JWKS file or https URL
    #[arg(long, value_name = "FILE|URL", env = "SALON_JWKS", hide_env = true, help_heading = SECURITY)]
    jwks: Option<KeysAt>,
    /// Origin of a web page that may connect; may be repeated
    #[arg(long, alias = "origin", value_name = "ORIGIN", value_delimiter = ',', env = "SALON_ALLOW_ORIGIN")]
    #[arg(hide_env = true, help_heading = SECURITY)]
    allow_origin: Option<Vec<Origin>>,
    /// Name the gateway answers to, beside loopback names; may be repeated
    #[arg(long, alias = "host", value_name = "NAME", value_delimiter = ',', env = "SALON_ALLOW_HOST")]
    #[arg(hide_env = true, help_heading = SECURITY)]
    allow_host: Option<Vec<HostName>>,
    /// Where clients reach the gateway, where that is not what their requests say: behind a proxy
    #[arg(long, value_name = "URL", env = "SALON_PUBLIC_URL", hide_env = true, help_heading = SECURITY)]
    public_url: Option<PublicUrl>,
    /// Authorization server whose tokens are taken, to tell MCP clients of; may be repeated
    #[arg(long, value_name = "URL", value_delimiter = ',', env = "SALON_AUTHORIZATION_SERVER")]
    #[arg(hide_env = true, help_heading = SECURITY)]
    authorization_server: Option<Vec<Issuer>>,
    /// Ed25519 key that messages of the Machine Context Protocol may be signed with; may be repeated
    #[arg(long, value_name = "ID=KEY", value_delimiter = ',', env = "SALON_INTEGRITY_KEY")]
    #[arg(hide_env = true, help_heading = SECURITY)]
    integrity_key: Option<Vec<IntegrityKey>>,

    /// Whether there is a page for browsers [default: true]
    #[arg(long, value_name = "BOOL", value_parser = switch(), env = "SALON_UI", hide_env = true, hide_possible_values = true)]
    #[arg(help_heading = WEB)]
    ui: Option<bool>,
    /// Tool that the page may call without asking the person: PARTICIPANT/TOOL, with `*` for anything; may be repeated
    #[arg(long, value_name = "PATTERN", value_delimiter = ',', env = "SALON_UI_ALLOW", hide_env = true, help_heading = WEB)]
    ui_allow: Option<Vec<ToolPattern>>,

    /// What an acknowledgement survives: the loss of power (full), or only the end of the process (os) [default: full]
    #[arg(long, value_name = "full|os", env = "SALON_DURABILITY", hide_env = true, help_heading = STORAGE)]
    durability: Option<Durable>,
    /// How long envelopes are kept; 0 is for ever [default: 30d]
    #[arg(long, value_name = "TIME", env = "SALON_RETENTION_AGE", hide_env = true, help_heading = STORAGE)]
    retention_age: Option<Span>,
    /// How many envelopes are kept in one topic; 0 is any number [default: 0]
    #[arg(long, value_name = "COUNT", env = "SALON_RETENTION_COUNT", hide_env = true, help_heading = STORAGE)]
    retention_count: Option<Count>,

    /// NATS servers that keep the log, with commas between: nats://host:4222 or tls://host:4222
    #[arg(long, value_name = "URL", env = "SALON_LOG", hide_env = true, hide_env_values = true, help_heading = NATS)]
    log: Option<LogUrl>,
    /// What the log is called on its servers [default: salon]
    #[arg(long, value_name = "NAME", env = "SALON_LOG_NAME", hide_env = true, help_heading = NATS)]
    log_name: Option<LogName>,
    /// Credentials file to show to the servers
    #[arg(long, value_name = "FILE", env = "SALON_LOG_CREDENTIALS", hide_env = true, help_heading = NATS)]
    log_credentials: Option<PathBuf>,
    /// Certificates to trust servers by, PEM
    #[arg(long, value_name = "FILE", env = "SALON_LOG_CA", hide_env = true, help_heading = NATS)]
    log_ca: Option<PathBuf>,
    /// Certificate to show to the servers, PEM
    #[arg(long, value_name = "FILE", env = "SALON_LOG_CERT", hide_env = true, help_heading = NATS)]
    log_cert: Option<PathBuf>,
    /// Private key of that certificate, PEM
    #[arg(long, value_name = "FILE", env = "SALON_LOG_KEY", hide_env = true, help_heading = NATS)]
    log_key: Option<PathBuf>,
    /// Servers that keep everything: 1, 3 or 5; 0 is as the log was made, and at first 3 in a cluster [default: 0]
    #[arg(long, value_name = "COUNT", env = "SALON_LOG_REPLICAS", hide_env = true, help_heading = NATS)]
    log_replicas: Option<Replicas>,
    /// Topics there may be [default: 500]
    #[arg(long, value_name = "COUNT", env = "SALON_LOG_TOPICS", hide_env = true, help_heading = NATS)]
    log_topics: Option<Topics>,

    /// Size of one message [default: 1MiB]
    #[arg(long, value_name = "SIZE", env = "SALON_MAX_MESSAGE", hide_env = true, help_heading = LIMITS)]
    max_message: Option<Size>,
    /// Messages a second of one participant, in the long run [default: 100]
    #[arg(long, value_name = "COUNT", env = "SALON_RATE_LIMIT", hide_env = true, help_heading = LIMITS)]
    rate_limit: Option<Count>,
    /// Messages of one participant at once [default: 1000]
    #[arg(long, value_name = "COUNT", env = "SALON_RATE_BURST", hide_env = true, help_heading = LIMITS)]
    rate_burst: Option<Count>,
    /// Participants in one topic [default: 10000]
    #[arg(long, value_name = "COUNT", env = "SALON_MAX_PARTICIPANTS", hide_env = true, help_heading = LIMITS)]
    max_participants: Option<Count>,
    /// Connections from one address [default: 2000]
    #[arg(long, value_name = "COUNT", env = "SALON_MAX_CONNECTIONS_PER_ADDRESS", hide_env = true, help_heading = LIMITS)]
    max_connections_per_address: Option<Count>,
    /// Connections of one participant [default: 16]
    #[arg(long, value_name = "COUNT", env = "SALON_MAX_CONNECTIONS_PER_PARTICIPANT", hide_env = true, help_heading = LIMITS)]
    max_connections_per_participant: Option<Count>,
    /// Entries in `to` [default: 256]
    #[arg(long, value_name = "COUNT", env = "SALON_MAX_RECIPIENTS", hide_env = true, help_heading = LIMITS)]
    max_recipients: Option<Count>,
    /// Levels of nesting, from 1 to 1024; cannot be switched off [default: 64]
    #[arg(long, value_name = "COUNT", env = "SALON_MAX_DEPTH", hide_env = true, help_heading = LIMITS)]
    max_depth: Option<Depth>,

    /// Recent envelopes kept in memory for one room [default: 4MiB]
    #[arg(long, value_name = "SIZE", env = "SALON_RING_PER_ROOM", hide_env = true, help_heading = TUNING)]
    ring_per_room: Option<Size>,
    /// Recent envelopes kept in memory for all rooms [default: 256MiB]
    #[arg(long, value_name = "SIZE", env = "SALON_RING_TOTAL", hide_env = true, help_heading = TUNING)]
    ring_total: Option<Size>,
    /// A connection that takes no bytes for so long is closed [default: 30s]
    #[arg(long, value_name = "TIME", env = "SALON_WRITE_DEADLINE", hide_env = true, help_heading = TUNING)]
    write_deadline: Option<Deadline>,
    /// Time between two pings [default: 15s]
    #[arg(long, value_name = "TIME", env = "SALON_PING_INTERVAL", hide_env = true, help_heading = TUNING)]
    ping_interval: Option<Deadline>,
    /// A peer without a sign of life for so long has left [default: 45s]
    #[arg(long, value_name = "TIME", env = "SALON_SILENCE_LIMIT", hide_env = true, help_heading = TUNING)]
    silence_limit: Option<Deadline>,
    /// Time participants have to come back after a crash before they have left [default: 45s]
    #[arg(long, value_name = "TIME", env = "SALON_CRASH_GRACE", hide_env = true, help_heading = TUNING)]
    crash_grace: Option<Span>,
    /// Time connections have to end when the gateway is told to stop [default: 10s]
    #[arg(long, value_name = "TIME", env = "SALON_DRAIN_DEADLINE", hide_env = true, help_heading = TUNING)]
    drain_deadline: Option<Span>,
    /// Time between two presence heartbeats; 0 is none [default: 30s]
    #[arg(long, value_name = "TIME", env = "SALON_HEARTBEAT", hide_env = true, help_heading = TUNING)]
    heartbeat: Option<Span>,

    /// Form of the log lines, which go to stderr [default: human]
    #[arg(long, value_name = "human|json", env = "SALON_LOG_FORMAT", hide_env = true, help_heading = OUTPUT)]
    log_format: Option<Format>,
    /// Which log lines: a level, or directives such as info,salon_gateway=debug [default: info]
    #[arg(long, value_name = "FILTER", env = "SALON_LOG_FILTER", hide_env = true, help_heading = OUTPUT)]
    log_filter: Option<String>,
    /// Whether there is an audit trail [default: true]
    #[arg(long, value_name = "BOOL", value_parser = switch(), env = "SALON_AUDIT", hide_env = true, hide_possible_values = true)]
    #[arg(help_heading = OUTPUT)]
    audit: Option<bool>,
    /// Where the audit trail is [default: audit.log in the data directory]
    #[arg(long, value_name = "FILE", env = "SALON_AUDIT_FILE", hide_env = true, help_heading = OUTPUT)]
    audit_file: Option<PathBuf>,
}

impl ServeArgs {
    /// Where guests are written.
    pub(crate) fn sources(&self) -> Sources {
        Sources {
            file: self.places.file(),
            overrides: self.overrides(),
            imports: self.import.clone(),
            topic: self.import_topic.clone(),
        }
    }

    /// What was given, as the gateway takes it.
    pub(crate) fn overrides(&self) -> Overrides {
        let given = self;
        Overrides {
            listen: given.listen.clone(),
            data: given.places.data.clone(),
            dev: given.dev,
            plaintext: given.plaintext,
            framed: FramedOf { listen: given.framed_listen.clone() },
            tls: Tls { cert: given.tls_cert.clone(), key: given.tls_key.clone() },
            log: Log {
                url: given.log.clone(),
                name: given.log_name.clone(),
                credentials: given.log_credentials.clone(),
                ca: given.log_ca.clone(),
                cert: given.log_cert.clone(),
                key: given.log_key.clone(),
                replicas: given.log_replicas.clone(),
                topics: given.log_topics.clone(),
                durability: given.durability.clone(),
            },
            retention: RetentionOf { age: given.retention_age.clone(), count: given.retention_count.clone() },
            limits: LimitsOf {
                message: given.max_message.clone(),
                depth: given.max_depth.clone(),
                recipients: given.max_recipients.clone(),
                rate: given.rate_limit.clone(),
                burst: given.rate_burst.clone(),
                participants: given.max_participants.clone(),
                connections_per_participant: given.max_connections_per_participant.clone(),
                connections_per_address: given.max_connections_per_address.clone(),
            },
            memory: MemoryOf { per_room: given.ring_per_room.clone(), total: given.ring_total.clone() },
            times: TimesOf {
                write_deadline: given.write_deadline.clone(),
                ping_interval: given.ping_interval.clone(),
                silence_limit: given.silence_limit.clone(),
                crash_grace: given.crash_grace.clone(),
                drain_deadline: given.drain_deadline.clone(),
                heartbeat: given.heartbeat.clone(),
            },
            http: HttpOf {
                origins: given.allow_origin.clone(),
                hosts: given.allow_host.clone(),
                public_url: given.public_url.clone(),
            },
            auth: AuthOf {
                jwks: given.jwks.clone(),
                authorization_servers: given.authorization_server.clone(),
                integrity_keys: given.integrity_key.clone(),
            },
            ui: UiOf { enabled: given.ui, allow: given.ui_allow.clone() },
            tracing: TracingOf { format: given.log_format.clone(), filter: given.log_filter.clone() },
            audit: AuditOf { enabled: given.audit, file: given.audit_file.clone() },
            topics: Default::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches};
    use salon_gateway::config::{Config, SETTINGS};

    use super::*;
    use crate::args::Cli;

    fn serve() -> clap::Command {
        Cli::command().find_subcommand("serve").expect("a command of ours").clone()
    }

    #[test]
    fn every_setting_has_its_flag_and_its_variable() {
        let serve = serve();
        let mut flags: Vec<_> = serve
            .get_arguments()
            .filter_map(|flag| Some((format!("--{}", flag.get_long()?), flag.get_env()?.to_str()?.to_owned())))
            .filter(|(flag, _)| flag != "--config")
            .collect();
        let mut settings: Vec<_> = SETTINGS.iter().map(|s| (s.flag.to_owned(), s.variable.to_owned())).collect();
        flags.sort();
        settings.sort();
        assert_eq!(flags, settings);
    }

    #[test]
    fn the_defaults_in_the_help_are_the_defaults() {
        let serve = serve();
        let places = ["config", "data", "audit-file"];
        let mut line = vec!["serve".to_owned()];
        for flag in serve.get_arguments() {
            let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
            let default = help.split_once("[default: ").and_then(|(_, rest)| rest.split_once(']'));
            if let (Some(name), Some((default, _))) = (flag.get_long(), default)
                && !places.contains(&name)
            {
                line.push(format!("--{name}={default}"));
            }
        }
        assert!(line.len() > 20, "defaults are found in the help: {line:?}");
        let matches = serve.try_get_matches_from(line).expect("defaults are good values");
        let args = ServeArgs::from_arg_matches(&matches).expect("they are the arguments of `serve`");
        let config = Config::load(None, args.overrides()).expect("a good configuration");
        assert_eq!(format!("{config:?}"), format!("{:?}", Config::default()));
    }
}
