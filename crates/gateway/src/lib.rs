//! The body of Salon: everything between a socket and a room. The only crate that listens.
//!
//! [`serve`] is all of it: it takes a listener (and perhaps a way in from [`inside`]), a configuration and a shutdown. Deliberately absent: flags and terminals (the
//! binary's) and what may be said in a room (`salon-rooms`).

pub mod audit;
pub mod auth;
mod bridge_leases;
mod carriers;
mod check;
mod clock;
pub mod config;
mod connection;
mod doors;
mod entrance;
mod failures;
mod files;
mod gateway;
mod guest_board;
mod history;
mod host;
mod http;
mod inside;
mod loopback;
mod meters;
mod outages;
mod private_file;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod scratch;
mod search;
mod seat_keeper;
mod server;
mod session;
mod stamps;
mod timings;
mod topic_control;
mod ui;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::OptionFuture;
use salon_control::{ControlNotice, Decision};
use salon_log::cluster::SingleNode;
#[cfg(feature = "nats")]
use salon_log::search::{ScanBounds, ScanSearch};
use salon_log::sqlite::{self, Hold, Sqlite};
use salon_log::{Cluster, ContextStore, FileStore, LogHealth, TopicLog, TopicSearch};
use salon_protocol::{PresenceEvent, TopicName};
use salon_rooms::{BridgeSettings, ByteRates, Rate, Rooms, Settings, Witness};
use tokio::sync::watch;

use audit::{Audit, AuditEvent, AuditKind};
use auth::jwks::{Jwks, JwksError};
use auth::{LocalKey, OAuthRules, Revocations, RotationError, Signer, SigningKeys, Tickets, TokenRules, Verifier};
use config::{Config, ConfigError};
use gateway::GatewayState;
use meters::Meters;
use outages::OutageWatch;
use search::Searches;
use ui::Ui;

pub use bridge_leases::{BridgeLease, BridgeLeases};
pub use check::check;
#[cfg(feature = "nats")]
pub use check::check_log;
pub use guest_board::{GuestBoard, GuestCondition, GuestReport};
pub use inside::{Doorway, Entrances, Inside, inside};
pub use loopback::is_loopback;
pub use private_file::others_can_write;
pub use server::{TlsError, listen};
pub use timings::Timings;

/// How often the meters are tidied while nobody reads them.
const UPKEEP: Duration = Duration::from_secs(10);

/// How often the file of the signing keys is looked at.
const KEY_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// How long the last leaves may take to be stored: longer than servers take to agree on a leader.
const CLOSING_TIME: Duration = Duration::from_secs(10);

/// Why a gateway could not start, or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The settings contradict each other.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The data directory cannot be used.
    #[error("the data directory `{path}` cannot be used: {why}")]
    Data {
        /// The directory.
        path: String,
        /// What is wrong.
        why: std::io::Error,
    },
    /// The audit trail cannot be written.
    #[error("the audit trail `{path}` cannot be used: {why}")]
    Audit {
        /// The file.
        path: String,
        /// What is wrong.
        why: std::io::Error,
    },
    /// The gateway's own key cannot be used.
    #[error(transparent)]
    Key(#[from] RotationError),
    /// The identity provider's keys cannot be had.
    #[error("`{place}`: {why}")]
    Jwks {
        /// Where they should be.
        place: String,
        /// What is wrong.
        why: JwksError,
    },
    /// The certificate or its key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The log cannot be opened.
    #[error(transparent)]
    Log(#[from] salon_log::sqlite::OpenError),
    /// The log on NATS cannot be opened.
    #[cfg(feature = "nats")]
    #[error(transparent)]
    Nats(#[from] salon_log::nats::OpenError),
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] salon_log::ReadError),
    /// The meters cannot be set up.
    #[error("the metrics cannot be set up: {0}")]
    Meters(String),
    /// The log failed while the gateway ran.
    #[error("the log has stopped, and the gateway with it: {0}")]
    LogStopped(Arc<str>),
}

/// The description of the gateway's HTTP addresses, as OpenAPI in JSON.
pub fn openapi() -> String {
    http::openapi()
}

