//! The door of the Multi-Component Protocol: frames over TCP, at a listener of its own.
//!
//! What a frame means is the grammar's business (`salon_dialects::framed`); here connections are accepted, tokens are checked, and frames
//! are brought to the sessions they name. A session belongs to the holder of its id, over whichever connections.

mod connection;
mod door;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use salon_dialects::framed::refuse_header;
use salon_protocol::Refusal;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tracing::Instrument;

use crate::clock;
use crate::gateway::{Counted, GatewayState, KeyedCounter, network};
use crate::http::Requester;
use crate::server::{self, MAX_OVERFLOW, MAX_OVERFLOW_OF_ADDRESS, OVERFLOW_HEAD_TIMEOUT};
use door::FramedDoor;

/// How long to wait when the system gives no more connections.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// When the system asks a silent peer for a sign of life, how often, and how many times: nothing in this protocol does. A peer that is
/// gone without a word is noticed as soon as by other doors.
const KEEP_ALIVE: TcpKeepalive =
    TcpKeepalive::new().with_time(Duration::from_secs(15)).with_interval(Duration::from_secs(10)).with_retries(3);

/// Accepts connections until `stop` says so, then lets what is under way be answered.
pub(crate) async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    gateway: Arc<GatewayState>,
    mut stop: watch::Receiver<bool>,
) {
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, tls = tls.is_some(), "framed: serving");
    }
    let mut connections = JoinSet::new();
    let open = KeyedCounter::new(gateway.config.limits.connections_per_address);
    let (beyond, beyond_of_all) = (KeyedCounter::new(MAX_OVERFLOW_OF_ADDRESS), KeyedCounter::new(MAX_OVERFLOW));
    let door = Arc::new(FramedDoor::new(gateway));
    loop {
        let accepted = tokio::select! { biased;
            () = async { drop(stop.wait_for(|stop| *stop).await) } => break,
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
        };
        match accepted {
            Ok((stream, peer)) => {
                let (network, tls, span) = (network(peer.ip()), tls.clone(), crate::connection::span(peer));
                match open.enter(&network, "address") {
                    Ok(counted) => {
                        let serving = serve(door.clone(), stream, peer, tls, stop.clone(), counted);
                        drop(connections.spawn(serving.instrument(span)));
                    }
                    Err(refusal) => {
                        let counted = (beyond.enter(&network, "address"), beyond_of_all.enter(&(), "gateway"));
                        let (Ok(one), Ok(all)) = counted else {
                            tracing::debug!(%peer, "framed: too many connections of this address, connection dropped");
                            continue;
                        };
                        let refusing = refuse(door.gateway.clone(), stream, peer, tls, refusal, (one, all));
                        drop(connections.spawn(refusing.instrument(span)));
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, "framed: accept failed, retrying in 100 ms");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Tells a connection beyond the limit of its address why it is closed. No frame has come, so the answer is to none.
async fn refuse(
    gateway: Arc<GatewayState>,
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
    refusal: Refusal,
    _counted: impl Send,
) {
    gateway.refused(refusal.code, &Requester::default(), peer.ip());
    let answer = refuse_header(None, &refusal, clock::now());
    let told = async {
        let socket = server::secure(stream, tls, OVERFLOW_HEAD_TIMEOUT).await?;
        connection::refuse(socket, &answer).await
    };
    match tokio::time::timeout(OVERFLOW_HEAD_TIMEOUT, told).await {
        Ok(Ok(())) => tracing::debug!(%refusal, "framed: connection refused"),
        Ok(Err(error)) => tracing::debug!(%error, "connection: ended with an error"),
        Err(_) => tracing::debug!(%refusal, "framed: connection refused, and its peer did not hang up"),
    }
}

async fn serve(
    door: Arc<FramedDoor>,
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
    stop: watch::Receiver<bool>,
    _counted: Counted<IpAddr>,
) {
    if let Err(error) = SockRef::from(&stream).set_tcp_keepalive(&KEEP_ALIVE) {
        tracing::debug!(%error, "framed: TCP keep-alive not set");
    }
    let write_deadline = door.gateway.config.times.write_deadline;
    match server::secure(stream, tls, write_deadline).await {
        Ok(socket) => connection::serve(door, socket, peer, stop).await,
        Err(error) => tracing::debug!(%error, "connection: ended with an error"),
    }
}
