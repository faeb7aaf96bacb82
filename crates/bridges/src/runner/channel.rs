//! One channel: the core, driven by its room, its platform and time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::{BoxFuture, FutureExt as _, OptionFuture};
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use salon_client::{Backoff, Client, End, ErrorKind, Event, Events, HistoryQuery, Room};
use salon_protocol::{EnvelopeId, Kind, ParticipantKind, TopicName};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::requests::{RoomRequest, perform};
use super::shared::SharedChannel;
use super::{BridgeError, BridgeStatus, StatusListener};
use crate::clock::now;
use crate::core::{BridgeCore, CoreInput, CoreOutput, EventTicket, StoreChange};
use crate::platform::{
    ActionKey, PlatformAction, PlatformChannel, PlatformDriver, PlatformEvent, PlatformFailure, PlatformReceipt,
    ReportedEvent,
};
use crate::room::{RoomAction, RoomEvent, RoomResult, RoomTicket};
use crate::store::{BridgeStore, BridgeStoreError};

/// Requests to the room that wait for the one before them, beyond which no events of the platform are taken.
const MAX_WAITING_REQUESTS: usize = 64;

/// Why a channel is not bridged by this process any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChannelEnd {
    Stopped,
    /// Another process took the bridge's seat.
    Replaced,
}

pub(super) struct ChannelTask {
    pub(super) core: BridgeCore,
    pub(super) channel: PlatformChannel,
    pub(super) topic: TopicName,
    /// The bridge's name in the room.
    pub(super) name: String,
    pub(super) client: Client,
    pub(super) driver: Arc<dyn PlatformDriver>,
    pub(super) store: Arc<Mutex<BridgeStore>>,
    pub(super) listener: StatusListener,
    /// The last envelope that the core has.
    pub(super) last_read: Option<EnvelopeId>,
    pub(super) shared: Option<SharedChannel>,
}

type ActionWork = BoxFuture<'static, (ActionKey, Result<PlatformReceipt, PlatformFailure>)>;
type RequestWork = BoxFuture<'static, (RoomTicket, RoomResult)>;

/// What is under way.
#[derive(Default)]
struct ChannelWork {
    action: Option<ActionWork>,
    /// Requests to the room that keep their order, one at a time.
    ordered: Option<RequestWork>,
    waiting: VecDeque<RoomAction>,
    /// Calls and lists, at once.
    calls: FuturesUnordered<RequestWork>,
}

/// What happened.
enum Occurrence {
    Stop,
    Reported(ReportedEvent),
    Action(ActionKey, Result<PlatformReceipt, PlatformFailure>),
    /// Of a request that keeps its order.
    Ordered(RoomTicket, RoomResult),
    Request(RoomTicket, RoomResult),
    Room(Option<Event>),
    Tick,
}

