//! What to bring in, and under which name.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::http::HttpUpstream;
use super::{GuestUser, UpstreamError, Watcher, websocket};
use crate::oauth::GuestAccess;

/// What to bring in.
#[derive(Clone, PartialEq, Eq)]
pub enum GuestTarget {
    /// A program that speaks MCP on its standard input and output.
    Command {
        /// The program, looked up in `PATH` when it is a bare name.
        program: OsString,
        /// Its arguments.
        args: Vec<OsString>,
        /// Added to our own environment, which it inherits.
        env: Vec<(OsString, OsString)>,
        /// Where it runs, if not here.
        cwd: Option<PathBuf>,
    },
    /// A server that speaks MCP over HTTP or a WebSocket.
    Url {
        /// Its `http`, `https`, `ws` or `wss` address.
        url: String,
        /// Sent with every request.
        headers: Vec<(String, String)>,
        /// Which of the two HTTP transports it has, if that is known.
        transport: UrlTransport,
    },
}

/// Which of the two HTTP transports a server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UrlTransport {
    /// Find out.
    #[default]
    Auto,
    /// Streamable HTTP.
    Streamable,
    /// HTTP+SSE, of revision 2024-11-05.
    Sse,
}

impl GuestTarget {
    /// Whether it is reached by a WebSocket.
    pub(crate) fn is_websocket(&self) -> bool {
        let schemes = ["ws://", "wss://"];
        let Self::Url { url, .. } = self else { return false };
        schemes.iter().any(|scheme| url.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme)))
    }

    /// Whether it could be started at all, as far as that can be told without starting it: the program and the folder are there, the
    /// address and the headers are ones.
    pub fn check(&self) -> Result<(), UpstreamError> {
        match self {
            Self::Url { url, headers, .. } if self.is_websocket() => websocket::check(url, headers),
            Self::Url { url, headers, .. } => HttpUpstream::new(url, headers).map(drop),
            Self::Command { program, env, cwd, .. } => {
                let missing = |what: &Path, why: &str| {
                    let source = io::Error::new(io::ErrorKind::NotFound, why);
                    Err(UpstreamError::Start { program: what.display().to_string(), source })
                };
                if let Some(cwd) = cwd.as_deref().filter(|cwd| !cwd.is_dir()) {
                    return missing(
                        Path::new(program),
                        &format!("there is no folder `{}` to run it in", cwd.display()),
                    );
                }
                let program = Path::new(program);
                let found = if program.components().count() > 1 {
                    program.exists() || cwd.as_ref().is_some_and(|cwd| cwd.join(program).exists())
                } else {
                    let given = env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone());
                    let path = given.or_else(|| std::env::var_os("PATH")).unwrap_or_default();
                    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
                };
                if found { Ok(()) } else { missing(program, "there is no such program") }
            }
        }
    }
}

/// Arguments, environment, headers and URLs often hold secrets, so only names and numbers of them can be printed.
impl fmt::Debug for GuestTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command { program, args, env, cwd } => f
                .debug_struct("Command")
                .field("program", program)
                .field("args", &args.len())
                .field("env", &env.iter().map(|(name, _)| name).collect::<Vec<_>>())
                .field("cwd", cwd)
                .finish(),
            Self::Url { url: _, headers, transport } => f
                .debug_struct("Url")
                .field("headers", &headers.iter().map(|(name, _)| name).collect::<Vec<_>>())
                .field("transport", transport)
                .finish_non_exhaustive(),
        }
    }
}

/// Whose connections these are, and how children are looked after.
#[derive(Debug, Clone)]
pub struct UpstreamSetup {
    /// The guest's name: what its log lines are shown with.
    pub guest: Arc<str>,
    /// A process that ends a child when ours is gone without a word. Without one, a child that does not end when its input
    /// closes outlives a killed Salon.
    pub watcher: Option<Watcher>,
    /// Whom a child runs as, if not as us.
    pub user: Option<GuestUser>,
    /// What gives requests over HTTP their tokens.
    pub(crate) access: Option<Arc<GuestAccess>>,
}

impl UpstreamSetup {
    /// A guest's, without a watcher.
    pub fn new(guest: impl Into<Arc<str>>) -> Self {
        Self { guest: guest.into(), watcher: None, user: None, access: None }
    }
}