/// Opens the log and keys under `config.data`, calls `ready`, and serves until `shutdown` resolves; then tells everyone, drains and
/// closes.
pub async fn serve(
    entrances: impl Into<Entrances>,
    mut config: Config,
    ready: impl FnOnce() + Send,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let mut entrances = entrances.into();
    config.validate()?;
    let tls = |protocols| config.tls().map(|(cert, key)| server::tls(cert, key, protocols)).transpose();
    let (tls, framed_tls) = (tls(&[b"http/1.1"])?, tls(&[])?);
    make_private_dir(&config.data)?;
    for warning in check::warnings(&config) {
        tracing::warn!("configuration: {warning}");
    }
    let keys = SigningKeys::load_or_create(&config.data)?;
    let local = keys.first().clone();
    let oauth = OAuthRules::of(&config, entrances.listener.local_addr().ok());
    let rules = TokenRules { dev: config.dev, max_lifetime: config.auth.max_token_lifetime, oauth };
    let verifier = Verifier::following(&config.data, &keys, rules);
    let place = config.auth.jwks.as_ref().map(ToString::to_string).unwrap_or_default();
    let unread = |why| ServeError::Jwks { place: place.clone(), why };
    let jwks = config.auth.jwks.clone().map(|source| Jwks::new(source, config.auth.jwks_max_age));
    let jwks = jwks.transpose().map_err(unread)?;
    if let Some(jwks) = &jwks {
        verifier.trust(jwks.fetch().await.map_err(unread)?);
    }
    let audit = match config.audit_path() {
        Some(path) => Audit::open(&path, config.audit_rotation(), clock::now())
            .map_err(|why| ServeError::Audit { path: path.display().to_string(), why })?,
        None => Audit::off(),
    };
    let meters = Meters::new().map_err(|error| ServeError::Meters(error.to_string()))?;
    let Logs { log, context, files, search, cluster, _hold } = open_log(&config, &local).await?;
    entrances.leases.open(cluster.clone(), config.timings.bridge_lease);
    let is_shared = cluster.is_shared();
    let outages = is_shared.then(|| Arc::new(OutageWatch::new(log.clone(), config.timings.outage_delay)));
    // What is in the directory beside the log is the gateway's too, once it has the log.
    let (links, guests) = (std::mem::take(&mut entrances.links), std::mem::take(&mut entrances.guests));
    let ui = config.ui.enabled.then(|| Ui::open(&config, keys.for_sign_ins(), links, cluster.clone(), clock::now()));
    let ui = ui.transpose().map_err(|why| ServeError::Data { path: config.data.display().to_string(), why })?;
    if let Some(ui) = &ui {
        ui.follow_sign_outs().await?;
    }
    let revocations = Revocations::open(&config.data, cluster.clone());
    let revocations =
        Arc::new(revocations.map_err(|why| ServeError::Data { path: config.data.display().to_string(), why })?);
    revocations.follow().await?;
    fit_messages(&mut config, &*log);
    let settings = settings(&config, &local, witness(audit.clone(), meters.clone()));
    let library = Arc::new(host::Library::default());
    let searches = Arc::new(Searches::new(search));
    let host_settings = host::HostSettings {
        searches: searches.clone(),
        files: files.clone(),
        audit: audit.clone(),
        history_off: config.history_off.clone(),
        message_limit: config.limits.message,
        namespace: local.shared_name("host"),
        list_times: (config.timings.list_max_age, config.timings.announce_interval),
        topic_creation: config.topic_creation(),
    };
    let host = host::host((log.clone(), context, cluster.clone()), host_settings, library.clone());
    let rooms = Rooms::new(log.clone(), settings, host);
    // A log that several nodes share is recovered beside serving: there every topic is read for it, which takes long where there are many. A room that is
    // opened meanwhile is repaired as it is opened.
    if !is_shared {
        rooms.recover().await?;
    }

    let stop = watch::Sender::new(false);
    let (drain_deadline, write_deadline) = (config.times.drain_deadline, config.times.write_deadline);
    let most_waiting = config.limits.connections_per_address;
    let gateway = Arc::new(GatewayState::new(
        config,
        (rooms.clone(), library, (searches, files, guests), outages),
        (verifier.clone(), Signer::dev(&local)),
        (Tickets::new(cluster), revocations, ui),
        audit.clone(),
        meters.clone(),
        stop.clone(),
    ));
    if let Ok(address) = entrances.listener.local_addr() {
        tracing::info!(%address, "gateway: serving");
    }
    ready();

    let framed = entrances.framed.take();
    let framed = framed.map(|listener| doors::framed::accept(listener, framed_tls, gateway.clone(), stop.subscribe()));
    let routers = (http::router(gateway.clone()), http::overflow_router(gateway.clone()));
    let accepting = server::accept(entrances, tls, routers, write_deadline, most_waiting, stop.subscribe());
    let accepting = async {
        tokio::join!(accepting, OptionFuture::from(framed));
    };
    tokio::pin!(accepting);
    let refreshing = async {
        match &jwks {
            Some(jwks) => jwks.refresh(&verifier, std::future::pending()).await,
            None => std::future::pending().await,
        }
    };
    let mut health = log.health();
    let watching = async {
        tokio::select! {
            () = shutdown => None,
            failed = health.wait_for(|health| matches!(health, LogHealth::Stopped(_))) => {
                failed.ok().and_then(|health| match &*health {
                    LogHealth::Writable | LogHealth::Unreachable(_) | LogHealth::ReadOnly(_) => None,
                    LogHealth::Stopped(reason) => Some(reason.clone()),
                })
            }
        }
    };
    let failure = tokio::select! {
        failure = watching => failure,
        () = &mut accepting => None,
        () = refreshing => None,
        () = follow_keys(&verifier, &gateway.revocations) => None,
        () = upkeep(&meters) => None,
        () = remove_lapsed(&rooms) => None,
        () = tend(&gateway) => None,
        () = keep_files(&gateway) => None,
    };
    tracing::info!("gateway: stopping");
    stop.send_replace(true);
    rooms.dismiss();
    let drained = async { tokio::join!(gateway.drain(), accepting) };
    if tokio::time::timeout(drain_deadline, drained).await.is_err() {
        tracing::warn!("shutdown: drain deadline passed, cutting off the connections that are left");
    }
    if tokio::time::timeout(CLOSING_TIME, rooms.close()).await.is_err() {
        tracing::warn!("shutdown: the last leaves were not stored in time");
    }
    log.close().await;
    audit.close();
    tracing::info!("gateway: stopped");
    failure.map_or(Ok(()), |reason| Err(ServeError::LogStopped(reason)))
}

