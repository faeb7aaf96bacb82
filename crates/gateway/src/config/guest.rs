//! Guests: MCP servers that the gateway's own process brings into a topic. Only how they are written; nothing is started here.
//!
//! Texts are kept as they stand, `${VAR}` and all: what they refer to is looked up when a guest is started.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use salon_protocol::{ParticipantId, ParticipantKind, TopicName};
use serde::Deserialize;

use super::value::{Deadline, DisplayName, ExposedFeature, Kind, UrlTransport};

/// One guest of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guest {
    /// The room it is brought into.
    pub topic: TopicName,
    /// Who it is there.
    pub id: ParticipantId,
    /// Where it is written.
    pub file: PathBuf,
    /// What it is and how it is to be treated.
    pub terms: GuestOf,
}

/// A guest's id in the file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct GuestKey(pub ParticipantId);

impl TryFrom<String> for GuestKey {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let id = ParticipantId::new(&text).map_err(|why| format!("`{text}` is not a participant's id: {why}"))?;
        if id.is_reserved() { Err("ids that begin with `system:` are the gateway's own".into()) } else { Ok(Self(id)) }
    }
}

/// What a guest is and how it is to be treated.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "GuestTable")]
pub struct GuestOf {
    /// The server.
    pub server: GuestServer,
    /// Name shown to people.
    pub name: Option<String>,
    /// What it is.
    pub kind: Option<ParticipantKind>,
    /// Whether every caller has a server of its own.
    pub isolated: bool,
    /// What of it the room may use; everything where this is `None`.
    pub expose: Option<Vec<Feature>>,
    /// The tools the room may use, as patterns; all where this is `None`.
    pub allow_tools: Option<Vec<String>>,
    /// The tools it may not, as patterns. Overrides the former.
    pub deny_tools: Vec<String>,
    /// How long a call may go on without progress.
    pub timeout: Option<Duration>,
    /// Whether it is left out for now.
    pub disabled: bool,
}

/// Where a guest's server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuestServer {
    /// A program to start.
    Command {
        /// The program.
        command: Private<String>,
        /// Its arguments.
        args: Private<Vec<String>>,
        /// Added to the environment.
        env: Private<BTreeMap<String, String>>,
        /// Where it runs.
        cwd: Option<String>,
        /// A file with more for its environment.
        env_file: Option<String>,
        /// Whom it runs as.
        user: Option<String>,
    },
    /// A server that runs elsewhere.
    Url {
        /// Its address.
        url: Private<String>,
        /// Sent with every request.
        headers: Private<BTreeMap<String, String>>,
        /// How it is spoken to, where that is said.
        transport: Option<GuestTransport>,
    },
}

/// What of an MCP server a room may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words are those of MCP")]
pub enum Feature {
    Tools,
    Resources,
    Prompts,
}

/// How an MCP server at a URL is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestTransport {
    /// Streamable HTTP.
    Http,
    /// HTTP+SSE, of revision 2024-11-05.
    Sse,
}

/// What may hold a secret: it is never printed.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Private<T>(pub T);

impl<T> fmt::Debug for Private<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// The table as it stands in the file.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct GuestTable {
    command: Option<String>,
    args: Option<Vec<String>>,
    env: Option<BTreeMap<String, String>>,
    cwd: Option<String>,
    env_file: Option<String>,
    user: Option<String>,
    url: Option<String>,
    headers: Option<BTreeMap<String, String>>,
    transport: Option<UrlTransport>,
    name: Option<DisplayName>,
    kind: Option<Kind>,
    isolated: Option<bool>,
    expose: Option<Vec<ExposedFeature>>,
    allow_tools: Option<Vec<String>>,
    deny_tools: Option<Vec<String>>,
    timeout: Option<Deadline>,
    disabled: Option<bool>,
}

impl TryFrom<GuestTable> for GuestOf {
    type Error = String;

    fn try_from(table: GuestTable) -> Result<Self, String> {
        let GuestTable { command, args, env, cwd, env_file, user, url, headers, transport, .. } = table;
        let of_command = [
            ("args", args.is_some()),
            ("env", env.is_some()),
            ("cwd", cwd.is_some()),
            ("env_file", env_file.is_some()),
            ("user", user.is_some()),
        ];
        let of_url = [("headers", headers.is_some()), ("transport", transport.is_some())];
        let astray = |keys: &[(&'static str, bool)]| keys.iter().find(|(_, given)| *given).map(|(key, _)| *key);
        let server = match (command, url) {
            (None, None) => return Err("a guest needs `command` or `url`".into()),
            (Some(_), Some(_)) => return Err("a guest has either `command` or `url`, not both".into()),
            (Some(command), None) => {
                if let Some(key) = astray(&of_url) {
                    return Err(format!("`{key}` goes with `url`, not with `command`"));
                }
                let (args, env) = (Private(args.unwrap_or_default()), Private(env.unwrap_or_default()));
                GuestServer::Command { command: Private(command), args, env, cwd, env_file, user }
            }
            (None, Some(url)) => {
                if let Some(key) = astray(&of_command) {
                    return Err(format!("`{key}` goes with `command`, not with `url`"));
                }
                let transport = transport.map(|UrlTransport(transport)| transport);
                GuestServer::Url { url: Private(url), headers: Private(headers.unwrap_or_default()), transport }
            }
        };
        let expose =
            table.expose.map(|list| list.into_iter().map(|ExposedFeature(feature)| feature).collect::<Vec<_>>());
        if expose.as_ref().is_some_and(Vec::is_empty) {
            return Err("`expose` must name at least one of `tools`, `resources`, `prompts`".into());
        }
        Ok(Self {
            server,
            name: table.name.map(|DisplayName(name)| name),
            kind: table.kind.map(|Kind(kind)| kind),
            isolated: table.isolated.unwrap_or_default(),
            expose,
            allow_tools: table.allow_tools,
            deny_tools: table.deny_tools.unwrap_or_default(),
            timeout: table.timeout.map(|Deadline(time)| time),
            disabled: table.disabled.unwrap_or_default(),
        })
    }
}
