//! The files in which people already keep their MCP servers: `mcpServers` (Claude, Cursor, Windsurf, Gemini, Cline), `servers` with
//! `inputs` (VS Code), `context_servers` (Zed) and `mcp_servers` in TOML (Codex).
//!
//! Pure: text in, servers out. [`read`] says what a file has, with its references (`${VAR}`) as they stand; [`Launch::expand`] replaces
//! them when a server is started. Deliberately absent: finding the files, the environment, and asking people.

mod env_file;
mod expand;
mod jsonc;
mod names;
mod product;
mod servers;
mod tables;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use crate::ToolFilter;
use crate::upstream::UrlTransport;

pub use env_file::EnvFileError;
pub use expand::{ExpandError, Surroundings, VariableReference, Why};
pub use jsonc::TextPosition;
pub use names::TakenNames;
pub use product::Product;
pub use servers::read;

/// What a file has.
#[derive(Debug, Default)]
pub struct Import {
    /// Its servers, in their order.
    pub servers: Vec<Imported>,
    /// What it wants to ask people.
    pub inputs: Vec<ImportInput>,
    /// Servers that cannot be used. The others are not touched by that.
    pub refused: Vec<ImportError>,
    /// What was left out or may surprise.
    pub warnings: Vec<Warning>,
}

/// One server of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// What the file calls it.
    pub name: String,
    /// Where it stands.
    pub position: TextPosition,
    /// How to reach it.
    pub launch: Launch,
    /// How long a call may take, where it says so.
    pub timeout: Option<Duration>,
    /// Which of its tools may be used.
    pub tools: ToolFilter,
    /// Whether it is switched off there.
    pub disabled: bool,
}

/// How to reach a server, as it is written: references are not replaced yet.
#[derive(Clone, PartialEq, Eq)]
pub enum Launch {
    /// Start a program.
    Command {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Added to the environment, overriding `env_file`.
        env: Vec<(String, String)>,
        /// Where it runs.
        cwd: Option<String>,
        /// A file with more for its environment.
        env_file: Option<String>,
    },
    /// Call a URL.
    Url {
        /// The address.
        url: String,
        /// Sent with every request.
        headers: Vec<(String, String)>,
        /// Which transport, where it is given.
        transport: UrlTransport,
    },
}

/// Arguments, environment, headers and URLs often hold secrets, so none of them can be printed.
impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command { command, .. } => {
                f.debug_struct("Command").field("command", command).finish_non_exhaustive()
            }
            Self::Url { transport, .. } => f.debug_struct("Url").field("transport", transport).finish_non_exhaustive(),
        }
    }
}

/// Something a file wants to ask people, for `${input:ID}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportInput {
    /// What it is referred to by.
    pub id: String,
    /// What it is, for people.
    pub description: Option<String>,
    /// Whether the answer must not be seen.
    pub password: bool,
    /// The answer of who gives none.
    pub default: Option<String>,
    /// The answers there are; empty where any will do.
    pub options: Vec<String>,
}

/// Why a file, or a server in it, cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{position}: {message}")]
pub struct ImportError {
    /// Where.
    pub position: TextPosition,
    pub message: String,
}

/// Something in a file that is left out or may surprise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Where.
    pub position: TextPosition,
    /// What.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.position, self.message)
    }
}
