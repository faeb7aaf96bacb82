//! The same server over Streamable HTTP: a session for each client that initialises, none for stateless requests.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::server::{Shared, TestServer};

/// Serves at `address` until the process ends. Any path will do; the URL it prints has `/mcp`.
#[expect(clippy::print_stdout, reason = "its starter reads the address there")]
pub(crate) async fn serve(address: SocketAddr, shared: Arc<Shared>) -> Result<()> {
    let listener = TcpListener::bind(address).await?;
    println!("http://{}/mcp", listener.local_addr()?);
    let service = StreamableHttpService::new(
        move || Ok(TestServer::new(shared.clone())),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        // An answer is more than one write; without this, the second would wait for the first to be acknowledged.
        stream.set_nodelay(true)?;
        while connections.try_join_next().is_some() {}
        let service = TowerToHyperService::new(service.clone());
        connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}
