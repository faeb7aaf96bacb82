//! Running a bridge: rooms, the platform and the store around the cores.
//!
//! Several processes may be given the same bridge. The process that has the seat of the bridge's own participant runs it. One that is started takes the seat; the
//! one that had it waits until it is free. Gateways that share a log decide by a lease which of them starts it, and share how far it has come ([`SharedState`]).

mod channel;
mod requests;
mod shared;
mod shared_messages;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use salon_client::{Client, RestError};
use salon_protocol::TopicName;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::config::BridgeConfig;
use crate::core::{BridgeCore, CoreSetup};
use crate::platform::{DriverError, PlatformChannel, PlatformDriver, PlatformEvents, ReportedEvent};
use crate::store::{BridgeStore, BridgeStoreError};
use channel::{ChannelEnd, ChannelTask};
pub use shared::SharedState;
use shared::{SharedChannel, shared_key};

/// Events of the platform that wait for the bridge.
const EVENT_QUEUE: usize = 256;
/// How often a bridge that waits looks whether its seat is free.
const STANDBY_INTERVAL: Duration = Duration::from_secs(3);

/// What a bridge needs to run.
pub struct BridgeRun {
    pub config: BridgeConfig,
    pub driver: Arc<dyn PlatformDriver>,
    /// With a token for the bridge's participant, its topics and its namespace.
    pub client: Client,
    /// The file with what the bridge remembers.
    pub store: PathBuf,
    /// Where other processes may run the bridge when this one has ended.
    pub shared: Option<Arc<dyn SharedState>>,
}

/// How a bridge is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BridgeStatus {
    /// Another process runs it.
    Standby,
    /// It is in the room.
    RoomEntered {
        topic: TopicName,
    },
    RoomLost {
        topic: TopicName,
        reason: String,
    },
    /// It is in the channel.
    ChannelEntered {
        channel: PlatformChannel,
        topic: TopicName,
    },
    ChannelLost {
        channel: PlatformChannel,
        reason: String,
    },
}

/// Why a bridge cannot run.
#[derive(Debug, thiserror::Error)]
pub enum BridgeError {
    #[error(transparent)]
    Driver(#[from] DriverError),
    #[error(transparent)]
    Store(#[from] BridgeStoreError),
    #[error("the room `{topic}` cannot be entered: {error}")]
    Room { topic: TopicName, error: RestError },
    #[error("what gateways share of the bridge cannot be used: {0}")]
    Shared(String),
    #[error("the bridge failed inside: {0}")]
    Panicked(tokio::task::JoinError),
}

/// Hears how the bridge is doing.
pub type StatusListener = Arc<dyn Fn(&BridgeStatus) + Send + Sync>;

/// Runs a bridge until `stop`, or until something is wrong that a person has to change.
pub async fn run(run: BridgeRun, stop: CancellationToken, listener: StatusListener) -> Result<(), BridgeError> {
    loop {
        // The newest process takes the seat at once: after a crash the room shows the bridge as present for a while.
        match own(&run, stop.child_token(), &listener).await? {
            ChannelEnd::Stopped => return Ok(()),
            ChannelEnd::Replaced => listener(&BridgeStatus::Standby),
        }
        tokio::select! { biased;
            () = stop.cancelled() => return Ok(()),
            () = seat_free(&run) => {}
        }
    }
}

/// Waits until no other process has the bridge's seat.
async fn seat_free(run: &BridgeRun) {
    let Some(topic) = run.config.channels.values().next() else { return };
    let participant = run.config.participant();
    loop {
        tokio::time::sleep(STANDBY_INTERVAL).await;
        let present = run.client.participants(topic).await;
        // A gateway that cannot be asked says nothing about the seat.
        if present.is_ok_and(|present| present.iter().all(|one| one.id != participant)) {
            return;
        }
    }
}

/// Runs the bridge while this process has its seats.
async fn own(run: &BridgeRun, stop: CancellationToken, listener: &StatusListener) -> Result<ChannelEnd, BridgeError> {
    let mut store = BridgeStore::open(&run.store, rand::random())?;
    let key = match &run.shared {
        Some(state) => shared_key(&**state, store.key()).await?,
        None => store.key(),
    };
    let mut channels = Vec::new();
    for (channel, topic) in &run.config.channels {
        let mut stored = store.load(channel)?;
        let shared = match &run.shared {
            Some(state) => Some(SharedChannel::take_over(state.clone(), channel, &mut store, &mut stored).await?),
            None => None,
        };
        channels.push((channel, topic, stored, shared));
    }
    let store = Arc::new(Mutex::new(store));
    let mut tasks: JoinSet<Result<ChannelEnd, BridgeError>> = JoinSet::new();
    let mut routes = Vec::new();
    for (channel, topic, stored, shared) in channels {
        if let Some(newest) = stored.newest_of_platform() {
            run.driver.begin(channel, newest.clone());
        }
        let last_read = stored.position.clone();
        let core = BridgeCore::new(CoreSetup {
            participant: run.config.participant(),
            namespace: run.config.namespace.clone(),
            channel: channel.clone(),
            capabilities: run.driver.capabilities(),
            options: run.config.options.clone(),
            key,
            run: rand::random(),
            stored,
        });
        let (sender, events) = mpsc::channel(EVENT_QUEUE);
        routes.push((channel.clone(), sender));
        let task = ChannelTask {
            core,
            channel: channel.clone(),
            topic: topic.clone(),
            name: format!("{} bridge", run.config.platform),
            client: run.client.clone(),
            driver: run.driver.clone(),
            store: store.clone(),
            listener: listener.clone(),
            last_read,
            shared,
        };
        tasks.spawn(task.run(events, stop.clone()));
    }
    let (events, reported) = PlatformEvents::channel(EVENT_QUEUE);
    tasks.spawn(route(reported, routes, stop.clone()));
    let (driver, driver_stop) = (run.driver.clone(), stop.clone());
    tasks.spawn(async move { Ok(driver.run(events, driver_stop).await.map(|()| ChannelEnd::Stopped)?) });
    let mut end = Ok(ChannelEnd::Stopped);
    while let Some(ended) = tasks.join_next().await {
        let ended = ended.unwrap_or_else(|error| Err(BridgeError::Panicked(error)));
        // The first that ends, ends all; what it says counts.
        if !stop.is_cancelled() {
            stop.cancel();
            end = ended;
        }
    }
    end
}

/// Brings each event to the task of its channel.
async fn route(
    mut reported: mpsc::Receiver<ReportedEvent>,
    routes: Vec<(PlatformChannel, mpsc::Sender<ReportedEvent>)>,
    stop: CancellationToken,
) -> Result<ChannelEnd, BridgeError> {
    loop {
        let event = tokio::select! { biased;
            () = stop.cancelled() => return Ok(ChannelEnd::Stopped),
            event = reported.recv() => event,
        };
        let Some(event) = event else { return Ok(ChannelEnd::Stopped) };
        if let Some((_, route)) = routes.iter().find(|(channel, _)| *channel == event.channel) {
            let _ = route.send(event).await;
        }
    }
}