/// A log in its roles.
struct Logs {
    log: Arc<dyn TopicLog>,
    context: Arc<dyn ContextStore>,
    files: Arc<dyn FileStore>,
    search: Arc<dyn TopicSearch>,
    /// What the gateways share that have it open.
    cluster: Arc<dyn Cluster>,
    /// The data directory, where the log does not take it.
    _hold: Option<Hold>,
}

#[cfg_attr(not(feature = "nats"), expect(unused_variables, reason = "only nodes of one log compare their keys"))]
async fn open_log(config: &Config, local: &LocalKey) -> Result<Logs, ServeError> {
    #[cfg(feature = "nats")]
    if let Some(options) = config.nats_options(fingerprint(local)) {
        let hold = sqlite::hold(&config.data)?;
        let nats = Arc::new(salon_log::nats::Nats::open(options).await?);
        let files = Arc::new(salon_log::nats::NatsFiles::open(&nats, config.file_quotas()).await?);
        let search = Arc::new(ScanSearch::new(nats.clone(), ScanBounds::default()));
        return Ok(Logs { log: nats.clone(), context: nats.clone(), files, search, cluster: nats, _hold: Some(hold) });
    }
    let options = sqlite::SqliteOptions {
        durability: config.sqlite.durability,
        retention: config.retention_rules(),
        disk_reserve: config.limits.disk_reserve as u64,
        quotas: config.stored_quotas(),
        files: config.file_quotas(),
    };
    let sqlite = Arc::new(Sqlite::open(&config.data, options)?);
    let cluster = Arc::new(SingleNode::default());
    let (log, context, files) = (sqlite.clone(), sqlite.clone(), sqlite.clone());
    Ok(Logs { log, context, files, search: sqlite, cluster, _hold: None })
}