impl ChannelTask {
    pub(super) async fn run(
        mut self,
        mut reported: mpsc::Receiver<ReportedEvent>,
        stop: CancellationToken,
    ) -> Result<ChannelEnd, BridgeError> {
        let backoff = Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(60) };
        let mut attempt = 0;
        loop {
            let joining = async {
                self.begin().await?;
                Ok::<_, BridgeError>(self.join().await)
            };
            let joined = tokio::select! { biased;
                () = stop.cancelled() => return Ok(ChannelEnd::Stopped),
                joined = joining => joined?,
            };
            let reason = match joined {
                Ok((room, events)) => {
                    attempt = 0;
                    let stayed = self.stay(room, events, &mut reported, &stop).await?;
                    match stayed {
                        Some(End::Replaced) => return Ok(ChannelEnd::Replaced),
                        Some(end) => end.to_string(),
                        None => return Ok(ChannelEnd::Stopped),
                    }
                }
                Err(error) if is_final(&error) => {
                    return Err(BridgeError::Room { topic: self.topic.clone(), error });
                }
                Err(error) => error.to_string(),
            };
            (self.listener)(&BridgeStatus::RoomLost { topic: self.topic.clone(), reason });
            let delay = backoff.delay(attempt, rand::random());
            attempt += 1;
            tokio::select! { biased;
                () = stop.cancelled() => return Ok(ChannelEnd::Stopped),
                () = tokio::time::sleep(delay) => {}
            }
        }
    }

    /// A bridge begins with what is said from now on. Where that is, is stored before anything is shown: a crash before the first delivery loses nothing.
    async fn begin(&mut self) -> Result<(), BridgeError> {
        if self.last_read.is_some() {
            return Ok(());
        }
        let newest = self.client.history(&self.topic, &HistoryQuery::new().limit(1)).await;
        // A topic without a history has none, and a bridge can do without.
        let newest = newest.ok().and_then(|page| page.envelopes.first().map(|envelope| envelope.id().clone()));
        if let Some(newest) = newest {
            self.commit(&mut vec![StoreChange::Position(newest.clone())]).await?;
            self.last_read = Some(newest);
        }
        Ok(())
    }

    async fn join(&self) -> Result<(Room, Events), salon_client::JoinError> {
        let mut entering = self.client.room(self.topic.clone()).name(self.name.clone()).kind(ParticipantKind::Agent);
        if let Some(last) = &self.last_read {
            entering = entering.after(last.clone());
        }
        entering.join_listening().await
    }

    /// Stays in the room until it ends, or until `stop`.
    async fn stay(
        &mut self,
        room: Room,
        mut events: Events,
        reported: &mut mpsc::Receiver<ReportedEvent>,
        stop: &CancellationToken,
    ) -> Result<Option<End>, BridgeError> {
        let mut work = ChannelWork::default();
        (self.listener)(&BridgeStatus::RoomEntered { topic: self.topic.clone() });
        self.input(CoreInput::RoomEntered(room.roster()), &room, &mut work).await?;
        loop {
            let timeout = self.core.next_timeout(now()).map(|at| Duration::from_millis(at.0.saturating_sub(now().0)));
            let sleeping = OptionFuture::from(timeout.map(tokio::time::sleep));
            let occurrence = tokio::select! { biased;
                () = stop.cancelled() => Occurrence::Stop,
                Some((key, result)) = OptionFuture::from(work.action.as_mut()) => Occurrence::Action(key, result),
                Some((ticket, result)) = OptionFuture::from(work.ordered.as_mut()) => Occurrence::Ordered(ticket, result),
                Some((ticket, result)) = work.calls.next(), if !work.calls.is_empty() => Occurrence::Request(ticket, result),
                // A platform that reports faster than the room answers has to wait.
                Some(event) = reported.recv(), if work.waiting.len() < MAX_WAITING_REQUESTS => Occurrence::Reported(event),
                event = events.next() => Occurrence::Room(event),
                Some(()) = sleeping => Occurrence::Tick,
            };
            match occurrence {
                Occurrence::Stop => {
                    // What the platform has just been asked may be done: its result is waited for, not long.
                    if let Some(action) = work.action.take()
                        && let Ok((key, result)) = tokio::time::timeout(Duration::from_secs(2), action).await
                    {
                        self.input(CoreInput::PlatformResult(key, result), &room, &mut work).await?;
                    }
                    tokio::time::timeout(Duration::from_secs(2), room.leave()).await.ok();
                    return Ok(None);
                }
                Occurrence::Action(key, result) => {
                    work.action = None;
                    if let Err(failure) = &result {
                        tracing::debug!(channel = %self.channel, "bridge: action failed: {failure}");
                    }
                    self.input(CoreInput::PlatformResult(key, result), &room, &mut work).await?;
                }
                Occurrence::Ordered(ticket, result) => {
                    work.ordered = None;
                    if let Err(failure) = &result {
                        tracing::debug!(topic = %self.topic, "bridge: request failed: {failure}");
                    }
                    self.input(CoreInput::RoomResult(ticket, result), &room, &mut work).await?;
                }
                Occurrence::Request(ticket, result) => {
                    if let Err(failure) = &result {
                        tracing::debug!(topic = %self.topic, "bridge: request failed: {failure}");
                    }
                    self.input(CoreInput::RoomResult(ticket, result), &room, &mut work).await?;
                }
                Occurrence::Reported(event) => self.reported(event, &room, &mut work).await?,
                Occurrence::Room(Some(event)) => self.room_event(event, &room, &mut work).await?,
                Occurrence::Room(None) => {
                    let end = room.ended().await;
                    self.input(CoreInput::RoomLost, &room, &mut work).await?;
                    // An action of the platform is not the room's: its result still counts.
                    if let Some(action) = work.action.take() {
                        let (key, result) = action.await;
                        self.input(CoreInput::PlatformResult(key, result), &room, &mut work).await?;
                    }
                    return Ok(Some(end));
                }
                Occurrence::Tick => self.input(CoreInput::Tick, &room, &mut work).await?,
            }
        }
    }

    async fn reported(
        &mut self,
        reported: ReportedEvent,
        room: &Room,
        work: &mut ChannelWork,
    ) -> Result<(), BridgeError> {
        match &reported.event {
            PlatformEvent::Connected => {
                let (channel, topic) = (self.channel.clone(), self.topic.clone());
                (self.listener)(&BridgeStatus::ChannelEntered { channel, topic });
            }
            PlatformEvent::Disconnected { reason } => {
                let (channel, reason) = (self.channel.clone(), reason.clone());
                (self.listener)(&BridgeStatus::ChannelLost { channel, reason });
            }
            _ => {}
        }
        let ticket = reported.stored.as_ref().map(|_| EventTicket(0));
        let is_acknowledged = self.perform(CoreInput::Platform(reported.event, ticket), room, work).await?;
        if let Some(stored) = reported.stored.filter(|_| is_acknowledged) {
            let _ = stored.send(());
        }
        Ok(())
    }

    async fn room_event(&mut self, event: Event, room: &Room, work: &mut ChannelWork) -> Result<(), BridgeError> {
        let input = match event {
            // A word of the gateway to this participant alone has no place in the log.
            Event::Envelope(envelope) if envelope.kind() != Kind::System => {
                self.last_read = Some(envelope.id().clone());
                CoreInput::Room(RoomEvent::read(&envelope))
            }
            Event::Gap => CoreInput::RoomGap,
            _ => return Ok(()),
        };
        self.input(input, room, work).await
    }

    async fn input(&mut self, input: CoreInput, room: &Room, work: &mut ChannelWork) -> Result<(), BridgeError> {
        self.perform(input, room, work).await.map(|_| ())
    }

    /// Gives the core an input, and does what follows. Returns whether the event was acknowledged.
    async fn perform(&mut self, input: CoreInput, room: &Room, work: &mut ChannelWork) -> Result<bool, BridgeError> {
        let mut is_acknowledged = false;
        let mut changes = Vec::new();
        for output in self.core.handle(input, now()) {
            if let CoreOutput::Store(change) = output {
                changes.push(change);
                continue;
            }
            self.commit(&mut changes).await?;
            match output {
                CoreOutput::Store(_) => {}
                CoreOutput::Acknowledge(_) => is_acknowledged = true,
                CoreOutput::Platform(action) => work.action = Some(self.act(action)),
                CoreOutput::Room(action @ (RoomAction::CallTool { .. } | RoomAction::ListTools { .. })) => {
                    work.calls.push(perform(RoomRequest { room: room.clone(), action }).boxed());
                }
                CoreOutput::Room(action) => work.waiting.push_back(action),
            }
        }
        self.commit(&mut changes).await?;
        if work.ordered.is_none()
            && let Some(action) = work.waiting.pop_front()
        {
            work.ordered = Some(perform(RoomRequest { room: room.clone(), action }).boxed());
        }
        Ok(is_acknowledged)
    }

    fn act(&self, action: PlatformAction) -> ActionWork {
        let (driver, channel) = (self.driver.clone(), self.channel.clone());
        async move {
            let result = driver.perform(&channel, &action).await;
            (action.key().clone(), result)
        }
        .boxed()
    }

    async fn commit(&mut self, changes: &mut Vec<StoreChange>) -> Result<(), BridgeError> {
        if changes.is_empty() {
            return Ok(());
        }
        let (store, channel, changes) = (self.store.clone(), self.channel.clone(), std::mem::take(changes));
        let committing = tokio::task::spawn_blocking(move || -> Result<_, BridgeStoreError> {
            store.lock().commit(&channel, &changes)?;
            Ok(changes)
        });
        let committed = committing.await.map_err(BridgeError::Panicked)??;
        if let Some(shared) = &mut self.shared {
            shared.committed(&committed).await;
        }
        Ok(())
    }
}

/// Whether entering will not be possible without a change of the configuration.
fn is_final(error: &salon_client::JoinError) -> bool {
    matches!(error.kind(), ErrorKind::Unauthorized | ErrorKind::Refused)
        && !matches!(error, salon_client::RestError::Refused(refusal) if matches!(refusal.status, 408 | 409 | 425 | 429 | 500..))
}
