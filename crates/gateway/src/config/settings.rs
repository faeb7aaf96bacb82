//! Every setting, declared once.
//!
//! A declaration is `name: Type = default;`, in its section of the file. What follows from it: the key in the file, the flag, the
//! variable, the help, the row in docs/reference/settings.md, the field of [`Overrides`] and the field of [`Config`].
//!
//! - The default is written as a person would write it. `none` makes the field of `Config` an `Option`, `[]` is an empty list, and an
//!   expression in parentheses is a default that depends on the machine.
//! - `("text")` after the default is a value for the example file, `shown "text"` is what the help says of the default, `as "NAME"` is
//!   what stands for the value in the help.
//! - One rule makes the names: `limits.rate` in the file is `--limits-rate` and `SALON_LIMITS_RATE`. A name that a setting had before is
//!   in `renamed.rs`.
//! - The comment is the help. What follows its first empty line is said only in the documentation.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use salon_log::Retention;
use salon_protocol::TopicName;

use super::data_directory;
use super::file::{TopicKey, TopicOf};
use super::guest::Guest;
use super::setting::{Declaration, SettingValue};
use super::value::{
    Address, ClaimName, Count, Creation, Deadline, Depth, Durable, Format, HostName, IntegrityKey, InvalidValue,
    Issuer, KeysAt, NamespaceOwner, Origin, PublicUrl, Replicas, ResourceUrl, RetentionAge, RetentionCount, ShardCount,
    Size, Span, StoreName, StoreUrl, ToolPattern, Topics,
};
use crate::timings::Timings;

