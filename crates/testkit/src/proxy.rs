//! A way to a server that can be held up: what passes it waits, in both directions, and goes on when it may. Neither side is notified, as when a
//! cable is pulled or a process is stopped.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::{Failure, within};

/// How much of what passes is held at once.
const PIECE: usize = 16 * 1024;
/// The longest text that holds everything up.
const MAX_TRIGGER: usize = 256;

/// A way to one server. Dropping it cuts every connection that passes it.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    gate: Arc<Gate>,
    serving: JoinHandle<()>,
}

/// Whether anything passes.
#[derive(Debug)]
struct Gate {
    open: watch::Sender<bool>,
    /// What closes it, where a server sends this.
    trigger: Mutex<Option<Vec<u8>>>,
}

impl Gate {
    /// Closes, where what a server has sent has the trigger in it.
    fn look(&self, sent: &[u8]) {
        let mut trigger = self.trigger.lock();
        let is_in = |text: &Vec<u8>| sent.windows(text.len()).any(|some| some == text);
        if trigger.as_ref().is_some_and(is_in) {
            *trigger = None;
            self.open.send_replace(false);
        }
    }
}

impl Proxy {
    /// Begins to pass connections to a server on this machine.
    pub async fn to(port: u16) -> Result<Self, Failure> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(|e| format!("no free port: {e}"))?;
        let address = listener.local_addr().map_err(|e| e.to_string())?;
        let gate = Arc::new(Gate { open: watch::Sender::new(true), trigger: Mutex::default() });
        let serving = tokio::spawn(serve(listener, port, gate.clone()));
        Ok(Self { address, gate, serving })
    }

    /// Where clients connect.
    pub fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// Holds everything up from now on.
    pub fn hold(&self) {
        self.gate.open.send_replace(false);
    }

    /// Holds everything up as soon as the server sends a text: what the text is in does not reach the client any more.
    pub fn hold_at(&self, text: &str) {
        *self.gate.trigger.lock() = Some(text.into());
    }

    /// Waits until everything is held up.
    pub async fn held(&self) -> Result<(), Failure> {
        let mut open = self.gate.open.subscribe();
        within("the text that holds everything up", open.wait_for(|open| !open)).await?.map_err(|e| e.to_string())?;
        Ok(())
    }

    /// Lets everything pass again, what was held up first.
    pub fn release(&self) {
        self.gate.open.send_replace(true);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, port: u16, gate: Arc<Gate>) {
    // They end with this.
    let mut passing = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        while passing.try_join_next().is_some() {}
        let gate = gate.clone();
        passing.spawn(async move {
            let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
            let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
            // When one side closes, dropping both closes the other.
            tokio::select! {
                () = pass(from_client, to_server, &gate, false) => {}
                () = pass(from_server, to_client, &gate, true) => {}
            }
        });
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, gate: &Gate, is_server: bool) {
    let mut open = gate.open.subscribe();
    let mut piece = vec![0; PIECE];
    // A text may come in two pieces, so the end of the one before is looked at again.
    let mut before = Vec::new();
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        let read = &piece[..count];
        if is_server {
            before.extend_from_slice(read);
            gate.look(&before);
            before.drain(..before.len().saturating_sub(MAX_TRIGGER));
        }
        if open.wait_for(|open| *open).await.is_err() || to.write_all(read).await.is_err() {
            return;
        }
    }
}
