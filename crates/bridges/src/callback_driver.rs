//! Platforms that send their events to the bridge by HTTP (Matrix, Slack): the receiver, and connecting again.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use salon_client::Backoff;
use tokio::net::TcpListener;
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
    /// The largest request.
    const MAX_REQUEST_BYTES: usize;

    /// Where the platform's requests are taken.
    fn listen(&self) -> SocketAddr;

    fn channels(&self) -> &ConnectedChannels;

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
    let receiving = http_receiver::serve(listener, P::MAX_REQUEST_BYTES, answer, stop.clone());
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
        tokio::select! {
            () = channels.in_doubt() => {
                platform.disconnected();
                channels.disconnect(&format!("{} does not answer", P::CALLER), events).await?;
                tokio::time::sleep(OUTAGE_DELAY).await;
            }
            () = platform.invited() => {}
            () = tokio::time::sleep(JOIN_RETRY), if !channels.missing().is_empty() => {}
        }
    }
}