settings! {
    general {
        /// Address and port to listen on
        listen: Address = "127.0.0.1:8787";
        /// Directory of the store, the key `auth.key` and the audit trail
        data: PathBuf = (data_directory()) ("/var/lib/salon") shown "~/.local/share/salon" as "DIR";
        /// Development mode, only on a loopback address: anybody gets a token, and tokens in URLs work
        ///
        /// `POST /v0/auth/token` returns a token to everybody who asks, and `?token=` works.
        dev: bool = "false";
        /// Let other machines connect without TLS, for a gateway behind a proxy that has TLS
        plaintext: bool = "false";
        /// Where messages are stored: `sqlite`, or NATS servers such as `nats://host:4222,nats://host2:4222`
        ///
        /// `sqlite` is a file in the data directory, for one gateway. With NATS several gateways serve the same rooms:
        /// `nats://host:4222` or `tls://host:4222`, those of a cluster with commas between. A user and password may stand before
        /// the host (`nats://user:password@host:4222`), the same for all, or a token alone; characters of URLs in them are
        /// written with `%`. No error and no log line repeats them.
        store: StoreUrl = "sqlite";
    }

    sections {
        framed: FramedSettings FramedOverrides "" {
            /// Address and port to listen on for framed connections of the Multi-Component Protocol
            ///
            /// The [protocol](../protocols/multi-component.md). With TLS if `tls.cert` is set. Without TLS only on loopback,
            /// unless `plaintext` is set.
            listen: Address = none ("127.0.0.1:8788");
        }

        tls: TlsSettings TlsOverrides "Security" {
            /// Certificate chain, PEM
            ///
            /// Needs `tls.key`.
            cert: PathBuf = none ("cert.pem");
            /// Private key of the certificate, PEM
            ///
            /// Needs `tls.cert`.
            key: PathBuf = none ("key.pem");
        }

        http: HttpSettings HttpOverrides "Security" {
            /// Origin of web pages that may connect
            ///
            /// For CORS and WebSocket, as browsers send it: `https://chat.example`.
            origins: Vec<Origin> = [];
            /// Name that the gateway answers to, beside `localhost` and IP addresses
            ///
            /// It is compared with `Host`. A gateway that is reached by a name needs the name here.
            hosts: Vec<HostName> = [];
            /// Where clients reach the gateway, if their requests do not say so: behind a proxy
            ///
            /// Such as `https://chat.example`, without a query. It stands in what refused MCP clients are sent
            /// ([security](../security.md)) and in links to the page. The gateway answers to its host. Its path stands before the
            /// address that HTTP+SSE clients get.
            public_url: PublicUrl = none ("https://chat.example");
        }

        auth: AuthSettings AuthOverrides "Security" {
            /// Keys to trust beside the gateway's own: a JWKS file or an `https://` URL
            ///
            /// `http://` only on loopback.
            jwks: KeysAt = none ("https://id.example/keys.json");
            /// How old the keys of `auth.jwks` may become while they cannot be fetched
            ///
            /// After that, tokens signed with them are refused until a fetch succeeds.
            jwks_max_age: Span = "24h";
            /// Authorization server whose tokens the gateway accepts, for MCP clients to ask
            ///
            /// As the server names itself (`issuer`). Its keys come from `auth.jwks`, and every token signed with one of them must be an
            /// access token of it for this gateway: [OAuth](../how-to/oauth.md). Several must be names of one server: they share keys and subjects.
            authorization_servers: Vec<Issuer> = [];
            /// Audience of access tokens, where it is not the gateway's own URL
            ///
            /// For authorization servers that have one fixed audience for the whole gateway. MCP clients take it only if it is the
            /// beginning of the URL they connect to.
            resource: ResourceUrl = none ("https://chat.example");
            /// Claim of access tokens that names topics
            ///
            /// In `scope` a topic is `topic:NAME` or `topic:PREFIX*`. In another claim, a list of strings or a text with spaces, `topic:` may be
            /// left out, unless `auth.permissions_claim` is the same. A claim inside another is a JSON Pointer such as `/realm_access/roles`.
            topics_claim: ClaimName = "scope";
            /// Claim of access tokens that names permissions
            ///
            /// In `scope` a permission is `permission:NAME`; otherwise like `auth.topics_claim`.
            permissions_claim: ClaimName = "scope";
            /// Who may make the first settings of a topic, and own it
            ///
            /// `permitted`: a token with the capability `manage` or the permission `operator`. `operator`: a token with that permission. `anyone`:
            /// every token that names the topic, as always with `--dev`. See [control](../how-to/control.md).
            create_topics: Creation = "permitted";
            /// How long a token may last, from when it was issued to when it expires; 0 is any time
            ///
            /// A token that does not say when it was issued (`iat`) counts from when it is shown. 30 s more are forgiven.
            max_token_lifetime: Span = "365d";
            /// Ids that one bridge speaks for, and nobody else: `matrix:*=bridge:matrix`
            ///
            /// A namespace, which ends with a separator and `*`, and the participant that is the bridge: [ghosts](../protocols/mcpx.md#ghosts). Nobody else
            /// gets in as one of the ids, also while the bridge is away. Gateways that share a store need the same namespaces.
            namespaces: Vec<NamespaceOwner> = [];
            /// Ed25519 public key that may sign messages of the Machine Context Protocol
            ///
            /// `name=key`, the key in base64url: [integrity](../protocols/machine-context.md#integrity). Any participant may sign with it.
            integrity_keys: Vec<IntegrityKey> = [];
        }

        ui: UiSettings UiOverrides "Web page" {
            /// Whether there is a page for browsers at `/`, and signing in to it
            enabled: bool = "true";
            /// Tool that the page may call without asking the person: `participant/tool`, with `*` for any characters
            ///
            /// Such as `rover/*` or `*/search`. The first slash ends the participant.
            allow: Vec<ToolPattern> = [];
        }

        sqlite: SqliteSettings SqliteOverrides "Storage" {
            /// What an acknowledged envelope survives: the loss of power (`full`), or only the end of the process (`os`)
            ///
            /// The welcome says which. On NATS the servers decide, and the welcome says `os`.
            durability: Durable = "full";
        }

        nats: NatsSettings NatsOverrides "Storage on NATS JetStream (with --store nats://…)" {
            /// Name of the store on the NATS servers
            ///
            /// Gateways with the same name share their rooms. Letters, digits, `-` and `_`, at most 32.
            name: StoreName = "salon";
            /// NATS credentials file (`.creds`)
            credentials: PathBuf = none ("salon.creds");
            /// Certificates to trust the NATS servers by, PEM
            ///
            /// In place of those of the system.
            ca: PathBuf = none ("nats-ca.pem");
            /// Certificate to show to the NATS servers, PEM
            ///
            /// Needs `nats.key`.
            cert: PathBuf = none ("nats-cert.pem");
            /// Private key of that certificate, PEM
            ///
            /// Needs `nats.cert`.
            key: PathBuf = none ("nats-key.pem");
            /// NATS servers that keep every entry: 1, 3 or 5; 0 is as the store was made
            ///
            /// When the store is made, `0` is 3 in a cluster and 1 on a server alone.
            replicas: Replicas = "0";
            /// Topics there may be on NATS
            ///
            /// The gateway refuses to create another.
            topics: Topics = "10000";
            /// Streams that share the topics on NATS
            ///
            /// Counts when the store is made. Each has a leader of its own, and costs the servers and every gateway a little while nothing happens.
            shards: ShardCount = "16";
        }

        retention: RetentionSettings RetentionOverrides "Storage" {
            /// How long envelopes are kept; 0 is for ever
            age: RetentionAge = "30d";
            /// How many envelopes are kept in one topic; 0 is any number
            count: RetentionCount = "0";
        }

        limits: LimitSettings LimitOverrides "Limits (0 switches one off)" {
            /// Size of one envelope
            ///
            /// `0`: no limit.
            message: Size = "1MiB";
            /// Size of one envelope that answers a call
            ///
            /// By MCPx, REST, and MCP over a WebSocket; by other ways `limits.message` holds. Never less than `limits.message`; the caller gets an error where the answer is longer.
            answer: Size = "4MiB";
            /// Levels of nesting in one envelope, from 1 to 1024; cannot be switched off
            depth: Depth = "64";
            /// Entries in `to`
            ///
            /// `0`: no limit.
            recipients: Count = "256";
            /// Messages a second of one participant, in the long run
            ///
            /// `0`: no limit.
            ///
            /// The answer to a call is paid for by the call: it does not count against the rate of the participant that answers. Nor
            /// does its progress, up to 20 notifications a second of one call (100 at once) of at most 4 KiB, while the caller has some left
            /// of a budget for progress and cancellations, which has this rate too. Joins have the same rate, with a budget of their
            /// own. `0` switches the limits of bytes a second off, too.
            rate: Count = "100";
            /// Messages of one participant at once
            ///
            /// `0`: as many as `limits.rate`.
            burst: Count = "1000";
            /// Bytes of envelopes a second of one participant, in the long run
            ///
            /// The bytes of an answer, and of progress that the call pays for, count against the participant that called. Files have the same rate: what
            /// comes faster is received more slowly. `0`: no limit.
            byte_rate: Size = "4MiB";
            /// Bytes of envelopes of one participant at once
            ///
            /// At least the size of one envelope. `0`: as many as `limits.byte_rate`.
            byte_burst: Size = "16MiB";
            /// Bytes of envelopes a second into one topic, and eight times as many at once
            ///
            /// At this gateway. `0`: no limit.
            topic_byte_rate: Size = "16MiB";
            /// Bytes of envelopes a second into all topics, and eight times as many at once
            ///
            /// At this gateway. `0`: no limit.
            gateway_byte_rate: Size = "64MiB";
            /// Bytes of the stored envelopes of one topic
            ///
            /// Beyond it messages are refused with `storage_full` (507) until retention makes room; reading goes on. On NATS,
            /// headers count too. `0`: no limit.
            topic_stored: Size = "32GiB";
            /// Bytes of the stored envelopes of one participant in one topic
            ///
            /// Each topic counts by itself. `0`: no limit.
            participant_stored: Size = "8GiB";
            /// Bytes of all versions in the context of one topic
            ///
            /// Beyond it a write removes the older versions of its key, and is refused with `storage_full` where that makes too little
            /// room. `0`: no limit.
            context_stored: Size = "1GiB";
            /// Bytes of the stored envelopes and contexts of all topics
            ///
            /// Of all gateways that share a store. `0`: no limit.
            gateway_stored: Size = "256GiB";
            /// Longest file that is put into a topic
            ///
            /// `0`: no limit.
            file: Size = "16MiB";
            /// Bytes of the files of one topic
            ///
            /// Beyond it a file is refused with `storage_full`. `0`: no limit.
            topic_files: Size = "1GiB";
            /// Bytes of the files of all topics
            ///
            /// `0`: no limit.
            files: Size = "16GiB";
            /// Bytes of the disk that are left free: with fewer, the gateway is read-only
            ///
            /// Of the file system of the data directory, with `store = "sqlite"`. Messages are then refused with `closing` (503), what is
            /// stored can be read, `/ready` says so, and it goes on by itself when there is room. `0`: no reserve.
            disk_reserve: Size = "256MiB";
            /// Open rooms at this gateway
            ///
            /// A room is open while somebody is in it or reads it, and for about a minute after. `0`: no limit.
            rooms: Count = "20000";
            /// Open rooms that one participant has opened
            ///
            /// Beyond it, rooms of the participant that nobody uses are closed first. `0`: no limit.
            rooms_per_participant: Count = "1000";
            /// Participants in one topic
            ///
            /// `0`: no limit.
            participants: Count = "10000";
            /// Ghosts of one bridge, in all rooms of this gateway together
            ///
            /// A token can allow fewer (`ghosts_max`), never more. Gateways that share a store count each for itself. `0`: no limit.
            ghosts: Count = "1000";
            /// Messages a second of all ghosts of one bridge together, and four times as many at once
            ///
            /// Each ghost has `limits.rate` beside it. Joins of ghosts have the same rate, with a budget of their own. `0`: no limit.
            bridge_rate: Count = "500";
            /// Bytes of envelopes a second of all ghosts of one bridge together, and four times as many at once
            ///
            /// Each ghost has `limits.byte_rate` beside it. `0`: no limit.
            bridge_byte_rate: Size = "8MiB";
            /// Connections of one participant
            ///
            /// `0`: no limit.
            connections_per_participant: Count = "16";
            /// Connections from one address; of IPv6, from the addresses that share the first 64 bits
            ///
            /// `0`: no limit. Beyond it the answer is 429, except at `/health` and `/ready`.
            connections_per_address: Count = "2000";
            /// Reads over HTTP a second of one participant, in the long run; ten times as many at once
            ///
            /// Topics, participants, history, streams of every door, tickets, and sign-ins of a browser. `0`: no limit.
            read_rate: Count = "100";
            /// Bodies of requests that the gateway receives at once
            ///
            /// A body counts until it is complete. `0`: no limit.
            bodies: Count = "1024";
            /// Bodies of one participant that the gateway receives at once
            ///
            /// Of an address, where a request has no token. `0`: no limit.
            bodies_per_sender: Count = "128";
            /// Bytes of incomplete bodies in memory
            ///
            /// One message of `limits.message` always fits. `0`: no limit.
            body_bytes: Size = "128MiB";
            /// Bytes of incomplete bodies of one participant in memory
            ///
            /// One message of `limits.message` always fits. `0`: no limit.
            body_bytes_per_sender: Size = "16MiB";
        }

        memory: MemorySettings MemoryOverrides "Memory and times" {
            /// Recent envelopes kept in memory for one room
            ///
            /// Readers that are further behind read from the store.
            per_room: Size = "4MiB";
            /// Recent envelopes kept in memory for all rooms
            total: Size = "256MiB";
        }

        times: TimeSettings TimeOverrides "Memory and times" {
            /// How long a connection may take no bytes before the gateway closes it
            write_deadline: Deadline = "30s";
            /// Time between two pings
            ping_interval: Deadline = "15s";
            /// How long a peer may be silent before it has left
            ///
            /// Must be more than `times.ping_interval`.
            silence_limit: Deadline = "45s";
            /// Time participants have to come back after a crash or a stop of the gateway before they have left
            ///
            /// `0`: none.
            crash_grace: Span = "45s";
            /// Time connections have to end when the gateway is told to stop
            ///
            /// `0`: none.
            drain_deadline: Span = "10s";
            /// Time between two presence heartbeats; 0 turns them off
            ///
            /// Without heartbeats a page in a browser cannot tell a lost connection from a quiet room.
            heartbeat: Span = "30s";
        }

        log: LogSettings LogOverrides "Log lines and audit trail" {
            /// Form of the log lines on stderr: `human` or `json`
            format: Format = "human";
            /// Which log lines: a level, or directives such as `info,salon_gateway=debug`
            ///
            /// The NATS client logs whole messages at `debug`, and stays at `info` unless it is named (`async_nats=debug`).
            filter: String = "info" as "FILTER";
        }

        audit: AuditSettings AuditOverrides "Log lines and audit trail" {
            /// Whether there is an audit trail
            enabled: bool = "true";
            /// File of the audit trail
            ///
            /// No symbolic link is followed to it, unless it leads to a pipe or a device, such as `/dev/stdout`.
            file: PathBuf = none ("audit.log") shown "audit.log in the data directory";
            /// Size at which the file is renamed to `audit.log.N` and another begun; 0 is no size
            max_size: Size = "64MiB";
            /// Age of a file's first record at which it is renamed; 0 is no age
            max_age: Span = "0";
            /// Renamed files that are kept; the oldest are removed; 0 keeps all
            max_files: Count = "16";
        }
    }

    beside {
        /// Topics without history.
        history_off: HashSet<TopicName>,
        /// Retention of topics that have their own.
        topic_retention: HashMap<TopicName, Retention>,
        /// MCP servers that the operator of the gateway brings into topics. The gateway itself starts none.
        guests: Vec<Guest>,
        /// Bridges to chat platforms, by name, as they are written. The gateway itself runs none; it keeps their namespaces for them.
        bridges: BTreeMap<String, toml::Table>,
        /// Times that are no settings. Only tests have others than the default.
        timings: Timings,
    }
    beside_in_file {
        /// What single topics have of their own.
        topics: BTreeMap<TopicKey, TopicOf>,
        /// Bridges to chat platforms.
        bridges: BTreeMap<String, toml::Table>,
    }
}
