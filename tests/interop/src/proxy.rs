//! A way to the gateway for programs that cannot be told of a token: what they send goes on with it, what comes back comes as it is.
//!
//! Only the head of a request is looked at, and a connection carries one request. So everything passes while it happens, in both
//! directions, and `Host` and `Origin` are those of the client.

use std::net::SocketAddr;
use std::sync::Arc;

use salon_testkit::Failure;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

const LONGEST_HEAD: usize = 64 * 1024;

/// Dropping it ends it, and every connection through it.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free port and passes everything on to `gateway`.
    pub(crate) async fn start(gateway: SocketAddr, token: &str) -> Result<Self, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(|e| e.to_string())?;
        let address = listener.local_addr().map_err(|e| e.to_string())?;
        let added: Arc<str> = format!("Authorization: Bearer {token}\r\nConnection: close\r\n").into();
        let serving = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                while connections.try_join_next().is_some() {}
                connections.spawn(pass(near, gateway, added.clone()));
            }
        });
        Ok(Self { address, serving })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// One connection. When one side ends or breaks off, so does the other; there is nobody to tell.
async fn pass(mut near: TcpStream, gateway: SocketAddr, added: Arc<str>) -> std::io::Result<()> {
    near.set_nodelay(true)?;
    let mut head = Vec::new();
    let end = loop {
        if near.read_buf(&mut head).await? == 0 || head.len() > LONGEST_HEAD {
            return Ok(());
        }
        if let Some(at) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
    };
    let mut far = TcpStream::connect(gateway).await?;
    far.set_nodelay(true)?;
    let (lines, rest) = head.split_at(end + 2);
    for line in lines.split_inclusive(|&byte| byte == b'\n') {
        let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
        if !name.eq_ignore_ascii_case(b"connection") {
            far.write_all(line).await?;
        }
    }
    far.write_all(added.as_bytes()).await?;
    far.write_all(rest).await?;
    copy_bidirectional(&mut near, &mut far).await.map(drop)
}