/// Takes no longer messages than NATS does, and says so where that is less than what was asked for.
fn fit_messages(config: &mut Config, log: &dyn TopicLog) {
    let Some(most) = log.max_envelope_bytes() else { return };
    config.limits.answer = config.limits.answer.min(most);
    let asked = config.limits.message;
    if asked == 0 || asked > most {
        config.limits.message = most;
        tracing::warn!(
            most,
            "nats: messages are limited to the servers' `max_payload`, which is less than the configured limit; raise it for more"
        );
    }
}

/// What a store on NATS is opened with beside the settings, where a data directory has a key: the gateways that share it have the same key.
#[cfg(feature = "nats")]
pub fn store_fingerprint(data: &std::path::Path) -> Result<Option<String>, auth::KeyFileError> {
    Ok(LocalKey::find(data)?.as_ref().map(fingerprint))
}

/// Tells whether gateways have the same key, and nothing of the key.
#[cfg(feature = "nats")]
fn fingerprint(local: &LocalKey) -> String {
    auth::hex(&local.shared_name("log"))
}

async fn remove_lapsed(rooms: &Rooms) {
    rooms.remove_lapsed().await;
    // The log has been closed, which is nothing to stop for.
    std::future::pending().await
}

/// What is to be done for as long as the gateway runs where it may be one of several.
async fn tend(gateway: &GatewayState) {
    if let Some(outages) = &gateway.outages {
        let sharing = gateway.ui.as_ref().map(|ui| ui.share_sign_outs(gateway.config.timings.sign_out_retry_delay));
        let sharing = OptionFuture::from(sharing);
        let revocations = gateway.revocations.keep(gateway.config.timings.sign_out_retry_delay);
        tokio::join!(outages.watch(), sharing, revocations);
    }
    std::future::pending().await
}

/// Removes files whose time is over.
async fn keep_files(gateway: &GatewayState) {
    files::keep(&*gateway.files, &**gateway.rooms.log()).await
}

/// Refuses tokens of keys that were removed, and ends what was opened with them, at every gateway of the store. A key that was added is read when a
/// token names it.
async fn follow_keys(verifier: &Verifier, revocations: &Arc<Revocations>) {
    loop {
        let (reading, adding) = (verifier.clone(), revocations.clone());
        let read = move || {
            reading.reload_local_keys();
            adding.add_removed_keys(reading.removed_local_keys(), clock::now())
        };
        match tokio::task::spawn_blocking(read).await {
            Ok(Ok(false)) | Err(_) => {}
            Ok(Ok(true)) => {
                tracing::info!("auth: signing key removed, ending connections of its tokens");
                if revocations.share().await.is_err() {
                    tracing::warn!("auth: other gateways unreachable, retrying to send the removed key");
                }
            }
            Ok(Err(error)) => tracing::error!(%error, "auth: removal of a signing key not written"),
        }
        tokio::time::sleep(KEY_POLL_INTERVAL).await;
    }
}

async fn upkeep(meters: &Meters) {
    loop {
        tokio::time::sleep(UPKEEP).await;
        meters.upkeep();
    }
}

/// How many bytes may be published. A burst takes at least one envelope of the greatest size.
fn byte_rates(config: &Config) -> ByteRates {
    /// How many seconds' worth a topic and the gateway take at once.
    const BURST: usize = 8;
    let limits = &config.limits;
    if limits.rate == 0 {
        return ByteRates::UNLIMITED;
    }
    let count = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    let rate = |per_second: usize, burst: usize| {
        let burst = burst.max(per_second).max(limits.message).max(limits.answer);
        Rate { per_second: count(per_second), burst: count(burst) }
    };
    let shared = |per_second: usize| rate(per_second, per_second.saturating_mul(BURST));
    ByteRates {
        participant: rate(limits.byte_rate, limits.byte_burst),
        topic: shared(limits.topic_byte_rate),
        gateway: shared(limits.gateway_byte_rate),
    }
}

