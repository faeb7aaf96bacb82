//! The way in for participants that live in this process: a connection made of memory, served like one from a socket.
//!
//! Deliberately absent: any shortcut. A client that comes this way brings a token, speaks HTTP and is held to the same limits, save those
//! that count addresses.

use std::io;

use tokio::io::DuplexStream;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::auth::SignInLinks;
use crate::bridge_leases::BridgeLeases;
use crate::guest_board::GuestBoard;

/// How many connections may wait to be accepted.
const MAX_PENDING_CONNECTIONS: usize = 16;

/// How many bytes either side may be ahead of the other.
const BUFFER: usize = 64 * 1024;

/// Connects to a gateway of this process. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Inside(mpsc::Sender<DuplexStream>);

/// The gateway's end of an [`Inside`].
#[derive(Debug)]
pub struct Doorway(mpsc::Receiver<DuplexStream>);

/// A way in from inside, and what [`crate::serve`] needs to serve it.
pub fn inside() -> (Inside, Doorway) {
    let (sender, receiver) = mpsc::channel(MAX_PENDING_CONNECTIONS);
    (Inside(sender), Doorway(receiver))
}

impl Inside {
    /// A new connection. It waits until the gateway serves, and fails once the gateway has stopped.
    pub async fn connect(&self) -> io::Result<DuplexStream> {
        let (ours, theirs) = tokio::io::duplex(BUFFER);
        let gone = |_| io::Error::new(io::ErrorKind::ConnectionRefused, "the gateway has stopped");
        self.0.send(theirs).await.map_err(gone)?;
        Ok(ours)
    }
}

impl Doorway {
    /// The next connection; `None` when nobody is left to make one.
    pub(crate) async fn accept(&mut self) -> Option<DuplexStream> {
        self.0.recv().await
    }
}

/// Where connections come from: a listener, and perhaps this process as well.
#[derive(Debug)]
pub struct Entrances {
    pub(crate) listener: TcpListener,
    pub(crate) doorway: Option<Doorway>,
    pub(crate) framed: Option<TcpListener>,
    pub(crate) links: SignInLinks,
    pub(crate) guests: GuestBoard,
    pub(crate) leases: BridgeLeases,
}

impl Entrances {
    /// Serves connections from inside too.
    #[must_use]
    pub fn and(mut self, doorway: Doorway) -> Self {
        self.doorway = Some(doorway);
        self
    }

    /// Serves the Multi-Component Protocol too, at a listener of its own.
    #[must_use]
    pub fn framed(mut self, listener: Option<TcpListener>) -> Self {
        self.framed = listener;
        self
    }

    /// Takes the codes of links that sign browsers in.
    #[must_use]
    pub fn links(mut self, links: SignInLinks) -> Self {
        self.links = links;
        self
    }

    /// Shows operators the guests of this process.
    #[must_use]
    pub fn guests(mut self, guests: GuestBoard) -> Self {
        self.guests = guests;
        self
    }

    /// Gives out leases of bridges that this process runs.
    #[must_use]
    pub fn leases(mut self, leases: BridgeLeases) -> Self {
        self.leases = leases;
        self
    }
}

impl From<TcpListener> for Entrances {
    fn from(listener: TcpListener) -> Self {
        let (links, guests, leases) = (SignInLinks::new(), GuestBoard::default(), BridgeLeases::new());
        Self { listener, doorway: None, framed: None, links, guests, leases }
    }
}
