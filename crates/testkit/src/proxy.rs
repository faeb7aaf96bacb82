//! A way to a server that can be held up: what passes it waits, in both directions, and goes on when it may. Neither side is notified, as when a
//! cable is pulled or a process is stopped.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::Failure;

/// How much of what passes is held at once.
const PIECE: usize = 16 * 1024;

/// A way to one server. Dropping it cuts every connection that passes it.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    open: Arc<watch::Sender<bool>>,
    serving: JoinHandle<()>,
}

impl Proxy {
    /// Begins to pass connections to a server on this machine.
    pub async fn to(port: u16) -> Result<Self, Failure> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(|e| format!("no free port: {e}"))?;
        let address = listener.local_addr().map_err(|e| e.to_string())?;
        let open = Arc::new(watch::Sender::new(true));
        let serving = tokio::spawn(serve(listener, port, open.clone()));
        Ok(Self { address, open, serving })
    }

    /// Where clients connect.
    pub fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// Holds everything up from now on.
    pub fn hold(&self) {
        self.open.send_replace(false);
    }

    /// Lets everything pass again, what was held up first.
    pub fn release(&self) {
        self.open.send_replace(true);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, port: u16, open: Arc<watch::Sender<bool>>) {
    // They end with this.
    let mut passing = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        while passing.try_join_next().is_some() {}
        let open = open.subscribe();
        passing.spawn(async move {
            let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
            let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
            // When one side closes, dropping both closes the other.
            tokio::select! {
                () = pass(from_client, to_server, open.clone()) => {}
                () = pass(from_server, to_client, open) => {}
            }
        });
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut open: watch::Receiver<bool>) {
    let mut piece = vec![0; PIECE];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        if open.wait_for(|open| *open).await.is_err() || to.write_all(&piece[..count]).await.is_err() {
            return;
        }
    }
}
