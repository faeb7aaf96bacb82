//! The bridges of a running gateway: each a task of its own, in its rooms over a connection made of memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use salon_bridges::config::BridgeConfig;
use salon_bridges::platform::PlatformDriver;
use salon_bridges::runner::{self, BridgeError, BridgeRun, BridgeStatus, SharedState, StatusListener};
use salon_client::{Client, Gateway, Token, TokenError, TokenProvider};
use salon_control::{GhostGrant, Namespace};
use salon_gateway::auth::{Grant, SigningKeys};
use salon_gateway::{BridgeLease, BridgeLeases, Inside};
use salon_protocol::{ParticipantKind, Timestamp, TopicPattern};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::BridgePlan;
use crate::clock;
use crate::guests::hosting::Within;

/// How long a bridge's token is good for. It never leaves this process; a connection that outlives it comes back with a new one.
const TTL: Duration = Duration::from_secs(12 * 60 * 60);
/// How long all bridges together have to end.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait before a bridge is started again whose rooms or store were out of reach.
const RESTART_DELAY: Duration = Duration::from_secs(30);

/// The bridges of a gateway.
pub(crate) struct HostedBridges {
    tasks: JoinSet<()>,
    stop: CancellationToken,
}

impl HostedBridges {
    /// Starts them. What they remember is in the data directory.
    pub(crate) fn start(plans: Vec<BridgePlan>, inside: &Inside, leases: &BridgeLeases, data: &Path) -> Self {
        let mut hosted = Self { tasks: JoinSet::new(), stop: CancellationToken::new() };
        for BridgePlan { config, driver } in plans {
            let name = config.name.clone();
            let tokens = match BridgeTokens::by_data(data, &config) {
                Ok(tokens) => tokens,
                Err(error) => {
                    tracing::error!(bridge = %name, "bridge: no token, not started: {error:#}");
                    continue;
                }
            };
            let client = Client::new(Gateway::through(Within(inside.clone())), tokens);
            let store = data.join("bridges").join(format!("{name}.sqlite"));
            let bridge = HostedBridge { config, driver, client, store, leases: leases.clone() };
            hosted.tasks.spawn(bridge.run(hosted.stop.clone()));
        }
        hosted
    }

    /// Ends them all.
    pub(crate) async fn end(mut self) {
        self.stop.cancel();
        let ending = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(END_TIMEOUT, ending).await.is_err() {
            tracing::warn!("bridges: shutdown deadline passed, ending the bridges that are left");
        }
    }
}

/// One bridge of a gateway.
struct HostedBridge {
    config: BridgeConfig,
    driver: Arc<dyn PlatformDriver>,
    client: Client,
    store: PathBuf,
    leases: BridgeLeases,
}

impl HostedBridge {
    /// Runs the bridge while this gateway has its lease, until `stop`.
    async fn run(self, stop: CancellationToken) {
        let name = &self.config.name;
        loop {
            let waiting = || tracing::info!(bridge = %name, "bridge: another gateway runs it, waiting");
            let lease = tokio::select! { biased;
                () = stop.cancelled() => return,
                lease = self.leases.acquire(name, waiting) => Arc::new(lease),
            };
            let ended = self.run_leased(&lease, &stop).await;
            lease.release().await;
            match ended {
                Some(Ok(())) => return,
                Some(Err(error @ (BridgeError::Driver(_) | BridgeError::Panicked(_)))) => {
                    return tracing::error!(bridge = %name, "bridge: ended, not restarted: {error}");
                }
                Some(Err(error)) => {
                    tracing::error!(bridge = %name, "bridge: {error}; starting again in {} s", RESTART_DELAY.as_secs());
                }
                None => {
                    tracing::warn!(bridge = %name, "bridge: lease lost, stopped until it is free");
                    continue;
                }
            }
            tokio::select! { biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(RESTART_DELAY) => {}
            }
        }
    }

