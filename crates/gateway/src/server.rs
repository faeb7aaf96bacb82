//! Listening: connections come in, become HTTP, and some of those become sessions.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::DuplexStream;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;
use tracing::Instrument;

use crate::carriers::Socket;
use crate::connection;
use crate::gateway::{KeyedCounter, network};
use crate::http::PeerAddress;
use crate::inside::Entrances;

/// How long a client may take for the head of a request, or for TLS.
const HEAD_TIME: Duration = Duration::from_secs(15);

/// How long a client beyond the limit of its address may take for it.
pub(crate) const OVERFLOW_HEAD_TIMEOUT: Duration = Duration::from_secs(2);

/// How many connections beyond the limit of their address are answered at once, of all addresses and of one: with 429, or at `/health`
/// and `/ready` with what is asked for. Those beyond are closed.
pub(crate) const MAX_OVERFLOW: usize = 64;
pub(crate) const MAX_OVERFLOW_OF_ADDRESS: usize = 8;

/// The most bytes of a request's head.
const HEAD_BYTES: usize = 64 * 1024;

/// How long to wait when the system gives no more connections.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// How many connections may wait to be accepted. The usual 128 makes a thousand clients that come back at once wait a second for
/// the system to try again.
const BACKLOG: u32 = 4096;

/// Listens on an address, with room for everyone to come back at once.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Why TLS could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file could not be read as PEM.
    #[error("`{path}` could not be read as PEM: {why}")]
    File {
        /// The file.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// A file has no certificate in it.
    #[error("`{0}` has no certificate in it")]
    Empty(String),
    /// The key and the certificate are not usable together.
    #[error("the certificate `{cert}` and the key `{key}` are not usable together: {why}")]
    Pair {
        /// The certificate's file.
        cert: String,
        /// The key's file.
        key: String,
        /// What is wrong.
        why: rustls::Error,
    },
}

/// Loads a certificate chain and its key, for clients that offer one of the protocols, or none.
pub(crate) fn tls(cert: &Path, key: &Path, protocols: &[&[u8]]) -> Result<TlsAcceptor, TlsError> {
    let unreadable = |path: &Path, why: rustls::pki_types::pem::Error| TlsError::File {
        path: path.display().to_string(),
        why: why.to_string(),
    };
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unreadable(cert, error))?;
    if chain.is_empty() {
        return Err(TlsError::Empty(cert.display().to_string()));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, error))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let unusable = |why| TlsError::Pair { cert: cert.display().to_string(), key: key.display().to_string(), why };
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(unusable)?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Accepts connections until `stop` says so, then lets those that are being answered finish.
pub(crate) async fn accept(
    entrances: Entrances,
    tls: Option<TlsAcceptor>,
    (router, overflow): (Router, Router),
    write_deadline: Duration,
    most_waiting: usize,
    mut stop: watch::Receiver<bool>,
) {
    let Entrances { listener, mut doorway, .. } = entrances;
    let mut connections = JoinSet::new();
    // Rooms and streams are counted where they begin; this bounds the connections that have not come so far.
    let waiting = KeyedCounter::new(most_waiting);
    let (beyond, beyond_of_all) = (KeyedCounter::new(MAX_OVERFLOW_OF_ADDRESS), KeyedCounter::new(MAX_OVERFLOW));
    let http = Http { router, head_time: HEAD_TIME, is_kept: true, write_deadline, stop: stop.clone() };
    let overflow = Http { router: overflow, head_time: OVERFLOW_HEAD_TIMEOUT, is_kept: false, ..http.clone() };
    loop {
        let accepted = tokio::select! { biased;
            () = async { drop(stop.wait_for(|stop| *stop).await) } => break,
            from_inside = async { doorway.as_mut()?.accept().await }, if doorway.is_some() => {
                match from_inside {
                    Some(stream) => {
                        let serving = http.clone().serve_inside(stream).instrument(connection::span("inside"));
                        drop(connections.spawn(serving));
                    }
                    None => doorway = None,
                }
                continue;
            }
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
        };
        match accepted {
            Ok((stream, peer)) => {
                let (network, tls, span) = (network(peer.ip()), tls.clone(), connection::span(peer));
                if let Ok(counted) = waiting.enter(&network, "address") {
                    let serving = http.clone().serve(stream, peer, tls, counted);
                    drop(connections.spawn(serving.instrument(span)));
                } else if let (Ok(one), Ok(all)) =
                    (beyond.enter(&network, "address"), beyond_of_all.enter(&(), "gateway"))
                {
                    let serving = overflow.clone().serve(stream, peer, tls, (one, all));
                    drop(connections.spawn(serving.instrument(span)));
                } else {
                    tracing::debug!(%peer, "server: too many connections of this address, connection dropped");
                }
            }
            Err(error) => {
                tracing::warn!(%error, "server: accept failed, retrying in 100 ms");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
    drop((listener, doorway));
    while connections.join_next().await.is_some() {}
}

/// A connection as it is used, encrypted where there is TLS.
pub(crate) async fn secure(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    write_deadline: Duration,
) -> io::Result<Socket> {
    stream.set_nodelay(true)?;
    match tls {
        None => Ok(Socket::plain(stream, write_deadline)),
        Some(acceptor) => {
            let stream = tokio::time::timeout(HEAD_TIME, acceptor.accept(stream)).await??;
            Ok(Socket::tls(stream, write_deadline))
        }
    }
}

#[derive(Clone)]
struct Http {
    router: Router,
    head_time: Duration,
    /// Whether a connection may have more than one request.
    is_kept: bool,
    write_deadline: Duration,
    stop: watch::Receiver<bool>,
}

impl Http {
    async fn serve(self, stream: TcpStream, peer: SocketAddr, tls: Option<TlsAcceptor>, _counted: impl Send) {
        let served =
            async { self.serve_http(secure(stream, tls, self.write_deadline).await?, PeerAddress::At(peer)).await };
        told(served.await);
    }

    async fn serve_inside(self, stream: DuplexStream) {
        let socket = Socket::memory(stream, self.write_deadline);
        told(self.serve_http(socket, PeerAddress::Inside).await);
    }

    async fn serve_http(&self, socket: Socket, peer: PeerAddress) -> io::Result<()> {
        let (router, mut stop) = (self.router.clone(), self.stop.clone());
        let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(peer);
            router.clone().oneshot(request.map(Body::new))
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.head_time)
            .keep_alive(self.is_kept)
            .max_buf_size(HEAD_BYTES)
            .serve_connection(TokioIo::new(socket), service)
            .with_upgrades();
        tokio::pin!(connection);
        let ended = tokio::select! { biased;
            () = async { drop(stop.wait_for(|stop| *stop).await) } => None,
            ended = &mut connection => Some(ended),
        };
        let ended = match ended {
            Some(ended) => ended,
            None => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        ended.map_err(io::Error::other)
    }
}

fn told(ended: io::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "connection: ended with an error");
    }
}