/// What bridges may do. A burst takes as many joins as a bridge may have ghosts, so that all of them can be entered at once.
fn bridges(config: &Config) -> BridgeSettings {
    /// How many seconds' worth a bridge takes at once.
    const BURST: usize = 4;
    let limits = &config.limits;
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let rate = |per_second: usize, least: usize| match limits.rate {
        0 => Rate::UNLIMITED,
        _ => Rate { per_second: count(per_second), burst: count(per_second.saturating_mul(BURST).max(least)) },
    };
    BridgeSettings {
        rate: rate(limits.bridge_rate, limits.ghosts),
        byte_rate: rate(limits.bridge_byte_rate, limits.message.max(limits.answer)),
        ghosts: limits.ghosts,
        namespaces: config.namespaces().unwrap_or_default(),
    }
}

fn settings(config: &Config, local: &LocalKey, witness: Witness) -> Settings {
    let rate = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    Settings {
        ring: config.memory.per_room,
        rings: config.memory.total,
        rate: Rate { per_second: rate(config.limits.rate), burst: rate(config.limits.burst) },
        byte_rates: byte_rates(config),
        bridges: bridges(config),
        participants: config.limits.participants,
        rooms: config.limits.rooms,
        rooms_each: config.limits.rooms_per_participant,
        grace: config.times.crash_grace,
        leaves: local.shared_name("leaves"),
        witness: Some(witness),
        timings: config.timings.rooms,
    }
}

/// Counts what enters the rooms, and keeps joins, leaves and what was decided there in the audit trail.
fn witness(audit: Audit, meters: Meters) -> Witness {
    Box::new(move |topic: &TopicName, batch| {
        meters.appends.increment(batch.entries().len() as u64);
        for notice in batch.entries().iter().filter_map(|entry| ControlNotice::of(&entry.envelope)) {
            audit.record(notice_event(&notice).topic(topic));
        }
        for presence in batch.entries().iter().filter_map(|entry| entry.envelope.presence()) {
            let kind = match presence.event {
                PresenceEvent::Join => AuditKind::Join,
                PresenceEvent::Leave => AuditKind::Leave,
                PresenceEvent::Heartbeat | PresenceEvent::Status => continue,
            };
            audit.record(AuditEvent::new(kind, clock::now()).participant(&presence.participant.id).topic(topic));
        }
    })
}

/// A notice as the audit trail has it: without reasons and texts, which participants write.
fn notice_event(notice: &ControlNotice) -> AuditEvent {
    let event = |kind| AuditEvent::new(kind, clock::now());
    match notice {
        ControlNotice::Settings(change) => {
            let reason = format!("version {}", change.settings.version);
            event(AuditKind::TopicSettings).participant(&change.by).reason(reason)
        }
        ControlNotice::Requested(held) => {
            let reason = format!("{} of {} in {}", held.tool, held.callee, held.id);
            event(AuditKind::ApprovalRequested).participant(&held.caller).reason(reason)
        }
        ControlNotice::Deleted(deletion) => event(AuditKind::TopicDeleted).participant(&deletion.by),
        ControlNotice::Decided(decided) => {
            let word = match decided.decision {
                Decision::Approved => "approved",
                Decision::Denied => "denied",
                Decision::Expired => "expired",
                Decision::Dropped => "dropped",
            };
            let event = event(AuditKind::ApprovalDecided).reason(format!("{word} {}", decided.id));
            match &decided.by {
                Some(by) => event.participant(by),
                None => event,
            }
        }
        ControlNotice::Redacted(redaction) => {
            event(AuditKind::MessageRedacted).participant(&redaction.by).reason(redaction.id.to_string())
        }
    }
}

fn make_private_dir(path: &std::path::Path) -> Result<(), ServeError> {
    use std::os::unix::fs::DirBuilderExt;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|why| ServeError::Data { path: path.display().to_string(), why })
}