    /// Returns how the bridge ended; `None` if the lease was lost.
    async fn run_leased(&self, lease: &Arc<BridgeLease>, stop: &CancellationToken) -> Option<Result<(), BridgeError>> {
        let Self { config, driver, client, store, .. } = self;
        let run = BridgeRun {
            config: config.clone(),
            driver: driver.clone(),
            client: client.clone(),
            store: store.clone(),
            shared: Some(Arc::new(LeasedState(lease.clone()))),
        };
        let leased = stop.child_token();
        let running = runner::run(run, leased.clone(), report(&config.name));
        tokio::pin!(running);
        tokio::select! {
            ended = &mut running => Some(ended),
            () = lease.hold() => {
                leased.cancel();
                if let Err(error) = running.await {
                    tracing::warn!(bridge = %config.name, %error, "bridge: lease lost, ended with an error");
                }
                None
            }
        }
    }
}

/// What gateways that share a store share of a bridge.
struct LeasedState(Arc<BridgeLease>);

impl SharedState for LeasedState {
    fn read<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>, String>> {
        async move { self.0.progress(name).await.map_err(|error| error.to_string()) }.boxed()
    }

    fn keep<'a>(&'a self, name: &'a str, value: Vec<u8>) -> BoxFuture<'a, Result<(), String>> {
        async move { self.0.keep_progress(name, value).await.map_err(|error| error.to_string()) }.boxed()
    }
}

/// Writes how a bridge is doing to the log.
pub(super) fn report(name: &str) -> StatusListener {
    let name = name.to_owned();
    Arc::new(move |status| match status {
        BridgeStatus::Standby => tracing::info!(bridge = %name, "bridge: another process runs it, waiting"),
        BridgeStatus::RoomEntered { topic } => tracing::info!(bridge = %name, %topic, "bridge: in the room"),
        BridgeStatus::RoomLost { topic, reason } => {
            tracing::warn!(bridge = %name, %topic, "bridge: room lost, entering again: {reason}");
        }
        BridgeStatus::ChannelEntered { channel, topic } => {
            tracing::info!(bridge = %name, %channel, %topic, "bridge: in the channel");
        }
        BridgeStatus::ChannelLost { channel, reason } => {
            tracing::warn!(bridge = %name, %channel, "bridge: channel lost, entering again: {reason}");
        }
    })
}

/// Where the keys are.
enum KeySource {
    Data(PathBuf),
    Keys(SigningKeys),
}

/// Makes a token for one bridge and its rooms, whenever one is wanted.
pub(super) struct BridgeTokens {
    keys: KeySource,
    config: BridgeConfig,
    namespace: Namespace,
}

impl BridgeTokens {
    fn by_data(data: &Path, config: &BridgeConfig) -> anyhow::Result<Self> {
        Self::new(KeySource::Data(data.to_owned()), config)
    }

    pub(super) fn by_keys(keys: SigningKeys, config: &BridgeConfig) -> anyhow::Result<Self> {
        Self::new(KeySource::Keys(keys), config)
    }

    fn new(keys: KeySource, config: &BridgeConfig) -> anyhow::Result<Self> {
        let text = format!("{}:*", config.namespace);
        let namespace = text.parse().map_err(|error| anyhow::anyhow!("namespace `{text}`: {error}"))?;
        Ok(Self { keys, config: config.clone(), namespace })
    }

    fn make(&self) -> Result<Token, TokenError> {
        let now = clock::now();
        let ttl = u64::try_from(TTL.as_millis()).expect("half a day fits");
        let topics = self.config.channels.values().cloned().map(TopicPattern::Exact).collect();
        let mut grant = Grant::new(self.config.participant(), topics, Timestamp(now.0.saturating_add(ttl)));
        grant.kind = Some(ParticipantKind::Agent);
        let options = &self.config.options;
        // Who may approve calls `approval.decide`, a tool of the gateway.
        let calls = options.ghosts_call || !options.approvers.is_empty();
        let max = Some(options.max_ghosts.saturating_mul(self.config.channels.len()));
        grant.ghosts = Some(GhostGrant { max, calls, ..GhostGrant::new(vec![self.namespace.clone()]) });
        let sign =
            |keys: &SigningKeys| keys.signer(now).sign(&grant, now).map(Token::from).map_err(TokenError::provider);
        match &self.keys {
            // Read each time: the key that signed the last one may be gone.
            KeySource::Data(data) => sign(&SigningKeys::load_or_create(data).map_err(TokenError::provider)?),
            KeySource::Keys(keys) => sign(keys),
        }
    }
}

impl TokenProvider for BridgeTokens {
    fn token(&self, _refresh: bool) -> BoxFuture<'_, Result<Token, TokenError>> {
        ready(self.make()).boxed()
    }
}
