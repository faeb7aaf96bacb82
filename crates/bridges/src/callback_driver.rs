//! Platforms that send their events to the bridge by HTTP (Matrix, Slack): the receiver, and connecting again.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::OptionFuture;
use hyper::HeaderMap;
use salon_client::Backoff;
use tokio::net::TcpListener;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::connected_channels::ConnectedChannels;
use crate::http_receiver::{self, PlatformAnswer, PlatformRequest};
use crate::platform::{BridgeEnded, DriverError, PlatformEvents};

/// The wait before the platform is tried again, so that what was under way has been reported as failed by then.
const OUTAGE_DELAY: Duration = Duration::from_secs(1);

/// How often a channel is tried that the bridge is not in.
const JOIN_RETRY: Duration = Duration::from_secs(15);

/// A platform that calls the bridge.
pub(crate) trait CallbackPlatform: Send + Sync + 'static {
    type Failure: fmt::Display + Send;

    /// Who calls, for people to read.
    const CALLER: &'static str;

    /// Where the platform's requests are taken.
    fn listen(&self) -> SocketAddr;

    fn channels(&self) -> &ConnectedChannels;

    /// How large a request with these headers may be.
    fn max_request_bytes(&self, headers: &HeaderMap) -> usize;

    fn answer(&self, request: PlatformRequest, events: &PlatformEvents) -> impl Future<Output = PlatformAnswer> + Send;

    /// Connects every channel that is not. The outer error is the bridge's end, the inner one the platform's.
    fn connect(
        &self,
        events: &PlatformEvents,
    ) -> impl Future<Output = Result<Result<(), Self::Failure>, BridgeEnded>> + Send;

    /// The wait that the platform asked for.
    fn retry_after(_failure: &Self::Failure) -> Option<Duration> {
        None
    }

    /// The platform does not answer; [`connect`](Self::connect) follows.
    fn disconnected(&self) {}

    /// How often to [`look`](Self::look).
    fn look_interval(&self) -> Option<Duration> {
        None
    }

    /// Looks for what the platform has and did not send. An error means that it does not answer.
    fn look(
        &self,
        _events: &PlatformEvents,
    ) -> impl Future<Output = Result<Result<(), Self::Failure>, BridgeEnded>> + Send {
        async { Ok(Ok(())) }
    }

    /// Waits for a reason to try channels that the bridge is not in, such as an invitation.
    fn invited(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}

/// Takes the platform's requests and stays connected, until `stop`.
pub(crate) async fn run<P: CallbackPlatform>(
    platform: Arc<P>,
    events: PlatformEvents,
    stop: CancellationToken,
) -> Result<(), DriverError> {
    let listen = platform.listen();
    let listener = TcpListener::bind(listen)
        .await
        .map_err(|error| DriverError(format!("cannot listen on {listen} for {}: {error}", P::CALLER)))?;
    let (answering, sink) = (platform.clone(), events.clone());
    let answer = move |request| {
        let (answering, sink) = (answering.clone(), sink.clone());
        async move { answering.answer(request, &sink).await }
    };
    let limiting = platform.clone();
    let max_body = move |headers: &HeaderMap| limiting.max_request_bytes(headers);
    let receiving = http_receiver::serve(listener, max_body, answer, stop.clone());
    let staying = async {
        tokio::select! { biased;
            () = stop.cancelled() => {}
            Err(BridgeEnded) = stay(&*platform, &events) => {}
        }
    };
    tokio::join!(receiving, staying);
    Ok(())
}

async fn stay<P: CallbackPlatform>(platform: &P, events: &PlatformEvents) -> Result<(), BridgeEnded> {
    let backoff = Backoff::default();
    let channels = platform.channels();
    let mut attempt = 0;
    let mut looks = platform.look_interval().map(|every| {
        let mut ticks = tokio::time::interval_at(Instant::now() + every, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks
    });
    loop {
        if let Err(failure) = platform.connect(events).await? {
            let wait = || backoff.delay(attempt, rand::random()).max(OUTAGE_DELAY);
            let delay = P::retry_after(&failure).unwrap_or_else(wait);
            attempt = attempt.saturating_add(1);
            tracing::warn!(%failure, delay_ms = delay.as_millis(), "bridge: {} not usable, retrying", P::CALLER);
            tokio::time::sleep(delay).await;
            continue;
        }
        attempt = 0;
        let is_away = tokio::select! {
            () = channels.in_doubt() => true,
            Some(_) = OptionFuture::from(looks.as_mut().map(Interval::tick)) => platform.look(events).await?.is_err(),
            () = platform.invited() => false,
            () = tokio::time::sleep(JOIN_RETRY), if !channels.missing().is_empty() => false,
        };
        if is_away {
            platform.disconnected();
            channels.disconnect(&format!("{} does not answer", P::CALLER), events).await?;
            tokio::time::sleep(OUTAGE_DELAY).await;
        }
    }
}
