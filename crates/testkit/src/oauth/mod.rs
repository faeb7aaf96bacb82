//! An MCP server behind OAuth and its authorization server, in one process on a free loopback port. It is strict: whatever a client
//! leaves out or gets wrong is refused, and everything it was asked is written down.

mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::Failure;

/// Switches of the server, all at their strictest or plainest when new.
#[derive(Debug, Clone)]
pub struct OAuthSwitches {
    /// Whether clients can register.
    pub registers: bool,
    /// Whether access tokens come with a refresh token.
    pub refreshes: bool,
    /// How long it says that access tokens live, in seconds. It never ends one by itself.
    pub token_seconds: u64,
    /// Whether the person at the browser says yes.
    pub consents: bool,
    /// Whether it says by its challenge where its metadata is, and not only in the well-known place.
    pub names_metadata: bool,
    /// What it writes as the issuer of the browser's answer, where not its own.
    pub response_issuer: Option<String>,
    /// Where it redirects requests with a token to.
    pub redirects_to: Option<String>,
    /// Whether the MCP server refuses every token.
    pub refuses_tokens: bool,
}

impl Default for OAuthSwitches {
    fn default() -> Self {
        Self {
            registers: true,
            refreshes: true,
            token_seconds: 3600,
            consents: true,
            names_metadata: true,
            response_issuer: None,
            redirects_to: None,
            refuses_tokens: false,
        }
    }
}

/// A server that runs until it is dropped.
pub struct OAuthServer {
    address: SocketAddr,
    state: Arc<Mutex<ServerState>>,
    _task: JoinSet<()>,
}

/// What a code was given out for.
struct IssuedCode {
    client: String,
    redirect: String,
    challenge: String,
    scope: String,
}

#[derive(Default)]
struct ServerState {
    origin: String,
    switches: OAuthSwitches,
    log: Vec<String>,
    mcp_requests: usize,
    counter: u32,
    /// Clients, with the address that their browsers come back to.
    clients: BTreeMap<String, Vec<String>>,
    codes: BTreeMap<String, IssuedCode>,
    /// Device codes; a scope is there once somebody has said yes.
    devices: BTreeMap<String, Option<String>>,
    /// Tokens that are good, with their scopes.
    access: BTreeMap<String, String>,
    refresh: BTreeMap<String, String>,
    /// Refresh tokens that were replaced.
    spent: BTreeSet<String>,
}

impl OAuthServer {
    /// Starts it.
    pub async fn start(switches: OAuthSwitches) -> Result<Self, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(|error| error.to_string())?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let origin = format!("http://{address}");
        let state = Arc::new(Mutex::new(ServerState { origin, switches, ..ServerState::default() }));
        let mut task = JoinSet::new();
        task.spawn(server::serve(listener, state.clone()));
        Ok(Self { address, state, _task: task })
    }

    /// The address of the MCP server.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// The issuer.
    pub fn issuer(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Changes switches from now on.
    pub fn change(&self, change: impl FnOnce(&mut OAuthSwitches)) {
        change(&mut self.state.lock().switches);
    }

    /// Adds a client by hand, whose secret is `secret`.
    pub fn add_client(&self, id: &str) {
        self.state.lock().clients.insert(id.to_owned(), vec!["http://127.0.0.1/callback".into()]);
    }

    /// Makes all access tokens void. Refresh tokens stay.
    pub fn expire(&self) {
        self.state.lock().access.clear();
    }

    /// Makes everything void that was given out.
    pub fn revoke(&self) {
        let mut state = self.state.lock();
        state.access.clear();
        state.refresh.clear();
    }

    /// The person says yes to a device.
    pub fn approve_devices(&self) {
        for scope in self.state.lock().devices.values_mut() {
            scope.get_or_insert_with(|| "read".into());
        }
    }

    /// How many requests came for the MCP server.
    pub fn mcp_requests(&self) -> usize {
        self.state.lock().mcp_requests
    }

    /// How often something was asked, as [`Self::log`] writes it.
    pub fn count(&self, asked: &str) -> usize {
        self.state.lock().log.iter().filter(|line| *line == asked).count()
    }

    /// What it was asked, without what differs from run to run.
    pub fn log(&self) -> Vec<String> {
        self.state.lock().log.clone()
    }
}
