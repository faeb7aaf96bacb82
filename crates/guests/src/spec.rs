//! What a guest is, and the status that its owner gets.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use salon_client::{Backoff, End, JoinError};

use crate::ToolFilter;
use crate::oauth::{AuthorizationError, OAuthOptions};
use crate::upstream::{GuestTarget, GuestUser, UpstreamError, Watcher};

/// An MCP server to be brought into a room.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The server.
    pub target: GuestTarget,
    /// Gives every caller an upstream of its own. Otherwise only callers have one that ask for it.
    pub isolated: bool,
    /// What of it the room may use.
    pub expose: Expose,
    /// Which of its tools the room may use.
    pub tools: ToolFilter,
    /// How long a call may go on without progress, and how long starting may take.
    pub timeout: Duration,
    /// What log lines call it.
    pub name: String,
    /// A process that ends the guest's children when this process is gone without a word.
    pub watcher: Option<Watcher>,
    /// Whom its children run as, if not as us.
    pub user: Option<GuestUser>,
    /// Whether the server is started again when it is lost.
    pub restarts: RestartPolicy,
    /// How long to wait before the server is started again.
    pub backoff: Backoff,
    /// How a server behind OAuth is signed in to. Without it, 401 is an error like any other.
    pub oauth: Option<OAuthOptions>,
}

impl Spec {
    /// A guest with everything it has, shared by its callers.
    pub fn new(name: impl Into<String>, target: GuestTarget) -> Self {
        Self {
            target,
            isolated: false,
            expose: Expose::default(),
            tools: ToolFilter::default(),
            timeout: Duration::from_secs(60),
            name: name.into(),
            watcher: None,
            user: None,
            restarts: RestartPolicy::default(),
            backoff: Backoff::default(),
            oauth: None,
        }
    }
}

/// Whether a server that is lost, or does not come, is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RestartPolicy {
    /// Whatever happened: what keeps it away may pass.
    #[default]
    Always,
    /// Once it has worked. Before that, only where the cause can pass by itself.
    OnceStarted,
    /// Not at all.
    Never,
}

/// Which of a server's features the room may use. `FromStr` reads a list such as `tools,prompts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expose {
    /// Tools.
    pub tools: bool,
    /// Resources, their templates and their updates.
    pub resources: bool,
    /// Prompts.
    pub prompts: bool,
}

impl Default for Expose {
    fn default() -> Self {
        Self { tools: true, resources: true, prompts: true }
    }
}

impl Expose {
    /// Whether requests about a feature (the part of a method before its `/`) may pass.
    pub(crate) fn admits(self, feature: &str) -> bool {
        match feature {
            "tools" => self.tools,
            "resources" => self.resources,
            "prompts" => self.prompts,
            _ => true,
        }
    }

    /// Whether a server's capability may be announced.
    pub(crate) fn admits_capability(self, capability: &str) -> bool {
        match capability {
            "completions" => self.resources || self.prompts,
            other => self.admits(other),
        }
    }
}

impl FromStr for Expose {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut expose = Self { tools: false, resources: false, prompts: false };
        for word in text.split(',').map(str::trim) {
            match word {
                "tools" => expose.tools = true,
                "resources" => expose.resources = true,
                "prompts" => expose.prompts = true,
                other => return Err(format!("`{other}` is not one of tools, resources, prompts")),
            }
        }
        Ok(expose)
    }
}

impl fmt::Display for Expose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [(self.tools, "tools"), (self.resources, "resources"), (self.prompts, "prompts")];
        let words: Vec<_> = words.iter().filter(|(shown, _)| *shown).map(|(_, word)| *word).collect();
        f.write_str(&words.join(","))
    }
}

/// What a guest is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuestStatus {
    /// Its server is being started.
    Starting,
    /// It is in the room.
    Here {
        /// What the server calls itself, with its version where it has one.
        server: String,
        /// How many tools it offers. Reported again when that changes.
        tools: usize,
    },
    /// Its connection to the gateway is lost; it comes back by itself.
    Away { why: String },
    /// It is in the room again.
    Back,
    /// It is not in the room and will be started again.
    Restarting {
        /// After this long.
        in_: Duration,
        why: String,
    },
    /// Somebody has to sign in to its server before it can come in, or before it can do all it is asked to.
    SignInNeeded {
        /// The server's address, without its query.
        url: String,
        why: String,
        /// Whether it is in the room meanwhile.
        stays: bool,
    },
    /// It has left, as it was asked to.
    Ended,
}

/// Why a guest's stay ended for good.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// There is nothing to start.
    #[error("`{name}` cannot be brought in: {why}")]
    Unusable {
        /// The guest.
        name: String,
        why: UpstreamError,
    },
    /// Its server is lost, or does not come, and is not started again.
    #[error("`{name}` cannot be brought in: {why}")]
    GivenUp {
        /// The guest.
        name: String,
        why: String,
    },
    /// The room cannot be entered, and trying again would not help.
    #[error("`{name}` cannot enter the room: {why}")]
    Join {
        /// The guest.
        name: String,
        /// The gateway's error.
        why: JoinError,
    },
    /// Nobody signed in to its server.
    #[error("`{name}` cannot be brought in: {why}")]
    SignIn {
        /// The guest.
        name: String,
        why: AuthorizationError,
    },
    /// The seat is lost.
    #[error("`{name}` lost its seat: {why}")]
    Seat {
        /// The guest.
        name: String,
        /// How.
        why: End,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_exposed_is_read_from_a_list() {
        let read = |text: &str| text.parse::<Expose>().map_or_else(|why| why, |expose| expose.to_string());
        assert_eq!(read("prompts, tools"), "tools,prompts");
        assert_eq!(read("tools,rooms"), "`rooms` is not one of tools, resources, prompts");
        assert_eq!(Expose::default().to_string(), "tools,resources,prompts");
    }
}
